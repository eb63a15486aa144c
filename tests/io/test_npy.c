/* SPDX-License-Identifier: MIT */
/* .npy files: NumPy's files are read exactly, NumPy reads ours (tests/fit_files checks this with
 * Python), and false headers are refused before any allocation for their sizes. */
#include "support/harness/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/harness/failing_allocator.h"

#define PATH TEST_SCRATCH_DIR "/array.npy"

/* ---- Files --------------------------------------------------------------------------------- */

/* Writes a file of version `major` with this dictionary and `bytes` of elements after it. */
static void write_npy(int major, const char *dictionary, const void *elements, size_t bytes) {
  FILE *file = fopen(PATH, "wb");
  assert_non_null(file);
  size_t length = strlen(dictionary);
  unsigned char prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)major, 0};
  for (size_t i = 0; i < 4; i++) prefix[8 + i] = (unsigned char)(length >> (8 * i));
  fwrite(prefix, 1, major == 1 ? 10 : 12, file);
  fwrite(dictionary, 1, length, file);
  if (bytes > 0) fwrite(elements, 1, bytes, file);
  assert_int_equal(fclose(file), 0);
}

static compute_status inspect(compute_npy_info *info) {
  return compute_npy_inspect(test_context, PATH, info);
}

static compute_tensor *read_array(compute_dtype dtype, compute_shape shape) {
  compute_tensor *tensor;
  assert_ok(compute_npy_read(compute_default_device(test_context), PATH, &tensor));
  assert_int_equal(compute_tensor_dtype(tensor), dtype);
  assert_true(compute_shape_equal(compute_tensor_shape(tensor), shape));
  return tensor;
}

static void assert_holds(compute_dtype dtype, compute_shape shape, const void *expected,
                         size_t bytes) {
  unsigned char actual[512];
  compute_tensor *tensor = read_array(dtype, shape);
  assert_ok(compute_tensor_read(tensor, actual, bytes));
  assert_memory_equal(actual, expected, bytes);
  compute_tensor_release(tensor);
}

static void assert_refused(int major, const char *dictionary, compute_status expected,
                           const char *part) {
  static const unsigned char elements[64];
  compute_tensor *tensor = (compute_tensor *)test_context;
  compute_npy_info info = {.offset = 1};
  write_npy(major, dictionary, elements, sizeof elements);
  assert_fails(inspect(&info), expected);
  assert_int_equal(info.offset, 0);
  assert_fails(compute_npy_read(compute_default_device(test_context), PATH, &tensor), expected);
  assert_null(tensor);
  test_check_message(test_context, part);
  test_check_message(test_context, "array.npy");
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void every_dtype_arrives_exactly(void **state) {
  (void)state;
  static const struct {
    const char *code;
    compute_dtype dtype;
  } types[] = {{"<f8", COMPUTE_F64}, {"<f4", COMPUTE_F32}, {"<f2", COMPUTE_F16},
               {"<i8", COMPUTE_I64}, {"<i4", COMPUTE_I32}, {"<u2", COMPUTE_U16},
               {"|i1", COMPUTE_I8},  {"<i2", COMPUTE_I16}, {"<u4", COMPUTE_U32},
               {"<u8", COMPUTE_U64}, {"|u1", COMPUTE_U8},  {"=f4", COMPUTE_F32},
               {"<u1", COMPUTE_U8}};
  unsigned char elements[48];
  for (size_t i = 0; i < sizeof elements; i++) elements[i] = (unsigned char)(7 * i + 1);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char dictionary[128];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }", types[i].code);
    size_t bytes = 6 * compute_dtype_size(types[i].dtype);
    for (int major = 1; major <= 3; major++) {
      write_npy(major, dictionary, elements, bytes);
      assert_holds(types[i].dtype, COMPUTE_SHAPE(2, 3), elements, bytes);
    }
  }
}

static void bool_is_zero_or_one(void **state) {
  (void)state;
  write_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\0\1\7", 3);
  assert_holds(COMPUTE_BOOL, COMPUTE_SHAPE(3), "\0\1\1", 3);
}

static void the_other_byte_order_is_turned_round(void **state) {
  (void)state;
  static const unsigned char u2[] = {1, 2, 3, 4}, u2_turned[] = {2, 1, 4, 3};
  write_npy(1, "{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }", u2, 4);
  assert_holds(COMPUTE_U16, COMPUTE_SHAPE(2), u2_turned, 4);
  static const unsigned char f8[] = {0x3f, 0xf8, 0, 0, 0, 0, 0, 0};
  static const double expected = 1.5;
  write_npy(1, "{'descr': '>f8', 'fortran_order': False, 'shape': (), }", f8, 8);
  assert_holds(COMPUTE_F64, COMPUTE_SCALAR, &expected, 8);
}

