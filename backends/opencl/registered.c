/* SPDX-License-Identifier: MIT */
/* The registered drivers: can one of them have a better device than the open ones?
 *
 * Starting a driver takes up to hundreds of milliseconds, much memory, and threads. So the disk
 * cache stores each driver's offer. The entry is valid while nothing changes that may affect it:
 * the registered files, the libraries that they name, the loader's list of libraries, the variables
 * that drivers read, the device nodes with the caller's rights, and the boot. */
#include "opencl.h"
#include "core/platform/names.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where drivers register. On Windows this is no folder, so nothing is known of them. */
#define VENDORS_PLACE                                                                              \
  PLATFORM_NAME("/etc/OpenCL/vendors", "HKEY_LOCAL_MACHINE\\SOFTWARE\\Khronos\\OpenCL\\Vendors")
#define MOST_NAMES  512
#define NVIDIA_RANK 400 /* compute_device_info.priority of a GPU of this driver */

const char *opencl_vendors(const compute_services *services) {
  const char *place = services->variable(services->host, "OCL_ICD_VENDORS");
  return place ? place : VENDORS_PLACE;
}

/* ---- Lists of names ------------------------------------------------------------------------ */

/* Sorted, so that a list does not depend on a folder's order. */
typedef struct names {
  char *name[MOST_NAMES];
  size_t count;
  bool complete; /* false: there were too many, or memory ran out */
} names;

