/* SPDX-License-Identifier: MIT */
/* Descriptors of pooling, running folds, top-k, attention, recurrences and spots: their checks,
 * their costs, unique keys, and the conversion of a key back to the descriptor. */
#include <math.h>
#include <string.h>

#include "compute/backend/fit_kinds.h"

#include "kernel/descriptor_sample.h"

static sample base(compute_kernel_kind kind, compute_shape space, uint32_t inputs) {
  sample s = {.d = {.struct_size = sizeof s.d,
                    .kind = kind,
                    .rank = space.rank,
                    .input_count = inputs,
                    .output_count = 1,
                    .accumulate = COMPUTE_F32}};
  int64_t stride = 1;
  for (int32_t i = space.rank - 1; i >= 0; i--) {
    s.d.size[i] = space.size[i];
    s.output[0].stride[i] = stride;
    stride *= space.size[i];
  }
  s.output[0].dtype = COMPUTE_F32;
  for (int i = 0; i < 5; i++) s.input[i] = s.output[0];
  return s;
}

/* 3 × 2 windows of 7 × 8 elements. */
static sample window(compute_window_operation operation, bool by_data) {
  sample s =
      base(COMPUTE_KERNEL_WINDOW, by_data ? COMPUTE_SHAPE(2, 3, 7, 8) : COMPUTE_SHAPE(2, 3, 4, 8),
           by_data && operation == COMPUTE_WINDOW_MAX ? 2 : 1);
  s.a.window = (compute_window_attributes){.operation = operation,
                                           .by_data = by_data,
                                           .data_size = {7, 8},
                                           .result_size = {4, 8},
                                           .size = {3, 2},
                                           .stride = {2, 1},
                                           .dilation = {1, 1},
                                           .padding = {1, 1}};
  return s;
}

static sample scan(void) {
  sample s = base(COMPUTE_KERNEL_SCAN, COMPUTE_SHAPE(3, 5), 1);
  return s;
}

static sample top_k(void) {
  sample s = base(COMPUTE_KERNEL_TOP_K, COMPUTE_SHAPE(3, 5), 1);
  s.a.top_k.axis_size = 9;
  s.output[0].dtype = COMPUTE_I64;
  return s;
}

/* Positions only, or positions and values. */
static sample sort(bool values) {
  sample s = base(COMPUTE_KERNEL_SORT, COMPUTE_SHAPE(3, 5), 1);
  s.a.sort = (compute_sort_attributes){.positions = !values, .values = values};
  s.output[0].dtype = values ? COMPUTE_F32 : COMPUTE_I64;
  return s;
}

static sample attention(void) {
  sample s = base(COMPUTE_KERNEL_ATTENTION, COMPUTE_SHAPE(2, 5, 6), 4);
  s.a.attention = (compute_attention_attributes){
      .keys = 7, .width = 3, .scale = 0.5, .causal = true, .biased = true};
  return s;
}

/* Four steps, two sequences, three units, with all optional parts of a cell. */
static sample recurrent(compute_recurrent_cell cell) {
  const bool lstm = cell == COMPUTE_RECURRENT_LSTM, gru = cell == COMPUTE_RECURRENT_GRU;
  const int64_t states = lstm ? 2 : 1;
  sample s = base(COMPUTE_KERNEL_RECURRENT, COMPUTE_SHAPE(4 + states, 2, 3),
                  lstm  ? 6
                  : gru ? 5
                        : 4);
  s.a.recurrent = (compute_recurrent_attributes){
      .cell = cell, .lengths = true, .reset_after = gru, .bias = gru, .peepholes = lstm, .clip = 2};
  s.input[lstm ? 4 : 3].dtype = COMPUTE_I32;
  return s;
}

/* Two batches of 3 × 4 products over 70 numbers of 4 bits, in blocks of 32. */
static sample quantized(void) {
  sample s = base(COMPUTE_KERNEL_QUANTIZED_GEMM, COMPUTE_SHAPE(2, 3, 4), 4);
  s.a.quantized_gemm =
      (compute_quantized_gemm_attributes){.k = 70, .block = 32, .bits = 4, .zeros = true};
  s.input[1].dtype = COMPUTE_U8;
  for (int i = 1; i < 4; i++) s.input[i].stride[0] = 0;
  return s;
}

