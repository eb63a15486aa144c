/* SPDX-License-Identifier: MIT */
/* Folding and searching loops for REDUCE, once per instruction set (core/isa.h) and element type;
 * row_table.h defines each loop.
 *
 * Each combination is written twice, for elements and for packs of them. The loops receive it as a
 * constant function pointer, which is inlined. */
#include "program/isa/element.h"
#include "row_table.h"

typedef ELEMENT (*combination)(ELEMENT a, ELEMENT b);

ALWAYS_INLINE ELEMENT add(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a + (ARITHMETIC)b);
}

ALWAYS_INLINE ELEMENT multiply(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a * (ARITHMETIC)b);
}

/* The processor's comparison returns `b` if either is NaN, so only a NaN in `a` needs an extra
 * step. */
static inline ELEMENT larger(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a > b ? a : b;
  return IS_NAN(a) ? a : extremum;
}
static inline ELEMENT smaller(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a < b ? a : b;
  return IS_NAN(a) ? a : extremum;
}

typedef pack (*pack_combination)(pack a, pack b);

ALWAYS_INLINE pack pack_multiply(pack a, pack b) {
  return (pack)((arithmetic_pack)a * (arithmetic_pack)b);
}

ALWAYS_INLINE pack_mask pack_nan(pack a) {
  return (pack_mask)PACK_NAN(a);
}

ALWAYS_INLINE pack pack_select(pack_mask take_a, pack a, pack b) {
  return (pack)(((pack_mask)a & take_a) | ((pack_mask)b & ~take_a));
}

ALWAYS_INLINE pack pack_larger(pack a, pack b) {
  return pack_select((pack_mask)(a > b) | pack_nan(a), a, b);
}
ALWAYS_INLINE pack pack_smaller(pack a, pack b) {
  return pack_select((pack_mask)(a < b) | pack_nan(a), a, b);
}

/* The same for parts of a pack. */
typedef pack_part (*part_combination)(pack_part a, pack_part b);
typedef MASK part_mask __attribute__((vector_size(16)));

ALWAYS_INLINE pack_part part_add(pack_part a, pack_part b) {
  return (pack_part)((arithmetic_part)a + (arithmetic_part)b);
}
ALWAYS_INLINE pack_part part_multiply(pack_part a, pack_part b) {
  return (pack_part)((arithmetic_part)a * (arithmetic_part)b);
}
ALWAYS_INLINE pack_part part_select(part_mask take_a, pack_part a, pack_part b) {
  return (pack_part)(((part_mask)a & take_a) | ((part_mask)b & ~take_a));
}
ALWAYS_INLINE pack_part part_larger(pack_part a, pack_part b) {
  return part_select((part_mask)(a > b) | (part_mask)PACK_NAN(a), a, b);
}
ALWAYS_INLINE pack_part part_smaller(pack_part a, pack_part b) {
  return part_select((part_mask)(a < b) | (part_mask)PACK_NAN(a), a, b);
}

/* Element i of a line, or the pack that begins there. */
typedef ELEMENT (*element_source)(const void *line, int64_t i);
typedef pack (*pack_source)(const void *line, int64_t i);

ALWAYS_INLINE ELEMENT plain(const void *line, int64_t i) {
  return ((const ELEMENT *)line)[i];
}
ALWAYS_INLINE pack plain_pack(const void *line, int64_t i) {
  return pack_load((const ELEMENT *)line + i);
}

#ifdef CPU_VARIANT_F64
/* The squares of f32 elements. */
ALWAYS_INLINE double square(const void *line, int64_t i) {
  const double x = (double)((const float *)line)[i];
  return x * x;
}
ALWAYS_INLINE pack square_pack(const void *line, int64_t i) {
  float x __attribute__((vector_size(VECTOR_BYTES / 2)));
  __builtin_memcpy(&x, (const float *)line + i, sizeof x);
  const pack wide = __builtin_convertvector(x, pack);
  return wide * wide;
}
#endif

