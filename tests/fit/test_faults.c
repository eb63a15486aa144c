/* SPDX-License-Identifier: MIT */
/* Runs in which the n-th host allocation fails, for n = 1, 2, … The run either returns an error or
 * the right result. No unfitted ROI looks like a fit, no thread hangs, and nothing leaks. */
#include "fit_fixture.h"
#include "support/harness/failing_allocator.h"

enum { N = 30, H = 16, W = 18, FRAMES = 5, MOST_ALLOCATIONS = 9000, MOST = 4 * N };

static float stack[N * PIXELS], frames[FRAMES * H * W], sigma[2 * N];
static int32_t corners[3 * N];
static uint8_t mask[PIXELS];
static float found[MOST * PARAMETERS];
static int64_t found_count;

static void make_data(void) {
  make_stack(stack, N);
  make_spotted_frames(frames, FRAMES, H, W, stack, corners, N);
  memset(mask, 1, sizeof mask);
  for (int i = 0; i < 2 * N; i++) sigma[i] = 1.2f;
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
  found_count = first + count;
  return COMPUTE_OK;
}

/* ---- Scenarios ----------------------------------------------------------------------------- */

typedef compute_status (*scenario)(compute_context *context, const room *r,
                                   compute_fit_summary *summary);

static compute_status run_with(compute_context *context, const compute_fit_options *options,
                               const compute_fit_run_options *run, bool start,
                               compute_fit_summary *summary) {
  compute_fit *fit = NULL;
  compute_status s = compute_fit_create(context, options, &fit);
  if (s == COMPUTE_OK && start) {
    s = compute_fit_start(fit, run);
    if (s == COMPUTE_OK) s = compute_fit_wait(fit, summary);
  } else if (s == COMPUTE_OK) {
    s = compute_fit_run(fit, run, summary);
  }
  compute_fit_release(fit);
  return s;
}

/* Uses a map, two batch sizes, arrays of single ROIs and a separate thread. */
static compute_status run_stack(compute_context *context, const room *r,
                                compute_fit_summary *summary) {
  return run_with(
      context,
      &(compute_fit_options){.problem = small_problem(),
                             .mask = mask,
                             .mask_rows = ROWS,
                             .mask_columns = COLUMNS,
                             .batch = 16,
                             .fallback = COMPUTE_FALLBACK_SILENT},
      &(compute_fit_run_options){
          .pixels = {.array = stack}, .count = N, .sigma = sigma, .results = results_of(r)},
      true, summary);
}

static compute_status run_frames(compute_context *context, const room *r,
                                 compute_fit_summary *summary) {
  return run_with(context,
                  &(compute_fit_options){.problem = small_problem(),
                                         .frame_rows = H,
                                         .frame_columns = W,
                                         .batch = 2,
                                         .fallback = COMPUTE_FALLBACK_SILENT},
                  &(compute_fit_run_options){.pixels = {.array = frames},
                                             .frames = FRAMES,
                                             .count = N,
                                             .corners = corners,
                                             .sigma = sigma,
                                             .results = results_of(r)},
                  false, summary);
}

static compute_status run_movie(compute_context *context, const room *r,
                                compute_fit_summary *summary) {
  (void)r;
  found_count = 0;
  return run_with(context,
                  &(compute_fit_options){.problem = small_problem(),
                                         .frame_rows = H,
                                         .frame_columns = W,
                                         .find = true,
                                         .spots = {.sigma = 1.2, .limit = 3},
                                         .batch = 2,
                                         .fallback = COMPUTE_FALLBACK_SILENT},
                  &(compute_fit_run_options){
                      .pixels = {.array = frames}, .frames = FRAMES, .write = take_found},
                  false, summary);
}

/* ---- The sweep ----------------------------------------------------------------------------- */

static void check_partial(const room *r, const room *wanted, int64_t complete) {
  if (complete > 0) check_same(r, wanted, 0, complete);
  for (int64_t i = complete; i < r->count; i++)
    if (r->status[i] != COMPUTE_FIT_NOT_RUN)
      assert_memory_equal(r->parameters + i * PARAMETERS, wanted->parameters + i * PARAMETERS,
                          PARAMETERS * sizeof(float));
}

/* The number of allocations depends on the threads' timing, so the sweep continues for a while
 * after the first run without a failure. It fails each of the first few hundred allocations, then
 * every third. */
static void sweep(scenario run, bool finds) {
  room wanted = make_room(N), r = make_room(N);
  compute_fit_summary summary;
  compute_context *context = test_open();
  assert_ok(run(context, &wanted, &summary));
  const int64_t all = summary.count;
  float *all_found = malloc(sizeof found);
  memcpy(all_found, found, sizeof found);
  test_close(context);
  int clean = 0;
  failing_allocator_install();
  for (int64_t nth = 1; nth < MOST_ALLOCATIONS && clean < 4; nth += nth < 400 ? 1 : 3) {
    context = NULL;
    summary = (compute_fit_summary){0};
    memset(r.status, 0, N);
    failing_allocator_arm(nth, false);
    compute_status s = compute_open(&context, &(compute_open_options){.device = "cpu"});
    if (s == COMPUTE_OK) s = run(context, &r, &summary);
    clean = failing_allocator_failures() == 0 ? clean + 1 : 0;
    if (s == COMPUTE_OK) assert_int_equal(summary.count, all);
    if (finds) {
      assert_int_equal(summary.count, found_count * (summary.count > 0));
      assert_memory_equal(found, all_found, (size_t)summary.count * PARAMETERS * sizeof *found);
    } else {
      check_partial(&r, &wanted, summary.count);
    }
    if (context) compute_close(context);
  }
  assert_int_equal(clean, 4);
  assert_int_equal(failing_allocator_remove(), 0);
  free(all_found);
  free_room(&wanted);
  free_room(&r);
}

static void any_allocation_of_a_stack_may_fail(void **state) {
  (void)state;
  sweep(run_stack, false);
}

static void any_allocation_of_frames_may_fail(void **state) {
  (void)state;
  sweep(run_frames, false);
}

static void any_allocation_of_a_movie_may_fail(void **state) {
  (void)state;
  sweep(run_movie, true);
}

static int open_group(void **state) {
  if (test_group_open(state) != 0) return -1;
  make_data();
  return test_group_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_allocation_of_a_stack_may_fail),
      cmocka_unit_test(any_allocation_of_frames_may_fail),
      cmocka_unit_test(any_allocation_of_a_movie_may_fail),
  };
  return cmocka_run_group_tests(tests, open_group, NULL);
}
