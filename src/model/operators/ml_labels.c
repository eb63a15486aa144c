/* SPDX-License-Identifier: MIT */
/* Operators of ai.onnx.ml that translate labels: LabelEncoder, CategoryMapper. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/graph_array.h"
#include "core/type/shape.h"
#include "model/operators/ml.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* ---- Keys -------------------------------------------------------------------------------------- */

/* A table of LabelEncoder or CategoryMapper: `count` keys in order, and where their values are. */
typedef struct entry {
  double key;
  int64_t integer; /* the key of a table of integers */
  int64_t at;
} entry;

static int compare_keys(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (isnan(x->key) || isnan(y->key)) return (isnan(x->key) != 0) - (isnan(y->key) != 0);
  if (x->key != y->key) return (x->key > y->key) - (x->key < y->key);
  if (x->integer != y->integer) return (x->integer > y->integer) - (x->integer < y->integer);
  return (x->at > y->at) - (x->at < y->at);
}

/* The place in the list of values of each element of x: that of its first key, or `count`. NaN
 * equals NaN. */
static compute_status find_keys(model_call *call, compute_node x, bool integers, entry *entries,
                                size_t count, compute_node *place) {
  compute_graph *graph = call->graph;
  const compute_dtype dtype = integers ? COMPUTE_I64 : COMPUTE_F64;
  qsort(entries, count, sizeof *entries, compare_keys);
  size_t used = 0, numbers = 0;
  int64_t missing = (int64_t)count;
  for (size_t i = 0; i < count; i++) {
    if (isnan(entries[i].key)) {
      if (missing == (int64_t)count) missing = entries[i].at;
    } else if (used == 0 || entries[used - 1].key != entries[i].key ||
               entries[used - 1].integer != entries[i].integer) {
      entries[used++] = entries[i];
    }
  }
  numbers = used;
  double *keys = call_allocate(call, numbers + 1, sizeof *keys);
  int64_t *whole = call_allocate(call, numbers + 1, sizeof *whole);
  int64_t *at = call_allocate(call, numbers + 1, sizeof *at);
  if (!keys || !whole || !at) return call_out_of_memory(call);
  for (size_t i = 0; i < numbers; i++) {
    keys[i] = entries[i].key;
    whole[i] = entries[i].integer;
    at[i] = entries[i].at;
  }
  at[numbers] = (int64_t)count; /* behind the last key */
  keys[numbers] = INFINITY;
  whole[numbers] = INT64_MAX;
  x = op_cast(call, x, dtype);
  const compute_shape size = COMPUTE_SHAPE((int64_t)numbers + 1);
  const compute_node sorted =
      compute_constant(graph, dtype, size, integers ? (const void *)whole : keys);
  const compute_node limit = number_i64(call, (int64_t)numbers);
  const compute_node found = compute_minimum(
      graph, compute_cast(graph, compute_searchsorted(graph, sorted, x, false), COMPUTE_I64),
      limit);
  const compute_node equal = compute_equal(graph, compute_gather(graph, sorted, found, 0), x);
  const compute_node places =
      compute_gather(graph, compute_constant(graph, COMPUTE_I64, size, at), found, 0);
  *place = compute_select(graph, equal, places, number_i64(call, (int64_t)count));
  if (!integers)
    *place = compute_select(graph, compute_is_nan(graph, x), number_i64(call, missing), *place);
  return COMPUTE_OK;
}

/* Keys of the node, and if they are integers. */
static compute_status read_keys(model_call *call, entry **entries, size_t *count, bool *integers) {
  const double *keys = NULL;
  const int64_t *whole;
  int32_t type;
  compute_status status = ml_integers(call, "keys_int64s", "keys_tensor", &whole, count, &type);
  *integers = *count > 0;
  if (!status && !*integers) status = ml_numbers(call, "keys_floats", "keys_tensor", &keys, count);
  if (status) return status;
  if (*count == 0) return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "keys that are not numbers");
  *entries = call_allocate(call, *count, sizeof **entries);
  if (!*entries) return call_out_of_memory(call);
  for (size_t i = 0; i < *count; i++)
    (*entries)[i] = (entry){*integers ? 0 : keys[i], *integers ? whole[i] : 0, (int64_t)i};
  return COMPUTE_OK;
}

/* A text of a list, to be sorted. */
typedef struct text_entry {
  const char *text;
  int64_t at;
} text_entry;

static int compare_texts(const void *a, const void *b) {
  const text_entry *x = a, *y = b;
  const int order = strcmp(x->text, y->text);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* The place of a text in its list: the first one, or `count`. */
static int64_t find_text(const text_entry *sorted, size_t count, const char *text) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(sorted[middle].text, text) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && strcmp(sorted[low].text, text) == 0 ? sorted[low].at : (int64_t)count;
}

/* Places of texts that are known: constants of the file. */
static compute_status find_texts(model_call *call, const char *const *keys, size_t count,
                                 compute_node *place) {
  if (call->inputs[0]->kind != VALUE_STRINGS)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its input is text");
  const compute_shape shape = call_shape(call, 0);
  const size_t elements = (size_t)op_count(shape, 0, shape.rank);
  int64_t *at = call_allocate(call, elements, sizeof *at);
  text_entry *sorted = call_allocate(call, count, sizeof *sorted);
  if (!at || !sorted) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) sorted[i] = (text_entry){keys[i], (int64_t)i};
  qsort(sorted, count, sizeof *sorted, compare_texts);
  for (size_t i = 0; i < elements; i++)
    at[i] = find_text(sorted, count, call->inputs[0]->strings[i]);
  *place = compute_constant(call->graph, COMPUTE_I64, shape, at);
  return COMPUTE_OK;
}

