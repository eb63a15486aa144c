/* SPDX-License-Identifier: MIT */
/* The saturated pixels of the images in progress. Images are scanned as they are read, and
 * forgotten once their results are written, so that memory is needed only for the images in
 * between. */
#ifndef TOOLS_FIT_SATURATION_H
#define TOOLS_FIT_SATURATION_H

#include <stdint.h>

#include "compute/dtype.h"

typedef struct saturation saturation;

/* A pixel is saturated from `level` on. Images are rows × columns. NULL when out of memory. */
saturation *saturation_create(double level, int64_t rows, int64_t columns);
void saturation_release(saturation *s); /* NULL is allowed */

/* Scans images first … first + count − 1, of COMPUTE_U16 or COMPUTE_F32. Call in ascending order.
 * Fails with COMPUTE_ERROR_OUT_OF_MEMORY. Thread-safe, like the functions below. */
compute_status saturation_scan(saturation *s, compute_dtype dtype, int64_t first, int64_t count,
                               const void *pixels);

/* The number of saturated pixels in an ROI. */
int32_t saturation_count(const saturation *s, int64_t image, int64_t row, int64_t column,
                         int32_t rows, int32_t columns);

/* Forgets the images before `image`. */
void saturation_forget(saturation *s, int64_t image);

#endif
