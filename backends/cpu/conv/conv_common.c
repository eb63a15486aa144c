/* SPDX-License-Identifier: MIT */
/* Shared by all implementations of convolution: the taps along one dimension, and the epilogue. */
#include <string.h>

#include "conv.h"
#include "program/requantize.h"

/* ---- Taps along one dimension ---------------------------------------------------------------- */

/* Which taps of the filter read which data, along one dimension.
 *
 * FORWARD and BY_DATA share one form: result i and tap u read the source at an index that is linear
 * in both. In BY_DATA, the result at index h of the data uses all taps r such that
 * h + padding − r·dilation is a multiple of the stride. These taps depend on the phase, h modulo
 * the stride. Within a phase they are evenly spaced as well.
 *
 * Taps that read no data for any result are omitted: they would only widen the copy. */

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
  return first >= bound ? 0 : cpu_divide_up(bound - first, step);
}

static void leave_out_idle_taps(conv_axis *axis) {
  const int64_t lowest = axis->count > 0 ? -(axis->count - 1) * axis->source_step : 0;
  const int64_t skipped =
      cpu_min(first_from(axis->offset_first, axis->offset_step, lowest), axis->taps);
  int64_t end = first_from(axis->offset_first, axis->offset_step, axis->source_size);
  end = cpu_max(cpu_min(end, axis->taps), skipped);
  if (axis->count == 0) end = skipped;
  axis->filter_first += skipped * axis->filter_step;
  axis->offset_first += skipped * axis->offset_step;
  axis->taps = end - skipped;
}

static void find_reach(conv_axis *axis) {
  const int64_t cycle = axis->source_step / greatest_divisor(axis->source_step, axis->offset_step);
  axis->splits = cpu_max(cpu_min(cycle, axis->taps), 1);
  axis->reach = axis->taps > 0 ? (axis->taps - 1) * axis->offset_step / axis->source_step : 0;
}

static void make_forward(const compute_conv_attributes *c, int d, conv_axis *axis) {
  *axis = (conv_axis){.count = c->result_size[d],
                      .step = 1,
                      .source_step = c->stride[d],
                      .source_size = c->data_size[d],
                      .taps = c->filter_size[d],
                      .filter_step = 1,
                      .offset_first = -c->padding[d],
                      .offset_step = c->dilation[d]};
}

