/* SPDX-License-Identifier: MIT */
/* How files are named: paths, lists of paths, and dynamic libraries. */
#ifndef PLATFORM_NAMES_H
#define PLATFORM_NAMES_H

#include <stdbool.h>
#include <string.h>

/* One of two names for the same thing, such as a driver's library. */
#ifdef _WIN32
#define PLATFORM_NAME(posix, windows) windows
#else
#define PLATFORM_NAME(posix, windows) posix
#endif

/* The same, for a dynamic library with a third name on macOS. */
#ifdef __APPLE__
#define PLATFORM_NAME_OF(posix, windows, macos) macos
#else
#define PLATFORM_NAME_OF(posix, windows, macos) PLATFORM_NAME(posix, windows)
#endif

#define PLATFORM_LIST_SEPARATOR PLATFORM_NAME(":", ";") /* of paths in a variable */
#define PLATFORM_MODULE_SUFFIX  PLATFORM_NAME(".so", ".dll")

/* `true` if the path does not depend on the current folder. */
static inline bool path_is_absolute(const char *path) {
#ifdef _WIN32
  const bool drive = ((path[0] | 32) >= 'a' && (path[0] | 32) <= 'z') && path[1] == ':';
  if (drive) return path[2] == '/' || path[2] == '\\';
  return (path[0] == '/' || path[0] == '\\') && path[1] == path[0]; /* a share */
#else
  return path[0] == '/';
#endif
}

/* The first and the last separator between the folders of a path, or NULL. */
static inline char *path_separator(const char *path) {
  return strpbrk(path, PLATFORM_NAME("/", "/\\"));
}
static inline char *path_last_separator(const char *path) {
  char *last = strrchr(path, '/');
#ifdef _WIN32
  char *other = strrchr(path, '\\');
  if (!last || (other && other > last)) last = other;
#endif
  return last;
}

/* `true` if a path whose parts are separated by '/' has a letter that means more here: a second
 * separator, or the end of a drive's name. */
static inline bool path_has_other_letters(const char *path) {
  return strpbrk(path, PLATFORM_NAME("", "\\:")) != NULL;
}

#endif
