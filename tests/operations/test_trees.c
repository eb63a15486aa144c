/* SPDX-License-Identifier: MIT */
/* Decision trees: random ensembles with every test, against a walk through the caller's nodes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/trees.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

enum { FEATURES = 5, MOST_NODES = 20000, MOST_TREES = 40 };

typedef struct forest {
  compute_tree_node nodes[MOST_NODES];
  compute_tree_value values[2 * MOST_NODES];
  double members[MOST_NODES];
  int64_t roots[MOST_TREES];
  compute_tree_ensemble_options o;
  int64_t member_count;
} forest;

static int64_t draw(test_random *random, int64_t count) {
  return (int64_t)test_random_uniform(random, 0, (double)count - 1e-9);
}

/* Few numbers, so that features often equal thresholds; infinities and zeros of both signs. */
static double draw_number(test_random *random) {
  static const double special[] = {(double)INFINITY, -(double)INFINITY, 0.0, -0.0};
  const int64_t which = draw(random, 40);
  if (which < 4) return special[which];
  return (double)(float)(draw(random, 9) - 4) / 4;
}

static void draw_leaf(forest *f, test_random *random, compute_tree_node *n) {
  n->first_value = f->o.value_count;
  n->value_count = f->o.targets == 1 ? 1 : draw(random, 3);
  for (int64_t i = 0; i < n->value_count; i++)
    f->values[f->o.value_count++] =
        (compute_tree_value){draw(random, f->o.targets), test_random_uniform(random, -1, 1)};
}

/* A tree by a list of nodes to write. */
static void draw_tree(forest *f, test_random *random, int64_t most) {
  const int64_t first = f->o.node_count;
  f->roots[f->o.tree_count++] = first;
  f->o.node_count++;
  for (int64_t at = first; at < f->o.node_count; at++) {
    compute_tree_node *n = &f->nodes[at];
    const bool room = f->o.node_count - first + 2 <= most;
    *n = (compute_tree_node){.missing = draw(random, 2) == 1};
    if (!room || draw(random, 10) == 0) {
      draw_leaf(f, random, n);
      continue;
    }
    n->test = (compute_tree_test)(1 + draw(random, 7));
    n->feature = draw(random, FEATURES);
    n->threshold = draw_number(random);
    n->members = f->members + f->member_count;
    n->member_count = n->test == COMPUTE_TREE_MEMBER ? draw(random, 5) : 0;
    for (int64_t i = 0; i < n->member_count; i++)
      f->members[f->member_count++] = draw_number(random);
    n->yes = f->o.node_count++;
    n->no = f->o.node_count++;
  }
}

static bool holds(const compute_tree_node *n, double x) {
  if (isnan(x)) return n->missing;
  switch (n->test) {
  case COMPUTE_TREE_LEQ: return x <= n->threshold;
  case COMPUTE_TREE_LT: return x < n->threshold;
  case COMPUTE_TREE_GTE: return x >= n->threshold;
  case COMPUTE_TREE_GT: return x > n->threshold;
  case COMPUTE_TREE_EQ: return x == n->threshold;
  case COMPUTE_TREE_NEQ: return x != n->threshold;
  default:
    for (int64_t i = 0; i < n->member_count; i++)
      if (n->members[i] == x) return true;
    return false;
  }
}

/* The result of a row for a target. */
static double walk(const forest *f, const double *x, int64_t target, bool single) {
  double result = 0;
  bool found = false;
  for (int64_t t = 0; t < f->o.tree_count; t++) {
    const compute_tree_node *n = &f->nodes[f->roots[t]];
    while (n->test != COMPUTE_TREE_LEAF) n = &f->nodes[holds(n, x[n->feature]) ? n->yes : n->no];
    double value = 0;
    bool has = false;
    for (int64_t i = 0; i < n->value_count; i++) {
      const compute_tree_value *v = &f->values[n->first_value + i];
      if (v->target != target) continue;
      value += v->value;
      has = true;
    }
    if (single) value = (float)value;
    if (!has) continue;
    if (f->o.combine == COMPUTE_TREE_MIN)
      result = found ? fmin(result, value) : value;
    else if (f->o.combine == COMPUTE_TREE_MAX)
      result = found ? fmax(result, value) : value;
    else
      result += value;
    found = true;
  }
  return f->o.combine == COMPUTE_TREE_AVERAGE ? result / (double)f->o.tree_count : result;
}

