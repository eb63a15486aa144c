/* SPDX-License-Identifier: MIT */
#include "support/reference/network_reference.h"

#include <math.h>
#include <stdlib.h>

#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "support/reference/recurrent_reference.h"

typedef struct reference {
  const compute_kernel_descriptor *d;
  const void *const *operands;
  network_store store;
  void *user;
} reference;

static sample_element load(const reference *r, uint32_t input, int64_t at) {
  const compute_dtype dtype = r->d->inputs[input].dtype;
  const unsigned char *address =
      (const unsigned char *)r->operands[input] + at * (int64_t)compute_dtype_size(dtype);
  sample_element value = {.real = dtype_load(dtype, address)};
  if (!dtype_is_float(dtype)) value.whole = dtype_load_integer(dtype, address);
  return value;
}

static int64_t offset(const reference *r, uint32_t input, const int64_t *point, int32_t rank) {
  int64_t at = 0;
  for (int32_t i = 0; i < rank; i++) at += point[i] * r->d->inputs[input].stride[i];
  return at;
}

/* Finds the point of a row-major position in the first `rank` dimensions; returns false past the
 * last. */
static bool find_point(const reference *r, int64_t position, int32_t rank, int64_t *point) {
  for (int32_t i = rank - 1; i >= 0; i--) {
    if (r->d->size[i] == 0) return false;
    point[i] = position % r->d->size[i];
    position /= r->d->size[i];
  }
  return position == 0;
}

/* ---- WINDOW -------------------------------------------------------------------------------- */

/* One window. */
typedef struct view {
  double sum, largest;
  int64_t whole;                        /* the largest, for integers */
  int64_t inside, counted, row, column; /* row, column: index of the largest, or −1 */
} view;

static bool is_counted(const compute_window_attributes *w, int i, int64_t at) {
  return at < w->data_size[i] + w->padding[i] + w->padding_more[i];
}

static view look(const reference *r, const int64_t plane[2], int64_t p, int64_t q, bool data) {
  const compute_window_attributes *w = compute_window_of(r->d);
  const bool real = dtype_is_float(r->d->accumulate);
  view v = {.largest = -INFINITY, .row = -1, .column = -1};
  uint64_t most;
  if (!real) dtype_limits(r->d->inputs[0].dtype, &v.whole, &most);
  for (int64_t i = 0; i < w->size[0]; i++)
    for (int64_t j = 0; j < w->size[1]; j++) {
      const int64_t row = p * w->stride[0] - w->padding[0] + i * w->dilation[0];
      const int64_t column = q * w->stride[1] - w->padding[1] + j * w->dilation[1];
      if (w->count_padding && is_counted(w, 0, row) && is_counted(w, 1, column)) v.counted++;
      if (row < 0 || row >= w->data_size[0] || column < 0 || column >= w->data_size[1]) continue;
      if (!w->count_padding) v.counted++;
      v.inside++;
      if (!data) continue;
      const sample_element loaded =
          load(r, 0, offset(r, 0, (int64_t[]){plane[0], plane[1], row, column}, 4));
      const double x = loaded.real;
      const bool more =
          real ? x > v.largest || (isnan(x) && !isnan(v.largest)) : loaded.whole > v.whole;
      v.sum += x;
      if (v.row >= 0 && !more) continue;
      v.largest = x;
      v.whole = loaded.whole;
      v.row = row;
      v.column = column;
    }
  return v;
}

static sample_element pool(const reference *r, const int64_t *point) {
  const compute_window_attributes *w = compute_window_of(r->d);
  const view v = look(r, point, point[2], point[3], true);
  if (w->operation == COMPUTE_WINDOW_MAX)
    return (sample_element){.real = v.largest, .whole = v.whole};
  if (w->operation == COMPUTE_WINDOW_AVERAGE)
    return (sample_element){.real = v.counted > 0 ? v.sum / (double)v.counted : 0};
  if (v.row < 0) return (sample_element){.whole = -1};
  const int64_t plane = point[0] * r->d->size[1] + point[1];
  return (sample_element){.whole = (plane * w->data_size[0] + v.row) * w->data_size[1] + v.column};
}

