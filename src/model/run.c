/* SPDX-License-Identifier: MIT */
/* Runs a model: goes from stage to stage and keeps a table of the tensors that they exchange. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "model/call/host.h"
#include "model/run.h"

static const char operation[] = "compute_model_run";

compute_status run_no_memory(const model_run *run) {
  return error_set(run->model->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}

/* ---- Bindings ------------------------------------------------------------------------------ */

static size_t find_port(const onnx_value_info *ports, size_t count, const char *name) {
  size_t at = 0;
  while (at < count && strcmp(ports[at].name, name) != 0) at++;
  return at;
}

compute_status run_check_input(const model_run *run, const onnx_value_info *port,
                               compute_dtype dtype, compute_shape shape) {
  const compute_context *context = run->model->context;
  const bool text = dtype == COMPUTE_DTYPE_NONE;
  char text_of_shape[160];
  if (port->type != ONNX_UNDEFINED &&
      (text ? port->type != ONNX_STRING : onnx_dtype(port->type) != dtype))
    return error_set(context, COMPUTE_ERROR_DTYPE, operation, "input '%s' is %s, not %s",
                     port->name, onnx_type_name(port->type),
                     text ? "text" : compute_dtype_name(dtype));
  if (port->sequence) return COMPUTE_OK; /* its tensors may have other shapes */
  bool fits = port->rank < 0 || port->rank == shape.rank;
  for (int32_t i = 0; fits && port->rank >= 0 && i < shape.rank; i++)
    fits = port->size[i] < 0 || port->size[i] == shape.size[i];
  if (fits) return COMPUTE_OK;
  text_buffer wanted = {0};
  for (int32_t i = 0; i < port->rank; i++) {
    const char *symbol = port->symbol[i] ? port->symbol[i] : "?";
    if (port->size[i] < 0)
      text_add(&wanted, "%s%s", i ? "," : "", symbol);
    else
      text_add(&wanted, "%s%lld", i ? "," : "", (long long)port->size[i]);
  }
  const compute_status status =
      error_set(context, COMPUTE_ERROR_SHAPE, operation, "input '%s' is [%s], not %s", port->name,
                wanted.data ? wanted.data : "",
                compute_shape_text(shape, text_of_shape, sizeof text_of_shape));
  text_release(&wanted);
  return status;
}

compute_status run_find_input(const model_run *run, const char *name, size_t *at) {
  const onnx_graph *graph = model_graph(run->model);
  *at = find_port(graph->inputs, graph->input_count, name);
  return *at < graph->input_count ? COMPUTE_OK
                                  : error_set(run->model->context, COMPUTE_ERROR_BINDING, operation,
                                              "the model has no input '%s'", name);
}

compute_status run_check_bound(model_run *run) {
  const onnx_graph *graph = model_graph(run->model);
  for (size_t i = 0; i < graph->input_count; i++) {
    const onnx_value_info *port = &graph->inputs[i];
    if (run->inputs[i] || run->kinds[i] || port->has_default) continue;
    if (port->kind == ONNX_IS_OPTIONAL)
      run->kinds[i] = COMPUTE_MODEL_OPTIONAL; /* without a value */
    else
      return error_set(run->model->context, COMPUTE_ERROR_BINDING, operation,
                       "input '%s' is not bound", port->name);
  }
  return COMPUTE_OK;
}

static compute_status bind_inputs(model_run *run, const compute_model_binding *inputs,
                                  size_t count) {
  const onnx_graph *graph = model_graph(run->model);
  const compute_context *context = run->model->context;
  for (size_t i = 0; i < count; i++) {
    size_t at;
    if (!inputs[i].name || !inputs[i].tensor)
      return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "inputs[%zu] lacks its %s",
                       i, inputs[i].name ? "tensor" : "name");
    compute_status status = run_find_input(run, inputs[i].name, &at);
    if (status) return status;
    if (run->inputs[at])
      return error_set(context, COMPUTE_ERROR_BINDING, operation, "input '%s' is bound twice",
                       inputs[i].name);
    if (compute_device_context(compute_tensor_device(inputs[i].tensor)) != context)
      return error_set(context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                       "input '%s' belongs to another context", inputs[i].name);
    const onnx_value_info *port = &graph->inputs[at];
    if (port->sequence || port->kind == ONNX_IS_OTHER)
      return error_set(context, COMPUTE_ERROR_UNSUPPORTED, operation, "input '%s' is not a tensor",
                       port->name);
    status = run_check_input(run, port, compute_tensor_dtype(inputs[i].tensor),
                             compute_tensor_shape(inputs[i].tensor));
    if (status) return status;
    run->inputs[at] = inputs[i].tensor;
    run->table[at] = inputs[i].tensor;
  }
  return run_check_bound(run);
}

