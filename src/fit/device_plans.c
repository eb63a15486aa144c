/* SPDX-License-Identifier: MIT */
/* Plans, chunks and marks of one device. They are created when a batch first needs them, and are
 * kept. After a few batches a run compiles and allocates nothing more. */
#include "fit/device_plans.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/device/transfer.h"
#include "core/tensor/tensor.h"

static const char operation[] = "compute_fit_run";

enum { LEAST_ROWS = 256, MOST_ROWS = 1 << 17, ALIGNMENT = 64 };

static compute_status short_of_memory(const compute_fit *fit) {
  return error_set(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                   "not enough memory for a batch's ROIs");
}

/* ---- Devices ------------------------------------------------------------------------------- */

/* Copies the maps and the spline to this device. */
static compute_status bring_tables(fit_device_plans *device_plans) {
  const compute_fit *fit = device_plans->fit;
  compute_status status = COMPUTE_OK;
  for (int i = 0; status == COMPUTE_OK && i < FIT_TABLES; i++) {
    const compute_tensor *table = fit->tables[i];
    if (!table) continue;
    status = tensor_create_private(device_plans->device, table->dtype, table->shape,
                                   &device_plans->tables[i]);
    if (status == COMPUTE_OK) status = compute_tensor_copy(device_plans->tables[i], table);
  }
  return status;
}

static compute_status make_station(compute_fit *fit, compute_device *device,
                                   fit_device_plans **device_plans) {
  compute_tensor *probe = NULL;
  fit_device_plans *made = base_allocate(1, sizeof *made);
  if (!made) return short_of_memory(fit);
  pthread_mutex_init(&made->mutex, NULL);
  made->fit = fit;
  made->device = device;
  compute_status status = tensor_create_private(device, COMPUTE_F32, COMPUTE_SHAPE(16), &probe);
  if (status == COMPUTE_OK) made->direct = compute_tensor_data(probe) != NULL;
  compute_tensor_release(probe);
  if (status == COMPUTE_OK) status = bring_tables(made);
  if (status != COMPUTE_OK) {
    device_plans_free(made);
    return status;
  }
  *device_plans = made;
  return COMPUTE_OK;
}

compute_status device_plans_of(compute_fit *fit, compute_device *device,
                               fit_device_plans **device_plans) {
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&fit->parts_mutex);
  fit_device_plans *found = fit->device_plans;
  while (found && found->device != device) found = found->next;
  if (!found && (status = make_station(fit, device, &found)) == COMPUTE_OK) {
    found->next = fit->device_plans;
    fit->device_plans = found;
  }
  pthread_mutex_unlock(&fit->parts_mutex);
  *device_plans = found;
  return status;
}

/* ---- Plans --------------------------------------------------------------------------------- */

static bool is_single(int32_t number) {
  return number == 0 || (number >= FIT_SINGLE_FIRST && number < FIT_SPLINE_INPUT);
}

static size_t record_plan(const fit_device_plans *device_plans, compute_graph *graph,
                          fit_plan *plan, compute_node *outputs) {
  const compute_fit *fit = device_plans->fit;
  plan->pixels = compute_input(graph, fit->dtype,
                               COMPUTE_SHAPE(plan->frames, fit->frame_rows, fit->frame_columns));
  if (plan->rois == 0) {
    const bool limited = fit->spots.limit != 0;
    plan->output =
        compute_find_spots(graph, plan->pixels, &fit->spots, limited ? &plan->response : NULL);
    outputs[0] = plan->output;
    outputs[1] = plan->response;
    return limited ? 2 : 1;
  }
  for (int32_t i = 0; i < FIT_INPUTS; i++)
    if (is_single(i) && (plan->inputs >> i & 1))
      plan->input[i] = compute_input(graph, fit_input_dtype(i),
                                     COMPUTE_SHAPE(plan->rois, fit_input_width(fit, i)));
  plan->output =
      fit_record(fit, graph, plan->pixels, plan->inputs, plan->input, device_plans->tables);
  outputs[0] = plan->output;
  return 1;
}

