/* Programs: compiled once for each text and options, and shared by all kernels that need them.
 *
 * Where a program comes from, in this order: the table of the device, the disk cache, the compiler.
 * PoCL is special: it specialises kernels at their first launch and keeps what it made in a folder
 * of its own, so that its binaries are not worth keeping. For it the disk cache only remembers that
 * the program has been built before, in that folder, so that statistics can tell a first build from
 * one that the driver looks up.
 *
 * A text that the compiler refused is remembered as refused: asking again gives the same log
 * without compiling again. */
#include "opencl.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "program_table.h"

#define SLOW_BUILD_NANOSECONDS 1000000000u /* reported again when it ends */

static void count(uint64_t *counter, uint64_t more) {
  __atomic_add_fetch(counter, more, __ATOMIC_RELAXED);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- Disk cache ---------------------------------------------------------------------------- */

#define KEY_PARTS 11

/* Everything that can change a binary, or, for PoCL, where its own cache lies. */
static uint32_t key_parts(const opencl_device *device, const opencl_program *program,
                          compute_cache_part parts[KEY_PARTS]) {
  const compute_services *services = device->services;
  static const char *const folders[] = {"POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  const char *texts[] = {"opencl",
                         program->options,
                         device->place->platform_name,
                         device->place->platform_version,
                         device->full_name,
                         device->target.vendor,
                         device->driver_version,
                         device->device_version};
  uint32_t parts_used = 0;
  parts[parts_used++] = (compute_cache_part){program->source, program->source_bytes};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    parts[parts_used++] = (compute_cache_part){texts[i], strlen(texts[i])};
  /* The folder in use is the first one that is set, and which one it is matters. */
  for (size_t i = 0; device->place->pocl && i < sizeof folders / sizeof *folders; i++) {
    const char *folder = services->variable(services->host, folders[i]);
    if (!folder) continue;
    parts[parts_used++] = (compute_cache_part){folders[i], strlen(folders[i])};
    parts[parts_used++] = (compute_cache_part){folder, strlen(folder)};
    break;
  }
  return parts_used;
}

/* Whether PoCL's own cache holds anything. */
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

/* Whether this program was built before, so that PoCL finds it in its cache. */
static bool marker_found(const opencl_device *device, const opencl_program *program) {
  const compute_services *services = device->services;
  compute_cache_part parts[KEY_PARTS];
  size_t bytes;
  void *marker =
      services->cache_load(services->host, parts, key_parts(device, program, parts), &bytes);
  if (!marker) return false;
  services->release(services->host, marker);
  return pocl_cache_lives(device);
}

static cl_program build_binary(opencl_device *device, const opencl_program *program) {
  const compute_services *services = device->services;
  const opencl_library *cl = device->cl;
  compute_cache_part parts[KEY_PARTS];
  size_t bytes = 0;
  void *binary =
      services->cache_load(services->host, parts, key_parts(device, program, parts), &bytes);
  if (!binary) return NULL;
  const unsigned char *data = binary;
  cl_int state = CL_SUCCESS, code = CL_SUCCESS;
  cl_program built =
      cl->clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, &data, &state, &code);
  if (built && (state != CL_SUCCESS || cl->clBuildProgram(built, 1, &device->id, program->options,
                                                          NULL, NULL) != CL_SUCCESS)) {
    cl->clReleaseProgram(built);
    built = NULL;
  }
  services->release(services->host, binary);
  if (!built)
    services->log(services->host, COMPUTE_LOG_INFO, "opencl",
                  "the driver refuses a stored binary; compiling again");
  return built;
}

static void store_binary(const opencl_device *device, const opencl_program *program) {
  const compute_services *services = device->services;
  const opencl_library *cl = device->cl;
  compute_cache_part parts[KEY_PARTS];
  const uint32_t used = key_parts(device, program, parts);
  if (device->place->pocl) {
    services->cache_store(services->host, parts, used, "1", 1);
    return;
  }
  size_t bytes = 0;
  if (cl->clGetProgramInfo(program->program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
          CL_SUCCESS ||
      bytes == 0 || bytes > (size_t)1 << 30)
    return;
  unsigned char *binary = opencl_allocate(device, bytes);
  if (binary && cl->clGetProgramInfo(program->program, CL_PROGRAM_BINARIES, sizeof binary, &binary,
                                     NULL) == CL_SUCCESS)
    services->cache_store(services->host, parts, used, binary, bytes);
  opencl_release(device, binary);
}

/* ---- Compiler ------------------------------------------------------------------------------ */

/* The compiler's words, blanks at the ends cut off; "" if there are none. */
static void read_log(const opencl_device *device, cl_program program, char *log, size_t log_bytes) {
  size_t bytes = 0;
  log[0] = '\0';
  const opencl_library *cl = device->cl;
  if (cl->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) !=
          CL_SUCCESS ||
      bytes == 0 || bytes > (size_t)16 << 20)
    return;
  char *whole = opencl_allocate(device, bytes + 1);
  if (whole && cl->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, whole,
                                         NULL) == CL_SUCCESS) {
    const char *start = whole + strspn(whole, " \t\r\n");
    size_t length = strlen(start);
    while (length > 0 && strchr(" \t\r\n", start[length - 1])) length--;
    snprintf(log, log_bytes, "%.*s", (int)(length < log_bytes ? length : log_bytes), start);
  }
  opencl_release(device, whole);
}

