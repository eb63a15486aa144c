/* SPDX-License-Identifier: MIT */
/* Casts between all dtypes: rounding, truncation, saturation, wrapping and NaN as dtype.h
 * specifies. */
#include <math.h>
#include <string.h>

#include "support/harness/operation.h"
#include "support/harness/test.h"

static compute_node build_cast(compute_graph *graph, const compute_node *operands,
                               const void *user) {
  const compute_dtype *dtype = user;
  return compute_cast(graph, operands[0], *dtype);
}

static void check_casts(test_fill fill, double low, double high, guarded_layout operand,
                        guarded_layout result) {
  for (const compute_dtype *from = operation_dtypes("any"); *from; from++) {
    for (const compute_dtype *to = operation_dtypes("any"); *to; to++) {
      char name[64];
      snprintf(name, sizeof name, "cast to %s", compute_dtype_name(*to));
      operation_case sample = {.name = name,
                               .build = build_cast,
                               .user = to,
                               .operand_count = 1,
                               .result_layout = result,
                               .operation = "cast"};
      sample.operand[0] = (operation_operand){*from, SHAPE(7, 143), fill, low, high, operand};
      operation_check(test_context, &sample);
    }
  }
  operation_finish();
}

static void values_in_range_convert(void **state) {
  (void)state;
  check_casts(FILL_RANGE, -100, 100, LAYOUT_DENSE, LAYOUT_DENSE);
}

static void values_out_of_range_saturate_or_wrap(void **state) {
  (void)state;
  check_casts(FILL_SPECIAL, -1e6, 1e6, LAYOUT_DENSE, LAYOUT_DENSE);
  check_casts(FILL_SPECIAL, -1e30, 1e30, LAYOUT_DENSE, LAYOUT_DENSE);
}

static void strided_operands_and_results_convert(void **state) {
  (void)state;
  check_casts(FILL_RANGE, -3, 300, LAYOUT_TRANSPOSED, LAYOUT_STEPPED);
  check_casts(FILL_RANGE, -3, 300, LAYOUT_WRAPPED, LAYOUT_PADDED);
}

