/* SPDX-License-Identifier: MIT */
/* SGD, Adam and RMSprop as graph nodes. Gradients, update and new state are part of the model's
 * graph, so the planner fuses them and one run is one training step.
 *
 * Update rules as in PyTorch 2 (torch.optim.SGD, Adam, AdamW, RMSprop), after Polyak 1964, Nesterov
 * 1983, Kingma and Ba 2015 (arXiv 1412.6980), Loshchilov and Hutter 2019 (arXiv 1711.05101), and
 * Tieleman and Hinton 2012.
 *
 * For f16 and bf16 parameters, state and update are in f32; only the new value is rounded. */
#include "compute/graph_nn.h"
#include "graph/builders/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/tensor/tensor.h"

/* State of one call, common to all optimizers. `gradients` has one node for each parameter.
 * `assign` has one node for each value that the step writes. */
typedef struct optimizer {
  compute_graph *graph;
  const char *operation;
  const compute_node *parameters;
  size_t count;
  compute_node *gradients;
  compute_node *assign;
  size_t assign_count;
  compute_dtype narrowest; /* narrowest dtype of any update */
} optimizer;

/* One parameter's update; value and gradient are in the dtype of the computation. */
typedef struct update {
  size_t index;
  compute_dtype dtype;
  compute_node value, gradient;
} update;

/* ---- Arguments ------------------------------------------------------------------------------- */

/* True if an option is finite and not negative, also in the dtype of every update. */
static bool check_amount(const optimizer *o, const char *name, double value) {
  if (!(value < 0)) return build_number(o->graph, o->operation, name, o->narrowest, value);
  return graph_refuse(o->graph, COMPUTE_ERROR_INVALID_ARGUMENT, o->operation,
                      "%s is %g; it must not be negative", name, value);
}

/* True if an option is a valid decay factor. */
static bool check_decay(const optimizer *o, const char *name, double value) {
  if (value >= 0 && value < 1) return true;
  return graph_refuse(o->graph, COMPUTE_ERROR_INVALID_ARGUMENT, o->operation,
                      "%s is %g; it must be at least 0 and less than 1", name, value);
}

static bool check_rate_node(const optimizer *o, compute_node rate) {
  compute_graph *graph = o->graph;
  const char *operation = o->operation;
  if (rate.id == 0 && rate.graph == 0) return true;
  uint32_t index;
  if (!build_operands(graph, operation, &rate, 1, &index) ||
      !build_domain(graph, operation, DOMAIN_FLOAT, build_at(graph, index)->dtype)) {
    return false;
  }
  if (build_at(graph, index)->shape.rank == 0) return true;
  char text[BUILD_TEXT];
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "the learning rate node has shape %s; it must be a scalar",
                      compute_shape_text(build_at(graph, index)->shape, text, sizeof text));
}

/* Collects the tensors of the parameters. Each must be a parameter node of a float dtype. */
static bool collect_targets(optimizer *o, build_target *targets) {
  o->narrowest = COMPUTE_F64;
  compute_graph *graph = o->graph;
  for (size_t i = 0; i < o->count; i++) {
    uint32_t index;
    if (!build_operands(graph, o->operation, &o->parameters[i], 1, &index)) return false;
    const graph_node *node = build_at(graph, index);
    if (node->op != OP_parameter) {
      return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, o->operation,
                          "parameters[%zu] is the result of %s, not a parameter", i,
                          graph_op_describe(node->op)->name);
    }
    if (!build_domain(graph, o->operation, DOMAIN_FLOAT, node->dtype)) return false;
    if (node->dtype != COMPUTE_F64) o->narrowest = COMPUTE_F32;
    targets[i] = (build_target){node->tensor, i};
  }
  return true;
}

