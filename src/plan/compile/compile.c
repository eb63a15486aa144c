/* SPDX-License-Identifier: MIT */
/* Compiling a graph: runs the passes in order and builds the plan from their results. */
#include "plan/compile/plan.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/device/transfer.h"
#include "plan/compile/dump/dump.h"
#include "plan/compile/capture/ir.h"
#include "plan/compile/lower/lower.h"
#include "plan/compile/fuse/fuse.h"
#include "plan/compile/run/run.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

#define MAX_OUTPUTS 1024

static compute_status short_of_memory(const compute_plan *plan) {
  return error_set(plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                   "not enough memory for a plan");
}

static compute_status make_port(compute_plan *plan, plan_port *port, const ir *r, uint32_t node,
                                uint32_t graph_index, uint32_t repeats) {
  const ir_node *n = &r->nodes[node];
  const char *name = r->graph->nodes[graph_index].name;
  *port = (plan_port){.node = graph_index,
                      .repeats = repeats,
                      .dtype = n->dtype,
                      .shape = n->shape,
                      .bytes = (uint64_t)shape_count(n->shape) * compute_dtype_size(n->dtype)};
  if (name && (port->name = base_duplicate(name)) == NULL) return short_of_memory(plan);
  return COMPUTE_OK;
}

static compute_status copy_ports(compute_plan *plan, const ir *r, const port_plan *p) {
  plan->ports = base_allocate((uint64_t)p->input_count + p->output_count, sizeof *plan->ports);
  plan->parameters = base_allocate(p->parameter_count, sizeof *plan->parameters);
  if (!plan->ports || !plan->parameters) return short_of_memory(plan);
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; status == COMPUTE_OK && i < p->input_count; i++) {
    plan->input_count++;
    status = make_port(plan, &plan->ports[i], r, p->inputs[i], r->nodes[p->inputs[i]].source, 0);
  }
  for (uint32_t i = 0; status == COMPUTE_OK && i < p->output_count; i++) {
    plan->output_count++;
    plan->repeat_count += p->outputs[i].repeats;
    status = make_port(plan, &plan->ports[p->input_count + i], r, p->outputs[i].node,
                       p->outputs[i].graph_index, p->outputs[i].repeats);
  }
  for (uint32_t i = 0; status == COMPUTE_OK && i < p->parameter_count; i++)
    plan->parameters[plan->parameter_count++] =
        compute_tensor_retain(r->nodes[p->parameters[i]].tensor);
  plan->assigns = p->assign_count > 0;
  return status;
}

static compute_status copy_step(compute_plan *plan, const lowering *l, build_step *from,
                                plan_step *to) {
  *to = (plan_step){.kernel = from->kernel,
                    .device = from->device,
                    .operand_count = from->operand_count,
                    .input_count = from->input_count,
                    .bytes = from->bytes,
                    .operation = from->operation,
                    .fallback = from->fallback,
                    .plain_copy = from->plain_copy,
                    .work = from->work,
                    .micro_batch = from->micro_batch,
                    .micro_batches = from->micro_batches,
                    .of_items = from->of_items,
                    .side_by_side = from->side_by_side,
                    .row_tile = from->row_tile,
                    .operations = from->operations,
                    .flops = from->flops,
                    .bytes_read = from->bytes_read,
                    .bytes_written = from->bytes_written};
  from->kernel = NULL; /* now owned by the plan */
  for (uint32_t i = from->first_in_place; i < from->input_count; i++)
    if (from->in_place[i]) to->in_place |= UINT32_C(1) << i;
  to->call = graph_constant_retain((void *)from->call);
  to->operands = base_allocate(from->operand_count, sizeof *to->operands);
  to->text = base_duplicate(from->text);
  to->shape = base_duplicate(from->shape);
  if (!to->operands || !to->text || !to->shape) return short_of_memory(plan);
  if (from->placement && (to->placement = base_duplicate(from->placement)) == NULL)
    return short_of_memory(plan);
  if (from->reason && (to->reason = base_duplicate(from->reason)) == NULL)
    return short_of_memory(plan);
  for (uint32_t i = 0; i < from->operand_count; i++) {
    const storage *s = &l->storages[from->operand[i].storage];
    to->operands[i] =
        (plan_operand){.slot = s->slot, .offset = s->offset + from->operand[i].offset};
  }
  return COMPUTE_OK;
}

