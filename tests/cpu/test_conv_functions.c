/* SPDX-License-Identifier: MIT */
/* Convolutions whose epilogue is a function of the sum, on every instruction set. */
#include "conv_fixture.h"

#include "program/isa/tile_table.h"

/* Several panels of results, some narrow; blocks of k; groups; strides, dilation and padding; 1 ×
 * 1; transposed planes; one channel per group. */
static const sample_convolution_shape shapes[] = {
    {3, 3, 70, 1, {12, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 13, 40, 1, {9, 10}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {0, 0}},
    {2, 18, 27, 3, {8, 7}, {2, 3}, {1, 2}, {1, 1}, {1, 0}, {1, 2}},
    {1, 512, 33, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 34, 96, 2, {9, 11}, {3, 3}, {2, 1}, {2, 1}, {2, 1}, {0, 0}},
    {1, 24, 70, 1, {13, 11}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 40, 64, 1, {9, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 40, 48, 1, {3, 4}, {3, 5}, {1, 1}, {1, 1}, {4, 6}, {2, 3}},
    {1, 71, 71, 71, {7, 18}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 38, 38, 38, {9, 31}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 49, 49, 49, {8, 21}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {0, 0}},
    {1, 19, 19, 19, {4, 3}, {7, 9}, {1, 1}, {1, 1}, {6, 8}, {3, 2}},
};

/* A function of the sums runs per tile or per row; its results equal those for a whole array. */
static void check_f32(const sample_kernel *s, void *user) {
  static const compute_instruction instructions[] = {
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32},
      {.code = COMPUTE_I_LOAD, .type = COMPUTE_F32, .immediate = {.i64 = 1}},
      {.code = COMPUTE_I_ADD, .type = COMPUTE_F32, .a = 0, .b = 1},
      {.code = COMPUTE_I_SILU, .type = COMPUTE_F32, .a = 2}};
  static const uint16_t last[] = {2, 3};
  checker *c = user;
  const cpu_tile_loop silu = (*c->f->device->isa->tile->compute[CPU_TYPE_F32])[COMPUTE_I_SILU][0];
  const int64_t *size = s->descriptor.size, *y = s->outputs[0].stride;
  float *expected = malloc((size_t)(size[0] * size[1] * size[2] * size[3]) * sizeof *expected);
  memory m = create_memory(s, &c->random);
  assert_non_null(expected);
  for (uint32_t k = 0; k < 2; k++) {
    sample_kernel whole = *s;
    attributes_bind(&whole.descriptor, &whole.attributes);
    whole.descriptor.epilogue = (compute_program){3 + k, 1, instructions, &last[k]};
    assert_int_equal(run_sample(c->f, &whole, m.pointers), COMPUTE_OK);
    int64_t point[COMPUTE_MAX_RANK] = {0}, number = 0;
    do {
      int64_t at = 0;
      for (int i = 0; i < 4; i++) at += point[i] * y[i];
      const float *result = (const float *)m.pointers[3] + at;
      if (k == 0)
        silu(1, &expected[number], result, NULL, NULL, (cpu_immediate){.i64 = 0});
      else
        assert_memory_equal(&expected[number], result, sizeof *result);
      number++;
    } while (next_point(4, size, point));
  }
  release_memory(&m);
  free(expected);
}

static void run_f32(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int planes = 0; planes < 2; planes++) {
      const sample_convolution s = {.shape = shapes[i],
                                    .direction = COMPUTE_CONVOLUTION_FORWARD,
                                    .layout = planes ? LAYOUT_NCHW : LAYOUT_NHWC,
                                    .dtype = COMPUTE_F32,
                                    .result = COMPUTE_F32,
                                    .ending = ENDING_BIAS};
      sample_convolution_visit(&s, check_f32, &c);
    }
}

static void functions_of_sums_are_those_of_arrays(void **state) {
  (void)state;
  on_every_device(run_f32, 2, 0);
}

/* Uses a function that the micro-kernel leaves to loops over its tile. */
static void check_bf16(const sample_kernel *s, void *user) {
  sample_kernel other = *s;
  compute_instruction instructions[8];
  assert_in_range(s->descriptor.epilogue.count, 4, 8);
  for (uint32_t i = 0; i < s->descriptor.epilogue.count; i++) {
    instructions[i] = s->descriptor.epilogue.instructions[i];
    if (instructions[i].code == COMPUTE_I_RELU) instructions[i].code = COMPUTE_I_SILU;
  }
  attributes_bind(&other.descriptor, &other.attributes);
  other.descriptor.epilogue.instructions = instructions;
  check_sample(&other, user);
}

static void run_bf16(fixture *f, uint64_t seed) {
  checker c = {.f = f, .random = {.state = seed}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const sample_convolution s = {.shape = shapes[i],
                                  .direction = COMPUTE_CONVOLUTION_FORWARD,
                                  .layout = LAYOUT_NHWC,
                                  .dtype = COMPUTE_BF16,
                                  .result = COMPUTE_BF16,
                                  .ending = i % 2 ? ENDING_BIAS : ENDING_RESIDUAL};
    sample_convolution_visit(&s, check_bf16, &c);
  }
}

static void functions_of_bf16_are_right(void **state) {
  (void)state;
  on_every_device(run_bf16, 2, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_of_sums_are_those_of_arrays),
      cmocka_unit_test(functions_of_bf16_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
