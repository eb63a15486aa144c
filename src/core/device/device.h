/* SPDX-License-Identifier: MIT */
/* Internals of contexts, devices and queues. Only src/core/device calls a backend's vtable to open,
 * describe or close; other rooms call it through the device and queue below. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <pthread.h>

#include "core/base/clock.h"
#include "core/base/process.h"
#include "core/base/slot.h"
#include "core/base/thread_pool.h"
#include "compute/backend.h"
#include "core/device/index_fault.h"
#include "core/device/buffer.h"

typedef struct device_module device_module; /* one loaded module, in module.h */
struct memory_buffer;                       /* core/device/buffer.h */

struct compute_device {
  compute_context *context;
  const compute_backend *backend; /* a complete copy: slots that the module lacks are NULL */
  void *handle;                   /* the module's device */
  compute_device_info info;       /* as described at opening */
  bool group_limited;             /* by a control group of the process, when it was opened */
  uint64_t taken;                 /* atomic: bytes of the module's memory in the pool */
  memory_pool *pool;
  compute_queue *internal_queue;     /* for synchronous copies and runs without a queue */
  pthread_mutex_t internal_mutex;    /* held while using internal_queue */
  struct kernel_cache *kernels;      /* src/core/device/kernel_cache.h */
  pthread_mutex_t packed_mutex;      /* src/core/device/packed.h */
  slot_table slots;                  /* what rooms above keep with the device */
  uint32_t queue_count;              /* atomic: queues created so far */
  double peak_flops, peak_bytes;     /* atomic: measured, per second; 0: unknown */
  int32_t loss;                      /* atomic, a device_loss: loss.c */
  uint32_t generation;               /* atomic: how often it has been recovered */
  pthread_mutex_t loss_mutex;        /* guards what follows; held during recovery */
  compute_queue *hung;               /* queues that do not end, and those released meanwhile */
  struct device_leftover *leftovers; /* what else to release when they have ended */
};

struct compute_queue {
  compute_device *device;
  void *handle;
  void *hung_event; /* that was not reached in time; device->loss_mutex */
  compute_queue *next_hung;
  bool listed;                   /* in device->hung */
  uint32_t generation;           /* of the device when it was created */
  bool abandoned;                /* released while the device hung: to be freed afterwards */
  struct queue_pending *pending; /* buffers to release after the next wait; owned by queue.c */
  uint32_t number;               /* of the device's queues; 0 is its internal one */
  uint16_t profile_row;          /* atomic; src/core/device/collector.c */
};

struct compute_event {
  compute_device *device;
  void *handle; /* NULL: the backend has no events, and the work was waited for */
};

/* Objects that a program creates in a context and must release before closing it. Each room has a
 * static one for its objects. */
typedef struct object_kind {
  const char *name, *plural;
  uint32_t number; /* 0; context_object_created's */
} object_kind;

struct compute_context {
  uint64_t serial;  /* unique in the process */
  uint32_t process; /* process_forks when it was opened */
  bool complete;    /* its list of modules no longer changes */
  thread_pool *threads;
  compute_services services; /* passed to the modules; host is this context */
  device_module *modules;
  size_t module_count;
  char *module_path;        /* folders of the options with modules, or NULL */
  char search_problem[192]; /* a folder that could not be searched for modules, and why; or "" */
  compute_device **devices; /* best first */
  size_t device_count;
  compute_device *default_device; /* atomic; NULL: not chosen yet: registry_default_device */
  bool automatic;                 /* plans that name no device place their steps by cost */
  compute_device *cpu; /* the device for fallback; NULL only if no CPU module is loaded */
  int64_t live_objects[NUMBERED_MOST]; /* atomic: those that are not released, by kind */
  struct object_origins *origins;      /* origins.c; NULL: origins are not recorded */
  slot_table slots;                    /* what rooms above keep with the context */
  pthread_mutex_t registry_mutex;      /* held while deferred modules are opened */
  bool modules_waiting;                /* atomic: some candidate has not been opened yet */
  uint64_t fallbacks[16];              /* atomic, by fallback_kind: src/core/device/collector.h */
  struct profile_collector *profile; /* src/core/device/collector.h; NULL in a context of a test */
  uint32_t watch;                    /* atomic: WATCH_… of core/device/collector.h */
  compute_context *next_open;        /* device_scope.c: all open contexts of the process */
};

/* ---- Forks ---------------------------------------------------------------------------------- */

/* Whether the context is the parent's, in a forked child: its locks may be held by threads that
 * the child does not have. Every public function that takes an object of a context begins with a
 * check; functions that only read what never changes may do without. */
static inline bool context_is_inherited(const compute_context *context) {
  return context && context->process != process_forks;
}

/* Records COMPUTE_ERROR_INVALID_STATE, and returns it. */
compute_status context_refuse(const compute_context *context, const char *operation);

/* `member` is how the object, which may be NULL, leads to its context: IS_INHERITED(queue,
 * device->context). */
#define IS_INHERITED(object, member) ((object) && context_is_inherited((object)->member))

