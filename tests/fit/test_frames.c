/* SPDX-License-Identifier: MIT */
/* Fits on whole frames. With the caller's corners, a stack of the same ROIs has the same results
 * bit for bit, for every cut into batches. Spot finding returns the spots that the frames
 * contain. */
#include "fit_fixture.h"

#include "core/device/collector_private.h"

enum { H = 40, W = 52, FRAMES = 60, SPOTS = 24, N = FRAMES * SPOTS };
enum { ACROSS = 5, CELL_ROWS = H / ACROSS, CELL_COLUMNS = W / ACROSS };

static float frames[FRAMES * H * W];
static uint16_t counts[FRAMES * H * W];
static float cut[N * PIXELS];
static int32_t corners[3 * N];
static int64_t roi_count;
static room wanted;

static compute_fit_options frame_options(void) {
  return (compute_fit_options){
      .problem = small_problem(), .frame_rows = H, .frame_columns = W, .slots = 2};
}

/* Spots at uneven places, each in a separate cell: the result of fitting two spots as one depends
 * on rounding. Frames have many, few or no spots. */
static void make_frames(void) {
  uint64_t state = 5;
  double image[PIXELS];
  const compute_fit_problem p = small_problem();
  for (int i = 0; i < FRAMES * H * W; i++) frames[i] = (float)(int)(4 + 5 * noise(&state));
  for (int f = 0; f < FRAMES; f++) {
    const int spots = f % 7 == 3 ? 0 : f % 5 == 0 ? SPOTS : 3;
    for (int s = 0; s < spots; s++) {
      int32_t *c = corners + 3 * roi_count++;
      c[0] = f;
      const int cell = s * 11 % (ACROSS * ACROSS); /* spreads out the spots of a frame with few */
      c[1] = cell / ACROSS * CELL_ROWS + (int32_t)(noise(&state) * (CELL_ROWS - ROWS + 1));
      c[2] = cell % ACROSS * CELL_COLUMNS + (int32_t)(noise(&state) * (CELL_COLUMNS - COLUMNS + 1));
      assert_ok(compute_fit_image(
          test_context, &p,
          (double[]){3 + 2 * noise(&state), 2 + 2 * noise(&state), 400 + 300 * noise(&state), 0},
          image));
      for (int k = 0; k < PIXELS; k++)
        frames[(f * H + c[1] + k / COLUMNS) * W + c[2] + k % COLUMNS] += (float)(int)image[k];
    }
  }
  for (int i = 0; i < FRAMES * H * W; i++) counts[i] = (uint16_t)frames[i];
  for (int64_t i = 0; i < roi_count; i++)
    for (int k = 0; k < PIXELS; k++)
      cut[i * PIXELS + k] = frames[(corners[3 * i] * H + corners[3 * i + 1] + k / COLUMNS) * W +
                                   corners[3 * i + 2] + k % COLUMNS];
}

static int open_group(void **state) {
  if (test_group_open(state) != 0) return -1;
  make_frames();
  wanted = make_room(roi_count);
  compute_fit *fit = make_fit(&(compute_fit_options){.problem = small_problem()});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = cut},
                                                       .count = roi_count,
                                                       .results = results_of(&wanted)},
                            NULL));
  compute_fit_release(fit);
  return 0;
}

static int close_group(void **state) {
  free_room(&wanted);
  return test_group_close(state);
}

static compute_fit_run_options frame_run(const room *r) {
  return (compute_fit_run_options){.pixels = {.array = frames},
                                   .frames = FRAMES,
                                   .count = roi_count,
                                   .corners = corners,
                                   .results = results_of(r)};
}

/* ---- The caller's corners ------------------------------------------------------------------ */

