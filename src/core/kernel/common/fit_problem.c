/* SPDX-License-Identifier: MIT */
/* Checks fit problems in one place, for the graph builder, descriptors and fitters. So a backend
 * can rely on every number in a problem. */
#include "core/kernel/common/fit_problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_ITERATIONS    10000
#define DEFAULT_ITERATIONS 40
#define NEWTON_ITERATIONS  20
#define DEFAULT_EPSILON    0.01
#define SPLINE_Z_STARTS    3

/* Outputs that COMPUTE_FIT_READOUT does not support. */
enum { TESTS = COMPUTE_FIT_RATIO | COMPUTE_FIT_P_RAW | COMPUTE_FIT_P_VALUE };

enum { MAPS = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN | COMPUTE_FIT_WITH_VARIANCE };

/* ---- Names --------------------------------------------------------------------------------- */

const char *fit_model_name(compute_fit_model model) {
  static const char *const names[] = {"XYNB", "XYNBS", "XYNBSXSY", "XYZNB", "SPLINE"};
  return (unsigned)model < COMPUTE_FIT_MODEL_COUNT ? names[model] : NULL;
}

const char *fit_solver_name(compute_fit_solver solver) {
  static const char *const names[] = {"Fisher scoring", "diagonal Newton", "Levenberg-Marquardt",
                                      "least squares"};
  return (unsigned)solver <= COMPUTE_FIT_LEAST_SQUARES ? names[solver] : NULL;
}

const char *fit_camera_name(compute_fit_camera camera) {
  static const char *const names[] = {"ideal", "EMCCD", "sCMOS", "readout"};
  return (unsigned)camera <= COMPUTE_FIT_READOUT ? names[camera] : NULL;
}

const char *fit_input_name(int32_t number) {
  static const char *const names[FIT_INPUTS] = {"corners", "offset", "gain",  "variance", "mask",
                                                "sigma",   "start",  "lower", "upper",    "spline"};
  return number >= 0 && number < FIT_INPUTS ? names[number] : NULL;
}

compute_dtype fit_input_dtype(int32_t number) {
  const uint32_t bit = UINT32_C(1) << number;
  return bit == COMPUTE_FIT_WITH_CORNERS ? COMPUTE_I32
         : bit == COMPUTE_FIT_WITH_MASK  ? COMPUTE_U8
                                         : COMPUTE_F32;
}

/* ---- Counting ------------------------------------------------------------------------------ */

int32_t fit_problem_free_count(const compute_fit_problem *problem) {
  return compute_fit_parameter_count(problem->model) - __builtin_popcount(problem->fixed);
}

int32_t fit_input_index(uint32_t inputs, uint32_t bit) {
  return (inputs & bit) != 0 ? 1 + __builtin_popcount(inputs & (bit - 1)) : -1;
}

/* ---- The check ----------------------------------------------------------------------------- */

/* Buffer for the reason of a failed check. */
typedef struct explanation {
  char *text;
  size_t bytes;
} explanation;

COMPUTE_PRINTF(2, 3)
static bool refuse(const explanation *why, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (why->bytes > 0) vsnprintf(why->text, why->bytes, format, list);
  va_end(list);
  return false;
}

static bool check_choices(const compute_fit_problem *p, const explanation *why) {
  if (!fit_model_name(p->model)) return refuse(why, "model: unknown model %d", (int)p->model);
  if ((unsigned)p->profile > COMPUTE_FIT_SAMPLED)
    return refuse(why, "profile: unknown profile %d", (int)p->profile);
  if (!fit_solver_name(p->solver)) return refuse(why, "solver: unknown solver %d", (int)p->solver);
  if (!fit_camera_name(p->camera)) return refuse(why, "camera: unknown camera %d", (int)p->camera);
  return true;
}

static bool check_numbers(const compute_fit_problem *p, const explanation *why) {
  if (p->rows < 1 || p->rows > COMPUTE_FIT_MAX_SIDE || p->columns < 1 ||
      p->columns > COMPUTE_FIT_MAX_SIDE)
    return refuse(why, "rows, columns: an ROI of %d × %d; each side must be 1 to %d", (int)p->rows,
                  (int)p->columns, COMPUTE_FIT_MAX_SIDE);
  if (p->iterations < 0 || p->iterations > MOST_ITERATIONS)
    return refuse(why, "iterations: %d; must be 1 to %d, or 0 for the default", (int)p->iterations,
                  MOST_ITERATIONS);
  if (!(p->epsilon >= 0) || isinf(p->epsilon))
    return refuse(why, "epsilon: %g; must be positive, or 0 for the default", p->epsilon);
  if ((p->outputs & ~(uint32_t)COMPUTE_FIT_ALL_OUTPUTS) != 0)
    return refuse(why, "outputs: 0x%" PRIx32 " has unknown bits", p->outputs);
  if ((p->inputs & ~(uint32_t)COMPUTE_FIT_WITH_ALL) != 0)
    return refuse(why, "inputs: 0x%" PRIx32 " has unknown bits", p->inputs);
  if ((p->flags & ~(uint32_t)COMPUTE_FIT_STACK) != 0)
    return refuse(why, "flags: 0x%" PRIx32 " has unknown bits", p->flags);
  if (p->unused != 0) return refuse(why, "unused: %" PRIu32 "; must be 0", p->unused);
  return true;
}

