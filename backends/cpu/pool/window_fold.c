/* SPDX-License-Identifier: MIT */
/* Folds a unit of windows: a row tile of results, with some of their columns, of one image and one
 * group of channels.
 *
 * Mostly one loop folds all rows of a unit (fold_maxima, fold_sums): it pads lines instead of
 * treating their ends separately, and short lines share vectors and calls. Otherwise each row takes
 * a call for the rows of its windows, one for the columns, and one for each column at the edge. */
#include <string.h>

#include "window.h"

typedef void (*fold_loop)(void *result, const void *source, int64_t count, int64_t step,
                          int64_t taps, int64_t tap_step, int64_t lanes);

static fold_loop loop_of(const cpu_window *kernel) {
  return kernel->shape.operation == COMPUTE_WINDOW_MAX ? kernel->loops->maximum
                                                       : kernel->loops->sum;
}

/* The least integer of a dtype. */
static int64_t least_of(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_I8: return INT8_MIN;
  case COMPUTE_I16: return INT16_MIN;
  case COMPUTE_I32: return INT32_MIN;
  case COMPUTE_I64: return INT64_MIN;
  default: return 0;
  }
}

/* Stores the fold of no elements. */
static void clear(const cpu_window *kernel, unsigned char *values, int64_t count) {
  if (kernel->shape.operation == COMPUTE_WINDOW_AVERAGE) {
    memset(values, 0, (size_t)(count * kernel->element));
    return;
  }
  const int64_t least = least_of(kernel->input[0].dtype);
  if (kernel->element == 1) {
    memset(values, (int)least, (size_t)count);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    switch (kernel->type) {
    case COMPUTE_F64: ((double *)(void *)values)[i] = -__builtin_inf(); break;
    case COMPUTE_F32: ((float *)(void *)values)[i] = -__builtin_inff(); break;
    case COMPUTE_I64: ((int64_t *)(void *)values)[i] = least; break;
    default: ((int32_t *)(void *)values)[i] = (int32_t)least; break;
    }
  }
}

/* Folds a single result column near the edge. `line` begins at data column `left`. */
static void fold_column(const cpu_window *kernel, int64_t q, const unsigned char *line,
                        int64_t left, unsigned char *to) {
  const compute_window_attributes *w = &kernel->shape;
  int64_t first, end;
  window_taps(w, 1, q, &first, &end);
  if (first == end) {
    clear(kernel, to, kernel->lanes);
    return;
  }
  const int64_t at = q * w->stride[1] - w->padding[1] + first * w->dilation[1] - left;
  loop_of(kernel)(to, line + at * kernel->lanes * kernel->element, 1, 1, end - first,
                  w->dilation[1], kernel->lanes);
}

static void fold_columns(const cpu_window *kernel, const window_unit *unit,
                         const unsigned char *line, int64_t left, unsigned char *to) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t bytes = kernel->lanes * kernel->element, last = unit->column + unit->columns;
  const int64_t inside = cpu_min(cpu_max(kernel->first_inside, unit->column), last);
  const int64_t end = cpu_max(cpu_min(kernel->end_inside, last), inside);
  for (int64_t q = unit->column; q < inside; q++)
    fold_column(kernel, q, line, left, to + (q - unit->column) * bytes);
  if (end > inside) {
    const int64_t at = inside * w->stride[1] - w->padding[1] - left;
    loop_of(kernel)(to + (inside - unit->column) * bytes, line + at * bytes, end - inside,
                    w->stride[1], w->size[1], w->dilation[1], kernel->lanes);
  }
  for (int64_t q = end; q < last; q++)
    fold_column(kernel, q, line, left, to + (q - unit->column) * bytes);
}

/* ---- All rows of a unit at once -------------------------------------------------------------- */

enum {
  STAGED = 2048,       /* elements of padded lines, which stay in the level-1 cache */
  SPARSE = 2,          /* strides of more than so many windows: a line would be read in vain */
  MOST_PADDING = 64,   /* elements besides three times the data */
  MOST_WINDOWS = 65536 /* along a dimension: each row has an entry in a table */
};

/* `true` if every window of dimension d contains data. */
static bool has_data(const compute_window_attributes *w, int d, int64_t results) {
  int64_t first, end;
  for (int64_t i = 0; i < results; i++) {
    window_taps(w, d, i, &first, &end);
    if (first == end) return false;
  }
  return true;
}

