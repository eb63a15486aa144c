/* SPDX-License-Identifier: MIT */
/* A loop nest: some dimensions of a kernel's space, in the best order for memory access, with the
 * strides of every operand. REDUCE, ROW, GATHER and SCATTER split their space into two or more
 * nests and traverse each separately. */
#ifndef CPU_CORE_NEST_H
#define CPU_CORE_NEST_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/backend.h"

/* The descriptor's operands, and other quantities that are linear in the loop indices, for example
 * the row-major position in the space. */
#define CPU_NEST_OPERANDS (COMPUTE_MAX_OPERANDS + 3)

typedef struct cpu_nest {
  int32_t rank; /* at least 1 after cpu_nest_finish */
  int32_t operands;
  int64_t size[COMPUTE_MAX_RANK];
  int32_t origin[COMPUTE_MAX_RANK]; /* the descriptor's dimension */
  int64_t stride[CPU_NEST_OPERANDS][COMPUTE_MAX_RANK];
} cpu_nest;

/* Dimensions begin … end−1 of a descriptor; its inputs are operands 0 …, followed by its outputs.
 */
void cpu_nest_begin(cpu_nest *nest, const compute_kernel_descriptor *descriptor, int32_t begin,
                    int32_t end);

/* Appends a quantity with these strides, one for each dimension of the nest; returns its number. */
int32_t cpu_nest_add(cpu_nest *nest, const int64_t *stride);

/* Appends the row-major position in the descriptor's dimensions begin … end−1, in their original
 * order. These dimensions include the nest's. */
int32_t cpu_nest_add_position(cpu_nest *nest, const compute_kernel_descriptor *descriptor,
                              int32_t begin, int32_t end);

/* Sorts the dimensions by descending stride of one operand, with stride 0 first. */
void cpu_nest_sort(cpu_nest *nest, int32_t operand);

/* Moves dimension `d` to the last place; the others keep their order. */
void cpu_nest_make_last(cpu_nest *nest, int32_t d);

/* Appends dimension `d` of one nest to another nest of the same descriptor. A zeroed nest has no
 * dimensions. */
void cpu_nest_append(const cpu_nest *from, int32_t d, cpu_nest *to);

/* Merges dimensions if that changes no address; coordinates are lost. */
void cpu_nest_collapse(cpu_nest *nest);

/* Adds a dimension of size 1, with origin −1, to a nest without dimensions. */
void cpu_nest_finish(cpu_nest *nest);

/* The product of the first `dimensions` sizes; false if it does not fit. */
bool cpu_nest_count(const cpu_nest *nest, int32_t dimensions, int64_t *count);

/* The state of a traversal of the first dimensions of a nest. Offsets are in elements. */
typedef struct cpu_walk {
  int64_t index[COMPUTE_MAX_RANK];
  int64_t offset[CPU_NEST_OPERANDS];
} cpu_walk;

/* Moves to the point with row-major number `linear` in the first `dimensions` dimensions. */
void cpu_walk_start(const cpu_nest *nest, int32_t dimensions, int64_t linear, cpu_walk *walk);

/* Advances to the next point; from the last point to the first. */
void cpu_walk_next(const cpu_nest *nest, int32_t dimensions, cpu_walk *walk);

/* Advances by `count` points, at most to the end of the last of these dimensions. */
void cpu_walk_skip(const cpu_nest *nest, int32_t dimensions, int64_t count, cpu_walk *walk);

/* The last dimension; tiles run along it. */
static inline int32_t cpu_nest_last(const cpu_nest *nest) {
  return nest->rank - 1;
}
static inline int64_t cpu_nest_length(const cpu_nest *nest) {
  return nest->size[nest->rank - 1];
}
static inline int64_t cpu_nest_step(const cpu_nest *nest, int32_t operand) {
  return nest->stride[operand][nest->rank - 1];
}

/* ---- Merging dimensions ---------------------------------------------------------------------- */

/* Fewer, longer loops: merging dimensions with compatible strides in all operands. */

/* Drops dimensions of size 1 and merges neighbours with compatible strides in all operands.
 *
 * `strides` has `operands` rows, in elements (0 repeats). Dimensions below *fence never merge with
 * those at or past it; *fence becomes the number of remaining dimensions below it. NULL: no fence.
 * Entries past the new rank become size 1 and stride 0. Returns the new rank, 0 for a single
 * element.
 *
 * Row-major positions are preserved; coordinates are not. */
int32_t cpu_collapse(int32_t rank, int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                     int32_t operands, int32_t *fence);

#endif
