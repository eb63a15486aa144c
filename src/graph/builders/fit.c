/* SPDX-License-Identifier: MIT */
/* The builder of gaussian_fit. The node's inputs are the pixels, then the inputs that the problem
 * selects, in the order of its bits. A kernel receives them in the same order. */
#include <string.h>

#include "compute/fit.h"
#include "core/base/float_environment.h"
#include "core/kernel/common/fit_problem.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

static const char operation[] = "gaussian_fit";

enum {
  MAPS = COMPUTE_FIT_WITH_OFFSET | COMPUTE_FIT_WITH_GAIN | COMPUTE_FIT_WITH_VARIANCE |
         COMPUTE_FIT_WITH_MASK
};

/* Properties of the fit that its inputs determine. */
typedef struct fit_call {
  compute_graph *graph;
  const compute_fit_problem *problem; /* normalised */
  uint32_t nodes[1 + FIT_INPUTS];
  size_t count;
  bool frames;           /* the pixels are whole frames */
  int64_t rois;          /* number of ROIs */
  int64_t height, width; /* of frames and maps; 0: still unknown */
} fit_call;

static bool fail(fit_call *call, compute_status status, const char *name, const char *what,
                 const graph_node *node) {
  char text[BUILD_TEXT];
  return graph_refuse(call->graph, status, operation, "%s of shape %s in %s: %s", name,
                      compute_shape_text(node->shape, text, sizeof text),
                      compute_dtype_name(node->dtype), what);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* The spline was added later: callers built against an older header lack it. */
static compute_node input_at(const compute_fit_nodes *inputs, int32_t number) {
  if (number == FIT_SPLINE_INPUT) return inputs->spline;
  const compute_node nodes[FIT_SPLINE_INPUT] = {inputs->corners,  inputs->offset, inputs->gain,
                                                inputs->variance, inputs->mask,   inputs->sigma,
                                                inputs->start,    inputs->lower,  inputs->upper};
  return nodes[number];
}

static bool resolve(fit_call *call, compute_node pixels, const compute_fit_nodes *inputs) {
  static const compute_fit_nodes none;
  if (!inputs) inputs = &none;
  call->count = 1;
  if (!build_operands(call->graph, operation, &pixels, 1, call->nodes)) return false;
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    if ((call->problem->inputs >> i & 1) == 0) continue;
    const compute_node node = input_at(inputs, i);
    if (!compute_node_is_valid(node)) {
      return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                          "problem->inputs includes %s, but the node is missing",
                          fit_input_name(i));
    }
    if (!build_operands(call->graph, operation, &node, 1, &call->nodes[call->count++]))
      return false;
  }
  return true;
}

