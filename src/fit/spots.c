/* SPDX-License-Identifier: MIT */
/* The search for spots as a graph: band-pass filter, noise of each frame, local maxima, threshold.
 *
 * The search is recorded in two forms. One is the operation find_spots, for devices with a kernel
 * for it (kernel kind SPOTS). The other is composed of the graph's other operations, so that it
 * runs on every device. Both give the same spots: the kernel computes the sums of the composed form
 * term by term. Only the sums for the noise estimate may round differently.
 *
 * The composed form is arranged for the planner's fusion. The frames are padded with their edges
 * once, in their own dtype, wide enough for all later steps. A filter's pass along one axis is a
 * sum of shifted slices, which are free. The whole sum becomes one kernel, or several if it has
 * more terms than a kernel has operands. No term is used by two stored sums, since that would store
 * the term also.
 *
 * Outside the frame, the filtered image is set to zero. A spot is positive, so nothing outside
 * hides a spot at the border. */
#include "compute/backend/fit_kinds.h"
#include "compute/spots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/builders/build.h"

/* A filter has about sigma · 15 terms. Each term is several nodes of the graph. */
#define SPOT_MOST_SIGMA    50
#define SPOT_MOST_DISTANCE 100

static const char operation[] = "find_spots";

/* Constants of the noise estimate. The noise is the root mean square of all values within CLIP
 * times the noise. The estimate starts with the mean absolute value and takes ROUNDS rounds. For
 * normal noise, CLIPPED is the fraction of the standard deviation that remains after clipping, and
 * SIZE is the standard deviation over the mean absolute value. QUIET limits how far the noise can
 * fall below the first estimate, which matters in images without noise. */
#define CLIP          2.5
#define CLIPPED       0.9546038
#define SIZE          1.2533141
#define QUIET         1e-3
#define ROUGH         6.0
#define MOST_VARIANCE 1e30 /* its multiples are finite in f32 */
/* TILE is large enough to estimate the noise to a few per cent, and small enough for a background
 * that varies. In frames of at least HALVED pixels, every second row is sufficient. */
enum { ROUNDS = 3, TILE = 24, HALVED = 1 << 14 };

/* The wide Gaussian's sigma over the narrow one's. A larger ratio estimates a constant background
 * better, but follows a varying one less well. Measured for 400 photons on a background of 200: the
 * best filter for a known background gives 6 standard deviations, this ratio 5.5 and a ratio of two
 * 5.2. */
#define WIDE 3.0

/* The cut-off of the Gaussians, in units of their sigma. The wide one only estimates a
 * background. */
#define CUT      3.0
#define CUT_WIDE 2.0
enum { LONGEST = 18 * SPOT_MOST_SIGMA }; /* > 2 (CUT + CUT_WIDE WIDE) sigma, both rounded up */

/* Finds 400 photons on a background of up to 300, and hardly anything else:
 * docs/guide/fitting.md. */
#define USUAL_THRESHOLD 4.2

typedef struct finder {
  compute_graph *graph;
  compute_shape shape;
  bool whole; /* the frames are integers */
  int32_t distance;
  int32_t margin; /* padding of the frames on each side */
  double threshold;
  double gain;        /* of the filter, for white noise */
  compute_node edges; /* variance of the filtered noise at each pixel, relative to gain² */
  compute_spots_attributes search;
} finder;

/* ---- Small things -------------------------------------------------------------------------- */

static compute_node number(const finder *f, double value) {
  return compute_scalar(f->graph, COMPUTE_F32, value);
}

static compute_node part(const finder *f, compute_node x, int32_t axis, int64_t start,
                         int64_t count) {
  return compute_slice(f->graph, x, axis, start, count, 1);
}

static compute_node inner(const finder *f, compute_node x, int32_t margin) {
  const compute_shape shape = compute_node_shape(f->graph, x);
  x = part(f, x, 1, margin, shape_at(shape, 1) - 2 * margin);
  return part(f, x, 2, margin, shape_at(shape, 2) - 2 * margin);
}

/* ---- Padding the frames -------------------------------------------------------------------- */

