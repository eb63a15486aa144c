/* SPDX-License-Identifier: MIT */
/* Host functions in place of nodes. They run at once if all inputs are known, else during each
 * run, between two plans. */
#include "model/call/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "io/new_file.h"
#include "model/model.h"
#include "plan/compile/run/run.h"

compute_status host_make(host_call *call, host_tensor *output, compute_dtype dtype,
                         compute_shape shape) {
  int64_t count;
  const compute_status status = compute_shape_count(shape, &count);
  if (status) return host_fail(call, status, "its output is too large");
  output->dtype = dtype;
  output->shape = shape;
  if (count > 0 && call->device && call->device->info.capabilities & COMPUTE_CAPABILITY_HOST &&
      !compute_tensor_create(call->device, dtype, shape, &output->owner))
    output->data = compute_tensor_data(output->owner);
  if (!output->data) output->data = base_allocate((uint64_t)count, compute_dtype_size(dtype));
  return output->data ? COMPUTE_OK : host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
}

void host_release(host_tensor *output) {
  if (!output->owner || output->data != compute_tensor_data(output->owner))
    base_release(output->data);
  compute_tensor_release(output->owner);
}

void host_parallel(const host_call *call, int64_t tasks, compute_task task, void *argument) {
  thread_pool_run(call->context->threads, tasks, task, argument);
}

int32_t host_workers(const host_call *call) {
  return thread_pool_count(call->context->threads);
}

compute_status host_fail(host_call *call, compute_status status, const char *format, ...) {
  char text[300], name[SHOWN_NAME_BYTES], type[SHOWN_NAME_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  const onnx_node *node = call->call->node;
  return error_set(
      call->context, status, call->operation, "node '%s' (%s): %s",
      file_show_name(node->name[0] || !node->output_count ? node->name : node->output_names[0],
                     name),
      file_show_name(node->type, type), text);
}

compute_status host_continue(host_call *call) {
  return run_goes_on(call->ask) ? COMPUTE_OK
                                : host_fail(call, COMPUTE_ERROR_CANCELLED, "the run was cancelled");
}

const model_call *host_node(const host_call *call) {
  return call->call;
}

static compute_status call_now(model_call *call, host_function function, bool *done) {
  *done = false;
  host_tensor *inputs = call_allocate(call, call->input_count, sizeof *inputs);
  host_tensor *outputs = call_allocate(call, call->output_count, sizeof *outputs);
  if (!inputs || !outputs) return call_out_of_memory(call);
  for (size_t i = 0; i < call->input_count; i++) {
    model_value *value = call->inputs[i];
    if (value->kind == VALUE_ABSENT) continue;
    if (!value->host) return COMPUTE_OK;
    if (!record_align(call->recorder, value)) return call_out_of_memory(call);
    inputs[i] = (host_tensor){
        .data = (void *)(uintptr_t)value->host, .dtype = value->dtype, .shape = value->shape};
  }
  host_call host = {.context = call->recorder->model->context,
                    .call = call,
                    .operation = call->recorder->operation,
                    .model = call->recorder->model};
  compute_status status = function(&host, inputs, outputs);
  for (size_t i = 0; i < call->output_count; i++) {
    if (!status && outputs[i].data)
      status = call_output_host(call, i, outputs[i].dtype, outputs[i].shape, outputs[i].data);
    host_release(&outputs[i]);
  }
  *done = true;
  return status;
}

static compute_status check_tensors(const model_call *call) {
  for (size_t i = 0; i < call->input_count; i++)
    if (call_has(call, i) && call->inputs[i]->kind != VALUE_TENSOR)
      return call_fail(call, COMPUTE_ERROR_DTYPE, "input %zu is not a tensor of numbers", i);
  return COMPUTE_OK;
}

static compute_status call_in_runs(model_call *call, host_function function, double rows) {
  model_call *kept = call_allocate(call, 1, sizeof *kept);
  if (!kept) return call_out_of_memory(call);
  *kept = *call;
  kept->recorder = NULL; /* the recorder ends before the run */
  call->recorder->function = function;
  call->recorder->rows = rows;
  call->recorder->host_call = kept;
  return COMPUTE_OK;
}

compute_status call_on_host(model_call *call, host_function function, double rows) {
  bool done = false;
  compute_status status = check_tensors(call);
  if (!status) status = call_now(call, function, &done);
  return status || done ? status : call_in_runs(call, function, rows);
}

compute_status call_text_on_host(model_call *call, host_function function, double rows) {
  const compute_status status = check_tensors(call);
  return status ? status : call_in_runs(call, function, rows);
}