static cl_program build_source(opencl_device *device, const opencl_program *program,
                               opencl_problem *problem) {
  const opencl_library *cl = device->cl;
  const compute_services *services = device->services;
  const char *source = program->source;
  cl_int code = CL_SUCCESS;
  problem->call = "clCreateProgramWithSource";
  cl_program built =
      cl->clCreateProgramWithSource(device->context, 1, &source, &program->source_bytes, &code);
  if (!built) {
    problem->code = code ? code : CL_OUT_OF_HOST_MEMORY;
    return NULL;
  }
  services->log(services->host, COMPUTE_LOG_INFO, "opencl",
                "compiling a program of %llu bytes for device %u",
                (unsigned long long)program->source_bytes, device->index);
  const uint64_t start = now();
  problem->call = "clBuildProgram";
  problem->code = cl->clBuildProgram(built, 1, &device->id, program->options, NULL, NULL);
  const uint64_t taken = now() - start;
  services->log(services->host,
                taken > SLOW_BUILD_NANOSECONDS ? COMPUTE_LOG_INFO : COMPUTE_LOG_DEBUG, "opencl",
                "compiled in %.3f s", (double)taken * 1e-9);
  read_log(device, built, problem->log, sizeof problem->log);
  if (problem->code == CL_SUCCESS) {
    if (problem->log[0])
      services->log(services->host, COMPUTE_LOG_DEBUG, "opencl", "the compiler says: %s",
                    problem->log);
    return built;
  }
  cl->clReleaseProgram(built);
  return NULL;
}

/* Fills in `program->program`, or leaves it NULL with the problem. */
static void build(opencl_device *device, opencl_program *program, opencl_problem *problem) {
  compute_build_statistics *statistics = &device->statistics;
  const compute_services *services = device->services;
  const size_t needed = offsetof(compute_services, cache_store) + sizeof services->cache_store;
  const bool cached =
      services->struct_size >= needed && services->cache_load && services->cache_store;
  const uint64_t start = now();
  if (cached && !device->place->pocl) program->program = build_binary(device, program);
  if (program->program) {
    count(&statistics->programs_from_disk, 1);
  } else {
    const bool marked = cached && device->place->pocl && marker_found(device, program);
    program->program = build_source(device, program, problem);
    if (program->program) {
      count(marked ? &statistics->programs_from_driver : &statistics->programs_compiled, 1);
      if (cached && !marked) store_binary(device, program);
    } else {
      count(&statistics->programs_failed, 1);
    }
  }
  count(&statistics->build_nanoseconds, now() - start);
}

/* ---- Getting a program --------------------------------------------------------------------- */

/* The compiler's verdict on the text, as opposed to a lack of something at this moment. */
static bool is_final(cl_int code) {
  return code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS;
}

static opencl_program *built_or_problem(opencl_device *device, opencl_program *program,
                                        opencl_problem *problem) {
  problem->code = program->problem.code;
  if (program->program) return program;
  problem->call = program->problem.call;
  snprintf(problem->log, sizeof problem->log, "%s", program->problem.log);
  opencl_program_release(device, program);
  return NULL;
}

opencl_program *opencl_program_get(opencl_device *device, const char *source, size_t source_bytes,
                                   const char *options, opencl_problem *problem) {
  bool fresh = false;
  *problem = (opencl_problem){.code = CL_OUT_OF_HOST_MEMORY, .call = "the table of programs"};
  opencl_program *program =
      opencl_table_take(device, source, source_bytes, options ? options : "", &fresh);
  if (!program) return NULL;
  if (!fresh) {
    if (program->program) count(&device->statistics.programs_shared, 1);
    return built_or_problem(device, program, problem);
  }
  build(device, program, &program->problem);
  opencl_table_publish(device, program,
                       program->program == NULL && !is_final(program->problem.code));
  return built_or_problem(device, program, problem);
}

void opencl_build_statistics(void *handle, compute_build_statistics *statistics) {
  const compute_build_statistics *own = &((opencl_device *)handle)->statistics;
  statistics->programs_compiled += __atomic_load_n(&own->programs_compiled, __ATOMIC_RELAXED);
  statistics->programs_from_disk += __atomic_load_n(&own->programs_from_disk, __ATOMIC_RELAXED);
  statistics->programs_from_driver += __atomic_load_n(&own->programs_from_driver, __ATOMIC_RELAXED);
  statistics->programs_shared += __atomic_load_n(&own->programs_shared, __ATOMIC_RELAXED);
  statistics->programs_failed += __atomic_load_n(&own->programs_failed, __ATOMIC_RELAXED);
  statistics->build_nanoseconds += __atomic_load_n(&own->build_nanoseconds, __ATOMIC_RELAXED);
}
