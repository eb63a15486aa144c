/* SPDX-License-Identifier: MIT */
/* COMPUTE_QUANTIZE_WEIGHTS: products become MatMulNBits, weights of convolutions i8. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/type/shape.h"
#include "quantize/quantizer.h"

/* Moments of at most this many rows, and of products with at most this many bytes in one pass over
 * the samples. */
enum { MOST_ROWS = 4096 };
#define MOST_MOMENT_BYTES (UINT64_C(512) << 20)

/* The weights of a product, [rows, columns] before they are packed. */
typedef struct product {
  size_t node;
  int32_t value; /* the weights */
  const onnx_tensor *tensor;
  bool turned; /* stored as [columns, rows] */
  int64_t rows, columns;
  double *moments;            /* or NULL */
  size_t place;               /* of its first input in the outputs of a run */
  const struct product *same; /* an earlier product with this tensor, or NULL */
  const char *bytes, *scales;
} product;

/* ---- Choosing -------------------------------------------------------------------------------- */

/* The reason why a product keeps f32, or NULL. */
static const char *product_refusal(const quantizer *q, size_t i, product *made) {
  const onnx_node *node = &q->e.graph->nodes[i];
  const char *reason = choose_refusal(q, node);
  const onnx_tensor *tensor = edit_initializer(&q->e, node, 1);
  const bool gemm = choose_is(node, "Gemm");
  if (!reason && gemm && !choose_plain_gemm(node)) reason = "alpha, beta or transA is set";
  if (!reason) reason = choose_weights(tensor);
  if (!reason && tensor->rank != 2) reason = "its weights are not a matrix";
  if (!reason && (edit_input(node, 0) < 0 || edit_initializer(&q->e, node, 0)))
    reason = "its first input is constant";
  if (reason) return reason;
  if (gemm && node->input_count > 2 && node->inputs[2].index >= 0) {
    const onnx_tensor *bias = edit_initializer(&q->e, node, 2);
    const bool turned = choose_integer(node, "transB", 0) != 0;
    if (!bias || bias->rank != 1 || bias->count != shape_at(tensor->shape, turned ? 0 : 1))
      return "its bias is not a vector of the file";
  }
  *made = (product){.node = i, .value = edit_input(node, 1), .tensor = tensor};
  made->turned = gemm && choose_integer(node, "transB", 0) != 0;
  made->rows = shape_at(tensor->shape, made->turned ? 1 : 0);
  made->columns = shape_at(tensor->shape, made->turned ? 0 : 1);
  return NULL;
}

static bool is_product(const onnx_node *node) {
  return (choose_is(node, "MatMul") || choose_is(node, "Gemm")) && node->input_count >= 2 &&
         node->output_count == 1 && node->outputs[0] >= 0;
}

static bool is_convolution(const onnx_node *node) {
  return (choose_is(node, "Conv") || choose_is(node, "ConvTranspose")) && node->input_count >= 2 &&
         node->output_count == 1 && node->outputs[0] >= 0;
}

/* ---- Moments --------------------------------------------------------------------------------- */

/* Adds x xᵀ for each row x of a product's first input. */
static void add_moments(product *p, const float *x, int64_t count) {
  const int64_t n = p->rows;
  for (int64_t r = 0; r + n <= count; r += n)
    for (int64_t i = 0; i < n; i++) {
      const double own = (double)x[r + i];
      if (own == 0) continue;
      for (int64_t k = 0; k < n; k++) p->moments[i * n + k] += own * (double)x[r + k];
    }
}

static compute_status moments_run(product *list, size_t count, const sampled *s) {
  for (size_t i = 0; i < count; i++) {
    if (!list[i].moments) continue;
    const size_t k = list[i].place;
    compute_status status;
    const compute_shape shape = compute_tensor_shape(s->outputs[k].tensor);
    float *x = sample_floats(s->outputs[k].tensor, &status);
    if (status) return status;
    if (shape.rank > 0 && shape_at(shape, shape.rank - 1) == list[i].rows)
      add_moments(&list[i], x, compute_tensor_count(s->outputs[k].tensor));
    base_release(x);
  }
  return COMPUTE_OK;
}

/* Computes the moments of the products that have memory for them. */
static compute_status find_moments(quantizer *q, product *list, size_t count) {
  edit *e = &q->e;
  int32_t *values = arena_allocate(&e->memory, count, sizeof *values);
  compute_model_binding *inputs = sample_inputs(q);
  size_t value_count = 0;
  sampled s = {0};
  bool more = true;
  if (!values || !inputs) return edit_out_of_memory(e);
  for (size_t i = 0; i < count; i++) {
    const int32_t value = edit_input(&e->graph->nodes[list[i].node], 0);
    size_t k = 0;
    while (k < value_count && values[k] != value) k++;
    if (list[i].moments && k == value_count) values[value_count++] = value;
    list[i].place = k;
  }
  compute_status status = sampled_open(q, &e->source, values, value_count, &s);
  for (size_t i = 0; !status && more; i++) {
    status = sample_next(q, i, inputs, &more);
    if (status || !more) break;
    status = sampled_run(&s, inputs, q->input_count);
    if (!status) status = moments_run(list, count, &s);
    sampled_clear(&s);
  }
  sampled_close(&s);
  return status;
}

