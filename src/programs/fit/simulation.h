/* SPDX-License-Identifier: MIT */
/* Simulations from the command line: files of images, and trials for validate and bench, which are
 * simulated and fitted in memory. */
#ifndef TOOLS_FIT_SIMULATION_H
#define TOOLS_FIT_SIMULATION_H

#include "compute/dtype.h"
#include "programs/fit/command.h"
#include "programs/fit/failure.h"
#include "programs/fit/options.h"
#include "programs/fit/settings.h"
#include "programs/fit/statistics.h"

/* The simulation for `problem`, without a dtype. `maps` may be NULL; they are not copied. */
compute_simulation simulation_from_arguments(const fit_arguments *a,
                                             const compute_fit_problem *problem,
                                             const camera_maps *maps);

/* A file of simulated images: .npy, .tif or .raw with a YAML side-car. */
typedef struct image_file image_file;

/* Returns true if this program was built with libtiff and can write .tif files. */
bool image_file_has_tiff(void);

/* Creates a file of `count` u16 or f32 images, in the format of its extension. Its name is
 * <path>.incomplete until it is finished. Without `overwrite` an existing file is refused. A large
 * TIFF becomes a BigTIFF. */
compute_status image_file_create(const char *path, compute_dtype dtype, int64_t count, int64_t rows,
                                 int64_t columns, bool overwrite, image_file **file, failure *why);

/* Appends contiguous images. */
compute_status image_file_append(image_file *file, int64_t images, const void *pixels,
                                 failure *why);

/* Completes the file and always frees `file`. After a failure there is no file. */
compute_status image_file_finish(image_file *file, failure *why);

/* Deletes the unfinished file and frees `file`. NULL is allowed. */
void image_file_abandon(image_file *file);

/* ROIs that are simulated and fitted in memory. */
typedef struct trial {
  compute_simulation simulation; /* its problem is also the fit's problem */
  int64_t count;
  double least_seconds; /* the fit is repeated for at least this time; 0: one run */

  /* Results. */
  statistics *statistics; /* free with free() */
  double best_seconds;    /* time of one run over all ROIs */
  double median_seconds;
  int64_t runs;
} trial;

/* Simulates, fits, and compares with the truth. Returns an exit status, EXIT_INTERRUPTED after
 * Ctrl-C. */
int trial_run(session *s, int64_t batch, trial *t);

/* The models and sizes that a subcommand runs: all, or only --model and --roi. */
typedef struct trial_case {
  compute_fit_model model;
  int32_t rows, columns;
} trial_case;

enum { TRIAL_MOST_CASES = 16 };
int32_t trial_cases(const fit_arguments *a, bool one_size, trial_case cases[TRIAL_MOST_CASES]);

/* The problem of one case. Returns an exit status. */
int trial_problem(const fit_arguments *a, const trial_case *c, compute_fit_problem *problem);

#endif
