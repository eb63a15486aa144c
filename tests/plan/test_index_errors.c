/* SPDX-License-Identifier: MIT */
/* An index outside its axis is reported in terms of the caller's call: its name, the value and its
 * position in the caller's operand, the range, and the names of nodes. */
#include "support/harness/test.h"

#include <string.h>

#include "compute/graph_nn.h"
#include "compute/nn.h"
#include "core/device/device.h"

enum { MOST = 4 };

/* A plan with its bindings. */
typedef struct bench {
  compute_graph *graph;
  compute_binding bindings[2 * MOST];
  size_t count;
  compute_plan *plan;
} bench;

static bench begin(void) {
  return (bench){.graph = compute_graph_create(test_context)};
}

static compute_node input(bench *b, compute_dtype dtype, compute_shape shape, const void *values) {
  const compute_node node = compute_input(b->graph, dtype, shape);
  b->bindings[b->count++] =
      (compute_binding){node, test_tensor(test_context, dtype, shape, values)};
  return node;
}

static compute_node zeros(bench *b, compute_shape shape) {
  static const float values[256];
  return input(b, COMPUTE_F32, shape, values);
}

static void compile(bench *b, const compute_node *outputs, size_t count) {
  b->plan = test_compile(b->graph, outputs, count, 0);
  for (size_t i = 0; i < count; i++) {
    compute_tensor *tensor = NULL;
    assert_ok(compute_plan_create_tensor(b->plan, outputs[i], &tensor));
    b->bindings[b->count++] = (compute_binding){outputs[i], tensor};
  }
}

static void end(bench *b) {
  for (size_t i = 0; i < b->count; i++) compute_tensor_release(b->bindings[i].tensor);
  compute_plan_release(b->plan);
  compute_graph_release(b->graph);
}

static void check_error(const char *operation, const char *message) {
  compute_error error;
  assert_ok(compute_error_get(test_context, &error));
  assert_int_equal(error.status, COMPUTE_ERROR_INDEX);
  assert_string_equal(error.message, message);
  assert_string_equal(error.operation, operation);
  compute_error_clear(test_context);
}

/* Three runs, so that devices with recordings also submit one. */
static void check_runs(bench *b, compute_queue *queue, const char *operation, const char *message) {
  for (int i = 0; i < 3; i++) {
    compute_status status = compute_run(b->plan, b->bindings, b->count, queue);
    if (queue && status == COMPUTE_OK) status = compute_queue_wait(queue);
    assert_int_equal(status, COMPUTE_ERROR_INDEX);
    check_error(operation, message);
  }
}

static void check(bench *b, const compute_node *outputs, size_t count, const char *operation,
                  const char *message) {
  compile(b, outputs, count);
  check_runs(b, NULL, operation, message);
  end(b);
}

/* ---- Losses -------------------------------------------------------------------------------- */

static void a_label_is_reported_as_it_was_given(void **state) {
  (void)state;
  static const int64_t labels[] = {-1, -3, -4, 3, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
    for (int narrow = 0; narrow < 2; narrow++) {
      const int64_t wide[] = {1, labels[i], 2};
      const int32_t few[] = {1, (int32_t)labels[i], 2};
      if (narrow && few[1] != labels[i]) continue;
      char message[128];
      snprintf(message, sizeof message, "cross_entropy: label %lld at position 1 is outside 0 … 2",
               (long long)labels[i]);
      bench b = begin();
      const compute_node x = zeros(&b, COMPUTE_SHAPE(3, 3));
      const compute_node t = input(&b, narrow ? COMPUTE_I32 : COMPUTE_I64, COMPUTE_SHAPE(3),
                                   narrow ? (const void *)few : wide);
      const compute_node loss = compute_cross_entropy(b.graph, x, t);
      check(&b, &loss, 1, "cross_entropy", message);
    }
  }
}

static void a_loss_is_named_with_its_gradient(void **state) {
  (void)state;
  const int32_t labels[] = {0, -1};
  bench b = begin();
  const compute_node x = zeros(&b, COMPUTE_SHAPE(2, 3));
  const compute_node t =
      compute_name(b.graph, input(&b, COMPUTE_I32, COMPUTE_SHAPE(2), labels), "target");
  compute_node outputs[2];
  outputs[0] = compute_name(b.graph, compute_cross_entropy(b.graph, x, t), "loss");
  assert_ok(compute_gradients(b.graph, outputs[0], &x, 1, outputs + 1));
  check(&b, outputs, 2, "cross_entropy",
        "cross_entropy: label -1 at position 1 is outside 0 … 2 (node 'loss', labels 'target')");
  b = begin();
  const compute_node y = zeros(&b, COMPUTE_SHAPE(2, 3));
  const compute_node u = input(&b, COMPUTE_I32, COMPUTE_SHAPE(2), labels);
  const compute_node smooth = compute_cross_entropy_smoothed(b.graph, y, u, 0.1);
  check(&b, &smooth, 1, "cross_entropy_smoothed",
        "cross_entropy_smoothed: label -1 at position 1 is outside 0 … 2");
}