static bool may_pad(const cpu_window *kernel, int64_t positions) {
  const compute_window_attributes *w = &kernel->shape;
  return kernel->loops->fold_maxima && !w->by_data && w->operation != COMPUTE_WINDOW_ARGMAX &&
         (kernel->merged || kernel->size[2] <= MOST_WINDOWS) && kernel->size[3] <= MOST_WINDOWS &&
         !kernel->halves_short && positions <= 4 * w->data_size[1] + MOST_PADDING &&
         (kernel->columns == 1 || w->stride[1] == 1 ||
          (kernel->lanes == 1 && w->stride[1] <= SPARSE * w->size[1])) &&
         (kernel->merged || has_data(w, 0, kernel->size[2])) && has_data(w, 1, kernel->size[3]);
}

/* Elements between planes, if all are evenly spaced; else 0. */
static int64_t plane_step(const cpu_window *kernel, const window_operand *o) {
  if (kernel->size[1] == 1) return o->stride[0];
  return kernel->size[0] == 1 || o->stride[0] == kernel->size[1] * o->stride[1] ? o->stride[1] : 0;
}

/* Small planes share a unit, if their results need no epilogue. */
static void share_units(cpu_window *kernel) {
  const int64_t planes = kernel->size[0] * kernel->groups;
  const int64_t fit = STAGED / (kernel->fold_pitch * kernel->size[2]);
  kernel->source_plane = plane_step(kernel, &kernel->input[0]);
  kernel->result_plane = plane_step(kernel, &kernel->output[0]);
  if (kernel->bands > 1 || kernel->chunks > 1 || kernel->lanes > 1 || !kernel->input[0].direct ||
      !kernel->in_place || !kernel->source_plane || !kernel->result_plane)
    return;
  kernel->planes = cpu_max(1, cpu_min(fit, cpu_divide_up(planes, kernel->tasks)));
  kernel->units = cpu_divide_up(planes, kernel->planes);
  kernel->per_task = cpu_divide_up(kernel->units, kernel->tasks);
  kernel->tasks = cpu_divide_up(kernel->units, kernel->per_task);
}

compute_status window_fold_prepare(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t step = kernel->columns > 1 ? w->stride[1] : 1;
  const int64_t positions = (kernel->columns - 1) * step + (w->size[1] - 1) * w->dilation[1] + 1;
  if (!may_pad(kernel, positions)) return COMPUTE_OK;
  const int64_t rows = kernel->merged ? 1 : kernel->size[2], taps = step > 1 ? w->size[1] : 0;
  const uint64_t bytes =
      (uint64_t)rows * sizeof *kernel->fold_rows + (uint64_t)taps * sizeof(int64_t);
  kernel->fold_rows = cpu_allocate(kernel->head.device, bytes);
  if (!kernel->fold_rows) return cpu_out_of_memory(kernel->head.device, bytes);
  for (int64_t p = 0; p < rows; p++) {
    int64_t end;
    cpu_window_row *row = &kernel->fold_rows[p];
    window_taps(w, 0, p, &row->skip, &end);
    row->taps = end - row->skip;
    row->count = window_count(w, 0, p);
  }
  kernel->fold_pitch = cpu_divide_up(positions * kernel->lanes, step) * step;
  share_units(kernel);
  kernel->fold_block =
      cpu_min(cpu_max(STAGED / kernel->fold_pitch, 1), kernel->planes * kernel->rows);
  kernel->line_bytes = cpu_whole_lines(
      (uint64_t)(kernel->fold_block * kernel->fold_pitch * (step > 1 ? 2 : 1) * kernel->element));
  if (step == 1) return COMPUTE_OK;
  kernel->fold_offsets = (int64_t *)(void *)(kernel->fold_rows + rows);
  for (int64_t t = 0; t < taps; t++) {
    const int64_t at = t * w->dilation[1];
    kernel->fold_offsets[t] =
        at % step * kernel->fold_block * (kernel->fold_pitch / step) + at / step;
  }
  return COMPUTE_OK;
}