static void check(forest *f, compute_dtype dtype, int64_t rows, test_random *random) {
  const bool single = dtype == COMPUTE_F32;
  const int64_t targets = f->o.targets;
  compute_device *device = compute_default_device(test_context);
  double *x = calloc((size_t)(rows * FEATURES) + 1, sizeof *x);
  for (int64_t i = 0; i < rows * FEATURES; i++)
    x[i] = draw(random, 12) == 0 ? (double)NAN : draw_number(random);
  compute_tensor *wide = NULL, *given = NULL, *y = NULL, *result = NULL;
  assert_ok(compute_tensor_from_host(device, COMPUTE_F64, COMPUTE_SHAPE(rows, FEATURES), x, &wide));
  assert_ok(compute_tensor_cast(wide, dtype, &given));
  compute_graph *g = compute_graph_create(test_context);
  const compute_node input = compute_input(g, dtype, COMPUTE_SHAPE(rows, FEATURES));
  const compute_node node = compute_tree_ensemble(g, input, &f->o);
  assert_ok(compute_graph_status(g));
  compute_plan *plan = test_compile(g, &node, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, node, &y));
  assert_ok(compute_run(plan, (compute_binding[]){{input, given}, {node, y}}, 2, NULL));
  assert_ok(compute_tensor_cast(y, COMPUTE_F64, &result));
  double *actual = calloc((size_t)(rows * targets) + 1, sizeof *actual);
  assert_ok(compute_tensor_read(result, actual, (size_t)(rows * targets) * sizeof *actual));
  for (int64_t i = 0; i < rows * targets; i++) {
    const double expected = walk(f, x + i / targets * FEATURES, i % targets, single);
    const double allowed = single ? 2e-7 * (1 + fabs(expected)) : 1e-13;
    if (!(fabs(actual[i] - expected) <= allowed))
      fail_msg("row %lld, target %lld: %.17g, not %.17g", (long long)(i / targets),
               (long long)(i % targets), actual[i], expected);
  }
  compute_tensor_release(wide);
  compute_tensor_release(given);
  compute_tensor_release(y);
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(g);
  free(x);
  free(actual);
}

static void begin(forest *f, int64_t targets, compute_tree_combine combine) {
  f->member_count = 0;
  f->o = (compute_tree_ensemble_options){.nodes = f->nodes,
                                         .values = f->values,
                                         .roots = f->roots,
                                         .targets = targets,
                                         .combine = combine};
}

static void ensembles_equal_walks_through_their_nodes(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 3, 4, 9, 64, 65, 200};
  test_random random = {.state = test_seed()};
  forest *f = malloc(sizeof *f);
  assert_non_null(f);
  for (int round = 0; round < 40; round++) {
    begin(f, 1 + draw(&random, 3), (compute_tree_combine)(round % 4));
    const int64_t trees = 1 + draw(&random, MOST_TREES - 1);
    for (int64_t t = 0; t < trees; t++)
      draw_tree(f, &random, round % 3 == 0 ? 400 : 1 + 2 * draw(&random, 20));
    check(f, round % 2 ? COMPUTE_F64 : COMPUTE_F32, sizes[round % 7], &random);
  }
  free(f);
}

