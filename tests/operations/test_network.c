/* SPDX-License-Identifier: MIT */
/* Pooling, running sums, top-k, attention, and composed operations: normalisation, padding,
 * upsampling, one-hot, losses. */
#include <math.h>
#include <string.h>

#include "graph/builders/build.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"

static const compute_node none = {0, 0};

static operation_operand operand(compute_dtype dtype, compute_shape shape, guarded_layout layout) {
  return (operation_operand){dtype, shape, FILL_RANGE, -2, 2, layout};
}

/* Half a spacing of a narrow float at 1; 0 for other dtypes. */
static double half_of(compute_dtype dtype) {
  return dtype == COMPUTE_F16 ? 0x1p-11 : dtype == COMPUTE_BF16 ? 0x1p-8 : 0;
}

static double unit_of(compute_dtype dtype) {
  return dtype == COMPUTE_F64 ? 0x1p-52 : 0x1p-23;
}

/* ---- Pooling ------------------------------------------------------------------------------- */

typedef struct pool_case {
  const char *name;
  compute_shape x;
  compute_pool2d_options options;
  bool average, back;
  bool behind; /* with a fused epilogue */
  bool place;  /* the positions of the maxima */
} pool_case;

static compute_node pool(compute_graph *graph, const pool_case *c, compute_node x) {
  if (c->place) return compute_argmax_pool2d(graph, x, &c->options);
  return c->average ? compute_average_pool2d(graph, x, &c->options)
                    : compute_max_pool2d(graph, x, &c->options);
}

static compute_node build_pool(compute_graph *graph, const compute_node *x, const void *user) {
  const pool_case *c = user;
  const compute_node y = pool(graph, c, x[0]);
  if (graph->status) return none;
  if (c->behind) return compute_relu(graph, compute_add(graph, compute_mul(graph, y, x[1]), x[1]));
  if (!c->back) return y;
  compute_window_attributes geometry;
  memcpy(&geometry, build_at(graph, y.id - 1)->constant, sizeof geometry);
  geometry.by_data = true;
  return network_pool(graph, "by_data", &geometry, c->x, c->average ? x[1] : x[0],
                      c->average ? none : x[1]);
}

static const pool_case pools[] = {
    {"2x2", SHAPE(2, 3, 6, 8), .options = {.size = {2}}},
    {"3x3 stride 2 padded", SHAPE(2, 3, 9, 7),
     .options = {.size = {3}, .stride = {2}, .padding = {1, -1}}},
    {"3x3 stride 1 padded", SHAPE(1, 2, 5, 33),
     .options = {.size = {3}, .stride = {1}, .padding = {1, 1}}},
    {"uneven", SHAPE(2, 1, 9, 11),
     .options = {.size = {3, 2}, .stride = {2, 3}, .padding = {1, 0}}},
    {"ceil", SHAPE(1, 2, 8, 6), .options = {.size = {3}, .stride = {2}, .ceil = true}},
    {"ceil padded", SHAPE(1, 2, 7, 7),
     .options = {.size = {2}, .stride = {3}, .padding = {1, 1}, .ceil = true}},
    {"the whole image", SHAPE(2, 3, 5, 4), .options = {.size = {5, 4}}},
    {"windows apart", SHAPE(1, 1, 9, 9), .options = {.size = {2}, .stride = {4}}},
    {"one dimension", SHAPE(2, 3, 1, 40), .options = {.size = {1, 4}}},
    {"no images", SHAPE(0, 3, 4, 4), .options = {.size = {2}}},
    {"padding of each side", SHAPE(2, 3, 6, 7),
     .options = {.size = {3}, .stride = {2}, .padding = {0, 2}, .padding_more = {2, -1}}},
    {"nearly a window of padding", SHAPE(1, 2, 5, 6),
     .options = {.size = {4, 3}, .stride = {1, 2}, .padding = {3, 2}, .padding_more = {0, -2}}},
    {"dilated, ceil", SHAPE(2, 2, 9, 8),
     .options =
         {.size = {3, 2}, .stride = {2, 3}, .padding = {3, 1}, .dilation = {2, 3}, .ceil = true}},
    {"windows without an element", SHAPE(1, 2, 1, 5),
     .options = {.size = {2, 2}, .stride = {1}, .padding = {2, 2}, .dilation = {3, 3}}},
};