static compute_status bind_outputs(model_run *run) {
  const onnx_graph *graph = model_graph(run->model);
  const compute_context *context = run->model->context;
  for (size_t i = 0; i < graph->output_count; i++) run->places[i] = SIZE_MAX;
  for (size_t i = 0; i < run->output_count; i++) {
    const char *name = run->outputs[i].name;
    if (!name)
      return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation,
                       "outputs[%zu] lacks its name", i);
    size_t at = find_port(graph->outputs, graph->output_count, name);
    const bool known = at < graph->output_count;
    while (at < graph->output_count && run->wanted[at]) /* a file may list an output twice */
      at += 1 + find_port(graph->outputs + at + 1, graph->output_count - at - 1, name);
    if (!known)
      return error_set(context, COMPUTE_ERROR_BINDING, operation, "the model has no output '%s'",
                       name);
    if (at == graph->output_count)
      return error_set(context, COMPUTE_ERROR_BINDING, operation, "output '%s' is bound twice",
                       name);
    run->wanted[at] = true;
    run->places[at] = i;
  }
  return COMPUTE_OK;
}

/* ---- One stage ----------------------------------------------------------------------------- */

static compute_status reserve(model_run *run, int64_t ids) {
  if (base_grow((void **)&run->table, &run->table_capacity, (uint64_t)ids, sizeof *run->table))
    return run_no_memory(run);
  if (run->table_count < (size_t)ids) run->table_count = (size_t)ids;
  return COMPUTE_OK;
}

/* Returns true if a result of compute_model_run is bound to the caller's tensor. */
static bool is_single(const stage_result *result) {
  return result->wanted && result->count == 1 && !result->kind;
}

/* The index in `outputs` of a stage's output; SIZE_MAX if it is not a wanted output of the
 * model. */
static size_t result_of(const model_run *run, const model_stage *stage, int64_t id) {
  const size_t count = model_graph(run->model)->output_count;
  for (size_t i = 0; !run->arguments && stage->end == STAGE_ENDS && i < count; i++)
    if (is_single(&stage->results[i]) && stage->results[i].slots[0].id == id) return run->places[i];
  return SIZE_MAX;
}

static compute_status check_output(const model_run *run, const stage_slot *slot,
                                   const compute_model_binding *output) {
  char is[160], has[160];
  if (compute_tensor_dtype(output->tensor) != slot->dtype)
    return error_set(run->model->context, COMPUTE_ERROR_DTYPE, operation,
                     "output '%s' is %s, its tensor %s", output->name,
                     compute_dtype_name(slot->dtype),
                     compute_dtype_name(compute_tensor_dtype(output->tensor)));
  const compute_shape shape = compute_tensor_shape(output->tensor);
  if (compute_shape_equal(shape, slot->shape)) return COMPUTE_OK;
  return error_set(run->model->context, COMPUTE_ERROR_SHAPE, operation,
                   "output '%s' is %s, its tensor %s", output->name,
                   compute_shape_text(slot->shape, is, sizeof is),
                   compute_shape_text(shape, has, sizeof has));
}

/* Binds a stage's output to the caller's tensor or to a new one. */
static compute_status bind_slot(model_run *run, const model_stage *stage, const stage_slot *slot,
                                compute_binding *binding) {
  binding->node = slot->node;
  const size_t place = result_of(run, stage, slot->id);
  if (place != SIZE_MAX && run->outputs[place].tensor) {
    binding->tensor = run->outputs[place].tensor;
    return check_output(run, slot, &run->outputs[place]);
  }
  const compute_status status =
      compute_plan_create_tensor(stage->plan, slot->node, &binding->tensor);
  if (status) return status;
  *(place == SIZE_MAX ? &run->table[slot->id] : &run->made[place]) = binding->tensor;
  return COMPUTE_OK;
}

/* Random operators of all stages share one seed. */
static compute_status bind_seed(model_run *run) {
  const int64_t id = model_seed_id(run->model);
  if (run->table[id]) return COMPUTE_OK;
  const int64_t seed = (int64_t)random_fresh();
  return compute_tensor_from_host(model_device(run->model), COMPUTE_I64, COMPUTE_SCALAR, &seed,
                                  &run->table[id]);
}

