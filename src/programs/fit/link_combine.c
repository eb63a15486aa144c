/* SPDX-License-Identifier: MIT */
/* Combines each group into one row. A table has the rule for each column. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/link.h"

typedef enum combining {
  TAKE_FIRST,
  TAKE_MEAN,
  TAKE_WEIGHTED,  /* mean, weighted by 1/variance */
  TAKE_PRECISION, /* uncertainty of a weighted mean */
  TAKE_SUM,
  TAKE_ROOT,      /* root of the sum of squares: uncertainty of a sum */
  TAKE_MEAN_ROOT, /* uncertainty of a mean */
  TAKE_LEAST,
  TAKE_MOST
} combining;

static const struct {
  const char *name; /* without its unit */
  combining how;
  const char *stds[4]; /* for TAKE_WEIGHTED: the first existing one is used */
} rules[] = {
    {"id", TAKE_FIRST, {NULL}},
    {"roi", TAKE_FIRST, {NULL}},
    {"frame", TAKE_FIRST, {NULL}},
    {"roi_row", TAKE_FIRST, {NULL}},
    {"roi_column", TAKE_FIRST, {NULL}},
    {"x", TAKE_WEIGHTED, {"x_std", "lpx", "uncertainty_x", "uncertainty_xy"}},
    {"y", TAKE_WEIGHTED, {"y_std", "lpy", "uncertainty_y", "uncertainty_xy"}},
    {"z", TAKE_WEIGHTED, {"z_std", "lpz", "uncertainty_z"}},
    {"x_std", TAKE_PRECISION, {NULL}},
    {"y_std", TAKE_PRECISION, {NULL}},
    {"z_std", TAKE_PRECISION, {NULL}},
    {"lpx", TAKE_PRECISION, {NULL}},
    {"lpy", TAKE_PRECISION, {NULL}},
    {"lpz", TAKE_PRECISION, {NULL}},
    {"uncertainty_x", TAKE_PRECISION, {NULL}},
    {"uncertainty_y", TAKE_PRECISION, {NULL}},
    {"uncertainty_z", TAKE_PRECISION, {NULL}},
    {"uncertainty_xy", TAKE_PRECISION, {NULL}},
    {"photons", TAKE_SUM, {NULL}},
    {"intensity", TAKE_SUM, {NULL}},
    {"photons_std", TAKE_ROOT, {NULL}},
    {"uncertainty_intensity", TAKE_ROOT, {NULL}},
    {"background_std", TAKE_MEAN_ROOT, {NULL}},
    {"bg_std", TAKE_MEAN_ROOT, {NULL}},
    {"uncertainty_offset", TAKE_MEAN_ROOT, {NULL}},
    {"sigma_std", TAKE_MEAN_ROOT, {NULL}},
    {"sigma_x_std", TAKE_MEAN_ROOT, {NULL}},
    {"sigma_y_std", TAKE_MEAN_ROOT, {NULL}},
    {"sx_std", TAKE_MEAN_ROOT, {NULL}},
    {"sy_std", TAKE_MEAN_ROOT, {NULL}},
    {"uncertainty_sigma", TAKE_MEAN_ROOT, {NULL}},
    {"uncertainty_sigma1", TAKE_MEAN_ROOT, {NULL}},
    {"uncertainty_sigma2", TAKE_MEAN_ROOT, {NULL}},
    {"log_likelihood_ratio", TAKE_SUM, {NULL}},
    {"log_likelihood", TAKE_SUM, {NULL}},
    {"significance", TAKE_ROOT, {NULL}},
    {"saturated", TAKE_SUM, {NULL}},
    {"detections", TAKE_SUM, {NULL}},
    {"length", TAKE_SUM, {NULL}},
    {"n", TAKE_SUM, {NULL}},
    {"len", TAKE_SUM, {NULL}},
    {"p_value", TAKE_LEAST, {NULL}},
    {"p_raw", TAKE_LEAST, {NULL}},
    {"iterations", TAKE_MOST, {NULL}},
    {"status", TAKE_MOST, {NULL}},
};

/* The rule of a column, and the place of its uncertainty in a row; −1: none. */
typedef struct plan {
  combining how;
  int32_t from, values, std;
} plan;

static plan plan_of(const table *t, const table_column *c) {
  plan p = {TAKE_MEAN, c->first, c->rows ? c->rows * c->columns : 1, -1};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (table_find(t, rules[i].name) != c) continue;
    p.how = rules[i].how;
    for (int k = 0; k < 4 && p.std < 0 && rules[i].stds[k]; k++) {
      const table_column *std = table_find(t, rules[i].stds[k]);
      if (std) p.std = std->first;
    }
    return p;
  }
  return p;
}

/* Returns 1/variance, or 0 if there is none. */
static double weight_of(double std) {
  const double weight = 1 / (std * std);
  return std > 0 && isfinite(weight) ? weight : 0;
}

/* Adds one value of a group with its weight. */
static void add_value(combining how, double value, double share, double *to, double *weight) {
  switch (how) {
  case TAKE_FIRST: break;
  case TAKE_MEAN:
  case TAKE_SUM: *to += value; break;
  case TAKE_ROOT:
  case TAKE_MEAN_ROOT: *to += value * value; break;
  case TAKE_LEAST: *to = fmin(*to, value); break;
  case TAKE_MOST: *to = fmax(*to, value); break;
  case TAKE_PRECISION: *weight += share; break;
  case TAKE_WEIGHTED:
    *weight += share;
    if (share > 0) *to += (value - *to) * share / *weight;
    break;
  }
}

