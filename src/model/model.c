/* SPDX-License-Identifier: MIT */
/* Loading a model and describing it. */
#include "compute/model.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/device/collector.h"
#include "model/stage.h"

static object_kind model_object = {.name = "model", .plural = "models"};

#define MOST_PLANS      32
#define MOST_PLAN_BYTES ((uint64_t)256 << 20)

/* ---- Unknown operators ----------------------------------------------------------------------- */

typedef struct missing_operator {
  const char *domain, *name;
  int64_t version;
  size_t count;
} missing_operator;

typedef struct missing_list {
  missing_operator *items;
  size_t count, capacity;
  bool more; /* more than are listed */
} missing_list;

static int64_t version_in(const onnx_opset *opsets, size_t count, const char *domain) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(opsets[i].domain, domain) == 0) return opsets[i].version;
  return 1;
}

static bool has_operator(const compute_model *model, const onnx_node *node, int64_t version) {
  for (size_t i = 0; i < model->options.operator_count; i++)
    if (strcmp(model->operators[i].domain, node->domain) == 0 &&
        strcmp(model->operators[i].name, node->type) == 0)
      return true;
  return node->function || operator_find(node->domain, node->type, version);
}

static bool note_missing(missing_list *list, const onnx_node *node, int64_t version) {
  enum { MOST_LISTED = 100 };
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i].name, node->type) == 0 &&
        strcmp(list->items[i].domain, node->domain) == 0) {
      list->items[i].count++;
      return true;
    }
  list->more = list->count == MOST_LISTED;
  if (list->more) return true;
  if (base_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items))
    return false;
  list->items[list->count++] = (missing_operator){node->domain, node->type, version, 1};
  return true;
}

static bool find_missing(const compute_model *model, const onnx_graph *graph,
                         const onnx_opset *opsets, size_t opset_count, missing_list *list) {
  for (size_t i = 0; i < graph->node_count; i++) {
    const onnx_node *node = &graph->nodes[i];
    const int64_t version = version_in(opsets, opset_count, node->domain);
    if (!has_operator(model, node, version) && !note_missing(list, node, version)) return false;
    for (size_t k = 0; k < node->attribute_count; k++)
      if (node->attributes[k].graph &&
          !find_missing(model, node->attributes[k].graph, opsets, opset_count, list))
        return false;
  }
  return true;
}

static compute_status check_operators(const compute_model *model, const char *operation) {
  const onnx_file *file = &model->storage->file;
  missing_list list = {0};
  bool fine = find_missing(model, &file->graph, file->opsets, file->opset_count, &list);
  for (size_t i = 0; fine && i < file->function_count; i++)
    fine = find_missing(model, &file->functions[i].body, file->functions[i].opsets,
                        file->functions[i].opset_count, &list);
  text_buffer text = {0};
  for (size_t i = 0; i < list.count; i++)
    text_add(&text, "%s%s%s%s, version %" PRId64 ", %zu time%s", i ? "; " : "",
             list.items[i].domain, list.items[i].domain[0] ? "." : "", list.items[i].name,
             list.items[i].version, list.items[i].count, list.items[i].count == 1 ? "" : "s");
  if (list.more) text_add(&text, "; and others");
  compute_status status = COMPUTE_OK;
  if (!fine || text.failed) {
    status = error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  } else if (list.count) {
    log_write(COMPUTE_LOG_ERROR, "core", "%s: missing operators: %s", operation, text.data);
    status = error_set_native(model->context, COMPUTE_ERROR_UNSUPPORTED, 0, operation,
                              "add them through compute_model_options.operators",
                              "%s%zu operator%s of the model %s missing: %s",
                              list.more ? "more than " : "", list.count, list.count == 1 ? "" : "s",
                              list.count == 1 ? "is" : "are", text.data);
  }
  text_release(&text);
  base_release(list.items);
  return status;
}

/* Inputs that no tensor can be bound to. */
static compute_status check_inputs(const compute_model *model, const char *operation) {
  const onnx_graph *graph = model_graph(model);
  for (size_t i = 0; i < graph->input_count; i++)
    if (graph->inputs[i].axes > COMPUTE_MAX_RANK && !graph->inputs[i].has_default)
      return error_set(model->context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "input '%s' has %zu dimensions; at most %d are supported",
                       graph->inputs[i].name, graph->inputs[i].axes, COMPUTE_MAX_RANK);
  return COMPUTE_OK;
}

/* ---- Loading -------------------------------------------------------------------------------- */

