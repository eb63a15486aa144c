/* SPDX-License-Identifier: MIT */
/* BY_FILTER: the gradient of the filter, a sum over all results.
 *
 * For one tap it is the product of y's gradient (result channels × results) with the tap's data
 * (results × data channels). The data of different taps differ only by their start. So a tile of
 * data is copied once, with its padding and with contiguous channels per position. Every tap reads
 * the micro-kernels' columns (neighbouring channels, and the channels of taps at neighbouring
 * positions) from the copy in place; the results' offsets are listed (b_rows). If a group has only
 * a few channels, columns would be narrow, and the sums are dot products along rows. */
#include <stdio.h>
#include <string.h>

#include "conv.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *sums, *workers;
  unsigned char *packed; /* both factors, for products tap by tap */
} launch;

/* Blocks are numbered by group, result channels, data channels. */
static void find_block(const cpu_conv *conv, int64_t number, conv_filter_unit *unit) {
  const conv_filter_schedule *s = &conv->filter;
  const int64_t results = conv->shape.result_channels / conv->shape.groups;
  const int64_t data = conv->shape.data_channels / conv->shape.groups;
  unit->c = number % s->blocks_c * s->block_c;
  unit->c_count = cpu_min(s->block_c, data - unit->c);
  number /= s->blocks_c;
  unit->m = number % s->blocks_m * s->block_m;
  unit->m_count = cpu_min(s->block_m, results - unit->m);
  unit->group = number / s->blocks_m;
}

static int64_t band_count(const cpu_conv *conv) {
  const conv_filter_schedule *s = &conv->filter;
  return cpu_divide_up(conv->shape.batch, s->images) * s->bands_h * s->bands_w;
}

/* Tiles are numbered by image, rows, columns. */
static void find_band(const cpu_conv *conv, int64_t number, conv_filter_unit *unit) {
  const conv_filter_schedule *s = &conv->filter;
  unit->column = number % s->bands_w * s->columns;
  unit->columns = cpu_min(s->columns, conv->axes[1]->count - unit->column);
  number /= s->bands_w;
  unit->row = number % s->bands_h * s->rows;
  unit->rows = cpu_min(s->rows, conv->axes[0]->count - unit->row);
  unit->image = number / s->bands_h * s->images;
  if (s->images > 1) unit->rows *= cpu_min(s->images, conv->shape.batch - unit->image);
}

/* ---- The copy ------------------------------------------------------------------------------ */

/* Finds the data range of the copy along one dimension: it starts at `base`; [first, end) is inside
 * the data. */
static void find_inside(const conv_axis *axis, int64_t result, int64_t count, int64_t *base,
                        int64_t *first, int64_t *end) {
  *base = result * axis->source_step + axis->offset_first;
  *first = *base >= 0 ? 0 : cpu_min(-*base, count);
  *end = cpu_max(cpu_min(axis->source_size - *base, count), *first);
}

/* Register tiles run along channels: positions are the outer dimension, with contiguous channels
 * per position. Dot products run along positions: channels are the outer dimension. In each row,
 * positions of one residue modulo the stride are contiguous, so that neighbouring results read
 * neighbours. */
static void copy_places(const cpu_conv *conv, const conv_filter_unit *unit,
                        const unsigned char *from, int64_t first, int64_t end, unsigned char *to) {
  const conv_operand *x = &conv->input[0];
  const int64_t step = unit->c_count * conv->element;
  const int64_t behind = conv->filter.width - end;
  const cpu_gemm_source source = {from, x->dtype, x->stride[3], x->stride[1]};
  memset(to, 0, (size_t)(first * step));
  memset(to + end * step, 0, (size_t)(behind * step));
  conv->type->pack_rows(to + first * step, unit->c_count, end - first, unit->c_count, &source);
}

static void copy_channels(const cpu_conv *conv, const conv_filter_unit *unit,
                          const unsigned char *from, int64_t first, int64_t end,
                          unsigned char *to) {
  const conv_filter_schedule *s = &conv->filter;
  const conv_operand *x = &conv->input[0];
  const int64_t size = conv->element, channel = s->height * s->width;
  const int64_t residues = conv->axes[1]->source_step, each = s->width / residues;
  for (int64_t c = 0; c < unit->c_count; c++)
    memset(to + c * channel * size, 0, (size_t)(s->width * size));
  for (int64_t r = 0; r < residues && first + r < end; r++) {
    const int64_t place = first + r, count = cpu_divide_up(end - place, residues);
    const cpu_gemm_source source = {from + r * x->stride[3] * x->size, x->dtype, x->stride[1],
                                    residues * x->stride[3]};
    conv->type->pack_rows(to + (place % residues * each + place / residues) * size, channel,
                          unit->c_count, count, &source);
  }
}

