/* SPDX-License-Identifier: MIT */
/* The inner loops of matrix multiplication, once per instruction set and computing type: what
 * gemm_own.c builds its blocking on. Matrices are plain addresses with strides in elements. */
#ifndef CPU_GEMM_TABLE_H
#define CPU_GEMM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/dtype.h"
#include "core/isa.h"
#include "program/isa/requantize_table.h"

/* What sums x become: y = min(max((x + a) + (b + c), low) + zero, high), as in finish_table.h.
 * Addends and y have the micro-kernel's type for them. Addends are NULL where there is none (c is
 * only there with b), columns lie side by side, rows `_row` elements apart; `a_repeats`: a has one
 * element for each row. Of bf16, `apply` changes numbers where they are before they become y, with
 * `functions` as its first argument, or is NULL. */
typedef struct cpu_gemm_finish {
  const void *a, *b, *c;
  int64_t a_row, b_row, c_row;
  bool a_repeats;
  float low, zero, high;
  void (*apply)(const void *functions, int64_t count, float *x);
  const void *functions;
  void *y; /* may be C or an addend */
  int64_t y_row;
  /* Of results in f32 only: a function of rows in place (cpu_tile_rows_loop), called for each tile
   * while it is close; or NULL. */
  void (*after)(int64_t rows, int64_t count, float *y, int64_t row);
} cpu_gemm_finish;

/* Sums of bytes that become bytes (requantize_table.h): operands and result begin at element (0, 0)
 * of the matrix, sums and counts are the micro-kernel's. Before anything else each row's number of
 * `rows` is added to its sums, if that is not NULL. */
typedef struct cpu_gemm_requantize {
  void (*run)(const cpu_requantize_lines *lines);
  cpu_requantize_lines lines;
  const uint32_t *rows;
} cpu_gemm_requantize;

/* So many rows of A are as many runs of memory as the hardware foresees. */
#define CPU_GEMM_FORESEEN 6

/* Rows of words that `stream` multiplies. */
#define CPU_GEMM_STREAMED 4

/* Memory that is needed after a product: `count` runs of so many lines of the cache. */
typedef struct cpu_gemm_lines {
  const void *at;
  int64_t count, step, lines; /* bytes from run to run */
} cpu_gemm_lines;

/* C (m × n) = A (m × k) · B (k × n), added to C's old values if `accumulate`. All are of the
 * computing type; C's columns lie side by side. */
typedef struct cpu_gemm_block {
  int64_t m, n, k;
  int64_t elements; /* dot, stream, of words: of k; B's elements and steps are the operand's */
  const void *a;
  int64_t a_row, a_k;
  int64_t runs, a_run; /* multiply of one panel: so many runs of k elements, A's rows `a_run` from
                        * one to the next, B's lines packed one after the other; 0 as 1 */
  bool slivers;        /* multiply: A was packed by pack_slivers; a_row and a_k are not looked at */
  const void *b;
  int64_t b_k;      /* multiply, stream: from one k to the next; columns lie side by side */
  int64_t b_column; /* multiply: from one panel of columns to the next; dot: between columns */
  void *c;
  int64_t c_row;
  bool accumulate;
  /* multiply of one panel, A along k, of a type of at most CPU_GEMM_FORESEEN rows: where A's rows
   * begin, in elements after a; a_row is 0 then. Or NULL. */
  const int64_t *a_rows;
  const int64_t *b_rows; /* convolve: where row p of B begins, in elements after b */
  /* multiply of packed panels: while one is multiplied, `ahead_bytes` of the next are prefetched;
   * during the last, as many from `ahead` on, if that is not NULL. */
  const void *ahead;
  int64_t ahead_bytes;
  /* multiply of one panel: what will be read, and written, and is asked for meanwhile; or NULL */
  const cpu_gemm_lines *read, *written;
  void *copy; /* multiply, convolve: room for one panel, if B should be packed while it is used; or
                 NULL */
  const cpu_gemm_finish *finish; /* multiply of a type that finishes: sums go there instead of to
                                  * C; or NULL */
  const cpu_gemm_requantize *requantize; /* of a type that `requantizes`: the same; or NULL */
  int64_t row, column;                   /* of the finish's operands, where the block begins */
} cpu_gemm_block;

/* A matrix to be packed: element (i, j) is `outer`·i + `inner`·j elements after `data`. */
typedef struct cpu_gemm_source {
  const void *data;
  compute_dtype dtype;
  int64_t outer, inner;
} cpu_gemm_source;

