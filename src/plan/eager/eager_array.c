/* SPDX-License-Identifier: MIT */
/* The eager calls of eager_array.h: the forms of ops.def's compositions, and those with parameters
 * of their own. */
#include <string.h>

#include "compute/eager_array.h"
#include "compute/graph_array.h"
#include "compute/graph_nn.h"
#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "plan/eager/eager.h"

/* ---- Forms of ops.def ------------------------------------------------------------------------ */

#define FORM_ONE(name)                                                                             \
  EAGER_BUILD(name, compute_##name(graph, x[0]))                                                   \
  compute_status compute_tensor_##name(const compute_tensor *x, compute_tensor **result) {         \
    return EAGER_CALL(name, EAGER_OPERANDS(x));                                                    \
  }
#define FORM_TWO(name)                                                                             \
  EAGER_BUILD(name, compute_##name(graph, x[0], x[1]))                                             \
  compute_status compute_tensor_##name(const compute_tensor *a, const compute_tensor *b,           \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(a, b));                                                 \
  }
#define FORM_FOLD(name)                                                                            \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->axes, call->keep_axes))                      \
  compute_status compute_tensor_##name(const compute_tensor *x, compute_axes axes, bool keep_axes, \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axes = axes, .keep_axes = keep_axes);              \
  }
#define FORM_OWN(name)
#define FORM_NONE(name)
#define FORM_VALUED(name)
#define COMPOSED(name, form, ...) FORM_##form(name)
#include "graph/ops.def"

/* ---- Reductions ------------------------------------------------------------------------------ */

#define SPREAD(name)                                                                               \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->axes, call->number[0], call->keep_axes))     \
  compute_status compute_tensor_##name(const compute_tensor *x, compute_axes axes,                 \
                                       double correction, bool keep_axes,                          \
                                       compute_tensor **result) {                                  \
    FLOAT_ENVIRONMENT_DEFAULT;                                                                     \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axes = axes, .number = {correction},               \
                      .keep_axes = keep_axes);                                                     \
  }

SPREAD(var)
SPREAD(std)

EAGER_BUILD(norm, compute_norm(graph, x[0], call->number[0], call->axes, call->keep_axes))

compute_status compute_tensor_norm(const compute_tensor *x, double p, compute_axes axes,
                                   bool keep_axes, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(norm, EAGER_OPERANDS(x), .axes = axes, .number = {p}, .keep_axes = keep_axes);
}

/* Fails for a list of operands that has none. */
static compute_status check_list(const char *operation, const char *name, const void *list,
                                 size_t count) {
  if (list && count > 0) return COMPUTE_OK;
  if (!list) return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL", name);
  return error_set(NULL, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "needs at least one operand");
}

EAGER_BUILD(einsum, compute_einsum(graph, call->extra, x, call->operand_count))

compute_status compute_tensor_einsum(const char *equation, compute_tensor *const *operands,
                                     size_t count, compute_tensor **result) {
  const compute_status status = check_list("einsum", "operands", operands, count);
  if (status) return status;
  return EAGER_CALL(einsum, .operands = (const compute_tensor *const *)operands,
                    .operand_count = count, .extra = equation,
                    .extra_bytes = equation ? strlen(equation) + 1 : 0);
}

/* ---- Joining and arranging ------------------------------------------------------------------- */

EAGER_BUILD(stack, compute_stack(graph, x, call->operand_count, call->axis))

compute_status compute_tensor_stack(compute_tensor *const *parts, size_t count, int32_t axis,
                                    compute_tensor **result) {
  const compute_status status = check_list("stack", "parts", parts, count);
  if (status) return status;
  return EAGER_CALL(stack, .operands = (const compute_tensor *const *)parts, .operand_count = count,
                    .axis = axis);
}

/* Checks the sizes with the builder; then each part is a slice. */
static compute_status check_split(const compute_tensor *x, int32_t axis, const int64_t *sizes,
                                  size_t count) {
  compute_graph *graph = compute_graph_create(compute_tensor_device(x)->context);
  compute_node *parts = base_allocate(count, sizeof *parts);
  compute_status status = graph ? compute_graph_status(graph) : COMPUTE_ERROR_OUT_OF_MEMORY;
  if (graph && !parts)
    status = error_set(compute_tensor_device(x)->context, COMPUTE_ERROR_OUT_OF_MEMORY, "split",
                       "out of memory");
  if (!status) {
    const compute_node input =
        compute_input(graph, compute_tensor_dtype(x), compute_tensor_shape(x));
    status = compute_split(graph, input, axis, sizes, count, parts);
  }
  base_release(parts);
  compute_graph_release(graph);
  return status;
}

