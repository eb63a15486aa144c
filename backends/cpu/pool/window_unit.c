/* SPDX-License-Identifier: MIT */
/* Computes a unit of pooling: positions of maxima, and gradients. */
#include <string.h>

#include "window.h"

/* ---- Positions of maxima --------------------------------------------------------------------- */

static void columns_of_tap(const compute_window_attributes *w, int64_t s, int64_t *first,
                           int64_t *end);

/* Finds the maxima of a row of windows, tap by tap over all windows, as in gradients. `best` and
 * `tap` are lines of results. */
static void find_maxima(const cpu_window *kernel, const window_unit *unit, int64_t p,
                        const window_lines *lines, unsigned char *best, unsigned char *tap) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t bytes = kernel->lanes * kernel->element;
  int64_t r, last, first, end;
  memset(tap, 0xff, (size_t)(unit->columns * bytes));
  window_taps(w, 0, p, &r, &last);
  for (; r < last; r++) {
    const int64_t row = p * w->stride[0] - w->padding[0] + r * w->dilation[0] - lines->row;
    const unsigned char *line = lines->data + row * lines->pitch * kernel->element;
    for (int64_t s = 0; s < w->size[1]; s++) {
      columns_of_tap(w, s, &first, &end);
      first = cpu_max(first, unit->column);
      end = cpu_min(end, unit->column + unit->columns);
      if (first >= end) continue;
      const int64_t column =
          first * w->stride[1] - w->padding[1] + s * w->dilation[1] - lines->column;
      const int64_t at = (first - unit->column) * bytes;
      kernel->loops->search(best + at, tap + at, line + column * bytes, end - first, w->stride[1],
                            kernel->lanes, r * w->size[1] + s, false);
    }
  }
}

static int64_t tap_at(const cpu_window *kernel, const unsigned char *tap, int64_t i) {
  return kernel->element == sizeof(int64_t) ? ((const int64_t *)(const void *)tap)[i]
                                            : ((const int32_t *)(const void *)tap)[i];
}

void window_find_unit_maxima(const window_launch *l, int64_t number, unsigned char *scratch) {
  const cpu_window *kernel = l->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const window_unit unit = window_find_unit(kernel, number);
  unsigned char *best = scratch + kernel->source_bytes, *tap = best + kernel->line_bytes;
  unsigned char *values = tap + kernel->line_bytes;
  int64_t *to = (int64_t *)(void *)values;
  int64_t top, height, left, width;
  window_reach(w, 0, unit.row, unit.rows, &top, &height);
  window_reach(w, 1, unit.column, unit.columns, &left, &width);
  const window_lines lines = window_read(l, 0, &unit, top, height, left, width, scratch);
  const int64_t plane = unit.image * kernel->size[1] + unit.channel;
  for (int64_t p = unit.row; p < unit.row + unit.rows; p++) {
    find_maxima(kernel, &unit, p, &lines, best, tap);
    for (int64_t i = 0; i < unit.columns * kernel->lanes; i++) {
      const int64_t code = tap_at(kernel, tap, i), q = unit.column + i / kernel->lanes;
      const int64_t row = p * w->stride[0] - w->padding[0] + code / w->size[1] * w->dilation[0];
      const int64_t column = q * w->stride[1] - w->padding[1] + code % w->size[1] * w->dilation[1];
      *to++ = code < 0
                  ? -1
                  : (plane + i % kernel->lanes) * kernel->plane + row * w->data_size[1] + column;
    }
  }
  window_finish(l, &unit, values);
}

/* ---- The gradient ---------------------------------------------------------------------------- */

/* The gradient by data: a unit is a row tile of the data, of one image and one group of channels.
 * It visits every window that overlaps its rows, in order, and keeps only their share. So an
 * element's sum does not depend on the division into row tiles. */

enum { FEW_TAPS = 16 /* of a window; with more, one result at a time is faster */ };

/* The work of one unit. */
typedef struct job {
  const window_launch *launch;
  window_unit unit;
  unsigned char *target;        /* lines of sums */
  int64_t pitch;                /* elements between two of them */
  unsigned char *line, *second; /* scratch lines */
  unsigned char *gradients;     /* one line of the results' gradients */
  int64_t *offset;              /* by tap */
} job;

