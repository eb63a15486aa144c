/* read and write may do less than they are asked to, for many reasons that are no failure. */
#include "base/file.h"

#include <errno.h>
#include <unistd.h>

int file_read(int descriptor, void *data, size_t bytes) {
  char *next = data;
  while (bytes > 0) {
    ssize_t got = read(descriptor, next, bytes);
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
    ssize_t put = write(descriptor, next, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return EIO;
    next += put;
    bytes -= (size_t)put;
  }
  return 0;
}
