/* SPDX-License-Identifier: MIT */
#include "model/operators/formula.h"

#include <math.h>

#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/node/graph.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"

static const graph_node *node_at(const model_call *call, uint32_t node) {
  return &call->graph->nodes[node];
}

static bool is_node(const model_call *call, compute_node node) {
  return compute_node_is_valid(node) && node.id >= 1 && node.id <= call->graph->count;
}

/* Returns true for a constant with one element. */
static bool is_number(const graph_node *n, double *value) {
  if (n->op != OP_constant || shape_count(n->shape) != 1 || !dtype_is_float(n->dtype)) return false;
  *value = dtype_load(n->dtype, n->constant);
  return true;
}

/* Returns true if a number is `wanted` as a file stores it: rounded to the dtype, or the product
 * of two such numbers. */
static bool is_about(double value, double wanted, compute_dtype dtype) {
  const double unit = dtype == COMPUTE_F64    ? 0x1p-52
                      : dtype == COMPUTE_F32  ? 0x1p-23
                      : dtype == COMPUTE_BF16 ? 0x1p-7
                                              : 0x1p-10;
  return fabs(value - wanted) <= 2 * unit * fabs(wanted);
}

/* ---- x · gate(x) --------------------------------------------------------------------------- */

/* A node as a polynomial of x times gate^gates, with gate = 1 + erf or 1 + tanh. For x =
 * ±infinity such polynomials give the same result as gelu. Coefficients are positive, so
 * infinities of opposite signs never meet. Coefficients are moderate, so no intermediate result
 * overflows before the gate's argument saturates. */
enum { TERMS = 4, MOST_DEPTH = 6 };

static const double least_coefficient = 0x1p-8, most_coefficient = 4;

typedef struct polynomial {
  double terms[TERMS];
  int gates;
} polynomial;

typedef struct gated_product {
  const model_call *call;
  uint32_t x, gate;
  double most; /* the largest coefficient of x in an expanded node: a bound for overflow */
} gated_product;

static bool multiply(const polynomial *a, const polynomial *b, polynomial *result) {
  *result = (polynomial){.gates = a->gates + b->gates};
  for (int i = 0; i < TERMS; i++)
    for (int k = 0; k < TERMS; k++) {
      const double term = a->terms[i] * b->terms[k];
      if (i + k < TERMS)
        result->terms[i + k] += term;
      else if (term != 0)
        return false;
    }
  return true;
}

static bool combine(graph_op op, const polynomial *a, const polynomial *b, polynomial *result) {
  if (op == OP_mul) return multiply(a, b, result);
  if (a->gates || b->gates) return false;
  *result = *a;
  for (int i = 0; i < TERMS; i++) result->terms[i] += b->terms[i];
  return op == OP_add;
}

static bool is_moderate(const polynomial *p) {
  for (int i = 0; i < TERMS; i++)
    if (p->terms[i] != 0 && !(p->terms[i] >= least_coefficient && p->terms[i] <= most_coefficient))
      return false;
  return true;
}

static bool expand(gated_product *p, uint32_t node, int depth, polynomial *result);

/* Expands a node that is neither x nor the gate. */
static bool expand_inner(gated_product *p, const graph_node *n, int depth, polynomial *result) {
  polynomial a, b;
  double number;
  if (depth == 0 || n->input_count < 1 || n->input_count > 2 ||
      !expand(p, n->inputs[0], depth - 1, &a))
    return false;
  if (n->op == OP_square) return multiply(&a, &a, result);
  if (n->input_count < 2) return false;
  if (n->op == OP_div && is_number(node_at(p->call, n->inputs[1]), &number)) {
    b = (polynomial){.terms = {1 / number}};
    return multiply(&a, &b, result);
  }
  return expand(p, n->inputs[1], depth - 1, &b) && combine(n->op, &a, &b, result);
}

/* Expands a node. Returns false if it is not such a polynomial or lacks x's shape. */
static bool expand(gated_product *p, uint32_t node, int depth, polynomial *result) {
  const graph_node *n = node_at(p->call, node), *x = node_at(p->call, p->x);
  double number;
  *result = (polynomial){.gates = 0};
  if (is_number(n, &number)) {
    result->terms[0] = number;
    return n->shape.rank <= x->shape.rank && is_moderate(result);
  }
  if (node == p->x) result->terms[1] = 1;
  if (node == p->gate) *result = (polynomial){.terms = {1}, .gates = 1};
  if (node == p->x || node == p->gate) return compute_shape_equal(n->shape, x->shape);
  if (!expand_inner(p, n, depth, result) || !is_moderate(result)) return false;
  const double largest = result->terms[1] * (result->gates ? 2 : 1);
  if (largest > p->most) p->most = largest;
  return true;
}

