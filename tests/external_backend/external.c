/* SPDX-License-Identifier: MIT */
/* A backend outside the tree: an "accelerator" that computes f32 MAP kernels with a few
 * instructions.
 *
 * It is awkward in every way that the contract allows. The CPU cannot access its memory, and its
 * queues are lazy: a kernel runs only when a thread waits for the queue or for an event, or when a
 * copy must follow it. If the core forgets to wait, or reuses memory too early, the numbers are
 * wrong. */
#include <stdio.h>
#include <string.h>

#include "compute/backend.h"

typedef struct external_device {
  const compute_services *services;
} external_device;

typedef struct external_kernel {
  const compute_services *services;
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK];
  uint32_t input_count, output_count, instruction_count;
  compute_operand operands[COMPUTE_MAX_OPERANDS];
  compute_instruction instructions[COMPUTE_MAX_INSTRUCTIONS];
  uint16_t outputs[COMPUTE_MAX_OPERANDS];
} external_kernel;

typedef struct launch {
  struct launch *next;
  const external_kernel *kernel;
  float *base[COMPUTE_MAX_OPERANDS];
} launch;

typedef struct external_queue {
  const compute_services *services;
  launch *first, **last;
  uint64_t submitted, finished; /* launches */
} external_queue;

typedef struct external_event {
  external_queue *queue;
  uint64_t position; /* the launches before this one are awaited */
} external_event;

static void *take(const compute_services *services, size_t bytes) {
  void *memory = services->allocate(services->host, bytes, 64);
  if (!memory) {
    services->fail(services->host, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL,
                   "external: out of memory for %zu bytes", bytes);
  }
  return memory;
}

static void give(const compute_services *services, void *memory) {
  services->release(services->host, memory);
}

/* ---- Module and device --------------------------------------------------------------------- */

static compute_status module_open(const compute_services *services, void **instance) {
  const char *choice = services->variable(services->host, "COMPUTE_CPU_ISA");
  if (choice && strcmp(choice, "scalar") == 0) { /* lets the test provoke a refusal */
    return services->fail(services->host, COMPUTE_ERROR_MISSING_LIBRARY, 34, "install libexternal",
                          "external: libexternal.so.1 is not installed");
  }
  external_device *device = take(services, sizeof *device);
  if (!device) return COMPUTE_ERROR_OUT_OF_MEMORY;
  device->services = services;
  services->log(services->host, COMPUTE_LOG_INFO, "external", "started with %d threads",
                (int)services->thread_count(services->host));
  *instance = device;
  return COMPUTE_OK;
}

static void module_close(void *instance) {
  external_device *device = instance;
  give(device->services, device);
}

static uint32_t device_count(void *instance) {
  (void)instance;
  return 1;
}

static compute_status device_open(void *instance, uint32_t index, void **device) {
  (void)index;
  *device = instance;
  return COMPUTE_OK;
}

static void device_close(void *device) {
  (void)device;
}

static compute_status device_describe(void *device, compute_device_info *info) {
  (void)device;
  snprintf(info->model, sizeof info->model, "lazy accelerator");
  snprintf(info->vendor, sizeof info->vendor, "a third party");
  info->type = COMPUTE_DEVICE_ACCELERATOR;
  info->capabilities = COMPUTE_CAPABILITY_COMPUTE;
  info->memory_total = info->memory_free = info->memory_max_allocation = UINT64_C(1) << 28;
  return COMPUTE_OK;
}

static compute_status memory_allocate(void *device, uint64_t bytes, compute_memory *memory) {
  const compute_services *services = ((external_device *)device)->services;
  void *data = bytes <= UINT64_C(1) << 28 ? take(services, (size_t)bytes) : NULL;
  if (!data) {
    return services->fail(services->host, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, 0, NULL,
                          "external: no room for %llu bytes", (unsigned long long)bytes);
  }
  *memory = (compute_memory){.handle = data, .bytes = bytes};
  return COMPUTE_OK;
}

/* Overwrites the content to expose a use after release. */
static void memory_release(void *device, compute_memory *memory) {
  memset(memory->handle, 0xff, (size_t)memory->bytes);
  give(((external_device *)device)->services, memory->handle);
}

/* ---- Programs ------------------------------------------------------------------------------ */

static bool instruction_supported(const compute_instruction *instruction) {
  if (instruction->type != COMPUTE_F32) return false;
  switch (instruction->code) {
  case COMPUTE_I_LOAD:
  case COMPUTE_I_CONSTANT:
  case COMPUTE_I_NEG:
  case COMPUTE_I_RELU:
  case COMPUTE_I_ADD:
  case COMPUTE_I_SUB:
  case COMPUTE_I_MUL: return true;
  default: return false;
  }
}

