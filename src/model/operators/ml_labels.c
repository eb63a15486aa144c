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
#include "model/operators/text.h"

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

/* Places of texts that are known: constants of the file. */
static compute_status find_texts(model_call *call, const char *const *texts,
                                 const char *const *keys, size_t count, compute_node *place) {
  const compute_shape shape = call_shape(call, 0);
  const size_t elements = (size_t)op_count(shape, 0, shape.rank);
  int64_t *at = call_allocate(call, elements, sizeof *at);
  const text_entry *sorted = text_sort(call, keys, count);
  if (!at || !sorted) return call_out_of_memory(call);
  for (size_t i = 0; i < elements; i++) {
    at[i] = text_place(sorted, count, texts[i]);
    if (at[i] < 0) at[i] = (int64_t)count;
  }
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
  if (texts && !status && text_count == count) return call_output_as(call, 0, ONNX_LABEL, place);
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

/* ---- Texts of a run ---------------------------------------------------------------------------- */

/* Maps texts to elements of `dtype`, or to texts. The last of the count + 1 values is the default. */
typedef struct text_map {
  const text_entry *keys;
  size_t count;
  const char *const *texts; /* the values; NULL: `values` */
  const char *other;
  const void *values;
  compute_dtype dtype;
} text_map;

static compute_status map_host(host_call *call, const host_tensor *inputs, host_tensor *outputs) {
  const text_map *map = host_node(call)->state;
  const compute_shape shape = inputs[0].shape;
  compute_status status = map->texts ? host_make_texts(call, &outputs[0], shape)
                                     : host_make(call, &outputs[0], map->dtype, shape);
  int64_t count = 0;
  if (!status) status = compute_shape_count(shape, &count);
  const int64_t *numbers = inputs[0].data;
  const size_t size = compute_dtype_size(map->dtype);
  for (int64_t i = 0; !status && i < count; i++) {
    int64_t at = text_place(map->keys, map->count, host_text(call, numbers[i]));
    if (map->texts) {
      const char *text = at < 0 ? map->other : map->texts[at];
      status = host_add_text(call, text, strlen(text), (int64_t *)outputs[0].data + i);
    } else {
      if (at < 0) at = (int64_t)map->count;
      memcpy((char *)outputs[0].data + (size_t)i * size,
             (const char *)map->values + (size_t)at * size, size);
    }
  }
  return status;
}

/* The table of a map to integers of an ONNX type, which has 2, 4 or 8 bytes. */
static compute_status integer_table(model_call *call, text_map *map, const int64_t *values,
                                    int64_t other, int32_t type) {
  map->dtype = onnx_dtype(type);
  const size_t size = compute_dtype_size(map->dtype);
  char *table = call_allocate(call, map->count + 1, sizeof(int64_t));
  if (!table) return call_out_of_memory(call);
  for (size_t i = 0; i <= map->count; i++) {
    const int64_t value = i < map->count ? values[i] : other;
    const int32_t narrow = (int32_t)value;
    const int16_t short_one = (int16_t)value;
    const void *from = size == 8   ? (const void *)&value
                       : size == 4 ? (const void *)&narrow
                                   : (const void *)&short_one;
    memcpy(table + i * size, from, size);
  }
  map->values = table;
  return size >= 2 ? COMPUTE_OK
                   : call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "its values are %s",
                               onnx_type_name(type));
}

static compute_status float_table(model_call *call, text_map *map, const double *values,
                                  double other, bool wide) {
  map->dtype = wide ? COMPUTE_F64 : COMPUTE_F32;
  double *table = call_allocate(call, map->count + 1, sizeof *table);
  if (!table) return call_out_of_memory(call);
  for (size_t i = 0; i <= map->count; i++) {
    const double value = i < map->count ? values[i] : other;
    if (wide)
      table[i] = value;
    else
      ((float *)table)[i] = (float)value;
  }
  map->values = table;
  return COMPUTE_OK;
}

