/* SPDX-License-Identifier: MIT */
/* FORWARD with channels last, possibly after a transposition: rows of windows times the filter.
 *
 * With contiguous channels per pixel, the part of a window in one row of the data is one run of
 * memory. The windows of neighbouring results are such runs at one distance: the rows of a matrix
 * in the micro-kernels' layout. The other factor is the filter, packed into panels of result
 * channels. So nothing is transposed, and vectors hold channels for any plane width. Only each
 * unit's data are copied, once, with their padding.
 *
 * A unit is a row tile of one image and group, for some panels of result channels. The units of one
 * row tile follow each other, and a thread that takes several of them copies the data once. A
 * result is the sum of its runs in the order of the filter's rows, in every unit.
 *
 * For pooled results, one panel of a row tile is kept near the core until it is pooled.
 *
 * Planes of f32 use this implementation as well, if vectors of 64 bytes transpose 16 × 16 elements
 * in registers: the data during the copy, the results a few rows of one panel at a time. No vector
 * then has the tail of a row of planes, and no launch packs panels of the image. */
#include <math.h>
#include <string.h>

#include "conv_rows.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  const unsigned char *packed;
  unsigned char *workers;
} launch;

/* The work of one unit. */
typedef struct rows_unit {
  int64_t image, group, row, rows;
  int64_t panel, panels; /* within the group */
} rows_unit;

/* ---- The data -------------------------------------------------------------------------------- */

/* The dot products of four bytes replace i8 data x by x + 128, or u8 data by x - 128
 * (gemm_pack_words.h). */
static bool is_shifted(const cpu_conv *conv) {
  return cpu_gemm_shifts_left(conv->type, conv->input[0].dtype);
}

/* The byte that represents 0. */
static unsigned char padding_of(const cpu_conv *conv) {
  return is_shifted(conv) ? 128 : 0;
}

/* Copies `count` pixels, `step` columns apart, from column `first` on. Pixels outside the data are
 * zeros. */
static void copy_pixels(const cpu_conv *conv, const unsigned char *row, int64_t first, int64_t step,
                        int64_t count, unsigned char *to) {
  const conv_rows *s = &conv->rows;
  const conv_operand *x = &conv->input[0];
  const int64_t bytes = s->channels * x->size, pixel = s->pixel * s->size;
  const int64_t width = conv->shape.data_size[1];
  const int64_t before = cpu_min(first < 0 ? cpu_divide_up(-first, step) : 0, count);
  const int64_t end = cpu_min(first < width ? (width - 1 - first) / step + 1 : 0, count);
  if (before > 0) memset(to, padding_of(conv), (size_t)(before * pixel));
  const cpu_gemm_source source = {row + (first + before * step) * x->stride[3] * x->size, x->dtype,
                                  step * x->stride[3], x->stride[1]};
  const bool whole = s->channels % conv->type->group == 0; /* no word needs filling up */
  const bool as_is = s->size == x->size && padding_of(conv) == 0 && whole;
  if (end > before && as_is && x->stride[1] == 1 && step * x->stride[3] == s->pixel)
    memcpy(to + before * pixel, source.data, (size_t)((end - before - 1) * pixel + bytes));
  else if (end > before)
    conv->type->pack_rows(to + before * pixel, s->pixel, end - before, s->channels, &source);
  const int64_t from = cpu_max(before, end);
  if (from < count) memset(to + from * pixel, padding_of(conv), (size_t)((count - from) * pixel));
}

/* Returns the data row of a unit's first copied row; *step is the distance to the next one. */
static int64_t first_row(const cpu_conv *conv, const rows_unit *unit, int64_t *step) {
  const compute_conv_attributes *c = &conv->shape;
  *step = conv->rows.sparse ? c->stride[0] : 1;
  return unit->row * c->stride[0] - c->padding[0];
}

static const unsigned char *data_of(const launch *l, const rows_unit *unit) {
  const conv_operand *x = &l->conv->input[0];
  const int64_t channel = unit->group * l->conv->rows.channels;
  return (const unsigned char *)l->pointers[0] +
         (unit->image * x->stride[0] + channel * x->stride[1]) * x->size;
}

