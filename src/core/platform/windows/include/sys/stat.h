/* SPDX-License-Identifier: MIT */
/* What is known about a file: its number on its volume and its times to 100 ns, which the C
 * library leaves out. */
#ifndef PLATFORM_SYS_STAT_H
#define PLATFORM_SYS_STAT_H

#include_next <sys/stat.h>

#include <stdint.h>
#include <time.h>

#undef stat
#undef fstat
#define stat    platform_stat
#define lstat   platform_lstat
#define fstat   platform_fstat
#define fstatat platform_fstatat

#define dev_t uint64_t
#define ino_t uint64_t
typedef unsigned uid_t;
typedef unsigned gid_t;

struct stat {
  uint64_t st_dev, st_ino, st_rdev; /* st_rdev is 0: no file is a device */
  unsigned st_mode, st_nlink;
  uid_t st_uid;
  gid_t st_gid;
  int64_t st_size;
  struct timespec st_atim, st_mtim, st_ctim;
  int64_t st_blocks;
};
#undef st_atime
#undef st_mtime
#undef st_ctime
#define st_atime st_atim.tv_sec
#define st_mtime st_mtim.tv_sec
#define st_ctime st_ctim.tv_sec

#define S_IFLNK    0xA000
#define S_IFSOCK   0xC000
#define S_ISLNK(m) (((m)&S_IFMT) == S_IFLNK)
#ifndef S_IRWXG
#define S_IRWXG 0070
#define S_IRGRP 0040
#define S_IWGRP 0020
#define S_IXGRP 0010
#define S_IRWXO 0007
#define S_IROTH 0004
#define S_IWOTH 0002
#define S_IXOTH 0001
#endif

int stat(const char *path, struct stat *status);
int lstat(const char *path, struct stat *status);
int fstat(int file, struct stat *status);
int fstatat(int folder, const char *path, struct stat *status, int flags);
int futimens(int file, const struct timespec times[2]); /* NULL: now */

#undef mkdir
#undef chmod
#undef umask
#define mkdir  platform_mkdir
#define chmod  platform_chmod
#define fchmod platform_fchmod
#define mkfifo platform_mkfifo
int mkdir(const char *path, unsigned mode);
int chmod(const char *path, unsigned mode);
int fchmod(int file, unsigned mode);
int mkfifo(const char *path, unsigned mode); /* fails with ENOSYS */

#endif
