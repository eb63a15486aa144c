/* SPDX-License-Identifier: MIT */
/* Opening and reading images: values and order are exact in any requested piece, and errors are
 * reported when the file is opened. (test_files.py checks files of other programs.) */
#include "programs/fit/movie_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fit_files/sample_tiff.h"
#include "support/harness/test.h"

#define TIFF TEST_SCRATCH_DIR "/movie.tif"
#define NPY  TEST_SCRATCH_DIR "/movie.npy"
#define RAW  TEST_SCRATCH_DIR "/movie.raw"
#define YAML TEST_SCRATCH_DIR "/movie.yaml"

/* ---- Files --------------------------------------------------------------------------------- */

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void write_npy(const char *descr, const char *shape, const char *order, const void *data,
                      size_t bytes) {
  char text[1024] = "\x93NUMPY\x01";
  int used = snprintf(text + 10, sizeof text - 10,
                      "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, order, shape);
  text[8] = (char)used;
  text[9] = 0;
  memcpy(text + 10 + used, data, bytes);
  write_file(NPY, text, 10 + (size_t)used + bytes);
}

static movie *open_good(const char *path) {
  failure why = {.status = COMPUTE_OK};
  movie *file;
  if (movie_open(path, &file, &why)) fail_msg("%s", why.what);
  return file;
}

static void assert_refused(const char *path, compute_status expected, const char *part) {
  failure why = {.status = COMPUTE_OK};
  movie *file = (movie *)&why;
  compute_status status = movie_open(path, &file, &why);
  if (status != expected) print_message("%s\n", why.what);
  assert_int_equal(status, expected);
  assert_null(file);
  assert_int_equal(why.status, expected);
  if (!strstr(why.what, part)) fail_msg("\"%s\" does not say \"%s\"", why.what, part);
  assert_null(strchr(why.what, '\n'));
}

static void assert_reads(movie *file, int64_t first, int64_t count, const void *expected,
                         size_t bytes) {
  failure why = {.status = COMPUTE_OK};
  unsigned char *actual = malloc(bytes + 1);
  actual[bytes] = 77;
  if (movie_read(file, first, count, actual, &why)) fail_msg("%s", why.what);
  assert_memory_equal(actual, expected, bytes);
  assert_int_equal(actual[bytes], 77);
  free(actual);
}

static void assert_info(const movie *file, const char *format, compute_dtype dtype, int64_t count,
                        int64_t rows, int64_t columns) {
  const movie_info *info = movie_information(file);
  assert_string_equal(info->format, format);
  assert_int_equal(info->dtype, dtype);
  assert_int_equal(info->count, count);
  assert_int_equal(info->rows, rows);
  assert_int_equal(info->columns, columns);
}

/* ---- .npy and raw -------------------------------------------------------------------------- */

static void npy_stacks_come_as_u16_or_f32(void **state) {
  (void)state;
  static const uint8_t u8[] = {1, 2, 3, 4, 5, 255};
  static const uint16_t from_u8[] = {1, 2, 3, 4, 5, 255};
  write_npy("|u1", "(3, 1, 2)", "False", u8, sizeof u8);
  movie *file = open_good(NPY);
  assert_info(file, "NumPy", COMPUTE_U16, 3, 1, 2);
  assert_reads(file, 0, 3, from_u8, 12);
  assert_reads(file, 1, 1, from_u8 + 2, 4);
  assert_reads(file, 3, 0, "", 0);
  movie_close(file);

  static const unsigned char big[] = {1, 0, 0, 2}, f8[] = {0x40, 8, 0, 0, 0, 0, 0, 0};
  static const uint16_t from_big[] = {256, 2};
  write_npy(">u2", "(1, 2, 1)", "False", big, sizeof big);
  file = open_good(NPY);
  assert_info(file, "NumPy", COMPUTE_U16, 1, 2, 1);
  assert_string_equal(movie_information(file)->stored, "u16, big-endian");
  assert_reads(file, 0, 1, from_big, 4);
  movie_close(file);

  static const float three = 3;
  write_npy(">f8", "(1, 1, 1)", "False", f8, sizeof f8);
  file = open_good(NPY);
  assert_info(file, "NumPy", COMPUTE_F32, 1, 1, 1);
  assert_reads(file, 0, 1, &three, 4);
  movie_close(file);
}

static void npy_of_another_form_is_refused(void **state) {
  (void)state;
  static const unsigned char data[64];
  write_npy("<u2", "(4, 4)", "False", data, 32);
  assert_refused(NPY, COMPUTE_ERROR_SHAPE, "[n, rows, columns]");
  write_npy("<i4", "(1, 2, 2)", "False", data, 16);
  assert_refused(NPY, COMPUTE_ERROR_DTYPE, "i32");
  write_npy("<c8", "(1, 2, 2)", "False", data, 32);
  assert_refused(NPY, COMPUTE_ERROR_UNSUPPORTED, "<c8");
  write_npy("<u2", "(2, 2, 2)", "True", data, 16);
  assert_refused(NPY, COMPUTE_ERROR_UNSUPPORTED, "Fortran");
  write_npy("<u2", "(2, 2, 2)", "False", data, 15);
  assert_refused(NPY, COMPUTE_ERROR_FORMAT, "15 bytes");
  write_npy("<u2", "(2, 0, 2)", "False", data, 0);
  assert_refused(NPY, COMPUTE_ERROR_FORMAT, "are not possible");
}

#ifdef FIT_WITH_YAML

static void write_yaml(const char *text) {
  write_file(YAML, text, strlen(text));
}

static void raw_files_are_read_by_their_side_car(void **state) {
  (void)state;
  static const uint16_t pixels[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  write_file(RAW, pixels, sizeof pixels);
  write_yaml("Byte Order: <\nData Type: uint16\nFrames: 2\nHeight: 2\nWidth: 3\n"
             "Camera: {Width: 7, list: [1, 2, {Frames: 3}]}\n---\nWidth: 99\n");
  movie *file = open_good(RAW);
  assert_info(file, "raw", COMPUTE_U16, 2, 2, 3);
  assert_reads(file, 1, 1, pixels + 6, 12);
  movie_close(file);

  write_yaml("{Data Type: '>u2', Frames: 1, Height: 3, Width: 4}");
  uint16_t turned[12];
  for (int i = 0; i < 12; i++) turned[i] = (uint16_t)(pixels[i] << 8);
  file = open_good(RAW);
  assert_info(file, "raw", COMPUTE_U16, 1, 3, 4);
  assert_reads(file, 0, 1, turned, 24);
  movie_close(file);
}

static void side_cars_that_lie_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *yaml, *part;
  } cases[] = {
      {"Data Type: uint16\nFrames: 3\nHeight: 2\nWidth: 3\n", "which hold 2 frames"},
      {"Data Type: uint16\nFrames: 2\nHeight: 2\nWidth: 4\n", "are not the 24 bytes"},
      {"Data Type: uint16\nFrames: 9223372036854775807\nHeight: 32768\nWidth: 32768\n",
       "are not the"},
      {"Data Type: uint16\nFrames: 99999999999999999999\nHeight: 2\nWidth: 3\n", "not a number"},
      {"Data Type: uint16\nFrames: -2\nHeight: 2\nWidth: 3\n", "not a number"},
      {"Data Type: uint16\nFrames: 2\nHeight: 0\nWidth: 3\n", "are not possible"},
      {"Data Type: uint16\nFrames: 2\nHeight: 4294967296\nWidth: 4294967296\n", "are not possible"},
      {"Data Type: int16\nFrames: 2\nHeight: 2\nWidth: 3\n", "int16"},
      {"Data Type: uint16\nHeight: 2\nWidth: 3\n", "lacks \"Frames\""},
      {"Frames: 2\nHeight: 2\nWidth: 3\n", "lacks \"Data Type\""},
      {"Data Type: uint16\nFrames: 2\nFrames: 2\nHeight: 2\nWidth: 3\n", "twice"},
      {"Data Type: uint16\nFrames: [2]\nHeight: 2\nWidth: 3\n", "invalid value"},
      {"Data Type: uint16\nByte Order: x\nFrames: 2\nHeight: 2\nWidth: 3\n", "neither < nor >"},
      {"Data Type: <u2\nByte Order: '>'\nFrames: 2\nHeight: 2\nWidth: 3\n", "contradict"},
      {"- 1\n- 2\n", "not a list of keys"},
      {"", "lacks"},
      {"Other: [\n", "invalid YAML"},
      {"\x01\x02", "invalid YAML"},
  };
  static const uint16_t pixels[12];
  write_file(RAW, pixels, sizeof pixels);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_yaml(cases[i].yaml);
    assert_refused(RAW, COMPUTE_ERROR_FORMAT, cases[i].part);
  }
  unlink(YAML);
  assert_refused(RAW, COMPUTE_ERROR_FILE, "movie.yaml: No such file");
}

