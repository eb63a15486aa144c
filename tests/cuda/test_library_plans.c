/* SPDX-License-Identifier: MIT */
/* Promises about NVIDIA's libraries in plans, on stand-ins for cuBLASLt and cuDNN
 * (cuda_driver/libraries/). They are used where they should be, also in recordings. Plans work
 * without them. If they fail, the result is still right or the error explains the failure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/drivers/cuda_libraries.h"
#include "support/harness/test.h"

enum { SKIPPED = 77 };

/* ---- Graphs -------------------------------------------------------------------------------- */

enum { ROWS = 40, INNER = 32, COLUMNS = 48, TURNS = 8 };

typedef enum activation { GELU_TANH, GELU_ERF, RELU } activation;

typedef struct layer {
  compute_graph *graph;
  compute_plan *plan;
  compute_node x, y;
  compute_tensor *w, *b, *v;
} layer;

/* y = activation(x w + b) v */
static void layer_build(compute_context *context, activation which, layer *l) {
  static float w[INNER * COLUMNS], b[COLUMNS];
  for (int i = 0; i < INNER * COLUMNS; i++) w[i] = 0.05F * (float)((i * 31 + 7) % 23 - 11);
  for (int i = 0; i < COLUMNS; i++) b[i] = 0.1F * (float)(i % 7 - 3);
  l->w = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(INNER, COLUMNS), w);
  l->b = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(COLUMNS), b);
  l->v = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(COLUMNS, INNER), w);
  compute_graph *g = l->graph = compute_graph_create(context);
  l->x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(ROWS, INNER));
  const compute_node sum = compute_add(g, compute_matmul(g, l->x, compute_parameter(g, l->w)),
                                       compute_parameter(g, l->b));
  const compute_node h = which == GELU_TANH  ? compute_gelu_tanh(g, sum)
                         : which == GELU_ERF ? compute_gelu(g, sum)
                                             : compute_relu(g, sum);
  l->y = compute_softmax(g, compute_matmul(g, h, compute_parameter(g, l->v)), 1);
  l->plan = test_compile(g, &l->y, 1, 0);
}

static void layer_release(layer *l) {
  compute_plan_release(l->plan);
  compute_graph_release(l->graph);
  compute_tensor_release(l->w);
  compute_tensor_release(l->b);
  compute_tensor_release(l->v);
}

static compute_tensor *layer_input(compute_context *context, int turn) {
  float x[ROWS * INNER];
  for (int i = 0; i < ROWS * INNER; i++)
    x[i] = 0.05F * (float)((i * (17 + 2 * turn) + turn) % 41 - 20);
  return test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(ROWS, INNER), x);
}

