/* SPDX-License-Identifier: MIT */
/* The CPU's module with one broken promise, named by BROKEN_PROMISE; compute-conformance must
 * detect it (notices.sh). BROKEN_MODULE is the path of the CPU's module. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backend.h"

static const compute_backend *cpu;
static const compute_services *given;
static compute_backend broken;

static bool breaks(const char *promise) {
  const char *chosen = getenv("BROKEN_PROMISE");
  return chosen && !strcmp(chosen, promise);
}

static compute_status open_module(const compute_services *services, void **instance) {
  static int opened;
  given = services;
  if (breaks("leak")) (void)services->allocate(services->host, 16, 16);
  if (breaks("second") && opened > 1)
    return services->fail(services->host, COMPUTE_ERROR_INTERNAL, 0, NULL, "broken: only once");
  const compute_status status = cpu->open(services, instance);
  if (!status) opened++;
  return status;
}

static void close_module(void *instance) {
  cpu->close(instance);
}

static compute_status describe(void *device, compute_device_info *info) {
  const compute_status status = cpu->device_describe(device, info);
  if (breaks("describe")) info->model[0] = '\0';
  return status;
}

static compute_status allocate(void *device, uint64_t bytes, compute_memory *memory) {
  if (breaks("silence") && bytes > UINT64_C(1) << 50) return COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY;
  if (!breaks("alignment")) return cpu->memory_allocate(device, bytes, memory);
  const compute_status status = cpu->memory_allocate(device, bytes + 8, memory);
  if (!status) memory->host = (char *)memory->host + 8;
  return status;
}

static void release(void *device, compute_memory *memory) {
  if (breaks("alignment")) memory->host = (char *)memory->host - 8;
  cpu->memory_release(device, memory);
}

static compute_status upload(void *queue, const compute_argument *to, const void *from,
                             uint64_t bytes) {
  return cpu->upload(queue, to, from, breaks("parts") && bytes == 250 ? 249 : bytes);
}

static compute_status copy(void *queue, const compute_argument *to, const compute_argument *from,
                           uint64_t bytes) {
  if (breaks("order") && bytes % 8 == 0) return COMPUTE_OK;
  return cpu->copy(queue, to, from, bytes);
}

static bool supports(void *device, const compute_kernel_descriptor *d, char *reason, size_t bytes) {
  if (breaks("refusal")) return true;
  const bool good = cpu->supports(device, d, reason, bytes);
  if (!good && breaks("reason")) reason[0] = '\0';
  if (!good && breaks("room")) memset(reason, 'y', bytes + 2);
  return breaks("agreement") && d->kind == COMPUTE_KERNEL_SCAN
             ? (snprintf(reason, bytes, "broken"), false)
             : good;
}

static compute_status prepare(void *device, const compute_kernel_descriptor *d, void **kernel) {
  /* The cases do not let each of many allocations fail. */
  for (int i = 0; breaks("words") && i < 16; i++) {
    void *memory = given->allocate(given->host, 16, 16);
    if (!memory) return COMPUTE_ERROR_OUT_OF_MEMORY;
    given->release(given->host, memory);
  }
  return cpu->kernel_prepare(device, d, kernel);
}

static void describe_kernel(void *device, void *kernel, char *text, size_t bytes) {
  cpu->kernel_describe(device, kernel, text, bytes);
  if (breaks("text")) memset(text, 'z', bytes);
}

static compute_status enqueue(void *queue, void *kernel, const compute_argument *at,
                              uint32_t count) {
  static unsigned char number;
  compute_status status = cpu->enqueue(queue, kernel, at, count);
  if (status || count == 0) {
    if (breaks("index")) cpu->queue_wait(queue);
    return breaks("index") ? COMPUTE_OK : status;
  }
  const compute_argument *last = &at[count - 1];
  unsigned char *first = (unsigned char *)last->memory->host + last->offset;
  if (breaks("numbers")) first[3] ^= 0x10;
  if (breaks("guard")) first[-1] ^= 1;
  if (breaks("input")) ((unsigned char *)at[0].memory->host + at[0].offset)[0] ^= 1;
  if (breaks("bits")) first[0] ^= number++ & 1;
  return COMPUTE_OK;
}

/* ---- Slots that the CPU lacks -------------------------------------------------------------- */

static compute_status mark(void *queue, void **handle) {
  (void)queue;
  *handle = &broken;
  return COMPUTE_OK;
}

static compute_status read_timer(void *device, void *timer, int64_t *nanoseconds) {
  (void)device;
  (void)timer;
  *nanoseconds = 5; /* without any measurement */
  return COMPUTE_OK;
}

static void forget(void *device, void *handle) {
  (void)device;
  (void)handle;
}

static compute_status pass(void *first, void *second) {
  (void)first;
  (void)second;
  return COMPUTE_OK;
}

static compute_status never(void *device, void *event, bool *complete) {
  (void)device;
  (void)event;
  *complete = false;
  return COMPUTE_OK;
}

static void replace_slots(void) {
  broken.open = open_module;
  broken.close = close_module;
  broken.device_describe = describe;
  broken.memory_allocate = allocate;
  broken.memory_release = release;
  broken.upload = upload;
  broken.copy = copy;
  broken.supports = supports;
  broken.kernel_prepare = prepare;
  broken.kernel_describe = describe_kernel;
  broken.enqueue = enqueue;
  if (breaks("alignment")) broken.memory_import = NULL;
  if (breaks("group")) broken.event_record = mark;
  if (breaks("clock")) {
    broken.timer_record = mark;
    broken.timer_read = read_timer;
    broken.timer_destroy = forget;
  }
  if (breaks("event")) {
    broken.event_record = mark;
    broken.event_destroy = forget;
    broken.event_wait = broken.queue_wait_event = pass;
    broken.event_query = never;
  }
}

const compute_backend *compute_backend_entry(uint32_t core_abi_major, uint32_t core_abi_minor) {
  const char *path = getenv("BROKEN_MODULE");
  void *module = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  void *symbol = module ? dlsym(module, COMPUTE_BACKEND_ENTRY) : NULL;
  compute_backend_entry_function entry;
  memcpy(&entry, &symbol, sizeof symbol);
  cpu = symbol ? entry(core_abi_major, core_abi_minor) : NULL;
  if (!cpu) return NULL;
  broken = *cpu;
  broken.name = "broken";
  replace_slots();
  return &broken;
}
