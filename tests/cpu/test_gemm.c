/* SPDX-License-Identifier: MIT */
/* GEMM on the CPU matches the double reference: shapes, layouts, types, epilogues,
 * instruction sets, both implementations. */
#include "gemm_samples.h"

static int64_t pick(test_random *random, const int64_t *values, int64_t count) {
  return values[test_random_integer(random, 0, count - 1)];
}

static void random_shape(sample *s, test_random *random) {
  static const int64_t sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 13, 15,
                                  16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 97, 130};
  static const int64_t depths[] = {1, 2, 3, 7, 8, 16, 31, 64, 65, 129, 300, 513};
  s->m = pick(random, sizes, 24);
  s->n = pick(random, sizes, 24);
  s->k = pick(random, depths, 12);
  s->layout_a = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->layout_b = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->layout_c = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
}

static bool make_shape(sample *s, test_random *random) {
  random_shape(s, random);
  if (test_random_integer(random, 0, 2) == 0) s->a = s->b = s->accumulate = s->output = COMPUTE_F64;
  return true;
}

static void every_shape_and_layout_is_right(void **state) {
  (void)state;
  check_samples(make_shape, 400, 2);
}

static bool make_large(sample *s, test_random *random) {
  static const int64_t sizes[] = {190, 257, 400, 515};
  random_shape(s, random);
  s->m = pick(random, sizes, 4);
  s->n = pick(random, sizes, 4);
  s->k = pick(random, sizes, 4);
  s->epilogue = test_random_integer(random, 0, 1) ? BIAS_GELU : PLAIN;
  return true;
}

static void sizes_beyond_the_cache_blocks_are_right(void **state) {
  (void)state;
  check_samples(make_large, 4, 2);
}

