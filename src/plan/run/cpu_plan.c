/* The clone keeps the numbers of its nodes and the serial of the graph, so that the caller's
 * bindings fit the plan made from it as they are. Nodes that the plan does not need are empty.
 *
 * Parameters on another device get a tensor of the CPU in the clone. It belongs to the twin, not to
 * a run, which is why runs of one twin take turns: they are a rescue, not a way to be fast. */
#include "plan/run/cpu_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

typedef struct staged_parameter {
  compute_tensor *original, *copy; /* a reference each; copy NULL until first needed */
  bool assigned;
} staged_parameter;

struct plan_twin {
  pthread_mutex_t mutex;
  compute_graph graph; /* the clone; it is no object of the context */
  uint32_t *outputs;
  uint32_t output_count, flags;
  staged_parameter *staged;
  uint32_t staged_count;
  compute_plan *plan; /* NULL until first needed */
};

static const char HERE[] = "compute_run";

static compute_status short_of_memory(const compute_context *context) {
  return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE,
                   "no memory for a plan's copy of its graph");
}

bool twin_is_wanted(const compute_plan *plan) {
  const compute_context *context = plan->context;
  return plan->fallback != COMPUTE_FALLBACK_STRICT && context->cpu != NULL &&
         plan->device[PLAN_MAIN] != context->cpu;
}

/* ---- The clone ---------------------------------------------------------------------------------
 */

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

/* Clones what `outputs` need; a node needs only earlier ones. */
static bool clone_nodes(plan_twin *twin, const compute_graph *graph) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < twin->output_count; i++)
    if (twin->outputs[i] > last) last = twin->outputs[i];
  size_t count = (size_t)last + 1;
  unsigned char *needed = base_allocate(count, 1);
  graph_node *nodes = base_allocate(count, sizeof *nodes);
  twin->graph.nodes = nodes;
  twin->graph.count = twin->graph.capacity = nodes ? count : 0;
  bool ok = needed && nodes;
  for (uint32_t i = 0; ok && i < twin->output_count; i++) needed[twin->outputs[i]] = 1;
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

/* The entry for a tensor that does not lie on the CPU. */
static staged_parameter *find_staged(const plan_twin *twin, compute_tensor *original) {
  const staged_parameter key = {.original = original};
  return twin->staged_count == 0
             ? NULL
             : bsearch(&key, twin->staged, twin->staged_count, sizeof *twin->staged, by_original);
}

static bool collect_parameters(plan_twin *twin) {
  const compute_graph *g = &twin->graph;
  size_t most = 0;
  for (size_t i = 0; i < g->count; i++) most += g->nodes[i].op == OP_parameter;
  if (most == 0) return true;
  twin->staged = base_allocate(most, sizeof *twin->staged);
  if (!twin->staged) return false;
  uint32_t count = 0, kept = 0;
  for (size_t i = 0; i < g->count; i++) {
    const graph_node *n = &g->nodes[i];
    if (n->op == OP_parameter && n->tensor->buffer->device != g->context->cpu)
      twin->staged[count++].original = n->tensor;
  }
  qsort(twin->staged, count, sizeof *twin->staged, by_original);
  for (uint32_t i = 0; i < count; i++)
    if (kept == 0 || twin->staged[kept - 1].original != twin->staged[i].original)
      twin->staged[kept++].original = compute_tensor_retain(twin->staged[i].original);
  twin->staged_count = kept;
  for (size_t i = 0; i < g->count; i++) {
    if (g->nodes[i].op != OP_assign) continue;
    staged_parameter *p = find_staged(twin, g->nodes[g->nodes[i].inputs[0]].tensor);
    if (p) p->assigned = true;
  }
  return true;
}

compute_status twin_create(const compute_graph *graph, const uint32_t *outputs, uint32_t count,
                           uint32_t flags, plan_twin **result) {
  plan_twin *twin = base_allocate(1, sizeof *twin);
  if (!twin) return short_of_memory(graph->context);
  pthread_mutex_init(&twin->mutex, NULL);
  twin->graph.context = graph->context;
  twin->graph.serial = graph->serial;
  twin->flags = flags;
  twin->outputs = base_allocate(count, sizeof *twin->outputs);
  bool ok = twin->outputs != NULL;
  if (ok) {
    memcpy(twin->outputs, outputs, count * sizeof *outputs);
    twin->output_count = count;
  }
  if (!ok || !clone_nodes(twin, graph) || !collect_parameters(twin)) {
    twin_release(twin);
    return short_of_memory(graph->context);
  }
  *result = twin;
  return COMPUTE_OK;
}