/* Copies the data of a unit's windows: rows `first` … `end` − 1 of the copy. */
static void copy_data(const launch *l, const rows_unit *unit, int64_t first, int64_t end,
                      unsigned char *copy) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *x = &conv->input[0];
  const int64_t step_w = s->sparse ? c->stride[1] : 1, columns = s->line / s->pixel;
  const unsigned char *data = data_of(l, unit);
  int64_t step;
  const int64_t top = first_row(conv, unit, &step);
  copy += first * s->line * s->size;
  for (int64_t i = first; i < end; i++, copy += s->line * s->size) {
    const int64_t row = top + i * step;
    if (row < 0 || row >= c->data_size[0])
      memset(copy, padding_of(conv), (size_t)(s->line * s->size));
    else
      copy_pixels(conv, data + row * x->stride[2] * x->size, -c->padding[1], step_w, columns, copy);
  }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Buffer of a unit's sums, with steps in elements. Sums that the micro-kernel finishes are only
 * needed until the next panel's, which overwrite them. */
typedef struct rows_sums {
  unsigned char *at;
  int64_t row, pixel, panel;
} rows_sums;

static const void *addend_at(const launch *l, const rows_unit *unit, int i, int64_t *row) {
  const conv_operand *operand = conv_rows_addend(l->conv, i);
  *row = operand ? operand->stride[3] : 0;
  if (!operand) return NULL;
  const int64_t channel = unit->group * l->conv->rows.results;
  const unsigned char *at =
      l->pointers[2 + cpu_finish_applied(conv_rows_finished(l->conv))->input[i] - 1];
  return at + (unit->image * operand->stride[0] + channel * operand->stride[1]) * operand->size;
}

/* The operands of an image and group: a row is a pixel, a column is a channel. */
static cpu_gemm_finish place_finish(const launch *l, const rows_unit *unit) {
  const cpu_conv *conv = l->conv;
  const conv_operand *y = &conv->output[0];
  const cpu_finish *finish = cpu_finish_applied(conv_rows_finished(conv));
  cpu_gemm_finish f = {.low = finish->low, .zero = finish->zero, .high = finish->high};
  f.a = addend_at(l, unit, 0, &f.a_row);
  f.b = addend_at(l, unit, 1, &f.b_row);
  f.c = addend_at(l, unit, 2, &f.c_row);
  f.a_repeats = f.a && conv_rows_addend(conv, 0)->stride[1] == 0;
  f.y = (unsigned char *)l->pointers[2 + conv->extra_count] +
        (unit->image * y->stride[0] + unit->group * conv->rows.results * y->stride[1]) * y->size;
  f.y_row = y->stride[3];
  f.functions = conv_rows_finished(conv)->functions;
  f.apply = f.functions ? cpu_finish_apply : NULL;
  f.after = conv_rows_finished(conv)->rest_rows;
  return f;
}

static cpu_gemm_requantize place_requantize(const launch *l, const rows_unit *unit) {
  const cpu_conv *conv = l->conv;
  const conv_operand *y = &conv->output[0];
  const int64_t channel = unit->group * conv->rows.results;
  cpu_gemm_requantize makes = {.run = conv->epilogue->requantize.loops->run,
                               .lines =
                                   conv_requantize_bind(conv, l->pointers, unit->image, channel)};
  makes.lines.y = (unsigned char *)l->pointers[2 + conv->extra_count] + unit->image * y->stride[0] +
                  channel * y->stride[1];
  makes.lines.y_row = y->stride[3];
  return makes;
}

/* Lists the offsets of a row tile's windows in the copy, in elements of the micro-kernel. */
static void list_windows(const cpu_conv *conv, int64_t *windows) {
  const conv_rows *s = &conv->rows;
  for (int64_t row = 0; row < s->band; row++)
    for (int64_t i = 0; i < conv->shape.result_size[1]; i++)
      *windows++ = (row * s->step[0] * s->line + i * s->step[1] * s->pixel) / conv->type->group;
}

/* Extra work of a panel's product: finishes the sums with the last run, in one of two ways, and
 * prefetches cache lines. Each pointer may be NULL. */
typedef struct panel_extras {
  const cpu_gemm_finish *finish;
  const cpu_gemm_requantize *requantize;
  const cpu_gemm_lines *read, *written;
} panel_extras;

/* Rows of results that use the same rows of the filter: its other rows are in the padding. */
typedef struct met_rows {
  int64_t row, end;    /* of results, within a unit */
  int64_t first, past; /* of the filter; if all are padding, only the first, for zeros */
} met_rows;

