/* SPDX-License-Identifier: MIT */
/* Convolutions in all three directions, forward with fused epilogues, with operands in any layout,
 * gradients and gradients of gradients. */
#include <math.h>
#include <stdlib.h>

#include "graph/builders/build.h"
#include "support/harness/gradient.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

typedef enum direction { FORWARD, TRANSPOSE, BY_FILTER } direction;
typedef enum behind { NOTHING, BIAS, BIAS_RELU, NORM_RESIDUAL, VIEWED } behind;

typedef struct conv_case {
  const char *name;
  compute_shape x, filter;
  compute_conv2d_options options;
  direction what;
  behind behind;
} conv_case;

static const compute_node none = {0, 0};

/* The filter's gradient from the data and an operand of the result's shape. */
static compute_node by_filter(compute_graph *graph, const conv_case *c, const compute_node *x) {
  const compute_node w = compute_full(graph, compute_node_dtype(graph, x[0]), c->filter, 0);
  const compute_node y = compute_conv2d(graph, x[0], w, none, &c->options);
  if (graph->status) return none;
  compute_conv_attributes geometry = *network_convolution(build_at(graph, y.id - 1));
  geometry.direction = COMPUTE_CONVOLUTION_BY_FILTER;
  return network_convolve(graph, "by_filter", &geometry, x[0], x[1]);
}

static compute_node build(compute_graph *graph, const compute_node *x, const void *user) {
  const conv_case *c = user;
  if (c->what == BY_FILTER) return by_filter(graph, c, x);
  if (c->what == TRANSPOSE)
    return compute_conv2d_transpose(graph, x[0], x[1], c->behind == NOTHING ? none : x[2],
                                    &c->options);
  switch (c->behind) {
  case NOTHING: return compute_conv2d(graph, x[0], x[1], none, &c->options);
  case BIAS: return compute_conv2d(graph, x[0], x[1], x[2], &c->options);
  case BIAS_RELU: return compute_relu(graph, compute_conv2d(graph, x[0], x[1], x[2], &c->options));
  case NORM_RESIDUAL: {
    const compute_node y = compute_conv2d(graph, x[0], x[1], none, &c->options);
    const compute_node norm =
        compute_batch_norm(graph, y, x[2], compute_square(graph, x[2]), x[2], x[2], 0.5);
    return compute_relu(graph, compute_add(graph, norm, x[3]));
  }
  case VIEWED: break;
  }
  const compute_node turned = compute_transpose(graph, x[0], COMPUTE_AXES(0, 1, 3, 2));
  const compute_node part = compute_slice(graph, turned, 2, 1, 5, 2);
  return compute_conv2d(graph, part, compute_transpose(graph, x[1], COMPUTE_AXES(1, 0, 3, 2)), none,
                        &c->options);
}

#define S2   .options.stride = {2}
#define P1   .options.padding = {1, -1}
#define G(n) .options.groups = n

