/* SPDX-License-Identifier: MIT */
/* Memory by pages, and private mappings of files: copy on write, as on other systems. A mapped file
 * cannot be made shorter by others, but it can be replaced by a rename. */
#include <io.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/platform/aligned.h"
#include "native.h"

static DWORD protection_of(int protection) {
  if (protection & PROT_EXEC)
    return protection & PROT_WRITE ? PAGE_EXECUTE_READWRITE : PAGE_EXECUTE_READ;
  return protection & PROT_WRITE ? PAGE_READWRITE : protection ? PAGE_READONLY : PAGE_NOACCESS;
}

static void *map_file(size_t bytes, int file, int64_t offset) {
  HANDLE mapping =
      CreateFileMappingW((HANDLE)_get_osfhandle(file), NULL, PAGE_WRITECOPY, 0, 0, NULL);
  if (!mapping) return NULL;
  void *data =
      MapViewOfFile(mapping, FILE_MAP_COPY, (DWORD)((uint64_t)offset >> 32), (DWORD)offset, bytes);
  CloseHandle(mapping);
  return data;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, int64_t offset) {
  void *data;
  if (flags & MAP_ANONYMOUS)
    data = VirtualAlloc(address, bytes, MEM_RESERVE | MEM_COMMIT, protection_of(protection));
  else
    data = map_file(bytes, file, offset);
  if (data) return data;
  native_failed();
  return MAP_FAILED;
}

int munmap(void *address, size_t bytes) {
  (void)bytes;
  MEMORY_BASIC_INFORMATION facts;
  if (!VirtualQuery(address, &facts, sizeof facts)) return native_failed();
  const BOOL gone =
      facts.Type == MEM_MAPPED ? UnmapViewOfFile(address) : VirtualFree(address, 0, MEM_RELEASE);
  return gone ? 0 : native_failed();
}

int mprotect(void *address, size_t bytes, int protection) {
  DWORD before;
  return VirtualProtect(address, bytes, protection_of(protection), &before) ? 0 : native_failed();
}

int memfd_create(const char *name, unsigned flags) {
  (void)name;
  (void)flags;
  errno = ENOSYS;
  return -1;
}

int madvise(void *address, size_t bytes, int advice) {
  (void)address;
  (void)bytes;
  (void)advice;
  return 0;
}

/* ---- Aligned blocks -------------------------------------------------------------------------- */

/* The start of a block lies before its data. calloc need not clear fresh memory, so a large block
 * costs nothing until its first use. */
static void *take(size_t alignment, size_t bytes, bool cleared) {
  const size_t head = alignment + sizeof(void *);
  if (bytes > SIZE_MAX - head) return NULL;
  void *start = cleared ? calloc(1, bytes + head) : malloc(bytes + head);
  if (!start) return NULL;
  const uintptr_t data = ((uintptr_t)start + head) & ~(uintptr_t)(alignment - 1);
  ((void **)data)[-1] = start;
  return (void *)data;
}

void *aligned_take(size_t alignment, size_t bytes) {
  return take(alignment, bytes, false);
}

void *aligned_take_cleared(size_t bytes) {
  return take(2 * sizeof(void *), bytes, true);
}

void aligned_give(void *data) {
  if (data) free(((void **)data)[-1]);
}
