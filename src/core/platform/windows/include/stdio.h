/* SPDX-License-Identifier: MIT */
/* Streams of files with UTF-8 paths. They are binary; the modes' letter e (close on exec) is
 * understood. */
#ifndef PLATFORM_STDIO_H
#define PLATFORM_STDIO_H

#include_next <stdio.h>

#include <sys/types.h>

FILE *fopen(const char *path, const char *mode) __asm__("platform_fopen");
FILE *freopen(const char *path, const char *mode, FILE *file) __asm__("platform_freopen");
int remove(const char *path) __asm__("platform_remove");
/* Replaces an existing file, even if it is open or mapped, in one step. */
int rename(const char *from, const char *to) __asm__("platform_rename");

#define renameat platform_renameat
#define getline  platform_getline
#define getdelim platform_getdelim
int renameat(int from_folder, const char *from, int to_folder, const char *to);
ssize_t getdelim(char **line, size_t *capacity, int end, FILE *file);
ssize_t getline(char **line, size_t *capacity, FILE *file);

#endif
