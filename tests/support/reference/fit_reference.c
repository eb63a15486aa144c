/* SPDX-License-Identifier: MIT */
/* Finds the optimum by damped Fisher scoring from several starts. A step is accepted only if it
 * improves the objective. It stops when steps are a billionth of the uncertainty. */
#include "support/reference/fit_reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MOST COMPUTE_FIT_MAX_PARAMETERS

/* The problem, completed with its defaults and the ROI's inputs. */
typedef struct roi {
  compute_fit_problem problem;
  int32_t count, used, free_count;
  bool is_free[MOST];
  double sigma[2], lower[MOST], upper[MOST];
  double start[MOST]; /* NaN: estimated */
  double factor;      /* of variances: excess noise of the electron multiplier */
  double electrons[FIT_REFERENCE_PIXELS], extra[FIT_REFERENCE_PIXELS];
  bool uses[FIT_REFERENCE_PIXELS];
} roi;

typedef struct evaluation {
  double objective; /* to be maximised: the ratio, or −(sum of squares) / 2 */
  double score[MOST], information[MOST][MOST];
} evaluation;

/* ---- Reading the problem -------------------------------------------------------------------- */

/* The interval where the spline covers the ROI. */
static void cover(const compute_fit_problem *p, int axis, double *lower, double *upper) {
  int32_t pixels = axis == 0 ? p->columns : p->rows, cells = p->cells[2 - axis];
  *lower = fmax(*lower, pixels - 1 + p->spot[axis] - cells);
  *upper = fmin(*upper, p->spot[axis]);
}

static void usual_bounds(roi *r) {
  const compute_fit_problem *p = &r->problem;
  int32_t side = p->rows > p->columns ? p->rows : p->columns;
  double reach = 2 * p->depth + fabs(p->gamma); /* for model XYZNB */
  bool has_z = compute_fit_has_z(p->model);
  for (int32_t i = 0; i < r->count; i++) {
    r->lower[i] = i < 2 ? -0.5 : COMPUTE_FIT_LEAST_PHOTONS;
    r->upper[i] = i == 0 ? p->columns - 0.5 : i == 1 ? p->rows - 0.5 : INFINITY;
    if (p->model == COMPUTE_FIT_SPLINE) {
      if (i < 2) cover(p, i, &r->lower[i], &r->upper[i]);
      if (i == 2) r->lower[i] = p->z_first;
      if (i == 2) r->upper[i] = p->z_first + p->cells[0] * p->z_step;
    } else if (has_z && i == 2) {
      r->lower[i] = -reach;
      r->upper[i] = reach;
    }
    if (!has_z && i >= 4) {
      r->lower[i] = COMPUTE_FIT_LEAST_SIGMA;
      r->upper[i] = side;
    }
  }
}

/* Returns false if the bounds contradict each other. */
static bool narrow_bounds(roi *r, const fit_reference_inputs *inputs) {
  const compute_fit_problem *p = &r->problem;
  usual_bounds(r);
  for (int32_t i = 0; i < r->count; i++) {
    if ((p->lower_set >> i & 1) != 0) r->lower[i] = fmax(r->lower[i], p->lower[i]);
    if ((p->upper_set >> i & 1) != 0) r->upper[i] = fmin(r->upper[i], p->upper[i]);
    if (inputs->lower) r->lower[i] = fmax(r->lower[i], inputs->lower[i]);
    if (inputs->upper) r->upper[i] = fmin(r->upper[i], inputs->upper[i]);
    if (r->lower[i] > r->upper[i]) return false;
  }
  return true;
}

/* Returns false if a fixed parameter has no value. */
static bool read_starts(roi *r, const fit_reference_inputs *inputs) {
  const compute_fit_problem *p = &r->problem;
  for (int32_t i = 0; i < r->count; i++) {
    bool fixed = (p->fixed >> i & 1) != 0, set = (p->start_set >> i & 1) != 0;
    r->is_free[i] = !fixed;
    r->free_count += !fixed;
    r->start[i] = set ? p->start[i] : NAN;
    if (!inputs->start) continue;
    if (!isnan(inputs->start[i])) r->start[i] = inputs->start[i];
    if (fixed && isnan(r->start[i])) return false;
  }
  return true;
}

