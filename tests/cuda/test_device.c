/* SPDX-License-Identifier: MIT */
/* Promises of the CUDA backend, on the stand-in of tests/cuda_driver/: messages without a usable
 * GPU, a lost device, a full one, fork, steady states, changing bindings, several GPUs, custom
 * kernels, host memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/drivers/cuda_stand_in.h"
#include "support/drivers/device_job.h"
#include "support/harness/test.h"

enum { SKIPPED = 77 };

static cuda_stand_in gpu;

static compute_context *open_with(const char *orders, const char *device) {
  compute_context *context = NULL;
  assert_true(gpu.configure(orders));
  assert_ok(compute_open(&context, &(compute_open_options){.device = device}));
  return context;
}

/* Closes the context: nothing is left, and no call broke a rule of the driver. */
static void close_clean(compute_context *context) {
  char text[256];
  test_close(context);
  assert_true(gpu.configure("")); /* a lost device's objects are gone */
  if (gpu.live(text, sizeof text)) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text)) fail_msg("%s", text);
}

/* ---- No GPU -------------------------------------------------------------------------------- */

/* Without a usable device, the reason can be queried and the CPU works. This test runs first: a
 * driver that has started is not asked again. */
static void a_device_that_cannot_be_used_is_explained(void **state) {
  (void)state;
  static const struct {
    const char *orders, *visible, *words;
  } cases[] = {
      {"init=34", NULL, "stub"},
      {"init=100", NULL, "no GPU"},
      {"", "", "no GPU"},
      {"device_count=2", "7", "CUDA_VISIBLE_DEVICES=7"},
      {"", "nonsense", "CUDA_VISIBLE_DEVICES=nonsense"},
      {"driver_version=10020", NULL, "no usable NVIDIA driver"},
      {"init=999", NULL, "CUDA_ERROR_UNKNOWN"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_context *context = NULL;
    assert_true(gpu.configure(cases[i].orders));
    if (cases[i].visible) setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
    assert_int_not_equal(compute_open(&context, &(compute_open_options){.device = "cuda:0"}),
                         COMPUTE_OK);
    assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
    const compute_probe *probe, *found = NULL;
    for (size_t k = 0; compute_device_at(context, k); k++) continue; /* opens all modules */
    for (size_t k = 0; (probe = compute_probe_at(context, k)) != NULL; k++)
      if (strcmp(probe->name, "cuda") == 0 && !found) found = probe;
    assert_non_null(found);
    if (!strstr(found->detail, cases[i].words))
      fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].orders, found->detail, cases[i].words);
    if (found->remedy[0] == '\0') fail_msg("no remedy for \"%s\"", found->detail);
    close_clean(context);
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
}

/* ---- Lost, full, forked -------------------------------------------------------------------- */

static void a_lost_device_tells_its_first_cause_and_leaves_the_driver_alone(void **state) {
  (void)state;
  compute_context *context = open_with("fail=kernel:3:700", "cuda:0");
  job_result result;
  assert_fails(device_job(context, &result), COMPUTE_ERROR_DEVICE_LOST);
  test_check_message(context, "CUDA_ERROR_ILLEGAL_ADDRESS");
  assert_true(gpu.configure("keep=1"));
  for (int i = 0; i < 3; i++) {
    assert_fails(device_job(context, &result), COMPUTE_ERROR_DEVICE_LOST);
    test_check_message(context, "lost since");
    test_check_message(context, "CUDA_ERROR_ILLEGAL_ADDRESS");
  }
  assert_int_equal(cuda_stand_in_calls(&gpu, NULL), cuda_stand_in_calls(&gpu, "cuGetErrorName"));
  compute_device *cpu = NULL;
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_device_push(cpu));
  assert_ok(device_job(context, &result));
  assert_ok(compute_device_pop(context));
  close_clean(context);
  context = open_with("", "cuda:0");
  assert_ok(device_job(context, &result));
  close_clean(context);
}

static void a_full_device_says_so_and_goes_on(void **state) {
  (void)state;
  compute_context *context = open_with("memory=16M", "cuda:0");
  compute_device *device = compute_default_device(context);
  compute_tensor *large = NULL;
  job_result result;
  assert_fails(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(8 << 20), &large),
               COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_ok(device_job(context, &result));
  close_clean(context);
}

