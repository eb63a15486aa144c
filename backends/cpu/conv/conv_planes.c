/* SPDX-License-Identifier: MIT */
/* FORWARD with one channel per group, data and results in planes: vectors hold columns, and the
 * data are read in place. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "program/finish.h"

enum {
  UNITS_PER_THREAD = 4,
  TASKS_PER_THREAD = 16,
  LEAST_ROWS = 8,         /* of a row tile */
  UNIT_RESULTS = 1 << 14, /* fewest that repay a separate unit */
  MOST_WIDTH = 1 << 20,
  MOST_TAPS = 256
};

typedef struct launch {
  const cpu_conv *conv;
  void *const *pointers;
  unsigned char *zeros, *workers;
} launch;

/* ---- Running --------------------------------------------------------------------------------- */

static void read_filter(const launch *l, int64_t channel, float *to) {
  const conv_operand *f = &l->conv->input[1];
  const int64_t *size = l->conv->shape.filter_size;
  const float *from = (const float *)l->pointers[1] + channel * f->stride[0];
  for (int64_t r = 0; r < size[0]; r++)
    for (int64_t s = 0; s < size[1]; s++) *to++ = from[r * f->stride[2] + s * f->stride[3]];
}

/* Sets the loop's finish: the beginning of the epilogue, or no change at all. */
static void set_finish(const launch *l, int64_t channel, cpu_planes_band *band) {
  const cpu_conv *conv = l->conv;
  const cpu_finish *f = conv->planes.finishes ? cpu_finish_of(conv->epilogue) : NULL;
  band->bias = band->zero = -0.0f;
  band->low = -INFINITY;
  band->high = INFINITY;
  if (!f) return;
  band->low = f->low;
  band->zero = f->zero;
  band->high = f->high;
  if (f->input[0] <= 0) return;
  const float *bias = l->pointers[2 + f->input[0] - 1];
  band->bias = bias[channel * conv->extra[f->input[0] - 1].stride[1]];
}

/* Computes row tile `number` of one plane. */
static void make_band(const launch *l, int64_t image, int64_t channel, int64_t number,
                      float *sums) {
  const cpu_conv *conv = l->conv;
  const conv_planes *s = &conv->planes;
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *x = &conv->input[0], *y = &conv->output[0];
  float filter[MOST_TAPS];
  cpu_planes_band band = {.data = (const float *)l->pointers[0] + image * x->stride[0] +
                                  channel * x->stride[1],
                          .data_row = x->stride[2],
                          .height = c->data_size[0],
                          .width = c->data_size[1],
                          .padding = {c->padding[0], c->padding[1]},
                          .zeros = (const float *)(const void *)l->zeros,
                          .filter = filter,
                          .size = {c->filter_size[0], c->filter_size[1]},
                          .dilation = {c->dilation[0], c->dilation[1]},
                          .row = number * s->rows,
                          .columns = c->result_size[1],
                          .results = sums,
                          .results_row = c->result_size[1]};
  band.rows = cpu_min(s->rows, c->result_size[0] - band.row);
  if (s->in_place) {
    band.results = (float *)l->pointers[2 + conv->extra_count] + image * y->stride[0] +
                   channel * y->stride[1] + band.row * y->stride[2];
    band.results_row = y->stride[2];
  }
  read_filter(l, channel, filter);
  set_finish(l, channel, &band);
  s->run(&band);
  if (!s->in_place) {
    const conv_box box = {.first = {image, channel, band.row, 0},
                          .count = {1, 1, band.rows, band.columns},
                          .step = {1, 1, 1, 1},
                          .sum_stride = {0, 0, band.columns, 1},
                          .sums = (unsigned char *)sums};
    conv_epilogue_run(conv, l->pointers, &box);
  } else if (s->finishes && conv->epilogue->rest) {
    cpu_finish_run_rest(conv->epilogue, band.results, band.results_row, band.rows, band.columns);
  }
}

static void bands_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_planes *s = &l->conv->planes;
  const int64_t channels = l->conv->shape.data_channels;
  const int64_t end = cpu_min((task + 1) * s->chunk, s->units);
  float *sums = (float *)(void *)(l->workers + (uint64_t)worker * s->worker_bytes);
  for (int64_t unit = task * s->chunk; unit < end; unit++) {
    const int64_t plane = unit / s->bands;
    make_band(l, plane / channels, plane % channels, unit % s->bands, sums);
  }
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  const conv_planes *s = &conv->planes;
  cpu_device *device = kernel->device;
  const uint64_t zeros = cpu_whole_lines((uint64_t)conv->shape.data_size[1] * sizeof(float));
  const uint64_t workers = s->tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t bytes = zeros + workers * s->worker_bytes;
  unsigned char *scratch = cpu_workspace_acquire(device, bytes);
  if (!scratch) return cpu_out_of_memory(device, bytes);
  memset(scratch, 0, (size_t)zeros);
  launch l = {conv, pointers, scratch, scratch + zeros};
  cpu_parallel(device, s->tasks, bands_task, &l);
  cpu_workspace_return(device, scratch);
  return COMPUTE_OK;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