static compute_status wrong_count(model_call *call, size_t keys, size_t values) {
  return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu keys and %zu values", keys, values);
}

/* Integers at the places, of ONNX type `type`. */
static compute_status output_integers(model_call *call, compute_node place, size_t count,
                                      const int64_t *integers, int32_t type) {
  compute_graph *graph = call->graph;
  const int64_t *other;
  size_t others;
  int32_t other_type;
  const compute_status status =
      ml_integers(call, "", "default_tensor", &other, &others, &other_type);
  if (status) return status;
  int64_t *table = call_allocate(call, count + 1, sizeof *table);
  if (!table) return call_out_of_memory(call);
  memcpy(table, integers, count * sizeof *table);
  table[count] = others ? other[0] : call_attribute_i(call, "default_int64", -1);
  const compute_node node =
      compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE((int64_t)count + 1), table);
  return call_output(call, 0,
                     compute_gather(graph, compute_cast(graph, node, onnx_dtype(type)), place, 0));
}

/* The values of the places; the last of the `count` + 1 is the default. Texts are their places. */
static compute_status output_values(model_call *call, compute_node place, size_t count) {
  compute_graph *graph = call->graph;
  const double *values, *other;
  const int64_t *integers;
  const char *const *texts;
  size_t listed, text_count, others;
  int32_t type;
  compute_status status = ml_texts(call, "values_strings", &texts, &text_count);
  if (!status && !texts) status = ml_texts(call, "values_tensor", &texts, &text_count);
  if (texts && !status && text_count == count) return call_output_as(call, 0, ONNX_STRING, place);
  if (!status)
    status = ml_integers(call, "values_int64s", "values_tensor", &integers, &listed, &type);
  if (status) return status;
  if (integers)
    return listed == count ? output_integers(call, place, count, integers, type)
                           : wrong_count(call, count, listed);
  status = ml_numbers(call, "values_floats", "values_tensor", &values, &listed);
  if (!status && listed != count) status = wrong_count(call, count, listed);
  if (!status) status = ml_numbers(call, "", "default_tensor", &other, &others);
  if (status) return status;
  double *table = call_allocate(call, count + 1, sizeof *table);
  if (!table) return call_out_of_memory(call);
  memcpy(table, values, count * sizeof *table);
  table[count] = others ? other[0] : call_attribute_f(call, "default_float", -0.0);
  const onnx_attribute *whole = call_attribute(call, "values_tensor");
  const compute_dtype dtype =
      whole && whole->tensor ? onnx_dtype(whole->tensor->type) : COMPUTE_F32;
  const compute_node node =
      compute_constant(graph, COMPUTE_F64, COMPUTE_SHAPE((int64_t)count + 1), table);
  return call_output(call, 0, compute_gather(graph, compute_cast(graph, node, dtype), place, 0));
}

static compute_status label_encoder(model_call *call) {
  const char *const *texts;
  size_t count;
  entry *entries;
  bool integers;
  compute_node place;
  compute_status status = ml_texts(call, "keys_strings", &texts, &count);
  if (!status && !texts) status = ml_texts(call, "keys_tensor", &texts, &count);
  if (status) return status;
  if (texts) {
    status = find_texts(call, texts, count, &place);
  } else {
    status = read_keys(call, &entries, &count, &integers);
    if (!status) status = find_keys(call, call_input(call, 0), integers, entries, count, &place);
  }
  return status ? status : output_values(call, place, count);
}

/* Between integers and texts: a text is its place in the list, with the default behind the last. */
static compute_status category_mapper(model_call *call) {
  compute_graph *graph = call->graph;
  const char *const *texts;
  size_t count, numbers;
  const int64_t *integers = call_attribute_ints(call, "cats_int64s", &numbers);
  compute_status status = ml_texts(call, "cats_strings", &texts, &count);
  if (status) return status;
  if (count == 0 || count != numbers)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu texts and %zu integers", count, numbers);
  compute_node place;
  if (call->inputs[0]->kind == VALUE_STRINGS) {
    status = find_texts(call, texts, count, &place);
    if (status) return status;
    int64_t *table = call_allocate(call, count + 1, sizeof *table);
    if (!table) return call_out_of_memory(call);
    memcpy(table, integers, count * sizeof *table);
    table[count] = call_attribute_i(call, "default_int64", -1);
    const compute_node node =
        compute_constant(graph, COMPUTE_I64, COMPUTE_SHAPE((int64_t)count + 1), table);
    return call_output(call, 0, compute_gather(graph, node, place, 0));
  }
  entry *entries = call_allocate(call, count, sizeof *entries);
  if (!entries) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) entries[i] = (entry){0, integers[i], (int64_t)i};
  status = find_keys(call, call_input(call, 0), true, entries, count, &place);
  return status ? status : call_output_as(call, 0, ONNX_STRING, place);
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"ai.onnx.ml", "CategoryMapper", 1, category_mapper},
    {"ai.onnx.ml", "LabelEncoder", 2, label_encoder},
};

const operator_family operators_ml_labels = OPERATOR_FAMILY(rows);
