/* SPDX-License-Identifier: MIT */
/* Loop nests: reordering, merging and walking. */
#include <stdbool.h>

#include "nest.h"

void cpu_nest_begin(cpu_nest *nest, const compute_kernel_descriptor *descriptor, int32_t begin,
                    int32_t end) {
  *nest = (cpu_nest){.rank = end - begin,
                     .operands = (int32_t)(descriptor->input_count + descriptor->output_count)};
  for (int32_t d = begin; d < end; d++) {
    nest->size[d - begin] = descriptor->size[d];
    nest->origin[d - begin] = d;
    for (uint32_t i = 0; i < descriptor->input_count; i++)
      nest->stride[i][d - begin] = descriptor->inputs[i].stride[d];
    for (uint32_t k = 0; k < descriptor->output_count; k++)
      nest->stride[descriptor->input_count + k][d - begin] = descriptor->outputs[k].stride[d];
  }
}

int32_t cpu_nest_add(cpu_nest *nest, const int64_t *stride) {
  for (int32_t d = 0; d < nest->rank; d++) nest->stride[nest->operands][d] = stride[d];
  return nest->operands++;
}

int32_t cpu_nest_add_position(cpu_nest *nest, const compute_kernel_descriptor *descriptor,
                              int32_t begin, int32_t end) {
  int64_t all[COMPUTE_MAX_RANK] = {0}, own[COMPUTE_MAX_RANK] = {0};
  int64_t step = 1;
  for (int32_t d = end - 1; d >= begin; d--) {
    all[d] = step;
    /* An empty or overflowing space is never walked. */
    if (__builtin_mul_overflow(step, descriptor->size[d], &step)) step = 0;
  }
  for (int32_t d = 0; d < nest->rank; d++) own[d] = all[nest->origin[d]];
  return cpu_nest_add(nest, own);
}

static void copy_dimension(const cpu_nest *from, int32_t from_d, cpu_nest *to, int32_t to_d) {
  to->size[to_d] = from->size[from_d];
  to->origin[to_d] = from->origin[from_d];
  for (int32_t k = 0; k < from->operands; k++) to->stride[k][to_d] = from->stride[k][from_d];
}

/* Moves dimension `from` to place `to`; the others keep their order. */
static void shift(cpu_nest *nest, int32_t from, int32_t to) {
  const cpu_nest old = *nest;
  const int32_t step = from < to ? 1 : -1;
  for (int32_t d = from; d != to; d += step) copy_dimension(&old, d + step, nest, d);
  copy_dimension(&old, from, nest, to);
}

