/* SPDX-License-Identifier: MIT */
/* The vectors and the size of the register tile of a family of micro-kernels.
 *
 * The family's file defines GEMM_ELEMENT, the computing type, and GEMM_ELEMENT_BYTES. Integers are
 * unsigned, so that overflow wraps. These have defaults:
 * - GEMM_GROUP: neighbours along k in one element of A or B, a word of 32 bits; 1.
 * - GEMM_ROWS: rows of the tile.
 * - GEMM_FEW: tiles of at most this many rows prefetch B.
 * - GEMM_MOST_ABREAST: packed panels that are read side by side for one row of A.
 * - GEMM_FOLDS: 1 if parts of k are summed separately; 0.
 * - GEMM_TERMS: 1 if a line of terms follows the lines of k in slivers and panels; 0.
 *
 * A tile of C of up to GEMM_ROWS rows and two vectors of columns stays in registers while k runs.
 * Each step of k loads two vectors of B, and broadcasts one element of A per row. This needs 12
 * sums with 16 registers (AVX2: 6 × 16 f32), and 24 or 28 sums with 32 registers (NEON: 12 × 8,
 * AVX-512: 14 × 32). 8 sums would hide the latency of two multiply-adds per cycle.
 *
 * Vectors are GCC's, 16 bytes wide without AVX. On RISC-V, vectors of 32 bytes are pairs of
 * registers of 16 bytes or more, so they serve every width of register: 16 pairs, as with AVX2. A test may set GEMM_ROWS, to test AVX-512 tile
 * heights on a machine without AVX-512. */
#ifndef CPU_GEMM_VECTOR_H
#define CPU_GEMM_VECTOR_H

#include <stddef.h>
#include <string.h>

#include "gemm_table.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__) || defined(GEMM_AMX)
#define GEMM_VECTOR_BYTES 64
#elif defined(__AVX2__) || defined(__riscv_v)
#define GEMM_VECTOR_BYTES 32
#else
#define GEMM_VECTOR_BYTES 16
#endif

#ifndef GEMM_GROUP
#define GEMM_GROUP 1
#endif

#if defined(GEMM_ROWS)
/* The family or a test has set the height. */
#elif GEMM_VECTOR_BYTES == 64
#define GEMM_ROWS 14
#elif defined(__aarch64__)
#define GEMM_ROWS 12
#else
#define GEMM_ROWS 6
#endif
#define GEMM_LANES   ((int)(GEMM_VECTOR_BYTES / sizeof(GEMM_ELEMENT)))
#define GEMM_COLUMNS (2 * GEMM_LANES)

/* Tiles of at most GEMM_FEW rows read B faster than memory delivers it, so they prefetch it
 * GEMM_FAR elements ahead. The full tile of AVX2 does not prefetch: it has only 12 multiply-adds
 * per step of k, so any other instruction costs time if a hyperthread shares the core. Its loop is
 * unrolled for the same reason. */
#if !defined(GEMM_FEW)
#if GEMM_VECTOR_BYTES == 32
#define GEMM_FEW 3
#else
#define GEMM_FEW 8
#endif
#endif
enum { GEMM_FAR = 4096 / sizeof(GEMM_ELEMENT) };

/* With AVX2, four runs of memory arrived half as fast again as one run with explicit prefetches. */
#if !defined(GEMM_MOST_ABREAST)
#if GEMM_VECTOR_BYTES == 32
#define GEMM_MOST_ABREAST 4
#else
#define GEMM_MOST_ABREAST 1
#endif
#endif

#ifndef GEMM_FOLDS
#define GEMM_FOLDS 0
#endif
#ifndef GEMM_TERMS
#define GEMM_TERMS 0
#endif

#define GEMM_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define GEMM_UNROLL  _Pragma("unroll")
#define GEMM_BY_FOUR _Pragma("unroll 4")
#else
#define GEMM_UNROLL  _Pragma("GCC unroll 32")
#define GEMM_BY_FOUR _Pragma("GCC unroll 4")
#endif
#if GEMM_VECTOR_BYTES == 32
#define GEMM_STEPS GEMM_BY_FOUR
#else
#define GEMM_STEPS
#endif

/* True for tiles with room for one more prefetch per step of k, for block->ahead. */
#define GEMM_ASKS(rows, vectors) (GEMM_VECTOR_BYTES == 64 && (rows) > 5 && (vectors) == 2)

#define GEMM_MAX_VECTORS 8

/* Fourteen rows need fourteen addresses, but there are fewer registers. So one pointer serves three
 * rows; the other two are one and two strides further, within x86 addressing modes. Without this
 * barrier gcc undoes the grouping and keeps fourteen offsets on the stack. */
#define GEMM_FORGET(pointer) __asm__("" : "+r"(pointer))

typedef GEMM_ELEMENT gemm_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));
typedef GEMM_ELEMENT gemm_vector_at /* at any element's address */
    __attribute__((vector_size(GEMM_VECTOR_BYTES), aligned(__alignof__(GEMM_ELEMENT))));
#if GEMM_GROUP > 1
typedef uint32_t gemm_element_at __attribute__((aligned(1), may_alias)); /* words of A in place */
#else
typedef GEMM_ELEMENT gemm_element_at;
#endif

#endif
