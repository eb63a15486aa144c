/* SPDX-License-Identifier: MIT */
/** @file
 * Contexts, devices, queues, events, scopes and the buffer pool's controls.
 *
 * A context finds the backend modules, opens their devices and owns them. Everything else belongs
 * to a context; objects of two contexts never mix.
 *
 * **Threads.** Contexts, devices and pools may be used by several threads at once; a queue has one
 * owner at a time. The only per-thread state is the stack of device scopes and memory scopes, and
 * the last error.
 *
 * **Floating point.** Every call computes in C's default floating-point environment, and then
 * restores the caller's: rounding mode, traps, treatment of subnormal numbers and exception flags.
 *
 * **Stack.** A call takes at most 48 KiB of its thread's stack, without the drivers of devices:
 * OpenCL's compilers take more.
 *
 * **Fork.** A forked process opens new contexts. There, every call with an object of the parent's
 * contexts is COMPUTE_ERROR_INVALID_STATE, or does nothing if it returns no status; this includes
 * releasing and closing, and the objects' memory stays. Only functions that read constant
 * properties still answer. A backend whose driver the parent had started is left out; the CPU
 * always works. */
#ifndef COMPUTE_DEVICE_H
#define COMPUTE_DEVICE_H

#include "compute/dtype.h"
#include "compute/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_device compute_device;
typedef struct compute_queue compute_queue;
typedef struct compute_event compute_event;

/* ---- Context ------------------------------------------------------------------------------- */

/** All fields may be zero; then the environment and the defaults decide. Strings are copied. */
typedef struct compute_open_options {
  const char *backends; /**< "cpu,opencl": only these modules; NULL: COMPUTE_BACKENDS, else all, or
                         * in a program with raised privileges those that do not obey the
                         * environment: the CPU's (docs/security.md) */
  const char *backend_path; /**< folders with modules, ':' between them, searched first */
  const char *device;       /**< name of the default device; NULL: COMPUTE_DEVICE, else the best;
                             * "auto": the best, and plans that name no device place each step where
                             * it is fastest (COMPUTE_PLAN_AUTO) */
  int32_t threads;          /**< CPU threads; 0: COMPUTE_THREADS, else all that the process may
                             * use */
  uint64_t reserved[8];     /**< must be zero */
} compute_open_options;

/** Opens a context: finds modules and devices. `options` may be NULL. Ownership of *context passes
 * to the caller. Thread-safe.
 *
 * Drivers start when they are needed:
 * - the driver of a device that is named here or later;
 * - all drivers, when devices or modules are listed;
 * - the drivers that may have the best device, when it is first looked for.
 *
 * A missing driver, library or device is not an error (see compute_probe_at). Errors are: no usable
 * device at all, a default device that does not exist, an invalid option, and an invalid value of
 * an environment variable that no option overrides. COMPUTE_ERROR_NULL_POINTER, _INVALID_ARGUMENT,
 * _NO_DEVICE, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_open(compute_context **context,
                                        const compute_open_options *options);

/** Closes a context, its devices and modules. Every object of it must have been released before;
 * otherwise COMPUTE_ERROR_INVALID_STATE names the remaining objects, and the context stays open.
 * NULL is allowed. No other thread may use the context any more. */
COMPUTE_API compute_status compute_close(compute_context *context);

/* ---- Modules ------------------------------------------------------------------------------- */

typedef enum compute_probe_state {
  COMPUTE_PROBE_LOADED = 0,          /**< loaded, with at least one device */
  COMPUTE_PROBE_NO_DEVICE = 1,       /**< loaded, but it found no device */
  COMPUTE_PROBE_MISSING_LIBRARY = 2, /**< a library that it needs is not installed */
  COMPUTE_PROBE_WRONG_ABI = 3,       /**< built for another version of the vtable */
  COMPUTE_PROBE_NOT_A_MODULE = 4,    /**< not a shared library, or without the entry symbol */
  COMPUTE_PROBE_DISABLED = 5,        /**< excluded by COMPUTE_BACKENDS or the options, or because it
                                      * obeys the environment of a program with raised privileges */
  COMPUTE_PROBE_FAILED = 6,          /**< the module's own start failed */
  COMPUTE_PROBE_DUPLICATE = 7        /**< another file already provides this backend */
} compute_probe_state;

/** The state of one candidate module. Strings live as long as the context. */
typedef struct compute_probe {
  const char *name; /**< "cuda" */
  const char *path; /**< file that was tried; "built in" for modules in libcompute.a */
  compute_probe_state state;
  const char *detail;  /**< the loader's or the module's own message; "" if it loaded */
  const char *remedy;  /**< the package to install or the variable to set, or "" */
  const char *version; /**< the module's version; "" if it was never loaded */
  uint32_t device_count;
} compute_probe;

/** The candidate at `index`, or NULL past the end. Constant while the context lives.
 * Thread-safe. */
COMPUTE_API const compute_probe *compute_probe_at(const compute_context *context, size_t index);

/** "loaded", "missing library", …. Thread-safe. */
COMPUTE_API const char *compute_probe_state_text(compute_probe_state state);

