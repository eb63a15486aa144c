/* SPDX-License-Identifier: MIT */
/* Runs on the caller's thread or on the fitter's own thread, and the graph for stacks of ROIs. */
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/thread.h"
#include "fit/fitter.h"

static const char operation_run[] = "compute_fit_run";

/* Runs leave a plan in the iterator for each size of a last batch, so the iterator is recreated
 * after this many runs. */
#define MOST_RUNS 256

/* ---- The iterator -------------------------------------------------------------------------- */

compute_status fit_run_batch(compute_fit *fit, compute_batch *batch,
                             const compute_batch_run_options *options, fit_delivery *delivery) {
  compute_batch_result result;
  compute_error error;
  pthread_mutex_lock(&fit->mutex);
  fit->running = batch;
  pthread_mutex_unlock(&fit->mutex);
  compute_status status = compute_batch_run(batch, options, &result);
  pthread_mutex_lock(&fit->mutex);
  (void)compute_batch_times_get(batch, &fit->times);
  fit->running = NULL;
  pthread_mutex_unlock(&fit->mutex);
  delivery->summary.batches = result.batches;
  delivery->summary.halved = result.halved;
  delivery->summary.on_cpu = result.on_cpu;
  delivery->summary.slot_bytes = result.slot_bytes;
  if (!status) return status;
  compute_error_get(fit->context, &error);
  if (status == COMPUTE_ERROR_CANCELLED && atomic_load(&fit->cancelled))
    return error_set(fit->context, status, operation_run,
                     "%s: the run was cancelled; %lld fits are complete", fit->name,
                     (long long)delivery->summary.count);
  return status;
}

static uint32_t inputs_of(const compute_fit *fit, const compute_fit_run_options *options) {
  uint32_t inputs = 0;
  for (int32_t i = FIT_SINGLE_FIRST; i < FIT_SPLINE_INPUT; i++)
    if (fit_input_array(options, i)) inputs |= UINT32_C(1) << i;
  if (fit->corners_in_maps) inputs |= COMPUTE_FIT_WITH_CORNERS;
  return inputs;
}

static compute_status run_stack(compute_fit *fit, const compute_fit_run_options *options,
                                fit_delivery *delivery) {
  const uint32_t inputs = inputs_of(fit, options);
  compute_status status = COMPUTE_OK;
  if (options->count == 0) return status;
  if (!fit->batch || inputs != fit->batch_inputs || fit->batch_runs >= MOST_RUNS) {
    status = stack_open(fit, inputs);
    fit->batch_runs = 0;
  }
  fit->batch_runs++;
  return !status ? stack_run(fit, options, delivery) : status;
}

/* ---- Times --------------------------------------------------------------------------------- */

static void forget_times(compute_fit *fit) {
  pthread_mutex_lock(&fit->mutex);
  fit->times = (compute_batch_times){0};
  atomic_store(&fit->finding, 0);
  pthread_mutex_unlock(&fit->mutex);
}

compute_status compute_fit_times_get(compute_fit *fit, compute_fit_times *times) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(fit, context);
  const compute_status missing =
      error_if_null(fit ? fit->context : NULL, "compute_fit_times_get", fit, times);
  if (missing) return missing;
  pthread_mutex_lock(&fit->mutex);
  /* `finding` is read before the other times, so that they include it: steps add to it
   * meanwhile. */
  const double all = 1e-9 * (double)atomic_load(&fit->finding);
  compute_batch_times parts = fit->times;
  if (fit->running) (void)compute_batch_times_get(fit->running, &parts);
  pthread_mutex_unlock(&fit->mutex);
  double finding = fit->find_devices > 0 ? all / (double)fit->find_devices : 0;
  /* A batch that is repeated on the CPU may be searched while its device searches the next
   * batch. */
  if (finding > parts.computing) finding = parts.computing;
  *times = (compute_fit_times){.seconds = parts.seconds,
                               .reading = parts.reading,
                               .finding = finding,
                               .fitting = parts.computing - finding,
                               .writing = parts.writing};
  return COMPUTE_OK;
}