/* ---- Indices ------------------------------------------------------------------------------- */

static const int64_t grid[] = {0, 1, 7, 3, 4, -5}; /* [2,3]: 7 at [0,2] */

static void an_index_has_its_position_and_names(void **state) {
  (void)state;
  bench b = begin();
  const compute_node x = zeros(&b, COMPUTE_SHAPE(5, 4));
  const compute_node i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node rows = compute_name(b.graph, compute_gather(b.graph, x, i, 0), "tokens");
  check(&b, &rows, 1, "gather",
        "gather: index 7 at position [0,2] is outside -5 … 4 (node 'tokens')");
}

/* The position refers to the call's operand, even if this is a view. */
static void a_view_counts_as_the_call_sees_it(void **state) {
  (void)state;
  bench b = begin();
  const compute_node x = zeros(&b, COMPUTE_SHAPE(4, 5));
  const compute_node i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node turned = compute_transpose(b.graph, i, COMPUTE_AXES(1, 0));
  const compute_node wide = compute_broadcast(b.graph, turned, COMPUTE_SHAPE(4, 3, 2));
  compute_node y = compute_gather(b.graph, x, wide, 1);
  check(&b, &y, 1, "gather", "gather: index 7 at position [0,2,0] is outside -5 … 4");
  b = begin();
  const compute_node z = zeros(&b, COMPUTE_SHAPE(2, 5));
  const compute_node j = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  y = compute_gather_elements(b.graph, z, compute_slice(b.graph, j, 1, 1, 2, 1), 1);
  check(&b, &y, 1, "gather_elements",
        "gather_elements: index 7 at position [0,1] is outside -5 … 4");
}

static void a_scalar_and_an_empty_axis_have_words_of_their_own(void **state) {
  (void)state;
  const int32_t seven = 7, none = 0;
  bench b = begin();
  compute_node x = zeros(&b, COMPUTE_SHAPE(5));
  compute_node i = input(&b, COMPUTE_I32, COMPUTE_SCALAR, &seven);
  compute_node y = compute_gather(b.graph, x, i, 0);
  check(&b, &y, 1, "gather", "gather: index 7 is outside -5 … 4");
  b = begin();
  x = zeros(&b, COMPUTE_SHAPE(0));
  i = input(&b, COMPUTE_I32, COMPUTE_SHAPE(1), &none);
  y = compute_gather(b.graph, x, i, 0);
  check(&b, &y, 1, "gather", "gather: index 0 at position 0 is outside an axis of size 0");
}

static void scatters_say_so_too(void **state) {
  (void)state;
  bench b = begin();
  compute_node x = zeros(&b, COMPUTE_SHAPE(2, 3, 2));
  compute_node i = compute_name(b.graph, input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid), "bins");
  compute_node y = compute_scatter_add(b.graph, x, i, 0, 6);
  check(&b, &y, 1, "scatter_add",
        "scatter_add: index 7 at position [0,2] is outside -6 … 5 (indices 'bins')");
  b = begin();
  x = zeros(&b, COMPUTE_SHAPE(2, 3));
  i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  y = compute_scatter_add_elements(b.graph, x, i, 1, COMPUTE_SHAPE(2, 6));
  check(&b, &y, 1, "scatter_add_elements",
        "scatter_add_elements: index 7 at position [0,2] is outside -6 … 5");
  b = begin();
  x = zeros(&b, COMPUTE_SHAPE(2, 3));
  i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  y = compute_scatter_elements(b.graph, zeros(&b, COMPUTE_SHAPE(2, 6)), x, i, 1,
                               COMPUTE_SCATTER_SET);
  check(&b, &y, 1, "scatter_elements",
        "scatter_elements: index 7 at position [0,2] is outside -6 … 5");
}

/* A value has no second meaning: negative ones are outside. */
static void counts_say_so_too(void **state) {
  (void)state;
  static const int64_t values[] = {0, 3, 5, 1, -1, 2};
  bench b = begin();
  compute_node x =
      compute_name(b.graph, input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), values), "classes");
  compute_node y = compute_bincount(b.graph, x, (compute_node){0}, 6, 0);
  check(&b, &y, 1, "bincount",
        "bincount: value -1 at position [1,1] is outside 0 … 5 (values 'classes')");
  b = begin();
  x = compute_cast(b.graph, input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), values), COMPUTE_U8);
  y = compute_bincount(b.graph, x, zeros(&b, COMPUTE_SHAPE(2, 3)), 6, 1);
  check(&b, &y, 1, "bincount", "bincount: value 255 at position [1,1] is outside 0 … 5");
}

