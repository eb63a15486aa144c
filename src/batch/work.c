/* SPDX-License-Identifier: MIT */
/* Graphs of the caller's builder, compiled for one device.
 *
 * Parameters are part of the graph, and a plan needs them on its device. So before compilation,
 * parameters on other devices are replaced by copies. The copies are kept and refreshed at the
 * start of each run, because the caller may train or replace values between runs. */
#include "batch/work.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "graph/node/graph.h"
#include "plan/compile/plan.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

static const char operation[] = "compute_batch_create";

compute_status work_open(batch_work *work, compute_batch *batch, compute_device *device) {
  if (pthread_mutex_init(&work->mutex, NULL) != 0)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a mutex");
  work->batch = batch;
  work->device = device;
  return COMPUTE_OK;
}

static void plan_free(batch_plan *plan) {
  compute_plan_release(plan->plan);
  base_release(plan);
}

void work_close(batch_work *work) {
  while (work->plans) {
    batch_plan *next = work->plans->next;
    plan_free(work->plans);
    work->plans = next;
  }
  for (size_t i = 0; i < work->copy_count; i++) {
    compute_tensor_release(work->copies[i].original);
    compute_tensor_release(work->copies[i].copy);
  }
  base_release(work->copies);
  pthread_mutex_destroy(&work->mutex);
}

/* ---- Parameters ---------------------------------------------------------------------------- */

static compute_status make_copy(batch_work *work, compute_tensor *original, compute_tensor **copy) {
  compute_tensor *made;
  compute_status status =
      tensor_create_private(work->device, original->dtype, original->shape, &made);
  if (status != COMPUTE_OK) return status;
  status = compute_tensor_copy(made, original);
  if (status == COMPUTE_OK)
    *copy = made;
  else
    compute_tensor_release(made);
  return status;
}

/* The copy of a parameter on the work's device. The caller holds the mutex. */
static compute_status copy_of(batch_work *work, compute_tensor *original, compute_tensor **copy) {
  for (size_t i = 0; i < work->copy_count; i++) {
    if (work->copies[i].original != original) continue;
    *copy = work->copies[i].copy;
    return COMPUTE_OK;
  }
  void *copies = work->copies;
  const int grown =
      base_grow(&copies, &work->copy_capacity, work->copy_count + 1, sizeof *work->copies);
  work->copies = copies;
  if (grown != 0)
    return error_set(work->batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a parameter's record");
  const compute_status status = make_copy(work, original, copy);
  if (status == COMPUTE_OK)
    work->copies[work->copy_count++] =
        (batch_copy){.original = compute_tensor_retain(original), .copy = *copy};
  return status;
}

/* Replaces a parameter on another device by a copy on the work's device. */
static compute_status choose_copy(void *user, compute_tensor *tensor, compute_tensor **copy) {
  batch_work *work = user;
  return tensor->buffer->device == work->device ? COMPUTE_OK : copy_of(work, tensor, copy);
}

compute_status work_refresh(batch_work *work) {
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&work->mutex);
  for (size_t i = 0; status == COMPUTE_OK && i < work->copy_count; i++)
    status = compute_tensor_copy(work->copies[i].copy, work->copies[i].original);
  pthread_mutex_unlock(&work->mutex);
  return status;
}

/* ---- Graphs -------------------------------------------------------------------------------- */

compute_shape batch_shape(compute_shape item, int64_t items) {
  compute_shape shape = {.rank = item.rank + 1, .size = {items}};
  memcpy(shape.size + 1, item.size, (size_t)item.rank * sizeof *item.size);
  return shape;
}

/* Records the builder's graph for `items` items; NULL when out of memory. */
static compute_graph *record(compute_batch *batch, int64_t items, compute_node *inputs,
                             compute_node *outputs) {
  compute_graph *graph = compute_graph_create(batch->context);
  if (!graph) return NULL;
  for (uint32_t i = 0; i < batch->input_count; i++)
    inputs[i] =
        compute_input(graph, batch->inputs[i].dtype, batch_shape(batch->inputs[i].item, items));
  for (uint32_t i = 0; i < batch->output_count; i++) outputs[i] = (compute_node){0};
  pthread_mutex_lock(&batch->build_mutex);
  batch->build(batch->user, graph, items, inputs, outputs);
  pthread_mutex_unlock(&batch->build_mutex);
  return graph;
}

