/* SPDX-License-Identifier: MIT */
/* The description of a kernel kind, and the functions that the kinds share. */
#ifndef KERNEL_KIND_H
#define KERNEL_KIND_H

#include "core/base/text.h"
#include "core/kernel/common/program.h"
#include "core/kernel/kernel.h"

/* Buffer for the reason of a failed check. */
typedef struct explanation {
  char *text;
  size_t bytes;
} explanation;

/* A class under construction. */
typedef struct class_text {
  char *text;
  size_t used;
} class_text;

/* The first four members are required. The others may be NULL or 0, with the meaning in their
 * comments. */
typedef struct kernel_kind {
  const char *name, *title; /* in files, "conv"; in readable text, "convolution" */
  bool (*check)(const compute_kernel_descriptor *d, const explanation *why);
  uint64_t (*flops)(const compute_kernel_descriptor *d);

  size_t attribute_bytes;
  /* Copies the relevant fields to the zeroed `attributes`, so that equal work has equal bytes.
   * NULL: the attributes have no padding, and all fields matter. */
  void (*normalize)(const compute_kernel_descriptor *d, void *attributes);
  bool has_prologue, has_accumulate; /* prologue_inputs and accumulate matter */

  int32_t operand_rank;                                /* dimensions of strides; 0: the rank */
  uint32_t (*own)(const compute_kernel_descriptor *d); /* NULL: all inputs */
  /* Changes `size` for an input that belongs to the kind. NULL: these inputs have the space's
   * sizes. */
  void (*sizes)(const compute_kernel_descriptor *d, uint32_t input, int64_t *size);
  int32_t (*output_rank)(const compute_kernel_descriptor *d); /* NULL: the space's rank */
  bool in_place; /* outputs may overwrite the epilogue's inputs */
  /* splits: `true` if each position of the space's first dimension is independent; NULL: never.
   * unsplit: bits of the inputs that are read whole for each position. resize: adapts attributes
   * with that dimension's size. */
  bool (*splits)(const compute_kernel_descriptor *d);
  uint32_t (*unsplit)(const compute_kernel_descriptor *d);
  void (*resize)(const compute_kernel_descriptor *d, void *attributes);
  /* splits_rows: `true` if each row (a position of the space's third dimension) is independent, and
   * the rows that it reads of input 0; NULL: never. crop: restricts the kernel to some rows. */
  bool (*splits_rows)(const compute_kernel_descriptor *d, kernel_window *reads);
  void (*crop)(compute_kernel_descriptor *d, kernel_rows rows, void *attributes);
  uint32_t packable; /* number of leading inputs that a device may prepack */

  /* Bytes read of an input and written to an output; NULL: distinct elements by strides. */
  uint64_t (*input_bytes)(const compute_kernel_descriptor *d, uint32_t input);
  uint64_t (*output_bytes)(const compute_kernel_descriptor *d, uint32_t output);
  /* Adjusts `work`, whose bytes are counted and whose class is WORK_STREAM. NULL: no change. */
  void (*work)(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work);

  /* Writes the class after the kind and "/". */
  void (*print_class)(const compute_kernel_descriptor *d, class_text *text);
  const char *(*operation)(const compute_kernel_descriptor *d); /* "softmax"; NULL: the title */
  /* Text after the operation (", stride 2"), after its programs, and after the sizes of the
   * space. */
  void (*print_details)(const compute_kernel_descriptor *d, text_buffer *text);
  void (*print_more)(const compute_kernel_descriptor *d, text_buffer *text);
  int (*print_size)(const compute_kernel_descriptor *d, char *text, size_t bytes);
} kernel_kind;

/* Returns NULL for an unknown kind. */
const kernel_kind *kernel_kind_of(compute_kernel_kind kind);

/* `true` if the attributes that the kind needs are present. */
bool kernel_attributes_fit(const compute_kernel_descriptor *d);

