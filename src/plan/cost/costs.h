/* SPDX-License-Identifier: MIT */
/* The costs of kinds of work on a device, as curves of time over amount.
 *
 * A single rate would be wrong at most sizes. Launches, additional threads, caches, and tiles that
 * do not fill the device make the curve nonlinear. So each class of work has a few measured points
 * with linear interpolation, from the launch cost at zero work to the last point. Beyond it,
 * extrapolation is linear. */
#ifndef COST_COSTS_H
#define COST_COSTS_H

#include "core/device/device.h"
#include "compute/route.h"
#include "core/kernel/kernel.h"

enum { COSTS_POINTS = 6 };

/* Points ascend in work and seconds. A class without points is estimated. */
typedef struct cost_curve {
  uint32_t count;
  double work[COSTS_POINTS], seconds[COSTS_POINTS];
} cost_curve;

typedef struct device_costs {
  compute_costs_source source;
  uint32_t guessed; /* bit by work_class */
  double launch;    /* seconds: one small kernel among many */
  double wait;      /* seconds: one small kernel and the wait for it */
  cost_curve curve[WORK_CLASSES];
} device_costs;

/* Returns the seconds of one kernel among others. */
double costs_kernel_seconds(const device_costs *costs, const kernel_work *work);

/* Returns the seconds of a copy from the host (upload) or to it, including the wait. */
double costs_copy_seconds(const device_costs *costs, bool upload, double bytes);

/* Returns the seconds of `work` on the curve of a class. */
double costs_curve_seconds(const device_costs *costs, work_class class, double work);

/* Returns the best rate of a curve, per second; 0 if it has no points. */
double costs_curve_rate(const cost_curve *curve);

/* Estimates the costs of a device from its description alone. */
void costs_guess(const compute_device_info *info, device_costs *costs);

/* Gives classes without points the curve of the most similar class, scaled by the ratio of the two
 * classes in `guess`. */
void costs_complete(const device_costs *guess, device_costs *costs);

/* Returns the class's name in the file: "stream", "gemm_f32", … */
const char *work_class_name(work_class class);

/* ---- measure.c ------------------------------------------------------------------------------- */

/* Times the probes on a separate queue, the most informative first, until `limit` seconds have
 * passed. Later curves stay empty. Errors come from the device and from memory. An unsupported
 * kernel is not an error: its curve stays empty. */
compute_status costs_measure_device(compute_device *device, double limit, device_costs *costs);

/* ---- cost_cache.c: the cost cache of a device (measured, stored or estimated costs) -------- */

/* Returns a copy of the costs in effect. With `measure`, it measures a device without stored costs
 * now, unless COMPUTE_COSTS disables that. It logs failures and uses estimates instead. Never
 * fails, and keeps the thread's error. Thread-safe. */
void costs_get(compute_device *device, bool measure, device_costs *costs);

/* For tests: sets other costs, as if measured. Returns false when out of memory. */
bool costs_set(compute_device *device, const device_costs *costs);

/* Returns the bytes per second of kernels in memory larger than the device's caches; 0 if unknown.
 * Measures nothing; the first call may read a file. */
double costs_peak_bytes(compute_device *device);

#endif
