/* SPDX-License-Identifier: MIT */
/* Copies of a few bytes, without a call of memcpy. */
#ifndef CPU_CORE_MOVE_H
#define CPU_CORE_MOVE_H

#include <stddef.h>
#include <string.h>

enum { CPU_MOVE_MOST = 128 };

/* Copies `size` to 2 · `size` bytes in two moves, which may overlap. `size` is a constant, at most
 * 64. */
static inline void cpu_move_two(unsigned char *to, const unsigned char *from, size_t bytes,
                                size_t size) {
  unsigned char head[CPU_MOVE_MOST / 2], tail[CPU_MOVE_MOST / 2];
  memcpy(head, from, size);
  memcpy(tail, from + bytes - size, size);
  memcpy(to, head, size);
  memcpy(to + bytes - size, tail, size);
}

/* Copies 1 … CPU_MOVE_MOST bytes. */
static inline void cpu_move(unsigned char *to, const unsigned char *from, size_t bytes) {
  if (bytes >= 64)
    cpu_move_two(to, from, bytes, 64);
  else if (bytes >= 32)
    cpu_move_two(to, from, bytes, 32);
  else if (bytes >= 16)
    cpu_move_two(to, from, bytes, 16);
  else if (bytes >= 8)
    cpu_move_two(to, from, bytes, 8);
  else if (bytes >= 4)
    cpu_move_two(to, from, bytes, 4);
  else if (bytes >= 2)
    cpu_move_two(to, from, bytes, 2);
  else
    *to = *from;
}

/* Copies 1 byte or more. */
static inline void cpu_move_any(unsigned char *to, const unsigned char *from, size_t bytes) {
  if (bytes <= CPU_MOVE_MOST)
    cpu_move(to, from, bytes);
  else
    memcpy(to, from, bytes);
}

#endif
