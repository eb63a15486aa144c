/* SPDX-License-Identifier: MIT */
/* Files of one array, for internal use: .npy and IDX. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <stdbool.h>

#include "compute/dtype.h"
#include "compute/tensor.h"

/* compute_npy_read with another operation name for errors. The tensor is in no memory scope. */
compute_status npy_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor);

/* ---- The header of a .npy file: a Python dictionary as text, after a magic number and a length */

#define NPY_PREFIX_BYTES  12u      /* magic number, version and length */
#define NPY_MAX_HEADER    1048576u /* longest plausible header in bytes */
#define NPY_PROBLEM_BYTES 200

typedef struct npy_header {
  compute_dtype dtype;
  compute_shape shape;
  bool fortran_order;
  bool swapped;  /* the elements' byte order differs from this machine's */
  int64_t count; /* elements; count · size of the dtype fits into 63 bits */
} npy_header;

typedef enum npy_result {
  NPY_OK,
  NPY_MALFORMED,  /* not in the form that NumPy writes */
  NPY_UNSUPPORTED /* NumPy supports it, and this library does not */
} npy_result;

/* Parses the file's first `length` bytes, at most NPY_PREFIX_BYTES, and returns the offset and
 * length of the header's text. On failure, `problem` (NPY_PROBLEM_BYTES) receives the reason. */
npy_result npy_prefix_parse(const unsigned char *bytes, size_t length, uint32_t *text_offset,
                            uint32_t *text_bytes, char *problem);

/* Parses the header's text. */
npy_result npy_header_parse(const char *text, size_t length, npy_header *header, char *problem);

#define NPY_MADE_BYTES 320 /* longest output of npy_header_make */

/* Writes prefix and header for a row-major array in this machine's byte order. Returns the length,
 * a multiple of 64, or 0 for a dtype that NumPy lacks (bf16). */
size_t npy_header_make(compute_dtype dtype, compute_shape shape, char text[NPY_MADE_BYTES]);

/* ---- IDX ----------------------------------------------------------------------------------- */

/* The format of the MNIST images and labels, plain or gzip-compressed.
 *
 * Reads a file into a dense tensor on `device` that is in no memory scope. Bytes stay u8. Signed
 * bytes and 16-bit integers become i32. `operation` names the call in errors. COMPUTE_ERROR_FILE;
 * COMPUTE_ERROR_FORMAT if the file is damaged or not an IDX file; COMPUTE_ERROR_UNSUPPORTED for
 * more than 8 dimensions. */
compute_status idx_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor);

#endif