static bool is_polynomial(const polynomial *p, int gates, double first, double third,
                          compute_dtype dtype) {
  return p->gates == gates && p->terms[0] == 0 && is_about(p->terms[1], first, dtype) &&
         p->terms[2] == 0 && is_about(p->terms[3], third, dtype);
}

/* If the node is 1 + erf or 1 + tanh, returns the function's node, else NULL. */
static const graph_node *gated(const model_call *call, uint32_t node) {
  const graph_node *n = node_at(call, node);
  double one;
  for (int k = 0; k < 2 && n->op == OP_add; k++) {
    const graph_node *f = node_at(call, n->inputs[k]);
    if ((f->op == OP_erf || f->op == OP_tanh) && is_number(node_at(call, n->inputs[1 - k]), &one) &&
        one == 1)
      return f;
  }
  return NULL;
}

/* Lists the factors of nested products, at most MOST_FACTORS. */
enum { MOST_FACTORS = 8 };

static int factors_of(const model_call *call, const uint32_t *roots, uint32_t *factors) {
  int count = 2;
  factors[0] = roots[0], factors[1] = roots[1];
  for (int i = 0; i < count; i++) {
    const graph_node *n = node_at(call, factors[i]);
    const int inner = n->op == OP_mul ? 2 : n->op == OP_div ? 1 : 0;
    for (int k = 0; k < inner && count < MOST_FACTORS; k++) factors[count++] = n->inputs[k];
  }
  return count;
}

/* Returns true if roots[0] · roots[1] is x · gate / 2 and f has gelu's argument. p->most then
 * describes the factors. */
static bool is_gelu(gated_product *p, const uint32_t *roots, const graph_node *f) {
  const compute_dtype dtype = f->dtype;
  const double root = f->op == OP_erf ? sqrt(0.5) : sqrt(2 / M_PI);
  const double cube = f->op == OP_erf ? 0 : 0.044715 * root;
  polynomial a, b, product, argument;
  if (!expand(p, f->inputs[0], MOST_DEPTH, &argument) ||
      !is_polynomial(&argument, 0, root, cube, dtype))
    return false;
  p->most = 0;
  return expand(p, roots[0], MOST_DEPTH, &a) && expand(p, roots[1], MOST_DEPTH, &b) &&
         multiply(&a, &b, &product) && is_polynomial(&product, 1, 0.5, 0, dtype) && p->most <= 2;
}

/* If the formula halves x · gate last, the product overflows for the largest x. Twice the gelu
 * overflows in the same way. */
static compute_node make_gelu(model_call *call, const gated_product *p, graph_op gate) {
  compute_graph *graph = call->graph;
  const compute_node x = graph_handle(graph, p->x);
  const compute_node y = gate == OP_erf ? compute_gelu(graph, x) : compute_gelu_tanh(graph, x);
  if (p->most <= 1 || call_takes_fast(call)) return y;
  const compute_node twice = compute_mul(graph, y, call_scalar_like(call, y, 2));
  return compute_mul(graph, twice, call_scalar_like(call, y, 0.5));
}

static compute_node find_gelu(model_call *call, const uint32_t *roots) {
  uint32_t factors[MOST_FACTORS];
  const int count = factors_of(call, roots, factors);
  for (int i = 0; i < count; i++) {
    const graph_node *f = gated(call, factors[i]);
    for (int k = 0; f && k < count; k++) {
      gated_product p = {call, .x = factors[k], .gate = factors[i]};
      if (k != i && is_gelu(&p, roots, f)) return make_gelu(call, &p, f->op);
    }
  }
  return (compute_node){0};
}

compute_node formula_product(model_call *call, compute_node a, compute_node b) {
  compute_graph *graph = call->graph;
  if (is_node(call, a) && is_node(call, b)) {
    const uint32_t roots[2] = {a.id - 1, b.id - 1};
    for (int k = 0; k < 2; k++) {
      const graph_node *n = node_at(call, roots[k]);
      if (n->op == OP_sigmoid && n->inputs[0] == roots[1 - k])
        return compute_silu(graph, k ? a : b);
    }
    const compute_node y = find_gelu(call, roots);
    if (compute_node_is_valid(y)) return y;
  }
  return compute_mul(graph, a, b);
}

/* ---- (x − mean) / √(mean (x − mean)² + ε) -------------------------------------------------- */