/* True if every parameter is a float parameter node, without duplicates. */
static bool check_parameters(optimizer *o) {
  compute_graph *graph = o->graph;
  if (!o->parameters) {
    return graph_refuse(graph, COMPUTE_ERROR_NULL_POINTER, o->operation, "parameters is NULL");
  }
  if (o->count == 0) {
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, o->operation,
                        "needs at least one parameter");
  }
  size_t first, second;
  build_target *targets = base_allocate(o->count, sizeof *targets);
  if (!targets)
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, o->operation,
               "not enough memory for %zu parameters", o->count);
  else if (collect_targets(o, targets) && build_find_repeated(targets, o->count, &first, &second))
    graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, o->operation,
               "parameters[%zu] and [%zu] are the same tensor", first, second);
  base_release(targets);
  return graph->status == COMPUTE_OK;
}

/* ---- State ----------------------------------------------------------------------------------- */

/* A new parameter of zeros on the device of parameter number `beside`. If `own`, its name is
 * "<parameter's name or number>.<suffix>"; shared state is named `suffix`. The tensor is private: a
 * memory scope that is open while the graph is built must not release it. */
static compute_node create_state(const optimizer *o, size_t beside, bool own, compute_dtype dtype,
                                 compute_shape shape, const char *suffix) {
  compute_graph *graph = o->graph;
  if (graph->status) return BUILD_NONE;
  const graph_node *owner = build_at(graph, o->parameters[beside].id - 1);
  compute_tensor *tensor = NULL;
  compute_status status =
      tensor_create_zero(compute_tensor_device(owner->tensor), dtype, shape, &tensor);
  if (status) {
    compute_error detail = {0};
    compute_error_get(graph->context, &detail);
    compute_tensor_release(tensor);
    return graph_fail(graph, status, o->operation,
                      "cannot create the state %s for parameters[%zu]: %s", suffix, beside,
                      detail.message);
  }
  char name[256];
  if (!own) {
    snprintf(name, sizeof name, "%s", suffix);
  } else if (owner->name) {
    snprintf(name, sizeof name, "%.200s.%s", owner->name, suffix);
  } else {
    snprintf(name, sizeof name, "%zu.%s", beside, suffix);
  }
  compute_node node = compute_parameter(graph, tensor);
  compute_tensor_release(tensor);
  node = compute_name(graph, node, name);
  if (compute_node_is_valid(node) && !graph_add_state(graph, node))
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, o->operation,
                      "not enough memory for the list of the optimizer's state");
  return node;
}

