/* SPDX-License-Identifier: MIT */
/* Gradients of maxima of 3 × 3 with stride 2, of planes: networks' first pooling.
 *
 * Every row of the data is searched once, for the best of each window's three columns; a row of
 * windows chooses among three such lines, two rows of windows share one. Then the rows of data that
 * have all their windows are written, once, as sums in the order in which spread_maximum would add
 * to them. Rows and columns are counted from the padding: windows t have rows 2t … 2t + 2. */
#include <string.h>

#include "window.h"

enum { LINES = 16 }; /* of scratch; a line of pairs is two */

/* The best of the columns of each window, in one row of the data. */
typedef struct best_line {
  int64_t row; /* of the data; −1: none */
  unsigned char *best, *column;
} best_line;

/* A row of windows. */
typedef struct chosen_line {
  bool exists;
  unsigned char *code, *gradient; /* 3 · row + column of the largest element; −1 after the line */
} chosen_line;

typedef struct threes {
  const window_launch *launch;
  const window_unit *unit;
  const window_lines *lines;
  unsigned char *target;
  int64_t pitch;
  int64_t windows;     /* in a line, with those that only its last columns would have */
  int64_t left, width; /* columns before the first middle of a window; and from there on */
  int64_t readable;    /* rows of the data before this may be read too far */
  best_line shared, middle, bottom;
  chosen_line above, below;
  unsigned char *room, *pairs, *converted;
} threes;

static int64_t whole(int64_t count) {
  return (count + CPU_WINDOW_WHOLE - 1) & -(int64_t)CPU_WINDOW_WHOLE;
}

static int64_t windows_of(const compute_window_attributes *w) {
  return (w->data_size[1] - 1 + w->padding[1] + 1) / 2;
}

bool window_has_threes(const cpu_window *kernel) {
  const compute_window_attributes *w = &kernel->shape;
  bool suits = w->by_data && w->operation == COMPUTE_WINDOW_MAX && kernel->lanes == 1;
  for (int d = 0; d < 2 && suits; d++)
    suits = w->size[d] == 3 && w->stride[d] == 2 && w->dilation[d] == 1 && w->padding[d] >= 0 &&
            w->padding[d] <= 1 && w->data_size[d] > 1 && w->result_size[d] > 0 &&
            2 * (w->result_size[d] - 1) + 1 - w->padding[d] < w->data_size[d];
  return suits;
}

static int64_t line_elements(const compute_window_attributes *w) {
  return whole(windows_of(w)) + CPU_WINDOW_WHOLE;
}

uint64_t window_threes_bytes(const cpu_window *kernel) {
  return LINES * (uint64_t)line_elements(&kernel->shape) * kernel->element;
}

/* Rows of a block of `rows` dense lines, that have `elements` from column `left` on. */
static int64_t ample_rows(int64_t rows, int64_t line, int64_t left, int64_t elements) {
  const int64_t room = rows * line - left - elements;
  return room < 0 ? 0 : room / line + 1;
}

static void search_row(const threes *k, int64_t row, best_line *to) {
  const cpu_window *kernel = k->launch->kernel;
  const int64_t element = kernel->element;
  const unsigned char *line = k->lines->data + (row - k->lines->row) * k->lines->pitch * element;
  const unsigned char *from = line + k->left * element;
  if (row - k->lines->row >= k->readable) {
    memcpy(k->pairs, from, (size_t)(k->width * element));
    from = k->pairs;
  }
  kernel->loops->search_three(to->best, to->column, from, k->room, k->left ? line : NULL,
                              k->windows, k->width);
  to->row = row;
}

