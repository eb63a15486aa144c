/* Single elements of arrays in files. */
#ifndef TOOLS_FIT_ARRAY_ELEMENTS_H
#define TOOLS_FIT_ARRAY_ELEMENTS_H

#include <stdbool.h>

#include "compute/dtype.h"

/* The element at `at` as double. `swapped`: its bytes are in the other order. An i64 past 2^53 is
 * rounded. */
double element_load(compute_dtype dtype, bool swapped, const unsigned char *at);

/* Stores `value` at values[index] of f64, f32, i32 or u8. false if it is none of that dtype's: no
 * whole number, or too large. */
bool element_store(compute_dtype dtype, double value, void *values, int64_t index);

#endif
