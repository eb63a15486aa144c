/* SPDX-License-Identifier: MIT */
/* Fits of ROI stacks: results do not depend on batches, dtypes, sources or sinks, and an unfitted
 * ROI never looks like a fit. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "fit_fixture.h"

enum { N = 1500 };

static float stack[N * PIXELS];
static uint16_t counts[N * PIXELS];
static room wanted;

static int open_group(void **state) {
  compute_fit_summary summary;
  if (test_group_open(state) != 0) return -1;
  make_stack(stack, N);
  for (int i = 0; i < N * PIXELS; i++) counts[i] = (uint16_t)stack[i];
  wanted = make_room(N);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = N});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = stack},
                                                       .count = N,
                                                       .results = results_of(&wanted)},
                            &summary));
  compute_fit_release(fit);
  assert_int_equal(summary.count, N);
  assert_true(summary.of_status[COMPUTE_FIT_CONVERGED] > N * 99 / 100);
  for (int i = 0; i < N; i++) {
    if (wanted.status[i] != COMPUTE_FIT_CONVERGED) continue;
    assert_true(fabsf(wanted.parameters[i * PARAMETERS] - 4) < 1.5f);
    assert_true(wanted.std[i * PARAMETERS] > 0.01f && wanted.std[i * PARAMETERS] < 0.5f);
  }
  return 0;
}

static int close_group(void **state) {
  free_room(&wanted);
  return test_group_close(state);
}

static void check_against_wanted(const compute_fit_options *options, compute_fit_run_options run) {
  compute_fit_summary summary;
  room r = make_room(N);
  compute_fit *fit = make_fit(options);
  run.count = N;
  run.results = results_of(&r);
  assert_ok(compute_fit_run(fit, &run, &summary));
  assert_int_equal(summary.count, N);
  check_same(&r, &wanted, 0, N);
  compute_fit_release(fit);
  free_room(&r);
}

/* ---- Results ------------------------------------------------------------------------------- */

static void batches_of_any_size_give_the_same_bits(void **state) {
  (void)state;
  const int64_t sizes[] = {7, 256, 1000, 0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    check_against_wanted(
        &(compute_fit_options){.problem = small_problem(), .batch = sizes[i], .slots = 2},
        (compute_fit_run_options){.pixels = {.array = stack}});
}

static void one_roi_at_a_time_gives_the_same_bits(void **state) {
  (void)state;
  room r = make_room(40);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 1});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){
                                .pixels = {.array = stack}, .count = 40, .results = results_of(&r)},
                            NULL));
  check_same(&r, &wanted, 0, 40);
  compute_fit_release(fit);
  free_room(&r);
}

static void counts_of_16_bits_are_what_floats_are(void **state) {
  (void)state;
  check_against_wanted(
      &(compute_fit_options){.problem = small_problem(), .dtype = COMPUTE_U16, .batch = 333},
      (compute_fit_run_options){.pixels = {.array = counts}});
}

/* The device under test and the CPU, each one twice. */
static void several_devices_share_a_stack(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context), *cpu = NULL;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  compute_device *devices[] = {device, cpu, device, cpu};
  compute_fit_summary summary;
  room r = make_room(N);
  compute_fit *fit = make_fit(&(compute_fit_options){
      .problem = small_problem(), .devices = devices, .device_count = 4, .batch = 50, .slots = 1});
  memset(devices, 0, sizeof devices); /* they were copied */
  assert_ok(compute_fit_run(
      fit,
      &(compute_fit_run_options){.pixels = {.array = stack}, .count = N, .results = results_of(&r)},
      &summary));
  assert_int_equal(summary.count, N);
  assert_true(summary.batches >= N / 50);
  check_close(&r, &wanted);
  compute_fit_release(fit);
  if (device != cpu) { /* otherwise the test would use devices that nobody requested */
    fit = make_fit(
        &(compute_fit_options){.problem = small_problem(), .flags = COMPUTE_BATCH_ALL_DEVICES});
    assert_ok(compute_fit_run(fit,
                              &(compute_fit_run_options){.pixels = {.array = stack},
                                                         .count = N,
                                                         .results = results_of(&r)},
                              NULL));
    check_close(&r, &wanted);
    compute_fit_release(fit);
  }
  free_room(&r);
}

