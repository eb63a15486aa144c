/* How FORWARD and BY_DATA cut their work.
 *
 * A unit copies its part of the source, with padding, to where it stays in the level-2 cache, and
 * multiplies all windows in it with the packed filter. So bands are as tall as that cache allows,
 * which keeps the rows that neighbouring bands both copy few; but not so tall that threads have
 * nothing to do. Where even single rows leave threads idle, result channels are shared out, too.
 *
 * Nothing here depends on who is busy: results are the same bits at every run. */
#include "conv.h"

enum {
  SUMS_BYTES = 256 << 10, /* of finished sums that wait for the epilogue */
  CLOSE_K = 768,          /* rows of k per block: a strip of windows stays in the level-1 cache */
  UNITS_PER_THREAD = 4,
  UNIT_PRODUCTS = 1 << 17, /* multiplications that repay a unit of its own */
  TASKS_PER_THREAD = 16
};

/* The largest of what the phases of one dimension need. */
typedef struct extent {
  int64_t count, taps, splits, reach;
} extent;

static extent largest(const cpu_conv *conv, int dimension) {
  extent e = {.splits = 1};
  for (int64_t i = 0; i < conv->axis_count[dimension]; i++) {
    const conv_axis *axis = &conv->axes[dimension][i];
    e.count = conv_maximum(e.count, axis->count);
    e.taps = conv_maximum(e.taps, axis->taps);
    e.splits = conv_maximum(e.splits, axis->splits);
    e.reach = conv_maximum(e.reach, axis->reach);
  }
  return e;
}

static int64_t total_taps(const cpu_conv *conv, int dimension) {
  const conv_axis *last = &conv->axes[dimension][conv->axis_count[dimension] - 1];
  return last->taps_before + last->taps;
}

/* Equal parts of a count, the largest of which is at most `most`. */
static int64_t equal_parts(int64_t count, int64_t most) {
  const int64_t parts = conv_divide_up(count, conv_maximum(most, 1));
  return count > 0 ? conv_divide_up(count, parts) : 1;
}

/* The filter's taps lie behind each other as k runs, so that they are packed in one go. */
static bool taps_lie_together(const cpu_conv *conv) {
  const compute_convolution *c = &conv->shape;
  const int64_t *stride = conv->input[1].stride;
  return c->direction == COMPUTE_CONVOLUTION_FORWARD && total_taps(conv, 0) == c->filter_size[0] &&
         total_taps(conv, 1) == c->filter_size[1] && stride[3] == 1 &&
         stride[2] == c->filter_size[1] && stride[1] == c->filter_size[0] * c->filter_size[1];
}

static void choose_bands(const cpu_conv *conv, const extent *h, const extent *w, conv_schedule *s) {
  const cpu_device *device = conv->head.device;
  const int64_t size = conv->element, phases = conv->axis_count[0] * conv->axis_count[1];
  const int64_t outer = conv->shape.batch * conv->shape.groups * phases;
  const int64_t wide = conv_maximum((4 * SUMS_BYTES) / (s->result_channels * size), 64);
  s->columns = equal_parts(w->count, wide);
  const int64_t row_bytes =
      s->source_channels * h->splits * w->splits * (s->columns + w->reach) * size;
  const int64_t fit = (int64_t)(device->l2_bytes / 2) / conv_maximum(row_bytes, 1) - h->reach;
  int64_t rows = conv_minimum(conv_maximum(fit, 2 * h->reach + 1), h->count);
  const double products = (double)outer * (double)h->count * (double)w->count *
                          (double)(h->taps * w->taps) *
                          (double)(s->source_channels * s->result_channels);
  double wanted = products / UNIT_PRODUCTS;
  if (wanted > UNITS_PER_THREAD * device->threads) wanted = UNITS_PER_THREAD * device->threads;
  if (device->threads == 1) wanted = 1;
  s->bands_w = conv_divide_up(w->count, s->columns);
  const int64_t want = conv_divide_up((int64_t)wanted, conv_maximum(outer * s->bands_w, 1));
  if (want > 1) {
    const int64_t least = conv_minimum(2 * h->reach + 1, h->count);
    rows = conv_minimum(rows, conv_maximum(conv_divide_up(h->count, want), least));
  }
  s->rows = equal_parts(h->count, rows);
  s->bands_h = conv_divide_up(h->count, s->rows);
  const int64_t units = outer * s->bands_w * s->bands_h;
  int64_t blocks = 1;
  if (2 * units < (int64_t)wanted)
    blocks =
        conv_minimum((int64_t)wanted / units, conv_divide_up(s->result_channels, conv->type->rows));
  s->block_m = equal_parts(s->result_channels, conv_divide_up(s->result_channels, blocks));
  s->blocks_m = conv_divide_up(s->result_channels, s->block_m);
}

