/* SPDX-License-Identifier: MIT */
/** @file
 * The interface between libcompute and its backends, for authors of backends.
 *
 * A backend is a shared library with one exported symbol, compute_backend_entry. It needs no symbol
 * of libcompute: the core passes its services in a compute_services struct. backends/null is the
 * skeleton to copy, docs/internals/backends.md the guide. compute/backend/kernel_descriptor.h describes the
 * work that it receives.
 *
 * Versioning:
 * - Every struct that crosses the interface starts with its size; fields are only ever appended.
 * - Any other change raises COMPUTE_BACKEND_ABI_MAJOR. A module with another major version is
 *   refused.
 * - The core treats a slot past the module's struct_size as NULL, and checks every slot marked
 *   optional before it calls it. A module must do the same with the services.
 *
 * Threads: the core may call every function from any thread, several at once, except that calls on
 * one queue never overlap.
 *
 * Errors: return a status and give the reason through services->fail. */
#ifndef COMPUTE_BACKEND_H
#define COMPUTE_BACKEND_H

#include <stdarg.h>

#include "compute/device.h"
#include "compute/backend/generator.h"
#include "compute/backend/kernel_descriptor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COMPUTE_BACKEND_ABI_MAJOR 2
#define COMPUTE_BACKEND_ABI_MINOR 8

/* ---- Services of the core ------------------------------------------------------------------ */

/** One task of a parallel loop; `worker` is below thread_count and unique among those running. */
typedef void (*compute_task)(void *argument, int64_t task, int32_t worker);

/** Part of a disk-cache key: any bytes. */
typedef struct compute_cache_part {
  const void *data;
  size_t bytes;
} compute_cache_part;

