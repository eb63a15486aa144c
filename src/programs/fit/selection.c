/* SPDX-License-Identifier: MIT */
/* See selection.h. */
#include "programs/fit/selection.h"

#include <stdlib.h>
#include <string.h>

uint32_t selection_statuses(const char *list) {
  static const struct {
    const char *word;
    uint32_t bits;
  } known[] = {{"all", (1u << COMPUTE_FIT_STATUS_COUNT) - 1},
               {"converged", 1u << COMPUTE_FIT_CONVERGED},
               {"max-iterations", 1u << COMPUTE_FIT_MAX_ITERATIONS},
               {"at-bound", 1u << COMPUTE_FIT_AT_BOUND},
               {"singular", 1u << COMPUTE_FIT_SINGULAR},
               {"bad-data", 1u << COMPUTE_FIT_BAD_DATA}};
  const size_t count = sizeof known / sizeof *known;
  uint32_t statuses = 0;
  while (list && *list) {
    const size_t length = strcspn(list, ",");
    size_t i = 0;
    while (i < count && (strlen(known[i].word) != length || strncmp(known[i].word, list, length)))
      i++;
    if (i == count) return 0;
    statuses |= known[i].bits;
    list += length + (list[length] == ',');
  }
  return statuses;
}

static int32_t find_column(const void *table, const char *name, size_t length) {
  const column_set *set = table;
  for (int32_t i = 0; i < set->count; i++)
    if (strlen(set->columns[i].name) == length && !strncmp(set->columns[i].name, name, length))
      return set->columns[i].side ? -1 : i;
  return -1;
}

static const char *name_of(const void *table, int32_t index) {
  const column_set *set = table;
  return index < set->count ? set->columns[index].name : NULL;
}

compute_status selection_make(const results_options *options, uint32_t statuses, const char *where,
                              selection *made, failure *why) {
  results_options named = *options;
  named.format = RESULTS_NPY;
  named.significance = (options->problem->outputs & COMPUTE_FIT_SIGNIFICANCE) != 0;
  *made = (selection){.statuses = statuses};
  columns_make(&named, &made->columns);
  if (!where) return COMPUTE_OK;
  const expression_names names = {&made->columns, find_column, name_of};
  return expression_parse(where, &names, &made->where, why);
}

void selection_release(selection *s) {
  free(s->where);
  s->where = NULL;
}

typedef struct chosen_rows {
  const column_set *columns;
  const column_rows *rows;
} chosen_rows;

static void take_values(const void *rows, int32_t index, double *values) {
  const chosen_rows *chosen = rows;
  column_values(chosen->columns, &chosen->columns->columns[index], chosen->rows, values);
}

/* Keeps the rows that meet the condition. */
static void apply_condition(const selection *s, column_rows *some) {
  double holds[MAX_ROWS];
  const chosen_rows chosen = {&s->columns, some};
  int32_t kept = 0;
  expression_evaluate(s->where, some->count, take_values, &chosen, holds);
  for (int32_t i = 0; i < some->count; i++)
    if (holds[i] != 0 && holds[i] == holds[i]) some->index[kept++] = some->index[i];
  some->count = kept;
}

int64_t selection_choose(const selection *s, const column_rows *all, int64_t first, int64_t end,
                         column_rows *some) {
  const uint8_t *status = all->results->status;
  *some = (column_rows){all->results, all->corners, all->roi, all->frame, 0, {0}};
  for (; first < end && some->count < MAX_ROWS; first++)
    if (!status || s->statuses >> status[first] & 1) some->index[some->count++] = first;
  if (s->where && some->count > 0) apply_condition(s, some);
  return first;
}
