/* SPDX-License-Identifier: MIT */
/* Part of window.c: gradients of maxima of 3 × 3 with stride 2, of one lane.
 *
 * Lines are taken apart into even and odd columns once, so that every other loop runs along dense
 * lines. All loops take whole multiples of CPU_WINDOW_WHOLE windows: a line's rest would cost as
 * much as the line. */
#ifndef CPU_ISA_WINDOW_THREES_H
#define CPU_ISA_WINDOW_THREES_H

#define WHOLE_WINDOWS(count) (((count) + CPU_WINDOW_WHOLE - 1) & -(int64_t)CPU_WINDOW_WHOLE)

/* is_larger in two comparisons: whether `value` takes the place of `old`, as a mask of bits. */
CPU_INLINE MASK beats(ELEMENT value, ELEMENT old) {
  return ~-(MASK)(value <= old) & ~-(MASK)IS_NAN(old);
}

/* Without a branch, so that loops stay vectors. */
CPU_INLINE MASK pick(MASK where, MASK code, MASK other) {
  return (where & code) | (~where & other);
}

CPU_INLINE void split_columns(ELEMENT *restrict even, ELEMENT *restrict odd,
                              const ELEMENT *restrict x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    even[i] = x[2 * i];
    odd[i] = x[2 * i + 1];
  }
}

/* Window i has right[i − 1], middle[i] and right[i]; right[i] is the left of window i + 1. */
CPU_INLINE void best_columns(ELEMENT *restrict best, MASK *restrict column,
                             const ELEMENT *restrict middle, const ELEMENT *right, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK is_middle = beats(middle[i], right[i - 1]);
    const ELEMENT largest = is_middle ? middle[i] : right[i - 1];
    const MASK is_right = beats(right[i], largest);
    best[i] = is_right ? right[i] : largest;
    column[i] = pick(is_right, 2, is_middle & 1);
  }
}

static void search_three(void *best_line, void *column_line, const void *source, void *room,
                         const void *left, int64_t windows, int64_t width) {
  const int64_t count = WHOLE_WINDOWS(windows);
  ELEMENT *best = best_line, *middle = room, *right = middle + count + CPU_WINDOW_WHOLE;
  MASK *column = column_line;
  split_columns(middle, right, source, count);
  if (width < 2 * windows) right[windows - 1] = LOWEST; /* larger than nothing */
  right[-1] = left ? *(const ELEMENT *)left : 0;
  best_columns(best, column, middle, right, count);
  if (left) return;
  const MASK is_right = beats(right[0], middle[0]);
  best[0] = is_right ? right[0] : middle[0];
  column[0] = is_right ? 2 : 1;
}

CPU_INLINE void choose(MASK *restrict code, const ELEMENT *restrict top,
                       const MASK *restrict top_column, const ELEMENT *restrict middle,
                       const MASK *restrict middle_column, const ELEMENT *restrict bottom,
                       const MASK *restrict bottom_column, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK is_middle = beats(middle[i], top[i]);
    const ELEMENT largest = is_middle ? middle[i] : top[i];
    const MASK is_bottom = beats(bottom[i], largest);
    const MASK upper = pick(is_middle, middle_column[i] + 3, top_column[i]);
    code[i] = pick(is_bottom, bottom_column[i] + 6, upper);
  }
}

CPU_INLINE void choose_two(MASK *restrict code, const ELEMENT *restrict first,
                           const MASK *restrict first_column, const ELEMENT *restrict second,
                           const MASK *restrict second_column, MASK row, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    code[i] = row + pick(beats(second[i], first[i]), second_column[i] + 3, first_column[i]);
}

static void choose_three(void *code_line, const void *const best[3], const void *const column[3],
                         int64_t windows, int64_t room) {
  const int64_t count = WHOLE_WINDOWS(room);
  MASK *code = code_line;
  if (best[0] && best[2])
    choose(code, best[0], column[0], best[1], column[1], best[2], column[2], count);
  else if (best[2])
    choose_two(code, best[1], column[1], best[2], column[2], 3, count);
  else if (best[0])
    choose_two(code, best[0], column[0], best[1], column[1], 0, count);
  else
    for (int64_t i = 0; i < count; i++) code[i] = ((const MASK *)column[1])[i] + 3;
  for (int64_t i = windows; i < count + CPU_WINDOW_WHOLE; i++) code[i] = -1;
}

/* What an element gets from the windows that have it at `code`. */
CPU_INLINE ELEMENT share_of(MASK at, MASK code, ELEMENT gradient) {
  return at == code ? gradient : 0;
}

/* Even columns are the middles of windows i, odd ones the left of windows i + 1 and the right of
 * windows i, which is the order in which they are added. Sums begin with 0, so none is −0. */
CPU_INLINE void deliver_one(ELEMENT *restrict to, const MASK *restrict code,
                            const ELEMENT *restrict gradient, MASK row, int64_t count) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    to[2 * i] = 0 + share_of(code[i], row + 1, gradient[i]);
    to[2 * i + 1] =
        0 + share_of(code[i + 1], row, gradient[i + 1]) + share_of(code[i], row + 2, gradient[i]);
  }
}

CPU_INLINE void deliver_two(ELEMENT *restrict to, const MASK *restrict above,
                            const ELEMENT *restrict above_gradient, const MASK *restrict below,
                            const ELEMENT *restrict below_gradient, int64_t count) {
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    to[2 * i] =
        0 + share_of(above[i], 7, above_gradient[i]) + share_of(below[i], 1, below_gradient[i]);
    to[2 * i + 1] = 0 + share_of(above[i + 1], 6, above_gradient[i + 1]) +
                    share_of(above[i], 8, above_gradient[i]) +
                    share_of(below[i + 1], 0, below_gradient[i + 1]) +
                    share_of(below[i], 2, below_gradient[i]);
  }
}

static void deliver_three(void *target, void *left, const void *above, const void *above_gradient,
                          const void *below, const void *below_gradient, int64_t windows) {
  const int64_t count = WHOLE_WINDOWS(windows);
  const MASK *a = above, *b = below;
  const ELEMENT *x = above_gradient, *y = below_gradient;
  ELEMENT sum = 0;
  if (a && b)
    deliver_two(target, a, x, b, y, count);
  else if (a)
    deliver_one(target, a, x, 6, count);
  else
    deliver_one(target, b, y, 0, count);
  if (!left) return;
  if (a) sum += share_of(a[0], 6, x[0]);
  if (b) sum += share_of(b[0], 0, y[0]);
  *(ELEMENT *)left = sum;
}

static void deliver_middle(void *target, void *left, const void *code, const void *gradient,
                           int64_t windows) {
  const int64_t count = WHOLE_WINDOWS(windows);
  deliver_one(target, code, gradient, 3, count);
  if (left) *(ELEMENT *)left = 0 + share_of(*(const MASK *)code, 3, *(const ELEMENT *)gradient);
}

#endif