/* The values of LabelEncoder's attributes. */
static compute_status take_values(model_call *call, text_map *map) {
  const int64_t *integers, *other_integer;
  const double *numbers, *other_number;
  size_t listed, others;
  int32_t type, other_type;
  compute_status status = ml_texts(call, "values_strings", &map->texts, &listed);
  if (!status && !map->texts) status = ml_texts(call, "values_tensor", &map->texts, &listed);
  if (status) return status;
  const char *const *other;
  status = ml_texts(call, "default_tensor", &other, &others);
  if (status) return status;
  map->other = others ? other[0] : call_attribute_s(call, "default_string", "_Unused");
  if (map->texts) return listed == map->count ? status : wrong_count(call, map->count, listed);
  status = ml_integers(call, "values_int64s", "values_tensor", &integers, &listed, &type);
  if (!status && integers) {
    status = ml_integers(call, "", "default_tensor", &other_integer, &others, &other_type);
    if (!status && listed != map->count) status = wrong_count(call, map->count, listed);
    return status
               ? status
               : integer_table(
                     call, map, integers,
                     others ? other_integer[0] : call_attribute_i(call, "default_int64", -1), type);
  }
  if (!status) status = ml_numbers(call, "values_floats", "values_tensor", &numbers, &listed);
  if (!status && listed != map->count) status = wrong_count(call, map->count, listed);
  if (!status) status = ml_numbers(call, "", "default_tensor", &other_number, &others);
  if (status) return status;
  const onnx_attribute *tensor = call_attribute(call, "values_tensor");
  return float_table(call, map, numbers,
                     others ? other_number[0] : call_attribute_f(call, "default_float", -0.0),
                     tensor && tensor->tensor && tensor->tensor->type == ONNX_DOUBLE);
}

/* A map from texts that a run computes. Its keys and number of values are set. */
static compute_status map_texts(model_call *call, text_map *map, const char *const *keys) {
  if (!call_is_text(call, 0)) return call_fail(call, COMPUTE_ERROR_DTYPE, "its input is not text");
  map->keys = text_sort(call, keys, map->count);
  if (!map->keys) return call_out_of_memory(call);
  call->state = map;
  int64_t count = 0;
  compute_shape_count(call_shape(call, 0), &count);
  return call_text_on_host(call, map_host, (double)count);
}

/* Texts become texts on the host, known ones as well, so that the kind of the output is certain. */
static compute_status encode_texts(model_call *call, const char *const *keys, size_t count) {
  const char *const *known;
  compute_node place;
  text_map *map = call_allocate(call, 1, sizeof *map);
  if (!map) return call_out_of_memory(call);
  map->count = count;
  compute_status status = take_values(call, map);
  if (!status) status = call_known_texts(call, 0, &known);
  if (status) return status;
  if (map->texts || !known) return map_texts(call, map, keys);
  status = find_texts(call, known, keys, count, &place);
  return status ? status : output_values(call, place, count);
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
  if (texts) return encode_texts(call, texts, count);
  if (call_is_text(call, 0)) return call_fail(call, COMPUTE_ERROR_DTYPE, "its input is text");
  status = read_keys(call, &entries, &count, &integers);
  if (!status) status = find_keys(call, call_input(call, 0), integers, entries, count, &place);
  return status ? status : output_values(call, place, count);
}

/* ---- CategoryMapper ---------------------------------------------------------------------------- */

static compute_status map_categories(model_call *call, const char *const *texts,
                                     const int64_t *integers, size_t count) {
  const char *const *known;
  compute_node place;
  compute_status status = call_known_texts(call, 0, &known);
  if (status) return status;
  if (known) {
    status = find_texts(call, known, texts, count, &place);
    return status ? status : output_integers(call, place, count, integers, ONNX_INT64);
  }
  text_map *map = call_allocate(call, 1, sizeof *map);
  if (!map) return call_out_of_memory(call);
  map->count = count;
  status =
      integer_table(call, map, integers, call_attribute_i(call, "default_int64", -1), ONNX_INT64);
  return status ? status : map_texts(call, map, texts);
}

/* Between integers and texts: a text is its place in the list, with the default behind the last. */
static compute_status category_mapper(model_call *call) {
  const char *const *texts;
  size_t count, numbers;
  const int64_t *integers = call_attribute_ints(call, "cats_int64s", &numbers);
  compute_status status = ml_texts(call, "cats_strings", &texts, &count);
  if (status) return status;
  if (count == 0 || count != numbers)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu texts and %zu integers", count, numbers);
  if (call_is_text(call, 0)) return map_categories(call, texts, integers, count);
  compute_node place;
  entry *entries = call_allocate(call, count, sizeof *entries);
  if (!entries) return call_out_of_memory(call);
  for (size_t i = 0; i < count; i++) entries[i] = (entry){0, integers[i], (int64_t)i};
  status = find_keys(call, call_input(call, 0), true, entries, count, &place);
  return status ? status : call_output_as(call, 0, ONNX_LABEL, place);
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"ai.onnx.ml", "CategoryMapper", 1, category_mapper},
    {"ai.onnx.ml", "LabelEncoder", 2, label_encoder},
};

const operator_family operators_ml_labels = OPERATOR_FAMILY(rows);
