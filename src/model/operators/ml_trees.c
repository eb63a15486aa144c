/* SPDX-License-Identifier: MIT */
/* Tree ensembles of ai.onnx.ml: TreeEnsemble, and the older TreeEnsembleRegressor and
 * TreeEnsembleClassifier, whose nodes name each other by tree and number. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/trees.h"
#include "core/type/shape.h"
#include "model/operators/ml.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

typedef struct forest {
  compute_tree_node *nodes;
  compute_tree_value *values;
  int64_t *roots;
  size_t node_count, value_count, tree_count;
} forest;

static compute_status bad_lengths(model_call *call, const char *name, size_t count,
                                  size_t expected) {
  return call_fail(call, COMPUTE_ERROR_FORMAT, "'%s' has %zu elements, not %zu", name, count,
                   expected);
}

/* A list of integers of that length; NULL if it is absent and may be. */
static compute_status integers(model_call *call, const char *name, size_t expected, bool required,
                               const int64_t **list) {
  size_t count;
  *list = call_attribute_ints(call, name, &count);
  if (count == 0 && !required) {
    *list = NULL;
    return COMPUTE_OK;
  }
  return count == expected ? COMPUTE_OK : bad_lengths(call, name, count, expected);
}

static compute_status numbers(model_call *call, const char *name, const char *tensor,
                              size_t expected, const double **list) {
  size_t count;
  const compute_status status = ml_numbers(call, name, tensor, list, &count);
  return status || count == expected ? status
                                     : bad_lengths(call, *name ? name : tensor, count, expected);
}

/* NaN is not equal to the threshold, so NEQ holds for it. */
static bool missing_holds(compute_tree_test test, const int64_t *tracks, size_t i) {
  return test == COMPUTE_TREE_NEQ || (tracks && tracks[i] != 0);
}

/* Checks the targets of all values, also of those that no tree reaches. */
static compute_status add_trees(model_call *call, const forest *f, int64_t targets,
                                compute_tree_combine combine, compute_node *y) {
  for (size_t i = 0; i < f->value_count; i++)
    if (f->values[i].target < 0 || f->values[i].target >= targets)
      return call_fail(call, COMPUTE_ERROR_FORMAT,
                       "value %zu belongs to target %" PRId64 " of %" PRId64, i,
                       f->values[i].target, targets);
  const compute_tree_ensemble_options options = {.nodes = f->nodes,
                                                 .values = f->values,
                                                 .roots = f->roots,
                                                 .node_count = (int64_t)f->node_count,
                                                 .value_count = (int64_t)f->value_count,
                                                 .tree_count = (int64_t)f->tree_count,
                                                 .targets = targets,
                                                 .combine = combine};
  *y = compute_tree_ensemble(call->graph, ml_matrix(call, 0), &options);
  return COMPUTE_OK;
}

/* ---- The older operators --------------------------------------------------------------------- */

/* A node's name. */
typedef struct node_name {
  int64_t tree, node;
  size_t index;
} node_name;

static int compare_names(const void *a, const void *b) {
  const node_name *x = a, *y = b;
  if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
  if (x->node != y->node) return x->node < y->node ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

/* The index of a node, or `count`. */
static size_t find_name(const node_name *names, size_t count, int64_t tree, int64_t node) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const node_name *n = &names[middle];
    if (n->tree < tree || (n->tree == tree && n->node < node))
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && names[low].tree == tree && names[low].node == node ? names[low].index
                                                                           : count;
}

static compute_status read_mode(model_call *call, const char *mode, compute_tree_test *test) {
  static const char *const modes[] = {
      [COMPUTE_TREE_LEAF] = "LEAF",      [COMPUTE_TREE_LEQ] = "BRANCH_LEQ",
      [COMPUTE_TREE_LT] = "BRANCH_LT",   [COMPUTE_TREE_GTE] = "BRANCH_GTE",
      [COMPUTE_TREE_GT] = "BRANCH_GT",   [COMPUTE_TREE_EQ] = "BRANCH_EQ",
      [COMPUTE_TREE_NEQ] = "BRANCH_NEQ",
  };
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (strcmp(mode, modes[i]) == 0) {
      *test = (compute_tree_test)i;
      return COMPUTE_OK;
    }
  return call_fail(call, COMPUTE_ERROR_FORMAT, "mode '%s' of a node", mode);
}

