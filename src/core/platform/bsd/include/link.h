/* SPDX-License-Identifier: MIT */
/* macOS: the loader does not tell the file of a library. */
#ifndef PLATFORM_LINK_H
#define PLATFORM_LINK_H

#pragma GCC system_header
#if __has_include_next(<link.h>)
#include_next <link.h>
#else
#include <stddef.h>

#define RTLD_DI_LINKMAP 2
struct link_map {
  const char *l_name;
};

static inline int dlinfo(void *library, int request, struct link_map **map) {
  (void)library;
  (void)request;
  *map = NULL;
  return -1;
}
#endif

#endif
