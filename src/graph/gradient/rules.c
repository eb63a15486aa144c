/* SPDX-License-Identifier: MIT */
/* Gradient rules of the elementwise operations. x is the operand, y the result and g the gradient
 * of the loss by y. If a rule can use either x or y, it uses the one that loses no digits. */
#include "graph/gradient/gradient.h"

#include <math.h>

typedef compute_node node; /* the rules are formulas; short names keep them readable */
typedef gradient_step step;

static node x(const step *s) {
  return gradient_widen(s, gradient_operand(s, 0));
}
static node a(const step *s) {
  return gradient_widen(s, gradient_operand(s, 0));
}
static node b(const step *s) {
  return gradient_widen(s, gradient_operand(s, 1));
}
static node y(const step *s) {
  return gradient_widen(s, s->result);
}
static node g(const step *s) {
  return gradient_widen(s, s->upstream);
}
static node number(const step *s, double value) {
  return gradient_number(s, value);
}

static node add(const step *s, node p, node q) {
  return compute_add(s->graph, p, q);
}
static node sub(const step *s, node p, node q) {
  return compute_sub(s->graph, p, q);
}
static node mul(const step *s, node p, node q) {
  return compute_mul(s->graph, p, q);
}
static node divide(const step *s, node p, node q) {
  return compute_div(s->graph, p, q);
}
static node neg(const step *s, node p) {
  return compute_neg(s->graph, p);
}
static node times(const step *s, node p, double q) {
  return mul(s, p, number(s, q));
}
static node plus(const step *s, node p, double q) {
  return add(s, p, number(s, q));
}

/* g times the derivative. */
static void chain(step *s, node derivative) {
  gradient_give(s, 0, mul(s, g(s), derivative));
}

/* ---- One operand ----------------------------------------------------------------------------- */

void gradient_neg(step *s) {
  gradient_give(s, 0, neg(s, s->upstream));
}

void gradient_abs(step *s) {
  chain(s, compute_sign(s->graph, x(s)));
}

void gradient_square(step *s) {
  node operand = x(s);
  chain(s, add(s, operand, operand));
}

void gradient_sqrt(step *s) {
  gradient_give(s, 0, divide(s, times(s, g(s), 0.5), y(s)));
}

void gradient_rsqrt(step *s) {
  node result = y(s);
  chain(s, mul(s, times(s, result, -0.5), compute_square(s->graph, result)));
}

void gradient_reciprocal(step *s) {
  chain(s, neg(s, compute_square(s->graph, y(s))));
}

void gradient_exp(step *s) {
  chain(s, y(s));
}

void gradient_expm1(step *s) {
  chain(s, compute_exp(s->graph, x(s)));
}

void gradient_log(step *s) {
  gradient_give(s, 0, divide(s, g(s), x(s)));
}

void gradient_log1p(step *s) {
  gradient_give(s, 0, divide(s, g(s), plus(s, x(s), 1)));
}

void gradient_sin(step *s) {
  chain(s, compute_cos(s->graph, x(s)));
}

void gradient_cos(step *s) {
  chain(s, neg(s, compute_sin(s->graph, x(s))));
}

void gradient_tan(step *s) {
  chain(s, plus(s, compute_square(s->graph, y(s)), 1));
}

/* 1 / sqrt(1 - x^2), as a product that keeps its digits near 1. */
static node arc_slope(step *s) {
  node operand = x(s), one = number(s, 1);
  return compute_rsqrt(s->graph, mul(s, sub(s, one, operand), add(s, one, operand)));
}

void gradient_asin(step *s) {
  chain(s, arc_slope(s));
}

void gradient_acos(step *s) {
  chain(s, neg(s, arc_slope(s)));
}

void gradient_atan(step *s) {
  gradient_give(s, 0, divide(s, g(s), plus(s, compute_square(s->graph, x(s)), 1)));
}

void gradient_sinh(step *s) {
  chain(s, compute_cosh(s->graph, x(s)));
}

void gradient_cosh(step *s) {
  chain(s, compute_sinh(s->graph, x(s)));
}

void gradient_tanh(step *s) {
  chain(s, sub(s, number(s, 1), compute_square(s->graph, y(s))));
}

