/* SPDX-License-Identifier: MIT */
/* Kernel descriptors: checks, sizes, costs and names. The code for one kind is in kinds/<name>.c.
 * Unless noted, functions take a descriptor that descriptor_check accepts. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <string.h>

#include "compute/backend.h"

/* ---- Attributes ---------------------------------------------------------------------------- */

#define KERNEL_ATTRIBUTE_BYTES 512

/* Storage for the attributes of any kind, for building descriptors. */
typedef struct kernel_attributes {
  _Alignas(16) unsigned char bytes[KERNEL_ATTRIBUTE_BYTES];
} kernel_attributes;

/* Points the descriptor at `bytes` zeros in `storage`, and returns them. The storage must live as
 * long as the descriptor. */
static inline void *kernel_attributes_in(kernel_attributes *storage, compute_kernel_descriptor *d,
                                         size_t bytes) {
  memset(storage->bytes, 0, bytes);
  d->attributes = storage->bytes;
  d->attribute_bytes = bytes;
  return storage->bytes;
}

/* ---- Checks -------------------------------------------------------------------------------- */

/* Checks any descriptor against the contract in compute/backend/kernel_descriptor.h, so that no backend has
 * to. If it is malformed, `reason` has the cause. */
bool descriptor_check(const compute_kernel_descriptor *d, char *reason, size_t reason_bytes);

/* `true` if no position inside the windows of a WINDOW kernel can overflow. descriptor_check
 * requires this of its sizes, which must all be valid. */
bool kernel_windows_fit(const compute_window_attributes *w);

/* ---- Names --------------------------------------------------------------------------------- */

/* "map", "conv", …; "unknown" for an unknown kind. A constant string. */
const char *kernel_kind_name(compute_kernel_kind kind);

/* `true` if `name` (of `length` characters) is the name of a kind. */
bool kernel_kind_exists(const char *name, size_t length);

/* Adds readable text, "convolution 3x3, stride 2, then relu(in0)", to `text`. kernel_describe_size
 * writes the sizes of its space, "64x1000 | 3". */
struct text_buffer;
void kernel_describe(const compute_kernel_descriptor *d, struct text_buffer *text);
void kernel_describe_size(const compute_kernel_descriptor *d, char *text, size_t bytes);

/* Writes the class of the kernel to `text`, which has KERNEL_CLASS_BYTES, and returns it. Kernels
 * of one class share their best parameters; codegen/tune/entry.h has the grammar. A module may pass
 * an unknown kind, whose class is "unknown/". */
#define KERNEL_CLASS_BYTES 160
char *kernel_class_print(const compute_kernel_descriptor *d, char *text);

/* `true` if COMPUTE_PRECISION_WINOGRAD is set and has an effect: CONV of f32 with a 3 × 3 filter
 * and stride 1. */
bool kernel_may_be_filtered(const compute_kernel_descriptor *d);

/* ---- Operands ------------------------------------------------------------------------------ */

/* The number of leading inputs that belong to the kind. The epilogue reads the other inputs. */
uint32_t kernel_operands_own(const compute_kernel_descriptor *d);

/* The sizes of the dimensions that operand `index` (inputs, then outputs) has strides for. These
 * are the space's sizes, unless the kind gives an operand separate dimensions. For all kinds but
 * FIT. A dimension with stride 0 repeats. The axis that GATHER and SCATTER index is not
 * included. */
void kernel_operand_sizes(const compute_kernel_descriptor *d, uint32_t index,
                          int64_t size[COMPUTE_MAX_RANK]);

/* The number of leading dimensions of the space that outputs have: all but the dimensions that
 * REDUCE reduces. */
int32_t kernel_output_rank(const compute_kernel_descriptor *d);

/* The number of leading inputs that may be among constant_inputs. */
uint32_t kernel_packable_inputs(const compute_kernel_descriptor *d);

/* The first input that an output may overwrite element by element; input_count if there is none. */
uint32_t kernel_first_in_place(const compute_kernel_descriptor *d);

/* ---- Slices -------------------------------------------------------------------------------- */

