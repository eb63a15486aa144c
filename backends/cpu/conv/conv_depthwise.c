/* SPDX-License-Identifier: MIT */
/* FORWARD with one channel per group, data and results with channels last: vectors hold channels,
 * and the data are read in place. */
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "gemm/gemm.h"
#include "program/finish.h"
#include "program/requantize.h"

typedef conv_depthwise_launch launch;

enum { SUMS_BYTES = 48 << 10, LEAST_BLOCK = 64, TASKS_PER_THREAD = 8, BAND_BYTES = 128 << 10 };

/* ---- The filter ------------------------------------------------------------------------------ */

static int64_t tap_count(const cpu_conv *conv) {
  return conv->shape.filter_size[0] * conv->shape.filter_size[1];
}

static void pack_bytes(const cpu_conv *conv, const unsigned char *filter, uint32_t *packed) {
  const conv_operand *f = &conv->input[1];
  const int64_t channels = conv->shape.data_channels, columns = conv->shape.filter_size[1];
  for (int64_t tap = 0; tap < tap_count(conv); tap++, packed += channels) {
    const unsigned char *from =
        filter + tap / columns * f->stride[2] + tap % columns * f->stride[3];
    for (int64_t c = 0; c < channels; c++) {
      const unsigned char byte = from[c * f->stride[0]];
      packed[c] = f->dtype == COMPUTE_I8 ? (uint16_t)(int8_t)byte : byte;
    }
  }
}

void conv_depthwise_pack(const cpu_conv *conv, const void *filter, void *packed) {
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *f = &conv->input[1];
  if (conv->accumulate == COMPUTE_I32) {
    pack_bytes(conv, filter, packed);
    if (conv->depthwise.bytes)
      conv->depthwise.bytes->pack(c->data_channels, filter, f->stride[2], f->stride[3],
                                  f->stride[0], (int8_t *)packed + conv->depthwise.bytes_at);
    return;
  }
  const int64_t rows = c->data_channels / c->groups * c->filter_size[0];
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at =
        row / c->filter_size[0] * f->stride[1] + row % c->filter_size[0] * f->stride[2];
    const cpu_gemm_source source = {(const unsigned char *)filter + at * f->size, f->dtype,
                                    f->stride[3], f->stride[0]};
    conv->type->pack_rows((float *)packed + row * c->filter_size[1] * c->groups, c->groups,
                          c->filter_size[1], c->groups, &source);
  }
}

uint64_t conv_depthwise_packed_bytes(const cpu_conv *conv, uint64_t *form) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t *stride = conv->input[1].stride;
  *form = cpu_form((const int64_t[]){CPU_FORM_DEPTHWISE, (int64_t)conv->input[1].dtype,
                                     c->data_channels, c->groups, c->filter_size[0],
                                     c->filter_size[1], stride[0], stride[1], stride[2], stride[3],
                                     conv->depthwise.bytes != NULL},
                   11);
  return conv->depthwise.packed_bytes;
}

/* ---- Running --------------------------------------------------------------------------------- */

bool conv_depthwise_can_finish(const cpu_conv *conv) {
  const cpu_finish *f = cpu_finish_of(conv->epilogue);
  if (!f || f->dtype != conv->input[0].dtype || f->input[0] <= 0 || f->input[1] > 0 ||
      f->input[2] > 0)
    return false;
  const int64_t *stride = conv->extra[f->input[0] - 1].stride;
  return stride[0] == 0 && stride[1] == 1 && stride[2] == 0 && stride[3] == 0;
}

cpu_depthwise_finish conv_depthwise_place_finish(const cpu_conv *conv, void *const *pointers,
                                                 int64_t channel) {
  const cpu_finish *f = cpu_finish_of(conv->epilogue);
  const unsigned char *bias = pointers[2 + f->input[0] - 1];
  return (cpu_depthwise_finish){bias + channel * conv->input[0].size, f->low, f->zero, f->high,
                                conv->epilogue->rest_rows};
}

