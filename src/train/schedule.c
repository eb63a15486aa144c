/* The learning rate over time: linear growth at the beginning (warm-up), then constant, in steps,
 * or down along half a cosine (Loshchilov and Hutter 2017, arXiv 1608.03983, without restarts). */
#include <math.h>

#include "train/trainer.h"

/* From 1 at the end of the warm-up down to `factor` at the end of the period, and then constant. */
static double cosine(const compute_schedule *schedule, int64_t update, int64_t period) {
  if (period <= 0) return 1;
  const int64_t length = period - schedule->warm_up;
  const int64_t place = update - schedule->warm_up;
  if (place <= 0) return 1;
  if (place >= length) return schedule->factor;
  const double pi = 3.14159265358979323846;
  const double share = (1 + cos(pi * (double)place / (double)length)) / 2;
  return schedule->factor + (1 - schedule->factor) * share;
}

double train_rate(const compute_schedule *schedule, double rate, int64_t update, int64_t period) {
  if (schedule->period > 0) period = schedule->period;
  /* The first update has a share of the rate already: with 0 it would be for nothing. */
  if (update < schedule->warm_up) rate *= (double)(update + 1) / (double)schedule->warm_up;
  switch (schedule->kind) {
  case COMPUTE_SCHEDULE_CONSTANT: return rate;
  case COMPUTE_SCHEDULE_STEP: return rate * pow(schedule->factor, (double)(update / period));
  case COMPUTE_SCHEDULE_COSINE: return rate * cosine(schedule, update, period);
  }
  return rate;
}