static compute_status read_branches(model_call *call, forest *f, const node_name *names,
                                    const int64_t *trees) {
  const int64_t *yes, *no, *features, *tracks;
  const double *thresholds;
  const char *const *modes;
  size_t count;
  const size_t n = f->node_count;
  compute_status status = integers(call, "nodes_truenodeids", n, true, &yes);
  if (!status) status = integers(call, "nodes_falsenodeids", n, true, &no);
  if (!status) status = integers(call, "nodes_featureids", n, true, &features);
  if (!status) status = integers(call, "nodes_missing_value_tracks_true", n, false, &tracks);
  if (!status) status = numbers(call, "nodes_values", "nodes_values_as_tensor", n, &thresholds);
  if (!status) status = ml_texts(call, "nodes_modes", &modes, &count);
  if (!status && count != n) status = bad_lengths(call, "nodes_modes", count, n);
  for (size_t i = 0; i < n && !status; i++) {
    compute_tree_node *node = &f->nodes[i];
    status = read_mode(call, modes[i], &node->test);
    if (status || node->test == COMPUTE_TREE_LEAF) continue;
    node->feature = features[i];
    node->threshold = thresholds[i];
    node->missing = missing_holds(node->test, tracks, i);
    node->yes = (int64_t)find_name(names, n, trees[i], yes[i]);
    node->no = (int64_t)find_name(names, n, trees[i], no[i]);
    if (node->yes == (int64_t)n || node->no == (int64_t)n)
      status = call_fail(call, COMPUTE_ERROR_FORMAT,
                         "a branch of node %zu is not a node of its tree", i);
  }
  return status;
}

/* The root of a tree is its first node in the file. It must lead to all nodes of its tree; the
 * builder refuses circles. */
static compute_status find_roots(model_call *call, forest *f, const node_name *names) {
  const size_t n = f->node_count;
  unsigned char *reached = call_allocate(call, n + 1, 1);
  int64_t *stack = call_allocate(call, n + 1, sizeof *stack);
  f->roots = call_allocate(call, n + 1, sizeof *f->roots);
  if (!reached || !stack || !f->roots) return call_out_of_memory(call);
  for (size_t i = 0; i < n;) { /* names are sorted by tree */
    const size_t start = i;
    size_t root = names[i].index;
    for (; i < n && names[i].tree == names[start].tree; i++)
      if (names[i].index < root) root = names[i].index;
    reached[root] = 1;
  }
  size_t depth = 0;
  for (size_t i = 0; i < n; i++)
    if (reached[i]) stack[depth++] = f->roots[f->tree_count++] = (int64_t)i;
  while (depth > 0) {
    const compute_tree_node *node = &f->nodes[stack[--depth]];
    const int64_t to[] = {node->yes, node->no};
    for (int k = 0; k < 2 && node->test != COMPUTE_TREE_LEAF; k++)
      if (!reached[to[k]]) reached[stack[depth++] = to[k]] = 1;
  }
  for (size_t i = 0; i < n; i++)
    if (!reached[i])
      return call_fail(call, COMPUTE_ERROR_FORMAT,
                       "node %zu is not reached from the first node of its tree", i);
  return COMPUTE_OK;
}

/* An entry of a leaf, to be sorted by node. */
typedef struct leaf_entry {
  size_t node, at;
} leaf_entry;

