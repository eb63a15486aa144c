/* SPDX-License-Identifier: MIT */
/* Weights of networks on disk: an equal network loads the saved weights. A file that does not fit
 * is refused with names and shapes, and the network stays unchanged. */
#include "support/harness/test.h"

#include <string.h>

#define SAFE TEST_SCRATCH_DIR "/net.safetensors"
#define NPZ  TEST_SCRATCH_DIR "/net.npz"

static compute_layer *network(int64_t hidden, uint64_t seed) {
  compute_device *device = compute_default_device(test_context);
  compute_layer *net = compute_sequential(
      (compute_layer *[]){compute_dense(device, 3, hidden, NULL),
                          compute_batch_norm_layer(device, hidden, NULL),
                          compute_activation(COMPUTE_RELU), compute_dense(device, hidden, 2, NULL)},
      4);
  assert_non_null(net);
  assert_ok(compute_layer_initialize(net, COMPUTE_INIT_XAVIER_UNIFORM, seed));
  return net;
}

static bool equal(const compute_layer *a, const compute_layer *b, const char *except) {
  unsigned char first[512], second[512];
  assert_int_equal(compute_layer_parameter_count(a), compute_layer_parameter_count(b));
  for (size_t i = 0; i < compute_layer_parameter_count(a); i++) {
    compute_layer_parameter x, y;
    assert_ok(compute_layer_parameter_at(a, i, &x));
    assert_ok(compute_layer_parameter_at(b, i, &y));
    assert_string_equal(x.name, y.name);
    size_t bytes =
        (size_t)compute_tensor_count(x.tensor) * compute_dtype_size(compute_tensor_dtype(x.tensor));
    assert_ok(compute_tensor_read(x.tensor, first, bytes));
    assert_ok(compute_tensor_read(y.tensor, second, bytes));
    if (except && !strcmp(x.name, except)) continue;
    if (memcmp(first, second, bytes) != 0) return false;
  }
  return true;
}

static void saved_weights_load_into_an_equal_network(void **state) {
  (void)state;
  static const char *const paths[] = {SAFE, NPZ};
  for (int i = 0; i < 2; i++) {
    compute_layer *saved = network(4, 1), *loaded = network(4, 2);
    assert_false(equal(saved, loaded, NULL));
    assert_ok(compute_layer_save(saved, paths[i]));
    assert_ok(compute_layer_load(loaded, paths[i], 0));
    assert_true(equal(saved, loaded, NULL));
    compute_layer_release(saved);
    compute_layer_release(loaded);
  }
}

static void names_are_those_of_pytorch(void **state) {
  (void)state;
  static const char *const names[] = {"0.weight",
                                      "0.bias",
                                      "1.weight",
                                      "1.bias",
                                      "1.running_mean",
                                      "1.running_var",
                                      "1.num_batches_tracked",
                                      "3.weight",
                                      "3.bias"};
  compute_layer *net = network(4, 1);
  compute_tensor_file *file;
  assert_ok(compute_layer_save(net, SAFE));
  assert_ok(compute_tensor_file_open(test_context, SAFE, &file));
  size_t count = compute_tensor_file_count(file);
  assert_int_equal(count, sizeof names / sizeof *names);
  for (size_t i = 0; i < count; i++) assert_true(compute_tensor_file_find(file, names[i]) < count);
  compute_tensor_file_close(file);
  compute_layer_release(net);
}

/* Writes the parameters of `net`, without the first `skip`, and `extra` if it is not NULL. */
static void save_some(const compute_layer *net, size_t skip, const char *extra) {
  compute_named_tensor tensors[16];
  size_t count = 0;
  for (size_t i = skip; i < compute_layer_parameter_count(net); i++) {
    compute_layer_parameter parameter;
    assert_ok(compute_layer_parameter_at(net, i, &parameter));
    tensors[count++] = (compute_named_tensor){parameter.name, parameter.tensor};
  }
  if (extra) {
    tensors[count] = (compute_named_tensor){extra, tensors[0].tensor};
    count++;
  }
  assert_ok(compute_tensor_file_write(test_context, SAFE, tensors, count));
}