/* Also makes rows of A that are too far apart, or just close enough, to be read in place. */
static bool make_long(sample *s, test_random *random) {
  static const int64_t depths[] = {384, 385, 769, 1024, 1152, 1153, 1536, 2500};
  s->m = test_random_integer(random, 13, 45);
  s->n = test_random_integer(random, 30, 140);
  s->k = pick(random, depths, 8);
  s->layout_a = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->layout_b = (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  s->constant_b = test_random_integer(random, 0, 1);
  if (test_random_integer(random, 0, 3) == 0) s->a = s->b = s->accumulate = s->output = COMPUTE_F64;
  return true;
}

static void parts_of_k_add_up(void **state) {
  (void)state;
  check_samples(make_long, 24, 2);
}

static bool make_floats(sample *s, test_random *random) {
  static const int64_t floats[] = {COMPUTE_F32, COMPUTE_F16, COMPUTE_BF16, COMPUTE_F64};
  random_shape(s, random);
  s->a = (compute_dtype)pick(random, floats, 4);
  s->b = (compute_dtype)pick(random, floats, 4);
  s->accumulate = test_random_integer(random, 0, 3) ? COMPUTE_F32 : COMPUTE_F64;
  if (s->accumulate == COMPUTE_F32) {
    if (s->a == COMPUTE_F64) s->a = COMPUTE_F16;
    if (s->b == COMPUTE_F64) s->b = COMPUTE_BF16;
  }
  s->output = (compute_dtype)pick(random, floats, 3);
  return true;
}

static void half_precision_is_summed_in_the_accumulate_type(void **state) {
  (void)state;
  check_samples(make_floats, 300, 2);
}

static bool make_integers(sample *s, test_random *random) {
  static const int64_t integers[] = {COMPUTE_I32, COMPUTE_I64, COMPUTE_U8, COMPUTE_U16};
  random_shape(s, random);
  s->a = (compute_dtype)pick(random, integers, 4);
  s->b = (compute_dtype)pick(random, integers, 4);
  s->output = s->accumulate = test_random_integer(random, 0, 1) ? COMPUTE_I32 : COMPUTE_I64;
  if (test_random_integer(random, 0, 1)) s->epilogue = BIAS_COLUMN;
  return true;
}

static void integers_wrap(void **state) {
  (void)state;
  check_samples(make_integers, 300, 2);
}

static bool make_bytes(sample *s, test_random *random) {
  static const int64_t bytes[] = {COMPUTE_I8, COMPUTE_U8};
  static const int64_t wide[] = {150, 257, 400}, deep[] = {770, 1550, 5003};
  random_shape(s, random);
  s->a = (compute_dtype)pick(random, bytes, 2);
  s->b = (compute_dtype)pick(random, bytes, 2);
  s->accumulate = COMPUTE_I32;
  s->output = test_random_integer(random, 0, 2) ? COMPUTE_I32 : s->a;
  s->extreme = test_random_integer(random, 0, 2) == 0;
  s->constant_b = true;
  if (test_random_integer(random, 0, 2) == 0) s->epilogue = BIAS_COLUMN;
  if (test_random_integer(random, 0, 2) == 0) {
    s->epilogue = test_random_integer(random, 0, 1) ? BYTES : BYTES_TERMS;
    s->output = (compute_dtype)pick(random, bytes, 2);
  }
  if (test_random_integer(random, 0, 3) == 0) s->n = pick(random, wide, 3);
  if (s->m * s->n < 5000 && test_random_integer(random, 0, 3) == 0) s->k = pick(random, deep, 3);
  return true;
}

static void sums_of_byte_products_are_exact(void **state) {
  (void)state;
  check_samples(make_bytes, 400, 2);
}

static bool make_small_bytes(sample *s, test_random *random) {
  make_bytes(s, random);
  s->b = COMPUTE_I8;
  s->small = true;
  return true;
}

static void small_weights_do_not_saturate(void **state) {
  (void)state;
  check_samples(make_small_bytes, 400, 2);
}

/* 255 · 127, twice, is more than 16 bits hold. */
static void large_weights_saturate_where_it_is_allowed(void **state) {
  (void)state;
  const sample s = {.a = COMPUTE_U8,
                    .b = COMPUTE_I8,
                    .accumulate = COMPUTE_I32,
                    .output = COMPUTE_I32,
                    .m = 20,
                    .n = 40,
                    .k = 8};
  fixture f;
  if (!open_device(&f, 1, "avx2", "none")) test_skip("no AVX2");
  const bool saturates = f.device->isa->gemm->saturating != NULL;
  test_random random = {.state = 5};
  operands o = make_operands(&s, &random);
  memset(block_data(&o.a), 255, (size_t)o.a.elements);
  memset(block_data(&o.b), 127, (size_t)o.b.elements);
  description d;
  describe(&s, &o, &d);
  for (int allowed = 0; allowed < 2; allowed++) {
    if (allowed) d.attributes.precision = COMPUTE_PRECISION_SATURATE;
    assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
    const int32_t *sums = (const int32_t *)block_data(&o.c);
    for (int64_t i = 0; i < s.m * s.n; i++)
      assert_int_equal(sums[i], allowed && saturates ? s.k / 2 * INT16_MAX : s.k * 255 * 127);
  }
  release_operands(&o);
  fixture_close(&f);
}

static bool make_bf16(sample *s, test_random *random) {
  static const int64_t wide[] = {150, 257, 400}, deep[] = {770, 1551, 5003};
  random_shape(s, random);
  s->a = s->b = COMPUTE_BF16;
  s->constant_b = test_random_integer(random, 0, 1) != 0;
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  if (test_random_integer(random, 0, 1) && s->epilogue != PLACES) s->output = COMPUTE_BF16;
  if (test_random_integer(random, 0, 3) == 0) s->n = pick(random, wide, 3);
  if (s->m * s->n < 5000 && test_random_integer(random, 0, 3) == 0) s->k = pick(random, deep, 3);
  if (test_random_integer(random, 0, 3) == 0) {
    s->batch_rank = 1;
    s->batch[0] = 3;
    s->repeat_a = (uint32_t)test_random_integer(random, 0, 1);
    s->repeat_b = (uint32_t)test_random_integer(random, 0, 1);
    if (s->m * s->n * s->k > 100000) s->m = s->n = 18;
  }
  return true;
}

static void products_of_bf16_are_summed_in_f32(void **state) {
  (void)state;
  check_samples(make_bf16, 300, 2);
}

/* NaN comes from NaN, and from infinity times 0 or minus infinity; infinity is preserved. Padding
 * at the end of k creates neither. */
static void bf16_that_are_not_numbers_stay_so(void **state) {
  (void)state;
  const sample s = {.a = COMPUTE_BF16,
                    .b = COMPUTE_BF16,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F32,
                    .m = 30,
                    .n = 70,
                    .k = 9};
  test_random random = {.state = 4};
  operands o = make_operands(&s, &random);
  uint16_t *a = (void *)block_data(&o.a), *b = (void *)block_data(&o.b);
  a[3 * s.k + 8] = 0x7fc0;                          /* NaN in row 3 */
  a[5 * s.k + 8] = 0x7f80, a[6 * s.k + 2] = 0xff80; /* infinities in rows 5 and 6 */
  b[8 * s.n + 40] = 0, b[2 * s.n + 69] = 0x7f80;    /* 0 and infinity in columns 40 and 69 */
  a[7 * s.k + 1] = b[1 * s.n + 9] = 0x7f00;         /* 2^127, whose square is infinite */
  description d;
  describe(&s, &o, &d);
  for (size_t i = 0; i < device_kind_count; i++) {
    fixture f;
    if (!open_device(&f, 1, device_kinds[i].isa, device_kinds[i].blas)) continue;
    assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
    check_product(&f, &s, &o, &d);
    fixture_close(&f);
  }
  release_operands(&o);
}

/* The element after an odd end of k belongs to another column. */
static void columns_of_bf16_do_not_meet(void **state) {
  (void)state;
  static const struct { int64_t m, k; } cases[] = {{1, 31}, {4, 63}, {12, 95}, {3, 2047}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const sample s = {.a = COMPUTE_BF16,
                      .b = COMPUTE_BF16,
                      .accumulate = COMPUTE_F32,
                      .output = COMPUTE_F32,
                      .m = cases[i].m,
                      .n = 9,
                      .k = cases[i].k,
                      .layout_b = TRANSPOSED};
    test_random random = {.state = 5};
    operands o = make_operands(&s, &random);
    ((uint16_t *)block_data(&o.b))[5 * s.k] = 0x7f80; /* column 5 begins with infinity */
    description d;
    describe(&s, &o, &d);
    fixture f;
    assert_true(open_device(&f, 1, NULL, NULL));
    assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
    int64_t point[COMPUTE_MAX_RANK] = {0};
    do {
      const double actual = block_get(&o.c, block_at(&o.c, point));
      assert_int_equal(isfinite(actual) != 0, point[1] != 5);
    } while (next_point(2, o.c.size, point));
    fixture_close(&f);
    release_operands(&o);
  }
}

/* Sums of bf16 are rounded as in every other kernel: 0 plus an addend is the addend. AVX512-BF16's
 * hardware conversion would flush a denormal one to 0. */
static void check_denormal_addends(int64_t m, bool repeats) {
  static const uint16_t addends[] = {0x0001, 0x807f, 0x3f80, 0x0080, 0xff80};
  enum { ADDENDS = sizeof addends / sizeof addends[0] };
  const sample s = {.a = COMPUTE_BF16,
                    .b = COMPUTE_BF16,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_BF16,
                    .m = m,
                    .n = 70,
                    .k = 9,
                    .constant_b = true,
                    .epilogue = RESIDUAL};
  test_random random = {.state = 6};
  operands o = make_operands(&s, &random);
  memset(block_data(&o.a), 0, (size_t)(s.m * s.k) * sizeof(uint16_t));
  uint16_t *c = (void *)block_data(&o.c), *extra = (void *)block_data(&o.extra);
  description d;
  describe(&s, &o, &d);
  if (repeats) {
    d.inputs[2] = operand_of(&o.extra, 2);
    d.inputs[2].stride[0] = 0;
    d.blocks[2] = &o.extra;
  }
  for (int64_t e = 0; e < s.m * s.n; e++) extra[e] = addends[e % ADDENDS];
  for (size_t i = 0; i < device_kind_count; i++) {
    fixture f;
    if (!open_device(&f, 1, device_kinds[i].isa, device_kinds[i].blas)) continue;
    memset(c, 0xff, (size_t)(s.m * s.n) * sizeof *c);
    if (!repeats) memcpy(c, extra, (size_t)(s.m * s.n) * sizeof *c);
    assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
    for (int64_t e = 0; e < s.m * s.n; e++) assert_int_equal(c[e], extra[repeats ? e % s.n : e]);
    fixture_close(&f);
  }
  release_operands(&o);
}

static void denormal_addends_of_bf16_stay(void **state) {
  (void)state;
  for (int64_t m = 1; m <= 30; m += 29) {
    check_denormal_addends(m, false);
    check_denormal_addends(m, true);
  }
}

/* A row of a reproducible product has the same bits, whatever the number of rows. If OpenBLAS is
 * named, only a row of an even product. */
static void rows_of_products_are_independent(void **state) {
  (void)state;
  enum { MOST = 48 };
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_BF16};
  for (size_t i = 0; i < 3 * device_kind_count; i++) {
    const device_kind *kind = &device_kinds[i / 3];
    fixture f;
    if (kind->bytes || kind->high || !open_device(&f, 2, kind->isa, kind->blas)) continue;
    const compute_dtype dtype = dtypes[i % 3], sum = dtype == COMPUTE_F64 ? dtype : COMPUTE_F32;
    for (int form = 0; form < 12; form++) {
      static const int64_t columns[] = {64, 40, 9, 3};
      sample s = {.a = dtype,
                  .b = dtype,
                  .accumulate = sum,
                  .output = sum,
                  .m = MOST,
                  .n = columns[form / 3],
                  .k = form % 3 == 0   ? 300
                       : form % 3 == 1 ? 1100
                                       : 2600,
                  .layout_b = form % 2 ? TRANSPOSED : DENSE};
      test_random random = {.state = 6};
      operands o = make_operands(&s, &random);
      const size_t row = (size_t)s.n * cpu_dtype_size(sum);
      unsigned char *all = malloc(MOST * row);
      for (int64_t m = MOST; m > 0; m = m > 16 ? m - 16 : m - 5) {
        s.m = o.a.size[0] = o.c.size[0] = m;
        description d;
        describe(&s, &o, &d);
        d.attributes.precision = COMPUTE_PRECISION_REPRODUCIBLE;
        assert_int_equal(run_kernel(&f, kind->blas ? &cpu_even_gemm_kind : &cpu_gemm_kind,
                                    &d.descriptor, d.blocks),
                         COMPUTE_OK);
        if (m == MOST) memcpy(all, block_data(&o.c), MOST * row);
        if (memcmp(block_data(&o.c), all, (size_t)m * row) != 0)
          fail_msg("%s %s: %d rows of %d of form %d", kind->isa, compute_dtype_name(dtype), (int)m,
                   MOST, form);
      }
      free(all);
      release_operands(&o);
    }
    fixture_close(&f);
  }
}

