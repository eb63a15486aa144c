/* SPDX-License-Identifier: MIT */
/* The steps of a run, submitted one by one or all as a recording.
 *
 * One load of the context's watch word shows whether a run must be profiled or validated. If not,
 * this load is the only cost. */
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/device/transfer.h"
#include "plan/compile/run/run.h"
#include "core/device/collector.h"
#include "plan/validate/validate.h"
#include "core/base/alloc.h"
#include "core/base/log.h"

static const char operation[] = "compute_run";

/* ---- Copies in place ------------------------------------------------------------------------- */

/* True if a step copies a value onto itself, because the caller bound one tensor to an input and an
 * output. */
static bool is_idle(const plan_step *s, const compute_memory *const *memory,
                    const uint64_t *offset) {
  if (!s->plain_copy) return false;
  const plan_operand *from = &s->operands[0], *to = &s->operands[1];
  const compute_memory *a = memory[from->slot], *b = memory[to->slot];
  const bool same = a == b || (a->host && b->host);
  return same && (uintptr_t)a->host + offset[from->slot] + from->offset ==
                     (uintptr_t)b->host + offset[to->slot] + to->offset;
}

/* ---- Recordings ------------------------------------------------------------------------------ */

enum { WARM_UP_RUNS = 1, LEAST_STEPS = 2 };

static const compute_backend *backend_of(const compute_plan *plan) {
  return plan->device[PLAN_MAIN]->backend;
}

/* True for plans that run entirely on a device that can record. */
static bool is_recordable(const compute_plan *plan) {
  const compute_backend *backend = backend_of(plan);
  if (!backend->record_begin || !backend->record_end || !backend->record_submit ||
      !backend->record_destroy || plan->step_count < LEAST_STEPS)
    return false;
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (!plan->steps[i].kernel || plan->steps[i].device != PLAN_MAIN) return false;
  return true;
}

/* True if the copies without effect are exactly those that the recording omits. */
static bool leaves_out_same(const compute_plan *plan, const plan_recording *recording,
                            const compute_memory *const *memory, const uint64_t *offset) {
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (is_idle(&plan->steps[i], memory, offset) != recording->skipped[i]) return false;
  return true;
}

static void fill(const compute_plan *plan, plan_recording *recording,
                 const compute_memory *const *memory, const uint64_t *offset) {
  compute_argument *arguments = recording->arguments;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    if (recording->skipped[i]) continue;
    plan_step_arguments(&plan->steps[i], memory, offset, arguments);
    arguments += plan->steps[i].operand_count;
  }
}

static compute_status enqueue_all(const compute_plan *plan, const plan_recording *recording,
                                  compute_queue *queue) {
  const compute_argument *arguments = recording->arguments;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const plan_step *s = &plan->steps[i];
    if (recording->skipped[i]) continue;
    queue_label(queue, s->check);
    compute_status status = queue_enqueue(queue, s->kernel->kernel, arguments, s->operand_count);
    if (status != COMPUTE_OK) return status;
    arguments += s->operand_count;
  }
  return COMPUTE_OK;
}

/* Makes the recording; returns true if it exists. A failure here is not a failure of the run, which
 * continues step by step. It restores the thread's previous error. */
static bool make(const compute_plan *plan, plan_recording *recording, compute_queue *queue,
                 const compute_memory *const *memory, const uint64_t *offset) {
  const compute_backend *backend = backend_of(plan);
  uint32_t count = 0;
  compute_error before;
  recording->skipped = base_allocate(plan->step_count, sizeof *recording->skipped);
  if (!recording->skipped) return false;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    recording->skipped[i] = is_idle(&plan->steps[i], memory, offset);
    if (!recording->skipped[i]) count += plan->steps[i].operand_count;
  }
  recording->arguments = base_allocate(count, sizeof *recording->arguments);
  if (!recording->arguments) return false;
  recording->count = count;
  fill(plan, recording, memory, offset);
  compute_error_get(NULL, &before);
  compute_status status = backend->record_begin(queue->handle);
  if (status == COMPUTE_OK) {
    status = enqueue_all(plan, recording, queue);
    if (status == COMPUTE_OK)
      status = backend->record_end(queue->handle, &recording->handle);
    else
      (void)backend->record_end(queue->handle, NULL);
  }
  if (status == COMPUTE_OK) return true;
  recording->handle = NULL;
  log_write(COMPUTE_LOG_INFO, "core", "%s: a plan is not recorded: %s",
            plan->device[PLAN_MAIN]->info.name, compute_error_message(plan->context));
  error_restore(NULL, &before);
  return false;
}

