/* SPDX-License-Identifier: MIT */
/* FORWARD with one result channel per group, data and results in small planes, for example of
 * 7 × 7: a vector would be longer than a row. Some groups of an image are transposed, so that the
 * loop for channels last computes them, and the results are transposed back. Each data channel of
 * the groups has its own transposed planes; the loop reads its filter rows after the rows
 * of the preceding data channel. */
#include <stdio.h>

#include "conv.h"
#include "program/isa/tile_table.h"

enum { MOST_POSITIONS = 1024, BLOCK = 64, WHOLE = 16, TASKS_PER_THREAD = 8 };

typedef conv_depthwise_launch launch;

/* A worker's memory: [data channel of a group][positions][block] of the data, [positions][block] of
 * the results, and planes of results. */
typedef struct room {
  float *data, *sums, *planes;
} room;

static int64_t positions(const int64_t size[2]) {
  return size[0] * size[1];
}

static int64_t data_per_group(const cpu_conv *conv) {
  return conv->shape.data_channels / conv->shape.groups;
}

static room divide_memory(const launch *l, int32_t worker) {
  const cpu_conv *conv = l->conv;
  float *at = (float *)(void *)(l->workers + (uint64_t)worker * conv->narrow.worker_bytes);
  const int64_t block = conv->narrow.block;
  float *sums = at + data_per_group(conv) * block * positions(conv->shape.data_size);
  return (room){at, sums, sums + block * positions(conv->shape.result_size)};
}

/* All rows of results of `count` groups, [positions][count]. */
static void make_rows(const launch *l, int64_t channel, int64_t count, const room *r) {
  const cpu_conv *conv = l->conv;
  const int64_t per_group = data_per_group(conv);
  const compute_conv_attributes *c = &conv->shape;
  cpu_depthwise_finish finish;
  cpu_depthwise_line line = {.filter_rows = per_group * c->filter_size[0],
                             .filter_columns = c->filter_size[1],
                             .stride = c->stride[1],
                             .dilation = c->dilation[1],
                             .padding = c->padding[1],
                             .width = c->data_size[1],
                             .pixel = count,
                             .weights = (const float *)(const void *)l->weights + channel,
                             .weights_tap = c->groups,
                             .count = c->result_size[1],
                             .channels = count,
                             .sums = r->sums,
                             .sums_pixel = count};
  if (conv->narrow.finishes) {
    finish = conv_depthwise_place_finish(conv, l->pointers, channel);
    line.finish = &finish;
  }
  for (int64_t row = 0; row < c->result_size[0]; row++) {
    const void **rows = line.rows;
    const float *data = r->data;
    for (int64_t j = 0; j < per_group; j++, data += positions(c->data_size) * count)
      for (int64_t i = 0; i < c->filter_size[0]; i++) {
        const int64_t at = row * c->stride[0] + i * c->dilation[0] - c->padding[0];
        *rows++ = at < 0 || at >= c->data_size[0] ? NULL : data + at * c->data_size[1] * count;
      }
    line.sums = r->sums + row * c->result_size[1] * count;
    conv->depthwise.run(&line);
  }
}

static void make_block(const launch *l, int64_t image, int64_t channel, int64_t count,
                       const room *r) {
  const cpu_conv *conv = l->conv;
  const compute_conv_attributes *c = &conv->shape;
  const cpu_transpose_block transpose = conv->head.device->isa->tile->transpose[2];
  const conv_operand *x = &conv->input[0], *y = &conv->output[0];
  const int64_t bytes = (int64_t)sizeof(float), results = positions(c->result_size);
  const int64_t per_group = data_per_group(conv), places = positions(c->data_size);
  const float *data = (const float *)l->pointers[0] + image * x->stride[0];
  for (int64_t j = 0; j < per_group; j++)
    transpose(count, places, data + (channel * per_group + j) * x->stride[1],
              per_group * x->stride[1] * bytes, r->data + j * places * count, count * bytes);
  make_rows(l, channel, count, r);
  if (conv->narrow.in_place) {
    float *to =
        (float *)l->pointers[2 + conv->extra_count] + image * y->stride[0] + channel * y->stride[1];
    transpose(results, count, r->sums, count * bytes, to, y->stride[1] * bytes);
    return;
  }
  transpose(results, count, r->sums, count * bytes, r->planes, results * bytes);
  const conv_box box = {.first = {image, channel, 0, 0},
                        .count = {1, count, c->result_size[0], c->result_size[1]},
                        .step = {1, 1, 1, 1},
                        .sum_stride = {0, results, c->result_size[1], 1},
                        .sums = (unsigned char *)r->planes};
  conv_epilogue_run(conv, l->pointers, &box);
}

