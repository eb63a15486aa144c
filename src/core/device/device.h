/* SPDX-License-Identifier: MIT */
/* Internals of contexts, devices and queues. Only src/core/device calls the backend's functions
 * that open, describe or close objects. Other rooms reach the backend through the device and queue
 * below. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/clock.h"
#include "core/base/process.h"
#include "core/base/slot.h"
#include "core/base/thread_pool.h"
#include "compute/backend.h"
#include "core/device/index_fault.h"
#include "core/device/buffer.h"

typedef struct device_module device_module; /* one loaded module: core/device/registry.h */
struct memory_buffer;                       /* core/device/buffer.h */

struct compute_device {
  compute_context *context;
  const compute_backend *backend; /* a complete copy: slots that the module lacks are NULL */
  void *handle;                   /* the module's device */
  compute_device_info info;       /* as described when the device was opened */
  bool group_limited;             /* a control group limited its memory at opening */
  _Atomic uint64_t taken;         /* bytes that the pool holds of the module's memory */
  memory_pool *pool;
  compute_queue *internal_queue;         /* for synchronous copies, and for runs without a queue */
  pthread_mutex_t internal_mutex;        /* locked while internal_queue is in use */
  struct kernel_cache *kernels;          /* src/core/device/kernel_cache.h */
  pthread_mutex_t packed_mutex;          /* src/core/device/packed.h */
  slot_table slots;                      /* data of higher rooms */
  _Atomic uint32_t queue_count;          /* queues created so far */
  _Atomic double peak_flops, peak_bytes; /* measured, per second; 0: unknown */
  _Atomic int32_t loss;                  /* a device_loss (loss.c) */
  _Atomic uint32_t generation;           /* number of recoveries */
  pthread_mutex_t loss_mutex;            /* guards the members below; locked during recovery */
  compute_queue *hung;                   /* hung queues, and queues released meanwhile */
  struct device_leftover *leftovers;     /* other items to release after the hung work has ended */
};

struct compute_queue {
  compute_device *device;
  void *handle;
  void *hung_event; /* not reached in time; guarded by device->loss_mutex */
  compute_queue *next_hung;
  bool listed;                   /* in the list device->hung */
  uint32_t generation;           /* generation of the device when the queue was created */
  bool abandoned;                /* released while the device hung: to be freed later */
  struct queue_pending *pending; /* buffers to release after the next wait (queue.c) */
  uint32_t number;               /* index among the device's queues; 0: the internal queue */
  _Atomic uint16_t profile_row;  /* src/core/device/collector.c */
};

struct compute_event {
  compute_device *device;
  void *handle; /* NULL: the backend has no events; the work has completed */
};

/* A kind of object that a program creates in a context and must release before it closes the
 * context. Each room has a static object_kind for each kind of its objects. */
typedef struct object_kind {
  const char *name, *plural;
  _Atomic uint32_t number; /* initially 0; set by context_object_created */
} object_kind;

struct compute_context {
  uint64_t serial;  /* unique in the process */
  uint32_t process; /* process_forks when it was opened */
  bool complete;    /* the list of modules no longer changes */
  thread_pool *threads;
  compute_services services; /* passed to the modules; its host is this context */
  device_module *modules;
  size_t module_count;
  char *module_path;        /* module folders from the options, or NULL */
  char search_problem[192]; /* a folder that could not be searched, with the reason; or "" */
  compute_device **devices; /* best first */
  size_t device_count;
  compute_device *_Atomic default_device; /* NULL: not chosen yet (registry_default_device) */
  bool automatic;                         /* plans without a device place their steps by cost */
  compute_device *cpu; /* fallback device; NULL only if no CPU module is loaded */
  _Atomic int64_t live_objects[NUMBERED_MOST]; /* number of unreleased objects, by kind */
  struct object_backtraces *backtraces;        /* backtraces.c; NULL: backtraces are not recorded */
  slot_table slots;                            /* data of higher rooms */
  pthread_mutex_t registry_mutex;              /* locked while deferred modules are opened */
  _Atomic bool modules_waiting;                /* some candidates are not open yet */
  _Atomic uint64_t fallbacks[16];              /* by fallback_kind: src/core/device/collector.h */
  struct profile_collector *profile; /* src/core/device/collector.h; NULL in some tests' contexts */
  _Atomic uint32_t watch;            /* WATCH_… of core/device/collector.h */
  compute_context *next_open;        /* the process's list of open contexts (device_scope.c) */
};

/* ---- Forks ---------------------------------------------------------------------------------- */

/* `true` in a forked child if the context belongs to the parent. Threads that the child does not
 * have may hold its locks. Every public function that takes an object of a context checks this
 * first; functions that only read constant data need no check. */
static inline bool context_is_inherited(const compute_context *context) {
  return context && context->process != process_forks;
}

/* Records and returns COMPUTE_ERROR_INVALID_STATE. */
compute_status context_refuse(const compute_context *context, const char *operation);

/* `member` is the path from the object, which may be NULL, to its context: IS_INHERITED(queue,
 * device->context). */
#define IS_INHERITED(object, member) ((object) && context_is_inherited((object)->member))

/* The first statement of a public function that returns a status. */
#define REFUSE_INHERITED(object, member)                                                           \
  do {                                                                                             \
    if (IS_INHERITED(object, member)) return context_refuse((object)->member, __func__);           \
  } while (0)
#define REFUSE_INHERITED_CONTEXT(context)                                                          \
  do {                                                                                             \
    if (context_is_inherited(context)) return context_refuse(context, __func__);                   \
  } while (0)

/* ---- Lost devices (loss.c) ------------------------------------------------------------------ */

