/* SPDX-License-Identifier: MIT */
/* Convolutions of bytes with a requantizing epilogue. On every instruction set and path, the bytes
 * equal the results of the program's instructions one by one. */
#include "conv_fixture.h"
#include "core/platform/aligned.h"
#include "gemm/isa/gemm_table.h"

/* A residual addition of bytes: (own − zero) · scale plus the same of the other bytes, requantized
 * again. */
typedef struct addition {
  bool exists, turned, limited;
  compute_dtype other, output;
  float scale[2], divisor;
  int32_t zero[2], result_zero;
} addition;

/* The epilogue of the sums. */
typedef struct ending {
  bool subtracts, biased, limited;
  compute_dtype output;
  float divisor;
  int32_t zero;
  addition adds;
} ending;

typedef struct requantizing {
  checker checker;
  ending ending;
  int at_once; /* depthwise kernels whose loop requantizes */
  int near;    /* products that add the other bytes while their own are still in cache */
} requantizing;

enum { OFFSET = 2, SCALE, BIAS, INPUTS };

static uint16_t make_term(program_builder *p, const addition *a, int own, uint16_t x) {
  x = program_apply(p, COMPUTE_I_CAST, COMPUTE_F32, x, 0, 0);
  x = program_apply(p, COMPUTE_I_SUB, COMPUTE_F32, x,
                    program_constant(p, COMPUTE_F32, a->zero[own]), 0);
  return program_apply(p, COMPUTE_I_MUL, COMPUTE_F32, x,
                       program_constant(p, COMPUTE_F32, a->scale[own]), 0);
}

static uint16_t divide(program_builder *p, uint16_t x, float divisor, int32_t zero) {
  x = program_apply(p, COMPUTE_I_DIV, COMPUTE_F32, x, program_constant(p, COMPUTE_F32, divisor), 0);
  x = program_apply(p, COMPUTE_I_ROUND, COMPUTE_F32, x, 0, 0);
  return program_apply(p, COMPUTE_I_ADD, COMPUTE_F32, x, program_constant(p, COMPUTE_F32, zero), 0);
}

/* Requantizes `value` and the other bytes, input number `input`. */
static uint16_t add_bytes(program_builder *p, const ending *e, uint16_t value, uint32_t input) {
  const addition *a = &e->adds;
  const bool is_signed = e->output == COMPUTE_I8;
  const uint16_t least = program_constant_integer(p, COMPUTE_I32, is_signed ? -128 : 0);
  const uint16_t most = program_constant_integer(p, COMPUTE_I32, is_signed ? 127 : 255);
  value = program_apply(p, COMPUTE_I_CAST, COMPUTE_I32, value, 0, 0);
  value = program_apply(p, COMPUTE_I_MAX, COMPUTE_I32, value, least, 0);
  value = program_apply(p, COMPUTE_I_MIN, COMPUTE_I32, value, most, 0);
  const uint16_t own = make_term(p, a, 0, value);
  const uint16_t other = make_term(p, a, 1, program_load(p, COMPUTE_I32, input));
  uint16_t x = program_apply(p, COMPUTE_I_ADD, COMPUTE_F32, a->turned ? other : own,
                             a->turned ? own : other, 0);
  if (a->limited) x = program_apply(p, COMPUTE_I_RELU, COMPUTE_F32, x, 0, 0);
  return divide(p, x, a->divisor, a->result_zero);
}

static int32_t add_to_byte(const addition *a, int32_t own, int32_t other) {
  float value = ((float)own - (float)a->zero[0]) * a->scale[0] +
                ((float)other - (float)a->zero[1]) * a->scale[1];
  if (a->limited) value = fmaxf(value, 0);
  value = rintf(value / a->divisor) + (float)a->result_zero;
  const bool is_signed = a->output == COMPUTE_I8;
  return (int32_t)fminf(fmaxf(value, is_signed ? -128 : 0), is_signed ? 127 : 255);
}

static void make_program(const ending *e, program_builder *p) {
  uint16_t x = program_load(p, COMPUTE_I32, 0);
  const uint16_t offset = program_load(p, COMPUTE_I32, OFFSET - 1);
  x = program_apply(p, e->subtracts ? COMPUTE_I_SUB : COMPUTE_I_ADD, COMPUTE_I32, x, offset, 0);
  x = program_apply(p, COMPUTE_I_CAST, COMPUTE_F32, x, 0, 0);
  x = program_apply(p, COMPUTE_I_MUL, COMPUTE_F32, x, program_load(p, COMPUTE_F32, SCALE - 1), 0);
  if (e->biased)
    x = program_apply(p, COMPUTE_I_ADD, COMPUTE_F32, x, program_load(p, COMPUTE_F32, BIAS - 1), 0);
  if (e->limited) x = program_apply(p, COMPUTE_I_RELU, COMPUTE_F32, x, 0, 0);
  x = divide(p, x, e->divisor, e->zero);
  if (e->adds.exists) x = add_bytes(p, e, x, e->biased ? BIAS : SCALE);
  program_store(p, x);
}

