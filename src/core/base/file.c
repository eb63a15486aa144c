/* SPDX-License-Identifier: MIT */
/* Complete reads and writes, and the cache folder. read and write may process fewer bytes than
 * requested without a failure. */
#include "core/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/log.h"
#include "core/base/variable.h"
#include "core/platform/file_part.h"
#include "core/platform/names.h"

int file_read(int descriptor, void *data, size_t bytes) {
  char *next = data;
  while (bytes > 0) {
    ssize_t got = read(descriptor, next, file_part(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return FILE_ENDED;
    next += got;
    bytes -= (size_t)got;
  }
  return 0;
}

int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes) {
  char *next = data;
  while (bytes > 0) {
    if (offset > INT64_MAX) return FILE_ENDED;
    ssize_t got = pread(descriptor, next, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return FILE_ENDED;
    next += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return 0;
}

int file_write(int descriptor, const void *data, size_t bytes) {
  const char *next = data;
  while (bytes > 0) {
    ssize_t put = write(descriptor, next, file_part(bytes));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return EIO;
    next += put;
    bytes -= (size_t)put;
  }
  return 0;
}

/* ---- The cache folder ------------------------------------------------------------------------ */

/* The user's cache folder, as the XDG base directory specification defines it, with
 * COMPUTE_CACHE_DIR first. variable_text hides all three variables from privileged programs, so
 * these have no cache folder. */

#define HOME_VARIABLE PLATFORM_NAME("HOME", "LOCALAPPDATA")

static const struct {
  const char *variable, *below;
  bool must_exist; /* never create a missing home folder; daemons often have none */
} places[] = {
    {"COMPUTE_CACHE_DIR", "", false},
    {"XDG_CACHE_HOME", "/compute", false},
    {HOME_VARIABLE, PLATFORM_NAME("/.cache/compute", "/compute"), true},
};

static bool is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *cache_folder_path(const char *name, const char **reason) {
  const char *unused;
  if (!reason) reason = &unused;
  *reason = "neither COMPUTE_CACHE_DIR nor XDG_CACHE_HOME nor " HOME_VARIABLE " names a folder";
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *root = variable_text(places[i].variable);
    if (!root) continue;
    if (!path_is_absolute(root)) {
      log_write(COMPUTE_LOG_WARNING, "core", "%s=%s is ignored: it must be an absolute path",
                places[i].variable, root);
      continue;
    }
    if (places[i].must_exist && !is_folder(root)) {
      *reason = "the folder that " HOME_VARIABLE " names does not exist";
      continue;
    }
    size_t bytes = strlen(root) + strlen(places[i].below) + strlen(name) + 2;
    char *path = base_allocate(bytes, 1);
    *reason = "";
    if (path) snprintf(path, bytes, "%s%s/%s", root, places[i].below, name);
    return path;
  }
  return NULL;
}

int cache_folder_make(const char *path) {
  if (is_folder(path)) return 0;
  char *partial = base_duplicate(path);
  if (!partial) return ENOMEM;
  int problem = 0;
  /* Only the last result counts, because a folder above may exist without being accessible. */
  for (char *slash = path_separator(partial + 1); slash; slash = path_separator(slash + 1)) {
    const char kept = *slash;
    *slash = '\0';
    mkdir(partial, S_IRWXU);
    *slash = kept;
  }
  if (mkdir(partial, S_IRWXU) != 0 && !is_folder(partial)) problem = errno;
  base_release(partial);
  return problem;
}
