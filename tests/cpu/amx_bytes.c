/* SPDX-License-Identifier: MIT */
/* The emulated AMX micro-kernel of bytes. On machines without vectors of 64 bytes, the compiler
 * builds them from smaller ones. */
#include "amx_emulated.h"

#define AMX_MULTIPLY(sums, a, b) amx_multiply_bytes(sums, a, b)

typedef uint32_t dots_vector __attribute__((vector_size(64)));

/* Emulates VPDPBUSD. */
static inline __attribute__((always_inline)) dots_vector dots(dots_vector a, dots_vector b,
                                                              dots_vector c) {
  for (int lane = 0; lane < 16; lane++) c[lane] = amx_add_dot(c[lane], a[lane], b[lane]);
  return c;
}

#define GEMM_MULTIPLY_ADD(a, b, c) dots((dots_vector)(a), (dots_vector)(b), (dots_vector)(c))

#define CPU_ISA emulated
#include "gemm/isa/gemm_amx_bytes.c"