compute_status compute_tensor_split(const compute_tensor *x, int32_t axis, const int64_t *sizes,
                                    size_t count, compute_tensor **parts) {
  REFUSE_INHERITED(x, buffer->device->context);
  if (!x || !sizes || !parts)
    return error_set(NULL, COMPUTE_ERROR_NULL_POINTER, "split", "%s is NULL",
                     !x       ? "x"
                     : !sizes ? "sizes"
                              : "parts");
  int64_t start = 0;
  compute_status status = check_split(x, axis, sizes, count);
  if (status) return status;
  compute_tensor **made = base_allocate(count, sizeof *made);
  if (!made) return error_set(NULL, COMPUTE_ERROR_OUT_OF_MEMORY, "split", "out of memory");
  for (size_t i = 0; i < count && !status; i++) {
    status = compute_tensor_slice(x, axis, start, sizes[i], 1, &made[i]);
    start += sizes[i];
  }
  for (size_t i = 0; i < count; i++) {
    if (status)
      compute_tensor_release(made[i]);
    else
      parts[i] = made[i];
  }
  base_release(made);
  return status;
}

EAGER_BUILD(tile, compute_tile(graph, x[0], call->shape))

compute_status compute_tensor_tile(const compute_tensor *x, compute_shape repeats,
                                   compute_tensor **result) {
  return EAGER_CALL(tile, EAGER_OPERANDS(x), .shape = repeats);
}

EAGER_BUILD(flip, compute_flip(graph, x[0], call->axes))

compute_status compute_tensor_flip(const compute_tensor *x, compute_axes axes,
                                   compute_tensor **result) {
  return EAGER_CALL(flip, EAGER_OPERANDS(x), .axes = axes);
}

EAGER_BUILD(roll, compute_roll(graph, x[0], call->integer[0], call->axis))

compute_status compute_tensor_roll(const compute_tensor *x, int64_t shift, int32_t axis,
                                   compute_tensor **result) {
  return EAGER_CALL(roll, EAGER_OPERANDS(x), .integer = {shift}, .axis = axis);
}

#define TRIANGLE(name)                                                                             \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->integer[0]))                                 \
  compute_status compute_tensor_##name(const compute_tensor *x, int64_t diagonal,                  \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .integer = {diagonal});                             \
  }

TRIANGLE(tril)
TRIANGLE(triu)

EAGER_BUILD(pad, compute_pad(graph, x[0], call->axis, call->integer[0], call->integer[1],
                             (compute_pad_mode)call->integer[2], call->number[0]))

compute_status compute_tensor_pad(const compute_tensor *x, int32_t axis, int64_t before,
                                  int64_t after, compute_pad_mode mode, double value,
                                  compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(pad, EAGER_OPERANDS(x), .axis = axis, .integer = {before, after, mode},
                    .number = {value});
}

EAGER_BUILD(pad_i64, compute_pad_i64(graph, x[0], call->axis, call->integer[0], call->integer[1],
                                     (compute_pad_mode)call->integer[2], call->integer[3]))

compute_status compute_tensor_pad_i64(const compute_tensor *x, int32_t axis, int64_t before,
                                      int64_t after, compute_pad_mode mode, int64_t value,
                                      compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL_AS("pad", build_pad_i64, EAGER_OPERANDS(x), .axis = axis,
                       .integer = {before, after, mode, value});
}

/* ---- Normalisation and embedding ------------------------------------------------------------- */

EAGER_BUILD(rms_norm, compute_rms_norm(graph, x[0], x[1], call->number[0]))

compute_status compute_tensor_rms_norm(const compute_tensor *x, const compute_tensor *gain,
                                       double epsilon, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(rms_norm, EAGER_OPERANDS(x, gain), .optional = true, .number = {epsilon});
}

EAGER_BUILD(group_norm,
            compute_group_norm(graph, x[0], call->integer[0], x[1], x[2], call->number[0]))

compute_status compute_tensor_group_norm(const compute_tensor *x, int64_t groups,
                                         const compute_tensor *gain, const compute_tensor *bias,
                                         double epsilon, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(group_norm, EAGER_OPERANDS(x, gain, bias), .optional = true,
                    .integer = {groups}, .number = {epsilon});
}

EAGER_BUILD(rotary_embedding,
            compute_rotary_embedding(graph, x[0], x[1], x[2], call->integer[0] != 0))

compute_status compute_tensor_rotary_embedding(const compute_tensor *x,
                                               const compute_tensor *cosines,
                                               const compute_tensor *sines, bool interleaved,
                                               compute_tensor **result) {
  return EAGER_CALL(rotary_embedding, EAGER_OPERANDS(x, cosines, sines), .integer = {interleaved});
}

EAGER_BUILD(one_hot, compute_one_hot(graph, x[0], call->integer[0], call->dtype))

compute_status compute_tensor_one_hot(const compute_tensor *labels, int64_t classes,
                                      compute_dtype dtype, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(one_hot, EAGER_OPERANDS(labels), .integer = {classes}, .dtype = dtype);
}

/* ---- Resizing and sampling ------------------------------------------------------------------- */

EAGER_BUILD(upsample2d, compute_upsample2d(graph, x[0], call->integer[0], call->integer[1],
                                           (compute_upsample_mode)call->integer[2]))

compute_status compute_tensor_upsample2d(const compute_tensor *x, int64_t height, int64_t width,
                                         compute_upsample_mode mode, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(upsample2d, EAGER_OPERANDS(x), .integer = {height, width, mode});
}