static compute_status run_plan(model_run *run, const model_stage *stage) {
  compute_status status = reserve(run, stage->next_id);
  if (status || !stage->plan) return status;
  for (size_t i = 0; i < stage->inputs.count && !status; i++)
    if (stage->inputs.slots[i].id == model_seed_id(run->model)) status = bind_seed(run);
  if (status) return status;
  const size_t count = stage->inputs.count + stage->outputs.count;
  compute_binding few[16];
  compute_binding *bindings = count <= 16 ? few : base_allocate(count, sizeof *bindings);
  if (!bindings) return run_no_memory(run);
  for (size_t i = 0; i < stage->inputs.count; i++)
    bindings[i] =
        (compute_binding){stage->inputs.slots[i].node, run->table[stage->inputs.slots[i].id]};
  for (size_t i = 0; !status && i < stage->outputs.count; i++)
    status = bind_slot(run, stage, &stage->outputs.slots[i], &bindings[stage->inputs.count + i]);
  if (!status) status = model_run_plan(stage->plan, bindings, count, run->ask);
  if (bindings != few) base_release(bindings);
  return status;
}

/* Returns tensors that later stages do not need to the pool. */
static void drop_dead(model_run *run, const model_stage *stage) {
  for (size_t id = (size_t)model_first_id(run->model); id < run->table_count; id++) {
    if (!run->table[id]) continue;
    bool live = stage->end == STAGE_HOST && (int64_t)id >= stage->host_output; /* just made */
    for (size_t i = 0; !live && i < stage->live_count; i++) live = stage->live[i] == (int64_t)id;
    if (live) continue;
    compute_tensor_release(run->table[id]);
    run->table[id] = NULL;
  }
}

/* ---- From stage to stage -------------------------------------------------------------------- */

static compute_status read_tensor(const model_run *run, int64_t id, void **data) {
  const compute_tensor *tensor = run->table[id];
  const size_t bytes =
      (size_t)compute_tensor_count(tensor) * compute_dtype_size(compute_tensor_dtype(tensor));
  *data = base_allocate(bytes, 1);
  if (!*data) return run_no_memory(run);
  return bytes ? compute_tensor_read(tensor, *data, bytes) : COMPUTE_OK;
}

static compute_status follow_values(model_run *run, model_stage *stage, model_stage **next) {
  const size_t count = stage->asked.count;
  void **values = base_allocate(count, sizeof *values);
  compute_status status = values ? COMPUTE_OK : run_no_memory(run);
  for (size_t i = 0; !status && i < count; i++)
    status = read_tensor(run, stage->asked.slots[i].id, &values[i]);
  if (!status)
    status = stage_next(run->model, operation, stage, (const void *const *)values, NULL,
                        run->wanted, next, &run->all_found);
  for (size_t i = 0; values && i < count; i++) base_release(values[i]);
  base_release(values);
  return status;
}

/* The elements of a value for a host function: in its tensor's memory if the device computes in host
 * memory, or a copy. Another device may have newer elements than memory that it shares. */
static compute_status lend_tensor(const model_run *run, const host_input *input,
                                  host_tensor *lent) {
  compute_tensor *tensor = run->table[input->id];
  const compute_device *device = compute_tensor_device(tensor);
  const bool is_host = (device->info.capabilities & COMPUTE_CAPABILITY_HOST) != 0;
  void *data = is_host ? compute_tensor_data(tensor) : NULL;
  *lent = (host_tensor){.dtype = input->dtype, .shape = input->shape};
  if (!data || !compute_tensor_is_dense(tensor) ||
      (uintptr_t)data % compute_dtype_size(input->dtype) != 0)
    return read_tensor(run, input->id, &lent->data);
  lent->data = data;
  lent->owner = tensor;
  return COMPUTE_OK;
}

static compute_status call_host_function(model_run *run, const model_stage *stage,
                                         host_tensor *inputs, host_tensor *outputs) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < stage->host_node.input_count; i++) {
    const host_input *input = &stage->host_inputs[i];
    inputs[i] = input->known;
    if (input->id >= 0) status = lend_tensor(run, input, &inputs[i]);
  }
  host_call call = {.context = run->model->context,
                    .call = &stage->host_node,
                    .operation = operation,
                    .device = model_device(run->model),
                    .model = run->model,
                    .texts = &run->list,
                    .ask = run->ask};
  return status ? status : stage->function(&call, inputs, outputs);
}

static compute_status keep_made(model_run *run, const model_stage *stage, host_tensor *outputs) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < stage->host_node.output_count; i++) {
    compute_tensor **made = &run->table[stage->host_output + (int64_t)i];
    host_tensor *output = &outputs[i];
    if (output->owner) {
      *made = output->owner;
      output->owner = NULL;
      output->data = NULL;
    } else if (output->data) {
      status = compute_tensor_from_host(model_device(run->model), output->dtype, output->shape,
                                        output->data, made);
    }
  }
  return status;
}