enum {
  lanes = 4 * pack_lanes,
  block = 64 * lanes,
  narrow = 64,                                              /* accumulators of a few columns */
  folded_by_packs = 2 * pack_lanes > 8 ? 2 * pack_lanes : 8 /* minimum length of such lines */
};

/* Combines the elements of a pack as a tree. Parts and elements are arrays of variables: through
 * memory this would take several times as long. */
ALWAYS_INLINE ELEMENT fold_pack(pack p, combination combine, part_combination combine_parts) {
  pack_part part[pack_parts];
  __builtin_memcpy(part, &p, sizeof p);
  for (int half = pack_parts / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) part[j] = combine_parts(part[j], part[j + half]);
  ELEMENT lane[part_lanes];
  for (int j = 0; j < part_lanes; j++) lane[j] = part[0][j];
  for (int half = part_lanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) lane[j] = combine(lane[j], lane[j + half]);
  return lane[0];
}

/* Combines the whole packs of at least one pack and at most a block, from element `at` on. */
ALWAYS_INLINE pack fold_packs(const void *x, int64_t at, int64_t length, pack_source load,
                              pack_combination combine_packs) {
  pack lane[4];
  int64_t i = pack_lanes;
  lane[0] = load(x, at);
  if (length >= lanes) {
    for (int k = 1; k < 4; k++) lane[k] = load(x, at + k * pack_lanes);
    for (i = lanes; i + lanes <= length; i += lanes)
      for (int k = 0; k < 4; k++)
        lane[k] = combine_packs(lane[k], load(x, at + i + k * pack_lanes));
    lane[0] = combine_packs(combine_packs(lane[0], lane[1]), combine_packs(lane[2], lane[3]));
  }
  for (; i + pack_lanes <= length; i += pack_lanes)
    lane[0] = combine_packs(lane[0], load(x, at + i));
  return lane[0];
}

ALWAYS_INLINE ELEMENT fold_block(const void *x, int64_t at, int64_t length, element_source element,
                                 pack_source load, combination combine,
                                 pack_combination combine_packs, part_combination combine_parts) {
  ELEMENT folded =
      fold_pack(fold_packs(x, at, length, load, combine_packs), combine, combine_parts);
  for (int64_t i = length - length % pack_lanes; i < length; i++)
    folded = combine(folded, element(x, at + i));
  return folded;
}

/* Lines that are too short for packs are folded in the order of fold_columns, because the number of
 * lines decides which of the two folds them. */
ALWAYS_INLINE ELEMENT fold_line(const void *x, int64_t at, int64_t length, ELEMENT identity,
                                element_source element, pack_source load, combination combine,
                                pack_combination combine_packs, part_combination combine_parts) {
  ELEMENT folded = identity;
  const int64_t end = at + length;
  while (end - at >= folded_by_packs) {
    const int64_t count = end - at < block ? end - at : block;
    folded = combine(
        folded, fold_block(x, at, count, element, load, combine, combine_packs, combine_parts));
    at += count;
  }
  for (; at + 4 <= end; at += 4)
    folded = combine(folded, combine(combine(element(x, at), element(x, at + 1)),
                                     combine(element(x, at + 2), element(x, at + 3))));
  for (; at < end; at++) folded = combine(folded, element(x, at));
  return folded;
}

#if defined(CPU_VARIANT_F32) || defined(CPU_VARIANT_I32)
/* Four lines of at most a block, as fold_line; the elements of packs and the remainders are folded
 * in parallel. */
