/* SPDX-License-Identifier: MIT */
/* FORWARD and BY_DATA of 3 × 3 filters by Winograd's minimal filtering, if the descriptor allows
 * its rounding: a quarter of the products (isa/conv_table.h).
 *
 * The tiles of all images are numbered in one sequence: by image, row of tiles, column. A unit is a
 * run of them, for one group and some or all of its result channels. It transforms the patches of
 * its tiles into positions, channel by channel, and multiplies each position by the filters'
 * position, which is a matrix product. It transforms the sums into results, some channels at a
 * time, which the epilogue then reads from the cache. Runs are as long as the level-2 cache allows,
 * because the transformed filters pass through it once per unit.
 *
 * The results of a run are up to three boxes per image: a partial row of tiles, whole rows, another
 * partial row. BY_DATA flips the filter and exchanges its channels.
 *
 * The length of runs and the result channels of a unit depend on the number of threads. Neither
 * affects a sum. */
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "conv/isa/conv_table.h"

enum {
  TILE = CPU_WINOGRAD_TILE,
  PATCH = CPU_WINOGRAD_PATCH,
  POSITIONS = CPU_WINOGRAD_POSITIONS,
  RESULTS = TILE * TILE,
  SLACK = CONV_WINOGRAD_SLACK,
};

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  float *filters;
  unsigned char *workers;
} launch;

typedef struct unit {
  const launch *launch;
  int64_t group, first, count; /* tiles */
  float *source, *sums, *planes, *results, *line;
} unit;

/* Consecutive tiles that form a box of results: `rows` rows of `columns` tiles. */
typedef struct piece {
  int64_t image, row, column, rows, columns;
} piece;

/* The next piece of the tiles `first` … `end` − 1. */
static piece next_piece(const conv_winograd *w, int64_t first, int64_t end) {
  const int64_t per_image = w->tiles_h * w->tiles_w;
  piece p = {.image = first / per_image, .rows = 1};
  const int64_t within = first % per_image;
  p.row = within / w->tiles_w;
  p.column = within % w->tiles_w;
  const int64_t left = cpu_min(end - first, per_image - within);
  p.columns = cpu_min(w->tiles_w - p.column, left);
  if (p.columns == w->tiles_w) p.rows = left / w->tiles_w;
  return p;
}

/* ---- Filters ------------------------------------------------------------------------------- */

/* Filters are ordered by group, block of result channels, position; then as slivers for `multiply`,
 * one block of source channels after the other. */
static float *filters_of(const launch *l, int64_t group, int64_t m) {
  const conv_winograd *w = &l->conv->winograd;
  return l->filters + (group * w->blocks_m + m / w->block_m) * POSITIONS * w->filter_position;
}

/* Transforms the filters of one register tile of one block of result channels of one group. */
static void filter_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const conv_winograd *w = &conv->winograd;
  const conv_operand *f = &conv->input[1];
  (void)worker;
  const bool forward = conv->shape.direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t outer = f->stride[forward ? 0 : 1], inner = f->stride[forward ? 1 : 0];
  const int64_t tile = task % w->tiles_m, block = task / w->tiles_m % w->blocks_m;
  const int64_t group = task / w->tiles_m / w->blocks_m, m = block * w->block_m;
  const int64_t count = cpu_min(w->block_m, w->result_channels - m);
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const float *from = (const float *)l->pointers[1] + group * per_group * f->stride[0] + m * outer;
  int64_t taps[9];
  for (int64_t t = 0; t < 9; t++) {
    const int64_t tap = forward ? t : 8 - t;
    taps[t] = tap / 3 * f->stride[2] + tap % 3 * f->stride[3];
  }
  const int64_t tiles = cpu_divide_up(count, conv->type->rows), rest = count % tiles;
  if (tile >= tiles) return;
  const int64_t rows = count / tiles + (tile < rest);
  const int64_t row = tile * (count / tiles) + cpu_min(tile, rest);
  for (int64_t c = 0; c < w->source_channels; c += w->block_k) {
    const int64_t depth = cpu_min(w->block_k, w->source_channels - c);
    w->loops->filter(from + row * outer + c * inner, rows, outer, depth, inner, taps,
                     filters_of(l, group, m) + c * count + row * depth, w->filter_position);
  }
}

/* ---- Source -------------------------------------------------------------------------------- */

