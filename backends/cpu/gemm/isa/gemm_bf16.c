/* SPDX-License-Identifier: MIT */
/* Matrix products of bf16 by VDPBF16PS, or by BFDOT and BFMMLA (gemm_tile.h): an element of A or B is
 * a word of two neighbours along k, an element of C an f32 sum. */
#define GEMM_ELEMENT       float
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         2
#define GEMM_BF16
#define GEMM_FOLDS 1
/* The multiply-adds have a longer latency than loading two vectors; more sums hide it. */
#define GEMM_MOST_ABREAST 4
#include "gemm_vector.h"

#if defined(__AVX512BF16__)
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define GEMM_PAIRS(x)                  vreinterpretq_bf16_f32((float32x4_t)(x))
#define GEMM_MULTIPLY_ADD(a, b, c)     ((gemm_vector)vbfdotq_f32(c, GEMM_PAIRS(a), GEMM_PAIRS(b)))
#define GEMM_MULTIPLY_SQUARES(a, b, c) ((gemm_vector)vbfmmlaq_f32(c, GEMM_PAIRS(a), GEMM_PAIRS(b)))
#endif
#define GEMM_REPEAT(x) ((gemm_vector)((gemm_word_vector){0} + (x)))
typedef uint32_t gemm_word_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));

#include "gemm_stored_bf16.h"

#include "gemm_finish.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_words_bf16.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_bf16);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_bf16) = {
    .rows = GEMM_ROWS,
    .columns = GEMM_COLUMNS,
    .lanes = GEMM_LANES,
    .abreast = GEMM_MOST_ABREAST,
    .group = GEMM_GROUP,
    .terms = GEMM_TERMS,
    .folds = GEMM_FOLDS,
    .multiply = gemm_multiply,
    .pack_words = gemm_pack_words,
    .pack_rows = gemm_pack_word_rows,
    .word_rows = GEMM_ROWS <= CPU_GEMM_FORESEEN || GEMM_SQUARES,
    .dot = gemm_dot,
    .stream = gemm_stream,
    .finishes = COMPUTE_BF16,
    .sum = gemm_sum,
};