static void frames_give_the_bits_of_a_stack(void **state) {
  (void)state;
  const int64_t sizes[] = {0, 1, 7, FRAMES};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    compute_fit_summary summary;
    room r = make_room(roi_count);
    compute_fit_options options = frame_options();
    options.batch = sizes[i];
    compute_fit *fit = make_fit(&options);
    const compute_fit_run_options run = frame_run(&r);
    assert_ok(compute_fit_run(fit, &run, &summary));
    assert_int_equal(summary.count, roi_count);
    assert_int_equal(summary.frames, FRAMES);
    check_same(&r, &wanted, 0, roi_count);
    compute_fit_release(fit);
    free_room(&r);
  }
}

static profile_entry copies_of_fits(const char *name) {
  const compute_device *device = compute_default_device(test_context);
  profile_entry entry;
  const uint32_t number = profile_entry_of(test_context, device, PROFILE_TRANSFER, name, "fit");
  assert_int_not_equal(number, 0);
  profile_entry_copy(test_context->profile, number, &entry);
  return entry;
}

/* Corners are uploaded and records downloaded, unless the device accesses them in place. */
static void a_profile_shows_the_copies_of_a_fit(void **state) {
  (void)state;
  const compute_device *device = compute_default_device(test_context);
  room r = make_room(roi_count);
  compute_fit_options options = frame_options();
  compute_fit *fit = make_fit(&options);
  const compute_fit_run_options run = frame_run(&r);
  assert_ok(compute_profile_start(test_context, NULL));
  assert_ok(compute_profile_clear(test_context));
  assert_ok(compute_fit_run(fit, &run, NULL));
  assert_ok(compute_profile_stop(test_context));
  compute_fit_release(fit);
  profile_collect(test_context, NULL);
  const profile_entry up = copies_of_fits("upload"), down = copies_of_fits("download");
  if (device == test_context->cpu) {
    assert_int_equal(up.times.count + down.times.count, 0);
  } else if (down.times.count + down.untimed > 0) { /* staged */
    assert_true(up.times.count + up.untimed > 0);
    assert_true(up.bytes >= (uint64_t)roi_count * 3 * sizeof(int32_t));
    assert_true(down.bytes >= (uint64_t)roi_count * PARAMETERS * sizeof(float));
  } else {
    assert_true((device->info.capabilities & COMPUTE_CAPABILITY_UNIFIED_MEMORY) != 0);
  }
  check_same(&r, &wanted, 0, roi_count);
  free_room(&r);
}

static void frames_of_16_bits_are_what_floats_are(void **state) {
  (void)state;
  room r = make_room(roi_count);
  compute_fit_options options = frame_options();
  options.dtype = COMPUTE_U16;
  options.batch = 11;
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = frame_run(&r);
  run.pixels.array = counts;
  assert_ok(compute_fit_run(fit, &run, NULL));
  check_same(&r, &wanted, 0, roi_count);
  compute_fit_release(fit);
  free_room(&r);
}

static void several_devices_share_frames(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context), *cpu = NULL;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  compute_device *const devices[] = {device, cpu, device};
  room r = make_room(roi_count);
  compute_fit_options options = frame_options();
  options.devices = devices;
  options.device_count = 3;
  options.batch = 4;
  compute_fit *fit = make_fit(&options);
  const compute_fit_run_options run = frame_run(&r);
  assert_ok(compute_fit_run(fit, &run, NULL));
  check_close(&r, &wanted);
  compute_fit_release(fit);
  free_room(&r);
}

static compute_status read_frames(void *user, int64_t first, int64_t items, void *data,
                                  int64_t *count) {
  const int64_t end = *(const int64_t *)user;
  *count = items < end - first ? items : end - first;
  memcpy(data, frames + first * H * W, (size_t)*count * (H * W) * sizeof *frames);
  return COMPUTE_OK;
}

typedef struct seen {
  int64_t rois, frames, calls, empty;
  const int32_t *corners; /* the expected corners, or NULL */
} seen;

