/* SPDX-License-Identifier: MIT */
/* The CPU copy of a plan, for repeating failed runs. The cloned graph keeps the node indices and
 * the serial of the original, so the caller's bindings stay valid. Nodes that the plan does not
 * need are empty.
 *
 * A parameter on another device gets a CPU tensor in the clone. The tensor belongs to the CPU plan
 * and not to a run, so fallback runs take turns: a fallback need not be fast. */

#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "plan/compile/run/run.h"
#include "graph/node/graph.h"
#include "core/tensor/tensor.h"

static const char operation[] = "compute_run";

static compute_status short_of_memory(const compute_context *context) {
  return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a plan's copy of its graph");
}

uint64_t cpu_plan_bytes(const cpu_plan *cpu) {
  return cpu ? sizeof *cpu + cpu->graph.capacity * sizeof *cpu->graph.nodes : 0;
}

bool cpu_plan_is_wanted(const compute_plan *plan) {
  const compute_context *context = plan->context;
  return plan->fallback != COMPUTE_FALLBACK_STRICT && context->cpu &&
         plan->device[PLAN_MAIN] != context->cpu;
}

/* ---- The clone ------------------------------------------------------------------------------- */

static bool clone_node(const graph_node *from, graph_node *to) {
  *to = *from;
  to->name = NULL;
  to->constant = NULL;
  to->tensor = NULL;
  to->inputs = NULL;
  to->input_count = 0;
  if (from->input_count > 0) {
    to->inputs = base_allocate(from->input_count, sizeof *to->inputs);
    if (!to->inputs) return false;
    memcpy(to->inputs, from->inputs, from->input_count * sizeof *to->inputs);
    to->input_count = from->input_count;
  }
  if (from->name && !(to->name = base_duplicate(from->name))) return false;
  to->constant = graph_constant_retain(from->constant);
  to->tensor = compute_tensor_retain(from->tensor);
  return true;
}

/* Clones the nodes that `outputs` need; a node depends only on earlier nodes. */
static bool clone_nodes(cpu_plan *cpu, const compute_graph *graph) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < cpu->output_count; i++)
    if (cpu->outputs[i] > last) last = cpu->outputs[i];
  size_t count = (size_t)last + 1;
  unsigned char *needed = base_allocate(count, 1);
  graph_node *nodes = base_allocate(count, sizeof *nodes);
  cpu->graph.nodes = nodes;
  cpu->graph.count = cpu->graph.capacity = nodes ? count : 0;
  bool ok = needed && nodes;
  for (uint32_t i = 0; ok && i < cpu->output_count; i++) needed[cpu->outputs[i]] = 1;
  for (size_t i = count; ok && i-- > 0;) {
    if (!needed[i]) continue;
    const graph_node *from = &graph->nodes[i];
    for (uint32_t k = 0; k < from->input_count; k++) needed[from->inputs[k]] = 1;
    ok = clone_node(from, &nodes[i]);
  }
  base_release(needed);
  return ok;
}

static int by_original(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const staged_parameter *)a)->original;
  const uintptr_t y = (uintptr_t)((const staged_parameter *)b)->original;
  return x < y ? -1 : x > y;
}

/* Returns the entry for a parameter that is not on the CPU, or NULL. */
static staged_parameter *find_staged(const cpu_plan *cpu, compute_tensor *original) {
  const staged_parameter key = {.original = original};
  return cpu->staged_count == 0
             ? NULL
             : bsearch(&key, cpu->staged, cpu->staged_count, sizeof *cpu->staged, by_original);
}

static bool collect_parameters(cpu_plan *cpu) {
  const compute_graph *g = &cpu->graph;
  size_t most = 0;
  for (size_t i = 0; i < g->count; i++) most += g->nodes[i].op == OP_parameter;
  if (most == 0) return true;
  cpu->staged = base_allocate(most, sizeof *cpu->staged);
  if (!cpu->staged) return false;
  uint32_t count = 0, kept = 0;
  for (size_t i = 0; i < g->count; i++) {
    const graph_node *n = &g->nodes[i];
    if (n->op == OP_parameter && n->tensor->buffer->device != g->context->cpu)
      cpu->staged[count++].original = n->tensor;
  }
  qsort(cpu->staged, count, sizeof *cpu->staged, by_original);
  for (uint32_t i = 0; i < count; i++)
    if (kept == 0 || cpu->staged[kept - 1].original != cpu->staged[i].original)
      cpu->staged[kept++].original = compute_tensor_retain(cpu->staged[i].original);
  cpu->staged_count = kept;
  for (size_t i = 0; i < g->count; i++) {
    if (g->nodes[i].op != OP_assign) continue;
    staged_parameter *p = find_staged(cpu, g->nodes[g->nodes[i].inputs[0]].tensor);
    if (p) p->assigned = true;
  }
  return true;
}

compute_status cpu_plan_create(const compute_graph *graph, const uint32_t *outputs, uint32_t count,
                               uint32_t flags, cpu_plan **result) {
  cpu_plan *cpu = base_allocate(1, sizeof *cpu);
  if (!cpu) return short_of_memory(graph->context);
  pthread_mutex_init(&cpu->mutex, NULL);
  cpu->graph.context = graph->context;
  cpu->graph.serial = graph->serial;
  cpu->flags = flags;
  cpu->outputs = base_allocate(count, sizeof *cpu->outputs);
  bool ok = cpu->outputs != NULL;
  if (ok) {
    memcpy(cpu->outputs, outputs, count * sizeof *outputs);
    cpu->output_count = count;
  }
  if (!ok || !clone_nodes(cpu, graph) || !collect_parameters(cpu)) {
    cpu_plan_release(cpu);
    return short_of_memory(graph->context);
  }
  *result = cpu;
  return COMPUTE_OK;
}

static void release_nodes(compute_graph *graph) {
  graph_truncate(graph, 0);
  base_release(graph->nodes);
  graph->nodes = NULL;
  graph->count = graph->capacity = 0;
}

void cpu_plan_release(cpu_plan *cpu) {
  if (!cpu) return;
  compute_plan_release(cpu->plan);
  release_nodes(&cpu->graph);
  for (uint32_t i = 0; i < cpu->staged_count; i++) {
    compute_tensor_release(cpu->staged[i].original);
    compute_tensor_release(cpu->staged[i].copy);
  }
  base_release(cpu->staged);
  base_release(cpu->outputs);
  pthread_mutex_destroy(&cpu->mutex);
  base_release(cpu);
}

/* ---- Parameters (mutex held) ----------------------------------------------------------------- */

/* Keeps parameters on the CPU and those replaced in an earlier attempt. */
static compute_status choose_staged(void *user, compute_tensor *tensor, compute_tensor **copy) {
  const staged_parameter *p = find_staged(user, tensor);
  if (p) *copy = p->copy;
  return COMPUTE_OK;
}

compute_status cpu_plan_stage(cpu_plan *cpu) {
  compute_graph *g = &cpu->graph;
  for (uint32_t i = 0; i < cpu->staged_count; i++) {
    staged_parameter *p = &cpu->staged[i];
    if (p->copy) continue;
    compute_status status =
        tensor_create_private(g->context->cpu, p->original->dtype, p->original->shape, &p->copy);
    if (status != COMPUTE_OK) return status;
  }
  return graph_replace_tensors(g, choose_staged, cpu);
}
