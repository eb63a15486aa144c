/* SPDX-License-Identifier: MIT */
#include "support/samples/random_laws.h"

#include <math.h>

#include "support/harness/test.h"
#include "support/reference/gamma_below.h"

static const char *const family_names[FAMILIES] = {
    "uniform",   "normal",      "truncated normal", "exponential", "gumbel",
    "gamma",     "beta",        "poisson",          "binomial",    "integers",
    "bernoulli", "categorical", "permutation",      "choice"};

const char *law_name(const law *w) {
  return family_names[w->kind];
}

const double law_logit[LAW_CLASSES] = {0, 1, -3, -2, 0.5};

/* Tensors, because devices would compile a kernel for each constant. */
static compute_node number(compute_graph *g, double value) {
  compute_tensor *tensor = test_tensor(test_context, COMPUTE_F64, COMPUTE_SCALAR, &value);
  const compute_node node = compute_parameter(g, tensor);
  compute_tensor_release(tensor);
  return node;
}

compute_node law_build(compute_graph *g, const law *w, int64_t count, compute_node seed,
                       uint32_t stream) {
  const compute_shape shape = COMPUTE_SHAPE(count);
  const compute_node a = number(g, w->a), b = number(g, w->b);
  switch (w->kind) {
  case UNIFORM: return compute_random_uniform(g, COMPUTE_F64, shape, seed, stream);
  case NORMAL: return compute_random_normal(g, COMPUTE_F64, shape, seed, stream);
  case TRUNCATED: return compute_random_truncated_normal(g, a, b, COMPUTE_F64, shape, seed, stream);
  case EXPONENTIAL: return compute_random_exponential(g, COMPUTE_F64, shape, seed, stream);
  case GUMBEL: return compute_random_gumbel(g, COMPUTE_F64, shape, seed, stream);
  case GAMMA: return compute_random_gamma(g, a, COMPUTE_F64, shape, seed, stream);
  case BETA: return compute_random_beta(g, a, b, COMPUTE_F64, shape, seed, stream);
  case POISSON: return compute_random_poisson(g, a, COMPUTE_F64, shape, seed, stream);
  case BINOMIAL: return compute_random_binomial(g, a, b, COMPUTE_F64, shape, seed, stream);
  case INTEGERS:
    return compute_random_integers(g, 0, (int64_t)w->a, COMPUTE_I64, shape, seed, stream);
  case BERNOULLI: return compute_random_bernoulli(g, a, shape, seed, stream);
  case CATEGORICAL:
    return compute_random_categorical(
        g, compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(LAW_CLASSES), law_logit), shape, seed,
        stream);
  case PERMUTATION: return compute_random_permutation(g, (int64_t)w->a, seed, stream);
  case CHOICE: return compute_random_choice(g, (int64_t)w->a, (int64_t)w->b, seed, stream);
  default: return (compute_node){0};
  }
}

/* ---- Distribution functions ------------------------------------------------------------------ */

/* The regularised incomplete beta function. */
static double beta_below(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x >= 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - beta_below(b, a, 1 - x);
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 10000; m++) {
    double an = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + an * d);
    c = 1 + an / c;
    h *= d * c;
    an = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + an * d);
    c = 1 + an / c;
    h *= d * c;
    if (fabs(d * c - 1) < 1e-15) break;
  }
  return exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a * h;
}

static double normal_below(double x) {
  return 0.5 * erfc(-x * 0.70710678118654752);
}

static double classes_below(double x) {
  double sum = 0, low = 0;
  for (int k = 0; k < LAW_CLASSES; k++) {
    sum += exp(law_logit[k]);
    if (k <= x) low += exp(law_logit[k]);
  }
  return low / sum;
}

double law_below(const law *w, double x) {
  double low, high;
  switch (w->kind) {
  case UNIFORM: return fmin(fmax(x, 0), 1);
  case NORMAL: return normal_below(x);
  case TRUNCATED: /* on the side of the smaller tails */
    if (w->a + w->b > 0) {
      low = normal_below(-w->a), high = normal_below(-w->b);
      return (low - normal_below(-x)) / (low - high);
    }
    low = normal_below(w->a), high = normal_below(w->b);
    return (normal_below(x) - low) / (high - low);
  case EXPONENTIAL: return -expm1(-x);
  case GUMBEL: return exp(-exp(-x));
  case GAMMA: return gamma_below(w->a, x);
  case BETA: return beta_below(w->a, w->b, x);
  case POISSON: return x < 0 ? 0 : 1 - gamma_below(x + 1, w->a);
  case BINOMIAL: return x < 0 ? 0 : x >= w->a ? 1 : beta_below(w->a - x, x + 1, 1 - w->b);
  case INTEGERS: return (x + 1) / w->a;
  case BERNOULLI: return x < 0 ? 0 : x < 1 ? 1 - w->a : 1;
  case CATEGORICAL: return classes_below(x);
  default: return (x + 1) / 720; /* the order of six numbers */
  }
}

bool law_is_discrete(const law *w) {
  return w->kind >= POISSON;
}