static compute_status watch(void *user, int64_t first, int64_t count,
                            const compute_fit_results *results, const int32_t *at,
                            int64_t next_frame) {
  seen *s = user;
  assert_int_equal(first, s->rois);
  assert_true(next_frame > s->frames);
  for (int64_t i = 0; i < count; i++) {
    assert_true(at[3 * i] >= s->frames && at[3 * i] < next_frame);
    if (s->corners) assert_memory_equal(at + 3 * i, s->corners + 3 * (first + i), 12);
    assert_true(results->status[i] != COMPUTE_FIT_NOT_RUN);
  }
  s->rois += count;
  s->frames = next_frame;
  s->calls++;
  s->empty += count == 0;
  return COMPUTE_OK;
}

static void every_batch_is_told_of_also_without_spots(void **state) {
  (void)state;
  int64_t end = FRAMES;
  seen s = {.corners = corners};
  compute_fit_options options = frame_options();
  options.batch = 1;
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = {.pixels = {.read = read_frames, .user = &end},
                                 .frames = COMPUTE_BATCH_UNTIL_END,
                                 .count = roi_count,
                                 .corners = corners,
                                 .write = watch,
                                 .write_user = &s};
  assert_ok(compute_fit_run(fit, &run, NULL));
  assert_int_equal(s.rois, roi_count);
  assert_int_equal(s.frames, FRAMES);
  assert_int_equal(s.calls, FRAMES);
  assert_true(s.empty > 5);
  /* The callback also runs without any ROI. */
  s = (seen){0};
  run.frames = FRAMES;
  run.count = 0;
  assert_ok(compute_fit_run(fit, &run, NULL));
  assert_int_equal(s.empty, FRAMES);
  /* The corners expect more frames than the source has. */
  s = (seen){.corners = corners};
  end = 20;
  run.frames = COMPUTE_BATCH_UNTIL_END;
  run.count = roi_count;
  assert_fails(compute_fit_run(fit, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "20 frames");
  assert_int_equal(s.frames, 20);
  compute_fit_release(fit);
}

static void rois_of_frames_may_have_widths_and_starts_of_their_own(void **state) {
  (void)state;
  const size_t n = (size_t)roi_count;
  float *sigma = malloc(n * 2 * sizeof *sigma), *start = malloc(n * 4 * sizeof *start);
  for (size_t i = 0; i < n; i++) {
    sigma[2 * i] = 1.1f + (float)(i % 5) / 16;
    sigma[2 * i + 1] = 1.1f + (float)(i % 3) / 16;
    for (int k = 0; k < 4; k++) start[4 * i + (size_t)k] = k == 3 && i % 2 ? 5.5f : NAN;
  }
  room a = make_room(roi_count), b = make_room(roi_count);
  compute_fit_options options = frame_options();
  options.batch = 13;
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = frame_run(&a);
  run.sigma = sigma;
  run.start = start;
  assert_ok(compute_fit_run(fit, &run, NULL));
  compute_fit_release(fit);
  fit = make_fit(&(compute_fit_options){.problem = small_problem()});
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = cut},
                                                       .count = roi_count,
                                                       .sigma = sigma,
                                                       .start = start,
                                                       .results = results_of(&b)},
                            NULL));
  check_same(&a, &b, 0, roi_count);
  compute_fit_release(fit);
  free_room(&a);
  free_room(&b);
  free(sigma);
  free(start);
}

/* Maps of the frame's size give the results of maps that are already cut out. A map with swapped
 * axes or a wrong corner would not. */
static void maps_belong_to_the_frame(void **state) {
  (void)state;
  static float offset[H * W], variance[H * W];
  static uint8_t mask[H * W];
  compute_fit_problem p = small_problem();
  p.camera = COMPUTE_FIT_SCMOS;
  for (int i = 0; i < H * W; i++) {
    offset[i] = (float)((i / W) % 3 + (i % W) % 2);
    variance[i] = (float)((i / W) % 4) + (float)((i % W) % 5) * 2;
    mask[i] = i % 19 != 0;
  }
  room frame = make_room(roi_count), stack = make_room(roi_count);
  compute_fit_options options = {.problem = p,
                                 .frame_rows = H,
                                 .frame_columns = W,
                                 .offset = {offset, H, W},
                                 .variance = {variance, H, W},
                                 .mask = mask,
                                 .mask_rows = H,
                                 .mask_columns = W,
                                 .batch = 9};
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = frame_run(&frame);
  assert_ok(compute_fit_run(fit, &run, NULL));
  compute_fit_release(fit);
  options.problem.flags = COMPUTE_FIT_STACK;
  options.batch = 100;
  fit = make_fit(&options);
  run.pixels.array = cut;
  run.frames = 0;
  run.results = results_of(&stack);
  assert_ok(compute_fit_run(fit, &run, NULL));
  compute_fit_release(fit);
  check_same(&frame, &stack, 0, roi_count);
  int different = 0;
  for (int64_t i = 0; i < roi_count; i++)
    different += stack.parameters[i * PARAMETERS] != wanted.parameters[i * PARAMETERS];
  assert_true(different > roi_count * 9 / 10);
  free_room(&frame);
  free_room(&stack);
}