/* Finds the result columns whose tap s is inside the data: *first … *end − 1. */
static void columns_of_tap(const compute_window_attributes *w, int64_t s, int64_t *first,
                           int64_t *end) {
  const int64_t ahead = w->padding[1] - s * w->dilation[1];
  const int64_t behind = w->data_size[1] + ahead; /* q·stride < behind */
  *first = ahead > 0 ? cpu_divide_up(ahead, w->stride[1]) : 0;
  *end = behind > 0 ? cpu_min(cpu_divide_up(behind, w->stride[1]), w->result_size[1]) : 0;
  *first = cpu_min(*first, *end);
}

/* The neighbouring taps s and s + 1: both receive gradients together if both are inside the data,
 * and singly at the borders. Tap s + 1 enters the data no later than s and leaves it no later. */
static int32_t share_pair(const cpu_window *kernel, int64_t s, window_share *to) {
  const window_share a = kernel->taps[s], b = kernel->taps[s + 1];
  const int64_t first = cpu_max(a.first, b.first), end = cpu_min(a.end, b.end);
  int32_t count = 0;
  if (first >= end) {
    if (b.first < b.end) to[count++] = b;
    if (a.first < a.end) to[count++] = a;
    return count;
  }
  if (b.first < first) to[count++] = (window_share){b.first, first, s + 1, false};
  to[count++] = (window_share){first, end, s, true};
  if (end < a.end) to[count++] = (window_share){end, a.end, s, false};
  return count;
}

compute_status window_gradient_prepare(cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const uint64_t bytes = 3 * (uint64_t)w->size[1] * sizeof *kernel->taps;
  const bool pairs = w->stride[1] == 2 && w->dilation[1] == 1 && kernel->lanes == 1;
  kernel->taps = cpu_allocate(kernel->head.device, bytes);
  if (!kernel->taps) return cpu_out_of_memory(kernel->head.device, bytes);
  kernel->shares = kernel->taps + w->size[1];
  for (int64_t s = 0; s < w->size[1]; s++) {
    kernel->taps[s].s = s;
    columns_of_tap(w, s, &kernel->taps[s].first, &kernel->taps[s].end);
  }
  for (int64_t s = 0; s < w->size[1]; s++) {
    window_share *to = kernel->shares + kernel->share_count;
    if (pairs && s + 1 < w->size[1])
      kernel->share_count += share_pair(kernel, s++, to);
    else if (kernel->taps[s].first < kernel->taps[s].end)
      kernel->share_count++, *to = kernel->taps[s];
  }
  kernel->halves = w->operation == COMPUTE_WINDOW_MAX && pairs && w->size[0] == 2 &&
                   w->size[1] == 2 && w->stride[0] == 2 && w->dilation[0] == 1 &&
                   w->padding[0] == 0 && w->padding[1] == 0 && kernel->share_count == 1 &&
                   kernel->shares[0].end == w->result_size[1] &&
                   2 * w->result_size[0] <= w->data_size[0];
  return COMPUTE_OK;
}

static const unsigned char *read_gradients(const job *j, int64_t p) {
  const cpu_window *kernel = j->launch->kernel;
  const int which = kernel->input_count - 1 > 0;
  return window_read(j->launch, which, &j->unit, p, 1, 0, kernel->shape.result_size[1],
                     j->gradients)
      .data;
}

/* Every element of a window gets the same share: computed along columns once, then added to each
 * row. */
static void spread_average(const job *j, int64_t p) {
  const cpu_window *kernel = j->launch->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const int64_t lanes = kernel->lanes, bytes = lanes * kernel->element;
  const unsigned char *gradients = read_gradients(j, p);
  int64_t tap, end;
  memcpy(j->second, gradients, (size_t)(w->result_size[1] * bytes));
  kernel->loops->divide(j->second, window_count(w, 0, p), kernel->counts, w->result_size[1], lanes);
  memset(j->line, 0, (size_t)(w->data_size[1] * bytes));
  for (int64_t i = 0; i < kernel->share_count; i++) {
    const window_share *share = &kernel->shares[i];
    const int64_t at = share->first * w->stride[1] - w->padding[1] + share->s * w->dilation[1];
    kernel->loops->expand(j->line + at * bytes, j->second + share->first * bytes,
                          share->end - share->first, w->stride[1], lanes, share->pair);
  }
  window_taps(w, 0, p, &tap, &end);
  for (; tap < end; tap++) {
    const int64_t row = p * w->stride[0] - w->padding[0] + tap * w->dilation[0] - j->unit.row;
    if (row < 0 || row >= j->unit.rows) continue;
    kernel->loops->expand(j->target + row * j->pitch * kernel->element, j->line,
                          w->data_size[1] * lanes, 1, 1, false);
  }
}