typedef struct compute_services {
  size_t struct_size;
  uint32_t abi_major, abi_minor; /**< of the core */
  void *host;                    /**< first argument of the functions below */

  /** Host memory, zeroed; NULL when out of memory (report it through fail). */
  void *(*allocate)(void *host, size_t bytes, size_t alignment);
  void (*release)(void *host, void *pointer);

  /** One log line. */
  void (*log)(void *host, compute_log_level level, const char *module, const char *format, ...)
      COMPUTE_PRINTF(4, 5);

  /** Records an error detail for the calling thread and returns `status`. `remedy` may be NULL. */
  compute_status (*fail)(void *host, compute_status status, int64_t native_code, const char *remedy,
                         const char *format, ...) COMPUTE_PRINTF(5, 6);

  /** Threads of the context's pool, including the caller: at least 1, constant. */
  int32_t (*thread_count)(void *host);

  /** Runs task(argument, 0 … tasks−1, worker) on the pool and the caller; returns when all are
   * done.
   *
   * Each worker begins with an equal part of neighbouring tasks, in ascending order, and then takes
   * tasks of the other parts. So if nearby numbers mean nearby data, a thread finds its own results
   * of the previous loop in its caches.
   *
   * When the pool is busy with another caller's loop or the call is nested, the caller runs all of
   * them itself, as worker 0. */
  void (*parallel)(void *host, int64_t tasks, compute_task task, void *argument);

  /** The text of an environment variable of the core's table, or NULL if unset or empty. */
  const char *(*variable)(void *host, const char *name);

  /** Writes a kernel's source (compute/backend/generator.h). `tuning` may be NULL: the defaults.
   * COMPUTE_ERROR_UNSUPPORTED, with the reason as error detail, when the target lacks a feature
   * that the kernel needs or cannot run these parameters. The result is constant; release it with
   * generated_release. */
  compute_status (*generate)(void *host, const compute_target *target,
                             const struct compute_kernel_descriptor *descriptor,
                             const compute_tuning *tuning, const compute_generated **generated);
  void (*generated_release)(void *host, const compute_generated *generated);

  /** Whether generate could serve the descriptor on this target; `reason` as in `supports`. */
  bool (*generates)(void *host, const compute_target *target,
                    const struct compute_kernel_descriptor *descriptor, char *reason,
                    size_t reason_bytes);

  /** The dialect's definitions, which precede every generated source: for a user's own kernels. */
  const char *(*dialect_text)(void *host, compute_dialect dialect);

  /** Fills in the parameters for a kernel on a target: forced, from the tuning file, from the
   * library's table, or all 0. */
  compute_tuning_source (*tuning_lookup)(void *host, const compute_target *target,
                                         const struct compute_kernel_descriptor *descriptor,
                                         compute_tuning *tuning);

  /** The disk cache. `parts` is everything that the entry depends on, in an order that the module
   * fixes; the core adds its own version. load returns memory to be freed with `release`, or NULL
   * if there is no such entry, it is damaged, or the cache is off. Neither call sets an error. */
  void *(*cache_load)(void *host, const compute_cache_part *parts, uint32_t count, size_t *bytes);
  void (*cache_store)(void *host, const compute_cache_part *parts, uint32_t count, const void *data,
                      size_t bytes);

  /** Whether the module called `backend` may open libraries that obey the environment of the
   * process: always, except in a program with raised privileges (set-user-ID, set-group-ID, file
   * capabilities) whose compute_open_options do not name the module. Constant while the context
   * lives. */
  bool (*trusts_environment)(void *host, const char *backend);

  /** `fail` for an index of GATHER, SCATTER or BINCOUNT that is outside its axis. Returns
   * COMPUTE_ERROR_INDEX.
   * - `label`: the number that queue_label set when the kernel was enqueued; 0 if it is not known
   *   or enqueue itself fails.
   * - `index`: the value of the index.
   * - `offset`: the place of the index, in elements from the beginning of inputs[1]; BINCOUNT:
   *   of inputs[0].
   *
   * Of several, report the one with the lowest position, or any of them. */
  compute_status (*fail_index)(void *host, uint32_t label, int64_t index, int64_t offset);

  /** The highest priority of the devices that are open and run kernels, INT32_MIN if there are
   * none: for can_wait. */
  int32_t (*best_priority)(void *host);

  /** Brackets around calls that load libraries or look for their symbols, on the calling thread;
   * they nest. A fork on another thread waits for their end, for two seconds at most: a library
   * that is half loaded in the child would stay so. `open` and `device_open` of a module are within
   * such a bracket. Begin before taking a lock that is held meanwhile. */
  void (*load_begin)(void *host);
  void (*load_end)(void *host);
} compute_services;

/* ---- A module's functions ------------------------------------------------------------------ */

/** A piece of device memory. `handle` belongs to the module; `host` is its address if the CPU can
 * read and write it, else NULL. */
typedef struct compute_memory {
  void *handle;
  void *host;
  uint64_t bytes;
} compute_memory;

/** A kernel argument: `offset` bytes into `memory`. */
typedef struct compute_argument {
  const compute_memory *memory;
  uint64_t offset;
} compute_argument;

/** Memory in DLPack's terms, for other libraries: from `byte_offset` bytes after `data` on. */
typedef struct compute_foreign_memory {
  int32_t device_type; /**< 1 the CPU, 2 CUDA, 3 the host's memory locked for CUDA, 4 OpenCL, … */
  int32_t device_id;   /**< among the devices of this type */
  void *data;          /**< an address, or a handle such as a cl_mem */
  uint64_t byte_offset;
} compute_foreign_memory;

/** An argument of a user's kernel: device memory if `memory` is set, else `bytes` of `value`, or
 * `bytes` of local memory if both are NULL. */
typedef struct compute_custom_argument {
  const compute_memory *memory;
  uint64_t offset;
  const void *value;
  uint64_t bytes;
} compute_custom_argument;

/* ---- Communicators ------------------------------------------------------------------------- */

/** The properties of a device that decide whether it can communicate with devices of other
 * processes. Ranks with different `library` texts cannot communicate; nor can two ranks of one host
 * with the same `place`. */