static int compare_entries(const void *a, const void *b) {
  const leaf_entry *x = a, *y = b;
  if (x->node != y->node) return x->node < y->node ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

/* Entries of leaves from the attributes <prefix>_treeids and so on. */
static compute_status read_leaves(model_call *call, forest *f, const node_name *names,
                                  const char *const lists[5]) {
  const int64_t *trees, *nodes, *targets;
  const double *weights;
  size_t count;
  trees = call_attribute_ints(call, lists[0], &count);
  compute_status status = integers(call, lists[1], count, count > 0, &nodes);
  if (!status) status = integers(call, lists[2], count, count > 0, &targets);
  if (!status) status = numbers(call, lists[3], lists[4], count, &weights);
  if (status) return status;
  leaf_entry *entries = call_allocate(call, count + 1, sizeof *entries);
  f->values = call_allocate(call, count + 1, sizeof *f->values);
  if (!entries || !f->values) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) {
    const size_t node = find_name(names, f->node_count, trees[i], nodes[i]);
    if (node == f->node_count || f->nodes[node].test != COMPUTE_TREE_LEAF)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "value %zu does not belong to a leaf", i);
    entries[i] = (leaf_entry){node, i};
  }
  qsort(entries, count, sizeof *entries, compare_entries);
  for (size_t i = 0; i < count; i++) {
    compute_tree_node *leaf = &f->nodes[entries[i].node];
    if (leaf->value_count++ == 0) leaf->first_value = (int64_t)i;
    f->values[i] = (compute_tree_value){targets[entries[i].at], weights[entries[i].at]};
  }
  f->value_count = count;
  return COMPUTE_OK;
}

static compute_status read_forest(model_call *call, forest *f, const char *const leaves[5]) {
  const int64_t *trees, *ids;
  *f = (forest){0};
  trees = call_attribute_ints(call, "nodes_treeids", &f->node_count);
  compute_status status = integers(call, "nodes_nodeids", f->node_count, true, &ids);
  if (status) return status;
  node_name *names = call_allocate(call, f->node_count + 1, sizeof *names);
  f->nodes = call_allocate(call, f->node_count + 1, sizeof *f->nodes);
  if (!names || !f->nodes) return call_out_of_memory(call);
  for (size_t i = 0; i < f->node_count; i++) names[i] = (node_name){trees[i], ids[i], i};
  qsort(names, f->node_count, sizeof *names, compare_names);
  for (size_t i = 1; i < f->node_count; i++)
    if (names[i].tree == names[i - 1].tree && names[i].node == names[i - 1].node)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "a tree has two nodes %" PRId64, names[i].node);
  status = read_branches(call, f, names, trees);
  if (!status) status = find_roots(call, f, names);
  return status ? status : read_leaves(call, f, names, leaves);
}

/* Adds one base value for each target. */
static compute_status read_base(model_call *call, const double **base, size_t *count) {
  return ml_numbers(call, "base_values", "base_values_as_tensor", base, count);
}

static compute_status tree_regressor(model_call *call) {
  static const char *const leaves[] = {"target_treeids", "target_nodeids", "target_ids",
                                       "target_weights", "target_weights_as_tensor"};
  static const char *const names[] = {
      [COMPUTE_TREE_SUM] = "SUM",
      [COMPUTE_TREE_AVERAGE] = "AVERAGE",
      [COMPUTE_TREE_MIN] = "MIN",
      [COMPUTE_TREE_MAX] = "MAX",
  };
  const char *name = call_attribute_s(call, "aggregate_function", "SUM");
  const int64_t targets = call_attribute_i(call, "n_targets", 1);
  size_t combine = 0, base_count;
  const double *base;
  forest f;
  compute_node y;
  while (combine < 4 && strcmp(names[combine], name) != 0) combine++;
  if (combine == 4) return call_fail(call, COMPUTE_ERROR_FORMAT, "aggregate_function '%s'", name);
  compute_status status = read_forest(call, &f, leaves);
  if (!status) status = read_base(call, &base, &base_count);
  if (status) return status;
  if (base_count > 0 && (int64_t)base_count != targets)
    return bad_lengths(call, "base_values", base_count, (size_t)targets);
  status = add_trees(call, &f, targets, (compute_tree_combine)combine, &y);
  if (status) return status;
  if (base_count)
    y = compute_add(call->graph, y, ml_constant(call, y, COMPUTE_SHAPE(targets), base));
  status = ml_transform(call, call_attribute_s(call, "post_transform", "NONE"), &y);
  return status ? status : call_output(call, 0, op_cast(call, y, COMPUTE_F32));
}

