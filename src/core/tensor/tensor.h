/* SPDX-License-Identifier: MIT */
/* Internals of tensors, memory scopes, and plain copies on the host. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdatomic.h>

#include "compute/tensor.h"
#include "core/device/device.h"

struct compute_tensor {
  _Atomic int32_t references;
  compute_dtype dtype;
  compute_shape shape;               /* normalised */
  int64_t strides[COMPUTE_MAX_RANK]; /* in elements */
  int64_t offset;                    /* in bytes from the buffer's start */
  memory_buffer *buffer;
  bool read_only; /* a broadcast view, or wrapped memory that overlaps or must not be written */
  struct memory_scope *_Atomic scope; /* the scope that will release it, or NULL */
  compute_tensor *scope_next, *scope_previous;
};

/* The first element as a kernel argument. */
compute_argument tensor_argument(const compute_tensor *tensor);

/* Creates a dense tensor for internal use. It is not registered with a memory scope. */
compute_status tensor_create_private(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, compute_tensor **tensor);

/* Creates a dense tensor for internal use over a buffer that is large enough, and retains the
 * buffer. */
compute_status tensor_create_over(memory_buffer *buffer, compute_dtype dtype, compute_shape shape,
                                  compute_tensor **tensor);

/* tensor_create_private with zeros. Uploads them piece by piece, without building a kernel. */
compute_status tensor_create_zero(compute_device *device, compute_dtype dtype, compute_shape shape,
                                  compute_tensor **tensor);

/* The layout of elements in foreign memory. */
typedef struct tensor_layout {
  compute_dtype dtype;
  compute_shape shape;
  const int64_t *strides; /* in elements; NULL: dense */
  bool unaligned;         /* the address may have any alignment */
  bool read_only;
} tensor_layout;

/* Creates a tensor over foreign memory, from memory->byte_offset on. `release` receives
 * memory->data. If the call fails, it has not called `release`. */
compute_status tensor_wrap(compute_device *device, const char *operation,
                           const tensor_layout *layout, const compute_foreign_memory *memory,
                           compute_release_function release, void *user, compute_tensor **tensor);

/* compute_tensor_wrap of dense elements at any address. Kernels must not read them in place. The
 * caller freezes the tensor for packing, or moves the elements with tensor_align first. */
compute_status tensor_wrap_unaligned(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, void *data,
                                     compute_release_function release, void *user,
                                     compute_tensor **tensor);

/* Points the tensor at aligned `data`, where the caller has copied the elements. Nobody may read
 * the tensor during the call. */
void tensor_align(compute_tensor *tensor, void *data);

/* Bytes from the first element to the end of the last one; 0 for an empty tensor. */
uint64_t tensor_span_bytes(const compute_tensor *tensor);

/* Bytes of the elements in a dense layout. */
uint64_t tensor_dense_bytes(const compute_tensor *tensor);

/* Returns COMPUTE_OK if the elements may be written, and COMPUTE_ERROR_INVALID_ARGUMENT for a
 * frozen or read-only tensor. */
compute_status tensor_check_writable(const compute_tensor *tensor, const char *operation);

/* ---- Memory scopes --------------------------------------------------------------------------- */

/* Registers a new tensor with this thread's innermost scope of the context, if there is one. */
compute_status scope_register(compute_tensor *tensor);

/* Unlinks a tensor that is about to be freed. Callable from any thread. */
void scope_forget(compute_tensor *tensor);

/* ---- Plain copies ---------------------------------------------------------------------------- */

/* Strided, converting copies by plain loops on the host, for devices that run no kernels. */

/* An array in host memory: its first element and its strides in elements. */
typedef struct host_array {
  compute_dtype dtype;
  void *data;
  const int64_t *strides;
} host_array;

/* Sets destination = source, element by element over `shape`. The arrays must not overlap.
 * Addresses need no alignment. */
void host_copy(compute_shape shape, const host_array *destination, const host_array *source);

/* Writes `count` copies of one element of `size` bytes. */
void host_fill(void *destination, const void *element, size_t size, uint64_t count);

extern object_kind tensor_object;

#endif
