/* SPDX-License-Identifier: MIT */
/* The file that results go to: .npy, .csv (ThunderSTORM's columns) or .hdf5 (as Picasso reads it).
 *
 * The file appears under its name only when it is complete. Until then it is <name>.incomplete, and
 * <name>.incomplete.json, written at checkpoints, records how much of it is valid, so that a run
 * interrupted at any moment can be resumed and gives the same bytes.
 *
 * The columns are described in docs/reference/file-formats.md and in columns.c. */
#ifndef TOOLS_FIT_RESULTS_FILE_H
#define TOOLS_FIT_RESULTS_FILE_H

#include "programs/fit/failure.h"
#include "compute/fit.h"
#include "programs/fit/saturation.h"

typedef enum results_format { RESULTS_NPY, RESULTS_CSV, RESULTS_HDF5 } results_format;

/* By the extension: .npy; .csv; .hdf5, .h5. false for any other. */
bool results_format_of_path(const char *path, results_format *format);

/* "npy", "csv", "hdf5". */
const char *results_format_name(results_format format);

/* Whether this program was built with the library for the format (libhdf5 for HDF5). */
bool results_format_available(results_format format);

typedef struct results_options {
  results_format format;

  /* The fitter's problem: model, outputs (0: the default), sizes, sigma and astigmatism (for
   * columns of widths), camera. COMPUTE_FIT_PARAMETERS must be among the outputs. Copied. */
  const compute_fit_problem *problem;
  bool sigma_differs; /* each ROI has its own sigma: no column of widths for XYNB and XYZNB */

  /* Results include corners: positions are in the frame. Otherwise every ROI counts as a frame, and
   * positions are in the ROI. */
  bool corners;

  bool stack;        /* the images are ROIs, whether there are corners or not */
  int64_t origin[3]; /* of the corners: added to their frame, row and column */

  /* Of the frames, or of the ROIs if there are no frames: for HDF5's side-car. */
  int64_t rows, columns;

  double pixel_size; /* nm; 0 if unknown: lengths are then in pixels */
  bool in_pixels;    /* lengths are in pixels although the pixel size is known */
  uint32_t statuses; /* bit i: rows of compute_fit_status i are written; 0: all, but for HDF5
                      * only CONVERGED, MAX_ITERATIONS and AT_BOUND, since Picasso does not
                      * accept NaN */
  const char *where; /* a condition on the columns (selection.h); NULL: all rows */

  /* Further columns. */
  bool significance;
  const saturation *saturation; /* the number of saturated pixels; NULL: no such column */

  const char *generated_by; /* "compute-fit 0.2.0"; copied, as the next two */
  const char *input;        /* the input's path, for the side-car */
  const char *fingerprint;  /* everything the output depends on: input, size, time, options. Up to
                             * 255 characters. NULL: "" */

  bool resume;               /* continue an incomplete file if there is one, of this fingerprint */
  bool overwrite;            /* replace a complete file, and an incomplete one when not resuming */
  int64_t expected_rows;     /* total, if known, otherwise 0: refused if they certainly do not fit
                              * on the disk */
  double checkpoint_seconds; /* minimum time between checkpoints; 0: 2 */
  int32_t threads;           /* that format text, including the caller's: 1 … 8, 0 is 1 */
} results_options;

typedef struct results_file results_file;

/* Progress of the file. */
typedef struct results_progress {
  int64_t rois;   /* ROIs whose results are written (or omitted for their status) */
  int64_t frames; /* that are complete, from next_frame; 0 without corners */
  int64_t rows;   /* rows of the file */
} results_progress;

/* Creates the file, or opens the incomplete one to continue it; fails before any work if it could
 * not be finished: no such folder, not writable, locked by another process, existing, incomplete
 * but from another job, format not built in, disk full. `*progress` says where the run has to
 * start: at frame number `frames` where frames are read, at ROI number `rois` of a stack; all zero
 * for a new file. */
compute_status results_file_create(const char *path, const results_options *options,
                                   results_file **file, results_progress *progress, failure *why);

/* Takes results as a compute_fit_write_function does. `first`, the corners' frames and next_frame
 * are relative to the start that create returned in *progress. Results must hold all outputs that
 * the problem names. They have been copied on return and reach the file a little later: a failure
 * to write them is reported by one of the next calls. The file's bytes depend neither on how
 * results are divided into calls nor on the number of threads. Begins a checkpoint when one is
 * due. */
compute_status results_file_append(results_file *file, int64_t first, int64_t count,
                                   const compute_fit_results *results, const int32_t *corners,
                                   int64_t next_frame, failure *why);

/* Makes what was appended durable, even if the machine itself goes down; waits for that. */
compute_status results_file_checkpoint(results_file *file, failure *why);

/* Completes the file, gives it its name, and always frees `file`. After a failure the incomplete
 * file is kept. `frames`: how many the movie has (for HDF5's side-car; without corners the
 * ROIs). */
compute_status results_file_finish(results_file *file, int64_t frames, failure *why);

/* Leaves it incomplete, after a last checkpoint, and frees it. NULL is allowed. A file without any
 * ROI is removed. Returns whether an incomplete file is left to be resumed, and in `*progress`,
 * which may be NULL, its extent, as of the last successful checkpoint. */
bool results_file_abandon(results_file *file, results_progress *progress);

#endif
