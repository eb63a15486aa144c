/* SPDX-License-Identifier: MIT */
/* Internals of the CUDA backend.
 *
 *   module.c    the vtable, and starting the module
 *   driver.c    libcuda.so.1, its functions and constants
 *   errors.c    texts for the driver's codes, and the state of a lost device
 *   device.c    one GPU: its properties in libcompute's form
 *   memory.c    device memory, foreign memory, and page-locked host memory
 *   queue.c     streams, their failures and their scratch memory
 *   transfer.c  copies to, from, on and between GPUs
 *   event.c     events, and timers of points on a queue
 *   nvrtc.c     NVRTC, the compiler
 *   program.c   from source text to loaded modules
 *   kernel.c    generated kernels: from a descriptor to launches
 *   launch.c    enqueues these launches on a stream
 *   custom.c    the user's custom kernels
 *   record.c    sequences of kernels as CUDA graphs
 *   communicator.c  collective operations with GPUs of other processes, by NCCL (nccl.[ch])
 *   vendor.h    products by NVIDIA's libraries, with the list of its files
 *
 * Every handle of the vtable is a pointer to one of the structs below. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "common/builder.h"
#include "compute/backend.h"
#include "driver.h"
#include "vendor.h"

/* ---- Instance and devices ------------------------------------------------------------------ */

typedef struct cuda_instance {
  const compute_services *services;
  const cuda_driver *driver;
  uint32_t count;
} cuda_instance;

typedef struct cuda_staging cuda_staging; /* transfer.c */
typedef struct cuda_mark cuda_mark;       /* event.c */

typedef struct cuda_device {
  const compute_services *services;
  const cuda_driver *driver;
  uint32_t index;
  cuda_device_id id;
  cuda_context context;
  pid_t process; /* the process that opened it: CUDA does not survive a fork */
  compute_target target;
  int32_t capability; /* 90 for 9.0 */
  bool unified;       /* shares the host's memory (Tegra, Grace) */
  uint64_t memory_bytes;
  double peak_operations; /* peak f32 operations and bytes of memory traffic per second; 0:
                           * unknown */
  double peak_bytes;
  cuda_memory_pool pool; /* NULL if the driver or the device has none */
  cuda_stream memory_stream;

  _Atomic int32_t lost; /* the code that ended the device, or 0 */
  char lost_where[160]; /* the action at that time; written once, before `lost` */
  pthread_mutex_t lost_mutex;

  pthread_mutex_t staging_mutex;
  pthread_cond_t staging_returned;
  cuda_staging *staging; /* created at the first transfer */

  _Atomic uint64_t peers; /* one bit per device index: access to that GPU was requested */

  pthread_mutex_t clock_mutex;
  cuda_mark *mark; /* created at the first timer */

  const nvrtc_library *nvrtc; /* NULL if there is no compiler, with the reason */
  char no_compiler[160];
  int architecture; /* target of compilation; exact: the GPU itself, otherwise PTX for the driver to
                     * finish */
  bool exact_architecture;
  char compiler[32], options[128];
  builder builder;

  cuda_library libraries[CUDA_LIBRARIES]; /* vendor libraries; opened at a kernel's first request */
} cuda_device;

compute_status cuda_device_open(void *instance, uint32_t index, void **device);
void cuda_device_close(void *device);
compute_status cuda_device_describe(void *device, compute_device_info *info);
compute_status cuda_device_target(void *device, compute_target *target);

/* ---- Errors -------------------------------------------------------------------------------- */

/* Call before driver calls: makes the device's context current on the thread. After a fork, or if
 * the device is lost, it fails without a driver call. */
compute_status cuda_enter(cuda_device *device);

/* The same for releases: false if the driver must not be called any more. */
bool cuda_enter_to_release(cuda_device *device);

/* Records "cuda:<index>: <what>: <words> (CUDA_ERROR_NAME)" and returns the code's status. A code
 * that makes the context unusable marks the device as lost. */
