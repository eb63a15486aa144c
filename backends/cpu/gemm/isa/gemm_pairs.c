/* SPDX-License-Identifier: MIT */
/* Matrix products of bytes, in pairs widened to 16 bits (gemm_tile.h): an element of A or B is a
 * word of two neighbours along k, an element of C a sum of 32 bits. */
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_GROUP         2
#define GEMM_TERMS         1
#define GEMM_FEW           3
#include "gemm_vector.h"

#if defined(__AVX512BW__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)) + (c))
#elif defined(__AVX2__)
/* Keeps each addition right after its multiplication. Compilers schedule the additions so that they
 * delay other multiplications, which costs a third of the speed (measured on Zen 3). */
#define GEMM_MULTIPLY_ADD(a, b, c)     gemm_add_pairs(a, b, c)
GEMM_INLINE gemm_vector gemm_add_pairs(gemm_vector a, gemm_vector b, gemm_vector c) {
  gemm_vector products;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(c), "=&x"(products) : "x"(a), "x"(b));
  return c;
}

/* Two multiply-adds. They overwrite a, because no register is left for the second products. */
#define GEMM_MULTIPLY_ADD_TWO(a, b, c) gemm_add_two_pairs(a, b, c)
GEMM_INLINE void gemm_add_two_pairs(gemm_vector a, const gemm_vector *b, gemm_vector *c) {
  gemm_vector products;
  __asm__("vpmaddwd %4, %3, %2\n\tvpmaddwd %5, %3, %3\n\tvpaddd %2, %0, %0\n\tvpaddd %3, %1, %1"
          : "+x"(c[0]), "+x"(c[1]), "=&x"(products), "+x"(a)
          : "x"(b[0]), "x"(b[1]));
}
#elif defined(__SSE2__)
#define GEMM_MULTIPLY_ADD(a, b, c) ((gemm_vector)_mm_madd_epi16((__m128i)(a), (__m128i)(b)) + (c))
#elif defined(__aarch64__)
#define GEMM_MULTIPLY_ADD(a, b, c) gemm_add_pairs(a, b, c)
GEMM_INLINE gemm_vector gemm_add_pairs(gemm_vector a, gemm_vector b, gemm_vector c) {
  const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
  const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y)), high = vmull_high_s16(x, y);
  return c + (gemm_vector)vpaddq_s32(low, high);
}
#else
typedef int32_t gemm_signed_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));
#define GEMM_LOW(a)                ((gemm_vector)((gemm_signed_vector)((a) << 16) >> 16))
#define GEMM_HIGH(a)               ((gemm_vector)((gemm_signed_vector)(a) >> 16))
#define GEMM_MULTIPLY_ADD(a, b, c) (GEMM_LOW(a) * GEMM_LOW(b) + GEMM_HIGH(a) * GEMM_HIGH(b) + (c))
#endif

#include "gemm_requantize.h"

#include "gemm_tile.h"

#include "gemm_strip.h"

#include "gemm_pack_words.h"

extern const cpu_gemm_type CPU_SYMBOL(cpu_gemm_pairs);
const cpu_gemm_type CPU_SYMBOL(cpu_gemm_pairs) = {
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
