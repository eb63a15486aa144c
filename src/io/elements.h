/* SPDX-License-Identifier: MIT */
/* Reads and writes the elements of a tensor in blocks of fixed size. So apart from the tensor, both
 * take constant memory. */
#ifndef IO_ELEMENTS_H
#define IO_ELEMENTS_H

#include "core/tensor/tensor.h"

/* The format of the bytes in a file. */
typedef struct element_format {
  compute_dtype dtype;
  compute_shape shape;
  bool fortran_order; /* the first axis varies fastest */
  bool swapped;       /* the byte order differs from this machine's */
} element_format;

/* True if this machine is little-endian, like safetensors. */
bool elements_little_endian(void);

/* An element_source reads the next `bytes` of the file; an element_sink writes them. Both report
 * their errors. */
typedef compute_status (*element_source)(void *user, void *data, size_t bytes);
typedef compute_status (*element_sink)(void *user, const void *data, size_t bytes);

/* A new dense, row-major tensor on `device` with elements from `source`. It is not registered with
 * a memory scope. `operation` names the call in errors. */
compute_status elements_read(const char *operation, compute_device *device,
                             const element_format *format, element_source source, void *user,
                             compute_tensor **tensor);

/* Passes the elements of a tensor with any strides to `sink`, dense and row-major. If `swapped`, in
 * the opposite byte order. */
compute_status elements_write(const char *operation, const compute_tensor *tensor, bool swapped,
                              element_sink sink, void *user);

#endif
