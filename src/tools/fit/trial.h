/* ROIs that are simulated and fitted in memory: what validate and bench are made of. */
#ifndef TOOLS_FIT_TRIAL_H
#define TOOLS_FIT_TRIAL_H

#include "tools/fit/command.h"
#include "tools/fit/devices.h"
#include "tools/fit/statistics.h"

typedef struct trial {
  compute_simulation simulation; /* its problem is also the fit's */
  int64_t count;
  double least_seconds; /* the fit is repeated for so long; 0: once */

  /* Results. */
  statistics *statistics; /* to be freed with free() */
  double best_seconds;    /* of one run over all ROIs */
  double median_seconds;
  int64_t runs;
} trial;

/* Simulates, fits, compares with the truth. Returns an exit status; EXIT_INTERRUPTED after Ctrl-C.
 */
int trial_run(session *s, int64_t batch, trial *t);

/* The models and sizes that a subcommand goes through: all, or those of --model and --roi. */
typedef struct trial_case {
  compute_fit_model model;
  int32_t rows, columns;
} trial_case;

enum { TRIAL_MOST_CASES = 16 };
int32_t trial_cases(const fit_arguments *a, bool one_size, trial_case cases[TRIAL_MOST_CASES]);

/* The problem of one case. Returns an exit status. */
int trial_problem(const fit_arguments *a, const trial_case *c, compute_fit_problem *problem);

#endif
