/* SPDX-License-Identifier: MIT */
/* The inner loops of matrix multiplication, once per instruction set and computing type. gemm_own.c
 * builds its blocking on them. Matrices are plain addresses with strides in elements. */
#ifndef CPU_GEMM_TABLE_H
#define CPU_GEMM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/dtype.h"
#include "core/isa.h"
#include "program/isa/requantize_table.h"

/* Finishes sums x: y = min(max((x + a) + (b + c), low) + zero, high), as in finish_table.h. Addends
 * and y have the micro-kernel's type for them. An absent addend is NULL; c requires b. Columns are
 * contiguous and rows are `_row` elements apart. With `a_repeats`, a has one element per row. For
 * bf16, `apply` may be set: it changes numbers in place before they become y, with `functions` as
 * its first argument. */
typedef struct cpu_gemm_finish {
  const void *a, *b, *c;
  int64_t a_row, b_row, c_row;
  bool a_repeats;
  float low, zero, high;
  void (*apply)(const void *functions, int64_t count, float *x);
  const void *functions;
  void *y; /* may be C or an addend */
  int64_t y_row;
  /* For f32 results only: a function of rows in place (cpu_tile_rows_loop), called for each tile
   * while it is in cache; or NULL. */
  void (*after)(int64_t rows, int64_t count, float *y, int64_t row);
} cpu_gemm_finish;

/* Requantizes sums of bytes to bytes (requantize_table.h). Operands and result begin at element (0,
 * 0) of the matrix; the micro-kernel fills in sums and counts. If `rows` is not NULL, its element
 * for each row is first added to the row's sums. */
typedef struct cpu_gemm_requantize {
  void (*run)(const cpu_requantize_lines *lines);
  cpu_requantize_lines lines;
  const uint32_t *rows;
} cpu_gemm_requantize;

/* The most rows of A that the hardware prefetches as separate runs of memory. */
#define CPU_GEMM_FORESEEN 6

/* The most rows that `stream` multiplies in types with words. */
#define CPU_GEMM_STREAMED 4

/* Elements of k that types with `folds` sum separately, and the longest k that is one part: a short
 * second part does not pay. */
enum { CPU_GEMM_PART = 256, CPU_GEMM_WHOLE = CPU_GEMM_PART + CPU_GEMM_PART / 2 };

/* Memory needed after a product: `count` runs of `lines` cache lines. */
typedef struct cpu_gemm_lines {
  const void *at;
  int64_t count, step, lines; /* step: bytes from run to run */
} cpu_gemm_lines;

/* C (m × n) = A (m × k) · B (k × n), added to C's old values if `accumulate`. All have the
 * computing type; C's columns are contiguous. */
typedef struct cpu_gemm_block {
  int64_t m, n, k;
  int64_t elements; /* dot and stream with words: elements of k; B has the operand's elements and
                     * strides */
  const void *a;
  int64_t a_row, a_k;
  int64_t runs, a_run; /* multiply of one panel: the number of runs of k elements. A's runs are
                        * `a_run` apart, B's lines are packed without gaps. 0 means 1 */
  bool slivers;        /* multiply: A was packed by pack_slivers; a_row and a_k are ignored */
  const void *b;
  int64_t b_k; /* multiply, stream: from one k to the next; columns are contiguous */
  int64_t
      b_column; /* multiply: from one panel of columns to the next; dot, stream: between columns */
  void *c;
  int64_t c_row;
  bool accumulate, continues; /* continues: stream adds to the sums of a part that C already has */
  /* multiply of one panel, A contiguous along k, types of at most CPU_GEMM_FORESEEN rows: the start
   * of each row of A, in elements after a; a_row is then 0. Or NULL. */
  const int64_t *a_rows;
  const int64_t *b_rows; /* convolve: the start of row p of B, in elements after b */
  /* multiply of packed panels: while one panel is multiplied, `ahead_bytes` of the next are
   * prefetched. During the last, as many bytes from `ahead` on are prefetched, unless it is
   * NULL. */
  const void *ahead;
  int64_t ahead_bytes;
  /* multiply of one panel: memory to prefetch for later reads and writes; or NULL */
  const cpu_gemm_lines *read, *written;
  void *copy; /* multiply, convolve: room for one panel, to pack B while it is used; or NULL */
  const cpu_gemm_finish *finish; /* multiply of a type that finishes: receives the sums instead of
                                  * C; or NULL */
  const cpu_gemm_requantize *requantize; /* the same for a type that `requantizes`; or NULL */
  int64_t row, column;                   /* the block's position in the finish's operands */
} cpu_gemm_block;