ALWAYS_INLINE void fold_four_lines(const ELEMENT *x, int64_t step, int64_t length, ELEMENT *result,
                                   ELEMENT identity, pack_combination combine_packs,
                                   part_combination combine_parts) {
  pack_part line[4];
  for (int l = 0; l < 4; l++) {
    const pack p = fold_packs(x, l * step, length, plain_pack, combine_packs);
    pack_part part[pack_parts];
    __builtin_memcpy(part, &p, sizeof p);
    for (int half = pack_parts / 2; half > 0; half /= 2)
      for (int j = 0; j < half; j++) part[j] = combine_parts(part[j], part[j + half]);
    line[l] = part[0];
  }
  const pack_part first = combine_parts(__builtin_shufflevector(line[0], line[1], 0, 1, 4, 5),
                                        __builtin_shufflevector(line[0], line[1], 2, 3, 6, 7));
  const pack_part second = combine_parts(__builtin_shufflevector(line[2], line[3], 0, 1, 4, 5),
                                         __builtin_shufflevector(line[2], line[3], 2, 3, 6, 7));
  pack_part folded = combine_parts(__builtin_shufflevector(first, second, 0, 2, 4, 6),
                                   __builtin_shufflevector(first, second, 1, 3, 5, 7));
  for (int64_t i = length - length % pack_lanes; i < length; i++) {
    const pack_part next = {x[i], x[step + i], x[2 * step + i], x[3 * step + i]};
    folded = combine_parts(folded, next);
  }
  folded = combine_parts((pack_part){identity, identity, identity, identity}, folded);
  __builtin_memcpy(result, &folded, sizeof folded);
}

/* Four lines that are too short for packs, as fold_line. */
ALWAYS_INLINE void fold_four_short_lines(const ELEMENT *x, int64_t step, int64_t length,
                                         ELEMENT *result, ELEMENT identity,
                                         part_combination combine_parts) {
  pack_part folded = {identity, identity, identity, identity};
  int64_t i = 0;
  for (; i + 4 <= length; i += 4) {
    pack_part line[4];
    for (int l = 0; l < 4; l++) __builtin_memcpy(&line[l], x + l * step + i, sizeof line[l]);
    const pack_part first = combine_parts(__builtin_shufflevector(line[0], line[1], 0, 2, 4, 6),
                                          __builtin_shufflevector(line[0], line[1], 1, 3, 5, 7));
    const pack_part second = combine_parts(__builtin_shufflevector(line[2], line[3], 0, 2, 4, 6),
                                           __builtin_shufflevector(line[2], line[3], 1, 3, 5, 7));
    const pack_part four = combine_parts(__builtin_shufflevector(first, second, 0, 2, 4, 6),
                                         __builtin_shufflevector(first, second, 1, 3, 5, 7));
    folded = combine_parts(folded, four);
  }
  for (; i < length; i++) {
    const pack_part next = {x[i], x[step + i], x[2 * step + i], x[3 * step + i]};
    folded = combine_parts(folded, next);
  }
  __builtin_memcpy(result, &folded, sizeof folded);
}
#endif

ALWAYS_INLINE void fold_rows(const void *source, int64_t step, int64_t lines, int64_t length,
                             void *folded, ELEMENT identity, element_source element,
                             pack_source load, combination combine, pack_combination combine_packs,
                             part_combination combine_parts) {
  ELEMENT *result = folded;
  int64_t l = 0;
#if defined(CPU_VARIANT_F32) || defined(CPU_VARIANT_I32)
  const ELEMENT *x = source;
  if (length >= folded_by_packs && length <= block)
    for (; l + 4 <= lines; l += 4)
      fold_four_lines(x + l * step, step, length, result + l, identity, combine_packs,
                      combine_parts);
  if (length < folded_by_packs)
    for (; l + 4 <= lines; l += 4)
      fold_four_short_lines(x + l * step, step, length, result + l, identity, combine_parts);
#endif
  for (; l < lines; l++)
    result[l] = fold_line(source, l * step, length, identity, element, load, combine, combine_packs,
                          combine_parts);
}

/* Few columns in contiguous lines: as many lines as the accumulators hold are folded as one long
 * line. */
ALWAYS_INLINE void fold_narrow(const void *restrict x, int64_t lines, int64_t length,
                               ELEMENT *restrict result, ELEMENT identity, element_source element,
                               combination combine) {
  ELEMENT lane[narrow];
  const int64_t group = narrow / length, span = group * length;
  for (int64_t j = 0; j < span; j++) lane[j] = identity;
  int64_t l = 0, at = 0;
  for (; l + group <= lines; l += group, at += span)
    for (int64_t j = 0; j < span; j++) lane[j] = combine(lane[j], element(x, at + j));
  for (int64_t j = 0; j < (lines - l) * length; j++) lane[j] = combine(lane[j], element(x, at + j));
  for (int64_t g = 0; g < group; g++)
    for (int64_t j = 0; j < length; j++) result[j] = combine(result[j], lane[g * length + j]);
}

