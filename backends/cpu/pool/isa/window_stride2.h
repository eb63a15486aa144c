/* SPDX-License-Identifier: MIT */
/* Part of window.c: gradients of 3 × 3 windows (averages: also 2 × 2) with stride 2, for lanes 1.
 *
 * A row of windows is processed one pack at a time, from the last to the first. The shared elements
 * of the next window are then in registers, and lines are read and written once. */
#ifndef CPU_ISA_WINDOW_STRIDE2_H
#define CPU_ISA_WINDOW_STRIDE2_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Shuffles of two consecutive packs: every second element from the first or the second on; all
 * elements from the first pack's last, or from its second; and both packs, interleaved. */
#define PACK_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if VECTOR_BYTES == 64 && defined(CPU_VARIANT_F32)
#define LANES 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define EVEN  0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD   1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LATE  15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
#define EARLY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
#define LOWER 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define UPPER 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VECTOR_BYTES == 64 || (VECTOR_BYTES == 32 && defined(CPU_VARIANT_F32))
#define LANES 0, 1, 2, 3, 4, 5, 6, 7
#define EVEN  0, 2, 4, 6, 8, 10, 12, 14
#define ODD   1, 3, 5, 7, 9, 11, 13, 15
#define LATE  7, 8, 9, 10, 11, 12, 13, 14
#define EARLY 1, 2, 3, 4, 5, 6, 7, 8
#define LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER 4, 12, 5, 13, 6, 14, 7, 15
#elif VECTOR_BYTES == 32 || defined(CPU_VARIANT_F32)
#define LANES 0, 1, 2, 3
#define EVEN  0, 2, 4, 6
#define ODD   1, 3, 5, 7
#define LATE  3, 4, 5, 6
#define EARLY 1, 2, 3, 4
#define LOWER 0, 4, 1, 5
#define UPPER 2, 6, 3, 7
#else
#define LANES 0, 1
#define EVEN  0, 2
#define ODD   1, 3
#define LATE  1, 2
#define EARLY 1, 2
#define LOWER 0, 2
#define UPPER 1, 3
#endif

/* Results of comparisons, and selections by them: AVX-512 uses mask registers. */
#if VECTOR_BYTES == 64
#if defined(CPU_VARIANT_F32)
typedef __mmask16 flags;
#define COMPARE(mask, a, b, how) _mm512_mask_cmp_ps_mask(mask, a, b, how)
#define COMPARE_CODES(a, b, how) _mm512_cmp_epi32_mask((__m512i)(a), (__m512i)(b), how)
#define PICK(f, a, b)            _mm512_mask_blend_ps(f, (__m512)(b), (__m512)(a))
#define KEEP(f, a)               _mm512_maskz_mov_ps(f, a)
#else
typedef __mmask8 flags;
#define COMPARE(mask, a, b, how) _mm512_mask_cmp_pd_mask(mask, a, b, how)
#define COMPARE_CODES(a, b, how) _mm512_cmp_epi64_mask((__m512i)(a), (__m512i)(b), how)
#define PICK(f, a, b)            _mm512_mask_blend_pd(f, (__m512d)(b), (__m512d)(a))
#define KEEP(f, a)               _mm512_maskz_mov_pd(f, a)
#endif
#define EQUAL(a, b) COMPARE_CODES(a, b, _MM_CMPINT_EQ)
#define BELOW(a, b) COMPARE_CODES(a, b, _MM_CMPINT_LT)

#define UNORDERED(a, b)      COMPARE((flags)-1, a, b, _CMP_UNORD_Q)
#define NOT_LARGER(value, b) COMPARE((flags)-1, value, b, _CMP_NGT_UQ)
#define ANY(f)               ((f) != 0)

#else
typedef pack_mask flags;
#if defined(__AVX2__)
#define PICK(f, a, b) _mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(f))
#define ANY(f)        (_mm256_movemask_ps((__m256)(f)) != 0)
#else
#define PICK(f, a, b) (((f) & (pack_mask)(a)) | (~(f) & (pack_mask)(b)))
#define ANY(f)        ((void)(f), true) /* conservative */
#endif
#define KEEP(f, a)           ((f) & (pack_mask)(a))
#define EQUAL(a, b)          ((a) == (b))
#define BELOW(a, b)          ((a) < (b))
#define UNORDERED(a, b)      ((flags)((a) != (a)) | (flags)((b) != (b)))
#define NOT_LARGER(value, b) (~(flags)((value) > (b)))
#endif

/* `true` if `old` remains the maximum after `value`: the opposite of is_larger. `old` may be NaN
 * even without `nan`. */
CPU_INLINE flags stays(const bool nan, pack old, pack value) {
  const flags stay = (flags)NOT_LARGER(value, old);
  return nan ? (flags)(stay & ~(UNORDERED(value, value) & ~UNORDERED(old, old))) : stay;
}

/* Repeats x: pack_all would be a chain of as many instructions as lanes. */
CPU_INLINE pack all_of(ELEMENT x) {
  return x - (pack){0};
}

