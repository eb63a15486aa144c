/* From pixels as they lie in memory to electrons side by side: [pixel][lane]. */
#ifndef CPU_FIT_LOAD_H
#define CPU_FIT_LOAD_H

#include "fit_gather.h"
#include "fit_work.h"

/* Where each lane's ROI begins in the pixels and, in a map of unit strides, in the maps. */
typedef struct fit_place {
  const unsigned char *pixels[FIT_LANES]; /* NULL: nowhere */
  int64_t map_row[FIT_LANES], map_column[FIT_LANES];
} fit_place;

/* False if the ROI would reach outside. */
static bool fit_place_lane(const fit_work *work, int lane, fit_place *place) {
  const cpu_fit_job *job = work->job;
  const int64_t roi = work->roi[lane];
  const bool stack = (work->problem->flags & COMPUTE_FIT_STACK) != 0;
  const bool corners = job->corners.data != NULL;
  int32_t corner[3] = {0, 0, 0};
  place->pixels[lane] = NULL;
  place->map_row[lane] = place->map_column[lane] = 0;
  if (corners) {
    for (int i = 0; i < 3; i++)
      memcpy(&corner[i],
             job->corners.data + roi * job->corners.stride[0] + i * job->corners.stride[1],
             sizeof corner[i]);
    if (corner[1] < 0 || corner[1] + (int64_t)work->rows > job->height || corner[2] < 0 ||
        corner[2] + (int64_t)work->columns > job->width)
      return false;
    if (!stack && (corner[0] < 0 || corner[0] >= job->frames)) return false;
    place->map_row[lane] = corner[1];
    place->map_column[lane] = corner[2];
  }
  const int64_t *stride = job->pixels.stride;
  place->pixels[lane] =
      job->pixels.data +
      (corners && !stack ? corner[0] * stride[0] + corner[1] * stride[1] + corner[2] * stride[2]
                         : roi * stride[0]);
  return true;
}

/* One of the maps; lanes that lie nowhere get 0. */
static void fit_load_map(const fit_work *work, const cpu_fit_operand *map, const bool bytes,
                         const fit_place *place, vf *plane) {
  const unsigned char *from[FIT_LANES];
  for (int lane = 0; lane < FIT_LANES; lane++)
    from[lane] = place->pixels[lane] ? map->data + work->roi[lane] * map->stride[0] +
                                           place->map_row[lane] * map->stride[1] +
                                           place->map_column[lane] * map->stride[2]
                                     : NULL;
  fit_gather(bytes ? FIT_U8 : FIT_F32, from, map->stride[1], map->stride[2], work->rows,
             work->columns, plane);
}

/* All maps that there are. */
static void fit_load_maps(const fit_work *work, const fit_place *place) {
  const cpu_fit_job *job = work->job;
  const int32_t pixels = work->rows * work->columns;
  if (job->offset.data) fit_load_map(work, &job->offset, false, place, work->offset);
  if (job->gain.data) fit_load_map(work, &job->gain, false, place, work->gain);
  if (job->variance.data) fit_load_map(work, &job->variance, false, place, work->variance);
  if (job->mask.data) fit_load_map(work, &job->mask, true, place, work->weight);
  for (int32_t p = 0; p < pixels; p++)
    work->weight[p] = job->mask.data ? v_min(work->weight[p], v_set(1)) : v_set(1);
}

/* Maps that are the same for all ROIs are loaded once. */
static bool fit_maps_move(const cpu_fit_job *job) {
  const cpu_fit_operand *const maps[] = {&job->offset, &job->gain, &job->variance, &job->mask};
  for (int i = 0; i < 4; i++)
    if (maps[i]->data && (job->corners.data || maps[i]->stride[0] != 0)) return true;
  return false;
}

