/* SPDX-License-Identifier: MIT */
/* Recording of a trainer's plans: forward pass and loss, gradients of a share, and the whole
 * step. */
#include <math.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "graph/node/graph.h"
#include "core/type/dtype.h"
#include "ml/train/dataset.h"
#include "ml/train/trainer.h"
#include "core/type/shape.h"

static const char operation[] = "compute_trainer_create";

/* ---- Forward ------------------------------------------------------------------------------- */

static compute_node as_dtype(compute_graph *graph, compute_node x, compute_dtype dtype) {
  return compute_node_dtype(graph, x) == dtype ? x : compute_cast(graph, x, dtype);
}

/* Converts floats to the dtype of the computation, and images of small integers to floats. Wider
 * integers are indices and stay unchanged. */
static compute_node for_model(const train_record *record, compute_node x) {
  const compute_trainer_options *o = &record->trainer->options;
  const compute_dtype dtype = compute_node_dtype(record->graph, x);
  if (dtype == COMPUTE_I64 || dtype == COMPUTE_I32 || record->graph->status) return x;
  compute_dtype work = o->precision;
  if (work == COMPUTE_DTYPE_NONE) work = compute_node_dtype(record->graph, record->weights[0]);
  return as_dtype(record->graph, x, work);
}

static compute_node count_true(compute_graph *graph, compute_node condition) {
  return compute_sum(graph, compute_cast(graph, condition, COMPUTE_I64), COMPUTE_ALL_AXES, false);
}

/* A host detects an invalid label before the update. A device only records the error, so the step
 * itself must skip its update. The outcome then signals that the queue has the error. */
static void record_label_check(train_record *record, compute_node labels, int64_t classes) {
  compute_graph *graph = record->graph;
  if (record->replica->host || graph->status) return;
  compute_dtype dtype = compute_node_dtype(graph, labels);
  if (!dtype_holds_integer(dtype, classes))
    labels = compute_cast(graph, labels, dtype = COMPUTE_I64);
  const compute_node least = compute_scalar(graph, dtype, 0);
  const compute_node beyond = compute_scalar_i64(graph, dtype, classes);
  const compute_node each = compute_logical_and(graph, compute_greater_equal(graph, labels, least),
                                                compute_less(graph, labels, beyond));
  const compute_node least_of_all =
      compute_min(graph, compute_cast(graph, each, COMPUTE_I32), COMPUTE_ALL_AXES, false);
  record->labelled = compute_greater(graph, least_of_all, compute_scalar(graph, COMPUTE_I32, 0));
}

static void record_cross_entropy(train_record *record, compute_node logits) {
  compute_graph *graph = record->graph;
  const double smoothing = record->trainer->options.label_smoothing;
  compute_node labels = record->nodes.target;
  const compute_dtype dtype = compute_node_dtype(graph, labels);
  if (dtype_is_integer(dtype)) labels = as_dtype(graph, labels, dtype_compute_type(dtype));
  record->nodes.loss = compute_cross_entropy_smoothed(graph, logits, labels, smoothing);
  const compute_node guess = compute_argmax(graph, logits, -1, false);
  record->nodes.correct =
      count_true(graph, compute_equal(graph, guess, as_dtype(graph, labels, COMPUTE_I64)));
  if (graph->status) return;
  const compute_shape shape = compute_node_shape(graph, logits);
  record->trainer->classes = shape_at(shape, shape.rank - 1);
  record_label_check(record, labels, record->trainer->classes);
}

/* The other losses compare element by element. Broadcasting would hide a mistake. */
static void record_comparison(train_record *record, compute_node result) {
  compute_graph *graph = record->graph;
  const compute_trainer_options *o = &record->trainer->options;
  const compute_shape shape = compute_node_shape(graph, result);
  if (!compute_shape_equal(shape, compute_node_shape(graph, record->nodes.target))) {
    char a[128], b[128];
    graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
               "the model's result has shape %s, the targets have %s",
               compute_shape_text(shape, a, sizeof a),
               compute_shape_text(compute_node_shape(graph, record->nodes.target), b, sizeof b));
    return;
  }
  const compute_node target = as_dtype(graph, record->nodes.target, record->trainer->dtype);
  switch (o->loss) {
  case COMPUTE_LOSS_BINARY_CROSS_ENTROPY: {
    record->nodes.loss = compute_binary_cross_entropy(graph, result, target);
    const compute_node zero = compute_scalar(graph, record->trainer->dtype, 0);
    const compute_node half = compute_scalar(graph, record->trainer->dtype, 0.5);
    const compute_node wrong = compute_logical_xor(graph, compute_greater(graph, result, zero),
                                                   compute_greater(graph, target, half));
    record->nodes.correct = count_true(graph, compute_logical_not(graph, wrong));
    return;
  }
  case COMPUTE_LOSS_HUBER:
    record->nodes.loss = compute_huber(graph, result, target, o->huber_delta);
    return;
  default: record->nodes.loss = compute_mean_squared_error(graph, result, target); return;
  }
}