static bool supports(void *device, const compute_kernel_descriptor *descriptor, char *reason,
                     size_t reason_bytes) {
  (void)device;
  if (descriptor->kind != COMPUTE_KERNEL_MAP) {
    snprintf(reason, reason_bytes, "the external device runs MAP kernels only");
    return false;
  }
  bool floats = true;
  for (uint32_t i = 0; i < descriptor->input_count; i++) {
    floats = floats && descriptor->inputs[i].dtype == COMPUTE_F32;
  }
  for (uint32_t i = 0; i < descriptor->output_count; i++) {
    floats = floats && descriptor->outputs[i].dtype == COMPUTE_F32;
  }
  for (uint32_t i = 0; i < descriptor->epilogue.count; i++) {
    floats = floats && instruction_supported(&descriptor->epilogue.instructions[i]);
  }
  if (!floats) snprintf(reason, reason_bytes, "the external device only adds and multiplies f32");
  return floats;
}

static float evaluate(const external_kernel *kernel, float *const *at, float *values) {
  float value = 0;
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    const compute_instruction *in = &kernel->instructions[i];
    switch (in->code) {
    case COMPUTE_I_LOAD: value = *at[in->immediate.i64]; break;
    case COMPUTE_I_CONSTANT: value = (float)in->immediate.f64; break;
    case COMPUTE_I_NEG: value = -values[in->a]; break;
    case COMPUTE_I_RELU: value = values[in->a] < 0 ? 0 : values[in->a]; break;
    case COMPUTE_I_ADD: value = values[in->a] + values[in->b]; break;
    case COMPUTE_I_SUB: value = values[in->a] - values[in->b]; break;
    default: value = values[in->a] * values[in->b]; break;
    }
    values[i] = value;
  }
  return value;
}

static void kernel_run(const external_kernel *kernel, float *const *base) {
  const uint32_t operands = kernel->input_count + kernel->output_count;
  int64_t total = 1;
  for (int32_t d = 0; d < kernel->rank; d++) total *= kernel->size[d];
  for (int64_t i = 0; i < total; i++) {
    float *at[COMPUTE_MAX_OPERANDS], values[COMPUTE_MAX_INSTRUCTIONS];
    for (uint32_t o = 0; o < operands; o++) {
      int64_t left = i, offset = 0;
      for (int32_t d = kernel->rank - 1; d >= 0; d--) {
        offset += left % kernel->size[d] * kernel->operands[o].stride[d];
        left /= kernel->size[d];
      }
      at[o] = base[o] + offset;
    }
    evaluate(kernel, at, values);
    for (uint32_t o = 0; o < kernel->output_count; o++) {
      *at[kernel->input_count + o] = values[kernel->outputs[o]];
    }
  }
}

static compute_status kernel_prepare(void *device, const compute_kernel_descriptor *descriptor,
                                     void **result) {
  const compute_services *services = ((external_device *)device)->services;
  char reason[200];
  if (!supports(device, descriptor, reason, sizeof reason))
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL, "external: %s",
                          reason);
  external_kernel *kernel = take(services, sizeof *kernel);
  if (!kernel) return COMPUTE_ERROR_OUT_OF_MEMORY;
  kernel->services = services;
  kernel->rank = descriptor->rank;
  memcpy(kernel->size, descriptor->size, sizeof kernel->size);
  kernel->input_count = descriptor->input_count;
  kernel->output_count = descriptor->output_count;
  memcpy(kernel->operands, descriptor->inputs, descriptor->input_count * sizeof *kernel->operands);
  memcpy(kernel->operands + descriptor->input_count, descriptor->outputs,
         descriptor->output_count * sizeof *kernel->operands);
  kernel->instruction_count = descriptor->epilogue.count;
  memcpy(kernel->instructions, descriptor->epilogue.instructions,
         descriptor->epilogue.count * sizeof *kernel->instructions);
  memcpy(kernel->outputs, descriptor->epilogue.outputs,
         descriptor->epilogue.output_count * sizeof *kernel->outputs);
  *result = kernel;
  return COMPUTE_OK;
}

static void kernel_destroy(void *device, void *kernel) {
  (void)device;
  give(((external_kernel *)kernel)->services, kernel);
}

