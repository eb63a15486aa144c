/* SPDX-License-Identifier: MIT */
/* Programs and their entry points: the OpenCL part of the shared table of programs.
 *
 * PoCL is special: it specialises kernels at their first launch and stores the results in a
 * separate cache folder, so its binaries are not worth storing. For PoCL the disk cache only
 * records that the program was built before in that folder, so that statistics can distinguish a
 * first build from a lookup. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"

static void problem_set(build_problem *problem, cl_int code, const char *call) {
  const bool memory = code == CL_OUT_OF_HOST_MEMORY;
  build_problem_set(problem, memory ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_COMPILATION, code,
                    opencl_error_name(code), call);
  problem->final = code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS;
}

/* ---- Disk cache ---------------------------------------------------------------------------- */

/* All parts that can change a binary, or, for PoCL, the location of its cache. */
static uint32_t key_parts(void *handle, compute_cache_part parts[BUILDER_KEY_PARTS]) {
  const opencl_device *device = handle;
  const compute_services *services = device->services;
  static const char *const folders[] = {"POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  const char *texts[] = {
      device->place->platform_name, device->place->platform_version, device->full_name,
      device->target.vendor,        device->driver_version,          device->device_version};
  uint32_t parts_used = 0;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    parts[parts_used++] = (compute_cache_part){texts[i], strlen(texts[i])};
  /* PoCL uses the first folder that is set, so its rank in the list is part of the key. */
  for (size_t i = 0; device->place->pocl && i < sizeof folders / sizeof *folders; i++) {
    const char *folder = services->variable(services->host, folders[i]);
    if (!folder) continue;
    parts[parts_used++] = (compute_cache_part){folders[i], strlen(folders[i])};
    parts[parts_used++] = (compute_cache_part){folder, strlen(folder)};
    break;
  }
  return parts_used;
}

/* `true` if PoCL's cache contains anything. */
static bool pocl_cache_lives(const opencl_device *device) {
  static const struct {
    const char *variable, *below;
  } places[] = {
      {"POCL_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/pocl/kcache"}, {"HOME", "/.cache/pocl/kcache"}};
  const compute_services *services = device->services;
  char path[1024] = "";
  for (size_t i = 0; i < sizeof places / sizeof *places && !path[0]; i++) {
    const char *folder = services->variable(services->host, places[i].variable);
    if (!folder) continue;
    const int length = snprintf(path, sizeof path, "%s%s", folder, places[i].below);
    if (length < 0 || (size_t)length >= sizeof path) return false;
  }
  DIR *folder = path[0] ? opendir(path) : NULL;
  if (!folder) return false;
  bool found = false;
  for (struct dirent *entry; !found && (entry = readdir(folder));)
    found = entry->d_name[0] != '.' && strncmp(entry->d_name, "temp", 4) != 0;
  closedir(folder);
  return found;
}

static void *load(void *handle, const builder_program *program, const void *binary, size_t bytes,
                  bool *known) {
  opencl_device *device = handle;
  const opencl_library *cl = device->cl;
  if (device->place->pocl) {
    *known = pocl_cache_lives(device);
    return NULL;
  }
  const unsigned char *data = binary;
  cl_int state = CL_SUCCESS, code = CL_SUCCESS;
  cl_program built =
      cl->clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, &data, &state, &code);
  if (built && (state != CL_SUCCESS || cl->clBuildProgram(built, 1, &device->id, program->options,
                                                          NULL, NULL) != CL_SUCCESS)) {
    cl->clReleaseProgram(built);
    built = NULL;
  }
  return built;
}