static void meet_filter(const compute_conv_attributes *c, int64_t row, met_rows *met) {
  const int64_t top = row * c->stride[0] - c->padding[0], height = c->data_size[0];
  const int64_t step = c->dilation[0], count = c->filter_size[0];
  met->first = top < 0 ? cpu_divide_up(-top, step) : 0;
  met->past = top + (count - 1) * step < height ? count : (height - 1 - top + step) / step;
  if (met->first < met->past) return;
  met->first = 0;
  met->past = 1;
}

/* The rows from `row` on: one, or with `several` all that use the same rows of the filter. */
static met_rows next_rows(const cpu_conv *conv, const rows_unit *unit, int64_t row, bool several) {
  enum { NARROW = 4 }; /* so few pixels have too few sums to hide the latency of multiply-adds */
  if (several && conv->shape.result_size[1] < NARROW)
    return (met_rows){row, unit->rows, 0, conv->shape.filter_size[0]};
  met_rows met = {.row = row, .end = row + 1};
  meet_filter(&conv->shape, unit->row + row, &met);
  for (; several && met.end < unit->rows; met.end++) {
    met_rows next;
    meet_filter(&conv->shape, unit->row + met.end, &next);
    if (next.first != met.first || next.past != met.past) break;
  }
  return met;
}

/* Multiplies one panel: all runs of the windows, some together. Each run covers the rows of results
 * that use it. */
static void multiply_panel(const launch *l, const rows_unit *unit, int64_t panel,
                           const unsigned char *copy, const int64_t *windows, const rows_sums *sums,
                           const panel_extras *extras) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const compute_conv_attributes *c = &conv->shape;
  const int64_t columns = conv->type->columns, across = c->filter_size[1] / s->taps;
  const int64_t column = (unit->panel + panel) * columns, width = c->result_size[1];
  const int64_t run_bytes = s->lines * columns * conv->element;
  const unsigned char *filter =
      l->packed + (unit->group * s->panels + unit->panel + panel) * s->runs * run_bytes;
  const bool whole = (s->even || windows) && sums->row == width * sums->pixel;
  const bool listed = whole && !s->even;
  cpu_gemm_block block = {.n = cpu_min(columns, s->results - column),
                          .k = s->run / conv->type->group,
                          .a_row = listed ? 0 : s->step[1] * s->pixel / conv->type->group,
                          .a_run = s->apart / conv->type->group,
                          .a_k = 1,
                          .b_k = columns,
                          .b_column = columns * s->lines, /* there is one */
                          .c_row = sums->pixel,
                          .column = column};
  int64_t together;
  for (int64_t run = 0; run < s->runs; run += together) {
    together = cpu_min(s->together, s->row_runs - run % s->row_runs);
    if (run + together == s->runs) {
      block.read = extras->read;
      block.written = extras->written;
    }
    block.ahead = filter + (run + together) * run_bytes;
    block.ahead_bytes = cpu_divide_up(together * run_bytes, whole ? 1 : unit->rows);
    met_rows met;
    for (int64_t row = 0; row < unit->rows; row = met.end) {
      met = next_rows(conv, unit, row, whole);
      const int64_t begin = met.first * across, end = met.past * across;
      const int64_t first = cpu_max(run, begin), past = cpu_min(run + together, end);
      if (first >= past) continue;
      const int64_t tap =
          first / across * c->dilation[0] * s->line + first % across * c->dilation[1] * s->pixel;
      block.m = (met.end - row) * width;
      block.runs = past - first;
      block.accumulate = first > begin;
      block.finish = past == end ? extras->finish : NULL;
      block.requantize = past == end ? extras->requantize : NULL;
      block.a = copy + (tap + (listed ? 0 : row * s->step[0] * s->line)) * s->size;
      block.a_rows = listed ? windows + row * width : NULL;
      block.b = filter + first * run_bytes;
      block.c = sums->at + (row * sums->row + panel * sums->panel) * conv->element;
      block.row = (unit->row + row) * width;
      conv->type->multiply(&block);
      block.ahead = (const unsigned char *)block.ahead + block.ahead_bytes;
      if (whole) block.ahead_bytes = 0;
      block.read = block.written = NULL; /* prefetch only once */
    }
  }
}