static compute_status read_stack(void *user, int64_t first, int64_t items, void *data,
                                 int64_t *count) {
  const int64_t end = *(const int64_t *)user;
  *count = items < end - first ? items : end - first;
  memcpy(data, stack + first * PIXELS, (size_t)*count * PIXELS * sizeof *stack);
  return COMPUTE_OK;
}

/* The calls that a write function has received. */
typedef struct seen {
  room r;
  int64_t next, calls, fail_at;
  compute_fit *cancel;
} seen;

static compute_status write_all(void *user, int64_t first, int64_t count,
                                const compute_fit_results *results, const int32_t *corners,
                                int64_t next_frame) {
  seen *s = user;
  assert_int_equal(first, s->next);
  assert_null(corners);
  assert_int_equal(next_frame, 0);
  assert_null(results->covariance); /* not requested */
  if (s->fail_at > 0 && first + count > s->fail_at) return COMPUTE_ERROR_FILE;
  const size_t n = (size_t)count;
  memcpy(s->r.parameters + first * PARAMETERS, results->parameters, n * PARAMETERS * 4);
  memcpy(s->r.std + first * PARAMETERS, results->std, n * PARAMETERS * 4);
  memcpy(s->r.ratio + first, results->ratio, n * 4);
  memcpy(s->r.p_raw + first, results->p_raw, n * 4);
  memcpy(s->r.p_value + first, results->p_value, n * 4);
  memcpy(s->r.significance + first, results->significance, n * 4);
  memcpy(s->r.iterations + first, results->iterations, n * 4);
  memcpy(s->r.status + first, results->status, n);
  s->next = first + count;
  s->calls++;
  if (s->cancel) compute_fit_cancel(s->cancel);
  return COMPUTE_OK;
}

static void a_function_gets_what_arrays_get(void **state) {
  (void)state;
  int64_t end = N;
  compute_fit_summary summary;
  seen s = {.r = make_room(N)};
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 200});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.read = read_stack, .user = &end},
                                                       .count = COMPUTE_BATCH_UNTIL_END,
                                                       .write = write_all,
                                                       .write_user = &s},
                            &summary));
  assert_int_equal(summary.count, N);
  assert_int_equal(s.next, N);
  assert_true(s.calls >= 8);
  check_same(&s.r, &wanted, 0, N);
  /* Arrays and the write function together, with only some arrays. */
  s.next = 0;
  memset(s.r.std, 0, N * PARAMETERS * sizeof(float));
  float *some = calloc(N * PARAMETERS, sizeof *some);
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = stack},
                                                       .count = N,
                                                       .results = {.std = some},
                                                       .write = write_all,
                                                       .write_user = &s},
                            NULL));
  check_same(&s.r, &wanted, 0, N);
  assert_memory_equal(some, wanted.std, N * PARAMETERS * sizeof *some);
  free(some);
  compute_fit_release(fit);
  free_room(&s.r);
}

static compute_status read_again(void *user, int64_t first, int64_t items, void *data,
                                 int64_t *count) {
  (void)user;
  for (int64_t i = 0; i < items; i++)
    memcpy((float *)data + i * PIXELS, stack + (first + i) % N * PIXELS, PIXELS * sizeof *stack);
  *count = items;
  return COMPUTE_OK;
}

/* Enough ROIs for results to take another path into the arrays; the last batch is odd. */
static void many_results_are_what_few_are(void **state) {
  (void)state;
  const int64_t many = (test_spread() > 1 ? 2 : 200) * N + 3;
  room r = make_room(many);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 4099});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.read = read_again},
                                                       .count = many,
                                                       .results = results_of(&r)},
                            NULL));
  for (int64_t i = 0; i + N <= many; i += N) {
    const room part = {.count = N,
                       .parameters = r.parameters + i * PARAMETERS,
                       .std = r.std + i * PARAMETERS,
                       .ratio = r.ratio + i,
                       .p_raw = r.p_raw + i,
                       .p_value = r.p_value + i,
                       .significance = r.significance + i,
                       .iterations = r.iterations + i,
                       .status = r.status + i};
    check_same(&part, &wanted, 0, N);
  }
  assert_memory_equal(r.std + (many - 3) * PARAMETERS, wanted.std, 3 * PARAMETERS * sizeof(float));
  compute_fit_release(fit);
  free_room(&r);
}