/* ---- The classifier -------------------------------------------------------------------------- */

/* Class 1 where the score is above a limit. */
static compute_node above(model_call *call, compute_node score, double limit) {
  const compute_node test =
      compute_greater(call->graph, score, call_scalar_like(call, score, limit));
  return compute_reshape(call->graph, compute_cast(call->graph, test, COMPUTE_I64),
                         COMPUTE_SHAPE(-1));
}

static compute_node column(model_call *call, compute_node x, int64_t at) {
  return compute_slice(call->graph, x, 1, at, 1, 1);
}

/* Two classes of which the leaves name only one. The specification leaves the rules open; these are
 * ONNX Runtime's, for which exporters write. A score that cannot be negative is a probability. */
static compute_status two_classes(model_call *call, const forest *f, const double *base,
                                  size_t base_count, const char *transform, compute_node *scores,
                                  compute_node *classes) {
  compute_graph *graph = call->graph;
  bool positive = true;
  for (size_t i = 0; i < f->value_count; i++) positive = positive && f->values[i].value >= 0;
  const int64_t named = f->value_count ? f->values[0].target : 0;
  compute_node score = column(call, *scores, named);
  const compute_node zero = compute_mul(graph, score, call_scalar_like(call, score, 0));
  bool pair = named == 1;
  compute_node both[] = {zero, score};
  if (base_count == 2 && named == 0) {
    score = compute_add(graph, score, call_scalar_like(call, score, base[1]));
    both[0] = compute_neg(graph, score);
    both[1] = score;
    pair = true;
  } else if (base_count == 2) {
    both[0] = compute_add(graph, zero, call_scalar_like(call, score, base[0]));
    both[1] = score = compute_add(graph, score, call_scalar_like(call, score, base[1]));
  } else if (base_count == 1 && named == 0) {
    score = compute_add(graph, score, call_scalar_like(call, score, base[0]));
  } else if (base_count == 1) {
    both[0] = compute_add(graph, zero, call_scalar_like(call, score, base[0]));
  }
  *classes = above(call, score, positive ? 0.5 : 0);
  if (pair) {
    *scores = compute_concat(graph, both, 2, 1);
    return ml_transform(call, transform, scores);
  }
  const bool probit = strcmp(transform, "PROBIT") == 0;
  const bool logistic = strcmp(transform, "LOGISTIC") == 0;
  if (probit || logistic || !positive) {
    *scores = score;
    return probit ? ml_transform(call, transform, scores)
                  : ml_transform_pair(call, logistic ? transform : "NONE", scores);
  }
  const compute_node parts[] = {compute_sub(graph, call_scalar_like(call, score, 1), score), score};
  *scores = compute_concat(graph, parts, 2, 1);
  return COMPUTE_OK;
}

/* True if there are two classes, and all leaves have values of one of them. */
static bool names_one(const forest *f, size_t classes) {
  for (size_t i = 1; i < f->value_count; i++)
    if (f->values[i].target != f->values[0].target) return false;
  return classes == 2;
}