static void count_step(compute_plan *plan, const plan_step *s) {
  plan->info.steps += s->kernel != NULL;
  plan->info.operations += s->micro_batch == 0 ? s->operations : 0;
  plan->info.fallbacks += s->kernel && s->fallback;
  plan->info.flops += s->flops;
  plan->info.bytes_read += s->bytes_read;
  plan->info.bytes_written += s->bytes_written;
  if (s->operand_count > plan->most_operands) plan->most_operands = s->operand_count;
}

/* Creates the records of the steps' index checks and points the steps to them. */
static compute_status make_checks(compute_plan *plan, const lowering *l) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < l->step_count; i++) count += l->steps[i].checked != IR_NONE;
  if (count == 0) return COMPUTE_OK;
  plan->checks = index_checks_create(count);
  if (!plan->checks) return short_of_memory(plan);
  index_check *row = plan->checks->rows;
  for (uint32_t i = 0; i < l->step_count; i++) {
    if (l->steps[i].checked == IR_NONE) continue;
    if (!check_describe(l->r, l->f, l->steps[i].checked, row)) return short_of_memory(plan);
    plan->steps[i].operation = row->operation;
    plan->steps[i].check = row++;
  }
  return COMPUTE_OK;
}

/* Records the steps that read and write each port; bind.c uses them to decide whether two ports may
 * be one tensor. */
static void note_port_steps(compute_plan *plan) {
  const uint32_t ports = plan_port_count(plan);
  for (uint32_t i = plan->input_count; i < ports; i++) plan->ports[i].step = plan->step_count;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const plan_step *s = &plan->steps[i];
    for (uint32_t k = 0; k < s->operand_count; k++) {
      const uint32_t slot = s->operands[k].slot;
      if (slot >= ports) continue;
      const bool reads = slot < plan->input_count;
      if (reads || i < plan->ports[slot].step) plan->ports[slot].step = i;
    }
  }
}

static compute_status copy_steps(compute_plan *plan, lowering *l) {
  plan->steps = base_allocate(l->step_count, sizeof *plan->steps);
  if (!plan->steps) return short_of_memory(plan);
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; status == COMPUTE_OK && i < l->step_count; i++) {
    plan->step_count++;
    status = copy_step(plan, l, &l->steps[i], &plan->steps[i]);
    count_step(plan, &plan->steps[i]);
  }
  if (status == COMPUTE_OK) note_port_steps(plan);
  return status == COMPUTE_OK ? make_checks(plan, l) : status;
}

/* Every operand needs an address, even a constant without elements. So each piece gets at least one
 * byte. */
static compute_status upload_constants(compute_plan *plan, const lowering *l) {
  compute_status status = COMPUTE_OK;
  for (const constant_piece *c = l->constant_pieces; status == COMPUTE_OK && c; c = c->next) {
    const uint32_t d = c->device;
    const uint64_t bytes = l->constant_bytes[d] > 0 ? l->constant_bytes[d] : 1;
    if (!plan->constants[d]) status = buffer_create(plan->device[d], bytes, &plan->constants[d]);
    if (status == COMPUTE_OK && c->bytes > 0)
      status = transfer_upload(plan->device[d],
                               &(compute_argument){&plan->constants[d]->memory, c->offset},
                               c->values, c->bytes);
  }
  plan->info.constant_bytes =
      l->constant_bytes[PLAN_MAIN] + l->constant_bytes[PLAN_CPU] + l->packed_constant_bytes;
  return status;
}

/* True if steps are placed by cost: on request, or without a device in the options if the context's
 * default is automatic and the thread is outside a device scope. */
