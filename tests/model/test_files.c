/* SPDX-License-Identifier: MIT */
/* Files of a model are mapped, or copied into memory if they may change or shrink. */
#include "model/message_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include "compute/compute.h"

#define MODEL    TEST_SCRATCH_DIR "/model.onnx"
#define EXTERNAL TEST_SCRATCH_DIR "/weights.bin"

enum { COUNT = 20000 };

static float weights[COUNT];

static void write_file(const char *path, const void *data, size_t bytes, mode_t mode) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(path, mode), 0);
}

static proto external_weights(void) {
  static const char *const entry[] = {"location", "weights.bin"};
  const int64_t count = COUNT;
  proto tensor = tensor_message("w", 1, 1, &count), pair = {0};
  put_text(&pair, 1, entry[0]);
  put_text(&pair, 2, entry[1]);
  put_message(&tensor, 13, pair);
  put_integer(&tensor, 14, 1);
  return tensor;
}

/* y = x + w − v, where v is in the model's own file and w there or in a second file. The offsets of
 * the tensors differ, so exactly one tensor in the own file is aligned. */
static proto make_model(bool external) {
  proto graph = graph_message("x", "y");
  put_message(&graph, GRAPH_INITIALIZER,
              external ? external_weights() : vector_message("w", weights, COUNT));
  put_message(&graph, GRAPH_INITIALIZER, vector_message("v", weights, COUNT));
  for (int i = 2; i <= 4; i++)
    put_message(&graph, GRAPH_INITIALIZER, vector_message(&"vvvv"[4 - i], weights, COUNT));
  put_message(&graph, GRAPH_NODE, node_message("add", "Add", "x,w", "s"));
  put_message(&graph, GRAPH_NODE, node_message("subtract", "Sub", "s,v", "y"));
  return model_message(graph);
}

static void write_model(bool external, mode_t mode) {
  proto message = make_model(external);
  write_file(MODEL, message.data, message.bytes, mode);
  write_file(EXTERNAL, weights, sizeof weights, mode);
  free(message.data);
}

/* w equals v, so the result is x. */
static void assert_runs(compute_model *model) {
  compute_tensor *x = test_random_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), 5);
  compute_model_binding in = {"x", x}, out = {"y", NULL};
  assert_ok(compute_model_run(model, &in, 1, &out, 1));
  for (int64_t i = 0; i < COUNT; i += 97)
    assert_float_equal(test_element(out.tensor, i), test_element(x, i), 1e-6);
  compute_tensor_release(out.tensor);
  compute_tensor_release(x);
}

static compute_model *load(compute_model_files files) {
  compute_model *model = NULL;
  assert_ok(
      compute_model_load(test_context, MODEL, &(compute_model_options){.files = files}, &model));
  return model;
}

static uint64_t mapped_bytes(const compute_model *model) {
  compute_model_info info;
  assert_ok(compute_model_describe(model, &info));
  return info.mapped_bytes;
}

static int make_weights(void **state) {
  for (int i = 0; i < COUNT; i++) weights[i] = (float)(i % 64) / 4;
  return test_group_open(state);
}

static void copied_files_may_shrink(void **state) {
  (void)state;
  for (int external = 0; external < 2; external++) {
    write_model(external, 0600);
    compute_model *model = load(COMPUTE_MODEL_COPY);
    assert_int_equal(mapped_bytes(model), 0);
    assert_int_equal(truncate(MODEL, 100), 0);
    assert_int_equal(truncate(EXTERNAL, 0), 0);
    assert_runs(model);
    assert_ok(compute_model_save(model, TEST_SCRATCH_DIR "/saved.onnx"));
    compute_model_release(model);
  }
}

/* This includes files that `cp` or another program overwrites, and removed files. */
static void copied_files_may_change(void **state) {
  (void)state;
  static const char other[] = "something else";
  write_model(true, 0600);
  compute_model *model = load(COMPUTE_MODEL_COPY);
  write_file(MODEL, other, sizeof other, 0600);
  assert_int_equal(unlink(EXTERNAL), 0);
  assert_runs(model);
  assert_runs(model);
  compute_model_release(model);
}