/* Adds the gradients of a line at the winning taps, tap by tap: each tap is a branch-free loop over
 * the whole line. */
static void deliver_line(const job *j, int64_t p) {
  const cpu_window *kernel = j->launch->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const int64_t lanes = kernel->lanes, bytes = lanes * kernel->element;
  const unsigned char *gradients = read_gradients(j, p);
  int64_t tap, end;
  window_taps(w, 0, p, &tap, &end);
  for (; tap < end; tap++) {
    const int64_t row = p * w->stride[0] - w->padding[0] + tap * w->dilation[0] - j->unit.row;
    if (row < 0 || row >= j->unit.rows) continue;
    unsigned char *target = j->target + row * j->pitch * kernel->element;
    for (int64_t i = 0; i < kernel->share_count; i++) {
      const window_share *share = &kernel->shares[i];
      const int64_t at = share->first * w->stride[1] - w->padding[1] + share->s * w->dilation[1];
      kernel->loops->deliver(target + at * bytes, gradients + share->first * bytes,
                             j->second + share->first * bytes, share->end - share->first,
                             w->stride[1], lanes, tap * w->size[1] + share->s, share->pair);
    }
  }
}

/* Notes the target offsets of gradients whose window has its maximum in row `own` of the unit. */
static void note_offsets(const job *j, int64_t own, int64_t tap) {
  const compute_window_attributes *w = &j->launch->kernel->shape;
  const int64_t lanes = j->launch->kernel->lanes;
  for (int64_t s = 0; s < w->size[1]; s++)
    j->offset[tap * w->size[1] + s] =
        own >= 0 && own < j->unit.rows
            ? own * j->pitch + (s * w->dilation[1] - w->padding[1]) * lanes
            : CPU_WINDOW_ELSEWHERE;
}

/* Finds every window's first maximum, and adds the window's gradient there. `lines` are the
 * data. */
static void spread_maximum(const job *j, int64_t p, const window_lines *lines) {
  const cpu_window *kernel = j->launch->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const int64_t lanes = kernel->lanes, bytes = lanes * kernel->element;
  const int64_t columns = w->result_size[1];
  int64_t tap, end;
  memset(j->second, 0xff, (size_t)(columns * bytes));
  window_taps(w, 0, p, &tap, &end);
  for (; tap < end; tap++) {
    const int64_t row = p * w->stride[0] - w->padding[0] + tap * w->dilation[0];
    const unsigned char *line = lines->data + (row - lines->row) * lines->pitch * kernel->element;
    for (int64_t i = 0; i < kernel->share_count; i++) {
      const window_share *share = &kernel->shares[i];
      const int64_t at = share->first * w->stride[1] - w->padding[1] + share->s * w->dilation[1];
      kernel->loops->search(j->line + share->first * bytes, j->second + share->first * bytes,
                            line + at * bytes, share->end - share->first, w->stride[1], lanes,
                            tap * w->size[1] + share->s, share->pair);
    }
    if (w->size[0] * w->size[1] > FEW_TAPS) note_offsets(j, row - j->unit.row, tap);
  }
  if (w->size[0] * w->size[1] <= FEW_TAPS)
    deliver_line(j, p);
  else
    kernel->loops->scatter(j->target, read_gradients(j, p), j->second, j->offset, columns,
                           w->stride[1], lanes);
}

/* `true` if result row p uses the loop for 2 × 2 windows, and the unit has both of its data
 * rows. */
static bool is_halved(const job *j, int64_t p) {
  const cpu_window *kernel = j->launch->kernel;
  return kernel->halves && p < kernel->shape.result_size[0] && 2 * p >= j->unit.row &&
         2 * p + 1 < j->unit.row + j->unit.rows;
}

static void halve(const job *j, int64_t p, const window_lines *lines) {
  const cpu_window *kernel = j->launch->kernel;
  const int64_t pitch = lines->pitch * kernel->element, to_pitch = j->pitch * kernel->element;
  const unsigned char *from = lines->data + (2 * p - lines->row) * pitch;
  unsigned char *to = j->target + (2 * p - j->unit.row) * to_pitch;
  kernel->loops->halve(to, to + to_pitch, from, from + pitch, read_gradients(j, p),
                       kernel->shape.result_size[1]);
}

