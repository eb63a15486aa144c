/* SPDX-License-Identifier: MIT */
/* From gradients to new weights: accumulation, unscaling, clipping, the optimizer's update, and
 * guards against bad batches.
 *
 * Gradients of f16 activations are too small for f16 unless the loss is scaled up. The scale adapts
 * (Micikevicius et al. 2018, arXiv 1710.03740). If any gradient is not finite, the update is
 * skipped and the scale is halved. After 2000 finite updates in a row, the scale is doubled. The
 * scale is stored in tensors on the device, so that the host need not wait for it. */
#include <stdio.h>

#include "core/base/alloc.h"
#include "graph/node/graph.h"
#include "core/type/dtype.h"
#include "ml/train/trainer.h"

#define STEADY_UPDATES 2000
#define LARGEST_SCALE  16777216.0 /* 2^24; f32 itself must represent the sums */

static compute_node as_dtype(compute_graph *graph, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(graph, x) == dtype ? x : compute_cast(graph, x, dtype);
}

/* ---- Guarding ------------------------------------------------------------------------------ */

compute_node train_guard(compute_graph *graph, compute_node group, compute_node ok) {
  if (group.id == 0 || ok.id == 0 || graph->status) return group;
  const graph_node *root = &graph->nodes[group.id - 1];
  const bool single = root->op == OP_assign;
  const uint32_t count = single ? 1 : root->input_count;
  compute_node *guarded = base_allocate(count, sizeof *guarded);
  if (!guarded)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_trainer_create",
                      "not enough memory for %u assignments", (unsigned)count);
  for (uint32_t i = 0; i < count && graph->status == COMPUTE_OK; i++) {
    /* The node is read by index here, because nodes move when others are added. */
    const uint32_t index = single ? group.id - 1 : graph->nodes[group.id - 1].inputs[i];
    if (graph->nodes[index].op != OP_assign) {
      guarded[i] = train_guard(graph, graph_handle(graph, index), ok);
      continue;
    }
    const compute_node target = graph_handle(graph, graph->nodes[index].inputs[0]);
    const compute_node value = graph_handle(graph, graph->nodes[index].inputs[1]);
    guarded[i] = compute_assign(graph, target, compute_select(graph, ok, value, target));
  }
  const compute_node result =
      graph->status ? (compute_node){0} : compute_group(graph, guarded, count);
  base_release(guarded);
  return result;
}

compute_node train_both(compute_graph *graph, compute_node a, compute_node b) {
  if (a.id == 0) return b;
  return b.id == 0 ? a : compute_logical_and(graph, a, b);
}

/* ---- Loss scale ---------------------------------------------------------------------------- */

void train_record_unscale(train_record *record) {
  compute_graph *graph = record->graph;
  if (record->scale.id == 0) return;
  const compute_node factor = compute_reciprocal(graph, record->scale);
  for (size_t i = 0; i < record->count && graph->status == COMPUTE_OK; i++)
    record->gradients[i] = compute_mul(graph, record->gradients[i], factor);
}

/* Returns a bool: all gradients are finite, on this rank and on the others. */
static compute_node are_finite(const train_record *record) {
  compute_graph *graph = record->graph;
  compute_node all = {0};
  if (record->trainer->divides)
    return compute_equal(graph, record->nodes.overflows, compute_scalar(graph, COMPUTE_I64, 0));
  for (size_t i = 0; i < record->count && graph->status == COMPUTE_OK; i++) {
    const compute_node finite =
        compute_cast(graph, compute_is_finite(graph, record->gradients[i]), COMPUTE_I32);
    const compute_node least = compute_min(graph, finite, COMPUTE_ALL_AXES, false);
    all = all.id == 0 ? least : compute_minimum(graph, all, least);
  }
  return compute_greater(graph, all, compute_scalar(graph, COMPUTE_I32, 0));
}

/* Records the new values of the scale and its counters. */
static compute_node adapt_scale(train_record *record, compute_node ok) {
  compute_graph *graph = record->graph;
  const compute_trainer *trainer = record->trainer;
  const compute_node steady = compute_parameter(graph, trainer->steady);
  const compute_node skipped = compute_parameter(graph, trainer->skipped);
  const compute_node zero = compute_scalar(graph, COMPUTE_I64, 0);
  const compute_node one = compute_scalar(graph, COMPUTE_I64, 1);
  const compute_node run = compute_select(graph, ok, compute_add(graph, steady, one), zero);
  const compute_node grow =
      compute_greater_equal(graph, run, compute_scalar(graph, COMPUTE_I64, STEADY_UPDATES));
  const compute_node twice =
      compute_mul(graph, record->scale, compute_scalar(graph, COMPUTE_F32, 2));
  const compute_node half =
      compute_mul(graph, record->scale, compute_scalar(graph, COMPUTE_F32, 0.5));
  const compute_node kept = compute_select(graph, grow, twice, record->scale);
  const compute_node scale =
      compute_clamp(graph, compute_select(graph, ok, kept, half), 1, LARGEST_SCALE);
  const compute_node missed = compute_add(graph, skipped, compute_select(graph, ok, zero, one));
  const compute_node assigned[] = {
      compute_assign(graph, record->scale, scale),
      compute_assign(graph, steady, compute_select(graph, grow, zero, run)),
      compute_assign(graph, skipped, missed)};
  return compute_group(graph, assigned, 3);
}

/* ---- Optimizer ----------------------------------------------------------------------------- */

