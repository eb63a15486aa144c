/* SPDX-License-Identifier: MIT */
/* The cache of prepared kernels, over a backend that counts its calls. */
#include "support/harness/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/device/kernel_cache.h"
#include "core/kernel/common/program.h"
#include "support/samples/attributes.h"

/* ---- A backend that counts ----------------------------------------------------------------- */

static struct {
  _Atomic int32_t prepared, destroyed;
  compute_status failure;
  pthread_barrier_t *rendezvous; /* prepare waits here for another thread; NULL: does not wait */
} counts;

static compute_status count_prepare(void *device, const compute_kernel_descriptor *descriptor,
                                    void **kernel) {
  (void)device;
  (void)descriptor;
  if (counts.failure) return counts.failure;
  if (counts.rendezvous) pthread_barrier_wait(counts.rendezvous);
  *kernel = malloc(1);
  atomic_fetch_add_explicit(&counts.prepared, 1, memory_order_relaxed);
  return COMPUTE_OK;
}

static void count_destroy(void *device, void *kernel) {
  (void)device;
  free(kernel);
  atomic_fetch_add_explicit(&counts.destroyed, 1, memory_order_relaxed);
}

static const compute_backend backend = {.struct_size = sizeof backend,
                                        .kernel_prepare = count_prepare,
                                        .kernel_destroy = count_destroy};
static compute_device device = {.backend = &backend};

static int set_up(void **state) {
  memset(&counts, 0, sizeof counts);
  *state = kernel_cache_create(&device);
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  kernel_cache_release(*state);
  return counts.prepared == counts.destroyed ? 0 : -1;
}

/* ---- Descriptors --------------------------------------------------------------------------- */

typedef struct sample {
  compute_kernel_descriptor d;
  any_attributes a;
  compute_operand input[2], output[1];
  program_builder prologue, epilogue;
} sample;

static void fill_sample(sample *s, compute_kernel_kind kind) {
  memset(s, 0, sizeof *s);
  s->d = (compute_kernel_descriptor){.struct_size = sizeof s->d,
                                     .kind = kind,
                                     .rank = 2,
                                     .size = {4, 5},
                                     .input_count = 1,
                                     .output_count = 1,
                                     .inputs = s->input,
                                     .outputs = s->output};
  attributes_bind(&s->d, &s->a);
  for (int k = 0; k < 2; k++) s->input[k] = (compute_operand){COMPUTE_F32, {5, 1}};
  s->output[0] = (compute_operand){COMPUTE_F32, {5, 1}};
}

static void fill_map(sample *s) {
  fill_sample(s, COMPUTE_KERNEL_MAP);
  uint16_t x = program_load(&s->epilogue, COMPUTE_F32, 0);
  compute_instruction scale = {
      .code = COMPUTE_I_LEAKY_RELU, .type = COMPUTE_F32, .a = x, .immediate.f64 = 0.5};
  program_store(&s->epilogue, program_instruction(&s->epilogue, scale));
  s->d.epilogue = program_finish(&s->epilogue);
}

static void fill_row(sample *s) {
  fill_sample(s, COMPUTE_KERNEL_ROW);
  s->a.row.operation = COMPUTE_ROW_NORMALIZE;
  s->a.row.epsilon = 1e-5;
  s->d.accumulate = COMPUTE_F32;
  s->d.prologue_inputs = 1;
}

static void fill_gemm(sample *s) {
  fill_sample(s, COMPUTE_KERNEL_GEMM);
  s->d.input_count = 2;
  s->d.accumulate = COMPUTE_F32;
  s->a.gemm.k = 3;
}

static void fill_convolution(sample *s) {
  fill_sample(s, COMPUTE_KERNEL_CONV);
  for (int d = 0; d < 4; d++) s->output[0].stride[d] = 1 << (3 * (3 - d));
  s->d.rank = 4;
  s->d.size[0] = s->d.size[1] = s->d.size[2] = s->d.size[3] = 1;
  s->d.input_count = 2;
  s->d.accumulate = COMPUTE_F32;
  s->a.conv = (compute_conv_attributes){.groups = 1,
                                        .batch = 1,
                                        .data_channels = 2,
                                        .result_channels = 1,
                                        .data_size = {5, 5},
                                        .result_size = {1, 1},
                                        .filter_size = {3, 3},
                                        .stride = {1, 1},
                                        .dilation = {1, 1}};
}

static void fill_even_convolution(sample *s) {
  fill_convolution(s);
  s->a.conv.result_channels = s->d.size[1] = 8;
}

/* A gradient whose data and result have one element. */
static void fill_gradient(sample *s) {
  fill_convolution(s);
  s->a.conv.direction = COMPUTE_CONVOLUTION_BY_DATA;
  s->a.conv.data_channels = 1;
  s->a.conv.data_size[0] = s->a.conv.data_size[1] = 1;
}

