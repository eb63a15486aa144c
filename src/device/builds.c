/* What a device's kernels have cost to build, as far as its module counts that. */
#include "base/error.h"
#include "device/device.h"

compute_status compute_build_query(const compute_device *device,
                                   compute_build_statistics *statistics) {
  if (!device || !statistics) {
    return error_set(device ? device->context : NULL, COMPUTE_ERROR_NULL_POINTER,
                     "compute_build_query", "%s is NULL", device ? "statistics" : "device");
  }
  *statistics = (compute_build_statistics){0};
  if (device->backend->build_statistics) {
    device->backend->build_statistics(device->handle, statistics);
  }
  return COMPUTE_OK;
}
