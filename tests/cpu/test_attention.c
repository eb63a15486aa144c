/* SPDX-License-Identifier: MIT */
/* ATTENTION on the CPU matches the double reference. */
#include "kernel_fixture.h"
#include "core/nest.h"

typedef struct sample {
  compute_dtype dtype;
  int64_t batch, heads, queries, keys, width, columns;
  bool causal, biased, masked; /* masked: some biases are −infinity */
  bool shared;                 /* heads share K and V */
  double scale;
} sample;

enum { Q = 0, K = 1, V = 2, BIAS = 3, OUTPUT = 4, BLOCKS = 5 };

typedef void (*with_kernel)(fixture *f, const compute_kernel_descriptor *k, block *const *blocks);

/* The rounding error of a score grows with the score's magnitude; V is of order 1. */
static void run(fixture *f, const compute_kernel_descriptor *k, block *const *blocks) {
  const double width = 8 * sqrt((double)compute_attention_of(k)->width);
  run_and_check(f, &cpu_attention_kind, k, blocks,
                (allowed_error){.absolute = 80 + width, .terms = 8 + width});
}

static void fail_each_allocation(fixture *f, const compute_kernel_descriptor *k,
                                 block *const *blocks) {
  (void)f;
  check_allocation_failures(&cpu_attention_kind, k, blocks);
}

/* `plain`: row-major strides. */
static void visit(fixture *f, const sample *s, bool plain, uint64_t seed, with_kernel with,
                  void *bits) {
  test_random random = {.state = seed};
  const int64_t size[BLOCKS][4] = {{s->batch, s->heads, s->queries, s->width},
                                   {s->batch, s->heads, s->keys, s->width},
                                   {s->batch, s->heads, s->keys, s->columns},
                                   {s->batch, s->heads, s->queries, s->keys},
                                   {s->batch, s->heads, s->queries, s->columns}};
  block b[BLOCKS];
  block *blocks[BLOCKS];
  compute_operand operand[BLOCKS];
  uint32_t count = 0;
  for (int i = 0; i < BLOCKS; i++) {
    int64_t stride[4] = {s->heads * size[i][2] * size[i][3], size[i][2] * size[i][3], size[i][3],
                         1};
    const bool shared = s->shared && (i == K || i == V || i == BIAS);
    if (!plain) random_strides(4, size[i], shared ? 2 : 0, &random, stride);
    b[i] = block_create(s->dtype, 4, size[i], stride);
    block_fill(&b[i], -1, 1, &random);
    if (i == BIAS && s->masked)
      for (int64_t j = 0; j < b[i].elements; j++)
        if (test_random_integer(&random, 0, 1)) block_set(&b[i], j, -INFINITY);
    block_remember(&b[i]);
    if (i == BIAS && !s->biased) continue;
    operand[count] = operand_of(&b[i], 4);
    blocks[count++] = &b[i];
  }
  const compute_attention_attributes attributes = {.keys = s->keys,
                                                   .width = s->width,
                                                   .scale = s->scale,
                                                   .causal = s->causal,
                                                   .biased = s->biased};
  compute_kernel_descriptor k = {.struct_size = sizeof k,
                                 .kind = COMPUTE_KERNEL_ATTENTION,
                                 .rank = 4,
                                 .size = {s->batch, s->heads, s->queries, s->columns},
                                 .input_count = count - 1,
                                 .output_count = 1,
                                 .inputs = operand,
                                 .outputs = &operand[count - 1],
                                 .accumulate = dtype_compute_type(s->dtype),
                                 .attributes = &attributes,
                                 .attribute_bytes = sizeof attributes};
  with(f, &k, blocks);
  if (bits)
    memcpy(bits, block_data(&b[OUTPUT]), (size_t)b[OUTPUT].elements * cpu_dtype_size(s->dtype));
  for (int i = 0; i < BLOCKS; i++) block_release(&b[i]);
}

static void random_shapes_are_right(void **state) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    test_random random = {.state = 13};
    for (int i = 0; i < 160; i++) {
      const int64_t most = i % 3 ? 20 : 150;
      sample s = {.dtype = dtypes[i % 4],
                  .batch = test_random_integer(&random, 1, 2),
                  .heads = test_random_integer(&random, 1, 3),
                  .queries = test_random_integer(&random, 1, i % 5 ? most : 5),
                  .keys = test_random_integer(&random, 1, most),
                  .width = test_random_integer(&random, 1, i % 2 ? 9 : 70),
                  .columns = test_random_integer(&random, 1, i % 2 ? 9 : 70),
                  .causal = test_random_integer(&random, 0, 1),
                  .biased = test_random_integer(&random, 0, 1),
                  .masked = test_random_integer(&random, 0, 1),
                  .shared = test_random_integer(&random, 0, 3) == 0,
                  .scale = test_random_uniform(&random, 0.1, 2)};
      visit(&f, &s, i % 4 > 1, (uint64_t)i, run, NULL);
    }
    fixture_close(&f);
  }
}