/* ---- A run --------------------------------------------------------------------------------- */

static compute_status run(compute_fit *fit, const compute_fit_run_options *options,
                          compute_fit_summary *summary) {
  fit_delivery delivery;
  const int64_t start = clock_now();
  compute_status status = fit_check_run(fit, options);
  if (status) return status;
  forget_times(fit);
  delivery_open(&delivery, fit, options);
  status = fit->frames ? frames_run(fit, options, &delivery) : run_stack(fit, options, &delivery);
  delivery_close(&delivery);
  delivery.summary.seconds = (double)(clock_now() - start) * 1e-9;
  *summary = delivery.summary;
  return status;
}

/* Only one run may be in progress. */
static compute_status begin(compute_fit *fit, fit_state state) {
  pthread_mutex_lock(&fit->mutex);
  const bool free = fit->state == FIT_IDLE;
  if (free) {
    fit->state = state;
    atomic_store(&fit->cancelled, false);
  }
  pthread_mutex_unlock(&fit->mutex);
  if (free) return COMPUTE_OK;
  return error_set(fit->context, COMPUTE_ERROR_INVALID_STATE, operation_run,
                   "a run of this fitter is in progress, or has not been waited for");
}

static void set_state(compute_fit *fit, fit_state state) {
  pthread_mutex_lock(&fit->mutex);
  fit->state = state;
  pthread_mutex_unlock(&fit->mutex);
}

static compute_status check_call(const compute_fit *fit, const char *operation,
                                 const compute_fit_run_options *options) {
  if (fit && options) return COMPUTE_OK;
  return error_set(fit ? fit->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                   !fit ? "fit" : "options");
}

compute_status compute_fit_run(compute_fit *fit, const compute_fit_run_options *options,
                               compute_fit_summary *summary) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(fit, context);
  compute_fit_summary none = {0};
  if (!summary) summary = &none;
  *summary = none;
  compute_status status = check_call(fit, operation_run, options);
  if (!status) status = begin(fit, FIT_RUNNING);
  if (status) return status;
  status = run(fit, options, summary);
  set_state(fit, FIT_IDLE);
  return status;
}

/* ---- In the background --------------------------------------------------------------------- */

static void *run_started(void *argument) {
  compute_fit *fit = argument;
  fit->status = run(fit, &fit->started, &fit->summary);
  if (fit->status) compute_error_get(fit->context, &fit->error);
  set_state(fit, FIT_ENDED);
  return NULL;
}

compute_status compute_fit_start(compute_fit *fit, const compute_fit_run_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(fit, context);
  static const char operation[] = "compute_fit_start";
  compute_status status = check_call(fit, operation, options);
  if (!status) status = begin(fit, FIT_STARTED);
  if (status) return status;
  fit->started = *options;
  fit->summary = (compute_fit_summary){0};
  fit->error = (compute_error){0};
  const int code = thread_start(&fit->thread, "compute-fit", run_started, fit);
  if (code == 0) return COMPUTE_OK;
  set_state(fit, FIT_IDLE);
  return error_set_native(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, code, operation, NULL,
                          "cannot start a thread: %s", strerror(code));
}

compute_status compute_fit_poll(compute_fit *fit, bool *done) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(fit, context);
  static const char operation[] = "compute_fit_poll";
  const compute_status missing = error_if_null(fit ? fit->context : NULL, operation, fit, done);
  if (missing) return missing;
  pthread_mutex_lock(&fit->mutex);
  const fit_state state = fit->state;
  pthread_mutex_unlock(&fit->mutex);
  *done = state == FIT_ENDED;
  if (state == FIT_STARTED || state == FIT_ENDED) return COMPUTE_OK;
  return error_set(fit->context, COMPUTE_ERROR_INVALID_STATE, operation, "no run was started");
}

