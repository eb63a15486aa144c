/* The folding loops of one element type: a template, included by isa/reduce.c once per type with
 *
 *   ELEMENT     the type
 *   ARITHMETIC  the type to add and multiply in: unsigned for integers, where overflow wraps
 *   MASK        the signed integer type as wide as ELEMENT
 *   NAME(x)     x with the type's suffix
 *   IS_NAN(x)   whether x is not a number; PACK_NAN(x): the same of a pack, as a pack
 *   LOWEST, HIGHEST  the ends of its range, infinities for floats
 *
 * Each combination is written twice, for elements and for packs of them, and passed to the loops as
 * constant function pointers, which are inlined. */
#include "program/isa/pack.h"

typedef ELEMENT (*NAME(combination))(ELEMENT a, ELEMENT b);

static inline ELEMENT NAME(add)(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a + (ARITHMETIC)b);
}

static inline ELEMENT NAME(multiply)(ELEMENT a, ELEMENT b) {
  return (ELEMENT)((ARITHMETIC)a * (ARITHMETIC)b);
}

/* The processor's comparison hands `b` on if either is NaN; only one in `a` needs care. */
static inline ELEMENT NAME(larger)(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a > b ? a : b;
  return IS_NAN(a) ? a : extremum;
}
static inline ELEMENT NAME(smaller)(ELEMENT a, ELEMENT b) {
  const ELEMENT extremum = a < b ? a : b;
  return IS_NAN(a) ? a : extremum;
}

typedef NAME(pack) (*NAME(pack_combination))(NAME(pack) a, NAME(pack) b);

ALWAYS_INLINE NAME(pack) NAME(pack_multiply)(NAME(pack) a, NAME(pack) b) {
  return (NAME(pack))((NAME(arithmetic_pack))a * (NAME(arithmetic_pack))b);
}

ALWAYS_INLINE NAME(mask) NAME(pack_nan)(NAME(pack) a) {
  return (NAME(mask))PACK_NAN(a);
}

ALWAYS_INLINE NAME(pack) NAME(pack_select)(NAME(mask) take_a, NAME(pack) a, NAME(pack) b) {
  return (NAME(pack))(((NAME(mask))a & take_a) | ((NAME(mask))b & ~take_a));
}

ALWAYS_INLINE NAME(pack) NAME(pack_larger)(NAME(pack) a, NAME(pack) b) {
  return NAME(pack_select)((NAME(mask))(a > b) | NAME(pack_nan)(a), a, b);
}
ALWAYS_INLINE NAME(pack) NAME(pack_smaller)(NAME(pack) a, NAME(pack) b) {
  return NAME(pack_select)((NAME(mask))(a < b) | NAME(pack_nan)(a), a, b);
}

enum {
  NAME(lanes) = 4 * NAME(vector),
  NAME(block) = 64 * NAME(lanes),
  NAME(narrow) = 64 /* accumulators of a few columns */
};

/* At least one pack, at most a block. */
ALWAYS_INLINE ELEMENT NAME(fold_block)(const ELEMENT *x, int64_t length, NAME(combination) combine,
                                       NAME(pack_combination) combine_packs) {
  NAME(pack) lane[4];
  ELEMENT part[NAME(vector)];
  int64_t i = NAME(vector);
  lane[0] = NAME(pack_load)(x);
  if (length >= NAME(lanes)) {
    for (int k = 1; k < 4; k++) lane[k] = NAME(pack_load)(x + k * NAME(vector));
    for (i = NAME(lanes); i + NAME(lanes) <= length; i += NAME(lanes))
      for (int k = 0; k < 4; k++)
        lane[k] = combine_packs(lane[k], NAME(pack_load)(x + i + k * NAME(vector)));
    lane[0] = combine_packs(combine_packs(lane[0], lane[1]), combine_packs(lane[2], lane[3]));
  }
  for (; i + NAME(vector) <= length; i += NAME(vector))
    lane[0] = combine_packs(lane[0], NAME(pack_load)(x + i));
  __builtin_memcpy(part, &lane[0], sizeof part);
  for (int half = NAME(vector) / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) part[j] = combine(part[j], part[j + half]);
  ELEMENT folded = part[0];
  for (; i < length; i++) folded = combine(folded, x[i]);
  return folded;
}