static void a_covariance_has_the_variances_on_its_diagonal(void **state) {
  (void)state;
  static float covariance[N * 16], std[N * 4];
  compute_fit_problem p = small_problem();
  p.outputs = COMPUTE_FIT_COVARIANCE | COMPUTE_FIT_STD;
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = p, .batch = 100});
  assert_ok(
      compute_fit_run(fit,
                      &(compute_fit_run_options){.pixels = {.array = stack},
                                                 .count = N,
                                                 .results = {.covariance = covariance, .std = std}},
                      NULL));
  for (int i = 0; i < N; i++)
    for (int k = 0; k < 4; k++)
      assert_true(fabsf(covariance[16 * i + 5 * k] - std[4 * i + k] * std[4 * i + k]) <=
                  1e-4f * covariance[16 * i + 5 * k]);
  compute_fit_release(fit);
}

/* ---- Arrays of single ROIs ----------------------------------------------------------------- */

/* The same numbers, given once for all ROIs and once for each. */
static void widths_starts_and_bounds_may_be_given_for_each(void **state) {
  (void)state;
  const int n = 200;
  const float nan = NAN;
  float *sigma = malloc(sizeof *sigma * 2 * (size_t)n);
  float *start = malloc(sizeof *start * 4 * (size_t)n),
        *upper = malloc(sizeof *upper * 4 * (size_t)n);
  room one = make_room(n), each = make_room(n), again = make_room(n);
  for (int i = 0; i < n; i++) {
    sigma[2 * i] = 1.25f;
    sigma[2 * i + 1] = 1.5f;
    for (int k = 0; k < 4; k++) start[4 * i + k] = upper[4 * i + k] = nan;
    start[4 * i] = 3.75f;
    upper[4 * i + 2] = 500;
  }
  compute_fit_problem p = small_problem();
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = p, .batch = 64});
  compute_fit_run_options run = {.pixels = {.array = stack},
                                 .count = n,
                                 .sigma = sigma,
                                 .start = start,
                                 .upper = upper,
                                 .results = results_of(&each)};
  assert_ok(compute_fit_run(fit, &run, NULL));
  /* Without these arrays, the same fitter works as before. */
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = stack},
                                                       .count = n,
                                                       .results = results_of(&again)},
                            NULL));
  check_same(&again, &wanted, 0, n);
  compute_fit_release(fit);
  p.sigma[0] = 1.25;
  p.sigma[1] = 1.5;
  p.start_set = 1;
  p.start[0] = 3.75;
  p.upper_set = 4;
  p.upper[2] = 500;
  fit = make_fit(&(compute_fit_options){.problem = p});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = stack},
                                                       .count = n,
                                                       .results = results_of(&one)},
                            NULL));
  check_same(&one, &each, 0, n);
  int bounded = 0;
  for (int i = 0; i < n; i++) bounded += one.status[i] == COMPUTE_FIT_AT_BOUND;
  assert_true(bounded > 0);
  compute_fit_release(fit);
  free_room(&one);
  free_room(&each);
  free_room(&again);
  free(sigma);
  free(start);
  free(upper);
}

