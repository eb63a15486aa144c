/* Page-locked memory of the host: the GPU copies from and to it by itself, beside its kernels and
 * without holding up the caller. Allocated by the driver, or the caller's own that the driver locks
 * in place. Transfers recognise it by asking the driver, whoever has locked it. */
#include "cuda.h"

/* A lack of it is a lack of the host's memory, or a limit of the system's on locked pages. */
static compute_status fail(cuda_device *device, cuda_result code, const char *what,
                           uint64_t bytes) {
  const compute_services *services = device->services;
  if (code == CUDA_OUT_OF_MEMORY)
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, code,
                          "use less of it, or raise the limit on locked memory (ulimit -l)",
                          "cuda:%u: %s %llu bytes: the system does not lock so much memory (%s)",
                          device->index, what, (unsigned long long)bytes,
                          cuda_code_name(device->driver, code));
  return cuda_fail(device, code, "%s %llu bytes", what, (unsigned long long)bytes);
}

compute_status cuda_host_allocate(void *handle, uint64_t bytes, void **data) {
  cuda_device *device = handle;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->host_allocate(data, bytes, CUDA_HOST_ALLOC_PORTABLE);
  return code == CUDA_OK ? COMPUTE_OK : fail(device, code, "allocating page-locked memory,", bytes);
}

void cuda_host_release(void *handle, void *data) {
  cuda_device *device = handle;
  if (data && cuda_enter_to_release(device))
    cuda_notice(device, device->driver->host_free(data), "releasing page-locked memory");
}

compute_status cuda_host_register(void *handle, void *data, uint64_t bytes) {
  cuda_device *device = handle;
  const compute_services *services = device->services;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  const cuda_result code = device->driver->host_register(data, bytes, CUDA_HOST_ALLOC_PORTABLE);
  if (code == CUDA_OK) return COMPUTE_OK;
  if (code == CUDA_HOST_MEMORY_ALREADY_REGISTERED)
    return services->fail(services->host, COMPUTE_ERROR_INVALID_STATE, code,
                          "register memory once, and not what the driver allocated",
                          "cuda:%u: this memory, or a part of it, is page-locked already",
                          device->index);
  return fail(device, code, "page-locking", bytes);
}

void cuda_host_unregister(void *handle, void *data) {
  cuda_device *device = handle;
  if (data && cuda_enter_to_release(device))
    cuda_notice(device, device->driver->host_unregister(data), "unlocking host memory");
}
