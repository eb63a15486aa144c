/* SPDX-License-Identifier: MIT */
/* Cubic splines in three dimensions: from values at nodes to coefficients, and their values.
 *
 * Along each axis the spline is the natural one. Its values and slopes at the nodes are computed
 * axis by axis, since operations along different axes commute. Between two nodes they determine the
 * polynomial (Hermite's form). */
#include "fit/spline.h"

#include <inttypes.h>
#include <math.h>

#include "compute/fit.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"

enum { COEFFICIENTS = COMPUTE_FIT_SPLINE_COEFFICIENTS, LEAST_NODES = 2, MOST_NODES = 4097 };

/* ---- From values to coefficients ----------------------------------------------------------- */

/* Values and slopes at the nodes, as eight fields. The bits of a field's number select slopes: bit
 * 0 along x, bit 1 along y, bit 2 along z. */
typedef struct node_fields {
  int64_t size[3], stride[3]; /* x, y, z */
  int64_t count;
  double *field[8];
} node_fields;

/* Slopes of the natural spline through n values: d₀ and dₙ₋₁ from 2 d₀ + d₁ = 3 (v₁ − v₀), the
 * others from dᵢ₋₁ + 4 dᵢ + dᵢ₊₁ = 3 (vᵢ₊₁ − vᵢ₋₁). `work` has room for n. */
static void slopes_along(const double *value, double *slope, int64_t n, int64_t stride,
                         double *work) {
  double before = 0, share = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t low = i > 0 ? i - 1 : 0, high = i < n - 1 ? i + 1 : n - 1;
    const double right = 3 * (value[high * stride] - value[low * stride]);
    const double pivot = (i > 0 && i < n - 1 ? 4 : 2) - share;
    before = (right - before) / pivot;
    share = 1 / pivot;
    work[i] = share;
    slope[i * stride] = before;
  }
  for (int64_t i = n - 1; i-- > 0;) slope[i * stride] -= work[i] * slope[(i + 1) * stride];
}

static void fill_slopes(const node_fields *f, int from, int axis, double *work) {
  const int a = (axis + 1) % 3, b = (axis + 2) % 3;
  const double *value = f->field[from];
  double *slope = f->field[from | 1 << axis];
  for (int64_t i = 0; i < f->size[a]; i++)
    for (int64_t j = 0; j < f->size[b]; j++) {
      const int64_t at = i * f->stride[a] + j * f->stride[b];
      slopes_along(value + at, slope + at, f->size[axis], f->stride[axis], work);
    }
}

/* Converts a cell's 4 × 4 × 4 numbers along one axis, from values and slopes at both ends to powers
 * 0 to 3. */
static void to_powers(double *h, int stride) {
  for (int i = 0; i < COEFFICIENTS; i++) {
    if (i / stride % 4 != 0) continue;
    double *v = h + i;
    const double low = v[0], high = v[stride], at_low = v[2 * stride], at_high = v[3 * stride];
    v[stride] = at_low;
    v[2 * stride] = 3 * (high - low) - 2 * at_low - at_high;
    v[3 * stride] = 2 * (low - high) + at_low + at_high;
  }
}

static void make_cell(const node_fields *f, int64_t at, float *coefficients) {
  double h[COEFFICIENTS];
  for (int i = 0; i < COEFFICIENTS; i++) {
    const int part[3] = {i % 4, i / 4 % 4, i / 16};
    int64_t node = at;
    int field = 0;
    for (int axis = 0; axis < 3; axis++) {
      node += part[axis] % 2 * f->stride[axis];
      field |= part[axis] / 2 << axis;
    }
    h[i] = f->field[field][node];
  }
  for (int stride = 1; stride < COEFFICIENTS; stride *= 4) to_powers(h, stride);
  for (int i = 0; i < COEFFICIENTS; i++) coefficients[i] = (float)h[i];
}

static void make_cells(const node_fields *f, float *coefficients) {
  for (int64_t z = 0; z < f->size[2] - 1; z++)
    for (int64_t y = 0; y < f->size[1] - 1; y++)
      for (int64_t x = 0; x < f->size[0] - 1; x++, coefficients += COEFFICIENTS)
        make_cell(f, z * f->stride[2] + y * f->stride[1] + x, coefficients);
}

static compute_status check_nodes(const compute_context *context, const char *operation,
                                  const int32_t size[3]) {
  for (int i = 0; i < 3; i++)
    if (size[i] < LEAST_NODES || size[i] > MOST_NODES)
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "%d × %d × %d nodes; each must be %d to %d", (int)size[0], (int)size[1],
                       (int)size[2], LEAST_NODES, MOST_NODES);
  return COMPUTE_OK;
}