static compute_status check_output(const compute_batch *batch, const compute_graph *graph,
                                   compute_node node, uint32_t index, int64_t items) {
  const batch_port *port = &batch->outputs[index];
  const compute_shape shape = compute_node_shape(graph, node);
  const compute_dtype dtype = compute_node_dtype(graph, node);
  char have[96], want[96];
  if (dtype == COMPUTE_DTYPE_NONE)
    return error_set_native(
        batch->context, COMPUTE_ERROR_WRONG_GRAPH, 0, operation,
        "have the builder set every output to a node with a value",
        "the builder did not set output %u to a node of its graph that has a value", index);
  if (shape.rank < 1 || shape_at(shape, 0) != items)
    return error_set_native(
        batch->context, COMPUTE_ERROR_SHAPE, 0, operation,
        "give each item its own result along the first axis",
        "for %lld items, output %u has shape %s; its first axis must be the items",
        (long long)items, index, compute_shape_text(shape, have, sizeof have));
  if (port->dtype == COMPUTE_DTYPE_NONE) return COMPUTE_OK;
  const compute_shape expected = batch_shape(port->item, items);
  if (dtype == port->dtype && compute_shape_equal(shape, expected)) return COMPUTE_OK;
  return error_set(batch->context, COMPUTE_ERROR_SHAPE, operation,
                   "output %u of the graph is %s %s; it must be %s %s", index,
                   compute_dtype_name(dtype), compute_shape_text(shape, have, sizeof have),
                   compute_dtype_name(port->dtype),
                   compute_shape_text(expected, want, sizeof want));
}

/* Returns the graph's error, or the first error of an output. */
static compute_status check_graph(const compute_batch *batch, const compute_graph *graph,
                                  const compute_node *outputs, int64_t items) {
  if (!graph) return COMPUTE_ERROR_OUT_OF_MEMORY; /* compute_graph_create has reported it */
  compute_status status = compute_graph_status(graph);
  for (uint32_t i = 0; status == COMPUTE_OK && i < batch->output_count; i++)
    status = check_output(batch, graph, outputs[i], i, items);
  return status;
}

compute_status work_probe(compute_batch *batch) {
  compute_node inputs[COMPUTE_BATCH_MAX_PORTS], outputs[COMPUTE_BATCH_MAX_PORTS];
  /* Two items, since an axis of size 1 might be a different axis. But a builder for one item may
   * support no other number. */
  const int64_t items = batch->given == 1 ? 1 : 2;
  compute_graph *graph = record(batch, items, inputs, outputs);
  const compute_status status = check_graph(batch, graph, outputs, items);
  for (uint32_t i = 0; status == COMPUTE_OK && i < batch->output_count; i++) {
    const compute_shape shape = compute_node_shape(graph, outputs[i]);
    batch_port *port = &batch->outputs[i];
    port->dtype = compute_node_dtype(graph, outputs[i]);
    port->item = (compute_shape){.rank = shape.rank - 1};
    memcpy(port->item.size, shape.size + 1, (size_t)port->item.rank * sizeof *shape.size);
    port->bytes = (uint64_t)shape_count(port->item) * compute_dtype_size(port->dtype);
  }
  compute_graph_release(graph);
  return status;
}

/* ---- Plans --------------------------------------------------------------------------------- */

static compute_status compile(batch_work *work, int64_t items, batch_plan **result) {
  compute_batch *batch = work->batch;
  /* The pipelines divide the items. A plan placed on several devices would interfere with other
   * pipelines. */
  const uint32_t not_for_plans = COMPUTE_BATCH_ALL_DEVICES | COMPUTE_PLAN_AUTO;
  const compute_plan_options options = {.device = work->device,
                                        .fallback = batch->fallback,
                                        .flags = batch->flags & ~not_for_plans,
                                        .name = batch->name ? batch->name : "batch"};
  batch_plan *made = base_allocate(1, sizeof *made);
  if (!made)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a plan");
  made->items = items;
  compute_graph *graph = record(batch, items, made->inputs, made->outputs);
  compute_status status = check_graph(batch, graph, made->outputs, items);
  if (status == COMPUTE_OK) status = graph_replace_tensors(graph, choose_copy, work);
  if (status == COMPUTE_OK)
    status = compute_compile(graph, made->outputs, batch->output_count, &options, &made->plan);
  compute_graph_release(graph);
  if (status == COMPUTE_OK && made->plan->assigns)
    status = error_set_native(
        batch->context, COMPUTE_ERROR_UNSUPPORTED, 0, operation,
        "run the plan with compute_run, one batch at a time",
        "the graph assigns to a parameter, which overlapping batches do not allow");
  if (status == COMPUTE_OK)
    *result = made;
  else
    plan_free(made);
  return status;
}

