#include "loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LOADER_NAME "libOpenCL.so.1"

typedef struct function_row {
  const char *name;
  size_t offset;
} function_row;

#define OPENCL_ROW(function) {#function, offsetof(opencl_library, function)},

static const function_row required[] = {OPENCL_FUNCTIONS(OPENCL_ROW)};
static const function_row optional[] = {OPENCL_OPTIONAL_FUNCTIONS(OPENCL_ROW)};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static opencl_library library;
static bool loaded;

/* dlsym hands functions over as object pointers; POSIX promises that they fit. */
static bool find(void *handle, const function_row *row) {
  void *address = dlsym(handle, row->name);
  memcpy((char *)&library + row->offset, &address, sizeof address);
  return address != NULL;
}

static bool load(char *reason, size_t reason_bytes, bool *memory_short) {
  errno = 0;
  void *handle = dlopen(LOADER_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    *memory_short = errno == ENOMEM;
    const char *words = dlerror();
    snprintf(reason, reason_bytes, "%s", words ? words : "cannot load " LOADER_NAME);
    return false;
  }
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
    if (find(handle, &required[i])) continue;
    snprintf(reason, reason_bytes, LOADER_NAME " lacks %s: it is older than OpenCL 1.2",
             required[i].name);
    dlclose(handle);
    return false;
  }
  for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) find(handle, &optional[i]);
  return true;
}

const opencl_library *opencl_load(char *reason, size_t reason_bytes, bool *memory_short) {
  *memory_short = false;
  pthread_mutex_lock(&mutex);
  if (!loaded) loaded = load(reason, reason_bytes, memory_short);
  const bool usable = loaded;
  pthread_mutex_unlock(&mutex);
  return usable ? &library : NULL;
}
