/* SPDX-License-Identifier: MIT */
/* NVRTC: finds it, stores the findings in the disk cache, and opens it. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/builder.h"
#include "common/loading.h"
#include "driver.h"
#include "core/platform/names.h"

/* Newest first. The toolkit's installer puts the library into this folder and does not register it
 * with the loader. */
static const char *const names[][2] = {
    {PLATFORM_NAME("libnvrtc.so.13", "nvrtc64_130_0.dll"), "/usr/local/cuda/lib64/libnvrtc.so.13"},
    {PLATFORM_NAME("libnvrtc.so.12", "nvrtc64_120_0.dll"), "/usr/local/cuda/lib64/libnvrtc.so.12"},
};

enum { VERSIONS = sizeof names / sizeof *names, PATH_BYTES = 512 };

#define NVRTC_ROW(member, symbol, type, parameters) {#symbol, offsetof(nvrtc_library, member)},

static const library_row rows[] = {NVRTC_FUNCTIONS(NVRTC_ROW)};

/* A cached record: the library's properties, and its file's identity to detect a replacement. */
typedef struct record {
  char path[PATH_BYTES];
  int64_t bytes, changed_seconds, changed_nanoseconds;
  uint64_t device, number;
  int32_t major, minor, arch_total, arch[64];
} record;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static nvrtc_library libraries[VERSIONS];
static char paths[VERSIONS][PATH_BYTES];
static bool known[VERSIONS], opened[VERSIONS];

/* ---- Opening ------------------------------------------------------------------------------- */

static bool find_all(void *handle, nvrtc_library *library, char *reason, size_t reason_bytes) {
  const char *missing = library_find(handle, library, rows, sizeof rows / sizeof *rows);
  if (missing) snprintf(reason, reason_bytes, "NVRTC has no %s", missing);
  return !missing;
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
  snprintf(reason, reason_bytes, "NVRTC does not report which GPUs it supports");
  return false;
}

/* Sets *memory_short only if that was the reason. */
static void *open_file(const char *name, bool *memory_short) {
  errno = 0;
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle && errno == ENOMEM) *memory_short = true;
  return handle;
}

static bool load(int version, char *reason, size_t reason_bytes, bool *memory_short) {
  for (size_t i = 0; i < sizeof names[version] / sizeof *names[version]; i++) {
    void *handle = open_file(names[version][i], memory_short);
    struct link_map *map = NULL;
    if (!handle || !find_all(handle, &libraries[version], reason, reason_bytes) ||
        !ask(&libraries[version], reason, reason_bytes))
      continue;
    opened[version] = true;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && strlen(map->l_name) < PATH_BYTES)
      memcpy(paths[version], map->l_name, strlen(map->l_name) + 1);
    return true;
  }
  return false;
}

bool nvrtc_open(const compute_services *services, const nvrtc_library *nvrtc, char *reason,
                size_t reason_bytes, bool *memory_short) {
  *memory_short = false;
  const int version = (int)(nvrtc - libraries);
  loading_begin(services);
  pthread_mutex_lock(&mutex);
  if (!opened[version]) {
    void *handle = open_file(paths[version], memory_short);
    const char *words = handle ? NULL : dlerror();
    if (!handle)
      snprintf(reason, reason_bytes, "%s", words ? words : paths[version]);
    else
      opened[version] = find_all(handle, &libraries[version], reason, reason_bytes);
  }
  const bool usable = opened[version];
  pthread_mutex_unlock(&mutex);
  loading_end(services);
  return usable;
}

/* The first compilation loads the library's second file. */
nvrtc_result nvrtc_compile(const compute_services *services, const nvrtc_library *nvrtc,
                           nvrtc_program program, int count, const char *const *options) {
  static atomic_bool complete[VERSIONS];
  const int version = (int)(nvrtc - libraries);
  if (atomic_load(&complete[version])) return nvrtc->compile(program, count, options);
  loading_begin(services);
  const nvrtc_result code = nvrtc->compile(program, count, options);
  loading_end(services);
  if (code == NVRTC_OK) atomic_store(&complete[version], true);
  return code;
}

/* ---- Cached records ------------------------------------------------------------------------ */

/* The loader's search path is part of the key: another folder may have another version. */
static uint32_t key_of(const compute_services *services, int version, compute_cache_part key[3]) {
  const char *folders = services->variable(services->host, "LD_LIBRARY_PATH");
  if (!folders) folders = "";
  key[0] = (compute_cache_part){"which NVRTC", 11};
  key[1] = (compute_cache_part){names[version][0], strlen(names[version][0])};
  key[2] = (compute_cache_part){folders, strlen(folders)};
  return 3;
}

