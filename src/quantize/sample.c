/* SPDX-License-Identifier: MIT */
/* Running a model on the caller's samples with some of its values as outputs. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "model/model.h"
#include "quantize/quantizer.h"

bool sample_needed(const compute_quantize_options *o) {
  return o->method == COMPUTE_QUANTIZE_STATIC ||
         (o->method == COMPUTE_QUANTIZE_WEIGHTS && o->rounding == COMPUTE_ROUNDING_GPTQ);
}

compute_model_binding *sample_inputs(quantizer *q) {
  compute_model_binding *inputs = arena_allocate(&q->e.memory, q->input_count, sizeof *inputs);
  size_t count = 0;
  const size_t all = compute_model_input_count(q->model);
  for (size_t i = 0; inputs && i < all; i++) {
    compute_model_port port;
    if (!compute_model_input_at(q->model, i, &port) && !port.optional)
      inputs[count++].name = port.name;
  }
  return inputs;
}

compute_status sample_next(quantizer *q, size_t index, compute_model_binding *inputs, bool *more) {
  compute_status status = COMPUTE_OK;
  *more = true;
  if (q->o.next) {
    status = q->o.next(q->o.user, index, inputs, q->input_count, more);
  } else {
    *more = index < q->o.sample_count;
    if (*more && q->input_count)
      memcpy(inputs, q->o.samples + index * q->input_count, q->input_count * sizeof *inputs);
  }
  if (status || *more || index || !sample_needed(&q->o)) return status;
  return error_set(q->e.context, COMPUTE_ERROR_INVALID_ARGUMENT, q->e.operation,
                   "there are no samples");
}

compute_status sampled_open(quantizer *q, const wire_buffer *file, const int32_t *values,
                            size_t count, sampled *s) {
  *s = (sampled){.output_count = count};
  const char **added = base_allocate(count, sizeof *added);
  size_t added_count = 0;
  wire_buffer wide = {0};
  compute_model_options options = q->model->options;
  options.folder = NULL;
  options.operators = q->model->operators;
  s->outputs = base_allocate(count, sizeof *s->outputs);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; s->outputs && added && i < count; i++) {
    s->outputs[i].name = edit_value_name(&q->e, values[i]);
    if (!q->e.values[values[i]].output) added[added_count++] = s->outputs[i].name;
  }
  if (!s->outputs || !added || !edit_add_outputs(file, added, added_count, &wide))
    status = edit_out_of_memory(&q->e);
  base_release((void *)added);
  options.files = COMPUTE_MODEL_COPY;
  /* The model copies the weights that it uses, and the file is kept with it. */
  if (!status)
    status =
        compute_model_load_memory(q->model->context, wide.data, wide.count, &options, &s->model);
  if (status)
    wire_buffer_release(&wide);
  else
    s->file = wide;
  return status;
}

void sampled_clear(sampled *s) {
  for (size_t i = 0; s->outputs && i < s->output_count; i++) {
    compute_tensor_release(s->outputs[i].tensor);
    s->outputs[i].tensor = NULL;
  }
}

void sampled_close(sampled *s) {
  sampled_clear(s);
  compute_model_release(s->model);
  wire_buffer_release(&s->file);
  base_release(s->outputs);
  *s = (sampled){0};
}

compute_status sampled_run(sampled *s, const compute_model_binding *inputs, size_t count) {
  return compute_model_run(s->model, inputs, count, s->outputs, s->output_count);
}

float *sample_floats(const compute_tensor *tensor, compute_status *status) {
  const int64_t count = compute_tensor_count(tensor);
  compute_device *host = NULL;
  compute_tensor *floats = NULL;
  float *values = base_allocate((uint64_t)count, sizeof *values);
  *status = values ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (!*status)
    *status = compute_device_by_name(compute_tensor_device(tensor)->context, "cpu", &host);
  if (!*status)
    *status = compute_tensor_create(host, COMPUTE_F32, compute_tensor_shape(tensor), &floats);
  if (!*status) *status = compute_tensor_copy(floats, tensor);
  if (!*status && count)
    *status = compute_tensor_read(floats, values, (size_t)count * sizeof *values);
  compute_tensor_release(floats);
  if (!*status) return values;
  base_release(values);
  return NULL;
}
