/* SPDX-License-Identifier: MIT */
/* FORWARD and BY_DATA: windows of a padded copy of the source times the filter.
 *
 * The results of one tile are numbered like the copy's elements, so that `pitch` of them make a
 * row. The last few of each row, as many as windows extend past a row, are meaningless. The
 * micro-kernels thus see one long row of columns: column f of row k of the matrix of windows is the
 * copy's element b_rows[k] + f, which they read in place. Meaningless results are computed as well,
 * and dropped before the epilogue. If there were too many of them, rows are multiplied one by one.
 * For small images, panels of meaningful columns are packed instead, across the rows of several
 * images.
 *
 * BY_DATA with a stride computes the results of one phase after the other; a phase's results are
 * scattered in the data. A unit has all phases of its tile, and interleaves their sums before the
 * epilogue. */
#include <stdio.h>
#include <string.h>

#include "conv.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *packed, *workers;
} launch;

/* Elements of the packed filter before one phase, group and block of channels. */
static int64_t packed_before(const cpu_conv *conv, const conv_unit *unit) {
  const conv_schedule *s = &conv->schedule;
  const conv_axis *last = &conv->axes[1][conv->axis_count[1] - 1];
  const int64_t all_columns = last->taps_before + last->taps;
  const int64_t before = unit->h->taps_before * all_columns + unit->h->taps * unit->w->taps_before;
  const int64_t taps = unit->h->taps * unit->w->taps;
  return (before * conv->shape.groups + taps * unit->group) * s->source_channels *
             s->result_channels +
         taps * s->source_channels * unit->m;
}

/* Blocks of channels are numbered by phase, group, block. */
static void find_block(const cpu_conv *conv, int64_t number, conv_unit *unit) {
  const conv_schedule *s = &conv->schedule;
  unit->m = number % s->blocks_m * s->block_m;
  unit->m_count = cpu_min(s->block_m, s->result_channels - unit->m);
  number /= s->blocks_m;
  unit->group = number % conv->shape.groups;
  number /= conv->shape.groups;
  unit->w = &conv->axes[1][number % conv->axis_count[1]];
  unit->h = &conv->axes[0][number / conv->axis_count[1]];
}

static void pack_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  (void)worker;
  conv_unit unit;
  find_block(l->conv, task, &unit);
  if (unit.h->taps == 0 || unit.w->taps == 0) return;
  conv_pack_filter(l->conv, l->pointers[1], &unit,
                   l->packed + packed_before(l->conv, &unit) * l->conv->element);
}

static int64_t phase_count(const cpu_conv *conv) {
  return conv->axis_count[0] * conv->axis_count[1];
}

static void set_phase(const cpu_conv *conv, int64_t phase, conv_unit *unit) {
  const conv_schedule *s = &conv->schedule;
  unit->w = &conv->axes[1][phase % conv->axis_count[1]];
  unit->h = &conv->axes[0][phase / conv->axis_count[1]];
  unit->rows = cpu_min(s->rows, unit->h->count - unit->row);
  unit->columns = cpu_min(s->columns, unit->w->count - unit->column);
}

/* Units are numbered by image, group, rows of the tile, columns of the tile, block of channels. */
static void find_unit(const cpu_conv *conv, int64_t number, conv_unit *unit) {
  const conv_schedule *s = &conv->schedule;
  const int64_t block = number % s->blocks_m;
  number /= s->blocks_m;
  unit->column = number % s->bands_w * s->columns;
  number /= s->bands_w;
  unit->row = number % s->bands_h * s->rows;
  number /= s->bands_h;
  find_block(conv, number % conv->shape.groups * s->blocks_m + block, unit);
  unit->image = number / conv->shape.groups * s->images;
  unit->images = cpu_min(s->images, conv->shape.batch - unit->image);
  set_phase(conv, 0, unit);
}

enum { MOST_PIECES = 64 };

/* Lists the windows of `count` results in the copy, as pieces of a panel's row. Results are
 * numbered densely through the rows and images of a unit, from `result` on. Returns the number of
 * pieces. */
