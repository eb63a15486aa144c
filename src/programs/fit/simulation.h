/* SPDX-License-Identifier: MIT */
/* Simulations that the command line describes: files of images, and, for validate and bench, trials
 * that are simulated and fitted in memory. */
#ifndef TOOLS_FIT_SIMULATION_H
#define TOOLS_FIT_SIMULATION_H

#include "compute/dtype.h"
#include "programs/fit/command.h"
#include "programs/fit/failure.h"
#include "programs/fit/options.h"
#include "programs/fit/settings.h"
#include "programs/fit/statistics.h"

/* The simulation for `problem`, without dtype. `maps` may be NULL; they are not copied. */
compute_simulation simulation_from_arguments(const fit_arguments *a,
                                             const compute_fit_problem *problem,
                                             const camera_maps *maps);

/* A file of simulated images: .npy, .tif or .raw with a YAML side-car. */
typedef struct image_file image_file;

/* Whether .tif files can be written: this program may have been built without libtiff. */
bool image_file_has_tiff(void);

/* Begins a file of `count` images of u16 or f32, in the format of its extension. It is called
 * <path>.incomplete until it is finished. Without `overwrite` an existing file is refused. TIFFs
 * become BigTIFFs if necessary. */
compute_status image_file_create(const char *path, compute_dtype dtype, int64_t count, int64_t rows,
                                 int64_t columns, bool overwrite, image_file **file, failure *why);

/* Appends images, dense. */
compute_status image_file_append(image_file *file, int64_t images, const void *pixels,
                                 failure *why);

/* Completes the file and always frees `file`. After a failure there is no file. */
compute_status image_file_finish(image_file *file, failure *why);

/* Deletes the unfinished file and frees `file`. NULL is allowed. */
void image_file_abandon(image_file *file);

/* ROIs that are simulated and fitted in memory. */
typedef struct trial {
  compute_simulation simulation; /* its problem is also the fit's */
  int64_t count;
  double least_seconds; /* the fit is repeated for this long; 0: once */

  /* Results. */
  statistics *statistics; /* free with free() */
  double best_seconds;    /* of one run over all ROIs */
  double median_seconds;
  int64_t runs;
} trial;

/* Simulates, fits, compares with the truth. Returns an exit status; EXIT_INTERRUPTED after Ctrl-C.
 */
int trial_run(session *s, int64_t batch, trial *t);

/* The models and sizes of a subcommand: all, or those of --model and --roi. */
typedef struct trial_case {
  compute_fit_model model;
  int32_t rows, columns;
} trial_case;

enum { TRIAL_MOST_CASES = 16 };
int32_t trial_cases(const fit_arguments *a, bool one_size, trial_case cases[TRIAL_MOST_CASES]);

/* The problem of one case. Returns an exit status. */
int trial_problem(const fit_arguments *a, const trial_case *c, compute_fit_problem *problem);

#endif
