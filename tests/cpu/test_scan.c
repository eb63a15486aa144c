/* SPDX-License-Identifier: MIT */
/* SCAN (running sums, products, maxima, minima) on the CPU matches the double reference. */
#include "kernel_fixture.h"

typedef struct sample {
  compute_dtype input, accumulate, output;
  compute_combine combine;
  bool reverse, exclusive, special;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK];
} sample;

/* Extrema are exact; a product loses a rounding for each factor. */
static allowed_error allowed_of(const sample *s) {
  const double n = (double)s->size[s->rank - 1];
  if (s->combine >= COMPUTE_COMBINE_MAX) return (allowed_error){0};
  if (s->combine == COMPUTE_COMBINE_PROD) return (allowed_error){.relative = 4 * sqrt(n + 4) * n};
  return (allowed_error){.terms = 8, .by_count = true};
}

static compute_kernel_descriptor describe(const sample *s, const compute_operand *in,
                                          const compute_operand *out) {
  static compute_scan_attributes attributes; /* for one descriptor at a time */
  attributes = (compute_scan_attributes){
      .combine = s->combine, .reverse = s->reverse, .exclusive = s->exclusive};
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_SCAN,
                                 .rank = s->rank,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .inputs = in,
                                 .outputs = out,
                                 .accumulate = s->accumulate,
                                 .attributes = &attributes,
                                 .attribute_bytes = sizeof attributes};
  memcpy(k.size, s->size, sizeof k.size);
  return k;
}

static void fill(const sample *s, block *b, test_random *random) {
  const bool product = s->combine == COMPUTE_COMBINE_PROD;
  const bool whole = dtype_is_integer(s->input);
  /* Products of integers must fit a double. */
  block_fill(b, product ? whole ? 1 : 0.97 : -9, product ? whole ? 1.9 : 1.03 : 9, random);
  for (int64_t i = 0; s->special && i < b->elements; i++) {
    const int64_t kind = test_random_integer(random, 0, 499);
    if (kind < 2) block_set(b, i, kind ? NAN : -INFINITY);
  }
}

/* `bits` (may be NULL) gets a copy of the output. */
static void visit(fixture *f, const sample *s, const int64_t *in_stride, const int64_t *out_stride,
                  test_random *random, void *bits) {
  block input = block_create(s->input, s->rank, s->size, in_stride);
  block output = block_create(s->output, s->rank, s->size, out_stride);
  fill(s, &input, random);
  const compute_operand in = operand_of(&input, s->rank), out = operand_of(&output, s->rank);
  const compute_kernel_descriptor k = describe(s, &in, &out);
  run_and_check(f, &cpu_scan_kind, &k, (block *[]){&input, &output}, allowed_of(s));
  if (bits) memcpy(bits, block_data(&output), (size_t)output.elements * cpu_dtype_size(s->output));
  block_release(&input);
  block_release(&output);
}

static sample random_sample(test_random *random) {
  static const compute_dtype dtypes[] = {COMPUTE_F32,  COMPUTE_F32, COMPUTE_F64, COMPUTE_F16,
                                         COMPUTE_BF16, COMPUTE_I64, COMPUTE_I32, COMPUTE_U8};
  sample s = {.input = dtypes[test_random_integer(random, 0, 7)],
              .combine = (compute_combine)test_random_integer(random, 0, 3),
              .reverse = test_random_integer(random, 0, 1),
              .exclusive = test_random_integer(random, 0, 1),
              .rank = (int32_t)test_random_integer(random, 1, 3)};
  s.accumulate = dtype_compute_type(s.input);
  s.output = test_random_integer(random, 0, 1) ? s.accumulate : s.input;
  if (s.input == COMPUTE_U8) s.output = s.accumulate;
  s.special = s.combine >= COMPUTE_COMBINE_MAX && dtype_is_float(s.input) &&
              test_random_integer(random, 0, 1);
  for (int32_t d = 0; d < s.rank; d++)
    s.size[d] = test_random_integer(random, 1, test_random_integer(random, 0, 2) ? 9 : 40);
  if (test_random_integer(random, 0, 2) == 0)
    s.size[s.rank - 1] = test_random_integer(random, 1, 3000);
  return s;
}

static void random_scans_are_right(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 3, *isa)) continue;
    test_random random = {.state = 3};
    for (int i = 0; i < 400; i++) {
      const sample s = random_sample(&random);
      int64_t in[COMPUTE_MAX_RANK], out[COMPUTE_MAX_RANK];
      const uint32_t repeat = (uint32_t)test_random_integer(&random, 0, 20);
      random_strides(s.rank, s.size, repeat < 4 ? repeat : 0, &random, in);
      random_strides(s.rank, s.size, 0, &random, out);
      visit(&f, &s, in, out, &random, NULL);
    }
    fixture_close(&f);
  }
}

/* Whole short rows, and stacks of few neighbouring rows, each with and without gaps, in both
 * directions. The number of stacks and threads changes no bit. */
