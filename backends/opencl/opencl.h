/* SPDX-License-Identifier: MIT */
/* Inside of the OpenCL backend.
 *
 *   module.c     the vtable, and starting the module: libOpenCL.so.1
 *   registered.c which drivers are registered, and what is known of them without starting them
 *   platforms.c  which platforms and devices there are, and why others are left out
 *   device.c     one device: its facts in libcompute's terms, without trusting the driver
 *   memory.c     buffers: shared with the host where the driver can, else the device's own; and
 *                host memory that is copied without staging
 *   queue.c      in-order queues, what is pending in them, and their failures
 *   transfer.c   copies to, from and within a device
 *   event.c      events, and the time at which a queue came to a point
 *   program.c    compiling, and the kernel objects of programs
 *   kernel.c     generated kernels: from a descriptor to launches
 *   clblast.c    the vendor-neutral BLAS library as a second implementation of GEMM
 *   custom.c     kernels of the user's own
 *   errors.c     OpenCL's codes in words; lost devices, and bringing them back
 *
 * Every handle of the vtable is a pointer to one of the structs below. */
#ifndef OPENCL_OPENCL_H
#define OPENCL_OPENCL_H

#include <pthread.h>

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue: all that 1.2 drivers have */
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "common/builder.h"
#include "compute/backend.h"

#define OPENCL_TEXT 256 /* bytes kept of a driver's texts */

/* ---- The library --------------------------------------------------------------------------- */

/* libOpenCL.so.1, opened at run time: a machine without it can still load this module and be told
 * what to install. */

/* Every function of OpenCL 1.2 that the module calls. */
#define OPENCL_FUNCTIONS(X)                                                                        \
  X(clGetPlatformIDs)                                                                              \
  X(clGetPlatformInfo)                                                                             \
  X(clGetDeviceIDs)                                                                                \
  X(clGetDeviceInfo)                                                                               \
  X(clCreateSubDevices)                                                                            \
  X(clReleaseDevice)                                                                               \
  X(clGetContextInfo)                                                                              \
  X(clCreateContext)                                                                               \
  X(clReleaseContext)                                                                              \
  X(clCreateCommandQueue)                                                                          \
  X(clReleaseCommandQueue)                                                                         \
  X(clCreateBuffer)                                                                                \
  X(clCreateSubBuffer)                                                                             \
  X(clRetainMemObject)                                                                             \
  X(clReleaseMemObject)                                                                            \
  X(clGetMemObjectInfo)                                                                            \
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

/* ---- Instance ------------------------------------------------------------------------------ */

/* A device that can be opened. */
typedef struct opencl_place {
  cl_platform_id platform;
  cl_device_id id;
  cl_device_type type;
  bool divided; /* a sub-device, to be released */
  bool pocl;    /* compiles at the first launch and keeps its own cache */
  bool own;     /* the driver is the device vendor's, not one for many vendors */
  bool matched; /* scratch of platforms.c */
  char platform_name[OPENCL_TEXT], platform_version[OPENCL_TEXT];
} opencl_place;

typedef struct opencl_instance {
  const compute_services *services;
  const opencl_library *cl;
  opencl_place *places; /* in the order of device indices */
  uint32_t count, capacity;
  char left_out[512]; /* why platforms or devices are not usable; "" if all are */
  bool uncertain;     /* some driver failed: it may work another time */
} opencl_instance;

/* Fills in the places and the words on what is left out. COMPUTE_ERROR_NO_DEVICE, with what to do,
 * when nothing is usable. */
compute_status opencl_enumerate(opencl_instance *instance);
void opencl_places_release(opencl_instance *instance);

/* Where drivers register, as the loader reads it. */
const char *opencl_vendors(const compute_services *services);

/* Whether no registered driver has a device that ranks above what is open, as far as is known
 * without starting any. */
bool opencl_can_wait(const compute_services *services);

/* Stores in the disk cache what the drivers offer, for opencl_can_wait in later processes. */
void opencl_remember(const opencl_instance *instance);

/* ---- Facts --------------------------------------------------------------------------------- */

/* The answer, or `fallback` when the driver fails or answers in another size. */
uint64_t opencl_number(const opencl_library *cl, cl_device_id id, cl_device_info what, size_t bytes,
                       uint64_t fallback);

