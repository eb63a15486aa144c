/* Random expressions of about thirty operations: whatever the planner rewrites, folds, fuses and
 * reuses, the numbers stay those of the graph as it was written. Seeds are fixed; a failure prints
 * its seed as the sample's name. */
#include "support/operation.h"
#include "support/test.h"

enum { STEPS = 30, MAX_NODES = 2 * STEPS + 8, SEEDS = 300 };

typedef struct random_request {
  uint64_t seed;
} random_request;

/* An expression under construction. Shapes come from [2,3,4] and what reductions and products make
 * of it, so most pairs broadcast or can be made to. */
typedef struct expression {
  compute_graph *graph;
  test_random random;
  compute_node nodes[MAX_NODES];
  int count;
  compute_node condition; /* bool [2,3,4] */
  bool integer;
} expression;

static int choose(expression *e, int options) {
  return (int)test_random_integer(&e->random, 0, options - 1);
}

/* Half the time the newest node, so that chains get long; else any. */
static compute_node pick(expression *e) {
  return e->nodes[choose(e, 2) ? e->count - 1 : choose(e, e->count)];
}

static int64_t count_of(const expression *e, compute_node node) {
  int64_t count = 0;
  compute_shape_count(compute_node_shape(e->graph, node), &count);
  return count;
}

/* Keeps floats in −1 … 1 where products would otherwise grow without end. */
static compute_node bounded(expression *e, compute_node x) {
  return e->integer ? x : compute_tanh(e->graph, x);
}

/* Any node in a shape that broadcasts with [2,3,4]. */
static compute_node pick_compatible(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  const compute_shape shape = compute_node_shape(g, x);
  static const int64_t full[3] = {2, 3, 4};
  bool fits = shape.rank <= 3;
  for (int32_t i = 0; fits && i < shape.rank; i++)
    fits = shape.size[i] == 1 || shape.size[i] == full[3 - shape.rank + i];
  if (fits) return x;
  if (count_of(e, x) == 24) return compute_reshape(g, x, COMPUTE_SHAPE(2, 3, 4));
  return compute_sum(g, x, COMPUTE_ALL_AXES, false);
}

static compute_node apply_unary(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  if (e->integer) {
    switch (choose(e, 4)) {
    case 0: return compute_neg(g, x);
    case 1: return compute_abs(g, x);
    case 2: return compute_relu(g, x);
    default: return compute_square(g, x);
    }
  }
  switch (choose(e, 10)) {
  case 0: return compute_neg(g, x);
  case 1: return compute_abs(g, x);
  case 2: return compute_relu(g, x);
  case 3: return compute_sin(g, x);
  case 4: return compute_sigmoid(g, x);
  case 5: return compute_gelu(g, bounded(e, x));
  case 6: return compute_leaky_relu(g, x, 0.1);
  case 7: return compute_exp(g, bounded(e, x));
  case 8: return compute_square(g, bounded(e, x));
  default: return compute_sqrt(g, compute_abs(g, x));
  }
}

static compute_node apply_binary(expression *e) {
  const compute_node a = pick_compatible(e), b = pick_compatible(e);
  compute_graph *g = e->graph;
  const compute_dtype dtype = compute_node_dtype(g, a);
  switch (choose(e, e->integer ? 9 : 8)) {
  case 0: return compute_add(g, a, b);
  case 1: return compute_sub(g, a, b);
  case 2: return compute_mul(g, bounded(e, a), b);
  case 3: return compute_minimum(g, a, b);
  case 4: return compute_maximum(g, a, b);
  case 5: return compute_select(g, e->condition, a, b);
  /* What a simplifier likes: neutral elements and constants on either side. */
  case 6:
    return compute_add(g, compute_mul(g, a, compute_full(g, dtype, COMPUTE_SCALAR, 1)),
                       compute_scalar(g, dtype, 0));
  case 7: return compute_sub(g, compute_scalar(g, dtype, 2), compute_add(g, a, a));
  default: return compute_mod(g, a, b);
  }
}

static compute_node apply_movement(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  const compute_shape shape = compute_node_shape(g, x);
  const int32_t last = shape.rank - 1;
  switch (choose(e, 5)) {
  case 0: return compute_transpose(g, x, COMPUTE_ALL_AXES);
  case 1: return compute_reshape(g, x, COMPUTE_SHAPE(-1));
  case 2:
    if (last < 0 || shape.size[last] < 2) return compute_reshape(g, x, COMPUTE_SHAPE(1, -1));
    return compute_slice(g, x, last, 1, shape.size[last] / 2, 2 - shape.size[last] % 2);
  case 3:
    if (last < 0 || shape.size[last] > 8) return x;
    return compute_concat(g, (compute_node[]){x, x}, 2, -1);
  default:
    if (last < 0 || shape.size[0] > 8) return x;
    return compute_embed(g, x, 0, 2 * shape.size[0] + 1, 1, 2);
  }
}

