/* SPDX-License-Identifier: MIT */
/* Tensor elements in files beside an ONNX file: they are mapped in place, and only from the model's
 * folder. */
#include "model/decoding.h"

#include "compute/model.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- External data ------------------------------------------------------------------------- */

#define FOLDER TEST_SCRATCH_DIR "/folder"

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void make_link(const char *target, const char *path) {
  unlink(path);
  assert_int_equal(symlink(target, path), 0);
}

static int make_folder(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4};
  mkdir(FOLDER, 0700);
  mkdir(FOLDER "/below", 0700);
  write_file(TEST_SCRATCH_DIR "/outside", values, sizeof values);
  write_file(FOLDER "/data", values, sizeof values);
  write_file(FOLDER "/below/data", values, sizeof values);
  write_file(FOLDER "/empty", values, 0);
  make_link("data", FOLDER "/link");
  make_link("../outside", FOLDER "/out");
  make_link("below", FOLDER "/way");
  unlink(FOLDER "/pipe");
  assert_int_equal(mkfifo(FOLDER "/pipe", 0600), 0);
  return 0;
}

static void put_pair(proto *tensor, const char *key, const char *value) {
  proto pair = {0};
  if (!value) return;
  put_text(&pair, 1, key);
  put_text(&pair, 2, value);
  put_message(tensor, 13, pair);
}

/* Two floats in another file. */
static proto external_message(const char *name, const char *location, const char *offset,
                              const char *length) {
  proto tensor = tensor_message(name, ONNX_FLOAT, 1, (int64_t[]){2});
  put_pair(&tensor, "location", location);
  put_pair(&tensor, "offset", offset);
  put_pair(&tensor, "length", length);
  put_integer(&tensor, 14, 1);
  return tensor;
}

static void assert_external_refused(proto tensor, compute_status expected, const char *part) {
  assert_refuses_in(with_initializer(tensor), FOLDER, expected, part);
}

static void elements_beside_the_model_are_mapped_once(void **state) {
  (void)state;
  static const char *const locations[] = {"data", "data", "./data", "below/data", "below//data"};
  proto graph = graph_message(NULL, NULL);
  onnx_file file;
  for (int i = 0; i < 5; i++) {
    char name[2] = {(char)('a' + i), 0};
    put_message(&graph, GRAPH_INITIALIZER,
                external_message(name, locations[i], i ? "8" : NULL, i & 1 ? "8" : NULL));
  }
  assert_ok(decode(model_message(graph), FOLDER, &file));
  const onnx_tensor *tensors = file.graph.initializers;
  assert_memory_equal(tensors[0].data, ((float[]){1, 2}), 8);
  assert_memory_equal(tensors[3].data, ((float[]){3, 4}), 8);
  assert_ptr_equal((const char *)tensors[0].data + 8, tensors[1].data);
  assert_ptr_equal(tensors[1].data, tensors[2].data);
  assert_ptr_equal(tensors[3].data, tensors[4].data);
  assert_int_equal(file.mapped_bytes, 40);
  /* Weights are writable, and the file does not change. */
  *(float *)tensors[0].data = 9;
  onnx_release(&file);
  float first;
  FILE *data = fopen(FOLDER "/data", "rb");
  assert_int_equal(fread(&first, 4, 1, data), 1);
  fclose(data);
  assert_true(first == 1);
}

