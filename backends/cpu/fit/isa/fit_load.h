/* SPDX-License-Identifier: MIT */
/* Transposition: pixels of FIT_LANES regions at different addresses to [pixel][lane]. */
#ifndef CPU_FIT_FIT_LOAD_H
#define CPU_FIT_FIT_LOAD_H

#include "fit_readout.h"
#include "fit_vector.h"
#include "fit_work.h"

typedef enum fit_element { FIT_F32, FIT_U16, FIT_U8 } fit_element;

/* ---- One by one ---------------------------------------------------------------------------- */

FIT_INLINE float fit_element_at(const int element, const unsigned char *at) {
  if (element == FIT_U8) return *at;
  if (element == FIT_U16) {
    uint16_t whole;
    memcpy(&whole, at, sizeof whole);
    return whole;
  }
  float value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* Gathers pixels with any strides. */
FIT_INLINE void fit_gather_any(const int element, const unsigned char *const *from, int64_t row,
                               int64_t column, int32_t rows, int32_t columns, vf *plane) {
  float *to = (float *)plane;
  for (int lane = 0; lane < FIT_LANES; lane++)
    for (int32_t i = 0; i < rows; i++)
      for (int32_t j = 0; j < columns; j++)
        to[((int64_t)i * columns + j) * FIT_LANES + lane] =
            fit_element_at(element, from[lane] + i * row + j * column);
}

/* ---- Four pixels at a time ------------------------------------------------------------------ */

#if FIT_LANES == 16

/* Loads four pixels of lanes j, 4 + j, 8 + j and 12 + j. A masked broadcast load of 16 (or 8) bytes
 * uses only the load ports, not the shuffle port. */
FIT_INLINE vf fit_load_four(const int element, const unsigned char *const *from, int j,
                            int64_t at) {
#define FIT_LOAD(lane) (const void *)(from[lane] + at)
  if (element == FIT_F32) {
    __m512 four = _mm512_castps128_ps512(_mm_loadu_ps(FIT_LOAD(j)));
    four = _mm512_mask_broadcast_f32x4(four, 0x00f0, _mm_loadu_ps(FIT_LOAD(4 + j)));
    four = _mm512_mask_broadcast_f32x4(four, 0x0f00, _mm_loadu_ps(FIT_LOAD(8 + j)));
    return (vf)_mm512_mask_broadcast_f32x4(four, 0xf000, _mm_loadu_ps(FIT_LOAD(12 + j)));
  }
  __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64(FIT_LOAD(j)));
  four = _mm256_mask_broadcastq_epi64(four, 2, _mm_loadl_epi64(FIT_LOAD(4 + j)));
  four = _mm256_mask_broadcastq_epi64(four, 4, _mm_loadl_epi64(FIT_LOAD(8 + j)));
  four = _mm256_mask_broadcastq_epi64(four, 8, _mm_loadl_epi64(FIT_LOAD(12 + j)));
  return (vf)_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(four));
#undef FIT_LOAD
}

/* Transposes each 4 × 4 block of the four vectors. */
FIT_INLINE void fit_turn_four(const vf *four, vf *to) {
  const __m512 a = (__m512)four[0], b = (__m512)four[1], c = (__m512)four[2], d = (__m512)four[3];
  const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)),
                cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)),
                ab2 = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)),
                cd2 = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
  to[0] = (vf)_mm512_unpacklo_pd(ab, cd);
  to[1] = (vf)_mm512_unpackhi_pd(ab, cd);
  to[2] = (vf)_mm512_unpacklo_pd(ab2, cd2);
  to[3] = (vf)_mm512_unpackhi_pd(ab2, cd2);
}

#elif FIT_LANES == 8

/* Loads four pixels of lanes j and 4 + j. */
FIT_INLINE vf fit_load_four(const int element, const unsigned char *const *from, int j,
                            int64_t at) {
  const void *low = from[j] + at, *high = from[4 + j] + at;
  if (element == FIT_F32)
    return (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high),
                                    1);
  const __m128i four = _mm_unpacklo_epi64(_mm_loadl_epi64(low), _mm_loadl_epi64(high));
  return (vf)_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(four));
}

FIT_INLINE void fit_turn_four(const vf *four, vf *to) {
  const __m256 a = (__m256)four[0], b = (__m256)four[1], c = (__m256)four[2], d = (__m256)four[3];
  const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)),
                cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)),
                ab2 = _mm256_castps_pd(_mm256_unpackhi_ps(a, b)),
                cd2 = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
  to[0] = (vf)_mm256_unpacklo_pd(ab, cd);
  to[1] = (vf)_mm256_unpackhi_pd(ab, cd);
  to[2] = (vf)_mm256_unpacklo_pd(ab2, cd2);
  to[3] = (vf)_mm256_unpackhi_pd(ab2, cd2);
}

