/* SPDX-License-Identifier: MIT */
/* Checks of a simulation's options. */
#include <inttypes.h>
#include <math.h>

#include "core/base/error.h"
#include "core/kernel/common/fit_problem.h"
#include "fit/simulate.h"
#include "fit/spline.h"

#define MOST_PHOTONS  1e12 /* above this, whole numbers of electrons make no difference */
#define MOST_SPOTS    1e8  /* in one frame */
#define MOST_EMITTERS 1000000

static compute_status check_range(const simulation *s, const compute_range *range, double least,
                                  double most, const char *name, const char *operation) {
  if (range->low >= least && range->high <= most && range->low <= range->high) return COMPUTE_OK;
  return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "%s: invalid range %g … %g; it must lie within %g … %g", name, range->low,
                   range->high, least, most);
}

static compute_status check_ranges(const simulation *s, const char *operation) {
  const compute_simulation *g = &s->given;
  const double far = 1e6;
  compute_status status = check_range(s, &g->photons, 0, MOST_PHOTONS, "photons", operation);
  if (!status) status = check_range(s, &g->background, 0, MOST_PHOTONS, "background", operation);
  if (!status && !s->movie) status = check_range(s, &g->position, -far, far, "position", operation);
  if (!status && g->problem.model == COMPUTE_FIT_XYZNB)
    status = check_range(s, &g->z, -far, far, "z", operation);
  if (!status && g->problem.model == COMPUTE_FIT_SPLINE) {
    double low, high;
    fit_problem_usual_bounds(&g->problem, 2, &low, &high);
    status = check_range(s, &g->z, low, high, "z", operation);
  }
  if (!status && (g->sigma.low != 0 || g->sigma.high != 0))
    status = check_range(s, &g->sigma, 1e-3, far, "sigma", operation);
  return status;
}

static compute_status check_maps(const simulation *s, const char *operation) {
  const struct {
    const float *values;
    const char *name;
    float least;
    bool above; /* the value must be greater than `least` */
  } maps[] = {{s->given.offset, "offset", -INFINITY, false},
              {s->given.gain, "gain", 0, true},
              {s->given.variance, "variance", 0, false}};
  const compute_fit_camera camera = s->given.problem.camera;
  const bool reads = camera == COMPUTE_FIT_SCMOS || camera == COMPUTE_FIT_READOUT;
  for (size_t m = 0; m < sizeof maps / sizeof *maps; m++) {
    if (!maps[m].values) continue;
    if (camera == COMPUTE_FIT_IDEAL || (m == 2 && !reads))
      return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "%s: this camera has no such map", maps[m].name);
    for (int64_t i = 0; i < s->rows * s->columns; i++) {
      const float value = maps[m].values[i];
      if (isfinite(value) && (maps[m].above ? value > maps[m].least : value >= maps[m].least))
        continue;
      return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "%s: the map's value at row %" PRId64 ", column %" PRId64 " is %g",
                       maps[m].name, i / s->columns, i % s->columns, (double)value);
    }
  }
  return COMPUTE_OK;
}

static compute_status check_size(simulation *s, const char *operation) {
  const compute_simulation *g = &s->given;
  s->rows = s->movie ? g->frame_rows : g->problem.rows;
  s->columns = s->movie ? g->frame_columns : g->problem.columns;
  /* The noise counts the pixels of a frame in 32 bits. */
  if (s->rows < 1 || s->columns < 1 || s->rows > UINT32_MAX / s->columns)
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "frame_rows, frame_columns: frames of %" PRId64 " × %" PRId64
                     " pixels; must be at least one and fewer than 2^32",
                     s->rows, s->columns);
  return COMPUTE_OK;
}

static compute_status check_emitters(const simulation *s, const char *operation) {
  const compute_simulation *g = &s->given;
  if (g->emitters < 0 || g->emitters > MOST_EMITTERS ||
      (g->emitters > 0 && g->spots > (double)g->emitters))
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "emitters: %" PRId64 "; must be 0 to %d, and not fewer than the %g spots of a "
                     "frame",
                     g->emitters, MOST_EMITTERS, g->spots);
  if (g->blink < 0)
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "blink: %" PRId64 " frames; must not be negative", g->blink);
  if (!(fabs(g->drift[0]) < 1e6 && fabs(g->drift[1]) < 1e6 && fabs(g->drift[2]) < 1e6))
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "drift: %g, %g, %g; must be below a million pixels (or units of z) per frame",
                     g->drift[0], g->drift[1], g->drift[2]);
  if (g->drift[2] != 0 && !compute_fit_has_z(g->problem.model))
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "drift: %g along z; the model has no z", g->drift[2]);
  return COMPUTE_OK;
}

compute_status simulation_check(compute_context *context, const compute_simulation *given,
                                bool movie, const char *operation, simulation *checked) {
  char reason[256];
  *checked = (simulation){.context = context, .movie = movie};
  if (!given)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "simulation is NULL");
  checked->given = *given;
  const compute_status reserved =
      error_if_reserved(context, operation, "simulation", given->reserved);
  if (reserved) return reserved;
  if (given->dtype != COMPUTE_DTYPE_NONE && given->dtype != COMPUTE_F32 &&
      given->dtype != COMPUTE_U16)
    return error_set(context, COMPUTE_ERROR_DTYPE, operation, "pixels must be u16 or f32");
  checked->whole = given->dtype == COMPUTE_U16;

  /* The simulation does not use these options of the fit. */
  compute_fit_problem problem = given->problem;
  problem.solver = COMPUTE_FIT_FISHER;
  problem.iterations = 0;
  problem.epsilon = 0;
  problem.outputs = problem.inputs = problem.flags = 0;
  problem.fixed = problem.start_set = problem.lower_set = problem.upper_set = 0;
  problem.z_start_count = 0;
  if (movie) problem.rows = problem.columns = 1;
  if ((problem.model == COMPUTE_FIT_XYNBS || problem.model == COMPUTE_FIT_XYNBSXSY) &&
      given->sigma.low > 0 && problem.sigma[0] == 0)
    problem.sigma[0] = given->sigma.low;
  if (!fit_problem_check(&problem, reason, sizeof reason))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "problem.%s", reason);
  checked->given.problem = fit_problem_normalize(&problem);
  if (problem.model == COMPUTE_FIT_SPLINE) {
    const compute_status missing =
        spline_check(context, operation, &problem, given->problem.spline);
    if (missing) return missing;
    checked->spline = given->problem.spline;
  }
  checked->parameters = compute_fit_parameter_count(problem.model);

  if (movie && !(given->spots >= 0 && given->spots <= MOST_SPOTS))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "spots: %g in a frame; must be 0 to %g", given->spots, MOST_SPOTS);
  compute_status status = check_size(checked, operation);
  if (!status) status = check_emitters(checked, operation);
  if (!status) status = check_ranges(checked, operation);
  if (!status) status = check_maps(checked, operation);
  return status;
}

compute_status simulation_check_items(const simulation *s, int64_t first, int64_t count,
                                      const char *operation) {
  int64_t last, bytes;
  if (first < 0 || count < 0)
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "first, count: %" PRId64 ", %" PRId64 "; must not be negative", first, count);
  if (__builtin_add_overflow(first, count, &last) ||
      __builtin_mul_overflow(count, s->rows * s->columns * (int64_t)sizeof(float), &bytes))
    return error_set(s->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "count: %" PRId64 " images are too large to address", count);
  return COMPUTE_OK;
}
