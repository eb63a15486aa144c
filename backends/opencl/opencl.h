/* SPDX-License-Identifier: MIT */
/* Internals of the OpenCL backend.
 *
 *   module.c     the vtable, and starting the module: libOpenCL.so.1
 *   registered.c registered drivers, and their priorities as far as known before they start
 *   platforms.c  usable platforms and devices, and the reasons for leaving others out
 *   device.c     one device: its properties in libcompute's form, checked against driver errors
 *   memory.c     buffers: shared with the host if the driver can, otherwise the device's memory;
 *                host memory that is copied without staging
 *   probe.c      tests of memory that host and device share
 *   queue.c      in-order queues, their pending commands and their failures
 *   transfer.c   copies to, from and within a device
 *   event.c      events, and timers of points on a queue
 *   program.c    compilation, and the kernel objects of programs
 *   kernel.c     generated kernels: from a descriptor to launches
 *   clblast.c    the vendor-neutral BLAS library as a second implementation of GEMM
 *   custom.c     the user's custom kernels
 *   errors.c     texts for OpenCL's codes; lost devices and their recovery
 *
 * Every handle of the vtable is a pointer to one of the structs below. */
#ifndef OPENCL_OPENCL_H
#define OPENCL_OPENCL_H

#include <pthread.h>
#include <stdatomic.h>

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue: the only way in 1.2 drivers */
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "common/builder.h"
#include "compute/backend.h"

#define OPENCL_TEXT 256 /* size of stored driver texts */

/* ---- The library --------------------------------------------------------------------------- */

/* libOpenCL.so.1 is opened at run time: on a machine without it, this module still loads and can
 * give installation advice. */

/* The functions of OpenCL 1.2 in use. */
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

/* Functions of OpenCL 2.0; NULL with an older loader. A newer loader calls them through the
 * driver's table, so call them only for devices that report shared virtual memory. */
#define OPENCL_OPTIONAL_FUNCTIONS(X)                                                               \
  X(clSVMAlloc)                                                                                    \
  X(clSVMFree)                                                                                     \
  X(clSetKernelArgSVMPointer)

#define OPENCL_MEMBER(function) __typeof__(&function) function;
typedef struct opencl_library {
  OPENCL_FUNCTIONS(OPENCL_MEMBER)
  OPENCL_OPTIONAL_FUNCTIONS(OPENCL_MEMBER)
} opencl_library;

/* Returns NULL, with a sentence in `reason`, if there is no loader, the loader is too old, or host
 * memory is short (*memory_short). The library stays open until the process ends, because drivers
 * keep threads. Thread-safe. */
const opencl_library *opencl_load(char *reason, size_t reason_bytes, bool *memory_short);

/* ---- Instance ------------------------------------------------------------------------------ */

/* A device that can be opened. */
typedef struct opencl_place {
  cl_platform_id platform;
  cl_device_id id;
  cl_device_type type;
  bool divided; /* a sub-device, to be released */
  bool pocl;    /* compiles at the first launch and keeps a separate cache */
  bool own;     /* the driver comes from the device's vendor, not from a multi-vendor project */
  bool matched; /* scratch flag of platforms.c */
  char platform_name[OPENCL_TEXT], platform_version[OPENCL_TEXT];
} opencl_place;

typedef struct opencl_instance {
  const compute_services *services;
  const opencl_library *cl;
  opencl_place *places; /* in the order of device indices */
  uint32_t count, capacity;
  char left_out[512]; /* reasons for unusable platforms or devices; "" if all are usable */
  bool uncertain;     /* a driver failed: it may work another time */
} opencl_instance;

/* Fills in the places and the reasons for omissions. COMPUTE_ERROR_NO_DEVICE, with advice, if
 * nothing is usable. */
compute_status opencl_enumerate(opencl_instance *instance);
void opencl_places_release(opencl_instance *instance);

/* The folder where drivers register, as the loader determines it. */
const char *opencl_vendors(const compute_services *services);

/* `true` if, as far as known without starting a driver, no registered driver has a device with a
 * higher priority than the open ones. */
bool opencl_can_wait(const compute_services *services);

/* Stores the list of devices and priorities in the disk cache, for opencl_can_wait in later
 * processes. */
void opencl_remember(const opencl_instance *instance);

/* ---- Properties ---------------------------------------------------------------------------- */

/* The answer, or `fallback` if the driver fails or answers in another size. */
uint64_t opencl_number(const opencl_library *cl, cl_device_id id, cl_device_info what, size_t bytes,
                       uint64_t fallback);

/* Always terminates the text; "" if the driver fails. Trims blanks at both ends. */
void opencl_text(const opencl_library *cl, cl_device_id id, cl_device_info what, char *text,
                 size_t text_bytes);
void opencl_platform_text(const opencl_library *cl, cl_platform_id id, cl_platform_info what,
                          char *text, size_t text_bytes);

/* `true` if the device's space-separated extension list contains this one. */
bool opencl_has_extension(const opencl_library *cl, cl_device_id id, const char *extension);