static bool is_half(compute_dtype dtype) {
  return dtype == COMPUTE_F16 || dtype == COMPUTE_BF16;
}

/* The mean of 16-bit numbers is computed in f32 and rounded. Skips such a cast. */
static uint32_t before_cast(const model_call *call, uint32_t node) {
  const graph_node *n = node_at(call, node);
  if (n->op != OP_cast) return node;
  const compute_dtype from = node_at(call, n->inputs[0])->dtype;
  const bool widens = is_half(from) && n->dtype == COMPUTE_F32,
             narrows = from == COMPUTE_F32 && is_half(n->dtype);
  return widens || narrows ? n->inputs[0] : node;
}

/* Returns true for a mean along the last axis with kept axes, and its operand. */
static bool is_mean(const model_call *call, uint32_t node, uint32_t *operand) {
  const graph_node *n = node_at(call, before_cast(call, node));
  if (n->op != OP_mean || !n->attributes.keep_axes || n->shape.rank < 1) return false;
  *operand = n->inputs[0];
  return n->attributes.axes_mask == 1u << (n->shape.rank - 1);
}

/* Returns true for x − mean(x), and its x. */
static bool is_centred(const model_call *call, uint32_t node, uint32_t *x) {
  const graph_node *n = node_at(call, node);
  uint32_t averaged;
  if (n->op != OP_sub || !is_mean(call, n->inputs[1], &averaged)) return false;
  *x = n->inputs[0];
  return averaged == *x || before_cast(call, averaged) == *x;
}

static bool is_deviation(const model_call *call, uint32_t node, uint32_t x, double *epsilon) {
  const graph_node *n = node_at(call, node), *sum, *square;
  uint32_t squared, own;
  if (n->op != OP_sqrt) return false;
  sum = node_at(call, n->inputs[0]);
  if (sum->op != OP_add || !is_number(node_at(call, sum->inputs[1]), epsilon) ||
      !is_mean(call, sum->inputs[0], &squared))
    return false;
  square = node_at(call, before_cast(call, squared));
  return (square->op == OP_square ||
          (square->op == OP_mul && square->inputs[0] == square->inputs[1])) &&
         is_centred(call, square->inputs[0], &own) && own == x && *epsilon > 0 && *epsilon < 1;
}

/* If squares overflow, the normalization is correct but the formula gives 0. Squares of f16 do
 * not overflow in f32. */
compute_node formula_quotient(model_call *call, compute_node a, compute_node b) {
  uint32_t x;
  double epsilon;
  const bool fine = call_takes_fast(call) || compute_node_dtype(call->graph, a) == COMPUTE_F16;
  if (fine && is_node(call, a) && is_node(call, b) && is_centred(call, a.id - 1, &x) &&
      is_deviation(call, b.id - 1, x, &epsilon) &&
      node_at(call, b.id - 1)->shape.rank == node_at(call, x)->shape.rank)
    return compute_normalize(call->graph, graph_handle(call->graph, x), epsilon);
  return number_divide(call, a, b);
}

/* ---- softmax(scale · q kᵀ + bias) v -------------------------------------------------------- */

typedef struct scores {
  uint32_t q, k, bias; /* k is transposed */
  bool biased;
  double scale;
} scores;

/* A matrix product, optionally scaled by a number of magnitude at most 1, so that the scale
 * cannot cause overflow. */
static bool is_scaled_product(const model_call *call, uint32_t node, scores *s) {
  const graph_node *n = node_at(call, node), *product = n;
  double number;
  s->scale = 1;
  for (int k = 0; k < 2 && product == n; k++) {
    if (n->op != OP_mul && !(n->op == OP_div && k == 0)) continue;
    if (!is_number(node_at(call, n->inputs[1 - k]), &number)) continue;
    product = node_at(call, n->inputs[k]);
    s->scale = n->op == OP_mul ? number : 1 / number;
  }
  if (product->op != OP_matmul || !compute_shape_equal(product->shape, n->shape)) return false;
  s->q = product->inputs[0], s->k = product->inputs[1];
  return node_at(call, s->q)->shape.rank >= 2 && node_at(call, s->k)->shape.rank >= 2 &&
         fabs(s->scale) <= 1 && s->scale != 0;
}

static bool is_biased_product(const model_call *call, uint32_t node, scores *s) {
  const graph_node *n = node_at(call, node);
  s->biased = false;
  if (is_scaled_product(call, node, s)) return true;
  for (int k = 0; k < 2 && n->op == OP_add; k++)
    if (is_scaled_product(call, n->inputs[k], s) &&
        compute_shape_equal(node_at(call, n->inputs[k])->shape, n->shape)) {
      s->biased = true;
      s->bias = n->inputs[1 - k];
      return true;
    }
  return false;
}

