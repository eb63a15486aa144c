/* SPDX-License-Identifier: MIT */
/* Runs a compiled loop: repeats its plan until the number of iterations is reached or the
 * condition fails. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "model/loop.h"

/* Initial capacity of scanned outputs, in iterations, if the number of iterations is unknown. */
enum { FIRST_ROOM = 16 };

typedef struct loop_runner {
  const compute_model *model;
  run_ask *ask;
  const char *operation;
  const model_loop *loop;
  compute_tensor *const *table;
  compute_device *device;
  compute_tensor **state;                /* current states, one reference each */
  compute_tensor **turns[2];             /* two alternating sets of output tensors */
  compute_tensor **in, **out;            /* scanned tensors, iterations along axis 0 */
  compute_tensor *iteration, *condition; /* an i64 scalar; the body's result */
  compute_tensor **views;                /* of `in` and `out`, during a run of the plan */
  compute_binding *bindings;
  int64_t room, done; /* capacity of `out` in iterations; iterations done */
  uint32_t turn;
} loop_runner;

static compute_status no_memory(const loop_runner *r) {
  return error_set(r->model->context, COMPUTE_ERROR_OUT_OF_MEMORY, r->operation, "out of memory");
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Returns a dense tensor on the model's device: the same tensor retained, or a copy. */
static compute_status bring(const loop_runner *r, compute_tensor *tensor, compute_tensor **result) {
  if (compute_tensor_device(tensor) == r->device && compute_tensor_is_dense(tensor)) {
    *result = compute_tensor_retain(tensor);
    return COMPUTE_OK;
  }
  const compute_status status = compute_tensor_create(r->device, compute_tensor_dtype(tensor),
                                                      compute_tensor_shape(tensor), result);
  return status ? status : compute_tensor_copy(*result, tensor);
}

/* Moves axis `from` to position `to`; the others keep their order. */
static compute_status move_axis(compute_tensor *tensor, int32_t from, int32_t to,
                                compute_tensor **view) {
  compute_axes order = {.count = compute_tensor_shape(tensor).rank};
  int32_t next = 0;
  for (int32_t i = 0; i < order.count; i++) {
    if (next == from) next++;
    order.axis[i] = i == to ? from : next++;
  }
  return compute_tensor_transpose_view(tensor, order, view);
}

static compute_status bring_moved(const loop_runner *r, compute_tensor *tensor, int32_t from,
                                  int32_t to, compute_tensor **result) {
  if (from == to) return bring(r, tensor, result);
  compute_tensor *view = NULL;
  compute_status status = move_axis(tensor, from, to, &view);
  if (!status) status = bring(r, view, result);
  compute_tensor_release(view);
  return status;
}

static compute_shape with_first(compute_shape shape, int64_t size) {
  compute_shape result = {.rank = shape.rank + 1, .size = {size}};
  memcpy(result.size + 1, shape.size, (size_t)shape.rank * sizeof *shape.size);
  return result;
}

/* Copies the first `count` iterations of `from` over those in `to`. */
static compute_status copy_first(compute_tensor *to, compute_tensor *from, int64_t count) {
  compute_tensor *source = NULL, *target = NULL;
  if (count == 0) return COMPUTE_OK;
  compute_status status = compute_tensor_slice_view(from, 0, 0, count, 1, &source);
  if (!status) status = compute_tensor_slice_view(to, 0, 0, count, 1, &target);
  if (!status) status = compute_tensor_copy(target, source);
  compute_tensor_release(source);
  compute_tensor_release(target);
  return status;
}

/* Sets the capacity of all scanned outputs to `room` iterations. */
static compute_status make_room(loop_runner *r, int64_t room) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < r->loop->out_count; i++) {
    compute_tensor *larger = NULL;
    status = compute_tensor_create(r->device, r->loop->out_dtype[i],
                                   with_first(r->loop->out_shape[i], room), &larger);
    if (!status && r->out[i]) status = copy_first(larger, r->out[i], r->done);
    if (status) {
      compute_tensor_release(larger);
      break;
    }
    compute_tensor_release(r->out[i]);
    r->out[i] = larger;
  }
  r->room = room;
  return status;
}

/* ---- A run of a plan ----------------------------------------------------------------------- */

compute_status model_run_plan(const compute_plan *plan, const compute_binding *bindings,
                              size_t count, run_ask *ask) {
  const run_request request = {.ask = ask, .cancelled = ask ? &ask->ended : NULL};
  return run_with_fallback(plan, bindings, count, &request, NULL);
}

