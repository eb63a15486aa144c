/* SPDX-License-Identifier: MIT */
/* Fits on the CPU do not depend on their neighbours, survive any data, and write no other byte. */
#include <sys/mman.h>
#include <unistd.h>

#include "fit_fixture.h"

enum { SIDE = 7, PIXELS = SIDE * SIDE, ALL = 1000 };

static uint16_t stack[ALL * PIXELS];
static float whole[ALL * FIT_COLUMNS], part[ALL * FIT_COLUMNS];

/* Mixes bright, dim and hopeless spots. */
static void fill_stack(const compute_fit_problem *p, test_random *random) {
  double values[PIXELS], truth[COMPUTE_FIT_MAX_PARAMETERS];
  for (int64_t i = 0; i < ALL; i++) {
    static const double photons[] = {1000, 5000, 150, 40, 20000};
    fit_truth(p, photons[i % 5], i % 3 ? 8 : 0.5, random, truth);
    fit_expose(p, NULL, truth, random, values);
    for (int32_t k = 0; k < PIXELS; k++) stack[i * PIXELS + k] = (uint16_t)values[k];
  }
}

static void check_same(const char *what, int64_t first, int64_t step, int64_t count,
                       int32_t columns) {
  for (int64_t i = 0; i < count; i++)
    if (memcmp(part + i * columns, whole + (first + i * step) * columns,
               (size_t)columns * sizeof(float)) != 0)
      fail_msg("%s: ROI %lld differs", what, (long long)(first + i * step));
}

static void records_depend_on_their_roi_alone(void **state) {
  static const int64_t counts[] = {1, 15, 16, 17, 31, 333};
  (void)state;
  test_random random = {.state = 21};
  for (int kind = 0; kind < 7; kind++) {
    compute_fit_problem p =
        fit_problem((compute_fit_model)(kind % COMPUTE_FIT_SPLINE), SIDE, SIDE, 1.1);
    if (kind >= 4) p.solver = (compute_fit_solver)(kind - 3);
    fill_stack(&p, &random);
    const int32_t columns = fit_width(&p);
    for (int set = 0; fixture_sets[set]; set++) {
      fixture f;
      if (!fixture_open(&f, 1 + kind % 3, fixture_sets[set])) continue;
      fit_launch l = fit_stack(&p, COMPUTE_U16, ALL, stack, whole);
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      l.records = part;
      for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const int64_t first = test_random_integer(&random, 0, ALL - counts[c]);
        l.count = counts[c];
        l.pixels = stack + first * PIXELS;
        assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
        check_same("a part", first, 1, counts[c], columns);
      }
      l.count = ALL; /* in reverse order */
      l.pixels = stack + (ALL - 1) * PIXELS;
      l.pixel_stride[0] = -PIXELS;
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      check_same("reversed", ALL - 1, -1, ALL, columns);
      fixture_close(&f);
    }
  }
}

/* ---- Strides -------------------------------------------------------------------------------- */

static void strides_do_not_change_a_bit(void **state) {
  static float other[40 * PIXELS * 4];
  static float results[40 * FIT_COLUMNS * 2];
  (void)state;
  test_random random = {.state = 22};
  const compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, SIDE, SIDE, 1.1);
  fill_stack(&p, &random);
  const int32_t columns = fit_width(&p);
  static const int64_t strides[][3] = {
      {PIXELS, SIDE, 1},   /* integers, stored in f32 */
      {1, 40, 40 * SIDE},  /* ROIs innermost, columns outermost */
      {PIXELS, 1, SIDE},   /* columns outside rows */
      {3 * PIXELS, 21, 3}, /* every third element */
      {1, 40 * SIDE, 40},  /* ROIs innermost */
      {60, 8, 1},          /* rows with gaps */
  };
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    fit_launch l = fit_stack(&p, COMPUTE_U16, 40, stack, whole);
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (size_t c = 0; c < sizeof strides / sizeof strides[0]; c++) {
      l = fit_stack(&p, COMPUTE_F32, 40, other, results);
      memcpy(l.pixel_stride, strides[c], sizeof strides[c]);
      for (int64_t k = 0; k < 40 * PIXELS; k++)
        other[k / PIXELS * strides[c][0] + k % PIXELS / SIDE * strides[c][1] +
              k % SIDE * strides[c][2]] = (float)stack[k];
      l.record_stride[0] = c % 2 ? 1 : 2 * columns;
      l.record_stride[1] = c % 2 ? 40 : 2;
      assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
      for (int64_t i = 0; i < 40; i++)
        for (int32_t k = 0; k < columns; k++)
          part[i * columns + k] = results[i * l.record_stride[0] + k * l.record_stride[1]];
      check_same("strides", 0, 1, 40, columns);
    }
    fixture_close(&f);
  }
}

