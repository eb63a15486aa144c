/* SPDX-License-Identifier: MIT */
/* The file of an address, from the loader. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <sys/auxv.h>
#endif

#include "core/platform/library.h"

#ifdef __APPLE__
static const void *program_header(void) {
  return _dyld_get_image_header(0);
}

bool library_loader_works(void) {
  return true; /* the system's library exists as a dynamic one only */
}
#else
static uintptr_t auxiliary(int type) {
  void *value = NULL;
  return elf_aux_info(type, &value, sizeof value) == 0 ? (uintptr_t)value : 0;
}

static const void *program_header(void) {
  return (const void *)auxiliary(AT_PHDR);
}

/* The address of the loader, which a program without one lacks. */
bool library_loader_works(void) {
  return auxiliary(AT_BASE) != 0;
}
#endif

bool library_path_of(const void *address, char *path, size_t path_bytes, bool *in_program) {
  Dl_info found, program;
  *in_program = false;
  if (dladdr(address, &found) == 0 || !found.dli_fname) return false;
  *in_program = dladdr(program_header(), &program) != 0 && program.dli_fbase == found.dli_fbase;
  if (found.dli_fname[0] != '/' || strlen(found.dli_fname) >= path_bytes) return false;
  memcpy(path, found.dli_fname, strlen(found.dli_fname) + 1);
  return true;
}