/* Ideal camera, every pixel counts. Sums of the border lines come with it. */
FIT_INLINE vf fit_convert_plain(fit_work *work, const int whole) {
  const int32_t rows = work->rows, columns = work->columns;
  const vf zero = v_set(0);
  vf *data = work->data, sum = zero, left = zero, right = zero, line = zero, poison = zero;
  for (int32_t i = 0; i < rows; i++, data += columns) {
    line = zero;
    for (int32_t j = 0; j < columns; j++) {
      vf d = data[j];
      if (!whole) {
        poison = v_fma(d, zero, poison); /* NaN if any value is not finite */
        d = v_max(d, zero);
        data[j] = d;
      }
      line += d;
    }
    if (i == 0) work->border[0] = line;
    left += data[0];
    right += data[columns - 1];
    sum += line;
  }
  work->border[1] = line;
  work->border[2] = left;
  work->border[3] = right;
  work->used = v_set((float)(rows * columns));
  return sum + poison;
}

/* Any camera: the sum of the electrons without the extra variance, NaN where anything was not
 * finite or not allowed. */
FIT_APART vf fit_convert(fit_work *work, const fit_place *place) {
  const cpu_fit_job *job = work->job;
  const compute_fit_problem *problem = work->problem;
  const int32_t pixels = work->rows * work->columns;
  const bool noisy = problem->camera == COMPUTE_FIT_SCMOS;
  const bool counts = problem->camera != COMPUTE_FIT_IDEAL;
  const vf zero = v_set(0), one = v_set(1);
  const float em = problem->camera == COMPUTE_FIT_EMCCD ? (float)(1 / problem->em_gain) : 1;
  if (work->maps_move) fit_load_maps(work, place);
  vf sum = zero, used = zero;
  for (int32_t p = 0; p < pixels; p++) {
    const vf weight = work->weight[p];
    const vm counted = v_less(zero, weight);
    vf value = v_select(counted, work->data[p], one), extra = zero;
    if (counts) {
      const vf offset = job->offset.data ? work->offset[p] : v_set((float)problem->offset);
      const vf gain = job->gain.data ? work->gain[p] : v_set((float)problem->gain);
      vf electrons = (value - offset) * (gain * em);
      /* Infinity times 0 is NaN. */
      electrons = v_select(v_less(zero, gain), electrons, v_set(__builtin_nanf("")));
      if (noisy) {
        extra = job->variance.data ? work->variance[p] : v_set((float)problem->variance);
        extra = v_select(v_less(extra, zero), v_set(__builtin_nanf("")), extra);
      }
      value = v_fma(gain, zero, electrons) + extra;
    }
    const vf d = v_keep(counted, v_max(value, zero));
    extra = v_select(counted, extra, one);
    work->data[p] = d;
    work->extra[p] = extra;
    used += weight;
    sum += v_keep(counted, v_fma(value, zero, d - extra));
  }
  work->used = used;
  return sum;
}

/* Loads the group's pixels. False bits in `alive` are lanes whose data cannot be fitted. */
FIT_APART void fit_load(fit_work *work, uint32_t lanes) {
  const cpu_fit_job *job = work->job;
  fit_place place;
  uint32_t inside = 0;
  for (int lane = 0; lane < FIT_LANES; lane++)
    inside |= (uint32_t)fit_place_lane(work, lane, &place) << lane;
  fit_gather(job->whole ? FIT_U16 : FIT_F32, place.pixels, job->pixels.stride[1],
             job->pixels.stride[2], work->rows, work->columns, work->data);
  const vf sum = !work->plain ? fit_convert(work, &place)
                 : job->whole ? fit_convert_plain(work, 1)
                              : fit_convert_plain(work, 0);
  work->light = sum;
  /* NaN and infinity are no light. */
  const vm light = v_and(v_less(v_set(0), sum), v_less(sum, v_set(__builtin_inff())));
  const vm enough = v_less(v_set((float)work->free_count - 0.5f), work->used);
  work->alive = v_and(v_and(light, enough), v_mask(inside & lanes));
  work->bad = v_and_not(v_mask(lanes), work->alive);
}

#endif
