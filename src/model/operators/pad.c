/* SPDX-License-Identifier: MIT */
/* Pad, CenterCropPad and Col2Im. */
#include "model/operators/pad.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/type/shape.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"

/* ---- Pad ------------------------------------------------------------------------------------- */

typedef struct padding {
  int64_t before[COMPUTE_MAX_RANK], after[COMPUTE_MAX_RANK];
} padding;

/* The axes that a list of numbers applies to: `given`, or all if it is NULL. */
static compute_status read_axes(model_call *call, const int64_t *given, size_t given_count,
                                int32_t *axes, size_t *count) {
  const int32_t rank = call_shape(call, 0).rank;
  if (given_count > COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu axes of %d", given_count, (int)rank);
  *count = given ? given_count : (size_t)rank;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < *count; i++)
    status = call_axis(call, given ? given[i] : (int64_t)i, rank, &axes[i]);
  return status;
}

static compute_status read_padding(model_call *call, padding *p) {
  size_t pad_count, given_count = 0, count = 0;
  int32_t axes[COMPUTE_MAX_RANK] = {0};
  const int64_t *given = NULL, *pads = call_attribute_ints(call, "pads", &pad_count);
  compute_status status = pads ? COMPUTE_OK : call_integers(call, 1, &pads, &pad_count);
  if (!status && call_has(call, 3)) status = call_integers(call, 3, &given, &given_count);
  if (!status) status = read_axes(call, given, given_count, axes, &count);
  if (status) return status;
  if (pad_count != 2 * count)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu pads for %zu axes", pad_count, count);
  for (size_t i = 0; i < count; i++) {
    p->before[axes[i]] = pads[i];
    p->after[axes[i]] = pads[i + count];
  }
  return COMPUTE_OK;
}

/* Crops an axis by negative pads. */
static compute_status crop(model_call *call, compute_node *x, int32_t axis, int64_t before,
                           int64_t after) {
  const int64_t size = shape_at(compute_node_shape(call->graph, *x), axis);
  if (before < -size || after < -size || before + after < -size)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "axis %d has %" PRId64 " elements only", (int)axis,
                     size);
  if (before < 0 || after < 0)
    *x = compute_slice(call->graph, *x, axis, -before, size + before + after, 1);
  return COMPUTE_OK;
}

/* The name of each compute_pad_mode. */
static const char *const mode_names[] = {"constant", "edge", "reflect", "wrap"};

static compute_status read_mode(model_call *call, compute_pad_mode *mode) {
  const char *name = call_attribute_s(call, "mode", "constant");
  int found = COMPUTE_PAD_CONSTANT;
  while (found <= COMPUTE_PAD_WRAP && strcmp(mode_names[found], name) != 0) found++;
  *mode = (compute_pad_mode)found;
  return found <= COMPUTE_PAD_WRAP ? COMPUTE_OK
                                   : call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "mode '%s'", name);
}

/* Pads with a value that is not known before the run. A padded mask of ones marks the elements of
 * x. */
static compute_node fill_around(model_call *call, compute_node x, const padding *p,
                                compute_node value) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, x);
  compute_node inside = compute_full(graph, COMPUTE_BOOL, shape, 1);
  for (int32_t i = 0; i < shape.rank; i++) {
    const int64_t before = p->before[i] > 0 ? p->before[i] : 0;
    const int64_t after = p->after[i] > 0 ? p->after[i] : 0;
    if (before == 0 && after == 0) continue;
    x = compute_pad(graph, x, i, before, after, COMPUTE_PAD_CONSTANT, 0);
    inside = compute_pad(graph, inside, i, before, after, COMPUTE_PAD_CONSTANT, 0);
  }
  return compute_select(graph, inside, x, compute_reshape(graph, value, COMPUTE_SCALAR));
}

/* Pads with a known value, axis by axis. */
static compute_node fill_with(model_call *call, compute_node x, const padding *p, double value) {
  const int32_t rank = compute_node_shape(call->graph, x).rank;
  for (int32_t i = 0; i < rank; i++) {
    const int64_t before = p->before[i] > 0 ? p->before[i] : 0;
    const int64_t after = p->after[i] > 0 ? p->after[i] : 0;
    if (before || after)
      x = compute_pad(call->graph, x, i, before, after, COMPUTE_PAD_CONSTANT, value);
  }
  return x;
}