static void names_add(names *list, const char *name) {
  char *copy = list->count < MOST_NAMES ? strdup(name) : NULL;
  if (copy)
    list->name[list->count++] = copy;
  else
    list->complete = false;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_sort(names *list) {
  qsort(list->name, list->count, sizeof *list->name, compare_names);
}

static void names_release(names *list) {
  for (size_t i = 0; i < list->count; i++) free(list->name[i]);
}

typedef bool name_filter(const char *name);

/* The names in a folder that the filter accepts; none if it cannot be read. */
static names folder_names(const char *folder, name_filter *accepts) {
  names list = {.complete = true};
  DIR *open_folder = opendir(folder);
  if (!open_folder) return list;
  for (struct dirent *entry; (entry = readdir(open_folder));)
    if (accepts(entry->d_name)) names_add(&list, entry->d_name);
  closedir(open_folder);
  names_sort(&list);
  return list;
}

static bool ends_with_icd(const char *name) {
  const size_t length = strlen(name);
  return length > 4 && strcmp(name + length - 4, ".icd") == 0;
}

static bool is_visible(const char *name) {
  return name[0] != '.';
}

static bool begins_with_any(const char *name, const char *const *prefixes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return true;
  return false;
}

/* ---- Growing text -------------------------------------------------------------------------- */

/* Release `data` with `free`. */
typedef struct growing_text {
  char *data; /* NULL until the first addition */
  size_t length, capacity;
  bool failed; /* memory ran out */
} growing_text;

static void text_add(growing_text *text, const char *format, ...) COMPUTE_PRINTF(2, 3);
static void text_add(growing_text *text, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  const int length = vsnprintf(NULL, 0, format, list);
  const size_t needed = text->length + (size_t)(length < 0 ? 0 : length) + 1;
  if (needed > text->capacity) {
    char *data = realloc(text->data, 2 * needed);
    if (data) {
      text->data = data;
      text->capacity = 2 * needed;
    }
  }
  if (length < 0 || needed > text->capacity)
    text->failed = true;
  else
    text->length += (size_t)vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
  va_end(again);
  va_end(list);
}

/* ---- Registered drivers -------------------------------------------------------------------- */

/* One registered driver: its file, or "" if the variable names a library directly. */
typedef struct registered {
  char file[1024], library[512];
} registered;

/* Reads the library name in an .icd file; "" if it cannot be read. */
static void library_of(const char *file, char *library, size_t bytes) {
  library[0] = '\0';
  FILE *stream = fopen(file, "re");
  if (!stream) return;
  if (!fgets(library, (int)bytes, stream)) library[0] = '\0';
  fclose(stream);
  library[strcspn(library, "\r\n \t")] = '\0';
}

typedef void registered_visit(void *user, const registered *driver);

/* Calls `visit` for each driver. False if there are too many, or if paths are too long. */
static bool visit_drivers(const compute_services *services, registered_visit *visit, void *user) {
  const char *place = opencl_vendors(services);
  struct stat facts;
  registered driver = {"", ""};
  if (stat(place, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    if (strlen(place) >= sizeof driver.library) return false;
    if (ends_with_icd(place)) {
      snprintf(driver.file, sizeof driver.file, "%s", place);
      library_of(driver.file, driver.library, sizeof driver.library);
    } else {
      snprintf(driver.library, sizeof driver.library, "%s", place);
    }
    visit(user, &driver);
    return true;
  }
  names files = folder_names(place, ends_with_icd);
  bool complete = files.complete;
  for (size_t i = 0; i < files.count; i++) {
    const int length = snprintf(driver.file, sizeof driver.file, "%s/%s", place, files.name[i]);
    const bool fits = length > 0 && (size_t)length < sizeof driver.file;
    if (fits) {
      library_of(driver.file, driver.library, sizeof driver.library);
      visit(user, &driver);
    }
    complete &= fits;
  }
  names_release(&files);
  return complete;
}

/* ---- Priority by a driver's name ------------------------------------------------------------ */

/* Drivers that are slow to start, with the highest priority of their devices. PoCL starts LLVM and,
 * unless another driver exists, offers only the CPU. NVIDIA's driver creates a second context on
 * each GPU, which the CUDA module may already have opened. */
static const struct {
  const char *library;
  int32_t priority;
} slow_drivers[] = {{"libpocl", INT32_MIN}, {"libnvidia-opencl", NVIDIA_RANK}};

typedef struct known_rank {
  int32_t highest;
  uint32_t count;
} known_rank;

static void rank_driver(void *user, const registered *driver) {
  known_rank *known = user;
  const char *slash = path_last_separator(driver->library);
  const char *name = slash ? slash + 1 : driver->library;
  int32_t priority = INT32_MAX; /* other drivers: unknown */
  for (size_t i = 0; i < sizeof slow_drivers / sizeof *slow_drivers; i++)
    if (!strncmp(name, slow_drivers[i].library, strlen(slow_drivers[i].library)))
      priority = slow_drivers[i].priority;
  if (priority > known->highest) known->highest = priority;
  known->count++;
}

/* Khronos' loader reads this list of libraries in addition to the registered ones. */
static bool has_further_drivers(void) {
  static const char *const list[] = {"OCL_ICD_FILENAMES="};
  for (char **variable = environ; variable && *variable; variable++)
    if (begins_with_any(*variable, list, 1)) return true;
  return false;
}

/* INT32_MAX if unknown. */
static int32_t rank_by_name(const compute_services *services) {
  known_rank known = {.highest = INT32_MIN};
  if (has_further_drivers()) return INT32_MAX;
  const bool complete = visit_drivers(services, rank_driver, &known);
  return complete && known.count > 0 ? known.highest : INT32_MAX;
}

/* ---- Inputs of drivers --------------------------------------------------------------------- */

/* Writes a file's current identity. */
static void write_file(growing_text *text, const char *path) {
  struct stat facts;
  if (stat(path, &facts) != 0) {
    text_add(text, "%s -\n", path);
    return;
  }
  text_add(text, "%s %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ".%ld\n", path,
           (uint64_t)facts.st_dev, (uint64_t)facts.st_ino, (int64_t)facts.st_size,
           (int64_t)facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

static void write_driver(void *user, const registered *driver) {
  growing_text *text = user;
  text_add(text, "driver %s\n", driver->library);
  if (driver->file[0]) write_file(text, driver->file);
  if (path_separator(driver->library)) write_file(text, driver->library);
}

/* Prefixes of the environment variables that OpenCL's loaders and drivers, the libraries below them
 * and the dynamic loader read. */
static const char *const variable_prefixes[] = {
    "AMD_",    "CL_",      "CLVK_",    "CUDA_",  "DRI_",   "EGL_",   "GALLIUM_", "GGL_",
    "GPU_",    "HIP_",     "HSA_",     "IGC_",   "INTEL_", "LD_",    "LIBCLC",   "LIBGL_",
    "LLVM_",   "LP_",      "MALI_",    "MESA_",  "NEO",    "NVIDIA", "OCL_",     "ONEAPI_",
    "OPENCL_", "OVERRIDE", "PAN_",     "POCL_",  "PVR_",   "ROCR_",  "ROCM_",    "RUSTICL_",
    "RADEON",  "R600_",    "SYCL_",    "VK_",    "ZE_",    "ZINK_",  "ENABLE",   "FD_",
    "__GLX_",  "__NV_",    "XDG_DATA", "FORCE_", "Overr",  "Enable", "NEORead"};

static void write_variables(growing_text *text) {
  names list = {.complete = true};
  for (char **variable = environ; variable && *variable; variable++)
    if (begins_with_any(*variable, variable_prefixes,
                        sizeof variable_prefixes / sizeof *variable_prefixes))
      names_add(&list, *variable);
  names_sort(&list);
  for (size_t i = 0; i < list.count; i++) text_add(text, "variable %s\n", list.name[i]);
  names_release(&list);
}

static bool is_device_node(const char *name) {
  static const char *const prefixes[] = {"nvidia", "kfd",     "dxg",     "mali", "apex",
                                         "fpga",   "xclmgmt", "galcore", "pvr",  "qaic"};
  return begins_with_any(name, prefixes, sizeof prefixes / sizeof *prefixes);
}

/* Writes the nodes of a folder with this process's access rights. */
static void write_nodes(growing_text *text, const char *folder, name_filter *accepts) {
  names list = folder_names(folder, accepts);
  for (size_t i = 0; i < list.count; i++) {
    char path[512];
    struct stat facts;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, list.name[i]);
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &facts) != 0) continue;
    text_add(text, "node %s %" PRIu64 " %d\n", path, (uint64_t)facts.st_rdev,
             access(path, R_OK | W_OK) == 0);
  }
  names_release(&list);
}

/* Firmware and kernel modules may change at a boot. */
static void write_boot(growing_text *text) {
  char line[128] = "";
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!file) return;
  if (fgets(line, sizeof line, file)) text_add(text, "boot %s", line);
  fclose(file);
}

