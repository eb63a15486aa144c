/* SPDX-License-Identifier: MIT */
/* Collectives as operations of a graph.
 *
 * Each collective is two calls (call.h). The first call copies its input and begins. It has side
 * effects, and such calls keep their recorded order, so the order is the same on all ranks. The
 * second call waits and returns the result; plans make it as late as possible. It also has x as an
 * operand, and the gradient flows through that operand.
 *
 * A failed run skips the calls that it does not reach. A collective that has not begun then fails
 * on the other ranks. A collective that has begun is left to end by itself. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "compute/graph_group.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"
#include "group/group.h"

/* Kinds of gradient of a node. */
typedef enum node_gradient {
  GRADIENT_ADJOINT, /* the gradient of the sum of all ranks' losses */
  GRADIENT_SUM,     /* compute_copy_to_group */
  GRADIENT_SAME     /* compute_reduce_from_group */
} node_gradient;

/* State that both calls of a node share. */
typedef struct collective {
  _Atomic int32_t references;   /* one per call */
  compute_process_group *group; /* a reference */
  group_kind kind;
  compute_group_reduction reduction;
  node_gradient gradient;
  compute_dtype dtype;
  compute_shape shape;   /* shape of the result */
  pthread_mutex_t mutex; /* guards the fields below */
  bool begun;
  compute_group_request *request;
  compute_tensor *result;
} collective;

static void unreference(void *user) {
  collective *c = user;
  if (atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) > 1) return;
  compute_group_request_release(c->request);
  compute_tensor_release(c->result);
  pthread_mutex_destroy(&c->mutex);
  group_unreference(c->group);
  base_release(c);
}

/* ---- In a run -------------------------------------------------------------------------------- */

static compute_status start(collective *c, const compute_tensor *input, compute_tensor *output) {
  switch (c->kind) {
  case GROUP_ALL_GATHER:
    return compute_group_all_gather(c->group, input, output, NULL, &c->request);
  case GROUP_REDUCE_SCATTER:
    return compute_group_reduce_scatter(c->group, c->reduction, input, output, NULL, &c->request);
  default:
    return compute_group_all_reduce(c->group, c->reduction, input, output, NULL, &c->request);
  }
}

/* Begins with a copy of x, since a failed run releases x's memory at once. */
static compute_status begin_with(collective *c, const compute_call_tensor *x) {
  compute_device *cpu = c->group->context->cpu;
  compute_tensor *input = NULL;
  if (c->begun)
    return error_set(c->group->context, COMPUTE_ERROR_INVALID_STATE, "compute_run",
                     "another run of this graph is in progress; collectives need one at a time");
  compute_status status = tensor_create_private(cpu, x->dtype, x->shape, &input);
  if (!status)
    memcpy(compute_tensor_data(input), x->data, (size_t)x->count * compute_dtype_size(x->dtype));
  if (!status && c->kind == GROUP_ALL_REDUCE)
    c->result = compute_tensor_retain(input);
  else if (!status)
    status = tensor_create_private(cpu, c->dtype, c->shape, &c->result);
  if (!status) status = start(c, input, c->result);
  compute_tensor_release(input);
  if (status) {
    compute_tensor_release(c->result);
    c->result = NULL;
  }
  c->begun = !status;
  return status;
}

static compute_status fail(const collective *c, const compute_call_arguments *arguments,
                           compute_status status) {
  return compute_call_fail(arguments, status, "%s", compute_error_message(c->group->context));
}

static compute_status begin(void *user, const compute_call_arguments *arguments, int32_t part,
                            int32_t parts) {
  collective *c = user;
  (void)part;
  (void)parts;
  memset(arguments->outputs[0].data, 0, 1);
  pthread_mutex_lock(&c->mutex);
  const compute_status status = begin_with(c, &arguments->inputs[0]);
  pthread_mutex_unlock(&c->mutex);
  return status ? fail(c, arguments, status) : COMPUTE_OK;
}

/* Takes the collective in progress. There is none if another run has taken it in between. */
static compute_group_request *take(collective *c, compute_tensor **result) {
  pthread_mutex_lock(&c->mutex);
  compute_group_request *request = c->request;
  *result = c->result;
  c->request = NULL;
  c->result = NULL;
  c->begun = false;
  pthread_mutex_unlock(&c->mutex);
  return request;
}

