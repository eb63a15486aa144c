/* SPDX-License-Identifier: MIT */
/** @file
 * Finding spots in camera frames: a band-pass filter, local maxima, a threshold in units of the
 * noise. Parts of a graph, so that frames stay on the device on which they are fitted. The CPU has
 * a kernel for it; elsewhere, and with COMPUTE_PLAN_NO_FUSION, it is composed of other operations,
 * with the same result apart from rounding. */
#ifndef COMPUTE_SPOTS_H
#define COMPUTE_SPOTS_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum compute_spot_filter {
  COMPUTE_SPOT_GAUSSIANS = 0, /**< a Gaussian of `sigma` less one of 3 sigma */
  COMPUTE_SPOT_BOXES = 1      /**< mean of a square of ~2 sigma less the mean of one of ~8 sigma */
} compute_spot_filter;

typedef struct compute_spot_options {
  compute_spot_filter filter;
  double sigma;     /**< of a spot, in pixels; > 0, at most 50 */
  double threshold; /**< in standard deviations of the filtered background; 0: 4.2 */
  int32_t
      distance;  /**< radius within which a spot must be the maximum; 0: 2 sigma, up; at most 100 */
  int64_t limit; /**< maximum number of spots kept per frame, the brightest; 0: all */
  uint64_t reserved[4]; /**< must be zero */
} compute_spot_options;

/** `frames`: u16 or f32 [n, height, width], at least 3 × 3 pixels, in counts or electrons. Two
 * results:
 * - *response (may be NULL): f32 [n, height, width], the filtered frames divided by the standard
 *   deviation of the noise there after the filter.
 * - The return value: bool of the same shape, true at the spots. Of equal neighbours the first in
 *   row-major order is the spot. `limit` does not apply here.
 *
 * The noise is estimated from pixel-to-pixel differences in tiles of 24 × 24 pixels and
 * interpolated, so that spots barely affect it and a background may vary over the frame. Smoothed
 * frames seem quieter than they are and need a larger threshold. Frames are padded by their edge
 * pixels, which makes the filtered noise there larger; the standard deviation includes this. NaN
 * and infinity hide spots only around them.
 *
 * Errors: COMPUTE_ERROR_SHAPE, _INVALID_ARGUMENT, _DTYPE. */
COMPUTE_API compute_node compute_find_spots(compute_graph *graph, compute_node frames,
                                            const compute_spot_options *options,
                                            compute_node *response);

/** Turns one chunk of results (host memory) into corners of ROIs of rows × columns, centred on the
 * spots and moved inwards at the frame's border. `corners` is i32 [*count, 3] in the order frame,
 * row, column, with frames counted from `first_frame`. `capacity` is the room in `corners`, *count
 * the number of corners. If it exceeds the capacity, the first `capacity` are written, and the
 * status is COMPUTE_ERROR_OVERFLOW. `response` may be NULL if options->limit is 0. Thread-safe. */
COMPUTE_API compute_status compute_spot_corners(compute_context *context,
                                                const compute_spot_options *options,
                                                const bool *spots, const float *response,
                                                int64_t frames, int64_t height, int64_t width,
                                                int32_t rows, int32_t columns, int64_t first_frame,
                                                int32_t *corners, int64_t capacity, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
