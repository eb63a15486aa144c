/* SPDX-License-Identifier: MIT */
/* Converts positions and frames of a table to one convention. */
#include <math.h>
#include <stdlib.h>

#include "programs/fit/table.h"

void spots_release(spots *s) {
  free(s->frame);
  free(s->x);
  free(s->y);
  free(s->std_x);
  free(s->std_y);
  free(s->z);
  free(s->std_z);
  *s = (spots){0};
}

/* ---- Conventions --------------------------------------------------------------------------- */

/* A .csv counts frames from 1 and measures from the corner of the first pixel (columns.c). */
static double frame_offset(const table *t) {
  return t->format == RESULTS_CSV ? 1 : 0;
}

static double position_offset(const table *t) {
  return t->format == RESULTS_CSV ? 0.5 : 0;
}

static double unit_of(const spots *s, const table *t) {
  return table_in_nm(t) ? s->pixel_size : 1;
}

/* Heights are in micrometres, as in the calibration, in a .npy, and in nm in other formats. */
static double height_unit(const table *t) {
  return t->format == RESULTS_NPY ? 1e-3 : 1;
}

/* The column with the first of these names that the table has. */
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

/* Heights, if the table has them. */
static bool take_heights(const table *t, spots *s) {
  static const char *const stds[] = {"z_std", "lpz", "uncertainty_z", NULL};
  const table_column *z = table_find(t, "z"), *std = find_any(t, stds);
  if (!z) return true;
  s->z = take_column(t, z, height_unit(t), 0);
  if (std) s->std_z = take_column(t, std, height_unit(t), 0);
  return s->z && (!std || s->std_z);
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
  const bool heights = take_heights(t, s);
  if (!status &&
      (!heights || !s->frame || !s->x || !s->y || (std_x && std_y && (!s->std_x || !s->std_y))))
    status = failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory for the table");
  return status;
}

void spots_move(const spots *s, const double *moves, table *t) {
  const table_column *moved[3] = {table_find(t, "x"), table_find(t, "y"), table_find(t, "z")};
  const double units[3] = {unit_of(s, t), unit_of(s, t), height_unit(t)};
  for (int axis = 0; axis < 3; axis++) {
    const table_column *c = moved[axis];
    if (!c) continue;
    table_make_real(&t->columns[c - t->columns]);
    for (int64_t i = 0; i < t->rows; i++)
      t->values[i * t->stride + c->first] += moves[3 * i + axis] * units[axis];
  }
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of the positive numbers in one or two columns. */
static double median_of(const double *first, const double *second, int64_t rows) {
  double *all = first ? malloc((size_t)(2 * rows + 1) * sizeof *all) : NULL;
  int64_t count = 0;
  for (int64_t i = 0; all && i < rows; i++) {
    if (first[i] > 0) all[count++] = first[i];
    if (second && second[i] > 0) all[count++] = second[i];
  }
  if (count > 0) qsort(all, (size_t)count, sizeof *all, compare_doubles);
  const double median = count > 0 ? all[count / 2] : 0;
  free(all);
  return median;
}

double spots_median_std(const spots *s) {
  return median_of(s->std_x, s->std_y, s->count);
}

double spots_median_std_z(const spots *s) {
  return median_of(s->std_z, NULL, s->count);
}
