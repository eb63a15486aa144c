/* SPDX-License-Identifier: MIT */
/* Millions of fits: memory does not grow, and no counter has only 32 bits. Stacks and movies repeat
 * a small piece, either by a callback or by pages of one file that are mapped repeatedly. Each copy
 * of an ROI must give the same bits. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/harness/test.h"

enum { PARAMETERS = 4, SIDE = 7, BLOCK = 20000, MILLIONS = 10000000 };

#define MOST_KIBIBYTES (1000 * 1000) /* of the whole process */

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void simulate(const compute_fit_problem *problem, int64_t count, uint16_t *pixels) {
  const compute_simulation simulation = {.problem = *problem,
                                         .dtype = COMPUTE_U16,
                                         .seed = 5,
                                         .photons = {500, 2000},
                                         .background = {5, 20},
                                         .position = {-0.5, 0.5}};
  assert_ok(compute_simulate_rois(test_context, &simulation, 0, count, pixels, NULL));
}

static long peak_kibibytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* ---- Callbacks ----------------------------------------------------------------------------- */

typedef struct repeating {
  uint16_t *pixels;  /* [BLOCK, SIDE, SIDE] */
  float *parameters; /* of the first block */
  uint8_t *status;
  int64_t next, converged, different;
} repeating;

static compute_status read_again(void *user, int64_t first, int64_t items, void *data,
                                 int64_t *count) {
  const repeating *r = user;
  uint16_t *to = data;
  for (int64_t done = 0, part; done < items; done += part) {
    const int64_t at = (first + done) % BLOCK;
    part = smaller(items - done, BLOCK - at);
    memcpy(to + done * SIDE * SIDE, r->pixels + at * SIDE * SIDE,
           (size_t)part * SIDE * SIDE * sizeof *to);
  }
  *count = items;
  return COMPUTE_OK;
}

static compute_status compare(void *user, int64_t first, int64_t count,
                              const compute_fit_results *results, const int32_t *corners,
                              int64_t next_frame) {
  repeating *r = user;
  (void)corners;
  (void)next_frame;
  r->different += first != r->next;
  r->next = first + count;
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = (first + i) % BLOCK;
    const float *parameters = results->parameters + i * PARAMETERS;
    r->converged += results->status[i] == COMPUTE_FIT_CONVERGED;
    if (first + i < BLOCK) {
      memcpy(r->parameters + at * PARAMETERS, parameters, PARAMETERS * sizeof *parameters);
      r->status[at] = results->status[i];
    } else {
      r->different +=
          r->status[at] != results->status[i] ||
          memcmp(r->parameters + at * PARAMETERS, parameters, PARAMETERS * sizeof *parameters) != 0;
    }
  }
  return COMPUTE_OK;
}

static void ten_million_rois_take_less_than_a_gigabyte(void **state) {
  (void)state;
  const compute_fit_problem problem = {.rows = SIDE, .columns = SIDE, .sigma = {1.3}};
  repeating r = {.pixels = malloc((size_t)BLOCK * SIDE * SIDE * sizeof(uint16_t)),
                 .parameters = malloc((size_t)BLOCK * PARAMETERS * sizeof(float)),
                 .status = malloc(BLOCK)};
  compute_fit *fit = NULL;
  compute_fit_summary summary;
  simulate(&problem, BLOCK, r.pixels);
  assert_ok(compute_fit_create(
      test_context, &(compute_fit_options){.problem = problem, .dtype = COMPUTE_U16}, &fit));
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.read = read_again, .user = &r},
                                                       .count = MILLIONS,
                                                       .write = compare,
                                                       .write_user = &r},
                            &summary));
  print_message("%.3g ROIs/s, %ld MB at most\n", MILLIONS / summary.seconds,
                peak_kibibytes() / 1000);
  assert_int_equal(r.next, MILLIONS);
  assert_int_equal(r.different, 0);
  assert_true(r.converged > MILLIONS / 100 * 99);
  assert_int_equal(summary.count, MILLIONS);
  assert_int_equal(summary.of_status[COMPUTE_FIT_CONVERGED], r.converged);
  assert_true(peak_kibibytes() < MOST_KIBIBYTES);
  compute_fit_release(fit);
  free(r.pixels);
  free(r.parameters);
  free(r.status);
}

/* ---- More than 2^31 elements ---------------------------------------------------------------- */

/* Maps `bytes`, a multiple of the page size, `times` times in sequence in the address space, but
 * once in memory. */
