/* SPDX-License-Identifier: MIT */
/* Checks of kernel descriptors: each test starts with a valid one and spoils one field at a
 * time. */
#include "support/harness/test.h"

#include <math.h>
#include <string.h>

#include "core/kernel/common/program.h"
#include "core/kernel/kernel.h"
#include "support/samples/attributes.h"

/* A descriptor with its operands and programs, so that tests can change any of them. */
typedef struct sample {
  compute_kernel_descriptor d;
  any_attributes a;
  compute_operand input[4], output[2];
  program_builder prologue, epilogue;
} sample;

static bool passes(sample *s) {
  char reason[256] = "";
  s->d.inputs = s->input;
  attributes_bind(&s->d, &s->a);
  s->d.outputs = s->output;
  s->d.prologue = program_finish(&s->prologue);
  s->d.epilogue = program_finish(&s->epilogue);
  bool good = descriptor_check(&s->d, reason, sizeof reason);
  if (!good) assert_true(reason[0] != 0);
  return good;
}

static sample base_sample(compute_kernel_kind kind, int32_t rank, uint32_t inputs) {
  sample s = {.d = {.struct_size = sizeof s.d,
                    .kind = kind,
                    .rank = rank,
                    .input_count = inputs,
                    .output_count = 1}};
  for (int32_t i = 0; i < rank; i++) s.d.size[i] = i + 2;
  for (size_t k = 0; k < 4; k++) {
    s.input[k].dtype = COMPUTE_F32;
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
      s.input[k].stride[i] = stride;
      stride *= s.d.size[i];
    }
  }
  s.output[0] = s.output[1] = s.input[0];
  return s;
}

/* y = relu(x0 + x1) over 2 × 3. */
static sample map_sample(void) {
  sample s = base_sample(COMPUTE_KERNEL_MAP, 2, 2);
  program_builder *b = &s.epilogue;
  uint16_t x = program_load(b, COMPUTE_F32, 0), y = program_load(b, COMPUTE_F32, 1);
  program_store(b, program_apply(b, COMPUTE_I_ADD, COMPUTE_F32, x, y, 0));
  return s;
}

/* y[i] = exp(sum over j of x[i][j]²) + z[i]. */
static sample reduce_sample(void) {
  sample s = base_sample(COMPUTE_KERNEL_REDUCE, 2, 2);
  s.a.reduce.kept_rank = 1;
  s.d.accumulate = COMPUTE_F32;
  s.d.prologue_inputs = 1;
  s.output[0].stride[0] = s.input[1].stride[0] = 1;
  s.output[0].stride[1] = s.input[1].stride[1] = 0;
  uint16_t x = program_load(&s.prologue, COMPUTE_F32, 0);
  program_store(&s.prologue, program_apply(&s.prologue, COMPUTE_I_SQUARE, COMPUTE_F32, x, 0, 0));
  uint16_t sum = program_load(&s.epilogue, COMPUTE_F32, 0);
  uint16_t z = program_load(&s.epilogue, COMPUTE_F32, 1);
  program_store(&s.epilogue, program_apply(&s.epilogue, COMPUTE_I_ADD, COMPUTE_F32, sum, z, 0));
  return s;
}

static sample row_sample(void) {
  sample s = base_sample(COMPUTE_KERNEL_ROW, 2, 1);
  s.d.accumulate = COMPUTE_F32;
  s.d.prologue_inputs = 1;
  return s;
}

static sample gemm_sample(void) {
  sample s = base_sample(COMPUTE_KERNEL_GEMM, 2, 2);
  s.d.accumulate = COMPUTE_F32;
  s.a.gemm.k = 5;
  return s;
}

static sample gather_sample(compute_kernel_kind kind) {
  sample s = base_sample(kind, 2, 2);
  s.input[1].dtype = COMPUTE_I64;
  s.a.index.axis_size = 10;
  s.a.index.axis_stride = 3;
  return s;
}

/* The original passes; after `spoil` it must fail. */
#define CHECK_SPOILED(make, spoil)                                                                 \
  do {                                                                                             \
    sample s = make;                                                                               \
    assert_true(passes(&s));                                                                       \
    spoil;                                                                                         \
    assert_false(passes(&s));                                                                      \
  } while (0)

