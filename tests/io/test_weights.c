/* SPDX-License-Identifier: MIT */
/* Files of named tensors: one program writes a file and another reads the same bytes
 * (test_weights.py checks them with independent readers). False files are refused before any
 * allocation for their claimed sizes. */
#include "support/harness/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "io/tensor_file.h"
#include "support/harness/failing_allocator.h"
#include "tensor_files.h"

/* A safetensors file with this header, its length before it, and `bytes` bytes of elements. */
static void write_header(const char *header, size_t bytes) {
  static const unsigned char elements[256];
  FILE *file = fopen(SAFE, "wb");
  assert_non_null(file);
  unsigned char length[8] = {0};
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)strlen(header) >> 8 * i);
  fwrite(length, 1, 8, file);
  fwrite(header, 1, strlen(header), file);
  if (bytes > 0) fwrite(elements, 1, bytes, file);
  assert_int_equal(fclose(file), 0);
}

/* ---- Round trips --------------------------------------------------------------------------- */

static const struct {
  const char *name;
  compute_dtype dtype;
} all_dtypes[] = {{"0.weight", COMPUTE_F64},  {"\"q\\u\"\\\n\t", COMPUTE_F32},
                  {"größe", COMPUTE_F16},     {"", COMPUTE_I64},
                  {"a/b c", COMPUTE_I32},     {"\x01\x7f", COMPUTE_U16},
                  {"😀", COMPUTE_U8},          {"num_batches", COMPUTE_BOOL},
                  {"i8", COMPUTE_I8},         {"i16", COMPUTE_I16},
                  {"u32", COMPUTE_U32},       {"u64", COMPUTE_U64},
                  {"body.bias", COMPUTE_BF16}};

enum { DTYPES = sizeof all_dtypes / sizeof *all_dtypes };

static void round_trip(const char *path, size_t dtypes) {
  static const compute_shape shapes[] = {
      {.rank = 0}, {1, {5}}, {2, {2, 3}}, {8, {1, 2, 1, 1, 2, 1, 1, 3}}, {2, {0, 3}}};
  unsigned char elements[128];
  for (size_t i = 0; i < sizeof elements; i++) elements[i] = i % 3 == 1;
  for (size_t shift = 0; shift < 5; shift++) {
    compute_named_tensor tensors[DTYPES];
    for (size_t i = 0; i < dtypes; i++) {
      tensors[i] = (compute_named_tensor){
          all_dtypes[i].name,
          test_tensor(test_context, all_dtypes[i].dtype, shapes[(i + shift) % 5], elements)};
    }
    assert_ok(compute_tensor_file_write(test_context, path, tensors, dtypes));
    compute_tensor_file *file = open_file(path);
    assert_int_equal(compute_tensor_file_count(file), dtypes);
    assert_int_equal(compute_tensor_file_find(file, "none"), dtypes);
    for (size_t i = 0; i < dtypes; i++) {
      size_t bytes =
          (size_t)compute_tensor_count(tensors[i].tensor) * compute_dtype_size(all_dtypes[i].dtype);
      assert_stored(file, all_dtypes[i].name, all_dtypes[i].dtype, shapes[(i + shift) % 5],
                    elements, bytes);
      compute_tensor_release((compute_tensor *)(uintptr_t)tensors[i].tensor);
    }
    compute_tensor_file_close(file);
  }
}

static void every_dtype_shape_and_name_comes_back_from_safetensors(void **state) {
  (void)state;
  round_trip(SAFE, DTYPES);
}

static void every_dtype_shape_and_name_comes_back_from_npz(void **state) {
  (void)state;
  round_trip(NPZ, DTYPES - 1); /* NumPy has no bf16 */
}

static void equal_tensors_make_equal_files(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  const compute_named_tensor tensors[] = {{"b", tensor}, {"a", tensor}};
  static const char *const paths[] = {SAFE, NPZ};
  for (int i = 0; i < 2; i++) {
    size_t first_count, second_count;
    assert_ok(compute_tensor_file_write(test_context, paths[i], tensors, 2));
    unsigned char *first = read_bytes(paths[i], &first_count);
    assert_ok(compute_tensor_file_write(test_context, paths[i], tensors, 2));
    unsigned char *second = read_bytes(paths[i], &second_count);
    assert_int_equal(first_count, second_count);
    assert_memory_equal(first, second, first_count);
    free(first);
    free(second);
  }
  compute_tensor_release(tensor);
}

