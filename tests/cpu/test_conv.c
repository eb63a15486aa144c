/* SPDX-License-Identifier: MIT */
/* Convolution on the CPU matches the double reference. All samples with small caches (so that small
 * convolutions have many blocks) and random ones run on every instruction set, with different
 * numbers of threads. compute-conformance runs all samples with the machine's caches. */
#include "conv_fixture.h"
#include "core/platform/aligned.h"

static void run_samples(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  sample_conv_kernels(check_sample, &c);
  assert_true(c.count > 100);
}

static void every_sample_is_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_samples, 3, 2048);
}

/* ---- Random convolutions ------------------------------------------------------------------- */

static int64_t pick(test_random *random, int64_t low, int64_t high) {
  return test_random_integer(random, low, high);
}

static sample_convolution random_convolution(test_random *random) {
  static const int32_t groups[] = {1, 1, 1, 1, 2, 3, 8};
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F32,  COMPUTE_F32,
                                         COMPUTE_F64, COMPUTE_BF16, COMPUTE_F16};
  sample_convolution s = {.direction = (compute_convolution_direction)pick(random, 0, 2),
                          .layout = (sample_layout)pick(random, 0, LAYOUT_COUNT - 1),
                          .ending = (sample_ending)pick(random, 0, ENDING_COUNT - 1)};
  sample_convolution_shape *c = &s.shape;
  s.dtype = dtypes[pick(random, 0, 5)];
  s.result = s.dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  c->n = pick(random, 1, 2);
  c->groups = groups[pick(random, 0, 6)];
  c->c = c->groups * pick(random, 1, pick(random, 0, 3) ? 4 : 19);
  c->k = c->groups * pick(random, 1, pick(random, 0, 3) ? 5 : 37);
  for (int i = 0; i < 2; i++) {
    c->data[i] = pick(random, 1, pick(random, 0, 3) ? 12 : 30);
    c->filter[i] = pick(random, 1, pick(random, 0, 3) ? 4 : 8);
    c->stride[i] = pick(random, 0, 1) ? 1 : pick(random, 1, 4);
    c->dilation[i] = pick(random, 0, 2) ? 1 : pick(random, 1, 4);
    c->padding[i] = pick(random, 0, 1) ? c->filter[i] / 2 : pick(random, 0, 9);
    c->more[i] = pick(random, 0, 4) ? 0 : pick(random, -2, 3);
  }
  return s;
}

static void run_random(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (int i = 0; i < 100 / (int)test_samples(); i++) {
    const sample_convolution s = random_convolution(&c.random);
    sample_convolution_visit(&s, check_sample, &c);
  }
}

static void random_shapes_are_right(void **state) {
  (void)state;
  on_every_device(run_random, 2, 0);
}

static void random_shapes_are_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_random, 4, 4096);
}

/* Sums must wrap like the output's type, whatever the order of summation. */
static void run_integers(fixture *f, uint64_t seed) {
  static const compute_dtype dtypes[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_U8, COMPUTE_U16};
  checker c = {.f = f, .random = {.state = seed}};
  for (int i = 0; i < 60 / (int)test_samples(); i++) {
    sample_convolution s = random_convolution(&c.random);
    s.dtype = dtypes[i % 4];
    s.result = s.dtype == COMPUTE_I64 ? COMPUTE_I64 : COMPUTE_I32;
    sample_convolution_visit(&s, check_sample, &c);
  }
}

static void integers_wrap(void **state) {
  (void)state;
  on_every_device(run_integers, 2, 0);
}

/* ---- Shapes of networks -------------------------------------------------------------------- */

/* Large enough for whole register tiles and several blocks of k, of channels and of rows. Others
 * have many small images, which are partly multiplied together. */
