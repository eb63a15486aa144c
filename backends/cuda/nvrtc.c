#include "nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Newest first. The toolkit's folder is where its own installer puts the library without telling
 * the loader. */
static const char *const names[][2] = {
    {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"},
    {"libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"},
};

enum { VERSIONS = sizeof names / sizeof *names };

typedef struct function_row {
  const char *name;
  size_t offset;
} function_row;

#define NVRTC_ROW(member, symbol, type, parameters) {#symbol, offsetof(nvrtc_library, member)},

static const function_row rows[] = {NVRTC_FUNCTIONS(NVRTC_ROW)};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static nvrtc_library libraries[VERSIONS];
static bool loaded[VERSIONS];

static bool find_all(void *handle, nvrtc_library *library, char *reason, size_t reason_bytes) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    void *address = dlsym(handle, rows[i].name);
    memcpy((char *)library + rows[i].offset, &address, sizeof address);
    if (address) continue;
    snprintf(reason, reason_bytes, "NVRTC lacks %s", rows[i].name);
    return false;
  }
  return true;
}

static bool ask(nvrtc_library *library, char *reason, size_t reason_bytes) {
  int count = 0;
  const int room = (int)(sizeof library->arch / sizeof *library->arch);
  if (library->version(&library->major, &library->minor) == NVRTC_OK &&
      library->arch_count(&count) == NVRTC_OK && count > 0 && count <= room &&
      library->archs(library->arch) == NVRTC_OK) {
    library->arch_total = count;
    return true;
  }
  snprintf(reason, reason_bytes, "NVRTC does not say which GPUs it knows");
  return false;
}

static bool load(int version, char *reason, size_t reason_bytes) {
  for (size_t i = 0; i < sizeof names[version] / sizeof *names[version]; i++) {
    void *handle = dlopen(names[version][i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle && find_all(handle, &libraries[version], reason, reason_bytes) &&
        ask(&libraries[version], reason, reason_bytes))
      return true;
  }
  return false;
}

int nvrtc_architecture(const nvrtc_library *nvrtc, int32_t capability, bool *exact) {
  int base = 0; /* the newest virtual architecture that is not newer than the GPU */
  for (int i = 0; i < nvrtc->arch_total; i++)
    if (nvrtc->arch[i] <= capability && nvrtc->arch[i] > base) base = nvrtc->arch[i];
  *exact = base == capability;
  return base;
}

/* How well a version serves: binaries for just this GPU are best, and those of a compiler that is
 * no newer than the driver, because a driver need not read what came after it. 0: not at all. */
static int suitability(const nvrtc_library *nvrtc, int32_t capability, int32_t driver_version) {
  bool exact;
  if (nvrtc_architecture(nvrtc, capability, &exact) == 0) return 0;
  const bool readable = nvrtc->major <= driver_version / 1000;
  return 1 + (exact ? 1 : 0) + (readable ? 2 : 0);
}

const nvrtc_library *nvrtc_load(int32_t capability, int32_t driver_version, char *reason,
                                size_t reason_bytes) {
  const nvrtc_library *best = NULL;
  int best_suitability = 0;
  snprintf(reason, reason_bytes, "neither libnvrtc.so.13 nor libnvrtc.so.12 can be loaded");
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < VERSIONS; i++) {
    if (!loaded[i]) loaded[i] = load(i, reason, reason_bytes);
    if (!loaded[i]) continue;
    const int suits = suitability(&libraries[i], capability, driver_version);
    if (suits == 0)
      snprintf(reason, reason_bytes, "NVRTC %d.%d no longer knows GPUs of compute capability %d.%d",
               libraries[i].major, libraries[i].minor, capability / 10, capability % 10);
    if (suits <= best_suitability) continue;
    best = &libraries[i];
    best_suitability = suits;
  }
  pthread_mutex_unlock(&mutex);
  return best;
}
