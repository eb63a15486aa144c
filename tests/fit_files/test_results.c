/* SPDX-License-Identifier: MIT */
/* Result files have the promised columns, get their name only when they are complete, and are
 * refused early if they cannot be written. (test_files.py reads them with other programs.) */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fit_files/results_check.h"
#include "programs/fit/table.h"

/* ---- Columns ------------------------------------------------------------------------------- */

static void assert_csv(const results_options *options, const char *expected) {
  write_whole(CSV, options, 3);
  size_t bytes;
  char *text = read_file(CSV, &bytes);
  assert_string_equal(text, expected);
  free(text);
}

static void csv_has_thunderstorms_columns_and_origin(void **state) {
  (void)state;
  problem =
      (compute_fit_problem){.model = COMPUTE_FIT_XYNB, .rows = 7, .columns = 7, .sigma = {1.25}};
  results_options options = usual(CSV);
  /* x = (column + 1 + 1/2) · 100 nm, for ROI 1 (2 + 1.001 + 1/2) · 100 nm */
  assert_csv(&options,
             "\"id\",\"frame\",\"x [nm]\",\"y [nm]\",\"sigma [nm]\",\"intensity [photon]\","
             "\"offset [photon]\",\"bkgstd [photon]\",\"uncertainty_xy [nm]\","
             "\"uncertainty_x [nm]\",\"uncertainty_y [nm]\",\"uncertainty_intensity [photon]\","
             "\"uncertainty_offset [photon]\",\"log_likelihood_ratio\",\"p_value\",\"iterations\","
             "\"status\"\n"
             "1,1,150.0000,250.0000,125.0000,3.000,4.0000,2.0000,15.8114,10.0000,20.0000,0.300,"
             "0.4000,0.0000,0.001000000,0,1\n"
             "2,1,350.1000,350.1000,125.0000,3.001,4.0010,2.0002,15.8209,10.0100,20.0100,0.300,"
             "0.4001,-0.2500,0.0005000000,1,2\n"
             "3,1,550.2000,450.2000,125.0000,3.002,4.0020,2.0005,15.8304,10.0200,20.0200,0.300,"
             "0.4002,-0.5000,0.0003333334,2,3\n");
}

static void csv_without_a_pixel_size_is_in_pixels(void **state) {
  (void)state;
  problem = (compute_fit_problem){.model = COMPUTE_FIT_XYNBSXSY,
                                  .rows = 7,
                                  .columns = 7,
                                  .sigma = {1.25},
                                  .camera = COMPUTE_FIT_EMCCD,
                                  .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD};
  results_options options = usual(CSV);
  options.pixel_size = 0;
  options.corners = false; /* every ROI is a whole frame */
  assert_csv(&options,
             "\"id\",\"frame\",\"x [px]\",\"y [px]\",\"sigma1 [px]\",\"sigma2 [px]\","
             "\"intensity [photon]\",\"offset [photon]\",\"bkgstd [photon]\","
             "\"uncertainty_xy [px]\",\"uncertainty_x [px]\",\"uncertainty_y [px]\","
             "\"uncertainty_sigma1 [px]\",\"uncertainty_sigma2 [px]\","
             "\"uncertainty_intensity [photon]\",\"uncertainty_offset [photon]\"\n"
             "1,1,1.500000,2.500000,5.000000,6.000000,3.000,4.0000,2.8284,0.158114,0.100000,"
             "0.200000,0.500000,0.600000,0.300,0.4000\n"
             "2,2,1.501000,2.501000,5.001000,6.001000,3.001,4.0010,2.8288,0.158209,0.100100,"
             "0.200100,0.500100,0.600100,0.300,0.4001\n"
             "3,3,1.502000,2.502000,5.002000,6.002000,3.002,4.0020,2.8291,0.158304,0.100200,"
             "0.200200,0.500200,0.600200,0.300,0.4002\n");
}

