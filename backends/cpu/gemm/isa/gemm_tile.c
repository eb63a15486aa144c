/* SPDX-License-Identifier: MIT */
/* Register-blocked matrix product: the one source of every micro-kernel.
 *
 * Compiled once per instruction set and element type (core/isa.h). GEMM_ELEMENT is the computing
 * type; integers are unsigned, so that overflow wraps. GEMM_MULTIPLY_ADD(a, b, c) is the vector
 * instruction for a·b + c, if there is one.
 *
 * A tile of C of up to GEMM_ROWS rows and two vectors of columns stays in registers while k runs.
 * Each step of k loads two vectors of B, and broadcasts one element of A per row. This needs 12
 * sums with 16 registers (AVX2: 6 × 16 f32), and 24 or 28 sums with 32 registers (NEON: 12 × 8,
 * AVX-512: 14 × 32). 8 sums would hide the latency of two multiply-adds per cycle.
 *
 * A may have any strides, since its elements are broadcast anyway. The hardware prefetches six rows
 * as six runs of memory, so there packing A is at most a copy of rows. It cannot follow twelve
 * rows, so these are packed tile by tile, in the order of use ("slivers"). Fourteen rows take so
 * long per step of k that they are packed only if they compete for few cache sets. B's columns must
 * be contiguous in panels.
 *
 * Elements are summed in the order of k for every tile shape, so results do not depend on the tiles
 * of C. The error of one running sum of floats grows with k (6e-4 for 100,000 equal elements in
 * f32). So parts of k are summed separately, and then added to the sums of earlier parts in the L1
 * cache.
 *
 * Vectors are GCC's, 16 bytes wide without AVX. A test may set GEMM_ROWS, to test AVX-512 tile
 * heights on a machine without AVX-512. */
#include <stddef.h>
#include <string.h>

#include "gemm_table.h"

/* Multiplies in tile registers (gemm_amx.h); all else is as in bf16 and dots. */
#if defined(CPU_VARIANT_AMX_BYTES) || defined(CPU_VARIANT_AMX_BF16)
#define GEMM_AMX
#endif
#ifdef CPU_VARIANT_AMX_BF16
#define CPU_VARIANT_BF16 1
#endif

#if defined(CPU_VARIANT_F64)
#define GEMM_ELEMENT       double
#define GEMM_ELEMENT_BYTES 8
#define GEMM_NATIVE        COMPUTE_F64
#elif defined(CPU_VARIANT_F32)
#define GEMM_ELEMENT       float
#define GEMM_ELEMENT_BYTES 4
#define GEMM_NATIVE        COMPUTE_F32
#define GEMM_FINISHES      COMPUTE_F32
#elif defined(CPU_VARIANT_BF16)
/* An element of A or B is a word of two bf16, neighbours along k; an element of C is an f32 sum. */
#define GEMM_ELEMENT       float
#define GEMM_ELEMENT_BYTES 4
#define GEMM_FINISHES      COMPUTE_BF16
#define GEMM_GROUP         2
#elif defined(CPU_VARIANT_I64)
#define GEMM_ELEMENT       uint64_t
#define GEMM_ELEMENT_BYTES 8
#define GEMM_NATIVE        COMPUTE_I64
#define GEMM_INTEGER
#elif defined(CPU_VARIANT_I32)
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#define GEMM_NATIVE        COMPUTE_I32
#define GEMM_INTEGER
#elif defined(CPU_VARIANT_PAIRS) || defined(CPU_VARIANT_DOTS) || defined(CPU_VARIANT_AMX_BYTES)
/* 8-bit integers: an element of A or B is a word of neighbours along k, an element of C a sum. */
#define GEMM_REQUANTIZES
#define GEMM_ELEMENT       uint32_t
#define GEMM_ELEMENT_BYTES 4
#ifdef CPU_VARIANT_PAIRS
#define GEMM_GROUP 2
#else
#define GEMM_GROUP 4
#endif
#endif