/* A tree with more records than a narrow record can name, as deep as it is long. */
static void a_long_tree_has_wide_records(void **state) {
  (void)state;
  enum { STEPS = 40000 };
  compute_tree_node *nodes = calloc(2 * STEPS + 1, sizeof *nodes);
  compute_tree_value *values = calloc(STEPS + 1, sizeof *values);
  for (int64_t i = 0; i < STEPS; i++) {
    nodes[2 * i] = (compute_tree_node){
        .test = COMPUTE_TREE_GT, .threshold = (double)i + 0.5, .yes = 2 * i + 2, .no = 2 * i + 1};
    nodes[2 * i + 1] = (compute_tree_node){.first_value = i, .value_count = 1};
    values[i].value = (double)i;
  }
  nodes[2 * STEPS] = (compute_tree_node){.first_value = STEPS, .value_count = 1};
  values[STEPS].value = STEPS;
  const int64_t root = 0;
  compute_graph *g = compute_graph_create(test_context);
  const float x[] = {0, 1, 17, 39999, 1e9f, 12345, 3, 39998, 7};
  const compute_node input = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(9, 1), x);
  const compute_node y =
      compute_tree_ensemble(g, input,
                            &(compute_tree_ensemble_options){.nodes = nodes,
                                                             .values = values,
                                                             .roots = &root,
                                                             .node_count = 2 * STEPS + 1,
                                                             .value_count = STEPS + 1,
                                                             .tree_count = 1,
                                                             .targets = 1});
  assert_ok(compute_graph_status(g));
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *result = NULL;
  assert_ok(compute_plan_create_tensor(plan, y, &result));
  assert_ok(compute_run(plan, (compute_binding[]){{y, result}}, 1, NULL));
  float actual[9];
  assert_ok(compute_tensor_read(result, actual, sizeof actual));
  for (int i = 0; i < 9; i++) assert_true(actual[i] == fminf(x[i], STEPS));
  compute_tensor_release(result);
  compute_plan_release(plan);
  compute_graph_release(g);
  free(nodes);
  free(values);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Results of one row alone, and among others. */
static void a_row_does_not_depend_on_the_others(void **state) {
  (void)state;
  enum { ROWS = 300 };
  test_random random = {.state = 7};
  forest *f = malloc(sizeof *f);
  assert_non_null(f);
  begin(f, 2, COMPUTE_TREE_SUM);
  for (int64_t t = 0; t < 37; t++) draw_tree(f, &random, 61);
  float x[ROWS * FEATURES], all[ROWS * 2], one[2];
  for (int i = 0; i < ROWS * FEATURES; i++) x[i] = (float)draw_number(&random);
  for (int64_t rows = ROWS; rows > 0; rows = rows == ROWS ? 1 : 0)
    for (int64_t first = 0; first < ROWS; first += rows == 1 ? 29 : rows) {
      compute_graph *g = compute_graph_create(test_context);
      const compute_node input =
          compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(rows, FEATURES), x + first * FEATURES);
      const compute_node y = compute_tree_ensemble(g, input, &f->o);
      compute_plan *plan = test_compile(g, &y, 1, 0);
      compute_tensor *result = NULL;
      assert_ok(compute_plan_create_tensor(plan, y, &result));
      assert_ok(compute_run(plan, (compute_binding[]){{y, result}}, 1, NULL));
      assert_ok(compute_tensor_read(result, rows == 1 ? one : all, (size_t)rows * 8));
      if (rows == 1) assert_memory_equal(one, all + 2 * first, sizeof one);
      compute_tensor_release(result);
      compute_plan_release(plan);
      compute_graph_release(g);
    }
  free(f);
}

/* ---- Refused calls --------------------------------------------------------------------------- */

typedef void (*change)(compute_tree_ensemble_options *o, compute_tree_node *n,
                       compute_tree_value *v, int64_t *root);

#define CHANGE(name, ...)                                                                          \
  static void name(compute_tree_ensemble_options *o, compute_tree_node *n, compute_tree_value *v,  \
                   int64_t *root) {                                                                \
    (void)o, (void)n, (void)v, (void)root;                                                         \
    __VA_ARGS__;                                                                                   \
  }