static bool reaches(const compute_window_attributes *w, int i, int64_t window, int64_t place) {
  const int64_t from = place + w->padding[i] - window * w->stride[i];
  return from >= 0 && from % w->dilation[i] == 0 && from / w->dilation[i] < w->size[i];
}

static double pool_gradient(const reference *r, const int64_t *point) {
  const compute_window_attributes *w = compute_window_of(r->d);
  const bool max = w->operation == COMPUTE_WINDOW_MAX;
  double sum = 0;
  for (int64_t p = 0; p < w->result_size[0]; p++)
    for (int64_t q = 0; q < w->result_size[1]; q++) {
      if (!reaches(w, 0, p, point[2]) || !reaches(w, 1, q, point[3])) continue;
      const view v = look(r, point, p, q, max);
      const int64_t at[4] = {point[0], point[1], p, q};
      if (!max) sum += load(r, 0, offset(r, 0, at, 4)).real / (double)v.counted;
      if (max && v.row == point[2] && v.column == point[3])
        sum += load(r, 1, offset(r, 1, at, 4)).real;
    }
  return sum;
}

static void windows(const reference *r) {
  int64_t point[COMPUTE_MAX_RANK];
  for (int64_t e = 0; find_point(r, e, 4, point); e++) {
    const sample_element value = compute_window_of(r->d)->by_data
                                     ? (sample_element){.real = pool_gradient(r, point)}
                                     : pool(r, point);
    for (uint32_t k = 0; k < r->d->output_count; k++) {
      const sample_element stored =
          sample_epilogue_element(r->d, r->operands, kernel_operands_own(r->d), value, k, point);
      r->store(r->user, k, point, &stored);
    }
  }
}

/* ---- SCAN ---------------------------------------------------------------------------------- */

static sample_element combine(const compute_kernel_descriptor *d, sample_element a,
                              sample_element b) {
  const bool sum = compute_scan_of(d)->combine == COMPUTE_COMBINE_SUM,
             prod = compute_scan_of(d)->combine == COMPUTE_COMBINE_PROD;
  const bool wins = compute_scan_of(d)->combine == COMPUTE_COMBINE_MAX
                        ? b.real > a.real || (!dtype_is_float(d->accumulate) && b.whole > a.whole)
                        : b.real < a.real || (!dtype_is_float(d->accumulate) && b.whole < a.whole);
  sample_element made = wins || (isnan(b.real) && !isnan(a.real)) ? b : a;
  if (sum) made.real = a.real + b.real;
  if (prod) made.real = a.real * b.real;
  if (sum) made.whole = (int64_t)((uint64_t)a.whole + (uint64_t)b.whole);
  if (prod) made.whole = (int64_t)((uint64_t)a.whole * (uint64_t)b.whole);
  if (d->accumulate == COMPUTE_I32) made.whole = (int32_t)made.whole;
  return made;
}

static sample_element identity(const compute_kernel_descriptor *d) {
  const bool narrow = d->accumulate == COMPUTE_I32;
  switch (compute_scan_of(d)->combine) {
  case COMPUTE_COMBINE_SUM: return (sample_element){.real = 0};
  case COMPUTE_COMBINE_PROD: return (sample_element){.real = 1, .whole = 1};
  case COMPUTE_COMBINE_MAX:
    return (sample_element){.real = -INFINITY, .whole = narrow ? INT32_MIN : INT64_MIN};
  default: return (sample_element){.real = INFINITY, .whole = narrow ? INT32_MAX : INT64_MAX};
  }
}

