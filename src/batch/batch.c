/* SPDX-License-Identifier: MIT */
/* Creates and releases iterators, and checks the options. */
#include "batch/batch.h"

#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "batch/flow.h"
#include "batch/slot.h"
#include "batch/work.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

static object_kind batch_object = {.name = "batch", .plural = "batches"};

static const char operation_create[] = "compute_batch_create";

const char *batch_label(const compute_batch *batch, char *text, size_t bytes) {
  if (batch->name)
    snprintf(text, bytes, "batch '%.60s'", batch->name);
  else
    snprintf(text, bytes, "batch");
  return text;
}

static compute_status refuse(compute_context *context, const char *what) {
  return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_create, "%s", what);
}

/* ---- Checks -------------------------------------------------------------------------------- */

static compute_status check_counts(compute_context *context, const compute_batch_options *o) {
  if ((o->build != NULL) == (o->step != NULL))
    return refuse(context, "exactly one of build and step must be given");
  if (o->input_count > COMPUTE_BATCH_MAX_PORTS || o->output_count > COMPUTE_BATCH_MAX_PORTS ||
      o->output_count == 0)
    return refuse(context, "there must be 0 to 32 inputs and 1 to 32 outputs");
  if (o->input_count > 0 && !o->inputs)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_create, "inputs is NULL");
  if (o->step && !o->outputs)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_create,
                     "outputs is NULL; with a step, it must describe the outputs");
  if (o->batch < 0 || o->slots > COMPUTE_BATCH_MAX_SLOTS)
    return refuse(context, "the batch must not be negative, and slots at most 16");
  if ((int)o->fallback < 0 || o->fallback > COMPUTE_FALLBACK_STRICT)
    return refuse(context, "invalid fallback policy");
  if (o->device_count > 0 && (o->flags & COMPUTE_BATCH_ALL_DEVICES) != 0)
    return refuse(context, "devices and the flag for all devices cannot be combined");
  if ((o->devices == NULL) != (o->device_count == 0) || o->device_count > 64)
    return refuse(context, "devices and device_count do not match");
  return error_if_reserved(context, operation_create, "options", o->reserved);
}

static compute_status take_port(compute_context *context, const compute_batch_port *from,
                                batch_port *to, const char *role, size_t index) {
  int64_t count, bytes;
  if (!dtype_is_valid(from->dtype))
    return error_set(context, COMPUTE_ERROR_DTYPE, operation_create, "%s %zu: invalid dtype %d",
                     role, index, (int)from->dtype);
  if (from->item.rank >= COMPUTE_MAX_RANK)
    return error_set(context, COMPUTE_ERROR_SHAPE, operation_create,
                     "%s %zu: items of rank %d leave no axis for the batch", role, index,
                     (int)from->item.rank);
  const compute_status status = shape_validate(from->item, &count);
  if (status)
    return error_set(context, status, operation_create, "%s %zu: invalid item shape: %s", role,
                     index, shape_problem(from->item, status));
  if (!checked_multiply(count, (int64_t)compute_dtype_size(from->dtype), &bytes) ||
      bytes > INT64_MAX / (2 * COMPUTE_BATCH_MAX_PORTS))
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation_create,
                     "%s %zu: one item is too large", role, index);
  *to = (batch_port){
      .dtype = from->dtype, .item = shape_normalize(from->item), .bytes = (uint64_t)bytes};
  return COMPUTE_OK;
}

static compute_status take_ports(compute_batch *batch, const compute_batch_options *o) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < o->input_count; i++)
    status = take_port(batch->context, &o->inputs[i], &batch->inputs[i], "input", i);
  for (size_t i = 0; !status && o->outputs && i < o->output_count; i++)
    status = take_port(batch->context, &o->outputs[i], &batch->outputs[i], "output", i);
  batch->input_count = (uint32_t)o->input_count;
  batch->output_count = (uint32_t)o->output_count;
  return status;
}

/* The bytes of all slots must not overflow for a given batch size. */
static compute_status check_batch(const compute_batch *batch) {
  int64_t bytes = 1, all;
  for (uint32_t i = 0; i < batch->input_count; i++) bytes += (int64_t)batch->inputs[i].bytes;
  for (uint32_t i = 0; i < batch->output_count; i++) bytes += (int64_t)batch->outputs[i].bytes;
  if (checked_multiply(bytes, batch->given, &all) &&
      checked_multiply(all, 4 * COMPUTE_BATCH_MAX_SLOTS, &all))
    return COMPUTE_OK;
  return error_set(batch->context, COMPUTE_ERROR_OVERFLOW, operation_create,
                   "a batch of %lld items of %lld bytes is too large", (long long)batch->given,
                   (long long)bytes);
}

