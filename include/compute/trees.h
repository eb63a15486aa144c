/* SPDX-License-Identifier: MIT */
/** @file
 * Ensembles of decision trees: random forests and gradient boosting, as scikit-learn, XGBoost and
 * LightGBM train them.
 *
 * A tree is given as nodes in one array for all trees. Each row of features walks from the root to
 * a leaf. The leaves' values are combined for each target. The result of a row does not depend on
 * the other rows, bit for bit. There is no gradient.
 *
 * Every device computes trees. A device without f64 leaves thresholds of f64 to the CPU, and adds
 * up in f32 with compensation.
 *
 * ONNX models with trees (compute/model.h) use this operation. */
#ifndef COMPUTE_TREES_H
#define COMPUTE_TREES_H

#include "compute/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The question of a node about its feature v. Comparisons are exact. */
typedef enum compute_tree_test {
  COMPUTE_TREE_LEAF = 0, /**< none: the walk ends */
  COMPUTE_TREE_LEQ = 1,  /**< v ≤ threshold */
  COMPUTE_TREE_LT = 2,
  COMPUTE_TREE_GTE = 3,
  COMPUTE_TREE_GT = 4,
  COMPUTE_TREE_EQ = 5,
  COMPUTE_TREE_NEQ = 6,
  COMPUTE_TREE_MEMBER = 7 /**< v is one of `members` */
} compute_tree_test;

/** How the values of all trees become one result for each target. */
typedef enum compute_tree_combine {
  COMPUTE_TREE_SUM = 0,     /**< in the order of the trees, summed in f64 */
  COMPUTE_TREE_AVERAGE = 1, /**< the sum divided by the number of trees */
  COMPUTE_TREE_MIN = 2,     /**< NaN is ignored */
  COMPUTE_TREE_MAX = 3
} compute_tree_combine;

/** One node. Numbers of nodes count in the array of all trees. */
typedef struct compute_tree_node {
  compute_tree_test test;
  bool missing;          /**< a NaN goes to `yes`; otherwise to `no` */
  int64_t feature;       /**< along the last axis of x */
  double threshold;      /**< not NaN */
  const double *members; /**< MEMBER: `member_count` numbers in any order, none of them NaN */
  int64_t member_count;
  int64_t yes, no;     /**< the next nodes */
  int64_t first_value; /**< LEAF: its entries in `values` */
  int64_t value_count;
} compute_tree_node;

/** An entry of a leaf. Entries of one leaf and target add up. */
typedef struct compute_tree_value {
  int64_t target;
  double value;
} compute_tree_value;

typedef struct compute_tree_ensemble_options {
  const compute_tree_node *nodes;
  const compute_tree_value *values;
  const int64_t *roots; /**< the first node of each tree */
  int64_t node_count, value_count, tree_count;
  int64_t targets; /**< 1 … 2^24 */
  compute_tree_combine combine;
  uint64_t reserved[4]; /**< must be zero */
} compute_tree_ensemble_options;

/** The results [..., targets] of the trees for the features x [..., features], in x's dtype. A
 * target that no leaf of the row has is 0. Everything in `options` is copied. x may have any float
 * dtype; f16 and bf16 are computed in f32. Thresholds keep all their digits; values are rounded to
 * the dtype of the computation.
 *
 * Branches of a tree may meet again in one node.
 *
 * - COMPUTE_ERROR_INVALID_ARGUMENT for numbers out of range, a node that leads to itself or belongs
 *   to two trees, an unknown test, and a threshold that is NaN. The message names the node.
 * - _DTYPE for x of no float dtype. _SHAPE for x of rank 0 or with more than 2^24 features.
 * - _UNSUPPORTED if leaves have entries of several targets, but of too few: a table with all
 *   targets of all leaves would be over 4,096 times as large as the entries.
 * - _OVERFLOW for more than 2^31 − 1 nodes; _OUT_OF_MEMORY; _NULL_POINTER. */
COMPUTE_API compute_node compute_tree_ensemble(compute_graph *graph, compute_node x,
                                               const compute_tree_ensemble_options *options);

/* ---- Files of XGBoost and LightGBM ------------------------------------------------------------ */

/** Trees from a file. It does not change, so several threads may use it at the same time. */
typedef struct compute_tree_model compute_tree_model;

/** Loads a booster that XGBoost saved as JSON or UBJ, or LightGBM as text. The content decides the
 * format. Ownership of *model passes to the caller. `context` receives errors and may be NULL.
 * Thread-safe.
 *
 * All trees of the file count, as in the packages' `Booster.predict`. Numbers, missing values,
 * default directions and categories are tested as in the packages. Categories are their codes in
 * training. Files need not be trusted: every length and number is checked before it is used.
 *
 * - COMPUTE_ERROR_FILE with the system's error message.
 * - _FORMAT for a file that is damaged, or of another kind.
 * - _UNSUPPORTED for XGBoost's booster gblinear, for leaves with several values in the form before
 *   XGBoost 3.1, and for LightGBM's linear_tree.
 * - _OVERFLOW for more than 2^31 nodes; _NULL_POINTER; _OUT_OF_MEMORY. */
COMPUTE_API compute_status compute_tree_model_load(const compute_context *context, const char *path,
                                                   compute_tree_model **model);

/** The same from `bytes` bytes of memory, which are copied. */
COMPUTE_API compute_status compute_tree_model_load_memory(const compute_context *context,
                                                          const void *data, size_t bytes,
                                                          compute_tree_model **model);

/** NULL is allowed. Not while another thread uses it. */
COMPUTE_API void compute_tree_model_release(compute_tree_model *model);

typedef struct compute_tree_model_info {
  const char *format;    /**< "XGBoost" or "LightGBM" */
  const char *objective; /**< of the file, such as "binary:logistic"; lives as long as the model */
  int64_t features, targets, trees;
  int64_t nodes; /**< for compute_tree_ensemble: a question about categories may take several */
  uint64_t reserved[4]; /**< zero */
} compute_tree_model_info;

/** COMPUTE_ERROR_NULL_POINTER. Thread-safe. */
COMPUTE_API compute_status compute_tree_model_describe(const compute_tree_model *model,
                                                       compute_tree_model_info *info);

/** The results [..., targets] for the features x [..., features], in x's dtype, which is a float.
 * The model may be released afterwards.
 *
 * - `sums` true: the sums of the trees' values, with XGBoost's base_score. They are the packages' raw
 *   scores or margins.
 * - `sums` false: predictions. The objective's function turns the sums into probabilities, or into
 *   expected values. LightGBM's random forests divide the sums by the number of trees first. For
 *   multi:softmax these are the probabilities of multi:softprob.
 *
 * COMPUTE_ERROR_SHAPE if x has another number of features; _UNSUPPORTED for predictions of an
 * objective that is unknown, such as one of your own; the errors of compute_tree_ensemble. */
COMPUTE_API compute_node compute_tree_model_record(compute_graph *graph, compute_node x,
                                                   const compute_tree_model *model, bool sums);

#ifdef __cplusplus
}
#endif
#endif
