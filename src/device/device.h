/* SPDX-License-Identifier: MIT */
/* Inside of contexts, devices and queues. Nobody but src/device calls a backend's vtable to open,
 * describe or close; others call it through the device and queue below. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <pthread.h>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "compute/backend.h"
#include "device/index_fault.h"
#include "device/buffer.h"

typedef struct device_module device_module; /* one loaded module, in module.h */
struct memory_buffer;                       /* device/buffer.h */

struct compute_device {
  compute_context *context;
  const compute_backend *backend; /* a complete copy: slots that the module lacks are NULL */
  void *handle;                   /* the module's device */
  compute_device_info info;       /* as described at opening */
  memory_pool *pool;
  compute_queue *internal_queue;     /* for synchronous copies and runs without a queue */
  pthread_mutex_t internal_mutex;    /* held while using internal_queue */
  struct kernel_cache *kernels;      /* src/device/kernel_cache.h */
  pthread_mutex_t packed_mutex;      /* src/device/packed.h */
  pthread_mutex_t costs_mutex;       /* of `costs` */
  struct held_costs *costs;          /* src/cost/held.h; NULL until it is asked for */
  uint32_t queue_count;              /* atomic: queues made so far */
  double peak_flops, peak_bytes;     /* atomic: measured, per second; 0: not known */
  int32_t loss;                      /* atomic, a device_loss: loss.c */
  uint32_t generation;               /* atomic: how often it has been brought back */
  pthread_mutex_t loss_mutex;        /* of what follows, and held while it is brought back */
  compute_queue *hung;               /* queues that do not end, and those released meanwhile */
  struct device_leftover *leftovers; /* what else is to be released when they have ended */
};

struct compute_queue {
  compute_device *device;
  void *handle;
  void *hung_event; /* that did not come in time; device->loss_mutex */
  compute_queue *next_hung;
  bool listed;                   /* in device->hung */
  uint32_t generation;           /* of the device when it was made */
  bool abandoned;                /* released while the device hung: to be freed when it has ended */
  struct queue_pending *pending; /* buffers to release after the next wait; owned by queue.c */
  uint32_t number;               /* of the device's queues; 0 is its internal one */
  uint16_t profile_row;          /* atomic; src/device/collector.c */
};

struct compute_event {
  compute_device *device;
  void *handle; /* NULL: the backend has no events, and the work was waited for */
};

/* What a program makes of a context and must release before it closes. */
typedef enum object_kind {
  OBJECT_TENSOR,
  OBJECT_GRAPH,
  OBJECT_PLAN,
  OBJECT_JOB,
  OBJECT_QUEUE,
  OBJECT_EVENT,
  OBJECT_FIT,
  OBJECT_BATCH,
  OBJECT_KERNEL,
  OBJECT_MODEL,
  OBJECT_KINDS
} object_kind;

struct compute_context {
  uint64_t serial; /* unique in the process */
  thread_pool *threads;
  compute_services services; /* handed to the modules; host is this context */
  device_module *modules;
  size_t module_count;
  char search_problem[192]; /* a folder that could not be searched for modules, and why; or "" */
  compute_device **devices; /* best first */
  size_t device_count;
  compute_device *default_device;
  bool automatic;      /* plans that name no device place their steps by cost */
  compute_device *cpu; /* the device for fallback; NULL only if no CPU module is loaded */
  int64_t live_objects[OBJECT_KINDS]; /* atomic: those that are not released */
  struct object_origins *origins;     /* origins.c; NULL: nobody asks where they are made */
  struct eager_cache *eager;          /* src/eager/eager.c */
  struct disk_cache *disk_cache;      /* src/cache/disk_cache.h */
  struct tuning_store *tuning;        /* src/tune/tuning.h */
  pthread_mutex_t registry_mutex;     /* held while modules that could wait are opened */
  bool modules_waiting;               /* atomic: some candidate has not been opened yet */
  uint64_t fallbacks[16];             /* atomic, by fallback_kind: src/device/collector.h */
  struct profile_collector *profile;  /* src/device/collector.h; NULL in a context of a test */
  struct job_runners *jobs;           /* atomic; src/job/job.h; NULL until the first job */
  struct validation *validation;      /* src/validate/validate.h; NULL until it is first started */
  uint32_t watch;                     /* atomic: WATCH_… of device/collector.h */
  compute_context *next_open;         /* device_scope.c: all open contexts of the process */
};

/* ---- Lost devices (loss.c) ------------------------------------------------------------------ */

