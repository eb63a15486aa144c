/* SPDX-License-Identifier: MIT */
/* Which fits are written: those of the wanted statuses for which the condition of --where holds.
 * The condition names columns as a .npy has them, in pixels and photons, whatever the format of
 * the output. */
#ifndef TOOLS_FIT_SELECTION_H
#define TOOLS_FIT_SELECTION_H

#include "programs/fit/columns.h"
#include "programs/fit/expression.h"

typedef struct selection {
  uint32_t statuses; /* bit i: fits of compute_fit_status i */
  expression *where; /* NULL: all */
  column_set columns;
} selection;

/* Bits of the statuses in a list such as "converged,at-bound"; "all": every one. 0 for a word that
 * is none. */
uint32_t selection_statuses(const char *list);

/* Reads the condition, which may be NULL. `options` are those of the output. */
compute_status selection_make(const results_options *options, uint32_t statuses, const char *where,
                              selection *made, failure *why);
void selection_release(selection *s);

/* Chooses from the results `first` to `end` the next ones to write, up to MAX_ROWS, into *some;
 * `all` names the arrays. Returns where to continue. Thread-safe. */
int64_t selection_choose(const selection *s, const column_rows *all, int64_t first, int64_t end,
                         column_rows *some);

#endif