static bool is_softmax(const graph_node *n) {
  return n->op == OP_softmax && n->attributes.axis == n->shape.rank - 1;
}

/* Returns true if `node` is where(max along the keys == −infinity, 0, softmax), and sets
 * *weights to the softmax. Exporters write attention so that a query without keys gives 0. */
static bool is_zeroed_softmax(const model_call *call, uint32_t node, uint32_t *weights) {
  const graph_node *n = node_at(call, node), *blind, *largest, *softmax;
  double number;
  if (n->op != OP_select || !is_number(node_at(call, n->inputs[1]), &number) || number != 0)
    return false;
  blind = node_at(call, n->inputs[0]), softmax = node_at(call, n->inputs[2]);
  *weights = n->inputs[2];
  if (blind->op != OP_equal || !is_softmax(softmax) ||
      !compute_shape_equal(n->shape, softmax->shape))
    return false;
  for (int k = 0; k < 2; k++) {
    largest = node_at(call, blind->inputs[k]);
    if (largest->op == OP_max && largest->attributes.keep_axes &&
        largest->attributes.axes_mask == 1u << (n->shape.rank - 1) &&
        largest->inputs[0] == softmax->inputs[0])
      return is_number(node_at(call, blind->inputs[1 - k]), &number) && number == -(double)INFINITY;
  }
  return false;
}

/* Finds the operand and the number of a product with a number from 0 to 1. */
static bool is_reduced(const model_call *call, const graph_node *n, uint32_t *operand,
                       uint32_t *factor) {
  double number;
  for (int i = 0; i < 2 && n->op == OP_mul; i++) {
    *operand = n->inputs[i];
    *factor = n->inputs[1 - i];
    if (is_number(node_at(call, *factor), &number) && number > 0 && number <= 1 &&
        compute_shape_equal(node_at(call, *operand)->shape, n->shape))
      return true;
  }
  return false;
}

/* Moves a factor of the keys to the queries, unless these are more. Exporters give both the square
 * root of the scale, and the keys would need a separate pass. The factor causes no overflow. Queries
 * of f16 might become 0. */
static void move_factor(const model_call *call, const scores *s, compute_node *q, compute_node *k) {
  compute_graph *graph = call->graph;
  const graph_node *keys = node_at(call, s->k);
  const compute_shape shape = keys->shape;
  const bool turned = keys->op == OP_transpose;
  compute_axes order = {.count = shape.rank};
  uint32_t operand, factor;
  if (dtype_is_half(keys->dtype) || shape_count(node_at(call, s->q)->shape) > shape_count(shape))
    return;
  for (int32_t i = 0; turned && i < shape.rank; i++) order.axis[i] = keys->attributes.order[i];
  if (turned) keys = node_at(call, keys->inputs[0]);
  if (!is_reduced(call, keys, &operand, &factor)) return;
  *q = compute_mul(graph, *q, compute_reshape(graph, graph_handle(graph, factor), COMPUTE_SCALAR));
  *k = graph_handle(graph, operand);
  if (turned) *k = compute_transpose(graph, *k, order);
}

compute_node formula_matmul(model_call *call, compute_node a, compute_node b) {
  compute_graph *graph = call->graph;
  if (!is_node(call, a) || !is_node(call, b) || call_trains(call) ||
      node_at(call, b.id - 1)->shape.rank < 2)
    return compute_matmul(graph, a, b);
  uint32_t weights = a.id - 1;
  const bool zeroed = is_zeroed_softmax(call, weights, &weights);
  if (!zeroed) weights = a.id - 1;
  const graph_node *n = node_at(call, weights);
  scores s;
  if (!is_softmax(n) || !is_biased_product(call, n->inputs[0], &s) || !call_is_only_use(call, 0))
    return compute_matmul(graph, a, b);
  compute_node q = graph_handle(graph, s.q), k = graph_handle(graph, s.k);
  move_factor(call, &s, &q, &k);
  const int32_t rank = node_at(call, s.k)->shape.rank;
  k = op_move_axis(call, k, rank - 1, rank - 2);
  compute_attention_options options = {.scale = s.scale,
                                       .flags = COMPUTE_ATTENTION_FORMULA |
                                                (zeroed ? COMPUTE_ATTENTION_ZERO_WEIGHTS : 0)};
  if (s.biased) options.bias = graph_handle(graph, s.bias);
  return compute_scaled_attention(graph, q, k, b, &options);
}
