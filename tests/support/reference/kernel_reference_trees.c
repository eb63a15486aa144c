/* SPDX-License-Identifier: MIT */
/* The reference of TREES: one walk for each row and tree, by the definition of the records. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/kernel_reference_kinds.h"

enum { X, NODES, TREES, VALUES };

static uint64_t word(const reference *r, int64_t at) {
  const int64_t point[2] = {0, at};
  return (uint64_t)reference_at(r, NODES, point, 2).whole;
}

static int64_t head(const reference *r, int64_t tree, int64_t at) {
  const int64_t point[2] = {0, tree * COMPUTE_TREES_HEAD + at};
  return reference_at(r, TREES, point, 2).whole;
}

typedef struct step {
  double threshold;
  int64_t column, left, leaf;
} step;

static step record(const reference *r, int64_t at) {
  step s;
  if (compute_trees_of(r->d)->words == 1) {
    const uint64_t w = word(r, at);
    const uint32_t bits = (uint32_t)w;
    float threshold;
    memcpy(&threshold, &bits, sizeof threshold);
    s = (step){(double)threshold, (int64_t)(w >> 32 & 0xffff), (int64_t)(w >> 48), bits & 0x3fffff};
  } else {
    const uint64_t w = word(r, 2 * at), rest = word(r, 2 * at + 1);
    memcpy(&s.threshold, &w, sizeof w);
    s.column = (int64_t)(rest & 0xffffffff);
    s.left = (int64_t)(rest >> 32);
    s.leaf = (int64_t)(w & 0xffffffff);
  }
  return s;
}

static double feature(const reference *r, int64_t row, int64_t column) {
  const int64_t features = compute_trees_of(r->d)->features;
  const int64_t point[2] = {row, column % features};
  const double x = reference_at(r, X, point, 2).real;
  return column >= features && isnan(x) ? -INFINITY : x;
}

/* The leaf that a row comes to. */
static int64_t walk(const reference *r, int64_t row, int64_t tree) {
  const int64_t base = head(r, tree, 0);
  int64_t at = 1;
  for (int64_t left = head(r, tree, 1); left > 0; left--) {
    const step s = record(r, base + at);
    at = feature(r, row, s.column) <= s.threshold ? s.left : s.left + 1;
  }
  return record(r, base + at).leaf;
}

static void combine(compute_combine how, double value, double *sum, double *terms) {
  if (how == COMPUTE_COMBINE_SUM)
    *sum += value;
  else if (isnan(*sum) || (how == COMPUTE_COMBINE_MIN ? value < *sum : value > *sum))
    *sum = value;
  *terms += fabs(value);
}

void reference_trees(const reference *r) {
  const compute_trees_attributes *a = compute_trees_of(r->d);
  const int64_t targets = r->d->size[1];
  for (int64_t row = 0; row < r->d->size[0]; row++)
    for (int64_t target = 0; target < targets; target++) {
      double sum = a->combine == COMPUTE_COMBINE_SUM ? 0 : (double)NAN, terms = 0;
      for (int64_t tree = 0; tree < a->trees; tree++) {
        const int64_t own = head(r, tree, 2);
        if (own >= 0 && own != target) continue;
        const int64_t leaf = walk(r, row, tree), first = head(r, tree, 3);
        const int64_t at[2] = {0, own >= 0 ? first + leaf : first + leaf * targets + target};
        combine(a->combine, reference_at(r, VALUES, at, 2).real, &sum, &terms);
      }
      const int64_t at[COMPUTE_MAX_RANK] = {row, target};
      const reference_value value = {
          .real = isnan(sum) && a->combine != COMPUTE_COMBINE_SUM ? 0 : sum, .terms = terms};
      r->write(r->user, 0, at, COMPUTE_F64, &value);
    }
}