/* `true` for filters of one element whose results read separate positions, all inside the data:
 * only these positions are copied. */
static bool is_sparse(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  for (int d = 0; d < 2; d++)
    if (c->filter_size[d] != 1 || c->padding[d] != 0 || conv->axes[d]->taps != 1 ||
        (c->result_size[d] - 1) * c->stride[d] >= c->data_size[d])
      return false;
  return !conv->filter.dots;
}

static void copy_sparse(const cpu_conv *conv, const void *data, const conv_filter_unit *unit,
                        int64_t image, int64_t rows, unsigned char *copy) {
  const conv_operand *x = &conv->input[0];
  const int64_t step_h = conv->axes[0]->source_step, step_w = conv->axes[1]->source_step;
  const int64_t per_group = conv->shape.data_channels / conv->shape.groups;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t at = image * x->stride[0] + (unit->group * per_group + unit->c) * x->stride[1] +
                       (unit->row + i) * step_h * x->stride[2] +
                       unit->column * step_w * x->stride[3];
    const cpu_gemm_source source = {(const unsigned char *)data + at * x->size, x->dtype,
                                    step_w * x->stride[3], x->stride[1]};
    conv->type->pack_rows(copy + i * conv->filter.width * unit->c_count * conv->element,
                          unit->c_count, unit->columns, unit->c_count, &source);
  }
}

/* Copies the data of `rows` rows of results of one image. */
static void copy_image(const cpu_conv *conv, const void *data, const conv_filter_unit *unit,
                       int64_t image, int64_t rows, unsigned char *copy) {
  const conv_filter_schedule *s = &conv->filter;
  const conv_operand *x = &conv->input[0];
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t per_group = conv->shape.data_channels / conv->shape.groups;
  const int64_t row = s->width * (s->dots ? 1 : unit->c_count) * conv->element;
  const int64_t height = (rows - 1) * h->source_step + (h->taps - 1) * h->offset_step + 1;
  int64_t top, first_row, end_row, left, first, end;
  if (is_sparse(conv)) {
    copy_sparse(conv, data, unit, image, rows, copy);
    return;
  }
  find_inside(h, unit->row, height, &top, &first_row, &end_row);
  find_inside(w, unit->column, s->width, &left, &first, &end);
  for (int64_t i = 0; i < height; i++) {
    const bool inside = i >= first_row && i < end_row;
    const int64_t at = image * x->stride[0] + (unit->group * per_group + unit->c) * x->stride[1] +
                       (top + i) * x->stride[2] + (left + first) * x->stride[3];
    const unsigned char *from = (const unsigned char *)data + (inside ? at * x->size : 0);
    if (s->dots)
      copy_channels(conv, unit, from, first, inside ? end : first, copy + i * row);
    else
      copy_places(conv, unit, from, first, inside ? end : first, copy + i * row);
  }
}

static void copy_data(const cpu_conv *conv, const void *data, const conv_filter_unit *unit,
                      unsigned char *copy) {
  const conv_filter_schedule *s = &conv->filter;
  const int64_t image = s->height * s->width * unit->c_count * conv->element;
  for (int64_t i = 0; i * s->rows < unit->rows; i++)
    copy_image(conv, data, unit, unit->image + i, cpu_min(s->rows, unit->rows - i * s->rows),
               copy + i * image);
}

/* ---- Products ------------------------------------------------------------------------------ */

