/* SPDX-License-Identifier: MIT */
/* References of WINDOW, SCAN, TOP_K, SORT, ATTENTION and RECURRENT, by their definitions in
 * compute/backend.h: plain loops in double, or in wrapping integers. */
#include "support/reference/kernel_reference_kinds.h"

#include <math.h>
#include <stdlib.h>

#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "support/reference/recurrent_reference.h"

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
  const bool real = reference_is_float(r->d->accumulate);
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
      const reference_value loaded =
          reference_at(r, 0, (int64_t[]){plane[0], plane[1], row, column}, 4);
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

static reference_value pool(const reference *r, const int64_t *point) {
  const compute_window_attributes *w = compute_window_of(r->d);
  const view v = look(r, point, point[2], point[3], true);
  if (w->operation == COMPUTE_WINDOW_MAX)
    return (reference_value){.real = v.largest, .whole = v.whole};
  if (w->operation == COMPUTE_WINDOW_AVERAGE)
    return (reference_value){.real = v.counted > 0 ? v.sum / (double)v.counted : 0};
  if (v.row < 0) return (reference_value){.whole = -1};
  const int64_t plane = point[0] * r->d->size[1] + point[1];
  return (reference_value){.whole = (plane * w->data_size[0] + v.row) * w->data_size[1] + v.column};
}

static bool reaches(const compute_window_attributes *w, int i, int64_t window, int64_t place) {
  const int64_t from = place + w->padding[i] - window * w->stride[i];
  return from >= 0 && from % w->dilation[i] == 0 && from / w->dilation[i] < w->size[i];
}

/* The first window whose span, and the end of the windows whose first element, is not past a
 * place. */
static int64_t first_window(const compute_window_attributes *w, int i, int64_t place) {
  const int64_t before = place + w->padding[i] - (w->size[i] - 1) * w->dilation[i];
  return before > 0 ? before / w->stride[i] : 0;
}

static int64_t end_window(const compute_window_attributes *w, int i, int64_t place) {
  const int64_t end = (place + w->padding[i]) / w->stride[i] + 1;
  return end < w->result_size[i] ? end : w->result_size[i];
}

static double pool_gradient(const reference *r, const int64_t *point) {
  const compute_window_attributes *w = compute_window_of(r->d);
  const bool max = w->operation == COMPUTE_WINDOW_MAX;
  double sum = 0;
  for (int64_t p = first_window(w, 0, point[2]); p < end_window(w, 0, point[2]); p++)
    for (int64_t q = first_window(w, 1, point[3]); q < end_window(w, 1, point[3]); q++) {
      if (!reaches(w, 0, p, point[2]) || !reaches(w, 1, q, point[3])) continue;
      const view v = look(r, point, p, q, max);
      const int64_t at[4] = {point[0], point[1], p, q};
      if (!max) sum += reference_at(r, 0, at, 4).real / (double)v.counted;
      if (max && v.row == point[2] && v.column == point[3]) sum += reference_at(r, 1, at, 4).real;
    }
  return sum;
}

static void windows(const reference *r) {
  const compute_window_attributes *w = compute_window_of(r->d);
  const bool real = reference_is_float(r->d->accumulate) && w->operation != COMPUTE_WINDOW_ARGMAX;
  reference_point point;
  if (!reference_begin(&point, r->d->size, 4)) return;
  do {
    const reference_value value =
        w->by_data ? (reference_value){.real = pool_gradient(r, point.at)} : pool(r, point.at);
    reference_finish(r, &point, &value, real ? COMPUTE_F64 : COMPUTE_I64,
                     kernel_operands_own(r->d));
  } while (reference_next(&point));
}

/* ---- SCAN ---------------------------------------------------------------------------------- */

static reference_value combine(const compute_kernel_descriptor *d, reference_value a,
                               reference_value b) {
  const bool sum = compute_scan_of(d)->combine == COMPUTE_COMBINE_SUM,
             prod = compute_scan_of(d)->combine == COMPUTE_COMBINE_PROD;
  const bool wins =
      compute_scan_of(d)->combine == COMPUTE_COMBINE_MAX
          ? b.real > a.real || (!reference_is_float(d->accumulate) && b.whole > a.whole)
          : b.real < a.real || (!reference_is_float(d->accumulate) && b.whole < a.whole);
  reference_value made = wins || (isnan(b.real) && !isnan(a.real)) ? b : a;
  if (sum) made.real = a.real + b.real;
  if (prod) made.real = a.real * b.real;
  if (sum) made.whole = (int64_t)((uint64_t)a.whole + (uint64_t)b.whole);
  if (prod) made.whole = (int64_t)((uint64_t)a.whole * (uint64_t)b.whole);
  if (d->accumulate == COMPUTE_I32) made.whole = (int32_t)made.whole;
  made.terms = a.terms + fabs(b.real);
  made.count = a.count + 1;
  return made;
}

static reference_value identity(const compute_kernel_descriptor *d) {
  const bool narrow = d->accumulate == COMPUTE_I32;
  switch (compute_scan_of(d)->combine) {
  case COMPUTE_COMBINE_SUM: return (reference_value){.real = 0};
  case COMPUTE_COMBINE_PROD: return (reference_value){.real = 1, .whole = 1};
  case COMPUTE_COMBINE_MAX:
    return (reference_value){.real = -INFINITY, .whole = narrow ? INT32_MIN : INT64_MIN};
  default: return (reference_value){.real = INFINITY, .whole = narrow ? INT32_MAX : INT64_MAX};
  }
}

