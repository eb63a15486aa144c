/* SPDX-License-Identifier: MIT */
/* Listings of folders, full paths, and new names. */
#include <dirent.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native.h"

struct platform_directory {
  HANDLE search;
  WIN32_FIND_DATAW found;
  bool unread; /* `found` has a name that readdir has not returned */
  int file;    /* of fdopendir, or −1 */
  struct dirent entry;
};

DIR *opendir(const char *path) {
  const size_t length = strlen(path);
  char *pattern = malloc(length + 3);
  DIR *directory = calloc(1, sizeof *directory);
  wchar_t *wide = NULL;
  struct stat status;
  if (pattern && directory && stat(path, &status) == 0) {
    snprintf(pattern, length + 3, "%s/*", path);
    if (S_ISDIR(status.st_mode))
      wide = native_wide_path(pattern);
    else
      errno = ENOTDIR;
  }
  free(pattern);
  bool opened = false;
  if (wide) {
    directory->search = FindFirstFileW(wide, &directory->found);
    opened = directory->search != INVALID_HANDLE_VALUE;
    if (!opened) native_failed();
  }
  free(wide);
  if (!opened) {
    free(directory);
    return NULL;
  }
  directory->unread = true;
  directory->file = -1;
  return directory;
}

DIR *fdopendir(int folder) {
  char *path = malloc(NATIVE_PATH);
  DIR *directory = path && native_path_of((HANDLE)_get_osfhandle(folder), path, NATIVE_PATH)
                       ? opendir(path)
                       : NULL;
  free(path);
  if (directory) directory->file = folder;
  return directory;
}

struct dirent *readdir(DIR *directory) {
  struct dirent *entry = &directory->entry;
  do {
    if (!directory->unread && !FindNextFileW(directory->search, &directory->found)) {
      if (GetLastError() != ERROR_NO_MORE_FILES) native_failed();
      return NULL;
    }
    directory->unread = false;
  } while (!native_narrow(directory->found.cFileName, entry->d_name, sizeof entry->d_name));
  const DWORD attributes = directory->found.dwFileAttributes;
  entry->d_type = attributes & FILE_ATTRIBUTE_REPARSE_POINT ? DT_LNK
                  : attributes & FILE_ATTRIBUTE_DIRECTORY   ? DT_DIR
                                                            : DT_REG;
  return entry;
}

int closedir(DIR *directory) {
  FindClose(directory->search);
  if (directory->file >= 0) close(directory->file);
  free(directory);
  return 0;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

char *realpath(const char *path, char *resolved) {
  wchar_t *wide = native_wide_path(path);
  if (!wide) return NULL;
  HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES,
                              FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
  free(wide);
  if (handle == INVALID_HANDLE_VALUE) {
    native_failed();
    return NULL;
  }
  char *result = resolved ? resolved : malloc(NATIVE_PATH);
  const bool good = result && native_path_of(handle, result, resolved ? 260 : NATIVE_PATH);
  CloseHandle(handle);
  if (!good && !resolved) free(result);
  return good ? result : NULL;
}

char *getcwd(char *path, int bytes) {
  wchar_t wide[MAX_PATH];
  const DWORD count = GetCurrentDirectoryW(MAX_PATH, wide);
  char *result = path ? path : malloc(NATIVE_PATH);
  const size_t room = path ? (size_t)bytes : NATIVE_PATH;
  if (!result || count == 0 || count >= MAX_PATH || !native_narrow(wide, result, room)) {
    errno = ERANGE;
    if (!path) free(result);
    return NULL;
  }
  for (char *c = result; *c; c++)
    if (*c == '\\') *c = '/';
  return result;
}

/* ---- New names ------------------------------------------------------------------------------- */

/* Replaces the last six letters, which are X, by the next number of this process. */
static bool next_name(char *pattern) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  static volatile LONG serial;
  const size_t length = strlen(pattern);
  if (length < 6) return false;
  uint64_t number = (uint64_t)GetCurrentProcessId() * 2654435761u +
                    (uint64_t)InterlockedIncrement(&serial) * 40503u + GetTickCount64();
  for (size_t i = length - 6; i < length; i++, number /= 36) pattern[i] = letters[number % 36];
  return true;
}

enum { ATTEMPTS = 100 };

int mkstemp(char *pattern) {
  int file = -1;
  errno = EINVAL;
  for (int i = 0; i < ATTEMPTS && file < 0 && next_name(pattern); i++) {
    file = open(pattern, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) break;
  }
  return file;
}

char *mkdtemp(char *pattern) {
  errno = EINVAL;
  for (int i = 0; i < ATTEMPTS && next_name(pattern); i++) {
    if (mkdir(pattern, 0700) == 0) return pattern;
    if (errno != EEXIST) break;
  }
  return NULL;
}