static compute_status follow_host(model_run *run, model_stage *stage, model_stage **next) {
  const size_t in = stage->host_node.input_count, out = stage->host_node.output_count;
  host_tensor *tensors = base_allocate(in + out, sizeof *tensors);
  if (!tensors) return run_no_memory(run);
  host_tensor *outputs = tensors + in;
  compute_status status = call_host_function(run, stage, tensors, outputs);
  if (!status) status = keep_made(run, stage, outputs);
  if (!status)
    status =
        stage_next(run->model, operation, stage, NULL, outputs, run->wanted, next, &run->all_found);
  for (size_t i = 0; i < in; i++)
    if (stage->host_inputs[i].id >= 0 && !tensors[i].owner) base_release(tensors[i].data);
  for (size_t i = 0; i < out; i++) host_release(&outputs[i]);
  base_release(tensors);
  return status;
}

/* The inputs of a loop node as tensors, one reference each. */
static compute_status loop_inputs(const model_run *run, const model_stage *stage,
                                  compute_tensor **inputs) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < stage->host_node.input_count; i++) {
    const host_input *input = &stage->host_inputs[i];
    if (input->id >= 0)
      inputs[i] = compute_tensor_retain(run->table[input->id]);
    else if (input->known.data)
      status = compute_tensor_from_host(model_device(run->model), input->dtype, input->shape,
                                        input->known.data, &inputs[i]);
  }
  return status;
}

static compute_status follow_loop(model_run *run, model_stage *stage, model_stage **next) {
  const size_t in = stage->host_node.input_count, out = stage->host_node.output_count;
  compute_tensor **inputs = base_allocate(in, sizeof *inputs);
  host_tensor *made = base_allocate(out, sizeof *made);
  compute_tensor **outputs = &run->table[stage->host_output];
  compute_status status = inputs && made ? COMPUTE_OK : run_no_memory(run);
  if (!status) status = loop_inputs(run, stage, inputs);
  if (!status)
    status =
        loop_run(run->model, operation, stage->loop, inputs, run->table, run->ask, out, outputs);
  for (size_t i = 0; !status && i < out; i++)
    made[i] = (host_tensor){.dtype = compute_tensor_dtype(outputs[i]),
                            .shape = compute_tensor_shape(outputs[i])};
  if (!status)
    status =
        stage_next(run->model, operation, stage, NULL, made, run->wanted, next, &run->all_found);
  for (size_t i = 0; inputs && i < in; i++) compute_tensor_release(inputs[i]);
  base_release(inputs);
  base_release(made);
  return status;
}

/* Finds the next stage if `stage` does not end the model. */
static compute_status follow(model_run *run, model_stage *stage, model_stage **next) {
  if (stage->end == STAGE_VALUES) return follow_values(run, stage, next);
  return stage->loop ? follow_loop(run, stage, next) : follow_host(run, stage, next);
}

static compute_status run_stages(model_run *run) {
  compute_model *model = run->model;
  model_stage *stage;
  const stage_arguments inputs = {.tensors = run->inputs,
                                  .kinds = run->kinds,
                                  .counts = run->counts,
                                  .items = run->items,
                                  .item_count = run->item_count};
  compute_status status =
      stage_first(model, operation, &inputs, run->wanted, &stage, &run->all_found);
  while (!status) {
    model_stage *next = NULL;
    const bool ends = stage->end == STAGE_ENDS;
    if (ends) status = run_check_results(run, stage);
    if (!status) status = run_plan(run, stage);
    if (!status && ends && run->arguments) status = run_take_items(run, stage);
    if (!status && stage->end != STAGE_ENDS) {
      status = follow(run, stage, &next);
      drop_dead(run, stage);
    }
    stage_release(model, stage);
    if (!next) break;
    stage = next;
  }
  return status;
}

/* ---- The call ------------------------------------------------------------------------------ */

static bool open_run(model_run *run) {
  const onnx_graph *graph = model_graph(run->model);
  run->inputs = base_allocate(graph->input_count, sizeof *run->inputs);
  run->kinds = base_allocate(graph->input_count, sizeof *run->kinds);
  run->counts = base_allocate(graph->input_count, sizeof *run->counts);
  run->places = base_allocate(graph->output_count, sizeof *run->places);
  run->wanted = base_allocate(graph->output_count, sizeof *run->wanted);
  run->made = base_allocate(run->output_count, sizeof *run->made);
  run->table_count = (size_t)model_first_id(run->model);
  return run->inputs && run->kinds && run->counts && run->places && run->wanted && run->made &&
         !base_grow((void **)&run->table, &run->table_capacity, run->table_count,
                    sizeof *run->table);
}