/* False if drivers may register elsewhere: in Windows' registry, or in macOS' framework. */
static bool place_is_known(const compute_services *services) {
  struct stat facts;
  return services->variable(services->host, "OCL_ICD_VENDORS") || stat(VENDORS_PLACE, &facts) == 0;
}

/* All inputs of the answer that can be read without starting a driver. Release with `free`; NULL if
 * incomplete. */
static char *circumstances(const compute_services *services, size_t *bytes) {
  growing_text words = {0}, *text = &words;
  if (!place_is_known(services)) return NULL;
  text_add(text, "opencl drivers 1\nplace %s\n", opencl_vendors(services));
  const bool complete = visit_drivers(services, write_driver, text);
  write_file(text, "/etc/ld.so.cache");
  write_variables(text);
  write_nodes(text, "/dev", is_device_node);
  write_nodes(text, "/dev/dri", is_visible);
  write_nodes(text, "/dev/accel", is_visible);
  write_boot(text);
  *bytes = words.length;
  if (!words.failed && complete) return words.data;
  free(words.data);
  return NULL;
}

/* ---- The record ---------------------------------------------------------------------------- */

/* The record's text: the priority, then each driver's library as it was loaded. */

/* Writes the loader's path of this library; the registered name often has no folder. */
static void write_loaded(void *user, const registered *driver) {
  void *handle = driver->library[0] ? dlopen(driver->library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  struct link_map *map = NULL;
  if (!handle) return;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && path_is_absolute(map->l_name))
    write_file(user, map->l_name);
  dlclose(handle);
}

