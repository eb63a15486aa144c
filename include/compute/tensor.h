/* SPDX-License-Identifier: MIT */
/** @file
 * Tensors: typed, strided arrays on a device.
 *
 * A tensor is a reference-counted view of a reference-counted buffer. Its shape, dtype and strides
 * never change. The caller must synchronise threads that read and write the same data; everything
 * else here is thread-safe. */
#ifndef COMPUTE_TENSOR_H
#define COMPUTE_TENSOR_H

#include "compute/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_tensor compute_tensor;

/** An uninitialised, dense, row-major tensor on `device`. Sizes may be zero.
 * COMPUTE_ERROR_NULL_POINTER, _SHAPE, _DTYPE, _OVERFLOW, _OUT_OF_DEVICE_MEMORY, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_tensor_create(compute_device *device, compute_dtype dtype,
                                                 compute_shape shape, compute_tensor **tensor);

/** The same, filled with a copy of `data`: dense, row-major, of the same dtype. */
COMPUTE_API compute_status compute_tensor_from_host(compute_device *device, compute_dtype dtype,
                                                    compute_shape shape, const void *data,
                                                    compute_tensor **tensor);

/** The same, every element set to `value`. COMPUTE_ERROR_INVALID_ARGUMENT for a value that the
 * dtype does not hold, as in compute_full (graph.h). */
COMPUTE_API compute_status compute_tensor_full(compute_device *device, compute_dtype dtype,
                                               compute_shape shape, double value,
                                               compute_tensor **tensor);

/** The same for an integer, which the dtype must hold exactly; a double is exact only up to
 * 2^53. */
COMPUTE_API compute_status compute_tensor_full_i64(compute_device *device, compute_dtype dtype,
                                                   compute_shape shape, int64_t value,
                                                   compute_tensor **tensor);

/** Uniform random numbers in [low, high) (floats only), a function of only seed and element index:
 * the same on every device (Philox4x32-10, key `seed`, counter = element index). */
COMPUTE_API compute_status compute_tensor_random(compute_device *device, compute_dtype dtype,
                                                 compute_shape shape, double low, double high,
                                                 uint64_t seed, compute_tensor **tensor);

/** Called when the last reference to wrapped memory is released. It must return (compute.h). */
typedef void (*compute_release_function)(void *user, void *data);

/** A tensor over the caller's own memory, without a copy. `data` must be aligned to the element
 * size and stay valid until `release` is called (or, with release NULL, until the tensor is gone).
 * strides are in elements, may be NULL for dense row-major, and must not be negative. Devices that
 * cannot address host memory return COMPUTE_ERROR_UNSUPPORTED: use compute_tensor_from_host
 * there. */
COMPUTE_API compute_status compute_tensor_wrap(compute_device *device, compute_dtype dtype,
                                               compute_shape shape, const int64_t *strides,
                                               void *data, compute_release_function release,
                                               void *user, compute_tensor **tensor);

COMPUTE_API compute_tensor *compute_tensor_retain(compute_tensor *tensor);
COMPUTE_API void compute_tensor_release(compute_tensor *tensor); /**< NULL is allowed */

COMPUTE_API compute_device *compute_tensor_device(const compute_tensor *tensor);
COMPUTE_API compute_dtype compute_tensor_dtype(const compute_tensor *tensor);
COMPUTE_API compute_shape compute_tensor_shape(const compute_tensor *tensor);
COMPUTE_API int64_t compute_tensor_count(const compute_tensor *tensor); /**< elements */
COMPUTE_API int64_t compute_tensor_stride(const compute_tensor *tensor,
                                          int32_t axis); /**< elements */
COMPUTE_API bool compute_tensor_is_dense(const compute_tensor *tensor);

/** The first element's address if the CPU can reach it, else NULL. */
COMPUTE_API void *compute_tensor_data(const compute_tensor *tensor);

/** Promises that the elements in this tensor's memory, views included, never change again. Plans
 * compiled from then on may keep copies of them in the layout that their kernels read fastest, and
 * results of operations on frozen tensors and constants alone, one for all plans, until the memory
 * is released. This is worthwhile for the weights of a network that is run many times. Writing to
 * them fails with COMPUTE_ERROR_INVALID_ARGUMENT or _BINDING; writing through compute_tensor_data or
 * wrapped memory makes results undefined. Cannot be undone. Thread-safe. NULL is allowed. */
COMPUTE_API void compute_tensor_freeze(compute_tensor *tensor);
COMPUTE_API bool compute_tensor_is_frozen(const compute_tensor *tensor);

/** Copies between host memory (dense, row-major, of the tensor's dtype, exactly `bytes` long) and
 * the tensor. Strided tensors are scattered and gathered. Both return when the copy is done.
 * COMPUTE_ERROR_NULL_POINTER, _SHAPE when `bytes` is not the tensor's size, _TRANSFER. */
COMPUTE_API compute_status compute_tensor_read(const compute_tensor *tensor, void *data,
                                               size_t bytes);
COMPUTE_API compute_status compute_tensor_write(compute_tensor *tensor, const void *data,
                                                size_t bytes);

/** Copies the elements of `source` into `destination`: same shape, any dtype, strides and
 * device. */
COMPUTE_API compute_status compute_tensor_copy(compute_tensor *destination,
                                               const compute_tensor *source);

/** A dense copy on `device`. */
COMPUTE_API compute_status compute_tensor_to_device(const compute_tensor *tensor,
                                                    compute_device *device,
                                                    compute_tensor **result);

/* Views share the buffer; no element moves. A view keeps the buffer alive. */

/** Elements start, start + step, … (count of them) along `axis`; step ≥ 1. A negative start counts
 * from the end; the rules are as for compute_slice (graph.h). COMPUTE_ERROR_SHAPE for anything
 * outside. */
COMPUTE_API compute_status compute_tensor_slice_view(compute_tensor *tensor, int32_t axis,
                                                     int64_t start, int64_t count, int64_t step,
                                                     compute_tensor **view);

/** Axes in a new order; an empty list reverses them, COMPUTE_NO_AXES leaves them. */
COMPUTE_API compute_status compute_tensor_transpose_view(compute_tensor *tensor, compute_axes order,
                                                         compute_tensor **view);

/** Another shape with the same number of elements; COMPUTE_ERROR_SHAPE if the strides do not allow
 * it without a copy. One size may be −1. */
COMPUTE_API compute_status compute_tensor_reshape_view(compute_tensor *tensor, compute_shape shape,
                                                       compute_tensor **view);

/** Size-1 and missing leading dimensions repeated, as NumPy broadcasts. Such a view is
 * read-only. */
COMPUTE_API compute_status compute_tensor_broadcast_view(compute_tensor *tensor,
                                                         compute_shape shape,
                                                         compute_tensor **view);

#ifdef __cplusplus
}
#endif
#endif
