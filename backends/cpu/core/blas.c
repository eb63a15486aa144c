/* SPDX-License-Identifier: MIT */
/* Opens a private copy of OpenBLAS.
 *
 * The loader gives every user in a process the same library, and its number of threads is a setting
 * of the whole process. The program may use the library with another number. So this file opens a
 * copy of the library file in memory: to the loader, a file with another inode is another library,
 * with separate variables. RTLD_DEEPBIND keeps the copy's calls inside it, even if the program's
 * library is in the global scope. The copy is set to one thread once. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gemm/gemm.h"
#include "core/platform/names.h"

#define USUAL_NAME PLATFORM_NAME_OF("libopenblas.so.0", "libopenblas.dll", "libopenblas.0.dylib")

/* State of the whole process; `mutex` protects all of it. */
typedef struct cpu_blas {
  pthread_mutex_t mutex;
  int64_t references; /* number of devices that use the library */
  bool present;
  bool withheld; /* a library exists, but it can only be opened shared with the program */
  void *library;
  cpu_blas_functions functions;
  char *(*get_corename)(void);
  char *(*get_config)(void);
  /* Settings of the calling thread only; NULL if the library has none. */
  int (*get_local)(void);
  void (*set_local)(int count);
  int (*exchange_local)(int count);
  char description[160], core[48], warning[256];
} cpu_blas;

static cpu_blas process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- Forks --------------------------------------------------------------------------------- */

/* A fork waits until the library is open, so the child can use it. */
static void before_fork(void) {
  pthread_mutex_lock(&process.mutex);
}

static void after_fork(void) {
  pthread_mutex_unlock(&process.mutex);
}