/* Copies elements first … first + count − 1 of a source row, with zeros outside. */
static void take_line(const float *row, int64_t size, int64_t first, int64_t count, float *line) {
  const int64_t before = cpu_min(cpu_max(-first, 0), count);
  const int64_t end = cpu_max(cpu_min(size - first, count), before);
  for (int64_t i = 0; i < before; i++) line[i] = 0;
  if (end > before) memcpy(line + before, row + first + before, (size_t)(end - before) * 4);
  for (int64_t i = end; i < count; i++) line[i] = 0;
}

/* Splits the patches of one channel of the unit's tiles into planes. */
static void take_patches(const unit *u, const float *channel) {
  const cpu_conv *conv = u->launch->conv;
  const conv_winograd *w = &conv->winograd;
  const int64_t *stride = conv->input[0].stride;
  const int64_t end = u->first + u->count;
  int64_t done = 0;
  while (done < u->count) {
    const piece p = next_piece(w, u->first + done, end);
    const float *image = channel + p.image * stride[0];
    const int64_t length = TILE * p.columns + 2, left = p.column * TILE - w->padding[1];
    for (int64_t row = 0; row < p.rows; row++) {
      for (int64_t i = 0; i < PATCH; i++) {
        const int64_t h = (p.row + row) * TILE - w->padding[0] + i;
        const bool inside = h >= 0 && h < w->source_size[0];
        take_line(image + (inside ? h * stride[2] : 0), inside ? w->source_size[1] : 0, left,
                  length, u->line);
        w->loops->split(u->line, cpu_round_up(p.columns, w->loops->lanes),
                        u->planes + i * PATCH * w->pitch + done, w->pitch);
      }
      done += p.columns;
    }
  }
}

static void turn_source(const unit *u) {
  const cpu_conv *conv = u->launch->conv;
  const conv_winograd *w = &conv->winograd;
  const int64_t columns = conv->type->columns;
  const float *channel = (const float *)u->launch->pointers[0] +
                         u->group * w->source_channels * conv->input[0].stride[1];
  for (int64_t c = 0; c < w->source_channels; c++) {
    take_patches(u, channel);
    w->loops->source(u->planes, w->pitch, cpu_round_up(u->count, w->loops->lanes),
                     u->source + c * columns, w->source_position, columns,
                     columns * w->source_channels);
    channel += conv->input[0].stride[1];
  }
}

/* ---- Products ------------------------------------------------------------------------------ */

/* Multiplies all positions for `count` result channels from m on, a block of the filters. */
static void multiply(const unit *u, int64_t m, int64_t count) {
  const cpu_conv *conv = u->launch->conv;
  const conv_winograd *w = &conv->winograd;
  const int64_t columns = conv->type->columns;
  const float *filters = filters_of(u->launch, u->group, m);
  cpu_gemm_block block = {.m = count,
                          .n = cpu_round_up(u->count, w->loops->lanes),
                          .slivers = true,
                          .b_k = columns,
                          .b_column = columns * w->source_channels,
                          .c_row = w->pitch};
  for (int64_t p = 0; p < POSITIONS; p++)
    for (int64_t c = 0; c < w->source_channels; c += w->block_k) {
      block.k = cpu_min(w->block_k, w->source_channels - c);
      block.a = filters + p * w->filter_position + c * count;
      block.b = u->source + p * w->source_position + c * columns;
      block.c = u->sums + p * w->sums_position;
      block.accumulate = c > 0;
      conv->type->multiply(&block);
    }
}

/* ---- Results ------------------------------------------------------------------------------- */

/* Joins tiles row by row: the next row overwrites the elements that vectors store past a row. */
static void join_piece(const conv_winograd *w, const piece *p, const float *planes, float *results,
                       int64_t row_step) {
  for (int64_t row = 0; row < p->rows; row++)
    for (int64_t i = 0; i < TILE; i++) {
      w->loops->join(planes + i * TILE * w->pitch + row * p->columns, w->pitch,
                     cpu_round_up(p->columns, w->loops->lanes), results);
      results += row_step;
    }
}

static void finish_piece(const unit *u, const piece *p, int64_t m, int64_t count, float *results,
                         int64_t channel_step) {
  const cpu_conv *conv = u->launch->conv;
  const conv_winograd *w = &conv->winograd;
  conv_box box = {
      .first = {p->image, u->group * w->result_channels + m, p->row * TILE, p->column * TILE},
      .count = {1, count, cpu_min(p->rows * TILE, conv->size[2] - p->row * TILE),
                cpu_min(p->columns * TILE, conv->size[3] - p->column * TILE)},
      .step = {1, 1, 1, 1},
      .sum_stride = {0, channel_step, p->columns * TILE, 1},
      .sums = (unsigned char *)results,
  };
  conv_epilogue_run(conv, u->launch->pointers, &box);
}

