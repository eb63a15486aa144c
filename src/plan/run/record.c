#include "plan/run/record.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

enum { WARM_UP_RUNS = 1, LEAST_STEPS = 2 };

static const compute_backend *backend_of(const compute_plan *plan) {
  return plan->device[PLAN_MAIN]->backend;
}

/* Only what runs as a whole on a device that can record. */
static bool is_recordable(const compute_plan *plan) {
  const compute_backend *backend = backend_of(plan);
  if (!backend->record_begin || !backend->record_end || !backend->record_submit ||
      !backend->record_destroy || plan->step_count < LEAST_STEPS)
    return false;
  for (uint32_t i = 0; i < plan->step_count; i++)
    if (plan->steps[i].kernel == NULL || plan->steps[i].device != PLAN_MAIN) return false;
  return true;
}

static void fill(const compute_plan *plan, plan_recording *recording,
                 const compute_memory *const *memory, const uint64_t *offset) {
  compute_argument *arguments = recording->arguments;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    plan_step_arguments(&plan->steps[i], memory, offset, arguments);
    arguments += plan->steps[i].operand_count;
  }
}

static compute_status enqueue_all(const compute_plan *plan, const plan_recording *recording,
                                  compute_queue *queue) {
  const compute_argument *arguments = recording->arguments;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const plan_step *s = &plan->steps[i];
    queue_label(queue, s->check);
    compute_status status = queue_enqueue(queue, s->kernel->kernel, arguments, s->operand_count);
    if (status != COMPUTE_OK) return status;
    arguments += s->operand_count;
  }
  return COMPUTE_OK;
}

/* Whether the recording exists now. What went wrong is no failure of the run, which goes on step by
 * step; the error that the thread had before comes back. */
static bool make(const compute_plan *plan, plan_recording *recording, compute_queue *queue,
                 const compute_memory *const *memory, const uint64_t *offset) {
  const compute_backend *backend = backend_of(plan);
  uint32_t count = 0;
  compute_error before;
  for (uint32_t i = 0; i < plan->step_count; i++) count += plan->steps[i].operand_count;
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

bool record_run(const compute_plan *plan, plan_recording *recording, compute_queue *queue,
                const compute_memory *const *memory, const uint64_t *offset,
                compute_status *status) {
  if (recording->given_up) return false;
  if (recording->handle == NULL) {
    if (!is_recordable(plan)) recording->given_up = true;
    if (recording->given_up || recording->runs++ < WARM_UP_RUNS) return false;
    recording->given_up = !make(plan, recording, queue, memory, offset);
    if (recording->given_up) {
      record_release(plan, recording);
      return false;
    }
  } else {
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
  recording->handle = NULL;
  recording->arguments = NULL;
}
