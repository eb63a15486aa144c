/* SPDX-License-Identifier: MIT */
/* Fits of stacks, frames and movies on a failing GPU: whichever call fails, results are right or
 * absent. The GPU is the stand-in of tests/cuda_driver/. */
#include "support/drivers/cuda_stand_in.h"

#include "fit/fit_fixture.h"

enum { SKIPPED = 77, N = 60, H = 24, W = 20, FRAMES = 12, MOST = 4 * N };

static cuda_stand_in gpu;
static float stack[N * PIXELS], frames[FRAMES * H * W];
static int32_t corners[3 * N];
static float found[MOST * PARAMETERS];
static room wanted, wanted_frames, wanted_movie;

static void set_orders(const char *orders) {
  assert_true(gpu.configure(orders));
}

static void make_data(void) {
  make_stack(stack, N);
  make_spotted_frames(frames, FRAMES, H, W, stack, corners, N);
}

static compute_status take_found(void *user, int64_t first, int64_t count,
                                 const compute_fit_results *results, const int32_t *at,
                                 int64_t next_frame) {
  (void)user;
  (void)at;
  (void)next_frame;
  if (first + count > MOST) return COMPUTE_ERROR_OVERFLOW;
  if (count > 0)
    memcpy(found + first * PARAMETERS, results->parameters,
           (size_t)count * PARAMETERS * sizeof *found);
  return COMPUTE_OK;
}

typedef enum form { STACK, FROM_FRAMES, MOVIE, FORMS } form;

static compute_fit *open_fit(compute_context *context, form f, compute_fallback fallback) {
  compute_fit *fit = NULL;
  compute_fit_options options = {
      .problem = small_problem(), .batch = f == STACK ? 16 : 2, .fallback = fallback};
  if (f != STACK) {
    options.frame_rows = H;
    options.frame_columns = W;
  }
  options.find = f == MOVIE;
  options.spots = (compute_spot_options){.sigma = 1.2, .threshold = 6};
  assert_ok(compute_fit_create(context, &options, &fit));
  return fit;
}

static compute_status run(compute_fit *fit, form f, const room *r, compute_fit_summary *summary) {
  compute_fit_run_options run = {.pixels = {.array = f == STACK ? stack : frames}};
  if (f == MOVIE) {
    run.write = take_found;
  } else {
    run.count = N;
    run.results = results_of(r);
  }
  if (f == FROM_FRAMES) run.corners = corners;
  if (f != STACK) run.frames = FRAMES;
  return compute_fit_run(fit, &run, summary);
}

static void check_found(const room *truth, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    for (int k = 0; k < PARAMETERS; k++) {
      const int64_t at = i * PARAMETERS + k;
      assert_true(fabsf(found[at] - truth->parameters[at]) <= 0.01f * truth->std[at] ||
                  (isnan(found[at]) && isnan(truth->parameters[at])));
    }
}

static void check(form f, const room *r, const compute_fit_summary *summary) {
  if (f == MOVIE) {
    check_found(&wanted_movie, summary->count);
    return;
  }
  const room truth = f == STACK ? wanted : wanted_frames;
  room complete = *r;
  complete.count = summary->count;
  check_close(&complete, &truth);
  check_untouched(r, summary->count);
}

