/* SPDX-License-Identifier: MIT */
/* The one value of Linux's auxiliary vector that this tree asks for. */
#ifndef PLATFORM_SYS_AUXV_H
#define PLATFORM_SYS_AUXV_H

#pragma GCC system_header
#if __has_include_next(<sys/auxv.h>)
#include_next <sys/auxv.h>
#endif
#include <unistd.h>

#define AT_SECURE 23
static inline unsigned long getauxval(unsigned long type) {
  return type == AT_SECURE && issetugid() != 0;
}

#endif
