/* SPDX-License-Identifier: MIT */
/* XGBoost's models in JSON and UBJSON. A table leads from the place of an object and the name of a
 * member to the member's place. Members without a row are skipped. */
#include <math.h>
#include <string.h>

#include "model/trees/files.h"
#include "model/trees/tokens.h"

/* Places from FIRST_COLUMN on are columns of numbers. */
typedef enum place {
  SKIPPED,
  ROOT,
  LEARNER,
  BOOSTER,
  MODEL,
  TREES,
  TREE,
  TREE_PARAMETERS,
  PARAMETERS,
  OBJECTIVE,
  BOOSTER_NAME,
  OBJECTIVE_NAME,
  LEAF_SIZE,
  CLASSES,
  TARGETS,
  FEATURES,
  BASE_SCORE,
  FIRST_COLUMN
} place;

#define COLUMN_PLACE(column) ((int)FIRST_COLUMN + (int)(column))

static const struct {
  place from;
  const char *key;
  int to;
} members[] = {
    {ROOT, "learner", LEARNER},
    {LEARNER, "gradient_booster", BOOSTER},
    {LEARNER, "learner_model_param", PARAMETERS},
    {LEARNER, "objective", OBJECTIVE},
    {BOOSTER, "gbtree", BOOSTER},
    {BOOSTER, "model", MODEL},
    {BOOSTER, "name", BOOSTER_NAME},
    {BOOSTER, "weight_drop", COLUMN_PLACE(COLUMN_WEIGHT)},
    {MODEL, "trees", TREES},
    {MODEL, "tree_info", COLUMN_PLACE(COLUMN_TARGET)},
    {TREE, "left_children", COLUMN_PLACE(COLUMN_LEFT)},
    {TREE, "right_children", COLUMN_PLACE(COLUMN_RIGHT)},
    {TREE, "split_indices", COLUMN_PLACE(COLUMN_FEATURE)},
    {TREE, "split_conditions", COLUMN_PLACE(COLUMN_THRESHOLD)},
    {TREE, "default_left", COLUMN_PLACE(COLUMN_FLAGS)},
    {TREE, "split_type", COLUMN_PLACE(COLUMN_KIND)},
    {TREE, "leaf_weights", COLUMN_PLACE(COLUMN_LEAF)},
    {TREE, "categories", COLUMN_PLACE(COLUMN_CATEGORY)},
    {TREE, "categories_nodes", COLUMN_PLACE(COLUMN_CATEGORY_NODE)},
    {TREE, "categories_segments", COLUMN_PLACE(COLUMN_CATEGORY_FIRST)},
    {TREE, "categories_sizes", COLUMN_PLACE(COLUMN_CATEGORY_COUNT)},
    {TREE, "tree_param", TREE_PARAMETERS},
    {TREE_PARAMETERS, "size_leaf_vector", LEAF_SIZE},
    {PARAMETERS, "base_score", BASE_SCORE},
    {PARAMETERS, "num_class", CLASSES},
    {PARAMETERS, "num_target", TARGETS},
    {PARAMETERS, "num_feature", FEATURES},
    {OBJECTIVE, "name", OBJECTIVE_NAME},
};

typedef struct xgboost {
  tree_reader *reader;
  int64_t leaf_size, classes, targets;
  int64_t leaf_values; /* of the tree, not yet used */
} xgboost;

static int find_place(int from, const token *t) {
  if (!t->key) return from == TREES ? TREE : from >= BOOSTER_NAME ? from : SKIPPED;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if ((int)members[i].from == from && strlen(members[i].key) == t->key_length &&
        memcmp(members[i].key, t->key, t->key_length) == 0)
      return members[i].to;
  return SKIPPED;
}

/* ---- One tree -------------------------------------------------------------------------------- */

static size_t count_of(const xgboost *x, tree_column column) {
  return x->reader->columns[column].count;
}

static double number_at(const xgboost *x, tree_column column, int64_t index) {
  return x->reader->columns[column].data[index];
}

static compute_status read_leaf(xgboost *x, int64_t base, int64_t index) {
  if (x->leaf_size <= 1)
    return tree_leaf(x->reader, base + index, -1, number_at(x, COLUMN_THRESHOLD, index));
  int64_t leaf;
  const int64_t leaves = (int64_t)count_of(x, COLUMN_LEAF) / x->leaf_size;
  compute_status status =
      tree_integer(x->reader, COLUMN_RIGHT, (size_t)index, 0, leaves - 1, &leaf);
  x->leaf_values -= x->leaf_size;
  if (!status && x->leaf_values < 0)
    status = tree_refuse(x->reader, COMPUTE_ERROR_FORMAT, "two leaves have the same values");
  for (int64_t k = 0; k < x->leaf_size && !status; k++)
    status =
        tree_leaf(x->reader, base + index, k, number_at(x, COLUMN_LEAF, leaf * x->leaf_size + k));
  return status;
}

