/* SPDX-License-Identifier: MIT */
/* FIT: maximum-likelihood fits of Gaussians to small images. */
#include <inttypes.h>

#include "compute/backend/fit_kinds.h"

#include "core/kernel/common/fit_problem.h"
#include "core/kernel/common/kind.h"

static bool check_fit_inputs(const compute_kernel_descriptor *d, const explanation *why) {
  const uint32_t inputs = compute_fit_of(d)->problem.inputs;
  if (d->inputs[0].dtype != COMPUTE_F32 && d->inputs[0].dtype != COMPUTE_U16)
    return descriptor_refuse(why, "pixels are %s; they must be f32 or u16",
                             compute_dtype_name(d->inputs[0].dtype));
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    const int32_t at = fit_input_index(inputs, UINT32_C(1) << i);
    if (at < 0 || d->inputs[at].dtype == fit_input_dtype(i)) continue;
    return descriptor_refuse(why, "%s: dtype %s instead of %s", fit_input_name(i),
                             compute_dtype_name(d->inputs[at].dtype),
                             compute_dtype_name(fit_input_dtype(i)));
  }
  return true;
}

/* Frames and maps must hold at least one ROI, and their pixels must be countable. */
static bool check_fit_frames(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const bool stack = (p->flags & COMPUTE_FIT_STACK) != 0;
  int64_t pixels;
  if ((p->inputs & COMPUTE_FIT_WITH_CORNERS) == 0) return true;
  if (compute_fit_of(d)->rows < p->rows || compute_fit_of(d)->columns < p->columns ||
      compute_fit_of(d)->rows > INT32_MAX || compute_fit_of(d)->columns > INT32_MAX)
    return descriptor_refuse(why, "an ROI of %d × %d in frames of %" PRId64 " × %" PRId64,
                             (int)p->rows, (int)p->columns, compute_fit_of(d)->rows,
                             compute_fit_of(d)->columns);
  if (!stack && (compute_fit_of(d)->frames < 0 || compute_fit_of(d)->frames > INT32_MAX ||
                 __builtin_mul_overflow(compute_fit_of(d)->rows * compute_fit_of(d)->columns,
                                        compute_fit_of(d)->frames, &pixels)))
    return descriptor_refuse(why, "%" PRId64 " is not a valid number of frames",
                             compute_fit_of(d)->frames);
  return true;
}

