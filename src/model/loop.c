/* SPDX-License-Identifier: MIT */
/* Compiles a loop: records its body into a separate graph and compiles that. */
#include "model/loop.h"

#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/type/shape.h"

/* Limits of a plan with several iterations. */
enum { PLAN_NODES = 1024, MOST_TRIPS_OF_PLAN = 256 };

/* ---- One iteration --------------------------------------------------------------------------- */

/* A recording into a separate graph. `top` is a copy of the frames around the node. */
typedef struct loop_recording {
  model_call *call;
  const model_loop *loop;
  model_recorder recorder;
  model_frame *outside;
  int64_t *state_id, *scan_id; /* of the plan's inputs */
  int64_t iteration_id;
  model_value *iteration, *states, *scanned; /* inputs of the plan */
  model_value *now;                          /* the states after the recorded iterations */
  compute_node *parts;                       /* out_count outputs with `trips` parts each */
  model_value condition;
  bool fits; /* so far: one plan, states keep their dtype and shape */
} loop_recording;

static void *take(const loop_recording *r, size_t count, size_t size) {
  return arena_allocate(r->recorder.arena, count, size);
}

static model_value new_input(loop_recording *r, compute_dtype dtype, compute_shape shape,
                             int32_t type) {
  return (model_value){.kind = VALUE_TENSOR,
                       .type = type,
                       .dtype = dtype,
                       .shape = shape,
                       .id = r->recorder.next_id++};
}

/* Wraps a node of the recording in a value. */
static model_value of_node(loop_recording *r, compute_node node, int32_t type) {
  const compute_graph *graph = r->recorder.graph;
  model_value value =
      new_input(r, compute_node_dtype(graph, node), compute_node_shape(graph, node), type);
  value.node = node;
  return value;
}

static const model_value *node_input(const loop_recording *r, size_t i) {
  return r->call->inputs[r->loop->first_input + i];
}

static compute_shape without_axis(compute_shape shape, int32_t axis) {
  compute_shape result = {.rank = shape.rank - 1};
  for (int32_t k = 0; k < result.rank; k++) shape_set(&result, k, shape_at(shape, k + (k >= axis)));
  return result;
}

static compute_shape with_first(compute_shape shape, int64_t size) {
  compute_shape result = {.rank = shape.rank + 1, .size = {size}};
  memcpy(result.size + 1, shape.size, (size_t)shape.rank * sizeof *shape.size);
  return result;
}

static bool uses_input(const loop_recording *r, size_t input) {
  const onnx_graph *body = r->loop->body;
  return record_last_use(r->recorder.model, body, body->inputs[input].value) >= 0;
}

/* Makes the plan's inputs. Returns false if out of memory. */
static bool make_inputs(loop_recording *r, int64_t trips) {
  const model_loop *loop = r->loop;
  r->states = take(r, loop->state_count, sizeof *r->states);
  r->now = take(r, loop->state_count, sizeof *r->now);
  r->scanned = take(r, loop->in_count, sizeof *r->scanned);
  r->iteration = take(r, 1, sizeof *r->iteration);
  r->parts = take(r, loop->out_count * (size_t)trips, sizeof *r->parts);
  if (!r->states || !r->now || !r->scanned || !r->iteration || !r->parts) return false;
  *r->iteration = new_input(r, COMPUTE_I64, COMPUTE_SCALAR, onnx_type_of(COMPUTE_I64));
  for (size_t i = 0; i < loop->state_count; i++) {
    const model_value *from = node_input(r, i);
    r->states[i] = new_input(r, from->dtype, from->shape, from->type);
    if (uses_input(r, (loop->counts ? 2 : 0) + i)) record_node(&r->recorder, &r->states[i]);
    r->now[i] = r->states[i]; /* shares the node */
  }
  for (size_t i = 0; i < loop->in_count; i++) {
    const model_value *from = node_input(r, loop->state_count + i);
    const compute_shape one = without_axis(from->shape, loop->in_axis[i]);
    r->scanned[i] = new_input(r, from->dtype, with_first(one, trips), from->type);
  }
  return true;
}