/* Submits all steps as a recording, and makes the recording when it is due. Returns false if the
 * caller must submit the steps one by one; otherwise *status is the result. `memory` and `offset`
 * describe the slots. */
static bool record_run(const compute_plan *plan, plan_recording *recording, compute_queue *queue,
                       const compute_memory *const *memory, const uint64_t *offset,
                       compute_status *status) {
  if (recording->given_up) return false;
  if (!recording->handle) {
    if (!is_recordable(plan)) recording->given_up = true;
    if (recording->given_up || recording->runs++ < WARM_UP_RUNS) return false;
    recording->given_up = !make(plan, recording, queue, memory, offset);
    if (recording->given_up) {
      record_release(plan, recording);
      return false;
    }
  } else {
    if (!leaves_out_same(plan, recording, memory, offset)) return false;
    fill(plan, recording, memory, offset);
  }
  *status = backend_of(plan)->record_submit(queue->handle, recording->handle, recording->arguments,
                                            recording->count);
  return true;
}

static void destroy(compute_device *device, void *handle) {
  device->backend->record_destroy(device->handle, handle);
}

void record_release(const compute_plan *plan, plan_recording *recording) {
  compute_device *device = plan->device[PLAN_MAIN];
  if (recording->handle && !device_release_later(device, destroy, recording->handle))
    destroy(device, recording->handle);
  base_release(recording->arguments);
  base_release(recording->skipped);
  recording->skipped = NULL;
  recording->handle = NULL;
  recording->arguments = NULL;
}

/* ---- Step by step ---------------------------------------------------------------------------- */

/* Copies between the two devices; the CPU's memory is host memory. If the driver refuses the copy,
 * it is repeated after all earlier work is done, in pieces if necessary. */
static compute_status transfer(const plan_step *s, compute_queue *queue,
                               const compute_argument *arguments, int64_t deadline) {
  const compute_argument *from = &arguments[0], *to = &arguments[1];
  const bool down = s->device == PLAN_CPU;
  const compute_argument *near = down ? to : from;
  unsigned char *host = (unsigned char *)near->memory->host + near->offset;
  const compute_status status = down ? queue_download(queue, host, from, s->bytes, NULL)
                                     : queue_upload(queue, to, host, s->bytes, NULL);
  if (status != COMPUTE_OK && !transfer_may_be_too_large(status)) return status;
  const compute_status waited = queue_wait_until(queue, deadline);
  if (status == COMPUTE_OK || waited != COMPUTE_OK) return waited;
  return down ? transfer_download(queue->device, host, from, s->bytes)
              : transfer_upload(queue->device, to, host, s->bytes);
}

/* Sets the error of a step that fails immediately, with the name of the graph's operation. */
static compute_status name_failure(const plan_step *s, compute_queue *queue,
                                   compute_status status) {
  const compute_context *context = queue->device->context;
  if (status == COMPUTE_ERROR_INDEX && s->check) index_fault_explain(context, s->check);
  error_attribute(context, s->operation ? s->operation : operation);
  return status;
}

/* The place of a step: a per-thread arena and its queue. Number 0 also serves all steps that do not
 * run concurrently. */
typedef struct run_thread {
  uint32_t number;
  compute_queue *queue;
  compute_argument *arguments; /* of the step, once filled in */
} run_thread;

static void thread_arguments(const compute_plan *plan, const plan_step *s, const plan_run *run,
                             uint32_t thread, compute_argument *arguments) {
  plan_step_arguments(s, run->memory, run->offset, arguments);
  for (uint32_t k = 0; thread > 0 && k < s->operand_count; k++)
    if (s->operands[k].slot == plan->thread_arena_slot[s->device])
      arguments[k].offset += thread * plan->thread_arena_bytes;
}