static compute_status tree_classifier(model_call *call) {
  static const char *const leaves[] = {"class_treeids", "class_nodeids", "class_ids",
                                       "class_weights", "class_weights_as_tensor"};
  const char *transform = call_attribute_s(call, "post_transform", "NONE");
  ml_labels labels;
  size_t base_count;
  const double *base;
  forest f;
  compute_node scores, classes;
  compute_status status = ml_read_labels(call, "classlabels_int64s", &labels);
  if (!status) status = read_forest(call, &f, leaves);
  if (!status) status = read_base(call, &base, &base_count);
  if (status) return status;
  if (labels.count < 1) return call_fail(call, COMPUTE_ERROR_FORMAT, "it has no labels");
  status = add_trees(call, &f, (int64_t)labels.count, COMPUTE_TREE_SUM, &scores);
  if (status) return status;
  if (compute_graph_status(call->graph)) return COMPUTE_OK; /* reported after the rule */
  if (names_one(&f, labels.count)) {
    if (base_count > 2) return bad_lengths(call, "base_values", base_count, 2);
    status = two_classes(call, &f, base, base_count, transform, &scores, &classes);
  } else {
    if (base_count > 0 && base_count != labels.count)
      return bad_lengths(call, "base_values", base_count, labels.count);
    if (base_count)
      scores = compute_add(call->graph, scores,
                           ml_constant(call, scores, COMPUTE_SHAPE((int64_t)labels.count), base));
    classes = compute_argmax(call->graph, scores, 1, false);
    status = ml_transform(call, transform, &scores);
  }
  if (status) return status;
  call_output(call, 1, op_cast(call, scores, COMPUTE_F32));
  return ml_output_labels(call, &labels, classes);
}

/* ---- TreeEnsemble ---------------------------------------------------------------------------- */

/* Members of the nodes with such a test, in their order; NaN ends each list. */
static compute_status read_members(model_call *call, forest *f, size_t nodes) {
  const double *members;
  size_t count, at = 0;
  const compute_status status = ml_numbers(call, "", "membership_values", &members, &count);
  if (status) return status;
  for (size_t i = 0; i < nodes; i++) {
    if (f->nodes[i].test != COMPUTE_TREE_MEMBER) continue;
    f->nodes[i].members = members + at;
    while (at < count && !isnan(members[at])) {
      at++;
      f->nodes[i].member_count++;
    }
    if (at == count) return call_fail(call, COMPUTE_ERROR_FORMAT, "node %zu has no members", i);
    at++;
  }
  return COMPUTE_OK;
}

/* A branch to leaf number `leaf` gets a node of its own, so that no node is reached twice. */
static compute_status read_branch(model_call *call, forest *f, size_t nodes, int64_t to,
                                  bool to_leaf, size_t own, int64_t *branch) {
  const size_t leaves = f->value_count;
  *branch = to;
  if (to < 0 || (size_t)to >= (to_leaf ? leaves : nodes))
    return call_fail(call, COMPUTE_ERROR_FORMAT, "a branch to %s %" PRId64 " of %zu",
                     to_leaf ? "leaf" : "node", to, to_leaf ? leaves : nodes);
  if (!to_leaf) return COMPUTE_OK;
  f->nodes[own] =
      (compute_tree_node){.test = COMPUTE_TREE_LEAF, .first_value = to, .value_count = 1};
  *branch = (int64_t)own;
  return COMPUTE_OK;
}

static compute_status read_nodes(model_call *call, forest *f, size_t n) {
  static const compute_tree_test tests[] = {COMPUTE_TREE_LEQ,   COMPUTE_TREE_LT, COMPUTE_TREE_GTE,
                                            COMPUTE_TREE_GT,    COMPUTE_TREE_EQ, COMPUTE_TREE_NEQ,
                                            COMPUTE_TREE_MEMBER};
  const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *tracks;
  const double *splits, *modes;
  compute_status status = integers(call, "nodes_featureids", n, true, &features);
  if (!status) status = integers(call, "nodes_truenodeids", n, true, &yes);
  if (!status) status = integers(call, "nodes_falsenodeids", n, true, &no);
  if (!status) status = integers(call, "nodes_trueleafs", n, true, &yes_leaf);
  if (!status) status = integers(call, "nodes_falseleafs", n, true, &no_leaf);
  if (!status) status = integers(call, "nodes_missing_value_tracks_true", n, false, &tracks);
  if (!status) status = numbers(call, "", "nodes_splits", n, &splits);
  if (!status) status = numbers(call, "", "nodes_modes", n, &modes);
  for (size_t i = 0; i < n && !status; i++) {
    if (!(modes[i] >= 0 && modes[i] <= 6))
      return call_fail(call, COMPUTE_ERROR_FORMAT, "mode %g of node %zu", modes[i], i);
    compute_tree_node *node = &f->nodes[i];
    *node = (compute_tree_node){
        .test = tests[(size_t)modes[i]], .feature = features[i], .threshold = splits[i]};
    node->missing = missing_holds(node->test, tracks, i);
    if (node->test == COMPUTE_TREE_MEMBER) node->threshold = 0;
    status = read_branch(call, f, n, yes[i], yes_leaf[i] != 0, n + 2 * i, &node->yes);
    if (!status) status = read_branch(call, f, n, no[i], no_leaf[i] != 0, n + 2 * i + 1, &node->no);
  }
  return status ? status : read_members(call, f, n);
}

