/* SPDX-License-Identifier: MIT */
/* Classes of kernels: their text is part of a file format and must not change. */
#include "codegen/tune/problems/problem.h"
#include "core/kernel/common/program.h"
#include "support/samples/attributes.h"
#include "tune_fixture.h"

static const char *class_of(const compute_kernel_descriptor *descriptor) {
  static char text[KERNEL_CLASS_BYTES];
  return kernel_class_print(descriptor, text);
}

static void classes_are_written_by_their_grammar(void **state) {
  (void)state;
  static const struct {
    const char *name, *expected;
  } cases[] = {
      {"map add f32 1024x1024", "map/f32>f32/in2.dense/n20"},
      {"map gelu f32 16x1024", "map/f32>f32/in1.dense/n14"},
      {"map bias f16 4096x1024", "map/f16>f16/in2.broadcast/n22"},
      {"copy transpose f32 512x512", "copy/f32>f32/transpose/n18"},
      {"copy strided f32 2048x2048", "copy/f32>f32/strided/n22"},
      {"copy convert f16 4096x1024", "copy/f32>f16/dense/n22"},
      {"reduce rows f32 4096x1024", "reduce/f32>f32>f32/inner/k12r10"},
      {"reduce columns f32 4096x1024", "reduce/f32>f32>f32/outer/k10r12"},
      {"reduce all f32 64x1024", "reduce/f32>f32>f32/full/k0r16"},
      {"reduce argmax f32 4096x1024", "reduce/f32>f32>i64/inner.position/k12r10"},
      {"row softmax f32 65536x64", "row/f32>f32>f32/softmax/r16n6"},
      {"row normalize f32 4096x1024", "row/f32>f32>f32/normalize/r12n10"},
      {"gemm f32 32x1024x1024", "gemm/f32>f32>f32/nn.single/b0m5n10k10"},
      {"gemm f16 1024x1024x1024", "gemm/f16>f32>f16/nn.single/b0m10n10k10"},
      {"gemm f32 32x128x128x128", "gemm/f32>f32>f32/nn.batch/b5m7n7k7"},
      {"gemm f64 512x512x512", "gemm/f64>f64>f64/nn.single/b0m9n9k9"},
      {"conv 3x3 f32 8x64x64x56", "conv/f32>f32>f32/forward/b3c6o6p12"},
      {"conv winograd f32 8x64x64x56", "conv/f32>f32>f32/forward.winograd/b3c6o6p12"},
  };
  static tune_problem problem;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool found = false;
    for (size_t row = 0; !found && problem_build(row, &problem); row++)
      found = !strcmp(problem.name, cases[i].name);
    if (!found) fail_msg("the suite has no '%s'", cases[i].name);
    assert_string_equal(class_of(&problem.descriptor), cases[i].expected);
    assert_true(kernel_class_valid(cases[i].expected, strlen(cases[i].expected)));
  }
}

/* The layout of the factors, also with missing rows or columns, and with no contiguous axis. */
static void matrix_layouts_have_letters(void **state) {
  (void)state;
  static const struct {
    int64_t a_row, a_column, b_row, b_column, m, n, k;
    const char *expected;
  } cases[] = {
      {64, 1, 64, 1, 64, 64, 64, "nn.single/b0m6n6k6"},
      {1, 64, 64, 1, 64, 64, 64, "tn.single/b0m6n6k6"},
      {64, 1, 1, 64, 64, 64, 64, "nt.single/b0m6n6k6"},
      {1, 64, 1, 64, 64, 64, 64, "tt.single/b0m6n6k6"},
      {128, 2, 3, 192, 64, 64, 64, "xx.single/b0m6n6k6"},
      {1, 64, 64, 1, 1, 64, 1, "nn.single/b0m0n6k0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const compute_operand inputs[] = {
        {COMPUTE_F32, {cases[i].a_row, cases[i].a_column}},
        {COMPUTE_F32, {cases[i].b_row, cases[i].b_column}},
    };
    const compute_operand output = {COMPUTE_F32, {cases[i].n, 1}};
    const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                         .kind = COMPUTE_KERNEL_GEMM,
                                         .rank = 2,
                                         .size = {cases[i].m, cases[i].n},
                                         .input_count = 2,
                                         .output_count = 1,
                                         .inputs = inputs,
                                         .outputs = &output,
                                         .accumulate = COMPUTE_F32,
                                         .attributes = &(compute_gemm_attributes){.k = cases[i].k}};
    const char *text = class_of(&d);
    assert_string_equal(text + strlen("gemm/f32>f32>f32/"), cases[i].expected);
  }
}