/* The slice of scanned input i for iteration `trip` of this plan. */
static compute_status make_slice(loop_recording *r, size_t i, int64_t trip, int64_t trips,
                                 model_value *value) {
  model_value *from = &r->scanned[i];
  compute_graph *graph = r->recorder.graph;
  const int64_t at = r->loop->in_reverse[i] ? trips - 1 - trip : trip;
  const compute_node all = record_node(&r->recorder, from);
  const compute_node one = compute_slice(graph, all, 0, at, 1, 1);
  *value = of_node(r, compute_reshape(graph, one, without_axis(from->shape, 0)), from->type);
  return compute_graph_status(graph);
}

static compute_status make_iteration(loop_recording *r, int64_t trip, model_value *value) {
  compute_graph *graph = r->recorder.graph;
  const compute_node first = record_node(&r->recorder, r->iteration);
  *value = *r->iteration; /* shares the node */
  if (trip == 0) return compute_graph_status(graph);
  const compute_node number =
      compute_add(graph, first, compute_scalar(graph, COMPUTE_I64, (double)trip));
  *value = of_node(r, number, r->iteration->type);
  return compute_graph_status(graph);
}

static void give(model_frame *frame, size_t input, const model_value *value) {
  model_value *to = &frame->values[frame->graph->inputs[input].value];
  const char *name = to->name;
  *to = *value;
  to->name = name;
}

/* Sets the iteration's number and a true condition: a recorded iteration runs. */
static compute_status give_count(loop_recording *r, model_frame *frame, int64_t trip) {
  static const int64_t yes = 1, none = 0;
  model_value number = {.kind = VALUE_TENSOR,
                        .dtype = COMPUTE_I64,
                        .type = onnx_type_of(COMPUTE_I64),
                        .id = -1,
                        .host = &none};
  const model_value goes_on = {.kind = VALUE_TENSOR,
                               .dtype = COMPUTE_BOOL,
                               .type = onnx_type_of(COMPUTE_BOOL),
                               .id = -1,
                               .host = &yes};
  const compute_status status = uses_input(r, 0) ? make_iteration(r, trip, &number) : COMPUTE_OK;
  give(frame, 0, &number);
  give(frame, 1, &goes_on);
  return status;
}

static compute_status give_inputs(loop_recording *r, model_frame *frame, int64_t trip,
                                  int64_t trips) {
  const size_t first = r->loop->counts ? 2 : 0;
  compute_status status = r->loop->counts ? give_count(r, frame, trip) : COMPUTE_OK;
  for (size_t i = 0; i < r->loop->state_count; i++) give(frame, first + i, &r->now[i]);
  for (size_t i = 0; !status && i < r->loop->in_count; i++) {
    const size_t input = first + r->loop->state_count + i;
    if (!uses_input(r, input)) continue;
    model_value slice;
    status = make_slice(r, i, trip, trips, &slice);
    give(frame, input, &slice);
  }
  return status;
}

/* A loop whose condition is known to fail has one iteration and is not worth compiling. */
static void keep_condition(loop_recording *r, const model_frame *frame) {
  int64_t goes_on = 1;
  r->condition = frame->values[frame->graph->outputs[0].value];
  r->fits &= r->condition.kind == VALUE_TENSOR && r->condition.shape.rank <= 1;
  if (r->fits && r->condition.host)
    r->fits = record_integer(r->condition.dtype, r->condition.host, 0, &goes_on) && goes_on;
}

/* Keeps the states after this iteration. Their dtypes and shapes must not change. */
static void keep_states(loop_recording *r, const model_frame *frame) {
  const size_t first = r->loop->counts ? 1 : 0;
  for (size_t i = 0; i < r->loop->state_count; i++) {
    const model_value *after = &frame->values[frame->graph->outputs[first + i].value];
    r->fits &= after->kind == VALUE_TENSOR && after->type != ONNX_STRING &&
               after->dtype == r->now[i].dtype &&
               compute_shape_equal(after->shape, r->now[i].shape);
    r->now[i] = *after;
  }
}

