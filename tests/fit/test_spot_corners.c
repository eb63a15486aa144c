/* SPDX-License-Identifier: MIT */
/* From marked pixels to ROI corners: their places, their order, the choice of ROIs, and refusals.
 * All on the host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

enum { HEIGHT = 12, WIDTH = 17, FRAMES = 3, PIXELS = HEIGHT * WIDTH, ROOM = 64 };

static bool spots[FRAMES * PIXELS];
static float response[FRAMES * PIXELS];
static int32_t corners[3 * ROOM];
static int64_t count;
static compute_spot_options options;

static int begin(void **state) {
  (void)state;
  memset(spots, 0, sizeof spots);
  memset(corners, 0x55, sizeof corners);
  for (int i = 0; i < FRAMES * PIXELS; i++) response[i] = 0;
  count = -1;
  options = (compute_spot_options){.sigma = 1.3};
  return 0;
}

static void mark(int frame, int y, int x, double value) {
  spots[(frame * HEIGHT + y) * WIDTH + x] = true;
  response[(frame * HEIGHT + y) * WIDTH + x] = (float)value;
}

static compute_status run(int32_t rows, int32_t columns, int64_t first, int64_t capacity) {
  return compute_spot_corners(test_context, &options, spots, response, FRAMES, HEIGHT, WIDTH, rows,
                              columns, first, corners, capacity, &count);
}

static void check(int64_t at, int32_t frame, int32_t row, int32_t column) {
  const int32_t *c = corners + 3 * at;
  if (c[0] != frame || c[1] != row || c[2] != column)
    fail_msg("corner %lld is %d, %d, %d instead of %d, %d, %d", (long long)at, (int)c[0], (int)c[1],
             (int)c[2], (int)frame, (int)row, (int)column);
}

/* ---- Promises ------------------------------------------------------------------------------ */

static void spots_lie_in_the_middle_in_the_order_of_pixels(void **state) {
  (void)state;
  mark(2, 4, 9, 1);
  mark(0, 6, 8, 1);
  mark(0, 5, 10, 1);
  mark(0, 6, 7, 1);
  assert_ok(run(7, 5, 100, ROOM));
  assert_int_equal(count, 4);
  check(0, 100, 2, 8);
  check(1, 100, 3, 5);
  check(2, 100, 3, 6);
  check(3, 102, 1, 7);
  assert_int_equal(corners[3 * count], 0x55555555); /* nothing after them is written */
  assert_ok(run(6, 4, 0, ROOM));                    /* even sides: the pixel after the middle */
  check(0, 0, 2, 8);
}

static void rois_at_the_border_are_moved_inwards(void **state) {
  (void)state;
  mark(0, 0, 0, 1);
  mark(0, 0, WIDTH - 1, 1);
  mark(0, 2, 14, 1);
  mark(1, HEIGHT - 1, 0, 1);
  mark(1, HEIGHT - 1, WIDTH - 1, 1);
  assert_ok(run(7, 5, 0, ROOM));
  check(0, 0, 0, 0);
  check(1, 0, 0, WIDTH - 5);
  check(2, 0, 0, WIDTH - 5);
  check(3, 1, HEIGHT - 7, 0);
  check(4, 1, HEIGHT - 7, WIDTH - 5);
  assert_ok(run(HEIGHT, WIDTH, 0, ROOM)); /* an ROI as large as the frame */
  for (int64_t i = 0; i < 5; i++) check(i, i < 3 ? 0 : 1, 0, 0);
}

