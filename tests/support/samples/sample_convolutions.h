/* SPDX-License-Identifier: MIT */
/* Samples of CONV (support/samples/sample_kernels.h). */
#ifndef SUPPORT_SAMPLE_CONVOLUTIONS_H
#define SUPPORT_SAMPLE_CONVOLUTIONS_H

#include "support/samples/sample_kernels.h"

/* The order of the dimensions in memory. */
typedef enum sample_layout {
  LAYOUT_NCHW,
  LAYOUT_NHWC,
  LAYOUT_GAPS,    /* like NCHW, with unused elements between any two */
  LAYOUT_TURNED,  /* the first dimension has the smallest stride */
  LAYOUT_FLIPPED, /* inputs like NCHW, but height and width with negative strides */
  LAYOUT_SHARED,  /* inputs like NCHW, but their first dimension with stride 0 */
  LAYOUT_PIXELS,  /* inputs like NCHW, outputs like NHWC */
  LAYOUT_PLANES,  /* inputs like NHWC, outputs like NCHW */
  LAYOUT_COUNT
} sample_layout;

typedef enum sample_ending {
  ENDING_PLAIN,
  ENDING_BIAS,        /* relu(sum + one number per channel) */
  ENDING_RESIDUAL,    /* relu(sum + one number per element) */
  ENDING_TWO_OUTPUTS, /* result of ENDING_BIAS, and the sum */
  ENDING_PLACES,      /* sum + a function of position and coordinates */
  ENDING_ADDED,       /* one number per element − (sum + one number per channel) */
  ENDING_COUNT
} sample_ending;

typedef struct sample_convolution_shape {
  int64_t n, c, k;
  int32_t groups;
  int64_t data[2], filter[2], stride[2], dilation[2], padding[2];
  int64_t more[2]; /* additional results beyond the padding on both sides */
} sample_convolution_shape;

typedef struct sample_convolution {
  sample_convolution_shape shape;
  compute_convolution_direction direction;
  sample_layout layout;
  compute_dtype dtype, result;
  compute_dtype second; /* dtype of inputs[1]; 0: the same */
  sample_ending ending;
  compute_precision precision;
  uint32_t pool;
} sample_convolution;

/* Makes the sample and visits it. */
void sample_convolution_visit(const sample_convolution *c, sample_visitor visit, void *user);

/* The sizes for the strides of input 0 or 1 of a convolution. */
void sample_convolution_sizes(const compute_conv_attributes *c, uint32_t input, int64_t size[4]);

#endif