/* A killed process leaves its unfinished files, and a later process may get the same number. */
static void unfinished_files_of_others_are_not_in_the_way(void **state) {
  (void)state;
  char name[256];
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, SAFE ".%ld-%d.new", (long)getpid(), i);
    FILE *file = fopen(name, "wbx");
    if (file) fclose(file);
  }
  assert_ok(compute_tensor_file_write(test_context, SAFE, NULL, 0));
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, SAFE ".%ld-%d.new", (long)getpid(), i);
    assert_int_equal(unlink(name), 0);
  }
}

static void files_without_tensors_are_files(void **state) {
  (void)state;
  static const char *const paths[] = {SAFE, NPZ};
  for (int i = 0; i < 2; i++) {
    assert_ok(compute_tensor_file_write(test_context, paths[i], NULL, 0));
    compute_tensor_file *file = open_file(paths[i]);
    compute_tensor_file_entry entry;
    compute_tensor *tensor;
    assert_int_equal(compute_tensor_file_count(file), 0);
    assert_int_equal(compute_tensor_file_find(file, "a"), 0);
    assert_fails(compute_tensor_file_at(file, 0, &entry), COMPUTE_ERROR_INVALID_ARGUMENT);
    assert_fails(compute_tensor_file_read(file, 0, device(), &tensor),
                 COMPUTE_ERROR_INVALID_ARGUMENT);
    compute_tensor_file_close(file);
  }
}

static void elements_of_safetensors_are_aligned(void **state) {
  (void)state;
  static const unsigned char bytes[8];
  compute_tensor *odd = test_tensor(test_context, COMPUTE_U8, COMPUTE_SHAPE(3), bytes);
  compute_tensor *even = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(1), bytes);
  const compute_named_tensor tensors[] = {{"odd", odd}, {"even", even}};
  assert_ok(compute_tensor_file_write(test_context, SAFE, tensors, 2));
  compute_tensor_file *file = open_file(SAFE);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(file->tensors[i].offset % compute_dtype_size(file->tensors[i].format.dtype),
                     0);
  }
  compute_tensor_file_close(file);
  compute_tensor_release(odd);
  compute_tensor_release(even);
}

static void views_are_written_dense_and_read_strided(void **state) {
  (void)state;
  static const float values[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 3, 1, 4, 2, 5};
  float actual[6];
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), values);
  compute_tensor *view;
  assert_ok(compute_tensor_transpose_view(tensor, COMPUTE_ALL_AXES, &view));
  static const char *const paths[] = {SAFE, NPZ};
  for (int i = 0; i < 2; i++) {
    assert_ok(compute_tensor_write(tensor, values, sizeof values));
    assert_ok(
        compute_tensor_file_write(test_context, paths[i], &(compute_named_tensor){"v", view}, 1));
    compute_tensor_file *file = open_file(paths[i]);
    assert_stored(file, "v", COMPUTE_F32, COMPUTE_SHAPE(3, 2), expected, 24);
    static const float zeros[6];
    assert_ok(compute_tensor_write(tensor, zeros, sizeof zeros));
    assert_ok(compute_tensor_file_read_into(file, 0, view));
    assert_ok(compute_tensor_read(tensor, actual, sizeof actual));
    assert_memory_equal(actual, values, sizeof values);
    assert_fails(compute_tensor_file_read_into(file, 0, tensor), COMPUTE_ERROR_SHAPE);
    test_check_message(test_context, "\"v\" is [3,2] in the file, but the tensor is [2,3]");
    compute_tensor *other = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(3, 2), NULL);
    assert_fails(compute_tensor_file_read_into(file, 0, other), COMPUTE_ERROR_DTYPE);
    compute_tensor_release(other);
    compute_tensor_file_close(file);
  }
  compute_tensor_release(view);
  compute_tensor_release(tensor);
}

