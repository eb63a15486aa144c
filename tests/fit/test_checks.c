/* SPDX-License-Identifier: MIT */
/* A fitter refuses invalid options and runs. The message names the error, and no result has been
 * written. */
#include "fit_fixture.h"

enum { N = 100 };

static float stack[N * PIXELS];

static int open_group(void **state) {
  if (test_group_open(state) != 0) return -1;
  make_stack(stack, N);
  return 0;
}

static compute_status read_stack(void *user, int64_t first, int64_t items, void *data,
                                 int64_t *count) {
  const int64_t end = *(const int64_t *)user;
  *count = items < end - first ? items : end - first;
  memcpy(data, stack + first * PIXELS, (size_t)*count * PIXELS * sizeof *stack);
  return COMPUTE_OK;
}

static compute_status write_nothing(void *user, int64_t first, int64_t count,
                                    const compute_fit_results *results, const int32_t *corners,
                                    int64_t next_frame) {
  (void)user;
  (void)first;
  (void)count;
  (void)results;
  (void)corners;
  (void)next_frame;
  return COMPUTE_OK;
}

static void options_are_checked_before_any_work(void **state) {
  (void)state;
  static const float map[PIXELS];
  compute_fit *fit;
#define REFUSED(status, part, ...)                                                                 \
  do {                                                                                             \
    compute_fit_options o = {.problem = small_problem()};                                          \
    __VA_ARGS__;                                                                                   \
    assert_fails(compute_fit_create(test_context, &o, &fit), (status));                            \
    test_check_message(test_context, (part));                                                      \
    assert_null(fit);                                                                              \
  } while (0)
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "sigma[0]", o.problem.sigma[0] = 0);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "inputs", o.problem.inputs = COMPUTE_FIT_WITH_SIGMA);
  REFUSED(COMPUTE_ERROR_DTYPE, "dtype", o.dtype = COMPUTE_F64);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "frame_rows", o.frame_rows = 100);
  REFUSED(COMPUTE_ERROR_SHAPE, "frame_rows", o.frame_rows = ROWS - 1, o.frame_columns = 100);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "find", o.find = true);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "ideal",
          o.offset = (compute_fit_map){map, ROWS, COLUMNS});
  REFUSED(COMPUTE_ERROR_SHAPE, "gain", o.problem.camera = COMPUTE_FIT_SCMOS,
          o.gain = (compute_fit_map){map, COLUMNS, ROWS});
  REFUSED(COMPUTE_ERROR_SHAPE, "mask", o.mask = (const uint8_t *)map, o.mask_rows = 1,
          o.mask_columns = PIXELS);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "reserved", o.reserved[3] = 1);
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "slots", o.slots = 17);
#undef REFUSED
  assert_fails(compute_fit_create(NULL, NULL, &fit), COMPUTE_ERROR_NULL_POINTER);
}

static void runs_are_checked_before_any_work(void **state) {
  (void)state;
  static float covariance[N * 16];
  static int32_t corners[3 * N];
  int64_t end = N;
  room r = make_room(N);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem()});
#define REFUSED(part, ...)                                                                         \
  do {                                                                                             \
    compute_fit_run_options o = {                                                                  \
        .pixels = {.array = stack}, .count = N, .results = results_of(&r)};                        \
    memset(r.status, 3, N);                                                                        \
    __VA_ARGS__;                                                                                   \
    assert_fails(compute_fit_run(fit, &o, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);                  \
    test_check_message(test_context, (part));                                                      \
    assert_int_equal(r.status[0], 3);                                                              \
  } while (0)
  REFUSED("covariance", o.results.covariance = covariance);
  REFUSED("count", o.count = -2);
  REFUSED("frames", o.frames = 4);
  REFUSED("corners", o.corners = corners);
  REFUSED("pixels", o.count = COMPUTE_BATCH_UNTIL_END);
  REFUSED("write", o.count = COMPUTE_BATCH_UNTIL_END, o.pixels.array = NULL,
          o.pixels.read = read_stack, o.pixels.user = &end);
  REFUSED("results", o.count = COMPUTE_BATCH_UNTIL_END, o.pixels.array = NULL,
          o.pixels.read = read_stack, o.pixels.user = &end, o.write = write_nothing);
  REFUSED("reserved", o.reserved[7] = 1);
  REFUSED("progress_seconds", o.progress_seconds = -1);
#undef REFUSED
  assert_fails(compute_fit_run(fit, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_fit_run(NULL, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  /* No pixels at all: the run fails with the iterator's error, and no result looks like a fit. */
  assert_fails(
      compute_fit_run(fit, &(compute_fit_run_options){.count = N, .results = results_of(&r)}, NULL),
      COMPUTE_ERROR_INVALID_ARGUMENT);
  check_untouched(&r, 0);
  compute_fit_release(fit);
  free_room(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_checked_before_any_work),
      cmocka_unit_test(runs_are_checked_before_any_work),
  };
  return cmocka_run_group_tests(tests, open_group, test_group_close);
}
