/* SPDX-License-Identifier: MIT */
/* The fit of a run of ROIs: groups of FIT_LANES from loading to writing. Compiled once per
 * instruction set and model (core/isa.h), so that the number of parameters is a constant. */
#if defined(CPU_VARIANT_XYNB)
#define FIT_MODEL COMPUTE_FIT_XYNB
#elif defined(CPU_VARIANT_XYNBS)
#define FIT_MODEL COMPUTE_FIT_XYNBS
#elif defined(CPU_VARIANT_XYNBSXSY)
#define FIT_MODEL COMPUTE_FIT_XYNBSXSY
#elif defined(CPU_VARIANT_XYZNB)
#define FIT_MODEL COMPUTE_FIT_XYZNB
#elif defined(CPU_VARIANT_SPLINE)
#define FIT_MODEL COMPUTE_FIT_SPLINE
#endif

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "fit_load.h"
#include "fit_solve.h"
#include "fit_finish.h"

/* Flushes subnormal numbers to 0: processors take hundreds of cycles for them, and the Gaussian's
 * tails are full of them. */
FIT_INLINE uint32_t fit_flush_begin(void) {
#if defined(__SSE__)
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  return before;
#else
  return 0;
#endif
}

FIT_INLINE void fit_flush_end(uint32_t before) {
#if defined(__SSE__)
  _mm_setcsr(before);
#else
  (void)before;
#endif
}

/* ---- The workspace ------------------------------------------------------------------------- */

FIT_INLINE void fit_begin(const cpu_fit_job *job, fit_work *work) {
  const compute_fit_problem *problem = job->problem;
  const int64_t pixels = (int64_t)problem->rows * problem->columns;
  vf *planes = (vf *)(work + 1);
  vf **const plane[FIT_PLANES] = {&work->data,   &work->extra, &work->weight,  &work->readout,
                                  &work->offset, &work->gain,  &work->variance};
  for (int i = 0; i < FIT_PLANES; i++) *plane[i] = planes + i * pixels;
  work->job = job;
  work->problem = problem;
  work->rows = problem->rows;
  work->columns = problem->columns;
  work->sampled = problem->profile == COMPUTE_FIT_SAMPLED;
  work->plain = problem->camera == COMPUTE_FIT_IDEAL && !job->mask.data;
  work->has_extra = problem->camera == COMPUTE_FIT_SCMOS;
  work->convolved = problem->camera == COMPUTE_FIT_READOUT;
  work->has_weight = job->mask.data || problem->solver != COMPUTE_FIT_FISHER;
  work->any_held = problem->fixed != 0;
  work->maps_move = fit_maps_move(job);
  work->patience =
      problem->solver == COMPUTE_FIT_FISHER && (!FIT_HAS_Z || problem->z_start_count == 0)
          ? FIT_PATIENCE
          : 0;
  work->waiting_count = 0;
  if (FIT_MODEL == COMPUTE_FIT_SPLINE) {
    work->voxel = (fit_voxel *)(planes + FIT_PLANES * pixels);
    work->parts = (vf *)(work->voxel + pixels);
    memset(work->parts, 0, sizeof(vf) * 4 * FIT_LANES * (size_t)work->columns);
  }
  fit_common_parameters(work);
  for (int64_t p = 0; p < pixels; p++) {
    work->data[p] = v_set(1);
    work->extra[p] = v_set(0);
    work->weight[p] = v_set(1);
    work->readout[p] = v_set(1);
  }
  if (work->maps_move) return;
  fit_place place;
  for (int lane = 0; lane < FIT_LANES; lane++) {
    work->roi[lane] = 0;
    place.pixels[lane] = job->pixels.data;
    place.map_row[lane] = place.map_column[lane] = 0;
  }
  fit_load_maps(work, &place);
}

/* ---- A group ------------------------------------------------------------------------------- */

FIT_INLINE void fit_solve(fit_work *work) {
  work->converged = work->singular = work->active = v_mask(0);
  switch (work->problem->solver) {
  case COMPUTE_FIT_FISHER: fit_by_scoring(work); break;
  case COMPUTE_FIT_NEWTON:
    if (FIT_MODEL != COMPUTE_FIT_SPLINE) fit_by_newton(work); /* for Gaussians only */
    break;
  case COMPUTE_FIT_LEVENBERG_MARQUARDT: fit_by_marquardt(FIT_LIKELIHOOD, work); break;
  case COMPUTE_FIT_LEAST_SQUARES: fit_by_marquardt(FIT_SQUARES, work); break;
  }
}

/* Makes a complete fit from each starting z. The best likelihood wins, but a converged fit always
 * beats an unconverged one. `iterations` counts all steps. */
