/* SPDX-License-Identifier: MIT */
/* Arrays that accompany a fit. Camera maps, corners, starting values and truths are read whole.
 * Simulated stacks and their truths are written piece by piece. */
#ifndef TOOLS_FIT_ARRAY_FILE_H
#define TOOLS_FIT_ARRAY_FILE_H

#include <stdbool.h>

#include "compute/dtype.h"
#include "programs/fit/failure.h"

typedef struct array_data {
  void *values; /* dense; free with free() */
  compute_dtype dtype;
  compute_shape shape;
  int64_t count; /* elements */
} array_data;

/* Reads a .npy of any numeric dtype, or (as rank 2) a TIFF of one page. The result has `dtype`:
 * COMPUTE_F32, COMPUTE_F64, COMPUTE_I32 or COMPUTE_U8. Values for an integer dtype must be whole
 * and in range. The rank must be within least_rank … most_rank. On failure array->values is
 * NULL. */
compute_status array_read(const char *path, compute_dtype dtype, int32_t least_rank,
                          int32_t most_rank, array_data *array, failure *why);

typedef struct array_reader array_reader;

/* Opens a .npy and reads it in slices along its first axis, in constant memory. Otherwise as
 * array_read. */
compute_status array_reader_open(const char *path, compute_dtype dtype, int32_t rank,
                                 array_reader **opened, compute_shape *shape, failure *why);

/* Reads slices first … first + count − 1, dense. */
compute_status array_reader_read(array_reader *reader, int64_t first, int64_t count, void *values,
                                 failure *why);

void array_reader_close(array_reader *reader); /* NULL is allowed */

typedef struct array_writer array_writer;

/* Begins a .npy [n, item shape…] of u16, f32 or another NumPy dtype, in constant memory. n is the
 * number of appended items. The file is called <path>.incomplete until it is finished. Without
 * `overwrite` an existing file is refused. */
compute_status array_writer_create(const char *path, compute_dtype dtype, compute_shape item,
                                   bool overwrite, array_writer **writer, failure *why);

/* Appends `items` items, dense. */
compute_status array_writer_append(array_writer *writer, int64_t items, const void *data,
                                   failure *why);

/* Completes the file and always frees the writer. After a failure no file exists. */
compute_status array_writer_finish(array_writer *writer, failure *why);

/* Deletes the unfinished file and frees the writer. NULL is allowed. */
void array_writer_abandon(array_writer *writer);

#endif
