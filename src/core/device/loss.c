/* SPDX-License-Identifier: MIT */
/* Devices that stop answering.
 *
 * A device can be lost in two ways. Either its backend reports the loss: then the backend refuses
 * further calls, and releasing its objects is safe. Or work does not end within the caller's time
 * limit: then a kernel may still write to its memory. In this case the core no longer calls the
 * driver for the device, neither for new work nor to free anything. Queues released meanwhile wait
 * in a list, with the buffers that they keep. When all hung queues have reached their events, the
 * device works again. */
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/device/registry.h"
#include "core/device/buffer.h"
#include "core/device/collector.h"

device_loss device_loss_of(const compute_device *device) {
  return (device_loss)atomic_load_explicit(&device->loss, memory_order_acquire);
}

void device_set_loss(compute_device *device, device_loss loss) {
  atomic_store_explicit(&device->loss, (int32_t)loss, memory_order_release);
}

/* ---- Hung work ------------------------------------------------------------------------------- */

/* The caller holds loss_mutex. */
static void add_hung(compute_queue *queue) {
  if (queue->listed) return;
  queue->next_hung = queue->device->hung;
  queue->device->hung = queue;
  queue->listed = true;
}

void device_mark_hung(compute_queue *queue, void *event) {
  compute_device *device = queue->device;
  pthread_mutex_lock(&device->loss_mutex);
  queue->hung_event = event;
  add_hung(queue);
  device_set_loss(device, DEVICE_HANGS);
  pthread_mutex_unlock(&device->loss_mutex);
  log_write(COMPUTE_LOG_WARNING, "core",
            "%s: a kernel does not finish; the device is considered lost", device->info.name);
}

bool device_keep_queue(compute_queue *queue) {
  compute_device *device = queue->device;
  if (!device_hangs(device)) return false;
  pthread_mutex_lock(&device->loss_mutex);
  bool hangs = device_hangs(device);
  if (hangs) {
    add_hung(queue);
    queue->abandoned = true;
  }
  pthread_mutex_unlock(&device->loss_mutex);
  return hangs;
}

struct device_leftover {
  struct device_leftover *next;
  device_release_function release;
  void *item;
};

bool device_release_later(compute_device *device, device_release_function release, void *item) {
  if (!device_hangs(device)) return false;
  struct device_leftover *leftover = base_allocate(1, sizeof *leftover);
  pthread_mutex_lock(&device->loss_mutex);
  bool hangs = device_hangs(device);
  if (hangs && leftover) {
    *leftover = (struct device_leftover){device->leftovers, release, item};
    device->leftovers = leftover;
  }
  pthread_mutex_unlock(&device->loss_mutex);
  if (!hangs) base_release(leftover);
  return hangs;
}

/* Frees a list taken from the device. If `release` is false, the items are never released. */
static void end_leftovers(compute_device *device, struct device_leftover *list, bool release) {
  for (struct device_leftover *l = list, *next; l; l = next) {
    next = l->next;
    if (release) l->release(device, l->item);
    base_release(l);
  }
}

static struct device_leftover *take_leftovers(compute_device *device) {
  struct device_leftover *list = device->leftovers;
  device->leftovers = NULL;
  return list;
}

/* Returns `true` if all hung work has ended, and the resulting state of the device in *then. The
 * caller holds loss_mutex. An event that cannot be queried counts as not reached. But if the
 * backend reports the device lost, it refuses all calls, and everything can be released. */
static bool has_ended(compute_device *device, device_loss *then) {
  bool ended = true;
  *then = DEVICE_WORKS;
  for (compute_queue *q = device->hung; q; q = q->next_hung) {
    bool complete = false;
    if (!q->hung_event) continue;
    compute_status asked = device->backend->event_query(device->handle, q->hung_event, &complete);
    if (asked == COMPUTE_ERROR_DEVICE_LOST) *then = DEVICE_FAILED;
    if (asked != COMPUTE_ERROR_DEVICE_LOST && (asked != COMPUTE_OK || !complete)) {
      ended = false;
      continue;
    }
    device->backend->event_destroy(device->handle, q->hung_event);
    q->hung_event = NULL; /* the queue stays in the list until all have ended */
  }
  return ended;
}

/* Clears the list of hung queues. Returns the queues released meanwhile; the others are usable
 * again. The caller holds loss_mutex. */
static compute_queue *take_abandoned(compute_device *device) {
  compute_queue *abandoned = NULL;
  for (compute_queue *q = device->hung, *next; q; q = next) {
    next = q->next_hung;
    q->next_hung = NULL;
    q->listed = false;
    if (!q->abandoned) continue;
    q->next_hung = abandoned;
    abandoned = q;
  }
  device->hung = NULL;
  return abandoned;
}

static void destroy_abandoned(compute_queue *list) {
  for (compute_queue *q = list, *next; q; q = next) {
    next = q->next_hung;
    queue_destroy_internal(q);
  }
}

/* If the hung work has ended, lets the device work again. Keeps the thread's error. */
static void recover(compute_device *device) {
  compute_error before;
  compute_queue *abandoned = NULL;
  struct device_leftover *leftovers = NULL;
  device_loss then = DEVICE_WORKS;
  compute_error_get(NULL, &before);
  pthread_mutex_lock(&device->loss_mutex);
  bool ended = device_hangs(device) && has_ended(device, &then);
  if (ended) {
    abandoned = take_abandoned(device);
    leftovers = take_leftovers(device);
    device_set_loss(device, then);
  }
  pthread_mutex_unlock(&device->loss_mutex);
  if (ended && then == DEVICE_WORKS)
    fallback_note(device->context, device, FALLBACK_DEVICE_RECOVERED, true,
                  "the overdue kernel has finished; the device is used again");
  destroy_abandoned(abandoned);
  end_leftovers(device, leftovers, true);
  error_restore(NULL, &before);
}

compute_status device_check(compute_device *device, const char *operation) {
  if (!device_hangs(device)) return COMPUTE_OK;
  recover(device);
  if (!device_hangs(device)) return COMPUTE_OK;
  return error_set_native(device->context, COMPUTE_ERROR_DEVICE_LOST, 0, operation,
                          "use another device, or try again later",
                          "%s is lost: a kernel that exceeded its time limit is still running",
                          device->info.name);
}

bool device_give_up(compute_device *device) {
  recover(device);
  if (!device_hangs(device)) return false;
  log_write(COMPUTE_LOG_WARNING, "core",
            "%s: closed while a kernel is still running; its memory is left to the driver",
            device->info.name);
  pthread_mutex_lock(&device->loss_mutex);
  compute_queue *list = take_abandoned(device);
  struct device_leftover *leftovers = take_leftovers(device);
  pthread_mutex_unlock(&device->loss_mutex);
  end_leftovers(device, leftovers, false);
  for (compute_queue *q = list, *next; q; q = next) {
    next = q->next_hung;
    queue_forget(q, true); /* never frees host memory: a hung copy may still write to it */
    base_release(q);
  }
  return true;
}

/* ---- Losses that the backend reports --------------------------------------------------------- */

compute_status device_note(const compute_queue *queue, compute_status status) {
  compute_device *device = queue->device;
  int32_t works = DEVICE_WORKS;
  if (status == COMPUTE_ERROR_DEVICE_LOST && queue->generation == device_generation(device))
    atomic_compare_exchange_strong_explicit(&device->loss, &works, DEVICE_FAILED,
                                            memory_order_release, memory_order_relaxed);
  return status;
}
