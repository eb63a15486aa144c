/* SPDX-License-Identifier: MIT */
/* The structs of DLPack. Their layout is fixed for all libraries. The names are different, so that
 * they do not clash with a DLPack header. */
#ifndef TENSOR_DLPACK_H
#define TENSOR_DLPACK_H

#include "compute/dlpack.h"

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 }; /* exports use only features of 1.0 */

enum { DLPACK_READ_ONLY = 1 << 0, DLPACK_COPIED = 1 << 1 }; /* flags */

/* Kinds of element types. */
enum {
  DLPACK_SIGNED = 0,
  DLPACK_UNSIGNED = 1,
  DLPACK_FLOAT = 2,
  DLPACK_BFLOAT = 4,
  DLPACK_LOGIC = 6
};

typedef struct dlpack_type {
  uint8_t kind, bits;
  uint16_t lanes;
} dlpack_type;

typedef struct dlpack_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  dlpack_type type;
  int64_t *size, *stride; /* stride NULL: dense */
  uint64_t byte_offset;
} dlpack_tensor;

struct DLManagedTensor {
  dlpack_tensor tensor;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self); /* may be NULL, as below */
};

/* The fields up to the deleter are the same in all versions. */
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *owner;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  dlpack_tensor tensor;
};

#endif
