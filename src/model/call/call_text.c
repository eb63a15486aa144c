/* SPDX-License-Identifier: MIT */
/* Texts at inputs and outputs of operators, for rules and for functions of the host (record.h). */
#include <string.h>

#include "core/type/shape.h"
#include "model/call/host.h"
#include "model/model.h"

/* ---- For rules ----------------------------------------------------------------------------- */

bool call_is_text(const model_call *call, size_t i) {
  return call_has(call, i) && call->inputs[i]->kind == VALUE_TENSOR &&
         call->inputs[i]->type == ONNX_STRING;
}

compute_status call_known_texts(model_call *call, size_t i, const char *const **texts) {
  *texts = NULL;
  const model_value *value = call->inputs[i];
  if (!call_is_text(call, i) || !value->host) return COMPUTE_OK;
  int64_t count, number;
  const compute_status status = compute_shape_count(value->shape, &count);
  if (status) return call_fail(call, status, "input %zu is too large", i);
  const char **list = call_allocate(call, (size_t)count, sizeof *list);
  if (!list) return call_out_of_memory(call);
  for (int64_t k = 0; k < count; k++) {
    memcpy(&number, (const int64_t *)value->host + k, sizeof number);
    list[k] = texts_find(call->recorder->model, NULL, number);
  }
  *texts = list;
  return COMPUTE_OK;
}

compute_status call_output_texts(model_call *call, size_t i, compute_shape shape,
                                 const char *const *texts) {
  int64_t count;
  compute_status status = compute_shape_count(shape, &count);
  if (status) return call_fail(call, status, "output %zu is too large", i);
  const int64_t *numbers = texts_of_file(call->recorder->model, texts, (size_t)count);
  if (!numbers) return call_out_of_memory(call);
  status = call_output_host(call, i, COMPUTE_I64, shape, numbers);
  if (!status && i < call->output_count) call->outputs[i].type = ONNX_STRING;
  return status;
}

/* ---- For functions of the host -------------------------------------------------------------- */

const char *host_text(const host_call *call, int64_t number) {
  return texts_find(call->model, call->texts, number);
}

compute_status host_add_text(host_call *call, const char *text, size_t length, int64_t *number) {
  const compute_status status = texts_add(call->texts, text, length, number);
  return status ? host_fail(call, status, "out of memory for texts") : COMPUTE_OK;
}

compute_status host_make_texts(host_call *call, host_tensor *output, compute_shape shape) {
  const compute_status status = host_make(call, output, COMPUTE_I64, shape);
  output->type = ONNX_STRING;
  return status;
}