static compute_status check_finite(const compute_context *context, const char *operation,
                                   const char *name, const float *values, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(values[i]))
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "%s[%" PRId64 "] is %g; must be finite", name, i, (double)values[i]);
  return COMPUTE_OK;
}

compute_status compute_fit_spline_make(compute_context *context, const float *values,
                                       int32_t planes, int32_t rows, int32_t columns,
                                       float *coefficients) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_fit_spline_make";
  compute_status status = COMPUTE_OK;
  if (!values || !coefficients)
    status = error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                       !values ? "values" : "coefficients");
  if (!status) status = check_nodes(context, operation, (const int32_t[3]){planes, rows, columns});
  if (status) return status;
  node_fields f = {.size = {columns, rows, planes},
                   .stride = {1, columns, (int64_t)rows * columns}};
  f.count = (int64_t)planes * rows * columns;
  status = check_finite(context, operation, "values", values, f.count);
  if (status) return status;
  double *work = base_allocate((uint64_t)f.count * 8 + MOST_NODES, sizeof *work);
  if (!work)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a spline of %" PRId64 " nodes", f.count);
  for (int i = 0; i < 8; i++) f.field[i] = work + MOST_NODES + i * f.count;
  for (int64_t i = 0; i < f.count; i++) f.field[0][i] = (double)values[i];
  for (int axis = 0; axis < 3; axis++)
    for (int from = 0; from < 1 << axis; from++) fill_slopes(&f, from, axis, work);
  make_cells(&f, coefficients);
  base_release(work);
  return COMPUTE_OK;
}

/* ---- Values -------------------------------------------------------------------------------- */

compute_status spline_check(const compute_context *context, const char *operation,
                            const compute_fit_problem *problem, const float *coefficients) {
  const int64_t cells = (int64_t)problem->cells[0] * problem->cells[1] * problem->cells[2];
  if (!coefficients)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "problem.spline is NULL");
  return check_finite(context, operation, "problem.spline", coefficients, cells * COEFFICIENTS);
}

void spline_reach(const compute_fit_problem *problem, int axis, double position, int64_t *begin,
                  int64_t *end) {
  const double low = ceil(position - problem->spot[axis]);
  const double high = ceil(position - problem->spot[axis] + problem->cells[2 - axis]);
  if (low > (double)*begin) *begin = low < (double)*end ? (int64_t)low : *end;
  if (high < (double)*end) *end = high > (double)*begin ? (int64_t)high : *begin;
}

/* Returns the cell that contains `at`, or the nearest of 0 … last, and the powers of the position
 * within it. `slope` is the derivative of `at` by the spot's position. */
static int64_t powers(double at, int64_t last, double slope, double power[2][4]) {
  const int64_t cell = at >= (double)last ? last : at > 0 ? (int64_t)at : 0;
  const double t = at - (double)cell;
  for (int i = 0; i < 4; i++) {
    power[0][i] = i == 0 ? 1 : power[0][i - 1] * t;
    power[1][i] = i == 0 ? 0 : i * power[0][i - 1] * slope;
  }
  return cell;
}

void spline_put(const compute_fit_problem *problem, const float *coefficients,
                const double position[3], int64_t rows, int64_t columns, spline_place *place) {
  const int32_t *cells = problem->cells;
  const double depth = (position[2] - problem->z_first) / problem->z_step;
  const int64_t column = powers(problem->spot[0] - position[0], cells[2] - columns, -1, place->x);
  const int64_t row = powers(problem->spot[1] - position[1], cells[1] - rows, -1, place->y);
  const int64_t plane = powers(depth, cells[0] - 1, 1 / problem->z_step, place->z);
  place->columns = cells[2];
  place->first = coefficients + ((plane * cells[1] + row) * cells[2] + column) * COEFFICIENTS;
}

/* Evaluates the polynomial. Each axis uses its powers, or their derivatives if its bit in `by` is
 * set. */
static double polynomial(const spline_place *p, const float *c, int by) {
  double sum = 0;
  for (int k = 0; k < 4; k++)
    for (int j = 0; j < 4; j++)
      for (int i = 0; i < 4; i++)
        sum += (double)*c++ * p->x[by & 1][i] * p->y[by >> 1 & 1][j] * p->z[by >> 2][k];
  return sum;
}

double spline_value(const spline_place *place, int64_t row, int64_t column, double slope[3]) {
  const float *cell = place->first + (row * place->columns + column) * COEFFICIENTS;
  for (int axis = 0; slope && axis < 3; axis++) slope[axis] = polynomial(place, cell, 1 << axis);
  return polynomial(place, cell, 0);
}
