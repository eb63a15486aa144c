/* SPDX-License-Identifier: MIT */
/* Matrix products of bf16 in tile registers (gemm_amx.h), which keep the sums of 32 products
 * separate, so parts of k need no sums. */
#define GEMM_ELEMENT       float
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         2
#define GEMM_BF16
#define GEMM_AMX
#define GEMM_ROWS         16
#define GEMM_MOST_ABREAST 1
#include "gemm_vector.h"

#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define GEMM_REPEAT(x)             ((gemm_vector)((gemm_word_vector){0} + (x)))
typedef uint32_t gemm_word_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));

#include "gemm_stored_bf16.h"

#include "gemm_finish.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_words_bf16.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_amx_bf16);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_amx_bf16) = {
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
    .dot = gemm_dot,
    .finishes = COMPUTE_BF16,
    .sum = gemm_sum,
};
