/* SPDX-License-Identifier: MIT */
/* The normal form of a convolution: the roles of the tensors, and the positions, channels and terms
 * of each direction (conv.h).
 *
 * The gradient of the data is itself a convolution: y's gradient with the flipped filter. With
 * stride 1, result row h reads y's row p = h + padding − r · dilation. With a stride, h + padding −
 * r · dilation is p · stride, so only taps r count that make it a multiple of the stride. Rows h
 * that differ by whole strides form a phase. They have the same taps, at distances of `stride /
 * gcd(stride, dilation)`. From one row of a phase to the next, p moves by 1: again a convolution of
 * stride 1. */
#include <string.h>

#include "codegen/generate/kinds/conv/conv.h"
#include "core/type/dtype.h"

enum { POSITION_DIGITS = 3, WALK_DATA = 0, WALK_WEIGHT = 1 };

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* ---- Sizes and strides --------------------------------------------------------------------- */

static void read_forward(const compute_kernel_descriptor *d, conv_problem *p) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const int64_t *x = d->inputs[0].stride, *w = d->inputs[1].stride;
  p->channels = c->result_channels / c->groups;
  p->position_size[0] = c->batch;
  p->term_size[0] = c->data_channels / c->groups;
  p->data_position = x[0];
  p->data_term = x[1];
  p->weight_channel = w[0];
  p->weight_term[0] = w[1];
  for (int i = 0; i < 2; i++) {
    p->position_size[1 + i] = c->result_size[i];
    p->term_size[1 + i] = c->filter_size[i];
    p->bound[i] = c->data_size[i];
    p->data_plane[i] = x[2 + i];
    p->by_position[i] = c->stride[i];
    p->by_term[i] = c->dilation[i];
    p->first[i] = -c->padding[i];
    p->weight_term[1 + i] = w[2 + i];
  }
}

static void read_by_data(const compute_kernel_descriptor *d, conv_problem *p) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const int64_t *y = d->inputs[0].stride, *w = d->inputs[1].stride;
  p->phased = c->stride[0] > 1 || c->stride[1] > 1;
  p->channels = c->data_channels / c->groups;
  p->position_size[0] = c->batch;
  p->term_size[0] = c->result_channels / c->groups;
  p->data_position = y[0];
  p->data_term = y[1];
  p->weight_channel = w[1];
  p->weight_term[0] = w[0];
  for (int i = 0; i < 2; i++) {
    const int64_t common = greatest_divisor(c->stride[i], c->dilation[i]);
    p->tap_step[i] = c->stride[i] / common;
    p->weight_tap[i] = w[2 + i];
    p->position_size[1 + i] = divide_up(c->data_size[i], c->stride[i]);
    p->term_size[1 + i] = divide_up(c->filter_size[i], p->tap_step[i]);
    p->bound[i] = c->result_size[i];
    p->data_plane[i] = y[2 + i];
    p->by_position[i] = 1;
    p->by_term[i] = -c->dilation[i] / common;
    p->first[i] = c->padding[i]; /* without phases */
    p->weight_term[1 + i] = w[2 + i] * p->tap_step[i];
  }
}

static void read_by_filter(const compute_kernel_descriptor *d, conv_problem *p) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const int64_t *x = d->inputs[0].stride, *y = d->inputs[1].stride;
  p->channels = c->result_channels / c->groups;
  p->position_size[0] = c->data_channels / c->groups;
  p->term_size[0] = c->batch;
  p->data_position = x[1];
  p->data_term = x[0];
  p->weight_channel = y[1];
  p->weight_term[0] = y[0];
  for (int i = 0; i < 2; i++) {
    p->position_size[1 + i] = c->filter_size[i];
    p->term_size[1 + i] = c->result_size[i];
    p->bound[i] = c->data_size[i];
    p->data_plane[i] = x[2 + i];
    p->by_position[i] = c->dilation[i];
    p->by_term[i] = c->stride[i];
    p->first[i] = -c->padding[i];
    p->weight_term[1 + i] = y[2 + i];
  }
}

/* ---- Spaces -------------------------------------------------------------------------------- */

