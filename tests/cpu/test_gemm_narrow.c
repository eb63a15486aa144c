/* SPDX-License-Identifier: MIT */
/* Products with two small sizes on the CPU match the double reference, whatever the layouts and the
 * epilogue. */
#include "gemm_samples.h"

enum { SAMPLES = 160 };

static layout any_layout(test_random *random) {
  return (layout)test_random_integer(random, 0, LAYOUT_COUNT - 1);
}

static bool make(sample *s, test_random *random) {
  const compute_dtype dtype = test_random_integer(random, 0, 2) ? COMPUTE_F32 : COMPUTE_F64;
  const bool tall = test_random_integer(random, 0, 1);
  const int64_t few = test_random_integer(random, 1, 17),
                many = test_random_integer(random, 1, 700);
  *s = (sample){.a = dtype,
                .b = dtype,
                .accumulate = dtype,
                .output = dtype,
                .m = tall ? many : few,
                .n = tall ? few : many,
                .k = test_random_integer(random, 1, test_random_integer(random, 0, 1) ? 9 : 34),
                .layout_a = any_layout(random),
                .layout_b = any_layout(random),
                .layout_c = any_layout(random),
                .epilogue = test_random_integer(random, 0, 1)
                                ? PLAIN
                                : (epilogue)test_random_integer(random, 0, EPILOGUE_COUNT - 1),
                .constant_b = test_random_integer(random, 0, 3) == 0};
  if (test_random_integer(random, 0, 2) == 0) { /* a batch of small products */
    s->batch_rank = 1;
    s->batch[0] = test_random_integer(random, 1, 90);
    s->repeat_a = (uint32_t)test_random_integer(random, 0, 1);
    s->repeat_b = s->repeat_a ? 0 : (uint32_t)test_random_integer(random, 0, 1);
    *(tall ? &s->m : &s->n) = test_random_integer(random, 1, 40);
  }
  return true;
}

static bool make_half(sample *s, test_random *random) {
  make(s, random);
  s->accumulate = COMPUTE_F32;
  s->a = s->b = test_random_integer(random, 0, 1) ? COMPUTE_F16 : COMPUTE_BF16;
  if (test_random_integer(random, 0, 3) == 0) s->b = COMPUTE_F32;
  s->output = s->a;
  return true;
}

static void narrow_products_of_halves_are_right(void **state) {
  (void)state;
  check_samples(make_half, SAMPLES, 2);
}

static void narrow_products_are_right(void **state) {
  (void)state;
  check_samples(make, SAMPLES, 2);
}

static bool make_bytes(sample *s, test_random *random) {
  static const epilogue epilogues[] = {PLAIN, SCALED, BIAS_COLUMN, BYTES, BYTES_TERMS};
  const bool tall = test_random_integer(random, 0, 1);
  const int64_t few = test_random_integer(random, 1, 9), many = test_random_integer(random, 1, 700);
  *s = (sample){.a = test_random_integer(random, 0, 1) ? COMPUTE_U8 : COMPUTE_I8,
                .b = test_random_integer(random, 0, 1) ? COMPUTE_U8 : COMPUTE_I8,
                .accumulate = COMPUTE_I32,
                .output = COMPUTE_I32,
                .m = tall ? many : few,
                .n = tall ? few : many,
                .k = test_random_integer(random, 1, test_random_integer(random, 0, 1) ? 40 : 300),
                .layout_a = any_layout(random),
                .layout_b = any_layout(random),
                .layout_c = any_layout(random),
                .extreme = test_random_integer(random, 0, 3) == 0,
                .epilogue = epilogues[test_random_integer(random, 0, 4)],
                .constant_b = test_random_integer(random, 0, 1)};
  if (s->epilogue >= BYTES) s->output = test_random_integer(random, 0, 1) ? COMPUTE_U8 : COMPUTE_I8;
  return true;
}

static void narrow_products_of_bytes_are_exact(void **state) {
  (void)state;
  check_samples(make_bytes, SAMPLES, 2);
}

static void narrow_kernels_of_bytes_are_chosen(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k;
    layout b;
    bool narrow;
  } cases[] = {{3000, 4, 112, DENSE, true},   {4, 3000, 112, TRANSPOSED, true},
               {4, 3000, 112, DENSE, false},  {3000, 9, 112, DENSE, false},
               {3000, 4, 5000, DENSE, false}, {60, 4, 112, DENSE, false}};
  test_random random = {.state = 9};
  fixture f;
  if (!open_device(&f, 2, "avx2", "none")) test_skip("no AVX2");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const sample s = {.a = COMPUTE_U8,
                      .b = COMPUTE_I8,
                      .accumulate = COMPUTE_I32,
                      .output = COMPUTE_I32,
                      .m = cases[i].m,
                      .n = cases[i].n,
                      .k = cases[i].k,
                      .layout_b = cases[i].b};
    operands o = make_operands(&s, &random);
    description d;
    describe(&s, &o, &d);
    cpu_kernel *kernel;
    assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &d.descriptor, &kernel),
                     COMPUTE_OK);
    assert_int_equal(strstr(kernel->description, "narrow bytes") != NULL, cases[i].narrow);
    cpu_kernel_destroy(kernel);
    release_operands(&o);
  }
  fixture_close(&f);
}

static bool is_narrow(const fixture *f, const sample *s, test_random *random) {
  operands o = make_operands(s, random);
  description d;
  cpu_kernel *kernel;
  describe(s, &o, &d);
  assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f->device, &d.descriptor, &kernel), COMPUTE_OK);
  const bool narrow = strstr(kernel->description, "narrow") != NULL;
  cpu_kernel_destroy(kernel);
  release_operands(&o);
  return narrow;
}

static void narrow_kernels_are_chosen(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k;
    layout c;
    bool narrow, half; /* for f32; for f16 */
  } cases[] = {{3000, 4, 4, DENSE, true, true},     {4, 3000, 4, DENSE, true, true},
               {3000, 4, 40, DENSE, false, false},  {3000, 9, 4, DENSE, true, true},
               {3000, 9, 9, DENSE, false, false},   {3000, 16, 4, DENSE, false, true},
               {16, 3000, 16, DENSE, true, false},  {8, 3000, 16, DENSE, true, true},
               {16, 3000, 17, DENSE, false, false}, {17, 3000, 4, DENSE, false, false},
               {3000, 8, 32, DENSE, false, true},   {100, 4, 4, DENSE, false, false},
               {3000, 4, 4, GAPS, false, true}};
  test_random random = {.state = 9};
  fixture f;
  assert_true(open_device(&f, 2, NULL, "none"));
  if (f.device->isa->vector_bytes < 32) {
    fixture_close(&f);
    test_skip("vectors of 16 bytes need other choices");
  }
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int half = 0; half < 2; half++) {
      const compute_dtype dtype = half ? COMPUTE_F16 : COMPUTE_F32;
      const sample s = {.a = dtype,
                        .b = dtype,
                        .accumulate = COMPUTE_F32,
                        .output = dtype,
                        .m = cases[i].m,
                        .n = cases[i].n,
                        .k = cases[i].k,
                        .layout_c = cases[i].c};
      if (is_narrow(&f, &s, &random) != (half ? cases[i].half : cases[i].narrow))
        fail_msg("%s of case %d", half ? "f16" : "f32", (int)i);
    }
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(narrow_products_are_right),
      cmocka_unit_test(narrow_products_of_halves_are_right),
      cmocka_unit_test(narrow_kernels_are_chosen),
      cmocka_unit_test(narrow_products_of_bytes_are_exact),
      cmocka_unit_test(narrow_kernels_of_bytes_are_chosen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
