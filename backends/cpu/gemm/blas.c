/* SPDX-License-Identifier: MIT */
/* Opens OpenBLAS once per process and keeps its thread count at one while we are inside. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gemm.h"

/* All of the process; `mutex` guards everything. */
typedef struct cpu_blas {
  pthread_mutex_t mutex;
  int64_t references; /* devices that hold the library */
  bool present;
  void *library;
  cpu_blas_functions functions;
  char *(*get_corename)(void);
  char *(*get_config)(void);
  int (*get_threads)(void);
  void (*set_threads)(int count);
  int64_t inside; /* enters without their leave */
  int saved_threads;
  char description[160], core[48], warning[256];
} cpu_blas;

static cpu_blas process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* OpenBLAS's names of kernels by the width of their vectors, in bytes; those without
 * multiply-add count as 16. */
static const struct {
  const char *core;
  uint32_t vector_bytes;
} cores[] = {{"SkylakeX", 64}, {"Cooperlake", 64},  {"SapphireRapids", 64}, {"Haswell", 32},
             {"Zen", 32},      {"Sandybridge", 16}, {"Prescott", 16},       {"Core2", 16},
             {"Penryn", 16},   {"Nehalem", 16},     {"Dunnington", 16},     {"Athlon", 16},
             {"Opteron", 16},  {"Barcelona", 16},   {"Bobcat", 16},         {"Atom", 16},
             {"Nano", 16},     {"Bulldozer", 16},   {"Piledriver", 16},     {"Steamroller", 16},
             {"Excavator", 16}};

static uint32_t core_vector_bytes(const char *name) {
  for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
    if (strncasecmp(name, cores[i].core, strlen(cores[i].core)) == 0) return cores[i].vector_bytes;
  return 64; /* unknown: no reason to warn */
}

/* These variables belong to OpenBLAS, which reads them when it is loaded; we only report them. */
static void find_warning(cpu_blas *blas, const compute_services *services) {
  const char *core_type = services->variable(services->host, "OPENBLAS_CORETYPE");
  const char *l2_size = services->variable(services->host, "OPENBLAS_L2_SIZE");
  const cpu_isa *best = cpu_isa_select(NULL, NULL);
  blas->warning[0] = 0;
  if (core_vector_bytes(blas->core) < best->vector_bytes) {
    if (core_type && *core_type)
      snprintf(blas->warning, sizeof blas->warning,
               "OPENBLAS_CORETYPE=%.32s makes OpenBLAS use its %s kernels, although this processor "
               "has %s; unset it",
               core_type, blas->core, best->name);
    else
      snprintf(blas->warning, sizeof blas->warning,
               "OpenBLAS does not know this processor well: it uses its %s kernels, although there "
               "is %s",
               blas->core, best->name);
  } else if (l2_size && *l2_size) {
    snprintf(blas->warning, sizeof blas->warning,
             "OPENBLAS_L2_SIZE=%.32s overrides the cache size that OpenBLAS would detect; unset it",
             l2_size);
  }
}

/* "OpenBLAS 0.3.21 DYNAMIC_ARCH … Zen …" begins with the name and the version. */
static void describe(cpu_blas *blas) {
  const char *config = blas->get_config ? blas->get_config() : "";
  int words = 0;
  size_t length = 0;
  while (config[length] && words < 2) words += config[++length] == ' ' || !config[length];
  snprintf(blas->core, sizeof blas->core, "%s", blas->get_corename ? blas->get_corename() : "");
  snprintf(blas->description, sizeof blas->description, "%.*s%s%s",
           (int)(length < 64 ? length : 64), length ? config : "CBLAS library",
           blas->core[0] ? " " : "", blas->core);
}

/* dlsym hands functions over as object pointers; POSIX promises that they fit. */
static bool find(cpu_blas *blas, const char *name, void *function_pointer) {
  void *address = dlsym(blas->library, name);
  memcpy(function_pointer, &address, sizeof address);
  return address != NULL;
}

