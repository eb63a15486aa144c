/* SPDX-License-Identifier: MIT */
/* LightGBM's models in text: lines "key=value" of the model, then of each tree. */
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "io/field_reader.h"
#include "model/trees/files.h"

/* Bits of decision_type. */
enum { CATEGORICAL = 1, DEFAULT_LEFT = 2, MISSING_SHIFT = 2 };
enum { MISSING_NONE, MISSING_ZERO, MISSING_NAN };

#define ZERO_LIMIT ((double)1e-35f) /* magnitudes up to it count as 0 */

typedef struct lightgbm {
  tree_reader *reader;
  char *at; /* the next line */
  bool in_tree, average;
  int64_t leaves, classes, per_iteration, linear, features;
  int64_t words_left; /* of categories, not yet used */
} lightgbm;

static const struct {
  const char *key;
  tree_column column;
} lists[] = {
    {"left_child", COLUMN_LEFT},
    {"right_child", COLUMN_RIGHT},
    {"split_feature", COLUMN_FEATURE},
    {"threshold", COLUMN_THRESHOLD},
    {"decision_type", COLUMN_FLAGS},
    {"leaf_value", COLUMN_LEAF},
    {"cat_boundaries", COLUMN_CATEGORY_FIRST},
    {"cat_threshold", COLUMN_CATEGORY},
};

static compute_status refuse(const lightgbm *l, const char *what) {
  return tree_refuse(l->reader, COMPUTE_ERROR_FORMAT, "%s", what);
}

static size_t count_of(const lightgbm *l, tree_column column) {
  return l->reader->columns[column].count;
}

/* ---- Questions ------------------------------------------------------------------------------- */

/* Goes left up to the threshold. LightGBM replaces magnitudes up to ZERO_LIMIT by 0 before it asks. If
 * zeros count as missing, they go with NaN. */
static compute_status ask_number(const lightgbm *l, int64_t at, int64_t feature, double threshold,
                                 int64_t flags, int64_t left, int64_t right) {
  const int64_t missing = flags >> MISSING_SHIFT & 3;
  const bool to_left = (flags & DEFAULT_LEFT) != 0;
  const double zero = ZERO_LIMIT, below = nextafter(-zero, -HUGE_VAL);
  double limits[3] = {threshold};
  size_t count = 1;
  if (threshold >= -zero && threshold < zero) limits[0] = threshold < 0 ? below : zero;
  if (missing == MISSING_ZERO && to_left && limits[0] <= below) {
    limits[1] = below;
    limits[2] = zero;
    count = 3;
  } else if (missing == MISSING_ZERO && !to_left && limits[0] >= zero) {
    limits[0] = below;
    limits[1] = zero;
    limits[2] = fmax(threshold, zero);
    count = 3;
  }
  compute_status status = COMPUTE_OK;
  l->reader->columns[COLUMN_LIMIT].count = 0;
  for (size_t i = 0; i < count && !status; i++)
    status = tree_add_number(l->reader, COLUMN_LIMIT, limits[i]);
  if (status) return status;
  return tree_search(l->reader, at, feature, left, right,
                     missing == MISSING_NONE ? threshold >= 0 : to_left);
}

/* Goes left for the categories whose bits are set in words of 32 bits. */
static compute_status ask_category(lightgbm *l, int64_t at, int64_t feature, size_t node,
                                   int64_t left, int64_t right) {
  tree_reader *reader = l->reader;
  const int64_t most = (int64_t)count_of(l, COLUMN_CATEGORY);
  int64_t set = 0, first = 0, end = 0, word;
  compute_status status = tree_integer(reader, COLUMN_THRESHOLD, node, 0, INT32_MAX, &set);
  if (!status) status = tree_integer(reader, COLUMN_CATEGORY_FIRST, (size_t)set, 0, most, &first);
  if (!status)
    status = tree_integer(reader, COLUMN_CATEGORY_FIRST, (size_t)set + 1, first, most, &end);
  l->words_left -= end - first;
  if (!status && l->words_left < 0) status = refuse(l, "two nodes have the same categories");
  reader->columns[COLUMN_CATEGORY_SET].count = 0;
  for (int64_t i = first; i < end && !status; i++) {
    status = tree_integer(reader, COLUMN_CATEGORY, (size_t)i, 0, UINT32_MAX, &word);
    for (int bit = 0; bit < 32 && !status; bit++)
      if (word >> bit & 1)
        status = tree_add_number(reader, COLUMN_CATEGORY_SET, (double)(32 * (i - first) + bit));
  }
  return status ? status : tree_categories(reader, at, feature, right, left, true, -1);
}

