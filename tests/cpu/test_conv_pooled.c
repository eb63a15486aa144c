/* SPDX-License-Identifier: MIT */
/* Convolutions with fused maximum pooling, on every instruction set. They match the plain
 * double-precision convolution, and bit for bit the same convolution with separate pooling. */
#include "conv_fixture.h"

/* Short windows whose sums are pooled in registers, in tiles of three blocks with a remainder of
 * one and two. Others have several panels, some narrow, and several row tiles; groups; strides,
 * dilation, rows outside all windows; larger blocks. */
typedef struct pooled_shape {
  sample_convolution_shape shape;
  uint32_t pool;
} pooled_shape;

static const pooled_shape shapes[] = {
    {{3, 1, 32, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 2},
    {{2, 1, 64, 1, {12, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 2},
    {{1, 3, 32, 1, {9, 10}, {2, 3}, {1, 1}, {1, 2}, {1, 1}, {0, 0}}, 2},
    {{1, 2, 96, 1, {21, 13}, {3, 3}, {2, 1}, {2, 1}, {2, 1}, {-1, -1}}, 2},
    {{2, 3, 40, 1, {8, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 2},
    {{2, 4, 64, 2, {6, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 2},
    {{2, 32, 64, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 2},
    {{1, 20, 37, 1, {40, 42}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 2},
    {{1, 7, 33, 1, {10, 11}, {5, 4}, {1, 1}, {1, 1}, {2, 2}, {-1, 0}}, 3},
    {{2, 3, 32, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}, 4},
    {{1, 256, 16, 1, {6, 6}, {3, 3}, {2, 2}, {1, 1}, {2, 2}, {0, 0}}, 2},
    {{1, 3, 16, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {6, 6}, {0, 0}}, 2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const sample_layout layouts[] = {LAYOUT_NHWC, LAYOUT_PIXELS, LAYOUT_PLANES};

static void visit(size_t i, sample_layout layout, sample_ending ending, sample_visitor visitor,
                  void *user) {
  const sample_convolution s = {.shape = shapes[i].shape,
                                .layout = layout,
                                .dtype = COMPUTE_F32,
                                .result = COMPUTE_F32,
                                .ending = ending,
                                .pool = shapes[i].pool};
  sample_convolution_visit(&s, visitor, user);
}

/* An epilogue for the interpreter. */
static void check_program(const sample_kernel *s, void *user) {
  static const compute_instruction code[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32},
      {.code = COMPUTE_I_RELU, .type = COMPUTE_F32},
      {.code = COMPUTE_I_CONSTANT, .type = COMPUTE_F32, .immediate.f64 = 0.25},
      {.code = COMPUTE_I_ADD, .type = COMPUTE_F32, .a = 1, .b = 2}};
  static const uint16_t stored = 3;
  sample_kernel other = *s;
  attributes_bind(&other.descriptor, &other.attributes);
  other.descriptor.epilogue =
      (compute_program){.count = 4, .output_count = 1, .instructions = code, .outputs = &stored};
  check_sample(&other, user);
}

static void run_samples(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < SHAPES; i++)
    for (size_t j = 0; j < 3; j++) {
      if (!test_in_turn(i + j)) continue;
      visit(i, layouts[j], ENDING_PLAIN, check_sample, &c);
      visit(i, layouts[j], ENDING_BIAS, check_sample, &c);
      visit(i, layouts[j], ENDING_PLAIN, check_program, &c);
    }
}

static void pooled_results_are_right(void **state) {
  (void)state;
  on_every_device(run_samples, 2, 0);
}

static void pooled_results_are_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_samples, 3, 4096);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static float larger(float a, float b) {
  return isnan(a) || a > b ? a : b;
}

/* The maximum of a block, compared in the order of pooling. */
static float fold(const float *x, const int64_t stride[4], int64_t pool) {
  float largest = 0;
  for (int64_t j = 0; j < pool; j++) {
    float column = x[j * stride[3]];
    for (int64_t i = 1; i < pool; i++) column = larger(column, x[i * stride[2] + j * stride[3]]);
    largest = j == 0 ? column : larger(largest, column);
  }
  return largest;
}

/* Puts a few infinities and NaN into the data; or one infinite weight, which does not apply to the
 * padding above and below the data. */
static void spoil(memory *m, bool filter, test_random *random) {
  if (filter) {
    float *w = (float *)(void *)m->data[1];
    w[test_random_integer(random, 0, m->elements[1] - 1)] = INFINITY;
    return;
  }
  float *x = (float *)(void *)m->data[0];
  for (int i = 0; i < 4; i++) {
    const int64_t at = test_random_integer(random, 0, m->elements[0] - 1);
    x[at] = i % 2 ? NAN : INFINITY;
  }
}

static bool same_bits(float a, float b) {
  return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Results of the convolution without pooling: dense, channels last, written to `whole`. */
static void convolve_alone(fixture *f, const sample_kernel *s, const memory *m, float *whole,
                           int64_t stride[4]) {
  sample_kernel alone = *s;
  attributes_bind(&alone.descriptor, &alone.attributes);
  compute_conv_attributes *c = &alone.attributes.conv;
  c->pool = 0;
  for (int d = 0; d < 2; d++) alone.descriptor.size[2 + d] = c->result_size[d];
  alone.descriptor.outputs = alone.outputs;
  const int64_t own[4] = {c->result_size[0] * c->result_size[1] * c->result_channels, 1,
                          c->result_size[1] * c->result_channels, c->result_channels};
  memcpy(stride, own, sizeof own);
  memcpy(alone.outputs[0].stride, own, sizeof own);
  void *pointers[OPERANDS];
  memcpy(pointers, m->pointers, sizeof pointers);
  pointers[s->descriptor.input_count] = whole;
  assert_int_equal(run_sample(f, &alone, pointers), COMPUTE_OK);
}

static void compare_bits(const sample_kernel *s, bool filter, checker *c) {
  const compute_conv_attributes *a = &s->attributes.conv;
  const int64_t *size = s->descriptor.size, pool = a->pool;
  const uint32_t output = s->descriptor.input_count;
  memory m = create_memory(s, &c->random);
  spoil(&m, filter, &c->random);
  int64_t stride[4];
  const int64_t count = a->batch * a->result_channels * a->result_size[0] * a->result_size[1];
  float *whole = malloc((size_t)count * sizeof *whole);
  assert_non_null(whole);
  convolve_alone(c->f, s, &m, whole, stride);
  assert_int_equal(run_sample(c->f, s, m.pointers), COMPUTE_OK);
  int64_t at[COMPUTE_MAX_RANK] = {0};
  do {
    int64_t from = 0, to = 0;
    for (int d = 0; d < 4; d++) {
      from += at[d] * (d < 2 ? 1 : pool) * stride[d];
      to += at[d] * s->outputs[0].stride[d];
    }
    const float want = fold(whole + from, stride, pool), is = ((float *)m.pointers[output])[to];
    if (!same_bits(want, is))
      fail_msg("%s on %s: %.9g instead of %.9g", s->name, c->f->isa, (double)is, (double)want);
  } while (next_point(4, size, at));
  free(whole);
  release_memory(&m);
}

static void check_bits(const sample_kernel *s, void *user) {
  compare_bits(s, false, user);
  for (int i = 0; i < 4; i++) compare_bits(s, true, user);
}

static void run_bits(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < SHAPES; i++) {
    visit(i, layouts[i % 2], ENDING_PLAIN, check_bits, &c);
    for (size_t j = 0; j < 3; j++) visit(i, layouts[j], ENDING_BIAS, check_bits, &c);
  }
}

static void pooled_results_have_the_bits_of_two_kernels(void **state) {
  (void)state;
  for (int32_t threads = 1; threads < 4; threads++) on_every_device(run_bits, threads, 0);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Unsupported descriptors are refused by `refuse`, before any prepare. */
static void check_refusal(const sample_kernel *s, void *user) {
  (void)user;
  sample_kernel other = *s;
  attributes_bind(&other.descriptor, &other.attributes);
  assert_null(cpu_conv_kind.refuse(&other.descriptor));
  other.descriptor.outputs = other.outputs;
  other.outputs[0].stride[1] = 2;
  other.outputs[0].stride[3] = 2;
  assert_non_null(cpu_conv_kind.refuse(&other.descriptor));
  other.outputs[0] = s->outputs[0];
  other.outputs[0].dtype = COMPUTE_F16;
  assert_non_null(cpu_conv_kind.refuse(&other.descriptor));
}

static void other_results_are_not_pooled(void **state) {
  (void)state;
  visit(0, LAYOUT_NHWC, ENDING_BIAS, check_refusal, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pooled_results_are_right),
      cmocka_unit_test(pooled_results_are_right_in_small_blocks),
      cmocka_unit_test(pooled_results_have_the_bits_of_two_kernels),
      cmocka_unit_test(other_results_are_not_pooled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