/* The kernel reads a cell's coefficients as vectors. */
static bool check_spline(const compute_kernel_descriptor *d, const explanation *why) {
  const int32_t at = fit_input_index(compute_fit_of(d)->problem.inputs, COMPUTE_FIT_WITH_SPLINE);
  if (at < 0 ||
      (d->inputs[at].stride[0] == COMPUTE_FIT_SPLINE_COEFFICIENTS && d->inputs[at].stride[1] == 1))
    return true;
  return descriptor_refuse(why, "the spline's coefficients must be dense");
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->rank != 1) return descriptor_refuse(why, "FIT has one dimension, its ROIs");
  if (!fit_problem_is_normal(&compute_fit_of(d)->problem, why->text, why->bytes)) return false;
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  if (!descriptor_check_counts(d, 1 + (uint32_t)__builtin_popcount(p->inputs), 1, why) ||
      !descriptor_check_no_programs(d, why) || !check_fit_inputs(d, why) ||
      !check_fit_frames(d, why))
    return false;
  if (p->rows * p->columns < fit_problem_free_count(p))
    return descriptor_refuse(why, "%d × %d pixels are fewer than the %d free parameters",
                             (int)p->rows, (int)p->columns, (int)fit_problem_free_count(p));
  if (!check_spline(d, why)) return false;
  if (d->outputs[0].dtype != COMPUTE_F32)
    return descriptor_refuse(why, "records are %s; they must be f32",
                             compute_dtype_name(d->outputs[0].dtype));
  if (d->outputs[0].stride[1] == 0 && compute_fit_column(p->model, p->outputs, 0) > 1)
    return descriptor_refuse(why, "output 0 repeats along its record");
  return descriptor_check_outputs_distinct(d, 1, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_fit_attributes *a = compute_fit_of(d);
  const bool corners = (a->problem.inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  const bool frames = corners && (a->problem.flags & COMPUTE_FIT_STACK) == 0;
  compute_fit_attributes *n = attributes;
  memcpy(&n->problem, &a->problem, sizeof n->problem); /* has no padding */
  n->frames = frames ? a->frames : 0;
  n->rows = corners ? a->rows : 0;
  n->columns = corners ? a->columns : 0;
}

static uint64_t pixel_count(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const bool frames =
      (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0 && (p->flags & COMPUTE_FIT_STACK) == 0;
  return frames ? (uint64_t)(compute_fit_of(d)->frames * compute_fit_of(d)->rows) *
                      (uint64_t)compute_fit_of(d)->columns
                : (uint64_t)d->size[0] * (uint64_t)(p->rows * p->columns);
}

static uint64_t spline_cells(const compute_fit_problem *p) {
  return (uint64_t)p->cells[0] * (uint64_t)p->cells[1] * (uint64_t)p->cells[2];
}

/* Whole frames count, even if few ROIs read them, because they cross the bus whole. */
static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const uint64_t size = compute_dtype_size(d->inputs[input].dtype);
  const bool corners = (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  if (input == 0) return pixel_count(d) * size;
  int32_t bit = 0;
  while (fit_input_index(p->inputs, UINT32_C(1) << bit) != (int32_t)input) bit++;
  const uint64_t rois = d->inputs[input].stride[0] != 0 ? (uint64_t)d->size[0] : 1;
  switch (UINT32_C(1) << bit) {
  case COMPUTE_FIT_WITH_CORNERS: return rois * 3 * size;
  case COMPUTE_FIT_WITH_SIGMA: return rois * 2 * size;
  case COMPUTE_FIT_WITH_SPLINE: return spline_cells(p) * COMPUTE_FIT_SPLINE_COEFFICIENTS * size;
  case COMPUTE_FIT_WITH_START:
  case COMPUTE_FIT_WITH_LOWER:
  case COMPUTE_FIT_WITH_UPPER: return rois * (uint64_t)compute_fit_parameter_count(p->model) * size;
  default:
    return rois * size *
           (corners ? (uint64_t)(compute_fit_of(d)->rows * compute_fit_of(d)->columns)
                    : (uint64_t)(p->rows * p->columns));
  }
}

static uint64_t output_bytes(const compute_kernel_descriptor *d, uint32_t output) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  return (uint64_t)d->size[0] * compute_dtype_size(d->outputs[output].dtype) *
         (uint64_t)compute_fit_column(p->model, p->outputs, 0);
}

/* Typical numbers of steps. All solvers except Newton stop when they have converged. */
static uint64_t steps_of(const compute_fit_problem *p) {
  const int32_t usual = p->solver == COMPUTE_FIT_FISHER ? 4 : 10;
  const int32_t steps =
      p->solver == COMPUTE_FIT_NEWTON || p->iterations < usual ? p->iterations : usual;
  return (uint64_t)steps * (uint64_t)(p->z_start_count > 1 ? p->z_start_count : 1);
}

/* The cost of a step: for each pixel, the model, its derivatives and their products; for each pixel
 * edge, an error function and an exponential, or for each pixel a spline; and a system of
 * equations. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const uint64_t k = (uint64_t)compute_fit_parameter_count(p->model);
  const uint64_t pixels = (uint64_t)(p->rows * p->columns);
  const uint64_t edges = (uint64_t)(p->rows + p->columns + 2);
  const uint64_t shape = p->model == COMPUTE_FIT_SPLINE ? 246 * pixels : 20 * edges;
  const uint64_t step = pixels * (k * k + 5 * k + 6) + shape + k * k * k;
  return (uint64_t)d->size[0] * (steps_of(p) * step + 30 * pixels);
}

/* A fit keeps its data in registers, while each step of a program goes through memory. */
static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  work->simple += 0.25 * (double)cost->flops;
  work->functions += 8 * (double)(p->rows + p->columns + 2) * (double)d->size[0];
}

/* At this count a device is saturated, and more ROIs make no difference. */
enum { MANY_FITS = 1 << 15 };

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  static const char *const model[] = {"xynb", "xynbs", "xynbsxsy", "xyznb", "spline"};
  static const char *const solver[] = {"fisher", "newton", "marquardt", "squares"};
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const int64_t n = d->size[0] < MANY_FITS ? d->size[0] : MANY_FITS;
  class_add_types(t, d, 1);
  class_add(t, "%s.%s/n%dp%d", model[p->model], solver[p->solver], class_bucket(n),
            class_bucket(p->rows * p->columns));
}

static const char *operation(const compute_kernel_descriptor *d) {
  return fit_model_name(compute_fit_of(d)->problem.model);
}

/* " in ROIs of 7x7 by Fisher scoring, sCMOS camera; corners, gain" */
static void print_more(const compute_kernel_descriptor *d, text_buffer *text) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const char *before = "; ";
  text_add(text, " in ROIs of %dx%d by %s, %s camera", (int)p->rows, (int)p->columns,
           fit_solver_name(p->solver), fit_camera_name(p->camera));
  if (p->profile == COMPUTE_FIT_SAMPLED) text_add(text, ", sampled");
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    if ((p->inputs >> i & 1) == 0) continue;
    text_add(text, "%s%s", before, fit_input_name(i));
    before = ", ";
  }
}

/* The largest attributes of all kinds. */
_Static_assert(sizeof(compute_fit_attributes) <= KERNEL_ATTRIBUTE_BYTES, "room for attributes");

const kernel_kind kernel_kind_fit = {
    .name = "fit",
    .title = "fit",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_fit_attributes),
    .normalize = normalize,
    .operand_rank = 3,
    .input_bytes = input_bytes,
    .output_bytes = output_bytes,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_more = print_more,
};
