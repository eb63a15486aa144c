/* SPDX-License-Identifier: MIT */
/* Eager calls whose results have a size that depends on values. The CPU searches a copy of the
 * elements in host memory. */
#include <string.h>

#include "compute/eager_array.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/search.h"
#include "core/tensor/tensor.h"

/* A dense copy of the elements; NULL, with the error set, on failure. */
static void *read_elements(const compute_tensor *x, const char *operation, compute_status *status) {
  const size_t size = compute_dtype_size(compute_tensor_dtype(x));
  const int64_t count = compute_tensor_count(x);
  void *data = base_allocate((uint64_t)count, size);
  if (!data) {
    *status = error_set(compute_tensor_device(x)->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                        "out of memory");
    return NULL;
  }
  *status = compute_tensor_read(x, data, (size_t)count * size);
  if (!*status) return data;
  base_release(data);
  return NULL;
}

static compute_status refuse_null(const compute_tensor *x, const char *operation,
                                  const char *name) {
  return error_set(x ? compute_tensor_device(x)->context : NULL, COMPUTE_ERROR_NULL_POINTER,
                   operation, "%s is NULL", name);
}

/* ---- Unique ---------------------------------------------------------------------------------- */

static compute_status make_numbers(const compute_tensor *x, int64_t count, const int64_t *numbers,
                                   compute_tensor **result) {
  return compute_tensor_from_host(compute_tensor_device(x), COMPUTE_I64, COMPUTE_SHAPE(count),
                                  numbers, result);
}

typedef struct unique_call {
  const char *operation;
  const compute_tensor *x;
  slices s;
  int32_t axis; /* the slices', of `along` */
} unique_call;

/* The slices at their first places. Of all elements, each is a slice, as in a vector. */
static compute_status take(const unique_call *c, const compute_tensor *first,
                           compute_tensor **values) {
  if (c->axis >= 0) return compute_tensor_gather(c->x, first, c->axis, values);
  compute_tensor *flat = NULL;
  compute_status status = compute_tensor_reshape(c->x, COMPUTE_SHAPE(-1), &flat);
  if (!status) status = compute_tensor_gather(flat, first, 0, values);
  compute_tensor_release(flat);
  return status;
}

/* values, first, inverse, counts; the last three may be NULL. */
static compute_status give_unique(unique_call *c, compute_tensor **const results[4]) {
  compute_tensor *made[4] = {NULL};
  const compute_tensor *x = c->x;
  compute_status status;
  void *data = read_elements(x, c->operation, &status);
  if (status) return status;
  distinct found;
  c->s.data = data;
  status = distinct_find(&c->s, true, &found);
  if (status)
    error_set(compute_tensor_device(x)->context, status, c->operation, "%s",
              status == COMPUTE_ERROR_OVERFLOW ? "x has 2^32 − 1 elements or more"
                                               : "out of memory");
  if (!status) status = make_numbers(x, found.count, found.first, &made[1]);
  if (!status && results[2]) status = make_numbers(x, c->s.along, found.inverse, &made[2]);
  if (!status && results[3]) status = make_numbers(x, found.count, found.counts, &made[3]);
  if (!status) status = take(c, made[1], &made[0]);
  for (int i = 0; i < 4; i++) {
    if (!status && results[i])
      *results[i] = made[i];
    else
      compute_tensor_release(made[i]);
  }
  distinct_release(&found);
  base_release(data);
  return status;
}

compute_status compute_tensor_unique(const compute_tensor *x, compute_tensor **values,
                                     compute_tensor **first, compute_tensor **inverse,
                                     compute_tensor **counts) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "unique";
  REFUSE_INHERITED(x, buffer->device->context);
  if (!x || !values) return refuse_null(x, operation, x ? "values" : "x");
  unique_call c = {operation, x, {.dtype = compute_tensor_dtype(x)}, -1};
  c.s.outer = c.s.inner = 1;
  c.s.along = compute_tensor_count(x);
  return give_unique(&c, (compute_tensor * *const[]){values, first, inverse, counts});
}

compute_status compute_tensor_unique_slices(const compute_tensor *x, int32_t axis,
                                            compute_tensor **values, compute_tensor **first,
                                            compute_tensor **inverse, compute_tensor **counts) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "unique_slices";
  REFUSE_INHERITED(x, buffer->device->context);
  if (!x || !values) return refuse_null(x, operation, x ? "values" : "x");
  const compute_shape shape = compute_tensor_shape(x);
  if (axis < -shape.rank || axis >= shape.rank)
    return error_set(compute_tensor_device(x)->context, COMPUTE_ERROR_SHAPE, operation,
                     "axis %d is outside the %d axes of x", (int)axis, (int)shape.rank);
  unique_call c = {operation, x, {.dtype = compute_tensor_dtype(x)}, axis};
  if (axis < 0) c.axis += shape.rank;
  c.s.outer = c.s.along = c.s.inner = 1;
  for (int32_t i = 0; i < shape.rank; i++)
    *(i < c.axis ? &c.s.outer : i == c.axis ? &c.s.along : &c.s.inner) *= shape.size[i];
  return give_unique(&c, (compute_tensor * *const[]){values, first, inverse, counts});
}

/* ---- Nonzero --------------------------------------------------------------------------------- */

compute_status compute_tensor_nonzero(const compute_tensor *x, compute_tensor **result) {
  static const char operation[] = "nonzero";
  REFUSE_INHERITED(x, buffer->device->context);
  if (!x || !result) return refuse_null(x, operation, x ? "result" : "x");
  compute_context *context = compute_tensor_device(x)->context;
  compute_status status;
  void *data = read_elements(x, operation, &status);
  if (status) return status;
  nonzero s = {.data = data, .dtype = compute_tensor_dtype(x), .shape = compute_tensor_shape(x)};
  status = nonzero_count(context, &s);
  int64_t *places =
      status ? NULL : base_allocate((uint64_t)s.found, (size_t)s.shape.rank * sizeof *places);
  if (!places) {
    status = error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  } else {
    nonzero_write(context, &s, places);
    status = compute_tensor_from_host(compute_tensor_device(x), COMPUTE_I64,
                                      COMPUTE_SHAPE(s.shape.rank, s.found), places, result);
  }
  base_release(places);
  nonzero_release(&s);
  base_release(data);
  return status;
}
