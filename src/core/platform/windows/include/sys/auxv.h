/* SPDX-License-Identifier: MIT */
/* Windows starts no program with more rights than its caller's. */
#ifndef PLATFORM_SYS_AUXV_H
#define PLATFORM_SYS_AUXV_H

#define AT_SECURE 23
static inline unsigned long getauxval(unsigned long type) {
  (void)type;
  return 0;
}

#endif
