/* Fits of Gaussians in generated source, inside: what its files share.
 *
 *   fit.c          the kind: judgement, and the launch
 *   fit_problem.c  what the problem's numbers become: bounds, starts, constants in f32
 *   fit_text.c     the definitions before the kernel, and its arguments
 *
 * kernels/fit_*.h do the work. The text holds what changes the code: model, profile, solver,
 * camera, the ROI's size, which inputs and outputs there are. Everything else is a launch argument,
 * so that one program serves any number of ROIs, any widths, bounds, starts and camera. */
#ifndef GENERATE_FIT_H
#define GENERATE_FIT_H

#include "generate/emit.h"

/* compute_tuning.variant. What each reads of the other fields, and what is sensible:
 *
 *   ITEM    an ROI for each item, its pixels in local memory; group_x (32 … 256). For targets with
 *           COMPUTE_TARGET_FAST_LOCAL and ROIs that fit. groups: how many should find room on a
 *           compute unit, which limits an item's registers (2 … 24)
 *   GROUP   an ROI for each group, its pixels in local memory; group_x (32 … 256)
 *   DIRECT  ROIs for each item, its pixels read when they are needed; group_x; items: how many
 *           ROIs one after the other */
typedef enum fit_variant { FIT_ITEM = 1, FIT_GROUP = 2, FIT_DIRECT = 3 } fit_variant;

/* How pixels are held (HELD in kernels/fit_pixels.h). */
typedef enum fit_holding {
  FIT_NOT_HELD = 0,
  FIT_HELD_AS_F32 = 1,
  FIT_HELD_AS_IT_IS = 2
} fit_holding;

/* A problem as kernels see it. Parameters stand in the order x, y, N, bg, then widths or z. */
typedef struct fit_task {
  const compute_kernel_descriptor *descriptor;
  const compute_fit_problem *problem;
  int32_t parameters, widths; /* `widths`: parameters behind the fourth */
  bool astigmatic, curved, slopes;
  bool corners, frames;                      /* frames: the pixels are frames, not a stack */
  int32_t outer[COMPUTE_FIT_MAX_PARAMETERS]; /* the place in the problem's order */
  uint32_t fixed, start_set;                 /* bits in the kernel's order */
  float start[COMPUTE_FIT_MAX_PARAMETERS];
  float lower[COMPUTE_FIT_MAX_PARAMETERS], upper[COMPUTE_FIT_MAX_PARAMETERS];
  float z_start[COMPUTE_FIT_MAX_Z_STARTS];
  uint32_t z_start_count; /* ≥ 1 */
  int32_t free_parameters;
  float offset, gain, variance, multiplied; /* as in kernels/fit_pixels.h */
} fit_task;

fit_task fit_task_of(const compute_kernel_descriptor *descriptor);

/* How a task is cut up. */
typedef struct fit_cut {
  fit_variant variant;
  fit_holding holding;
  uint32_t group;       /* items */
  uint32_t tile;        /* ROIs that a group reads together */
  uint32_t step;        /* HELD_STEP */
  int32_t segment;      /* columns of a row that an item of a sharing group takes at once */
  int32_t segments;     /* … and how many make a row */
  int32_t partial;      /* values that are summed over a group */
  uint64_t local_bytes; /* of a group */
} fit_cut;

fit_cut fit_cut_of(const generation *g, const fit_task *task, fit_variant variant, uint32_t group);

/* g->definitions, and everything that the launch takes. */
void fit_define(generation *g, const fit_task *task, const fit_cut *cut);
void fit_take(generation *g, emit_launch *launch, const fit_task *task);

#endif