static int64_t list_pieces(const cpu_conv *conv, const conv_unit *unit, int64_t result,
                           int64_t count, int64_t *from, int64_t *to) {
  const conv_schedule *s = &conv->schedule;
  const int64_t places = unit->rows * unit->columns;
  const int64_t image = (int64_t)s->copy_bytes / s->images / conv->element;
  int64_t pieces = 0;
  for (int64_t at = 0; at < count; pieces++) {
    const int64_t place = (result + at) % places, column = place % unit->columns;
    from[pieces] = (result + at) / places * image + place / unit->columns * s->pitch + column;
    to[pieces] = at;
    at += cpu_min(unit->columns - column, conv->type->lanes);
  }
  return pieces;
}

/* Multiplies one block of k, panel by panel; panels contain only windows. */
static void multiply_dense(const cpu_conv *conv, const conv_unit *unit, cpu_gemm_block *block,
                           unsigned char *panel) {
  const cpu_gemm_type *type = conv->type;
  const int64_t results = unit->images * unit->rows * unit->columns;
  const unsigned char *copy = block->b;
  unsigned char *sums = block->c;
  int64_t from[MOST_PIECES], to[MOST_PIECES];
  block->b = panel;
  block->b_k = type->columns;
  block->copy = NULL;
  for (int64_t j = 0; j < results; j += type->columns) {
    block->n = cpu_min(type->columns, results - j);
    const int64_t pieces = list_pieces(conv, unit, j, block->n, from, to);
    type->pack_pieces(panel, block->k, copy, block->b_rows, pieces, from, to);
    block->c = sums + j * conv->element;
    type->multiply(block);
  }
}

/* Computes the sums of `rows` rows of results, from the unit's row `row` on. */
static void multiply(const launch *l, const conv_unit *unit, int64_t row, int64_t rows,
                     int64_t row_step, const unsigned char *copy, int64_t *list,
                     unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const conv_schedule *s = &conv->schedule;
  const int64_t size = conv->element, taps = unit->h->taps * unit->w->taps;
  const int64_t lanes = conv->type->lanes;
  const unsigned char *packed = l->packed + packed_before(conv, unit) * size;
  const int64_t together = s->by_row ? 1 : rows;
  const int64_t columns = cpu_round_up((together - 1) * s->pitch + unit->columns, lanes);
  int64_t listed = 0, c = 0;
  /* With a single tile of rows, a strip is read only once, so packing would not pay. */
  void *panel = unit->m_count > conv->type->rows ? (unsigned char *)list + s->list_bytes : NULL;
  do { /* runs at least once: without channels, the sums are zeros */
    const int64_t channels = cpu_min(s->channels, s->source_channels - c);
    cpu_gemm_block block = {.m = unit->m_count,
                            .n = columns,
                            .k = channels * taps,
                            .a = packed,
                            .a_row = channels * taps,
                            .a_k = 1,
                            .slivers = conv->type->pack_slivers != NULL,
                            .b_rows = list,
                            .c_row = s->sums_row,
                            .copy = panel,
                            .accumulate = c > 0};
    if (listed != channels) conv_list_rows(conv, unit, channels, list);
    listed = channels;
    if (s->dense) {
      block.b = copy + c * s->plane * size;
      block.c = sums;
      multiply_dense(conv, unit, &block, (unsigned char *)list + s->list_bytes);
    }
    for (int64_t i = 0; i < rows && !s->dense; i += together) {
      block.b = copy + (c * s->plane + (row + i) * s->pitch) * size;
      block.c = sums + i * row_step * size;
      conv->type->convolve(&block);
    }
    packed += unit->m_count * channels * taps * size;
    c += channels;
  } while (c < s->source_channels);
}