#else

static void raw_files_need_libyaml(void **state) {
  (void)state;
  write_file(RAW, "", 0);
  assert_refused(RAW, COMPUTE_ERROR_UNSUPPORTED, "without libyaml");
}

#endif

/* ---- TIFF ---------------------------------------------------------------------------------- */

#ifdef FIT_WITH_TIFF

#define PAGES 5

static uint16_t frames[PAGES][6];
static sample_page pages[PAGES];

static void make_pages(bool big_endian) {
  for (int i = 0; i < PAGES; i++) {
    for (int j = 0; j < 6; j++) {
      uint16_t value = (uint16_t)(1000 * i + j);
      frames[i][j] = big_endian ? __builtin_bswap16(value) : value;
    }
    pages[i] = (sample_page){.rows = 2, .columns = 3, .pixels = frames[i], .bytes = 12};
  }
}

static void pages_can_be_read_in_any_order(void **state) {
  (void)state;
  uint16_t expected[PAGES][6];
  make_pages(false);
  memcpy(expected, frames, sizeof expected);
  for (int kind = 0; kind < 4; kind++) {
    sample_tiff tiff = {kind & 1, kind >> 1, PAGES, pages, -1};
    make_pages(kind & 1);
    sample_tiff_write(TIFF, &tiff);
    movie *file = open_good(TIFF);
    assert_info(file, "TIFF", COMPUTE_U16, PAGES, 2, 3);
    assert_reads(file, 0, PAGES, expected, sizeof expected);
    for (int64_t i = 0; i < 40; i++) {
      int64_t page = i * 7 % PAGES, count = 1 + i % (PAGES - page);
      assert_reads(file, page, count, expected[page], (size_t)count * 12);
    }
    movie_close(file);
  }
}

