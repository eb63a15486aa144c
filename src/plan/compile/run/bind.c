/* SPDX-License-Identifier: MIT */
/* Checks the bindings of a run and finds their memory.
 *
 * Steps cannot use some tensors directly: strided tensors, tensors on another device, and tensors
 * that overlap another one of the run. A dense substitute replaces them; it is copied before or
 * after the run. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/error.h"
#include "plan/compile/run/run.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

/* ---- Spans ----------------------------------------------------------------------------------- */

/* A list is sorted by the spans' beginnings. Spans that begin before the end of a given span are
 * then a prefix of the list. The prefix's largest end shows whether one of them overlaps the given
 * span. */

static bool span_of(const compute_tensor *t, memory_span *span) {
  const memory_buffer *buffer = t->buffer;
  const uint64_t begin = (uint64_t)(uintptr_t)buffer->memory.host + (uint64_t)t->offset;
  *span = (memory_span){.space = buffer->memory.host ? NULL : buffer,
                        .begin = begin,
                        .end = begin + tensor_span_bytes(t)};
  return span->begin < span->end;
}

void spans_add(span_list *list, const compute_tensor *tensor) {
  if (span_of(tensor, &list->at[list->count])) list->count++;
}

static bool is_before(const memory_span *a, const memory_span *b) {
  if (a->space != b->space) return (uintptr_t)a->space < (uintptr_t)b->space;
  return a->begin < b->begin;
}

static int by_place(const void *a, const void *b) {
  return is_before(a, b) ? -1 : is_before(b, a);
}

/* Most runs have few spans; an insertion sort of these is faster than a call of qsort. */
static void insert_all(span_list *list) {
  for (uint32_t i = 1; i < list->count; i++) {
    const memory_span moved = list->at[i];
    uint32_t to = i;
    for (; to > 0 && is_before(&moved, &list->at[to - 1]); to--) list->at[to] = list->at[to - 1];
    list->at[to] = moved;
  }
}

void spans_sort(span_list *list) {
  enum { FEW = 8 };
  if (list->count <= FEW)
    insert_all(list);
  else
    qsort(list->at, list->count, sizeof *list->at, by_place);
  for (uint32_t i = 0; i < list->count; i++) {
    memory_span *s = &list->at[i];
    s->reach = s->end;
    if (i > 0 && s[-1].space == s->space && s[-1].reach > s->reach) s->reach = s[-1].reach;
  }
}

bool spans_meet(const span_list *list, const compute_tensor *tensor) {
  memory_span span;
  if (list->count == 0 || !span_of(tensor, &span)) return false;
  const memory_span end = {.space = span.space, .begin = span.end};
  uint32_t low = 0, count = list->count; /* the spans that begin before `end` */
  while (count > 0) {
    const uint32_t half = count / 2;
    if (is_before(&list->at[low + half], &end)) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low > 0 && list->at[low - 1].space == span.space && list->at[low - 1].reach > span.begin;
}

bool spans_collide(const span_list *list) {
  for (uint32_t i = 1; i < list->count; i++)
    if (list->at[i].space == list->at[i - 1].space && list->at[i].begin < list->at[i - 1].reach)
      return true;
  return false;
}

/* ---- Bindings -------------------------------------------------------------------------------- */

static const char operation[] = "compute_run";

/* Returns the port of this node among `count` ports in ascending order, or NULL. */
static const plan_port *find_port(const plan_port *ports, uint32_t count, uint32_t node) {
  uint32_t low = 0;
  const uint32_t end = count;
  while (count > 0) {
    const uint32_t half = count / 2;
    if (ports[low + half].node < node) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low < end && ports[low].node == node ? &ports[low] : NULL;
}

const plan_port *plan_find_input(const compute_plan *plan, uint32_t node) {
  return find_port(plan->ports, plan->input_count, node);
}

const plan_port *plan_find_output(const compute_plan *plan, uint32_t node) {
  return find_port(plan->ports + plan->input_count, plan->output_count, node);
}

static const char *port_label(const plan_port *port, char *text, size_t bytes) {
  if (port->name)
    snprintf(text, bytes, "'%s'", port->name);
  else
    snprintf(text, bytes, "node %u", port->node + 1);
  return text;
}

static bool tensor_fits(const compute_plan *plan, const plan_port *port, bool output,
                        const compute_tensor *t) {
  return t && t->buffer->device->context == plan->context && t->dtype == port->dtype &&
         shape_same(&t->shape, &port->shape) &&
         !(output && (t->read_only || compute_tensor_is_frozen(t)));
}

static compute_status check_tensor(const compute_plan *plan, const plan_port *port, bool output,
                                   const compute_tensor *t) {
  if (tensor_fits(plan, port, output, t)) return COMPUTE_OK;
  char label[64], want[96], have[96];
  const char *role = output ? "output" : "input";
  port_label(port, label, sizeof label);
  if (!t)
    return error_set(plan->context, COMPUTE_ERROR_NULL_POINTER, operation, "%s %s is bound to NULL",
                     role, label);
  if (t->buffer->device->context != plan->context)
    return error_set(plan->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "%s %s is bound to a tensor of another context", role, label);
  if (t->dtype != port->dtype || !compute_shape_equal(t->shape, port->shape))
    return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                     "%s %s is %s %s, but the tensor bound to it is %s %s", role, label,
                     compute_dtype_name(port->dtype),
                     compute_shape_text(port->shape, want, sizeof want),
                     compute_dtype_name(t->dtype), compute_shape_text(t->shape, have, sizeof have));
  if (output && compute_tensor_is_frozen(t))
    return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                     "output %s is bound to a frozen tensor, which cannot be written", label);
  return error_set(
      plan->context, COMPUTE_ERROR_BINDING, operation,
      "output %s is bound to a read-only tensor (a broadcast view, or imported as such)", label);
}

