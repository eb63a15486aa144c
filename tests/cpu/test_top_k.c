/* SPDX-License-Identifier: MIT */
/* TOP_K on the CPU matches the double reference, which sorts every row. */
#include "kernel_fixture.h"
#include "core/nest.h"

typedef struct sample {
  compute_dtype dtype;
  bool smallest;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK]; /* the last size is k */
  int64_t length;
  int values; /* contents of the rows */
} sample;

enum { RANDOM, FEW_VALUES, RISING, FALLING, SPECIAL, FILLS };

static void fill(const sample *s, block *b, test_random *random) {
  static const double specials[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1};
  const bool is_float = dtype_is_float(s->dtype);
  block_fill(b, s->dtype == COMPUTE_U8 ? 0 : -100, 100, random);
  for (int64_t i = 0; i < b->elements; i++) {
    if (s->values == FEW_VALUES) block_set(b, i, (double)test_random_integer(random, 0, 3));
    if (s->values == RISING) block_set(b, i, (double)(i % 60000));
    if (s->values == FALLING) block_set(b, i, -(double)(i % 60000));
    if (s->values == SPECIAL && is_float && test_random_integer(random, 0, 2))
      block_set(b, i, specials[test_random_integer(random, 0, 7)]);
  }
}

static compute_kernel_descriptor describe(const sample *s, const compute_operand *in,
                                          const compute_operand *out) {
  static compute_top_k_attributes attributes; /* for one descriptor at a time */
  attributes = (compute_top_k_attributes){.axis_size = s->length, .smallest = s->smallest};
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_TOP_K,
                                 .rank = s->rank,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = in,
                                 .outputs = out,
                                 .attributes = &attributes,
                                 .attribute_bytes = sizeof attributes};
  memcpy(k.size, s->size, sizeof k.size);
  return k;
}

static void visit(fixture *f, const sample *s, test_random *random) {
  int64_t rows[COMPUTE_MAX_RANK], in_stride[COMPUTE_MAX_RANK], out_stride[COMPUTE_MAX_RANK];
  memcpy(rows, s->size, sizeof rows);
  rows[s->rank - 1] = s->length;
  random_strides(s->rank, rows, 0, random, in_stride);
  random_strides(s->rank, s->size, 0, random, out_stride);
  block input = block_create(s->dtype, s->rank, rows, in_stride);
  block output = block_create(COMPUTE_I64, s->rank, s->size, out_stride);
  fill(s, &input, random);
  const compute_operand in = operand_of(&input, s->rank), out = operand_of(&output, s->rank);
  const compute_kernel_descriptor k = describe(s, &in, &out);
  run_and_check(f, &cpu_top_k_kind, &k, (block *[]){&input, &output}, (allowed_error){0});
  block_release(&input);
  block_release(&output);
}

static void random_rows_are_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16,
                                         COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,  COMPUTE_U16,
                                         COMPUTE_I8,  COMPUTE_I16, COMPUTE_U32};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 77};
    for (int i = 0; i < 240; i++) {
      sample s = {.dtype = dtypes[i % 8],
                  .smallest = test_random_integer(&random, 0, 1),
                  .rank = (int32_t)test_random_integer(&random, 1, 3),
                  .values = (int)test_random_integer(&random, 0, FILLS - 1)};
      for (int32_t d = 0; d < s.rank; d++) s.size[d] = test_random_integer(&random, 1, 5);
      s.length = test_random_integer(&random, 1, test_random_integer(&random, 0, 1) ? 50 : 6000);
      s.size[s.rank - 1] = test_random_integer(&random, 1, s.length);
      if (i % 3 == 0) s.size[s.rank - 1] = cpu_min(s.length, 5);
      visit(&f, &s, &random);
    }
    fixture_close(&f);
  }
}

static void long_rows_are_right_with_any_number_of_threads(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 4; threads += 3)
    for (int values = 0; values < FILLS; values++)
      for (int kind = 0; kind < 6; kind++) {
        static const int64_t counts[] = {1, 10, 3000};
        fixture f;
        test_random random = {.state = 4};
        const sample s = {.dtype = kind % 2 ? COMPUTE_F64 : COMPUTE_F32,
                          .smallest = kind % 2,
                          .rank = 2,
                          .size = {2, counts[kind / 2]},
                          .length = 150000,
                          .values = values};
        assert_true(fixture_open(&f, threads, NULL));
        visit(&f, &s, &random);
        fixture_close(&f);
      }
}

