/* SPDX-License-Identifier: MIT */
/* Anonymous memory, and private mappings of whole files: what the library needs of mmap. */
#ifndef PLATFORM_SYS_MMAN_H
#define PLATFORM_SYS_MMAN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROT_NONE  0
#define PROT_READ  1
#define PROT_WRITE 2
#define PROT_EXEC  4

#define MAP_SHARED    1
#define MAP_PRIVATE   2
#define MAP_ANONYMOUS 4
#define MAP_NORESERVE 0
#define MAP_STACK     0
#define MAP_FAILED    ((void *)-1)

#define MADV_DONTNEED 4
#define MADV_HUGEPAGE 14

#define mmap     platform_mmap
#define munmap   platform_munmap
#define mprotect platform_mprotect
#define madvise  platform_madvise

#define MFD_CLOEXEC  1
#define memfd_create platform_memfd_create
int memfd_create(const char *name, unsigned flags); /* fails with ENOSYS */

void *mmap(void *address, size_t bytes, int protection, int flags, int file, int64_t offset);
int munmap(void *address, size_t bytes);
int mprotect(void *address, size_t bytes, int protection);
int madvise(void *address, size_t bytes, int advice); /* advice has no effect here */

#endif
