/* SPDX-License-Identifier: MIT */
/* The eager calls. Each call describes itself as an eager_call: a builder of graph.h with its
 * attributes. The first call builds and compiles a graph of one operation. Later calls find the
 * plan by the bytes of the description and need no graph.
 *
 * The builders' rules check the operands, so an eager call fails with the same message as a
 * graph. */

#include <stdatomic.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/base/hash.h"
#include "core/tensor/tensor.h"
#include "plan/eager/eager.h"

/* ---- The description as bytes ---------------------------------------------------------------- */

typedef struct key_writer {
  unsigned char *data;
  size_t length;
} key_writer;

static void write_bytes(key_writer *key, const void *data, size_t bytes) {
  memcpy(key->data + key->length, data, bytes);
  key->length += bytes;
}

static void write_list(key_writer *key, int32_t count, const void *list, size_t element) {
  write_bytes(key, &count, sizeof count);
  if (count > 0 && count <= COMPUTE_MAX_RANK) write_bytes(key, list, (size_t)count * element);
}

/* An upper bound of the key's length, in bytes. */
static size_t key_room(const eager_call *call) {
  const size_t shape = sizeof(compute_shape), dtype = sizeof(compute_dtype);
  return sizeof(eager_call) + (call->operand_count + 1) * (shape + dtype) + call->extra_bytes;
}

/* Writes field by field: a struct has padding, and lists have unused entries past their end. */
static void write_key(key_writer *key, const eager_call *call) {
  write_bytes(key, &call->build, sizeof call->build);
  write_bytes(key, &call->device, sizeof call->device);
  write_bytes(key, call->number, sizeof call->number);
  write_bytes(key, call->integer, sizeof call->integer);
  write_bytes(key, &call->axis, sizeof call->axis);
  write_bytes(key, &call->stream, sizeof call->stream);
  write_bytes(key, &call->dtype, sizeof call->dtype);
  write_bytes(key, &call->keep_axes, sizeof call->keep_axes);
  write_list(key, call->axes.count, call->axes.axis, sizeof *call->axes.axis);
  write_list(key, call->shape.rank, call->shape.size, sizeof *call->shape.size);
  if (call->extra) write_bytes(key, call->extra, call->extra_bytes);
  for (size_t i = 0; i < call->operand_count; i++) {
    const compute_tensor *operand = call->operands[i];
    const compute_dtype dtype = operand ? operand->dtype : COMPUTE_DTYPE_NONE;
    write_bytes(key, &dtype, sizeof dtype);
    if (operand) write_list(key, operand->shape.rank, operand->shape.size, sizeof(int64_t));
  }
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static compute_status no_memory(const eager_call *call) {
  return error_set(call->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, call->operation,
                   "out of memory");
}

/* Compiles the call's graph into `plan`. The array of inputs is already allocated. */
static compute_status compile(const eager_call *call, eager_plan *plan) {
  compute_graph *graph = compute_graph_create(call->device->context);
  if (!graph) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < call->operand_count; i++) {
    const compute_tensor *operand = call->operands[i];
    if (operand) plan->inputs[i] = compute_input(graph, operand->dtype, operand->shape);
  }
  plan->output = call->build(graph, plan->inputs, call);
  compute_status status = compute_graph_status(graph);
  if (!status) {
    const compute_plan_options options = {.device = call->device, .name = call->operation};
    status = compute_compile(graph, &plan->output, 1, &options, &plan->plan);
  }
  compute_graph_release(graph);
  return status;
}

/* Creates a plan for the call, with a copy of the key and one reference. */
static compute_status create_plan(const eager_call *call, const key_writer *key, uint64_t hash,
                                  eager_plan **result) {
  eager_plan *plan = base_allocate(1, sizeof *plan);
  if (!plan) return no_memory(call);
  atomic_init(&plan->references, 1);
  plan->hash = hash;
  plan->key_bytes = key->length;
  plan->key = base_allocate(key->length, 1);
  plan->inputs = base_allocate(call->operand_count, sizeof *plan->inputs);
  compute_status status = plan->key && plan->inputs ? compile(call, plan) : no_memory(call);
  compute_plan_info info = {0};
  if (!status) status = compute_plan_describe(plan->plan, &info);
  plan->bytes = sizeof *plan + key->length + info.host_bytes + info.constant_bytes;
  if (status) {
    eager_plan_release(plan);
    return status;
  }
  memcpy(plan->key, key->data, key->length);
  *result = plan;
  return COMPUTE_OK;
}

