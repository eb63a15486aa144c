/* SPDX-License-Identifier: MIT */
/** @file
 * Element types and shapes. */
#ifndef COMPUTE_DTYPE_H
#define COMPUTE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one table of dtypes: DTYPE(code, number, name, kind, bytes, type, element).
 *
 *   code, number  COMPUTE_<code> = number
 *   name          in printed text and in names of functions
 *   kind          FLOAT, SIGNED or UNSIGNED integer, or LOGIC
 *   bytes         of one element
 *   type          in which programs compute it: F64, F32, I64, I32 or BOOL
 *   element       the C type in memory: for f16 and bf16 their bits */
/** clang-format off */
#define COMPUTE_DTYPES(DTYPE)                                                                      \
  DTYPE(F64, 1, f64, FLOAT, 8, F64, double)                                                        \
  DTYPE(F32, 2, f32, FLOAT, 4, F32, float)                                                         \
  DTYPE(F16, 3, f16, FLOAT, 2, F32, uint16_t)                                                      \
  DTYPE(BF16, 4, bf16, FLOAT, 2, F32, uint16_t)                                                    \
  DTYPE(I64, 5, i64, SIGNED, 8, I64, int64_t)                                                      \
  DTYPE(I32, 6, i32, SIGNED, 4, I32, int32_t)                                                      \
  DTYPE(U8, 7, u8, UNSIGNED, 1, I32, uint8_t)                                                      \
  DTYPE(BOOL, 8, bool, LOGIC, 1, BOOL, uint8_t)                                                    \
  DTYPE(U16, 9, u16, UNSIGNED, 2, I32, uint16_t)                                                   \
  DTYPE(I8, 10, i8, SIGNED, 1, I32, int8_t)                                                        \
  DTYPE(I16, 11, i16, SIGNED, 2, I32, int16_t)                                                     \
  DTYPE(U32, 12, u32, UNSIGNED, 4, I64, uint32_t)                                                  \
  DTYPE(U64, 13, u64, UNSIGNED, 8, I64, uint64_t)
/* clang-format on */

/** **Arithmetic** happens in the type itself for f64, f32, i64 and i32. f16 and bf16 are storage
 * types: loaded, they become f32, and results round to nearest even. i8, i16, u8 and u16 compute as
 * i32, u32 as i64, and wrap when stored. bool is one byte, 0 or 1.
 *
 * **u64** computes as i64 with the same bits. Operations that are the same modulo 2^64 are exact:
 * sums, differences, products, matrix products, bits, shifts to the left, equality, select, and
 * moving elements. Graphs refuse operations that depend on the order (comparisons, maximum,
 * minimum, sorting, quotients, shifts to the right, absolute values, …) with COMPUTE_ERROR_DTYPE:
 * cast to i64 where values are below 2^63, or to a float. Casts between u64 and floats are correct
 * for all values.
 *
 * **Fusion.** A fused kernel may pass on an f16 or bf16 result without storing it. The result is
 * rounded wherever skipping it could change more than the rounding error. Casts, comparisons,
 * select, sign, floor, ceil, round, trunc, mod, is_nan, is_finite, argmax and argmin always see the
 * rounded value. A cast to f16 or bf16 is rounded for every consumer. Other arithmetic (and sum,
 * mean, softmax, normalize) within the kernel may use the f32 value. It differs from the rounded
 * one by at most half a unit in the last place, and depends on which operations are fused.
 *
 * **Casts.**
 * - To a narrower float: round to nearest even.
 * - Float to integer: truncates toward zero and saturates; NaN becomes 0.
 * - Integer to a narrower integer: wraps.
 * - Anything to bool: "not equal to zero" (NaN is true). */
typedef enum compute_dtype {
  COMPUTE_DTYPE_NONE = 0,
#define COMPUTE_DTYPE_ROW(code, number, ...) COMPUTE_##code = number,
  COMPUTE_DTYPES(COMPUTE_DTYPE_ROW)
#undef COMPUTE_DTYPE_ROW
} compute_dtype;

/** The number of values of compute_dtype, including COMPUTE_DTYPE_NONE: the size of an array
 * indexed by dtype. It grows when dtypes are added; a dtype's number never changes. */
#define COMPUTE_DTYPE_PLUS_1(...) +1
#define COMPUTE_DTYPE_COUNT       (1 COMPUTE_DTYPES(COMPUTE_DTYPE_PLUS_1))

/** Bytes of one element; 0 for an invalid dtype. Thread-safe. */
COMPUTE_API size_t compute_dtype_size(compute_dtype dtype);

/** "f32", "bool", …; "invalid" for an invalid dtype. Thread-safe. */
COMPUTE_API const char *compute_dtype_name(compute_dtype dtype);

/** How a scatter combines an element with an update. */
typedef enum compute_scatter_mode {
  COMPUTE_SCATTER_ADD = 0,
  COMPUTE_SCATTER_SET = 1, /**< the update; the last of several for one element */
  COMPUTE_SCATTER_MUL = 2,
  COMPUTE_SCATTER_MAX = 3, /**< the larger; NaN if either is */
  COMPUTE_SCATTER_MIN = 4  /**< the smaller; NaN if either is */
} compute_scatter_mode;

#define COMPUTE_MAX_RANK 8

/** Sizes of a tensor's dimensions, outermost first. Rank 0 is a scalar; a size may be 0. */
typedef struct compute_shape {
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK]; /**< entries at and past rank are ignored */
} compute_shape;

/** COMPUTE_SHAPE(64, 784) is a compute_shape of rank 2; COMPUTE_SCALAR is the one of rank 0. */
#define COMPUTE_SHAPE(...)                                                                         \
  ((compute_shape){.rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
                   .size = {__VA_ARGS__}})
#define COMPUTE_SCALAR ((compute_shape){.rank = 0})

/** A list of axes. Negative axes count from the end. An empty list means all axes, in reverse order
 * where the order counts (transpose). COMPUTE_NO_AXES means none: a reduction along no axes is its
 * operand, and transpose keeps the order. A program that computes its axes, possibly none, writes
 * `axes.count ? axes : COMPUTE_NO_AXES`. */
typedef struct compute_axes {
  int32_t count;
  int32_t axis[COMPUTE_MAX_RANK];
} compute_axes;

#define COMPUTE_AXES(...)                                                                          \
  ((compute_axes){.count = (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),          \
                  .axis = {__VA_ARGS__}})
#define COMPUTE_ALL_AXES ((compute_axes){.count = 0})
#define COMPUTE_NO_AXES  ((compute_axes){.count = INT32_MIN})

/** Writes the number of elements to `count`. Fails with COMPUTE_ERROR_SHAPE for a negative size or
 * a rank outside 0 … 8 and COMPUTE_ERROR_OVERFLOW when the product exceeds 63 bits. Thread-safe. */
COMPUTE_API compute_status compute_shape_count(compute_shape shape, int64_t *count);

/** Writes "[64,784]" to `text`, truncated to `bytes`. Returns `text`. Thread-safe. */
COMPUTE_API char *compute_shape_text(compute_shape shape, char *text, size_t bytes);

/** Whether both have the same rank and sizes. Thread-safe. */
COMPUTE_API bool compute_shape_equal(compute_shape a, compute_shape b);

#ifdef __cplusplus
}
#endif
#endif