/* Batches with thousands of ROIs are split into several chunks. */
static void a_frame_may_have_any_number_of_rois(void **state) {
  (void)state;
  enum { MANY = 1700 };
  int32_t *many = malloc(sizeof *many * 3 * MANY);
  room r = make_room(MANY);
  for (int i = 0; i < MANY; i++) {
    const int source = i % (int)SPOTS; /* frame 0 has all of them */
    memcpy(many + 3 * i, corners + 3 * source, 3 * sizeof *many);
  }
  compute_fit_options options = frame_options();
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = frame_run(&r);
  run.corners = many;
  run.count = MANY;
  assert_ok(compute_fit_run(fit, &run, NULL));
  for (int i = 0; i < MANY; i++) {
    const int source = i % (int)SPOTS;
    assert_int_equal(r.status[i], wanted.status[source]);
    assert_memory_equal(r.parameters + i * PARAMETERS, wanted.parameters + source * PARAMETERS, 16);
  }
  compute_fit_release(fit);
  free_room(&r);
  free(many);
}

static void corners_are_checked_before_any_work(void **state) {
  (void)state;
  int32_t *bad = malloc(sizeof *bad * 3 * (size_t)roi_count);
  room r = make_room(roi_count);
  const compute_fit_options options = frame_options();
  compute_fit *fit = make_fit(&options);
#define REFUSED(part, ...)                                                                         \
  do {                                                                                             \
    memcpy(bad, corners, sizeof *bad * 3 * (size_t)roi_count);                                     \
    compute_fit_run_options run = frame_run(&r);                                                   \
    run.corners = bad;                                                                             \
    memset(r.status, 4, (size_t)roi_count);                                                        \
    __VA_ARGS__;                                                                                   \
    assert_fails(compute_fit_run(fit, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);                \
    test_check_message(test_context, (part));                                                      \
    assert_int_equal(r.status[roi_count - 1], 4);                                                  \
  } while (0)
  REFUSED("corners[5]", bad[16] = -1);
  REFUSED("corners[5]", bad[16] = H - ROWS + 1);
  REFUSED("corners[6]", bad[20] = W - COLUMNS + 1);
  REFUSED("corners[0]", bad[0] = -1);
  REFUSED("sort", bad[3 * 40] = 0);
  REFUSED("there are 60 frames", bad[3 * (roi_count - 1)] = FRAMES);
  REFUSED("corners", run.corners = NULL);
  REFUSED("frames", run.frames = -2);
  REFUSED("count", run.count = COMPUTE_BATCH_UNTIL_END);
  REFUSED("pixels", run.frames = COMPUTE_BATCH_UNTIL_END);
#undef REFUSED
  compute_fit_release(fit);
  free_room(&r);
  free(bad);
}

static compute_status fail_late(void *user, int64_t first, int64_t items, void *data,
                                int64_t *count) {
  int64_t end = FRAMES;
  (void)user;
  if (first >= 30) return COMPUTE_ERROR_FILE;
  return read_frames(&end, first, items, data, count);
}

/* Finding and fitting share the device time. Without finding, its time is 0. */
static void check_times(compute_fit *fit, const compute_fit_summary *summary, bool finds) {
  compute_fit_times t;
  assert_ok(compute_fit_times_get(fit, &t));
  assert_true(t.seconds > 0 && t.seconds <= summary->seconds);
  assert_true(finds ? t.finding > 0 : t.finding == 0);
  assert_true(t.fitting > 0 && t.writing > 0);
  assert_true(t.finding + t.fitting <= t.seconds);
  assert_true(t.reading <= t.seconds && t.writing <= t.seconds);
  assert_fails(compute_fit_times_get(fit, NULL), COMPUTE_ERROR_NULL_POINTER);
}

static void a_source_that_fails_leaves_the_rest_not_run(void **state) {
  (void)state;
  compute_fit_summary summary;
  room r = make_room(roi_count);
  compute_fit_options options = frame_options();
  options.batch = 10;
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = frame_run(&r);
  run.pixels = (compute_batch_source){.read = fail_late};
  assert_fails(compute_fit_run(fit, &run, &summary), COMPUTE_ERROR_FILE);
  assert_int_equal(summary.frames, 30);
  assert_true(summary.count > 0 && corners[3 * summary.count] >= 30);
  check_same(&r, &wanted, 0, summary.count);
  check_untouched(&r, summary.count);
  /* The fitter still works. */
  run = frame_run(&r);
  assert_ok(compute_fit_run(fit, &run, &summary));
  check_times(fit, &summary, false);
  check_same(&r, &wanted, 0, roi_count);
  compute_fit_release(fit);
  free_room(&r);
}

/* ---- Found spots --------------------------------------------------------------------------- */

static compute_fit_options movie_options(void) {
  compute_fit_options o = frame_options();
  o.find = true;
  o.spots = (compute_spot_options){.sigma = 1.2, .threshold = 8};
  return o;
}

typedef struct found {
  int32_t *corners;
  float *parameters;
  int64_t count, room;
} found;

static compute_status collect(void *user, int64_t first, int64_t count,
                              const compute_fit_results *results, const int32_t *at,
                              int64_t next_frame) {
  found *f = user;
  (void)next_frame;
  assert_int_equal(first, f->count);
  if (f->count + count > f->room) return COMPUTE_ERROR_OVERFLOW;
  if (count > 0) {
    memcpy(f->corners + 3 * first, at, (size_t)count * 12);
    memcpy(f->parameters + PARAMETERS * first, results->parameters, (size_t)count * 16);
  }
  f->count += count;
  return COMPUTE_OK;
}

static found find_all(const compute_fit_options *options) {
  found f = {.room = 4 * N};
  compute_fit_summary summary;
  f.corners = malloc(sizeof *f.corners * 3 * (size_t)f.room);
  f.parameters = malloc(sizeof *f.parameters * PARAMETERS * (size_t)f.room);
  compute_fit *fit = make_fit(options);
  assert_ok(compute_fit_run(
      fit,
      &(compute_fit_run_options){
          .pixels = {.array = frames}, .frames = FRAMES, .write = collect, .write_user = &f},
      &summary));
  assert_int_equal(summary.count, f.count);
  assert_int_equal(summary.frames, FRAMES);
  check_times(fit, &summary, true);
  compute_fit_release(fit);
  return f;
}

static void free_found(found *f) {
  free(f->corners);
  free(f->parameters);
}

static void found_spots_do_not_depend_on_batches(void **state) {
  (void)state;
  compute_fit_options options = movie_options();
  found one = find_all(&options);
  const int64_t sizes[] = {1, 7, FRAMES};
  assert_true(one.count > 100);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    options.batch = sizes[i];
    found other = find_all(&options);
    assert_int_equal(other.count, one.count);
    assert_memory_equal(other.corners, one.corners, (size_t)one.count * 12);
    assert_memory_equal(other.parameters, one.parameters, (size_t)one.count * 16);
    free_found(&other);
  }
  /* They equal fits at the same corners. */
  room r = make_room(one.count);
  const compute_fit_options plain = frame_options();
  compute_fit *fit = make_fit(&plain);
  compute_fit_run_options run = frame_run(&r);
  run.corners = one.corners;
  run.count = one.count;
  assert_ok(compute_fit_run(fit, &run, NULL));
  assert_memory_equal(r.parameters, one.parameters, (size_t)one.count * 16);
  compute_fit_release(fit);
  free_room(&r);
  free_found(&one);
}

