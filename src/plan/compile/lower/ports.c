/* SPDX-License-Identifier: MIT */
/* Ports. A parameter's new value is computed directly into the parameter on two conditions: its
 * kernel reads the old value only element by element, and every other reader runs earlier. If a
 * failed run may be repeated on the CPU, such kernels run last (order.c). */
#include "plan/compile/lower/lower.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

static compute_status short_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the plan's inputs and outputs");
}

static compute_status refuse_second_value(const lowering *l, uint32_t parameter) {
  const char *name = l->r->nodes[parameter].name;
  return error_set(l->plan->context, COMPUTE_ERROR_INVALID_ARGUMENT, "assign",
                   "parameter '%s' is assigned two different values", name ? name : "(unnamed)");
}

/* Collects all live assignments of nested groups, each once. */
static compute_status collect_assigns(lowering *l, port_plan *p) {
  const ir *r = l->r;
  uint32_t most = 0;
  for (uint32_t i = 0; i < r->count; i++) most += r->nodes[i].live && r->nodes[i].op == OP_assign;
  p->assigns = scratch_take(l->memory, most, sizeof *p->assigns);
  uint32_t *place = scratch_take(l->memory, r->count, sizeof *place); /* by parameter, from 1 */
  if (!p->assigns || !place) return short_of_memory(l);
  for (uint32_t i = 0; i < r->count; i++) {
    const ir_node *n = &r->nodes[i];
    if (!n->live || n->op != OP_assign) continue;
    const uint32_t parameter = n->inputs[0], value = n->inputs[1];
    if (place[parameter] == 0) {
      p->assigns[p->assign_count++] =
          (port_assign){.parameter = parameter, .value = value, .storage = IR_NONE};
      place[parameter] = p->assign_count;
    } else if (p->assigns[place[parameter] - 1].value != value) {
      return refuse_second_value(l, parameter);
    }
  }
  return COMPUTE_OK;
}

static int by_graph_index(const void *a, const void *b) {
  const port_output *x = a, *y = b;
  return x->graph_index < y->graph_index ? -1 : x->graph_index > y->graph_index;
}

static compute_status collect_outputs(lowering *l, const uint32_t *graph_outputs, uint32_t count,
                                      port_plan *p) {
  p->outputs = scratch_take(l->memory, count, sizeof *p->outputs);
  if (!p->outputs) return short_of_memory(l);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t node = l->r->outputs[i];
    if (ir_category(&l->r->nodes[node]) == CATEGORY_STATE) continue;
    p->outputs[kept++] = (port_output){.node = node, .graph_index = graph_outputs[i]};
  }
  qsort(p->outputs, kept, sizeof *p->outputs, by_graph_index);
  for (uint32_t i = 0; i < kept; i++) {
    if (i > 0 && p->outputs[i].graph_index == p->outputs[p->output_count - 1].graph_index)
      p->outputs[p->output_count - 1].repeats++;
    else
      p->outputs[p->output_count++] = p->outputs[i];
  }
  return COMPUTE_OK;
}

static uint64_t extent_bytes(const compute_tensor *t) {
  int64_t last = 0;
  for (int32_t i = 0; i < t->shape.rank; i++) {
    if (t->shape.size[i] == 0) return 0;
    last += (t->shape.size[i] - 1) * t->strides[i];
  }
  return (uint64_t)(last + 1) * compute_dtype_size(t->dtype);
}

static compute_status parameter_device(const lowering *l, const ir_node *n, uint32_t *device) {
  compute_plan *plan = l->plan;
  compute_device *lies = n->tensor->buffer->device;
  if (lies == plan->device[PLAN_MAIN]) {
    *device = PLAN_MAIN;
    return COMPUTE_OK;
  }
  if (lies == plan->context->cpu) {
    plan->device[PLAN_CPU] = lies;
    *device = PLAN_CPU;
    return COMPUTE_OK;
  }
  return error_set_native(plan->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0, "compute_compile",
                          "copy it with compute_tensor_to_device before building the graph",
                          "parameter '%s' is on %s, but the plan is for %s",
                          n->name ? n->name : "(unnamed)", lies->info.name,
                          plan->device[PLAN_MAIN]->info.name);
}

/* Creates slots and storages of inputs, outputs and parameters, in this order (plan.h relies on
 * it). */
