/* SPDX-License-Identifier: MIT */
/* The elements of a tensor, to and from a file, in blocks of fixed size: apart from the tensor
 * itself, reading and writing take constant memory. */
#ifndef IO_ELEMENTS_H
#define IO_ELEMENTS_H

#include "core/tensor/tensor.h"

/* The format of the bytes in a file. */
typedef struct element_format {
  compute_dtype dtype;
  compute_shape shape;
  bool fortran_order; /* the first axis is the fastest */
  bool swapped;       /* the byte order is not this machine's */
} element_format;

/* Whether this machine stores numbers as safetensors does. */
bool elements_little_endian(void);

/* Reads the next `bytes` of the file. Reports its own errors. */
typedef compute_status (*element_source)(void *user, void *data, size_t bytes);
typedef compute_status (*element_sink)(void *user, const void *data, size_t bytes);

/* A new dense, row-major tensor on `device` that is not registered with a memory scope, with
 * elements from `source`. `operation` names the call, for errors. */
compute_status elements_read(const char *operation, compute_device *device,
                             const element_format *format, element_source source, void *user,
                             compute_tensor **tensor);

/* Passes the elements of a tensor with any strides to `sink`, dense and row-major; `swapped`: in
 * the opposite byte order. */
compute_status elements_write(const char *operation, const compute_tensor *tensor, bool swapped,
                              element_sink sink, void *user);

#endif