/* ---- For checks: each returns false when it has written why --------------------------------- */

bool descriptor_refuse(const explanation *why, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* Checks for all kinds: the space, the operands and their strides. */
bool descriptor_check_operands(const compute_kernel_descriptor *d, const explanation *why);

bool descriptor_check_counts(const compute_kernel_descriptor *d, uint32_t inputs, uint32_t outputs,
                             const explanation *why);
bool descriptor_check_no_programs(const compute_kernel_descriptor *d, const explanation *why);

/* Memory can hold an axis of that size. */
bool descriptor_check_axis(int64_t size, const explanation *why);

/* Outputs must have a separate element for each position in dimensions 0 … rank − 1. */
bool descriptor_check_outputs_distinct(const compute_kernel_descriptor *d, int32_t rank,
                                       const explanation *why);

/* Checks the program of MAP, on all inputs. */
bool descriptor_check_map_program(const compute_kernel_descriptor *d, const explanation *why);

/* The prologue must produce one element of type `accumulate`. */
bool descriptor_check_prologue(const compute_kernel_descriptor *d, const explanation *why);

/* Checks an epilogue with value 0 of the kernel (type `first`) and the inputs from `rest` on.
 * Without a program, there must be one output and no such inputs. */
bool descriptor_check_epilogue(const compute_kernel_descriptor *d, compute_dtype first,
                               uint32_t rest, int32_t rank, const explanation *why);

/* Checks the two factors of a product, its precision (bits of `known`), and its epilogue. Reasons
 * name `kind`. */
bool descriptor_check_product(const compute_kernel_descriptor *d, const char *kind,
                              compute_precision precision, unsigned known, const explanation *why);

/* `true` if programs can sum in this type. */
bool descriptor_is_arithmetic(compute_dtype type);

/* ---- For classes ----------------------------------------------------------------------------- */

void class_add(class_text *t, const char *format, ...) COMPUTE_PRINTF(2, 3);

/* "f32+f16>f32/": the dtypes of the first `inputs` inputs and of the outputs. The second function
 * also writes accumulate between them. */
void class_add_types(class_text *t, const compute_kernel_descriptor *d, uint32_t inputs);
void class_add_sum_types(class_text *t, const compute_kernel_descriptor *d, uint32_t inputs);

/* The base-2 logarithm, rounded to nearest; 0 for 0. */
int class_bucket(int64_t count);

/* The dimension with the smallest nonzero stride, or −1 if there is none. */
int32_t class_fastest(const compute_kernel_descriptor *d, const compute_operand *operand);

/* "dense", "broadcast" or "strided": the worst case of all operands. */
const char *class_walk(const compute_kernel_descriptor *d);

/* ---- For prices and text --------------------------------------------------------------------- */

/* The product of sizes `first` … `end` − 1 of the space. */
int64_t kernel_elements(const compute_kernel_descriptor *d, int32_t first, int32_t end);

/* The elements of the space times the operations of the epilogue. */
uint64_t kernel_epilogue_flops(const compute_kernel_descriptor *d);

/* Adds a program's operations on that number of elements. */
void work_add_program(const compute_program *program, double elements, kernel_work *work);

/* The work class of a product with such factors, and its slowdown if it is too narrow to fill
 * tiles. */
work_class work_product(compute_dtype factors);
double work_narrowness(int64_t m, int64_t n, int64_t k);

/* `true` if neighbours in the last dimension are neighbours in the memory of every operand. */
bool work_streams(const compute_kernel_descriptor *d);

/* The elements of the last dimensions that all operands have in one sequence of equal steps, where
 * short lines of an operand may repeat. A kernel makes a call for each. */
int64_t work_run(const compute_kernel_descriptor *d);

/* ", stride 2" or ", stride 2x1"; only for values other than the default. */
void text_add_pair(text_buffer *text, const char *name, const int64_t *pair, int64_t usual);

#endif