static void pooling_scans_top_k_and_attention_have_classes(void **state) {
  (void)state;
  const compute_operand inputs[] = {{COMPUTE_F32, {16, 1}},
                                    {COMPUTE_F32, {16, 1}},
                                    {COMPUTE_F32, {16, 1}},
                                    {COMPUTE_F32, {16, 1}}};
  const compute_operand outputs[] = {{COMPUTE_F32, {16, 1}}, {COMPUTE_I64, {16, 1}}};
  compute_window_attributes window = {.size = {3, 3}, .by_data = true};
  const compute_scan_attributes scan = {.combine = COMPUTE_COMBINE_SUM};
  const compute_top_k_attributes top_k = {.axis_size = 1000};
  compute_attention_attributes attention = {.keys = 256, .width = 64, .causal = true};
  compute_kernel_descriptor d = {.struct_size = sizeof d,
                                 .kind = COMPUTE_KERNEL_WINDOW,
                                 .rank = 4,
                                 .size = {8, 64, 28, 28},
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .accumulate = COMPUTE_F32,
                                 .attributes = &window};
  assert_string_equal(class_of(&d), "window/f32>f32>f32/max.data/b9p10w3");
  window.by_data = false;
  window.operation = COMPUTE_WINDOW_AVERAGE;
  assert_string_equal(class_of(&d), "window/f32>f32>f32/average/b9p10w3");
  window.operation = COMPUTE_WINDOW_ARGMAX;
  d.outputs = &outputs[1];
  assert_string_equal(class_of(&d), "window/f32>f32>i64/argmax/b9p10w3");
  d.outputs = outputs;
  d.kind = COMPUTE_KERNEL_SCAN;
  d.attributes = &scan;
  d.rank = 2;
  assert_string_equal(class_of(&d), "scan/f32>f32>f32/along/r3n6");
  d.kind = COMPUTE_KERNEL_TOP_K;
  d.attributes = &top_k;
  d.outputs = &outputs[1];
  assert_string_equal(class_of(&d), "top_k/f32>i64/axis/r3n10k6");
  d.kind = COMPUTE_KERNEL_SORT;
  d.attributes = &(compute_sort_attributes){.positions = true};
  assert_string_equal(class_of(&d), "sort/f32>i64/axis/r3n6");
  d.kind = COMPUTE_KERNEL_ATTENTION;
  d.attributes = &attention;
  d.rank = 3;
  d.size[2] = 32;
  d.outputs = outputs;
  assert_string_equal(class_of(&d), "attention/f32>f32>f32/causal/b3m6k8w6e5");
  attention.biased = true;
  const char *text = class_of(&d);
  assert_string_equal(text, "attention/f32>f32>f32/causal.biased/b3m6k8w6e5");
  assert_true(kernel_class_valid(text, strlen(text)));
  d.kind = COMPUTE_KERNEL_RECURRENT;
  d.attributes = &(compute_recurrent_attributes){.cell = COMPUTE_RECURRENT_GRU};
  d.size[0] = 101;
  text = class_of(&d);
  assert_string_equal(text, "recurrent/f32>f32>f32/gru/t7b6h5");
  assert_true(kernel_class_valid(text, strlen(text)));
  d.kind = COMPUTE_KERNEL_QUANTIZED_GEMM;
  d.attributes =
      &(compute_quantized_gemm_attributes){.k = 1000, .block = 32, .bits = 4, .zeros = true};
  text = class_of(&d);
  assert_string_equal(text, "quantized_gemm/f32>f32>f32/4x5.zeros/b7m6n5k10");
  assert_true(kernel_class_valid(text, strlen(text)));
}