typedef struct compute_communicator_offer {
  char library[32]; /**< "NCCL 2.27.3" */
  char place[32];   /**< of the device on its host: "0000:41:00" */
  uint64_t reserved[4];
} compute_communicator_offer;

#define COMPUTE_COMMUNICATOR_ID_BYTES 128

typedef enum compute_collective_kind {
  COMPUTE_COLLECTIVE_ALL_REDUCE = 0,
  COMPUTE_COLLECTIVE_REDUCE_SCATTER = 1,
  COMPUTE_COLLECTIVE_ALL_GATHER = 2,
  COMPUTE_COLLECTIVE_BROADCAST = 3,
  COMPUTE_COLLECTIVE_SEND = 4,
  COMPUTE_COLLECTIVE_RECEIVE = 5
} compute_collective_kind;

/** compute_group_reduction of compute/distributed.h, with the same numbers. */
typedef enum compute_collective_reduction {
  COMPUTE_COLLECTIVE_SUM = 0,
  COMPUTE_COLLECTIVE_MEAN = 1,
  COMPUTE_COLLECTIVE_MAX = 2, /**< NaN if any is */
  COMPUTE_COLLECTIVE_MIN = 3
} compute_collective_reduction;

typedef struct compute_collective {
  compute_collective_kind kind;
  compute_collective_reduction reduction; /**< of the first two kinds */
  compute_dtype dtype;
  int32_t peer;  /**< the root of BROADCAST, the other rank of SEND and RECEIVE */
  int64_t count; /**< elements of the input; of BROADCAST and RECEIVE, of the result */
  uint64_t reserved[4];
} compute_collective;