/* Transforms the sums of `count` channels, from `sums` on, into results. Each piece has the results
 * of all channels together. */
static void turn_results(const unit *u, int64_t m, int64_t count, const float *sums) {
  const conv_winograd *w = &u->launch->conv->winograd;
  const int64_t end = u->first + u->count, tiles = cpu_round_up(u->count, w->loops->lanes);
  for (int64_t i = 0; i < count; i++) {
    w->loops->result(sums + i * w->pitch, w->sums_position, tiles, u->planes, w->pitch);
    float *results = u->results;
    for (int64_t done = 0; done < u->count;) {
      const piece p = next_piece(w, u->first + done, end);
      const int64_t step = p.rows * p.columns * RESULTS;
      join_piece(w, &p, u->planes + done, results + i * step, p.columns * TILE);
      results += count * step + SLACK;
      done += p.rows * p.columns;
    }
  }
  float *results = u->results;
  for (int64_t done = 0; done < u->count;) {
    const piece p = next_piece(w, u->first + done, end);
    const int64_t step = p.rows * p.columns * RESULTS;
    finish_piece(u, &p, m, count, results, step);
    results += count * step + SLACK;
    done += p.rows * p.columns;
  }
}

/* ---- Running ------------------------------------------------------------------------------- */

/* Units are numbered by group, run of tiles, part of the result channels. */
static void unit_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_winograd *w = &l->conv->winograd;
  unit u = {.launch = l};
  const int64_t part = task % w->parts_m, runs = cpu_divide_up(w->tiles, w->run);
  u.first = task / w->parts_m % runs * w->run;
  u.count = cpu_min(w->run, w->tiles - u.first);
  u.group = task / w->parts_m / runs;
  u.source = (float *)(void *)(l->workers + (uint64_t)worker * w->worker_bytes);
  u.sums = u.source + w->source_elements;
  u.planes = u.sums + w->sums_elements;
  u.results = u.planes + w->planes_elements;
  u.line = u.results + w->results_elements;
  turn_source(&u);
  const int64_t end = w->blocks_m * (part + 1) / w->parts_m;
  for (int64_t block = w->blocks_m * part / w->parts_m; block < end; block++) {
    const int64_t m = block * w->block_m;
    const int64_t count = cpu_min(w->block_m, w->result_channels - m);
    multiply(&u, m, count);
    for (int64_t i = 0; i < count; i += w->together)
      turn_results(&u, m + i, cpu_min(w->together, count - i), u.sums + i * w->pitch);
  }
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_winograd *w = &conv->winograd;
  cpu_device *device = kernel->device;
  const int64_t tasks = conv->shape.groups * cpu_divide_up(w->tiles, w->run) * w->parts_m;
  const uint64_t workers = tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t bytes = w->filter_bytes + workers * w->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  launch l = {conv, pointers, (float *)(void *)scratch, scratch + w->filter_bytes};
  cpu_parallel(device, conv->shape.groups * w->blocks_m * w->tiles_m, filter_task, &l);
  cpu_parallel(device, tasks, unit_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* Checks that Winograd's minimal filtering is allowed, possible and worth its transforms, and makes
 * its schedule. */

enum {
  LEAST_CHANNELS = 16, /* fewer products would not repay the transforms of patches and sums */
  LEAST_TILES = 40,    /* fewer would not repay the transform of the filters */
  MOST_CHANNELS = 64,  /* result channels of a block */
  LONGEST_RUN = 128,
  DEEP = 384,          /* channels per product */
  ODD = 16,            /* elements that keep positions in different cache sets */
  RESULT_BYTES = 32768 /* of results between two calls of the epilogue */
};

static bool is_possible(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  for (int d = 0; d < 2; d++)
    if (c->filter_size[d] != 3 || c->stride[d] != 1 || c->dilation[d] != 1) return false;
  return c->direction != COMPUTE_CONVOLUTION_BY_FILTER && conv->accumulate == COMPUTE_F32 &&
         conv->input[0].dtype == COMPUTE_F32 && conv->input[1].dtype == COMPUTE_F32 &&
         conv->input[0].stride[3] == 1;
}

/* Sets the dimensions in terms of source and result. */
static void read_shape(const cpu_conv *conv, conv_winograd *w) {
  const compute_conv_attributes *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  w->loops = CPU_PICK(conv->head.device->isa, cpu_winograd);
  w->source_channels = (forward ? c->data_channels : c->result_channels) / c->groups;
  w->result_channels = (forward ? c->result_channels : c->data_channels) / c->groups;
  for (int d = 0; d < 2; d++) {
    w->source_size[d] = forward ? c->data_size[d] : c->result_size[d];
    w->padding[d] = forward ? c->padding[d] : 2 - c->padding[d];
  }
  w->tiles_h = cpu_divide_up(conv->size[2], TILE);
  w->tiles_w = cpu_divide_up(conv->size[3], TILE);
  w->tiles = c->batch * w->tiles_h * w->tiles_w;
}

/* Chooses runs as long as the level-2 cache allows, and short enough to give every thread one. If
 * threads still have no run, result channels are divided as well. */
static void choose_runs(const cpu_conv *conv, conv_winograd *w) {
  const cpu_device *device = conv->head.device;
  const int64_t panel = conv->type->columns;
  w->block_m = cpu_divide_up(w->result_channels, cpu_divide_up(w->result_channels, MOST_CHANNELS));
  w->blocks_m = cpu_divide_up(w->result_channels, w->block_m);
  w->tiles_m = cpu_divide_up(w->block_m, conv->type->rows);
  const int64_t deep = (int64_t)device->l2_bytes / 8 / (w->block_m * 4);
  const int64_t deepest = cpu_max(cpu_min(deep, DEEP), 8);
  w->block_k = cpu_divide_up(w->source_channels, cpu_divide_up(w->source_channels, deepest));
  const int64_t tile_bytes = POSITIONS * (w->source_channels + w->block_m) * 4;
  const int64_t fit = (int64_t)device->l2_bytes * 3 / 4 / tile_bytes;
  int64_t run = cpu_max(cpu_min(fit, LONGEST_RUN) / panel, 1) * panel;
  const int64_t share = cpu_divide_up(w->tiles * conv->shape.groups, device->threads);
  run = cpu_min(run, cpu_round_up(cpu_divide_up(share, cpu_divide_up(share, run)), panel));
  w->run = run;
  const int64_t units = conv->shape.groups * cpu_divide_up(w->tiles, run);
  w->parts_m = cpu_min(cpu_divide_up(device->threads, units), w->blocks_m);
}

static void choose_memory(const cpu_conv *conv, conv_winograd *w) {
  const int64_t per_image = w->tiles_h * w->tiles_w, panel = conv->type->columns;
  w->pitch = w->run + w->loops->lanes;
  w->filter_position = cpu_round_up(w->block_m * w->source_channels, ODD) + ODD;
  w->source_position = w->run * w->source_channels + ODD;
  w->sums_position = w->pitch * w->block_m + ODD;
  w->together = cpu_min(cpu_max(RESULT_BYTES / (w->run * TILE * TILE * 4), 1), w->block_m);
  const int64_t boxes = cpu_min(w->run, 3 * (w->run / per_image + 2));
  w->source_elements = cpu_round_up(POSITIONS * w->source_position + panel, ODD);
  w->sums_elements = cpu_round_up(POSITIONS * w->sums_position, ODD);
  w->planes_elements = cpu_round_up(POSITIONS * w->pitch, ODD);
  w->results_elements = cpu_round_up(w->together * w->run * TILE * TILE + boxes * SLACK, ODD);
  const int64_t line_elements = cpu_round_up(TILE * w->tiles_w + 2 * SLACK, ODD);
  w->worker_bytes = (uint64_t)(w->source_elements + w->sums_elements + w->planes_elements +
                               w->results_elements + line_elements) *
                    4;
  w->filter_bytes = (uint64_t)cpu_round_up(
      conv->shape.groups * w->blocks_m * POSITIONS * w->filter_position * 4, 64);
}

static const char *find_schedule(cpu_conv *conv) {
  if (!conv->winograd_allowed) return "the precision asked for does not allow it";
  if (!is_possible(conv)) return "it is for 3 x 3 filters and rows of f32, forward and by data";
  conv_winograd *w = &conv->winograd;
  read_shape(conv, w);
  if (w->source_channels < LEAST_CHANNELS || w->result_channels < LEAST_CHANNELS ||
      w->tiles < LEAST_TILES)
    return "too few channels or tiles to be worthwhile";
  choose_runs(conv, w);
  choose_memory(conv, w);
  return NULL;
}

compute_status conv_winograd_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                    const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  (void)descriptor;
  const conv_winograd *w = &conv->winograd;
  *reason = find_schedule(conv);
  if (*reason) return COMPUTE_OK;
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution %s Winograd 4x4, runs of %lld tiles, %lld channels",
           conv->head.device->isa->name, (long long)w->run, (long long)w->block_m);
  return COMPUTE_OK;
}
