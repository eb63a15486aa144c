/* SPDX-License-Identifier: MIT */
/* Repeats a failed run on the CPU, if the caller allows it and the result can be correct.
 *
 * The result is correct if all data that the run reads are unchanged and readable, and the outputs
 * can be written. Inputs never change. Parameters change in the last steps. A run that failed
 * earlier has not changed them; a later failure leaves them in an unknown state and is returned.
 * The memory of a lost device is inaccessible. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "plan/compile/run/run.h"
#include "core/device/collector.h"
#include "core/tensor/tensor.h"

static const char operation[] = "compute_run";

/* Longer limits mean no limit, because the sum with the clock must fit. */
#define LONGEST_LIMIT 1e9 /* seconds */

bool run_limit_is_valid(double seconds) {
  return seconds >= 0 && !isnan(seconds);
}

int64_t run_deadline(double limit) {
  if (limit <= 0 || limit > LONGEST_LIMIT) return 0;
  int64_t deadline = clock_now() + (int64_t)(limit * 1e9);
  return deadline != 0 ? deadline : 1;
}

/* ---- Conditions for a repetition ------------------------------------------------------------- */

static bool is_failure_of_device(compute_status status, const run_attempt *attempt) {
  if (attempt->refused) return false;
  switch (status) {
  case COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY:
  case COMPUTE_ERROR_COMPILATION:
  case COMPUTE_ERROR_LAUNCH:
  case COMPUTE_ERROR_TRANSFER:
  case COMPUTE_ERROR_DEVICE_LOST: return true;
  case COMPUTE_ERROR_TIMEOUT: return attempt->hung;
  default: return false;
  }
}

static compute_fallback policy_of(const compute_plan *plan, compute_fallback asked) {
  return asked == COMPUTE_FALLBACK_DEFAULT ? plan->fallback : asked;
}

static bool is_out_of_reach(const compute_tensor *t) {
  return t->buffer->memory.bytes > 0 &&
         atomic_load_explicit(&t->buffer->device->loss, memory_order_acquire) != DEVICE_WORKS;
}

/* Returns the reason why a repetition could be wrong, or NULL if it would be correct. */
static const char *objection(const compute_plan *plan, const compute_binding *bindings,
                             size_t count, const run_attempt *attempt) {
  if (attempt->foreign) return "other work of the queue may have failed too";
  if (attempt->touched) return "parameters or inputs may have been changed already";
  if (attempt->joined) return "other processes have taken part";
  for (size_t i = 0; i < count; i++)
    if (bindings[i].tensor && is_out_of_reach(bindings[i].tensor))
      return "a bound tensor is on the lost device";
  for (uint32_t i = 0; i < plan->parameter_count; i++)
    if (is_out_of_reach(plan->parameters[i])) return "a parameter is on the lost device";
  return NULL;
}

/* ---- The plan for the CPU (its mutex held) --------------------------------------------------- */