/* A matrix to pack: element (i, j) is `outer`·i + `inner`·j elements after `data`. */
typedef struct cpu_gemm_source {
  const void *data;
  compute_dtype dtype;
  int64_t outer, inner;
} cpu_gemm_source;

typedef struct cpu_gemm_type {
  int32_t rows, columns; /* the tile of C that registers hold; a panel of B is `columns` wide */
  int32_t lanes;         /* in one vector */
  int32_t abreast;       /* packed panels of B that multiply reads side by side for one row of A */
  /* The elements of k in one element of packed A or B. 1 is the plain case. Otherwise `group`
   * neighbours along k form a word of 32 bits, and zeros fill the last word. k is then counted in
   * words, and `terms` more lines follow the lines of k in slivers and panels. Such types only have
   * multiply, sum, pack_words and pack_rows; bf16 also has dot and stream. Words of A need not be
   * aligned; the terms of an A without slivers are 0. */
  int32_t group, terms;
  bool folds;             /* multiply sums parts of k separately, and adds their sums in order */
  compute_dtype finishes; /* multiply accepts block->finish, with addends and results of this type.
                           * COMPUTE_DTYPE_NONE: it does not */
  bool requantizes;       /* multiply accepts block->requantize */
  bool left_signed;       /* bytes in words of four are signed in A, too, not only in B */
  bool word_rows;         /* words of A are best packed as rows, if no terms are needed */

  /* The last panel may be narrower than the others, but must be readable to its full width. */
  void (*multiply)(const cpu_gemm_block *block);

  /* The same if B's rows are at any addresses (block->b_rows), with contiguous columns that are
   * readable to full panels. Convolutions read shifted windows of one copy of their data this
   * way. */
  void (*convolve)(const cpu_gemm_block *block);

  /* The same by dot products, if A and B are contiguous along k (a_k and b_k are ignored). For few
   * rows, which do not repay packing B. */
  void (*dot)(const cpu_gemm_block *block);

  /* The same for few rows and a large B, which is read once, in the order of its rows or, with
   * b_k = 1, of its columns. k is one part: a call sums it in order, and then adds it to C. Types
   * with words read B in place for up to CPU_GEMM_STREAMED rows, with A contiguous along k
   * (block->elements as for dot). NULL: the type's multiply rounds in another order. */
  void (*stream)(const cpu_gemm_block *block);

  /* Converts outer × inner elements into rows of `inner` elements, `row` apart. With words, an
   * element is one element of k inside its word, and the last word is padded. */
  void (*pack_rows)(void *packed, int64_t row, int64_t outer, int64_t inner,
                    const cpu_gemm_source *source);

  /* Converts A (outer: m, inner: k) tile by tile, in the order that `multiply` reads. NULL if the
   * tiles are low enough to be read from rows. */
  void (*pack_slivers)(void *packed, int64_t m, int64_t k, const cpu_gemm_source *source);

  /* Converts B (outer: k, inner: n) into consecutive panels of k rows of `columns` elements; zeros
   * fill the last panel. */
  void (*pack_panels)(void *packed, int64_t k, int64_t n, const cpu_gemm_source *source);

  /* As pack_slivers (`right` is false) and pack_panels, into words: `sides` rows or columns of k
   * elements. `other` is the dtype of the other factor. */
  void (*pack_words)(void *packed, bool right, int64_t sides, int64_t k,
                     const cpu_gemm_source *source, compute_dtype other);

  /* Copies k rows of B at any addresses (`rows`, as in convolve) into one panel, each in `pieces`
   * of up to `lanes` elements. Piece i is copied from from[i] after the row's start to to[i] in the
   * panel's row. Pieces are copied in order and as whole vectors, so the next pieces overwrite the
   * end of each. The panel must have room for one vector more. */
  void (*pack_pieces)(void *packed, int64_t k, const void *b, const int64_t *rows, int64_t pieces,
                      const int64_t *from, const int64_t *to);

  /* C (m × n, contiguous columns) = the sum of `count` ≥ 1 consecutive dense matrices. */
  void (*sum)(void *c, int64_t c_row, int64_t m, int64_t n, const void *parts, int64_t count);
} cpu_gemm_type;