static void csv_of_3d_has_z_in_nm_and_both_widths(void **state) {
  (void)state;
  problem = (compute_fit_problem){.model = COMPUTE_FIT_XYZNB,
                                  .rows = 7,
                                  .columns = 7,
                                  .sigma = {1, 2},
                                  .depth = 2,
                                  .gamma = 1,
                                  .a = {0.5, 0.25},
                                  .b = {0.125, 0},
                                  .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD};
  results_options options = usual(CSV);
  /* z = 3 µm: tx = 1, ty = 2; widths √(1 + 1 + ½ + ⅛) = 1.62019 px, 2 √(1 + 4 + 2) = 5.29150 px */
  write_whole(CSV, &options, 3);
  size_t bytes;
  char *text = read_file(CSV, &bytes);
  assert_non_null(
      strstr(text, "\"x [nm]\",\"y [nm]\",\"z [nm]\",\"sigma1 [nm]\",\"sigma2 [nm]\","));
  assert_non_null(strstr(text, "\"uncertainty_xy [nm]\",\"uncertainty_z [nm]\","));
  assert_non_null(strstr(text, "\n1,1,150.0000,250.0000,3000.0000,162.0185,529.1503,4.000,5.0000,"
                               "2.2361,15.8114,300.0000,"));
  free(text);
  problem =
      (compute_fit_problem){.model = COMPUTE_FIT_XYNB, .rows = 7, .columns = 7, .sigma = {1.25}};
}

static void npy_records_have_named_columns(void **state) {
  (void)state;
  problem.outputs = COMPUTE_FIT_ALL_OUTPUTS;
  results_options options = usual(NPY);
  write_whole(NPY, &options, 12);
  problem.outputs = 0;
  size_t bytes;
  char *text = read_file(NPY, &bytes);
  assert_non_null(strstr(
      text + 10,
      "{'descr': [('roi', '<i8'), ('frame', '<i8'), ('roi_row', '<i4'), ('roi_column', '<i4'), "
      "('x', '<f8'), ('y', '<f8'), ('photons', '<f4'), ('background', '<f4'), ('x_std', '<f4'), "
      "('y_std', '<f4'), ('photons_std', '<f4'), ('background_std', '<f4'), "
      "('covariance', '<f4', (4, 4)), ('log_likelihood_ratio', '<f4'), ('p_raw', '<f4'), "
      "('p_value', '<f4'), ('iterations', '<i4'), ('status', '|u1')], 'fortran_order': False, "
      "'shape': (12,), }"));
  size_t record = 8 + 8 + 4 + 4 + 8 + 8 + 6 * 4 + 64 + 5 * 4 + 1 - 4, head = bytes - 12 * record;
  assert_int_equal(head % 64, 0);
  double x;
  memcpy(&x, text + head + 5 * record + 24, 8);
  assert_true(x == 10 + (double)1.005f);
  float covariance;
  memcpy(&covariance, text + head + 5 * record + 64 + 4 * (4 * 2 + 3), 4);
  assert_true(covariance == 5 + 23);
  free(text);
}

static int64_t lines_of(const char *path) {
  size_t bytes;
  char *text = read_file(path, &bytes);
  int64_t lines = 0;
  for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
  free(text);
  return lines;
}

static void rows_can_be_left_out_by_status(void **state) {
  (void)state;
  results_options options = usual(CSV);
  write_whole(CSV, &options, 33);
  assert_int_equal(lines_of(CSV), 1 + 33);
  options.statuses = 1u << COMPUTE_FIT_BAD_DATA;
  write_whole(CSV, &options, 33);
  assert_int_equal(lines_of(CSV), 1 + 3);
  size_t bytes;
  char *text = read_file(CSV, &bytes); /* ids are still the ROI numbers */
  assert_non_null(strstr(text, "\n11,4,NaN,NaN,125.0000,NaN,"));
  assert_non_null(strstr(text, "\n33,11,NaN,"));
  free(text);
}

static void an_empty_run_makes_an_empty_file(void **state) {
  (void)state;
  results_options options = usual(CSV);
  write_whole(CSV, &options, 0);
  assert_int_equal(lines_of(CSV), 1);
  options = usual(NPY);
  write_whole(NPY, &options, 0);
}

/* ---- Not writing --------------------------------------------------------------------------- */

static void complete_files_are_only_replaced_on_demand(void **state) {
  (void)state;
  results_options options = usual(CSV);
  write_whole(CSV, &options, 30);
  assert_refused(CSV, &options, COMPUTE_ERROR_FILE, "exists; use --force");
  options.resume = true;
  assert_refused(CSV, &options, COMPUTE_ERROR_FILE, "nothing is left to resume");
  assert_false(exists(CSV, ".incomplete"));
  options.resume = false;
  options.overwrite = true;
  results_progress begin;
  results_file *file = create(CSV, &options, &begin);
  assert_done(sample_results_append(file, problem.model, 0, 0, 60, 30, &why));
  assert_int_equal(lines_of(CSV), 31); /* the old file, until the end */
  assert_done(results_file_finish(file, 20, &why));
  assert_int_equal(lines_of(CSV), 61);
}