static sample spots(void) {
  sample s = base(COMPUTE_KERNEL_SPOTS, COMPUTE_SHAPE(2, 9, 11), 1);
  s.a.spots = (compute_spots_attributes){.distance = 2,
                                         .radius = 3,
                                         .wide_radius = 5,
                                         .step = 1,
                                         .rounds = 3,
                                         .sigma = 1,
                                         .wide_sigma = 1.7,
                                         .threshold = 5,
                                         .first = 1.25,
                                         .clip = 2.5,
                                         .scale = 1.05,
                                         .least = 0.001,
                                         .gain = 0.02};
  return s;
}

/* ---- Checks -------------------------------------------------------------------------------- */

static void windows_are_checked(void **state) {
  (void)state;
#define SPOIL(change)                                                                              \
  do {                                                                                             \
    for (int i = 0; i < 4; i++)                                                                    \
      SPOILED(window((compute_window_operation)(i & 1), i >> 1), change);                          \
  } while (0)
  SPOIL(s.d.rank = 3);
  SPOIL(s.a.window.operation = (compute_window_operation)3);
  SPOIL(s.a.window.padding_more[1] = -2);
  SPOIL(s.a.window.padding_more[0] = INT64_MAX);
  SPOIL(s.a.window.data_size[0] = -1);
  SPOIL(s.a.window.result_size[1] = -1);
  SPOIL(s.a.window.size[0] = 0);
  SPOIL(s.a.window.stride[1] = 0);
  SPOIL(s.a.window.dilation[0] = 0);
  SPOIL(s.a.window.padding[1] = -1);
  SPOIL(s.a.window.dilation[1] = INT64_MAX);
  SPOIL(s.a.window.padding[0] = INT64_MAX);
  SPOIL(s.a.window.size[0] = s.a.window.size[1] = INT64_C(1) << 40);
  SPOIL(s.d.size[2]++);
  SPOIL(s.d.input_count = 0);
  SPOIL(s.d.input_count++);
  SPOIL(s.d.accumulate = COMPUTE_F64);
  SPOIL(s.input[0].dtype = COMPUTE_I32);
  SPOIL(s.output[0].stride[1] = 0);
  SPOIL(program_store(&s.prologue, program_load(&s.prologue, COMPUTE_F32, 0)));
#undef SPOIL
  SPOILED(window(COMPUTE_WINDOW_MAX, true), s.a.window.operation = COMPUTE_WINDOW_ARGMAX);
  sample s = window(COMPUTE_WINDOW_MAX, true);
  s.d.input_count = 3;
  const uint16_t fold = program_load(&s.epilogue, COMPUTE_F32, 0);
  const uint16_t other = program_load(&s.epilogue, COMPUTE_F32, 1);
  program_store(&s.epilogue,
                program_apply(&s.epilogue, COMPUTE_I_ADD, COMPUTE_F32, fold, other, 0));
  assert_true(passes(&s));
  assert_int_equal(kernel_operands_own(&s.d), 2);
}

static void scans_are_checked(void **state) {
  (void)state;
  SPOILED(scan(), s.d.rank = 0);
  SPOILED(scan(), s.a.scan.combine = COMPUTE_COMBINE_ARGMAX);
  SPOILED(scan(), s.d.accumulate = COMPUTE_I32);
  SPOILED(scan(), s.input[0].dtype = COMPUTE_BOOL);
  SPOILED(scan(), s.output[0].dtype = COMPUTE_I64);
  SPOILED(scan(), s.output[0].stride[1] = 0);
  SPOILED(scan(), s.d.input_count = 2);
  SPOILED(scan(), program_store(&s.epilogue, program_load(&s.epilogue, COMPUTE_F32, 0)));
}

static void sort_is_checked(void **state) {
  (void)state;
  SPOILED(sort(false), s.a.sort.positions = false);
  SPOILED(sort(false), s.a.sort.values = true);
  SPOILED(sort(false), s.output[0].dtype = COMPUTE_I32);
  SPOILED(sort(true), s.output[0].dtype = COMPUTE_I64);
  SPOILED(sort(true), s.output[0].stride[1] = 0);
  SPOILED(sort(false), s.input[0].dtype = COMPUTE_BOOL);
  SPOILED(sort(false), s.d.rank = 0);
  SPOILED(sort(false), s.d.input_count = 2);
  SPOILED(sort(false), s.d.output_count = 0);
}