/* The beginning of a public function that returns a status. */
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
  DEVICE_FAILED = 1, /* reported by the backend, which refuses further calls itself */
  DEVICE_HANGS = 2   /* work did not end in time and may still run: the driver is not called */
} device_loss;

/* Whether work that did not end in time may still use the device's memory, queues and kernels:
 * nothing of it may then be freed through the backend. */
static inline bool device_hangs(const compute_device *device) {
  return __atomic_load_n(&device->loss, __ATOMIC_ACQUIRE) == DEVICE_HANGS;
}

device_loss device_loss_of(const compute_device *device);
void device_set_loss(compute_device *device, device_loss loss);

static inline uint32_t device_generation(const compute_device *device) {
  return __atomic_load_n(&device->generation, __ATOMIC_ACQUIRE);
}

/* COMPUTE_ERROR_DEVICE_LOST with a message while the device hangs. If the hung work has ended
 * meanwhile, the device works again. */
compute_status device_check(compute_device *device, const char *operation);

/* Records a device loss reported by a wait, unless the queue predates an earlier
 * loss. Returns the status. */
compute_status device_note(const compute_queue *queue, compute_status status);

/* Takes over the backend's `event`, which was not reached in time on `queue`. */
void device_mark_hung(compute_queue *queue, void *event);

/* Keeps a released queue until the device has ended its work. False if the device does not hang. */
bool device_keep_queue(compute_queue *queue);

/* While the device hangs: schedules `release(device, item)` for when it has ended, and returns true
 * (out of memory, the call never comes). Otherwise returns false, and the caller releases the item
 * itself.
 */
typedef void (*device_release_function)(compute_device *device, void *item);
bool device_release_later(compute_device *device, device_release_function release, void *item);

/* When the device closes: frees what the hung work did not use. Returns whether it still hangs. */
bool device_give_up(compute_device *device);

/* ---- Objects -------------------------------------------------------------------------------- */

/* Where objects are created (origins.c): open, if COMPUTE_LEAKS is set; close; write what is left
 * to the log. Thread-safe except for opening and closing. */
void origins_open(compute_context *context);
void origins_close(compute_context *context);
void origins_add(struct object_origins *origins, const object_kind *kind, const void *object);
void origins_remove(struct object_origins *origins, const void *object);
void origins_list(const compute_context *context);

/* The number of objects, and in `text` their kinds by name: "1 plan, 2 tensors". */
int64_t objects_count(const compute_context *context, char *text, size_t bytes);

/* Counts an object that must be released before the context closes. */
void context_object_created(compute_context *context, object_kind *kind, const void *object);

/* Called before an object is freed: its address may then be reused. */
static inline void context_object_leaves(compute_context *context, const void *object) {
  if (context->origins) origins_remove(context->origins, object);
}

/* Called after it is freed: the context may close as soon as nothing is counted. */
void context_object_released(compute_context *context, const object_kind *kind);

/* How many are not released; for tests. */
int64_t context_objects_of(const compute_context *context, const object_kind *kind);

/* Gives a context its serial number and adds it to the open ones; and removes it. */
void context_enlist(compute_context *context);
void context_delist(const compute_context *context);

/* From now on a forked child knows which modules the context has loaded. */
void context_mark_complete(compute_context *context);

/* Whether the calling thread is within a compute_device_push of this context. */
bool device_scope_is_open(const compute_context *context);

/* Enqueue and copies; they check queue and arguments no further. */
static inline compute_status queue_enqueue(compute_queue *queue, void *kernel,
                                           const compute_argument *arguments, uint32_t count) {
  return queue->device->backend->enqueue(queue->handle, kernel, arguments, count);
}

/* Labels what is enqueued next with its check; NULL: none. */
static inline void queue_label(compute_queue *queue, const index_check *check) {
  if (queue->device->backend->queue_label != NULL)
    queue->device->backend->queue_label(queue->handle, check != NULL ? check->label : 0);
}

/* Keeps a reference to a buffer until the queue's work so far is done (at once on backends whose
 * queues are synchronous). */
compute_status queue_keep(compute_queue *queue, struct memory_buffer *buffer);

/* Keeps the records of checks, each once, until the queue is waited for, which reports the failed
 * ones. Every wait drops them, so call it for each kernel that has one. */
compute_status queue_keep_checks(compute_queue *queue, index_checks *checks);

/* Like queue_keep, for a queue whose work did not end in time: never waits. Out of memory, the
 * buffer is never freed. */
void queue_keep_hung(compute_queue *queue, struct memory_buffer *buffer);

/* The backend's wait for a queue, with an error that names the caller. The queue keeps its buffers
 * and checks: for waits that are followed by compute_queue_wait. */
compute_status queue_wait_named(compute_queue *queue);

/* compute_queue_wait that gives up at `deadline` (CLOCK_MONOTONIC in nanoseconds; 0: never): then
 * COMPUTE_ERROR_TIMEOUT, the device counts as lost, and what was submitted may still run. A backend
 * without events is waited for to the end. */
compute_status queue_wait_until(compute_queue *queue, int64_t deadline);

/* Frees the buffers that a queue keeps: all, or (`own`) those of its device, forgetting the rest.
 */
void queue_forget(compute_queue *queue, bool own);

#endif
