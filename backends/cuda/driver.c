/* SPDX-License-Identifier: MIT */
#include "driver.h"
#include "core/platform/names.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_NAME    PLATFORM_NAME("libcuda.so.1", "nvcuda.dll")
#define OLDEST_VERSION 11030 /* the first version with cuGetProcAddress */

typedef struct function_row {
  const char *name;
  size_t offset;
  int32_t version;
} function_row;

#define CUDA_ROW(member, symbol, version, parameters)                                              \
  {#symbol, offsetof(cuda_driver, member), version},

static const function_row required[] = {CUDA_FUNCTIONS(CUDA_ROW)};
static const function_row optional[] = {CUDA_OPTIONAL_FUNCTIONS(CUDA_ROW)};

/* cuGetProcAddress in its two forms: the second also reports why it found nothing. */
typedef cuda_result (*finder)(const char *symbol, void **address, int version, uint64_t flags);
typedef cuda_result (*finder_with_status)(const char *symbol, void **address, int version,
                                          uint64_t flags, int *status);

typedef struct lookup {
  void *library;
  finder find;
  finder_with_status find_with_status;
} lookup;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static cuda_driver driver;
static pid_t started; /* the process where cuInit succeeded, or 0 */
static bool loaded;

static void symbol_of(void *library, const char *name, void *function, size_t bytes) {
  void *address = dlsym(library, name);
  memcpy(function, &address, bytes); /* ISO C has no cast from object to function pointers */
}

/* The toolkit's stub library answers every call, including this one, with CUDA_STUB_LIBRARY. */
static cuda_result find(const lookup *l, const function_row *row) {
  void *address = NULL;
  int status = 0;
  cuda_result code = l->find_with_status
                         ? l->find_with_status(row->name, &address, row->version, 0, &status)
                         : l->find(row->name, &address, row->version, 0);
  if (code == CUDA_OK && !address) code = CUDA_NOT_FOUND;
  if (code != CUDA_OK) address = NULL;
  memcpy((char *)&driver + row->offset, &address, sizeof address);
  return code;
}

/* Finds cuGetProcAddress; drivers before CUDA 11.3 lack it. */
static bool open_lookup(lookup *l, int32_t *code, char *reason, size_t reason_bytes) {
  errno = 0;
  l->library = dlopen(DRIVER_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!l->library) {
    if (errno == ENOMEM) *code = CUDA_HOST_MEMORY_SHORT;
    const char *words = dlerror();
    snprintf(reason, reason_bytes, "%s", words ? words : "cannot load " DRIVER_NAME);
    return false;
  }
  symbol_of(l->library, "cuGetProcAddress_v2", &l->find_with_status, sizeof l->find_with_status);
  symbol_of(l->library, "cuGetProcAddress", &l->find, sizeof l->find);
  if (l->find_with_status || l->find) return true;
  snprintf(reason, reason_bytes,
           DRIVER_NAME " has no cuGetProcAddress: the driver is older than CUDA 11.3");
  return false;
}

static bool find_all(int32_t *code, char *reason, size_t reason_bytes) {
  lookup l = {0};
  if (!open_lookup(&l, code, reason, reason_bytes)) return false;
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
    const cuda_result found = find(&l, &required[i]);
    if (found == CUDA_OK) continue;
    if (found == CUDA_STUB_LIBRARY) *code = found;
    snprintf(reason, reason_bytes, DRIVER_NAME " lacks %s", required[i].name);
    return false;
  }
  for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) find(&l, &optional[i]);
  return true;
}

static bool load(int32_t *code, char *reason, size_t reason_bytes) {
  if (!find_all(code, reason, reason_bytes)) return false;
  *code = driver.init(0);
  if (*code == CUDA_OK) started = getpid();
  if (*code == CUDA_OK) *code = driver.driver_version(&driver.version);
  if (*code != CUDA_OK) {
    const char *name = NULL;
    if (driver.error_name(*code, &name) != CUDA_OK || !name) name = "unknown code";
    snprintf(reason, reason_bytes, "cuInit failed: %s (%d)", name, *code);
    return false;
  }
  if (driver.version >= OLDEST_VERSION) return true;
  snprintf(reason, reason_bytes, "the driver is for CUDA %d.%d; 11.3 or newer is needed",
           driver.version / 1000, driver.version % 1000 / 10);
  return false;
}

const cuda_driver *cuda_driver_load(int32_t *code, char *reason, size_t reason_bytes) {
  pthread_mutex_lock(&mutex);
  *code = CUDA_OK;
  const bool forked = started != 0 && started != getpid();
  if (forked) {
    *code = CUDA_NOT_INITIALIZED;
    snprintf(reason, reason_bytes,
             "the parent process has started CUDA, which does not survive fork");
  } else if (!loaded) {
    loaded = load(code, reason, reason_bytes);
  }
  const bool usable = loaded && !forked;
  pthread_mutex_unlock(&mutex);
  return usable ? &driver : NULL;
}