static void run_pool(const pool_case *c, compute_dtype dtype, test_fill fill, guarded_layout layout,
                     guarded_layout result) {
  static const char *const names[2][2] = {{"max_pool2d", "max_pool2d_by_data"},
                                          {"average_pool2d", "average_pool2d_by_data"}};
  const double elements =
      (double)(c->options.size[0] * (c->options.size[1] ? c->options.size[1] : c->options.size[0]));
  /* All cases share one name, and a spread run selects some of them; their shapes distinguish
   * them. */
  const char *const name = c->place ? "argmax_pool2d" : names[c->average][c->back];
  operation_case sample = {.name = c->behind ? c->name : name,
                           .build = build_pool,
                           .user = c,
                           .operand_count = c->back || c->behind ? 2 : 1,
                           .result_layout = result,
                           .operation = c->behind ? NULL : name};
  if (c->average || c->back)
    sample.tolerance = (test_tolerance){.ulp = 2, .atol = 2 * unit_of(dtype) * (elements + 8)};
  if (c->behind)
    sample.tolerance = (test_tolerance){
        .ulp = 4, .atol = 32 * unit_of(dtype) + 16 * half_of(dtype), .rtol = 4 * half_of(dtype)};
  sample.operand[0] = operand(dtype, c->x, layout);
  sample.operand[0].fill = fill;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node y = pool(graph, c, compute_input(graph, dtype, c->x));
  assert_ok(compute_graph_status(graph));
  sample.operand[1] = operand(dtype, compute_node_shape(graph, y), layout);
  compute_graph_release(graph);
  operation_check(test_context, &sample);
}

static void run_pools(bool average, bool back, bool place, guarded_layout layout,
                      guarded_layout result) {
  const char *const dtypes = average || back ? "float" : "ordered";
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
    for (int variant = 0; variant < 2; variant++) {
      pool_case c = pools[i];
      c.average = average;
      c.back = back;
      c.place = place;
      if (average && variant) c.options.exclude_padding = true;
      if (!average && variant) c.options.dilation[0] = 2;
      if (!average && variant && i != 1 && i != 2) continue; /* cases that are large enough */
      for (const compute_dtype *dtype = operation_dtypes(dtypes); *dtype; dtype++)
        run_pool(&c, *dtype, average || back ? FILL_RANGE : FILL_SPECIAL, layout, result);
    }
  }
}