/* Returns true if the fill value is known and a double represents it exactly. */
static bool known_value(model_call *call, double *value) {
  *value = call_attribute_f(call, "value", 0);
  if (!call_has(call, 2)) return true;
  if (call->inputs[2]->kind != VALUE_TENSOR || !call->inputs[2]->host) return false;
  return call_number(call, 2, value) == COMPUTE_OK && (fabs(*value) < 0x1p53 || isinf(*value));
}

/* The element of an axis that is repeated at a position before, in or after it. */
static int64_t repeated_place(compute_pad_mode mode, int64_t position, int64_t size) {
  if (mode == COMPUTE_PAD_EDGE) return position < 0 ? 0 : position < size ? position : size - 1;
  const int64_t period = mode == COMPUTE_PAD_WRAP ? size : size > 1 ? 2 * (size - 1) : 1;
  const int64_t at = (position % period + period) % period;
  return at < size ? at : period - at;
}

/* The first padded axis, if one selection of elements for all padded axes pays: its indices are few,
 * serve many rows and take little memory beside elements of `bytes`. Otherwise the rank. */
static int32_t first_joined(compute_shape shape, size_t bytes, const padding *p, int64_t *rows,
                            int64_t *count) {
  enum {
    LEAST_ROWS = 8,
    MOST_INDICES = 1 << 16,
    INDICES_PER_ROW = 16 /* for elements of a byte */
  };
  int32_t first = shape.rank, padded = 0;
  *rows = *count = 1;
  for (int32_t d = 0; d < shape.rank; d++) {
    const int64_t size = shape_at(shape, d);
    const bool pads = p->before[d] > 0 || p->after[d] > 0;
    padded += pads;
    if (pads && padded == 1) first = d;
    if (padded == 0) *rows *= size; /* the builders have checked the shape */
    if (padded == 0) continue;
    if (size < 1 || size > MOST_INDICES || p->before[d] > MOST_INDICES ||
        p->after[d] > MOST_INDICES)
      return shape.rank;
    const int64_t before = p->before[d] > 0 ? p->before[d] : 0;
    *count *= size + before + (p->after[d] > 0 ? p->after[d] : 0);
    if (*count > MOST_INDICES) return shape.rank;
  }
  const bool pays = *rows >= LEAST_ROWS && *count / INDICES_PER_ROW / (int64_t)bytes <= *rows;
  return padded > 1 && pays ? first : shape.rank;
}

/* Repeats elements along all padded axes, from `first` on, by one selection. */
static compute_status repeat_joined(model_call *call, compute_node *x, const padding *p,
                                    compute_pad_mode mode, int32_t first, int64_t rows,
                                    int64_t count) {
  compute_graph *graph = call->graph;
  const compute_shape shape = compute_node_shape(graph, *x);
  compute_shape padded = shape;
  int64_t source = 1, pace = count;
  int32_t *places = call_allocate(call, (size_t)count, sizeof *places);
  if (!places) return call_out_of_memory(call);
  for (int32_t d = first; d < shape.rank; d++) {
    const int64_t size = shape_at(shape, d), before = p->before[d] > 0 ? p->before[d] : 0;
    const int64_t all = size + before + (p->after[d] > 0 ? p->after[d] : 0);
    pace /= all; /* indices from one position of this axis to the next */
    for (int64_t i = 0; i < count; i++)
      places[i] = (int32_t)(places[i] * size + repeated_place(mode, i / pace % all - before, size));
    source *= size;
    shape_set(&padded, d, all);
  }
  const compute_node at = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(count), places);
  *x = compute_gather(graph, compute_reshape(graph, *x, COMPUTE_SHAPE(rows, source)), at, 1);
  *x = compute_reshape(graph, *x, padded);
  return COMPUTE_OK;
}

