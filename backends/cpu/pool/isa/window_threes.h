/* SPDX-License-Identifier: MIT */
/* Part of window.c: gradients of maxima of 3 × 3 with stride 2, of one lane.
 *
 * Lines are taken apart into even and odd columns once, so that every other loop runs along dense
 * lines. All loops take whole multiples of CPU_WINDOW_WHOLE windows: a line's rest would cost as
 * much as the line. */
#ifndef CPU_ISA_WINDOW_THREES_H
#define CPU_ISA_WINDOW_THREES_H

#define WHOLE_WINDOWS(count) (((count) + CPU_WINDOW_WHOLE - 1) & -(int64_t)CPU_WINDOW_WHOLE)

/* Whether `old` stays the largest before `value`, as a mask of bits: ~is_larger in two comparisons.
 */
CPU_INLINE MASK stays(ELEMENT old, ELEMENT value) {
  return -(MASK)(value <= old) | -(MASK)IS_NAN(old);
}

/* Without a branch, so that loops stay vectors. */
CPU_INLINE MASK pick(MASK where, MASK code, MASK other) {
  return (where & code) | (~where & other);
}

/* Of two packs one after the other: every second element from the first or second on, and all from
 * the last of the first one on. */
#define PACK_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD  1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LATE 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
#elif VECTOR_BYTES == 64 || (VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32))
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD  1, 3, 5, 7, 9, 11, 13, 15
#define LATE 7, 8, 9, 10, 11, 12, 13, 14
#elif VECTOR_BYTES == 32 || defined(CPU_VARIANT_F32)
#define EVEN 0, 2, 4, 6
#define ODD  1, 3, 5, 7
#define LATE 3, 4, 5, 6
#else
#define EVEN 0, 2
#define ODD  1, 3
#define LATE 1, 2
#endif

CPU_INLINE void pack_store(ELEMENT *to, pack p) {
  memcpy(to, &p, sizeof p);
}

/* The columns of each window, which share the right with the next window's left: as lines of their
 * own they are read as they were written, which loads across two stores would have to wait for. */
CPU_INLINE void split_columns(ELEMENT *restrict left, ELEMENT *restrict middle,
                              ELEMENT *restrict right, const ELEMENT *restrict x, ELEMENT before,
                              int64_t count) {
  pack last = pack_all(before);
  for (int64_t i = 0; i < count; i += pack_lanes) {
    const pack a = pack_load(x + 2 * i), b = pack_load(x + 2 * i + pack_lanes);
    const pack odd = PACK_OF(a, b, ODD);
    pack_store(left + i, PACK_OF(last, odd, LATE));
    pack_store(middle + i, PACK_OF(a, b, EVEN));
    pack_store(right + i, odd);
    last = odd;
  }
}

CPU_INLINE void best_columns(ELEMENT *restrict best, MASK *restrict column,
                             const ELEMENT *restrict left, const ELEMENT *restrict middle,
                             const ELEMENT *restrict right, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK is_left = stays(left[i], middle[i]);
    const ELEMENT largest = is_left ? left[i] : middle[i];
    const MASK is_same = stays(largest, right[i]);
    best[i] = is_same ? largest : right[i];
    column[i] = pick(is_same, ~is_left & 1, 2);
  }
}

static void search_three(void *best_line, void *column_line, const void *source, void *room,
                         const void *before, int64_t windows, int64_t width) {
  const int64_t count = WHOLE_WINDOWS(windows);
  ELEMENT *best = best_line, *left = room, *middle = left + count, *right = middle + count;
  MASK *column = column_line;
  split_columns(left, middle, right, source, before ? *(const ELEMENT *)before : 0, count);
  if (width < 2 * windows) right[windows - 1] = LOWEST; /* never chosen */
  best_columns(best, column, left, middle, right, count);
  if (before) return;
  const MASK is_same = stays(middle[0], right[0]);
  best[0] = is_same ? middle[0] : right[0];
  column[0] = is_same ? 1 : 2;
}

CPU_INLINE void choose(MASK *restrict code, const ELEMENT *restrict top,
                       const MASK *restrict top_column, const ELEMENT *restrict middle,
                       const MASK *restrict middle_column, const ELEMENT *restrict bottom,
                       const MASK *restrict bottom_column, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const MASK is_top = stays(top[i], middle[i]);
    const ELEMENT largest = is_top ? top[i] : middle[i];
    const MASK upper = pick(is_top, top_column[i], middle_column[i] + 3);
    code[i] = pick(stays(largest, bottom[i]), upper, bottom_column[i] + 6);
  }
}

CPU_INLINE void choose_two(MASK *restrict code, const ELEMENT *restrict first,
                           const MASK *restrict first_column, const ELEMENT *restrict second,
                           const MASK *restrict second_column, MASK row, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    code[i] = row + pick(stays(first[i], second[i]), first_column[i], second_column[i] + 3);
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