static void a_forked_child_cannot_use_the_device_and_does_no_harm(void **state) {
  (void)state;
  compute_context *context = open_with("", "cuda:0");
  job_result result;
  assert_ok(device_job(context, &result));
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    const float one = 1;
    compute_tensor *made = NULL;
    const int64_t before = cuda_stand_in_calls(&gpu, NULL);
    const compute_status s = compute_tensor_from_host(compute_default_device(context), COMPUTE_F32,
                                                      COMPUTE_SHAPE(1), &one, &made);
    const bool touched = cuda_stand_in_calls(&gpu, NULL) != before;
    _exit(s != COMPUTE_ERROR_INVALID_STATE ? 1 : touched ? 2 : 0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_ok(device_job(context, &result));
  close_clean(context);
}

/* ---- Plans --------------------------------------------------------------------------------- */

enum { WIDTH = 33, TURNS = 12 };

/* y = softmax(gelu(x w)) summed over its rows; several kernels, so that they are recorded. */
typedef struct chain {
  compute_graph *graph;
  compute_plan *plan;
  compute_node x, y;
} chain;

static void chain_build(compute_context *context, chain *c) {
  static float w[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = 0.02F * (float)((i * 31 + 7) % 23 - 11);
  compute_tensor *weights = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(WIDTH, WIDTH), w);
  c->graph = compute_graph_create(context);
  c->x = compute_input(c->graph, COMPUTE_F32, COMPUTE_SHAPE(WIDTH, WIDTH));
  compute_node h = c->x;
  for (int i = 0; i < 3; i++)
    h = compute_gelu(c->graph, compute_matmul(c->graph, h, compute_parameter(c->graph, weights)));
  c->y = compute_sum(c->graph, h, COMPUTE_AXES(1), false);
  c->plan = test_compile(c->graph, &c->y, 1, 0);
  compute_tensor_release(weights);
}

static void chain_release(chain *c) {
  compute_plan_release(c->plan);
  compute_graph_release(c->graph);
}

static compute_tensor *chain_input(compute_context *context, int turn) {
  float values[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++)
    values[i] = 0.05F * (float)((i * (17 + 2 * turn) + turn) % 41 - 20);
  return test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(WIDTH, WIDTH), values);
}

static void in_a_steady_state_nothing_is_allocated_or_waited_for(void **state) {
  (void)state;
  static const char *const never[] = {"cuMemAlloc",
                                      "cuMemFree",
                                      "cuMemAllocFromPoolAsync",
                                      "cuMemFreeAsync",
                                      "cuMemHostAlloc",
                                      "cuMemFreeHost",
                                      "cuStreamCreate",
                                      "cuModuleLoadData",
                                      "cuStreamSynchronize",
                                      "cuEventSynchronize",
                                      "cuGraphInstantiateWithFlags"};
  compute_context *context = open_with("", "cuda:0");
  chain c;
  chain_build(context, &c);
  compute_queue *queue = NULL;
  compute_tensor *x = chain_input(context, 0), *y = NULL;
  assert_ok(compute_plan_create_tensor(c.plan, c.y, &y));
  assert_ok(compute_queue_create(compute_default_device(context), &queue));
  const compute_binding bindings[] = {{c.x, x}, {c.y, y}};
  /* As many runs as will be in progress at once: each has its own workspace. */
  for (int i = 0; i < TURNS; i++) assert_ok(compute_run(c.plan, bindings, 2, queue));
  assert_ok(compute_queue_wait(queue));
  assert_true(gpu.configure("keep=1"));
  for (int i = 0; i < TURNS; i++) assert_ok(compute_run(c.plan, bindings, 2, queue));
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    if (cuda_stand_in_calls(&gpu, never[i]) != 0)
      fail_msg("%lld calls of %s in %d runs", (long long)cuda_stand_in_calls(&gpu, never[i]),
               never[i], TURNS);
  print_message("%lld calls of the driver in %d runs: %lld graphs, %lld kernels\n",
                (long long)cuda_stand_in_calls(&gpu, NULL), TURNS,
                (long long)cuda_stand_in_calls(&gpu, "cuGraphLaunch"),
                (long long)cuda_stand_in_calls(&gpu, "cuLaunchKernel"));
  assert_int_equal(cuda_stand_in_calls(&gpu, "cuGraphLaunch"), TURNS);
  assert_int_equal(cuda_stand_in_calls(&gpu, "cuLaunchKernel"), 0);
  assert_ok(compute_queue_wait(queue));
  assert_int_equal(cuda_stand_in_calls(&gpu, "cuStreamSynchronize"), 1);
  compute_queue_release(queue);
  compute_tensor_release(x);
  compute_tensor_release(y);
  chain_release(&c);
  close_clean(context);
}