static compute_status check_operator(const compute_context *context, const char *operation,
                                     const compute_model_operator *o, size_t index) {
  char what[48];
  if (!o->domain || !o->name || !o->record)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation,
                     "options.operators[%zu] lacks its domain, name or function", index);
  snprintf(what, sizeof what, "options.operators[%zu]", index);
  return error_if_reserved(context, operation, what, o->reserved);
}

static compute_status check_options(const compute_context *context, const char *operation,
                                    const compute_model_options *options) {
  compute_status reserved = error_if_reserved(context, operation, "options", options->reserved);
  if (reserved) return reserved;
  if ((int)options->files < COMPUTE_MODEL_MAP || (int)options->files > COMPUTE_MODEL_COPY_SHARED)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "invalid options.files %d",
                     (int)options->files);
  if ((unsigned)options->formulas > COMPUTE_FORMULAS_FAST)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "options.formulas is %d",
                     (int)options->formulas);
  if (options->device && compute_device_context(options->device) != context)
    return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the device belongs to another context");
  if (options->operator_count && !options->operators)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "options.operators is NULL");
  for (size_t i = 0; !reserved && i < options->operator_count; i++)
    reserved = check_operator(context, operation, &options->operators[i], i);
  return reserved;
}

static compute_status copy_options(compute_model *model, const char *operation,
                                   const compute_model_options *options) {
  if (options) model->options = *options;
  model->options.folder = NULL;
  if (!model->options.max_plans) model->options.max_plans = MOST_PLANS;
  if (!model->options.max_plan_bytes) model->options.max_plan_bytes = MOST_PLAN_BYTES;
  if (!model->options.operator_count) return COMPUTE_OK;
  model->operators = base_allocate(model->options.operator_count, sizeof *model->operators);
  if (!model->operators)
    return error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  memcpy(model->operators, options->operators,
         model->options.operator_count * sizeof *model->operators);
  return COMPUTE_OK;
}

void compute_model_release(compute_model *model) {
  if (IS_INHERITED(model, context)) return;
  if (!model) return;
  compute_context *context = model->context;
  context_object_leaves(context, model);
  stage_release_all(model);
  weights_release(model);
  base_release(model->uses);
  base_release(model->operators);
  texts_close(&model->texts);
  if (model->storage) storage_release(model->storage, NULL);
  pthread_mutex_destroy(&model->lock);
  pthread_mutex_destroy(&model->recording);
  base_release(model);
  context_object_released(context, &model_object);
}

/* The model's source: a path, or memory. */
typedef struct model_source {
  const char *path;
  wire memory;
  const char *folder;
} model_source;

static compute_status load(compute_context *context, const char *operation,
                           const model_source *source, const compute_model_options *options,
                           compute_model **result) {
  compute_status status = options ? check_options(context, operation, options) : COMPUTE_OK;
  if (status) return status;
  compute_model *model = base_allocate(1, sizeof *model);
  if (!model) return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  const int64_t begin = clock_now();
  pthread_mutex_init(&model->recording, NULL);
  pthread_mutex_init(&model->lock, NULL);
  texts_open(&model->texts);
  model->context = context;
  context_object_created(context, &model_object, model);
  status = copy_options(model, operation, options);
  model->storage = status ? NULL : base_allocate(1, sizeof *model->storage);
  if (!status && !model->storage)
    status = error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  if (!status) {
    /* storage_release also frees the empty storage of a failed open */
    atomic_init(&model->storage->references, 1);
    status = source->path
                 ? onnx_open(context, operation, source->path, model->options.files,
                             &model->storage->file)
                 : onnx_decode(context, operation, "the model", source->memory, source->folder,
                               model->options.files, &model->storage->file);
  }
  if (!status) status = check_inputs(model, operation);
  if (!status) status = check_operators(model, operation);
  if (!status && !record_find_uses(model))
    status = error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  if (status) {
    compute_model_release(model);
    return status;
  }
  profile_pass(context, "load", source->path, begin);
  *result = model;
  return COMPUTE_OK;
}

compute_status compute_model_load(compute_context *context, const char *path,
                                  const compute_model_options *options, compute_model **model) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  const compute_status status = error_if_null(context, "compute_model_load", context, path, model);
  if (status) return status;
  return load(context, "compute_model_load", &(model_source){.path = path}, options, model);
}

compute_status compute_model_load_memory(compute_context *context, const void *data, size_t bytes,
                                         const compute_model_options *options,
                                         compute_model **model) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  const compute_status status =
      error_if_null(context, "compute_model_load_memory", context, data, model);
  if (status) return status;
  const model_source source = {.memory = {data, (const uint8_t *)data + bytes},
                               .folder = options ? options->folder : NULL};
  return load(context, "compute_model_load_memory", &source, options, model);
}

