/* SPDX-License-Identifier: MIT */
/* Reads the table of a command and selects the rows that the command uses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/command.h"
#include "programs/fit/expression.h"
#include "programs/fit/table.h"

#define FARTHEST 1e9 /* pixels; a number beyond, or NaN, is not a position */

/* The length of the name without its unit. */
static size_t base_length(const char *name) {
  const char *unit = strstr(name, " [");
  return unit ? (size_t)(unit - name) : strlen(name);
}

static int32_t find_column(const void *pointer, const char *name, size_t length) {
  const table *t = pointer;
  for (int32_t i = 0; i < t->count; i++)
    if (base_length(t->columns[i].name) == length && !strncmp(t->columns[i].name, name, length))
      return t->columns[i].rows ? -1 : i;
  return -1;
}

static const char *name_of(const void *pointer, int32_t index) {
  const table *t = pointer;
  return index < t->count ? t->columns[index].name : NULL;
}

typedef struct table_piece {
  const table *t;
  int64_t first;
  int32_t count;
} table_piece;

static void take_values(const void *pointer, int32_t index, double *values) {
  const table_piece *piece = pointer;
  const table *t = piece->t;
  const double *from = t->values + piece->first * t->stride + t->columns[index].first;
  for (int32_t i = 0; i < piece->count; i++) values[i] = from[i * t->stride];
}

/* Clears `keep` for the rows that do not meet the condition. */
static void apply_condition(const table *t, const expression *where, bool *keep) {
  double holds[EXPRESSION_MOST_ROWS];
  table_piece piece = {.t = t};
  for (; piece.first < t->rows; piece.first += EXPRESSION_MOST_ROWS) {
    piece.count = t->rows - piece.first < EXPRESSION_MOST_ROWS ? (int32_t)(t->rows - piece.first)
                                                               : EXPRESSION_MOST_ROWS;
    expression_evaluate(where, piece.count, take_values, &piece, holds);
    for (int32_t i = 0; i < piece.count; i++)
      if (!(holds[i] != 0 && holds[i] == holds[i])) keep[piece.first + i] = false;
  }
}

static void apply_part(const fit_arguments *a, const spots *s, bool *keep) {
  const double *r = a->region.value;
  for (int64_t i = 0; i < s->count; i++) {
    if (!(fabs(s->x[i]) < FARTHEST && fabs(s->y[i]) < FARTHEST)) keep[i] = false;
    if (option_given(&a->line, "--frames") &&
        ((double)s->frame[i] < a->frame_range.low || (double)s->frame[i] > a->frame_range.high))
      keep[i] = false;
    if (a->region.count == 4 && !(s->x[i] >= r[0] - 0.5 && s->x[i] < r[0] + r[2] - 0.5 &&
                                  s->y[i] >= r[1] - 0.5 && s->y[i] < r[1] + r[3] - 0.5))
      keep[i] = false;
  }
}

static void compact(const bool *keep, table *t, spots *s) {
  int64_t to = 0;
  for (int64_t i = 0; i < t->rows; i++) {
    if (!keep[i]) continue;
    memmove(t->values + to * t->stride, t->values + i * t->stride,
            (size_t)t->stride * sizeof *t->values);
    s->frame[to] = s->frame[i];
    s->x[to] = s->x[i];
    s->y[to] = s->y[i];
    if (s->std_x) s->std_x[to] = s->std_x[i];
    if (s->std_y) s->std_y[to] = s->std_y[i];
    if (s->z) s->z[to] = s->z[i];
    if (s->std_z) s->std_z[to] = s->std_z[i];
    to++;
  }
  t->rows = s->count = to;
}

static int select_rows(const fit_arguments *a, table *t, spots *s) {
  const expression_names names = {t, find_column, name_of};
  failure why = {0};
  expression *where = NULL;
  if (a->where && expression_parse(a->where, &names, &where, &why)) {
    fit_say("--where: %s", why.what);
    fit_say_remedy(why.remedy);
    return EXIT_USAGE;
  }
  bool *keep = malloc((size_t)t->rows + 1);
  if (keep) {
    memset(keep, 1, (size_t)t->rows + 1);
    if (where) apply_condition(t, where, keep);
    apply_part(a, s, keep);
    compact(keep, t, s);
  } else {
    fit_say("out of memory for the table");
  }
  const int result = keep ? EXIT_GOOD : EXIT_FAILED;
  free(keep);
  free(where);
  return result;
}

int spots_open(const fit_arguments *a, table *t, spots *s) {
  failure why = {0};
  *t = (table){0};
  *s = (spots){0};
  if (!a->line.operand) {
    fit_say("%s needs a table: a .csv, .hdf5 or .npy file that fit has written",
            option_command_name(&a->line));
    return EXIT_USAGE;
  }
  if (a->region.count != 0 && a->region.count != 4) {
    fit_say("--region: X,Y,WIDTH,HEIGHT are four numbers");
    return EXIT_USAGE;
  }
  if (table_read(a->line.operand, t, &why) || spots_take(t, a->pixel_size, s, &why))
    return fit_say_failure(&why);
  return select_rows(a, t, s);
}