/* 1 / sqrt(1 + x^2), and 1 / |x| where the square might overflow. */
void gradient_asinh(step *s) {
  node operand = x(s);
  node root = compute_sqrt(s->graph, plus(s, compute_square(s->graph, operand), 1));
  node slope = compute_reciprocal(s->graph, root);
  node far = compute_reciprocal(s->graph, compute_abs(s->graph, operand));
  node is_far = compute_greater(s->graph, compute_abs(s->graph, operand), number(s, 1e8));
  chain(s, compute_select(s->graph, is_far, far, slope));
}

/* 1 / sqrt(x^2 - 1), as two roots, since the product could overflow. */
void gradient_acosh(step *s) {
  node operand = x(s);
  node below = compute_rsqrt(s->graph, plus(s, operand, -1));
  chain(s, mul(s, below, compute_rsqrt(s->graph, plus(s, operand, 1))));
}

void gradient_atanh(step *s) {
  node operand = x(s), one = number(s, 1);
  gradient_give(s, 0, divide(s, g(s), mul(s, sub(s, one, operand), add(s, one, operand))));
}

void gradient_erf(step *s) {
  node decay = compute_exp(s->graph, neg(s, compute_square(s->graph, x(s))));
  chain(s, times(s, decay, M_2_SQRTPI));
}

/* Written as "not at or below zero", so a NaN passes its gradient on. The rule uses the result
 * instead of the operand: it is equivalent, and the next layer keeps it in memory anyway. */
void gradient_relu(step *s) {
  if (gradient_pooled_relu(s)) return;
  node zero = compute_scalar(s->graph, s->node.dtype, 0);
  node off = compute_less_equal(s->graph, s->result, zero);
  gradient_give(s, 0, compute_select(s->graph, off, zero, s->upstream));
}

void gradient_sigmoid(step *s) {
  node result = y(s);
  chain(s, mul(s, result, sub(s, number(s, 1), result)));
}

/* Φ(x) + x φ(x), with the normal distribution Φ and its density φ. */
void gradient_gelu(step *s) {
  node operand = x(s);
  node cdf = times(s, plus(s, compute_erf(s->graph, times(s, operand, M_SQRT1_2)), 1), 0.5);
  node exponent = times(s, compute_square(s->graph, operand), -0.5);
  node density = times(s, compute_exp(s->graph, exponent), 0.5 * M_2_SQRTPI * M_SQRT1_2);
  chain(s, add(s, cdf, mul(s, operand, density)));
}

/* y = x (1 + t) / 2 with t = tanh(k (x + c x³)): y' = (1 + t) / 2 + x (1 − t²) k (1 + 3 c x²) / 2.
 * x (1 − t²) is multiplied first: it is 0 long before x² could overflow. */
void gradient_gelu_tanh(step *s) {
  const double k = M_2_SQRTPI * M_SQRT1_2, c = 0.044715;
  node operand = x(s);
  node inner = mul(s, operand, plus(s, times(s, compute_square(s->graph, operand), k * c), k));
  node t = compute_tanh(s->graph, inner);
  node bend = mul(s, operand, sub(s, number(s, 1), compute_square(s->graph, t)));
  node cubic = mul(s, mul(s, times(s, bend, 1.5 * k * c), operand), operand);
  node slope = add(s, times(s, bend, 0.5 * k), cubic);
  chain(s, add(s, times(s, plus(s, t, 1), 0.5), slope));
}

/* With σ = sigmoid(x): σ + x σ (1 − σ) = σ + y (1 − σ). */
void gradient_silu(step *s) {
  node sigma = compute_sigmoid(s->graph, x(s));
  chain(s, add(s, sigma, mul(s, y(s), sub(s, number(s, 1), sigma))));
}

void gradient_softplus(step *s) {
  chain(s, compute_sigmoid(s->graph, x(s)));
}

void gradient_leaky_relu(step *s) {
  node operand = x(s), upstream = g(s);
  node positive = compute_greater(s->graph, operand, number(s, 0));
  node scaled = times(s, upstream, s->node.attributes.scalar);
  gradient_give(s, 0, compute_select(s->graph, positive, upstream, scaled));
}