/* Sums without an epilogue are built directly in the output. */
static rows_sums place_sums(const launch *l, const rows_unit *unit, unsigned char *scratch) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const int64_t columns = conv->type->columns, width = conv->shape.result_size[1];
  const conv_operand *y = &conv->output[0];
  if (s->finishes) return (rows_sums){scratch, width * columns, columns, 0};
  if (!conv->identity)
    return (rows_sums){scratch, width * s->block * columns, s->block * columns, columns};
  const int64_t channel = unit->group * s->results + unit->panel * columns;
  unsigned char *result = l->pointers[2 + conv->extra_count];
  result += (unit->image * y->stride[0] + channel + unit->row * y->stride[2]) * y->size;
  return (rows_sums){result, y->stride[2], y->stride[3], columns};
}

static void run_epilogue(const launch *l, const rows_unit *unit, const rows_sums *sums) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const int64_t column = unit->panel * conv->type->columns;
  const conv_box box = {.first = {unit->image, unit->group * s->results + column, unit->row, 0},
                        .count = {1,
                                  cpu_min(unit->panels * conv->type->columns, s->results - column),
                                  unit->rows, conv->shape.result_size[1]},
                        .step = {1, 1, 1, 1},
                        .sum_stride = {0, 1, sums->row, sums->pixel},
                        .sums = sums->at};
  conv_epilogue_run(conv, l->pointers, &box);
}

/* Result channels of a unit. */
static int64_t results_of(const cpu_conv *conv, const rows_unit *unit) {
  return cpu_min(unit->panels * conv->type->columns,
                 conv->rows.results - unit->panel * conv->type->columns);
}

/* A unit's first result, of f32. */
static float *first_of(const cpu_conv *conv, const rows_unit *unit, const cpu_gemm_finish *finish) {
  return (float *)finish->y + unit->row * conv->shape.result_size[1] * finish->y_row +
         unit->panel * conv->type->columns;
}

/* Runs the epilogue's rest, after the finish, over a unit's results. */
static void run_rest(const launch *l, const rows_unit *unit, const cpu_gemm_finish *finish) {
  const cpu_conv *conv = l->conv;
  cpu_finish_run_rest(conv_rows_finished(conv), first_of(conv, unit, finish), finish->y_row,
                      unit->rows * conv->shape.result_size[1], results_of(conv, unit));
}

/* The same finish with contiguous results at `values`: the output may be the addend itself. */
static cpu_gemm_finish finish_apart(const cpu_conv *conv, const rows_unit *unit,
                                    const cpu_gemm_finish *finish, float *values) {
  cpu_gemm_finish apart = *finish;
  apart.y_row = results_of(conv, unit);
  apart.y = values - (first_of(conv, unit, &apart) - (float *)apart.y);
  return apart;
}

static void add_last(const launch *l, const rows_unit *unit, const float *values,
                     const cpu_gemm_finish *finish) {
  const cpu_conv *conv = l->conv;
  const conv_operand *from = conv_rows_added(conv);
  const int64_t channel = unit->group * conv->rows.results + unit->panel * conv->type->columns;
  const float *at = l->pointers[2 + conv->epilogue->added - 1];
  cpu_finish_lines lines = {.rows = unit->rows * conv->shape.result_size[1],
                            .count = results_of(conv, unit),
                            .x = values,
                            .a = at + unit->image * from->stride[0] + channel +
                                 unit->row * from->stride[2],
                            .x_row = results_of(conv, unit),
                            .a_row = from->stride[3],
                            .y_row = finish->y_row,
                            .low = -INFINITY,
                            .zero = -0.0f,
                            .high = INFINITY,
                            .y = first_of(conv, unit, finish)};
  if (lines.a_row == lines.count && lines.y_row == lines.count) {
    lines.count *= lines.rows;
    lines.rows = 1;
  }
  CPU_PICK(conv->head.device->isa, cpu_finish)->run(&lines);
}

/* Units are numbered by image, group, row tile, block of panels. */
static rows_unit find_unit(const cpu_conv *conv, int64_t number) {
  const conv_rows *s = &conv->rows;
  rows_unit unit = {.panel = number % s->blocks * s->block};
  unit.panels = cpu_min(s->block, s->panels - unit.panel);
  number /= s->blocks;
  unit.row = number % s->bands * s->band;
  unit.rows = cpu_min(s->band, conv->shape.result_size[0] - unit.row);
  number /= s->bands;
  unit.group = number % conv->shape.groups;
  unit.image = number / conv->shape.groups;
  return unit;
}

/* No row tile has been copied yet. */
enum { NO_BAND = -1 };

static int64_t *copied_band(const launch *l, int64_t worker) {
  return (int64_t *)(void *)(l->workers + (uint64_t)worker * l->conv->rows.worker_bytes);
}