void train_record_forward(train_record *record, int64_t items, bool training, bool targets) {
  compute_graph *graph = record->graph;
  const compute_trainer_options *o = &record->trainer->options;
  train_plan *nodes = &record->nodes;
  nodes->items = items;
  nodes->x = compute_name(
      graph, compute_input(graph, o->input.dtype, dataset_batch_shape(o->input.item, items)),
      "input");
  nodes->seed = compute_input(graph, COMPUTE_I64, COMPUTE_SCALAR);
  /* The weights come first, so that they get their full names. */
  compute_layer_nodes(o->model, graph, record->weights, record->trainer->weight_count);
  compute_node x = nodes->x;
  if (o->prepare) x = o->prepare(o->user, graph, x, training, nodes->seed);
  x = for_model(record, x);
  compute_forward forward = {.training = training, .seed = nodes->seed, .precision = o->precision};
  if (record->trainer->synchronizes && !record->apart) forward.group = record->trainer->group;
  compute_node result = train_record_model(record, x, &forward);
  record->statistics = forward.updates;
  if (graph->status == COMPUTE_OK && dtype_is_float(compute_node_dtype(graph, result)))
    result = as_dtype(graph, result, record->trainer->dtype);
  nodes->result = result;
  if (!targets || graph->status) return;
  nodes->target = compute_name(
      graph, compute_input(graph, o->target.dtype, dataset_batch_shape(o->target.item, items)),
      "target");
  if (o->loss == COMPUTE_LOSS_CROSS_ENTROPY)
    record_cross_entropy(record, result);
  else
    record_comparison(record, result);
  nodes->loss = compute_name(graph, nodes->loss, "loss");
  record->forward_end = graph->count;
}

/* ---- Gradients ----------------------------------------------------------------------------- */

/* Records the gradients of this share: its part of the mean over all batches of an update, times
 * the loss scale. */
static void record_gradients(train_record *record) {
  compute_trainer *trainer = record->trainer;
  compute_graph *graph = record->graph;
  const double share = (double)record->nodes.items / (double)trainer->options.batch /
                       (double)trainer->options.accumulate;
  compute_node loss = record->nodes.loss;
  if (share != 1) loss = compute_mul(graph, loss, compute_scalar(graph, trainer->dtype, share));
  train_record_scale(record);
  if (record->scale.id != 0) loss = compute_mul(graph, loss, record->scale);
  compute_gradients(graph, loss, record->weights, trainer->weight_count, record->gradients);
}

/* Adds zeros from element *at of the vector up to element `to`. */
static size_t pad(const train_record *record, compute_node *parts, size_t count, int64_t *at,
                  int64_t to) {
  if (*at < to)
    parts[count++] =
        compute_full(record->graph, record->trainer->dtype, COMPUTE_SHAPE(to - *at), 0);
  *at = to;
  return count;
}

/* Concatenates all gradients into one vector, so that devices exchange one copy instead of many. */
static compute_node flatten_gradients(train_record *record) {
  compute_graph *graph = record->graph;
  const compute_trainer *trainer = record->trainer;
  compute_node *parts = base_allocate(2 * trainer->weight_count + 1, sizeof *parts);
  size_t count = 0;
  int64_t at = 0;
  if (!parts)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %zu weights", trainer->weight_count);
  for (size_t i = 0; i < trainer->weight_count && graph->status == COMPUTE_OK; i++) {
    count = pad(record, parts, count, &at, trainer->places[i].first);
    parts[count++] = compute_reshape(graph, record->gradients[i], COMPUTE_SHAPE(-1));
    at += trainer->places[i].count;
  }
  count = pad(record, parts, count, &at, trainer->flat_elements);
  const compute_node flat = count == 1 ? parts[0] : compute_concat(graph, parts, count, 0);
  base_release(parts);
  return flat;
}

/* The outputs with a value, followed by the groups. */
typedef struct output_list {
  compute_node nodes[4];
  size_t count;
} output_list;

static void add_output(output_list *list, compute_node node) {
  if (node.id != 0) list->nodes[list->count++] = node;
}

static compute_status create_gradient_plan(compute_trainer *trainer, train_replica *replica) {
  train_record record;
  compute_status status = train_record_start(&record, trainer, replica);
  if (status) return status;
  output_list outputs = {.count = 0};
  train_record_forward(&record, replica->items, true, true);
  record_gradients(&record);
  for (size_t i = 0; i < trainer->weight_count && record.graph->status == COMPUTE_OK; i++)
    record.gradients[i] = as_dtype(record.graph, record.gradients[i], trainer->dtype);
  if (trainer->sums && replica == trainer->replicas) train_record_earlier(&record);
  compute_node sent = {0};
  record.nodes.result = (compute_node){0};
  if (trainer->overlaps)
    sent = train_record_buckets(&record);
  else
    record.nodes.result = flatten_gradients(&record);
  train_record_localise(&record);
  add_output(&outputs, record.nodes.loss);
  add_output(&outputs, record.nodes.correct);
  add_output(&outputs, sent.id != 0 ? sent : record.nodes.result);
  if (replica == trainer->replicas) add_output(&outputs, record.statistics);
  status = compute_graph_status(record.graph);
  if (status == COMPUTE_OK)
    status = train_record_compile(&record, outputs.nodes, outputs.count, "training, gradients",
                                  &replica->gradients);
  train_record_release(&record);
  return status;
}

