/* SPDX-License-Identifier: MIT */
/* Samples of SPOTS: both filters, both results, frames of integers and of floats. */
#include "support/samples/sample_kernels.h"

#include "compute/backend/fit_kinds.h"

enum { ALL = 255 };

typedef struct spots_sample {
  int64_t frames, height, width;
  compute_dtype dtype, result;
  int32_t filter, distance, radius, wide_radius;
  int64_t step, tile;
  bool turned; /* columns are outermost in memory */
} spots_sample;

static void turn(compute_operand *operand, const int64_t size[]) {
  operand->stride[1] = 1;
  operand->stride[2] = size[1];
}

static void sample_search(const spots_sample *c, sample_visitor visit, void *user) {
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_SPOTS, COMPUTE_SHAPE(c->frames, c->height, c->width),
               "spots by %s %lldx%lldx%lld %s>%s r%d w%d d%d%s", c->filter ? "boxes" : "gaussians",
               (long long)c->frames, (long long)c->height, (long long)c->width,
               compute_dtype_name(c->dtype), compute_dtype_name(c->result), (int)c->radius,
               (int)c->wide_radius, (int)c->distance, c->turned ? " turned" : "");
  s.attributes.spots = (compute_spots_attributes){.filter = c->filter,
                                                  .distance = c->distance,
                                                  .radius = c->radius,
                                                  .wide_radius = c->wide_radius,
                                                  .step = c->step,
                                                  .rounds = 3,
                                                  .sigma = 1.3,
                                                  .wide_sigma = 2.25,
                                                  .threshold = 1.5,
                                                  .first = 1.25,
                                                  .clip = 3,
                                                  .scale = 1.01,
                                                  .least = 0.2,
                                                  .gain = 0.05,
                                                  .tile = c->tile};
  sample_input(&s, c->dtype, ALL);
  sample_output(&s, c->result, ALL);
  if (c->turned) turn(&s.inputs[0], s.descriptor.size);
  if (c->turned) turn(&s.outputs[0], s.descriptor.size);
  s.low = 90;
  s.high = 400;
  s.tolerance = (test_tolerance){16, 1e-4, 1e-4};
  sample_end(&s, visit, user);
}

void sample_spots_kernels(sample_visitor visit, void *user) {
  static const spots_sample cases[] = {
      {2, 24, 31, COMPUTE_U16, COMPUTE_F32, 0, 2, 4, 8, 1, 8, false},
      {2, 24, 31, COMPUTE_U16, COMPUTE_BOOL, 0, 2, 4, 8, 1, 8, false},
      {3, 17, 40, COMPUTE_F32, COMPUTE_F32, 1, 1, 1, 3, 2, 8, false},
      {3, 17, 40, COMPUTE_F32, COMPUTE_BOOL, 1, 1, 1, 3, 2, 5, false},
      {1, 3, 3, COMPUTE_F32, COMPUTE_F32, 0, 1, 0, 0, 1, 0, false},
      {1, 64, 3, COMPUTE_F32, COMPUTE_F32, 0, 3, 3, 6, 5, 16, false},
      {2, 20, 33, COMPUTE_F32, COMPUTE_BOOL, 0, 3, 3, 6, 2, 1, true},
      {2, 20, 33, COMPUTE_U16, COMPUTE_F32, 1, 3, 0, 5, 3, 7, true},
      {0, 9, 9, COMPUTE_F32, COMPUTE_BOOL, 0, 1, 1, 2, 1, 8, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_search(&cases[i], visit, user);
}
