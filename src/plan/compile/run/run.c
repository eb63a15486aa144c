/* SPDX-License-Identifier: MIT */
/* Runs a plan once: takes queues and an arena, enqueues the steps and waits if necessary.
 *
 * The plan keeps everything else that a run needs (queues, tables of slots) for reuse. In steady
 * state a run allocates only pool blocks. */
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "plan/compile/run/run.h"

static const char operation[] = "compute_run";

static void run_destroy(const compute_plan *plan, plan_run *run) {
  record_release(plan, &run->recording);
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) compute_queue_release(run->queue[d]);
  for (uint32_t i = 0; run->arena_queue && i < plan->thread_arenas; i++)
    compute_queue_release(run->arena_queue[i]);
  base_release(run->arena_queue);
  base_release(run->bound);
  base_release(run->substitute);
  base_release(run->repeats);
  base_release(run->inputs.at);
  base_release(run->outputs.at);
  base_release(run->parameters.at);
  base_release(run->memory);
  base_release(run->offset);
  base_release(run->arguments);
  base_release(run);
}

void plan_runs_release(compute_plan *plan) {
  while (plan->idle) {
    plan_run *next = plan->idle->next;
    run_destroy(plan, plan->idle);
    plan->idle = next;
  }
}

/* Returns the first step that writes a parameter. A failure before it leaves all parameters
 * unchanged. */
static uint32_t find_first_assign(const compute_plan *plan) {
  for (uint32_t i = 0; plan->assigns && i < plan->step_count; i++) {
    const plan_step *s = &plan->steps[i];
    for (uint32_t k = s->input_count; k < s->operand_count; k++)
      if (plan_slot_is_parameter(plan, s->operands[k].slot)) return i;
  }
  return plan->step_count;
}

/* Returns NULL when out of memory. */
static plan_run *run_create(const compute_plan *plan) {
  plan_run *run = base_allocate(1, sizeof *run);
  if (!run) return NULL;
  const size_t ports = plan_port_count(plan), outputs = (size_t)plan->output_count;
  run->bound = base_allocate(ports, sizeof *run->bound);
  run->substitute = base_allocate(ports, sizeof *run->substitute);
  run->repeats = base_allocate(plan->repeat_count, sizeof *run->repeats);
  run->inputs.at = base_allocate(plan->input_count, sizeof *run->inputs.at);
  run->outputs.at = base_allocate(outputs + plan->repeat_count, sizeof *run->outputs.at);
  run->parameters.at = base_allocate(plan->parameter_count, sizeof *run->parameters.at);
  run->memory = base_allocate(plan->slot_count, sizeof *run->memory);
  run->offset = base_allocate(plan->slot_count, sizeof *run->offset);
  run->arguments = base_allocate(plan->most_operands, sizeof *run->arguments);
  run->arena_queue = base_allocate(plan->thread_arenas, sizeof *run->arena_queue);
  if (!run->bound || !run->substitute || !run->repeats || !run->inputs.at || !run->outputs.at ||
      !run->parameters.at || !run->memory || !run->offset || !run->arguments || !run->arena_queue) {
    run_destroy(plan, run);
    return NULL;
  }
  for (uint32_t i = 0; i < plan->parameter_count; i++)
    spans_add(&run->parameters, plan->parameters[i]);
  spans_sort(&run->parameters);
  run->first_assign = find_first_assign(plan);
  return run;
}

static compute_status run_acquire(compute_plan *plan, plan_run **result) {
  pthread_mutex_lock(&plan->idle_mutex);
  plan_run *run = plan->idle;
  if (run) plan->idle = run->next;
  pthread_mutex_unlock(&plan->idle_mutex);
  *result = run;
  if (run) return COMPUTE_OK;
  run = run_create(plan);
  *result = run;
  return run ? COMPUTE_OK
             : error_set(plan->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                         "not enough memory to run a plan");
}

static void run_return(compute_plan *plan, plan_run *run) {
  for (uint32_t i = 0; i < plan_port_count(plan); i++) {
    compute_tensor_release(run->substitute[i]);
    run->substitute[i] = run->bound[i] = NULL;
  }
  run->repeat_count = 0;
  pthread_mutex_lock(&plan->idle_mutex);
  run->next = plan->idle;
  plan->idle = run;
  pthread_mutex_unlock(&plan->idle_mutex);
}

