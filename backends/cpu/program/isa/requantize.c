/* SPDX-License-Identifier: MIT */
/* Converts i32 sums, or the sum of two tensors of bytes, to bytes. core/isa.h explains how this
 * file is compiled; requantize_table.h and requantize_sum_table.h define the loops. */
#include <string.h>

#include "requantize_sum_table.h"

#include "math_base.h"
#include "program/isa/requantize_vector.h"

/* How values are divided. With `reciprocal`, the rounded 1 / divisor: value · reciprocal and one
 * Newton step on the remainder give the correctly rounded quotient (Markstein), in a fifth of a
 * division's time. */
/* How two terms become a value. */
typedef enum joining { BY_SUM, BY_FACTORS, BY_PRODUCT } joining;

typedef enum division { DIVISION_NONE, DIVISION, DIVISION_RECIPROCAL } division;

/* Which operands have one element per element of x, and how values are divided. These are constants
 * after inlining. */
typedef struct form {
  bool offsets, scales, biases;
  division divides;
} form;

/* `zero` already has REQUANTIZE_ROUNDING_BITS subtracted. */
CPU_INLINE uint8_t round_to_byte(float value, int32_t zero, int32_t least, int32_t most) {
  int32_t whole = math_bits_f32(value + REQUANTIZE_ROUNDING) + zero;
  whole = value == value ? whole : 0;
  whole = whole > least ? whole : least;
  return (uint8_t)(whole < most ? whole : most);
}

/* One row, element by element. */
CPU_INLINE void requantize_row(const form f, const cpu_requantize_lines *l, const int32_t *x,
                               const int32_t *offset, const float *scale, const float *bias,
                               uint8_t *y) {
  const int64_t count = l->count; /* a local copy: bytes may alias anything */
  const uint32_t one_offset = (uint32_t)*offset, sign = l->subtracts ? UINT32_MAX : 0;
  const float one_scale = *scale, one_bias = *bias, divisor = l->divisor;
  const float low = l->low, high = l->high;
  const int32_t zero = l->zero - REQUANTIZE_ROUNDING_BITS;
  const int32_t least = l->is_signed ? -128 : 0, most = l->is_signed ? 127 : 255;
  CPU_INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const uint32_t added = ((f.offsets ? (uint32_t)offset[i] : one_offset) ^ sign) - sign;
    const int32_t sum = (int32_t)((uint32_t)x[i] + added);
    float value = (float)sum * (f.scales ? scale[i] : one_scale) + (f.biases ? bias[i] : one_bias);
    value = low > value ? low : value;
    value = high < value ? high : value;
    if (f.divides) {
      value /= divisor;
      value = -CPU_REQUANTIZE_LARGEST > value ? -CPU_REQUANTIZE_LARGEST : value;
      value = CPU_REQUANTIZE_LARGEST < value ? CPU_REQUANTIZE_LARGEST : value;
    }
    y[i] = round_to_byte(value, zero, least, most);
  }
}

CPU_INLINE void requantize_rows(const form f, const cpu_requantize_lines *l) {
  for (int64_t row = 0; row < l->rows; row++)
    requantize_row(f, l, l->x + row * l->x_row, l->offset + row * l->offset_row,
                   l->scale + row * l->scale_row, l->bias + row * l->bias_row,
                   l->y + row * l->y_row);
}

/* ---- Vectors --------------------------------------------------------------------------------- */