static void layer_run(compute_context *context, const layer *l, int turn, float *result) {
  compute_tensor *x = layer_input(context, turn), *y = NULL;
  assert_ok(compute_plan_create_tensor(l->plan, l->y, &y));
  assert_ok(compute_run(l->plan, (compute_binding[]){{l->x, x}, {l->y, y}}, 2, NULL));
  assert_ok(compute_tensor_read(y, result, ROWS * INNER * sizeof *result));
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void expect_layer(activation which, float *result) {
  compute_context *context = cuda_libraries_open("cpu");
  layer l;
  layer_build(context, which, &l);
  layer_run(context, &l, 1, result);
  layer_release(&l);
  cuda_libraries_close(context);
}

static void check_layer(const float *actual, const float *expected, const char *where) {
  for (int i = 0; i < ROWS * INNER; i++)
    if (!(fabsf(actual[i] - expected[i]) <= 2e-6F))
      fail_msg("%s: element %d is %g instead of %g", where, i, (double)actual[i],
               (double)expected[i]);
}

/* The library computes the epilogues that it supports. Its gelu uses tanh, so gelu by erf runs in a
 * separate kernel. */
static void epilogues_go_to_the_library_if_they_are_its_own(void **state) {
  (void)state;
  static const struct {
    activation which;
    const char *says;
  } cases[] = {{GELU_TANH, "cuBLASLt 13.1.0, bias, gelu by tanh"},
               {RELU, "cuBLASLt 13.1.0, then CUDA"},
               {GELU_ERF, "cuBLASLt 13.1.0, then CUDA"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float expected[ROWS * INNER], actual[ROWS * INNER];
    char *text = NULL;
    layer l;
    expect_layer(cases[i].which, expected);
    compute_context *context = cuda_libraries_open("cuda:0");
    layer_build(context, cases[i].which, &l);
    assert_ok(compute_explain(l.plan, &text));
    if (!strstr(text, cases[i].says)) fail_msg("\"%s\" is not in\n%s", cases[i].says, text);
    compute_text_free(text);
    layer_run(context, &l, 1, actual);
    check_layer(actual, expected, cases[i].says);
    layer_release(&l);
    cuda_libraries_close(context);
  }
}

static void recorded_products_follow_their_bindings_without_allocations_or_waits(void **state) {
  (void)state;
  static const char *const never[] = {"cuMemAlloc",
                                      "cuMemFree",
                                      "cuMemAllocFromPoolAsync",
                                      "cuMemFreeAsync",
                                      "cuMemHostAlloc",
                                      "cuStreamCreate",
                                      "cuEventCreate",
                                      "cuModuleLoadData",
                                      "cuStreamSynchronize",
                                      "cuEventSynchronize",
                                      "cuGraphInstantiateWithFlags"};
  float expected[ROWS * INNER], actual[ROWS * INNER];
  compute_context *context = cuda_libraries_open("cpu");
  layer l;
  layer_build(context, GELU_ERF, &l);
  layer_run(context, &l, TURNS - 1, expected);
  layer_release(&l);
  cuda_libraries_close(context);
  context = cuda_libraries_open("cuda:0");
  layer_build(context, GELU_ERF, &l);
  compute_queue *queue = NULL;
  compute_tensor *x[TURNS], *y[TURNS];
  assert_ok(compute_queue_create(compute_default_device(context), &queue));
  for (int i = 0; i < TURNS; i++) {
    x[i] = layer_input(context, i);
    assert_ok(compute_plan_create_tensor(l.plan, l.y, &y[i]));
  }
  for (int round = 0; round < 2; round++) {
    assert_true(gpu.configure("keep=1"));
    assert_true(blas.configure(""));
    for (int i = 0; i < TURNS; i++)
      assert_ok(compute_run(l.plan, (compute_binding[]){{l.x, x[i]}, {l.y, y[i]}}, 2, queue));
    for (size_t i = 0; round && i < sizeof never / sizeof *never; i++)
      if (cuda_stand_in_calls(&gpu, never[i]) != 0)
        fail_msg("%lld calls of %s in %d runs", (long long)cuda_stand_in_calls(&gpu, never[i]),
                 never[i], TURNS);
    if (round) {
      assert_int_equal(blas.count("cublasLtMatmul"), 2 * TURNS);
      assert_int_equal(blas.count("cublasLtMatmulAlgoGetHeuristic"), 0);
      assert_int_equal(cuda_stand_in_calls(&gpu, "cuGraphLaunch"), 2 * TURNS);
      assert_int_equal(cuda_stand_in_calls(&gpu, "cuLaunchKernel"), 0);
    }
    assert_ok(compute_queue_wait(queue));
  }
  assert_ok(compute_tensor_read(y[TURNS - 1], actual, sizeof actual));
  check_layer(actual, expected, "recorded");
  compute_queue_release(queue);
  for (int i = 0; i < TURNS; i++) {
    compute_tensor_release(x[i]);
    compute_tensor_release(y[i]);
  }
  layer_release(&l);
  cuda_libraries_close(context);
}

/* ---- Autotuning ---------------------------------------------------------------------------- */

static void the_fastest_of_what_is_proposed_is_kept_and_remembered(void **state) {
  (void)state;
  float actual[ROWS * INNER];
  char folder[] = TEST_SCRATCH_DIR "/cache_XXXXXX";
  assert_non_null(mkdtemp(folder));
  cuda_libraries_cache(folder);
  for (int round = 0; round < 2; round++) {
    compute_context *context = cuda_libraries_open("cuda:0");
    layer l;
    assert_true(blas.configure(""));
    layer_build(context, GELU_TANH, &l);
    assert_int_equal(blas.count("cublasLtMatmul") > 0, round == 0);
    assert_true(blas.configure(""));
    layer_run(context, &l, 1, actual);
    assert_int_equal(blas.count("fast"), 2);
    assert_int_equal(blas.count("slow"), 0);
    layer_release(&l);
    cuda_libraries_close(context);
  }
  cuda_libraries_cache(NULL);
}

/* A choice made without a trial, because memory was short, is not cached: the next plan tries
 * again. */
static void what_could_not_be_timed_is_not_remembered(void **state) {
  (void)state;
  char folder[] = TEST_SCRATCH_DIR "/cache_XXXXXX";
  assert_non_null(mkdtemp(folder));
  cuda_libraries_cache(folder);
  for (int round = 0; round < 2; round++) {
    compute_context *context = cuda_libraries_open("cuda:0");
    layer l;
    assert_true(gpu.configure(round ? "keep=1" : "keep=1,fail=cuMemGetInfo:1+:2"));
    assert_true(blas.configure(""));
    layer_build(context, GELU_TANH, &l);
    assert_int_equal(blas.count("cublasLtMatmul") > 0, round == 1);
    layer_release(&l);
    cuda_libraries_close(context);
  }
  cuda_libraries_cache(NULL);
}

static int timed;

static void count_timed(void *user, compute_log_level level, const char *module,
                        const char *message) {
  (void)user;
  (void)level;
  (void)module;
  if (strstr(message, "timed for a kernel: cu")) timed++;
}

/* No tuning asks for the library here: enough operations or bytes make it a candidate. The second
 * plan uses the cached winner without another trial. */
static void large_products_are_timed_by_the_library_and_without_it(void **state) {
  (void)state;
  static const struct {
    int64_t m, k, n;
    bool large;
  } cases[] = {{64, 64, 64, false}, {200, 100, 200, true}, {1, 256, 256, true}};
  char folder[] = TEST_SCRATCH_DIR "/cache_XXXXXX";
  assert_non_null(mkdtemp(folder));
  assert_int_equal(unsetenv("COMPUTE_TUNING"), 0);
  cuda_libraries_cache(folder);
  compute_log_set(count_timed, NULL, COMPUTE_LOG_INFO);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool by_library[2];
    for (int round = 0; round < 2; round++) {
      compute_context *context = cuda_libraries_open("cuda:0");
      char *text = NULL;
      compute_graph *g = compute_graph_create(context);
      const compute_node a = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(cases[i].m, cases[i].k));
      const compute_node b = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(cases[i].k, cases[i].n));
      const compute_node y = compute_matmul(g, a, b);
      timed = 0;
      compute_plan *plan = test_compile(g, &y, 1, 0);
      assert_int_equal(timed, cases[i].large && round == 0);
      assert_ok(compute_explain(plan, &text));
      by_library[round] = strstr(text, "cuBLASLt") != NULL;
      compute_text_free(text);
      compute_plan_release(plan);
      compute_graph_release(g);
      cuda_libraries_close(context);
    }
    assert_int_equal(by_library[0], by_library[1]);
    if (!cases[i].large) assert_false(by_library[0]);
  }
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  cuda_libraries_cache(NULL);
  assert_int_equal(setenv("COMPUTE_TUNING", "gemm:implementation=1", 1), 0);
}