compute_status cuda_fail(cuda_device *device, cuda_result code, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
compute_status cuda_fail_memory(const compute_services *services, const char *what);

/* Handles a code that nobody reports (in a release): it may mark the device as lost. */
void cuda_notice(cuda_device *device, cuda_result code, const char *what);

/* Replaces an error from elsewhere: a lost device reports the first cause. */
compute_status cuda_tell_lost(cuda_device *device, compute_status status);

bool cuda_is_fatal(cuda_result code);
compute_status cuda_code_status(cuda_result code);
const char *cuda_code_remedy(cuda_result code); /* or NULL */
const char *cuda_code_name(const cuda_driver *driver, cuda_result code);

/* ---- Memory -------------------------------------------------------------------------------- */

typedef enum cuda_memory_kind {
  CUDA_MEMORY_POOL,       /* from the device's stream-ordered pool */
  CUDA_MEMORY_PLAIN,      /* from cuMemAlloc */
  CUDA_MEMORY_REGISTERED, /* the caller's host memory, registered by this backend */
  CUDA_MEMORY_FOREIGN     /* memory known to the driver already, on the device or pinned */
} cuda_memory_kind;

typedef struct cuda_memory {
  cuda_pointer pointer;
  void *host; /* of registered memory */
  cuda_memory_kind kind;
} cuda_memory;

compute_status cuda_memory_allocate(void *device, uint64_t bytes, compute_memory *memory);
void cuda_memory_release(void *device, compute_memory *memory);
compute_status cuda_memory_import(void *device, void *data, uint64_t bytes, compute_memory *memory);
void cuda_memory_export(void *device, const compute_argument *argument,
                        compute_foreign_memory *foreign);
compute_status cuda_memory_adopt(void *device, const compute_foreign_memory *foreign,
                                 uint64_t bytes, compute_memory *memory);

/* The driver's data about an address; type 0 if the driver does not recognise it. */
typedef struct cuda_pointer_facts {
  uint32_t type; /* CUDA_MEMORY_TYPE_… */
  int32_t ordinal;
  cuda_pointer pointer; /* device address */
} cuda_pointer_facts;

cuda_pointer_facts cuda_pointer_facts_of(const cuda_device *device, const void *address);

/* The device address of an argument; 0 for no memory. */
static inline cuda_pointer cuda_address(const compute_argument *argument) {
  const cuda_memory *memory = argument->memory ? argument->memory->handle : NULL;
  return memory ? memory->pointer + argument->offset : 0;
}

/* ---- Programs ------------------------------------------------------------------------------ */

#define CUDA_NVRTC_REMEDY "install NVRTC, libnvrtc.so.13 or .12 of NVIDIA's CUDA toolkit"

typedef struct cuda_entry {
  builder_entry shared;
  cuda_function function;
  uint32_t group_limit; /* items per group, as the driver reports for this function */
} cuda_entry;

extern const builder_driver cuda_builder_driver;

/* Finds the compiler for the device, or stores the reason why there is none.
 * COMPUTE_ERROR_OUT_OF_MEMORY. */
compute_status cuda_compiler_open(cuda_device *device);
/* The compiler option for the target architecture. */
void cuda_compiler_target(const cuda_device *device, char *text, size_t bytes);
void cuda_build_statistics(void *device, compute_build_statistics *statistics);

bool cuda_group_fits(const cuda_device *device, const cuda_entry *entry, const uint32_t group[3]);
bool cuda_grid_fits(const uint32_t groups[3]);

/* ---- Queues and events --------------------------------------------------------------------- */

typedef struct cuda_queue {
  cuda_device *device;
  cuda_stream stream;
  int32_t *fault;                   /* pinned records; NULL until a kernel needs one */
  cuda_pointer fault_address;       /* the device address of the same memory */
  fault_table faults;               /* assignment of the records to kernels */
  compute_memory workspace;         /* scratch memory, shared by successive kernels */
  struct cuda_recording *recording; /* while recording, the destination of kernels (record.c);
                                     * otherwise NULL */
  void *convolutions;               /* cuDNN's handle for this stream; NULL until the first use */
} cuda_queue;

compute_status cuda_queue_create(void *device, void **queue);
void cuda_queue_destroy(void *queue);
compute_status cuda_queue_wait(void *queue);

/* Scratch memory for the kernels submitted next; it may wait for earlier kernels. */
compute_status cuda_workspace(cuda_queue *queue, uint64_t bytes, cuda_pointer *address);
/* The records that kernels fill in when an index is out of range. */
compute_status cuda_fault_words(cuda_queue *queue, cuda_pointer *address);

void cuda_queue_label(void *handle, uint32_t label);

compute_status cuda_event_create(void *queue, void **event); /* event_record of the vtable */
void cuda_event_release(void *device, void *event);
compute_status cuda_event_await(void *device, void *event);
compute_status cuda_event_ask(void *device, void *event, bool *complete);
compute_status cuda_queue_await_event(void *queue, void *event);
void *cuda_queue_native(void *queue);
compute_status cuda_queue_signal(void *queue, void *native);

compute_status cuda_timer_record(void *queue, void **timer);
compute_status cuda_timer_read(void *device, void *timer, int64_t *nanoseconds);
void cuda_timer_destroy(void *device, void *timer);
void cuda_clock_release(cuda_device *device);

/* ---- Transfers ----------------------------------------------------------------------------- */

compute_status cuda_upload(void *queue, const compute_argument *destination, const void *source,
                           uint64_t bytes);
compute_status cuda_download(void *queue, void *destination, const compute_argument *source,
                             uint64_t bytes);
compute_status cuda_copy(void *queue, const compute_argument *destination,
                         const compute_argument *source, uint64_t bytes);
compute_status cuda_copy_from_peer(void *queue, const compute_argument *destination,
                                   void *source_device, const compute_argument *source,
                                   uint64_t bytes);
void cuda_staging_release(cuda_device *device);

compute_status cuda_host_allocate(void *device, uint64_t bytes, void **data);
void cuda_host_release(void *device, void *data);
compute_status cuda_host_register(void *device, void *data, uint64_t bytes);
void cuda_host_unregister(void *device, void *data);

/* ---- Kernels ------------------------------------------------------------------------------- */

typedef struct cuda_kernel {
  builder_kernel shared;
  _Atomic int32_t references; /* one of the core, and one for each recording */
  cuda_product *product;      /* by a vendor library, before the launches; NULL if none */
  uint64_t product_bytes; /* of its result, at the start of the workspace; 0: it is written to the
                           * output */
  cuda_flip *flip;        /* flips the product's filter before it; NULL if none */
} cuda_kernel;

/* Memory of launches besides the operands. */
typedef struct cuda_scratch {
  cuda_pointer workspace, fault;
} cuda_scratch;

bool cuda_supports(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                   size_t reason_bytes);
compute_status cuda_kernel_prepare(void *device, const compute_kernel_descriptor *descriptor,
                                   void **kernel);
compute_status cuda_kernel_prepare_tuned(void *device, const compute_kernel_descriptor *descriptor,
                                         const compute_tuning *tuning, void **kernel);
void cuda_kernel_retain(cuda_kernel *kernel);
void cuda_kernel_destroy(void *device, void *kernel);
void cuda_kernel_describe(void *device, void *kernel, char *text, size_t text_bytes);
compute_status cuda_enqueue(void *queue, void *kernel, const compute_argument *arguments,
                            uint32_t count);

/* Submits a kernel to the queue's stream immediately, also while the queue records. Records the
 * error. */
compute_status cuda_kernel_submit(cuda_queue *queue, const cuda_kernel *kernel,
                                  const cuda_pointer *operands, const cuda_scratch *scratch);

/* The generated part of the kernel (launch.c). */
compute_status cuda_launch(cuda_queue *queue, const builder_kernel *kernel,
                           const cuda_pointer *operands, const cuda_scratch *scratch);

/* Fills in the addresses of a launch's buffers, and the driver's parameter list, which points to
 * them and to the shape. */
void cuda_bind(const builder_launch *launch, const cuda_pointer *operands,
               const cuda_scratch *scratch, cuda_pointer *bound);
void cuda_parameters(const builder_launch *launch, cuda_pointer *bound, void **parameters);

compute_status cuda_custom_build(void *device, const char *source, const char *entry,
                                 const char *options, void **kernel);
void cuda_custom_destroy(void *device, void *kernel);
compute_status cuda_custom_launch(void *queue, void *kernel, const uint32_t groups[3],
                                  const uint32_t group[3], const compute_custom_argument *arguments,
                                  uint32_t count);

/* ---- Communicators ------------------------------------------------------------------------- */

compute_status cuda_communicator_offer(void *device, compute_communicator_offer *offer);
compute_status cuda_communicator_identify(void *device, uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES]);
compute_status cuda_communicator_open(void *device, const uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES],
                                      int32_t rank, int32_t size, void **communicator);
bool cuda_communicator_supports(void *communicator, const compute_collective *collective);
compute_status cuda_communicator_submit(void *communicator, void *queue,
                                        const compute_collective *collective,
                                        const compute_argument *input,
                                        const compute_argument *output);
compute_status cuda_communicator_test(void *communicator, bool *done);
compute_status cuda_communicator_finish(void *communicator);
void cuda_communicator_close(void *communicator, bool orderly);

/* ---- Recordings ---------------------------------------------------------------------------- */

typedef struct cuda_recording cuda_recording;

compute_status cuda_record_begin(void *queue);
compute_status cuda_recording_note(cuda_queue *queue, cuda_kernel *kernel,
                                   const compute_argument *arguments);
compute_status cuda_record_end(void *queue, void **recording);
compute_status cuda_record_submit(void *queue, void *recording, const compute_argument *arguments,
                                  uint32_t count);
void cuda_record_destroy(void *device, void *recording);

#endif
