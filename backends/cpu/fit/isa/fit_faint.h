/* What the error of a faint fitted background does to the deviance that is expected: described in
 * kernels/fit_moments.h. A pass over the pixels of its own, which most groups do without. */
#ifndef CPU_FIT_FAINT_H
#define CPU_FIT_FAINT_H

#include "../../../../kernels/fit_moments.h"
#include "fit_curve.h"

/* Slope and curvature of a pixel's mean deviance. */
FIT_INLINE void fit_faint_pixel(const bool gamma, vf m, vf *slope, vf *curvature) {
  const vf x = v_min(m, v_set(FIT_MOMENTS_LARGEST));
  if (gamma) {
    const vf r = v_reciprocal(FIT_GAMMA_SLOPE_BELOW(v_fma, v_set, x));
    *slope = FIT_GAMMA_SLOPE(v_fma, v_set, x) * r;
    *curvature = FIT_GAMMA_CURVATURE(v_fma, v_set, x) * r;
  } else {
    const vf r = v_reciprocal(FIT_POISSON_SLOPE_BELOW(v_fma, v_set, x));
    *slope = FIT_POISSON_SLOPE(v_fma, v_set, x) * r;
    *curvature = FIT_POISSON_CURVATURE(v_fma, v_set, x) * r;
  }
}

/* `spread`: the variance of the background, 0 if it is held fixed. Rows and columns as they are
 * drawn. Lanes that are not faint are left as they are, whatever their neighbours are. */
FIT_APART void fit_faint(const fit_work *work, vf spread, vf *mean, vf *variance) {
  const bool gamma = work->problem->camera == COMPUTE_FIT_EMCCD;
  const vf bg = work->path.theta[FIT_BG];
  const vm faint = v_less(bg, v_set(FIT_MOMENTS_FAINT));
  if (!v_bits(faint)) return;
  vf slopes = v_set(0), curvatures = v_set(0);
  for (int32_t i = 0; i < work->rows; i++) {
    const vf factor = work->path.theta[FIT_N] * work->row[i].e;
    for (int32_t j = 0; j < work->columns; j++) {
      const int32_t p = i * work->columns + j;
      vf m = v_fma(factor, work->column[j].e, bg), slope, curvature;
      vm counted = faint;
      if (!work->plain) {
        m += work->extra[p];
        counted = v_and(faint, v_less(v_set(0), work->weight[p]));
      }
      fit_faint_pixel(gamma, m, &slope, &curvature);
      slopes += v_keep(counted, slope);
      curvatures += v_keep(counted, curvature);
    }
  }
  *mean = v_fnma(curvatures * 0.5f, spread, *mean);
  *variance = v_fnma(slopes * slopes, spread, *variance);
}

#endif