static compute_node apply_reduction(expression *e) {
  const compute_node x = pick(e);
  compute_graph *g = e->graph;
  const compute_shape shape = compute_node_shape(g, x);
  const bool keep = choose(e, 2) == 0;
  const compute_axes axes =
      shape.rank ? COMPUTE_AXES((int32_t)choose(e, shape.rank)) : COMPUTE_ALL_AXES;
  switch (choose(e, e->integer ? 3 : 6)) {
  case 0: return compute_sum(g, x, axes, keep);
  case 1: return compute_max(g, x, axes, keep);
  case 2: return compute_min(g, x, axes, keep);
  case 3: return compute_mean(g, compute_square(g, bounded(e, x)), axes, keep);
  case 4: return shape.rank ? compute_softmax(g, x, axes.axis[0]) : x;
  default: return shape.rank ? compute_normalize(g, x, 0.5) : x;
  }
}

static compute_node apply_product(expression *e) {
  compute_graph *g = e->graph;
  const compute_node full = e->nodes[0]; /* [2,3,4] */
  const compute_node a = bounded(e, compute_add(g, pick_compatible(e), full));
  const compute_node b =
      compute_transpose(g, compute_add(g, pick_compatible(e), full), COMPUTE_AXES(0, 2, 1));
  const compute_node y = compute_matmul(g, a, bounded(e, b));
  return choose(e, 2)
             ? compute_relu(g, compute_add(g, y, compute_sum(g, a, COMPUTE_ALL_AXES, false)))
             : y;
}

static compute_node build_random(compute_graph *graph, const compute_node *operands,
                                 const void *user) {
  const random_request *request = user;
  const compute_dtype dtype = compute_node_dtype(graph, operands[0]);
  expression e = {.graph = graph,
                  .random = {request->seed},
                  .nodes = {operands[0], operands[1], operands[2]},
                  .count = 3,
                  .condition = operands[3],
                  .integer = dtype != COMPUTE_F64 && dtype != COMPUTE_F32};
  for (int step = 0; step < STEPS; step++) {
    static const int kinds[] = {0, 0, 0, 1, 1, 1, 2, 2, 3, 4};
    compute_node y;
    switch (kinds[choose(&e, 10)]) {
    case 0: y = apply_unary(&e); break;
    case 1: y = apply_binary(&e); break;
    case 2: y = apply_movement(&e); break;
    case 3: y = apply_reduction(&e); break;
    default: y = apply_product(&e); break;
    }
    if (count_of(&e, y) <= 512) e.nodes[e.count++] = y;
  }
  /* The result shows several nodes, not only the last one. */
  compute_node parts[4];
  for (int i = 0; i < 4; i++)
    parts[i] = compute_reshape(graph, i == 0 ? e.nodes[e.count - 1] : pick(&e), COMPUTE_SHAPE(-1));
  return compute_concat(graph, parts, 4, 0);
}

/* Nearly every kernel of a random graph is a new one: a device that compiles takes few of them. */
static void check_seeds(compute_dtype dtype, uint64_t first, test_tolerance tolerance) {
  const uint64_t step = test_spread() == 1 ? 1 : 6 * test_spread();
  for (uint64_t seed = first; seed < first + SEEDS; seed += step) {
    const random_request request = {seed};
    char name[64];
    snprintf(name, sizeof name, "random graph %llu", (unsigned long long)seed);
    operation_case sample = {.name = name,
                             .build = build_random,
                             .user = &request,
                             .operand_count = 4,
                             .tolerance = tolerance};
    static const compute_shape shapes[4] = {SHAPE(2, 3, 4), SHAPE(3, 1), SHAPE(4), SHAPE(2, 3, 4)};
    for (size_t i = 0; i < 4; i++)
      sample.operand[i] = (operation_operand){i == 3 ? COMPUTE_BOOL : dtype,
                                              shapes[i],
                                              FILL_RANGE,
                                              -3,
                                              3,
                                              (guarded_layout)((seed + i) % LAYOUT_COUNT)};
    operation_check(test_context, &sample);
  }
  operation_finish();
}

static void double_precision_graphs_stay_what_they_are(void **state) {
  (void)state;
  check_seeds(COMPUTE_F64, 1000, (test_tolerance){.atol = 1e-8, .rtol = 1e-8});
}

static void single_precision_graphs_stay_what_they_are(void **state) {
  (void)state;
  check_seeds(COMPUTE_F32, 2000, (test_tolerance){.atol = 5e-2, .rtol = 1e-2});
}

static void integer_graphs_are_exact(void **state) {
  (void)state;
  check_seeds(COMPUTE_I32, 3000, (test_tolerance){0});
  check_seeds(COMPUTE_I64, 4000, (test_tolerance){0});
}

/* u8 computes as i32 and wraps when stored: fused or not, each operation's result is a u8. */
static void byte_graphs_wrap_after_every_operation(void **state) {
  (void)state;
  check_seeds(COMPUTE_U8, 5000, (test_tolerance){0});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(double_precision_graphs_stay_what_they_are),
      cmocka_unit_test(single_precision_graphs_stay_what_they_are),
      cmocka_unit_test(integer_graphs_are_exact),
      cmocka_unit_test(byte_graphs_wrap_after_every_operation),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
