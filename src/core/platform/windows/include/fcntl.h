/* SPDX-License-Identifier: MIT */
/* Files by UTF-8 paths, relative to folders too. All files are binary. */
#ifndef PLATFORM_FCNTL_H
#define PLATFORM_FCNTL_H

#include_next <fcntl.h>

#include <sys/stat.h>

#define O_CLOEXEC   O_NOINHERIT
#define O_NONBLOCK  0 /* an open never waits here */
#define O_NOCTTY    0
#define O_SYNC      0
#define O_DIRECTORY 0x10000000
#define O_NOFOLLOW  0x20000000
#define O_PATH      0x40000000

#define SYNC_FILE_RANGE_WRITE      1
#define sync_file_range(file, ...) ((void)(file), 0) /* the system writes back early */

#define AT_FDCWD            (-100)
#define AT_SYMLINK_NOFOLLOW 1

int open(const char *path, int flags, ...) __asm__("platform_open");
int openat(int folder, const char *path, int flags, ...) __asm__("platform_openat");

#endif
