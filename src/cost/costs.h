/* SPDX-License-Identifier: MIT */
/* What kinds of work cost on a device, as curves of time over amount.
 *
 * A rate alone would be wrong at most sizes: a kernel's launch, threads that join in, caches and
 * tiles that do not fill the device all bend the line. So each class of work has a few measured
 * points, and between them time is taken to grow evenly: from the launch at no work at all to the
 * first point, and beyond the last as between the last two. */
#ifndef COST_COSTS_H
#define COST_COSTS_H

#include "device/device.h"
#include "compute/route.h"
#include "kernel/kernel.h"

enum { COSTS_POINTS = 6 };

/* Points ascend in both; without any, the class is to be guessed. */
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

/* Figures for a device of which only the description is known. */
void costs_guess(const compute_device_info *info, device_costs *costs);

/* Gives the classes without points the curve of the class that resembles them most, scaled as the
 * two differ in `guess`. */
void costs_complete(const device_costs *guess, device_costs *costs);

/* "stream", "gemm_f32", …: their names in the file. */
const char *work_class_name(work_class class);

/* ---- measure.c ------------------------------------------------------------------------------- */

/* Times the probes on a queue of its own, the most telling first, until `limit` seconds are over:
 * curves that it has not come to are empty then. Errors are those of the device and of memory; what
 * the device refuses is not an error, its curve is empty. */
compute_status costs_measure_device(compute_device *device, double limit, device_costs *costs);

/* ---- held.c: the costs of a device, measured, stored or guessed ------------------------------ */

/* The costs in force, copied. With `measure`, a device of which nothing is stored is measured now,
 * unless COMPUTE_COSTS forbids it; what goes wrong then is logged, and guesses serve. Never fails
 * and leaves the thread's error as it was. Thread-safe. */
void costs_get(compute_device *device, bool measure, device_costs *costs);

/* Puts other costs in force, as if they had been measured; for tests. False when memory is short.
 */
bool costs_set(compute_device *device, const device_costs *costs);

/* The best rates known of a device, for fractions of them; 0 where there is none. Products are in
 * FLOP/s, for GEMM and CONV kernels with factors of that dtype; bytes are those that kernels read
 * and write in memory larger than the caches. Measures nothing; may read a file the first time. */
double costs_peak_flops(compute_device *device, compute_dtype factors);
double costs_peak_bytes(compute_device *device);

#endif