static compute_status run_step(const compute_plan *plan, const plan_step *s, const plan_run *run,
                               const run_thread *thread) {
  compute_queue *queue = thread->queue;
  if (!s->kernel) return transfer(s, queue, thread->arguments, run->deadline);
  /* Repeated for each step: a wait for an earlier step makes the queue drop the checks. */
  compute_status status = s->check ? queue_keep_checks(queue, plan->checks) : COMPUTE_OK;
  if (status != COMPUTE_OK) return status;
  queue_label(queue, s->check);
  status = queue_enqueue(queue, s->kernel->kernel, thread->arguments, s->operand_count);
  return status == COMPUTE_OK ? status : name_failure(s, queue, status);
}

/* Returns the profile entry of a step; the search runs once per step of a plan. */
static uint32_t entry_of(const compute_plan *plan, plan_step *s, const compute_device *device) {
  uint32_t entry = atomic_load_explicit(&s->profile_entry, memory_order_relaxed);
  if (entry != 0) return entry;
  entry = profile_entry_of(plan->context, device, s->kernel ? PROFILE_KERNEL : PROFILE_TRANSFER,
                           s->text, s->shape);
  atomic_store_explicit(&s->profile_entry, entry, memory_order_relaxed);
  return entry;
}

static profile_work work_of(const plan_step *s) {
  return (profile_work){s->kernel ? s->bytes_read + s->bytes_written : s->bytes, s->flops};
}

/* Returns the operands as the descriptor describes them: a packed operand becomes its unpacked
 * source. */
static void step_sources(const compute_plan *plan, const plan_step *s, const plan_run *run,
                         compute_argument *arguments) {
  plan_step_arguments(s, run->memory, run->offset, arguments);
  for (uint32_t k = 0; k < s->input_count; k++) {
    if (s->operands[k].slot < plan->packed_slot) continue;
    const plan_operand *source = &plan->packed[s->operands[k].slot - plan->packed_slot].source;
    arguments[k] =
        (compute_argument){run->memory[source->slot], run->offset[source->slot] + source->offset};
  }
}

static compute_status run_step_watched(const compute_plan *plan, plan_step *s, const plan_run *run,
                                       const run_thread *thread, uint32_t watch) {
  compute_queue *queue = thread->queue;
  profile_mark mark = {0};
  validation_step checked = {0};
  compute_status status = COMPUTE_OK;
  if ((watch & WATCH_VALIDATE) != 0 && s->kernel) {
    compute_argument sources[COMPUTE_MAX_OPERANDS];
    step_sources(plan, s, run, sources);
    status = validation_begin(&checked, queue, s->kernel, sources);
  }
  if (status == COMPUTE_OK) {
    if ((watch & WATCH_RECORD) != 0) profile_begin(queue, &mark);
    status = run_step(plan, s, run, thread);
    if (mark.on) profile_end(&mark, status, entry_of(plan, s, queue->device), work_of(s));
  }
  if (checked.state)
    status = validation_end(&checked, status,
                            &(validation_label){.plan = plan->name,
                                                .step = (uint32_t)(s - plan->steps),
                                                .text = s->text,
                                                .shape = s->shape});
  return status;
}

/* Counts steps as submitted. */
static void note_progress(plan_run *run, const run_control *control, uint32_t steps) {
  run->submitted = steps;
  if (control && control->progress)
    atomic_store_explicit(control->progress, steps, memory_order_relaxed);
}

bool run_goes_on(run_ask *ask) {
  if (!ask) return true;
  if (clock_now() >= ask->next) {
    if (!ask->go_on(ask->user)) atomic_store_explicit(&ask->ended, true, memory_order_relaxed);
    ask->next = clock_now() + RUN_ASK_INTERVAL;
  }
  return !atomic_load_explicit(&ask->ended, memory_order_relaxed);
}

/* Called between two steps, on the run's own thread. */
static void ask_caller(const run_control *control) {
  run_goes_on(control ? control->ask : NULL);
}

/* Called between two steps, up to the first that writes parameters or inputs. From there on, either
 * all steps run or none. */
static compute_status check_control(const compute_plan *plan, const plan_run *run,
                                    const run_control *control) {
  if (!control || run->submitted > run->first_overwrite) return COMPUTE_OK;
  if (control->cancelled && atomic_load_explicit(control->cancelled, memory_order_relaxed))
    return error_set(plan->context, COMPUTE_ERROR_CANCELLED, operation, "the run was cancelled");
  if (control->deadline == 0 || clock_now() < control->deadline) return COMPUTE_OK;
  return error_set(plan->context, COMPUTE_ERROR_TIMEOUT, operation,
                   "the run exceeded its time limit between two steps");
}

