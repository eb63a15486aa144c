/* SPDX-License-Identifier: MIT */
/* FORWARD and BY_DATA of small planes, tap by tap.
 *
 * With a 4 × 4 padded plane and a 3 × 3 filter, only 100 of 144 products read the plane; the others
 * multiply by zero. So each tap is multiplied separately, and only for results whose position it
 * reads within the plane. Its products are added to the sums of the preceding taps.
 *
 * The source of some images is copied by position: the channels of a position are contiguous, and
 * the images follow each other at each position. Neighbouring results of all images are then rows
 * of a matrix at one distance, and so are the positions that one tap reads for them. The other
 * factor is the filter, packed into panels of result channels. With a stride, the positions of one
 * residue modulo the stride form a part of the copy, so that neighbouring results read neighbours.
 *
 * Taps in one column of the filter that read neighbouring rows are summed in one product, as far as
 * their filters fit the cache. A result is the sum of its taps in a fixed order, by channels within
 * each tap, in every unit. */
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "gemm/gemm.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *packed, *workers;
} launch;

/* The work of one unit. */
typedef struct taps_unit {
  int64_t image, images, group;
  int64_t panel, panels; /* within the group */
} taps_unit;

/* Taps of one residue, from `first` on, `splits` apart. */
typedef struct piece {
  int64_t first, count;
} piece;

/* ---- Taps ------------------------------------------------------------------------------------ */

/* A tap that reads data for every result comes first, if there is one: it initializes the sums. */
static int64_t first_tap(const conv_axis *axis) {
  for (int64_t tap = 0; tap < axis->taps; tap++) {
    const conv_reach r = conv_reach_of(axis, tap);
    if (r.first == 0 && r.end == axis->count) return tap;
  }
  return 0;
}

static int64_t ordered_tap(int64_t first, int64_t i) {
  return i == 0 ? first : i - (i <= first);
}

/* Lists the taps along the height in the order of summation. */
static int32_t list_pieces(const conv_axis *axis, int64_t together, piece *pieces) {
  const int64_t first = first_tap(axis);
  int32_t count = 0;
  if (together == 1) {
    for (int64_t i = 0; i < axis->taps; i++) pieces[count++] = (piece){ordered_tap(first, i), 1};
    return count;
  }
  for (int64_t i = 0; i < axis->splits && i < axis->taps; i++) {
    const int64_t residue = (first + i) % axis->splits;
    for (int64_t tap = residue; tap < axis->taps; tap += together * axis->splits) {
      const int64_t rest = cpu_divide_up(axis->taps - tap, axis->splits);
      pieces[count++] = (piece){tap, cpu_min(rest, together)};
    }
  }
  return count;
}

/* Finds the taps of a piece that read data for a row of results: from *begin up to *end. */
static void find_taps(const conv_axis *axis, const piece *p, int64_t row, int64_t *begin,
                      int64_t *end) {
  int64_t i = 0;
  for (; i < p->count; i++) {
    const conv_reach r = conv_reach_of(axis, p->first + i * axis->splits);
    if (row >= r.first && row < r.end) break;
  }
  *begin = i;
  for (; i < p->count; i++) {
    const conv_reach r = conv_reach_of(axis, p->first + i * axis->splits);
    if (row < r.first || row >= r.end) break;
  }
  *end = i;
}

/* ---- The filter ------------------------------------------------------------------------------ */

typedef struct filter_steps {
  int64_t result, source;
  bool follow; /* a source channel's taps are contiguous and adjacent to the next channel's */
  bool together;
} filter_steps;

static filter_steps steps_of(const cpu_conv *conv) {
  const bool forward = conv->shape.direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t *stride = conv->input[1].stride, *size = conv->shape.filter_size;
  filter_steps f = {.result = stride[forward ? 0 : 1], .source = stride[forward ? 1 : 0]};
  f.together = (stride[3] == 1 || size[1] == 1) && (stride[2] == size[1] || size[0] == 1);
  f.follow = f.together && f.source == size[0] * size[1];
  return f;
}

/* Packs some source channels of a panel: transposes them by (channel, tap), and then reorders the
 * rows. */
