/* SPDX-License-Identifier: MIT */
/* Operators on tensors without elements. A second stage receives such tensors if the first one
 * finds nothing. */
#include "compute/compute.h"
#include "model/message_writer.h"

static compute_model *load(proto graph, proto *message) {
  compute_model *model = NULL;
  *message = model_message(graph);
  assert_ok(compute_model_load_memory(test_context, message->data, message->bytes, NULL, &model));
  return model;
}

static compute_tensor *nothing(compute_shape shape) {
  compute_tensor *x = NULL;
  assert_ok(compute_tensor_create(compute_default_device(test_context), COMPUTE_F32, shape, &x));
  return x;
}

static void classes_along_no_elements_are_none(void **state) {
  (void)state;
  static const char *const types[] = {"Hardmax", "Softmax", "LogSoftmax"};
  const compute_shape shapes[] = {COMPUTE_SHAPE(3, 0), COMPUTE_SHAPE(0, 3), COMPUTE_SHAPE(2, 0, 4)};
  for (size_t t = 0; t < 3; t++)
    for (size_t s = 0; s < 3; s++)
      for (int64_t axis = 0; axis < shapes[s].rank; axis++) {
        proto graph = graph_message("x", "y"), node = node_message("n", types[t], "x", "y"),
              message;
        put_integer_attribute(&node, "axis", axis);
        put_message(&graph, GRAPH_NODE, node);
        compute_model *model = load(graph, &message);
        compute_model_binding in = {"x", nothing(shapes[s])}, out = {"y", NULL};
        assert_ok(compute_model_run(model, &in, 1, &out, 1));
        assert_true(compute_shape_equal(compute_tensor_shape(out.tensor), shapes[s]));
        compute_tensor_release(out.tensor);
        compute_tensor_release(in.tensor);
        compute_model_release(model);
        free(message.data);
      }
}

/* Scale 1 and zero point 0: the same as for a tensor of zeros. */
static void no_numbers_are_quantized(void **state) {
  (void)state;
  proto graph = graph_message("x", "q,scale,zero"), message;
  put_message(&graph, GRAPH_NODE, node_message("n", "DynamicQuantizeLinear", "x", "q,scale,zero"));
  compute_model *model = load(graph, &message);
  compute_model_binding in = {"x", nothing(COMPUTE_SHAPE(0, 3))},
                        out[3] = {{"q", NULL}, {"scale", NULL}, {"zero", NULL}};
  assert_ok(compute_model_run(model, &in, 1, out, 3));
  assert_true(compute_shape_equal(compute_tensor_shape(out[0].tensor), COMPUTE_SHAPE(0, 3)));
  assert_int_equal(compute_tensor_dtype(out[0].tensor), COMPUTE_U8);
  assert_float_equal(test_element(out[1].tensor, 0), 1, 0);
  assert_float_equal(test_element(out[2].tensor, 0), 0, 0);
  for (int i = 0; i < 3; i++) compute_tensor_release(out[i].tensor);
  compute_tensor_release(in.tensor);
  compute_model_release(model);
  free(message.data);
}

