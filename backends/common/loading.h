/* SPDX-License-Identifier: MIT */
/* Brackets around loader calls (dlopen, dlsym, dlclose), so that a fork on another thread waits for
 * their end. The core brackets `open` and `device_open` itself; a module uses these for later
 * calls. Begin before taking any lock that the module keeps locked during the call. */
#ifndef COMMON_LOADING_H
#define COMMON_LOADING_H

#include <stddef.h>

#include "compute/backend.h"

/* A core older than these services has no brackets. */
static inline void loading_begin(const compute_services *services) {
  const size_t needed = offsetof(compute_services, load_end) + sizeof services->load_end;
  if (services->struct_size >= needed && services->load_begin) services->load_begin(services->host);
}

static inline void loading_end(const compute_services *services) {
  const size_t needed = offsetof(compute_services, load_end) + sizeof services->load_end;
  if (services->struct_size >= needed && services->load_end) services->load_end(services->host);
}

#endif