/* ---- Devices ------------------------------------------------------------------------------- */

static size_t most_devices(const compute_batch *batch, const compute_batch_options *o) {
  size_t count = 0;
  if (o->device_count > 0) return o->device_count;
  if ((o->flags & COMPUTE_BATCH_ALL_DEVICES) == 0) return 1;
  while (compute_device_at(batch->context, count)) count++;
  return count;
}

/* Stores the given devices, all that compute and are not lost, or the default one. Returns their
 * number. */
static size_t take_devices(const compute_batch *batch, const compute_batch_options *o,
                           compute_device **devices) {
  compute_device *device;
  size_t count = 0;
  if (o->device_count > 0) {
    memcpy(devices, o->devices, o->device_count * sizeof *devices);
    return o->device_count;
  }
  if ((o->flags & COMPUTE_BATCH_ALL_DEVICES) == 0) {
    devices[0] = compute_default_device(batch->context);
    return 1;
  }
  for (size_t i = 0; (device = compute_device_at(batch->context, i)) != NULL; i++)
    if ((device->info.capabilities & COMPUTE_CAPABILITY_COMPUTE) != 0 &&
        device_loss_of(device) == DEVICE_WORKS)
      devices[count++] = device;
  return count;
}

static compute_status work_for(compute_batch *batch, compute_device *device, batch_work **work) {
  for (uint32_t i = 0; i < batch->work_count; i++) {
    *work = &batch->works[i];
    if ((*work)->device == device) return COMPUTE_OK;
  }
  *work = &batch->works[batch->work_count];
  const compute_status status = work_open(*work, batch, device);
  if (!status) batch->work_count++;
  return status;
}

/* Finds out with a small tensor if the host addresses the device's memory. */
static compute_status look_at_memory(batch_pipeline *pipeline) {
  compute_tensor *probe;
  const compute_device *cpu = pipeline->batch->context->cpu;
  const compute_status status =
      tensor_create_private(pipeline->work->device, COMPUTE_F32, COMPUTE_SHAPE(16), &probe);
  if (status) return status;
  pipeline->direct = compute_tensor_data(probe) != NULL;
  pipeline->processor = pipeline->work->device == cpu;
  pipeline->stages = !pipeline->direct && !pipeline->processor &&
                     (pipeline->work->device->backend->flags & COMPUTE_BACKEND_STAGES_COPIES) != 0;
  compute_tensor_release(probe);
  return status;
}

static compute_status open_pipeline(compute_batch *batch, batch_pipeline *pipeline,
                                    compute_device *device) {
  if (!device)
    return error_set(batch->context, COMPUTE_ERROR_NULL_POINTER, operation_create,
                     "a device is NULL");
  if (device->context != batch->context)
    return error_set(batch->context, COMPUTE_ERROR_WRONG_CONTEXT, operation_create,
                     "a device belongs to another context");
  pipeline->batch = batch;
  pipeline->slots = base_allocate(batch->slot_count, sizeof *pipeline->slots);
  if (!pipeline->slots)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for slots");
  for (uint32_t i = 0; i < batch->slot_count; i++) pipeline->slots[i].pipeline = pipeline;
  const compute_status status = work_for(batch, device, &pipeline->work);
  return !status ? look_at_memory(pipeline) : status;
}

static compute_status open_on(compute_batch *batch, compute_device *const *devices, size_t count) {
  if (count == 0)
    return error_set(batch->context, COMPUTE_ERROR_NO_DEVICE, operation_create,
                     "no device can run kernels");
  batch->pipelines = base_allocate(count, sizeof *batch->pipelines);
  batch->works = base_allocate(count + 1, sizeof *batch->works);
  if (!batch->pipelines || !batch->works)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for devices");
  batch->pipeline_count = (uint32_t)count;
  compute_status status = flow_open(batch);
  batch->flow_opened = !status;
  for (size_t i = 0; !status && i < count; i++)
    status = open_pipeline(batch, &batch->pipelines[i], devices[i]);
  if (!status && batch->context->cpu)
    status = work_for(batch, batch->context->cpu, &batch->cpu_work);
  return status;
}

static compute_status open_pipelines(compute_batch *batch, const compute_batch_options *o) {
  compute_device **devices = base_allocate(most_devices(batch, o) + 1, sizeof *devices);
  if (!devices)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for devices");
  const compute_status status = open_on(batch, devices, take_devices(batch, o, devices));
  base_release(devices);
  return status;
}