/* ---- Devices ------------------------------------------------------------------------------- */

typedef enum compute_device_type {
  COMPUTE_DEVICE_NULL = 0, /**< stores and copies, computes nothing */
  COMPUTE_DEVICE_CPU = 1,
  COMPUTE_DEVICE_GPU = 2,
  COMPUTE_DEVICE_ACCELERATOR = 3
} compute_device_type;

enum {
  COMPUTE_CAPABILITY_UNIFIED_MEMORY = 1 << 0, /**< the CPU can read and write device memory */
  COMPUTE_CAPABILITY_MATRIX_CORES = 1 << 1,
  COMPUTE_CAPABILITY_F64 = 1 << 2,
  COMPUTE_CAPABILITY_F16 = 1 << 3,  /**< f16 arithmetic in hardware */
  COMPUTE_CAPABILITY_BF16 = 1 << 4, /**< bf16 arithmetic in hardware */
  COMPUTE_CAPABILITY_AVX2 = 1 << 5,
  COMPUTE_CAPABILITY_AVX512 = 1 << 6,
  COMPUTE_CAPABILITY_COMPUTE = 1 << 7, /**< runs kernels at all */
  /** Computes in host memory within the call that submits, and supports every kernel: other devices
   * fall back to it. A context uses the best such device. */
  COMPUTE_CAPABILITY_HOST = 1 << 8
};

/** Static properties of a device. memory_free is as of the time of the call. */
typedef struct compute_device_info {
  char name[32];    /**< as in compute_device_by_name: "cpu", "cuda:0" */
  char backend[32]; /**< module */
  char model[128];  /**< "AMD EPYC …" */
  char vendor[64];
  char driver[128]; /**< driver or library version; for the CPU the BLAS in use */
  char isa[32];     /**< instruction set or architecture in use: "avx2", "sm_90" */
  compute_device_type type;
  int32_t priority; /**< the highest is the default device */
  uint64_t capabilities;
  uint32_t index;                 /**< within its backend */
  uint32_t compute_units;         /**< threads on a CPU, multiprocessors on a GPU */
  uint32_t vector_width;          /**< f32 lanes on a CPU, threads of a warp on a GPU */
  uint64_t memory_total;          /**< bytes; of host memory, the control groups' limit */
  uint64_t memory_free;           /**< bytes; likewise */
  uint64_t memory_max_allocation; /**< bytes */
  uint64_t cache_bytes;           /**< last-level cache; on a CPU the part that its threads can
                                   * use */
  char notes[512];                /**< warnings, one per line, such as a slow BLAS; "" if none */
  uint64_t reserved[8];           /**< zero */
} compute_device_info;

/** The device at `index`, best first, or NULL past the end. Devices belong to the context. The
 * first call starts all drivers; if one runs out of host memory, its devices are missing until a
 * later call succeeds. Thread-safe. */
COMPUTE_API compute_device *compute_device_at(const compute_context *context, size_t index);

/** The device called `name` ("cpu", "cuda:0"; "cuda" means its first) through `device`.
 * COMPUTE_ERROR_NO_DEVICE if there is none, with a message that lists those that exist;
 * COMPUTE_ERROR_OUT_OF_MEMORY if its driver could not be started, which the next call retries.
 * Starts no other driver than its own. Thread-safe. */
COMPUTE_API compute_status compute_device_by_name(compute_context *context, const char *name,
                                                  compute_device **device);

/** The innermost device scope of the calling thread, else the context's default device (options,
 * COMPUTE_DEVICE, or the one of highest priority). Where none is named, the first call starts the
 * drivers that may have a better device than the open ones. NULL only for a NULL context.
 * Thread-safe. */
COMPUTE_API compute_device *compute_default_device(const compute_context *context);

/** Fills `info`. COMPUTE_ERROR_NULL_POINTER, _DEVICE_LOST. Thread-safe. */
COMPUTE_API compute_status compute_device_describe(const compute_device *device,
                                                   compute_device_info *info);

/** The context of a device. Thread-safe. */
COMPUTE_API compute_context *compute_device_context(const compute_device *device);

/** Recovers a lost device, if its driver can do so within the process, or detects that a kernel
 * which exceeded a time limit has finished: then nothing was lost. COMPUTE_OK if the device works,
 * including one that was never lost.
 *
 * After a recovery, existing tensors, plans, queues and events stay lost: release them and create
 * new ones. The kernels of new plans are built again.
 *
 * COMPUTE_ERROR_UNSUPPORTED if the driver cannot do it, _DEVICE_LOST while a kernel still runs or
 * if recovery fails. No other thread may be using the device's tensors and queues. Thread-safe
 * otherwise. */
COMPUTE_API compute_status compute_device_recover(compute_device *device);

/** Makes `device` the calling thread's default until the matching pop. Scopes nest 32 deep;
 * beyond that, or on a pop without push, COMPUTE_ERROR_INVALID_STATE. */
COMPUTE_API compute_status compute_device_push(compute_device *device);
COMPUTE_API compute_status compute_device_pop(compute_context *context);