/* Runs a step to completion, and keeps its time if it is the shortest so far. */
static compute_status run_step_timed(const compute_plan *plan, plan_step *s, const plan_run *run,
                                     const run_thread *thread) {
  const int64_t begin = clock_now();
  compute_status status = run_step(plan, s, run, thread);
  if (status == COMPUTE_OK) status = queue_wait_until(thread->queue, run->deadline);
  const uint64_t taken = (uint64_t)(clock_now() - begin) * 1000;
  const uint64_t before = atomic_load_explicit(&s->picoseconds, memory_order_relaxed);
  if (status == COMPUTE_OK && (before == 0 || taken < before))
    atomic_store_explicit(&s->picoseconds, taken > 0 ? taken : 1, memory_order_relaxed);
  return status;
}

/* Returns true if the steps were submitted as one recording; *status is then the result. */
static bool run_recording(const compute_plan *plan, plan_run *run, compute_queue *queue,
                          const run_control *control, uint32_t watch, compute_status *status) {
  if (control && control->timed) return false;
  if ((watch & (WATCH_STEPS | WATCH_VALIDATE)) != 0) return false;
  return record_run(plan, &run->recording, queue, run->memory, run->offset, status);
}

/* ---- Concurrent micro-batches ---------------------------------------------------------------- */

/* All micro-batches of a segment, which has the steps first … end − 1. */
typedef struct run_segment {
  const compute_plan *plan;
  const plan_run *run;
  compute_queue *queue;       /* of thread 0 */
  const run_control *control; /* NULL: no checks before all micro-batches are done */
  uint32_t watch, first, end, micro_batches;
  atomic_bool failed;
  compute_status status; /* of the first failure, … */
  compute_error error;   /* … which may be on another thread */
} run_segment;

static uint32_t find_end(const compute_plan *plan, uint32_t first) {
  uint32_t end = first + 1;
  while (end < plan->step_count && plan->steps[end].micro_batches > 1 &&
         plan->steps[end].micro_batch >= plan->steps[end - 1].micro_batch)
    end++;
  return end;
}

static compute_status run_on_thread(const run_segment *all, plan_step *s,
                                    const run_thread *thread) {
  const plan_run *run = all->run;
  if (is_idle(s, run->memory, run->offset)) return COMPUTE_OK;
  if (thread->number == 0) ask_caller(all->control);
  const compute_status status = check_control(all->plan, run, all->control);
  if (status != COMPUTE_OK) return status;
  thread_arguments(all->plan, s, run, thread->number, thread->arguments);
  return (all->watch & WATCH_RECORD) != 0 ? run_step_watched(all->plan, s, run, thread, all->watch)
                                          : run_step(all->plan, s, run, thread);
}

static void run_micro_batch(void *argument, int64_t index, int32_t worker) {
  run_segment *all = argument;
  compute_argument arguments[COMPUTE_MAX_OPERANDS];
  const run_thread thread = {.number = (uint32_t)worker,
                             .queue = worker > 0 ? all->run->arena_queue[worker] : all->queue,
                             .arguments = arguments};
  const uint32_t steps = (all->end - all->first) / all->micro_batches;
  const uint32_t begin = all->first + (uint32_t)index * steps;
  for (uint32_t i = begin; i < begin + steps; i++) {
    if (atomic_load_explicit(&all->failed, memory_order_relaxed)) return;
    const compute_status status = run_on_thread(all, &all->plan->steps[i], &thread);
    if (status == COMPUTE_OK) continue;
    if (!atomic_exchange(&all->failed, true)) {
      all->status = status;
      compute_error_get(NULL, &all->error);
    }
    return;
  }
}

