/* SPDX-License-Identifier: MIT */
/* Direct convolution: one plane of results at a time.
 *
 * If the epilogue only stores, planes are computed directly in the output; otherwise in a buffer
 * that the epilogue then reads. BY_DATA with a stride computes the rows and columns of each phase
 * separately and interleaves them. */
#include <stdio.h>
#include <string.h>

#include "conv.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *workers, *sums; /* sums: for BY_FILTER */
} launch;

/* A worker's memory. */
typedef struct workroom {
  unsigned char *copy, *plane, *phase, *weights;
} workroom;

static void find_unit(const cpu_conv *conv, int64_t number, direct_unit *unit) {
  const struct conv_direct *s = conv->direct;
  unit->group = number % conv->shape.groups;
  number /= conv->shape.groups;
  unit->image = number % conv->shape.batch;
  unit->band = number / conv->shape.batch;
  unit->row = unit->band * s->rows;
  unit->rows = cpu_min(s->rows, s->count[0] - unit->row);
}

/* Packs the filter's elements for one plane of results, in the order of `places`. */
static void pack_weights(const cpu_conv *conv, const void *filter, const direct_unit *unit,
                         int64_t result, unsigned char *weights) {
  const struct conv_direct *s = conv->direct;
  const conv_operand *f = &conv->input[1];
  const bool forward = conv->shape.direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t to_result = f->stride[forward ? 0 : 1], to_source = f->stride[forward ? 1 : 0];
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const int64_t own = unit->group * per_group * f->stride[0] + result * to_result;
  for (int64_t a = 0; a < conv->axis_count[0]; a++)
    for (int64_t b = 0; b < conv->axis_count[1]; b++) {
      const conv_axis *h = &conv->axes[0][a], *w = &conv->axes[1][b];
      if (h->taps == 0 || w->taps == 0) continue;
      for (int64_t c = 0; c < s->sources; c++) {
        const int64_t first =
            own + c * to_source + h->filter_first * f->stride[2] + w->filter_first * f->stride[3];
        const cpu_gemm_source source = {(const unsigned char *)filter + first * f->size, f->dtype,
                                        h->filter_step * f->stride[2],
                                        w->filter_step * f->stride[3]};
        conv->type->pack_rows(weights, w->taps, h->taps, w->taps, &source);
        weights += h->taps * w->taps * conv->element;
      }
    }
}

/* Computes the rows of one phase of a plane. */
static void sweep_phase(const cpu_conv *conv, const workroom *room, int64_t number,
                        const conv_axis *h, const conv_axis *w, int64_t rows, unsigned char *to,
                        int64_t to_row) {
  const struct conv_direct *s = conv->direct;
  const cpu_direct_sweep sweep = {.rows = rows,
                                  .columns = w->count,
                                  .taps = s->sources * h->taps * w->taps,
                                  .source = room->copy,
                                  .source_row = s->step[0] * s->pitch,
                                  .place = s->places + number,
                                  .weight = room->weights + number * conv->element,
                                  .squares = s->squares,
                                  .result = to,
                                  .result_row = to_row};
  s->loops->sweep(&sweep);
}

/* Interleaves the columns of all phases: `rows` rows of `to`, to_row apart. */
static void join_columns(const cpu_conv *conv, const unsigned char *phases, int64_t rows,
                         unsigned char *to, int64_t to_row) {
  const struct conv_direct *s = conv->direct;
  const int64_t size = conv->element, count = conv->axis_count[1];
  const int64_t apart = (int64_t)s->phase_bytes / count;
  const conv_axis *w = conv->axes[1];
  for (int64_t i = 0; i < rows; i++, to += to_row * size) {
    if (count == 2 && w->step == 2) {
      const unsigned char *odd = phases + apart + i * w[1].count * size;
      s->loops->interleave(to, phases + i * w[0].count * size, odd, conv->size[3]);
      continue;
    }
    for (int64_t b = 0; b < count; b++)
      s->loops->spread(to + w[b].first * size, phases + b * apart + i * w[b].count * size,
                       w[b].count, w[b].step);
  }
}

