/* SPDX-License-Identifier: MIT */
/* A plan as an object: references, queries and tensors for its ports. */
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "plan/compile/run/run.h"

object_kind plan_object = {.name = "plan", .plural = "plans"};

compute_plan *plan_retain(compute_plan *plan) {
  atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
  return plan;
}

void plan_find_direct(const compute_plan *plan, bool *direct) {
  for (uint32_t i = 0; i < plan->parameter_count; i++) direct[i] = false;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const plan_step *s = &plan->steps[i];
    for (uint32_t k = 0; k < s->operand_count; k++)
      if (plan_slot_is_parameter(plan, s->operands[k].slot))
        direct[s->operands[k].slot - plan_port_count(plan)] = true;
  }
}

static uint64_t text_bytes(const char *text) {
  return text ? strlen(text) + 1 : 0;
}

uint64_t plan_host_bytes(const compute_plan *plan) {
  enum { KERNEL_BYTES = 512 }; /* an estimate for a module's struct */
  uint64_t bytes =
      sizeof *plan + cpu_plan_bytes(plan->cpu_plan) + plan_port_count(plan) * sizeof *plan->ports +
      plan->parameter_count * sizeof *plan->parameters +
      plan->packed_capacity * sizeof *plan->packed + plan->step_count * sizeof *plan->steps;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const plan_step *s = &plan->steps[i];
    bytes += s->operand_count * sizeof *s->operands + text_bytes(s->text) + text_bytes(s->shape) +
             text_bytes(s->placement) + text_bytes(s->reason);
    if (s->kernel) bytes += s->kernel->key_bytes + sizeof *s->kernel + KERNEL_BYTES;
  }
  return bytes;
}

void compute_plan_release(compute_plan *plan) {
  if (IS_INHERITED(plan, context)) return;
  if (!plan || atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) > 1) return;
  cpu_plan_release(plan->cpu_plan);
  plan_runs_release(plan);
  for (uint32_t i = 0; i < plan->step_count; i++) {
    plan_step *s = &plan->steps[i];
    if (s->kernel) kernel_cache_return(plan->device[s->device]->kernels, s->kernel);
    graph_constant_release(s->call);
    base_release(s->operands);
    base_release(s->text);
    base_release(s->shape);
    base_release(s->placement);
    base_release(s->reason);
  }
  for (uint32_t i = 0; i < plan_port_count(plan); i++) base_release(plan->ports[i].name);
  for (uint32_t i = 0; i < plan->parameter_count; i++) compute_tensor_release(plan->parameters[i]);
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) buffer_release(plan->constants[d]);
  index_checks_release(plan->checks);
  for (size_t i = 0; i < plan->packed_count; i++) buffer_release(plan->packed[i].buffer);
  base_release(plan->packed);
  base_release(plan->steps);
  base_release(plan->ports);
  base_release(plan->parameters);
  base_release(plan->name);
  pthread_mutex_destroy(&plan->idle_mutex);
  context_object_leaves(plan->context, plan);
  context_object_released(plan->context, &plan_object);
  base_release(plan);
}

compute_status compute_plan_describe(const compute_plan *plan, compute_plan_info *info) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(plan, context);
  if (!plan || !info)
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER,
                     "compute_plan_describe", "%s is NULL", !plan ? "plan" : "info");
  *info = plan->info;
  return COMPUTE_OK;
}

compute_device *compute_plan_device(const compute_plan *plan) {
  return plan ? plan->device[PLAN_MAIN] : NULL;
}

compute_status compute_plan_create_tensor(const compute_plan *plan, compute_node node,
                                          compute_tensor **tensor) {
  REFUSE_INHERITED(plan, context);
  static const char operation[] = "compute_plan_create_tensor";
  if (tensor) *tensor = NULL;
  if (!plan || !tensor)
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL", !plan ? "plan" : "tensor");
  const plan_port *port = NULL;
  if (node.graph == plan->graph_serial && node.id != 0) {
    port = plan_find_input(plan, node.id - 1);
    if (!port) port = plan_find_output(plan, node.id - 1);
  }
  if (port)
    return compute_tensor_create(plan->device[plan->port_device], port->dtype, port->shape, tensor);
  return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                   "the node is neither an input nor an output of the plan");
}
