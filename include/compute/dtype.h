/* Element types and shapes. */
#ifndef COMPUTE_DTYPE_H
#define COMPUTE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arithmetic happens in the type itself for f64, f32, i64 and i32. f16 and bf16 are storage types:
 * loaded, they become f32, and results round to nearest even. u8 and u16 compute as i32 and wrap
 * when stored. bool is one byte, 0 or 1.
 *
 * An f16 or bf16 result that a fused kernel passes on without storing it is rounded wherever the
 * rounding could be noticed as anything but a rounding: casts, comparisons, select, sign, floor,
 * ceil, round, trunc, mod, is_nan, is_finite, argmax and argmin always see the rounded value, and
 * the result of a cast to f16 or bf16 is rounded for every consumer. Other arithmetic (and sum,
 * mean, softmax, normalize) within the kernel may use the f32 value, which differs from the rounded
 * one by at most half a unit in the last place; which operations are fused decides.
 *
 * Casts: to a narrower float round to nearest even; float to integer truncates toward zero and
 * saturates, NaN becomes 0; integer to a narrower integer wraps; anything to bool is "not equal to
 * zero" (NaN is true). */
typedef enum compute_dtype {
  COMPUTE_DTYPE_NONE = 0,
  COMPUTE_F64 = 1,
  COMPUTE_F32 = 2,
  COMPUTE_F16 = 3,
  COMPUTE_BF16 = 4,
  COMPUTE_I64 = 5,
  COMPUTE_I32 = 6,
  COMPUTE_U8 = 7,
  COMPUTE_BOOL = 8,
  COMPUTE_U16 = 9
} compute_dtype;

#define COMPUTE_DTYPE_COUNT 10 /* including COMPUTE_DTYPE_NONE */

/* Bytes of one element; 0 for an invalid dtype. Thread-safe. */
COMPUTE_API size_t compute_dtype_size(compute_dtype dtype);

/* "f32", "bool", …; "invalid" for an invalid dtype. Thread-safe. */
COMPUTE_API const char *compute_dtype_name(compute_dtype dtype);

#define COMPUTE_MAX_RANK 8

/* Sizes of a tensor's dimensions, outermost first. Rank 0 is a scalar; a size may be 0. */
typedef struct compute_shape {
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK]; /* entries at and past rank are ignored */
} compute_shape;

/* COMPUTE_SHAPE(64, 784) is a compute_shape of rank 2; COMPUTE_SCALAR is the one of rank 0. */
#define COMPUTE_SHAPE(...)                                                                         \
  ((compute_shape){.rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
                   .size = {__VA_ARGS__}})
#define COMPUTE_SCALAR ((compute_shape){.rank = 0})

/* A list of axes. Negative axes count from the end. An empty list means all axes, in reverse order
 * where the order counts (transpose). COMPUTE_NO_AXES means none: a reduction along no axes is its
 * operand, and transpose leaves the order as it is. A program that works out its axes, and may find
 * none, writes `axes.count ? axes : COMPUTE_NO_AXES`. */
typedef struct compute_axes {
  int32_t count;
  int32_t axis[COMPUTE_MAX_RANK];
} compute_axes;

#define COMPUTE_AXES(...)                                                                          \
  ((compute_axes){.count = (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),          \
                  .axis = {__VA_ARGS__}})
#define COMPUTE_ALL_AXES ((compute_axes){.count = 0})
#define COMPUTE_NO_AXES  ((compute_axes){.count = INT32_MIN})

/* Writes the number of elements to `count`. Fails with COMPUTE_ERROR_SHAPE for a negative size or a
 * rank outside 0 … 8 and COMPUTE_ERROR_OVERFLOW when the product exceeds 63 bits. Thread-safe. */
COMPUTE_API compute_status compute_shape_count(compute_shape shape, int64_t *count);

/* Writes "[64,784]" to `text`, cut to `bytes`. Returns `text`. Thread-safe. */
COMPUTE_API char *compute_shape_text(compute_shape shape, char *text, size_t bytes);

/* Whether both have the same rank and sizes. Thread-safe. */
COMPUTE_API bool compute_shape_equal(compute_shape a, compute_shape b);

#ifdef __cplusplus
}
#endif
#endif