static void copy_unit(const launch *l, const conv_unit *unit, bool cleared,
                      unsigned char *scratch) {
  const conv_schedule *s = &l->conv->schedule;
  conv_unit one = *unit;
  for (int64_t i = 0; i < unit->images && unit->h->taps > 0 && unit->w->taps > 0; i++) {
    one.image = unit->image + i;
    conv_copy_source(l->conv, l->pointers[0], &one, cleared,
                     scratch + i * ((int64_t)s->copy_bytes / s->images));
  }
}

/* Elements between two rows of sums. */
static int64_t row_step_of(const cpu_conv *conv, const conv_unit *unit) {
  const conv_schedule *s = &conv->schedule;
  if (s->dense) return unit->columns;
  return s->by_row ? cpu_round_up(s->columns, conv->type->lanes) : s->pitch;
}

/* Computes a single phase, chunk by chunk. */
static void do_single(const launch *l, const conv_unit *unit, bool cleared,
                      unsigned char *scratch) {
  const cpu_conv *conv = l->conv;
  const conv_schedule *s = &conv->schedule;
  unsigned char *sums = scratch + s->copy_bytes;
  int64_t *list = (void *)(sums + s->sums_bytes);
  const int64_t row_step = row_step_of(conv, unit);
  copy_unit(l, unit, cleared, scratch);
  for (int64_t row = 0; row < unit->rows; row += s->chunk_rows) {
    const int64_t rows = cpu_min(s->chunk_rows, unit->rows - row);
    multiply(l, unit, row, rows, row_step, scratch, list, sums);
    const conv_box box = {
        .first = {unit->image, unit->group * s->result_channels + unit->m,
                  unit->h->first + (unit->row + row) * unit->h->step,
                  unit->w->first + unit->column * unit->w->step},
        .count = {unit->images, unit->m_count, rows, unit->columns},
        .step = {1, 1, unit->h->step, unit->w->step},
        .sum_stride = {rows * row_step, s->sums_row, row_step, 1},
        .sums = sums,
    };
    conv_epilogue_run(conv, l->pointers, &box);
  }
}

/* Copies a phase's sums to their positions among the sums of all phases. */
static void put_together(const cpu_conv *conv, const conv_unit *unit, const unsigned char *sums,
                         const conv_box *all) {
  const conv_schedule *s = &conv->schedule;
  const cpu_store_loop store = conv->head.device->isa->tile->store[conv->accumulate];
  const int64_t size = conv->element, row_step = row_step_of(conv, unit);
  const int64_t *to = all->sum_stride;
  for (int64_t i = 0; i < unit->images; i++)
    for (int64_t m = 0; m < unit->m_count; m++)
      for (int64_t row = 0; row < unit->rows; row++) {
        const int64_t from = m * s->sums_row + (i * unit->rows + row) * row_step;
        const int64_t at =
            i * to[0] + m * to[1] + (row * unit->h->step + unit->h->first) * to[2] + unit->w->first;
        store(unit->columns, all->sums + at * size, unit->w->step, sums + from * size);
      }
}

/* Computes all phases of a tile, each in one chunk. */
static void do_phases(const launch *l, conv_unit *unit, unsigned char *scratch) {
  const cpu_conv *conv = l->conv;
  const conv_schedule *s = &conv->schedule;
  unsigned char *sums = scratch + s->copy_bytes;
  int64_t *list = (void *)(sums + s->sums_bytes);
  const int64_t first_row = unit->row * unit->h->step;
  const int64_t first_column = unit->column * unit->w->step;
  const int64_t rows = cpu_min(s->rows * unit->h->step, conv->size[2] - first_row);
  const int64_t columns = cpu_min(s->columns * unit->w->step, conv->size[3] - first_column);
  const conv_box box = {
      .first = {unit->image, unit->group * s->result_channels + unit->m, first_row, first_column},
      .count = {unit->images, unit->m_count, rows, columns},
      .step = {1, 1, 1, 1},
      .sum_stride = {rows * columns, unit->images * rows * columns, columns, 1},
      .sums = (unsigned char *)list + s->list_bytes + s->panel_bytes,
  };
  for (int64_t phase = 0; phase < phase_count(conv); phase++) {
    set_phase(conv, phase, unit);
    if (unit->rows <= 0 || unit->columns <= 0) continue;
    copy_unit(l, unit, false, scratch);
    multiply(l, unit, 0, unit->rows, row_step_of(conv, unit), scratch, list, sums);
    put_together(conv, unit, sums, &box);
  }
  conv_epilogue_run(conv, l->pointers, &box);
}

