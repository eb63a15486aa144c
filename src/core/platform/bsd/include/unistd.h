/* SPDX-License-Identifier: MIT */
/* The names of GNU's C library that these systems lack. */
#ifndef PLATFORM_UNISTD_H
#define PLATFORM_UNISTD_H

#pragma GCC system_header
#include_next <unistd.h>

/* They do not tell how many pages are free; all count as free. */
#ifndef _SC_AVPHYS_PAGES
#define _SC_AVPHYS_PAGES _SC_PHYS_PAGES
#endif

#ifdef __APPLE__
#include <crt_externs.h>

#define environ   (*_NSGetEnviron()) /* the variable exists in programs only */
#define fdatasync fsync
#else
extern char **environ;
#endif

#endif
