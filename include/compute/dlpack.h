/* SPDX-License-Identifier: MIT */
/** @file
 * Tensors shared with other libraries in the process through DLPack: NumPy, PyTorch, JAX, CuPy, TVM
 * and many more. No element is copied.
 *
 * Only pointers to DLPack's structs appear here. A program that looks into them includes DLPack's
 * own header, before or after this one. Most programs just pass the pointers on, in Python inside a
 * capsule (docs/guide/python.md).
 *
 * Both libraries then see the same memory: the data that one writes, the other reads. Memory of the
 * CPU, of CUDA and of OpenCL devices can be shared; OpenCL's is a cl_mem, which belongs to its
 * cl_context. */
#ifndef COMPUTE_DLPACK_H
#define COMPUTE_DLPACK_H

#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;          /* of every version */
struct DLManagedTensorVersioned; /* since DLPack 1.0; has flags, such as that for read-only */

/** How a tensor is exported. All fields may be zero. */
typedef struct compute_dlpack_options {
  compute_queue *queue; /**< on which runs that write the tensor have been submitted, so that the
                         * consumer sees their results; NULL: they are finished */
  void *stream;         /**< the consumer's stream of the driver, a CUstream (1 and 2 are CUDA's
                         * default ones): it is made to wait for the queue. NULL, or on other
                         * devices: the call itself waits */
  bool copy;            /**< export a dense copy, which the consumer may write to */
  uint64_t reserved[8]; /**< must be zero */
} compute_dlpack_options;

/** Exports a tensor. `options` may be NULL. The result belongs to the caller, until a library takes
 * it over. Its owner calls its deleter once, from any thread. Until then it counts as a tensor of
 * the context, which cannot be closed before. A read-only tensor (frozen, a broadcast view,
 * imported as such) sets a flag in the versioned form. The unversioned form has no such flag:
 * COMPUTE_ERROR_INVALID_ARGUMENT asks for the other form or a copy. COMPUTE_ERROR_NULL_POINTER,
 * _WRONG_CONTEXT, _OUT_OF_MEMORY, _OUT_OF_DEVICE_MEMORY; _UNSUPPORTED for devices whose memory
 * other libraries cannot use. Thread-safe. */
COMPUTE_API compute_status compute_tensor_to_dlpack(compute_tensor *tensor,
                                                    const compute_dlpack_options *options,
                                                    struct DLManagedTensor **managed);
COMPUTE_API compute_status
compute_tensor_to_dlpack_versioned(compute_tensor *tensor, const compute_dlpack_options *options,
                                   struct DLManagedTensorVersioned **managed);

/** A tensor over another library's memory, on the device of `context` that has the memory. It takes
 * over `managed`: the deleter is called once, when the tensor and all views of it are gone and no
 * queue needs them any more, in the thread where that happens. On failure `managed` stays the
 * caller's. Thread-safe.
 *
 * The other library's work must be finished, or ordered before libcompute's: give it
 * compute_queue_native(queue) as the stream (`__dlpack__(stream=…)` in Python), and run on that
 * queue.
 *
 * - COMPUTE_ERROR_DTYPE for element types without a dtype here, such as complex numbers or 4 bits.
 * - _SHAPE for more than 8 dimensions or negative sizes; _OVERFLOW.
 * - _INVALID_ARGUMENT for negative strides, and for elements that are not aligned to their size.
 * - _NO_DEVICE if the context does not have the device.
 * - _UNSUPPORTED for a DLPack version other than 1, and for memory that the device does not reach.
 * - _NULL_POINTER; _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_tensor_from_dlpack(compute_context *context,
                                                      struct DLManagedTensor *managed,
                                                      compute_tensor **tensor);
COMPUTE_API compute_status compute_tensor_from_dlpack_versioned(
    compute_context *context, struct DLManagedTensorVersioned *managed, compute_tensor **tensor);

/** DLPack's numbers for a device, as `__dlpack_device__` returns them in Python: its type and its
 * number among the devices of this type. COMPUTE_ERROR_NULL_POINTER; _UNSUPPORTED for devices whose
 * memory other libraries cannot use. Thread-safe. */
COMPUTE_API compute_status compute_device_dlpack(const compute_device *device, int32_t *type,
                                                 int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
