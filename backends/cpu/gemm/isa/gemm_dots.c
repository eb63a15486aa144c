/* SPDX-License-Identifier: MIT */
/* Matrix products of bytes by VPDPBUSD, which adds four products of an unsigned and a signed byte
 * (gemm_tile.h): an element of A or B is a word of four neighbours along k. */
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         4
#define GEMM_TERMS         1
#include "gemm_vector.h"

#if defined(__AVX512VNNI__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#else
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm256_dpbusd_avx_epi32((__m256i)(c), (__m256i)(a), (__m256i)(b)))
#endif

#include "gemm_requantize.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_pack_words.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_dots);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_dots) = {
    .rows = GEMM_ROWS,
    .columns = GEMM_COLUMNS,
    .lanes = GEMM_LANES,
    .abreast = GEMM_MOST_ABREAST,
    .group = GEMM_GROUP,
    .terms = GEMM_TERMS,
    .multiply = gemm_multiply,
    .pack_words = gemm_pack_words,
    .pack_rows = gemm_pack_word_rows,
    .word_rows = GEMM_ROWS <= CPU_GEMM_FORESEEN,
    .requantizes = true,
    .sum = gemm_sum,
};