/* ---- Packing --------------------------------------------------------------------------------- */

/* Rounds the blocks of each column. */
static void round_nearest(const quantizer *q, const product *p, const float *w, int32_t limit,
                          int8_t *values, float *scales) {
  const int64_t block = q->o.block;
  for (int64_t i = 0; i < p->rows; i += block)
    for (int64_t c = 0; c < p->columns; c++) {
      const int64_t count = i + block < p->rows ? block : p->rows - i;
      const float scale =
          round_block_scale(w + i * p->columns + c, count, p->columns, limit, q->o.rounding);
      scales[i / block * p->columns + c] = scale;
      for (int64_t k = i; k < i + count; k++)
        values[k * p->columns + c] =
            (int8_t)round_to(w[k * p->columns + c], scale, -limit - 1, limit);
    }
}

/* Writes the integers as MatMulNBits stores them: a row for each column, its blocks in order. */
static void put_packed(quantizer *q, product *p, const int8_t *values, const float *scales) {
  edit *e = &q->e;
  const int64_t block = q->o.block, blocks = (p->rows + block - 1) / block;
  const int32_t bits = q->o.bits, middle = 1 << (bits - 1);
  const int64_t row_bytes = blocks * block * bits / 8;
  uint8_t *packed = base_allocate((uint64_t)p->columns, (uint64_t)row_bytes);
  float *turned = base_allocate((uint64_t)p->columns, (uint64_t)blocks * sizeof *turned);
  if (!packed || !turned) e->failed = true;
  for (int64_t c = 0; !e->failed && c < p->columns; c++) {
    for (int64_t k = 0; k < blocks * block; k++) {
      const int number = middle + (k < p->rows ? values[k * p->columns + c] : 0);
      packed[c * row_bytes + k * bits / 8] |= (uint8_t)(number << (k * bits % 8));
    }
    for (int64_t b = 0; b < blocks; b++) turned[c * blocks + b] = scales[b * p->columns + c];
  }
  if (!e->failed) {
    const char *stem = edit_name(e, edit_value_name(e, p->value), p->turned ? "rows" : "columns");
    p->bytes = edit_name(e, stem, "bytes");
    p->scales = edit_name(e, stem, "scales");
    edit_put_tensor(e, p->bytes, ONNX_UINT8, COMPUTE_SHAPE(p->columns, blocks, block * bits / 8),
                    packed, (uint64_t)p->columns * (uint64_t)row_bytes);
    edit_put_tensor(e, p->scales, ONNX_FLOAT, COMPUTE_SHAPE(p->columns * blocks), turned,
                    (uint64_t)(p->columns * blocks) * sizeof *turned);
  }
  base_release(packed);
  base_release(turned);
}

static void put_node(quantizer *q, const product *p) {
  edit *e = &q->e;
  const onnx_node *node = &e->graph->nodes[p->node];
  const bool bias = node->input_count > 2 && node->inputs[2].index >= 0;
  const edit_attribute attributes[] = {
      {"K", p->rows}, {"N", p->columns}, {"bits", q->o.bits}, {"block_size", q->o.block}, {0}};
  const char *const product_inputs[] = {node->input_names[0], p->bytes, p->scales, NULL};
  const char *out = node->output_names[0];
  const char *sum = bias ? edit_name(e, out, "product") : out;
  edit_put_node(e, &e->nodes[p->node].before, "com.microsoft", "MatMulNBits", product_inputs, sum,
                attributes);
  if (bias)
    edit_put_node(e, &e->nodes[p->node].before, "", "Add",
                  (const char *const[]){sum, node->input_names[2], NULL}, out, NULL);
  e->values[edit_input(node, 0)].kept++;
  if (bias) e->values[edit_input(node, 2)].kept++;
  e->nodes[p->node].replaced = true;
  q->quantized[p->node] = true;
}

/* The weights as [rows, columns]. */
static float *arrange(edit *e, const product *p) {
  float *w = base_allocate((uint64_t)p->tensor->count, sizeof *w);
  if (!w) {
    e->failed = true;
    return NULL;
  }
  for (int64_t i = 0; i < p->rows; i++)
    for (int64_t c = 0; c < p->columns; c++)
      memcpy(&w[i * p->columns + c],
             (const char *)p->tensor->data +
                 (size_t)(p->turned ? c * p->rows + i : i * p->columns + c) * sizeof *w,
             sizeof *w);
  return w;
}

