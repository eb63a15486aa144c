/* SPDX-License-Identifier: MIT */
/* Tensors read between their elements: at points that a run computes, and at places that are known
 * when the graph is built. */
#ifndef GRAPH_SAMPLE_H
#define GRAPH_SAMPLE_H

#include "compute/graph_array.h"
#include "graph/builders/parts.h"

typedef struct sample_options {
  compute_sample_mode mode;
  compute_sample_border border;
  bool about_centres; /* mirror about the centre of the outermost element, else its outer edge */
} sample_options;

/* Samples x [n, c, spatial…] at points at[axis] [n, points]: f32 or f64, in elements along each
 * spatial axis. Returns [n, c, points] in x's dtype. */
compute_node part_sample(compute_graph *graph, compute_node x, const compute_node *at,
                         const sample_options *options);

/* grid_sample for operands that fit, of dtypes that may differ. */
bool part_grid_fits(compute_shape x, compute_shape grid);
compute_node part_grid_sample(compute_graph *graph, compute_node x, compute_node grid,
                              const sample_options *options);

/* Modes of resizing that only models have, beside the public ones. */
enum { RESAMPLE_CROP = COMPUTE_RESIZE_ASYMMETRIC + 1, RESAMPLE_TF_HALF_PIXEL };
enum { RESAMPLE_OUTWARD = COMPUTE_RESIZE_CEIL + 1 }; /* floor when enlarging, ceil when shrinking */

typedef struct resample_axis {
  int64_t from, to;
  double scale;
  double begin, end; /* of the region, as fractions of the axis */
} resample_axis;

typedef struct resample {
  compute_graph *graph;
  const char *operation;
  compute_shape shape; /* of the operand */
  resample_axis axis[COMPUTE_MAX_RANK];
  compute_resize_mode mode;
  int coordinates, rounding; /* compute_resize_coordinates, compute_resize_rounding, or above */
  bool antialias, exclude_outside;
  double cubic, extrapolation;
} resample;

/* Resizes x, of any number dtype. */
compute_node part_resize(const resample *r, compute_node x);

#endif