static void watch_forks(void) {
  (void)pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- Names --------------------------------------------------------------------------------- */

/* OpenBLAS's kernel names by vector width in bytes; kernels without multiply-add count as 16. */
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

/* OpenBLAS reads these variables when it is loaded; this function only reports them. */
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

/* "OpenBLAS 0.3.21 DYNAMIC_ARCH … Zen …" starts with the name and the version. */
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

/* dlsym returns functions as object pointers; POSIX guarantees that they fit. */
static bool find(cpu_blas *blas, const char *name, void *function_pointer) {
  void *address = dlsym(blas->library, name);
  memcpy(function_pointer, &address, sizeof address);
  return address != NULL;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Input and output of the thread that opens the library. */
typedef struct opening {
  const char *name;
  void *library; /* NULL: see `problem` */
  bool withheld; /* a library exists */
  char problem[120];
} opening;

COMPUTE_PRINTF(2, 3) static void *refuse(opening *o, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(o->problem, sizeof o->problem, format, list);
  va_end(list);
  return NULL;
}

static const char *loader_words(void) {
  const char *words = dlerror();
  return words ? words : "the loader gives no reason";
}

/* The file of an open library. */
static bool find_file(void *library, char path[PATH_MAX]) {
  struct link_map *map = NULL;
  const bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map &&
                     path_is_absolute(map->l_name) && strlen(map->l_name) < PATH_MAX;
  if (known) memcpy(path, map->l_name, strlen(map->l_name) + 1);
  return known;
}

/* Returns a descriptor of a copy in memory, or -1 with errno. */
static int copy_file(const char *path) {
  struct stat facts;
  off_t offset = 0;
  const int source = open(path, O_RDONLY | O_CLOEXEC);
  if (source < 0) return -1;
  const int copy = memfd_create("libopenblas", MFD_CLOEXEC);
  bool good = copy >= 0 && fstat(source, &facts) == 0;
  while (good && offset < facts.st_size) {
    const ssize_t sent = sendfile(copy, source, &offset, (size_t)(facts.st_size - offset));
    if (sent == 0) errno = EIO; /* the file has become shorter */
    good = sent > 0;
  }
  const int problem = errno;
  close(source);
  if (!good && copy >= 0) close(copy);
  errno = problem;
  return good ? copy : -1;
}

/* Sanitizers abort a process that uses RTLD_DEEPBIND. */
static int binding(void) {
#ifdef RTLD_DEEPBIND
  return dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback") ? 0 : RTLD_DEEPBIND;
#else
  return 0;
#endif
}

/* The copy lives as long as the process, because OpenBLAS's threads and fork handlers may outlive
 * all devices. Its descriptor stays open, because the loader identifies the library by it. */
static struct {
  char path[PATH_MAX]; /* path of the original */
  void *library;       /* or NULL */
} copied;

/* Keeps this module loaded: a reloaded module would lose track of the copy. */
static void keep_module(void) {
  Dl_info self;
  if (dladdr(&copied, &self) && self.dli_fname)
    (void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static void *open_copy(opening *o, const char *path) {
  char name[64];
  if (copied.library && !strcmp(copied.path, path)) return copied.library;
  const int deep = binding();
  if (!deep && dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    return refuse(o, "the program's own OpenBLAS would serve the calls of a copy");
  const int file = copy_file(path);
  if (file < 0) return refuse(o, "it cannot be copied: %s", strerror(errno));
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | deep);
  if (!library) {
    refuse(o, "a copy cannot be opened: %s", loader_words());
    close(file);
    return NULL;
  }
  snprintf(copied.path, sizeof copied.path, "%s", path);
  copied.library = library;
  keep_module();
  return library;
}

/* Only OpenBLAS is copied. Other libraries have no process-wide setting that matters here, and some
 * consist of several files that search for each other. */
static void open_one(opening *o) {
  char path[PATH_MAX];
  void *shared = dlopen(o->name, RTLD_NOW | RTLD_LOCAL);
  if (!shared) {
    refuse(o, "%s", loader_words());
    return;
  }
  if (shared == copied.library) { /* the loader finds the copy by the library's own name */
    o->library = shared;
  } else if (!dlsym(shared, "openblas_set_num_threads")) {
    o->library = dlopen(o->name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  } else {
    o->library = find_file(shared, path) ? open_copy(o, path) : refuse(o, "its file is not known");
    o->withheld = !o->library;
  }
  dlclose(shared);
}

/* Opens the library on a separate thread. The library's threads inherit its signal mask and
 * floating-point environment, and OpenMP keeps a number of threads for each calling thread. */
static void *open_apart(void *argument) {
  opening *o = argument;
  fesetenv(FE_DFL_ENV);
  open_one(o);
  void (*set_threads)(int count) = NULL;
  void *address = o->library ? dlsym(o->library, "openblas_set_num_threads") : NULL;
  memcpy(&set_threads, &address, sizeof address);
  if (set_threads) set_threads(1);
  return NULL;
}

static void open_on_thread(opening *o) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&thread, NULL, open_apart, o);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed)
    refuse(o, "no thread can be started: %s", strerror(failed));
  else
    pthread_join(thread, NULL);
}

/* Finds the per-thread setting: OpenMP's, for a build that uses it, or MKL's. */
static void find_local_setting(cpu_blas *blas) {
  enum { OPENMP = 2 };
  int (*get_parallel)(void) = NULL;
  find(blas, "openblas_get_parallel", &get_parallel);
  blas->get_local = NULL;
  blas->set_local = NULL;
  blas->exchange_local = NULL;
  if (get_parallel && get_parallel() == OPENMP &&
      find(blas, "omp_get_max_threads", &blas->get_local))
    find(blas, "omp_set_num_threads", &blas->set_local);
  else
    find(blas, "MKL_Set_Num_Threads_Local", &blas->exchange_local);
}

/* Fills `process` with the library, or with the reason why there is none. */
static void open_library(cpu_blas *blas, const compute_services *services) {
  const char *name = services->variable(services->host, "COMPUTE_BLAS");
  opening o = {.name = name ? name : USUAL_NAME};
  blas->present = blas->withheld = false;
  blas->core[0] = blas->warning[0] = 0;
  if (name && strcmp(name, "none") == 0) {
    snprintf(blas->description, sizeof blas->description, "none: disabled by COMPUTE_BLAS=none");
    return;
  }
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  open_on_thread(&o);
  blas->library = o.library;
  blas->withheld = o.withheld;
  if (!blas->library) {
    if (!name && strstr(o.problem, "No such file")) { /* it is optional */
      snprintf(blas->description, sizeof blas->description, "own kernels (no OpenBLAS)");
      return;
    }
    const bool named = strstr(o.problem, o.name) != NULL; /* the loader's message already starts
                                                           * with the name */
    snprintf(blas->description, sizeof blas->description, "none: %s%s%s", named ? "" : o.name,
             named ? "" : ": ", o.problem);
    return;
  }
  if (!find(blas, "cblas_sgemm", &blas->functions.sgemm) ||
      !find(blas, "cblas_dgemm", &blas->functions.dgemm)) {
    snprintf(blas->description, sizeof blas->description,
             "none: %.96s has no cblas_sgemm or cblas_dgemm", o.name);
    if (blas->library != copied.library) dlclose(blas->library);
    blas->library = NULL;
    return;
  }
  find(blas, "openblas_get_corename", &blas->get_corename);
  find(blas, "openblas_get_config", &blas->get_config);
  find_local_setting(blas);
  blas->present = true;
  describe(blas);
  find_warning(blas, services);
}

/* OpenBLAS, and OpenMP if linked, obey environment variables, so the core must trust the
 * environment. A core before 1.5 does not check it. */
static bool is_trusted(const cpu_device *device) {
  const compute_services *services = device->services;
  const size_t needed =
      offsetof(compute_services, trusts_environment) + sizeof services->trusts_environment;
  return services->struct_size < needed || !services->trusts_environment ||
         services->trusts_environment(services->host, "cpu");
}

bool cpu_blas_is_used(const cpu_device *device) {
  const compute_services *services = device->services;
  if (device->isa->portable) return false; /* a library's bits are the machine's */
  return services->variable(services->host, "COMPUTE_BLAS") != NULL;
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
  return !name || !strcmp(name, "none") || !is_trusted(device) || cpu_blas_open(device) ||
         process.withheld;
}

void cpu_blas_close(cpu_device *device) {
  pthread_mutex_lock(&process.mutex);
  if (device->blas && --process.references == 0) {
    if (process.library && process.library != copied.library) dlclose(process.library);
    process.library = NULL;
    process.present = false;
  }
  device->blas = NULL;
  pthread_mutex_unlock(&process.mutex);
}

int cpu_blas_enter(void) {
  if (process.exchange_local) return process.exchange_local(1);
  if (!process.set_local) return 0;
  const int before = process.get_local();
  if (before != 1) process.set_local(1);
  return before;
}

void cpu_blas_leave(int before) {
  if (process.exchange_local)
    (void)process.exchange_local(before);
  else if (process.set_local && before != 1)
    process.set_local(before);
}

const char *cpu_blas_describe(cpu_device *device) {
  if (!is_trusted(device))
    return "none: the program runs with raised privileges and does not name cpu in "
           "options.backends, or is linked statically";
  if (!cpu_blas_is_used(device)) return "own kernels";
  cpu_blas_open(device);
  return process.description;
}

const char *cpu_blas_warning(cpu_device *device) {
  if (!is_trusted(device) || !cpu_blas_is_used(device)) return NULL;
  cpu_blas_open(device);
  return process.warning[0] ? process.warning : NULL;
}

const char *cpu_blas_core(cpu_device *device) {
  if (!is_trusted(device)) return "";
  cpu_blas_open(device);
  return process.core;
}
