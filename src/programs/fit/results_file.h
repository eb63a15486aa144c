/* SPDX-License-Identifier: MIT */
/* A file of results: .npy, .csv (ThunderSTORM's columns) or .hdf5 (as Picasso reads it).
 *
 * The file gets its name only when it is complete; until then it is <name>.incomplete. Checkpoints
 * write <name>.incomplete.json, which records how much of the file is valid. So a run interrupted
 * at any moment can be resumed and gives the same bytes.
 *
 * The columns are described in docs/reference/file-formats.md and in columns.c. */
#ifndef TOOLS_FIT_RESULTS_FILE_H
#define TOOLS_FIT_RESULTS_FILE_H

#include "programs/fit/failure.h"
#include "compute/fit.h"
#include "programs/fit/saturation.h"

typedef enum results_format { RESULTS_NPY, RESULTS_CSV, RESULTS_HDF5 } results_format;

/* The format from the extension .npy, .csv, .hdf5 or .h5; false for any other. */
bool results_format_of_path(const char *path, results_format *format);

/* "npy", "csv", "hdf5". */
const char *results_format_name(results_format format);

/* Returns true if this program was built with the format's library (libhdf5 for HDF5). */
bool results_format_available(results_format format);

typedef struct results_options {
  results_format format;

  /* The fitter's problem, copied. The file uses its model, outputs (0: the default), sizes, sigma
   * and astigmatism (for columns of widths) and camera. The outputs must include
   * COMPUTE_FIT_PARAMETERS. */
  const compute_fit_problem *problem;
  bool sigma_differs; /* each ROI has its own sigma: no column of widths for XYNB and XYZNB */

  /* Results include corners, and positions are relative to the frame. Otherwise every ROI counts as
   * a frame, and positions are relative to the ROI. */
  bool corners;

  bool stack;        /* the images are ROIs, with or without corners */
  int64_t origin[3]; /* of the corners: added to their frame, row and column */

  /* Size of the frames, or of the ROIs if there are no frames, for HDF5's side-car. */
  int64_t rows, columns;

  double pixel_size; /* nm; 0 if unknown: lengths are then in pixels */
  bool in_pixels;    /* lengths are in pixels although the pixel size is known */
  uint32_t statuses; /* bit i: write rows with compute_fit_status i; 0: all, but for HDF5 only
                      * CONVERGED, MAX_ITERATIONS and AT_BOUND, because Picasso does not accept
                      * NaN */
  const char *where; /* a condition on the columns (selection.h); NULL: all rows */

  /* Further columns. */
  bool significance;
  const saturation *saturation; /* the number of saturated pixels; NULL: no such column */

  const char *generated_by; /* "compute-fit 0.2.0"; copied, like the next two strings */
  const char *input;        /* the input's path, for the side-car */
  const char *fingerprint;  /* identifies everything that the output depends on: input, size, time,
                             * options. Up to 255 characters. NULL: "" */

  bool resume;               /* continue an incomplete file with this fingerprint, if any */
  bool overwrite;            /* replace a complete file, and an incomplete one when not resuming */
  int64_t expected_rows;     /* total number, 0: unknown. Refused if they certainly do not fit on
                              * the disk */
  double checkpoint_seconds; /* minimum time between checkpoints; 0: 2 */
  int32_t threads;           /* threads that format text, with the caller's: 1 … 8; 0: 1 */
} results_options;

typedef struct results_file results_file;

/* Progress of the file. */
typedef struct results_progress {
  int64_t rois;   /* ROIs with results written (or omitted for their status) */
  int64_t frames; /* complete frames, from next_frame; 0 without corners */
  int64_t rows;   /* rows in the file */
} results_progress;

/* Creates the file, or opens an incomplete file to continue it. Fails before any work if the file
 * could not be finished: no such folder, not writable, locked by another process, already existing,
 * incomplete but from another job, format not built in, or disk full. *progress is the start of the
 * run: frame number `frames` if frames are read, or ROI number `rois` of a stack; zero for a new
 * file. */
compute_status results_file_create(const char *path, const results_options *options,
                                   results_file **file, results_progress *progress, failure *why);

/* Appends results, with the arguments of a compute_fit_write_function. `first`, the corners' frames
 * and next_frame are relative to the start that create returned in *progress. Results must contain
 * all outputs of the problem. They are copied before the return and reach the file later; one of
 * the next calls reports a failed write. The file's bytes depend neither on the division of results
 * into calls nor on the number of threads. Begins a checkpoint when one is due. */
compute_status results_file_append(results_file *file, int64_t first, int64_t count,
                                   const compute_fit_results *results, const int32_t *corners,
                                   int64_t next_frame, failure *why);

/* Makes the appended results durable, also against a crash of the machine. Waits for it. */
compute_status results_file_checkpoint(results_file *file, failure *why);

/* Completes the file, gives it its name, and always frees `file`. After a failure the incomplete
 * file is kept. `frames` is the number of frames in the movie (or ROIs without corners), for HDF5's
 * side-car. */
compute_status results_file_finish(results_file *file, int64_t frames, failure *why);

/* Makes a last checkpoint, leaves the file incomplete and frees `file`. NULL is allowed. A file
 * without any ROI is removed. Returns true if an incomplete file is left to be resumed. *progress
 * (may be NULL) is its extent at the last successful checkpoint. */
bool results_file_abandon(results_file *file, results_progress *progress);

#endif
