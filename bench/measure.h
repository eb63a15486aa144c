/* SPDX-License-Identifier: MIT */
/* Fair timing: several competitors in one process, in turn. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "programs/common/clock.h"
#include <stddef.h>
#include <stdint.h>

enum { BENCH_SAMPLES = 64, BENCH_RUNNERS = 12 };

/* One competitor. `run` does its work `count` times and returns when all of it is done. */
typedef struct bench_runner {
  void (*run)(void *state, int64_t times);
  void *state;
  int64_t times;                /* calls that make up one sample */
  double estimate;              /* seconds of one call, from warming up */
  double sample[BENCH_SAMPLES]; /* seconds of one call, sorted at the end */
  int sample_count;
} bench_runner;

/* Warms every runner up, then takes samples in the order A B C A B C …, about `seconds` for each
 * runner, at least three. Short calls are repeated to make up a sample of some milliseconds. */
void bench_measure(bench_runner *runners, int count, double seconds);

/* From here on every runner runs once, and this is its only sample. The kernel cache then has its
 * kernels. */
void bench_measure_once(void);

/* The quantile `fraction` of the samples, in milliseconds. */
double bench_quantile(const bench_runner *runner, double fraction);

/* Ascending. */
void bench_sort(double *values, size_t count);

#endif