static void sweep_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_schedule *s = &l->conv->schedule;
  unsigned char *scratch = l->workers + (uint64_t)worker * s->worker_bytes;
  const int64_t end = cpu_min((task + 1) * s->chunk, s->units);
  conv_unit unit, last = {0};
  for (int64_t number = task * s->chunk; number < end; number++) {
    find_unit(l->conv, number, &unit);
    /* Neighbouring images often have their padding at the same positions. */
    const bool cleared =
        last.h && unit.row == last.row && unit.column == last.column && unit.images <= last.images;
    if (phase_count(l->conv) > 1)
      do_phases(l, &unit, scratch);
    else if (unit.rows > 0 && unit.columns > 0)
      do_single(l, &unit, cleared, scratch);
    last = unit;
  }
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_schedule *s = &conv->schedule;
  cpu_device *device = kernel->device;
  const int64_t blocks = phase_count(conv) * conv->shape.groups * s->blocks_m;
  const uint64_t workers = s->tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t bytes = s->packed_bytes + workers * s->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  launch l = {conv, pointers, scratch, scratch + s->packed_bytes};
  cpu_parallel(device, blocks, pack_task, &l);
  cpu_parallel(device, s->tasks, sweep_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

/* ---- Packing --------------------------------------------------------------------------------- */

/* The factors of FORWARD and BY_DATA: a padded copy of a block of the source, and the filter in the
 * order of the micro-kernels.
 *
 * In the copy, a channel consists of splits × splits_w parts: one for each residue of row and
 * column, modulo the source's step, that the taps use. Neighbouring results read neighbours in a
 * part. So a window is the same pattern of addresses for every result, for any stride. */

/* Maps row (or column) i of one residue of the copy to base + i·step in the source. Indices `first`
 * … `end` − 1 are inside the source. */
typedef struct copied_range {
  int64_t base, step, first, end;
} copied_range;

static copied_range find_range(const conv_axis *axis, int64_t result, int64_t split,
                               int64_t count) {
  copied_range r = {.step = axis->source_step};
  r.base = result * axis->source_step + axis->offset_first +
           split * axis->offset_step % axis->source_step;
  r.first = r.base >= 0 ? 0 : cpu_min(cpu_divide_up(-r.base, r.step), count);
  const int64_t rest = axis->source_size - r.base;
  r.end = rest <= 0 ? 0 : cpu_min(cpu_divide_up(rest, r.step), count);
  r.end = cpu_max(r.end, r.first);
  return r;
}

/* Clears the padding around the rows and columns inside the source. */
static void clear_padding(unsigned char *part, int64_t pitch, int64_t rows, int64_t columns,
                          int64_t size, const copied_range *h, const copied_range *w) {
  memset(part, 0, (size_t)(h->first * pitch * size));
  memset(part + h->end * pitch * size, 0, (size_t)((rows - h->end) * pitch * size));
  if (w->first == 0 && w->end == columns) return;
  for (int64_t row = h->first; row < h->end; row++) {
    unsigned char *to = part + row * pitch * size;
    memset(to, 0, (size_t)(w->first * size));
    memset(to + w->end * size, 0, (size_t)((columns - w->end) * size));
  }
}

void conv_copy_source(const cpu_conv *conv, const void *source, const conv_unit *unit, bool cleared,
                      unsigned char *copy) {
  const conv_schedule *s = &conv->schedule;
  const conv_operand *x = &conv->input[0];
  const int64_t size = conv->element;
  const int64_t rows = unit->rows + unit->h->reach, columns = unit->columns + unit->w->reach;
  const unsigned char *image =
      (const unsigned char *)source +
      (unit->image * x->stride[0] + unit->group * s->source_channels * x->stride[1]) * x->size;
  for (int64_t i = 0; i < unit->h->splits; i++) {
    const copied_range h = find_range(unit->h, unit->row, i, rows);
    for (int64_t j = 0; j < unit->w->splits; j++) {
      const copied_range w = find_range(unit->w, unit->column, j, columns);
      const unsigned char *from = image + ((h.base + h.first * h.step) * x->stride[2] +
                                           (w.base + w.first * w.step) * x->stride[3]) *
                                              x->size;
      unsigned char *part = copy + (i * s->splits_w + j) * s->part * size;
      for (int64_t c = 0; c < s->source_channels; c++) {
        if (!cleared) clear_padding(part, s->pitch, rows, columns, size, &h, &w);
        const cpu_gemm_source block = {from, x->dtype, h.step * x->stride[2],
                                       w.step * x->stride[3]};
        if (h.end > h.first && w.end > w.first)
          conv->type->pack_rows(part + (h.first * s->pitch + w.first) * size, s->pitch,
                                h.end - h.first, w.end - w.first, &block);
        part += s->plane * size;
        from += x->stride[1] * x->size;
      }
    }
  }
}

/* Offset of tap (i, j) for result 0, in a channel of the copy. */
static int64_t tap_place(const conv_schedule *s, const conv_unit *unit, int64_t i, int64_t j) {
  const conv_axis *h = unit->h, *w = unit->w;
  const int64_t part = i % h->splits * s->splits_w + j % w->splits;
  return part * s->part + i * h->offset_step / h->source_step * s->pitch +
         j * w->offset_step / w->source_step;
}

void conv_list_rows(const cpu_conv *conv, const conv_unit *unit, int64_t channels, int64_t *rows) {
  const conv_schedule *s = &conv->schedule;
  const int64_t taps = unit->h->taps * unit->w->taps;
  for (int64_t i = 0; i < unit->h->taps; i++)
    for (int64_t j = 0; j < unit->w->taps; j++) {
      const int64_t tap = i * unit->w->taps + j, place = tap_place(s, unit, i, j);
      for (int64_t c = 0; c < channels; c++)
        rows[s->taps_inside ? c * taps + tap : tap * channels + c] = c * s->plane + place;
    }
}

/* Packs `count` rows of k, from the k-th of `depth` on: as slivers, tile by tile, or as rows. */
static void pack_run(const cpu_conv *conv, unsigned char *packed, int64_t m, int64_t depth,
                     int64_t k, int64_t count, const cpu_gemm_source *source) {
  const cpu_gemm_type *type = conv->type;
  const int64_t size = conv->element;
  if (!type->pack_slivers) {
    type->pack_rows(packed + k * size, depth, m, count, source);
    return;
  }
  /* The micro-kernels cut the block into tiles of nearly equal height. */
  const int64_t tiles = cpu_divide_up(m, type->rows);
  cpu_gemm_source part = *source;
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t rows = m / tiles + (t < m % tiles);
    type->pack_slivers(packed + k * rows * size, rows, count, &part);
    packed += rows * depth * size;
    part.data =
        (const unsigned char *)part.data + rows * part.outer * (int64_t)cpu_dtype_size(part.dtype);
  }
}