/* If only the gradient is requested, the scatter detects the index. */
static void a_gradient_names_what_it_is_the_gradient_of(void **state) {
  (void)state;
  bench b = begin();
  const compute_node x = zeros(&b, COMPUTE_SHAPE(5, 4));
  const compute_node i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node rows = compute_name(b.graph, compute_gather(b.graph, x, i, 0), "rows");
  const compute_node loss = compute_sum(b.graph, rows, COMPUTE_ALL_AXES, false);
  compute_node gradient;
  assert_ok(compute_gradients(b.graph, loss, &x, 1, &gradient));
  check(&b, &gradient, 1, "gather",
        "gather: index 7 at position [0,2] is outside -5 … 4 (node 'rows')");
}

/* Two calls of one operation on the same operands share one kernel, which has the name of one of
 * them. */
static void a_name_survives_common_subexpressions(void **state) {
  (void)state;
  bench b = begin();
  const compute_node x = zeros(&b, COMPUTE_SHAPE(5, 4));
  const compute_node i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node first = compute_gather(b.graph, x, i, 0);
  const compute_node named = compute_name(b.graph, compute_gather(b.graph, x, i, 0), "named");
  const compute_node sum = compute_add(b.graph, first, named);
  check(&b, &sum, 1, "gather",
        "gather: index 7 at position [0,2] is outside -5 … 4 (node 'named')");
}

/* Indices known at compile time are left to the run, which reports them. */
static void constants_are_reported_by_the_run(void **state) {
  (void)state;
  const float values[5] = {1, 2, 3, 4, 5};
  bench b = begin();
  const compute_node x = compute_constant(b.graph, COMPUTE_F32, COMPUTE_SHAPE(5), values);
  const compute_node i = compute_constant(b.graph, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node y = compute_gather(b.graph, x, i, 0);
  check(&b, &y, 1, "gather", "gather: index 7 at position [0,2] is outside -5 … 4");
}

/* ---- Layers, queues, eager calls, jobs ----------------------------------------------------- */

static void an_embedding_has_the_name_of_its_weights(void **state) {
  (void)state;
  bench b = begin();
  compute_layer *net = compute_sequential(
      (compute_layer *[]){compute_embedding(compute_default_device(test_context), 5, 3, NULL)}, 1);
  const compute_node i = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node y = compute_layer_apply(net, b.graph, i, NULL);
  check(&b, &y, 1, "embedding",
        "embedding: index 7 at position [0,2] is outside -5 … 4 (weight '0.weight')");
  b = begin();
  const compute_node j = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  compute_forward half = {.precision = COMPUTE_F16};
  const compute_node z =
      compute_name(b.graph, compute_layer_apply(net, b.graph, j, &half), "vectors");
  check(&b, &z, 1, "embedding",
        "embedding: index 7 at position [0,2] is outside -5 … 4 (node 'vectors', weight "
        "'0.weight')");
  compute_layer_release(net);
}

/* Several plans in one queue: the wait names the failed plan, even after its release. */
static void a_queue_names_the_plan_that_failed(void **state) {
  (void)state;
  static const int64_t good[] = {0, 1, 2, 3, 4, -5};
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(compute_default_device(test_context), &queue));
  bench benches[3];
  static const char *const names[] = {"first", "second", "third"};
  compute_status status = COMPUTE_OK;
  for (int k = 0; k < 3; k++) {
    bench *b = &benches[k];
    *b = begin();
    const compute_node x = zeros(b, COMPUTE_SHAPE(5, 4));
    const compute_node i = input(b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), k == 1 ? grid : good);
    const compute_node y = compute_name(b->graph, compute_gather(b->graph, x, i, 0), names[k]);
    compile(b, &y, 1);
    const compute_status s = compute_run(b->plan, b->bindings, b->count, queue);
    if (status == COMPUTE_OK) status = s;
    compute_plan_release(b->plan);
    b->plan = NULL;
  }
  if (status == COMPUTE_OK) status = compute_queue_wait(queue);
  assert_int_equal(status, COMPUTE_ERROR_INDEX);
  check_error("gather", "gather: index 7 at position [0,2] is outside -5 … 4 (node 'second')");
  assert_ok(compute_queue_wait(queue));
  for (int k = 0; k < 3; k++) end(&benches[k]);
  compute_queue_release(queue);
}