#if defined(__AVX2__) && (defined(GEMM_GROUP) || !defined(GEMM_INTEGER))
#include <immintrin.h>
#elif defined(__SSE2__) && defined(GEMM_GROUP)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(GEMM_INTEGER) || defined(GEMM_MULTIPLY_ADD)
/* No such instruction, or a test has defined it. */
#elif defined(CPU_VARIANT_BF16)
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#elif defined(CPU_VARIANT_DOTS) || defined(CPU_VARIANT_AMX_BYTES)
#if defined(__AVX512VNNI__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#else
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm256_dpbusd_avx_epi32((__m256i)(c), (__m256i)(a), (__m256i)(b)))
#endif
#elif defined(CPU_VARIANT_PAIRS)
#if defined(__AVX512BW__)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)) + (c))
#elif defined(__AVX2__)
#define GEMM_MULTIPLY_ADD(a, b, c) gemm_add_products(a, b, c)
#elif defined(__SSE2__)
#define GEMM_MULTIPLY_ADD(a, b, c) ((gemm_vector)_mm_madd_epi16((__m128i)(a), (__m128i)(b)) + (c))
#elif defined(__aarch64__)
#define GEMM_MULTIPLY_ADD(a, b, c) gemm_add_products(a, b, c)
#else
#define GEMM_LOW(a)                ((gemm_vector)((gemm_signed_vector)((a) << 16) >> 16))
#define GEMM_HIGH(a)               ((gemm_vector)((gemm_signed_vector)(a) >> 16))
#define GEMM_MULTIPLY_ADD(a, b, c) (GEMM_LOW(a) * GEMM_LOW(b) + GEMM_HIGH(a) * GEMM_HIGH(b) + (c))
#endif
#elif defined(__AVX512F__)
#if defined(CPU_VARIANT_F64)
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_fmadd_pd(a, b, c)
#else
#define GEMM_MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#endif
#elif defined(__AVX2__) && defined(__FMA__)
#if defined(CPU_VARIANT_F64)
#define GEMM_MULTIPLY_ADD(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
#define GEMM_MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#endif
#elif defined(__aarch64__)
#if defined(CPU_VARIANT_F64)
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define GEMM_MULTIPLY_ADD(a, b, c)                                                                 \
  ((gemm_vector)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#endif
#endif

#if defined(__AVX512F__) || defined(GEMM_AMX)
#define GEMM_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define GEMM_VECTOR_BYTES 32
#else
#define GEMM_VECTOR_BYTES 16
#endif

#if defined(GEMM_ROWS)
/* A test has set the height. */
#elif defined(GEMM_AMX)
#define GEMM_ROWS 16
#elif GEMM_VECTOR_BYTES == 64
#define GEMM_ROWS 14
#elif defined(__aarch64__) && !defined(CPU_VARIANT_I64) /* i64 has no vector multiplication */
#define GEMM_ROWS 12
#else
#define GEMM_ROWS 6
#endif
#define GEMM_LANES   ((int)(GEMM_VECTOR_BYTES / sizeof(GEMM_ELEMENT)))
#define GEMM_COLUMNS (2 * GEMM_LANES)

/* Contraction is off in the whole project, so multiply-adds are explicit. */
#ifndef GEMM_MULTIPLY_ADD
#define GEMM_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* Tiles of at most this many rows read B faster than memory delivers it, so they prefetch it
 * GEMM_FAR elements ahead. The full tile of AVX2 does not prefetch: it has only 12 multiply-adds
 * per step of k, so any other instruction costs time if a hyperthread shares the core. Its loop is
 * unrolled for the same reason. */
#if GEMM_VECTOR_BYTES == 32 || defined(CPU_VARIANT_PAIRS)
#define GEMM_FEW 3
#else
#define GEMM_FEW 8
#endif
enum { GEMM_FAR = 4096 / sizeof(GEMM_ELEMENT) };

#define GEMM_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define GEMM_UNROLL  _Pragma("unroll")
#define GEMM_BY_FOUR _Pragma("unroll 4")
#else
#define GEMM_UNROLL  _Pragma("GCC unroll 32")
#define GEMM_BY_FOUR _Pragma("GCC unroll 4")
#endif
#if GEMM_VECTOR_BYTES == 32
#define GEMM_STEPS GEMM_BY_FOUR
#else
#define GEMM_STEPS
#endif

/* True for tiles with room for one more prefetch per step of k, for block->ahead. */
#define GEMM_ASKS(rows, vectors) (GEMM_VECTOR_BYTES == 64 && (rows) > 5 && (vectors) == 2)

typedef GEMM_ELEMENT gemm_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));
#ifdef GEMM_LOW
typedef int32_t gemm_signed_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));
#endif
typedef GEMM_ELEMENT gemm_vector_at /* at any element's address */
    __attribute__((vector_size(GEMM_VECTOR_BYTES), aligned(__alignof__(GEMM_ELEMENT))));

#if defined(CPU_VARIANT_PAIRS) && defined(__AVX2__) && !defined(__AVX512BW__)
/* Keeps each addition right after its multiplication. Compilers schedule the additions so that they
 * delay other multiplications, which costs a third of the speed (measured on Zen 3). */
