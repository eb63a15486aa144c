/* SPDX-License-Identifier: MIT */
/* See whole_file.h. */
#include "programs/fit/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static compute_status cannot_write(int code, const char *path, failure *why) {
  return failure_set_system(why, code, NULL, "'%s' could not be written", path);
}

static bool is_special(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

static void release(whole_file *f) {
  free(f->path);
  free(f->temporary);
  *f = (whole_file){0};
}

compute_status whole_file_open(whole_file *f, const char *path, failure *why) {
  *f = (whole_file){.path = strdup(path)};
  if (!f->path ||
      asprintf(&f->temporary, "%s%s", path, is_special(path) ? "" : ".incomplete") < 0) {
    f->temporary = NULL;
    release(f);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s", path);
  }
  f->stream = fopen(f->temporary, "we");
  if (f->stream) return COMPUTE_OK;
  const int code = errno;
  release(f);
  return cannot_write(code, path, why);
}

/* Returns 0 or an errno. EINVAL is not an error: a pipe, for example, cannot be made durable. */
static int sync_file(int descriptor) {
  return fsync(descriptor) && errno != EINVAL && errno != EROFS ? errno : 0;
}

compute_status whole_file_close(whole_file *f, compute_status written, failure *why) {
  errno = 0;
  int code = fflush(f->stream) || ferror(f->stream) ? (errno ? errno : EIO) : 0;
  if (!code && !written) code = sync_file(fileno(f->stream));
  if (fclose(f->stream) && !code) code = errno;
  const bool renames = strcmp(f->temporary, f->path) != 0;
  if (!code && !written && renames && rename(f->temporary, f->path)) code = errno;
  if ((code || written) && renames) unlink(f->temporary);
  compute_status status = code ? cannot_write(code, f->path, why) : COMPUTE_OK;
  if (written) status = written;
  release(f);
  return status;
}

compute_status whole_file_sync(const char *path, failure *why) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  const int code = file < 0 ? errno : sync_file(file);
  if (file >= 0) close(file);
  return code ? cannot_write(code, path, why) : COMPUTE_OK;
}
