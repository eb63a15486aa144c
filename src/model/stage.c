/* SPDX-License-Identifier: MIT */
/* The tree of stages: makes, finds and evicts them. */
#include "model/stage.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/device/collector.h"
#include "model/loop.h"
#include "plan/compile/run/explain.h"

/* ---- Keys ---------------------------------------------------------------------------------- */

/* The key of a value: its dtype and shape. */
typedef struct shape_key {
  int64_t dtype, rank, size[COMPUTE_MAX_RANK];
} shape_key;

/* `type` is an onnx_type that the dtype does not tell, or 0. */
static shape_key key_of(compute_dtype dtype, int32_t type, compute_shape shape) {
  shape_key key = {.dtype = dtype | (int64_t)type << 32, .rank = shape.rank};
  for (int32_t i = 0; i < shape.rank; i++) key.size[i] = shape.size[i];
  return key;
}

static size_t slot_bytes(const stage_slot *slot) {
  int64_t count = 0;
  compute_shape_count(slot->shape, &count);
  return (size_t)count * compute_dtype_size(slot->dtype);
}

/* The key of a value that was asked for: its elements, or one integer. */
static size_t asked_bytes(const stage_slot *slot) {
  return slot->least ? sizeof(int64_t) : slot_bytes(slot);
}

static model_stage *find_child(model_stage *parent, const uint8_t *key, size_t bytes) {
  for (model_stage *child = parent->children; child; child = child->sibling)
    if (child->key_bytes == bytes && memcmp(child->key, key, bytes) == 0) return child;
  return NULL;
}

/* ---- Eviction ------------------------------------------------------------------------------ */

static void release_stage(model_stage *stage) {
  compute_plan_release(stage->plan);
  loop_release(stage->loop);
  base_release(stage->inputs.slots);
  base_release(stage->outputs.slots);
  base_release(stage->asked.slots);
  base_release(stage->key);
  arena_release(&stage->arena);
  base_release(stage);
}

static void unlink_stage(compute_model *model, model_stage *stage) {
  model_stage **link = &stage->parent->children;
  while (*link != stage) link = &(*link)->sibling;
  *link = stage->sibling;
  model->stages--;
  model->stage_bytes -= stage->bytes;
}

/* The first leaf below a stage. */
static model_stage *deepest(model_stage *stage) {
  while (stage->children) stage = stage->children;
  return stage;
}

void stage_release_all(compute_model *model) {
  while (model->root.children) {
    model_stage *leaf = deepest(model->root.children);
    unlink_stage(model, leaf);
    release_stage(leaf);
  }
}

static model_stage *next_stage(compute_model *model, model_stage *stage) {
  if (stage->children) return stage->children;
  while (stage != &model->root && !stage->sibling) stage = stage->parent;
  return stage == &model->root ? NULL : stage->sibling;
}

static model_stage *oldest_unused(compute_model *model) {
  model_stage *oldest = NULL;
  for (model_stage *at = next_stage(model, &model->root); at; at = next_stage(model, at))
    if (!at->children && !at->users && (!oldest || at->last_used < oldest->last_used)) oldest = at;
  return oldest;
}

/* Unlinks unused stages, least recently used first, until at most `most` stages with at most
 * `bytes` remain. Returns them as a list through `sibling`. The caller frees them after it
 * unlocks. */
static model_stage *take_oldest(compute_model *model, uint64_t most, uint64_t bytes) {
  model_stage *list = NULL, *oldest;
  while ((model->stages > most || model->stage_bytes > bytes) && (oldest = oldest_unused(model))) {
    unlink_stage(model, oldest);
    oldest->sibling = list;
    list = oldest;
  }
  return list;
}

static void release_list(model_stage *list) {
  while (list) {
    model_stage *next = list->sibling;
    release_stage(list);
    list = next;
  }
}

void stage_expose(compute_model *model) {
  pthread_mutex_lock(&model->lock);
  const bool first = !model->exposed;
  model_stage *list = first ? take_oldest(model, 0, 0) : NULL;
  model->exposed = true;
  pthread_mutex_unlock(&model->lock);
  if (first) weights_forget(model);
  release_list(list);
}

/* ---- Continuing after another stage ---------------------------------------------------------- */