/* If later keys have larger scores, the factors between tiles matter. */
static void steep_scores_are_right(void **state) {
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++) {
    fixture f;
    if (!fixture_open(&f, 2, *isa)) continue;
    for (int i = 0; i < 8; i++) {
      const sample s = {.dtype = i & 1 ? COMPUTE_F64 : COMPUTE_F32,
                        .batch = 1,
                        .heads = 1,
                        .queries = i & 2 ? 3 : 130,
                        .keys = 700,
                        .width = 16,
                        .columns = 24,
                        .causal = i & 4,
                        .scale = 60};
      visit(&f, &s, true, 5, run, NULL);
    }
    fixture_close(&f);
  }
}

static void what_sees_no_key_is_zero(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  sample s = {.dtype = COMPUTE_F32,
              .batch = 1,
              .heads = 2,
              .queries = 40,
              .keys = 12,
              .width = 8,
              .columns = 8,
              .causal = true,
              .scale = 1};
  visit(&f, &s, true, 1, run, NULL); /* the first queries precede all keys */
  s.keys = 0;
  visit(&f, &s, true, 1, run, NULL);
  s.keys = 5;
  s.width = 0;
  visit(&f, &s, true, 1, run, NULL);
  s.columns = 0;
  visit(&f, &s, true, 1, run, NULL);
  s.columns = 3;
  s.queries = 0;
  visit(&f, &s, true, 1, run, NULL);
  s.heads = 0;
  visit(&f, &s, true, 1, run, NULL);
  fixture_close(&f);
}

static void a_nan_stays_with_its_query(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 2, NULL));
  enum { QUERIES = 33, KEYS = 300, WIDTH = 8 };
  const int64_t size[3][2] = {{QUERIES, WIDTH}, {KEYS, WIDTH}, {QUERIES, WIDTH}};
  const int64_t stride[2] = {WIDTH, 1};
  test_random random = {.state = 2};
  block q = block_create(COMPUTE_F32, 2, size[0], stride);
  block k = block_create(COMPUTE_F32, 2, size[1], stride);
  block v = block_create(COMPUTE_F32, 2, size[1], stride);
  block y = block_create(COMPUTE_F32, 2, size[2], stride);
  block_fill(&q, -1, 1, &random);
  block_fill(&k, -1, 1, &random);
  block_fill(&v, -1, 1, &random);
  block_set(&q, 7 * WIDTH + 3, NAN);
  const compute_operand in[] = {operand_of(&q, 2), operand_of(&k, 2), operand_of(&v, 2)};
  const compute_operand out = operand_of(&y, 2);
  const compute_attention_attributes attributes = {.keys = KEYS, .width = WIDTH, .scale = 1};
  const compute_kernel_descriptor d = {.struct_size = sizeof d,
                                       .kind = COMPUTE_KERNEL_ATTENTION,
                                       .rank = 2,
                                       .size = {QUERIES, WIDTH},
                                       .input_count = 3,
                                       .output_count = 1,
                                       .inputs = in,
                                       .outputs = &out,
                                       .accumulate = COMPUTE_F32,
                                       .attributes = &attributes,
                                       .attribute_bytes = sizeof attributes};
  run(&f, &d, (block *[]){&q, &k, &v, &y});
  for (int64_t i = 0; i < QUERIES * WIDTH; i++)
    assert_int_equal(isnan(block_get(&y, i)) != 0, i / WIDTH == 7);
  block_release(&q);
  block_release(&k);
  block_release(&v);
  block_release(&y);
  fixture_close(&f);
}

static void threads_change_no_bit(void **state) {
  enum { BYTES = 1 << 19 };
  unsigned char *bits[2] = {calloc(BYTES, 1), calloc(BYTES, 1)};
  (void)state;
  for (const char *const *isa = fixture_sets; *isa; isa++)
    for (int kind = 0; kind < 4; kind++) {
      const sample s = {.dtype = COMPUTE_F32,
                        .batch = 1,
                        .heads = 1 + kind,
                        .queries = 203,
                        .keys = 170,
                        .width = 33,
                        .columns = 40,
                        .causal = kind & 1,
                        .scale = 0.3};
      for (int t = 0; t < 2; t++) {
        fixture f;
        if (!fixture_open(&f, t ? 7 : 1, *isa)) continue;
        visit(&f, &s, true, 3, run, bits[t]);
        fixture_close(&f);
      }
      assert_memory_equal(bits[0], bits[1], BYTES);
    }
  free(bits[0]);
  free(bits[1]);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  fixture f;
  assert_true(fixture_open(&f, 1, NULL));
  const sample s = {.dtype = COMPUTE_F16,
                    .batch = 1,
                    .heads = 2,
                    .queries = 40,
                    .keys = 30,
                    .width = 8,
                    .columns = 8,
                    .biased = true,
                    .scale = 1};
  visit(&f, &s, true, 3, fail_each_allocation, NULL);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_shapes_are_right),
      cmocka_unit_test(steep_scores_are_right),
      cmocka_unit_test(what_sees_no_key_is_zero),
      cmocka_unit_test(a_nan_stays_with_its_query),
      cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(a_failing_allocation_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