#ifdef REQUANTIZE_LANES
/* The results of a vector of sums, as words not yet limited to bytes. */
CPU_INLINE requantize_words requantize_vector(const form f, const requantize_numbers *n,
                                              const int32_t *x, const int32_t *offset,
                                              const float *scale, const float *bias, int64_t i) {
  const requantize_words offsets = requantize_offset(
      n->sign, f.offsets ? REQUANTIZE_LOAD_WORDS(offset + i) : REQUANTIZE_V(set1_epi32)(*offset));
  const requantize_floats scales =
      f.scales ? REQUANTIZE_V(loadu_ps)(scale + i) : REQUANTIZE_V(set1_ps)(*scale);
  const requantize_floats biases =
      f.biases ? REQUANTIZE_V(loadu_ps)(bias + i) : REQUANTIZE_V(set1_ps)(*bias);
  const requantize_words sum = REQUANTIZE_V(add_epi32)(REQUANTIZE_LOAD_WORDS(x + i), offsets);
  requantize_floats value =
      REQUANTIZE_V(add_ps)(REQUANTIZE_V(mul_ps)(REQUANTIZE_V(cvtepi32_ps)(sum), scales), biases);
  value = REQUANTIZE_V(min_ps)(n->high, REQUANTIZE_V(max_ps)(n->low, value));
  if (f.divides == DIVISION) {
    value = REQUANTIZE_V(div_ps)(value, n->divisor);
    value = REQUANTIZE_V(min_ps)(
        REQUANTIZE_V(set1_ps)(CPU_REQUANTIZE_LARGEST),
        REQUANTIZE_V(max_ps)(REQUANTIZE_V(set1_ps)(-CPU_REQUANTIZE_LARGEST), value));
  }
  if (f.divides == DIVISION_RECIPROCAL) {
    const requantize_floats near = REQUANTIZE_V(mul_ps)(value, n->reciprocal);
    value = REQUANTIZE_V(fmadd_ps)(REQUANTIZE_V(fnmadd_ps)(near, n->divisor, value), n->reciprocal,
                                   near);
  }
  const requantize_floats shifted =
      REQUANTIZE_V(add_ps)(value, REQUANTIZE_V(set1_ps)(REQUANTIZE_ROUNDING));
  return AND_ORDERED(REQUANTIZE_V(add_epi32)(AS_WORDS(shifted), n->zero), value);
}

/* The same for rows of at least one vector; the last vector may overlap the one before. */
CPU_INLINE void requantize(const form f, const cpu_requantize_lines *lines) {
  const cpu_requantize_lines l = *lines; /* y's bytes may alias its numbers */
  const requantize_numbers n = requantize_take_numbers(lines);
  if (l.count < REQUANTIZE_LANES) {
    requantize_rows(f, lines);
    return;
  }
  for (int64_t row = 0; row < l.rows; row++) {
    const int32_t *x = l.x + row * l.x_row, *offset = l.offset + row * l.offset_row;
    const float *scale = l.scale + row * l.scale_row, *bias = l.bias + row * l.bias_row;
    uint8_t *y = l.y + row * l.y_row;
    int64_t i = 0;
    for (; i + 2 * REQUANTIZE_LANES <= l.count; i += 2 * REQUANTIZE_LANES)
      store_two(y + i, requantize_vector(f, &n, x, offset, scale, bias, i),
                requantize_vector(f, &n, x, offset, scale, bias, i + REQUANTIZE_LANES),
                l.is_signed);
    for (; i < l.count; i += REQUANTIZE_LANES) {
      const int64_t at = i + REQUANTIZE_LANES <= l.count ? i : l.count - REQUANTIZE_LANES;
      store_one(y + at, requantize_vector(f, &n, x, offset, scale, bias, at), l.is_signed);
    }
  }
}

/* ---- Blocks -----------------------------------------------------------------------------------
 *
 * The usual case (`blocks`): all rows have the same offsets, scales and biases, and none of these
 * is so large that a quotient could leave the range of whole numbers. Then limits may be applied to
 * bytes, many at a time, and nothing is NaN. */

CPU_INLINE requantize_words divide_vector(const requantize_column *c, const requantize_numbers *n,
                                          const int32_t *x) {
  return requantize_sums(c, n, REQUANTIZE_LOAD_WORDS(x));
}

/* `rows` (1 or 2) rows of `vectors` (1 or 2) vectors. */
CPU_INLINE void requantize_few(const int vectors, const int rows, const requantize_column *c,
                               const requantize_numbers *n, const int32_t *x, int64_t x_row,
                               uint8_t *y, int64_t y_row) {
  const int32_t *next = rows > 1 ? x + x_row : x;
  requantize_words w[2][2];
  w[0][0] = divide_vector(&c[0], n, x);
  w[0][1] = vectors > 1 ? divide_vector(&c[1], n, x + REQUANTIZE_LANES) : w[0][0];
  w[1][0] = rows > 1 ? divide_vector(&c[0], n, next) : w[0][0];
  w[1][1] = rows == 1     ? w[0][1]
            : vectors > 1 ? divide_vector(&c[1], n, next + REQUANTIZE_LANES)
                          : w[1][0];
  requantize_store_few(vectors, rows, &n->stored, w, y, y_row);
}

