/* SPDX-License-Identifier: MIT */
#ifndef COMPUTE_PLATFORM_FILE_PART_H
#define COMPUTE_PLATFORM_FILE_PART_H

#include <stddef.h>

/* The bytes of one call of read or write, of `bytes` that are left. Windows counts them in 32 bits,
 * and Linux ends larger calls early, too. */
static inline unsigned file_part(size_t bytes) {
  const unsigned most = 1u << 30;
  return bytes < most ? (unsigned)bytes : most;
}

#endif
