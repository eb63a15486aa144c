/* SPDX-License-Identifier: MIT */
/* BINCOUNT on the CPU: counts and sums by their definition, the same bits for any number of
 * threads, exact sums of long rows, and values outside the bins. */
#include "kernel_fixture.h"
#include "core/nest.h"

typedef struct sample {
  int64_t rows, length, bins;
  compute_dtype values, weights; /* NONE: counts */
} sample;

static const sample samples[] = {
    {1, 1, 1, COMPUTE_I32, COMPUTE_DTYPE_NONE}, {4, 0, 3, COMPUTE_I32, COMPUTE_DTYPE_NONE},
    {4, 0, 3, COMPUTE_I64, COMPUTE_F16},        {0, 9, 3, COMPUTE_I64, COMPUTE_F32},
    {9, 9, 0, COMPUTE_I64, COMPUTE_F32},        {9, 1000, 33, COMPUTE_I32, COMPUTE_DTYPE_NONE},
    {9, 1000, 33, COMPUTE_I64, COMPUTE_F32},    {3, 5000, 2000, COMPUTE_I64, COMPUTE_F16},
    {300, 100, 7, COMPUTE_I32, COMPUTE_BF16},   {1, 300000, 10, COMPUTE_I32, COMPUTE_DTYPE_NONE},
    {1, 300000, 10, COMPUTE_I64, COMPUTE_F32},  {2, 200001, 1500, COMPUTE_I64, COMPUTE_F64},
    {5, 150000, 100, COMPUTE_I32, COMPUTE_F16},
};

typedef struct operands {
  block in[2], out;
  compute_operand inputs[2], output;
  compute_bincount_attributes attributes;
  compute_kernel_descriptor d;
} operands;

/* Rows of values have gaps between the elements where `apart` is above 1. */
static void create(operands *o, const sample *s, int64_t apart, test_random *random) {
  const bool weighted = s->weights != COMPUTE_DTYPE_NONE;
  const int64_t elements[] = {s->rows, s->length}, bins[] = {s->rows, s->bins};
  const int64_t strides[] = {s->length * apart + 1, apart}, result[] = {s->bins + 1, 1};
  *o = (operands){.attributes = {s->length}};
  o->in[0] = block_create(s->values, 2, elements, strides);
  o->out = block_create(weighted ? s->weights : COMPUTE_I64, 2, bins, result);
  for (int64_t i = 0; i < o->in[0].elements; i++)
    block_set(&o->in[0], i, (double)test_random_integer(random, 0, s->bins > 0 ? s->bins - 1 : 0));
  o->inputs[0] = (compute_operand){s->values, {strides[0], strides[1]}};
  o->output = (compute_operand){o->out.dtype, {result[0], result[1]}};
  if (weighted) {
    o->in[1] = block_create(s->weights, 2, elements, strides);
    block_fill(&o->in[1], -4, 4, random);
    o->inputs[1] = (compute_operand){s->weights, {strides[0], strides[1]}};
  }
  o->d = (compute_kernel_descriptor){.struct_size = sizeof o->d,
                                     .kind = COMPUTE_KERNEL_BINCOUNT,
                                     .rank = 2,
                                     .size = {s->rows, s->bins},
                                     .input_count = weighted ? 2 : 1,
                                     .output_count = 1,
                                     .inputs = o->inputs,
                                     .outputs = &o->output,
                                     .attributes = &o->attributes,
                                     .attribute_bytes = sizeof o->attributes};
}

static void release(operands *o) {
  block_release(&o->in[0]);
  if (o->d.input_count == 2) block_release(&o->in[1]);
  block_release(&o->out);
}

static compute_status run(fixture *f, operands *o) {
  block *blocks[3] = {&o->in[0], &o->in[1], &o->out};
  if (o->d.input_count == 1) blocks[1] = &o->out;
  return run_kernel(f, &cpu_bincount_kind, &o->d, blocks);
}

