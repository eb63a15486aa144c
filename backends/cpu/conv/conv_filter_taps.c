/* SPDX-License-Identifier: MIT */
/* BY_FILTER of small planes, tap by tap: the products of conv_filter.c, without the products with
 * padding. For a 4 × 4 plane these are a third.
 *
 * Both factors are packed once for all blocks of the filter, by position, image after image at each
 * position (conv_places): y's gradient into tiles of result channels, the data into panels of data
 * channels. The factors of one tap along a row of results, or along several whole rows, are then
 * one run each. */
#include <string.h>

#include "conv.h"

typedef struct packing {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *packed, *workers;
} packing;

/* Rows of tile t of the `tiles` tiles for `count` result channels. */
static int64_t tile_rows(int64_t count, int64_t tiles, int64_t t) {
  return count / tiles + (t < count % tiles);
}

static int64_t tile_first(int64_t count, int64_t tiles, int64_t t) {
  return count / tiles * t + cpu_min(t, count % tiles);
}

static int64_t group_tiles(const cpu_conv *conv) {
  return conv->filter.blocks_m * conv->filter.tiles;
}

static int64_t group_panels(const cpu_conv *conv) {
  return conv->filter.blocks_c * conv->filter.panels;
}

/* The panels follow the tiles; both are ordered by group, part of the images, number. */
static unsigned char *tile_at(const cpu_conv *conv, unsigned char *packed, int64_t group,
                              int64_t part, int64_t tile) {
  const conv_filter_schedule *s = &conv->filter;
  return packed + ((group * s->image_parts + part) * group_tiles(conv) + tile) * s->tile_bytes;
}

static unsigned char *panel_at(const cpu_conv *conv, unsigned char *packed, int64_t group,
                               int64_t part, int64_t panel) {
  const conv_filter_schedule *s = &conv->filter;
  const int64_t tiles = conv->shape.groups * s->image_parts * group_tiles(conv);
  return packed + tiles * s->tile_bytes +
         ((group * s->image_parts + part) * group_panels(conv) + panel) * s->panel_each;
}

static int64_t images_of(const cpu_conv *conv, int64_t part) {
  return cpu_min(conv->filter.images, conv->shape.batch - part * conv->filter.images);
}

/* ---- Packing --------------------------------------------------------------------------------- */

static void pack_tile(const packing *k, int64_t group, int64_t part, int64_t tile) {
  const cpu_conv *conv = k->conv;
  const conv_filter_schedule *s = &conv->filter;
  const conv_operand *y = &conv->input[1];
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const int64_t block = tile / s->tiles * s->block_m,
                count = cpu_min(s->block_m, per_group - block);
  const int64_t tiles = cpu_divide_up(count, conv->type->rows), t = tile % s->tiles;
  if (t >= tiles) return;
  conv_places places = s->gradient;
  places.pixel = tile_rows(count, tiles, t);
  const int64_t at = part * s->images * y->stride[0] +
                     (group * per_group + block + tile_first(count, tiles, t)) * y->stride[1];
  conv_places_copy(conv, y, &places, (const unsigned char *)k->pointers[1] + at * y->size,
                   places.pixel, images_of(conv, part), NULL,
                   tile_at(conv, k->packed, group, part, tile));
}

static void pack_panel(const packing *k, int64_t group, int64_t part, int64_t panel,
                       unsigned char *line) {
  const cpu_conv *conv = k->conv;
  const conv_filter_schedule *s = &conv->filter;
  const conv_operand *x = &conv->input[0];
  const int64_t per_group = conv->shape.data_channels / conv->shape.groups;
  const int64_t width = conv->type->columns;
  const int64_t block = panel / s->panels * s->block_c, first = panel % s->panels * width;
  const int64_t count = cpu_min(cpu_min(s->block_c, per_group - block) - first, width);
  if (count <= 0) return;
  unsigned char *to = panel_at(conv, k->packed, group, part, panel);
  if (count < width) memset(to, 0, (size_t)s->panel_each);
  const int64_t at =
      part * s->images * x->stride[0] + (group * per_group + block + first) * x->stride[1];
  conv_places_copy(conv, x, &s->data, (const unsigned char *)k->pointers[0] + at * x->size, count,
                   images_of(conv, part), line, to);
}