static void make_by_data(const compute_conv_attributes *c, int d, int64_t phase, conv_axis *axis) {
  const int64_t stride = c->stride[d], dilation = c->dilation[d], taps = c->filter_size[d];
  const int64_t divisor = greatest_divisor(dilation, stride), apart = stride / divisor;
  const int64_t place = phase + c->padding[d];
  int64_t tap = 0; /* the first of this phase */
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

/* Returns `false` if memory is short. */
static bool make_axes(cpu_conv *conv, int dimension) {
  const compute_conv_attributes *c = &conv->shape;
  const bool by_data = c->direction == COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t phases =
      by_data ? cpu_max(cpu_min(c->stride[dimension], c->data_size[dimension]), 1) : 1;
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

compute_status conv_axes_find(cpu_conv *conv) {
  for (int d = 0; d < 2; d++)
    if (!conv->axes[d] && !make_axes(conv, d))
      return cpu_out_of_memory(conv->head.device, sizeof(conv_axis));
  return COMPUTE_OK;
}

/* ---- The epilogue --------------------------------------------------------------------------- */

/* The epilogue over a box of finished sums, which are still in a cache of this core.
 *
 * The interpreter works on runs, and each run has a fixed cost. Rows of results that are contiguous
 * in every operand merge into one run. Their sums have a gap between rows wherever windows overlap
 * the padding, so they are compacted first. If the epilogue computes nothing, rows are copied. */

/* The steps of an operand in a box. Returns the byte offset of its first element. */
static int64_t box_steps(const conv_box *box, const conv_operand *operand,
                         int64_t step[CPU_BOX_RANK]) {
  int64_t first = 0;
  for (int d = 0; d < 4; d++) {
    first += box->first[d] * operand->stride[d];
    step[d] = box->step[d] * operand->stride[d];
  }
  return first * (int64_t)operand->size;
}

static void find_operands(const cpu_conv *conv, void *const *pointers, const conv_box *from,
                          cpu_box *box) {
  box->program = conv->epilogue;
  box->rank = 4;
  box->position = 0;
  for (int d = 0; d < COMPUTE_MAX_RANK; d++) box->coordinate[d] = d < 4 ? from->first[d] : 0;
  int64_t step = 1;
  for (int d = 3; d >= 0; d--) {
    box->count[d] = from->count[d];
    box->dimension[d] = d;
    box->pace[d] = from->step[d];
    box->position += from->first[d] * step;
    box->position_step[d] = from->step[d] * step;
    box->input_step[0][d] = from->sum_stride[d];
    step *= conv->size[d];
  }
  box->input[0] = from->sums;
  for (uint32_t i = 0; i < conv->extra_count; i++)
    box->input[i + 1] = (const unsigned char *)pointers[2 + i] +
                        box_steps(from, &conv->extra[i], box->input_step[i + 1]);
  for (uint32_t k = 0; k < conv->output_count; k++)
    box->output[k] = (unsigned char *)pointers[2 + conv->extra_count + k] +
                     box_steps(from, &conv->output[k], box->output_step[k]);
}

/* memmove for rows. These are often so short that the call would cost more than the bytes: all
 * bytes are loaded before any is stored. */
static void move_row(unsigned char *to, const unsigned char *from, int64_t bytes) {
  enum { SHORT = 16, LONG = 32 };
  unsigned char first[LONG], last[LONG];
  if (bytes >= LONG && bytes <= 2 * LONG) {
    memcpy(first, from, LONG);
    memcpy(last, from + bytes - LONG, LONG);
    memcpy(to, first, LONG);
    memcpy(to + bytes - LONG, last, LONG);
  } else if (bytes >= SHORT && bytes < LONG) {
    memcpy(first, from, SHORT);
    memcpy(last, from + bytes - SHORT, SHORT);
    memcpy(to, first, SHORT);
    memcpy(to + bytes - SHORT, last, SHORT);
  } else {
    memmove(to, from, (size_t)bytes);
  }
}

/* Closes the gaps between rows of sums. */
static void move_together(const cpu_conv *conv, const conv_box *from, cpu_box *box) {
  const int64_t columns = box->count[3], bytes = columns * conv->element;
  if (from->sum_stride[2] == columns) return;
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++) {
      unsigned char *sums =
          from->sums + (i * from->sum_stride[0] + j * from->sum_stride[1]) * conv->element;
      for (int64_t row = 1; row < box->count[2]; row++)
        move_row(sums + row * bytes, sums + row * from->sum_stride[2] * conv->element, bytes);
    }
  box->input_step[0][2] = columns;
}

/* The dimension for runs: the last, unless it is short, or the first output's channels are
 * contiguous and there are enough of them. */
static int choose_dimension(const cpu_conv *conv, const cpu_box *box, bool merged) {
  enum { LONG = 16 };
  const conv_operand *output = &conv->output[0];
  if (output->stride[1] == 1 && output->stride[3] != 1 && box->count[1] >= LONG) return 1;
  int64_t longest = merged ? box->count[2] * box->count[3] : box->count[3];
  int best = 3;
  if (longest >= LONG) return 3;
  for (int d = 2; d >= 0; d--) {
    if (box->count[d] <= longest) continue;
    longest = box->count[d];
    best = d;
  }
  return best;
}

/* Copies rows of sums to rows of the output. */
static void copy_rows(const cpu_conv *conv, const cpu_box *box) {
  const int64_t element = conv->element, *from_step = box->input_step[0];
  const int64_t *to_step = box->output_step[0];
  int64_t bytes = box->count[3] * element, rows = box->count[2];
  if (from_step[2] == box->count[3] && to_step[2] == box->count[3]) {
    bytes *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < box->count[0]; i++)
    for (int64_t j = 0; j < box->count[1]; j++) {
      const unsigned char *from = box->input[0] + (i * from_step[0] + j * from_step[1]) * element;
      unsigned char *to = box->output[0] + (i * to_step[0] + j * to_step[1]) * element;
      for (int64_t row = 0; row < rows; row++) {
        move_row(to, from, bytes);
        from += from_step[2] * element;
        to += to_step[2] * element;
      }
    }
}

cpu_requantize_lines conv_requantize_bind(const cpu_conv *conv, void *const *pointers,
                                          int64_t image, int64_t channel) {
  const cpu_requantize *q = &conv->epilogue->requantize;
  cpu_requantize_operand operands[CPU_REQUANTIZE_INPUTS];
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const conv_operand *from = &conv->extra[q->input[i] - 1];
    const unsigned char *at = pointers[2 + q->input[i] - 1];
    at += (image * from->stride[0] + channel * from->stride[1]) * from->size;
    operands[i] = (cpu_requantize_operand){at, from->stride[3], from->stride[1] != 0};
  }
  return cpu_requantize_bind(q, operands);
}

void conv_epilogue_run(const cpu_conv *conv, void *const *pointers, const conv_box *from) {
  cpu_box box;
  for (int d = 0; d < 4; d++)
    if (from->count[d] == 0) return;
  find_operands(conv, pointers, from, &box);
  if (conv->identity && box.output_step[0][3] == 1 && from->sum_stride[3] == 1) {
    copy_rows(conv, &box);
    return;
  }
  if (cpu_box_continues(&box, 2, 0) && cpu_box_continues(&box, 1, 0)) {
    cpu_box_merge(&box);
    cpu_box_run(&box, box.rank - 1);
    return;
  }
  const bool merged = from->sum_stride[3] == 1 && cpu_box_continues(&box, 2, 1);
  const int along = choose_dimension(conv, &box, merged);
  if (along == 3 && merged) {
    move_together(conv, from, &box);
    cpu_box_merge(&box);
  }
  cpu_box_run(&box, along < box.rank ? along : box.rank - 1);
}
