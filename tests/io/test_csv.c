/* SPDX-License-Identifier: MIT */
/* Reading tables: values are exact, and errors give the line and column. */
#include "support/harness/test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define PATH TEST_SCRATCH_DIR "/table.csv"

/* ---- Files and tables ---------------------------------------------------------------------- */

static void write_bytes(const void *bytes, size_t count) {
  FILE *file = fopen(PATH, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  fclose(file);
}

static void write_text(const char *text) {
  write_bytes(text, strlen(text));
}

static size_t compress_text(const char *text, size_t length) {
  gzFile file = gzopen(PATH, "wb");
  assert_int_equal(gzwrite(file, text, (unsigned)length), (int)length);
  assert_int_equal(gzclose(file), Z_OK);
  struct stat status;
  assert_int_equal(stat(PATH, &status), 0);
  return (size_t)status.st_size;
}

static compute_status read_with(compute_dtype dtype, const compute_csv_options *options,
                                compute_tensor **tensor) {
  return compute_csv_read(compute_default_device(test_context), PATH, dtype, options, tensor);
}

static compute_tensor *read_table(compute_dtype dtype, const compute_csv_options *options,
                                  int64_t rows, int64_t columns) {
  compute_tensor *tensor;
  assert_ok(read_with(dtype, options, &tensor));
  assert_true(compute_shape_equal(compute_tensor_shape(tensor), COMPUTE_SHAPE(rows, columns)));
  return tensor;
}

/* Reads `text` as a table of doubles. */
static void assert_f64(const char *text, const compute_csv_options *options, int64_t rows,
                       int64_t columns, const double *expected) {
  double actual[64];
  write_text(text);
  compute_tensor *tensor = read_table(COMPUTE_F64, options, rows, columns);
  size_t bytes = (size_t)(rows * columns) * sizeof *actual;
  assert_ok(compute_tensor_read(tensor, actual, bytes));
  assert_memory_equal(actual, expected, bytes);
  compute_tensor_release(tensor);
}

static void assert_refused(const char *text, compute_dtype dtype, const char *part) {
  compute_tensor *tensor = (compute_tensor *)test_context;
  write_text(text);
  assert_fails(read_with(dtype, NULL, &tensor), COMPUTE_ERROR_FORMAT);
  test_check_message(test_context, part);
  test_check_message(test_context, "table.csv");
  assert_null(tensor);
}

/* ---- Good files ---------------------------------------------------------------------------- */

static void line_ends_and_blanks_do_not_matter(void **state) {
  (void)state;
  static const double expected[] = {1, 2, 3, 4};
  assert_f64("1,2\n3,4\n", NULL, 2, 2, expected);
  assert_f64("1,2\n3,4", NULL, 2, 2, expected);
  assert_f64("1,2\r\n3,4\r\n", NULL, 2, 2, expected);
  assert_f64("1,2\r\n3,4\r", NULL, 2, 2, expected);
  assert_f64("1,2\n3,4\n\n\r\n  \n", NULL, 2, 2, expected);
  assert_f64(" 1\t,  2 \n\t3 ,4\n", NULL, 2, 2, expected);
  assert_f64("\xEF\xBB\xBF"
             "1,2\n3,4\n",
             NULL, 2, 2, expected);
  assert_f64("1\n2\n3\n4\n", NULL, 4, 1, expected);
  assert_f64("1,2,3,4", NULL, 1, 4, expected);
}

static void separators_and_headings_are_options(void **state) {
  (void)state;
  static const double expected[] = {1, 2, 3, 4};
  assert_f64("1;2\n3;4\n", &(compute_csv_options){.separator = ';'}, 2, 2, expected);
  assert_f64("1\t2\n3\t 4\n", &(compute_csv_options){.separator = '\t'}, 2, 2, expected);
  assert_f64("1 2\n3 4\n", &(compute_csv_options){.separator = ' '}, 2, 2, expected);
  assert_f64("a,b,c\n\"x\ny\n1,2\n3,4\n", &(compute_csv_options){.skip_rows = 3}, 2, 2, expected);
}

static void numbers_round_to_nearest(void **state) {
  (void)state;
  static const double expected[] = {0.1,
                                    -0.0,
                                    1e-5,
                                    1.5,
                                    .5,
                                    5.,
                                    1e22,
                                    1e23,
                                    123456789012345678.0,
                                    5e-324,
                                    2.2250738585072011e-308,
                                    1.7976931348623157e308,
                                    9007199254740993.0,
                                    0.30000000000000004,
                                    INFINITY,
                                    -INFINITY,
                                    0};
  assert_f64("0.1,-0,1E-5,+1.5,.5,5.,1e22,1e23,123456789012345678,5e-324,2.2250738585072011e-308,"
             "1.7976931348623157e308,9007199254740993,0.30000000000000004,inf,-Infinity,1e-400",
             NULL, 1, 17, expected);
}

/* 16777217 is a tie of f32, and so is its double; one digit more is not. */
static void f32_is_rounded_once(void **state) {
  (void)state;
  float actual[6];
  write_text("0.1,16777217,16777217.0000000000000001,3.4028235e38,1e-45,nan\n");
  compute_tensor *tensor = read_table(COMPUTE_F32, NULL, 1, 6);
  assert_ok(compute_tensor_read(tensor, actual, sizeof actual));
  assert_true(actual[0] == 0.1f && actual[1] == 16777216.0f && actual[2] == 16777218.0f);
  assert_true(actual[3] == 3.4028235e38f && actual[4] == 0x1p-149f && isnan(actual[5]));
  compute_tensor_release(tensor);
}

static void simple_numbers_equal_the_c_library(void **state) {
  (void)state;
  char text[80];
  uint64_t seed = 1;
  compute_tensor *tensor;
  for (int i = 0; i < 300; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    int digits = 1 + (int)(seed >> 60);
    snprintf(text, sizeof text, "%.*e", digits,
             (double)(int64_t)seed * pow(10, (int)(seed >> 40 & 31) - 25));
    double f64;
    float f32;
    write_text(text);
    assert_ok(read_with(COMPUTE_F64, NULL, &tensor));
    assert_ok(compute_tensor_read(tensor, &f64, sizeof f64));
    assert_true(f64 == strtod(text, NULL));
    compute_tensor_release(tensor);
    assert_ok(read_with(COMPUTE_F32, NULL, &tensor));
    assert_ok(compute_tensor_read(tensor, &f32, sizeof f32));
    assert_true(f32 == strtof(text, NULL));
    compute_tensor_release(tensor);
  }
}

static void integers_are_exact_to_the_last(void **state) {
  (void)state;
  int64_t i64[4];
  write_text("9223372036854775807,-9223372036854775808,9007199254740993,+0\n");
  compute_tensor *tensor = read_table(COMPUTE_I64, NULL, 1, 4);
  assert_ok(compute_tensor_read(tensor, i64, sizeof i64));
  assert_int_equal(i64[0], INT64_MAX);
  assert_int_equal(i64[1], INT64_MIN);
  assert_int_equal(i64[2], INT64_C(9007199254740993));
  compute_tensor_release(tensor);
  uint8_t u8[4];
  write_text("0,255,-0,000000000000000000000000007\n");
  tensor = read_table(COMPUTE_U8, NULL, 1, 4);
  assert_ok(compute_tensor_read(tensor, u8, sizeof u8));
  assert_true(u8[0] == 0 && u8[1] == 255 && u8[2] == 0 && u8[3] == 7);
  compute_tensor_release(tensor);
  uint16_t u16[4];
  write_text("0,65535,-0,000256\n");
  tensor = read_table(COMPUTE_U16, NULL, 1, 4);
  assert_ok(compute_tensor_read(tensor, u16, sizeof u16));
  assert_true(u16[0] == 0 && u16[1] == 65535 && u16[2] == 0 && u16[3] == 256);
  compute_tensor_release(tensor);
}

static void every_number_dtype_can_be_read(void **state) {
  (void)state;
  write_text("0,1\n2,100\n");
  for (int dtype = COMPUTE_F64; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    if (dtype == COMPUTE_BOOL) continue;
    compute_tensor *tensor = read_table((compute_dtype)dtype, NULL, 2, 2);
    assert_int_equal(compute_tensor_dtype(tensor), dtype);
    assert_true(test_element(tensor, 3) == 100);
    compute_tensor_release(tensor);
  }
}

static void locale_does_not_matter(void **state) {
  (void)state;
  static const double expected[] = {1.5, 0.30000000000000004};
  /* Without these locales, the test runs in the default one. */
  if (!setlocale(LC_ALL, "de_DE.UTF-8")) setlocale(LC_ALL, "fr_FR.UTF-8");
  assert_f64("1.5,0.30000000000000004\n", NULL, 1, 2, expected);
  setlocale(LC_ALL, "C");
}

/* A table larger than the reader's buffer and than one block of values. */
static char *make_large(int64_t rows, size_t *length) {
  char *text = malloc((size_t)rows * 64);
  *length = 0;
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t column = 0; column < 5; column++) {
      *length += (size_t)sprintf(text + *length, "%lld%c", (long long)(row * 31 + column * 7919),
                                 column < 4 ? ',' : '\n');
    }
  }
  return text;
}

