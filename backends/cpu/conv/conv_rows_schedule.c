/* SPDX-License-Identifier: MIT */
/* The schedule of FORWARD by rows (conv_rows.c), and the convolutions that use it. */
#include <stdio.h>

#include "conv_rows.h"
#include "program/requantize.h"

/* ---- Epilogues of the micro-kernel ----------------------------------------------------------- */

/* `true` if two rows of results are `width` pixels apart. */
static bool is_even(const cpu_conv *conv, const conv_operand *operand) {
  const int64_t *size = conv->shape.result_size;
  return size[0] == 1 || operand->stride[2] == size[1] * operand->stride[3];
}

/* The equivalent of can_finish for a product of bytes (cpu_gemm_requantize). */
static bool can_requantize(const cpu_conv *conv) {
  const cpu_requantize *q = &conv->epilogue->requantize;
  if (!cpu_requantize_is_alone(q) || !is_even(conv, &conv->output[0])) return false;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const conv_operand *operand = &conv->extra[q->input[i] - 1];
    if (!is_even(conv, operand) || (operand->stride[1] != 0 && operand->stride[1] != 1))
      return false;
  }
  return true;
}

/* `true` if the micro-kernel can compute the epilogue (cpu_gemm_finish). */
static bool can_finish(const cpu_conv *conv) {
  if (conv->identity) return false;
  if (conv->type->requantizes) return can_requantize(conv);
  if (!conv->type->finishes) return false;
  const cpu_finish *finish = cpu_finish_applied(conv_rows_finished(conv));
  const bool even = conv->shape.pool > 0 || is_even(conv, &conv->output[0]);
  if (!finish || finish->dtype != conv->type->finishes || conv->output_count != 1 || !even)
    return false;
  const bool goes_on = conv->epilogue->rest || conv->epilogue->before || conv->epilogue->functions;
  if (conv->shape.pool > 0 && goes_on) return false;
  for (int i = 0; i < 3; i++) {
    const conv_operand *operand = conv_rows_addend(conv, i);
    if (!operand) continue;
    if (!is_even(conv, operand)) return false;
    if (operand->stride[1] != 1 && (i > 0 || operand->stride[1] != 0)) return false;
  }
  const conv_operand *last = conv_rows_added(conv);
  if (conv->rows.turned && last) return false;
  return !last || (is_even(conv, last) && last->stride[1] == 1);
}

/* ---- The schedule ---------------------------------------------------------------------------- */

enum {
  LEAST_RESULTS = 8,
  BANDS_PER_THREAD = 4,
  CLOSE_SETS = 2048,
  TURNED_PIXELS = 48,       /* least pixels of a part of planes; … */
  PROGRAM_PIXELS = 512,     /* … with an interpreted program */
  TURNED_PANEL = 96 << 10,  /* bytes of a panel, if the results are planes */
  BYTES_PANEL = 96 << 10,   /* bytes of a panel for tall tiles of bytes, as in products */
  TURNED_PRODUCTS = 96,     /* per transposed element, at least; … */
  COMPETING_PRODUCTS = 256, /* … if the planes' cache sets conflict, for the extra copy */
  SHORT_WINDOW = 64,        /* elements */
  POOLED_PANEL = 32 << 10,  /* bytes of a panel's results that await pooling */
  TURNED_LANES = 16,        /* least lanes of vectors that transpose fast enough */
  COMPETING_PLANES = 4096   /* bytes */
};

/* Chooses the layout of the copy. If windows were at a distance where they compete for the same
 * cache sets, pixels are one cache line longer; the runs are then single pixels. */