static void columns_first_become_rows_first(void **state) {
  (void)state;
  static const float stored[] = {0, 3, 1, 4, 2, 5}, expected[] = {0, 1, 2, 3, 4, 5};
  write_npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", stored, 24);
  assert_holds(COMPUTE_F32, COMPUTE_SHAPE(2, 3), expected, 24);
  /* [2, 2, 3]: element (i, j, k) is at i + 2j + 4k. */
  int32_t cube[12], cube_expected[12];
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 2; j++) {
      for (int k = 0; k < 3; k++) {
        cube[i + 2 * j + 4 * k] = cube_expected[6 * i + 3 * j + k] = 100 * i + 10 * j + k;
      }
    }
  }
  write_npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2, 3), }", cube, 48);
  assert_holds(COMPUTE_I32, COMPUTE_SHAPE(2, 2, 3), cube_expected, 48);
}

static void headers_may_look_otherwise(void **state) {
  (void)state;
  static const float values[] = {1, 2};
  static const char *const dictionaries[] = {
      "{'shape':(2,),'fortran_order':False,'descr':'<f4'}",
      "{\"descr\": \"<f4\", \"fortran_order\": True, \"shape\": (2L,)}\n",
      "  {'descr': '<f4',\n'fortran_order': False, 'shape': ( 2 , ) , }   \n",
  };
  for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries; i++) {
    write_npy(1, dictionaries[i], values, sizeof values);
    assert_holds(COMPUTE_F32, COMPUTE_SHAPE(2), values, sizeof values);
  }
}

static void inspection_says_where_the_elements_are(void **state) {
  (void)state;
  static const unsigned char elements[100];
  compute_npy_info info;
  write_npy(2, "{'descr': '>u2', 'fortran_order': True, 'shape': (3, 4, 2), }", elements, 100);
  assert_ok(inspect(&info));
  assert_int_equal(info.dtype, COMPUTE_U16);
  assert_true(compute_shape_equal(info.shape, COMPUTE_SHAPE(3, 4, 2)));
  assert_true(info.fortran_order && info.swapped);
  assert_int_equal(info.bytes, 48);
  assert_int_equal(info.offset, 12 + 61);
}

static void arrays_without_elements_are_arrays(void **state) {
  (void)state;
  write_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }", NULL, 0);
  assert_holds(COMPUTE_F32, COMPUTE_SHAPE(0, 7), "", 0);
  write_npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (5, 0), }", NULL, 0);
  assert_holds(COMPUTE_F32, COMPUTE_SHAPE(5, 0), "", 0);
}

static void blocks_are_put_together(void **state) {
  (void)state;
  const int64_t count = 700001; /* of 4 bytes: three blocks */
  uint32_t *values = malloc((size_t)count * 4);
  for (int64_t i = 0; i < count; i++) values[i] = __builtin_bswap32((uint32_t)i);
  write_npy(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (700001,), }", values,
            (size_t)count * 4);
  compute_tensor *tensor = read_array(COMPUTE_I32, COMPUTE_SHAPE(count));
  assert_ok(compute_tensor_read(tensor, values, (size_t)count * 4));
  for (int64_t i = 0; i < count; i++) assert_int_equal(values[i], i);
  assert_ok(compute_npy_write(tensor, PATH));
  compute_tensor_release(tensor);
  tensor = read_array(COMPUTE_I32, COMPUTE_SHAPE(count));
  assert_ok(compute_tensor_read(tensor, values, (size_t)count * 4));
  for (int64_t i = 0; i < count; i++) assert_int_equal(values[i], i);
  compute_tensor_release(tensor);
  free(values);
}

/* ---- Refusing ------------------------------------------------------------------------------ */

static void elements_without_a_dtype_are_refused(void **state) {
  (void)state;
  static const char *const codes[] = {"<c8", "<i3", "|i0", "<u16", "<f16", "|S4", "<U3",
                                      "|O",  "<M8", "f4",  "",     "<",    "<f",  "<f44"};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    char dictionary[128];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }", codes[i]);
    assert_refused(1, dictionary, COMPUTE_ERROR_UNSUPPORTED, "unknown element type");
  }
  assert_refused(1, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }",
                 COMPUTE_ERROR_UNSUPPORTED, "named fields");
}

