/* SPDX-License-Identifier: MIT */
/* Brackets around calls of the loader (dlopen, dlsym, dlclose) that a module makes later than in
 * `open` and `device_open`, which the core brackets itself: a fork on another thread waits for
 * their end. They come before any lock of the module that is held meanwhile. */
#ifndef COMMON_LOADING_H
#define COMMON_LOADING_H

#include <stddef.h>

#include "compute/backend.h"

/* A core before the services has no brackets. */
static inline void loading_begin(const compute_services *services) {
  const size_t needed = offsetof(compute_services, load_end) + sizeof services->load_end;
  if (services->struct_size >= needed && services->load_begin) services->load_begin(services->host);
}

static inline void loading_end(const compute_services *services) {
  const size_t needed = offsetof(compute_services, load_end) + sizeof services->load_end;
  if (services->struct_size >= needed && services->load_end) services->load_end(services->host);
}

#endif
