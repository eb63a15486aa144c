/* SPDX-License-Identifier: MIT */
/* Internal interface of matrix multiplication on the CPU.
 *
 *   gemm.c           creates a kernel: asks each implementation in order
 *   gemm_problem.c   normalizes the descriptor, and runs the epilogue over finished blocks of C
 *   gemm_own.c       our own implementation, on the micro-kernels of isa/gemm_tile.h
 *   gemm_schedule.c  cuts its work into tiles and tasks
 *   gemm_narrow.c    products with two small sizes, gemm_narrow_bytes.c of bytes with few columns
 *   gemm_blas.c      the implementation that calls OpenBLAS
 *   quantized.c      weights of a few bits: own loops for few rows, gemm_own.c for many
 *
 * core/blas.c opens OpenBLAS, and core/amx.c detects AMX. "Sums" are the products before the
 * epilogue, in the accumulate type. */
#ifndef CPU_GEMM_GEMM_H
#define CPU_GEMM_GEMM_H

#include "core/cpu.h"
#include "gemm/isa/gemm_table.h"
#include "program/program.h"

/* One matrix per batch entry; strides in elements. A is m × k, B is k × n. */
typedef struct gemm_operand {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  int64_t row, column;
  int64_t batch[COMPUTE_MAX_RANK];
} gemm_operand;

/* The normal form. Batch dimensions of size 1 are removed, and those that only extend m are folded
 * into it. Rows and columns may be swapped (C transposed = B transposed · A transposed). */
typedef struct gemm_problem {
  compute_dtype accumulate;
  uint32_t size; /* bytes of an accumulate element */
  const cpu_gemm_type *type;
  int64_t m, n, k;
  int64_t elements; /* length of k in elements; `k` counts words of `group` elements */
  int64_t batches;
  int32_t batch_rank;
  int64_t batch_size[COMPUTE_MAX_RANK];
  gemm_operand a, b;
  uint32_t extra_count, output_count;
  gemm_operand extra[COMPUTE_MAX_OPERANDS]; /* the epilogue's inputs 1 and up */
  gemm_operand output[COMPUTE_MAX_OPERANDS];
  /* An element's position in the descriptor's iteration space, for programs that use it. */
  int32_t row_dimension, column_dimension, batch_dimension[COMPUTE_MAX_RANK];
  int64_t row_position, column_position, batch_position[COMPUTE_MAX_RANK];
  bool swapped;     /* rows are the descriptor's n */
  bool dots;        /* each sum is a dot product in the lanes of a vector (GEMM_DOT) */
  bool strict;      /* the order of sums must not depend on m, whatever it costs */
  bool coordinates; /* the epilogue reads coordinates */
} gemm_problem;

/* The inner loop of our own implementation. */
typedef enum gemm_method {
  GEMM_TILES, /* register tiles */
  GEMM_DOT,   /* dot products: few columns, and B contiguous along k */
  GEMM_STREAM /* few rows, and a large B with contiguous columns; the sums of GEMM_TILES */
} gemm_method;

/* When our own implementation packs B. A partial last panel is always packed. */
typedef enum gemm_packing {
  GEMM_PACK_NONE,   /* never: B is read in place */
  GEMM_PACK_ON_USE, /* while the first tile of each strip reads it, for the other tiles */
  GEMM_PACK_PANEL,  /* panel by panel, right before use (other methods: some columns) */
  GEMM_PACK_BLOCK,  /* as a whole, for several blocks of rows */
  GEMM_PACKED       /* never: the operand arrives prepacked (cpu_kind.pack) */
} gemm_packing;

/* A B that is computed while it is packed, for one launch. `fill` writes rows p … p + count − 1 of
 * up to one panel's columns from `column` on, in the layout of pack_panels. `space` is scratch
 * memory of the panel's size. */
typedef struct gemm_source {
  void (*fill)(const struct gemm_source *source, int64_t p, int64_t count, int64_t column,
               int64_t columns, int32_t worker, void *space, void *panel);
} gemm_source;

/* For our own implementation and the convolutions that multiply the same way (conv_rows.c). */
enum {
  GEMM_CLOSE_CACHE = 48 << 10, /* bytes of the L1 cache that a panel of B may fill */
  GEMM_UNITS_PER_THREAD = 32   /* at most; smaller units share a task with their neighbours */
};

