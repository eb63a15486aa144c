/* SPDX-License-Identifier: MIT */
/* Linux's requests that these systems lack. */
#ifndef PLATFORM_SYS_MMAN_H
#define PLATFORM_SYS_MMAN_H

#pragma GCC system_header
#include_next <sys/mman.h>

#include <errno.h>

#ifndef MAP_STACK
#define MAP_STACK 0
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MADV_HUGEPAGE
#define MADV_HUGEPAGE MADV_NORMAL
#endif

/* A library is not loaded from memory here. */
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1
static inline int memfd_create(const char *name, unsigned flags) {
  (void)name;
  (void)flags;
  errno = ENOSYS;
  return -1;
}
#endif

#endif
