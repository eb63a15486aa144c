/* SPDX-License-Identifier: MIT */
/* Vendor libraries. They are opened at a kernel's first request and never closed, because their
 * threads and handlers may outlive the device. An unusable library is not an error: it is logged
 * once per device, and the reason is kept for users who force it by the tuning parameters. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/loading.h"
#include "cuda.h"

static const cuda_library_kind *const kinds[CUDA_LIBRARIES] = {&cublas_kind, &cudnn_kind,
                                                               &nccl_kind};

typedef enum load_state { ABSENT, LOADED } load_state;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static load_state states[CUDA_LIBRARIES][CUDA_LIBRARY_NAMES];

static void *functions_of(const cuda_library_kind *kind, uint32_t name) {
  return (char *)kind->functions + name * kind->function_bytes;
}

/* ---- Process-wide state -------------------------------------------------------------------- */

static bool find_all(const cuda_library_kind *kind, uint32_t name, void *handle, char *reason,
                     size_t reason_bytes) {
  const char *missing = library_find(handle, functions_of(kind, name), kind->rows, kind->row_count);
  if (missing) snprintf(reason, reason_bytes, "%s lacks %s", kind->names[name], missing);
  return !missing;
}

static load_state load(const cuda_library_kind *kind, uint32_t name, char *reason,
                       size_t reason_bytes) {
  errno = 0;
  void *handle = dlopen(kind->names[name], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    if (errno == ENOMEM)
      snprintf(reason, reason_bytes, "not enough host memory to load %s", kind->names[name]);
    return ABSENT;
  }
  return find_all(kind, name, handle, reason, reason_bytes) ? LOADED : ABSENT;
}

/* ---- State of a device --------------------------------------------------------------------- */

/* `true` if COMPUTE_CUDA_LIBRARIES permits this library. */
static bool is_wanted(const cuda_device *device, const cuda_library_kind *kind) {
  const compute_services *services = device->services;
  const char *wanted = services->variable(services->host, "COMPUTE_CUDA_LIBRARIES");
  const size_t length = strlen(kind->choice);
  if (!wanted) return true;
  for (const char *at = wanted; (at = strstr(at, kind->choice)) != NULL; at += length)
    if ((at == wanted || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return true;
  return false;
}

/* Starts one version on the device. */
static void start(cuda_device *device, const cuda_library_kind *kind, uint32_t name,
                  cuda_library *library, char *reason, size_t reason_bytes) {
  const void *functions = functions_of(kind, name);
  const size_t version = kind->version(functions);
  if (version < kind->oldest) {
    snprintf(reason, reason_bytes, "%s has the version %zu; %zu is needed", kind->names[name],
             version, kind->oldest);
    return;
  }
  const int32_t code = kind->create(functions, &library->handle);
  if (code != 0 || !library->handle) {
    library->handle = NULL;
    snprintf(reason, reason_bytes,
             "%s %zu.%zu does not start with this driver (%s), its code is %d", kind->title,
             version / 10000, version / 100 % 100, device->target.driver, code);
    return;
  }
  library->functions = functions;
  library->version = version;
  snprintf(library->name, sizeof library->name, "%s %zu.%zu.%zu", kind->title, version / 10000,
           version / 100 % 100, version % 100);
}

/* Tries the versions. Returns true if one is installed, even if it does not start. The reason comes
 * from the newest installed version. */
static bool start_any(cuda_device *device, cuda_library_id id, cuda_library *library) {
  const cuda_library_kind *kind = kinds[id];
  bool present = false;
  snprintf(library->reason, sizeof library->reason, "%s cannot be loaded", kind->names[0]);
  for (uint32_t i = 0; i < CUDA_LIBRARY_NAMES && kind->names[i] && !library->handle; i++) {
    char reason[sizeof library->reason] = "";
    load_state *state = &states[id][i];
    if (*state != LOADED) *state = load(kind, i, reason, sizeof reason);
    if (*state == LOADED) start(device, kind, i, library, reason, sizeof reason);
    if (!present && reason[0]) memcpy(library->reason, reason, sizeof reason);
    present |= *state == LOADED;
  }
  return present;
}

static void try_once(cuda_device *device, cuda_library_id id, cuda_library *library) {
  const cuda_library_kind *kind = kinds[id];
  const compute_services *services = device->services;
  bool present = false;
  library->tried = true;
  if (is_wanted(device, kind))
    present = start_any(device, id, library);
  else
    snprintf(library->reason, sizeof library->reason, "COMPUTE_CUDA_LIBRARIES excludes %s",
             kind->title);
  if (library->handle)
    services->log(services->host, COMPUTE_LOG_INFO, "cuda", "cuda:%u uses %s", device->index,
                  library->name);
  else /* a warning only if a user would expect the library to be in use */
    services->log(services->host, present ? COMPUTE_LOG_WARNING : COMPUTE_LOG_INFO, "cuda",
                  "cuda:%u continues without %s: %s", device->index, kind->title, library->reason);
}

const cuda_library *cuda_library_open(cuda_device *device, cuda_library_id id) {
  cuda_library *library = &device->libraries[id];
  loading_begin(device->services);
  pthread_mutex_lock(&mutex);
  if (!library->tried) try_once(device, id, library);
  const bool usable = library->handle != NULL;
  pthread_mutex_unlock(&mutex);
  loading_end(device->services);
  return usable ? library : NULL;
}

const char *cuda_library_title(cuda_library_id id) {
  return kinds[id]->title;
}

/* The libraries' codes hide the driver's code. */
compute_status cuda_library_fail(cuda_device *device, compute_status status, int64_t code,
                                 const char *remedy, const char *format, ...) {
  char words[256];
  size_t available, total;
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  const compute_status entered = cuda_enter(device);
  if (entered != COMPUTE_OK) return entered;
  const cuda_result driver_code = device->driver->memory_info(&available, &total);
  if (cuda_is_fatal(driver_code)) return cuda_fail(device, driver_code, "%s", words);
  device->services->log(device->services->host, COMPUTE_LOG_INFO, "cuda", "%s", words);
  return device->services->fail(device->services->host, status, code, remedy, "%s", words);
}

void cuda_libraries_close(cuda_device *device) {
  for (int i = 0; i < CUDA_LIBRARIES; i++) {
    cuda_library *library = &device->libraries[i];
    if (!library->handle || !cuda_enter_to_release(device)) continue;
    kinds[i]->destroy(library->functions, library->handle);
    library->handle = NULL;
  }
}
