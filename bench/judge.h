/* SPDX-License-Identifier: MIT */
/* Right or wrong, and fast enough or not: two verdicts that have nothing to do with each other. A
 * record that is wrong is a failure. One that is only slower than its goal is a miss, which is
 * shown with the goal and never affects an exit status unless --strict asks for that. */
#ifndef BENCH_JUDGE_H
#define BENCH_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/status.h"

typedef struct bench_record bench_record;

/* A number and what it may be. */
typedef struct bench_bound {
  const char *what; /* "error", "time / longest part"; NULL: no number was checked */
  const char *unit; /* "bytes"; "" for a plain number */
  double seen, allowed;
  bool least; /* `allowed` is the least, not the most */
} bench_bound;

/* What a record is worth. */
typedef struct bench_verdict {
  bool wrong;
  bench_bound failure; /* the first bound that a wrong record exceeded */
  char words[240];     /* the failure in words, with its numbers if it has any */
  bench_bound goal;    /* a time or rate to reach */
} bench_verdict;

/* Whether it holds. NaN never does. */
bool bench_bound_holds(const bench_bound *bound);

/* "error 3.2e-02, at most 1.0e-06 allowed", or for a goal "…, goal: at most …". Returns `text`. */
const char *bench_bound_text(const bench_bound *bound, bool is_goal, char *text, size_t bytes);

/* Each makes the record wrong if the result is not as it must be; the first failure is kept. */
void bench_require_most(bench_record *record, const char *what, const char *unit, double seen,
                        double allowed);
void bench_require_least(bench_record *record, const char *what, const char *unit, double seen,
                         double allowed);
void bench_require(bench_record *record, bool good, const char *words, ...) COMPUTE_PRINTF(3, 4);

/* The time that the record hopes to keep to. */
void bench_aim(bench_record *record, const char *what, const char *unit, double seen,
               double allowed);

/* Whether the record has a goal and missed it. */
bool bench_record_missed(const bench_record *record);

#endif
