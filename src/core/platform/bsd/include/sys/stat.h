/* SPDX-License-Identifier: MIT */
/* macOS: POSIX's names of the times of a file. */
#ifndef PLATFORM_SYS_STAT_H
#define PLATFORM_SYS_STAT_H

#pragma GCC system_header
#include_next <sys/stat.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#endif