static compute_node continue_axis(const finder *f, compute_node x, int32_t axis) {
  compute_shape border = compute_node_shape(f->graph, x);
  const int64_t size = shape_at(border, axis);
  shape_set(&border, axis, f->margin);
  const compute_node parts[] = {compute_broadcast(f->graph, part(f, x, axis, 0, 1), border), x,
                                compute_broadcast(f->graph, part(f, x, axis, size - 1, 1), border)};
  return compute_concat(f->graph, parts, 3, axis);
}

/* Returns 1 in the frame and 0 in `distance` elements before and after it, along one axis. */
static compute_node frame_mask(const finder *f, int32_t axis) {
  compute_shape shape = COMPUTE_SHAPE(1, 1, 1);
  const int64_t size = shape_at(f->shape, axis);
  shape_set(&shape, axis, size);
  return compute_embed(f->graph, compute_full(f->graph, COMPUTE_F32, shape, 1), axis,
                       size + 2 * (int64_t)f->distance, f->distance, 1);
}

/* ---- Filters ------------------------------------------------------------------------------- */

/* Adds the elements at distance `shift` and −shift from the `count` elements of the result.
 * Integers are added as integers, which is exact and saves a conversion. */
static compute_node pair(const finder *f, compute_node x, int32_t axis, int32_t radius,
                         int32_t shift, int64_t count) {
  const bool whole = compute_node_dtype(f->graph, x) != COMPUTE_F32;
  compute_node sum = {0};
  for (int32_t side = -1; side <= 1; side += 2) {
    if (shift == 0 && side > 0) break;
    compute_node one = part(f, x, axis, radius + side * shift, count);
    if (whole) one = compute_cast(f->graph, one, COMPUTE_I32);
    sum = side < 0 ? one : compute_add(f->graph, sum, one);
  }
  return whole ? compute_cast(f->graph, sum, COMPUTE_F32) : sum;
}

static double gaussian(double sigma, int32_t at) {
  return at == 0 ? 1 : exp(-0.5 * at * at / (sigma * sigma));
}

static compute_node blur_axis(const finder *f, compute_node x, int32_t axis, double sigma,
                              int32_t radius) {
  const int64_t count = shape_at(compute_node_shape(f->graph, x), axis) - 2 * (int64_t)radius;
  double total = 1;
  for (int32_t i = 1; i <= radius; i++) total += 2 * gaussian(sigma, i);
  compute_node sum = {0};
  for (int32_t i = 0; i <= radius; i++) {
    const compute_node term = compute_mul(f->graph, pair(f, x, axis, radius, i, count),
                                          number(f, gaussian(sigma, i) / total));
    sum = i == 0 ? term : compute_add(f->graph, sum, term);
  }
  return sum;
}

static compute_node blur(const finder *f, compute_node x, double sigma, int32_t radius) {
  return blur_axis(f, blur_axis(f, x, 1, sigma, radius), 2, sigma, radius);
}

/* Both parts of a filter along one axis. Its response is a(y) a(x) − b(y) b(x). */
typedef struct parts {
  int32_t reach;
  double a[LONGEST], b[LONGEST]; /* 2 reach + 1 */
} parts;

static void gaussian_parts(double sigma, int32_t radius, double more, int32_t wide, parts *p) {
  double total = 0, wide_total = 0;
  memset(p, 0, sizeof *p);
  p->reach = radius + wide;
  for (int32_t i = -radius; i <= radius; i++) total += gaussian(sigma, i);
  for (int32_t i = -wide; i <= wide; i++) wide_total += gaussian(more, i);
  for (int32_t i = -radius; i <= radius; i++) {
    p->a[p->reach + i] = gaussian(sigma, i) / total;
    for (int32_t k = -wide; k <= wide; k++)
      p->b[p->reach + i + k] += gaussian(sigma, i) / total * gaussian(more, k) / wide_total;
  }
}

static void box_parts(int32_t radius, int32_t wide, parts *p) {
  memset(p, 0, sizeof *p);
  p->reach = wide;
  for (int32_t i = -radius; i <= radius; i++) p->a[wide + i] = 1.0 / (2 * radius + 1);
  for (int32_t i = -wide; i <= wide; i++) p->b[wide + i] = 1.0 / (2 * wide + 1);
}

/* [pixels, 3]: compute_spots_edges of each pixel of an axis, divided by `unit`. Pixels far from
 * both ends use the middle of an axis that has the filter's length. */
