/* SPDX-License-Identifier: MIT */
/* Inside of the CUDA backend.
 *
 *   module.c    the vtable, and starting the module
 *   driver.c    libcuda.so.1, its functions and constants
 *   errors.c    the driver's codes in words, and what is left of a device after the worst of them
 *   device.c    one GPU: its facts in libcompute's terms
 *   memory.c    device memory, memory of others, and page-locked memory of the host
 *   queue.c     streams, their failures and their scratch memory
 *   transfer.c  copies to, from, on and between GPUs
 *   event.c     events, and the time at which a queue came to a point
 *   nvrtc.c     NVRTC, the compiler
 *   program.c   from source text to loaded modules
 *   kernel.c    generated kernels: from a descriptor to launches
 *   launch.c    these on a stream
 *   custom.c    kernels of the user's own
 *   record.c    sequences of kernels as CUDA graphs
 *   communicator.c  collective operations with GPUs of other processes, by NCCL (nccl.[ch])
 *   vendor.h    products by NVIDIA's libraries, with the list of its files
 *
 * Every handle of the vtable is a pointer to one of the structs below. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include <pthread.h>
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
  pid_t process; /* that opened it: CUDA does not survive fork */
  compute_target target;
  int32_t capability; /* 90 for 9.0 */
  bool unified;       /* shares the host's memory (Tegra, Grace) */
  uint64_t memory_bytes;
  double peak_operations; /* f32, and bytes from memory, in a second at most; 0: unknown */
  double peak_bytes;
  cuda_memory_pool pool; /* NULL where the driver or the device has none */
  cuda_stream memory_stream;

  int32_t lost;         /* atomic: the code that ended the device, or 0 */
  char lost_where[160]; /* what was being done then; written once, before `lost` */
  pthread_mutex_t lost_mutex;

  pthread_mutex_t staging_mutex;
  pthread_cond_t staging_returned;
  cuda_staging *staging; /* made at the first transfer */

  uint64_t peers; /* atomic, a bit for each index: access to that GPU has been asked for */

  pthread_mutex_t clock_mutex;
  cuda_mark *mark; /* made for the first timer */

  const nvrtc_library *nvrtc; /* NULL: no compiler, and why */
  char no_compiler[160];
  int architecture; /* compiled for; exact: the GPU's own, else PTX for the driver to finish */
  bool exact_architecture;
  char compiler[32], options[128];
  builder builder;

  cuda_library libraries[CUDA_LIBRARIES]; /* of the vendor; opened when a kernel asks */
} cuda_device;

compute_status cuda_device_open(void *instance, uint32_t index, void **device);
void cuda_device_close(void *device);
compute_status cuda_device_describe(void *device, compute_device_info *info);
compute_status cuda_device_target(void *device, compute_target *target);

/* ---- Errors -------------------------------------------------------------------------------- */

/* Before calls of the driver: makes the device's context the thread's. Fails, without touching the
 * driver, after a fork and when the device is lost. */
compute_status cuda_enter(cuda_device *device);

/* The same for releasing: false when the driver must not be called any more. */
bool cuda_enter_to_release(cuda_device *device);

/* Records "cuda:<index>: <what>: <words> (CUDA_ERROR_NAME)" and returns the code's status. A code
 * after which the context is of no use makes the device lost. */
compute_status cuda_fail(cuda_device *device, cuda_result code, const char *format, ...)
    COMPUTE_PRINTF(3, 4);
compute_status cuda_fail_memory(const compute_services *services, const char *what);

/* Notes a code that nobody reports (a release): the device may be lost by it. */
void cuda_notice(cuda_device *device, cuda_result code, const char *what);

/* After a failure that was put together elsewhere: a lost device reports its own cause. */
compute_status cuda_tell_lost(cuda_device *device, compute_status status);

bool cuda_is_fatal(cuda_result code);
compute_status cuda_code_status(cuda_result code);
const char *cuda_code_remedy(cuda_result code); /* or NULL */
const char *cuda_code_name(const cuda_driver *driver, cuda_result code);

/* ---- Memory -------------------------------------------------------------------------------- */

typedef enum cuda_memory_kind {
  CUDA_MEMORY_POOL,       /* of the device's stream-ordered pool */
  CUDA_MEMORY_PLAIN,      /* of cuMemAlloc */
  CUDA_MEMORY_REGISTERED, /* the caller's host memory, registered by us */
  CUDA_MEMORY_FOREIGN     /* memory that the driver knew already, on the device or pinned */
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

/* What the driver knows of an address: the type 0 of one that it does not know. */
typedef struct cuda_pointer_facts {
  uint32_t type; /* CUDA_MEMORY_TYPE_… */
  int32_t ordinal;
  cuda_pointer pointer; /* as kernels see it */
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
  uint32_t group_limit; /* items, as the driver says for this function */
} cuda_entry;

extern const builder_driver cuda_builder_driver;

/* Finds the compiler for the device, or notes why there is none. COMPUTE_ERROR_OUT_OF_MEMORY. */
compute_status cuda_compiler_open(cuda_device *device);
/* The option for the architecture that is compiled for. */
void cuda_compiler_target(const cuda_device *device, char *text, size_t bytes);
void cuda_build_statistics(void *device, compute_build_statistics *statistics);

bool cuda_group_fits(const cuda_device *device, const cuda_entry *entry, const uint32_t group[3]);
bool cuda_grid_fits(const uint32_t groups[3]);

/* ---- Queues and events --------------------------------------------------------------------- */

typedef struct cuda_queue {
  cuda_device *device;
  cuda_stream stream;
  int32_t *fault;                   /* pinned records; NULL until a kernel needs one */
  cuda_pointer fault_address;       /* the same, as kernels see it */
  fault_table faults;               /* what they are used for */
  compute_memory workspace;         /* scratch of kernels, one after the other */
  struct cuda_recording *recording; /* what is enqueued is noted here: record.c; else NULL */
  void *convolutions;               /* cuDNN's handle for this stream; NULL until it is needed */
} cuda_queue;

compute_status cuda_queue_create(void *device, void **queue);
void cuda_queue_destroy(void *queue);
compute_status cuda_queue_wait(void *queue);

/* Scratch memory for the kernels that are submitted next; it may wait for those before. */
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
  int32_t references;     /* atomic: the core's, and one for each recording */
  cuda_product *product;  /* by a vendor's library, before the launches; NULL: there is none */
  uint64_t product_bytes; /* of its result, first in the workspace; 0: it goes to the output */
  cuda_turn *turn;        /* of the product's filter, before it; NULL: there is none */
} cuda_kernel;

/* What launches are given besides operands. */
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

/* Puts a kernel that is not only noted on the queue's stream. Records the error. */
compute_status cuda_kernel_submit(cuda_queue *queue, const cuda_kernel *kernel,
                                  const cuda_pointer *operands, const cuda_scratch *scratch);

/* The generated part of it (launch.c). */
compute_status cuda_launch(cuda_queue *queue, const builder_kernel *kernel,
                           const cuda_pointer *operands, const cuda_scratch *scratch);

/* The addresses of a launch's buffers; and the driver's list of parameters, which points to them
 * and to the shape. */
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
