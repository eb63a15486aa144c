/* SPDX-License-Identifier: MIT */
/* Columns and values of a table. */
#include "programs/fit/table.h"

#include <stdlib.h>
#include <string.h>

void table_release(table *t) {
  free(t->values);
  free(t->history);
  *t = (table){0};
}

/* ---- Columns ------------------------------------------------------------------------------- */

const table_column *table_find(const table *t, const char *name) {
  const size_t length = strlen(name);
  for (int32_t i = 0; i < t->count; i++) {
    const char *own = t->columns[i].name;
    if (!strncmp(own, name, length) && (!own[length] || !strncmp(own + length, " [", 2)))
      return &t->columns[i];
  }
  return NULL;
}

bool table_in_nm(const table *t) {
  const table_column *x = table_find(t, "x");
  return x && strstr(x->name, "[nm]");
}

compute_status table_describe(table *t, const char *path, const char *name, size_t length,
                              column_type type, failure *why) {
  if (t->count == TABLE_MOST_COLUMNS || length >= TABLE_NAME_BYTES || length == 0)
    return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, NULL,
                       "%s: column %d: there may be %d columns, with names of up to %d characters",
                       path, (int)t->count + 1, TABLE_MOST_COLUMNS, TABLE_NAME_BYTES - 1);
  table_column *c = &t->columns[t->count++];
  *c = (table_column){.type = type, .first = t->stride++, .decimals = COLUMN_SHORT};
  memcpy(c->name, name, length);
  return COMPUTE_OK;
}

compute_status table_allocate(table *t, const char *path, int64_t rows, failure *why) {
  size_t values;
  t->rows = rows;
  if (!__builtin_mul_overflow((size_t)rows, (size_t)t->stride, &values) && values < SIZE_MAX)
    t->values = calloc(values + 1, sizeof *t->values);
  if (t->values) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the table %s",
                     path);
}

void table_make_real(table_column *c) {
  if (c->type == TYPE_F32 || c->type == TYPE_F64) return;
  c->type = TYPE_F64;
  c->decimals = COLUMN_SHORT;
}