static int32_t byte_of(const ending *e, int32_t sum, int32_t offset, float scale, float bias) {
  const uint32_t whole = (uint32_t)sum + (e->subtracts ? 0 - (uint32_t)offset : (uint32_t)offset);
  float value = (float)(int32_t)whole * scale;
  if (e->biased) value += bias;
  if (e->limited) value = fmaxf(value, 0);
  value = rintf(value / e->divisor) + (float)e->zero;
  const bool is_signed = e->output == COMPUTE_I8;
  return (int32_t)fminf(fmaxf(value, is_signed ? -128 : 0), is_signed ? 127 : 255);
}

/* Draws one number per channel. A few scales are so large that quotients exceed the integers. */
static void fill_channels(int64_t channels, const ending *e, test_random *random, int32_t *offset,
                          float *scale, float *bias) {
  const bool large = test_random_integer(random, 0, 7) == 0;
  for (int64_t i = 0; i < channels; i++) {
    const bool rare = large && test_random_integer(random, 0, 15) == 0;
    offset[i] = (int32_t)test_random_integer(random, -9000, 9000);
    scale[i] = (rare ? 1e9f : 1e-3f * e->divisor) * (float)test_random_uniform(random, 0.5, 4);
    bias[i] = e->divisor * (float)test_random_uniform(random, -40, 40);
  }
}

static int64_t place_of(const compute_operand *o, const int64_t point[4]) {
  int64_t at = 0;
  for (int i = 0; i < 4; i++) at += point[i] * o->stride[i];
  return at;
}

/* Runs a kernel with the plain or the packed filter. */
static void launch_kernel(fixture *f, const compute_kernel_descriptor *d, void *const *from,
                          bool packs) {
  compute_kernel_descriptor descriptor = *d;
  void *pointers[OPERANDS], *packed = NULL;
  cpu_kernel *kernel = NULL;
  memcpy(pointers, from, (d->input_count + d->output_count) * sizeof *from);
  descriptor.constant_inputs = packs ? 2 : 0;
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, f->device, &descriptor, &kernel), COMPUTE_OK);
  uint64_t form;
  const uint64_t bytes = packs ? cpu_conv_kind.packed_bytes(kernel, 1, &form) : 0;
  if (bytes > 0) {
    packed = aligned_take(64, (size_t)(bytes + 63) / 64 * 64);
    assert_non_null(packed);
    assert_int_equal(cpu_conv_kind.pack(kernel, 1, pointers[1], packed), COMPUTE_OK);
    pointers[1] = packed;
  }
  assert_int_equal(kernel->run(kernel, pointers), COMPUTE_OK);
  cpu_kernel_destroy(kernel);
  aligned_give(packed);
}

static void check_bytes(const sample_kernel *s, const requantizing *r, const int32_t *sums,
                        void *const *pointers, const unsigned char *other,
                        const unsigned char *bytes, int64_t count) {
  const int32_t *offset = pointers[OFFSET];
  const float *scale = pointers[SCALE], *bias = pointers[BIAS];
  unsigned char *expected = malloc((size_t)count);
  assert_non_null(expected);
  memset(expected, 0xa5, (size_t)count);
  int64_t point[4] = {0};
  do {
    const int64_t at = place_of(&s->outputs[0], point), c = point[1];
    int32_t byte = byte_of(&r->ending, sums[at], offset[c], scale[c], bias[c]);
    if (r->ending.adds.exists) {
      const unsigned char added = other[FIXTURE_GUARD + at];
      const bool is_signed = r->ending.adds.other == COMPUTE_I8;
      byte = add_to_byte(&r->ending.adds, byte, is_signed ? (int8_t)added : added);
    }
    expected[FIXTURE_GUARD + at] = (unsigned char)byte;
  } while (next_point(4, s->descriptor.size, point));
  for (int64_t i = 0; i < count; i++)
    if (bytes[i] != expected[i])
      fail_msg("%s on %s, divisor %g, zero %d: byte %lld is %d, not %d", s->name,
               r->checker.f->device->isa->name, (double)r->ending.divisor, (int)r->ending.zero,
               (long long)(i - FIXTURE_GUARD), bytes[i], expected[i]);
  free(expected);
}

