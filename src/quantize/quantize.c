/* SPDX-License-Identifier: MIT */
/* compute_model_quantize: checks its options, and writes the file that a method makes. */
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/text.h"
#include "io/new_file.h"
#include "model/model.h"
#include "quantize/quantizer.h"

static const char operation[] = "compute_model_quantize";

/* ---- Options --------------------------------------------------------------------------------- */

static void fill_in(compute_quantize_options *o) {
  if (o->percentile == 0) o->percentile = 99.99;
  if (o->activations == COMPUTE_DTYPE_NONE) o->activations = COMPUTE_U8;
  if (o->bits == 0) o->bits = 8;
  if (o->block == 0) o->block = 32;
}

/* The first option outside its limits, or NULL. The options are filled in. */
static const char *find_problem(const compute_quantize_options *o) {
  const bool whole = o->method == COMPUTE_QUANTIZE_STATIC;
  if ((unsigned)o->method > COMPUTE_QUANTIZE_BF16) return "the method does not exist";
  if ((unsigned)o->range > COMPUTE_RANGE_MSE) return "the range does not exist";
  if ((unsigned)o->rounding > COMPUTE_ROUNDING_GPTQ) return "the rounding does not exist";
  if (!(o->percentile > 50 && o->percentile <= 100)) return "percentile is not in (50, 100]";
  if (o->activations != COMPUTE_U8 && o->activations != COMPUTE_I8)
    return "activations are u8 or i8";
  if (whole && o->bits != 8 && o->bits != 7) return "weights have 8 or 7 bits";
  if (o->method == COMPUTE_QUANTIZE_WEIGHTS && o->bits != 8 && o->bits != 4)
    return "weights have 8 or 4 bits";
  if (o->block < 16 || o->block > 256 || (o->block & (o->block - 1)) != 0)
    return "a block is a power of two from 16 to 256";
  if ((o->keep_count && !o->keep) || (o->sample_count && !o->samples))
    return "a list is NULL, but its count is not 0";
  for (size_t i = 0; i < o->keep_count; i++)
    if (!o->keep[i]) return "a pattern is NULL";
  if (o->next && (o->samples || o->sample_count)) return "both samples and next are set";
  return sample_needed(o) && !o->next && !o->sample_count ? "the method needs samples" : NULL;
}

static compute_status check(const compute_model *model, const char *path,
                            const compute_quantize_options *o) {
  const size_t length = strlen(path);
  const compute_status status =
      error_if_reserved(model->context, operation, "options", o->reserved);
  if (status) return status;
  const char *problem = find_problem(o);
  if (!problem && (length < 5 || strcmp(path + length - 5, ".onnx") != 0))
    problem = "the path does not end in .onnx";
  if (problem)
    return error_set(model->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s", problem);
  return COMPUTE_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

static compute_status encode(compute_model *model, const char *path, wire_buffer *source) {
  pthread_mutex_lock(&model->recording);
  compute_status status = save_check_size(model, operation, path);
  if (!status && save_encode(model, source))
    status = error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  pthread_mutex_unlock(&model->recording);
  return status;
}

static compute_status use_method(quantizer *q) {
  switch (q->o.method) {
  case COMPUTE_QUANTIZE_STATIC:
    if (q->e.opset < 10)
      return error_set(q->e.context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "8-bit activations need opset 10, and the model has opset %d",
                       (int)q->e.opset);
    return static_quantize(q);
  case COMPUTE_QUANTIZE_WEIGHTS: return weights_quantize(q);
  case COMPUTE_QUANTIZE_BF16:
    if (q->e.opset < 13)
      return error_set(q->e.context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "bf16 needs opset 13, and the model has opset %d", (int)q->e.opset);
    return half_quantize(q);
  case COMPUTE_QUANTIZE_F16: return half_quantize(q);
  }
  return COMPUTE_OK;
}

static compute_status write_file(quantizer *q, const char *path, const wire_buffer *made) {
  new_file file;
  compute_status status = new_file_open(q->e.context, operation, path, &file);
  if (status) return status;
  status = new_file_write(&file, made->data, made->count);
  return new_file_close(&file, status);
}

/* The result must be a file that loads. A report loads it, too. */
static compute_status check_result(quantizer *q, const wire_buffer *made) {
  char size[32];
  sampled s = {0};
  if (made->count > INT32_MAX)
    return error_set(q->e.context, COMPUTE_ERROR_UNSUPPORTED, operation,
                     "the result takes %s, and an ONNX file holds less than 2 GiB",
                     bytes_text(made->count, size, sizeof size));
  const compute_status status = sampled_open(q, made, NULL, 0, &s);
  sampled_close(&s);
  return status;
}

static compute_status quantize(quantizer *q, const char *path, compute_quantize_report **report) {
  wire_buffer made = {0};
  compute_quantize_report *measured = NULL;
  const onnx_graph *graph = q->e.graph;
  q->quantized = arena_allocate(&q->e.memory, graph->node_count, sizeof *q->quantized);
  q->reasons = arena_allocate(&q->e.memory, graph->node_count, sizeof *q->reasons);
  compute_status status = q->quantized && q->reasons ? use_method(q) : edit_out_of_memory(&q->e);
  if (!status) status = edit_write(&q->e, &made);
  if (!status) status = check_result(q, &made);
  if (!status && report) status = report_make(q, &made, &measured);
  if (!status) status = write_file(q, path, &made);
  wire_buffer_release(&made);
  if (status)
    compute_quantize_report_release(measured);
  else if (report)
    *report = measured;
  return status;
}

compute_status compute_model_quantize(compute_model *model, const char *path,
                                      const compute_quantize_options *options,
                                      compute_quantize_report **report) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  compute_status status = error_if_null(model ? model->context : NULL, operation, model, path);
  if (status) return status;
  quantizer q = {.model = model};
  wire_buffer source = {0};
  if (options) q.o = *options;
  fill_in(&q.o);
  status = check(model, path, &q.o);
  if (status) return status;
  for (size_t i = 0; i < compute_model_input_count(model); i++) {
    compute_model_port port;
    status = compute_model_input_at(model, i, &port);
    if (!status && !port.optional) q.input_count++;
  }
  if (!status) status = encode(model, path, &source);
  if (status) {
    wire_buffer_release(&source);
    return status;
  }
  status = edit_open(&q.e, model->context, operation, source);
  if (!status) status = quantize(&q, path, report);
  edit_close(&q.e);
  return status;
}
