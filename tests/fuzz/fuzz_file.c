/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

const char *fuzz_file(const void *data, size_t size) {
  static char path[64];
  static int file = -1;
  if (file < 0) {
    file = memfd_create("fuzz", 0);
    FUZZ_CHECK(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  }
  FUZZ_CHECK(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
  return path;
}
