/* SPDX-License-Identifier: MIT */
/* The properties of one device, in the form that the generator and compute-info need. A driver may
 * fail, answer in an unexpected size, omit the terminating zero of a text or report nonsense. This
 * file handles all of that: it clamps limits to sensible ranges, and the rest of the module relies
 * on them. */
#include "opencl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <strings.h>
#include <unistd.h>

/* ---- Asking the driver ----------------------------------------------------------------------- */

uint64_t opencl_number(const opencl_library *cl, cl_device_id id, cl_device_info what, size_t bytes,
                       uint64_t fallback) {
  uint64_t wide = 0;
  uint32_t narrow = 0;
  size_t got = bytes;
  if (bytes == sizeof narrow) {
    const cl_int code = cl->clGetDeviceInfo(id, what, sizeof narrow, &narrow, &got);
    return code == CL_SUCCESS && got == bytes ? narrow : fallback;
  }
  const cl_int code = cl->clGetDeviceInfo(id, what, sizeof wide, &wide, &got);
  return code == CL_SUCCESS && got == bytes ? wide : fallback;
}

/* Trims blanks at both ends and copies as much as fits. */
static void trim(const char *from, char *text, size_t text_bytes) {
  from += strspn(from, " \t\r\n");
  size_t length = strlen(from);
  while (length > 0 && strchr(" \t\r\n", from[length - 1])) length--;
  if (length >= text_bytes) length = text_bytes - 1;
  memcpy(text, from, length);
  text[length] = '\0';
}

/* Extension lists of some drivers have thousands of bytes; anything longer is treated as an
 * error. */
#define LONGEST_TEXT 16384

void opencl_text(const opencl_library *cl, cl_device_id id, cl_device_info what, char *text,
                 size_t text_bytes) {
  char whole[LONGEST_TEXT];
  size_t got = 0;
  whole[0] = '\0';
  if (cl->clGetDeviceInfo(id, what, sizeof whole - 1, whole, &got) != CL_SUCCESS) got = 0;
  whole[got < sizeof whole ? got : sizeof whole - 1] = '\0';
  trim(whole, text, text_bytes);
}

void opencl_platform_text(const opencl_library *cl, cl_platform_id id, cl_platform_info what,
                          char *text, size_t text_bytes) {
  char whole[LONGEST_TEXT];
  size_t got = 0;
  whole[0] = '\0';
  if (cl->clGetPlatformInfo(id, what, sizeof whole - 1, whole, &got) != CL_SUCCESS) got = 0;
  whole[got < sizeof whole ? got : sizeof whole - 1] = '\0';
  trim(whole, text, text_bytes);
}