GEMM_INLINE gemm_vector gemm_add_products(gemm_vector a, gemm_vector b, gemm_vector c) {
  gemm_vector products;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(c), "=&x"(products) : "x"(a), "x"(b));
  return c;
}

/* Two multiply-adds. They overwrite a, because no register is left for the second products. */
#define GEMM_MULTIPLY_ADD_TWO
GEMM_INLINE void gemm_add_two_products(gemm_vector a, const gemm_vector *b, gemm_vector *c) {
  gemm_vector products;
  __asm__("vpmaddwd %4, %3, %2\n\tvpmaddwd %5, %3, %3\n\tvpaddd %2, %0, %0\n\tvpaddd %3, %1, %1"
          : "+x"(c[0]), "+x"(c[1]), "=&x"(products), "+x"(a)
          : "x"(b[0]), "x"(b[1]));
}
#endif

#if defined(CPU_VARIANT_PAIRS) && defined(__aarch64__)
GEMM_INLINE gemm_vector gemm_add_products(gemm_vector a, gemm_vector b, gemm_vector c) {
  const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
  const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y)), high = vmull_high_s16(x, y);
  return c + (gemm_vector)vpaddq_s32(low, high);
}
#endif

#ifdef GEMM_GROUP
typedef uint32_t gemm_element_at __attribute__((aligned(1), may_alias)); /* words of A in place */
#else
typedef GEMM_ELEMENT gemm_element_at;
#endif

/* Broadcasts an element of A to every lane. */
#ifdef CPU_VARIANT_BF16
#define GEMM_REPEAT(x) ((gemm_vector)((gemm_word_vector){0} + (x)))
typedef uint32_t gemm_word_vector __attribute__((vector_size(GEMM_VECTOR_BYTES)));
#else
#define GEMM_REPEAT(x) ((x) - (gemm_vector){0})
#endif

#define GEMM_MAX_VECTORS 8

/* The packed panels that multiply reads side by side for one row of A. With AVX2, four runs of
 * memory arrived half as fast again as one run with explicit prefetches. bf16 multiply-adds have a
 * longer latency than loading two vectors; more sums hide it. */
#if GEMM_VECTOR_BYTES == 32 || (defined(CPU_VARIANT_BF16) && !defined(GEMM_AMX))
#define GEMM_MOST_ABREAST 4
#else
#define GEMM_MOST_ABREAST 1
#endif

/* Lines of a sliver or panel after the lines of k: a number for each row or column, added to its
 * sums. */
#ifdef GEMM_REQUANTIZES
#define GEMM_TERMS 1
#else
#define GEMM_TERMS 0
#endif

/* Fourteen rows need fourteen addresses, but there are fewer registers. So one pointer serves three
 * rows; the other two are one and two strides further, within x86 addressing modes. Without this
 * barrier gcc undoes the grouping and keeps fourteen offsets on the stack. */
#define GEMM_FORGET(pointer) __asm__("" : "+r"(pointer))

#include "gemm_sums.h"

#include "gemm_finish.h"

#ifdef GEMM_AMX
#include "gemm_amx.h"
#endif

/* Memory layouts of A and B:
 * - GEMM_STRIDED: any strides.
 * - GEMM_LISTED: B's rows at the offsets of block->b_rows.
 * - GEMM_DENSE: A contiguous along k (a_k = 1) and B in a packed panel (b_k = GEMM_COLUMNS), which
 * makes the strides constants.
 * - GEMM_RUNS: the same in several runs.
 * - GEMM_SPREAD: as GEMM_RUNS, with A's rows at the offsets of block->a_rows.
 * - GEMM_ABREAST: B in several packed panels, which are read side by side. */
typedef enum gemm_layout {
  GEMM_STRIDED,
  GEMM_LISTED,
  GEMM_DENSE,
  GEMM_RUNS,
  GEMM_SPREAD,
  GEMM_ABREAST
} gemm_layout;

/* The offset of vector v in a row of B. */
GEMM_INLINE int64_t gemm_vector_place(const gemm_layout layout, const cpu_gemm_block *block,
                                      int v) {
  return layout == GEMM_ABREAST ? v / 2 * block->b_column + v % 2 * GEMM_LANES : v * GEMM_LANES;
}

/* Multiplies an element of A by a row of B. */
GEMM_INLINE void gemm_add_row(const int vectors, gemm_vector left, const gemm_vector *right,
                              gemm_vector *sum) {
#ifdef GEMM_MULTIPLY_ADD_TWO
  GEMM_UNROLL
  for (int v = 0; v + 1 < vectors; v += 2) gemm_add_two_products(left, right + v, sum + v);
  if (vectors == 1) sum[0] = GEMM_MULTIPLY_ADD(left, right[0], sum[0]);
#else
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) sum[v] = GEMM_MULTIPLY_ADD(left, right[v], sum[v]);
#endif
}

