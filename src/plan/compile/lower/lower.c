/* SPDX-License-Identifier: MIT */
/* Creates the steps in execution order and the storage of every value.
 *
 * A stored value lives in an arena, with two exceptions. An output is computed directly into the
 * caller's tensor. The new value of a parameter is computed directly into the parameter if no later
 * step reads the old value. */
#include "plan/compile/lower/lower.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/device/collector.h"
#include "core/device/transfer.h"
#include "plan/compile/dump/dump.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

static compute_status short_of_memory(const lowering *l) {
  return error_set(l->plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for the steps of the plan");
}

static uint32_t *numbers_take(const lowering *l) {
  uint32_t *numbers = scratch_take(l->memory, l->r->count, sizeof *numbers);
  if (numbers) memset(numbers, 0xff, sizeof *numbers * l->r->count);
  return numbers;
}

compute_status lower_begin(lowering *l) {
  l->home = numbers_take(l);
  l->copy = numbers_take(l);
  l->target = numbers_take(l);
  l->values = numbers_take(l);
  return l->home && l->copy && l->target && l->values ? COMPUTE_OK : short_of_memory(l);
}

static build_step *step_add(lowering *l) {
  if (l->step_count == l->step_capacity) {
    uint32_t capacity = l->step_capacity ? l->step_capacity * 2 : 32;
    build_step *grown = scratch_take(l->memory, capacity, sizeof *grown);
    if (!grown) return NULL;
    if (l->step_count) memcpy(grown, l->steps, sizeof *grown * l->step_count);
    l->steps = grown;
    l->step_capacity = capacity;
  }
  build_step *s = &l->steps[l->step_count++];
  *s = (build_step){.checked = IR_NONE, .like = IR_NONE, .micro_batches = 1};
  return s;
}

static uint64_t node_bytes(const ir_node *n) {
  return (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype);
}

/* Extends a storage's lifetime to the newest step. */
static void touch(lowering *l, uint32_t id) {
  storage_touch(l, id, l->step_count - 1);
}

static compute_status add_transfer(lowering *l, uint32_t from, uint32_t to) {
  uint64_t bytes = l->storages[from].bytes;
  if (bytes == 0) return COMPUTE_OK;
  build_step *s = step_add(l);
  if (!s) return short_of_memory(l);
  s->device = l->storages[to].device;
  s->input_count = 1;
  s->operand_count = 2;
  s->operand[0].storage = from;
  s->operand[1].storage = to;
  s->bytes = s->bytes_read = s->bytes_written = bytes;
  s->text = s->device == PLAN_CPU ? "transfer to the CPU" : "transfer from the CPU";
  s->shape = "";
  touch(l, from);
  touch(l, to);
  return COMPUTE_OK;
}

static uint32_t constant_storage(lowering *l, const ir_node *n, uint32_t device) {
  constant_piece *piece = scratch_take(l->memory, 1, sizeof *piece);
  if (!piece) return IR_NONE;
  uint64_t size = compute_dtype_size(n->dtype);
  *piece = (constant_piece){.next = l->constant_pieces,
                            .values = n->constant,
                            .bytes = n->uniform ? size : node_bytes(n),
                            .offset = l->constant_bytes[device],
                            .device = device};
  l->constant_bytes[device] += (piece->bytes + 63) / 64 * 64;
  l->constant_pieces = piece;
  uint32_t id = storage_add(l, l->plan->constant_slot[device], device, piece->bytes);
  if (id == IR_NONE) return id;
  l->storages[id].offset = piece->offset;
  l->storages[id].node = (uint32_t)(n - l->r->nodes);
  return id;
}

/* Finds the storage of base node `node` on `device`. Adds a transfer if necessary. */
static compute_status storage_on(lowering *l, uint32_t node, uint32_t device, uint32_t *id) {
  const ir_node *n = &l->r->nodes[node];
  bool constant = n->op == OP_constant;
  uint32_t home = l->home[node];
  if (home != IR_NONE && l->storages[home].device == device) {
    *id = home;
    return COMPUTE_OK;
  }
  if (l->copy[node] == IR_NONE) {
    uint32_t made = constant ? constant_storage(l, n, device)
                             : storage_add(l, IR_NONE, device, l->storages[home].bytes);
    if (made == IR_NONE) return short_of_memory(l);
    if (constant && home == IR_NONE)
      l->home[node] = made;
    else
      l->copy[node] = made;
    *id = made;
    return constant ? COMPUTE_OK : add_transfer(l, home, made);
  }
  *id = l->copy[node];
  return COMPUTE_OK;
}

static bool is_empty(const compute_kernel_descriptor *d) {
  for (int32_t i = 0; i < kernel_output_rank(d); i++)
    if (d->size[i] == 0) return true;
  return false;
}

/* True if the input has exactly the layout of the first output, so the output may overwrite it. */
static bool lies_like_output(const kernel_draft *d, uint32_t input) {
  return d->input_offset[input] == 0 && d->output_offset[0] == 0 &&
         memcmp(d->inputs[input].stride, d->outputs[0].stride,
                sizeof(int64_t) * (size_t)d->descriptor.rank) == 0;
}

/* The device of a kernel and the explanation. */
typedef struct decision {
  uint32_t device;
  const char *placement, *reason; /* as in build_step */
  bool fallback;
} decision;

/* Adds a step for the draft. If `source` is not IR_NONE, it replaces the storage of input 0. */
static compute_status add_kernel(lowering *l, const kernel_draft *d, const decision *where,
                                 uint32_t source, const uint32_t *output_storage) {
  uint32_t device = where->device;
  const compute_kernel_descriptor *k = &d->descriptor;
  step_operand operand[COMPUTE_MAX_OPERANDS];
  for (uint32_t i = 0; i < k->input_count; i++) {
    compute_status status = COMPUTE_OK;
    if (i == 0 && source != IR_NONE)
      operand[i].storage = source;
    else
      status = storage_on(l, d->input_node[i], device, &operand[i].storage);
    if (status != COMPUTE_OK) return status;
    operand[i].offset = (uint64_t)d->input_offset[i] * compute_dtype_size(d->inputs[i].dtype);
  }
  for (uint32_t i = 0; i < k->output_count; i++) {
    operand[k->input_count + i].storage = output_storage[i];
    operand[k->input_count + i].offset =
        (uint64_t)d->output_offset[i] * compute_dtype_size(d->outputs[i].dtype);
  }
  build_step *s = step_add(l);
  if (!s) return short_of_memory(l);
  s->device = device;
  s->kind = k->kind;
  s->input_count = k->input_count;
  s->operand_count = k->input_count + k->output_count;
  memcpy(s->operand, operand, sizeof *operand * s->operand_count);
  s->operations = d->operations;
  s->placement = where->placement;
  s->reason = where->reason;
  s->fallback = where->fallback;
  s->call = k->kind == COMPUTE_KERNEL_CALL ? compute_call_of(k)->call : NULL;
  for (uint32_t i = 0; i < k->input_count; i++) s->in_place[i] = lies_like_output(d, i);
  s->plain_copy =
      k->kind == COMPUTE_KERNEL_COPY && s->in_place[0] && d->inputs[0].dtype == d->outputs[0].dtype;
  s->first_in_place = s->plain_copy ? 0 : kernel_first_in_place(k);
  for (uint32_t i = 0; i < s->operand_count; i++) touch(l, s->operand[i].storage);
  compute_kernel_descriptor wanted = *k;
  pack_attributes attributes;
  wanted.constant_inputs = s->constant_inputs = pack_find_constants(l, k, s);
  pack_let_saturate(l, s, &wanted, &attributes);
  compute_status status = kernel_cache_get(l->plan->device[device]->kernels, &wanted, &s->kernel);
  if (status != COMPUTE_OK) {
    l->step_count--;
    return status;
  }
  return step_describe(l, k, s) ? COMPUTE_OK : short_of_memory(l);
}

/* True if the CPU can take over after this refusal. */
static bool is_refusal(compute_status status) {
  return status == COMPUTE_ERROR_UNSUPPORTED || status == COMPUTE_ERROR_COMPILATION ||
         status == COMPUTE_ERROR_LAUNCH;
}

/* Checks if the plan's device supports a kernel: returns COMPUTE_OK or the refusal, with a reason.
 * A device with a compiler may support a kernel but fail to build it. So the kernel is built here,
 * and add_kernel then finds it in the device's cache. A cached kernel skips the support check,
 * which would generate the kernel's source on such a device. */
static compute_status ask_device(const lowering *l, const compute_kernel_descriptor *descriptor,
                                 char *reason, size_t reason_bytes) {
  compute_device *main = l->plan->device[PLAN_MAIN];
  bool native = main == l->plan->context->cpu;
  kernel_entry *kernel = native ? NULL : kernel_cache_find(main->kernels, descriptor);
  compute_status status = COMPUTE_OK;
  compute_error before;
  if (!kernel && !kernel_is_supported(main, descriptor, reason, reason_bytes))
    return COMPUTE_ERROR_UNSUPPORTED;
  if (native) return COMPUTE_OK;
  compute_error_get(NULL, &before);
  if (!kernel) status = kernel_cache_get(main->kernels, descriptor, &kernel);
  if (status == COMPUTE_OK) kernel_cache_return(main->kernels, kernel);
  if (!is_refusal(status)) return status;
  snprintf(reason, reason_bytes, "%s", compute_error_message(l->plan->context));
  error_restore(NULL, &before); /* the plan may still compile */
  return status;
}

/* Places a step on the CPU, if the fallback policy allows it. */
static compute_status fall_back(lowering *l, const char *operation, compute_status status,
                                const char *reason, decision *where) {
  compute_plan *p = l->plan;
  compute_context *context = p->context;
  const char *name = p->device[PLAN_MAIN]->info.name;
  if (l->fallback == COMPUTE_FALLBACK_STRICT || !context->cpu ||
      context->cpu == p->device[PLAN_MAIN])
    return error_set_native(context, status, 0, operation,
                            "allow the fallback to the CPU in compute_plan_options, or choose "
                            "another device",
                            "%s cannot run it: %s", name, reason);
  fallback_note(context, p->device[PLAN_MAIN], FALLBACK_STEP_ON_CPU,
                l->fallback == COMPUTE_FALLBACK_WARN,
                "%s runs on the CPU, because %s does not support it: %s", operation, name, reason);
  p->device[PLAN_CPU] = context->cpu;
  where->device = PLAN_CPU;
  where->fallback = true;
  size_t bytes = strlen(reason) + strlen(name) + 16;
  char *words = scratch_take(l->memory, bytes, 1);
  if (!words) return short_of_memory(l);
  snprintf(words, bytes, "%s: %s", name, reason);
  where->placement = words;
  return COMPUTE_OK;
}

/* Places a step that only the CPU can run. */
static compute_status place_on_host(lowering *l, decision *where) {
  compute_plan *p = l->plan;
  if (!p->context->cpu)
    return error_set_native(p->context, COMPUTE_ERROR_UNSUPPORTED, 0, "call",
                            "open the context with the CPU module as well",
                            "call: functions run on the CPU, which the context does not have");
  if (p->device[PLAN_MAIN] == p->context->cpu) return COMPUTE_OK;
  p->device[PLAN_CPU] = p->context->cpu;
  where->device = PLAN_CPU;
  where->reason = "a caller's function runs on the CPU";
  return COMPUTE_OK;
}

/* Chooses the device of a cluster: the one from placement by cost, otherwise the plan's device if
 * it supports the cluster. */
static compute_status place(lowering *l, uint32_t index, kernel_draft *d, decision *where) {
  char reason[512] = "";
  const cluster *c = &l->f->clusters[index];
  *where = (decision){.device = PLAN_MAIN};
  if (!l->places && ir_rule(&l->r->nodes[c->root])->on_host) return place_on_host(l, where);
  if (l->places) {
    where->device = l->places[index].device;
    where->reason = l->places[index].reason;
  }
  for (uint32_t part = 0; draft_cluster(l, index, part, d); part++) {
    if (d->prologue.full || d->epilogue.full)
      return error_set(l->plan->context, COMPUTE_ERROR_INTERNAL, "compute_compile",
                       "a fused kernel has more than %d instructions", COMPUTE_MAX_INSTRUCTIONS);
    if (is_empty(&d->descriptor) || where->device == PLAN_CPU) continue;
    compute_status status = ask_device(l, &d->descriptor, reason, sizeof reason);
    if (status == COMPUTE_OK) continue;
    if (!is_refusal(status)) return status;
    return fall_back(l, graph_op_describe(l->r->nodes[l->f->clusters[index].root].op)->name, status,
                     reason, where);
  }
  return COMPUTE_OK;
}

/* Gives every stored member of a cluster its storage on the device that computes it. The first
 * kernel that writes within another node's result defines this one. */
static compute_status define_outputs(lowering *l, const cluster *c, uint32_t device) {
  for (uint32_t m = 0; m < c->member_count; m++) {
    const uint32_t member = c->members[m];
    if (!l->f->stored[member]) continue;
    const uint32_t node = l->f->within[member] == IR_NONE ? member : l->f->within[member];
    uint32_t target = l->target[node];
    bool direct = target != IR_NONE && l->storages[target].device == device;
    if (l->home[node] == IR_NONE)
      l->home[node] =
          direct ? target : storage_add(l, IR_NONE, device, node_bytes(&l->r->nodes[node]));
    if (l->home[node] == IR_NONE) return short_of_memory(l);
    l->home[member] = l->home[node];
  }
  return COMPUTE_OK;
}

/* Returns the cluster's name in messages: the operation around which it was fused. */
static const char *cluster_operation(const lowering *l, const cluster *c) {
  return graph_op_describe(l->r->nodes[c->anchor == IR_NONE ? c->root : c->anchor].op)->name;
}

/* Labels the step just added by add_kernel with its cluster. */
static void label_step(lowering *l, const cluster *c, const kernel_draft *d) {
  build_step *s = &l->steps[l->step_count - 1];
  s->operation = cluster_operation(l, c);
  if (d->checks_indices) s->checked = c->root;
}

static compute_status lower_cluster(lowering *l, uint32_t index, kernel_draft *d) {
  const cluster *c = &l->f->clusters[index];
  decision where;
  compute_status status = place(l, index, d, &where);
  if (status == COMPUTE_OK) status = define_outputs(l, c, where.device);
  for (uint32_t part = 0; status == COMPUTE_OK && draft_cluster(l, index, part, d); part++) {
    if (is_empty(&d->descriptor)) continue;
    uint32_t outputs[COMPUTE_MAX_OPERANDS];
    for (uint32_t i = 0; i < d->descriptor.output_count; i++)
      outputs[i] = l->home[d->output_node[i]];
    status = add_kernel(l, d, &where, IR_NONE, outputs);
    if (status == COMPUTE_OK) label_step(l, c, d);
    where.placement = where.reason = NULL; /* logged once */
  }
  if (status != COMPUTE_OK) error_attribute(l->plan->context, cluster_operation(l, c));
  return status;
}

/* Finds a storage on `device` with the contents of `from`; adds a transfer if necessary. */
static compute_status bring(lowering *l, uint32_t from, uint32_t device, uint32_t *result) {
  *result = from;
  if (l->storages[from].device == device) return COMPUTE_OK;
  *result = storage_add(l, IR_NONE, device, l->storages[from].bytes);
  return *result == IR_NONE ? short_of_memory(l) : add_transfer(l, from, *result);
}

/* Returns the device that copies `node` into `target`: the plan's device or, in an automatically
 * placed plan, the device that stores the elements. */
static uint32_t copier(const lowering *l, uint32_t node, uint32_t source, uint32_t target) {
  if (!l->places) return PLAN_MAIN;
  uint32_t home = source != IR_NONE ? source : l->home[l->f->layouts[node].base];
  return l->storages[home != IR_NONE ? home : target].device;
}

/* True if `target` already contains the node's elements densely, as the node itself or as a view of
 * a value computed there. */
static bool lies_in(const lowering *l, uint32_t node, uint32_t target) {
  const layout *lay = &l->f->layouts[node];
  return l->home[lay->base] == target && ports_is_whole(l, node);
}

/* Writes node's elements into `target`, densely or along `strides`. It reads them from the node's
 * storage. If `source` is not IR_NONE, it reads them from that storage, where they are dense. */
static compute_status store(lowering *l, uint32_t node, uint32_t source, uint32_t target,
                            const int64_t *strides, kernel_draft *d) {
  const ir_node *n = &l->r->nodes[node];
  if (shape_count(n->shape) == 0) return COMPUTE_OK;
  bool whole = l->f->layouts[node].base == node && n->op != OP_constant && n->op != OP_parameter;
  if (whole && source == IR_NONE && !strides &&
      l->storages[l->home[node]].device != l->storages[target].device)
    return add_transfer(l, l->home[node], target);
  if (fuse_is_immediate(n))
    draft_fill(l, node, ir_uniform_value(n), d);
  else
    draft_copy(l, node, d);
  if (strides) memcpy(d->outputs[0].stride, strides, sizeof d->outputs[0].stride);
  if (source != IR_NONE) {
    shape_dense_strides(n->shape, d->inputs[0].stride);
    d->input_offset[0] = 0;
  }
  char reason[512] = "";
  uint32_t to = target;
  decision where = {.device = copier(l, node, source, target)};
  compute_status status = COMPUTE_OK;
  if (where.device == PLAN_MAIN) status = ask_device(l, &d->descriptor, reason, sizeof reason);
  if (is_refusal(status)) status = fall_back(l, "copy", status, reason, &where);
  const uint32_t device = where.device;
  if (status == COMPUTE_OK && source != IR_NONE) status = bring(l, source, device, &source);
  /* A strided target has other elements in between that must survive: fetch them first. */
  if (status == COMPUTE_OK && l->storages[target].device != device) {
    if (strides)
      status = bring(l, target, device, &to);
    else if ((to = storage_add(l, IR_NONE, device, node_bytes(n))) == IR_NONE)
      status = short_of_memory(l);
  }
  if (status == COMPUTE_OK) status = add_kernel(l, d, &where, source, &to);
  return status == COMPUTE_OK && to != target ? add_transfer(l, to, target) : status;
}

/* Stores outputs that were not computed in place, then parameters. A new value that is (a view of)
 * a parameter is first copied aside, so that assignments cannot disturb each other. */
static compute_status store_results(lowering *l, const port_plan *ports, kernel_draft *d) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; status == COMPUTE_OK && i < ports->output_count; i++)
    if (!lies_in(l, ports->outputs[i].node, ports->outputs[i].storage))
      status = store(l, ports->outputs[i].node, IR_NONE, ports->outputs[i].storage, NULL, d);
  uint32_t *aside = scratch_take(l->memory, ports->assign_count, sizeof *aside);
  if (!aside) return short_of_memory(l);
  for (uint32_t i = 0; status == COMPUTE_OK && i < ports->assign_count; i++) {
    uint32_t value = ports->assigns[i].value;
    aside[i] = IR_NONE;
    if (l->r->nodes[l->f->layouts[value].base].op != OP_parameter) continue;
    uint32_t device = l->places ? l->storages[ports->assigns[i].storage].device : PLAN_MAIN;
    aside[i] = storage_add(l, IR_NONE, device, node_bytes(&l->r->nodes[value]));
    status = aside[i] == IR_NONE ? short_of_memory(l) : store(l, value, IR_NONE, aside[i], NULL, d);
  }
  for (uint32_t i = 0; status == COMPUTE_OK && i < ports->assign_count; i++) {
    const port_assign *a = &ports->assigns[i];
    if (aside[i] == IR_NONE && l->home[a->value] == a->storage) continue;
    status = store(l, a->value, aside[i], a->storage, l->f->layouts[a->parameter].stride, d);
  }
  return status;
}

