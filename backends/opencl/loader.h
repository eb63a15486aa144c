/* The OpenCL loader, libOpenCL.so.1, opened at run time: a machine without it can still load this
 * module and be told what to install. */
#ifndef OPENCL_LOADER_H
#define OPENCL_LOADER_H

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue: all that 1.2 drivers have */
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <stdbool.h>
#include <stddef.h>

/* Every function of OpenCL 1.2 that the module calls. */
#define OPENCL_FUNCTIONS(X)                                                                        \
  X(clGetPlatformIDs)                                                                              \
  X(clGetPlatformInfo)                                                                             \
  X(clGetDeviceIDs)                                                                                \
  X(clGetDeviceInfo)                                                                               \
  X(clCreateSubDevices)                                                                            \
  X(clReleaseDevice)                                                                               \
  X(clCreateContext)                                                                               \
  X(clReleaseContext)                                                                              \
  X(clCreateCommandQueue)                                                                          \
  X(clReleaseCommandQueue)                                                                         \
  X(clCreateBuffer)                                                                                \
  X(clCreateSubBuffer)                                                                             \
  X(clReleaseMemObject)                                                                            \
  X(clCreateProgramWithSource)                                                                     \
  X(clCreateProgramWithBinary)                                                                     \
  X(clBuildProgram)                                                                                \
  X(clGetProgramInfo)                                                                              \
  X(clGetProgramBuildInfo)                                                                         \
  X(clReleaseProgram)                                                                              \
  X(clCreateKernel)                                                                                \
  X(clGetKernelInfo)                                                                               \
  X(clGetKernelWorkGroupInfo)                                                                      \
  X(clSetKernelArg)                                                                                \
  X(clReleaseKernel)                                                                               \
  X(clEnqueueNDRangeKernel)                                                                        \
  X(clEnqueueReadBuffer)                                                                           \
  X(clEnqueueWriteBuffer)                                                                          \
  X(clEnqueueCopyBuffer)                                                                           \
  X(clEnqueueMapBuffer)                                                                            \
  X(clEnqueueUnmapMemObject)                                                                       \
  X(clEnqueueBarrierWithWaitList)                                                                  \
  X(clFlush)                                                                                       \
  X(clFinish)                                                                                      \
  X(clWaitForEvents)                                                                               \
  X(clGetEventInfo)                                                                                \
  X(clGetEventProfilingInfo)                                                                       \
  X(clRetainEvent)                                                                                 \
  X(clReleaseEvent)

/* Of OpenCL 2.0. A loader that has them calls through a table of the driver's, so only devices that
 * say they have shared virtual memory may be asked. NULL in a loader that is older. */
#define OPENCL_OPTIONAL_FUNCTIONS(X)                                                               \
  X(clSVMAlloc)                                                                                    \
  X(clSVMFree)                                                                                     \
  X(clSetKernelArgSVMPointer)

#define OPENCL_MEMBER(function) __typeof__(&function) function;
typedef struct opencl_library {
  OPENCL_FUNCTIONS(OPENCL_MEMBER)
  OPENCL_OPTIONAL_FUNCTIONS(OPENCL_MEMBER)
} opencl_library;

/* NULL, with a sentence in `reason`, when there is no loader or it is too old, or when host memory
 * is short (*memory_short). The library stays open until the process ends, since drivers keep
 * threads of their own. Thread-safe. */
const opencl_library *opencl_load(char *reason, size_t reason_bytes, bool *memory_short);

#endif