/* Pads with repeated elements. */
static compute_status repeat(model_call *call, compute_node *x, const padding *p,
                             compute_pad_mode mode) {
  int64_t rows, count;
  const compute_shape shape = compute_node_shape(call->graph, *x);
  const size_t bytes = compute_dtype_size(compute_node_dtype(call->graph, *x));
  const int32_t first = first_joined(shape, bytes, p, &rows, &count);
  if (first < shape.rank) return repeat_joined(call, x, p, mode, first, rows, count);
  for (int32_t i = 0; i < shape.rank; i++) {
    const int64_t before = p->before[i] > 0 ? p->before[i] : 0;
    const int64_t after = p->after[i] > 0 ? p->after[i] : 0;
    if (before || after) *x = compute_pad(call->graph, *x, i, before, after, mode, 0);
  }
  return COMPUTE_OK;
}

compute_status pad_rule(model_call *call) {
  compute_pad_mode mode;
  const int32_t rank = call_shape(call, 0).rank;
  padding p = {{0}, {0}};
  compute_status status = read_mode(call, &mode);
  if (!status) status = read_padding(call, &p);
  compute_node x = call_input(call, 0);
  for (int32_t i = 0; !status && i < rank; i++)
    status = crop(call, &x, i, p.before[i] < 0 ? p.before[i] : 0, p.after[i] < 0 ? p.after[i] : 0);
  if (!status && mode != COMPUTE_PAD_CONSTANT) status = repeat(call, &x, &p, mode);
  if (status) return status;
  double value;
  if (mode == COMPUTE_PAD_CONSTANT)
    x = known_value(call, &value) ? fill_with(call, x, &p, value)
                                  : fill_around(call, x, &p, call_input(call, 2));
  return call_output_as(call, 0, call_type(call, 0), x);
}

/* ---- CenterCropPad --------------------------------------------------------------------------- */

compute_status center_crop_pad_rule(model_call *call) {
  size_t size_count, given_count, count = 0;
  int32_t axes[COMPUTE_MAX_RANK] = {0};
  const int64_t *given = call_attribute_ints(call, "axes", &given_count), *sizes;
  compute_status status = call_integers(call, 1, &sizes, &size_count);
  if (!status) status = read_axes(call, given, given_count, axes, &count);
  if (status) return status;
  if (size_count != count)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu sizes for %zu axes", size_count, count);
  compute_node x = call_input(call, 0);
  for (size_t i = 0; i < count; i++) {
    const int64_t size = shape_at(compute_node_shape(call->graph, x), axes[i]);
    if (sizes[i] < 0) return call_fail(call, COMPUTE_ERROR_SHAPE, "size %" PRId64, sizes[i]);
    const int64_t less = size > sizes[i] ? size - sizes[i] : 0;
    const int64_t more = size < sizes[i] ? sizes[i] - size : 0;
    if (less) x = compute_slice(call->graph, x, axes[i], less / 2, sizes[i], 1);
    if (more)
      x = compute_pad(call->graph, x, axes[i], more / 2, more - more / 2, COMPUTE_PAD_CONSTANT, 0);
  }
  return call_output_as(call, 0, call_type(call, 0), x);
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

/* One axis of an image with its padding, and the blocks along it. */
typedef struct block_axis {
  int64_t size, before, padded, block, stride, dilation, places; /* places: number of blocks */
} block_axis;

static compute_status read_block_axis(model_call *call, block_axis *axis, int64_t before,
                                      int64_t after) {
  int64_t reach;
  const bool good =
      axis->size >= 0 && axis->block > 0 && axis->stride > 0 && axis->dilation > 0 && before >= 0 &&
      after >= 0 && !__builtin_add_overflow(axis->size, before, &axis->padded) &&
      !__builtin_add_overflow(axis->padded, after, &axis->padded) &&
      !__builtin_mul_overflow(axis->dilation, axis->block - 1, &reach) && reach < axis->padded;
  if (!good) return call_fail(call, COMPUTE_ERROR_SHAPE, "its blocks do not fit into the image");
  axis->before = before;
  axis->places = (axis->padded - reach - 1) / axis->stride + 1;
  return COMPUTE_OK;
}

static compute_status read_block_axes(model_call *call, block_axis *axes, int32_t *count) {
  size_t sizes, blocks, strides, dilations, pads;
  const int64_t *size, *block;
  compute_status status = call_integers(call, 1, &size, &sizes);
  if (!status) status = call_integers(call, 2, &block, &blocks);
  if (status) return status;
  const int64_t *stride = call_attribute_ints(call, "strides", &strides);
  const int64_t *dilation = call_attribute_ints(call, "dilations", &dilations);
  const int64_t *pad = call_attribute_ints(call, "pads", &pads);
  if (sizes > COMPUTE_MAX_RANK - 2 || blocks != sizes || (stride && strides != sizes) ||
      (dilation && dilations != sizes) || (pad && pads != 2 * sizes))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its attributes do not match an image of %zu axes",
                     sizes);
  *count = (int32_t)sizes;
  for (size_t i = 0; !status && i < sizes; i++) {
    axes[i] = (block_axis){.size = size[i],
                           .block = block[i],
                           .stride = stride ? stride[i] : 1,
                           .dilation = dilation ? dilation[i] : 1};
    status = read_block_axis(call, &axes[i], pad ? pad[i] : 0, pad ? pad[i + sizes] : 0);
  }
  return status;
}