#endif

#if FIT_LANES >= 8

/* Gathers lines of contiguous pixels, `line` bytes apart. The last four of a line may overlap the
 * four before them, so that nothing past a line is read. */
FIT_INLINE void fit_gather_lines(const int element, const unsigned char *const *from, int64_t line,
                                 int32_t lines, int32_t length, vf *plane) {
  const int64_t size = element == FIT_F32 ? 4 : 2;
  for (int32_t i = 0; i < lines; i++, plane += length)
    for (int32_t j = 0; j < length; j += 4) {
      const int32_t first = j + 4 > length ? length - 4 : j;
      const int64_t at = i * line + first * size;
      vf four[4];
      FIT_UNROLL
      for (int k = 0; k < 4; k++) four[k] = fit_load_four(element, from, k, at);
      fit_turn_four(four, plane + first);
    }
}

#endif

FIT_INLINE void fit_gather_as(const int element, const unsigned char *const *from, int64_t row,
                              int64_t column, int32_t rows, int32_t columns, vf *plane) {
#if FIT_LANES >= 8
  const int64_t size = element == FIT_F32 ? 4 : 2;
  if (column == size && row == columns * size && rows * columns >= 4) {
    fit_gather_lines(element, from, 0, 1, rows * columns, plane);
    return;
  }
  if (column == size && columns >= 4) {
    fit_gather_lines(element, from, row, rows, columns, plane);
    return;
  }
#endif
  fit_gather_any(element, from, row, column, rows, columns, plane);
}

/* The inverse: stores columns of results in records with contiguous columns. */
FIT_INLINE void fit_scatter(const vf *column, int32_t columns, unsigned char *const *to) {
#if FIT_LANES >= 8
  for (int32_t c = 0; columns >= 4 && c < columns; c += 4) {
    const int32_t first = c + 4 > columns ? columns - 4 : c;
    vf four[4];
    fit_turn_four(column + first, four);
    for (int j = 0; j < 4; j++)
      for (int part = 0; part < FIT_LANES / 4; part++)
        memcpy(to[4 * part + j] + 4 * first, (const float *)&four[j] + 4 * part, 16);
  }
  if (columns >= 4) return;
#endif
  for (int lane = 0; lane < FIT_LANES; lane++)
    for (int32_t c = 0; c < columns; c++)
      memcpy(to[lane] + 4 * c, (const float *)&column[c] + lane, 4);
}

/* `row` and `column` are strides in bytes. Lanes with a NULL address read another lane's data. */
FIT_APART void fit_gather(fit_element element, const unsigned char *const *given, int64_t row,
                          int64_t column, int32_t rows, int32_t columns, vf *plane) {
  const unsigned char *from[FIT_LANES], *any = NULL;
  for (int lane = 0; lane < FIT_LANES; lane++)
    if (given[lane]) any = given[lane];
  if (!any) {
    for (int32_t p = 0; p < rows * columns; p++) plane[p] = v_set(1);
    return;
  }
  for (int lane = 0; lane < FIT_LANES; lane++) from[lane] = given[lane] ? given[lane] : any;
  switch (element) {
  case FIT_F32: fit_gather_as(FIT_F32, from, row, column, rows, columns, plane); break;
  case FIT_U16: fit_gather_as(FIT_U16, from, row, column, rows, columns, plane); break;
  case FIT_U8: fit_gather_any(FIT_U8, from, row, column, rows, columns, plane); break;
  }
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* Converts pixels in memory to electrons in [pixel][lane] order. */

/* The start of each lane's ROI: its address in the pixels, its row and column in the maps. */
typedef struct fit_place {
  const unsigned char *pixels[FIT_LANES]; /* NULL: outside */
  int64_t map_row[FIT_LANES], map_column[FIT_LANES];
} fit_place;

/* Returns `false` if the ROI would extend outside. */
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

/* Loads one of the maps; lanes outside read another lane's data. */
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

/* Loads all existing maps. */
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

/* `true` if maps differ between ROIs; otherwise they are loaded once. */
static bool fit_maps_move(const cpu_fit_job *job) {
  const cpu_fit_operand *const maps[] = {&job->offset, &job->gain, &job->variance, &job->mask};
  for (int i = 0; i < 4; i++)
    if (maps[i]->data && (job->corners.data || maps[i]->stride[0] != 0)) return true;
  return false;
}

/* Converts pixels of an ideal camera without a mask, and computes the sums of the border lines. */
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

/* Converts pixels of any camera. Returns the sum of the electrons without the extra variance, or
 * NaN if a value is not finite or not allowed. */
FIT_APART vf fit_convert(fit_work *work, const fit_place *place) {
  const cpu_fit_job *job = work->job;
  const compute_fit_problem *problem = work->problem;
  const int32_t pixels = work->rows * work->columns;
  const bool noisy = problem->camera == COMPUTE_FIT_SCMOS || work->convolved;
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
      /* An infinite gain is invalid: infinity times 0 gives NaN below. */
      electrons = v_select(v_less(zero, gain), electrons, v_set(__builtin_nanf("")));
      if (noisy) {
        extra = job->variance.data ? work->variance[p] : v_set((float)problem->variance);
        extra = v_select(v_less(extra, zero), v_set(__builtin_nanf("")), extra);
      }
      value = v_fma(gain, zero, electrons) + extra;
    }
    if (work->convolved) { /* values below 0 are valid, and the model adds no variance */
      work->readout[p] = v_max(v_select(counted, extra, one), v_set(FIT_READOUT_LEAST));
      value -= extra;
      extra = zero;
    }
    const vf d = v_keep(counted, work->convolved ? value : v_max(value, zero));
    extra = v_select(counted, extra, one);
    work->data[p] = d;
    work->extra[p] = extra;
    used += weight;
    sum += v_keep(counted, v_fma(value, zero, d - extra));
  }
  work->used = used;
  return sum;
}