/* From element `at` on. */
ALWAYS_INLINE void fold_columns(const void *restrict x, int64_t at, int64_t step, int64_t lines,
                                int64_t length, ELEMENT *restrict result, element_source element,
                                combination combine) {
  int64_t l = 0;
  for (; l + 4 <= lines; l += 4, at += 4 * step)
    for (int64_t i = at; i < at + length; i++) {
      const ELEMENT first = combine(element(x, i), element(x, i + step));
      const ELEMENT second = combine(element(x, i + 2 * step), element(x, i + 3 * step));
      result[i - at] = combine(result[i - at], combine(first, second));
    }
  for (; l < lines; l++, at += step)
    for (int64_t i = 0; i < length; i++) result[i] = combine(result[i], element(x, at + i));
}

ALWAYS_INLINE void fold_whole_columns(const void *x, int64_t step, int64_t lines, int64_t length,
                                      ELEMENT *result, ELEMENT identity, element_source element,
                                      combination combine) {
  if (step == length && length <= narrow / 4 && lines > CPU_STACK_LINES)
    fold_narrow(x, lines, length, result, identity, element, combine);
  else
    fold_columns(x, 0, step, lines, length, result, element, combine);
}

/* `true` if the packs of every stack but the last may end past its columns. */
ALWAYS_INLINE int packs_fit(int64_t apart, int64_t length) {
  return length >= pack_lanes || apart >= pack_lanes - length;
}

/* The first column of a pack: the last pack of a line overlaps the one before it. */
ALWAYS_INLINE int64_t pack_start(int64_t i, int64_t length) {
  return i + pack_lanes <= length || length < pack_lanes ? i : length - pack_lanes;
}

/* All columns of a stack, in the order of fold_columns. Short lines are stored as whole packs. */
ALWAYS_INLINE void fold_stack(const void *x, int64_t first, int64_t step, int64_t lines,
                              int64_t length, ELEMENT *result, ELEMENT identity, pack_source load,
                              pack_combination combine_packs) {
  for (int64_t i = 0; i < length; i += pack_lanes) {
    const int64_t at = pack_start(i, length);
    int64_t from = first + at;
    pack folded = pack_all(identity);
    int64_t l = 0;
    for (; l + 4 <= lines; l += 4, from += 4 * step) {
      const pack even = combine_packs(load(x, from), load(x, from + step));
      const pack odd = combine_packs(load(x, from + 2 * step), load(x, from + 3 * step));
      folded = combine_packs(folded, combine_packs(even, odd));
    }
    for (; l < lines; l++, from += step) folded = combine_packs(folded, load(x, from));
    pack_store(result + at, folded);
  }
}

ALWAYS_INLINE void fold_stacks(const void *x, int64_t apart, int64_t stacks, int64_t step,
                               int64_t lines, int64_t length, void *folded, ELEMENT identity,
                               element_source element, pack_source load, combination combine,
                               pack_combination combine_packs) {
  ELEMENT *result = folded;
  const int64_t whole = packs_fit(apart, length) ? stacks - 1 : 0;
  for (int64_t s = 0; s < whole; s++)
    fold_stack(x, s * apart, step, lines, length, result + s * length, identity, load,
               combine_packs);
  for (int64_t s = whole; s < stacks; s++) {
    for (int64_t i = 0; i < length; i++) result[s * length + i] = identity;
    fold_columns(x, s * apart, step, lines, length, result + s * length, element, combine);
  }
}

ALWAYS_INLINE void fill(void *folded, int64_t length, ELEMENT value) {
  ELEMENT *result = folded;
  for (int64_t i = 0; i < length; i++) result[i] = value;
}

