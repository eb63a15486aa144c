/* SPDX-License-Identifier: MIT */
/* The free room of a file's volume. */
#ifndef PLATFORM_SYS_STATVFS_H
#define PLATFORM_SYS_STATVFS_H

#include <stdint.h>

#define fstatvfs platform_fstatvfs
struct statvfs {
  uint64_t f_bavail, f_frsize;
};
int fstatvfs(int file, struct statvfs *disk);

#endif