/* Stores a further tensor for an output that the caller listed more than once. Returns false if all
 * occurrences are bound. */
static bool bind_repeat(plan_run *run, const plan_port *port, uint32_t number,
                        compute_tensor *tensor) {
  uint32_t bound = 0;
  for (uint32_t i = 0; i < run->repeat_count; i++) {
    if (run->repeats[i].port != number) continue;
    if (run->repeats[i].tensor == tensor) return true;
    bound++;
  }
  if (bound == port->repeats) return false;
  run->repeats[run->repeat_count++] = (plan_repeat){.port = number, .tensor = tensor};
  return true;
}

/* Binds one node. A node that is both input and output is bound as an input first. */
static compute_status bind_one(const compute_plan *plan, plan_run *run, const compute_binding *b) {
  if (b->node.graph != plan->graph_serial || b->node.id == 0)
    return error_set(plan->context, COMPUTE_ERROR_WRONG_GRAPH, operation,
                     b->node.id == 0 ? "a binding has no node"
                                     : "a binding has a node of another graph");
  const plan_port *in = plan_find_input(plan, b->node.id - 1);
  const plan_port *out = plan_find_output(plan, b->node.id - 1);
  if (!in && !out) return COMPUTE_OK; /* an input that the plan does not need */
  const bool output = !in || (out && run->bound[in - plan->ports]);
  const plan_port *port = output ? out : in;
  compute_status status = check_tensor(plan, port, output, b->tensor);
  if (status != COMPUTE_OK) return status;
  const uint32_t number = (uint32_t)(port - plan->ports);
  if (!run->bound[number]) {
    run->bound[number] = b->tensor;
    return COMPUTE_OK;
  }
  if (port->repeats > 0 &&
      (run->bound[number] == b->tensor || bind_repeat(run, port, number, b->tensor)))
    return COMPUTE_OK;
  char label[64];
  port_label(port, label, sizeof label);
  if (port->repeats == 0)
    return error_set(plan->context, COMPUTE_ERROR_BINDING, operation, "%s is bound twice", label);
  return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                   "%s is bound to more tensors than its %u outputs", label, port->repeats + 1);
}

compute_status bind_all(const compute_plan *plan, plan_run *run, const compute_binding *bindings,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    compute_status status = bind_one(plan, run, &bindings[i]);
    if (status != COMPUTE_OK) return status;
  }
  for (uint32_t i = 0; i < plan_port_count(plan); i++) {
    char label[64], shape[96];
    if (!run->bound[i])
      return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                       "%s %s (%s %s) is not bound", i < plan->input_count ? "input" : "output",
                       port_label(&plan->ports[i], label, sizeof label),
                       compute_dtype_name(plan->ports[i].dtype),
                       compute_shape_text(plan->ports[i].shape, shape, sizeof shape));
  }
  return COMPUTE_OK;
}

