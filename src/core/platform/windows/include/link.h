/* SPDX-License-Identifier: MIT */
/* The file of an open library. */
#ifndef PLATFORM_LINK_H
#define PLATFORM_LINK_H

#define RTLD_DI_LINKMAP 2
struct link_map {
  const char *l_name; /* absolute, with '/'; valid until this thread's next dlinfo or dladdr */
};

#define dlinfo platform_dlinfo
int dlinfo(void *library, int request, struct link_map **map);

#endif
