/* SPDX-License-Identifier: MIT */
/* Internals of simulations: checked options, and the three stages of an image (spots, expected
 * electrons, counts). */
#ifndef FIT_SIMULATE_H
#define FIT_SIMULATE_H

#include "compute/simulate.h"
#include "fit/noise.h"

/* The checked options, with defaults filled in. */
typedef struct simulation {
  compute_context *context;
  compute_simulation given; /* its problem is normalised */
  const float *spline;      /* coefficients of SPLINE */
  int32_t parameters;       /* P */
  bool movie, whole;        /* `whole`: counts are u16 */
  int64_t rows, columns;    /* of an ROI or a frame */
} simulation;

/* One spot to draw on an image. */
typedef struct simulation_spot {
  float truth[COMPUTE_FIT_MAX_PARAMETERS];
  double x, y, z, photons;
  double sigma[2];
} simulation_spot;

/* Checks the options. On success `checked` is complete. */
compute_status simulation_check(compute_context *context, const compute_simulation *given,
                                bool movie, const char *operation, simulation *checked);

/* Checks that first … first + count − 1 are valid item numbers, and that `count` images of this
 * size are addressable. */
compute_status simulation_check_items(const simulation *s, int64_t first, int64_t count,
                                      const char *operation);

/* Returns the background of the ROI or frame. The truth is rounded to f32, and images use the
 * rounded numbers. */
float simulation_background(const simulation *s, const noise_source *source);

/* Draws spot `number` of a frame; an ROI has only spot 0. */
void simulation_draw_spot(const simulation *s, const noise_source *source, uint32_t number,
                          float background, simulation_spot *spot);

/* Sets the place and widths of a spot from its truth. */
void simulation_place_spot(const simulation *s, simulation_spot *spot);

/* For simulations with emitters. simulation_emitters_on counts the emitters that are on in a frame.
 * simulation_move_to_emitter moves the spot to the next such emitter from number *next on, and sets
 * *next to the number after it. */
int64_t simulation_emitters_on(const simulation *s, int64_t frame);
void simulation_move_to_emitter(const simulation *s, int64_t frame, uint32_t *next,
                                simulation_spot *spot);

/* Computes the Gaussian on `count` pixels of an axis from `first` on. */
void simulation_profile(const simulation *s, double position, double sigma, int64_t first,
                        int32_t count, double *values);

/* Adds the spot's light to rows first_row … first_row + rows − 1 in `expected`, as far as the spot
 * reaches. The rows have the width of the image. */
void simulation_add_spot(const simulation *s, const simulation_spot *spot, int64_t first_row,
                         int64_t rows, double *expected);

/* Converts `count` expected electrons of the pixels from `pixel` on into counts. The counts are
 * stored in `pixels` from element `to` on. */
void simulation_expose(const simulation *s, const noise_source *source, int64_t pixel,
                       int64_t count, const double *expected, void *pixels, int64_t to);

#endif