/* Packs y's gradient for some rows of results; result channels are the outer dimension. */
static void pack_factor(const cpu_conv *conv, const void *gradient, const conv_filter_unit *unit,
                        int64_t row, int64_t rows, unsigned char *packed) {
  const conv_filter_schedule *s = &conv->filter;
  const cpu_gemm_type *type = conv->type;
  const conv_operand *y = &conv->input[1];
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const int64_t size = conv->element, depth = rows * unit->columns;
  const bool slivers = type->pack_slivers && !s->dots;
  const int64_t tiles = slivers ? cpu_divide_up(unit->m_count, type->rows) : 1;
  int64_t m = 0;
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t tall = unit->m_count / tiles + (t < unit->m_count % tiles);
    for (int64_t i = 0; i < rows; i++) {
      const int64_t at = (unit->image + (row + i) / s->rows) * y->stride[0] +
                         (unit->group * per_group + unit->m + m) * y->stride[1] +
                         (unit->row + (row + i) % s->rows) * y->stride[2] +
                         unit->column * y->stride[3];
      const cpu_gemm_source source = {(const unsigned char *)gradient + at * y->size, y->dtype,
                                      y->stride[1], y->stride[3]};
      if (slivers)
        type->pack_slivers(packed + i * unit->columns * tall * size, tall, unit->columns, &source);
      else
        type->pack_rows(packed + i * unit->columns * size, depth, tall, unit->columns, &source);
    }
    packed += tall * depth * size;
    m += tall;
  }
}

/* The sums are a matrix: result channels × (row tap, column tap, data channel). */
static void multiply_tiles(const cpu_conv *conv, const conv_filter_unit *unit, int64_t row,
                           int64_t rows, const unsigned char *copy, const unsigned char *packed,
                           int64_t *list, unsigned char *sums) {
  const conv_filter_schedule *s = &conv->filter;
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t size = conv->element, channels = unit->c_count;
  const int64_t *filter = conv->shape.filter_size;
  for (int64_t i = row, k = 0; i < row + rows; i++)
    for (int64_t j = 0; j < unit->columns; j++, k++)
      list[k] = ((i / s->rows * s->height + i % s->rows * s->step[0]) * s->width + j * s->step[1]) *
                channels;
  /* Taps at neighbouring positions form one run of columns. */
  const int64_t run = w->offset_step == 1 ? w->taps : 1;
  cpu_gemm_block block = {
      .m = unit->m_count,
      .n = run * channels,
      .k = rows * unit->columns,
      .a = packed,
      .a_row = rows * unit->columns,
      .a_k = 1,
      .slivers = conv->type->pack_slivers != NULL,
      .b_rows = list,
      .c_row = filter[0] * filter[1] * channels,
      .copy = unit->m_count > conv->type->rows ? (unsigned char *)list + s->list_bytes : NULL,
      .accumulate = true};
  for (int64_t i = 0; i < h->taps; i++)
    for (int64_t j = 0; j < w->taps; j += run) {
      const int64_t place = i * h->offset_step * s->width + j * w->offset_step;
      const int64_t tap = (h->filter_first + i) * filter[1] + w->filter_first + j;
      block.b = copy + place * channels * size;
      block.c = sums + tap * channels * size;
      conv->type->convolve(&block);
    }
}

/* The sums are a matrix: result channels × (data channel, row tap, column tap). */
static void multiply_dots(const cpu_conv *conv, const conv_filter_unit *unit, int64_t row,
                          int64_t rows, const unsigned char *copy, const unsigned char *packed,
                          unsigned char *sums) {
  const conv_filter_schedule *s = &conv->filter;
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t size = conv->element, residues = w->source_step;
  const int64_t *filter = conv->shape.filter_size;
  const int64_t run = residues == 1 ? w->taps : 1;
  cpu_gemm_block block = {.m = unit->m_count,
                          .n = run,
                          .k = unit->columns,
                          .a_row = rows * unit->columns,
                          .b_column = w->offset_step,
                          .c_row = filter[0] * filter[1] * unit->c_count,
                          .accumulate = true};
  for (int64_t c = 0; c < unit->c_count; c++)
    for (int64_t i = 0; i < h->taps; i++)
      for (int64_t j = 0; j < w->taps; j += run) {
        const int64_t tap = (c * filter[0] + h->filter_first + i) * filter[1] + w->filter_first + j;
        const int64_t shift = j * w->offset_step;
        const int64_t column = shift % residues * (s->width / residues) + shift / residues;
        block.c = sums + tap * size;
        for (int64_t p = 0; p < rows; p++) {
          const int64_t line = c * s->height + (row + p) * h->source_step + i * h->offset_step;
          block.a = packed + p * unit->columns * size;
          block.b = copy + (line * s->width + column) * size;
          conv->type->dot(&block);
        }
      }
}

