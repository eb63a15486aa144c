/* SPDX-License-Identifier: MIT */
/* Variables in UTF-8, and what the C library lacks. */
#ifndef PLATFORM_STDLIB_H
#define PLATFORM_STDLIB_H

#include_next <stdlib.h>

/* The text stays valid. */
char *getenv(const char *name) __asm__("platform_getenv");

#define setenv        platform_setenv
#define unsetenv      platform_unsetenv
#define realpath      platform_realpath
#define mkdtemp       platform_mkdtemp
#define secure_getenv getenv
#define reallocarray  platform_reallocarray
#define rand_r        platform_rand_r
int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);
char *realpath(const char *path, char *resolved);
char *mkdtemp(char *pattern);
void *reallocarray(void *memory, size_t count, size_t bytes);
int rand_r(unsigned *state);
int mkstemp(char *pattern) __asm__("platform_mkstemp");

#endif