static double finished(combining how, double value, double weight, double count) {
  switch (how) {
  case TAKE_MEAN: return value / count;
  case TAKE_ROOT: return sqrt(value);
  case TAKE_MEAN_ROOT: return sqrt(value) / count;
  case TAKE_PRECISION: return weight > 0 ? 1 / sqrt(weight) : value;
  default: return value;
  }
}

/* Returns true if a member of the group has an uncertainty. Only members with one then count.
 * Otherwise all members count equally. */
static bool has_weights(const table *t, const int64_t *members, int64_t count, int32_t place) {
  for (int64_t m = 0; m < count; m++)
    if (weight_of(t->values[members[m] * t->stride + place]) > 0) return true;
  return false;
}

/* Combines one value of a row. If no member has an uncertainty, the result has the uncertainty of
 * the first member: NaN, or 0. */
static double combine_value(const table *t, const plan *p, int32_t place, const int64_t *members,
                            int64_t count) {
  const int32_t std = p->how == TAKE_PRECISION ? place : p->std;
  const bool alike = p->how != TAKE_PRECISION && (std < 0 || !has_weights(t, members, count, std));
  const bool starts = p->how == TAKE_FIRST || p->how == TAKE_LEAST || p->how == TAKE_MOST ||
                      p->how == TAKE_PRECISION;
  double value = starts ? t->values[members[0] * t->stride + place] : 0, weight = 0;
  for (int64_t m = 0; m < count; m++) {
    const double *row = t->values + members[m] * t->stride;
    add_value(p->how, row[place], alike ? 1 : weight_of(row[std]), &value, &weight);
  }
  return finished(p->how, value, weight, (double)count);
}

/* Combines the members of a group, which are sorted by frame. */
static void combine_group(const table *t, const plan *plans, const int64_t *members, int64_t count,
                          double *row) {
  for (int32_t i = 0; i < t->count; i++)
    for (int32_t place = plans[i].from; place < plans[i].from + plans[i].values; place++)
      row[place] = combine_value(t, &plans[i], place, members, count);
}

typedef struct member {
  int64_t group, frame, index;
} member;

static int compare_members(const void *a, const void *b) {
  const member *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->frame != y->frame) return x->frame < y->frame ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

/* Combines all groups. `counted`: the places of the two added columns if the table already has
 * them, or NULL. */
static void combine_all(const table *t, const spots *s, member *members, int64_t *order,
                        const int32_t *counted, table *linked) {
  plan plans[TABLE_MOST_COLUMNS];
  for (int32_t i = 0; i < t->count; i++) plans[i] = plan_of(t, &t->columns[i]);
  qsort(members, (size_t)t->rows, sizeof *members, compare_members);
  for (int64_t i = 0; i < t->rows; i++) order[i] = members[i].index;
  for (int64_t first = 0, end = 0, row = 0; first < t->rows; first = end, row++) {
    while (end < t->rows && members[end].group == members[first].group) end++;
    double *to = linked->values + row * linked->stride;
    combine_group(t, plans, order + first, end - first, to);
    const double *last = t->values + order[end - 1] * t->stride;
    if (!counted) to[linked->stride - 2] = (double)(end - first);
    to[counted ? counted[1] : linked->stride - 1] =
        (double)(s->frame[order[end - 1]] - s->frame[order[first]]) +
        (counted ? last[counted[1]] : 1);
  }
}

/* Averaged columns of integers become real. */
static void choose_types(table *linked) {
  for (int32_t i = 0; i < linked->count; i++) {
    table_column *c = &linked->columns[i];
    const combining how = plan_of(linked, c).how;
    const bool whole =
        how == TAKE_FIRST || how == TAKE_SUM || how == TAKE_LEAST || how == TAKE_MOST;
    if (!whole) table_make_real(c);
  }
}

compute_status link_combine(const table *t, const spots *s, const int64_t *group, int64_t groups,
                            table *linked, failure *why) {
  const bool picasso = t->format == RESULTS_HDF5;
  const char *const added[2] = {picasso ? "n" : "detections", picasso ? "len" : "length"};
  *linked = *t;
  linked->values = NULL;
  choose_types(linked);
  linked->history = t->history ? strdup(t->history) : NULL;
  compute_status status = COMPUTE_OK;
  const table_column *n = table_find(t, added[0]), *length = table_find(t, added[1]);
  const int32_t places[2] = {n ? n->first : 0, length ? length->first : 0};
  for (int i = 0; i < 2 && !status && !(n && length); i++)
    status = table_describe(linked, "the table", added[i], strlen(added[i]), TYPE_I32, why);
  if (!status) status = table_allocate(linked, "of groups", groups, why);
  member *members = malloc((size_t)(t->rows + 1) * sizeof *members);
  int64_t *order = malloc((size_t)(t->rows + 1) * sizeof *order);
  if (!status && (!members || !order))
    status = failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the groups");
  for (int64_t i = 0; i < t->rows && !status; i++) members[i] = (member){group[i], s->frame[i], i};
  if (!status) combine_all(t, s, members, order, n && length ? places : NULL, linked);
  free(members);
  free(order);
  return status;
}