static compute_status no_memory(const compute_model *model, const char *operation) {
  return error_set(model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}

typedef void (*value_visitor)(void *user, model_value *value);

/* An optional may contain a sequence; values nest no deeper. */
static void visit_value(model_value *value, value_visitor visit, void *user) {
  if (value->kind == VALUE_TENSOR) visit(user, value);
  model_value *items = (model_value *)(uintptr_t)value->items;
  for (size_t i = 0; i < value->item_count; i++) visit_value(&items[i], visit, user);
}

/* Visits each value that the rest of the recording may use. */
static void visit_live(const compute_model *model, model_frame *top, value_visitor visit,
                       void *user) {
  for (model_frame *frame = top; frame; frame = frame->caller) {
    for (size_t i = 0; i < frame->graph->value_count; i++)
      if (record_last_use(model, frame->graph, (int32_t)i) >= (int64_t)frame->next)
        visit_value(&frame->values[i], visit, user);
    for (size_t i = 0; i < frame->held.count; i++) visit_value(&frame->held.values[i], visit, user);
  }
}

typedef struct known_value {
  int64_t id, least;
  const void *data;
} known_value;

static void become_known(void *user, model_value *value) {
  const known_value *known = user;
  if (value->id != known->id || value->host) return;
  if (known->least) {
    value->known_least = known->least;
    value->known_larger = *(const int64_t *)known->data;
    return;
  }
  value->host = known->data;
  value->id = -1;
}

/* ---- Ending a stage -------------------------------------------------------------------------- */

typedef struct live_collector {
  model_stage *stage;
  int64_t first_id; /* the first id of this stage */
  int64_t *ids;
  size_t count, capacity;
  bool failed;
} live_collector;

static void *grow(slot_list *list) {
  if (base_grow((void **)&list->slots, &list->capacity, list->count + 1, sizeof *list->slots))
    return NULL;
  return &list->slots[list->count++];
}

static void collect(void *user, model_value *value) {
  live_collector *live = user;
  if (value->id < 0 || value->host) return;
  for (size_t i = 0; i < live->count; i++)
    if (live->ids[i] == value->id) return;
  if (base_grow((void **)&live->ids, &live->capacity, live->count + 1, sizeof *live->ids)) {
    live->failed = true;
    return;
  }
  live->ids[live->count++] = value->id;
  if (value->id < live->first_id) return;
  stage_slot *slot = grow(&live->stage->outputs);
  if (slot)
    *slot = (stage_slot){value->id, value->node, value->dtype, value->shape, 0};
  else
    live->failed = true;
}

static compute_status end_with_asked(model_recorder *recorder, model_stage *stage) {
  for (size_t i = 0; i < recorder->asked_count; i++) {
    const model_value *value = recorder->asked[i].value;
    stage_slot *slot = grow(&stage->asked);
    if (!slot) return no_memory(recorder->model, recorder->operation);
    *slot = (stage_slot){.id = value->id,
                         .dtype = value->dtype,
                         .shape = value->shape,
                         .least = recorder->asked[i].least};
  }
  return COMPUTE_OK;
}

static compute_status end_with_host(model_recorder *recorder, model_stage *stage) {
  const model_call *call = recorder->host_call;
  stage->function = recorder->function;
  stage->rows = recorder->rows;
  stage->host_node = *call;
  stage->host_node.recorder = NULL;
  stage->host_inputs = arena_allocate(&stage->arena, call->input_count, sizeof *stage->host_inputs);
  if (!stage->host_inputs) return no_memory(recorder->model, recorder->operation);
  for (size_t i = 0; i < call->input_count; i++) {
    model_value *value = call->inputs[i];
    if (!record_align(recorder, value)) return no_memory(recorder->model, recorder->operation);
    host_input *input = &stage->host_inputs[i];
    *input = (host_input){
        value->kind == VALUE_TENSOR && !value->host ? value->id : -1,
        {.data = (void *)(uintptr_t)value->host, .dtype = value->dtype, .shape = value->shape},
        value->dtype,
        value->shape};
    if (value->kind == VALUE_ABSENT) input->known = (host_tensor){0};
  }
  stage->host_output = recorder->next_id;
  recorder->next_id += (int64_t)call->output_count;
  return COMPUTE_OK;
}

/* Makes one tensor of a result an output of the stage's plan. */
static compute_status add_result(model_recorder *recorder, model_stage *stage, model_value *value,
                                 const char *name, stage_result *result) {
  if (value->kind != VALUE_TENSOR)
    return error_set(recorder->model->context, COMPUTE_ERROR_UNSUPPORTED, recorder->operation,
                     "output '%s' is not a value", name);
  if (value->type == ONNX_STRING) result->kind |= COMPUTE_MODEL_TEXT;
  result->labels |= value->type == ONNX_LABEL;
  const compute_node node = record_node(recorder, value);
  if (!compute_node_is_valid(node))
    return compute_graph_status(recorder->graph) ? compute_graph_status(recorder->graph)
                                                 : COMPUTE_ERROR_OUT_OF_MEMORY;
  stage_slot *slot = grow(&stage->outputs);
  if (!slot) return no_memory(recorder->model, recorder->operation);
  *slot = (stage_slot){recorder->next_id++, node, value->dtype, value->shape, 0};
  result->slots[result->count++] = *slot;
  return COMPUTE_OK;
}

/* The tensors of a value: itself, or all of a sequence or an optional. */
static compute_status take_result(model_recorder *recorder, model_stage *stage, model_value *value,
                                  const char *name, stage_result *result) {
  size_t count = 1;
  if (value->kind == VALUE_OPTIONAL) {
    result->kind |= COMPUTE_MODEL_OPTIONAL;
    count = value->item_count;
    if (count > 0) value = (model_value *)(uintptr_t)value->items;
  }
  if (value->kind == VALUE_SEQUENCE) {
    result->kind |= COMPUTE_MODEL_SEQUENCE;
    count = value->item_count;
    value = (model_value *)(uintptr_t)value->items;
  }
  result->slots = arena_allocate(&stage->arena, count, sizeof *result->slots);
  if (!result->slots) return no_memory(recorder->model, recorder->operation);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < count; i++)
    status = add_result(recorder, stage, &value[i], name, result);
  return status;
}