static const struct {
  compute_status (*run)(lowering *l);
  plan_pass name;
} passes[] = {{pools_join, PASS_POOLS},         {residuals_join, PASS_RESIDUALS},
              {micro_batches_cut, PASS_SLICES}, {row_tiles_cut, PASS_BANDS},
              {pack_constants, PASS_PACK},      {arena_place, PASS_ARENA}};

compute_status lower_all(lowering *l, const port_plan *ports) {
  kernel_draft *draft = scratch_take(l->memory, 1, sizeof *draft);
  if (!draft) return short_of_memory(l);
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; status == COMPUTE_OK && i < l->f->cluster_count; i++)
    status = lower_cluster(l, ports->order[i], draft);
  if (status == COMPUTE_OK) status = store_results(l, ports, draft);
  if (status == COMPUTE_OK) pass_log_steps(l, PASS_LOWER);
  for (size_t i = 0; status == COMPUTE_OK && i < sizeof passes / sizeof *passes; i++) {
    status = passes[i].run(l);
    if (status == COMPUTE_OK) pass_log_steps(l, passes[i].name);
  }
  return status;
}

void lower_abandon(lowering *l) {
  for (uint32_t i = 0; i < l->step_count; i++)
    if (l->steps[i].kernel)
      kernel_cache_return(l->plan->device[l->steps[i].device]->kernels, l->steps[i].kernel);
  l->step_count = 0;
}