static void top_k_is_checked(void **state) {
  (void)state;
  SPOILED(top_k(), s.a.top_k.axis_size = 4);
  SPOILED(top_k(), s.a.top_k.axis_size = -1);
  SPOILED(top_k(), s.output[0].dtype = COMPUTE_I32);
  SPOILED(top_k(), s.input[0].dtype = COMPUTE_BOOL);
  SPOILED(top_k(), s.d.rank = 0);
  SPOILED(top_k(), s.d.input_count = 2);
  SPOILED(top_k(), s.output[0].stride[0] = 0);
}

static void attention_is_checked(void **state) {
  (void)state;
  SPOILED(attention(), s.d.rank = 1);
  SPOILED(attention(), s.d.input_count = 3);
  SPOILED(attention(), s.a.attention.biased = false);
  SPOILED(attention(), s.a.attention.keys = -1);
  SPOILED(attention(), s.a.attention.keys = INT64_MAX);
  SPOILED(attention(), s.a.attention.width = -1);
  SPOILED(attention(), s.a.attention.scale = (double)NAN);
  SPOILED(attention(), s.a.attention.zero_weights = true);
  SPOILED(attention(), s.input[2].dtype = COMPUTE_F16);
  SPOILED(attention(), s.output[0].dtype = COMPUTE_F64);
  SPOILED(attention(), s.d.accumulate = COMPUTE_F64);
  SPOILED(attention(), s.output[0].stride[1] = 0);
}

#define RNN  COMPUTE_RECURRENT_RNN
#define GRU  COMPUTE_RECURRENT_GRU
#define LSTM COMPUTE_RECURRENT_LSTM

static void recurrences_are_checked(void **state) {
  (void)state;
  for (compute_recurrent_cell cell = RNN; cell <= LSTM; cell++) {
    SPOILED(recurrent(cell), s.d.rank = 2);
    SPOILED(recurrent(cell), s.d.size[0] = cell == LSTM ? 1 : 0);
    SPOILED(recurrent(cell), s.d.input_count--);
    SPOILED(recurrent(cell), s.a.recurrent.lengths = false);
    SPOILED(recurrent(cell), s.a.recurrent.clip = -1);
    SPOILED(recurrent(cell), s.a.recurrent.clip = (double)NAN);
    SPOILED(recurrent(cell), s.a.recurrent.clip = (double)INFINITY);
    SPOILED(recurrent(cell), s.d.accumulate = COMPUTE_F64);
    SPOILED(recurrent(cell), s.input[1].dtype = COMPUTE_F16);
    SPOILED(recurrent(cell), s.input[3].dtype = COMPUTE_F64);
    SPOILED(recurrent(cell), s.output[0].dtype = COMPUTE_F64);
    SPOILED(recurrent(cell), s.output[0].stride[1] = 0);
    SPOILED(recurrent(cell), s.d.size[2] = INT64_MAX / 2);
  }
  SPOILED(recurrent(LSTM), s.a.recurrent.cell = (compute_recurrent_cell)3);
  SPOILED(recurrent(LSTM), s.a.recurrent.reset_after = true);
  SPOILED(recurrent(LSTM), s.input[4].dtype = COMPUTE_I64);
  SPOILED(recurrent(GRU), s.a.recurrent.reset_after = false);
  SPOILED(recurrent(GRU), s.a.recurrent.peepholes = true; s.d.input_count++);
  SPOILED(recurrent(RNN), s.a.recurrent.bias = true; s.d.input_count++);
}

static void quantized_products_are_checked(void **state) {
  (void)state;
  SPOILED(quantized(), s.d.rank = 1);
  SPOILED(quantized(), s.d.input_count = 3);
  SPOILED(quantized(), s.d.accumulate = COMPUTE_F64);
  SPOILED(quantized(), s.input[0].dtype = COMPUTE_I32);
  SPOILED(quantized(), s.input[1].dtype = COMPUTE_I8);
  SPOILED(quantized(), s.input[2].dtype = COMPUTE_U8);
  SPOILED(quantized(), s.input[3].dtype = COMPUTE_I32);
  SPOILED(quantized(), s.input[2].stride[0] = 1);
  SPOILED(quantized(), s.output[0].stride[2] = 0);
  SPOILED(quantized(), s.a.quantized_gemm.k = -1);
  SPOILED(quantized(), s.a.quantized_gemm.bits = 5);
  SPOILED(quantized(), s.a.quantized_gemm.block = 0);
  SPOILED(quantized(), s.a.quantized_gemm.block = 33);
  SPOILED(quantized(), s.a.quantized_gemm.block = INT64_MAX - 7);
  SPOILED(quantized(), s.a.quantized_gemm.zeros = false);
}