void gradient_elu(step *s) {
  node operand = x(s), upstream = g(s);
  node positive = compute_greater(s->graph, operand, number(s, 0));
  node slope = times(s, compute_exp(s->graph, operand), s->node.attributes.scalar);
  node scaled = mul(s, upstream, slope);
  gradient_give(s, 0, compute_select(s->graph, positive, upstream, scaled));
}

/* ---- Several operands ------------------------------------------------------------------------ */

void gradient_add(step *s) {
  gradient_give(s, 0, s->upstream);
  gradient_give(s, 1, s->upstream);
}

void gradient_sub(step *s) {
  gradient_give(s, 0, s->upstream);
  if (gradient_wanted(s, 1)) gradient_give(s, 1, neg(s, s->upstream));
}

void gradient_mul(step *s) {
  if (gradient_wanted(s, 0)) gradient_give(s, 0, mul(s, g(s), b(s)));
  if (gradient_wanted(s, 1)) gradient_give(s, 1, mul(s, g(s), a(s)));
}

void gradient_div(step *s) {
  node part = divide(s, g(s), b(s));
  gradient_give(s, 0, part);
  if (gradient_wanted(s, 1)) gradient_give(s, 1, neg(s, mul(s, part, y(s))));
}

/* The result is a - b trunc(a / b): only the multiple depends on b. */
void gradient_mod(step *s) {
  gradient_give(s, 0, s->upstream);
  if (!gradient_wanted(s, 1)) return;
  node multiple = compute_trunc(s->graph, divide(s, a(s), b(s)));
  gradient_give(s, 1, neg(s, mul(s, g(s), multiple)));
}

/* b a^(b-1) is 0 for b = 0, even for a = 0, where the power is infinite. a^b log(a) tends to 0 with
 * a, where the logarithm is infinite. */
void gradient_pow(step *s) {
  node base = a(s), exponent = b(s), zero = number(s, 0);
  if (gradient_wanted(s, 0)) {
    node less = compute_pow(s->graph, base, plus(s, exponent, -1));
    node slope = mul(s, g(s), mul(s, exponent, less));
    node constant = compute_equal(s->graph, exponent, zero);
    gradient_give(s, 0, compute_select(s->graph, constant, zero, slope));
  }
  if (gradient_wanted(s, 1)) {
    node slope = mul(s, g(s), mul(s, y(s), compute_log(s->graph, base)));
    node none = compute_equal(s->graph, base, zero);
    gradient_give(s, 1, compute_select(s->graph, none, zero, slope));
  }
}

/* One operand's share of minimum or maximum: none where it `loses`, half where both are equal. */
static void give_winner(step *s, uint32_t index, node loses) {
  node upstream = g(s), zero = number(s, 0);
  node tie = compute_equal(s->graph, gradient_operand(s, 0), gradient_operand(s, 1));
  node share = compute_select(s->graph, tie, times(s, upstream, 0.5), upstream);
  gradient_give(s, index, compute_select(s->graph, loses, zero, share));
}

void gradient_minimum(step *s) {
  node p = gradient_operand(s, 0), q = gradient_operand(s, 1);
  if (gradient_wanted(s, 0)) give_winner(s, 0, compute_greater(s->graph, p, q));
  if (gradient_wanted(s, 1)) give_winner(s, 1, compute_less(s->graph, p, q));
}

void gradient_maximum(step *s) {
  node p = gradient_operand(s, 0), q = gradient_operand(s, 1);
  if (gradient_wanted(s, 0)) give_winner(s, 0, compute_less(s->graph, p, q));
  if (gradient_wanted(s, 1)) give_winner(s, 1, compute_greater(s->graph, p, q));
}

void gradient_select(step *s) {
  node condition = gradient_operand(s, 0), zero = compute_scalar(s->graph, s->node.dtype, 0);
  if (gradient_wanted(s, 1)) {
    gradient_give(s, 1, compute_select(s->graph, condition, s->upstream, zero));
  }
  if (gradient_wanted(s, 2)) {
    gradient_give(s, 2, compute_select(s->graph, condition, zero, s->upstream));
  }
}