static void pack(quantizer *q, product *p) {
  edit *e = &q->e;
  const int32_t limit = (1 << (q->o.bits - 1)) - 1;
  const int64_t blocks = (p->rows + q->o.block - 1) / q->o.block;
  float *w = arrange(e, p);
  int8_t *values = base_allocate((uint64_t)p->tensor->count, 1);
  float *scales = base_allocate((uint64_t)(blocks * p->columns), sizeof *scales);
  float *error = base_allocate((uint64_t)p->columns, sizeof *error);
  e->failed |= !values || !scales || !error;
  if (!e->failed) {
    const bool spread = p->moments && round_gptq(w, p->moments, p->rows, p->columns, q->o.block,
                                                 limit, error, values, scales);
    if (!spread && p->moments) { /* the weights may be changed in part */
      base_release(w);
      w = arrange(e, p);
    }
    if (!spread && w) round_nearest(q, p, w, limit, values, scales);
    q->reasons[p->node] = spread ? "errors spread (GPTQ)" : "rounded to nearest";
    if (w) put_packed(q, p, values, scales);
  }
  base_release(w);
  base_release(error);
  base_release(values);
  base_release(scales);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

static void put_convolution(quantizer *q, size_t i) {
  edit *e = &q->e;
  const onnx_node *node = &e->graph->nodes[i];
  const onnx_tensor *tensor = edit_initializer(e, node, 1);
  const char *reason = choose_refusal(q, node);
  if (!reason) reason = choose_weights(tensor);
  q->reasons[i] = reason;
  if (reason || e->failed) return;
  const bool turned = choose_is(node, "ConvTranspose");
  const int32_t axis = tensor->rank < 2 || (turned && choose_integer(node, "group", 1) != 1) ? -1
                       : turned                                                              ? 1
                                                                                             : 0;
  const written_weight *made = channels_put(q, edit_input(node, 1), axis, 127);
  if (!made) return;
  edit_set_input(e, i, 1, made->made);
  q->quantized[i] = true;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Gives products memory for moments, from `from` on, while it suffices; returns the end. */
static size_t take_moments(quantizer *q, product *list, size_t from, size_t count) {
  uint64_t bytes = 0;
  size_t taken = 0, i = from;
  for (; i < count; i++) {
    const uint64_t own = (uint64_t)list[i].rows * (uint64_t)list[i].rows * sizeof(double);
    if (list[i].same || list[i].rows > MOST_ROWS || q->o.rounding != COMPUTE_ROUNDING_GPTQ)
      continue;
    if (taken && (taken == MOST_SAMPLED || bytes + own > MOST_MOMENT_BYTES)) break;
    taken++;
    bytes += own;
    list[i].moments =
        base_allocate((uint64_t)list[i].rows * (uint64_t)list[i].rows, sizeof(double));
    q->e.failed |= !list[i].moments;
  }
  return i;
}

static compute_status pack_all(quantizer *q, product *list, size_t count) {
  compute_status status = COMPUTE_OK;
  for (size_t from = 0, end; !status && from < count; from = end) {
    end = take_moments(q, list, from, count);
    bool some = false;
    for (size_t i = from; i < end; i++) some |= list[i].moments != NULL;
    if (some && !q->e.failed) status = find_moments(q, list + from, end - from);
    for (size_t i = from; i < end; i++) {
      if (!status && !q->e.failed && !list[i].same) pack(q, &list[i]);
      base_release(list[i].moments);
    }
  }
  for (size_t i = 0; !status && !q->e.failed && i < count; i++) {
    if (list[i].same) {
      list[i].bytes = list[i].same->bytes;
      list[i].scales = list[i].same->scales;
      q->reasons[list[i].node] = q->reasons[list[i].same->node];
    }
    put_node(q, &list[i]);
  }
  return status;
}

compute_status weights_quantize(quantizer *q) {
  edit *e = &q->e;
  const onnx_graph *graph = e->graph;
  product *list = arena_allocate(&e->memory, graph->node_count, sizeof *list);
  /* The first product of each value, for both layouts. */
  product **seen = arena_allocate(&e->memory, graph->value_count, 2 * sizeof(product *));
  size_t count = 0;
  if (!list || !seen) return edit_out_of_memory(e);
  for (size_t i = 0; i < graph->node_count; i++) {
    if (is_convolution(&graph->nodes[i])) put_convolution(q, i);
    if (!is_product(&graph->nodes[i])) continue;
    q->reasons[i] = product_refusal(q, i, &list[count]);
    if (q->reasons[i]) continue;
    product *p = &list[count++];
    product **first = &seen[2 * (size_t)p->value + p->turned];
    p->same = *first;
    if (!*first) *first = p;
  }
  const compute_status status = pack_all(q, list, count);
  if (status) return status;
  return e->failed ? edit_out_of_memory(e) : COMPUTE_OK;
}
