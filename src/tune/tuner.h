/* The search itself, for a list of problems; compute_tune hands it the suite. */
#ifndef TUNE_TUNER_H
#define TUNE_TUNER_H

#include "compute/tune.h"
#include "tune/measure.h"

/* Builds problem `index` in place; false past the end. */
typedef bool (*tuner_problem)(void *user, size_t index, tune_problem *problem);

typedef struct tuner_work {
  tuner_problem problem;
  void *user;
  size_t count;
  measure_clock clock; /* measure_real_clock, except in tests */
} tuner_work;

/* As compute_tune, whose checks the options have passed. */
compute_status tuner_run(compute_device *device, const compute_tune_options *options,
                         const tuner_work *work);

#endif