#define FOLD(name, operation, identity, element, load)                                             \
  static void name##_rows(const void *source, int64_t step, int64_t lines, int64_t length,         \
                          void *folded) {                                                          \
    fold_rows(source, step, lines, length, folded, identity, element, load, operation,             \
              pack_##operation, part_##operation);                                                 \
  }                                                                                                \
  static void name##_columns(const void *source, int64_t step, int64_t lines, int64_t length,      \
                             void *folded) {                                                       \
    fold_whole_columns(source, step, lines, length, folded, identity, element, operation);         \
  }                                                                                                \
  static void name##_stacks(const void *source, int64_t apart, int64_t stacks, int64_t step,       \
                            int64_t lines, int64_t length, void *folded) {                         \
    fold_stacks(source, apart, stacks, step, lines, length, folded, identity, element, load,       \
                operation, pack_##operation);                                                      \
  }                                                                                                \
  static void name##_clear(void *folded, int64_t length) {                                         \
    fill(folded, length, identity);                                                                \
  }
FOLD(larger, larger, LOWEST, plain, plain_pack)
FOLD(smaller, smaller, HIGHEST, plain, plain_pack)
#ifndef CPU_VARIANT_BYTE
FOLD(add, add, 0, plain, plain_pack)
FOLD(multiply, multiply, 1, plain, plain_pack)
#endif
#ifdef CPU_VARIANT_F64
FOLD(add_squares, add, 0, square, square_pack)
#endif
#undef FOLD

#ifndef CPU_VARIANT_BYTE
/* ---- ARGMAX and ARGMIN ---------------------------------------------------------------------- */

/* Searches a line in two passes over blocks that stay in the L1 cache: first a fold gives the
 * extremum of the block; only if that beats the previous one, a search finds its position. */

/* `true` if `b` is more extreme than `a`; both comparisons with a NaN are false. */
ALWAYS_INLINE int beats(ELEMENT b, ELEMENT a, int largest) {
  const int better = largest ? b > a : b < a;
  return better | (IS_NAN(b) & !IS_NAN(a));
}

ALWAYS_INLINE int64_t find(const ELEMENT *x, ELEMENT wanted) {
  int64_t i = 0;
  while (!((x[i] == wanted) | IS_NAN(x[i]))) i++;
  return i;
}

#if defined(CPU_VARIANT_F32) || defined(CPU_VARIANT_I32)
/* Keeps elements that beat the best ones, and the number of their line or column. */
ALWAYS_INLINE void part_keep(pack_part *best, part_mask *place, pack_part x, MASK number,
                             int largest) {
  const part_mask more = largest ? (part_mask)(x > *best) : (part_mask)(x < *best);
  const part_mask better = more | ((part_mask)PACK_NAN(x) & ~(part_mask)PACK_NAN(*best));
  const part_mask numbers = {number, number, number, number};
  *best = part_select(better, x, *best);
  *place = (numbers & better) | (*place & ~better);
}

/* Four short lines at once, four columns at a time. */
ALWAYS_INLINE void search_four_lines(const ELEMENT *x, int64_t step, int64_t length, int64_t first,
                                     int64_t stride, ELEMENT *values, int64_t *positions,
                                     int largest) {
  pack_part best = {x[0], x[step], x[2 * step], x[3 * step]};
  part_mask place = {0};
  int64_t i = 0;
  for (; i + 4 <= length; i += 4) {
    pack_part line[4];
    for (int l = 0; l < 4; l++) __builtin_memcpy(&line[l], x + l * step + i, sizeof line[l]);
    const pack_part a = __builtin_shufflevector(line[0], line[1], 0, 4, 1, 5);
    const pack_part b = __builtin_shufflevector(line[0], line[1], 2, 6, 3, 7);
    const pack_part c = __builtin_shufflevector(line[2], line[3], 0, 4, 1, 5);
    const pack_part d = __builtin_shufflevector(line[2], line[3], 2, 6, 3, 7);
    const MASK n = (MASK)i;
    part_keep(&best, &place, __builtin_shufflevector(a, c, 0, 1, 4, 5), n, largest);
    part_keep(&best, &place, __builtin_shufflevector(a, c, 2, 3, 6, 7), n + 1, largest);
    part_keep(&best, &place, __builtin_shufflevector(b, d, 0, 1, 4, 5), n + 2, largest);
    part_keep(&best, &place, __builtin_shufflevector(b, d, 2, 3, 6, 7), n + 3, largest);
  }
  for (; i < length; i++) {
    const pack_part next = {x[i], x[step + i], x[2 * step + i], x[3 * step + i]};
    part_keep(&best, &place, next, (MASK)i, largest);
  }
  __builtin_memcpy(values, &best, sizeof best);
  for (int l = 0; l < 4; l++) positions[l] = first + stride * (int64_t)place[l];
}
#endif