static void large_tensors_are_put_together(void **state) {
  (void)state;
  const int64_t count = 700001; /* of 4 bytes: three blocks */
  uint32_t *values = malloc((size_t)count * 4), *back = malloc((size_t)count * 4);
  for (int64_t i = 0; i < count; i++) values[i] = (uint32_t)i * 2654435761u;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_I32, COMPUTE_SHAPE(count), values);
  static const char *const paths[] = {SAFE, NPZ};
  for (int i = 0; i < 2; i++) {
    compute_tensor *read;
    assert_ok(compute_tensor_file_write(test_context, paths[i],
                                        &(compute_named_tensor){"large", tensor}, 1));
    compute_tensor_file *file = open_file(paths[i]);
    assert_ok(compute_tensor_file_read(file, 0, device(), &read));
    assert_ok(compute_tensor_read(read, back, (size_t)count * 4));
    assert_memory_equal(values, back, (size_t)count * 4);
    compute_tensor_release(read);
    compute_tensor_file_close(file);
  }
  compute_tensor_release(tensor);
  free(values);
  free(back);
}

static void sizes_of_64_bits_come_back(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  const compute_named_tensor tensors[] = {{"a", tensor}, {"b", tensor}};
  for (uint64_t from = 0; from < 400; from += 133) {
    new_file file;
    assert_ok(new_file_open(test_context, "test", NPZ, &file));
    assert_ok(new_file_close(&file, npz_write(&file, tensors, 2, from)));
    compute_tensor_file *opened = open_file(NPZ);
    assert_stored(opened, "a", COMPUTE_F32, COMPUTE_SHAPE(3), values, 12);
    assert_stored(opened, "b", COMPUTE_F32, COMPUTE_SHAPE(3), values, 12);
    compute_tensor_file_close(opened);
  }
  compute_tensor_release(tensor);
}

/* ---- Files that cannot be written ----------------------------------------------------------- */

static void what_cannot_be_written_leaves_nothing(void **state) {
  (void)state;
  static const float value = 1;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &value);
  compute_tensor *brief = test_tensor(test_context, COMPUTE_BF16, COMPUTE_SHAPE(1), &value);
  char *long_name = malloc(70001);
  memset(long_name, 'x', 70000);
  long_name[70000] = 0;
  const struct {
    const char *path;
    compute_named_tensor tensors[2];
    compute_status status;
    const char *part;
  } cases[] = {
      {TEST_SCRATCH_DIR "/x.bin",
       {{"a", tensor}, {"b", tensor}},
       100,
       "must end in .safetensors or .npz"},
      {SAFE, {{"a", tensor}, {"a", tensor}}, 100, "two tensors are called \"a\""},
      {SAFE, {{"a", tensor}, {"b\xff", tensor}}, 100, "name 1 is not UTF-8"},
      {SAFE, {{"a", tensor}, {"__metadata__", tensor}}, 100, "is reserved"},
      {SAFE, {{NULL, tensor}, {"b", tensor}}, 101, "name 0 is NULL"},
      {SAFE, {{"a", tensor}, {"b", NULL}}, 101, "tensor 1 is NULL"},
      {NPZ, {{"a", tensor}, {"b", brief}}, 201, "\"b\": NumPy has no bf16"},
      {NPZ, {{"a", tensor}, {long_name, tensor}}, 100, "has 70000 bytes"},
      {TEST_SCRATCH_DIR "/no/x.npz", {{"a", tensor}, {"b", tensor}}, 600, "cannot create"},
  };
  write_bytes(SAFE, "old", 3);
  write_bytes(NPZ, "old", 3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t count;
    assert_fails(compute_tensor_file_write(test_context, cases[i].path, cases[i].tensors, 2),
                 cases[i].status);
    test_check_message(test_context, cases[i].part);
    free(read_bytes(SAFE, &count));
    assert_int_equal(count, 3);
    free(read_bytes(NPZ, &count));
    assert_int_equal(count, 3);
  }
  assert_fails(compute_tensor_file_write(NULL, NULL, NULL, 0), COMPUTE_ERROR_NULL_POINTER);
  assert_int_equal(system("! ls " TEST_SCRATCH_DIR "/*.new 2>/dev/null | grep ."), 0);
  free(long_name);
  compute_tensor_release(brief);
  compute_tensor_release(tensor);
}