/* Collects the model's outputs: computed in this stage, computed earlier, or known. */
static compute_status end_with_results(model_recorder *recorder, model_stage *stage,
                                       const bool *wanted) {
  const onnx_graph *graph = recorder->top->graph;
  stage->results = arena_allocate(&stage->arena, graph->output_count, sizeof *stage->results);
  if (!stage->results) return no_memory(recorder->model, recorder->operation);
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < graph->output_count; i++) {
    stage->results[i].wanted = wanted[i];
    if (wanted[i])
      status = take_result(recorder, stage, &recorder->top->values[graph->outputs[i].value],
                           graph->outputs[i].name, &stage->results[i]);
  }
  return status;
}

static compute_status compile_stage(model_recorder *recorder, model_stage *stage) {
  const compute_model *model = recorder->model;
  if (stage->outputs.count == 0) return COMPUTE_OK;
  compute_node *nodes = base_allocate(stage->outputs.count, sizeof *nodes);
  if (!nodes) return no_memory(model, recorder->operation);
  for (size_t i = 0; i < stage->outputs.count; i++) nodes[i] = stage->outputs.slots[i].node;
  const compute_plan_options options = {.device = model->options.device,
                                        .fallback = model->options.fallback,
                                        .flags = model->options.flags,
                                        .name = model_graph(model)->name};
  compute_status status =
      compute_compile(recorder->graph, nodes, stage->outputs.count, &options, &stage->plan);
  base_release(nodes);
  if (!status) status = weights_align(recorder, stage->plan);
  return status;
}

static compute_status end_stage(model_recorder *recorder, model_stage *stage, int64_t first_id,
                                const bool *wanted) {
  compute_status status = COMPUTE_OK;
  if (stage->end == STAGE_ENDS) {
    status = end_with_results(recorder, stage, wanted);
  } else {
    live_collector live = {.stage = stage, .first_id = first_id};
    visit_live(recorder->model, recorder->top, collect, &live);
    stage->live = arena_allocate(&stage->arena, live.count, sizeof *stage->live);
    if (stage->live && live.count) memcpy(stage->live, live.ids, live.count * sizeof *live.ids);
    stage->live_count = live.count;
    base_release(live.ids);
    if (live.failed || !stage->live) return no_memory(recorder->model, recorder->operation);
    status = stage->end == STAGE_VALUES ? end_with_asked(recorder, stage)
                                        : end_with_host(recorder, stage);
  }
  if (!status) status = compile_stage(recorder, stage);
  stage->inputs = recorder->inputs;
  recorder->inputs = (slot_list){0};
  stage->top = recorder->top;
  stage->next_id = recorder->next_id;
  stage->bytes = sizeof *stage + stage->key_bytes + arena_bytes(&stage->arena);
  stage->bytes += loop_bytes(stage->loop);
  if (!status && stage->plan) {
    compute_plan_info info;
    status = compute_plan_describe(stage->plan, &info);
    stage->bytes += info.host_bytes + info.constant_bytes;
  }
  return status;
}

