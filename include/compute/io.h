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

#ifdef __cplusplus
}
#endif
#endif
