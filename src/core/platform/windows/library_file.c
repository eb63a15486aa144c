/* SPDX-License-Identifier: MIT */
/* Checks a library's file before the loader maps it, and finds the file of an address. The checks
 * are those of an ELF file on other systems: it is a library, and no part of it is cut off. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/platform/library.h"
#include "native.h"

typedef struct file_view {
  int descriptor;
  uint64_t bytes;
  char *reason;
  size_t reason_bytes;
} file_view;

static bool refuse(const file_view *file, const char *reason) {
  snprintf(file->reason, file->reason_bytes, "%s", reason);
  return false;
}

static bool read_at(const file_view *file, uint64_t offset, void *data, size_t bytes) {
  if (offset > file->bytes || bytes > file->bytes - offset)
    return refuse(file, "truncated: its headers are cut off");
  return pread(file->descriptor, data, bytes, (int64_t)offset) == (int64_t)bytes ||
         refuse(file, "cannot be read");
}

static bool sections_check(const file_view *file, uint64_t offset, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    IMAGE_SECTION_HEADER section;
    if (!read_at(file, offset + i * sizeof section, &section, sizeof section)) return false;
    const uint64_t end = (uint64_t)section.PointerToRawData + section.SizeOfRawData;
    if (section.SizeOfRawData && end > file->bytes) {
      snprintf(file->reason, file->reason_bytes,
               "truncated: section %u ends past the end of the file's %llu bytes", i,
               (unsigned long long)file->bytes);
      return false;
    }
  }
  return true;
}

static bool content_check(const file_view *file) {
  IMAGE_DOS_HEADER dos;
  if (file->bytes < sizeof dos) return refuse(file, "not a shared library: too short");
  if (!read_at(file, 0, &dos, sizeof dos)) return false;
  if (dos.e_magic != IMAGE_DOS_SIGNATURE || dos.e_lfanew < 0)
    return refuse(file, "not a shared library: it has no PE header");
  struct {
    DWORD signature;
    IMAGE_FILE_HEADER file;
  } header;
  if (!read_at(file, (uint64_t)dos.e_lfanew, &header, sizeof header)) return false;
  if (header.signature != IMAGE_NT_SIGNATURE)
    return refuse(file, "not a shared library: it has no PE header");
  if (!(header.file.Characteristics & IMAGE_FILE_DLL))
    return refuse(file, "not a shared library, but another kind of PE file");
  return sections_check(file,
                        (uint64_t)dos.e_lfanew + sizeof header + header.file.SizeOfOptionalHeader,
                        header.file.NumberOfSections);
}

bool library_file_check(const char *path, char *reason, size_t reason_bytes, int *problem) {
  file_view file = {.reason = reason, .reason_bytes = reason_bytes};
  struct stat status;
  *problem = 0;
  reason[0] = '\0';
  file.descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0) {
    *problem = errno;
    snprintf(reason, reason_bytes, "cannot be opened: %s", strerror(*problem));
  }
  if (file.descriptor < 0) return false;
  bool good = *problem == 0;
  if (good && !S_ISREG(status.st_mode)) {
    good = refuse(&file, "not a regular file");
  } else if (good) {
    file.bytes = (uint64_t)status.st_size;
    good = content_check(&file);
  }
  close(file.descriptor);
  return good;
}

bool library_loader_works(void) {
  return true;
}

bool library_path_of(const void *address, char *path, size_t path_bytes, bool *in_program) {
  Dl_info info;
  *in_program = false;
  if (!dladdr(address, &info)) return false;
  *in_program = info.dli_fbase == (void *)GetModuleHandleW(NULL);
  return snprintf(path, path_bytes, "%s", info.dli_fname) < (int)path_bytes;
}