static void files_that_others_may_write_are_copied(void **state) {
  (void)state;
  static const struct {
    mode_t mode;
    bool copied;
  } cases[] = {{0600, false}, {0644, false}, {0444, false},
               {0620, true},  {0602, true},  {0666, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int external = 0; external < 2; external++) {
      write_model(external, cases[i].mode);
      compute_model *model = load(COMPUTE_MODEL_COPY_SHARED);
      assert_int_equal(mapped_bytes(model) == 0, cases[i].copied);
      if (cases[i].copied) assert_int_equal(truncate(MODEL, 100) | truncate(EXTERNAL, 0), 0);
      assert_runs(model);
      compute_model_release(model);
      assert_int_equal(unlink(MODEL) | unlink(EXTERNAL), 0);
    }
}

/* Each file is judged separately. */
static void only_the_shared_file_is_copied(void **state) {
  (void)state;
  write_model(true, 0600);
  assert_int_equal(chmod(EXTERNAL, 0666), 0);
  compute_model *model = load(COMPUTE_MODEL_COPY_SHARED);
  assert_int_equal(truncate(EXTERNAL, 0), 0);
  assert_runs(model);
  compute_model_release(model);
}

static void files_of_another_owner_are_copied(void **state) {
  (void)state;
  write_model(false, 0644);
  if (geteuid() != 0 || chown(MODEL, 65534, 65534) != 0)
    test_skip("only root can give a file to another user");
  compute_model *model = load(COMPUTE_MODEL_COPY_SHARED);
  assert_int_equal(mapped_bytes(model), 0);
  compute_model_release(model);
  assert_int_equal(unlink(MODEL), 0);
}

static void mapping_is_the_default(void **state) {
  (void)state;
  compute_model *model = NULL;
  write_model(false, 0666);
  assert_ok(compute_model_load(test_context, MODEL, NULL, &model));
  assert_true(mapped_bytes(model) > 0);
  assert_runs(model);
  compute_model_release(model);
  const compute_model_options wrong = {.files = (compute_model_files)3};
  assert_fails(compute_model_load(test_context, MODEL, &wrong, &model),
               COMPUTE_ERROR_INVALID_ARGUMENT);
}

/* The model is in the caller's memory and its external data may be mapped. Releasing the mapping
 * must not return the caller's message to the system. */
static void memory_of_the_caller_stays_as_it_is(void **state) {
  (void)state;
  write_file(EXTERNAL, weights, sizeof weights, 0600);
  for (int files = COMPUTE_MODEL_MAP; files <= COMPUTE_MODEL_COPY; files++)
    for (size_t shift = 0; shift < 4; shift++) {
      proto message = make_model(true);
      unsigned char *bytes = malloc(message.bytes + shift), *copy = malloc(message.bytes);
      assert_true(bytes && copy);
      memcpy(bytes + shift, message.data, message.bytes);
      memcpy(copy, message.data, message.bytes);
      compute_model *model = NULL;
      const compute_model_options options = {.folder = TEST_SCRATCH_DIR,
                                             .files = (compute_model_files)files};
      assert_ok(
          compute_model_load_memory(test_context, bytes + shift, message.bytes, &options, &model));
      assert_runs(model);
      assert_runs(model);
      compute_model_release(model);
      assert_memory_equal(bytes + shift, copy, message.bytes);
      free(copy);
      free(bytes);
      free(message.data);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copied_files_may_shrink),
      cmocka_unit_test(copied_files_may_change),
      cmocka_unit_test(files_that_others_may_write_are_copied),
      cmocka_unit_test(only_the_shared_file_is_copied),
      cmocka_unit_test(files_of_another_owner_are_copied),
      cmocka_unit_test(mapping_is_the_default),
      cmocka_unit_test(memory_of_the_caller_stays_as_it_is),
  };
  return cmocka_run_group_tests(tests, make_weights, test_group_close);
}
