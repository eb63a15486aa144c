/* Tensors filled from a file of named tensors: all of them or none. */
#ifndef IO_RESTORE_H
#define IO_RESTORE_H

#include "compute/io.h"

/* What the file shall have, and where it goes. A tensor may come several times, under one name
 * each (a weight that two layers share): the file then needs one of them, and may have all if they
 * are equal. */
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

/* Opens the file, compares names, dtypes and shapes, and reads it beside the tensors. Nothing has
 * changed when it fails. restore_close is due in any case. */
compute_status restore_read(restore *restoring);

/* Puts what has been read in its place. */
compute_status restore_put(restore *restoring);

void restore_close(restore *restoring);

#endif
