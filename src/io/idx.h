/* IDX, the format of the MNIST images and labels, plain or gzip-compressed. */
#ifndef IO_IDX_H
#define IO_IDX_H

#include "compute/tensor.h"

/* Reads a file into a dense tensor on `device` that is in no memory scope. Bytes stay u8; signed
 * bytes and 16-bit integers, which have no dtype here, become i32. `operation` names the call for
 * errors. COMPUTE_ERROR_FILE; COMPUTE_ERROR_FORMAT if it is damaged or no IDX file;
 * COMPUTE_ERROR_UNSUPPORTED for more than 8 dimensions. */
compute_status idx_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor);

#endif