static compute_status take_memory(const compute_plan *plan, plan_run *run, memory_buffer **arena) {
  for (size_t i = 0; i < plan->packed_count; i++) {
    run->memory[plan->packed_slot + i] = &plan->packed[i].buffer->memory;
    run->offset[plan->packed_slot + i] = 0;
  }
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) {
    if (plan->constants[d]) {
      run->memory[plan->constant_slot[d]] = &plan->constants[d]->memory;
      run->offset[plan->constant_slot[d]] = 0;
    }
    if (plan->arena_bytes[d] == 0) continue;
    compute_status status = buffer_create(plan->device[d], plan->arena_bytes[d], &arena[d]);
    if (status != COMPUTE_OK) return status;
    run->memory[plan->arena_slot[d]] = run->memory[plan->thread_arena_slot[d]] = &arena[d]->memory;
    run->offset[plan->arena_slot[d]] = run->offset[plan->thread_arena_slot[d]] = 0;
  }
  return COMPUTE_OK;
}

static compute_status take_queues(const compute_plan *plan, plan_run *run, compute_queue **queue) {
  compute_status status = COMPUTE_OK;
  if (plan->device[PLAN_CPU] && !run->queue[PLAN_CPU])
    status = compute_queue_create(plan->device[PLAN_CPU], &run->queue[PLAN_CPU]);
  for (uint32_t i = 1; status == COMPUTE_OK && i < plan->thread_arenas; i++)
    if (!run->arena_queue[i])
      status = compute_queue_create(plan->context->cpu, &run->arena_queue[i]);
  if (status != COMPUTE_OK || *queue) return status;
  if (!run->queue[PLAN_MAIN])
    status = compute_queue_create(plan->device[PLAN_MAIN], &run->queue[PLAN_MAIN]);
  *queue = run->queue[PLAN_MAIN];
  return status;
}

/* ---- Calls that others wait for -------------------------------------------------------------- */

static bool others_wait(const plan_step *s) {
  const graph_host_call *call = s->call;
  return call && call->skip;
}

void plan_skip_calls(const compute_plan *plan, uint32_t first) {
  compute_error cause;
  compute_error_get(plan->context, &cause);
  for (uint32_t i = first; i < plan->step_count; i++) {
    const graph_host_call *call = plan->steps[i].call;
    if (others_wait(&plan->steps[i])) call->skip(call->key.user);
  }
  if (cause.status) error_restore(plan->context, &cause);
}

