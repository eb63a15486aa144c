/* FORWARD and BY_DATA: windows of a padded copy of the source times the filter.
 *
 * Results of one band are numbered through its rows as the copy's elements are, so that `pitch` of
 * them make a row, of which the last few (as many as windows reach beyond a row) mean nothing. The
 * micro-kernels then see one long row of columns: column f of row k of the matrix of windows is the
 * copy's element b_rows[k] + f, which they read where it lies. What means nothing is computed, too,
 * and thrown away before the epilogue. Where that would be much, rows are multiplied one by one;
 * or, of small images, panels of columns that all mean something are copied together, across the
 * rows of several images. */
#include <stdio.h>

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
  unit->m_count = conv_minimum(s->block_m, s->result_channels - unit->m);
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

/* Units are numbered by image, phase, group, band of rows, band of columns, block of channels. */
static void find_unit(const cpu_conv *conv, int64_t number, conv_unit *unit) {
  const conv_schedule *s = &conv->schedule;
  const int64_t block = number % s->blocks_m;
  number /= s->blocks_m;
  unit->column = number % s->bands_w * s->columns;
  number /= s->bands_w;
  unit->row = number % s->bands_h * s->rows;
  number /= s->bands_h;
  const int64_t blocks = conv->axis_count[0] * conv->axis_count[1] * conv->shape.groups;
  find_block(conv, number % blocks * s->blocks_m + block, unit);
  unit->image = number / blocks * s->images;
  unit->images = conv_minimum(s->images, conv->shape.batch - unit->image);
  unit->rows = conv_minimum(s->rows, unit->h->count - unit->row);
  unit->columns = conv_minimum(s->columns, unit->w->count - unit->column);
}

enum { MOST_PIECES = 64 };

/* Where the windows of `count` results, numbered densely through the rows and images of a unit from
 * `result` on, lie in the copy: as pieces of a panel's row. Returns how many these are. */
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
    at += conv_minimum(unit->columns - column, conv->type->lanes);
  }
  return pieces;
}

/* One block of k: panel by panel, of windows alone. */
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
    block->n = conv_minimum(type->columns, results - j);
    const int64_t pieces = list_pieces(conv, unit, j, block->n, from, to);
    type->pack_pieces(panel, block->k, copy, block->b_rows, pieces, from, to);
    block->c = sums + j * conv->element;
    type->multiply(block);
  }
}

/* Sums of `rows` rows of results from `row` of the unit on. */
static void multiply(const launch *l, const conv_unit *unit, int64_t row, int64_t rows,
                     int64_t row_step, const unsigned char *copy, int64_t *list,
                     unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const conv_schedule *s = &conv->schedule;
  const int64_t size = conv->element, taps = unit->h->taps * unit->w->taps;
  const int64_t lanes = conv->type->lanes;
  const unsigned char *packed = l->packed + packed_before(conv, unit) * size;
  const int64_t together = s->by_row ? 1 : rows;
  const int64_t columns = conv_round_up((together - 1) * s->pitch + unit->columns, lanes);
  int64_t listed = 0, c = 0;
  /* One tile high, a strip is read once. */
  void *panel = unit->m_count > conv->type->rows ? (unsigned char *)list + s->list_bytes : NULL;
  do { /* once also without channels: the sums are zeros then */
    const int64_t channels = conv_minimum(s->channels, s->source_channels - c);
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

static void do_unit(const launch *l, const conv_unit *unit, bool cleared, unsigned char *scratch) {
  const cpu_conv *conv = l->conv;
  const conv_schedule *s = &conv->schedule;
  unsigned char *sums = scratch + s->copy_bytes;
  int64_t *list = (void *)(sums + s->sums_bytes);
  if (unit->rows <= 0 || unit->columns <= 0) return;
  conv_unit one = *unit;
  for (int64_t i = 0; i < unit->images && unit->h->taps > 0 && unit->w->taps > 0; i++) {
    one.image = unit->image + i;
    conv_copy_source(conv, l->pointers[0], &one, cleared,
                     scratch + i * ((int64_t)s->copy_bytes / s->images));
  }
  int64_t row_step = s->by_row ? conv_round_up(s->columns, conv->type->lanes) : s->pitch;
  if (s->dense) row_step = s->columns;
  for (int64_t row = 0; row < unit->rows; row += s->chunk_rows) {
    const int64_t rows = conv_minimum(s->chunk_rows, unit->rows - row);
    multiply(l, unit, row, rows, row_step, scratch, list, sums);
    conv_box box = {
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

static void sweep_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_schedule *s = &l->conv->schedule;
  unsigned char *scratch = l->workers + (uint64_t)worker * s->worker_bytes;
  const int64_t end = conv_minimum((task + 1) * s->chunk, s->units);
  conv_unit unit, last = {0};
  for (int64_t number = task * s->chunk; number < end; number++) {
    find_unit(l->conv, number, &unit);
    /* Neighbouring images often have their padding at the same places. */
    const bool cleared = unit.h == last.h && unit.w == last.w && unit.row == last.row &&
                         unit.column == last.column && unit.images <= last.images;
    do_unit(l, &unit, cleared, scratch);
    last = unit;
  }
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_schedule *s = &conv->schedule;
  cpu_device *device = kernel->device;
  const int64_t blocks =
      conv->axis_count[0] * conv->axis_count[1] * conv->shape.groups * s->blocks_m;
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

void conv_sweep_accept(cpu_conv *conv) {
  const conv_schedule *s = &conv->schedule;
  conv_schedule_make(conv);
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution %s %dx%d, %lld bands of %lldx%lld, %lld channels",
           conv->head.device->isa->name, conv->type->rows, conv->type->columns,
           (long long)(s->bands_h * s->bands_w), (long long)s->rows, (long long)s->columns,
           (long long)s->block_m);
}
