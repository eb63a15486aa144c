/* SPDX-License-Identifier: MIT */
/* Promises about NVIDIA's libraries for single kernels, on stand-ins for cuBLASLt and cuDNN
 * (cuda_driver/libraries/). Their results are right in every accepted layout and to the requested
 * precision. If they fail or lack memory, the result is still right or the error explains the
 * failure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "support/drivers/cuda_libraries.h"
#include "support/harness/failing_allocator.h"
#include "support/samples/sample_memory.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, OPERANDS = COMPUTE_MAX_OPERANDS };

/* ---- Samples ------------------------------------------------------------------------------- */

static void run_on(compute_device *device, void *kernel, sample_memory *m) {
  const compute_backend *b = device->backend;
  compute_memory memory[OPERANDS];
  compute_argument arguments[OPERANDS];
  void *queue = NULL;
  assert_ok(b->queue_create(device->handle, &queue));
  for (uint32_t i = 0; i < m->count; i++) {
    const sample_operand *o = &m->operand[i];
    assert_ok(b->memory_allocate(device->handle, o->bytes, &memory[i]));
    arguments[i] = (compute_argument){&memory[i], 0};
    assert_ok(b->upload(queue, &arguments[i], o->before, o->bytes));
    arguments[i].offset = o->offset;
  }
  assert_ok(b->queue_wait(queue));
  assert_ok(b->enqueue(queue, kernel, arguments, m->count));
  for (uint32_t i = 0; i < m->count; i++) {
    arguments[i].offset = 0;
    assert_ok(b->download(queue, m->operand[i].after, &arguments[i], m->operand[i].bytes));
  }
  assert_ok(b->queue_wait(queue));
  for (uint32_t i = 0; i < m->count; i++) b->memory_release(device->handle, &memory[i]);
  b->queue_destroy(queue);
}

static void check_run(compute_device *device, void *kernel, const sample_kernel *s, bool shift) {
  char problem[400];
  sample_memory m;
  assert_true(sample_memory_create(s, shift, &m) && sample_memory_expect(&m));
  run_on(device, kernel, &m);
  if (!sample_memory_check(&m, problem, sizeof problem)) fail_msg("%s: %s", s->name, problem);
  sample_memory_release(&m);
}

typedef struct visit {
  compute_context *context;
  compute_device *gpu;
  compute_kernel_kind kind;
  uint32_t implementation;
  bool shift; /* operands are one element off the memory's alignment */
  int seen, served, staged;
} visit;

static void visit_sample(const sample_kernel *s, void *user) {
  visit *v = user;
  const compute_backend *b = v->gpu->backend;
  const compute_tuning tuning = {.implementation = v->implementation};
  void *kernel = NULL;
  char text[200];
  if (s->large || s->descriptor.kind != v->kind) return;
  v->seen++;
  if (!b->implementation_name(v->gpu->handle, &s->descriptor, v->implementation)) {
    assert_int_equal(b->kernel_prepare_tuned(v->gpu->handle, &s->descriptor, &tuning, &kernel),
                     COMPUTE_ERROR_UNSUPPORTED);
    return;
  }
  const compute_status status =
      b->kernel_prepare_tuned(v->gpu->handle, &s->descriptor, &tuning, &kernel);
  if (status != COMPUTE_OK) fail_msg("%s: %s", s->name, compute_error_message(NULL));
  b->kernel_describe(v->gpu->handle, kernel, text, sizeof text);
  v->served++;
  v->staged += strstr(text, ", then ") != NULL;
  check_run(v->gpu, kernel, s, v->shift);
  b->kernel_destroy(v->gpu->handle, kernel);
}

static visit visit_all(compute_kernel_kind kind, uint32_t implementation, bool shift) {
  visit v = {.context = cuda_libraries_open("cuda:0"),
             .kind = kind,
             .implementation = implementation,
             .shift = shift};
  v.gpu = compute_default_device(v.context);
  if (kind == COMPUTE_KERNEL_GEMM)
    sample_gemm_kernels(visit_sample, &v);
  else
    sample_conv_kernels(visit_sample, &v);
  cuda_libraries_close(v.context);
  print_message("%d samples, %d served, %d of them with an epilogue behind\n", v.seen, v.served,
                v.staged);
  return v;
}