/* Makes the filter small enough for COMPUTE_PRECISION_SATURATE to change no sum. */
static void make_small(memory *m) {
  int8_t *filter = (int8_t *)m->data[1];
  for (int64_t i = 0; i < m->elements[1]; i++) filter[i] = (int8_t)(filter[i] % 65);
  memcpy(m->before[1], m->data[1], m->bytes[1]);
}

/* Computes the plain sums, then the same convolution with an epilogue. */
static void check_requantized(const sample_kernel *s, void *user) {
  requantizing *r = user;
  test_random *random = &r->checker.random;
  const int64_t channels = s->attributes.conv.result_channels;
  memory m = create_memory(s, random);
  compute_conv_attributes attributes = s->attributes.conv;
  if (test_random_integer(random, 0, 1)) {
    attributes.precision = COMPUTE_PRECISION_SATURATE;
    make_small(&m);
  }
  launch_kernel(r->checker.f, &s->descriptor, m.pointers, false);
  int32_t *offset = malloc((size_t)channels * 4);
  float *scale = malloc((size_t)channels * 4), *bias = malloc((size_t)channels * 4);
  assert_true(offset && scale && bias);
  fill_channels(channels, &r->ending, random, offset, scale, bias);
  program_builder program = {0};
  make_program(&r->ending, &program);
  const compute_operand of_floats = {.dtype = COMPUTE_F32, .stride = {0, 1}};
  compute_operand inputs[INPUTS + 1] = {
      s->inputs[0], s->inputs[1], {.dtype = COMPUTE_I32, .stride = {0, 1}}, of_floats, of_floats};
  compute_operand output = s->outputs[0];
  const addition *adds = &r->ending.adds;
  output.dtype = adds->exists ? adds->output : r->ending.output;
  compute_kernel_descriptor d = s->descriptor;
  d.attributes = &attributes;
  d.inputs = inputs;
  d.input_count = r->ending.biased ? INPUTS : INPUTS - 1;
  const uint32_t residual = d.input_count;
  if (adds->exists) {
    inputs[d.input_count] = s->outputs[0];
    inputs[d.input_count++].dtype = adds->other;
  }
  d.outputs = &output;
  d.epilogue = program_finish(&program);
  cpu_kernel *kernel = NULL;
  assert_int_equal(cpu_kind_prepare(&cpu_conv_kind, r->checker.f->device, &d, &kernel), COMPUTE_OK);
  r->at_once += strstr(kernel->description, "to bytes") != NULL;
  r->near += adds->exists && strstr(kernel->description, "as gemm own");
  cpu_kernel_destroy(kernel);
  const int64_t count = m.elements[2];
  unsigned char *bytes = malloc((size_t)count), *other = malloc((size_t)count);
  assert_true(bytes && other);
  memset(other, 0xa5, (size_t)count);
  int64_t point[4] = {0};
  do
    other[FIXTURE_GUARD + place_of(&output, point)] =
        (unsigned char)test_random_integer(random, 0, 255);
  while (next_point(4, s->descriptor.size, point));
  for (int packs = 0; packs < 2; packs++) {
    const bool in_place = adds->exists && packs;
    if (in_place)
      memcpy(bytes, other, (size_t)count);
    else
      memset(bytes, 0xa5, (size_t)count);
    void *pointers[INPUTS + 2] = {m.pointers[0], m.pointers[1], offset, scale, bias};
    if (adds->exists) pointers[residual] = (in_place ? bytes : other) + FIXTURE_GUARD;
    pointers[d.input_count] = bytes + FIXTURE_GUARD;
    launch_kernel(r->checker.f, &d, pointers, packs);
    pointers[BIAS] = bias;
    check_bytes(s, r, m.pointers[2], pointers, other, bytes, count);
  }
  free(bytes);
  free(other);
  free(offset);
  free(scale);
  free(bias);
  release_memory(&m);
}

