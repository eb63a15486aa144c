/* How BY_FILTER cuts its work.
 *
 * Blocks of the filter share nothing but what they read, so they are the units where there are
 * enough of them. A small filter's gradient, summed over many results, is cut along the sum
 * instead: parts are built apart and then added in their order, whoever built them. How many there
 * are depends on shapes alone, not on the threads, so that these do not show in the sums' bits. */
#include "conv.h"

enum {
  TILE_BYTES = 512 << 10, /* of one unit's sums */
  TALLEST = 112,          /* result channels of a unit: eight register tiles */
  WIDEST = 128,           /* data channels */
  CLOSE_K = 320,          /* results multiplied at a time */
  LONGEST_ROW = 512,      /* results of a row that are copied for at a time */
  FEW = 4,                /* so few channels on both sides are dot products */
  UNITS = 16,             /* blocks and parts, if results are enough for so many */
  PART_RESULTS = 256,     /* that repay a part's sums */
  PARTS_BYTES = 64 << 20
};

static int64_t block_count(const cpu_conv *conv) {
  return conv->shape.groups * conv->filter.blocks_m * conv->filter.blocks_c;
}

/* Into how many parts sums should be cut. */
static int64_t wanted_parts(const cpu_conv *conv) {
  const int64_t places = conv->axes[0]->count * conv->axes[1]->count;
  const double results = (double)conv->shape.batch * (double)places;
  const int64_t wanted = conv_divide_up(UNITS, conv_maximum(block_count(conv), 1));
  return results < (double)(wanted * PART_RESULTS) ? (int64_t)(results / PART_RESULTS) : wanted;
}

static int64_t equal_parts(int64_t count, int64_t most) {
  const int64_t parts = conv_divide_up(count, conv_maximum(most, 1));
  return count > 0 ? conv_divide_up(count, parts) : 1;
}

static void choose_blocks(const cpu_conv *conv, conv_filter_schedule *s) {
  const compute_convolution *c = &conv->shape;
  const int64_t size = conv->element;
  const int64_t results = c->result_channels / c->groups, data = c->data_channels / c->groups;
  const int64_t taps = c->filter_size[0] * c->filter_size[1];
  s->dots = results <= FEW && data <= FEW;
  s->block_m = equal_parts(results, TALLEST);
  s->block_c = equal_parts(
      data, conv_maximum(conv_minimum(TILE_BYTES / (s->block_m * size) / taps, WIDEST), 1));
  s->blocks_m = conv_divide_up(results, s->block_m);
  s->blocks_c = conv_divide_up(data, s->block_c);
  s->tile = s->block_m * s->block_c * taps;
}

/* Bands of results whose data fit a part of the level-2 cache. */
static void choose_bands(const cpu_conv *conv, conv_filter_schedule *s) {
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t size = conv->element;
  const int64_t taps_h = conv_maximum(h->taps, 1), taps_w = conv_maximum(w->taps, 1);
  s->columns = equal_parts(w->count, LONGEST_ROW);
  s->width = (s->columns - 1) * w->source_step + (taps_w - 1) * w->offset_step + 1;
  if (s->dots) s->width = conv_round_up(s->width, w->source_step);
  const int64_t row_bytes = s->width * s->block_c * size;
  const int64_t window = (taps_h - 1) * h->offset_step + 1;
  const int64_t fit = (int64_t)(conv->head.device->l2_bytes / 3) / row_bytes - window;
  const int64_t least = conv_divide_up(2 * window, h->source_step);
  int64_t rows = conv_maximum(fit / h->source_step + 1, least);
  const int64_t bands =
      conv_divide_up(wanted_parts(conv), conv_maximum(conv->shape.batch, 1) *
                                             conv_maximum(conv_divide_up(w->count, s->columns), 1));
  if (bands > 1)
    rows = conv_minimum(rows, conv_maximum(conv_divide_up(h->count, bands), 2 * least));
  s->rows = equal_parts(h->count, rows);
  s->height = (s->rows - 1) * h->source_step + window;
  s->chunk_rows = conv_minimum(conv_maximum(CLOSE_K / s->columns, 1), s->rows);
  s->bands_h = conv_divide_up(h->count, s->rows);
  s->bands_w = conv_divide_up(w->count, s->columns);
}

void conv_filter_schedule_make(cpu_conv *conv) {
  conv_filter_schedule *s = &conv->filter;
  const int64_t size = conv->element;
  choose_blocks(conv, s);
  choose_bands(conv, s);
  const int64_t blocks = block_count(conv);
  const int64_t bands = conv->shape.batch * s->bands_h * s->bands_w;
  int64_t parts = wanted_parts(conv);
  parts = conv_minimum(parts, PARTS_BYTES / conv_maximum(blocks * s->tile * size, 1));
  s->parts = conv_maximum(conv_minimum(parts, bands), 1);
  const int64_t behind = 4 * conv->type->columns; /* strips are read to their full width */
  const int64_t k = s->chunk_rows * s->columns;
  s->copy_bytes = (uint64_t)conv_round_up((s->height * s->width * s->block_c + behind) * size, 64);
  s->factor_bytes = (uint64_t)conv_round_up(s->block_m * k * size, 64);
  s->list_bytes = (uint64_t)conv_round_up(k * (int64_t)sizeof(int64_t), 64);
  s->panel_bytes = (uint64_t)conv_round_up(k * conv->type->columns * size, 64);
  s->worker_bytes = s->copy_bytes + s->factor_bytes + s->list_bytes + s->panel_bytes;
  s->sums_bytes = (uint64_t)conv_round_up(blocks * s->parts * s->tile * size, 64);
}