/* Converts strides over the descriptor's space to strides over (group, [phases,] m0, m1, m2,
 * channel). */
static void turn_strides(const compute_kernel_descriptor *d, const conv_problem *p,
                         const int64_t *from, int64_t *to) {
  const compute_conv_attributes *c = compute_conv_of(d);
  if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER) {
    *to++ = from[0] * p->channels;
    *to++ = from[1];
    *to++ = from[2];
    *to++ = from[3];
    *to = from[0];
    return;
  }
  const bool back = c->direction == COMPUTE_CONVOLUTION_BY_DATA;
  *to++ = from[1] * p->channels;
  if (p->phased) {
    *to++ = from[2];
    *to++ = from[3];
  }
  *to++ = from[0];
  *to++ = from[2] * (back ? c->stride[0] : 1);
  *to++ = from[3] * (back ? c->stride[1] : 1);
  *to = from[1];
}

/* The strides of both factors from group to group. */
static void group_strides(const compute_kernel_descriptor *d, int64_t *data, int64_t *weight) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const int64_t data_channels = c->data_channels / c->groups;
  const int64_t result_channels = c->result_channels / c->groups;
  const bool back = c->direction == COMPUTE_CONVOLUTION_BY_DATA;
  *data = d->inputs[0].stride[1] * (back ? result_channels : data_channels);
  *weight =
      d->inputs[1].stride[c->direction == COMPUTE_CONVOLUTION_BY_FILTER ? 1 : 0] * result_channels;
}

/* Reads all walks over (group, [phases,] m0, m1, m2, channel), including the positions and
 * coordinates of programs. `data` and `weight` name the factors' walks. */
static void read_space(generation *g, const conv_problem *p, emit_space *space, const char *data,
                       const char *weight) {
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_conv_attributes *c = compute_conv_of(d);
  int64_t size[COMPUTE_MAX_RANK], of_data[COMPUTE_MAX_RANK] = {0},
                                  of_weight[COMPUTE_MAX_RANK] = {0};
  int32_t rank = 0;
  size[rank++] = c->groups;
  if (p->phased) {
    size[rank++] = c->stride[0];
    size[rank++] = c->stride[1];
  }
  for (int i = 0; i < POSITION_DIGITS; i++) size[rank + i] = p->position_size[i];
  group_strides(d, &of_data[0], &of_weight[0]);
  of_data[rank] = p->data_position;
  for (int i = 0; i < 2; i++) of_data[rank + 1 + i] = p->by_position[i] * p->data_plane[i];
  rank += POSITION_DIGITS;
  of_weight[rank] = p->weight_channel;
  size[rank++] = p->channels;
  space_begin(space, "batch", rank, size);
  space_add(space, data, of_data);
  space_add(space, weight, of_weight);
  emit_space given;
  space_begin(&given, "given", d->rank, d->size);
  space_add_inputs(g, &given, 2, d->input_count);
  space_add_outputs(g, &given);
  space_add_program(&given, &d->epilogue, d->rank);
  for (uint32_t i = 0; i < given.walk_count; i++) {
    int64_t stride[COMPUTE_MAX_RANK] = {0};
    turn_strides(d, p, given.walk[i].stride, stride);
    space_add(space, given.walk[i].name, stride);
  }
}

static void split_space(const emit_space *space, conv_problem *p) {
  const int32_t batch_rank = space->rank - POSITION_DIGITS - 1;
  emit_space *batch = &p->product.batch;
  space_begin(batch, "batch", batch_rank, space->size);
  space_begin(&p->tile, "tile", POSITION_DIGITS + 1, space->size + batch_rank);
  for (uint32_t i = 0; i < space->walk_count; i++) {
    space_add(batch, space->walk[i].name, space->walk[i].stride);
    if (i > WALK_WEIGHT)
      space_add(&p->tile, space->walk[i].name, space->walk[i].stride + batch_rank);
  }
  p->product.batches = 1;
  for (int32_t d = 0; d < batch_rank; d++) p->product.batches *= batch->size[d];
}

/* ---- Reading ------------------------------------------------------------------------------- */

