/* SPDX-License-Identifier: MIT */
/* Internals of an open file of named tensors, which the formats fill in, and loading tensors from
 * one.
 */
#ifndef IO_TENSOR_FILE_H
#define IO_TENSOR_FILE_H

#include "compute/io.h"
#include "io/elements.h"
#include "io/new_file.h"
#include "io/zip.h"

/* The most bytes of a plausible list of tensors, as in the safetensors library. */
#define TENSOR_FILE_MAX_LIST 100000000u

typedef struct stored_tensor {
  const char *name; /* in compute_tensor_file.text */
  element_format format;
  uint64_t offset;   /* of the first element: in the file, or (.npz) in the unpacked member */
  uint64_t bytes;    /* of all elements */
  zip_member member; /* .npz only */
} stored_tensor;

struct compute_tensor_file {
  const compute_context *context; /* receives errors, or NULL */
  char *path;
  int descriptor;
  uint64_t bytes;
  char *text; /* the list as it is in the file, and the names in it */
  stored_tensor *tensors;
  size_t count, capacity;
  const stored_tensor **by_name; /* the same, sorted */
  compute_status (*read)(const compute_tensor_file *file, const char *operation,
                         const compute_context *context, const stored_tensor *tensor,
                         compute_device *device, compute_tensor **result);
};

/* Fill in text, tensors, count and read of a file that is open. */
compute_status safetensors_list(compute_tensor_file *file, const char *operation);
compute_status npz_list(compute_tensor_file *file, const char *operation);

/* Write everything to `file`. Names are in order, without duplicates. */
compute_status safetensors_write(new_file *file, const compute_named_tensor *tensors, size_t count);
compute_status npz_write(new_file *file, const compute_named_tensor *tensors, size_t count,
                         uint64_t zip64_from);

/* For the formats: room for one more tensor, or NULL when out of memory. */
stored_tensor *tensor_file_add(compute_tensor_file *file);

/* Bytes of a shape's elements; false if they, or the product of the sizes that are not 0, do not
 * fit into 63 bits. */
bool tensor_file_bytes(compute_dtype dtype, compute_shape shape, uint64_t *bytes);

/* A name expected in the file, and the tensor to fill. A tensor may occur several times, under
 * different names (a weight that two layers share): the file then needs one of them, and may have
 * all if they are equal. */
typedef struct restore_entry {
  const char *name;
  compute_tensor *tensor;
  size_t index;         /* in the file; the file's count: not there */
  compute_tensor *read; /* what the file has, once it is read */
} restore_entry;

typedef struct restore {
  const compute_context *context;
  const char *operation, *path;
  const char *owner; /* of the tensors, in messages: "the layer" */
  const char *missing_remedy, *extra_remedy;
  bool allow_missing, allow_extra;
  restore_entry *entries; /* the caller's, filled in up to `tensor` */
  size_t count;
  compute_tensor_file *file;
} restore;

/* Opens the file, compares names, dtypes and shapes, and reads it into temporary memory. After a
 * failure nothing has changed. Always call restore_close. */
compute_status restore_read(restore *restoring);

/* Copies what has been read into the tensors. */
compute_status restore_put(restore *restoring);

void restore_close(restore *restoring);

#endif