/* ---- Plans --------------------------------------------------------------------------------- */

/* In a group, the sum over this process's replicas. */
static compute_status create_local_plan(compute_trainer *trainer) {
  train_record record;
  compute_status status = train_record_start(&record, trainer, &trainer->replicas[0]);
  if (status) return status;
  record.nodes.result = train_record_shares(&record, trainer->replica_count);
  status = compute_graph_status(record.graph);
  if (status == COMPUTE_OK)
    status = train_record_compile(&record, &record.nodes.result, 1, "training, sum of gradients",
                                  &trainer->local);
  train_record_release(&record);
  return status;
}

/* The whole step on one device, or the end of a step on several devices. */
static compute_status create_step_plan(compute_trainer *trainer, bool update, train_plan *plan) {
  train_record record;
  const train_replica *first = &trainer->replicas[0];
  const bool alone = !trainer->together;
  compute_status status = train_record_start(&record, trainer, first);
  if (status) return status;
  output_list outputs = {.count = 0};
  compute_node ok = {0};
  if (alone) {
    train_record_forward(&record, first->items, true, true);
    record_gradients(&record);
    if (trainer->options.flags & COMPUTE_TRAIN_CHECK_NAN)
      ok = compute_is_finite(record.graph, record.nodes.loss);
    if (record.labelled.id != 0) {
      const compute_node none = compute_scalar(record.graph, trainer->dtype, (double)NAN);
      const compute_node wrong = compute_scalar(record.graph, COMPUTE_I64, -1);
      record.nodes.loss = compute_select(record.graph, record.labelled, record.nodes.loss, none);
      record.nodes.correct =
          compute_select(record.graph, record.labelled, record.nodes.correct, wrong);
      ok = train_both(record.graph, ok, record.labelled);
    }
    add_output(&outputs, record.nodes.loss);
    add_output(&outputs, record.nodes.correct);
  } else if (update && trainer->divides) {
    train_record_pieces(&record);
  } else {
    train_record_parts(&record);
  }
  record.nodes.rate = compute_input(record.graph, trainer->dtype, COMPUTE_SCALAR);
  train_record_localise(&record);
  add_output(&outputs, train_record_tail(&record, update, ok));
  add_output(&outputs,
             alone ? train_guard(record.graph, record.statistics, ok) : (compute_node){0});
  status = compute_graph_status(record.graph);
  if (status == COMPUTE_OK)
    status = train_record_compile(&record, outputs.nodes, outputs.count,
                                  update ? "training step" : "training, gradients kept", plan);
  train_record_release(&record);
  return status;
}

compute_status train_plans_create(compute_trainer *trainer) {
  compute_status status = COMPUTE_OK;
  for (size_t k = 0; status == COMPUTE_OK && trainer->together && k < trainer->replica_count; k++)
    status = create_gradient_plan(trainer, &trainer->replicas[k]);
  if (status == COMPUTE_OK && trainer->group && trainer->replica_count > 1)
    status = create_local_plan(trainer);
  if (status == COMPUTE_OK) status = create_step_plan(trainer, true, &trainer->update);
  if (status == COMPUTE_OK && trainer->options.accumulate > 1)
    status = create_step_plan(trainer, false, &trainer->add);
  return status ? status : train_shards_compile(trainer);
}

/* ---- Inference ----------------------------------------------------------------------------- */

compute_status train_inference(compute_trainer *trainer, int64_t items, bool targets,
                               const train_plan **plan) {
  for (size_t i = 0; i < TRAIN_INFERENCES; i++) {
    const train_plan *p = &trainer->inferences[i];
    if (!p->plan || p->items != items || (p->loss.id != 0) != targets) continue;
    *plan = p;
    return COMPUTE_OK;
  }
  train_record record;
  compute_status status = train_record_start(&record, trainer, &trainer->replicas[0]);
  if (status) return status;
  output_list outputs = {.count = 0};
  train_record_forward(&record, items, false, targets);
  train_record_localise(&record);
  if (targets) {
    add_output(&outputs, record.nodes.loss);
    add_output(&outputs, record.nodes.correct);
  } else {
    add_output(&outputs, record.nodes.result);
  }
  train_plan made = {0};
  status = compute_graph_status(record.graph);
  if (status == COMPUTE_OK)
    status = train_record_compile(&record, outputs.nodes, outputs.count, "inference", &made);
  train_record_release(&record);
  if (status) return status;
  train_plan *place = &trainer->inferences[trainer->inference_next++ % TRAIN_INFERENCES];
  train_plan_release(place);
  *place = made;
  *plan = place;
  return COMPUTE_OK;
}