typedef enum device_loss {
  DEVICE_WORKS = 0,
  DEVICE_FAILED = 1, /* the backend says so; it refuses further calls itself */
  DEVICE_HANGS = 2   /* work did not end in time and may still run: the driver is left alone */
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

/* COMPUTE_ERROR_DEVICE_LOST with words while the device hangs. If what hung has ended meanwhile,
 * the device works again. */
compute_status device_check(compute_device *device, const char *operation);

/* Records a device loss reported by a wait, unless the queue predates an earlier
 * loss. Returns the status. */
compute_status device_note(const compute_queue *queue, compute_status status);

/* Takes over `event`, of the backend, which did not come in time on `queue`. */
void device_mark_hung(compute_queue *queue, void *event);

/* Keeps a released queue until the device has ended its work. False if the device does not hang. */
bool device_keep_queue(compute_queue *queue);

/* While the device hangs: has `release(device, item)` called when it has ended, and returns true
 * (if memory is short, it never is). Else returns false, and the caller releases the item itself.
 */
typedef void (*device_release_function)(compute_device *device, void *item);
bool device_release_later(compute_device *device, device_release_function release, void *item);

/* When the device closes: frees what the hung work did not use. Returns whether it still hangs. */
bool device_give_up(compute_device *device);

/* ---- Objects -------------------------------------------------------------------------------- */

/* Where objects are made (origins.c): open, if COMPUTE_LEAKS asks for it; close; write what is left
 * to the log. Thread-safe but for opening and closing. */
void origins_open(compute_context *context);
void origins_close(compute_context *context);
void origins_add(struct object_origins *origins, object_kind kind, const void *object);
void origins_remove(struct object_origins *origins, const void *object);
void origins_list(const compute_context *context);

/* How many objects there are, and in `text` of which kinds: "2 tensors, 1 plan". */
int64_t objects_count(const compute_context *context, char *text, size_t bytes);

/* Counts an object that must be gone before the context closes. */
static inline void context_object_created(compute_context *context, object_kind kind,
                                          const void *object) {
  if (context->origins) origins_add(context->origins, kind, object);
  __atomic_add_fetch(&context->live_objects[kind], 1, __ATOMIC_RELAXED);
}

/* Before an object is freed: its address may then be another's. */
static inline void context_object_leaves(compute_context *context, const void *object) {
  if (context->origins) origins_remove(context->origins, object);
}

/* After it is freed: the context may close as soon as nothing is counted. */
static inline void context_object_released(compute_context *context, object_kind kind) {
  __atomic_sub_fetch(&context->live_objects[kind], 1, __ATOMIC_RELEASE);
}

/* Gives a context its serial number and counts it among those that are open; and takes it off. */
void context_enlist(compute_context *context);
void context_delist(const compute_context *context);

/* Whether the calling thread is within a compute_device_push of this context. */
bool device_scope_is_open(const compute_context *context);

/* Enqueue and copies; they check queue and arguments no further. */
static inline compute_status queue_enqueue(compute_queue *queue, void *kernel,
                                           const compute_argument *arguments, uint32_t count) {
  return queue->device->backend->enqueue(queue->handle, kernel, arguments, count);
}

/* Marks what is enqueued next with the label of its check; NULL: it has none. */
static inline void queue_label(compute_queue *queue, const index_check *check) {
  if (queue->device->backend->queue_label != NULL)
    queue->device->backend->queue_label(queue->handle, check != NULL ? check->label : 0);
}

/* Keeps a reference to a buffer until the queue's work so far is done (at once on backends whose
 * queues are synchronous). */
compute_status queue_keep(compute_queue *queue, struct memory_buffer *buffer);

/* Keeps the records of checks, each once, until the queue is waited for, when it reports which of
 * them failed. Every wait drops them, so call it for each kernel that has one. */
compute_status queue_keep_checks(compute_queue *queue, index_checks *checks);

/* Like queue_keep, for a queue whose work did not end in time: never waits. Without memory for the
 * note the buffer is never freed. */
void queue_keep_hung(compute_queue *queue, struct memory_buffer *buffer);

/* The backend's wait for a queue, with an error that names the caller. The queue goes on keeping
 * buffers and checks: for waits that a compute_queue_wait follows. */
compute_status queue_wait_named(compute_queue *queue);

/* compute_queue_wait that gives up at `deadline` (CLOCK_MONOTONIC in nanoseconds; 0: never): then
 * COMPUTE_ERROR_TIMEOUT, the device counts as lost, and what was submitted may still run. A backend
 * without events is waited for to the end. */
compute_status queue_wait_until(compute_queue *queue, int64_t deadline);

/* Frees the buffers that a queue keeps: all, or (`own`) those of its device, forgetting the rest.
 */
void queue_forget(compute_queue *queue, bool own);

#endif