/* A sparse file: only the last elements occupy pages. */
static void make_large_file(const char *path, off_t size, const void *end, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fseeko(file, size - (off_t)bytes, SEEK_SET), 0);
  assert_int_equal(fwrite(end, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void places_beyond_32_bits_are_found(void **state) {
  (void)state;
  const int64_t size = ((int64_t)1 << 32) + 16;
  static const float end[] = {5, 6, 7, 8};
  make_large_file(FOLDER "/huge", size, end, sizeof end);
  proto graph = graph_message(NULL, NULL);
  proto bytes = tensor_message("bytes", ONNX_UINT8, 1, &size);
  put_pair(&bytes, "location", "huge");
  put_pair(&bytes, "length", "4294967312");
  put_integer(&bytes, 14, 1);
  put_message(&graph, GRAPH_INITIALIZER, bytes);
  put_message(&graph, GRAPH_INITIALIZER, external_message("before", "huge", "2147483648", "8"));
  put_message(&graph, GRAPH_INITIALIZER, external_message("last", "huge", "4294967304", "8"));
  onnx_file file;
  assert_ok(decode(model_message(graph), FOLDER, &file));
  const onnx_tensor *tensors = file.graph.initializers;
  assert_int_equal(tensors[0].count, size);
  assert_memory_equal((const char *)tensors[0].data + size - 16, end, 16);
  assert_memory_equal(tensors[1].data, ((float[]){0, 0}), 8);
  assert_memory_equal(tensors[2].data, ((float[]){7, 8}), 8);
  assert_ptr_equal(tensors[2].data, (const char *)tensors[0].data + size - 8);
  onnx_release(&file);
  assert_external_refused(external_message("w", "huge", "4294967305", NULL), COMPUTE_ERROR_FORMAT,
                          "past the end of 'huge'");
  unlink(FOLDER "/huge");
}

/* Refuses models that one ONNX file cannot hold. */
static void a_model_above_the_limit_is_not_saved_as_one_file(void **state) {
  (void)state;
  const int64_t size = (int64_t)1 << 31;
  make_large_file(FOLDER "/huge", size, "", 1);
  proto tensor = tensor_message("bytes", ONNX_UINT8, 1, &size);
  put_pair(&tensor, "location", "huge");
  put_integer(&tensor, 14, 1);
  proto model = with_initializer(tensor);
  write_file(FOLDER "/huge.onnx", model.data, model.bytes);
  free(model.data);
  compute_context *context = NULL;
  compute_model *loaded = NULL;
  assert_ok(compute_open(&context, NULL));
  assert_ok(compute_model_load(context, FOLDER "/huge.onnx", NULL, &loaded));
  assert_int_equal(compute_model_save(loaded, FOLDER "/saved.onnx"), COMPUTE_ERROR_UNSUPPORTED);
  test_check_message(context, "2 GiB");
  assert_int_equal(access(FOLDER "/saved.onnx", F_OK), -1);
  compute_model_release(loaded);
  compute_close(context);
  unlink(FOLDER "/huge");
}

static void files_elsewhere_are_not_opened(void **state) {
  (void)state;
  static const char *const elsewhere[] = {
      "../outside", "below/../../outside", "/etc/passwd", "..", "below/..", "", ".//../outside"};
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    assert_external_refused(external_message("w", elsewhere[i], NULL, NULL), COMPUTE_ERROR_FORMAT,
                            "not in the model's folder");
  static const char *const links[] = {"link", "out", "way/data", "data/more"};
  for (size_t i = 0; i < sizeof links / sizeof *links; i++)
    assert_external_refused(external_message("w", links[i], NULL, NULL), COMPUTE_ERROR_FORMAT,
                            "symbolic link");
  static const char *const others[] = {"pipe", "below", ".", "below/"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_external_refused(external_message("w", others[i], NULL, NULL), COMPUTE_ERROR_FILE,
                            "not a regular file");
  assert_external_refused(external_message("w", "none", NULL, NULL), COMPUTE_ERROR_FILE,
                          "cannot open 'none'");
  assert_external_refused(external_message("w", NULL, NULL, NULL), COMPUTE_ERROR_FORMAT,
                          "does not name");
  assert_refuses_in(with_initializer(external_message("w", "data", NULL, NULL)), NULL,
                    COMPUTE_ERROR_FILE, "no folder was given");
}

static void places_outside_a_file_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *offset, *length, *part;
  } cases[] = {
      {"9", NULL, "past the end of 'data'"},
      {"17", "8", "past the end of 'data'"},
      {"18446744073709551615", NULL, "past the end of 'data'"},
      {"18446744073709551616", NULL, "offset is not a number"},
      {"-1", NULL, "offset is not a number"},
      {"", NULL, "offset is not a number"},
      {" 1", NULL, "offset is not a number"},
      {NULL, "0x8", "length is not a number"},
      {NULL, "9", "has 9 bytes in 'data'"},
      {NULL, "18446744073709551615", "has 18446744073709551615 bytes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_external_refused(external_message("w", "data", cases[i].offset, cases[i].length),
                            COMPUTE_ERROR_FORMAT, cases[i].part);
  assert_external_refused(external_message("w", "empty", NULL, NULL), COMPUTE_ERROR_FORMAT,
                          "past the end");
}

static void one_place_is_not_converted_without_end(void **state) {
  (void)state;
  enum { BYTES = 1 << 20 };
  unsigned char *data = calloc(1, BYTES);
  write_file(FOLDER "/large", data, BYTES);
  free(data);
  onnx_file file;
  for (int tensors = 8; tensors <= 16; tensors += 8) {
    proto graph = graph_message(NULL, NULL);
    for (int i = 0; i < tensors; i++) {
      char name[2] = {(char)('a' + i), 0};
      proto tensor = tensor_message(name, ONNX_FLOAT4E2M1, 1, (int64_t[]){2 * BYTES});
      put_pair(&tensor, "location", "large");
      put_integer(&tensor, 14, 1);
      put_message(&graph, GRAPH_INITIALIZER, tensor);
    }
    if (tensors == 16) {
      assert_refuses_in(model_message(graph), FOLDER, COMPUTE_ERROR_UNSUPPORTED, "too many");
      continue;
    }
    assert_ok(decode(model_message(graph), FOLDER, &file));
    onnx_release(&file);
  }
}

static void a_model_is_opened_from_its_file(void **state) {
  (void)state;
  proto model = with_initializer(external_message("w", "data", "4", "8"));
  onnx_file file;
  write_file(FOLDER "/model.onnx", model.data, model.bytes);
  free(model.data);
  assert_ok(onnx_open(NULL, "test", FOLDER "/model.onnx", COMPUTE_MODEL_MAP, &file));
  assert_memory_equal(file.graph.initializers[0].data, ((float[]){2, 3}), 8);
  onnx_release(&file);
  assert_int_equal(chdir(FOLDER), 0);
  assert_ok(onnx_open(NULL, "test", "model.onnx", COMPUTE_MODEL_MAP, &file));
  onnx_release(&file);
  assert_fails(onnx_open(NULL, "test", FOLDER "/none.onnx", COMPUTE_MODEL_MAP, &file),
               COMPUTE_ERROR_FILE);
  test_check_message(NULL, "none.onnx");
  assert_fails(onnx_open(NULL, "test", FOLDER "/empty", COMPUTE_MODEL_MAP, &file),
               COMPUTE_ERROR_FORMAT);
  assert_fails(onnx_open(NULL, "test", FOLDER, COMPUTE_MODEL_MAP, &file), COMPUTE_ERROR_FILE);
  assert_fails(onnx_open(NULL, "test", FOLDER "/pipe", COMPUTE_MODEL_MAP, &file),
               COMPUTE_ERROR_FILE);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  proto graph = graph_message(NULL, NULL);
  put_message(&graph, GRAPH_INITIALIZER, external_message("w", "data", NULL, NULL));
  assert_survives_allocations(model_message(graph), FOLDER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elements_beside_the_model_are_mapped_once),
      cmocka_unit_test(places_beyond_32_bits_are_found),
      cmocka_unit_test(a_model_above_the_limit_is_not_saved_as_one_file),
      cmocka_unit_test(files_elsewhere_are_not_opened),
      cmocka_unit_test(places_outside_a_file_are_refused),
      cmocka_unit_test(one_place_is_not_converted_without_end),
      cmocka_unit_test(a_model_is_opened_from_its_file),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, make_folder, free_held);
}
