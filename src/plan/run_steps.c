/* The steps of a run, one after the other, or all of them as a recording. */
#include <time.h>

#include "base/error.h"
#include "plan/run.h"

static const char HERE[] = "compute_run";

/* A copy between the two devices, of which the CPU's memory is the host's. */
static compute_status transfer(const plan_step *s, compute_queue *queue,
                               const compute_argument *arguments) {
  const compute_backend *backend = queue->device->backend;
  const compute_argument *from = &arguments[0], *to = &arguments[1];
  compute_status status =
      s->device == PLAN_CPU
          ? backend->download(queue->handle, (unsigned char *)to->memory->host + to->offset, from,
                              s->bytes)
          : backend->upload(queue->handle, to, (unsigned char *)from->memory->host + from->offset,
                            s->bytes);
  return status == COMPUTE_OK ? compute_queue_wait(queue) : status;
}

static compute_status run_step(const compute_plan *plan, const plan_step *s, plan_run *run,
                               compute_queue *queue) {
  (void)plan;
  plan_step_arguments(s, run->memory, run->offset, run->arguments);
  if (s->kernel == NULL) return transfer(s, queue, run->arguments);
  compute_queue *on = s->device == PLAN_CPU ? run->queue[PLAN_CPU] : queue;
  return queue_enqueue(on, s->kernel->kernel, run->arguments, s->operand_count);
}

static compute_status check_control(const compute_plan *plan, const run_control *control) {
  if (control == NULL) return COMPUTE_OK;
  if (control->cancelled != NULL && atomic_load_explicit(control->cancelled, memory_order_relaxed))
    return error_set(plan->context, COMPUTE_ERROR_CANCELLED, HERE, "the run was cancelled");
  if (control->deadline == 0) return COMPUTE_OK;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec < control->deadline) return COMPUTE_OK;
  return error_set(plan->context, COMPUTE_ERROR_TIMEOUT, HERE,
                   "the run's time limit passed between two steps");
}

compute_status run_steps(const compute_plan *plan, plan_run *run, compute_queue *queue,
                         const run_control *control) {
  compute_status status = check_control(plan, control);
  if (status != COMPUTE_OK) return status;
  if (record_run(plan, &run->recording, queue, run->memory, run->offset, &status)) return status;
  for (uint32_t i = 0; status == COMPUTE_OK && i < plan->step_count; i++) {
    status = run_step(plan, &plan->steps[i], run, queue);
    if (status == COMPUTE_OK) status = check_control(plan, control);
  }
  return status;
}