static uint64_t magnitude(int64_t stride) {
  return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/* Stride 0 becomes the largest key: a repeated element belongs in an outer loop. */
static uint64_t sort_key(int64_t stride) {
  return magnitude(stride) - 1;
}

void cpu_nest_sort(cpu_nest *nest, int32_t operand) {
  for (int32_t d = 1; d < nest->rank; d++) {
    int32_t place = d;
    const uint64_t key = sort_key(nest->stride[operand][d]);
    while (place > 0 && sort_key(nest->stride[operand][place - 1]) < key) place--;
    if (place < d) shift(nest, d, place);
  }
}

void cpu_nest_make_last(cpu_nest *nest, int32_t d) {
  shift(nest, d, nest->rank - 1);
}

void cpu_nest_append(const cpu_nest *from, int32_t d, cpu_nest *to) {
  to->operands = from->operands;
  copy_dimension(from, d, to, to->rank++);
}

void cpu_nest_collapse(cpu_nest *nest) {
  nest->rank = cpu_collapse(nest->rank, nest->size, nest->stride, nest->operands, NULL);
}

void cpu_nest_finish(cpu_nest *nest) {
  if (nest->rank > 0) return;
  nest->rank = 1;
  nest->size[0] = 1;
  nest->origin[0] = -1;
  for (int32_t k = 0; k < nest->operands; k++) nest->stride[k][0] = 0;
}

bool cpu_nest_count(const cpu_nest *nest, int32_t dimensions, int64_t *count) {
  int64_t product = 1;
  for (int32_t d = 0; d < dimensions; d++)
    if (nest->size[d] == 0) product = 0;
  for (int32_t d = 0; d < dimensions && product > 0; d++)
    if (__builtin_mul_overflow(product, nest->size[d], &product)) return false;
  *count = product;
  return true;
}

void cpu_walk_start(const cpu_nest *nest, int32_t dimensions, int64_t linear, cpu_walk *walk) {
  for (int32_t d = dimensions - 1; d >= 0; d--) {
    walk->index[d] = linear % nest->size[d];
    linear /= nest->size[d];
  }
  for (int32_t k = 0; k < nest->operands; k++) {
    int64_t offset = 0;
    for (int32_t d = 0; d < dimensions; d++) offset += walk->index[d] * nest->stride[k][d];
    walk->offset[k] = offset;
  }
}

void cpu_walk_next(const cpu_nest *nest, int32_t dimensions, cpu_walk *walk) {
  for (int32_t d = dimensions - 1; d >= 0; d--) {
    const int64_t back = walk->index[d];
    if (++walk->index[d] < nest->size[d]) {
      for (int32_t k = 0; k < nest->operands; k++) walk->offset[k] += nest->stride[k][d];
      return;
    }
    walk->index[d] = 0;
    for (int32_t k = 0; k < nest->operands; k++) walk->offset[k] -= back * nest->stride[k][d];
  }
}

void cpu_walk_skip(const cpu_nest *nest, int32_t dimensions, int64_t count, cpu_walk *walk) {
  const int32_t last = dimensions - 1;
  walk->index[last] += count - 1;
  for (int32_t k = 0; k < nest->operands; k++)
    walk->offset[k] += (count - 1) * nest->stride[k][last];
  cpu_walk_next(nest, dimensions, walk);
}

/* ---- Merging dimensions ---------------------------------------------------------------------- */

/* The module links no symbol of the core, so it cannot call the core's shape_collapse. */

/* `true` if a step of dimension `outer` equals size[inner] steps of `inner`, for every operand. */
static bool walks_as_one(const int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                         int32_t operands, int32_t outer, int32_t inner) {
  for (int32_t k = 0; k < operands; k++) {
    int64_t span;
    if (__builtin_mul_overflow(strides[k][inner], size[inner], &span)) return false;
    if (strides[k][outer] != span) return false;
  }
  return true;
}

static void move(int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK], int32_t operands,
                 int32_t from, int32_t to) {
  size[to] = size[from];
  for (int32_t k = 0; k < operands; k++) strides[k][to] = strides[k][from];
}

int32_t cpu_collapse(int32_t rank, int64_t *size, int64_t (*strides)[COMPUTE_MAX_RANK],
                     int32_t operands, int32_t *fence) {
  const int32_t old_fence = fence ? *fence : 0;
  int32_t kept = 0, new_fence = 0;
  for (int32_t d = 0; d < rank; d++) {
    const bool below = d < old_fence;
    if (size[d] == 1) continue;

    /* Move the dimension next to its neighbour first: the test then sees both in their final
     * places. */
    move(size, strides, operands, d, kept);
    int64_t product;
    if (kept > (below ? 0 : new_fence) && walks_as_one(size, strides, operands, kept - 1, kept) &&
        !__builtin_mul_overflow(size[kept - 1], size[kept], &product)) {
      size[kept] = product;
      move(size, strides, operands, kept, kept - 1);
    } else {
      kept++;
    }
    if (below) new_fence = kept;
  }
  for (int32_t d = kept; d < rank; d++) {
    size[d] = 1;
    for (int32_t k = 0; k < operands; k++) strides[k][d] = 0;
  }
  if (fence) *fence = new_fence;
  return kept;
}
