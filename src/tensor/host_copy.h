/* Strided, converting copies by plain loops on the host, for devices that run no kernels. */
#ifndef TENSOR_HOST_COPY_H
#define TENSOR_HOST_COPY_H

#include "compute/dtype.h"

/* An array in host memory: its first element and its strides in elements. */
typedef struct host_array {
  compute_dtype dtype;
  void *data;
  const int64_t *strides;
} host_array;

/* destination = source, element by element over `shape`. The arrays do not overlap; addresses need
 * no alignment. */
void host_copy(compute_shape shape, const host_array *destination, const host_array *source);

/* Writes `count` copies of one element of `size` bytes. */
void host_fill(void *destination, const void *element, size_t size, uint64_t count);

#endif
