/* SPDX-License-Identifier: MIT */
/* Writes a model back. As ONNX: the original file, with the current elements of the main graph's
 * initializers. As safetensors: only the tensors. */
#include <string.h>

#include "compute/io.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/text.h"
#include "io/new_file.h"
#include "model/file/wire_write.h"
#include "model/model.h"

static const char operation[] = "compute_model_save";

/* Field number in GraphProto, next to the initializers. */
enum { GRAPH_SPARSE_INITIALIZER = 15 };

/* ---- Weights ------------------------------------------------------------------------------- */

static uint64_t bytes_of(const onnx_tensor *tensor) {
  return (uint64_t)tensor->count * compute_dtype_size(onnx_dtype(tensor->type));
}

/* Returns true if an initializer is in an external file, which the new location may not resolve. */
static bool is_elsewhere(const compute_model *model, const onnx_tensor *tensor) {
  const wire own = model->storage->file.message;
  const uintptr_t at = (uintptr_t)tensor->data;
  return tensor->in_file && (at < (uintptr_t)own.at || at >= (uintptr_t)own.end);
}

/* Returns true if an initializer is written with its current elements. Its dtype must match its
 * ONNX type. Strings and types of less than 8 bits are copied: they are not trained. */
static bool is_rewritten(const compute_model *model, const onnx_tensor *tensor) {
  return onnx_type_of(onnx_dtype(tensor->type)) == tensor->type && tensor->rank >= 0 &&
         (weight_find(model, tensor) || is_elsewhere(model, tensor));
}

static void put_weight(const compute_model *model, wire_buffer *to, const onnx_tensor *tensor) {
  const uint64_t bytes = bytes_of(tensor);
  wire_put_initializer(to, tensor->name, tensor->type, tensor->shape, bytes);
  const compute_tensor *made = weight_find(model, tensor);
  if (!made) {
    wire_put(to, tensor->data, (size_t)bytes);
    return;
  }
  void *data = base_allocate((uint64_t)bytes, 1);
  if (!data || (bytes && compute_tensor_read(made, data, (size_t)bytes)))
    to->failed = true;
  else
    wire_put(to, data, (size_t)bytes);
  base_release(data);
}

/* Writes the GraphProto. Initializers, also sparse ones, come in the decoder's order. Rewritten
 * ones become dense. */
static void put_graph(const compute_model *model, wire_buffer *to, wire message) {
  const onnx_graph *graph = model_graph(model);
  wire_field field;
  size_t initializer = 0;
  while (wire_next(&message, &field) == WIRE_FIELD) {
    if (field.type != WIRE_BYTES ||
        (field.number != GRAPH_INITIALIZER && field.number != GRAPH_SPARSE_INITIALIZER)) {
      wire_put_field(to, &field);
      continue;
    }
    const onnx_tensor *tensor = &graph->initializers[initializer++];
    if (is_rewritten(model, tensor))
      put_weight(model, to, tensor);
    else
      wire_put_field(to, &field);
  }
}

/* External weights become part of this file, and other programs enforce the size limit of a
 * Protocol Buffers message. */
compute_status save_check_size(const compute_model *model, const char *call, const char *path) {
  const onnx_graph *graph = model_graph(model);
  uint64_t bytes = wire_bytes(model->storage->file.message);
  for (size_t i = 0; i < graph->initializer_count; i++) {
    const onnx_tensor *tensor = &graph->initializers[i];
    if (is_elsewhere(model, tensor) && is_rewritten(model, tensor)) bytes += bytes_of(tensor);
  }
  char name[SHOWN_NAME_BYTES], size[32];
  if (bytes <= INT32_MAX) return COMPUTE_OK;
  return error_set(model->context, COMPUTE_ERROR_UNSUPPORTED, call,
                   "'%s': the model takes %s, and an ONNX file holds less than 2 GiB; weights can "
                   "be saved as .safetensors",
                   file_show_name(path, name), bytes_text(bytes, size, sizeof size));
}

compute_status save_encode(const compute_model *model, wire_buffer *whole) {
  wire_buffer graph = {0};
  wire message = model->storage->file.message;
  wire_field field;
  while (wire_next(&message, &field) == WIRE_FIELD) {
    if (field.number != MODEL_GRAPH || field.type != WIRE_BYTES) {
      wire_put_field(whole, &field);
      continue;
    }
    put_graph(model, &graph, field.bytes);
    wire_put_message(whole, MODEL_GRAPH, &graph);
  }
  return whole->failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK;
}

static compute_status save_onnx(const compute_model *model, const char *path) {
  compute_status status = save_check_size(model, operation, path);
  if (status) return status;
  wire_buffer whole = {0};
  if (save_encode(model, &whole))
    status = error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  new_file file;
  if (!status) status = new_file_open(model->context, operation, path, &file);
  if (!status) {
    status = new_file_write(&file, whole.data, whole.count);
    status = new_file_close(&file, status);
  }
  wire_buffer_release(&whole);
  return status;
}

/* ---- Safetensors ----------------------------------------------------------------------------- */

static compute_status save_weights(compute_model *model, const char *path) {
  const onnx_graph *graph = model_graph(model);
  compute_named_tensor *named = base_allocate(graph->initializer_count, sizeof *named);
  if (!named)
    return error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  compute_status status = COMPUTE_OK;
  size_t count = 0;
  for (size_t i = 0; !status && i < graph->initializer_count; i++) {
    const onnx_tensor *tensor = &graph->initializers[i];
    if (onnx_dtype(tensor->type) == COMPUTE_DTYPE_NONE || tensor->rank < 0) continue;
    named[count].name = tensor->name;
    named[count].tensor = weight_tensor(model, operation, tensor);
    if (!named[count++].tensor) status = COMPUTE_ERROR_OUT_OF_MEMORY;
  }
  if (!status) status = compute_tensor_file_write(model->context, path, named, count);
  base_release(named);
  return status;
}

static bool ends_in(const char *path, const char *ending) {
  const size_t length = strlen(path), more = strlen(ending);
  return length >= more && strcmp(path + length - more, ending) == 0;
}

compute_status compute_model_save(compute_model *model, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  compute_status status = error_if_null(model ? model->context : NULL, operation, model, path);
  if (status) return status;
  const bool onnx = ends_in(path, ".onnx");
  if (!onnx && !ends_in(path, ".safetensors"))
    return error_set(model->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "'%s' ends in neither .onnx nor .safetensors", path);
  pthread_mutex_lock(&model->recording);
  status = onnx ? save_onnx(model, path) : save_weights(model, path);
  pthread_mutex_unlock(&model->recording);
  return status;
}