static compute_node axis_edges(const finder *f, const parts *p, int64_t pixels, double unit,
                               double sign) {
  compute_graph *g = f->graph;
  const int64_t whole = 2 * (int64_t)p->reach + 1, rows = pixels < whole ? pixels : whole;
  double sums[3 * LONGEST];
  float table[3 * LONGEST];
  compute_spots_edges(p->a, p->b, p->reach, rows, sums);
  for (int64_t i = 0; i < 3 * rows; i++)
    table[i] = (float)(sums[i] / unit * (i % 3 == 1 ? sign : 1));
  const compute_node edges = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(rows, 3), table);
  if (pixels == rows) return edges;
  const compute_node at = compute_index(g, COMPUTE_I64, COMPUTE_SHAPE(pixels), 0);
  const compute_node middle = compute_scalar_i64(g, COMPUTE_I64, p->reach);
  const compute_node last = compute_scalar_i64(g, COMPUTE_I64, pixels - 1 - p->reach);
  const compute_node behind =
      compute_sub(g, compute_maximum(g, at, last), last); /* position within the far end */
  return compute_gather(g, edges, compute_add(g, compute_minimum(g, at, middle), behind), 0);
}

/* Computes the response of the filter to white noise of size 1. `gain` is the noise far inside a
 * frame. `edges` [height, width] is the variance at each pixel relative to gain². */
static void find_noise(finder *f, const parts *p) {
  double inner[3 * LONGEST];
  const int64_t whole = 2 * (int64_t)p->reach + 1;
  compute_spots_edges(p->a, p->b, p->reach, whole, inner);
  const double *middle = inner + 3 * (int64_t)p->reach;
  f->gain = sqrt(middle[0] * middle[0] - 2 * middle[1] * middle[1] + middle[2] * middle[2]);
  const compute_node down = axis_edges(f, p, shape_at(f->shape, 1), f->gain, -2);
  const compute_node along = axis_edges(f, p, shape_at(f->shape, 2), f->gain, 1);
  f->edges = compute_matmul(f->graph, down, compute_transpose(f->graph, along, COMPUTE_AXES(1, 0)));
}

/* A Gaussian of sigma minus a wide one. The wide one blurs the first one again. */
static compute_node gaussians(finder *f, compute_node frames, double sigma) {
  const double more = sqrt(WIDE * WIDE - 1) * sigma;
  const int32_t radius = (int32_t)ceil(CUT * sigma), wide = (int32_t)ceil(CUT_WIDE * more);
  f->margin = radius + wide + f->distance;
  f->search.radius = radius;
  f->search.wide_radius = wide;
  f->search.sigma = sigma;
  f->search.wide_sigma = more;
  parts both;
  gaussian_parts(sigma, radius, more, wide, &both);
  find_noise(f, &both);
  compute_node x = continue_axis(f, continue_axis(f, frames, 1), 2);
  x = blur(f, x, sigma, radius);
  return compute_sub(f->graph, inner(f, x, wide), blur(f, x, more, wide));
}

/* Sums of 2 · radius + 1 elements. The smaller radius is an intermediate result of the larger one,
 * so one kernel computes both. */
static compute_node box_axis(const finder *f, compute_node x, int32_t axis, int32_t from,
                             int32_t to, int32_t margin, compute_node sum) {
  const int64_t count = shape_at(compute_node_shape(f->graph, x), axis) - 2 * (int64_t)margin;
  for (int32_t i = from; i <= to; i++) {
    const compute_node term = pair(f, x, axis, margin, i, count);
    sum = i == 0 ? term : compute_add(f->graph, sum, term);
  }
  return sum;
}

/* The mean of a small square minus the mean of a large one, with odd sides near 2 and 8 sigma. A
 * square of 4 sigma would also contain most of the spot, and leave a tenth of its light. */
