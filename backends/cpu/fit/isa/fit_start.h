/* Bounds, widths and starting values: as the problem gives them, per ROI, or from the pixels. */
#ifndef CPU_FIT_START_H
#define CPU_FIT_START_H

#include "fit_work.h"

/* The bounds that always apply, in the public order of parameter `i`. */
FIT_INLINE void fit_usual_bounds(const compute_fit_problem *problem, int i, float *low,
                                 float *high) {
  const int inner = fit_inner(i);
  const float largest =
      (float)(problem->rows > problem->columns ? problem->rows : problem->columns);
  if (inner == FIT_X || inner == FIT_Y) {
    *low = -0.5f;
    *high = (float)(inner == FIT_X ? problem->columns : problem->rows) - 0.5f;
  } else if (inner == FIT_N || inner == FIT_BG) {
    *low = (float)COMPUTE_FIT_LEAST_PHOTONS;
    *high = 3e38f;
  } else if (FIT_MODEL == COMPUTE_FIT_XYZNB) {
    *high = (float)(2 * problem->depth + __builtin_fabs(problem->gamma));
    *low = -*high;
  } else {
    *low = (float)COMPUTE_FIT_LEAST_SIGMA;
    *high = largest;
  }
}

static float fit_value_at(const cpu_fit_operand *operand, int64_t roi, int64_t column) {
  float value;
  memcpy(&value, operand->data + roi * operand->stride[0] + column * operand->stride[1],
         sizeof value);
  return value;
}

/* What the problem says for all ROIs. */
FIT_INLINE void fit_common_parameters(fit_work *work) {
  const compute_fit_problem *problem = work->problem;
  work->free_count = 0;
  for (int i = 0; i < FIT_COUNT; i++) {
    const int inner = fit_inner(i);
    float low, high;
    fit_usual_bounds(problem, i, &low, &high);
    if (problem->lower_set >> i & 1 && (float)problem->lower[i] > low)
      low = (float)problem->lower[i];
    if (problem->upper_set >> i & 1 && (float)problem->upper[i] < high)
      high = (float)problem->upper[i];
    work->low[inner] = v_set(low);
    work->high[inner] = v_set(high);
    const bool given = problem->start_set >> i & 1;
    work->start[inner] = v_set(given ? (float)problem->start[i] : __builtin_nanf(""));
    const bool fixed = problem->fixed >> i & 1;
    work->held[inner] = v_mask(fixed ? FIT_ALL_LANES : 0);
    work->free_count += !fixed;
  }
  for (int axis = 0; axis < 2; axis++) work->sigma[axis] = v_set((float)problem->sigma[axis]);
}

/* One parameter of one ROI. False if it is impossible. */
FIT_INLINE bool fit_own_parameter(fit_work *work, int lane, int i, int inner) {
  const cpu_fit_job *job = work->job;
  const int64_t roi = work->roi[lane];
  float low = work->low[inner][lane], high = work->high[inner][lane];
  float start = work->start[inner][lane];
  if (job->lower.data) {
    const float own = fit_value_at(&job->lower, roi, i);
    if (own > low) low = own;
  }
  if (job->upper.data) {
    const float own = fit_value_at(&job->upper, roi, i);
    if (own < high) high = own;
  }
  if (job->start.data) {
    const float own = fit_value_at(&job->start, roi, i);
    if (own == own) start = own;
    if (start != start && (work->problem->fixed >> i & 1)) return false;
  }
  work->low[inner][lane] = low;
  work->high[inner][lane] = high;
  work->start[inner][lane] = start;
  return low <= high;
}

/* What the inputs say for each ROI of the group; lanes for which that is impossible. */
FIT_INLINE uint32_t fit_own_parameters(fit_work *work, uint32_t lanes) {
  const cpu_fit_job *job = work->job;
  if (!job->sigma.data && !job->start.data && !job->lower.data && !job->upper.data) return 0;
  fit_common_parameters(work);
  uint32_t impossible = 0;
  for (int lane = 0; lane < FIT_LANES; lane++) {
    if (!(lanes >> lane & 1)) continue;
    bool possible = true;
    for (int i = 0; i < FIT_COUNT; i++) possible &= fit_own_parameter(work, lane, i, fit_inner(i));
    for (int axis = 0; axis < 2 && job->sigma.data; axis++) {
      const float sigma = fit_value_at(&job->sigma, work->roi[lane], axis);
      const bool usable = sigma > 0 && sigma < __builtin_inff();
      work->sigma[axis][lane] = usable ? sigma : 1;
      possible &= usable;
    }
    impossible |= (uint32_t)!possible << lane;
  }
  return impossible;
}