static compute_status end(void *user, const compute_call_arguments *arguments, int32_t part,
                          int32_t parts) {
  collective *c = user;
  const compute_call_tensor *to = &arguments->outputs[0];
  compute_tensor *result;
  compute_group_request *request = take(c, &result);
  (void)part;
  (void)parts;
  if (!request)
    return compute_call_fail(arguments, COMPUTE_ERROR_INVALID_STATE,
                             "another run of this graph was in progress");
  const compute_status status = compute_group_request_wait(request);
  if (!status)
    memcpy(to->data, compute_tensor_data(result),
           (size_t)to->count * compute_dtype_size(to->dtype));
  compute_group_request_release(request);
  compute_tensor_release(result);
  return status ? fail(c, arguments, status) : COMPUTE_OK;
}

/* Runs in place of a call that the run does not reach. The reason is the thread's last error. */
static void skip_begin(void *user) {
  collective *c = user;
  compute_group_request draft = {.operation = "compute_run", .call = {.kind = GROUP_FAILED}};
  compute_group_request *request = NULL;
  compute_error_get(c->group->context, &draft.error);
  if (draft.error.status == COMPUTE_OK) {
    draft.error.status = COMPUTE_ERROR_CANCELLED;
    snprintf(draft.error.message, sizeof draft.error.message, "the run did not take place");
  }
  (void)group_submit(c->group, &draft, &request); /* a broken group fails on the others anyway */
  compute_group_request_release(request);
}