/* Computes all panels of a unit whose results are pixels of channels. `values` is memory for the
 * results before an addition, or NULL. */
static void make_pixels(const launch *l, const rows_unit *unit, const unsigned char *copy,
                        const int64_t *windows, const rows_sums *sums, float *values) {
  const conv_rows *s = &l->conv->rows;
  const bool bytes = s->finishes && l->conv->type->requantizes;
  const bool floats = s->finishes && !bytes;
  cpu_gemm_finish finish = {0};
  cpu_gemm_requantize makes;
  if (floats) finish = place_finish(l, unit);
  const cpu_gemm_finish result = finish;
  if (values) finish = finish_apart(l->conv, unit, &result, values);
  if (bytes) makes = place_requantize(l, unit);
  const panel_extras extras = {floats ? &finish : NULL, bytes ? &makes : NULL, NULL, NULL};
  for (int64_t panel = 0; panel < unit->panels; panel++)
    multiply_panel(l, unit, panel, copy, windows, sums, &extras);
  if (floats && conv_rows_finished(l->conv)->rest && !finish.after)
    run_rest(l, unit, &finish);
  else if (!l->conv->identity && !s->finishes)
    run_epilogue(l, unit, sums);
  if (values) add_last(l, unit, values, &result);
}

/* ---- Pooled results -------------------------------------------------------------------------- */

/* Stores the maximum of each block of a panel's results, in the output or in `values`. */
static void pool_panel(const launch *l, const rows_unit *unit, int64_t panel, const float *results,
                       float *values) {
  const cpu_conv *conv = l->conv;
  const conv_operand *y = &conv->output[0];
  const int64_t columns = conv->type->columns, pool = conv->shape.pool;
  const int64_t column = (unit->panel + panel) * columns;
  const int64_t channel = unit->group * conv->rows.results + column;
  cpu_pooled_panel p = {.pool = pool,
                        .rows = unit->rows / pool,
                        .columns = conv->shape.result_size[1] / pool,
                        .channels = cpu_min(columns, conv->rows.results - column),
                        .x = results,
                        .x_pixel = columns,
                        .y_row = y->stride[2],
                        .y_pixel = y->stride[3]};
  p.y = (float *)l->pointers[2 + conv->extra_count] + unit->image * y->stride[0] + channel +
        unit->row / pool * y->stride[2];
  if (values) {
    p.y = values;
    p.y_pixel = columns;
    p.y_row = p.columns * columns;
  }
  CPU_PICK(conv->head.device->isa, cpu_pooled)->run(&p);
}

/* Finds the blocks from `block` on that use the same runs, each of one row of the filter. If no
 * element of the filter is infinite, padding is harmless and all blocks use all runs. */
static void meet_runs(const cpu_conv *conv, const rows_unit *unit, bool finite, int64_t block,
                      cpu_pooled_windows *w) {
  const bool several = conv->rows.even || conv->rows.list_bytes > 0; /* as in multiply_panel */
  w->rows = unit->rows / 2 - block;
  for (int64_t i = 0; i < (finite ? 2 : 2 * w->rows); i++) {
    met_rows met = {.past = w->runs};
    if (!finite) met = next_rows(conv, unit, 2 * block + i, several);
    if (i < 2) {
      w->first[i] = met.first;
      w->past[i] = met.past;
    } else if (met.first != w->first[i % 2] || met.past != w->past[i % 2]) {
      w->rows = i / 2;
    }
  }
}

/* Computes the pooled results of short windows, without storing the others. */
static void convolve_pooled(const launch *l, const rows_unit *unit, const unsigned char *copy) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const conv_operand *y = &conv->output[0];
  const int64_t columns = conv->type->columns, channel = unit->group * s->results;
  const int64_t filter = s->runs * s->lines * columns;
  const cpu_pooled_table *loops = CPU_PICK(conv->head.device->isa, cpu_pooled);
  cpu_gemm_finish finish = {.low = -INFINITY, .zero = -0.0f, .high = INFINITY};
  if (s->finishes) finish = place_finish(l, unit);
  cpu_pooled_windows w = {.columns = conv->size[3],
                          .runs = s->runs,
                          .run = s->run,
                          .x_run = s->apart,
                          .x_row = s->step[0] * s->line,
                          .x_pixel = s->step[1] * s->pixel,
                          .low = finish.low,
                          .zero = finish.zero,
                          .high = finish.high,
                          .y_row = y->stride[2],
                          .y_pixel = y->stride[3]};
  for (int64_t panel = unit->panel; panel < unit->panel + unit->panels; panel++) {
    w.filter = (const float *)(const void *)l->packed + (unit->group * s->panels + panel) * filter;
    w.bias = finish.a ? (const float *)finish.a + panel * columns : NULL;
    const bool finite = loops->is_finite(w.filter, filter);
    for (int64_t block = 0; block < unit->rows / 2; block += w.rows) {
      meet_runs(conv, unit, finite, block, &w);
      w.x = (const float *)(const void *)copy + 2 * block * w.x_row;
      w.y = (float *)l->pointers[2 + conv->extra_count] + unit->image * y->stride[0] + channel +
            panel * columns + (unit->row / 2 + block) * y->stride[2];
      loops->convolve(&w);
    }
  }
}

