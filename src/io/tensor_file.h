/* SPDX-License-Identifier: MIT */
/* Internals of an open file of named tensors, which the formats fill in, and loading tensors from
 * it. */
#ifndef IO_TENSOR_FILE_H
#define IO_TENSOR_FILE_H

#include "compute/io.h"
#include "io/elements.h"
#include "io/new_file.h"
#include "io/zip.h"

/* Longest plausible list of tensors in bytes, as in the safetensors library. */
#define TENSOR_FILE_MAX_LIST 100000000u

typedef struct stored_tensor {
  const char *name; /* points into compute_tensor_file.text */
  element_format format;
  uint64_t offset;   /* of the first element, in the file or (.npz) in the unpacked member */
  uint64_t bytes;    /* of all elements */
  zip_member member; /* .npz only */
} stored_tensor;

struct compute_tensor_file {
  const compute_context *context; /* receives errors, or NULL */
  char *path;
  int descriptor;
  uint64_t bytes;
  char *text; /* the list as stored in the file; it contains the names */
  stored_tensor *tensors;
  size_t count, capacity;
  const stored_tensor **by_name; /* the same tensors, sorted by name */
  compute_status (*read)(const compute_tensor_file *file, const char *operation,
                         const compute_context *context, const stored_tensor *tensor,
                         compute_device *device, compute_tensor **result);
};

/* Fill in text, tensors, count and read of an open file. */
compute_status safetensors_list(compute_tensor_file *file, const char *operation);
compute_status npz_list(compute_tensor_file *file, const char *operation);

/* Write everything to `file`. Names are sorted, without duplicates. */
compute_status safetensors_write(new_file *file, const compute_named_tensor *tensors, size_t count);
compute_status npz_write(new_file *file, const compute_named_tensor *tensors, size_t count,
                         uint64_t zip64_from);

/* For the formats: room for one more tensor, or NULL when out of memory. */
stored_tensor *tensor_file_add(compute_tensor_file *file);

/* Bytes of a shape's elements. False if the bytes, or the product of the nonzero sizes, exceed 63
 * bits. */
bool tensor_file_bytes(compute_dtype dtype, compute_shape shape, uint64_t *bytes);

/* A name expected in the file, and the tensor to fill. A tensor may occur several times under
 * different names (a weight that two layers share). Then the file needs one of the names, and may
 * have all of them if their elements are equal. */
typedef struct restore_entry {
  const char *name;
  compute_tensor *tensor;
  size_t index;         /* index in the file; the file's count if missing */
  compute_tensor *read; /* the tensor read from the file, once it is read */
} restore_entry;

typedef struct restore {
  const compute_context *context;
  const char *operation, *path;
  const char *owner; /* the tensors' owner in messages: "the layer" */
  const char *missing_remedy, *extra_remedy;
  bool allow_missing, allow_extra;
  restore_entry *entries; /* the caller's, filled in up to `tensor` */
  size_t count;
  compute_tensor_file *file;
} restore;

/* Opens the file, compares names, dtypes and shapes, and reads it into temporary memory. After a
 * failure the tensors are unchanged. Always call restore_close. */
compute_status restore_read(restore *restoring);

/* Copies the data that was read into the tensors. */
compute_status restore_put(restore *restoring);

void restore_close(restore *restoring);

#endif