static compute_node moment(const optimizer *o, const update *u, const char *suffix) {
  compute_shape shape = compute_node_shape(o->graph, o->parameters[u->index]);
  return create_state(o, u->index, true, u->dtype, shape, suffix);
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static void assign(optimizer *o, compute_node parameter, compute_node value) {
  compute_node node = compute_assign(o->graph, parameter, value);
  if (compute_node_is_valid(node)) o->assign[o->assign_count++] = node;
}

static compute_node times(const optimizer *o, compute_node x, double factor) {
  return compute_mul(o->graph, x,
                     compute_scalar(o->graph, compute_node_dtype(o->graph, x), factor));
}

static compute_node as_dtype(const optimizer *o, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(o->graph, x) == dtype ? x : compute_cast(o->graph, x, dtype);
}

/* decay · old + (1 − decay) · x */
static compute_node mix(const optimizer *o, compute_node old, compute_node x, double decay) {
  return compute_add(o->graph, times(o, old, decay), times(o, x, 1 - decay));
}

static update start_update(const optimizer *o, size_t index) {
  const compute_dtype dtype =
      dtype_compute_type(compute_node_dtype(o->graph, o->parameters[index]));
  return (update){.index = index,
                  .dtype = dtype,
                  .value = as_dtype(o, o->parameters[index], dtype),
                  .gradient = as_dtype(o, o->gradients[index], dtype)};
}

/* Assigns value − change to the parameter. */
static void descend(optimizer *o, const update *u, compute_node change) {
  compute_node parameter = o->parameters[u->index];
  compute_node value = compute_sub(o->graph, u->value, change);
  assign(o, parameter, as_dtype(o, value, compute_node_dtype(o->graph, parameter)));
}

/* The learning rate in the dtype of an update. */
static compute_node rate(const optimizer *o, const update *u, compute_node node, double value) {
  if (node.id == 0 && node.graph == 0) return compute_scalar(o->graph, u->dtype, value);
  return as_dtype(o, node, u->dtype);
}

/* Source of the gradients: a loss, or the caller. */
typedef struct gradient_source {
  compute_node loss;
  const compute_node *given; /* NULL: use the loss */
  bool is_given;
} gradient_source;

/* Checks the caller's gradients: floats with the shapes of their parameters. */
static bool take_gradients(const optimizer *o, const compute_node *given) {
  if (!given) {
    return graph_refuse(o->graph, COMPUTE_ERROR_NULL_POINTER, o->operation, "gradients is NULL");
  }
  for (size_t i = 0; i < o->count; i++) {
    uint32_t index;
    if (!build_operands(o->graph, o->operation, &given[i], 1, &index)) return false;
    const compute_shape shape = compute_node_shape(o->graph, o->parameters[i]);
    const graph_node *node = build_at(o->graph, index);
    if (!build_domain(o->graph, o->operation, DOMAIN_FLOAT, node->dtype)) return false;
    if (!compute_shape_equal(shape, node->shape)) {
      char a[BUILD_TEXT], b[BUILD_TEXT];
      return graph_refuse(o->graph, COMPUTE_ERROR_SHAPE, o->operation,
                          "gradients[%zu] has shape %s; parameters[%zu] has %s", i,
                          compute_shape_text(node->shape, a, sizeof a), i,
                          compute_shape_text(shape, b, sizeof b));
    }
    o->gradients[i] = given[i];
  }
  return true;
}

/* Allocates memory and records the gradients. Afterwards updates can be built. */
static bool optimizer_start(optimizer *o, const gradient_source *from, size_t state_count) {
  o->gradients = base_allocate(o->count, sizeof *o->gradients);
  /* Each parameter, its state, and one step counter for all. */
  o->assign = base_allocate(o->count, (state_count + 2) * sizeof *o->assign);
  if (!o->gradients || !o->assign) {
    return graph_refuse(o->graph, COMPUTE_ERROR_OUT_OF_MEMORY, o->operation,
                        "not enough memory for %zu parameters", o->count);
  }
  if (from->is_given) return take_gradients(o, from->given);
  return compute_gradients(o->graph, from->loss, o->parameters, o->count, o->gradients) ==
         COMPUTE_OK;
}

static compute_node optimizer_finish(optimizer *o) {
  compute_node result = BUILD_NONE;
  if (!o->graph->status) result = compute_group(o->graph, o->assign, o->assign_count);
  base_release(o->gradients);
  base_release(o->assign);
  return result;
}

/* Scalars that all updates of one step share. */
typedef struct update_scalars {
  compute_node first, second; /* Adam's corrections, in the step counter's dtype */
} update_scalars;

/* The specific part of one optimizer; `options` is a copy of the caller's. */
typedef struct optimizer_rule {
  size_t state_count; /* per parameter, at most */
  bool (*check)(const optimizer *o, const void *options);
  void (*fill_in)(void *options); /* replaces 0 by the defaults */
  void (*start)(optimizer *o, const void *options, update_scalars *scalars); /* or NULL */
  void (*update)(optimizer *o, const update *u, const void *options, const update_scalars *scalars);
} optimizer_rule;

static compute_node optimize(compute_graph *graph, const char *operation,
                             const gradient_source *from, const compute_node *parameters,
                             size_t count, const optimizer_rule *rule, void *options) {
  BUILD_ALL_OR_NOTHING(graph);
  if (!build_start(graph, operation)) return BUILD_NONE;
  optimizer o = {.graph = graph, .operation = operation, .parameters = parameters, .count = count};
  if (!check_parameters(&o) || !rule->check(&o, options)) return BUILD_NONE;
  rule->fill_in(options);
  if (optimizer_start(&o, from, rule->state_count)) {
    update_scalars scalars = {0};
    if (rule->start) rule->start(&o, options, &scalars);
    for (size_t i = 0; i < count && !graph->status; i++) {
      const update u = start_update(&o, i);
      rule->update(&o, &u, options, &scalars);
    }
  }
  return optimizer_finish(&o);
}

/* compute_<name>_step and compute_<name>_apply. */
#define OPTIMIZER(name)                                                                            \
  compute_node compute_##name##_step(compute_graph *graph, compute_node loss,                      \
                                     const compute_node *parameters, size_t count,                 \
                                     const compute_##name##_options *options) {                    \
    FLOAT_ENVIRONMENT_DEFAULT;                                                                     \
    compute_##name##_options p = options ? *options : (compute_##name##_options){0};               \
    const gradient_source from = {.loss = loss};                                                   \
    return optimize(graph, #name "_step", &from, parameters, count, &name##_rule, &p);             \
  }                                                                                                \
  compute_node compute_##name##_apply(compute_graph *graph, const compute_node *parameters,        \
                                      const compute_node *gradients, size_t count,                 \
                                      const compute_##name##_options *options) {                   \
    FLOAT_ENVIRONMENT_DEFAULT;                                                                     \
    compute_##name##_options p = options ? *options : (compute_##name##_options){0};               \
    const gradient_source from = {.given = gradients, .is_given = true};                           \
    return optimize(graph, #name "_apply", &from, parameters, count, &name##_rule, &p);            \
  }

/* ---- SGD ------------------------------------------------------------------------------------- */

static bool check_sgd(const optimizer *o, const void *options) {
  const compute_sgd_options *p = options;
  if (!graph_check_reserved(o->graph, o->operation, "options", p->reserved)) return false;
  if (p->nesterov && p->momentum == 0) {
    return graph_refuse(o->graph, COMPUTE_ERROR_INVALID_ARGUMENT, o->operation,
                        "nesterov needs a momentum");
  }
  return check_amount(o, "learning_rate", p->learning_rate) &&
         check_amount(o, "momentum", p->momentum) &&
         check_amount(o, "weight_decay", p->weight_decay) &&
         check_rate_node(o, p->learning_rate_node);
}

static void sgd_update(optimizer *o, const update *u, const void *options,
                       const update_scalars *scalars) {
  (void)scalars;
  const compute_sgd_options *p = options;
  compute_graph *graph = o->graph;
  compute_node direction = u->gradient;
  if (p->weight_decay != 0) {
    direction = compute_add(graph, direction, times(o, u->value, p->weight_decay));
  }
  if (p->momentum != 0) {
    compute_node state = moment(o, u, "momentum");
    compute_node velocity = compute_add(graph, times(o, state, p->momentum), direction);
    assign(o, state, velocity);
    direction =
        p->nesterov ? compute_add(graph, direction, times(o, velocity, p->momentum)) : velocity;
  }
  descend(o, u, compute_mul(graph, direction, rate(o, u, p->learning_rate_node, p->learning_rate)));
}

static void fill_in_sgd(void *options) {
  compute_sgd_options *p = options;
  if (p->learning_rate == 0) p->learning_rate = 0.01;
}

static const optimizer_rule sgd_rule = {1, check_sgd, fill_in_sgd, NULL, sgd_update};

OPTIMIZER(sgd)

/* ---- Adam ------------------------------------------------------------------------------------ */

static bool check_adam(const optimizer *o, const void *options) {
  const compute_adam_options *p = options;
  if (!graph_check_reserved(o->graph, o->operation, "options", p->reserved)) return false;
  return check_amount(o, "learning_rate", p->learning_rate) && check_decay(o, "beta1", p->beta1) &&
         check_decay(o, "beta2", p->beta2) && check_amount(o, "epsilon", p->epsilon) &&
         check_amount(o, "weight_decay", p->weight_decay) &&
         check_rate_node(o, p->learning_rate_node);
}

/* 1 − beta^step, computed as −expm1(step · log(beta)). The plain difference would lose half the
 * digits of f32 in the first steps. */
static compute_node bias_correction(const optimizer *o, compute_node step, double beta) {
  return compute_neg(o->graph, compute_expm1(o->graph, times(o, step, log(beta))));
}

static void adam_count(optimizer *o, const void *options, update_scalars *scalars) {
  const compute_adam_options *p = options;
  compute_dtype dtype = COMPUTE_F32;
  for (size_t i = 0; i < o->count; i++) {
    if (compute_node_dtype(o->graph, o->parameters[i]) == COMPUTE_F64) dtype = COMPUTE_F64;
  }
  compute_node before = create_state(o, 0, false, dtype, COMPUTE_SCALAR, "adam.step");
  compute_node step = compute_add(o->graph, before, compute_scalar(o->graph, dtype, 1));
  assign(o, before, step);
  *scalars = (update_scalars){.first = bias_correction(o, step, p->beta1),
                              .second = bias_correction(o, step, p->beta2)};
}

static void adam_update(optimizer *o, const update *u, const void *options,
                        const update_scalars *scalars) {
  const compute_adam_options *p = options;
  compute_graph *graph = o->graph;
  compute_node learning_rate = rate(o, u, p->learning_rate_node, p->learning_rate);
  compute_node gradient = u->gradient;
  if (p->weight_decay != 0 && !p->decoupled) {
    gradient = compute_add(graph, gradient, times(o, u->value, p->weight_decay));
  }
  compute_node first = moment(o, u, "adam_m"), second = moment(o, u, "adam_v");
  compute_node mean = mix(o, first, gradient, p->beta1);
  compute_node square = mix(o, second, compute_square(graph, gradient), p->beta2);
  assign(o, first, mean);
  assign(o, second, square);
  compute_node scale = compute_div(graph, learning_rate, as_dtype(o, scalars->first, u->dtype));
  compute_node root = compute_rsqrt(graph, as_dtype(o, scalars->second, u->dtype));
  compute_node deviation = compute_mul(graph, compute_sqrt(graph, square), root);
  compute_node divisor = compute_add(graph, deviation, compute_scalar(graph, u->dtype, p->epsilon));
  compute_node change = compute_div(graph, compute_mul(graph, mean, scale), divisor);
  if (p->weight_decay != 0 && p->decoupled) {
    compute_node shrink = compute_mul(graph, times(o, u->value, p->weight_decay), learning_rate);
    change = compute_add(graph, change, shrink);
  }
  descend(o, u, change);
}

static void fill_in_adam(void *options) {
  compute_adam_options *p = options;
  if (p->learning_rate == 0) p->learning_rate = 0.001;
  if (p->beta1 == 0) p->beta1 = 0.9;
  if (p->beta2 == 0) p->beta2 = 0.999;
  if (p->epsilon == 0) p->epsilon = 1e-8;
}

static const optimizer_rule adam_rule = {2, check_adam, fill_in_adam, adam_count, adam_update};

OPTIMIZER(adam)

/* ---- RMSprop --------------------------------------------------------------------------------- */

static bool check_rmsprop(const optimizer *o, const void *options) {
  const compute_rmsprop_options *p = options;
  if (!graph_check_reserved(o->graph, o->operation, "options", p->reserved)) return false;
  return check_amount(o, "learning_rate", p->learning_rate) && check_decay(o, "alpha", p->alpha) &&
         check_amount(o, "epsilon", p->epsilon) && check_amount(o, "momentum", p->momentum) &&
         check_amount(o, "weight_decay", p->weight_decay) &&
         check_rate_node(o, p->learning_rate_node);
}

static void rmsprop_update(optimizer *o, const update *u, const void *options,
                           const update_scalars *scalars) {
  (void)scalars;
  const compute_rmsprop_options *p = options;
  compute_graph *graph = o->graph;
  compute_node gradient = u->gradient;
  if (p->weight_decay != 0)
    gradient = compute_add(graph, gradient, times(o, u->value, p->weight_decay));
  compute_node state = moment(o, u, "rmsprop_v");
  compute_node square = mix(o, state, compute_square(graph, gradient), p->alpha);
  assign(o, state, square);
  compute_node divisor =
      compute_add(graph, compute_sqrt(graph, square), compute_scalar(graph, u->dtype, p->epsilon));
  compute_node direction = compute_div(graph, gradient, divisor);
  if (p->momentum != 0) {
    compute_node before = moment(o, u, "momentum");
    direction = compute_add(graph, times(o, before, p->momentum), direction);
    assign(o, before, direction);
  }
  descend(o, u, compute_mul(graph, direction, rate(o, u, p->learning_rate_node, p->learning_rate)));
}

static void fill_in_rmsprop(void *options) {
  compute_rmsprop_options *p = options;
  if (p->learning_rate == 0) p->learning_rate = 0.01;
  if (p->alpha == 0) p->alpha = 0.99;
  if (p->epsilon == 0) p->epsilon = 1e-8;
}

static const optimizer_rule rmsprop_rule = {2, check_rmsprop, fill_in_rmsprop, NULL,
                                            rmsprop_update};

OPTIMIZER(rmsprop)

/* ---- Clipping by the norm of all gradients together ------------------------------------------ */

static const char operation_clip[] = "clip_gradients";

static bool check_gradients(compute_graph *graph, const compute_node *gradients, size_t count,
                            double limit, compute_dtype *work) {
  if (!build_start(graph, operation_clip)) return false;
  if (count == 0 || !gradients) {
    return graph_refuse(graph, count ? COMPUTE_ERROR_NULL_POINTER : COMPUTE_ERROR_INVALID_ARGUMENT,
                        operation_clip,
                        count ? "gradients is NULL" : "needs at least one gradient");
  }
  if (!(limit > 0) || isinf(limit)) {
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation_clip,
                        "limit is %g; it must be finite and larger than 0", limit);
  }
  *work = COMPUTE_F32;
  for (size_t i = 0; i < count; i++) {
    uint32_t index;
    if (!build_operands(graph, operation_clip, &gradients[i], 1, &index)) return false;
    const compute_dtype dtype = build_at(graph, index)->dtype;
    if (!build_domain(graph, operation_clip, DOMAIN_FLOAT, dtype)) return false;
    if (dtype == COMPUTE_F64) *work = COMPUTE_F64;
  }
  return build_number(graph, operation_clip, "limit", *work, limit);
}

