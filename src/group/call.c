/* SPDX-License-Identifier: MIT */
/* The public collective calls: they check their arguments and submit requests. */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "group/group.h"

static compute_status check_tensor(const compute_process_group *group, const char *operation,
                                   const char *name, const compute_tensor *tensor) {
  if (compute_device_context(compute_tensor_device(tensor)) != group->context)
    return error_set(group->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "%s belongs to another context", name);
  if (compute_tensor_is_dense(tensor)) return COMPUTE_OK;
  return error_set_native(group->context, COMPUTE_ERROR_SHAPE, 0, operation,
                          "copy it into a dense tensor", "%s is not dense", name);
}

/* Copies the options into a request. */
static compute_status check_options(const compute_process_group *group,
                                    const compute_group_call_options *o,
                                    compute_group_request *draft) {
  if (!o) return COMPUTE_OK;
  const compute_status reserved =
      error_if_reserved(group->context, draft->operation, "options", o->reserved);
  if (reserved) return reserved;
  if (o->accumulate != COMPUTE_DTYPE_NONE && o->accumulate != COMPUTE_F64)
    return error_set(group->context, COMPUTE_ERROR_DTYPE, draft->operation,
                     "accumulate is %s; it must be f64 or none", compute_dtype_name(o->accumulate));
  draft->call.accumulate = (int32_t)o->accumulate;
  draft->fixed_order = o->fixed_order;
  draft->after = o->after;
  return COMPUTE_OK;
}

compute_status group_check_reduction(compute_group_reduction reduction, compute_dtype dtype,
                                     char *text, size_t text_bytes) {
  if (reduction < COMPUTE_GROUP_SUM || reduction > COMPUTE_GROUP_MIN) {
    snprintf(text, text_bytes, "invalid reduction %d", (int)reduction);
    return COMPUTE_ERROR_INVALID_ARGUMENT;
  }
  if (reduction == COMPUTE_GROUP_MEAN && !dtype_is_float(dtype)) {
    snprintf(text, text_bytes, "a mean needs floats; the input is %s", compute_dtype_name(dtype));
    return COMPUTE_ERROR_DTYPE;
  }
  if (reduction != COMPUTE_GROUP_SUM || dtype != COMPUTE_BOOL) return COMPUTE_OK;
  snprintf(text, text_bytes, "a sum of bool; use max, or cast to an integer");
  return COMPUTE_ERROR_DTYPE;
}

static compute_status check_reduction(const compute_process_group *group, const char *operation,
                                      compute_group_reduction reduction, compute_dtype dtype) {
  char text[128];
  const compute_status status = group_check_reduction(reduction, dtype, text, sizeof text);
  return status ? error_set(group->context, status, operation, "%s", text) : COMPUTE_OK;
}

/* Two tensors of the same dtype. `larger` has `times` as many elements along its first axis. With
 * `times` 0 both have the same shape. */
static compute_status check_pair(const compute_process_group *group, const char *operation,
                                 const compute_tensor *smaller, const compute_tensor *larger,
                                 int32_t times) {
  const compute_dtype dtype = compute_tensor_dtype(smaller);
  if (dtype != compute_tensor_dtype(larger))
    return error_set(group->context, COMPUTE_ERROR_DTYPE, operation,
                     "input and output have different dtypes: %s and %s", compute_dtype_name(dtype),
                     compute_dtype_name(compute_tensor_dtype(larger)));
  compute_shape wanted = compute_tensor_shape(smaller);
  const compute_shape shape = compute_tensor_shape(larger);
  const bool axis = times == 0 || wanted.rank > 0;
  if (axis && times > 0) wanted.size[0] *= times;
  if (axis && compute_shape_equal(wanted, shape)) return COMPUTE_OK;
  char a[128], b[128];
  return error_set(group->context, COMPUTE_ERROR_SHAPE, operation,
                   "shapes %s and %s do not match for a group of %d",
                   compute_shape_text(compute_tensor_shape(smaller), a, sizeof a),
                   compute_shape_text(shape, b, sizeof b), (int)group->size);
}

/* The checks that all calls with two tensors share; completes the request. */
static compute_status check_call(const compute_process_group *group, compute_group_request *draft,
                                 const compute_tensor *input, compute_tensor *output,
                                 const compute_group_call_options *options) {
  compute_status status = error_if_null(NULL, draft->operation, group, input, output);
  if (!status) status = check_tensor(group, draft->operation, "input", input);
  if (!status) status = check_tensor(group, draft->operation, "output", output);
  if (!status) status = check_options(group, options, draft);
  if (status) return status;
  draft->input = (compute_tensor *)(uintptr_t)input; /* read only */
  draft->output = output;
  draft->call.dtype = (int32_t)compute_tensor_dtype(input);
  draft->call.count = compute_tensor_count(input);
  return COMPUTE_OK;
}