static void release_nodes(compute_graph *graph) {
  graph_truncate(graph, 0);
  base_release(graph->nodes);
  graph->nodes = NULL;
  graph->count = graph->capacity = 0;
}

void twin_release(plan_twin *twin) {
  if (!twin) return;
  compute_plan_release(twin->plan);
  release_nodes(&twin->graph);
  for (uint32_t i = 0; i < twin->staged_count; i++) {
    compute_tensor_release(twin->staged[i].original);
    compute_tensor_release(twin->staged[i].copy);
  }
  base_release(twin->staged);
  base_release(twin->outputs);
  pthread_mutex_destroy(&twin->mutex);
  base_release(twin);
}

/* ---- The run (mutex held) ----------------------------------------------------------------------
 */

/* What lies on the CPU, or has been replaced in an earlier attempt, stays. */
static compute_status choose_staged(void *user, compute_tensor *tensor, compute_tensor **copy) {
  const staged_parameter *p = find_staged(user, tensor);
  if (p) *copy = p->copy;
  return COMPUTE_OK;
}

/* A tensor of the CPU for each parameter that lies elsewhere, put into the clone in its place. */
static compute_status make_copies(plan_twin *twin) {
  compute_graph *g = &twin->graph;
  for (uint32_t i = 0; i < twin->staged_count; i++) {
    staged_parameter *p = &twin->staged[i];
    if (p->copy) continue;
    compute_status s =
        tensor_create_private(g->context->cpu, p->original->dtype, p->original->shape, &p->copy);
    if (s != COMPUTE_OK) return s;
  }
  return graph_replace_tensors(g, choose_staged, twin);
}

static compute_status make_plan(plan_twin *twin) {
  if (twin->plan) return COMPUTE_OK;
  compute_status s = make_copies(twin);
  if (s != COMPUTE_OK) return s;
  compute_node *nodes = base_allocate(twin->output_count, sizeof *nodes);
  if (!nodes) return short_of_memory(twin->graph.context);
  for (uint32_t i = 0; i < twin->output_count; i++)
    nodes[i] = graph_handle(&twin->graph, twin->outputs[i]);
  uint32_t kept = COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION;
  s = compute_compile(&twin->graph, nodes, twin->output_count,
                      &(compute_plan_options){.device = twin->graph.context->cpu,
                                              .fallback = COMPUTE_FALLBACK_STRICT,
                                              .flags = twin->flags & kept,
                                              .name = "repetition on the CPU"},
                      &twin->plan);
  base_release(nodes);
  return s;
}

/* Assigned parameters, back to where they belong. */
static compute_status store_parameters(const plan_twin *twin, bool *touched) {
  for (uint32_t i = 0; i < twin->staged_count; i++) {
    const staged_parameter *p = &twin->staged[i];
    if (!p->assigned) continue;
    *touched = true;
    compute_status s = compute_tensor_copy(p->original, p->copy);
    if (s != COMPUTE_OK) return s;
  }
  return COMPUTE_OK;
}

compute_status twin_run(plan_twin *twin, const compute_binding *bindings, size_t count,
                        const run_control *control, run_attempt *attempt) {
  *attempt = (run_attempt){0};
  pthread_mutex_lock(&twin->mutex);
  compute_status s = make_plan(twin);
  for (uint32_t i = 0; s == COMPUTE_OK && i < twin->staged_count; i++)
    s = compute_tensor_copy(twin->staged[i].copy, twin->staged[i].original);
  if (s == COMPUTE_OK) s = run_once(twin->plan, bindings, count, NULL, control, attempt);
  if (s == COMPUTE_OK) s = store_parameters(twin, &attempt->touched);
  pthread_mutex_unlock(&twin->mutex);
  return s;
}