/* Maps of the camera's size with corners give the results of maps that are already cut out. */
static void maps_of_the_camera_are_cut_out_by_corners(void **state) {
  (void)state;
  enum { H = 20, W = 23, COUNT = 64 };
  static float offset[H * W], gain[H * W], variance[H * W], cut[3][COUNT][PIXELS];
  static int32_t corners[COUNT * 3];
  compute_fit_problem p = small_problem();
  p.camera = COMPUTE_FIT_SCMOS;
  for (int i = 0; i < H * W; i++) {
    offset[i] = (float)(i % 5) - 2;
    gain[i] = 1 + (float)(i % 7) / 16;
    variance[i] = (float)((i * 3) % 11);
  }
  for (int i = 0; i < COUNT; i++) {
    corners[3 * i] = 0;
    corners[3 * i + 1] = (i * 5) % (H - ROWS + 1);
    corners[3 * i + 2] = (i * 7) % (W - COLUMNS + 1);
    for (int k = 0; k < PIXELS; k++) {
      const int at = (corners[3 * i + 1] + k / COLUMNS) * W + corners[3 * i + 2] + k % COLUMNS;
      cut[0][i][k] = offset[at];
      cut[1][i][k] = gain[at];
      cut[2][i][k] = variance[at];
    }
  }
  room whole = make_room(COUNT), single = make_room(1);
  p.flags = COMPUTE_FIT_STACK;
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = p,
                                                     .frame_rows = H,
                                                     .frame_columns = W,
                                                     .offset = {offset, H, W},
                                                     .gain = {gain, H, W},
                                                     .variance = {variance, H, W},
                                                     .batch = 10});
  compute_fit_run_options run = {.pixels = {.array = stack},
                                 .count = COUNT,
                                 .corners = corners,
                                 .results = results_of(&whole)};
  assert_ok(compute_fit_run(fit, &run, NULL));
  run.corners = NULL;
  assert_fails(compute_fit_run(fit, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "corners");
  compute_fit_release(fit);
  for (int i = 0; i < COUNT; i += 9) {
    fit = make_fit(&(compute_fit_options){.problem = p,
                                          .offset = {cut[0][i], ROWS, COLUMNS},
                                          .gain = {cut[1][i], ROWS, COLUMNS},
                                          .variance = {cut[2][i], ROWS, COLUMNS}});
    assert_ok(compute_fit_run(fit,
                              &(compute_fit_run_options){.pixels = {.array = stack + i * PIXELS},
                                                         .count = 1,
                                                         .results = results_of(&single)},
                              NULL));
    assert_memory_equal(single.parameters, whole.parameters + i * PARAMETERS, 16);
    assert_memory_equal(single.std, whole.std + i * PARAMETERS, 16);
    compute_fit_release(fit);
  }
  free_room(&whole);
  free_room(&single);
}

/* ---- Ends of a run ------------------------------------------------------------------------- */

static void no_rois_are_no_work(void **state) {
  (void)state;
  compute_fit_summary summary;
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem()});
  assert_ok(compute_fit_run(fit, &(compute_fit_run_options){.count = 0}, &summary));
  assert_int_equal(summary.count, 0);
  compute_fit_release(fit);
}

static void what_was_not_fitted_does_not_look_like_a_fit(void **state) {
  (void)state;
  int64_t end = 700;
  compute_fit_summary summary;
  room r = make_room(N);
  memset(r.status, 1, N);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 100});
  assert_fails(
      compute_fit_run(fit,
                      &(compute_fit_run_options){.pixels = {.read = read_stack, .user = &end},
                                                 .count = N,
                                                 .results = results_of(&r)},
                      &summary),
      COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_true(summary.count <= 700);
  check_same(&r, &wanted, 0, summary.count);
  check_untouched(&r, summary.count);
  compute_fit_release(fit);
  free_room(&r);
}

static void a_function_that_fails_ends_the_run(void **state) {
  (void)state;
  compute_fit_summary summary;
  seen s = {.r = make_room(N), .fail_at = 800};
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 100});
  compute_fit_run_options run = {
      .pixels = {.array = stack}, .count = N, .write = write_all, .write_user = &s};
  assert_fails(compute_fit_run(fit, &run, &summary), COMPUTE_ERROR_FILE);
  assert_int_equal(summary.count, 800);
  s.fail_at = s.next = 0;
  s.cancel = fit;
  assert_fails(compute_fit_run(fit, &run, &summary), COMPUTE_ERROR_CANCELLED);
  assert_true(summary.count < N);
  int64_t total = 0;
  for (int i = 0; i < COMPUTE_FIT_STATUS_COUNT; i++) total += summary.of_status[i];
  assert_int_equal(total, summary.count);
  compute_fit_release(fit);
  free_room(&s.r);
}

static bool stop_at_once(void *user, const compute_batch_progress *progress) {
  (void)user;
  (void)progress;
  return false;
}

static compute_status read_slowly(void *user, int64_t first, int64_t items, void *data,
                                  int64_t *count) {
  nanosleep(&(struct timespec){0, 2000000}, NULL);
  return read_stack(user, first, items, data, count);
}

static void a_progress_function_may_cancel(void **state) {
  (void)state;
  int64_t end = N;
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 10});
  assert_fails(
      compute_fit_run(fit,
                      &(compute_fit_run_options){.pixels = {.read = read_slowly, .user = &end},
                                                 .count = N,
                                                 .progress = stop_at_once,
                                                 .progress_seconds = 0.01},
                      NULL),
      COMPUTE_ERROR_CANCELLED);
  compute_fit_release(fit);
}

/* ---- On a separate thread ------------------------------------------------------------------ */