/* Rows of all kinds of memory order, also the last group with few rows. */
static void short_rows_are_right_with_any_number_of_threads(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_I64,
                                         COMPUTE_I32, COMPUTE_U8,  COMPUTE_BF16};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int32_t threads = 1; threads <= 3; threads += 2) {
      fixture f;
      if (!fixture_open(&f, threads, *isa)) continue;
      test_random random = {.state = 78};
      for (int i = 0; i < 140; i++) {
        sample s = {.dtype = dtypes[i % 7],
                    .smallest = test_random_integer(&random, 0, 1),
                    .rank = 3,
                    .values = (int)test_random_integer(&random, 0, FILLS - 1),
                    .length = test_random_integer(&random, 1, i % 5 ? 150 : 9)};
        s.size[0] = test_random_integer(&random, 1, 5);
        s.size[1] = test_random_integer(&random, 7, 70);
        s.size[2] = test_random_integer(&random, 1, cpu_min(s.length, i % 2 ? 40 : 4));
        visit(&f, &s, &random);
      }
      fixture_close(&f);
    }
}

/* The kernel of `rows` rows of `length` elements, which lie side by side if `columns` is true. */
static void assert_grouped(int64_t rows, int64_t length, int64_t k, bool columns, bool grouped) {
  const int64_t lines[] = {rows, length}, size[] = {rows, k};
  const int64_t in_stride[] = {columns ? 1 : length, columns ? rows : 1};
  const int64_t stride[] = {columns ? 1 : k, columns ? rows : 1};
  const sample s = {.dtype = COMPUTE_F32, .rank = 2, .size = {rows, k}, .length = length};
  fixture f;
  cpu_kernel *kernel;
  assert_true(fixture_open(&f, 2, NULL));
  block input = block_create(COMPUTE_F32, 2, lines, in_stride);
  block output = block_create(COMPUTE_I64, 2, size, stride);
  const compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
  const compute_kernel_descriptor d = describe(&s, &in, &out);
  assert_int_equal(cpu_kind_prepare(&cpu_top_k_kind, f.device, &d, &kernel), COMPUTE_OK);
  assert_int_equal(strstr(kernel->description, "rows in groups") != NULL, grouped);
  cpu_kernel_destroy(kernel);
  block_release(&input);
  block_release(&output);
  fixture_close(&f);
}

/* Else a row of 4 elements takes 500 instructions. */
static void many_short_rows_and_columns_are_read_in_groups(void **state) {
  (void)state;
  assert_grouped(5000, 4, 2, false, true);
  assert_grouped(300, 30, 30, false, true);
  assert_grouped(5000, 7, 5, true, true);
  assert_grouped(300, 4000, 3, true, true);
  assert_grouped(3, 4000, 3, false, false);
  assert_grouped(300, 4000, 100, false, false);
}

static void no_results_store_nothing(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 4};
  assert_true(fixture_open(&f, 2, NULL));
  const sample none = {.dtype = COMPUTE_F32, .rank = 2, .size = {3, 0}, .length = 7};
  const sample empty = {.dtype = COMPUTE_F32, .rank = 2, .size = {3, 0}, .length = 0};
  const sample rows = {.dtype = COMPUTE_F32, .rank = 2, .size = {0, 2}, .length = 7};
  visit(&f, &none, &random);
  visit(&f, &empty, &random);
  visit(&f, &rows, &random);
  fixture_close(&f);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  const int64_t size[] = {1, 5}, rows[] = {1, 70000}, in_stride[] = {70000, 1}, stride[] = {5, 1};
  const sample s = {.dtype = COMPUTE_F32, .rank = 2, .size = {1, 5}, .length = 70000};
  block input = block_create(COMPUTE_F32, 2, rows, in_stride);
  block output = block_create(COMPUTE_I64, 2, size, stride);
  const compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
  const compute_kernel_descriptor k = describe(&s, &in, &out);
  check_allocation_failures(&cpu_top_k_kind, &k, (block *[]){&input, &output});
  block_release(&input);
  block_release(&output);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_rows_are_right),
      cmocka_unit_test(long_rows_are_right_with_any_number_of_threads),
      cmocka_unit_test(short_rows_are_right_with_any_number_of_threads),
      cmocka_unit_test(many_short_rows_and_columns_are_read_in_groups),
      cmocka_unit_test(no_results_store_nothing),
      cmocka_unit_test(a_failing_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
