/* SPDX-License-Identifier: MIT */
#ifndef PLATFORM_STRING_H
#define PLATFORM_STRING_H

#include_next <string.h>

#include <strings.h>

#define memmem     platform_memmem
#define memrchr    platform_memrchr
#define strndup    platform_strndup
#define strchrnul  platform_strchrnul
#define stpcpy     platform_stpcpy
#define strcasestr platform_strcasestr
void *memmem(const void *data, size_t bytes, const void *wanted, size_t wanted_bytes);
void *memrchr(const void *data, int byte, size_t bytes);
char *strndup(const char *text, size_t most);
char *strchrnul(const char *text, int character);
char *strcasestr(const char *text, const char *wanted);
char *stpcpy(char *to, const char *from);

#endif