/* Transposes a panel's pooled results to the output's planes. */
static void turn_pooled(const launch *l, const rows_unit *unit, int64_t panel,
                        const float *values) {
  const cpu_conv *conv = l->conv;
  const conv_operand *y = &conv->output[0];
  const int64_t columns = conv->type->columns, width = conv->size[3];
  const int64_t column = (unit->panel + panel) * columns, row = unit->row / conv->shape.pool;
  const int64_t channel = unit->group * conv->rows.results + column;
  const int64_t count = unit->rows / conv->shape.pool, together = y->stride[2] == width ? count : 1;
  float *to = (float *)l->pointers[2 + conv->extra_count] + unit->image * y->stride[0] +
              channel * y->stride[1] + row * y->stride[2];
  for (int64_t i = 0; i < count; i += together) {
    const cpu_gemm_source source = {values + i * width * columns, COMPUTE_F32, 1, columns};
    conv->type->pack_rows(to + i * y->stride[2], y->stride[1],
                          cpu_min(columns, conv->rows.results - column), together * width, &source);
  }
}

/* Runs the epilogue over a panel's pooled results. */
static void finish_pooled(const launch *l, const rows_unit *unit, int64_t panel, float *values) {
  const cpu_conv *conv = l->conv;
  const int64_t columns = conv->type->columns, pool = conv->shape.pool;
  const int64_t column = (unit->panel + panel) * columns;
  const conv_box box = {
      .first = {unit->image, unit->group * conv->rows.results + column, unit->row / pool, 0},
      .count = {1, cpu_min(columns, conv->rows.results - column), unit->rows / pool, conv->size[3]},
      .step = {1, 1, 1, 1},
      .sum_stride = {0, 1, conv->size[3] * columns, columns},
      .sums = (unsigned char *)values};
  conv_epilogue_run(conv, l->pointers, &box);
}

/* Computes a unit panel by panel: its results, in `room`, and then the maximum of each block. */
static void make_pooled(const launch *l, const rows_unit *unit, const unsigned char *copy,
                        const int64_t *windows, float *room, float *values) {
  const cpu_conv *conv = l->conv;
  const int64_t columns = conv->type->columns, width = conv->shape.result_size[1];
  const rows_sums sums = {(unsigned char *)room, width * columns, columns, 0};
  cpu_gemm_finish finish = {0};
  panel_extras extras = {0};
  if (conv->rows.short_windows) {
    convolve_pooled(l, unit, copy);
    return;
  }
  if (conv->rows.finishes) {
    finish = place_finish(l, unit);
    finish.y_row = columns;
    extras.finish = &finish;
  }
  for (int64_t panel = 0; panel < unit->panels; panel++) {
    if (extras.finish) finish.y = room - (unit->row * width + unit->panel + panel) * columns;
    multiply_panel(l, unit, panel, copy, windows, &sums, &extras);
    pool_panel(l, unit, panel, room, values);
    if (!values) continue;
    if (conv->rows.finishes || conv->identity)
      turn_pooled(l, unit, panel, values);
    else
      finish_pooled(l, unit, panel, values);
  }
}

/* ---- Results in planes ----------------------------------------------------------------------- */

/* Some rows of one panel's results. */
typedef struct planes_part {
  rows_unit unit;
  int64_t column, columns, pixels; /* first channel of the panel in the group; size of the part */
  unsigned char *sums;             /* pixels of channels */
  unsigned char *planes;           /* transposed, for further processing; or NULL */
  unsigned char *result;           /* of the first pixel and channel */
} planes_part;

