/* SPDX-License-Identifier: MIT */
/* Writes a graph as an ONNX file. It finds the nodes that compute the outputs, converts each
 * with the table in export/forms.c to one or several ONNX nodes, and gives each value a unique
 * name. */
#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/type/shape.h"
#include "model/export/export.h"

static const char operation[] = "compute_graph_save_onnx";

/* A hash table with open addressing. It does not own the names. */
typedef struct name_set {
  const char **names;
  size_t count, capacity; /* a power of two, or 0 */
} name_set;

typedef struct request {
  const compute_graph *graph;
  exporter to;
  name_set taken;
  export_value *values; /* per node; 0: none yet */
  export_plan plan;
  export_port *ports; /* inputs, then outputs */
  const char **names; /* requested names of the ports, or NULL */
  size_t input_count, output_count;
} request;

static compute_status fail_memory(const request *r) {
  return error_set(r->graph->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
}

static compute_status fail_argument(const request *r, const char *what, size_t index,
                                    const char *why) {
  return error_set(r->graph->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s[%zu] %s", what,
                   index, why);
}

static bool is_text(const char *name) {
  for (size_t length; *name; name += length)
    if ((length = utf8_length(name)) == 0) return false;
  return true;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static size_t place_of(const name_set *set, const char *name) {
  size_t at = (size_t)hash_bytes(HASH_SEED, name, strlen(name)) & (set->capacity - 1);
  while (set->names[at] && strcmp(set->names[at], name) != 0) at = (at + 1) & (set->capacity - 1);
  return at;
}

static bool enlarge(name_set *set) {
  name_set larger = {.count = set->count, .capacity = set->capacity ? 2 * set->capacity : 64};
  larger.names = base_allocate(larger.capacity, sizeof *larger.names);
  if (!larger.names) return false;
  for (size_t i = 0; i < set->capacity; i++)
    if (set->names[i]) larger.names[place_of(&larger, set->names[i])] = set->names[i];
  base_release(set->names);
  *set = larger;
  return true;
}

/* Reserves a free name. Returns false if it is taken, or if out of memory. */
static bool take_name(request *r, const char *name) {
  name_set *set = &r->taken;
  if (2 * (set->count + 1) > set->capacity && !enlarge(set)) {
    r->to.failed = true;
    return false;
  }
  const size_t at = place_of(set, name);
  if (set->names[at]) return false;
  set->names[at] = name;
  set->count++;
  return true;
}

/* Makes a free name from `stem` and the number of `value`, with underscores added on a conflict. */
static const char *make_name(request *r, const char *stem, export_value value) {
  char text[64];
  snprintf(text, sizeof text, "%s%" PRIu32, stem, value);
  for (size_t length = strlen(text); length < sizeof text - 1; text[length++] = '_') {
    text[length] = 0;
    const char *name = arena_text(&r->to.arena, text, length);
    if (!name) r->to.failed = true;
    if (r->to.failed || take_name(r, name)) return name;
  }
  r->to.failed = true; /* only a crafted graph takes so many names */
  return NULL;
}

static void set_name(request *r, export_value value, const char *name) {
  if (value && !r->to.failed) r->to.names[value - 1] = name;
}

static const char *name_of(const request *r, export_value value) {
  return value ? r->to.names[value - 1] : NULL;
}

/* Uses the node's name if it is free. */
static void name_as_node(request *r, export_value value, const graph_node *node) {
  if (!name_of(r, value) && node->name && node->name[0] && is_text(node->name) &&
      take_name(r, node->name))
    set_name(r, value, node->name);
}

static compute_status take_asked_names(request *r) {
  for (size_t i = 0; i < r->input_count + r->output_count; i++) {
    const bool input = i < r->input_count;
    const char *name = r->names[i];
    if (!name) continue;
    const char *what = input ? "inputs" : "outputs";
    const size_t index = input ? i : i - r->input_count;
    if (!name[0] || !is_text(name))
      return fail_argument(r, what, index, "has a name that is empty or not UTF-8");
    if (!take_name(r, name)) {
      if (r->to.failed) return fail_memory(r);
      return fail_argument(r, what, index, "has the name of another one");
    }
  }
  return COMPUTE_OK;
}

/* An output whose value already has a name becomes an Identity of it. */
static void name_output(request *r, export_port *port, const char *asked) {
  const graph_op op = port->node->op;
  if (name_of(r, port->value) || op == OP_parameter || op == OP_constant) {
    name_as_node(r, port->value, port->node);
    port->value = EMIT(&r->to, "Identity", port->value);
  }
  set_name(r, port->value, asked);
  name_as_node(r, port->value, port->node);
  if (!name_of(r, port->value)) set_name(r, port->value, make_name(r, "output_", port->value));
}

static compute_status name_all(request *r) {
  const compute_status status = take_asked_names(r);
  if (status) return status;
  for (size_t i = 0; i < r->input_count; i++) {
    export_port *port = &r->ports[i];
    set_name(r, port->value, r->names[i]);
    name_as_node(r, port->value, port->node);
    if (!name_of(r, port->value)) set_name(r, port->value, make_name(r, "input_", port->value));
  }
  for (size_t i = r->input_count; i < r->input_count + r->output_count; i++)
    name_output(r, &r->ports[i], r->names[i]);
  for (size_t i = 0; i < r->graph->count; i++)
    if (r->values[i]) name_as_node(r, r->values[i], &r->graph->nodes[i]);
  for (size_t i = 0; !r->to.failed && i < r->to.value_count; i++)
    if (!r->to.names[i]) r->to.names[i] = make_name(r, "v", (export_value)i + 1);
  return r->to.failed ? fail_memory(r) : COMPUTE_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static compute_status resolve(const request *r, const char *what, size_t index, compute_node node,
                              size_t *result) {
  *result = (size_t)node.id - 1;
  if (node.graph == r->graph->serial && node.id >= 1 && node.id <= r->graph->count)
    return COMPUTE_OK;
  return error_set(r->graph->context, COMPUTE_ERROR_WRONG_GRAPH, operation,
                   "%s[%zu] is not a node of the graph", what, index);
}

/* Marks nodes from the outputs back to the inputs. Adds input nodes that the caller did not
 * name. */
static void find_needed(request *r) {
  for (size_t i = r->graph->count; i-- > 0;) {
    const graph_node *at = &r->graph->nodes[i];
    if (!r->plan.needed[i] || r->plan.given[i]) continue;
    for (uint32_t k = 0; k < at->input_count; k++) r->plan.needed[at->inputs[k]] = true;
  }
  for (size_t i = 0; i < r->graph->count; i++) {
    const graph_node *at = &r->graph->nodes[i];
    if (!r->plan.needed[i] || r->plan.given[i] || at->op != OP_input) continue;
    r->plan.given[i] = true;
    r->ports[r->input_count++].node = at;
  }
}

static compute_status read_ports(request *r, const compute_model_value *inputs, size_t input_count,
                                 const compute_model_value *outputs, size_t output_count) {
  compute_status status = COMPUTE_OK;
  size_t node;
  for (size_t i = 0; i < input_count; i++) {
    if ((status = resolve(r, "inputs", i, inputs[i].node, &node))) return status;
    if (r->plan.given[node]) return fail_argument(r, "inputs", i, "is listed twice");
    r->plan.given[node] = true;
    r->ports[i].node = &r->graph->nodes[node];
    r->names[i] = inputs[i].name;
  }
  for (size_t i = 0; i < output_count; i++) {
    if ((status = resolve(r, "outputs", i, outputs[i].node, &node))) return status;
    r->plan.needed[node] = r->plan.output[node] = true;
  }
  r->input_count = input_count;
  find_needed(r);
  r->output_count = output_count;
  for (size_t i = 0; i < output_count; i++) {
    r->ports[r->input_count + i].node = &r->graph->nodes[outputs[i].node.id - 1];
    r->names[r->input_count + i] = outputs[i].name;
  }
  return COMPUTE_OK;
}

/* Why a node has no form in ONNX, or NULL. */
static const char *refusal_of(const graph_node *node) {
  const export_form *form = export_form_of(node->op);
  if (!form) return "unknown";
  if (!form->rule) return form->text;
  const compute_recurrent_attributes *a = node->op == OP_recurrent ? node->constant : NULL;
  return a && a->quantized ? "states in 8 bits" : NULL;
}

/* Reports "random_uniform (node 'noise': why)" for each operation without an ONNX form. */
static compute_status check_operations(const request *r) {
  bool seen[OP_COUNT] = {false};
  text_buffer text = {0};
  size_t count = 0;
  for (size_t i = 0; i < r->graph->count; i++) {
    const graph_node *node = &r->graph->nodes[i];
    const char *why = refusal_of(node);
    if (!export_is_written(&r->plan, i) || !why || seen[node->op]) continue;
    seen[node->op] = true;
    text_add(&text, "%s%s (", count++ ? ", " : "", graph_op_describe(node->op)->name);
    if (node->name)
      text_add(&text, "node '%s'", node->name);
    else
      text_add(&text, "node %zu", i + 1);
    text_add(&text, ": %s)", why);
  }
  compute_status status = COMPUTE_OK;
  if (text.failed) status = fail_memory(r);
  if (!status && count) {
    log_write(COMPUTE_LOG_ERROR, "core", "%s: without a form in ONNX: %s", operation, text.data);
    status = error_set(r->graph->context, COMPUTE_ERROR_UNSUPPORTED, operation,
                       "%zu operation%s no form in ONNX: %s", count, count == 1 ? " has" : "s have",
                       text.data);
  }
  text_release(&text);
  return status;
}

/* Reshapes a bias to a vector. */
static export_value bias_of(request *r, const export_join *join) {
  const compute_shape shape = r->graph->nodes[join->bias].shape;
  const export_value bias = r->values[join->bias];
  if (shape.rank == 1) return bias;
  return export_reshape(&r->to, bias, COMPUTE_SHAPE(shape_at(shape, shape.rank - 3)));
}

static void emit_node(request *r, size_t index) {
  const export_join *join = &r->plan.joined[index];
  const graph_node *node = &r->graph->nodes[join->conv ? join->conv - 1 : index];
  export_value *inputs = arena_allocate(&r->to.arena, node->input_count, sizeof *inputs);
  if (!inputs) {
    r->to.failed = true;
    return;
  }
  for (uint32_t i = 0; i < node->input_count; i++) inputs[i] = r->values[node->inputs[i]];
  const export_call call = {export_form_of(node->op), node, node->dtype, inputs,
                            join->conv ? bias_of(r, join) : 0};
  r->values[index] = export_operation(&r->to, &call);
}

static compute_status emit_all(request *r) {
  for (size_t i = 0; i < r->graph->count; i++) {
    if (r->plan.given[i])
      r->values[i] = export_new_value(&r->to);
    else if (export_is_written(&r->plan, i) && !r->plan.within[i])
      emit_node(r, i);
  }
  for (size_t i = 0; i < r->input_count + r->output_count; i++)
    r->ports[i].value = r->values[r->ports[i].node - r->graph->nodes];
  return r->to.failed ? fail_memory(r) : COMPUTE_OK;
}

/* ---- The call -------------------------------------------------------------------------------- */

static compute_status check_arguments(const compute_graph *graph, const compute_model_value *inputs,
                                      size_t input_count, const compute_model_value *outputs,
                                      size_t output_count, const char *path,
                                      const compute_model_export_options *options) {
  compute_context *context = graph ? graph->context : NULL;
  const compute_status status = error_if_null(context, operation, graph, outputs, path);
  if (status) return status;
  if (graph->status) {
    error_restore(context, &graph->error);
    return graph->status;
  }
  if (input_count && !inputs)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "inputs is NULL");
  if (output_count == 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "there are no outputs");
  return options ? error_if_reserved(context, operation, "options", options->reserved) : COMPUTE_OK;
}

static compute_status allocate(request *r, size_t input_count, size_t output_count) {
  const size_t nodes = r->graph->count;
  const size_t most = input_count + output_count + nodes;
  r->to.graph = r->graph;
  r->values = arena_allocate(&r->to.arena, nodes, sizeof *r->values);
  r->plan.needed = arena_allocate(&r->to.arena, nodes, sizeof *r->plan.needed);
  r->plan.given = arena_allocate(&r->to.arena, nodes, sizeof *r->plan.given);
  r->plan.output = arena_allocate(&r->to.arena, nodes, sizeof *r->plan.output);
  r->ports = arena_allocate(&r->to.arena, most, sizeof *r->ports);
  r->names = arena_allocate(&r->to.arena, most, sizeof *r->names);
  const bool all =
      r->values && r->plan.needed && r->plan.given && r->plan.output && r->ports && r->names;
  return all ? COMPUTE_OK : fail_memory(r);
}

compute_status compute_graph_save_onnx(const compute_graph *graph,
                                       const compute_model_value *inputs, size_t input_count,
                                       const compute_model_value *outputs, size_t output_count,
                                       const char *path,
                                       const compute_model_export_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  static const compute_model_export_options usual;
  compute_status status =
      check_arguments(graph, inputs, input_count, outputs, output_count, path, options);
  if (status) return status;
  request r = {.graph = graph, .plan.graph = graph};
  status = allocate(&r, input_count, output_count);
  if (!status) status = read_ports(&r, inputs, input_count, outputs, output_count);
  if (!status) status = check_operations(&r);
  if (!status && !export_join_biases(&r.plan, &r.to.arena)) status = fail_memory(&r);
  if (!status) status = emit_all(&r);
  if (!status) status = name_all(&r);
  const export_ports ports = {r.ports, r.ports + r.input_count, r.input_count, r.output_count};
  if (!status) status = export_write(&r.to, &ports, operation, path, options ? options : &usual);
  base_release(r.taken.names);
  export_release(&r.to);
  return status;
}