ALWAYS_INLINE ELEMENT NAME(fold_line)(const ELEMENT *x, int64_t length, ELEMENT identity,
                                      NAME(combination) combine,
                                      NAME(pack_combination) combine_packs) {
  ELEMENT folded = identity;
  int64_t i = 0;
  while (length - i >= 2 * NAME(vector)) {
    const int64_t count = length - i < NAME(block) ? length - i : NAME(block);
    folded = combine(folded, NAME(fold_block)(x + i, count, combine, combine_packs));
    i += count;
  }
  for (; i < length; i++) folded = combine(folded, x[i]);
  return folded;
}

ALWAYS_INLINE void NAME(fold_rows)(const void *source, int64_t step, int64_t lines, int64_t length,
                                   void *folded, ELEMENT identity, NAME(combination) combine,
                                   NAME(pack_combination) combine_packs) {
  const ELEMENT *x = source;
  ELEMENT *result = folded;
  for (int64_t l = 0; l < lines; l++)
    result[l] = NAME(fold_line)(x + l * step, length, identity, combine, combine_packs);
}

/* Few columns, lines back to back: as many lines as the lanes hold are folded as one long line. */
ALWAYS_INLINE void NAME(fold_narrow)(const ELEMENT *restrict x, int64_t lines, int64_t length,
                                     ELEMENT *restrict result, ELEMENT identity,
                                     NAME(combination) combine) {
  ELEMENT lane[NAME(narrow)];
  const int64_t group = NAME(narrow) / length, span = group * length;
  for (int64_t j = 0; j < span; j++) lane[j] = identity;
  int64_t l = 0;
  for (; l + group <= lines; l += group, x += span)
    for (int64_t j = 0; j < span; j++) lane[j] = combine(lane[j], x[j]);
  for (int64_t j = 0; j < (lines - l) * length; j++) lane[j] = combine(lane[j], x[j]);
  for (int64_t g = 0; g < group; g++)
    for (int64_t j = 0; j < length; j++) result[j] = combine(result[j], lane[g * length + j]);
}

ALWAYS_INLINE void NAME(fold_columns)(const void *source, int64_t step, int64_t lines,
                                      int64_t length, void *folded, ELEMENT identity,
                                      NAME(combination) combine) {
  const ELEMENT *restrict x = source;
  ELEMENT *restrict result = folded;
  if (step == length && length <= NAME(narrow) / 4 && lines > 8) {
    NAME(fold_narrow)(x, lines, length, result, identity, combine);
    return;
  }
  int64_t l = 0;
  for (; l + 4 <= lines; l += 4, x += 4 * step)
    for (int64_t i = 0; i < length; i++) {
      const ELEMENT first = combine(x[i], x[i + step]);
      const ELEMENT second = combine(x[i + 2 * step], x[i + 3 * step]);
      result[i] = combine(result[i], combine(first, second));
    }
  for (; l < lines; l++, x += step)
    for (int64_t i = 0; i < length; i++) result[i] = combine(result[i], x[i]);
}

ALWAYS_INLINE void NAME(fill)(void *folded, int64_t length, ELEMENT value) {
  ELEMENT *result = folded;
  for (int64_t i = 0; i < length; i++) result[i] = value;
}

#define FOLD(operation, identity)                                                                  \
  static void NAME(operation##_rows)(const void *source, int64_t step, int64_t lines,              \
                                     int64_t length, void *folded) {                               \
    NAME(fold_rows)                                                                                \
    (source, step, lines, length, folded, identity, NAME(operation), NAME(pack_##operation));      \
  }                                                                                                \
  static void NAME(operation##_columns)(const void *source, int64_t step, int64_t lines,           \
                                        int64_t length, void *folded) {                            \
    NAME(fold_columns)(source, step, lines, length, folded, identity, NAME(operation));            \
  }                                                                                                \
  static void NAME(operation##_clear)(void *folded, int64_t length) {                              \
    NAME(fill)(folded, length, identity);                                                          \
  }
FOLD(larger, LOWEST)
FOLD(smaller, HIGHEST)
#ifndef EXTREMA_ONLY
FOLD(add, 0)
FOLD(multiply, 1)
#endif
#undef FOLD
