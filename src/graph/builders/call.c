/* SPDX-License-Identifier: MIT */
/* The caller's functions: the builder, and the call in a run.
 *
 * A kernel of kind CALL has only a function and a pointer (compute_call_attributes). The pointer is
 * the block of the graph's node, and graph_call_run interprets it. So backends do not depend on the
 * arguments of such a function. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/text.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

static const char operation[] = "call";

enum { MOST_PARTS = 65536, MESSAGE_BYTES = 384 };

_Static_assert(COMPUTE_CALL_MAX_INPUTS + COMPUTE_CALL_MAX_OUTPUTS <= COMPUTE_MAX_OPERANDS,
               "a call is one kernel");

/* ---- Building -------------------------------------------------------------------------------- */

typedef struct builder {
  compute_graph *graph;
  compute_call_function function;
  void *user;
  const compute_call_options *options;
  const compute_call_output *outputs;
  size_t input_count, output_count;
  uint32_t inputs[COMPUTE_CALL_MAX_INPUTS + 1]; /* for further results: followed by the call */
} builder;

static void finish(void *constant) {
  const graph_host_call *call = constant;
  if (call->release) call->release(call->key.user);
}

static bool check_counts(const builder *b, const compute_node *inputs) {
  if (!b->function)
    return graph_refuse(b->graph, COMPUTE_ERROR_NULL_POINTER, operation, "function is NULL");
  if ((!inputs && b->input_count > 0) || !b->outputs)
    return graph_refuse(b->graph, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                        b->outputs ? "inputs" : "outputs");
  if (b->input_count > COMPUTE_CALL_MAX_INPUTS)
    return graph_refuse(b->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "%zu inputs; at most %d are allowed", b->input_count,
                        COMPUTE_CALL_MAX_INPUTS);
  if (b->output_count < 1 || b->output_count > COMPUTE_CALL_MAX_OUTPUTS)
    return graph_refuse(b->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "%zu outputs; 1 to %d are allowed", b->output_count,
                        COMPUTE_CALL_MAX_OUTPUTS);
  return true;
}

static bool check_options(const builder *b) {
  const compute_call_options *o = b->options;
  if (o->flags & ~(uint32_t)COMPUTE_CALL_PURE)
    return graph_refuse(b->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "unknown flags 0x%x",
                        (unsigned)(o->flags & ~(uint32_t)COMPUTE_CALL_PURE));
  if (o->parts != COMPUTE_CALL_PARTS_AUTOMATIC && (o->parts < 0 || o->parts > MOST_PARTS))
    return graph_refuse(b->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "%d parts; 1 to %d are allowed, or COMPUTE_CALL_PARTS_AUTOMATIC",
                        (int)o->parts, MOST_PARTS);
  return graph_check_reserved(b->graph, operation, "options", o->reserved);
}

static bool check_outputs(const builder *b) {
  for (size_t i = 0; i < b->output_count; i++)
    if (!build_dtype(b->graph, operation, b->outputs[i].dtype) ||
        !build_size(b->graph, operation, b->outputs[i].shape))
      return false;
  return true;
}

static compute_call_tensor describe(compute_dtype dtype, compute_shape shape) {
  return (compute_call_tensor){.dtype = dtype, .shape = shape, .count = shape_count(shape)};
}

/* The key is compared as bytes, so its padding must stay zero. */
static void fill_key(graph_call_key *key, const builder *b) {
  const compute_call_options *o = b->options;
  key->function = b->function;
  key->user = b->user;
  key->gradient = o->gradient;
  key->output_count = (uint32_t)b->output_count;
  key->flags = o->flags;
  key->parts = o->parts == 0 ? 1 : o->parts;
  if (o->name) snprintf(key->name, sizeof key->name, "%s", o->name);
  for (size_t i = 0; i < b->output_count; i++) {
    const compute_shape shape = shape_normalize(b->outputs[i].shape);
    key->dtypes[i] = b->outputs[i].dtype;
    key->shapes[i].rank = shape.rank;
    memcpy(key->shapes[i].size, shape.size, sizeof shape.size);
  }
}

