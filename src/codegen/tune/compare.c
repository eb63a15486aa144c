/* SPDX-License-Identifier: MIT */
/* Compares candidates by measurement.
 *
 * Machines speed up and slow down over seconds, so candidates are not measured in sequence. Each
 * round times all remaining candidates once, and a candidate's time is the median of its rounds. A
 * hopeless candidate is eliminated, by a stricter limit in later rounds. Of many candidates the
 * worse half is always eliminated. The default stays to the end, as the reference. */
#include "codegen/tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/generate/generate.h"
#include "codegen/tune/entry.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/device/device.h"
#include "core/device/driver_call.h"

#define SAMPLE_SECONDS 0.004 /* seconds of running for one sample */
#define REPETITIONS    200
#define FIRST_FACTOR   2.0  /* this much slower than the best: eliminated at once */
#define LOST_FACTOR    8.0  /* … without a second timing */
#define FEW_CANDIDATES 4    /* this many stay, even if others are better */
#define GAIN           0.97 /* of the default's time: a smaller gain is noise */
#define SAMPLES        3    /* a winner needs this many, unless time is up */

/* ---- Points of the generator's grids -------------------------------------------------------- */

static uint32_t axis_length(const tuning_axis *axis) {
  uint32_t length = 0;
  while (length < TUNING_VALUES && axis->value[length] != 0) length++;
  return length;
}

static uint32_t grid_points(const tuning_grid *grid) {
  uint32_t points = 1;
  for (int i = 0; i < TUNING_AXES && axis_length(&grid->axis[i]) > 0; i++)
    points *= axis_length(&grid->axis[i]);
  return points;
}

static compute_tuning grid_point(const tuning_grid *grid, uint32_t number) {
  compute_tuning tuning = {0};
  for (int i = 0; i < TUNING_AXES && axis_length(&grid->axis[i]) > 0; i++) {
    const uint32_t length = axis_length(&grid->axis[i]);
    memcpy((char *)&tuning + grid->axis[i].offset, &grid->axis[i].value[number % length],
           sizeof(uint32_t));
    number /= length;
  }
  return tuning;
}

static bool grid_serves(const tuning_grid *grid, const compute_target *target) {
  const bool cpu = target->type == COMPUTE_DEVICE_CPU;
  return grid->target == TUNE_ANY || (grid->target == TUNE_CPU) == cpu;
}

/* ---- The generated kernels ----------------------------------------------------------------- */

static bool within(uint64_t value, uint32_t limit) {
  return limit == 0 || value <= limit; /* 0: unknown */
}

static bool fits_groups(const compute_target *target, const compute_tuning *tuning) {
  const uint64_t y = tuning->group_y ? tuning->group_y : 1;
  return within(tuning->group_x, target->group_limit_of[0]) &&
         within(y, target->group_limit_of[1]) && within(tuning->group_x * y, target->group_limit);
}

/* A hash of the kernel for these parameters; 0 if the generator refuses them. */
static uint64_t fingerprint(const compute_target *target,
                            const compute_kernel_descriptor *descriptor,
                            const compute_tuning *tuning) {
  const compute_generated *generated = NULL;
  char reason[256] = "";
  if (generate_kernel(target, descriptor, tuning, &generated, reason, sizeof reason)) return 0;
  uint64_t hash = hash_bytes(HASH_SEED, generated->source, generated->source_bytes);
  for (uint32_t i = 0; i < generated->launch_count; i++) {
    const compute_generated_launch *launch = &generated->launches[i];
    hash = hash_bytes(hash, launch->groups, sizeof launch->groups);
    hash = hash_bytes(hash, launch->group, sizeof launch->group);
    hash = hash_bytes(hash, launch->shape, launch->shape_bytes);
  }
  generate_release(generated);
  return hash ? hash : 1;
}

static bool is_new(uint64_t *seen, uint32_t count, uint64_t hash) {
  for (uint32_t i = 0; i < count; i++)
    if (seen[i] == hash) return false;
  seen[count] = hash;
  return true;
}

/* Keeps the first candidate, and as many others as `limit` allows, at even distances. */
static uint32_t thin(compute_tuning *list, uint32_t count, uint32_t limit) {
  if (count <= limit) return count;
  for (uint32_t i = 1; i < limit; i++)
    list[i] = list[1 + (uint64_t)(i - 1) * (count - 1) / (limit - 1)];
  return limit;
}

/* Shuffles the list deterministically, so that the first few are diverse: a run may not get
 * further. */
static void shuffle(compute_tuning *list, uint32_t count) {
  for (uint32_t i = count; i > 2; i--) {
    const uint32_t other = 1 + (uint32_t)(hash_u64(HASH_SEED, i) % (i - 1));
    const compute_tuning swap = list[i - 1];
    list[i - 1] = list[other];
    list[other] = swap;
  }
}