typedef enum device_loss {
  DEVICE_WORKS = 0,
  DEVICE_FAILED = 1, /* the backend reported a loss and refuses further calls */
  DEVICE_HANGS = 2   /* overdue work may still run: the driver is not called */
} device_loss;

/* `true` if overdue work may still use the device's memory, queues and kernels. Then nothing that
 * belongs to them may be freed through the backend. */
static inline bool device_hangs(const compute_device *device) {
  return atomic_load_explicit(&device->loss, memory_order_acquire) == DEVICE_HANGS;
}

device_loss device_loss_of(const compute_device *device);
void device_set_loss(compute_device *device, device_loss loss);

static inline uint32_t device_generation(const compute_device *device) {
  return atomic_load_explicit(&device->generation, memory_order_acquire);
}

/* Returns COMPUTE_ERROR_DEVICE_LOST with a message while the device hangs. If the hung work has
 * ended meanwhile, the device works again. */
compute_status device_check(compute_device *device, const char *operation);

/* Records a device loss that a wait reported, unless the queue is older than the last recovery.
 * Returns `status`. */
compute_status device_note(const compute_queue *queue, compute_status status);

/* Marks the device as hung. Takes ownership of the backend's `event`, which `queue` did not reach
 * in time. */
void device_mark_hung(compute_queue *queue, void *event);

/* Keeps a released queue until the hung work has ended. Returns false if the device does not
 * hang. */
bool device_keep_queue(compute_queue *queue);

/* While the device hangs, schedules `release(device, item)` for the end of the hung work, and
 * returns `true`. When out of memory, it returns `true` but never makes the call. Otherwise returns
 * `false`, and the caller must release the item. */
typedef void (*device_release_function)(compute_device *device, void *item);
bool device_release_later(compute_device *device, device_release_function release, void *item);

/* Call this when the device closes. Frees items that the hung work did not use. Returns `true` if
 * the device still hangs. */
bool device_give_up(compute_device *device);

/* ---- Objects -------------------------------------------------------------------------------- */

/* The backtraces of object creations (backtraces.c). backtraces_open starts recording if
 * COMPUTE_LEAKS is set. backtraces_list writes unreleased objects to the log. Thread-safe except
 * for opening and closing. */
void backtraces_open(compute_context *context);
void backtraces_close(compute_context *context);
void backtraces_add(struct object_backtraces *backtraces, const object_kind *kind,
                    const void *object);
void backtraces_remove(struct object_backtraces *backtraces, const void *object);
void backtraces_list(const compute_context *context);

/* Returns the number of unreleased objects. Writes their kinds to `text`, by name: "1 plan, 2
 * tensors". */
int64_t objects_count(const compute_context *context, char *text, size_t bytes);

/* Counts an object that must be released before the context closes. */
void context_object_created(compute_context *context, object_kind *kind, const void *object);

/* Call this before freeing an object, because its address may be reused afterwards. */
static inline void context_object_leaves(compute_context *context, const void *object) {
  if (context->backtraces) backtraces_remove(context->backtraces, object);
}

/* Call this after freeing an object: the context may close as soon as the count is zero. */
void context_object_released(compute_context *context, const object_kind *kind);

/* The number of unreleased objects of one kind; for tests. */
int64_t context_objects_of(const compute_context *context, const object_kind *kind);

/* context_add assigns the serial number and adds the context to the list of open contexts.
 * context_remove removes it. */
void context_add(compute_context *context);
void context_remove(const compute_context *context);

/* Publishes the context's list of modules to children forked from now on. */
void context_mark_complete(compute_context *context);

/* `true` if the calling thread is inside a compute_device_push of this context. */
bool device_scope_is_open(const compute_context *context);

/* Enqueues a kernel without checking the queue or the arguments. */
static inline compute_status queue_enqueue(compute_queue *queue, void *kernel,
                                           const compute_argument *arguments, uint32_t count) {
  return queue->device->backend->enqueue(queue->handle, kernel, arguments, count);
}

/* Sets the index check of the kernels enqueued next; NULL: none. */
static inline void queue_label(compute_queue *queue, const index_check *check) {
  if (queue->device->backend->queue_label)
    queue->device->backend->queue_label(queue->handle, check ? check->label : 0);
}

/* Has the device begin the enqueued work, without a wait. */
compute_status queue_flush(compute_queue *queue);

/* Keeps a reference to a buffer until the queue has completed its present work. The CPU's queues
 * are synchronous, so they keep nothing. */
compute_status queue_keep(compute_queue *queue, struct memory_buffer *buffer);

/* Keeps the index checks, each once, until the next wait for the queue, which reports failures.
 * Every wait drops them, so call this for each kernel with checks. */
compute_status queue_keep_checks(compute_queue *queue, index_checks *checks);

/* Like queue_keep, for a queue whose work did not end in time: never waits. When out of memory, the
 * buffer is never freed. */
void queue_keep_hung(compute_queue *queue, struct memory_buffer *buffer);

/* Waits through the backend, with an error that names compute_queue_wait. The queue keeps its
 * buffers and checks, so compute_queue_wait must follow. */
compute_status queue_wait_named(compute_queue *queue);

/* compute_queue_wait with a deadline (CLOCK_MONOTONIC in nanoseconds; 0: none). After the deadline
 * it returns COMPUTE_ERROR_TIMEOUT and the device counts as lost; submitted work may still run. If
 * the backend has no events, the wait has no limit. The floating-point environment is the default. */
compute_status queue_wait_until(compute_queue *queue, int64_t deadline);

/* Releases the buffers that a queue keeps: all of them, or (`own`) only buffers of its device; the
 * others leak. */
void queue_forget(compute_queue *queue, bool own);

#endif