/* Fills `process` with the library, or with the reason why there is none. */
static void open_library(cpu_blas *blas, const compute_services *services) {
  const char *name = services->variable(services->host, "COMPUTE_BLAS");
  blas->present = false;
  blas->core[0] = blas->warning[0] = 0;
  if (name && strcmp(name, "none") == 0) {
    snprintf(blas->description, sizeof blas->description, "none: disabled by COMPUTE_BLAS=none");
    return;
  }
  /* NODELETE: OpenBLAS's own threads and fork handlers may outlive any reference of ours. */
  blas->library = dlopen(name ? name : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!blas->library) {
    const char *why = dlerror();
    snprintf(blas->description, sizeof blas->description, "none: %s", why ? why : "cannot load");
    return;
  }
  if (!find(blas, "cblas_sgemm", &blas->functions.sgemm) ||
      !find(blas, "cblas_dgemm", &blas->functions.dgemm)) {
    snprintf(blas->description, sizeof blas->description,
             "none: %.96s has no cblas_sgemm or cblas_dgemm", name ? name : "libopenblas.so.0");
    dlclose(blas->library);
    blas->library = NULL;
    return;
  }
  find(blas, "openblas_get_corename", &blas->get_corename);
  find(blas, "openblas_get_config", &blas->get_config);
  find(blas, "openblas_get_num_threads", &blas->get_threads);
  find(blas, "openblas_set_num_threads", &blas->set_threads);
  blas->present = true;
  describe(blas);
  find_warning(blas, services);
}

/* OpenBLAS and the OpenMP that it may be linked with obey the environment. A core before 1.5 has no
 * opinion. */
static bool is_trusted(const cpu_device *device) {
  const compute_services *services = device->services;
  const size_t needed =
      offsetof(compute_services, trusts_environment) + sizeof services->trusts_environment;
  return services->struct_size < needed || !services->trusts_environment ||
         services->trusts_environment(services->host, "cpu");
}

const cpu_blas_functions *cpu_blas_open(cpu_device *device) {
  if (!is_trusted(device)) return NULL;
  pthread_mutex_lock(&process.mutex);
  if (!device->blas) {
    if (process.references++ == 0) open_library(&process, device->services);
    device->blas = &process;
  }
  const bool present = process.present;
  pthread_mutex_unlock(&process.mutex);
  return present ? &process.functions : NULL;
}

bool cpu_blas_wanted(cpu_device *device) {
  const compute_services *services = device->services;
  const char *name = services->variable(services->host, "COMPUTE_BLAS");
  return !name || !strcmp(name, "none") || !is_trusted(device) || cpu_blas_open(device);
}

void cpu_blas_close(cpu_device *device) {
  pthread_mutex_lock(&process.mutex);
  if (device->blas && --process.references == 0) {
    if (process.library) dlclose(process.library);
    process.library = NULL;
    process.present = false;
  }
  device->blas = NULL;
  pthread_mutex_unlock(&process.mutex);
}

void cpu_blas_enter(void) {
  pthread_mutex_lock(&process.mutex);
  if (process.inside++ == 0 && process.get_threads && process.set_threads) {
    process.saved_threads = process.get_threads();
    if (process.saved_threads != 1) process.set_threads(1);
  }
  pthread_mutex_unlock(&process.mutex);
}

void cpu_blas_leave(void) {
  pthread_mutex_lock(&process.mutex);
  if (--process.inside == 0 && process.set_threads && process.saved_threads != 1)
    process.set_threads(process.saved_threads);
  pthread_mutex_unlock(&process.mutex);
}

const char *cpu_blas_describe(cpu_device *device) {
  if (!is_trusted(device))
    return "none: the program runs with raised privileges and does not name cpu in "
           "options.backends, or is linked statically";
  cpu_blas_open(device);
  return process.description;
}

const char *cpu_blas_warning(cpu_device *device) {
  if (!is_trusted(device)) return NULL;
  cpu_blas_open(device);
  return process.warning[0] ? process.warning : NULL;
}

const char *cpu_blas_core(cpu_device *device) {
  if (!is_trusted(device)) return "";
  cpu_blas_open(device);
  return process.core;
}