void conv_pack_filter(const cpu_conv *conv, const void *filter, const conv_unit *unit,
                      unsigned char *packed) {
  const conv_schedule *s = &conv->schedule;
  const conv_operand *f = &conv->input[1];
  const conv_axis *h = unit->h, *w = unit->w;
  const bool forward = conv->shape.direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t to_result = f->stride[forward ? 0 : 1], to_source = f->stride[forward ? 1 : 0];
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const int64_t taps = h->taps * w->taps;
  for (int64_t c = 0; c < s->source_channels; c += s->channels) {
    const int64_t channels = cpu_min(s->channels, s->source_channels - c);
    const int64_t depth = channels * taps;
    const int64_t first = unit->group * per_group * f->stride[0] + unit->m * to_result +
                          c * to_source + h->filter_first * f->stride[2] +
                          w->filter_first * f->stride[3];
    const unsigned char *from = (const unsigned char *)filter + first * f->size;
    if (s->taps_inside) {
      const cpu_gemm_source source = {from, f->dtype, to_result, 1};
      pack_run(conv, packed, unit->m_count, depth, 0, depth, &source);
    } else {
      for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t at = tap / w->taps * h->filter_step * f->stride[2] +
                           tap % w->taps * w->filter_step * f->stride[3];
        const cpu_gemm_source source = {from + at * f->size, f->dtype, to_result, to_source};
        pack_run(conv, packed, unit->m_count, depth, tap * channels, channels, &source);
      }
    }
    packed += unit->m_count * depth * conv->element;
  }
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* The schedule of FORWARD and BY_DATA.
 *
 * A unit copies its part of the source, with padding, into the level-2 cache, and multiplies all
 * its windows by the packed filter. Tiles are as tall as that cache allows: neighbouring tiles then
 * share few rows that both copy. But they are not so tall that threads have no work. If even single
 * rows leave threads idle, result channels are divided as well.
 *
 * The schedule depends on no timing: results have the same bits in every run. */

