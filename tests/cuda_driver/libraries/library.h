/* SPDX-License-Identifier: MIT */
/* What the stand-ins of NVIDIA's libraries share: orders, counts, the driver's stand-in, elements.
 *
 * Their results are computed in double from just the descriptors that they are given, so that a
 * wrong transposition, distance, epilogue or precision shows in the numbers. Orders come from
 * COMPUTE_TEST_CUDA_LIBRARIES, or from a test through stand_in_library_configure:
 *
 *   fail=cublasLtMatmul:3:14   the third call fails with 14; 3+: that and all later ones
 *   hang=ncclAllReduce:3       the third call does not come to an end
 *   version=110000             what the library says that it is
 *   newest_driver=1            it does not start with the driver at hand */
#ifndef CUDA_DRIVER_LIBRARY_H
#define CUDA_DRIVER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_driver/stand_in.h"

#define EXPORT __attribute__((visibility("default")))

/* Counts a call by name; the code that it shall fail with, or 0. */
int32_t library_call(const char *name);
bool library_hangs(void); /* after library_call: whether that call shall not end */
int64_t library_version(int64_t usual);
bool library_starts(int driver_major); /* a working context, and a driver that is new enough */
void library_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes that an object was made (1) or destroyed (-1). */
void library_object(int change);

/* As in stand_in.h. */
int32_t library_submit(void *stream, void (*run)(void *data), void *data);
bool library_on_device(const void *address, uint64_t bytes);

typedef enum element { ELEMENT_F32, ELEMENT_F64, ELEMENT_F16, ELEMENT_BF16, ELEMENT_NONE } element;

size_t element_bytes(element type);
double element_load(element type, const void *array, int64_t index);
void element_store(element type, void *array, int64_t index, double value);
double element_to_tf32(double value); /* rounded to 10 bits of mantissa */

#endif