static bool check_camera(const compute_fit_problem *p, const explanation *why) {
  const uint32_t maps = p->inputs & MAPS;
  if (!isfinite(p->offset)) return refuse(why, "offset: %g; must be finite", p->offset);
  if (!(p->gain >= 0) || isinf(p->gain))
    return refuse(why, "gain: %g; must be positive, or 0 for 1", p->gain);
  if (!(p->em_gain >= 0) || isinf(p->em_gain))
    return refuse(why, "em_gain: %g; must be positive, or 0 for 1", p->em_gain);
  if (!(p->variance >= 0) || isinf(p->variance))
    return refuse(why, "variance: %g; must not be negative", p->variance);
  if (p->camera == COMPUTE_FIT_IDEAL &&
      (maps != 0 || p->offset != 0 || (p->gain != 0 && p->gain != 1)))
    return refuse(why,
                  "camera: an ideal camera has neither offset nor gain; choose EMCCD, sCMOS or "
                  "readout");
  if (p->camera != COMPUTE_FIT_EMCCD && p->em_gain != 0 && p->em_gain != 1)
    return refuse(why, "em_gain: only an EMCCD has one");
  const bool reads = p->camera == COMPUTE_FIT_SCMOS || p->camera == COMPUTE_FIT_READOUT;
  if (!reads && (p->variance != 0 || maps & COMPUTE_FIT_WITH_VARIANCE))
    return refuse(why, "variance: only the cameras sCMOS and readout have one");
  if (p->camera != COMPUTE_FIT_READOUT) return true;
  if (p->solver == COMPUTE_FIT_NEWTON)
    return refuse(why,
                  "solver: %s is not for the camera readout, which has Fisher scoring, "
                  "Levenberg-Marquardt and least squares",
                  fit_solver_name(p->solver));
  if ((p->outputs & TESTS) != 0)
    return refuse(why, "outputs: the camera readout has neither log-likelihood ratio nor p-values, "
                       "whose distribution is not known for it; sCMOS has them");
  return true;
}

static bool check_finite(const double *values, int count, const char *name,
                         const explanation *why) {
  for (int i = 0; i < count; i++)
    if (!isfinite(values[i])) return refuse(why, "%s[%d]: %g; must be finite", name, i, values[i]);
  return true;
}

static bool check_z_starts(const compute_fit_problem *p, const explanation *why) {
  if (p->z_start_count < 0 || p->z_start_count > COMPUTE_FIT_MAX_Z_STARTS)
    return refuse(why, "z_start_count: %d; must be 0 to %d", (int)p->z_start_count,
                  COMPUTE_FIT_MAX_Z_STARTS);
  return check_finite(p->z_start, p->z_start_count, "z_start", why);
}

static bool check_widths(const compute_fit_problem *p, const explanation *why) {
  if (!(p->sigma[0] > 0) || isinf(p->sigma[0]))
    return refuse(why, "sigma[0]: %g; must be positive", p->sigma[0]);
  if (!(p->sigma[1] >= 0) || isinf(p->sigma[1]))
    return refuse(why, "sigma[1]: %g; must be positive, or 0 for sigma[0]", p->sigma[1]);
  if (p->model != COMPUTE_FIT_XYZNB) return true;
  if (!(p->depth > 0) || isinf(p->depth))
    return refuse(why, "depth: %g; must be positive", p->depth);
  return check_finite(&p->gamma, 1, "gamma", why) && check_finite(p->a, 2, "a", why) &&
         check_finite(p->b, 2, "b", why) && check_z_starts(p, why);
}

