/* SPDX-License-Identifier: MIT */
/* Checks a library's file before the loader maps it.
 *
 * The loader trusts the headers of an ELF file. In a truncated copy, a segment extends past the end
 * of the file, and touching the mapping kills the process with SIGBUS. Opening a FIFO with a
 * module's name would hang the process. So this file checks all extents in the headers against the
 * file's size. The loader of macOS checks them itself. */
#include "core/platform/library.h"

#include "compute/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __ELF__
#include <elf.h>
#include <endian.h>
#include <link.h>

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif
#if __SIZEOF_POINTER__ == 8
#define NATIVE_CLASS ELFCLASS64
#else
#define NATIVE_CLASS ELFCLASS32
#endif
#endif

#define CHUNK 32 /* headers read at once, on the stack: this check must not allocate */

typedef struct file_view {
  int descriptor;
  uint64_t bytes;
  char *reason;
  size_t reason_bytes;
  int *problem;
} file_view;

COMPUTE_PRINTF(2, 3) static bool refuse(const file_view *file, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(file->reason, file->reason_bytes, format, list);
  va_end(list);
  return false;
}

/* For a failed system call; `what` is a past participle such as "read". */
static bool refuse_system(const file_view *file, const char *what) {
  *file->problem = errno;
  return refuse(file, "cannot be %s: %s", what, strerror(*file->problem));
}

#ifdef __ELF__
static bool inside(const file_view *file, uint64_t offset, uint64_t bytes) {
  return offset <= file->bytes && bytes <= file->bytes - offset;
}

static bool read_at(const file_view *file, uint64_t offset, void *data, size_t bytes) {
  char *target = data;
  while (bytes > 0) {
    ssize_t got = pread(file->descriptor, target, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse_system(file, "read");
    if (got == 0) return refuse(file, "cannot be read: truncated");
    target += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return true;
}

/* Checks that a table of headers is inside the file. */
static bool table_check(const file_view *file, const char *what, uint64_t offset, uint64_t count,
                        size_t entry_bytes, size_t wanted_bytes) {
  if (entry_bytes != wanted_bytes) {
    return refuse(file, "damaged: its %s have the wrong size", what);
  }
  if (inside(file, offset, count * entry_bytes)) return true;
  return refuse(file, "truncated: its %s lie past the end of its %llu bytes", what,
                (unsigned long long)file->bytes);
}

/* Header `i` of a table of `count`, read through a chunk; NULL if reading fails. */
static const void *header_at(const file_view *file, uint64_t offset, size_t i, size_t count,
                             size_t entry_bytes, void *chunk) {
  if (i % CHUNK == 0) {
    size_t entries = count - i < CHUNK ? count - i : CHUNK;
    if (!read_at(file, offset + i * entry_bytes, chunk, entries * entry_bytes)) return NULL;
  }
  return (const char *)chunk + i % CHUNK * entry_bytes;
}

static bool segments_check(const file_view *file, const ElfW(Ehdr) * header) {
  bool dynamic = false;
  ElfW(Phdr) segments[CHUNK];
  if (!table_check(file, "program headers", header->e_phoff, header->e_phnum, header->e_phentsize,
                   sizeof *segments)) {
    return false;
  }
  for (size_t i = 0; i < header->e_phnum; i++) {
    const ElfW(Phdr) *segment =
        header_at(file, header->e_phoff, i, header->e_phnum, sizeof *segments, segments);
    if (!segment) return false;
    if (segment->p_type == PT_NULL) continue;
    if (segment->p_type == PT_DYNAMIC) dynamic = true;
    if (!inside(file, segment->p_offset, segment->p_filesz)) {
      return refuse(file, "truncated: segment %zu ends past the end of the file's %llu bytes", i,
                    (unsigned long long)file->bytes);
    }
  }
  return dynamic || refuse(file, "not a shared library: no dynamic section");
}

/* Loading does not need sections. But they usually come last in the file, so they reveal a
 * truncation behind the segments. */
static bool sections_check(const file_view *file, const ElfW(Ehdr) * header) {
  if (header->e_shoff == 0 || header->e_shnum == 0) return true;
  ElfW(Shdr) sections[CHUNK];
  if (!table_check(file, "section headers", header->e_shoff, header->e_shnum, header->e_shentsize,
                   sizeof *sections)) {
    return false;
  }
  for (size_t i = 0; i < header->e_shnum; i++) {
    const ElfW(Shdr) *section =
        header_at(file, header->e_shoff, i, header->e_shnum, sizeof *sections, sections);
    if (!section) return false;
    if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL) continue;
    if (!inside(file, section->sh_offset, section->sh_size)) {
      return refuse(file, "truncated: section %zu ends past the end of the file's %llu bytes", i,
                    (unsigned long long)file->bytes);
    }
  }
  return true;
}

static bool content_check(const file_view *file) {
  ElfW(Ehdr) header;
  unsigned char *ident = header.e_ident;
  if (file->bytes < EI_NIDENT) return refuse(file, "not a shared library: too short");
  if (!read_at(file, 0, ident, EI_NIDENT)) return false;
  if (memcmp(ident, ELFMAG, SELFMAG) != 0) {
    return refuse(file, "not a shared library: it has no ELF header");
  }
  if (ident[EI_CLASS] != NATIVE_CLASS || ident[EI_DATA] != NATIVE_DATA) return true;
  if (file->bytes < sizeof header) return refuse(file, "truncated: its header is cut off");
  if (!read_at(file, 0, &header, sizeof header)) return false;
  if (header.e_type != ET_DYN)
    return refuse(file, "not a shared library, but another kind of ELF file");
  return segments_check(file, &header) && sections_check(file, &header);
}
#else
static bool content_check(const file_view *file) {
  (void)file;
  return true;
}
#endif

bool library_file_check(const char *path, char *reason, size_t reason_bytes, int *problem) {
  file_view file = {.reason = reason, .reason_bytes = reason_bytes, .problem = problem};
  struct stat status;
  *problem = 0;
  reason[0] = '\0';
  /* Non-blocking, so that opening a FIFO returns. */
  file.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0) return refuse_system(&file, "opened");
  bool good;
  if (fstat(file.descriptor, &status) != 0) {
    good = refuse_system(&file, "examined");
  } else if (!S_ISREG(status.st_mode)) {
    good = refuse(&file, "not a regular file");
  } else {
    file.bytes = (uint64_t)status.st_size;
    good = content_check(&file);
  }
  close(file.descriptor);
  return good;
}
