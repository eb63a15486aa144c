/* SPDX-License-Identifier: MIT */
/* Tree ensembles: the tables of the kind TREES from nodes of the caller.
 *
 * Every test becomes steps "v ≤ threshold", exact for each number of x's dtype. A set of members is
 * a search among its limits: below a member and at it. The branches of a node are often reached
 * by several steps of one search; then their records are copied, and what follows is shared. */
#include "compute/trees.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/float_environment.h"
#include "core/kernel/kernel.h"
#include "core/type/shape.h"
#include "graph/builders/parts.h"

enum { NARROW_RECORDS = 1 << 16, NARROW_COLUMNS = 1 << 16, MOST_SPARSE = 4096 };

static const char operation[] = "tree_ensemble";

/* State of a node. */
typedef struct node_state {
  int64_t tree; /* 1 + the tree that reaches it, or 0 */
  int branches; /* of these, searched already; 3: all that follows is known */
  int64_t depth;
  int64_t pair;  /* the first record of its branches, or −1 */
  int64_t leaf;  /* its number, or −1 */
  int64_t limit; /* its first limit in `limits` */
  int64_t limits;
} node_state;

/* A record before it is packed. */
typedef struct record {
  double threshold;
  int64_t number; /* of a leaf, or −1 */
  uint32_t feature, left;
  bool missing;
} record;

/* A node, or a part of its search among limits, that becomes a record. */
typedef struct item {
  int64_t node, first, end, record;
} item;

typedef struct ensemble {
  compute_graph *graph;
  const compute_tree_ensemble_options *o;
  compute_dtype dtype;
  int64_t features;
  node_state *states;
  int64_t *order; /* nodes of a tree, branches before their node */
  int64_t *path;  /* nodes between the root and the node that is searched */
  double *limits;
  size_t limit_count, limit_capacity;
  record *records;
  size_t record_count, record_capacity;
  item *items;
  size_t item_count, item_capacity;
  double *values;
  size_t value_count, value_capacity;
  int64_t *heads;
  int64_t most_records; /* of a tree */
  bool has_missing;
} ensemble;