static void check(const operands *o, const sample *s) {
  const bool weighted = o->d.input_count == 2;
  long double *sum = calloc((size_t)s->bins + 1, 2 * sizeof *sum), *size = sum + s->bins + 1;
  assert_non_null(sum);
  block_check_guards(&o->out);
  for (int64_t row = 0; row < s->rows; row++) {
    for (int64_t b = 0; b < s->bins; b++) sum[b] = size[b] = 0;
    for (int64_t i = 0; i < s->length && s->bins > 0; i++) {
      const int64_t at = block_at(&o->in[0], (const int64_t[]){row, i});
      const int64_t bin = (int64_t)block_get(&o->in[0], at);
      const double x = weighted ? block_get(&o->in[1], at) : 1;
      sum[bin] += (long double)x;
      size[bin] += (long double)fabs(x);
    }
    for (int64_t b = 0; b < s->bins; b++) {
      const double got = block_get(&o->out, block_at(&o->out, (const int64_t[]){row, b}));
      const double unit = o->out.dtype == COMPUTE_F64 ? 0x1p-44 * (double)size[b]
                          : o->out.dtype == COMPUTE_F32
                              ? 0x1p-24 * fabs((double)sum[b]) + 0x1p-40 * (double)size[b]
                          : o->out.dtype == COMPUTE_F16  ? 0x1p-11 * fabs((double)sum[b]) + 0x1p-25
                          : o->out.dtype == COMPUTE_BF16 ? 0x1p-8 * fabs((double)sum[b])
                                                         : 0;
      if (!(fabs(got - (double)sum[b]) <= unit * 1.0001))
        fail_msg("row %lld of %lld, bin %lld of %lld: %.17g, not %.17g", (long long)row,
                 (long long)s->length, (long long)b, (long long)s->bins, got, (double)sum[b]);
    }
  }
  free(sum);
}

/* Sums are rounded once: f64 holds the sums of long rows of narrower weights. */
static void rows_are_counted_with_the_same_bits_for_all_threads(void **state) {
  (void)state;
  static const int32_t threads[] = {1, 2, 3, 8};
  for (size_t n = 0; n < sizeof samples / sizeof *samples; n++) {
    for (int64_t apart = 1; apart < 4; apart += 2) {
      test_random random = {.state = 11 + n};
      operands o;
      unsigned char *first = NULL;
      create(&o, &samples[n], apart, &random);
      const size_t bytes =
          (size_t)(o.out.elements + 2 * FIXTURE_GUARD) * cpu_dtype_size(o.out.dtype);
      for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        fixture f;
        assert_true(fixture_open(&f, threads[t], NULL));
        assert_int_equal(run(&f, &o), COMPUTE_OK);
        fixture_close(&f);
        if (t == 0) {
          check(&o, &samples[n]);
          first = malloc(bytes);
          assert_non_null(first);
          memcpy(first, o.out.memory, bytes);
        }
        assert_memory_equal(first, o.out.memory, bytes);
      }
      free(first);
      release(&o);
    }
  }
}

static void a_value_outside_names_itself(void **state) {
  (void)state;
  static const double bad[] = {-1, 1e9, -2147483648.0};
  for (size_t n = 0; n < sizeof samples / sizeof *samples; n++) {
    const sample *s = &samples[n];
    if (s->rows * s->length * s->bins < 100) continue;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      test_random random = {.state = 5};
      operands o;
      fixture f;
      char expected[64];
      const int64_t place = s->length / 2 + 1;
      create(&o, s, 1, &random);
      block_set(&o.in[0], block_at(&o.in[0], (const int64_t[]){s->rows - 1, place}), bad[i]);
      block_set(&o.in[0], block_at(&o.in[0], (const int64_t[]){s->rows - 1, s->length - 1}), -3);
      assert_true(fixture_open(&f, 3, NULL));
      assert_int_equal(run(&f, &o), COMPUTE_ERROR_INDEX);
      snprintf(expected, sizeof expected, "index %lld at position %lld ", (long long)bad[i],
               (long long)((s->rows - 1) * s->length + place));
      if (!strstr(f.message, expected)) fail_msg("'%s' in '%s'", expected, f.message);
      block_check_guards(&o.out);
      fixture_close(&f);
      release(&o);
    }
  }
}

static void failures_are_reported_and_leave_nothing(void **state) {
  (void)state;
  test_random random = {.state = 3};
  operands o;
  create(&o, &samples[6], 1, &random);
  check_allocation_failures(&cpu_bincount_kind, &o.d, (block *[]){&o.in[0], &o.in[1], &o.out});
  release(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_counted_with_the_same_bits_for_all_threads),
      cmocka_unit_test(a_value_outside_names_itself),
      cmocka_unit_test(failures_are_reported_and_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