static void close_run(model_run *run, compute_status status) {
  const size_t own = model_graph(run->model)->input_count;
  for (size_t i = own; run->table && i < run->table_count; i++)
    compute_tensor_release(run->table[i]);
  for (size_t i = 0; i < run->text_count; i++) compute_tensor_release(run->texts[i]);
  for (size_t i = 0; run->made && !run->arguments && i < run->output_count; i++)
    if (status)
      compute_tensor_release(run->made[i]);
    else if (run->made[i])
      run->outputs[i].tensor = run->made[i];
  for (size_t i = 0; status && run->arguments && i < run->output_count; i++) {
    compute_model_item_release(run->arguments[i].item);
    run->arguments[i].item = NULL;
  }
  texts_release(&run->list);
  base_release(run->texts);
  base_release(run->items);
  base_release(run->kinds);
  base_release(run->counts);
  base_release(run->inputs);
  base_release(run->places);
  base_release(run->wanted);
  base_release(run->made);
  base_release(run->table);
}

static compute_status check_call(const compute_model *model, const void *inputs, size_t input_count,
                                 const void *outputs, size_t output_count,
                                 const compute_model_run_options *options) {
  compute_status status = error_if_null(model ? model->context : NULL, operation, model);
  if (!status && input_count) status = error_if_null(model->context, operation, inputs);
  if (!status && output_count) status = error_if_null(model->context, operation, outputs);
  if (!status && options)
    status = error_if_reserved(model->context, operation, "options", options->reserved);
  return status;
}

/* Runs with the outputs of `run`, and with either tensors or items as inputs. */
static compute_status run_model(model_run *run, const compute_model_binding *tensors,
                                const compute_model_argument *items, size_t count,
                                const compute_model_run_options *options) {
  compute_model *model = run->model;
  const bool asks = options && options->go_on;
  run_ask ask = {.go_on = asks ? options->go_on : NULL,
                 .user = asks ? options->user : NULL,
                 .next = asks ? clock_now() + RUN_ASK_INTERVAL : 0};
  run->ask = asks ? &ask : NULL;
  run->all_found = true;
  compute_status status = open_run(run) ? COMPUTE_OK : run_no_memory(run);
  if (!status)
    status = run->arguments ? run_bind_items(run, items, count) : bind_inputs(run, tensors, count);
  if (!status) status = bind_outputs(run);
  if (!status) status = run_stages(run);
  pthread_mutex_lock(&model->lock);
  model->runs++;
  model->hits += !status && run->all_found;
  pthread_mutex_unlock(&model->lock);
  close_run(run, status);
  return status;
}

compute_status compute_model_run_with(compute_model *model, const compute_model_binding *inputs,
                                      size_t input_count, compute_model_binding *outputs,
                                      size_t output_count,
                                      const compute_model_run_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  const compute_status status =
      check_call(model, inputs, input_count, outputs, output_count, options);
  if (status) return status;
  model_run run = {.model = model, .outputs = outputs, .output_count = output_count};
  return run_model(&run, inputs, NULL, input_count, options);
}

compute_status compute_model_run_items(compute_model *model, const compute_model_argument *inputs,
                                       size_t input_count, compute_model_argument *outputs,
                                       size_t output_count,
                                       const compute_model_run_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  compute_status status = check_call(model, inputs, input_count, outputs, output_count, options);
  for (size_t i = 0; outputs && i < output_count; i++) outputs[i].item = NULL;
  if (status) return status;
  compute_model_argument none;
  model_run run = {.model = model,
                   .arguments = output_count ? outputs : &none,
                   .output_count = output_count,
                   .outputs = base_allocate(output_count, sizeof *run.outputs)};
  if (!run.outputs) return run_no_memory(&run);
  for (size_t i = 0; i < output_count; i++) run.outputs[i].name = outputs[i].name;
  status = run_model(&run, NULL, inputs, input_count, options);
  base_release(run.outputs);
  return status;
}

compute_status compute_model_run(compute_model *model, const compute_model_binding *inputs,
                                 size_t input_count, compute_model_binding *outputs,
                                 size_t output_count) {
  return compute_model_run_with(model, inputs, input_count, outputs, output_count, NULL);
}

compute_status compute_model_explain(compute_model *model, char **text) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(model, context);
  const compute_status status =
      error_if_null(model ? model->context : NULL, "compute_model_explain", model, text);
  return status ? status : stage_explain(model, "compute_model_explain", text);
}
