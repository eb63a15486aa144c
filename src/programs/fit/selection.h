/* SPDX-License-Identifier: MIT */
/* The selection of fits to write: by status, and by the condition of --where. The condition uses
 * the column names and units (pixels and photons) of a .npy, whatever the format of the output. */
#ifndef TOOLS_FIT_SELECTION_H
#define TOOLS_FIT_SELECTION_H

#include "programs/fit/columns.h"
#include "programs/fit/expression.h"

typedef struct selection {
  uint32_t statuses; /* bit i: fits of compute_fit_status i */
  expression *where; /* NULL: all */
  column_set columns;
} selection;

/* The bits of the statuses in a list such as "converged,at-bound", or of all for "all". 0 if a word
 * is not a status. */
uint32_t selection_statuses(const char *list);

/* Parses the condition, which may be NULL. `options` are the options of the output. */
compute_status selection_make(const results_options *options, uint32_t statuses, const char *where,
                              selection *made, failure *why);
void selection_release(selection *s);

/* Selects up to MAX_ROWS results to write, from `first` to `end` (exclusive), into *some. `all` has
 * the arrays. Returns the index to continue at. Thread-safe. */
int64_t selection_choose(const selection *s, const column_rows *all, int64_t first, int64_t end,
                         column_rows *some);

#endif
