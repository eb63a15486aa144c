/* SPDX-License-Identifier: MIT */
/* Names of backends and devices, and the search for backend modules. The search order is: the
 * folders from the options, the folders from COMPUTE_BACKEND_PATH, the folder "compute" beside
 * libcompute.so, and the installation folder. The first working file for a backend wins.
 * libcompute.a contains the CPU backend, which comes after the folders from the options and the
 * environment.
 *
 * Only absolute folders count. A relative folder depends on the current directory, where an
 * attacker may have put a module. */
#include "core/device/registry.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/variable.h"
#include "core/platform/library.h"
#include "core/platform/names.h"
#include "core/platform/privilege.h"

#define FILE_PREFIX "libcompute-"
#define FILE_SUFFIX PLATFORM_MODULE_SUFFIX

typedef struct module_finder {
  compute_context *context;
  size_t capacity;                        /* capacity of context->modules */
  const char *chosen;                     /* "cpu,cuda", or NULL for all */
  const char *chosen_by;                  /* the source of `chosen`, for messages */
  const char *asked;                      /* options.backends, or NULL */
  char asked_device[NAMES_BACKEND_BYTES]; /* the backend in options.device, or "" */
  struct stat folders[64];                /* folders searched so far */
  size_t folder_count;
} module_finder;

static compute_status out_of_memory(compute_context *context) {
  return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_open",
                   "out of memory while looking for backend modules");
}

/* Extracts the backend's name from a file name such as "libcompute-cuda.so". Returns false for
 * other names. */
static bool file_backend(const char *file, char *name, size_t name_bytes) {
  size_t length = strlen(file), prefix = strlen(FILE_PREFIX), suffix = strlen(FILE_SUFFIX);
  if (length <= prefix + suffix || length - prefix - suffix >= name_bytes) return false;
  if (strncmp(file, FILE_PREFIX, prefix) != 0) return false;
  if (strcmp(file + length - suffix, FILE_SUFFIX) != 0) return false;
  memcpy(name, file + prefix, length - prefix - suffix);
  name[length - prefix - suffix] = '\0';
  return names_backend_is_valid(name);
}

/* `true` if the program itself names the backend. The environment does not count. */
static bool is_asked_for(const module_finder *finder, const char *name) {
  const char *list = finder->asked;
  return (list && *list && names_list_contains(list, name)) ||
         strcmp(finder->asked_device, name) == 0;
}

/* Adds a candidate module, and takes ownership of `path`. A NULL path means out of memory. */
static compute_status candidate_add(module_finder *finder, char *path, const char *name,
                                    compute_backend_entry_function entry) {
  compute_context *context = finder->context;
  void *modules = context->modules;
  int grown =
      base_grow(&modules, &finder->capacity, context->module_count + 1, sizeof *context->modules);
  context->modules = modules;
  if (grown != 0) {
    base_release(path);
    return out_of_memory(context);
  }
  device_module *module = &context->modules[context->module_count];
  *module =
      (device_module){.probe = {.detail = "", .remedy = "", .version = ""}, .built_in = entry};
  context->module_count++;
  module->probe.path = path;
  module->probe.name = base_duplicate(name);
  if (!module->probe.path || !module->probe.name) return out_of_memory(context);
  module->asked = is_asked_for(finder, name);
  if (names_list_contains(finder->chosen, name)) return COMPUTE_OK;
  char detail[160];
  snprintf(detail, sizeof detail, "not among the backends chosen by %s: %.80s", finder->chosen_by,
           finder->chosen);
  return module_probe_set(context, module, COMPUTE_PROBE_DISABLED, detail, NULL);
}

static compute_status file_add(module_finder *finder, const char *folder, const char *file,
                               const char *name) {
  size_t path_bytes = strlen(folder) + strlen(file) + 2;
  char *path = base_allocate(path_bytes, 1);
  if (path) snprintf(path, path_bytes, "%s/%s", folder, file);
  return candidate_add(finder, path, name, NULL);
}

/* The same folder often comes from two sources; its files must be candidates only once. */
static bool folder_is_new(module_finder *finder, const struct stat *folder) {
  for (size_t i = 0; i < finder->folder_count; i++) {
    const struct stat *seen = &finder->folders[i];
    if (seen->st_dev == folder->st_dev && seen->st_ino == folder->st_ino) return false;
  }
  if (finder->folder_count < sizeof finder->folders / sizeof *finder->folders) {
    finder->folders[finder->folder_count++] = *folder;
  }
  return true;
}