/* ---- From the pixels ----------------------------------------------------------------------- */

/* Electrons without the readout's variance, and how much the pixel counts. */
FIT_INLINE vf fit_electrons(const fit_work *work, const int general, int32_t pixel, vf *weight) {
  *weight = general ? work->weight[pixel] : v_set(1);
  return general ? (work->data[pixel] - work->extra[pixel]) * *weight : work->data[pixel];
}

/* Sums of the four border lines, and how many pixels of each count. */
FIT_INLINE void fit_border(const fit_work *work, vf *sum, vf *count) {
  const int32_t rows = work->rows, columns = work->columns;
  for (int line = 0; line < 4; line++) {
    const int32_t first = line == 1 ? (rows - 1) * columns : line == 3 ? columns - 1 : 0;
    const int32_t step = line < 2 ? 1 : columns, length = line < 2 ? columns : rows;
    sum[line] = count[line] = v_set(0);
    for (int32_t k = 0; k < length; k++) {
      vf weight;
      sum[line] += fit_electrons(work, 1, first + k * step, &weight);
      count[line] += weight;
    }
  }
}

/* The smallest mean of the ROI's four border lines: light of the spot raises means. */
FIT_INLINE vf fit_background(const fit_work *work, const int general) {
  const vf none = v_set(0);
  vf sum[4], count[4], least = v_set(3e38f);
  if (general) fit_border(work, sum, count);
  for (int line = 0; line < 4; line++) {
    if (!general) {
      const int32_t length = line < 2 ? work->columns : work->rows;
      least = v_min(work->border[line] * v_set(1 / (float)length), least);
      continue;
    }
    const vm counted = v_less(none, count[line]);
    const vf mean = sum[line] * v_reciprocal(v_select(counted, count[line], v_set(1)));
    least = v_select(counted, v_min(mean, least), least);
  }
  if (general) {
    const vf mean = work->light * v_reciprocal(v_max(work->used, v_set(1)));
    least = v_min(least, mean);
  }
  return v_max(least, v_set((float)COMPUTE_FIT_LEAST_PHOTONS));
}

/* Position by the centre of mass above the background, and photons above it. */
FIT_INLINE void fit_estimate_as(const fit_work *work, const int general, vf *theta) {
  const vf none = v_set(0), bg = fit_background(work, general);
  vf mass = none, by_row = none, by_column = none, y = none;
  for (int32_t i = 0; i < work->rows; i++) {
    vf line = none, x = none;
    for (int32_t j = 0; j < work->columns; j++) {
      vf weight;
      const vf d = fit_electrons(work, general, i * work->columns + j, &weight);
      const vf above = v_max(general ? v_fnma(bg, weight, d) : d - bg, none);
      line += above;
      by_column = v_fma(above, x, by_column);
      x += 1;
    }
    mass += line;
    by_row = v_fma(line, y, by_row);
    y += 1;
  }
  const vm some = v_less(none, mass);
  const vf inverse = v_reciprocal(v_select(some, mass, v_set(1)));
  theta[FIT_X] = v_select(some, by_column * inverse, v_set(0.5f * (float)(work->columns - 1)));
  theta[FIT_Y] = v_select(some, by_row * inverse, v_set(0.5f * (float)(work->rows - 1)));
  theta[FIT_N] = v_max(v_fnma(bg, work->used, work->light), mass * 0.125f);
  theta[FIT_BG] = bg;
}

/* Where the fit of the group starts. */
FIT_APART void fit_start(const fit_work *work, fit_path *path) {
  vf *theta = path->theta;
  memset(path, 0, sizeof *path);
  path->stretch = v_set(1);
  if (work->plain)
    fit_estimate_as(work, 0, theta);
  else
    fit_estimate_as(work, 1, theta);
  if (FIT_MODEL == COMPUTE_FIT_XYNBS) theta[FIT_S] = v_sqrt(work->sigma[0] * work->sigma[1]);
  if (FIT_MODEL == COMPUTE_FIT_XYNBSXSY) theta[FIT_SX] = work->sigma[0];
  if (FIT_MODEL == COMPUTE_FIT_XYNBSXSY) theta[FIT_SY] = work->sigma[1];
  if (FIT_MODEL == COMPUTE_FIT_XYZNB) theta[FIT_Z] = v_set(0);
  for (int a = 0; a < FIT_COUNT; a++) {
    const vm given = v_less(v_abs(work->start[a]), v_set(__builtin_inff()));
    theta[a] = v_clamp(v_select(given, work->start[a], theta[a]), work->low[a], work->high[a]);
  }
}

#endif