/* Transposes a part's results from pixels of channels to planes. */
static void turn_part(const cpu_conv *conv, const planes_part *p, unsigned char *to, int64_t plane,
                      int64_t row) {
  const int64_t columns = conv->type->columns, size = conv->element;
  const int64_t width = conv->shape.result_size[1];
  const bool even = row == width || p->unit.rows == 1;
  const int64_t rows = even ? 1 : p->unit.rows, pixels = even ? p->pixels : width;
  cpu_gemm_source source = {p->sums, conv->accumulate, 1, columns};
  for (int64_t i = 0; i < rows; i++, to += row * size) {
    conv->type->pack_rows(to, plane, p->columns, pixels, &source);
    source.data = (const unsigned char *)source.data + pixels * columns * size;
  }
}

/* Stores transposed results in the output, by the epilogue or by plain copies. */
static void store_planes(const launch *l, const planes_part *p) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const conv_operand *y = &conv->output[0];
  const int64_t width = conv->shape.result_size[1], size = conv->element;
  if (s->finishes) {
    for (int64_t j = 0; j < p->columns; j++)
      for (int64_t i = 0; i < p->unit.rows; i++)
        memcpy(p->result + (j * y->stride[1] + i * y->stride[2]) * size,
               p->planes + (j * s->plane + i * width) * size, (size_t)(width * size));
    return;
  }
  const conv_box box = {
      .first = {p->unit.image, p->unit.group * s->results + p->column, p->unit.row, 0},
      .count = {1, p->columns, p->unit.rows, width},
      .step = {1, 1, 1, 1},
      .sum_stride = {0, s->plane, width, 1},
      .sums = p->planes};
  conv_epilogue_run(conv, l->pointers, &box);
}

/* Cache lines of some rows of a plane; 0 if the rows are far apart. */
static int64_t count_lines(const conv_operand *operand, int64_t rows, int64_t width) {
  const bool close = operand->stride[3] == 1 && operand->stride[2] <= 2 * width;
  return close ? cpu_divide_up(rows * operand->stride[2] * operand->size, 64) : 0;
}

/* Computes the sums or finished results of a part, and then transposes them to planes. */
static void make_part(const launch *l, const planes_part *p, int64_t panel,
                      const unsigned char *copy, const cpu_gemm_lines *read) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const conv_operand *y = &conv->output[0];
  const int64_t columns = conv->type->columns, width = conv->shape.result_size[1];
  const rows_sums sums = {p->sums, width * columns, columns, 0};
  const cpu_gemm_lines written = {p->result, p->columns, y->stride[1] * y->size,
                                  count_lines(y, p->unit.rows, width)};
  panel_extras extras = {.read = read, .written = p->planes ? NULL : &written};
  cpu_gemm_finish finish;
  if (s->finishes) {
    finish = place_finish(l, &p->unit);
    finish.y_row = columns;
    finish.y = (float *)(void *)p->sums - (p->unit.row * width * columns + p->column);
    extras.finish = &finish;
  }
  multiply_panel(l, &p->unit, panel, copy, NULL, &sums, &extras);
  if (s->finishes && conv_rows_finished(conv)->rest && !finish.after)
    cpu_finish_run_rest(conv_rows_finished(conv), (float *)(void *)p->sums, columns, p->pixels,
                        p->columns);
  if (p->planes) {
    turn_part(conv, p, p->planes, s->plane, width);
    store_planes(l, p);
  } else {
    turn_part(conv, p, p->result, y->stride[1], y->stride[2]);
  }
}

/* Finds the lines of the data's planes that rows `first` … `end` − 1 of the copy read. Returns
 * `false` if there are none. */
static bool find_lines(const launch *l, const rows_unit *unit, int64_t first, int64_t end,
                       cpu_gemm_lines *lines) {
  const cpu_conv *conv = l->conv;
  const conv_operand *x = &conv->input[0];
  int64_t step;
  const int64_t top = first_row(conv, unit, &step);
  const int64_t from = cpu_max(top + first * step, 0);
  const int64_t to = cpu_min(top + end * step, conv->shape.data_size[0]);
  if (from >= to) return false;
  *lines =
      (cpu_gemm_lines){data_of(l, unit) + from * x->stride[2] * x->size, conv->rows.channels,
                       x->stride[1] * x->size, count_lines(x, to - from, conv->shape.data_size[1])};
  return true;
}