static compute_node boxes(finder *f, compute_node frames, double sigma) {
  const int32_t radius = (int32_t)fmax(0, round(sigma - 0.5));
  const int32_t wide = (int32_t)fmax(radius + 1, round(4 * sigma - 0.5));
  const double side = 2 * radius + 1, wide_side = 2 * wide + 1;
  f->margin = wide + f->distance;
  f->search.radius = radius;
  f->search.wide_radius = wide;
  parts both;
  box_parts(radius, wide, &both);
  find_noise(f, &both);
  const compute_node x = continue_axis(f, continue_axis(f, frames, 1), 2), none = {0};
  const compute_node rows = box_axis(f, x, 1, 0, radius, wide, none);
  const compute_node wide_rows = box_axis(f, x, 1, radius + 1, wide, wide, rows);
  const compute_node small = box_axis(f, rows, 2, 0, radius, wide, none);
  const compute_node large = box_axis(f, wide_rows, 2, 0, wide, wide, none);
  return compute_sub(f->graph, compute_mul(f->graph, small, number(f, 1 / (side * side))),
                     compute_mul(f->graph, large, number(f, 1 / (wide_side * wide_side))));
}

/* ---- Noise --------------------------------------------------------------------------------- */

/* Computes before − 2 · here + behind without a multiplication. */
static compute_node curvature(const finder *f, const compute_node at[3]) {
  const compute_node twice = compute_add(f->graph, at[1], at[1]);
  return compute_sub(f->graph, compute_add(f->graph, at[0], at[2]), twice);
}

static int64_t sample_step(const finder *f) {
  return shape_at(f->shape, 1) * shape_at(f->shape, 2) >= HALVED ? 2 : 1;
}

/* The absolute value of the second difference along columns of the second difference along rows,
 * for every step-th row. If the noise of the pixels is independent, as in cameras, the result has
 * ROUGH times the noise of a pixel. It nearly removes features as smooth as spots, so that a frame
 * full of spots has the noise of an empty one (Immerkær, "Fast noise variance estimation",
 * 1996). */
static compute_node roughness(const finder *f, compute_node frames) {
  const int64_t height = shape_at(f->shape, 1), width = shape_at(f->shape, 2),
                step = sample_step(f);
  compute_node column[3], row[3];
  for (int32_t j = 0; j < 3; j++) {
    const compute_node shifted = part(f, frames, 2, j, width - 2);
    for (int32_t i = 0; i < 3; i++) {
      row[i] = compute_slice(f->graph, shifted, 1, i, (height - 3) / step + 1, step);
      if (f->whole) row[i] = compute_cast(f->graph, row[i], COMPUTE_I32);
    }
    column[j] = curvature(f, row);
  }
  const compute_node rough = compute_abs(f->graph, curvature(f, column));
  return f->whole ? compute_cast(f->graph, rough, COMPUTE_F32) : rough;
}

/* Divides the samples along one axis into tiles. The axis becomes two axes: tiles, and the samples
 * of a tile. Tiles may overlap. */
static compute_node in_tiles(const finder *f, compute_node x, int32_t axis,
                             const compute_spots_tiles *t) {
  compute_graph *g = f->graph;
  compute_shape shape = compute_node_shape(g, x);
  if (t->count > 1) {
    const compute_shape table = COMPUTE_SHAPE(t->count, t->size);
    const compute_node room = compute_scalar_i64(g, COMPUTE_I64, t->samples - t->size);
    const compute_node gaps = compute_scalar_i64(g, COMPUTE_I64, t->count - 1);
    const compute_node start =
        compute_div(g, compute_mul(g, compute_index(g, COMPUTE_I64, table, 0), room), gaps);
    return compute_gather(g, x, compute_add(g, start, compute_index(g, COMPUTE_I64, table, 1)),
                          axis);
  }
  for (int32_t i = shape.rank++; i > axis; i--) shape_set(&shape, i, shape_at(shape, i - 1));
  shape_set(&shape, axis, 1);
  return compute_reshape(g, x, shape);
}

/* [pixels, tiles]: the weight of each tile's value at each pixel. */
static compute_node tile_weights(const finder *f, int64_t pixels, const compute_spots_tiles *t) {
  compute_graph *g = f->graph;
  const compute_shape table = COMPUTE_SHAPE(pixels, t->count);
  compute_node at = compute_index(g, COMPUTE_F32, table, 0);
  at = compute_sub(g, at, number(f, t->origin));
  at = compute_div(g, at, number(f, t->apart)); /* exact in the middle of a tile */
  at = compute_maximum(g, at, number(f, 0));
  at = compute_minimum(g, at, number(f, (double)(t->count - 1)));
  const compute_node away =
      compute_abs(g, compute_sub(g, at, compute_index(g, COMPUTE_F32, table, 1)));
  return compute_maximum(g, compute_sub(g, number(f, 1), away), number(f, 0));
}