static bool read_pixels(roi *r, const double *pixels, const fit_reference_inputs *inputs) {
  const compute_fit_problem *p = &r->problem;
  double light = 0;
  for (int32_t i = 0; i < p->rows * p->columns; i++) {
    r->uses[i] = !inputs->mask || inputs->mask[i] != 0;
    if (!r->uses[i]) continue;
    r->used++;
    double offset = inputs->offset ? inputs->offset[i] : p->offset;
    double gain = inputs->gain ? inputs->gain[i] : p->gain;
    double variance = inputs->variance ? inputs->variance[i] : p->variance;
    double value = pixels[i];
    if (p->camera != COMPUTE_FIT_IDEAL) {
      if (!isfinite(offset) || !isfinite(gain) || gain <= 0) return false;
      value = (value - offset) * gain;
    }
    if (p->camera == COMPUTE_FIT_EMCCD) value /= p->em_gain;
    if (p->camera == COMPUTE_FIT_SCMOS) {
      if (!isfinite(variance) || variance < 0) return false;
      value += variance;
      r->extra[i] = variance;
    }
    if (!isfinite(value)) return false;
    r->electrons[i] = fmax(value, 0);
    light += r->electrons[i] - r->extra[i];
  }
  return light > 0 && r->used >= r->free_count;
}

/* `pixels` may be NULL if only the model is needed. Returns false for BAD_DATA. */
static bool read_roi(const compute_fit_problem *problem, const double *pixels,
                     const fit_reference_inputs *inputs, roi *r) {
  static const fit_reference_inputs none;
  if (!inputs) inputs = &none;
  memset(r, 0, sizeof *r);
  r->problem = *problem;
  r->count = compute_fit_parameter_count(problem->model);
  r->factor = problem->camera == COMPUTE_FIT_EMCCD ? 2 : 1;
  if (!(r->problem.gain > 0)) r->problem.gain = 1;
  if (!(r->problem.em_gain > 0)) r->problem.em_gain = 1;
  for (int axis = 0; axis < 2; axis++) {
    r->sigma[axis] = problem->sigma[axis] > 0 ? problem->sigma[axis] : problem->sigma[0];
    if (inputs->sigma) r->sigma[axis] = inputs->sigma[axis];
    if (problem->model == COMPUTE_FIT_SPLINE) r->sigma[axis] = 1; /* unused by the spline */
    if (!(r->sigma[axis] > 0) || !isfinite(r->sigma[axis])) return false;
  }
  if (!narrow_bounds(r, inputs) || !read_starts(r, inputs)) return false;
  if (pixels) return read_pixels(r, pixels, inputs);

  for (int32_t i = 0; i < problem->rows * problem->columns; i++) {
    r->uses[i] = !inputs->mask || inputs->mask[i] != 0;
    r->used += r->uses[i];
    if (problem->camera == COMPUTE_FIT_SCMOS)
      r->extra[i] = inputs->variance ? inputs->variance[i] : problem->variance;
  }
  return true;
}

/* ---- Objective, score and information ------------------------------------------------------- */

static void evaluate(const roi *r, const double *parameters, bool squares, evaluation *value) {
  static double image[FIT_REFERENCE_PIXELS], derivatives[FIT_REFERENCE_PIXELS * MOST];
  memset(value, 0, sizeof *value);
  fit_reference_image(&r->problem, r->sigma, parameters, image, derivatives);
  for (int32_t i = 0; i < r->problem.rows * r->problem.columns; i++) {
    if (!r->uses[i]) continue;
    double d = r->electrons[i], mean = image[i] + r->extra[i];
    double residual = squares ? d - mean : d / mean - 1, weight = squares ? 1 : 1 / mean;
    const double *by = derivatives + (int64_t)i * r->count;
    value->objective += squares ? -(d - mean) * (d - mean) / 2
                        : d > 0 ? d * log(mean / d) - mean + d
                                : -mean;
    for (int32_t a = 0; a < r->count; a++) {
      value->score[a] += by[a] * residual;
      for (int32_t b = 0; b < r->count; b++) value->information[a][b] += by[a] * by[b] * weight;
    }
  }
}