static void a_run_may_be_started_and_waited_for(void **state) {
  (void)state;
  int64_t end = N;
  bool done = false;
  compute_fit_summary summary;
  room r = make_room(N);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem(), .batch = 100});
  assert_fails(compute_fit_wait(fit, NULL), COMPUTE_ERROR_INVALID_STATE);
  assert_fails(compute_fit_poll(fit, &done), COMPUTE_ERROR_INVALID_STATE);
  const compute_fit_run_options run = {
      .pixels = {.read = read_slowly, .user = &end}, .count = N, .results = results_of(&r)};
  assert_ok(compute_fit_start(fit, &run));
  assert_fails(compute_fit_start(fit, &run), COMPUTE_ERROR_INVALID_STATE);
  assert_fails(compute_fit_run(fit, &run, NULL), COMPUTE_ERROR_INVALID_STATE);
  while (!done) {
    assert_ok(compute_fit_poll(fit, &done));
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  assert_ok(compute_fit_wait(fit, &summary));
  assert_int_equal(summary.count, N);
  check_same(&r, &wanted, 0, N);
  assert_fails(compute_fit_wait(fit, NULL), COMPUTE_ERROR_INVALID_STATE);
  /* The wait returns the run's errors. */
  end = 300;
  assert_ok(compute_fit_start(fit, &run));
  assert_fails(compute_fit_wait(fit, &summary), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "300");
  check_untouched(&r, 300);
  /* This thread may cancel the run, even before it has begun. */
  end = N;
  assert_ok(compute_fit_start(fit, &run));
  compute_fit_cancel(fit);
  assert_fails(compute_fit_wait(fit, &summary), COMPUTE_ERROR_CANCELLED);
  /* The wait may be omitted. */
  assert_ok(compute_fit_start(fit, &run));
  compute_fit_release(fit);
  compute_fit_cancel(NULL);
  compute_fit_release(NULL);
  free_room(&r);
}

/* ---- Bad data ------------------------------------------------------------------------------ */

static void bad_rois_say_so_and_spoil_no_others(void **state) {
  (void)state;
  static float spoiled[64 * PIXELS];
  memcpy(spoiled, stack, sizeof spoiled);
  room r = make_room(64);
  spoiled[3 * PIXELS + 5] = NAN;
  spoiled[17 * PIXELS] = INFINITY;
  for (int k = 0; k < PIXELS; k++) spoiled[30 * PIXELS + k] = 0;
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem()});
  compute_fit_summary summary;
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = spoiled},
                                                       .count = 64,
                                                       .results = results_of(&r)},
                            &summary));
  const int64_t bad[] = {3, 17, 30};
  int64_t from = 0;
  for (int i = 0; i < 3; i++) {
    check_same(&r, &wanted, from, bad[i] - from);
    assert_int_equal(r.status[bad[i]], COMPUTE_FIT_BAD_DATA);
    assert_true(isnan(r.parameters[bad[i] * PARAMETERS]) && isnan(r.ratio[bad[i]]));
    from = bad[i] + 1;
  }
  check_same(&r, &wanted, from, 64 - from);
  assert_int_equal(summary.of_status[COMPUTE_FIT_BAD_DATA], 3);
  compute_fit_release(fit);
  free_room(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_of_any_size_give_the_same_bits),
      cmocka_unit_test(one_roi_at_a_time_gives_the_same_bits),
      cmocka_unit_test(counts_of_16_bits_are_what_floats_are),
      cmocka_unit_test(several_devices_share_a_stack),
      cmocka_unit_test(a_function_gets_what_arrays_get),
      cmocka_unit_test(many_results_are_what_few_are),
      cmocka_unit_test(a_covariance_has_the_variances_on_its_diagonal),
      cmocka_unit_test(widths_starts_and_bounds_may_be_given_for_each),
      cmocka_unit_test(maps_of_the_camera_are_cut_out_by_corners),
      cmocka_unit_test(no_rois_are_no_work),
      cmocka_unit_test(what_was_not_fitted_does_not_look_like_a_fit),
      cmocka_unit_test(a_function_that_fails_ends_the_run),
      cmocka_unit_test(a_progress_function_may_cancel),
      cmocka_unit_test(a_run_may_be_started_and_waited_for),
      cmocka_unit_test(bad_rois_say_so_and_spoil_no_others),
  };
  return cmocka_run_group_tests(tests, open_group, close_group);
}
