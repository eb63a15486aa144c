/* SPDX-License-Identifier: MIT */
/* The user's custom kernels: builds them, and runs groups of items on all threads. */
#include "custom.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/loading.h"

enum { TASKS_PER_THREAD = 8, MOST_BYTES = 4096 /* of all arguments together */ };

typedef struct custom_kernel {
  cpu_device *device;
  custom_object object;
  char name[64];
  custom_loops *loops; /* either this, */
  custom_item *item;
  const custom_parameter *parameters;
  uint32_t count;
  uint64_t bytes;
  pthread_mutex_t mutex; /* or this: */
  custom_stacks *idle;   /* from finished launches, all for the same number of items */
} custom_kernel;

/* ---- Building -------------------------------------------------------------------------------- */

/* dlsym returns functions as object pointers; ISO C has no cast for that, so copy the bytes. */
static void find_function(void *object, const char *name, void *function, size_t bytes) {
  void *const address = dlsym(object, name);
  memcpy(function, &address, bytes);
}

static compute_status learn(custom_kernel *kernel) {
  const compute_services *services = kernel->device->services;
  find_function(kernel->object.handle, CUSTOM_LOOPS, &kernel->loops, sizeof kernel->loops);
  find_function(kernel->object.handle, CUSTOM_ITEM, &kernel->item, sizeof kernel->item);
  const uint32_t *count = dlsym(kernel->object.handle, CUSTOM_COUNT);
  const uint64_t *bytes = dlsym(kernel->object.handle, CUSTOM_BYTES);
  kernel->parameters = dlsym(kernel->object.handle, CUSTOM_PARAMETERS);
  if ((!kernel->loops && !kernel->item) || !count || !bytes || !kernel->parameters ||
      *bytes > MOST_BYTES)
    return services->fail(services->host, COMPUTE_ERROR_COMPILATION, 0, NULL,
                          "cpu: kernel '%s' has more than %d bytes of arguments, or was not made "
                          "by this library",
                          kernel->name, MOST_BYTES);
  kernel->count = *count;
  kernel->bytes = *bytes;
  return COMPUTE_OK;
}

compute_status cpu_custom_build(void *handle, const char *source, const char *entry,
                                const char *options, void **result) {
  cpu_device *device = handle;
  char *text = NULL;
  custom_kernel *kernel = cpu_allocate(device, sizeof *kernel);
  if (!kernel) return cpu_out_of_memory(device, sizeof *kernel);
  kernel->device = device;
  snprintf(kernel->name, sizeof kernel->name, "%s", entry);
  pthread_mutex_init(&kernel->mutex, NULL);
  compute_status status = custom_source(device, source, entry, &text);
  if (!status) status = custom_load(device, text, entry, options, &kernel->object);
  loading_begin(device->services);
  if (!status) status = learn(kernel);
  loading_end(device->services);
  cpu_release(device, text);
  if (status)
    cpu_custom_destroy(device, kernel);
  else
    *result = kernel;
  return status;
}