static void space_and_operands_are_checked(void **state) {
  (void)state;
  CHECK_SPOILED(map_sample(), s.d.rank = 9);
  CHECK_SPOILED(map_sample(), s.d.rank = -1);
  CHECK_SPOILED(map_sample(), s.d.size[1] = -1);
  CHECK_SPOILED(map_sample(), s.d.size[0] = s.d.size[1] = INT64_MAX);
  CHECK_SPOILED(map_sample(), s.d.struct_size = 8);
  CHECK_SPOILED(map_sample(), s.d.kind = (compute_kernel_kind)7);
  CHECK_SPOILED(map_sample(), s.d.kind = (compute_kernel_kind)-1);
  CHECK_SPOILED(map_sample(), s.d.input_count = COMPUTE_MAX_OPERANDS);
  CHECK_SPOILED(map_sample(), s.d.input_count = UINT32_MAX);
  CHECK_SPOILED(map_sample(), s.d.output_count = 0);
  CHECK_SPOILED(map_sample(), s.input[1].dtype = COMPUTE_DTYPE_NONE);
  CHECK_SPOILED(map_sample(), s.output[0].dtype = (compute_dtype)99);
  char reason[64];
  assert_false(descriptor_check(NULL, reason, sizeof reason));
  sample s = map_sample();
  passes(&s);
  s.d.inputs = NULL;
  assert_false(descriptor_check(&s.d, reason, 0));
}

static void map_is_checked(void **state) {
  (void)state;
  CHECK_SPOILED(map_sample(), s.epilogue.count = 0);
  CHECK_SPOILED(map_sample(), program_store(&s.epilogue, 0));
  CHECK_SPOILED(map_sample(), s.input[0].dtype = COMPUTE_I32); /* loaded as f32 */
  CHECK_SPOILED(map_sample(), s.d.input_count = 1);
  CHECK_SPOILED(map_sample(), s.output[0].stride[1] = 0);
  CHECK_SPOILED(map_sample(), s.input[0].stride[0] = INT64_MIN);
  CHECK_SPOILED(map_sample(), (s.d.size[0] = INT64_MAX, s.d.size[1] = 0));
  CHECK_SPOILED(map_sample(), s.output[0].stride[2] = INT64_MIN);
  CHECK_SPOILED(map_sample(), program_load(&s.prologue, COMPUTE_F32, 0));
  CHECK_SPOILED(map_sample(),
                program_instruction(&s.epilogue, (compute_instruction){.code = COMPUTE_I_COORDINATE,
                                                                       .type = COMPUTE_I64,
                                                                       .immediate.i64 = 2}));
  sample s = map_sample();
  s.input[0].dtype = COMPUTE_F16; /* widens to f32 */
  s.output[0].dtype = COMPUTE_BF16;
  s.input[1].stride[0] = 0; /* inputs may repeat */
  assert_true(passes(&s));
  s.d.size[0] = 0;
  s.output[0].stride[0] = 0;
  assert_true(passes(&s));
}

static void reduce_is_checked(void **state) {
  (void)state;
  CHECK_SPOILED(reduce_sample(), s.a.reduce.kept_rank = 3);
  CHECK_SPOILED(reduce_sample(), s.a.reduce.kept_rank = -1);
  CHECK_SPOILED(reduce_sample(), s.a.reduce.combine = (compute_combine)6);
  CHECK_SPOILED(reduce_sample(), s.d.accumulate = COMPUTE_F64);
  CHECK_SPOILED(reduce_sample(), s.d.accumulate = COMPUTE_F16);
  CHECK_SPOILED(reduce_sample(), s.d.prologue_inputs = 3);
  CHECK_SPOILED(reduce_sample(), s.output[0].stride[1] = 1);
  CHECK_SPOILED(reduce_sample(), s.output[0].stride[0] = 0);
  CHECK_SPOILED(reduce_sample(), s.input[1].stride[1] = 1);
  CHECK_SPOILED(reduce_sample(),
                s.a.reduce.combine = COMPUTE_COMBINE_ARGMAX); /* its epilogue has i64 */
  CHECK_SPOILED(reduce_sample(), s.epilogue.count = s.epilogue.output_count = 0);
  sample s = reduce_sample();
  s.prologue.count = s.prologue.output_count = 0; /* the input itself */
  assert_true(passes(&s));
  s.epilogue.count = s.epilogue.output_count = 0;
  s.d.input_count = 1;
  s.a.reduce.combine = COMPUTE_COMBINE_ARGMIN;
  s.output[0].dtype = COMPUTE_I64;
  assert_true(passes(&s));
  s.input[0].dtype = s.d.accumulate = COMPUTE_BOOL;
  assert_false(passes(&s));
  s.a.reduce.combine = COMPUTE_COMBINE_MAX;
  assert_true(passes(&s));
}