/* Submits a call after its output is determined; some ranks have none. */
static compute_status submit(compute_process_group *group, const compute_group_request *draft,
                             compute_group_request **request) {
  const compute_status status =
      draft->output ? tensor_check_writable(draft->output, draft->operation) : COMPUTE_OK;
  return status ? status : group_submit(group, draft, request);
}

compute_status compute_group_all_reduce(compute_process_group *group,
                                        compute_group_reduction reduction,
                                        const compute_tensor *input, compute_tensor *output,
                                        const compute_group_call_options *options,
                                        compute_group_request **request) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(group, context);
  compute_group_request draft = {
      .operation = "compute_group_all_reduce",
      .call = {.kind = GROUP_ALL_REDUCE, .reduction = (int32_t)reduction}};
  if (request) *request = NULL;
  compute_status status = check_call(group, &draft, input, output, options);
  if (!status) status = check_pair(group, draft.operation, input, output, 0);
  if (!status)
    status = check_reduction(group, draft.operation, reduction, (compute_dtype)draft.call.dtype);
  return status ? status : submit(group, &draft, request);
}

compute_status compute_group_reduce_scatter(compute_process_group *group,
                                            compute_group_reduction reduction,
                                            const compute_tensor *input, compute_tensor *output,
                                            const compute_group_call_options *options,
                                            compute_group_request **request) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(group, context);
  compute_group_request draft = {
      .operation = "compute_group_reduce_scatter",
      .call = {.kind = GROUP_REDUCE_SCATTER, .reduction = (int32_t)reduction}};
  if (request) *request = NULL;
  compute_status status = check_call(group, &draft, input, output, options);
  if (!status) status = check_pair(group, draft.operation, output, input, group->size);
  if (!status)
    status = check_reduction(group, draft.operation, reduction, (compute_dtype)draft.call.dtype);
  return status ? status : submit(group, &draft, request);
}

compute_status compute_group_all_gather(compute_process_group *group, const compute_tensor *input,
                                        compute_tensor *output,
                                        const compute_group_call_options *options,
                                        compute_group_request **request) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(group, context);
  compute_group_request draft = {.operation = "compute_group_all_gather",
                                 .call = {.kind = GROUP_ALL_GATHER}};
  if (request) *request = NULL;
  compute_status status = check_call(group, &draft, input, output, options);
  if (!status) status = check_pair(group, draft.operation, input, output, group->size);
  return status ? status : submit(group, &draft, request);
}

compute_status compute_group_broadcast(compute_process_group *group, compute_tensor *tensor,
                                       int32_t root, const compute_group_call_options *options,
                                       compute_group_request **request) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(group, context);
  compute_group_request draft = {.operation = "compute_group_broadcast",
                                 .call = {.kind = GROUP_BROADCAST, .root = root}};
  if (request) *request = NULL;
  compute_status status = error_if_null(NULL, draft.operation, group, tensor);
  if (!status) status = check_call(group, &draft, tensor, tensor, options);
  if (!status) status = group_check_rank(group, draft.operation, "root", root);
  if (status) return status;
  *(group->rank == root ? &draft.output : &draft.input) = NULL;
  return submit(group, &draft, request);
}

compute_status compute_group_barrier(compute_process_group *group) {
  REFUSE_INHERITED(group, context);
  const compute_group_request draft = {.operation = "compute_group_barrier",
                                       .call = {.kind = GROUP_BARRIER}};
  const compute_status status = error_if_null(NULL, draft.operation, group);
  return status ? status : group_submit(group, &draft, NULL);
}

static compute_status pass(compute_process_group *group, const char *operation, bool sends,
                           compute_tensor *tensor, int32_t peer,
                           const compute_group_call_options *options,
                           compute_group_request **request) {
  compute_group_request draft = {
      .operation = operation, .peer = peer, .call = {.kind = GROUP_SEND_RECEIVE, .sends = sends}};
  if (request) *request = NULL;
  compute_status status = error_if_null(NULL, draft.operation, group, tensor);
  if (!status) status = check_call(group, &draft, tensor, tensor, options);
  if (!status) status = group_check_rank(group, operation, sends ? "to" : "from", peer);
  if (!status && peer == group->rank)
    status = error_set(group->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "rank %d is the caller itself", (int)peer);
  if (status) return status;
  *(sends ? &draft.output : &draft.input) = NULL;
  return submit(group, &draft, request);
}

compute_status compute_group_send(compute_process_group *group, const compute_tensor *tensor,
                                  int32_t to, const compute_group_call_options *options,
                                  compute_group_request **request) {
  REFUSE_INHERITED(group, context);
  return pass(group, "compute_group_send", true, (compute_tensor *)(uintptr_t)tensor, to, options,
              request);
}

compute_status compute_group_receive(compute_process_group *group, compute_tensor *tensor,
                                     int32_t from, const compute_group_call_options *options,
                                     compute_group_request **request) {
  REFUSE_INHERITED(group, context);
  return pass(group, "compute_group_receive", false, tensor, from, options, request);
}