/* ---- In place -------------------------------------------------------------------------------- */

/* True if the steps have read each element of the input before they write it to the output. */
static bool is_read_before(const compute_plan *plan, uint32_t input, uint32_t output) {
  const uint32_t read = plan->ports[input].step, written = plan->ports[output].step;
  if (written == plan->step_count) return false;
  if (read < written) return true;
  const plan_step *s = &plan->steps[written];
  if (read > written || !s->kernel) return false;
  for (uint32_t i = 0; i < s->input_count; i++)
    if (s->operands[i].slot == input && ((s->in_place >> i & 1) == 0 || s->operands[i].offset != 0))
      return false;
  const plan_operand *to = &s->operands[s->input_count];
  return to->slot == output && to->offset == 0;
}

/* True if an output that overlaps inputs may be written in place. Each overlapping input must be
 * bound to exactly the same elements and be read earlier. */
static bool may_overwrite(const compute_plan *plan, plan_run *run, uint32_t output) {
  const compute_tensor *t = run->bound[output];
  memory_span own, other;
  if (!span_of(t, &own)) return false;
  for (uint32_t i = 0; i < plan->input_count; i++) {
    const compute_tensor *x = run->bound[i];
    if (!span_of(x, &other) || other.space != own.space || other.begin >= own.end ||
        own.begin >= other.end)
      continue;
    if (other.begin != own.begin || other.end != own.end || x->dtype != t->dtype ||
        x->buffer->device != t->buffer->device || !shape_is_dense(x->shape, x->strides) ||
        (plan->assigns && spans_meet(&run->parameters, x)) || !is_read_before(plan, i, output))
      return false;
  }
  const uint32_t written = plan->ports[output].step;
  if (written < run->first_overwrite) run->first_overwrite = written;
  return true;
}

static bool needs_substitute(const compute_plan *plan, plan_run *run, uint32_t port) {
  const compute_tensor *t = run->bound[port];
  if (t->buffer->device != plan->device[plan->port_device] || !shape_is_dense(t->shape, t->strides))
    return true;
  const bool output = port >= plan->input_count;
  if ((output || plan->assigns) && spans_meet(&run->parameters, t)) return true;
  return output && spans_meet(&run->inputs, t) && !may_overwrite(plan, run, port);
}

/* Records the spans of inputs and outputs. No two outputs may overlap. */
static compute_status collect_spans(const compute_plan *plan, plan_run *run) {
  run->inputs.count = run->outputs.count = 0;
  for (uint32_t i = 0; i < plan->input_count; i++) spans_add(&run->inputs, run->bound[i]);
  for (uint32_t i = plan->input_count; i < plan_port_count(plan); i++)
    spans_add(&run->outputs, run->bound[i]);
  for (uint32_t i = 0; i < run->repeat_count; i++) spans_add(&run->outputs, run->repeats[i].tensor);
  spans_sort(&run->inputs);
  spans_sort(&run->outputs);
  if (!spans_collide(&run->outputs)) return COMPUTE_OK;
  return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                   "two outputs are bound to overlapping tensors");
}

compute_status bind_ports(const compute_plan *plan, plan_run *run) {
  const uint32_t ports = plan_port_count(plan);
  compute_status status = collect_spans(plan, run);
  if (status != COMPUTE_OK) return status;
  run->first_overwrite = run->first_assign;
  for (uint32_t i = 0; i < ports; i++) {
    const plan_port *port = &plan->ports[i];
    compute_tensor *used = run->bound[i];
    if (needs_substitute(plan, run, i)) {
      status = tensor_create_private(plan->device[plan->port_device], port->dtype, port->shape,
                                     &run->substitute[i]);
      if (status == COMPUTE_OK && i < plan->input_count)
        status = compute_tensor_copy(run->substitute[i], run->bound[i]);
      if (status != COMPUTE_OK) return status;
      used = run->substitute[i];
    }
    run->memory[i] = &used->buffer->memory;
    run->offset[i] = (uint64_t)used->offset;
  }
  for (uint32_t i = 0; i < plan->parameter_count; i++) {
    const compute_tensor *t = plan->parameters[i];
    run->memory[ports + i] = &t->buffer->memory;
    run->offset[ports + i] = (uint64_t)t->offset;
  }
  return COMPUTE_OK;
}