CPU_INLINE pack_mask codes_of(MASK code) {
  return code - (pack_mask){0};
}

CPU_INLINE pack_mask lane_numbers(int64_t first) {
  return (pack_mask){LANES} + (MASK)first;
}

/* Shifts each window's value to its predecessor; `next` is the next pack. */
CPU_INLINE pack next_of(pack p, pack next) {
  return PACK_OF(p, next, EARLY);
}

/* Lines are processed backwards and planes forwards, which the hardware prefetcher does not
 * predict. */
#define EXPECT(x, writes)                                                                          \
  do {                                                                                             \
    __builtin_prefetch((x) + AHEAD, writes);                                                       \
    if (VECTOR_BYTES == 64) __builtin_prefetch((x) + AHEAD + pack_lanes, writes);                  \
  } while (0)

CPU_INLINE void store_pairs(ELEMENT *to, pack even, pack odd) {
  EXPECT(to, 1);
  pack_store(to, PACK_OF(even, odd, LOWER));
  pack_store(to + pack_lanes, PACK_OF(even, odd, UPPER));
}

/* ---- Maxima ---------------------------------------------------------------------------------- */

/* Per window, the maximum of the columns in one row of the data, and its column. */
typedef struct best_pack {
  pack best;
  pack_mask column;
} best_pack;

/* Lanes whose windows lack a left or right column, and lanes that are windows at all. */
typedef struct lane_flags {
  flags no_left, no_right, window;
} lane_flags;

CPU_INLINE lane_flags flags_of(const cpu_window_stride2 *w, int64_t first) {
  const pack_mask lane = lane_numbers(first);
  const bool short_line = w->width < 2 * w->windows;
  return (lane_flags){EQUAL(lane, codes_of(w->left ? -1 : 0)),
                      EQUAL(lane, codes_of(short_line ? (MASK)w->windows - 1 : -1)),
                      BELOW(lane, codes_of((MASK)w->windows))};
}

/* The columns of each window, in one row. */
typedef struct column_packs {
  pack left, middle, right;
} column_packs;

CPU_INLINE column_packs load_columns(const cpu_window_stride2 *w, int row, int64_t first,
                                     flags *nan) {
  const ELEMENT *x = (const ELEMENT *)w->row[row] + 2 * first;
  const ELEMENT before = first > 0 || w->left ? x[-1] : 0;
  const pack a = pack_load(x), b = pack_load(x + pack_lanes);
  EXPECT(x, 0);
  const pack right = PACK_OF(a, b, ODD), left = PACK_OF(all_of(before), right, LATE);
  *nan |= (flags)(UNORDERED(a, b) | UNORDERED(left, left));
  return (column_packs){left, PACK_OF(a, b, EVEN), right};
}

CPU_INLINE best_pack best_of(const bool nan, const column_packs *x, const lane_flags *lanes) {
  const flags is_left = (flags)(stays(nan, x->left, x->middle) & ~lanes->no_left);
  const pack largest = (pack)PICK(is_left, x->left, x->middle);
  const flags is_same = (flags)(stays(nan, largest, x->right) | lanes->no_right);
  const pack_mask column = (pack_mask)PICK(is_left, codes_of(0), codes_of(1));
  return (best_pack){(pack)PICK(is_same, largest, x->right),
                     (pack_mask)PICK(is_same, column, codes_of(2))};
}

/* Finds the first maximum of nine: 3 · row + column. */
CPU_INLINE pack_mask choose_code(const bool nan, bool has_top, const best_pack *top,
                                 const best_pack *middle, bool has_bottom,
                                 const best_pack *bottom) {
  pack largest = middle->best;
  pack_mask code = middle->column + 3;
  if (has_top) {
    const flags is_top = stays(nan, top->best, middle->best);
    largest = (pack)PICK(is_top, top->best, middle->best);
    code = (pack_mask)PICK(is_top, top->column, code);
  }
  if (has_bottom)
    code = (pack_mask)PICK(stays(nan, largest, bottom->best), code, bottom->column + 6);
  return code;
}

/* Finds the codes of the windows from `first` on. *shared is the top row's result from the windows
 * above; it becomes the bottom row's. */
CPU_INLINE pack_mask find_codes(const bool nan, const cpu_window_stride2 *w, int64_t first,
                                const column_packs row[3], best_pack *shared) {
  const lane_flags lanes = flags_of(w, first);
  const best_pack top = w->row[0] ? best_of(nan, &row[0], &lanes) : *shared;
  const best_pack middle = best_of(nan, &row[1], &lanes);
  const best_pack bottom = w->row[2] ? best_of(nan, &row[2], &lanes) : middle;
  const pack_mask code = choose_code(nan, w->has_top, &top, &middle, w->row[2] != NULL, &bottom);
  *shared = bottom;
  return (pack_mask)PICK(lanes.window, code, codes_of(-1));
}

