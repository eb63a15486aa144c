/* SPDX-License-Identifier: MIT */
/* Operands and attributes that do not fit their operators, as in files that no checker has seen.
 * tests/onnx/mutants.c tries every form of every operator. */
#include "compute/compute.h"
#include "model/message_writer.h"

/* The run fails with this status and this text in the message. */
static void assert_status(proto graph, compute_status status, const char *message) {
  proto model_bytes = model_message(graph);
  compute_model *model = NULL;
  compute_tensor *x = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2), (float[]){3, -1});
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(
      compute_model_load_memory(test_context, model_bytes.data, model_bytes.bytes, NULL, &model));
  assert_fails(compute_model_run(model, &in, 1, &out, 1), status);
  assert_null(out.tensor);
  test_check_message(test_context, message);
  compute_tensor_release(x);
  compute_model_release(model);
  free(model_bytes.data);
}

/* The product of frames and window fails. The rule must not continue with the shape of this failed
 * node. */
static void a_window_of_another_dtype_is_refused(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  int16_t samples[128] = {1, 2, 3};
  float ones[16];
  for (int i = 0; i < 16; i++) ones[i] = 1;
  proto signal = tensor_message("s", 5, 3, (int64_t[]){1, 128, 1});
  put_bytes(&signal, 9, samples, sizeof samples);
  put_message(&graph, GRAPH_INITIALIZER, signal);
  put_message(&graph, GRAPH_INITIALIZER, integers_message("step", (int64_t[]){8}, 1));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("w", ones, 16));
  put_message(&graph, GRAPH_NODE, node_message("stft", "STFT", "s,step,w", "y"));
  assert_status(graph, COMPUTE_ERROR_DTYPE, "(STFT)");
}

/* The rule of a host function reads its attributes before the run does. */
static void attributes_of_the_host_have_their_type(void **state) {
  (void)state;
  static const char *const attributes[] = {"sorted", "axis"};
  for (size_t i = 0; i < 2; i++) {
    proto graph = graph_message("x", "y"), attribute = {0};
    proto node = node_message("unique", "Unique", "x", "y");
    put_text(&attribute, 1, attributes[i]);
    put_float(&attribute, 2, 1);
    put_integer(&attribute, 20, 1); /* a float */
    put_message(&node, NODE_ATTRIBUTE, attribute);
    put_message(&graph, GRAPH_NODE, node);
    assert_status(graph, COMPUTE_ERROR_FORMAT, "is of the wrong type");
  }
}

static void the_status_is_that_of_the_message(void **state) {
  (void)state;
  proto graph = graph_message("x", "y");
  proto tensor = tensor_message("w", 14, 1, (int64_t[]){1}); /* complex64 */
  put_bytes(&tensor, 9, (float[]){1, 2}, 8);
  put_message(&graph, GRAPH_INITIALIZER, tensor);
  put_message(&graph, GRAPH_NODE, node_message("add", "Add", "x,w", "y"));
  assert_status(graph, COMPUTE_ERROR_UNSUPPORTED, "complex64, which is not supported");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_window_of_another_dtype_is_refused),
      cmocka_unit_test(attributes_of_the_host_have_their_type),
      cmocka_unit_test(the_status_is_that_of_the_message),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