static compute_node over_tile(const finder *f, compute_node x,
                              compute_node (*fold)(compute_graph *, compute_node, compute_axes,
                                                   bool)) {
  return fold(f->graph, x, COMPUTE_AXES(2, 4), true);
}

/* Variances of the filtered frames, [n, tiles down, tiles along]. NaN is ignored. The two sums of a
 * round express the same condition in two ways, because a node shared by two reductions would be
 * stored. */
static compute_node tile_variances(const finder *f, compute_node frames,
                                   const compute_spots_tiles *down,
                                   const compute_spots_tiles *along) {
  compute_graph *g = f->graph;
  const compute_node zero = number(f, 0), one = number(f, 1);
  const compute_node x = in_tiles(f, in_tiles(f, roughness(f, frames), 1, down), 3, along);
  const compute_node sure = compute_select(g, compute_is_finite(g, x), x, zero);
  const compute_node first = compute_mul(g, over_tile(f, sure, compute_mean), number(f, SIZE));
  const compute_node least = compute_mul(g, first, number(f, QUIET));
  compute_node noise = first;
  for (int32_t i = 0; i < ROUNDS; i++) {
    const compute_node limit = compute_mul(g, noise, number(f, CLIP));
    const compute_node within = compute_select(g, compute_less_equal(g, x, limit), x, zero);
    const compute_node counted = compute_select(g, compute_greater_equal(g, limit, x), one, zero);
    const compute_node power = over_tile(f, compute_square(g, within), compute_sum);
    const compute_node count = over_tile(f, counted, compute_sum);
    const compute_node mean = compute_div(g, power, compute_maximum(g, count, one));
    noise = compute_mul(g, compute_sqrt(g, mean), number(f, 1 / CLIPPED));
    noise = compute_maximum(g, noise, least);
  }
  noise = compute_mul(g, noise, number(f, f->gain / ROUGH));
  const compute_node variance =
      compute_minimum(g, compute_square(g, noise), number(f, MOST_VARIANCE));
  return compute_reshape(g, variance,
                         COMPUTE_SHAPE(shape_at(f->shape, 0), down->count, along->count));
}

/* 1 / noise of the filtered frames at each pixel; 0 where there is no noise. */
static compute_node inverse_noise(const finder *f, compute_node frames) {
  compute_graph *g = f->graph;
  const compute_spots_tiles down =
      compute_spots_tiles_of(shape_at(f->shape, 1), sample_step(f), TILE);
  const compute_spots_tiles along = compute_spots_tiles_of(shape_at(f->shape, 2), 1, TILE);
  compute_node variance = tile_variances(f, frames, &down, &along);
  if (along.count > 1)
    variance = compute_matmul(
        g, variance,
        compute_transpose(g, tile_weights(f, shape_at(f->shape, 2), &along), COMPUTE_AXES(1, 0)));
  if (down.count > 1)
    variance = compute_matmul(g, tile_weights(f, shape_at(f->shape, 1), &down), variance);
  variance = compute_mul(g, variance, f->edges);
  return compute_select(g, compute_greater(g, variance, number(f, 0)), compute_rsqrt(g, variance),
                        number(f, 0));
}

/* ---- Maxima -------------------------------------------------------------------------------- */

/* The maximum of slices from … to − 1 along an axis, and of `most` if it is a node. */
static compute_node maximum_of(const finder *f, compute_node most, compute_node x, int32_t axis,
                               int32_t from, int32_t to, int64_t count) {
  for (int32_t i = from; i < to; i++) {
    const compute_node next = part(f, x, axis, i, count);
    most = most.id == 0 ? next : compute_maximum(f->graph, most, next);
  }
  return most;
}

/* A pixel is a maximum if it is larger than all pixels before it in its square, in row-major order,
 * and not smaller than the pixels after it. So a square contains at most one spot, and equal
 * neighbours make one spot. */
