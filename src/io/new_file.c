/* SPDX-License-Identifier: MIT */
/* A file that appears under its name only when it is complete. It is written under a temporary
 * name, synced, and renamed. */
#include "io/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"

/* Errors name the requested file, because the temporary name is internal. */
static compute_status fail(const new_file *file, const char *what, int code) {
  return file_error(file->context, file->operation, file->path, what, code);
}

compute_status new_file_open(const compute_context *context, const char *operation,
                             const char *path, new_file *file) {
  static atomic_uint number;
  *file = (new_file){.context = context, .operation = operation, .path = path, .descriptor = -1};
  size_t bytes = strlen(path) + 48;
  file->name = base_allocate(bytes, 1);
  if (!file->name)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory to write %s", path);
  /* A killed process with the same number may have left such a file. */
  for (int tries = 0; tries < 1000; tries++) {
    snprintf(file->name, bytes, "%s.%ld-%u.new", path, (long)getpid(),
             atomic_fetch_add(&number, 1));
    file->descriptor = open(file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->descriptor >= 0) return COMPUTE_OK;
    if (errno != EEXIST) break;
  }
  compute_status status = fail(file, "create", errno);
  base_release(file->name);
  return status;
}

compute_status new_file_write(new_file *file, const void *data, size_t bytes) {
  int code = file_write(file->descriptor, data, bytes);
  if (code) return fail(file, "write", code);
  file->bytes += bytes;
  return COMPUTE_OK;
}

compute_status new_file_write_at(new_file *file, uint64_t offset, const void *data, size_t bytes) {
  off_t end = lseek(file->descriptor, 0, SEEK_CUR);
  if (end < 0 || lseek(file->descriptor, (off_t)offset, SEEK_SET) < 0)
    return fail(file, "write", errno);
  int code = file_write(file->descriptor, data, bytes);
  if (!code && lseek(file->descriptor, end, SEEK_SET) < 0) code = errno;
  return code ? fail(file, "write", code) : COMPUTE_OK;
}

compute_status new_file_close(new_file *file, compute_status status) {
  if (!status && fsync(file->descriptor) != 0 && errno != EINVAL)
    status = fail(file, "write", errno);
  if (close(file->descriptor) != 0 && !status) status = fail(file, "write", errno);
  if (!status && rename(file->name, file->path) != 0) {
    status = fail(file, "create", errno);
  }
  if (status) unlink(file->name);
  base_release(file->name);
  return status;
}

compute_status file_error(const compute_context *context, const char *operation, const char *path,
                          const char *what, int code) {
  if (code == FILE_ENDED)
    return error_set_native(context, COMPUTE_ERROR_FORMAT, 0, operation,
                            "the file may be truncated; copy or create it again",
                            "%s is shorter than its header says", path);
  return error_set_native(context, file_status(code), code, operation, NULL, "%s: cannot %s: %s",
                          path, what, strerror(code));
}

const char *file_show_name(const char *name, char text[SHOWN_NAME_BYTES]) {
  size_t used = 0;
  const char *at = name;
  while (*at) {
    size_t length = utf8_length(at);
    if (used + (length ? length : 1) > SHOWN_NAME_BYTES - 4) break;
    bool plain = length > 1 || (length == 1 && *at >= ' ' && *at != 127);
    if (!plain) length = 1;
    memcpy(text + used, plain ? at : "?", length);
    used += length;
    at += length;
  }
  memcpy(text + used, *at ? "..." : "", *at ? 4 : 1);
  return text;
}