/* Tasks are numbered by group, part of the images, tile and then panel. */
static void pack_task(void *argument, int64_t task, int32_t worker) {
  const packing *k = argument;
  const conv_filter_schedule *s = &k->conv->filter;
  const int64_t tiles = group_tiles(k->conv), each = tiles + group_panels(k->conv);
  const int64_t number = task % each, part = task / each % s->image_parts;
  const int64_t group = task / each / s->image_parts;
  if (number < tiles)
    pack_tile(k, group, part, number);
  else
    pack_panel(k, group, part, number - tiles, k->workers + (uint64_t)worker * s->worker_bytes);
}

void conv_filter_taps_pack(const cpu_conv *conv, void *const *pointers, unsigned char *packed,
                           unsigned char *workers) {
  packing k = {conv, pointers, packed, workers};
  const int64_t each = group_tiles(conv) + group_panels(conv);
  cpu_parallel(conv->head.device, conv->shape.groups * conv->filter.image_parts * each, pack_task,
               &k);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* The epilogue's inputs for a block, which come from distant memory: the rows of an operand, one
 * per result channel, then the rows of the next operand. Prefetching them while the block is summed
 * took 6 % off the gradients of ResNet-18's filters (with AVX-512). */
typedef struct far_rows {
  const cpu_conv *conv;
  void *const *pointers;
  const conv_filter_unit *block;
  uint32_t operand;
  int64_t row, done; /* prefetched bytes of the row */
} far_rows;

/* The next bytes to prefetch, of rows without gaps: at most `steps` cache lines. */
static const void *ask(far_rows *f, int64_t steps, int64_t *bytes) {
  enum { LINE = 64 };
  const conv_filter_unit *b = f->block;
  *bytes = 0;
  if (f->operand >= f->conv->extra_count) return NULL;
  const conv_operand *e = &f->conv->extra[f->operand];
  const int64_t *filter = f->conv->shape.filter_size;
  const int64_t row = b->c_count * filter[0] * filter[1] * e->size;
  const int64_t results = f->conv->shape.result_channels / f->conv->shape.groups;
  const int64_t first = (b->group * results + b->m + f->row) * e->stride[0] + b->c * e->stride[1];
  const unsigned char *at =
      (const unsigned char *)f->pointers[2 + f->operand] + first * e->size + f->done;
  const bool is_row = e->stride[3] == 1 && e->stride[1] == filter[0] * filter[1];
  *bytes = is_row ? cpu_min(row - f->done, steps * LINE) : 0;
  f->done += *bytes;
  if (is_row && f->done < row) return at;
  f->done = 0;
  if (!is_row || ++f->row == b->m_count) {
    f->row = 0;
    f->operand++;
  }
  return at;
}

/* One tap of one panel, for a run of results of one row tile. */
typedef struct tap_run {
  far_rows *far;              /* or NULL */
  const unsigned char *panel; /* the run's data */
  int64_t place, count;       /* of results: the first, the count */
  int64_t images;             /* per position */
  unsigned char *sums;
  int64_t columns;
} tap_run;

static void multiply_run(const cpu_conv *conv, const conv_filter_unit *block, int64_t part,
                         unsigned char *packed, const tap_run *r) {
  const conv_filter_schedule *s = &conv->filter;
  const int64_t size = conv->element, *filter = conv->shape.filter_size;
  const int64_t tiles = cpu_divide_up(block->m_count, conv->type->rows);
  const int64_t first = block->m / s->block_m * s->tiles;
  cpu_gemm_block product = {.n = r->columns,
                            .k = r->count * r->images,
                            .a_row = 1,
                            .b = r->panel,
                            .b_k = conv->type->columns,
                            .c = r->sums,
                            .c_row = filter[0] * filter[1] * block->c_count,
                            .accumulate = true};
  for (int64_t t = 0; t < tiles; t++) {
    product.m = tile_rows(block->m_count, tiles, t);
    product.a_k = product.m;
    product.a = tile_at(conv, packed, block->group, part, first + t) +
                r->place * r->images * product.m * size;
    if (r->far) product.ahead = ask(r->far, product.k, &product.ahead_bytes);
    conv->type->multiply(&product);
    product.c = (unsigned char *)product.c + product.m * product.c_row * size;
  }
}

/* Multiplies one tap of one panel, for result rows `row` … `end` − 1. Rows where the tap reads data
 * at full width are multiplied together, as far as the panel's part stays in a close cache. */
static void multiply_tap(const cpu_conv *conv, const conv_filter_unit *block, int64_t part,
                         int64_t tap_h, int64_t tap_w, int64_t row, int64_t end,
                         const unsigned char *panel, unsigned char *packed, tap_run *r) {
  enum { CLOSE_K = 256 };
  const conv_places *p = &conv->filter.data;
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const conv_reach down = conv_reach_of(h, tap_h), across = conv_reach_of(w, tap_w);
  const int64_t count = across.end - across.first;
  const bool whole = count == w->count && count == p->place[1] && across.base == 0;
  const int64_t most = whole ? cpu_max(CLOSE_K / cpu_max(count * r->images, 1), 1) : 1;
  row = cpu_max(row, down.first);
  end = cpu_min(end, down.end);
  if (count == 0) return;
  for (int64_t rows; row < end; row += rows) {
    rows = cpu_min(most, end - row);
    r->panel =
        panel + conv_place(p, r->images, p->part[0][down.residue], p->part[1][across.residue],
                           row + down.base, across.first + across.base) *
                    (int64_t)conv->element;
    r->place = row * w->count + across.first;
    r->count = rows * count;
    multiply_run(conv, block, part, packed, r);
  }
}

/* Sums a row tile of the images of one part. */
static void multiply_band(const cpu_conv *conv, const conv_filter_unit *block, int64_t part,
                          int64_t row, int64_t end, unsigned char *packed, far_rows *far,
                          unsigned char *sums) {
  const conv_filter_schedule *s = &conv->filter;
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t width = conv->type->columns, size = conv->element;
  const int64_t first = block->c / s->block_c * s->panels;
  tap_run r = {.images = images_of(conv, part)};
  for (int64_t c = 0; c < block->c_count; c += width) {
    const unsigned char *panel = panel_at(conv, packed, block->group, part, first + c / width);
    r.columns = cpu_min(width, block->c_count - c);
    r.far = c + width >= block->c_count ? far : NULL;
    for (int64_t i = 0; i < h->taps; i++)
      for (int64_t j = 0; j < w->taps; j++) {
        const int64_t tap =
            (h->filter_first + i) * conv->shape.filter_size[1] + w->filter_first + j;
        r.sums = sums + (tap * block->c_count + c) * size;
        multiply_tap(conv, block, part, i, j, row, end, panel, packed, &r);
      }
  }
}

void conv_filter_taps_sum(const cpu_conv *conv, void *const *pointers,
                          const conv_filter_unit *block, int64_t part, unsigned char *packed,
                          unsigned char *sums) {
  const conv_filter_schedule *s = &conv->filter;
  const int64_t bands = s->image_parts * s->bands_h, height = conv->axes[0]->count;
  const int64_t end = bands * (part + 1) / s->parts;
  far_rows far = {.conv = conv, .pointers = pointers, .block = block};
  for (int64_t i = bands * part / s->parts; i < end; i++) {
    const int64_t row = i % s->bands_h * s->rows;
    multiply_band(conv, block, i / s->bands_h, row, cpu_min(row + s->rows, height), packed,
                  s->parts == 1 && i + 1 == end ? &far : NULL, sums);
  }
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* `true` for small planes, and for planes with many channels: packing everything in advance
 * pays. */
static bool suits(const cpu_conv *conv) {
  enum { LEAST_CHANNELS = 32, MANY_CHANNELS = 128, SMALL = 64, MOST_PLACES = 1024 };
  const compute_conv_attributes *c = &conv->shape;
  const int64_t places = c->result_size[0] * c->result_size[1];
  const int64_t channels = cpu_min(c->data_channels, c->result_channels) / c->groups;
  for (int i = 0; i < 2; i++)
    if (conv->input[i].dtype != conv->accumulate) return false;
  for (int d = 0; d < 2; d++)
    if (c->filter_size[d] > CONV_TAPS_MOST || c->stride[d] > CONV_TAPS_STRIDE) return false;
  return c->batch > 0 && conv->axes[0]->taps > 0 && conv->axes[1]->taps > 0 &&
         places <= MOST_PLACES && channels >= (places <= SMALL ? LEAST_CHANNELS : MANY_CHANNELS);
}

/* Chooses blocks of the filter whose sums stay in the level-2 cache. A row tile of the gradient's
 * tiles, and the matching part of a panel, fit beside them. Row tiles and parts depend on shapes
 * alone, because they affect the sums' bits. */
static void choose_blocks(const cpu_conv *conv, conv_filter_schedule *s) {
  enum { TALLEST = 72, WIDEST = 64, TILE_BYTES = 384 << 10 };
  const compute_conv_attributes *c = &conv->shape;
  const int64_t results = c->result_channels / c->groups, data = c->data_channels / c->groups;
  const int64_t taps = c->filter_size[0] * c->filter_size[1], width = conv->type->columns;
  const int64_t fitting = TILE_BYTES / (TALLEST * taps * (int64_t)conv->element);
  s->block_m = conv_equal_parts(results, TALLEST);
  s->block_c = cpu_min(cpu_round_up(conv_equal_parts(data, cpu_min(fitting, WIDEST)), width), data);
  s->blocks_m = cpu_divide_up(results, s->block_m);
  s->blocks_c = cpu_divide_up(data, s->block_c);
  s->tile = s->block_m * s->block_c * taps;
  s->tiles = cpu_divide_up(s->block_m, conv->type->rows);
  s->panels = cpu_divide_up(s->block_c, width);
}

static void choose_bands(const cpu_conv *conv, conv_filter_schedule *s) {
  enum { ROW_K = 256, UNITS = 16 };
  const int64_t height = conv->axes[0]->count, width = conv->axes[1]->count;
  s->images = conv_equal_parts(conv->shape.batch, ROW_K / width);
  s->image_parts = cpu_divide_up(conv->shape.batch, s->images);
  const int64_t row = width * s->images * s->block_m * (int64_t)conv->element;
  s->rows = conv_equal_parts(height, (int64_t)(conv->head.device->l2_bytes / 3) / row);
  s->bands_h = cpu_divide_up(height, s->rows);
  s->bands_w = 1;
  const int64_t blocks = conv->shape.groups * s->blocks_m * s->blocks_c;
  s->parts = cpu_min(cpu_divide_up(UNITS, blocks), s->image_parts * s->bands_h);
}

static void choose_memory(const cpu_conv *conv, conv_filter_schedule *s) {
  const int64_t size = conv->element, groups = conv->shape.groups, width = conv->type->columns;
  const int64_t places = conv->axes[0]->count * conv->axes[1]->count * s->images;
  /* The last block may have fewer, taller tiles than the others. */
  s->tile_bytes = cpu_round_up(places * conv->type->rows * size, 64);
  s->panel_each = cpu_round_up(conv_places_elements(&s->data, s->images) * size, 64);
  s->packed_bytes = (uint64_t)(groups * s->image_parts *
                               (s->blocks_m * s->tiles * s->tile_bytes +
                                s->blocks_c * s->panels * s->panel_each));
  const int64_t turned = s->tile / s->block_m, line = conv->axes[1]->source_size * width;
  s->worker_bytes = cpu_whole_lines((uint64_t)(cpu_max(turned, line) * size));
  s->sums_bytes =
      cpu_whole_lines((uint64_t)(groups * s->blocks_m * s->blocks_c * s->parts * s->tile * size));
}

void conv_filter_taps_choose(cpu_conv *conv) {
  enum { MOST_BYTES = 64 << 20 }; /* packed */
  conv_filter_schedule s = conv->filter;
  if (!suits(conv)) return;
  s.taps = true;
  s.dots = false;
  conv_places_choose(conv, &s.data);
  s.data.pixel = conv->type->columns;
  const int64_t height = conv->axes[0]->count, width = conv->axes[1]->count;
  s.gradient = (conv_places){
      .size = {height, width}, .step = {1, 1}, .place = {height, width}, .parts = {1, 1}};
  choose_blocks(conv, &s);
  choose_bands(conv, &s);
  choose_memory(conv, &s);
  if (s.packed_bytes <= MOST_BYTES) conv->filter = s;
}
