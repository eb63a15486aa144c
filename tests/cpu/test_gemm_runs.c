/* SPDX-License-Identifier: MIT */
/* Execution of GEMM on the CPU: numbers of threads, several users, memory, refusals, OpenBLAS. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gemm_samples.h"

/* ---- Threads ------------------------------------------------------------------------------- */

static void run_serially(void *host, int64_t tasks, compute_task task, void *argument) {
  (void)host;
  for (int64_t i = 0; i < tasks; i++) task(argument, i, 0);
}

static void neither_threads_nor_a_busy_pool_change_a_bit(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k;
    bool transposed;
    epilogue epilogue;
  } cases[] = {{200, 300, 700, false, BIAS_GELU}, {7, 7, 50000, false, BIAS_GELU},
               {9000, 5, 7, false, BIAS_GELU},    {6, 9000, 7, false, PLAIN},
               {3, 2000, 700, true, BIAS_GELU},   {20, 24, 9000, false, PLAIN},
               {1, 2100, 4096, false, PLAIN},     {9, 1000, 3000, false, BIAS_GELU},
               {100, 130, 5000, false, PLAIN}};
  enum { CASES = sizeof cases / sizeof cases[0] };
  test_random random = {.state = 3};
  for (size_t number = 0; number < 2 * CASES; number++) {
    const size_t i = number % CASES;
    const compute_dtype dtype = number < CASES ? COMPUTE_F32 : COMPUTE_BF16;
    const sample s = {.a = dtype,
                      .b = dtype,
                      .accumulate = COMPUTE_F32,
                      .output = COMPUTE_F32,
                      .m = cases[i].m,
                      .n = cases[i].n,
                      .k = cases[i].k,
                      .layout_b = cases[i].transposed ? TRANSPOSED : DENSE,
                      .epilogue = cases[i].epilogue};
    operands o = make_operands(&s, &random);
    description d;
    describe(&s, &o, &d);
    const size_t bytes = (size_t)o.c.elements * sizeof(float);
    unsigned char *first = malloc(bytes);
    assert_non_null(first);
    for (int32_t threads = 1; threads <= 5; threads++) {
      fixture f;
      assert_true(open_device(&f, threads, NULL, NULL));
      if (threads == 5) f.services.parallel = run_serially;
      assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks), COMPUTE_OK);
      if (threads == 1) memcpy(first, block_data(&o.c), bytes);
      assert_memory_equal(first, block_data(&o.c), bytes);
      fixture_close(&f);
    }
    free(first);
    release_operands(&o);
  }
}

typedef struct user {
  pthread_t thread;
  const cpu_kernel *kernel;
  void *pointers[3];
  compute_status status;
} user;

static void *use_kernel(void *argument) {
  user *u = argument;
  for (int i = 0; i < 20 && u->status == COMPUTE_OK; i++)
    u->status = u->kernel->run(u->kernel, u->pointers);
  return NULL;
}

/* Several user threads run one kernel; all but one find the pool busy. */
static void check_users(const char *isa, const char *blas) {
  enum { USERS = 3 };
  const sample s = {.a = COMPUTE_F32,
                    .b = COMPUTE_F32,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F16,
                    .m = 150,
                    .n = 140,
                    .k = 90};
  fixture f;
  assert_true(open_device(&f, 2, isa, blas));
  test_random random = {.state = 5};
  operands o[USERS];
  user users[USERS] = {0};
  cpu_kernel *kernel = NULL;
  for (int i = 0; i < USERS; i++) {
    o[i] = make_operands(&s, &random);
    description d;
    describe(&s, &o[i], &d);
    if (!kernel)
      assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &d.descriptor, &kernel),
                       COMPUTE_OK);
    users[i].kernel = kernel;
    for (int p = 0; p < 3; p++) users[i].pointers[p] = block_data(d.blocks[p]);
  }
  for (int i = 0; i < USERS; i++)
    assert_int_equal(pthread_create(&users[i].thread, NULL, use_kernel, &users[i]), 0);
  for (int i = 0; i < USERS; i++) {
    pthread_join(users[i].thread, NULL);
    assert_int_equal(users[i].status, COMPUTE_OK);
    description d;
    describe(&s, &o[i], &d);
    check_product(&f, &s, &o[i], &d);
    release_operands(&o[i]);
  }
  cpu_kernel_destroy(kernel);
  fixture_close(&f);
}