static void shapes_that_lie_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *shape;
    compute_status status;
    const char *part;
  } cases[] = {
      {"(9223372036854775807,)", COMPUTE_ERROR_FORMAT, "63 bits"},
      {"(9223372036854775808,)", COMPUTE_ERROR_FORMAT, "63 bits"},
      {"(99999999999999999999999999,)", COMPUTE_ERROR_FORMAT, "63 bits"},
      {"(4294967296, 4294967296)", COMPUTE_ERROR_FORMAT, "63 bits"},
      {"(0, 4294967296, 4294967296)", COMPUTE_ERROR_FORMAT, "63 bits"},
      {"(2305843009213693951,)", COMPUTE_ERROR_FORMAT, "are 9223372036854775804"},
      {"(1152921504606846976, 2)", COMPUTE_ERROR_FORMAT, "63 bits"},
      {"(17,)", COMPUTE_ERROR_FORMAT, "64 bytes of elements"},
      {"(-1,)", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"(2)", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"(,)", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"(2,,3)", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"(2 3)", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"[2]", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"(1.5,)", COMPUTE_ERROR_FORMAT, "not a tuple"},
      {"(1,1,1,1,1,1,1,1,1)", COMPUTE_ERROR_UNSUPPORTED, "more than 8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char dictionary[160];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", cases[i].shape);
    assert_refused(1, dictionary, cases[i].status, cases[i].part);
  }
}

static void damaged_headers_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *dictionary, *part;
  } cases[] = {
      {"", "not a dictionary"},
      {"{", "not a dictionary"},
      {"{'descr': '<f4'", "not a dictionary"},
      {"{'descr': '<f4', 'fortran_order': False}", "has no 'shape'"},
      {"{'descr': '<f4', 'shape': (2,)}", "has no 'fortran_order'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "'more'"},
      {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", "neither True nor False"},
      {"{'descr': <f4, 'fortran_order': False, 'shape': (2,)}", "not a string"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "follows"},
      {"{'descr': '<f4\n', 'fortran_order': False, 'shape': (2,)}", "not a string"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_refused(1, cases[i].dictionary, COMPUTE_ERROR_FORMAT, cases[i].part);
  }
  assert_refused(4, "{}", COMPUTE_ERROR_UNSUPPORTED, "version 4");
}

static void files_cut_off_anywhere_are_refused(void **state) {
  (void)state;
  static const float values[] = {1, 2, 3, 4, 5, 6};
  write_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", values, 24);
  struct stat about;
  assert_int_equal(stat(PATH, &about), 0);
  for (off_t length = about.st_size - 1; length >= 0; length--) {
    assert_int_equal(truncate(PATH, length), 0);
    compute_npy_info info;
    assert_fails(inspect(&info), COMPUTE_ERROR_FORMAT);
  }
  /* A header longer than any valid one, and one longer than its file. */
  static const unsigned char long_head[] = "\x93NUMPY\x02\0\xff\xff\xff\xff";
  FILE *file = fopen(PATH, "wb");
  fwrite(long_head, 1, 12, file);
  fclose(file);
  compute_npy_info info;
  assert_fails(inspect(&info), COMPUTE_ERROR_FORMAT);
}

static void what_is_no_file_is_refused(void **state) {
  (void)state;
  compute_npy_info info;
  compute_tensor *tensor;
  compute_device *device = compute_default_device(test_context);
  assert_fails(compute_npy_inspect(test_context, TEST_SCRATCH_DIR "/none.npy", &info),
               COMPUTE_ERROR_FILE);
  assert_fails(compute_npy_inspect(NULL, TEST_SCRATCH_DIR, &info), COMPUTE_ERROR_FILE);
  assert_fails(compute_npy_read(device, "/dev/null", &tensor), COMPUTE_ERROR_FILE);
  assert_fails(compute_npy_inspect(test_context, NULL, &info), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_npy_inspect(test_context, PATH, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_npy_read(NULL, PATH, &tensor), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_npy_read(device, NULL, &tensor), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_npy_read(device, PATH, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_npy_write(NULL, PATH), COMPUTE_ERROR_NULL_POINTER);
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void what_is_written_is_read_back(void **state) {
  (void)state;
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16,  COMPUTE_I64,
                                         COMPUTE_I32, COMPUTE_U8,  COMPUTE_BOOL, COMPUTE_U16,
                                         COMPUTE_I8,  COMPUTE_I16, COMPUTE_U32,  COMPUTE_U64};
  static const compute_shape shapes[] = {
      {.rank = 0}, {1, {5}}, {2, {2, 3}}, {8, {1, 2, 1, 1, 2, 1, 1, 3}}, {2, {0, 3}}};
  unsigned char elements[128];
  for (size_t i = 0; i < sizeof elements; i++) elements[i] = i % 3 == 1;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
      compute_tensor *tensor = test_tensor(test_context, dtypes[i], shapes[j], elements);
      assert_ok(compute_npy_write(tensor, PATH));
      size_t bytes = (size_t)compute_tensor_count(tensor) * compute_dtype_size(dtypes[i]);
      compute_npy_info info;
      assert_ok(inspect(&info));
      assert_int_equal(info.offset % 64, 0);
      assert_holds(dtypes[i], shapes[j], elements, bytes);
      compute_tensor_release(tensor);
    }
  }
}

static void views_are_written_dense(void **state) {
  (void)state;
  static const float values[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 3, 1, 4, 2, 5};
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(2, 3), values);
  compute_tensor *view;
  assert_ok(compute_tensor_transpose_view(tensor, COMPUTE_ALL_AXES, &view));
  assert_ok(compute_npy_write(view, PATH));
  assert_holds(COMPUTE_F32, COMPUTE_SHAPE(3, 2), expected, 24);
  compute_tensor_release(view);
  compute_tensor_release(tensor);
}

static void a_file_that_cannot_be_written_leaves_nothing(void **state) {
  (void)state;
  static const float value = 1;
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(1), &value);
  assert_fails(compute_npy_write(tensor, TEST_SCRATCH_DIR "/none/array.npy"), COMPUTE_ERROR_FILE);
  assert_non_null(
      strstr(compute_error_message(NULL), TEST_SCRATCH_DIR "/none/array.npy: cannot create"));
  assert_fails(compute_npy_write(tensor, TEST_SCRATCH_DIR), COMPUTE_ERROR_FILE); /* a folder */
  compute_tensor_release(tensor);
  tensor = test_tensor(test_context, COMPUTE_BF16, COMPUTE_SHAPE(1), &value);
  assert_fails(compute_npy_write(tensor, PATH), COMPUTE_ERROR_DTYPE);
  compute_tensor_release(tensor);
  assert_int_equal(
      system("! ls " TEST_SCRATCH_DIR "/../*.new " TEST_SCRATCH_DIR "/*.new 2>/dev/null | grep ."),
      0);
}

