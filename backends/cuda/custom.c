/* SPDX-License-Identifier: MIT */
/* The user's custom kernels: their source and arguments are passed on unchanged.
 *
 * The driver reads as many parameters as the kernel has, so a list that is too short would be read
 * past its end. Drivers from CUDA 12.4 on report the number and sizes, and both are checked. For
 * older drivers the list is padded with zeros, so that a mistake does not crash. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

#define MOST_PARAMETERS 256
#define ZERO_BYTES      4096 /* maximum size of all parameters of a kernel together */

typedef struct custom_kernel {
  builder_program *program;
  const cuda_entry *entry;
  char *name;
  bool counted; /* the driver reports the parameters */
  uint32_t parameter_count;
  size_t parameter_bytes[MOST_PARAMETERS];
} custom_kernel;

/* ---- Building ------------------------------------------------------------------------------ */

/* The architecture options (unless the user gives one), followed by the user's options. */
static char *options_of(const cuda_device *device, const char *options) {
  const char *given = options ? options : "";
  const bool chosen = strstr(given, "-arch") != NULL; /* also matches --gpu-architecture */
  const size_t bytes = strlen(given) + 96;
  char *text = builder_allocate(&device->builder, bytes);
  if (!text) return NULL;
  char architecture[40] = "";
  if (!chosen) cuda_compiler_target(device, architecture, sizeof architecture);
  snprintf(text, bytes, "%s -default-device %s", architecture, given);
  return text;
}

static void learn_parameters(const cuda_device *device, custom_kernel *kernel) {
  const cuda_driver *driver = device->driver;
  size_t offset, bytes;
  if (!driver->function_parameter) return;
  uint32_t count = 0;
  while (count < MOST_PARAMETERS &&
         driver->function_parameter(kernel->entry->function, count, &offset, &bytes) == CUDA_OK)
    kernel->parameter_bytes[count++] = bytes;
  kernel->counted = count < MOST_PARAMETERS;
  kernel->parameter_count = count;
}

static bool build(cuda_device *device, custom_kernel *kernel, const char *source,
                  const char *options, build_problem *problem) {
  char *all_options = options_of(device, options);
  kernel->program = NULL;
  if (!all_options || !kernel->name) {
    build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a kernel of the program");
  } else {
    kernel->program = builder_get(&device->builder, source, strlen(source), all_options, problem);
  }
  builder_free(&device->builder, all_options);
  if (!kernel->program) return false;
  kernel->entry = (const cuda_entry *)builder_entry_get(&device->builder, kernel->program,
                                                        kernel->name, problem);
  if (!kernel->entry) return false;
  learn_parameters(device, kernel);
  return true;
}

compute_status cuda_custom_build(void *handle, const char *source, const char *entry,
                                 const char *options, void **result) {
  cuda_device *device = handle;
  const compute_services *services = device->services;
  build_problem problem;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) return status;
  if (!device->nvrtc)
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, CUDA_NVRTC_REMEDY,
                          "cuda:%u: there is no compiler for kernels: %s", device->index,
                          device->no_compiler);
  custom_kernel *kernel = builder_allocate(&device->builder, sizeof *kernel);
  if (!kernel) return cuda_fail_memory(services, "a kernel of the program");
  kernel->name = builder_duplicate(&device->builder, entry, strlen(entry));
  if (build(device, kernel, source, options, &problem)) {
    *result = kernel;
    return COMPUTE_OK;
  }
  cuda_custom_destroy(device, kernel);
  return cuda_tell_lost(
      device, builder_fail_custom(&device->builder, entry, &problem, CUDA_NOT_FOUND,
                                  "give the name of a kernel function of the source, and declare "
                                  "it extern \"C\" __global__"));
}

void cuda_custom_destroy(void *handle, void *destroyed) {
  cuda_device *device = handle;
  custom_kernel *kernel = destroyed;
  builder_release(&device->builder, kernel->program);
  builder_free(&device->builder, kernel->name);
  builder_free(&device->builder, kernel);
}

/* ---- Launching ----------------------------------------------------------------------------- */

