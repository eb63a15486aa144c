/* SPDX-License-Identifier: MIT */
/* What the tests of result files share. */
#ifndef FIT_FILES_RESULTS_CHECK_H
#define FIT_FILES_RESULTS_CHECK_H

#include "programs/fit/results_file.h"
#include "fit_files/sample_results.h"
#include "support/harness/test.h"

#define CSV  TEST_SCRATCH_DIR "/locs.csv"
#define NPY  TEST_SCRATCH_DIR "/locs.npy"
#define HDF5 TEST_SCRATCH_DIR "/locs.hdf5"

/* What the results are of; tests change it and put it back. */
extern compute_fit_problem problem;

/* Options for a movie of 128 × 256 pixels of 100 nm, by the path's format. Checkpoints are made
 * only when asked for: none that is due by the clock, however long a thread is held up. */
results_options usual(const char *path);

/* The file's bytes and a zero, to be freed. */
char *read_file(const char *path, size_t *bytes);

bool exists(const char *path, const char *suffix);

/* Removes the file, what is left of an incomplete one, and the side-car. */
void remove_all(const char *path);

/* The call succeeds; it may use `&why`. */
#define assert_done(call)                                                                          \
  do {                                                                                             \
    failure why = {.status = COMPUTE_OK};                                                          \
    if ((call) != COMPUTE_OK) fail_msg("%s", why.what);                                            \
  } while (0)

results_file *create(const char *path, const results_options *options, results_progress *progress);

/* It is not made, for a reason in which `part` stands. */
void assert_refused(const char *path, const results_options *options, compute_status expected,
                    const char *part);

/* Writes a file in one go, and checks when it has its name. */
void write_whole(const char *path, const results_options *options, int64_t rois);

#endif
