/* SPDX-License-Identifier: MIT */
/* Multiply-adds of packs of floats, with one rounding where the instruction set has it. */
#ifndef CPU_PROGRAM_MADD_H
#define CPU_PROGRAM_MADD_H

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "element.h"

/* a b + c, and c − a b. */
#if defined(__AVX512F__) && defined(CPU_VARIANT_F32)
#define MADD(a, b, c)  ((pack)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define NMADD(a, b, c) ((pack)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined(__AVX512F__)
#define MADD(a, b, c)  ((pack)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define NMADD(a, b, c) ((pack)_mm512_fnmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined(__FMA__) && defined(CPU_VARIANT_F32)
#define MADD(a, b, c)  ((pack)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define NMADD(a, b, c) ((pack)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#elif defined(__FMA__)
#define MADD(a, b, c)  ((pack)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define NMADD(a, b, c) ((pack)_mm256_fnmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#elif defined(__aarch64__) && defined(CPU_VARIANT_F32)
#define MADD(a, b, c)  ((pack)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define NMADD(a, b, c) ((pack)vfmsq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#elif defined(__aarch64__)
#define MADD(a, b, c)  ((pack)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#define NMADD(a, b, c) ((pack)vfmsq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define MADD(a, b, c)  ((a) * (b) + (c))
#define NMADD(a, b, c) ((c) - (a) * (b))
#endif

/* The same of single elements, with the same rounding. */
#if defined(__FMA__) || defined(__aarch64__)
#if defined(CPU_VARIANT_F32)
#define ONE_MADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define ONE_MADD(a, b, c) __builtin_fma(a, b, c)
#endif
#else
#define ONE_MADD(a, b, c) ((a) * (b) + (c))
#endif

#endif