static compute_status bind_iteration(loop_runner *r, const loop_plan *plan, size_t *count) {
  if (!compute_node_is_valid(plan->iteration)) return COMPUTE_OK;
  compute_status status = COMPUTE_OK;
  if (!r->iteration)
    status = compute_tensor_create(r->device, COMPUTE_I64, COMPUTE_SCALAR, &r->iteration);
  if (status) return status;
  r->bindings[(*count)++] = (compute_binding){plan->iteration, r->iteration};
  int64_t *number = compute_tensor_data(r->iteration);
  if (!number) return compute_tensor_write(r->iteration, &r->done, sizeof r->done);
  *number = r->done;
  return COMPUTE_OK;
}

static void bind_states(loop_runner *r, const loop_plan *plan, size_t *count) {
  for (size_t i = 0; i < r->loop->state_count; i++)
    if (compute_node_is_valid(plan->state_in[i]))
      r->bindings[(*count)++] = (compute_binding){plan->state_in[i], r->state[i]};
}

static compute_status bind_new_states(loop_runner *r, const loop_plan *plan, size_t *count) {
  compute_tensor **to = r->turns[r->turn];
  for (size_t i = 0; i < r->loop->state_count; i++) {
    if (!compute_node_is_valid(plan->state_out[i])) continue;
    compute_status status = COMPUTE_OK;
    if (!to[i]) status = compute_plan_create_tensor(plan->plan, plan->state_out[i], &to[i]);
    if (status) return status;
    r->bindings[(*count)++] = (compute_binding){plan->state_out[i], to[i]};
  }
  return COMPUTE_OK;
}

/* The written states become the current ones. */
static void turn_states(loop_runner *r, const loop_plan *plan) {
  for (size_t i = 0; i < r->loop->state_count; i++) {
    if (!compute_node_is_valid(plan->state_out[i])) continue;
    compute_tensor_release(r->state[i]);
    r->state[i] = compute_tensor_retain(r->turns[r->turn][i]);
  }
  r->turn ^= 1;
}

/* Binds a view of the plan's iterations in one scanned tensor. */
static compute_status bind_view(loop_runner *r, const loop_plan *plan, compute_node node,
                                compute_tensor *tensor, bool reverse, compute_tensor **view,
                                size_t *count) {
  if (!compute_node_is_valid(node)) return COMPUTE_OK;
  const int64_t at = reverse ? r->loop->trips - r->done - plan->trips : r->done;
  const compute_status status = compute_tensor_slice_view(tensor, 0, at, plan->trips, 1, view);
  if (!status) r->bindings[(*count)++] = (compute_binding){node, *view};
  return status;
}

static compute_status bind_scanned(loop_runner *r, const loop_plan *plan, size_t *count) {
  const model_loop *loop = r->loop;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < loop->in_count; i++)
    status =
        bind_view(r, plan, plan->scan_in[i], r->in[i], loop->in_reverse[i], &r->views[i], count);
  return status;
}

static compute_status bind_new_scanned(loop_runner *r, const loop_plan *plan, size_t *count) {
  const model_loop *loop = r->loop;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < loop->out_count; i++)
    status = bind_view(r, plan, plan->scan_out[i], r->out[i], loop->out_reverse[i],
                       &r->views[loop->in_count + i], count);
  return status;
}

static compute_status bind_condition(loop_runner *r, const loop_plan *plan, size_t *count) {
  if (!r->loop->tests) return COMPUTE_OK;
  compute_status status = COMPUTE_OK;
  if (!r->condition)
    status = compute_plan_create_tensor(plan->plan, plan->condition, &r->condition);
  r->bindings[(*count)++] = (compute_binding){plan->condition, r->condition};
  return status;
}

