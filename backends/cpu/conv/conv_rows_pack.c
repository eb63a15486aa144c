/* SPDX-License-Identifier: MIT */
/* Packs the filter for conv_rows.c: panels of result channels, each with the runs of a window one
 * after the other. A run's elements are ordered by (tap, channel). */
#include <string.h>

#include "conv.h"

/* ---- Elements of the computing type ---------------------------------------------------------- */

/* `true` if the filter's elements of one source channel are contiguous, with the taps in order. */
static bool taps_follow(const cpu_conv *conv) {
  const int64_t *stride = conv->input[1].stride, *size = conv->shape.filter_size;
  return (stride[3] == 1 || size[1] == 1) && (stride[2] == size[1] || size[0] == 1) &&
         stride[1] == size[0] * size[1];
}

/* Packs one panel from elements ordered by (channel, tap): transposes some channels at a time and
 * reorders the rows to (tap, channel). */
static void pack_turning(const cpu_conv *conv, const unsigned char *from, int64_t columns,
                         unsigned char *packed) {
  enum { ROWS = 160, MOST_BYTES = ROWS * 64 * 2 };
  unsigned char turned[MOST_BYTES] __attribute__((aligned(64)));
  const conv_rows *s = &conv->rows;
  const conv_operand *f = &conv->input[1];
  const int64_t taps = conv->shape.filter_size[0] * conv->shape.filter_size[1];
  const int64_t width = conv->type->columns * (int64_t)conv->element;
  const int64_t together = ROWS / taps;
  for (int64_t c = 0; c < s->channels; c += together) {
    const int64_t channels = cpu_min(together, s->channels - c);
    const cpu_gemm_source source = {from + c * taps * f->size, f->dtype, 1, f->stride[0]};
    conv->type->pack_panels(turned, channels * taps, columns, &source);
    for (int64_t i = 0; i < channels; i++)
      for (int64_t tap = 0; tap < taps; tap++)
        memcpy(packed + (tap * s->channels + c + i) * width, turned + (i * taps + tap) * width,
               (size_t)width);
  }
}

/* Packs one panel, tap by tap. */
static void pack_tapwise(const cpu_conv *conv, const unsigned char *from, int64_t columns,
                         unsigned char *packed) {
  const conv_rows *s = &conv->rows;
  const conv_operand *f = &conv->input[1];
  const int64_t taps_w = conv->shape.filter_size[1];
  for (int64_t tap = 0; tap < conv->shape.filter_size[0] * taps_w; tap++) {
    const int64_t at = tap / taps_w * f->stride[2] + tap % taps_w * f->stride[3];
    const cpu_gemm_source source = {from + at * f->size, f->dtype, f->stride[1], f->stride[0]};
    conv->type->pack_panels(packed + tap * s->channels * conv->type->columns * conv->element,
                            s->channels, columns, &source);
  }
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Gathers the columns of a run, one after the other. `size` is constant after inlining. */
static inline void take_run(const cpu_conv *conv, const unsigned char *from, int64_t columns,
                            const size_t size, unsigned char *piece) {
  const conv_rows *s = &conv->rows;
  const int64_t *stride = conv->input[1].stride, tap_size = s->run / s->taps;
  for (int64_t j = 0; j < columns; j++)
    for (int64_t tap = 0; tap < s->taps; tap++)
      for (int64_t c = 0; c < s->channels; c++)
        memcpy(piece + (j * s->run + tap * tap_size + c) * (int64_t)size,
               from + (j * stride[0] + c * stride[1] + tap * stride[3]) * (int64_t)size, size);
}

/* Packs one panel, run by run, by way of `piece`: there, nonexistent channels are zeros. */
static void pack_words(const cpu_conv *conv, const unsigned char *from, int64_t columns,
                       unsigned char *piece, unsigned char *packed) {
  const conv_rows *s = &conv->rows;
  const conv_operand *f = &conv->input[1];
  const int64_t across = conv->shape.filter_size[1] / s->taps;
  const cpu_gemm_source source = {piece, f->dtype, 1, s->run};
  memset(piece, 0, (size_t)(columns * s->run * f->size));
  for (int64_t run = 0; run < s->runs; run++) {
    const int64_t first = run / across * f->stride[2] + run % across * s->taps * f->stride[3];
    if (f->size == 1)
      take_run(conv, from + first, columns, 1, piece);
    else
      take_run(conv, from + first * f->size, columns, 2, piece);
    conv->type->pack_words(packed, true, columns, s->run, &source, conv->input[0].dtype);
    packed += s->lines * conv->type->columns * conv->element;
  }
}

/* ---- All panels ------------------------------------------------------------------------------ */

typedef struct packing {
  const cpu_conv *conv;
  const unsigned char *filter;
  unsigned char *packed;
  unsigned char *pieces; /* of the workers, for words */
  int64_t piece_bytes;
} packing;

/* Panels are numbered by group, panel. */
static void pack_task(void *argument, int64_t task, int32_t worker) {
  enum { MOST_TAPS = 128 };
  const packing *p = argument;
  const cpu_conv *conv = p->conv;
  const conv_rows *s = &conv->rows;
  const int64_t column = task % s->panels * conv->type->columns;
  const int64_t columns = cpu_min(conv->type->columns, s->results - column);
  const int64_t first =
      s->filter_first + (task / s->panels * s->results + column) * conv->input[1].stride[0];
  const unsigned char *from = p->filter + first * conv->input[1].size;
  unsigned char *to = p->packed + task * s->runs * s->lines * conv->type->columns * conv->element;
  if (conv->type->group > 1)
    pack_words(conv, from, columns, p->pieces + worker * p->piece_bytes, to);
  else if (taps_follow(conv) &&
           conv->shape.filter_size[0] * conv->shape.filter_size[1] <= MOST_TAPS)
    pack_turning(conv, from, columns, to);
  else
    pack_tapwise(conv, from, columns, to);
}

compute_status conv_rows_pack(const cpu_conv *conv, const void *filter, void *packed) {
  cpu_device *device = conv->head.device;
  packing p = {.conv = conv, .filter = filter, .packed = packed};
  if (conv->type->group > 1) {
    p.piece_bytes = cpu_round_up(conv->type->columns * conv->rows.run * conv->input[1].size, 64);
    const uint64_t bytes = (uint64_t)(p.piece_bytes * device->threads);
    p.pieces = cpu_workspace_acquire(device, bytes);
    if (!p.pieces) return cpu_out_of_memory(device, bytes);
  }
  cpu_parallel(device, conv->shape.groups * conv->rows.panels, pack_task, &p);
  cpu_workspace_return(device, p.pieces);
  return COMPUTE_OK;
}

uint64_t conv_rows_packed_bytes(const cpu_conv *conv, uint64_t *form) {
  const compute_conv_attributes *c = &conv->shape;
  const int64_t *stride = conv->input[1].stride;
  const int64_t what[] = {CPU_FORM_ROWS,
                          conv->type->columns,
                          (int64_t)conv->accumulate,
                          conv->type->group,
                          (int64_t)conv->input[0].dtype,
                          (int64_t)conv->input[1].dtype,
                          conv->rows.taps,
                          conv->rows.lines,
                          c->groups,
                          c->result_channels,
                          c->data_channels,
                          c->filter_size[0],
                          c->filter_size[1],
                          stride[0],
                          stride[1],
                          stride[2],
                          stride[3]};
  *form = cpu_form(what, sizeof what / sizeof what[0]);
  return conv->rows.packed_bytes;
}
