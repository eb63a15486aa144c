/* SPDX-License-Identifier: MIT */
/* Kernel descriptors: their checks, sizes, prices and names. What is specific to a kind is in
 * kinds/<name>.c. Unless it says otherwise, a function takes a descriptor that descriptor_check
 * accepts. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <string.h>

#include "compute/backend.h"

/* ---- Attributes ---------------------------------------------------------------------------- */

#define KERNEL_ATTRIBUTE_BYTES 512

/* Room for the attributes of any kind, for building descriptors. */
typedef struct kernel_attributes {
  _Alignas(16) unsigned char bytes[KERNEL_ATTRIBUTE_BYTES];
} kernel_attributes;

/* Points the descriptor at `bytes` zeros in `storage`, which must live as long, and returns them.
 */
static inline void *kernel_attributes_in(kernel_attributes *storage, compute_kernel_descriptor *d,
                                         size_t bytes) {
  memset(storage->bytes, 0, bytes);
  d->attributes = storage->bytes;
  d->attribute_bytes = bytes;
  return storage->bytes;
}

/* ---- Checks -------------------------------------------------------------------------------- */

/* Checks any descriptor against the contract in compute/kernel_descriptor.h, so that no backend has
 * to. If it is malformed, `reason` says why. */
bool descriptor_check(const compute_kernel_descriptor *d, char *reason, size_t reason_bytes);

/* Whether no position that a window of WINDOW names can overflow: what descriptor_check asks of its
 * sizes, which are all valid. */
bool kernel_windows_fit(const compute_window_attributes *w);

/* ---- Names --------------------------------------------------------------------------------- */

/* "map", "conv", …; "unknown" for an unknown kind. Constant. */
const char *kernel_kind_name(compute_kernel_kind kind);

/* Whether `name` (of `length` characters) is that of a kind. */
bool kernel_kind_exists(const char *name, size_t length);

/* Readable text: "convolution 3x3, stride 2, then relu(in0)", added to `text`; and the sizes of its
 * space, "64x1000 | 3". */
struct text_buffer;
void kernel_describe(const compute_kernel_descriptor *d, struct text_buffer *text);
void kernel_describe_size(const compute_kernel_descriptor *d, char *text, size_t bytes);

/* The class of kernels that share their best parameters: see codegen/tune/entry.h for the grammar.
 * Into `text`, which has KERNEL_CLASS_BYTES and is returned. For an unknown kind, which a module
 * may pass, "unknown/". */
#define KERNEL_CLASS_BYTES 160
char *kernel_class_print(const compute_kernel_descriptor *d, char *text);

/* Whether COMPUTE_PRECISION_WINOGRAD is given and makes a difference: CONV of f32 with a 3 × 3
 * filter and stride 1. */
bool kernel_may_be_filtered(const compute_kernel_descriptor *d);

/* ---- Operands ------------------------------------------------------------------------------ */

/* The number of leading inputs that belong to the kind itself; its epilogue reads the rest. */
uint32_t kernel_operands_own(const compute_kernel_descriptor *d);

/* Sizes of the dimensions that operand `index` (inputs, then outputs) has strides for: those of the
 * space, except where its kind gives an operand separate dimensions. All kinds but FIT. A size
 * whose stride is 0 repeats; the axis that GATHER and SCATTER index is not included. */
void kernel_operand_sizes(const compute_kernel_descriptor *d, uint32_t index,
                          int64_t size[COMPUTE_MAX_RANK]);

/* Dimensions of the space that outputs run over, which are its first: all but those that REDUCE
 * reduces. */
int32_t kernel_output_rank(const compute_kernel_descriptor *d);

/* How many inputs, from the first on, may be among constant_inputs. */
uint32_t kernel_packable_inputs(const compute_kernel_descriptor *d);

/* The first input that an output may overwrite element by element; input_count if none. */
uint32_t kernel_first_in_place(const compute_kernel_descriptor *d);

/* ---- Slices -------------------------------------------------------------------------------- */

/* Whether a kernel may run for some positions of its space's first dimension at a time, with the
 * same bits: each is computed without the others. */
bool kernel_splits(const compute_kernel_descriptor *d);

/* Of a kernel that does: whether the first stride of an input is along that dimension. Other inputs
 * are read whole for each position. */
bool kernel_input_splits(const compute_kernel_descriptor *d, uint32_t input);

/* Makes it a kernel for `count` positions. `attributes` holds those of the descriptor. */
void kernel_resize(compute_kernel_descriptor *d, int64_t count, kernel_attributes *attributes);

/* ---- Bands of rows ------------------------------------------------------------------------- */

/* Rows first … end − 1 of a plane. */
typedef struct kernel_rows {
  int64_t first, end;
} kernel_rows;

/* Row i of results reads the rows i · step − before … i · step − before + reach − 1 of a plane, as
 * far as these are among its rows. */
typedef struct kernel_window {
  int64_t step, before, reach, rows;
} kernel_window;

/* Whether a kernel may run for some rows at a time, positions of its space's third dimension, with
 * the same bits; and which rows of input 0 it reads for these. The others have the space's rows,
 * repeat one for all, or are those that kernel_input_splits excludes. */
bool kernel_bands(const compute_kernel_descriptor *d, kernel_window *reads);

/* The rows that some rows of results read. */
kernel_rows kernel_rows_read(const kernel_window *reads, kernel_rows results);

/* Makes it a kernel for some rows, of which it reads all that input 0 has then. `attributes` holds
 * those of the descriptor. */
void kernel_crop(compute_kernel_descriptor *d, kernel_rows rows, kernel_attributes *attributes);

/* ---- Prices -------------------------------------------------------------------------------- */

typedef struct kernel_cost {
  uint64_t flops; /* arithmetic operations; one for each instruction of a program */
  uint64_t bytes_read, bytes_written; /* every distinct element once */
} kernel_cost;

kernel_cost kernel_cost_of(const compute_kernel_descriptor *d);

/* Kinds of work with similar scaling; devices have a curve of time for each. */
typedef enum work_class {
  /* bytes read and written, every distinct element once */
  WORK_STREAM = 0, /* elementwise, in memory order */
  WORK_REDUCE,
  WORK_ROW,
  WORK_COPY, /* across memory order: a transpose */
  WORK_GATHER,
  /* operations on f32 of elementwise programs */
  WORK_SIMPLE,   /* additions, products, comparisons */
  WORK_FUNCTION, /* exponentials */
  /* floating-point operations */
  WORK_GEMM_F32,
  WORK_GEMM_F64,
  WORK_GEMM_F16,
  WORK_GEMM_BF16,
  WORK_CONVOLUTION,
  /* bytes copied from and to the host, submission and wait included */
  WORK_UPLOAD,
  WORK_DOWNLOAD,
  WORK_CLASSES
} work_class;

/* The work of one kernel. */
typedef struct kernel_work {
  work_class moved; /* its memory access pattern */
  double bytes;
  work_class product;       /* of a GEMM or CONV; else WORK_CLASSES */
  double flops;             /* of the product */
  double simple, functions; /* of its programs: additions, exponentials */
} kernel_work;

kernel_work kernel_work_of(const compute_kernel_descriptor *d);

#endif