/* Binds all inputs before any output: a node may be both. */
static compute_status run_plan(loop_runner *r, const loop_plan *plan) {
  size_t count = 0;
  for (size_t i = 0; i < plan->captured.count; i++)
    r->bindings[count++] =
        (compute_binding){plan->captured.slots[i].node, r->table[plan->captured.slots[i].id]};
  compute_status status = bind_iteration(r, plan, &count);
  bind_states(r, plan, &count);
  if (!status) status = bind_scanned(r, plan, &count);
  if (!status) status = bind_new_states(r, plan, &count);
  if (!status) status = bind_new_scanned(r, plan, &count);
  if (!status) status = bind_condition(r, plan, &count);
  if (!status) status = model_run_plan(plan->plan, r->bindings, count, r->ask);
  for (size_t i = 0; i < r->loop->in_count + r->loop->out_count; i++) {
    compute_tensor_release(r->views[i]);
    r->views[i] = NULL;
  }
  if (status) return status;
  turn_states(r, plan);
  r->done += plan->trips;
  return COMPUTE_OK;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static compute_status goes_on(const loop_runner *r, bool *result) {
  const uint8_t *known = compute_tensor_data(r->condition);
  uint8_t value = known ? *known : 0;
  const compute_status status =
      known ? COMPUTE_OK : compute_tensor_read(r->condition, &value, sizeof value);
  *result = value != 0;
  return status;
}

static compute_status run_while(loop_runner *r) {
  bool more = r->loop->trips != 0;
  compute_status status = COMPUTE_OK;
  while (!status && more) {
    if (r->done == LOOP_MOST_TRIPS)
      return error_set(r->model->context, COMPUTE_ERROR_UNSUPPORTED, r->operation,
                       "a loop has more than %d iterations", LOOP_MOST_TRIPS);
    if (r->done == r->room) status = make_room(r, 2 * r->room);
    if (!status) status = run_plan(r, &r->loop->main);
    if (!status) status = goes_on(r, &more);
    more &= r->done != r->loop->trips;
  }
  return status;
}

static compute_status run_counted(loop_runner *r) {
  const loop_plan *main = &r->loop->main, *rest = &r->loop->rest;
  compute_status status = COMPUTE_OK;
  while (!status && r->done + main->trips <= r->loop->trips) status = run_plan(r, main);
  if (!status && r->done < r->loop->trips) status = run_plan(r, rest);
  return status;
}

/* ---- Before and after ------------------------------------------------------------------------ */

static bool open_runner(loop_runner *r) {
  const model_loop *loop = r->loop;
  const size_t states = loop->state_count, scanned = loop->in_count + loop->out_count;
  const size_t captured = loop->main.captured.count > loop->rest.captured.count
                              ? loop->main.captured.count
                              : loop->rest.captured.count;
  r->state = base_allocate(states, sizeof *r->state);
  r->turns[0] = base_allocate(states, sizeof *r->turns[0]);
  r->turns[1] = base_allocate(states, sizeof *r->turns[1]);
  r->in = base_allocate(loop->in_count, sizeof *r->in);
  r->out = base_allocate(loop->out_count, sizeof *r->out);
  r->views = base_allocate(scanned, sizeof *r->views);
  r->bindings = base_allocate(captured + 2 * states + scanned + 2, sizeof *r->bindings);
  return r->state && r->turns[0] && r->turns[1] && r->in && r->out && r->views && r->bindings;
}

static void release_list(compute_tensor **tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++) compute_tensor_release(tensors[i]);
  base_release(tensors);
}

static void close_runner(loop_runner *r) {
  release_list(r->state, r->loop->state_count);
  release_list(r->turns[0], r->loop->state_count);
  release_list(r->turns[1], r->loop->state_count);
  release_list(r->in, r->loop->in_count);
  release_list(r->out, r->loop->out_count);
  compute_tensor_release(r->iteration);
  compute_tensor_release(r->condition);
  base_release(r->views);
  base_release(r->bindings);
}

static compute_status begin(loop_runner *r, compute_tensor *const *inputs) {
  const model_loop *loop = r->loop;
  compute_status status = COMPUTE_OK;
  inputs += loop->first_input;
  for (size_t i = 0; !status && i < loop->state_count; i++)
    status = bring(r, inputs[i], &r->state[i]);
  for (size_t i = 0; !status && i < loop->in_count; i++)
    status = bring_moved(r, inputs[loop->state_count + i], loop->in_axis[i], 0, &r->in[i]);
  return status ? status : make_room(r, loop->tests ? FIRST_ROOM : loop->trips);
}

static compute_status end(loop_runner *r, size_t output_count, compute_tensor **outputs) {
  const model_loop *loop = r->loop;
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < loop->state_count && i < output_count; i++)
    outputs[i] = compute_tensor_retain(r->state[i]);
  for (size_t i = 0; !status && i < loop->out_count; i++) {
    const size_t at = loop->state_count + i;
    if (at >= output_count) break;
    compute_tensor *used = NULL;
    status = compute_tensor_slice_view(r->out[i], 0, 0, r->done, 1, &used);
    if (!status) status = bring_moved(r, used, 0, loop->out_axis[i], &outputs[at]);
    compute_tensor_release(used);
  }
  return status;
}

compute_status loop_run(const compute_model *model, const char *operation, const model_loop *loop,
                        compute_tensor *const *inputs, compute_tensor *const *table, run_ask *ask,
                        size_t output_count, compute_tensor **outputs) {
  loop_runner r = {.model = model,
                   .ask = ask,
                   .operation = operation,
                   .loop = loop,
                   .table = table,
                   .device = model_device(model)};
  compute_status status = open_runner(&r) ? begin(&r, inputs) : no_memory(&r);
  if (!status) status = loop->tests ? run_while(&r) : run_counted(&r);
  if (!status) status = end(&r, output_count, outputs);
  close_runner(&r);
  return status;
}