static void scans(const reference *r) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  reference_point row;
  if (!reference_begin(&row, d->size, d->rank)) return;
  row.rank = last;
  do {
    reference_value folded = identity(d);
    for (int64_t i = 0; i < d->size[last]; i++) {
      row.at[last] = compute_scan_of(d)->reverse ? d->size[last] - 1 - i : i;
      const reference_value before = folded;
      folded = combine(d, folded, reference_at(r, 0, row.at, d->rank));
      reference_write(r, 0, row.at, compute_scan_of(d)->exclusive ? &before : &folded);
    }
  } while (reference_next(&row));
}

/* ---- TOP_K and SORT ------------------------------------------------------------------------ */

typedef struct ranked {
  reference_value value;
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

/* Sorts the rows of input 0, with `length` elements each. */
static bool ranks(const reference *r, int64_t length, bool smallest,
                  int (*compare)(const void *, const void *), uint32_t values, bool places) {
  const compute_kernel_descriptor *d = r->d;
  const int32_t last = d->rank - 1;
  reference_point row;
  if (!reference_begin(&row, d->size, d->rank)) return true;
  row.rank = last;
  ranked *sorted = malloc((size_t)(length + 1) * sizeof *sorted);
  if (!sorted) return false;
  do {
    for (row.at[last] = 0; row.at[last] < length; row.at[last]++)
      sorted[row.at[last]] = (ranked){reference_at(r, 0, row.at, d->rank), row.at[last],
                                      reference_is_float(d->inputs[0].dtype), smallest};
    qsort(sorted, (size_t)length, sizeof *sorted, compare);
    for (row.at[last] = 0; row.at[last] < d->size[last]; row.at[last]++) {
      const reference_value place = {.whole = sorted[row.at[last]].place};
      if (values) reference_write(r, 0, row.at, &sorted[row.at[last]].value);
      if (places) reference_write(r, values, row.at, &place);
    }
  } while (reference_next(&row));
  free(sorted);
  return true;
}

static bool sort(const reference *r) {
  const compute_sort_attributes *a = compute_sort_of(r->d);
  return ranks(r, r->d->size[r->d->rank - 1], !a->descending, compare_sorted, a->values,
               a->positions);
}

static bool top_k(const reference *r) {
  const compute_top_k_attributes *a = compute_top_k_of(r->d);
  return ranks(r, a->axis_size, a->smallest, compare_ranked, 0, true);
}

/* ---- ATTENTION ----------------------------------------------------------------------------- */

static double element(const reference *r, uint32_t input, const int64_t *point, int64_t i,
                      int64_t j) {
  int64_t at[COMPUTE_MAX_RANK];
  const int32_t rank = r->d->rank;
  for (int32_t k = 0; k < rank - 2; k++) at[k] = point[k];
  at[rank - 2] = i;
  at[rank - 1] = j;
  return reference_at(r, input, at, rank).real;
}

/* Computes the exponentials of a query's visible scores and returns their sum. `*size` becomes the
 * magnitude of the largest finite score. */
static double weigh(const reference *r, const int64_t *point, double *weight, int64_t seen,
                    double *size) {
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
    if (isfinite(weight[j])) *size = fmax(*size, fabs(weight[j]));
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
  reference_point row;
  if (!reference_begin(&row, d->size, d->rank)) return true;
  row.rank = column;
  double *weight = malloc((size_t)(a->keys + 1) * sizeof *weight);
  if (!weight) return false;
  do {
    int64_t seen = a->causal ? row.at[query] + 1 + a->keys - d->size[query] : a->keys;
    if (seen < 0) seen = 0;
    if (seen > a->keys) seen = a->keys;
    double size = 0;
    const double total = weigh(r, row.at, weight, seen, &size);
    for (row.at[column] = 0; row.at[column] < d->size[column]; row.at[column]++) {
      reference_value value = {.terms = size};
      for (int64_t j = 0; j < seen; j++)
        value.real += weight[j] * element(r, 2, row.at, j, row.at[column]);
      if (total != 0) value.real /= total;
      reference_write(r, 0, row.at, &value);
    }
  } while (reference_next(&row));
  free(weight);
  return true;
}

/* ---- RECURRENT ----------------------------------------------------------------------------- */

static double recurrent_read(void *user, recurrent_operand operand, int64_t i, int64_t j,
                             int64_t k) {
  const reference *r = user;
  const uint32_t input = (uint32_t)recurrent_input(compute_recurrent_of(r->d), operand);
  const reference_value value = reference_at(r, input, (int64_t[]){i, j, k}, 3);
  return reference_is_float(r->d->inputs[input].dtype) ? value.real : (double)value.whole;
}

static void recurrent_write(void *user, int64_t row, int64_t sequence, int64_t unit, double real) {
  const reference *r = user;
  const reference_value value = {.real = real};
  reference_write(r, 0, (int64_t[]){row, sequence, unit}, &value);
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

bool reference_network(const reference *r) {
  switch (r->d->kind) {
  case COMPUTE_KERNEL_WINDOW: windows(r); return true;
  case COMPUTE_KERNEL_SCAN: scans(r); return true;
  case COMPUTE_KERNEL_TOP_K: return top_k(r);
  case COMPUTE_KERNEL_SORT: return sort(r);
  case COMPUTE_KERNEL_ATTENTION: return attention(r);
  case COMPUTE_KERNEL_RECURRENT: return recurrent(r);
  default: return false;
  }
}
