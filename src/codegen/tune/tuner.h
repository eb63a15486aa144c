/* SPDX-License-Identifier: MIT */
/* The search for the best parameters: timing of a problem on a device (measure.c), comparison of
 * its candidates (compare.c), and a run over a list of problems (tuner.c). */
#ifndef TUNE_TUNER_H
#define TUNE_TUNER_H

#include "codegen/tune/problems/problem.h"
#include "compute/tune.h"
#include "core/device/buffer.h"

/* ---- One problem on one device: its buffers, the expected results, and the clock ----------- */

typedef double (*measure_clock)(void); /* monotonic, in seconds */

double measure_real_clock(void);

typedef struct tune_measure {
  measure_clock clock;
  compute_device *device;
  compute_queue *queue;
  const tune_problem *problem;
  memory_buffer *inputs[PROBLEM_INPUTS];
  memory_buffer *output;
  memory_buffer *expected; /* on the CPU */
  void *result;            /* host memory for the device's results */
  uint64_t result_bytes;
} tune_measure;

/* Creates the data, computes the expected results on the CPU, and uploads the inputs. A failure
 * sets the error and leaves nothing allocated. */
compute_status measure_open(tune_measure *measure, compute_device *device, compute_queue *queue,
                            const tune_problem *problem, measure_clock clock);
void measure_close(tune_measure *measure);

/* True if the problem's buffers fit the device with room to spare. */
bool measure_fits(const compute_device *device, const tune_problem *problem);

/* Runs a kernel once, with the result preset to NaN, and compares. `right` is true if the results
 * are correct; if not, `reason` gives the cause. Fails only if the device does. */
compute_status measure_check(const tune_measure *measure, void *kernel, bool *right, char *reason,
                             size_t reason_bytes);

/* Seconds of one kernel, measured over `repetitions` submitted in a row. */
compute_status measure_time(const tune_measure *measure, void *kernel, uint32_t repetitions,
                            double *seconds);

/* ---- Candidates ---------------------------------------------------------------------------- */

enum { SPACE_LIMIT = 160, SPACE_QUICK_LIMIT = 16 };

/* Fills `list`, which has room for SPACE_LIMIT, with sets of parameters that the generator accepts
 * for this target and that make different kernels. Returns their number. The first set is all 0,
 * the generator's own choice. It stays even if the generator refuses it, because the device's
 * message is better. If the space is too large, or the run is quick, it is subsampled evenly. */
uint32_t space_list(const compute_target *target, const compute_kernel_descriptor *descriptor,
                    bool quick, compute_tuning *list);

/* ---- Autotune: candidates prepared, checked, and timed in rounds ----------------------------- */

enum { COMPARISON_ROUNDS = 7, COMPARISON_QUICK_ROUNDS = 5, COMPARISON_IMPLEMENTATIONS = 4 };

typedef struct tune_candidate {
  compute_tuning tuning;
  void *kernel; /* NULL: not prepared yet, or eliminated */
  uint32_t repetitions, samples;
  double sample[COMPARISON_ROUNDS]; /* seconds of one kernel, sorted */
  double spent;                     /* seconds of running */
} tune_candidate;

typedef struct comparison {
  const tune_measure *measure;
  const compute_target *target;
  double candidate_seconds; /* limit for each candidate */
  measure_clock clock;
  double deadline; /* by `clock`; INFINITY: none */
  uint32_t rounds;
  uint32_t refused;
  uint32_t count; /* candidate[0] is the default */
  tune_candidate candidate[SPACE_LIMIT + COMPARISON_IMPLEMENTATIONS];
} comparison;

/* Fills in the candidates. The caller sets the clock and the limits. */
void comparison_begin(comparison *c, const tune_measure *measure, const compute_target *target,
                      bool quick);
void comparison_end(comparison *c);

/* Prepares, checks and times candidate `index` for the first time. A candidate that fails is
 * eliminated; only a lost device is a failure. */
compute_status comparison_try(comparison *c, uint32_t index);

/* Eliminates hopeless candidates and times the others again. *more is false if another round would
 * not help. `round` counts from 1. */
compute_status comparison_round(comparison *c, uint32_t round, bool *more);

bool comparison_late(const comparison *c); /* past the deadline */

/* Returns seconds; 0 for a candidate without a time. */
double comparison_seconds(const tune_candidate *candidate);

/* The fastest candidate that is not eliminated, without the default. NULL if there is none. */
const tune_candidate *comparison_best(const comparison *c);

/* The best candidate, if it is better than the default by more than noise, and both have enough
 * samples. */
const tune_candidate *comparison_winner(const comparison *c);

/* Writes the parameters into `text`. */
void comparison_print(const comparison *c, const tune_candidate *candidate, char *text,
                      size_t bytes);

/* ---- The run ------------------------------------------------------------------------------- */

/* Builds problem `index` in place. Returns false past the end. */
typedef bool (*tuner_problem)(void *user, size_t index, tune_problem *problem);

typedef struct tuner_work {
  tuner_problem problem;
  void *user;
  size_t count;
  measure_clock clock; /* measure_real_clock, except in tests */
} tuner_work;

/* compute_tune with checked options. */
compute_status tuner_run(compute_device *device, const compute_tune_options *options,
                         const tuner_work *work);

#endif