typedef struct compute_backend {
  size_t struct_size;
  uint32_t abi_major, abi_minor; /**< COMPUTE_BACKEND_ABI_… it was built with */
  const char *name;        /**< "cpu"; lower-case letters, digits and '_'; device name prefix */
  const char *description; /**< one line */
  const char *version;

  /** Starts the module. Later calls get *instance. COMPUTE_ERROR_MISSING_LIBRARY, _NO_DEVICE, … if
   * it cannot start; the text given to services->fail becomes the probe's detail and remedy.
   * `services` lives until close. May be called once per context, several contexts at once. */
  compute_status (*open)(const compute_services *services, void **instance);
  void (*close)(void *instance);

  uint32_t (*device_count)(void *instance);
  /** _INVALID_ARGUMENT is for an environment variable that requests a feature that the device does
   * not have: compute_open fails with it. After any other failure the device is omitted. */
  compute_status (*device_open)(void *instance, uint32_t index, void **device);
  void (*device_close)(void *device);

  /** Fills in the fields that are known. The core has zeroed `info` and sets name, backend and
   * index itself. With priority 0 the core ranks the device by its type and vendor. */
  compute_status (*device_describe)(void *device, compute_device_info *info);

  /** bytes > 0. Alignment at least 64. COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY makes the core evict and
   * retry. */
  compute_status (*memory_allocate)(void *device, uint64_t bytes, compute_memory *memory);
  void (*memory_release)(void *device, compute_memory *memory);

  /** Optional: wraps host memory without a copy, or returns COMPUTE_ERROR_UNSUPPORTED. */
  compute_status (*memory_import)(void *device, void *data, uint64_t bytes, compute_memory *memory);

  compute_status (*queue_create)(void *device, void **queue);
  void (*queue_destroy)(void *queue);
  compute_status (*queue_wait)(void *queue);

  /** Optional together; without them the core waits for the queue instead. */
  compute_status (*event_record)(void *queue, void **event);
  void (*event_destroy)(void *device, void *event);
  compute_status (*event_wait)(void *device, void *event);
  compute_status (*event_query)(void *device, void *event, bool *complete);
  compute_status (*queue_wait_event)(void *queue, void *event);

  /** Copies of bytes > 0 in queue order. upload may return before `source` has been read only if
   * the memory stays valid until the queue has been waited for. The same holds for download and
   * `destination`. */
  compute_status (*upload)(void *queue, const compute_argument *destination, const void *source,
                           uint64_t bytes);
  compute_status (*download)(void *queue, void *destination, const compute_argument *source,
                             uint64_t bytes);
  compute_status (*copy)(void *queue, const compute_argument *destination,
                         const compute_argument *source, uint64_t bytes);

  /** Whether the device can run this kernel. If not, `reason` gets a sentence. */
  bool (*supports)(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                   size_t reason_bytes);

  /** Builds a kernel. The descriptor and everything that it points to live only during the call. A
   * kernel is immutable and may be enqueued from several threads on several queues. */
  compute_status (*kernel_prepare)(void *device, const compute_kernel_descriptor *descriptor,
                                   void **kernel);
  void (*kernel_destroy)(void *device, void *kernel);

  /** Optional: one line on the implementation chosen, for compute_explain. */
  void (*kernel_describe)(void *device, void *kernel, char *text, size_t text_bytes);

  /** Submits a kernel: arguments are the inputs, then the outputs. */
  compute_status (*enqueue)(void *queue, void *kernel, const compute_argument *arguments,
                            uint32_t count);

  /* ---- Optional functions ---- */

  /** Whether no device of the module can rank above services->best_priority. Called before open;
   * must be quick. A module with this function is opened only when it is needed:
   * - when one of its devices is named;
   * - when all devices are listed;
   * - unless this returns true, when the best device is looked for.
   *
   * A module without it is opened with the context. */
  bool (*can_wait)(const compute_services *services);

  /** The target for the generator. A device without this function has no generated kernels to tune.
   * The caller sets struct_size. The module writes no more bytes than that, and sets it to the size
   * that it has filled in: the smaller one of the two sides' structs. */
  compute_status (*device_target)(void *device, compute_target *target);

  /** kernel_prepare with these parameters and no others: for the tuner. Never falls back. */
  compute_status (*kernel_prepare_tuned)(void *device, const compute_kernel_descriptor *descriptor,
                                         const compute_tuning *tuning, void **kernel);

  /** The name of the module's own implementation `index` (≥ 1) of a kernel ("CLBlast"), or NULL
   * past the end. compute_tuning.implementation selects one by this index. */
  const char *(*implementation_name)(void *device, const compute_kernel_descriptor *descriptor,
                                     uint32_t index);

  /** Adds the device's counters so far to `statistics` (device.h). */
  void (*build_statistics)(void *device, compute_build_statistics *statistics);

  /** A user's kernel. The build log becomes part of the error. Arguments as in kernel.h, with
   * tensors replaced by `memory` and `offset`. */
  compute_status (*custom_build)(void *device, const char *source, const char *entry,
                                 const char *options, void **kernel);
  void (*custom_destroy)(void *device, void *kernel);
  compute_status (*custom_launch)(void *queue, void *kernel, const uint32_t groups[3],
                                  const uint32_t group[3], const compute_custom_argument *arguments,
                                  uint32_t count);

  /** Copies from another device of the same module without passing through the host, in the order
   * of this queue. The core has already waited for the source's work. COMPUTE_ERROR_UNSUPPORTED if
   * the two cannot reach each other: the core then copies through the host. */
  compute_status (*copy_from_peer)(void *queue, const compute_argument *destination,
                                   void *source_device, const compute_argument *source,
                                   uint64_t bytes);

  /** Together: recording a sequence of kernels once and submitting it as a whole.
   *
   * - Between record_begin and record_end, kernels enqueued on the queue are recorded and do not
   *   run. The caller does nothing else with the queue meanwhile.
   * - record_end fails with COMPUTE_ERROR_UNSUPPORTED if the sequence cannot be recorded. With
   *   `recording` NULL it discards the recording.
   * - record_submit takes the arguments of all kernels, in the kernels' order. They may differ from
   *   the recorded ones in memory and offset. It neither allocates nor waits.
   * - One thread at a time submits a recording. Submissions of one recording run in sequence,
   *   whatever their queues. */
  compute_status (*record_begin)(void *queue);
  compute_status (*record_end)(void *queue, void **recording);
  compute_status (*record_submit)(void *queue, void *recording, const compute_argument *arguments,
                                  uint32_t count);
  void (*record_destroy)(void *device, void *recording);

  /** Together: times of points on a queue. Without them the core reads the clock around calls.
   * - timer_record marks the queue's progress so far.
   * - timer_read waits until the mark is reached and returns its time, in nanoseconds of the host's
   *   CLOCK_MONOTONIC. Times are exact relative to other timers of the device; relative to the
   *   host's clock they are as exact as the driver allows. */
  compute_status (*timer_record)(void *queue, void **timer);
  compute_status (*timer_read)(void *device, void *timer, int64_t *nanoseconds);
  void (*timer_destroy)(void *device, void *timer);

  /** Together: page-locked host memory, which this device copies fastest. Copies are asynchronous:
   * upload returns before it has read such memory, download before it has written it. Not
   * initialised. COMPUTE_ERROR_OUT_OF_MEMORY. */
  compute_status (*host_allocate)(void *device, uint64_t bytes, void **data);
  void (*host_release)(void *device, void *data);

  /** Together: page-locks the caller's own memory for as long as it is registered. Slow; pays off
   * for memory that is copied many times. COMPUTE_ERROR_UNSUPPORTED if the driver cannot,
   * _INVALID_STATE if some of it is already page-locked, _OUT_OF_MEMORY. */
  compute_status (*host_register)(void *device, void *data, uint64_t bytes);
  void (*host_unregister)(void *device, void *data);

  /** Recovers a lost device, if the driver can do so within the process. Memory, kernels, queues,
   * existing events and recordings stay lost: their calls keep failing with
   * COMPUTE_ERROR_DEVICE_LOST, and releasing them is safe. */
  compute_status (*device_recover)(void *device);

  uint64_t flags; /**< COMPUTE_BACKEND_…, any of the bits below */

  /** Optional. Marks all later kernels of the queue, including recorded ones, with a number for
   * fail_index. For modules that find invalid indices only when the queue is waited for. */
  void (*queue_label)(void *queue, uint32_t label);

  /** Together: prepacked constant inputs, in a layout that the kernel reads faster.
   * - kernel_packed_bytes returns the size of one of the descriptor's constant_inputs when packed,
   *   or 0 if the kernel reads it unpacked. It sets *form to the number of the layout: kernels of
   *   this device with the same form and the same elements share one packed copy.
   * - kernel_pack makes that copy from the elements, in the order of the queue. Launches then take
   *   it as their argument in place of the elements. */
  uint64_t (*kernel_packed_bytes)(void *device, void *kernel, uint32_t input, uint64_t *form);
  compute_status (*kernel_pack)(void *queue, void *kernel, uint32_t input,
                                const compute_argument *packed, const compute_argument *source);

  /** Together, for devices with separate memory: memory shared with other libraries in the process
   * (compute/dlpack.h).
   * - memory_export: the DLPack terms for `argument`, valid for as long as its memory lives. With
   *   `argument` NULL only the device's numbers are set.
   * - memory_adopt: `bytes` > 0 of another library's memory on this device, from `foreign->data`
   *   on; arguments get the byte_offset. COMPUTE_ERROR_UNSUPPORTED for memory that the device does
   *   not reach.
   * - memory_release of adopted memory frees only the objects that memory_adopt made. */
  void (*memory_export)(void *device, const compute_argument *argument,
                        compute_foreign_memory *foreign);
  compute_status (*memory_adopt)(void *device, const compute_foreign_memory *foreign,
                                 uint64_t bytes, compute_memory *memory);

  /** Together; without them the core waits.
   * - queue_native returns the driver's own queue, if it is a single one, valid as long as this
   *   queue.
   * - queue_signal makes another such queue of the driver wait for everything enqueued on this one
   *   so far. */
  void *(*queue_native)(void *queue);
  compute_status (*queue_signal)(void *queue, void *native);

  /** Together: collective operations with devices of other processes, without passing through the
   * host.
   *
   * The core connects the processes: it compares the offers of all ranks, has rank 0 make an id,
   * gives it to all of them and lets them open. Every rank makes the same collective calls in the
   * same order; one thread at a time calls for a communicator.
   *
   * No function waits for other ranks. communicator_open, _submit and _finish may return while the
   * call is in progress. Until communicator_test has set *done, nothing else is called but
   * communicator_test and _close. communicator_test also reports failures in the background. */

  /** COMPUTE_ERROR_UNSUPPORTED, with the reason, if the device cannot communicate. */
  compute_status (*communicator_offer)(void *device, compute_communicator_offer *offer);
  compute_status (*communicator_identify)(void *device, uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES]);
  compute_status (*communicator_open)(void *device, const uint8_t id[COMPUTE_COMMUNICATOR_ID_BYTES],
                                      int32_t rank, int32_t size, void **communicator);
  /** Whether it carries out such a call: the same answer on all ranks. */
  bool (*communicator_supports)(void *communicator, const compute_collective *collective);
  /** Puts a call on a queue of the device. Kernels enqueued after communicator_test follow it. NULL
   * for an input or output that this rank does not have. */
  compute_status (*communicator_submit)(void *communicator, void *queue,
                                        const compute_collective *collective,
                                        const compute_argument *input,
                                        const compute_argument *output);
  compute_status (*communicator_test)(void *communicator, bool *done);
  /** Every rank finishes, when all of its calls have ended. */
  compute_status (*communicator_finish)(void *communicator);
  /** `orderly`: after communicator_finish and _test. Otherwise calls in progress are aborted:
   * kernels that wait for other ranks end. Does not wait for other ranks. */
  void (*communicator_close)(void *communicator, bool orderly);

  /** Optional; minor version 8. Has the device begin the enqueued work, and does not wait. The
   * core calls it after an asynchronous run or kernel. NULL: enqueued work begins at once. */
  compute_status (*queue_flush)(void *queue);
} compute_backend;