/* Runs one cast of `count` elements from host to host. */
static void cast_values(compute_dtype from, const void *source, compute_dtype to, void *result,
                        int64_t count) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, from, COMPUTE_SHAPE(count));
  const compute_node y = compute_cast(graph, x, to);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *in = test_tensor(test_context, from, COMPUTE_SHAPE(count), source);
  compute_tensor *out = test_tensor(test_context, to, COMPUTE_SHAPE(count), NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{x, in}, {y, out}}, 2, NULL));
  assert_ok(compute_tensor_read(out, result, (size_t)count * compute_dtype_size(to)));
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* Every f16 pattern widens to its number and narrows to the same pattern. */
static void every_f16_survives_the_way_to_f32_and_back(void **state) {
  (void)state;
  static uint16_t bits[65536], back[65536];
  static float wide[65536];
  for (unsigned i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
  static const compute_dtype halves[] = {COMPUTE_F16, COMPUTE_BF16};
  for (int h = 0; h < 2; h++) {
    const test_values exact = {.dtype = halves[h], .count = 65536, .data = bits};
    cast_values(halves[h], bits, COMPUTE_F32, wide, 65536);
    cast_values(COMPUTE_F32, wide, halves[h], back, 65536);
    for (int i = 0; i < 65536; i++) {
      const double expected = test_values_get(&exact, i);
      if (isnan(expected)) {
        assert_true(isnan(wide[i]));
      } else {
        assert_true((double)wide[i] == expected);
        assert_int_equal(back[i], bits[i]);
      }
    }
  }
}

/* Half way between two f16 (or bf16) numbers, the even one wins. A f64 just beside the half-way
 * point goes to the nearer number, although rounding to f32 first would move it onto the tie. */
static void narrowing_rounds_once_to_nearest_even(void **state) {
  (void)state;
  static const double source[] = {1 + 0x1p-11, 1 + 3 * 0x1p-11, 1 + 0x1p-11 + 0x1p-40,
                                  65519.99,    65520,           0x1p-25,
                                  0x1.8p-25,   -0x1p-26};
  static const uint16_t expected[] = {0x3c00, 0x3c02, 0x3c01, 0x7bff,
                                      0x7c00, 0x0000, 0x0001, 0x8000};
  uint16_t result[8];
  cast_values(COMPUTE_F64, source, COMPUTE_F16, result, 8);
  for (int i = 0; i < 8; i++) {
    if (result[i] != expected[i])
      fail_msg("f64 %a to f16: got %04x, expected %04x", source[i], (unsigned)result[i],
               (unsigned)expected[i]);
  }
  static const double more[] = {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-40};
  static const uint16_t more_expected[] = {0x3f80, 0x3f82, 0x3f81};
  cast_values(COMPUTE_F64, more, COMPUTE_BF16, result, 3);
  for (int i = 0; i < 3; i++) assert_int_equal(result[i], more_expected[i]);
}

/* Integers near the limits, which a double cannot represent. */
static void large_integers_convert_exactly(void **state) {
  (void)state;
  static const int64_t source[] = {
      INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1, -1, INT64_C(0x123456789abcdef0), 256, -129};
  int32_t narrow[7];
  cast_values(COMPUTE_I64, source, COMPUTE_I32, narrow, 7);
  static const int32_t wrapped[] = {-1, 0, 1, -1, (int32_t)0x9abcdef0, 256, -129};
  for (int i = 0; i < 7; i++) assert_int_equal(narrow[i], wrapped[i]);
  uint8_t bytes[7];
  cast_values(COMPUTE_I64, source, COMPUTE_U8, bytes, 7);
  static const uint8_t wrapped_bytes[] = {255, 0, 1, 255, 0xf0, 0, 127};
  for (int i = 0; i < 7; i++) assert_int_equal(bytes[i], wrapped_bytes[i]);
  uint16_t words[7];
  cast_values(COMPUTE_I64, source, COMPUTE_U16, words, 7);
  static const uint16_t wrapped_words[] = {65535, 0, 1, 65535, 0xdef0, 256, 65407};
  for (int i = 0; i < 7; i++) assert_int_equal(words[i], wrapped_words[i]);
  float single[7];
  cast_values(COMPUTE_I64, source, COMPUTE_F32, single, 7);
  for (int i = 0; i < 7; i++) assert_true(single[i] == (float)source[i]);
}

/* u64 and u32 to floats and back, compared with C's conversions. */
static void unsigned_numbers_of_all_sizes_convert(void **state) {
  (void)state;
  enum { COUNT = 128 };
  uint64_t source[COUNT];
  uint32_t small[COUNT];
  double f64[COUNT];
  float f32[COUNT];
  uint16_t bf16[COUNT];
  for (int i = 0; i < COUNT; i++) { /* around powers of two, and around the ties of f32 and f64 */
    const uint64_t power = UINT64_C(1) << (i / 2), tie = power >> 24 | power >> 53;
    source[i] = i % 2 ? power + tie + (i % 4 == 3) : power - 1;
    if (i >= 120) source[i] = UINT64_MAX - ((UINT64_C(1) << (i - 80)) >> (i % 3));
    small[i] = (uint32_t)(source[i] >> (i > 62 ? 32 : 0));
  }
  cast_values(COMPUTE_U64, source, COMPUTE_F64, f64, COUNT);
  cast_values(COMPUTE_U64, source, COMPUTE_F32, f32, COUNT);
  cast_values(COMPUTE_U64, source, COMPUTE_BF16, bf16, COUNT);
  for (int i = 0; i < COUNT; i++) {
    if (f64[i] != (double)source[i]) fail_msg("u64 %llx to f64", (unsigned long long)source[i]);
    if (f32[i] != (float)source[i]) fail_msg("u64 %llx to f32", (unsigned long long)source[i]);
    uint64_t kept = source[i]; /* nearest even of 8 bits */
    int shift = 0;
    for (; kept >> shift > 255; shift++) {
    }
    const uint64_t rest = kept - (kept >> shift << shift);
    const uint64_t half = shift ? UINT64_C(1) << (shift - 1) : 1, whole = kept >> shift;
    const bool up = shift && (rest > half || (rest == half && whole & 1));
    const float expected = ldexpf((float)(whole + up), shift);
    uint32_t bits;
    memcpy(&bits, &expected, sizeof bits);
    if (bf16[i] != bits >> 16) fail_msg("u64 %llx to bf16", (unsigned long long)source[i]);
  }
  uint64_t back[COUNT];
  cast_values(COMPUTE_F64, f64, COMPUTE_U64, back, COUNT);
  for (int i = 0; i < COUNT; i++)
    assert_true(back[i] == (f64[i] >= 0x1p64 ? UINT64_MAX : (uint64_t)f64[i]));
  static const float edges[] = {NAN,     INFINITY, -INFINITY,      -1,
                                0x1p63f, 0x1p64f,  0x1.fffffep63f, 1.9f};
  static const uint64_t expected_edges[] = {
      0, UINT64_MAX, 0, 0, UINT64_C(1) << 63, UINT64_MAX, UINT64_C(0xffffff0000000000), 1};
  cast_values(COMPUTE_F32, edges, COMPUTE_U64, back, 8);
  for (int i = 0; i < 8; i++) assert_true(back[i] == expected_edges[i]);
  cast_values(COMPUTE_U32, small, COMPUTE_F32, f32, COUNT);
  cast_values(COMPUTE_U32, small, COMPUTE_F64, f64, COUNT);
  for (int i = 0; i < COUNT; i++) {
    assert_true(f32[i] == (float)small[i]);
    assert_true(f64[i] == (double)small[i]);
  }
}

/* Tensor copies convert in the same way. */
static void tensors_of_u64_are_copied_to_floats(void **state) {
  (void)state;
  static const uint64_t source[] = {0, 1, UINT64_MAX, (UINT64_C(1) << 63) + 1025,
                                    UINT64_C(1) << 63};
  compute_tensor *from = test_tensor(test_context, COMPUTE_U64, COMPUTE_SHAPE(5), source);
  compute_tensor *to = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(5), NULL);
  double f64[5];
  assert_ok(compute_tensor_copy(to, from));
  assert_ok(compute_tensor_read(to, f64, sizeof f64));
  for (int i = 0; i < 5; i++) assert_true(f64[i] == (double)source[i]);
  compute_tensor_release(from);
  compute_tensor_release(to);
}

