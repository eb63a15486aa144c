/* SPDX-License-Identifier: MIT */
/* Tensors that detect writes outside themselves: each is a view inside a larger buffer whose other
 * bytes hold a pattern. The layouts are the memory layouts of a caller's tensor. */
#ifndef SUPPORT_GUARDED_H
#define SUPPORT_GUARDED_H

#include "support/harness/values.h"

typedef enum guarded_layout {
  LAYOUT_DENSE,      /* row-major */
  LAYOUT_STEPPED,    /* every second element along the last axis */
  LAYOUT_PADDED,     /* rows longer than necessary, starting unaligned */
  LAYOUT_TRANSPOSED, /* axes stored in reverse order */
  LAYOUT_WRAPPED,    /* row-major in the caller's memory, aligned only to one element; dense on
                      * devices that cannot use host memory */
  LAYOUT_COUNT
} guarded_layout;

typedef struct guarded_tensor {
  compute_tensor *view; /* the tensor to use */
  compute_tensor *base; /* the whole buffer */
  int64_t first;        /* index in the base of the view's first element */
  void *memory;         /* for LAYOUT_WRAPPED */
} guarded_tensor;

/* Creates a tensor with a copy of `values`; NULL: an output. It has the given `shape` and
 * `dtype`. */
guarded_tensor guarded_create(compute_device *device, compute_dtype dtype, compute_shape shape,
                              guarded_layout layout, const test_values *values);

/* Copies the view's elements to `values` (same dtype and count). */
void guarded_read(const guarded_tensor *tensor, test_values *values);

/* Returns true if every byte around the view is unchanged. */
bool guarded_is_intact(const guarded_tensor *tensor);

void guarded_release(guarded_tensor *tensor);

const char *guarded_layout_name(guarded_layout layout);

#endif
