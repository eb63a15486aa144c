/* SPDX-License-Identifier: MIT */
/* The likelihood ratio itself needs the pixels: twice Σ d ln(µ/b) − µ + b, with the fitted image µ
 * and the flat one b. Its expectation at the fit, with µ in place of d, does not. At the maximum of
 * the likelihood both have the same light, and to first order in the spot's contrast the same
 * value; where a spot is bright, both are far above any threshold. */
#include "tools/fit/significance.h"

#include <math.h>

/* Places of photons and background, and the widths. */
typedef struct spot_shape {
  double photons, background, sigma[2];
} spot_shape;

static double width(const compute_fit_problem *p, int axis, double z) {
  const double t = (axis == 0 ? z - p->gamma : z + p->gamma) / p->depth;
  const double sigma = p->sigma[axis] > 0 ? p->sigma[axis] : p->sigma[0];
  return sigma * sqrt(1 + t * t * (1 + t * (p->a[axis] + t * p->b[axis])));
}

static spot_shape shape_of(const compute_fit_problem *p, const float *v) {
  const double sigma_y = p->sigma[1] > 0 ? p->sigma[1] : p->sigma[0];
  switch (p->model) {
  case COMPUTE_FIT_XYNBS: return (spot_shape){v[2], v[3], {v[4], v[4]}};
  case COMPUTE_FIT_XYNBSXSY: return (spot_shape){v[2], v[3], {v[4], v[5]}};
  case COMPUTE_FIT_XYZNB:
    return (spot_shape){v[3], v[4], {width(p, 0, (double)v[2]), width(p, 1, (double)v[2])}};
  case COMPUTE_FIT_SPLINE: /* has none: settings.c */
  case COMPUTE_FIT_XYNB: break;
  }
  return (spot_shape){v[2], v[3], {p->sigma[0], sigma_y}};
}

/* The share of the light in each pixel of an axis. */
static void profile(const compute_fit_problem *p, double centre, double sigma, int32_t count,
                    double *share) {
  const double scale = 1 / (sigma * sqrt(2));
  if (p->profile == COMPUTE_FIT_SAMPLED) {
    for (int32_t i = 0; i < count; i++)
      share[i] = exp(-(i - centre) * (i - centre) * scale * scale) * scale / sqrt(acos(-1));
    return;
  }
  double edge = erf((-0.5 - centre) * scale);
  for (int32_t i = 0; i < count; i++) {
    const double next = erf((i + 0.5 - centre) * scale);
    share[i] = (next - edge) / 2;
    edge = next;
  }
}

static bool is_used(const significance_maps *maps, int32_t row, int32_t column) {
  return !maps->mask || maps->mask[row * maps->mask_stride + column];
}

/* The level of a flat image with as much light in the pixels that are used. */
static double flat_level(const compute_fit_problem *p, const spot_shape *s, const double *x,
                         const double *y, const significance_maps *maps) {
  double share = 0;
  int32_t used = 0;
  for (int32_t i = 0; i < p->rows; i++) {
    for (int32_t j = 0; j < p->columns; j++) {
      if (!is_used(maps, i, j)) continue;
      share += x[j] * y[i];
      used++;
    }
  }
  return s->background + s->photons * share / used;
}

double significance_of_fit(const compute_fit_problem *p, const float *parameters,
                           const significance_maps *maps) {
  double x[COMPUTE_FIT_MAX_SIDE], y[COMPUTE_FIT_MAX_SIDE], twice = 0;
  const spot_shape s = shape_of(p, parameters);
  const bool readout = p->camera == COMPUTE_FIT_SCMOS;
  profile(p, (double)parameters[0], s.sigma[0], p->columns, x);
  profile(p, (double)parameters[1], s.sigma[1], p->rows, y);
  const double flat = flat_level(p, &s, x, y, maps);
  for (int32_t i = 0; i < p->rows; i++) {
    const float *variance = maps->variance ? maps->variance + i * maps->variance_stride : NULL;
    for (int32_t j = 0; j < p->columns; j++) {
      if (!is_used(maps, i, j)) continue;
      const double light = s.background + s.photons * x[j] * y[i];
      const double noise = !readout ? 0 : variance ? (double)variance[j] : p->variance;
      twice += 2 * ((light + noise) * log((light + noise) / (flat + noise)) - light + flat);
    }
  }
  if (p->camera == COMPUTE_FIT_EMCCD) twice /= 2; /* the excess noise */
  return twice > 0 ? sqrt(twice) : twice == twice ? 0 : twice;
}
