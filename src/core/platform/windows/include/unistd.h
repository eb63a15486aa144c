/* SPDX-License-Identifier: MIT */
#ifndef PLATFORM_UNISTD_H
#define PLATFORM_UNISTD_H

#include_next <unistd.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#define _SC_PAGESIZE          1
#define _SC_NPROCESSORS_ONLN  2
#define _SC_PHYS_PAGES        3
#define _SC_AVPHYS_PAGES      4
#define _SC_LEVEL2_CACHE_SIZE 5
#define _SC_LEVEL3_CACHE_SIZE 6
#define sysconf               platform_sysconf
int64_t sysconf(int name);

int access(const char *path, int mode) __asm__("platform_access");
int unlink(const char *path) __asm__("platform_unlink");
int rmdir(const char *path) __asm__("platform_rmdir");
int chdir(const char *path) __asm__("platform_chdir");
char *getcwd(char *path, int bytes) __asm__("platform_getcwd");
#define unlinkat    platform_unlinkat
#define alarm       platform_alarm
#define pread       platform_pread
#define pwrite      platform_pwrite
#define fsync       platform_fsync
#define fdatasync   platform_fsync
#define geteuid     platform_geteuid
#define getuid      platform_geteuid
#define gethostname platform_gethostname
#define symlink     platform_symlink
#define link        platform_link
#define readlink    platform_readlink
#define fork        platform_fork
#define pipe        platform_pipe
#define ftruncate   platform_ftruncate
#undef ftruncate64
int unlinkat(int folder, const char *path, int flags);
int64_t pread(int file, void *data, size_t bytes, int64_t offset);
int64_t pwrite(int file, const void *data, size_t bytes, int64_t offset);
int fsync(int file);
/* Never sends a signal: Windows has none for a time that is over. */
static inline unsigned alarm(unsigned seconds) {
  (void)seconds;
  return 0;
}
/* Not supported: these fail with ENOSYS. */
pid_t fork(void);
int pipe(int ends[2]);
int symlink(const char *target, const char *path);
int link(const char *from, const char *to);
ssize_t readlink(const char *path, char *target, size_t bytes);
int ftruncate(int file, int64_t bytes);
unsigned geteuid(void); /* 0: files have no owner here */
int gethostname(char *name, size_t bytes);

#endif