static void spots_are_checked(void **state) {
  (void)state;
  SPOILED(spots(), s.d.rank = 2);
  SPOILED(spots(), s.d.size[1] = 2);
  SPOILED(spots(), s.d.size[2] = 2);
  SPOILED(spots(), s.d.input_count = 2);
  SPOILED(spots(), s.input[0].dtype = COMPUTE_I32);
  SPOILED(spots(), s.output[0].dtype = COMPUTE_U8);
  SPOILED(spots(), s.output[0].stride[2] = 0);
  SPOILED(spots(), s.a.spots.filter = 2);
  SPOILED(spots(), s.a.spots.radius = -1);
  SPOILED(spots(), s.a.spots.wide_radius = 2);
  SPOILED(spots(), s.a.spots.wide_radius = COMPUTE_SPOT_MOST_RADIUS + 1);
  SPOILED(spots(), s.a.spots.distance = 0);
  SPOILED(spots(), s.a.spots.distance = COMPUTE_SPOT_MOST_RADIUS + 1);
  SPOILED(spots(), s.a.spots.step = 0);
  SPOILED(spots(), s.a.spots.rounds = -1);
  SPOILED(spots(), s.a.spots.wide_sigma = 0);
  SPOILED(spots(), s.a.spots.threshold = 0);
  SPOILED(spots(), s.a.spots.threshold = (double)NAN);
  SPOILED(spots(), s.a.spots.gain = (double)INFINITY);
  SPOILED(spots(), program_store(&s.epilogue, program_load(&s.epilogue, COMPUTE_F32, 0)));
}

/* ---- Costs --------------------------------------------------------------------------------- */

static kernel_cost cost_of(sample s) {
  assert_true(passes(&s));
  return kernel_cost_of(&s.d);
}

static void every_operand_is_counted_in_its_own_dimensions(void **state) {
  (void)state;
  kernel_cost c = cost_of(window(COMPUTE_WINDOW_MAX, false));
  assert_int_equal(c.bytes_read, 4 * 6 * 56);
  assert_int_equal(c.bytes_written, 4 * 6 * 32);
  assert_int_equal(c.flops, 6 * 32 * 6);
  c = cost_of(window(COMPUTE_WINDOW_MAX, true));
  assert_int_equal(c.bytes_read, 4 * 6 * (56 + 32));
  c = cost_of(window(COMPUTE_WINDOW_AVERAGE, true));
  assert_int_equal(c.bytes_read, 4 * 6 * 32);
  c = cost_of(top_k());
  assert_int_equal(c.bytes_read, 4 * 27);
  assert_int_equal(c.bytes_written, 8 * 15);
  c = cost_of(sort(false));
  assert_int_equal(c.bytes_read, 4 * 15);
  assert_int_equal(c.bytes_written, 8 * 15);
  assert_int_equal(c.flops, 2 * 15 * 3);
  c = cost_of(attention());
  assert_int_equal(c.bytes_read, 4 * 2 * (5 * 3 + 7 * 3 + 7 * 6 + 5 * 7));
  assert_int_equal(c.bytes_written, 4 * 2 * 5 * 6);
  assert_true(c.flops > 0);
  c = cost_of(recurrent(COMPUTE_RECURRENT_LSTM));
  assert_int_equal(c.bytes_read, 4 * (4 * 2 * 12 + 3 * 12 + 2 * 2 * 3 + 2 + 3 * 3));
  assert_int_equal(c.bytes_written, 4 * 6 * 2 * 3);
  assert_true(c.flops > 2 * 4 * 2 * 12 * 3);
  c = cost_of(quantized());
  assert_int_equal(c.bytes_read, 4 * 2 * 3 * 70 + 4 * 35 + 2 * 4 * 4 * 3);
  assert_int_equal(c.bytes_written, 4 * 2 * 3 * 4);
  assert_int_equal(c.flops, 2 * 2 * 3 * 4 * 70);
  c = cost_of(spots());
  assert_int_equal(c.bytes_read, 4 * 2 * 9 * 11);
  assert_int_equal(c.bytes_written, 4 * 2 * 9 * 11);
  assert_true(c.flops > 0);
}

/* ---- Keys ---------------------------------------------------------------------------------- */

