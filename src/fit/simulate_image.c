/* SPDX-License-Identifier: MIT */
/* The truth, its expected image, and the camera's counts. */
#include <math.h>
#include <string.h>

#include "fit/noise_math.h"
#include "core/base/arithmetic.h"
#include "fit/simulate.h"
#include "fit/spline.h"

#define REACH       5.0  /* spots of movies are cut off at this many sigma from the centre */
#define LEAST_ALPHA 1e-3 /* of the squared width: limits how narrow astigmatism can make a spot */
#define RUN         128  /* pixels of an axis per loop */

/* Parameters by kind. The kind identifies their draws. */
enum { DRAW_X, DRAW_Y, DRAW_Z, DRAW_PHOTONS, DRAW_SIGMA, DRAW_SIGMA_Y, DRAWS = 8 };

static float uniform(const noise_source *source, noise_purpose purpose, uint32_t place, double low,
                     double high) {
  return (float)(low + (high - low) * noise_uniform(source, purpose, place));
}

float simulation_background(const simulation *s, const noise_source *source) {
  const compute_range *range = &s->given.background;
  return uniform(source, NOISE_BACKGROUND, 0, range->low, range->high);
}

/* Draws a position along an axis of `size` pixels: near the middle of an ROI, or anywhere in a
 * frame. */
static float draw_position(const simulation *s, const noise_source *source, uint32_t place,
                           int64_t size) {
  const double middle = 0.5 * (double)(size - 1), half = 0.5 * (double)size;
  const compute_range *range = &s->given.position;
  if (s->movie) return uniform(source, NOISE_TRUTH, place, middle - half, middle + half);
  return uniform(source, NOISE_TRUTH, place, middle + range->low, middle + range->high);
}

static double astigmatic(const compute_fit_problem *problem, int axis, double z) {
  const double t = (axis == 0 ? z - problem->gamma : z + problem->gamma) / problem->depth;
  const double alpha = 1 + t * t * (1 + t * (problem->a[axis] + t * problem->b[axis]));
  return problem->sigma[axis] * sqrt(max_f64(alpha, LEAST_ALPHA));
}

void simulation_place_spot(const simulation *s, simulation_spot *spot) {
  const compute_simulation *g = &s->given;
  const float *truth = spot->truth;
  spot->x = (double)truth[0];
  spot->y = (double)truth[1];
  spot->z = (double)truth[2]; /* only used if the model has z */
  for (int axis = 0; axis < 2; axis++) {
    switch (g->problem.model) {
    case COMPUTE_FIT_XYNB: spot->sigma[axis] = g->problem.sigma[axis]; break;
    case COMPUTE_FIT_XYNBS: spot->sigma[axis] = (double)truth[4]; break;
    case COMPUTE_FIT_XYNBSXSY: spot->sigma[axis] = (double)truth[4 + axis]; break;
    case COMPUTE_FIT_XYZNB:
      spot->sigma[axis] = astigmatic(&g->problem, axis, (double)truth[2]);
      break;
    case COMPUTE_FIT_SPLINE: spot->sigma[axis] = 0; break;
    }
  }
}

void simulation_draw_spot(const simulation *s, const noise_source *source, uint32_t number,
                          float background, simulation_spot *spot) {
  const compute_simulation *g = &s->given;
  const uint32_t place = number * DRAWS;
  const bool ranged = g->sigma.low != 0 || g->sigma.high != 0;
  float *truth = spot->truth;
  int32_t next = 2;
  truth[0] = draw_position(s, source, place + DRAW_X, s->columns);
  truth[1] = draw_position(s, source, place + DRAW_Y, s->rows);
  if (compute_fit_has_z(g->problem.model))
    truth[next++] = uniform(source, NOISE_TRUTH, place + DRAW_Z, g->z.low, g->z.high);
  truth[next] = uniform(source, NOISE_TRUTH, place + DRAW_PHOTONS, g->photons.low, g->photons.high);
  spot->photons = (double)truth[next++];
  truth[next++] = background;
  for (int32_t i = next; i < s->parameters; i++) {
    truth[i] = ranged ? uniform(source, NOISE_TRUTH, place + DRAW_SIGMA + (uint32_t)(i - next),
                                g->sigma.low, g->sigma.high)
                      : (float)g->problem.sigma[i - next];
  }
  simulation_place_spot(s, spot);
}

void simulation_profile(const simulation *s, double position, double sigma, int64_t first,
                        int32_t count, double *values) {
  if (s->given.problem.profile == COMPUTE_FIT_SAMPLED) {
    const double front = 0.3989422804014327 / sigma;
    for (int32_t i = 0; i < count; i++) {
      const double a = ((double)(first + i) - position) / sigma;
      values[i] = a * a < 1400 ? front * noise_exp(-0.5 * a * a) : 0;
    }
    return;
  }
  /* The integrals from the middle to each edge. Neighbouring pixels share an edge. */
  const double scale = 0.7071067811865476 / sigma;
  double before = noise_erf(((double)first - 0.5 - position) * scale);
  for (int32_t i = 0; i < count; i++) {
    const double after = noise_erf(((double)(first + i) + 0.5 - position) * scale);
    values[i] = 0.5 * (after - before);
    before = after;
  }
}

/* Finds the pixels of an axis that a spot reaches. In an ROI these are all pixels. */
static void find_extent(const simulation *s, double position, double sigma, int64_t *first,
                        int64_t *end) {
  if (!s->movie) return;
  const double low = ceil(position - REACH * sigma), high = floor(position + REACH * sigma) + 1;
  if (low > (double)*first) *first = low < (double)*end ? (int64_t)low : *end;
  if (high < (double)*end) *end = high > (double)*first ? (int64_t)high : *first;
}

