/* SPDX-License-Identifier: MIT */
/* Internals of a tensor, memory scopes, and plain copies on the host. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "compute/tensor.h"
#include "core/device/device.h"

struct compute_tensor {
  int32_t references; /* atomic */
  compute_dtype dtype;
  compute_shape shape;               /* normalised */
  int64_t strides[COMPUTE_MAX_RANK]; /* elements */
  int64_t offset;                    /* bytes from the buffer's start */
  memory_buffer *buffer;
  bool read_only; /* a broadcast view, or wrapped memory that overlaps or may not be written to */
  struct memory_scope *scope; /* that will release it, or NULL */
  compute_tensor *scope_next, *scope_previous;
};

/* Address of the first element as a kernel argument. */
compute_argument tensor_argument(const compute_tensor *tensor);

/* A dense tensor that is not registered with a memory scope, for the library's own use. */
compute_status tensor_create_private(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, compute_tensor **tensor);

/* The same, of zeros: uploaded piece by piece, without building a kernel. */
compute_status tensor_create_zero(compute_device *device, compute_dtype dtype, compute_shape shape,
                                  compute_tensor **tensor);

/* How elements lie in memory of others. */
typedef struct tensor_layout {
  compute_dtype dtype;
  compute_shape shape;
  const int64_t *strides; /* elements; NULL: dense */
  bool unaligned;         /* at any address */
  bool read_only;
} tensor_layout;

/* A tensor over memory of others, from memory->byte_offset on. `release` gets memory->data. On
 * failure it has not been called. */
compute_status tensor_wrap(compute_device *device, const char *operation,
                           const tensor_layout *layout, const compute_foreign_memory *memory,
                           compute_release_function release, void *user, compute_tensor **tensor);

/* compute_tensor_wrap of dense elements at any address. Kernels must not read them as they lie:
 * they are frozen and packed, or moved by tensor_align before that. */
compute_status tensor_wrap_unaligned(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, void *data,
                                     compute_release_function release, void *user,
                                     compute_tensor **tensor);

/* From now on its elements lie at `data`, aligned, where the caller has copied them. Nobody reads
 * the tensor meanwhile. */
void tensor_align(compute_tensor *tensor, void *data);

/* Bytes from the first element to the end of the last; 0 if there is none. */
uint64_t tensor_span_bytes(const compute_tensor *tensor);

/* Bytes of the elements if they were dense. */
uint64_t tensor_dense_bytes(const compute_tensor *tensor);

/* Whether its elements may be written: COMPUTE_ERROR_INVALID_ARGUMENT for a frozen or read-only
 * one. */
compute_status tensor_check_writable(const compute_tensor *tensor, const char *operation);

/* ---- Memory scopes --------------------------------------------------------------------------- */

/* Called for every new tensor: registers it with the innermost scope of this thread, if any. */
compute_status scope_register(compute_tensor *tensor);

/* Called when a tensor is freed; any thread. */
void scope_forget(compute_tensor *tensor);

/* ---- Plain copies ---------------------------------------------------------------------------- */

/* Strided, converting copies by plain loops on the host, for devices that run no kernels. */

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

extern object_kind tensor_object;

#endif
