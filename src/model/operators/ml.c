/* SPDX-License-Identifier: MIT */
/* Operators of ai.onnx.ml that prepare features, and the parts that this domain's models share. */
#include "model/operators/ml.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/graph_array.h"
#include "core/type/shape.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* ---- Shared ---------------------------------------------------------------------------------- */

compute_node ml_matrix(model_call *call, size_t i) {
  const compute_shape shape = call_shape(call, i);
  const compute_dtype dtype = call_dtype(call, i) == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  const compute_node x = op_cast(call, call_input(call, i), dtype);
  if (shape.rank == 2) return x;
  const int64_t columns = shape.rank ? shape_at(shape, shape.rank - 1) : 1;
  const int64_t rows = shape.rank ? op_count(shape, 0, shape.rank - 1) : 1;
  return compute_reshape(call->graph, x, COMPUTE_SHAPE(rows, columns));
}

int64_t ml_columns(const model_call *call, compute_node x) {
  const compute_shape shape = compute_node_shape(call->graph, x);
  return shape.rank ? shape_at(shape, shape.rank - 1) : 0;
}

static compute_status wrong_type(model_call *call, const char *name) {
  return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute '%s' is of the wrong type", name);
}

/* Copies element `at` of a tensor's data, which may be unaligned. */
#define READ(code, type)                                                                           \
  case code: {                                                                                     \
    type one;                                                                                      \
    memcpy(&one, (const char *)tensor->data + at * sizeof one, sizeof one);                        \
    *value = one;                                                                                  \
    return true;                                                                                   \
  }

static bool read_integer(const onnx_tensor *tensor, size_t at, int64_t *value) {
  switch (tensor->type) {
    READ(ONNX_INT64, int64_t)
    READ(ONNX_INT32, int32_t)
    READ(ONNX_INT16, int16_t)
    READ(ONNX_UINT8, uint8_t)
  default: return false;
  }
}

static bool read_number(const onnx_tensor *tensor, size_t at, double *value) {
  int64_t integer;
  switch (tensor->type) {
    READ(ONNX_FLOAT, float)
    READ(ONNX_DOUBLE, double)
  default:
    if (!read_integer(tensor, at, &integer)) return false;
    *value = (double)integer;
    return true;
  }
}

#undef READ

compute_status ml_integers(model_call *call, const char *name, const char *tensor,
                           const int64_t **list, size_t *count, int32_t *type) {
  *list = call_attribute_ints(call, name, count);
  *type = ONNX_INT64;
  if (*count > 0) return COMPUTE_OK;
  *list = NULL;
  const onnx_attribute *whole = call_attribute(call, tensor);
  const onnx_tensor *from = whole ? whole->tensor : NULL;
  if (!from || from->strings || from->type == ONNX_FLOAT || from->type == ONNX_DOUBLE)
    return COMPUTE_OK;
  int64_t *to = call_allocate(call, (size_t)from->count, sizeof *to);
  if (from->count && !to) return call_out_of_memory(call);
  for (size_t i = 0; i < (size_t)from->count; i++)
    if (!read_integer(from, i, &to[i])) return wrong_type(call, tensor);
  *list = to;
  *count = (size_t)from->count;
  *type = from->type;
  return COMPUTE_OK;
}

compute_status ml_numbers(model_call *call, const char *name, const char *tensor,
                          const double **values, size_t *count) {
  *values = NULL;
  *count = 0;
  const onnx_attribute *list = call_attribute(call, name);
  const onnx_attribute *whole = tensor ? call_attribute(call, tensor) : NULL;
  const onnx_tensor *from = whole ? whole->tensor : NULL;
  if (list && list->type != ONNX_ATTRIBUTE_FLOATS && list->count > 0) return wrong_type(call, name);
  if (whole && whole->type != ONNX_ATTRIBUTE_TENSOR) return wrong_type(call, tensor);
  const bool listed = list && list->count > 0;
  const size_t wanted = listed ? list->count : from ? (size_t)from->count : 0;
  if (wanted == 0) return COMPUTE_OK;
  double *to = call_allocate(call, wanted, sizeof *to);
  if (!to) return call_out_of_memory(call);
  for (size_t i = 0; i < wanted; i++) {
    if (listed)
      to[i] = (double)list->numbers[i];
    else if (!read_number(from, i, &to[i]))
      return wrong_type(call, tensor);
  }
  *values = to;
  *count = wanted;
  return COMPUTE_OK;
}