enum {
  SUMS_BYTES = 256 << 10, /* of finished sums before the epilogue */
  CLOSE_K = 768,          /* rows of k per block: a strip of windows stays in the level-1 cache */
  UNITS_PER_THREAD = 4,
  UNIT_PRODUCTS = 1 << 17, /* multiplications that repay a separate unit */
  TASKS_PER_THREAD = 16
};

/* The maxima over the phases of one dimension. */
typedef struct extent {
  int64_t count, taps, splits, reach;
} extent;

static extent largest(const cpu_conv *conv, int dimension) {
  extent e = {.splits = 1};
  for (int64_t i = 0; i < conv->axis_count[dimension]; i++) {
    const conv_axis *axis = &conv->axes[dimension][i];
    e.count = cpu_max(e.count, axis->count);
    e.taps = cpu_max(e.taps, axis->taps);
    e.splits = cpu_max(e.splits, axis->splits);
    e.reach = cpu_max(e.reach, axis->reach);
  }
  return e;
}

static int64_t total_taps(const cpu_conv *conv, int dimension) {
  const conv_axis *last = &conv->axes[dimension][conv->axis_count[dimension] - 1];
  return last->taps_before + last->taps;
}

/* `true` if the filter's taps are contiguous in the order of k, so that one call packs them. */
static bool taps_lie_together(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t *stride = conv->input[1].stride;
  return c->direction == COMPUTE_CONVOLUTION_FORWARD && total_taps(conv, 0) == c->filter_size[0] &&
         total_taps(conv, 1) == c->filter_size[1] && stride[3] == 1 &&
         stride[2] == c->filter_size[1] && stride[1] == c->filter_size[0] * c->filter_size[1];
}

