/* Whether Winograd's minimal filtering is allowed, possible and worth its transforms, and how it
 * cuts its work (conv_winograd.c). */
#include "conv.h"
#include "conv/isa/winograd_table.h"

enum {
  TILE = CPU_WINOGRAD_TILE,
  POSITIONS = CPU_WINOGRAD_POSITIONS,
  LEAST_CHANNELS = 16, /* fewer products would not repay turning patches and sums */
  LEAST_TILES = 40,    /* fewer would not repay turning the filters */
  MOST_CHANNELS = 64,  /* result channels of a block */
  LONGEST_RUN = 128,
  DEEP = 384, /* channels that are multiplied at a time */
  ODD = 16,   /* elements that keep positions from competing for places in a cache */
  SLACK = CONV_WINOGRAD_SLACK,
  RESULT_BYTES = 32768 /* of results between two calls of the epilogue */
};

static bool is_possible(const cpu_conv *conv) {
  const compute_convolution *c = &conv->shape;
  for (int d = 0; d < 2; d++)
    if (c->filter_size[d] != 3 || c->stride[d] != 1 || c->dilation[d] != 1) return false;
  return c->direction != COMPUTE_CONVOLUTION_BY_FILTER && conv->accumulate == COMPUTE_F32 &&
         conv->input[0].dtype == COMPUTE_F32 && conv->input[1].dtype == COMPUTE_F32 &&
         conv->input[0].stride[3] == 1;
}

/* The dimensions, in terms of what is read and what comes out. */
static void read_shape(const cpu_conv *conv, conv_winograd *w) {
  const compute_convolution *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  w->loops = conv->head.device->isa->gemm->winograd;
  w->source_channels = (forward ? c->data_channels : c->result_channels) / c->groups;
  w->result_channels = (forward ? c->result_channels : c->data_channels) / c->groups;
  for (int d = 0; d < 2; d++) {
    w->source_size[d] = forward ? c->data_size[d] : c->result_size[d];
    w->padding[d] = forward ? c->padding[d] : 2 - c->padding[d];
  }
  w->tiles_h = conv_divide_up(conv->size[2], TILE);
  w->tiles_w = conv_divide_up(conv->size[3], TILE);
  w->tiles = c->batch * w->tiles_h * w->tiles_w;
}

/* Runs are as long as the level-2 cache lets them be, and short enough to give every thread one;
 * then result channels are shared out, too. */
static void choose_runs(const cpu_conv *conv, conv_winograd *w) {
  const cpu_device *device = conv->head.device;
  const int64_t panel = conv->type->columns;
  w->block_m =
      conv_divide_up(w->result_channels, conv_divide_up(w->result_channels, MOST_CHANNELS));
  w->blocks_m = conv_divide_up(w->result_channels, w->block_m);
  w->tiles_m = conv_divide_up(w->block_m, conv->type->rows);
  const int64_t deep = (int64_t)device->l2_bytes / 8 / (w->block_m * 4);
  const int64_t deepest = conv_maximum(conv_minimum(deep, DEEP), 8);
  w->block_k = conv_divide_up(w->source_channels, conv_divide_up(w->source_channels, deepest));
  const int64_t tile_bytes = POSITIONS * (w->source_channels + w->block_m) * 4;
  const int64_t fit = (int64_t)device->l2_bytes * 3 / 4 / tile_bytes;
  int64_t run = conv_maximum(conv_minimum(fit, LONGEST_RUN) / panel, 1) * panel;
  const int64_t share = conv_divide_up(w->tiles * conv->shape.groups, device->threads);
  run = conv_minimum(run, conv_round_up(conv_divide_up(share, conv_divide_up(share, run)), panel));
  w->run = run;
  const int64_t units = conv->shape.groups * conv_divide_up(w->tiles, run);
  w->parts_m = conv_minimum(conv_divide_up(device->threads, units), w->blocks_m);
}

static void choose_memory(const cpu_conv *conv, conv_winograd *w) {
  const int64_t per_image = w->tiles_h * w->tiles_w, panel = conv->type->columns;
  w->pitch = w->run + w->loops->lanes;
  w->filter_position = conv_round_up(w->block_m * w->source_channels, ODD) + ODD;
  w->source_position = w->run * w->source_channels + ODD;
  w->sums_position = w->pitch * w->block_m + ODD;
  w->together =
      conv_minimum(conv_maximum(RESULT_BYTES / (w->run * TILE * TILE * 4), 1), w->block_m);
  const int64_t boxes = conv_minimum(w->run, 3 * (w->run / per_image + 2));
  w->source_elements = conv_round_up(POSITIONS * w->source_position + panel, ODD);
  w->sums_elements = conv_round_up(POSITIONS * w->sums_position, ODD);
  w->planes_elements = conv_round_up(POSITIONS * w->pitch, ODD);
  w->results_elements = conv_round_up(w->together * w->run * TILE * TILE + boxes * SLACK, ODD);
  const int64_t line_elements = conv_round_up(TILE * w->tiles_w + 2 * SLACK, ODD);
  w->worker_bytes = (uint64_t)(w->source_elements + w->sums_elements + w->planes_elements +
                               w->results_elements + line_elements) *
                    4;
  w->filter_bytes = (uint64_t)conv_round_up(
      conv->shape.groups * w->blocks_m * POSITIONS * w->filter_position * 4, 64);
}

bool conv_winograd_make(cpu_conv *conv) {
  if (!conv->winograd_allowed || !is_possible(conv)) return false;
  conv_winograd *w = &conv->winograd;
  read_shape(conv, w);
  if (w->source_channels < LEAST_CHANNELS || w->result_channels < LEAST_CHANNELS ||
      w->tiles < LEAST_TILES)
    return false;
  choose_runs(conv, w);
  choose_memory(conv, w);
  return true;
}