static void products_match_in_every_layout_that_is_served(void **state) {
  (void)state;
  assert_true(blas.configure(""));
  for (int shift = 0; shift < 2; shift++) {
    const visit v = visit_all(COMPUTE_KERNEL_GEMM, 1, shift);
    assert_true(v.served > 10 && v.staged > 0 && v.served < v.seen);
  }
}

static void convolutions_match_in_every_layout_that_is_served(void **state) {
  (void)state;
  assert_true(dnn.configure(""));
  for (int shift = 0; shift < 2; shift++) {
    const visit v = visit_all(COMPUTE_KERNEL_CONV, 1, shift);
    assert_true(v.served > 10 && v.staged > 0 && v.served < v.seen);
  }
  assert_true(dnn.count("exact") > 0);
}

/* With its filter flipped, a convolution runs as a gradient with respect to the data, and such a
 * gradient runs as a convolution. */
static void convolutions_match_with_their_filters_turned(void **state) {
  (void)state;
  assert_true(dnn.configure(""));
  for (int shift = 0; shift < 2; shift++) {
    const visit v = visit_all(COMPUTE_KERNEL_CONV, 2, shift);
    assert_true(v.served > 5 && v.staged > 0 && v.served < v.seen);
  }
}

/* ---- Precision ----------------------------------------------------------------------------- */

enum { SIDE = 24, DEPTH = 512 };

static void square_product(sample_kernel *s, compute_precision precision) {
  sample_begin(s, COMPUTE_KERNEL_GEMM, COMPUTE_SHAPE(SIDE, SIDE), "precision");
  s->attributes.gemm.k = DEPTH;
  s->descriptor.accumulate = COMPUTE_F32;
  s->attributes.gemm.precision = precision;
  compute_operand *a = sample_input(s, COMPUTE_F32, 0);
  a->stride[0] = DEPTH;
  a->stride[1] = 1;
  compute_operand *b = sample_input(s, COMPUTE_F32, 0);
  b->stride[0] = SIDE;
  b->stride[1] = 1;
  sample_output(s, COMPUTE_F32, 3);
  s->low = 0.5;
  s->high = 1;
}

static void measure_product(const sample_kernel *s, void *user) {
  double *worst = user;
  const compute_tuning tuning = {.implementation = 1};
  compute_context *context = cuda_libraries_open("cuda:0");
  compute_device *device = compute_default_device(context);
  void *kernel = NULL;
  sample_memory m;
  assert_ok(
      device->backend->kernel_prepare_tuned(device->handle, &s->descriptor, &tuning, &kernel));
  assert_true(sample_memory_create(s, false, &m));
  run_on(device, kernel, &m);
  const sample_operand *o = m.operand;
  const float *a = (const float *)(void *)(o[0].before + o[0].offset);
  const float *b = (const float *)(void *)(o[1].before + o[1].offset);
  const float *y = (const float *)(void *)(o[2].after + o[2].offset);
  *worst = 0;
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) {
      double sum = 0;
      for (int k = 0; k < DEPTH; k++) sum += (double)a[i * DEPTH + k] * (double)b[k * SIDE + j];
      const double error = fabs((double)y[i * SIDE + j] - sum) / sum;
      if (error > *worst) *worst = error;
    }
  sample_memory_release(&m);
  device->backend->kernel_destroy(device->handle, kernel);
  cuda_libraries_close(context);
}

static void f32_is_exact_unless_tf32_is_asked_for(void **state) {
  (void)state;
  static sample_kernel s;
  double strict, loose;
  assert_true(blas.configure(""));
  square_product(&s, COMPUTE_PRECISION_STRICT);
  sample_end(&s, measure_product, &strict);
  square_product(&s, COMPUTE_PRECISION_TF32);
  sample_end(&s, measure_product, &loose);
  print_message("relative errors: strict %.2g, TF32 %.2g\n", strict, loose);
  assert_true(strict < 1e-6);
  assert_true(loose > 3e-6);
}