static compute_status make_storages(lowering *l, port_plan *p) {
  compute_plan *plan = l->plan;
  uint32_t slot = 0;
  for (uint32_t i = 0; i < p->input_count; i++) {
    const ir_node *n = &l->r->nodes[p->inputs[i]];
    uint64_t bytes = (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
    l->home[p->inputs[i]] = storage_add(l, slot++, plan->port_device, bytes);
    if (l->home[p->inputs[i]] == IR_NONE) return short_of_memory(l);
  }
  for (uint32_t i = 0; i < p->output_count; i++) {
    const ir_node *n = &l->r->nodes[p->outputs[i].node];
    uint64_t bytes = (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
    p->outputs[i].storage = storage_add(l, slot++, plan->port_device, bytes);
    if (p->outputs[i].storage == IR_NONE) return short_of_memory(l);
  }
  for (uint32_t i = 0; i < p->parameter_count; i++) {
    const ir_node *n = &l->r->nodes[p->parameters[i]];
    uint32_t device = PLAN_MAIN;
    compute_status status = parameter_device(l, n, &device);
    if (status != COMPUTE_OK) return status;
    l->home[p->parameters[i]] = storage_add(l, slot++, device, extent_bytes(n->tensor));
    if (l->home[p->parameters[i]] == IR_NONE) return short_of_memory(l);
    l->storages[l->home[p->parameters[i]]].node = p->parameters[i];
  }
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) plan->constant_slot[d] = slot++;
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) plan->arena_slot[d] = slot++;
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) plan->thread_arena_slot[d] = slot++;
  plan->packed_slot = plan->slot_count = slot;
  for (uint32_t i = 0; i < p->assign_count; i++)
    p->assigns[i].storage = l->home[p->assigns[i].parameter];
  return COMPUTE_OK;
}

/* True if `reader`, in the cluster that computes the new value, reads the old value element by
 * element. Writing in place is then safe. */
static bool reads_in_step(const lowering *l, const cluster *c, uint32_t reader, uint32_t operand,
                          uint32_t parameter) {
  const layout *view = &l->f->layouts[operand], *whole = &l->f->layouts[parameter];
  const ir_node *p = &l->r->nodes[parameter];
  return l->f->part[reader] == PART_BODY && fuse_is_elementwise(&l->r->nodes[reader]) &&
         compute_shape_equal(l->r->nodes[operand].shape, p->shape) &&
         compute_shape_equal(l->r->nodes[c->root].shape, p->shape) && view->offset == 0 &&
         memcmp(view->stride, whole->stride, sizeof(int64_t) * (size_t)p->shape.rank) == 0;
}

/* One reader of a parameter: a node and the index of its input. */
typedef struct parameter_read {
  uint32_t node, input;
} parameter_read;

typedef struct parameter_reads {
  uint32_t *start;          /* by node: the start of its range in `at` */
  parameter_read *at;       /* in the order of the nodes */
  unsigned char *forbidden; /* by node: an output, or shares its buffer with another parameter */
} parameter_reads;

typedef void visit_read(parameter_reads *reads, uint32_t base, parameter_read read);

static void count_read(parameter_reads *reads, uint32_t base, parameter_read read) {
  (void)read;
  reads->start[base + 2]++;
}

static void note_read(parameter_reads *reads, uint32_t base, parameter_read read) {
  reads->at[reads->start[base + 1]++] = read;
}

static void visit_reads(const lowering *l, parameter_reads *reads, visit_read *visit) {
  for (uint32_t d = 0; d < l->r->count; d++) {
    const ir_node *n = &l->r->nodes[d];
    if (!n->live || (ir_category(n) == CATEGORY_VIEW && l->f->cluster_of[d] == IR_NONE)) continue;
    for (uint32_t k = n->op == OP_assign ? 1 : 0; k < n->input_count; k++) {
      const uint32_t base = l->f->layouts[n->inputs[k]].base;
      if (l->r->nodes[base].op == OP_parameter) visit(reads, base, (parameter_read){d, k});
    }
  }
}

typedef struct owned_buffer {
  const memory_buffer *buffer;
  uint32_t parameter;
} owned_buffer;

static int by_buffer(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const owned_buffer *)a)->buffer;
  const uintptr_t y = (uintptr_t)((const owned_buffer *)b)->buffer;
  return x < y ? -1 : x > y;
}

/* Finds the parameters that must not change while the steps run. */
static bool forbid(const lowering *l, const port_plan *p, parameter_reads *reads) {
  owned_buffer *owned = scratch_take(l->memory, p->parameter_count, sizeof *owned);
  if (!owned) return false;
  for (uint32_t i = 0; i < p->parameter_count; i++)
    owned[i] = (owned_buffer){l->r->nodes[p->parameters[i]].tensor->buffer, p->parameters[i]};
  qsort(owned, p->parameter_count, sizeof *owned, by_buffer);
  for (uint32_t i = 1; i < p->parameter_count; i++)
    if (owned[i].buffer == owned[i - 1].buffer)
      reads->forbidden[owned[i].parameter] = reads->forbidden[owned[i - 1].parameter] = 1;
  for (uint32_t i = 0; i < p->output_count; i++)
    reads->forbidden[l->f->layouts[p->outputs[i].node].base] = 1;
  return true;
}

static bool collect_parameter_reads(const lowering *l, const port_plan *p, parameter_reads *reads) {
  const uint32_t count = l->r->count;
  reads->start = scratch_take(l->memory, (size_t)count + 2, sizeof *reads->start);
  reads->forbidden = scratch_take(l->memory, count, 1);
  if (!reads->start || !reads->forbidden) return false;
  visit_reads(l, reads, count_read); /* counts, shifted by two; then starts, shifted by one */
  for (uint32_t i = 1; i < count + 2; i++) reads->start[i] += reads->start[i - 1];
  reads->at = scratch_take(l->memory, reads->start[count + 1], sizeof *reads->at);
  if (!reads->at) return false;
  visit_reads(l, reads, note_read);
  return forbid(l, p, reads);
}

