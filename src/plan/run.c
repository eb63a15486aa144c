/* Running a plan: check the bindings, take an arena, enqueue the steps.
 *
 * What a run needs besides the arena (queues, tables of slots) is kept by the plan and reused, so
 * that a run in steady state allocates nothing but pool blocks. A tensor that the steps cannot use
 * as it is (strided, on another device, overlapping another one of the run) is replaced by a dense
 * stand-in, copied before or after. */
#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/run.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static const char HERE[] = "compute_run";

static void run_destroy(const compute_plan *plan, plan_run *run) {
  record_release(plan, &run->recording);
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) compute_queue_release(run->queue[d]);
  base_release(run->bound);
  base_release(run->stand_in);
  base_release(run->memory);
  base_release(run->offset);
  base_release(run->arguments);
  base_release(run);
}

void plan_runs_release(compute_plan *plan) {
  while (plan->idle != NULL) {
    plan_run *next = plan->idle->next;
    run_destroy(plan, plan->idle);
    plan->idle = next;
  }
}

static compute_status run_acquire(compute_plan *plan, plan_run **result) {
  pthread_mutex_lock(&plan->idle_mutex);
  plan_run *run = plan->idle;
  if (run != NULL) plan->idle = run->next;
  pthread_mutex_unlock(&plan->idle_mutex);
  *result = run;
  if (run != NULL) return COMPUTE_OK;
  run = base_allocate(1, sizeof *run);
  if (run == NULL) goto short_of_memory;
  size_t ports = (size_t)plan->input_count + plan->output_count;
  run->bound = base_allocate(ports, sizeof *run->bound);
  run->stand_in = base_allocate(ports, sizeof *run->stand_in);
  run->memory = base_allocate(plan->slot_count, sizeof *run->memory);
  run->offset = base_allocate(plan->slot_count, sizeof *run->offset);
  run->arguments = base_allocate(plan->most_operands, sizeof *run->arguments);
  if (!run->bound || !run->stand_in || !run->memory || !run->offset || !run->arguments) {
    run_destroy(plan, run);
    goto short_of_memory;
  }
  *result = run;
  return COMPUTE_OK;

short_of_memory:
  return error_set(plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, HERE, "no memory to run a plan");
}

static void run_return(compute_plan *plan, plan_run *run) {
  for (uint32_t i = 0; i < plan->input_count + plan->output_count; i++) {
    compute_tensor_release(run->stand_in[i]);
    run->stand_in[i] = run->bound[i] = NULL;
  }
  pthread_mutex_lock(&plan->idle_mutex);
  run->next = plan->idle;
  plan->idle = run;
  pthread_mutex_unlock(&plan->idle_mutex);
}

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

static compute_status bind_all(const compute_plan *plan, plan_run *run,
                               const compute_binding *bindings, size_t count) {
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
  if (t->buffer->device != plan->device[PLAN_MAIN] || !shape_is_dense(t->shape, t->strides))
    return true;
  bool output = port >= plan->input_count;
  for (uint32_t i = 0; output && i < plan->input_count; i++)
    if (overlap(t, run->bound[i])) return true;
  for (uint32_t i = 0; (output || plan->assigns) && i < plan->parameter_count; i++)
    if (overlap(t, plan->parameters[i].tensor)) return true;
  return false;
}

static compute_status prepare_ports(const compute_plan *plan, plan_run *run) {
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
      compute_status s = tensor_create_private(plan->device[PLAN_MAIN], port->dtype, port->shape,
                                               &run->stand_in[i]);
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

static compute_status take_memory(const compute_plan *plan, plan_run *run, memory_buffer **arena) {
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) {
    if (plan->constants[d] != NULL) {
      run->memory[plan->constant_slot[d]] = &plan->constants[d]->memory;
      run->offset[plan->constant_slot[d]] = 0;
    }
    if (plan->arena_bytes[d] == 0) continue;
    compute_status s = buffer_create(plan->device[d], plan->arena_bytes[d], &arena[d]);
    if (s != COMPUTE_OK) return s;
    run->memory[plan->arena_slot[d]] = &arena[d]->memory;
    run->offset[plan->arena_slot[d]] = 0;
  }
  return COMPUTE_OK;
}

static compute_status take_queues(const compute_plan *plan, plan_run *run, compute_queue **queue) {
  compute_status s = COMPUTE_OK;
  if (plan->device[PLAN_CPU] != NULL && run->queue[PLAN_CPU] == NULL)
    s = compute_queue_create(plan->device[PLAN_CPU], &run->queue[PLAN_CPU]);
  if (s != COMPUTE_OK || *queue != NULL) return s;
  if (run->queue[PLAN_MAIN] == NULL)
    s = compute_queue_create(plan->device[PLAN_MAIN], &run->queue[PLAN_MAIN]);
  *queue = run->queue[PLAN_MAIN];
  return s;
}

/* After the steps: wait if the caller has no queue to wait on, or a result must still be copied. */
static compute_status finish(const compute_plan *plan, plan_run *run, compute_queue *queue,
                             bool own, memory_buffer *arena) {
  bool copies = false, inputs_staged = false;
  for (uint32_t i = 0; i < plan->input_count; i++) inputs_staged |= run->stand_in[i] != NULL;
  for (uint32_t i = 0; i < plan->output_count; i++)
    copies |= run->stand_in[plan->input_count + i] != NULL;
  if (!own && !copies && !inputs_staged)
    return arena != NULL ? queue_keep(queue, arena) : COMPUTE_OK;
  compute_status s = compute_queue_wait(queue);
  for (uint32_t i = plan->input_count;
       s == COMPUTE_OK && i < plan->input_count + plan->output_count; i++)
    if (run->stand_in[i] != NULL) s = compute_tensor_copy(run->bound[i], run->stand_in[i]);
  return s;
}

compute_status compute_run(const compute_plan *plan, const compute_binding *bindings, size_t count,
                           compute_queue *queue) {
  if (plan == NULL || (bindings == NULL && count > 0))
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER, HERE,
                     "compute_run: %s is NULL", plan == NULL ? "plan" : "bindings");
  if (queue != NULL && queue->device != plan->device[PLAN_MAIN])
    return error_set(plan->context,
                     queue->device->context != plan->context ? COMPUTE_ERROR_WRONG_CONTEXT
                                                             : COMPUTE_ERROR_INVALID_ARGUMENT,
                     HERE, "compute_run: the queue is on %s, the plan on %s",
                     queue->device->info.name, plan->device[PLAN_MAIN]->info.name);
  compute_plan *owner = (compute_plan *)plan; /* only its list of idle runs changes, under a lock */
  memory_buffer *arena[PLAN_DEVICES] = {NULL, NULL};
  bool own = queue == NULL;
  plan_run *run;
  compute_status s = run_acquire(owner, &run);
  if (s != COMPUTE_OK) return s;
  s = bind_all(plan, run, bindings, count);
  if (s == COMPUTE_OK) s = take_queues(plan, run, &queue);
  if (s == COMPUTE_OK) s = prepare_ports(plan, run);
  if (s == COMPUTE_OK) s = take_memory(plan, run, arena);
  if (s == COMPUTE_OK) {
    s = run_steps(plan, run, queue, NULL);
    if (s == COMPUTE_OK)
      s = finish(plan, run, queue, own, arena[PLAN_MAIN]);
    else
      (void)compute_queue_wait(queue); /* what was submitted still uses the arena */
  }
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) buffer_release(arena[d]);
  run_return(owner, run);
  return s;
}