struct cpu_gemm_table {
  const cpu_gemm_type *f64, *f32, *i64, *i32;
  const cpu_gemm_type *bytes;      /* i8 and u8, with sums in i32 */
  const cpu_gemm_type *saturating; /* the same for COMPUTE_PRECISION_SATURATE; NULL: `bytes` */
  const cpu_gemm_type *symmetric;  /* the same for an i8 right factor without −128; or NULL */
  const cpu_gemm_type *bf16;       /* bf16, with sums in f32; NULL: bf16 is converted to f32 */
};

CPU_DECLARE_NUMBERS(cpu_gemm_type, cpu_gemm);
CPU_DECLARE(cpu_gemm_type, cpu_gemm_pairs);
extern const cpu_gemm_type cpu_gemm_quads_avx2, cpu_gemm_quads_signs_avx2; /* if CPU_HAS_AVX2 */
extern const cpu_gemm_type cpu_gemm_dots_avx2, cpu_gemm_dots_avx512;       /* if CPU_DOTS_<set> */
extern const cpu_gemm_type cpu_gemm_bf16_avx512;                           /* if CPU_BF16_AVX512 */
extern const cpu_gemm_type cpu_gemm_dots_scalar;      /* if CPU_DOTS_SCALAR (aarch64) */
extern const cpu_gemm_type cpu_gemm_dots_i8mm_scalar; /* if CPU_I8MM_SCALAR */
extern const cpu_gemm_type cpu_gemm_bf16_scalar;      /* if CPU_BF16_SCALAR */
extern const cpu_gemm_type cpu_gemm_amx_bytes_avx512, cpu_gemm_amx_bf16_avx512; /* if CPU_AMX */

/* True if this machine has AMX and the process may use it. Requests permission from the kernel once
 * for all threads of the process. Thread-safe. Only if CPU_AMX. */
bool cpu_gemm_has_amx(void);

/* `true` if bytes of A are shifted by 128 in words (gemm_pack_words.h). */
static inline bool cpu_gemm_shifts_left(const cpu_gemm_type *type, compute_dtype dtype) {
  return type->group == 4 && dtype == (type->left_signed ? COMPUTE_U8 : COMPUTE_I8);
}

/* The micro-kernels for bytes. `saturates`: pairs of products may saturate (gemm_quads.c). */
static inline const cpu_gemm_type *cpu_gemm_bytes(const cpu_gemm_table *table, bool saturates) {
  return saturates && table->saturating ? table->saturating : table->bytes;
}

/* The micro-kernels for an accumulate type; NULL if there are none. */
static inline const cpu_gemm_type *cpu_gemm_type_of(const cpu_gemm_table *table,
                                                    compute_dtype dtype) {
  return dtype == COMPUTE_F64   ? table->f64
         : dtype == COMPUTE_F32 ? table->f32
         : dtype == COMPUTE_I64 ? table->i64
         : dtype == COMPUTE_I32 ? table->i32
                                : NULL;
}

#endif