/* The node of an input of the problem, or NULL. */
static const graph_node *input_node(const fit_call *call, uint32_t bit) {
  const int32_t at = fit_input_index(call->problem->inputs, bit);
  return at < 0 ? NULL : build_at(call->graph, call->nodes[at]);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static bool check_pixels(fit_call *call) {
  const graph_node *pixels = build_at(call->graph, call->nodes[0]);
  const compute_fit_problem *p = call->problem;
  const compute_shape *shape = &pixels->shape;
  if (pixels->dtype != COMPUTE_F32 && pixels->dtype != COMPUTE_U16)
    return fail(call, COMPUTE_ERROR_DTYPE, "pixels", "they must be f32 or u16", pixels);
  if (shape->rank != 3)
    return fail(call, COMPUTE_ERROR_SHAPE, "pixels",
                call->frames ? "they must be [frames, height, width]"
                             : "they must be [n, rows, columns]",
                pixels);
  if (call->frames) {
    call->height = shape->size[1];
    call->width = shape->size[2];
    if (call->height >= p->rows && call->width >= p->columns && shape->size[0] <= INT32_MAX &&
        call->height <= INT32_MAX && call->width <= INT32_MAX)
      return true;
    return fail(call, COMPUTE_ERROR_SHAPE, "pixels",
                "frames must be at least as large as an ROI, and every size must fit into 31 bits",
                pixels);
  }
  call->rois = shape->size[0];
  if (shape->size[1] == p->rows && shape->size[2] == p->columns) return true;
  return fail(call, COMPUTE_ERROR_SHAPE, "pixels",
              "they must be [n, problem->rows, problem->columns]", pixels);
}

static bool check_corners(fit_call *call) {
  const graph_node *corners = input_node(call, COMPUTE_FIT_WITH_CORNERS);
  if (!corners) return true;
  if (corners->dtype != COMPUTE_I32)
    return fail(call, COMPUTE_ERROR_DTYPE, "corners", "they must be i32", corners);
  if (corners->shape.rank != 2 || corners->shape.size[1] != 3)
    return fail(call, COMPUTE_ERROR_SHAPE, "corners", "they must be [n, 3]", corners);
  if (call->frames) {
    call->rois = corners->shape.size[0];
    return true;
  }
  if ((call->problem->inputs & MAPS) == 0) {
    return graph_refuse(call->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "corners of a stack place its ROIs in maps, but there is no map");
  }
  if (corners->shape.size[0] == call->rois || corners->shape.size[0] == 1) return true;
  return fail(call, COMPUTE_ERROR_SHAPE, "corners", "there must be one for each ROI of the stack",
              corners);
}

/* A map is [rows, columns] for all ROIs, or [n, rows, columns]. With corners it has the size of the
 * frames; the first map of a stack with corners determines that size. */
static bool check_map(fit_call *call, int32_t number) {
  const graph_node *map = input_node(call, UINT32_C(1) << number);
  const char *name = fit_input_name(number);
  if (!map) return true;
  const compute_shape *shape = &map->shape;
  const bool corners = (call->problem->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  if (map->dtype != fit_input_dtype(number))
    return fail(call, COMPUTE_ERROR_DTYPE, name,
                number == 4 ? "a mask must be u8" : "a map must be f32", map);
  if (shape->rank != 2 && shape->rank != 3)
    return fail(call, COMPUTE_ERROR_SHAPE, name, "a map must be [rows, columns]", map);
  const int64_t height = shape->size[shape->rank - 2], width = shape->size[shape->rank - 1];
  if (call->height == 0 && corners) {
    if (height < call->problem->rows || width < call->problem->columns || height > INT32_MAX ||
        width > INT32_MAX)
      return fail(call, COMPUTE_ERROR_SHAPE, name, "a map must be at least as large as an ROI",
                  map);
    call->height = height;
    call->width = width;
  }
  if (height != call->height || width != call->width) {
    char text[BUILD_TEXT];
    return graph_refuse(call->graph, COMPUTE_ERROR_SHAPE, operation,
                        "%s of shape %s: a map must have the size of the %s, %lld × %lld", name,
                        compute_shape_text(*shape, text, sizeof text),
                        call->frames ? "frames"
                        : corners    ? "other maps"
                                     : "ROIs",
                        (long long)call->height, (long long)call->width);
  }
  if (shape->rank == 2 || shape->size[0] == 1 || (!corners && shape->size[0] == call->rois))
    return true;
  return fail(call, COMPUTE_ERROR_SHAPE, name, "there must be one map, or one for each ROI", map);
}

/* [n, width], or [1, width] for all ROIs. */
static bool check_rows(fit_call *call, int32_t number, int32_t width) {
  const graph_node *rows = input_node(call, UINT32_C(1) << number);
  const char *name = fit_input_name(number);
  if (!rows) return true;
  if (rows->dtype != COMPUTE_F32)
    return fail(call, COMPUTE_ERROR_DTYPE, name, "it must be f32", rows);
  if (rows->shape.rank == 2 && rows->shape.size[1] == width &&
      (rows->shape.size[0] == call->rois || rows->shape.size[0] == 1))
    return true;
  return fail(call, COMPUTE_ERROR_SHAPE, name,
              width == 2 ? "it must be [n, 2]" : "it must be [n, parameters]", rows);
}

static bool check_spline(fit_call *call) {
  const graph_node *spline = input_node(call, COMPUTE_FIT_WITH_SPLINE);
  const int32_t *cells = call->problem->cells;
  if (!spline) return true;
  if (spline->dtype != COMPUTE_F32)
    return fail(call, COMPUTE_ERROR_DTYPE, "spline", "it must be f32", spline);
  if (spline->shape.rank == 2 && spline->shape.size[0] == (int64_t)cells[0] * cells[1] * cells[2] &&
      spline->shape.size[1] == COMPUTE_FIT_SPLINE_COEFFICIENTS)
    return true;
  return fail(call, COMPUTE_ERROR_SHAPE, "spline",
              "it must be [problem->cells[0] · cells[1] · cells[2], 64]", spline);
}

static bool check_inputs(fit_call *call) {
  const int32_t parameters = compute_fit_parameter_count(call->problem->model);
  if (!check_pixels(call) || !check_corners(call)) return false;
  if ((call->problem->inputs & COMPUTE_FIT_WITH_CORNERS) == 0) {
    call->height = call->problem->rows;
    call->width = call->problem->columns;
  }
  for (int32_t i = FIT_MAP_FIRST; i < FIT_SINGLE_FIRST; i++)
    if (!check_map(call, i)) return false;
  for (int32_t i = FIT_SINGLE_FIRST; i < FIT_SPLINE_INPUT; i++)
    if (!check_rows(call, i, i == FIT_SINGLE_FIRST ? 2 : parameters)) return false;
  return check_spline(call);
}

/* ---- The node -------------------------------------------------------------------------------- */

static bool check_problem(compute_graph *graph, const compute_fit_problem *problem) {
  char reason[256];
  if (!problem) {
    return graph_refuse(graph, COMPUTE_ERROR_NULL_POINTER, operation, "problem is NULL");
  }
  if (!fit_problem_check(problem, reason, sizeof reason)) {
    return graph_refuse(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "problem->%s", reason);
  }
  if (problem->rows * problem->columns >= fit_problem_free_count(problem)) return true;
  return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                      "an ROI of %d × %d has fewer pixels than the %d free parameters",
                      (int)problem->rows, (int)problem->columns,
                      (int)fit_problem_free_count(problem));
}

compute_node compute_gaussian_fit(compute_graph *graph, compute_node pixels,
                                  const compute_fit_problem *problem,
                                  const compute_fit_nodes *inputs) {
  FLOAT_ENVIRONMENT_DEFAULT;
  if (!build_start(graph, operation) || !check_problem(graph, problem)) return BUILD_NONE;
  const compute_fit_problem normal = fit_problem_normalize(problem);
  fit_call call = {.graph = graph, .problem = &normal};
  call.frames = (normal.inputs & COMPUTE_FIT_WITH_CORNERS) && !(normal.flags & COMPUTE_FIT_STACK);
  if (!resolve(&call, pixels, inputs) || !check_inputs(&call)) return BUILD_NONE;
  graph_node node = {
      .op = OP_gaussian_fit,
      .dtype = COMPUTE_F32,
      .shape = COMPUTE_SHAPE(call.rois, compute_fit_column(normal.model, normal.outputs, 0))};
  node.constant = graph_constant_create(1, sizeof normal);
  if (!node.constant)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "out of memory");
  memcpy(node.constant, &normal, sizeof normal);
  return build_node(graph, operation, &node, call.nodes, call.count);
}
