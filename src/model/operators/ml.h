/* SPDX-License-Identifier: MIT */
/* Shared by the operators of ai.onnx.ml: matrices of features, labels, and scores of classes.
 *
 * Graphs have no texts. A label that is a text is its number in the node's list of labels, and
 * compute_model_label_at has the list (labels.c). Such a value is i64 with the type ONNX_LABEL.
 * Operators that only move elements take it, and all others refuse it. */
#ifndef MODEL_OPERATORS_ML_H
#define MODEL_OPERATORS_ML_H

#include "model/record.h"

/* Input i as [rows, features] in f64 if it is f64, else in f32. A vector is one row. */
compute_node ml_matrix(model_call *call, size_t i);
int64_t ml_columns(const model_call *call, compute_node x);

/* A list of numbers from attribute `name` (floats) or `tensor` (a tensor of floats or integers,
 * NULL: no such attribute). *values is NULL if both are absent. */
compute_status ml_numbers(model_call *call, const char *name, const char *tensor,
                          const double **values, size_t *count);

/* The integers of attribute `name`, or of a tensor of integers. *list is NULL if there are none.
 * *type: the tensor's ONNX type, else ONNX_INT64. */
compute_status ml_integers(model_call *call, const char *name, const char *tensor,
                           const int64_t **list, size_t *count, int32_t *type);

/* A list or tensor of texts; NULL if it is absent. */
compute_status ml_texts(model_call *call, const char *name, const char *const **texts,
                        size_t *count);

/* The labels of a classifier: integers, or the number of texts. */
typedef struct ml_labels {
  const int64_t *numbers; /* NULL: texts, or none */
  size_t count;
} ml_labels;

compute_status ml_read_labels(model_call *call, const char *integers, ml_labels *labels);

/* Sets output 0 to the labels at `classes`, i64 [rows]. */
compute_status ml_output_labels(model_call *call, const ml_labels *labels, compute_node classes);

/* Applies the post transform `name`, such as "SOFTMAX", along the last axis. */
compute_status ml_transform(model_call *call, const char *name, compute_node *scores);

/* [−score, score], transformed, for one score of two classes. */
compute_status ml_transform_pair(model_call *call, const char *name, compute_node *score);

/* A constant of x's dtype. */
compute_node ml_constant(model_call *call, compute_node x, compute_shape shape,
                         const double *values);

#endif