/* Always ends the text; "" when the driver fails. Blanks at both ends are dropped. */
void opencl_text(const opencl_library *cl, cl_device_id id, cl_device_info what, char *text,
                 size_t text_bytes);
void opencl_platform_text(const opencl_library *cl, cl_platform_id id, cl_platform_info what,
                          char *text, size_t text_bytes);

/* Whether the space-separated list of the device's extensions has this one. */
bool opencl_has_extension(const opencl_library *cl, cl_device_id id, const char *extension);

/* "OpenCL 1.2 …" → 12; 0 if it is not such a text. */
int opencl_version(const char *text);

/* ---- Device -------------------------------------------------------------------------------- */

typedef struct opencl_staging opencl_staging;         /* transfer.c */
typedef struct opencl_host_memory opencl_host_memory; /* memory.c */
typedef struct opencl_past opencl_past;               /* device.c */
typedef struct opencl_queue opencl_queue;

typedef struct opencl_device {
  const compute_services *services;
  const opencl_library *cl;
  const opencl_instance *instance;
  const opencl_place *place;
  uint32_t index;
  cl_device_id id;
  cl_context context;
  opencl_past *past;    /* contexts from before the device was lost */
  uint32_t generation;  /* atomic: counts the contexts */
  int32_t lost;         /* atomic: the code that ended the context, or 0 */
  char lost_where[160]; /* what was being done then; written once, before `lost` */
  pthread_mutex_t loss_mutex;
  compute_target target;
  char options[96]; /* for the compiler of generated kernels */
  char device_version[OPENCL_TEXT], driver_version[OPENCL_TEXT], full_name[OPENCL_TEXT];

  bool is_cpu, unified; /* unified: host and device use one memory */
  bool shared_memory;   /* fine-grained buffers: `host` of every memory is set */
  bool system_memory;   /* the device can use any host memory */
  bool two_queues;      /* transfers have a queue of their own */
  bool clblast_used;    /* atomic */
  uint64_t memory_bytes, allocation_limit, argument_limit, base_alignment;
  uint32_t address_bits;

  pthread_mutex_t memory_mutex; /* the three below */
  cl_command_queue memory_queue;
  bool sharing_tried, sharing_works; /* wrapped host memory */
  uint64_t allocated;                /* atomic: bytes of live memories */
  uint64_t tickets;                  /* atomic: commands submitted so far */

  builder builder; /* programs; its mutex also guards their idle kernels */

  pthread_mutex_t staging_mutex;
  pthread_cond_t staging_returned;
  opencl_staging *staging; /* of a device with two queues; made at the first transfer */

  pthread_mutex_t host_mutex;
  opencl_host_memory *host_memories; /* allocated and registered ones; its head is atomic */

  pthread_mutex_t clock_mutex; /* the driver's clock: event.c */
  cl_command_queue clock_queue;
  cl_mem clock_buffer;
  int64_t clock_offset, clock_measured;
} opencl_device;

compute_status opencl_device_open(void *instance, uint32_t index, void **device);
void opencl_device_close(void *device);
compute_status opencl_device_describe(void *device, compute_device_info *info);

/* ---- Errors -------------------------------------------------------------------------------- */

const char *opencl_error_name(cl_int code);
compute_status opencl_error_status(cl_int code);

/* Records "opencl: <what>: <words> (CL_NAME, -5)" and returns the code's status. One that means
 * DEVICE_LOST makes the device lost. */
