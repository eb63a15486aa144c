/* The header of a .npy file: a Python dictionary as text, behind a magic number and a length. */
#ifndef IO_NPY_HEADER_H
#define IO_NPY_HEADER_H

#include <stdbool.h>

#include "compute/dtype.h"

#define NPY_PREFIX_BYTES  12u      /* room for magic number, version and length */
#define NPY_MAX_HEADER    1048576u /* bytes of text that are believed */
#define NPY_PROBLEM_BYTES 200

typedef struct npy_header {
  compute_dtype dtype;
  compute_shape shape;
  bool fortran_order;
  bool swapped;  /* the elements' bytes are in the other order than this machine's */
  int64_t count; /* elements; count · size of the dtype fits into 63 bits */
} npy_header;

typedef enum npy_result {
  NPY_OK,
  NPY_MALFORMED,  /* not as NumPy writes it */
  NPY_UNSUPPORTED /* an array that NumPy may have, and we have not */
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

#endif
