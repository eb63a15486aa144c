/* SPDX-License-Identifier: MIT */
/* FORWARD with channels last: rows of windows times the filter.
 *
 * With the channels of a pixel side by side, the part of a window that lies in one row of the data
 * is one run of memory, and the windows of neighbouring results are such runs at one distance. They
 * are the rows of a matrix as the micro-kernels of products read it; the filter, packed into panels
 * of result channels, is the other factor. So nothing is turned, vectors hold channels whatever the
 * width of a plane, and all that is copied is each unit's data, once, with their padding.
 *
 * A unit is a band of rows of one image and group, for some panels of result channels. Units of one
 * band follow each other, and a thread that takes several of them copies the data once. A result is
 * the sum of its runs in the order of the filter's rows, whatever the unit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "gemm/gemm.h"
#include "program/finish.h"
#include "program/requantize.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  const unsigned char *packed;
  unsigned char *workers;
} launch;

/* What one unit works on. */
typedef struct rows_unit {
  int64_t image, group, row, rows;
  int64_t panel, panels; /* within the group */
} rows_unit;

/* ---- The data -------------------------------------------------------------------------------- */

/* Of i8 the dot products of four bytes take x + 128 instead (gemm_pack_words.h). */
static bool is_shifted(const cpu_conv *conv) {
  return conv->type->group == 4 && conv->input[0].dtype == COMPUTE_I8;
}

/* The bytes that stand for 0. */
static unsigned char padding_of(const cpu_conv *conv) {
  return is_shifted(conv) ? 128 : 0;
}

/* `count` pixels, `step` columns apart from column `first` on, those outside the data as zeros. */
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
  const bool whole = s->channels % conv->type->group == 0; /* words, of which none is filled up */
  const bool as_is = s->size == x->size && padding_of(conv) == 0 && whole;
  if (end > before && as_is && x->stride[1] == 1 && step * x->stride[3] == s->pixel)
    memcpy(to + before * pixel, source.data, (size_t)((end - before - 1) * pixel + bytes));
  else if (end > before)
    conv->type->pack_rows(to + before * pixel, s->pixel, end - before, s->channels, &source);
  const int64_t from = cpu_max(before, end);
  if (from < count) memset(to + from * pixel, padding_of(conv), (size_t)((count - from) * pixel));
}

/* Copies what a unit's windows meet. */
static void copy_data(const cpu_conv *conv, const unsigned char *data, const rows_unit *unit,
                      unsigned char *copy) {
  const conv_rows *s = &conv->rows;
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *x = &conv->input[0];
  const int64_t step_h = s->sparse ? c->stride[0] : 1, step_w = s->sparse ? c->stride[1] : 1;
  const int64_t rows = (unit->rows - 1) * s->step[0] + (c->filter_size[0] - 1) * c->dilation[0] + 1;
  const int64_t columns = s->line / s->pixel;
  data += (unit->image * x->stride[0] + unit->group * s->channels * x->stride[1]) * x->size;
  for (int64_t i = 0; i < rows; i++, copy += s->line * s->size) {
    const int64_t row = unit->row * c->stride[0] - c->padding[0] + i * step_h;
    if (row < 0 || row >= c->data_size[0])
      memset(copy, padding_of(conv), (size_t)(s->line * s->size));
    else
      copy_pixels(conv, data + row * x->stride[2] * x->size, -c->padding[1], step_w, columns, copy);
  }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Where a unit's sums are built, and their steps in elements. Those that the micro-kernel finishes
 * are only needed until the next panel's, which take their place. */
typedef struct rows_sums {
  unsigned char *at;
  int64_t row, pixel, panel;
} rows_sums;

/* What the micro-kernel finishes, and its rest: the epilogue, or that without an addition at its
 * end. */
static const cpu_program *finished(const cpu_conv *conv) {
  return conv->epilogue->before ? conv->epilogue->before : conv->epilogue;
}

/* The operand that is added to it then, or NULL. */
static const conv_operand *added(const cpu_conv *conv) {
  return conv->epilogue->before ? &conv->extra[conv->epilogue->added - 1] : NULL;
}

/* The addend number i of the epilogue as one loop (cpu_finish), or NULL. */
static const conv_operand *addend(const cpu_conv *conv, int i) {
  const int16_t input = cpu_finish_of(finished(conv))->input[i];
  return input > 0 ? &conv->extra[input - 1] : NULL;
}

/* Whether a row of results is `width` pixels further. */
static bool is_even(const cpu_conv *conv, const conv_operand *operand) {
  const int64_t *size = conv->shape.result_size;
  return size[0] == 1 || operand->stride[2] == size[1] * operand->stride[3];
}

/* The same for a product of bytes (cpu_gemm_requantize). */
static bool can_requantize(const cpu_conv *conv) {
  const cpu_requantize *q = &conv->epilogue->requantize;
  if (!q->loops || !is_even(conv, &conv->output[0])) return false;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const conv_operand *operand = &conv->extra[q->input[i] - 1];
    if (!is_even(conv, operand) || (operand->stride[1] != 0 && operand->stride[1] != 1))
      return false;
  }
  return true;
}