compute_status ml_texts(model_call *call, const char *name, const char *const **texts,
                        size_t *count) {
  const onnx_attribute *attribute = call_attribute(call, name);
  *texts = NULL;
  *count = 0;
  if (!attribute) return COMPUTE_OK;
  if (attribute->type == ONNX_ATTRIBUTE_TENSOR && attribute->tensor) {
    *texts = attribute->tensor->strings; /* NULL if it has numbers */
    *count = *texts ? (size_t)attribute->tensor->count : 0;
    return COMPUTE_OK;
  }
  if (attribute->count == 0) return COMPUTE_OK;
  if (attribute->type != ONNX_ATTRIBUTE_STRINGS) return wrong_type(call, name);
  *texts = attribute->texts;
  *count = attribute->count;
  return COMPUTE_OK;
}

compute_status ml_read_labels(model_call *call, const char *integers, ml_labels *labels) {
  const char *const *texts;
  const compute_status status = ml_texts(call, "classlabels_strings", &texts, &labels->count);
  labels->numbers = NULL;
  if (status || labels->count > 0) return status;
  labels->numbers = call_attribute_ints(call, integers, &labels->count);
  return COMPUTE_OK;
}

compute_status ml_output_labels(model_call *call, const ml_labels *labels, compute_node classes) {
  if (!labels->numbers && labels->count) return call_output_as(call, 0, ONNX_LABEL, classes);
  if (!labels->numbers) return call_output(call, 0, classes);
  const compute_node table = compute_constant(
      call->graph, COMPUTE_I64, COMPUTE_SHAPE((int64_t)labels->count), labels->numbers);
  return call_output(call, 0, compute_gather(call->graph, table, classes, 0));
}

compute_node ml_constant(model_call *call, compute_node x, compute_shape shape,
                         const double *values) {
  return op_numbers(call, compute_node_dtype(call->graph, x), shape, values);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* The softmax of the scores that are not 0; the others are multiplied by exp(−largest). */
static compute_node softmax_zero(model_call *call, compute_node x) {
  compute_graph *graph = call->graph;
  const compute_axes last = COMPUTE_AXES(-1);
  const compute_node top = compute_max(graph, x, last, true);
  const compute_node is_zero =
      compute_less_equal(graph, compute_abs(graph, x), call_scalar_like(call, x, 1e-7));
  const compute_node y = compute_select(
      graph, is_zero, compute_mul(graph, x, compute_exp(graph, compute_neg(graph, top))),
      compute_exp(graph, compute_sub(graph, x, top)));
  const compute_node sum = compute_sum(graph, y, last, true);
  const compute_node none = compute_equal(graph, sum, call_scalar_like(call, x, 0));
  return compute_select(graph, none, call_scalar_like(call, x, 0.5), compute_div(graph, y, sum));
}

/* The normal quantile by Winitzki's approximation of the inverse error function (2008), which ONNX
 * Runtime and ONNX's reference use. */
static compute_node probit(model_call *call, compute_node p) {
  compute_graph *graph = call->graph;
  const double a = 0.147;
  const compute_node one = call_scalar_like(call, p, 1);
  const compute_node x =
      compute_sub(graph, compute_mul(graph, p, call_scalar_like(call, p, 2)), one);
  const compute_node product =
      compute_mul(graph, compute_sub(graph, one, x), compute_add(graph, one, x));
  const compute_node log = compute_log(graph, product);
  const compute_node v = compute_add(graph, compute_mul(graph, log, call_scalar_like(call, p, 0.5)),
                                     call_scalar_like(call, p, 2 / (3.14159265358979323846 * a)));
  const compute_node square = compute_sub(
      graph, compute_mul(graph, v, v), compute_mul(graph, log, call_scalar_like(call, p, 1 / a)));
  const compute_node size = compute_sqrt(graph, compute_sub(graph, compute_sqrt(graph, square), v));
  const compute_node zero = call_scalar_like(call, p, 0);
  const compute_node sign =
      compute_select(graph, compute_less(graph, x, zero), call_scalar_like(call, p, -1), one);
  /* 0 and 1 give −∞ and ∞. */
  return compute_mul(graph, compute_mul(graph, sign, size), call_scalar_like(call, p, 1.41421356));
}

compute_status ml_transform(model_call *call, const char *name, compute_node *scores) {
  if (strcmp(name, "NONE") == 0) return COMPUTE_OK;
  if (strcmp(name, "LOGISTIC") == 0)
    *scores = compute_sigmoid(call->graph, *scores);
  else if (strcmp(name, "SOFTMAX") == 0)
    *scores = compute_softmax(call->graph, *scores, -1);
  else if (strcmp(name, "SOFTMAX_ZERO") == 0)
    *scores = softmax_zero(call, *scores);
  else if (strcmp(name, "PROBIT") == 0)
    *scores = probit(call, *scores);
  else
    return call_fail(call, COMPUTE_ERROR_FORMAT, "post_transform '%s'", name);
  return COMPUTE_OK;
}

compute_status ml_transform_pair(model_call *call, const char *name, compute_node *score) {
  const compute_node parts[] = {compute_neg(call->graph, *score), *score};
  *score = compute_concat(call->graph, parts, 2, -1);
  return ml_transform(call, name, score);
}

/* ---- Features -------------------------------------------------------------------------------- */

/* Attribute `name` as a vector of one number, or of one for each column. */
static compute_status column_numbers(model_call *call, const char *name, compute_node x,
                                     double fallback, compute_node *result) {
  const double *values;
  size_t count;
  const compute_status status = ml_numbers(call, name, NULL, &values, &count);
  if (status) return status;
  if (count > 1 && (int64_t)count != ml_columns(call, x))
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu numbers in '%s' for %" PRId64 " features",
                     count, name, ml_columns(call, x));
  *result = count ? ml_constant(call, x, COMPUTE_SHAPE((int64_t)count), values)
                  : call_scalar_like(call, x, fallback);
  return COMPUTE_OK;
}

