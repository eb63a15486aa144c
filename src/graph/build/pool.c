/* Pooling: windows of images, and the folds over whole images. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "graph/build/network.h"
#include "type/dtype.h"
#include "type/shape.h"

compute_node network_pool(compute_graph *graph, const char *operation,
                          const compute_window_attributes *geometry, compute_shape shape,
                          compute_node a, compute_node b) {
  static const graph_op ops[2][2] = {{OP_max_pool2d, OP_max_pool2d_by_data},
                                     {OP_average_pool2d, OP_average_pool2d_by_data}};
  uint32_t inputs[2];
  const size_t count = compute_node_is_valid(b) ? 2 : 1;
  if (!build_operands(graph, operation, (const compute_node[]){a, b}, count, inputs))
    return BUILD_NONE;
  graph_node node = {.op = ops[geometry->operation][geometry->by_data],
                     .dtype = build_at(graph, inputs[0])->dtype,
                     .shape = shape,
                     .constant = graph_constant_create(1, sizeof *geometry)};
  if (node.constant == NULL)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory for a node");
  memcpy(node.constant, geometry, sizeof *geometry);
  return build_node(graph, operation, &node, inputs, count);
}

/* ---- Windows ------------------------------------------------------------------------------- */

static bool fail_option(compute_graph *graph, const char *operation, const char *name,
                        int64_t value, const char *allowed) {
  graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "%s is %" PRId64 "; it must be %s",
             name, value, allowed);
  return false;
}

/* The options with their defaults filled in. */
static bool read_options(compute_graph *graph, const char *operation,
                         const compute_pool2d_options *o, compute_window_attributes *w) {
  for (int i = 0; i < 2; i++) {
    w->size[i] = i && o->size[1] == 0 ? w->size[0] : o->size[i];
    w->stride[i] = o->stride[i] != 0 ? o->stride[i] : i && o->stride[0] ? w->stride[0] : w->size[i];
    w->dilation[i] = o->dilation[i] != 0   ? o->dilation[i]
                     : i && o->dilation[0] ? w->dilation[0]
                                           : 1;
    w->padding[i] = i && o->padding[1] == -1 ? w->padding[0] : o->padding[i];
    if (w->size[i] < 1) return fail_option(graph, operation, "size", w->size[i], "at least 1");
    if (w->stride[i] < 1)
      return fail_option(graph, operation, "stride", w->stride[i], "at least 1 (0 means size)");
    if (w->dilation[i] < 1)
      return fail_option(graph, operation, "dilation", w->dilation[i], "at least 1 (0 means 1)");
    if (w->dilation[i] != 1 && w->operation == COMPUTE_WINDOW_AVERAGE)
      return fail_option(graph, operation, "dilation", w->dilation[i], "1 for averages");
    if (w->padding[i] < 0 || w->padding[i] > w->size[i] / 2)
      return fail_option(graph, operation, "padding", w->padding[i],
                         "at least 0 and at most half of size");
  }
  if (w->operation == COMPUTE_WINDOW_MAX && o->exclude_padding)
    return fail_option(graph, operation, "exclude_padding", 1, "false for maxima");
  w->count_padding = w->operation == COMPUTE_WINDOW_AVERAGE && !o->exclude_padding;
  return network_reserved(graph, operation, o->reserved, 4);
}

/* Windows along axis i, as PyTorch counts them. */
static bool count_windows(compute_graph *graph, const char *operation, const char *x, bool ceiling,
                          compute_window_attributes *w, int i) {
  int64_t reach, padded;
  if (!checked_multiply(w->size[i] - 1, w->dilation[i], &reach) || !checked_add(reach, 1, &reach) ||
      !checked_add(w->data_size[i], 2 * w->padding[i], &padded) || reach > INT64_MAX / 4 ||
      padded > INT64_MAX / 4 || w->stride[i] > INT64_MAX / 4) {
    graph_fail(graph, COMPUTE_ERROR_OVERFLOW, operation,
               "a window of %" PRId64 " with dilation %" PRId64 " on %s reaches beyond 63 bits",
               w->size[i], w->dilation[i], x);
    return false;
  }
  const int64_t left = padded - reach + (ceiling ? w->stride[i] - 1 : 0);
  int64_t count = left < 0 ? 0 : left / w->stride[i] + 1;
  if (count < 1) {
    graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
               "a window of %" PRId64 " with dilation %" PRId64 " spans %" PRId64
               " %s, more than the %" PRId64 " of x %s with padding %" PRId64,
               w->size[i], w->dilation[i], reach, i ? "columns" : "rows", padded, x, w->padding[i]);
    return false;
  }
  if (ceiling && (count - 1) * w->stride[i] >= w->data_size[i] + w->padding[i]) count--;
  w->result_size[i] = count;
  return true;
}

static compute_node pool(compute_graph *graph, const char *operation, compute_node x,
                         compute_window_operation fold, const compute_pool2d_options *options) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  if (options == NULL)
    return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation,
                      "options is NULL; the size of the windows must be given");
  const compute_shape shape = build_at(graph, input)->shape;
  compute_shape_text(shape, text, sizeof text);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, build_at(graph, input)->dtype))
    return BUILD_NONE;
  if (shape.rank != 4)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x has shape %s; it must be [batch,channels,height,width]", text);
  compute_window_attributes w;
  memset(&w, 0, sizeof w); /* compared as bytes */
  w.operation = fold;
  if (!read_options(graph, operation, options, &w)) return BUILD_NONE;
  for (int i = 0; i < 2; i++) {
    w.data_size[i] = shape.size[2 + i];
    if (!count_windows(graph, operation, text, options->ceil, &w, i)) return BUILD_NONE;
  }
  if (!build_size(graph, operation, COMPUTE_SHAPE(w.size[0], w.size[1]))) return BUILD_NONE;
  const compute_shape result =
      COMPUTE_SHAPE(shape.size[0], shape.size[1], w.result_size[0], w.result_size[1]);
  return network_pool(graph, operation, &w, result, x, BUILD_NONE);
}

compute_node compute_max_pool2d(compute_graph *graph, compute_node x,
                                const compute_pool2d_options *options) {
  return pool(graph, "max_pool2d", x, COMPUTE_WINDOW_MAX, options);
}

compute_node compute_average_pool2d(compute_graph *graph, compute_node x,
                                    const compute_pool2d_options *options) {
  return pool(graph, "average_pool2d", x, COMPUTE_WINDOW_AVERAGE, options);
}

/* ---- Whole images -------------------------------------------------------------------------- */

static bool check_images(compute_graph *graph, const char *operation, compute_node x) {
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input)) return false;
  const graph_node *node = build_at(graph, input);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, node->dtype)) return false;
  if (node->shape.rank == 4 && node->shape.size[2] > 0 && node->shape.size[3] > 0) return true;
  graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
             "x has shape %s; it must be [batch,channels,height,width] with at least one element "
             "in each image",
             compute_shape_text(node->shape, text, sizeof text));
  return false;
}

compute_node compute_global_average_pool2d(compute_graph *graph, compute_node x) {
  if (!check_images(graph, "global_average_pool2d", x)) return BUILD_NONE;
  return compute_mean(graph, x, COMPUTE_AXES(2, 3), false);
}

compute_node compute_global_max_pool2d(compute_graph *graph, compute_node x) {
  if (!check_images(graph, "global_max_pool2d", x)) return BUILD_NONE;
  return compute_max(graph, x, COMPUTE_AXES(2, 3), false);
}