static const conv_case cases[] = {
    {"1x1", SHAPE(2, 5, 4, 3), SHAPE(7, 5, 1, 1), .what = FORWARD},
    {"3x3", SHAPE(2, 3, 7, 6), SHAPE(4, 3, 3, 3), .what = FORWARD},
    {"3x3 padded", SHAPE(2, 3, 7, 6), SHAPE(4, 3, 3, 3), P1},
    {"3x3 stride 2", SHAPE(2, 3, 9, 8), SHAPE(4, 3, 3, 3), P1, S2},
    {"5x3 uneven", SHAPE(1, 2, 9, 11), SHAPE(3, 2, 5, 3),
     .options = {.stride = {1, 2}, .dilation = {1, 3}, .padding = {2, 1}}},
    {"padding of each side", SHAPE(2, 3, 7, 6), SHAPE(4, 3, 3, 3),
     .options = {.padding = {1, 0}, .padding_more = {1, 2}}},
    {"padding behind", SHAPE(2, 3, 9, 8), SHAPE(4, 3, 3, 3), S2, .options.padding_more = {1, 2}},
    {"padding in front, dilated", SHAPE(1, 4, 7, 9), SHAPE(4, 2, 3, 3),
     .options = {.dilation = {1, 2}, .padding = {2, 4}, .padding_more = {-2, -4}, .groups = 2}},
    {"dilated", SHAPE(1, 2, 9, 9), SHAPE(3, 2, 3, 3),
     .options = {.dilation = {2}, .padding = {2, 2}}},
    {"groups", SHAPE(2, 4, 6, 5), SHAPE(6, 2, 3, 3), P1, G(2)},
    {"depthwise", SHAPE(2, 5, 6, 7), SHAPE(5, 1, 3, 3), P1, G(5)},
    {"depthwise, two each", SHAPE(1, 3, 6, 7), SHAPE(6, 1, 3, 3), P1, G(3)},
    {"depthwise, one element", SHAPE(2, 5, 6, 7), SHAPE(5, 1, 1, 1), G(5)},
    {"depthwise, one element, every second", SHAPE(2, 5, 6, 7), SHAPE(5, 1, 1, 1), S2, G(5)},
    {"depthwise, the image's size", SHAPE(3, 5, 4, 7), SHAPE(5, 1, 4, 7), G(5)},
    {"depthwise, one dilated column", SHAPE(2, 5, 4, 1), SHAPE(5, 1, 4, 1),
     .options = {.dilation = {1, 3}, .groups = 5}},
    {"one dimension", SHAPE(2, 3, 1, 31), SHAPE(4, 3, 1, 5), .options = {.padding = {0, 2}}},
    {"filter of the image's size", SHAPE(3, 2, 4, 5), SHAPE(3, 2, 4, 5), .what = FORWARD},
    {"no images", SHAPE(0, 3, 4, 4), SHAPE(2, 3, 3, 3), .what = FORWARD},
    {"no filters", SHAPE(2, 3, 4, 4), SHAPE(0, 3, 3, 3), .what = FORWARD},
    {"no channels", SHAPE(2, 0, 4, 4), SHAPE(2, 0, 3, 3), .what = FORWARD},
};

static void run_case(const conv_case *c, compute_dtype dtype, guarded_layout layout,
                     guarded_layout result) {
  static const char *const names[] = {"conv2d", "conv2d_by_data", "conv2d_by_filter"};
  const double unit = dtype == COMPUTE_F64 ? 0x1p-52 : 0x1p-23;
  const double half = dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
  double terms = (double)c->filter.size[1] * (double)c->filter.size[2] * (double)c->filter.size[3];
  if (c->what == TRANSPOSE) terms *= (double)c->filter.size[0];
  if (c->what == BY_FILTER) terms = (double)(c->x.size[0] * c->x.size[2] * c->x.size[3]);
  /* All cases share one name, and a spread run selects some of them; their shapes distinguish
   * them. */
  operation_case sample = {.name = c->behind == NOTHING ? names[c->what] : "conv2d, followed",
                           .build = build,
                           .user = c,
                           .operand_count = 2,
                           .result_layout = result,
                           .tolerance = {.ulp = 2, .atol = unit * (terms + 8)},
                           .operation = c->behind == NOTHING ? names[c->what] : NULL};
  /* Winograd's algorithm adds and subtracts more. Devices may use it within this tolerance. */
  if (c->behind != NOTHING) {
    sample.tolerance.rtol = 4 * half + 16 * unit;
    sample.tolerance.atol = 4 * sample.tolerance.atol + 8 * half * sqrt(terms + 1);
    sample.operand_count = c->behind == NORM_RESIDUAL ? 4 : c->behind == VIEWED ? 2 : 3;
  }
  sample.operand[0] = (operation_operand){dtype, c->x, FILL_RANGE, -1, 1, layout};
  sample.operand[1] = (operation_operand){dtype, c->filter, FILL_RANGE, -1, 1, layout};
  const int64_t channels = c->what == TRANSPOSE
                               ? c->filter.size[1] * (c->options.groups ? c->options.groups : 1)
                               : c->filter.size[0];
  sample.operand[2] =
      (operation_operand){dtype, SHAPE(channels), FILL_RANGE, 0.25, 1, LAYOUT_DENSE};
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, dtype, c->x),
                     w = compute_input(graph, dtype, c->filter);
  if (c->what == BY_FILTER || c->behind == NORM_RESIDUAL) {
    const compute_shape y =
        compute_node_shape(graph, compute_conv2d(graph, x, w, none, &c->options));
    sample.operand[c->what == BY_FILTER ? 1 : 3] =
        (operation_operand){dtype, y, FILL_RANGE, -1, 1, layout};
  }
  assert_ok(compute_graph_status(graph));
  compute_graph_release(graph);
  operation_check(test_context, &sample);
}

