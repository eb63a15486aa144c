/* SPDX-License-Identifier: MIT */
/* Random draws for simulated images.
 *
 * Each draw is identified by its use, so that no draw depends on earlier ones. The generator is
 * Philox4x32-10 with the seed as key. Its counter contains the ROI or frame, the place within it (a
 * pixel, a spot), the purpose, and the attempt of a rejection method. Distributions are exact apart
 * from the rounding of doubles. */
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
  NOISE_EMITTER = 7,    /* of an emitter: place is the quantity to draw */
  NOISE_BLINK = 8       /* of a time interval: place is the emitter */
} noise_purpose;

typedef struct noise_source {
  uint64_t seed;
  uint64_t item; /* ROI or frame */
} noise_source;

/* Returns a uniform number in [0, 1) with 53 bits. */
double noise_uniform(const noise_source *source, noise_purpose purpose, uint32_t place);

/* Returns a Poisson number. `mean` must be finite and ≥ 0. */
double noise_poisson(const noise_source *source, noise_purpose purpose, uint32_t place,
                     double mean);

#define NOISE_RUN 64 /* maximum `count` of noise_poisson_run */

/* noise_poisson for `count` places from `place` on. Gives the same numbers, but is faster. */
void noise_poisson_run(const noise_source *source, noise_purpose purpose, uint32_t place,
                       int32_t count, const double *means, double *numbers);

/* Returns the sum of `terms` (a whole number ≥ 0) exponential values of mean 1. */
double noise_gamma(const noise_source *source, noise_purpose purpose, uint32_t place, double terms);

/* Returns a normal number with mean 0 and standard deviation 1. */
double noise_normal(const noise_source *source, noise_purpose purpose, uint32_t place);

#endif