/* Whether the micro-kernel can compute the epilogue (cpu_gemm_finish). */
static bool can_finish(const cpu_conv *conv) {
  if (conv->identity) return false;
  if (conv->type->requantizes) return can_requantize(conv);
  if (!conv->type->finishes) return false;
  const cpu_finish *finish = cpu_finish_of(finished(conv));
  if (!finish || finish->dtype != conv->type->finishes || conv->output_count != 1 ||
      !is_even(conv, &conv->output[0]))
    return false;
  for (int i = 0; i < 3; i++) {
    const conv_operand *operand = addend(conv, i);
    if (!operand) continue;
    if (!is_even(conv, operand)) return false;
    if (operand->stride[1] != 1 && (i > 0 || operand->stride[1] != 0)) return false;
  }
  const conv_operand *last = added(conv);
  return !last || (is_even(conv, last) && last->stride[1] == 1);
}

static const void *addend_at(const launch *l, const rows_unit *unit, int i, int64_t *row) {
  const conv_operand *operand = addend(l->conv, i);
  *row = operand ? operand->stride[3] : 0;
  if (!operand) return NULL;
  const int64_t channel = unit->group * l->conv->rows.results;
  const unsigned char *at = l->pointers[2 + cpu_finish_of(finished(l->conv))->input[i] - 1];
  return at + (unit->image * operand->stride[0] + channel * operand->stride[1]) * operand->size;
}

/* The operands of an image and group: a row of theirs is a pixel, a column a channel. */
static cpu_gemm_finish place_finish(const launch *l, const rows_unit *unit) {
  const cpu_conv *conv = l->conv;
  const conv_operand *y = &conv->output[0];
  const cpu_finish *finish = cpu_finish_of(finished(conv));
  cpu_gemm_finish f = {.low = finish->low, .zero = finish->zero, .high = finish->high};
  f.a = addend_at(l, unit, 0, &f.a_row);
  f.b = addend_at(l, unit, 1, &f.b_row);
  f.c = addend_at(l, unit, 2, &f.c_row);
  f.a_repeats = f.a && addend(conv, 0)->stride[1] == 0;
  f.y = (unsigned char *)l->pointers[2 + conv->extra_count] +
        (unit->image * y->stride[0] + unit->group * conv->rows.results * y->stride[1]) * y->size;
  f.y_row = y->stride[3];
  return f;
}

static cpu_gemm_requantize place_requantize(const launch *l, const rows_unit *unit) {
  const cpu_conv *conv = l->conv;
  const conv_operand *y = &conv->output[0];
  const cpu_requantize *q = &conv->epilogue->requantize;
  const int64_t channel = unit->group * conv->rows.results;
  cpu_requantize_operand operands[CPU_REQUANTIZE_INPUTS];
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const conv_operand *from = &conv->extra[q->input[i] - 1];
    const unsigned char *at = l->pointers[2 + q->input[i] - 1];
    at += (unit->image * from->stride[0] + channel * from->stride[1]) * from->size;
    operands[i] = (cpu_requantize_operand){at, from->stride[3], from->stride[1] != 0};
  }
  cpu_gemm_requantize makes = {q->loops->run, cpu_requantize_bind(q, operands)};
  makes.lines.y = (unsigned char *)l->pointers[2 + conv->extra_count] + unit->image * y->stride[0] +
                  channel * y->stride[1];
  makes.lines.y_row = y->stride[3];
  return makes;
}

/* Where the windows of a band's results begin in the copy, in elements of the micro-kernel. */
static void list_windows(const cpu_conv *conv, int64_t *windows) {
  const conv_rows *s = &conv->rows;
  for (int64_t row = 0; row < s->band; row++)
    for (int64_t i = 0; i < conv->shape.result_size[1]; i++)
      *windows++ = (row * s->step[0] * s->line + i * s->step[1] * s->pixel) / conv->type->group;
}

/* One panel: all runs of the windows, some together, and of each run all rows of results. With the
 * last run the sums may be finished, in one of two ways. */
