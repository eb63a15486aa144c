/* SPDX-License-Identifier: MIT */
/* Vectors of f32 for loops that keep their sums in registers. */
#ifndef CPU_ISA_FLOATS_H
#define CPU_ISA_FLOATS_H

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "pin.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES                 64
#define MULTIPLY_ADD_FLOATS(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#define VECTOR_BYTES                 32
#define MULTIPLY_ADD_FLOATS(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
#if defined(__riscv_v)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#if defined(__aarch64__)
#define MULTIPLY_ADD_FLOATS(a, b, c)                                                               \
  ((floats)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#elif defined(__riscv_v) && defined(__clang__)
#define MULTIPLY_ADD_FLOATS(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define MULTIPLY_ADD_FLOATS(a, b, c) ((a) * (b) + (c))
#endif
#endif

#define LANES  (VECTOR_BYTES / (int)sizeof(float))
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef float floats_at __attribute__((vector_size(VECTOR_BYTES), aligned(4)));

#endif