uint32_t space_list(const compute_target *target, const compute_kernel_descriptor *descriptor,
                    bool quick, compute_tuning *list) {
  uint64_t seen[SPACE_LIMIT];
  uint32_t count = 1;
  list[0] = (compute_tuning){0};
  seen[0] = fingerprint(target, descriptor, &list[0]);
  const tuning_grid *grid = generate_grids(descriptor->kind);
  for (; grid && grid->target != TUNE_END; grid++) {
    if (!grid_serves(grid, target)) continue;
    const uint32_t points = grid_points(grid);
    for (uint32_t i = 0; i < points && count < SPACE_LIMIT; i++) {
      const compute_tuning tuning = grid_point(grid, i);
      if (!fits_groups(target, &tuning)) continue;
      const uint64_t hash = fingerprint(target, descriptor, &tuning);
      if (hash && is_new(seen, count, hash)) list[count++] = tuning;
    }
  }
  count = thin(list, count, quick ? SPACE_QUICK_LIMIT : SPACE_LIMIT);
  shuffle(list, count);
  return count;
}

/* ---- Beginning and end --------------------------------------------------------------------- */

void comparison_begin(comparison *c, const tune_measure *measure, const compute_target *target,
                      bool quick) {
  static const compute_tuning none;
  compute_tuning list[SPACE_LIMIT];
  const compute_device *device = measure->device;
  const compute_kernel_descriptor *descriptor = &measure->problem->descriptor;
  c->measure = measure;
  c->target = target;
  c->rounds = quick ? COMPARISON_QUICK_ROUNDS : COMPARISON_ROUNDS;
  c->refused = 0;
  c->count = space_list(target, descriptor, quick, list);
  for (uint32_t i = 0; i < c->count; i++) c->candidate[i] = (tune_candidate){.tuning = list[i]};
  for (uint32_t i = 1; device->backend->implementation_name && i <= COMPARISON_IMPLEMENTATIONS;
       i++) {
    if (!device->backend->implementation_name(device->handle, descriptor, i)) break;
    c->candidate[c->count] = (tune_candidate){.tuning = none};
    c->candidate[c->count++].tuning.implementation = i;
  }
}

static void release(const comparison *c, tune_candidate *candidate) {
  const compute_device *device = c->measure->device;
  if (candidate->kernel) device->backend->kernel_destroy(device->handle, candidate->kernel);
  candidate->kernel = NULL;
}

void comparison_end(comparison *c) {
  for (uint32_t i = 0; i < c->count; i++) release(c, &c->candidate[i]);
  c->count = 0;
}

void comparison_print(const comparison *c, const tune_candidate *candidate, char *text,
                      size_t bytes) {
  const compute_device *device = c->measure->device;
  const uint32_t implementation = candidate->tuning.implementation;
  const char *name = implementation && device->backend->implementation_name
                         ? device->backend->implementation_name(
                               device->handle, &c->measure->problem->descriptor, implementation)
                         : NULL;
  char parameters[PARAMETERS_BYTES];
  snprintf(text, bytes, "%s", name ? name : parameters_print(&candidate->tuning, parameters));
}

/* ---- Times --------------------------------------------------------------------------------- */

double comparison_seconds(const tune_candidate *candidate) {
  const uint32_t n = candidate->samples;
  if (n == 0) return 0;
  return (candidate->sample[(n - 1) / 2] + candidate->sample[n / 2]) / 2;
}

static void add_sample(tune_candidate *candidate, double seconds) {
  uint32_t at = candidate->samples++;
  for (; at > 0 && candidate->sample[at - 1] > seconds; at--)
    candidate->sample[at] = candidate->sample[at - 1];
  candidate->sample[at] = seconds;
}

/* The best single time of all candidates, including the default. */
static double least_seconds(const comparison *c) {
  double least = INFINITY;
  for (uint32_t i = 0; i < c->count; i++)
    if (c->candidate[i].samples > 0) least = fmin(least, c->candidate[i].sample[0]);
  return least;
}

/* Uses the best time of each candidate, because other load only adds to times. */
static bool hopeless(const tune_candidate *candidate, double least, double factor) {
  return candidate->samples > 0 && candidate->sample[0] > factor * least;
}

static compute_status time_once(const comparison *c, tune_candidate *candidate,
                                uint32_t repetitions, double *seconds) {
  compute_status status = measure_time(c->measure, candidate->kernel, repetitions, seconds);
  if (!status) candidate->spent += *seconds * repetitions;
  return status;
}

bool comparison_late(const comparison *c) {
  return c->clock() >= c->deadline;
}

/* ---- Trying -------------------------------------------------------------------------------- */

/* A candidate that fails is eliminated; a lost device ends the run. */
static compute_status refuse(comparison *c, tune_candidate *candidate, compute_status status,
                             const char *why) {
  char words[PARAMETERS_BYTES];
  comparison_print(c, candidate, words, sizeof words);
  log_write(COMPUTE_LOG_INFO, "tune", "%s: %s is rejected: %s", c->measure->problem->name, words,
            why);
  release(c, candidate);
  candidate->samples = 0;
  c->refused++;
  return status == COMPUTE_ERROR_DEVICE_LOST ? status : COMPUTE_OK;
}

static compute_status refuse_failed(comparison *c, tune_candidate *candidate,
                                    compute_status status) {
  compute_error error;
  compute_error_get(NULL, &error);
  return refuse(c, candidate, status,
                error.status == status ? error.message : compute_status_text(status));
}

