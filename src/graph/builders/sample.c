/* SPDX-License-Identifier: MIT */
/* A value between elements is a weighted sum of its neighbours. Each choice of one neighbour per
 * axis gathers one element of each channel for each point, with the same places in all channels. */
#include "graph/builders/sample.h"

#include "core/base/float_environment.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

enum { MOST_AXES = COMPUTE_MAX_RANK - 2, MOST_TAPS = 4 };

/* One neighbour along an axis, for all points. */
typedef struct tap {
  compute_node place;  /* of dtype `places`: position · stride of the axis */
  compute_node weight; /* {0}: 1 */
  compute_node inside; /* bool; {0}: true */
} tap;

typedef struct axis_taps {
  tap taps[MOST_TAPS];
  int32_t count;
} axis_taps;

typedef struct sampler {
  compute_graph *graph;
  const sample_options *options;
  compute_shape shape;  /* of x */
  compute_dtype places; /* I32 if it has room for a plane */
  bool extra;           /* planes have an element of zero after the last */
  int32_t axes;
  axis_taps taps[MOST_AXES];
} sampler;

static compute_node number(const sampler *s, compute_node like, double value) {
  return part_number(s->graph, like, value);
}

/* ---- Along one axis -------------------------------------------------------------------------- */

/* Folds positions into the data by repeated reflection. */
static compute_node mirror(const sampler *s, compute_node at, int64_t size) {
  compute_graph *graph = s->graph;
  const double shift = s->options->about_centres ? 0 : 0.5;
  const double span = s->options->about_centres ? (double)size - 1 : (double)size;
  if (span == 0) return compute_mul(graph, at, number(s, at, 0));
  const compute_node ahead = compute_abs(graph, compute_add(graph, at, number(s, at, shift)));
  const compute_node round = compute_mod(graph, ahead, number(s, at, 2 * span));
  const compute_node off = compute_abs(graph, compute_sub(graph, round, number(s, at, span)));
  return compute_sub(graph, number(s, at, span - shift), off);
}

/* The neighbour at the integer position `at`. */
static tap make_tap(const sampler *s, int32_t axis, compute_node at, compute_node weight) {
  compute_graph *graph = s->graph;
  const int64_t size = shape_at(s->shape, 2 + axis);
  const double last = (double)size - 1;
  tap made = {.weight = weight};
  if (s->options->border == COMPUTE_SAMPLE_MIRROR) at = mirror(s, at, size);
  if (s->options->border == COMPUTE_SAMPLE_ZEROS)
    made.inside = compute_logical_and(graph, compute_greater_equal(graph, at, number(s, at, 0)),
                                      compute_less_equal(graph, at, number(s, at, last)));
  /* The cast saturates and takes NaN to 0. Floats may not hold the last place of a long axis. */
  at = compute_clamp_i64(graph, compute_cast(graph, at, s->places), 0, size - 1);
  const int64_t distance = part_count(s->shape, 3 + axis, s->shape.rank);
  made.place = compute_mul(graph, at, compute_scalar_i64(graph, s->places, distance));
  return made;
}

/* The weight of the cubic convolution with a = −0.75, at distances 0 … 1 (`near`) or 1 … 2. */
static compute_node cubic_weight(const sampler *s, compute_node away, bool near) {
  static const double coefficients[2][4] = {{3, -6, 3.75, -0.75}, {1, 0, -2.25, 1.25}};
  const double *c = coefficients[near];
  compute_node weight = number(s, away, c[3]);
  for (int i = 2; i >= 0; i--)
    weight = compute_add(s->graph, compute_mul(s->graph, weight, away), number(s, away, c[i]));
  return weight;
}