static void do_band(const launch *l, const conv_filter_unit *unit, unsigned char *scratch,
                    unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const conv_filter_schedule *s = &conv->filter;
  unsigned char *packed = scratch + s->copy_bytes;
  int64_t *list = (void *)(packed + s->factor_bytes);
  copy_data(conv, l->pointers[0], unit, scratch);
  for (int64_t row = 0; row < unit->rows; row += s->chunk_rows) {
    const int64_t rows = cpu_min(s->chunk_rows, unit->rows - row);
    pack_factor(conv, l->pointers[1], unit, row, rows, packed);
    if (s->dots)
      multiply_dots(conv, unit, row, rows, scratch, packed, sums);
    else
      multiply_tiles(conv, unit, row, rows, scratch, packed, list, sums);
  }
}

/* ---- Sums ----------------------------------------------------------------------------------- */

/* The buffer for the sums of one part of a block. A block with one part is finished as soon as it
 * is summed, while it is in the worker's caches; its buffer then serves the next block. */
static unsigned char *sums_of(const launch *l, int64_t block, int64_t part, int32_t worker) {
  const conv_filter_schedule *s = &l->conv->filter;
  const int64_t number = s->parts > 1 ? block * s->parts + part : worker;
  return l->sums + number * s->tile * l->conv->element;
}

/* Transposes one result channel's sums from (tap, data channel) to the filter's order, (data
 * channel, tap), so that the epilogue runs over contiguous elements. */
static void turn_sums(const cpu_conv *conv, int64_t channels, int64_t taps, unsigned char *sums,
                      unsigned char *turned) {
  const cpu_gemm_source source = {sums, conv->accumulate, 1, channels};
  conv->type->pack_rows(turned, taps, channels, taps, &source);
  memcpy(sums, turned, (size_t)(taps * channels * conv->element));
}

static void finish_block(const launch *l, const conv_filter_unit *unit, unsigned char *sums,
                         int32_t worker) {
  const cpu_conv *conv = l->conv;
  const conv_filter_schedule *s = &conv->filter;
  const int64_t *filter = conv->shape.filter_size;
  const int64_t taps = filter[0] * filter[1], channels = unit->c_count;
  const int64_t results = conv->shape.result_channels / conv->shape.groups;
  if (!s->dots && taps > 1)
    for (int64_t m = 0; m < unit->m_count; m++)
      turn_sums(conv, channels, taps, sums + m * taps * channels * conv->element,
                l->workers + (uint64_t)worker * s->worker_bytes);
  const conv_box box = {.first = {unit->group * results + unit->m, unit->c, 0, 0},
                        .count = {unit->m_count, channels, filter[0], filter[1]},
                        .step = {1, 1, 1, 1},
                        .sum_stride = {taps * channels, taps, filter[1], 1},
                        .sums = sums};
  conv_epilogue_run(conv, l->pointers, &box);
}

/* ---- Tasks --------------------------------------------------------------------------------- */

static void sum_part(const launch *l, const conv_filter_unit *block, int64_t part, int32_t worker,
                     unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const conv_filter_schedule *s = &conv->filter;
  const int64_t bands = band_count(conv);
  conv_filter_unit unit = *block;
  memset(sums, 0, (size_t)(s->tile * conv->element));
  if (conv->axes[0]->taps == 0 || conv->axes[1]->taps == 0) return;
  if (s->taps) {
    conv_filter_taps_sum(conv, l->pointers, block, part, l->packed, sums);
    return;
  }
  for (int64_t i = bands * part / s->parts; i < bands * (part + 1) / s->parts; i++) {
    find_band(conv, i, &unit);
    do_band(l, &unit, l->workers + (uint64_t)worker * s->worker_bytes, sums);
  }
}

static void sum_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const int64_t parts = l->conv->filter.parts;
  unsigned char *sums = sums_of(l, task / parts, task % parts, worker);
  conv_filter_unit block;
  find_block(l->conv, task / parts, &block);
  sum_part(l, &block, task % parts, worker, sums);
  if (parts == 1) finish_block(l, &block, sums, worker);
}