static int64_t run(int64_t step, int64_t size) {
  step = emit_magnitude(step);
  if (step == 0 || size <= 1) return 1;
  return step <= 4 ? (size + step - 1) / step : 1;
}

int64_t conv_position_run(const conv_problem *p) {
  return run(p->by_position[1] * p->data_plane[1], p->position_size[2]);
}

int64_t conv_term_run(const conv_problem *p) {
  return p->channels_fast ? run(p->data_term, p->term_size[0])
                          : run(p->by_term[1] * p->data_plane[1], p->term_size[2]);
}

static void read_product(generation *g, conv_problem *p) {
  const compute_kernel_descriptor *d = g->descriptor;
  gemm_problem *product = &p->product;
  /* The strides only encode which neighbours are contiguous: terms, or positions (channels). */
  const bool along_data = conv_term_run(p) > conv_position_run(p);
  const bool along_weight = p->weight_channel != 1;
  const gemm_factor data = {
      .input = 0, .dtype = d->inputs[0].dtype, .outer = !along_data, .k = along_data};
  const gemm_factor weight = {
      .input = 1, .dtype = d->inputs[1].dtype, .outer = !along_weight, .k = along_weight};
  product->accumulate = d->accumulate;
  product->precision = compute_conv_of(d)->precision;
  product->sum_bytes = (uint32_t)compute_dtype_size(d->accumulate);
  product->a = p->position_columns ? weight : data;
  product->b = p->position_columns ? data : weight;
  product->m = p->position_columns ? p->channels : p->positions;
  product->n = p->position_columns ? p->positions : p->channels;
  product->k = p->terms;
}

bool conv_read(generation *g, conv_problem *p) {
  const compute_kernel_descriptor *d = g->descriptor;
  memset(p, 0, sizeof *p);
  for (int32_t i = 0; i < d->rank; i++)
    if (d->size[i] == 0) return false;
  switch (compute_conv_of(d)->direction) {
  case COMPUTE_CONVOLUTION_BY_DATA: read_by_data(d, p); break;
  case COMPUTE_CONVOLUTION_BY_FILTER: read_by_filter(d, p); break;
  default: read_forward(d, p); break;
  }
  p->positions = p->position_size[0] * p->position_size[1] * p->position_size[2];
  p->terms = p->term_size[0] * p->term_size[1] * p->term_size[2];
  p->channels_fast = emit_magnitude(p->data_term) == 1 && p->term_size[0] > 1 && !emit_for_cpu(g);
  emit_space space;
  read_space(g, p, &space, "data", "weight");
  split_space(&space, p);
  /* Columns are the neighbours in the result's memory. */
  const int64_t *out = space_walk(&p->tile, "out0")->stride;
  p->position_columns =
      emit_for_cpu(g) || p->channels == 1 || emit_magnitude(out[3]) > emit_magnitude(out[2]);
  read_product(g, p);
  return true;
}

/* ---- Plain products ------------------------------------------------------------------------ */

/* True if no position meets the edge of the data. */
static bool fits_inside(const conv_problem *p) {
  for (int i = 0; i < 2; i++) {
    const int64_t a = p->by_position[i] * (p->position_size[1 + i] - 1);
    const int64_t b = p->by_term[i] * (p->term_size[1 + i] - 1);
    const int64_t low = p->first[i] + (b < 0 ? b : 0);
    const int64_t high = p->first[i] + a + (b > 0 ? b : 0);
    if (low < 0 || high >= p->bound[i]) return false;
  }
  return true;
}

/* True if three digits with these strides merge into one; *merged is its stride. */
static bool merge(const int64_t *size, const int64_t *stride, int64_t *merged) {
  int64_t count = 1;
  *merged = 0;
  for (int i = 2; i >= 0; i--) {
    if (size[i] == 1) continue;
    if (count == 1) *merged = stride[i];
    if (stride[i] != *merged * count) return false;
    count *= size[i];
  }
  return true;
}

