/* .npy files, for the library's own use. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include "compute/tensor.h"

/* compute_npy_read under another name for errors; the tensor is in no memory scope. */
compute_status npy_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor);

#endif