static bool no_memory(const ensemble *e) {
  return graph_refuse(e->graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %" PRId64 " nodes", e->o->node_count);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool refuse_node(const ensemble *e, int64_t node, const char *what) {
  return graph_refuse(e->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "node %" PRId64 ": %s",
                      node, what);
}

static bool in_range(int64_t first, int64_t count, int64_t end) {
  return first >= 0 && count >= 0 && count <= end && first <= end - count;
}

static bool check_leaf(const ensemble *e, int64_t at) {
  const compute_tree_node *n = &e->o->nodes[at];
  if (!in_range(n->first_value, n->value_count, e->o->value_count))
    return refuse_node(e, at, "its values are out of range");
  for (int64_t i = 0; i < n->value_count; i++) {
    const int64_t target = e->o->values[n->first_value + i].target;
    if (target < 0 || target >= e->o->targets)
      return refuse_node(e, at, "the target of a value is out of range");
  }
  return true;
}

static bool check_node(const ensemble *e, int64_t at) {
  const compute_tree_node *n = &e->o->nodes[at];
  if (n->test == COMPUTE_TREE_LEAF) return check_leaf(e, at);
  if (n->test < COMPUTE_TREE_LEAF || n->test > COMPUTE_TREE_MEMBER)
    return refuse_node(e, at, "the test is unknown");
  if (n->feature < 0 || n->feature >= e->features)
    return refuse_node(e, at, "the feature is out of range");
  if (n->test != COMPUTE_TREE_MEMBER)
    return !isnan(n->threshold) || refuse_node(e, at, "the threshold is NaN");
  if (n->member_count < 0 || (n->member_count > 0 && !n->members))
    return refuse_node(e, at, "it has no members");
  for (int64_t i = 0; i < n->member_count; i++)
    if (isnan(n->members[i])) return refuse_node(e, at, "a member is NaN");
  return true;
}

/* Adds a node to the path of its tree, unless it has been searched. */
static bool reach(ensemble *e, int64_t tree, int64_t from, int64_t node, int64_t *length) {
  if (node < 0 || node >= e->o->node_count)
    return from < 0 ? graph_refuse(e->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                                   "a root is out of range: %" PRId64, node)
                    : refuse_node(e, from, "a branch is out of range");
  node_state *state = &e->states[node];
  if (state->tree == tree + 1)
    return state->branches == 3 || refuse_node(e, node, "it leads to itself");
  if (state->tree != 0) return refuse_node(e, node, "it belongs to two trees");
  state->tree = tree + 1;
  e->path[(*length)++] = node;
  return check_node(e, node);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* The largest number of the dtype that is at most `value`, or less than it. NaN: none, which no
 * feature is at most. */
static double at_most(const ensemble *e, double value) {
  if (e->dtype != COMPUTE_F32) return value;
  const float near = (float)value;
  return (double)near > value ? nextafterf(near, -HUGE_VALF) : near;
}

static double below(const ensemble *e, double value) {
  if (value == -HUGE_VAL) return NAN;
  const double near = at_most(e, value);
  if (near != value) return near;
  return e->dtype == COMPUTE_F32 ? nextafterf((float)near, -HUGE_VALF) : nextafter(near, -HUGE_VAL);
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool is_search(const compute_tree_node *n) {
  return n->test == COMPUTE_TREE_EQ || n->test == COMPUTE_TREE_NEQ ||
         n->test == COMPUTE_TREE_MEMBER;
}

/* Two limits for each member. A feature is a member if it is above an odd number of them. A set
 * without members gets two limits that no feature is at most. */
static bool make_limits(ensemble *e, int64_t at) {
  const compute_tree_node *n = &e->o->nodes[at];
  const bool set = n->test == COMPUTE_TREE_MEMBER;
  const int64_t count = set ? max_i64(n->member_count, 1) : 1;
  node_state *state = &e->states[at];
  if (count > INT32_MAX) return refuse_node(e, at, "it has too many members");
  const size_t first = e->limit_count;
  if (base_grow((void **)&e->limits, &e->limit_capacity, first + 2 * (uint64_t)count,
                sizeof *e->limits) != 0)
    return no_memory(e);
  double *limits = e->limits + first;
  for (int64_t i = 0; i < count; i++)
    limits[i] = !set ? n->threshold : n->member_count > 0 ? n->members[i] : NAN;
  qsort(limits, (size_t)count, sizeof *limits, compare);
  for (int64_t i = count; i-- > 0;) {
    const double member = limits[i];
    limits[2 * i] = below(e, member);
    limits[2 * i + 1] = at_most(e, member);
  }
  state->limit = (int64_t)first;
  state->limits = 2 * count;
  e->limit_count += 2 * (size_t)count;
  return true;
}

/* Steps of a search among that many limits. */
static int64_t search_depth(int64_t limits) {
  int64_t depth = 0;
  for (; limits > 0; limits /= 2) depth++;
  return depth;
}

/* ---- Records --------------------------------------------------------------------------------- */

static bool add_item(ensemble *e, int64_t node, int64_t first, int64_t end, int64_t place) {
  if (base_grow((void **)&e->items, &e->item_capacity, e->item_count + UINT64_C(1),
                sizeof *e->items) != 0)
    return no_memory(e);
  e->items[e->item_count++] = (item){node, first, end, place};
  return true;
}

static bool add_node(ensemble *e, int64_t node, int64_t place) {
  return add_item(e, node, 0, e->states[node].limits, place);
}

/* Two more records of the tree that begins at record `base`; *pair counts from there. */
static bool add_pair(ensemble *e, size_t base, int64_t *pair) {
  if (e->record_count >= INT32_MAX - 2)
    return graph_refuse(e->graph, COMPUTE_ERROR_OVERFLOW, operation, "more than 2^31 nodes");
  if (base_grow((void **)&e->records, &e->record_capacity, e->record_count + UINT64_C(2),
                sizeof *e->records) != 0)
    return no_memory(e);
  *pair = (int64_t)(e->record_count - base);
  memset(&e->records[e->record_count], 0, 2 * sizeof *e->records);
  e->record_count += 2;
  return true;
}

/* A leaf leads to itself: to the right, because no feature is at most NaN. */
static void write_leaf(ensemble *e, size_t base, const item *i) {
  e->records[base + (size_t)i->record] = (record){
      .threshold = NAN, .number = e->states[i->node].leaf, .left = (uint32_t)(i->record - 1)};
}

/* Writes a step. NaN goes to the right unless `missing` is set. */
static void write_step(ensemble *e, size_t place, double threshold, int64_t feature, bool missing,
                       int64_t pair) {
  e->records[place] = (record){.threshold = threshold,
                               .number = -1,
                               .feature = (uint32_t)feature,
                               .left = (uint32_t)pair,
                               .missing = missing};
  e->has_missing = e->has_missing || missing;
}

/* True if only NaN goes to the left. Even −infinity is not at most NaN, so such a step is turned:
 * all other features are at most infinity. */
static bool takes_only_missing(double threshold, bool missing) {
  return missing && isnan(threshold);
}

static bool write_threshold(ensemble *e, size_t base, const item *i) {
  const compute_tree_node *n = &e->o->nodes[i->node];
  const bool turned = n->test == COMPUTE_TREE_GT || n->test == COMPUTE_TREE_GTE;
  const bool strict = n->test == COMPUTE_TREE_LT || n->test == COMPUTE_TREE_GTE;
  const double threshold = strict ? below(e, n->threshold) : at_most(e, n->threshold);
  const bool missing = n->missing != turned, only = takes_only_missing(threshold, missing);
  const int64_t left = turned != only ? n->no : n->yes, right = turned != only ? n->yes : n->no;
  node_state *state = &e->states[i->node];
  if (state->pair < 0 && (!add_pair(e, base, &state->pair) || !add_node(e, left, state->pair) ||
                          !add_node(e, right, state->pair + 1)))
    return false;
  write_step(e, base + (size_t)i->record, only ? HUGE_VAL : threshold, n->feature, missing && !only,
             state->pair);
  return true;
}

/* One step of a search, at its middle limit. */
static bool write_search(ensemble *e, size_t base, const item *i) {
  const compute_tree_node *n = &e->o->nodes[i->node];
  node_state *state = &e->states[i->node];
  const int64_t middle = i->first + (i->end - i->first) / 2;
  const bool whole = i->first == 0 && i->end == state->limits;
  const bool odd = n->missing != (n->test == COMPUTE_TREE_NEQ); /* where NaN must end */
  const double threshold = e->limits[state->limit + middle];
  const bool missing = (odd ? 1 : 0) <= middle, only = takes_only_missing(threshold, missing);
  int64_t pair = whole ? state->pair : -1;
  if (pair < 0) {
    if (!add_pair(e, base, &pair) || !add_item(e, i->node, i->first, middle, pair + only) ||
        !add_item(e, i->node, middle + 1, i->end, pair + !only))
      return false;
    if (whole) state->pair = pair;
  }
  write_step(e, base + (size_t)i->record, only ? HUGE_VAL : threshold, n->feature, missing && !only,
             pair);
  return true;
}

/* Where a search without limits left has come to. */
static item end_search(const ensemble *e, const item *i) {
  const compute_tree_node *n = &e->o->nodes[i->node];
  const bool inside = i->first % 2 != 0;
  const int64_t to = inside == (n->test != COMPUTE_TREE_NEQ) ? n->yes : n->no;
  return (item){to, 0, e->states[to].limits, i->record};
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The only target of a tree, 0 without values, or −1. */
static int64_t only_target(const ensemble *e, int64_t count) {
  int64_t target = -1;
  for (int64_t i = 0; i < count; i++) {
    const compute_tree_node *n = &e->o->nodes[e->order[i]];
    for (int64_t k = 0; n->test == COMPUTE_TREE_LEAF && k < n->value_count; k++) {
      const int64_t other = e->o->values[n->first_value + k].target;
      if (target >= 0 && target != other) return -1;
      target = other;
    }
  }
  return max_i64(target, 0);
}

static bool add_values(ensemble *e, int64_t count, int64_t target) {
  const int64_t width = target < 0 ? e->o->targets : 1;
  const bool sums = e->o->combine <= COMPUTE_TREE_AVERAGE;
  int64_t leaves = 0, more, most;
  for (int64_t i = 0; i < count; i++)
    if (e->o->nodes[e->order[i]].test == COMPUTE_TREE_LEAF) e->states[e->order[i]].leaf = leaves++;
  if (!checked_multiply(leaves, width, &more) ||
      !checked_multiply(e->o->value_count, MOST_SPARSE, &most))
    more = INT64_MAX, most = 0;
  if (width > 1 && more > max_i64(most, 1 << 20) - (int64_t)e->value_count)
    return graph_refuse(e->graph, COMPUTE_ERROR_UNSUPPORTED, operation,
                        "%" PRId64 " values for leaves of %" PRId64 " targets are too few",
                        e->o->value_count, e->o->targets);
  if (base_grow((void **)&e->values, &e->value_capacity, e->value_count + (uint64_t)more,
                sizeof *e->values) != 0)
    return no_memory(e);
  double *to = e->values + e->value_count;
  for (int64_t i = 0; i < more; i++) to[i] = sums ? 0 : NAN;
  e->value_count += (size_t)more;
  for (int64_t i = 0; i < count; i++) {
    const compute_tree_node *n = &e->o->nodes[e->order[i]];
    for (int64_t k = 0; n->test == COMPUTE_TREE_LEAF && k < n->value_count; k++) {
      const compute_tree_value *v = &e->o->values[n->first_value + k];
      double *sum = &to[e->states[e->order[i]].leaf * width + (target < 0 ? v->target : 0)];
      *sum = isnan(*sum) ? v->value : *sum + v->value;
    }
  }
  return true;
}

/* ---- Trees ----------------------------------------------------------------------------------- */

/* Searches one node: both branches, then itself. */
static bool search(ensemble *e, int64_t tree, int64_t *length, int64_t *count) {
  const int64_t at = e->path[*length - 1];
  const compute_tree_node *n = &e->o->nodes[at];
  node_state *state = &e->states[at];
  const int done = n->test == COMPUTE_TREE_LEAF ? 2 : state->branches;
  if (done < 2) {
    state->branches++;
    return reach(e, tree, at, done == 0 ? n->yes : n->no, length);
  }
  if (n->test != COMPUTE_TREE_LEAF) {
    if (is_search(n) && !make_limits(e, at)) return false;
    state->depth = max_i64(e->states[n->yes].depth, e->states[n->no].depth) +
                   (is_search(n) ? search_depth(state->limits) : 1);
  }
  state->branches = 3;
  e->order[(*count)++] = at;
  (*length)--;
  return true;
}

/* All nodes of a tree, checked. Branches may meet again, but not lead back. */
static bool find_nodes(ensemble *e, int64_t tree, int64_t *count) {
  int64_t length = 0;
  *count = 0;
  if (!reach(e, tree, -1, e->o->roots[tree], &length)) return false;
  while (length > 0)
    if (!search(e, tree, &length, count)) return false;
  return true;
}

static bool add_tree(ensemble *e, int64_t tree) {
  const int64_t root = e->o->roots[tree];
  const size_t base = e->record_count;
  int64_t count, first;
  if (!find_nodes(e, tree, &count)) return false;
  const int64_t target = only_target(e, count);
  int64_t *head = &e->heads[tree * COMPUTE_TREES_HEAD];
  head[0] = (int64_t)base;
  head[1] = e->states[root].depth;
  head[2] = target;
  head[3] = (int64_t)e->value_count;
  if (!add_values(e, count, target)) return false;
  e->item_count = 0;
  if (!add_pair(e, base, &first) || !add_node(e, root, 1)) return false;
  for (size_t i = 0; i < e->item_count; i++) {
    item one = e->items[i];
    while (is_search(&e->o->nodes[one.node]) && one.first == one.end) one = end_search(e, &one);
    const compute_tree_node *n = &e->o->nodes[one.node];
    if (n->test == COMPUTE_TREE_LEAF)
      write_leaf(e, base, &one);
    else if (!(is_search(n) ? write_search : write_threshold)(e, base, &one))
      return false;
  }
  e->most_records = max_i64(e->most_records, (int64_t)(e->record_count - base));
  return true;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static uint64_t column_of(const ensemble *e, const record *r) {
  return r->feature + (r->missing ? (uint64_t)e->features : 0);
}

static uint64_t narrow(const ensemble *e, const record *r) {
  const float threshold = (float)r->threshold;
  uint32_t bits;
  memcpy(&bits, &threshold, sizeof bits);
  if (r->number >= 0) bits = UINT32_C(0x7fc00000) | (uint32_t)r->number;
  return bits | column_of(e, r) << 32 | (uint64_t)r->left << 48;
}

static void widen(const ensemble *e, const record *r, uint64_t *to) {
  memcpy(to, &r->threshold, sizeof *to);
  if (r->number >= 0) *to = UINT64_C(0x7ff8000000000000) | (uint64_t)r->number;
  to[1] = column_of(e, r) | (uint64_t)r->left << 32;
}

static compute_node node_table(ensemble *e, uint32_t words) {
  const int64_t count = (int64_t)e->record_count * words;
  uint64_t *table = base_allocate((uint64_t)count, sizeof *table);
  if (!table) {
    no_memory(e);
    return BUILD_NONE;
  }
  for (size_t i = 0; i < e->record_count; i++) {
    if (words == 1)
      table[i] = narrow(e, &e->records[i]);
    else
      widen(e, &e->records[i], table + 2 * i);
  }
  const compute_node node = compute_constant(e->graph, COMPUTE_I64, COMPUTE_SHAPE(count), table);
  base_release(table);
  return node;
}

static compute_node value_table(ensemble *e) {
  float *rounded = (float *)e->values; /* in place: forwards */
  for (size_t i = 0; e->dtype == COMPUTE_F32 && i < e->value_count; i++) {
    const float value = (float)e->values[i];
    memcpy(&rounded[i], &value, sizeof value);
  }
  return compute_constant(e->graph, e->dtype, COMPUTE_SHAPE((int64_t)e->value_count), e->values);
}

static compute_node ensemble_node(ensemble *e, compute_node x, int64_t rows) {
  static const compute_combine combines[] = {
      [COMPUTE_TREE_SUM] = COMPUTE_COMBINE_SUM,
      [COMPUTE_TREE_AVERAGE] = COMPUTE_COMBINE_SUM,
      [COMPUTE_TREE_MIN] = COMPUTE_COMBINE_MIN,
      [COMPUTE_TREE_MAX] = COMPUTE_COMBINE_MAX,
  };
  const int64_t columns = e->has_missing ? 2 * e->features : e->features;
  const bool fits =
      e->dtype == COMPUTE_F32 && columns <= NARROW_COLUMNS && e->most_records <= NARROW_RECORDS;
  const uint32_t words = fits ? 1 : 2;
  const compute_node operands[] = {
      compute_reshape(e->graph, x, COMPUTE_SHAPE(rows, e->features)), node_table(e, words),
      compute_constant(e->graph, COMPUTE_I64, COMPUTE_SHAPE(e->o->tree_count * COMPUTE_TREES_HEAD),
                       e->heads),
      value_table(e)};
  uint32_t inputs[4];
  if (!build_operands(e->graph, operation, operands, 4, inputs)) return BUILD_NONE;
  graph_node node = {
      .op = OP_tree_ensemble, .dtype = e->dtype, .shape = COMPUTE_SHAPE(rows, e->o->targets)};
  compute_trees_attributes *own = graph_constant_create(1, sizeof *own);
  if (!own) {
    no_memory(e);
    return BUILD_NONE;
  }
  *own = (compute_trees_attributes){.features = e->features,
                                    .columns = columns,
                                    .nodes = (int64_t)e->record_count,
                                    .trees = e->o->tree_count,
                                    .values = (int64_t)e->value_count,
                                    .combine = combines[e->o->combine],
                                    .words = words};
  node.constant = own;
  return build_node(e->graph, operation, &node, inputs, 4);
}

/* ---- The builder ----------------------------------------------------------------------------- */

static bool check_options(ensemble *e) {
  const compute_tree_ensemble_options *o = e->o;
  const bool lists = (o->nodes || o->node_count == 0) && (o->roots || o->tree_count == 0) &&
                     (o->values || o->value_count == 0);
  if (!lists)
    return graph_refuse(e->graph, COMPUTE_ERROR_NULL_POINTER, operation, "a list is NULL");
  if (!graph_check_reserved(e->graph, operation, "options", o->reserved)) return false;
  if (o->node_count < 0 || o->tree_count < 0 || o->value_count < 0 || o->node_count > INT32_MAX ||
      o->tree_count > INT32_MAX)
    return graph_refuse(e->graph, COMPUTE_ERROR_OVERFLOW, operation,
                        "%" PRId64 " nodes in %" PRId64 " trees", o->node_count, o->tree_count);
  if (o->targets < 1 || o->targets > COMPUTE_TREES_MOST || o->combine < COMPUTE_TREE_SUM ||
      o->combine > COMPUTE_TREE_MAX)
    return graph_refuse(e->graph, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                        "%" PRId64 " targets, combination %d", o->targets, (int)o->combine);
  return true;
}

static bool check_features(ensemble *e, compute_node x, uint32_t *input) {
  if (!build_operands(e->graph, operation, &x, 1, input)) return false;
  const graph_node *node = build_at(e->graph, *input);
  if (!build_domain(e->graph, operation, DOMAIN_FLOAT, node->dtype)) return false;
  e->dtype = part_wide_dtype(node->dtype);
  e->features = node->shape.rank ? node->shape.size[node->shape.rank - 1] : 0;
  if (e->features < 1 || e->features > COMPUTE_TREES_MOST)
    return graph_refuse(e->graph, COMPUTE_ERROR_SHAPE, operation, "%" PRId64 " features",
                        e->features);
  return true;
}

static bool allocate(ensemble *e) {
  const uint64_t nodes = (uint64_t)e->o->node_count;
  e->states = base_allocate(nodes + 1, sizeof *e->states);
  e->order = base_allocate(nodes + 1, sizeof *e->order);
  e->path = base_allocate(nodes + 1, sizeof *e->path);
  e->heads = base_allocate((uint64_t)e->o->tree_count * COMPUTE_TREES_HEAD + 1, sizeof *e->heads);
  if (!e->states || !e->order || !e->path || !e->heads) return no_memory(e);
  for (uint64_t i = 0; i < nodes; i++) e->states[i].pair = e->states[i].leaf = -1;
  return true;
}

static void clear(ensemble *e) {
  base_release(e->states);
  base_release(e->order);
  base_release(e->path);
  base_release(e->heads);
  base_release(e->limits);
  base_release(e->records);
  base_release(e->items);
  base_release(e->values);
}

compute_node compute_tree_ensemble(compute_graph *graph, compute_node x,
                                   const compute_tree_ensemble_options *options) {
  FLOAT_ENVIRONMENT_DEFAULT;
  BUILD_ALL_OR_NOTHING(graph);
  ensemble e = {.graph = graph, .o = options};
  uint32_t input;
  if (!build_start(graph, operation)) return BUILD_NONE;
  if (!options) return graph_fail(graph, COMPUTE_ERROR_NULL_POINTER, operation, "options is NULL");
  if (!check_options(&e) || !check_features(&e, x, &input)) return BUILD_NONE;
  compute_shape shape = build_at(graph, input)->shape;
  shape.size[shape.rank - 1] = options->targets;
  if (!build_size(graph, operation, shape)) return BUILD_NONE;
  const compute_dtype dtype = build_at(graph, input)->dtype;
  if (options->tree_count == 0) return compute_full(graph, dtype, shape, 0);
  int64_t rows = 1;
  for (int32_t i = 0; i < shape.rank - 1; i++) rows *= shape.size[i];
  bool built = allocate(&e);
  for (int64_t i = 0; built && i < options->tree_count; i++) built = add_tree(&e, i);
  compute_node y = built ? ensemble_node(&e, part_wide(graph, x), rows) : BUILD_NONE;
  clear(&e);
  if (built && options->combine == COMPUTE_TREE_AVERAGE)
    y = compute_div(graph, y, compute_scalar(graph, e.dtype, (double)options->tree_count));
  return built ? compute_reshape(graph, part_cast(graph, y, dtype), shape) : BUILD_NONE;
}