/* ---- One tree -------------------------------------------------------------------------------- */

/* A branch leads to a node, or to leaf −1 − index. Leaves follow the nodes. */
static compute_status read_branch(const lightgbm *l, tree_column column, size_t node, int64_t *to) {
  int64_t index;
  compute_status status = tree_integer(l->reader, column, node, -l->leaves, l->leaves - 2, &index);
  if (status) return status;
  *to = index < 0 ? l->leaves - 2 - index : index;
  return tree_reach(l->reader, *to);
}

static compute_status read_node(lightgbm *l, int64_t base, size_t node) {
  tree_reader *reader = l->reader;
  int64_t left, right, feature, flags;
  compute_status status = read_branch(l, COLUMN_LEFT, node, &left);
  if (!status) status = read_branch(l, COLUMN_RIGHT, node, &right);
  if (!status) status = tree_integer(reader, COLUMN_FEATURE, node, 0, INT32_MAX, &feature);
  if (!status) status = tree_integer(reader, COLUMN_FLAGS, node, 0, 11, &flags);
  if (status) return status;
  const double threshold = reader->columns[COLUMN_THRESHOLD].data[node];
  const int64_t at = base + (int64_t)node;
  if (flags & CATEGORICAL) return ask_category(l, at, feature, node, base + left, base + right);
  if (isnan(threshold)) return refuse(l, "a threshold is NaN");
  return ask_number(l, at, feature, threshold, flags, base + left, base + right);
}