static void pack_channels(const cpu_conv *conv, const unsigned char *from, int64_t first,
                          int64_t channels, int64_t columns, unsigned char *turned,
                          unsigned char *panel) {
  const conv_taps *s = &conv->taps;
  const conv_operand *f = &conv->input[1];
  const filter_steps steps = steps_of(conv);
  const int64_t *filter = conv->shape.filter_size;
  const int64_t taps = filter[0] * filter[1], width = conv->type->columns * (int64_t)conv->element;
  from += first * steps.source * f->size;
  if (steps.together) {
    const cpu_gemm_source source = {from, f->dtype, 1, steps.result};
    conv->type->pack_panels(turned, channels * taps, columns, &source);
  } else {
    for (int64_t tap = 0; tap < taps; tap++) {
      const int64_t at = tap / filter[1] * f->stride[2] + tap % filter[1] * f->stride[3];
      const cpu_gemm_source source = {from + at * f->size, f->dtype, steps.source, steps.result};
      conv->type->pack_panels(turned + tap * width, 1, columns, &source);
    }
  }
  for (int64_t i = 0; i < channels; i++)
    for (int64_t tap = 0; tap < taps; tap++)
      if (s->order[tap] >= 0)
        memcpy(panel + (s->order[tap] * s->channels + first + i) * width,
               turned + (i * taps + tap) * width, (size_t)width);
}