/* Runs the epilogue, or its rest after the loop, over a row's channels from `channel` on. */
static void end_row(const launch *l, const cpu_depthwise_line *line, int64_t image, int64_t row,
                    int64_t channel) {
  const cpu_conv *conv = l->conv;
  if (line->finish) {
    if (conv->epilogue->rest && !line->finish->after)
      cpu_finish_run_rest(conv->epilogue, line->sums, line->sums_pixel, line->count,
                          line->channels);
    return;
  }
  const conv_box box = {.first = {image, channel, row, 0},
                        .count = {1, line->channels, 1, line->count},
                        .step = {1, 1, 1, 1},
                        .sum_stride = {0, 1, 0, line->sums_pixel},
                        .sums = line->sums};
  conv_epilogue_run(conv, l->pointers, &box);
}

/* Computes some rows of bytes directly. Returns `false` if that is not possible. */
static bool make_bytes(const launch *l, int64_t image, int64_t row, int64_t rows) {
  const cpu_conv *conv = l->conv;
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *x = &conv->input[0], *y = &conv->output[0];
  if (!conv->depthwise.bytes) return false;
  const cpu_requantize_lines makes = conv_requantize_bind(conv, l->pointers, 0, 0);
  const cpu_depthwise_bytes_band band = {
      .data = (const uint8_t *)l->pointers[0] + image * x->stride[0],
      .row = x->stride[2],
      .pixel = x->stride[3],
      .height = c->data_size[0],
      .width = c->data_size[1],
      .stride = {c->stride[0], c->stride[1]},
      .padding = {c->padding[0], c->padding[1]},
      .weights = (const int8_t *)l->weights + conv->depthwise.bytes_at,
      .first = row,
      .rows = rows,
      .count = c->result_size[1],
      .channels = c->data_channels,
      .makes = &makes,
      .y =
          (uint8_t *)l->pointers[2 + conv->extra_count] + image * y->stride[0] + row * y->stride[2],
      .y_row = y->stride[2],
      .y_pixel = y->stride[3]};
  return makes.blocks && conv->depthwise.bytes->run(&band);
}

/* Computes row `row` of the results of one image, by blocks of channels. */
static void make_row(const launch *l, int64_t image, int64_t row, unsigned char *sums) {
  const cpu_conv *conv = l->conv;
  const compute_conv_attributes *c = &conv->shape;
  const conv_depthwise *s = &conv->depthwise;
  const conv_operand *x = &conv->input[0], *y = &conv->output[0];
  const int64_t *stride = x->stride, size = x->size;
  const unsigned char *data = (const unsigned char *)l->pointers[0] + image * stride[0] * size;
  unsigned char *results = l->pointers[2 + conv->extra_count]; /* of a finishing loop */
  cpu_depthwise_finish finish;
  cpu_depthwise_line line = {.filter_rows = c->filter_size[0],
                             .filter_columns = c->filter_size[1],
                             .stride = c->stride[1],
                             .dilation = c->dilation[1],
                             .padding = c->padding[1],
                             .width = c->data_size[1],
                             .pixel = stride[3],
                             .weights_tap = c->data_channels,
                             .count = c->result_size[1],
                             .sums = sums,
                             .sums_pixel = s->finishes ? y->stride[3] : s->block,
                             .finish = s->finishes ? &finish : NULL};
  for (int64_t channel = 0; channel < c->data_channels; channel += s->block) {
    line.channels = cpu_min(s->block, c->data_channels - channel);
    line.weights = l->weights + channel * conv->element;
    for (int64_t r = 0; r < c->filter_size[0]; r++) {
      const int64_t at = row * c->stride[0] + r * c->dilation[0] - c->padding[0];
      line.rows[r] =
          at < 0 || at >= c->data_size[0] ? NULL : data + (at * stride[2] + channel) * size;
    }
    if (s->finishes) {
      finish = conv_depthwise_place_finish(conv, l->pointers, channel);
      line.sums = results + (image * y->stride[0] + row * y->stride[2] + channel) * y->size;
    }
    s->run(&line);
    end_row(l, &line, image, row, channel);
  }
}

