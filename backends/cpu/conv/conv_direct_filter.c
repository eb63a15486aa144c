/* Direct convolution, BY_FILTER: each element of the filter's gradient is the product of a plane of
 * y's gradient with a window of the data, summed over images.
 *
 * A vector of partial sums is kept for each element of the filter, and added up at the very end.
 * Images and bands are summed in a fixed number of parts, one after the other within a part, and
 * parts then in their order: the sums are the same bits for any number of threads. */
#include <stdio.h>
#include <string.h>

#include "conv_direct.h"

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *sums, *workers;
} launch;

/* Vectors of sums of one group. */
static int64_t group_sums(const cpu_conv *conv) {
  const struct conv_direct *s = conv->direct;
  return s->results * s->sources * s->taps;
}

static int64_t vector_bytes(const cpu_conv *conv) {
  return (int64_t)conv->direct->loops->lanes * conv->element;
}

/* Planes of y's gradient as they lie, if they are rows of the computing type wide enough to be read
 * in whole vectors; else copied. */
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
    find_factor(conv, l->pointers[1], unit, m, conv_minimum(CONV_DIRECT_TOGETHER, s->results - m),
                room, &c);
    c.sums = sums + m * plane * vector_bytes(conv);
    s->loops->correlate(&c);
  }
}

/* Sums of groups lie behind each other, and within them those of parts. */
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
    unit.rows = conv_minimum(s->rows, s->count[0] - unit.row);
    conv_direct_copy(conv, l->pointers[0], &unit, &cleared, copy);
    do_unit(l, &unit, copy, room, sums);
  }
}

/* Adds lanes and parts of one group, and finishes it. The totals take the place of the first
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

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const struct conv_direct *s = conv->direct;
  cpu_device *device = kernel->device;
  const int64_t groups = conv->shape.groups, tasks = groups * s->parts;
  const uint64_t workers = tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t sums = (uint64_t)conv_round_up(tasks * group_sums(conv) * vector_bytes(conv), 64);
  const uint64_t bytes = sums + workers * s->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  launch l = {conv, pointers, scratch, scratch + sums};
  cpu_parallel(device, tasks, sum_task, &l);
  cpu_parallel(device, groups, finish_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

void conv_direct_filter_accept(cpu_conv *conv) {
  const struct conv_direct *s = conv->direct;
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution by filter direct %s, %lldx%lld planes, %lld bands in %lld parts",
           conv->head.device->isa->name, (long long)s->results, (long long)s->sources,
           (long long)s->bands, (long long)s->parts);
}
