/* SPDX-License-Identifier: MIT */
/* Functions that headers of Emscripten 3.1.6 declare and its C library lacks: they fail. Weak, for
 * libraries of later versions that have them. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#define WEAK __attribute__((weak))

WEAK int dlinfo(void *library, int request, void *result) {
  (void)library;
  (void)request;
  (void)result;
  return -1;
}

WEAK int memfd_create(const char *name, unsigned flags) {
  (void)name;
  (void)flags;
  errno = ENOSYS;
  return -1;
}

WEAK int pthread_setname_np(pthread_t thread, const char *name) {
  (void)thread;
  (void)name;
  return ENOSYS;
}
