/* SPDX-License-Identifier: MIT */
#include "model/operators/operators.h"

#include <string.h>

static const operator_family *const families[] = {
#define FAMILY(name) &operators_##name,
    OPERATOR_FAMILIES(FAMILY)
#undef FAMILY
};

enum { FAMILY_COUNT = sizeof families / sizeof *families };

model_rule operator_find(const char *domain, const char *name, int64_t version) {
  const operator_row *best = NULL;
  for (size_t i = 0; i < FAMILY_COUNT; i++)
    for (size_t k = 0; k < families[i]->count; k++) {
      const operator_row *row = &families[i]->rows[k];
      if (row->name[0] == name[0] && row->first <= version && (!best || row->first > best->first) &&
          strcmp(row->name, name) == 0 && strcmp(row->domain, domain) == 0)
        best = row;
    }
  return best ? best->rule : NULL;
}

const operator_row *operator_at(size_t index) {
  for (size_t i = 0; i < FAMILY_COUNT; i++) {
    if (index < families[i]->count) return &families[i]->rows[index];
    index -= families[i]->count;
  }
  return NULL;
}
