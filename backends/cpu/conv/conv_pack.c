/* What FORWARD and BY_DATA multiply: a padded copy of a block of the source, and the filter in the
 * order in which the micro-kernels read it.
 *
 * In the copy, a channel consists of splits × splits_w parts, one for each residue of row and
 * column by the source's step that some tap meets; elements of a part are neighbours for
 * neighbouring results. A window is then the same pattern of addresses for every result, whatever
 * the stride. */
#include <string.h>

#include "conv.h"

/* Where the copy's row (or column) i of one residue lies in the source: base + i·step; the first of
 * them inside the source, and the first behind it. */
typedef struct copied_range {
  int64_t base, step, first, end;
} copied_range;

static copied_range find_range(const conv_axis *axis, int64_t result, int64_t split,
                               int64_t count) {
  copied_range r = {.step = axis->source_step};
  r.base = result * axis->source_step + axis->offset_first +
           split * axis->offset_step % axis->source_step;
  r.first = r.base >= 0 ? 0 : conv_minimum(conv_divide_up(-r.base, r.step), count);
  const int64_t rest = axis->source_size - r.base;
  r.end = rest <= 0 ? 0 : conv_minimum(conv_divide_up(rest, r.step), count);
  r.end = conv_maximum(r.end, r.first);
  return r;
}

/* Zeros around the rows and columns that are inside. */
static void clear_padding(unsigned char *part, int64_t pitch, int64_t rows, int64_t columns,
                          int64_t size, const copied_range *h, const copied_range *w) {
  memset(part, 0, (size_t)(h->first * pitch * size));
  memset(part + h->end * pitch * size, 0, (size_t)((rows - h->end) * pitch * size));
  if (w->first == 0 && w->end == columns) return;
  for (int64_t row = h->first; row < h->end; row++) {
    unsigned char *to = part + row * pitch * size;
    memset(to, 0, (size_t)(w->first * size));
    memset(to + w->end * size, 0, (size_t)((columns - w->end) * size));
  }
}

void conv_copy_source(const cpu_conv *conv, const void *source, const conv_unit *unit, bool cleared,
                      unsigned char *copy) {
  const conv_schedule *s = &conv->schedule;
  const conv_operand *x = &conv->input[0];
  const int64_t size = conv->element;
  const int64_t rows = unit->rows + unit->h->reach, columns = unit->columns + unit->w->reach;
  const unsigned char *image =
      (const unsigned char *)source +
      (unit->image * x->stride[0] + unit->group * s->source_channels * x->stride[1]) * x->size;
  for (int64_t i = 0; i < unit->h->splits; i++) {
    const copied_range h = find_range(unit->h, unit->row, i, rows);
    for (int64_t j = 0; j < unit->w->splits; j++) {
      const copied_range w = find_range(unit->w, unit->column, j, columns);
      const unsigned char *from = image + ((h.base + h.first * h.step) * x->stride[2] +
                                           (w.base + w.first * w.step) * x->stride[3]) *
                                              x->size;
      unsigned char *part = copy + (i * s->splits_w + j) * s->part * size;
      for (int64_t c = 0; c < s->source_channels; c++) {
        if (!cleared) clear_padding(part, s->pitch, rows, columns, size, &h, &w);
        const cpu_gemm_source block = {from, x->dtype, h.step * x->stride[2],
                                       w.step * x->stride[3]};
        if (h.end > h.first && w.end > w.first)
          conv->type->pack_rows(part + (h.first * s->pitch + w.first) * size, s->pitch,
                                h.end - h.first, w.end - w.first, &block);
        part += s->plane * size;
        from += x->stride[1] * x->size;
      }
    }
  }
}

/* Where in the copy's channel the window of result 0 has tap (i, j). */
static int64_t tap_place(const conv_schedule *s, const conv_unit *unit, int64_t i, int64_t j) {
  const conv_axis *h = unit->h, *w = unit->w;
  const int64_t part = i % h->splits * s->splits_w + j % w->splits;
  return part * s->part + i * h->offset_step / h->source_step * s->pitch +
         j * w->offset_step / w->source_step;
}

void conv_list_rows(const cpu_conv *conv, const conv_unit *unit, int64_t channels, int64_t *rows) {
  const conv_schedule *s = &conv->schedule;
  const int64_t taps = unit->h->taps * unit->w->taps;
  for (int64_t i = 0; i < unit->h->taps; i++)
    for (int64_t j = 0; j < unit->w->taps; j++) {
      const int64_t tap = i * unit->w->taps + j, place = tap_place(s, unit, i, j);
      for (int64_t c = 0; c < channels; c++)
        rows[s->taps_inside ? c * taps + tap : tap * channels + c] = c * s->plane + place;
    }
}

/* `count` rows of k from the k-th of `depth` on: as slivers, tile by tile, or as rows. */
static void pack_run(const cpu_conv *conv, unsigned char *packed, int64_t m, int64_t depth,
                     int64_t k, int64_t count, const cpu_gemm_source *source) {
  const cpu_gemm_type *type = conv->type;
  const int64_t size = conv->element;
  if (!type->pack_slivers) {
    type->pack_rows(packed + k * size, depth, m, count, source);
    return;
  }
  /* The micro-kernels cut the block into tiles of nearly equal height. */
  const int64_t tiles = conv_divide_up(m, type->rows);
  cpu_gemm_source part = *source;
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t rows = m / tiles + (t < m % tiles);
    type->pack_slivers(packed + k * rows * size, rows, count, &part);
    packed += rows * depth * size;
    part.data =
        (const unsigned char *)part.data + rows * part.outer * (int64_t)cpu_dtype_size(part.dtype);
  }
}

void conv_pack_filter(const cpu_conv *conv, const void *filter, const conv_unit *unit,
                      unsigned char *packed) {
  const conv_schedule *s = &conv->schedule;
  const conv_operand *f = &conv->input[1];
  const conv_axis *h = unit->h, *w = unit->w;
  const bool forward = conv->shape.direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t to_result = f->stride[forward ? 0 : 1], to_source = f->stride[forward ? 1 : 0];
  const int64_t per_group = conv->shape.result_channels / conv->shape.groups;
  const int64_t taps = h->taps * w->taps;
  for (int64_t c = 0; c < s->source_channels; c += s->channels) {
    const int64_t channels = conv_minimum(s->channels, s->source_channels - c);
    const int64_t depth = channels * taps;
    const int64_t first = unit->group * per_group * f->stride[0] + unit->m * to_result +
                          c * to_source + h->filter_first * f->stride[2] +
                          w->filter_first * f->stride[3];
    const unsigned char *from = (const unsigned char *)filter + first * f->size;
    if (s->taps_inside) {
      const cpu_gemm_source source = {from, f->dtype, to_result, 1};
      pack_run(conv, packed, unit->m_count, depth, 0, depth, &source);
    } else {
      for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t at = tap / w->taps * h->filter_step * f->stride[2] +
                           tap % w->taps * w->filter_step * f->stride[3];
        const cpu_gemm_source source = {from + at * f->size, f->dtype, to_result, to_source};
        pack_run(conv, packed, unit->m_count, depth, tap * channels, channels, &source);
      }
    }
    packed += unit->m_count * depth * conv->element;
  }
}