/* GEMM_FOLDS is 1 if parts of k of GEMM_PART elements are summed separately. AMX keeps the sums of
 * 32 products separate anyway, integers are exact, and f64 has digits to spare. */
#if (defined(CPU_VARIANT_F32) || defined(CPU_VARIANT_BF16)) && !defined(GEMM_AMX)
#define GEMM_FOLDS 1
#else
#define GEMM_FOLDS 0
#endif
enum { GEMM_PART = 256, GEMM_WHOLE = GEMM_PART + GEMM_PART / 2 /* not worth a second part */ };

/* Computes one tile. `rows`, `vectors` and `layout` are constants wherever this is inlined.
 * `columns` may end inside the last vector. With a `copy`, B's panel is also stored there, for the
 * next tiles. B's rows are b_k apart, unless the layout gives their offsets. */
GEMM_INLINE void gemm_tile(const int rows, const int vectors, const gemm_layout layout,
                           const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                           const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,
                           GEMM_ELEMENT *copy) {
  const bool listed = layout == GEMM_LISTED, spread = layout == GEMM_SPREAD,
             in_runs = layout == GEMM_RUNS || spread,
             packed = layout == GEMM_DENSE || in_runs || layout == GEMM_ABREAST;
  const int64_t a_row = block->a_row, c_row = block->c_row;
  const int64_t a_k = layout == GEMM_DENSE || in_runs ? 1 : block->a_k;
  const int64_t b_step = packed ? GEMM_COLUMNS : b_k;
  const char *written = (const char *)c; /* the tile's output */
  int64_t written_row = c_row * (int64_t)sizeof *c;
#ifdef GEMM_FINISHES
  const cpu_gemm_finish *finish = listed ? NULL : block->finish;
  if (finish) {
    written = (const char *)((gemm_stored *)finish->y + block->row * finish->y_row + block->column);
    written_row = finish->y_row * (int64_t)sizeof(gemm_stored);
    gemm_finish_ahead(rows, vectors, finish, block);
  }
#endif
#ifdef GEMM_REQUANTIZES
  if (block->requantize) {
    const cpu_requantize_lines *l = &block->requantize->lines;
    written = (const char *)(l->y + block->row * l->y_row + block->column);
    written_row = l->y_row;
  }
  const bool begins = gemm_begins_with_offsets(vectors, block, columns);
#endif
  gemm_vector first[GEMM_MAX_VECTORS]; /* the initial sums */
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) {
    first[v] = (gemm_vector){0};
#ifdef GEMM_REQUANTIZES
    if (begins) first[v] = gemm_offset(block, v);
#endif
  }
  const int each = spread ? 1 : 3;
  const gemm_element_at *left_rows[GEMM_ROWS]; /* one for each group of `each` rows */
  gemm_vector sum[GEMM_ROWS][GEMM_MAX_VECTORS];
  GEMM_UNROLL
  for (int g = 0; each * g < rows; g++) {
    left_rows[g] = (const gemm_element_at *)a + (spread ? block->a_rows[g] : each * g * a_row);
    GEMM_FORGET(left_rows[g]);
  }
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    __builtin_prefetch(written + i * written_row, 1);
    if (GEMM_VECTOR_BYTES == 64 && vectors > 1 && GEMM_TERMS == 0)
      __builtin_prefetch(written + i * written_row + GEMM_VECTOR_BYTES, 1);
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++) sum[i][v] = first[v];
  }
  const bool asks = GEMM_ASKS(rows, vectors) && !listed && !copy;
  const char *ahead = block->ahead;
  const int64_t ahead_k = block->ahead_bytes;
  const int64_t *place = block->b_rows;
  int64_t rest = in_runs && block->runs > 1 ? block->k * block->runs : block->k;
  int64_t run = block->k, part = 0; /* left in the run of k; steps since the last part */
  const bool folds = GEMM_FOLDS && rest > GEMM_WHOLE;
#if GEMM_TERMS
  gemm_vector terms[GEMM_MAX_VECTORS]; /* of columns */
  GEMM_UNROLL
  for (int v = 0; v < vectors; v++) terms[v] = (gemm_vector){0};
#endif
  gemm_sums before; /* the sums of earlier parts of k */
  if (folds) gemm_clear(rows, vectors, before);
#ifdef GEMM_AMX
  const bool by_amx = rows >= AMX_LEAST;
  _Static_assert(GEMM_MOST_ABREAST == 1, "there are two registers of sums");
  if (by_amx) gemm_amx_clear(vectors);
