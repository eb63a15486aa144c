/* The module cannot call the core's shape_collapse (it links no symbol of the core), hence its own.
 */
#include "collapse.h"

#include <stdbool.h>

/* Whether a step of dimension `outer` equals size[inner] steps of `inner`, for every operand. */
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

    /* Moved next to its neighbour first, so that the test sees both where they will be. */
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