/* Exactly `bytes` of memory before an inaccessible page, and after another one. */
typedef struct fence {
  unsigned char *map, *data;
  size_t map_bytes;
} fence;

static fence fence_create(size_t bytes, bool at_end) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  fence f = {.map_bytes = room + 2 * page};
  f.map = mmap(NULL, f.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(f.map != MAP_FAILED);
  assert_int_equal(mprotect(f.map + page, room, PROT_READ | PROT_WRITE), 0);
  f.data = f.map + page + (at_end ? room - bytes : 0);
  return f;
}

static void fence_release(fence *f) {
  assert_int_equal(munmap(f->map, f->map_bytes), 0);
}

static void check_fenced(fixture *f, const compute_fit_problem *p, compute_dtype dtype,
                         int64_t count, bool frames, bool at_end) {
  const size_t size = cpu_dtype_size(dtype), pixels = (size_t)(p->rows * p->columns);
  const int32_t columns = fit_width(p);
  fence from = fence_create((size_t)count * pixels * size, at_end);
  fence to = fence_create((size_t)(count * columns) * sizeof(float), at_end);
  fence corners = fence_create((size_t)count * 12, at_end);
  for (size_t k = 0; k < (size_t)count * pixels; k++) {
    const double value = 10 + (k % pixels == pixels / 2 ? 90 : 0) + (double)(k % 7);
    if (dtype == COMPUTE_U16)
      ((uint16_t *)(void *)from.data)[k] = (uint16_t)value;
    else
      ((float *)(void *)from.data)[k] = (float)value;
  }
  fit_launch l = fit_stack(p, dtype, count, from.data, (float *)(void *)to.data);
  if (frames) {
    int32_t *corner = (int32_t *)(void *)corners.data;
    for (int64_t i = 0; i < count; i++) {
      corner[3 * i] = (int32_t)i;
      corner[3 * i + 1] = corner[3 * i + 2] = 0;
    }
    l.problem.flags = 0;
    l.frames = count;
    l.height = p->rows;
    l.width = p->columns;
    l.input[0] = corner;
    l.input_stride[0][0] = 3;
    l.input_stride[0][1] = 1;
  }
  assert_int_equal(fit_run_on(f, &l), COMPUTE_OK);
  for (int64_t i = 0; i < count; i++) {
    const compute_fit_status status = fit_status(p, l.records + i * columns);
    assert_true(status != COMPUTE_FIT_NOT_RUN && status != COMPUTE_FIT_BAD_DATA);
  }
  fence_release(&from);
  fence_release(&to);
  fence_release(&corners);
}

static void no_byte_beside_the_operands_is_touched(void **state) {
  static const int32_t sides[][2] = {{7, 7}, {5, 9}, {3, 17}, {11, 11}, {16, 16}, {4, 4}, {2, 3}};
  static const int64_t counts[] = {1, 16, 19};
  (void)state;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (size_t s = 0; s < sizeof sides / sizeof sides[0]; s++)
      for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int kind = 0; kind < 8; kind++) {
          compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, sides[s][0], sides[s][1], 1);
          if (kind & 4) p.outputs = COMPUTE_FIT_USUAL_OUTPUTS;
          check_fenced(&f, &p, kind & 1 ? COMPUTE_U16 : COMPUTE_F32, counts[c], kind & 2,
                       (kind ^ (int)c) & 1);
        }
    fixture_close(&f);
  }
}

/* Address space is free; only touched pages cost memory. */
static void numbers_of_elements_and_bytes_pass_two_to_the_31(void **state) {
  (void)state;
  test_random random = {.state = 23};
  const compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, SIDE, SIDE, 1.1);
  const int32_t columns = fit_width(&p);
  const int64_t step = (INT64_C(1) << 31) + 5;
  const size_t pixel_bytes = (size_t)(2 * step + PIXELS) * 2;
  const size_t record_bytes = (size_t)(2 * step + columns) * 4;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  uint16_t *pixels = mmap(NULL, pixel_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  float *far = mmap(NULL, record_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (pixels == MAP_FAILED || far == MAP_FAILED) {
    if (pixels != MAP_FAILED) munmap(pixels, pixel_bytes);
    if (far != MAP_FAILED) munmap(far, record_bytes);
    test_skip("no address space for that");
  }
  fill_stack(&p, &random);
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    fit_launch l = fit_stack(&p, COMPUTE_U16, 3, stack, whole);
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t k = 0; k < 3 * PIXELS; k++) pixels[k / PIXELS * step + k % PIXELS] = stack[k];
    l = fit_stack(&p, COMPUTE_U16, 3, pixels, far);
    l.pixel_stride[0] = l.record_stride[0] = step;
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t i = 0; i < 3; i++)
      memcpy(part + i * columns, far + i * step, (size_t)columns * sizeof(float));
    check_same("far apart", 0, 1, 3, columns);
    fixture_close(&f);
  }
  munmap(pixels, pixel_bytes);
  munmap(far, record_bytes);
}