static compute_status keep_outputs(loop_recording *r, const model_frame *frame, int64_t trip,
                                   int64_t trips) {
  const model_loop *loop = r->loop;
  const size_t first = (loop->counts ? 1 : 0) + loop->state_count;
  for (size_t i = 0; r->fits && i < loop->out_count; i++) {
    model_value *value = &frame->values[frame->graph->outputs[first + i].value];
    r->fits &= value->kind == VALUE_TENSOR && value->type != ONNX_STRING &&
               value->shape.rank < COMPUTE_MAX_RANK;
    if (!r->fits) break;
    const compute_shape one = with_first(value->shape, 1);
    if (trip == 0) {
      loop->out_dtype[i] = value->dtype;
      loop->out_shape[i] = value->shape;
    }
    r->fits &=
        value->dtype == loop->out_dtype[i] && compute_shape_equal(value->shape, loop->out_shape[i]);
    const int64_t at = loop->out_reverse[i] ? trips - 1 - trip : trip;
    r->parts[(int64_t)i * trips + at] =
        compute_reshape(r->recorder.graph, record_node(&r->recorder, value), one);
  }
  return compute_graph_status(r->recorder.graph);
}

/* Records the body once. r->fits becomes false if a rule ends the recording early. */
static compute_status record_trip(loop_recording *r, int64_t trip, int64_t trips) {
  r->recorder.top = r->outside;
  model_frame *frame;
  compute_status status = record_push(&r->recorder, r->loop->body, &frame);
  if (!status) status = give_inputs(r, frame, trip, trips);
  bool complete = false;
  if (!status) status = record_body(&r->recorder, frame, &complete);
  /* A repeated plan would draw the same random numbers again. */
  r->fits &= complete && !r->recorder.draws;
  if (status || !r->fits) return status;
  if (r->loop->counts) keep_condition(r, frame);
  keep_states(r, frame);
  return r->fits ? keep_outputs(r, frame, trip, trips) : COMPUTE_OK;
}

/* ---- A plan ---------------------------------------------------------------------------------- */

