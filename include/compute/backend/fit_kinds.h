/* SPDX-License-Identifier: MIT */
/** @file
 * The kinds FIT and SPOTS of kernel descriptors: fits of many small images, and spots in frames. A
 * backend may refuse both; then the core computes FIT on the CPU and SPOTS by other kinds.
 *
 * FIT     The space has rank 1: the ROIs. `problem` defines the fit; every 0 that means a default
 *         has been replaced (outputs, iterations, epsilon, sigma[1], gain, em_gain). inputs[0] is
 *         the pixels, U16 or F32: strides over (ROI or frame, row, column). The inputs that
 *         problem.inputs names follow in the order of its bits: corners with strides over (ROI,
 *         3); maps and the mask over (ROI, row, column), the first usually 0; sigma, start and
 *         bounds over (ROI, parameter); the spline dense. outputs[0] is F32 with strides over (ROI,
 *         column of the record). An ROI that would reach outside frames × rows × columns is
 *         BAD_DATA. No programs. An ROI's record depends only on its own inputs, bit for bit.
 *
 * SPOTS   The space is (frame, row, column), at least 3 rows and columns. inputs[0] is the frames,
 *         U16 or F32. outputs[0] is F32 or BOOL. F32: the response of the attributes, the filtered
 *         frame over its noise. BOOL: true where the response reaches the threshold and the
 *         filtered frame is a maximum within `distance` rows and columns: larger than at the
 *         pixels before in row-major order, and no smaller than at those after. Outside the frame
 *         it counts as 0. A NaN there gives false. No programs. The result of a frame depends on
 *         nothing else. */
#ifndef COMPUTE_BACKEND_FIT_KINDS_H
#define COMPUTE_BACKEND_FIT_KINDS_H

#include "compute/backend/kernel_descriptor.h"
#include "compute/fit_model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_fit_attributes {
  compute_fit_problem problem; /**< with every 0 that means a default replaced */
  /** With corners: the number of frames (where the pixels are frames), and the size of frames and
   * maps. */
  int64_t frames, rows, columns;
} compute_fit_attributes;

#define COMPUTE_SPOT_MOST_RADIUS 384

/** Finding spots in frames. Filters are sums of weighted pixels in F32, first along columns, then
 * along rows. Each sum is the middle's product and then, from the nearest pair on, the product of
 * the weight and the sum of two pixels. A frame is continued by its edges.
 * @code
 *   filter 0  b − w(b): b is the frame blurred by a Gaussian of `sigma`, cut off past `radius`, w a
 *             blur by one of `wide_sigma`, cut off past `wide_radius`. Weights are
 *             exp(−i²/2σ²), divided by their sum.
 *   filter 1  the mean of a square of 2 radius + 1 pixels less the mean of one of
 *             2 wide_radius + 1
 * @endcode
 * The noise comes from x = |second difference along columns of the second difference along rows| at
 * the inner pixels of rows 1, 1 + step, … ≤ height − 2, tile by tile (compute_spots_tiles_of):
 * 1. At first, a tile's noise is `first` times the sum of the finite x divided by the number of all
 *   x.
 * 2. Then, `rounds` times, it is `scale` times the root of the mean square of the x ≤ clip · noise,
 *   and never less than `least` times its first value.
 *
 * The smaller of (noise · gain)² and 1e30 is the variance of the filtered frame at the tile's
 * middle. Between middles it is linear along each axis, beyond them constant. Near the frame's
 * edges, which the filter meets several times, the variance is multiplied by the ratio of the noise
 * there to the noise far inside (compute_spots_edges).
 *
 * A response is the filtered pixel over the root of its variance, and 0 where that root is 0. */
typedef struct compute_spots_attributes {
  int32_t filter, distance;    /**< 0 or 1; 1 … COMPUTE_SPOT_MOST_RADIUS */
  int32_t radius, wide_radius; /**< 0 ≤ radius ≤ wide_radius ≤ COMPUTE_SPOT_MOST_RADIUS */
  int64_t step, rounds;        /**< ≥ 1, ≥ 0 */
  double sigma, wide_sigma;    /**< > 0 with filter 0 */
  double threshold;            /**< > 0 */
  double first, clip, scale, least, gain;
  int64_t tile; /**< side in pixels; 0: the whole frame is one */
} compute_spots_attributes;

/** Tiles along one axis of a frame. They have equal sizes and may overlap: tile i begins with
 * sample i (samples − size) / (count − 1), rounded down; its middle is at pixel origin + i ·
 * apart. */
typedef struct compute_spots_tiles {
  int64_t count, size, samples; /**< size: samples in a tile */
  double origin, apart;
} compute_spots_tiles;

/** The tiles along an axis of `pixels` ≥ 3. Every step-th pixel is a sample, from 1 to pixels −
 * 2. */
static inline compute_spots_tiles compute_spots_tiles_of(int64_t pixels, int64_t step,
                                                         int64_t tile) {
  compute_spots_tiles t = {1, 0, (pixels - 3) / step + 1, 0, 1};
  const int64_t wanted = tile / step > 0 ? tile / step : 1;
  t.size = tile == 0 || wanted > t.samples ? t.samples : wanted;
  t.count = (t.samples + t.size - 1) / t.size;
  t.origin = 1 + 0.5 * (double)(step * (t.size - 1));
  if (t.count > 1) t.apart = (double)(step * (t.samples - t.size)) / (double)(t.count - 1);
  return t;
}

static inline int64_t compute_spots_tile_start(const compute_spots_tiles *t, int64_t i) {
  return t->count > 1 ? i * (t->samples - t->size) / (t->count - 1) : 0;
}

/** Noise near the ends of an axis of `pixels` ≥ 2 that is continued by its edges. The filter has 2
 * reach + 1 weights a(y) a(x) − b(y) b(x). Writes to sums[3 pixels], for each pixel, the sums of
 * a², ab and b² over the pixels, with an edge's weights added up. White noise of variance 1 has the
 * variance aa(y) aa(x) − 2 ab(y) ab(x) + bb(y) bb(x). Pixels that are `reach` or more from both
 * ends have the same sums. */
static inline void compute_spots_edges(const double *a, const double *b, int32_t reach,
                                       int64_t pixels, double *sums) {
  for (int64_t i = 0; i < pixels; i++, sums += 3) {
    double edge_a[2] = {0, 0}, edge_b[2] = {0, 0};
    sums[0] = sums[1] = sums[2] = 0;
    for (int64_t k = -(int64_t)reach; k <= reach; k++) {
      const double x = a[reach + k], y = b[reach + k];
      const int side = i + k <= 0 ? 0 : i + k >= pixels - 1 ? 1 : -1;
      if (side >= 0) {
        edge_a[side] += x;
        edge_b[side] += y;
        continue;
      }
      sums[0] += x * x;
      sums[1] += x * y;
      sums[2] += y * y;
    }
    for (int side = 0; side < 2; side++) {
      sums[0] += edge_a[side] * edge_a[side];
      sums[1] += edge_a[side] * edge_b[side];
      sums[2] += edge_b[side] * edge_b[side];
    }
  }
}

/** The attributes of a descriptor of the kind. */
static inline const compute_fit_attributes *
compute_fit_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_fit_attributes *)descriptor->attributes;
}

static inline const compute_spots_attributes *
compute_spots_of(const compute_kernel_descriptor *descriptor) {
  return (const compute_spots_attributes *)descriptor->attributes;
}

#ifdef __cplusplus
}
#endif

#endif
