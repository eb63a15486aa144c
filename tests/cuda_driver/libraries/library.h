/* SPDX-License-Identifier: MIT */
/* Shared by the stand-ins of NVIDIA's libraries: orders, counts, the driver's stand-in, elements.
 *
 * Results are computed in double, only from the given descriptors. So a wrong transposition,
 * distance, epilogue or precision shows in the numbers. Orders come from
 * COMPUTE_TEST_CUDA_LIBRARIES, or from a test through stand_in_library_configure:
 *
 *   fail=cublasLtMatmul:3:14   the third call fails with 14; 3+: it and all later ones
 *   hang=ncclAllReduce:3       the third call never ends
 *   version=110000             the library's version
 *   newest_driver=1            it refuses the present driver */
#ifndef CUDA_DRIVER_LIBRARY_H
#define CUDA_DRIVER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_driver/stand_in.h"

#define EXPORT __attribute__((visibility("default")))

/* Counts a call by name; returns its ordered error code, or 0. */
int32_t library_call(const char *name);
bool library_hangs(void); /* after library_call: true if that call must hang */
int64_t library_version(int64_t usual);
bool library_starts(int driver_major); /* a working context and a driver that is new enough */
void library_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Counts an object made (1) or destroyed (-1). */
void library_object(int change);

/* See stand_in.h. */
int32_t library_submit(void *stream, void (*run)(void *data), void *data);
bool library_on_device(const void *address, uint64_t bytes);

typedef enum element { ELEMENT_F32, ELEMENT_F64, ELEMENT_F16, ELEMENT_BF16, ELEMENT_NONE } element;

size_t element_bytes(element type);
double element_load(element type, const void *array, int64_t index);
void element_store(element type, void *array, int64_t index, double value);
double element_to_tf32(double value); /* rounded to 10 bits of mantissa */

#endif