static void row_is_checked(void **state) {
  (void)state;
  CHECK_SPOILED(row_sample(), s.d.rank = 0);
  CHECK_SPOILED(row_sample(), s.a.row.operation = (compute_row_operation)3);
  CHECK_SPOILED(row_sample(), s.d.accumulate = COMPUTE_I32);
  CHECK_SPOILED(row_sample(), s.a.row.epsilon = NAN);
  CHECK_SPOILED(row_sample(), s.a.row.epsilon = -1);
  CHECK_SPOILED(row_sample(), s.d.prologue_inputs = 0);
  CHECK_SPOILED(row_sample(), s.d.output_count = 2);
}

static void gemm_is_checked(void **state) {
  (void)state;
  CHECK_SPOILED(gemm_sample(), s.a.gemm.k = INT64_MAX);
  CHECK_SPOILED(gemm_sample(), s.d.rank = 1);
  CHECK_SPOILED(gemm_sample(), s.a.gemm.k = -1);
  CHECK_SPOILED(gemm_sample(), s.d.input_count = 1);
  CHECK_SPOILED(gemm_sample(), s.d.input_count = 3);
  CHECK_SPOILED(gemm_sample(), s.d.accumulate = COMPUTE_I32);
  CHECK_SPOILED(gemm_sample(), s.input[0].dtype = COMPUTE_BOOL);
  CHECK_SPOILED(gemm_sample(), s.d.accumulate = COMPUTE_BF16);
  CHECK_SPOILED(gemm_sample(), s.a.gemm.precision = (compute_precision)16);
  sample s = gemm_sample();
  s.input[0].dtype = s.input[1].dtype = COMPUTE_F16;
  s.a.gemm.k = 0;
  assert_true(passes(&s));
}

/* y[n, o, p, q] of x[2, 6, 7, 8] and w[9, 2, 3, 2] in three groups. */
static sample convolution_sample(compute_convolution_direction direction) {
  sample s = base_sample(COMPUTE_KERNEL_CONV, 4, 2);
  s.d.accumulate = COMPUTE_F32;
  s.a.conv = (compute_conv_attributes){.direction = direction,
                                       .groups = 3,
                                       .batch = 2,
                                       .data_channels = 6,
                                       .result_channels = 9,
                                       .data_size = {7, 8},
                                       .result_size = {4, 9},
                                       .filter_size = {3, 2},
                                       .stride = {2, 1},
                                       .dilation = {1, 2},
                                       .padding = {1, 1}};
  const int64_t sizes[3][4] = {{2, 9, 4, 9}, {2, 6, 7, 8}, {9, 2, 3, 2}};
  memcpy(s.d.size, sizes[direction], sizeof sizes[direction]);
  return s;
}

static void convolution_is_checked(void **state) {
  (void)state;
#define CHECK_CONVOLUTION(change)                                                                  \
  do {                                                                                             \
    for (int i = 0; i < 3; i++)                                                                    \
      CHECK_SPOILED(convolution_sample((compute_convolution_direction)i), change);                 \
  } while (0)
  CHECK_CONVOLUTION(s.d.rank = 3);
  CHECK_CONVOLUTION(s.a.conv.direction = (compute_convolution_direction)3);
  CHECK_CONVOLUTION(s.a.conv.groups = 0);
  CHECK_CONVOLUTION(s.a.conv.groups = 2); /* does not divide nine */
  CHECK_CONVOLUTION(s.a.conv.batch = -1);
  CHECK_CONVOLUTION(s.a.conv.data_channels = -6);
  CHECK_CONVOLUTION(s.a.conv.result_channels = -9);
  CHECK_CONVOLUTION(s.a.conv.data_size[0] = -1);
  CHECK_CONVOLUTION(s.a.conv.result_size[1] = -1);
  CHECK_CONVOLUTION(s.a.conv.filter_size[0] = 0);
  CHECK_CONVOLUTION(s.a.conv.stride[1] = 0);
  CHECK_CONVOLUTION(s.a.conv.dilation[0] = 0);
  CHECK_CONVOLUTION(s.a.conv.padding[1] = -1);
  CHECK_CONVOLUTION(s.a.conv.stride[0] = INT64_MAX / 2);
  CHECK_CONVOLUTION(s.a.conv.padding[0] = INT64_MAX);
  for (int d = 0; d < 4; d++) CHECK_CONVOLUTION(s.d.size[d]++);
  CHECK_CONVOLUTION(s.d.input_count = 1);
  CHECK_CONVOLUTION(s.d.input_count = 3);
  CHECK_CONVOLUTION(s.d.accumulate = COMPUTE_I32);
  CHECK_CONVOLUTION(s.d.accumulate = COMPUTE_F16);
  CHECK_CONVOLUTION(s.input[0].dtype = COMPUTE_BOOL);
  CHECK_CONVOLUTION(s.input[1].dtype = COMPUTE_I32);
  CHECK_CONVOLUTION(s.a.conv.precision = (compute_precision)4);
  CHECK_CONVOLUTION(s.output[0].stride[1] = 0);
  CHECK_CONVOLUTION(program_store(&s.prologue, program_load(&s.prologue, COMPUTE_F32, 0)));
#undef CHECK_CONVOLUTION
  sample s = convolution_sample(COMPUTE_CONVOLUTION_FORWARD);
  s.a.conv.precision = COMPUTE_PRECISION_TF32;
  assert_true(passes(&s));
  s.a.conv.batch = s.d.size[0] = 0;
  assert_true(passes(&s));
}