static compute_node floats(model_call *call) {
  const compute_dtype dtype = call_dtype(call, 0) == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  return op_cast(call, call_input(call, 0), dtype);
}

static compute_status scaler(model_call *call) {
  compute_node offset, scale;
  const compute_node x = floats(call);
  compute_status status = column_numbers(call, "offset", x, 0, &offset);
  if (!status) status = column_numbers(call, "scale", x, 1, &scale);
  if (status) return status;
  const compute_node y = compute_mul(call->graph, compute_sub(call->graph, x, offset), scale);
  return call_output(call, 0, op_cast(call, y, COMPUTE_F32));
}

/* A row whose divisor is 0 stays as it is. */
static compute_status normalizer(model_call *call) {
  compute_graph *graph = call->graph;
  const char *norm = call_attribute_s(call, "norm", "MAX");
  const compute_node x = floats(call);
  const compute_axes last = COMPUTE_AXES(-1);
  compute_node divisor;
  if (call_shape(call, 0).rank < 1)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "x needs an axis of features");
  if (strcmp(norm, "MAX") == 0)
    divisor = compute_max(graph, compute_abs(graph, x), last, true);
  else if (strcmp(norm, "L1") == 0)
    divisor = compute_sum(graph, compute_abs(graph, x), last, true);
  else if (strcmp(norm, "L2") == 0)
    divisor = op_norm(call, x, last, 2, true);
  else
    return call_fail(call, COMPUTE_ERROR_FORMAT, "norm '%s'", norm);
  const compute_node is_zero = compute_equal(graph, divisor, call_scalar_like(call, x, 0));
  divisor = compute_select(graph, is_zero, call_scalar_like(call, x, 1), divisor);
  return call_output(call, 0, op_cast(call, compute_div(graph, x, divisor), COMPUTE_F32));
}

static compute_status binarizer(model_call *call) {
  compute_graph *graph = call->graph;
  const double threshold = call_attribute_f(call, "threshold", 0);
  const compute_dtype dtype = call_dtype(call, 0);
  const compute_node x = call_input(call, 0), wide = floats(call);
  const compute_node above =
      compute_greater(graph, op_is_float(dtype) ? x : wide,
                      call_scalar_like(call, op_is_float(dtype) ? x : wide, threshold));
  return call_output(call, 0, compute_cast(graph, above, dtype));
}

/* Integers are compared as such, so that none of them is rounded. */
static compute_status impute_integers(model_call *call) {
  compute_graph *graph = call->graph;
  size_t count;
  const int64_t *values = call_attribute_ints(call, "imputed_value_int64s", &count);
  const int64_t replaced = call_attribute_i(call, "replaced_value_int64", 0);
  const compute_dtype dtype = call_dtype(call, 0);
  const compute_node x = op_cast(call, call_input(call, 0), COMPUTE_I64);
  if (count == 0 || (count > 1 && (int64_t)count != ml_columns(call, x)))
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu imputed integers", count);
  const compute_node imputed =
      compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE((int64_t)count), values);
  const compute_node y =
      compute_select(graph, compute_equal(graph, x, number_i64(call, replaced)), imputed, x);
  return call_output(call, 0, op_cast(call, y, dtype));
}