static void rows_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const conv_depthwise *s = &l->conv->depthwise;
  const int64_t rows = l->conv->shape.result_size[0], all = l->conv->shape.batch * rows;
  unsigned char *sums = l->workers + (uint64_t)worker * s->worker_bytes;
  const int64_t end = cpu_min((task + 1) * s->chunk, all);
  for (int64_t row = task * s->chunk, next; row < end; row = next) {
    next = cpu_min(cpu_min(row / rows * rows + rows, row + s->rows), end);
    if (make_bytes(l, row / rows, row % rows, next - row)) continue;
    for (int64_t i = row; i < next; i++) make_row(l, i / rows, i % rows, sums);
  }
}

compute_status conv_depthwise_start(const cpu_conv *conv, void *const *pointers, int64_t tasks,
                                    uint64_t worker_bytes,
                                    void (*task)(void *argument, int64_t number, int32_t worker)) {
  cpu_device *device = conv->head.device;
  const uint64_t workers = (uint64_t)(tasks == 1 ? 1 : device->threads) * worker_bytes;
  const uint64_t bytes = workers + (conv->packed ? 0 : conv->depthwise.packed_bytes);
  launch l = {.conv = conv, .pointers = pointers, .weights = pointers[1]};
  l.workers = cpu_workspace_acquire(device, bytes);
  if (!l.workers) return cpu_out_of_memory(device, bytes);
  if (!conv->packed) {
    conv_depthwise_pack(conv, pointers[1], l.workers + workers);
    l.weights = l.workers + workers;
  }
  cpu_parallel(device, tasks, task, &l);
  cpu_workspace_return(device, l.workers);
  return COMPUTE_OK;
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  return conv_depthwise_start(conv, pointers, conv->depthwise.tasks, conv->depthwise.worker_bytes,
                              rows_task);
}

/* ---- The schedule ---------------------------------------------------------------------------- */

static bool is_byte(const conv_operand *operand) {
  return operand->dtype == COMPUTE_I8 || operand->dtype == COMPUTE_U8;
}

/* The loop for bf16. */
static cpu_depthwise_loop bf16_loop(const cpu_isa *isa) {
#ifdef CPU_BF16_AVX512
  if (isa->vector_bytes == 64 && isa->gemm->bf16) return cpu_depthwise_bf16_avx512.run_bf16;
#endif
  return CPU_PICK(isa, cpu_depthwise)->run_bf16;
}

/* The loop for the operands' dtypes, or NULL. */
static cpu_depthwise_loop loop_of(const cpu_conv *conv) {
  const cpu_depthwise_table *loops = CPU_PICK(conv->head.device->isa, cpu_depthwise);
  const conv_operand *x = &conv->input[0], *f = &conv->input[1];
  if (conv->accumulate == COMPUTE_F32 && x->dtype == COMPUTE_F32 && f->dtype == COMPUTE_F32)
    return loops->run;
  if (conv->accumulate == COMPUTE_F32 && x->dtype == COMPUTE_BF16 && f->dtype == COMPUTE_BF16)
    return bf16_loop(conv->head.device->isa);
  if (conv->accumulate == COMPUTE_I32 && is_byte(x) && is_byte(f))
    return x->dtype == COMPUTE_U8 ? loops->run_u8 : loops->run_i8;
  return NULL;
}

#ifdef CPU_DOTS_AVX512
/* `true` if an operand of the epilogue is a scalar, or has one value per channel. */
static bool is_of_channels(const conv_operand *operand) {
  const int64_t *stride = operand->stride;
  return stride[0] == 0 && stride[1] <= 1 && stride[1] >= 0 && stride[2] == 0 && stride[3] == 0;
}

