/* Pooling forward: a unit is a band of rows of results, some columns of them, of one image and one
 * group of lanes. */
#include <string.h>

#include "window.h"

typedef void (*fold_loop)(void *result, const void *source, int64_t count, int64_t step,
                          int64_t taps, int64_t tap_step, int64_t lanes);

static fold_loop loop_of(const cpu_window *kernel) {
  return kernel->shape.operation == COMPUTE_WINDOW_MAX ? kernel->loops->maximum
                                                       : kernel->loops->sum;
}

/* The fold of no elements. */
static void clear(const cpu_window *kernel, unsigned char *values, int64_t count) {
  if (kernel->shape.operation == COMPUTE_WINDOW_AVERAGE) {
    memset(values, 0, (size_t)(count * kernel->element));
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    switch (kernel->type) {
    case COMPUTE_F64: ((double *)(void *)values)[i] = -__builtin_inf(); break;
    case COMPUTE_F32: ((float *)(void *)values)[i] = -__builtin_inff(); break;
    case COMPUTE_I64: ((int64_t *)(void *)values)[i] = INT64_MIN; break;
    default: ((int32_t *)(void *)values)[i] = INT32_MIN; break;
    }
  }
}

/* A single result column near the edge. `line` begins at data column `left`. */
static void fold_column(const cpu_window *kernel, int64_t q, const unsigned char *line,
                        int64_t left, unsigned char *to) {
  const compute_window *w = &kernel->shape;
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
  const compute_window *w = &kernel->shape;
  const int64_t bytes = kernel->lanes * kernel->element, last = unit->column + unit->columns;
  const int64_t inside = cpu_smaller(cpu_larger(kernel->first_inside, unit->column), last);
  const int64_t end = cpu_larger(cpu_smaller(kernel->end_inside, last), inside);
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

/* Data that windows first … first + count − 1 of dimension d reach, cut to what there is. */
static void find_reach(const compute_window *w, int d, int64_t first, int64_t count, int64_t *from,
                       int64_t *size) {
  const int64_t begin = first * w->stride[d] - w->padding[d];
  const int64_t end = begin + (count - 1) * w->stride[d] + (w->size[d] - 1) * w->dilation[d] + 1;
  *from = cpu_smaller(cpu_larger(begin, 0), w->data_size[d]);
  *size = cpu_larger(cpu_smaller(end, w->data_size[d]) - *from, 0);
}

void window_fold_unit(const window_launch *l, int64_t number, unsigned char *scratch) {
  const cpu_window *kernel = l->kernel;
  const compute_window *w = &kernel->shape;
  const window_unit unit = window_find_unit(kernel, number);
  unsigned char *column_folds = scratch + kernel->source_bytes;
  unsigned char *values = column_folds + kernel->line_bytes;
  int64_t top, height, left, width;
  find_reach(w, 0, unit.row, unit.rows, &top, &height);
  find_reach(w, 1, unit.column, unit.columns, &left, &width);
  const window_lines lines = window_read(l, 0, &unit, top, height, left, width, scratch);
  if (kernel->halves_short) {
    (w->operation == COMPUTE_WINDOW_MAX ? kernel->loops->maximum_short
                                        : kernel->loops->average_short)(
        kernel->in_place ? window_output(l, &unit, unit.row) : values, lines.data, unit.rows,
        unit.columns);
    if (!kernel->in_place) window_finish(l, &unit, values);
    return;
  }
  for (int64_t p = 0; p < unit.rows; p++) {
    unsigned char *to = kernel->in_place
                            ? window_output(l, &unit, unit.row + p)
                            : values + p * unit.columns * kernel->lanes * kernel->element;
    int64_t first, end;
    window_taps(w, 0, unit.row + p, &first, &end);
    if (first == end || width == 0) {
      clear(kernel, to, unit.columns * kernel->lanes);
      continue;
    }
    const int64_t row = (unit.row + p) * w->stride[0] - w->padding[0] + first * w->dilation[0];
    const unsigned char *line = lines.data + (row - top) * lines.pitch * kernel->element;
    if (end - first > 1) {
      /* Element by element: a tap is a line. */
      loop_of(kernel)(column_folds, line, width * kernel->lanes, 1, end - first,
                      w->dilation[0] * lines.pitch, 1);
      line = column_folds;
    }
    fold_columns(kernel, &unit, line, left, to);
    if (w->operation == COMPUTE_WINDOW_AVERAGE) {
      const int64_t rows = window_count(w, 0, unit.row + p);
      kernel->loops->divide(to, rows, kernel->counts + unit.column * kernel->element, unit.columns,
                            kernel->lanes);
    }
  }
  if (!kernel->in_place) window_finish(l, &unit, values);
}
