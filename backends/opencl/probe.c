/* SPDX-License-Identifier: MIT */
/* Does the driver use host memory in place? The specification lets a driver keep a copy of memory
 * under CL_MEM_USE_HOST_PTR, and bring it up to date only at some commands. So transfers, a kernel
 * and a copy take part here, and both sides write twice. */
#include "opencl.h"

#include <string.h>

/* Words of the tested memory. */
enum { FROM_HOST, FROM_KERNEL, FROM_COMMAND, FROM_COPY, PROBE_WORDS };

static const char source[] =
    "__kernel void probe(__global uint *words) { words[1] = words[0] + 1u; }\n";

static bool transfers_share(const opencl_device *device, cl_command_queue queue, cl_mem buffer,
                            volatile uint32_t *host, uint32_t mark) {
  const opencl_library *cl = device->cl;
  uint32_t read = 0;
  host[FROM_HOST] = mark;
  return cl->clEnqueueReadBuffer(queue, buffer, CL_TRUE, FROM_HOST * sizeof mark, sizeof mark,
                                 &read, 0, NULL, NULL) == CL_SUCCESS &&
         read == mark &&
         cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, FROM_COMMAND * sizeof mark, sizeof mark,
                                  &mark, 0, NULL, NULL) == CL_SUCCESS &&
         host[FROM_COMMAND] == mark;
}

static bool kernel_shares(const opencl_device *device, cl_command_queue queue, cl_mem buffer,
                          cl_kernel kernel, volatile uint32_t *host, uint32_t mark) {
  const opencl_library *cl = device->cl;
  const size_t one = 1;
  host[FROM_HOST] = mark;
  return cl->clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) ==
             CL_SUCCESS &&
         cl->clEnqueueCopyBuffer(queue, buffer, buffer, FROM_HOST * sizeof mark,
                                 FROM_COPY * sizeof mark, sizeof mark, 0, NULL,
                                 NULL) == CL_SUCCESS &&
         cl->clFinish(queue) == CL_SUCCESS && host[FROM_KERNEL] == mark + 1 &&
         host[FROM_COPY] == mark;
}

static bool all_share(opencl_device *device, cl_command_queue queue, cl_mem buffer,
                      cl_kernel kernel, volatile uint32_t *host) {
  static const uint32_t marks[] = {0x5ca1ab1e, 0x0dd5ea11};
  bool shares = device->cl->clSetKernelArg(kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS;
  for (size_t i = 0; shares && i < sizeof marks / sizeof *marks; i++) {
    shares = transfers_share(device, queue, buffer, host, marks[i]) &&
             kernel_shares(device, queue, buffer, kernel, host, ~marks[i]);
  }
  return shares;
}

bool opencl_probe_shares(opencl_device *device, cl_command_queue queue, cl_mem buffer, void *host) {
  build_problem problem = {0};
  cl_int code = CL_SUCCESS;
  bool shares = false;
  builder_program *program =
      builder_get(&device->builder, source, strlen(source), device->options, &problem);
  if (!program) return false;
  opencl_entry *entry =
      (opencl_entry *)builder_entry_get(&device->builder, program, "probe", &problem);
  const cl_kernel kernel = entry ? opencl_entry_take(device, entry, &code) : NULL;
  if (kernel) {
    shares = all_share(device, queue, buffer, kernel, host);
    opencl_entry_return(device, entry, kernel);
  }
  builder_release(&device->builder, program);
  return shares;
}
