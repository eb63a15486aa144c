/* SPDX-License-Identifier: MIT */
/* Matrix products of bytes by instructions that add four products (gemm_tile.h): an element of A or
 * B is a word of four neighbours along k. VPDPBUSD and, in the variant i8mm, USDOT multiply an
 * unsigned byte of A by a signed byte of B. SDOT multiplies signed bytes. */
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         4
#define GEMM_TERMS         1
#include "gemm_vector.h"

#if defined(__AVX512VNNI__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#elif defined(__AVXVNNI__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm256_dpbusd_avx_epi32((__m256i)(c), (__m256i)(a), (__m256i)(b)))
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)vusdotq_s32((int32x4_t)(c), (uint8x16_t)(a), (int8x16_t)(b)))
#define GEMM_MULTIPLY_SQUARES(a, b, c)                                                             \
  ((gemm_vector)vusmmlaq_s32((int32x4_t)(c), (uint8x16_t)(a), (int8x16_t)(b)))
#elif defined(__ARM_FEATURE_DOTPROD)
#define GEMM_SIGNED_LEFT
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)vdotq_s32((int32x4_t)(c), (int8x16_t)(a), (int8x16_t)(b)))
#else
#error "no dot products of bytes"
#endif

#ifdef CPU_VARIANT
#define GEMM_NAME CPU_VARIANT_SYMBOL(cpu_gemm_dots)
#else
#define GEMM_NAME CPU_SYMBOL(cpu_gemm_dots)
#endif

#include "gemm_requantize.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_pack_words.h"

extern const cpu_gemm_type GEMM_NAME;
const cpu_gemm_type GEMM_NAME = {
    .rows = GEMM_ROWS,
    .columns = GEMM_COLUMNS,
    .lanes = GEMM_LANES,
    .abreast = GEMM_MOST_ABREAST,
    .group = GEMM_GROUP,
    .terms = GEMM_TERMS,
    .multiply = gemm_multiply,
    .pack_words = gemm_pack_words,
    .pack_rows = gemm_pack_word_rows,
    .word_rows = GEMM_ROWS <= CPU_GEMM_FORESEEN || GEMM_SQUARES,
#ifdef GEMM_SIGNED_LEFT
    .left_signed = true,
#endif
    .requantizes = true,
    .sum = gemm_sum,
};
