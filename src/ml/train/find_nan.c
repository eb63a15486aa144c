/* SPDX-License-Identifier: MIT */
/* Finds the first operation with a non-finite result.
 *
 * The forward pass is recorded again with a check of every node. Each check gives one flag, and all
 * flags form one vector. The weights are unchanged since the batch, because the step was not
 * applied. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "graph/node/graph.h"
#include "core/type/dtype.h"
#include "ml/train/trainer.h"

static const char operation[] = "compute_trainer_step";

typedef struct inquiry {
  train_record record;
  uint32_t *nodes;     /* the nodes with a flag */
  compute_node *flags; /* [1] each, i32: 1 if all elements are finite */
  size_t count;
  compute_node all;
} inquiry;

static bool has_elements(const graph_node *node) {
  for (int32_t i = 0; i < node->shape.rank; i++)
    if (node->shape.size[i] == 0) return false;
  return true;
}

static compute_status record_flags(inquiry *q) {
  compute_graph *graph = q->record.graph;
  const size_t end = q->record.forward_end;
  q->nodes = base_allocate(end, sizeof *q->nodes);
  q->flags = base_allocate(end, sizeof *q->flags);
  if (!q->nodes || !q->flags)
    return error_set(graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory to find the operation that produced a non-finite value");
  for (size_t i = 0; i < end && !graph->status; i++) {
    const graph_node *node = &graph->nodes[i];
    const bool assigns = node->op == OP_assign || node->op == OP_group;
    if (assigns || node->op == OP_constant || !dtype_is_float(node->dtype) || !has_elements(node))
      continue;
    const compute_node finite =
        compute_cast(graph, compute_is_finite(graph, graph_handle(graph, i)), COMPUTE_I32);
    const compute_node flag = compute_min(graph, finite, COMPUTE_ALL_AXES, false);
    q->nodes[q->count] = (uint32_t)i;
    q->flags[q->count++] = compute_reshape(graph, flag, COMPUTE_SHAPE(1));
  }
  q->all = compute_concat(graph, q->flags, q->count, 0);
  train_record_localise(&q->record);
  return compute_graph_status(graph);
}

static compute_status run_flags(inquiry *q, const train_slot *slot, compute_tensor *inputs,
                                compute_tensor *targets, int32_t *values) {
  const train_plan *nodes = &q->record.nodes;
  compute_plan *plan = NULL;
  compute_tensor *result = NULL;
  compute_status status = compute_compile(
      q->record.graph, &q->all, 1,
      &(compute_plan_options){.device = q->record.replica->device,
                              .flags = COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION,
                              .name = "search for a non-finite value"},
      &plan);
  if (!status)
    status = train_tensor(q->record.replica->device, COMPUTE_I32, COMPUTE_SHAPE((int64_t)q->count),
                          0, &result);
  if (!status)
    status = compute_run(plan,
                         (compute_binding[]){{nodes->x, inputs},
                                             {nodes->target, targets},
                                             {nodes->seed, slot->seed},
                                             {q->all, result}},
                         4, NULL);
  if (!status) status = compute_tensor_read(result, values, q->count * sizeof *values);
  compute_tensor_release(result);
  compute_plan_release(plan);
  return status;
}

/* Writes a text such as "conv2d [64,16,8,8] (with 0.weight)". */
static void describe_node(const compute_graph *graph, uint32_t index, char *text, size_t bytes) {
  const graph_node *node = &graph->nodes[index];
  char shape[128];
  compute_shape_text(node->shape, shape, sizeof shape);
  if (node->op == OP_parameter || node->op == OP_input) {
    snprintf(text, bytes, "%s %s %s", node->op == OP_input ? "input" : "parameter",
             node->name ? node->name : "", shape);
    return;
  }
  const char *with = NULL;
  for (uint32_t i = 0; i < node->input_count && !with; i++) {
    const graph_node *operand = &graph->nodes[node->inputs[i]];
    if (operand->op == OP_cast) operand = &graph->nodes[operand->inputs[0]];
    if (operand->op == OP_parameter) with = operand->name;
  }
  snprintf(text, bytes, "%s %s%s%s%s", graph_op_describe(node->op)->name, shape,
           with ? " (with " : "", with ? with : "", with ? ")" : "");
}

compute_status train_find_nan(compute_trainer *trainer, const train_replica *replica,
                              const train_slot *slot, compute_tensor *inputs,
                              compute_tensor *targets, double loss) {
  inquiry q = {.count = 0};
  compute_status status = train_record_start(&q.record, trainer, replica);
  if (status) return status;
  q.record.apart = true; /* local to this process: the other ranks may have no non-finite loss */
  train_record_forward(&q.record, replica->items, true, true);
  status = compute_graph_status(q.record.graph);
  if (!status) status = record_flags(&q);
  int32_t *values = status ? NULL : base_allocate(q.count, sizeof *values);
  if (values) status = run_flags(&q, slot, inputs, targets, values);
  char first[256] = "an operation of the fused step that is finite on its own";
  for (size_t i = 0; values && !status && i < q.count; i++) {
    if (values[i] != 0) continue;
    describe_node(q.record.graph, q.nodes[i], first, sizeof first);
    break;
  }
  if (!status && !values)
    status = error_set(trainer->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "not enough memory to find the operation that produced a non-finite value");
  if (!status)
    status =
        error_set_native(trainer->context, COMPUTE_ERROR_VALIDATION, 0, operation,
                         "lower the learning rate, clip the gradients, or check the data",
                         "the loss is %g; the first non-finite values come from %s", loss, first);
  base_release(values);
  base_release(q.nodes);
  base_release(q.flags);
  train_record_release(&q.record);
  return status;
}