static compute_node clip_cast(compute_graph *graph, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(graph, x) == dtype ? x : compute_cast(graph, x, dtype);
}

/* Records the scaled gradients in `scaled`. The caller copies them to the user only if all
 * exist. */
static compute_node clip(compute_graph *graph, const compute_node *gradients, size_t count,
                         double limit, compute_dtype work, compute_node *scaled) {
  compute_node sum = BUILD_NONE;
  for (size_t i = 0; i < count; i++) {
    const compute_node square = compute_square(graph, clip_cast(graph, gradients[i], work));
    const compute_node part = compute_sum(graph, square, COMPUTE_ALL_AXES, false);
    sum = i == 0 ? part : compute_add(graph, sum, part);
  }
  const compute_node length = compute_sqrt(graph, sum);
  const compute_node share =
      compute_div(graph, compute_scalar(graph, work, limit), length); /* infinite for norm 0 */
  const compute_node factor = compute_minimum(graph, share, compute_scalar(graph, work, 1));
  for (size_t i = 0; i < count; i++) {
    const compute_dtype dtype = compute_node_dtype(graph, gradients[i]);
    const compute_dtype own = dtype_compute_type(dtype);
    const compute_node product =
        compute_mul(graph, clip_cast(graph, gradients[i], own), clip_cast(graph, factor, own));
    scaled[i] = clip_cast(graph, product, dtype);
  }
  return length;
}

void compute_clip_gradients(compute_graph *graph, compute_node *gradients, size_t count,
                            double limit, compute_node *norm) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (IS_INHERITED(graph, context)) return;
  BUILD_ALL_OR_NOTHING(graph);
  compute_dtype work;
  if (norm) *norm = BUILD_NONE;
  if (!check_gradients(graph, gradients, count, limit, &work)) return;
  compute_node *scaled = base_allocate(count, sizeof *scaled);
  if (!scaled) {
    graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation_clip,
               "not enough memory for %zu gradients", count);
    return;
  }
  const compute_node length = clip(graph, gradients, count, limit, work, scaled);
  if (!graph->status) {
    memcpy(gradients, scaled, count * sizeof *gradients);
    if (norm) *norm = length;
  }
  base_release(scaled);
}
