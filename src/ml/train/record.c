/* SPDX-License-Identifier: MIT */
/* Construction of a trainer's graphs, and their compilation to plans. */
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "graph/node/graph.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_create";

compute_status train_record_start(train_record *record, compute_trainer *trainer,
                                  const train_replica *replica) {
  *record = (train_record){.trainer = trainer, .replica = replica, .count = trainer->weight_count};
  record->graph = compute_graph_create(trainer->context);
  record->weights = base_allocate(trainer->weight_count, sizeof *record->weights);
  record->gradients = base_allocate(trainer->weight_count, sizeof *record->gradients);
  if (record->graph && record->weights && record->gradients) return COMPUTE_OK;
  train_record_release(record);
  return error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a graph");
}

void train_record_release(train_record *record) {
  compute_graph_release(record->graph);
  base_release(record->weights);
  base_release(record->gradients);
  base_release(record->nodes.shares);
  *record = (train_record){0};
}

/* Replaces the model's tensor by the replica's tensor. */
static compute_status choose_own(void *user, compute_tensor *tensor, compute_tensor **own) {
  const train_record *record = user;
  for (size_t k = 0; k < record->trainer->tensor_count; k++) {
    if (tensor != train_model_tensor(record->trainer, k)) continue;
    *own = record->replica->tensors[k];
    break;
  }
  return COMPUTE_OK;
}

void train_record_localise(train_record *record) {
  (void)graph_replace_tensors(record->graph, choose_own, record); /* cannot fail */
}

compute_status train_record_compile(train_record *record, const compute_node *outputs, size_t count,
                                    const char *name, train_plan *plan) {
  compute_plan *compiled = NULL;
  const compute_status status = compute_compile(
      record->graph, outputs, count,
      &(compute_plan_options){.device = record->replica->device,
                              .flags = record->trainer->options.flags &
                                       (COMPUTE_PLAN_ALLOW_TF32 | COMPUTE_PLAN_ALLOW_WINOGRAD),
                              .name = name},
      &compiled);
  if (status) return status;
  *plan = record->nodes;
  plan->plan = compiled;
  record->nodes.shares = NULL;
  return COMPUTE_OK;
}

void train_plan_release(train_plan *plan) {
  compute_plan_release(plan->plan);
  base_release(plan->shares);
  *plan = (train_plan){0};
}

/* ---- Gradients from several places ----------------------------------------------------------- */

compute_node train_record_shares(train_record *record, size_t count) {
  compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  record->nodes.shares = base_allocate(count, sizeof *record->nodes.shares);
  if (!record->nodes.shares)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %zu replicas", count);
  compute_node sum = {0};
  for (size_t k = 0; k < count; k++) {
    const compute_node share =
        compute_input(graph, trainer->dtype, COMPUTE_SHAPE(trainer->flat_elements));
    record->nodes.shares[k] = share;
    sum = k == 0 ? share : compute_add(graph, sum, share);
  }
  return sum;
}

void train_record_scale(train_record *record) {
  if (record->replica->scale)
    record->scale = compute_name(
        record->graph, compute_parameter(record->graph, record->replica->scale), "loss_scale");
}

void train_record_parts(train_record *record) {
  compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  compute_layer_nodes(trainer->options.model, graph, record->weights, trainer->weight_count);
  const compute_node sum = train_record_shares(record, train_shares(trainer));
  for (size_t i = 0; i < trainer->weight_count && graph->status == COMPUTE_OK; i++) {
    const compute_shape shape = compute_node_shape(graph, record->weights[i]);
    const train_place *p = &trainer->places[i];
    const compute_node part = compute_slice(graph, sum, 0, p->first, p->count, 1);
    record->gradients[i] = compute_reshape(graph, part, shape);
  }
  train_record_scale(record);
}
