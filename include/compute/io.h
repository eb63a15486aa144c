/* SPDX-License-Identifier: MIT */
/** @file
 * Reading and writing tensors as files. */
#ifndef COMPUTE_IO_H
#define COMPUTE_IO_H

#include "compute/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_csv_options {
  char separator;       /**< 0: ',' */
  int32_t skip_rows;    /**< heading lines to pass over */
  uint64_t max_bytes;   /**< refuse to unpack more than this; 0: 1 GiB */
  uint64_t reserved[4]; /**< must be zero */
} compute_csv_options;

/** Reads a table of numbers, plain or gzip-compressed, into a tensor [rows, columns] of `dtype` (a
 * float or integer type) on `device`. Lines end in LF or CRLF; empty lines at the end are ignored.
 * COMPUTE_ERROR_FILE with the system's error message; COMPUTE_ERROR_FORMAT with line and column for
 * a row of another length, a field that is not a number or does not fit the dtype, an empty file,
 * or damaged compression. Thread-safe. `options` may be NULL. */
COMPUTE_API compute_status compute_csv_read(compute_device *device, const char *path,
                                            compute_dtype dtype, const compute_csv_options *options,
                                            compute_tensor **tensor);

/* ---- NumPy's .npy -------------------------------------------------------------------------- */

/** The contents of a .npy file. Its elements are dense: rows first, or columns first (the first
 * axis fastest) with fortran_order. */
typedef struct compute_npy_info {
  compute_dtype dtype; /**< any but bf16 */
  compute_shape shape;
  bool fortran_order;
  bool swapped;         /**< the byte order is not this machine's */
  uint64_t offset;      /**< of the first element in the file */
  uint64_t bytes;       /**< of all elements; the file is at least as long */
  uint64_t reserved[4]; /**< zero */
} compute_npy_info;

/** Reads the header of a .npy file, version 1 to 3 of the format, and checks it against the file's
 * length. For files too large to be read whole: pass its offset and shape to a compute_batch_source
 * (when neither swapped nor fortran_order). `context` receives the error and may be NULL.
 * Thread-safe.
 *
 * COMPUTE_ERROR_FILE with the system's error message; COMPUTE_ERROR_FORMAT if it is damaged or not
 * an .npy file; COMPUTE_ERROR_UNSUPPORTED for elements that have no dtype here (complex numbers,
 * strings, records) and more than 8 dimensions. */
COMPUTE_API compute_status compute_npy_inspect(const compute_context *context, const char *path,
                                               compute_npy_info *info);

/** Reads a .npy file into a dense, row-major tensor of its dtype and shape on `device`, whatever
 * its byte order and order of axes. Bytes after the elements are ignored, as NumPy does. Errors: as
 * compute_npy_inspect and compute_tensor_create. Thread-safe. */
COMPUTE_API compute_status compute_npy_read(compute_device *device, const char *path,
                                            compute_tensor **tensor);

/** Writes a tensor as .npy. The file appears under its name when it is complete, and replaces an
 * older file; after a failure nothing has changed. COMPUTE_ERROR_FILE; COMPUTE_ERROR_DTYPE for
 * bf16, which NumPy does not have; COMPUTE_ERROR_TRANSFER. Thread-safe. */
COMPUTE_API compute_status compute_npy_write(const compute_tensor *tensor, const char *path);

/* ---- Named tensors: safetensors and NumPy's .npz -------------------------------------------- */

typedef struct compute_named_tensor {
  const char *name; /**< UTF-8 */
  const compute_tensor *tensor;
} compute_named_tensor;

/** Writes `count` tensors, on any devices, to one file: as safetensors if `path` ends in
 * ".safetensors", as NumPy's savez does (not compressed) if it ends in ".npz". Equal tensors under
 * equal names give equal bytes. The file appears under its name when it is complete and on the
 * disk, and replaces an older file; after a failure nothing has changed. `context` receives the
 * error and may be NULL. Thread-safe.
 *
 * - COMPUTE_ERROR_INVALID_ARGUMENT for another ending, a name that is not UTF-8 or that two tensors
 *   have ("__metadata__" is reserved by safetensors), more than 100 MB of names.
 * - _DTYPE for bf16 in .npz, which NumPy does not have.
 * - _NULL_POINTER, _FILE, _TRANSFER, _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_tensor_file_write(const compute_context *context,
                                                     const char *path,
                                                     const compute_named_tensor *tensors,
                                                     size_t count);

/** A file of named tensors that is open for reading. */
typedef struct compute_tensor_file compute_tensor_file;

/** Opens a safetensors or .npz file, recognised by its content. Names, dtypes, shapes and places of
 * all tensors are read, and checked against each other and against the file's length. Nothing in
 * the file is trusted before this check, and no memory is allocated for mere claims.
 *
 * The file stays open, and its content must not change, until compute_tensor_file_close. `context`
 * receives errors; it may be NULL, or else must stay open as long. Ownership of *file passes to the
 * caller. Thread-safe.
 *
 * - COMPUTE_ERROR_FILE with the system's error message.
 * - COMPUTE_ERROR_FORMAT if it is damaged or of another kind.
 * - COMPUTE_ERROR_UNSUPPORTED for a tensor with elements that have no dtype here or with more than
 *   8 dimensions, and for compression other than deflate.
 * - _NULL_POINTER; _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_tensor_file_open(const compute_context *context,
                                                    const char *path, compute_tensor_file **file);

COMPUTE_API void compute_tensor_file_close(compute_tensor_file *file); /**< NULL is allowed */

typedef struct compute_tensor_file_entry {
  const char *name; /**< UTF-8; lives as long as the file is open. Of .npz: without ".npy" */
  compute_dtype dtype;
  compute_shape shape;
  uint64_t bytes;       /**< of all elements, dense */
  uint64_t reserved[4]; /**< zero */
} compute_tensor_file_entry;

/** The number of its tensors. Thread-safe, as are the functions below. */
COMPUTE_API size_t compute_tensor_file_count(const compute_tensor_file *file);

/** The tensor at `index`, in the order of the file's own list. COMPUTE_ERROR_INVALID_ARGUMENT past
 * the end; _NULL_POINTER. */
COMPUTE_API compute_status compute_tensor_file_at(const compute_tensor_file *file, size_t index,
                                                  compute_tensor_file_entry *entry);

/** The index of the tensor called `name`; compute_tensor_file_count(file) if there is none. */
COMPUTE_API size_t compute_tensor_file_find(const compute_tensor_file *file, const char *name);

/** Reads the tensor at `index` into a new dense tensor on `device`. COMPUTE_ERROR_INVALID_ARGUMENT
 * past the end; _FILE; _FORMAT if its content does not match the file's checksum (.npz); the errors
 * of compute_tensor_create. */
COMPUTE_API compute_status compute_tensor_file_read(const compute_tensor_file *file, size_t index,
                                                    compute_device *device,
                                                    compute_tensor **tensor);

/** Reads the tensor at `index` into `tensor`, of any strides, which must have its dtype and shape
 * (COMPUTE_ERROR_DTYPE, _SHAPE). It changes only when all has been read and checked. Other errors
 * as above. */
COMPUTE_API compute_status compute_tensor_file_read_into(const compute_tensor_file *file,
                                                         size_t index, compute_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