/* The plan for `items` items, moved to the front of the list; NULL if there is none. */
static batch_plan *find_plan(batch_work *work, int64_t items) {
  batch_plan **link = &work->plans;
  while (*link && (*link)->items != items) link = &(*link)->next;
  batch_plan *found = *link;
  if (!found) return NULL;
  *link = found->next;
  found->next = work->plans;
  work->plans = found;
  return found;
}

/* The number of items changes at the end of a run and when devices share it, so plans come and go.
 * The device may still run the plans of the last few batches, but no plan that MOST_PLANS others
 * have followed. */
static void drop_surplus(batch_work *work) {
  enum { MOST_PLANS = 32 };
  batch_plan **link = &work->plans;
  for (int kept = 0; *link;) {
    batch_plan *plan = *link;
    if (kept++ < MOST_PLANS || plan->users > 0) {
      link = &plan->next;
      continue;
    }
    *link = plan->next;
    plan_free(plan);
  }
}

compute_status work_plan(batch_work *work, int64_t items, batch_plan **plan) {
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&work->mutex);
  batch_plan *found = find_plan(work, items);
  if (!found && (status = compile(work, items, &found)) == COMPUTE_OK) {
    found->next = work->plans;
    work->plans = found;
    drop_surplus(work);
  }
  if (found) found->users++;
  pthread_mutex_unlock(&work->mutex);
  *plan = found;
  return status;
}

void work_release(batch_work *work, batch_plan *plan) {
  pthread_mutex_lock(&work->mutex);
  plan->users--;
  pthread_mutex_unlock(&work->mutex);
}

/* ---- Submitting ---------------------------------------------------------------------------- */

static compute_status run_step(batch_work *work, int64_t first, int64_t items,
                               compute_tensor *const *inputs, compute_tensor *const *outputs,
                               compute_queue *queue) {
  compute_batch *batch = work->batch;
  compute_error error;
  const compute_status status =
      batch->step(batch->user, &(compute_batch_step){.queue = queue,
                                                     .device = work->device,
                                                     .first = first,
                                                     .items = items,
                                                     .inputs = inputs,
                                                     .outputs = outputs});
  if (status == COMPUTE_OK) return status;
  compute_error_get(batch->context, &error);
  if (error.status == status) return status;
  return error_set(batch->context, status, "compute_batch_run", "the step failed at item %lld: %s",
                   (long long)first, compute_status_text(status));
}

compute_status work_submit(batch_work *work, int64_t first, int64_t items,
                           compute_tensor *const *inputs, compute_tensor *const *outputs,
                           compute_queue *queue) {
  const compute_batch *batch = work->batch;
  if (batch->step) return run_step(work, first, items, inputs, outputs, queue);
  batch_plan *plan;
  compute_binding bindings[2 * COMPUTE_BATCH_MAX_PORTS];
  compute_status status = work_plan(work, items, &plan);
  if (status != COMPUTE_OK) return status;
  size_t count = 0;
  for (uint32_t i = 0; i < batch->input_count; i++)
    bindings[count++] = (compute_binding){.node = plan->inputs[i], .tensor = inputs[i]};
  for (uint32_t i = 0; i < batch->output_count; i++)
    bindings[count++] = (compute_binding){.node = plan->outputs[i], .tensor = outputs[i]};
  /* Strict: pipeline.c tries a smaller batch first, then the CPU. */
  status = compute_run_with(
      plan->plan, bindings, count,
      &(compute_run_options){.queue = queue, .fallback = COMPUTE_FALLBACK_STRICT}, NULL);
  work_release(work, plan);
  return status;
}