/* Adds the parts of one block, in order, and runs the epilogue. */
static void finish_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_filter_schedule *s = &l->conv->filter;
  unsigned char *sums = sums_of(l, task, 0, worker);
  conv_filter_unit block;
  find_block(l->conv, task, &block);
  l->conv->type->sum(sums, s->tile, 1, s->tile, sums, s->parts);
  finish_block(l, &block, sums, worker);
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_filter_schedule *s = &conv->filter;
  cpu_device *device = kernel->device;
  const int64_t blocks = conv->shape.groups * s->blocks_m * s->blocks_c;
  const uint64_t workers = blocks * s->parts == 1 && !s->taps ? 1 : (uint64_t)device->threads;
  const uint64_t each = (uint64_t)(s->tile * conv->element);
  const uint64_t sums = s->parts > 1 ? s->sums_bytes : cpu_whole_lines(workers * each);
  const uint64_t bytes = sums + workers * s->worker_bytes + s->packed_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  launch l = {conv, pointers, scratch, scratch + sums, scratch + sums + workers * s->worker_bytes};
  if (s->taps) conv_filter_taps_pack(conv, pointers, l.packed, l.workers);
  cpu_parallel(device, blocks * s->parts, sum_task, &l);
  if (s->parts > 1) cpu_parallel(device, blocks, finish_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* The schedule of BY_FILTER.
 *
 * Blocks of the filter share only their inputs, so they are the units if there are enough of them.
 * A small filter's gradient, summed over many results, is cut along the sum instead: parts are
 * computed separately and then added in order. The number of parts depends on shapes alone, not on
 * the threads, so that the sums have the same bits for any number of threads. */

enum {
  TILE_BYTES = 512 << 10, /* of one unit's sums */
  TALLEST = 112,          /* result channels of a unit: eight register tiles */
  WIDEST = 128,           /* data channels */
  CLOSE_K = 320,          /* results multiplied at a time */
  LONGEST_ROW = 512,      /* results of a row per copy */
  FEW = 4,                /* with so few channels on both sides: dot products */
  UNITS = 16,             /* blocks and parts, if there are enough results */
  PART_RESULTS = 256,     /* that repay a part's sums */
  PARTS_BYTES = 64 << 20
};

static int64_t block_count(const cpu_conv *conv) {
  return conv->shape.groups * conv->filter.blocks_m * conv->filter.blocks_c;
}

/* The desired number of parts of the sum. */
static int64_t wanted_parts(const cpu_conv *conv) {
  const int64_t places = conv->axes[0]->count * conv->axes[1]->count;
  const double results = (double)conv->shape.batch * (double)places;
  const int64_t wanted = cpu_divide_up(UNITS, cpu_max(block_count(conv), 1));
  return results < (double)(wanted * PART_RESULTS) ? (int64_t)(results / PART_RESULTS) : wanted;
}

static void choose_blocks(const cpu_conv *conv, conv_filter_schedule *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t size = conv->element;
  const int64_t results = c->result_channels / c->groups, data = c->data_channels / c->groups;
  const int64_t taps = c->filter_size[0] * c->filter_size[1];
  s->dots = results <= FEW && data <= FEW;
  s->block_m = conv_equal_parts(results, TALLEST);
  const int64_t whole = cpu_round_up(s->block_m, conv->type->rows); /* register tiles */
  if (!s->dots && whole <= TALLEST) s->block_m = cpu_min(whole, results);
  s->block_c =
      conv_equal_parts(data, cpu_max(cpu_min(TILE_BYTES / (s->block_m * size) / taps, WIDEST), 1));
  s->blocks_m = cpu_divide_up(results, s->block_m);
  s->blocks_c = cpu_divide_up(data, s->block_c);
  s->tile = s->block_m * s->block_c * taps;
}

/* Chooses tiles of results whose data fit a part of the level-2 cache. */
static void choose_bands(const cpu_conv *conv, conv_filter_schedule *s) {
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t size = conv->element;
  const int64_t taps_h = cpu_max(h->taps, 1), taps_w = cpu_max(w->taps, 1);
  const bool sparse = is_sparse(conv);
  s->step[0] = sparse ? 1 : h->source_step;
  s->step[1] = sparse ? 1 : w->source_step;
  s->columns = conv_equal_parts(w->count, LONGEST_ROW);
  s->width = (s->columns - 1) * s->step[1] + (taps_w - 1) * w->offset_step + 1;
  if (s->dots) s->width = cpu_round_up(s->width, w->source_step);
  const int64_t row_bytes = s->width * s->block_c * size;
  const int64_t window = (taps_h - 1) * h->offset_step + 1;
  const int64_t fit = (int64_t)(conv->head.device->l2_bytes / 3) / row_bytes - window;
  const int64_t least = cpu_divide_up(2 * window, s->step[0]);
  int64_t rows = cpu_max(fit / s->step[0] + 1, least);
  const int64_t bands =
      cpu_divide_up(wanted_parts(conv), cpu_max(conv->shape.batch, 1) *
                                            cpu_max(cpu_divide_up(w->count, s->columns), 1));
  if (bands > 1) rows = cpu_min(rows, cpu_max(cpu_divide_up(h->count, bands), 2 * least));
  s->rows = conv_equal_parts(h->count, rows);
  s->height = (s->rows - 1) * s->step[0] + window;
  s->chunk_rows = cpu_min(cpu_max(CLOSE_K / s->columns, 1), s->rows);
  s->bands_h = cpu_divide_up(h->count, s->rows);
  s->bands_w = cpu_divide_up(w->count, s->columns);
}

/* Combines small images, so that sums are read and written once for as many results as with large
 * images. */
static void choose_images(const cpu_conv *conv, conv_filter_schedule *s) {
  const int64_t places = cpu_max(s->rows * s->columns, 1), batch = conv->shape.batch;
  const int64_t copied = s->height * s->width * s->block_c * conv->element;
  s->images = 1;
  if (s->dots || s->bands_h * s->bands_w != 1) return;
  int64_t images = cpu_min(CLOSE_K / places, (int64_t)(conv->head.device->l2_bytes / 3) / copied);
  images = cpu_min(images, batch / cpu_max(wanted_parts(conv), 1));
  s->images = conv_equal_parts(batch, images);
  s->chunk_rows = cpu_min(cpu_max(CLOSE_K / s->columns, 1), s->images * s->rows);
}

static void make_schedule(cpu_conv *conv) {
  conv_filter_schedule *s = &conv->filter;
  const int64_t size = conv->element;
  choose_blocks(conv, s);
  choose_bands(conv, s);
  choose_images(conv, s);
  const int64_t blocks = block_count(conv);
  const int64_t bands = band_count(conv);
  int64_t parts = wanted_parts(conv);
  parts = cpu_min(parts, PARTS_BYTES / cpu_max(blocks * s->tile * size, 1));
  s->parts = cpu_max(cpu_min(parts, bands), 1);
  const int64_t behind = 4 * conv->type->columns; /* strips are read to their full width */
  const int64_t k = s->chunk_rows * s->columns;
  s->copy_bytes =
      (uint64_t)cpu_round_up((s->images * s->height * s->width * s->block_c + behind) * size, 64);
  s->factor_bytes = (uint64_t)cpu_round_up(s->block_m * k * size, 64);
  s->list_bytes = (uint64_t)cpu_round_up(k * (int64_t)sizeof(int64_t), 64);
  s->panel_bytes = (uint64_t)cpu_round_up(k * conv->type->columns * size, 64);
  s->worker_bytes = s->copy_bytes + s->factor_bytes + s->list_bytes + s->panel_bytes;
  const int64_t turned = s->tile / s->block_m * size;
  s->worker_bytes = (uint64_t)cpu_round_up(cpu_max((int64_t)s->worker_bytes, turned), 64);
  s->sums_bytes = (uint64_t)cpu_round_up(blocks * s->parts * s->tile * size, 64);
}

compute_status conv_filter_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  (void)descriptor;
  *reason = "it is for gradients of the filter only";
  if (conv->shape.direction != COMPUTE_CONVOLUTION_BY_FILTER) return COMPUTE_OK;
  const compute_status status = conv_axes_find(conv);
  if (status) return status;
  const conv_filter_schedule *s = &conv->filter;
  make_schedule(conv);
  conv_filter_taps_choose(conv);
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution by filter %s %s, %lldx%lld blocks of %lldx%lld channels%s",
           conv->head.device->isa->name,
           s->dots   ? "dot products"
           : s->taps ? "taps"
                     : "tiles",
           (long long)(conv->shape.groups * s->blocks_m), (long long)s->blocks_c,
           (long long)s->block_m, (long long)s->block_c, s->parts > 1 ? ", sum split" : "");
  return COMPUTE_OK;
}
