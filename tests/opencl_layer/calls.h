/* SPDX-License-Identifier: MIT */
/* Every OpenCL call that the layer intercepts: CALL(form, name, …).
 *
 *   STATUS   returns a status: parameters, arguments
 *   AFTER    the same, but the driver is called even if the status will be an error: the call must
 *            complete before memory can be released
 *   EVENT    the same; the last parameter may take an event
 *   CREATE   returns an object owned by the caller: type, kind of object, parameters,
 *            arguments; the last one is the status
 *   MAP      returns an address, and may take an event
 *   RETAIN, RELEASE   change the number of owners: type, kind of object
 *   OWN      has a separate function in layer.c */

#define WAIT_PARAMETERS cl_uint waits, const cl_event *wait, cl_event *event
#define WAIT_ARGUMENTS  waits, wait, event

CALL(STATUS, clGetPlatformIDs, (cl_uint a, cl_platform_id *b, cl_uint *c), (a, b, c))
CALL(STATUS, clGetPlatformInfo,
     (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CALL(STATUS, clGetContextInfo, (cl_context a, cl_context_info b, size_t c, void *d, size_t *e),
     (a, b, c, d, e))
CALL(STATUS, clGetCommandQueueInfo,
     (cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CALL(STATUS, clGetMemObjectInfo, (cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e),
     (a, b, c, d, e))
CALL(STATUS, clGetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e),
     (a, b, c, d, e))
CALL(STATUS, clGetProgramBuildInfo,
     (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),
     (a, b, c, d, e, f))
CALL(STATUS, clGetKernelInfo, (cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e),
     (a, b, c, d, e))
CALL(STATUS, clGetKernelWorkGroupInfo,
     (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f),
     (a, b, c, d, e, f))
CALL(STATUS, clGetEventInfo, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e),
     (a, b, c, d, e))
CALL(STATUS, clGetEventProfilingInfo,
     (cl_event a, cl_profiling_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
CALL(STATUS, clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))
CALL(STATUS, clSetKernelArgSVMPointer, (cl_kernel a, cl_uint b, const void *c), (a, b, c))
CALL(STATUS, clFlush, (cl_command_queue a), (a))
CALL(STATUS, clSetUserEventStatus, (cl_event a, cl_int b), (a, b))
CALL(STATUS, clEnqueueBarrier, (cl_command_queue a), (a))
CALL(STATUS, clEnqueueWaitForEvents, (cl_command_queue a, cl_uint b, const cl_event *c), (a, b, c))

CALL(MAP, clEnqueueMapBuffer,
     (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e, size_t f, WAIT_PARAMETERS,
      cl_int *status),
     (a, b, c, d, e, f, WAIT_ARGUMENTS, status))

CALL(CREATE, clCreateCommandQueue, cl_command_queue, QUEUES,
     (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int *status),
     (a, b, c, status))
CALL(CREATE, clCreateCommandQueueWithProperties, cl_command_queue, QUEUES,
     (cl_context a, cl_device_id b, const cl_queue_properties *c, cl_int *status),
     (a, b, c, status))
CALL(CREATE, clCreateContext, cl_context, CONTEXTS,
     (const cl_context_properties *a, cl_uint b, const cl_device_id *c, notify_function d, void *e,
      cl_int *status),
     (a, b, c, d, e, status))
CALL(CREATE, clCreateSubBuffer, cl_mem, BUFFERS,
     (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *status),
     (a, b, c, d, status))
CALL(CREATE, clCreateProgramWithBinary, cl_program, PROGRAMS,
     (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e,
      cl_int *f, cl_int *status),
     (a, b, c, d, e, f, status))
CALL(CREATE, clCreateKernel, cl_kernel, KERNELS, (cl_program a, const char *b, cl_int *status),
     (a, b, status))
CALL(CREATE, clCreateUserEvent, cl_event, EVENTS, (cl_context a, cl_int *status), (a, status))

CALL(EVENT, clEnqueueReadBuffer,
     (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, WAIT_PARAMETERS),
     (a, b, c, d, e, f, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueCopyBuffer,
     (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, WAIT_PARAMETERS),
     (a, b, c, d, e, f, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueFillBuffer,
     (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, WAIT_PARAMETERS),
     (a, b, c, d, e, f, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueUnmapMemObject, (cl_command_queue a, cl_mem b, void *c, WAIT_PARAMETERS),
     (a, b, c, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueMigrateMemObjects,
     (cl_command_queue a, cl_uint b, const cl_mem *c, cl_mem_migration_flags d, WAIT_PARAMETERS),
     (a, b, c, d, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueMarkerWithWaitList, (cl_command_queue a, WAIT_PARAMETERS), (a, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueBarrierWithWaitList, (cl_command_queue a, WAIT_PARAMETERS),
     (a, WAIT_ARGUMENTS))
CALL(EVENT, clEnqueueMarker, (cl_command_queue a, cl_event *event), (a, event))

CALL(AFTER, clFinish, (cl_command_queue a), (a))
CALL(AFTER, clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))

CALL(RETAIN, clRetainContext, cl_context, CONTEXTS)
CALL(RETAIN, clRetainCommandQueue, cl_command_queue, QUEUES)
CALL(RETAIN, clRetainMemObject, cl_mem, BUFFERS)
CALL(RETAIN, clRetainProgram, cl_program, PROGRAMS)
CALL(RETAIN, clRetainKernel, cl_kernel, KERNELS)
CALL(RETAIN, clRetainEvent, cl_event, EVENTS)
CALL(RELEASE, clReleaseContext, cl_context, CONTEXTS)
CALL(RELEASE, clReleaseCommandQueue, cl_command_queue, QUEUES)
CALL(RELEASE, clReleaseMemObject, cl_mem, BUFFERS)
CALL(RELEASE, clReleaseProgram, cl_program, PROGRAMS)
CALL(RELEASE, clReleaseKernel, cl_kernel, KERNELS)
CALL(RELEASE, clReleaseEvent, cl_event, EVENTS)

CALL(OWN, clCreateProgramWithSource, )
CALL(OWN, clGetDeviceIDs, )
CALL(OWN, clGetDeviceInfo, )
CALL(OWN, clCreateSubDevices, )
CALL(OWN, clReleaseDevice, )
CALL(OWN, clSVMAlloc, )
CALL(OWN, clSVMFree, )
CALL(OWN, clCreateBuffer, )
CALL(OWN, clBuildProgram, )
CALL(OWN, clEnqueueWriteBuffer, )
CALL(OWN, clEnqueueNDRangeKernel, )

#undef WAIT_PARAMETERS
#undef WAIT_ARGUMENTS
#undef CALL