static compute_node is_maximum(const finder *f, compute_node filtered) {
  const int64_t height = shape_at(f->shape, 1), width = shape_at(f->shape, 2);
  const int32_t d = f->distance, all = 2 * d + 1;
  const compute_node none = {0};
  const compute_node rows = maximum_of(f, none, filtered, 2, 0, all, width);
  const compute_node line = part(f, filtered, 1, d, height);
  compute_node before = maximum_of(f, none, line, 2, 0, d, width);
  before = maximum_of(f, before, rows, 1, 0, d, height);
  compute_node behind = maximum_of(f, none, line, 2, d + 1, all, width);
  behind = maximum_of(f, behind, rows, 1, d + 1, all, height);
  const compute_node here = part(f, line, 2, d, width);
  return compute_logical_and(f->graph, compute_greater(f->graph, here, before),
                             compute_greater_equal(f->graph, here, behind));
}

/* ---- The whole ----------------------------------------------------------------------------- */

/* Returns the error in the options as text, or NULL. */
static const char *spot_options_refusal(const compute_spot_options *options) {
  if (!options) return "options is NULL";
  if (options->filter != COMPUTE_SPOT_GAUSSIANS && options->filter != COMPUTE_SPOT_BOXES)
    return "unknown filter";
  if (!(options->sigma > 0 && options->sigma <= SPOT_MOST_SIGMA))
    return "sigma must be above 0 and at most 50 pixels";
  if (!(options->threshold >= 0 && options->threshold < INFINITY))
    return "the threshold must not be negative";
  if (options->distance < 0 || options->distance > SPOT_MOST_DISTANCE)
    return "the distance must be from 0 to 100 pixels";
  if (options->limit < 0) return "the limit must not be negative";
  return NULL;
}

static bool accept(compute_graph *graph, compute_node frames, const compute_spot_options *options,
                   finder *f) {
  uint32_t input;
  if (!build_operands(graph, operation, &frames, 1, &input)) return false;
  const char *refusal = spot_options_refusal(options);
  if (refusal) {
    return graph_refuse(graph,
                        options ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_NULL_POINTER,
                        operation, "%s", refusal);
  }
  if (!graph_check_reserved(graph, operation, "options", options->reserved)) return false;
  const graph_node *node = build_at(graph, input);
  if (node->dtype != COMPUTE_U16 && node->dtype != COMPUTE_F32) {
    return graph_refuse(graph, COMPUTE_ERROR_DTYPE, operation,
                        "the frames are %s; they must be u16 or f32 (compute_cast converts)",
                        compute_dtype_name(node->dtype));
  }
  int64_t count = 0;
  if (node->shape.rank == 3) (void)compute_shape_count(node->shape, &count);
  if (count == 0 || shape_at(node->shape, 1) < 3 || shape_at(node->shape, 2) < 3) {
    char text[BUILD_TEXT];
    return graph_refuse(graph, COMPUTE_ERROR_SHAPE, operation,
                        "needs frames [n, height, width] of at least 3 × 3 pixels, not %s",
                        compute_shape_text(node->shape, text, sizeof text));
  }
  *f = (finder){.graph = graph,
                .shape = node->shape,
                .whole = node->dtype == COMPUTE_U16,
                .search.filter = options->filter == COMPUTE_SPOT_BOXES,
                .distance =
                    options->distance ? options->distance : (int32_t)ceil(2 * options->sigma),
                .threshold = options->threshold > 0 ? options->threshold : USUAL_THRESHOLD};
  return true;
}

