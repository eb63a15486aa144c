/* SPDX-License-Identifier: MIT */
/* Two independent verdicts on a record: correct or not, and fast enough or not. A wrong record is a
 * failure. One that is only slower than its goal is a miss, which is shown with the goal and
 * affects the exit status only with --strict. */
#ifndef BENCH_JUDGE_H
#define BENCH_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/status.h"

typedef struct bench_record bench_record;

/* A number and its limit. */
typedef struct bench_bound {
  const char *what; /* "error", "time / longest part"; NULL: no number was checked */
  const char *unit; /* "bytes"; "" for a plain number */
  double seen, allowed;
  bool least; /* `allowed` is the minimum, not the maximum */
} bench_bound;

/* The verdicts on a record. */
typedef struct bench_verdict {
  bool wrong;
  bench_bound failure; /* the first bound that a wrong record exceeded */
  char words[240];     /* the failure as text, with its numbers if any */
  bench_bound goal;    /* the target time or rate */
} bench_verdict;

/* Whether it holds. NaN never does. */
bool bench_bound_holds(const bench_bound *bound);

/* "error 3.2e-02, at most 1.0e-06 allowed", or for a goal "…, goal: at most …". Returns `text`. */
const char *bench_bound_text(const bench_bound *bound, bool is_goal, char *text, size_t bytes);

/* Each fails the record if the check does not hold; the first failure is kept. */
void bench_require_most(bench_record *record, const char *what, const char *unit, double seen,
                        double allowed);
void bench_require_least(bench_record *record, const char *what, const char *unit, double seen,
                         double allowed);
void bench_require(bench_record *record, bool good, const char *words, ...) COMPUTE_PRINTF(3, 4);

/* Sets the record's goal for its time. */
void bench_aim(bench_record *record, const char *what, const char *unit, double seen,
               double allowed);

/* Whether the record has a goal and missed it. */
bool bench_record_missed(const bench_record *record);

#endif