/* Computes all phases: rows and columns of `to` from the row tile's first on. */
static void sweep_phases(const cpu_conv *conv, const workroom *room, const direct_unit *unit,
                         unsigned char *to, int64_t to_row) {
  const struct conv_direct *s = conv->direct;
  const int64_t size = conv->element, count = conv->axis_count[1];
  const int64_t apart = (int64_t)s->phase_bytes / count;
  int64_t number = 0;
  for (int64_t a = 0; a < conv->axis_count[0]; a++) {
    const conv_axis *h = &conv->axes[0][a];
    const int64_t rows = cpu_min(unit->rows, h->count - unit->row);
    for (int64_t b = 0; b < count; b++) {
      const conv_axis *w = &conv->axes[1][b];
      if (rows > 0) sweep_phase(conv, room, number, h, w, rows, room->phase + b * apart, w->count);
      number += s->sources * h->taps * w->taps;
    }
    join_columns(conv, room->phase, rows, to + h->first * to_row * size, h->step * to_row);
  }
}

/* `true` if planes can be computed in the output's memory. Narrow planes cannot: vectors would
 * write past their ends. */
static bool stores_in_place(const cpu_conv *conv, bool phases) {
  return conv->identity && conv->output[0].stride[3] == 1 &&
         (phases || conv->size[3] >= conv->direct->loops->lanes);
}

static void do_plane(const launch *l, const workroom *room, const direct_unit *unit,
                     int64_t result) {
  const cpu_conv *conv = l->conv;
  const struct conv_direct *s = conv->direct;
  const conv_operand *output = &conv->output[0];
  const bool phases = conv->axis_count[0] * conv->axis_count[1] > 1;
  const int64_t step = conv->axes[0]->step, columns = conv->size[3];
  const int64_t row = unit->row * step, end = cpu_min(row + unit->rows * step, conv->size[2]);
  const int64_t channel = unit->group * s->results + result;
  unsigned char *to = room->plane;
  int64_t to_row = columns;
  unsigned char *own = l->pointers[2 + conv->extra_count];
  own += (unit->image * output->stride[0] + channel * output->stride[1] + row * output->stride[2]) *
         output->size;
  const bool in_place = stores_in_place(conv, phases);
  if (in_place) {
    to = own;
    to_row = output->stride[2];
  }
  if (phases)
    sweep_phases(conv, room, unit, to, to_row);
  else
    sweep_phase(conv, room, 0, conv->axes[0], conv->axes[1], unit->rows, to, to_row);
  if (in_place) return;
  if (conv->identity && output->stride[3] == 1 && output->stride[2] == columns) {
    memcpy(own, to, (size_t)((end - row) * columns * conv->element));
    return;
  }
  conv_box box = {.first = {unit->image, channel, row, 0},
                  .count = {1, 1, end - row, columns},
                  .step = {1, 1, 1, 1},
                  .sum_stride = {0, 0, columns, 1},
                  .sums = to};
  conv_epilogue_run(conv, l->pointers, &box);
}

