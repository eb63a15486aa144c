/* Inside of a file of results. */
#ifndef TOOLS_FIT_RESULTS_PRIVATE_H
#define TOOLS_FIT_RESULTS_PRIVATE_H

#include "tools/fit/columns.h"
#include "tools/fit/results_queue.h"
#include "tools/fit/results_rows.h"
#include "tools/fit/results_state.h"

struct results_file {
  results_options options; /* its pointers lead to what follows */
  compute_fit_problem problem;
  char *path, *incomplete, *state_path, *generated_by, *input;
  uint32_t statuses;

  column_set columns;
  int descriptor;         /* of the incomplete file */
  results_state state;    /* as of the last checkpoint */
  results_progress now;   /* with what was appended since */
  results_progress begin; /* what was there when this run began */
  uint64_t written;       /* bytes in the file; the queue's writer counts them */
  double checked;         /* time of the last checkpoint */

  results_queue queue;
  results_rows rows;
};

/* The start of the file: CSV's heading, or the header of a .npy of `rows` records, whose length
 * does not depend on that number. HDF5's results are kept as .npy until they are complete. Returns
 * its length; `text` has RESULTS_HEAD_BYTES. */
#define RESULTS_HEAD_BYTES 4096
size_t results_head(const results_file *file, int64_t rows, char *text);

/* Writes the complete HDF5 file from the incomplete one, and its side-car. */
compute_status results_hdf5_check(const results_file *file, failure *why);
compute_status results_hdf5_finish(results_file *file, int64_t frames, failure *why);
bool results_hdf5_built_in(void);

/* Makes what `state` says count, also if the machine itself goes down. */
compute_status results_keep(const results_file *file, const results_state *state, failure *why);

/* All `bytes` at `offset`. */
compute_status results_write_at(const results_file *file, const void *data, size_t bytes,
                                uint64_t offset, failure *why);

#endif