static void check_all(direction what, guarded_layout layout, guarded_layout result) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    conv_case c = cases[i];
    c.what = what;
    if (what == TRANSPOSE) { /* the forward result becomes the transposed input */
      compute_graph *graph = compute_graph_create(test_context);
      const compute_node x = compute_input(graph, COMPUTE_F32, c.x);
      const compute_node w = compute_input(graph, COMPUTE_F32, c.filter);
      c.x = compute_node_shape(graph, compute_conv2d(graph, x, w, none, &c.options));
      compute_graph_release(graph);
    }
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++)
      run_case(&c, *dtype, layout, result);
  }
}

static void convolutions_of_every_shape_match(void **state) {
  (void)state;
  check_all(FORWARD, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void transposed_convolutions_match(void **state) {
  (void)state;
  check_all(TRANSPOSE, LAYOUT_DENSE, LAYOUT_DENSE);
  const conv_case padded = {
      "output padding",  SHAPE(1, 3, 4, 5),
      SHAPE(3, 2, 3, 3), .options = {.stride = {2}, .padding = {1, 1}, .output_padding = {1, 0}},
      .what = TRANSPOSE, .behind = BIAS};
  run_case(&padded, COMPUTE_F32, LAYOUT_DENSE, LAYOUT_DENSE);
  run_case(&padded, COMPUTE_F64, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void gradients_by_filter_match(void **state) {
  (void)state;
  check_all(BY_FILTER, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void operands_and_results_of_any_layout_match(void **state) {
  (void)state;
  static const guarded_layout results[] = {LAYOUT_PADDED, LAYOUT_TRANSPOSED, LAYOUT_STEPPED,
                                           LAYOUT_WRAPPED};
  for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++)
    for (size_t i = 2; i < 5; i++)
      for (int way = FORWARD; way <= BY_FILTER; way += BY_FILTER) {
        conv_case c = cases[i];
        c.what = (direction)way;
        run_case(&c, COMPUTE_F32, (guarded_layout)layout, results[(i + (size_t)layout) % 4]);
      }
  operation_finish();
}

static void what_follows_a_convolution_matches(void **state) {
  (void)state;
  static const conv_case followed[] = {
      {"conv + bias", SHAPE(2, 3, 7, 6), SHAPE(4, 3, 3, 3), P1, .behind = BIAS},
      {"conv + bias + relu", SHAPE(2, 3, 7, 6), SHAPE(4, 3, 3, 3), P1, S2, .behind = BIAS_RELU},
      {"conv + norm + residual", SHAPE(2, 3, 7, 6), SHAPE(4, 3, 3, 3), P1, .behind = NORM_RESIDUAL},
      {"conv of views", SHAPE(2, 3, 7, 12), SHAPE(3, 4, 3, 2), P1, .behind = VIEWED},
  };
  for (size_t i = 0; i < sizeof followed / sizeof *followed; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++)
      run_case(&followed[i], *dtype, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

/* Bias, normalisation, residual and activation need no separate step. */
static void a_normalised_convolution_is_one_kernel_and_its_scales(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 3, 8, 8));
  const compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 3, 3, 3));
  const compute_node v = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_conv2d_options options = {.padding = {1, 1}};
  const compute_node y = compute_conv2d(graph, x, w, v, &options);
  const compute_node norm = compute_batch_norm(graph, y, v, v, v, v, 1e-5);
  const compute_node out = compute_relu(graph, compute_add(graph, norm, x));
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_true(info.steps <= 3);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

/* ---- Convolutions of 8-bit integers ---------------------------------------------------------- */

typedef enum zero_kind { ZERO_NONE, ZERO_KNOWN, ZERO_GIVEN, ZERO_EACH, ZERO_MIDDLE } zero_kind;

typedef struct byte_case {
  const conv_case *shapes;
  compute_dtype x, filter;
  zero_kind x_zero, filter_zero;
  bool constant; /* the filter */
} byte_case;

static const conv_case byte_cases[] = {
    {"3x3 padded, wide", SHAPE(2, 19, 7, 6), SHAPE(33, 19, 3, 3), P1},
    {"first layer", SHAPE(1, 3, 15, 13), SHAPE(16, 3, 7, 7),
     .options = {.stride = {2}, .padding = {3, -1}}},
    {"wide, uneven", SHAPE(1, 32, 9, 11), SHAPE(24, 16, 3, 2),
     .options = {.stride = {1, 2},
                 .dilation = {2, 1},
                 .padding = {1, 0},
                 .padding_more = {1, 2},
                 .groups = 2}},
    {"1x1, strided", SHAPE(2, 24, 9, 8), SHAPE(17, 24, 1, 1), S2},
};

static compute_node sums_of_bytes(compute_graph *graph, const compute_node *x, const void *user) {
  const conv_case *c = user;
  return compute_conv2d_integer(graph, x[0], x[1], none, none, &c->options);
}

static void plain_sums_of_bytes_match(void **state) {
  (void)state;
  static const compute_dtype bytes[] = {COMPUTE_U8, COMPUTE_I8};
  enum { FEW = sizeof cases / sizeof *cases, MORE = sizeof byte_cases / sizeof *byte_cases };
  for (size_t i = 0; i < FEW + MORE; i++)
    for (int k = 0; k < 4; k++) {
      const conv_case *c = i < FEW ? &cases[i] : &byte_cases[i - FEW];
      operation_case sample = {.name = "conv2d_integer",
                               .build = sums_of_bytes,
                               .user = c,
                               .operand_count = 2,
                               .operation = "conv2d_integer"};
      const guarded_layout layout = i % 3 == 1 ? LAYOUT_TRANSPOSED : LAYOUT_DENSE;
      sample.operand[0] = (operation_operand){bytes[k / 2], c->x, FILL_SPECIAL, -128, 255, layout};
      sample.operand[1] =
          (operation_operand){bytes[k % 2], c->filter, FILL_SPECIAL, -128, 255, LAYOUT_DENSE};
      operation_check(test_context, &sample);
    }
  operation_finish();
}

typedef struct byte_graph {
  compute_graph *graph;
  compute_binding bindings[8];
  size_t count;
  test_random random;
} byte_graph;

/* Random bytes around `middle`, as a constant or an input. */
static compute_node byte_operand(byte_graph *b, compute_dtype dtype, compute_shape shape,
                                 bool constant, int spread, int middle) {
  int64_t count;
  assert_ok(compute_shape_count(shape, &count));
  unsigned char *data = malloc((size_t)count + 1);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++)
    data[i] =
        (unsigned char)(middle + (spread ? test_random_integer(&b->random, -spread, spread) : 0));
  compute_node node;
  if (constant) {
    node = compute_constant(b->graph, dtype, shape, data);
  } else {
    node = compute_input(b->graph, dtype, shape);
    b->bindings[b->count++] =
        (compute_binding){node, test_tensor(test_context, dtype, shape, data)};
  }
  free(data);
  return node;
}

static compute_node byte_zero(byte_graph *b, zero_kind kind, compute_dtype dtype, int64_t filters) {
  const bool each = kind == ZERO_EACH;
  if (kind == ZERO_NONE) return none;
  if (kind == ZERO_MIDDLE)
    return byte_operand(b, dtype, COMPUTE_SHAPE(filters), true, 0, dtype == COMPUTE_U8 ? 128 : 0);
  return byte_operand(b, dtype, each ? COMPUTE_SHAPE(filters) : COMPUTE_SHAPE(1),
                      kind == ZERO_KNOWN, 90, dtype == COMPUTE_U8 ? 128 : 0);
}

static compute_node real_less(byte_graph *b, compute_node x, compute_node zero, int32_t along) {
  compute_graph *graph = b->graph;
  const compute_node real = compute_cast(graph, x, COMPUTE_F64);
  if (!network_given(zero)) return real;
  compute_node less = compute_cast(graph, zero, COMPUTE_F64);
  less = compute_node_shape(graph, zero).size[0] == 1 ? compute_reshape(graph, less, COMPUTE_SCALAR)
                                                      : network_along(graph, less, along, 4);
  return compute_sub(graph, real, less);
}

/* The results equal those in f64, which represents all of these sums exactly. */
static void check_bytes(const byte_case *c, uint64_t seed) {
  byte_graph b = {.graph = compute_graph_create(test_context), .random = {.state = seed}};
  compute_graph *graph = b.graph;
  const int64_t filters = c->shapes->filter.size[0];
  const compute_node x = byte_operand(&b, c->x, c->shapes->x, false, 127, 128);
  const compute_node w = byte_operand(&b, c->filter, c->shapes->filter, c->constant, 127, 128);
  const compute_node x_zero = byte_zero(&b, c->x_zero, c->x, 1);
  const compute_node w_zero = byte_zero(&b, c->filter_zero, c->filter, filters);
  const compute_node y = compute_conv2d_integer(graph, x, w, x_zero, w_zero, &c->shapes->options);
  const compute_node real = compute_conv2d(graph, real_less(&b, x, x_zero, 1),
                                           real_less(&b, w, w_zero, 0), none, &c->shapes->options);
  const compute_node outputs[2] = {y, compute_cast(graph, real, COMPUTE_I32)};
  assert_ok(compute_graph_status(graph));
  assert_int_equal(compute_node_dtype(graph, y), COMPUTE_I32);
  compute_plan *plan = test_compile(graph, outputs, 2, 0);
  const compute_shape shape = compute_node_shape(graph, y);
  const size_t inputs = b.count;
  for (int i = 0; i < 2; i++)
    b.bindings[b.count++] =
        (compute_binding){outputs[i], test_tensor(test_context, COMPUTE_I32, shape, NULL)};
  assert_ok(compute_run(plan, b.bindings, b.count, NULL));
  int64_t count;
  assert_ok(compute_shape_count(shape, &count));
  int32_t *values = malloc(2 * (size_t)count * sizeof *values + 1);
  assert_non_null(values);
  for (int i = 0; i < 2; i++)
    assert_ok(compute_tensor_read(b.bindings[inputs + (size_t)i].tensor, values + i * count,
                                  (size_t)count * sizeof *values));
  for (int64_t i = 0; i < count; i++)
    if (values[i] != values[count + i])
      fail_msg("%s, zero points %d and %d, dtypes %s and %s: %d instead of %d at %lld",
               c->shapes->name, (int)c->x_zero, (int)c->filter_zero, compute_dtype_name(c->x),
               compute_dtype_name(c->filter), values[i], values[count + i], (long long)i);
  free(values);
  for (size_t i = 0; i < b.count; i++) compute_tensor_release(b.bindings[i].tensor);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void zero_points_of_convolutions_are_exact(void **state) {
  (void)state;
  static const compute_dtype bytes[] = {COMPUTE_U8, COMPUTE_I8};
  static const zero_kind kinds[][2] = {
      {ZERO_KNOWN, ZERO_NONE},   {ZERO_GIVEN, ZERO_KNOWN}, {ZERO_NONE, ZERO_GIVEN},
      {ZERO_KNOWN, ZERO_MIDDLE}, {ZERO_KNOWN, ZERO_EACH},  {ZERO_GIVEN, ZERO_NONE},
      {ZERO_NONE, ZERO_MIDDLE},
  };
  enum { FEW = sizeof cases / sizeof *cases, MORE = sizeof byte_cases / sizeof *byte_cases };
  uint64_t seed = 1;
  for (size_t i = 0; i < FEW + MORE; i++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++, seed++) {
      if (seed % (test_spread() * test_samples()) != 0) continue;
      const byte_case c = {i < FEW ? &cases[i] : &byte_cases[i - FEW],
                           bytes[seed % 2],
                           bytes[seed / 2 % 2],
                           kinds[k][0],
                           kinds[k][1],
                           seed % 3 > 0};
      check_bytes(&c, seed);
    }
}

/* ---- Gradients ----------------------------------------------------------------------------- */

static operation_case
gradient_case(const conv_case *c,
              compute_node (*expression)(compute_graph *, const compute_node *, const void *)) {
  operation_case sample = {.name = c->name, .build = expression, .user = c, .operand_count = 2};
  sample.operand[0] = (operation_operand){COMPUTE_F64, c->x, FILL_DISTINCT, -1, 1, LAYOUT_DENSE};
  sample.operand[1] =
      (operation_operand){COMPUTE_F64, c->filter, FILL_DISTINCT, -0.9, 1, LAYOUT_DENSE};
  sample.operand[2] =
      (operation_operand){COMPUTE_F64,
                          SHAPE(c->what == TRANSPOSE ? c->filter.size[1] : c->filter.size[0]),
                          FILL_DISTINCT,
                          0.3,
                          1,
                          LAYOUT_DENSE};
  if (c->behind == BIAS) sample.operand_count = 3;
  return sample;
}

/* The gradient of Σ y² by the first operand. Its gradients cover every direction. */
static compute_node build_second(compute_graph *graph, const compute_node *x, const void *user) {
  const compute_node y = compute_square(graph, build(graph, x, user));
  const compute_node loss = compute_sum(graph, y, COMPUTE_ALL_AXES, false);
  compute_node gradients[2] = {{0}};
  const conv_case *c = user;
  compute_gradients(graph, loss, x, 2, gradients);
  return gradients[c->options.groups > 1 ? 1 : 0];
}

static void convolutions_have_their_derivatives(void **state) {
  (void)state;
  static const conv_case small[] = {
      {"conv2d", SHAPE(2, 2, 4, 5), SHAPE(3, 2, 3, 2), P1, S2, .behind = BIAS},
      {"conv2d, groups", SHAPE(1, 4, 4, 3), SHAPE(4, 2, 2, 2),
       .options = {.groups = 2, .dilation = {2, 1}, .padding = {1, 0}}},
      {"conv2d_transpose", SHAPE(2, 3, 2, 3), SHAPE(3, 2, 3, 2),
       .options = {.stride = {2}, .padding = {1, 0}}, .what = TRANSPOSE, .behind = BIAS},
      {"conv2d, padding of each side", SHAPE(1, 2, 4, 5), SHAPE(2, 2, 3, 2),
       .options = {.stride = {1, 2}, .padding = {2, 0}, .padding_more = {-1, 1}}, .behind = BIAS},
      {"conv2d_transpose, padding of each side", SHAPE(1, 2, 3, 3), SHAPE(2, 1, 3, 2),
       .options = {.stride = {2, 1}, .padding = {1, 0}, .padding_more = {-1, 1}},
       .what = TRANSPOSE},
  };
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
    if (test_samples() > 1 && i > 0) continue; /* the device of a spread run compiles each case */
    const operation_case sample = gradient_case(&small[i], build);
    gradient_check(test_context, &sample);
  }
}

static void derivatives_of_convolutions_have_theirs(void **state) {
  (void)state;
  static const conv_case small[] = {
      {"conv2d, by data again", SHAPE(1, 2, 3, 4), SHAPE(2, 2, 2, 2), S2, P1},
      {"conv2d, by filter again", SHAPE(1, 4, 3, 3), SHAPE(2, 2, 2, 2), G(2)},
      {"conv2d, padding of each side, again", SHAPE(1, 2, 3, 4), SHAPE(2, 2, 2, 2), S2,
       .options.padding_more = {1, 0}},
      {"conv2d_transpose again", SHAPE(1, 2, 2, 2), SHAPE(2, 1, 2, 2), S2, .what = TRANSPOSE},
  };
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
    if (test_samples() > 1 && i > 0) continue; /* the device of a spread run compiles each case */
    const operation_case sample = gradient_case(&small[i], build_second);
    gradient_check(test_context, &sample);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_of_every_shape_match),
      cmocka_unit_test(transposed_convolutions_match),
      cmocka_unit_test(gradients_by_filter_match),
      cmocka_unit_test(operands_and_results_of_any_layout_match),
      cmocka_unit_test(what_follows_a_convolution_matches),
      cmocka_unit_test(a_normalised_convolution_is_one_kernel_and_its_scales),
      cmocka_unit_test(plain_sums_of_bytes_match),
      cmocka_unit_test(zero_points_of_convolutions_are_exact),
      cmocka_unit_test(convolutions_have_their_derivatives),
      cmocka_unit_test(derivatives_of_convolutions_have_theirs),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