static compute_status make_plan(cpu_plan *cpu) {
  if (cpu->plan) return COMPUTE_OK;
  compute_status status = cpu_plan_stage(cpu);
  if (status != COMPUTE_OK) return status;
  compute_node *nodes = base_allocate(cpu->output_count, sizeof *nodes);
  if (!nodes)
    return error_set(cpu->graph.context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for a plan's copy of its graph");
  for (uint32_t i = 0; i < cpu->output_count; i++)
    nodes[i] = graph_handle(&cpu->graph, cpu->outputs[i]);
  uint32_t kept = COMPUTE_PLAN_NO_FUSION | COMPUTE_PLAN_NO_SIMPLIFICATION |
                  COMPUTE_PLAN_REPRODUCIBLE | COMPUTE_PLAN_PORTABLE;
  status = compute_compile(&cpu->graph, nodes, cpu->output_count,
                           &(compute_plan_options){.device = cpu->graph.context->cpu,
                                                   .fallback = COMPUTE_FALLBACK_STRICT,
                                                   .flags = cpu->flags & kept,
                                                   .name = "repetition on the CPU"},
                           &cpu->plan);
  base_release(nodes);
  return status;
}

/* Copies assigned parameters back to their device. */
static compute_status store_parameters(const cpu_plan *cpu, bool *touched) {
  for (uint32_t i = 0; i < cpu->staged_count; i++) {
    const staged_parameter *p = &cpu->staged[i];
    if (!p->assigned) continue;
    *touched = true;
    compute_status status = compute_tensor_copy(p->original, p->copy);
    if (status != COMPUTE_OK) return status;
  }
  return COMPUTE_OK;
}

/* Runs the CPU plan to completion with the caller's bindings. Parameters on other devices are
 * copied to the CPU first, and back afterwards if assigned. Runs take turns. The status and the
 * error come from the CPU's run. */
static compute_status run_on_cpu(cpu_plan *cpu, const compute_binding *bindings, size_t count,
                                 const run_control *control, run_attempt *attempt) {
  *attempt = (run_attempt){0};
  pthread_mutex_lock(&cpu->mutex);
  compute_status status = make_plan(cpu);
  for (uint32_t i = 0; status == COMPUTE_OK && i < cpu->staged_count; i++)
    status = compute_tensor_copy(cpu->staged[i].copy, cpu->staged[i].original);
  if (status == COMPUTE_OK) status = run_once(cpu->plan, bindings, count, NULL, control, attempt);
  if (status == COMPUTE_OK) status = store_parameters(cpu, &attempt->touched);
  pthread_mutex_unlock(&cpu->mutex);
  return status;
}

/* ---- Fallback -------------------------------------------------------------------------------- */

/* Recovers a lost device for later runs; this run's data there stay lost. */
static void bring_back(compute_device *device) {
  compute_error before;
  if (atomic_load_explicit(&device->loss, memory_order_acquire) != DEVICE_FAILED ||
      !device->backend->device_recover)
    return;
  compute_error_get(NULL, &before);
  (void)compute_device_recover(device);
  error_restore(NULL, &before);
}

/* Returns the device's failure, extended by `words` with the reason why it is final. */
static compute_status final_failure(const compute_plan *plan, const compute_error *cause,
                                    const char *words, const char *detail) {
  return error_set_native(plan->context, cause->status, cause->native_code, cause->operation,
                          cause->remedy[0] ? cause->remedy : NULL, "%.300s; %s%.160s",
                          cause->message, words, detail);
}

static compute_status repeat(const compute_plan *plan, const compute_binding *bindings,
                             size_t count, const run_request *request, const compute_error *before,
                             run_attempt *attempt) {
  compute_error cause, second;
  compute_error_get(NULL, &cause);
  compute_device *device = plan->device[PLAN_MAIN];
  /* Earlier work in the caller's queue may still be computing the inputs. */
  if (request->queue && !attempt->hung &&
      queue_wait_until(request->queue, run_deadline(request->time_limit)) != COMPUTE_OK)
    attempt->foreign = true;
  const char *why_not = objection(plan, bindings, count, attempt);
  bring_back(device);
  if (why_not) return final_failure(plan, &cause, "it could not be repeated on the CPU: ", why_not);
  run_control control = {.cancelled = request->cancelled,
                         .ask = request->ask,
                         .deadline = run_deadline(request->time_limit),
                         .progress = request->progress};
  compute_status status = run_on_cpu(plan->cpu_plan, bindings, count, &control, attempt);
  bool loud = policy_of(plan, request->fallback) == COMPUTE_FALLBACK_WARN;
  if (status == COMPUTE_OK) {
    fallback_note(plan->context, device, FALLBACK_RUN_ON_CPU, loud,
                  "a run of %s%.80s failed and was repeated on the CPU: %.300s",
                  plan->name ? "" : "a plan", plan->name ? plan->name : "", cause.message);
    error_restore(NULL, before);
    return status;
  }
  if (status == COMPUTE_ERROR_CANCELLED) return status;
  compute_error_get(NULL, &second);
  return final_failure(plan, &cause,
                       attempt->touched ? "parameters may have been changed; repeated on the CPU: "
                                        : "repeated on the CPU: ",
                       second.message);
}

/* Extends the error message if a failed run may have changed parameters. */
static void tell_of_parameters(const compute_plan *plan, const run_attempt *attempt) {
  compute_error cause;
  if (!attempt->touched) return;
  compute_error_get(NULL, &cause);
  (void)final_failure(plan, &cause, "parameters may have been changed", "");
}

compute_status run_with_fallback(const compute_plan *plan, const compute_binding *bindings,
                                 size_t count, const run_request *request,
                                 compute_run_report *report) {
  int64_t start = report ? clock_now() : 0;
  run_control control = {.cancelled = request->cancelled,
                         .ask = request->ask,
                         .deadline = run_deadline(request->time_limit),
                         .progress = request->progress};
  run_attempt attempt;
  compute_error before;
  if (plan->cpu_plan) compute_error_get(NULL, &before);
  compute_status status = run_once(plan, bindings, count, request->queue, &control, &attempt),
                 first = status;
  bool again = status != COMPUTE_OK && plan->cpu_plan && is_failure_of_device(status, &attempt) &&
               policy_of(plan, request->fallback) != COMPUTE_FALLBACK_STRICT;
  if (again)
    status = repeat(plan, bindings, count, request, &before, &attempt);
  else if (status != COMPUTE_OK)
    tell_of_parameters(plan, &attempt);
  if (status != COMPUTE_OK) run_skip_rest(plan, &attempt);
  if (report) {
    bool on_cpu = again && status == COMPUTE_OK;
    *report = (compute_run_report){
        .device = on_cpu ? plan->context->cpu : plan->device[PLAN_MAIN],
        .failure = again ? first : COMPUTE_OK,
        .fallbacks = on_cpu,
        .steps_done = attempt.steps,
        .seconds = (double)(clock_now() - start) / 1e9,
    };
  }
  return status;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static compute_status check_call(const compute_plan *plan, const compute_binding *bindings,
                                 size_t count, const compute_queue *queue) {
  if (!plan || (!bindings && count > 0))
    return error_set(plan ? plan->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL", !plan ? "plan" : "bindings");
  if (queue && queue->device != plan->device[PLAN_MAIN])
    return error_set(plan->context,
                     queue->device->context != plan->context ? COMPUTE_ERROR_WRONG_CONTEXT
                                                             : COMPUTE_ERROR_INVALID_ARGUMENT,
                     operation, "the queue is on %s, the plan on %s", queue->device->info.name,
                     plan->device[PLAN_MAIN]->info.name);
  return COMPUTE_OK;
}

static compute_status check_options(const compute_plan *plan, const compute_run_options *options) {
  if ((unsigned)options->fallback > COMPUTE_FALLBACK_STRICT ||
      !run_limit_is_valid(options->time_limit))
    return error_set(plan->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the options have an unknown fallback or an invalid time limit");
  return error_if_reserved(plan->context, operation, "options", options->reserved);
}

/* Skips the calls of a refused run, because others may wait for them. */
static compute_status refuse(const compute_plan *plan, compute_status status) {
  if (plan) plan_skip_calls(plan, 0);
  return status;
}

compute_status compute_run(const compute_plan *plan, const compute_binding *bindings, size_t count,
                           compute_queue *queue) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(plan, context);
  compute_status status = check_call(plan, bindings, count, queue);
  if (status != COMPUTE_OK) return refuse(plan, status);
  return run_with_fallback(plan, bindings, count, &(run_request){.queue = queue}, NULL);
}

compute_status compute_run_with(const compute_plan *plan, const compute_binding *bindings,
                                size_t count, const compute_run_options *options,
                                compute_run_report *report) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(plan, context);
  static const compute_run_options defaults;
  if (report) *report = (compute_run_report){0};
  if (!options) options = &defaults;
  compute_status status = check_call(plan, bindings, count, options->queue);
  if (status == COMPUTE_OK) status = check_options(plan, options);
  if (status != COMPUTE_OK) return refuse(plan, status);
  const run_request request = {
      .queue = options->queue, .fallback = options->fallback, .time_limit = options->time_limit};
  return run_with_fallback(plan, bindings, count, &request, report);
}
