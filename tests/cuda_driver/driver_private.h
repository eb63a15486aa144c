/* SPDX-License-Identifier: MIT */
/* Internals of the stand-in driver.
 *
 *   control.c   orders, counts, failures, the list of objects
 *   devices.c   start, devices, contexts, lookup of functions
 *   memory.c    memory of the device and the host, attributes of addresses
 *   stream.c    streams and events
 *   copy.c      copies
 *   kernels.c   modules, launches, graphs
 *   bridge.c    functions for the stand-ins of vendor libraries (libraries/) */
#ifndef CUDA_DRIVER_PRIVATE_H
#define CUDA_DRIVER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../backends/cuda/driver.h"
#include "stand_in.h"

#define EXPORT __attribute__((visibility("default")))

enum { MOST_DEVICES = 8, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };

/* ---- Calls --------------------------------------------------------------------------------- */

#define CALL_NAME(member, symbol, version, parameters) CALL_##symbol,
enum {
  CUDA_FUNCTIONS(CALL_NAME) CUDA_OPTIONAL_FUNCTIONS(CALL_NAME) CALL_kernel,
  CALL_COUNT,
  CALL_ANY = CALL_COUNT
};

#define CALL_PROTOTYPE(member, symbol, version, parameters) cuda_result symbol parameters;
CUDA_FUNCTIONS(CALL_PROTOTYPE)
CUDA_OPTIONAL_FUNCTIONS(CALL_PROTOTYPE)

/* Begins every call: counts it and returns CUDA_OK or the ordered error. Calls that release an
 * object do so in both cases. */
cuda_result stand_in_enter(int call);

#define ENTER(symbol)                                                                              \
  do {                                                                                             \
    const cuda_result entered = stand_in_enter(CALL_##symbol);                                     \
    if (entered != CUDA_OK) return entered;                                                        \
  } while (0)

/* Returns the ordered error of a kernel that is about to run, or CUDA_OK. */
cuda_result stand_in_kernel_order(void);

/* Marks a device as lost. */
void stand_in_lose(int device, cuda_result code);
cuda_result stand_in_lost(int device);

/* Local memory of a group; with `asked`, a launch may get more than the default. */
uint32_t stand_in_local_bytes(bool asked);

void stand_in_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The machine described by the orders. */
typedef struct machine {
  int64_t device_count, memory, capability, driver_version, init, no_pools, no_peers, no_register,
      no_map, unified, delay_copies, copy_rate, delay_kernels;
  _Atomic int64_t hold_kernels; /* orders change it while kernels wait */
} machine;
extern machine stand_in_machine;

/* ---- Objects ------------------------------------------------------------------------------- */

enum {
  OBJECT_MEMORY,
  OBJECT_HOST_MEMORY,
  OBJECT_REGISTERED,
  OBJECT_POOL,
  OBJECT_STREAM,
  OBJECT_EVENT,
  OBJECT_MODULE,
  OBJECT_GRAPH,
  OBJECT_EXECUTABLE,
  OBJECT_KINDS
};

/* The common header of all objects. */
typedef struct object {
  int kind, device;
  struct object *previous, *next;
} object;

/* `bytes` of zeros for an object of the current context. */
void *object_create(int kind, size_t bytes);
void object_add(object *o);    /* after completion: other threads can then find it */
void object_remove(object *o); /* from the list; the caller owns the memory */
bool object_is(const void *o, int kind);
/* Returns an object of the kind and device for which `matches` holds (called under the list's
 * lock), or NULL. */
object *object_find(int kind, int device, bool (*matches)(const object *, const void *),
                    const void *argument);
/* Frees a device's remaining objects and records them as forgotten, unless the device was lost. */
void objects_end(int device);

/* ---- Contexts ------------------------------------------------------------------------------ */

/* The index of the current context's device, or -1. */
int current_device(void);
cuda_context context_of(int device);
int device_of_context(cuda_context context);
void context_end(int device); /* like the end of its process */

/* ---- Memory -------------------------------------------------------------------------------- */

typedef struct memory {
  object header;
  unsigned char *data;
  size_t bytes;
  unsigned char *pages; /* for device memory: the whole mapping */
  size_t page_bytes, room;
  atomic_bool freed; /* in stream order: the caller may not use it any more */
} memory;

/* The memory that contains the address, or NULL. */
memory *memory_at(const void *address);
bool memory_is_on_device(const void *address, size_t bytes); /* all of it */
void memory_destroy(memory *m);                              /* also frees its record */
void registered_destroy(memory *m);

/* ---- Streams ------------------------------------------------------------------------------- */

typedef struct operation {
  struct operation *next;
  void (*run)(struct operation *self, int device); /* not called on a lost device unless `always` */
  void (*release)(struct operation *self);         /* may be NULL; free follows */
  bool always;
} operation;

typedef struct stream stream;

/* An operation of at least `bytes`; NULL without memory. */
void *operation_create(size_t bytes, void (*run)(operation *, int));
cuda_result stream_submit(cuda_stream handle, void *submitted);
cuda_result stream_drain(stream *s);
void streams_drain(int device); /* all streams of a device */
stream *stream_of(cuda_stream handle);
void stream_finish(stream *s); /* drains and frees */
void stream_default_create(int device);
void event_destroy(object *event);

/* The parts of a GPU that each do one thing at a time. */
enum { ENGINE_TO_DEVICE, ENGINE_TO_HOST, ENGINE_KERNELS, ENGINES };

/* Keeps the engine busy for this time; 0: none. */
void engine_work(int device, int engine, int64_t nanoseconds);

/* Waits while the machine's hold_kernels is set and the device is not lost. */
void engine_hold(int device);

/* Resets the maximum of engines that work at the same time. */
void engine_forget(void);

/* ---- Kernels ------------------------------------------------------------------------------- */

void module_destroy(object *module);
void graph_destroy(object *graph);
void executable_destroy(object *executable);

#endif