/* Operations that depend on the order refuse u64 instead of computing with i64. */
static void u64_has_no_order(void **state) {
  (void)state;
  compute_node (*const refused[])(compute_graph *, compute_node, compute_node) = {
      compute_less, compute_greater_equal, compute_maximum,    compute_minimum,
      compute_div,  compute_mod,           compute_shift_right};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_node x = compute_input(graph, COMPUTE_U64, COMPUTE_SHAPE(3));
    assert_int_equal(refused[i](graph, x, x).id, 0);
    assert_int_equal(compute_graph_status(graph), COMPUTE_ERROR_DTYPE);
    assert_non_null(strstr(compute_error_message(test_context), "cast to i64"));
    compute_graph_release(graph);
  }
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_U64, COMPUTE_SHAPE(3));
  assert_int_equal(compute_sort(graph, x, 0, false).id, 0);
  compute_graph_clear_error(graph);
  assert_int_equal(compute_max(graph, x, COMPUTE_ALL_AXES, false).id, 0);
  compute_graph_clear_error(graph);
  assert_int_equal(compute_top_k(graph, x, 1, 0, false, NULL).id, 0);
  compute_graph_clear_error(graph);
  assert_int_equal(compute_clamp(graph, x, 0, 1).id, 0);
  compute_graph_clear_error(graph);
  assert_int_not_equal(compute_sum(graph, x, COMPUTE_ALL_AXES, false).id, 0);
  assert_int_not_equal(compute_shift_left(graph, x, x).id, 0);
  compute_graph_release(graph);
}

/* x → f16 → f32 → · 3 in one chain: the step through f16 rounds, whether it is stored or not. */
static compute_node build_narrow_chain(compute_graph *graph, const compute_node *operands,
                                       const void *user) {
  const compute_dtype *narrow = user;
  const compute_dtype dtype = compute_node_dtype(graph, operands[0]);
  compute_node y = compute_cast(graph, operands[0], *narrow);
  y = compute_cast(graph, y, dtype);
  return compute_mul(graph, y, compute_scalar(graph, dtype, 3));
}

static void a_cast_rounds_inside_a_chain_too(void **state) {
  (void)state;
  for (const compute_dtype *narrow = operation_dtypes("number"); *narrow; narrow++) {
    char name[64];
    snprintf(name, sizeof name, "3 * (cast to %s and back)", compute_dtype_name(*narrow));
    operation_case sample = {.name = name,
                             .build = build_narrow_chain,
                             .user = narrow,
                             .operand_count = 1,
                             .tolerance = {.ulp = 1}};
    sample.operand[0] =
        (operation_operand){COMPUTE_F32, SHAPE(1001), FILL_RANGE, -300, 300, LAYOUT_DENSE};
    operation_check(test_context, &sample);
    sample.operand[0].dtype = COMPUTE_F64;
    operation_check(test_context, &sample);
  }
  operation_finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_in_range_convert),
      cmocka_unit_test(values_out_of_range_saturate_or_wrap),
      cmocka_unit_test(strided_operands_and_results_convert),
      cmocka_unit_test(every_f16_survives_the_way_to_f32_and_back),
      cmocka_unit_test(narrowing_rounds_once_to_nearest_even),
      cmocka_unit_test(large_integers_convert_exactly),
      cmocka_unit_test(a_cast_rounds_inside_a_chain_too),
      cmocka_unit_test(unsigned_numbers_of_all_sizes_convert),
      cmocka_unit_test(tensors_of_u64_are_copied_to_floats),
      cmocka_unit_test(u64_has_no_order),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