/* Each run has its own tensors; the test waits only after the last run. */
static void recordings_follow_their_bindings(void **state) {
  (void)state;
  float expected[TURNS][WIDTH], got[WIDTH];
  for (int device = 0; device < 2; device++) {
    compute_context *context = open_with("delay_copies=1", device ? "cuda:0" : "cpu");
    chain c;
    chain_build(context, &c);
    compute_queue *queue = NULL;
    compute_tensor *x[TURNS], *y[TURNS];
    assert_ok(compute_queue_create(compute_default_device(context), &queue));
    for (int i = 0; i < TURNS; i++) {
      x[i] = chain_input(context, i);
      assert_ok(compute_plan_create_tensor(c.plan, c.y, &y[i]));
    }
    for (int i = 0; i < TURNS; i++)
      assert_ok(compute_run(c.plan, (compute_binding[]){{c.x, x[i]}, {c.y, y[i]}}, 2, queue));
    assert_ok(compute_queue_wait(queue));
    for (int i = 0; i < TURNS; i++) {
      assert_ok(compute_tensor_read(y[i], device ? got : expected[i], sizeof got));
      for (int k = 0; device && k < WIDTH; k++) assert_float_equal(got[k], expected[i][k], 1e-4F);
      compute_tensor_release(x[i]);
      compute_tensor_release(y[i]);
    }
    compute_queue_release(queue);
    chain_release(&c);
    close_clean(context);
  }
}

/* ---- Several GPUs, host memory, custom kernels --------------------------------------------- */

static void two_gpus_copy_to_each_other(void **state) {
  (void)state;
  static const char *const orders[] = {"device_count=2,delay_copies=2",
                                       "device_count=2,no_peers=1"};
  for (int way = 0; way < 2; way++) {
    compute_context *context = open_with(orders[way], "cuda:0");
    enum { COUNT = 50000 };
    static float values[COUNT], got[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = (float)i;
    compute_device *other = NULL;
    compute_tensor *here = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), values);
    compute_tensor *there = NULL;
    assert_ok(compute_device_by_name(context, "cuda:1", &other));
    assert_ok(compute_tensor_create(other, COMPUTE_F32, COMPUTE_SHAPE(COUNT), &there));
    assert_ok(compute_tensor_copy(there, here));
    assert_ok(compute_tensor_read(there, got, sizeof got));
    assert_memory_equal(got, values, sizeof got);
    if (way == 0) assert_true(cuda_stand_in_calls(&gpu, "cuMemcpyPeerAsync") > 0);
    compute_tensor_release(here);
    compute_tensor_release(there);
    close_clean(context);
  }
}

static void memory_of_the_host_is_wrapped_or_refused(void **state) {
  (void)state;
  static const char *const orders[] = {"", "no_register=1"};
  for (int way = 0; way < 2; way++) {
    compute_context *context = open_with(orders[way], "cuda:0");
    float *data = malloc(4096 * sizeof *data);
    assert_non_null(data);
    for (int i = 0; i < 4096; i++) data[i] = (float)i;
    compute_tensor *wrapped = NULL, *copy = NULL;
    compute_device *device = compute_default_device(context);
    const compute_status s = compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(4096), NULL,
                                                 data, NULL, NULL, &wrapped);
    if (way == 1) {
      assert_int_equal(s, COMPUTE_ERROR_UNSUPPORTED);
    } else {
      assert_int_equal(s, COMPUTE_OK);
      assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(4096), &copy));
      assert_ok(compute_tensor_copy(copy, wrapped));
      assert_float_equal(test_element(copy, 4095), 4095, 0);
    }
    compute_tensor_release(wrapped);
    compute_tensor_release(copy);
    free(data);
    close_clean(context);
  }
}