enum {
  /** The module calls services->trusts_environment before it opens a library that obeys the
   * environment of the process, as loaders of drivers do. Without this flag it is not opened in a
   * program with raised privileges, unless compute_open_options name it. */
  COMPUTE_BACKEND_ENVIRONMENT_SAFE = 1 << 0,

  /** custom_build takes only portable source, as the user wrote it: the module prepends a dialect
   * (services->dialect_text). */
  COMPUTE_BACKEND_PORTABLE_KERNELS = 1 << 1,

  /** Convolutions and pooling are fastest with channels last: data and results whose strides over
   * (n, channel, height, width) have a second stride of 1. Plans then store the tensors between
   * such steps in this layout. */
  COMPUTE_BACKEND_CHANNELS_LAST = 1 << 2,

  /** upload and download take any memory of the host at the full speed of the bus, as far as the
   * host's threads can read and write it that fast. The core then passes them the caller's arrays,
   * and does not copy these to page-locked memory first. */
  COMPUTE_BACKEND_STAGES_COPIES = 1 << 3
};

/** The one exported symbol. Returns the module's vtable, or NULL if it cannot work with a core of
 * this ABI. Must not have side effects. */
#define COMPUTE_BACKEND_ENTRY "compute_backend_entry"
typedef const compute_backend *(*compute_backend_entry_function)(uint32_t core_abi_major,
                                                                 uint32_t core_abi_minor);
COMPUTE_API const compute_backend *compute_backend_entry(uint32_t core_abi_major,
                                                         uint32_t core_abi_minor);

#ifdef __cplusplus
}
#endif
#endif
