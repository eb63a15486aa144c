/* SPDX-License-Identifier: MIT */
/* A weight that two layers share is one parameter. It is trained once, by the sum of its gradients.
 * Files have both names, and one of them is enough for loading. */
#include <math.h>
#include <string.h>

#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

#define SAFE TEST_SCRATCH_DIR "/shared.safetensors"

static compute_node scale(void *user, compute_graph *graph, compute_node x,
                          const compute_node *parameters, bool training) {
  (void)user;
  (void)training;
  return compute_mul(graph, x, parameters[0]);
}

static compute_layer *scaling(compute_tensor *weight) {
  static const char *const names[] = {"weight"};
  return compute_custom_layer("scale", scale, NULL, &weight, names, 1);
}

/* x · w · v · w: "0.weight" and "2.tail.weight" are one tensor. NULL if memory is short. */
static compute_layer *network(compute_context *context, float w, float v) {
  compute_device *device = compute_default_device(context);
  compute_tensor *shared = NULL, *own = NULL;
  compute_layer *net = NULL;
  if (compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1), &shared) == COMPUTE_OK &&
      compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(1), &own) == COMPUTE_OK &&
      compute_tensor_write(shared, &w, sizeof w) == COMPUTE_OK &&
      compute_tensor_write(own, &v, sizeof v) == COMPUTE_OK) {
    compute_layer *tail =
        compute_sequential((compute_layer *[]){compute_layer_name(scaling(shared), "tail")}, 1);
    net = compute_sequential((compute_layer *[]){scaling(shared), scaling(own), tail}, 3);
  }
  compute_tensor_release(shared);
  compute_tensor_release(own);
  return net;
}

static float weight_of(const compute_layer *net, size_t index) {
  compute_layer_parameter p;
  float value;
  assert_ok(compute_layer_parameter_at(net, index, &p));
  assert_ok(compute_tensor_read(p.tensor, &value, sizeof value));
  return value;
}

static void a_shared_tensor_is_one_parameter_by_its_first_name(void **state) {
  (void)state;
  compute_layer *net = network(test_context, 2, 3);
  compute_layer_parameter p;
  assert_int_equal(compute_layer_parameter_count(net), 2);
  assert_int_equal(compute_layer_element_count(net, true), 2);
  assert_ok(compute_layer_parameter_at(net, 0, &p));
  assert_string_equal(p.name, "0.weight");
  assert_ok(compute_layer_parameter_at(net, 1, &p));
  assert_string_equal(p.name, "1.weight");
  compute_graph *graph = compute_graph_create(test_context);
  compute_node nodes[4];
  assert_int_equal(compute_layer_nodes(net, graph, nodes, 4), 2);
  assert_int_not_equal(nodes[0].id, nodes[1].id);
  compute_graph_release(graph);
  compute_layer_release(net);
}

/* One step of SGD and of Adam down (w²v·x − t)²: the gradient of w is the sum for both places. */
static void a_shared_tensor_is_trained_once_by_the_sum(compute_optimizer_kind kind,
                                                       size_t devices) {
  compute_device *cpu = compute_default_device(test_context), *both[2] = {cpu, cpu};
  compute_layer *net = network(test_context, 2, 3);
  compute_trainer *trainer = NULL;
  const compute_trainer_options o = {.model = net,
                                     .loss = COMPUTE_LOSS_MEAN_SQUARED_ERROR,
                                     .optimizer = {.kind = kind, .learning_rate = 1e-3},
                                     .input = {COMPUTE_F32, COMPUTE_SHAPE(1)},
                                     .target = {COMPUTE_F32, COMPUTE_SHAPE(1)},
                                     .batch = 2,
                                     .devices = both,
                                     .device_count = devices};
  assert_ok(compute_trainer_create(test_context, &o, &trainer));
  static const float x[] = {1, 1}, t[] = {2, 2};
  compute_tensor *inputs = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 1), x);
  compute_tensor *targets = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 1), t);
  double loss;
  assert_ok(compute_trainer_step(trainer, inputs, targets, &loss));
  assert_true(fabs(loss - 100) < 1e-4);
  const bool adam = kind == COMPUTE_ADAM; /* Adam's first step equals the rate */
  assert_true(fabs(weight_of(net, 0) - (2 - 1e-3 * (adam ? 1 : 2 * 10 * 2 * 2 * 3))) < 1e-5);
  assert_true(fabs(weight_of(net, 1) - (3 - 1e-3 * (adam ? 1 : 2 * 10 * 4))) < 1e-5);
  assert_ok(compute_trainer_save(trainer, SAFE));
  assert_ok(compute_trainer_load(trainer, SAFE));
  compute_tensor_release(inputs);
  compute_tensor_release(targets);
  compute_trainer_release(trainer);
  compute_layer_release(net);
}