/* ---- Lack of memory ------------------------------------------------------------------------ */

static void short_memory_is_an_error_and_nothing_is_lost(void **state) {
  (void)state;
  static const float stored[] = {0, 3, 1, 4, 2, 5};
  write_npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", stored, 24);
  failing_allocator_install();
  compute_context *context = test_open();
  bool failed = true;
  for (int64_t nth = 1; failed && nth < 200; nth++) {
    failing_allocator_arm(nth, false);
    compute_tensor *tensor;
    compute_status status = compute_npy_read(compute_default_device(context), PATH, &tensor);
    if (!status) status = compute_npy_write(tensor, TEST_SCRATCH_DIR "/copy.npy");
    failed = failing_allocator_failures() > 0;
    if (!failed) assert_int_equal(status, COMPUTE_OK);
    compute_tensor_release(tensor);
  }
  failing_allocator_arm(0, false);
  assert_false(failed);
  test_close(context);
  assert_int_equal(failing_allocator_remove(), 0);
}

int main(void) {
  const struct CMUnitTest alone[] = {
      cmocka_unit_test(short_memory_is_an_error_and_nothing_is_lost)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_dtype_arrives_exactly),
      cmocka_unit_test(bool_is_zero_or_one),
      cmocka_unit_test(the_other_byte_order_is_turned_round),
      cmocka_unit_test(columns_first_become_rows_first),
      cmocka_unit_test(headers_may_look_otherwise),
      cmocka_unit_test(inspection_says_where_the_elements_are),
      cmocka_unit_test(arrays_without_elements_are_arrays),
      cmocka_unit_test(blocks_are_put_together),
      cmocka_unit_test(elements_without_a_dtype_are_refused),
      cmocka_unit_test(shapes_that_lie_are_refused),
      cmocka_unit_test(damaged_headers_are_refused),
      cmocka_unit_test(files_cut_off_anywhere_are_refused),
      cmocka_unit_test(what_is_no_file_is_refused),
      cmocka_unit_test(what_is_written_is_read_back),
      cmocka_unit_test(views_are_written_dense),
      cmocka_unit_test(a_file_that_cannot_be_written_leaves_nothing),
  };
  int failures = cmocka_run_group_tests(alone, NULL, NULL);
  return failures + cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