/* Picks simpler comparisons if no element is NaN, the usual case. */
CPU_INLINE pack_mask search_rows(const cpu_window_stride2 *w, int64_t first, best_pack *shared) {
  flags nan = (flags)UNORDERED((pack){0}, (pack){0}); /* none */
  column_packs row[3];
  row[1] = load_columns(w, 1, first, &nan);
  row[0] = w->row[0] ? load_columns(w, 0, first, &nan) : row[1];
  row[2] = w->row[2] ? load_columns(w, 2, first, &nan) : row[1];
  return ANY(nan) ? find_codes(true, w, first, row, shared)
                  : find_codes(false, w, first, row, shared);
}

/* The share of an element from the windows whose maximum is at this code. */
CPU_INLINE pack share_of(MASK at, pack_mask code, pack gradient) {
  return (pack)KEEP(EQUAL(code, codes_of(at)), gradient);
}

/* Even columns are the middle of windows i. Odd columns are the left of windows i + 1 and the right
 * of windows i, and add them in this order. Gradients of −0 become 0, as in sums that begin with
 * 0. */
static void spread_maxima(const cpu_window_stride2 *windows) {
  const cpu_window_stride2 own = *windows, *const w = &own; /* a copy that no store can alias */
  const pack none = {0};
  ELEMENT *first = w->target[0], *second = w->target[1];
  pack above_left = none, below_left = none, middle_left = none; /* of the next pack */
  for (int64_t i = (w->pairs - 1) / pack_lanes * pack_lanes; i >= 0; i -= pack_lanes) {
    ELEMENT *state = (ELEMENT *)w->state + CPU_WINDOW_STATE * i;
    const pack_mask above_code = (pack_mask)pack_load(state + 2 * pack_lanes);
    const pack above_gradient = pack_load(state + 3 * pack_lanes);
    pack_mask code = codes_of(-1);
    pack gradient = none;
    if (w->gradient) {
      best_pack shared = {pack_load(state), (pack_mask)pack_load(state + pack_lanes)};
      code = search_rows(w, i, &shared);
      gradient = pack_load((const ELEMENT *)w->gradient + i) + none; /* no −0 from here on */
      pack_store(state, shared.best);
      pack_store(state + pack_lanes, (pack)shared.column);
      pack_store(state + 2 * pack_lanes, (pack)code);
      pack_store(state + 3 * pack_lanes, gradient);
    }
    if (first) {
      const pack above = share_of(6, above_code, above_gradient),
                 below = share_of(0, code, gradient);
      store_pairs(first + 2 * i,
                  share_of(7, above_code, above_gradient) + share_of(1, code, gradient),
                  next_of(above, above_left) + share_of(8, above_code, above_gradient) +
                      next_of(below, below_left) + share_of(2, code, gradient));
      above_left = above;
      below_left = below;
    }
    if (second) {
      const pack left = share_of(3, code, gradient);
      store_pairs(second + 2 * i, share_of(4, code, gradient),
                  next_of(left, middle_left) + share_of(5, code, gradient));
      middle_left = left;
    }
  }
  if (w->left && first) first[-1] = 0 + above_left[0] + below_left[0];
  if (w->left && second) second[-1] = 0 + middle_left[0];
}

/* ---- Averages -------------------------------------------------------------------------------- */

/* Even columns are the middle of windows; odd columns add a window's right and the next one's
 * left. */
CPU_INLINE void spread_averages_of(const bool three, const cpu_window_stride2 *w) {
  const pack none = {0}, rows = all_of((ELEMENT)w->rows);
  const ELEMENT *gradient = w->gradient, *columns = w->columns;
  ELEMENT *first = w->target[0], *second = w->target[1];
  pack next = none, above_even = none;
  for (int64_t i = (w->pairs - 1) / pack_lanes * pack_lanes; i >= 0; i -= pack_lanes) {
    ELEMENT *state = (ELEMENT *)w->state + CPU_WINDOW_STATE * i;
    pack share = none;
    if (gradient) {
      const flags is_window = BELOW(lane_numbers(i), codes_of((MASK)w->windows));
      share = pack_load(gradient + i) / (rows * pack_load(columns + i));
      share = none + (pack)KEEP(is_window, share);
    }
    const pack odd = three ? next_of(share, next) + share : share;
    if (three && first) {
      above_even = pack_load(state);
      store_pairs(first + 2 * i, above_even + share, pack_load(state + pack_lanes) + odd);
    } else if (first) {
      store_pairs(first + 2 * i, share, odd);
    }
    if (second) store_pairs(second + 2 * i, share, odd);
    if (three) pack_store(state, share);
    if (three) pack_store(state + pack_lanes, odd);
    next = share;
  }
  if (w->left && first) first[-1] = above_even[0] + next[0];
  if (w->left && second) second[-1] = next[0];
}

static void spread_averages(const cpu_window_stride2 *windows) {
  const cpu_window_stride2 own = *windows;
  if (own.three)
    spread_averages_of(true, &own);
  else
    spread_averages_of(false, &own);
}

#endif