static void multiply_panel(const launch *l, const rows_unit *unit, int64_t panel,
                           const unsigned char *copy, const int64_t *windows, const rows_sums *sums,
                           const cpu_gemm_finish *finish, const cpu_gemm_requantize *makes) {
  const cpu_conv *conv = l->conv;
  const conv_rows *s = &conv->rows;
  const compute_conv_attributes *c = &conv->shape;
  const int64_t columns = conv->type->columns, across = c->filter_size[1] / s->taps;
  const int64_t column = (unit->panel + panel) * columns;
  const int64_t run_bytes = s->lines * columns * conv->element;
  const unsigned char *filter =
      l->packed + (unit->group * s->panels + unit->panel + panel) * s->runs * run_bytes;
  const bool whole = (s->even || windows) && sums->row == c->result_size[1] * sums->pixel;
  const bool listed = whole && !s->even;
  cpu_gemm_block block = {.m = whole ? unit->rows * c->result_size[1] : c->result_size[1],
                          .n = cpu_min(columns, s->results - column),
                          .k = s->run / conv->type->group,
                          .a_row = listed ? 0 : s->step[1] * s->pixel / conv->type->group,
                          .a_rows = listed ? windows : NULL,
                          .a_run = s->apart / conv->type->group,
                          .a_k = 1,
                          .b_k = columns,
                          .b_column = columns * s->lines, /* there is one */
                          .c_row = sums->pixel,
                          .column = column};
  for (int64_t run = 0; run < s->runs; run += block.runs) {
    const int64_t first =
        run / across * c->dilation[0] * s->line + run % across * c->dilation[1] * s->pixel;
    block.b = filter + run * run_bytes;
    block.runs = cpu_min(s->together, s->row_runs - run % s->row_runs);
    block.accumulate = run > 0;
    if (run + block.runs == s->runs) {
      block.finish = finish;
      block.requantize = makes;
    }
    const int64_t parts = whole ? 1 : unit->rows;
    const unsigned char *ahead = filter + (run + block.runs) * run_bytes;
    block.ahead_bytes = cpu_divide_up(block.runs * run_bytes, parts);
    for (int64_t row = 0; row < parts; row++) {
      block.ahead = ahead + row * block.ahead_bytes;
      block.a = copy + (first + row * s->step[0] * s->line) * s->size;
      block.c = sums->at + (row * sums->row + panel * sums->panel) * conv->element;
      block.row = (unit->row + row) * c->result_size[1];
      conv->type->multiply(&block);
    }
  }
}

/* Sums that need no epilogue are built where they belong. */
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

/* What follows the finish, over a unit's results. */
static void run_rest(const launch *l, const rows_unit *unit, const cpu_gemm_finish *finish) {
  const cpu_conv *conv = l->conv;
  cpu_finish_run_rest(finished(conv), first_of(conv, unit, finish), finish->y_row,
                      unit->rows * conv->shape.result_size[1], results_of(conv, unit));
}

/* The same finish with its results one after the other at `values`: the output may be what is added
 * to them. */
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
  const conv_operand *from = added(conv);
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

/* Units are numbered by image, group, band, block of panels. */
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

/* A worker's memory begins with the number of the band that its copy is of. */
enum { BAND_BYTES = 64, NO_BAND = -1 };

static int64_t *copied_band(const launch *l, int64_t worker) {
  return (int64_t *)(void *)(l->workers + (uint64_t)worker * l->conv->rows.worker_bytes);
}

static void unit_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_rows *s = &l->conv->rows;
  int64_t *copied = copied_band(l, worker);
  unsigned char *copy = (unsigned char *)copied + BAND_BYTES;
  const rows_unit unit = find_unit(l->conv, task);
  int64_t *windows = s->list_bytes > 0 ? (int64_t *)(void *)(copy + s->copy_bytes) : NULL;
  const rows_sums sums = place_sums(l, &unit, copy + s->copy_bytes + s->list_bytes);
  if (windows && *copied == NO_BAND) list_windows(l->conv, windows);
  if (*copied != task / s->blocks) copy_data(l->conv, l->pointers[0], &unit, copy);
  *copied = task / s->blocks;
  const bool bytes = s->finishes && l->conv->type->requantizes;
  const bool floats = s->finishes && !bytes;
  cpu_gemm_finish finish = {0};
  cpu_gemm_requantize makes;
  if (floats) finish = place_finish(l, &unit);
  const cpu_gemm_finish result = finish;
  float *values = s->values ? (float *)(void *)((unsigned char *)copied + s->values) : NULL;
  if (values) finish = finish_apart(l->conv, &unit, &result, values);
  if (bytes) makes = place_requantize(l, &unit);
  for (int64_t panel = 0; panel < unit.panels; panel++)
    multiply_panel(l, &unit, panel, copy, windows, &sums, floats ? &finish : NULL,
                   bytes ? &makes : NULL);
  if (floats && finished(l->conv)->rest)
    run_rest(l, &unit, &finish);
  else if (!l->conv->identity && !s->finishes)
    run_epilogue(l, &unit, &sums);
  if (values) add_last(l, &unit, values, &result);
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
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