static void several_threads_may_run_one_kernel(void **state) {
  (void)state;
  check_users(NULL, NULL);
  check_users("scalar", "libopenblas.so.0");
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Memory that ends right before an inaccessible page. */
static void *fenced(size_t count, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = (count * size + page - 1) / page * page;
  unsigned char *memory =
      mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_int_equal(mprotect(memory + bytes, page, PROT_NONE), 0);
  return memory + bytes - count * size;
}

static void release_fenced(void *data, size_t count, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = (count * size + page - 1) / page * page;
  munmap((unsigned char *)data + count * size - bytes, bytes + page);
}

static void *fenced_ones(size_t count, compute_dtype dtype) {
  void *data = fenced(count, cpu_dtype_size(dtype));
  for (size_t i = 0; i < count; i++) {
    if (dtype == COMPUTE_F32)
      ((float *)data)[i] = 1;
    else
      ((uint16_t *)data)[i] = 0x3f80;
  }
  return data;
}

/* All sizes around the register tiles, and both storage orders: no byte after an operand is
 * read. */
static void touch_no_more(compute_dtype dtype) {
  enum { LARGEST = 37 };
  const size_t bytes = cpu_dtype_size(dtype);
  fixture f;
  assert_true(open_device(&f, 1, NULL, NULL));
  for (int64_t size = 1; size <= LARGEST; size++) {
    for (int form = 0; form < 8; form++) {
      const int transposed = form % 4;
      const int64_t m = size, n = LARGEST + 1 - size, k = form < 4 ? 1 + size % 11 : 28 + size % 9;
      void *a = fenced_ones((size_t)(m * k), dtype), *b = fenced_ones((size_t)(k * n), dtype);
      float *c = fenced((size_t)(m * n), sizeof *c);
      const compute_operand inputs[] = {{dtype, {transposed & 1 ? 1 : k, transposed & 1 ? m : 1}},
                                        {dtype, {transposed & 2 ? 1 : n, transposed & 2 ? k : 1}}};
      const compute_operand output = {COMPUTE_F32, {n, 1}};
      const compute_kernel_descriptor descriptor = {
          .struct_size = sizeof descriptor,
          .kind = COMPUTE_KERNEL_GEMM,
          .rank = 2,
          .size = {m, n},
          .input_count = 2,
          .output_count = 1,
          .inputs = inputs,
          .outputs = &output,
          .accumulate = COMPUTE_F32,
          .attributes = &(compute_gemm_attributes){.k = k},
          .attribute_bytes = sizeof(compute_gemm_attributes)};
      cpu_kernel *kernel;
      assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &descriptor, &kernel),
                       COMPUTE_OK);
      assert_int_equal(kernel->run(kernel, (void *[]){a, b, c}), COMPUTE_OK);
      cpu_kernel_destroy(kernel);
      for (int64_t i = 0; i < m * n; i++) assert_true(c[i] == (float)k);
      release_fenced(a, (size_t)(m * k), bytes);
      release_fenced(b, (size_t)(k * n), bytes);
      release_fenced(c, (size_t)(m * n), sizeof *c);
    }
  }
  fixture_close(&f);
}

static void nothing_outside_the_operands_is_touched(void **state) {
  (void)state;
  touch_no_more(COMPUTE_F32);
  touch_no_more(COMPUTE_BF16);
}

static void a_failing_allocation_is_reported(void **state) {
  (void)state;
  sample s = {.a = COMPUTE_F16,
              .b = COMPUTE_F32,
              .accumulate = COMPUTE_F32,
              .output = COMPUTE_F16,
              .m = 40,
              .n = 50,
              .k = 60,
              .epilogue = BIAS_GELU};
  for (int i = 0; i < 2; i++) {
    test_random random = {.state = 9};
    operands o = make_operands(&s, &random);
    description d;
    describe(&s, &o, &d);
    check_allocation_failures(&cpu_gemm_kind, &d.descriptor, d.blocks);
    release_operands(&o);
    s.a = s.output = COMPUTE_F32;
    s.m = s.n = 5, s.k = 40000;
  }
}

