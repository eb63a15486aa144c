/* The cost of an operand is its distinct elements: those that stride 0 does not repeat. */
#include "kernel/cost.h"

#include <string.h>

#include "kernel/fit_problem.h"
#include "kernel/program.h"

static const char *const kind_names[] = {"map",     "reduce", "row",         "gemm", "gather",
                                         "scatter", "copy",   "convolution", "fit"};

const char *kernel_kind_name(compute_kernel_kind kind) {
  return (size_t)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "unknown";
}

static uint64_t product(const int64_t *size, int32_t rank) {
  uint64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= (uint64_t)size[i];
  return count;
}

/* The sizes over which the strides of a convolution's factor run. */
static void factor_sizes(const compute_convolution *c, uint32_t input, int64_t *size) {
  bool filter = input == 1 && c->direction != COMPUTE_CONVOLUTION_BY_FILTER;
  bool data = input == 0 && c->direction != COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t *plane = filter ? c->filter_size : data ? c->data_size : c->result_size;
  size[0] = filter ? c->result_channels : c->batch;
  size[1] = filter ? c->data_channels / c->groups : data ? c->data_channels : c->result_channels;
  size[2] = plane[0];
  size[3] = plane[1];
}

static uint64_t fit_pixel_count(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = d->fit;
  const bool frames =
      (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0 && (p->flags & COMPUTE_FIT_STACK) == 0;
  return frames ? (uint64_t)(d->fit_frames * d->fit_rows) * (uint64_t)d->fit_columns
                : (uint64_t)d->size[0] * (uint64_t)(p->rows * p->columns);
}

/* Whole frames count, also where few ROIs look at them: that is what has to cross a bus. */
static uint64_t fit_input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const compute_fit_problem *p = d->fit;
  const uint64_t size = compute_dtype_size(d->inputs[input].dtype);
  const bool corners = (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  if (input == 0) return fit_pixel_count(d) * size;
  int32_t bit = 0;
  while (fit_input_index(p->inputs, UINT32_C(1) << bit) != (int32_t)input) bit++;
  const uint64_t rois = d->inputs[input].stride[0] != 0 ? (uint64_t)d->size[0] : 1;
  switch (UINT32_C(1) << bit) {
  case COMPUTE_FIT_WITH_CORNERS: return rois * 3 * size;
  case COMPUTE_FIT_WITH_SIGMA: return rois * 2 * size;
  case COMPUTE_FIT_WITH_START:
  case COMPUTE_FIT_WITH_LOWER:
  case COMPUTE_FIT_WITH_UPPER: return rois * (uint64_t)compute_fit_parameter_count(p->model) * size;
  default:
    return rois * size *
           (corners ? (uint64_t)(d->fit_rows * d->fit_columns) : (uint64_t)(p->rows * p->columns));
  }
}

static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const compute_operand *o = &d->inputs[input];
  int64_t size[COMPUTE_MAX_RANK];
  if (d->kind == COMPUTE_KERNEL_FIT) return fit_input_bytes(d, input);
  memcpy(size, d->size, sizeof size);
  if (d->kind == COMPUTE_KERNEL_GEMM && input < 2) size[d->rank - (input == 0 ? 1 : 2)] = d->k;
  if (d->kind == COMPUTE_KERNEL_CONV && input < 2) factor_sizes(&d->convolution, input, size);
  uint64_t count = 1;
  for (int32_t i = 0; i < d->rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)size[i];
  return count * compute_dtype_size(o->dtype);
}

static uint64_t output_bytes(const compute_kernel_descriptor *d, const compute_operand *o) {
  uint64_t count = 1;
  if (d->kind == COMPUTE_KERNEL_FIT)
    return (uint64_t)d->size[0] * compute_dtype_size(o->dtype) *
           (uint64_t)compute_fit_column(d->fit->model, d->fit->outputs, 0);
  for (int32_t i = 0; i < d->rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)d->size[i];
  return count * compute_dtype_size(o->dtype);
}

/* Whatever its direction, a convolution multiplies as often as the forward one. */
static uint64_t convolution_flops(const compute_convolution *c) {
  return 2 * (uint64_t)c->batch * (uint64_t)c->result_channels * product(c->result_size, 2) *
         (uint64_t)(c->data_channels / c->groups) * product(c->filter_size, 2);
}

/* Usual numbers of steps: a solver stops when it has converged, all but Newton's. */
static uint64_t fit_steps(const compute_fit_problem *p) {
  const int32_t usual = p->solver == COMPUTE_FIT_FISHER ? 4 : 10;
  const int32_t steps =
      p->solver == COMPUTE_FIT_NEWTON || p->iterations < usual ? p->iterations : usual;
  return (uint64_t)steps * (uint64_t)(p->z_start_count > 1 ? p->z_start_count : 1);
}

/* Each step: for each pixel the model, its derivatives and their products; for each edge of a pixel
 * an error function and an exponential; and a system of equations. */
static uint64_t fit_flops(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = d->fit;
  const uint64_t k = (uint64_t)compute_fit_parameter_count(p->model);
  const uint64_t pixels = (uint64_t)(p->rows * p->columns);
  const uint64_t edges = (uint64_t)(p->rows + p->columns + 2);
  const uint64_t step = pixels * (k * k + 5 * k + 6) + 20 * edges + k * k * k;
  return (uint64_t)d->size[0] * (fit_steps(p) * step + 30 * pixels);
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  uint64_t all = product(d->size, d->rank);
  uint64_t prologue = program_flops(&d->prologue), epilogue = program_flops(&d->epilogue);
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: return all * epilogue;
  case COMPUTE_KERNEL_REDUCE:
    return all * (prologue + 1) + product(d->size, d->kept_rank) * epilogue;
  case COMPUTE_KERNEL_ROW:
    return all * (prologue + epilogue + (d->row == COMPUTE_ROW_NORMALIZE ? 6 : 12));
  case COMPUTE_KERNEL_GEMM: return all * (2 * (uint64_t)d->k + epilogue);
  case COMPUTE_KERNEL_CONV: return convolution_flops(&d->convolution) + all * epilogue;
  case COMPUTE_KERNEL_SCATTER: return all;
  case COMPUTE_KERNEL_FIT: return fit_flops(d);
  default: return 0;
  }
}

kernel_cost kernel_cost_of(const compute_kernel_descriptor *descriptor) {
  kernel_cost cost = {.flops = flops(descriptor)};
  for (uint32_t i = 0; i < descriptor->input_count; i++)
    cost.bytes_read += input_bytes(descriptor, i);
  for (uint32_t i = 0; i < descriptor->output_count; i++)
    cost.bytes_written += output_bytes(descriptor, &descriptor->outputs[i]);
  return cost;
}