static void kernels_of_ones_own_run_or_explain_themselves(void **state) {
  (void)state;
  static const char source[] = "extern \"C\" __global__ void scale(float *x, float by, int n) {\n"
                               "  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);\n"
                               "  if (i < n) x[i] *= by;\n}\n";
  static const char portable[] = "KERNEL void scale(GLOBAL float *x, f32 by, i32 n) {\n"
                                 "  i32 i = (i32)GLOBAL_ID_X;\n"
                                 "  if (i < n) x[i] *= by;\n}\n";
  compute_context *context = open_with("", "cuda:0");
  compute_device *device = compute_default_device(context);
  const float values[3] = {1, 2, 3};
  for (int way = 0; way < 2; way++) {
    compute_kernel *kernel = NULL;
    assert_ok(compute_kernel_compile(device, way ? portable : source, "scale", NULL,
                                     way ? COMPUTE_KERNEL_PORTABLE : 0, &kernel));
    compute_tensor *x = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(3), values);
    const float by = 2;
    const int32_t n = 3;
    const compute_kernel_argument arguments[] = {COMPUTE_KERNEL_TENSOR(x), COMPUTE_KERNEL_VALUE(by),
                                                 COMPUTE_KERNEL_VALUE(n)};
    const compute_launch launch = {.groups = {1, 1, 1}, .group = {32, 1, 1}};
    assert_ok(compute_kernel_launch(kernel, &launch, arguments, 3, NULL));
    assert_float_equal(test_element(x, 2), 6, 0);
    assert_int_not_equal(compute_kernel_launch(kernel, &launch, arguments, 2, NULL), COMPUTE_OK);
    compute_tensor_release(x);
    compute_kernel_release(kernel);
  }
  compute_kernel *none = NULL;
  assert_fails(compute_kernel_compile(device, "extern \"C\" __global__ void k() { nonsense(; }",
                                      "k", NULL, 0, &none),
               COMPUTE_ERROR_COMPILATION);
  test_check_message(context, "kernel.cu");
  assert_fails(compute_kernel_compile(device, source, "other", NULL, 0, &none),
               COMPUTE_ERROR_COMPILATION);
  close_clean(context);
}

/* ---- Kinds of drivers ---------------------------------------------------------------------- */

static void drivers_and_gpus_of_other_kinds_work_too(void **state) {
  (void)state;
  static const char *const kinds[] = {"no_pools=1",    "capability=75", "capability=86",
                                      "capability=91", "unified=1",     "delay_copies=3"};
  job_result expected, result;
  compute_context *context = open_with("", "cpu");
  assert_ok(device_job(context, &expected));
  close_clean(context);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    context = open_with(kinds[i], "cuda:0");
    assert_ok(device_job(context, &result));
    device_job_check(&result, &expected, kinds[i]);
    close_clean(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_that_cannot_be_used_is_explained),
      cmocka_unit_test(a_lost_device_tells_its_first_cause_and_leaves_the_driver_alone),
      cmocka_unit_test(a_full_device_says_so_and_goes_on),
      cmocka_unit_test(a_forked_child_cannot_use_the_device_and_does_no_harm),
      cmocka_unit_test(in_a_steady_state_nothing_is_allocated_or_waited_for),
      cmocka_unit_test(recordings_follow_their_bindings),
      cmocka_unit_test(two_gpus_copy_to_each_other),
      cmocka_unit_test(memory_of_the_host_is_wrapped_or_refused),
      cmocka_unit_test(kernels_of_ones_own_run_or_explain_themselves),
      cmocka_unit_test(drivers_and_gpus_of_other_kinds_work_too),
  };
  if (!cuda_stand_in_open(&gpu)) {
    fprintf(stderr, "Skipped: no stand-in for the CUDA driver.\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