/* Sizes of streams (GEMM_STREAM). */
enum {
  GEMM_STREAM_SUMS = (16 << 10) / sizeof(float), /* of some columns of all rows, in the L1 cache */
  GEMM_CONVERTED = 1024,                         /* columns that are converted at a time … */
  GEMM_CONVERTED_ROWS = 32,                      /* … and their rows; */
  GEMM_CONVERTED_TURNED = 64 /* columns if they are contiguous along k, with a part of k */
};

/* The schedule of our own implementation. C is cut into tiles_m × tiles_n tiles. A unit is a tile
 * of one batch entry, or one of `splits` parts of its k. A task is `chunk` consecutive units. */
typedef struct gemm_schedule {
  gemm_method method;
  bool pack_a;
  gemm_packing pack_b;
  int64_t piece; /* columns that GEMM_DOT converts or copies at a time */
  int64_t tile_m, tile_n, tiles_m, tiles_n;
  int64_t splits, chunk, tasks;
  int64_t block_m, block_k;              /* cache blocks of A; block_k also applies to B */
  int64_t depth;                         /* length of k while a panel of B stays in L1 */
  int64_t group;                         /* columns between two calls of the epilogue */
  uint64_t a_bytes, b_bytes, sums_bytes; /* scratch memory of one worker */
  uint64_t fill_bytes;                   /* at the end of b_bytes: the `space` of a source */
} gemm_schedule;

typedef struct cpu_gemm {
  cpu_kernel head;
  gemm_problem problem;
  cpu_program *epilogue;
  bool identity;                       /* the epilogue only stores the sums, in their own dtype */
  float factor;                        /* the epilogue only stores the sums times this; or 0 */
  bool in_place;                       /* outputs[0] can hold the sums until the epilogue has run */
  bool constant_b;                     /* B has the same elements at every launch … */
  bool packed_b;                       /* … and launches pass it packed */
  bool finishes;                       /* own: the micro-kernel computes the epilogue */
  bool filled;                         /* launches pass a gemm_source; set before prepare */
  bool even;                           /* strict, without OpenBLAS; set before prepare */
  uint64_t span[COMPUTE_MAX_OPERANDS]; /* bytes that extra i covers */
  uint64_t output_span;                /* bytes that outputs[0] covers */
  gemm_schedule direct, buffered;      /* own: with sums in outputs[0], or in scratch memory */
  int64_t blas_tiles_m, blas_tiles_n, blas_rows; /* OpenBLAS: tasks, and rows of C per call */
} cpu_gemm;

/* The addresses of one batch entry and its position in the iteration space. */
typedef struct gemm_matrix {
  const unsigned char *a, *b;
  const unsigned char *extra[COMPUTE_MAX_OPERANDS];
  unsigned char *output[COMPUTE_MAX_OPERANDS];
  int64_t position;
  int64_t coordinate[COMPUTE_MAX_RANK];
} gemm_matrix;

/* With `filled`, B is computed while it is packed (gemm_source). */
void gemm_problem_read(const compute_kernel_descriptor *descriptor, const cpu_gemm_table *table,
                       bool filled, gemm_problem *problem);
/* Exchanges rows and columns. */
void gemm_problem_swap(gemm_problem *problem);

/* True if no program follows the register tile of the own implementation (gemm_own.c). */
bool gemm_ends_in_tile(const cpu_gemm *gemm);
void gemm_problem_matrix(const gemm_problem *problem, void *const *pointers, int64_t batch,
                         gemm_matrix *matrix);
/* Bytes from an operand's first element to the end of its last, over all of C. */
uint64_t gemm_problem_span(const gemm_problem *problem, const gemm_operand *operand);

/* True if this launch may build its sums in outputs[0]. */
bool gemm_sums_in_place(const cpu_gemm *gemm, void *const *pointers);

/* Runs the epilogue over rows × columns of C from (row, column) on. Their sums start at `sums`,
 * with rows `sums_row` elements apart. */
void gemm_epilogue_run(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                       int64_t sums_row, int64_t row, int64_t rows, int64_t column,
                       int64_t columns);

/* The same for sums of all rows that lie column by column. */
void gemm_epilogue_run_turned(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                              int64_t column, int64_t columns);