bool opencl_has_extension(const opencl_library *cl, cl_device_id id, const char *extension) {
  char list[LONGEST_TEXT];
  opencl_text(cl, id, CL_DEVICE_EXTENSIONS, list, sizeof list);
  const size_t length = strlen(extension);
  for (const char *at = list; (at = strstr(at, extension)); at += length) {
    const bool starts = at == list || at[-1] == ' ';
    if (starts && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

int opencl_version(const char *text) {
  int major, minor;
  if (sscanf(text, "OpenCL %d.%d", &major, &minor) != 2) return 0;
  if (major < 1 || major > 99 || minor < 0 || minor > 9) return 0;
  return major * 10 + minor;
}

/* ---- The device ------------------------------------------------------------------------------ */

#define KIB ((uint64_t)1 << 10)
#define GIB ((uint64_t)1 << 30)

/* ---- Properties ---------------------------------------------------------------------------- */

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high) {
  return value < low ? low : value > high ? high : value;
}

static uint32_t number32(const opencl_device *device, cl_device_info what, uint32_t fallback) {
  return (uint32_t)opencl_number(device->cl, device->id, what, sizeof(cl_uint), fallback);
}

static uint64_t number64(const opencl_device *device, cl_device_info what, uint64_t fallback) {
  return opencl_number(device->cl, device->id, what, sizeof(cl_ulong), fallback);
}

static uint64_t number_size(const opencl_device *device, cl_device_info what, uint64_t fallback) {
  return opencl_number(device->cl, device->id, what, sizeof(size_t), fallback);
}

static void text(const opencl_device *device, cl_device_info what, char *words, size_t bytes) {
  opencl_text(device->cl, device->id, what, words, bytes);
}

static bool has(const opencl_device *device, const char *extension) {
  return opencl_has_extension(device->cl, device->id, extension);
}

/* Vendor names by the first characters of the driver's spelling. */
static const struct {
  const char *begins, *name;
} vendor_names[] = {
    {"GenuineIntel", "Intel"},         {"Intel", "Intel"},   {"AuthenticAMD", "AMD"},
    {"Advanced Micro Devices", "AMD"}, {"NVIDIA", "NVIDIA"}, {"Apple", "Apple"},
};

static void vendor_name(const char *given, char *name, size_t bytes) {
  snprintf(name, bytes, "%.63s", given);
  for (size_t i = 0; i < sizeof vendor_names / sizeof *vendor_names; i++) {
    if (strncasecmp(given, vendor_names[i].begins, strlen(vendor_names[i].begins)) == 0)
      snprintf(name, bytes, "%s", vendor_names[i].name);
  }
}

static compute_device_type device_type(const opencl_place *place) {
  if (place->type & CL_DEVICE_TYPE_GPU) return COMPUTE_DEVICE_GPU;
  return place->type & CL_DEVICE_TYPE_CPU ? COMPUTE_DEVICE_CPU : COMPUTE_DEVICE_ACCELERATOR;
}

/* Properties that only a vendor's extension reports: architecture, number of lanes and marketing
 * name. */
static void vendor_facts(opencl_device *device) {
  compute_target *target = &device->target;
  uint32_t lanes = 0;
  if (has(device, "cl_nv_device_attribute_query")) {
    snprintf(target->family, sizeof target->family, "sm_%u%u",
             number32(device, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, 0),
             number32(device, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, 0));
    lanes = number32(device, CL_DEVICE_WARP_SIZE_NV, 32);
  } else if (has(device, "cl_amd_device_attribute_query")) {
    char architecture[OPENCL_TEXT], board[OPENCL_TEXT];
    text(device, CL_DEVICE_NAME, architecture, sizeof architecture); /* "gfx90a:sramecc+" */
    text(device, CL_DEVICE_BOARD_NAME_AMD, board, sizeof board);
    architecture[strcspn(architecture, ":")] = '\0';
    snprintf(target->family, sizeof target->family, "%.31s", architecture);
    if (board[0]) snprintf(target->model, sizeof target->model, "%.127s", board);
    lanes = number32(device, CL_DEVICE_WAVEFRONT_WIDTH_AMD, 64);
  } else if (device->place->pocl && device->is_cpu) {
    snprintf(target->family, sizeof target->family, "pocl");
  } else if (has(device, "cl_intel_device_attribute_query")) {
    const uint32_t version = number32(device, CL_DEVICE_IP_VERSION_INTEL, 0);
    if (version)
      snprintf(target->family, sizeof target->family, "intel_%u_%u", version >> 22,
               version >> 14 & 0xff);
  }
  if (device->is_cpu) lanes = 1;
  if (lanes > 1) target->flags |= COMPUTE_TARGET_LOCKSTEP;
  if (lanes == 0 && opencl_version(device->device_version) >= 30)
    lanes = (uint32_t)number_size(device, CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, 1);
  target->lanes = (uint32_t)clamp(lanes, 1, 128);
}

static void group_limits(opencl_device *device) {
  compute_target *target = &device->target;
  size_t sizes[8] = {0}, got = 0;
  const uint32_t dimensions = number32(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 3);
  const cl_int code = device->cl->clGetDeviceInfo(device->id, CL_DEVICE_MAX_WORK_ITEM_SIZES,
                                                  sizeof sizes, sizes, &got);
  target->group_limit =
      (uint32_t)clamp(number_size(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1), 1, 8192);
  for (int i = 0; i < 3; i++) {
    const bool known = code == CL_SUCCESS && got >= (size_t)(i + 1) * sizeof *sizes;
    const bool there = (uint32_t)i < dimensions;
    target->group_limit_of[i] =
        (uint32_t)clamp(known && there ? sizes[i] : 1, 1, target->group_limit);
  }
}

/* Memory size of the device, and how much of it the host shares. */
static void memory_facts(opencl_device *device) {
  device->unified = device->is_cpu || number32(device, CL_DEVICE_HOST_UNIFIED_MEMORY, 0) != 0;
  device->memory_bytes =
      clamp(number64(device, CL_DEVICE_GLOBAL_MEM_SIZE, 0), 64 * KIB * KIB, (uint64_t)1 << 50);
  const uint64_t largest = number64(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0);
  device->allocation_limit =
      clamp(largest ? largest : device->memory_bytes / 4, KIB * KIB, device->memory_bytes);
  device->argument_limit =
      clamp(number_size(device, CL_DEVICE_MAX_PARAMETER_SIZE, 1024), 256, 1 << 20);
  /* The driver answers in bits. At least the alignment of vector types. */
  device->base_alignment =
      clamp(number32(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8, 64, 65536);
  device->address_bits = number32(device, CL_DEVICE_ADDRESS_BITS, 64) == 32 ? 32 : 64;
  /* The shared-memory functions may be called only on devices that report support. */
  if (device->cl->clSVMAlloc && device->cl->clSVMFree &&
      opencl_version(device->place->platform_version) >= 20 &&
      opencl_version(device->device_version) >= 20) {
    const uint64_t kinds = number64(device, CL_DEVICE_SVM_CAPABILITIES, 0);
    device->shared_memory = device->unified && (kinds & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
    device->system_memory = (kinds & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0;
  }
}

static void target_fill(opencl_device *device) {
  compute_target *target = &device->target;
  char vendor[OPENCL_TEXT];
  target->struct_size = sizeof *target;
  target->dialect = COMPUTE_DIALECT_OPENCL;
  target->type = device_type(device->place);
  snprintf(target->backend, sizeof target->backend, "opencl");
  text(device, CL_DEVICE_VENDOR, vendor, sizeof vendor);
  vendor_name(vendor, target->vendor, sizeof target->vendor);
  snprintf(target->model, sizeof target->model, "%.127s", device->full_name);
  /* PoCL lists its build options after a comma. */
  const char *version = device->place->platform_version;
  snprintf(target->driver, sizeof target->driver, "%.*s, driver %.50s",
           (int)strcspn(version, ",") < 60 ? (int)strcspn(version, ",") : 60, version,
           device->driver_version);
  target->compute_units =
      (uint32_t)clamp(number32(device, CL_DEVICE_MAX_COMPUTE_UNITS, 1), 1, 65536);
  target->flags |= COMPUTE_TARGET_FAULT_RECORDS;
  target->vector_width =
      device->is_cpu
          ? (uint32_t)clamp(number32(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 4), 1, 16)
          : 4;
  target->local_bytes = clamp(number64(device, CL_DEVICE_LOCAL_MEM_SIZE, 0), 0, 16 * KIB * KIB);
  target->cache_bytes = clamp(number64(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, 0), 0, 4 * GIB);
  if (number32(device, CL_DEVICE_LOCAL_MEM_TYPE, CL_GLOBAL) == CL_LOCAL)
    target->flags |= COMPUTE_TARGET_FAST_LOCAL;
  if (number64(device, CL_DEVICE_DOUBLE_FP_CONFIG, 0) != 0) target->flags |= COMPUTE_TARGET_F64;
  if (has(device, "cl_khr_fp16")) target->flags |= COMPUTE_TARGET_F16;
  vendor_facts(device);
  group_limits(device);
}

static void facts_fill(opencl_device *device) {
  text(device, CL_DEVICE_VERSION, device->device_version, sizeof device->device_version);
  text(device, CL_DRIVER_VERSION, device->driver_version, sizeof device->driver_version);
  text(device, CL_DEVICE_NAME, device->full_name, sizeof device->full_name);
  device->is_cpu = device_type(device->place) == COMPUTE_DEVICE_CPU;
  memory_facts(device);
  target_fill(device);
  const uint64_t rounding = number64(device, CL_DEVICE_SINGLE_FP_CONFIG, 0);
  snprintf(device->options, sizeof device->options, "-cl-std=CL1.2%s",
           rounding & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
               ? " -cl-fp32-correctly-rounded-divide-sqrt"
               : "");
}

/* ---- Recovery ------------------------------------------------------------------------------ */

/* Recovery from a loss creates a new context. Objects of an old context keep failing; they can be
 * released, because the driver still has the handles. Old contexts are kept until the device is
 * closed, because shared memory must be freed in its original context. */
struct opencl_past {
  opencl_past *next;
  cl_context context;
};

/* `true` if the device passes a minimal test: a small write to a buffer. */
static cl_int try_context(const opencl_device *device, cl_context context) {
  static const uint32_t word = 0;
  const opencl_library *cl = device->cl;
  cl_int code = CL_SUCCESS;
  cl_mem buffer = NULL;
  const cl_command_queue queue = cl->clCreateCommandQueue(context, device->id, 0, &code);
  if (queue) buffer = cl->clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
  if (buffer)
    code = cl->clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL);
  if (buffer) cl->clReleaseMemObject(buffer);
  if (queue) cl->clReleaseCommandQueue(queue);
  return code;
}

static cl_context context_create(const opencl_device *device, cl_int *code) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              (cl_context_properties)device->place->platform, 0};
  *code = CL_SUCCESS;
  const cl_context made = device->cl->clCreateContext(properties, 1, &device->id, NULL, NULL, code);
  if (!made && *code == CL_SUCCESS) *code = CL_OUT_OF_HOST_MEMORY;
  return made;
}

/* Releases the device's cached objects of the old context. */
static void forget(opencl_device *device) {
  if (atomic_load_explicit(&device->clblast_used, memory_order_relaxed)) opencl_clblast_forget();
  builder_forget(&device->builder);
  opencl_staging_release(device);
  opencl_clock_release(device);
  if (device->memory_queue) device->cl->clReleaseCommandQueue(device->memory_queue);
  device->memory_queue = NULL;
}

compute_status opencl_device_recover(void *handle) {
  opencl_device *device = handle;
  const compute_services *services = device->services;
  if (atomic_load_explicit(&device->lost, memory_order_acquire) == CL_SUCCESS) return COMPUTE_OK;
  opencl_past *past = builder_allocate(&device->builder, sizeof *past);
  if (!past) return opencl_fail_memory(services, "a context");
  cl_int code = CL_SUCCESS;
  const cl_context made = context_create(device, &code);
  if (made) code = try_context(device, made);
  if (code != CL_SUCCESS) {
    if (made) device->cl->clReleaseContext(made);
    builder_free(&device->builder, past);
    return services->fail(services->host, COMPUTE_ERROR_DEVICE_LOST, code,
                          "restart the program; check the system's log",
                          "opencl: device %u cannot be recovered (%s, %d)", device->index,
                          opencl_error_name(code), (int)code);
  }
  forget(device);
  *past = (opencl_past){.next = device->past, .context = device->context};
  device->past = past;
  device->context = made;
  atomic_fetch_add_explicit(&device->generation, 1, memory_order_release);
  atomic_store_explicit(&device->lost, CL_SUCCESS, memory_order_release);
  return COMPUTE_OK;
}

static void past_release(opencl_device *device) {
  for (opencl_past *past = device->past, *next; past; past = next) {
    next = past->next;
    device->cl->clReleaseContext(past->context);
    builder_free(&device->builder, past);
  }
  device->past = NULL;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

compute_status opencl_device_open(void *instance, uint32_t index, void **result) {
  const opencl_instance *opened = instance;
  const compute_services *services = opened->services;
  if (index >= opened->count) {
    return services->fail(services->host, COMPUTE_ERROR_NO_DEVICE, 0, NULL,
                          "opencl: device count is %u; device %u does not exist", opened->count,
                          index);
  }
  opencl_device *device = services->allocate(services->host, sizeof *device, 16);
  if (!device) return opencl_fail_memory(services, "a device");
  device->services = services;
  device->cl = opened->cl;
  device->instance = opened;
  device->place = &opened->places[index];
  device->index = index;
  device->id = device->place->id;
  facts_fill(device);
  cl_int code;
  pthread_mutex_init(&device->loss_mutex, NULL);
  device->context = context_create(device, &code);
  if (!device->context) {
    const compute_status status = opencl_fail(device, code, "opening device %u", index);
    pthread_mutex_destroy(&device->loss_mutex);
    services->release(services->host, device);
    return status;
  }
  pthread_mutex_init(&device->memory_mutex, NULL);
  device->builder = (builder){.driver = &opencl_builder_driver,
                              .services = services,
                              .device = device,
                              .index = index,
                              .target = &device->target,
                              .options = device->options};
  builder_open(&device->builder);
  pthread_mutex_init(&device->staging_mutex, NULL);
  pthread_cond_init(&device->staging_returned, NULL);
  pthread_mutex_init(&device->host_mutex, NULL);
  pthread_mutex_init(&device->clock_mutex, NULL);
  opencl_memory_try(device);
  device->two_queues = !device->unified && !device->shared_memory;
  *result = device;
  return COMPUTE_OK;
}

/* Waits until only the caller holds the context, at most 0.1 s. A worker thread of PoCL 3.1
 * releases a command after it has signalled completion, and then reads the device. Freeing a
 * sub-device before that crashes the worker. */
static void context_wait_idle(const opencl_device *device) {
  enum { TRIES = 1000, PAUSE = 100000 /* ns */ };
  cl_uint holders = 1;
  for (int i = 0; i < TRIES; i++) {
    const cl_int code = device->cl->clGetContextInfo(device->context, CL_CONTEXT_REFERENCE_COUNT,
                                                     sizeof holders, &holders, NULL);
    if (code != CL_SUCCESS || holders <= 1) return;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
  }
}

void opencl_device_close(void *handle) {
  opencl_device *device = handle;
  if (atomic_load_explicit(&device->clblast_used, memory_order_relaxed)) opencl_clblast_forget();
  builder_close(&device->builder);
  opencl_staging_release(device);
  opencl_clock_release(device);
  if (device->memory_queue) device->cl->clReleaseCommandQueue(device->memory_queue);
  if (device->place->divided) context_wait_idle(device);
  device->cl->clReleaseContext(device->context);
  past_release(device);
  pthread_mutex_destroy(&device->loss_mutex);
  pthread_mutex_destroy(&device->memory_mutex);
  pthread_mutex_destroy(&device->staging_mutex);
  pthread_cond_destroy(&device->staging_returned);
  pthread_mutex_destroy(&device->host_mutex);
  pthread_mutex_destroy(&device->clock_mutex);
  builder_free(&device->builder, device);
}

compute_status opencl_device_target(void *device, compute_target *target) {
  builder_target_copy(target, &((const opencl_device *)device)->target);
  return COMPUTE_OK;
}

/* ---- Description --------------------------------------------------------------------------- */

/* Free memory, from the best source: the system for a CPU, AMD's extension, or else our count of
 * allocated bytes. */
static uint64_t memory_free(const opencl_device *device) {
  uint64_t all = device->memory_bytes;
  if (device->is_cpu) {
    const int64_t page = sysconf(_SC_PAGESIZE), available = sysconf(_SC_AVPHYS_PAGES);
    const uint64_t unused = page > 0 && available > 0 ? (uint64_t)page * (uint64_t)available : all;
    return unused < all ? unused : all;
  }
  if (has(device, "cl_amd_device_attribute_query")) {
    size_t free_kib[2] = {0}, got = 0;
    if (device->cl->clGetDeviceInfo(device->id, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof free_kib,
                                    free_kib, &got) == CL_SUCCESS &&
        got >= sizeof *free_kib && free_kib[0] <= all / KIB)
      return (uint64_t)free_kib[0] * KIB;
  }
  const uint64_t taken = atomic_load_explicit(&device->allocated, memory_order_relaxed);
  return taken < all ? all - taken : 0;
}

compute_status opencl_device_describe(void *handle, compute_device_info *info) {
  const opencl_device *device = handle;
  const compute_target *target = &device->target;
  snprintf(info->model, sizeof info->model, "%s", target->model);
  snprintf(info->vendor, sizeof info->vendor, "%s", target->vendor);
  snprintf(info->driver, sizeof info->driver, "%s", target->driver);
  snprintf(info->isa, sizeof info->isa, "%s", target->family[0] ? target->family : "unknown");
  info->type = target->type;
  /* A rank below the CPU backend, which is faster on the same processor; 0 leaves the rank to the
   * core. */
  info->priority = device->is_cpu ? 50 : 0;
  info->capabilities = COMPUTE_CAPABILITY_COMPUTE;
  if (device->unified) info->capabilities |= COMPUTE_CAPABILITY_UNIFIED_MEMORY;
  if (target->flags & COMPUTE_TARGET_F64) info->capabilities |= COMPUTE_CAPABILITY_F64;
  if (target->flags & COMPUTE_TARGET_F16) info->capabilities |= COMPUTE_CAPABILITY_F16;
  info->compute_units = target->compute_units;
  info->vector_width = device->is_cpu ? target->vector_width : target->lanes;
  info->memory_total = device->memory_bytes;
  info->memory_free = memory_free(device);
  info->memory_max_allocation = device->allocation_limit;
  info->cache_bytes = target->cache_bytes;
  size_t used = 0;
  if (device->place->divided) {
    used = (size_t)snprintf(info->notes, sizeof info->notes,
                            "a part of a CPU device, as COMPUTE_OPENCL_SUBDEVICES requests");
  }
  if (device->index == 0 && device->instance->left_out[0]) {
    snprintf(info->notes + used, sizeof info->notes - used, "%sleft out: %.400s", used ? "\n" : "",
             device->instance->left_out);
  }
  return COMPUTE_OK;
}
