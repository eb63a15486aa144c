/* SPDX-License-Identifier: MIT */
/** @file
 * Simulated camera images with known truth: ROI stacks and movies, as input for fits.
 *
 * Random numbers are counter-based (Philox4x32-10), with the seed as key and ROI or frame and pixel
 * as counter. So ROI i is the same whether it is simulated alone or among a million, on any machine
 * and with any number of threads. Runs on the host, on the context's threads. */
#ifndef COMPUTE_SIMULATE_H
#define COMPUTE_SIMULATE_H

#include "compute/device.h"
#include "compute/fit_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Uniform in low … high; both the same: that value. */
typedef struct compute_range {
  double low, high;
} compute_range;

typedef struct compute_simulation {
  /** Model, profile, camera, size of the ROI, sigma, astigmatism or the spline and the camera's
   * numbers. Solver, outputs and bounds are ignored. */
  compute_fit_problem problem;
  compute_dtype dtype; /**< COMPUTE_U16 or COMPUTE_F32 (also for 0): camera counts, which for an
                        * ideal camera are photons; U16 is rounded and saturates */
  uint64_t seed;
  compute_range photons, background; /**< per spot, per pixel; ≥ 0 */
  compute_range position;            /**< of x and y from the ROI's centre, pixels */
  compute_range z;                   /**< XYZNB, SPLINE (within its range), µm */
  compute_range sigma; /**< XYNBS, XYNBSXSY (each axis separately); 0, 0: problem.sigma */
  bool noise_free;     /**< expected values instead of draws */
  /** Maps in host memory, or NULL: of the ROI's size, for movies of the frame's. */
  const float *offset, *gain, *variance;

  /** Movies. */
  int64_t frame_rows, frame_columns;
  double spots; /**< expected number in one frame; Poisson */

  /** Spots come from this many emitters. Each has a fixed place (and z) in all frames, so that it
   * is seen again; up to 10^6, and not fewer than `spots`. 0: anywhere, in each frame. */
  int64_t emitters;
  int64_t blink;        /**< frames that an emitter stays on at a time; 0: 1 */
  double drift[3];      /**< of all emitters per frame: x and y in pixels, z in its unit */
  uint64_t reserved[3]; /**< must be zero */
} compute_simulation;

/** ROIs number first … first + count − 1: `pixels` [count, rows, columns] and `truth`, f32
 * [count, P] as compute_fit's parameters (may be NULL). COMPUTE_ERROR_INVALID_ARGUMENT, _DTYPE,
 * _OUT_OF_MEMORY. Thread-safe. */
COMPUTE_API compute_status compute_simulate_rois(compute_context *context,
                                                 const compute_simulation *simulation,
                                                 int64_t first, int64_t count, void *pixels,
                                                 float *truth);

/** The total number of spots in frames first … first + count − 1. */
COMPUTE_API compute_status compute_simulate_spot_count(compute_context *context,
                                                       const compute_simulation *simulation,
                                                       int64_t first, int64_t count,
                                                       int64_t *spots);

/** Frames: `pixels` [count, frame_rows, frame_columns]; `truth` f32 [spots, 1 + P]: frame number,
 * then parameters with positions in the frame, spots in order of frames (may be NULL). The
 * background is drawn once per frame. Spots are cut off five sigma from their centre, or where
 * their spline ends. */
COMPUTE_API compute_status compute_simulate_movie(compute_context *context,
                                                  const compute_simulation *simulation,
                                                  int64_t first, int64_t count, void *pixels,
                                                  float *truth);

#ifdef __cplusplus
}
#endif
#endif
