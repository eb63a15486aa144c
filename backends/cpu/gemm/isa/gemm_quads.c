/* SPDX-License-Identifier: MIT */
/* Matrix products of bytes by VPMADDUBSW (gemm_tile.h): an element of A or B is a word of four
 * neighbours along k, unsigned in A and signed in B. The instruction adds two products in 16 bits.
 * They saturate there unless the two bytes of B are at most 128 in magnitude together.
 *
 * The variant `signs` takes signed bytes of A, at most 128 in magnitude, and moves their signs to B.
 * Its sums are exact if B has no −128: 128 · 127, twice, fits. It takes as many instructions as
 * pairs of words, but B has half their bytes, which pays where few rows read a large B. */
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         4
#define GEMM_TERMS         1
#ifdef CPU_VARIANT_SIGNS
#define GEMM_SIGNED_LEFT
#define GEMM_FEW 3
#endif
#include "gemm_vector.h"

#ifdef CPU_VARIANT_SIGNS
#define GEMM_NAME                  CPU_VARIANT_SYMBOL(cpu_gemm_quads)
#define GEMM_MULTIPLY_ADD(a, b, c) gemm_add_signed(a, b, c)
GEMM_INLINE gemm_vector gemm_add_signed(gemm_vector a, gemm_vector b, gemm_vector c) {
  const __m256i left = (__m256i)a, right = _mm256_sign_epi8((__m256i)b, left);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(left), right);
  return c + (gemm_vector)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
#define GEMM_NAME                      CPU_SYMBOL(cpu_gemm_quads)

/* In memory: the sums leave no register for them. */
static const uint16_t gemm_ones[16]
    __attribute__((aligned(32))) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* In assembly, because compilers move the ones to registers and then the sums to the stack. */
#define GEMM_MULTIPLY_ADD(a, b, c)     gemm_add_quads(a, b, c)
GEMM_INLINE gemm_vector gemm_add_quads(gemm_vector a, gemm_vector b, gemm_vector c) {
  gemm_vector products;
  __asm__("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
          : "+x"(c), "=&x"(products)
          : "x"(a), "x"(b), "m"(gemm_ones));
  return c;
}

/* Two multiply-adds. They overwrite a. */
#define GEMM_MULTIPLY_ADD_TWO(a, b, c) gemm_add_two_quads(a, b, c)
GEMM_INLINE void gemm_add_two_quads(gemm_vector a, const gemm_vector *b, gemm_vector *c) {
  gemm_vector products;
  __asm__("vpmaddubsw %4, %3, %2\n\tvpmaddubsw %5, %3, %3\n\t"
          "vpmaddwd %6, %2, %2\n\tvpmaddwd %6, %3, %3\n\t"
          "vpaddd %2, %0, %0\n\tvpaddd %3, %1, %1"
          : "+x"(c[0]), "+x"(c[1]), "=&x"(products), "+x"(a)
          : "x"(b[0]), "x"(b[1]), "m"(gemm_ones));
}

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
    .word_rows = true,
#ifdef GEMM_SIGNED_LEFT
    .left_signed = true,
#endif
    .requantizes = true,
    .sum = gemm_sum,
};
