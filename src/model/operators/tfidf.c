/* SPDX-License-Identifier: MIT */
/* TfIdfVectorizer: counts n-grams of integers or texts. Texts become places in the sorted list of
 * the node's texts, so both are sequences of integers. */
#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/hash.h"
#include "core/type/shape.h"
#include "model/operators/operators.h"
#include "model/operators/text.h"

/* Limit on columns, so that a short file cannot ask for an output that no memory holds. */
enum { MOST_COLUMNS = 1 << 26, MOST_GRAM = 1 << 10 };

/* An n-gram of the node: pool[first … first + length − 1] counts in column `column`. */
typedef struct gram {
  size_t first, length; /* length 0: a free place in the table */
  int64_t column;
  float weight;
} gram;

typedef struct vectorizer {
  const int64_t *pool;
  const text_entry *texts; /* or NULL */
  size_t text_count;
  gram *table; /* hash table with a power of two places, at most half full */
  size_t capacity;
  int64_t columns, shortest, longest, skips;
  bool weighs, counts; /* weights; counts rather than 1 */
  const float *weights;
  size_t weight_count;
} vectorizer;

/* ---- The table of n-grams -------------------------------------------------------------------- */

static gram *find_gram(const vectorizer *v, const int64_t *items, size_t length) {
  size_t at = hash_bytes(HASH_SEED, items, length * sizeof *items) & (v->capacity - 1);
  for (;; at = (at + 1) & (v->capacity - 1)) {
    gram *g = &v->table[at];
    if (!g->length) return g;
    if (g->length == length && !memcmp(v->pool + g->first, items, length * sizeof *items)) return g;
  }
}

/* Adds the n-grams of one length. *index counts n-grams over all lengths. */
static compute_status add_grams(model_call *call, vectorizer *v, size_t first, size_t end,
                                size_t length, const int64_t *columns, size_t column_count,
                                size_t *index) {
  if ((end - first) % length)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "its pool has a part of a %zu-gram", length);
  for (size_t at = first; at < end; at += length, ++*index) {
    if (*index >= column_count)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'ngram_indexes' has only %zu numbers",
                       column_count);
    gram *g = find_gram(v, v->pool + at, length);
    const float weight = *index < v->weight_count ? v->weights[*index] : 1;
    if (!g->length) *g = (gram){at, length, columns[*index], v->weighs ? weight : 1};
  }
  return COMPUTE_OK;
}

static compute_status make_table(model_call *call, vectorizer *v, size_t pool_count) {
  size_t starts, column_count, index = 0;
  const int64_t *start = call_attribute_ints(call, "ngram_counts", &starts);
  const int64_t *columns = call_attribute_ints(call, "ngram_indexes", &column_count);
  for (v->capacity = 16; v->capacity < 2 * column_count;) v->capacity *= 2;
  v->table = call_allocate(call, v->capacity, sizeof *v->table);
  if (!v->table) return call_out_of_memory(call);
  for (size_t i = 0; i < column_count; i++) {
    if (columns[i] < 0 || columns[i] >= MOST_COLUMNS)
      return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "column %" PRId64 " is not below %d",
                       columns[i], (int)MOST_COLUMNS);
    if (columns[i] >= v->columns) v->columns = columns[i] + 1;
  }
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; !status && i < starts; i++) {
    const int64_t end = i + 1 < starts ? start[i + 1] : (int64_t)pool_count;
    if (start[i] < 0 || start[i] > end || end > (int64_t)pool_count)
      return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'ngram_counts' is not in order");
    status =
        add_grams(call, v, (size_t)start[i], (size_t)end, i + 1, columns, column_count, &index);
  }
  return status;
}

/* ---- The node ------------------------------------------------------------------------------ */

static compute_status take_pool(model_call *call, vectorizer *v, size_t *count) {
  const onnx_attribute *texts = call_attribute(call, "pool_strings");
  v->pool = call_attribute_ints(call, "pool_int64s", count);
  if (!texts || v->pool) return COMPUTE_OK;
  if (texts->type != ONNX_ATTRIBUTE_STRINGS)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'pool_strings' is of the wrong type");
  *count = v->text_count = texts->count;
  v->texts = text_sort(call, texts->texts, texts->count);
  int64_t *pool = call_allocate(call, texts->count, sizeof *pool);
  if (!v->texts || !pool) return call_out_of_memory(call);
  for (size_t i = 0; i < texts->count; i++)
    pool[i] = text_place(v->texts, v->text_count, texts->texts[i]);
  v->pool = pool;
  return COMPUTE_OK;
}