/* ---- Making a stage -------------------------------------------------------------------------- */

static compute_status record_stage(model_recorder *recorder, model_stage *stage,
                                   const bool *wanted) {
  compute_model *model = recorder->model;
  const int64_t first_id = recorder->next_id;
  recorder->graph = compute_graph_create(model->context);
  if (!recorder->graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  const int64_t begin = clock_now();
  compute_status status = record_run(recorder, &stage->end);
  profile_pass(model->context, "record", model_graph(model)->name, begin);
  stage->loop = recorder->loop;
  if (!status) status = end_stage(recorder, stage, first_id, wanted);
  compute_graph_release(recorder->graph);
  base_release(recorder->inputs.slots);
  base_release(recorder->weights.slots);
  base_release(recorder->asked);
  return status;
}

static model_stage *new_stage(model_stage *parent, const uint8_t *key, size_t key_bytes) {
  model_stage *stage = base_allocate(1, sizeof *stage);
  if (!stage) return NULL;
  stage->key = base_allocate(key_bytes, 1);
  if (!stage->key) {
    base_release(stage);
    return NULL;
  }
  if (key_bytes) memcpy(stage->key, key, key_bytes);
  stage->key_bytes = key_bytes;
  stage->parent = parent;
  return stage;
}

/* The source of a stage. */
typedef struct stage_request {
  compute_model *model;
  const char *operation;
  const bool *wanted;
  const stage_arguments *inputs; /* for a first stage */
  const host_tensor *made;       /* for a stage after a host function */
} stage_request;

/* Finds the main graph's nodes that the wanted outputs need. */
static compute_status find_needed(const compute_model *model, const char *operation,
                                  model_arena *arena, const bool *wanted, const bool **result) {
  const onnx_graph *graph = model_graph(model);
  bool *values = arena_allocate(arena, graph->value_count, sizeof *values);
  bool *needed = arena_allocate(arena, graph->node_count, sizeof *needed);
  if (!values || !needed) return no_memory(model, operation);
  for (size_t i = 0; i < graph->output_count; i++)
    if (wanted[i]) values[graph->outputs[i].value] = true;
  record_mark_needed(graph, NULL, values, needed);
  *result = needed;
  return COMPUTE_OK;
}

static model_value input_value(const compute_tensor *tensor, int64_t id, int32_t type, bool text) {
  const compute_dtype dtype = compute_tensor_dtype(tensor);
  return (model_value){.kind = VALUE_TENSOR,
                       .id = id,
                       .dtype = dtype,
                       .shape = compute_tensor_shape(tensor),
                       .type = text                        ? ONNX_STRING
                               : onnx_dtype(type) == dtype ? type
                                                           : onnx_type_of(dtype)};
}

/* A sequence or an optional with the next tensors of `items`. */
static compute_status take_items(const stage_request *request, model_arena *arena, size_t input,
                                 size_t first, model_value *value) {
  const stage_arguments *inputs = request->inputs;
  const onnx_value_info *info = &model_graph(request->model)->inputs[input];
  const uint32_t kind = inputs->kinds[input];
  const size_t count = inputs->counts[input];
  model_value *items = arena_allocate(arena, count, sizeof *items);
  model_value *held = arena_allocate(arena, 1, sizeof *held);
  if (!items || !held) return no_memory(request->model, request->operation);
  for (size_t i = 0; i < count; i++)
    items[i] =
        input_value(inputs->items[first + i], model_first_id(request->model) + (int64_t)(first + i),
                    info->type, (kind & COMPUTE_MODEL_TEXT) != 0);
  const bool optional = (kind & COMPUTE_MODEL_OPTIONAL) != 0;
  *value = (model_value){.kind = kind & COMPUTE_MODEL_SEQUENCE ? VALUE_SEQUENCE : VALUE_OPTIONAL,
                         .id = -1,
                         .name = optional ? NULL : value->name,
                         .items = items,
                         .item_count = count};
  if (!optional || !(kind & COMPUTE_MODEL_SEQUENCE)) return COMPUTE_OK;
  *held = *value;
  *value = (model_value){.kind = VALUE_OPTIONAL, .id = -1, .items = held, .item_count = 1};
  return COMPUTE_OK;
}

/* Values of the main graph's inputs; their ids start at 0. */
static compute_status take_inputs(const stage_request *request, model_arena *arena,
                                  const onnx_graph *graph, model_frame *frame) {
  const stage_arguments *inputs = request->inputs;
  compute_status status = COMPUTE_OK;
  size_t first = 0;
  for (size_t i = 0; !status && i < graph->input_count; i++) {
    model_value *value = &frame->values[graph->inputs[i].value];
    const char *name = value->name;
    if (inputs->kinds[i] & (COMPUTE_MODEL_SEQUENCE | COMPUTE_MODEL_OPTIONAL))
      status = take_items(request, arena, i, first, value);
    else if (inputs->tensors[i])
      *value = input_value(inputs->tensors[i], (int64_t)i, graph->inputs[i].type,
                           (inputs->kinds[i] & COMPUTE_MODEL_TEXT) != 0);
    value->name = name;
    first += inputs->counts[i];
  }
  return status;
}

static model_value seed_value(const compute_model *model) {
  return (model_value){.kind = VALUE_TENSOR,
                       .id = model_seed_id(model),
                       .dtype = COMPUTE_I64,
                       .type = ONNX_INT64,
                       .shape = COMPUTE_SCALAR};
}

static compute_status make_first(const stage_request *request, model_stage *stage) {
  compute_model *model = request->model;
  const onnx_graph *graph = model_graph(model);
  model_recorder recorder = {.model = model,
                             .operation = request->operation,
                             .arena = &stage->arena,
                             .next_id =
                                 model_first_id(model) + (int64_t)request->inputs->item_count,
                             .seed = seed_value(model),
                             .loops = &loop_makers_of_stages,
                             .training = model->exposed};
  model_frame *frame;
  compute_status status = record_push(&recorder, graph, &frame);
  if (status) return status;
  status = take_inputs(request, &stage->arena, graph, frame);
  if (status) return status;
  status = find_needed(model, request->operation, &stage->arena, request->wanted, &frame->needed);
  return status ? status : record_stage(&recorder, stage, request->wanted);
}

/* Stores the values that were asked for in the frames of a new stage. */
static compute_status set_values(const compute_model *model, const char *operation,
                                 const model_stage *parent, model_stage *stage, model_frame *top,
                                 const uint8_t *key) {
  for (size_t i = 0; i < parent->asked.count; i++) {
    const stage_slot *asked = &parent->asked.slots[i];
    const size_t bytes = asked_bytes(asked);
    void *data = arena_allocate(&stage->arena, bytes, 1);
    if (!data) return no_memory(model, operation);
    if (bytes) memcpy(data, key, bytes);
    key += bytes;
    known_value known = {asked->id, asked->least, data};
    visit_live(model, top, become_known, &known);
  }
  return COMPUTE_OK;
}

/* Stores a host function's outputs as its node's outputs and advances to the next node. */
static void set_made(const model_stage *parent, model_frame *top, const host_tensor *made) {
  const onnx_node *node = parent->host_node.node;
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] < 0 || made[i].dtype == COMPUTE_DTYPE_NONE) continue;
    model_value *value = &top->values[node->outputs[i]];
    *value = (model_value){.kind = VALUE_TENSOR,
                           .id = parent->host_output + (int64_t)i,
                           .name = value->name,
                           .dtype = made[i].dtype,
                           .shape = made[i].shape,
                           .type = made[i].type ? made[i].type : onnx_type_of(made[i].dtype)};
  }
  top->next++;
}