static void of_too_many_the_brightest_are_kept(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++)
    mark(0, 3 + i / 5, 2 * (i % 5), (i * 7) % 10); /* 0 7 4 1 8 5 2 9 6 3 */
  mark(1, 1, 1, -1);
  for (int i = 0; i < 4; i++) mark(2, 5, 3 * i, i == 2 ? (double)NAN : 5);
  options.limit = 3;
  assert_ok(run(1, 1, 0, ROOM));
  assert_int_equal(count, 7);
  check(0, 0, 3, 2); /* 7 */
  check(1, 0, 3, 8); /* 8 */
  check(2, 0, 4, 4); /* 9 */
  check(3, 1, 1, 1);
  check(4, 2, 5, 0);
  check(5, 2, 5, 3);
  check(6, 2, 5, 9);
  options.limit = 2; /* among equals, the first */
  assert_ok(run(1, 1, 0, ROOM));
  assert_int_equal(count, 5);
  check(3, 2, 5, 0);
  check(4, 2, 5, 3);
  options.limit = INT64_MAX;
  assert_ok(run(1, 1, 0, ROOM));
  assert_int_equal(count, 15);
}

static int descending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return x > y ? -1 : x < y;
}

static void any_limit_keeps_what_sorting_would(void **state) {
  (void)state;
  float sorted[PIXELS];
  for (int i = 0; i < PIXELS; i++) {
    spots[i] = i % 4 != 3;
    response[i] = (float)((i * 7919) % 1009);
  }
  int marked = 0;
  for (int i = 0; i < PIXELS; i++)
    if (spots[i]) sorted[marked++] = response[i];
  qsort(sorted, (size_t)marked, sizeof *sorted, descending);
  int32_t many[3 * PIXELS];
  for (options.limit = 1; options.limit <= marked + 1; options.limit++) {
    assert_ok(compute_spot_corners(test_context, &options, spots, response, 1, HEIGHT, WIDTH, 1, 1,
                                   0, many, PIXELS, &count));
    const int64_t expected = options.limit < marked ? options.limit : marked;
    assert_int_equal(count, expected);
    for (int64_t i = 0; i < count; i++) {
      const int32_t pixel = many[3 * i + 1] * WIDTH + many[3 * i + 2];
      assert_true(response[pixel] >= sorted[expected - 1]);
      if (i > 0) assert_true(pixel > many[3 * i - 2] * WIDTH + many[3 * i - 1]);
    }
  }
}

static void what_does_not_fit_is_counted(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) mark(i % 3, 6, 2 + 2 * i, i);
  assert_fails(run(3, 3, 0, 4), COMPUTE_ERROR_OVERFLOW);
  test_check_message(test_context, "6 spots, but the capacity is 4");
  assert_int_equal(count, 6);
  check(3, 1, 5, 9);
  assert_int_equal(corners[3 * 4], 0x55555555);
  assert_fails(compute_spot_corners(test_context, &options, spots, NULL, FRAMES, HEIGHT, WIDTH, 3,
                                    3, 0, NULL, 0, &count),
               COMPUTE_ERROR_OVERFLOW);
  assert_int_equal(count, 6);
  assert_ok(run(3, 3, 0, 6));
}

static void nothing_gives_nothing(void **state) {
  (void)state;
  assert_ok(run(3, 3, 0, ROOM));
  assert_int_equal(count, 0);
  assert_ok(compute_spot_corners(test_context, &options, spots, NULL, 0, HEIGHT, WIDTH, 3, 3, 0,
                                 corners, 0, &count));
  assert_int_equal(count, 0);
}