static void what_is_no_file_is_refused(void **state) {
  (void)state;
  compute_tensor_file *file;
  compute_tensor *tensor;
  assert_fails(compute_tensor_file_open(NULL, TEST_SCRATCH_DIR "/none", &file), COMPUTE_ERROR_FILE);
  assert_fails(compute_tensor_file_open(NULL, TEST_SCRATCH_DIR, &file), COMPUTE_ERROR_FILE);
  assert_fails(compute_tensor_file_open(NULL, "/dev/null", &file), COMPUTE_ERROR_FILE);
  unlink(TEST_SCRATCH_DIR "/fifo");
  assert_int_equal(mkfifo(TEST_SCRATCH_DIR "/fifo", 0600), 0); /* no program ever writes to it */
  assert_fails(compute_tensor_file_open(NULL, TEST_SCRATCH_DIR "/fifo", &file), COMPUTE_ERROR_FILE);
  assert_fails(compute_tensor_file_open(NULL, NULL, &file), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_file_open(NULL, SAFE, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_file_read(NULL, 0, device(), &tensor), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_file_read_into(NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_tensor_file_at(NULL, 0, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_tensor_file_close(NULL);
}

/* ---- False safetensors ---------------------------------------------------------------------- */

#define F32_2 "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static void headers_may_look_otherwise(void **state) {
  (void)state;
  static const char *const headers[] = {
      "{\"a\":" F32_2 "}",
      "{ \"a\" :\n{\"data_offsets\":[ 0 , 8 ] ,\t\"shape\":[2],\r\"dtype\":\"F32\"} }   \n",
      "{\"\\u0061\":" F32_2 ",\"__metadata__\":{\"x\":\"\\ud83d\\ude00\",\"y\":\"\"}}",
      "{\"__metadata__\":{},\"a\":" F32_2
      ",\"e\":{\"dtype\":\"I8\\u0000\",\"shape\":[],\"data_offsets\":[0,0]}}",
      "{\"e\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[8,8]},\"a\":" F32_2 "}",
  };
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    write_header(headers[i], 8);
    if (i == 3) {
      assert_refused(SAFE, COMPUTE_ERROR_FORMAT, "a dtype");
      continue;
    }
    compute_tensor_file *file = open_file(SAFE);
    assert_int_equal(compute_tensor_file_find(file, "a"), i == 4);
    compute_tensor_file_close(file);
  }
}

static void headers_that_lie_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t bytes;
    compute_status status;
    const char *part;
  } cases[] = {
#define TENSOR(type, shape, offsets)                                                               \
  "{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"
      {"{\"a\":" F32_2 "}", 7, 601, "truncated"},
      {"{\"a\":" F32_2 "}", 9, 601, "1 extra byte follows its tensors"},
      {"{}", 1, 601, "1 extra byte follows its tensors"},
      {"{\"a\":" F32_2 ",\"a\":" F32_2 "}", 8, 601, "begins at 0"},
      {"{\"a\":" TENSOR("F32", "0", "0,0") ",\"a\":" TENSOR("U8", "0", "0,0") "}", 0, 601,
       "two tensors called \"a\""},
      {"{\"a\":" F32_2 ",\"b\":" TENSOR("F32", "2", "4,12") "}", 12, 601, "begins at 4"},
      {"{\"a\":" F32_2 ",\"b\":" TENSOR("F32", "2", "12,20") "}", 20, 601, "begins at 12"},
      {"{\"b\":" TENSOR("F32", "2", "8,16") "}", 16, 601, "begins at 8"},
      {"{\"a\":" TENSOR("F32", "2", "8,0") "}", 8, 601, "ends before it begins"},
      {"{\"a\":" TENSOR("F32", "2", "0,4") "}", 4, 601, "4 bytes, but its shape needs 8"},
      {"{\"a\":" TENSOR("F32", "2", "0,9223372036854775807") "}", 8, 601, "its shape needs 8"},
      {"{\"a\":" TENSOR("F32", "2", "0,9223372036854775808") "}", 8, 601, "63 bits"},
      {"{\"a\":" TENSOR("F32", "2", "9223372036854775800,9223372036854775807") "}", 8, 601,
       "7 bytes, but its shape needs 8"},
      {"{\"a\":" TENSOR("F32", "2", "9223372036854775799,9223372036854775807") "}", 8, 601,
       "truncated"},
      {"{\"a\":" TENSOR("U8", "9223372036854775807", "0,9223372036854775807") "}", 8, 601,
       "truncated"},
      {"{\"a\":" TENSOR("U8", "9223372036854775808", "0,8") "}", 8, 601, "63 bits"},
      {"{\"a\":" TENSOR("U8", "18446744073709551616", "0,8") "}", 8, 601, "63 bits"},
      {"{\"a\":" TENSOR("F64", "4611686018427387904,4", "0,8") "}", 8, 601, "63 bits"},
      {"{\"a\":" TENSOR("F32", "0,4611686018427387904,4", "0,0") "}", 0, 601, "63 bits"},
      {"{\"a\":" TENSOR("F32", "1,1,1,1,1,1,1,1,1", "0,4") "}", 4, 304, "more than 8"},
      {"{\"a\":" TENSOR("F8_E4M3", "2", "0,2") "}", 2, 304, "type F8_E4M3"},
      {"{\"a\":" TENSOR("F4", "4", "0,4") "}", 4, 304, "type F4"},
      {"{\"a\":" TENSOR("f32", "2", "0,8") "}", 8, 304, "type f32"},
      {"{\"a\":" TENSOR("F32", "-2", "0,8") "}", 8, 601, "an integer"},
      {"{\"a\":" TENSOR("F32", "2.0", "0,8") "}", 8, 601, "an integer"},
      {"{\"a\":" TENSOR("F32", "2e0", "0,8") "}", 8, 601, "an integer"},
      {"{\"a\":" TENSOR("F32", "02", "0,8") "}", 8, 601, "an integer"},
      {"{\"a\":" TENSOR("F32", "2,", "0,8") "}", 8, 601, "an integer"},
      {"{\"a\":" TENSOR("F32", "2 2", "0,8") "}", 8, 601, "',' or ']' in a shape"},
      {"{\"a\":" TENSOR("F32", "2", "0") "}", 8, 601, "second offset"},
      {"{\"a\":" TENSOR("F32", "2", "0,8,8") "}", 8, 601, "']' after two offsets"},
      {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, 601, "has no 'dtype'"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, 601, "has no 'shape'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, 601, "has no 'data_offsets'"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 601,
       "'dtype' twice"},
      {"{\"a\":{\"more\":1}}", 0, 601, "'more' as an unknown key"},
      {"{\"a\":null}", 0, 601, "a description"},
      {"{\"a\":" F32_2 ",}", 8, 601, "another tensor"},
      {"{,\"a\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"a\":" F32_2 "} x", 8, 601, "its end"},
      {"{\"a\":" F32_2, 8, 601, "another tensor"},
      {"{\"a\\u0000b\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\\ud800\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\\ud800\\u0041\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\\udc00\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\\x\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\\u12\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\xc3\":" F32_2 "}", 8, 601, "another tensor"},
      {"{\"\n\":" F32_2 "}", 8, 601, "another tensor"},
      {"{'a':" F32_2 "}", 8, 601, "another tensor"},
      {"{\"__metadata__\":null}", 0, 601, "metadata"},
      {"{\"__metadata__\":{\"a\":1}}", 0, 601, "pair of texts"},
      {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, 601, "same name"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, 601, "twice"},
      {"[{\"a\":1}]", 0, 601, "neither a safetensors nor an .npz file"},
      {" {}", 0, 601, "neither a safetensors nor an .npz file"},
      {"", 0, 601, "neither a safetensors nor an .npz file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_header(cases[i].header, cases[i].bytes);
    assert_refused(SAFE, cases[i].status, cases[i].part);
  }
}

static void lengths_of_headers_are_not_believed(void **state) {
  (void)state;
  static const uint64_t lengths[] = {
      3, 100000000, 100000001, UINT64_MAX, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX - 7, 1, 0};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    unsigned char bytes[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    for (int j = 0; j < 8; j++) bytes[j] = (unsigned char)(lengths[i] >> 8 * j);
    write_bytes(SAFE, bytes, sizeof bytes);
    assert_refused(SAFE, COMPUTE_ERROR_FORMAT, "header");
  }
}

static void files_cut_off_anywhere_are_refused(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3};
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(3), values);
  const compute_named_tensor tensors[] = {{"a", tensor}, {"b", tensor}};
  static const char *const paths[] = {SAFE, NPZ};
  for (int i = 0; i < 2; i++) {
    assert_ok(compute_tensor_file_write(test_context, paths[i], tensors, 2));
    size_t count;
    free(read_bytes(paths[i], &count));
    while (count-- > 0) {
      assert_int_equal(truncate(paths[i], (off_t)count), 0);
      compute_tensor_file *file;
      assert_fails(compute_tensor_file_open(test_context, paths[i], &file), COMPUTE_ERROR_FORMAT);
    }
  }
  compute_tensor_release(tensor);
}

