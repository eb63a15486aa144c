/* The cost of an operand is its distinct elements: those that stride 0 does not repeat. */
#include "kernel/cost.h"

#include "kernel/fit_problem.h"
#include "kernel/operand.h"
#include "kernel/program.h"

static const char *const kind_names[] = {"map",     "reduce", "row",         "gemm", "gather",
                                         "scatter", "copy",   "convolution", "fit",  "pooling",
                                         "scan",    "top_k",  "attention",   "spots"};

const char *kernel_kind_name(compute_kernel_kind kind) {
  return (size_t)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "unknown";
}

static uint64_t product(const int64_t *size, int32_t rank) {
  uint64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= (uint64_t)size[i];
  return count;
}

static uint64_t fit_pixel_count(const compute_kernel_descriptor *d) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const bool frames =
      (p->inputs & COMPUTE_FIT_WITH_CORNERS) != 0 && (p->flags & COMPUTE_FIT_STACK) == 0;
  return frames ? (uint64_t)(compute_fit_of(d)->frames * compute_fit_of(d)->rows) *
                      (uint64_t)compute_fit_of(d)->columns
                : (uint64_t)d->size[0] * (uint64_t)(p->rows * p->columns);
}

/* Whole frames count, also where few ROIs look at them: that is what has to cross a bus. */
static uint64_t fit_input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
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
           (corners ? (uint64_t)(compute_fit_of(d)->rows * compute_fit_of(d)->columns)
                    : (uint64_t)(p->rows * p->columns));
  }
}

static uint64_t input_bytes(const compute_kernel_descriptor *d, uint32_t input) {
  const compute_operand *o = &d->inputs[input];
  int64_t size[COMPUTE_MAX_RANK];
  if (d->kind == COMPUTE_KERNEL_FIT) return fit_input_bytes(d, input);
  kernel_operand_sizes(d, input, size);
  uint64_t count = 1;
  for (int32_t i = 0; i < d->rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)size[i];
  return count * compute_dtype_size(o->dtype);
}

static uint64_t output_bytes(const compute_kernel_descriptor *d, const compute_operand *o) {
  uint64_t count = 1;
  if (d->kind == COMPUTE_KERNEL_FIT)
    return (uint64_t)d->size[0] * compute_dtype_size(o->dtype) *
           (uint64_t)compute_fit_column(compute_fit_of(d)->problem.model,
                                        compute_fit_of(d)->problem.outputs, 0);
  for (int32_t i = 0; i < d->rank; i++)
    if (o->stride[i] != 0) count *= (uint64_t)d->size[i];
  return count * compute_dtype_size(o->dtype);
}

/* Whatever its direction, a convolution multiplies as often as the forward one. */
static uint64_t convolution_flops(const compute_conv_attributes *c) {
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
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const uint64_t k = (uint64_t)compute_fit_parameter_count(p->model);
  const uint64_t pixels = (uint64_t)(p->rows * p->columns);
  const uint64_t edges = (uint64_t)(p->rows + p->columns + 2);
  const uint64_t step = pixels * (k * k + 5 * k + 6) + 20 * edges + k * k * k;
  return (uint64_t)d->size[0] * (fit_steps(p) * step + 30 * pixels);
}

static uint64_t window_flops(const compute_kernel_descriptor *d) {
  return (uint64_t)d->size[0] * (uint64_t)d->size[1] *
         product(compute_window_of(d)->result_size, 2) * product(compute_window_of(d)->size, 2);
}

/* Two products, and an exponential for each score. */
static uint64_t attention_flops(const compute_kernel_descriptor *d) {
  const uint64_t scores = product(d->size, d->rank - 1) * (uint64_t)compute_attention_of(d)->keys;
  const uint64_t all = scores * (2 * (uint64_t)compute_attention_of(d)->width +
                                 2 * (uint64_t)d->size[d->rank - 1] + 12);
  return compute_attention_of(d)->causal ? all / 2 : all;
}

/* A heap of k elements, which most others do not enter. */
static uint64_t top_k_flops(const compute_kernel_descriptor *d) {
  return product(d->size, d->rank - 1) *
         ((uint64_t)compute_top_k_of(d)->axis_size + 8 * (uint64_t)d->size[d->rank - 1]);
}

/* Two blurs along two axes, a multiplication and two additions for each pair; noise and maxima. */
static uint64_t spots_flops(const compute_kernel_descriptor *d) {
  return product(d->size, 3) *
         (6 * (uint64_t)(compute_spots_of(d)->radius + compute_spots_of(d)->wide_radius) + 20);
}

static uint64_t flops(const compute_kernel_descriptor *d) {
  uint64_t all = product(d->size, d->rank);
  uint64_t prologue = program_flops(&d->prologue), epilogue = program_flops(&d->epilogue);
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: return all * epilogue;
  case COMPUTE_KERNEL_REDUCE:
    return all * (prologue + 1) + product(d->size, compute_reduce_of(d)->kept_rank) * epilogue;
  case COMPUTE_KERNEL_ROW:
    return all *
           (prologue + epilogue + (compute_row_of(d)->operation == COMPUTE_ROW_NORMALIZE ? 6 : 12));
  case COMPUTE_KERNEL_GEMM: return all * (2 * (uint64_t)compute_gemm_of(d)->k + epilogue);
  case COMPUTE_KERNEL_CONV: return convolution_flops(compute_conv_of(d)) + all * epilogue;
  case COMPUTE_KERNEL_SCATTER: return all;
  case COMPUTE_KERNEL_FIT: return fit_flops(d);
  case COMPUTE_KERNEL_WINDOW: return window_flops(d) + all * epilogue;
  case COMPUTE_KERNEL_SCAN: return all;
  case COMPUTE_KERNEL_TOP_K: return top_k_flops(d);
  case COMPUTE_KERNEL_ATTENTION: return attention_flops(d);
  case COMPUTE_KERNEL_SPOTS: return spots_flops(d);
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