/* Some columns of some rows; false if their numbers are too large. */
CPU_INLINE bool requantize_columns(const int vectors, const cpu_requantize_lines *l,
                                   const requantize_numbers *n, int64_t row, int64_t end,
                                   int64_t first) {
  const requantize_column c[2] = {
      requantize_take_column(l, n, first),
      requantize_take_column(l, n, vectors > 1 ? first + REQUANTIZE_LANES : first)};
  if (!requantize_are_moderate(&c[0], n) || !requantize_are_moderate(&c[1], n)) return false;
  const int64_t x_row = l->x_row, y_row = l->y_row;
  const int32_t *x = l->x + row * x_row + first;
  uint8_t *y = l->y + row * y_row + first;
  for (; row + 2 <= end; row += 2, x += 2 * x_row, y += 2 * y_row)
    requantize_few(vectors, 2, c, n, x, x_row, y, y_row);
  if (row < end) requantize_few(vectors, 1, c, n, x, x_row, y, y_row);
  return true;
}

/* The same for all columns, two vectors at a time, or one; the last ones may overlap those
 * before. */
CPU_INLINE bool requantize_band(const cpu_requantize_lines *l, const requantize_numbers *n,
                                int64_t row, int64_t end) {
  const int64_t count = l->count;
  int64_t i = 0;
  for (; i + 2 * REQUANTIZE_LANES <= count; i += 2 * REQUANTIZE_LANES)
    if (!requantize_columns(2, l, n, row, end, i)) return false;
  for (; i < count; i += REQUANTIZE_LANES)
    if (!requantize_columns(1, l, n, row, end,
                            i + REQUANTIZE_LANES <= count ? i : count - REQUANTIZE_LANES))
      return false;
  return true;
}

/* All lines, some rows at a time, so that the written bytes stay in cache; false if that is
 * impossible, and the bytes must be overwritten. The struct is not copied: vector loads of fields
 * that the caller has just written one by one would stall. */
static bool requantize_blocks(const cpu_requantize_lines *l) {
  enum { ROWS = 16 };
  if (!l->blocks || l->count < REQUANTIZE_LANES) return false;
  const requantize_numbers n = requantize_take_numbers(l);
  const int64_t rows = l->rows;
  for (int64_t row = 0; row < rows; row += ROWS)
    if (!requantize_band(l, &n, row, row + ROWS < rows ? row + ROWS : rows)) return false;
  return true;
}

CPU_INLINE requantize_floats term_vector(const bool is_signed, const cpu_requantize_term *t,
                                         int64_t i) {
  const requantize_words whole =
      is_signed ? WIDEN_SIGNED(t->from + i) : WIDEN_UNSIGNED(t->from + i);
  return REQUANTIZE_V(mul_ps)(
      REQUANTIZE_V(sub_ps)(REQUANTIZE_V(cvtepi32_ps)(whole), REQUANTIZE_V(set1_ps)(t->zero)),
      REQUANTIZE_V(set1_ps)(t->scale));
}

CPU_INLINE requantize_words joined_vector(const joining how, const bool a_signed,
                                          const bool b_signed, const cpu_requantize_term *a,
                                          const cpu_requantize_term *b, const requantize_numbers *n,
                                          int64_t i) {
  const requantize_floats x = term_vector(a_signed, a, i), y = term_vector(b_signed, b, i);
  return requantize_divide(
      how == BY_PRODUCT ? REQUANTIZE_V(mul_ps)(x, y) : REQUANTIZE_V(add_ps)(x, y), n);
}

/* The same with the terms' factors. */
CPU_INLINE requantize_words factor_vector(const bool a_signed, const bool b_signed,
                                          const cpu_requantize_term *a,
                                          const cpu_requantize_term *b, int64_t i) {
  const requantize_words x = a_signed ? WIDEN_SIGNED(a->from + i) : WIDEN_UNSIGNED(a->from + i);
  const requantize_words y = b_signed ? WIDEN_SIGNED(b->from + i) : WIDEN_UNSIGNED(b->from + i);
  const requantize_floats second =
      REQUANTIZE_V(fmadd_ps)(REQUANTIZE_V(cvtepi32_ps)(y), REQUANTIZE_V(set1_ps)(b->factor),
                             REQUANTIZE_V(set1_ps)(b->added));
  return REQUANTIZE_V(cvtps_epi32)(REQUANTIZE_V(fmadd_ps)(
      REQUANTIZE_V(cvtepi32_ps)(x), REQUANTIZE_V(set1_ps)(a->factor), second));
}

