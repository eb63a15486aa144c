/* SPDX-License-Identifier: MIT */
/* Matrix products of bytes in tile registers (gemm_amx.h); few rows use vectors, as gemm_dots.c. */
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         4
#define GEMM_TERMS         1
#define GEMM_AMX
#define GEMM_ROWS         16
#define GEMM_MOST_ABREAST 1
#include "gemm_vector.h"

#ifndef GEMM_MULTIPLY_ADD /* a test has defined it */
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#endif

#include "gemm_requantize.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_pack_words.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_amx_bytes);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_amx_bytes) = {
    .rows = GEMM_ROWS,
    .columns = GEMM_COLUMNS,
    .lanes = GEMM_LANES,
    .abreast = GEMM_MOST_ABREAST,
    .group = GEMM_GROUP,
    .terms = GEMM_TERMS,
    .multiply = gemm_multiply,
    .pack_words = gemm_pack_words,
    .pack_rows = gemm_pack_word_rows,
    .word_rows = true,
    .requantizes = true,
    .sum = gemm_sum,
};
