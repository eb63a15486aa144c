/* What stands in rows: values from the arrays of results, and the rows as records or lines. A
 * column is taken at a time, for many rows. */
#include "tools/fit/columns.h"

#include <math.h>
#include <string.h>

#include "tools/fit/number_text.h"

/* ---- Values -------------------------------------------------------------------------------- */

/* Entry `at` of every row's `width` entries. */
static void take_f32(const column_rows *rows, const float *from, int32_t width, int32_t at,
                     double *values) {
  for (int32_t i = 0; i < rows->count; i++) {
    values[i] = (double)from[rows->index[i] * width + at];
  }
}

static void take_parameter(const column_set *set, const column_rows *rows, int32_t index,
                           double *values) {
  take_f32(rows, rows->results->parameters, set->parameters, index, values);
}

static void take_std(const column_set *set, const column_rows *rows, int32_t index,
                     double *values) {
  take_f32(rows, rows->results->std, set->parameters, index, values);
}

/* One of the three numbers of a corner; without corners `base` and, for the frame, the ROI. */
static void take_corner(const column_rows *rows, int32_t which, double *values) {
  for (int32_t i = 0; i < rows->count; i++) {
    int64_t at = rows->index[i], base = which == 0 ? rows->frame : 0;
    if (rows->corners)
      values[i] = (double)(base + rows->corners[3 * at + which]);
    else
      values[i] = which == 0 ? (double)(rows->roi + at) : 0;
  }
}

/* x or y (axis 0, 1) in the frame. */
static void take_position(const column_set *set, const column_rows *rows, int32_t axis,
                          double *values) {
  double corners[MAX_ROWS];
  take_corner(rows, axis == 0 ? 2 : 1, corners);
  take_parameter(set, rows, axis, values);
  for (int32_t i = 0; i < rows->count; i++) values[i] += corners[i];
}

/* Width along x (axis 0) or y (1), in pixels: as given, or by z. */
static void take_width(const column_set *set, const column_rows *rows, int axis, double *values) {
  const compute_fit_problem *p = &set->problem;
  bool by_z = p->model == COMPUTE_FIT_XYZNB;
  if (by_z) take_parameter(set, rows, 2, values);
  for (int32_t i = 0; i < rows->count; i++) {
    double t = by_z ? (axis == 0 ? values[i] - p->gamma : values[i] + p->gamma) / p->depth : 0;
    values[i] = p->sigma[axis] * sqrt(1 + t * t * (1 + t * (p->a[axis] + t * p->b[axis])));
  }
}

static void take_std_xy(const column_set *set, const column_rows *rows, double *values) {
  double y[MAX_ROWS];
  take_std(set, rows, 0, values);
  take_std(set, rows, 1, y);
  for (int32_t i = 0; i < rows->count; i++) {
    values[i] = sqrt((values[i] * values[i] + y[i] * y[i]) / 2);
  }
}

static void take_background_std(const column_set *set, const column_rows *rows, double *values) {
  const compute_fit_problem *p = &set->problem;
  double factor = p->camera == COMPUTE_FIT_EMCCD ? 2 : 1; /* the excess noise */
  double readout = p->camera == COMPUTE_FIT_SCMOS ? p->variance : 0;
  take_parameter(set, rows, p->model == COMPUTE_FIT_XYZNB ? 4 : 3, values);
  for (int32_t i = 0; i < rows->count; i++) values[i] = sqrt(factor * values[i] + readout);
}

static void take_raw(const column_set *set, const column *c, const column_rows *rows,
                     double *values) {
  const compute_fit_results *results = rows->results;
  switch (c->source) {
  case COLUMN_ROI:
    for (int32_t i = 0; i < rows->count; i++) values[i] = (double)(rows->roi + rows->index[i]);
    break;
  case COLUMN_FRAME: take_corner(rows, 0, values); break;
  case COLUMN_ROW: take_corner(rows, 1, values); break;
  case COLUMN_COLUMN: take_corner(rows, 2, values); break;
  case COLUMN_X: take_position(set, rows, 0, values); break;
  case COLUMN_Y: take_position(set, rows, 1, values); break;
  case COLUMN_PARAMETER: take_parameter(set, rows, c->index, values); break;
  case COLUMN_STD: take_std(set, rows, c->index, values); break;
  case COLUMN_WIDTH_X: take_width(set, rows, 0, values); break;
  case COLUMN_WIDTH_Y: take_width(set, rows, 1, values); break;
  case COLUMN_STD_XY: take_std_xy(set, rows, values); break;
  case COLUMN_BACKGROUND_STD: take_background_std(set, rows, values); break;
  case COLUMN_RATIO: take_f32(rows, results->ratio, 1, 0, values); break;
  case COLUMN_P_RAW: take_f32(rows, results->p_raw, 1, 0, values); break;
  case COLUMN_P_VALUE: take_f32(rows, results->p_value, 1, 0, values); break;
  case COLUMN_ITERATIONS:
    for (int32_t i = 0; i < rows->count; i++) values[i] = results->iterations[rows->index[i]];
    break;
  case COLUMN_STATUS:
    for (int32_t i = 0; i < rows->count; i++) values[i] = results->status[rows->index[i]];
    break;
  case COLUMN_COVARIANCE: break;
  }
}