static bool has_cache(const compute_services *services) {
  return services->struct_size >=
             offsetof(compute_services, cache_store) + sizeof services->cache_store &&
         services->cache_load && services->cache_store;
}

/* The file's current identity; false if there is none. */
static bool describe_file(const char *path, record *r) {
  struct stat file;
  if (!path_is_absolute(path) || stat(path, &file) != 0) return false;
  snprintf(r->path, sizeof r->path, "%s", path);
  r->bytes = (int64_t)file.st_size;
  r->changed_seconds = (int64_t)file.st_mtim.tv_sec;
  r->changed_nanoseconds = (int64_t)file.st_mtim.tv_nsec;
  r->device = (uint64_t)file.st_dev;
  r->number = (uint64_t)file.st_ino;
  return true;
}

static void remember(const compute_services *services, int version) {
  const nvrtc_library *library = &libraries[version];
  compute_cache_part key[3];
  record r;
  memset(&r, 0, sizeof r); /* every byte of it is stored */
  if (!has_cache(services) || !describe_file(paths[version], &r)) return;
  r.major = library->major;
  r.minor = library->minor;
  r.arch_total = library->arch_total;
  memcpy(r.arch, library->arch, sizeof r.arch);
  services->cache_store(services->host, key, key_of(services, version, key), &r, sizeof r);
}

static bool recall(const compute_services *services, int version) {
  compute_cache_part key[3];
  record now;
  size_t bytes = 0;
  if (!has_cache(services)) return false;
  record *r = services->cache_load(services->host, key, key_of(services, version, key), &bytes);
  bool same = r && bytes == sizeof *r && memchr(r->path, 0, sizeof r->path) && r->arch_total > 0 &&
              r->arch_total <= 64 && describe_file(r->path, &now);
  same = same && now.bytes == r->bytes && now.changed_seconds == r->changed_seconds &&
         now.changed_nanoseconds == r->changed_nanoseconds && now.device == r->device &&
         now.number == r->number;
  if (same) {
    libraries[version].major = r->major;
    libraries[version].minor = r->minor;
    libraries[version].arch_total = r->arch_total;
    memcpy(libraries[version].arch, r->arch, sizeof r->arch);
    memcpy(paths[version], r->path, sizeof r->path);
  }
  if (r) services->release(services->host, r);
  return same;
}

/* ---- Choosing ------------------------------------------------------------------------------ */

int nvrtc_architecture(const nvrtc_library *nvrtc, int32_t capability, bool *exact) {
  int base = 0; /* the newest virtual architecture up to the GPU's */
  for (int i = 0; i < nvrtc->arch_total; i++)
    if (nvrtc->arch[i] <= capability && nvrtc->arch[i] > base) base = nvrtc->arch[i];
  *exact = base == capability;
  return base;
}

/* Rank of a version; 0: unusable. Binaries for exactly this GPU are best. A compiler that is no
 * newer than the driver is better, because a driver need not read newer formats. */
static int suitability(const nvrtc_library *nvrtc, int32_t capability, int32_t driver_version) {
  bool exact;
  if (nvrtc_architecture(nvrtc, capability, &exact) == 0) return 0;
  const bool readable = nvrtc->major <= driver_version / 1000;
  return 1 + (exact ? 1 : 0) + (readable ? 2 : 0);
}

const nvrtc_library *nvrtc_find(const compute_services *services, int32_t capability,
                                int32_t driver_version, char *reason, size_t reason_bytes,
                                bool *memory_short) {
  const nvrtc_library *best = NULL;
  int best_suitability = 0;
  *memory_short = false;
  snprintf(reason, reason_bytes, "neither libnvrtc.so.13 nor libnvrtc.so.12 can be loaded");
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < VERSIONS; i++) {
    if (!known[i]) known[i] = recall(services, i);
    if (!known[i]) {
      known[i] = load(i, reason, reason_bytes, memory_short);
      if (known[i]) remember(services, i);
    }
    if (!known[i]) continue;
    const int suits = suitability(&libraries[i], capability, driver_version);
    if (suits == 0)
      snprintf(reason, reason_bytes,
               "NVRTC %d.%d no longer supports GPUs of compute capability %d.%d",
               libraries[i].major, libraries[i].minor, capability / 10, capability % 10);
    if (suits <= best_suitability) continue;
    best = &libraries[i];
    best_suitability = suits;
  }
  pthread_mutex_unlock(&mutex);
  /* Another version might serve, but the choice must not depend on free memory. */
  return *memory_short ? NULL : best;
}
