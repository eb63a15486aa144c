/* SPDX-License-Identifier: MIT */
/* The rest of the families of bf16: few rows, and packing. */
#ifndef CPU_GEMM_WORDS_BF16_H
#define CPU_GEMM_WORDS_BF16_H

typedef uint16_t gemm_dot_element; /* block->elements of them along k */

GEMM_INLINE float gemm_dot_rest(const cpu_gemm_block *block, const float *a,
                                const gemm_dot_element *b, int64_t p, float total) {
  gemm_vector left = {0}, right = {0};
  const size_t bytes = (size_t)(block->elements - 2 * p) * sizeof *b;
  if (2 * p == block->elements) return total;
  memcpy(&left, a + p, bytes);
  memcpy(&right, b + 2 * p, bytes);
  left = GEMM_MULTIPLY_ADD(left, right, (gemm_vector){0});
  return total + gemm_sum_lanes(&left);
}

#include "gemm_dot.h"
#include "gemm_pack_words.h"
#ifndef GEMM_AMX
#include "gemm_stream_bf16.h"
#endif

#endif
