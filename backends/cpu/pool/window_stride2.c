/* SPDX-License-Identifier: MIT */
/* Gradients of planes for 3 × 3 windows with stride 2, and for 2 × 2 averages.
 *
 * Row t of windows begins with row 2t of the data, counted from the padding. Windows of three rows
 * share this row with the windows above. So every row of windows completes two rows of the data.
 * These are written once, as sums in the same order as in window_unit.c. All loops process whole
 * vectors. The next rows overwrite elements written past a row. Only the last rows of a task's
 * planes, and rows with gaps, use scratch lines; so do rows that must not be read past their
 * end. */
#include <string.h>

#include "window.h"

typedef struct stride2 {
  const window_launch *launch;
  window_unit unit;
  const window_lines *lines;
  unsigned char *target;
  int64_t pitch;
  const unsigned char *gradients; /* of the unit's plane */
  /* The limits of reading and writing. */
  const unsigned char *data_end, *gradient_end, *target_end;
  int64_t reach; /* bytes of whole vectors */
  cpu_window_stride2 windows;
  unsigned char *room[3], *written[2], *gradient; /* scratch lines */
} stride2;

static int64_t whole(int64_t count) {
  return (count + CPU_WINDOW_WHOLE - 1) & -(int64_t)CPU_WINDOW_WHOLE;
}

/* Columns before the start of the loops. They start at the middle of the first window of 3, or at
 * the first column of a window of 2. */
static int64_t columns_before(const compute_window_attributes *w) {
  return w->size[1] == 3 ? 1 - w->padding[1] : 0;
}

static int64_t pairs_of(const compute_window_attributes *w) {
  return cpu_divide_up(w->data_size[1] - columns_before(w), 2);
}

bool window_has_stride2(const cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  const int64_t size = w->operation == COMPUTE_WINDOW_AVERAGE && w->size[0] == 2 ? 2 : 3;
  bool suits = w->by_data && kernel->lanes == 1;
  for (int d = 0; d < 2 && suits; d++)
    suits = w->size[d] == size && w->stride[d] == 2 && w->dilation[d] == 1 && w->padding[d] >= 0 &&
            w->padding[d] <= size - 2 && w->data_size[d] > 1 && w->result_size[d] > 0 &&
            2 * (w->result_size[d] - 1) + 1 - w->padding[d] < w->data_size[d];
  return suits && pairs_of(w) < INT32_MAX / 2; /* vectors of ELEMENT-sized integers number them */
}

static uint64_t line_bytes(const cpu_window *kernel) {
  return (uint64_t)(2 * whole(pairs_of(&kernel->shape)) + CPU_WINDOW_WHOLE) * kernel->element;
}

static uint64_t state_bytes(const cpu_window *kernel) {
  return (uint64_t)(CPU_WINDOW_STATE * whole(pairs_of(&kernel->shape))) * kernel->element;
}

uint64_t window_stride2_bytes(const cpu_window *kernel) {
  return 6 * line_bytes(kernel) + state_bytes(kernel);
}

static void share_room(stride2 *k, unsigned char *room) {
  const cpu_window *kernel = k->launch->kernel;
  const uint64_t bytes = line_bytes(kernel);
  unsigned char **const lines[] = {&k->room[0],    &k->room[1],    &k->room[2],
                                   &k->written[0], &k->written[1], &k->gradient};
  k->windows.state = room;
  room += state_bytes(kernel);
  memset(room, 0, (size_t)(6 * bytes));       /* also the elements read past a line */
  room += CPU_WINDOW_WHOLE * kernel->element; /* for a column before */
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++, room += bytes) *lines[i] = room;
  memset(k->windows.state, kernel->shape.operation == COMPUTE_WINDOW_MAX ? 0xff : 0,
         (size_t)state_bytes(kernel));
}

/* Row `row` of the data, from the start column of the loops on. */
static const void *find_row(const stride2 *k, int64_t row, unsigned char *room) {
  const cpu_window *kernel = k->launch->kernel;
  const int64_t element = kernel->element, before = columns_before(&kernel->shape) * element;
  const unsigned char *line = k->lines->data + (row - k->lines->row) * k->lines->pitch * element;
  if (k->data_end && k->reach <= k->data_end - line - before) return line + before;
  memcpy(room - before, line, (size_t)(kernel->shape.data_size[1] * element));
  return room;
}

static const void *find_gradient(const stride2 *k, int64_t t) {
  const cpu_window *kernel = k->launch->kernel;
  const int64_t columns = kernel->shape.result_size[1];
  const int which = kernel->input_count - 1 > 0;
  if (!kernel->input[which].direct)
    return window_read(k->launch, which, &k->unit, t, 1, 0, columns, k->gradient).data;
  const unsigned char *line = k->gradients + t * kernel->input[which].stride[2] * kernel->element;
  if (k->gradient_end && k->reach / 2 <= k->gradient_end - line) return line;
  memcpy(k->gradient, line, (size_t)(columns * kernel->element));
  return k->gradient;
}