static compute_status make_next(const stage_request *request, model_stage *stage) {
  compute_model *model = request->model;
  const model_stage *parent = stage->parent;
  model_recorder recorder = {.model = model,
                             .operation = request->operation,
                             .arena = &stage->arena,
                             .next_id = parent->next_id,
                             .seed = seed_value(model),
                             .loops = &loop_makers_of_stages,
                             .training = model->exposed};
  recorder.top = record_copy_frames(&stage->arena, parent->top);
  if (!recorder.top) return no_memory(model, request->operation);
  if (parent->end == STAGE_HOST) {
    set_made(parent, recorder.top, request->made);
  } else {
    const compute_status status =
        set_values(model, request->operation, parent, stage, recorder.top, stage->key);
    if (status) return status;
  }
  return record_stage(&recorder, stage, request->wanted);
}

/* ---- Finding or making a stage ------------------------------------------------------------- */

static void use(compute_model *model, model_stage *stage) {
  stage->users++;
  stage->last_used = ++model->clock;
}

/* Finds the child of `parent` with this key and marks it as used; NULL if there is none. */
static model_stage *look_up(compute_model *model, model_stage *parent, uint8_t *key, size_t bytes) {
  pthread_mutex_lock(&model->lock);
  /* stages made before exposure treat weights as constants */
  if (parent == &model->root) key[bytes - 1] = model->exposed;
  model_stage *child = find_child(parent, key, bytes);
  if (child) use(model, child);
  pthread_mutex_unlock(&model->lock);
  return child;
}