/* ---- Lack of memory -------------------------------------------------------------------------- */

static compute_status write_and_read(compute_context *context, const char *path,
                                     const compute_tensor *tensor) {
  const compute_named_tensor tensors[] = {{"a", tensor}, {"b", tensor}};
  compute_tensor_file *file = NULL;
  compute_tensor *read = NULL;
  compute_status status = compute_tensor_file_write(context, path, tensors, 2);
  if (!status) status = compute_tensor_file_open(context, path, &file);
  if (!status) status = compute_tensor_file_read(file, 1, compute_default_device(context), &read);
  if (!status) status = compute_tensor_file_read_into(file, 0, read);
  compute_tensor_release(read);
  compute_tensor_file_close(file);
  return status;
}

static void short_memory_is_an_error_and_nothing_is_lost(void **state) {
  (void)state;
  static const char *const paths[] = {SAFE, NPZ};
  failing_allocator_install();
  compute_context *context = test_open();
  compute_tensor *tensor;
  assert_ok(compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(2, 3),
                                1, &tensor));
  for (int i = 0; i < 2; i++) {
    bool failed = true;
    for (int64_t nth = 1; failed && nth < 300; nth++) {
      failing_allocator_arm(nth, false);
      compute_status status = write_and_read(context, paths[i], tensor);
      failed = failing_allocator_failures() > 0;
      if (!failed) assert_int_equal(status, COMPUTE_OK);
    }
    failing_allocator_arm(0, false);
    assert_false(failed);
  }
  compute_tensor_release(tensor);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(short_memory_is_an_error_and_nothing_is_lost)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dtype_shape_and_name_comes_back_from_safetensors),
      cmocka_unit_test(every_dtype_shape_and_name_comes_back_from_npz),
      cmocka_unit_test(equal_tensors_make_equal_files),
      cmocka_unit_test(files_without_tensors_are_files),
      cmocka_unit_test(unfinished_files_of_others_are_not_in_the_way),
      cmocka_unit_test(elements_of_safetensors_are_aligned),
      cmocka_unit_test(views_are_written_dense_and_read_strided),
      cmocka_unit_test(large_tensors_are_put_together),
      cmocka_unit_test(sizes_of_64_bits_come_back),
      cmocka_unit_test(what_cannot_be_written_leaves_nothing),
      cmocka_unit_test(what_is_no_file_is_refused),
      cmocka_unit_test(headers_may_look_otherwise),
      cmocka_unit_test(headers_that_lie_are_refused),
      cmocka_unit_test(lengths_of_headers_are_not_believed),
      cmocka_unit_test(files_cut_off_anywhere_are_refused),
  };
  int failures = cmocka_run_group_tests(alone, NULL, NULL);
  return failures + cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