/* More pages than the table of offsets has rows, so that the table keeps fewer of them. */
static void thousands_of_pages_are_found_again(void **state) {
  (void)state;
  enum { MANY = 5000 };
  unsigned char *text = calloc(MANY, 128);
  size_t used = 8;
  memcpy(text, "II*\0\x0c\0\0\0", 8); /* the first directory is at 12, after its pixels */
  for (uint32_t i = 0; i < MANY; i++) {
    uint32_t pixels = (uint32_t)used, next;
    memcpy(text + used, &(uint16_t[]){(uint16_t)i, (uint16_t)(i ^ 0xffff)}, 4);
    used += 4;
    static const uint16_t tags[8][2] = {{256, 2}, {257, 1}, {258, 16}, {259, 1},
                                        {262, 1}, {273, 0}, {277, 1},  {279, 4}};
    memcpy(text + used, &(uint16_t){8}, 2);
    used += 2;
    for (int j = 0; j < 8; j++) {
      uint32_t value = j == 5 ? pixels : tags[j][1];
      memcpy(text + used, &tags[j][0], 2);
      memcpy(text + used + 2, &(uint16_t){4}, 2);
      memcpy(text + used + 4, &(uint32_t){1}, 4);
      memcpy(text + used + 8, &value, 4);
      used += 12;
    }
    next = i + 1 < MANY ? (uint32_t)used + 8 : 0;
    memcpy(text + used, &next, 4);
    used += 4;
  }
  write_file(TIFF, text, used);
  free(text);
  movie *file = open_good(TIFF);
  assert_info(file, "TIFF", COMPUTE_U16, MANY, 1, 2);
  for (int64_t i = 0; i < 500; i++) {
    int64_t page = i * 2741 % MANY;
    uint16_t expected[] = {(uint16_t)page, (uint16_t)(page ^ 0xffff)};
    assert_reads(file, page, 1, expected, 4);
  }
  movie_close(file);
}