static compute_status read_node(xgboost *x, int64_t base, int64_t index) {
  tree_reader *reader = x->reader;
  const int64_t last = (int64_t)count_of(x, COLUMN_LEFT) - 1;
  const size_t at = (size_t)index;
  if (number_at(x, COLUMN_LEFT, index) == -1) return read_leaf(x, base, index);
  int64_t left, right, feature;
  compute_status status = tree_integer(reader, COLUMN_LEFT, at, 0, last, &left);
  if (!status) status = tree_integer(reader, COLUMN_RIGHT, at, 0, last, &right);
  if (!status) status = tree_integer(reader, COLUMN_FEATURE, at, 0, INT32_MAX, &feature);
  if (!status) status = tree_reach(reader, left);
  if (!status) status = tree_reach(reader, right);
  const double threshold = number_at(x, COLUMN_THRESHOLD, index);
  if (!status && isnan(threshold))
    status = tree_refuse(reader, COMPUTE_ERROR_FORMAT, "the condition of a node is NaN");
  if (status) return status;
  reader->model->nodes[base + index] =
      (compute_tree_node){.test = COMPUTE_TREE_LT,
                          .missing = number_at(x, COLUMN_FLAGS, index) != 0,
                          .feature = feature,
                          .threshold = threshold,
                          .yes = base + left,
                          .no = base + right};
  return COMPUTE_OK;
}

/* A node that tests categories: the listed ones go to the right. */
static compute_status read_categories(xgboost *x, int64_t base, size_t entry, int64_t *left) {
  tree_reader *reader = x->reader;
  int64_t node, first, count, category = 0;
  const int64_t last = (int64_t)count_of(x, COLUMN_LEFT) - 1;
  const int64_t most = (int64_t)count_of(x, COLUMN_CATEGORY);
  compute_status status = tree_integer(reader, COLUMN_CATEGORY_NODE, entry, 0, last, &node);
  if (!status) status = tree_integer(reader, COLUMN_CATEGORY_FIRST, entry, 0, most, &first);
  if (!status) status = tree_integer(reader, COLUMN_CATEGORY_COUNT, entry, 0, *left, &count);
  if (status) return status;
  *left -= count;
  compute_tree_node *n = &reader->model->nodes[base + node];
  if (first > most - count || count_of(x, COLUMN_KIND) == 0 ||
      number_at(x, COLUMN_KIND, node) != 1 || n->test != COMPUTE_TREE_LT)
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "the categories of a node are damaged");
  reader->columns[COLUMN_KIND].data[node] = 0;
  reader->columns[COLUMN_CATEGORY_SET].count = 0;
  for (int64_t i = first; i < first + count && !status; i++) {
    status = tree_integer(reader, COLUMN_CATEGORY, (size_t)i, 0, 1 << 24, &category);
    if (!status) status = tree_add_number(reader, COLUMN_CATEGORY_SET, (double)category);
  }
  if (status) return status;
  return tree_categories(reader, base + node, n->feature, n->yes, n->no, n->missing,
                         nextafter(0, -1));
}

static compute_status read_tree(xgboost *x) {
  tree_reader *reader = x->reader;
  const size_t count = count_of(x, COLUMN_LEFT), kinds = count_of(x, COLUMN_KIND);
  if (count == 0 || count > INT32_MAX || count_of(x, COLUMN_RIGHT) != count ||
      count_of(x, COLUMN_FEATURE) != count || count_of(x, COLUMN_THRESHOLD) != count ||
      count_of(x, COLUMN_FLAGS) != count || (kinds != 0 && kinds != count))
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "the lists of a tree differ in length");
  if (x->leaf_size > 1 && count_of(x, COLUMN_LEAF) == 0)
    return tree_refuse(reader, COMPUTE_ERROR_UNSUPPORTED,
                       "leaves with several values in the form before XGBoost 3.1");
  int64_t base, left = (int64_t)count_of(x, COLUMN_CATEGORY);
  x->leaf_values = (int64_t)count_of(x, COLUMN_LEAF);
  compute_status status = tree_begin(reader, count, &base);
  for (size_t i = 0; i < count && !status; i++) status = read_node(x, base, (int64_t)i);
  for (size_t i = 0; i < count_of(x, COLUMN_CATEGORY_NODE) && !status; i++)
    status = read_categories(x, base, i, &left);
  for (size_t i = 0; i < kinds && !status; i++)
    if (number_at(x, COLUMN_KIND, (int64_t)i) != 0 &&
        reader->model->nodes[base + (int64_t)i].test != COMPUTE_TREE_LEAF)
      status = tree_refuse(reader, COMPUTE_ERROR_FORMAT, "a node lacks its categories");
  return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* "[5E-1,2E0]", or one number without brackets. */
