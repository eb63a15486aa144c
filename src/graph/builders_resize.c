/* Padding and enlarging images, made of joins, gathers and views. */
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "graph/network.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

/* What takes the place of position i along an axis. */
typedef int64_t position_rule(int64_t i, const void *user);

/* The slices of x at rule(0) … rule(count − 1). */
static compute_node pick(compute_graph *graph, const char *operation, compute_node x, int32_t axis,
                         int64_t count, position_rule *rule, const void *user) {
  int64_t *positions = base_allocate((size_t)count, sizeof *positions);
  if (!positions) {
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "no memory for %" PRId64 " positions", count);
  }
  for (int64_t i = 0; i < count; i++) positions[i] = rule(i, user);
  const compute_node index = compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE(count), positions);
  base_release(positions);
  return compute_gather(graph, x, index, axis);
}

/* ---- Padding ------------------------------------------------------------------------------- */

typedef struct pad_call {
  compute_graph *graph;
  compute_node x;
  compute_dtype dtype;
  compute_shape shape;
  int32_t axis;
  int64_t before, after, total;
} pad_call;

/* Zeros need no tensor beside x. */
static compute_node pad_constant(const pad_call *p, double value) {
  if (value == 0 && !signbit(value))
    return compute_embed(p->graph, p->x, p->axis, p->total, p->before, 1);
  compute_shape shape = p->shape;
  compute_node parts[3];
  size_t count = 0;
  shape.size[p->axis] = p->before;
  if (p->before > 0) parts[count++] = compute_full(p->graph, p->dtype, shape, value);
  parts[count++] = p->x;
  shape.size[p->axis] = p->after;
  if (p->after > 0) parts[count++] = compute_full(p->graph, p->dtype, shape, value);
  return compute_concat(p->graph, parts, count, p->axis);
}

static compute_node repeat_edge(const pad_call *p, int64_t position, int64_t count) {
  compute_shape shape = p->shape;
  shape.size[p->axis] = count;
  return compute_broadcast(p->graph, compute_slice(p->graph, p->x, p->axis, position, 1, 1), shape);
}

static compute_node pad_edge(const pad_call *p) {
  compute_node parts[3];
  size_t count = 0;
  if (p->before > 0) parts[count++] = repeat_edge(p, 0, p->before);
  parts[count++] = p->x;
  if (p->after > 0) parts[count++] = repeat_edge(p, p->shape.size[p->axis] - 1, p->after);
  return compute_concat(p->graph, parts, count, p->axis);
}

static int64_t reflected(int64_t i, const void *user) {
  const pad_call *p = user;
  const int64_t size = p->shape.size[p->axis], at = i - p->before;
  return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
}

static bool check_pad(const pad_call *p, compute_pad_mode mode) {
  char text[BUILD_TEXT];
  const int64_t size = p->shape.size[p->axis];
  compute_shape_text(p->shape, text, sizeof text);
  if (mode == COMPUTE_PAD_CONSTANT) return true;
  if (mode == COMPUTE_PAD_EDGE && (size > 0 || p->before + p->after == 0)) return true;
  if (mode == COMPUTE_PAD_REFLECT && p->before < size && p->after < size) return true;
  if (mode == COMPUTE_PAD_EDGE) {
    graph_fail(p->graph, COMPUTE_ERROR_SHAPE, "pad", "%s has no edge to repeat along axis %d", text,
               (int)p->axis);
  } else if (mode == COMPUTE_PAD_REFLECT) {
    graph_fail(p->graph, COMPUTE_ERROR_SHAPE, "pad",
               "%" PRId64 " and %" PRId64 " reflected elements need an axis larger than either; "
               "axis %d of %s has %" PRId64,
               p->before, p->after, (int)p->axis, text, size);
  } else {
    graph_fail(p->graph, COMPUTE_ERROR_INVALID_ARGUMENT, "pad",
               "%d is no mode; modes are COMPUTE_PAD_CONSTANT, _EDGE and _REFLECT", (int)mode);
  }
  return false;
}

compute_node compute_pad(compute_graph *graph, compute_node x, int32_t axis, int64_t before,
                         int64_t after, compute_pad_mode mode, double value) {
  BUILD_ALL_OR_NOTHING(graph);
  uint32_t input;
  pad_call p = {.graph = graph, .x = x, .before = before, .after = after};
  if (!build_operands(graph, "pad", &x, 1, &input)) return BUILD_NONE;
  p.dtype = build_at(graph, input)->dtype;
  p.shape = build_at(graph, input)->shape;
  if (!build_axis(graph, "pad", p.shape, axis, &p.axis)) return BUILD_NONE;
  if (before < 0 || after < 0) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, "pad",
                      "before is %" PRId64 " and after %" PRId64 "; they must be at least 0",
                      before, after);
  }
  if (!checked_add(p.shape.size[p.axis], before, &p.total) ||
      !checked_add(p.total, after, &p.total)) {
    return graph_fail(graph, COMPUTE_ERROR_OVERFLOW, "pad",
                      "the padded axis cannot be counted in 63 bits");
  }
  if (!check_pad(&p, mode)) return BUILD_NONE;
  if (before == 0 && after == 0) return x;
  if (mode == COMPUTE_PAD_CONSTANT) return pad_constant(&p, value);
  if (mode == COMPUTE_PAD_EDGE) return pad_edge(&p);
  return pick(graph, "pad", x, p.axis, p.total, reflected, &p);
}