static kernel_entry *get(kernel_cache *cache, const sample *s) {
  kernel_entry *entry;
  assert_ok(kernel_cache_get(cache, &s->d, &entry));
  assert_non_null(entry->kernel);
  return entry;
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void equal_descriptors_share_a_kernel(void **state) {
  static sample a, b;
  fill_map(&a);
  fill_map(&b);
  /* Fields that the kind ignores make no difference, nor do entries beyond the rank. */
  b.d.size[5] = 77;
  b.input[0].stride[6] = 3;
  b.a.gemm.k = 9;
  b.a.index.axis_size = 1;
  b.a.row.epsilon = 2;
  b.d.accumulate = COMPUTE_F64;
  b.epilogue.instruction[0].a = 5;
  b.epilogue.instruction[1].c = 8;
  kernel_entry *first = get(*state, &a), *second = get(*state, &b);
  assert_ptr_equal(first, second);
  assert_int_equal(counts.prepared, 1);
  kernel_cache_return(*state, first);
  kernel_cache_return(*state, second);
  kernel_cache_return(*state, NULL);
  first = get(*state, &a);
  assert_int_equal(counts.prepared, 1);
  kernel_cache_return(*state, first);
}

/* Changes one field and expects a different kernel. */
#define CHECK_DISTINCT(fill, change)                                                               \
  do {                                                                                             \
    static sample s;                                                                               \
    int32_t before;                                                                                \
    fill(&s);                                                                                      \
    kernel_cache_return(*state, get(*state, &s));                                                  \
    before = counts.prepared;                                                                      \
    kernel_cache_return(*state, get(*state, &s));                                                  \
    assert_int_equal(counts.prepared, before);                                                     \
    change;                                                                                        \
    kernel_cache_return(*state, get(*state, &s));                                                  \
    assert_int_equal(counts.prepared, before + 1);                                                 \
  } while (0)

static void every_field_that_matters_is_in_the_key(void **state) {
  CHECK_DISTINCT(fill_map, s.d.size[0] = 40);
  CHECK_DISTINCT(fill_map, s.d.rank = 1);
  CHECK_DISTINCT(fill_map, s.input[0].stride[0] = 6);
  CHECK_DISTINCT(fill_map, s.input[0].dtype = COMPUTE_F16);
  CHECK_DISTINCT(fill_map, s.output[0].dtype = COMPUTE_BF16);
  CHECK_DISTINCT(fill_map, s.output[0].stride[0] = 8);
  CHECK_DISTINCT(fill_map, s.epilogue.instruction[1].immediate.f64 = 0.25);
  CHECK_DISTINCT(fill_map, s.epilogue.instruction[1].code = COMPUTE_I_ELU);
  CHECK_DISTINCT(fill_map, s.epilogue.output[0] = 0);
  CHECK_DISTINCT(fill_map, s.d.input_count = 2);
  CHECK_DISTINCT(fill_row, s.a.row.epsilon = 1e-6);
  CHECK_DISTINCT(fill_row, s.a.row.operation = COMPUTE_ROW_SOFTMAX);
  CHECK_DISTINCT(fill_gemm, s.a.gemm.k = 4);
  CHECK_DISTINCT(fill_gemm, s.a.gemm.precision = COMPUTE_PRECISION_TF32);
}

static void every_field_of_a_convolution_is_in_the_key(void **state) {
  CHECK_DISTINCT(fill_convolution, s.a.conv.precision = COMPUTE_PRECISION_TF32);
  CHECK_DISTINCT(fill_convolution, s.a.conv.batch = s.d.size[0] = 2);
  CHECK_DISTINCT(fill_convolution, s.a.conv.data_channels = 3);
  CHECK_DISTINCT(fill_convolution, s.a.conv.result_channels = s.d.size[1] = 2);
  for (int d = 0; d < 2; d++) {
    CHECK_DISTINCT(fill_convolution, s.a.conv.data_size[d] = 6);
    CHECK_DISTINCT(fill_convolution, s.a.conv.filter_size[d] = 2);
    CHECK_DISTINCT(fill_convolution, s.a.conv.stride[d] = 2);
    CHECK_DISTINCT(fill_convolution, s.a.conv.dilation[d] = 2);
    CHECK_DISTINCT(fill_convolution, s.a.conv.padding[d] = 1);
    CHECK_DISTINCT(fill_convolution, s.a.conv.result_size[d] = s.d.size[2 + d] = 2);
    CHECK_DISTINCT(fill_gradient, s.a.conv.result_size[d] = 2);
  }
  CHECK_DISTINCT(fill_gradient, s.a.conv.direction = COMPUTE_CONVOLUTION_FORWARD);
  CHECK_DISTINCT(fill_gradient, s.a.conv.result_channels = 2);
  CHECK_DISTINCT(fill_gradient, s.a.conv.batch = s.d.size[0] = 2);
  /* Only the groups: both numbers of channels stay the same. */
  CHECK_DISTINCT(fill_even_convolution, s.a.conv.groups = 2);
}

static void kernels_in_use_are_never_dropped(void **state) {
  static sample s;
  fill_map(&s);
  kernel_entry *held = get(*state, &s);
  void *kernel = held->kernel;
  for (int64_t i = 0; i < 2000; i++) {
    s.d.size[0] = 100 + i;
    kernel_cache_return(*state, get(*state, &s));
  }
  assert_int_equal(counts.prepared, 2001);
  int32_t kept = counts.prepared - counts.destroyed;
  assert_true(kept > 100 && kept < 1000);
  /* The newest are still cached, the oldest are not. */
  s.d.size[0] = 100 + 1999;
  kernel_cache_return(*state, get(*state, &s));
  assert_int_equal(counts.prepared, 2001);
  s.d.size[0] = 100;
  kernel_cache_return(*state, get(*state, &s));
  assert_int_equal(counts.prepared, 2002);
  s.d.size[0] = 4;
  assert_ptr_equal(get(*state, &s)->kernel, kernel);
  kernel_cache_return(*state, held);
  kernel_cache_return(*state, held);
}

static void failures_leave_nothing_behind(void **state) {
  static sample s;
  fill_map(&s);
  kernel_entry *entry = (kernel_entry *)&s;
  counts.failure = COMPUTE_ERROR_COMPILATION;
  assert_int_equal(kernel_cache_get(*state, &s.d, &entry), COMPUTE_ERROR_COMPILATION);
  assert_null(entry);
  counts.failure = COMPUTE_OK;
  kernel_cache_return(*state, get(*state, &s));
  s.d.size[1] = -1;
  assert_fails(kernel_cache_get(*state, &s.d, &entry), COMPUTE_ERROR_INTERNAL);
  s.d.size[1] = 5;
  s.d.rank = 1000;
  assert_fails(kernel_cache_get(*state, &s.d, &entry), COMPUTE_ERROR_INTERNAL);
  s.d.rank = 2;
  s.d.epilogue.count = 5000;
  assert_fails(kernel_cache_get(*state, &s.d, &entry), COMPUTE_ERROR_INTERNAL);
  assert_int_equal(counts.prepared, 1);
}

typedef struct racer {
  kernel_cache *cache;
  const sample *s;
  kernel_entry *entry;
} racer;

static void *race(void *argument) {
  racer *r = argument;
  if (kernel_cache_get(r->cache, &r->s->d, &r->entry)) r->entry = NULL;
  return NULL;
}

static void two_threads_may_prepare_at_once(void **state) {
  static sample s;
  fill_map(&s);
  pthread_barrier_t rendezvous;
  pthread_barrier_init(&rendezvous, NULL, 2);
  counts.rendezvous = &rendezvous; /* both threads are inside prepare at the same time */
  racer racers[2] = {{*state, &s, NULL}, {*state, &s, NULL}};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, race, &racers[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  counts.rendezvous = NULL;
  assert_non_null(racers[0].entry);
  assert_ptr_equal(racers[0].entry, racers[1].entry);
  assert_int_equal(counts.prepared, 2);
  assert_int_equal(counts.destroyed, 1);
  for (int i = 0; i < 2; i++) kernel_cache_return(*state, racers[i].entry);
  pthread_barrier_destroy(&rendezvous);
}

static void *churn(void *argument) {
  racer *r = argument;
  sample *s = malloc(sizeof *s);
  fill_map(s);
  for (int64_t i = 0; i < 3000; i++) {
    s->d.size[0] = 1 + i * 7 % 700;
    if (kernel_cache_get(r->cache, &s->d, &r->entry)) break;
    kernel_cache_return(r->cache, r->entry);
  }
  free(s);
  return NULL;
}

static void threads_share_one_cache(void **state) {
  racer racers[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    racers[i] = (racer){.cache = *state};
    assert_int_equal(pthread_create(&thread[i], NULL, churn, &racers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    assert_non_null(racers[i].entry);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(equal_descriptors_share_a_kernel, set_up, tear_down),
      cmocka_unit_test_setup_teardown(every_field_that_matters_is_in_the_key, set_up, tear_down),
      cmocka_unit_test_setup_teardown(every_field_of_a_convolution_is_in_the_key, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(kernels_in_use_are_never_dropped, set_up, tear_down),
      cmocka_unit_test_setup_teardown(failures_leave_nothing_behind, set_up, tear_down),
      cmocka_unit_test_setup_teardown(two_threads_may_prepare_at_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(threads_share_one_cache, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