/* The permission is part of a class only if it has an effect. */
static void convolutions_name_winograd_only_where_it_makes_a_difference(void **state) {
  (void)state;
  static tune_problem problem;
  bool found = false;
  for (size_t row = 0; !found && problem_build(row, &problem); row++)
    found = !strcmp(problem.name, "conv winograd f32 8x64x64x56");
  assert_true(found);
  compute_conv_attributes c = *compute_conv_of(&problem.descriptor);
  problem.descriptor.attributes = &c;
  c.direction = COMPUTE_CONVOLUTION_BY_FILTER;
  assert_non_null(strstr(class_of(&problem.descriptor), "/filter.winograd/"));
  c.dilation[0] = 2;
  assert_non_null(strstr(class_of(&problem.descriptor), "/filter/"));
  c.dilation[0] = 1;
  c.precision = COMPUTE_PRECISION_TF32;
  assert_non_null(strstr(class_of(&problem.descriptor), "/filter/"));
}

static void several_dtypes_stand_once_each_in_a_fixed_order(void **state) {
  (void)state;
  const compute_operand inputs[] = {
      {COMPUTE_BOOL, {1}}, {COMPUTE_F32, {1}}, {COMPUTE_F16, {0}}, {COMPUTE_F32, {1}}};
  const compute_operand output = {COMPUTE_F16, {1}};
  compute_kernel_descriptor d = {.struct_size = sizeof d,
                                 .kind = COMPUTE_KERNEL_MAP,
                                 .rank = 1,
                                 .size = {1000},
                                 .input_count = 4,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &output};
  assert_string_equal(class_of(&d), "map/f32+f16+bool>f16/inmany.broadcast/n10");
  d.input_count = 0;
  assert_string_equal(class_of(&d), "map/none>f16/in0.dense/n10");
}

/* The largest possible descriptor. */
static void the_longest_class_fits_its_text(void **state) {
  (void)state;
  compute_operand inputs[8];
  for (int i = 0; i < 8; i++) inputs[i] = (compute_operand){(compute_dtype)(i + 1), {1}};
  for (int kind = 0; kind <= COMPUTE_KERNEL_COPY; kind++) {
    any_attributes attributes = {0};
    if (kind == COMPUTE_KERNEL_GEMM) attributes.gemm.k = INT64_MAX;
    const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                         .kind = (compute_kernel_kind)kind,
                                         .rank = 2,
                                         .size = {INT64_MAX, 1},
                                         .input_count = 8,
                                         .output_count = 8,
                                         .inputs = inputs,
                                         .outputs = inputs,
                                         .prologue_inputs = 8,
                                         .accumulate = COMPUTE_F64,
                                         .attributes = &attributes};
    const char *text = class_of(&d);
    assert_true(kernel_class_valid(text, strlen(text)));
    assert_non_null(strstr(text, "63"));
  }
}