/* ---- Convolutions -------------------------------------------------------------------------- */

enum { SIDE = 40, CHANNELS = 32 };

/* relu(x * w + b), or with the transposed convolution, for which the library would need a second
 * pass. Returns compute_explain's text. */
static char *convolve(compute_context *context, bool transposed, float *result) {
  static float x[CHANNELS * SIDE * SIDE], w[CHANNELS * CHANNELS * 9], b[CHANNELS];
  for (int i = 0; i < CHANNELS * SIDE * SIDE; i++) x[i] = 0.1F * (float)((i * 37 + 5) % 29 - 14);
  for (int i = 0; i < CHANNELS * CHANNELS * 9; i++) w[i] = 0.1F * (float)((i * 31 + 7) % 23 - 11);
  for (int i = 0; i < CHANNELS; i++) b[i] = 0.1F * (float)(i % 7 - 3);
  const compute_shape of_x = COMPUTE_SHAPE(1, CHANNELS, SIDE, SIDE);
  const compute_shape of_w = COMPUTE_SHAPE(CHANNELS, CHANNELS, 3, 3);
  compute_tensor *filter = test_tensor(context, COMPUTE_F32, of_w, w);
  compute_tensor *bias = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(CHANNELS), b);
  compute_tensor *in = test_tensor(context, COMPUTE_F32, of_x, x), *out = NULL;
  char *text = NULL;
  compute_graph *g = compute_graph_create(context);
  const compute_node data = compute_input(g, COMPUTE_F32, of_x);
  const compute_node y =
      compute_relu(g, (transposed ? compute_conv2d_transpose : compute_conv2d)(
                          g, data, compute_parameter(g, filter), compute_parameter(g, bias),
                          &(compute_conv2d_options){.padding = {1, 1}}));
  compute_plan *plan = test_compile(g, &y, 1, 0);
  assert_ok(compute_explain(plan, &text));
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  for (int turn = 0; turn < 2; turn++)
    assert_ok(compute_run(plan, (compute_binding[]){{data, in}, {y, out}}, 2, NULL));
  assert_ok(compute_tensor_read(out, result, CHANNELS * SIDE * SIDE * sizeof *result));
  compute_plan_release(plan);
  compute_graph_release(g);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_tensor_release(filter);
  compute_tensor_release(bias);
  return text;
}

