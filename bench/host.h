/* SPDX-License-Identifier: MIT */
/* Arrays in host memory: inputs shared by libcompute and its peers. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <stdint.h>

#include "compute/dtype.h"

/* Zeroed memory, in large pages where the system has them, or NULL. */
void *host_allocate(size_t bytes);
void host_release(void *pointer, size_t bytes); /* NULL is allowed */

/* Memory available without swapping, in bytes. */
uint64_t host_memory_available(void);

/* The next number of a sequence; `*state` must not be 0. */
uint64_t host_random(uint64_t *state);

/* Random values in low … high (whole numbers for integer types, never all the same). */
void host_fill(compute_dtype dtype, void *array, int64_t count, double low, double high,
               uint64_t seed);

/* Elements first … first + count − 1, `stride` apart, as double. */
void host_load(compute_dtype dtype, const void *array, int64_t first, int64_t stride, int64_t count,
               double *values);

/* Distance from 1 to the next number of a float dtype; 0 for other dtypes. */
double host_epsilon(compute_dtype dtype);

#endif