/* The data to store for a program, or NULL if there is none. */
static void *binary_of(const opencl_device *device, cl_program program, size_t *bytes) {
  const opencl_library *cl = device->cl;
  if (device->place->pocl) {
    *bytes = 1;
    return builder_duplicate(&device->builder, "1", 1);
  }
  if (cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes, NULL) !=
          CL_SUCCESS ||
      *bytes == 0 || *bytes > (size_t)1 << 30)
    return NULL;
  unsigned char *binary = builder_allocate(&device->builder, *bytes);
  if (binary && cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) ==
                    CL_SUCCESS)
    return binary;
  builder_free(&device->builder, binary);
  return NULL;
}

/* ---- Compiler ------------------------------------------------------------------------------ */

/* Reads the compiler's output. */
static void read_log(const opencl_device *device, cl_program program, build_problem *problem) {
  size_t bytes = 0;
  const opencl_library *cl = device->cl;
  if (cl->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) !=
          CL_SUCCESS ||
      bytes == 0 || bytes > (size_t)16 << 20)
    return;
  char *whole = builder_allocate(&device->builder, bytes + 1);
  if (whole && cl->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, whole,
                                         NULL) == CL_SUCCESS)
    build_problem_log(problem, whole);
  builder_free(&device->builder, whole);
}

static void *compile(void *handle, const builder_program *program, void **binary, size_t *bytes,
                     build_problem *problem) {
  opencl_device *device = handle;
  const opencl_library *cl = device->cl;
  const compute_services *services = device->services;
  const char *source = program->source;
  cl_int code = CL_SUCCESS;
  cl_program built =
      cl->clCreateProgramWithSource(device->context, 1, &source, &program->source_bytes, &code);
  if (!built) {
    problem_set(problem, code ? code : CL_OUT_OF_HOST_MEMORY, "clCreateProgramWithSource");
    return NULL;
  }
  code = cl->clBuildProgram(built, 1, &device->id, program->options, NULL, NULL);
  problem_set(problem, code, "clBuildProgram");
  read_log(device, built, problem);
  if (code != CL_SUCCESS) {
    cl->clReleaseProgram(built);
    return NULL;
  }
  if (problem->log[0])
    services->log(services->host, COMPUTE_LOG_DEBUG, "opencl", "the compiler reports: %s",
                  problem->log);
  if (binary) *binary = binary_of(device, built, bytes);
  return built;
}

static void unload(void *handle, void *program) {
  ((opencl_device *)handle)->cl->clReleaseProgram(program);
}

/* ---- Entry points -------------------------------------------------------------------------- */

/* The driver's limits for the function; the query may fail or return 0. */
static void entry_ask(const opencl_device *device, opencl_entry *entry, cl_kernel kernel) {
  const opencl_library *cl = device->cl;
  size_t limit = 0;
  if (cl->clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit,
                                   &limit, NULL) != CL_SUCCESS ||
      limit == 0)
    limit = device->target.group_limit;
  entry->group_limit = limit < device->target.group_limit ? limit : device->target.group_limit;
  if (cl->clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof entry->arguments, &entry->arguments,
                          NULL) != CL_SUCCESS)
    entry->arguments = UINT32_MAX;
}

static builder_entry *entry_create(void *handle, const builder_program *program, const char *name,
                                   build_problem *problem) {
  opencl_device *device = handle;
  cl_int code = CL_OUT_OF_HOST_MEMORY;
  opencl_entry *entry = builder_allocate(&device->builder, sizeof *entry);
  cl_kernel kernel = entry ? device->cl->clCreateKernel(program->handle, name, &code) : NULL;
  if (!kernel) {
    problem_set(problem, code, "clCreateKernel");
    builder_free(&device->builder, entry);
    return NULL;
  }
  entry->program = program->handle;
  entry_ask(device, entry, kernel);
  entry->idle[entry->idle_count++] = kernel;
  return &entry->shared;
}

static void entry_destroy(void *handle, builder_entry *shared) {
  opencl_device *device = handle;
  opencl_entry *entry = (opencl_entry *)shared;
  for (uint32_t i = 0; i < entry->idle_count; i++) device->cl->clReleaseKernel(entry->idle[i]);
  builder_free(&device->builder, entry);
}

