/* SPDX-License-Identifier: MIT */
/* Conversions of single elements, and properties of dtypes, for the core. */
#ifndef TYPE_DTYPE_H
#define TYPE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/dtype.h"

bool dtype_is_valid(compute_dtype dtype);
bool dtype_is_float(compute_dtype dtype); /* f64 f32 f16 bf16 */
bool dtype_is_half(compute_dtype dtype);  /* f16 bf16 */
bool dtype_is_integer(compute_dtype dtype);

/* `true` for integers narrower than their compute type. A store wraps them. */
bool dtype_is_narrow(compute_dtype dtype);

/* `true` if the store alone performs the cast, from the unconverted value. This holds for narrow
 * integers, and for floats to u64, because i64 cannot represent the upper half of u64. */
bool dtype_casts_in_store(compute_dtype from, compute_dtype to);

/* The type that programs use to compute elements of this dtype: f16, bf16 → F32; u8 → I32. */
compute_dtype dtype_compute_type(compute_dtype dtype);

uint16_t dtype_f32_to_f16(float value);
float dtype_f16_to_f32(uint16_t bits);
uint16_t dtype_f32_to_bf16(float value);
float dtype_bf16_to_f32(uint16_t bits);

/* dtype_store converts `value` by the rules of compute/dtype.h and stores it at `element`;
 * dtype_load loads one element. An i64 outside ±2^53 loses bits as a double; use the integer
 * functions for these. */
void dtype_store(compute_dtype dtype, void *element, double value);
double dtype_load(compute_dtype dtype, const void *element);
void dtype_store_integer(compute_dtype dtype, void *element, int64_t value);
int64_t dtype_load_integer(compute_dtype dtype, const void *element);

/* The largest finite number of a float dtype. */
double dtype_largest(compute_dtype dtype);

/* The smallest and the largest value of an integer dtype or bool. */
void dtype_limits(compute_dtype dtype, int64_t *low, uint64_t *high);

/* `true` if the dtype can hold `value`. Integers and bool must hold it exactly. A float rounds to
 * nearest, but a finite value must not become infinite. */
bool dtype_holds(compute_dtype dtype, double value);

/* `true` if the dtype, which may be a float, holds exactly this integer. */
bool dtype_holds_integer(compute_dtype dtype, int64_t value);

/* Writes the reason for a message after "<name> is ": "-1; u8 holds whole numbers from 0 to 255".
 * Returns `text`; DTYPE_REFUSAL bytes suffice. */
enum { DTYPE_REFUSAL = 96 };
char *dtype_refusal(compute_dtype dtype, double value, char *text, size_t bytes);
char *dtype_refusal_integer(compute_dtype dtype, int64_t value, char *text, size_t bytes);

#endif