/* Row t of the windows. */
static void choose(threes *k, int64_t t, chosen_line *to) {
  const cpu_window *kernel = k->launch->kernel;
  const compute_window_attributes *w = &kernel->shape;
  const int64_t row = 2 * t - w->padding[0], columns = w->result_size[1];
  to->exists = t >= 0 && t < w->result_size[0];
  if (!to->exists) return;
  if (row >= 0 && k->shared.row != row) search_row(k, row, &k->shared);
  search_row(k, row + 1, &k->middle);
  const bool has_bottom = row + 2 < w->data_size[0];
  if (has_bottom) search_row(k, row + 2, &k->bottom);
  const best_line *const lines[3] = {&k->shared, &k->middle, &k->bottom};
  const void *const best[3] = {row < 0 ? NULL : lines[0]->best, lines[1]->best,
                               has_bottom ? lines[2]->best : NULL};
  const void *const column[3] = {lines[0]->column, lines[1]->column, lines[2]->column};
  kernel->loops->choose_three(to->code, best, column, columns, k->windows);
  const window_lines gradients = window_read(k->launch, 1, k->unit, t, 1, 0, columns, k->converted);
  memcpy(to->gradient, gradients.data, (size_t)(columns * kernel->element));
  const best_line old = k->shared;
  k->shared = k->bottom;
  if (!has_bottom) k->shared.row = -1;
  k->bottom = old;
}

/* A row of the unit: the last of windows `above` (may be NULL) and the first of `below` (too), or
 * the middle of windows `middle`. */
static void deliver_row(const threes *k, int64_t row, const chosen_line *above,
                        const chosen_line *below, const chosen_line *middle) {
  const cpu_window *kernel = k->launch->kernel;
  const int64_t element = kernel->element;
  const int64_t line = kernel->shape.data_size[1], reach = k->left + 2 * whole(k->windows);
  unsigned char *left = k->target + row * k->pitch * element;
  unsigned char *end = left + k->left * element;
  /* What is written too far, the next rows overwrite. */
  const bool ample = k->pitch == line && (k->unit->rows - row) * line >= reach;
  unsigned char *to = ample ? end : k->pairs;
  if (!(above && above->exists) && !(below && below->exists) && !(middle && middle->exists)) {
    memset(left, 0, (size_t)(line * element));
    return;
  }
  if (middle)
    kernel->loops->deliver_middle(to, k->left ? left : NULL, middle->code, middle->gradient,
                                  k->windows);
  else
    kernel->loops->deliver_three(to, k->left ? left : NULL, above->exists ? above->code : NULL,
                                 above->gradient, below->exists ? below->code : NULL,
                                 below->gradient, k->windows);
  if (!ample) memcpy(end, to, (size_t)(k->width * element));
}

static void share_room(threes *k, unsigned char *room) {
  const cpu_window *kernel = k->launch->kernel;
  const int64_t bytes = line_elements(&kernel->shape) * kernel->element;
  unsigned char **const lines[] = {
      &k->shared.best, &k->shared.column,  &k->middle.best, &k->middle.column,
      &k->bottom.best, &k->bottom.column,  &k->above.code,  &k->above.gradient,
      &k->below.code,  &k->below.gradient, &k->converted,
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++, room += bytes) *lines[i] = room;
  k->room = room;
  k->pairs = room + 3 * bytes;
}

void window_threes_unit(const window_launch *l, const window_unit *unit, const window_lines *lines,
                        int64_t line_count, unsigned char *target, int64_t pitch,
                        unsigned char *room) {
  const compute_window_attributes *w = &l->kernel->shape;
  const int64_t padding = w->padding[0], end = unit->row + unit->rows;
  threes k = {.launch = l, .unit = unit, .lines = lines, .target = target, .pitch = pitch};
  k.left = 1 - w->padding[1];
  k.width = w->data_size[1] - k.left;
  k.windows = windows_of(w);
  if (lines->pitch == w->data_size[1])
    k.readable = ample_rows(line_count, lines->pitch, k.left, 2 * whole(k.windows));
  share_room(&k, room);
  k.shared.row = k.middle.row = k.bottom.row = -1;
  int64_t t = (unit->row + padding) / 2;
  if ((unit->row + padding) % 2 == 0) choose(&k, t - 1, &k.above);
  for (; 2 * t - padding < end; t++) {
    const int64_t row = 2 * t - padding - unit->row;
    choose(&k, t, &k.below);
    if (row >= 0) deliver_row(&k, row, &k.above, &k.below, NULL);
    if (row + 1 < unit->rows) deliver_row(&k, row + 1, NULL, NULL, &k.below);
    const chosen_line old = k.above;
    k.above = k.below;
    k.below = old;
  }
}