#endif
  do {
    const int64_t steps = folds && run > GEMM_PART ? GEMM_PART : run;
    int64_t p = steps;
#ifdef GEMM_AMX
    if (by_amx) {
      gemm_amx_add(rows, vectors, block, left_rows[0], b);
      GEMM_UNROLL
      for (int g = 0; each * g < rows; g++) left_rows[g] += steps * a_k;
      b += steps * b_step;
      p = 0;
    }
#endif
    GEMM_STEPS
    for (; p > 0; p--) {
      gemm_vector right[GEMM_MAX_VECTORS];
      const GEMM_ELEMENT *from = listed ? b + *place++ : b;
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) {
        right[v] = *(const gemm_vector_at *)(from + gemm_vector_place(layout, block, v));
        if (rows <= GEMM_FEW && !listed && layout != GEMM_ABREAST)
          __builtin_prefetch(from + GEMM_FAR + v * GEMM_LANES);
      }
      if (asks) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_k;
      }
      if (copy) {
        GEMM_UNROLL
        for (int v = 0; v < vectors; v++) *(gemm_vector_at *)(copy + v * GEMM_LANES) = right[v];
        copy += GEMM_COLUMNS;
      }
      GEMM_UNROLL
      for (int i = 0; i < rows; i++) {
        const gemm_vector left = GEMM_REPEAT(left_rows[i / each][i % each * a_row]);
        gemm_add_row(vectors, left, right, sum[i]);
      }
      GEMM_UNROLL
      for (int g = 0; each * g < rows; g++) left_rows[g] += a_k;
      b += b_step;
    }
#if GEMM_TERMS
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      terms[v] += *(const gemm_vector_at *)(b + gemm_vector_place(layout, block, v));
    if (block->slivers) {
      GEMM_UNROLL
      for (int i = 0; i < rows; i++) {
        GEMM_UNROLL
        for (int v = 0; v < vectors; v++) sum[i][v] += left_rows[i / each][i % each * a_row];
      }
    }
#endif
    rest -= steps;
    run -= steps;
    if (in_runs && run == 0) {
      GEMM_UNROLL
      for (int g = 0; each * g < rows; g++) left_rows[g] += block->a_run - block->k;
      b += GEMM_TERMS * GEMM_COLUMNS;
      run = block->k;
    }
    part += steps;
    if (folds && rest > 0 && part >= GEMM_PART) {
      gemm_add_sums(rows, vectors, before, sum);
      gemm_clear(rows, vectors, sum);
      part = 0;
    }
  } while (rest > 0);
  if (folds) gemm_add_sums(rows, vectors, sum, before);
#ifdef GEMM_AMX
  if (by_amx) gemm_amx_take(rows, vectors, sum);
#endif
#ifdef GEMM_FINISHES
  if (finish) {
    const bool whole = columns == vectors * GEMM_LANES;
    if (whole && block->accumulate) gemm_add_stored(rows, vectors, sum, c, c_row);
    if (whole && !finish->apply &&
        gemm_finish_whole(rows, vectors, finish, block, folds || block->accumulate, sum))
      return;
    gemm_vector x[GEMM_ROWS * GEMM_MAX_VECTORS];
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) x[i * vectors + v] = sum[i][v];
    }
    const int64_t x_row = vectors * GEMM_LANES;
    if (!whole && block->accumulate) gemm_add_rows((float *)x, x_row, c, c_row, rows, columns);
#ifdef CPU_VARIANT_BF16
    if (finish->apply) {
      gemm_finish_applied(finish, block->row, block->column, rows, columns, (float *)x, x_row);
      return;
    }
#endif
    gemm_finish(finish, block->row, block->column, rows, columns, (float *)x, x_row);
    return;
  }
#endif
#if GEMM_TERMS
  if (gemm_any(vectors, terms)) {
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
      GEMM_UNROLL
      for (int v = 0; v < vectors; v++) sum[i][v] += terms[v];
    }
  }
#endif
#ifdef GEMM_REQUANTIZES
  if (block->requantize) {
    gemm_requantize(rows, vectors, block, c, columns, begins, sum);
    return;
  }
#endif
  if (columns < vectors * GEMM_LANES) {
    gemm_store_edge(rows, vectors, sum, c, c_row, columns, block->accumulate);
    return;
  }
  if (block->accumulate) gemm_add_stored(rows, vectors, sum, c, c_row);
  GEMM_UNROLL
  for (int i = 0; i < rows; i++) {
    GEMM_UNROLL
    for (int v = 0; v < vectors; v++)
      *(gemm_vector_at *)(c + i * c_row + v * GEMM_LANES) = sum[i][v];
  }
}