/* Blocks have nearly equal sizes, so that none is narrower than a vector. All except the last have
 * whole vectors. */
static int64_t block_start(const cpu_conv *conv, int64_t number) {
  const int64_t channels = conv->shape.result_channels, blocks = conv->narrow.blocks;
  return number == blocks ? channels : channels * number / blocks / WHOLE * WHOLE;
}

static void blocks_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_narrow *s = &l->conv->narrow;
  const room r = divide_memory(l, worker);
  const int64_t end = cpu_min((task + 1) * s->chunk, s->units);
  for (int64_t unit = task * s->chunk; unit < end; unit++) {
    const int64_t number = unit % s->blocks;
    const int64_t first = block_start(l->conv, number), next = block_start(l->conv, number + 1);
    make_block(l, unit / s->blocks, first, next - first, &r);
  }
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  return conv_depthwise_start(conv, pointers, conv->narrow.tasks, conv->narrow.worker_bytes,
                              blocks_task);
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* `true` if the rows of a plane follow each other. */
static bool has_planes(const conv_operand *operand, const int64_t size[2]) {
  return operand->stride[3] == 1 && operand->stride[2] == size[1];
}

static bool suits(const cpu_conv *conv, int64_t lanes, const char **reason) {
  const compute_conv_attributes *c = &conv->shape;
  *reason = "groups of more than one result channel";
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD || c->groups != c->result_channels) return false;
  *reason = "data with gaps in their planes, or of another type than f32";
  if (conv->accumulate != COMPUTE_F32 || conv->input[0].dtype != COMPUTE_F32 ||
      conv->input[1].dtype != COMPUTE_F32 || !has_planes(&conv->input[0], c->data_size))
    return false;
  *reason = "large planes, fewer channels than a vector has, or a filter of many rows";
  return positions(c->data_size) > 0 && positions(c->data_size) <= MOST_POSITIONS &&
         positions(c->result_size) <= MOST_POSITIONS && c->groups >= lanes &&
         data_per_group(conv) <= CPU_DEPTHWISE_MOST_ROWS / c->filter_size[0];
}

compute_status conv_narrow_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                  const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  const compute_conv_attributes *c = &conv->shape;
  const cpu_depthwise_table *loops = CPU_PICK(kernel->device->isa, cpu_depthwise);
  const int64_t threads = kernel->device->threads;
  const int64_t taps = c->filter_size[0] * c->filter_size[1];
  conv_narrow *s = &conv->narrow;
  if (!suits(conv, loops->lanes, reason)) return COMPUTE_OK;
  conv->depthwise.run = loops->run;
  conv->depthwise.packed_bytes =
      cpu_whole_lines((uint64_t)(taps * c->data_channels) * sizeof(float));
  conv->packed = (descriptor->constant_inputs >> 1 & 1) != 0;
  s->blocks = cpu_divide_up(c->groups, BLOCK);
  s->block = s->blocks == 1 ? c->groups : cpu_divide_up(c->groups, s->blocks) + WHOLE - 1;
  s->units = c->batch * s->blocks;
  s->chunk = threads == 1 ? s->units : cpu_divide_up(s->units, TASKS_PER_THREAD * threads);
  s->tasks = cpu_divide_up(s->units, s->chunk);
  const bool planes = has_planes(&conv->output[0], c->result_size);
  s->finishes = planes && conv_depthwise_can_finish(conv) && conv->output_count == 1 &&
                (!conv->epilogue->rest || conv->epilogue->rest_rows);
  s->in_place = planes && (conv->identity || s->finishes);
  s->worker_bytes =
      cpu_whole_lines((uint64_t)(s->block * (data_per_group(conv) * positions(c->data_size) +
                                             2 * positions(c->result_size))) *
                      sizeof(float));
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "depthwise convolution of small planes %s, blocks of %lld channels%s",
           kernel->device->isa->name, (long long)cpu_divide_up(c->groups, s->blocks),
           conv->packed ? ", packed" : "");
  return COMPUTE_OK;
}
