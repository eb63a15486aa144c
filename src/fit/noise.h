/* SPDX-License-Identifier: MIT */
/* Random draws for simulated images, each identified by its use, so that none depends on earlier
 * draws: Philox4x32-10 with the seed as key, and as counter the ROI or frame, the place within it
 * (a pixel, a spot), the purpose, and, for rejection methods, the number of attempts. Distributions
 * are exact apart from the rounding of doubles. */
#ifndef FIT_NOISE_H
#define FIT_NOISE_H

#include <stdint.h>

typedef enum noise_purpose {
  NOISE_TRUTH = 1,      /* of a spot: place is spot · 8 + parameter */
  NOISE_ELECTRONS = 2,  /* of a pixel */
  NOISE_MULTIPLIER = 3, /* of a pixel */
  NOISE_READOUT = 4,    /* of a pixel */
  NOISE_BACKGROUND = 5, /* of a frame */
  NOISE_SPOTS = 6,      /* of a frame */
  NOISE_EMITTER = 7,    /* of an emitter: place is what is drawn */
  NOISE_BLINK = 8       /* of a piece of time: place is the emitter */
} noise_purpose;

typedef struct noise_source {
  uint64_t seed;
  uint64_t item; /* ROI or frame */
} noise_source;

/* Uniform in [0, 1), 53 bits. */
double noise_uniform(const noise_source *source, noise_purpose purpose, uint32_t place);

/* A Poisson number; `mean` ≥ 0 and finite. */
double noise_poisson(const noise_source *source, noise_purpose purpose, uint32_t place,
                     double mean);

#define NOISE_RUN 64 /* most pixels in one call of noise_poisson_run */

/* noise_poisson for `count` places from `place` on: the same numbers, faster. */
void noise_poisson_run(const noise_source *source, noise_purpose purpose, uint32_t place,
                       int32_t count, const double *means, double *numbers);

/* The sum of `terms` (a whole number ≥ 0) exponential values of mean 1. */
double noise_gamma(const noise_source *source, noise_purpose purpose, uint32_t place, double terms);

/* Normal, mean 0 and standard deviation 1. */
double noise_normal(const noise_source *source, noise_purpose purpose, uint32_t place);

#endif