static void *repeat_pages(const void *data, size_t bytes, size_t times) {
  const int file = memfd_create("pixels", 0);
  assert_true(file >= 0 && write(file, data, bytes) == (ssize_t)bytes);
  char *all =
      mmap(NULL, bytes * times, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(all != MAP_FAILED);
  for (size_t i = 0; i < times; i++)
    assert_true(mmap(all + i * bytes, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) !=
                MAP_FAILED);
  close(file);
  return all;
}

/* The whole stack as one array. One iteration is enough to check that the right pixels are read. */
static void stacks_may_have_more_than_two_to_the_31_elements(void **state) {
  (void)state;
  enum { LARGE = COMPUTE_FIT_MAX_SIDE, FEW = 2048, TIMES = 257 };
  const int64_t count = (int64_t)FEW * TIMES;
  const size_t bytes = (size_t)FEW * LARGE * LARGE * sizeof(uint16_t);
  const compute_fit_problem problem = {.rows = LARGE,
                                       .columns = LARGE,
                                       .sigma = {5},
                                       .iterations = 1,
                                       .outputs = COMPUTE_FIT_PARAMETERS};
  uint16_t *some = malloc(bytes);
  simulate(&problem, FEW, some);
  uint16_t *all = repeat_pages(some, bytes, TIMES);
  assert_true(count * LARGE * LARGE > INT64_C(1) << 31);
  float *parameters = malloc((size_t)count * PARAMETERS * sizeof *parameters);
  compute_fit *fit = NULL;
  assert_ok(compute_fit_create(
      test_context, &(compute_fit_options){.problem = problem, .dtype = COMPUTE_U16}, &fit));
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = all},
                                                       .count = count,
                                                       .results = {.parameters = parameters}},
                            NULL));
  for (int64_t i = 1; i < TIMES; i++)
    assert_memory_equal(parameters, parameters + i * FEW * PARAMETERS,
                        (size_t)FEW * PARAMETERS * sizeof *parameters);
  assert_true(parameters[2] > 100);
  compute_fit_release(fit);
  munmap(all, bytes * TIMES);
  free(parameters);
  free(some);
}

/* Frames of 512 × 512 with one ROI each, which moves from frame to frame. */
static void movies_may_have_more_than_two_to_the_31_pixels(void **state) {
  (void)state;
  enum { FRAME = 512, FEW = 16, TIMES = 513, FRAMES = FEW * TIMES };
  const size_t pixels = (size_t)FEW * FRAME * FRAME, bytes = pixels * sizeof(uint16_t);
  const compute_fit_problem problem = {
      .rows = SIDE, .columns = SIDE, .sigma = {1.3}, .outputs = COMPUTE_FIT_PARAMETERS};
  const compute_simulation simulation = {.problem = problem,
                                         .dtype = COMPUTE_U16,
                                         .seed = 6,
                                         .photons = {1000, 1000},
                                         .background = {10, 10},
                                         .frame_rows = FRAME,
                                         .frame_columns = FRAME,
                                         .spots = 100};
  uint16_t *some = malloc(bytes);
  int32_t *corners = malloc(FRAMES * 3 * sizeof *corners);
  float *parameters = malloc((size_t)FRAMES * PARAMETERS * sizeof *parameters);
  assert_ok(compute_simulate_movie(test_context, &simulation, 0, FEW, some, NULL));
  uint16_t *all = repeat_pages(some, bytes, TIMES);
  assert_true((int64_t)pixels * TIMES > INT64_C(1) << 31);
  for (int32_t i = 0; i < FRAMES; i++) {
    corners[3 * i] = i;
    corners[3 * i + 1] = FRAME - SIDE - i % FEW; /* to the last row */
    corners[3 * i + 2] = i % FEW * 31;
  }
  compute_fit *fit = NULL;
  assert_ok(compute_fit_create(
      test_context,
      &(compute_fit_options){
          .problem = problem, .dtype = COMPUTE_U16, .frame_rows = FRAME, .frame_columns = FRAME},
      &fit));
  assert_ok(compute_fit_run(fit,
                            &(compute_fit_run_options){.pixels = {.array = all},
                                                       .frames = FRAMES,
                                                       .count = FRAMES,
                                                       .corners = corners,
                                                       .results = {.parameters = parameters}},
                            NULL));
  for (int64_t i = 1; i < TIMES; i++)
    assert_memory_equal(parameters, parameters + i * FEW * PARAMETERS,
                        (size_t)FEW * PARAMETERS * sizeof *parameters);
  for (int i = 0; i < FEW * PARAMETERS; i++) assert_true(parameters[i] == parameters[i]);
  compute_fit_release(fit);
  munmap(all, bytes * TIMES);
  free(parameters);
  free(corners);
  free(some);
}

int main(void) {
  /* The order matters: mapped pages also count as the process's memory. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_million_rois_take_less_than_a_gigabyte),
      cmocka_unit_test(stacks_may_have_more_than_two_to_the_31_elements),
      cmocka_unit_test(movies_may_have_more_than_two_to_the_31_pixels),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