static void skip_end(void *user) {
  compute_tensor *result;
  compute_group_request_release(take(user, &result));
  compute_tensor_release(result);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* The gradient of a maximum or minimum goes to the ranks that have the extremum, in equal shares. y
 * and g cover all ranks. */
static compute_node share_of_extreme(compute_graph *graph, const collective *c, compute_node x,
                                     compute_node y, compute_node g) {
  const compute_node has = compute_cast(graph, compute_equal(graph, x, y), c->dtype);
  const compute_node number = compute_all_reduce(graph, c->group, COMPUTE_GROUP_SUM, has);
  return compute_mul(graph, has, compute_div(graph, g, number));
}

static compute_node adjoint(const collective *c, compute_graph *graph, compute_node x,
                            compute_node y, compute_node g) {
  const bool extreme = c->reduction == COMPUTE_GROUP_MAX || c->reduction == COMPUTE_GROUP_MIN;
  const compute_group_reduction reduction = extreme ? COMPUTE_GROUP_SUM : c->reduction;
  switch (c->kind) {
  case GROUP_ALL_GATHER: return compute_reduce_scatter(graph, c->group, COMPUTE_GROUP_SUM, g, 0);
  case GROUP_REDUCE_SCATTER: {
    compute_node all = compute_all_gather(graph, c->group, g, 0);
    if (extreme)
      return share_of_extreme(graph, c, x, compute_all_gather(graph, c->group, y, 0), all);
    if (reduction == COMPUTE_GROUP_SUM) return all;
    return compute_mul(graph, all, compute_scalar(graph, c->dtype, 1.0 / c->group->size));
  }
  default: {
    const compute_node all = compute_all_reduce(graph, c->group, reduction, g);
    return extreme ? share_of_extreme(graph, c, x, y, all) : all;
  }
  }
}

static compute_status record_gradient(void *user, compute_graph *graph, const compute_node *inputs,
                                      const compute_node *outputs, const compute_node *gradients,
                                      compute_node *given) {
  const collective *c = user;
  switch (c->gradient) {
  case GRADIENT_SAME: given[0] = gradients[0]; break;
  case GRADIENT_SUM:
    given[0] = compute_all_reduce(graph, c->group, COMPUTE_GROUP_SUM, gradients[0]);
    break;
  case GRADIENT_ADJOINT: given[0] = adjoint(c, graph, inputs[0], outputs[0], gradients[0]); break;
  }
  return compute_graph_status(graph);
}

/* ---- Building -------------------------------------------------------------------------------- */

/* A builder's arguments and derived values. */
typedef struct builder {
  compute_graph *graph;
  const char *operation;
  compute_process_group *group;
  group_kind kind;
  compute_group_reduction reduction;
  node_gradient gradient;
  compute_dtype dtype;
  compute_shape shape; /* shape of x */
} builder;

static bool check(builder *b, compute_node x) {
  uint32_t index;
  char text[128];
  if (!build_operands(b->graph, b->operation, &x, 1, &index)) return false;
  if (!b->group)
    return graph_refuse(b->graph, COMPUTE_ERROR_NULL_POINTER, b->operation, "group is NULL");
  if (b->group->context != b->graph->context)
    return graph_refuse(b->graph, COMPUTE_ERROR_WRONG_CONTEXT, b->operation,
                        "the group belongs to another context");
  b->dtype = build_at(b->graph, index)->dtype;
  b->shape = build_at(b->graph, index)->shape;
  if (b->kind == GROUP_ALL_GATHER) return true;
  const compute_status status = group_check_reduction(b->reduction, b->dtype, text, sizeof text);
  return !status || graph_refuse(b->graph, status, b->operation, "%s", text);
}

static collective *create(const builder *b, compute_shape shape) {
  collective *c = base_allocate(1, sizeof *c);
  if (!c) {
    graph_fail(b->graph, COMPUTE_ERROR_OUT_OF_MEMORY, b->operation,
               "not enough memory for a node: %zu bytes", sizeof *c);
    return NULL;
  }
  *c = (collective){.references = 1,
                    .group = b->group,
                    .kind = b->kind,
                    .reduction = b->reduction,
                    .gradient = b->gradient,
                    .dtype = b->dtype,
                    .shape = shape};
  atomic_fetch_add_explicit(&b->group->references, 1, memory_order_relaxed);
  pthread_mutex_init(&c->mutex, NULL);
  return c;
}

/* Records the two calls; the result has this shape. */
static compute_node record(const builder *b, compute_node x, compute_shape shape) {
  char name[48];
  collective *c = create(b, shape);
  if (!c) return BUILD_NONE;
  atomic_init(&c->references, 2);
  snprintf(name, sizeof name, "begin %s", b->operation);
  const compute_node begun =
      compute_call(b->graph, begin, c, &x, 1, &(compute_call_output){COMPUTE_U8, COMPUTE_SHAPE(1)},
                   1, &(compute_call_options){.name = name, .release = unreference}, NULL);
  graph_call_set(b->graph, begun, 0, skip_begin);
  const compute_node y =
      compute_call(b->graph, end, c, (const compute_node[]){x, begun}, 2,
                   &(compute_call_output){b->dtype, shape}, 1,
                   &(compute_call_options){
                       .name = b->operation, .release = unreference, .gradient = record_gradient},
                   NULL);
  graph_call_set(b->graph, y, GRAPH_CALL_WAITS, skip_end);
  return y;
}

/* Moves the axis to the front, or back. With the axis first, a rank's part is contiguous. */
static compute_node with_axis_first(compute_graph *graph, compute_node x, int32_t axis,
                                    int32_t rank, bool back) {
  compute_axes order = {.count = rank};
  if (axis == 0) return x;
  for (int32_t i = 0; i < rank; i++) {
    const int32_t from = i == 0 ? axis : i <= axis ? i - 1 : i;
    if (back)
      order.axis[from] = i;
    else
      order.axis[i] = from;
  }
  return compute_transpose(graph, x, order);
}

/* all_gather and reduce_scatter of a checked x. */
static compute_node along(const builder *b, compute_node x, int32_t axis) {
  compute_shape shape = b->shape;
  const int64_t size = b->group->size, n = shape.size[axis];
  if (b->kind == GROUP_REDUCE_SCATTER && n % size != 0)
    return graph_fail(b->graph, COMPUTE_ERROR_SHAPE, b->operation,
                      "axis %d has %lld elements, which a group of %lld does not divide", (int)axis,
                      (long long)n, (long long)size);
  if (size == 1) return build_same(b->graph, x);
  int64_t result;
  if (b->kind == GROUP_REDUCE_SCATTER)
    result = n / size;
  else if (__builtin_mul_overflow(n, size, &result))
    return graph_fail(b->graph, COMPUTE_ERROR_OVERFLOW, b->operation, "the result is too large");
  shape.size[axis] = result;
  if (shape_count(b->shape) == 0) return compute_full(b->graph, b->dtype, shape, 0);
  for (int32_t i = axis; i > 0; i--) shape.size[i] = shape.size[i - 1];
  shape.size[0] = result;
  const compute_node first = with_axis_first(b->graph, x, axis, shape.rank, false);
  const compute_node y = record(b, first, shape);
  return with_axis_first(b->graph, y, axis, shape.rank, true);
}

compute_node compute_all_gather(compute_graph *graph, compute_process_group *group, compute_node x,
                                int32_t axis) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  builder b = {.graph = graph, .operation = "all_gather", .group = group, .kind = GROUP_ALL_GATHER};
  if (!check(&b, x) || !build_axis(graph, b.operation, b.shape, axis, &axis)) return BUILD_NONE;
  return along(&b, x, axis);
}