/* The loop that makes bytes directly, or NULL. */
static const cpu_depthwise_bytes_table *bytes_of(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  const cpu_isa *isa = conv->head.device->isa;
  const cpu_requantize *q = &conv->epilogue->requantize;
  if (isa->vector_bytes != 64 || isa->gemm->bytes->group != 4 || conv->identity ||
      !cpu_requantize_is_alone(q) || conv->input[0].dtype != COMPUTE_U8 ||
      conv->input[1].dtype != COMPUTE_I8)
    return NULL;
  if (c->filter_size[0] != 3 || c->filter_size[1] != 3 || c->stride[1] > 2) return NULL;
  if (c->dilation[0] != 1 || c->dilation[1] != 1 || c->data_channels < CPU_DEPTHWISE_BYTES / 2)
    return NULL;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++)
    if (q->input[i] >= 0 && !is_of_channels(&conv->extra[q->input[i] - 1])) return NULL;
  return &cpu_depthwise_bytes_dots_avx512;
}
#else
static const cpu_depthwise_bytes_table *bytes_of(const cpu_conv *conv) {
  (void)conv;
  return NULL;
}
#endif

static bool suits(const cpu_conv *conv, int32_t lanes, const char **reason) {
  const compute_conv_attributes *c = &conv->shape;
  *reason = "groups of more than one channel";
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD || c->groups != c->data_channels ||
      c->groups != c->result_channels)
    return false;
  *reason = "data or results without channels last";
  if (conv->input[0].stride[1] != 1 || conv->output[0].stride[1] != 1) return false;
  *reason = "other types than f32, bf16 and bytes";
  if (!loop_of(conv)) return false;
  *reason = "fewer channels than a vector has, or a filter of many rows";
  return c->data_channels >= lanes && c->filter_size[0] <= CPU_DEPTHWISE_MOST_ROWS;
}

/* Channels of a block: the sums of a row stay in a close cache, and no block is narrower than a
 * vector. */
static int64_t choose_block(const cpu_conv *conv, int32_t lanes) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t fit = SUMS_BYTES / (c->result_size[1] * (int64_t)sizeof(float));
  if (fit >= c->data_channels) return c->data_channels;
  int64_t block = cpu_max(fit / LEAST_BLOCK, 1) * LEAST_BLOCK;
  const int64_t rest = c->data_channels % block;
  if (rest > 0 && rest < lanes) block = c->data_channels;
  return cpu_min(block, c->data_channels);
}

compute_status conv_depthwise_accept(cpu_kernel *kernel,
                                     const compute_kernel_descriptor *descriptor,
                                     const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  const compute_conv_attributes *c = &conv->shape;
  const int32_t lanes = CPU_PICK(kernel->device->isa, cpu_depthwise)->lanes;
  conv_depthwise *s = &conv->depthwise;
  if (!suits(conv, lanes, reason)) return COMPUTE_OK;
  s->run = loop_of(conv);
  s->finishes = conv_depthwise_can_finish(conv);
  s->block = choose_block(conv, lanes);
  s->worker_bytes = cpu_whole_lines((uint64_t)(s->block * c->result_size[1]) * conv->element);
  s->packed_bytes = cpu_whole_lines((uint64_t)(tap_count(conv) * c->data_channels) * conv->element);
  s->bytes = bytes_of(conv);
  s->bytes_at = s->packed_bytes;
  s->rows = cpu_max(BAND_BYTES / cpu_max(c->data_size[1] * c->stride[0] * c->data_channels, 1), 1);
  if (s->bytes) s->packed_bytes += (uint64_t)s->bytes->packed_bytes(c->data_channels);
  const int64_t rows = c->batch * c->result_size[0], threads = kernel->device->threads;
  s->chunk = threads == 1 ? rows : cpu_divide_up(rows, TASKS_PER_THREAD * threads);
  s->tasks = cpu_divide_up(rows, s->chunk);
  conv->packed = (descriptor->constant_inputs >> 1 & 1) != 0;
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "depthwise convolution%s %s, blocks of %lld channels%s", s->bytes ? " to bytes" : "",
           kernel->device->isa->name, (long long)s->block, conv->packed ? ", packed" : "");
  return COMPUTE_OK;
}