static bool check_spline(const compute_fit_problem *p, const explanation *why) {
  const int32_t *cells = p->cells;
  if (p->profile != COMPUTE_FIT_INTEGRATED)
    return refuse(why, "profile: only Gaussians can be sampled; SPLINE is what a camera sees");
  if (p->solver == COMPUTE_FIT_NEWTON)
    return refuse(why,
                  "solver: %s is for Gaussians; SPLINE has Fisher scoring, "
                  "Levenberg-Marquardt and least squares",
                  fit_solver_name(p->solver));
  if ((p->inputs & COMPUTE_FIT_WITH_SIGMA) != 0) return refuse(why, "inputs: SPLINE has no sigma");
  if (cells[0] < 1 || cells[0] > COMPUTE_FIT_MAX_PLANES || cells[3] != 0)
    return refuse(why, "cells: %d planes; must be 1 to %d, and cells[3] 0", (int)cells[0],
                  COMPUTE_FIT_MAX_PLANES);
  if (cells[1] > COMPUTE_FIT_MAX_CELLS || cells[2] > COMPUTE_FIT_MAX_CELLS)
    return refuse(why, "cells: %d × %d rows and columns; at most %d", (int)cells[1], (int)cells[2],
                  COMPUTE_FIT_MAX_CELLS);
  if (cells[1] < p->rows || cells[2] < p->columns)
    return refuse(why, "cells: a spline of %d × %d cells does not cover an ROI of %d × %d",
                  (int)cells[1], (int)cells[2], (int)p->rows, (int)p->columns);
  if (!(p->z_step > 0) || isinf(p->z_step))
    return refuse(why, "z_step: %g; must be positive", p->z_step);
  return check_finite(&p->z_first, 1, "z_first", why) && check_finite(p->spot, 2, "spot", why) &&
         check_z_starts(p, why);
}

/* Checks the model of the spots. */
static bool check_shape(const compute_fit_problem *p, const explanation *why) {
  if (p->model == COMPUTE_FIT_SPLINE) return check_spline(p, why);
  if ((p->inputs & COMPUTE_FIT_WITH_SPLINE) != 0)
    return refuse(why, "inputs: only SPLINE has a spline");
  return check_widths(p, why);
}

/* Restricts bounds along x or y to positions where the spline covers the ROI. */
static void cover_bounds(const compute_fit_problem *p, int32_t parameter, double *lower,
                         double *upper) {
  const int32_t pixels = parameter == 0 ? p->columns : p->rows;
  const int32_t cells = parameter == 0 ? p->cells[2] : p->cells[1];
  const double least = pixels - 1 + p->spot[parameter] - cells;
  if (least > *lower) *lower = least;
  if (p->spot[parameter] < *upper) *upper = p->spot[parameter];
}

/* The bounds that always apply. */
void fit_problem_usual_bounds(const compute_fit_problem *p, int32_t parameter, double *lower,
                              double *upper) {
  const bool has_z = compute_fit_has_z(p->model), spline = p->model == COMPUTE_FIT_SPLINE;
  const int32_t light = has_z ? 3 : 2; /* N, then bg */
  *upper = (double)INFINITY;
  if (parameter < 2) {
    *lower = -0.5;
    *upper = (parameter == 0 ? p->columns : p->rows) - 0.5;
    if (spline) cover_bounds(p, parameter, lower, upper);
  } else if (spline && parameter == 2) {
    *lower = p->z_first;
    *upper = p->z_first + p->cells[0] * p->z_step;
  } else if (has_z && parameter == 2) {
    *upper = 2 * p->depth + fabs(p->gamma);
    *lower = -*upper;
  } else if (parameter < light + 2) {
    *lower = COMPUTE_FIT_LEAST_PHOTONS;
  } else {
    *lower = COMPUTE_FIT_LEAST_SIGMA;
    *upper = p->rows > p->columns ? p->rows : p->columns;
  }
}

void fit_problem_bounds(const compute_fit_problem *p, int32_t parameter, double *lower,
                        double *upper) {
  fit_problem_usual_bounds(p, parameter, lower, upper);
  if ((p->lower_set >> parameter & 1) && p->lower[parameter] > *lower) *lower = p->lower[parameter];
  if ((p->upper_set >> parameter & 1) && p->upper[parameter] < *upper) *upper = p->upper[parameter];
}