compute_status opencl_fail(opencl_device *device, cl_int code, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
compute_status opencl_fail_memory(const compute_services *services, const char *what);

/* ---- Lost devices -------------------------------------------------------------------------- */

void opencl_lose(opencl_device *device, cl_int code, const char *what);

/* Before calls of the driver: fail when the device is lost, and when what is used was made before
 * it was brought back. */
compute_status opencl_enter(opencl_device *device);
compute_status opencl_enter_queue(opencl_queue *queue);
compute_status opencl_enter_memory(opencl_device *device, const compute_memory *memory);
compute_status opencl_fail_stale(const opencl_device *device, const char *what);

static inline bool opencl_is_stale(const opencl_device *device, uint32_t generation) {
  return generation != __atomic_load_n(&device->generation, __ATOMIC_ACQUIRE);
}

compute_status opencl_device_recover(void *device);

/* ---- Memory -------------------------------------------------------------------------------- */

enum { LANE_COMPUTE = 0, LANE_TRANSFER = 1, LANES = 2 };

typedef struct opencl_memory {
  cl_mem buffer;
  void *shared; /* fine-grained shared memory under the buffer, or NULL */
  uint64_t bytes;
  uint64_t used[LANES]; /* atomic: the highest ticket of a command that uses it */
  cl_context context;   /* that `shared` is of */
  uint32_t generation;  /* of the device when it was made */
} opencl_memory;

/* Finds out whether shared memory, where the driver offers it, really is. */
void opencl_memory_try(opencl_device *device);
compute_status opencl_memory_allocate(void *device, uint64_t bytes, compute_memory *memory);
void opencl_memory_release(void *device, compute_memory *memory);
/* A queue for the few commands that memory management needs. memory_mutex held. */
cl_command_queue opencl_memory_queue(opencl_device *device, cl_int *code);
void opencl_memory_export(void *device, const compute_argument *argument,
                          compute_foreign_memory *foreign);
compute_status opencl_memory_adopt(void *device, const compute_foreign_memory *foreign,
                                   uint64_t bytes, compute_memory *memory);
compute_status opencl_memory_import(void *device, void *data, uint64_t bytes,
                                    compute_memory *memory);

/* ---- Queues -------------------------------------------------------------------------------- */

#define PENDING_EVENTS 128
#define HELD_BUFFERS   32

/* One in-order queue of the driver. The events of its commands are kept until they are seen to have
 * succeeded: nothing else reports a failure in the middle. */
typedef struct opencl_lane {
  cl_command_queue queue; /* NULL: commands go to the compute lane */
  cl_event pending[PENDING_EVENTS];
  uint32_t count;
  uint64_t last;     /* ticket of the last command */
  uint64_t seen;     /* ticket of the other lane's last command that this lane has waited for */
  uint64_t entering; /* what `seen` becomes when the command at hand has been submitted */
} opencl_lane;

struct opencl_queue {
  opencl_device *device;
  uint32_t generation; /* of the device when it was made */
  opencl_lane lanes[LANES];
  cl_int failure;       /* the first code of a command that failed since the last wait */
  bool keeps_times;     /* its lanes are made to keep their commands' times */
  compute_memory fault; /* records, zeroed; made when first needed */
  fault_table faults;   /* what they are used for */
  cl_mem workspace;     /* scratch of kernels, one after the other */
  uint64_t workspace_bytes;
  cl_mem held[HELD_BUFFERS]; /* sub-buffers in use by commands */
  uint32_t held_count;
};

compute_status opencl_queue_create(void *device, void **queue);
void opencl_queue_destroy(void *queue);
void opencl_queue_label(void *queue, uint32_t label);
compute_status opencl_queue_wait(void *queue);

/* Waits for both lanes. Failures stay in `failure` for opencl_queue_wait. */
void opencl_queue_drain(opencl_queue *queue);

/* Before a command: the lane that it goes to, and the event of the other lane, if any, that it must
 * wait for, because a command there uses one of the memories. Returns how many events (0 or 1). */
uint32_t opencl_lane_enter(opencl_queue *queue, int which, opencl_memory *const *memories,
                           uint32_t count, opencl_lane **lane, cl_event *wait);

/* After a successful one: takes over its event and marks the memories. */
void opencl_lane_submitted(opencl_queue *queue, opencl_lane *lane, cl_event event,
                           opencl_memory *const *memories, uint32_t count);

/* Scratch memory for the commands that are submitted next. */
compute_status opencl_workspace(opencl_queue *queue, uint64_t bytes, cl_mem *workspace);
/* The records that kernels fill in when an index is out of range. */
compute_status opencl_fault_words(opencl_queue *queue, opencl_memory **memory);
/* Releases a sub-buffer once the commands submitted so far are done. */
void opencl_queue_hold(opencl_queue *queue, cl_mem buffer);

compute_status opencl_event_record(void *queue, void **event);
void opencl_event_destroy(void *device, void *event);
compute_status opencl_event_wait(void *device, void *event);
compute_status opencl_event_query(void *device, void *event, bool *complete);
compute_status opencl_queue_wait_event(void *queue, void *event);

/* From now on the driver keeps the times of the queue's commands; waits for it the first time. */
compute_status opencl_queue_keep_times(opencl_queue *queue);
compute_status opencl_timer_record(void *queue, void **timer);
compute_status opencl_timer_read(void *device, void *timer, int64_t *nanoseconds);
void opencl_timer_destroy(void *device, void *timer);
void opencl_clock_release(opencl_device *device);

compute_status opencl_upload(void *queue, const compute_argument *destination, const void *source,
                             uint64_t bytes);
compute_status opencl_download(void *queue, void *destination, const compute_argument *source,
                               uint64_t bytes);
compute_status opencl_copy(void *queue, const compute_argument *destination,
                           const compute_argument *source, uint64_t bytes);
void opencl_staging_release(opencl_device *device);

compute_status opencl_host_allocate(void *device, uint64_t bytes, void **data);
void opencl_host_release(void *device, void *data);
compute_status opencl_host_register(void *device, void *data, uint64_t bytes);
void opencl_host_unregister(void *device, void *data);
/* Whether all of it lies in such memory. */
bool opencl_host_is_known(opencl_device *device, const void *data, uint64_t bytes);

/* ---- Programs ------------------------------------------------------------------------------ */

#define OPENCL_IDLE_KERNELS 8 /* kept of one function: as many as threads enqueue it at once */

/* One kernel function of a program. */
typedef struct opencl_entry {
  builder_entry shared;
  cl_program program;
  size_t group_limit; /* what the driver allows for it on this device */
  cl_uint arguments;  /* UINT32_MAX: unknown */
  cl_kernel idle[OPENCL_IDLE_KERNELS];
  uint32_t idle_count;
} opencl_entry;

extern const builder_driver opencl_builder_driver;

/* A kernel object for one caller: setting arguments is not thread-safe. NULL with *code. */
cl_kernel opencl_entry_take(opencl_device *device, opencl_entry *entry, cl_int *code);
void opencl_entry_return(opencl_device *device, opencl_entry *entry, cl_kernel kernel);

void opencl_build_statistics(void *device, compute_build_statistics *statistics);

/* ---- Kernels ------------------------------------------------------------------------------- */

typedef struct opencl_kernel opencl_kernel;
typedef struct opencl_gemm opencl_gemm; /* clblast.c */

bool opencl_supports(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                     size_t reason_bytes);
compute_status opencl_kernel_prepare(void *device, const compute_kernel_descriptor *descriptor,
                                     void **kernel);
compute_status opencl_kernel_prepare_tuned(void *device,
                                           const compute_kernel_descriptor *descriptor,
                                           const compute_tuning *tuning, void **kernel);
void opencl_kernel_destroy(void *device, void *kernel);
void opencl_kernel_describe(void *device, void *kernel, char *text, size_t text_bytes);
compute_status opencl_enqueue(void *queue, void *kernel, const compute_argument *arguments,
                              uint32_t count);
const char *opencl_implementation_name(void *device, const compute_kernel_descriptor *descriptor,
                                       uint32_t index);
compute_status opencl_device_target(void *device, compute_target *target);

/* CLBlast: whether it is installed and can serve the descriptor (`reason` may be NULL); the problem
 * in its terms, warmed up; and a call of it. */
bool opencl_clblast_serves(opencl_device *device, const compute_kernel_descriptor *descriptor,
                           char *reason, size_t reason_bytes);
compute_status opencl_clblast_prepare(opencl_device *device,
                                      const compute_kernel_descriptor *descriptor,
                                      opencl_gemm **gemm);
/* After the last kernel of a device: lets go of what CLBlast keeps. */
void opencl_clblast_forget(void);
void opencl_clblast_destroy(opencl_device *device, opencl_gemm *gemm);
compute_status opencl_clblast_enqueue(opencl_queue *queue, const opencl_gemm *gemm,
                                      const compute_argument *arguments);

compute_status opencl_custom_build(void *device, const char *source, const char *entry,
                                   const char *options, void **kernel);
void opencl_custom_destroy(void *device, void *kernel);
compute_status opencl_custom_launch(void *queue, void *kernel, const uint32_t groups[3],
                                    const uint32_t group[3],
                                    const compute_custom_argument *arguments, uint32_t count);

#endif