static compute_status make_plan(fit_device_plans *device_plans, int64_t frames, int64_t rois,
                                uint32_t inputs, fit_plan **plan) {
  const compute_fit *fit = device_plans->fit;
  const uint32_t not_for_plans = COMPUTE_BATCH_ALL_DEVICES | COMPUTE_PLAN_AUTO;
  compute_node outputs[2];
  fit_plan *made = base_allocate(1, sizeof *made);
  compute_graph *graph = compute_graph_create(fit->context);
  if (!made || !graph) {
    base_release(made);
    compute_graph_release(graph);
    return short_of_memory(fit);
  }
  made->frames = frames;
  made->rois = rois;
  made->inputs = inputs;
  const size_t count = record_plan(device_plans, graph, made, outputs);
  const compute_status status =
      compute_compile(graph, outputs, count,
                      &(compute_plan_options){.device = device_plans->device,
                                              .fallback = fit->fallback,
                                              .flags = fit->flags & ~not_for_plans,
                                              .name = fit->name},
                      &made->plan);
  compute_graph_release(graph);
  if (status != COMPUTE_OK) {
    base_release(made);
    return status;
  }
  *plan = made;
  return status;
}

compute_status device_plans_get(fit_device_plans *device_plans, int64_t frames, int64_t rois,
                                uint32_t inputs, fit_plan **plan) {
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&device_plans->mutex);
  fit_plan *found = device_plans->plans;
  while (found && (found->frames != frames || found->rois != rois || found->inputs != inputs))
    found = found->next;
  if (!found && (status = make_plan(device_plans, frames, rois, inputs, &found)) == COMPUTE_OK) {
    found->next = device_plans->plans;
    device_plans->plans = found;
  }
  pthread_mutex_unlock(&device_plans->mutex);
  *plan = found;
  return status;
}

/* ---- Chunks -------------------------------------------------------------------------------- */

/* Row counts are powers of two, so that there are few plans. A nearly full chunk uses the next
 * larger power. Otherwise a chunk uses the next smaller one, and another chunk takes the rest. */
int64_t chunk_rows(int64_t left) {
  int64_t rows = LEAST_ROWS;
  while (rows < left && rows < MOST_ROWS) rows *= 2;
  return rows > LEAST_ROWS && left < rows - rows / 4 ? rows / 2 : rows;
}

static void free_locked(compute_device *device, void *host) {
  device->backend->host_release(device->handle, host);
}

static void free_plain(compute_device *device, void *host) {
  (void)device;
  base_release(host);
}

static void chunk_free(fit_chunk *chunk) {
  compute_device *device = chunk->device_plans->device;
  const device_release_function release = chunk->locked ? free_locked : free_plain;
  for (int i = 0; i < FIT_INPUTS; i++) compute_tensor_release(chunk->input[i]);
  compute_tensor_release(chunk->records);
  /* The release is delayed if a hung copy may still access the memory. */
  if (chunk->staging && !device_release_later(device, release, chunk->staging))
    release(device, chunk->staging);
  base_release(chunk);
}

static size_t rounded(size_t bytes) {
  return (size_t)round_up_u64(bytes, ALIGNMENT);
}

static size_t tensor_bytes(const compute_tensor *tensor) {
  return !tensor ? 0 : (size_t)tensor_dense_bytes(tensor);
}

/* Creates the host's view of the chunk's inputs and outputs. */
static compute_status make_staging(fit_chunk *chunk) {
  const compute_device *device = chunk->device_plans->device;
  size_t bytes = rounded(tensor_bytes(chunk->records));
  for (int i = 0; i < FIT_INPUTS; i++) bytes += rounded(tensor_bytes(chunk->input[i]));
  if (device->backend->host_allocate &&
      device->backend->host_allocate(device->handle, bytes, &chunk->staging) == COMPUTE_OK)
    chunk->locked = true;
  else
    chunk->staging = base_allocate_aligned(bytes, ALIGNMENT);
  if (!chunk->staging) return short_of_memory(chunk->device_plans->fit);
  char *next = chunk->staging;
  chunk->host_records = (float *)(void *)next;
  next += rounded(tensor_bytes(chunk->records));
  for (int i = 0; i < FIT_INPUTS; i++) {
    if (!chunk->input[i]) continue;
    chunk->host_input[i] = next;
    next += rounded(tensor_bytes(chunk->input[i]));
  }
  return COMPUTE_OK;
}

