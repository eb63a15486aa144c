/* SPDX-License-Identifier: MIT */
/* Cost curves, and the lines of the file that stores them. */
#include <math.h>
#include <string.h>

#include "plan/cost/costs.h"
#include "plan/cost/file.h"
#include "support/harness/test.h"

static const uint64_t key = UINT64_C(0x0123456789abcdef);

static device_costs sample(double scale) {
  device_costs c = {.source = COMPUTE_COSTS_MEASURED, .launch = 1e-6 * scale, .wait = 2e-6 * scale};
  c.curve[WORK_STREAM] = (cost_curve){
      .count = 3, .work = {1e4, 1e6, 1e8}, .seconds = {1e-6 * scale, 2e-5 * scale, 1e-2 * scale}};
  c.curve[WORK_GEMM_F32] =
      (cost_curve){.count = 2, .work = {1e5, 1e9}, .seconds = {3e-6 * scale, 1e-2 * scale}};
  c.curve[WORK_UPLOAD] =
      (cost_curve){.count = 2, .work = {4096, 1e7}, .seconds = {1e-5 * scale, 1e-3 * scale}};
  return c;
}

static void assert_close(double a, double b) {
  assert_true(fabs(a - b) <= 1e-6 * fabs(b));
}

static void curves_pass_through_their_points(void **state) {
  (void)state;
  device_costs c = sample(1);
  assert_close(costs_curve_seconds(&c, WORK_STREAM, 0), 1e-6);
  assert_close(costs_curve_seconds(&c, WORK_STREAM, 1e6), 2e-5);
  assert_close(costs_curve_seconds(&c, WORK_STREAM, 1e8), 1e-2);
  assert_close(costs_copy_seconds(&c, true, 1), 1e-5); /* the latency */
  assert_close(costs_copy_seconds(&c, true, 1e7), 1e-3);
  assert_close(costs_curve_rate(&c.curve[WORK_GEMM_F32]), 1e11);
}

static void time_never_falls_as_work_grows(void **state) {
  (void)state;
  device_costs c = sample(1), guess;
  compute_device_info info = {.type = COMPUTE_DEVICE_GPU, .compute_units = 100};
  costs_guess(&info, &guess);
  costs_complete(&guess, &c);
  for (work_class class = 0; class < WORK_CLASSES; class ++)
    for (double work = 1, before = 0; work < 1e12; work *= 1.3) {
      double seconds = costs_curve_seconds(&c, class, work);
      assert_true(isfinite(seconds) && seconds > 0 && seconds >= before);
      before = seconds;
    }
}

static void what_was_not_measured_is_told_from_what_was(void **state) {
  (void)state;
  device_costs c = sample(1), guess;
  compute_device_info info = {.type = COMPUTE_DEVICE_CPU, .compute_units = 2, .vector_width = 16};
  costs_guess(&info, &guess);
  assert_int_equal(guess.source, COMPUTE_COSTS_GUESSED);
  costs_complete(&guess, &c);
  assert_int_equal(c.guessed >> WORK_STREAM & 1, 0);
  assert_int_equal(c.guessed >> WORK_GEMM_F64 & 1, 1);
  assert_close(costs_curve_rate(&c.curve[WORK_GEMM_F64]), 5e10); /* half of f32 */
  assert_close(costs_curve_rate(&c.curve[WORK_DOWNLOAD]), costs_curve_rate(&c.curve[WORK_UPLOAD]));
}

static bool same(const device_costs *a, const device_costs *b) {
  if (fabs(a->launch - b->launch) > 2e-12 || fabs(a->wait - b->wait) > 2e-12) return false;
  for (int class = 0; class < WORK_CLASSES; class ++) {
    const cost_curve *x = &a->curve[class], *y = &b->curve[class];
    if (x->count != y->count) return false;
    for (uint32_t i = 0; i < x->count; i++)
      if (x->work[i] != y->work[i] || fabs(x->seconds[i] - y->seconds[i]) > 2e-12) return false;
  }
  return true;
}

static void a_line_is_read_as_it_was_written(void **state) {
  (void)state;
  char line[COSTS_LINE_BYTES];
  device_costs c = sample(1), read;
  size_t length = costs_line_print(key, "A Model (2)", &c, line);
  assert_int_equal(line[length - 1], '\n');
  assert_true(costs_line_parse(line, length - 1, key, &read));
  assert_int_equal(read.source, COMPUTE_COSTS_STORED);
  assert_true(same(&c, &read));
  assert_false(costs_line_parse(line, length - 1, key + 1, &read));
}

static void a_line_with_any_byte_changed_is_none(void **state) {
  (void)state;
  char line[COSTS_LINE_BYTES];
  device_costs c = sample(1), read;
  size_t length = costs_line_print(key, "m", &c, line) - 1;
  for (size_t i = 0; i < length; i++) {
    char before = line[i];
    line[i] = (char)(before ^ 1);
    assert_false(costs_line_parse(line, length, key, &read));
    line[i] = before;
    assert_false(costs_line_parse(line, i, key, &read));
  }
}

