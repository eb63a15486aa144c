/* SPDX-License-Identifier: MIT */
/* Shared helpers of the result file tests. */
#ifndef FIT_FILES_RESULTS_CHECK_H
#define FIT_FILES_RESULTS_CHECK_H

#include "programs/fit/results_file.h"
#include "fit_files/sample_results.h"
#include "support/harness/test.h"

#define CSV  TEST_SCRATCH_DIR "/locs.csv"
#define NPY  TEST_SCRATCH_DIR "/locs.npy"
#define HDF5 TEST_SCRATCH_DIR "/locs.hdf5"

/* The fitted problem. A test that changes it restores it. */
extern compute_fit_problem problem;

/* Options for a movie of 128 × 256 pixels of 100 nm, with the format of the path. Checkpoints are
 * made on request only: the clock never triggers one, however slow a thread is. */
results_options usual(const char *path);

/* The file's bytes followed by a zero. The caller frees them. */
char *read_file(const char *path, size_t *bytes);

bool exists(const char *path, const char *suffix);

/* Removes the file, the remains of an incomplete one, and the side-car. */
void remove_all(const char *path);

/* Asserts that the call succeeds. The call may use `&why`. */
#define assert_done(call)                                                                          \
  do {                                                                                             \
    failure why = {.status = COMPUTE_OK};                                                          \
    if ((call) != COMPUTE_OK) fail_msg("%s", why.what);                                            \
  } while (0)

results_file *create(const char *path, const results_options *options, results_progress *progress);

/* The file is refused, and the reason contains `part`. */
void assert_refused(const char *path, const results_options *options, compute_status expected,
                    const char *part);

/* Writes a whole file, and checks that it has its name only at the end. */
void write_whole(const char *path, const results_options *options, int64_t rois);

#endif
