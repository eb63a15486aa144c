/* SPDX-License-Identifier: MIT */
/* Sampling tensors between their elements, at points computed by a run. */
#ifndef MODEL_OPERATORS_SAMPLE_H
#define MODEL_OPERATORS_SAMPLE_H

#include "model/record.h"

typedef enum sample_mode { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC } sample_mode;

/* The values outside of the data: zeros, the edge, or the mirror image. */
typedef enum sample_border { SAMPLE_ZEROS, SAMPLE_EDGE, SAMPLE_MIRROR } sample_border;

typedef struct sample_options {
  sample_mode mode;
  sample_border border;
  bool about_centres; /* mirror about the centre of the outermost element, else its outer edge */
} sample_options;

/* Samples x [n, c, spatial…] at points at[axis] [n, points]: f32 or f64, in elements along each
 * spatial axis. Returns [n, c, points] in x's dtype. */
compute_node sample_points(model_call *call, compute_node x, const compute_node *at,
                           const sample_options *options);

#endif