/* Whole vectors of a row, two rows of two as above; returns the number of elements done. */
CPU_INLINE int64_t join_vectors(const joining how, const bool a_signed, const bool b_signed,
                                const cpu_requantize_term *a, const cpu_requantize_term *b,
                                const requantize_numbers *n, int64_t count, uint8_t *y) {
  int64_t i = 0;
  for (; i + 4 * REQUANTIZE_LANES <= count; i += 4 * REQUANTIZE_LANES) {
    requantize_words w[2][2];
    for (int k = 0; k < 4; k++)
      w[k / 2][k % 2] =
          how == BY_FACTORS
              ? factor_vector(a_signed, b_signed, a, b, i + k * REQUANTIZE_LANES)
              : joined_vector(how, a_signed, b_signed, a, b, n, i + k * REQUANTIZE_LANES);
    requantize_store_few(2, 2, &n->stored, w, y + i, 2 * REQUANTIZE_LANES);
  }
  return i;
}
#else
typedef struct requantize_numbers {
  int none;
} requantize_numbers;
CPU_INLINE requantize_numbers requantize_take_numbers(const cpu_requantize_lines *l) {
  (void)l;
  return (requantize_numbers){0};
}
CPU_INLINE int64_t join_vectors(const joining how, const bool a_signed, const bool b_signed,
                                const cpu_requantize_term *a, const cpu_requantize_term *b,
                                const requantize_numbers *n, int64_t count, uint8_t *y) {
  (void)how, (void)a_signed, (void)b_signed, (void)a, (void)b, (void)n, (void)count, (void)y;
  return 0;
}
CPU_INLINE void requantize(const form f, const cpu_requantize_lines *l) {
  requantize_rows(f, l);
}
static bool requantize_blocks(const cpu_requantize_lines *l) {
  (void)l;
  return false;
}
#endif

#define REQUANTIZE(name, offsets, scales, biases, divides)                                         \
  static void name(const cpu_requantize_lines *l) {                                                \
    requantize((form){offsets, scales, biases, divides}, l);                                       \
  }