static compute_status read_base(xgboost *x, const token *t) {
  tree_reader *reader = x->reader;
  const bool list = t->length > 1 && t->text[0] == '[' && t->text[t->length - 1] == ']';
  const char *at = t->text + list, *end = t->text + t->length - list;
  compute_status status;
  do {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const token part = {
        .kind = TOKEN_TEXT, .text = at, .length = (size_t)((comma ? comma : end) - at)};
    double number;
    if (!token_number(&part, reader->c_locale, &number))
      return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "base_score is not a number");
    status = tree_add_number(reader, COLUMN_BASE, number);
    if (!comma) break;
    at = comma + 1;
  } while (!status);
  return status;
}

static compute_status read_booster(const xgboost *x, const token *t) {
  if ((t->length == 6 && memcmp(t->text, "gbtree", 6) == 0) ||
      (t->length == 4 && memcmp(t->text, "dart", 4) == 0))
    return COMPUTE_OK;
  return tree_refuse(x->reader, COMPUTE_ERROR_UNSUPPORTED, "unknown booster; only gbtree and dart");
}

static compute_status read_value(xgboost *x, int to, const token *t) {
  tree_reader *reader = x->reader;
  double number;
  if (to < BOOSTER_NAME) return COMPUTE_OK;
  if (t->kind == TOKEN_TEXT) {
    if (to == BOOSTER_NAME) return read_booster(x, t);
    if (to == OBJECTIVE_NAME) return tree_objective(reader, t->text, t->length);
    if (to == BASE_SCORE) return read_base(x, t);
  }
  if (!token_number(t, reader->c_locale, &number))
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "unknown text in place of a number");
  if (to >= FIRST_COLUMN) return tree_add_number(reader, (tree_column)(to - FIRST_COLUMN), number);
  if (to == BASE_SCORE) return tree_add_number(reader, COLUMN_BASE, number);
  if (!(number >= 0 && number <= (1 << 24)) || number != trunc(number))
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "a number of classes or features is damaged");
  if (to == LEAF_SIZE) x->leaf_size = (int64_t)number;
  if (to == CLASSES) x->classes = (int64_t)number;
  if (to == TARGETS) x->targets = (int64_t)number;
  if (to == FEATURES) reader->model->features = (int64_t)number;
  return COMPUTE_OK;
}

static compute_status read_all(xgboost *x, token_reader *tokens) {
  int places[TOKEN_DEPTH + 1] = {SKIPPED};
  for (;;) {
    const int from = places[tokens->depth];
    const token t = token_next(tokens);
    const int to = tokens->depth == 1 && t.kind == TOKEN_OBJECT ? ROOT : find_place(from, &t);
    compute_status status = COMPUTE_OK;
    switch (t.kind) {
    case TOKEN_OBJECT:
    case TOKEN_ARRAY:
      places[tokens->depth] = to;
      if (to == TREE) {
        tree_clear(x->reader);
        x->leaf_size = 1;
      }
      break;
    case TOKEN_CLOSE:
      if (from == TREE) status = read_tree(x);
      break;
    case TOKEN_TEXT:
    case TOKEN_NUMBER:
    case TOKEN_NULL: status = read_value(x, to, &t); break;
    case TOKEN_END: return COMPUTE_OK;
    case TOKEN_ERROR:
      return tree_refuse(x->reader, COMPUTE_ERROR_FORMAT, "byte %td: damaged, or cut off",
                         tokens->text.at - tokens->text.begin);
    }
    if (status) return status;
  }
}

