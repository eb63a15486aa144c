/* SPDX-License-Identifier: MIT */
/* The reference of CONV by its definition in compute/backend.h: one loop over all products, in
 * double or in integers that wrap. */
#include "support/reference/kernel_reference_kinds.h"

#include <math.h>
#include <string.h>

typedef enum role { DATA, FILTER, RESULT } role;

/* The role of input 0 or 1; 2 gives the role of the space. */
static role role_of(compute_convolution_direction direction, uint32_t operand) {
  static const role roles[3][3] = {
      [COMPUTE_CONVOLUTION_FORWARD] = {DATA, FILTER, RESULT},
      [COMPUTE_CONVOLUTION_BY_DATA] = {RESULT, FILTER, DATA},
      [COMPUTE_CONVOLUTION_BY_FILTER] = {DATA, RESULT, FILTER},
  };
  return roles[direction][operand];
}

/* Adds x[at x]·w[at w]·y[at y] without the direction's result factor. */
static void add_product(const reference *r, const int64_t at[3][4], reference_value *sum) {
  reference_value factor[2];
  for (uint32_t i = 0; i < 2; i++) {
    const int64_t *place = at[role_of(compute_conv_of(r->d)->direction, i)];
    factor[i] = reference_at(r, i, place, 4);
  }
  sum->real += factor[0].real * factor[1].real;
  sum->terms += fabs(factor[0].real * factor[1].real);
  const uint64_t product = (uint64_t)factor[0].whole * (uint64_t)factor[1].whole;
  sum->whole = (int64_t)((uint64_t)sum->whole + product);
  sum->count++;
}

/* The only result along axis `i` that reads `place` through a tap; false if there is none. */
static bool find_result(const compute_conv_attributes *v, int i, int64_t place, int64_t tap,
                        int64_t *low, int64_t *high) {
  const int64_t from = place + v->padding[i] - tap * v->dilation[i];
  *low = from / v->stride[i];
  *high = *low + 1;
  return from >= 0 && from % v->stride[i] == 0 && *low < v->result_size[i];
}

/* Sums all products of one element of the definition. The loops over indices fixed by the point
 * have one step. */
static reference_value sum_of(const reference *r, const int64_t point[4]) {
  const compute_conv_attributes *v = compute_conv_of(r->d);
  const role result = role_of(v->direction, 2);
  const int64_t per_group = v->data_channels / v->groups;
  const int64_t results_per_group = v->result_channels / v->groups;
  /* n, o, c within the group, r, s, p, q */
  int64_t low[7] = {0};
  int64_t high[7] = {v->batch,          v->result_channels, per_group,        v->filter_size[0],
                     v->filter_size[1], v->result_size[0],  v->result_size[1]};
  int64_t group = 0;
  static const int fixed[3][4] = {
      [DATA] = {0, 2, -1, -1}, [FILTER] = {1, 2, 3, 4}, [RESULT] = {0, 1, 5, 6}};
  for (int i = 0; i < 4; i++) {
    const int index = fixed[result][i];
    if (index < 0) continue;
    int64_t at = point[i];
    if (result == DATA && i == 1) {
      group = at / per_group;
      at %= per_group;
      low[1] = group * results_per_group;
      high[1] = low[1] + results_per_group;
    }
    low[index] = at;
    high[index] = at + 1;
  }
  reference_value sum = {0};
  for (int64_t n = low[0]; n < high[0]; n++)
    for (int64_t o = low[1]; o < high[1]; o++)
      for (int64_t c = low[2]; c < high[2]; c++)
        for (int64_t f = low[3]; f < high[3]; f++)
          for (int64_t s = low[4]; s < high[4]; s++) {
            if (result == DATA && !(find_result(v, 0, point[2], f, &low[5], &high[5]) &&
                                    find_result(v, 1, point[3], s, &low[6], &high[6])))
              continue;
            for (int64_t p = low[5]; p < high[5]; p++)
              for (int64_t q = low[6]; q < high[6]; q++) {
                const int64_t h = p * v->stride[0] + f * v->dilation[0] - v->padding[0];
                const int64_t w = q * v->stride[1] + s * v->dilation[1] - v->padding[1];
                if (h < 0 || h >= v->data_size[0] || w < 0 || w >= v->data_size[1]) continue;
                const int64_t channel = per_group * (o / results_per_group) + c;
                const int64_t at[3][4] = {{n, channel, h, w}, {o, c, f, s}, {n, o, p, q}};
                add_product(r, at, &sum);
              }
          }
  return sum;
}

/* The largest sum of the block that is pooled to one element. */
static reference_value largest_of(const reference *r, const int64_t point[4]) {
  const int64_t pool = compute_conv_of(r->d)->pool;
  if (pool == 0) return sum_of(r, point);
  reference_value largest = {.real = -INFINITY};
  for (int64_t i = 0; i < pool * pool; i++) {
    const int64_t at[4] = {point[0], point[1], point[2] * pool + i / pool,
                           point[3] * pool + i % pool};
    const reference_value one = sum_of(r, at);
    const double terms = fmax(one.terms, largest.terms);
    if (one.real > largest.real) largest = one;
    largest.terms = terms;
  }
  return largest;
}

void reference_convolution(const reference *r) {
  const compute_dtype accumulate = r->d->accumulate;
  const bool real = reference_is_float(accumulate);
  reference_point point;
  if (!reference_begin(&point, r->d->size, 4)) return;
  do {
    reference_value sum = largest_of(r, point.at);
    if (!real) sum.whole = reference_fit(accumulate, sum).whole;
    reference_finish(r, &point, &sum, real ? COMPUTE_F64 : accumulate, 2);
  } while (reference_next(&point));
}