/* The kinds of failure: a lost device, no device memory, a kernel that does not start. */
static void whatever_fails_results_are_right_or_absent(void **state) {
  (void)state;
  static const char *const failures[] = {"cuLaunchKernel:3:700",
                                         "cuMemcpyHtoDAsync:4:700",
                                         "cuMemcpyDtoHAsync:2:700",
                                         "kernel:4:700",
                                         "cuMemAlloc:5:2",
                                         "cuMemAlloc:2+:2",
                                         "cuLaunchKernel:2:701",
                                         "any:30:700",
                                         "any:60:2"};
  room r = make_room(N);
  for (int f = 0; f < FORMS; f++) {
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
      for (int strict = 0; strict < 2; strict++) {
        char orders[80];
        compute_context *context;
        compute_fit_summary summary;
        set_orders("");
        assert_ok(compute_open(&context, &(compute_open_options){.device = "cuda:0"}));
        compute_fit *fit =
            open_fit(context, (form)f, strict ? COMPUTE_FALLBACK_STRICT : COMPUTE_FALLBACK_SILENT);
        snprintf(orders, sizeof orders, "keep=1,fail=%s", failures[i]);
        set_orders(orders);
        const compute_status s = run(fit, (form)f, &r, &summary);
        if (s != COMPUTE_OK && !strict) fail_msg("%s: %s", orders, compute_error_message(context));
        if (s == COMPUTE_OK && f != MOVIE) assert_int_equal(summary.count, N);
        check((form)f, &r, &summary);
        set_orders("reset=1");
        compute_fit_release(fit);
        assert_ok(compute_close(context));
      }
    }
  }
  free_room(&r);
}

/* Nothing is left in the driver, and a working GPU does all the work. */
static void a_gpu_that_works_does_it_all(void **state) {
  (void)state;
  char text[256];
  room r = make_room(N);
  compute_context *context;
  set_orders("");
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cuda:0"}));
  for (int f = 0; f < FORMS; f++) {
    compute_fit_summary summary;
    compute_fit *fit = open_fit(context, (form)f, COMPUTE_FALLBACK_STRICT);
    for (int again = 0; again < 2; again++) {
      assert_ok(run(fit, (form)f, &r, &summary));
      assert_int_equal(summary.on_cpu, 0);
      check((form)f, &r, &summary);
    }
    compute_fit_release(fit);
  }
  assert_ok(compute_close(context));
  set_orders("");
  if (gpu.live(text, sizeof text) != 0) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text) != 0) fail_msg("misuse: %s", text);
  free_room(&r);
}

static compute_status take_wanted(void *user, int64_t first, int64_t count,
                                  const compute_fit_results *results, const int32_t *at,
                                  int64_t next_frame) {
  (void)user;
  (void)at;
  (void)next_frame;
  if (first + count > MOST) return COMPUTE_ERROR_OVERFLOW;
  if (count == 0) return COMPUTE_OK;
  const size_t bytes = (size_t)count * PARAMETERS * sizeof(float);
  memcpy(wanted_movie.parameters + first * PARAMETERS, results->parameters, bytes);
  memcpy(wanted_movie.std + first * PARAMETERS, results->std, bytes);
  return COMPUTE_OK;
}

/* Computes the reference on the CPU. */
static int open_group(void **state) {
  compute_fit_summary summary;
  (void)state;
  assert_ok(compute_open(&test_context, &(compute_open_options){.device = "cpu"}));
  make_data();
  wanted = make_room(N);
  wanted_frames = make_room(N);
  wanted_movie = make_room(MOST);
  compute_fit *fit = open_fit(test_context, STACK, COMPUTE_FALLBACK_STRICT);
  assert_ok(run(fit, STACK, &wanted, &summary));
  compute_fit_release(fit);
  fit = open_fit(test_context, MOVIE, COMPUTE_FALLBACK_STRICT);
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = frames},
                                                       .frames = FRAMES,
                                                       .write = take_wanted},
                            &summary));
  assert_true(summary.count > 10);
  compute_fit_release(fit);
  fit = open_fit(test_context, FROM_FRAMES, COMPUTE_FALLBACK_STRICT);
  assert_ok(run(fit, FROM_FRAMES, &wanted_frames, &summary));
  compute_fit_release(fit);
  return compute_close(test_context) == COMPUTE_OK ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gpu_that_works_does_it_all),
      cmocka_unit_test(whatever_fails_results_are_right_or_absent),
  };
  if (!cuda_stand_in_open(&gpu)) return SKIPPED;
  return cmocka_run_group_tests(tests, open_group, NULL);
}