static void choose_copy(const cpu_conv *conv, conv_rows *s) {
  const compute_conv_attributes *c = &conv->shape;
  s->sparse = c->filter_size[0] == 1 && c->filter_size[1] == 1;
  for (int d = 0; d < 2; d++) s->step[d] = s->sparse ? 1 : c->stride[d];
  s->size = (int64_t)conv->element / conv->type->group;
  const int64_t tap = cpu_round_up(s->channels, conv->type->group);
  const bool close = s->step[1] * tap * s->size % CLOSE_SETS == 0;
  s->pixel = tap + (close ? 64 / s->size : 0);
  s->taps = s->pixel == tap && c->dilation[1] == 1 ? c->filter_size[1] : 1;
  s->run = s->taps * tap;
  s->runs = c->filter_size[0] * c->filter_size[1] / s->taps;
  s->line = s->pixel *
            ((c->result_size[1] - 1) * s->step[1] + (c->filter_size[1] - 1) * c->dilation[1] + 1);
  s->even = s->step[0] * s->line == c->result_size[1] * s->step[1] * s->pixel;
}

/* Several runs are multiplied in one product, so that their sums stay in registers. The limit is
 * the panel size of a product (gemm_schedule.c). Two cases allow larger panels, because reading and
 * writing sums costs more than reading a panel from the level-2 cache: parts of planes are only a
 * few tiles high, and the tiles for words of bytes are tall. */
static void choose_runs(const cpu_conv *conv, conv_rows *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t across = c->filter_size[1] / s->taps;
  const int64_t bytes = s->lines * conv->type->columns * (int64_t)conv->element;
  s->row_runs = across > 1 ? across : s->runs;
  s->apart = across > 1 ? c->dilation[1] * s->pixel : c->dilation[0] * s->line;
  const bool tall = conv->type->terms && conv->type->lanes * (int64_t)conv->element == 64;
  const int64_t most = s->turned ? TURNED_PANEL : tall ? BYTES_PANEL : GEMM_CLOSE_CACHE;
  const int64_t parts = cpu_divide_up(s->row_runs, cpu_max(most / bytes, 1));
  s->together = cpu_divide_up(s->row_runs, parts);
}

static int64_t copy_bytes(const cpu_conv *conv, int64_t rows) {
  return conv_rows_copied(conv, rows) * conv->rows.line * conv->rows.size;
}

/* `true` if sums are pooled in registers: for short windows, the general micro-kernel has too much
 * overhead around them. */
static bool has_short_windows(const cpu_conv *conv) {
  const conv_rows *s = &conv->rows;
  const int64_t columns = conv->type->columns;
  if (conv->shape.pool != 2 || s->taps != conv->shape.filter_size[1] ||
      s->runs * s->run > SHORT_WINDOW || s->results % columns != 0 ||
      conv->output[0].stride[1] != 1 ||
      columns * (int64_t)sizeof(float) != 2 * conv->head.device->isa->vector_bytes)
    return false;
  if (!s->finishes) return conv->identity;
  const conv_operand *bias = conv_rows_addend(conv, 0);
  return !conv_rows_addend(conv, 1) && !conv_rows_addend(conv, 2) &&
         (!bias || bias->stride[1] == 1);
}

/* Rows of a row tile, in whole pooling blocks: as many as keep a panel's results within
 * POOLED_PANEL. */
static int64_t pooled_band(const cpu_conv *conv, int64_t most) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t row = c->result_size[1] * conv->type->columns * (int64_t)conv->element;
  const int64_t fit = conv->rows.short_windows ? most : cpu_min(most, POOLED_PANEL / row);
  const int64_t blocks = cpu_max(fit / c->pool, 1);
  return conv_equal_parts(c->result_size[0] / c->pool, blocks) * c->pool;
}

/* Chooses row tiles whose copy stays in the level-2 cache. Several threads get more tiles, unless
 * the filter is larger than the data: it should then be read as few times as possible. In that case
 * the panels are divided, so that threads finish at the same time. This costs little, because a
 * tile's units share its copy. */