static bool is_automatic(const compute_context *context, const compute_plan_options *options) {
  return (options->flags & COMPUTE_PLAN_AUTO) != 0 ||
         (!options->device && context->automatic && !device_scope_is_open(context));
}

static uint32_t plan_demands(uint32_t flags) {
  if (flags & COMPUTE_PLAN_PORTABLE) return COMPUTE_DEMAND_REPRODUCIBLE | COMPUTE_DEMAND_PORTABLE;
  return flags & COMPUTE_PLAN_REPRODUCIBLE ? COMPUTE_DEMAND_REPRODUCIBLE : 0;
}

static compute_precision allowed_precision(uint32_t flags) {
  static const struct {
    uint32_t flag;
    compute_precision precision;
  } allowed[] = {{COMPUTE_PLAN_ALLOW_TF32, COMPUTE_PRECISION_TF32},
                 {COMPUTE_PLAN_ALLOW_WINOGRAD, COMPUTE_PRECISION_WINOGRAD},
                 {COMPUTE_PLAN_ALLOW_SATURATION, COMPUTE_PRECISION_SATURATE}};
  compute_precision precision = COMPUTE_PRECISION_STRICT;
  /* Which sums saturate depends on the number of rows. */
  if (flags & COMPUTE_PLAN_REPRODUCIBLE) flags &= ~(uint32_t)COMPUTE_PLAN_ALLOW_SATURATION;
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    if (flags & allowed[i].flag) precision |= allowed[i].precision;
  return precision;
}

/* True if a failed run can be repeated elsewhere. Such plans write parameters last. */
static bool can_be_repeated(const compute_plan *plan, const compute_plan_options *options) {
  return is_automatic(plan->context, options) || plan->device[PLAN_MAIN] != plan->context->cpu;
}

/* Returns the device whose kernels may compute nodes with two forms, or NULL. Automatically placed
 * plans use the composed form: other devices may lack the kernel, which would tie its step to the
 * CPU. */
static const compute_device *kernels_device(const compute_plan *plan,
                                            const compute_plan_options *options) {
  const bool placed = is_automatic(plan->context, options) && compute_device_at(plan->context, 1);
  return placed || (options->flags & COMPUTE_PLAN_NO_FUSION) ? NULL : plan->device[PLAN_MAIN];
}

/* False if steps are placed by cost, as they may run on devices with other preferences. */
static bool chooses_layouts(const compute_plan *plan, const compute_plan_options *options) {
  const bool placed = is_automatic(plan->context, options) && compute_device_at(plan->context, 1);
  return !placed && !(options->flags & COMPUTE_PLAN_NO_FUSION);
}

static compute_status fuse(ir *r, const compute_plan *plan, const compute_plan_options *options,
                           scratch *memory, pass_log *log, fusion *f) {
  const fuse_options how = {.fuse = !(options->flags & COMPUTE_PLAN_NO_FUSION),
                            .updates_wait = can_be_repeated(plan, options)};
  bool changed = false;
  compute_status status = fuse_nodes(r, how, memory, f);
  if (status == COMPUTE_OK) pass_log_nodes(log, PASS_FUSE, r, f, NULL, NULL);
  if (status == COMPUTE_OK && how.fuse && r->simplify) status = repeat_cheap(r, f, &changed);
  if (status == COMPUTE_OK && changed) status = fuse_nodes(r, how, memory, f);
  if (status == COMPUTE_OK && how.fuse && r->simplify)
    pass_log_nodes(log, PASS_REPEAT, r, f, NULL, NULL);
  if (status == COMPUTE_OK && how.fuse) status = merge_updates(r, memory, f);
  if (status == COMPUTE_OK && how.fuse) pass_log_nodes(log, PASS_MERGE, r, f, NULL, NULL);
  if (status != COMPUTE_OK || !chooses_layouts(plan, options)) return status;
  const compute_device *main = plan->device[PLAN_MAIN];
  if (main->backend->flags & COMPUTE_BACKEND_CHANNELS_LAST) {
    const bool bf16 = (main->info.capabilities & COMPUTE_CAPABILITY_BF16) != 0 &&
                      !(options->flags & COMPUTE_PLAN_PORTABLE);
    status = channels_last_choose(r, bf16, memory, f);
    if (status == COMPUTE_OK) pass_log_nodes(log, PASS_CHANNELS, r, f, NULL, NULL);
  }
  if (status != COMPUTE_OK || main != plan->context->cpu) return status;
  status = write_within(r, memory, f);
  if (status == COMPUTE_OK) pass_log_nodes(log, PASS_WITHIN, r, f, NULL, NULL);
  return status;
}