static void sweep_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const struct conv_direct *s = conv->direct;
  const int64_t end = cpu_min((task + 1) * s->chunk, s->units);
  workroom room = {.copy = l->workers + (uint64_t)worker * s->worker_bytes};
  room.plane = room.copy + s->copy_bytes;
  room.phase = room.plane + s->plane_bytes;
  room.weights = room.phase + s->phase_bytes;
  int64_t cleared = -1;
  for (int64_t number = task * s->chunk; number < end; number++) {
    direct_unit unit;
    find_unit(conv, number, &unit);
    conv_direct_copy(conv, l->pointers[0], &unit, &cleared, room.copy);
    for (int64_t result = 0; result < s->results; result++) {
      pack_weights(conv, l->pointers[1], &unit, result, room.weights);
      do_plane(l, &room, &unit, result);
    }
  }
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const struct conv_direct *s = conv->direct;
  cpu_device *device = kernel->device;
  const uint64_t workers = s->tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t bytes = workers * s->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  launch l = {conv, pointers, .workers = scratch};
  cpu_parallel(device, s->tasks, sweep_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

/* ---- BY_FILTER ------------------------------------------------------------------------------- */

/* BY_FILTER: each element of the filter's gradient is the product of a plane of y's gradient with a
 * window of the data, summed over images.
 *
 * Each element of the filter has a vector of partial sums; its lanes are added at the very end.
 * Images and row tiles are summed in a fixed number of parts, in order within each part, and the
 * parts are added in order. So the sums have the same bits for any number of threads. */

/* Vectors of sums per group. */
static int64_t group_sums(const cpu_conv *conv) {
  const struct conv_direct *s = conv->direct;
  return s->results * s->sources * s->taps;
}

static int64_t vector_bytes(const cpu_conv *conv) {
  return (int64_t)conv->direct->loops->lanes * conv->element;
}

/* Uses planes of y's gradient in place, if their rows have the computing type and are wide enough
 * to be read in whole vectors; otherwise copies them. */
static void find_factor(const cpu_conv *conv, const void *gradient, const direct_unit *unit,
                        int64_t first, int64_t count, unsigned char *room,
                        cpu_direct_correlation *c) {
  const struct conv_direct *s = conv->direct;
  const conv_operand *y = &conv->input[1];
  const unsigned char *from =
      (const unsigned char *)gradient +
      (unit->image * y->stride[0] + (unit->group * s->results + first) * y->stride[1] +
       unit->row * y->stride[2]) *
          y->size;
  c->factors = count;
  if (y->dtype == conv->accumulate && y->stride[3] == 1 && c->columns >= s->loops->lanes) {
    c->factor = from;
    c->factor_row = y->stride[2];
    c->factor_plane = y->stride[1];
    return;
  }
  c->factor = room;
  c->factor_row = c->columns;
  c->factor_plane = c->rows * c->columns;
  for (int64_t i = 0; i < count; i++) {
    const cpu_gemm_source source = {from + i * y->stride[1] * y->size, y->dtype, y->stride[2],
                                    y->stride[3]};
    conv->type->pack_rows(room + i * c->factor_plane * conv->element, c->columns, c->rows,
                          c->columns, &source);
  }
}

static void do_unit(const launch *l, const direct_unit *unit, unsigned char *copy,
                    unsigned char *room, unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const struct conv_direct *s = conv->direct;
  const int64_t plane = s->sources * s->taps;
  cpu_direct_correlation c = {.rows = unit->rows,
                              .columns = s->count[1],
                              .taps = plane,
                              .source = copy,
                              .source_row = s->step[0] * s->pitch,
                              .place = s->places,
                              .squares = s->squares,
                              .sums_plane = plane * s->loops->lanes};
  for (int64_t m = 0; m < s->results; m += CONV_DIRECT_TOGETHER) {
    find_factor(conv, l->pointers[1], unit, m, cpu_min(CONV_DIRECT_TOGETHER, s->results - m), room,
                &c);
    c.sums = sums + m * plane * vector_bytes(conv);
    s->loops->correlate(&c);
  }
}

/* Sums are ordered by group, then part. */
static void sum_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const struct conv_direct *s = conv->direct;
  const int64_t bytes = group_sums(conv) * vector_bytes(conv);
  const int64_t part = task % s->parts, images = conv->shape.batch, units = images * s->bands;
  unsigned char *sums = l->sums + task * bytes;
  unsigned char *copy = l->workers + (uint64_t)worker * s->worker_bytes;
  unsigned char *room = copy + s->copy_bytes;
  direct_unit unit = {.group = task / s->parts};
  int64_t cleared = -1;
  memset(sums, 0, (size_t)bytes);
  for (int64_t i = units * part / s->parts; i < units * (part + 1) / s->parts; i++) {
    unit.image = i % images;
    unit.band = i / images;
    unit.row = unit.band * s->rows;
    unit.rows = cpu_min(s->rows, s->count[0] - unit.row);
    conv_direct_copy(conv, l->pointers[0], &unit, &cleared, copy);
    do_unit(l, &unit, copy, room, sums);
  }
}

