/* Direct convolution: how its work is cut, and its copy of the data. */
#include <string.h>

#include "conv_direct.h"

enum {
  COPY_BYTES = 96 << 10,      /* of a copy, where that leaves bands of a sensible height */
  MOST_COPY_BYTES = 1 << 20,  /* more is for the ways that cut columns and channels, too */
  MOST_SUMS_BYTES = 16 << 20, /* of BY_FILTER */
  UNITS_PER_THREAD = 4,
  UNIT_PRODUCTS = 1 << 17, /* multiplications that repay a unit of its own */
  TASKS_PER_THREAD = 16,
  PARTS = 16, /* units of BY_FILTER, where there are fewer blocks of the filter */
  FEW = 4
};

/* ---- Which shapes --------------------------------------------------------------------------- */

/* Whether taps are 3 × 3 neighbours in the copy, which its micro-kernel is made for. */
static bool has_squares(const cpu_conv *conv) {
  const conv_axis *h = conv->axes[0], *w = conv->axes[1];
  return conv->axis_count[0] * conv->axis_count[1] == 1 && h->taps == 3 && w->taps == 3 &&
         h->offset_step == h->source_step && w->offset_step == 1 && w->source_step == 1;
}

/* Whether a matrix product would waste more of its register tiles than this way loses by reading
 * every window where it lies. Planes are stored one by one, which suits an output of planes. */
static bool is_thin(const cpu_conv *conv) {
  const compute_convolution *c = &conv->shape;
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
    s->count[dimension] = conv_maximum(s->count[dimension], axis->count);
    s->step[dimension] = axis->source_step;
    if (axis->taps == 0) continue;
    const int64_t last = axis->offset_first + (axis->taps - 1) * axis->offset_step;
    low = any ? conv_minimum(low, axis->offset_first) : axis->offset_first;
    high = any ? conv_maximum(high, last) : last;
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
  s->plane = (conv_divide_up(copied_rows(s, s->rows) * s->pitch, line) | 1) * line;
  s->copy_bytes = (uint64_t)conv_round_up((s->sources * s->plane + 2 * line) * conv->element, 64);
}

static void choose_rows(const cpu_conv *conv, struct conv_direct *s) {
  const compute_convolution *c = &conv->shape;
  const bool by_filter = c->direction == COMPUTE_CONVOLUTION_BY_FILTER;
  const int64_t width = (s->count[1] + s->reach[1] / s->step[1]) * s->step[1];
  const int64_t row_bytes = width * s->sources * conv->element;
  const int64_t fit = (COPY_BYTES / row_bytes - s->reach[0]) / s->step[0];
  const int64_t least = conv_maximum(2 * s->reach[0] / s->step[0] + 1, 8);
  int64_t rows = conv_minimum(conv_maximum(fit, least), s->count[0]);
  const int64_t outer = c->batch * c->groups, threads = conv->head.device->threads;
  const double products = (double)outer * (double)(s->sources * s->results * s->taps) *
                          (double)s->count[0] * (double)s->count[1];
  double wanted = products / UNIT_PRODUCTS;
  const int64_t most = by_filter ? PARTS : threads == 1 ? 1 : UNITS_PER_THREAD * threads;
  if (wanted > (double)most) wanted = (double)most;
  const int64_t want = conv_divide_up((int64_t)wanted, outer);
  if (want > 1)
    rows = conv_minimum(
        rows, conv_maximum(conv_divide_up(s->count[0], want), conv_minimum(least, s->count[0])));
  s->bands = conv_divide_up(s->count[0], rows);
  s->rows = conv_divide_up(s->count[0], s->bands);
  s->bands = conv_divide_up(s->count[0], s->rows);
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
  const compute_convolution *c = &conv->shape;
  const int64_t size = conv->element, lanes = s->loops->lanes;
  const int32_t threads = conv->head.device->threads;
  const bool phases = conv->axis_count[0] * conv->axis_count[1] > 1;
  const int64_t rows = s->rows * conv->axis_count[0], width = s->count[1] * conv->axis_count[1];
  s->units = c->batch * c->groups * s->bands;
  s->chunk = threads == 1 ? s->units : conv_maximum(s->units / (TASKS_PER_THREAD * threads), 1);
  s->tasks = conv_divide_up(s->units, s->chunk);
  const int64_t planes = c->direction == COMPUTE_CONVOLUTION_BY_FILTER ? CONV_DIRECT_TOGETHER : 1;
  s->plane_bytes = (uint64_t)conv_round_up((planes * rows * width + lanes) * size, 64);
  if (phases)
    s->phase_bytes =
        (uint64_t)(conv->axis_count[1] * conv_round_up((s->rows * s->count[1] + lanes) * size, 64));
  s->weight_bytes = (uint64_t)conv_round_up((s->taps * s->sources + 1) * size, 64);
  s->parts = conv_minimum(conv_maximum(conv_divide_up(PARTS, c->groups), 1), c->batch * s->bands);
}

struct conv_direct *conv_direct_schedule(const cpu_conv *conv, bool *fits) {
  const compute_convolution *c = &conv->shape;
  const bool by_data = c->direction == COMPUTE_CONVOLUTION_BY_DATA;
  struct conv_direct s = {0};
  *fits = false;
  if (c->batch == 0 || !is_thin(conv)) return NULL;
  for (int d = 0; d < 2; d++) find_extent(conv, d, &s);
  s.sources = (by_data ? c->result_channels : c->data_channels) / c->groups;
  s.results = (by_data ? c->data_channels : c->result_channels) / c->groups;
  if (s.sources == 0 || s.count[0] == 0 || s.count[1] == 0) return NULL;
  /* Copies are small, and what follows must not overflow. */
  const double columns = (double)s.count[1] + (double)(s.reach[1] / s.step[1]);
  if (s.step[0] > MOST_COPY_BYTES || s.reach[0] > MOST_COPY_BYTES ||
      columns * (double)s.step[1] * (double)s.sources * (double)conv->element > MOST_COPY_BYTES)
    return NULL;
  const conv_axis *h = &conv->axes[0][conv->axis_count[0] - 1];
  const conv_axis *w = &conv->axes[1][conv->axis_count[1] - 1];
  s.taps = (h->taps_before + h->taps) * (w->taps_before + w->taps);
  s.loops = conv->accumulate == COMPUTE_F64 ? &conv->head.device->isa->direct->f64
                                            : &conv->head.device->isa->direct->f32;
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

/* Which of `count` rows or columns from place `base` of the source on are inside it. */
static void find_inside(int64_t base, int64_t size, int64_t count, int64_t *first, int64_t *end) {
  *first = base >= 0 ? 0 : conv_minimum(-base, count);
  *end = conv_maximum(conv_minimum(size - base, count), *first);
}

/* The columns of one row's residue after the other. */
static void copy_parts(const cpu_conv *conv, const unsigned char *from, int64_t rows, int64_t first,
                       int64_t end, unsigned char *to) {
  const struct conv_direct *s = conv->direct;
  const conv_operand *x = &conv->input[0];
  const int64_t size = conv->element, n = s->residues;
  const bool plain = x->dtype == conv->accumulate && x->stride[3] == 1;
  for (int64_t r = 0; r < n && first + r < end; r++) {
    const int64_t column = first + r, count = conv_divide_up(end - column, n);
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