static void kernel_describe(void *device, void *kernel, char *text, size_t text_bytes) {
  (void)device;
  snprintf(text, text_bytes, "external, %u instructions",
           ((external_kernel *)kernel)->instruction_count);
}

/* ---- Lazy queues and their events ---------------------------------------------------------- */

static compute_status queue_create(void *device, void **result) {
  external_queue *queue = take(((external_device *)device)->services, sizeof *queue);
  if (!queue) return COMPUTE_ERROR_OUT_OF_MEMORY;
  queue->services = ((external_device *)device)->services;
  queue->last = &queue->first;
  *result = queue;
  return COMPUTE_OK;
}

static compute_status queue_wait(void *handle) {
  external_queue *queue = handle;
  while (queue->first) {
    launch *next = queue->first;
    kernel_run(next->kernel, next->base);
    queue->first = next->next;
    queue->finished++;
    give(queue->services, next);
  }
  queue->last = &queue->first;
  return COMPUTE_OK;
}

static void queue_destroy(void *queue) {
  give(((external_queue *)queue)->services, queue);
}

static float *address(const compute_argument *argument) {
  return (float *)((char *)argument->memory->handle + argument->offset);
}

static compute_status enqueue(void *handle, void *kernel, const compute_argument *arguments,
                              uint32_t count) {
  external_queue *queue = handle;
  launch *added = take(queue->services, sizeof *added);
  if (!added) return COMPUTE_ERROR_OUT_OF_MEMORY;
  added->kernel = kernel;
  for (uint32_t i = 0; i < count; i++) added->base[i] = address(&arguments[i]);
  *queue->last = added;
  queue->last = &added->next;
  queue->submitted++;
  return COMPUTE_OK;
}

static compute_status event_record(void *handle, void **result) {
  external_queue *queue = handle;
  external_event *event = take(queue->services, sizeof *event);
  if (!event) return COMPUTE_ERROR_OUT_OF_MEMORY;
  *event = (external_event){.queue = queue, .position = queue->submitted};
  *result = event;
  return COMPUTE_OK;
}

static void event_destroy(void *device, void *event) {
  give(((external_device *)device)->services, event);
}

static compute_status event_wait(void *device, void *handle) {
  (void)device;
  external_event *event = handle;
  return event->queue->finished >= event->position ? COMPUTE_OK : queue_wait(event->queue);
}

static compute_status event_query(void *device, void *handle, bool *complete) {
  (void)device;
  external_event *event = handle;
  *complete = event->queue->finished >= event->position;
  return COMPUTE_OK;
}

static compute_status queue_wait_event(void *queue, void *event) {
  (void)queue;
  return event_wait(NULL, event);
}

/* ---- Copies, in queue order ---------------------------------------------------------------- */

static compute_status upload(void *queue, const compute_argument *destination, const void *source,
                             uint64_t bytes) {
  queue_wait(queue);
  memcpy(address(destination), source, (size_t)bytes);
  return COMPUTE_OK;
}

static compute_status download(void *queue, void *destination, const compute_argument *source,
                               uint64_t bytes) {
  queue_wait(queue);
  memcpy(destination, address(source), (size_t)bytes);
  return COMPUTE_OK;
}

static compute_status copy(void *queue, const compute_argument *destination,
                           const compute_argument *source, uint64_t bytes) {
  queue_wait(queue);
  memmove(address(destination), address(source), (size_t)bytes);
  return COMPUTE_OK;
}

static const compute_backend backend = {
    .struct_size = sizeof(compute_backend),
    .abi_major = COMPUTE_BACKEND_ABI_MAJOR,
    .abi_minor = COMPUTE_BACKEND_ABI_MINOR,
    .name = "external",
    .description = "a backend from outside the tree",
    .version = "7.5",
    .open = module_open,
    .close = module_close,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_describe = device_describe,
    .memory_allocate = memory_allocate,
    .memory_release = memory_release,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_wait = queue_wait,
    .event_record = event_record,
    .event_destroy = event_destroy,
    .event_wait = event_wait,
    .event_query = event_query,
    .queue_wait_event = queue_wait_event,
    .upload = upload,
    .download = download,
    .copy = copy,
    .supports = supports,
    .kernel_prepare = kernel_prepare,
    .kernel_destroy = kernel_destroy,
    .kernel_describe = kernel_describe,
    .enqueue = enqueue,
};

const compute_backend *compute_backend_entry(uint32_t core_abi_major, uint32_t core_abi_minor) {
  (void)core_abi_minor;
  return core_abi_major == COMPUTE_BACKEND_ABI_MAJOR ? &backend : NULL;
}