static void choose_units(const cpu_conv *conv, conv_rows *s) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t rows = c->result_size[0], l2 = (int64_t)conv->head.device->l2_bytes;
  const int64_t threads = conv->head.device->threads, outer = c->batch * c->groups;
  const int64_t bands = threads == 1 ? 1 : BANDS_PER_THREAD * threads;
  const int64_t units = threads == 1 ? 1 : GEMM_UNITS_PER_THREAD * threads;
  const int64_t width = conv->type->columns * (int64_t)conv->element;
  const int64_t room = l2 * 3 / 5 - copy_bytes(conv, 1), row = s->step[0] * s->line * s->size;
  const int64_t fit = cpu_max(cpu_min(1 + room / row, rows), 1);
  s->bands = cpu_divide_up(rows, fit);
  const bool large_filter = s->panels * s->runs * s->lines * width > copy_bytes(conv, rows);
  if (outer * s->bands < bands && !large_filter)
    s->bands = cpu_min(rows, cpu_divide_up(bands, outer));
  s->band = cpu_divide_up(rows, s->bands);
  if (c->pool > 0) s->band = pooled_band(conv, s->band);
  s->bands = cpu_divide_up(rows, s->band);
  const int64_t sums = s->band * c->result_size[1] * width;
  s->blocks = cpu_max(cpu_divide_up(units, outer * s->bands),
                      cpu_divide_up(s->panels, cpu_max(l2 / 2 / sums, 1)));
  s->block = cpu_divide_up(s->panels, cpu_min(s->blocks, s->panels));
  s->blocks = cpu_divide_up(s->panels, s->block);
}

/* `true` if tiles of the product span rows of results although their windows are unevenly spaced:
 * tiles of few rows have a register for the address of each row. */
static bool lists_windows(const cpu_conv *conv) {
  return !conv->rows.even && conv->rows.band > 1 && conv->type->rows <= CPU_GEMM_FORESEEN;
}

static void make_schedule(cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  conv_rows *s = &conv->rows;
  const int64_t columns = conv->type->columns, size = conv->element;
  s->channels = c->data_channels / c->groups;
  s->results = c->result_channels / c->groups;
  s->panels = cpu_divide_up(s->results, columns);
  choose_copy(conv, s);
  s->lines = s->run / conv->type->group + conv->type->terms;
  choose_runs(conv, s);
  s->short_windows = has_short_windows(conv);
  choose_units(conv, s);
  s->units = c->batch * c->groups * s->bands * s->blocks;
  const int64_t pixels = s->finishes || conv->identity ? TURNED_PIXELS : PROGRAM_PIXELS;
  s->chunk = cpu_min(cpu_divide_up(pixels, c->result_size[1]), s->band);
  s->copy_bytes = cpu_whole_lines((uint64_t)copy_bytes(conv, s->band));
  s->list_bytes = lists_windows(conv)
                      ? cpu_whole_lines((uint64_t)(s->band * c->result_size[1]) * sizeof(int64_t))
                      : 0;
  const int64_t sums = s->turned     ? s->chunk /* rows of a panel */
                       : c->pool > 0 ? s->band
                                     : s->band * s->block;
  s->worker_bytes = CONV_ROWS_BAND_BYTES + s->copy_bytes + s->list_bytes +
                    cpu_whole_lines((uint64_t)(sums * c->result_size[1] * columns * size));
  s->packed_bytes =
      cpu_whole_lines((uint64_t)(c->groups * s->panels * s->runs * s->lines * columns * size));
}

/* Adds memory for a unit's results before an addition. */
static void add_values(cpu_conv *conv) {
  conv_rows *s = &conv->rows;
  const int64_t count = s->band * conv->shape.result_size[1] * s->block * conv->type->columns;
  s->values = s->worker_bytes;
  s->worker_bytes += cpu_whole_lines((uint64_t)(count * conv->element));
}

/* Adds memory for a panel's pooled results before the epilogue, or before the transposition to
 * planes. */
