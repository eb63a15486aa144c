/* SPDX-License-Identifier: MIT */
/** @file
 * The costs of work on a device, which determine where a plan's steps run.
 *
 * Plans compiled with COMPUTE_PLAN_AUTO (plan.h) place each step where the whole plan is predicted
 * to be fastest. The prediction covers the kernels, the cost of starting them, and the copies
 * between the devices. It comes from a few figures of each device, which are measured once and
 * stored in a file next to the tuning file for later programs. COMPUTE_COSTS
 * (docs/reference/environment.md) can disable measuring; unknown figures are then estimated from
 * the device's description. */
#ifndef COMPUTE_ROUTE_H
#define COMPUTE_ROUTE_H

#include "compute/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum compute_costs_source {
  COMPUTE_COSTS_GUESSED = 0,
  COMPUTE_COSTS_STORED = 1,  /**< measured earlier, by another process */
  COMPUTE_COSTS_MEASURED = 2 /**< measured by this process */
} compute_costs_source;

/** Rates are the best measured at any size. */
typedef struct compute_device_costs {
  compute_costs_source source;
  uint32_t guessed;        /**< kinds of work whose figures were estimated from the others */
  double measure_seconds;  /**< spent measuring; 0 unless just measured */
  double launch_seconds;   /**< of one small kernel among many */
  double wait_seconds;     /**< of submitting one small kernel and waiting for it */
  double bytes_per_second; /**< read + written by kernels in memory, at the largest size measured */
  double cached_bytes_per_second;          /**< the same at the best size, within the caches */
  double upload_seconds, download_seconds; /**< of a copy of a few bytes, waited for */
  double upload_bytes_per_second, download_bytes_per_second; /**< of large copies */
  double
      operations_per_second; /**< f32 additions, products, comparisons … in elementwise kernels */
  double functions_per_second; /**< f32 exponentials, the unit for other functions */
  double gemm_f32, gemm_f64, gemm_f16, gemm_bf16; /**< FLOP/s */
  double convolution_f32;                         /**< FLOP/s */
  uint64_t reserved[8];
} compute_device_costs;

/** Measures `device` again, in about `limit_seconds` (0: 0.8), including compilation of kernels
 * that are not yet in the disk cache. Figures that the time does not suffice for are estimated from
 * the rest. Stores the figures for this process and, unless the tuning file is switched off, for
 * later ones. Existing plans do not change. `costs` may be NULL. Thread-safe, but two measurements
 * at once disturb each other.
 *
 * COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT for a limit that is not a number of seconds,
 * _UNSUPPORTED for a device that runs no kernels, _OUT_OF_MEMORY, _FILE (the figures then apply to
 * this process only), _DEVICE_LOST. */
COMPUTE_API compute_status compute_route_measure(compute_device *device, double limit_seconds,
                                                 compute_device_costs *costs);

/** The figures in effect: measured by this process, stored, or estimated. Does not measure.
 * COMPUTE_ERROR_NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_route_query(compute_device *device, compute_device_costs *costs);

/** The file that keeps the figures ("" if there is none), into `path`; it need not exist yet.
 * COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT if it does not fit. Thread-safe. */
COMPUTE_API compute_status compute_route_path(compute_context *context, char *path, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
