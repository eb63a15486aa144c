/* SPDX-License-Identifier: MIT */
/* See judge.h. */
#include "judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "bench.h"

bool bench_bound_holds(const bench_bound *bound) {
  return bound->least ? bound->seen >= bound->allowed : bound->seen <= bound->allowed;
}

/* Large numbers, such as bytes, with all digits; small ones in the most readable form. */
static void number_text(double value, const char *unit, char *text, size_t bytes) {
  const char *space = unit[0] ? " " : "";
  if (isnan(value))
    snprintf(text, bytes, "not a number");
  else if (value == floor(value) && fabs(value) < 1e15)
    snprintf(text, bytes, "%.0f%s%s", value, space, unit);
  else
    snprintf(text, bytes, fabs(value) < 1e-3 || fabs(value) >= 1e6 ? "%.2e%s%s" : "%.3f%s%s", value,
             space, unit);
}

const char *bench_bound_text(const bench_bound *bound, bool is_goal, char *text, size_t bytes) {
  char seen[48], allowed[48];
  const char *side = bound->least ? "at least" : "at most";
  number_text(bound->seen, bound->unit, seen, sizeof seen);
  number_text(bound->allowed, bound->unit, allowed, sizeof allowed);
  if (is_goal)
    snprintf(text, bytes, "%s %s, goal: %s %s", bound->what, seen, side, allowed);
  else
    snprintf(text, bytes, "%s %s, %s %s allowed", bound->what, seen, side, allowed);
  return text;
}

static void require_bound(bench_record *record, bench_bound bound) {
  bench_verdict *v = &record->verdict;
  if (v->wrong || bench_bound_holds(&bound)) return;
  v->wrong = true;
  v->failure = bound;
  bench_bound_text(&bound, false, v->words, sizeof v->words);
}

void bench_require_most(bench_record *record, const char *what, const char *unit, double seen,
                        double allowed) {
  require_bound(record, (bench_bound){what, unit, seen, allowed, false});
}

void bench_require_least(bench_record *record, const char *what, const char *unit, double seen,
                         double allowed) {
  require_bound(record, (bench_bound){what, unit, seen, allowed, true});
}

void bench_require(bench_record *record, bool good, const char *words, ...) {
  va_list list;
  if (good || record->verdict.wrong) return;
  record->verdict.wrong = true;
  va_start(list, words);
  vsnprintf(record->verdict.words, sizeof record->verdict.words, words, list);
  va_end(list);
}

void bench_aim(bench_record *record, const char *what, const char *unit, double seen,
               double allowed) {
  record->verdict.goal = (bench_bound){what, unit, seen, allowed, false};
}

bool bench_record_missed(const bench_record *record) {
  return record->verdict.goal.what && !bench_bound_holds(&record->verdict.goal);
}