static int32_t offered_rank(const opencl_instance *instance) {
  int32_t highest = INT32_MIN;
  for (uint32_t i = 0; i < instance->count; i++) {
    const opencl_place *place = &instance->places[i];
    char vendor[OPENCL_TEXT];
    if ((place->type & CL_DEVICE_TYPE_CPU) && !(place->type & CL_DEVICE_TYPE_GPU)) continue;
    opencl_text(instance->cl, place->id, CL_DEVICE_VENDOR, vendor, sizeof vendor);
    const bool nvidia = (place->type & CL_DEVICE_TYPE_GPU) && strcasestr(vendor, "NVIDIA");
    const int32_t priority = nvidia ? NVIDIA_RANK : INT32_MAX;
    if (priority > highest) highest = priority;
  }
  return highest;
}

/* A core older than the disk cache services stores nothing. */
static bool has_cache(const compute_services *services) {
  const size_t end = offsetof(compute_services, cache_store) + sizeof services->cache_store;
  return services->struct_size >= end && services->cache_load && services->cache_store;
}

/* A record without a final end of line is not ours. */
static char *record_load(const compute_services *services, const char *key, size_t key_bytes) {
  const compute_cache_part part = {key, key_bytes};
  size_t bytes = 0;
  char *text = services->cache_load(services->host, &part, 1, &bytes);
  if (!text || (bytes > 0 && text[bytes - 1] == '\n')) {
    if (text) text[bytes - 1] = '\0';
    return text;
  }
  services->release(services->host, text);
  return NULL;
}

/* `true` if every library of the record (one per line) is unchanged. */
static bool libraries_unchanged(const char *lines) {
  while (lines) {
    const size_t length = strcspn(lines, "\n"), path_bytes = strcspn(lines, " ");
    char path[1024];
    growing_text now = {0};
    if (path_bytes >= sizeof path) return false;
    snprintf(path, sizeof path, "%.*s", (int)path_bytes, lines);
    write_file(&now, path);
    const bool same = !now.failed && now.length == length + 1 && !memcmp(now.data, lines, length);
    free(now.data);
    if (!same) return false;
    lines = lines[length] ? lines + length + 1 : NULL;
  }
  return true;
}

/* INT32_MAX if unknown. */
static int32_t rank_by_record(const compute_services *services) {
  size_t bytes = 0;
  char *key = has_cache(services) ? circumstances(services, &bytes) : NULL;
  char *record = key ? record_load(services, key, bytes) : NULL;
  int32_t priority = INT32_MAX;
  free(key);
  if (!record) return INT32_MAX;
  char *end;
  const long value = strtol(record, &end, 10);
  const bool whole = end != record && (*end == '\0' || *end == '\n');
  if (whole && value >= INT32_MIN && value <= INT32_MAX &&
      libraries_unchanged(*end ? end + 1 : NULL))
    priority = (int32_t)value;
  services->release(services->host, record);
  return priority;
}

void opencl_remember(const opencl_instance *instance) {
  const compute_services *services = instance->services;
  size_t key_bytes = 0;
  growing_text record = {0};
  char *before = NULL, *key = NULL;
  if (!instance->uncertain && has_cache(services)) key = circumstances(services, &key_bytes);
  if (!key) return;
  text_add(&record, "%" PRId32 "\n", offered_rank(instance));
  visit_drivers(services, write_loaded, &record);
  if (!record.failed) {
    before = record_load(services, key, key_bytes);
    const bool same = before && strlen(before) + 1 == record.length &&
                      !memcmp(before, record.data, record.length - 1);
    const compute_cache_part part = {key, key_bytes};
    if (!same) services->cache_store(services->host, &part, 1, record.data, record.length);
  }
  if (before) services->release(services->host, before);
  free(record.data);
  free(key);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* A core older than this service has nothing open. */
static int32_t best_priority(const compute_services *services) {
  const size_t end = offsetof(compute_services, best_priority) + sizeof services->best_priority;
  return services->struct_size >= end && services->best_priority
             ? services->best_priority(services->host)
             : INT32_MIN;
}

bool opencl_can_wait(const compute_services *services) {
  const int32_t best = best_priority(services);
  return rank_by_name(services) <= best || rank_by_record(services) <= best;
}
