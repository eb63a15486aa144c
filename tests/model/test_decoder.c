/* SPDX-License-Identifier: MIT */
/* A decoder whose caches have a fixed capacity: a hundred steps with one plan, each of which writes
 * its key and value at a position that only the run knows, and sees what is there so far. */
#include <math.h>

#include "compute/compute.h"
#include "model/message_writer.h"
#include "support/harness/test.h"

enum { CAPACITY = 100, SIZE = 2 };

static proto integer_message(const char *name, int64_t value) {
  proto tensor = tensor_message(name, 7, 1, (int64_t[]){1});
  put_bytes(&tensor, 9, &value, sizeof value);
  return tensor;
}

static void add_node(proto *graph, const char *type, const char *inputs, const char *outputs) {
  put_message(graph, GRAPH_NODE, node_message(type, type, inputs, outputs));
}

/* One head, whose query, key and value are its input. */
static compute_model *load_decoder(proto *message) {
  proto graph = graph_message("x,position,past", "y,present"), model = {0};
  put_message(&graph, GRAPH_INITIALIZER, integer_message("one", 1));
  add_node(&graph, "TensorScatter", "past,x,position", "present");
  add_node(&graph, "Add", "position,one", "length");
  add_node(&graph, "Attention", "x,present,present,,,,length", "y");
  put_integer(&model, 1, 10);
  put_message(&model, MODEL_GRAPH, graph);
  put_message(&model, 8, opset_message("", 24));
  *message = model;
  compute_model *loaded = NULL;
  assert_ok(compute_model_load_memory(test_context, model.data, model.bytes, NULL, &loaded));
  return loaded;
}

static float input_at(int t, int i) {
  return (float)sin(1.7 * t + 0.9 * i);
}

/* What step `t` gives, from the beginning. */
static void attend(int t, double y[SIZE]) {
  double sum = 0;
  y[0] = y[1] = 0;
  for (int s = 0; s <= t; s++) {
    double score = 0;
    for (int i = 0; i < SIZE; i++) score += (double)input_at(t, i) * (double)input_at(s, i);
    const double weight = exp(score / sqrt(SIZE));
    sum += weight;
    for (int i = 0; i < SIZE; i++) y[i] += weight * (double)input_at(s, i);
  }
  for (int i = 0; i < SIZE; i++) y[i] /= sum;
}

/* With `apart` the caches of a step and the next are two tensors, else one. */
static void decode(bool apart) {
  proto message;
  compute_model *model = load_decoder(&message);
  const compute_shape cache = COMPUTE_SHAPE(1, 1, CAPACITY, SIZE);
  compute_device *device = compute_default_device(test_context);
  compute_tensor *caches[2], *y = NULL, *x, *position;
  for (int i = 0; i < 2; i++)
    assert_ok(compute_tensor_full(device, COMPUTE_F32, cache, 0, &caches[i]));
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1, 1, 1, SIZE), &x));
  assert_ok(compute_tensor_create(device, COMPUTE_I64, COMPUTE_SHAPE(1), &position));
  for (int64_t t = 0; t < CAPACITY; t++) {
    const float values[SIZE] = {input_at((int)t, 0), input_at((int)t, 1)};
    double expected[SIZE];
    assert_ok(compute_tensor_write(x, values, sizeof values));
    assert_ok(compute_tensor_write(position, &t, sizeof t));
    compute_tensor *past = caches[apart ? t % 2 : 0], *present = caches[apart ? (t + 1) % 2 : 0];
    const compute_model_binding in[] = {{"x", x}, {"position", position}, {"past", past}};
    compute_model_binding out[] = {{"y", y}, {"present", present}};
    assert_ok(compute_model_run(model, in, 3, out, 2));
    y = out[0].tensor;
    attend((int)t, expected);
    for (int i = 0; i < SIZE; i++) assert_true(fabs(test_element(y, i) - expected[i]) < 1e-5);
  }
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  assert_int_equal(info.runs, CAPACITY);
  assert_int_equal(info.plans_made, 1);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_tensor_release(position);
  compute_tensor_release(caches[0]);
  compute_tensor_release(caches[1]);
  compute_model_release(model);
  free(message.data);
}

static void a_hundred_steps_have_one_plan(void **state) {
  (void)state;
  decode(true);
}

static void a_cache_may_be_updated_where_it_is(void **state) {
  (void)state;
  decode(false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hundred_steps_have_one_plan),
      cmocka_unit_test(a_cache_may_be_updated_where_it_is),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