static void a_full_set_of_points_fits_into_a_line(void **state) {
  (void)state;
  char line[COSTS_LINE_BYTES], model[200];
  device_costs c = {.launch = 999, .wait = 999}, read;
  memset(model, '~', sizeof model);
  model[sizeof model - 1] = '\0';
  for (int class = 0; class < WORK_CLASSES; class ++)
    c.curve[class] =
        (cost_curve){.count = COSTS_POINTS,
                     .work = {1e14 + 1, 1e14 + 2, 1e14 + 3, 1e14 + 4, 1e14 + 5, 1e14 + 6},
                     .seconds = {900, 901, 902, 903, 904, 905}};
  size_t length = costs_line_print(key, model, &c, line);
  assert_true(length < COSTS_LINE_BYTES - 1);
  assert_true(costs_line_parse(line, length - 1, key, &read));
}

/* Invalid lines are skipped; the last valid one counts. */
static void the_last_good_line_counts(void **state) {
  (void)state;
  char text[4 * COSTS_LINE_BYTES];
  device_costs first = sample(1), second = sample(2), other = sample(3), found;
  size_t used = costs_line_print(key, "m", &first, text);
  used += costs_line_print(key + 1, "other", &other, text + used);
  memcpy(text + used, "costs 1 half a li", 17); /* its writer died */
  used += 17;
  used += costs_line_print(key, "m", &second, text + used);
  assert_true(costs_text_find(text, used, key, &found));
  assert_true(same(&found, &second));
  text[used - 4] ^= 1; /* damaged: the line before takes effect */
  assert_true(costs_text_find(text, used, key, &found));
  assert_true(same(&found, &first));
  assert_false(costs_text_find(text, used, key + 2, &found));
  assert_false(costs_text_find("", 0, key, &found));
}

/* ---- The work of kernels --------------------------------------------------------------------- */

/* Copies [rows, columns] out of rows that are twice as long. */
static kernel_work copy_work(int64_t rows, int64_t columns) {
  const compute_operand in = {.dtype = COMPUTE_F32, .stride = {2 * columns, 1}};
  const compute_operand out = {.dtype = COMPUTE_F32, .stride = {columns, 1}};
  return kernel_work_of(
      &(compute_kernel_descriptor){.struct_size = sizeof(compute_kernel_descriptor),
                                   .kind = COMPUTE_KERNEL_COPY,
                                   .rank = 2,
                                   .size = {rows, columns},
                                   .inputs = &in,
                                   .outputs = &out,
                                   .input_count = 1,
                                   .output_count = 1});
}

/* Gathers rows of a matrix, with an index for each row or for each element. */
static kernel_work gather_work(int64_t rows, int64_t columns, bool each) {
  const compute_operand in[] = {{.dtype = COMPUTE_F32, .stride = {0, 1}},
                                {.dtype = COMPUTE_I64, .stride = {each ? columns : 1, each}}};
  const compute_operand out = {.dtype = COMPUTE_F32, .stride = {columns, 1}};
  const compute_index_attributes index = {.axis_size = 100, .axis_stride = columns};
  return kernel_work_of(
      &(compute_kernel_descriptor){.struct_size = sizeof(compute_kernel_descriptor),
                                   .kind = COMPUTE_KERNEL_GATHER,
                                   .rank = 2,
                                   .size = {rows, columns},
                                   .inputs = in,
                                   .outputs = &out,
                                   .input_count = 2,
                                   .output_count = 1,
                                   .attributes = &index});
}

static void short_runs_are_work(void **state) {
  (void)state;
  device_costs c = sample(1);
  c.curve[WORK_RUN] = (cost_curve){.count = 1, .work = {1e6}, .seconds = {1e-2}};
  c.curve[WORK_GATHER] = (cost_curve){.count = 1, .work = {16e6}, .seconds = {1e-2}};
  const kernel_work narrow = copy_work(1000000, 2), wide = copy_work(2, 1000000);
  assert_close(narrow.runs, 1e6);
  assert_close(wide.runs, 2);
  assert_true(costs_kernel_seconds(&c, &narrow) > 0.9e-2);
  assert_true(costs_kernel_seconds(&c, &wide) < 0.5e-2);
  /* An index for a row of 1000 elements is one access. */
  const kernel_work rows = gather_work(1000, 1000, false), singles = gather_work(1000, 1000, true);
  assert_close(rows.singles, 16e3);
  assert_close(singles.singles, 16e6);
  assert_true(costs_kernel_seconds(&c, &rows) < costs_kernel_seconds(&c, &singles) / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(curves_pass_through_their_points),
      cmocka_unit_test(time_never_falls_as_work_grows),
      cmocka_unit_test(what_was_not_measured_is_told_from_what_was),
      cmocka_unit_test(a_line_is_read_as_it_was_written),
      cmocka_unit_test(a_line_with_any_byte_changed_is_none),
      cmocka_unit_test(a_full_set_of_points_fits_into_a_line),
      cmocka_unit_test(the_last_good_line_counts),
      cmocka_unit_test(short_runs_are_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
