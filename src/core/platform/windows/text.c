/* SPDX-License-Identifier: MIT */
/* Texts between UTF-8 and UTF-16, errors as errno, and functions for text that the C library lacks. */
#include <fnmatch.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

wchar_t *native_wide(const char *text) {
  const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  if (count <= 0) {
    errno = EILSEQ;
    return NULL;
  }
  wchar_t *wide = malloc((size_t)count * sizeof *wide);
  if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count);
  return wide;
}

/* Long paths of Windows need a prefix, and an absolute path without "." and "..". */
static wchar_t *lengthen(wchar_t *path) {
  wchar_t *full = malloc(NATIVE_PATH * sizeof *full);
  if (full) {
    wcscpy(full, L"\\\\?\\");
    const DWORD count = GetFullPathNameW(path, NATIVE_PATH - 4, full + 4, NULL);
    const bool fits = count > 0 && count < NATIVE_PATH - 4 && full[4] != L'\\';
    if (!fits) wcscpy(full, L"");
  }
  if (full && full[0]) {
    free(path);
    return full;
  }
  free(full);
  return path;
}

wchar_t *native_wide_path(const char *path) {
  if (!*path) {
    errno = ENOENT;
    return NULL;
  }
  wchar_t *wide = native_wide(path);
  for (wchar_t *c = wide; c && *c; c++)
    if (*c == L'/') *c = L'\\';
  return wide && wcslen(wide) >= MAX_PATH - 12 && wcsncmp(wide, L"\\\\", 2) ? lengthen(wide) : wide;
}

bool native_narrow(const wchar_t *wide, char *text, size_t bytes) {
  const int room = bytes < INT_MAX ? (int)bytes : INT_MAX;
  return WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, room, NULL, NULL) > 0;
}

char *native_narrow_new(const wchar_t *wide) {
  const int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
  char *text = bytes > 0 ? malloc((size_t)bytes) : NULL;
  if (text) WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, bytes, NULL, NULL);
  return text;
}

bool native_path_of(HANDLE handle, char *path, size_t bytes) {
  wchar_t *wide = malloc(NATIVE_PATH * sizeof *wide);
  const DWORD count = wide ? GetFinalPathNameByHandleW(handle, wide, NATIVE_PATH, 0) : 0;
  bool fits = count > 0 && count < NATIVE_PATH;
  if (fits) {
    const bool share = !wcsncmp(wide, L"\\\\?\\UNC\\", 8);
    if (share) wide[6] = L'\\';
    fits = native_narrow(wide + (share ? 6 : wcsncmp(wide, L"\\\\?\\", 4) ? 0 : 4), path, bytes);
    if (!fits) errno = ENAMETOOLONG;
  } else if (wide) {
    native_failed();
  }
  for (char *c = path; fits && *c; c++)
    if (*c == '\\') *c = '/';
  free(wide);
  return fits;
}

int native_failed(void) {
  static const struct {
    DWORD native;
    int code;
  } codes[] = {
      {ERROR_FILE_NOT_FOUND, ENOENT},   {ERROR_PATH_NOT_FOUND, ENOENT},
      {ERROR_BAD_PATHNAME, ENOENT},     {ERROR_INVALID_NAME, ENOENT},
      {ERROR_BAD_NETPATH, ENOENT},      {ERROR_INVALID_DRIVE, ENOENT},
      {ERROR_MOD_NOT_FOUND, ENOENT},    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
      {ERROR_ACCESS_DENIED, EACCES},    {ERROR_SHARING_VIOLATION, EACCES},
      {ERROR_LOCK_VIOLATION, EACCES},   {ERROR_WRITE_PROTECT, EROFS},
      {ERROR_INVALID_HANDLE, EBADF},    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
      {ERROR_OUTOFMEMORY, ENOMEM},      {ERROR_COMMITMENT_LIMIT, ENOMEM},
      {ERROR_FILE_EXISTS, EEXIST},      {ERROR_ALREADY_EXISTS, EEXIST},
      {ERROR_DIR_NOT_EMPTY, ENOTEMPTY}, {ERROR_DIRECTORY, ENOTDIR},
      {ERROR_DISK_FULL, ENOSPC},        {ERROR_HANDLE_DISK_FULL, ENOSPC},
      {ERROR_BROKEN_PIPE, EPIPE},       {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
      {ERROR_NOT_SAME_DEVICE, EXDEV},   {ERROR_NOT_SUPPORTED, ENOSYS},
  };
  const DWORD native = GetLastError();
  errno = EINVAL;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].native == native) errno = codes[i].code;
  return -1;
}

