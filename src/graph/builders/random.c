/* SPDX-License-Identifier: MIT */
/* Random numbers of distributions. Uniform numbers in f64 come from compute_random_uniform. A node
 * random_draw makes the distribution's numbers from them, as an instruction of the same kernel. */
#include "compute/random.h"

#include <inttypes.h>

#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

/* The arguments that all distributions share. */
typedef struct drawing {
  compute_graph *graph;
  const char *operation;
  compute_dtype dtype;
  compute_shape shape;
  compute_node seed;
  uint32_t stream;
} drawing;

#define DRAWING(name)                                                                              \
  &(const drawing) {                                                                               \
    graph, name, dtype, shape, seed, stream                                                        \
  }

/* ---- Draws ----------------------------------------------------------------------------------- */

static bool fits_shape(const drawing *d, compute_shape parameter) {
  compute_shape joined;
  char a[BUILD_TEXT], b[BUILD_TEXT];
  if (shape_broadcast(parameter, d->shape, &joined) && compute_shape_equal(joined, d->shape))
    return true;
  return graph_refuse(d->graph, COMPUTE_ERROR_SHAPE, d->operation,
                      "a parameter of shape %s does not broadcast to %s",
                      compute_shape_text(parameter, a, sizeof a),
                      compute_shape_text(d->shape, b, sizeof b));
}

/* Checks the result and the parameters, and makes parameters f64. */
static bool begin(const drawing *d, graph_domain domain, compute_node *parameters, size_t count) {
  uint32_t inputs[3];
  compute_node operands[3] = {d->seed};
  for (size_t i = 0; i < count; i++) operands[i + 1] = parameters[i];
  if (!build_operands(d->graph, d->operation, operands, count + 1, inputs) ||
      !build_dtype(d->graph, d->operation, d->dtype) ||
      !build_domain(d->graph, d->operation, domain, d->dtype) ||
      !build_size(d->graph, d->operation, d->shape))
    return false;
  for (size_t i = 0; i < count; i++) {
    const graph_node *node = build_at(d->graph, inputs[i + 1]);
    const compute_dtype dtype = node->dtype;
    if (!build_domain(d->graph, d->operation, DOMAIN_FLOAT, dtype) || !fits_shape(d, node->shape))
      return false;
    if (dtype != COMPUTE_F64) parameters[i] = compute_cast(d->graph, parameters[i], COMPUTE_F64);
  }
  return true;
}

static compute_node uniform(const drawing *d) {
  return compute_random_uniform(d->graph, COMPUTE_F64, d->shape, d->seed, d->stream);
}

/* The numbers in f64, after `begin`. */
static compute_node draw(const drawing *d, compute_instruction_code distribution,
                         const compute_node *parameters, size_t count) {
  uint32_t inputs[3];
  compute_node operands[3] = {uniform(d)};
  for (size_t i = 0; i < count; i++) operands[i + 1] = parameters[i];
  if (!build_operands(d->graph, d->operation, operands, count + 1, inputs)) return BUILD_NONE;
  const graph_node node = {.op = OP_random_draw,
                           .dtype = COMPUTE_F64,
                           .shape = d->shape,
                           .attributes.distribution = (uint8_t)distribution};
  return build_node(d->graph, d->operation, &node, inputs, count + 1);
}

static compute_node continuous(const drawing *d, compute_instruction_code distribution,
                               compute_node *parameters, size_t count) {
  BUILD_ALL_OR_NOTHING(d->graph);
  if (!begin(d, DOMAIN_FLOAT, parameters, count)) return BUILD_NONE;
  const compute_node x = draw(d, distribution, parameters, count);
  return d->dtype == COMPUTE_F64 ? x : compute_cast(d->graph, x, d->dtype);
}

/* An integer dtype has no NaN. */
static compute_node discrete(const drawing *d, compute_instruction_code distribution,
                             compute_node *parameters, size_t count) {
  BUILD_ALL_OR_NOTHING(d->graph);
  if (!begin(d, DOMAIN_NUMBER, parameters, count)) return BUILD_NONE;
  compute_node x = draw(d, distribution, parameters, count);
  if (d->dtype == COMPUTE_F64) return x;
  if (!dtype_is_float(d->dtype))
    x = compute_select(d->graph, compute_is_nan(d->graph, x),
                       compute_scalar(d->graph, COMPUTE_F64, -1), x);
  return compute_cast(d->graph, x, d->dtype);
}

compute_node compute_random_normal(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                                   compute_node seed, uint32_t stream) {
  return continuous(DRAWING("random_normal"), COMPUTE_I_DRAW_NORMAL, NULL, 0);
}

compute_node compute_random_truncated_normal(compute_graph *graph, compute_node low,
                                             compute_node high, compute_dtype dtype,
                                             compute_shape shape, compute_node seed,
                                             uint32_t stream) {
  return continuous(DRAWING("random_truncated_normal"), COMPUTE_I_DRAW_TRUNCATED_NORMAL,
                    (compute_node[]){low, high}, 2);
}