void run_skip_rest(const compute_plan *plan, const run_attempt *attempt) {
  plan_skip_calls(attempt->plan ? attempt->plan : plan, attempt->plan ? attempt->done : 0);
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* The time that earlier work may take to finish after a run ended early. */
#define GRACE_NANOSECONDS 200000000

/* Waits for the work of a run that has ended early, because it still uses the arena. Keeps the
 * status and the error of the failure, unless the device hangs. */
static compute_status wait_after_failure(compute_queue *queue, const run_control *control,
                                         compute_status failure, run_attempt *attempt) {
  compute_error cause;
  int64_t deadline = 0;
  if (control && control->deadline != 0) {
    deadline = clock_now() + GRACE_NANOSECONDS;
    if (deadline < control->deadline) deadline = control->deadline;
  }
  compute_error_get(NULL, &cause);
  compute_status waited = attempt->hung ? COMPUTE_OK : queue_wait_until(queue, deadline);
  attempt->foreign |= waited != COMPUTE_OK;
  attempt->hung |= device_hangs(queue->device);
  if (waited == COMPUTE_ERROR_TIMEOUT) return waited;
  error_restore(queue->device->context, &cause);
  return failure;
}

/* After the steps: waits if the caller has no queue to wait on, if there is a time limit, or if a
 * result must still be copied. */
static compute_status finish(const compute_plan *plan, plan_run *run, compute_queue *queue,
                             bool own, const run_control *control, memory_buffer *arena,
                             run_attempt *attempt) {
  int64_t deadline = control ? control->deadline : 0;
  bool copies = run->repeat_count > 0, inputs_staged = false;
  for (uint32_t i = 0; i < plan->input_count; i++) inputs_staged |= run->substitute[i] != NULL;
  for (uint32_t i = 0; i < plan->output_count; i++)
    copies |= run->substitute[plan->input_count + i] != NULL;
  compute_status status;
  if (!own && !copies && !inputs_staged && deadline == 0) {
    status = arena ? queue_keep(queue, arena) : COMPUTE_OK;
    return status ? status : queue_flush(queue);
  }
  status = queue_wait_until(queue, deadline);
  attempt->hung |= device_hangs(queue->device);
  attempt->foreign = status != COMPUTE_OK;
  for (uint32_t i = plan->input_count; status == COMPUTE_OK && i < plan_port_count(plan); i++)
    if (run->substitute[i]) status = compute_tensor_copy(run->bound[i], run->substitute[i]);
  for (uint32_t i = 0; status == COMPUTE_OK && i < run->repeat_count; i++)
    status = compute_tensor_copy(run->repeats[i].tensor, run->bound[run->repeats[i].port]);
  return status;
}

/* A device that was lost and recovered no longer has the plan's kernels. */
static compute_status check_devices(const compute_plan *plan) {
  compute_device *device = plan->device[PLAN_MAIN];
  compute_status status = device_check(device, operation);
  if (status != COMPUTE_OK || plan->generation == device_generation(device)) return status;
  return error_set_native(
      plan->context, COMPUTE_ERROR_DEVICE_LOST, 0, operation, "compile the plan again",
      "the plan was compiled before %s was lost and recovered", device->info.name);
}

/* A parameter may have been frozen after the plan was compiled. */
static compute_status check_parameters(const compute_plan *plan) {
  for (uint32_t i = 0; plan->assigns && i < plan->parameter_count; i++) {
    if (!compute_tensor_is_frozen(plan->parameters[i])) continue;
    const uint32_t slot = plan_port_count(plan) + i;
    for (uint32_t n = 0; n < plan->step_count; n++) {
      const plan_step *s = &plan->steps[n];
      for (uint32_t k = s->input_count; k < s->operand_count; k++)
        if (s->operands[k].slot == slot)
          return error_set(plan->context, COMPUTE_ERROR_BINDING, operation,
                           "the plan assigns to parameter %u, whose tensor is frozen", (unsigned)i);
    }
  }
  return COMPUTE_OK;
}

/* A hung kernel may still use these buffers, so its queue keeps them until the kernel has ended. */
static void keep_memory(const compute_plan *plan, const plan_run *run, compute_queue *queue,
                        memory_buffer *const *arena) {
  for (uint32_t d = 0; d < PLAN_DEVICES; d++)
    if (arena[d]) queue_keep_hung(queue, arena[d]);
  for (uint32_t i = 0; i < plan_port_count(plan); i++)
    if (run->substitute[i]) queue_keep_hung(queue, run->substitute[i]->buffer);
}

static compute_status submit(const compute_plan *plan, plan_run *run, compute_queue *queue,
                             bool own, const run_control *control, memory_buffer **arena,
                             run_attempt *attempt) {
  compute_status status = queue_keep_checks(queue, plan->checks);
  if (status == COMPUTE_OK) status = run_steps(plan, run, queue, control);
  /* This run, a transfer or another run may have detected the hang; the queue may hold work of this
   * run. */
  attempt->hung = device_hangs(queue->device);
  attempt->steps = run->submitted;
  attempt->touched = run->submitted > run->first_overwrite;
  attempt->refused = run->refused;
  attempt->done = run->done;
  for (uint32_t i = 0; i < run->done && !attempt->joined; i++)
    attempt->joined = others_wait(&plan->steps[i]);
  if (status == COMPUTE_OK)
    return finish(plan, run, queue, own, control, arena[PLAN_MAIN], attempt);
  return wait_after_failure(queue, control, status, attempt);
}

compute_status run_once(const compute_plan *plan, const compute_binding *bindings, size_t count,
                        compute_queue *queue, const run_control *control, run_attempt *attempt) {
  compute_plan *owner = (compute_plan *)plan; /* only its list of idle runs changes, under a lock */
  memory_buffer *arena[PLAN_DEVICES] = {NULL, NULL};
  bool own = !queue;
  plan_run *run;
  *attempt = (run_attempt){.plan = plan};
  compute_status status = run_acquire(owner, &run);
  if (status != COMPUTE_OK) return status;
  run->submitted = run->done = 0;
  run->refused = false;
  status = bind_all(plan, run, bindings, count);
  if (status == COMPUTE_OK) status = check_devices(plan);
  if (status == COMPUTE_OK) status = check_parameters(plan);
  if (status == COMPUTE_OK) status = take_queues(plan, run, &queue);
  if (status == COMPUTE_OK) status = bind_ports(plan, run);
  if (status == COMPUTE_OK) status = take_memory(plan, run, arena);
  if (status == COMPUTE_OK) status = submit(plan, run, queue, own, control, arena, attempt);
  if (status != COMPUTE_OK) error_attribute(plan->context, operation);
  if (own) attempt->foreign = false;
  if (attempt->hung) keep_memory(plan, run, queue, arena);
  for (uint32_t d = 0; d < PLAN_DEVICES; d++) buffer_release(arena[d]);
  run_return(owner, run);
  return status;
}

compute_status run_check(const compute_plan *plan, const compute_binding *bindings, size_t count) {
  plan_run *run;
  compute_status status = run_acquire((compute_plan *)plan, &run);
  if (status != COMPUTE_OK) return status;
  status = bind_all(plan, run, bindings, count);
  run_return((compute_plan *)plan, run);
  return status;
}
