/* SPDX-License-Identifier: MIT */
/* The costs of kinds of work on a device, as curves of time over amount.
 *
 * A single rate would be wrong at most sizes: launches, threads that join in, caches, and tiles
 * that do not fill the device all make the curve nonlinear. So each class of work has a few
 * measured points with linear interpolation between them, from the launch cost at zero work to the
 * first point, and linear extrapolation beyond the last. */
#ifndef COST_COSTS_H
#define COST_COSTS_H

#include "core/device/device.h"
#include "compute/route.h"
#include "core/kernel/kernel.h"

enum { COSTS_POINTS = 6 };

/* Points ascend in both; without any, the class is estimated. */
typedef struct cost_curve {
  uint32_t count;
  double work[COSTS_POINTS], seconds[COSTS_POINTS];
} cost_curve;

typedef struct device_costs {
  compute_costs_source source;
  uint32_t guessed; /* bit by work_class */
  double launch;    /* seconds: one small kernel among many */
  double wait;      /* seconds: one small kernel and waiting for it */
  cost_curve curve[WORK_CLASSES];
} device_costs;

/* Seconds of one kernel among others. */
double costs_kernel_seconds(const device_costs *costs, const kernel_work *work);

/* Seconds of a copy from (upload) or to the host, waited for. */
double costs_copy_seconds(const device_costs *costs, bool upload, double bytes);

/* Seconds of `work` on the curve of a class. */
double costs_curve_seconds(const device_costs *costs, work_class class, double work);

/* The best rate that a curve shows, per second; 0 if it has no points. */
double costs_curve_rate(const cost_curve *curve);

/* Estimates for a device from its description alone. */
void costs_guess(const compute_device_info *info, device_costs *costs);

/* Gives classes without points the curve of the most similar class, scaled by the ratio of the two
 * in `guess`. */
void costs_complete(const device_costs *guess, device_costs *costs);

/* "stream", "gemm_f32", …: their names in the file. */
const char *work_class_name(work_class class);

/* ---- measure.c ------------------------------------------------------------------------------- */

/* Times the probes on a separate queue, the most informative first, until `limit` seconds have
 * passed: curves not reached are empty. Errors are those of the device and of memory; an
 * unsupported kernel is not an error, its curve is empty. */
compute_status costs_measure_device(compute_device *device, double limit, device_costs *costs);

/* ---- held.c: the costs of a device, measured, stored or guessed ------------------------------ */

/* A copy of the costs in effect. With `measure`, a device without stored figures is measured now,
 * unless COMPUTE_COSTS disables that; failures are logged, and estimates used. Never fails, and
 * keeps the thread's error. Thread-safe. */
void costs_get(compute_device *device, bool measure, device_costs *costs);

/* Sets other costs, as if they had been measured; for tests. False when out of memory.
 */
bool costs_set(compute_device *device, const device_costs *costs);

/* The bytes per second that kernels read and write in memory larger than the device's caches; 0 if
 * unknown. Measures nothing; may read a file the first time. */
double costs_peak_bytes(compute_device *device);

#endif