/* The node's block; NULL when out of memory. It owns `user`. */
static graph_host_call *make_block(const builder *b) {
  graph_host_call *call = graph_constant_create(1, sizeof *call);
  if (!call) return NULL;
  fill_key(&call->key, b);
  call->context = b->graph->context;
  call->input_count = (uint32_t)b->input_count;
  for (size_t i = 0; i < b->input_count; i++) {
    const graph_node *x = build_at(b->graph, b->inputs[i]);
    call->inputs[i] = describe(x->dtype, x->shape);
  }
  for (size_t i = 0; i < b->output_count; i++)
    call->outputs[i] = describe(call->key.dtypes[i], call->key.shapes[i]);
  call->release = b->options->release;
  graph_constant_on_release(call, finish);
  return call;
}

/* Creates the nodes. Sets *owned once a node, or a failed build_node, has taken `user`. */
static compute_node build_call(builder *b, const compute_node *inputs, compute_node *results,
                               bool *owned) {
  compute_graph *graph = b->graph;
  BUILD_ALL_OR_NOTHING(graph);
  if (!build_start(graph, operation) || !check_counts(b, inputs) || !check_options(b) ||
      !check_outputs(b) || !build_operands(graph, operation, inputs, b->input_count, b->inputs))
    return BUILD_NONE;
  graph_host_call *call = make_block(b);
  if (!call)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory for a node");
  *owned = true;
  const graph_node node = {
      .op = OP_call, .dtype = b->outputs[0].dtype, .shape = b->outputs[0].shape, .constant = call};
  const compute_node first = build_node(graph, operation, &node, b->inputs, b->input_count);
  if (results) results[0] = first;
  b->inputs[b->input_count] = first.id - 1;
  for (size_t i = 1; i < b->output_count && !graph->status; i++) {
    const graph_node further = {.op = OP_call_result,
                                .dtype = b->outputs[i].dtype,
                                .shape = b->outputs[i].shape,
                                .attributes.axis = (int32_t)i};
    const compute_node result =
        build_node(graph, operation, &further, b->inputs, b->input_count + 1);
    if (results) results[i] = result;
  }
  return graph->status ? BUILD_NONE : first;
}

compute_node compute_call(compute_graph *graph, compute_call_function function, void *user,
                          const compute_node *inputs, size_t input_count,
                          const compute_call_output *outputs, size_t output_count,
                          const compute_call_options *options, compute_node *results) {
  static const compute_call_options usual;
  bool owned = false;
  builder b = {.graph = graph,
               .function = function,
               .user = user,
               .options = options ? options : &usual,
               .outputs = outputs,
               .input_count = input_count,
               .output_count = output_count};
  const compute_node first = build_call(&b, inputs, results, &owned);
  if (!owned && b.options->release) b.options->release(user);
  for (size_t i = 0; first.id == 0 && results && i < output_count && i < COMPUTE_CALL_MAX_OUTPUTS;
       i++)
    results[i] = BUILD_NONE;
  return first;
}

bool graph_has_effects(const compute_graph *graph, const graph_node *node) {
  if (node->op == OP_call_result) node = &graph->nodes[node->inputs[node->input_count - 1]];
  return node->op == OP_call && !(graph_call_of(node)->key.flags & COMPUTE_CALL_PURE);
}

void graph_call_set(compute_graph *graph, compute_node call, uint32_t flag,
                    void (*skip)(void *user)) {
  if (graph->status) return;
  graph_host_call *block = graph->nodes[call.id - 1].constant;
  block->key.flags |= flag;
  block->skip = skip;
}

void graph_call_price(compute_graph *graph, compute_node call, double rows) {
  if (graph->status) return;
  graph_host_call *block = graph->nodes[call.id - 1].constant;
  block->rows = rows;
}

/* ---- Calling --------------------------------------------------------------------------------- */

/* State of one call in a run. */
typedef struct call_state {
  const graph_host_call *call;
  const compute_call_tensor *tensors; /* inputs, then outputs */
  int32_t parts;
  pthread_mutex_t mutex;  /* guards the fields below */
  _Atomic int32_t failed; /* lowest part that failed; `parts` if none did; read without the lock */
  compute_status status;
  char message[MESSAGE_BYTES];
} call_state;

