/* SPDX-License-Identifier: MIT */
/* WebAssembly has no dynamic libraries: the program is one file. */
#include "core/platform/library.h"

#include <errno.h>
#include <stdio.h>

bool library_loader_works(void) {
  return false;
}

bool library_file_check(const char *path, char *reason, size_t reason_bytes, int *problem) {
  (void)path;
  *problem = ENOSYS;
  snprintf(reason, reason_bytes, "WebAssembly cannot load libraries");
  return false;
}

bool library_path_of(const void *address, char *path, size_t path_bytes, bool *in_program) {
  (void)address;
  (void)path;
  (void)path_bytes;
  *in_program = true;
  return false;
}
