/* SPDX-License-Identifier: MIT */
/* Every allocation of loading, running, recording and saving a model fails once. The failure is
 * reported, existing objects still work, and nothing leaks. */
#include "compute/compute.h"
#include "model/message_writer.h"
#include "support/harness/failing_allocator.h"

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(type, type, inputs, outputs));
}

/* A weight, a computed shape, and a result whose size depends on values. */
static proto varied_model(void) {
  proto graph = graph_message("x", "y,z");
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", (float[]){1, -2, 0, 3}, 4));
  add_node(&graph, "Add", "x,w", "s");
  add_node(&graph, "Shape", "s", "size");
  add_node(&graph, "Reshape", "s,size", "r");
  add_node(&graph, "Relu", "r", "z");
  add_node(&graph, "NonZero", "z", "at");
  add_node(&graph, "Transpose", "at", "list");
  add_node(&graph, "GatherND", "z,list", "y");
  return model_message(graph);
}

static compute_status use_model(compute_context *context, const proto *message, const char *path) {
  compute_model *model = NULL;
  compute_tensor *x = NULL;
  compute_status status =
      compute_model_load_memory(context, message->data, message->bytes, NULL, &model);
  compute_graph *graph = NULL;
  compute_model_binding in = {"x", NULL}, out[2] = {{"y", NULL}, {"z", NULL}};
  if (!status)
    status = compute_tensor_from_host(compute_default_device(context), COMPUTE_F32,
                                      COMPUTE_SHAPE(4), (float[]){1, 1, 1, 1}, &x);
  in.tensor = x;
  if (!status) status = compute_model_run(model, &in, 1, out, 2);
  if (!status && compute_tensor_count(out[0].tensor) != 3) status = COMPUTE_ERROR_INTERNAL;
  if (!status) {
    graph = compute_graph_create(context);
    if (!graph) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  if (!status) {
    compute_model_value input = {"x", compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(4))};
    compute_model_value output = {"z", {0}};
    status = compute_graph_status(graph);
    if (!status) status = compute_model_record(model, graph, &input, 1, &output, 1);
    if (!status) status = compute_graph_save_onnx(graph, &input, 1, &output, 1, path, NULL);
  }
  if (!status) status = compute_model_save(model, path);
  compute_graph_release(graph);
  compute_tensor_release(out[0].tensor);
  compute_tensor_release(out[1].tensor);
  compute_tensor_release(x);
  compute_model_release(model);
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  static const char path[] = TEST_SCRATCH_DIR "/saved.onnx";
  proto message = varied_model();
  failing_allocator_install();
  compute_context *context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu"}));
  bool failed = true;
  int64_t nth = 1;
  for (; failed; nth++) {
    failing_allocator_arm(nth, false);
    const compute_status status = use_model(context, &message, path);
    failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    if (!failed) assert_int_equal(status, COMPUTE_OK);
    if (status && status != COMPUTE_ERROR_OUT_OF_MEMORY)
      fail_msg("allocation %lld: %s", (long long)nth, compute_error_message(context));
  }
  assert_true(nth > 100);
  assert_ok(use_model(context, &message, path));
  assert_ok(compute_close(context));
  assert_int_equal(failing_allocator_remove(), 0);
  free(message.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