static void check_large(int64_t rows) {
  compute_tensor *tensor = read_table(COMPUTE_I32, NULL, rows, 5);
  int32_t *data = malloc((size_t)rows * 5 * sizeof *data);
  assert_ok(compute_tensor_read(tensor, data, (size_t)rows * 5 * sizeof *data));
  for (int64_t i = 0; i < rows * 5; i++) assert_int_equal(data[i], i / 5 * 31 + i % 5 * 7919);
  free(data);
  compute_tensor_release(tensor);
}

static void large_tables_arrive_whole_plain_and_compressed(void **state) {
  (void)state;
  size_t length;
  const int64_t rows = 50021;
  char *text = make_large(rows, &length);
  write_bytes(text, length);
  check_large(rows);
  compress_text(text, length);
  check_large(rows);
  free(text);
}

/* ---- Bad fields and lines ------------------------------------------------------------------ */

static void bad_fields_are_named_with_line_and_column(void **state) {
  (void)state;
  assert_refused("1,2\n3,abc\n", COMPUTE_F64, "line 2, column 2: \"abc\" is not a number");
  assert_refused("1,2\n3,\n", COMPUTE_F64, "line 2, column 2");
  assert_refused(",2\n", COMPUTE_F64, "line 1, column 1");
  static const char *const no_numbers[] = {"1..2",  "1e",   "1e+",     "0x10",  "+",     ".",
                                           "e5",    "--1",  "1 2",     "1,5e",  "nan()", "in",
                                           "\"1\"", "1\r2", "infinit", "1e5.5", "\x80"};
  for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
    assert_refused(no_numbers[i], COMPUTE_F64, "line 1, column");
  }
  compute_tensor *tensor;
  write_bytes("1\0002\n", 4);
  assert_fails(read_with(COMPUTE_F64, NULL, &tensor), COMPUTE_ERROR_FORMAT);
  write_bytes("nan\0\n", 5);
  assert_fails(read_with(COMPUTE_F64, NULL, &tensor), COMPUTE_ERROR_FORMAT);
}

