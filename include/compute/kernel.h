/* SPDX-License-Identifier: MIT */
/** @file
 * Your own kernels: compiled from source for a device, launched on a queue.
 *
 * Devices with a compiler support them (OpenCL, CUDA, the CPU); others return
 * COMPUTE_ERROR_UNSUPPORTED. The source is in one of two languages:
 * - the device's own language;
 * - with COMPUTE_KERNEL_PORTABLE, the dialect of libcompute's own kernels (kernels/README.md). One
 *   source then serves OpenCL, CUDA and the CPU.
 *
 * The CPU supports only the dialect, and needs a C compiler: COMPUTE_CC, or cc, gcc or clang in
 * PATH. It is called with -O3 for the machine's processor and the given options. There, groups have
 * up to 1024 items, and the arrays of a kernel's items up to about 100 kB in total.
 *
 * Compiled kernels are kept in the disk cache. call.h makes a C function part of a graph instead.
 * @code
 *   static const char source[] =
 *       "KERNEL void scale(GLOBAL const f32 *x, GLOBAL f32 *y, u32 n, f32 by) {\n"
 *       "  u32 i = GLOBAL_ID_X;\n"
 *       "  if (i < n) y[i] = by * x[i];\n"
 *       "}\n";
 *   compute_kernel *kernel;
 *   compute_kernel_compile(device, source, "scale", NULL, COMPUTE_KERNEL_PORTABLE, &kernel);
 *   compute_kernel_launch(kernel, &(compute_launch){.groups = {blocks}, .group = {64}},
 *                         (compute_kernel_argument[]){COMPUTE_KERNEL_TENSOR(x),
 *                                                     COMPUTE_KERNEL_TENSOR(y),
 *                                                     COMPUTE_KERNEL_VALUE(n),
 *                                                     COMPUTE_KERNEL_VALUE(by)},
 *                         4, NULL);
 * @endcode
 */
#ifndef COMPUTE_KERNEL_H
#define COMPUTE_KERNEL_H

#include "compute/device.h"
#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_kernel compute_kernel;

enum { COMPUTE_KERNEL_PORTABLE = 1 << 0 /* the source is in libcompute's dialect */ };

/** Compiles `source` and finds the function `entry` in it. `options` are for the device's compiler,
 * NULL for none. Release the kernel with compute_kernel_release; several threads may launch it.
 * COMPUTE_ERROR_COMPILATION with the compiler's log in the message, _UNSUPPORTED, _NULL_POINTER,
 * _INVALID_ARGUMENT (unknown flags). Thread-safe. */
COMPUTE_API compute_status compute_kernel_compile(compute_device *device, const char *source,
                                                  const char *entry, const char *options,
                                                  uint32_t flags, compute_kernel **kernel);

/** Frees a kernel. It must no longer be in a queue. NULL is allowed. */
COMPUTE_API void compute_kernel_release(compute_kernel *kernel);

/** One argument: a tensor on the kernel's device (the kernel gets the address of its first
 * element), or `bytes` of a value, or, with neither, `bytes` of local memory. Local memory as an
 * argument is OpenCL's way; portable source declares it with LOCAL_ARRAY inside the kernel. */
typedef struct compute_kernel_argument {
  const compute_tensor *tensor;
  const void *value;
  size_t bytes;
} compute_kernel_argument;

#define COMPUTE_KERNEL_TENSOR(t)    ((compute_kernel_argument){(t), NULL, 0})
#define COMPUTE_KERNEL_VALUE(v)     ((compute_kernel_argument){NULL, &(v), sizeof(v)})
#define COMPUTE_KERNEL_LOCAL(bytes) ((compute_kernel_argument){NULL, NULL, (bytes)})

/** The index space: groups of items, in up to three dimensions. A 0 counts as 1, except that
 * groups[0] = 0 launches nothing. */
typedef struct compute_launch {
  uint32_t groups[3];
  uint32_t group[3]; /**< items of one group */
} compute_launch;

/** Submits a kernel to `queue`, or without one runs it to completion. Tensors must live until the
 * queue has been waited for. Thread-safe, but a queue has one owner.
 *
 * - COMPUTE_ERROR_INVALID_ARGUMENT: the number of arguments, a group that the device refuses, a
 *   tensor or queue of another device; the size of a value only where the driver checks it.
 * - _UNSUPPORTED: a view that begins where the device cannot address memory.
 * - _WRONG_CONTEXT, _NULL_POINTER, _OUT_OF_MEMORY, or the device's own failure. */
COMPUTE_API compute_status compute_kernel_launch(compute_kernel *kernel,
                                                 const compute_launch *launch,
                                                 const compute_kernel_argument *arguments,
                                                 size_t count, compute_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