static void check_key(sample s) {
  static kernel_key first, second;
  static descriptor_copy copy;
  bind(&s);
  assert_true(kernel_key_fits(&s.d));
  kernel_key_write(&first, &s.d);
  kernel_key_read(first.bytes, &copy);
  kernel_key_write(&second, &copy.descriptor);
  assert_int_equal(first.length, second.length);
  assert_memory_equal(first.bytes, second.bytes, first.length);
  char reason[128];
  assert_true(descriptor_check(&copy.descriptor, reason, sizeof reason));
}

static bool same_key(sample a, sample b) {
  static kernel_key first, second;
  bind(&a);
  bind(&b);
  kernel_key_write(&first, &a.d);
  kernel_key_write(&second, &b.d);
  return first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0;
}

static void keys_hold_all_that_the_kind_uses(void **state) {
  (void)state;
#define DIFFERS(first, change)                                                                     \
  do {                                                                                             \
    sample s = first;                                                                              \
    check_key(s);                                                                                  \
    change;                                                                                        \
    if (same_key(s, first)) fail_msg("%s does not change the key", #change);                       \
  } while (0)
  DIFFERS(window(COMPUTE_WINDOW_AVERAGE, false), s.a.window.count_padding = true);
  DIFFERS(window(COMPUTE_WINDOW_AVERAGE, false), s.a.window.operation = COMPUTE_WINDOW_MAX);
  DIFFERS(window(COMPUTE_WINDOW_AVERAGE, false), s.a.window.padding[1] = 0);
  DIFFERS(window(COMPUTE_WINDOW_AVERAGE, false),
          (s.a.window.count_padding = true, s.a.window.padding_more[1] = 1));
  DIFFERS(window(COMPUTE_WINDOW_MAX, true), s.a.window.dilation[0] = 2);
  DIFFERS(window(COMPUTE_WINDOW_MAX, true), s.a.window.stride[1] = 2);
  DIFFERS(scan(), s.a.scan.reverse = true);
  DIFFERS(scan(), s.a.scan.exclusive = true);
  DIFFERS(scan(), s.a.scan.combine = COMPUTE_COMBINE_MAX);
  DIFFERS(top_k(), s.a.top_k.smallest = true);
  DIFFERS(top_k(), s.a.top_k.axis_size = 10);
  DIFFERS(sort(true), s.a.sort.descending = true);
  DIFFERS(attention(), s.a.attention.causal = false);
  DIFFERS(attention(), s.a.attention.scale = 0.25);
  DIFFERS(attention(), s.a.attention.formula = true);
  DIFFERS(attention(), s.a.attention.keys = 8);
  DIFFERS(attention(), s.a.attention.width = 4);
  DIFFERS(recurrent(COMPUTE_RECURRENT_LSTM), s.a.recurrent.reverse = true);
  DIFFERS(recurrent(COMPUTE_RECURRENT_LSTM), s.a.recurrent.clip = 1);
  DIFFERS(recurrent(COMPUTE_RECURRENT_GRU), s.a.recurrent.reverse = true);
  DIFFERS(quantized(), s.a.quantized_gemm.k = 71);
  DIFFERS(quantized(), s.a.quantized_gemm.block = 64);
  DIFFERS(quantized(), s.a.quantized_gemm.bits = 2);
  DIFFERS(quantized(), s.a.quantized_gemm.zeros = false; s.d.input_count = 3);
  DIFFERS(spots(), s.a.spots.filter = 1);
  DIFFERS(spots(), s.a.spots.gain = 0.03);
  DIFFERS(spots(), s.a.spots.step = 2);
  DIFFERS(spots(), s.output[0].dtype = COMPUTE_BOOL);
#undef DIFFERS
  sample s = window(COMPUTE_WINDOW_MAX, false);
  s.a.window.count_padding = true; /* averages only */
  s.d.prologue_inputs = 1;         /* REDUCE and ROW only */
  assert_true(same_key(s, window(COMPUTE_WINDOW_MAX, false)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_are_checked),
      cmocka_unit_test(scans_are_checked),
      cmocka_unit_test(top_k_is_checked),
      cmocka_unit_test(sort_is_checked),
      cmocka_unit_test(attention_is_checked),
      cmocka_unit_test(recurrences_are_checked),
      cmocka_unit_test(quantized_products_are_checked),
      cmocka_unit_test(spots_are_checked),
      cmocka_unit_test(every_operand_is_counted_in_its_own_dimensions),
      cmocka_unit_test(keys_hold_all_that_the_kind_uses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