/* Isolated spots are found at their places. */
static void spots_are_found_where_they_are(void **state) {
  (void)state;
  const compute_fit_options options = movie_options();
  found f = find_all(&options);
  int alone = 0, hit = 0;
  for (int64_t i = 0; i < roi_count; i++) {
    if (corners[3 * i] % 5 == 0) continue; /* crowded */
    const float *p = wanted.parameters + i * PARAMETERS;
    bool near = false;
    for (int64_t k = 0; k < roi_count; k++)
      near |= k != i && corners[3 * k] == corners[3 * i] &&
              abs(corners[3 * k + 1] - corners[3 * i + 1]) < ROWS + 3 &&
              abs(corners[3 * k + 2] - corners[3 * i + 2]) < COLUMNS + 3;
    if (near) continue;
    alone++;
    for (int64_t k = 0; k < f.count; k++) {
      if (f.corners[3 * k] != corners[3 * i]) continue;
      const float dx = (float)f.corners[3 * k + 2] + f.parameters[k * PARAMETERS] -
                       (float)corners[3 * i + 2] - p[0];
      const float dy = (float)f.corners[3 * k + 1] + f.parameters[k * PARAMETERS + 1] -
                       (float)corners[3 * i + 1] - p[1];
      if (dx * dx + dy * dy < 0.25f) {
        hit++;
        break;
      }
    }
  }
  assert_true(alone > 15);
  assert_true(hit >= alone * 95 / 100);
  free_found(&f);
}