compute_node compute_reduce_scatter(compute_graph *graph, compute_process_group *group,
                                    compute_group_reduction reduction, compute_node x,
                                    int32_t axis) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  builder b = {.graph = graph,
               .operation = "reduce_scatter",
               .group = group,
               .kind = GROUP_REDUCE_SCATTER,
               .reduction = reduction};
  if (!check(&b, x) || !build_axis(graph, b.operation, b.shape, axis, &axis)) return BUILD_NONE;
  return along(&b, x, axis);
}

static compute_node reduce(builder *b, compute_node x) {
  BUILD_ALL_OR_NOTHING(b->graph);
  b->kind = GROUP_ALL_REDUCE;
  if (!check(b, x)) return BUILD_NONE;
  if (b->group->size == 1 || shape_count(b->shape) == 0) return build_same(b->graph, x);
  return record(b, x, b->shape);
}

compute_node compute_all_reduce(compute_graph *graph, compute_process_group *group,
                                compute_group_reduction reduction, compute_node x) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return reduce(
      &(builder){.graph = graph, .operation = "all_reduce", .group = group, .reduction = reduction},
      x);
}

compute_node compute_reduce_from_group(compute_graph *graph, compute_process_group *group,
                                       compute_node x) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return reduce(&(builder){.graph = graph,
                           .operation = "reduce_from_group",
                           .group = group,
                           .gradient = GRADIENT_SAME},
                x);
}

/* The function of compute_copy_to_group's call: a plain copy, without communication. */
static compute_status copy(void *user, const compute_call_arguments *arguments, int32_t part,
                           int32_t parts) {
  const compute_call_tensor *x = arguments->inputs;
  (void)user;
  (void)part;
  (void)parts;
  memcpy(arguments->outputs[0].data, x->data, (size_t)x->count * compute_dtype_size(x->dtype));
  return COMPUTE_OK;
}

compute_node compute_copy_to_group(compute_graph *graph, compute_process_group *group,
                                   compute_node x) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  builder b = {
      .graph = graph, .operation = "copy_to_group", .group = group, .gradient = GRADIENT_SUM};
  if (!check(&b, x)) return BUILD_NONE;
  if (group->size == 1) return build_same(graph, x);
  collective *c = create(&b, b.shape);
  if (!c) return BUILD_NONE;
  const compute_node call =
      compute_call(graph, copy, c, &x, 1, &(compute_call_output){b.dtype, b.shape}, 1,
                   &(compute_call_options){.name = b.operation,
                                           .flags = COMPUTE_CALL_PURE,
                                           .release = unreference,
                                           .gradient = record_gradient},
                   NULL);
  const compute_node y = build_same(graph, x);
  build_whole(graph, y, WHOLE_CALL, &call, 1);
  return y;
}

/* ---- Batch norm ------------------------------------------------------------------------------ */

static compute_node sum_over_ranks(void *user, compute_graph *graph, compute_node x) {
  return compute_all_reduce(graph, user, COMPUTE_GROUP_SUM, x);
}

compute_node compute_batch_norm_synchronized(compute_graph *graph, compute_process_group *group,
                                             compute_node x, compute_node gain, compute_node bias,
                                             double epsilon, compute_node *mean,
                                             compute_node *variance, compute_node *count) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "batch_norm_synchronized";
  const bool alone = group && group->size == 1;
  if (build_start(graph, operation) && !group)
    graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "group is NULL");
  return build_batch_norm(graph, operation, x, gain, bias, epsilon, alone ? NULL : sum_over_ranks,
                          group, mean, variance, count);
}
