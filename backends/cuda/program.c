/* SPDX-License-Identifier: MIT */
/* From source text to loaded modules: the CUDA part of the shared table of programs.
 *
 * NVRTC compiles to CUBIN for exactly this GPU, so the driver only has to load it. For a GPU newer
 * than the compiler it generates PTX, and the driver finishes the compilation. Then the driver's
 * version is part of the cache key. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

#define MOST_OPTIONS 64

/* ---- The compiler -------------------------------------------------------------------------- */

void cuda_compiler_target(const cuda_device *device, char *text, size_t bytes) {
  snprintf(text, bytes, "--gpu-architecture=%s_%d%s", device->exact_architecture ? "sm" : "compute",
           device->architecture, device->target.flags & COMPUTE_TARGET_WARPGROUP_MATRIX ? "a" : "");
}

compute_status cuda_compiler_open(cuda_device *device) {
  bool memory_short;
  device->nvrtc = nvrtc_find(device->services, device->capability, device->driver->version,
                             device->no_compiler, sizeof device->no_compiler, &memory_short);
  if (memory_short) return cuda_fail_memory(device->services, "NVRTC");
  if (!device->nvrtc) return COMPUTE_OK;
  device->architecture =
      nvrtc_architecture(device->nvrtc, device->capability, &device->exact_architecture);
  snprintf(device->compiler, sizeof device->compiler, "NVRTC %d.%d", device->nvrtc->major,
           device->nvrtc->minor);
  /* Instructions of exactly this architecture: every NVRTC with the architecture supports them. */
  if (device->exact_architecture && device->architecture == 90)
    device->target.flags |= COMPUTE_TARGET_WARPGROUP_MATRIX;
  char architecture[40];
  cuda_compiler_target(device, architecture, sizeof architecture);
  /* All dialects give the same results only without contraction. */
  snprintf(device->options, sizeof device->options, "%s -default-device --fmad=false --std=c++17",
           architecture);
  return COMPUTE_OK;
}

/* Splits the text at blanks, in place. Returns 0 if there are too many pieces. */
static int split(char *text, const char *pieces[MOST_OPTIONS]) {
  int count = 0;
  char *rest = NULL;
  for (char *piece = strtok_r(text, " \t\r\n", &rest); piece;
       piece = strtok_r(NULL, " \t\r\n", &rest)) {
    if (count == MOST_OPTIONS) return 0;
    pieces[count++] = piece;
  }
  return count;
}

static const char *remedy_of(nvrtc_result code) {
  switch (code) {
  case NVRTC_BUILTIN_FAILURE: return "install libnvrtc-builtins.so of the same version as NVRTC";
  case NVRTC_INVALID_OPTION: return "correct the compiler's options";
  default: return NULL;
  }
}

static void compiler_problem(const cuda_device *device, nvrtc_result code, const char *call,
                             build_problem *problem) {
  const bool memory = code == NVRTC_OUT_OF_MEMORY;
  build_problem_set(problem, memory ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_COMPILATION, code,
                    device->nvrtc->error_text(code), memory ? "the compiler" : call);
  problem->final = code == NVRTC_COMPILATION || code == NVRTC_INVALID_OPTION;
  problem->remedy = remedy_of(code);
}

/* The compiler's output, allocated with the services; NULL if empty. */
static char *log_take(const cuda_device *device, nvrtc_program compiled) {
  size_t bytes = 0;
  if (device->nvrtc->log_bytes(compiled, &bytes) != NVRTC_OK || bytes <= 1 ||
      bytes > (size_t)16 << 20)
    return NULL;
  char *log = builder_allocate(&device->builder, bytes + 1);
  if (log && device->nvrtc->log(compiled, log) == NVRTC_OK && log[strspn(log, " \n")]) return log;
  builder_free(&device->builder, log);
  return NULL;
}

/* The compiled image, allocated with the services; NULL with the problem filled in on failure. */
static void *image_take(const cuda_device *device, nvrtc_program compiled, size_t *bytes,
                        build_problem *problem) {
  const nvrtc_library *nvrtc = device->nvrtc;
  const bool exact = device->exact_architecture;
  nvrtc_result code =
      exact ? nvrtc->cubin_bytes(compiled, bytes) : nvrtc->ptx_bytes(compiled, bytes);
  if (code == NVRTC_OK && *bytes == 0) code = NVRTC_INVALID_OPTION; /* no such image */
  char *image = code == NVRTC_OK ? builder_allocate(&device->builder, *bytes + 1) : NULL;
  if (code == NVRTC_OK && !image) {
    build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a kernel's binary");
    return NULL;
  }
  if (image) code = exact ? nvrtc->cubin(compiled, image) : nvrtc->ptx(compiled, image);
  if (code == NVRTC_OK) return image;
  builder_free(&device->builder, image);
  compiler_problem(device, code, "reading what NVRTC compiled", problem);
  return NULL;
}

