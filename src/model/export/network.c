/* SPDX-License-Identifier: MIT */
/* Convolution, pooling, attention, recurrent layers. */
#include <math.h>

#include "core/type/shape.h"
#include "model/export/export.h"

/* ---- Convolution ----------------------------------------------------------------------------- */

static int64_t at_least_0(int64_t value) {
  return value > 0 ? value : 0;
}

/* The extent of all windows in rows (i = 0) or columns: from the first element of the first
 * window to the last element of the last. */
static int64_t reach(const compute_conv_attributes *c, int i) {
  return (c->result_size[i] - 1) * c->stride[i] + (c->filter_size[i] - 1) * c->dilation[i] + 1;
}

static void set_convolution(exporter *to, const compute_conv_attributes *c, const int64_t end[2]) {
  const int64_t pads[] = {c->padding[0], c->padding[1], end[0], end[1]};
  export_set_integers(to, "kernel_shape", c->filter_size, 2);
  export_set_integers(to, "strides", c->stride, 2);
  export_set_integers(to, "dilations", c->dilation, 2);
  export_set_integers(to, "pads", pads, 4);
  export_set_integer(to, "group", c->groups);
}

/* The first `size` rows and columns of an image. */
static export_value cropped(exporter *to, export_value x, const int64_t size[2]) {
  const int64_t axes[] = {2, 3}, none[] = {0, 0};
  return EMIT(to, "Slice", x, export_list(to, none, 2), export_list(to, size, 2),
              export_list(to, axes, 2));
}

static export_value convolution(exporter *to, const char *type, const export_call *call) {
  const export_value inputs[] = {call->inputs[0], call->inputs[1], call->bias};
  return export_emit(to, type, inputs, call->bias ? 3 : 2);
}

export_value export_conv(exporter *to, const export_call *call) {
  const compute_conv_attributes *c = call->node->constant;
  int64_t end[2];
  bool more = false; /* the gradient of a transposed convolution may omit results */
  for (int i = 0; i < 2; i++) {
    const int64_t left = reach(c, i) - c->padding[i] - c->data_size[i];
    end[i] = at_least_0(left);
    more |= -left >= c->stride[i];
  }
  set_convolution(to, c, end);
  const char *type = call->node->op == OP_conv2d_integer ? "ConvInteger" : "Conv";
  const export_value y = convolution(to, type, call);
  return more ? cropped(to, y, c->result_size) : y;
}

/* Finds the rows and columns where the windows of a transposed convolution extend beyond the
 * result (`end`), and those that no window reaches (`more`). Returns true if `more` exceeds the
 * limit of output padding. */
static bool find_ends(const compute_conv_attributes *c, int64_t end[2], int64_t more[2]) {
  bool large = false;
  for (int i = 0; i < 2; i++) {
    const int64_t left = reach(c, i) - c->padding[i] - c->data_size[i];
    end[i] = at_least_0(left);
    more[i] = at_least_0(-left);
    large |= more[i] >= c->stride[i] && more[i] > 0;
  }
  return large;
}

bool export_takes_bias(const graph_node *node) {
  int64_t end[2], more[2];
  return node->op == OP_conv2d ||
         (node->op == OP_conv2d_by_data && !find_ends(node->constant, end, more));
}

/* Rows and columns that no window reaches become output padding if they are fewer than the
 * stride, which is the limit of ONNX Runtime. Otherwise zeros are appended. */