/* window_count of row t of windows, without its divisions. */
static int64_t count_rows(const compute_window_attributes *w, int64_t t) {
  const int64_t first = 2 * t - w->padding[0], end = first + w->size[0];
  return first >= 0 && end <= w->data_size[0] ? w->size[0] : window_count(w, 0, t);
}

/* Processes row t of windows, if it exists, and the data rows that it completes. `is_first`: the
 * unit begins with this row. */
static void spread_row(stride2 *k, int64_t t, bool is_first, bool writes) {
  const cpu_window *kernel = k->launch->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const int64_t element = kernel->element, before = columns_before(w) * element;
  const int64_t row = 2 * t - w->padding[0];
  cpu_window_stride2 *to = &k->windows;
  unsigned char *lines[2] = {NULL, NULL};
  const bool exists = t < w->result_size[0], is_maximum = w->operation == COMPUTE_WINDOW_MAX;
  to->gradient = exists ? find_gradient(k, t) : NULL;
  to->has_top = row >= 0;
  if (exists && is_maximum) {
    to->row[0] = is_first && row >= 0 ? find_row(k, row, k->room[0]) : NULL;
    to->row[1] = find_row(k, row + 1, k->room[1]);
    to->row[2] = row + 2 < w->data_size[0] ? find_row(k, row + 2, k->room[2]) : NULL;
  }
  if (exists && !is_maximum) to->rows = count_rows(w, t);
  for (int r = 0; r < 2; r++) {
    const int64_t own = row + r - k->unit.row;
    to->target[r] = NULL;
    if (!writes || own < 0 || own >= k->unit.rows) continue;
    lines[r] = k->target + own * k->pitch * element;
    const bool is_ample = k->target_end && k->reach <= k->target_end - lines[r] - before;
    to->target[r] = is_ample ? lines[r] + before : k->written[r];
  }
  (is_maximum ? kernel->loops->spread_maxima : kernel->loops->spread_averages)(to);
  for (int r = 0; r < 2; r++)
    if (to->target[r] == k->written[r])
      memcpy(lines[r], k->written[r] - before, (size_t)(w->data_size[1] * element));
}

static void find_ends(stride2 *k, int64_t number, int64_t line_count) {
  const window_launch *l = k->launch;
  const cpu_window *kernel = l->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const int64_t element = kernel->element, line = w->data_size[1] * element;
  const int64_t planes = kernel->size[0] * kernel->size[1];
  const int which = kernel->input_count - 1 > 0;
  k->data_end = k->gradient_end = k->target_end = NULL;
  if (kernel->dense[0])
    k->data_end = (const unsigned char *)l->pointers[0] + planes * w->data_size[0] * line;
  else if (k->lines->pitch == w->data_size[1] && !kernel->input[0].direct)
    k->data_end = k->lines->data + line_count * line;
  if (kernel->dense[1])
    k->gradient_end = (const unsigned char *)l->pointers[which] +
                      planes * w->result_size[0] * w->result_size[1] * element;
  if (k->pitch == w->data_size[1]) k->target_end = k->target + k->unit.rows * line;
  if (kernel->dense[2]) {
    const int64_t next = (number / kernel->per_task + 1) * kernel->per_task;
    const window_unit last = window_find_unit(kernel, cpu_min(next, kernel->units) - 1);
    k->target_end = window_output(l, &last, last.row + last.rows);
  }
  const window_operand *gradient = &kernel->input[which];
  k->gradients = (const unsigned char *)l->pointers[which] +
                 (k->unit.image * gradient->stride[0] + k->unit.channel * gradient->stride[1]) *
                     (int64_t)gradient->size;
}

void window_stride2_unit(const window_launch *l, int64_t number, const window_unit *unit,
                         const window_lines *lines, int64_t line_count, unsigned char *target,
                         int64_t pitch, unsigned char *room) {
  const cpu_window *kernel = l->kernel;
  const compute_window_attributes *w = &kernel->shape;
  stride2 k = {.launch = l, .unit = *unit, .lines = lines, .target = target, .pitch = pitch};
  k.windows.three = w->size[1] == 3;
  k.windows.left = columns_before(w) > 0;
  k.windows.windows = w->result_size[1];
  k.windows.pairs = pairs_of(w);
  k.windows.width = w->data_size[1] - columns_before(w);
  k.windows.columns = kernel->counts;
  k.reach = 2 * whole(k.windows.pairs) * (int64_t)kernel->element;
  find_ends(&k, number, line_count);
  share_room(&k, room);
  const int64_t begin = unit->row + w->padding[0], end = begin + unit->rows;
  int64_t t = begin / 2;
  bool is_first = true;
  if (k.windows.three && begin % 2 == 0 && t > 0 && t <= w->result_size[0]) {
    spread_row(&k, t - 1, true, false);
    is_first = false;
  }
  for (; 2 * t < end && t < w->result_size[0] + k.windows.three; t++, is_first = false)
    spread_row(&k, t, is_first, true);
  const int64_t done = cpu_max(2 * t - begin, 0);
  for (int64_t row = done; row < unit->rows; row++)
    memset(k.target + row * k.pitch * kernel->element, 0,
           (size_t)(w->data_size[1] * kernel->element));
}
