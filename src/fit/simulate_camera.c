/* From expected electrons to what the camera's file would hold. */
#include <math.h>

#include "fit/simulate.h"

/* Expected electrons to electrons as the camera has them at its output, in place. */
static void add_noise(const simulation *s, const noise_source *source, uint32_t pixel,
                      int32_t count, const double *expected, double *electrons) {
  const compute_fit_problem *problem = &s->given.problem;
  noise_poisson_run(source, NOISE_ELECTRONS, pixel, count, expected, electrons);
  for (int32_t i = 0; i < count; i++) {
    const uint32_t place = pixel + (uint32_t)i;
    if (problem->camera == COMPUTE_FIT_EMCCD)
      electrons[i] = noise_gamma(source, NOISE_MULTIPLIER, place, electrons[i]);
    if (problem->camera == COMPUTE_FIT_SCMOS) {
      const double variance =
          s->given.variance != NULL ? (double)s->given.variance[place] : problem->variance;
      if (variance > 0) electrons[i] += sqrt(variance) * noise_normal(source, NOISE_READOUT, place);
    }
  }
}

static void to_counts(const simulation *s, int64_t pixel, int32_t count, double *values) {
  const compute_fit_problem *problem = &s->given.problem;
  if (problem->camera == COMPUTE_FIT_IDEAL) return;
  const double multiplied = problem->camera == COMPUTE_FIT_EMCCD ? problem->em_gain : 1;
  for (int32_t i = 0; i < count; i++) {
    const double gain = s->given.gain != NULL ? (double)s->given.gain[pixel + i] : problem->gain;
    const double offset =
        s->given.offset != NULL ? (double)s->given.offset[pixel + i] : problem->offset;
    values[i] = values[i] * multiplied / gain + offset;
  }
}

/* To the nearest, and at the ends of what 16 bits hold as a saturated camera does. */
static uint16_t to_u16(double value) {
  if (!(value > 0)) return 0;
  return value >= 65535 ? 65535 : (uint16_t)(value + 0.5);
}

void simulation_expose(const simulation *s, const noise_source *source, int64_t pixel,
                       int64_t count, const double *expected, void *pixels, int64_t to) {
  for (int64_t done = 0; done < count; done += NOISE_RUN) {
    const int32_t run = (int32_t)(count - done < NOISE_RUN ? count - done : NOISE_RUN);
    double values[NOISE_RUN];
    if (s->given.noise_free) {
      for (int32_t i = 0; i < run; i++) values[i] = expected[done + i];
    } else {
      add_noise(s, source, (uint32_t)(pixel + done), run, expected + done, values);
    }
    to_counts(s, pixel + done, run, values);
    for (int32_t i = 0; i < run; i++) {
      if (s->whole)
        ((uint16_t *)pixels)[to + done + i] = to_u16(values[i]);
      else
        ((float *)pixels)[to + done + i] = (float)values[i];
    }
  }
}
