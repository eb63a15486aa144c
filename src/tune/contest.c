/* How candidates compete.
 *
 * Machines speed up and slow down over seconds, so candidates are not measured one after the other:
 * all that are still in the contest are timed once in each round, and a candidate's time is the
 * median of its rounds. A candidate leaves when it is hopeless, more strictly in later rounds, and
 * of many the worse half leaves in any case. The judgement stays to the end, for it is what the
 * others are compared with. */
#include "tune/contest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "device/device.h"
#include "tune/parameters.h"

#define SAMPLE_SECONDS 0.004 /* of running, for one sample */
#define REPETITIONS    200
#define FIRST_FACTOR   2.0  /* slower than the best by so much: out at once */
#define LOST_FACTOR    8.0  /* … without a second look */
#define FEW_RIVALS     4    /* that need not leave just because others are better */
#define GAIN           0.97 /* of the judgement's time: less than that is noise */
#define SAMPLES        3    /* that a winner needs, unless its time is up */

/* ---- Beginning and end --------------------------------------------------------------------- */

void contest_begin(contest *c, const tune_measure *measure, const compute_target *target,
                   bool quick) {
  static const compute_tuning none;
  compute_tuning list[SPACE_LIMIT];
  const compute_device *device = measure->device;
  const compute_kernel_descriptor *descriptor = &measure->problem->descriptor;
  c->measure = measure;
  c->target = target;
  c->rounds = quick ? CONTEST_QUICK_ROUNDS : CONTEST_ROUNDS;
  c->refused = 0;
  c->count = space_list(target, descriptor, quick, list);
  for (uint32_t i = 0; i < c->count; i++) c->candidate[i] = (contest_candidate){.tuning = list[i]};
  for (uint32_t i = 1; device->backend->implementation_name && i <= CONTEST_IMPLEMENTATIONS; i++) {
    if (!device->backend->implementation_name(device->handle, descriptor, i)) break;
    c->candidate[c->count] = (contest_candidate){.tuning = none};
    c->candidate[c->count++].tuning.implementation = i;
  }
}

static void leave(const contest *c, contest_candidate *candidate) {
  const compute_device *device = c->measure->device;
  if (candidate->kernel) device->backend->kernel_destroy(device->handle, candidate->kernel);
  candidate->kernel = NULL;
}

void contest_end(contest *c) {
  for (uint32_t i = 0; i < c->count; i++) leave(c, &c->candidate[i]);
  c->count = 0;
}