/* Records the operation for the kernel SPOTS, with the parameters of the composed form. */
static compute_node as_kernel(const finder *f, compute_node frames, compute_node composed) {
  uint32_t inputs[2];
  const compute_node operands[] = {frames, composed};
  if (!build_operands(f->graph, operation, operands, 2, inputs)) return BUILD_NONE;
  compute_spots_attributes search = f->search;
  search.distance = f->distance;
  search.threshold = f->threshold;
  search.step = sample_step(f);
  search.rounds = ROUNDS;
  search.first = SIZE;
  search.clip = CLIP;
  search.scale = 1 / CLIPPED;
  search.least = QUIET;
  search.gain = f->gain / ROUGH;
  search.tile = TILE;
  graph_node node = {.op = OP_find_spots,
                     .dtype = build_at(f->graph, inputs[1])->dtype,
                     .shape = f->shape,
                     .constant = graph_constant_create(1, sizeof search)};
  if (!node.constant)
    return graph_fail(f->graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for a node");
  memcpy(node.constant, &search, sizeof search);
  return build_node(f->graph, operation, &node, inputs, 2);
}

/* Returns `x` inside the frame, and 0 outside for any value of `x`. */
static compute_node framed(const finder *f, compute_node x) {
  const compute_node mask = compute_mul(f->graph, frame_mask(f, 1), frame_mask(f, 2));
  return compute_select(f->graph, compute_greater(f->graph, mask, number(f, 0)), x, number(f, 0));
}

compute_node compute_find_spots(compute_graph *graph, compute_node frames,
                                const compute_spot_options *options, compute_node *response) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  finder f;
  if (response) *response = BUILD_NONE;
  if (!accept(graph, frames, options, &f)) return BUILD_NONE;
  compute_node filtered = options->filter == COMPUTE_SPOT_BOXES
                              ? boxes(&f, frames, options->sigma)
                              : gaussians(&f, frames, options->sigma);
  filtered = framed(&f, filtered);
  const compute_node image = inner(&f, filtered, f.distance);
  const compute_node scaled = compute_mul(graph, image, inverse_noise(&f, frames));
  const compute_node spots =
      compute_logical_and(graph, is_maximum(&f, filtered),
                          compute_greater_equal(graph, scaled, number(&f, f.threshold)));
  const compute_node shown = response ? as_kernel(&f, frames, scaled) : BUILD_NONE;
  const compute_node found = as_kernel(&f, frames, spots);
  if (graph->status) return BUILD_NONE;
  if (response) *response = shown;
  return found;
}

/* ---- Corners of ROIs from marked pixels ---------------------------------------------------- */

static const char operation_corners[] = "compute_spot_corners";

/* From marked pixels to corners of ROIs, on the host. Most bytes are zero, so memchr makes the pass
 * at memory speed. */

typedef struct spot {
  float response;
  int64_t pixel;
} spot;

typedef struct corner_list {
  int64_t height, width;
  int32_t rows, columns;
  int32_t *corners;
  int64_t capacity, count;
  spot *kept; /* a heap with the dimmest spot first; NULL without a limit */
  int64_t limit;
} corner_list;

/* Returns the first pixel of an ROI whose middle is the spot, or is as near to it as the frame
 * allows. */
static int32_t corner(int64_t spot_at, int32_t side, int64_t size) {
  int64_t first = spot_at - side / 2;
  if (first > size - side) first = size - side;
  return (int32_t)(first > 0 ? first : 0);
}

static void add_corner(corner_list *list, int64_t frame, int64_t pixel) {
  if (list->count < list->capacity) {
    int32_t *to = list->corners + 3 * list->count;
    to[0] = (int32_t)frame;
    to[1] = corner(pixel / list->width, list->rows, list->height);
    to[2] = corner(pixel % list->width, list->columns, list->width);
  }
  list->count++;
}

/* Returns the next marked pixel at or after `from`, or `pixels`. */
static int64_t next_spot(const bool *spots, int64_t from, int64_t pixels) {
  const bool *found = from < pixels ? memchr(spots + from, 1, (size_t)(pixels - from)) : NULL;
  return found ? found - spots : pixels;
}

/* ---- The brightest of a frame -------------------------------------------------------------- */

/* Of equally bright spots, the first counts as brighter, so that the choice is always the same. */
static bool is_dimmer(const spot *a, const spot *b) {
  if (a->response != b->response) return a->response < b->response;
  return a->pixel > b->pixel;
}

static void sift_down(spot *heap, int64_t count, int64_t at) {
  for (int64_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
    if (child + 1 < count && is_dimmer(&heap[child + 1], &heap[child])) child++;
    if (!is_dimmer(&heap[child], &heap[at])) return;
    const spot other = heap[at];
    heap[at] = heap[child];
    heap[child] = other;
  }
}

static int by_pixel(const void *a, const void *b) {
  const int64_t p = ((const spot *)a)->pixel, q = ((const spot *)b)->pixel;
  return p < q ? -1 : p > q;
}