ALWAYS_INLINE void search_rows(const void *source, int64_t step, int64_t lines, int64_t length,
                               int64_t first, int64_t stride, void *values, int64_t *positions,
                               int largest) {
  enum { searched = 1024, together = 96 };
  ELEMENT *result = values;
  int64_t l = 0;
#if defined(CPU_VARIANT_F32) || defined(CPU_VARIANT_I32)
  for (; length <= together && l + 4 <= lines; l += 4)
    search_four_lines((const ELEMENT *)source + l * step, step, length, first, stride, result + l,
                      positions + l, largest);
#endif
  for (; l < lines; l++) {
    const ELEMENT *x = (const ELEMENT *)source + l * step;
    for (int64_t start = 0; start < length; start += searched) {
      const int64_t count = length - start < searched ? length - start : searched;
      const ELEMENT extremum = largest ? fold_line(x, start, count, LOWEST, plain, plain_pack,
                                                   larger, pack_larger, part_larger)
                                       : fold_line(x, start, count, HIGHEST, plain, plain_pack,
                                                   smaller, pack_smaller, part_smaller);
      if (start > 0 && !beats(extremum, result[l], largest)) continue;
      result[l] = extremum;
      positions[l] = first + stride * (start + find(x + start, extremum));
    }
  }
}

ALWAYS_INLINE void search_columns(const void *source, int64_t step, int64_t lines, int64_t length,
                                  int64_t first, int64_t stride, void *values, int64_t *positions,
                                  bool more, int largest) {
  enum { strip = 128 };
  ELEMENT best[strip];
  MASK line[strip]; /* as wide as the elements, so that both share one mask */
  for (int64_t start = 0; start < length; start += strip) {
    const int64_t count = length - start < strip ? length - start : strip;
    const ELEMENT *x = (const ELEMENT *)source + start;
    const ELEMENT *first_line = more ? (const ELEMENT *)values + start : x;
    for (int64_t i = 0; i < count; i++) {
      best[i] = first_line[i];
      line[i] = more ? -1 : 0;
    }
    for (int64_t l = more ? 0 : 1; l < lines; l++) {
      x = (const ELEMENT *)source + start + l * step;
      for (int64_t i = 0; i < count; i++) {
        const int better = beats(x[i], best[i], largest);
        best[i] = better ? x[i] : best[i];
        line[i] = better ? (MASK)l : line[i];
      }
    }
    for (int64_t i = 0; i < count; i++) ((ELEMENT *)values)[start + i] = best[i];
    if (!more)
      for (int64_t i = 0; i < count; i++) positions[start + i] = first + stride * (int64_t)line[i];
    else
      for (int64_t i = 0; i < count; i++)
        if (line[i] >= 0) positions[start + i] = first + stride * (int64_t)line[i];
  }
}

/* All columns of a stack, as search_columns. */
ALWAYS_INLINE void search_stack(const ELEMENT *x, int64_t step, int64_t lines, int64_t length,
                                int64_t first, int64_t stride, ELEMENT *values, int64_t *positions,
                                int largest) {
  for (int64_t i = 0; i < length; i += pack_lanes) {
    const int64_t at = pack_start(i, length);
    const ELEMENT *from = x + at;
    pack best = pack_load(from);
    pack_mask place = {0};
    for (int64_t l = 1; l < lines; l++) {
      from += step;
      const pack next = pack_load(from);
      const pack_mask more = largest ? (pack_mask)(next > best) : (pack_mask)(next < best);
      const pack_mask better = more | (pack_nan(next) & ~pack_nan(best));
      best = pack_select(better, next, best);
      place = ((MASK)l & better) | (place & ~better);
    }
    pack_store(values + at, best);
    for (int j = 0; j < pack_lanes && at + j < length; j++)
      positions[at + j] = first + stride * (int64_t)place[j];
  }
}