/* ---- Refusals and OpenBLAS ----------------------------------------------------------------- */

static void float_operands_are_not_summed_as_integers(void **state) {
  (void)state;
  const sample s = {.a = COMPUTE_F32,
                    .b = COMPUTE_F32,
                    .accumulate = COMPUTE_I32,
                    .output = COMPUTE_I32,
                    .m = 2,
                    .n = 2,
                    .k = 2};
  test_random random = {.state = 1};
  operands o = make_operands(&s, &random);
  description d;
  describe(&s, &o, &d);
  fixture f;
  assert_true(open_device(&f, 1, NULL, NULL));
  assert_int_equal(run_kernel(&f, &cpu_gemm_kind, &d.descriptor, d.blocks),
                   COMPUTE_ERROR_UNSUPPORTED);
  assert_true(strlen(f.message) > 0);
  fixture_close(&f);
  release_operands(&o);
}

static void a_missing_blas_is_described_and_no_error(void **state) {
  (void)state;
  static const char *const names[] = {"none", "libcompute-no-such-blas.so.7", "libm.so.6"};
  for (size_t i = 0; i < 3; i++) {
    fixture f;
    assert_true(open_device(&f, 1, "scalar", names[i]));
    assert_null(cpu_blas_open(f.device));
    assert_memory_equal(cpu_blas_describe(f.device), "none: ", 6);
    assert_null(cpu_blas_warning(f.device));
    sample s = {.a = COMPUTE_F32,
                .b = COMPUTE_F32,
                .accumulate = COMPUTE_F32,
                .output = COMPUTE_F32,
                .m = 70,
                .n = 70,
                .k = 70};
    test_random random = {.state = 2};
    check_sample(&f, &s, &random);
    fixture_close(&f);
  }
}

static void a_named_blas_is_used_and_described(void **state) {
  (void)state;
  fixture f, other;
  assert_true(open_device(&f, 2, NULL, "libopenblas.so.0"));
  assert_true(open_device(&other, 2, NULL, "libopenblas.so.0"));
  if (!cpu_blas_open(f.device)) {
    fixture_close(&f);
    fixture_close(&other);
    test_skip("OpenBLAS is not installed");
  }
  assert_memory_equal(cpu_blas_describe(other.device), "OpenBLAS ", 9);
  test_random random = {.state = 2};
  const sample s = {.a = COMPUTE_F32,
                    .b = COMPUTE_F32,
                    .accumulate = COMPUTE_F32,
                    .output = COMPUTE_F32,
                    .m = 170,
                    .n = 70,
                    .k = 70};
  operands o = make_operands(&s, &random);
  description d;
  describe(&s, &o, &d);
  cpu_kernel *kernel;
  assert_int_equal(cpu_kind_prepare(&cpu_gemm_kind, f.device, &d.descriptor, &kernel), COMPUTE_OK);
  assert_non_null(strstr(kernel->description, "OpenBLAS"));
  cpu_kernel_destroy(kernel);
  assert_int_equal(cpu_kind_prepare(&cpu_even_gemm_kind, f.device, &d.descriptor, &kernel),
                   COMPUTE_OK);
  assert_null(strstr(kernel->description, "OpenBLAS"));
  cpu_kernel_destroy(kernel);
  release_operands(&o);
  fixture_close(&f);
  check_sample(&other, &s, &random); /* the library stays open after the first device has closed */
  fixture_close(&other);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(neither_threads_nor_a_busy_pool_change_a_bit),
      cmocka_unit_test(several_threads_may_run_one_kernel),
      cmocka_unit_test(nothing_outside_the_operands_is_touched),
      cmocka_unit_test(a_failing_allocation_is_reported),
      cmocka_unit_test(float_operands_are_not_summed_as_integers),
      cmocka_unit_test(a_missing_blas_is_described_and_no_error),
      cmocka_unit_test(a_named_blas_is_used_and_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