static bool make_constant(sample *s, test_random *random) {
  random_shape(s, random);
  s->n = test_random_integer(random, 100, 400);
  if (test_random_integer(random, 0, 1)) s->m = test_random_integer(random, 1, 2);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  s->constant_b = true;
  return true;
}

static void a_packed_constant_multiplies_as_any(void **state) {
  (void)state;
  check_samples(make_constant, 120, 2);
}

static bool make_batch(sample *s, test_random *random) {
  random_shape(s, random);
  s->m = s->m > 33 ? 9 : s->m;
  s->k = s->k > 65 ? 20 : s->k;
  s->batch_rank = (int32_t)test_random_integer(random, 1, 3);
  for (int32_t d = 0; d < s->batch_rank; d++) s->batch[d] = test_random_integer(random, 1, 4);
  s->repeat_a = (uint32_t)test_random_integer(random, 0, 7);
  s->repeat_b = (uint32_t)test_random_integer(random, 0, 7);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  return true;
}

static void batches_and_broadcast_operands_are_right(void **state) {
  (void)state;
  check_samples(make_batch, 300, 3);
}

static bool make_epilogue(sample *s, test_random *random) {
  random_shape(s, random);
  s->epilogue = (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1);
  if (test_random_integer(random, 0, 3) == 0) {
    s->a = s->b = s->accumulate = s->output = COMPUTE_F64;
  } else if (test_random_integer(random, 0, 3) == 0 && s->epilogue != PLACES) {
    s->output = COMPUTE_F16;
  }
  if (test_random_integer(random, 0, 9) == 0) s->k = 0;
  return true;
}

