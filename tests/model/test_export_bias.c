/* SPDX-License-Identifier: MIT */
/* Graphs exported as ONNX: an addition per channel of a convolution becomes the bias of the
 * convolution, if this changes nothing else. test_export.c checks that the results stay the
 * same. */
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "support/harness/test.h"

#define PATH TEST_SCRATCH_DIR "/bias.onnx"

typedef struct network {
  compute_graph *graph;
  compute_node x, filter, y; /* f32 [2, 4, 6, 5], [4, 4, 3, 3], [2, 4, 4, 3] */
} network;

static network begin(void) {
  network n = {.graph = compute_graph_create(test_context)};
  n.x = compute_input(n.graph, COMPUTE_F32, COMPUTE_SHAPE(2, 4, 6, 5));
  n.filter = compute_input(n.graph, COMPUTE_F32, COMPUTE_SHAPE(4, 4, 3, 3));
  n.y = compute_conv2d(n.graph, n.x, n.filter, (compute_node){0}, NULL);
  return n;
}

static compute_node of_shape(network *n, compute_shape shape) {
  return compute_input(n->graph, COMPUTE_F32, shape);
}

static bool mentions(const char *data, size_t bytes, const char *type) {
  return memmem(data, bytes, type, strlen(type)) != NULL;
}

/* Writes the outputs, loads the file and returns true if it contains additions. Releases the
 * graph. */
static bool adds(network *n, const compute_node *outputs, size_t count) {
  static const char *const names[] = {"first", "second"};
  compute_model_value values[2];
  for (size_t i = 0; i < count; i++) values[i] = (compute_model_value){names[i], outputs[i]};
  assert_ok(compute_graph_save_onnx(n->graph, NULL, 0, values, count, PATH, NULL));
  compute_graph_release(n->graph);
  compute_model *model = NULL;
  assert_ok(compute_model_load(test_context, PATH, NULL, &model));
  compute_model_release(model);
  static char data[16384];
  FILE *file = fopen(PATH, "rb");
  assert_non_null(file);
  const size_t bytes = fread(data, 1, sizeof data, file);
  fclose(file);
  assert_true(bytes > 0 && bytes < sizeof data);
  assert_true(mentions(data, bytes, "Conv"));
  return mentions(data, bytes, "Add");
}

static void numbers_of_channels_become_a_bias(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(4), COMPUTE_SHAPE(4, 1, 1),
                                  COMPUTE_SHAPE(1, 4, 1, 1)};
  for (int transposed = 0; transposed < 2; transposed++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      network n = begin();
      compute_node bias = of_shape(&n, shapes[i]);
      if (transposed)
        n.y = compute_conv2d_transpose(n.graph, n.x, n.filter, (compute_node){0}, NULL);
      if (i == 0) bias = compute_reshape(n.graph, bias, COMPUTE_SHAPE(1, 4, 1, 1));
      const compute_node y =
          i == 1 ? compute_add(n.graph, bias, n.y) : compute_add(n.graph, n.y, bias);
      assert_false(adds(&n, &y, 1));
    }
}

/* Another node reads the reshaped vector. */
static void a_bias_may_have_other_readers(void **state) {
  (void)state;
  network n = begin();
  const compute_node bias =
      compute_reshape(n.graph, of_shape(&n, COMPUTE_SHAPE(4)), COMPUTE_SHAPE(1, 4, 1, 1));
  const compute_node outputs[] = {compute_add(n.graph, n.y, bias), compute_relu(n.graph, bias)};
  assert_false(adds(&n, outputs, 2));
}

static void other_additions_stay(void **state) {
  (void)state;
  const compute_shape shapes[] = {COMPUTE_SHAPE(3), COMPUTE_SHAPE(4, 3), COMPUTE_SHAPE(4, 1, 3),
                                  COMPUTE_SHAPE(2, 4, 1, 1), COMPUTE_SHAPE(1, 1, 1)};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    network n = begin();
    const compute_node y = compute_add(n.graph, n.y, of_shape(&n, shapes[i]));
    assert_true(adds(&n, &y, 1));
  }
  for (int i = 0; i < 2; i++) { /* the convolution's result has another reader, or is an output */
    network n = begin();
    const compute_node sum = compute_add(n.graph, n.y, of_shape(&n, COMPUTE_SHAPE(4, 1, 1)));
    const compute_node outputs[] = {sum, i ? compute_relu(n.graph, n.y) : n.y};
    assert_true(adds(&n, outputs, 2));
  }
  network n = begin();
  const compute_node twice = compute_add(n.graph, n.y, n.y);
  assert_true(adds(&n, &twice, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_channels_become_a_bias),
      cmocka_unit_test(a_bias_may_have_other_readers),
      cmocka_unit_test(other_additions_stay),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