void column_values(const column_set *set, const column *c, const column_rows *rows,
                   double *values) {
  take_raw(set, c, rows, values);
  if (c->offset == 0 && c->scale == 1) return;
  for (int32_t i = 0; i < rows->count; i++) values[i] = (values[i] + c->offset) * c->scale;
}

/* ---- Records ------------------------------------------------------------------------------- */

#define PUT_ALL(type)                                                                              \
  for (int32_t i = 0; i < count; i++, at += stride) {                                              \
    type value = (type)values[i];                                                                  \
    memcpy(at, &value, sizeof value);                                                              \
  }                                                                                                \
  break

static void put_values(column_type type, const double *values, int32_t count, unsigned char *at,
                       size_t stride) {
  switch (type) {
  case TYPE_I64: PUT_ALL(int64_t);
  case TYPE_I32: PUT_ALL(int32_t);
  case TYPE_U32: PUT_ALL(uint32_t);
  case TYPE_U8: PUT_ALL(uint8_t);
  case TYPE_F32: PUT_ALL(float);
  case TYPE_F64: PUT_ALL(double);
  }
}

static void put_matrices(const column_set *set, const column *c, const column_rows *rows,
                         unsigned char *at) {
  size_t elements = (size_t)(c->side * c->side);
  for (int32_t i = 0; i < rows->count; i++, at += set->record_bytes) {
    memcpy(at, rows->results->covariance + (size_t)rows->index[i] * elements, elements * 4);
  }
}

void columns_put_records(const column_set *set, const column_rows *rows, unsigned char *records) {
  double values[MAX_ROWS];
  for (int32_t i = 0; i < set->count; i++) {
    const column *c = &set->columns[i];
    if (c->side) {
      put_matrices(set, c, rows, records);
      records += 4 * (size_t)(c->side * c->side);
    } else {
      column_values(set, c, rows, values);
      put_values(c->type, values, rows->count, records, set->record_bytes);
      records += column_type_bytes(c->type);
    }
  }
}

/* ---- Lines --------------------------------------------------------------------------------- */

size_t columns_line_bytes(const column_set *set) {
  return (size_t)set->count * (NUMBER_TEXT_MOST + 1);
}

/* How a column's numbers are written. */
static int decimals_of(const column *c) {
  if (c->type != TYPE_F32 && c->type != TYPE_F64) return NUMBER_INTEGER;
  return c->decimals == COLUMN_SHORT ? NUMBER_SHORT : c->decimals;
}

/* Row by row, a number and what separates it from the next. Nearly all have 16 characters at most:
 * these are two moves, whatever their length. */
static char *join_cells(number_cell cells[][NUMBER_CELLS], int32_t columns, int32_t rows,
                        char *text) {
  for (int32_t i = 0; i < rows; i++) {
    for (int32_t j = 0; j < columns; j++) {
      const number_cell *cell = &cells[j][i];
      memcpy(text, cell->text, 16);
      if (cell->length > 16) memcpy(text + 16, cell->text + 16, cell->length - 16u);
      text += cell->length;
      *text++ = ',';
    }
    text[-1] = '\n';
  }
  return text;
}

char *columns_put_lines(const column_set *set, const column_rows *rows, char *text) {
  number_cell cells[MAX_COLUMNS][NUMBER_CELLS];
  double values[MAX_ROWS];
  for (int32_t first = 0; first < rows->count; first += NUMBER_CELLS) {
    column_rows some = {rows->results, rows->corners, rows->roi, rows->frame, 0, {0}};
    some.count = rows->count - first < NUMBER_CELLS ? rows->count - first : NUMBER_CELLS;
    memcpy(some.index, rows->index + first, (size_t)some.count * sizeof *some.index);
    for (int32_t j = 0; j < set->count; j++) {
      column_values(set, &set->columns[j], &some, values);
      number_cells(values, some.count, decimals_of(&set->columns[j]), cells[j]);
    }
    text = join_cells(cells, set->count, some.count, text);
  }
  return text;
}

char *columns_put_heading(const column_set *set, char *text) {
  for (int32_t i = 0; i < set->count; i++) {
    size_t length = strlen(set->columns[i].name);
    if (i > 0) *text++ = ',';
    *text++ = '"';
    memcpy(text, set->columns[i].name, length);
    text += length;
    *text++ = '"';
  }
  *text++ = '\n';
  return text;
}