bool conv_read_product(generation *g, const conv_problem *p, gemm_problem *product) {
  const int64_t of_data[3] = {p->data_term, p->by_term[0] * p->data_plane[0],
                              p->by_term[1] * p->data_plane[1]};
  int64_t data_k, weight_k;
  if (p->phased || !fits_inside(p) || !merge(p->term_size, of_data, &data_k) ||
      !merge(p->term_size, p->weight_term, &weight_k))
    return false;
  emit_space space;
  read_space(g, p, &space, "a", "b");
  for (int i = 0; i < 2; i++) { /* a product has no offset of the first row and column */
    if (p->first[i] != 0) return false;
  }
  gemm_problem_make(g, product, &space, p->terms, data_k, weight_k);
  product->precision = compute_conv_of(g->descriptor)->precision;
  /* Rows and columns of positions that do not merge would be many small products. */
  return product->batches <= (int64_t)compute_conv_of(g->descriptor)->groups * p->position_size[0];
}

/* ---- Size of indices ----------------------------------------------------------------------- */

static double reach(const emit_space *space, uint32_t walk) {
  double offset = 0;
  for (int32_t d = 0; d < space->rank; d++)
    offset += (double)space->size[d] * (double)emit_magnitude(space->walk[walk].stride[d]);
  return offset;
}

/* The farthest row or column in any computation, inside the data or not. */
static double extent(const generation *g, const conv_problem *p, int i) {
  const compute_conv_attributes *c = compute_conv_of(g->descriptor);
  return (double)p->bound[i] + (double)p->position_size[1 + i] * (double)p->by_position[i] +
         (double)p->term_size[1 + i] * (double)emit_magnitude(p->by_term[i]) +
         (double)c->padding[i] + (double)c->filter_size[i] * (double)c->dilation[i] +
         (double)c->stride[i];
}

bool conv_problem_is_wide(const generation *g, const conv_problem *p) {
  enum { MARGIN = 512 };
  const double limit = INT32_MAX, positions = (double)p->positions + MARGIN,
               channels = (double)p->channels + MARGIN, terms = (double)p->terms + MARGIN,
               batches = (double)p->product.batches;
  double data = reach(&p->product.batch, WALK_DATA), weight = reach(&p->product.batch, WALK_WEIGHT);
  data += (double)p->position_size[0] * (double)emit_magnitude(p->data_position) +
          (double)p->term_size[0] * (double)emit_magnitude(p->data_term);
  weight += channels * (double)emit_magnitude(p->weight_channel);
  for (int i = 0; i < 2; i++) {
    const double rows = extent(g, p, i);
    if (rows > (double)(1 << 28)) return true;
    data += rows * (double)emit_magnitude(p->data_plane[i]);
  }
  for (int i = 0; i < POSITION_DIGITS; i++)
    weight += ((double)p->term_size[i] + 1) * (double)emit_magnitude(p->weight_term[i]);
  if (data > limit || weight > limit || batches * positions * channels > limit ||
      batches * channels * terms > limit || positions + terms > limit)
    return true;
  for (uint32_t i = 0; i < p->tile.walk_count; i++)
    if (reach(&p->tile, i) + reach(&p->product.batch, i + 2) > limit) return true;
  return false;
}

/* ---- Limits -------------------------------------------------------------------------------- */

bool conv_is_tiny(const conv_problem *p) {
  return (double)p->positions * (double)p->channels * (double)p->terms *
             (double)p->product.batches <=
         GEMM_TINY;
}

compute_status conv_check_group(generation *g) {
  if (g->tuning.group_x <= emit_group_limit(g)) return COMPUTE_OK;
  return emit_refuse(g, "groups of %u items are too large", (unsigned)g->tuning.group_x);
}

compute_status conv_check_parts(generation *g, const conv_problem *p) {
  const compute_tuning *t = &g->tuning;
  const double sums = (double)p->positions * (double)p->channels * (double)p->product.batches;
  if (t->groups > GEMM_SPLIT_LIMIT ||
      (t->groups > 1 && sums * t->groups * p->product.sum_bytes > CONV_WORKSPACE_LIMIT))
    return emit_refuse(g, "the sums cannot be cut into %u parts", (unsigned)t->groups);
  if (t->groups > 1 && p->phased)
    return emit_refuse(g, "the sums of a convolution's phases cannot be cut into parts");
  return COMPUTE_OK;
}