compute_status compute_fit_wait(compute_fit *fit, compute_fit_summary *summary) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(fit, context);
  static const char operation[] = "compute_fit_wait";
  if (summary) *summary = (compute_fit_summary){0};
  if (!fit) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "fit is NULL");
  pthread_mutex_lock(&fit->mutex);
  const bool mine = (fit->state == FIT_STARTED || fit->state == FIT_ENDED) && !fit->waiting;
  if (mine) fit->waiting = true;
  pthread_mutex_unlock(&fit->mutex);
  if (!mine)
    return error_set(fit->context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "no run was started, or another thread is waiting for it");
  pthread_join(fit->thread, NULL);
  const compute_status status = fit->status;
  const compute_error error = fit->error;
  if (summary) *summary = fit->summary;
  pthread_mutex_lock(&fit->mutex);
  fit->waiting = false;
  fit->state = FIT_IDLE;
  pthread_mutex_unlock(&fit->mutex);
  if (status && error.status == status) error_restore(fit->context, &error);
  return status;
}

/* A run that has not reached its iterator yet checks the flag at its first delivery. */
void compute_fit_cancel(compute_fit *fit) {
  if (IS_INHERITED(fit, context)) return;
  if (!fit) return;
  pthread_mutex_lock(&fit->mutex);
  if (fit->state != FIT_IDLE && fit->state != FIT_ENDED) atomic_store(&fit->cancelled, true);
  if (fit->running) compute_batch_cancel(fit->running);
  pthread_mutex_unlock(&fit->mutex);
}

/* ---- Stacks of ROIs ------------------------------------------------------------------------ */

/* Stacks of ROIs: each ROI is an item of a batch iterator, which compiles the graph itself. Per-ROI
 * arrays (widths, starts, …) are further inputs with as many items. */

#define PARTS 6 /* per-ROI inputs */

/* The per-ROI inputs, in the order of their bits. */
static const int32_t single[PARTS] = {0, 5, 6, 7, 8, -1};

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  const compute_fit *fit = user;
  compute_node nodes[FIT_INPUTS] = {{0}};
  size_t next = 1;
  (void)items;
  for (int i = 0; single[i] >= 0; i++)
    if (fit->batch_inputs >> single[i] & 1) nodes[single[i]] = inputs[next++];
  outputs[0] = fit_record(fit, graph, inputs[0], fit->batch_inputs, nodes, fit->tables);
}

compute_status stack_open(compute_fit *fit, uint32_t inputs) {
  const compute_fit_problem *p = &fit->problem;
  compute_batch_port ports[1 + PARTS] = {{fit->dtype, COMPUTE_SHAPE(p->rows, p->columns)}};
  compute_batch_options options = fit_batch_options(fit);
  options.build = build;
  options.inputs = ports;
  options.input_count = 1;
  for (int i = 0; single[i] >= 0; i++)
    if (inputs >> single[i] & 1)
      ports[options.input_count++] = (compute_batch_port){
          fit_input_dtype(single[i]), COMPUTE_SHAPE(fit_input_width(fit, single[i]))};
  compute_batch_release(fit->batch);
  fit->batch = NULL;
  fit->batch_inputs = inputs;
  return compute_batch_create(fit->context, &options, &fit->batch);
}

static compute_status deliver(void *user, int64_t first, int64_t items, const void *data) {
  fit_delivery *d = user;
  const int32_t *corners = d->options->corners;
  const compute_status status = delivery_begin(d, items);
  if (status) return status;
  delivery_take(d, 0, items, data);
  return delivery_end(d, items, corners ? corners + 3 * first : NULL, 0);
}

compute_status stack_run(compute_fit *fit, const compute_fit_run_options *options,
                         fit_delivery *delivery) {
  compute_batch_source sources[1 + PARTS] = {options->pixels};
  const compute_batch_sink sink = {.write = deliver, .user = delivery};
  size_t count = 1;
  for (int i = 0; single[i] >= 0; i++)
    if (fit->batch_inputs >> single[i] & 1)
      sources[count++].array = fit_input_array(options, single[i]);
  return fit_run_batch(fit, fit->batch,
                       &(compute_batch_run_options){.items = options->count,
                                                    .sources = sources,
                                                    .sinks = &sink,
                                                    .progress = options->progress,
                                                    .progress_user = options->progress_user,
                                                    .progress_seconds = options->progress_seconds},
                       delivery);
}