/* Only the run with TF32 may round. The library's rounding engine is the first that it proposes;
 * the strict run must not use it. Neither may use the engine that rounds although it claims not to:
 * the trial run detects it. */
static void convolve_both_ways(const sample_kernel *s, void *user) {
  int *seen = user;
  if (s->descriptor.inputs[0].dtype != COMPUTE_F32 || (*seen)++ > 0) return;
  compute_context *context = cuda_libraries_open("cuda:0");
  compute_device *device = compute_default_device(context);
  const compute_tuning tuning = {.implementation = 1};
  for (int way = 0; way < 2; way++) {
    compute_kernel_descriptor d = s->descriptor;
    void *kernel = NULL;
    any_attributes attributes = s->attributes;
    attributes_bind(&d, &attributes);
    attributes.conv.precision = way ? COMPUTE_PRECISION_TF32 : COMPUTE_PRECISION_STRICT;
    assert_true(dnn.configure(""));
    assert_ok(device->backend->kernel_prepare_tuned(device->handle, &d, &tuning, &kernel));
    assert_true(dnn.count("lying") > 0);
    if (way)
      assert_true(dnn.count("rounding") > 0);
    else
      assert_int_equal(dnn.count("rounding"), 0);
    assert_true(dnn.configure(""));
    sample_memory m;
    assert_true(sample_memory_create(s, false, &m));
    run_on(device, kernel, &m);
    sample_memory_release(&m);
    device->backend->kernel_destroy(device->handle, kernel);
    if (!way) {
      assert_int_equal(dnn.count("rounding") + dnn.count("lying"), 0);
      assert_int_equal(dnn.count("exact"), 1);
    }
  }
  cuda_libraries_close(context);
}

static void strict_convolutions_take_no_engine_that_rounds(void **state) {
  (void)state;
  int seen = 0;
  sample_conv_kernels(convolve_both_ways, &seen);
  assert_true(seen > 0);
}

/* Returns true if the library tries a Winograd engine for a convolution of this kind. */
static bool is_filtered(compute_device *device, const sample_kernel *s, compute_dtype dtype,
                        compute_precision precision) {
  const compute_tuning tuning = {.implementation = 1};
  compute_kernel_descriptor d = s->descriptor;
  any_attributes attributes = s->attributes;
  void *kernel = NULL;
  attributes_bind(&d, &attributes);
  attributes.conv.precision = precision;
  if (d.inputs[0].dtype != dtype || !device->backend->implementation_name(device->handle, &d, 1))
    return false;
  assert_true(dnn.configure(""));
  assert_ok(device->backend->kernel_prepare_tuned(device->handle, &d, &tuning, &kernel));
  device->backend->kernel_destroy(device->handle, kernel);
  return dnn.count("filtering") > 0;
}

typedef struct filtered {
  compute_device *device;
  size_t samples;
  int allowed;
} filtered;

static void filter_if_allowed(const sample_kernel *s, void *user) {
  filtered *seen = user;
  const compute_conv_attributes *c = &s->attributes.conv;
  if (s->large || s->descriptor.kind != COMPUTE_KERNEL_CONV || !test_in_turn(seen->samples++))
    return;
  const bool fits = c->filter_size[0] == 3 && c->filter_size[1] == 3 && c->stride[0] == 1 &&
                    c->stride[1] == 1 && c->dilation[0] == 1 && c->dilation[1] == 1;
  assert_false(is_filtered(seen->device, s, COMPUTE_F32, COMPUTE_PRECISION_STRICT));
  assert_false(is_filtered(seen->device, s, COMPUTE_F32, COMPUTE_PRECISION_TF32));
  assert_false(is_filtered(seen->device, s, COMPUTE_F16, COMPUTE_PRECISION_WINOGRAD));
  const bool allowed = is_filtered(seen->device, s, COMPUTE_F32, COMPUTE_PRECISION_WINOGRAD);
  if (allowed && !fits) fail_msg("%s: Winograd's filtering is not for it", s->name);
  seen->allowed += allowed;
}