/* Inverts the part of a symmetric matrix marked by `in`; the rest is 0. It scales the diagonal to 1
 * and uses Gauss–Jordan. Returns false for a singular matrix. */
static bool invert(int32_t count, const double matrix[MOST][MOST], const bool *in,
                   double inverse[MOST][MOST]) {
  double left[MOST][MOST], scale[MOST];
  memset(inverse, 0, sizeof(double[MOST][MOST]));
  for (int32_t a = 0; a < count; a++) {
    if (in[a] && !(matrix[a][a] > 0)) return false;
    scale[a] = in[a] ? 1 / sqrt(matrix[a][a]) : 0;
  }
  for (int32_t a = 0; a < count; a++) {
    for (int32_t b = 0; b < count; b++)
      left[a][b] = in[a] && in[b] ? matrix[a][b] * scale[a] * scale[b] : a == b;
    inverse[a][a] = in[a] ? 1 : 0;
  }
  for (int32_t pivot = 0; pivot < count; pivot++) {
    /* Without exchange of rows: the pivots of a positive definite matrix are always positive. */
    if (!(left[pivot][pivot] > 1e-12)) return false;
    double reciprocal = 1 / left[pivot][pivot];
    for (int32_t b = 0; b < count; b++) {
      left[pivot][b] *= reciprocal;
      inverse[pivot][b] *= reciprocal;
    }
    for (int32_t a = 0; a < count; a++) {
      if (a == pivot) continue;
      double times = left[a][pivot];
      for (int32_t b = 0; b < count; b++) {
        left[a][b] -= times * left[pivot][b];
        inverse[a][b] -= times * inverse[pivot][b];
      }
    }
  }
  for (int32_t a = 0; a < count; a++)
    for (int32_t b = 0; b < count; b++) inverse[a][b] *= scale[a] * scale[b];
  return true;
}

/* ---- One ascent ------------------------------------------------------------------------------ */

static double clamp(double value, double low, double high) {
  return fmin(fmax(value, low), high);
}

/* Finds the movable parameters: free, and not pressed against a bound by the score. */
static void find_movable(const roi *r, const double *parameters, const evaluation *now,
                         bool *movable) {
  for (int32_t a = 0; a < r->count; a++) {
    movable[a] = r->is_free[a] && !(parameters[a] <= r->lower[a] && now->score[a] <= 0) &&
                 !(parameters[a] >= r->upper[a] && now->score[a] >= 0);
  }
}

/* The longest step for parameter `a`; it keeps early steps sensible. */
static double longest_step(const roi *r, int32_t a, double value) {
  bool has_z = compute_fit_has_z(r->problem.model);
  if (a < 2) return 1;
  if (r->problem.model == COMPUTE_FIT_SPLINE && a == 2)
    return r->problem.cells[0] * r->problem.z_step / 6;
  if (has_z && a == 2) return r->problem.depth / 2;
  if (!has_z && a >= 4) return value / 2;
  return value;
}