static void add_pooled(cpu_conv *conv) {
  conv_rows *s = &conv->rows;
  if ((s->finishes || conv->identity) && conv->output[0].stride[1] == 1) return;
  s->pooled = s->worker_bytes;
  s->worker_bytes += cpu_whole_lines((uint64_t)(s->band / conv->shape.pool * conv->size[3] *
                                                conv->type->columns * (int64_t)conv->element));
}

/* `true` if the output's planes compete for the same cache sets. */
static bool planes_compete(const cpu_conv *conv) {
  return conv->output[0].stride[1] * conv->element % COMPETING_PLANES == 0;
}

/* Adds memory for a part's planes before the epilogue, or if the output's planes compete for cache
 * sets: these are then stored one by one. In this memory, planes are an odd number of cache lines
 * apart. */
static void add_planes(cpu_conv *conv) {
  conv_rows *s = &conv->rows;
  const int64_t line = 64 / conv->element, columns = conv->type->columns;
  if ((s->finishes || conv->identity) && !planes_compete(conv)) return;
  s->plane = (cpu_divide_up(s->chunk * conv->shape.result_size[1], line) | 1) * line;
  s->planes = s->worker_bytes;
  s->worker_bytes += (uint64_t)(s->plane * columns * conv->element);
}

static bool is_byte(const conv_operand *operand) {
  return operand->dtype == COMPUTE_I8 || operand->dtype == COMPUTE_U8;
}

/* The micro-kernel for the operands' products, or NULL. A filter that must be shifted, such as u8
 * for dot products of four bytes, would need sums of every window's data: it is not supported. */
static const cpu_gemm_type *type_of(const cpu_conv *conv) {
  const conv_operand *x = &conv->input[0], *f = &conv->input[1];
  const cpu_gemm_table *table = conv->head.device->isa->gemm;
  const cpu_gemm_type *bytes = cpu_gemm_bytes(
      table, f->dtype == COMPUTE_I8 && (conv->shape.precision & COMPUTE_PRECISION_SATURATE) != 0);
  if (x->dtype == conv->accumulate && f->dtype == conv->accumulate) return conv->type;
  if (conv->accumulate == COMPUTE_I32 && is_byte(x) && is_byte(f) &&
      (bytes->group == 2 || f->dtype == COMPUTE_I8))
    return bytes;
  if (conv->accumulate == COMPUTE_F32 && x->dtype == COMPUTE_BF16 && f->dtype == COMPUTE_BF16)
    return table->bf16;
  return NULL;
}

/* `true` if transposing the data and the results pays: there must be many products per transposed
 * element, and result channels that fill vectors. */
static bool repays_turning(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t lanes = conv->type->lanes;
  const int64_t channels = c->data_channels / c->groups, results = c->result_channels / c->groups;
  const int64_t taps = c->filter_size[0] * c->filter_size[1];
  const int64_t met = cpu_min(c->stride[0] * c->stride[1], taps); /* pixels per result */
  const int64_t turned = channels * met + results;
  const double products = planes_compete(conv) ? COMPETING_PRODUCTS : TURNED_PRODUCTS;
  return conv->accumulate == COMPUTE_F32 && conv->output[0].dtype == COMPUTE_F32 &&
         conv->output[0].stride[3] == 1 && lanes >= TURNED_LANES &&
         9 * results >= 8 * cpu_round_up(results, lanes) &&
         (double)channels * (double)(taps * results) >= products * (double)turned;
}

/* `true` if the results are pixels of channels, or transposing pays, and there is a
 * micro-kernel. */
static bool suits(const cpu_conv *conv, const char **reason) {
  const compute_conv_attributes *c = &conv->shape;
  *reason = "the results do not have channels last, and planes would not repay turning";
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD) return false;
  if (conv->output[0].stride[1] != 1 && c->pool == 0)
    return c->data_channels > 0 && type_of(conv) == conv->type && repays_turning(conv);
  *reason = "too few result channels in a group";
  if (c->result_channels / c->groups < LEAST_RESULTS || c->data_channels == 0) return false;
  *reason = "data of another type than the sums, without products of its own";
  return type_of(conv) != NULL;
}