static addition random_addition(test_random *random) {
  addition a = {.exists = test_random_integer(random, 0, 2) == 0,
                .turned = test_random_integer(random, 0, 1) != 0,
                .limited = test_random_integer(random, 0, 1) != 0,
                .other = test_random_integer(random, 0, 2) ? COMPUTE_U8 : COMPUTE_I8,
                .output = test_random_integer(random, 0, 2) ? COMPUTE_U8 : COMPUTE_I8,
                .divisor = (float)test_random_uniform(random, 0.01, 0.05)};
  for (int i = 0; i < 2; i++) {
    a.scale[i] = (float)test_random_uniform(random, 0.01, 0.05);
    a.zero[i] = (int32_t)test_random_integer(random, -128, 255);
  }
  a.result_zero = (int32_t)test_random_integer(random, a.output == COMPUTE_I8 ? -128 : 0, 127);
  return a;
}

static ending random_ending(test_random *random) {
  static const float divisors[] = {1, 0.02353f, 0.04f, 3, 1e-30f};
  const bool is_signed = test_random_integer(random, 0, 1) != 0;
  return (ending){
      .subtracts = test_random_integer(random, 0, 1) != 0,
      .biased = test_random_integer(random, 0, 3) != 0,
      .limited = test_random_integer(random, 0, 1) != 0,
      .output = is_signed ? COMPUTE_I8 : COMPUTE_U8,
      .divisor = divisors[test_random_integer(random, 0, 4)],
      .zero = (int32_t)test_random_integer(random, is_signed ? -128 : 0, is_signed ? 127 : 255),
      .adds = random_addition(random)};
}

/* Makes a product of pixels and channels. */
static void make_plain(sample_convolution_shape *c) {
  for (int i = 0; i < 2; i++) {
    c->filter[i] = c->stride[i] = c->dilation[i] = 1;
    c->padding[i] = 0;
  }
}

static sample_convolution random_bytes(test_random *random, bool depthwise) {
  static const int64_t single[] = {16, 31, 32, 33, 48, 64, 65, 96, 130, 144};
  sample_convolution s = {.layout = LAYOUT_NHWC,
                          .dtype = test_random_integer(random, 0, 3) ? COMPUTE_U8 : COMPUTE_I8,
                          .second = COMPUTE_I8,
                          .result = COMPUTE_I32,
                          .ending = ENDING_PLAIN};
  sample_convolution_shape *c = &s.shape;
  c->n = test_random_integer(random, 1, 3);
  const int64_t several[] = {3, 900, test_random_integer(random, 1, 70)};
  c->c = depthwise ? single[test_random_integer(random, 0, 9)]
                   : several[cpu_min(test_random_integer(random, 0, 5), 2)];
  c->k = depthwise ? c->c : test_random_integer(random, 8, 90);
  c->groups = depthwise ? (int32_t)c->c : 1;
  if (c->c == 3) s.layout = LAYOUT_PIXELS;
  for (int i = 0; i < 2; i++) {
    c->filter[i] = test_random_integer(random, 0, 5) ? depthwise ? 3 : 1 : 3 + 2 * (i % 2);
    c->padding[i] = test_random_integer(random, 0, c->filter[i] / 2 + 1);
    c->stride[i] = test_random_integer(random, 1, 2);
    c->dilation[i] = test_random_integer(random, 0, 2) ? 1 : 2;
    const int64_t least = c->dilation[i] * (c->filter[i] - 1) + 1;
    c->data[i] = test_random_integer(random, least, cpu_max(least, c->c > 200 ? 7 : 23));
  }
  if (!depthwise && test_random_integer(random, 0, 2) == 0) make_plain(c);
  return s;
}

static void run_random(fixture *f, uint64_t seed) {
  requantizing r = {.checker = {.f = f, .random = {.state = seed}}};
  for (int i = 0; i < 240 / (int)test_samples(); i++) {
    const sample_convolution s = random_bytes(&r.checker.random, i % 2 == 0);
    r.ending = random_ending(&r.checker.random);
    sample_convolution_visit(&s, check_requantized, &r);
  }
  const cpu_isa *isa = f->device->isa;
  const bool dots = isa->vector_bytes == 64 && isa->gemm->bytes->group == 4;
  if (test_samples() == 1) assert_true((r.at_once > 0) == dots && r.near > 0);
}

static void bytes_of_sums_are_those_of_the_instructions(void **state) {
  (void)state;
  on_every_device(run_random, 2, 0);
  on_emulated_amx(run_random, 2, 0);
}

static void bytes_of_sums_are_right_in_small_blocks(void **state) {
  (void)state;
  on_every_device(run_random, 3, 4096);
  on_emulated_amx(run_random, 3, 4096);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_of_sums_are_those_of_the_instructions),
      cmocka_unit_test(bytes_of_sums_are_right_in_small_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