/* True if all readers of the old value have read an element before the cluster that computes the
 * new value writes it. */
static bool readers_allow(const lowering *l, const port_assign *a, const parameter_reads *reads) {
  const uint32_t home = l->f->cluster_of[a->value];
  const cluster *c = &l->f->clusters[home];
  const uint32_t kernel = c->anchor == IR_NONE ? c->root : c->anchor;
  const bool in_place = ir_rule(&l->r->nodes[kernel])->in_place;
  for (uint32_t i = reads->start[a->parameter]; i < reads->start[a->parameter + 1]; i++) {
    const uint32_t d = reads->at[i].node, reader = l->f->cluster_of[d];
    if (reader == IR_NONE) return false; /* the old value is assigned to another parameter */
    const uint32_t operand = l->r->nodes[d].inputs[reads->at[i].input];
    if (reader == home ? !in_place || !reads_in_step(l, c, d, operand, a->parameter)
                       : l->f->clusters[reader].root > c->root)
      return false;
  }
  return true;
}

static bool can_assign_directly(const lowering *l, const port_assign *a,
                                const parameter_reads *reads) {
  const ir *r = l->r;
  uint32_t home = l->f->cluster_of[a->value];
  const ir_node *p = &r->nodes[a->parameter];
  if (home == IR_NONE || l->f->layouts[a->value].base != a->value ||
      (!l->places && l->storages[a->storage].device != PLAN_MAIN) || p->tensor->read_only ||
      !shape_is_dense(p->shape, p->tensor->strides))
    return false;
  if (!ir_rule(&r->nodes[l->f->clusters[home].root])->assigns) return false;
  return !reads->forbidden[a->parameter] && readers_allow(l, a, reads);
}

bool ports_is_whole(const lowering *l, uint32_t node) {
  const layout *lay = &l->f->layouts[node];
  const ir_node *n = &l->r->nodes[node], *base = &l->r->nodes[lay->base];
  return lay->offset == 0 && n->dtype == base->dtype && shape_is_dense(n->shape, lay->stride) &&
         shape_count(n->shape) == shape_count(base->shape);
}

/* Computes a node (for a view, its base) directly into the output's memory, if the output's
 * elements are then in row-major order. */
static void claim_output(lowering *l, const port_plan *p, uint32_t node, uint32_t output) {
  if (l->target[node] == IR_NONE && l->f->cluster_of[node] != IR_NONE)
    l->target[node] = p->outputs[output].storage;
}

/* Decides which results are computed in place, and marks clusters that must run late. */
static compute_status claim_targets(lowering *l, const port_plan *p, unsigned char *late) {
  parameter_reads reads = {0};
  if (p->assign_count > 0 && !collect_parameter_reads(l, p, &reads)) return short_of_memory(l);
  for (uint32_t i = 0; i < p->assign_count; i++) {
    const port_assign *a = &p->assigns[i];
    if (l->target[a->value] != IR_NONE || !can_assign_directly(l, a, &reads)) continue;
    l->target[a->value] = a->storage;
    late[l->f->cluster_of[a->value]] = 1;
  }
  for (uint32_t i = 0; i < p->output_count; i++)
    if (shape_is_dense(l->r->nodes[p->outputs[i].node].shape,
                       l->f->layouts[p->outputs[i].node].stride))
      claim_output(l, p, p->outputs[i].node, i);
  for (uint32_t i = 0; i < p->output_count; i++)
    if (ports_is_whole(l, p->outputs[i].node))
      claim_output(l, p, l->f->layouts[p->outputs[i].node].base, i);
  return COMPUTE_OK;
}

compute_status ports_collect(lowering *l, const uint32_t *graph_outputs, uint32_t count,
                             port_plan *p) {
  const ir *r = l->r;
  *p = (port_plan){0};
  p->inputs = scratch_take(l->memory, r->count, sizeof *p->inputs);
  p->parameters = scratch_take(l->memory, r->count, sizeof *p->parameters);
  p->order = scratch_take(l->memory, l->f->cluster_count, sizeof *p->order);
  unsigned char *late = scratch_take(l->memory, l->f->cluster_count, 1);
  if (!p->inputs || !p->parameters || !p->order || !late) return short_of_memory(l);
  for (uint32_t i = 0; i < r->count; i++) {
    if (!r->nodes[i].live) continue;
    if (r->nodes[i].op == OP_input) p->inputs[p->input_count++] = i;
    if (r->nodes[i].op == OP_parameter) p->parameters[p->parameter_count++] = i;
  }
  compute_status status = collect_assigns(l, p);
  if (status == COMPUTE_OK) status = collect_outputs(l, graph_outputs, count, p);
  if (status == COMPUTE_OK) status = make_storages(l, p);
  if (status == COMPUTE_OK) status = claim_targets(l, p, late);
  return status == COMPUTE_OK ? order_clusters(l, p, late) : status;
}