void contest_print(const contest *c, const contest_candidate *candidate, char *text, size_t bytes) {
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

double contest_seconds(const contest_candidate *candidate) {
  const uint32_t n = candidate->samples;
  if (n == 0) return 0;
  return (candidate->sample[(n - 1) / 2] + candidate->sample[n / 2]) / 2;
}

static void add_sample(contest_candidate *candidate, double seconds) {
  uint32_t at = candidate->samples++;
  for (; at > 0 && candidate->sample[at - 1] > seconds; at--)
    candidate->sample[at] = candidate->sample[at - 1];
  candidate->sample[at] = seconds;
}

/* The best single time of all candidates, the judgement too. */
static double least_seconds(const contest *c) {
  double least = INFINITY;
  for (uint32_t i = 0; i < c->count; i++)
    if (c->candidate[i].samples > 0) least = fmin(least, c->candidate[i].sample[0]);
  return least;
}

/* By the best time of each: what else the machine did meanwhile only adds to times. */
static bool hopeless(const contest_candidate *candidate, double least, double factor) {
  return candidate->samples > 0 && candidate->sample[0] > factor * least;
}

static compute_status time_once(const contest *c, contest_candidate *candidate,
                                uint32_t repetitions, double *seconds) {
  compute_status status = measure_time(c->measure, candidate->kernel, repetitions, seconds);
  if (!status) candidate->spent += *seconds * repetitions;
  return status;
}

bool contest_late(const contest *c) {
  return c->clock() >= c->deadline;
}

/* ---- Trying -------------------------------------------------------------------------------- */

/* A failure that is the candidate's own puts it out; a lost device ends the run. */
static compute_status refuse(contest *c, contest_candidate *candidate, compute_status status,
                             const char *why) {
  char words[PARAMETERS_BYTES];
  contest_print(c, candidate, words, sizeof words);
  log_write(COMPUTE_LOG_INFO, "tune", "%s: %s is refused: %s", c->measure->problem->name, words,
            why);
  leave(c, candidate);
  candidate->samples = 0;
  c->refused++;
  return status == COMPUTE_ERROR_DEVICE_LOST ? status : COMPUTE_OK;
}

static compute_status refuse_failed(contest *c, contest_candidate *candidate,
                                    compute_status status) {
  compute_error error;
  compute_error_get(NULL, &error);
  return refuse(c, candidate, status,
                error.status == status ? error.message : compute_status_text(status));
}

/* The first launch may compile and fault in memory: its time says nothing. The second tells how
 * often a sample has to repeat the kernel. */
static compute_status first_times(const contest *c, contest_candidate *candidate) {
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
  do { /* a second time for what does not look good: the machine may have been busy */
    status = time_once(c, candidate, candidate->repetitions, &seconds);
    if (!status) add_sample(candidate, seconds);
  } while (!status && candidate->samples < 2 && hopeless(candidate, least, FIRST_FACTOR) &&
           !hopeless(candidate, least, LOST_FACTOR));
  return status;
}

compute_status contest_try(contest *c, uint32_t index) {
  contest_candidate *candidate = &c->candidate[index];
  const compute_device *device = c->measure->device;
  char why[128] = "";
  bool right = false;
  compute_status status = device->backend->kernel_prepare_tuned(
      device->handle, &c->measure->problem->descriptor, &candidate->tuning, &candidate->kernel);
  if (status) candidate->kernel = NULL;
  if (!status) status = measure_check(c->measure, candidate->kernel, &right, why, sizeof why);
  if (!status && !right) return refuse(c, candidate, COMPUTE_OK, why);
  if (!status) status = first_times(c, candidate);
  if (status) return refuse_failed(c, candidate, status);
  if (index > 0 && hopeless(candidate, least_seconds(c), FIRST_FACTOR)) leave(c, candidate);
  return COMPUTE_OK;
}

/* ---- Rounds -------------------------------------------------------------------------------- */

/* Rivals of the judgement that are still in, and the worst of them. */
static uint32_t count_rivals(const contest *c, uint32_t *worst) {
  uint32_t count = 0;
  *worst = 0;
  for (uint32_t i = 1; i < c->count; i++) {
    if (!c->candidate[i].kernel) continue;
    if (count++ == 0 || c->candidate[i].sample[0] > c->candidate[*worst].sample[0]) *worst = i;
  }
  return count;
}

/* The hopeless leave, and then the worse half, down to a few. */
static uint32_t thin_out(contest *c, uint32_t round) {
  const double least = least_seconds(c), factor = 1 + 1.0 / round;
  for (uint32_t i = 1; i < c->count; i++)
    if (hopeless(&c->candidate[i], least, factor)) leave(c, &c->candidate[i]);
  uint32_t worst, rivals = count_rivals(c, &worst);
  const uint32_t keep = rivals / 2 > FEW_RIVALS ? rivals / 2 : FEW_RIVALS;
  for (; rivals > keep; rivals = count_rivals(c, &worst)) leave(c, &c->candidate[worst]);
  return rivals;
}

compute_status contest_round(contest *c, uint32_t round, bool *more) {
  const bool rivals = thin_out(c, round) > 0;
  bool timed = false;
  *more = false;
  for (uint32_t i = 0; i < c->count && rivals && !contest_late(c); i++) {
    contest_candidate *candidate = &c->candidate[i];
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

const contest_candidate *contest_best(const contest *c) {
  const contest_candidate *best = NULL;
  for (uint32_t i = 1; i < c->count; i++) {
    const contest_candidate *candidate = &c->candidate[i];
    if (!candidate->kernel || candidate->samples == 0) continue;
    if (best && contest_seconds(candidate) >= contest_seconds(best)) continue;
    best = candidate;
  }
  return best;
}

static bool well_known(const contest *c, const contest_candidate *candidate) {
  return candidate->samples >= SAMPLES ||
         (candidate->samples > 0 && candidate->spent >= c->candidate_seconds);
}

/* Median and minimum must agree: a single disturbed round moves neither alone to a victory. */
const contest_candidate *contest_winner(const contest *c) {
  const contest_candidate *judgement = &c->candidate[0], *best = contest_best(c);
  if (!best || !well_known(c, best) || !well_known(c, judgement)) return NULL;
  const bool better = contest_seconds(best) < GAIN * contest_seconds(judgement) &&
                      best->sample[0] < GAIN * judgement->sample[0];
  return better ? best : NULL;
}
