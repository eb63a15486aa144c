/* SPDX-License-Identifier: MIT */
/* Files of one array, for the library's own use: .npy and IDX. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <stdbool.h>

#include "compute/dtype.h"
#include "compute/tensor.h"

/* compute_npy_read under another name for errors; the tensor is in no memory scope. */
compute_status npy_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor);

/* ---- The header of a .npy file: a Python dictionary as text, after a magic number and a length */

#define NPY_PREFIX_BYTES  12u      /* room for magic number, version and length */
#define NPY_MAX_HEADER    1048576u /* the most bytes of a plausible header */
#define NPY_PROBLEM_BYTES 200

typedef struct npy_header {
  compute_dtype dtype;
  compute_shape shape;
  bool fortran_order;
  bool swapped;  /* the elements' bytes are not in this machine's order */
  int64_t count; /* elements; count · size of the dtype fits into 63 bits */
} npy_header;

typedef enum npy_result {
  NPY_OK,
  NPY_MALFORMED,  /* not as NumPy writes it */
  NPY_UNSUPPORTED /* an array that NumPy supports, and we do not */
} npy_result;

/* Reads the file's first bytes (as many as there are of NPY_PREFIX_BYTES): where the header's text
 * begins and how long it is. `problem` has NPY_PROBLEM_BYTES; what is wrong goes there. */
npy_result npy_prefix_parse(const unsigned char *bytes, size_t length, uint32_t *text_offset,
                            uint32_t *text_bytes, char *problem);

/* Reads the header's text. */
npy_result npy_header_parse(const char *text, size_t length, npy_header *header, char *problem);

#define NPY_MADE_BYTES 320 /* the longest that npy_header_make writes */

/* Writes prefix and header for a row-major array of this machine's byte order; the length is a
 * multiple of 64. Returns it, or 0 for a dtype that NumPy lacks (bf16). */
size_t npy_header_make(compute_dtype dtype, compute_shape shape, char text[NPY_MADE_BYTES]);

/* ---- IDX ----------------------------------------------------------------------------------- */

/* The format of the MNIST images and labels, plain or gzip-compressed.
 *
 * Reads a file into a dense tensor on `device` that is in no memory scope. Bytes stay u8; signed
 * bytes and 16-bit integers, which have no dtype here, become i32. `operation` names the call for
 * errors. COMPUTE_ERROR_FILE; COMPUTE_ERROR_FORMAT if it is damaged or not an IDX file;
 * COMPUTE_ERROR_UNSUPPORTED for more than 8 dimensions. */
compute_status idx_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor);

#endif