static compute_status take_mode(model_call *call, vectorizer *v) {
  const char *mode = call_attribute_s(call, "mode", "");
  v->counts = strcmp(mode, "IDF") != 0;
  v->weighs = strcmp(mode, "TF") != 0;
  if (v->counts && v->weighs && strcmp(mode, "TFIDF") != 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "attribute 'mode' is '%s'", mode);
  v->weights = call_attribute_floats(call, "weights", &v->weight_count);
  v->shortest = call_attribute_i(call, "min_gram_length", 1);
  v->longest = call_attribute_i(call, "max_gram_length", 1);
  v->skips = call_attribute_i(call, "max_skip_count", 0);
  if (v->shortest < 1 || v->longest < v->shortest || v->longest > MOST_GRAM || v->skips < 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT,
                     "n-grams of %" PRId64 " to %" PRId64 " items with %" PRId64 " skipped",
                     v->shortest, v->longest, v->skips);
  return COMPUTE_OK;
}

/* ---- The run ------------------------------------------------------------------------------- */

/* Weights belong to n-grams, not to columns. */
static compute_status count_grams(host_call *call, const vectorizer *v, const int64_t *items,
                                  int64_t count, int64_t length, int64_t step, int64_t *gram_items,
                                  float *row) {
  enum { MOST_UNASKED = 4096 };
  compute_status status = COMPUTE_OK;
  for (int64_t i = 0; !status && i + (length - 1) * step < count; i++) {
    for (int64_t k = 0; k < length; k++) gram_items[k] = items[i + k * step];
    const gram *g = find_gram(v, gram_items, (size_t)length);
    if (g->length) row[g->column] = v->counts ? row[g->column] + g->weight : g->weight;
    if (i % MOST_UNASKED == 0) status = host_continue(call);
  }
  return status;
}

/* A skip leaves room for an n-gram, so a large `max_skip_count` adds no work. */
static compute_status count_row(host_call *call, const vectorizer *v, const int64_t *items,
                                int64_t count, float *row) {
  int64_t gram_items[MOST_GRAM];
  compute_status status = COMPUTE_OK;
  for (int64_t n = v->shortest; n <= v->longest && n <= count; n++) {
    const int64_t most = n == 1 ? 0 : v->skips;
    for (int64_t skip = 0; !status && skip <= most && (n - 1) * (skip + 1) < count; skip++)
      status = count_grams(call, v, items, count, n, skip + 1, gram_items, row);
  }
  return status;
}

/* Element `at` as an integer of the pool; −1: a text that the pool does not have. */
static int64_t item_of(const host_call *call, const vectorizer *v, const host_tensor *x,
                       int64_t at) {
  if (x->dtype == COMPUTE_I32) return ((const int32_t *)x->data)[at];
  const int64_t number = ((const int64_t *)x->data)[at];
  return v->texts ? text_place(v->texts, v->text_count, host_text(call, number)) : number;
}

static compute_status vectorize_host(host_call *call, const host_tensor *inputs,
                                     host_tensor *outputs) {
  const vectorizer *v = host_node(call)->state;
  const host_tensor *x = &inputs[0];
  const bool batch = x->shape.rank == 2;
  const int64_t rows = batch ? shape_at(x->shape, 0) : 1;
  const int64_t items = x->shape.rank ? shape_at(x->shape, x->shape.rank - 1) : 1;
  compute_status status =
      host_make(call, &outputs[0], COMPUTE_F32,
                batch ? COMPUTE_SHAPE(rows, v->columns) : COMPUTE_SHAPE(v->columns));
  int64_t *row = status ? NULL : base_allocate((uint64_t)items, sizeof *row);
  if (!status && !row) status = host_fail(call, COMPUTE_ERROR_OUT_OF_MEMORY, "out of memory");
  float *result = outputs[0].data;
  if (!status && v->columns) memset(result, 0, (size_t)(rows * v->columns) * sizeof *result);
  for (int64_t r = 0; !status && v->columns && r < rows; r++) {
    for (int64_t i = 0; i < items; i++) row[i] = item_of(call, v, x, r * items + i);
    status = count_row(call, v, row, items, result + r * v->columns);
  }
  base_release(row);
  return status;
}

static compute_status tfidf_vectorizer(model_call *call) {
  vectorizer *v = call_allocate(call, 1, sizeof *v);
  if (!v) return call_out_of_memory(call);
  size_t count = 0;
  compute_status status = take_mode(call, v);
  if (!status) status = take_pool(call, v, &count);
  if (!status) status = make_table(call, v, count);
  if (status) return status;
  const compute_dtype dtype = call_dtype(call, 0);
  const compute_shape shape = call_shape(call, 0);
  if (call_is_text(call, 0) != (v->texts != NULL) || (dtype != COMPUTE_I64 && dtype != COMPUTE_I32))
    return call_fail(call, COMPUTE_ERROR_DTYPE, "its input is not of the type of its pool");
  if (shape.rank > 2)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "its input has more than 2 dimensions");
  int64_t elements = 0;
  compute_shape_count(shape, &elements);
  call->state = v;
  return call_on_host(call, vectorize_host, (double)elements);
}

static const operator_row rows[] = {
    {"", "TfIdfVectorizer", 9, tfidf_vectorizer},
};

const operator_family operators_tfidf = OPERATOR_FAMILY(rows);