static void check_convolution(const float *actual, const float *expected) {
  for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
    if (!(fabsf(actual[i] - expected[i]) <= 1e-4F))
      fail_msg("element %d is %g instead of %g", i, (double)actual[i], (double)expected[i]);
}

/* The second plan uses the first plan's winner without another trial. */
static void a_convolution_is_timed_by_the_library_and_without_it(void **state) {
  (void)state;
  static float expected[CHANNELS * SIDE * SIDE], actual[CHANNELS * SIDE * SIDE];
  char folder[] = TEST_SCRATCH_DIR "/cache_XXXXXX";
  assert_non_null(mkdtemp(folder));
  compute_context *context = cuda_libraries_open("cpu");
  compute_text_free(convolve(context, false, expected));
  cuda_libraries_close(context);
  assert_int_equal(unsetenv("COMPUTE_TUNING"), 0);
  cuda_libraries_cache(folder);
  compute_log_set(count_timed, NULL, COMPUTE_LOG_INFO);
  bool by_library[2];
  for (int round = 0; round < 2; round++) {
    timed = 0;
    context = cuda_libraries_open("cuda:0");
    assert_true(dnn.configure(""));
    char *text = convolve(context, false, actual);
    by_library[round] = strstr(text, "cuDNN") != NULL;
    compute_text_free(text);
    assert_int_equal(timed, round == 0);
    if (round == 1) assert_int_equal(dnn.count("cudnnBackendExecute"), by_library[0] ? 2 : 0);
    check_convolution(actual, expected);
    cuda_libraries_close(context);
  }
  assert_int_equal(by_library[0], by_library[1]);
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  cuda_libraries_cache(NULL);
  assert_int_equal(setenv("COMPUTE_TUNING", "gemm:implementation=1", 1), 0);
}

static char timed_text[2000];

static void keep_timed(void *user, compute_log_level level, const char *module,
                       const char *message) {
  (void)user;
  (void)level;
  (void)module;
  if (strstr(message, "timed for a kernel")) snprintf(timed_text, sizeof timed_text, "%s", message);
}

/* A transposed convolution is a gradient with respect to the data; it is tried as a convolution
 * with flipped filters. */
static void filters_are_turned_where_that_may_pay_or_is_asked_for(void **state) {
  (void)state;
  static float expected[CHANNELS * SIDE * SIDE], actual[CHANNELS * SIDE * SIDE];
  compute_log_set(keep_timed, NULL, COMPUTE_LOG_INFO);
  for (int transposed = 0; transposed < 2; transposed++)
    for (int asked = !transposed; asked < 2; asked++) {
      compute_context *context = cuda_libraries_open("cpu");
      compute_text_free(convolve(context, transposed, expected));
      cuda_libraries_close(context);
      assert_int_equal(asked ? setenv("COMPUTE_TUNING", "conv:implementation=2", 1)
                             : unsetenv("COMPUTE_TUNING"),
                       0);
      timed_text[0] = '\0';
      context = cuda_libraries_open("cuda:0");
      assert_true(dnn.configure(""));
      char *text = convolve(context, transposed, actual);
      if (asked)
        assert_non_null(strstr(text, "filter turned"));
      else
        assert_non_null(strstr(timed_text, "filter turned"));
      compute_text_free(text);
      check_convolution(actual, expected);
      cuda_libraries_close(context);
    }
  compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
  assert_int_equal(setenv("COMPUTE_TUNING", "gemm:implementation=1", 1), 0);
}

