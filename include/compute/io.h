/* Reading and writing tensors as files. */
#ifndef COMPUTE_IO_H
#define COMPUTE_IO_H

#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_csv_options {
  char separator;       /* 0: ',' */
  int32_t skip_rows;    /* heading lines to pass over */
  uint64_t max_bytes;   /* refuse to unpack more than this; 0: 1 GiB */
  uint64_t reserved[4]; /* must be zero */
} compute_csv_options;

/* Reads a table of numbers, plain or gzip-compressed, into a tensor [rows, columns] of `dtype` (a
 * float or integer type) on `device`. Lines end in LF or CRLF; empty lines at the end are ignored.
 * COMPUTE_ERROR_FILE with the system's words; COMPUTE_ERROR_FORMAT with line and column for a row
 * of another length, a field that is no number or does not fit the dtype, an empty file, or damaged
 * compression. Thread-safe. `options` may be NULL. */
COMPUTE_API compute_status compute_csv_read(compute_device *device, const char *path,
                                            compute_dtype dtype, const compute_csv_options *options,
                                            compute_tensor **tensor);

/* ---- NumPy's .npy -------------------------------------------------------------------------- */

/* What a .npy file holds. Its elements are dense: rows first, or columns first (the first axis
 * fastest) with fortran_order. */
typedef struct compute_npy_info {
  compute_dtype dtype; /* f64 f32 f16 i64 i32 u16 u8 bool */
  compute_shape shape;
  bool fortran_order;
  bool swapped;         /* the byte order is not this machine's */
  uint64_t offset;      /* of the first element in the file */
  uint64_t bytes;       /* of all elements; the file holds as many */
  uint64_t reserved[4]; /* zero */
} compute_npy_info;

/* Reads the header of a .npy file, version 1 to 3 of the format, and checks it against the file's
 * length. For files too large to be read whole: what it says can be handed to a
 * compute_batch_source (when neither swapped nor fortran_order). `context` receives the error and
 * may be NULL. COMPUTE_ERROR_FILE with the system's words; COMPUTE_ERROR_FORMAT if it is damaged,
 * or no .npy file; COMPUTE_ERROR_UNSUPPORTED for elements that have no dtype here (complex numbers,
 * strings, records, i1, i2, u4, u8) and more than 8 dimensions. Thread-safe. */
COMPUTE_API compute_status compute_npy_inspect(const compute_context *context, const char *path,
                                               compute_npy_info *info);

/* Reads a .npy file into a dense, row-major tensor of its dtype and shape on `device`, whatever its
 * byte order and order of axes. Bytes behind the elements are ignored, as NumPy does. Errors: those
 * of compute_npy_inspect and compute_tensor_create. Thread-safe. */
COMPUTE_API compute_status compute_npy_read(compute_device *device, const char *path,
                                            compute_tensor **tensor);

/* Writes a tensor as .npy. The file appears under its name when it is complete, in place of what
 * had that name; after a failure nothing has changed. COMPUTE_ERROR_FILE; COMPUTE_ERROR_DTYPE for
 * bf16, which NumPy lacks; COMPUTE_ERROR_TRANSFER. Thread-safe. */
COMPUTE_API compute_status compute_npy_write(const compute_tensor *tensor, const char *path);

#ifdef __cplusplus
}
#endif
#endif