export_value export_conv_transpose(exporter *to, const export_call *call) {
  const compute_conv_attributes *c = call->node->constant;
  int64_t end[2], more[2];
  const bool large = find_ends(c, end, more);
  set_convolution(to, c, end);
  if (!large) export_set_integers(to, "output_padding", more, 2);
  const export_value y = convolution(to, "ConvTranspose", call);
  if (!large) return y;
  const int64_t pads[] = {0, 0, 0, 0, 0, 0, more[0], more[1]};
  return EMIT(to, "Pad", y, export_list(to, pads, 8), export_number(to, call->dtype, 0));
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Element (row, column) of each window of a padded image. */
static export_value of_windows(exporter *to, export_value padded,
                               const compute_window_attributes *w, int64_t row, int64_t column) {
  const int64_t place[] = {row, column}, axes[] = {2, 3};
  int64_t start[2], end[2];
  for (int i = 0; i < 2; i++) {
    start[i] = place[i] * w->dilation[i];
    end[i] = start[i] + (w->result_size[i] - 1) * w->stride[i] + 1;
  }
  return EMIT(to, "Slice", padded, export_list(to, start, 2), export_list(to, end, 2),
              export_list(to, axes, 2), export_list(to, w->stride, 2));
}

/* Maximum or argmax for dtypes that MaxPool lacks and that no other dtype represents. Goes
 * through the windows' elements one by one. */
static export_value pool_long_integers(exporter *to, const export_call *call) {
  const compute_window_attributes *w = call->node->constant;
  const compute_shape shape = export_operand(to, call, 0)->shape;
  int64_t pads[] = {0, 0, w->padding[0], w->padding[1], 0, 0, 0, 0};
  for (int i = 0; i < 2; i++) {
    const int64_t last = (w->result_size[i] - 1) * w->stride[i] - w->padding[i];
    pads[6 + i] = at_least_0(last + (w->size[i] - 1) * w->dilation[i] + 1 - shape_at(shape, 2 + i));
  }
  const export_value around = export_list(to, pads, 8), none = export_number(to, COMPUTE_I64, -1);
  const export_value x =
      EMIT(to, "Pad", call->inputs[0], around, export_number(to, call->dtype, (double)INT64_MIN));
  export_value largest = of_windows(to, x, w, 0, 0);
  if (w->operation == COMPUTE_WINDOW_MAX) {
    for (int64_t k = 1; k < w->size[0] * w->size[1]; k++)
      largest = EMIT(to, "Max", largest, of_windows(to, x, w, k / w->size[1], k % w->size[1]));
    return largest;
  }
  const export_value positions = export_reshape(to, export_count(to, shape_count(shape)), shape);
  const export_value at = EMIT(to, "Pad", positions, around, none);
  export_value place = of_windows(to, at, w, 0, 0);
  for (int64_t k = 1; k < w->size[0] * w->size[1]; k++) {
    const export_value next = of_windows(to, x, w, k / w->size[1], k % w->size[1]);
    const export_value there = of_windows(to, at, w, k / w->size[1], k % w->size[1]);
    const export_value larger =
        EMIT(to, "Or", EMIT(to, "Greater", next, largest), EMIT(to, "Equal", place, none));
    largest = EMIT(to, "Where", larger, next, largest);
    place = EMIT(to, "Where", larger, there, place);
  }
  return place;
}

/* Windows of an average that counts its padding may extend beyond the padding, where elements do
 * not count. Then the padding becomes part of the data. */
export_value export_pool(exporter *to, const export_call *call) {
  if (!(call->form->dtypes >> call->dtype & 1)) return pool_long_integers(to, call);
  const compute_window_attributes *w = call->node->constant;
  const int64_t *p = w->padding;
  int64_t pads[] = {p[0], p[1], 0, 0};
  bool beyond = false;
  for (int i = 0; i < 2; i++) {
    const int64_t last = (w->result_size[i] - 1) * w->stride[i] - p[i];
    pads[2 + i] = at_least_0(last + (w->size[i] - 1) * w->dilation[i] + 1 - w->data_size[i]);
    beyond |= w->count_padding && pads[2 + i] > p[i] + w->padding_more[i];
  }
  export_value x = call->inputs[0];
  if (beyond) {
    const int64_t behind[] = {p[0] + w->padding_more[0], p[1] + w->padding_more[1]};
    const int64_t around[] = {0, 0, p[0], p[1], 0, 0, behind[0], behind[1]};
    x = EMIT(to, "Pad", x, export_list(to, around, 8), export_number(to, call->dtype, 0));
    for (int i = 0; i < 2; i++) {
      pads[i] = 0;
      pads[2 + i] = at_least_0(pads[2 + i] - behind[i]);
    }
  }
  export_set_integers(to, "kernel_shape", w->size, 2);
  export_set_integers(to, "strides", w->stride, 2);
  export_set_integers(to, "dilations", w->dilation, 2);
  export_set_integers(to, "pads", pads, 4);
  const bool average = w->operation == COMPUTE_WINDOW_AVERAGE;
  if (average) export_set_integer(to, "count_include_pad", w->count_padding && !beyond);
  const export_value y = EMIT(to, average ? "AveragePool" : "MaxPool", x);
  return w->operation == COMPUTE_WINDOW_ARGMAX ? export_next_output(to) : y;
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* [queries, keys]: true if a query may attend to a key. */
static export_value causal_mask(exporter *to, int64_t queries, int64_t keys) {
  const export_value rows = EMIT(to, "Add", export_count(to, queries),
                                 export_number(to, COMPUTE_I64, (double)(keys - queries)));
  const export_value column = export_reshape(to, rows, COMPUTE_SHAPE(queries, 1));
  return EMIT(to, "LessOrEqual", export_count(to, keys), column);
}

/* A query that attends to no key gives 0. All its scores are −infinity, and their softmax would
 * be NaN, from a difference of infinities. */
static export_value probabilities(exporter *to, const export_call *call, export_value scores) {
  const export_value least = export_number(to, call->dtype, -INFINITY);
  export_set_integer(to, "axis", -1);
  const export_value usual = EMIT(to, "Softmax", scores);
  const export_value largest = EMIT(to, "ReduceMax", scores, export_integer(to, -1));
  const export_value none = EMIT(to, "Equal", largest, least);
  return EMIT(to, "Where", none, export_number(to, call->dtype, 0), usual);
}

export_value export_attention(exporter *to, const export_call *call) {
  const compute_attention_attributes *a = call->node->constant;
  const int32_t rank = export_operand(to, call, 1)->shape.rank;
  const compute_shape shape = call->node->shape;
  int32_t order[COMPUTE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) order[i] = i;
  order[rank - 2] = rank - 1;
  order[rank - 1] = rank - 2;
  const export_value keys = export_permute(to, call->inputs[1], order, rank);
  const export_value scale = export_number(to, call->dtype, a->scale);
  export_value scores = EMIT(to, "MatMul", EMIT(to, "Mul", call->inputs[0], scale), keys);
  if (a->biased) scores = EMIT(to, "Add", scores, call->inputs[3]);
  if (a->causal) {
    const export_value mask = causal_mask(to, shape_at(shape, shape.rank - 2), a->keys);
    scores = EMIT(to, "Where", mask, scores, export_number(to, call->dtype, -INFINITY));
  }
  if (a->formula ? a->zero_weights : a->causal || a->biased)
    return EMIT(to, "MatMul", probabilities(to, call, scores), call->inputs[2]);
  export_set_integer(to, "axis", -1);
  return EMIT(to, "MatMul", EMIT(to, "Softmax", scores), call->inputs[2]);
}

/* ---- Recurrent layers ------------------------------------------------------------------------ */

/* Takes the next optional input, in the order of compute/backend/kernel_descriptor.h. */
static export_value next_input(const export_call *call, bool there, uint32_t *next) {
  return there ? call->inputs[(*next)++] : 0;
}

/* The inputs are already projected, so W is the identity. */
static export_value identity(exporter *to, compute_dtype dtype, int64_t size) {
  const export_value zeros = export_zeros(to, dtype, COMPUTE_SHAPE(size, size));
  return export_reshape(to, EMIT(to, "EyeLike", zeros), COMPUTE_SHAPE(1, size, size));
}

/* ONNX's B, [1, 2 · gates · hidden]: 0 except for the recurrent bias of the last gate. */
static export_value bias_of(exporter *to, compute_dtype dtype, export_value bias, int64_t columns,
                            int64_t hidden) {
  if (!bias) return 0;
  const export_value zeros = export_zeros(to, dtype, COMPUTE_SHAPE(2 * columns - hidden));
  export_set_integer(to, "axis", 0);
  return export_reshape(to, EMIT(to, "Concat", zeros, bias), COMPUTE_SHAPE(1, 2 * columns));
}

/* Adds a leading dimension of 1. */
static export_value in_front(exporter *to, export_value x, int64_t rows, int64_t columns) {
  return x ? export_reshape(to, x, COMPUTE_SHAPE(1, rows, columns)) : 0;
}

/* ONNX returns h of all steps and the last states as separate outputs; the graph's node has them
 * in one tensor. */
export_value export_recurrent(exporter *to, const export_call *call) {
  static const char *const types[] = {"RNN", "GRU", "LSTM"};
  static const int32_t turned[2] = {1, 0};
  const compute_recurrent_attributes *a = call->node->constant;
  const bool lstm = a->cell == COMPUTE_RECURRENT_LSTM;
  const int64_t steps = shape_at(export_operand(to, call, 0)->shape, 0);
  const int64_t batch = shape_at(call->node->shape, 1), hidden = shape_at(call->node->shape, 2);
  const int64_t columns = hidden * compute_recurrent_gates(a->cell);
  uint32_t next = 2;
  const export_value r =
      in_front(to, export_permute(to, call->inputs[1], turned, 2), columns, hidden);
  const export_value h = in_front(to, next_input(call, true, &next), batch, hidden);
  const export_value c = in_front(to, next_input(call, lstm, &next), batch, hidden);
  const export_value lengths = next_input(call, a->lengths, &next);
  const export_value bias =
      bias_of(to, call->dtype, next_input(call, a->bias, &next), columns, hidden);
  const export_value peepholes = next_input(call, a->peepholes, &next);
  const export_value p =
      peepholes ? export_reshape(to, peepholes, COMPUTE_SHAPE(1, 3 * hidden)) : 0;
  const export_value inputs[8] = {
      call->inputs[0], identity(to, call->dtype, columns), r, bias, lengths, h, c, p};
  export_set_integer(to, "hidden_size", hidden);
  export_set_text(to, "direction", a->reverse ? "reverse" : "forward");
  if (a->clip > 0) export_set_number(to, "clip", a->clip);
  if (a->reset_after) export_set_integer(to, "linear_before_reset", 1);
  const export_value y = export_emit(to, types[a->cell], inputs, lstm ? (p ? 8 : 7) : 6);
  const export_value last_h = export_next_output(to), last_c = lstm ? export_next_output(to) : 0;
  const export_value rows = export_reshape(to, y, COMPUTE_SHAPE(steps, batch, hidden));
  export_set_integer(to, "axis", 0);
  return lstm ? EMIT(to, "Concat", rows, last_h, last_c) : EMIT(to, "Concat", rows, last_h);
}