typedef struct cpu_gemm_type {
  int32_t rows, columns; /* the tile of C that registers hold; a panel of B is `columns` wide */
  int32_t lanes;         /* of one vector */
  int32_t abreast;       /* packed panels of B that multiply reads side by side for one row of A */
  /* What an element of packed A or B stands for: one of k, or some neighbours along k in a word of
   * 32 bits, the last filled up with zeros. With words k is counted in them, the lines of k of
   * slivers and panels are followed by `terms` more, and there are only multiply, sum,
   * pack_words and pack_rows, and of bf16 dot and stream. Words of A need not be aligned; without
   * slivers its terms are 0. */
  int32_t group, terms;
  compute_dtype finishes; /* multiply takes block->finish, with addends and results of this type;
                           * COMPUTE_DTYPE_NONE: it does not … */
  bool requantizes;       /* … but perhaps block->requantize */
  bool word_rows;         /* words of A are best packed as rows, where no terms are needed */

  /* The last panel may be narrower than the others, but must be readable to its full width. */
  void (*multiply)(const cpu_gemm_block *block);

  /* The same where B's rows lie anywhere (block->b_rows), their columns side by side and readable
   * to full panels: convolution reads shifted windows of one copy of its data that way. */
  void (*convolve)(const cpu_gemm_block *block);

  /* The same by dot products, where A's and B's elements lie side by side along k (a_k and b_k are
   * not looked at): right for a few rows, which give packing B no time to pay. */
  void (*dot)(const cpu_gemm_block *block);

  /* The same for a few rows and a B from far away, which is read once, in the order of its rows; of
   * words in place for up to CPU_GEMM_STREAMED rows, with A along k (block->elements as for dot).
   */
  void (*stream)(const cpu_gemm_block *block);

  /* Copies outer × inner elements, converted, to rows of `inner` elements, `row` apart. With words
   * an element is what they have of one of k, and the last word is filled up. */
  void (*pack_rows)(void *packed, int64_t row, int64_t outer, int64_t inner,
                    const cpu_gemm_source *source);

  /* Copies A (outer: m, inner: k), converted, tile after tile in the order in which `multiply`
   * reads it. NULL where the tiles are low enough to be read from rows. */
  void (*pack_slivers)(void *packed, int64_t m, int64_t k, const cpu_gemm_source *source);

  /* Copies B (outer: k, inner: n), converted, into panels: one after the other, each k rows of
   * `columns` elements, the last one filled up with zeros. */
  void (*pack_panels)(void *packed, int64_t k, int64_t n, const cpu_gemm_source *source);

  /* As pack_slivers (`right` is false) and pack_panels, into words: `sides` rows or columns of k
   * elements. `other` is the dtype of the matrix that they will be multiplied with. */
  void (*pack_words)(void *packed, bool right, int64_t sides, int64_t k,
                     const cpu_gemm_source *source, compute_dtype other);

  /* Copies k rows of B that lie anywhere (`rows`, as in convolve) into one panel, each by `pieces`
   * of up to `lanes` elements: piece i from from[i] after the row's begin to to[i] of the panel's
   * row. In this order: whole vectors are copied, so each piece is followed by what the next ones
   * overwrite, and the panel must have room for one vector more. */
  void (*pack_pieces)(void *packed, int64_t k, const void *b, const int64_t *rows, int64_t pieces,
                      const int64_t *from, const int64_t *to);

  /* C (m × n, columns side by side) = the sum of `count` ≥ 1 dense matrices, one after the other.
   */
  void (*sum)(void *c, int64_t c_row, int64_t m, int64_t n, const void *parts, int64_t count);
} cpu_gemm_type;

struct cpu_gemm_table {
  const cpu_gemm_type *f64, *f32, *i64, *i32;
  const cpu_gemm_type *bytes; /* of i8 and u8, with sums in i32 */
  const cpu_gemm_type *bf16;  /* of bf16, with sums in f32; NULL: they are converted to f32 */
};

CPU_DECLARE_NUMBERS(cpu_gemm_type, cpu_gemm);
CPU_DECLARE(cpu_gemm_type, cpu_gemm_pairs);
extern const cpu_gemm_type cpu_gemm_dots_avx2, cpu_gemm_dots_avx512; /* if CPU_DOTS_<set> */
extern const cpu_gemm_type cpu_gemm_bf16_avx512;                     /* if CPU_BF16_AVX512 */
extern const cpu_gemm_type cpu_gemm_amx_bytes_avx512, cpu_gemm_amx_bf16_avx512; /* if CPU_AMX */

/* Whether this machine has AMX, and the process may use it. Asks the kernel for it, once for all
 * threads of the process; thread-safe. If CPU_AMX. */
bool cpu_gemm_has_amx(void);

/* NULL where there is none. */
static inline const cpu_gemm_type *cpu_gemm_type_of(const cpu_gemm_table *table,
                                                    compute_dtype dtype) {
  return dtype == COMPUTE_F64   ? table->f64
         : dtype == COMPUTE_F32 ? table->f32
         : dtype == COMPUTE_I64 ? table->i64
         : dtype == COMPUTE_I32 ? table->i32
                                : NULL;
}

#endif