static cpu_planes_loop loop_of(const cpu_conv *conv) {
  const cpu_planes_table *loops = CPU_PICK(conv->head.device->isa, cpu_planes);
  const compute_conv_attributes *c = &conv->shape;
  const int64_t *size = c->filter_size, stride = c->stride[0];
  if (c->stride[1] != stride || stride > 2) return NULL;
  const bool square = size[0] == size[1] && c->dilation[0] == 1 && c->dilation[1] == 1;
  if (square && size[0] == 3) return stride == 1 ? loops->run3 : loops->run3s2;
  if (square && size[0] == 5) return stride == 1 ? loops->run5 : loops->run5s2;
  const bool fits = size[1] <= CPU_PLANES_TAPS && size[0] * size[1] <= MOST_TAPS;
  return stride == 1 && fits ? loops->run : NULL;
}

static bool suits(const cpu_conv *conv, const char **reason) {
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *x = &conv->input[0];
  *reason = "groups of more than one channel";
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD || c->groups != c->data_channels ||
      c->groups != c->result_channels)
    return false;
  *reason = "data or results whose columns are not side by side, or of another type than f32";
  if (conv->accumulate != COMPUTE_F32 || x->dtype != COMPUTE_F32 ||
      conv->input[1].dtype != COMPUTE_F32 || x->stride[3] != 1 || conv->output[0].stride[3] != 1)
    return false;
  *reason = "a filter or a stride without a loop, or a plane too narrow or too wide";
  return loop_of(conv) && c->data_size[1] > 0 && c->data_size[1] <= MOST_WIDTH &&
         c->result_size[1] >= CPU_PICK(conv->head.device->isa, cpu_planes)->least_columns;
}

/* `true` if the epilogue begins with limits, after an optional bias per channel. */
static bool can_finish(const cpu_conv *conv) {
  const cpu_finish *f = cpu_finish_of(conv->epilogue);
  if (!f || f->dtype != COMPUTE_F32 || f->input[1] > 0 || f->input[2] > 0) return false;
  if (f->input[0] <= 0) return true;
  const int64_t *stride = conv->extra[f->input[0] - 1].stride;
  return stride[0] == 0 && stride[2] == 0 && stride[3] == 0;
}

/* Uses whole planes, unless there are too few for the threads. */
static void choose_bands(cpu_conv *conv, conv_planes *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t planes = c->batch * c->data_channels, threads = conv->head.device->threads;
  const double results = (double)planes * (double)c->result_size[0] * (double)c->result_size[1];
  int64_t wanted = threads == 1 ? 1 : UNITS_PER_THREAD * threads;
  if ((double)wanted > results / UNIT_RESULTS) wanted = (int64_t)(results / UNIT_RESULTS);
  const int64_t bands = cpu_max(cpu_divide_up(wanted, planes), 1);
  s->rows = cpu_max(cpu_divide_up(c->result_size[0], bands), LEAST_ROWS);
  s->rows = cpu_min(s->rows, c->result_size[0]);
  s->bands = cpu_divide_up(c->result_size[0], s->rows);
  s->units = planes * s->bands;
  s->chunk = threads == 1 ? s->units : cpu_max(s->units / (TASKS_PER_THREAD * threads), 1);
  s->tasks = cpu_divide_up(s->units, s->chunk);
}

compute_status conv_planes_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  conv_planes *s = &conv->planes;
  (void)descriptor;
  if (!suits(conv, reason)) return COMPUTE_OK;
  s->run = loop_of(conv);
  s->finishes = can_finish(conv);
  s->in_place = s->finishes || conv->identity;
  choose_bands(conv, s);
  if (!s->in_place)
    s->worker_bytes =
        cpu_whole_lines((uint64_t)(s->rows * conv->shape.result_size[1]) * sizeof(float));
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "depthwise convolution of planes %s, %lld bands of %lld rows", kernel->device->isa->name,
           (long long)s->bands, (long long)s->rows);
  return COMPUTE_OK;
}
