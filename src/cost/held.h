/* The costs of a device: measured, stored or guessed (costs.h), and what others ask of them. */
#ifndef ROUTE_ROUTE_H
#define ROUTE_ROUTE_H

#include "device/device.h"
#include "cost/costs.h"

/* The costs in force, copied. With `measure`, a device of which nothing is stored is measured now,
 * unless COMPUTE_COSTS forbids it; what goes wrong then is logged, and guesses serve. Never fails
 * and leaves the thread's error as it was. Thread-safe. */
void route_costs_get(compute_device *device, bool measure, route_costs *costs);

/* Puts other costs in force, as if they had been measured; for tests. False when memory is short.
 */
bool route_costs_set(compute_device *device, const route_costs *costs);

/* The best rates known of a device, for fractions of them; 0 where there is none. Products are in
 * FLOP/s, for GEMM and CONV kernels with factors of that dtype; bytes are those that kernels read
 * and write in memory larger than the caches. Measures nothing; may read a file the first time. */
double route_peak_flops(compute_device *device, compute_dtype factors);
double route_peak_bytes(compute_device *device);

#endif