/* Finds the result rows first … end − 1 that one call for short lines computes; none if lines are
 * not short. */
static void find_short(const job *j, int64_t *first, int64_t *end) {
  const cpu_window *kernel = j->launch->kernel;
  *first = cpu_divide_up(j->unit.row, 2);
  *end = cpu_min((j->unit.row + j->unit.rows) / 2, kernel->shape.result_size[0]);
  if (!kernel->halves_short || *end < *first) *end = *first;
}

static void halve_short(const job *j, int64_t first, int64_t end, const window_lines *lines) {
  const cpu_window *kernel = j->launch->kernel;
  const unsigned char *from =
      lines->data + (2 * first - lines->row) * lines->pitch * kernel->element;
  const unsigned char *gradients =
      window_read(j->launch, 1, &j->unit, first, end - first, 0, kernel->shape.result_size[1], NULL)
          .data; /* in place */
  kernel->loops->halve_short(j->target + (2 * first - j->unit.row) * j->pitch * kernel->element,
                             from, gradients, end - first, kernel->shape.result_size[1]);
}

/* Clears the elements that receive sums, or no gradient at all. */
static void clear_target(const job *j) {
  const cpu_window *kernel = j->launch->kernel;
  const int64_t line = kernel->shape.data_size[1] * kernel->lanes;
  int64_t first, end;
  find_short(j, &first, &end);
  for (int64_t row = 0; row < j->unit.rows; row++) {
    if (first < end && j->unit.row + row == 2 * first) row += 2 * (end - first);
    if (row == j->unit.rows) break;
    const int64_t written =
        is_halved(j, (j->unit.row + row) / 2) ? 2 * kernel->shape.result_size[1] : 0;
    memset(j->target + (row * j->pitch + written) * kernel->element, 0,
           (size_t)((line - written) * kernel->element));
  }
}

void window_gradient_unit(const window_launch *l, int64_t number, unsigned char *scratch) {
  const cpu_window *kernel = l->kernel;
  const compute_window_attributes *w = &kernel->shape;
  job j = {.launch = l, .unit = window_find_unit(kernel, number)};
  j.line = scratch + kernel->source_bytes;
  j.second = j.line + kernel->line_bytes;
  j.gradients = j.second + kernel->line_bytes;
  j.offset = (int64_t *)(void *)(j.gradients + kernel->line_bytes);
  j.target = (unsigned char *)j.offset + kernel->offset_bytes;
  j.pitch = w->data_size[1] * kernel->lanes;
  unsigned char *const values = j.target;
  if (kernel->in_place) {
    j.target = window_output(l, &j.unit, j.unit.row);
    j.pitch = kernel->output[0].stride[2];
  }
  if (!kernel->stride2) clear_target(&j);
  int64_t p, end;
  window_results(w, 0, j.unit.row, j.unit.row + j.unit.rows, &p, &end);
  int64_t count = 0; /* of lines */
  window_lines lines = {0};
  if (w->operation == COMPUTE_WINDOW_MAX && p < end) {
    const int64_t low = p * w->stride[0] - w->padding[0];
    const int64_t high =
        (end - 1) * w->stride[0] - w->padding[0] + (w->size[0] - 1) * w->dilation[0];
    const int64_t top = cpu_max(low, 0), bottom = cpu_min(high + 1, w->data_size[0]);
    lines = window_read(l, 0, &j.unit, top, bottom - top, 0, w->data_size[1], scratch);
    count = bottom - top;
  }
  if (kernel->stride2) {
    unsigned char *room = scratch + kernel->worker_bytes - window_stride2_bytes(kernel);
    window_stride2_unit(l, number, &j.unit, &lines, count, j.target, j.pitch, room);
    if (!kernel->in_place) window_finish(l, &j.unit, values);
    return;
  }
  int64_t first_short, end_short;
  find_short(&j, &first_short, &end_short);
  for (; p < end; p++) {
    if (p == first_short && p < end_short) {
      halve_short(&j, p, end_short, &lines);
      p = end_short - 1;
    } else if (is_halved(&j, p))
      halve(&j, p, &lines);
    else if (w->operation == COMPUTE_WINDOW_MAX)
      spread_maximum(&j, p, &lines);
    else
      spread_average(&j, p);
  }
  if (!kernel->in_place) window_finish(l, &j.unit, values);
}