/* Climbs from `parameters` until nothing moves. Returns true if it converged. */
static bool climb(const roi *r, bool squares, double *parameters, double *objective) {
  evaluation now, next;
  double damping = 1e-3;
  evaluate(r, parameters, squares, &now);
  for (int step = 0; step < 2000; step++) {
    double matrix[MOST][MOST], inverse[MOST][MOST], candidate[MOST];
    bool movable[MOST], rests = true;
    find_movable(r, parameters, &now, movable);
    memcpy(matrix, now.information, sizeof matrix);
    for (int32_t a = 0; a < r->count; a++) matrix[a][a] = matrix[a][a] * (1 + damping) + DBL_MIN;
    *objective = now.objective;
    if (!invert(r->count, (const double(*)[MOST])matrix, movable, inverse)) {
      if (damping > 1e6) return false;
      damping = damping * 10 + 1e-6;
      continue;
    }
    for (int32_t a = 0; a < r->count; a++) {
      double change = 0, most = longest_step(r, a, parameters[a]);
      for (int32_t b = 0; b < r->count; b++) change += inverse[a][b] * now.score[b];
      candidate[a] =
          movable[a] ? clamp(parameters[a] + clamp(change, -most, most), r->lower[a], r->upper[a])
                     : parameters[a];
      double moved = fabs(candidate[a] - parameters[a]);
      rests = rests &&
              moved * (1 + damping) <= 1e-9 * sqrt(inverse[a][a]) + 1e-13 * fabs(parameters[a]);
    }
    evaluate(r, candidate, squares, &next);
    /* Differences below rounding count as none; otherwise the last digits would never be
     * reached. */
    bool accepted = next.objective >= now.objective - 1e-13 * (1 + fabs(now.objective));
    if (accepted) {
      memcpy(parameters, candidate, sizeof candidate);
      now = next;
      *objective = now.objective;
      if (rests && damping < 100) return true;
    }
    damping = accepted ? fmax(damping / 10, 1e-12) : damping * 10;
    if (damping > 1e15) return true;
  }
  return false;
}

/* ---- Starts ---------------------------------------------------------------------------------- */

/* Estimates the background from the darkest border line and the rest from the light above it. */
static void estimate(const roi *r, double *start) {
  int32_t rows = r->problem.rows, columns = r->problem.columns;
  bool has_z = compute_fit_has_z(r->problem.model);
  double background = INFINITY, sum = 0, total = 0, x = 0, y = 0;
  for (int side = 0; side < 4; side++) {
    double line = 0, count = 0;
    for (int32_t i = 0; i < rows * columns; i++) {
      int32_t row = i / columns, column = i % columns;
      bool on = side == 0   ? row == 0
                : side == 1 ? row == rows - 1
                : side == 2 ? column == 0
                            : column == columns - 1;
      if (!on || !r->uses[i]) continue;
      line += r->electrons[i] - r->extra[i];
      count++;
    }
    if (count > 0) background = fmin(background, line / count);
  }
  background = isfinite(background) ? fmax(background, COMPUTE_FIT_LEAST_PHOTONS)
                                    : COMPUTE_FIT_LEAST_PHOTONS;
  for (int32_t i = 0; i < rows * columns; i++) {
    double light = r->electrons[i] - r->extra[i] - background;
    if (!r->uses[i]) continue;
    total += light;
    if (light <= 0) continue;
    sum += light;
    x += light * (i % columns);
    y += light * (i / columns);
  }
  start[0] = sum > 0 ? x / sum : 0.5 * (columns - 1);
  start[1] = sum > 0 ? y / sum : 0.5 * (rows - 1);
  start[2] = 0;
  start[has_z ? 3 : 2] = fmax(fmax(total, sum / 8), COMPUTE_FIT_LEAST_PHOTONS);
  start[has_z ? 4 : 3] = background;
  if (!has_z) {
    start[4] =
        r->problem.model == COMPUTE_FIT_XYNBS ? sqrt(r->sigma[0] * r->sigma[1]) : r->sigma[0];
    start[5] = r->sigma[1];
  }
}

/* Chooses start number `index`; returns false if there are no more. The first is the estimate. The
 * others vary the free parameters that have several optima. */
