/* SPDX-License-Identifier: MIT */
/* A wrong result is not a slow result: the verdicts of compute-bench for a number and its
 * tolerance. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "support/harness/test.h"

static void a_bound_holds_up_to_what_is_allowed(void **state) {
  (void)state;
  const bench_bound most = {"error", "", 0, 2, false}, least = {"fraction", "", 0, 2, true};
  const struct {
    double seen;
    bool at_most, at_least;
  } cases[] = {{1, true, false},        {2, true, true},   {3, false, true},
               {INFINITY, false, true}, {-5, true, false}, {NAN, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench_bound a = most, b = least;
    a.seen = b.seen = cases[i].seen;
    assert_int_equal(bench_bound_holds(&a), cases[i].at_most);
    assert_int_equal(bench_bound_holds(&b), cases[i].at_least);
  }
}

static void the_first_failure_is_kept(void **state) {
  (void)state;
  bench_record r = {0};
  bench_require_most(&r, "error", "", 1e-7, 1e-6);
  bench_require_least(&r, "converged fraction", "", 1, 0.99);
  bench_require(&r, true, "nothing");
  assert_false(r.verdict.wrong);
  bench_require_least(&r, "converged fraction", "", 0.5, 0.99);
  bench_require_most(&r, "error", "", 1, 1e-6);
  bench_require(&r, false, "the process failed");
  assert_true(r.verdict.wrong);
  assert_string_equal(r.verdict.words, "converged fraction 0.500, at least 0.990 allowed");
  assert_string_equal(r.verdict.failure.what, "converged fraction");
  assert_true(r.verdict.failure.seen == 0.5 && r.verdict.failure.allowed == 0.99);
}

static void a_result_that_is_no_number_is_wrong(void **state) {
  (void)state;
  bench_record r = {0};
  bench_require_most(&r, "error", "", NAN, 1e-6);
  assert_true(r.verdict.wrong);
  assert_string_equal(r.verdict.words, "error not a number, at most 1.00e-06 allowed");
}

static void words_alone_may_fail(void **state) {
  (void)state;
  bench_record r = {0};
  bench_require(&r, false, "%d files are missing", 3);
  assert_true(r.verdict.wrong);
  assert_string_equal(r.verdict.words, "3 files are missing");
  assert_null(r.verdict.failure.what);
}

static void a_missed_goal_is_not_wrong(void **state) {
  (void)state;
  char text[200];
  bench_record r = {0};
  assert_false(bench_record_missed(&r)); /* there is none */
  bench_aim(&r, "time / longest part", "", 1.05, 1.1);
  assert_false(bench_record_missed(&r));
  bench_aim(&r, "time / longest part", "", 1.14, 1.1);
  assert_true(bench_record_missed(&r));
  assert_false(r.verdict.wrong);
  assert_string_equal(bench_bound_text(&r.verdict.goal, true, text, sizeof text),
                      "time / longest part 1.140, goal: at most 1.100");
  bench_bound memory = {"peak memory", "bytes", 1234567890, 1e9, false};
  assert_string_equal(bench_bound_text(&memory, false, text, sizeof text),
                      "peak memory 1234567890 bytes, at most 1000000000 bytes allowed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bound_holds_up_to_what_is_allowed),
      cmocka_unit_test(the_first_failure_is_kept),
      cmocka_unit_test(a_result_that_is_no_number_is_wrong),
      cmocka_unit_test(words_alone_may_fail),
      cmocka_unit_test(a_missed_goal_is_not_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