static void epilogues_are_applied_to_finished_sums(void **state) {
  (void)state;
  check_samples(make_epilogue, 400, 2);
}

static bool make_empty(sample *s, test_random *random) {
  random_shape(s, random);
  s->batch_rank = 1;
  s->batch[0] = 2;
  int64_t *const sizes[] = {&s->batch[0], &s->m, &s->n};
  *sizes[test_random_integer(random, 0, 2)] = 0;
  if (test_random_integer(random, 0, 1)) s->k = 0;
  return true;
}

static void nothing_is_stored_where_a_size_is_zero(void **state) {
  (void)state;
  check_samples(make_empty, 40, 2);
}

static bool make_deep(sample *s, test_random *random) {
  random_shape(s, random);
  s->m = test_random_integer(random, 1, 20);
  s->n = test_random_integer(random, 1, 20);
  s->k = test_random_integer(random, 20000, 30000);
  s->epilogue = (epilogue)test_random_integer(random, 0, RESIDUAL);
  return true;
}

static void long_sums_in_parts_are_right(void **state) {
  (void)state;
  check_samples(make_deep, 12, 4);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_shape_and_layout_is_right),
      cmocka_unit_test(sizes_beyond_the_cache_blocks_are_right),
      cmocka_unit_test(parts_of_k_add_up),
      cmocka_unit_test(half_precision_is_summed_in_the_accumulate_type),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(sums_of_byte_products_are_exact),
      cmocka_unit_test(small_weights_do_not_saturate),
      cmocka_unit_test(large_weights_saturate_where_it_is_allowed),
      cmocka_unit_test(products_of_bf16_are_summed_in_f32),
      cmocka_unit_test(bf16_that_are_not_numbers_stay_so),
      cmocka_unit_test(columns_of_bf16_do_not_meet),
      cmocka_unit_test(denormal_addends_of_bf16_stay),
      cmocka_unit_test(rows_of_products_are_independent),
      cmocka_unit_test(a_packed_constant_multiplies_as_any),
      cmocka_unit_test(batches_and_broadcast_operands_are_right),
      cmocka_unit_test(epilogues_are_applied_to_finished_sums),
      cmocka_unit_test(nothing_is_stored_where_a_size_is_zero),
      cmocka_unit_test(long_sums_in_parts_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