static void scans(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  int64_t point[COMPUTE_MAX_RANK];
  for (int64_t row = 0; find_point(r, row, last, point); row++) {
    sample_element folded = identity(d);
    for (int64_t i = 0; i < d->size[last]; i++) {
      point[last] = compute_scan_of(d)->reverse ? d->size[last] - 1 - i : i;
      const sample_element before = folded;
      folded = combine(d, folded, load(r, 0, offset(r, 0, point, d->rank)));
      r->store(r->user, 0, point, compute_scan_of(d)->exclusive ? &before : &folded);
    }
  }
}

/* ---- TOP_K and SORT ------------------------------------------------------------------------ */

typedef struct ranked {
  sample_element value;
  int64_t place;
  bool real, smallest;
} ranked;

static int compare_ranked(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  int order = 0; /* of the numbers */
  if (!a->real)
    order = (a->value.whole > b->value.whole) - (a->value.whole < b->value.whole);
  else if (isnan(a->value.real) || isnan(b->value.real))
    order = (isnan(a->value.real) != 0) - (isnan(b->value.real) != 0);
  else
    order = (a->value.real > b->value.real) - (a->value.real < b->value.real);
  if (order != 0) return a->smallest ? order : -order;
  return (a->place > b->place) - (a->place < b->place);
}

/* Compares elements of a row. NaN is the largest, unless it must come last among descending
 * elements. */
static int compare_sorted(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->real && (isnan(a->value.real) != 0) != (isnan(b->value.real) != 0))
    return isnan(a->value.real) ? 1 : -1;
  return compare_ranked(left, right);
}

static bool sort(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const compute_sort_attributes *a = compute_sort_of(d);
  const int32_t last = d->rank - 1;
  int64_t point[COMPUTE_MAX_RANK];
  ranked *row = malloc((size_t)(d->size[last] + 1) * sizeof *row);
  if (!row) return false;
  for (int64_t n = 0; find_point(r, n, last, point); n++) {
    for (int64_t i = 0; i < d->size[last]; i++) {
      point[last] = i;
      row[i] = (ranked){load(r, 0, offset(r, 0, point, d->rank)), i,
                        dtype_is_float(d->inputs[0].dtype), !a->descending};
    }
    qsort(row, (size_t)d->size[last], sizeof *row, compare_sorted);
    for (point[last] = 0; point[last] < d->size[last]; point[last]++) {
      const sample_element place = {.whole = row[point[last]].place};
      if (a->values) r->store(r->user, 0, point, &row[point[last]].value);
      if (a->positions) r->store(r->user, a->values, point, &place);
    }
  }
  free(row);
  return true;
}

static bool top_k(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  int64_t point[COMPUTE_MAX_RANK];
  ranked *row = malloc((size_t)(compute_top_k_of(d)->axis_size + 1) * sizeof *row);
  if (!row) return false;
  for (int64_t n = 0; find_point(r, n, last, point); n++) {
    for (int64_t i = 0; i < compute_top_k_of(d)->axis_size; i++) {
      point[last] = i;
      row[i] = (ranked){load(r, 0, offset(r, 0, point, d->rank)), i,
                        dtype_is_float(d->inputs[0].dtype), compute_top_k_of(d)->smallest};
    }
    qsort(row, (size_t)compute_top_k_of(d)->axis_size, sizeof *row, compare_ranked);
    for (point[last] = 0; point[last] < d->size[last]; point[last]++) {
      const sample_element place = {.whole = row[point[last]].place};
      r->store(r->user, 0, point, &place);
    }
  }
  free(row);
  return true;
}

/* ---- ATTENTION ----------------------------------------------------------------------------- */

static double element(const reference *r, uint32_t input, const int64_t *point, int64_t i,
                      int64_t j) {
  int64_t at[COMPUTE_MAX_RANK];
  const int32_t rank = r->d->rank;
  for (int32_t k = 0; k < rank - 2; k++) at[k] = point[k];
  at[rank - 2] = i;
  at[rank - 1] = j;
  return load(r, input, offset(r, input, at, rank)).real;
}