compute_node compute_random_exponential(compute_graph *graph, compute_dtype dtype,
                                        compute_shape shape, compute_node seed, uint32_t stream) {
  return continuous(DRAWING("random_exponential"), COMPUTE_I_DRAW_EXPONENTIAL, NULL, 0);
}

compute_node compute_random_gumbel(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                                   compute_node seed, uint32_t stream) {
  return continuous(DRAWING("random_gumbel"), COMPUTE_I_DRAW_GUMBEL, NULL, 0);
}

compute_node compute_random_gamma(compute_graph *graph, compute_node concentration,
                                  compute_dtype dtype, compute_shape shape, compute_node seed,
                                  uint32_t stream) {
  return continuous(DRAWING("random_gamma"), COMPUTE_I_DRAW_GAMMA, &concentration, 1);
}

compute_node compute_random_beta(compute_graph *graph, compute_node a, compute_node b,
                                 compute_dtype dtype, compute_shape shape, compute_node seed,
                                 uint32_t stream) {
  return continuous(DRAWING("random_beta"), COMPUTE_I_DRAW_BETA, (compute_node[]){a, b}, 2);
}

compute_node compute_random_poisson(compute_graph *graph, compute_node mean, compute_dtype dtype,
                                    compute_shape shape, compute_node seed, uint32_t stream) {
  return discrete(DRAWING("random_poisson"), COMPUTE_I_DRAW_POISSON, &mean, 1);
}

compute_node compute_random_binomial(compute_graph *graph, compute_node trials,
                                     compute_node probability, compute_dtype dtype,
                                     compute_shape shape, compute_node seed, uint32_t stream) {
  return discrete(DRAWING("random_binomial"), COMPUTE_I_DRAW_BINOMIAL,
                  (compute_node[]){trials, probability}, 2);
}

/* ---- From uniform numbers -------------------------------------------------------------------- */

/* Spans up to here, and powers of 2, need no more than the 53 bits of one uniform number. */
#define SPAN_OF_ONE 4096
/* The key of the second uniform number is the seed with these bits inverted. */
#define SECOND_KEY INT64_C(0x6b43a9b5d2e1f087)

static compute_node whole(const drawing *d, int64_t value) {
  return compute_scalar_i64(d->graph, COMPUTE_I64, value);
}

/* u · factor as i64 */
static compute_node scaled(const drawing *d, compute_node u, double factor) {
  return compute_cast(d->graph,
                      compute_mul(d->graph, u, compute_scalar(d->graph, COMPUTE_F64, factor)),
                      COMPUTE_I64);
}

/* floor(u · span) in whole numbers, where u has 106 bits: the first number is a · 2^-53. The second
 * counts as floor(second · span) · 2^-53 / span. Digits of 27 bits keep products below 2^63. */
static compute_node wide_integers(const drawing *d, uint64_t span) {
  enum { DIGIT = 27 };
  compute_graph *g = d->graph;
  const int64_t mask = (INT64_C(1) << DIGIT) - 1;
  const compute_node first = uniform(d), bits = compute_bit_xor(g, d->seed, whole(d, SECOND_KEY));
  const compute_node second = compute_random_uniform(g, COMPUTE_F64, d->shape, bits, d->stream);
  const compute_node a = scaled(d, first, 0x1p53), shift = whole(d, DIGIT);
  const compute_node low = compute_bit_and(g, a, whole(d, mask));
  const compute_node high = compute_shift_right(g, a, shift);
  const compute_node span_low = whole(d, (int64_t)span & mask);
  compute_node x = compute_add(g, compute_mul(g, low, span_low), scaled(d, second, (double)span));
  x = compute_add(g, compute_shift_right(g, x, shift), compute_mul(g, high, span_low));
  if (span >> DIGIT == 0) return compute_shift_right(g, x, whole(d, 53 - DIGIT));
  const compute_node span_high = whole(d, (int64_t)(span >> DIGIT));
  x = compute_add(g, x, compute_mul(g, low, span_high));
  x = compute_shift_right(g, x, whole(d, 53 - DIGIT));
  const compute_node top = compute_mul(g, compute_mul(g, high, span_high), whole(d, 2));
  return compute_add(g, x, top);
}

/* floor(u · span): the product rounds once, so it is the same on every device. A power of 2 is
 * exact. A span up to 4096 changes probabilities by less than 2^-40 of them. */
static compute_node integers_below(const drawing *d, uint64_t span) {
  if (span > SPAN_OF_ONE && (span & (span - 1)) != 0) return wide_integers(d, span);
  return scaled(d, uniform(d), (double)span);
}