/* ---- Description ----------------------------------------------------------------------------- */

static uint32_t kind_of(const onnx_value_info *info) {
  if (info->kind == ONNX_IS_OTHER) return COMPUTE_MODEL_NUMBERS; /* a map of scores */
  return (info->type == ONNX_STRING ? COMPUTE_MODEL_TEXT : 0U) |
         (info->sequence ? COMPUTE_MODEL_SEQUENCE : 0U) |
         (info->kind == ONNX_IS_OPTIONAL ? COMPUTE_MODEL_OPTIONAL : 0U);
}

/* Old files list their initializers among the inputs: such an input has a default. */
static void describe(const onnx_value_info *info, bool input, compute_model_port *port) {
  *port = (compute_model_port){.name = info->name,
                               .dtype = !input && info->type == ONNX_STRING
                                            ? COMPUTE_I64 /* positions of labels */
                                            : onnx_dtype(info->type),
                               .rank = info->kind != ONNX_IS_OTHER ? info->rank : -1,
                               .optional = input && info->has_default,
                               .kind = kind_of(info)};
  for (int32_t i = 0; i < port->rank; i++) {
    port->size[i] = info->size[i];
    port->symbol[i] = info->symbol[i];
  }
}

static compute_status port_at(const compute_model *model, const char *operation, bool input,
                              size_t index, compute_model_port *port) {
  const compute_status status =
      error_if_null(model ? model->context : NULL, operation, model, port);
  if (status) return status;
  const onnx_graph *graph = model_graph(model);
  const size_t count = input ? graph->input_count : graph->output_count;
  if (index >= count)
    return error_set(model->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "index %zu is past the last of %zu", index, count);
  describe(input ? &graph->inputs[index] : &graph->outputs[index], input, port);
  if (!input && port->kind & COMPUTE_MODEL_TEXT && !compute_model_label_count(model, index))
    port->dtype = COMPUTE_DTYPE_NONE;
  return COMPUTE_OK;
}

size_t compute_model_input_count(const compute_model *model) {
  return model ? model_graph(model)->input_count : 0;
}

size_t compute_model_output_count(const compute_model *model) {
  return model ? model_graph(model)->output_count : 0;
}

compute_status compute_model_input_at(const compute_model *model, size_t index,
                                      compute_model_port *port) {
  REFUSE_INHERITED(model, context);
  return port_at(model, "compute_model_input_at", true, index, port);
}

compute_status compute_model_output_at(const compute_model *model, size_t index,
                                       compute_model_port *port) {
  REFUSE_INHERITED(model, context);
  return port_at(model, "compute_model_output_at", false, index, port);
}

size_t compute_model_metadata_count(const compute_model *model) {
  if (IS_INHERITED(model, context)) return 0;
  return model ? model->storage->file.metadata_count : 0;
}

compute_status compute_model_metadata_at(const compute_model *model, size_t index, const char **key,
                                         const char **value) {
  REFUSE_INHERITED(model, context);
  static const char operation[] = "compute_model_metadata_at";
  const compute_context *context = model ? model->context : NULL;
  compute_status status = error_if_null(context, operation, model, key);
  if (!status) status = error_if_null(context, operation, model, value);
  if (status) return status;
  const onnx_file *file = &model->storage->file;
  if (index >= file->metadata_count)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "index %zu is past the last of %zu", index, file->metadata_count);
  *key = file->metadata[index].key;
  *value = file->metadata[index].value;
  return COMPUTE_OK;
}

compute_status compute_model_describe(const compute_model *model, compute_model_info *info) {
  REFUSE_INHERITED(model, context);
  compute_model *shared = (compute_model *)(uintptr_t)model; /* for its lock */
  const compute_status status =
      error_if_null(model ? model->context : NULL, "compute_model_describe", model, info);
  if (status) return status;
  const onnx_file *file = &model->storage->file;
  *info = (compute_model_info){.producer = file->producer,
                               .graph_name = file->graph.name,
                               .description = file->description,
                               .ir_version = file->ir_version,
                               .opset = version_in(file->opsets, file->opset_count, ""),
                               .nodes = file->nodes,
                               .weights = file->weights,
                               .weight_bytes = file->weight_bytes,
                               .mapped_bytes = file->mapped_bytes};
  pthread_mutex_lock(&shared->lock);
  info->plans = model->stages;
  info->plan_bytes = model->stage_bytes;
  info->plans_made = model->stages_made;
  info->plan_hits = model->hits;
  info->runs = model->runs;
  pthread_mutex_unlock(&shared->lock);
  return COMPUTE_OK;
}
