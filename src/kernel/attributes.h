/* Room for the attributes of any kind of kernel, for those who build descriptors. */
#ifndef KERNEL_ATTRIBUTES_H
#define KERNEL_ATTRIBUTES_H

#include <string.h>

#include "compute/backend.h"

#define KERNEL_ATTRIBUTE_BYTES 512

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

/* Bytes of the attributes of a kind; 0: it has none. */
size_t kernel_attribute_bytes(compute_kernel_kind kind);

/* Whether the attributes that the kind needs are there. */
static inline bool kernel_attributes_fit(const compute_kernel_descriptor *d) {
  const size_t bytes = kernel_attribute_bytes(d->kind);
  return bytes == 0 || (d->attributes && d->attribute_bytes >= bytes);
}

#endif