/* "OpenCL 1.2 …" → 12; 0 for any other text. */
int opencl_version(const char *text);

/* ---- Device -------------------------------------------------------------------------------- */

typedef struct opencl_staging opencl_staging;         /* transfer.c */
typedef struct opencl_host_memory opencl_host_memory; /* memory.c */
typedef struct opencl_past opencl_past;               /* device.c */
typedef struct opencl_queue opencl_queue;

/* Does the driver use host memory in place? */
typedef enum opencl_sharing { OPENCL_UNKNOWN, OPENCL_COPIES, OPENCL_SHARES } opencl_sharing;

typedef struct opencl_device {
  const compute_services *services;
  const opencl_library *cl;
  const opencl_instance *instance;
  const opencl_place *place;
  uint32_t index;
  cl_device_id id;
  cl_context context;
  opencl_past *past;           /* contexts from before a device loss */
  _Atomic uint32_t generation; /* counts the contexts */
  _Atomic int32_t lost;        /* the code that ended the context, or 0 */
  char lost_where[160];        /* the action at that time; written once, before `lost` */
  pthread_mutex_t loss_mutex;
  compute_target target;
  char options[96]; /* for the compiler of generated kernels */
  char device_version[OPENCL_TEXT], driver_version[OPENCL_TEXT], full_name[OPENCL_TEXT];

  bool is_cpu, unified; /* unified: host and device use one memory */
  bool shared_memory;   /* fine-grained buffers: `host` of every memory is set */
  bool system_memory;   /* the device can use any host memory */
  bool two_queues;      /* transfers have a separate queue */
  _Atomic bool clblast_used;
  uint64_t memory_bytes, allocation_limit, argument_limit, base_alignment;
  uint32_t address_bits;

  pthread_mutex_t memory_mutex; /* protects the two fields below */
  cl_command_queue memory_queue;
  opencl_sharing sharing;     /* of wrapped host memory */
  _Atomic uint64_t allocated; /* bytes of live memories */
  _Atomic uint64_t tickets;   /* commands submitted so far */

  builder builder; /* programs; its mutex also guards their idle kernels */

  pthread_mutex_t staging_mutex;
  pthread_cond_t staging_returned;
  opencl_staging *staging; /* for a device with two queues; created at the first transfer */

  pthread_mutex_t host_mutex;
  opencl_host_memory *_Atomic host_memories; /* allocated and registered memories */

  pthread_mutex_t clock_mutex; /* protects the clock data of event.c */
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

/* Records "opencl: <what>: <words> (CL_NAME, -5)" and returns the code's status. A code that means
 * DEVICE_LOST marks the device as lost. */
compute_status opencl_fail(opencl_device *device, cl_int code, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* The same for a generated kernel, described by `kernel`. Its arguments come from the library, so a
 * driver that refuses them has failed: COMPUTE_ERROR_LAUNCH, after which the CPU can take over. */
compute_status opencl_fail_launch(opencl_device *device, cl_int code, const char *kernel);
compute_status opencl_fail_memory(const compute_services *services, const char *what);

/* ---- Lost devices -------------------------------------------------------------------------- */

void opencl_lose(opencl_device *device, cl_int code, const char *what);

/* Checks before driver calls. They fail if the device is lost, or if the object was created before
 * a recovery. */
compute_status opencl_enter(opencl_device *device);
compute_status opencl_enter_queue(opencl_queue *queue);
compute_status opencl_enter_memory(opencl_device *device, const compute_memory *memory);
compute_status opencl_fail_stale(const opencl_device *device, const char *what);

/* For a new object. */
static inline uint32_t opencl_generation(const opencl_device *device) {
  return atomic_load_explicit(&device->generation, memory_order_relaxed);
}

static inline bool opencl_is_stale(const opencl_device *device, uint32_t generation) {
  return generation != atomic_load_explicit(&device->generation, memory_order_acquire);
}

compute_status opencl_device_recover(void *device);

/* ---- Memory -------------------------------------------------------------------------------- */

enum { LANE_COMPUTE = 0, LANE_TRANSFER = 1, LANES = 2 };

typedef struct opencl_memory {
  cl_mem buffer;
  void *shared; /* fine-grained shared memory under the buffer, or NULL */
  uint64_t bytes;
  _Atomic uint64_t used[LANES]; /* the highest ticket of a command that uses it */
  cl_context context;           /* the context that owns `shared` */
  uint32_t generation;          /* the device's generation at creation */
} opencl_memory;

/* Tests whether the shared memory that the driver offers really is shared. */
void opencl_memory_try(opencl_device *device);
compute_status opencl_memory_allocate(void *device, uint64_t bytes, compute_memory *memory);
void opencl_memory_release(void *device, compute_memory *memory);
/* The queue for the few commands of memory management. Call with memory_mutex locked. */
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

/* One in-order queue of the driver. It keeps each command's event until the command has succeeded:
 * nothing else reports a failure in the middle. */
typedef struct opencl_lane {
  cl_command_queue queue; /* NULL: commands go to the compute lane */
  cl_event pending[PENDING_EVENTS];
  uint32_t count;
  uint64_t last;     /* ticket of the last command */
  uint64_t seen;     /* the highest ticket of the other lane that this lane has waited for */
  uint64_t entering; /* next value of `seen`, set when the current command has been submitted */
  uint32_t kept;     /* commands since the last flush */
} opencl_lane;

struct opencl_queue {
  opencl_device *device;
  uint32_t generation; /* the device's generation at creation */
  opencl_lane lanes[LANES];
  cl_int failure;       /* the first error code since the last wait */
  bool keeps_times;     /* its lanes record the times of their commands */
  compute_memory fault; /* fault records, zeroed; created at the first use */
  fault_table faults;   /* assignment of the records to kernels */
  cl_mem workspace;     /* scratch memory, shared by successive kernels */
  uint64_t workspace_bytes;
  cl_mem held[HELD_BUFFERS]; /* sub-buffers in use by commands */
  uint32_t held_count;
};

compute_status opencl_queue_create(void *device, void **queue);
void opencl_queue_destroy(void *queue);
void opencl_queue_label(void *queue, uint32_t label);
compute_status opencl_queue_flush(void *queue);
compute_status opencl_queue_wait(void *queue);

/* Waits for both lanes. Failures stay in `failure` for opencl_queue_wait. */
void opencl_queue_drain(opencl_queue *queue);

/* Call before a command. Sets its lane, and the event of the other lane that it must wait for if a
 * command there uses one of the memories. Returns the number of events (0 or 1). */
uint32_t opencl_lane_enter(opencl_queue *queue, int which, opencl_memory *const *memories,
                           uint32_t count, opencl_lane **lane, cl_event *wait);

/* Call after a successful submission: takes over the event and marks the memories. */
void opencl_lane_submitted(opencl_queue *queue, opencl_lane *lane, cl_event event,
                           opencl_memory *const *memories, uint32_t count);

/* Has the driver begin the lane's commands. Every 16th command does so by itself. */
cl_int opencl_lane_flush(const opencl_queue *queue, opencl_lane *lane);

/* Scratch memory for the commands submitted next. */
compute_status opencl_workspace(opencl_queue *queue, uint64_t bytes, cl_mem *workspace);
/* The records that kernels fill in when an index is out of range. */
compute_status opencl_fault_words(opencl_queue *queue, opencl_memory **memory);
/* Releases a sub-buffer once the commands submitted so far have ended. */
void opencl_queue_hold(opencl_queue *queue, cl_mem buffer);

compute_status opencl_event_record(void *queue, void **event);
void opencl_event_destroy(void *device, void *event);
compute_status opencl_event_wait(void *device, void *event);
compute_status opencl_event_query(void *device, void *event, bool *complete);
compute_status opencl_queue_wait_event(void *queue, void *event);

/* Makes the driver record the times of the queue's commands; the first call waits for the queue. */
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
/* `true` if listed host memory contains the whole range. */
bool opencl_host_is_known(opencl_device *device, const void *data, uint64_t bytes);

/* ---- Programs ------------------------------------------------------------------------------ */

#define OPENCL_IDLE_KERNELS 8 /* cached per function; one for each thread that enqueues it */

/* One kernel function of a program. */
typedef struct opencl_entry {
  builder_entry shared;
  cl_program program;
  size_t group_limit; /* the driver's limit for it on this device */
  cl_uint arguments;  /* UINT32_MAX: unknown */
  cl_kernel idle[OPENCL_IDLE_KERNELS];
  uint32_t idle_count;
} opencl_entry;

extern const builder_driver opencl_builder_driver;

/* A kernel object for one caller, because setting arguments is not thread-safe. NULL with *code on
 * failure. */
cl_kernel opencl_entry_take(opencl_device *device, opencl_entry *entry, cl_int *code);
void opencl_entry_return(opencl_device *device, opencl_entry *entry, cl_kernel kernel);

/* Whether the host and this device see each other's writes to `host`, which lies under `buffer` and has
 * at least 16 bytes: by commands, or also by a kernel, which is compiled. */
opencl_sharing opencl_probe_transfers(const opencl_device *device, cl_command_queue queue,
                                      cl_mem buffer, void *host);
opencl_sharing opencl_probe_all(opencl_device *device, cl_command_queue queue, cl_mem buffer,
                                void *host);

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

/* CLBlast: `serves` checks that it is installed and can compute the descriptor (`reason` may be
 * NULL); then create a warmed-up problem and call it. */
bool opencl_clblast_serves(opencl_device *device, const compute_kernel_descriptor *descriptor,
                           char *reason, size_t reason_bytes);
compute_status opencl_clblast_prepare(opencl_device *device,
                                      const compute_kernel_descriptor *descriptor,
                                      opencl_gemm **gemm);
/* Call after a device's last kernel: frees CLBlast's cached programs. */
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