/* The tile of `rows` rows. One and two rows leave registers for two panels ("wide"), and one row
 * for four; these hide the latency again. More rows do not. */
#define GEMM_CASE(count)                                                                           \
  case count:                                                                                      \
    if (vectors <= 2 || count * vectors <= 8)                                                      \
      gemm_tile(count, vectors, layout, block, a, b, b_k, c, columns, copying ? copy : NULL);      \
    break;
GEMM_INLINE void gemm_tile_of_rows(const int vectors, const gemm_layout layout, const bool copying,
                                   int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                                   const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c,
                                   int64_t columns, GEMM_ELEMENT *copy) {
  switch (rows) {
    GEMM_CASE(1)
    GEMM_CASE(2)
    GEMM_CASE(3)
    GEMM_CASE(4)
    GEMM_CASE(5)
    GEMM_CASE(6)
#if GEMM_ROWS > 6
    GEMM_CASE(7)
    GEMM_CASE(8)
    GEMM_CASE(9)
    GEMM_CASE(10)
    GEMM_CASE(11)
    GEMM_CASE(12)
#endif
#if GEMM_ROWS > 12
    GEMM_CASE(13)
    GEMM_CASE(14)
#endif
#if GEMM_ROWS > 14
    GEMM_CASE(15)
    GEMM_CASE(16)
#endif
  }
}

typedef void (*gemm_tile_function)(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,
                                   const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c,
                                   int64_t columns, GEMM_ELEMENT *copy);

#define GEMM_TILES(name, vectors, layout, copying)                                                 \
  static void name(int64_t rows, const cpu_gemm_block *block, const GEMM_ELEMENT *a,               \
                   const GEMM_ELEMENT *b, int64_t b_k, GEMM_ELEMENT *c, int64_t columns,           \
                   GEMM_ELEMENT *copy) {                                                           \
    gemm_tile_of_rows(vectors, layout, copying, rows, block, a, b, b_k, c, columns, copy);         \
  }
GEMM_TILES(gemm_tile_narrow, 1, GEMM_STRIDED, false)
GEMM_TILES(gemm_tile_full, 2, GEMM_STRIDED, false)
#if GEMM_VECTOR_BYTES == 32
GEMM_TILES(gemm_tile_dense, 2, GEMM_DENSE, false)
#else
#define gemm_tile_dense gemm_tile_full
#endif
GEMM_TILES(gemm_tile_copying, 2, GEMM_STRIDED, true)
GEMM_TILES(gemm_runs_narrow, 1, GEMM_RUNS, false)
GEMM_TILES(gemm_runs_full, 2, GEMM_RUNS, false)
#if GEMM_ROWS <= CPU_GEMM_FORESEEN
GEMM_TILES(gemm_spread_narrow, 1, GEMM_SPREAD, false)
GEMM_TILES(gemm_spread_full, 2, GEMM_SPREAD, false)
#endif
#ifdef GEMM_AMX
#define gemm_tile_wide NULL
#else
GEMM_TILES(gemm_tile_wide, 4, GEMM_STRIDED, false)
#endif
#if GEMM_MOST_ABREAST > 1
GEMM_TILES(gemm_tile_pair, 4, GEMM_ABREAST, false)
GEMM_TILES(gemm_tile_four, 8, GEMM_ABREAST, false)
#endif
#ifndef GEMM_GROUP
GEMM_TILES(gemm_listed_narrow, 1, GEMM_LISTED, false)
GEMM_TILES(gemm_listed_full, 2, GEMM_LISTED, false)
GEMM_TILES(gemm_listed_copying, 2, GEMM_LISTED, true)
GEMM_TILES(gemm_listed_wide, 4, GEMM_LISTED, false)
#endif

/* Tile functions for a layout of B. `copying` is for the first tile of a strip, which packs B for
 * the others. */
typedef struct gemm_tiles {
  gemm_tile_function narrow, full, copying, wide;
} gemm_tiles;

/* The rows of a block are cut into tiles of nearly equal height. */
GEMM_INLINE int64_t gemm_tile_count(int64_t m) {
  return (m + GEMM_ROWS - 1) / GEMM_ROWS;
}
GEMM_INLINE int64_t gemm_tile_rows(int64_t m, int64_t tiles, int64_t tile) {
  return m / tiles + (tile < m % tiles);
}

/* Distributes the prefetches over `steps` steps of k: from here on, ahead_bytes is the distance
 * between steps. With 0, a step prefetches its own operands. If a step would have to prefetch more
 * than a cache line, the hardware prefetches the panel better. */
