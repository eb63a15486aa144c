/* SPDX-License-Identifier: MIT */
/* Does the driver use host memory in place? The specification lets a driver keep a copy of memory
 * under CL_MEM_USE_HOST_PTR, and bring it up to date only at some commands. So transfers, a kernel
 * and a copy take part here, and both sides write twice. Fine-grained shared memory has no such
 * copies, so that transfers suffice there, and no program is compiled when a device is opened. */
#include "opencl.h"

#include <string.h>

/* Words of the tested memory. */
enum { FROM_HOST, FROM_KERNEL, FROM_COMMAND, FROM_COPY };

static const char source[] =
    "__kernel void probe(__global uint *words) { words[1] = words[0] + 1u; }\n";

/* A test that a call ends early has no result. */
static opencl_sharing verdict(cl_int code, bool shares) {
  return code != CL_SUCCESS ? OPENCL_UNKNOWN : shares ? OPENCL_SHARES : OPENCL_COPIES;
}

opencl_sharing opencl_probe_transfers(const opencl_device *device, cl_command_queue queue,
                                      cl_mem buffer, void *memory) {
  const opencl_library *cl = device->cl;
  volatile uint32_t *host = memory;
  static const uint32_t marks[] = {0x5ca1ab1e, 0x0dd5ea11};
  bool shares = true;
  cl_int code = CL_SUCCESS;
  for (size_t i = 0; i < sizeof marks / sizeof *marks && code == CL_SUCCESS; i++) {
    uint32_t read = 0;
    host[FROM_HOST] = marks[i];
    code = cl->clEnqueueReadBuffer(queue, buffer, CL_TRUE, FROM_HOST * sizeof read, sizeof read,
                                   &read, 0, NULL, NULL);
    if (code == CL_SUCCESS)
      code = cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, FROM_COMMAND * sizeof read,
                                      sizeof read, &marks[i], 0, NULL, NULL);
    shares &= read == marks[i] && host[FROM_COMMAND] == marks[i];
  }
  return verdict(code, shares);
}

static opencl_sharing probe_kernel(const opencl_device *device, cl_command_queue queue,
                                   cl_mem buffer, cl_kernel kernel, volatile uint32_t *host) {
  const opencl_library *cl = device->cl;
  const size_t one = 1, word = sizeof *host;
  bool shares = true;
  cl_int code = cl->clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
  for (uint32_t mark = 41; mark <= 42 && code == CL_SUCCESS; mark++) {
    host[FROM_HOST] = mark;
    code = cl->clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    if (code == CL_SUCCESS)
      code = cl->clEnqueueCopyBuffer(queue, buffer, buffer, FROM_HOST * word, FROM_COPY * word,
                                     word, 0, NULL, NULL);
    const cl_int finished = cl->clFinish(queue);
    if (code == CL_SUCCESS) code = finished;
    shares &= host[FROM_KERNEL] == mark + 1 && host[FROM_COPY] == mark;
  }
  return verdict(code, shares);
}

opencl_sharing opencl_probe_all(opencl_device *device, cl_command_queue queue, cl_mem buffer,
                                void *host) {
  build_problem problem = {0};
  cl_int code = CL_SUCCESS;
  opencl_sharing sharing = opencl_probe_transfers(device, queue, buffer, host);
  if (sharing != OPENCL_SHARES) return sharing;
  builder_program *program =
      builder_get(&device->builder, source, strlen(source), device->options, &problem);
  if (!program) return OPENCL_UNKNOWN;
  opencl_entry *entry =
      (opencl_entry *)builder_entry_get(&device->builder, program, "probe", &problem);
  const cl_kernel kernel = entry ? opencl_entry_take(device, entry, &code) : NULL;
  sharing = kernel ? probe_kernel(device, queue, buffer, kernel, host) : OPENCL_UNKNOWN;
  if (kernel) opencl_entry_return(device, entry, kernel);
  builder_release(&device->builder, program);
  return sharing;
}