compute_node compute_random_integers(compute_graph *graph, int64_t low, int64_t high,
                                     compute_dtype dtype, compute_shape shape, compute_node seed,
                                     uint32_t stream) {
  FLOAT_ENVIRONMENT_DEFAULT;
  const drawing *d = DRAWING("random_integers");
  BUILD_ALL_OR_NOTHING(graph);
  build_element ends[2];
  const uint64_t span = (uint64_t)high - (uint64_t)low;
  if (!begin(d, DOMAIN_INTEGER, NULL, 0)) return BUILD_NONE;
  if (low >= high || span > UINT64_C(1) << 53)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, d->operation,
                      "low %" PRId64 " and high %" PRId64 " do not enclose 1 … 2^53 numbers", low,
                      high);
  if (!build_element_of_i64(graph, d->operation, "low", dtype, low, &ends[0]) ||
      !build_element_of_i64(graph, d->operation, "high − 1", dtype, high - 1, &ends[1]))
    return BUILD_NONE;
  const compute_node x = compute_add(graph, integers_below(d, span), whole(d, low));
  return dtype == COMPUTE_I64 ? x : compute_cast(graph, x, dtype);
}

compute_node compute_random_bernoulli(compute_graph *graph, compute_node probability,
                                      compute_shape shape, compute_node seed, uint32_t stream) {
  const compute_dtype dtype = COMPUTE_F64;
  const drawing *d = DRAWING("random_bernoulli");
  BUILD_ALL_OR_NOTHING(graph);
  if (!begin(d, DOMAIN_FLOAT, &probability, 1)) return BUILD_NONE;
  return compute_less(graph, uniform(d), probability);
}

compute_node compute_random_categorical(compute_graph *graph, compute_node logits,
                                        compute_shape shape, compute_node seed, uint32_t stream) {
  const compute_dtype dtype = COMPUTE_F64;
  const char *const operation = "random_categorical";
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &logits, 1, &input) || !build_size(graph, operation, shape))
    return BUILD_NONE;
  const compute_shape from = build_at(graph, input)->shape;
  const int64_t classes = from.rank > 0 ? from.size[from.rank - 1] : 0;
  if (classes < 1 || shape.rank == COMPUTE_MAX_RANK)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "logits of shape %s have no classes, or the result has %d axes",
                      compute_shape_text(from, text, sizeof text), (int)shape.rank);
  shape.size[shape.rank++] = classes;
  const drawing *d = DRAWING(operation);
  if (!begin(d, DOMAIN_FLOAT, &logits, 1)) return BUILD_NONE;
  const compute_node gumbel = draw(d, COMPUTE_I_DRAW_GUMBEL, NULL, 0);
  const compute_node chosen = compute_argmax(graph, compute_add(graph, gumbel, logits), -1, false);
  /* NaN if any logit is, −∞ if all are. */
  const compute_node largest = compute_max(graph, logits, COMPUTE_AXES(-1), false);
  return compute_select(graph, compute_is_finite(graph, largest), chosen,
                        compute_scalar_i64(graph, COMPUTE_I64, -1));
}

/* ---- Orders ---------------------------------------------------------------------------------- */

/* The first `chosen` places of uniform numbers in ascending order. Selecting a few is cheaper than
 * sorting all, and gives the same places. */
static compute_node places(const drawing *d, int64_t chosen) {
  enum { FEW = 64 };
  const int64_t count = d->shape.size[0];
  compute_node order;
  if (chosen > 0 && chosen <= FEW && chosen < count) {
    compute_top_k(d->graph, uniform(d), chosen, 0, true, &order);
    return order;
  }
  order = compute_argsort(d->graph, uniform(d), 0, false);
  return chosen == count ? order : compute_slice(d->graph, order, 0, 0, chosen, 1);
}

static compute_node ordered(const drawing *d, int64_t chosen) {
  BUILD_ALL_OR_NOTHING(d->graph);
  if (!begin(d, DOMAIN_FLOAT, NULL, 0)) return BUILD_NONE;
  if (chosen < 0 || chosen > d->shape.size[0])
    return graph_fail(d->graph, COMPUTE_ERROR_INVALID_ARGUMENT, d->operation,
                      "%" PRId64 " of %" PRId64 " numbers cannot be chosen", chosen,
                      d->shape.size[0]);
  return places(d, chosen);
}

compute_node compute_random_permutation(compute_graph *graph, int64_t count, compute_node seed,
                                        uint32_t stream) {
  const compute_dtype dtype = COMPUTE_F64;
  const compute_shape shape = COMPUTE_SHAPE(count);
  return ordered(DRAWING("random_permutation"), count);
}

compute_node compute_random_choice(compute_graph *graph, int64_t count, int64_t chosen,
                                   compute_node seed, uint32_t stream) {
  const compute_dtype dtype = COMPUTE_F64;
  const compute_shape shape = COMPUTE_SHAPE(count);
  return ordered(DRAWING("random_choice"), chosen);
}