/* ---- Queues and events --------------------------------------------------------------------- */

/** A queue runs its submissions in order. Owned by the caller; one thread at a time. The CPU's
 * queues finish each submission before the submitting call returns. */
COMPUTE_API compute_status compute_queue_create(compute_device *device, compute_queue **queue);

/** Waits for the queue's work, then frees it. NULL is allowed. */
COMPUTE_API void compute_queue_release(compute_queue *queue);

/** Waits until all submissions have finished; returns the first failure among them. */
COMPUTE_API compute_status compute_queue_wait(compute_queue *queue);

/** The device of a queue. Thread-safe. */
COMPUTE_API compute_device *compute_queue_device(const compute_queue *queue);

/** The driver's own queue under it, for other libraries of the same driver: a CUstream on CUDA
 * devices. Valid until the queue is released. NULL on devices without a single one: the CPU,
 * OpenCL. Thread-safe. */
COMPUTE_API void *compute_queue_native(const compute_queue *queue);

/** An event marks the submissions to a queue so far. Owned by the caller. */
COMPUTE_API compute_status compute_event_record(compute_queue *queue, compute_event **event);
COMPUTE_API void compute_event_release(compute_event *event);

/** Waits for an event; makes the later submissions to a queue wait for it; queries it without
 * waiting. */
COMPUTE_API compute_status compute_event_wait(compute_event *event);
COMPUTE_API compute_status compute_queue_wait_event(compute_queue *queue, compute_event *event);
COMPUTE_API compute_status compute_event_query(compute_event *event, bool *complete);

/* ---- Buffer pool --------------------------------------------------------------------------- */

/* A device's memory comes from its pool, which keeps freed blocks for reuse. Active and cached
 * blocks together hold at most the amount recently needed at one time, and half of the recent rise
 * above the lowest need; up to 1 MiB stays cached in any case. "Recently" is one to two periods of
 * a second, or of 5 ns for each allocated byte if that is longer. The pool looks when memory is
 * requested: a program that requests none gives memory back with compute_pool_trim. */

/** Counters of one device's pool. "Active" is in use, "cached" is kept for reuse. */
typedef struct compute_pool_statistics {
  uint64_t bytes_allocated; /**< allocated from the device: active + cached, in whole blocks */
  uint64_t bytes_active;    /**< in whole blocks, which may be larger than the request */
  uint64_t bytes_cached;
  uint64_t bytes_requested; /**< bytes that callers requested, of the active ones */
  uint64_t bytes_peak;      /**< highest bytes_active ever */
  uint64_t bytes_budget;    /**< limit of bytes_allocated; 0: the device's memory */
  uint64_t hits;            /**< requests served from the cache */
  uint64_t misses;          /**< requests that went to the device */
  uint64_t evictions;       /**< cached blocks released, least recently used first */
  uint64_t blocks_active;
  uint64_t blocks_cached;
  uint64_t reserved[8]; /**< zero */
} compute_pool_statistics;

COMPUTE_API compute_status compute_pool_query(const compute_device *device,
                                              compute_pool_statistics *statistics);

/** Limits the pool's memory; cached blocks beyond it are evicted at once. An allocation that would
 * exceed it fails with COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY. 0 removes the limit. */
COMPUTE_API compute_status compute_pool_set_budget(compute_device *device, uint64_t bytes);

/** Releases cached blocks to the device, least recently used first, until at most `keep_bytes` are
 * cached. Thread-safe, as are the two above. */
COMPUTE_API compute_status compute_pool_trim(compute_device *device, uint64_t keep_bytes);

/* ---- Built kernels ------------------------------------------------------------------------- */

/** Kernel builds on a device since the context was opened. All 0 for a device that builds nothing,
 * such as the CPU. */
typedef struct compute_build_statistics {
  uint64_t programs_compiled;    /**< from source, by the device's compiler */
  uint64_t programs_from_disk;   /**< ready-made from libcompute's cache on disk */
  uint64_t programs_from_driver; /**< ready-made from the driver's own cache, as PoCL keeps one */
  uint64_t programs_shared;      /**< found in memory */
  uint64_t programs_failed;      /**< that the compiler rejected */
  uint64_t build_nanoseconds;    /**< spent building, in total */
  uint64_t reserved[8];          /**< zero */
} compute_build_statistics;

COMPUTE_API compute_status compute_build_query(const compute_device *device,
                                               compute_build_statistics *statistics);

/* ---- Memory scope -------------------------------------------------------------------------- */

/** From push to pop, every tensor that the calling thread creates in this context is registered
 * with the scope; the pop releases one reference of each that is still alive. compute_tensor_retain
 * keeps a tensor beyond the scope; releasing one earlier is allowed. Scopes nest. A pop without
 * push is COMPUTE_ERROR_INVALID_STATE. */
COMPUTE_API compute_status compute_memory_scope_push(compute_context *context);
COMPUTE_API compute_status compute_memory_scope_pop(compute_context *context);

#ifdef __cplusplus
}
#endif
#endif