/* Computes the exponentials of a query's visible scores and returns their sum. */
static double weigh(const reference *r, const int64_t *point, double *weight, int64_t seen) {
  const compute_attention_attributes *a = compute_attention_of(r->d);
  const int64_t query = point[r->d->rank - 2];
  double largest = -INFINITY, total = 0;
  for (int64_t j = 0; j < seen; j++) {
    weight[j] = 0;
    for (int64_t w = 0; w < a->width; w++)
      weight[j] += element(r, 0, point, query, w) * element(r, 1, point, j, w);
    weight[j] *= a->scale;
    if (a->biased) weight[j] += element(r, 3, point, query, j);
    largest = fmax(largest, weight[j]);
  }
  const double blind = a->formula && !a->zero_weights ? (double)NAN : 0;
  for (int64_t j = 0; j < seen; j++) {
    weight[j] = isnan(weight[j]) || largest > -INFINITY ? exp(weight[j] - largest) : blind;
    total += weight[j];
  }
  if (seen == 0) total = blind;
  return total;
}

static bool attention(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const compute_attention_attributes *a = compute_attention_of(d);
  const int32_t query = d->rank - 2, column = d->rank - 1;
  int64_t point[COMPUTE_MAX_RANK];
  double *weight = malloc((size_t)(a->keys + 1) * sizeof *weight);
  if (!weight) return false;
  for (int64_t n = 0; find_point(r, n, column, point); n++) {
    int64_t seen = a->causal ? point[query] + 1 + a->keys - d->size[query] : a->keys;
    if (seen < 0) seen = 0;
    if (seen > a->keys) seen = a->keys;
    const double total = weigh(r, point, weight, seen);
    for (point[column] = 0; point[column] < d->size[column]; point[column]++) {
      sample_element value = {0};
      for (int64_t j = 0; j < seen; j++)
        value.real += weight[j] * element(r, 2, point, j, point[column]);
      if (total != 0) value.real /= total;
      r->store(r->user, 0, point, &value);
    }
  }
  free(weight);
  return true;
}

/* ---- RECURRENT ----------------------------------------------------------------------------- */

static double recurrent_read(void *user, recurrent_operand operand, int64_t i, int64_t j,
                             int64_t k) {
  const reference *r = user;
  const uint32_t input = (uint32_t)recurrent_input(compute_recurrent_of(r->d), operand);
  const sample_element value = load(r, input, offset(r, input, (int64_t[]){i, j, k}, 3));
  return dtype_is_float(r->d->inputs[input].dtype) ? value.real : (double)value.whole;
}

static void recurrent_write(void *user, int64_t row, int64_t sequence, int64_t unit, double real) {
  const reference *r = user;
  const sample_element value = {.real = real};
  r->store(r->user, 0, (int64_t[]){row, sequence, unit}, &value);
}

static bool recurrent(const reference *r) {
  const compute_recurrent_attributes *a = compute_recurrent_of(r->d);
  const recurrent_problem problem = {.a = a,
                                     .steps = r->d->size[0] - compute_recurrent_states(a->cell),
                                     .batch = r->d->size[1],
                                     .hidden = r->d->size[2],
                                     .read = recurrent_read,
                                     .write = recurrent_write,
                                     .user = (void *)r};
  return recurrent_reference(&problem);
}

bool network_reference(const compute_kernel_descriptor *d, const void *const *operands,
                       network_store store, void *user) {
  const reference r = {d, operands, store, user};
  switch (d->kind) {
  case COMPUTE_KERNEL_WINDOW: windows(&r); return true;
  case COMPUTE_KERNEL_SCAN: scans(&r); return true;
  case COMPUTE_KERNEL_TOP_K: return top_k(&r);
  case COMPUTE_KERNEL_SORT: return sort(&r);
  case COMPUTE_KERNEL_ATTENTION: return attention(&r);
  case COMPUTE_KERNEL_RECURRENT: return recurrent(&r);
  default: return false;
  }
}