static void maxima_of_windows_match(void **state) {
  (void)state;
  run_pools(false, false, false, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void places_of_maxima_match(void **state) {
  (void)state;
  run_pools(false, false, true, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void averages_of_windows_match(void **state) {
  (void)state;
  run_pools(true, false, false, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void gradients_of_windows_match(void **state) {
  (void)state;
  run_pools(false, true, false, LAYOUT_DENSE, LAYOUT_DENSE);
  run_pools(true, true, false, LAYOUT_DENSE, LAYOUT_DENSE);
  operation_finish();
}

static void windows_of_any_layout_match(void **state) {
  (void)state;
  static const guarded_layout results[] = {LAYOUT_PADDED, LAYOUT_TRANSPOSED, LAYOUT_STEPPED,
                                           LAYOUT_WRAPPED};
  for (int layout = LAYOUT_STEPPED; layout < LAYOUT_COUNT; layout++)
    for (int kind = 0; kind < 5; kind++) {
      pool_case c = pools[1 + kind % 2];
      c.average = kind & 1;
      c.back = kind >> 1 & 1;
      c.place = kind == 4;
      run_pool(&c, COMPUTE_F32, FILL_RANGE, (guarded_layout)layout, results[(kind + layout) % 4]);
    }
  operation_finish();
}

static void what_follows_windows_matches(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      pool_case c = pools[1];
      c.average = kind;
      c.behind = true;
      c.name = "pool, then arithmetic";
      run_pool(&c, *dtype, FILL_RANGE, LAYOUT_DENSE, LAYOUT_DENSE);
    }
  operation_finish();
}

/* ---- Along an axis ------------------------------------------------------------------------- */

typedef struct axis_case {
  compute_shape x;
  int32_t axis;
  int64_t k;
  bool a, b; /* exclusive, reverse; smallest, values in place of positions */
} axis_case;

static compute_node build_running(compute_graph *graph, const compute_node *x, const void *user) {
  const axis_case *c = user;
  return compute_cumulative_sum(graph, x[0], c->axis, c->a, c->b);
}

static void running_sums_match(void **state) {
  (void)state;
  static const axis_case shapes[] = {
      {SHAPE(13), .axis = 0},      {SHAPE(3, 301), .axis = -1}, {SHAPE(61, 5), .axis = 0},
      {SHAPE(2, 7, 9), .axis = 1}, {SHAPE(1), .axis = 0},       {SHAPE(3, 0), .axis = 1},
      {SHAPE(0, 4), .axis = 1},    {SHAPE(5000), .axis = 0},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int form = 0; form < 4; form++)
      for (const compute_dtype *dtype = operation_dtypes("number"); *dtype; dtype++) {
        axis_case c = shapes[i];
        c.a = form & 1;
        c.b = form >> 1;
        const double size = (double)c.x.size[c.axis < 0 ? c.x.rank - 1 : c.axis];
        const double most = form == 3 ? 100 : 2;
        /* Sums with a mean grow to most · size; their roundings add up like a random walk. */
        const double walk = form == 3 ? sqrt(size) : 1;
        operation_case sample = {
            .name = "cumulative_sum",
            .build = build_running,
            .user = &c,
            .operand_count = 1,
            .result_layout = form == 1 ? LAYOUT_PADDED : LAYOUT_DENSE,
            .tolerance = {.ulp = 2, .atol = unit_of(*dtype) * most * (2 * size * walk + 8)},
            .operation = "cumulative_sum"};
        sample.operand[0] = operand(*dtype, c.x, form == 2 ? LAYOUT_STEPPED : LAYOUT_DENSE);
        sample.operand[0].low = -most; /* with 100, bytes wrap */
        operation_check(test_context, &sample);
      }
  operation_finish();
}

static compute_node build_top(compute_graph *graph, const compute_node *x, const void *user) {
  const axis_case *c = user;
  compute_node positions;
  const compute_node values = compute_top_k(graph, x[0], c->k, c->axis, c->a, &positions);
  return c->b ? values : positions;
}

static void the_largest_and_smallest_are_found_in_order(void **state) {
  (void)state;
  static const axis_case shapes[] = {
      {SHAPE(13), .axis = 0, .k = 5},    {SHAPE(4, 301), .axis = -1, .k = 17},
      {SHAPE(61, 5), .axis = 0, .k = 1}, {SHAPE(2, 7, 9), .axis = 1, .k = 7},
      {SHAPE(1), .axis = 0, .k = 1},     {SHAPE(3, 40), .axis = 1, .k = 0},
      {SHAPE(0, 4), .axis = 1, .k = 2},  {SHAPE(2, 1000), .axis = 1, .k = 1000},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int form = 0; form < 8; form++)
      for (const compute_dtype *dtype = operation_dtypes("ordered"); *dtype; dtype++) {
        axis_case c = shapes[i];
        c.a = form & 1;
        c.b = form >> 1 & 1;
        operation_case sample = {.name = "top_k",
                                 .build = build_top,
                                 .user = &c,
                                 .operand_count = 1,
                                 .result_layout = form == 5 ? LAYOUT_PADDED : LAYOUT_DENSE,
                                 .operation = c.b ? NULL : "top_k"};
        sample.operand[0] = operand(*dtype, c.x, form == 6 ? LAYOUT_STEPPED : LAYOUT_DENSE);
        if (form >> 2) sample.operand[0].fill = FILL_SPECIAL;
        operation_check(test_context, &sample);
      }
  operation_finish();
}

/* b: argsort. */
static compute_node build_sort(compute_graph *graph, const compute_node *x, const void *user) {
  const axis_case *c = user;
  return c->b ? compute_argsort(graph, x[0], c->axis, c->a)
              : compute_sort(graph, x[0], c->axis, c->a);
}

static void axes_are_sorted(void **state) {
  (void)state;
  static const axis_case shapes[] = {
      {SHAPE(13), .axis = 0},      {SHAPE(4, 301), .axis = -1}, {SHAPE(61, 5), .axis = 0},
      {SHAPE(2, 7, 9), .axis = 1}, {SHAPE(1), .axis = 0},       {SHAPE(3, 0), .axis = 1},
      {SHAPE(0, 4), .axis = 1},    {SHAPE(2, 1000), .axis = 1},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int form = 0; form < 8; form++)
      for (const compute_dtype *dtype = operation_dtypes("ordered"); *dtype; dtype++) {
        axis_case c = shapes[i];
        c.a = form & 1;
        c.b = form >> 1 & 1;
        operation_case sample = {.name = c.b ? "argsort" : "sort",
                                 .build = build_sort,
                                 .user = &c,
                                 .operand_count = 1,
                                 .result_layout = form == 5 ? LAYOUT_PADDED : LAYOUT_DENSE,
                                 .operation = c.b ? "argsort" : "sort"};
        sample.operand[0] = operand(*dtype, c.x, form == 6 ? LAYOUT_STEPPED : LAYOUT_DENSE);
        if (form >> 2) sample.operand[0].fill = FILL_SPECIAL;
        operation_check(test_context, &sample);
      }
  operation_finish();
}

/* ---- Attention ----------------------------------------------------------------------------- */

typedef struct attention_case {
  const char *name;
  compute_shape q, k, v, bias;
  bool causal, biased, turned; /* heads and positions are swapped in memory */
} attention_case;

static compute_node build_attention(compute_graph *graph, const compute_node *x, const void *user) {
  const attention_case *c = user;
  compute_node m[3] = {x[0], x[1], x[2]};
  for (int i = 0; i < 3 && c->turned; i++)
    m[i] = compute_transpose(graph, x[i], COMPUTE_AXES(0, 2, 1, 3));
  const compute_attention_options options = {.causal = c->causal, .bias = c->biased ? x[3] : none};
  return compute_scaled_attention(graph, m[0], m[1], m[2], &options);
}

static void attention_matches(void **state) {
  (void)state;
  static const attention_case all[] = {
      {"one head", SHAPE(5, 8), SHAPE(7, 8), SHAPE(7, 3), .causal = false},
      {"heads", SHAPE(2, 3, 33, 16), SHAPE(2, 3, 70, 16), SHAPE(2, 3, 70, 24), .causal = false},
      {"shared keys", SHAPE(2, 3, 9, 4), SHAPE(1, 3, 11, 4), SHAPE(3, 11, 4), .causal = false},
      {"causal", SHAPE(2, 65, 8), SHAPE(2, 65, 8), SHAPE(2, 65, 8), .causal = true},
      {"causal, more keys", SHAPE(2, 5, 8), SHAPE(2, 9, 8), SHAPE(2, 9, 8), .causal = true},
      {"causal, queries that see nothing", SHAPE(9, 4), SHAPE(5, 4), SHAPE(5, 4), .causal = true},
      {"biased", SHAPE(2, 3, 9, 4), SHAPE(2, 3, 11, 4), SHAPE(2, 3, 11, 4), SHAPE(3, 9, 11),
       .biased = true},
      {"row of biases", SHAPE(2, 9, 4), SHAPE(2, 11, 4), SHAPE(2, 11, 4), SHAPE(11), .biased = true,
       .causal = true},
      {"turned", SHAPE(2, 9, 3, 4), SHAPE(2, 11, 3, 4), SHAPE(2, 11, 3, 4), .turned = true},
      {"no queries", SHAPE(0, 4), SHAPE(5, 4), SHAPE(5, 4), .causal = false},
      {"no keys", SHAPE(3, 4), SHAPE(0, 4), SHAPE(0, 4), .causal = false},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      const attention_case *c = &all[i];
      const double width = (double)c->q.size[c->q.rank - 1];
      operation_case sample = {.name = "scaled_attention",
                               .build = build_attention,
                               .user = c,
                               .operand_count = c->biased ? 4 : 3,
                               .tolerance = {.ulp = 8, .atol = unit_of(*dtype) * (16 * width + 64)},
                               .operation = "scaled_attention"};
      sample.operand[0] = operand(*dtype, c->q, LAYOUT_DENSE);
      sample.operand[1] = operand(*dtype, c->k, i % 2 ? LAYOUT_PADDED : LAYOUT_DENSE);
      sample.operand[2] = operand(*dtype, c->v, i % 2 ? LAYOUT_DENSE : LAYOUT_STEPPED);
      sample.operand[3] = operand(*dtype, c->bias, LAYOUT_DENSE);
      operation_check(test_context, &sample);
    }
  operation_finish();
}

/* With few queries, keys that a bias hides from all of them are skipped; with more queries, their
 * scores are computed. */
static void keys_that_a_bias_hides_do_not_count(void **state) {
  (void)state;
  enum { HEADS = 2, KEYS = 700, FIRST = 256, SEEN = 200, WIDTH = 16 };
  for (int64_t queries = 1; queries <= 129; queries += queries < 5 ? 1 : 62) {
    compute_graph *graph = compute_graph_create(test_context);
    const compute_shape all = COMPUTE_SHAPE(HEADS, KEYS, WIDTH);
    const compute_node seed = compute_scalar_i64(graph, COMPUTE_I64, queries);
    const compute_node q =
        compute_random_uniform(graph, COMPUTE_F32, COMPUTE_SHAPE(HEADS, queries, WIDTH), seed, 1);
    const compute_node k = compute_random_uniform(graph, COMPUTE_F32, all, seed, 2);
    const compute_node v = compute_random_uniform(graph, COMPUTE_F32, all, seed, 3);
    const compute_node at = compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(1, KEYS), 1);
    const compute_node hidden = compute_logical_or(
        graph, compute_less(graph, at, compute_scalar_i64(graph, COMPUTE_I64, FIRST)),
        compute_greater_equal(graph, at, compute_scalar_i64(graph, COMPUTE_I64, FIRST + SEEN)));
    const compute_node bias =
        compute_select(graph, hidden, compute_scalar(graph, COMPUTE_F32, -(double)INFINITY),
                       compute_scalar(graph, COMPUTE_F32, 0));
    const compute_node y =
        compute_scaled_attention(graph, q, k, v, &(compute_attention_options){.bias = bias});
    const compute_node some = compute_scaled_attention(
        graph, q, compute_slice(graph, k, 1, FIRST, SEEN, 1),
        compute_slice(graph, v, 1, FIRST, SEEN, 1), &(compute_attention_options){.bias = none});
    const compute_node error = compute_max(graph, compute_abs(graph, compute_sub(graph, y, some)),
                                           COMPUTE_AXES(0, 1, 2), false);
    compute_plan *plan = test_compile(graph, &error, 1, 0);
    compute_tensor *out = test_tensor(test_context, COMPUTE_F32, COMPUTE_SCALAR, NULL);
    assert_ok(compute_run(plan, (compute_binding[]){{error, out}}, 1, NULL));
    assert_true(test_element(out, 0) <= 1e-6);
    compute_tensor_release(out);
    compute_plan_release(plan);
    compute_graph_release(graph);
  }
}

/* ---- Composed operations ------------------------------------------------------------------- */

typedef compute_node (*expression)(compute_graph *, const compute_node *);

typedef struct compound_case {
  const char *name;
  expression build;
  size_t count;
  compute_shape shapes[4];
} compound_case;

#define EXPRESSION(name, value)                                                                    \
  static compute_node name(compute_graph *g, const compute_node *x) {                              \
    return (value);                                                                                \
  }

EXPRESSION(global_average, compute_global_average_pool2d(g, x[0]))
EXPRESSION(global_max, compute_global_max_pool2d(g, x[0]))
EXPRESSION(norm_given, compute_batch_norm(g, x[0], x[1], compute_square(g, x[2]), x[1], x[2], 0.5))
EXPRESSION(norm_bare, compute_batch_norm(g, x[0], x[1], compute_square(g, x[2]), none, none, 0.5))
EXPRESSION(norm_own, compute_batch_norm_training(g, x[0], x[1], x[2], 1e-3, NULL, NULL))
EXPRESSION(padded_zeros, compute_pad(g, x[0], 1, 2, 1, COMPUTE_PAD_CONSTANT, 0))
EXPRESSION(padded_number, compute_pad(g, x[0], -1, 0, 3, COMPUTE_PAD_CONSTANT, -1.5))
EXPRESSION(padded_edge, compute_pad(g, x[0], 0, 3, 2, COMPUTE_PAD_EDGE, 0))
EXPRESSION(padded_reflect, compute_pad(g, x[0], 1, 3, 2, COMPUTE_PAD_REFLECT, 0))
EXPRESSION(nearest_whole, compute_upsample2d(g, x[0], 6, 12, COMPUTE_UPSAMPLE_NEAREST))
EXPRESSION(nearest_uneven, compute_upsample2d(g, x[0], 5, 3, COMPUTE_UPSAMPLE_NEAREST))
EXPRESSION(bilinear, compute_upsample2d(g, x[0], 7, 8, COMPUTE_UPSAMPLE_BILINEAR))
EXPRESSION(bilinear_less, compute_upsample2d(g, x[0], 2, 4, COMPUTE_UPSAMPLE_BILINEAR))
EXPRESSION(binary, compute_binary_cross_entropy(g, x[0], compute_sigmoid(g, x[1])))
EXPRESSION(huber_loss, compute_huber(g, x[0], x[1], 0.75))

static const compound_case compounds[] = {
    {"global_average_pool2d", global_average, 1, {SHAPE(2, 3, 5, 7)}},
    {"global_max_pool2d", global_max, 1, {SHAPE(2, 3, 5, 7)}},
    {"batch_norm", norm_given, 3, {SHAPE(2, 3, 5, 4), SHAPE(3), SHAPE(3)}},
    {"batch_norm of rows", norm_bare, 3, {SHAPE(6, 5), SHAPE(5), SHAPE(5)}},
    {"batch_norm_training", norm_own, 3, {SHAPE(4, 3, 5, 4), SHAPE(3), SHAPE(3)}},
    {"batch_norm_training of rows", norm_own, 3, {SHAPE(9, 5), SHAPE(5), SHAPE(5)}},
    {"pad", padded_zeros, 1, {SHAPE(3, 4, 2)}},
    {"pad with a number", padded_number, 1, {SHAPE(3, 4)}},
    {"pad with the edge", padded_edge, 1, {SHAPE(3, 4)}},
    {"pad reflected", padded_reflect, 1, {SHAPE(2, 4, 3)}},
    {"upsample2d by whole factors", nearest_whole, 1, {SHAPE(2, 3, 3, 4)}},
    {"upsample2d to the nearest", nearest_uneven, 1, {SHAPE(2, 3, 3, 4)}},
    {"upsample2d bilinear", bilinear, 1, {SHAPE(2, 3, 3, 4)}},
    {"upsample2d bilinear to less", bilinear_less, 1, {SHAPE(1, 2, 5, 9)}},
    {"binary_cross_entropy", binary, 2, {SHAPE(4, 5), SHAPE(4, 5)}},
    {"huber", huber_loss, 2, {SHAPE(4, 5), SHAPE(5)}},
};

static compute_node build_compound(compute_graph *graph, const compute_node *x, const void *user) {
  const compound_case *c = user;
  return c->build(graph, x);
}

/* The reference evaluates the parts. The tests of values below check their combination. */
static void what_is_made_of_others_matches(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof compounds / sizeof *compounds; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++) {
      const compound_case *c = &compounds[i];
      /* The device of a spread run compiles each case. Other tests cover the dtypes of the
       * parts. */
      if (test_samples() > 1 && ((size_t)*dtype + i) % 4 != 0) continue;
      operation_case sample = {.name = c->name,
                               .build = build_compound,
                               .user = c,
                               .operand_count = c->count,
                               .tolerance = {.ulp = 8,
                                             .atol = 64 * unit_of(*dtype) + 16 * half_of(*dtype),
                                             .rtol = 8 * half_of(*dtype)}};
      for (size_t k = 0; k < c->count; k++)
        sample.operand[k] = operand(*dtype, c->shapes[k], LAYOUT_DENSE);
      operation_check(test_context, &sample);
    }
  operation_finish();
}

/* ---- Values computed by hand --------------------------------------------------------------- */

/* Runs a graph with one output and reads it as doubles. */
static void run(compute_graph *graph, compute_node y, double *values, int64_t count) {
  assert_ok(compute_graph_status(graph));
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *out =
      test_tensor(test_context, compute_node_dtype(graph, y), compute_node_shape(graph, y), NULL);
  assert_int_equal(compute_tensor_count(out), count);
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}}, 1, NULL));
  for (int64_t i = 0; i < count; i++) values[i] = test_element(out, i);
  compute_tensor_release(out);
  compute_plan_release(plan);
}