static void choose_bands(const cpu_conv *conv, const extent *h, const extent *w, conv_schedule *s) {
  const cpu_device *device = conv->head.device;
  const int64_t size = conv->element, phases = phase_count(conv);
  const int64_t outer = conv->shape.batch * conv->shape.groups;
  const int64_t wide = cpu_max((4 * SUMS_BYTES) / (s->result_channels * size), 64);
  s->columns = conv_equal_parts(w->count, wide);
  const int64_t row_bytes =
      s->source_channels * h->splits * w->splits * (s->columns + w->reach) * size;
  const int64_t fit = (int64_t)(device->l2_bytes / 2) / cpu_max(row_bytes, 1) - h->reach;
  int64_t rows = cpu_min(cpu_max(fit, 2 * h->reach + 1), h->count);
  const double products = (double)(outer * phases) * (double)h->count * (double)w->count *
                          (double)(h->taps * w->taps) *
                          (double)(s->source_channels * s->result_channels);
  double wanted = products / UNIT_PRODUCTS;
  if (wanted > UNITS_PER_THREAD * device->threads) wanted = UNITS_PER_THREAD * device->threads;
  if (device->threads == 1) wanted = 1;
  s->bands_w = cpu_divide_up(w->count, s->columns);
  const int64_t want = cpu_divide_up((int64_t)wanted, cpu_max(outer * s->bands_w, 1));
  if (want > 1) {
    const int64_t least = cpu_min(2 * h->reach + 1, h->count);
    rows = cpu_min(rows, cpu_max(cpu_divide_up(h->count, want), least));
  }
  if (phases > 1)
    rows = cpu_min(rows,
                   cpu_max(SUMS_BYTES / (s->result_channels * (s->columns + w->reach) * size), 1));
  s->rows = conv_equal_parts(h->count, rows);
  s->bands_h = cpu_divide_up(h->count, s->rows);
  const int64_t units = outer * s->bands_w * s->bands_h;
  int64_t blocks = 1;
  if (2 * units < (int64_t)wanted)
    blocks = cpu_min((int64_t)wanted / units, cpu_divide_up(s->result_channels, conv->type->rows));
  s->block_m = conv_equal_parts(s->result_channels, cpu_divide_up(s->result_channels, blocks));
  s->blocks_m = cpu_divide_up(s->result_channels, s->block_m);
}

/* Chooses the shape of the copy. Channels are an odd number of cache lines apart, so that the rows
 * of k in a strip do not compete for the same cache sets. */
static void choose_copy(const cpu_conv *conv, const extent *h, const extent *w, conv_schedule *s) {
  const int64_t size = conv->element, line = 64 / size;
  s->splits_w = w->splits;
  s->pitch = s->columns + w->reach;
  s->part = (s->rows + h->reach) * s->pitch;
  s->plane = (cpu_divide_up(h->splits * w->splits * s->part, line) | 1) * line;
  const int64_t behind = 4 * conv->type->columns; /* strips are read to their full width */
  s->copy_bytes = (uint64_t)cpu_round_up((s->source_channels * s->plane + behind) * size, 64);
}

static void choose_blocks(const cpu_conv *conv, const extent *h, const extent *w,
                          conv_schedule *s) {
  const int64_t size = conv->element, lanes = conv->type->lanes;
  const int64_t taps = cpu_max(h->taps * w->taps, 1);
  const int64_t filter_share = (int64_t)(conv->head.device->l2_bytes / 4);
  /* Independent of block_m, which depends on threads and images: sums have the same bits for all of
   * them. */
  const int64_t k = cpu_min(CLOSE_K, filter_share / (s->result_channels * size));
  s->channels = conv_equal_parts(cpu_max(s->source_channels, 1), k / taps);
  s->by_row = s->rows > 1 && cpu_round_up(s->columns, lanes) < s->pitch;
  const int64_t row = s->by_row ? cpu_round_up(s->columns, lanes) : s->pitch;
  s->chunk_rows = cpu_min(cpu_max(SUMS_BYTES / (s->block_m * row * size), 1), s->rows);
  s->sums_row = (cpu_divide_up(s->chunk_rows * row, lanes) | 1) * lanes;
  s->sums_bytes = (uint64_t)cpu_round_up(s->block_m * s->sums_row * size, 64);
  s->list_bytes = (uint64_t)cpu_round_up(taps * s->channels * (int64_t)sizeof(int64_t), 64);
  s->panel_bytes = (uint64_t)cpu_round_up(taps * s->channels * conv->type->columns * size, 64);
}

/* For small images, a unit has several whole images. With single images, the gaps between rows
 * would be many of the multiplied columns. Or rows of one vector would leave the micro-kernel too
 * few sums to hide the latency of additions. So panels are packed without gaps, over several
 * images, if there are enough result channels to repay that. */
