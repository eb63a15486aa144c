/* SPDX-License-Identifier: MIT */
/* Matrix multiplication on the CPU, inside: what its files share.
 *
 *   gemm.c           makes a kernel: brings the descriptor into one normal form, asks each
 *                    implementation in turn; runs the epilogue over finished blocks of C
 *   gemm_own.c       the own implementation, on the micro-kernels of isa/gemm_tile.c
 *   gemm_schedule.c  how that cuts its work
 *   gemm_blas.c      the implementation that calls OpenBLAS, and opening the library
 *   amx.c            whether the machine has AMX
 *   quantized.c      weights of a few bits: few rows by themselves, many by the own implementation
 *
 * "Sums" are the products before the epilogue, in the accumulate type. */
#ifndef CPU_GEMM_GEMM_H
#define CPU_GEMM_GEMM_H

#include "core/cpu.h"
#include "gemm/isa/gemm_table.h"
#include "program/program.h"

/* One matrix per batch entry; strides in elements. A: rows m, columns k. B: rows k, columns n. */
typedef struct gemm_operand {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  int64_t row, column;
  int64_t batch[COMPUTE_MAX_RANK];
} gemm_operand;

/* The normal form: batch dimensions of size 1 are gone, those that only lengthen m are part of it,
 * and rows and columns may have changed places (C transposed = B transposed · A transposed). */
typedef struct gemm_problem {
  compute_dtype accumulate;
  uint32_t size; /* bytes of an element of it */
  const cpu_gemm_type *type;
  int64_t m, n, k;
  int64_t elements; /* along k, which counts words of the type's `group` elements */
  int64_t batches;
  int32_t batch_rank;
  int64_t batch_size[COMPUTE_MAX_RANK];
  gemm_operand a, b;
  uint32_t extra_count, output_count;
  gemm_operand extra[COMPUTE_MAX_OPERANDS]; /* the epilogue's inputs from its number 1 on */
  gemm_operand output[COMPUTE_MAX_OPERANDS];
  /* Where an element is in the descriptor's iteration space, for programs that ask. */
  int32_t row_dimension, column_dimension, batch_dimension[COMPUTE_MAX_RANK];
  int64_t row_position, column_position, batch_position[COMPUTE_MAX_RANK];
  bool swapped;     /* rows are the descriptor's n */
  bool coordinates; /* the epilogue reads coordinates */
} gemm_problem;

/* The inner loop of the own implementation. */
typedef enum gemm_method {
  GEMM_TILES, /* register tiles */
  GEMM_DOT,   /* dot products: few rows, and B's elements side by side along k */
  GEMM_STREAM /* few rows, and a large B with its columns side by side */
} gemm_method;

/* When the own implementation packs B. A last panel that is not full is always packed. */
typedef enum gemm_packing {
  GEMM_PACK_NONE,   /* never: it is read where it lies */
  GEMM_PACK_ON_USE, /* while the first tile of each strip reads it, for the other tiles */
  GEMM_PACK_PANEL,  /* panel by panel, right before each is used (other methods: some columns) */
  GEMM_PACK_BLOCK,  /* as a whole, for several blocks of rows */
  GEMM_PACKED       /* never: the operand is packed memory (cpu_kind.pack), all of its panels */
} gemm_packing;

/* A B that is computed as it is packed, for one launch: up to a panel's columns column … of its
 * rows p … p + count − 1, as pack_panels would leave them. `space` is as large as the panel. */
typedef struct gemm_source {
  void (*fill)(const struct gemm_source *source, int64_t p, int64_t count, int64_t column,
               int64_t columns, int32_t worker, void *space, void *panel);
} gemm_source;

/* Of the own implementation, and of convolutions that multiply as it does (conv_rows.c). */
enum {
  GEMM_CLOSE_CACHE = 48 << 10, /* of a level-1 cache, what a panel of B may fill */
  GEMM_UNITS_PER_THREAD = 32   /* at most; what is smaller runs in one task with its neighbours */
};

/* How the own implementation works. C is cut into tiles_m × tiles_n tiles; a unit is a tile of one
 * batch entry, or one of `splits` parts of its k; a task is `chunk` consecutive units. */
typedef struct gemm_schedule {
  gemm_method method;
  bool pack_a;
  gemm_packing pack_b;
  int64_t piece; /* columns that GEMM_DOT and GEMM_STREAM convert at a time */
  int64_t tile_m, tile_n, tiles_m, tiles_n;
  int64_t splits, chunk, tasks;
  int64_t block_m, block_k;              /* cache blocks of A; block_k is that of B, too */
  int64_t depth;                         /* of k, for which a panel of B stays close */
  int64_t group;                         /* columns between two calls of the epilogue */
  uint64_t a_bytes, b_bytes, sums_bytes; /* scratch memory of one worker */
  uint64_t fill_bytes;                   /* the last of b_bytes: a panel as a source fills it */
} gemm_schedule;

typedef struct cpu_gemm {
  cpu_kernel head;
  gemm_problem problem;
  cpu_program *epilogue;
  bool identity;                       /* the epilogue only stores the sums, in their own dtype */
  bool in_place;                       /* outputs[0] can hold the sums until the epilogue has run */
  bool constant_b;                     /* B has the same elements at every launch … */
  bool packed_b;                       /* … and launches have it packed */
  bool finishes;                       /* own: the micro-kernel computes the epilogue */
  bool filled;                         /* launches come with a gemm_source; set before prepare */
  bool even;                           /* rows have the same bits in any number; likewise */
  uint64_t span[COMPUTE_MAX_OPERANDS]; /* bytes that extra i covers */
  uint64_t output_span;                /* bytes that outputs[0] covers */
  gemm_schedule direct, buffered;      /* own: with the sums in outputs[0], or in scratch memory */
  int64_t blas_tiles_m, blas_tiles_n, blas_rows; /* OpenBLAS: tasks, and rows of C per call */
} cpu_gemm;