CHANGE(make_cycle, n[2] = n[0])
CHANGE(return_to_root, n[0].no = 0)
CHANGE(leave_nodes, n[0].no = INT64_C(1) << 40)
CHANGE(go_below, n[0].yes = -1)
CHANGE(leave_features, n[0].feature = FEATURES)
CHANGE(use_unknown_test, n[0].test = (compute_tree_test)8)
CHANGE(use_nan, n[0].threshold = (double)NAN)
CHANGE(leave_values, n[1].value_count = INT64_MAX)
CHANGE(start_late, n[1].first_value = 3)
CHANGE(leave_targets, v[0].target = 1)
CHANGE(claim_targets, o->targets = INT64_C(1) << 40)
CHANGE(claim_nodes, o->node_count = INT64_C(1) << 40)
CHANGE(claim_trees, o->tree_count = -1)
CHANGE(move_root, *root = 3)
CHANGE(combine_strangely, o->combine = (compute_tree_combine)4)
CHANGE(use_reserved, o->reserved[3] = 1)
CHANGE(drop_nodes, o->nodes = NULL)
CHANGE(lack_members, (n[0].test = COMPUTE_TREE_MEMBER, n[0].member_count = 1))

static void bad_ensembles_are_refused(void **state) {
  (void)state;
  static const change changes[] = {
      make_cycle,       return_to_root, leave_nodes,  go_below,   leave_features,
      use_unknown_test, use_nan,        leave_values, start_late, leave_targets,
      claim_targets,    claim_nodes,    claim_trees,  move_root,  combine_strangely,
      use_reserved,     drop_nodes,     lack_members};
  for (size_t i = 0; i <= sizeof changes / sizeof *changes; i++) {
    compute_tree_node nodes[3] = {{.test = COMPUTE_TREE_LEQ, .yes = 1, .no = 2},
                                  {.first_value = 0, .value_count = 1},
                                  {.first_value = 1, .value_count = 1}};
    compute_tree_value values[2] = {{0, 1}, {0, 2}};
    int64_t root = 0;
    compute_tree_ensemble_options o = {.nodes = nodes,
                                       .values = values,
                                       .roots = &root,
                                       .node_count = 3,
                                       .value_count = 2,
                                       .tree_count = 1,
                                       .targets = 1};
    const bool good = i == sizeof changes / sizeof *changes;
    if (!good) changes[i](&o, nodes, values, &root);
    compute_graph *g = compute_graph_create(test_context);
    const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, FEATURES));
    const compute_node y = compute_tree_ensemble(g, x, &o);
    if (compute_node_is_valid(y) != good || (compute_graph_status(g) == COMPUTE_OK) != good)
      fail_msg("change %zu", i);
    compute_graph_release(g);
  }
}

/* One leaf has all targets, so a table of all leaves and targets would be needed. */
static void sparse_leaves_of_many_targets_are_refused(void **state) {
  (void)state;
  const compute_tree_node nodes[3] = {{.test = COMPUTE_TREE_LEQ, .yes = 1, .no = 2},
                                      {.first_value = 0, .value_count = 2},
                                      {.first_value = 1, .value_count = 1}};
  const compute_tree_value values[2] = {{0, 1}, {1, 2}};
  const int64_t root = 0;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node x = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4, FEATURES));
  compute_tree_ensemble(g, x,
                        &(compute_tree_ensemble_options){.nodes = nodes,
                                                         .values = values,
                                                         .roots = &root,
                                                         .node_count = 3,
                                                         .value_count = 2,
                                                         .tree_count = 1,
                                                         .targets = 1 << 24});
  assert_int_equal(compute_graph_status(g), COMPUTE_ERROR_UNSUPPORTED);
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ensembles_equal_walks_through_their_nodes),
      cmocka_unit_test(a_long_tree_has_wide_records),
      cmocka_unit_test(a_row_does_not_depend_on_the_others),
      cmocka_unit_test(bad_ensembles_are_refused),
      cmocka_unit_test(sparse_leaves_of_many_targets_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