/* ---- The schedule ---------------------------------------------------------------------------- */

enum { LEAST_RESULTS = 8, BANDS_PER_THREAD = 4, CLOSE_SETS = 2048 };

/* The form of the copy. Where windows would lie so far apart that they compete for the same places
 * in a cache, pixels are a line of the cache longer; the runs are then single pixels. */
static void choose_copy(const cpu_conv *conv, conv_rows *s) {
  const compute_conv_attributes *c = &conv->shape;
  s->sparse = c->filter_size[0] == 1 && c->filter_size[1] == 1;
  for (int d = 0; d < 2; d++) s->step[d] = s->sparse ? 1 : c->stride[d];
  s->size = (int64_t)conv->element / conv->type->group;
  const int64_t tap = cpu_round_up(s->channels, conv->type->group);
  const bool close = s->step[1] * tap * s->size % CLOSE_SETS == 0;
  s->pixel = tap + (close ? 64 / s->size : 0);
  s->taps = s->pixel == tap && c->dilation[1] == 1 ? c->filter_size[1] : 1;
  s->run = s->taps * tap;
  s->runs = c->filter_size[0] * c->filter_size[1] / s->taps;
  s->line = s->pixel *
            ((c->result_size[1] - 1) * s->step[1] + (c->filter_size[1] - 1) * c->dilation[1] + 1);
  s->even = s->step[0] * s->line == c->result_size[1] * s->step[1] * s->pixel;
}

/* Runs are multiplied in one go, so that their sums stay in registers, as far as their part of a
 * panel is not larger than that of a product (gemm_schedule.c). */
static void choose_runs(const cpu_conv *conv, conv_rows *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t across = c->filter_size[1] / s->taps;
  const int64_t bytes = s->lines * conv->type->columns * (int64_t)conv->element;
  s->row_runs = across > 1 ? across : s->runs;
  s->apart = across > 1 ? c->dilation[1] * s->pixel : c->dilation[0] * s->line;
  const int64_t parts = cpu_divide_up(s->row_runs, cpu_max(GEMM_CLOSE_CACHE / bytes, 1));
  s->together = cpu_divide_up(s->row_runs, parts);
}

static int64_t copy_bytes(const cpu_conv *conv, const conv_rows *s, int64_t rows) {
  const compute_conv_attributes *c = &conv->shape;
  return ((rows - 1) * s->step[0] + (c->filter_size[0] - 1) * c->dilation[0] + 1) * s->line *
         s->size;
}

/* Bands whose copy stays in the level-2 cache; more of them for several threads, unless the filter
 * is larger than the data and should be read as few times as possible. Then the panels are divided,
 * so that threads end at the same time: this costs little, since a band's units share its copy. */
static void choose_units(const cpu_conv *conv, conv_rows *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t rows = c->result_size[0], l2 = (int64_t)conv->head.device->l2_bytes;
  const int64_t threads = conv->head.device->threads, outer = c->batch * c->groups;
  const int64_t bands = threads == 1 ? 1 : BANDS_PER_THREAD * threads;
  const int64_t units = threads == 1 ? 1 : GEMM_UNITS_PER_THREAD * threads;
  const int64_t width = conv->type->columns * (int64_t)conv->element;
  const int64_t room = l2 * 3 / 5 - copy_bytes(conv, s, 1), row = s->step[0] * s->line * s->size;
  const int64_t fit = cpu_max(cpu_min(1 + room / row, rows), 1);
  s->bands = cpu_divide_up(rows, fit);
  const bool large_filter = s->panels * s->runs * s->lines * width > copy_bytes(conv, s, rows);
  if (outer * s->bands < bands && !large_filter)
    s->bands = cpu_min(rows, cpu_divide_up(bands, outer));
  s->band = cpu_divide_up(rows, s->bands);
  s->bands = cpu_divide_up(rows, s->band);
  const int64_t sums = s->band * c->result_size[1] * width;
  s->blocks = cpu_max(cpu_divide_up(units, outer * s->bands),
                      cpu_divide_up(s->panels, cpu_max(l2 / 2 / sums, 1)));
  s->block = cpu_divide_up(s->panels, cpu_min(s->blocks, s->panels));
  s->blocks = cpu_divide_up(s->panels, s->block);
}