/* `true` if the kernel may run on slices of its space's first dimension. The bits stay the same,
 * because each position is independent of the others. */
bool kernel_splits(const compute_kernel_descriptor *d);

/* For such a kernel: `true` if the first stride of an input is along that dimension. Other inputs
 * are read whole for each position. */
bool kernel_input_splits(const compute_kernel_descriptor *d, uint32_t input);

/* Resizes the kernel to `count` positions. `attributes` is the storage of the descriptor's
 * attributes. */
void kernel_resize(compute_kernel_descriptor *d, int64_t count, kernel_attributes *attributes);

/* ---- Tiles of rows ------------------------------------------------------------------------- */

/* Rows first … end − 1 of a plane. */
typedef struct kernel_rows {
  int64_t first, end;
} kernel_rows;

/* Row i of the results reads rows i · step − before … i · step − before + reach − 1 of a plane.
 * Rows outside 0 … rows − 1 are left out. */
typedef struct kernel_window {
  int64_t step, before, reach, rows;
} kernel_window;

/* `true` if the kernel may run on tiles of rows (positions of its space's third dimension) with the
 * same bits. *reads then describes the rows of input 0 that it reads. Other inputs have the space's
 * rows, repeat one row, or are the inputs that kernel_input_splits excludes. */
bool kernel_splits_rows(const compute_kernel_descriptor *d, kernel_window *reads);

/* The rows that a range of result rows reads. */
kernel_rows kernel_rows_read(const kernel_window *reads, kernel_rows results);

/* Crops the kernel to some rows. Its input 0 then has only the rows that these read. `attributes`
 * is the storage of the descriptor's attributes. */
void kernel_crop(compute_kernel_descriptor *d, kernel_rows rows, kernel_attributes *attributes);

/* ---- Prices -------------------------------------------------------------------------------- */

typedef struct kernel_cost {
  uint64_t flops; /* arithmetic operations; one for each instruction of a program */
  uint64_t bytes_read, bytes_written; /* each distinct element once */
} kernel_cost;

kernel_cost kernel_cost_of(const compute_kernel_descriptor *d);

/* Classes of work with similar scaling. Devices have a time curve for each. */
typedef enum work_class {
  /* bytes read and written, each distinct element once */
  WORK_STREAM = 0, /* elementwise, in memory order */
  WORK_REDUCE,
  WORK_ROW,
  WORK_COPY, /* across memory order: a transpose */
  WORK_GATHER,
  /* a few elements at a time */
  WORK_RUN,       /* elements that all operands of a program or copy have in memory order */
  WORK_SHORT_ROW, /* rows of a softmax; similar: rows of windows, calls of the host */
  /* f32 operations of elementwise programs */
  WORK_SIMPLE,   /* additions, products, comparisons */
  WORK_FUNCTION, /* exponentials */
  /* floating-point operations */
  WORK_GEMM_F32,
  WORK_GEMM_F64,
  WORK_GEMM_F16,
  WORK_GEMM_BF16,
  WORK_CONVOLUTION,
  /* bytes copied to and from the host, with submission and wait */
  WORK_UPLOAD,
  WORK_DOWNLOAD,
  WORK_CLASSES
} work_class;

/* The work of one kernel. */
typedef struct kernel_work {
  work_class moved; /* memory access pattern */
  double bytes;
  work_class product;       /* class of a GEMM or CONV; otherwise WORK_CLASSES */
  double flops;             /* operations of the product */
  double simple, functions; /* operations of the programs: additions, exponentials */
  double runs, rows;        /* numbers of them */
  double singles, reach;    /* bytes at single places, and the bytes that these lie in */
} kernel_work;

kernel_work kernel_work_of(const compute_kernel_descriptor *d);

/* True if FOURIER takes that many points: 1 … 2^27, and 2^22 at most where a prime factor is above
 * 31. */
bool kernel_fourier_takes(int64_t length);

/* True if LINALG takes matrices of these sizes. */
bool kernel_linalg_takes(int64_t rows, int64_t columns, int64_t right);

/* The name of a function, "cholesky", or NULL. */
const char *kernel_linalg_name(compute_linalg_function function);

#endif