/* Finds or creates the plan; the caller releases its reference. */
static compute_status get_plan(const eager_call *call, eager_plan **plan) {
  struct eager_cache *cache = eager_cache_of(call->device->context);
  key_writer key = {.data = base_allocate(key_room(call), 1)};
  compute_status status = cache && key.data ? COMPUTE_OK : no_memory(call);
  if (!status) {
    write_key(&key, call);
    const uint64_t hash = hash_bytes(HASH_SEED, key.data, key.length);
    *plan = eager_cache_find(cache, key.data, key.length, hash);
    if (!*plan) {
      status = create_plan(call, &key, hash, plan);
      if (!status) *plan = eager_cache_insert(cache, *plan);
    }
  }
  base_release(key.data);
  return status;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Creates the result, binds the operands and the result, and runs the plan. */
static compute_status run_plan(const eager_call *call, const eager_plan *plan,
                               compute_tensor **result) {
  compute_tensor *output = NULL;
  compute_binding *bindings = base_allocate(call->operand_count + 1, sizeof *bindings);
  if (!bindings) return no_memory(call);
  compute_status status = compute_plan_create_tensor(plan->plan, plan->output, &output);
  if (!status) {
    size_t count = 0;
    bindings[count++] = (compute_binding){plan->output, output};
    for (size_t i = 0; i < call->operand_count; i++) {
      /* A run only reads its inputs. The binding is not const because outputs use the same type. */
      compute_tensor *operand = (compute_tensor *)call->operands[i];
      if (operand) bindings[count++] = (compute_binding){plan->inputs[i], operand};
    }
    status = compute_run(plan->plan, bindings, count, NULL);
  }
  base_release(bindings);
  if (status) {
    compute_tensor_release(output);
  } else {
    *result = output;
  }
  return status;
}

static compute_status null_pointer(const eager_call *call, const char *what) {
  const compute_context *context = call->device ? call->device->context : NULL;
  return error_set(context, COMPUTE_ERROR_NULL_POINTER, call->operation, "%s is NULL", what);
}

/* Checks that the operands exist and belong to one context. Sets the call's device. */
static compute_status check_operands(eager_call *call) {
  for (size_t i = 0; i < call->operand_count; i++) {
    const compute_tensor *operand = call->operands[i];
    if (!operand && (i == 0 || !call->optional)) return null_pointer(call, "an operand");
    if (IS_INHERITED(operand, buffer->device->context))
      return context_refuse(operand->buffer->device->context, call->operation);
    if (i == 0) call->device = compute_tensor_device(operand);
    if (!operand || compute_tensor_device(operand)->context == call->device->context) continue;
    return error_set(call->device->context, COMPUTE_ERROR_WRONG_CONTEXT, call->operation,
                     "operand %zu belongs to another context than the first", i);
  }
  if (IS_INHERITED(call->device, context))
    return context_refuse(call->device->context, call->operation);
  return call->device ? COMPUTE_OK : null_pointer(call, "device");
}

compute_status eager_run(const eager_call *given, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  eager_call call = *given;
  compute_status status = check_operands(&call);
  if (status) return status;
  if (!result) return null_pointer(&call, "result");
  eager_plan *plan = NULL;
  status = get_plan(&call, &plan);
  if (!status) status = run_plan(&call, plan, result);
  eager_plan_release(plan);
  return status;
}

/* ---- Elementwise: all of ops.def ------------------------------------------------------------- */

#define CALL_1(name)                                                                               \
  EAGER_BUILD(name, compute_##name(graph, x[0]))                                                   \
  compute_status compute_tensor_##name(const compute_tensor *x, compute_tensor **result) {         \
    return EAGER_CALL(name, EAGER_OPERANDS(x));                                                    \
  }
#define CALL_2(name)                                                                               \
  EAGER_BUILD(name, compute_##name(graph, x[0], x[1]))                                             \
  compute_status compute_tensor_##name(const compute_tensor *a, const compute_tensor *b,           \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(a, b));                                                 \
  }
#define CALL_3(name)                                                                               \
  EAGER_BUILD(name, compute_##name(graph, x[0], x[1], x[2]))                                       \
  compute_status compute_tensor_##name(const compute_tensor *condition, const compute_tensor *a,   \
                                       const compute_tensor *b, compute_tensor **result) {         \
    return EAGER_CALL(name, EAGER_OPERANDS(condition, a, b));                                      \
  }
#define ELEMENTWISE(name, arity, ...) CALL_##arity(name)
#define SCALED(name, instruction, gradient, low, high, ulp, attribute, text)                       \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->number[0]))                                  \
  compute_status compute_tensor_##name(const compute_tensor *x, double attribute,                  \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .number = {attribute});                             \
  }
#include "graph/ops.def"