static compute_node row(compute_graph *graph, int64_t count, const double *values) {
  return compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE(1, 1, 1, count), values);
}

#define CHECK(node, ...)                                                                           \
  do {                                                                                             \
    const double expected_[] = {__VA_ARGS__};                                                      \
    enum { COUNT_ = sizeof expected_ / sizeof *expected_ };                                        \
    double got_[COUNT_];                                                                           \
    run(graph, (node), got_, COUNT_);                                                              \
    for (int i_ = 0; i_ < COUNT_; i_++)                                                            \
      if (!(fabs(got_[i_] - expected_[i_]) <= 1e-12))                                              \
        fail_msg("%s [%d]: got %.15g, expected %.15g", #node, i_, got_[i_], expected_[i_]);        \
  } while (0)

static void small_examples_have_the_values_of_their_definitions(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = row(graph, 4, (double[]){1, 2, 4, 8});
  const compute_node w = row(graph, 2, (double[]){1, 10});
  CHECK(compute_conv2d(graph, x, w, none, NULL), 21, 42, 84);
  CHECK(compute_conv2d_transpose(graph, x, w, none, NULL), 1, 12, 24, 48, 80);
  CHECK(compute_conv2d_transpose(graph, x, w, none, &(compute_conv2d_options){.stride = {1, 2}}), 1,
        10, 2, 20, 4, 40, 8, 80);
  const compute_conv2d_options behind = {.padding_more = {0, 1}};
  const compute_conv2d_options before = {.padding = {0, 1}, .padding_more = {0, -1}};
  CHECK(compute_conv2d(graph, x, w, none, &behind), 21, 42, 84, 8);
  CHECK(compute_conv2d(graph, x, w, none, &before), 10, 21, 42, 84);
  CHECK(compute_conv2d_transpose(graph, x, w, none, &behind), 1, 12, 24, 48);
  CHECK(compute_conv2d_transpose(graph, x, w, none, &before), 12, 24, 48, 80);
  const compute_pool2d_options pairs = {.size = {1, 2}, .padding = {0, 1}};
  compute_pool2d_options inside = pairs;
  inside.exclude_padding = true;
  CHECK(compute_max_pool2d(graph, x, &pairs), 1, 4, 8);
  CHECK(compute_average_pool2d(graph, x, &pairs), 0.5, 3, 4);
  CHECK(compute_average_pool2d(graph, x, &inside), 1, 3, 8);
  const compute_pool2d_options beyond = {.size = {1, 3}, .ceil = true};
  CHECK(compute_max_pool2d(graph, x, &beyond), 4, 8);
  CHECK(compute_average_pool2d(graph, x, &beyond), 7.0 / 3, 8);
  compute_pool2d_options after = {.size = {1, 2}, .stride = {1}, .padding_more = {0, 1}};
  CHECK(compute_argmax_pool2d(graph, x, &after), 1, 2, 3, 3);
  CHECK(compute_average_pool2d(graph, x, &after), 1.5, 3, 6, 4);
  after.exclude_padding = true;
  CHECK(compute_average_pool2d(graph, x, &after), 1.5, 3, 6, 8);
  const compute_pool2d_options apart = {.size = {1, 2},
                                        .stride = {1},
                                        .dilation = {1, 2},
                                        .padding = {0, 2},
                                        .padding_more = {0, -1}};
  CHECK(compute_average_pool2d(graph, x, &apart), 0.5, 1, 2.5, 5, 2);
  CHECK(compute_max_pool2d(graph, x, &apart), 1, 2, 4, 8, 4);
  const compute_shape six = COMPUTE_SHAPE(1, 1, 2, 3);
  const compute_node twice = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(1, 1, 1, 4),
                                              (const int32_t[]){4, 1, 1, -1});
  CHECK(compute_max_unpool(graph, x, twice, six), 0, 4, 0, 0, 1, 8);
  const compute_node planes = compute_reshape(graph, x, COMPUTE_SHAPE(2, 1, 1, 2));
  CHECK(compute_argmax_pool2d(graph, planes, &(compute_pool2d_options){.size = {1, 2}}), 1, 3);
  CHECK(compute_pad(graph, x, 3, 2, 1, COMPUTE_PAD_EDGE, 0), 1, 1, 1, 2, 4, 8, 8);
  CHECK(compute_pad(graph, x, 3, 2, 1, COMPUTE_PAD_REFLECT, 0), 4, 2, 1, 2, 4, 8, 4);
  CHECK(compute_pad(graph, x, 3, 1, 1, COMPUTE_PAD_CONSTANT, 5), 5, 1, 2, 4, 8, 5);
  CHECK(compute_upsample2d(graph, x, 1, 8, COMPUTE_UPSAMPLE_NEAREST), 1, 1, 2, 2, 4, 4, 8, 8);
  CHECK(compute_upsample2d(graph, x, 1, 6, COMPUTE_UPSAMPLE_NEAREST), 1, 1, 2, 4, 4, 8);
  CHECK(compute_upsample2d(graph, x, 1, 8, COMPUTE_UPSAMPLE_BILINEAR), 1, 1.25, 1.75, 2.5, 3.5, 5,
        7, 8);
  CHECK(compute_cumulative_sum(graph, x, -1, false, false), 1, 3, 7, 15);
  CHECK(compute_cumulative_sum(graph, x, -1, true, true), 14, 12, 8, 0);
  const int64_t label = 1;
  const compute_node labels = compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE(1), &label);
  CHECK(compute_one_hot(graph, labels, 3, COMPUTE_F64), 0, 1, 0);
  const compute_node logits = compute_reshape(graph, x, COMPUTE_SHAPE(1, 4));
  const double total = log(exp(1) + exp(2) + exp(4) + exp(8));
  CHECK(compute_cross_entropy_smoothed(graph, logits, labels, 0.2),
        total - 0.8 * 2 - 0.05 * (1 + 2 + 4 + 8));
  CHECK(compute_huber(graph, x, compute_scalar(graph, COMPUTE_F64, 2.0), 1.5),
        (0.5 + 0 + 1.5 * (2 - 0.75) + 1.5 * (6 - 0.75)) / 4);
  CHECK(compute_batch_norm(graph, x, compute_full(graph, COMPUTE_F64, COMPUTE_SHAPE(1), 2),
                           compute_full(graph, COMPUTE_F64, COMPUTE_SHAPE(1), 4), none, none, 0),
        -0.5, 0, 1, 3);
  compute_graph_release(graph);
}