static void assert_refused(uint32_t flags, compute_status expected, const char *part) {
  compute_layer *net = network(4, 2), *same = network(4, 2);
  assert_fails(compute_layer_load(net, SAFE, flags), expected);
  test_check_message(test_context, part);
  assert_true(equal(net, same, NULL));
  compute_layer_release(net);
  compute_layer_release(same);
}

static void files_that_do_not_fit_change_nothing(void **state) {
  (void)state;
  compute_layer *net = network(4, 1), *wide = network(5, 1), *other = network(4, 2);
  assert_ok(compute_layer_save(wide, SAFE));
  assert_refused(0, COMPUTE_ERROR_SHAPE, "\"0.weight\" is [5,3] in ");
  save_some(net, 2, NULL);
  assert_refused(0, COMPUTE_ERROR_INVALID_ARGUMENT, "has no \"0.weight\" and 1 more");
  assert_refused(COMPUTE_WEIGHTS_ALLOW_EXTRA, COMPUTE_ERROR_INVALID_ARGUMENT, "has no");
  save_some(net, 0, "more");
  assert_refused(0, COMPUTE_ERROR_INVALID_ARGUMENT, "has \"more\", not in the layer");
  assert_refused(COMPUTE_WEIGHTS_ALLOW_MISSING, COMPUTE_ERROR_INVALID_ARGUMENT, "\"more\"");
  assert_refused(4, COMPUTE_ERROR_INVALID_ARGUMENT, "flags");
  save_some(net, 1, "more");
  assert_ok(
      compute_layer_load(other, SAFE, COMPUTE_WEIGHTS_ALLOW_EXTRA | COMPUTE_WEIGHTS_ALLOW_MISSING));
  assert_true(equal(net, other, "0.weight"));
  assert_false(equal(net, other, NULL));
  compute_layer_release(net);
  compute_layer_release(wide);
  compute_layer_release(other);
}

static void damage_in_the_last_tensor_changes_nothing(void **state) {
  (void)state;
  compute_layer *net = network(4, 1), *loaded = network(4, 2), *same = network(4, 2);
  compute_layer_parameter last;
  static const float values[] = {1.5f, -2.5f};
  assert_ok(compute_layer_parameter_at(net, compute_layer_parameter_count(net) - 1, &last));
  assert_ok(compute_tensor_write(last.tensor, values, sizeof values));
  assert_ok(compute_layer_save(net, NPZ));
  static char bytes[16384];
  FILE *file = fopen(NPZ, "r+b");
  size_t count = fread(bytes, 1, sizeof bytes, file);
  char *place = memmem(bytes, count, values, sizeof values);
  assert_non_null(place);
  fseek(file, place - bytes, SEEK_SET);
  fputc(*place ^ 1, file);
  fclose(file);
  assert_fails(compute_layer_load(loaded, NPZ, 0), COMPUTE_ERROR_FORMAT);
  test_check_message(test_context, "\"3.bias\"");
  assert_true(equal(loaded, same, NULL));
  compute_layer_release(net);
  compute_layer_release(loaded);
  compute_layer_release(same);
}

static void calls_that_make_no_sense_are_refused(void **state) {
  (void)state;
  compute_layer *net = network(4, 1);
  assert_fails(compute_layer_save(NULL, SAFE), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_layer_save(net, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_layer_save(net, "net.pt"), COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_layer_load(NULL, SAFE, 0), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_layer_load(net, NULL, 0), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_layer_load(net, TEST_SCRATCH_DIR "/none.npz", 0), COMPUTE_ERROR_FILE);
  compute_layer_release(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saved_weights_load_into_an_equal_network),
      cmocka_unit_test(names_are_those_of_pytorch),
      cmocka_unit_test(files_that_do_not_fit_change_nothing),
      cmocka_unit_test(damage_in_the_last_tensor_changes_nothing),
      cmocka_unit_test(calls_that_make_no_sense_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