/* ---- Upsampling ---------------------------------------------------------------------------- */

/* One axis made `to` elements long. */
typedef struct resize {
  int64_t from, to;
} resize;

static int64_t nearest(int64_t i, const void *user) {
  const resize *r = user;
  const int64_t at = (int64_t)floor((double)i * ((double)r->from / (double)r->to));
  return at < r->from ? at : r->from - 1;
}

/* The middle of result pixel i, counted in middles of the operand's pixels. */
static double middle(int64_t i, const resize *r) {
  const double at = ((double)i + 0.5) * ((double)r->from / (double)r->to) - 0.5;
  return at > 0 ? at : 0;
}

static int64_t left(int64_t i, const void *user) {
  const resize *r = user;
  const int64_t at = (int64_t)middle(i, r);
  return at < r->from ? at : r->from - 1;
}

static int64_t right(int64_t i, const void *user) {
  const resize *r = user;
  const int64_t at = left(i, user);
  return at + 1 < r->from ? at + 1 : at;
}

/* Whole factors repeat pixels, which is a view and a copy; its gradient is a sum of neighbours. */
static compute_node repeat_pixels(compute_graph *graph, compute_node x, int32_t axis, int64_t to) {
  compute_shape shape = compute_node_shape(graph, x), apart = {.rank = shape.rank + 1}, whole;
  for (int32_t i = 0; i <= shape.rank; i++)
    apart.size[i] = i <= axis ? shape.size[i] : i == axis + 1 ? 1 : shape.size[i - 1];
  whole = apart;
  whole.size[axis + 1] = to / shape.size[axis];
  shape.size[axis] = to;
  compute_node repeated = compute_broadcast(graph, compute_reshape(graph, x, apart), whole);
  return compute_reshape(graph, repeated, shape);
}

/* Between two neighbours, each weighted by how near it is. */
static compute_node interpolate(compute_graph *graph, compute_node x, int32_t axis,
                                const resize *r) {
  const compute_dtype dtype = compute_node_dtype(graph, x);
  double *weights = base_allocate((size_t)r->to, sizeof *weights);
  if (!weights)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, "upsample2d", "no memory for weights");
  for (int64_t i = 0; i < r->to; i++) weights[i] = middle(i, r) - (double)left(i, r);
  compute_node weight = compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(r->to), weights);
  base_release(weights);
  if (dtype != COMPUTE_F64) weight = compute_cast(graph, weight, dtype);
  weight = network_along(graph, weight, axis, 4);
  compute_node a = pick(graph, "upsample2d", x, axis, r->to, left, r);
  compute_node b = pick(graph, "upsample2d", x, axis, r->to, right, r);
  return compute_add(graph, a, compute_mul(graph, compute_sub(graph, b, a), weight));
}

compute_node compute_upsample2d(compute_graph *graph, compute_node x, int64_t height, int64_t width,
                                compute_upsample_mode mode) {
  BUILD_ALL_OR_NOTHING(graph);
  const char *operation = "upsample2d";
  const int64_t sizes[2] = {height, width};
  uint32_t input;
  char text[BUILD_TEXT];
  if (!build_operands(graph, operation, &x, 1, &input)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  const compute_shape shape = build_at(graph, input)->shape;
  compute_shape_text(shape, text, sizeof text);
  if (!build_domain(graph, operation, DOMAIN_FLOAT, dtype)) return BUILD_NONE;
  if (mode != COMPUTE_UPSAMPLE_NEAREST && mode != COMPUTE_UPSAMPLE_BILINEAR) {
    return graph_fail(graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                      "%d is no mode; modes are COMPUTE_UPSAMPLE_NEAREST and _BILINEAR", (int)mode);
  }
  if (shape.rank != 4 || shape.size[2] < 1 || shape.size[3] < 1 || height < 1 || width < 1) {
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, operation,
                      "x %s to %" PRId64 " × %" PRId64 "; x must be [batch,channels,height,width], "
                      "and no image empty",
                      text, height, width);
  }
  const bool bilinear = mode == COMPUTE_UPSAMPLE_BILINEAR, wide = bilinear && dtype != COMPUTE_F64;
  if (wide && dtype != COMPUTE_F32) x = compute_cast(graph, x, COMPUTE_F32);
  /* Columns first: they cost more than rows, which lie side by side, and are fewer before those. */
  for (int32_t i = 1; i >= 0 && !graph->status; i--) {
    const resize r = {.from = shape.size[2 + i], .to = sizes[i]};
    if (r.from == r.to) continue;
    x = bilinear             ? interpolate(graph, x, 2 + i, &r)
        : r.to % r.from == 0 ? repeat_pixels(graph, x, 2 + i, r.to)
                             : pick(graph, operation, x, 2 + i, r.to, nearest, &r);
  }
  return wide && dtype != COMPUTE_F32 ? compute_cast(graph, x, dtype) : x;
}