static void labels_outside_give_rows_of_zeros(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const int32_t labels[] = {2, -1, 3, 0};
  const compute_node y = compute_one_hot(
      graph, compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(4), labels), 3, COMPUTE_F32);
  CHECK(y, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0);
  compute_graph_release(graph);
}

/* Checks the dropped share, the scale of kept elements, and that one seed always drops the same
 * elements. */
static void dropout_drops_its_share_and_repeats_it(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static double values[2][COUNT];
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F16};
  for (int i = 0; i < 2; i++) {
    compute_graph *graph = compute_graph_create(test_context);
    const int64_t seed = 42;
    const compute_node x = compute_full(graph, dtypes[i], COMPUTE_SHAPE(100, COUNT / 100), 1);
    const compute_node y = compute_dropout(
        graph, x, 0.25, compute_constant(graph, COMPUTE_I64, COMPUTE_SCALAR, &seed), 7);
    run(graph, y, values[i], COUNT);
    compute_graph_release(graph);
  }
  int dropped = 0;
  for (int i = 0; i < COUNT; i++) {
    dropped += values[0][i] == 0;
    assert_true(values[0][i] == 0 || fabs(values[0][i] - 4.0 / 3) < 1e-6);
    assert_true((values[0][i] == 0) == (values[1][i] == 0));
  }
  assert_in_range(dropped, COUNT / 4 - 400, COUNT / 4 + 400);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maxima_of_windows_match),
      cmocka_unit_test(places_of_maxima_match),
      cmocka_unit_test(averages_of_windows_match),
      cmocka_unit_test(gradients_of_windows_match),
      cmocka_unit_test(windows_of_any_layout_match),
      cmocka_unit_test(what_follows_windows_matches),
      cmocka_unit_test(running_sums_match),
      cmocka_unit_test(the_largest_and_smallest_are_found_in_order),
      cmocka_unit_test(axes_are_sorted),
      cmocka_unit_test(attention_matches),
      cmocka_unit_test(keys_that_a_bias_hides_do_not_count),
      cmocka_unit_test(what_is_made_of_others_matches),
      cmocka_unit_test(small_examples_have_the_values_of_their_definitions),
      cmocka_unit_test(labels_outside_give_rows_of_zeros),
      cmocka_unit_test(dropout_drops_its_share_and_repeats_it),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