void cpu_custom_destroy(void *handle, void *destroyed) {
  cpu_device *device = handle;
  custom_kernel *kernel = destroyed;
  while (kernel->idle) {
    custom_stacks *stacks = kernel->idle;
    kernel->idle = stacks->next;
    custom_stacks_release(device, stacks);
  }
  pthread_mutex_destroy(&kernel->mutex);
  custom_unload(&kernel->object);
  cpu_release(device, kernel);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static custom_stacks *take_stacks(custom_kernel *kernel, uint32_t items) {
  pthread_mutex_lock(&kernel->mutex);
  custom_stacks *stacks = kernel->idle;
  if (stacks) kernel->idle = stacks->next;
  pthread_mutex_unlock(&kernel->mutex);
  if (stacks && stacks->items >= items) return stacks;
  custom_stacks_release(kernel->device, stacks);
  return custom_stacks_create(kernel->device, items);
}

static void return_stacks(custom_kernel *kernel, custom_stacks *stacks) {
  pthread_mutex_lock(&kernel->mutex);
  stacks->next = kernel->idle;
  kernel->idle = stacks;
  pthread_mutex_unlock(&kernel->mutex);
}

/* ---- Launching ------------------------------------------------------------------------------- */

typedef struct launch {
  custom_kernel *kernel;
  uint32_t groups[3], group[3];
  uint64_t total; /* number of groups */
  int64_t tasks;
  _Atomic int32_t status; /* the first compute_status that is not COMPUTE_OK */
  _Alignas(64) unsigned char arguments[MOST_BYTES];
} launch;

static void run_items(launch *l, uint64_t first, uint64_t end) {
  const uint32_t items = l->group[0] * l->group[1] * l->group[2];
  custom_stacks *stacks = take_stacks(l->kernel, items);
  if (!stacks) {
    atomic_store_explicit(&l->status, COMPUTE_ERROR_OUT_OF_MEMORY, memory_order_relaxed);
    return;
  }
  for (uint64_t n = first; n < end && !atomic_load_explicit(&l->status, memory_order_relaxed);
       n++) {
    const uint32_t id[3] = {(uint32_t)(n % l->groups[0]),
                            (uint32_t)(n / l->groups[0] % l->groups[1]),
                            (uint32_t)(n / l->groups[0] / l->groups[1])};
    if (!custom_run_group(stacks, l->kernel->item, l->arguments, l->groups, l->group, id))
      atomic_store_explicit(&l->status, COMPUTE_ERROR_LAUNCH, memory_order_relaxed);
  }
  return_stacks(l->kernel, stacks);
}

static void run_task(void *argument, int64_t task, int32_t worker) {
  launch *l = argument;
  const uint64_t tasks = (uint64_t)l->tasks, each = l->total / tasks, more = l->total % tasks;
  const uint64_t number = (uint64_t)task;
  const uint64_t first = number * each + (number < more ? number : more);
  const uint64_t end = first + each + (number < more ? 1 : 0);
  (void)worker;
  if (l->kernel->loops)
    l->kernel->loops(l->arguments, l->groups, l->group, first, end);
  else
    run_items(l, first, end);
}

#define REFUSE(kernel, status, ...)                                                                \
  (kernel)->device->services->fail((kernel)->device->services->host, status, 0, NULL, __VA_ARGS__)

/* Checks the space: a group size as on GPUs, and positions that fit u32. */
static compute_status check_space(const custom_kernel *kernel, launch *l) {
  uint64_t items = 1;
  l->total = 1;
  for (int i = 0; i < 3; i++) {
    items *= l->group[i];
    if (items > CUSTOM_MOST_ITEMS)
      return REFUSE(kernel, COMPUTE_ERROR_INVALID_ARGUMENT,
                    "cpu: kernel '%s': a group of %u x %u x %u items; at most %d are allowed",
                    kernel->name, l->group[0], l->group[1], l->group[2], CUSTOM_MOST_ITEMS);
    if ((uint64_t)l->groups[i] * l->group[i] > UINT32_MAX ||
        __builtin_mul_overflow(l->total, l->groups[i], &l->total) || l->total > INT64_MAX)
      return REFUSE(kernel, COMPUTE_ERROR_INVALID_ARGUMENT,
                    "cpu: kernel '%s': %u x %u x %u groups are more items than 32 bits count",
                    kernel->name, l->groups[0], l->groups[1], l->groups[2]);
  }
  return COMPUTE_OK;
}

static compute_status put_argument(const custom_kernel *kernel, uint32_t index,
                                   const compute_custom_argument *given, unsigned char *to) {
  const custom_parameter *p = &kernel->parameters[index];
  if (!given->memory && !given->value)
    return REFUSE(kernel, COMPUTE_ERROR_UNSUPPORTED,
                  "cpu: kernel '%s', argument %u: the CPU does not support local memory as an "
                  "argument; declare it in the kernel with LOCAL_ARRAY",
                  kernel->name, index);
  if (given->memory) {
    unsigned char *const address = (unsigned char *)given->memory->host + given->offset;
    if (!p->is_pointer)
      return REFUSE(kernel, COMPUTE_ERROR_INVALID_ARGUMENT,
                    "cpu: kernel '%s', argument %u is a tensor, the parameter is not a pointer",
                    kernel->name, index);
    memcpy(to + p->offset, &address, sizeof address);
    return COMPUTE_OK;
  }
  if (given->bytes != p->bytes)
    return REFUSE(kernel, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "cpu: kernel '%s', argument %u has %llu bytes, the parameter %llu", kernel->name,
                  index, (unsigned long long)given->bytes, (unsigned long long)p->bytes);
  memcpy(to + p->offset, given->value, (size_t)given->bytes);
  return COMPUTE_OK;
}

static compute_status report(const custom_kernel *kernel, const launch *l) {
  const int32_t status = atomic_load_explicit(&l->status, memory_order_relaxed);
  if (status == COMPUTE_OK) return COMPUTE_OK;
  if (status == COMPUTE_ERROR_OUT_OF_MEMORY)
    return REFUSE(kernel, COMPUTE_ERROR_OUT_OF_MEMORY,
                  "cpu: kernel '%s': not enough memory for the stacks of a group", kernel->name);
  return REFUSE(kernel, COMPUTE_ERROR_LAUNCH,
                "cpu: kernel '%s': some items of a group ended while others waited at a barrier",
                kernel->name);
}

compute_status cpu_custom_run(cpu_device *device, void *launched, const uint32_t groups[3],
                              const uint32_t group[3], const compute_custom_argument *arguments,
                              uint32_t count) {
  custom_kernel *kernel = launched;
  launch l = {.kernel = kernel};
  memcpy(l.groups, groups, sizeof l.groups);
  memcpy(l.group, group, sizeof l.group);
  if (count != kernel->count)
    return REFUSE(kernel, COMPUTE_ERROR_INVALID_ARGUMENT,
                  "cpu: kernel '%s' takes %u arguments, not %u", kernel->name, kernel->count,
                  count);
  compute_status status = check_space(kernel, &l);
  for (uint32_t i = 0; !status && i < count; i++)
    status = put_argument(kernel, i, &arguments[i], l.arguments);
  if (status) return status;
  l.tasks = cpu_min((int64_t)l.total, (int64_t)device->threads * TASKS_PER_THREAD);
  cpu_parallel(device, l.tasks, run_task, &l);
  return report(kernel, &l);
}