static void numbers_that_do_not_fit_are_named(void **state) {
  (void)state;
  assert_refused("1\n1e309\n", COMPUTE_F64, "line 2, column 1: \"1e309\" does not fit f64");
  assert_refused("3.5e38\n", COMPUTE_F32, "does not fit f32");
  assert_refused("65520\n", COMPUTE_F16, "does not fit f16");
  assert_refused("9223372036854775808\n", COMPUTE_I64, "does not fit i64");
  assert_refused("-9223372036854775809\n", COMPUTE_I64, "does not fit i64");
  assert_refused("99999999999999999999999999\n", COMPUTE_I64, "does not fit i64");
  assert_refused("2147483648\n", COMPUTE_I32, "does not fit i32");
  assert_refused("256\n", COMPUTE_U8, "does not fit u8");
  assert_refused("-1\n", COMPUTE_U8, "does not fit u8");
  assert_refused("65536\n", COMPUTE_U16, "does not fit u16");
  assert_refused("-1\n", COMPUTE_U16, "does not fit u16");
  assert_refused("2.5\n", COMPUTE_I32, "whole");
  assert_refused("1e3\n", COMPUTE_I32, "whole");
  assert_refused("nan\n", COMPUTE_I32, "whole");
}

static void rows_of_another_length_are_named(void **state) {
  (void)state;
  assert_refused("1,2\n3,4\n5\n", COMPUTE_F32, "line 3");
  assert_refused("1,2\n3,4,5\n", COMPUTE_F32, "line 2");
  assert_refused("1,2\n3,4,\n", COMPUTE_F32, "line 2");
  assert_refused("1,2\n\n3,4\n", COMPUTE_F32, "line 2");
  assert_refused("\n1,2\n", COMPUTE_F32, "line 1");
}