/* Whether tiles of the product reach from one row of results to the next although their windows are
 * not at one distance: tiles of few rows have registers for the address of each. */
static bool lists_windows(const cpu_conv *conv) {
  return !conv->rows.even && conv->rows.band > 1 && conv->type->rows <= CPU_GEMM_FORESEEN;
}

static void make_schedule(cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  conv_rows *s = &conv->rows;
  const int64_t columns = conv->type->columns, size = conv->element;
  s->channels = c->data_channels / c->groups;
  s->results = c->result_channels / c->groups;
  s->panels = cpu_divide_up(s->results, columns);
  choose_copy(conv, s);
  s->lines = s->run / conv->type->group + conv->type->terms;
  choose_runs(conv, s);
  choose_units(conv, s);
  s->units = c->batch * c->groups * s->bands * s->blocks;
  s->copy_bytes = cpu_whole_lines((uint64_t)copy_bytes(conv, s, s->band));
  s->list_bytes = lists_windows(conv)
                      ? cpu_whole_lines((uint64_t)(s->band * c->result_size[1]) * sizeof(int64_t))
                      : 0;
  s->worker_bytes =
      BAND_BYTES + s->copy_bytes + s->list_bytes +
      cpu_whole_lines((uint64_t)(s->band * c->result_size[1] * s->block * columns * size));
  s->packed_bytes =
      cpu_whole_lines((uint64_t)(c->groups * s->panels * s->runs * s->lines * columns * size));
}

/* Room for a unit's values before an addition. */
static void add_values(cpu_conv *conv) {
  conv_rows *s = &conv->rows;
  const int64_t count = s->band * conv->shape.result_size[1] * s->block * conv->type->columns;
  s->values = s->worker_bytes;
  s->worker_bytes += cpu_whole_lines((uint64_t)(count * conv->element));
}

static bool is_byte(const conv_operand *operand) {
  return operand->dtype == COMPUTE_I8 || operand->dtype == COMPUTE_U8;
}

/* The micro-kernel of the operands' products, or NULL. Filters that would have to be shifted, as
 * u8 for dot products of four bytes, need sums of every window's data. */
static const cpu_gemm_type *type_of(const cpu_conv *conv) {
  const conv_operand *x = &conv->input[0], *f = &conv->input[1];
  const cpu_gemm_table *table = conv->head.device->isa->gemm;
  const cpu_gemm_type *bytes = table->bytes;
  if (x->dtype == conv->accumulate && f->dtype == conv->accumulate) return conv->type;
  if (conv->accumulate == COMPUTE_I32 && is_byte(x) && is_byte(f) &&
      (bytes->group == 2 || f->dtype == COMPUTE_I8))
    return bytes;
  if (conv->accumulate == COMPUTE_F32 && x->dtype == COMPUTE_BF16 && f->dtype == COMPUTE_BF16)
    return table->bf16;
  return NULL;
}

/* Whether the results are pixels of channels, and there is a micro-kernel. */
static bool suits(const cpu_conv *conv, const char **reason) {
  const compute_conv_attributes *c = &conv->shape;
  *reason = "the results do not have channels last";
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD || conv->output[0].stride[1] != 1) return false;
  *reason = "too few result channels in a group";
  if (c->result_channels / c->groups < LEAST_RESULTS || c->data_channels == 0) return false;
  *reason = "data of another type than the sums, without products of its own";
  return type_of(conv) != NULL;
}

compute_status conv_rows_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  if (!suits(conv, reason)) return COMPUTE_OK;
  conv->type = type_of(conv);
  make_schedule(conv);
  const conv_rows *s = &conv->rows;
  conv->packed = (descriptor->constant_inputs >> 1 & 1) != 0;
  conv->rows.finishes = can_finish(conv);
  if (conv->rows.finishes && added(conv)) add_values(conv);
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution rows %s %dx%d, %lld bands of %lld rows, %lld x %lld channels%s",
           conv->head.device->isa->name, conv->type->rows, conv->type->columns, (long long)s->bands,
           (long long)s->band, (long long)s->blocks, (long long)(s->block * conv->type->columns),
           conv->packed ? ", packed" : "");
  return COMPUTE_OK;
}