/* The first launch may compile and fault in memory, so its time is ignored. The second determines
 * the repetitions per sample. */
static compute_status first_times(const comparison *c, tune_candidate *candidate) {
  double seconds;
  compute_status status = time_once(c, candidate, 1, &seconds);
  if (status) return status;
  if (seconds >= SAMPLE_SECONDS || candidate->spent >= c->candidate_seconds) {
    candidate->repetitions = 1;
    add_sample(candidate, seconds);
    return COMPUTE_OK;
  }
  const double wanted = SAMPLE_SECONDS / fmax(seconds, 1e-7);
  candidate->repetitions = wanted < REPETITIONS ? (uint32_t)wanted + 1 : REPETITIONS;
  const double least = least_seconds(c);
  do { /* a slow candidate is timed again: the machine may have been busy */
    status = time_once(c, candidate, candidate->repetitions, &seconds);
    if (!status) add_sample(candidate, seconds);
  } while (!status && candidate->samples < 2 && hopeless(candidate, least, FIRST_FACTOR) &&
           !hopeless(candidate, least, LOST_FACTOR));
  return status;
}

compute_status comparison_try(comparison *c, uint32_t index) {
  tune_candidate *candidate = &c->candidate[index];
  const compute_device *device = c->measure->device;
  char why[128] = "";
  bool right = false;
  DRIVER_CALL(device->backend);
  compute_status status = device->backend->kernel_prepare_tuned(
      device->handle, &c->measure->problem->descriptor, &candidate->tuning, &candidate->kernel);
  if (status) candidate->kernel = NULL;
  if (!status) status = measure_check(c->measure, candidate->kernel, &right, why, sizeof why);
  if (!status && !right) return refuse(c, candidate, COMPUTE_OK, why);
  if (!status) status = first_times(c, candidate);
  if (status) return refuse_failed(c, candidate, status);
  if (index > 0 && hopeless(candidate, least_seconds(c), FIRST_FACTOR)) release(c, candidate);
  return COMPUTE_OK;
}

/* ---- Rounds -------------------------------------------------------------------------------- */

/* Counts the remaining candidates besides the default, and finds the worst. */
static uint32_t count_candidates(const comparison *c, uint32_t *worst) {
  uint32_t count = 0;
  *worst = 0;
  for (uint32_t i = 1; i < c->count; i++) {
    if (!c->candidate[i].kernel) continue;
    if (count++ == 0 || c->candidate[i].sample[0] > c->candidate[*worst].sample[0]) *worst = i;
  }
  return count;
}

/* Eliminates hopeless candidates, and then the worse half, but keeps FEW_CANDIDATES. */
static uint32_t thin_out(comparison *c, uint32_t round) {
  const double least = least_seconds(c), factor = 1 + 1.0 / round;
  for (uint32_t i = 1; i < c->count; i++)
    if (hopeless(&c->candidate[i], least, factor)) release(c, &c->candidate[i]);
  uint32_t worst, candidates = count_candidates(c, &worst);
  const uint32_t keep = candidates / 2 > FEW_CANDIDATES ? candidates / 2 : FEW_CANDIDATES;
  for (; candidates > keep; candidates = count_candidates(c, &worst))
    release(c, &c->candidate[worst]);
  return candidates;
}

compute_status comparison_round(comparison *c, uint32_t round, bool *more) {
  const bool candidates = thin_out(c, round) > 0;
  bool timed = false;
  *more = false;
  for (uint32_t i = 0; i < c->count && candidates && !comparison_late(c); i++) {
    tune_candidate *candidate = &c->candidate[i];
    double seconds;
    if (!candidate->kernel || candidate->samples >= c->rounds ||
        candidate->spent >= c->candidate_seconds)
      continue;
    compute_status status = time_once(c, candidate, candidate->repetitions, &seconds);
    if (!status) add_sample(candidate, seconds);
    if (status) status = refuse_failed(c, candidate, status);
    if (status) return status;
    timed = true;
  }
  *more = timed;
  return COMPUTE_OK;
}

const tune_candidate *comparison_best(const comparison *c) {
  const tune_candidate *best = NULL;
  for (uint32_t i = 1; i < c->count; i++) {
    const tune_candidate *candidate = &c->candidate[i];
    if (!candidate->kernel || candidate->samples == 0) continue;
    if (best && comparison_seconds(candidate) >= comparison_seconds(best)) continue;
    best = candidate;
  }
  return best;
}

static bool well_known(const comparison *c, const tune_candidate *candidate) {
  return candidate->samples >= SAMPLES ||
         (candidate->samples > 0 && candidate->spent >= c->candidate_seconds);
}

/* Median and minimum must agree: a single disturbed round cannot decide both. */
const tune_candidate *comparison_winner(const comparison *c) {
  const tune_candidate *heuristic = &c->candidate[0], *best = comparison_best(c);
  if (!best || !well_known(c, best) || !well_known(c, heuristic)) return NULL;
  const bool better = comparison_seconds(best) < GAIN * comparison_seconds(heuristic) &&
                      best->sample[0] < GAIN * heuristic->sample[0];
  return better ? best : NULL;
}