static bool choose_start(const roi *r, int index, double *start) {
  static const double widths[] = {1, 0.6, 1.7}, depths[] = {0, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5};
  const compute_fit_problem *p = &r->problem;
  bool has_z = compute_fit_has_z(p->model);
  int places = 2, shapes = has_z ? 7 + p->z_start_count : p->model == COMPUTE_FIT_XYNB ? 1 : 3;
  if (index >= places * shapes) return false;
  int shape = index / places;
  double given[MOST];
  estimate(r, start);
  memcpy(given, start, sizeof given);
  for (int32_t a = 0; a < r->count; a++)
    if (!isnan(r->start[a])) start[a] = given[a] = r->start[a];
  if (index % places == 1) { /* the middle instead of the centre of mass */
    start[0] = 0.5 * (p->columns - 1);
    start[1] = 0.5 * (p->rows - 1);
  }
  if (p->model == COMPUTE_FIT_SPLINE)
    start[2] = p->z_first + p->cells[0] * p->z_step * (shape % 7 + 0.5) / 7;
  else if (has_z && shape > 0)
    start[2] = shape < 7 ? depths[shape] * p->depth : p->z_start[shape - 7];
  for (int32_t a = 4; !has_z && a < r->count; a++) start[a] *= widths[shape];
  for (int32_t a = 0; a < r->count; a++)
    start[a] = clamp(r->is_free[a] ? start[a] : given[a], r->lower[a], r->upper[a]);
  return true;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void all_nan(fit_reference_result *result, compute_fit_status status) {
  memset(result, 0, sizeof *result);
  result->status = status;
  for (int a = 0; a < MOST; a++) result->parameters[a] = result->std[a] = NAN;
  for (int a = 0; a < MOST * MOST; a++) result->covariance[a] = NAN;
  result->ratio = result->p_raw = result->p_value = result->significance = NAN;
}

static bool fill_bound(const roi *r, const evaluation *at, double *std, double *covariance) {
  double inverse[MOST][MOST];
  if (!invert(r->count, (const double(*)[MOST])at->information, r->is_free, inverse)) return false;
  for (int32_t a = 0; a < r->count; a++) {
    if (std) std[a] = sqrt(r->factor * inverse[a][a]);
    for (int32_t b = 0; b < r->count && covariance; b++)
      covariance[a * r->count + b] = r->factor * inverse[a][b];
  }
  return true;
}

static void fill_probabilities(const roi *r, fit_reference_result *result) {
  static double image[FIT_REFERENCE_PIXELS];
  bool gamma = r->problem.camera == COMPUTE_FIT_EMCCD;
  double freedom = r->used - r->free_count, deviance = -2 * result->ratio;
  double mean = -r->factor * r->free_count;
  double variance = -2 * r->factor * r->factor * r->free_count;
  double slope = 0, curvature = 0;
  if (freedom <= 0) return;
  int32_t background = compute_fit_has_z(r->problem.model) ? 4 : 3;
  bool faint = result->parameters[background] < 8;
  double spread = result->std[background]; /* 0 if it is fixed */
  fit_reference_image(&r->problem, r->sigma, result->parameters, image, NULL);
  for (int32_t i = 0; i < r->problem.rows * r->problem.columns; i++) {
    double pixel_mean, pixel_variance;
    if (!r->uses[i]) continue;
    fit_reference_moments(gamma, image[i] + r->extra[i], &pixel_mean, &pixel_variance);
    mean += pixel_mean;
    variance += pixel_variance;
    if (!faint) continue;
    fit_reference_moment_slopes(gamma, image[i] + r->extra[i], &pixel_mean, &pixel_variance);
    slope += pixel_mean;
    curvature += pixel_variance;
  }
  /* Corrects for the estimation error of a faint background: see kernels/fit_moments.h. */
  mean -= curvature / 2 * spread * spread;
  variance -= slope * slope * spread * spread;
  double scale = variance / (2 * mean), degrees = 2 * mean * mean / variance;
  result->p_raw = fit_reference_upper_gamma(freedom / 2, deviance / r->factor / 2);
  if (mean > 0 && variance > 0)
    result->p_value = fit_reference_upper_gamma(degrees / 2, deviance / (2 * scale));
}

/* The derivative of the likelihood with respect to a flat background. */
static double flat_slope(const roi *r, double flat) {
  double slope = 0;
  for (int32_t i = 0; i < r->problem.rows * r->problem.columns; i++)
    if (r->uses[i]) slope += r->electrons[i] / (flat + r->extra[i]) - 1;
  return slope;
}

/* The likeliest flat background within its bounds, by bisection: the slope falls monotonically. */
static double find_flat(const roi *r, int32_t background, const double *parameters) {
  double low = r->lower[background], high = fmin(r->upper[background], 1e9);
  if (!r->is_free[background]) return parameters[background];
  for (int round = 0; round < 200; round++) {
    const double middle = 0.5 * (low + high);
    if (flat_slope(r, middle) > 0)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static double find_significance(const roi *r, const double *parameters) {
  static double image[FIT_REFERENCE_PIXELS];
  const double flat = find_flat(r, compute_fit_has_z(r->problem.model) ? 4 : 3, parameters);
  double sum = 0;
  fit_reference_image(&r->problem, r->sigma, parameters, image, NULL);
  for (int32_t i = 0; i < r->problem.rows * r->problem.columns; i++) {
    const double mean = image[i] + r->extra[i], level = flat + r->extra[i];
    if (r->uses[i]) sum += r->electrons[i] * log(mean / level) - mean + level;
  }
  return sqrt(fmax(2 * sum / r->factor, 0));
}

static void fill(const roi *r, const double *parameters, compute_fit_status status,
                 fit_reference_result *result) {
  evaluation at;
  all_nan(result, status);
  result->used = r->used;
  result->free_count = r->free_count;
  memcpy(result->parameters, parameters, (size_t)r->count * sizeof *parameters);
  evaluate(r, parameters, false, &at);
  result->ratio = at.objective;
  result->significance = find_significance(r, parameters);
  if (fill_bound(r, &at, result->std, result->covariance))
    fill_probabilities(r, result);
  else
    result->status = COMPUTE_FIT_SINGULAR;
}

void fit_reference_at(const compute_fit_problem *problem, const double *pixels,
                      const fit_reference_inputs *inputs, const double *parameters,
                      fit_reference_result *result) {
  static roi r;
  if (read_roi(problem, pixels, inputs, &r))
    fill(&r, parameters, COMPUTE_FIT_CONVERGED, result);
  else
    all_nan(result, COMPUTE_FIT_BAD_DATA);
}

bool fit_reference_bound(const compute_fit_problem *problem, const fit_reference_inputs *inputs,
                         const double *parameters, double *std, double *covariance) {
  static roi r;
  evaluation at;
  if (!read_roi(problem, NULL, inputs, &r)) return false;
  evaluate(&r, parameters, false, &at);
  return fill_bound(&r, &at, std, covariance);
}

void fit_reference(const compute_fit_problem *problem, const double *pixels,
                   const fit_reference_inputs *inputs, fit_reference_result *result) {
  static roi r;
  bool squares = problem->solver == COMPUTE_FIT_LEAST_SQUARES, best_rests = false;
  double best[MOST] = {0}, parameters[MOST] = {0}, best_objective = -INFINITY, objective;
  if (!read_roi(problem, pixels, inputs, &r)) {
    all_nan(result, COMPUTE_FIT_BAD_DATA);
    return;
  }
  for (int index = 0; choose_start(&r, index, parameters); index++) {
    bool rests = climb(&r, squares, parameters, &objective);
    double better = 1e-9 * (1 + fabs(objective));
    if (objective <= best_objective + better) continue;
    memcpy(best, parameters, sizeof best);
    best_objective = objective;
    best_rests = rests;
  }
  bool at_bound = false;
  for (int32_t a = 0; a < r.count; a++)
    at_bound = at_bound || (r.is_free[a] && (best[a] <= r.lower[a] || best[a] >= r.upper[a]));
  fill(&r, best,
       !best_rests ? COMPUTE_FIT_MAX_ITERATIONS
       : at_bound  ? COMPUTE_FIT_AT_BOUND
                   : COMPUTE_FIT_CONVERGED,
       result);
}