FIT_INLINE void fit_solve_from_each_z(fit_work *work) {
  const compute_fit_problem *problem = work->problem;
  const fit_path start = work->path;
  vf best[FIT_MOST], best_ratio = v_set(-__builtin_inff()), steps = v_set(0);
  vm converged = v_mask(0), singular = v_mask(0);
  const vm given = v_less(v_abs(work->start[FIT_Z]), v_set(__builtin_inff()));
  memcpy(best, work->path.theta, sizeof best);
  for (int32_t s = 0; s < problem->z_start_count; s++) {
    work->path = start;
    const vf z = v_clamp(v_set((float)problem->z_start[s]), work->low[FIT_Z], work->high[FIT_Z]);
    work->path.theta[FIT_Z] = v_select(given, start.theta[FIT_Z], z);
    fit_solve(work);
    fit_widths widths;
    fit_quality quality;
    work->active = work->alive;
    fit_draw(work, work->path.theta, &widths);
    fit_judge(work, work->path.theta[FIT_N], work->path.theta[FIT_BG], false, &quality);
    const vm newly = v_and_not(work->converged, converged);
    const vm as_well =
        v_and_not(v_less(best_ratio, quality.ratio), v_and_not(converged, work->converged));
    const vm better = v_or(newly, as_well);
    for (int a = 0; a < FIT_COUNT; a++) best[a] = v_select(better, work->path.theta[a], best[a]);
    best_ratio = v_select(better, quality.ratio, best_ratio);
    singular = v_or(v_and_not(singular, better), v_and(work->singular, better));
    converged = v_or(converged, work->converged);
    steps += work->path.steps;
  }
  memcpy(work->path.theta, best, sizeof best);
  work->converged = converged;
  work->singular = singular;
  work->path.steps = steps;
}

/* ---- Waiting lanes --------------------------------------------------------------------------- */

/* Sets unconverged lanes aside. */
FIT_INLINE void fit_put_aside(fit_work *work, uint32_t lanes) {
  const float *path = (const float *)&work->path;
  for (; lanes; lanes &= lanes - 1) {
    const int lane = __builtin_ctz(lanes);
    fit_waiting *waiting = &work->waiting[work->waiting_count++];
    waiting->roi = work->roi[lane];
    for (size_t k = 0; k < FIT_PATH_LENGTH; k++)
      waiting->path[k] = path[k * FIT_LANES + (size_t)lane];
  }
}

/* Forms a group of waiting ROIs; surplus lanes repeat the first. */
FIT_INLINE uint32_t fit_take_up(fit_work *work) {
  const int32_t count = work->waiting_count < FIT_LANES ? work->waiting_count : FIT_LANES;
  float *path = (float *)&work->path;
  work->waiting_count -= count;
  for (int lane = 0; lane < FIT_LANES; lane++) {
    const fit_waiting *waiting = &work->waiting[work->waiting_count + (lane < count ? lane : 0)];
    work->roi[lane] = waiting->roi;
    for (size_t k = 0; k < FIT_PATH_LENGTH; k++)
      path[k * FIT_LANES + (size_t)lane] = waiting->path[k];
  }
  return FIT_ALL_LANES >> (FIT_LANES - count);
}

/* Processes a group from its pixels to the records of its finished lanes. */
FIT_APART void fit_group(fit_work *work, uint32_t lanes, bool resumed) {
  const uint32_t impossible = fit_own_parameters(work, lanes);
  fit_load(work, lanes);
  work->bad = v_or(work->bad, v_mask(impossible));
  work->alive = v_and_not(work->alive, work->bad);
  if (!resumed) fit_start(work, &work->path);
  if (FIT_HAS_Z && work->problem->z_start_count > 0)
    fit_solve_from_each_z(work);
  else
    fit_solve(work);
  const uint32_t aside = work->patience > 0 ? v_bits(work->active) & lanes : 0;
  fit_put_aside(work, aside);
  fit_write(work, lanes & ~aside);
}

FIT_INLINE void fit_resume(fit_work *work) {
  const uint32_t lanes = fit_take_up(work);
  fit_group(work, lanes, true);
}

/* Notes the address of the next group's pixels, if they are contiguous. */
FIT_INLINE void fit_foresee(fit_work *work, int64_t roi, int64_t left) {
  const cpu_fit_job *job = work->job;
  const int64_t bytes = (int64_t)work->rows * work->columns * (job->whole ? 2 : 4);
  work->ahead_bytes = 0;
  if (left <= 0 || job->corners.data || job->pixels.stride[0] != bytes) return;
  work->ahead = job->pixels.data + roi * bytes;
  work->ahead_bytes = bytes * (left < FIT_LANES ? left : FIT_LANES);
}

static void fit_run(const cpu_fit_job *job, int64_t first, int64_t count, void *workspace) {
  fit_work *work = workspace;
  const uint32_t before = fit_flush_begin();
  fit_begin(job, work);
  for (int64_t i = 0; i < count; i += FIT_LANES) {
    const int64_t left = count - i;
    const uint32_t lanes = left < FIT_LANES ? (1u << left) - 1 : FIT_ALL_LANES;
    for (int lane = 0; lane < FIT_LANES; lane++)
      work->roi[lane] = first + i + (lanes >> lane & 1 ? lane : 0);
    fit_foresee(work, first + i + FIT_LANES, left - FIT_LANES);
    fit_group(work, lanes, false);
    while (work->waiting_count >= FIT_LANES) fit_resume(work);
  }
  work->patience = 0;
  while (work->waiting_count > 0) fit_resume(work);
  fit_flush_end(before);
}

static uint64_t workspace_bytes(const compute_fit_problem *problem) {
  return fit_workspace_bytes(problem);
}

const cpu_fit_loops CPU_VARIANT_SYMBOL(cpu_fit) = {
    .lanes = FIT_LANES, .workspace_bytes = workspace_bytes, .fit = fit_run};
