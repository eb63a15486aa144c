/* What a run reads and writes: the bindings checked, and each one's memory found.
 *
 * A tensor that the steps cannot use as it is (strided, on another device, overlapping another one
 * of the run) is replaced by a dense stand-in, copied before or after. */
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "plan/run.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static const char HERE[] = "compute_run";

static const char *port_label(const plan_port *port, char *text, size_t bytes) {
  if (port->name != NULL)
    snprintf(text, bytes, "'%s'", port->name);
  else
    snprintf(text, bytes, "node %u", port->node + 1);
  return text;
}

/* The port among `count` ascending ones that is for this node, or NULL. */
static plan_port *find_port(plan_port *ports, uint32_t count, uint32_t node) {
  uint32_t low = 0;
  while (count > 0) {
    uint32_t half = count / 2;
    if (ports[low + half].node < node) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return &ports[low];
}

static compute_status check_tensor(const compute_plan *plan, const plan_port *port, bool output,
                                   const compute_tensor *t) {
  char label[64], want[96], have[96];
  const char *role = output ? "output" : "input";
  port_label(port, label, sizeof label);
  if (t == NULL)
    return error_set(plan->context, COMPUTE_ERROR_NULL_POINTER, HERE, "%s %s is bound to NULL",
                     role, label);
  if (t->buffer->device->context != plan->context)
    return error_set(plan->context, COMPUTE_ERROR_WRONG_CONTEXT, HERE,
                     "%s %s is bound to a tensor of another context", role, label);
  if (t->dtype != port->dtype || !compute_shape_equal(t->shape, port->shape))
    return error_set(plan->context, COMPUTE_ERROR_BINDING, HERE,
                     "%s %s is %s %s, but the tensor bound to it is %s %s", role, label,
                     compute_dtype_name(port->dtype),
                     compute_shape_text(port->shape, want, sizeof want),
                     compute_dtype_name(t->dtype), compute_shape_text(t->shape, have, sizeof have));
  if (output && t->read_only)
    return error_set(plan->context, COMPUTE_ERROR_BINDING, HERE,
                     "output %s is bound to a broadcast view, which cannot be written", label);
  return COMPUTE_OK;
}

/* A node that is both is bound as an input first, then as an output. */
static compute_status bind_one(const compute_plan *plan, plan_run *run, const compute_binding *b) {
  if (b->node.graph != plan->graph_serial || b->node.id == 0)
    return error_set(plan->context, COMPUTE_ERROR_WRONG_GRAPH, HERE,
                     b->node.id == 0 ? "a binding names no node"
                                     : "a binding names a node of another graph");
  uint32_t node = b->node.id - 1, inputs = plan->input_count;
  plan_port *in = find_port(plan->ports, inputs, node);
  plan_port *out = find_port(plan->ports + inputs, plan->output_count, node);
  bool is_input = in < plan->ports + inputs && in->node == node;
  bool is_output = out < plan->ports + inputs + plan->output_count && out->node == node;
  if (!is_input && !is_output) return COMPUTE_OK; /* an input that the plan does not need */
  plan_port *port = is_input && !(is_output && run->bound[in - plan->ports]) ? in : out;
  if (!is_output) port = in;
  compute_status s = check_tensor(plan, port, port != in || !is_input, b->tensor);
  if (s != COMPUTE_OK) return s;
  compute_tensor **bound = &run->bound[port - plan->ports];
  char label[64];
  if (*bound != NULL)
    return error_set(plan->context, COMPUTE_ERROR_BINDING, HERE, "%s is bound twice",
                     port_label(port, label, sizeof label));
  *bound = b->tensor;
  return COMPUTE_OK;
}

compute_status bind_all(const compute_plan *plan, plan_run *run, const compute_binding *bindings,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    compute_status s = bind_one(plan, run, &bindings[i]);
    if (s != COMPUTE_OK) return s;
  }
  for (uint32_t i = 0; i < plan->input_count + plan->output_count; i++) {
    char label[64], shape[96];
    if (run->bound[i] == NULL)
      return error_set(plan->context, COMPUTE_ERROR_BINDING, HERE, "%s %s (%s %s) is not bound",
                       i < plan->input_count ? "input" : "output",
                       port_label(&plan->ports[i], label, sizeof label),
                       compute_dtype_name(plan->ports[i].dtype),
                       compute_shape_text(plan->ports[i].shape, shape, sizeof shape));
  }
  return COMPUTE_OK;
}

/* Whether the bytes that two tensors span overlap. */
static bool overlap(const compute_tensor *a, const compute_tensor *b) {
  const memory_buffer *x = a->buffer, *y = b->buffer;
  if (x != y && (x->memory.host == NULL || y->memory.host == NULL)) return false;
  /* Two wraps of the same host memory are different buffers with the same addresses. */
  uintptr_t base_a = (uintptr_t)x->memory.host + (uintptr_t)a->offset;
  uintptr_t base_b = (uintptr_t)y->memory.host + (uintptr_t)b->offset;
  uint64_t span[2] = {0, 0};
  const compute_tensor *both[2] = {a, b};
  for (int t = 0; t < 2; t++) {
    int64_t last = 0;
    for (int32_t i = 0; i < both[t]->shape.rank; i++) {
      if (both[t]->shape.size[i] == 0) return false;
      last += (both[t]->shape.size[i] - 1) * both[t]->strides[i];
    }
    span[t] = ((uint64_t)last + 1) * compute_dtype_size(both[t]->dtype);
  }
  return base_a < base_b + span[1] && base_b < base_a + span[0];
}

static bool needs_stand_in(const compute_plan *plan, const plan_run *run, uint32_t port) {
  const compute_tensor *t = run->bound[port];
  if (t->buffer->device != plan->device[plan->port_device] || !shape_is_dense(t->shape, t->strides))
    return true;
  bool output = port >= plan->input_count;
  for (uint32_t i = 0; output && i < plan->input_count; i++)
    if (overlap(t, run->bound[i])) return true;
  for (uint32_t i = 0; (output || plan->assigns) && i < plan->parameter_count; i++)
    if (overlap(t, plan->parameters[i].tensor)) return true;
  return false;
}

compute_status bind_ports(const compute_plan *plan, plan_run *run) {
  uint32_t ports = plan->input_count + plan->output_count;
  for (uint32_t i = plan->input_count; i < ports; i++)
    for (uint32_t j = plan->input_count; j < i; j++)
      if (overlap(run->bound[i], run->bound[j]))
        return error_set(plan->context, COMPUTE_ERROR_BINDING, HERE,
                         "two outputs are bound to overlapping tensors");
  for (uint32_t i = 0; i < ports; i++) {
    const plan_port *port = &plan->ports[i];
    compute_tensor *used = run->bound[i];
    if (needs_stand_in(plan, run, i)) {
      compute_status s = tensor_create_private(plan->device[plan->port_device], port->dtype,
                                               port->shape, &run->stand_in[i]);
      if (s == COMPUTE_OK && i < plan->input_count)
        s = compute_tensor_copy(run->stand_in[i], run->bound[i]);
      if (s != COMPUTE_OK) return s;
      used = run->stand_in[i];
    }
    run->memory[port->slot] = &used->buffer->memory;
    run->offset[port->slot] = (uint64_t)used->offset;
  }
  for (uint32_t i = 0; i < plan->parameter_count; i++) {
    const plan_parameter *p = &plan->parameters[i];
    run->memory[p->slot] = &p->tensor->buffer->memory;
    run->offset[p->slot] = (uint64_t)p->tensor->offset;
  }
  return COMPUTE_OK;
}