/* The arguments of a part, followed by the hidden buffer of compute_call_fail. */
typedef struct call_part {
  compute_call_arguments arguments;
  char message[MESSAGE_BYTES];
} call_part;

compute_status compute_call_fail(const compute_call_arguments *arguments, compute_status status,
                                 const char *format, ...) {
  if (!arguments || !format) return status;
  call_part *part = (call_part *)(void *)arguments; /* all arguments are embedded in such a
                                                     * struct */
  va_list list;
  va_start(list, format);
  vsnprintf(part->message, sizeof part->message, format, list);
  va_end(list);
  return status;
}

static bool is_status(compute_status status) {
  compute_status known;
  const size_t count = compute_status_list(0, &known);
  for (size_t i = 0; i < count; i++) {
    compute_status_list(i, &known);
    if (known == status) return true;
  }
  return false;
}

static void note_failure(call_state *state, int32_t part, compute_status status,
                         const char *message) {
  pthread_mutex_lock(&state->mutex);
  if (part < atomic_load_explicit(&state->failed, memory_order_relaxed)) {
    atomic_store_explicit(&state->failed, part, memory_order_relaxed);
    state->status = is_status(status) ? status : COMPUTE_ERROR_LAUNCH;
    if (message[0])
      snprintf(state->message, sizeof state->message, "%s", message);
    else if (state->status == status)
      snprintf(state->message, sizeof state->message, "it returned %s",
               compute_status_name(status));
    else
      snprintf(state->message, sizeof state->message, "it returned %d, which is not a status",
               (int)status);
  }
  pthread_mutex_unlock(&state->mutex);
}

static void run_part(void *argument, int64_t task, int32_t worker) {
  call_state *state = argument;
  const graph_host_call *call = state->call;
  (void)worker;
  if (atomic_load_explicit(&state->failed, memory_order_relaxed) < state->parts) return;
  call_part part = {.arguments = {.inputs = state->tensors,
                                  .outputs = state->tensors + call->input_count,
                                  .input_count = call->input_count,
                                  .output_count = call->key.output_count,
                                  .name = call->key.name}};
  part.message[0] = '\0';
  const compute_status status =
      call->key.function(call->key.user, &part.arguments, (int32_t)task, state->parts);
  (void)float_environment_default(); /* the caller's function may have changed it */
  if (status) note_failure(state, (int32_t)task, status, part.message);
}

/* Example: "call 'smooth': no data (part 3 of 8)" */
static compute_status fail(const call_state *state) {
  const char *name = state->call->key.name;
  char which[48] = "";
  const int32_t part = atomic_load_explicit(&state->failed, memory_order_relaxed);
  if (state->parts > 1)
    snprintf(which, sizeof which, " (part %d of %d)", (int)part + 1, (int)state->parts);
  return error_set(state->call->context, state->status, operation, "%s%s%s%s: %s%s", operation,
                   name[0] ? " '" : "", name, name[0] ? "'" : "", state->message, which);
}

compute_status graph_call_run(const void *block, void *const *operands) {
  const graph_host_call *call = block;
  const uint32_t inputs = call->input_count, outputs = call->key.output_count;
  compute_call_tensor tensors[COMPUTE_CALL_MAX_INPUTS + COMPUTE_CALL_MAX_OUTPUTS];
  call_state state = {.call = call, .tensors = tensors, .parts = call->key.parts};
  if (state.parts == COMPUTE_CALL_PARTS_AUTOMATIC)
    state.parts = thread_pool_count(call->context->threads);
  atomic_init(&state.failed, state.parts);
  memcpy(tensors, call->inputs, inputs * sizeof *tensors);
  memcpy(tensors + inputs, call->outputs, outputs * sizeof *tensors);
  for (uint32_t i = 0; i < inputs + outputs; i++) tensors[i].data = operands[i];
  pthread_mutex_init(&state.mutex, NULL);
  if (state.parts == 1)
    run_part(&state, 0, 0);
  else
    thread_pool_run(call->context->threads, state.parts, run_part, &state);
  pthread_mutex_destroy(&state.mutex);
  const bool failed = atomic_load_explicit(&state.failed, memory_order_relaxed) < state.parts;
  return failed ? fail(&state) : COMPUTE_OK;
}