/* The shape of the copy. Channels begin an odd number of cache lines apart, so that the rows of k
 * that a strip reads do not compete for the same places in a cache. */
static void choose_copy(const cpu_conv *conv, const extent *h, const extent *w, conv_schedule *s) {
  const int64_t size = conv->element, line = 64 / size;
  s->splits_w = w->splits;
  s->pitch = s->columns + w->reach;
  s->part = (s->rows + h->reach) * s->pitch;
  s->plane = (conv_divide_up(h->splits * w->splits * s->part, line) | 1) * line;
  const int64_t behind = 4 * conv->type->columns; /* strips are read to their full width */
  s->copy_bytes = (uint64_t)conv_round_up((s->source_channels * s->plane + behind) * size, 64);
}

static void choose_blocks(const cpu_conv *conv, const extent *h, const extent *w,
                          conv_schedule *s) {
  const int64_t size = conv->element, lanes = conv->type->lanes;
  const int64_t taps = conv_maximum(h->taps * w->taps, 1);
  const int64_t filter_share = (int64_t)(conv->head.device->l2_bytes / 4);
  const int64_t k = conv_minimum(CLOSE_K, filter_share / (s->block_m * size));
  s->channels = equal_parts(conv_maximum(s->source_channels, 1), k / taps);
  s->by_row = s->rows > 1 && conv_round_up(s->columns, lanes) < s->pitch;
  const int64_t row = s->by_row ? conv_round_up(s->columns, lanes) : s->pitch;
  s->chunk_rows = conv_minimum(conv_maximum(SUMS_BYTES / (s->block_m * row * size), 1), s->rows);
  s->sums_row = (conv_divide_up(s->chunk_rows * row, lanes) | 1) * lanes;
  s->sums_bytes = (uint64_t)conv_round_up(s->block_m * s->sums_row * size, 64);
  s->list_bytes = (uint64_t)conv_round_up(taps * s->channels * (int64_t)sizeof(int64_t), 64);
  s->panel_bytes = (uint64_t)conv_round_up(taps * s->channels * conv->type->columns * size, 64);
}

/* Small images, of which whole ones are a unit: what lies between rows would be many of the columns
 * that are multiplied, so panels are put together without it, over several images, as long as
 * there are result channels enough to repay that. */
static void choose_images(const cpu_conv *conv, conv_schedule *s) {
  enum { MOST = 4, LEAST_TILES = 4 };
  const cpu_gemm_type *type = conv->type;
  const int64_t places = s->rows * s->columns, bytes = s->block_m * places * conv->element;
  const int64_t copied = (int64_t)s->copy_bytes, batch = conv->shape.batch;
  s->images = 1;
  if (conv->axis_count[0] * conv->axis_count[1] * s->bands_h * s->bands_w * s->blocks_m != 1)
    return;
  if (s->chunk_rows < s->rows || s->block_m <= LEAST_TILES * type->rows) return;
  int64_t images = conv_minimum(MOST, SUMS_BYTES / bytes);
  images = conv_minimum(images, (int64_t)(conv->head.device->l2_bytes / 2) / copied);
  images = conv_minimum(images, batch / (UNITS_PER_THREAD * (int64_t)conv->head.device->threads));
  images = conv_maximum(images, 1);
  const int64_t now = s->by_row ? s->rows * conv_round_up(s->columns, type->lanes)
                                : conv_round_up((s->rows - 1) * s->pitch + s->columns, type->lanes);
  const int64_t then = conv_round_up(images * places, type->lanes);
  if (16 * then > 15 * images * now) return;
  s->dense = true;
  s->by_row = false;
  s->images = images;
  s->sums_row = (conv_divide_up(images * places, type->lanes) | 1) * type->lanes;
  s->sums_bytes = (uint64_t)conv_round_up(s->block_m * s->sums_row * conv->element, 64);
  s->copy_bytes = (uint64_t)(images * copied);
  s->panel_bytes += (uint64_t)conv_round_up((int64_t)type->lanes * conv->element, 64);
}

void conv_schedule_make(cpu_conv *conv) {
  const compute_convolution *c = &conv->shape;
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
  s->packed_bytes =
      (uint64_t)conv_round_up(total_taps(conv, 0) * total_taps(conv, 1) * c->groups *
                                  s->source_channels * s->result_channels * conv->element,
                              64);
  s->units = conv_divide_up(c->batch, s->images) * c->groups * conv->axis_count[0] *
             conv->axis_count[1] * s->bands_h * s->bands_w * s->blocks_m;
  const int32_t threads = conv->head.device->threads;
  s->chunk = threads == 1 ? s->units : conv_maximum(s->units / (TASKS_PER_THREAD * threads), 1);
  s->tasks = conv_divide_up(s->units, conv_maximum(s->chunk, 1));
}