static compute_status open_recording(model_call *call, const model_loop *loop, int64_t trips,
                                     loop_recording *r) {
  const model_recorder *around = call->recorder;
  *r = (loop_recording){.call = call, .loop = loop, .fits = true};
  r->recorder = (model_recorder){.model = around->model,
                                 .operation = around->operation,
                                 .arena = around->arena,
                                 .next_id = around->next_id,
                                 .training = around->training,
                                 .nodes = around->nodes};
  r->recorder.graph = compute_graph_create(around->model->context);
  if (!r->recorder.graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  r->outside = record_copy_frames(around->arena, call->frame);
  return r->outside && make_inputs(r, trips) ? COMPUTE_OK : call_out_of_memory(call);
}

static void close_recording(loop_recording *r) {
  compute_graph_release(r->recorder.graph);
  base_release(r->recorder.inputs.slots);
  base_release(r->recorder.weights.slots);
  base_release(r->recorder.asked);
}

/* Lists the plan's outputs: the condition, the changed states and the scanned outputs. */
static compute_status list_outputs(loop_recording *r, loop_plan *plan, compute_node *nodes,
                                   size_t *count) {
  const model_loop *loop = r->loop;
  compute_graph *graph = r->recorder.graph;
  if (loop->tests) nodes[(*count)++] = plan->condition = record_node(&r->recorder, &r->condition);
  for (size_t i = 0; i < loop->state_count; i++) {
    if (r->now[i].id == r->states[i].id) continue;
    nodes[(*count)++] = plan->state_out[i] = record_node(&r->recorder, &r->now[i]);
  }
  for (size_t i = 0; i < loop->out_count; i++) {
    const compute_node *parts = &r->parts[(int64_t)i * plan->trips];
    nodes[(*count)++] = plan->scan_out[i] =
        plan->trips == 1 ? parts[0] : compute_concat(graph, parts, (size_t)plan->trips, 0);
  }
  return compute_graph_status(graph);
}

/* Assigns each input of the plan to its role. */
static bool sort_inputs(loop_recording *r, loop_plan *plan) {
  const slot_list *inputs = &r->recorder.inputs;
  plan->captured.slots = take(r, inputs->count, sizeof *plan->captured.slots);
  if (!plan->captured.slots) return false;
  for (size_t k = 0; k < inputs->count; k++) {
    const stage_slot *slot = &inputs->slots[k];
    compute_node *place = slot->id == r->iteration->id ? &plan->iteration : NULL;
    for (size_t i = 0; !place && i < r->loop->state_count; i++)
      if (slot->id == r->states[i].id) place = &plan->state_in[i];
    for (size_t i = 0; !place && i < r->loop->in_count; i++)
      if (slot->id == r->scanned[i].id) place = &plan->scan_in[i];
    if (place)
      *place = slot->node;
    else
      plan->captured.slots[plan->captured.count++] = *slot;
  }
  return true;
}

static compute_status compile_trips(loop_recording *r, loop_plan *plan) {
  const model_loop *loop = r->loop;
  const compute_model_options *options = &r->recorder.model->options;
  compute_node *nodes = take(r, 1 + loop->state_count + loop->out_count, sizeof *nodes);
  plan->state_in = take(r, loop->state_count, sizeof *plan->state_in);
  plan->state_out = take(r, loop->state_count, sizeof *plan->state_out);
  plan->scan_in = take(r, loop->in_count, sizeof *plan->scan_in);
  plan->scan_out = take(r, loop->out_count, sizeof *plan->scan_out);
  if (!nodes || !plan->state_in || !plan->state_out || !plan->scan_in || !plan->scan_out)
    return call_out_of_memory(r->call);
  size_t count = 0;
  compute_status status = list_outputs(r, plan, nodes, &count);
  if (!status && count == 0) r->fits = false; /* no output changes, so the loop does nothing */
  if (!status && r->fits && !sort_inputs(r, plan)) status = call_out_of_memory(r->call);
  if (status || !r->fits) return status;
  status = compute_compile(r->recorder.graph, nodes, count,
                           &(compute_plan_options){.device = options->device,
                                                   .fallback = options->fallback,
                                                   .flags = options->flags,
                                                   .name = loop->body->name},
                           &plan->plan);
  return status ? status : weights_align(&r->recorder, plan->plan);
}

/* Compiles one plan. *fits becomes false if the loop cannot be compiled. */
static compute_status make_plan(model_call *call, const model_loop *loop, int64_t trips,
                                loop_plan *plan, bool *fits) {
  loop_recording r;
  plan->trips = trips;
  compute_status status = open_recording(call, loop, trips, &r);
  for (int64_t trip = 0; !status && r.fits && trip < trips; trip++)
    status = record_trip(&r, trip, trips);
  if (!status && r.fits && loop->counts) r.fits = (r.condition.host != NULL) == !loop->tests;
  if (!status && r.fits) status = compile_trips(&r, plan);
  *fits &= r.fits;
  close_recording(&r);
  return status;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Drops an error of the compiled form. Recording each iteration repeats it with a better
 * message. Out-of-memory errors are returned. */
static compute_status give_up(const model_call *call, compute_status status,
                              const compute_error *before) {
  if (status == COMPUTE_ERROR_OUT_OF_MEMORY || status == COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY)
    return status;
  error_restore(call->recorder->model->context, before);
  return COMPUTE_OK;
}

static bool is_plain(const model_call *call, const model_loop *loop) {
  for (size_t i = 0; i < loop->state_count + loop->in_count; i++)
    if (call->inputs[loop->first_input + i]->kind != VALUE_TENSOR ||
        call_is_text(call, loop->first_input + i))
      return false;
  return true;
}

/* Finds out if the condition after an iteration is known at recording time. */
static compute_status probe_condition(model_call *call, const model_loop *loop, bool numbered,
                                      bool *known) {
  static const int64_t first = 0;
  loop_recording r;
  compute_status status = open_recording(call, loop, 1, &r);
  if (!status && numbered) {
    r.iteration->host = &first;
    r.iteration->id = -1;
  }
  if (!status) status = record_trip(&r, 0, 1);
  *known = !status && r.fits && r.condition.host;
  close_recording(&r);
  return status;
}

static compute_status condition_of(model_call *call, const model_loop *loop,
                                   loop_condition *result) {
  if (!is_plain(call, loop)) return COMPUTE_OK;
  compute_error before;
  model_loop probe = *loop;
  bool known = false, always = false;
  compute_error_get(NULL, &before);
  probe.out_count = 0;
  compute_status status = probe_condition(call, &probe, true, &known);
  if (!status && known) status = probe_condition(call, &probe, false, &always);
  if (!status) *result = always ? LOOP_NEVER_ENDS : known ? LOOP_COUNTS : LOOP_TESTS;
  return give_up(call, status, &before);
}

/* Converts negative axes of outputs. Returns false if an axis is out of range. */
static bool place_axes(model_loop *loop, int32_t *axes) {
  for (size_t i = 0; i < loop->out_count; i++) {
    const int32_t rank = loop->out_shape[i].rank + 1;
    axes[i] = loop->out_axis[i] < 0 ? loop->out_axis[i] + rank : loop->out_axis[i];
    if (axes[i] < 0 || axes[i] >= rank) return false;
  }
  loop->out_axis = axes;
  return true;
}

static bool allocate_loop(model_call *call, model_loop *loop) {
  loop->out_dtype = call_allocate(call, loop->out_count, sizeof *loop->out_dtype);
  loop->out_shape = call_allocate(call, loop->out_count, sizeof *loop->out_shape);
  return loop->out_dtype && loop->out_shape;
}

static compute_status take_loop(model_call *call, const model_loop *from, bool *taken) {
  if (!is_plain(call, from)) return COMPUTE_OK;
  compute_error before;
  compute_error_get(NULL, &before);
  model_loop *loop = call_allocate(call, 1, sizeof *loop);
  model_call *kept = call_allocate(call, 1, sizeof *kept);
  if (!loop || !kept) return call_out_of_memory(call);
  *loop = *from;
  int32_t *axes = call_allocate(call, loop->out_count, sizeof *axes);
  if (!axes || !allocate_loop(call, loop)) return call_out_of_memory(call);
  int64_t trips = 1;
  if (!loop->tests) {
    trips = PLAN_NODES / (int64_t)(loop->body->node_count + 1);
    if (trips > MOST_TRIPS_OF_PLAN) trips = MOST_TRIPS_OF_PLAN;
    if (trips > loop->trips) trips = loop->trips;
    if (trips < 1) trips = 1;
  }
  const int64_t rest = loop->tests ? 0 : loop->trips % trips;
  bool fits = true;
  compute_status status = make_plan(call, loop, trips, &loop->main, &fits);
  if (!status && fits && rest) status = make_plan(call, loop, rest, &loop->rest, &fits);
  if (status || !fits || !place_axes(loop, axes)) {
    loop_release(loop);
    return give_up(call, status, &before);
  }
  *kept = *call;
  call->recorder->loop = loop;
  call->recorder->host_call = kept;
  *taken = true;
  return COMPUTE_OK;
}

const loop_makers loop_makers_of_stages = {condition_of, take_loop};

static uint64_t plan_bytes(const loop_plan *plan) {
  compute_plan_info info = {0};
  if (!plan->plan || compute_plan_describe(plan->plan, &info)) return 0;
  return info.host_bytes + info.constant_bytes;
}

uint64_t loop_bytes(const model_loop *loop) {
  return loop ? plan_bytes(&loop->main) + plan_bytes(&loop->rest) : 0;
}

void loop_release(model_loop *loop) {
  if (!loop) return;
  compute_plan_release(loop->main.plan);
  compute_plan_release(loop->rest.plan);
  loop->main.plan = loop->rest.plan = NULL;
}