static void find_taps(sampler *s, int32_t axis, compute_node at) {
  enum { FAR = 3 }; /* no tap of a point so far outside is inside */
  compute_graph *graph = s->graph;
  axis_taps *result = &s->taps[axis];
  const compute_node none = {0};
  /* The distance of an infinite coordinate to its neighbours would not be a number. */
  if (s->options->border != COMPUTE_SAMPLE_MIRROR)
    at = compute_clamp(graph, at, -FAR, (double)shape_at(s->shape, 2 + axis) - 1 + FAR);
  if (s->options->mode == COMPUTE_SAMPLE_NEAREST) {
    result->taps[0] = make_tap(s, axis, compute_round(graph, at), none);
    result->count = 1;
    return;
  }
  const bool cubic = s->options->mode == COMPUTE_SAMPLE_CUBIC;
  const compute_node left = compute_floor(graph, at), part = compute_sub(graph, at, left);
  result->count = cubic ? 4 : 2;
  for (int i = 0; i < result->count; i++) {
    const int step = cubic ? i - 1 : i;
    const compute_node place = compute_add(graph, left, number(s, at, step));
    const compute_node away = compute_abs(graph, compute_sub(graph, part, number(s, at, step)));
    const compute_node weight = cubic ? cubic_weight(s, away, step == 0 || step == 1)
                                      : compute_sub(graph, number(s, at, 1), away);
    result->taps[i] = make_tap(s, axis, place, weight);
  }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static compute_node both(compute_graph *graph, compute_node a, compute_node b,
                         compute_node (*join)(compute_graph *, compute_node, compute_node)) {
  if (!compute_node_is_valid(a) || !compute_node_is_valid(b))
    return compute_node_is_valid(a) ? a : b;
  return join(graph, a, b);
}

/* Joins one tap per axis; `choice` enumerates the combinations. */
static tap join_taps(const sampler *s, int64_t choice) {
  tap all = {.place = {0}};
  for (int32_t axis = s->axes - 1; axis >= 0; axis--) {
    const tap *one = &s->taps[axis].taps[choice % s->taps[axis].count];
    choice /= s->taps[axis].count;
    all.place = both(s->graph, all.place, one->place, compute_add);
    all.weight = both(s->graph, all.weight, one->weight, compute_mul);
    all.inside = both(s->graph, all.inside, one->inside, compute_logical_and);
  }
  return all;
}

/* [n, points] → [n, 1, points] */
static compute_node for_channels(const sampler *s, compute_node x) {
  const compute_shape shape = compute_node_shape(s->graph, x);
  return compute_reshape(s->graph, x, COMPUTE_SHAPE(shape_at(shape, 0), 1, shape_at(shape, 1)));
}

/* planes [n, c, spatial] → [n, c, points]. With a border of zeros, points outside read an extra
 * element of zero. Few points are set to zero afterwards instead, without a copy of the planes. */
static compute_node read_taps(const sampler *s, compute_node planes, const tap *t,
                              compute_dtype dtype) {
  compute_graph *graph = s->graph;
  const compute_shape shape = compute_node_shape(graph, t->place);
  const compute_shape all =
      COMPUTE_SHAPE(shape_at(shape, 0), shape_at(s->shape, 1), shape_at(shape, 1));
  compute_node place = t->place, weight = t->weight;
  if (compute_node_is_valid(t->inside)) {
    const compute_node last =
        compute_scalar_i64(graph, s->places, part_count(s->shape, 2, s->shape.rank));
    if (s->extra) place = compute_select(graph, t->inside, place, last);
    if (compute_node_is_valid(weight)) /* the weight of a NaN position is NaN */
      weight = compute_select(graph, t->inside, weight, number(s, weight, 0));
  }
  place = compute_broadcast(graph, for_channels(s, place), all);
  compute_node read = compute_gather_elements(graph, planes, place, 2);
  if (compute_node_is_valid(t->inside) && !s->extra)
    read = compute_select(graph, for_channels(s, t->inside), read,
                          compute_full(graph, compute_node_dtype(graph, read), COMPUTE_SCALAR, 0));
  if (!compute_node_is_valid(weight)) return read;
  return compute_mul(graph, part_cast(graph, read, dtype),
                     for_channels(s, part_cast(graph, weight, dtype)));
}

compute_node part_sample(compute_graph *graph, compute_node x, const compute_node *at,
                         const sample_options *options) {
  sampler s = {.graph = graph, .options = options, .shape = compute_node_shape(graph, x)};
  const compute_dtype dtype = compute_node_dtype(graph, x);
  const compute_dtype work = dtype_is_float(dtype) ? part_wide_dtype(dtype) : COMPUTE_F32;
  const int64_t spatial = part_count(s.shape, 2, s.shape.rank);
  s.places = spatial < INT32_MAX ? COMPUTE_I32 : COMPUTE_I64;
  s.axes = s.shape.rank - 2;
  int64_t choices = 1;
  for (int32_t axis = 0; axis < s.axes; axis++) {
    find_taps(&s, axis, at[axis]);
    choices *= s.taps[axis].count;
  }
  compute_node planes =
      compute_reshape(graph, x, COMPUTE_SHAPE(shape_at(s.shape, 0), shape_at(s.shape, 1), spatial));
  const compute_shape points = compute_node_shape(graph, at[0]);
  s.extra = options->border == COMPUTE_SAMPLE_ZEROS && choices * shape_at(points, 1) >= spatial;
  if (s.extra) planes = compute_embed(graph, planes, 2, spatial + 1, 0, 1);
  compute_node sum = {0};
  for (int64_t i = 0; i < choices; i++) {
    const tap one = join_taps(&s, i);
    sum = both(graph, sum, read_taps(&s, planes, &one, work), compute_add);
  }
  return part_cast(graph, sum, dtype);
}

/* ---- The operation --------------------------------------------------------------------------- */

/* Converts coordinates −1 … 1 of one axis to elements. The ends are the outermost elements'
 * centres (`corners`) or their outer edges. */
static compute_node in_elements(compute_graph *graph, compute_node at, int64_t size, bool corners) {
  const double span = (double)size - (corners ? 1 : 0), shift = corners ? 0 : -0.5;
  at = compute_add(graph, at, part_number(graph, at, 1));
  at = compute_mul(graph, at, part_number(graph, at, span / 2));
  return shift == 0 ? at : compute_add(graph, at, part_number(graph, at, shift));
}

compute_node part_grid_sample(compute_graph *graph, compute_node x, compute_node grid,
                              const sample_options *options) {
  const compute_shape from = compute_node_shape(graph, x), to = compute_node_shape(graph, grid);
  const int32_t axes = from.rank - 2;
  const int64_t batch = shape_at(from, 0), points = part_count(to, 1, to.rank - 1);
  compute_shape shape = from;
  compute_node at[COMPUTE_MAX_RANK];
  const compute_node all =
      compute_reshape(graph, part_wide(graph, grid), COMPUTE_SHAPE(batch, points, axes));
  for (int32_t axis = 0; axis < axes; axis++) {
    const compute_node one = compute_reshape(
        graph, compute_slice(graph, all, 2, axes - 1 - axis, 1, 1), COMPUTE_SHAPE(batch, points));
    at[axis] = in_elements(graph, one, shape_at(from, 2 + axis), options->about_centres);
    shape_set(&shape, 2 + axis, shape_at(to, 1 + axis));
  }
  return compute_reshape(graph, part_sample(graph, x, at, options), shape);
}

bool part_grid_fits(compute_shape x, compute_shape grid) {
  return x.rank >= 3 && grid.rank == x.rank && shape_at(grid, 0) == shape_at(x, 0) &&
         shape_at(grid, grid.rank - 1) == x.rank - 2 && part_count(x, 2, x.rank) > 0;
}

compute_node compute_grid_sample(compute_graph *graph, compute_node x, compute_node grid,
                                 compute_sample_mode mode, compute_sample_border border,
                                 bool align_corners) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  static const char operation[] = "grid_sample";
  uint32_t inputs[2];
  char text[2][BUILD_TEXT];
  if (!build_composed(graph, COMPOSITION_grid_sample, (const compute_node[]){x, grid}, 2, inputs))
    return BUILD_NONE;
  if ((unsigned)mode > COMPUTE_SAMPLE_CUBIC || (unsigned)border > COMPUTE_SAMPLE_MIRROR)
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "invalid mode %d or border %d", (int)mode, (int)border);
  const compute_shape from = build_at(graph, inputs[0])->shape;
  const compute_shape to = build_at(graph, inputs[1])->shape;
  if (!part_grid_fits(from, to))
    return graph_fail(
        graph, COMPUTE_ERROR_SHAPE, operation,
        "x %s must be [n,c,…], not empty along its images, and the grid %s [n,…,axes]",
        compute_shape_text(from, text[0], sizeof text[0]),
        compute_shape_text(to, text[1], sizeof text[1]));
  const sample_options options = {mode, border, align_corners};
  return part_grid_sample(graph, x, grid, &options);
}