static void a_stack_of_imagej_is_more_than_its_page(void **state) {
  (void)state;
  uint16_t expected[PAGES][6];
  make_pages(false);
  memcpy(expected, frames, sizeof expected);
  for (int big_endian = 0; big_endian < 2; big_endian++) {
    make_pages(big_endian);
    sample_page page = {.rows = 2,
                        .columns = 3,
                        .pixels = frames,
                        .bytes = sizeof frames,
                        .claimed_bytes = 12,
                        .description = "ImageJ=1.54f\nimages=5\nslices=5\nloop=false\n"};
    sample_tiff tiff = {big_endian, false, 1, &page, -1};
    sample_tiff_write(TIFF, &tiff);
    movie *file = open_good(TIFF);
    assert_info(file, "TIFF", COMPUTE_U16, PAGES, 2, 3);
    assert_reads(file, 1, 4, expected[1], 48);
    movie_close(file);
    page.description = "ImageJ=1.54f\nimages=500\n";
    sample_tiff_write(TIFF, &tiff);
    assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "500 images");
  }
}

static void write_pages(void) {
  sample_tiff tiff = {false, false, PAGES, pages, -1};
  sample_tiff_write(TIFF, &tiff);
}

static void pages_of_another_kind_are_named(void **state) {
  (void)state;
  make_pages(false);
  pages[3].columns = 2;
  write_pages();
  assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "page 4 has 2 x 2 pixels of u16, page 1 2 x 3");
  make_pages(false);
  pages[2].bits = 8;
  write_pages();
  assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "page 3 has 2 x 3 pixels of u8");
  static const struct {
    sample_page page;
    const char *part;
  } cases[] = {
      {{.bits = 12}, "12-bit unsigned"},
      {{.bits = 1}, "1-bit unsigned"},
      {{.bits = 32}, "32-bit unsigned"},
      {{.bits = 16, .format = 2}, "16-bit signed"},
      {{.bits = 16, .format = 3}, "16-bit floats"},
      {{.bits = 64, .format = 6}, "unsupported kind"},
      {{.bits = 8, .samples = 3, .photometric = 2}, "3 samples per pixel"},
      {{.compression = 12345}, "compression 12345"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_pages(false);
    pages[1] = cases[i].page;
    pages[1].rows = 2;
    pages[1].columns = 3;
    pages[1].pixels = frames;
    pages[1].bytes = 24;
    write_pages();
    assert_refused(TIFF, COMPUTE_ERROR_UNSUPPORTED, "page 2");
    assert_refused(TIFF, COMPUTE_ERROR_UNSUPPORTED, cases[i].part);
  }
}

static void sizes_beyond_sense_are_refused(void **state) {
  (void)state;
  static const uint32_t sizes[][2] = {
      {0xffffffff, 0xffffffff}, {0xffffffff, 1}, {1, 0xffffffff}, {0, 3}, {2, 0}, {65536, 65536}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    make_pages(false);
    pages[0].rows = sizes[i][0];
    pages[0].columns = sizes[i][1];
    write_pages();
    failure why = {.status = COMPUTE_OK};
    movie *file;
    assert_int_not_equal(movie_open(TIFF, &file, &why), COMPUTE_OK);
  }
}

static void a_circle_of_pages_has_an_end(void **state) {
  (void)state;
  make_pages(false);
  for (int next = 0; next < PAGES; next++) {
    sample_tiff tiff = {false, false, PAGES, pages, next};
    sample_tiff_write(TIFF, &tiff);
    assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "page 6: cannot read its header");
  }
}

static void tiffs_cut_off_anywhere_are_refused(void **state) {
  (void)state;
  make_pages(false);
  write_pages();
  struct stat about;
  assert_int_equal(stat(TIFF, &about), 0);
  /* The last four bytes belong to the sample itself. */
  for (off_t length = about.st_size - 5; length >= 0; length--) {
    assert_int_equal(truncate(TIFF, length), 0);
    assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "movie.tif");
  }
}

static void pixels_that_are_missing_are_noticed_at_once(void **state) {
  (void)state;
  make_pages(false);
  pages[4].claimed_offset = 100000;
  write_pages();
  assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "page 5: its pixels would end");
  make_pages(false);
  pages[3].compression = 5;
  pages[3].claimed_bytes = 100000;
  write_pages();
  assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "page 4: its pixels would end");
}

