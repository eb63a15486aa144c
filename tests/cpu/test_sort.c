/* SPDX-License-Identifier: MIT */
/* SORT on the CPU matches the double reference, which sorts every row. */
#include "kernel_fixture.h"
#include "core/nest.h"

typedef struct sample {
  compute_dtype dtype;
  bool descending, values, positions;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK];
  int fill;
} sample;

enum { RANDOM, FEW_VALUES, RISING, FALLING, SPECIAL, FILLS };

static void fill(const sample *s, block *b, test_random *random) {
  static const double specials[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1};
  const bool is_float = dtype_is_float(s->dtype);
  block_fill(b, s->dtype == COMPUTE_U8 ? 0 : -100, 100, random);
  for (int64_t i = 0; i < b->elements; i++) {
    if (s->fill == FEW_VALUES) block_set(b, i, (double)test_random_integer(random, 0, 3));
    if (s->fill == RISING) block_set(b, i, (double)(i % 60000));
    if (s->fill == FALLING) block_set(b, i, -(double)(i % 60000));
    if (s->fill == SPECIAL && is_float && test_random_integer(random, 0, 2))
      block_set(b, i, specials[test_random_integer(random, 0, 7)]);
  }
}

static compute_kernel_descriptor describe(const sample *s, const compute_operand *in,
                                          const compute_operand *out) {
  static compute_sort_attributes attributes; /* for one descriptor at a time */
  attributes = (compute_sort_attributes){s->descending, s->values, s->positions};
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_SORT,
                                 .rank = s->rank,
                                 .input_count = 1,
                                 .output_count = (uint32_t)s->values + (uint32_t)s->positions,
                                 .inputs = in,
                                 .outputs = out,
                                 .attributes = &attributes,
                                 .attribute_bytes = sizeof attributes};
  memcpy(k.size, s->size, sizeof k.size);
  return k;
}

static void visit(fixture *f, const sample *s, test_random *random) {
  int64_t stride[COMPUTE_MAX_RANK];
  block output[2];
  compute_operand out[2];
  random_strides(s->rank, s->size, 0, random, stride);
  block input = block_create(s->dtype, s->rank, s->size, stride);
  fill(s, &input, random);
  const compute_operand in = operand_of(&input, s->rank);
  const int count = s->values + s->positions;
  for (int i = 0; i < count; i++) {
    random_strides(s->rank, s->size, 0, random, stride);
    output[i] =
        block_create(s->values && i == 0 ? s->dtype : COMPUTE_I64, s->rank, s->size, stride);
    out[i] = operand_of(&output[i], s->rank);
  }
  const compute_kernel_descriptor k = describe(s, &in, out);
  run_and_check(f, &cpu_sort_kind, &k, (block *[]){&input, &output[0], &output[1]},
                (allowed_error){.signs = true});
  for (int i = 0; i < count; i++) block_release(&output[i]);
  block_release(&input);
}

static void random_rows_are_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16,
                                         COMPUTE_I64, COMPUTE_I32, COMPUTE_U8,  COMPUTE_U16,
                                         COMPUTE_I8,  COMPUTE_I16, COMPUTE_U32};
  static const int64_t lengths[] = {0, 1, 2, 17, 256, 257, 1000, 6000};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 77};
    for (int i = 0; i < 256; i++) {
      const int outputs = (int)test_random_integer(&random, 1, 3);
      sample s = {.dtype = dtypes[i % 8],
                  .descending = test_random_integer(&random, 0, 1),
                  .values = outputs & 1,
                  .positions = outputs >> 1,
                  .rank = (int32_t)test_random_integer(&random, 1, 3),
                  .fill = (int)test_random_integer(&random, 0, FILLS - 1)};
      for (int32_t d = 0; d < s.rank; d++) s.size[d] = test_random_integer(&random, 1, 5);
      s.size[s.rank - 1] = lengths[test_random_integer(&random, 0, 7)];
      visit(&f, &s, &random);
    }
    fixture_close(&f);
  }
}