/* Builds the plan; `outputs` are graph indices. */
static compute_status build(compute_plan *plan, const compute_graph *graph, const uint32_t *outputs,
                            uint32_t count, const compute_plan_options *options, scratch *memory) {
  ir r;
  fusion f;
  port_plan ports;
  folding folded = {0};
  pass_log record;
  pass_log *log = pass_log_begin(plan, &record);
  bool simplify = !(options->flags & COMPUTE_PLAN_NO_SIMPLIFICATION);
  lowering l = {.r = &r,
                .f = &f,
                .memory = memory,
                .plan = plan,
                .log = log,
                .fallback = plan->fallback,
                .precision = allowed_precision(options->flags),
                .demands = plan_demands(options->flags)};
  const compute_device *kernels = kernels_device(plan, options);
  compute_status status = COMPUTE_OK;
  pass_log_graph(log, PASS_GRAPH, graph, outputs, count, &folded);
  if (simplify)
    status = fold_nodes(graph, outputs, count, kernels, plan->device[PLAN_MAIN], options->flags,
                        memory, &folded);
  if (status == COMPUTE_OK && simplify)
    pass_log_graph(log, PASS_FOLD, graph, outputs, count, &folded);
  if (status == COMPUTE_OK)
    status = ir_capture(&r, graph, outputs, count, folded.values, folded.count, simplify, kernels,
                        memory);
  if (status == COMPUTE_OK) pass_log_nodes(log, PASS_CAPTURE, &r, NULL, NULL, NULL);
  if (status == COMPUTE_OK) status = fuse(&r, plan, options, memory, log, &f);
  if (status == COMPUTE_OK) status = lower_begin(&l);
  if (status == COMPUTE_OK && is_automatic(plan->context, options)) {
    status = place_clusters(&l, options->device);
    plan->generation = device_generation(plan->device[PLAN_MAIN]);
    if (status == COMPUTE_OK) pass_log_nodes(log, PASS_PLACE, &r, &f, &l, NULL);
  }
  if (status == COMPUTE_OK) status = ports_collect(&l, outputs, count, &ports);
  if (status == COMPUTE_OK) pass_log_nodes(log, PASS_ORDER, &r, &f, &l, ports.order);
  if (status == COMPUTE_OK) status = copy_ports(plan, &r, &ports);
  if (status == COMPUTE_OK) status = lower_all(&l, &ports);
  if (status == COMPUTE_OK) status = copy_steps(plan, &l);
  if (status == COMPUTE_OK) status = upload_constants(plan, &l);
  if (status == COMPUTE_OK)
    plan->info.arena_bytes = plan->arena_bytes[PLAN_MAIN] + plan->arena_bytes[PLAN_CPU];
  lower_abandon(&l);
  fold_release(&folded);
  pass_log_finish(log);
  return status;
}