static void training_moves_a_shared_tensor_once(void **state) {
  (void)state;
  a_shared_tensor_is_trained_once_by_the_sum(COMPUTE_SGD, 1);
  a_shared_tensor_is_trained_once_by_the_sum(COMPUTE_ADAM, 1);
  a_shared_tensor_is_trained_once_by_the_sum(COMPUTE_ADAM, 2);
}

/* ---- Files --------------------------------------------------------------------------------- */

/* Writes a file with the names in `which` (bits). All tensors are equal except the last. */
static void write_names(unsigned which, float last) {
  static const char *const names[] = {"0.weight", "1.weight", "2.tail.weight"};
  static const float value = 7;
  compute_tensor *a = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &value);
  compute_tensor *b = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &last);
  compute_named_tensor tensors[3];
  size_t count = 0;
  for (unsigned i = 0; i < 3; i++)
    if (which >> i & 1) tensors[count++] = (compute_named_tensor){names[i], i < 2 ? a : b};
  assert_ok(compute_tensor_file_write(test_context, SAFE, tensors, count));
  compute_tensor_release(a);
  compute_tensor_release(b);
}

static void a_file_needs_one_of_the_names(void **state) {
  (void)state;
  compute_layer *net = network(test_context, 2, 3);
  for (unsigned which = 1; which < 8; which++) {
    const bool shared = (which & 5) != 0, whole = shared && (which & 2);
    write_names(which, 7);
    if (!whole) {
      assert_fails(compute_layer_load(net, SAFE, 0), COMPUTE_ERROR_INVALID_ARGUMENT);
      test_check_message(test_context,
                         shared ? "has no \"1.weight\"" : "has no \"0.weight\" and 1");
      continue;
    }
    assert_ok(compute_layer_load(net, SAFE, 0));
    assert_true(weight_of(net, 0) == 7 && weight_of(net, 1) == 7);
  }
  compute_layer_release(net);
}

static void names_that_differ_are_refused(void **state) {
  (void)state;
  compute_layer *net = network(test_context, 2, 3);
  write_names(7, 8);
  assert_fails(compute_layer_load(net, SAFE, 0), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context,
                     "\"0.weight\" and \"2.tail.weight\" are the same tensor in the layer");
  assert_true(weight_of(net, 0) == 2 && weight_of(net, 1) == 3);
  compute_layer_release(net);
}

static void a_saved_file_has_all_names(void **state) {
  (void)state;
  compute_layer *net = network(test_context, 2, 3), *other = network(test_context, 4, 5);
  compute_tensor_file *file;
  assert_ok(compute_layer_save(net, SAFE));
  assert_ok(compute_tensor_file_open(test_context, SAFE, &file));
  assert_int_equal(compute_tensor_file_count(file), 3);
  assert_true(compute_tensor_file_find(file, "2.tail.weight") < 3);
  compute_tensor_file_close(file);
  assert_ok(compute_layer_load(other, SAFE, 0));
  assert_true(weight_of(other, 0) == 2 && weight_of(other, 1) == 3);
  compute_layer_release(net);
  compute_layer_release(other);
}

static void short_memory_is_an_error_and_nothing_leaks(void **state) {
  (void)state;
  failing_allocator_install();
  compute_context *context = test_open();
  for (int64_t nth = 1;; nth++) {
    failing_allocator_arm(nth, false);
    compute_layer *net = network(context, 2, 3);
    if (net) (void)compute_layer_save(net, SAFE);
    if (net) (void)compute_layer_load(net, SAFE, 0);
    const bool failed = failing_allocator_failures() > 0;
    failing_allocator_arm(0, false);
    if (net) assert_true(weight_of(net, 0) == 2 && weight_of(net, 1) == 3);
    compute_layer_release(net);
    if (!failed) break;
  }
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shared_tensor_is_one_parameter_by_its_first_name),
      cmocka_unit_test(training_moves_a_shared_tensor_once),
      cmocka_unit_test(a_file_needs_one_of_the_names),
      cmocka_unit_test(names_that_differ_are_refused),
      cmocka_unit_test(a_saved_file_has_all_names),
  };
  const struct CMUnitTest memory[] = {cmocka_unit_test(short_memory_is_an_error_and_nothing_leaks)};
  const int failed = cmocka_run_group_tests(tests, test_group_open, test_group_close);
  return cmocka_run_group_tests(memory, NULL, NULL) + failed;
}
