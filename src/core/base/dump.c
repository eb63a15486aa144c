/* SPDX-License-Identifier: MIT */
/* Files of a dump. They help a reader and nobody else: a failure is logged once, and the work goes
 * on. */
#include "core/base/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/variable.h"

struct dump_folder {
  atomic_bool complained;
  char path[]; /* absolute: the program may change its folder */
};

static void complain(const char *path, int problem) {
  log_write_asked(COMPUTE_LOG_WARNING, "core", "COMPUTE_DUMP: %s cannot be written: %s", path,
                  strerror(problem));
}

dump_folder *dump_folder_create(void) {
  const char *named = variable_text("COMPUTE_DUMP");
  char path[PATH_MAX];
  if (!named) return NULL;
  int problem = cache_folder_make(named);
  if (problem == EEXIST) problem = ENOTDIR;
  if (!problem && (!realpath(named, path) || access(path, W_OK | X_OK) != 0)) problem = errno;
  dump_folder *folder = problem ? NULL : base_allocate(1, sizeof *folder + strlen(path) + 1);
  if (folder) memcpy(folder->path, path, strlen(path) + 1);
  if (!folder) complain(named, problem ? problem : ENOMEM);
  return folder;
}

room_slot dump_slot = {.stage = SLOT_STANDS_ALONE, .release = base_release};

/* Never through a link, which another user may have put into a folder that all may write to. */
static int write_file(const char *path, const char *text, size_t bytes, bool once) {
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (once ? O_EXCL : O_TRUNC);
  const int file = open(path, how, S_IRUSR | S_IWUSR);
  if (file < 0) return once && errno == EEXIST ? 0 : errno;
  int problem = file_write(file, text, bytes);
  if (close(file) != 0 && !problem) problem = errno;
  if (problem) unlink(path); /* part of a text would pass for the whole */
  return problem;
}

void dump_file(dump_folder *folder, const char *name, const char *text, size_t bytes, bool once) {
  char path[PATH_MAX];
  const int length = snprintf(path, sizeof path, "%s/%s", folder->path, name);
  const int problem = length < 0 || (size_t)length >= sizeof path
                          ? ENAMETOOLONG
                          : write_file(path, text, bytes, once);
  if (problem && !atomic_exchange(&folder->complained, true)) complain(path, problem);
}