/* An implementation number without an implementation does not select the library. */
static void unknown_implementations_are_not_the_librarys(void **state) {
  (void)state;
  static float expected[CHANNELS * SIDE * SIDE], actual[CHANNELS * SIDE * SIDE];
  compute_context *context = cuda_libraries_open("cpu");
  compute_text_free(convolve(context, false, expected));
  cuda_libraries_close(context);
  assert_int_equal(setenv("COMPUTE_TUNING", "conv:implementation=7", 1), 0);
  context = cuda_libraries_open("cuda:0");
  assert_true(dnn.configure(""));
  char *text = convolve(context, false, actual);
  assert_null(strstr(text, "cuDNN"));
  compute_text_free(text);
  check_convolution(actual, expected);
  cuda_libraries_close(context);
  assert_int_equal(setenv("COMPUTE_TUNING", "gemm:implementation=1", 1), 0);
}

/* ---- Without, and with failures ------------------------------------------------------------ */

static char logged[4000];

static void keep_log(void *user, compute_log_level level, const char *module, const char *message) {
  (void)user;
  (void)level;
  if (strcmp(module, "cuda") != 0 || !strstr(message, "continues without")) return;
  const size_t used = strlen(logged);
  snprintf(logged + used, sizeof logged - used, "%s\n", message);
}

static void a_library_that_cannot_be_used_is_logged_once_and_done_without(void **state) {
  (void)state;
  static const struct {
    const char *wanted, *orders, *says;
  } cases[] = {{"none", "", "COMPUTE_CUDA_LIBRARIES excludes cuBLASLt"},
               {"cudnn", "", "COMPUTE_CUDA_LIBRARIES excludes cuBLASLt"},
               {"cublas", "version=110902", "has the version 110902"},
               {"cublas", "newest_driver=1", "does not start with this driver"},
               {"cublas", "fail=cublasLtCreate:1+:8", "its code is 8"}};
  float expected[ROWS * INNER], actual[ROWS * INNER];
  expect_layer(GELU_TANH, expected);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(setenv("COMPUTE_CUDA_LIBRARIES", cases[i].wanted, 1), 0);
    assert_true(blas.configure(cases[i].orders));
    logged[0] = '\0';
    compute_log_set(keep_log, NULL, COMPUTE_LOG_INFO);
    compute_context *context = cuda_libraries_open("cuda:0");
    layer l;
    layer_build(context, GELU_TANH, &l);
    layer_run(context, &l, 1, actual);
    check_layer(actual, expected, cases[i].says);
    assert_int_equal(blas.count("cublasLtMatmul"), 0);
    layer_release(&l);
    cuda_libraries_close(context);
    compute_log_set(NULL, NULL, COMPUTE_LOG_OFF);
    const char *found = strstr(logged, cases[i].says);
    if (!found || strstr(found + 1, cases[i].says))
      fail_msg("not logged once: \"%s\" in \"%s\"", cases[i].says, logged);
  }
  assert_int_equal(setenv("COMPUTE_CUDA_LIBRARIES", "cublas,cudnn", 1), 0);
  assert_true(blas.configure(""));
}

/* Compiles and runs the plan while a call of the library fails. */
static bool layer_survives(const char *call, int nth, const char *plus, int code,
                           const float *expected) {
  char orders[128], where[160];
  float actual[ROWS * INNER];
  layer l = {0};
  snprintf(orders, sizeof orders, "fail=%s:%d%s:%d", call, nth, plus, code);
  snprintf(where, sizeof where, "with %s", orders);
  compute_context *context = cuda_libraries_open("cuda:0");
  assert_true(blas.configure(orders));
  layer_build(context, GELU_TANH, &l);
  compute_tensor *x = layer_input(context, 1), *y = NULL;
  assert_ok(compute_plan_create_tensor(l.plan, l.y, &y));
  const compute_status status =
      compute_run(l.plan, (compute_binding[]){{l.x, x}, {l.y, y}}, 2, NULL);
  const bool reached = blas.count(call) >= nth;
  if (status == COMPUTE_OK) {
    assert_ok(compute_tensor_read(y, actual, sizeof actual));
    check_layer(actual, expected, where);
  } else {
    test_check_message(context, "cuBLASLt reports");
  }
  assert_true(blas.configure(""));
  compute_tensor_release(x);
  compute_tensor_release(y);
  layer_run(context, &l, 1, actual);
  check_layer(actual, expected, where);
  layer_release(&l);
  cuda_libraries_close(context);
  return reached;
}