/* ---- Text ------------------------------------------------------------------------------------ */

void *memmem(const void *data, size_t bytes, const void *wanted, size_t wanted_bytes) {
  const char *at = data;
  if (wanted_bytes == 0) return (void *)(uintptr_t)at;
  while (bytes >= wanted_bytes) {
    const char *first = memchr(at, *(const unsigned char *)wanted, bytes - wanted_bytes + 1);
    if (!first) return NULL;
    if (!memcmp(first, wanted, wanted_bytes)) return (void *)(uintptr_t)first;
    bytes -= (size_t)(first + 1 - at);
    at = first + 1;
  }
  return NULL;
}

void *memrchr(const void *data, int byte, size_t bytes) {
  const unsigned char *text = data;
  while (bytes-- > 0)
    if (text[bytes] == (unsigned char)byte) return (void *)(uintptr_t)(text + bytes);
  return NULL;
}

char *strndup(const char *text, size_t most) {
  const size_t length = strnlen(text, most);
  char *copy = malloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

char *strchrnul(const char *text, int character) {
  const char *found = strchr(text, character);
  return (char *)(uintptr_t)(found ? found : text + strlen(text));
}

char *strcasestr(const char *text, const char *wanted) {
  const size_t length = strlen(wanted);
  for (; *text; text++)
    if (!_strnicmp(text, wanted, length)) return (char *)(uintptr_t)text;
  return NULL;
}

char *stpcpy(char *to, const char *from) {
  const size_t length = strlen(from);
  memcpy(to, from, length + 1);
  return to + length;
}

int fnmatch(const char *pattern, const char *text, int flags) {
  (void)flags;
  for (; *pattern; pattern++, text++) {
    if (*pattern == '*') {
      while (pattern[1] == '*') pattern++;
      for (;; text++) {
        if (!fnmatch(pattern + 1, text, 0)) return 0;
        if (!*text) return FNM_NOMATCH;
      }
    }
    if (!*text || (*pattern != '?' && *pattern != *text)) return FNM_NOMATCH;
  }
  return *text ? FNM_NOMATCH : 0;
}

void *reallocarray(void *memory, size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(memory, all);
}

int rand_r(unsigned *state) {
  *state = *state * 1103515245u + 12345u;
  return (int)(*state >> 16 & RAND_MAX);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* The toolchain's strtod and strtof round correctly, unlike Windows', but follow the program's
 * locale. So the number is copied with the locale's point in place of '.', where these differ.
 * Returns the copy, or NULL for the text itself. */
static char *localize(const char *text) {
  const char *point = localeconv()->decimal_point;
  if (point[0] == '.' || point[1] != '\0') return NULL;
  char *copy = strndup(text, strspn(text, " \t\n\v\f\r+-.0123456789abcdefinptxyABCDEFINPTXY()_"));
  for (char *c = copy; c && *c; c++)
    if (*c == '.') *c = point[0];
  return copy;
}

static void end_localized(char *copy, const char *copy_end, const char *text, char **end) {
  if (copy && end) *end = (char *)(uintptr_t)(text + (copy_end - copy));
  free(copy);
}

double strtod_l(const char *text, char **end, locale_t c_locale) {
  (void)c_locale;
  char *copy = localize(text), *last;
  const double value = strtod(copy ? copy : text, &last);
  if (end) *end = last;
  end_localized(copy, last, text, end);
  return value;
}

float strtof_l(const char *text, char **end, locale_t c_locale) {
  (void)c_locale;
  char *copy = localize(text), *last;
  const float value = strtof(copy ? copy : text, &last);
  if (end) *end = last;
  end_localized(copy, last, text, end);
  return value;
}

ssize_t getdelim(char **line, size_t *capacity, int end, FILE *file) {
  size_t length = 0;
  for (int c; (c = getc(file)) != EOF;) {
    if (!*line || length + 2 > *capacity) {
      const size_t wanted = *line && *capacity ? *capacity * 2 : 120;
      char *grown = realloc(*line, wanted < length + 2 ? length + 2 : wanted);
      if (!grown) return -1;
      *line = grown;
      *capacity = wanted < length + 2 ? length + 2 : wanted;
    }
    (*line)[length++] = (char)c;
    (*line)[length] = '\0';
    if (c == end) break;
  }
  return length ? (ssize_t)length : -1;
}

ssize_t getline(char **line, size_t *capacity, FILE *file) {
  return getdelim(line, capacity, '\n', file);
}
