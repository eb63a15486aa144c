/* SPDX-License-Identifier: MIT */
/* A run of the tuner over the problems, with limits, progress and stored results.
 *
 * A winner is stored as soon as its problem is done, so that an interrupted run keeps its results.
 * If the default is best, the run normally stores nothing. But then an entry of a neighbouring size
 * may apply: a final pass handles these cases. */
#include "codegen/tune/tuner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/tune/tuning.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/device.h"
#include "core/device/kernel_cache.h"

static const char operation[] = "compute_tune";

enum { BEST_BYTES = PARAMETERS_BYTES };

#define FIRST_SHARE 0.6 /* of a problem's time, to try every candidate once */

/* A class whose default is best. */
typedef struct unbeaten_class {
  char kernel_class[KERNEL_CLASS_BYTES];
  uint64_t nanoseconds;
} unbeaten_class;

typedef struct tuner {
  compute_device *device;
  const compute_tune_options *options;
  compute_queue *queue;
  compute_target target;
  char identity[ENTRY_IDENTITY_BYTES];
  double start, deadline; /* of the run; deadline INFINITY: none */
  compute_tune_progress progress;
  char best[BEST_BYTES]; /* text for progress.best */
  tune_problem problem;
  tune_measure measure;
  comparison comparison;
  unbeaten_class *unbeaten;
  size_t unbeaten_count, unbeaten_capacity;
} tuner;

/* ---- Progress ------------------------------------------------------------------------------ */

/* Estimates from the finished fraction of the problems, and of the candidates in this problem. */
static double remaining(const tuner *t) {
  const compute_tune_progress *p = &t->progress;
  const double here = p->candidate_count ? (double)p->candidate_index / p->candidate_count : 0;
  const double done = (p->problem_index + (p->finished ? 1 : 0.9 * here)) / p->problem_count;
  double seconds = done > 0.01 ? p->elapsed_seconds * (1 - done) / done : -1;
  if (t->options->total_seconds > 0) {
    const double left = fmax(0, t->options->total_seconds - p->elapsed_seconds);
    if (seconds < 0 || seconds > left) seconds = left;
  }
  return seconds;
}

/* Returns false if the caller has cancelled. */
static bool report(tuner *t, uint32_t candidate_index, bool finished) {
  compute_tune_progress *p = &t->progress;
  const tune_candidate *best = comparison_winner(&t->comparison);
  if (!finished && !best) best = comparison_best(&t->comparison);
  p->candidate_index = candidate_index;
  p->candidate_count = t->comparison.count;
  p->refused = t->comparison.refused;
  p->heuristic_seconds = t->comparison.count ? comparison_seconds(&t->comparison.candidate[0]) : 0;
  p->best_seconds = p->heuristic_seconds;
  t->best[0] = '\0';
  if (best && comparison_seconds(best) < p->heuristic_seconds) {
    p->best_seconds = comparison_seconds(best);
    comparison_print(&t->comparison, best, t->best, sizeof t->best);
  }
  p->finished = finished;
  p->elapsed_seconds = t->comparison.clock() - t->start;
  p->remaining_seconds = remaining(t);
  return !t->options->progress || t->options->progress(t->options->user, p);
}

static compute_status cancelled(const tuner *t) {
  return error_set(t->device->context, COMPUTE_ERROR_CANCELLED, operation,
                   "the caller cancelled the run at '%s'", t->progress.problem);
}

/* ---- Storing ------------------------------------------------------------------------------- */

static compute_status store(const tuner *t, const char *kernel_class, const compute_tuning *tuning,
                            uint64_t nanoseconds) {
  const tuning_entry entry = {t->identity, kernel_class, *tuning, nanoseconds};
  char line[ENTRY_LINE_BYTES], reason[TUNING_REASON_BYTES] = "";
  const size_t bytes = entry_print(&entry, line);
  compute_status status = tuning_store_append(tuning_of(t->device->context), line, bytes, reason);
  if (!status) return COMPUTE_OK;
  return error_set_native(t->device->context, status, 0, operation,
                          "name another file in COMPUTE_TUNING_FILE", "%s", reason);
}

