/* SPDX-License-Identifier: MIT */
/* Fair timing; see measure.h.
 *
 * Competitors take turns sample by sample, so that a machine that slows down slows all of them.
 * Between turns there is a pause: other libraries' threads keep spinning for a moment after their
 * work, and would take processor time from the next one. After the pause comes one call that is not
 * timed, which wakes the runner's own threads and brings its data back into the caches. */
#include "measure.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Longer than the spinning that bench/environment.c allows to the peers' threads. */
static const double pause_seconds = 0.7e-3;
static const double sample_seconds = 4e-3;
static const double long_call_seconds = 0.02; /* long enough: no extra call */

static bool once;

void bench_measure_once(void) {
  once = true;
}

static void pause_between(void) {
  nanosleep(&(struct timespec){.tv_nsec = (long)(pause_seconds * 1e9)}, NULL);
}

static double time_once(bench_runner *runner, int64_t times) {
  double start = clock_seconds();
  runner->run(runner->state, times);
  return (clock_seconds() - start) / (double)times;
}

/* Finds how many calls make up a sample. The first call, which may still compile or page in, is
 * ignored unless it is long. */
static void warm_up(bench_runner *runner) {
  pause_between();
  double t = time_once(runner, 1);
  if (t < 1) t = time_once(runner, 1);
  runner->times = 1;
  while (t * (double)runner->times < sample_seconds / 2 && runner->times < 1 << 24) {
    double wanted = t > 0 ? sample_seconds / t : 1e6;
    double most = (double)runner->times * 16;
    runner->times = 1 + (int64_t)(wanted < most ? wanted : most);
    t = time_once(runner, runner->times);
  }
  runner->estimate = t;
  runner->sample_count = 0;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void bench_sort(double *values, size_t count) {
  qsort(values, count, sizeof *values, compare);
}

void bench_measure(bench_runner *runners, int count, double seconds) {
  double round = 0;
  for (int i = 0; once && i < count; i++) {
    runners[i].times = runners[i].sample_count = 1;
    runners[i].sample[0] = runners[i].estimate = time_once(&runners[i], 1);
  }
  if (once) return;
  for (int i = 0; i < count; i++) {
    warm_up(&runners[i]);
    round += runners[i].estimate * (double)runners[i].times + pause_seconds;
  }
  double wanted = seconds * count / round;
  int least = round / count > 0.2 ? 3 : 7;
  int rounds = wanted < least ? least : wanted > BENCH_SAMPLES ? BENCH_SAMPLES : (int)wanted;
  for (int r = 0; r < rounds; r++) {
    for (int i = 0; i < count; i++) {
      bench_runner *runner = &runners[i];
      if (count > 1) pause_between();
      if (count > 1 && runner->estimate < long_call_seconds) runner->run(runner->state, 1);
      runner->sample[runner->sample_count++] = time_once(runner, runner->times);
    }
  }
  for (int i = 0; i < count; i++) bench_sort(runners[i].sample, (size_t)runners[i].sample_count);
}

double bench_quantile(const bench_runner *runner, double fraction) {
  int index = (int)(fraction * (runner->sample_count - 1) + 0.5);
  return runner->sample[index] * 1e3;
}