/* Two rows and three columns of blocks of 3 × 3. */
static sample pooled_sample(void) {
  sample s = convolution_sample(COMPUTE_CONVOLUTION_FORWARD);
  s.a.conv.pool = 3;
  s.a.conv.result_size[0] = 6;
  s.d.size[2] = 2;
  s.d.size[3] = 3;
  return s;
}

static void pooled_convolution_is_checked(void **state) {
  (void)state;
  CHECK_SPOILED(pooled_sample(), s.a.conv.pool = 1);
  CHECK_SPOILED(pooled_sample(), s.a.conv.pool = 2); /* does not divide nine */
  CHECK_SPOILED(pooled_sample(), s.a.conv.pool = 0);
  CHECK_SPOILED(pooled_sample(), s.a.conv.direction = COMPUTE_CONVOLUTION_BY_DATA);
  CHECK_SPOILED(pooled_sample(), s.d.size[2] = 6);
  sample s = pooled_sample();
  uint16_t sum = program_load(&s.epilogue, COMPUTE_F32, 0);
  program_store(&s.epilogue, program_apply(&s.epilogue, COMPUTE_I_RELU, COMPUTE_F32, sum, 0, 0));
  assert_true(passes(&s));
  s = pooled_sample();
  sum = program_load(&s.epilogue, COMPUTE_F32, 0);
  program_store(&s.epilogue, program_apply(&s.epilogue, COMPUTE_I_NEG, COMPUTE_F32, sum, 0, 0));
  assert_false(passes(&s));
}

static void indexed_kinds_are_checked(void **state) {
  (void)state;
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.input[1].dtype = COMPUTE_F32);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.input[1].dtype = COMPUTE_U8);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_SCATTER), s.input[1].dtype = COMPUTE_U8);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.input[1].dtype = COMPUTE_BOOL);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.output[0].dtype = COMPUTE_F64);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.a.index.axis_size = -1);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.d.input_count = 1);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_GATHER), s.output[0].stride[0] = 0);
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_SCATTER), program_load(&s.epilogue, COMPUTE_F32, 0));
  CHECK_SPOILED(gather_sample(COMPUTE_KERNEL_SCATTER),
                s.input[0].dtype = s.output[0].dtype = COMPUTE_BOOL);
  sample s = gather_sample(COMPUTE_KERNEL_SCATTER);
  s.output[0].stride[0] = 0; /* the index moves it */
  assert_true(passes(&s));
}

static void copy_is_checked(void **state) {
  (void)state;
  CHECK_SPOILED(base_sample(COMPUTE_KERNEL_COPY, 3, 1), s.d.input_count = 2);
  CHECK_SPOILED(base_sample(COMPUTE_KERNEL_COPY, 3, 1), s.output[0].stride[0] = 0);
  CHECK_SPOILED(base_sample(COMPUTE_KERNEL_COPY, 3, 1), program_load(&s.epilogue, COMPUTE_F32, 0));
  sample s = base_sample(COMPUTE_KERNEL_COPY, 0, 1);
  s.output[0].dtype = COMPUTE_BOOL;
  assert_true(passes(&s));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(space_and_operands_are_checked),
      cmocka_unit_test(map_is_checked),
      cmocka_unit_test(reduce_is_checked),
      cmocka_unit_test(row_is_checked),
      cmocka_unit_test(gemm_is_checked),
      cmocka_unit_test(convolution_is_checked),
      cmocka_unit_test(pooled_convolution_is_checked),
      cmocka_unit_test(indexed_kinds_are_checked),
      cmocka_unit_test(copy_is_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
