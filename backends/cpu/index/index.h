/* SPDX-License-Identifier: MIT */
/* Indices of GATHER, SCATTER and BINCOUNT: reads them, and reports invalid ones. */
#ifndef CPU_INDEX_H
#define CPU_INDEX_H

#include "core/cpu.h"
#include "core/nest.h"

/* An index outside its axis, and its row-major position among the dimensions along which the index
 * tensor varies. */
typedef struct cpu_index_failure {
  int64_t position; /* INT64_MAX: none */
  int64_t index;
  int64_t offset; /* its location in the index tensor, in elements */
} cpu_index_failure;

/* Added to a negative index: the axis's size if it counts from the end, or 0 if it is invalid. */
static inline int64_t cpu_index_wrap(const compute_kernel_descriptor *descriptor) {
  return compute_index_of(descriptor)->from_zero ? 0 : compute_index_of(descriptor)->axis_size;
}

/* Element `offset` of an index tensor; `wide` for I64, otherwise I32. */
static inline int64_t cpu_index_read(const void *indices, int64_t offset, bool wide) {
  return wide ? ((const int64_t *)indices)[offset] : ((const int32_t *)indices)[offset];
}

/* The place along the axis. For an invalid index, the result is negative or at least the axis's
 * size. */
static inline int64_t cpu_index_resolve(int64_t index, int64_t wrap) {
  return index < 0 ? index + wrap : index;
}

static inline bool cpu_index_inside(int64_t place, int64_t axis_size) {
  return (uint64_t)place < (uint64_t)axis_size;
}

/* `true` if eight indices, contiguous from `first` on, are start, start + 1, … . The first test also
 * ensures that no sum wraps. */
#define CPU_INDEX_EIGHT(name, type, bits)                                                          \
  static inline bool name(const void *indices, int64_t first, int64_t start) {                     \
    const type *x = (const type *)indices + first;                                                 \
    const bits from = (bits)start;                                                                 \
    bits others = 0;                                                                               \
    if (x[7] - start != 7) return false; /* most random ones */                                    \
    for (int i = 0; i < 8; i++) others |= (bits)x[i] ^ (from + (bits)i);                           \
    return others == 0;                                                                            \
  }
CPU_INDEX_EIGHT(cpu_index_eight_narrow, int32_t, uint32_t)
CPU_INDEX_EIGHT(cpu_index_eight_wide, int64_t, uint64_t)
#undef CPU_INDEX_EIGHT

/* Number of contiguous indices from `first` on, in eights, whose places are neighbours. */
static inline int64_t cpu_index_neighbours(const void *indices, int64_t first, int64_t count,
                                           bool wide) {
  int64_t found = 0;
  const int64_t start = cpu_index_read(indices, first, wide);
  /* Negative ones count from the end: −1 and 0 are no neighbours. */
  const int64_t most = start < 0 ? cpu_min(count, -start) : count;
  while (found + 8 <= most &&
         (wide ? cpu_index_eight_wide(indices, first + found, start + found)
               : cpu_index_eight_narrow(indices, first + found, start + found)))
    found += 8;
  return found;
}

/* Strides of that position over all dimensions of a descriptor whose indices are inputs[1]. */
void cpu_index_position_strides(const compute_kernel_descriptor *descriptor,
                                int64_t stride[COMPUTE_MAX_RANK]);

static inline void cpu_index_note(cpu_index_failure *failure, int64_t position, int64_t index,
                                  int64_t offset) {
  if (position < failure->position) *failure = (cpu_index_failure){position, index, offset};
}

/* COMPUTE_OK without failures, otherwise the error for the first of them. */
compute_status cpu_index_report(const cpu_device *device, const char *operation,
                                const cpu_index_failure *failures, int64_t count,
                                int64_t axis_size);

#endif