/* The log of a successful build is a debug message. */
static void *result_take(const cuda_device *device, nvrtc_program compiled, nvrtc_result code,
                         size_t *bytes, build_problem *problem) {
  char *log = log_take(device, compiled);
  void *image = NULL;
  if (code != NVRTC_OK) {
    compiler_problem(device, code, "nvrtcCompileProgram", problem);
    if (log) build_problem_log(problem, log);
  } else {
    if (log)
      device->services->log(device->services->host, COMPUTE_LOG_DEBUG, "cuda",
                            "the compiler reports: %s", log);
    image = image_take(device, compiled, bytes, problem);
  }
  builder_free(&device->builder, log);
  return image;
}

static void *image_compile(const cuda_device *device, const builder_program *program, size_t *bytes,
                           build_problem *problem) {
  const nvrtc_library *nvrtc = device->nvrtc;
  const char *options[MOST_OPTIONS];
  nvrtc_program compiled = NULL;
  char reason[256] = "";
  bool memory_short;
  if (!nvrtc_open(device->services, nvrtc, reason, sizeof reason, &memory_short)) {
    build_problem_set(problem,
                      memory_short ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_ERROR_UNSUPPORTED, 0,
                      NULL, "NVRTC");
    if (memory_short) return NULL;
    build_problem_log(problem, reason);
    problem->remedy = CUDA_NVRTC_REMEDY;
    return NULL;
  }
  char *text = builder_duplicate(&device->builder, program->options, strlen(program->options));
  if (!text) {
    build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a program");
    return NULL;
  }
  void *image = NULL;
  const int count = split(text, options);
  nvrtc_result code = nvrtc->create(&compiled, program->source, "kernel.cu", 0, NULL, NULL);
  if (code == NVRTC_OK) {
    code = count > 0 ? nvrtc_compile(device->services, nvrtc, compiled, count, options)
                     : NVRTC_INVALID_OPTION;
    image = result_take(device, compiled, code, bytes, problem);
    nvrtc->destroy(&compiled);
  } else {
    compiler_problem(device, code, "nvrtcCreateProgram", problem);
  }
  builder_free(&device->builder, text);
  return image;
}

/* ---- Functions for the table --------------------------------------------------------------- */

static uint32_t key_parts(void *handle, compute_cache_part parts[BUILDER_KEY_PARTS]) {
  const cuda_device *device = handle;
  const char *texts[] = {device->compiler, device->target.family, device->target.model,
                         device->exact_architecture ? "" : device->target.driver};
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    parts[count++] = (compute_cache_part){texts[i], strlen(texts[i])};
  return count;
}

/* Converts a driver code during a build to a problem. It counts as a compilation failure only if a
 * plainer kernel may avoid it. */
static void driver_problem(cuda_device *device, cuda_result code, const char *call,
                           build_problem *problem) {
  compute_status status = cuda_code_status(code);
  if (status == COMPUTE_ERROR_LAUNCH || status == COMPUTE_ERROR_INTERNAL)
    status = COMPUTE_ERROR_COMPILATION;
  cuda_notice(device, code, call);
  build_problem_set(problem, status, code, cuda_code_name(device->driver, code), call);
  problem->final = code == CUDA_INVALID_IMAGE || code == CUDA_NO_BINARY_FOR_GPU ||
                   code == CUDA_INVALID_PTX || code == CUDA_UNSUPPORTED_PTX_VERSION;
  problem->remedy = cuda_code_remedy(code);
}

static void *load(void *handle, const builder_program *program, const void *binary, size_t bytes,
                  bool *known) {
  cuda_device *device = handle;
  cuda_module module = NULL;
  const char *text = binary;
  (void)program;
  (void)known;
  /* PTX is a text; the driver reads it up to the terminating zero. */
  if (bytes < 4 || (memcmp(text, "\177ELF", 4) != 0 && text[bytes - 1] != '\0')) return NULL;
  if (!cuda_enter_to_release(device)) return NULL;
  const cuda_result code = device->driver->module_load(&module, binary);
  cuda_notice(device, code, "loading a kernel's binary");
  return code == CUDA_OK ? module : NULL;
}