static compute_status tree_ensemble(model_call *call) {
  static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  static const compute_tree_combine combines[] = {COMPUTE_TREE_AVERAGE, COMPUTE_TREE_SUM,
                                                  COMPUTE_TREE_MIN, COMPUTE_TREE_MAX};
  const int64_t combine = call_attribute_i(call, "aggregate_function", 1);
  const int64_t transform = call_attribute_i(call, "post_transform", 0);
  forest f = {0};
  size_t nodes;
  const int64_t *targets, *roots;
  const double *weights;
  call_attribute_ints(call, "nodes_featureids", &nodes);
  roots = call_attribute_ints(call, "tree_roots", &f.tree_count);
  targets = call_attribute_ints(call, "leaf_targetids", &f.value_count);
  if (combine < 0 || combine > 3 || transform < 0 || transform > 4)
    return call_fail(call, COMPUTE_ERROR_FORMAT,
                     "aggregate_function %" PRId64 ", post_transform %" PRId64, combine, transform);
  compute_status status = numbers(call, "", "leaf_weights", f.value_count, &weights);
  if (status) return status;
  f.node_count = 3 * nodes;
  f.nodes = call_allocate(call, f.node_count + 1, sizeof *f.nodes);
  f.values = call_allocate(call, f.value_count + 1, sizeof *f.values);
  f.roots = call_allocate(call, f.tree_count + 1, sizeof *f.roots);
  if (!f.nodes || !f.values || !f.roots) return call_out_of_memory(call);
  for (size_t i = 0; i < f.value_count; i++)
    f.values[i] = (compute_tree_value){targets[i], weights[i]};
  status = read_nodes(call, &f, nodes);
  /* A root whose branches are the same leaf is that leaf. */
  for (size_t i = 0; i < f.tree_count && !status; i++) {
    f.roots[i] = roots[i];
    if (roots[i] < 0 || (size_t)roots[i] >= nodes)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "root %" PRId64 " of %zu nodes", roots[i],
                       nodes);
    const compute_tree_node *n = &f.nodes[roots[i]];
    if ((size_t)n->yes == nodes + 2 * (size_t)roots[i] &&
        (size_t)n->no == nodes + 2 * (size_t)roots[i] + 1 &&
        f.nodes[n->yes].first_value == f.nodes[n->no].first_value)
      f.roots[i] = n->yes;
  }
  if (status) return status;
  compute_node y;
  status = add_trees(call, &f, call_attribute_i(call, "n_targets", 1), combines[combine], &y);
  if (!status) status = ml_transform(call, transforms[transform], &y);
  return status ? status : call_output(call, 0, op_cast(call, y, call_dtype(call, 0)));
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"ai.onnx.ml", "TreeEnsemble", 5, tree_ensemble},
    {"ai.onnx.ml", "TreeEnsembleClassifier", 1, tree_classifier},
    {"ai.onnx.ml", "TreeEnsembleRegressor", 1, tree_regressor},
};

const operator_family operators_ml_trees = OPERATOR_FAMILY(rows);
