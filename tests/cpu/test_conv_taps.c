/* SPDX-License-Identifier: MIT */
/* Convolution tap by tap on the CPU (conv_taps.c, conv_filter_taps.c). It matches the plain
 * double-precision one. No bit depends on the number of threads, nor an image's bits on its
 * batch. */
#include "conv_fixture.h"

/* Small planes of every kind: with and without padding, strides, dilations, groups, partial panels
 * and tiles, results and phases without any tap, planes of several row tiles, and more images than
 * one copy can hold. */
static const sample_convolution_shape shapes[] = {
    {5, 40, 35, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {3, 33, 64, 1, {7, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {2, 66, 70, 2, {5, 6}, {3, 2}, {1, 1}, {1, 1}, {1, 0}, {0, 0}},
    {2, 32, 40, 1, {6, 5}, {5, 4}, {1, 1}, {1, 1}, {2, 2}, {0, 0}},
    {2, 40, 32, 1, {8, 7}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 36, 33, 1, {9, 7}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {0, 0}},
    {1, 33, 34, 1, {8, 9}, {3, 4}, {3, 2}, {2, 3}, {1, 2}, {0, 0}},
    {2, 32, 32, 1, {2, 3}, {3, 3}, {1, 1}, {1, 1}, {3, 3}, {0, 1}},
    {2, 34, 36, 1, {8, 7}, {2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
    {1, 33, 32, 1, {9, 7}, {4, 4}, {2, 3}, {1, 1}, {0, 0}, {0, 0}},
    {1, 128, 130, 1, {18, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {9, 130, 32, 1, {4, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 34, 85, 1, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static sample_convolution sample_of(size_t i, int direction, sample_ending ending) {
  return (sample_convolution){.shape = shapes[i],
                              .direction = (compute_convolution_direction)direction,
                              .dtype = COMPUTE_F32,
                              .result = COMPUTE_F32,
                              .ending = ending};
}

static void check_taps(const sample_kernel *s, void *user) {
  checker *c = user;
  cpu_kernel *kernel = NULL;
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, c->f->device, &s->descriptor, &kernel),
                   COMPUTE_OK);
  if (!strstr(kernel->description, "taps")) fail_msg("%s: %s", s->name, kernel->description);
  cpu_kernel_destroy(kernel);
  check_sample(s, c);
}

static void run_shapes(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < SHAPES; i++)
    for (int d = 0; d < 3; d++) {
      if (!test_in_turn(i + (size_t)d)) continue;
      const sample_convolution s = sample_of(i, d, (sample_ending)((i + (size_t)d) % ENDING_COUNT));
      sample_convolution_visit(&s, check_taps, &c);
    }
}

static void small_planes_are_right(void **state) {
  (void)state;
  on_every_device(run_shapes, 2, 0);
}

/* A cache of 360 KiB forces copies of few images, and row tiles. */
static void small_planes_are_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_shapes, 3, 360 << 10);
}

/* Every layout and ending for the first two shapes; the second also in f64. */
static void run_layouts(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (int layout = 0; layout < LAYOUT_COUNT; layout++)
    for (int d = 0; d < 3; d++) {
      sample_convolution s =
          sample_of((size_t)(layout + d) % 2, d, (sample_ending)((layout + 2 * d) % ENDING_COUNT));
      s.layout = (sample_layout)layout;
      sample_convolution_visit(&s, check_sample, &c);
      if ((layout + d) % 2) s.dtype = s.result = COMPUTE_F64;
      s.ending = ENDING_PLAIN;
      sample_convolution_visit(&s, check_sample, &c);
    }
}

static void every_layout_is_right(void **state) {
  (void)state;
  on_every_device(run_layouts, 2, 0);
}

/* The gradient of a filter for a batch without images. */
static void run_no_images(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  sample_convolution s = sample_of(0, COMPUTE_CONVOLUTION_BY_FILTER, ENDING_PLAIN);
  s.shape.n = 0;
  sample_convolution_visit(&s, check_sample, &c);
}

static void no_images_give_zeros(void **state) {
  (void)state;
  on_every_device(run_no_images, 2, 0);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Several numbers of threads, and then image by image. */
static void check_bits(const sample_kernel *s, void *user) {
  static const int32_t threads[] = {1, 2, 3, 5, 1};
  enum { RUNS = sizeof threads / sizeof *threads };
  const sample_convolution *whole = user;
  const bool sums_images = whole->direction == COMPUTE_CONVOLUTION_BY_FILTER;
  test_random random = {.state = 23};
  memory m = create_memory(s, &random);
  const uint32_t output = s->descriptor.input_count;
  unsigned char *first = malloc(m.bytes[output]);
  assert_non_null(first);
  for (int i = 0; i < RUNS - sums_images; i++) {
    fixture f;
    assert_true(fixture_open(&f, threads[i], NULL));
    sample_kernel part = *s;
    attributes_bind(&part.descriptor, &part.attributes);
    memcpy(m.data[output], m.before[output], m.bytes[output]);
    const int64_t images = i == RUNS - 1 ? whole->shape.n : 1;
    if (images > 1) part.descriptor.size[0] = part.attributes.conv.batch = 1;
    for (int64_t n = 0; n < images; n++) {
      void *pointers[OPERANDS];
      memcpy(pointers, m.pointers, sizeof pointers);
      pointers[0] = (float *)m.pointers[0] + n * s->inputs[0].stride[0];
      pointers[output] = (float *)m.pointers[output] + n * s->outputs[0].stride[0];
      assert_int_equal(run_sample(&f, &part, pointers), COMPUTE_OK);
    }
    if (i == 0) memcpy(first, m.data[output], m.bytes[output]);
    assert_memory_equal(first, m.data[output], m.bytes[output]);
    fixture_close(&f);
  }
  free(first);
  release_memory(&m);
}

static void no_bit_depends_on_threads_or_batch(void **state) {
  (void)state;
  for (size_t i = 0; i < SHAPES; i++)
    for (int d = 0; d < 3; d++) {
      sample_convolution s = sample_of(i, d, ENDING_PLAIN);
      sample_convolution_visit(&s, check_bits, &s);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_planes_are_right),
      cmocka_unit_test(small_planes_are_right_in_small_blocks),
      cmocka_unit_test(every_layout_is_right),
      cmocka_unit_test(no_images_give_zeros),
      cmocka_unit_test(no_bit_depends_on_threads_or_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