static void places_that_cannot_be_written_are_refused_at_once(void **state) {
  (void)state;
  results_options options = usual(CSV);
  assert_refused(TEST_SCRATCH_DIR "/none/locs.csv", &options, COMPUTE_ERROR_FILE, "No such file");
  assert_refused("/proc/locs.csv", &options, COMPUTE_ERROR_FILE, "cannot create /proc/locs.csv:");
  problem.outputs = COMPUTE_FIT_STATUS;
  assert_refused(CSV, &options, COMPUTE_ERROR_INVALID_ARGUMENT, "without the parameters");
  problem.outputs = 0;
  results_format format;
  assert_false(results_format_of_path("locs.txt", &format));
  assert_false(results_format_of_path(".csv", &format));
}

static void rows_without_room_are_refused_at_once(void **state) {
  (void)state;
  static const char *const paths[] = {CSV, NPY};
  for (int i = 0; i < 2; i++) {
    remove_all(paths[i]);
    results_options options = usual(paths[i]);
    options.expected_rows = (int64_t)1 << 60;
    assert_refused(paths[i], &options, COMPUTE_ERROR_FILE, "GB are free");
    assert_false(exists(paths[i], ".incomplete") || exists(paths[i], ".incomplete.json"));
    options.expected_rows = 30;
    write_whole(paths[i], &options, 30);
  }
}

static void two_processes_do_not_write_one_file(void **state) {
  (void)state;
  remove_all(CSV);
  results_options options = usual(CSV);
  results_progress begin;
  results_file *file = create(CSV, &options, &begin);
  options.overwrite = options.resume = true;
  assert_refused(CSV, &options, COMPUTE_ERROR_INVALID_STATE, "another process");
  results_file_abandon(file, NULL);
}

/* ---- HDF5 ---------------------------------------------------------------------------------- */

static void hdf5_comes_with_its_side_car(void **state) {
  (void)state;
  if (!results_format_available(RESULTS_HDF5)) test_skip("built without HDF5");
  results_options options = usual(HDF5);
  options.input = "a \"movie\".tif";
  write_whole(HDF5, &options, 3000);
  size_t bytes;
  char *text = read_file(TEST_SCRATCH_DIR "/locs.yaml", &bytes);
  assert_string_equal(text, "File: \"a \\\"movie\\\".tif\"\nFrames: 1000\nHeight: 128\nWidth: 256\n"
                            "---\nGenerated by: \"test\"\nBox Size: 7\n"
                            "Fit method: maximum likelihood\nPixelsize: 100\n");
  free(text);
  text = read_file(HDF5, &bytes);
  assert_memory_equal(text, "\x89HDF\r\n\x1a\n", 8);
  free(text);
}

static void hdf5_does_not_take_the_movies_side_car(void **state) {
  (void)state;
  if (!results_format_available(RESULTS_HDF5)) test_skip("built without HDF5");
  remove_all(HDF5);
  FILE *file = fopen(TEST_SCRATCH_DIR "/locs.yaml", "w");
  fputs("Width: 3\n", file);
  fclose(file);
  results_options options = usual(HDF5);
  assert_refused(HDF5, &options, COMPUTE_ERROR_FILE, "exists; use --force");
  options.overwrite = true;
  options.input = TEST_SCRATCH_DIR "/locs.raw";
  assert_refused(HDF5, &options, COMPUTE_ERROR_FILE, "would replace that of the input");
  remove_all(HDF5);
}

static void a_table_beyond_any_memory_is_refused(void **state) {
  (void)state;
  failure why = {.status = COMPUTE_OK};
  table t = {.stride = 1 << 20};
  assert_int_equal(table_allocate(&t, "big", INT64_C(1) << 45, &why), COMPUTE_ERROR_OUT_OF_MEMORY);
  assert_null(t.values);
  table_release(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(csv_has_thunderstorms_columns_and_origin),
      cmocka_unit_test(csv_without_a_pixel_size_is_in_pixels),
      cmocka_unit_test(csv_of_3d_has_z_in_nm_and_both_widths),
      cmocka_unit_test(npy_records_have_named_columns),
      cmocka_unit_test(rows_can_be_left_out_by_status),
      cmocka_unit_test(an_empty_run_makes_an_empty_file),
      cmocka_unit_test(complete_files_are_only_replaced_on_demand),
      cmocka_unit_test(places_that_cannot_be_written_are_refused_at_once),
      cmocka_unit_test(rows_without_room_are_refused_at_once),
      cmocka_unit_test(two_processes_do_not_write_one_file),
      cmocka_unit_test(hdf5_comes_with_its_side_car),
      cmocka_unit_test(hdf5_does_not_take_the_movies_side_car),
      cmocka_unit_test(a_table_beyond_any_memory_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