/* Loads the group's pixels. Lanes whose data cannot be fitted are false in `alive` and true in
 * `bad`. */
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
  /* NaN and infinity are invalid. */
  const vm light = v_and(v_less(v_set(0), sum), v_less(sum, v_set(__builtin_inff())));
  const vm enough = v_less(v_set((float)work->free_count - 0.5f), work->used);
  work->alive = v_and(v_and(light, enough), v_mask(inside & lanes));
  work->bad = v_and_not(v_mask(lanes), work->alive);
}

/* ---- Bounds and starting values -------------------------------------------------------------- */

/* Bounds, widths and starting values: from the problem, per ROI, or from the pixels. */

/* Limits a position so that the spline covers the ROI. */
FIT_INLINE void fit_cover(const compute_fit_problem *problem, int axis, float *low, float *high) {
  const int32_t pixels = axis == FIT_X ? problem->columns : problem->rows;
  const int32_t cells = axis == FIT_X ? problem->cells[2] : problem->cells[1];
  const double spot = problem->spot[axis], least = pixels - 1 + spot - cells;
  if ((float)least > *low) *low = (float)least;
  if ((float)spot < *high) *high = (float)spot;
}

/* The default bounds of parameter `i`, in the public order. */
FIT_INLINE void fit_usual_bounds(const compute_fit_problem *problem, int i, float *low,
                                 float *high) {
  const int inner = fit_inner(i);
  const float largest =
      (float)(problem->rows > problem->columns ? problem->rows : problem->columns);
  if (inner == FIT_X || inner == FIT_Y) {
    *low = -0.5f;
    *high = (float)(inner == FIT_X ? problem->columns : problem->rows) - 0.5f;
    if (FIT_MODEL == COMPUTE_FIT_SPLINE) fit_cover(problem, inner, low, high);
  } else if (FIT_MODEL == COMPUTE_FIT_SPLINE && inner == FIT_Z) {
    *low = (float)problem->z_first;
    *high = (float)(problem->z_first + problem->cells[0] * problem->z_step);
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

/* The problem's values for all ROIs. */
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

/* Sets one parameter of one ROI. Returns `false` if it is impossible. */
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

/* Sets each ROI's values from the inputs. Returns the lanes with impossible values. */
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

/* Electrons without the readout variance, and the weight of the pixel. */
FIT_INLINE vf fit_electrons(const fit_work *work, const int general, int32_t pixel, vf *weight) {
  *weight = general ? work->weight[pixel] : v_set(1);
  return general ? (work->data[pixel] - work->extra[pixel]) * *weight : work->data[pixel];
}

/* The sums of the four border lines, and their counts of unmasked pixels. */
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

/* The smallest mean of the ROI's four border lines: the spot's light can only raise means. */
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

/* Estimates the position by the centre of mass above the background, and the photons above it. */
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

/* Sets the start of the group's fit. */
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
  if (FIT_HAS_Z) theta[FIT_Z] = v_set(0);
  for (int a = 0; a < FIT_COUNT; a++) {
    const vm given = v_less(v_abs(work->start[a]), v_set(__builtin_inff()));
    theta[a] = v_clamp(v_select(given, work->start[a], theta[a]), work->low[a], work->high[a]);
  }
}

#endif
