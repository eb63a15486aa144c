/* SPDX-License-Identifier: MIT */
/* Scan of opset 8, which scans each batch entry separately: carried values, a sequence read
 * backwards, the results of all rounds, and inputs that do not fit each other. */
#include "compute/compute.h"
#include "model/message_writer.h"

enum { ENTRIES = 2, ROUNDS = 3 };

/* Running sums of x and, in the same rounds, the products with y. `directions` sets the order of
 * y. */
static compute_status load_scan(compute_context *context, const char *lengths, int64_t direction,
                                compute_model **model) {
  proto graph = {0}, body = {0};
  put_typed(&graph, GRAPH_INPUT, "s", "2");
  put_typed(&graph, GRAPH_INPUT, "x", "2,3");
  put_typed(&graph, GRAPH_INPUT, "y", "batch,length");
  put_values(&graph, GRAPH_OUTPUT, "last,all");
  put_values(&body, GRAPH_INPUT, "before,a,b");
  put_values(&body, GRAPH_OUTPUT, "sum,product");
  put_message(&body, GRAPH_NODE, node_message("add", "Add", "before,a", "sum"));
  put_message(&body, GRAPH_NODE, node_message("multiply", "Mul", "sum,b", "product"));
  char inputs[32];
  snprintf(inputs, sizeof inputs, "%s,s,x,y", lengths);
  proto node = node_message("scan", "Scan", inputs, "last,all");
  put_graph_attribute(&node, "body", body);
  put_integer_attribute(&node, "num_scan_inputs", 2);
  put_list_attribute(&node, "directions", (int64_t[]){0, direction}, 2);
  put_message(&graph, GRAPH_NODE, node);
  proto message = {0};
  put_integer(&message, 1, 3);
  put_message(&message, MODEL_GRAPH, graph);
  put_message(&message, 8, opset_message("", 8));
  const compute_status status =
      compute_model_load_memory(context, message.data, message.bytes, NULL, model);
  free(message.data);
  return status;
}

typedef struct scan_data {
  compute_tensor *s, *x, *y;
} scan_data;

static const float starts[ENTRIES] = {10, 20};
static const float xs[ENTRIES][ROUNDS] = {{1, 2, 3}, {-4, 5, -6}};
static const float ys[ENTRIES][ROUNDS] = {{1, -1, 2}, {3, 0.5F, -2}};

static scan_data make_data(compute_context *context, compute_shape y_shape) {
  compute_device *device = compute_default_device(context);
  scan_data data;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(ENTRIES), starts, &data.s));
  assert_ok(
      compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(ENTRIES, ROUNDS), xs, &data.x));
  assert_ok(compute_tensor_from_host(device, COMPUTE_F32, y_shape, ys, &data.y));
  return data;
}

static compute_status run_scan(compute_model *model, scan_data *data, compute_model_binding *out) {
  const compute_model_binding in[] = {{"s", data->s}, {"x", data->x}, {"y", data->y}};
  const compute_status status = compute_model_run(model, in, 3, out, 2);
  compute_tensor_release(data->s);
  compute_tensor_release(data->x);
  compute_tensor_release(data->y);
  return status;
}

static void check_scan(int64_t direction) {
  compute_context *context = test_open();
  compute_model *model;
  assert_ok(load_scan(context, "", direction, &model));
  scan_data data = make_data(context, COMPUTE_SHAPE(ENTRIES, ROUNDS));
  compute_model_binding out[] = {{"last", NULL}, {"all", NULL}};
  assert_ok(run_scan(model, &data, out));
  assert_true(compute_shape_equal(compute_tensor_shape(out[0].tensor), COMPUTE_SHAPE(ENTRIES)));
  assert_true(
      compute_shape_equal(compute_tensor_shape(out[1].tensor), COMPUTE_SHAPE(ENTRIES, ROUNDS)));
  float last[ENTRIES], all[ENTRIES][ROUNDS];
  assert_ok(compute_tensor_read(out[0].tensor, last, sizeof last));
  assert_ok(compute_tensor_read(out[1].tensor, all, sizeof all));
  for (int e = 0; e < ENTRIES; e++) {
    float sum = starts[e];
    for (int r = 0; r < ROUNDS; r++) {
      sum += xs[e][r];
      assert_true(all[e][r] == sum * ys[e][direction ? ROUNDS - 1 - r : r]);
    }
    assert_true(last[e] == sum);
  }
  compute_tensor_release(out[0].tensor);
  compute_tensor_release(out[1].tensor);
  compute_model_release(model);
  test_close(context);
}

static void each_entry_is_scanned(void **state) {
  (void)state;
  check_scan(0);
}

static void a_sequence_may_be_read_backwards(void **state) {
  (void)state;
  check_scan(1);
}

static void assert_refused(const char *lengths, compute_shape y_shape, const char *words) {
  compute_context *context = test_open();
  compute_model *model;
  assert_ok(load_scan(context, lengths, 0, &model));
  scan_data data = make_data(context, y_shape);
  compute_model_binding out[] = {{"last", NULL}, {"all", NULL}};
  assert_true(run_scan(model, &data, out) != COMPUTE_OK);
  assert_non_null(strstr(compute_error_message(context), words));
  compute_model_release(model);
  test_close(context);
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  assert_refused("", COMPUTE_SHAPE(ENTRIES, ROUNDS - 1), "'scan' (Scan)");
  assert_refused("", COMPUTE_SHAPE(1, ROUNDS), "'scan' (Scan)");
  assert_refused("", COMPUTE_SHAPE(ENTRIES, 0), "'scan' (Scan)");
  assert_refused("s", COMPUTE_SHAPE(ENTRIES, ROUNDS), "sequence_lens");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_entry_is_scanned),
      cmocka_unit_test(a_sequence_may_be_read_backwards),
      cmocka_unit_test(what_does_not_fit_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