static const sample_convolution_shape wide_shapes[] = {
    {1, 40, 35, 1, {11, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 130, 17, 1, {5, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 3, 30, 1, {25, 27}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {0, 0}},
    {1, 30, 130, 1, {8, 8}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {1, 40, 40, 40, {9, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 12, 20, 1, {17, 12}, {3, 3}, {1, 1}, {5, 4}, {5, 4}, {0, 0}},
    {1, 3, 17, 1, {1, 700}, {1, 9}, {1, 1}, {1, 1}, {0, 4}, {0, 0}},
    {25, 60, 4, 1, {5, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {25, 4, 60, 1, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {13, 60, 30, 1, {8, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {13, 60, 60, 1, {6, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 30, 37, 1, {31, 41}, {1, 1}, {3, 2}, {1, 1}, {0, 0}, {0, 0}},
    {3, 30, 37, 1, {20, 41}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 30, 37, 1, {31, 41}, {1, 1}, {3, 2}, {1, 1}, {0, 0}, {5, 2}},
};

static void run_wide(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof wide_shapes / sizeof *wide_shapes; i++)
    for (int d = 0; d < 3; d++) {
      if (!test_in_turn(i + (size_t)d)) continue;
      const sample_convolution s = {.shape = wide_shapes[i],
                                    .direction = (compute_convolution_direction)d,
                                    .layout = (i + (size_t)d) % 2 ? LAYOUT_NHWC : LAYOUT_NCHW,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = d == 0 ? ENDING_BIAS : ENDING_PLAIN};
      sample_convolution_visit(&s, check_sample, &c);
    }
}

static void shapes_of_networks_are_right(void **state) {
  (void)state;
  on_every_device(run_wide, 2, 0);
}

/* Channels for some full vectors, plus a remainder. */
static const sample_convolution_shape depthwise_shapes[] = {
    {1, 71, 71, 71, {7, 18}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 38, 38, 38, {9, 31}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 64, 64, 64, {6, 13}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    {1, 49, 49, 49, {8, 21}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {0, 0}},
    {1, 35, 35, 35, {8, 21}, {3, 4}, {1, 3}, {1, 2}, {1, 1}, {0, 0}},
};

/* Networks of bf16: the micro-kernel and the loop of depthwise convolutions run the epilogue. */
static void run_bf16(fixture *f, uint64_t seed) {
  enum { WIDE = sizeof wide_shapes / sizeof *wide_shapes };
  enum { DEPTHWISE = sizeof depthwise_shapes / sizeof *depthwise_shapes };
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < WIDE + DEPTHWISE; i++)
    for (sample_ending end = ENDING_PLAIN; end < ENDING_COUNT; end++) {
      if (!test_in_turn(i + (size_t)end)) continue;
      const sample_convolution s = {.shape = i < WIDE ? wide_shapes[i] : depthwise_shapes[i - WIDE],
                                    .direction = COMPUTE_CONVOLUTION_FORWARD,
                                    .layout = (i + (size_t)end) % 3 ? LAYOUT_NHWC : LAYOUT_PIXELS,
                                    .dtype = COMPUTE_BF16,
                                    .result = COMPUTE_BF16,
                                    .ending = end};
      sample_convolution_visit(&s, check_sample, &c);
    }
}

static void networks_of_bf16_are_right(void **state) {
  (void)state;
  on_every_device(run_bf16, 2, 0);
}

/* relu(0 + bias) is that bias, or 0. */
static void check_biases(const sample_kernel *s, void *user) {
  static const uint16_t biases[] = {0x3f80, 0x0001, 0x8001, 0x007f, 0x0080,
                                    0xff80, 0x7f80, 0x0400, 0x8000};
  enum { BIASES = sizeof biases / sizeof *biases };
  checker *c = user;
  const int64_t *bias = s->inputs[2].stride, *y = s->outputs[0].stride;
  for (int denormal = 0; denormal < 2; denormal++) {
    memory m = create_memory(s, &c->random);
    memset(m.data[0], 0, m.bytes[0]);
    for (int64_t i = 0; i < s->descriptor.size[1]; i++)
      ((uint16_t *)m.pointers[2])[i * bias[1]] = denormal ? biases[i % BIASES] : 0x3f80;
    assert_int_equal(run_sample(c->f, s, m.pointers), COMPUTE_OK);
    int64_t point[COMPUTE_MAX_RANK] = {0};
    do {
      const uint16_t own = ((const uint16_t *)m.pointers[2])[point[1] * bias[1]];
      int64_t at = 0;
      for (int i = 0; i < 4; i++) at += point[i] * y[i];
      assert_int_equal(((const uint16_t *)m.pointers[3])[at], own & 0x8000 ? 0 : own);
    } while (next_point(4, s->descriptor.size, point));
    release_memory(&m);
  }
  c->count++;
}

static void run_denormals(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof depthwise_shapes / sizeof *depthwise_shapes; i++)
    for (int grouped = 0; grouped < 2; grouped++) {
      sample_convolution s = {.shape = depthwise_shapes[i],
                              .direction = COMPUTE_CONVOLUTION_FORWARD,
                              .layout = LAYOUT_NHWC,
                              .dtype = COMPUTE_BF16,
                              .result = COMPUTE_BF16,
                              .ending = ENDING_BIAS};
      if (!grouped) s.shape.groups = 1;
      sample_convolution_visit(&s, check_biases, &c);
    }
  assert_int_equal(c.count, 2 * sizeof depthwise_shapes / sizeof *depthwise_shapes);
}

/* AVX512-BF16's hardware conversion would flush them to 0. */
static void denormal_results_of_bf16_stay(void **state) {
  (void)state;
  on_every_device(run_denormals, 2, 0);
}

/* ---- Winograd ------------------------------------------------------------------------------ */

/* Sizes that tiles of 4 × 4 do not divide, every padding, few and many tiles per image, several
 * blocks of both kinds of channels, and one row of tiles in several runs. */
static const sample_convolution_shape winograd_shapes[] = {
    {2, 16, 20, 1, {19, 22}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 17, 16, 1, {30, 27}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, 16, 31, 1, {22, 25}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    {2, 32, 34, 2, {20, 21}, {3, 3}, {1, 1}, {1, 1}, {1, 0}, {2, -1}},
    {11, 16, 70, 1, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {41, 17, 16, 1, {2, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 17, 16, 1, {3, 162}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 1}},
    {1, 16, 16, 1, {25, 22}, {3, 3}, {1, 1}, {1, 1}, {5, 4}, {0, 0}},
};

static void check_winograd(const sample_kernel *s, void *user) {
  checker *c = user;
  cpu_kernel *kernel = NULL;
  sample_kernel allowed = *s;
  attributes_bind(&allowed.descriptor, &allowed.attributes);
  allowed.attributes.conv.precision = COMPUTE_PRECISION_WINOGRAD;
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, c->f->device, &allowed.descriptor, &kernel),
                   COMPUTE_OK);
  if (s->inputs[0].stride[3] == 1) assert_non_null(strstr(kernel->description, "Winograd"));
  cpu_kernel_destroy(kernel);
  check_sample(&allowed, c);
}

/* Without COMPUTE_PRECISION_WINOGRAD, the kernel does not use Winograd. */
static void check_plain(const sample_kernel *s, void *user) {
  fixture *f = user;
  cpu_kernel *kernel = NULL;
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, f->device, &s->descriptor, &kernel),
                   COMPUTE_OK);
  assert_null(strstr(kernel->description, "Winograd"));
  cpu_kernel_destroy(kernel);
}

/* Tests every shape in one direction on one instruction set and in the other direction on the next;
 * `turn` swaps them. */
static void check_winograd_shapes(fixture *f, uint64_t seed, size_t turn) {
  checker c = {.f = f, .random = {.state = seed}};
  const size_t set = f->device->isa->vector_bytes / 32;
  for (size_t i = 0; i < sizeof winograd_shapes / sizeof *winograd_shapes; i++) {
    const size_t d = (i + set + turn) % 2;
    if (!test_in_turn(i)) continue;
    sample_convolution s = {.shape = winograd_shapes[i],
                            .direction = (compute_convolution_direction)d,
                            .dtype = COMPUTE_F32,
                            .result = COMPUTE_F32,
                            .ending = (sample_ending)((i + turn) % ENDING_COUNT)};
    if (i == 1) s.layout = LAYOUT_NHWC;
    sample_convolution_visit(&s, check_winograd, &c);
    sample_convolution_visit(&s, check_plain, f);
  }
}

static void run_winograd(fixture *f, uint64_t seed) {
  check_winograd_shapes(f, seed, 0);
}

static void winograd_is_right(void **state) {
  (void)state;
  on_every_device(run_winograd, 2, 0);
}

static void run_short_winograd(fixture *f, uint64_t seed) {
  check_winograd_shapes(f, seed, 1);
}

static void winograd_is_right_in_short_runs(void **state) {
  (void)state;
  on_every_device(run_short_winograd, 1, 4096);
}

static void check_threads(const sample_kernel *s, void *user) {
  const bool *winograd = user;
  static const int32_t threads[] = {1, 2, 5};
  sample_kernel allowed = *s;
  attributes_bind(&allowed.descriptor, &allowed.attributes);
  if (*winograd) allowed.attributes.conv.precision = COMPUTE_PRECISION_WINOGRAD;
  test_random random = {.state = 11};
  memory m = create_memory(&allowed, &random);
  const uint32_t output = s->descriptor.input_count;
  unsigned char *first = malloc(m.bytes[output]);
  assert_non_null(first);
  for (int i = 0; i < 3; i++) {
    fixture f;
    assert_true(fixture_open(&f, threads[i], NULL));
    memcpy(m.data[output], m.before[output], m.bytes[output]);
    assert_int_equal(run_sample(&f, &allowed, m.pointers), COMPUTE_OK);
    if (i == 0)
      memcpy(first, m.data[output], m.bytes[output]);
    else
      assert_memory_equal(first, m.data[output], m.bytes[output]);
    fixture_close(&f);
  }
  free(first);
  release_memory(&m);
}

static void winograd_does_not_depend_on_threads(void **state) {
  bool winograd = true;
  (void)state;
  for (size_t i = 0; i < sizeof winograd_shapes / sizeof *winograd_shapes; i++)
    for (int d = 0; d < 2; d++) {
      const sample_convolution s = {.shape = winograd_shapes[i],
                                    .direction = (compute_convolution_direction)d,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = ENDING_BIAS};
      sample_convolution_visit(&s, check_threads, &winograd);
    }
}

static void planes_do_not_depend_on_threads(void **state) {
  static const sample_convolution_shape deep = {1,      100,    200,    1,      {9, 9},
                                                {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}};
  const size_t wide = sizeof wide_shapes / sizeof *wide_shapes;
  bool winograd = false;
  (void)state;
  for (size_t i = 0; i <= wide; i++)
    for (int d = 0; d < 3; d++) {
      const sample_convolution s = {.shape = i < wide ? wide_shapes[i] : deep,
                                    .direction = (compute_convolution_direction)d,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = ENDING_PLAIN};
      sample_convolution_visit(&s, check_threads, &winograd);
    }
}

/* ---- Channels last --------------------------------------------------------------------------- */

/* Several panels of results, some narrow; groups; every stride, dilation and padding; windows whose
 * rows are a multiple of 2 KiB apart; filters larger than the data, computed in row tiles of
 * several narrow rows; and one channel per group, in one block and in several. */
static const sample_convolution_shape pixel_shapes[] = {
    {3, 3, 70, 1, {12, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 13, 40, 1, {9, 10}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {0, 0}},
    {2, 18, 27, 3, {8, 7}, {2, 3}, {1, 2}, {1, 1}, {1, 0}, {1, 2}},
    {1, 512, 33, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 256, 9, 1, {6, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {2, 40, 50, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 34, 96, 2, {9, 11}, {3, 3}, {2, 1}, {2, 1}, {2, 1}, {0, 0}},
    {2, 8, 12, 1, {3, 4}, {3, 5}, {1, 1}, {1, 1}, {4, 6}, {2, 3}},
    {2, 24, 40, 1, {7, 9}, {1, 1}, {2, 3}, {1, 1}, {1, 2}, {0, 0}},
    {2, 33, 33, 33, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 40, 40, 40, {11, 12}, {5, 4}, {2, 3}, {1, 1}, {2, 1}, {0, 0}},
    {1, 70, 70, 70, {6, 8}, {3, 3}, {1, 1}, {3, 4}, {3, 5}, {0, 1}},
    {1, 200, 200, 200, {3, 70}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 19, 19, 19, {4, 3}, {7, 9}, {1, 1}, {1, 1}, {6, 8}, {3, 2}},
};

static sample_convolution pixels(size_t i, sample_ending ending) {
  return (sample_convolution){.shape = pixel_shapes[i],
                              .layout = LAYOUT_NHWC,
                              .dtype = COMPUTE_F32,
                              .result = COMPUTE_F32,
                              .ending = ending};
}

/* Runs with the plain filter and with the packed one. */
static void check_pixels(const sample_kernel *s, void *user) {
  checker *c = user;
  sample_kernel constant = *s;
  attributes_bind(&constant.descriptor, &constant.attributes);
  constant.descriptor.constant_inputs = 2;
  check_sample(s, c);
  cpu_kernel *kernel = NULL;
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, c->f->device, &constant.descriptor, &kernel),
                   COMPUTE_OK);
  const bool depthwise = s->attributes.conv.groups == s->attributes.conv.result_channels;
  assert_non_null(
      strstr(kernel->description, depthwise ? "depthwise convolution" : "convolution rows"));
  uint64_t form;
  const uint64_t bytes = cpu_conv_kind.packed_bytes(kernel, 1, &form);
  assert_true(bytes > 0);
  memory m = create_memory(&constant, &c->random);
  void *packed = aligned_take(64, (size_t)(bytes + 63) / 64 * 64), *filter = m.pointers[1];
  assert_non_null(packed);
  assert_int_equal(cpu_conv_kind.pack(kernel, 1, filter, packed), COMPUTE_OK);
  m.pointers[1] = packed;
  assert_int_equal(kernel->run(kernel, m.pointers), COMPUTE_OK);
  m.pointers[1] = filter;
  check_outputs(&constant, &m, c->f->device->isa);
  cpu_kernel_destroy(kernel);
  aligned_give(packed);
  release_memory(&m);
}

static void run_pixels(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof pixel_shapes / sizeof *pixel_shapes; i++)
    for (size_t end = i % test_samples(); end < ENDING_COUNT; end += test_samples()) {
      const sample_convolution s = pixels(i, (sample_ending)end);
      sample_convolution_visit(&s, check_pixels, &c);
    }
}

static void channels_last_are_right(void **state) {
  (void)state;
  on_every_device(run_pixels, 2, 0);
}

static void channels_last_are_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_pixels, 3, 4096);
}

/* ---- Transposed planes ----------------------------------------------------------------------- */

/* Enough products per element that the AVX-512 kernel transposes data and results: groups, strides,
 * dilation, padding; sums in several parts of k; results that do not fill a panel, a few to a row;
 * planes that compete for a cache's sets; filters larger than the data. */
static const sample_convolution_shape turned_shapes[] = {
    {2, 40, 64, 1, {9, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 3, 48, 1, {21, 53}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {0, 0}},
    {1, 512, 32, 1, {5, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 100, 126, 2, {8, 11}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 16, 32, 1, {32, 32}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    {1, 40, 47, 1, {8, 40}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {0, 0}},
    {1, 40, 48, 1, {3, 4}, {3, 5}, {1, 1}, {1, 1}, {4, 6}, {2, 3}},
};

static sample_convolution turned(size_t i, sample_ending ending) {
  return (sample_convolution){
      .shape = turned_shapes[i], .dtype = COMPUTE_F32, .result = COMPUTE_F32, .ending = ending};
}

/* Only AVX-512 transposes planes; other sets multiply them in place. */
static void on_avx512(test_body body, int32_t threads, uint64_t cache_bytes) {
  fixture f;
  if (!fixture_open(&f, threads, "avx512")) test_skip("the processor has no AVX-512");
  if (cache_bytes) f.device->l2_bytes = cache_bytes;
  body(&f, 17);
  fixture_close(&f);
}

static void run_turned(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof turned_shapes / sizeof *turned_shapes; i++)
    for (size_t end = i % test_samples(); end < ENDING_COUNT; end += test_samples()) {
      const sample_convolution s = turned(i, (sample_ending)end);
      sample_convolution_visit(&s, check_pixels, &c);
    }
}

static void turned_planes_are_right(void **state) {
  (void)state;
  on_avx512(run_turned, 2, 0);
}

static void turned_planes_are_right_in_small_blocks(void **state) {
  (void)state;
  on_avx512(run_turned, 3, 4096);
}

/* Gradients with respect to the data that are convolutions with flipped filters: more and less
 * padding than before, no padding, rows outside all windows, dilation, planes that compete for a
 * cache's sets. */
static const sample_convolution_shape reversed_shapes[] = {
    {2, 47, 64, 1, {20, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 48, 40, 1, {23, 32}, {5, 3}, {1, 1}, {1, 2}, {2, 1}, {0, 0}},
    {1, 64, 70, 1, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, 48, 40, 1, {18, 16}, {3, 2}, {1, 1}, {1, 1}, {2, 1}, {0, 0}},
    {1, 48, 36, 1, {17, 16}, {3, 3}, {1, 1}, {1, 1}, {3, 4}, {0, 0}},
};

static sample_convolution reversed(size_t i, sample_ending ending) {
  return (sample_convolution){.shape = reversed_shapes[i],
                              .direction = COMPUTE_CONVOLUTION_BY_DATA,
                              .dtype = COMPUTE_F32,
                              .result = COMPUTE_F32,
                              .ending = ending};
}

/* With the epilogue of training instead: the gradient of relu. */
static void check_passed(const sample_kernel *s, void *user) {
  sample_kernel passed = *s;
  attributes_bind(&passed.descriptor, &passed.attributes);
  passed.descriptor.epilogue = fixture_relu_gradient();
  check_pixels(&passed, user);
}

static void run_reversed(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof reversed_shapes / sizeof *reversed_shapes; i++)
    for (int end = ENDING_PLAIN; end <= ENDING_RESIDUAL; end++) {
      const sample_convolution s = reversed(i, (sample_ending)end);
      sample_convolution_visit(&s, check_pixels, &c);
      if (end == ENDING_RESIDUAL) sample_convolution_visit(&s, check_passed, &c);
    }
}

static void reversed_planes_are_right(void **state) {
  (void)state;
  on_avx512(run_reversed, 2, 0);
}

static void reversed_planes_are_right_in_small_blocks(void **state) {
  (void)state;
  on_avx512(run_reversed, 3, 4096);
}

/* Planes narrower than a vector, one filter per group of one or more channels. */
static const sample_convolution_shape small_planes[] = {
    {3, 71, 71, 71, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 130, 130, 130, {7, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    {2, 65, 65, 65, {9, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {2, 16, 16, 16, {8, 7}, {4, 3}, {1, 3}, {2, 1}, {0, 1}, {0, 0}},
    {1, 33, 33, 33, {1, 4}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 0}},
    {2, 213, 71, 71, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 34, 17, 17, {5, 6}, {2, 3}, {2, 1}, {1, 2}, {1, 0}, {0, 0}},
    {2, 231, 33, 33, {3, 4}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {0, 0}},
    {1, 3151, 3151, 3151, {2, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 4033, 4033, 4033, {3, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
};

static void run_small_planes(fixture *f, uint64_t seed) {
  static const sample_ending endings[] = {ENDING_PLAIN, ENDING_BIAS};
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof small_planes / sizeof *small_planes; i++)
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
      const sample_convolution s = {.shape = small_planes[i],
                                    .direction = COMPUTE_CONVOLUTION_FORWARD,
                                    .layout = LAYOUT_NCHW,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = endings[e]};
      sample_convolution_visit(&s, check_pixels, &c);
    }
}

static void small_planes_are_right(void **state) {
  (void)state;
  on_every_device(run_small_planes, 2, 0);
}

/* Products of bytes: data with channels last, and planes. */
static void run_bytes(fixture *f, uint64_t seed) {
  static const struct {
    sample_layout layout;
    compute_dtype dtype;
    sample_ending ending;
  } ways[] = {{LAYOUT_NHWC, COMPUTE_I8, ENDING_PLAIN},
              {LAYOUT_PIXELS, COMPUTE_U8, ENDING_PLAIN},
              {LAYOUT_PIXELS, COMPUTE_I8, ENDING_BIAS},
              {LAYOUT_NHWC, COMPUTE_U8, ENDING_BIAS}};
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof pixel_shapes / sizeof *pixel_shapes; i++)
    for (size_t j = i % test_samples(); j < 4; j += test_samples()) {
      sample_convolution s = pixels(i, ways[j].ending);
      const bool depthwise = s.shape.groups == s.shape.c;
      s.layout = ways[j].layout;
      s.dtype = ways[j].dtype;
      s.second = COMPUTE_I8;
      s.result = COMPUTE_I32;
      sample_convolution_visit(
          &s, depthwise && s.layout == LAYOUT_PIXELS ? check_sample : check_pixels, &c);
      s.second = COMPUTE_U8;
      sample_convolution_visit(&s, check_sample, &c);
    }
}

static void bytes_are_exact(void **state) {
  (void)state;
  on_every_device(run_bytes, 2, 0);
  on_emulated_amx(run_bytes, 2, 0);
}

static void bytes_are_exact_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_bytes, 3, 4096);
  on_emulated_amx(run_bytes, 3, 4096);
}

/* An image's result does not depend on its batch, and no result depends on the number of
 * threads. */
static void check_images(const sample_kernel *s, void *user) {
  const sample_convolution *whole = user;
  test_random random = {.state = 23};
  memory m = create_memory(s, &random);
  const uint32_t output = s->descriptor.input_count;
  unsigned char *first = malloc(m.bytes[output]);
  assert_non_null(first);
  static const int32_t threads[] = {1, 2, 3, 5};
  for (int i = 0; i < 4; i++) {
    fixture f;
    assert_true(fixture_open(&f, threads[i], NULL));
    sample_kernel part = *s;
    attributes_bind(&part.descriptor, &part.attributes);
    memcpy(m.data[output], m.before[output], m.bytes[output]);
    if (i == 3) { /* image by image */
      part.descriptor.size[0] = part.attributes.conv.batch = 1;
      for (int64_t n = 0; n < whole->shape.n; n++) {
        void *pointers[OPERANDS];
        memcpy(pointers, m.pointers, sizeof pointers);
        pointers[0] = (float *)m.pointers[0] + n * s->inputs[0].stride[0];
        pointers[output] = (float *)m.pointers[output] + n * s->outputs[0].stride[0];
        assert_int_equal(run_sample(&f, &part, pointers), COMPUTE_OK);
      }
    } else {
      assert_int_equal(run_sample(&f, &part, m.pointers), COMPUTE_OK);
    }
    if (i == 0)
      memcpy(first, m.data[output], m.bytes[output]);
    else
      assert_memory_equal(first, m.data[output], m.bytes[output]);
    fixture_close(&f);
  }
  free(first);
  release_memory(&m);
}

static void channels_last_do_not_depend_on_threads_or_batch(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof pixel_shapes / sizeof *pixel_shapes; i++)
    for (int end = ENDING_PLAIN; end <= ENDING_BIAS; end++) {
      sample_convolution s = pixels(i, (sample_ending)end);
      s.shape.n = 3;
      sample_convolution_visit(&s, check_images, &s);
    }
}

static void turned_planes_do_not_depend_on_threads_or_batch(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof turned_shapes / sizeof *turned_shapes; i++)
    for (int end = ENDING_PLAIN; end <= ENDING_BIAS; end++) {
      sample_convolution s = turned(i, (sample_ending)end);
      s.shape.n = 3;
      sample_convolution_visit(&s, check_images, &s);
    }
  for (size_t i = 0; i < sizeof reversed_shapes / sizeof *reversed_shapes; i++) {
    sample_convolution s = reversed(i, ENDING_BIAS);
    s.shape.n = 3;
    sample_convolution_visit(&s, check_images, &s);
  }
}

/* ---- Promises of a kernel ------------------------------------------------------------------ */

static void run_serially(void *host, int64_t tasks, compute_task task, void *argument) {
  (void)host;
  for (int64_t i = 0; i < tasks; i++) task(argument, i, 0);
}

static void check_busy(const sample_kernel *s, void *user) {
  fixture *f = user;
  test_random random = {.state = 3};
  memory m = create_memory(s, &random);
  const uint32_t output = s->descriptor.input_count;
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  unsigned char *first = malloc(m.bytes[output]);
  assert_non_null(first);
  memcpy(first, m.data[output], m.bytes[output]);
  f->services.parallel = run_serially;
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  f->services.parallel = fixture_parallel;
  assert_memory_equal(first, m.data[output], m.bytes[output]);
  free(first);
  release_memory(&m);
}

static void a_busy_pool_changes_no_bit(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 3, NULL));
  for (size_t i = 0; i < sizeof wide_shapes / sizeof *wide_shapes; i++)
    for (int d = 0; d < 3; d++) {
      const sample_convolution s = {.shape = wide_shapes[i],
                                    .direction = (compute_convolution_direction)d,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32};
      sample_convolution_visit(&s, check_busy, &f);
    }
  fixture_close(&f);
}

/* Like the fixture's check_allocation_failures, but for samples. */
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
    if (!failed) assert_int_equal(status, COMPUTE_OK);
    if (status) assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
    if (status) assert_int_equal(f.status, COMPUTE_ERROR_OUT_OF_MEMORY);
    assert_true(failed || n > 3);
    fixture_close(&f);
  }
  release_memory(&m);
}

static void fail_winograd(const sample_kernel *s, void *user) {
  sample_kernel allowed = *s;
  attributes_bind(&allowed.descriptor, &allowed.attributes);
  allowed.attributes.conv.precision = COMPUTE_PRECISION_WINOGRAD;
  fail_allocations(&allowed, user);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  const sample_convolution filtered = {.shape = winograd_shapes[0],
                                       .dtype = COMPUTE_F32,
                                       .result = COMPUTE_F32,
                                       .ending = ENDING_BIAS};
  sample_convolution_visit(&filtered, fail_winograd, NULL);
  for (int d = 0; d < 3; d++) {
    const sample_convolution s = {
        .shape = {2, 4, 6, 2, {9, 8}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}},
        .direction = (compute_convolution_direction)d,
        .dtype = COMPUTE_F32,
        .result = COMPUTE_F32,
        .ending = ENDING_BIAS};
    sample_convolution_visit(&s, fail_allocations, NULL);
  }
}

