/* SPDX-License-Identifier: MIT */
/* Copies between files by the system: not supported here. */
#ifndef PLATFORM_SYS_SENDFILE_H
#define PLATFORM_SYS_SENDFILE_H

#include <errno.h>
#include <sys/types.h>

static inline ssize_t sendfile(int to, int from, off_t *offset, size_t bytes) {
  (void)to;
  (void)from;
  (void)offset;
  (void)bytes;
  errno = ENOSYS;
  return -1;
}

#endif
