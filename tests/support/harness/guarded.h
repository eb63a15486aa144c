/* SPDX-License-Identifier: MIT */
/* Tensors that notice writes outside themselves: each is a view inside a larger buffer whose other
 * bytes hold a pattern. The layouts are the ways in which a caller's tensor can lie in memory. */
#ifndef SUPPORT_GUARDED_H
#define SUPPORT_GUARDED_H

#include "support/harness/values.h"

typedef enum guarded_layout {
  LAYOUT_DENSE,      /* row-major */
  LAYOUT_STEPPED,    /* every second element along the last axis */
  LAYOUT_PADDED,     /* rows longer than they need be, starting off the alignment */
  LAYOUT_TRANSPOSED, /* axes stored in reverse order */
  LAYOUT_WRAPPED,    /* row-major in the caller's own memory, aligned to one element only; dense
                      * on devices that cannot use host memory */
  LAYOUT_COUNT
} guarded_layout;

typedef struct guarded_tensor {
  compute_tensor *view; /* the tensor to use */
  compute_tensor *base; /* what it lies in */
  int64_t first;        /* element of the base where the view starts */
  void *memory;         /* of LAYOUT_WRAPPED */
} guarded_tensor;

/* A tensor with a copy of `values`, or for NULL one to be written. `shape` and `dtype` as given. */
guarded_tensor guarded_create(compute_device *device, compute_dtype dtype, compute_shape shape,
                              guarded_layout layout, const test_values *values);

/* Copies the view's elements to `values` (same dtype and count). */
void guarded_read(const guarded_tensor *tensor, test_values *values);

/* Whether every byte around the view is as it was created. */
bool guarded_is_intact(const guarded_tensor *tensor);

void guarded_release(guarded_tensor *tensor);

const char *guarded_layout_name(guarded_layout layout);

#endif