/* The residual is the output itself. */
static void check_in_place(const sample_kernel *s, void *user) {
  fixture *f = user;
  test_random random = {.state = 7};
  memory apart = create_memory(s, &random);
  memory m = create_memory(s, &random);
  const uint32_t output = s->descriptor.input_count, residual = output - 1;
  assert_int_equal(apart.bytes[residual], apart.bytes[output]);
  for (uint32_t i = 0; i < output; i++) memcpy(m.data[i], apart.data[i], m.bytes[i]);
  memcpy(m.data[output], m.data[residual], m.bytes[residual]);
  m.pointers[residual] = m.pointers[output];
  assert_int_equal(run_sample(f, s, apart.pointers), COMPUTE_OK);
  assert_int_equal(run_sample(f, s, m.pointers), COMPUTE_OK);
  const size_t guard = FIXTURE_GUARD * sizeof(float);
  assert_memory_equal(apart.data[output] + guard, m.data[output] + guard,
                      m.bytes[output] - 2 * guard);
  release_memory(&apart);
  release_memory(&m);
}

static void an_output_may_be_the_residual(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  for (size_t i = 0; i < sizeof turned_shapes / sizeof *turned_shapes; i++) {
    sample_convolution s = turned(i, ENDING_RESIDUAL);
    sample_convolution_visit(&s, check_in_place, &f);
    s.ending = ENDING_ADDED;
    sample_convolution_visit(&s, check_in_place, &f);
  }
  for (size_t i = 0; i < sizeof wide_shapes / sizeof *wide_shapes; i++)
    for (int d = 0; d < 3; d++) {
      sample_convolution s = {.shape = wide_shapes[i],
                              .direction = (compute_convolution_direction)d,
                              .layout = i % 2 ? LAYOUT_NHWC : LAYOUT_NCHW,
                              .dtype = COMPUTE_F32,
                              .result = COMPUTE_F32,
                              .ending = ENDING_RESIDUAL};
      sample_convolution_visit(&s, check_in_place, &f);
      s.ending = ENDING_ADDED;
      sample_convolution_visit(&s, check_in_place, &f);
    }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_sample_is_right_in_small_blocks),
      cmocka_unit_test(random_shapes_are_right),
      cmocka_unit_test(random_shapes_are_right_in_small_blocks),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(shapes_of_networks_are_right),
      cmocka_unit_test(networks_of_bf16_are_right),
      cmocka_unit_test(denormal_results_of_bf16_stay),
      cmocka_unit_test(channels_last_are_right),
      cmocka_unit_test(channels_last_are_right_in_small_blocks),
      cmocka_unit_test(channels_last_do_not_depend_on_threads_or_batch),
      cmocka_unit_test(turned_planes_are_right),
      cmocka_unit_test(turned_planes_are_right_in_small_blocks),
      cmocka_unit_test(reversed_planes_are_right),
      cmocka_unit_test(reversed_planes_are_right_in_small_blocks),
      cmocka_unit_test(small_planes_are_right),
      cmocka_unit_test(turned_planes_do_not_depend_on_threads_or_batch),
      cmocka_unit_test(bytes_are_exact),
      cmocka_unit_test(bytes_are_exact_in_small_blocks),
      cmocka_unit_test(winograd_is_right),
      cmocka_unit_test(winograd_is_right_in_short_runs),
      cmocka_unit_test(winograd_does_not_depend_on_threads),
      cmocka_unit_test(planes_do_not_depend_on_threads),
      cmocka_unit_test(a_busy_pool_changes_no_bit),
      cmocka_unit_test(a_failing_allocation_is_reported),
      cmocka_unit_test(an_output_may_be_the_residual),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
