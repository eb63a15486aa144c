/* Inside of contexts, devices and queues. Nobody but src/device calls a backend's vtable to open,
 * describe or close; others call it through the device and queue below. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <pthread.h>

#include "base/thread_pool.h"
#include "compute/backend.h"
#include "memory/pool.h"

typedef struct device_module device_module; /* one loaded module, in module.h */
struct memory_buffer;                       /* memory/buffer.h */

struct compute_device {
  compute_context *context;
  const compute_backend *backend; /* a complete copy: slots that the module lacks are NULL */
  void *handle;                   /* the module's device */
  compute_device_info info;       /* as described at opening */
  memory_pool *pool;
  compute_queue *internal_queue;  /* for synchronous copies and runs without a queue */
  pthread_mutex_t internal_mutex; /* held while using internal_queue */
  struct kernel_cache *kernels;   /* src/kernel/kernel_cache.h */
};

struct compute_queue {
  compute_device *device;
  void *handle;
  struct queue_pending *pending; /* buffers to release after the next wait; owned by queue.c */
};

struct compute_event {
  compute_device *device;
  void *handle; /* NULL: the backend has no events, and the work was waited for */
};

struct compute_context {
  uint64_t serial; /* unique in the process */
  thread_pool *threads;
  compute_services services; /* handed to the modules; host is this context */
  device_module *modules;
  size_t module_count;
  compute_device **devices; /* best first */
  size_t device_count;
  compute_device *default_device;
  compute_device *cpu;  /* the device for fallback; NULL only if no CPU module is loaded */
  int64_t live_objects; /* atomic: tensors, graphs, plans, queues, events that are not released */
  struct eager_cache *eager;      /* src/graph/eager.c */
  struct disk_cache *disk_cache;  /* src/cache/disk_cache.h */
  struct tuning_store *tuning;    /* src/tune/tuning.h */
  pthread_mutex_t registry_mutex; /* held while modules that could wait are opened */
  bool modules_waiting;           /* atomic: some candidate has not been opened yet */
  uint64_t fallbacks[16];         /* atomic, by fallback_kind: src/profile/fallback.h */
  compute_context *next_open;     /* context.c: all open contexts of the process */
};

/* Counts an object that must be gone before the context closes. */
void context_object_created(compute_context *context);
void context_object_released(compute_context *context);

/* Enqueue and copies; they check queue and arguments no further. */
static inline compute_status queue_enqueue(compute_queue *queue, void *kernel,
                                           const compute_argument *arguments, uint32_t count) {
  return queue->device->backend->enqueue(queue->handle, kernel, arguments, count);
}

/* Keeps a reference to a buffer until the queue's work so far is done (at once on backends whose
 * queues are synchronous). */
compute_status queue_keep(compute_queue *queue, struct memory_buffer *buffer);

#endif
