/* SPDX-License-Identifier: MIT */
/* Tree ensembles from files: the model that readers fill in, and columns of numbers that they
 * collect for one tree at a time. */
#ifndef MODEL_TREES_FILES_H
#define MODEL_TREES_FILES_H

#include <locale.h>

#include "compute/trees.h"
#include "core/base/error.h"

/* From sums to predictions. */
typedef enum tree_link {
  LINK_NONE,
  LINK_LOGISTIC, /* 1 / (1 + exp(−scale · sum)) */
  LINK_SOFTMAX,
  LINK_EXP,
  LINK_HINGE,  /* 1 for a positive sum, otherwise 0 */
  LINK_SQUARE, /* with the sum's sign */
  LINK_LOG1P,  /* log(1 + exp(sum)) */
  LINK_UNKNOWN
} tree_link;

typedef struct tree_start {
  int64_t root;
  size_t value; /* the first of its entries */
} tree_start;

struct compute_tree_model {
  const char *format;
  char *objective;
  compute_tree_node *nodes;
  size_t node_count, node_capacity;
  compute_tree_value *values;
  size_t value_count, value_capacity;
  tree_start *trees;
  size_t tree_count, tree_capacity;
  int64_t *roots; /* of the trees */
  int64_t features, targets;
  bool rounds;    /* features to f32, as XGBoost does */
  double divisor; /* of the sums in predictions */
  double scale;   /* LINK_LOGISTIC */
  tree_link link;
};

/* Columns of the files. A tree's are emptied before the next tree. */
typedef enum tree_column {
  COLUMN_LEFT,
  COLUMN_RIGHT,
  COLUMN_FEATURE,
  COLUMN_THRESHOLD,
  COLUMN_FLAGS, /* the direction of missing values, and LightGBM's kinds of questions */
  COLUMN_KIND,
  COLUMN_LEAF,
  COLUMN_CATEGORY,
  COLUMN_CATEGORY_NODE,
  COLUMN_CATEGORY_FIRST,
  COLUMN_CATEGORY_COUNT,
  COLUMN_REACHED,      /* nodes that a branch leads to */
  COLUMN_CATEGORY_SET, /* of one question */
  COLUMN_LIMIT,        /* of one search */
  COLUMN_TARGET,       /* of the model, from here on */
  COLUMN_WEIGHT,
  COLUMN_BASE,
  COLUMN_COUNT,
  TREE_COLUMNS = COLUMN_TARGET
} tree_column;

typedef struct tree_numbers {
  double *data;
  size_t count, capacity;
} tree_numbers;

typedef struct tree_reader {
  const compute_context *context;
  const char *operation, *path;
  compute_tree_model *model;
  char *data; /* ends in a zero */
  size_t bytes;
  locale_t c_locale;
  tree_numbers columns[COLUMN_COUNT];
} tree_reader;

/* Fill in the model. */
compute_status xgboost_read(tree_reader *reader, bool binary);
compute_status lightgbm_read(tree_reader *reader);

/* ---- Parts of readers (nodes.c) -------------------------------------------------------------- */

/* Sets the error; its message names the file, and the number of the tree that is read. */
compute_status tree_refuse(const tree_reader *reader, compute_status status, const char *format,
                           ...) COMPUTE_PRINTF(3, 4);
compute_status tree_no_memory(const tree_reader *reader);

/* The objective of the file, which messages name. */
compute_status tree_objective(tree_reader *reader, const char *text, size_t length);

compute_status tree_add_number(tree_reader *reader, tree_column column, double number);
compute_status tree_add_zeros(tree_reader *reader, tree_column column, size_t count);
void tree_clear(tree_reader *reader);

/* Element `index` of a column as an integer from `least` to `most`. */
compute_status tree_integer(const tree_reader *reader, tree_column column, size_t index,
                            int64_t least, int64_t most, int64_t *integer);

/* Begins a tree with `count` nodes; *base is the number of the first. */
compute_status tree_begin(tree_reader *reader, size_t count, int64_t *base);

/* Notes that a branch leads to node `index` of the tree. Each may be reached once and the root never,
 * so that trees have no cycles. */
compute_status tree_reach(tree_reader *reader, int64_t index);

/* Makes node `at` a leaf with one more entry than its others. The entries of a leaf are added one
 * after another. */
compute_status tree_leaf(tree_reader *reader, int64_t at, int64_t target, double value);

/* Makes node `at` a search among the sorted limits in COLUMN_LIMIT. A feature that is above an even
 * number of them goes to `even`, otherwise to `odd`. */
compute_status tree_search(tree_reader *reader, int64_t at, int64_t feature, int64_t even,
                           int64_t odd, bool missing_even);

/* Makes node `at` a question for the categories in COLUMN_CATEGORY_SET, integers in any order. A
 * feature has the category of its whole part. Numbers up to `before_zero` have no category. */
compute_status tree_categories(tree_reader *reader, int64_t at, int64_t feature, int64_t outside,
                               int64_t inside, bool missing_outside, double before_zero);

#endif
