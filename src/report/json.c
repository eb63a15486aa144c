/* SPDX-License-Identifier: MIT */
/* Writes JSON files. The text is built in memory and then written at once, so that only the write
 * can fail. */
#include "report/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"

/* Returns 0 or an errno. */
static int write_and_close(int file, const text_buffer *text) {
  int problem = file_write(file, text->data, text->length);
  if (close(file) != 0 && problem == 0) problem = errno;
  return problem;
}

/* Only regular files are replaced by renaming. Pipes, terminals and links are written in place. */
static bool is_special(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static int write_into(const char *path, const text_buffer *text) {
  int file = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
  return file < 0 ? errno : write_and_close(file, text);
}

static int replace(const char *path, const text_buffer *text) {
  static atomic_uint serial; /* several threads may write one file */
  size_t bytes = strlen(path) + 48;
  char *temporary = base_allocate(bytes, 1);
  if (!temporary) return ENOMEM;
  snprintf(temporary, bytes, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
  int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH);
  int problem = file < 0 ? errno : write_and_close(file, text);
  if (problem == 0 && rename(temporary, path) != 0) problem = errno;
  if (problem != 0 && file >= 0) unlink(temporary);
  base_release(temporary);
  return problem;
}

compute_status json_save(compute_context *context, const char *operation, const char *what,
                         const char *path, text_buffer *text) {
  int problem = text->failed       ? ENOMEM
                : is_special(path) ? write_into(path, text)
                                   : replace(path, text);
  text_release(text);
  if (problem == 0) return COMPUTE_OK;
  if (problem == ENOMEM) {
    return error_set_native(context, COMPUTE_ERROR_OUT_OF_MEMORY, problem, operation, NULL,
                            "out of memory for %s", what);
  }
  return error_set_native(context, COMPUTE_ERROR_FILE, problem, operation, NULL,
                          "cannot write %s: %s", path, strerror(problem));
}
