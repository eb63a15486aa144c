/* Direct convolution, FORWARD and BY_DATA: a plane of results at a time.
 *
 * Where the epilogue only stores, planes are made where they belong; else in a buffer that the
 * epilogue then reads. BY_DATA with a stride makes the rows and columns of each phase apart, and
 * puts them together. */
#include "conv_direct.h"

#include <stdio.h>
#include <string.h>

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *workers;
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
  unit->rows = conv_minimum(s->rows, s->count[0] - unit->row);
}

/* The filter's elements for one plane of results, in the order of the places. */
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

/* The rows of one phase of a plane. */
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

/* Puts columns of all phases together: `rows` rows of `to`, to_row apart. */
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

/* All phases: rows and columns of `to` from the band's first on. */
static void sweep_phases(const cpu_conv *conv, const workroom *room, const direct_unit *unit,
                         unsigned char *to, int64_t to_row) {
  const struct conv_direct *s = conv->direct;
  const int64_t size = conv->element, count = conv->axis_count[1];
  const int64_t apart = (int64_t)s->phase_bytes / count;
  int64_t number = 0;
  for (int64_t a = 0; a < conv->axis_count[0]; a++) {
    const conv_axis *h = &conv->axes[0][a];
    const int64_t rows = conv_minimum(unit->rows, h->count - unit->row);
    for (int64_t b = 0; b < count; b++) {
      const conv_axis *w = &conv->axes[1][b];
      if (rows > 0) sweep_phase(conv, room, number, h, w, rows, room->phase + b * apart, w->count);
      number += s->sources * h->taps * w->taps;
    }
    join_columns(conv, room->phase, rows, to + h->first * to_row * size, h->step * to_row);
  }
}

/* Whether planes can be made in the output's memory. Narrow ones are written beyond their ends. */
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
  const int64_t row = unit->row * step, end = conv_minimum(row + unit->rows * step, conv->size[2]);
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
  const int64_t end = conv_minimum((task + 1) * s->chunk, s->units);
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
  launch l = {conv, pointers, scratch};
  cpu_parallel(device, s->tasks, sweep_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

compute_status conv_direct_prepare(cpu_conv *conv, bool *done) {
  bool fits;
  *done = false;
  conv->direct = conv_direct_schedule(conv, &fits);
  if (!fits) return COMPUTE_OK;
  if (!conv->direct) return cpu_out_of_memory(conv->head.device, sizeof *conv->direct);
  *done = true;
  const struct conv_direct *s = conv->direct;
  if (conv->shape.direction == COMPUTE_CONVOLUTION_BY_FILTER) {
    conv_direct_filter_accept(conv);
    return COMPUTE_OK;
  }
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution direct %s, %lld bands of %lld rows, %lld planes from %lld",
           conv->head.device->isa->name, (long long)s->bands, (long long)s->rows,
           (long long)s->results, (long long)s->sources);
  return COMPUTE_OK;
}