static void *compile(void *handle, const builder_program *program, void **binary, size_t *bytes,
                     build_problem *problem) {
  cuda_device *device = handle;
  cuda_module module = NULL;
  if (!device->nvrtc) {
    build_problem_set(problem, COMPUTE_ERROR_UNSUPPORTED, 0, device->no_compiler, "NVRTC");
    problem->remedy = CUDA_NVRTC_REMEDY;
    return NULL;
  }
  void *image = image_compile(device, program, bytes, problem);
  if (!image) return NULL;
  const compute_status status = cuda_enter(device);
  if (status == COMPUTE_OK) {
    const cuda_result code = device->driver->module_load(&module, image);
    if (code != CUDA_OK) {
      module = NULL;
      driver_problem(device, code, "loading a kernel's binary", problem);
    }
  } else {
    build_problem_set(problem, status, 0, NULL, "entering the context");
  }
  if (module && binary)
    *binary = image;
  else
    builder_free(&device->builder, image);
  return module;
}

static void unload(void *handle, void *module) {
  cuda_device *device = handle;
  if (cuda_enter_to_release(device))
    cuda_notice(device, device->driver->module_unload(module), "unloading a program");
}

static builder_entry *entry_create(void *handle, const builder_program *program, const char *name,
                                   build_problem *problem) {
  cuda_device *device = handle;
  cuda_function function = NULL;
  int32_t threads = 0;
  const compute_status status = cuda_enter(device);
  if (status != COMPUTE_OK) {
    build_problem_set(problem, status, 0, NULL, "entering the context");
    return NULL;
  }
  const cuda_result code = device->driver->module_function(&function, program->handle, name);
  if (code != CUDA_OK) {
    driver_problem(device, code, "cuModuleGetFunction", problem);
    return NULL;
  }
  cuda_entry *entry = builder_allocate(&device->builder, sizeof *entry);
  if (!entry) {
    build_problem_set(problem, COMPUTE_ERROR_OUT_OF_MEMORY, 0, NULL, "a kernel of the program");
    return NULL;
  }
  entry->function = function;
  entry->group_limit = device->target.group_limit;
  if (device->driver->function_attribute(&threads, CUDA_FUNCTION_MAX_THREADS, function) ==
          CUDA_OK &&
      threads > 0 && (uint32_t)threads < entry->group_limit)
    entry->group_limit = (uint32_t)threads;
  return &entry->shared;
}

static void entry_destroy(void *opened, builder_entry *entry) {
  const cuda_device *device = opened;
  builder_free(&device->builder, entry);
}

bool cuda_group_fits(const cuda_device *device, const cuda_entry *entry, const uint32_t group[3]) {
  for (int i = 0; i < 3; i++)
    if (group[i] == 0 || group[i] > device->target.group_limit_of[i]) return false;
  return (uint64_t)group[0] * group[1] <= entry->group_limit &&
         (uint64_t)group[0] * group[1] * group[2] <= entry->group_limit;
}

bool cuda_grid_fits(const uint32_t groups[3]) {
  return groups[0] > 0 && groups[0] <= INT32_MAX && groups[1] > 0 && groups[1] <= UINT16_MAX &&
         groups[2] > 0 && groups[2] <= UINT16_MAX;
}

/* A kernel needs the driver's permission for local memory above the default limit. */
static cuda_result allow_local(const cuda_device *device, const cuda_entry *entry,
                               uint32_t local_bytes) {
  if (local_bytes <= device->target.local_bytes) return CUDA_OK;
  return device->driver->function_set(entry->function, CUDA_FUNCTION_MAX_DYNAMIC_SHARED_BYTES,
                                      (int32_t)local_bytes);
}

static bool launch_fits(void *handle, const compute_generated_launch *launch,
                        const builder_entry *shared, build_problem *problem) {
  const cuda_device *device = handle;
  const cuda_entry *entry = (const cuda_entry *)shared;
  char words[160];
  if (!cuda_group_fits(device, entry, launch->group))
    snprintf(words, sizeof words, "groups of %ux%ux%u items; the driver allows %u here",
             launch->group[0], launch->group[1], launch->group[2], entry->group_limit);
  else if (!cuda_grid_fits(launch->groups))
    snprintf(words, sizeof words, "%ux%ux%u groups are more than CUDA allows", launch->groups[0],
             launch->groups[1], launch->groups[2]);
  else if (allow_local(device, entry, launch->local_bytes) != CUDA_OK)
    snprintf(words, sizeof words, "%u bytes of local memory, which the driver refuses",
             launch->local_bytes);
  else
    return true;
  build_problem_set(problem, COMPUTE_ERROR_COMPILATION, 0, NULL, "the launch");
  build_problem_log(problem, words);
  return false;
}

const builder_driver cuda_builder_driver = {
    .module = "cuda",
    .title = "CUDA",
    .key_parts = key_parts,
    .load = load,
    .compile = compile,
    .unload = unload,
    .entry_create = entry_create,
    .entry_destroy = entry_destroy,
    .launch_fits = launch_fits,
};

void cuda_build_statistics(void *device, compute_build_statistics *statistics) {
  builder_count(&((cuda_device *)device)->builder, statistics);
}