/* An image without rows stays one at any scale; the size of an axis without elements cannot grow. */
static void images_without_elements_are_resized(void **state) {
  (void)state;
  static const float scales[] = {1, 1, 2, 0.5F};
  const int64_t sizes[] = {1, 3, 4, 2};
  const compute_shape shapes[] = {COMPUTE_SHAPE(1, 3, 0, 4), COMPUTE_SHAPE(1, 3, 2, 0),
                                  COMPUTE_SHAPE(0, 3, 2, 4), COMPUTE_SHAPE(1, 0, 0, 0)};
  const compute_shape results[] = {COMPUTE_SHAPE(1, 3, 0, 2), COMPUTE_SHAPE(1, 3, 4, 0),
                                   COMPUTE_SHAPE(0, 3, 4, 2), COMPUTE_SHAPE(1, 0, 0, 0)};
  proto graph = graph_message("x", "y"), message;
  put_message(&graph, GRAPH_NODE, node_message("n", "Resize", "x,,scales", "y"));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("scales", scales, 4));
  compute_model *model = load(graph, &message);
  for (size_t s = 0; s < 4; s++) {
    compute_model_binding in = {"x", nothing(shapes[s])}, out = {"y", NULL};
    assert_ok(compute_model_run(model, &in, 1, &out, 1));
    assert_true(compute_shape_equal(compute_tensor_shape(out.tensor), results[s]));
    compute_tensor_release(out.tensor);
    compute_tensor_release(in.tensor);
  }
  compute_model_release(model);
  free(message.data);

  graph = graph_message("x", "y");
  put_message(&graph, GRAPH_NODE, node_message("n", "Resize", "x,,,sizes", "y"));
  put_message(&graph, GRAPH_INITIALIZER, integers_message("sizes", sizes, 4));
  model = load(graph, &message);
  compute_model_binding in = {"x", nothing(shapes[0])}, out = {"y", NULL};
  assert_int_equal(compute_model_run(model, &in, 1, &out, 1), COMPUTE_ERROR_SHAPE);
  compute_tensor_release(in.tensor);
  compute_model_release(model);
  free(message.data);
}

static void channels_without_elements_are_normalized(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(0, 1, 0, 0), COMPUTE_SHAPE(2, 0, 3, 3),
                                  COMPUTE_SHAPE(2, 3, 0, 3)};
  proto graph = graph_message("x", "y"), node = node_message("n", "LRN", "x", "y"), message;
  put_integer_attribute(&node, "size", 3);
  put_message(&graph, GRAPH_NODE, node);
  compute_model *model = load(graph, &message);
  for (size_t s = 0; s < 3; s++) {
    compute_model_binding in = {"x", nothing(shapes[s])}, out = {"y", NULL};
    assert_ok(compute_model_run(model, &in, 1, &out, 1));
    assert_true(compute_shape_equal(compute_tensor_shape(out.tensor), shapes[s]));
    compute_tensor_release(out.tensor);
    compute_tensor_release(in.tensor);
  }
  compute_model_release(model);
  free(message.data);
}

/* Diagonals of every number that a matrix has, and of others; matrices without elements. */
static void diagonals_have_ones(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(3, 5), COMPUTE_SHAPE(5, 3), COMPUTE_SHAPE(1, 1),
                                  COMPUTE_SHAPE(0, 4), COMPUTE_SHAPE(4, 0)};
  static const int64_t numbers[] = {INT64_MIN, -5, -4, -1, 0, 1, 2, 4, 5, INT64_MAX};
  static const int64_t types[] = {1, 7, 9, 10}; /* f32, i64, bool, f16 */
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (size_t n = 0; n < 4 * sizeof numbers / sizeof *numbers; n++) {
      const int64_t k = numbers[n / 4], columns = shapes[s].size[1];
      proto graph = graph_message("x", "y"), node = node_message("n", "EyeLike", "x", "y"), message;
      put_integer_attribute(&node, "k", k);
      put_integer_attribute(&node, "dtype", types[n % 4]);
      put_message(&graph, GRAPH_NODE, node);
      compute_model *model = load(graph, &message);
      compute_model_binding in = {"x", nothing(shapes[s])}, out = {"y", NULL};
      assert_ok(compute_model_run(model, &in, 1, &out, 1));
      assert_true(compute_shape_equal(compute_tensor_shape(out.tensor), shapes[s]));
      for (int64_t i = 0; i < compute_tensor_count(out.tensor); i++) {
        const bool on = i % columns - i / columns == k;
        assert_float_equal(test_element(out.tensor, i), on ? 1 : 0, 0);
      }
      compute_tensor_release(out.tensor);
      compute_tensor_release(in.tensor);
      compute_model_release(model);
      free(message.data);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes_along_no_elements_are_none),
      cmocka_unit_test(no_numbers_are_quantized),
      cmocka_unit_test(images_without_elements_are_resized),
      cmocka_unit_test(channels_without_elements_are_normalized),
      cmocka_unit_test(diagonals_have_ones),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
