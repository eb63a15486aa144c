/* Measuring a device. */
#ifndef ROUTE_MEASURE_H
#define ROUTE_MEASURE_H

#include "device/device.h"
#include "cost/costs.h"

/* Times the probes on a queue of its own, the most telling first, until `limit` seconds are over:
 * curves that it has not come to are empty then. Errors are those of the device and of memory; what
 * the device refuses is no error, its curve is empty. */
compute_status route_measure_device(compute_device *device, double limit, route_costs *costs);

#endif