/* Runs the segment that begins with step *at. On return, *at is its last step. */
static compute_status run_side_by_side(const compute_plan *plan, plan_run *run,
                                       compute_queue *queue, const run_control *control,
                                       uint32_t watch, uint32_t *at) {
  const uint32_t end = find_end(plan, *at);
  run_segment all = {.plan = plan,
                     .run = run,
                     .queue = queue,
                     .control = run->first_overwrite < end ? NULL : control,
                     .watch = watch,
                     .first = *at,
                     .end = end,
                     .micro_batches = plan->steps[*at].micro_batches};
  thread_pool_run(plan->context->threads, all.micro_batches, run_micro_batch, &all);
  *at = end - 1;
  /* Without control, bindings may have been overwritten, which counts as progress. */
  const bool failed = atomic_load(&all.failed);
  if (!failed || !all.control) note_progress(run, control, end);
  if (!failed) {
    run->done = end;
    return end < plan->step_count ? check_control(plan, run, control) : COMPUTE_OK;
  }
  for (uint32_t i = 1; i < plan->thread_arenas; i++) (void)compute_queue_wait(run->arena_queue[i]);
  error_restore(plan->context, &all.error);
  return all.status;
}

/* ---- All steps ------------------------------------------------------------------------------- */

static compute_status run_one_by_one(const compute_plan *plan, plan_run *run, compute_queue *queue,
                                     const run_control *control, uint32_t watch) {
  compute_status status = COMPUTE_OK;
  const bool timed = control && control->timed;
  for (uint32_t i = 0; status == COMPUTE_OK && i < plan->step_count; i++) {
    plan_step *s = &plan->steps[i];
    compute_queue *on = s->kernel && s->device == PLAN_CPU ? run->queue[PLAN_CPU] : queue;
    if (s->side_by_side && !timed && (watch & WATCH_VALIDATE) == 0) {
      status = run_side_by_side(plan, run, on, control, watch, &i);
      continue;
    }
    if (is_idle(s, run->memory, run->offset)) {
      note_progress(run, control, run->done = i + 1);
      continue;
    }
    const run_thread thread = {.queue = on, .arguments = run->arguments};
    thread_arguments(plan, s, run, 0, thread.arguments);
    status = timed ? run_step_timed(plan, s, run, &thread)
             : (watch & (WATCH_RECORD | WATCH_VALIDATE)) != 0
                 ? run_step_watched(plan, s, run, &thread, watch)
                 : run_step(plan, s, run, &thread);
    /* On the CPU a failed step may have run in part; elsewhere it was not submitted. */
    if (status == COMPUTE_OK || on->device == plan->context->cpu)
      note_progress(run, control, i + 1);
    if (status == COMPUTE_OK) run->done = i + 1;
    run->refused = status != COMPUTE_OK && s->call;
    if (status == COMPUTE_OK && i + 1 < plan->step_count) {
      ask_caller(control);
      status = check_control(plan, run, control);
    }
  }
  return status;
}

/* Records the run as a whole: on the queue's row from the first step to the last. For a device that
 * works asynchronously, it also records the host's time for submission. */
static void record_whole(const compute_plan *plan, compute_queue *queue, profile_mark *mark,
                         int64_t begin, bool recording, compute_status status) {
  compute_context *context = plan->context;
  const char *name = plan->name ? plan->name : "(unnamed plan)";
  const profile_work work = {plan->info.bytes_read + plan->info.bytes_written, plan->info.flops};
  char steps[48];
  snprintf(steps, sizeof steps, "%u step%s%s", (unsigned)plan->step_count,
           plan->step_count == 1 ? "" : "s", recording ? " as one recording" : "");
  profile_end(mark, status,
              profile_entry_of(context, queue->device, recording ? PROFILE_RECORDING : PROFILE_RUN,
                               name, steps),
              work);
  if (queue->device != context->cpu && status == COMPUTE_OK)
    profile_host(context, profile_entry_of(context, queue->device, PROFILE_SUBMIT, name, steps),
                 begin, (profile_work){0});
}

compute_status run_steps(const compute_plan *plan, plan_run *run, compute_queue *queue,
                         const run_control *control) {
  ask_caller(control);
  compute_status status = check_control(plan, run, control);
  if (status != COMPUTE_OK) return status;
  run->deadline = control ? control->deadline : 0;
  const uint32_t watch = watch_flags(plan->context);
  profile_mark whole = {0};
  const int64_t begin = (watch & WATCH_RECORD) != 0 ? clock_now() : 0;
  if (begin != 0) profile_begin(queue, &whole);
  const bool recording = run_recording(plan, run, queue, control, watch, &status);
  if (recording) note_progress(run, control, run->done = plan->step_count);
  if (!recording) status = run_one_by_one(plan, run, queue, control, watch);
  if (whole.on) record_whole(plan, queue, &whole, begin, recording, status);
  return status;
}