/* Makes the order of candidates independent of the directory order. */
static void candidates_sort(device_module *modules, size_t count) {
  for (size_t i = 1; i < count; i++) {
    for (size_t j = i; j > 0 && strcmp(modules[j].probe.name, modules[j - 1].probe.name) < 0; j--) {
      device_module swap = modules[j];
      modules[j] = modules[j - 1];
      modules[j - 1] = swap;
    }
  }
}

/* A folder that cannot be read is skipped. Its message is stored in case no device is found; only
 * the first one, because later folders often fail for the same reason. Out of memory is an error,
 * because the folder's content is then unknown. */
static compute_status folder_failed(module_finder *finder, const char *folder, const char *source,
                                    int problem) {
  if (problem == ENOMEM) return out_of_memory(finder->context);
  char *words = finder->context->search_problem;
  if (problem != ENOENT && !words[0]) {
    snprintf(words, sizeof finder->context->search_problem, "folder '%.100s' cannot be read: %s",
             folder, strerror(problem));
  }
  log_write(COMPUTE_LOG_INFO, "core", "no modules from folder '%s' of %s: %s", folder, source,
            strerror(problem));
  return COMPUTE_OK;
}

static compute_status folder_read(module_finder *finder, DIR *directory, const char *folder,
                                  const char *source) {
  compute_status result = COMPUTE_OK;
  size_t first = finder->context->module_count;
  const struct dirent *entry = NULL;
  char name[NAMES_BACKEND_BYTES];
  while (result == COMPUTE_OK && (errno = 0, entry = readdir(directory)) != NULL) {
    if (!file_backend(entry->d_name, name, sizeof name)) continue;
    result = file_add(finder, folder, entry->d_name, name);
  }
  if (result == COMPUTE_OK && errno != 0) result = folder_failed(finder, folder, source, errno);
  size_t found = finder->context->module_count - first;
  if (result == COMPUTE_OK && found) candidates_sort(finder->context->modules + first, found);
  log_write(COMPUTE_LOG_DEBUG, "core", "%zu module(s) in '%s' of %s", found, folder, source);
  return result;
}

static compute_status folder_search(module_finder *finder, const char *folder, const char *source) {
  if (!path_is_absolute(folder)) {
    log_write(COMPUTE_LOG_WARNING, "core",
              "folder '%s' of %s is not searched for modules: its path is not absolute", folder,
              source);
    return COMPUTE_OK;
  }
  struct stat status;
  DIR *directory = stat(folder, &status) == 0 ? opendir(folder) : NULL;
  if (!directory) return folder_failed(finder, folder, source, errno);
  compute_status result = COMPUTE_OK;
  if (folder_is_new(finder, &status)) result = folder_read(finder, directory, folder, source);
  closedir(directory);
  return result;
}

/* An action on one module folder. */
typedef compute_status (*folder_function)(void *user, const char *folder, const char *source);

static compute_status search_folder(void *finder, const char *folder, const char *source) {
  return folder_search(finder, folder, source);
}

/* Calls `search` for each folder of a list of paths. Skips empty entries, which would mean
 * the current folder. */
static compute_status path_search(const char *path, const char *source, folder_function search,
                                  void *user) {
  while (path && *path) {
    size_t length = strcspn(path, PLATFORM_LIST_SEPARATOR);
    char folder[PATH_MAX];
    if (length >= sizeof folder) {
      log_write(COMPUTE_LOG_WARNING, "core", "a path in %s is too long and is not searched",
                source);
    } else if (length > 0) {
      memcpy(folder, path, length);
      folder[length] = '\0';
      compute_status status = search(user, folder, source);
      if (status != COMPUTE_OK) return status;
    }
    path += length;
    if (*path) path++;
  }
  return COMPUTE_OK;
}

/* The folder "compute" beside the file that contains this code. The caller may have started a
 * privileged program through a link, so its folder is not trusted. */
static bool library_folder(char *folder, size_t folder_bytes) {
  static const char inside; /* any address within the library */
  char path[PATH_MAX];
  bool linked_in;
  process_load_begin();
  const bool known = library_path_of(&inside, path, sizeof path, &linked_in);
  process_load_end();
  if (!known || (linked_in && privilege_raised())) return false;
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = '\0';
  int length = snprintf(folder, folder_bytes, "%s/compute", path);
  return length > 0 && (size_t)length < folder_bytes;
}