static compute_status fill_chunk(fit_chunk *chunk) {
  const fit_device_plans *device_plans = chunk->device_plans;
  const compute_fit *fit = device_plans->fit;
  const compute_fit_problem *p = &fit->problem;
  compute_status status = tensor_create_private(
      device_plans->device, COMPUTE_F32,
      COMPUTE_SHAPE(chunk->capacity, compute_fit_column(p->model, p->outputs, 0)), &chunk->records);
  for (int32_t i = 0; status == COMPUTE_OK && i < FIT_INPUTS; i++)
    if (chunk->inputs >> i & 1)
      status = tensor_create_private(device_plans->device, fit_input_dtype(i),
                                     COMPUTE_SHAPE(chunk->capacity, fit_input_width(fit, i)),
                                     &chunk->input[i]);
  if (status != COMPUTE_OK) return status;
  if (!device_plans->direct) return make_staging(chunk);
  chunk->host_records = compute_tensor_data(chunk->records);
  for (int i = 0; i < FIT_INPUTS; i++)
    if (chunk->input[i]) chunk->host_input[i] = compute_tensor_data(chunk->input[i]);
  return COMPUTE_OK;
}

static fit_chunk *take_idle(fit_device_plans *device_plans, int64_t capacity, uint32_t inputs) {
  pthread_mutex_lock(&device_plans->mutex);
  fit_chunk **at = &device_plans->idle, *found;
  while (*at && ((*at)->capacity != capacity || (*at)->inputs != inputs)) at = &(*at)->next;
  found = *at;
  if (found) *at = found->next;
  pthread_mutex_unlock(&device_plans->mutex);
  return found;
}

compute_status chunk_take(fit_device_plans *device_plans, int64_t capacity, uint32_t inputs,
                          fit_chunk **result) {
  fit_chunk *chunk = take_idle(device_plans, capacity, inputs);
  compute_status status = COMPUTE_OK;
  if (!chunk) {
    chunk = base_allocate(1, sizeof *chunk);
    if (!chunk) return short_of_memory(device_plans->fit);
    chunk->device_plans = device_plans;
    chunk->capacity = capacity;
    chunk->inputs = inputs;
    status = fill_chunk(chunk);
    if (status != COMPUTE_OK) {
      chunk_free(chunk);
      chunk = NULL;
    }
  }
  if (chunk) chunk->next = NULL;
  *result = chunk;
  return status;
}

void chunk_give(fit_chunk *chunk) {
  fit_device_plans *device_plans = chunk->device_plans;
  pthread_mutex_lock(&device_plans->mutex);
  chunk->next = device_plans->idle;
  device_plans->idle = chunk;
  pthread_mutex_unlock(&device_plans->mutex);
}

/* ---- Marks --------------------------------------------------------------------------------- */

static void marks_free(fit_marks *marks) {
  compute_tensor_release(marks->spots);
  compute_tensor_release(marks->response);
  base_release(marks->host_spots);
  base_release(marks->host_response);
  base_release(marks);
}

/* Creates a tensor on the device, and a host copy if the host cannot address it. */
static compute_status make_marks(const fit_device_plans *device_plans, compute_dtype dtype,
                                 int64_t frames, compute_tensor **tensor, void **host) {
  const compute_fit *fit = device_plans->fit;
  compute_status status =
      tensor_create_private(device_plans->device, dtype,
                            COMPUTE_SHAPE(frames, fit->frame_rows, fit->frame_columns), tensor);
  if (status != COMPUTE_OK || device_plans->direct) return status;
  *host = base_allocate_aligned(rounded(tensor_bytes(*tensor)), ALIGNMENT);
  return !*host ? short_of_memory(fit) : COMPUTE_OK;
}

static fit_marks *take_idle_marks(fit_device_plans *device_plans) {
  pthread_mutex_lock(&device_plans->mutex);
  fit_marks *found = device_plans->idle_marks;
  if (found) device_plans->idle_marks = found->next;
  pthread_mutex_unlock(&device_plans->mutex);
  return found;
}