static void a_limit_keeps_the_brightest(void **state) {
  (void)state;
  compute_fit_options options = movie_options();
  options.spots.limit = 2;
  found f = find_all(&options);
  int of_frame[FRAMES] = {0};
  for (int64_t i = 0; i < f.count; i++) of_frame[f.corners[3 * i]]++;
  for (int i = 0; i < FRAMES; i++) assert_true(of_frame[i] <= 2);
  free_found(&f);
}

static void movies_take_no_arrays_of_rois(void **state) {
  (void)state;
  const compute_fit_options options = movie_options();
  room r = make_room(roi_count);
  compute_fit *fit = make_fit(&options);
  compute_fit_run_options run = frame_run(&r);
  assert_fails(compute_fit_run(fit, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  run.results = (compute_fit_results){0};
  assert_fails(compute_fit_run(fit, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "corners");
  compute_fit_release(fit);
  compute_fit_options bad = movie_options();
  bad.spots.sigma = -1;
  assert_fails(compute_fit_create(test_context, &bad, &fit), COMPUTE_ERROR_INVALID_ARGUMENT);
  free_room(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_give_the_bits_of_a_stack),
      cmocka_unit_test(a_profile_shows_the_copies_of_a_fit),
      cmocka_unit_test(frames_of_16_bits_are_what_floats_are),
      cmocka_unit_test(several_devices_share_frames),
      cmocka_unit_test(every_batch_is_told_of_also_without_spots),
      cmocka_unit_test(rois_of_frames_may_have_widths_and_starts_of_their_own),
      cmocka_unit_test(maps_belong_to_the_frame),
      cmocka_unit_test(a_frame_may_have_any_number_of_rois),
      cmocka_unit_test(corners_are_checked_before_any_work),
      cmocka_unit_test(a_source_that_fails_leaves_the_rest_not_run),
      cmocka_unit_test(found_spots_do_not_depend_on_batches),
      cmocka_unit_test(spots_are_found_where_they_are),
      cmocka_unit_test(a_limit_keeps_the_brightest),
      cmocka_unit_test(movies_take_no_arrays_of_rois),
  };
  return cmocka_run_group_tests(tests, open_group, close_group);
}
