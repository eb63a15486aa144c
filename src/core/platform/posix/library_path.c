/* SPDX-License-Identifier: MIT */
/* The file of an address. The loader reports a library by the requested path, which may be
 * relative. The kernel has the full path of every mapped file. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/platform/library.h"

/* Finds the line of /proc/self/maps for `address`. Uses no heap memory, because the heap may have
 * run out. Skips lines longer than the buffer. */
static bool mapping_find(int maps, uintptr_t address, char *line, size_t line_bytes) {
  size_t used = 0;
  for (bool skipping = false;;) {
    ssize_t got = read(maps, line + used, line_bytes - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    used += (size_t)got;
    line[used] = '\0';
    for (char *end; (end = memchr(line, '\n', used)) != NULL; skipping = false) {
      unsigned long long first, past;
      *end = '\0';
      if (!skipping && sscanf(line, "%llx-%llx", &first, &past) == 2 && address >= first &&
          address < past) {
        return true;
      }
      used -= (size_t)(end + 1 - line);
      memmove(line, end + 1, used);
    }
    if (used == line_bytes - 1) {
      skipping = true;
      used = 0;
    }
  }
}

static bool mapped_path(const void *address, char *path, size_t path_bytes) {
  int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  char line[PATH_MAX + 128];
  bool found = mapping_find(maps, (uintptr_t)address, line, sizeof line);
  close(maps);
  const char *name = found ? strchr(line, '/') : NULL;
  if (!name || strlen(name) >= path_bytes) return false;
  memcpy(path, name, strlen(name) + 1);
  return true;
}

/* `true` if the address is in the program itself, because the library is linked in. Then the loader
 * reports only argv[0]. */
static bool lies_in_program(const Dl_info *found) {
  Dl_info program;
  return dladdr((const void *)getauxval(AT_PHDR), &program) != 0 &&
         program.dli_fbase == found->dli_fbase;
}

/* A program names its loader in a header. In a program without one, dlopen fails (musl), or loads a
 * second C library and crashes the process (glibc). */
bool library_loader_works(void) {
  const ElfW(Phdr) *segment = (const ElfW(Phdr) *)getauxval(AT_PHDR);
  for (unsigned long i = 0; segment && i < getauxval(AT_PHNUM); i++) {
    if (segment[i].p_type == PT_INTERP) return true;
  }
  return false;
}

bool library_path_of(const void *address, char *path, size_t path_bytes, bool *in_program) {
  Dl_info info;
  const bool known = dladdr(address, &info) != 0 && info.dli_fname;
  *in_program = known && lies_in_program(&info);
  if (!known || *in_program || info.dli_fname[0] != '/' || strlen(info.dli_fname) >= path_bytes)
    return mapped_path(address, path, path_bytes);
  memcpy(path, info.dli_fname, strlen(info.dli_fname) + 1);
  return true;
}