static void sizes_are_rounded_to_the_nearest_power_of_two(void **state) {
  (void)state;
  static const struct {
    int64_t count;
    const char *bucket;
  } cases[] = {{0, "/n0"},           {1, "/n0"},           {2, "/n1"},
               {3, "/n2"},           {5, "/n2"},           {6, "/n3"},
               {724, "/n9"},         {725, "/n10"},        {1000, "/n10"},
               {1024, "/n10"},       {1448, "/n10"},       {1449, "/n11"},
               {3037000499, "/n31"}, {3037000500, "/n32"}, {INT64_C(1) << 40, "/n40"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_map map;
    const char *text = class_of(fixture_descriptor(&map, cases[i].count));
    assert_string_equal(strrchr(text, '/'), cases[i].bucket);
  }
}

static void only_classes_and_their_beginnings_are_valid(void **state) {
  (void)state;
  static const char *const good[] = {"map", "gemm/f32>f32>f32", "gemm/f32>f32>f32/nn.single",
                                     "reduce/f32>f32>f32/full/k0r16"};
  static const char *const bad[] = {"",          "ma",          "maps",      "map/",     "/map",
                                    "map//n3",   "map/a/b/c/d", "map/F32",   "map/f 32", "map;copy",
                                    "map/f32\n", "=",           "gemm/f32=1"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_true(kernel_class_valid(good[i], strlen(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (kernel_class_valid(bad[i], strlen(bad[i]))) fail_msg("'%s' is valid", bad[i]);
  char long_text[KERNEL_CLASS_BYTES + 8] = "map/";
  memset(long_text + 4, 'a', KERNEL_CLASS_BYTES - 4);
  assert_false(kernel_class_valid(long_text, KERNEL_CLASS_BYTES));
}

static void the_nearest_size_fits_best_up_to_a_reach(void **state) {
  (void)state;
  const char wanted[] = "gemm/f32>f32>f32/nn.single/b0m10n10k10";
  assert_int_equal(kernel_class_fit(wanted, wanted), 0);
  assert_int_equal(kernel_class_fit("gemm/f32>f32>f32/nn.single/b0m10n11k10", wanted), 1);
  assert_int_equal(kernel_class_fit("gemm/f32>f32>f32/nn.single/b0m13n8k9", wanted), 6);
  static const char *const apart[] = {"gemm/f32>f32>f32/nn.single/b0m14n10k10",
                                      "gemm/f32>f32>f32/nt.single/b0m10n10k10",
                                      "gemm/f16>f32>f16/nn.single/b0m10n10k10",
                                      "gemm/f32>f32>f32/nn.batch/b0m10n10k10",
                                      "gemm/f32>f32>f32/nn.single/b0m10n10",
                                      "gemm/f32>f32>f32/nn.single/b0m10n10k10k1",
                                      "gemm/f32>f32>f32/nn.single/b0n10m10k10",
                                      "gemm/f32>f32>f32/nn.sing",
                                      "gem",
                                      "map"};
  for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
    if (kernel_class_fit(apart[i], wanted) != KERNEL_CLASS_APART)
      fail_msg("'%s' fits '%s'", apart[i], wanted);
}

static void a_longer_beginning_fits_better_and_any_size_better_still(void **state) {
  (void)state;
  const char wanted[] = "gemm/f32>f32>f32/nn.single/b0m10n10k10";
  const int kind = kernel_class_fit("gemm", wanted);
  const int types = kernel_class_fit("gemm/f32>f32>f32", wanted);
  const int pattern = kernel_class_fit("gemm/f32>f32>f32/nn.single", wanted);
  const int far = kernel_class_fit("gemm/f32>f32>f32/nn.single/b3m7n7k7", wanted);
  assert_true(far != KERNEL_CLASS_APART);
  assert_true(far < pattern && pattern < types && types < kind);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes_are_written_by_their_grammar),
      cmocka_unit_test(matrix_layouts_have_letters),
      cmocka_unit_test(pooling_scans_top_k_and_attention_have_classes),
      cmocka_unit_test(convolutions_name_winograd_only_where_it_makes_a_difference),
      cmocka_unit_test(several_dtypes_stand_once_each_in_a_fixed_order),
      cmocka_unit_test(the_longest_class_fits_its_text),
      cmocka_unit_test(sizes_are_rounded_to_the_nearest_power_of_two),
      cmocka_unit_test(only_classes_and_their_beginnings_are_valid),
      cmocka_unit_test(the_nearest_size_fits_best_up_to_a_reach),
      cmocka_unit_test(a_longer_beginning_fits_better_and_any_size_better_still),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