static compute_status check_call(const compute_graph *graph, const compute_node *outputs,
                                 size_t count, const compute_plan_options *options,
                                 compute_plan **plan) {
  static const char operation[] = "compute_compile";
  const compute_context *context = graph ? graph->context : NULL;
  if (plan) *plan = NULL;
  if (!graph || !outputs || !plan)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     !graph     ? "graph"
                     : !outputs ? "outputs"
                                : "plan");
  if (graph->status != COMPUTE_OK) {
    error_restore(context, &graph->error);
    return graph->status;
  }
  if (count == 0 || count > MAX_OUTPUTS)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "%zu outputs; 1 to %d are allowed", count, MAX_OUTPUTS);
  for (size_t i = 0; i < count; i++)
    if (outputs[i].graph != graph->serial || outputs[i].id == 0 || outputs[i].id > graph->count)
      return error_set(context, COMPUTE_ERROR_WRONG_GRAPH, operation, "output %zu is %s", i,
                       outputs[i].id == 0 ? "not a node" : "a node of another graph");
  if (!options) return COMPUTE_OK;
  if (options->device && options->device->context != context)
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the device belongs to another context");
  uint32_t known = COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION |
                   COMPUTE_PLAN_ALLOW_TF32 | COMPUTE_PLAN_ALLOW_WINOGRAD | COMPUTE_PLAN_AUTO |
                   COMPUTE_PLAN_REPRODUCIBLE | COMPUTE_PLAN_PORTABLE |
                   COMPUTE_PLAN_ALLOW_SATURATION;
  if ((options->flags & ~known) != 0 || (unsigned)options->fallback > COMPUTE_FALLBACK_STRICT)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the options have unknown flags or an unknown fallback");
  return error_if_reserved(context, operation, "options", options->reserved);
}

compute_status compute_compile(const compute_graph *graph, const compute_node *outputs,
                               size_t count, const compute_plan_options *options,
                               compute_plan **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  compute_status status = check_call(graph, outputs, count, options, result);
  if (status != COMPUTE_OK) return status;
  static const compute_plan_options defaults = {0};
  if (!options) options = &defaults;
  compute_context *context = graph->context;
  scratch memory = {0};
  compute_plan *plan = base_allocate(1, sizeof *plan);
  if (!plan)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_compile",
                     "not enough memory for a plan");
  plan->context = context;
  atomic_init(&plan->references, 1);
  plan->thread_arenas = 1;
  plan->fallback = options->fallback ? options->fallback : COMPUTE_FALLBACK_WARN;
  plan->graph_serial = graph->serial;
  plan->device[PLAN_MAIN] = options->device ? options->device : compute_default_device(context);
  if (is_automatic(context, options) && context->cpu)
    plan->device[PLAN_MAIN] = context->cpu; /* until placement finds a better one */
  pthread_mutex_init(&plan->idle_mutex, NULL);
  context_object_created(context, &plan_object, plan);
  uint32_t *indices = scratch_take(&memory, count, sizeof *indices);
  if (!indices) status = short_of_memory(plan);
  for (size_t i = 0; status == COMPUTE_OK && i < count; i++) indices[i] = outputs[i].id - 1;
  if (status == COMPUTE_OK && options->name && !(plan->name = base_duplicate(options->name)))
    status = short_of_memory(plan);
  if (status == COMPUTE_OK) status = device_check(plan->device[PLAN_MAIN], "compute_compile");
  plan->generation = device_generation(plan->device[PLAN_MAIN]);
  if (status == COMPUTE_OK) status = build(plan, graph, indices, (uint32_t)count, options, &memory);
  if (status == COMPUTE_OK && cpu_plan_is_wanted(plan))
    status = cpu_plan_create(graph, indices, (uint32_t)count, options->flags, &plan->cpu_plan);
  scratch_release(&memory);
  if (status != COMPUTE_OK) {
    compute_plan_release(plan);
    return status;
  }
  plan->info.host_bytes = plan_host_bytes(plan);
  log_write(COMPUTE_LOG_DEBUG, "core",
            "plan %s: %u steps for %u operations on %s, arena %llu bytes",
            plan->name ? plan->name : "(unnamed)", plan->info.steps, plan->info.operations,
            plan->device[PLAN_MAIN]->info.name, (unsigned long long)plan->info.arena_bytes);
  *result = plan;
  return COMPUTE_OK;
}