#define REQUANTIZE_ALL(name, divides)                                                              \
  REQUANTIZE(name##_000, false, false, false, divides)                                             \
  REQUANTIZE(name##_001, false, false, true, divides)                                              \
  REQUANTIZE(name##_010, false, true, false, divides)                                              \
  REQUANTIZE(name##_011, false, true, true, divides)                                               \
  REQUANTIZE(name##_100, true, false, false, divides)                                              \
  REQUANTIZE(name##_101, true, false, true, divides)                                               \
  REQUANTIZE(name##_110, true, true, false, divides)                                               \
  REQUANTIZE(name##_111, true, true, true, divides)
REQUANTIZE_ALL(scaled, DIVISION_NONE)
REQUANTIZE_ALL(divided, DIVISION)
REQUANTIZE_ALL(multiplied, DIVISION_RECIPROCAL)

#define REQUANTIZE_NAMES(name)                                                                     \
  {                                                                                                \
    {{name##_000, name##_001}, {name##_010, name##_011}}, {                                        \
      {name##_100, name##_101}, {                                                                  \
        name##_110, name##_111                                                                     \
      }                                                                                            \
    }                                                                                              \
  }

static void run(const cpu_requantize_lines *l) {
  static void (*const loops[3][2][2][2])(const cpu_requantize_lines *) = {
      REQUANTIZE_NAMES(scaled), REQUANTIZE_NAMES(divided), REQUANTIZE_NAMES(multiplied)};
  const division divides = l->divisor == 1      ? DIVISION_NONE
                           : l->reciprocal == 0 ? DIVISION
                                                : DIVISION_RECIPROCAL;
  if (requantize_blocks(l)) return;
  loops[divides][l->offset_along][l->scale_along][l->bias_along](l);
}

/* ---- Sums and products of bytes -------------------------------------------------------------- */

CPU_INLINE float term_value(const bool is_signed, const cpu_requantize_term *t, int64_t i) {
  const uint8_t x = t->from[i];
  return ((is_signed ? (float)(int8_t)x : (float)x) - t->zero) * t->scale;
}

CPU_INLINE void join_terms(const joining how, const bool a_signed, const bool b_signed,
                           const cpu_requantize_term *a, const cpu_requantize_term *b,
                           const cpu_requantize_lines *l) {
  const requantize_numbers n = requantize_take_numbers(l);
  cpu_requantize_term first = *a, second = *b; /* y's bytes may alias them */
  const float low = l->low, high = l->high, divisor = l->divisor;
  const int32_t zero = l->zero - REQUANTIZE_ROUNDING_BITS;
  const int32_t least = l->is_signed ? -128 : 0, most = l->is_signed ? 127 : 255;
  const int64_t count = l->count, rows = l->rows, y_row = l->y_row;
  uint8_t *y = l->y;
  for (int64_t row = 0; row < rows; row++) {
    const int64_t done = join_vectors(how, a_signed, b_signed, &first, &second, &n, count, y);
    CPU_INDEPENDENT
    for (int64_t i = done; i < count; i++) {
      const float x = term_value(a_signed, &first, i), z = term_value(b_signed, &second, i);
      float value = how == BY_PRODUCT ? x * z : x + z;
      value = low > value ? low : value;
      value = high < value ? high : value;
      y[i] = round_to_byte(value / divisor, zero, least, most);
    }
    first.from += first.row;
    second.from += second.row;
    y += y_row;
  }
}

CPU_INLINE void join_signs(const joining how, const cpu_requantize_term terms[2],
                           const cpu_requantize_lines *l) {
  const cpu_requantize_term *a = &terms[0], *b = &terms[1];
  if (a->is_signed && b->is_signed)
    join_terms(how, true, true, a, b, l);
  else if (a->is_signed)
    join_terms(how, true, false, a, b, l);
  else if (b->is_signed)
    join_terms(how, false, true, a, b, l);
  else
    join_terms(how, false, false, a, b, l);
}

static void run_sum(const cpu_requantize_term terms[2], const cpu_requantize_lines *l) {
  if (terms[0].factor != 0)
    join_signs(BY_FACTORS, terms, l);
  else
    join_signs(BY_SUM, terms, l);
}

static void run_product(const cpu_requantize_term terms[2], const cpu_requantize_lines *l) {
  join_signs(BY_PRODUCT, terms, l);
}

#ifdef REQUANTIZE_LANES
/* `true` if the factors give the same bytes for all pairs: each byte of the first term with all of
 * the second. */
static bool factors_suit(const cpu_requantize_term terms[2], const cpu_requantize_lines *lines) {
  enum { BYTES = 256 };
  uint8_t one[BYTES], all[BYTES], exact[BYTES], made[BYTES];
  cpu_requantize_term with[2] = {terms[0], terms[1]}, without[2] = {terms[0], terms[1]};
  cpu_requantize_lines l = *lines;
  for (int i = 0; i < BYTES; i++) all[i] = (uint8_t)i;
  l.rows = 1;
  l.count = BYTES;
  without[0].factor = 0;
  with[0].from = without[0].from = one;
  with[1].from = without[1].from = all;
  for (int i = 0; i < BYTES; i++) {
    memset(one, i, sizeof one);
    l.y = exact;
    run_sum(without, &l);
    l.y = made;
    run_sum(with, &l);
    if (memcmp(exact, made, sizeof made) != 0) return false;
  }
  return true;
}

/* The float `steps` representable numbers away from x. */
static float step_from(float x, int steps) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits += steps;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

/* With all numbers rounded to nearest, none or a few of the 65536 pairs of bytes give another
 * result. Neighbouring numbers fail for other pairs, or for none, so the search tries them. */
static void find_factors(cpu_requantize_term terms[2], const cpu_requantize_lines *lines) {
  enum { NEAR = 3 };
  static const int steps[NEAR] = {0, 1, -1};
  const double divisor = (double)lines->divisor;
  double added = 0;
  float factor[2];
  for (int t = 0; t < 2; t++) {
    added -= (double)terms[t].zero * (double)terms[t].scale / divisor;
    factor[t] = (float)((double)terms[t].scale / divisor);
  }
  for (int i = 0; i < NEAR * NEAR * NEAR; i++) {
    terms[0].factor = step_from(factor[0], steps[i / NEAR % NEAR]);
    terms[1].factor = step_from(factor[1], steps[i / NEAR / NEAR]);
    terms[1].added = added == 0 ? 0 : step_from((float)added, 4 * steps[i % NEAR]);
    if (terms[0].factor != 0 && factors_suit(terms, lines)) return;
  }
  terms[0].factor = 0;
}
#else
static void find_factors(cpu_requantize_term terms[2], const cpu_requantize_lines *lines) {
  (void)terms, (void)lines;
}
#endif

const cpu_requantize_table CPU_SYMBOL(cpu_requantize) = {run};
const cpu_requantize_sum_table CPU_SYMBOL(cpu_requantize_sum) = {run_sum, run_product,
                                                                 find_factors};