static void empty_files_are_refused(void **state) {
  (void)state;
  assert_refused("", COMPUTE_F32, "without a row");
  assert_refused("\n\r\n \n", COMPUTE_F32, "without a row");
  compute_tensor *tensor;
  write_text("a,b\n");
  assert_fails(read_with(COMPUTE_F32, &(compute_csv_options){.skip_rows = 1}, &tensor),
               COMPUTE_ERROR_FORMAT);
  assert_fails(read_with(COMPUTE_F32, &(compute_csv_options){.skip_rows = INT32_MAX}, &tensor),
               COMPUTE_ERROR_FORMAT);
}

static void fields_without_end_are_refused(void **state) {
  (void)state;
  const size_t length = 1 << 20;
  char *text = malloc(length);
  compute_tensor *tensor;
  memset(text, '0', length);
  write_bytes(text, length);
  assert_fails(read_with(COMPUTE_F64, NULL, &tensor), COMPUTE_ERROR_FORMAT);
  test_check_message(test_context, "too long");
  free(text);
}

/* ---- Bad files ----------------------------------------------------------------------------- */

static void truncated_compression_is_noticed_at_every_length(void **state) {
  (void)state;
  size_t length;
  char *text = make_large(60, &length);
  size_t size = compress_text(text, length);
  unsigned char *bytes = malloc(size);
  FILE *file = fopen(PATH, "rb");
  assert_int_equal(fread(bytes, 1, size, file), size);
  fclose(file);
  for (size_t cut = 0; cut < size; cut++) {
    compute_tensor *tensor;
    write_bytes(bytes, cut);
    assert_fails(read_with(COMPUTE_I32, NULL, &tensor), COMPUTE_ERROR_FORMAT);
  }
  free(bytes);
  free(text);
}

static void flipped_bits_are_noticed(void **state) {
  (void)state;
  size_t length;
  char *text = make_large(60, &length);
  size_t size = compress_text(text, length);
  unsigned char *bytes = malloc(size);
  FILE *file = fopen(PATH, "rb");
  assert_int_equal(fread(bytes, 1, size, file), size);
  fclose(file);
  for (size_t at = 10; at < size; at += 3) { /* past the header: its time and name may differ */
    compute_tensor *tensor;
    bytes[at] ^= 0x10;
    write_bytes(bytes, size);
    assert_fails(read_with(COMPUTE_I32, NULL, &tensor), COMPUTE_ERROR_FORMAT);
    bytes[at] ^= 0x10;
  }
  free(bytes);
  free(text);
}