/* The addresses of one batch entry and its place in the iteration space. */
typedef struct gemm_matrix {
  const unsigned char *a, *b;
  const unsigned char *extra[COMPUTE_MAX_OPERANDS];
  unsigned char *output[COMPUTE_MAX_OPERANDS];
  int64_t position;
  int64_t coordinate[COMPUTE_MAX_RANK];
} gemm_matrix;

void gemm_problem_read(const compute_kernel_descriptor *descriptor, const cpu_gemm_table *table,
                       bool may_swap, gemm_problem *problem);
/* Exchanges rows and columns. */
void gemm_problem_swap(gemm_problem *problem);
void gemm_problem_matrix(const gemm_problem *problem, void *const *pointers, int64_t batch,
                         gemm_matrix *matrix);
/* Bytes from an operand's first element to after its last, over all of C. */
uint64_t gemm_problem_span(const gemm_problem *problem, const gemm_operand *operand);

/* Whether this launch may build its sums in outputs[0]. */
bool gemm_sums_in_place(const cpu_gemm *gemm, void *const *pointers);

/* Runs the epilogue over rows × columns of C from (row, column) on; their sums start at `sums`,
 * rows `sums_row` elements apart. */
void gemm_epilogue_run(const cpu_gemm *gemm, const gemm_matrix *matrix, const void *sums,
                       int64_t sums_row, int64_t row, int64_t rows, int64_t column,
                       int64_t columns);

/* cpu_gemm_kind without OpenBLAS, whose order of sums depends on the number of rows: for products
 * of which a plan computes some rows at a time, more or fewer for some number of threads. */
extern const cpu_kind cpu_even_gemm_kind;

/* Completes a kernel for a descriptor of GEMM: that kind's prepare. Where launches come with a
 * source for B, the descriptor's B says nothing, and rows and columns keep their places. */
compute_status gemm_prepare(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor);

/* Its launch with a source: pointers[1] is not read. */
compute_status gemm_run_filled(const cpu_gemm *gemm, void *const *pointers,
                               const gemm_source *source);

/* Makes the schedule for sums in outputs[0] (`direct`) or in scratch memory. */
void gemm_schedule_make(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule);

/* The length of the blocks of k in which a packed B lies; the last may be shorter. */
int64_t gemm_packed_block(const gemm_problem *problem);

/* From row to row of words of A: an odd number of cache lines, so that rows do not compete for
 * places in a cache. */
int64_t gemm_word_row(int64_t words);

/* B as panels of all of k: cpu_kind.packed_bytes and pack. */
uint64_t gemm_packed_bytes(const cpu_kernel *kernel, uint32_t input, uint64_t *form);
compute_status gemm_pack(const cpu_kernel *kernel, uint32_t input, const void *source,
                         void *packed);

/* The implementations: cpu_implementation.accept. */
compute_status gemm_own_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                               const char **reason);
compute_status gemm_blas_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason);

/* ---- OpenBLAS -------------------------------------------------------------------------------- */

/* OpenBLAS, opened at run time.
 *
 * One library serves the whole process. It is opened when it is first asked for: the one that
 * COMPUTE_BLAS names, else libopenblas.so.0; "none" means never. That it is missing is not an
 * error, the backend's own kernels serve then. Nor is it opened where the environment is not to be
 * trusted (compute_services). All functions are thread-safe.
 *
 * It has one thread, because several threads inside its multi-threaded GEMM corrupt each other's
 * results (0.3.21), while several single-threaded calls at once are safe. That number is a setting
 * of a whole library, so the library is a copy that the program does not see: the program's own
 * OpenBLAS keeps its settings. Where no such copy can be opened, the backend's own kernels serve.
 */

enum { CPU_BLAS_ROW_MAJOR = 101, CPU_BLAS_PLAIN = 111, CPU_BLAS_TRANSPOSED = 112 };

/* The functions as CBLAS declares them; its enums are ints. */
typedef struct cpu_blas_functions {
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                const double *a, int lda, const double *b, int ldb, double beta, double *c,
                int ldc);
} cpu_blas_functions;

/* The library's functions, or NULL if there is none; cpu_blas_describe says why. They stay valid
 * until the device is closed. */
const cpu_blas_functions *cpu_blas_open(cpu_device *device);

/* False if COMPUTE_BLAS names a library that cannot be used; it is only opened here if it is named.
 */
bool cpu_blas_wanted(cpu_device *device);

/* Whether products use the library: on processors with narrow vectors, for which the backend's own
 * kernels are plain loops, and where COMPUTE_BLAS names one. */
bool cpu_blas_is_used(const cpu_device *device);

/* Brackets around the calls of one thread: libraries on OpenMP, and MKL, have a number of threads
 * for each calling thread. `before` is what entering returned. */
int cpu_blas_enter(void);
void cpu_blas_leave(int before);

/* "OpenBLAS 0.3.21 Zen", or "none: " and the reason, or "own kernels" where the library is not
 * used; opens it where it is. The text lives until the device is closed. */
const char *cpu_blas_describe(cpu_device *device);

/* What cripples the library, in words, or NULL. Opens the library if it is used. */
const char *cpu_blas_warning(cpu_device *device);

/* The name of the kernels in use ("Zen"); "" if the library does not say. */
const char *cpu_blas_core(cpu_device *device);

/* Gives the device's reference back, if it has one. */
void cpu_blas_close(cpu_device *device);

#endif
