/* SPDX-License-Identifier: MIT */
/* The vectors of f64 and f32, and their multiply-add. */
#ifndef CPU_GEMM_FLOAT_H
#define CPU_GEMM_FLOAT_H

#if defined(CPU_VARIANT_F64)
#define GEMM_ELEMENT       double
#define GEMM_ELEMENT_BYTES 8
#define GEMM_NATIVE        COMPUTE_F64
#else
#define GEMM_ELEMENT       float
#define GEMM_ELEMENT_BYTES 4
#define GEMM_NATIVE        COMPUTE_F32
#define GEMM_FOLDS         1 /* f64 has digits to spare */
#endif
#include "gemm_vector.h"

/* Contraction is off in the whole project, so multiply-adds are explicit. */
#if defined(__AVX512F__) && GEMM_ELEMENT_BYTES == 8
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX512F__)
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__) && GEMM_ELEMENT_BYTES == 8
#define GEMM_MULTIPLY_ADD(a, b, c) _mm256_fmadd_pd(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#define GEMM_MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#elif defined(__aarch64__) && GEMM_ELEMENT_BYTES == 8
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#elif defined(__aarch64__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#elif defined(__riscv_v) && defined(__clang__)
#define GEMM_MULTIPLY_ADD(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define GEMM_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#endif