static compute_status check_space(const cuda_queue *queue, const custom_kernel *kernel,
                                  const uint32_t groups[3], const uint32_t group[3]) {
  const cuda_device *device = queue->device;
  const compute_services *services = device->services;
  const uint32_t *limits = device->target.group_limit_of;
  if (!cuda_group_fits(device, kernel->entry, group))
    return services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0,
                          "launch smaller groups, and more of them",
                          "cuda:%u refuses groups of %ux%ux%u items of kernel '%.60s': at most %u, "
                          "of these %ux%ux%u in each dimension",
                          device->index, group[0], group[1], group[2], kernel->name,
                          kernel->entry->group_limit, limits[0], limits[1], limits[2]);
  if (cuda_grid_fits(groups)) return COMPUTE_OK;
  return services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0,
                        "put the long dimension first",
                        "cuda:%u refuses %ux%ux%u groups: at most 2147483647x65535x65535",
                        device->index, groups[0], groups[1], groups[2]);
}

static compute_status check_arguments(const cuda_queue *queue, const custom_kernel *kernel,
                                      const compute_custom_argument *arguments, uint32_t count) {
  const compute_services *services = queue->device->services;
  if (count > MOST_PARAMETERS || (kernel->counted && count != kernel->parameter_count))
    return services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0, NULL,
                          "cuda: kernel '%.60s' has %u arguments but got %u", kernel->name,
                          kernel->counted ? kernel->parameter_count : MOST_PARAMETERS, count);
  for (uint32_t i = 0; i < count; i++) {
    if (!arguments[i].memory && !arguments[i].value && arguments[i].bytes > 0)
      return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0,
                            "declare it in the kernel with LOCAL_ARRAY or __shared__",
                            "cuda: kernel '%.60s', argument %u: CUDA does not take local memory as "
                            "an argument",
                            kernel->name, i);
    const uint64_t bytes = arguments[i].value ? arguments[i].bytes : sizeof(cuda_pointer);
    if (kernel->counted && bytes != kernel->parameter_bytes[i])
      return services->fail(services->host, COMPUTE_ERROR_INVALID_ARGUMENT, 0, NULL,
                            "cuda: kernel '%.60s', argument %u has %zu bytes but got %llu",
                            kernel->name, i, kernel->parameter_bytes[i], (unsigned long long)bytes);
  }
  return COMPUTE_OK;
}

compute_status cuda_custom_launch(void *handle, void *launched, const uint32_t groups[3],
                                  const uint32_t group[3], const compute_custom_argument *arguments,
                                  uint32_t count) {
  static const unsigned char zeros[ZERO_BYTES] = {0};
  cuda_queue *queue = handle;
  cuda_device *device = queue->device;
  const custom_kernel *kernel = launched;
  cuda_pointer addresses[MOST_PARAMETERS];
  void *parameters[MOST_PARAMETERS];
  uint32_t grid[3], block[3];
  for (int i = 0; i < 3; i++) {
    block[i] = group[i] ? group[i] : 1;
    grid[i] = groups[i] || i == 0 ? groups[i] : 1;
  }
  compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK || grid[0] == 0) return status;
  status = check_space(queue, kernel, grid, block);
  if (status == COMPUTE_OK) status = check_arguments(queue, kernel, arguments, count);
  if (status != COMPUTE_OK) return status;
  for (uint32_t i = 0; i < MOST_PARAMETERS; i++) {
    const compute_custom_argument *argument = i < count ? &arguments[i] : NULL;
    if (argument && !argument->value)
      addresses[i] =
          cuda_address(&(compute_argument){.memory = argument->memory, .offset = argument->offset});
    /* The driver only reads; its prototype lacks the const. */
    const void *place = !argument         ? (const void *)zeros
                        : argument->value ? argument->value
                                          : &addresses[i];
    memcpy(&parameters[i], &place, sizeof place);
  }
  const cuda_result code =
      device->driver->launch(kernel->entry->function, grid[0], grid[1], grid[2], block[0], block[1],
                             block[2], 0, queue->stream, parameters, NULL);
  if (code == CUDA_OK) return COMPUTE_OK;
  return cuda_fail(device, code, "launching kernel '%.60s'", kernel->name);
}