/* Damage in a compressed page is visible only during decompression. */
static void damaged_pixels_are_an_error_of_their_page(void **state) {
  (void)state;
  make_pages(false);
  pages[2].compression = 5; /* LZW, although the pixels are not */
  static const unsigned char nonsense[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  pages[2].pixels = nonsense;
  pages[2].bytes = sizeof nonsense;
  write_pages();
  movie *file = open_good(TIFF);
  uint16_t pixels[6];
  failure why = {.status = COMPUTE_OK};
  assert_int_equal(movie_read(file, 2, 1, pixels, &why), COMPUTE_ERROR_FORMAT);
  assert_non_null(strstr(why.what, "page 3: cannot unpack its pixels"));
  make_pages(false);
  assert_reads(file, 3, 1, frames[3], 12);
  movie_close(file);
}

#else

static void tiffs_need_libtiff(void **state) {
  (void)state;
  write_file(TIFF, "II*\0\0\0\0\0", 8);
  assert_refused(TIFF, COMPUTE_ERROR_UNSUPPORTED, "without libtiff");
}

#endif

/* ---- Other files --------------------------------------------------------------------------- */

static void other_files_are_refused(void **state) {
  (void)state;
  write_file(TIFF, "hello, world", 12);
  assert_refused(TIFF, COMPUTE_ERROR_FORMAT, "is not in the format that its name");
  write_file(NPY, "", 0);
  assert_refused(NPY, COMPUTE_ERROR_FORMAT, "is not in the format that its name");
  assert_refused("/dev/null", COMPUTE_ERROR_FILE, "not a regular file");
  assert_refused(TEST_SCRATCH_DIR, COMPUTE_ERROR_FILE, "not a regular file");
  assert_refused(TEST_SCRATCH_DIR "/none.tif", COMPUTE_ERROR_FILE, "No such file");
  write_file(TEST_SCRATCH_DIR "/notes.txt", "hello, world", 12);
  assert_refused(TEST_SCRATCH_DIR "/notes.txt", COMPUTE_ERROR_FORMAT, "in an unknown format");
}

static void images_that_are_not_there_cannot_be_read(void **state) {
  (void)state;
  static const unsigned char data[64];
  write_npy("<u2", "(2, 2, 2)", "False", data, 16);
  movie *file = open_good(NPY);
  static const int64_t wrong[][2] = {{-1, 1},        {0, 3},         {2, 1},
                                     {1, INT64_MAX}, {INT64_MAX, 1}, {0, -1}};
  uint16_t pixels[8];
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    failure why = {.status = COMPUTE_OK};
    assert_int_equal(movie_read(file, wrong[i][0], wrong[i][1], pixels, &why),
                     COMPUTE_ERROR_INVALID_ARGUMENT);
  }
  /* The file is truncated while it is open. */
  assert_int_equal(truncate(NPY, 80), 0);
  failure why = {.status = COMPUTE_OK};
  assert_int_equal(movie_read(file, 0, 2, pixels, &why), COMPUTE_ERROR_FORMAT);
  movie_close(file);
  movie_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(npy_stacks_come_as_u16_or_f32),
      cmocka_unit_test(npy_of_another_form_is_refused),
#ifdef FIT_WITH_YAML
      cmocka_unit_test(raw_files_are_read_by_their_side_car),
      cmocka_unit_test(side_cars_that_lie_are_refused),
#else
      cmocka_unit_test(raw_files_need_libyaml),
#endif
#ifdef FIT_WITH_TIFF
      cmocka_unit_test(pages_can_be_read_in_any_order),
      cmocka_unit_test(thousands_of_pages_are_found_again),
      cmocka_unit_test(a_stack_of_imagej_is_more_than_its_page),
      cmocka_unit_test(pages_of_another_kind_are_named),
      cmocka_unit_test(sizes_beyond_sense_are_refused),
      cmocka_unit_test(a_circle_of_pages_has_an_end),
      cmocka_unit_test(tiffs_cut_off_anywhere_are_refused),
      cmocka_unit_test(pixels_that_are_missing_are_noticed_at_once),
      cmocka_unit_test(damaged_pixels_are_an_error_of_their_page),
#else
      cmocka_unit_test(tiffs_need_libtiff),
#endif
      cmocka_unit_test(other_files_are_refused),
      cmocka_unit_test(images_that_are_not_there_cannot_be_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