/* ---- Data that cannot be fitted -------------------------------------------------------------- */

static void check_no_fit(const compute_fit_problem *p, const float *record, int64_t roi) {
  if (fit_status(p, record) != COMPUTE_FIT_BAD_DATA)
    fail_msg("ROI %lld has status %d", (long long)roi, (int)fit_status(p, record));
  const int32_t steps = compute_fit_column(p->model, p->outputs, COMPUTE_FIT_ITERATIONS);
  const int32_t status = compute_fit_column(p->model, p->outputs, COMPUTE_FIT_STATUS);
  for (int32_t c = 0; c < fit_width(p); c++)
    if (c != steps && c != status) assert_true(isnan(record[c]));
  assert_true(record[steps] == 0);
}

static void bad_data_say_so_and_leave_neighbours_alone(void **state) {
  enum { COUNT = 40 };
  static float pixels[COUNT * PIXELS];
  (void)state;
  test_random random = {.state = 24};
  const compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNBS, SIDE, SIDE, 1.1);
  const int32_t columns = fit_width(&p);
  fill_stack(&p, &random);
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    for (int64_t k = 0; k < COUNT * PIXELS; k++) pixels[k] = (float)stack[k];
    fit_launch l = fit_stack(&p, COMPUTE_F32, COUNT, pixels, whole);
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int32_t k = 0; k < PIXELS; k++) {
      pixels[3 * PIXELS + k] = NAN;
      pixels[5 * PIXELS + k] = -(float)k;
      pixels[6 * PIXELS + k] = 0;
      pixels[8 * PIXELS + k] = 100;    /* all equal */
      pixels[9 * PIXELS + k] = 65535;  /* saturated */
      pixels[20 * PIXELS + k] = 3e38f; /* their sum is infinite */
    }
    pixels[10 * PIXELS + 48] = NAN;
    pixels[11 * PIXELS + 13] = INFINITY;
    pixels[12 * PIXELS] = -INFINITY;
    l.records = part;
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t i = 0; i < COUNT; i++) {
      const bool bad = i == 3 || i == 5 || i == 6 || (i >= 10 && i <= 12) || i == 20;
      const compute_fit_status status = fit_status(&p, part + i * columns);
      if (bad)
        check_no_fit(&p, part + i * columns, i);
      else if (i == 8 || i == 9)
        assert_true(status != COMPUTE_FIT_NOT_RUN && status != COMPUTE_FIT_BAD_DATA);
      else
        assert_memory_equal(part + i * columns, whole + i * columns,
                            (size_t)columns * sizeof(float));
    }
    fixture_close(&f);
  }
}

static void a_single_pixel_and_a_mask_of_everything_are_no_fit(void **state) {
  static const uint8_t nothing[PIXELS];
  (void)state;
  test_random random = {.state = 25};
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, 1, 1, 1);
    fill_stack(&p, &random);
    fit_launch l = fit_stack(&p, COMPUTE_U16, 3, stack, whole);
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t i = 0; i < 3; i++) check_no_fit(&p, whole + i * fit_width(&p), i);

    /* One pixel determines one parameter. */
    p.fixed = p.start_set = 1 | 2 | 8;
    p.start[3] = 2;
    stack[0] = 38;
    l = fit_stack(&p, COMPUTE_U16, 1, stack, whole);
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    assert_int_equal(fit_status(&p, whole), COMPUTE_FIT_CONVERGED);
    const double share = pow(erf(0.5 / sqrt(2)), 2);
    fit_expect("one pixel", 0, 2, (double)whole[2], 36 / share, 0.01);
    assert_true(isnan(fit_output(&p, whole, COMPUTE_FIT_P_VALUE, 0)));

    p = fit_problem(COMPUTE_FIT_XYNB, SIDE, SIDE, 1);
    fill_stack(&p, &random);
    l = fit_stack(&p, COMPUTE_U16, 18, stack, whole);
    l.input[4] = nothing;
    l.input_stride[4][1] = SIDE;
    l.input_stride[4][2] = 1;
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t i = 0; i < 18; i++) check_no_fit(&p, whole + i * fit_width(&p), i);
    fixture_close(&f);
  }
}