static uint64_t nanoseconds(double seconds) {
  return seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e9 + 0.5) : 0;
}

static compute_status remember_unbeaten(tuner *t, const char *kernel_class, double seconds) {
  void *unbeaten = t->unbeaten;
  int grown =
      base_grow(&unbeaten, &t->unbeaten_capacity, t->unbeaten_count + 1, sizeof *t->unbeaten);
  t->unbeaten = unbeaten;
  if (grown)
    return error_set(t->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough host memory for results");
  unbeaten_class *added = &t->unbeaten[t->unbeaten_count++];
  snprintf(added->kernel_class, sizeof added->kernel_class, "%s", kernel_class);
  added->nanoseconds = nanoseconds(seconds);
  return COMPUTE_OK;
}

/* Adds entries without parameters for classes that would otherwise match an entry with
 * parameters. */
static compute_status store_unbeaten(const tuner *t) {
  static const compute_tuning none;
  for (size_t i = 0; i < t->unbeaten_count; i++) {
    const unbeaten_class *unbeaten = &t->unbeaten[i];
    compute_tuning found;
    if (!tuning_store_find(tuning_of(t->device->context), &t->target, unbeaten->kernel_class,
                           &found) ||
        parameters_none(&found))
      continue;
    compute_status status = store(t, unbeaten->kernel_class, &none, unbeaten->nanoseconds);
    if (status) return status;
  }
  return COMPUTE_OK;
}

static void log_result(const tuner *t, const tune_candidate *winner) {
  const tune_candidate *best = comparison_best(&t->comparison);
  char words[BEST_BYTES] = "nothing";
  if (best) comparison_print(&t->comparison, best, words, sizeof words);
  log_write(COMPUTE_LOG_INFO, "tune", "%s: default %.4g s (%u times), %s %.4g s (%u times): %s",
            t->problem.name, comparison_seconds(&t->comparison.candidate[0]),
            (unsigned)t->comparison.candidate[0].samples, words,
            best ? comparison_seconds(best) : 0, best ? (unsigned)best->samples : 0,
            winner ? "better" : "no better");
}

/* Stores the result after the last round. */
static compute_status decide(tuner *t, bool complete) {
  const tune_candidate *winner = comparison_winner(&t->comparison);
  const tune_candidate *heuristic = &t->comparison.candidate[0];
  char kernel_class[KERNEL_CLASS_BYTES];
  kernel_class_print(&t->problem.descriptor, kernel_class);
  log_result(t, winner);
  if (t->options->dry || heuristic->samples == 0) return COMPUTE_OK;
  if (winner)
    return store(t, kernel_class, &winner->tuning, nanoseconds(comparison_seconds(winner)));
  /* An interrupted measurement does not show that the default is best. */
  if (!complete) return COMPUTE_OK;
  return remember_unbeaten(t, kernel_class, comparison_seconds(heuristic));
}

/* ---- One problem --------------------------------------------------------------------------- */

/* With a limit, each problem gets an equal share of the remaining time. */
static void set_deadline(tuner *t) {
  const double now = t->comparison.clock();
  const uint32_t left = t->progress.problem_count - t->progress.problem_index;
  t->comparison.deadline = now + fmax(0, t->deadline - now) / left;
}

/* Prepares and times as many candidates as the problem's time allows. The rest of the time is
 * reserved to compare the best of them. */
static compute_status try_candidates(tuner *t, bool *complete) {
  comparison *c = &t->comparison;
  const double begin = c->clock(), end = begin + FIRST_SHARE * (c->deadline - begin);
  *complete = false;
  for (uint32_t i = 0; i < c->count; i++) {
    if (i > 0 && c->clock() >= end) return COMPUTE_OK;
    if (!report(t, i, false)) return cancelled(t);
    compute_status status = comparison_try(c, i);
    if (status) return status;
    if (c->candidate[0].samples == 0) return COMPUTE_OK; /* no reference */
  }
  *complete = true;
  return COMPUTE_OK;
}

static compute_status compare(tuner *t) {
  comparison *c = &t->comparison;
  bool complete, more = true;
  set_deadline(t);
  compute_status status = try_candidates(t, &complete);
  if (status) return status;
  for (uint32_t round = 1; round < c->rounds && more && !comparison_late(c); round++) {
    if (!report(t, c->count, false)) return cancelled(t);
    status = comparison_round(c, round, &more);
    if (status) return status;
  }
  return decide(t, complete && !comparison_late(c));
}

/* Writes into `reason` why the problem is skipped, or "" if it is not. */
static void check_problem(const tuner *t, char *reason, size_t bytes) {
  reason[0] = '\0';
  if (!kernel_is_supported(t->device, &t->problem.descriptor, reason, bytes)) {
    if (!reason[0]) snprintf(reason, bytes, "the device does not support it");
  } else if (!measure_fits(t->device, &t->problem)) {
    snprintf(reason, bytes, "it needs too much of the device's memory");
  } else {
    reason[0] = '\0';
  }
}

/* Skips a problem whose preparation fails, unless all others would fail in the same way. */
static compute_status skip(const tuner *t, compute_status status) {
  if (status == COMPUTE_ERROR_DEVICE_LOST || status == COMPUTE_ERROR_OUT_OF_MEMORY) return status;
  log_write(COMPUTE_LOG_INFO, "tune", "%s is skipped: %s", t->problem.name,
            compute_error_message(t->device->context));
  return COMPUTE_OK;
}

static compute_status run_problem(tuner *t) {
  char reason[256];
  compute_status status = COMPUTE_OK;
  t->comparison.count = t->comparison.refused = 0;
  check_problem(t, reason, sizeof reason);
  if (reason[0]) {
    log_write(COMPUTE_LOG_INFO, "tune", "%s is skipped: %s", t->problem.name, reason);
  } else {
    status = measure_open(&t->measure, t->device, t->queue, &t->problem, t->comparison.clock);
    if (status) {
      status = skip(t, status);
    } else {
      comparison_begin(&t->comparison, &t->measure, &t->target, t->options->quick);
      status = compare(t);
    }
  }
  const bool go_on = status || report(t, t->comparison.count, true);
  comparison_end(&t->comparison);
  measure_close(&t->measure);
  return go_on ? status : cancelled(t);
}

/* ---- The run ------------------------------------------------------------------------------- */

static compute_status run_problems(tuner *t, const tuner_work *work) {
  compute_status status = COMPUTE_OK;
  t->progress.problem_count = (uint32_t)work->count;
  for (size_t i = 0; i < work->count && !status && t->comparison.clock() < t->deadline; i++) {
    if (!work->problem(work->user, i, &t->problem)) break;
    t->progress.problem = t->problem.name;
    t->progress.problem_index = (uint32_t)i;
    status = run_problem(t);
  }
  if (t->options->dry || (status && status != COMPUTE_ERROR_CANCELLED)) return status;
  compute_status stored = store_unbeaten(t);
  return status ? cancelled(t) : stored; /* set it again: another error may have replaced it */
}

static compute_status prepare(tuner *t, compute_device *device, const compute_tune_options *options,
                              measure_clock clock) {
  t->device = device;
  t->options = options;
  t->start = clock();
  t->comparison.clock = clock;
  t->progress.best = t->best;
  t->comparison.candidate_seconds = options->candidate_seconds > 0 ? options->candidate_seconds : 1;
  t->deadline = options->total_seconds > 0 ? t->start + options->total_seconds : INFINITY;
  t->target.struct_size = sizeof t->target;
  compute_status status = device->backend->device_target(device->handle, &t->target);
  if (status) return status;
  entry_identity(&t->target, t->identity);
  return compute_queue_create(device, &t->queue);
}

compute_status tuner_run(compute_device *device, const compute_tune_options *options,
                         const tuner_work *work) {
  compute_error before;
  compute_error_get(device->context, &before);
  tuner *t = base_allocate(1, sizeof *t);
  if (!t)
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough host memory for the tuner");
  compute_status status = prepare(t, device, options, work->clock);
  if (!status) status = run_problems(t, work);
  compute_queue_release(t->queue);
  base_release(t->unbeaten);
  base_release(t);
  if (!status) error_restore(device->context, &before); /* refused candidates are no failure */
  return status;
}