static void choose_images(const cpu_conv *conv, conv_schedule *s) {
  enum { MOST = 4, LEAST_TILES = 4, LEAST_SUMS = 8 };
  const cpu_gemm_type *type = conv->type;
  const int64_t places = s->rows * s->columns, bytes = s->block_m * places * conv->element;
  const int64_t copied = (int64_t)s->copy_bytes, batch = conv->shape.batch;
  s->images = 1;
  if (s->bands_h * s->bands_w * s->blocks_m != 1) return;
  if (s->chunk_rows < s->rows || s->block_m <= LEAST_TILES * type->rows) return;
  int64_t images = cpu_min(MOST, SUMS_BYTES / bytes);
  images = cpu_min(images, (int64_t)(conv->head.device->l2_bytes / 2) / copied);
  images = cpu_min(images, batch / (UNITS_PER_THREAD * (int64_t)conv->head.device->threads));
  images = cpu_max(images, 1);
  const int64_t now = s->by_row ? s->rows * cpu_round_up(s->columns, type->lanes)
                                : cpu_round_up((s->rows - 1) * s->pitch + s->columns, type->lanes);
  const int64_t then = cpu_round_up(images * places, type->lanes);
  const bool narrow = s->by_row && s->columns <= type->lanes && type->rows < LEAST_SUMS;
  if (16 * then > (narrow ? 20 : 15) * images * now) return;
  s->dense = true;
  s->by_row = false;
  s->images = images;
  s->sums_row = (cpu_divide_up(images * places, type->lanes) | 1) * type->lanes;
  s->sums_bytes = (uint64_t)cpu_round_up(s->block_m * s->sums_row * conv->element, 64);
  s->copy_bytes = (uint64_t)(images * copied);
  s->panel_bytes += (uint64_t)cpu_round_up((int64_t)type->lanes * conv->element, 64);
}

static void make_schedule(cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  conv_schedule *s = &conv->schedule;
  const extent h = largest(conv, 0), w = largest(conv, 1);
  s->source_channels = (forward ? c->data_channels : c->result_channels) / c->groups;
  s->result_channels = (forward ? c->result_channels : c->data_channels) / c->groups;
  choose_bands(conv, &h, &w, s);
  choose_copy(conv, &h, &w, s);
  choose_blocks(conv, &h, &w, s);
  choose_images(conv, s);
  s->taps_inside = taps_lie_together(conv);
  s->worker_bytes = s->copy_bytes + s->sums_bytes + s->list_bytes + s->panel_bytes;
  if (phase_count(conv) > 1) {
    const int64_t all = s->rows * conv->axes[0]->step * s->columns * conv->axes[1]->step;
    s->worker_bytes +=
        (uint64_t)cpu_round_up(s->images * s->block_m * all * (int64_t)conv->element, 64);
  }
  s->packed_bytes =
      (uint64_t)cpu_round_up(total_taps(conv, 0) * total_taps(conv, 1) * c->groups *
                                 s->source_channels * s->result_channels * conv->element,
                             64);
  s->units = cpu_divide_up(c->batch, s->images) * c->groups * s->bands_h * s->bands_w * s->blocks_m;
  const int32_t threads = conv->head.device->threads;
  s->chunk = threads == 1 ? s->units : cpu_max(s->units / (TASKS_PER_THREAD * threads), 1);
  s->tasks = cpu_divide_up(s->units, cpu_max(s->chunk, 1));
}

compute_status conv_sweep_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                 const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  (void)descriptor;
  (void)reason;
  const compute_status status = conv_axes_find(conv);
  if (status) return status;
  const conv_schedule *s = &conv->schedule;
  make_schedule(conv);
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution %s %dx%d, %lld bands of %lldx%lld, %lld channels",
           conv->head.device->isa->name, conv->type->rows, conv->type->columns,
           (long long)(s->bands_h * s->bands_w), (long long)s->rows, (long long)s->columns,
           (long long)s->block_m);
  return COMPUTE_OK;
}