/* `to` has lines of results, `pitch` elements apart. */
static void fold_padded(const cpu_window *kernel, const window_unit *unit,
                        const window_lines *lines, int64_t height, int64_t width, unsigned char *to,
                        int64_t pitch, unsigned char *room) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t lanes = kernel->lanes, step = kernel->fold_offsets ? w->stride[1] : 1;
  const bool averages = w->operation == COMPUTE_WINDOW_AVERAGE;
  const cpu_window_fold fold = {
      .source = lines->data,
      .height = height,
      .width = width * lanes,
      .pitch = lines->pitch,
      .to = to,
      .source_plane = kernel->source_plane,
      .to_pitch = pitch,
      .to_plane = kernel->result_plane,
      .planes = unit->planes,
      .row_count = unit->rows,
      .columns = unit->columns * lanes,
      .rows = kernel->fold_rows + (kernel->merged ? 0 : unit->row),
      .row_step = !kernel->merged,
      .first = unit->row * w->stride[0] - w->padding[0] - lines->row,
      .row_stride = w->stride[0],
      .row_dilation = w->dilation[0],
      .before = (lines->column - unit->column * w->stride[1] + w->padding[1]) * lanes,
      .taps = w->size[1],
      .tap_step = w->dilation[1] * lanes,
      .column_stride = step,
      .offset = kernel->fold_offsets,
      .divisors = averages && lanes == 1 ? kernel->counts + unit->column * kernel->element : NULL,
      .room = room,
      .block = kernel->fold_block,
      .line_pitch = kernel->fold_pitch};
  (averages ? kernel->loops->fold_sums : kernel->loops->fold_maxima)(&fold);
  for (int64_t p = 0; averages && lanes > 1 && p < unit->rows; p++)
    kernel->loops->divide(to + p * pitch * kernel->element, fold.rows[p * fold.row_step].count,
                          kernel->counts + unit->column * kernel->element, unit->columns, lanes);
}

/* ---- A row at a time ------------------------------------------------------------------------- */

static void fold_row(const cpu_window *kernel, const window_unit *unit, int64_t p,
                     const window_lines *lines, int64_t width, unsigned char *to,
                     unsigned char *column_folds) {
  const compute_window_attributes *w = &kernel->shape;
  int64_t first, end;
  window_taps(w, 0, unit->row + p, &first, &end);
  if (first == end || width == 0) {
    clear(kernel, to, unit->columns * kernel->lanes);
    return;
  }
  const int64_t row = (unit->row + p) * w->stride[0] - w->padding[0] + first * w->dilation[0];
  const unsigned char *line = lines->data + (row - lines->row) * lines->pitch * kernel->element;
  if (end - first > 1) {
    /* This fold is element by element: a tap is a whole line. */
    loop_of(kernel)(column_folds, line, width * kernel->lanes, 1, end - first,
                    w->dilation[0] * lines->pitch, 1);
    line = column_folds;
  }
  fold_columns(kernel, unit, line, lines->column, to);
  if (w->operation == COMPUTE_WINDOW_AVERAGE)
    kernel->loops->divide(to, window_count(w, 0, unit->row + p),
                          kernel->counts + unit->column * kernel->element, unit->columns,
                          kernel->lanes);
}

void window_fold_unit(const window_launch *l, int64_t number, unsigned char *scratch) {
  const cpu_window *kernel = l->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const window_unit unit = window_find_unit(kernel, number);
  unsigned char *column_folds = scratch + kernel->source_bytes;
  unsigned char *values = column_folds + kernel->line_bytes;
  const int64_t line = unit.columns * kernel->lanes;
  const int64_t pitch = kernel->in_place ? kernel->output[0].stride[2] : line;
  unsigned char *to = kernel->in_place ? window_output(l, &unit, unit.row) : values;
  int64_t top, height, left, width;
  window_reach(w, 0, unit.row, unit.rows, &top, &height);
  window_reach(w, 1, unit.column, unit.columns, &left, &width);
  const window_lines lines = window_read(l, 0, &unit, top, height, left, width, scratch);
  if (kernel->halves_short)
    (w->operation == COMPUTE_WINDOW_MAX
         ? kernel->loops->maximum_short
         : kernel->loops->average_short)(to, lines.data, unit.rows, unit.columns);
  else if (kernel->fold_rows)
    fold_padded(kernel, &unit, &lines, height, width, to, pitch, column_folds);
  else
    for (int64_t p = 0; p < unit.rows; p++)
      fold_row(kernel, &unit, p, &lines, width, to + p * pitch * kernel->element, column_folds);
  if (!kernel->in_place) window_finish(l, &unit, values);
}
