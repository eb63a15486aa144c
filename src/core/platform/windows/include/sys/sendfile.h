/* SPDX-License-Identifier: MIT */
/* Linux's copy between files: not supported. Where the system has a call with this name, it sends to
 * sockets only. */
#ifndef PLATFORM_SYS_SENDFILE_H
#define PLATFORM_SYS_SENDFILE_H

#include <errno.h>
#include <sys/types.h>

#define sendfile platform_sendfile
static inline ssize_t platform_sendfile(int to, int from, off_t *offset, size_t bytes) {
  (void)to;
  (void)from;
  (void)offset;
  (void)bytes;
  errno = ENOSYS;
  return -1;
}

#endif
