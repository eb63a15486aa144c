/* SPDX-License-Identifier: MIT */
/* What the Win32 sources share: texts and errors. */
#ifndef WINDOWS_NATIVE_H
#define WINDOWS_NATIVE_H

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include <windows.h>

#define NATIVE_PATH 32768 /* the longest path of Windows, with its end */

/* A text in UTF-16 from UTF-8, with '/' as '\' in a path. NULL with an errno: EILSEQ for a text
 * that is not UTF-8. Free it with free. */
wchar_t *native_wide(const char *text);
wchar_t *native_wide_path(const char *path);

/* A text in UTF-8. Returns false if it does not fit. */
bool native_narrow(const wchar_t *wide, char *text, size_t bytes);
/* As a new text, or NULL; free it with free. */
char *native_narrow_new(const wchar_t *wide);

/* The path of an open file or folder, as UTF-8 with '/', in `path`; false with an errno. */
bool native_path_of(HANDLE handle, char *path, size_t bytes);

/* Sets errno from GetLastError, and returns −1. */
int native_failed(void);

#endif