/* 4 threads with 3 parts leave a run without a partner. */
static void long_rows_are_right_with_any_number_of_threads(void **state) {
  static const int64_t lengths[] = {100003, 32768, 65537};
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_I64, COMPUTE_U8};
  (void)state;
  for (int32_t threads = 1; threads <= 7; threads += 3)
    for (int values = 0; values < FILLS; values++)
      for (int kind = 0; kind < 4; kind++) {
        fixture f;
        test_random random = {.state = 4};
        const sample s = {.dtype = dtypes[kind],
                          .descending = (kind + values) % 2,
                          .values = true,
                          .positions = kind != 3,
                          .rank = 2,
                          .size = {2, lengths[values % 3]},
                          .fill = values};
        assert_true(fixture_open(&f, threads, NULL));
        visit(&f, &s, &random);
        fixture_close(&f);
      }
}

static void nothing_is_stored_of_no_elements(void **state) {
  (void)state;
  fixture f;
  test_random random = {.state = 4};
  assert_true(fixture_open(&f, 2, NULL));
  const sample empty = {
      .dtype = COMPUTE_F32, .values = true, .positions = true, .rank = 2, .size = {3, 0}};
  const sample rows = {.dtype = COMPUTE_F32, .positions = true, .rank = 2, .size = {0, 7}};
  visit(&f, &empty, &random);
  visit(&f, &rows, &random);
  fixture_close(&f);
}

/* All bits of a NaN and the sign of a zero are kept. */
static void values_keep_their_bits(void **state) {
  (void)state;
  static const uint32_t given[] = {0xffc12345, 0x00000000, 0x80000000, 0x7f812345, 0xff800000,
                                   0x7f800000, 0x80000000, 0x00000000, 0x3f800000};
  static const uint32_t rising[] = {0xff800000, 0x00000000, 0x80000000, 0x80000000, 0x00000000,
                                    0x3f800000, 0x7f800000, 0xffc12345, 0x7f812345};
  static const uint32_t falling[] = {0x7f800000, 0x3f800000, 0x00000000, 0x80000000, 0x80000000,
                                     0x00000000, 0xff800000, 0xffc12345, 0x7f812345};
  for (int descending = 0; descending < 2; descending++) {
    fixture f;
    uint32_t result[9];
    assert_true(fixture_open(&f, 1, NULL));
    const sample s = {
        .dtype = COMPUTE_F32, .descending = descending, .values = true, .rank = 1, .size = {9}};
    const compute_operand operand = {COMPUTE_F32, {1}};
    const compute_kernel_descriptor k = describe(&s, &operand, &operand);
    cpu_kernel *kernel = NULL;
    assert_int_equal(cpu_kind_prepare(&cpu_sort_kind, f.device, &k, &kernel), COMPUTE_OK);
    assert_int_equal(kernel->run(kernel, (void *[]){(void *)given, result}), COMPUTE_OK);
    cpu_kernel_destroy(kernel);
    assert_memory_equal(result, descending ? falling : rising, sizeof result);
    fixture_close(&f);
  }
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  const int64_t size[] = {1, 70000}, stride[] = {70000, 1};
  const sample s = {.dtype = COMPUTE_F32, .positions = true, .rank = 2, .size = {1, 70000}};
  block input = block_create(COMPUTE_F32, 2, size, stride);
  block output = block_create(COMPUTE_I64, 2, size, stride);
  const compute_operand in = operand_of(&input, 2), out = operand_of(&output, 2);
  const compute_kernel_descriptor k = describe(&s, &in, &out);
  check_allocation_failures(&cpu_sort_kind, &k, (block *[]){&input, &output});
  block_release(&input);
  block_release(&output);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_rows_are_right),
      cmocka_unit_test(long_rows_are_right_with_any_number_of_threads),
      cmocka_unit_test(nothing_is_stored_of_no_elements),
      cmocka_unit_test(values_keep_their_bits),
      cmocka_unit_test(a_failing_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