cl_kernel opencl_entry_take(opencl_device *device, opencl_entry *entry, cl_int *code) {
  cl_kernel kernel = NULL;
  pthread_mutex_lock(&device->builder.mutex);
  if (entry->idle_count > 0) kernel = entry->idle[--entry->idle_count];
  pthread_mutex_unlock(&device->builder.mutex);
  if (kernel) return kernel;
  *code = CL_OUT_OF_HOST_MEMORY;
  return device->cl->clCreateKernel(entry->program, entry->shared.name, code);
}

void opencl_entry_return(opencl_device *device, opencl_entry *entry, cl_kernel kernel) {
  pthread_mutex_lock(&device->builder.mutex);
  const bool keep = entry->idle_count < OPENCL_IDLE_KERNELS;
  if (keep) entry->idle[entry->idle_count++] = kernel;
  pthread_mutex_unlock(&device->builder.mutex);
  if (!keep) device->cl->clReleaseKernel(kernel);
}

/* ---- Limits of a launch -------------------------------------------------------------------- */

static bool refuse(build_problem *problem, cl_int code, const char *call, const char *words) {
  problem_set(problem, code, call);
  build_problem_log(problem, words);
  return false;
}

static bool launch_fits(void *handle, const compute_generated_launch *launch,
                        const builder_entry *shared, build_problem *problem) {
  const opencl_device *device = handle;
  const opencl_entry *entry = (const opencl_entry *)shared;
  const compute_target *target = &device->target;
  char words[160];
  const uint64_t items = (uint64_t)launch->group[0] * launch->group[1] * launch->group[2];
  bool refused = items == 0 || items > entry->group_limit;
  for (int i = 0; i < 3; i++) refused |= launch->group[i] > target->group_limit_of[i];
  if (refused) {
    snprintf(words, sizeof words, "groups of %ux%ux%u items; the driver allows %llu here",
             launch->group[0], launch->group[1], launch->group[2],
             (unsigned long long)entry->group_limit);
    return refuse(problem, CL_INVALID_WORK_GROUP_SIZE, "CL_KERNEL_WORK_GROUP_SIZE", words);
  }
  const uint64_t pointer_bytes = device->address_bits / 8;
  const uint64_t argument_bytes = launch->shape_bytes + launch->buffer_count * pointer_bytes;
  /* PoCL reports 1024 bytes and accepts more. */
  if (argument_bytes > device->argument_limit && !device->place->pocl) {
    snprintf(words, sizeof words, "%llu bytes of arguments; the driver allows %llu",
             (unsigned long long)argument_bytes, (unsigned long long)device->argument_limit);
    return refuse(problem, CL_INVALID_KERNEL_ARGS, "CL_DEVICE_MAX_PARAMETER_SIZE", words);
  }
  const cl_uint expected = entry->arguments;
  if (expected != UINT32_MAX && expected != launch->buffer_count + 1)
    return refuse(problem, CL_INVALID_ARG_INDEX, "CL_KERNEL_NUM_ARGS",
                  "an unexpected number of arguments");
  for (int i = 0; device->address_bits == 32 && i < 3; i++) {
    if ((uint64_t)launch->groups[i] * launch->group[i] > UINT32_MAX)
      return refuse(problem, CL_INVALID_GLOBAL_WORK_SIZE, "the launch",
                    "more items than a 32-bit device can count");
  }
  return true;
}

const builder_driver opencl_builder_driver = {
    .module = "opencl",
    .title = "OpenCL",
    .key_parts = key_parts,
    .load = load,
    .compile = compile,
    .unload = unload,
    .entry_create = entry_create,
    .entry_destroy = entry_destroy,
    .launch_fits = launch_fits,
};

void opencl_build_statistics(void *device, compute_build_statistics *statistics) {
  builder_count(&((opencl_device *)device)->builder, statistics);
}
