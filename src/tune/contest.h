/* One problem's candidates against each other: prepared, checked, and timed in rounds. */
#ifndef TUNE_CONTEST_H
#define TUNE_CONTEST_H

#include "tune/measure.h"
#include "tune/space.h"

enum { CONTEST_ROUNDS = 7, CONTEST_QUICK_ROUNDS = 5, CONTEST_IMPLEMENTATIONS = 4 };

typedef struct contest_candidate {
  compute_tuning tuning;
  void *kernel; /* NULL: not prepared yet, or out of the contest */
  uint32_t repetitions, samples;
  double sample[CONTEST_ROUNDS]; /* seconds of one kernel, sorted */
  double spent;                  /* seconds of running */
} contest_candidate;

typedef struct contest {
  const tune_measure *measure;
  const compute_target *target;
  double candidate_seconds; /* limit for each */
  measure_clock clock;
  double deadline; /* of the clock; INFINITY: none */
  uint32_t rounds;
  uint32_t refused;
  uint32_t count; /* candidate[0] is the judgement */
  contest_candidate candidate[SPACE_LIMIT + CONTEST_IMPLEMENTATIONS];
} contest;

/* Fills in the candidates; clock and limits are the caller's. */
void contest_begin(contest *c, const tune_measure *measure, const compute_target *target,
                   bool quick);
void contest_end(contest *c);

/* Prepares, checks and times candidate `index` for the first time. Only a lost device is a failure;
 * a candidate that does not do is out. */
compute_status contest_try(contest *c, uint32_t index);

/* Drops the hopeless and times the others once more; *more is false when it would tell nothing new.
 * `round` counts from 1. */
compute_status contest_round(contest *c, uint32_t round, bool *more);

bool contest_late(const contest *c); /* past the deadline */

/* Seconds; 0 for a candidate without a time. */
double contest_seconds(const contest_candidate *candidate);

/* The fastest of those that are still in the contest, except for the judgement; NULL if there is
 * none. */
const contest_candidate *contest_best(const contest *c);

/* The best, if it is better than the judgement by more than noise, and both are well known. */
const contest_candidate *contest_winner(const contest *c);

/* Parameters in words, into `text`. */
void contest_print(const contest *c, const contest_candidate *candidate, char *text, size_t bytes);

#endif