compute_status marks_take(fit_device_plans *device_plans, int64_t frames, fit_marks **result) {
  fit_marks *marks = take_idle_marks(device_plans);
  *result = marks;
  if (marks && marks->frames >= frames) return COMPUTE_OK;
  if (marks) marks_free(marks);
  *result = NULL;
  marks = base_allocate(1, sizeof *marks);
  if (!marks) return short_of_memory(device_plans->fit);
  marks->frames = frames;
  compute_status status =
      make_marks(device_plans, COMPUTE_BOOL, frames, &marks->spots, &marks->host_spots);
  if (status == COMPUTE_OK && device_plans->fit->spots.limit != 0)
    status = make_marks(device_plans, COMPUTE_F32, frames, &marks->response, &marks->host_response);
  if (status == COMPUTE_OK)
    *result = marks;
  else
    marks_free(marks);
  return status;
}

void marks_give(fit_device_plans *device_plans, fit_marks *marks) {
  pthread_mutex_lock(&device_plans->mutex);
  marks->next = device_plans->idle_marks;
  device_plans->idle_marks = marks;
  pthread_mutex_unlock(&device_plans->mutex);
}

/* ---- The end ------------------------------------------------------------------------------- */

void device_plans_free(fit_device_plans *device_plans) {
  while (device_plans->idle) {
    fit_chunk *next = device_plans->idle->next;
    chunk_free(device_plans->idle);
    device_plans->idle = next;
  }
  while (device_plans->idle_marks) {
    fit_marks *next = device_plans->idle_marks->next;
    marks_free(device_plans->idle_marks);
    device_plans->idle_marks = next;
  }
  while (device_plans->plans) {
    fit_plan *next = device_plans->plans->next;
    compute_plan_release(device_plans->plans->plan);
    base_release(device_plans->plans);
    device_plans->plans = next;
  }
  for (int i = 0; i < FIT_TABLES; i++) compute_tensor_release(device_plans->tables[i]);
  pthread_mutex_destroy(&device_plans->mutex);
  base_release(device_plans);
}

/* ---- Work ---------------------------------------------------------------------------------- */

static compute_status upload(const fit_chunk *chunk, compute_queue *queue) {
  compute_status status = COMPUTE_OK;
  for (int i = 0; status == COMPUTE_OK && i < FIT_INPUTS; i++) {
    if (!chunk->input[i]) continue;
    const compute_argument to = tensor_argument(chunk->input[i]);
    status = queue_upload(queue, &to, chunk->host_input[i], tensor_bytes(chunk->input[i]), "fit");
  }
  return status;
}

static compute_status download(const fit_chunk *chunk, compute_queue *queue) {
  const compute_argument from = tensor_argument(chunk->records);
  const uint64_t row = (uint64_t)chunk->records->shape.size[1] * sizeof(float);
  return queue_download(queue, chunk->host_records, &from, row * (uint64_t)chunk->count, "fit");
}

compute_status chunk_submit(fit_chunk *chunk, const fit_plan *plan, compute_tensor *frames,
                            compute_queue *queue) {
  const bool staged = chunk->staging != NULL;
  compute_binding bindings[2 + FIT_INPUTS];
  size_t count = 0;
  bindings[count++] = (compute_binding){.node = plan->pixels, .tensor = frames};
  bindings[count++] = (compute_binding){.node = plan->output, .tensor = chunk->records};
  for (int i = 0; i < FIT_INPUTS; i++)
    if (chunk->input[i])
      bindings[count++] = (compute_binding){.node = plan->input[i], .tensor = chunk->input[i]};
  compute_status status = staged ? upload(chunk, queue) : COMPUTE_OK;
  /* Strict, because the iterator tries smaller batches before it uses the CPU. */
  if (status == COMPUTE_OK)
    status = compute_run_with(
        plan->plan, bindings, count,
        &(compute_run_options){.queue = queue, .fallback = COMPUTE_FALLBACK_STRICT}, NULL);
  return status == COMPUTE_OK && staged ? download(chunk, queue) : status;
}