/* Panels are numbered by group, panel. */
static void pack_task(void *argument, int64_t task, int32_t worker) {
  enum { LINES = 3 * CONV_TAPS_MOST * CONV_TAPS_MOST, MOST_BYTES = LINES * 64 * 2 };
  unsigned char turned[MOST_BYTES] __attribute__((aligned(64)));
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const conv_taps *s = &conv->taps;
  const filter_steps steps = steps_of(conv);
  const int64_t column = task % s->panels * conv->type->columns, group = task / s->panels;
  const int64_t columns = cpu_min(conv->type->columns, s->results - column);
  const int64_t taps = conv->shape.filter_size[0] * conv->shape.filter_size[1];
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const int64_t together = steps.follow ? LINES / taps : 1;
  const int64_t first = group * per_group * conv->input[1].stride[0] + column * steps.result;
  const unsigned char *from = (const unsigned char *)l->pointers[1] + first * conv->input[1].size;
  unsigned char *panel =
      l->packed + task * s->taps * s->channels * conv->type->columns * conv->element;
  (void)worker;
  for (int64_t c = 0; c < s->channels; c += together)
    pack_channels(conv, from, c, cpu_min(together, s->channels - c), columns, turned, panel);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Multiplies one column tap and one piece of row taps for one panel; their filters begin at
 * `filter`. */
static void multiply_piece(const cpu_conv *conv, const conv_axis *h, const conv_axis *w,
                           int64_t images, const piece *p, int64_t tap_w, int64_t columns,
                           const unsigned char *copy, const unsigned char *filter, bool accumulate,
                           unsigned char *sums) {
  const conv_taps *s = &conv->taps;
  const int64_t size = conv->element, tap_bytes = s->channels * conv->type->columns * size;
  const conv_reach across = conv_reach_of(w, tap_w);
  const int64_t count = across.end - across.first;
  const bool whole = count == w->count && count == s->places.place[1] && across.base == 0;
  const int64_t share = p->count * tap_bytes / cpu_max(h->count, 1);
  cpu_gemm_block block = {.n = columns,
                          .k = s->channels,
                          .a_row = s->places.pixel,
                          .a_k = 1,
                          .b_k = conv->type->columns,
                          .c_row = s->row,
                          .accumulate = accumulate};
  if (count == 0) return;
  for (int64_t row = 0, rows; row < h->count; row += rows) {
    int64_t begin, end;
    find_taps(h, p, row, &begin, &end);
    rows = 1;
    for (int64_t b, e; whole && row + rows < h->count; rows++) {
      find_taps(h, p, row + rows, &b, &e);
      if (b != begin || e != end) break;
    }
    if (begin == end) continue;
    const conv_reach down = conv_reach_of(h, p->first + begin * h->splits);
    block.m = rows * count * images;
    block.runs = end - begin;
    if (block.runs > 1)
      block.a_run = (conv_reach_of(h, p->first + (begin + 1) * h->splits).base - down.base) *
                    s->places.place[1] * images * s->places.pixel;
    block.a = copy + conv_place(&s->places, images, s->places.part[0][down.residue],
                                s->places.part[1][across.residue], row + down.base,
                                across.first + across.base) *
                         size;
    block.b = filter + begin * tap_bytes;
    block.c = sums + (row * w->count + across.first) * images * s->row * size;
    block.ahead = filter + p->count * tap_bytes + row * share;
    block.ahead_bytes = rows * share;
    conv->type->multiply(&block);
  }
}

/* `true` if the first product initializes every result of a phase. */
static bool begins_with_all(const conv_axis *h, const conv_axis *w, const piece *p) {
  if (h->taps == 0 || w->taps == 0) return false;
  const conv_reach across = conv_reach_of(w, first_tap(w));
  if (across.first > 0 || across.end < w->count) return false;
  for (int64_t row = 0; row < h->count; row++) {
    int64_t begin, end;
    find_taps(h, p, row, &begin, &end);
    if (begin == end) return false;
  }
  return true;
}

static void multiply_phase(const launch *l, const taps_unit *unit, const conv_axis *h,
                           const conv_axis *w, const unsigned char *copy, int64_t tap,
                           unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const conv_taps *s = &conv->taps;
  const int64_t width = conv->type->columns, size = conv->element;
  const int64_t tap_bytes = s->channels * width * size, first = first_tap(w);
  piece pieces[CONV_TAPS_MOST];
  const int32_t count = list_pieces(h, s->together, pieces);
  const bool begins = begins_with_all(h, w, pieces);
  if (!begins) memset(sums, 0, (size_t)(h->count * w->count * unit->images * s->row * size));
  for (int64_t panel = 0; panel < unit->panels; panel++) {
    const int64_t number = unit->group * s->panels + unit->panel + panel;
    const int64_t columns = cpu_min(width, s->results - (unit->panel + panel) * width);
    const unsigned char *filter = l->packed + (number * s->taps + tap) * tap_bytes;
    for (int64_t i = 0; i < w->taps; i++)
      for (int32_t p = 0; p < count; p++) {
        multiply_piece(conv, h, w, unit->images, &pieces[p], ordered_tap(first, i), columns, copy,
                       filter, !begins || i > 0 || p > 0, sums + panel * width * size);
        filter += pieces[p].count * tap_bytes;
      }
  }
}

/* ---- Units ----------------------------------------------------------------------------------- */

static int64_t results_of(const cpu_conv *conv, const taps_unit *unit) {
  return cpu_min(unit->panels * conv->type->columns,
                 conv->taps.results - unit->panel * conv->type->columns);
}

/* Runs the epilogue over the sums of one phase, with channels last. */
static void finish_phase(const launch *l, const taps_unit *unit, const conv_axis *h,
                         const conv_axis *w, unsigned char *sums) {
  const conv_taps *s = &l->conv->taps;
  const int64_t channel = unit->group * s->results + unit->panel * l->conv->type->columns;
  const int64_t place = unit->images * s->row;
  const conv_box box = {.first = {unit->image, channel, h->first, w->first},
                        .count = {unit->images, results_of(l->conv, unit), h->count, w->count},
                        .step = {1, 1, h->step, w->step},
                        .sum_stride = {s->row, 1, w->count * place, place},
                        .sums = sums};
  conv_epilogue_run(l->conv, l->pointers, &box);
}

/* Copies the sums of an image's phases into the order of its positions. */
static void put_in_order(const cpu_conv *conv, const taps_unit *unit, int64_t image,
                         const unsigned char *sums, unsigned char *places) {
  const conv_taps *s = &conv->taps;
  const int64_t bytes = s->row * conv->element;
  sums += image * bytes;
  for (int64_t i = 0; i < conv->axis_count[0]; i++)
    for (int64_t j = 0; j < conv->axis_count[1]; j++) {
      const conv_axis *h = &conv->axes[0][i], *w = &conv->axes[1][j];
      for (int64_t row = 0; row < h->count; row++)
        for (int64_t column = 0; column < w->count; column++) {
          const int64_t to =
              (h->first + row * h->step) * conv->size[3] + w->first + column * w->step;
          memcpy(places + to * bytes, sums, (size_t)bytes);
          sums += unit->images * bytes;
        }
    }
}

/* Transposes an image's sums, `place` elements between positions, to planes. */
static void finish_planes(const launch *l, const taps_unit *unit, int64_t image,
                          const unsigned char *sums, int64_t place, unsigned char *planes) {
  const cpu_conv *conv = l->conv;
  const conv_taps *s = &conv->taps;
  const conv_operand *y = &conv->output[0];
  const int64_t places = conv->size[2] * conv->size[3], results = results_of(conv, unit);
  const int64_t channel = unit->group * s->results + unit->panel * conv->type->columns;
  const cpu_gemm_source source = {sums, conv->accumulate, 1, place};
  if (s->direct) {
    unsigned char *to = l->pointers[2 + conv->extra_count];
    to += ((unit->image + image) * y->stride[0] + channel * y->stride[1]) * y->size;
    conv->type->pack_rows(to, y->stride[1], results, places, &source);
    return;
  }
  conv->type->pack_rows(planes, places, results, places, &source);
  const conv_box box = {.first = {unit->image + image, channel, 0, 0},
                        .count = {1, results, conv->size[2], conv->size[3]},
                        .step = {1, 1, 1, 1},
                        .sum_stride = {0, places, conv->size[3], 1},
                        .sums = planes};
  conv_epilogue_run(conv, l->pointers, &box);
}

static void finish_images(const launch *l, const taps_unit *unit, unsigned char *sums,
                          unsigned char *room) {
  const cpu_conv *conv = l->conv;
  const conv_taps *s = &conv->taps;
  const bool phases = conv->axis_count[0] * conv->axis_count[1] > 1;
  for (int64_t i = 0; i < unit->images; i++) {
    if (phases) {
      put_in_order(conv, unit, i, sums, room + s->image_bytes);
      finish_planes(l, unit, i, room + s->image_bytes, s->row, room);
    } else {
      finish_planes(l, unit, i, sums + i * s->row * conv->element, unit->images * s->row, room);
    }
  }
}

/* Units are numbered by part of the images, group, block of panels. */
static taps_unit find_unit(const cpu_conv *conv, int64_t number) {
  const conv_taps *s = &conv->taps;
  taps_unit unit = {.panel = number % s->blocks * s->block};
  unit.panels = cpu_min(s->block, s->panels - unit.panel);
  number /= s->blocks;
  unit.group = number % conv->shape.groups;
  unit.image = number / conv->shape.groups * s->images;
  unit.images = cpu_min(s->images, conv->shape.batch - unit.image);
  return unit;
}

/* A worker's memory begins with the number of the copy in it. */
enum { COPIED_BYTES = 64, NO_COPY = -1 };

static int64_t *copied_by(const launch *l, int64_t worker) {
  return (int64_t *)(void *)(l->workers + (uint64_t)worker * l->conv->taps.worker_bytes);
}

static void copy_source(const launch *l, const taps_unit *unit, unsigned char *line,
                        unsigned char *copy) {
  const conv_taps *s = &l->conv->taps;
  const conv_operand *x = &l->conv->input[0];
  const int64_t at = unit->image * x->stride[0] + unit->group * s->channels * x->stride[1];
  const unsigned char *from = (const unsigned char *)l->pointers[0] + at * x->size;
  conv_places_copy(l->conv, x, &s->places, from, s->channels, unit->images, line, copy);
}

static void unit_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const conv_taps *s = &conv->taps;
  const taps_unit unit = find_unit(conv, task);
  int64_t *copied = copied_by(l, worker), tap = 0;
  unsigned char *copy = (unsigned char *)copied + COPIED_BYTES, *sums = copy + s->copy_bytes;
  unsigned char *room = sums + s->sums_bytes, *at = sums;
  if (*copied != task / s->blocks) copy_source(l, &unit, room, copy);
  *copied = task / s->blocks;
  for (int64_t i = 0; i < conv->axis_count[0]; i++)
    for (int64_t j = 0; j < conv->axis_count[1]; j++) {
      const conv_axis *h = &conv->axes[0][i], *w = &conv->axes[1][j];
      multiply_phase(l, &unit, h, w, copy, tap, at);
      if (!s->turned) finish_phase(l, &unit, h, w, at);
      tap += h->taps * w->taps;
      at += h->count * w->count * unit.images * s->row * conv->element;
    }
  if (s->turned) finish_images(l, &unit, sums, room);
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_taps *s = &conv->taps;
  cpu_device *device = kernel->device;
  const int64_t threads = s->units == 1 ? 1 : device->threads;
  const uint64_t workers = (uint64_t)threads * s->worker_bytes, bytes = workers + s->packed_bytes;
  launch l = {.conv = conv, .pointers = pointers};
  l.workers = cpu_workspace_acquire(device, bytes);
  if (!l.workers) return cpu_out_of_memory(device, bytes);
  l.packed = l.workers + workers;
  for (int64_t i = 0; i < threads; i++) *copied_by(&l, i) = NO_COPY;
  cpu_parallel(device, conv->shape.groups * s->panels, pack_task, &l);
  cpu_parallel(device, s->units, unit_task, &l);
  cpu_workspace_return(device, l.workers);
  return COMPUTE_OK;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

enum {
  LEAST_CHANNELS = 32,
  UNITS_PER_THREAD = 4,
};

/* Numbers the filter's taps in the order of multiply_phase. */
static void choose_order(const cpu_conv *conv, conv_taps *s) {
  const int64_t width = conv->shape.filter_size[1];
  const int64_t bytes = s->channels * conv->type->columns * (int64_t)conv->element;
  s->together = cpu_max(GEMM_CLOSE_CACHE / bytes, 1);
  memset(s->order, -1, sizeof s->order);
  s->taps = 0;
  for (int64_t i = 0; i < conv->axis_count[0]; i++)
    for (int64_t j = 0; j < conv->axis_count[1]; j++) {
      const conv_axis *h = &conv->axes[0][i], *w = &conv->axes[1][j];
      piece pieces[CONV_TAPS_MOST];
      const int32_t count = list_pieces(h, s->together, pieces);
      for (int64_t t = 0; t < w->taps; t++)
        for (int32_t p = 0; p < count; p++)
          for (int64_t u = 0; u < pieces[p].count; u++) {
            const int64_t tap_h = pieces[p].first + u * h->splits;
            const int64_t tap_w = ordered_tap(first_tap(w), t);
            s->order[(h->filter_first + tap_h * h->filter_step) * width + w->filter_first +
                     tap_w * w->filter_step] = (int16_t)s->taps++;
          }
    }
}

/* Chooses as many images as fit in the level-2 cache; several threads get more parts. Sums have the
 * same bits for any choice. */
static void choose_units(const cpu_conv *conv, conv_taps *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t l2 = (int64_t)conv->head.device->l2_bytes, threads = conv->head.device->threads;
  const int64_t size = conv->element, places = conv->size[2] * conv->size[3];
  const int64_t image = conv_places_elements(&s->places, 1) * size;
  const int64_t wanted = threads == 1 ? 1 : UNITS_PER_THREAD * threads;
  s->image_parts = cpu_divide_up(c->batch, cpu_max(l2 * 3 / 8 / cpu_max(image, 1), 1));
  s->image_parts = cpu_min(cpu_round_up(s->image_parts, threads), c->batch);
  s->images = cpu_divide_up(c->batch, s->image_parts);
  s->image_parts = cpu_divide_up(c->batch, s->images);
  const int64_t sums = s->images * places * conv->type->columns * size;
  s->blocks = cpu_divide_up(s->panels, cpu_max(l2 / 3 / sums, 1));
  s->blocks =
      cpu_min(cpu_max(s->blocks, cpu_divide_up(wanted, s->image_parts * c->groups)), s->panels);
  s->block = cpu_divide_up(s->panels, s->blocks);
  s->blocks = cpu_divide_up(s->panels, s->block);
  s->units = s->image_parts * c->groups * s->blocks;
  s->copy_bytes = cpu_whole_lines((uint64_t)(s->images * image));
}

static void choose_memory(const cpu_conv *conv, conv_taps *s) {
  const int64_t size = conv->element, width = conv->type->columns;
  const int64_t places = conv->size[2] * conv->size[3];
  const int64_t line = conv->axes[1]->source_size * s->places.pixel * size;
  const conv_operand *y = &conv->output[0];
  s->row = s->block * width;
  s->turned = y->stride[1] != 1;
  s->direct = conv->identity && y->stride[3] == 1 && y->stride[2] == conv->size[3];
  s->sums_bytes = cpu_whole_lines((uint64_t)(s->images * places * s->row * size));
  s->image_bytes = cpu_whole_lines((uint64_t)(places * s->row * size));
  const uint64_t room = cpu_whole_lines((uint64_t)cpu_max(line, 2 * (int64_t)s->image_bytes));
  s->worker_bytes = COPIED_BYTES + s->copy_bytes + s->sums_bytes + room;
  s->packed_bytes = cpu_whole_lines(
      (uint64_t)(conv->shape.groups * s->panels * s->taps * s->channels * width * size));
}

/* Results of the largest phase. */
static int64_t phase_places(const cpu_conv *conv) {
  int64_t count[2] = {0, 0};
  for (int d = 0; d < 2; d++)
    for (int64_t i = 0; i < conv->axis_count[d]; i++)
      count[d] = cpu_max(count[d], conv->axes[d][i].count);
  return count[0] * count[1];
}

/* `true` if the distance between channels is a multiple of CLOSE_SETS: such planes compete for few
 * sets of the level-1 cache. */
static bool compete(const cpu_conv *conv, const int64_t size[2]) {
  enum { CLOSE_SETS = 4096 };
  return size[0] * size[1] * (int64_t)conv->element % CLOSE_SETS == 0;
}

/* `true` if transposing planes to channels and back pays: the planes are small, or do not fill
 * vectors of positions, or there are many channels. */
static bool pays(const cpu_conv *conv) {
  enum { MANY_CHANNELS = 128, SMALL = 256, MOST_PLACES = 1024, LINE = 64 };
  const compute_conv_attributes *c = &conv->shape;
  const int64_t places = phase_places(conv);
  const bool whole_lines = conv->type->lanes * (int64_t)conv->element == LINE;
  if (places > MOST_PLACES) return false;
  if (cpu_min(conv->taps.channels, conv->taps.results) >= MANY_CHANNELS) return true;
  if (!whole_lines && (compete(conv, c->data_size) || compete(conv, c->result_size))) return false;
  return places <= SMALL || conv->size[3] % conv->type->lanes != 0;
}

static bool suits(const cpu_conv *conv, const compute_kernel_descriptor *descriptor,
                  const char **reason) {
  const compute_conv_attributes *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  *reason = "it is not for gradients of the filter";
  if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER) return false;
  *reason = "constant filters have other ways";
  if (forward && descriptor->constant_inputs >> 1 & 1) return false;
  *reason = "results with channels last are rows already";
  if (forward && conv->output[0].stride[1] == 1 && c->result_channels > 1) return false;
  *reason = "operands of another type than the sums";
  for (int i = 0; i < 2; i++)
    if (conv->input[i].dtype != conv->accumulate) return false;
  *reason = "too few channels in a group";
  if (cpu_min(c->data_channels, c->result_channels) / c->groups < LEAST_CHANNELS) return false;
  *reason = "too large a filter or stride";
  for (int d = 0; d < 2; d++)
    if (c->filter_size[d] > CONV_TAPS_MOST || c->stride[d] > CONV_TAPS_STRIDE) return false;
  return true;
}

compute_status conv_taps_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  const compute_conv_attributes *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  if (!suits(conv, descriptor, reason)) return COMPUTE_OK;
  const compute_status status = conv_axes_find(conv);
  if (status) return status;
  conv_taps *s = &conv->taps;
  s->channels = (forward ? c->data_channels : c->result_channels) / c->groups;
  s->results = (forward ? c->result_channels : c->data_channels) / c->groups;
  s->panels = cpu_divide_up(s->results, conv->type->columns);
  *reason = "planes for which turning them does not pay";
  if (!pays(conv)) return COMPUTE_OK;
  s->places.pixel = s->channels + 64 / (int64_t)conv->element;
  conv_places_choose(conv, &s->places);
  choose_order(conv, s);
  choose_units(conv, s);
  choose_memory(conv, s);
  *reason = "planes that do not fit a cache";
  if (s->copy_bytes > conv->head.device->l2_bytes / 2) return COMPUTE_OK;
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution taps %s %dx%d, %lld x %lld images, %lld x %lld channels",
           conv->head.device->isa->name, conv->type->rows, conv->type->columns,
           (long long)s->image_parts, (long long)s->images, (long long)s->blocks,
           (long long)(s->block * conv->type->columns));
  return COMPUTE_OK;
}