static void impossible_inputs_of_an_roi_are_no_fit(void **state) {
  enum { COUNT = 20 };
  (void)state;
  test_random random = {.state = 26};
  compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, SIDE, SIDE, 1.1);
  const int32_t columns = fit_width(&p);
  fill_stack(&p, &random);
  int32_t corners[COUNT][3];
  float sigma[COUNT][2], start[COUNT][4], lower[COUNT][4];
  for (int64_t i = 0; i < COUNT; i++) {
    corners[i][0] = (int32_t)i;
    corners[i][1] = corners[i][2] = 0;
    sigma[i][0] = sigma[i][1] = 1.1f;
    for (int a = 0; a < 4; a++) start[i][a] = lower[i][a] = a == 3 && i != 9 ? 8 : NAN;
  }
  corners[1][0] = -1;
  corners[2][0] = COUNT;
  corners[3][1] = -1;
  corners[4][1] = 1;
  corners[5][2] = INT32_MIN;
  corners[6][2] = INT32_MAX;
  sigma[7][0] = 0;
  sigma[8][1] = NAN;
  lower[10][0] = 6.6f; /* above the usual upper bound */
  sigma[11][0] = -1;
  p.fixed = 8;
  for (int set = 0; fixture_sets[set]; set++) {
    fixture f;
    if (!fixture_open(&f, 1, fixture_sets[set])) continue;
    fit_launch l = fit_stack(&p, COMPUTE_U16, COUNT, stack, whole);
    l.problem.flags = 0;
    l.frames = COUNT;
    l.height = l.width = SIDE;
    l.input[0] = corners;
    l.input[5] = sigma;
    l.input[6] = start;
    l.input[7] = lower;
    l.input_stride[0][0] = 3;
    l.input_stride[5][0] = 2;
    l.input_stride[6][0] = l.input_stride[7][0] = 4;
    for (int bit = 0; bit < 8; bit++) l.input_stride[bit][1] = 1;
    assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
    for (int64_t i = 0; i < COUNT; i++) {
      if (i >= 1 && i <= 11)
        check_no_fit(&p, whole + i * columns, i);
      else
        assert_int_not_equal(fit_status(&p, whole + i * columns), COMPUTE_FIT_BAD_DATA);
    }
    fixture_close(&f);
  }
}

static void no_fits_and_no_memory_are_told(void **state) {
  (void)state;
  test_random random = {.state = 27};
  compute_fit_problem p = fit_problem(COMPUTE_FIT_XYNB, SIDE, SIDE, 1.1);
  fill_stack(&p, &random);
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  fit_launch l = fit_stack(&p, COMPUTE_U16, 0, stack, whole);
  whole[0] = 77;
  assert_int_equal(fit_run_on(&f, &l), COMPUTE_OK);
  assert_true(whole[0] == 77);
  l.count = ALL;
  for (int64_t n = 1;; n++) {
    f.fail_at = n;
    const compute_status status = fit_run_on(&f, &l);
    const bool failed = f.fail_at == 0;
    f.fail_at = 0;
    if (!failed) break;
    assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
  }
  l.problem.rows = 65;
  assert_int_equal(fit_run_on(&f, &l), COMPUTE_ERROR_UNSUPPORTED);
  l = fit_stack(&p, COMPUTE_I32, ALL, stack, whole);
  assert_int_equal(fit_run_on(&f, &l), COMPUTE_ERROR_UNSUPPORTED);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_depend_on_their_roi_alone),
      cmocka_unit_test(strides_do_not_change_a_bit),
      cmocka_unit_test(no_byte_beside_the_operands_is_touched),
      cmocka_unit_test(numbers_of_elements_and_bytes_pass_two_to_the_31),
      cmocka_unit_test(bad_data_say_so_and_leave_neighbours_alone),
      cmocka_unit_test(a_single_pixel_and_a_mask_of_everything_are_no_fit),
      cmocka_unit_test(impossible_inputs_of_an_roi_are_no_fit),
      cmocka_unit_test(no_fits_and_no_memory_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
