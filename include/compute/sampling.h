/* SPDX-License-Identifier: MIT */
/** @file
 * How tensors are padded, resized, and read between their elements: options that graphs and eager
 * calls share. */
#ifndef COMPUTE_SAMPLING_H
#define COMPUTE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum compute_pad_mode {
  COMPUTE_PAD_CONSTANT = 0,
  COMPUTE_PAD_EDGE = 1,    /**< the first and last element repeated */
  COMPUTE_PAD_REFLECT = 2, /**< mirrored at both ends, the edge itself not repeated */
  COMPUTE_PAD_WRAP = 3     /**< from the other end, as if the axis were a ring */
} compute_pad_mode;

typedef enum compute_upsample_mode {
  COMPUTE_UPSAMPLE_NEAREST = 0,
  COMPUTE_UPSAMPLE_BILINEAR = 1 /**< aligns pixel areas, not corners */
} compute_upsample_mode;

typedef enum compute_resize_mode {
  COMPUTE_RESIZE_NEAREST = 0,
  COMPUTE_RESIZE_LINEAR = 1, /**< weights of 2 neighbours along each axis */
  COMPUTE_RESIZE_CUBIC = 2   /**< of 4 */
} compute_resize_mode;

/** The position p of result element i in the operand, for a scale s (compute_resize_options). */
typedef enum compute_resize_coordinates {
  COMPUTE_RESIZE_HALF_PIXEL = 0,           /**< p = (i + ½) / s − ½: pixel areas are aligned */
  COMPUTE_RESIZE_HALF_PIXEL_SYMMETRIC = 1, /**< the same, symmetric about the middle */
  COMPUTE_RESIZE_PYTORCH_HALF_PIXEL = 2,   /**< the same; 0 for a new size of 1 */
  COMPUTE_RESIZE_ALIGN_CORNERS = 3,        /**< p = i · (old size − 1) / (new size − 1) */
  COMPUTE_RESIZE_ASYMMETRIC = 4            /**< p = i / s */
} compute_resize_coordinates;

/** How COMPUTE_RESIZE_NEAREST rounds a position. */
typedef enum compute_resize_rounding {
  COMPUTE_RESIZE_PREFER_FLOOR = 0, /**< to the nearest, halves down */
  COMPUTE_RESIZE_PREFER_CEIL = 1,  /**< to the nearest, halves up */
  COMPUTE_RESIZE_FLOOR = 2,
  COMPUTE_RESIZE_CEIL = 3
} compute_resize_rounding;

/** Zero means the default. */
typedef struct compute_resize_options {
  compute_resize_mode mode;
  compute_resize_coordinates coordinates;
  compute_resize_rounding rounding;
  bool antialias;       /**< LINEAR, CUBIC: average over all elements when shrinking */
  bool exclude_outside; /**< weights beyond the ends are 0, and the others sum to 1 */
  double cubic;         /**< the coefficient of CUBIC; 0: −0.75 */
  /** The scale s of each axis; 0: new size / old size. It differs from that where a size was scaled
   * by it and rounded. ALIGN_CORNERS does not use it, except for the width of antialiasing. */
  double scale[COMPUTE_MAX_RANK];
  uint64_t reserved[4]; /**< must be zero */
} compute_resize_options;

typedef enum compute_sample_mode {
  COMPUTE_SAMPLE_NEAREST = 0,
  COMPUTE_SAMPLE_LINEAR = 1,
  COMPUTE_SAMPLE_CUBIC = 2
} compute_sample_mode;

/** The values outside of the data. */
typedef enum compute_sample_border {
  COMPUTE_SAMPLE_ZEROS = 0,
  COMPUTE_SAMPLE_EDGE = 1,  /**< the nearest element */
  COMPUTE_SAMPLE_MIRROR = 2 /**< the mirror image */
} compute_sample_border;

#ifdef __cplusplus
}
#endif
#endif
