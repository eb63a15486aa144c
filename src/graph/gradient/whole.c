/* Gradient rules of formulas that are made of several nodes. x is the operand, y the result, g the
 * gradient of the loss by y. They are written with the formula's own nodes, so that second
 * derivatives are right. */
#include "graph/gradient/gradient.h"
#include "graph/build/network.h"

typedef compute_node node;
typedef gradient_step step;

static bool given(const step *s, uint32_t operand) {
  return s->node.inputs[operand] != GRAPH_NO_OPERAND;
}

/* ---- Batch normalisation ------------------------------------------------------------------- */

/* Operands of the whole. */
enum { NORM_X, NORM_CENTRED, NORM_INVERSE, NORM_GAIN, NORM_BIAS };

/* A sum over everything but the channels. */
static node sum_channels(const step *s, node x) {
  compute_axes axes = {.count = 0};
  for (int32_t i = 0; i < s->node.shape.rank; i++)
    if (i != 1) axes.axis[axes.count++] = i;
  return compute_sum(s->graph, x, axes, false);
}

static node along(const step *s, node vector) {
  return network_along(s->graph, vector, 1, s->node.shape.rank);
}

/* With c = x − mean, r = 1 / deviation and y = gain · r · c + bias over n values:
 * dbias = Σ g, dgain = r Σ g c, dx = gain · r · (g − Σ g / n − c · r² Σ g c / n). (Ioffe and
 * Szegedy 2015, arXiv 1502.03167.) Two sums and one pass; what differs between channels is worked
 * out once for each. */
void gradient_whole_batch_norm(step *s) {
  compute_graph *graph = s->graph;
  const node g = s->upstream, c = gradient_operand(s, NORM_CENTRED);
  const node inverse = gradient_operand(s, NORM_INVERSE);
  const node total = sum_channels(s, g), moment = sum_channels(s, compute_mul(graph, g, c));
  if (given(s, NORM_BIAS)) gradient_give(s, NORM_BIAS, total);
  if (given(s, NORM_GAIN)) gradient_give(s, NORM_GAIN, compute_mul(graph, moment, inverse));
  if (!gradient_wanted(s, NORM_X)) return;
  double count = 1;
  for (int32_t i = 0; i < s->node.shape.rank; i++)
    if (i != 1) count *= (double)s->node.shape.size[i];
  const node share = gradient_number(s, count > 0 ? 1 / count : 0);
  node scale = inverse;
  if (given(s, NORM_GAIN)) scale = compute_mul(graph, scale, gradient_operand(s, NORM_GAIN));
  const node level = compute_mul(graph, scale, compute_mul(graph, total, share));
  const node slope = compute_mul(graph, compute_mul(graph, scale, compute_square(graph, inverse)),
                                 compute_mul(graph, moment, share));
  const node steep = compute_mul(graph, g, along(s, scale));
  const node tilted = compute_sub(graph, steep, compute_mul(graph, c, along(s, slope)));
  gradient_give(s, NORM_X, compute_sub(graph, tilted, along(s, level)));
}

/* ---- Cross-entropy ------------------------------------------------------------------------- */

enum { ENTROPY_LOGITS, ENTROPY_LOG, ENTROPY_LABELS, ENTROPY_CHOSEN };

/* (softmax − one at the label) · g / batch, in one pass over the logarithms that the loss has made.
 * What the loss has gathered at the labels is used where it comes from, so that no gradient is
 * known before labels outside have failed the run. */
void gradient_whole_cross_entropy(step *s) {
  compute_graph *graph = s->graph;
  const node labels = gradient_operand(s, ENTROPY_LABELS);
  const node log_p = gradient_widen(s, gradient_operand(s, ENTROPY_LOG));
  const node gathered = gradient_widen(s, gradient_operand(s, ENTROPY_CHOSEN));
  const compute_shape shape = compute_node_shape(graph, log_p);
  const double share = shape.size[0] > 0 ? 1 / (double)shape.size[0] : 0;
  const node class = compute_index(graph, compute_node_dtype(graph, labels), shape, 1);
  const node here = compute_equal(graph, class, labels);
  const node p = compute_exp(graph, compute_select(graph, here, gathered, log_p));
  const node hot = compute_select(graph, here, gradient_number(s, 1), gradient_number(s, 0));
  const node g = compute_mul(graph, gradient_widen(s, s->upstream), gradient_number(s, share));
  gradient_give(s, ENTROPY_LOGITS, compute_mul(graph, compute_sub(graph, p, hot), g));
}