static void keep(compute_model *model, model_stage *stage) {
  pthread_mutex_lock(&model->lock);
  model->stages++;
  model->stages_made++;
  model->stage_bytes += stage->bytes;
  stage->sibling = stage->parent->children;
  stage->parent->children = stage;
  use(model, stage);
  model_stage *list = take_oldest(model, model->options.max_plans, model->options.max_plan_bytes);
  pthread_mutex_unlock(&model->lock);
  release_list(list);
}

static compute_status make(const stage_request *request, model_stage *parent, const uint8_t *key,
                           size_t bytes, model_stage **result) {
  model_stage *stage = new_stage(parent, key, bytes);
  if (!stage) return no_memory(request->model, request->operation);
  const compute_status status =
      parent == &request->model->root ? make_first(request, stage) : make_next(request, stage);
  if (status) {
    release_stage(stage);
    return status;
  }
  keep(request->model, stage);
  *result = stage;
  return COMPUTE_OK;
}

/* Takes ownership of the key. Other threads find existing stages while this one makes another. */
static compute_status find_or_make(const stage_request *request, model_stage *parent, uint8_t *key,
                                   size_t bytes, model_stage **result, bool *found) {
  compute_model *model = request->model;
  compute_status status = COMPUTE_OK;
  *result = look_up(model, parent, key, bytes);
  if (!*result) {
    pthread_mutex_lock(&model->recording);
    *result = look_up(model, parent, key, bytes); /* another thread may have made it */
    if (!*result) {
      *found = false;
      status = make(request, parent, key, bytes, result);
    }
    pthread_mutex_unlock(&model->recording);
  }
  base_release(key);
  return status;
}

/* Adds the key of one tensor. */
static void add_key(uint8_t **at, const compute_tensor *tensor, uint32_t kind) {
  const int32_t type = kind & COMPUTE_MODEL_TEXT ? ONNX_STRING : 0;
  const shape_key one =
      tensor ? key_of(compute_tensor_dtype(tensor), type, compute_tensor_shape(tensor))
             : (shape_key){0};
  memcpy(*at, &one, sizeof one);
  *at += sizeof one;
}

static uint8_t *first_key(const onnx_graph *graph, const stage_arguments *inputs,
                          const bool *wanted, size_t *bytes) {
  *bytes = (graph->input_count + inputs->item_count) * sizeof(shape_key) + graph->output_count + 1;
  uint8_t *key = base_allocate(*bytes, 1), *at = key;
  size_t first = 0;
  for (size_t i = 0; key && i < graph->input_count; i++) {
    const uint32_t kind = inputs->kinds[i];
    if (kind & (COMPUTE_MODEL_SEQUENCE | COMPUTE_MODEL_OPTIONAL)) {
      const shape_key list = {.dtype = -(int64_t)kind, .rank = (int64_t)inputs->counts[i]};
      memcpy(at, &list, sizeof list);
      at += sizeof list;
      for (size_t k = 0; k < inputs->counts[i]; k++) add_key(&at, inputs->items[first++], kind);
    } else {
      add_key(&at, inputs->tensors[i], kind);
    }
  }
  for (size_t i = 0; key && i < graph->output_count; i++) at[i] = wanted[i];
  return key;
}