static void any_call_of_the_library_may_fail(void **state) {
  (void)state;
  static const char *const calls[] = {"cublasLtCreate",
                                      "cublasLtMatrixLayoutInit_internal",
                                      "cublasLtMatmulDescInit_internal",
                                      "cublasLtMatmulDescSetAttribute",
                                      "cublasLtMatmulPreferenceInit_internal",
                                      "cublasLtMatmulPreferenceSetAttribute",
                                      "cublasLtMatmulAlgoGetHeuristic",
                                      "cublasLtMatmul"};
  float expected[ROWS * INNER];
  expect_layer(GELU_TANH, expected);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int nth = 1;
    while (nth < 40 && layer_survives(calls[i], nth, "", 14, expected)) nth += 1 + nth / 3;
    assert_true(nth > 1);
    layer_survives(calls[i], 1, "+", 3, expected);
  }
}

/* A driver failure during a trial of a library ends the device or leaves it unchanged. Nothing is
 * left behind. */
static void the_driver_may_fail_while_a_library_is_tried_out(void **state) {
  (void)state;
  static const char *const calls[] = {"cuMemAlloc",     "cuMemGetInfo",       "cuStreamCreate",
                                      "cuEventCreate",  "cuEventRecord",      "cuEventSynchronize",
                                      "cuMemFree",      "cuEventElapsedTime", "cuMemsetD32Async",
                                      "cuEventDestroy", "cuStreamDestroy"};
  static const int codes[] = {2, 999, 700};
  float expected[ROWS * INNER], actual[ROWS * INNER];
  expect_layer(GELU_TANH, expected);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
      char orders[128], text[256];
      layer l;
      compute_context *context = cuda_libraries_open("cuda:0");
      layer_build(context, GELU_ERF, &l); /* sets up everything but the product */
      layer_release(&l);
      snprintf(orders, sizeof orders, "keep=1,fail=%s:1:%d", calls[i], codes[k]);
      assert_true(gpu.configure(orders));
      compute_graph *g = compute_graph_create(context);
      const compute_node a = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(20, 24));
      const compute_node y = compute_matmul(g, a, compute_transpose(g, a, COMPUTE_AXES(1, 0)));
      compute_plan *plan = NULL;
      const compute_status status = compute_compile(g, &y, 1, NULL, &plan);
      if (status != COMPUTE_OK) assert_true(strlen(compute_error_message(context)) > 0);
      compute_plan_release(plan);
      compute_graph_release(g);
      assert_true(gpu.configure("keep=1"));
      if (codes[k] != 700) {
        assert_int_equal(status, COMPUTE_OK);
        layer_build(context, GELU_TANH, &l);
        layer_run(context, &l, 1, actual);
        check_layer(actual, expected, orders);
        layer_release(&l);
      }
      test_close(context);
      assert_true(gpu.configure(""));
      if (gpu.live(text, sizeof text) && codes[k] == 700)
        fail_msg("%s: left in the driver: %s", orders, text);
      if (gpu.misuse(text, sizeof text)) fail_msg("%s: %s", orders, text);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(epilogues_go_to_the_library_if_they_are_its_own),
      cmocka_unit_test(recorded_products_follow_their_bindings_without_allocations_or_waits),
      cmocka_unit_test(the_fastest_of_what_is_proposed_is_kept_and_remembered),
      cmocka_unit_test(what_could_not_be_timed_is_not_remembered),
      cmocka_unit_test(large_products_are_timed_by_the_library_and_without_it),
      cmocka_unit_test(a_convolution_is_timed_by_the_library_and_without_it),
      cmocka_unit_test(filters_are_turned_where_that_may_pay_or_is_asked_for),
      cmocka_unit_test(unknown_implementations_are_not_the_librarys),
      cmocka_unit_test(a_library_that_cannot_be_used_is_logged_once_and_done_without),
      cmocka_unit_test(any_call_of_the_library_may_fail),
      cmocka_unit_test(the_driver_may_fail_while_a_library_is_tried_out),
  };
  if (!cuda_libraries_begin()) {
    fprintf(stderr, "Skipped: no stand-ins for the CUDA driver and NVIDIA's libraries.\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