static void add_brightest(corner_list *list, int64_t frame, const bool *spots,
                          const float *response) {
  const int64_t pixels = list->height * list->width;
  int64_t kept = 0;
  for (int64_t p = next_spot(spots, 0, pixels); p < pixels; p = next_spot(spots, p + 1, pixels)) {
    const spot found = {isnan(response[p]) ? -INFINITY : response[p], p};
    if (kept < list->limit) {
      list->kept[kept++] = found;
      if (kept == list->limit)
        for (int64_t i = kept / 2; i-- > 0;) sift_down(list->kept, kept, i);
    } else if (is_dimmer(&list->kept[0], &found)) {
      list->kept[0] = found;
      sift_down(list->kept, kept, 0);
    }
  }
  qsort(list->kept, (size_t)kept, sizeof *list->kept, by_pixel);
  for (int64_t i = 0; i < kept; i++) add_corner(list, frame, list->kept[i].pixel);
}

/* ---- compute_spot_corners ------------------------------------------------------------------ */

static compute_status check(compute_context *context, const compute_spot_options *options,
                            const bool *spots, const float *response, int64_t frames,
                            int64_t height, int64_t width, int32_t rows, int32_t columns,
                            int64_t first_frame, const int32_t *corners, int64_t capacity) {
  const char *refusal = spot_options_refusal(options);
  if (refusal)
    return error_set(context, options ? COMPUTE_ERROR_INVALID_ARGUMENT : COMPUTE_ERROR_NULL_POINTER,
                     operation_corners, "%s", refusal);
  compute_status status =
      error_if_reserved(context, operation_corners, "options", options->reserved);
  if (status) return status;
  if (!spots || (!corners && capacity > 0))
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_corners, "%s is NULL",
                     spots ? "corners" : "spots");
  if (options->limit > 0 && !response)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_corners,
                     "response is NULL, but the limit of %lld spots needs it to find the brightest",
                     (long long)options->limit);
  int64_t pixels;
  status = compute_shape_count(COMPUTE_SHAPE(frames, height, width), &pixels);
  if (status) return status;
  if (rows < 1 || columns < 1 || rows > height || columns > width)
    return error_set(context, COMPUTE_ERROR_SHAPE, operation_corners,
                     "ROIs of %d × %d pixels do not fit into frames of %lld × %lld", (int)rows,
                     (int)columns, (long long)height, (long long)width);
  if (capacity < 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation_corners,
                     "capacity is %lld; it must not be negative", (long long)capacity);
  if (height > INT32_MAX || width > INT32_MAX || first_frame < 0 ||
      first_frame > INT32_MAX - frames)
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation_corners,
                     "frame %lld + %lld of %lld × %lld pixels exceeds the i32 of the corners",
                     (long long)first_frame, (long long)frames, (long long)height,
                     (long long)width);
  return COMPUTE_OK;
}

compute_status compute_spot_corners(compute_context *context, const compute_spot_options *options,
                                    const bool *spots, const float *response, int64_t frames,
                                    int64_t height, int64_t width, int32_t rows, int32_t columns,
                                    int64_t first_frame, int32_t *corners, int64_t capacity,
                                    int64_t *count) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  if (!count)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation_corners, "count is NULL");
  *count = 0;
  const compute_status status = check(context, options, spots, response, frames, height, width,
                                      rows, columns, first_frame, corners, capacity);
  if (status) return status;
  const int64_t pixels = height * width;
  corner_list list = {.height = height,
                      .width = width,
                      .rows = rows,
                      .columns = columns,
                      .corners = corners,
                      .capacity = capacity,
                      .limit = options->limit < pixels ? options->limit : pixels};
  if (list.limit > 0) {
    list.kept = base_allocate((uint64_t)list.limit, sizeof *list.kept);
    if (!list.kept)
      return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation_corners,
                       "not enough memory to choose %lld spots of a frame", (long long)list.limit);
  }
  for (int64_t i = 0; i < frames; i++) {
    const bool *marks = spots + i * pixels;
    if (list.limit > 0) {
      add_brightest(&list, first_frame + i, marks, response + i * pixels);
      continue;
    }
    for (int64_t p = next_spot(marks, 0, pixels); p < pixels; p = next_spot(marks, p + 1, pixels))
      add_corner(&list, first_frame + i, p);
  }
  base_release(list.kept);
  *count = list.count;
  if (list.count > capacity)
    return error_set(context, COMPUTE_ERROR_OVERFLOW, operation_corners,
                     "%lld spots, but the capacity is %lld", (long long)list.count,
                     (long long)capacity);
  return COMPUTE_OK;
}
