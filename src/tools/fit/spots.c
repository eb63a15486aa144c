/* SPDX-License-Identifier: MIT */
/* Positions and frames of a table in one convention, and the rows that a command works on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fit/command.h"
#include "tools/fit/expression.h"
#include "tools/fit/table.h"

void spots_release(spots *s) {
  free(s->frame);
  free(s->x);
  free(s->y);
  free(s->std_x);
  free(s->std_y);
  *s = (spots){0};
}

/* ---- Conventions --------------------------------------------------------------------------- */

/* A .csv has the first frame 1 and measures from the corner of the first pixel (columns.c). */
static double frame_offset(const table *t) {
  return t->format == RESULTS_CSV ? 1 : 0;
}

static double position_offset(const table *t) {
  return t->format == RESULTS_CSV ? 0.5 : 0;
}

static double unit_of(const spots *s, const table *t) {
  return table_in_nm(t) ? s->pixel_size : 1;
}

/* The first of the names that the table has. */
static const table_column *find_any(const table *t, const char *const *names) {
  const table_column *found = NULL;
  for (; *names && !found; names++) found = table_find(t, *names);
  return found;
}

static double *take_column(const table *t, const table_column *c, double unit, double offset) {
  double *values = malloc((size_t)(t->rows + 1) * sizeof *values);
  for (int64_t i = 0; values && i < t->rows; i++)
    values[i] = t->values[i * t->stride + c->first] / unit - offset;
  return values;
}

static compute_status take_frames(const table *t, const table_column *c, spots *s, failure *why) {
  s->frame = malloc((size_t)(t->rows + 1) * sizeof *s->frame);
  for (int64_t i = 0; s->frame && i < t->rows; i++) {
    const double frame = t->values[i * t->stride + c->first] - frame_offset(t);
    if (!(frame >= 0 && frame < 1e12))
      return failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "row %lld of the table: invalid frame",
                         (long long)i + 1);
    s->frame[i] = (int64_t)frame;
    if (s->frame[i] >= s->frames) s->frames = s->frame[i] + 1;
  }
  return COMPUTE_OK;
}

compute_status spots_take(const table *t, double pixel_size, spots *s, failure *why) {
  static const char *const stds_x[] = {"x_std", "lpx", "uncertainty_x", "uncertainty_xy", NULL};
  static const char *const stds_y[] = {"y_std", "lpy", "uncertainty_y", "uncertainty_xy", NULL};
  const table_column *frame = table_find(t, "frame"), *x = table_find(t, "x"),
                     *y = table_find(t, "y"), *std_x = find_any(t, stds_x),
                     *std_y = find_any(t, stds_y);
  *s = (spots){.count = t->rows, .pixel_size = pixel_size};
  if (!frame || !x || !y)
    return failure_set(why, COMPUTE_ERROR_FORMAT, "the table must be one of compute-fit fit",
                       "the table has no column '%s'",
                       !frame ? "frame"
                       : !x   ? "x"
                              : "y");
  if (!(s->pixel_size > 0)) s->pixel_size = table_number_of_history(t, "Pixelsize");
  if (table_in_nm(t) && !(s->pixel_size > 0))
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, "give --pixel-size",
                       "the table's lengths are in nm");
  const double unit = unit_of(s, t);
  compute_status status = take_frames(t, frame, s, why);
  s->x = take_column(t, x, unit, position_offset(t));
  s->y = take_column(t, y, unit, position_offset(t));
  if (std_x && std_y) s->std_x = take_column(t, std_x, unit, 0);
  if (std_x && std_y) s->std_y = take_column(t, std_y, unit, 0);
  if (!status && (!s->frame || !s->x || !s->y || (std_x && std_y && (!s->std_x || !s->std_y))))
    status = failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the table");
  return status;
}

void spots_put(const spots *s, table *t) {
  const table_column *x = table_find(t, "x"), *y = table_find(t, "y");
  const double unit = unit_of(s, t), offset = position_offset(t);
  table_make_real(&t->columns[x - t->columns]);
  table_make_real(&t->columns[y - t->columns]);
  for (int64_t i = 0; i < t->rows; i++) {
    t->values[i * t->stride + x->first] = (s->x[i] + offset) * unit;
    t->values[i * t->stride + y->first] = (s->y[i] + offset) * unit;
  }
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double spots_median_std(const spots *s) {
  double *all = s->std_x ? malloc((size_t)(2 * s->count + 1) * sizeof *all) : NULL;
  int64_t count = 0;
  for (int64_t i = 0; all && i < s->count; i++) {
    if (s->std_x[i] > 0) all[count++] = s->std_x[i];
    if (s->std_y[i] > 0) all[count++] = s->std_y[i];
  }
  if (count > 0) qsort(all, (size_t)count, sizeof *all, compare_doubles);
  const double median = count > 0 ? all[count / 2] : 0;
  free(all);
  return median;
}

/* ---- Selecting ----------------------------------------------------------------------------- */

/* The name without its unit. */
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

/* Clears `keep` where the condition does not hold. */
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
    if (!isfinite(s->x[i]) || !isfinite(s->y[i])) keep[i] = false;
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
    if (why.remedy[0]) fprintf(stderr, "  %s\n", why.remedy);
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