static void exchange(int64_t *a, int64_t *b) {
  const int64_t a_before = *a;
  *a = *b;
  *b = a_before;
}

/* Rewrites BY_DATA without strides as FORWARD: exchanges the channels, flips the filter, and
 * complements the padding so that windows end at the first element. */
static void make_forward(cpu_conv *conv) {
  compute_conv_attributes *c = &conv->shape;
  int64_t *stride = conv->input[1].stride;
  c->direction = COMPUTE_CONVOLUTION_FORWARD;
  exchange(&c->data_channels, &c->result_channels);
  exchange(&stride[0], &stride[1]);
  for (int d = 0; d < 2; d++) {
    exchange(&c->data_size[d], &c->result_size[d]);
    c->padding[d] = (c->filter_size[d] - 1) * c->dilation[d] - c->padding[d];
    conv->rows.filter_first += (c->filter_size[d] - 1) * stride[2 + d];
    stride[2 + d] = -stride[2 + d];
  }
}

/* Only for planes, and not for an interpreted program: it would cost more than is gained. */
static bool is_forward_in_reverse(const cpu_conv *conv) {
  const compute_conv_attributes *c = &conv->shape;
  return c->direction == COMPUTE_CONVOLUTION_BY_DATA && c->groups == 1 && c->stride[0] == 1 &&
         c->stride[1] == 1 && conv->output[0].stride[1] != 1 &&
         (conv->identity || conv->epilogue->formula.loop || conv->epilogue->finish.loops);
}

const char *conv_rows_refuse_pool(const compute_kernel_descriptor *descriptor) {
  const compute_conv_attributes *c = compute_conv_of(descriptor);
  if (c->pool == 0) return NULL;
  for (uint32_t k = 0; k < descriptor->input_count; k++)
    if (descriptor->inputs[k].dtype != COMPUTE_F32) return "operands of other types are not pooled";
  const bool turns = descriptor->inputs[0].stride[1] == 1 && descriptor->outputs[0].stride[3] == 1;
  if (descriptor->outputs[0].dtype != COMPUTE_F32 ||
      (descriptor->outputs[0].stride[1] != 1 && !turns) ||
      c->result_channels / c->groups < LEAST_RESULTS || c->data_channels == 0)
    return "data and results without channels last, or of few channels, are not pooled";
  return NULL;
}

compute_status conv_rows_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  const compute_conv_attributes shape = conv->shape;
  const conv_operand filter = conv->input[1];
  if (is_forward_in_reverse(conv)) make_forward(conv);
  if (!suits(conv, reason)) {
    conv->shape = shape;
    conv->input[1] = filter;
    conv->rows.filter_first = 0;
    return COMPUTE_OK;
  }
  conv->type = type_of(conv);
  conv->rows.turned = conv->output[0].stride[1] != 1 && shape.pool == 0;
  conv->rows.finishes = can_finish(conv);
  make_schedule(conv);
  const conv_rows *s = &conv->rows;
  conv->packed = (descriptor->constant_inputs >> 1 & 1) != 0;
  if (s->turned)
    add_planes(conv);
  else if (conv->shape.pool > 0)
    add_pooled(conv);
  else if (s->finishes && conv_rows_added(conv))
    add_values(conv);
  conv->head.run = conv_rows_run;
  snprintf(conv->head.description, sizeof conv->head.description,
           "convolution rows%s %s %dx%d, %lld bands of %lld rows, %lld x %lld channels%s",
           s->turned              ? " of planes"
           : conv->shape.pool > 0 ? " pooled"
                                  : "",
           conv->head.device->isa->name, conv->type->rows, conv->type->columns, (long long)s->bands,
           (long long)s->band, (long long)s->blocks, (long long)(s->block * conv->type->columns),
           conv->packed ? ", packed" : "");
  return COMPUTE_OK;
}