static void unpacked_size_is_limited(void **state) {
  (void)state;
  size_t length;
  char *text = make_large(2000, &length);
  compress_text(text, length);
  compute_tensor *tensor;
  assert_fails(read_with(COMPUTE_I32, &(compute_csv_options){.max_bytes = length - 1}, &tensor),
               COMPUTE_ERROR_FORMAT);
  test_check_message(test_context, "more than");
  assert_ok(read_with(COMPUTE_I32, &(compute_csv_options){.max_bytes = length}, &tensor));
  compute_tensor_release(tensor);
  free(text);
}

static void missing_files_carry_the_systems_words(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_tensor *tensor;
  assert_fails(
      compute_csv_read(device, TEST_SCRATCH_DIR "/nothing-here", COMPUTE_F32, NULL, &tensor),
      COMPUTE_ERROR_FILE);
  test_check_message(test_context, "No such file");
  compute_error error;
  assert_ok(compute_error_get(test_context, &error));
  assert_int_equal(error.native_code, 2);
  assert_fails(compute_csv_read(device, TEST_SCRATCH_DIR, COMPUTE_F32, NULL, &tensor),
               COMPUTE_ERROR_FILE);
  test_check_message(test_context, "directory");
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  compute_device *device = compute_default_device(test_context);
  compute_tensor *tensor;
  write_text("1\n");
  assert_fails(compute_csv_read(NULL, PATH, COMPUTE_F32, NULL, &tensor),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_csv_read(device, NULL, COMPUTE_F32, NULL, &tensor),
               COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_csv_read(device, PATH, COMPUTE_F32, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(read_with(COMPUTE_BOOL, NULL, &tensor), COMPUTE_ERROR_DTYPE);
  assert_fails(read_with((compute_dtype)55, NULL, &tensor), COMPUTE_ERROR_DTYPE);
  const char separators[] = {'+', '-', '.', '5', 'e', '\n', '\r'};
  for (size_t i = 0; i < sizeof separators; i++) {
    assert_fails(
        read_with(COMPUTE_F32, &(compute_csv_options){.separator = separators[i]}, &tensor),
        COMPUTE_ERROR_INVALID_ARGUMENT);
  }
  assert_fails(read_with(COMPUTE_F32, &(compute_csv_options){.skip_rows = -1}, &tensor),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(read_with(COMPUTE_F32, &(compute_csv_options){.reserved = {0, 0, 0, 1}}, &tensor),
               COMPUTE_ERROR_INVALID_ARGUMENT);
}

static int close_and_clean(void **state) {
  unlink(PATH);
  return test_group_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(line_ends_and_blanks_do_not_matter),
      cmocka_unit_test(separators_and_headings_are_options),
      cmocka_unit_test(numbers_round_to_nearest),
      cmocka_unit_test(f32_is_rounded_once),
      cmocka_unit_test(simple_numbers_equal_the_c_library),
      cmocka_unit_test(integers_are_exact_to_the_last),
      cmocka_unit_test(every_number_dtype_can_be_read),
      cmocka_unit_test(locale_does_not_matter),
      cmocka_unit_test(large_tables_arrive_whole_plain_and_compressed),
      cmocka_unit_test(bad_fields_are_named_with_line_and_column),
      cmocka_unit_test(numbers_that_do_not_fit_are_named),
      cmocka_unit_test(rows_of_another_length_are_named),
      cmocka_unit_test(empty_files_are_refused),
      cmocka_unit_test(fields_without_end_are_refused),
      cmocka_unit_test(truncated_compression_is_noticed_at_every_length),
      cmocka_unit_test(flipped_bits_are_noticed),
      cmocka_unit_test(unpacked_size_is_limited),
      cmocka_unit_test(missing_files_carry_the_systems_words),
      cmocka_unit_test(bad_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, close_and_clean);
}