compute_status module_search(compute_context *context, const compute_open_options *options) {
  module_finder finder = {.context = context,
                          .chosen = options->backends,
                          .chosen_by = "the options",
                          .asked = options->backends};
  int64_t index;
  if (!options->device || !names_device_parse(options->device, finder.asked_device, &index)) {
    finder.asked_device[0] = '\0';
  }
  if (!finder.chosen || !*finder.chosen) {
    finder.chosen = variable_text("COMPUTE_BACKENDS");
    finder.chosen_by = "COMPUTE_BACKENDS";
  }
  if (options->backend_path) {
    context->module_path = base_duplicate(options->backend_path);
    if (!context->module_path) return out_of_memory(context);
  }
  compute_status status = path_search(context->module_path, "the options", search_folder, &finder);
  if (status == COMPUTE_OK) {
    status = path_search(variable_text("COMPUTE_BACKEND_PATH"), "COMPUTE_BACKEND_PATH",
                         search_folder, &finder);
  }
#ifdef COMPUTE_WITH_CPU
  if (status == COMPUTE_OK) {
    status = candidate_add(&finder, base_duplicate("built in"), "cpu", compute_backend_entry);
  }
#endif
  char beside[PATH_MAX];
  if (status == COMPUTE_OK && library_folder(beside, sizeof beside)) {
    status = folder_search(&finder, beside, "the library's folder");
  }
  if (status == COMPUTE_OK && sizeof COMPUTE_MODULE_DIR > 1)
    status = folder_search(&finder, COMPUTE_MODULE_DIR, "the installation");
  return status;
}

typedef struct file_finder {
  const char *file;
  char *path;
  size_t path_bytes;
  bool found;
} file_finder;

static compute_status search_file(void *user, const char *folder, const char *source) {
  file_finder *finder = user;
  (void)source;
  if (finder->found || !path_is_absolute(folder)) return COMPUTE_OK;
  const int length = snprintf(finder->path, finder->path_bytes, "%s/%s", folder, finder->file);
  finder->found =
      length > 0 && (size_t)length < finder->path_bytes && access(finder->path, F_OK) == 0;
  return COMPUTE_OK;
}

bool module_find_file(const compute_context *context, const char *file, char *path,
                      size_t path_bytes) {
  file_finder finder = {.file = file, .path = path, .path_bytes = path_bytes};
  char beside[PATH_MAX];
  (void)path_search(context->module_path, "the options", search_file, &finder);
  (void)path_search(variable_text("COMPUTE_BACKEND_PATH"), "COMPUTE_BACKEND_PATH", search_file,
                    &finder);
  if (library_folder(beside, sizeof beside))
    (void)search_file(&finder, beside, "the library's folder");
  (void)search_file(&finder, COMPUTE_MODULE_DIR, "the installation");
  return finder.found;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Names of backends and devices. Only plain ASCII, because names appear in file names and
 * messages. */

static bool name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bool name_span_is_valid(const char *name, size_t length) {
  if (length == 0 || length >= NAMES_BACKEND_BYTES) return false;
  for (size_t i = 0; i < length; i++) {
    if (!name_character(name[i])) return false;
  }
  return true;
}

bool names_backend_is_valid(const char *name) {
  return name_span_is_valid(name, strlen(name));
}

bool names_list_is_valid(const char *list) {
  for (const char *entry = list; *entry;) {
    size_t length = strcspn(entry, ",");
    if (length > 0 && !name_span_is_valid(entry, length)) return false;
    entry += length;
    if (*entry == ',') entry++;
  }
  return true;
}

bool names_list_contains(const char *list, const char *name) {
  if (!list || !*list) return true;
  size_t name_length = strlen(name);
  for (const char *entry = list; *entry;) {
    size_t length = strcspn(entry, ",");
    if (length == name_length && memcmp(entry, name, length) == 0) return true;
    entry += length;
    if (*entry == ',') entry++;
  }
  return false;
}

bool names_device_parse(const char *text, char backend[NAMES_BACKEND_BYTES], int64_t *index) {
  size_t length = strcspn(text, ":");
  if (!name_span_is_valid(text, length)) return false;
  memcpy(backend, text, length);
  backend[length] = '\0';
  *index = -1;
  if (text[length] == '\0') return true;
  const char *digits = text + length + 1;
  size_t digit_count = strspn(digits, "0123456789");
  if (digit_count == 0 || digit_count > 9 || digits[digit_count] != '\0') return false;
  *index = 0;
  for (size_t i = 0; i < digit_count; i++) *index = *index * 10 + (digits[i] - '0');
  return true;
}