/* cpu_gemm_kind for strict products, without OpenBLAS, whose order of summation depends on the
 * number of rows. Needed if a plan computes a product a few rows at a time: the split depends on the
 * number of threads. */
extern const cpu_kind cpu_even_gemm_kind;

/* Completes a GEMM kernel for a descriptor: the kind's prepare function. With a source for B the
 * descriptor's B is ignored, and rows and columns are not swapped. */
compute_status gemm_prepare(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor);

/* Launches a kernel with a source for B: pointers[1] is not read. */
compute_status gemm_run_filled(const cpu_gemm *gemm, void *const *pointers,
                               const gemm_source *source);

/* Makes the schedule for sums in outputs[0] (`direct`) or in scratch memory. */
void gemm_schedule_make(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule);

/* The length of the k blocks in a packed B; the last block may be shorter. */
int64_t gemm_packed_block(const gemm_problem *problem);

/* The row stride for words of A: an odd number of cache lines, so that rows do not compete for
 * cache sets. */
int64_t gemm_word_row(int64_t words);

/* Packs B as panels of all of k: cpu_kind.packed_bytes and pack. */
uint64_t gemm_packed_bytes(const cpu_kernel *kernel, uint32_t input, uint64_t *form);
compute_status gemm_pack(const cpu_kernel *kernel, uint32_t input, const void *source,
                         void *packed);

/* The implementations: cpu_implementation.accept. */
compute_status gemm_own_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                               const char **reason);
compute_status gemm_narrow_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason);
compute_status gemm_narrow_bytes_accept(cpu_kernel *kernel,
                                        const compute_kernel_descriptor *descriptor,
                                        const char **reason);
compute_status gemm_blas_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason);

/* ---- OpenBLAS -------------------------------------------------------------------------------- */

/* OpenBLAS, opened at run time.
 *
 * One library serves the whole process. The first request opens the library that COMPUTE_BLAS
 * names, or else libopenblas.so.0; "none" disables it. A missing library is not an error: our own
 * kernels are the fallback. Nor is it opened if the environment is not trusted (compute_services).
 * All functions are thread-safe.
 *
 * The library runs single-threaded. Several threads inside its multi-threaded GEMM corrupt each
 * other's results (0.3.21), but several single-threaded calls at once are safe. The thread count is
 * global to the library, so we load a private copy that leaves the program's own OpenBLAS
 * unchanged. If no such copy can be opened, our own kernels are the fallback. */

enum { CPU_BLAS_ROW_MAJOR = 101, CPU_BLAS_PLAIN = 111, CPU_BLAS_TRANSPOSED = 112 };

/* The functions as CBLAS declares them; its enums are ints. */
typedef struct cpu_blas_functions {
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                const double *a, int lda, const double *b, int ldb, double beta, double *c,
                int ldc);
} cpu_blas_functions;

/* The library's functions, or NULL if there is none; cpu_blas_describe gives the reason. They stay
 * valid until the device is closed. */
const cpu_blas_functions *cpu_blas_open(cpu_device *device);

/* False if COMPUTE_BLAS names a library that cannot be used. Opens the library only if it is
 * named. */
bool cpu_blas_wanted(cpu_device *device);

/* True if products use the library: if COMPUTE_BLAS names one. The number of rows then changes
 * the bits of a row. */
bool cpu_blas_is_used(const cpu_device *device);

/* Brackets around the calls of one thread: OpenMP libraries and MKL keep a thread count for each
 * calling thread. `before` is the result of cpu_blas_enter. */
int cpu_blas_enter(void);
void cpu_blas_leave(int before);

/* "OpenBLAS 0.3.21 Zen", "none: " and the reason, or "own kernels" if the library is not used.
 * Opens the library if it is used. The text is valid until the device is closed. */
const char *cpu_blas_describe(cpu_device *device);

/* A description of a problem that makes the library slow, or NULL. Opens the library if it is
 * used. */
const char *cpu_blas_warning(cpu_device *device);

/* The name of the kernels in use ("Zen"), or "" if the library does not report it. */
const char *cpu_blas_core(cpu_device *device);

/* Releases the device's reference, if it has one. */
void cpu_blas_close(cpu_device *device);

#endif