/* The index of each element of each block in the flattened padded image: a node
 * [block elements, places]. */
static compute_node block_positions(model_call *call, const block_axis *axes, int32_t count) {
  compute_graph *graph = call->graph;
  compute_node at = number_i64(call, 0);
  for (int32_t i = 0; i < count; i++) {
    const compute_shape own = COMPUTE_SHAPE(axes[i].block, axes[i].places);
    const compute_node block = compute_mul(graph, compute_index(graph, COMPUTE_I64, own, 0),
                                           number_i64(call, axes[i].dilation));
    const compute_node place = compute_mul(graph, compute_index(graph, COMPUTE_I64, own, 1),
                                           number_i64(call, axes[i].stride));
    /* [blocks so far, places so far] · padded + [block, place] */
    const compute_shape old = compute_node_shape(graph, at);
    const int64_t blocks = i ? shape_at(old, 0) : 1, places = i ? shape_at(old, 1) : 1;
    at = compute_mul(graph, at, number_i64(call, axes[i].padded));
    at = compute_add(graph, compute_reshape(graph, at, COMPUTE_SHAPE(blocks, 1, places, 1)),
                     compute_reshape(graph, compute_add(graph, block, place),
                                     COMPUTE_SHAPE(1, axes[i].block, 1, axes[i].places)));
    at = compute_reshape(graph, at, COMPUTE_SHAPE(blocks * axes[i].block, places * axes[i].places));
  }
  return at;
}

compute_status column_to_image_rule(model_call *call) {
  compute_graph *graph = call->graph;
  block_axis axes[COMPUTE_MAX_RANK];
  int32_t count = 0;
  int64_t elements;
  const compute_shape shape = call_shape(call, 0);
  const compute_status status = read_block_axes(call, axes, &count);
  if (status) return status;
  compute_shape image = {.rank = 2 + count, .size = {1, 1}};
  for (int32_t i = 0; i < count; i++) shape_set(&image, 2 + i, axes[i].padded);
  if (compute_shape_count(image, &elements) || elements == 0) /* also bounds the blocks */
    return call_fail(call, COMPUTE_ERROR_OVERFLOW, "its image is too large");
  compute_node at = block_positions(call, axes, count);
  const compute_shape blocks = compute_node_shape(graph, at);
  if (shape.rank != 3 || blocks.rank != 2 || shape_at(shape, 1) % shape_at(blocks, 0) != 0 ||
      shape_at(shape, 2) != shape_at(blocks, 1))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its input is not of such blocks");
  shape_set(&image, 0, shape_at(shape, 0));
  shape_set(&image, 1, shape_at(shape, 1) / shape_at(blocks, 0));
  compute_node x = compute_reshape(graph, call_input(call, 0),
                                   COMPUTE_SHAPE(shape_at(image, 0), shape_at(image, 1),
                                                 shape_at(blocks, 0), shape_at(blocks, 1)));
  if (elements <= INT32_MAX) at = compute_cast(graph, at, COMPUTE_I32); /* half the bytes */
  x = compute_reshape(graph, compute_scatter_add(graph, x, at, 2, elements), image);
  for (int32_t i = 0; i < count; i++)
    x = compute_slice(graph, x, 2 + i, axes[i].before, axes[i].size, 1);
  return call_output(call, 0, x);
}
