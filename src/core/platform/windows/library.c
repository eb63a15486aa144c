/* SPDX-License-Identifier: MIT */
/* Dynamic libraries. A library's own libraries are found in its folder and in the system's, never in
 * the current folder. */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

static _Thread_local char failure[512], found_path[1024];
static _Thread_local bool failed;

/* Says "name: reason", as loaders of other systems do. */
static void fail(const char *name) {
  const DWORD code = GetLastError();
  wchar_t words[256] = L"";
  FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, words,
                 256, NULL);
  words[wcscspn(words, L"\r\n")] = L'\0';
  char text[400] = "";
  native_narrow(words, text, sizeof text);
  snprintf(failure, sizeof failure, "%.90s: %.380s (error %lu)", name, text, code);
  failed = true;
  errno = code == ERROR_NOT_ENOUGH_MEMORY || code == ERROR_OUTOFMEMORY ? ENOMEM : 0;
}

/* Searches the absolute folders of PATH, where drivers' libraries are installed. */
static HMODULE load_from_path(const wchar_t *name) {
  const DWORD bytes = GetEnvironmentVariableW(L"PATH", NULL, 0);
  wchar_t *folders = calloc((size_t)bytes + 1, sizeof *folders);
  wchar_t *path = malloc(NATIVE_PATH * sizeof *path);
  HMODULE library = NULL;
  if (folders && path) {
    GetEnvironmentVariableW(L"PATH", folders, bytes);
    wchar_t *rest = folders;
    for (wchar_t *end = rest; !library && rest && *rest; rest = end ? end + 1 : NULL) {
      end = wcschr(rest, L';');
      if (end) *end = L'\0';
      if (rest[1] != L':' || !SearchPathW(rest, name, NULL, NATIVE_PATH, path, NULL)) continue;
      library = LoadLibraryExW(path, NULL,
                               LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    }
  }
  free(path);
  free(folders);
  if (!library) SetLastError(ERROR_MOD_NOT_FOUND);
  return library;
}

static HMODULE load(const wchar_t *wide, int flags) {
  HMODULE library = NULL;
  if (flags & RTLD_NOLOAD) {
    GetModuleHandleExW(0, wide, &library);
    return library;
  }
  const DWORD usual = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
  if (wcspbrk(wide, L"\\:"))
    return LoadLibraryExW(wide, NULL, usual | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR);
  library = LoadLibraryExW(wide, NULL, usual);
  return library || GetLastError() != ERROR_MOD_NOT_FOUND ? library : load_from_path(wide);
}

void *dlopen(const char *path, int flags) {
  wchar_t *wide = native_wide_path(path);
  if (!wide) {
    SetLastError(ERROR_INVALID_NAME);
    fail(path);
    return NULL;
  }
  HMODULE library = load(wide, flags), pinned;
  if (!library) fail(path);
  if (library && (flags & RTLD_NODELETE))
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, wide, &pinned);
  free(wide);
  return library;
}

void *dlsym(void *library, const char *name) {
  FARPROC found = GetProcAddress(library ? library : GetModuleHandleW(NULL), name);
  void *address = NULL;
  if (!found) fail(name);
  memcpy(&address, &found, sizeof address);
  return address;
}

int dlclose(void *library) {
  return FreeLibrary(library) ? 0 : -1;
}

const char *dlerror(void) {
  const char *words = failed ? failure : NULL;
  failed = false;
  return words;
}

/* Leaves the library's path in found_path. */
static bool find_path(HMODULE library) {
  wchar_t wide[1024];
  const DWORD length = GetModuleFileNameW(library, wide, 1024);
  if (length == 0 || length >= 1024 || !native_narrow(wide, found_path, sizeof found_path))
    return false;
  for (char *c = found_path; *c; c++)
    if (*c == '\\') *c = '/';
  return true;
}

int dladdr(const void *address, Dl_info *info) {
  HMODULE library;
  const DWORD flags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  *info = (Dl_info){0};
  if (!GetModuleHandleExW(flags, address, &library) || !find_path(library)) return 0;
  *info = (Dl_info){.dli_fname = found_path, .dli_fbase = library};
  return 1;
}

int dlinfo(void *library, int request, struct link_map **map) {
  static _Thread_local struct link_map found;
  (void)request;
  if (!find_path(library)) return -1;
  found.l_name = found_path;
  *map = &found;
  return 0;
}

int backtrace(void **addresses, int count) {
  return CaptureStackBackTrace(1, (DWORD)count, addresses, NULL);
}