/* Computes a unit whose results are planes, a few rows of a panel at a time. Their sums stay in the
 * level-1 cache. Meanwhile, lines of the output, and of the data for the next rows, are prefetched.
 * The first panel makes the copy, unless it exists. */
static void make_planes(const launch *l, const rows_unit *unit, bool copied, unsigned char *copy,
                        unsigned char *sums, unsigned char *planes) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const conv_operand *y = &conv->output[0];
  const int64_t all = conv_rows_copied(conv, unit->rows);
  int64_t ready = copied ? all : 0;
  for (int64_t panel = 0; panel < unit->panels; panel++)
    for (int64_t row = 0; row < unit->rows; row += s->chunk) {
      planes_part p = {.unit = *unit, .sums = sums, .planes = planes};
      p.unit.row += row;
      p.unit.rows = cpu_min(s->chunk, unit->rows - row);
      p.pixels = p.unit.rows * conv->shape.result_size[1];
      p.column = (unit->panel + panel) * conv->type->columns;
      p.columns = cpu_min(conv->type->columns, s->results - p.column);
      p.result = l->pointers[2 + conv->extra_count];
      p.result +=
          (unit->image * y->stride[0] + (unit->group * s->results + p.column) * y->stride[1] +
           p.unit.row * y->stride[2]) *
          y->size;
      const int64_t needs = conv_rows_copied(conv, row + p.unit.rows);
      if (ready < needs) copy_data(l, unit, ready, needs, copy);
      ready = cpu_max(ready, needs);
      cpu_gemm_lines next;
      const bool reads = find_lines(
          l, unit, ready, cpu_min(conv_rows_copied(conv, row + 2 * s->chunk), all), &next);
      make_part(l, &p, panel, copy + row * s->step[0] * s->line * s->size, reads ? &next : NULL);
    }
}

/* ---- Units ----------------------------------------------------------------------------------- */

static void unit_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  int64_t *copied = copied_band(l, worker);
  unsigned char *copy = (unsigned char *)copied + CONV_ROWS_BAND_BYTES;
  const rows_unit unit = find_unit(conv, task);
  int64_t *windows = s->list_bytes > 0 ? (int64_t *)(void *)(copy + s->copy_bytes) : NULL;
  unsigned char *scratch = copy + s->copy_bytes + s->list_bytes;
  const bool is_copied = *copied == task / s->blocks;
  if (s->turned) {
    make_planes(l, &unit, is_copied, copy, scratch,
                s->planes ? (unsigned char *)copied + s->planes : NULL);
  } else if (conv->shape.pool > 0) {
    float *values = s->pooled ? (float *)(void *)((unsigned char *)copied + s->pooled) : NULL;
    if (windows && *copied == NO_BAND) list_windows(conv, windows);
    if (!is_copied) copy_data(l, &unit, 0, conv_rows_copied(conv, unit.rows), copy);
    make_pooled(l, &unit, copy, windows, (float *)(void *)scratch, values);
  } else {
    const rows_sums sums = place_sums(l, &unit, scratch);
    float *values = s->values ? (float *)(void *)((unsigned char *)copied + s->values) : NULL;
    if (windows && *copied == NO_BAND) list_windows(conv, windows);
    if (!is_copied) copy_data(l, &unit, 0, conv_rows_copied(conv, unit.rows), copy);
    make_pixels(l, &unit, copy, windows, &sums, values);
  }
  *copied = task / s->blocks;
}

compute_status conv_rows_run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_rows *s = &conv->rows;
  cpu_device *device = kernel->device;
  const int64_t threads = s->units == 1 ? 1 : device->threads;
  const uint64_t workers = (uint64_t)threads * s->worker_bytes;
  const uint64_t bytes = workers + (conv->packed ? 0 : s->packed_bytes);
  launch l = {.conv = conv, .pointers = pointers, .packed = pointers[1]};
  compute_status status = COMPUTE_OK;
  l.workers = cpu_workspace_acquire(device, bytes);
  if (!l.workers) return cpu_out_of_memory(device, bytes);
  if (!conv->packed) {
    status = conv_rows_pack(conv, pointers[1], l.workers + workers);
    l.packed = l.workers + workers;
  }
  for (int64_t i = 0; i < threads; i++) *copied_band(&l, i) = NO_BAND;
  if (!status) cpu_parallel(device, s->units, unit_task, &l);
  cpu_workspace_return(device, l.workers);
  return status;
}