compute_status stage_first(compute_model *model, const char *operation,
                           const stage_arguments *inputs, const bool *wanted, model_stage **result,
                           bool *found) {
  const stage_request request = {
      .model = model, .operation = operation, .wanted = wanted, .inputs = inputs};
  size_t bytes;
  uint8_t *key = first_key(model_graph(model), inputs, wanted, &bytes);
  if (!key) return no_memory(model, operation);
  return find_or_make(&request, &model->root, key, bytes, result, found);
}

static uint8_t *values_key(const model_stage *parent, const void *const *values, size_t *bytes) {
  *bytes = 0;
  for (size_t i = 0; i < parent->asked.count; i++) *bytes += asked_bytes(&parent->asked.slots[i]);
  uint8_t *key = base_allocate(*bytes, 1), *at = key;
  for (size_t i = 0; key && i < parent->asked.count; i++) {
    const stage_slot *asked = &parent->asked.slots[i];
    const size_t size = asked_bytes(asked);
    int64_t number = 0;
    if (asked->least && record_integer(asked->dtype, values[i], 0, &number) &&
        number < asked->least)
      number = asked->least;
    if (size) memcpy(at, asked->least ? &number : values[i], size);
    at += size;
  }
  return key;
}

static uint8_t *made_key(const model_stage *parent, const host_tensor *made, size_t *bytes) {
  const size_t count = parent->host_node.output_count;
  *bytes = count * sizeof(shape_key);
  uint8_t *key = base_allocate(*bytes, 1);
  for (size_t i = 0; key && i < count; i++) {
    const shape_key one = key_of(made[i].dtype, made[i].type, made[i].shape);
    memcpy(key + i * sizeof one, &one, sizeof one);
  }
  return key;
}

compute_status stage_next(compute_model *model, const char *operation, model_stage *parent,
                          const void *const *values, const host_tensor *made, const bool *wanted,
                          model_stage **result, bool *found) {
  const stage_request request = {
      .model = model, .operation = operation, .wanted = wanted, .made = made};
  size_t bytes;
  uint8_t *key = parent->end == STAGE_HOST ? made_key(parent, made, &bytes)
                                           : values_key(parent, values, &bytes);
  if (!key) return no_memory(model, operation);
  return find_or_make(&request, parent, key, bytes, result, found);
}

void stage_release(compute_model *model, model_stage *stage) {
  pthread_mutex_lock(&model->lock);
  stage->users--;
  pthread_mutex_unlock(&model->lock);
}

/* ---- Showing ------------------------------------------------------------------------------- */

static const char *const end_texts[] = {
    [STAGE_ENDS] = "the end",
    [STAGE_VALUES] = "what follows depends on values",
    [STAGE_HOST] = "a function of the host follows",
};

static void explain_function(const compute_model *model, const model_stage *stage,
                             text_buffer *text) {
  if (stage->end != STAGE_HOST || stage->loop) return;
  text_add(text, "   %s on the host\n", stage->host_node.node->type);
  explain_host(model->context, text, stage->rows);
}

static compute_status explain_one(const compute_model *model, const model_stage *stage,
                                  text_buffer *text) {
  text_add(text, "-- stage of %zu input%s, to %s\n", stage->inputs.count,
           stage->inputs.count == 1 ? "" : "s", end_texts[stage->end]);
  char *plan = NULL;
  const compute_status status = stage->plan ? compute_explain(stage->plan, &plan) : COMPUTE_OK;
  if (plan) text_add(text, "%s\n", plan);
  compute_text_free(plan);
  explain_function(model, stage, text);
  return status;
}

compute_status stage_explain(compute_model *model, const char *operation, char **result) {
  text_buffer text = {0};
  compute_status status = COMPUTE_OK;
  pthread_mutex_lock(&model->recording);
  text_add(&text, "%zu stage%s\n", (size_t)model->stages, model->stages == 1 ? "" : "s");
  for (const model_stage *at = next_stage(model, &model->root); !status && at;
       at = next_stage(model, (model_stage *)(uintptr_t)at))
    status = explain_one(model, at, &text);
  pthread_mutex_unlock(&model->recording);
  if (!status && text.failed) status = no_memory(model, operation);
  if (status)
    text_release(&text);
  else
    *result = text.data;
  return status;
}