static void what_makes_no_sense_is_refused_with_its_reason(void **state) {
  (void)state;
  mark(0, 5, 5, 1);
  assert_fails(run(HEIGHT + 1, 3, 0, ROOM), COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "13 × 3 pixels do not fit into frames of 12 × 17");
  assert_fails(run(3, WIDTH + 1, 0, ROOM), COMPUTE_ERROR_SHAPE);
  assert_fails(run(0, 3, 0, ROOM), COMPUTE_ERROR_SHAPE);
  assert_fails(run(3, 3, 0, -1), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(run(3, 3, -1, ROOM), COMPUTE_ERROR_OVERFLOW);
  assert_fails(run(3, 3, INT32_MAX - 2, ROOM), COMPUTE_ERROR_OVERFLOW);
  assert_fails(run(3, 3, INT64_MAX, ROOM), COMPUTE_ERROR_OVERFLOW);
  assert_int_equal(count, 0);
  assert_ok(run(3, 3, INT32_MAX - FRAMES, ROOM));
  options.limit = -1;
  assert_fails(run(3, 3, 0, ROOM), COMPUTE_ERROR_INVALID_ARGUMENT);
  options.limit = 1;
  assert_fails(compute_spot_corners(test_context, &options, spots, NULL, FRAMES, HEIGHT, WIDTH, 3,
                                    3, 0, corners, ROOM, &count),
               COMPUTE_ERROR_NULL_POINTER);
  test_check_message(test_context, "brightest");
  assert_fails(compute_spot_corners(test_context, &options, NULL, response, FRAMES, HEIGHT, WIDTH,
                                    3, 3, 0, corners, ROOM, &count),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_spot_corners(test_context, &options, spots, response, FRAMES, HEIGHT, WIDTH,
                                    3, 3, 0, NULL, ROOM, &count),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_spot_corners(test_context, &options, spots, response, FRAMES, HEIGHT, WIDTH,
                                    3, 3, 0, corners, ROOM, NULL),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_spot_corners(test_context, NULL, spots, response, FRAMES, HEIGHT, WIDTH, 3,
                                    3, 0, corners, ROOM, &count),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_spot_corners(test_context, &options, spots, response, -1, HEIGHT, WIDTH, 3,
                                    3, 0, corners, ROOM, &count),
               COMPUTE_ERROR_SHAPE);
  assert_fails(compute_spot_corners(test_context, &options, spots, response, INT64_MAX, INT32_MAX,
                                    INT32_MAX, 3, 3, 0, corners, ROOM, &count),
               COMPUTE_ERROR_OVERFLOW);
}

/* ---- Lack of memory ------------------------------------------------------------------------ */

static compute_status build(compute_context *context) {
  const compute_spot_options usual = {.sigma = 1.3};
  compute_graph *g = compute_graph_create(context);
  if (!g) return COMPUTE_ERROR_OUT_OF_MEMORY;
  const compute_node x = compute_input(g, COMPUTE_U16, COMPUTE_SHAPE(2, 30, 40));
  const compute_node found = compute_find_spots(g, x, &usual, NULL);
  const compute_status status = compute_graph_status(g);
  if (compute_node_is_valid(found) != (status == COMPUTE_OK)) fail_msg("status and node disagree");
  compute_graph_release(g);
  return status;
}

static void failing_allocations_are_reported_and_leak_nothing(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  options.limit = 2;
  mark(0, 5, 5, 1);
  failing_allocator_arm(1, false);
  assert_fails(compute_spot_corners(context, &options, spots, response, FRAMES, HEIGHT, WIDTH, 3, 3,
                                    0, corners, ROOM, &count),
               COMPUTE_ERROR_OUT_OF_MEMORY);
  failing_allocator_arm(0, false);
  int64_t number = 1;
  for (bool failed = true; failed; number++) {
    failing_allocator_arm(number, false);
    const compute_status status = build(context);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    assert_int_equal(status, failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK);
  }
  assert_in_range(number, 100, 5000);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(spots_lie_in_the_middle_in_the_order_of_pixels, begin),
      cmocka_unit_test_setup(rois_at_the_border_are_moved_inwards, begin),
      cmocka_unit_test_setup(of_too_many_the_brightest_are_kept, begin),
      cmocka_unit_test_setup(any_limit_keeps_what_sorting_would, begin),
      cmocka_unit_test_setup(what_does_not_fit_is_counted, begin),
      cmocka_unit_test_setup(nothing_gives_nothing, begin),
      cmocka_unit_test_setup(what_makes_no_sense_is_refused_with_its_reason, begin),
  };
  const struct CMUnitTest without_memory[] = {
      cmocka_unit_test_setup(failing_allocations_are_reported_and_leak_nothing, begin),
  };
  const int failed = cmocka_run_group_tests(tests, test_group_open, test_group_close);
  return failed + cmocka_run_group_tests(without_memory, NULL, NULL);
}