EAGER_BUILD(resize, compute_resize(graph, x[0], call->shape, call->extra))

/* The options are copied field by field, because the padding of the caller's is arbitrary. */
compute_status compute_tensor_resize(const compute_tensor *x, compute_shape shape,
                                     const compute_resize_options *options,
                                     compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  compute_resize_options clean;
  memset(&clean, 0, sizeof clean);
  if (options) {
    clean.mode = options->mode;
    clean.coordinates = options->coordinates;
    clean.rounding = options->rounding;
    clean.antialias = options->antialias;
    clean.exclude_outside = options->exclude_outside;
    clean.cubic = options->cubic;
    memcpy(clean.scale, options->scale, sizeof clean.scale);
    memcpy(clean.reserved, options->reserved, sizeof clean.reserved);
  }
  return EAGER_CALL(resize, EAGER_OPERANDS(x), .shape = shape, .extra = &clean,
                    .extra_bytes = sizeof clean);
}

EAGER_BUILD(grid_sample,
            compute_grid_sample(graph, x[0], x[1], (compute_sample_mode)call->integer[0],
                                (compute_sample_border)call->integer[1], call->integer[2] != 0))

compute_status compute_tensor_grid_sample(const compute_tensor *x, const compute_tensor *grid,
                                          compute_sample_mode mode, compute_sample_border border,
                                          bool align_corners, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(grid_sample, EAGER_OPERANDS(x, grid), .integer = {mode, border, align_corners});
}

/* ---- Order and searching --------------------------------------------------------------------- */

EAGER_BUILD(cumulative_sum, compute_cumulative_sum(graph, x[0], call->axis, call->integer[0] != 0,
                                                   call->integer[1] != 0))

compute_status compute_tensor_cumulative_sum(const compute_tensor *x, int32_t axis, bool exclusive,
                                             bool reverse, compute_tensor **result) {
  return EAGER_CALL(cumulative_sum, EAGER_OPERANDS(x), .axis = axis,
                    .integer = {exclusive, reverse});
}

EAGER_BUILD(cumulative_product,
            compute_cumulative_product(graph, x[0], call->axis, call->integer[0] != 0,
                                       call->integer[1] != 0))

compute_status compute_tensor_cumulative_product(const compute_tensor *x, int32_t axis,
                                                 bool exclusive, bool reverse,
                                                 compute_tensor **result) {
  return EAGER_CALL(cumulative_product, EAGER_OPERANDS(x), .axis = axis,
                    .integer = {exclusive, reverse});
}

#define SORT(name)                                                                                 \
  EAGER_BUILD(name, compute_##name(graph, x[0], call->axis, call->integer[0] != 0))                \
  compute_status compute_tensor_##name(const compute_tensor *x, int32_t axis, bool descending,     \
                                       compute_tensor **result) {                                  \
    return EAGER_CALL(name, EAGER_OPERANDS(x), .axis = axis, .integer = {descending});             \
  }

SORT(sort)
SORT(argsort)

/* The positions are a plan; the values are gathered from them, as in the builder. */
static compute_node build_top_k(compute_graph *graph, const compute_node *x,
                                const eager_call *call) {
  compute_node positions = {0};
  compute_top_k(graph, x[0], call->integer[0], call->axis, call->integer[1] != 0, &positions);
  return positions;
}

compute_status compute_tensor_top_k(const compute_tensor *x, int64_t k, int32_t axis, bool smallest,
                                    compute_tensor **values, compute_tensor **positions) {
  compute_tensor *places = NULL, **result = &places;
  compute_status status =
      EAGER_CALL(top_k, EAGER_OPERANDS(x), .axis = axis, .integer = {k, smallest});
  if (!status && values) status = compute_tensor_gather_elements(x, places, axis, values);
  if (!status && positions)
    *positions = places;
  else
    compute_tensor_release(places);
  return status;
}

EAGER_BUILD(searchsorted, compute_searchsorted(graph, x[0], x[1], call->integer[0] != 0))

compute_status compute_tensor_searchsorted(const compute_tensor *sorted,
                                           const compute_tensor *values, bool right,
                                           compute_tensor **result) {
  return EAGER_CALL(searchsorted, EAGER_OPERANDS(sorted, values), .integer = {right});
}

EAGER_BUILD(histogram,
            compute_histogram(graph, x[0], call->integer[0], call->number[0], call->number[1]))

compute_status compute_tensor_histogram(const compute_tensor *x, int64_t bins, double low,
                                        double high, compute_tensor **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  return EAGER_CALL(histogram, EAGER_OPERANDS(x), .integer = {bins}, .number = {low, high});
}

EAGER_BUILD(interp, compute_interp(graph, x[0], x[1], x[2]))

compute_status compute_tensor_interp(const compute_tensor *x, const compute_tensor *xp,
                                     const compute_tensor *fp, compute_tensor **result) {
  return EAGER_CALL(interp, EAGER_OPERANDS(x, xp, fp));
}
