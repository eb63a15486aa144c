/* SPDX-License-Identifier: MIT */
/* Files of dynamic libraries: what the system's loader does not check or tell. <dlfcn.h> loads
 * them. */
#ifndef PLATFORM_LIBRARY_H
#define PLATFORM_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Checks that the file is a complete shared library for this kind of machine. The loader would
 * crash on a truncated file. If not, `reason` has the cause, and *problem is the errno of the
 * failed call, or 0. An intact file for another machine passes, because the loader has a good
 * message for it. */
bool library_file_check(const char *path, char *reason, size_t reason_bytes, int *problem);

/* `true` if the program can load libraries. A statically linked program has no loader. */
bool library_loader_works(void);

/* Whether the system loads a library from memory, by memfd_create and a path in /proc. */
#ifdef __linux__
enum { LIBRARY_FROM_MEMORY = true };
#else
enum { LIBRARY_FROM_MEMORY = false };
#endif

/* The absolute path of the file that has `address` in its code or data, with '/' between folders;
 * false if it is not known or too long. *in_program is `true` if the file is the program itself. */
bool library_path_of(const void *address, char *path, size_t path_bytes, bool *in_program);

#endif