GEMM_INLINE void gemm_share_ahead(cpu_gemm_block *strip, const GEMM_ELEMENT *b, bool last,
                                  int64_t steps) {
  enum { LINE = 64 };
  if (GEMM_VECTOR_BYTES == 64 && (strip->ahead || !last) && strip->ahead_bytes > 0 &&
      strip->ahead_bytes <= LINE * steps) {
    if (!last) strip->ahead = b + strip->b_column;
    strip->ahead_bytes = (strip->ahead_bytes + steps - 1) / steps;
  } else {
    strip->ahead = b;
    strip->ahead_bytes = 0;
  }
}

/* Prefetches a tile's share of the lines needed later. */
GEMM_INLINE void gemm_ask(const cpu_gemm_lines *l, const bool written, int64_t tile,
                          int64_t tiles) {
  const int64_t end = l ? l->count * (tile + 1) / tiles : 0;
  for (int64_t i = l ? l->count * tile / tiles : 0; i < end; i++)
    for (int64_t j = 0; j < l->lines; j++) {
      const char *line = (const char *)l->at + i * l->step + j * 64;
      if (written)
        __builtin_prefetch(line, 1);
      else
        __builtin_prefetch(line);
    }
}

/* Multiplies all rows of one strip of columns, in tiles of one kind. If the block requests it, the
 * first tile (`copying`) packs B's panel, and the other tiles read the packed panel. */
static void gemm_strip(gemm_tile_function tile, gemm_tile_function copying,
                       const cpu_gemm_block *block, const GEMM_ELEMENT *b, GEMM_ELEMENT *c,
                       int64_t columns) {
  GEMM_ELEMENT *copy = columns == GEMM_COLUMNS ? block->copy : NULL;
  int64_t b_k = block->b_k;
  const int64_t tiles = gemm_tile_count(block->m);
  const GEMM_ELEMENT *a = block->a;
  cpu_gemm_block part = *block;
  part.column += c - (const GEMM_ELEMENT *)block->c;
  const int64_t tile_k = block->k * (block->runs > 1 ? block->runs : 1);
  gemm_share_ahead(&part, b, part.column + columns == block->column + block->n, tiles * tile_k);
#ifdef GEMM_AMX
  int64_t shape = 0;
#endif
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t rows = gemm_tile_rows(block->m, tiles, t);
#ifdef GEMM_AMX
    if (rows >= AMX_LEAST) gemm_amx_configure(rows, block->k, &shape);
#endif
    gemm_ask(block->read, false, t, tiles);
    gemm_ask(block->written, true, t, tiles);
    if (block->slivers) {
      part.a_row = 1;
      part.a_k = rows;
    }
    if (copy && t == 0) {
      copying(rows, &part, a, b, b_k, c, columns, copy);
      tile = gemm_tile_full;
      b = copy;
      b_k = GEMM_COLUMNS;
    } else {
      const bool dense = tile == gemm_tile_full && part.a_k == 1 && b_k == GEMM_COLUMNS;
      (dense ? gemm_tile_dense : tile)(rows, &part, a, b, b_k, c, columns, NULL);
    }
#if defined(GEMM_FINISHES) && defined(GEMM_NATIVE)
    gemm_finish_after(&part, rows, columns);
#endif
    a += rows * (block->slivers ? block->k + GEMM_TERMS : block->a_row);
    if (part.a_rows) part.a_rows += rows;
    c += rows * block->c_row;
    part.row += rows;
    part.ahead = (const char *)part.ahead + part.ahead_bytes * tile_k;
  }
}

#if GEMM_MOST_ABREAST > 1
/* The number of packed panels of B that are read side by side. */
GEMM_INLINE int64_t gemm_abreast(const cpu_gemm_block *block) {
  const bool packed = block->b_k == GEMM_COLUMNS && !block->a_rows && !block->b_rows &&
                      !block->copy && block->runs <= 1;
  return packed && block->m <= 2 ? GEMM_MOST_ABREAST / block->m : 1;
}
#endif