static compute_node apply_optimizer(train_record *record) {
  compute_graph *graph = record->graph;
  const compute_optimizer_options *o = &record->trainer->options.optimizer;
  const size_t count = record->count;
  const compute_node *weights = record->weights, *gradients = record->gradients;
  switch (o->kind) {
  case COMPUTE_ADAM:
  case COMPUTE_ADAMW:
    return compute_adam_apply(graph, weights, gradients, count,
                              &(compute_adam_options){.beta1 = o->beta1,
                                                      .beta2 = o->beta2,
                                                      .epsilon = o->epsilon,
                                                      .weight_decay = o->weight_decay,
                                                      .decoupled = o->kind == COMPUTE_ADAMW,
                                                      .learning_rate_node = record->nodes.rate});
  case COMPUTE_RMSPROP:
    return compute_rmsprop_apply(
        graph, weights, gradients, count,
        &(compute_rmsprop_options){.alpha = o->alpha,
                                   .epsilon = o->epsilon,
                                   .momentum = o->momentum,
                                   .weight_decay = o->weight_decay,
                                   .learning_rate_node = record->nodes.rate});
  default:
    return compute_sgd_apply(graph, weights, gradients, count,
                             &(compute_sgd_options){.momentum = o->momentum,
                                                    .nesterov = o->nesterov,
                                                    .weight_decay = o->weight_decay,
                                                    .learning_rate_node = record->nodes.rate});
  }
}

/* Lists the optimizer's own tensors for checkpoints. */
static void keep_state(train_record *record) {
  compute_graph *graph = record->graph;
  for (size_t i = 0; i < graph->state_count && graph->status == COMPUTE_OK; i++) {
    const graph_node *node = &graph->nodes[graph->states[i]];
    char number[32];
    snprintf(number, sizeof number, "%zu", record->trainer->state_count);
    if (train_keep(record->trainer, "optimizer.", node->name ? node->name : number, node->tensor))
      graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_trainer_create",
                 "not enough memory for the list of the optimizer's tensors");
    /* The state of pieces comes last. State that all weights share is a scalar. */
    record->trainer->divided_states += record->trainer->divides && node->shape.rank > 0;
  }
}

/* Limits the norm of all gradients. If the ranks divide the state, they have already computed the
 * common factor. */
static void clip(train_record *record) {
  compute_graph *graph = record->graph;
  const double limit = record->trainer->options.clip_norm;
  if (limit == 0) return;
  if (!record->trainer->divides) {
    compute_clip_gradients(graph, record->gradients, record->count, limit, NULL);
    return;
  }
  for (size_t i = 0; i < record->count && graph->status == COMPUTE_OK; i++)
    record->gradients[i] = compute_mul(graph, record->gradients[i], record->nodes.clip_factor);
}

/* ---- Accumulation -------------------------------------------------------------------------- */

void train_record_earlier(train_record *record) {
  compute_graph *graph = record->graph;
  const compute_trainer *trainer = record->trainer;
  for (size_t i = 0; i < trainer->weight_count && graph->status == COMPUTE_OK; i++) {
    const compute_node before = compute_parameter(graph, trainer->sums[i]);
    const compute_dtype dtype =
        trainer->together ? trainer->dtype : compute_node_dtype(graph, before);
    record->gradients[i] = compute_add(graph, as_dtype(graph, before, dtype),
                                       as_dtype(graph, record->gradients[i], dtype));
  }
}

/* The sums become the gradients, or zero with `update`. */
static compute_node keep_sums(train_record *record, bool update) {
  compute_graph *graph = record->graph;
  const compute_trainer *trainer = record->trainer;
  const size_t count = trainer->weight_count;
  compute_node *assigned = base_allocate(count, sizeof *assigned);
  if (!assigned)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_trainer_create",
                      "not enough memory for %zu assignments", count);
  for (size_t i = 0; i < count && graph->status == COMPUTE_OK; i++) {
    const compute_node before = compute_parameter(graph, trainer->sums[i]);
    const compute_dtype dtype = compute_node_dtype(graph, before);
    const compute_node sum = update
                                 ? compute_full(graph, dtype, compute_node_shape(graph, before), 0)
                                 : as_dtype(graph, record->gradients[i], dtype);
    assigned[i] = compute_assign(graph, before, sum);
  }
  const compute_node group =
      graph->status ? (compute_node){0} : compute_group(graph, assigned, count);
  base_release(assigned);
  return group;
}

compute_node train_record_tail(train_record *record, bool update, compute_node ok) {
  compute_graph *graph = record->graph;
  const compute_trainer *trainer = record->trainer;
  compute_node groups[3], kept = {0};
  size_t count = 0;
  if (trainer->sums && !trainer->together) train_record_earlier(record);
  if (trainer->sums) kept = keep_sums(record, update);
  if (!update) return train_guard(graph, kept, ok);
  /* The sums are also cleared after an overflow, but not for a rejected batch. */
  if (kept.id != 0) groups[count++] = train_guard(graph, kept, ok);
  compute_node fine = {0};
  if (trainer->divides) {
    record->nodes.clip_factor = compute_input(graph, trainer->dtype, COMPUTE_SCALAR);
    record->nodes.overflows = compute_input(graph, COMPUTE_I64, COMPUTE_SCALAR);
  }
  train_record_unscale(record);
  if (record->scale.id != 0) {
    fine = are_finite(record);
    groups[count++] = train_guard(graph, adapt_scale(record, fine), ok);
  }
  clip(record);
  const compute_node step = apply_optimizer(record);
  keep_state(record);
  groups[count++] = train_guard(graph, step, train_both(graph, ok, fine));
  if (graph->status) return (compute_node){0};
  return count == 1 ? groups[0] : compute_group(graph, groups, count);
}
