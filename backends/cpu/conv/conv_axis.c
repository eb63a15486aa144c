/* Which taps of the filter meet which data, along one dimension.
 *
 * FORWARD and BY_DATA come down to one form, in which result i and tap u meet the source at a place
 * linear in both. In BY_DATA a result at place h of the data is reached by those taps r for which
 * h + padding − r·dilation is a multiple of the stride: which ones depends on h modulo the stride,
 * the phase, and within a phase they, too, are evenly spaced.
 *
 * Taps that meet no data for any result are left out: they would only widen the copy. */
#include "conv.h"

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Smallest u with first + u·step ≥ bound; step > 0. */
static int64_t first_from(int64_t first, int64_t step, int64_t bound) {
  return first >= bound ? 0 : conv_divide_up(bound - first, step);
}

static void leave_out_idle_taps(conv_axis *axis) {
  const int64_t lowest = axis->count > 0 ? -(axis->count - 1) * axis->source_step : 0;
  const int64_t skipped =
      conv_minimum(first_from(axis->offset_first, axis->offset_step, lowest), axis->taps);
  int64_t end = first_from(axis->offset_first, axis->offset_step, axis->source_size);
  end = conv_maximum(conv_minimum(end, axis->taps), skipped);
  if (axis->count == 0) end = skipped;
  axis->filter_first += skipped * axis->filter_step;
  axis->offset_first += skipped * axis->offset_step;
  axis->taps = end - skipped;
}

static void find_reach(conv_axis *axis) {
  const int64_t cycle = axis->source_step / greatest_divisor(axis->source_step, axis->offset_step);
  axis->splits = conv_maximum(conv_minimum(cycle, axis->taps), 1);
  axis->reach = axis->taps > 0 ? (axis->taps - 1) * axis->offset_step / axis->source_step : 0;
}

static void make_forward(const compute_convolution *c, int d, conv_axis *axis) {
  *axis = (conv_axis){.count = c->result_size[d],
                      .step = 1,
                      .source_step = c->stride[d],
                      .source_size = c->data_size[d],
                      .taps = c->filter_size[d],
                      .filter_step = 1,
                      .offset_first = -c->padding[d],
                      .offset_step = c->dilation[d]};
}

static void make_by_data(const compute_convolution *c, int d, int64_t phase, conv_axis *axis) {
  const int64_t stride = c->stride[d], dilation = c->dilation[d], taps = c->filter_size[d];
  const int64_t divisor = greatest_divisor(dilation, stride), apart = stride / divisor;
  const int64_t place = phase + c->padding[d];
  int64_t tap = 0; /* the first that reaches the phase */
  while (tap < taps && tap < apart && (place - tap * dilation) % stride != 0) tap++;
  const int64_t count = tap < taps && tap < apart ? (taps - 1 - tap) / apart + 1 : 0;
  const int64_t last = count > 0 ? tap + (count - 1) * apart : 0;
  *axis = (conv_axis){.count = (c->data_size[d] - phase + stride - 1) / stride,
                      .first = phase,
                      .step = stride,
                      .source_step = 1,
                      .source_size = c->result_size[d],
                      .taps = count,
                      .filter_first = last,
                      .filter_step = -apart,
                      .offset_first = count > 0 ? (place - last * dilation) / stride : 0,
                      .offset_step = dilation / divisor};
}

bool conv_axes_make(cpu_conv *conv, int dimension) {
  const compute_convolution *c = &conv->shape;
  const bool by_data = c->direction == COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t phases =
      by_data ? conv_maximum(conv_minimum(c->stride[dimension], c->data_size[dimension]), 1) : 1;
  conv_axis *axes = cpu_allocate(conv->head.device, (uint64_t)phases * sizeof(conv_axis));
  if (!axes) return false;
  int64_t taps = 0;
  for (int64_t i = 0; i < phases; i++) {
    if (by_data)
      make_by_data(c, dimension, i, &axes[i]);
    else
      make_forward(c, dimension, &axes[i]);
    leave_out_idle_taps(&axes[i]);
    find_reach(&axes[i]);
    axes[i].taps_before = taps;
    taps += axes[i].taps;
  }
  conv->axes[dimension] = axes;
  conv->axis_count[dimension] = phases;
  return true;
}