static void eager_calls_and_jobs_say_the_same(void **state) {
  (void)state;
  static const float values[20];
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(5, 4), values);
  compute_tensor *i = test_tensor(test_context, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid), *y = NULL;
  compute_status status = compute_tensor_gather(x, i, 0, &y);
  assert_int_equal(status, COMPUTE_ERROR_INDEX);
  check_error("gather", "gather: index 7 at position [0,2] is outside -5 … 4");
  compute_tensor_release(x);
  compute_tensor_release(i);
  bench b = begin();
  const compute_node table = zeros(&b, COMPUTE_SHAPE(5, 4));
  const compute_node indices = input(&b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  const compute_node rows = compute_gather(b.graph, table, indices, 0);
  compile(&b, &rows, 1);
  compute_job *job = NULL;
  compute_job_info info;
  assert_ok(compute_submit(b.plan, b.bindings, b.count, NULL, &job));
  assert_int_equal(compute_job_wait(job, 0), COMPUTE_ERROR_INDEX);
  assert_ok(compute_job_describe(job, &info));
  assert_string_equal(info.error.operation, "gather");
  assert_string_equal(info.error.message, "gather: index 7 at position [0,2] is outside -5 … 4");
  compute_job_release(job);
  end(&b);
}

/* ---- Runs that wait between their steps ---------------------------------------------------- */

static const compute_backend *real;

static bool refuse_products(void *handle, const compute_kernel_descriptor *d, char *reason,
                            size_t bytes) {
  if (d->kind != COMPUTE_KERNEL_GEMM) return real->supports(handle, d, reason, bytes);
  snprintf(reason, bytes, "no products here");
  return false;
}

/* Rows of a product, so that a step precedes the failing one. */
static compute_node rows_of_product(bench *b) {
  const compute_node x = zeros(b, COMPUTE_SHAPE(5, 4)), y = zeros(b, COMPUTE_SHAPE(4, 3));
  const compute_node i = input(b, COMPUTE_I64, COMPUTE_SHAPE(2, 3), grid);
  return compute_gather(b->graph, compute_matmul(b->graph, x, y), i, 0);
}

static const char outside[] = "gather: index 7 at position [0,2] is outside -5 … 4";

/* The device leaves the product to the CPU, so its inputs and result are copied, and each copy is
 * waited for. */
static void a_transfer_before_does_not_matter(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(device, &queue));
  bench b = begin();
  const compute_node rows = rows_of_product(&b);
  real = device->backend;
  compute_backend refusing = *real;
  refusing.supports = refuse_products;
  if (device != test_context->cpu) device->backend = &refusing;
  const compute_plan_options options = {.device = device, .fallback = COMPUTE_FALLBACK_SILENT};
  const compute_status compiled = compute_compile(b.graph, &rows, 1, &options, &b.plan);
  device->backend = real;
  assert_ok(compiled);
  compute_plan_info info;
  assert_ok(compute_plan_describe(b.plan, &info));
  if (device != test_context->cpu) assert_true(info.fallbacks > 0);
  compute_tensor *tensor = NULL;
  assert_ok(compute_plan_create_tensor(b.plan, rows, &tensor));
  b.bindings[b.count++] = (compute_binding){rows, tensor};
  check_runs(&b, NULL, "gather", outside);
  check_runs(&b, queue, "gather", outside);
  compute_queue_release(queue);
  end(&b);
}

static void a_run_that_is_measured_says_the_same(void **state) {
  (void)state;
  bench b = begin();
  const compute_node rows = rows_of_product(&b);
  compile(&b, &rows, 1);
  assert_fails(compute_plan_measure(b.plan, b.bindings, b.count), COMPUTE_ERROR_INDEX);
  check_error("gather", outside);
  end(&b);
}

static void a_run_that_is_validated_says_the_same(void **state) {
  (void)state;
  bench b = begin();
  const compute_node rows = rows_of_product(&b);
  compile(&b, &rows, 1);
  const compute_validation_options options = {.policy = COMPUTE_VALIDATION_FAIL};
  assert_ok(compute_validation_start(test_context, &options));
  check_runs(&b, NULL, "gather", outside);
  assert_ok(compute_validation_stop(test_context));
  end(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_label_is_reported_as_it_was_given),
      cmocka_unit_test(a_loss_is_named_with_its_gradient),
      cmocka_unit_test(an_index_has_its_position_and_names),
      cmocka_unit_test(a_view_counts_as_the_call_sees_it),
      cmocka_unit_test(a_scalar_and_an_empty_axis_have_words_of_their_own),
      cmocka_unit_test(scatters_say_so_too),
      cmocka_unit_test(counts_say_so_too),
      cmocka_unit_test(a_gradient_names_what_it_is_the_gradient_of),
      cmocka_unit_test(a_name_survives_common_subexpressions),
      cmocka_unit_test(constants_are_reported_by_the_run),
      cmocka_unit_test(an_embedding_has_the_name_of_its_weights),
      cmocka_unit_test(a_queue_names_the_plan_that_failed),
      cmocka_unit_test(eager_calls_and_jobs_say_the_same),
      cmocka_unit_test(a_transfer_before_does_not_matter),
      cmocka_unit_test(a_run_that_is_measured_says_the_same),
      cmocka_unit_test(a_run_that_is_validated_says_the_same),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
