/* SPDX-License-Identifier: MIT */
/* The micro-kernel of bytes for AMX, emulated. Its vectors of 64 bytes are made of smaller ones
 * where the machine has none. */
#include "amx_emulated.h"

#define AMX_MULTIPLY(sums, a, b) amx_multiply_bytes(sums, a, b)

typedef uint32_t dots_vector __attribute__((vector_size(64)));

/* VPDPBUSD. */
static inline __attribute__((always_inline)) dots_vector dots(dots_vector a, dots_vector b,
                                                              dots_vector c) {
  for (int lane = 0; lane < 16; lane++) c[lane] = amx_add_dot(c[lane], a[lane], b[lane]);
  return c;
}

#define GEMM_MULTIPLY_ADD(a, b, c) dots((dots_vector)(a), (dots_vector)(b), (dots_vector)(c))

#define CPU_ISA               emulated
#define CPU_VARIANT           amx_bytes
#define CPU_VARIANT_AMX_BYTES 1
#include "gemm/isa/gemm_tile.c"