/* ---- The model ------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  tree_link link;
} objectives[] = {
    {"binary:logistic", LINK_LOGISTIC},
    {"reg:logistic", LINK_LOGISTIC},
    {"binary:logitraw", LINK_NONE},
    {"binary:hinge", LINK_HINGE},
    {"multi:softprob", LINK_SOFTMAX},
    {"multi:softmax", LINK_SOFTMAX},
    {"count:poisson", LINK_EXP},
    {"reg:gamma", LINK_EXP},
    {"reg:tweedie", LINK_EXP},
    {"survival:cox", LINK_EXP},
    {"survival:aft", LINK_EXP},
    {"reg:squarederror", LINK_NONE},
    {"reg:linear", LINK_NONE},
    {"reg:squaredlogerror", LINK_NONE},
    {"reg:absoluteerror", LINK_NONE},
    {"reg:quantileerror", LINK_NONE},
    {"reg:pseudohubererror", LINK_NONE},
    {"reg:expectileerror", LINK_NONE},
    {"rank:ndcg", LINK_NONE},
    {"rank:pairwise", LINK_NONE},
    {"rank:map", LINK_NONE},
};

static tree_link link_of(const char *objective) {
  for (size_t i = 0; objective && i < sizeof objectives / sizeof *objectives; i++)
    if (strcmp(objectives[i].name, objective) == 0) return objectives[i].link;
  return LINK_UNKNOWN;
}

/* base_score is a prediction; sums need its inverse under the link, by XGBoost's formula in f32. Files
 * of one class have 0 or 1. NaN for other bases that are no predictions. */
static double base_sum(tree_link link, double base) {
  const float probability = fminf(fmaxf((float)base, 1e-6f), 1 - 1e-6f);
  if (link == LINK_LOGISTIC)
    return base >= 0 && base <= 1 ? (double)-logf(1 / probability - 1) : (double)NAN;
  return link == LINK_EXP ? log(base) : base;
}

static compute_status check_bases(const xgboost *x) {
  const tree_numbers *bases = &x->reader->columns[COLUMN_BASE];
  for (size_t i = 0; i < bases->count; i++)
    if (!isfinite(base_sum(x->reader->model->link, bases->data[i])))
      return tree_refuse(x->reader, COMPUTE_ERROR_FORMAT, "base_score is no prediction of %.60s",
                         x->reader->model->objective ? x->reader->model->objective
                                                     : "the objective");
  return COMPUTE_OK;
}

/* Targets and weights of each tree; the first tree of a target adds the base. */
static compute_status finish(xgboost *x) {
  tree_reader *reader = x->reader;
  compute_tree_model *m = reader->model;
  const int64_t given = x->classes > x->targets ? x->classes : x->targets;
  m->targets = given > 1 ? given : 1;
  m->link = link_of(m->objective);
  const size_t trees = m->tree_count, bases = count_of(x, COLUMN_BASE);
  const size_t weights = count_of(x, COLUMN_WEIGHT);
  if (m->value_count < (size_t)m->targets || count_of(x, COLUMN_TARGET) != trees ||
      (weights != 0 && weights != trees) || (bases > 1 && bases != (size_t)m->targets))
    return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "the lists of trees and targets do not fit");
  reader->columns[COLUMN_LIMIT].count = 0;
  compute_status status = check_bases(x);
  if (!status) status = tree_add_zeros(reader, COLUMN_LIMIT, (size_t)m->targets);
  for (size_t t = 0; t < trees && !status; t++) {
    const size_t end = t + 1 < trees ? m->trees[t + 1].value : m->value_count;
    int64_t target;
    status = tree_integer(reader, COLUMN_TARGET, t, 0, m->targets - 1, &target);
    for (size_t i = m->trees[t].value; i < end && !status; i++) {
      compute_tree_value *v = &m->values[i];
      if (v->target < 0) v->target = target;
      if (v->target >= m->targets)
        return tree_refuse(reader, COMPUTE_ERROR_FORMAT, "a leaf has too many values");
      double *tree = &reader->columns[COLUMN_LIMIT].data[v->target];
      if (weights) v->value *= number_at(x, COLUMN_WEIGHT, (int64_t)t);
      if (*tree == 0) *tree = (double)t + 1;
      if (*tree == (double)t + 1 && bases)
        v->value += base_sum(m->link, number_at(x, COLUMN_BASE, bases > 1 ? v->target : 0));
    }
  }
  for (int64_t k = 0; k < m->targets && !status; k++)
    if (number_at(x, COLUMN_LIMIT, k) == 0)
      status = tree_refuse(reader, COMPUTE_ERROR_FORMAT, "a target has no trees");
  return status;
}

compute_status xgboost_read(tree_reader *reader, bool binary) {
  xgboost x = {.reader = reader, .leaf_size = 1};
  token_reader tokens = tokens_begin(reader->data, reader->bytes, binary);
  reader->model->format = "XGBoost";
  reader->model->rounds = true;
  const compute_status status = read_all(&x, &tokens);
  return status ? status : finish(&x);
}