/* Multiplies all strips; panels of B are `panel` elements apart. */
GEMM_INLINE void gemm_strips(const gemm_tiles *tiles, const cpu_gemm_block *block, int64_t panel) {
  const GEMM_ELEMENT *b = block->b;
  GEMM_ELEMENT *c = block->c;
  int64_t rest = block->n;
  if (tiles->wide && block->m <= 2 && panel == GEMM_COLUMNS) {
    for (; rest >= 2 * GEMM_COLUMNS; rest -= 2 * GEMM_COLUMNS) {
      gemm_strip(tiles->wide, NULL, block, b, c, 2 * GEMM_COLUMNS);
      b += 2 * GEMM_COLUMNS;
      c += 2 * GEMM_COLUMNS;
    }
  }
#if GEMM_MOST_ABREAST > 1
  const int64_t abreast = gemm_abreast(block);
  if (abreast > 1) {
    for (; rest >= abreast * GEMM_COLUMNS; rest -= abreast * GEMM_COLUMNS) {
      gemm_strip(abreast == 4 ? gemm_tile_four : gemm_tile_pair, NULL, block, b, c,
                 abreast * GEMM_COLUMNS);
      b += abreast * panel;
      c += abreast * GEMM_COLUMNS;
    }
  }
#endif
  for (; rest >= GEMM_COLUMNS; rest -= GEMM_COLUMNS) {
    gemm_strip(tiles->full, tiles->copying, block, b, c, GEMM_COLUMNS);
    b += panel;
    c += GEMM_COLUMNS;
  }
  if (rest > 0)
    gemm_strip(rest > GEMM_LANES ? tiles->full : tiles->narrow, tiles->copying, block, b, c, rest);
}

static void gemm_multiply(const cpu_gemm_block *block) {
  static const gemm_tiles tiles = {gemm_tile_narrow, gemm_tile_full, gemm_tile_copying,
                                   gemm_tile_wide};
  static const gemm_tiles in_runs = {gemm_runs_narrow, gemm_runs_full, NULL, NULL};
#if GEMM_ROWS <= CPU_GEMM_FORESEEN
  static const gemm_tiles spread = {gemm_spread_narrow, gemm_spread_full, NULL, NULL};
  if (block->a_rows) {
    gemm_strips(&spread, block, block->b_column);
    return;
  }
#endif
  gemm_strips(block->runs > 1 ? &in_runs : &tiles, block, block->b_column);
#ifdef GEMM_AMX
  if (block->m >= AMX_LEAST) AMX_RELEASE();
#endif
}

#ifndef GEMM_GROUP
static void gemm_convolve(const cpu_gemm_block *block) {
  static const gemm_tiles tiles = {gemm_listed_narrow, gemm_listed_full, gemm_listed_copying,
                                   gemm_listed_wide};
  gemm_strips(&tiles, block, GEMM_COLUMNS);
}

#endif

#include "gemm_few.h"

static void gemm_sum(void *c, int64_t c_row, int64_t m, int64_t n, const void *parts,
                     int64_t count) {
  for (int64_t i = 0; i < m; i++) {
    GEMM_ELEMENT *to = (GEMM_ELEMENT *)c + i * c_row;
    const GEMM_ELEMENT *from = (const GEMM_ELEMENT *)parts + i * n;
    for (int64_t j = 0; j < n; j++) to[j] = from[j];
    for (int64_t s = 1; s < count; s++) {
      for (int64_t j = 0; j < n; j++) to[j] += from[s * m * n + j];
    }
  }
}

#ifdef GEMM_GROUP
#include "gemm_pack_words.h"
#else
#include "gemm_pack.h"
#endif

extern const cpu_gemm_type CPU_VARIANT_SYMBOL(cpu_gemm);
const cpu_gemm_type CPU_VARIANT_SYMBOL(cpu_gemm) = {
    .rows = GEMM_ROWS,
    .columns = GEMM_COLUMNS,
    .lanes = GEMM_LANES,
    .abreast = GEMM_MOST_ABREAST,
    .multiply = gemm_multiply,
#ifdef GEMM_GROUP
    .group = GEMM_GROUP,
    .terms = GEMM_TERMS,
    .pack_words = gemm_pack_words,
    .pack_rows = gemm_pack_word_rows,
#ifdef GEMM_AMX
    .word_rows = true,
#else
    .word_rows = GEMM_ROWS <= CPU_GEMM_FORESEEN,
#endif
#ifdef GEMM_REQUANTIZES
    .requantizes = true,
#else
    .dot = gemm_dot,
    .stream = gemm_stream,
#endif
#else
    .group = 1,
    .pack_panels = gemm_pack_panels,
    .convolve = gemm_convolve,
    .dot = gemm_dot,
    .stream = gemm_stream,
    .pack_rows = gemm_pack_rows,
    .pack_slivers = GEMM_ROWS > 6 ? gemm_pack_slivers : NULL,
    .pack_pieces = gemm_pack_pieces,
#endif
#ifdef GEMM_FINISHES
    .finishes = GEMM_FINISHES,
#endif
    .sum = gemm_sum,
};