static compute_status imputer(model_call *call) {
  compute_graph *graph = call->graph;
  if (!op_is_float(call_dtype(call, 0))) return impute_integers(call);
  const double replaced = call_attribute_f(call, "replaced_value_float", 0);
  const compute_node x = call_input(call, 0);
  compute_node imputed;
  const onnx_attribute *given = call_attribute(call, "imputed_value_floats");
  if (!given || given->count == 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'imputed_value_floats' is missing");
  const compute_status status = column_numbers(call, "imputed_value_floats", x, 0, &imputed);
  if (status) return status;
  const compute_node is_missing =
      isnan(replaced) ? compute_is_nan(graph, x)
                      : compute_equal(graph, x, call_scalar_like(call, x, replaced));
  return call_output(call, 0, compute_select(graph, is_missing, imputed, x));
}

enum { MOST_COLUMNS = 1 << 24 }; /* of one input of FeatureVectorizer */

/* The inputs side by side, each cut or filled with zeros to its number of columns. */
static compute_status feature_vectorizer(model_call *call) {
  size_t count;
  const int64_t *columns = call_attribute_ints(call, "inputdimensions", &count);
  if (count != call->input_count)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu sizes for %zu inputs", count,
                     call->input_count);
  compute_node *parts = call_allocate(call, count, sizeof *parts);
  if (!parts) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) {
    if (!call_has(call, i) || columns[i] < 0 || columns[i] > MOST_COLUMNS)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "input %zu has %" PRId64 " columns", i,
                       columns[i]);
    parts[i] = op_cast(call, ml_matrix(call, i), COMPUTE_F32);
    const int64_t own = ml_columns(call, parts[i]);
    if (own != columns[i]) parts[i] = op_pad(call, parts[i], 1, 0, columns[i] - own, 0);
  }
  return call_output(call, 0, compute_concat(call->graph, parts, count, 1));
}

/* True for floats that a cast to i64 keeps apart from their fraction: not NaN, not too large. */
static compute_node fits_integer(model_call *call, compute_node x) {
  const compute_node wide = op_cast(call, x, COMPUTE_F64);
  const compute_node end = call_scalar_like(call, wide, 0x1p63);
  return compute_logical_and(
      call->graph, compute_greater_equal(call->graph, wide, compute_neg(call->graph, end)),
      compute_less(call->graph, wide, end));
}

/* Without `zeros`, a value of no category fails the run: it becomes an index out of range. */
static compute_status one_hot_encoder(model_call *call) {
  compute_graph *graph = call->graph;
  size_t count, texts;
  const char *const *names;
  const int64_t *categories = call_attribute_ints(call, "cats_int64s", &count);
  const bool zeros = call_attribute_i(call, "zeros", 1) != 0;
  const compute_status status = ml_texts(call, "cats_strings", &names, &texts);
  if (status) return status;
  if (count == 0)
    return call_fail(call, texts ? COMPUTE_ERROR_UNSUPPORTED : COMPUTE_ERROR_FORMAT,
                     texts ? "categories that are texts" : "it has no categories");
  compute_shape shape = call_shape(call, 0);
  if (shape.rank >= COMPUTE_MAX_RANK)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its result has more than %d axes",
                     COMPUTE_MAX_RANK);
  shape_set(&shape, shape.rank++, 1);
  const compute_node given = compute_reshape(graph, call_input(call, 0), shape);
  const compute_node x = op_cast(call, given, COMPUTE_I64);
  const compute_node table =
      compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE((int64_t)count), categories);
  compute_node is_category = compute_equal(graph, x, table);
  if (op_is_float(call_dtype(call, 0)))
    is_category = compute_logical_and(graph, is_category, fits_integer(call, given));
  compute_node y = compute_cast(graph, is_category, COMPUTE_F32);
  if (!zeros) {
    const compute_node found = compute_max(graph, y, COMPUTE_AXES(-1), true);
    const compute_node at =
        compute_select(graph, compute_equal(graph, found, call_scalar_like(call, y, 0)),
                       number_i64(call, 1), number_i64(call, 0));
    const compute_node nothing = call_zeros(call, COMPUTE_F32, COMPUTE_SHAPE(1));
    y = compute_add(graph, y, compute_gather(graph, nothing, at, 0));
  }
  return call_output(call, 0, y);
}

/* ---- Maps -------------------------------------------------------------------------------------- */

/* A sequence of maps is the matrix of the scores: column i has the scores of label i. */
static compute_status zip_map(model_call *call) {
  return call_output(call, 0, ml_matrix(call, 0));
}

static compute_status cast_map(model_call *call) {
  return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its input is a map, not a tensor");
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"ai.onnx.ml", "Binarizer", 1, binarizer},
    {"ai.onnx.ml", "CastMap", 1, cast_map},
    {"ai.onnx.ml", "FeatureVectorizer", 1, feature_vectorizer},
    {"ai.onnx.ml", "Imputer", 1, imputer},
    {"ai.onnx.ml", "Normalizer", 1, normalizer},
    {"ai.onnx.ml", "OneHotEncoder", 1, one_hot_encoder},
    {"ai.onnx.ml", "Scaler", 1, scaler},
    {"ai.onnx.ml", "ZipMap", 1, zip_map},
};

const operator_family operators_ml = OPERATOR_FAMILY(rows);