typedef void (*column_search)(const void *source, int64_t step, int64_t lines, int64_t length,
                              int64_t first, int64_t stride, void *values, int64_t *positions,
                              bool more);

ALWAYS_INLINE void search_stacks(const void *source, int64_t apart, int64_t stacks, int64_t step,
                                 int64_t lines, int64_t length, int64_t first, int64_t stride,
                                 void *values, int64_t *positions, int largest,
                                 column_search columns) {
  const ELEMENT *x = source;
  ELEMENT *result = values;
  const int64_t whole = packs_fit(apart, length) ? stacks - 1 : 0;
  for (int64_t s = 0; s < whole; s++)
    search_stack(x + s * apart, step, lines, length, first, stride, result + s * length,
                 positions + s * length, largest);
  for (int64_t s = whole; s < stacks; s++)
    columns(x + s * apart, step, lines, length, first, stride, result + s * length,
            positions + s * length, false);
}

ALWAYS_INLINE void search_merge(void *values, int64_t *positions, const void *other_values,
                                const int64_t *other_positions, int64_t length, int largest) {
  ELEMENT *a = values;
  const ELEMENT *b = other_values;
  for (int64_t i = 0; i < length; i++) {
    const int alike = (a[i] == b[i]) | (IS_NAN(a[i]) & IS_NAN(b[i]));
    if (beats(b[i], a[i], largest) || (alike && other_positions[i] < positions[i])) {
      a[i] = b[i];
      positions[i] = other_positions[i];
    }
  }
}

#define SEARCH(operation, largest)                                                                 \
  static void operation##_rows(const void *source, int64_t step, int64_t lines, int64_t length,    \
                               int64_t first, int64_t stride, void *values, int64_t *positions) {  \
    search_rows(source, step, lines, length, first, stride, values, positions, largest);           \
  }                                                                                                \
  static void operation##_columns(const void *source, int64_t step, int64_t lines, int64_t length, \
                                  int64_t first, int64_t stride, void *values, int64_t *positions, \
                                  bool more) {                                                     \
    search_columns(source, step, lines, length, first, stride, values, positions, more, largest);  \
  }                                                                                                \
  static void operation##_stacks(const void *source, int64_t apart, int64_t stacks, int64_t step,  \
                                 int64_t lines, int64_t length, int64_t first, int64_t stride,     \
                                 void *values, int64_t *positions) {                               \
    search_stacks(source, apart, stacks, step, lines, length, first, stride, values, positions,    \
                  largest, operation##_columns);                                                   \
  }                                                                                                \
  static void operation##_merge(void *values, int64_t *positions, const void *other_values,        \
                                const int64_t *other_positions, int64_t length) {                  \
    search_merge(values, positions, other_values, other_positions, length, largest);               \
  }
SEARCH(largest, 1)
SEARCH(smallest, 0)
#undef SEARCH
#endif

#define FOLD(operation)                                                                            \
  { operation##_rows, operation##_columns, operation##_stacks, operation##_clear }
#define SEARCH(operation)                                                                          \
  { operation##_rows, operation##_columns, operation##_stacks, operation##_merge }

const cpu_reduce_loops CPU_VARIANT_SYMBOL(cpu_reduce) = {
    .fold =
        {
#ifndef CPU_VARIANT_BYTE
            [COMPUTE_COMBINE_SUM] = FOLD(add),
            [COMPUTE_COMBINE_PROD] = FOLD(multiply),
#endif
            [COMPUTE_COMBINE_MAX] = FOLD(larger),
            [COMPUTE_COMBINE_MIN] = FOLD(smaller),
        },
#ifdef CPU_VARIANT_F64
    .squares = FOLD(add_squares),
#endif
#ifndef CPU_VARIANT_BYTE
    .largest = SEARCH(largest),
    .smallest = SEARCH(smallest),
#endif
};