static void add_measured_spot(const simulation *s, const simulation_spot *spot, int64_t first_row,
                              int64_t rows, double *expected) {
  const compute_fit_problem *p = &s->given.problem;
  int64_t row_begin = first_row, row_end = first_row + rows, column_begin = 0,
          column_end = s->columns;
  spline_place place;
  spline_reach(p, 1, spot->y, &row_begin, &row_end);
  spline_reach(p, 0, spot->x, &column_begin, &column_end);
  const double position[3] = {spot->x - (double)column_begin, spot->y - (double)row_begin, spot->z};
  if (row_begin >= row_end || column_begin >= column_end) return;
  spline_put(p, s->spline, position, row_end - row_begin, column_end - column_begin, &place);
  for (int64_t row = row_begin; row < row_end; row++)
    for (int64_t column = column_begin; column < column_end; column++) {
      double *to = expected + (row - first_row) * s->columns + column;
      *to += spot->photons * spline_value(&place, row - row_begin, column - column_begin, NULL);
    }
}

void simulation_add_spot(const simulation *s, const simulation_spot *spot, int64_t first_row,
                         int64_t rows, double *expected) {
  if (s->given.problem.model == COMPUTE_FIT_SPLINE) {
    add_measured_spot(s, spot, first_row, rows, expected);
    return;
  }
  int64_t row_begin = first_row, row_end = first_row + rows, column_begin = 0,
          column_end = s->columns;
  find_extent(s, spot->y, spot->sigma[1], &row_begin, &row_end);
  find_extent(s, spot->x, spot->sigma[0], &column_begin, &column_end);
  /* The rows are processed in pieces, since a spot may be as large as a frame. */
  for (int64_t row = row_begin; row < row_end; row += RUN) {
    const int32_t high = (int32_t)(row_end - row < RUN ? row_end - row : RUN);
    double down[RUN], across[RUN];
    simulation_profile(s, spot->y, spot->sigma[1], row, high, down);
    for (int64_t column = column_begin; column < column_end; column += RUN) {
      const int32_t wide = (int32_t)(column_end - column < RUN ? column_end - column : RUN);
      simulation_profile(s, spot->x, spot->sigma[0], column, wide, across);
      for (int32_t i = 0; i < high; i++) {
        const double factor = spot->photons * down[i];
        double *line = expected + (row + i - first_row) * s->columns + column;
        for (int32_t j = 0; j < wide; j++) line[j] += factor * across[j];
      }
    }
  }
}

/* ---- The camera ---------------------------------------------------------------------------- */

/* From expected electrons to the values in the camera's file. */

/* Converts expected electrons to the electrons at the camera's output, in place. */
static void add_noise(const simulation *s, const noise_source *source, uint32_t pixel,
                      int32_t count, const double *expected, double *electrons) {
  const compute_fit_problem *problem = &s->given.problem;
  noise_poisson_run(source, NOISE_ELECTRONS, pixel, count, expected, electrons);
  for (int32_t i = 0; i < count; i++) {
    const uint32_t place = pixel + (uint32_t)i;
    if (problem->camera == COMPUTE_FIT_EMCCD)
      electrons[i] = noise_gamma(source, NOISE_MULTIPLIER, place, electrons[i]);
    if (problem->camera == COMPUTE_FIT_SCMOS || problem->camera == COMPUTE_FIT_READOUT) {
      const double variance =
          s->given.variance ? (double)s->given.variance[place] : problem->variance;
      if (variance > 0) electrons[i] += sqrt(variance) * noise_normal(source, NOISE_READOUT, place);
    }
  }
}

static void to_counts(const simulation *s, int64_t pixel, int32_t count, double *values) {
  const compute_fit_problem *problem = &s->given.problem;
  if (problem->camera == COMPUTE_FIT_IDEAL) return;
  const double multiplied = problem->camera == COMPUTE_FIT_EMCCD ? problem->em_gain : 1;
  for (int32_t i = 0; i < count; i++) {
    const double gain = s->given.gain ? (double)s->given.gain[pixel + i] : problem->gain;
    const double offset = s->given.offset ? (double)s->given.offset[pixel + i] : problem->offset;
    values[i] = values[i] * multiplied / gain + offset;
  }
}

/* Rounds to nearest and saturates to 16 bits, like a camera. */
static uint16_t to_u16(double value) {
  if (!(value > 0)) return 0;
  return value >= 65535 ? 65535 : (uint16_t)(value + 0.5);
}

void simulation_expose(const simulation *s, const noise_source *source, int64_t pixel,
                       int64_t count, const double *expected, void *pixels, int64_t to) {
  for (int64_t done = 0; done < count; done += NOISE_RUN) {
    const int32_t run = (int32_t)(count - done < NOISE_RUN ? count - done : NOISE_RUN);
    double values[NOISE_RUN], light[NOISE_RUN];
    for (int32_t i = 0; i < run; i++) light[i] = max_f64(expected[done + i], 0); /* for splines */
    if (s->given.noise_free)
      memcpy(values, light, (size_t)run * sizeof *values);
    else
      add_noise(s, source, (uint32_t)(pixel + done), run, light, values);
    to_counts(s, pixel + done, run, values);
    for (int32_t i = 0; i < run; i++) {
      if (s->whole)
        ((uint16_t *)pixels)[to + done + i] = to_u16(values[i]);
      else
        ((float *)pixels)[to + done + i] = (float)values[i];
    }
  }
}