static bool check_parameters(const compute_fit_problem *p, const explanation *why) {
  const int32_t count = compute_fit_parameter_count(p->model);
  const uint32_t beyond = ~((UINT32_C(1) << count) - 1);
  if (((p->fixed | p->start_set | p->lower_set | p->upper_set) & beyond) != 0)
    return refuse(why, "fixed, start_set, lower_set or upper_set: %s has only %d parameters",
                  fit_model_name(p->model), (int)count);
  if (fit_problem_free_count(p) == 0)
    return refuse(why, "fixed: every parameter is fixed, so nothing is left to fit");
  for (int32_t i = 0; i < count; i++) {
    double lower, upper;
    const uint32_t bit = UINT32_C(1) << i;
    fit_problem_bounds(p, i, &lower, &upper);
    if ((p->start_set & bit) && !isfinite(p->start[i]))
      return refuse(why, "start[%d]: %g; must be finite", (int)i, p->start[i]);
    if ((p->lower_set & bit) && isnan(p->lower[i]))
      return refuse(why, "lower[%d]: must not be NaN", (int)i);
    if ((p->upper_set & bit) && isnan(p->upper[i]))
      return refuse(why, "upper[%d]: must not be NaN", (int)i);
    if (lower > upper)
      return refuse(
          why, "lower[%d], upper[%d]: with the default bounds the range from %g to %g is empty",
          (int)i, (int)i, lower, upper);
  }
  return true;
}

bool fit_problem_check(const compute_fit_problem *p, char *reason, size_t reason_bytes) {
  const explanation why = {reason, reason_bytes};
  return check_choices(p, &why) && check_numbers(p, &why) && check_camera(p, &why) &&
         check_shape(p, &why) && check_parameters(p, &why);
}

/* ---- The form for backends ----------------------------------------------------------------- */

static void keep_set(const double *from, uint32_t set, double *to) {
  for (int i = 0; i < COMPUTE_FIT_MAX_PARAMETERS; i++) to[i] = set >> i & 1 ? from[i] : 0;
}

/* The caller passes the spline as an input. There must always be start values for z. */
static void normalize_spline(compute_fit_problem *n) {
  n->sigma[0] = n->sigma[1] = 1;
  n->inputs |= COMPUTE_FIT_WITH_SPLINE;
  if (n->z_start_count > 0 || (n->start_set >> 2 & 1)) return;
  n->z_start_count = SPLINE_Z_STARTS;
  for (int32_t i = 0; i < SPLINE_Z_STARTS; i++)
    n->z_start[i] = n->z_first + n->cells[0] * n->z_step * (2 * i + 1) / (2 * SPLINE_Z_STARTS);
}

compute_fit_problem fit_problem_normalize(const compute_fit_problem *p) {
  compute_fit_problem n = *p;
  if (n.iterations == 0)
    n.iterations = n.solver == COMPUTE_FIT_NEWTON ? NEWTON_ITERATIONS : DEFAULT_ITERATIONS;
  if (n.outputs == 0)
    n.outputs = n.camera == COMPUTE_FIT_READOUT ? COMPUTE_FIT_USUAL_OUTPUTS & ~TESTS
                                                : COMPUTE_FIT_USUAL_OUTPUTS;
  if (!(n.epsilon > 0)) n.epsilon = DEFAULT_EPSILON;
  if ((n.inputs & COMPUTE_FIT_WITH_CORNERS) == 0) n.flags &= ~(uint32_t)COMPUTE_FIT_STACK;
  keep_set(p->start, p->start_set, n.start);
  keep_set(p->lower, p->lower_set, n.lower);
  keep_set(p->upper, p->upper_set, n.upper);
  if (n.model == COMPUTE_FIT_SPLINE) normalize_spline(&n);
  if (!(n.sigma[1] > 0)) n.sigma[1] = n.sigma[0];
  if (!compute_fit_has_z(n.model)) {
    n.depth = n.gamma = 0;
    memset(n.a, 0, sizeof n.a);
    memset(n.b, 0, sizeof n.b);
    n.z_start_count = 0;
  }
  for (int i = n.z_start_count; i < COMPUTE_FIT_MAX_Z_STARTS; i++) n.z_start[i] = 0;
  if (!(n.gain > 0) || (n.inputs & COMPUTE_FIT_WITH_GAIN)) n.gain = 1;
  if (!(n.em_gain > 0)) n.em_gain = 1;
  if (n.inputs & COMPUTE_FIT_WITH_OFFSET) n.offset = 0;
  if (n.inputs & COMPUTE_FIT_WITH_VARIANCE) n.variance = 0;
  return n;
}

bool fit_problem_is_normal(const compute_fit_problem *p, char *reason, size_t reason_bytes) {
  const explanation why = {reason, reason_bytes};
  if (!fit_problem_check(p, reason, reason_bytes)) return false;
  if (p->outputs != 0 && p->iterations > 0 && p->epsilon > 0 && p->sigma[1] > 0 && p->gain > 0 &&
      p->em_gain > 0)
    return true;
  return refuse(&why, "a default of the problem was not filled in");
}