/* Adds the lanes and parts of one group, and runs the epilogue. The totals overwrite the first
 * sums. */
static void finish_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const cpu_conv *conv = l->conv;
  const struct conv_direct *s = conv->direct;
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  const int64_t count = group_sums(conv);
  unsigned char *totals = l->sums + task * s->parts * count * vector_bytes(conv);
  (void)worker;
  s->loops->total(totals, totals, count, s->parts);
  conv_box box = {.first = {task * s->results, 0, h->filter_first, w->filter_first},
                  .count = {s->results, s->sources, h->taps, w->taps},
                  .step = {1, 1, 1, 1},
                  .sum_stride = {s->sources * s->taps, s->taps, w->taps, 1},
                  .sums = totals};
  conv_epilogue_run(conv, l->pointers, &box);
}

static compute_status run_filter(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const struct conv_direct *s = conv->direct;
  cpu_device *device = kernel->device;
  const int64_t groups = conv->shape.groups, tasks = groups * s->parts;
  const uint64_t workers = tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t sums = (uint64_t)cpu_round_up(tasks * group_sums(conv) * vector_bytes(conv), 64);
  const uint64_t bytes = sums + workers * s->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  launch l = {conv, pointers, .workers = scratch + sums, .sums = scratch};
  cpu_parallel(device, tasks, sum_task, &l);
  cpu_parallel(device, groups, finish_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

/* ---- The schedule and the copy --------------------------------------------------------------- */

/* The schedule of direct convolution, and its copy of the data. */

enum {
  COPY_BYTES = 96 << 10,      /* of a copy, if row tiles keep a sensible height */
  MOST_COPY_BYTES = 1 << 20,  /* other implementations take larger ones */
  MOST_SUMS_BYTES = 16 << 20, /* of BY_FILTER */
  UNITS_PER_THREAD = 4,
  UNIT_PRODUCTS = 1 << 17, /* multiplications that repay a separate unit */
  TASKS_PER_THREAD = 16,
  PARTS = 16, /* units of BY_FILTER, if the filter has fewer blocks */
  FEW = 4
};

/* ---- Which shapes --------------------------------------------------------------------------- */

/* `true` if the taps are 3 × 3 neighbours in the copy, for the special micro-kernel. */
static bool has_squares(const cpu_conv *conv) {
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  return conv->axis_count[0] * conv->axis_count[1] == 1 && h->taps == 3 && w->taps == 3 &&
         h->offset_step == h->source_step && w->offset_step == 1 && w->source_step == 1;
}

/* `true` if a matrix product would waste more of its register tiles than this implementation loses
 * by rereading every window. Planes are stored one by one, which requires an output of planes. */
static bool is_thin(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t data = c->data_channels / c->groups, results = c->result_channels / c->groups;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t from = forward ? data : results, to = forward ? results : data;
  if (conv->accumulate != COMPUTE_F32 && conv->accumulate != COMPUTE_F64) return false;
  if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER) return data <= FEW;
  if (data == 1 && results == 1) return true;
  if (conv->output[0].stride[3] != 1) return false;
  return has_squares(conv) ? from < FEW || to == 1 : from * to <= FEW;
}

/* ---- The copy's shape ----------------------------------------------------------------------- */

static void find_extent(const cpu_conv *conv, int dimension, struct conv_direct *s) {
  int64_t low = 0, high = 0;
  bool any = false;
  for (int64_t i = 0; i < conv->axis_count[dimension]; i++) {
    const conv_axis *axis = &conv->axes[dimension][i];
    s->count[dimension] = cpu_max(s->count[dimension], axis->count);
    s->step[dimension] = axis->source_step;
    if (axis->taps == 0) continue;
    const int64_t last = axis->offset_first + (axis->taps - 1) * axis->offset_step;
    low = any ? cpu_min(low, axis->offset_first) : axis->offset_first;
    high = any ? cpu_max(high, last) : last;
    any = true;
  }
  s->low[dimension] = low;
  s->reach[dimension] = high - low;
}

static int64_t place_of_column(const struct conv_direct *s, int64_t column) {
  return column % s->residues * s->part + column / s->residues;
}

static int64_t copied_rows(const struct conv_direct *s, int64_t rows) {
  return (rows - 1) * s->step[0] + s->reach[0] + 1;
}

static void choose_copy(const cpu_conv *conv, struct conv_direct *s) {
  const int64_t line = 64 / conv->element;
  s->residues = s->step[1];
  s->part = s->count[1] + s->reach[1] / s->residues;
  s->pitch = s->residues * s->part;
  s->plane = (cpu_divide_up(copied_rows(s, s->rows) * s->pitch, line) | 1) * line;
  s->copy_bytes = (uint64_t)cpu_round_up((s->sources * s->plane + 2 * line) * conv->element, 64);
}

static void choose_rows(const cpu_conv *conv, struct conv_direct *s) {
  const compute_conv_attributes *c = &conv->shape;
  const bool by_filter = c->direction == COMPUTE_CONVOLUTION_BY_FILTER;
  const int64_t width = (s->count[1] + s->reach[1] / s->step[1]) * s->step[1];
  const int64_t row_bytes = width * s->sources * conv->element;
  const int64_t fit = (COPY_BYTES / row_bytes - s->reach[0]) / s->step[0];
  const int64_t least = cpu_max(2 * s->reach[0] / s->step[0] + 1, 8);
  int64_t rows = cpu_min(cpu_max(fit, least), s->count[0]);
  const int64_t outer = c->batch * c->groups, threads = conv->head.device->threads;
  const double products = (double)outer * (double)(s->sources * s->results * s->taps) *
                          (double)s->count[0] * (double)s->count[1];
  double wanted = products / UNIT_PRODUCTS;
  const int64_t most = by_filter ? PARTS : threads == 1 ? 1 : UNITS_PER_THREAD * threads;
  if (wanted > (double)most) wanted = (double)most;
  const int64_t want = cpu_divide_up((int64_t)wanted, outer);
  if (want > 1)
    rows = cpu_min(rows, cpu_max(cpu_divide_up(s->count[0], want), cpu_min(least, s->count[0])));
  s->bands = cpu_divide_up(s->count[0], rows);
  s->rows = cpu_divide_up(s->count[0], s->bands);
  s->bands = cpu_divide_up(s->count[0], s->rows);
}

static void list_places(const cpu_conv *conv, struct conv_direct *s) {
  int64_t *place = s->places;
  for (int64_t a = 0; a < conv->axis_count[0]; a++)
    for (int64_t b = 0; b < conv->axis_count[1]; b++) {
      const conv_axis *h = &conv->axes[0][a], *w = &conv->axes[1][b];
      for (int64_t c = 0; c < s->sources; c++)
        for (int64_t i = 0; i < h->taps; i++)
          for (int64_t j = 0; j < w->taps; j++)
            *place++ = c * s->plane +
                       (h->offset_first - s->low[0] + i * h->offset_step) * s->pitch +
                       place_of_column(s, w->offset_first - s->low[1] + j * w->offset_step);
    }
  s->squares = has_squares(conv);
}

static void choose_units(const cpu_conv *conv, struct conv_direct *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t size = conv->element, lanes = s->loops->lanes;
  const int32_t threads = conv->head.device->threads;
  const bool phases = conv->axis_count[0] * conv->axis_count[1] > 1;
  const int64_t rows = s->rows * conv->axis_count[0], width = s->count[1] * conv->axis_count[1];
  s->units = c->batch * c->groups * s->bands;
  s->chunk = threads == 1 ? s->units : cpu_max(s->units / (TASKS_PER_THREAD * threads), 1);
  s->tasks = cpu_divide_up(s->units, s->chunk);
  const int64_t planes = c->direction == COMPUTE_CONVOLUTION_BY_FILTER ? CONV_DIRECT_TOGETHER : 1;
  s->plane_bytes = (uint64_t)cpu_round_up((planes * rows * width + lanes) * size, 64);
  if (phases)
    s->phase_bytes =
        (uint64_t)(conv->axis_count[1] * cpu_round_up((s->rows * s->count[1] + lanes) * size, 64));
  s->weight_bytes = (uint64_t)cpu_round_up((s->taps * s->sources + 1) * size, 64);
  s->parts = cpu_min(cpu_max(cpu_divide_up(PARTS, c->groups), 1), c->batch * s->bands);
}

struct conv_direct *conv_direct_schedule(const cpu_conv *conv, bool *fits) {
  const compute_conv_attributes *c = &conv->shape;
  const bool by_data = c->direction == COMPUTE_CONVOLUTION_BY_DATA;
  struct conv_direct s = {0};
  *fits = false;
  if (c->batch == 0 || !is_thin(conv)) return NULL;
  for (int d = 0; d < 2; d++) find_extent(conv, d, &s);
  s.sources = (by_data ? c->result_channels : c->data_channels) / c->groups;
  s.results = (by_data ? c->data_channels : c->result_channels) / c->groups;
  if (s.sources == 0 || s.count[0] == 0 || s.count[1] == 0) return NULL;
  /* Limits the copy, so that the computations below cannot overflow. */
  const double columns = (double)s.count[1] + (double)(s.reach[1] / s.step[1]);
  if (s.step[0] > MOST_COPY_BYTES || s.reach[0] > MOST_COPY_BYTES ||
      columns * (double)s.step[1] * (double)s.sources * (double)conv->element > MOST_COPY_BYTES)
    return NULL;
  const conv_axis *h = &conv->axes[0][conv->axis_count[0] - 1];
  const conv_axis *w = &conv->axes[1][conv->axis_count[1] - 1];
  s.taps = (h->taps_before + h->taps) * (w->taps_before + w->taps);
  s.loops = CPU_PICK_FLOAT(conv->head.device->isa, cpu_direct, conv->accumulate);
  choose_rows(conv, &s);
  choose_copy(conv, &s);
  choose_units(conv, &s);
  s.worker_bytes = s.copy_bytes + s.plane_bytes + s.phase_bytes + s.weight_bytes;
  const bool by_filter = c->direction == COMPUTE_CONVOLUTION_BY_FILTER;
  if (by_filter && s.taps != c->filter_size[0] * c->filter_size[1]) return NULL;
  const int64_t sums = c->result_channels * (c->data_channels / c->groups) * s.taps * s.parts;
  if (s.copy_bytes > MOST_COPY_BYTES) return NULL;
  if (by_filter && sums * s.loops->lanes * conv->element > MOST_SUMS_BYTES) return NULL;
  *fits = true;
  struct conv_direct *made = cpu_allocate(
      conv->head.device, sizeof s + (uint64_t)(s.taps * s.sources + 1) * sizeof s.places[0]);
  if (!made) return NULL;
  *made = s;
  list_places(conv, made);
  return made;
}

/* ---- Copying -------------------------------------------------------------------------------- */

/* Finds which of `count` rows or columns from source position `base` on are inside the source. */
static void find_inside(int64_t base, int64_t size, int64_t count, int64_t *first, int64_t *end) {
  *first = base >= 0 ? 0 : cpu_min(-base, count);
  *end = cpu_max(cpu_min(size - base, count), *first);
}

/* Copies rows, the columns of one residue after the other. */
static void copy_parts(const cpu_conv *conv, const unsigned char *from, int64_t rows, int64_t first,
                       int64_t end, unsigned char *to) {
  const struct conv_direct *s = conv->direct;
  const conv_operand *x = &conv->input[0];
  const int64_t size = conv->element, n = s->residues;
  const bool plain = x->dtype == conv->accumulate && x->stride[3] == 1;
  if (plain && n == 2) {
    unsigned char *even = to + place_of_column(s, first) * size;
    unsigned char *odd = to + place_of_column(s, first + 1) * size;
    s->loops->separate(even, odd, s->pitch, from, x->stride[2], rows, end - first);
    return;
  }
  for (int64_t r = 0; r < n && first + r < end; r++) {
    const int64_t column = first + r, count = cpu_divide_up(end - column, n);
    unsigned char *part = to + place_of_column(s, column) * size;
    const unsigned char *at = from + r * x->stride[3] * x->size;
    if (plain && n == 1) {
      s->loops->copy(part, s->pitch, at, x->stride[2], rows, count);
    } else if (plain) {
      for (int64_t i = 0; i < rows; i++)
        s->loops->pick(part + i * s->pitch * size, at + i * x->stride[2] * size, count, n);
    } else {
      const cpu_gemm_source block = {at, x->dtype, x->stride[2], n * x->stride[3]};
      conv->type->pack_rows(part, s->pitch, rows, count, &block);
    }
  }
}

void conv_direct_copy(const cpu_conv *conv, const void *source, const direct_unit *unit,
                      int64_t *cleared, unsigned char *copy) {
  const struct conv_direct *s = conv->direct;
  const conv_operand *x = &conv->input[0];
  const int64_t top = unit->row * s->step[0] + s->low[0], left = s->low[1];
  int64_t first_row, end_row, first, end;
  find_inside(top, conv->axes[0]->source_size, copied_rows(s, unit->rows), &first_row, &end_row);
  find_inside(left, conv->axes[1]->source_size, s->pitch, &first, &end);
  if (*cleared != unit->band) memset(copy, 0, (size_t)s->copy_bytes);
  *cleared = unit->band;
  if (first_row == end_row || first == end) return;
  const unsigned char *from =
      (const unsigned char *)source +
      (unit->image * x->stride[0] + unit->group * s->sources * x->stride[1] +
       (top + first_row) * x->stride[2] + (left + first) * x->stride[3]) *
          x->size;
  for (int64_t c = 0; c < s->sources; c++)
    copy_parts(conv, from + c * x->stride[1] * x->size, end_row - first_row, first, end,
               copy + (c * s->plane + first_row * s->pitch) * conv->element);
}

static void accept_filter(cpu_conv *conv) {
  const struct conv_direct *s = conv->direct;
  conv->head.run = run_filter;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution by filter direct %s, %lldx%lld planes, %lld bands in %lld parts",
           conv->head.device->isa->name, (long long)s->results, (long long)s->sources,
           (long long)s->bands, (long long)s->parts);
}

compute_status conv_direct_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  (void)descriptor;
  bool fits;
  const compute_status status = conv_axes_find(conv);
  if (status) return status;
  *reason = "groups of many channels, or strides that do not fit";
  conv->direct = conv_direct_schedule(conv, &fits);
  if (!fits) return COMPUTE_OK;
  if (!conv->direct) return cpu_out_of_memory(conv->head.device, sizeof *conv->direct);
  const struct conv_direct *s = conv->direct;
  if (conv->shape.direction == COMPUTE_CONVOLUTION_BY_FILTER) {
    accept_filter(conv);
    return COMPUTE_OK;
  }
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution direct %s, %lld bands of %lld rows, %lld planes from %lld",
           conv->head.device->isa->name, (long long)s->bands, (long long)s->rows,
           (long long)s->results, (long long)s->sources);
  return COMPUTE_OK;
}