/* With several devices, all begin with small batches, which show the speed of each device. */
static compute_status choose_sizes(compute_batch *batch) {
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->pipeline_count; i++) {
    batch_pipeline *pipeline = &batch->pipelines[i];
    status = size_choose(pipeline);
    for (int half = 0; half < 2 && batch->pipeline_count > 1; half++)
      pipeline->items = (pipeline->items + 1) / 2;
  }
  return status;
}

/* ---- The iterator -------------------------------------------------------------------------- */

static compute_status fill(compute_batch *batch, const compute_batch_options *o) {
  compute_status status = take_ports(batch, o);
  batch->build = o->build;
  batch->step = o->step;
  batch->user = o->user;
  batch->given = o->batch;
  batch->slot_count = o->slots > 0 ? o->slots : 3;
  batch->memory = o->memory;
  batch->fallback = o->fallback ? o->fallback : COMPUTE_FALLBACK_WARN;
  batch->flags = o->flags;
  if (o->name && (batch->name = base_duplicate(o->name)) == NULL)
    return error_set(batch->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for a name");
  if (!status) status = open_pipelines(batch, o);
  if (!status && batch->build) status = work_probe(batch);
  if (!status) status = check_batch(batch);
  return !status ? choose_sizes(batch) : status;
}

compute_status compute_batch_create(compute_context *context, const compute_batch_options *options,
                                    compute_batch **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (result) *result = NULL;
  if (!context || !options || !result)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_create, "%s is NULL",
                     !context   ? "context"
                     : !options ? "options"
                                : "batch");
  compute_status status = check_counts(context, options);
  if (status) return status;
  compute_batch *batch = base_allocate(1, sizeof *batch);
  if (!batch)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_create,
                     "not enough memory for an iterator");
  batch->context = context;
  for (int i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++)
    batch->source_files[i] = batch->sink_files[i] = -1;
  pthread_mutex_init(&batch->build_mutex, NULL);
  pthread_mutex_init(&batch->run_mutex, NULL);
  context_object_created(context, &batch_object, batch);
  status = fill(batch, options);
  if (status) {
    compute_batch_release(batch);
    return status;
  }
  *result = batch;
  return COMPUTE_OK;
}

void compute_batch_release(compute_batch *batch) {
  if (IS_INHERITED(batch, context)) return;
  if (!batch) return;
  compute_context *context = batch->context;
  compute_error before; /* errors that a lost device reports now are not new */
  compute_error_get(context, &before);
  for (uint32_t i = 0; i < batch->pipeline_count; i++) {
    for (uint32_t k = 0; batch->pipelines[i].slots && k < batch->slot_count; k++)
      if (batch->pipelines[i].work) slot_close(&batch->pipelines[i].slots[k]);
    base_release(batch->pipelines[i].slots);
  }
  for (uint32_t i = 0; i < batch->work_count; i++) work_close(&batch->works[i]);
  if (batch->flow_opened) flow_close(batch);
  base_release(batch->pipelines);
  base_release(batch->works);
  base_release(batch->name);
  pthread_mutex_destroy(&batch->build_mutex);
  pthread_mutex_destroy(&batch->run_mutex);
  context_object_leaves(context, batch);
  base_release(batch);
  error_restore(context, &before);
  context_object_released(context, &batch_object);
}

compute_status compute_batch_device_at(compute_batch *batch, size_t index,
                                       compute_batch_device_info *info) {
  REFUSE_INHERITED(batch, context);
  static const char operation[] = "compute_batch_device_at";
  const compute_status missing =
      error_if_null(batch ? batch->context : NULL, operation, batch, info);
  if (missing) return missing;
  if (index >= batch->pipeline_count)
    return error_set(batch->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "device %zu does not exist; the iterator has %u", index,
                     batch->pipeline_count);
  const batch_pipeline *pipeline = &batch->pipelines[index];
  compute_batch_device_info found = {.device = pipeline->work->device};
  /* The mutex stays locked to the end, so no run begins meanwhile. */
  pthread_mutex_lock(&batch->run_mutex);
  const bool running = batch->running;
  if (!running) {
    found.batch = pipeline->items;
    found.items = pipeline->items_complete;
    found.items_per_second = pipeline->rate;
  }
  pthread_mutex_unlock(&batch->run_mutex);
  if (running)
    return error_set(batch->context, COMPUTE_ERROR_INVALID_STATE, operation,
                     "a run is in progress");
  *info = found;
  return COMPUTE_OK;
}