static void winograd_is_taken_only_where_it_is_allowed(void **state) {
  (void)state;
  compute_context *context = cuda_libraries_open("cuda:0");
  filtered seen = {.device = compute_default_device(context)};
  sample_conv_kernels(filter_if_allowed, &seen);
  cuda_libraries_close(context);
  assert_true(seen.allowed > 0);
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* Prepares a convolution while some call fails. */
static void convolve_with_failures(const sample_kernel *s, void *user) {
  static const char *const calls[] = {"cudnnCreate",
                                      "cudnnSetStream",
                                      "cudnnBackendCreateDescriptor",
                                      "cudnnBackendSetAttribute",
                                      "cudnnBackendGetAttribute",
                                      "cudnnBackendFinalize",
                                      "cudnnBackendExecute"};
  int *seen = user;
  if (s->descriptor.inputs[0].dtype != COMPUTE_F32 || (*seen)++ > 0) return;
  const compute_tuning tuning = {.implementation = 1};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    bool reached = true;
    for (int nth = 1; reached; nth += 1 + nth / 2) {
      char orders[128];
      void *kernel = NULL;
      compute_context *context = cuda_libraries_open("cuda:0");
      compute_device *device = compute_default_device(context);
      snprintf(orders, sizeof orders, "fail=%s:%d:4000", calls[i], nth);
      assert_true(dnn.configure(orders));
      const compute_status status =
          device->backend->kernel_prepare_tuned(device->handle, &s->descriptor, &tuning, &kernel);
      reached = dnn.count(calls[i]) >= nth;
      if (status == COMPUTE_OK) {
        assert_true(dnn.configure(""));
        check_run(device, kernel, s, false);
        device->backend->kernel_destroy(device->handle, kernel);
      } else {
        assert_true(reached);
        assert_true(strlen(compute_error_message(NULL)) > 0);
      }
      cuda_libraries_close(context);
    }
  }
}

static void any_call_of_the_library_for_convolutions_may_fail(void **state) {
  (void)state;
  int seen = 0;
  sample_conv_kernels(convolve_with_failures, &seen);
  assert_true(dnn.configure(""));
}

/* Host memory may be short at any request while a library's kernel is prepared. */
static void starve(const sample_kernel *s, void *user) {
  int *seen = user;
  if (s->descriptor.inputs[0].dtype != COMPUTE_F32 || s->large || (*seen)++ > 0) return;
  const compute_tuning tuning = {.implementation = 1};
  failing_allocator_install();
  compute_context *context = cuda_libraries_open("cuda:0");
  compute_device *device = compute_default_device(context);
  void *kernel = NULL;
  bool failed = true;
  for (int64_t nth = 1; failed; nth++) {
    failing_allocator_arm(nth, false);
    const compute_status status =
        device->backend->kernel_prepare_tuned(device->handle, &s->descriptor, &tuning, &kernel);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    assert_true(failed || status == COMPUTE_OK);
    if (status == COMPUTE_OK) device->backend->kernel_destroy(device->handle, kernel);
    if (status != COMPUTE_OK) assert_int_equal(status, COMPUTE_ERROR_OUT_OF_MEMORY);
  }
  cuda_libraries_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

static void host_memory_may_be_short_at_any_request(void **state) {
  (void)state;
  int seen = 0;
  sample_gemm_kernels(starve, &seen);
  seen = 0;
  sample_conv_kernels(starve, &seen);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_match_in_every_layout_that_is_served),
      cmocka_unit_test(convolutions_match_in_every_layout_that_is_served),
      cmocka_unit_test(convolutions_match_with_their_filters_turned),
      cmocka_unit_test(f32_is_exact_unless_tf32_is_asked_for),
      cmocka_unit_test(strict_convolutions_take_no_engine_that_rounds),
      cmocka_unit_test(winograd_is_taken_only_where_it_is_allowed),
      cmocka_unit_test(any_call_of_the_library_for_convolutions_may_fail),
      cmocka_unit_test(host_memory_may_be_short_at_any_request),
  };
  if (!cuda_libraries_begin()) {
    fprintf(stderr, "Skipped: no stand-ins for the CUDA driver and NVIDIA's libraries.\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