static compute_status read_tree(lightgbm *l) {
  tree_reader *reader = l->reader;
  const size_t leaves = (size_t)l->leaves, nodes = leaves - 1;
  if (l->linear)
    return tree_refuse(reader, COMPUTE_ERROR_UNSUPPORTED,
                       "leaves with linear models (linear_tree)");
  if (l->leaves < 1 || count_of(l, COLUMN_LEAF) != leaves)
    return refuse(l, "num_leaves differs from the leaves");
  if (nodes > 0 && (count_of(l, COLUMN_LEFT) != nodes || count_of(l, COLUMN_RIGHT) != nodes ||
                    count_of(l, COLUMN_FEATURE) != nodes ||
                    count_of(l, COLUMN_THRESHOLD) != nodes || count_of(l, COLUMN_FLAGS) != nodes))
    return refuse(l, "the lists of a tree differ in length");
  int64_t base;
  l->words_left = (int64_t)count_of(l, COLUMN_CATEGORY);
  compute_status status = tree_begin(reader, nodes + leaves, &base);
  for (size_t i = 0; i < nodes && !status; i++) status = read_node(l, base, i);
  const int64_t target = ((int64_t)reader->model->tree_count - 1) % l->per_iteration;
  for (size_t i = 0; i < leaves && !status; i++)
    status = tree_leaf(reader, base + (int64_t)(nodes + i), target,
                       reader->columns[COLUMN_LEAF].data[i]);
  return status;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static compute_status read_list(const lightgbm *l, char *text, tree_column column) {
  while (*text) {
    const size_t length = strcspn(text, " ");
    double number;
    const char after = text[length];
    text[length] = '\0';
    if (number_parse(text, length, COMPUTE_F64, l->reader->c_locale, &number) != NUMBER_OK)
      return refuse(l, "a number is damaged");
    const compute_status status = tree_add_number(l->reader, column, number);
    if (status) return status;
    text += length + (after != '\0');
  }
  return COMPUTE_OK;
}

static compute_status read_integer(const lightgbm *l, const char *text, int64_t least,
                                   int64_t *value) {
  if (number_parse(text, strlen(text), COMPUTE_I64, l->reader->c_locale, value) == NUMBER_OK &&
      *value >= least && *value <= INT32_MAX - 1)
    return COMPUTE_OK;
  return refuse(l, "a count is damaged");
}

static compute_status read_member(lightgbm *l, const char *key, char *value) {
  const struct {
    const char *key;
    int64_t *value;
    int64_t least;
    bool of_tree;
  } integers[] = {{"num_class", &l->classes, 1, false},
                  {"num_tree_per_iteration", &l->per_iteration, 1, false},
                  {"max_feature_idx", &l->features, 0, false},
                  {"num_leaves", &l->leaves, 1, true},
                  {"is_linear", &l->linear, 0, true}};
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
    if (integers[i].of_tree == l->in_tree && strcmp(key, integers[i].key) == 0)
      return read_integer(l, value, integers[i].least, integers[i].value);
  if (!l->in_tree && strcmp(key, "objective") == 0)
    return tree_objective(l->reader, value, strlen(value));
  for (size_t i = 0; l->in_tree && i < sizeof lists / sizeof *lists; i++)
    if (strcmp(key, lists[i].key) == 0) {
      l->reader->columns[lists[i].column].count = 0;
      return read_list(l, value, lists[i].column);
    }
  return COMPUTE_OK;
}

/* Takes a line without its end; NULL after the last. */
static char *next_line(lightgbm *l) {
  char *line = l->at, *end = l->reader->data + l->reader->bytes;
  if (line >= end) return NULL;
  char *stop = memchr(line, '\n', (size_t)(end - line));
  if (!stop) stop = end;
  l->at = stop < end ? stop + 1 : end;
  *stop = '\0';
  if (stop > line && stop[-1] == '\r') stop[-1] = '\0';
  return line;
}

static compute_status read_lines(lightgbm *l) {
  for (char *line; (line = next_line(l));) {
    const bool ends = strcmp(line, "end of trees") == 0;
    char *value = strchr(line, '=');
    compute_status status = COMPUTE_OK;
    if (ends || strncmp(line, "Tree=", 5) == 0) {
      if (l->in_tree) status = read_tree(l);
      if (ends || status) return status;
      tree_clear(l->reader);
      l->in_tree = true;
      l->leaves = 1;
      l->linear = 0;
    } else if (value) {
      *value = '\0';
      status = read_member(l, line, value + 1);
    } else if (!l->in_tree && strcmp(line, "average_output") == 0) {
      l->average = true;
    }
    if (status) return status;
  }
  return refuse(l, "the file is cut off");
}

/* ---- The model ------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  tree_link link;
} objectives[] = {
    {"regression", LINK_NONE},
    {"regression_l1", LINK_NONE},
    {"huber", LINK_NONE},
    {"fair", LINK_NONE},
    {"quantile", LINK_NONE},
    {"mape", LINK_NONE},
    {"poisson", LINK_EXP},
    {"gamma", LINK_EXP},
    {"tweedie", LINK_EXP},
    {"binary", LINK_LOGISTIC},
    {"multiclass", LINK_SOFTMAX},
    {"multiclassova", LINK_LOGISTIC},
    {"cross_entropy", LINK_LOGISTIC},
    {"cross_entropy_lambda", LINK_LOG1P},
    {"lambdarank", LINK_NONE},
    {"rank_xendcg", LINK_NONE},
    {"custom", LINK_NONE},
};

/* "binary sigmoid:1", or "regression sqrt". */
static compute_status read_link(lightgbm *l) {
  compute_tree_model *m = l->reader->model;
  const char *text = m->objective;
  const size_t length = strcspn(text, " ");
  m->link = LINK_UNKNOWN;
  for (size_t i = 0; i < sizeof objectives / sizeof *objectives; i++)
    if (strlen(objectives[i].name) == length && strncmp(objectives[i].name, text, length) == 0)
      m->link = objectives[i].link;
  if (m->link == LINK_NONE && strstr(text, " sqrt")) m->link = LINK_SQUARE;
  const char *sigmoid = strstr(text, " sigmoid:");
  if (m->link != LINK_LOGISTIC || !sigmoid) return COMPUTE_OK;
  char number[64];
  sigmoid += strlen(" sigmoid:");
  const size_t digits = strcspn(sigmoid, " ");
  if (digits >= sizeof number) return refuse(l, "the sigmoid's factor is damaged");
  memcpy(number, sigmoid, digits);
  number[digits] = '\0';
  return number_parse(number, digits, COMPUTE_F64, l->reader->c_locale, &m->scale) == NUMBER_OK
             ? COMPUTE_OK
             : refuse(l, "the sigmoid's factor is damaged");
}

compute_status lightgbm_read(tree_reader *reader) {
  lightgbm l = {.reader = reader, .at = reader->data, .per_iteration = 1};
  compute_tree_model *m = reader->model;
  m->format = "LightGBM";
  compute_status status = read_lines(&l);
  if (!status && (m->tree_count == 0 || m->tree_count % (size_t)l.per_iteration != 0))
    status = refuse(&l, "the number of trees does not fit the number of classes");
  if (!status && !m->objective) status = tree_objective(reader, "custom", strlen("custom"));
  if (status) return status;
  m->features = l.features + 1;
  m->targets = l.per_iteration;
  if (l.average) m->divisor = (double)(m->tree_count / (size_t)l.per_iteration);
  return read_link(&l);
}
