/* SPDX-License-Identifier: MIT */
/* Searches in the elements of a tensor in host memory, whose results have a size that depends on
 * values. The functions use the context's threads; a structure has one owner at a time. */
#ifndef TENSOR_SEARCH_H
#define TENSOR_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/device.h"
#include "compute/dtype.h"

/* Dense elements, seen as slices along an axis. */
typedef struct slices {
  const uint8_t *data;
  compute_dtype dtype;
  int64_t outer, along, inner; /* in elements */
} slices;

/* Groups of equal slices, sorted or in the order of their first places. −0 equals 0, and all NaN
 * are equal, and the largest. */
typedef struct distinct {
  int64_t along, count;    /* of slices, of groups */
  int64_t *first, *counts; /* per group: its first place, and its slices */
  int64_t *inverse;        /* the group of each place */
  void *memory;
} distinct;

/* COMPUTE_OK, or without a detail COMPUTE_ERROR_OUT_OF_MEMORY, or _OVERFLOW from 2^32 slices on.
 * distinct_release follows either way. */
compute_status distinct_find(const slices *s, bool sorted, distinct *result);
void distinct_release(distinct *found);

/* The elements that are not zero. The caller sets the first three fields. */
typedef struct nonzero {
  const void *data;
  compute_dtype dtype;
  compute_shape shape; /* nonzero_count makes [1] of a scalar's */
  int64_t count, blocks;
  int64_t *ends; /* per block: the elements found up to its end */
  int64_t found;
  int64_t *result;
} nonzero;

/* Sets `found`. COMPUTE_OK, or COMPUTE_ERROR_OUT_OF_MEMORY without a detail. */
compute_status nonzero_count(const compute_context *context, nonzero *s);

/* Writes the coordinates, [rank, found]. */
void nonzero_write(const compute_context *context, nonzero *s, int64_t *result);
void nonzero_release(nonzero *s);

#endif
