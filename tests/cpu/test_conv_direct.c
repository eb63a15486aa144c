/* SPDX-License-Identifier: MIT */
/* Direct convolution on the CPU (depthwise, and groups of few channels), and the gradient of the
 * filter in general: widths around the vector's width, strides, dilation, padding and several
 * results per channel. Sums have the same bits for any number of threads. Elements outside a window
 * do not affect its result. */
#include "conv_fixture.h"

/* ---- Shapes -------------------------------------------------------------------------------- */

static const sample_convolution_shape shapes[] = {
    /* depthwise, as in networks */
    {2, 5, 5, 5, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {3, 9, 9, 9, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 3, 3, 3, {28, 28}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 3, 3, 3, {27, 29}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {0, 0}},
    {1, 2, 2, 2, {23, 31}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {0, 0}},
    {1, 3, 3, 3, {17, 40}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {0, 0}},
    /* several results per channel */
    {2, 3, 6, 3, {12, 18}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, 2, 8, 2, {9, 33}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    /* unequal strides and dilation; a stride larger than the filter or the data */
    {1, 2, 2, 2, {19, 37}, {3, 2}, {3, 2}, {1, 3}, {2, 1}, {0, 0}},
    {1, 2, 2, 2, {20, 50}, {2, 2}, {4, 3}, {1, 1}, {0, 2}, {0, 0}},
    {2, 3, 3, 3, {2, 3}, {3, 3}, {5, 4}, {1, 1}, {2, 2}, {0, 0}},
    {1, 2, 2, 2, {1, 70}, {1, 9}, {1, 1}, {1, 1}, {0, 4}, {0, 0}},
    {1, 2, 2, 2, {30, 1}, {5, 1}, {2, 1}, {1, 1}, {2, 0}, {0, 0}},
    /* one channel, and three */
    {3, 1, 7, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 3, 8, 1, {30, 35}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    {2, 3, 9, 1, {33, 30}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {0, 0}},
    {1, 20, 1, 1, {18, 21}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 12, 12, 3, {13, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    /* several row tiles */
    {1, 3, 4, 1, {70, 110}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 2, 2, 2, {280, 90}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
};

static const compute_dtype dtypes[][2] = {{COMPUTE_F32, COMPUTE_F32},
                                          {COMPUTE_F64, COMPUTE_F64},
                                          {COMPUTE_F16, COMPUTE_F16},
                                          {COMPUTE_BF16, COMPUTE_F32}};

static void run_shapes(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (size_t d = 0; d < 3; d++)
      for (size_t t = 0; t < 4; t += 1 + (i + d) % 3) {
        const bool large = shapes[i].data[0] * shapes[i].data[1] > 5000;
        if (t > 0 && (large || test_samples() > 1)) continue;
        const sample_convolution s = {.shape = shapes[i],
                                      .direction = (compute_convolution_direction)d,
                                      .layout = (sample_layout)((t + i / 3) % 4 / 2 * (1 + i % 5)),
                                      .dtype = dtypes[t][0],
                                      .result = dtypes[t][1],
                                      .ending = (sample_ending)((i + d + t) % ENDING_COUNT)};
        sample_convolution_visit(&s, check_sample, &c);
      }
}

static void few_channels_are_right(void **state) {
  (void)state;
  on_every_device(run_shapes, 2, 0);
}

/* Every width up to some vectors: blocks overlap, are masked, or are narrower than a vector. */
static void run_widths(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (int64_t width = 1; width <= 70; width += (int64_t)test_samples())
    for (int64_t stride = 1; stride <= 2; stride++) {
      const sample_convolution s = {.shape = {1,
                                              2,
                                              2,
                                              2,
                                              {1 + width % 7, width},
                                              {3, 3},
                                              {stride, stride},
                                              {1, 1},
                                              {1, 1},
                                              {0, 0}},
                                    .direction =
                                        (compute_convolution_direction)((width / 2 + stride) % 3),
                                    .dtype = width % 2 ? COMPUTE_F32 : COMPUTE_F64,
                                    .result = width % 2 ? COMPUTE_F32 : COMPUTE_F64,
                                    .ending = width % 3 == 0 ? ENDING_BIAS : ENDING_PLAIN};
      for (int d = 0; d < 3; d++) {
        sample_convolution turned = s;
        turned.direction = (compute_convolution_direction)d;
        sample_convolution_visit(&turned, check_sample, &c);
      }
    }
}

static void every_width_is_right(void **state) {
  (void)state;
  on_every_device(run_widths, 1, 0);
}

/* Single channels in planes: every width up to some vectors and every height up to some blocks. The
 * filters and strides with specialised loops have every ending. */
static void check_planes(const sample_kernel *s, void *user) {
  checker *c = user;
  cpu_kernel *kernel = NULL;
  const cpu_isa *isa = c->f->device->isa;
  const int64_t lanes = isa->vector_bytes / (int64_t)sizeof(float);
  const int64_t least = lanes == 16 ? 1 : lanes;                     /* without masked stores */
  const bool has_loops = lanes > 4 && strcmp(isa->name, "rvv") != 0; /* that is portable C here */
  check_sample(s, c);
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, c->f->device, &s->descriptor, &kernel),
                   COMPUTE_OK);
  if (has_loops && s->attributes.conv.result_size[1] >= least)
    assert_non_null(strstr(kernel->description, "depthwise convolution of planes"));
  cpu_kernel_destroy(kernel);
}

static void run_planes(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (int64_t width = 3; width <= 75; width += (int64_t)test_samples())
    for (int64_t kind = 0; kind < 8; kind++) {
      const int64_t size = kind & 1 ? 5 : 3, stride = kind & 2 ? 2 : 1, height = 5 + width % 19;
      const int64_t padding = kind & 4 ? size / 2 : (width + kind) % 2;
      const sample_convolution s = {.shape = {2,
                                              3,
                                              3,
                                              3,
                                              {height, width + size - 3},
                                              {size, size},
                                              {stride, stride},
                                              {1, 1},
                                              {padding, size / 2},
                                              {0, 0}},
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = (sample_ending)((width + kind) % ENDING_COUNT)};
      sample_convolution_visit(&s, check_planes, &c);
    }
}

static void single_channels_in_planes_are_right(void **state) {
  (void)state;
  on_every_device(run_planes, 2, 0);
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void check_threads(const sample_kernel *s, void *user) {
  static const int32_t threads[] = {1, 2, 5};
  unsigned char *first = NULL;
  (void)user;
  for (int i = 0; i < 3; i++) {
    fixture f;
    test_random random = {.state = 11};
    assert_true(fixture_open(&f, threads[i], NULL));
    memory m = create_memory(s, &random);
    const uint32_t output = s->descriptor.input_count;
    assert_int_equal(run_sample(&f, s, m.pointers), COMPUTE_OK);
    if (!first) {
      first = malloc(m.bytes[output]);
      assert_non_null(first);
      memcpy(first, m.data[output], m.bytes[output]);
    }
    if (memcmp(first, m.data[output], m.bytes[output]) != 0)
      fail_msg("%s: other bits with %d threads", s->name, (int)threads[i]);
    release_memory(&m);
    fixture_close(&f);
  }
  free(first);
}

static void threads_do_not_show_in_the_bits(void **state) {
  (void)state;
  static const sample_convolution_shape wide[] = {
      {4, 40, 35, 1, {11, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {1, 16, 24, 1, {64, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {9, 1, 8, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {7, 6, 6, 6, {20, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
      {1, 2, 2, 2, {300, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {1, 3, 5, 1, {90, 60}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
  };
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
    for (int d = 0; d < 3; d++) {
      const sample_convolution s = {.shape = wide[i],
                                    .direction = (compute_convolution_direction)d,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32};
      sample_convolution_visit(&s, check_threads, NULL);
    }
}

/* ---- Neighbours ---------------------------------------------------------------------------- */

/* One infinity at the left edge of the data: without padding, only the first column of taps reads
 * it, so the gradient of the other columns is finite. */
static void check_infinity(const sample_kernel *s, void *user) {
  fixture *f = user;
  test_random random = {.state = 3};
  const compute_conv_attributes *c = compute_conv_of(&s->descriptor);
  memory m = create_memory(s, &random);
  float *x = m.pointers[0];
  const float *gradient = m.pointers[2];
  x[3 * c->data_size[1]] = INFINITY;
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  const int64_t taps = c->filter_size[0] * c->filter_size[1];
  assert_true(isinf(gradient[0]));
  for (int64_t i = 0; i < c->result_channels * taps; i++)
    if (!isfinite(gradient[i]) && (i >= taps || i % c->filter_size[1] != 0))
      fail_msg("%s: %g at %lld", s->name, gradient[i], (long long)i);
  release_memory(&m);
}

static void run_infinity(fixture *f, uint64_t seed) {
  (void)seed;
  static const int64_t widths[] = {4, 9, 17, 18, 19, 33, 40};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    const sample_convolution s = {
        .shape = {1, 2, 2, 2, {6, widths[i]}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        .direction = COMPUTE_CONVOLUTION_BY_FILTER,
        .dtype = COMPUTE_F32,
        .result = COMPUTE_F32};
    sample_convolution_visit(&s, check_infinity, f);
  }
}

static void an_infinity_stays_with_its_windows(void **state) {
  (void)state;
  on_every_device(run_infinity, 1, 0);
}

/* ---- Memory -------------------------------------------------------------------------------- */

static void fail_allocations(const sample_kernel *s, void *user) {
  (void)user;
  test_random random = {.state = 5};
  memory m = create_memory(s, &random);
  bool failed = true;
  for (int64_t n = 1; failed; n++) {
    fixture f;
    assert_true(fixture_open(&f, 2, "scalar"));
    f.fail_at = n;
    const compute_status status = run_sample(&f, s, m.pointers);
    failed = f.fail_at == 0;
    f.fail_at = 0;
    assert_int_equal(status, failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK);
    assert_true(failed || n > 4);
    fixture_close(&f);
  }
  release_memory(&m);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  for (int d = 0; d < 3; d++) {
    const sample_convolution s = {
        .shape = {2, 4, 4, 4, {6, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}},
        .direction = (compute_convolution_direction)d,
        .dtype = COMPUTE_F32,
        .result = COMPUTE_F32,
        .ending = ENDING_BIAS};
    sample_convolution_visit(&s, fail_allocations, NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_channels_are_right),
      cmocka_unit_test(every_width_is_right),
      cmocka_unit_test(single_channels_in_planes_are_right),
      cmocka_unit_test(threads_do_not_show_in_the_bits),
      cmocka_unit_test(an_infinity_stays_with_its_windows),
      cmocka_unit_test(a_failing_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
