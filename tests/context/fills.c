/* SPDX-License-Identifier: MIT */
/* Prints the CPU's memory and the number of 20 MB tensors until one is refused. The exit status is
 * 0 if one is refused and the context closes. */
#include <compute/compute.h>
#include <stdio.h>

enum { MOST = 40 };

int main(void) {
  compute_context *context;
  compute_tensor *tensors[MOST];
  compute_device_info info;
  compute_status status = COMPUTE_OK;
  int count = 0;
  if (compute_open(&context, &(compute_open_options){.backends = "cpu"})) return 2;
  compute_device *device = compute_default_device(context);
  if (compute_device_describe(device, &info)) return 2;
  printf("total %llu free %llu\n", (unsigned long long)info.memory_total,
         (unsigned long long)info.memory_free);
  while (count < MOST && !status) {
    status = compute_tensor_full(device, COMPUTE_F32, COMPUTE_SHAPE(5000000), 1, &tensors[count]);
    count += !status;
  }
  printf("%d tensors, then %s\n", count, compute_status_name(status));
  while (count > 0) compute_tensor_release(tensors[--count]);
  return compute_close(context) || status != COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY;
}