static void short_rows_and_stacks_are_right(void **state) {
  static const compute_dtype types[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_I32, COMPUTE_I64};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int64_t width = 1; width <= 20; width++)
      for (int kind = 0; kind < 16; kind++) {
        if (!test_in_turn((size_t)(width + kind))) continue;
        float bits[2][4096] = {{0}};
        sample s = {.input = types[(width + kind / 4) % 4],
                    .combine = (compute_combine)(kind % 4),
                    .reverse = kind & 4,
                    .exclusive = kind & 8,
                    .rank = 3,
                    .size = {37, width, 1 + (width * 7 + kind) % 19}};
        s.accumulate = s.output = s.input;
        const bool across = (width + kind) % 3;
        const int64_t stack = width * s.size[2] + kind % 2, n = s.size[2];
        const int64_t stride[3] = {stack, across ? 1 : n, across ? width : 1};
        for (int t = 0; t < 2; t++) {
          fixture f;
          test_random random = {.state = 8};
          if (!fixture_open(&f, t ? 3 : 1, *isa)) continue;
          s.size[0] = t ? 5 : 37;
          const bool kept = s.input == COMPUTE_F32 && 37 * stack <= 4096;
          visit(&f, &s, stride, stride, &random, kept ? bits[t] : NULL);
          fixture_close(&f);
        }
        for (int64_t at = 0; at < 5 * stack - kind % 2; at++)
          if (at % stack < stack - kind % 2 && at < 4096 && memcmp(&bits[0][at], &bits[1][at], 4))
            fail_msg("%s: width %d, kind %d: another result for fewer stacks", *isa, (int)width,
                     kind);
      }
}

/* Long rows, few and many, contiguous and strided. */
static const int64_t long_sizes[][3] = {{1, 1, 200001}, {1, 3, 70000}, {2, 40, 3000},
                                        {1, 17, 20000}, {5000, 1, 7},  {1, 700, 1025}};

static sample long_sample(size_t i, int kind) {
  sample s = {.input = COMPUTE_F32,
              .accumulate = COMPUTE_F32,
              .output = COMPUTE_F32,
              .combine = kind & 8 ? COMPUTE_COMBINE_MAX : COMPUTE_COMBINE_SUM,
              .reverse = kind & 1,
              .exclusive = kind & 2,
              .rank = 3};
  memcpy(s.size, long_sizes[i], sizeof long_sizes[i]);
  return s;
}

static void set_strides(const sample *s, bool across, int64_t stride[3]) {
  stride[2] = across ? s->size[1] : 1;
  stride[1] = across ? 1 : s->size[2];
  stride[0] = s->size[1] * s->size[2];
}

static void long_rows_are_right_and_threads_change_no_bit(void **state) {
  enum { BYTES = 1 << 22 };
  unsigned char *bits[2] = {calloc(BYTES, 1), calloc(BYTES, 1)};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (size_t i = 0; i < sizeof long_sizes / sizeof *long_sizes; i++)
      for (int kind = 0; kind < 16; kind++) {
        if (!test_in_turn(i + (size_t)kind)) continue;
        const sample s = long_sample(i, kind);
        int64_t stride[3];
        set_strides(&s, kind & 4, stride);
        for (int t = 0; t < 2; t++) {
          fixture f;
          test_random random = {.state = 8};
          if (!fixture_open(&f, t ? 5 : 1, *isa)) continue;
          if (t) f.device->share_bytes = 64; /* results bypass the caches */
          visit(&f, &s, stride, stride, &random, bits[t]);
          fixture_close(&f);
        }
        assert_memory_equal(bits[0], bits[1], BYTES);
      }
  free(bits[0]);
  free(bits[1]);
}

static void no_elements_store_nothing(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  test_random random = {.state = 1};
  for (int d = 0; d < 3; d++) {
    sample s = long_sample(2, 2);
    int64_t stride[3];
    set_strides(&s, false, stride);
    s.size[d] = 0;
    visit(&f, &s, stride, stride, &random, NULL);
  }
  fixture_close(&f);
}

static void integers_wrap(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  const int64_t n = 3000, stride = 1;
  const sample s = {.input = COMPUTE_I32,
                    .accumulate = COMPUTE_I32,
                    .output = COMPUTE_I32,
                    .combine = COMPUTE_COMBINE_SUM,
                    .rank = 1,
                    .size = {n}};
  block input = block_create(COMPUTE_I32, 1, &n, &stride);
  block output = block_create(COMPUTE_I32, 1, &n, &stride);
  for (int64_t i = 0; i < n; i++) block_set(&input, i, INT32_MAX - (double)i);
  const compute_operand in = operand_of(&input, 1), out = operand_of(&output, 1);
  const compute_kernel_descriptor k = describe(&s, &in, &out);
  assert_int_equal(run_kernel(&f, &cpu_scan_kind, &k, (block *[]){&input, &output}), COMPUTE_OK);
  uint32_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += (uint32_t)(INT32_MAX - i);
    assert_int_equal((int32_t)sum, (int32_t)block_get(&output, i));
  }
  block_release(&input);
  block_release(&output);
  fixture_close(&f);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  const sample s = long_sample(0, 0);
  int64_t stride[3];
  set_strides(&s, false, stride);
  block input = block_create(s.input, 3, s.size, stride);
  block output = block_create(s.output, 3, s.size, stride);
  const compute_operand in = operand_of(&input, 3), out = operand_of(&output, 3);
  const compute_kernel_descriptor k = describe(&s, &in, &out);
  check_allocation_failures(&cpu_scan_kind, &k, (block *[]){&input, &output});
  block_release(&input);
  block_release(&output);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_scans_are_right),
      cmocka_unit_test(short_rows_and_stacks_are_right),
      cmocka_unit_test(long_rows_are_right_and_threads_change_no_bit),
      cmocka_unit_test(no_elements_store_nothing),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(a_failing_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
