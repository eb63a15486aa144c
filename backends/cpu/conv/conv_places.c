/* SPDX-License-Identifier: MIT */
/* Copies of small planes, position by position, for convolutions that are multiplied tap by tap. */
#include <string.h>

#include "conv.h"

conv_reach conv_reach_of(const conv_axis *axis, int64_t tap) {
  const int64_t offset = axis->offset_first + tap * axis->offset_step, step = axis->source_step;
  conv_reach r = {.residue = offset % step};
  if (r.residue < 0) r.residue += step;
  r.base = (offset - r.residue) / step;
  const int64_t places = cpu_divide_up(cpu_max(axis->source_size - r.residue, 0), step);
  r.first = cpu_min(cpu_max(-r.base, 0), axis->count);
  r.end = cpu_max(cpu_min(places - r.base, axis->count), r.first);
  return r;
}

void conv_places_choose(const cpu_conv *conv, conv_places *p) {
  for (int d = 0; d < 2; d++) {
    const conv_axis *axes = conv->axes[d];
    memset(p->part[d], -1, sizeof p->part[d]);
    p->size[d] = axes->source_size;
    p->step[d] = axes->source_step;
    p->place[d] = cpu_divide_up(p->size[d], p->step[d]);
    p->parts[d] = 0;
    for (int64_t i = 0; i < conv->axis_count[d]; i++)
      for (int64_t tap = 0; tap < axes[i].taps; tap++) {
        int8_t *part = &p->part[d][conv_reach_of(&axes[i], tap).residue];
        if (*part < 0) *part = (int8_t)p->parts[d]++;
      }
  }
}

int64_t conv_places_elements(const conv_places *p, int64_t images) {
  return p->parts[0] * p->parts[1] * p->place[0] * p->place[1] * images * p->pixel;
}

/* Copies one row of one image, part after part. Planes with strides above 2 are gathered by way of
 * `line`. */
static void copy_row(const cpu_conv *conv, const conv_operand *x, const conv_places *p,
                     const unsigned char *from, int64_t row, int64_t channels, int64_t images,
                     unsigned char *line, unsigned char *copy) {
  const int64_t size = conv->element, part_h = p->part[0][row % p->step[0]];
  const int64_t place = row / p->step[0];
  const cpu_gemm_source source = {from, x->dtype, x->stride[3], x->stride[1]};
  if (part_h < 0) return;
  if (p->step[1] <= 2 || x->stride[1] == 1) {
    for (int64_t first = 0; first < p->step[1] && first < p->size[1]; first++) {
      const int64_t part_w = p->part[1][first];
      const cpu_gemm_source part = {from + first * x->stride[3] * x->size, x->dtype,
                                    p->step[1] * x->stride[3], x->stride[1]};
      if (part_w >= 0)
        conv->type->pack_rows(copy + conv_place(p, images, part_h, part_w, place, 0) * size,
                              images * p->pixel, cpu_divide_up(p->size[1] - first, p->step[1]),
                              channels, &part);
    }
    return;
  }
  conv->type->pack_rows(line, p->pixel, p->size[1], channels, &source);
  for (int64_t i = 0; i < p->size[1]; i++) {
    const int64_t part_w = p->part[1][i % p->step[1]];
    if (part_w < 0) continue;
    memcpy(copy + conv_place(p, images, part_h, part_w, place, i / p->step[1]) * size,
           line + i * p->pixel * size, (size_t)(channels * size));
  }
}

void conv_places_copy(const cpu_conv *conv, const conv_operand *x, const conv_places *p,
                      const unsigned char *from, int64_t channels, int64_t images,
                      unsigned char *line, unsigned char *copy) {
  const bool whole =
      p->step[0] == 1 && p->step[1] == 1 && x->stride[2] == p->size[1] * x->stride[3];
  for (int64_t i = 0; i < images; i++, from += x->stride[0] * x->size) {
    unsigned char *to = copy + i * p->pixel * conv->element;
    const cpu_gemm_source all = {from, x->dtype, x->stride[3], x->stride[1]};
    if (whole)
      conv->type->pack_rows(to, images * p->pixel, p->size[0] * p->size[1], channels, &all);
    for (int64_t row = 0; row < p->size[0] && !whole; row++)
      copy_row(conv, x, p, from + row * x->stride[2] * x->size, row, channels, images, line, to);
  }
}
