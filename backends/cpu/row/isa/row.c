/* SPDX-License-Identifier: MIT */
/* Loops for ROW (softmax, log-softmax, normalize), once per instruction set (core/isa.h) and
 * element type; row_table.h defines each loop.
 *
 * "Single" loops run along one row, "wide" ones across neighbouring rows, in strips of a fixed
 * width. Sums use ELEMENT within blocks of a few thousand elements, and double across blocks.
 *
 * A target may be its source, element by element: hence CPU_INDEPENDENT instead of restrict. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "program/isa/element.h"
#include "program/isa/limits.h"
#include "program/isa/math_f32.h"
#include "program/isa/math_f64.h"
#include "row_table.h"

#if defined(CPU_VARIANT_F32)
#include "program/isa/math_pack.h"
#else
#include "program/isa/math_pack_f64.h"
#endif

/* EXP(x): EXP_SCALE · exp(x) for x that is 0, negative or NaN, without branches. EXP_PACK(p): the
 * same for each element of a pack. HIGHER(a, b): the elementwise maximum of two packs; a if b is
 * NaN. */
#if defined(CPU_VARIANT_F32)
/* Softmax divides by the sum anyway, so its exponentials may be too large by a constant factor,
 * which avoids subnormal results. exp(−110) divided by the sum becomes 0. */
CPU_INLINE float exp_scaled(float x) {
  return exp_scaled_f32(x < -110.0f ? -110.0f : x);
}
#define EXP(x)        exp_scaled(x)
#define EXP_PACK(p)   pack_exp_scaled(p)
#define EXP_SCALE     0x1p64
#define HIGHER(a, b)  CPU_AT_LEAST(b, a)
#define LOWEST_FINITE (-FLT_MAX)
#else
#define EXP(x)        exp_f64(x)
#define EXP_PACK(p)   pack_exp_f64(p)
#define EXP_SCALE     1.0
#define HIGHER(a, b)  pack_higher_f64(a, b)
#define LOWEST_FINITE (-DBL_MAX)
#endif

enum {
  lanes = 4 * pack_lanes,
  block = 32 * lanes,
  ABREAST = 2,           /* rows whose peaks and sums are computed together */
  pair = 2 * pack_lanes, /* with AVX2 one cache line, requested once */
  pack_block = 64 * pack_lanes
};

static inline ELEMENT higher(ELEMENT a, ELEMENT b) {
  return b > a ? b : a;
}

/* Replaces a peak of −infinity: subtracting it would give NaNs. */
static inline ELEMENT finite_peak(ELEMENT peak) {
  return peak < LOWEST_FINITE ? 0 : peak;
}

ALWAYS_INLINE ELEMENT pack_highest(pack p) {
  typedef MASK part_mask __attribute__((vector_size(16)));
  pack_part part[pack_parts];
  __builtin_memcpy(part, &p, sizeof p);
  for (int half = pack_parts / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) {
      const part_mask take = (part_mask)(part[j + half] > part[j]);
      part[j] = (pack_part)(((part_mask)part[j + half] & take) | ((part_mask)part[j] & ~take));
    }
  ELEMENT highest = part[0][0];
  for (int j = 1; j < part_lanes; j++) highest = higher(highest, part[0][j]);
  return highest;
}

/* The highest of all lanes, and their sum as pack_sum computes it, in every lane. */
#if defined(CPU_VARIANT_F32) && defined(__AVX512F__)
#define FOLD_LANES(p, fold)                                                                        \
  p = fold(p, _mm512_shuffle_f32x4(p, p, 0x4e));                                                   \
  p = fold(p, _mm512_shuffle_f32x4(p, p, 0xb1));                                                   \
  p = fold(p, _mm512_permute_ps(p, 0x4e));                                                         \
  return fold(p, _mm512_permute_ps(p, 0xb1))
#elif defined(CPU_VARIANT_F32) && defined(__AVX2__)
#define FOLD_LANES(p, fold)                                                                        \
  p = fold(p, _mm256_permute2f128_ps(p, p, 1));                                                    \
  p = fold(p, _mm256_permute_ps(p, 0x4e));                                                         \
  return fold(p, _mm256_permute_ps(p, 0xb1))
#endif

#if defined(FOLD_LANES)
ALWAYS_INLINE pack highest_everywhere(pack p) {
  FOLD_LANES(p, HIGHER);
}
ALWAYS_INLINE pack sum_everywhere(pack p) {
  FOLD_LANES(p, pack_add);
}
#else
ALWAYS_INLINE pack highest_everywhere(pack p) {
  return pack_all(pack_highest(p));
}
ALWAYS_INLINE pack sum_everywhere(pack p) {
  return pack_all(pack_sum(p));
}
#endif

/* ---- Along each row ------------------------------------------------------------------------ */

/* Prefetches `count` elements of the next panel; addresses outside the array are not prefetched. */
ALWAYS_INLINE void fetch_ahead(const ELEMENT *x, int64_t ahead, int count) {
  const uintptr_t first = (uintptr_t)x + (uintptr_t)ahead * sizeof(ELEMENT);
  for (uintptr_t byte = 0; byte < (uintptr_t)count * sizeof(ELEMENT); byte += 64)
    __builtin_prefetch((const void *)(first + byte));
}

/* The highest element, in every lane. */
ALWAYS_INLINE pack line_peak(const ELEMENT *x, int64_t length) {
  pack lane[4];
  int64_t i = 0;
  for (int k = 0; k < 4; k++) lane[k] = pack_all(-INFINITY);
  for (; i + lanes <= length; i += lanes)
    for (int k = 0; k < 4; k++) lane[k] = HIGHER(lane[k], pack_load(x + i + k * pack_lanes));
  for (; i + pack_lanes <= length; i += pack_lanes) lane[0] = HIGHER(lane[0], pack_load(x + i));
  if (i < length) lane[1] = HIGHER(lane[1], pack_load_few(x + i, length - i));
  return highest_everywhere(HIGHER(HIGHER(lane[0], lane[1]), HIGHER(lane[2], lane[3])));
}

static void single_maximum(const cpu_row_panel *panel, double *peak) {
  const ELEMENT *x = panel->source;
  for (int64_t w = 0; w < panel->width; w++)
    peak[w] = (double)line_peak(x + w * panel->source_step, panel->length)[0];
}

/* y = the exponentials of up to pack_block elements. Returns a pack of partial sums: element l sums
 * every pack_lanes-th exponential from l on. */
ALWAYS_INLINE pack exponentials_block(const ELEMENT *x, ELEMENT *y, int64_t count, pack shift,
                                      int64_t ahead, int store) {
  pack lane = pack_all(0);
  int64_t i = 0;
  for (; i + pair <= count; i += pair) {
    fetch_ahead(x + i, ahead, pair);
    const pack e0 = EXP_PACK(pack_load(x + i) - shift);
    const pack e1 = EXP_PACK(pack_load(x + i + pack_lanes) - shift);
    if (store) {
      pack_store(y + i, e0);
      pack_store(y + i + pack_lanes, e1);
    }
    lane = lane + e0 + e1;
  }
  for (; i < count; i += pack_lanes) {
    const int64_t few = count - i;
    const int whole = few >= pack_lanes;
    const pack e = EXP_PACK((whole ? pack_load(x + i) : pack_load_few(x + i, few)) - shift);
    if (store && whole) pack_store(y + i, e);
    if (store && !whole) pack_store_few(y + i, e, few);
    lane += e;
  }
  return lane;
}

ALWAYS_INLINE double exponentials_line(const ELEMENT *x, ELEMENT *y, int64_t length, ELEMENT shift,
                                       int64_t ahead, int store) {
  const pack shifts = pack_all(shift);
  double total = 0;
  for (int64_t start = 0; start < length; start += pack_block) {
    const int64_t count = length - start < pack_block ? length - start : pack_block;
    total += (double)pack_sum(
        exponentials_block(x + start, store ? y + start : y, count, shifts, ahead, store));
  }
  return total / EXP_SCALE;
}

static void single_exponentials(const cpu_row_panel *panel, const double *peak, double *total) {
  const ELEMENT *x = panel->source;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step) {
    const ELEMENT shift = finite_peak((ELEMENT)peak[w]);
    if (y)
      total[w] =
          exponentials_line(x, y + w * panel->target_step, panel->length, shift, panel->ahead, 1);
    else
      total[w] = exponentials_line(x, NULL, panel->length, shift, panel->ahead, 0);
  }
}

/* `true` if squares − sum²/count loses little by cancellation: the mean is closer to the shift than
 * the standard deviation. False for NaN. */
ALWAYS_INLINE int shift_is_near(double sum, double squares, double count) {
  return 2 * sum * sum <= squares * count;
}

/* Squares of f32 beyond 1.8e19 are infinite, and below 1e-19 they lose digits. If a sum of squares
 * shows that, the row is measured again in double. */
#if defined(CPU_VARIANT_F32)
ALWAYS_INLINE bool squares_are_good(double squares, double count, bool tiny) {
  return squares <= DBL_MAX && (!tiny || squares >= count * 0x1p-100);
}

__attribute__((noinline)) static void
wide_range_moments(const float *x, int64_t step, int64_t length, double *mean, double *spread) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < length; i++) sum += (double)x[i * step];
  const double middle = sum / (double)length;
  for (int64_t i = 0; i < length; i++) {
    const double d = (double)x[i * step] - middle;
    squares += d * d;
  }
  *mean = middle;
  *spread = squares;
}

/* Such rows may also need a factor that is not a normal f32, or differences beyond f32. */
ALWAYS_INLINE bool factor_is_good(double factor) {
  return !(factor < 0x1p-120) && !(factor > 0x1p120);
}

ALWAYS_INLINE float scale_element(float x, double shift, double factor, double offset) {
  return (float)(((double)x - shift) * factor + offset);
}
#else
#define squares_are_good(squares, count, tiny)            ((void)(squares), true)
#define wide_range_moments(x, step, length, mean, spread) ((void)0)
#define factor_is_good(factor)                            true
#define scale_element(x, shift, factor, offset)           (((x) - (shift)) * (factor) + (offset))
#endif

/* The sums of x − shift and of its squares. */
ALWAYS_INLINE void deviations(const ELEMENT *x, int64_t length, ELEMENT shift, double *sum,
                              double *square_sum) {
  const pack middle = pack_all(shift);
  double total = 0, square_total = 0;
  for (int64_t start = 0; start < length; start += block) {
    const int64_t end = length - start < block ? length : start + block;
    pack lane[4], square[4];
    int64_t i = start;
    for (int k = 0; k < 4; k++) lane[k] = square[k] = pack_all(0);
    for (; i + lanes <= end; i += lanes)
      for (int k = 0; k < 4; k++) {
        const pack d = pack_load(x + i + k * pack_lanes) - middle;
        lane[k] += d;
        square[k] += d * d;
      }
    for (; i + pack_lanes <= end; i += pack_lanes) {
      const pack d = pack_load(x + i) - middle;
      lane[0] += d;
      square[0] += d * d;
    }
    for (; i < end; i++) {
      const double d = (double)(x[i] - shift);
      total += d;
      square_total += d * d;
    }
    total += (double)pack_sum((lane[0] + lane[1]) + (lane[2] + lane[3]));
    square_total += (double)pack_sum((square[0] + square[1]) + (square[2] + square[3]));
  }
  *sum = total;
  *square_sum = square_total;
}

/* One pass if the first elements give a shift near the mean, otherwise two. The sums are corrected
 * for the distance between the shift and the mean: the method of shifted data in Chan, Golub &
 * LeVeque, "Algorithms for computing the sample variance", 1983. */
static void single_moments(const cpu_row_panel *panel, double *mean, double *spread) {
  const int64_t length = panel->length, few = length < 16 ? length : 16;
  const double count = (double)length;
  const ELEMENT *x = panel->source;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step) {
    double sum, squares, start[4] = {0}; /* four independent additions */
    for (int64_t i = 0; i < few; i++) start[i & 3] += (double)x[i];
    ELEMENT shift = (ELEMENT)(((start[0] + start[1]) + (start[2] + start[3])) / (double)few);
    deviations(x, length, shift, &sum, &squares);
    if (!shift_is_near(sum, squares, count)) {
      shift = (ELEMENT)((double)shift + sum / count);
      deviations(x, length, shift, &sum, &squares);
    }
    mean[w] = (double)shift + sum / count;
    spread[w] = squares - sum * sum / count;
    if (!squares_are_good(squares, count, panel->tiny))
      wide_range_moments(x, 1, length, &mean[w], &spread[w]);
  }
}

static void single_scale(const cpu_row_panel *panel, const double *shift, const double *factor,
                         const double *offset) {
  const ELEMENT *x = panel->source;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step) {
    const ELEMENT s = (ELEMENT)shift[w], f = (ELEMENT)factor[w], o = (ELEMENT)offset[w];
    int64_t i = 0;
    for (; i < panel->length && !factor_is_good(factor[w]); i++)
      y[i] = scale_element(x[i], shift[w], factor[w], offset[w]);
    for (; i + lanes <= panel->length; i += lanes) {
      fetch_ahead(x + i, panel->ahead, lanes);
      CPU_INDEPENDENT
      for (int64_t j = i; j < i + lanes; j++) y[j] = (x[j] - s) * f + o;
    }
    CPU_INDEPENDENT
    for (; i < panel->length; i++) y[i] = (x[i] - s) * f + o;
  }
}

static void single_affine(const cpu_row_panel *panel, const double *shift, const double *factor,
                          const double *offset, const void *gain, const void *bias) {
  const ELEMENT *x = panel->source, *g = gain, *b = bias;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step) {
    const ELEMENT s = (ELEMENT)shift[w], f = (ELEMENT)factor[w], o = (ELEMENT)offset[w];
    int64_t i = 0;
    for (; i < panel->length && !factor_is_good(factor[w]); i++)
      y[i] = scale_element(x[i], shift[w], factor[w], offset[w]) * g[i] + b[i];
    for (; i + lanes <= panel->length; i += lanes) {
      fetch_ahead(x + i, panel->ahead, lanes);
      CPU_INDEPENDENT
      for (int64_t j = i; j < i + lanes; j++) y[j] = ((x[j] - s) * f + o) * g[j] + b[j];
    }
    CPU_INDEPENDENT
    for (; i < panel->length; i++) y[i] = ((x[i] - s) * f + o) * g[i] + b[i];
  }
}

#if defined(CPU_VARIANT_F32)
static void single_affine_bf16(const cpu_row_panel *panel, const double *shift,
                               const double *factor, const double *offset, const void *gain,
                               const void *bias) {
  const float *x = panel->source;
  const uint16_t *g = gain, *b = bias;
  uint16_t *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step) {
    const float s = (float)shift[w], f = (float)factor[w], o = (float)offset[w];
    if (!factor_is_good(factor[w])) {
      for (int64_t i = 0; i < panel->length; i++)
        y[i] = convert_f32_to_bf16(scale_element(x[i], shift[w], factor[w], offset[w]) *
                                       convert_bf16_to_f32(g[i]) +
                                   convert_bf16_to_f32(b[i]));
      continue;
    }
    CPU_INDEPENDENT
    for (int64_t i = 0; i < panel->length; i++)
      y[i] = convert_f32_to_bf16(((x[i] - s) * f + o) * convert_bf16_to_f32(g[i]) +
                                 convert_bf16_to_f32(b[i]));
  }
}
#else
#define single_affine_bf16 NULL
#endif

static void single_subtract(const cpu_row_panel *panel, const double *first, const double *second) {
  const ELEMENT *x = panel->source;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step) {
    const ELEMENT a = (ELEMENT)first[w], b = (ELEMENT)second[w];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < panel->length; i++) y[i] = x[i] - a - b;
  }
}

/* ---- Softmax of whole rows ------------------------------------------------------------------- */

/* y = exponentials; returns 1 / their sum, in every lane. */
ALWAYS_INLINE pack line_factor(const ELEMENT *x, ELEMENT *y, int64_t length, pack peak,
                               int64_t ahead) {
  if (length <= pack_block)
    return 1 / sum_everywhere(exponentials_block(x, y, length, peak, ahead, 1));
  return pack_all((ELEMENT)(1 / (exponentials_line(x, y, length, peak[0], ahead, 1) * EXP_SCALE)));
}

ALWAYS_INLINE void scale_line(ELEMENT *y, int64_t length, pack factor) {
  int64_t i = 0;
  for (; i + pair <= length; i += pair) {
    const pack y0 = pack_load(y + i) * factor, y1 = pack_load(y + i + pack_lanes) * factor;
    pack_store(y + i, y0);
    pack_store(y + i + pack_lanes, y1);
  }
  for (; i + pack_lanes <= length; i += pack_lanes) pack_store(y + i, pack_load(y + i) * factor);
  if (i < length) pack_store_few(y + i, pack_load_few(y + i, length - i) * factor, length - i);
}

/* Computes the peaks of a few rows together, then their sums: with a single row, the processor
 * would wait for each result. Infinite peaks need no special case: ∞ − ∞ puts a NaN into the sum,
 * which makes the whole row NaN. */
ALWAYS_INLINE void softmax_rows(const cpu_row_panel *panel, int64_t first, int rows) {
  const ELEMENT *x = (const ELEMENT *)panel->source + first * panel->source_step;
  ELEMENT *y = (ELEMENT *)panel->target + first * panel->target_step;
  const int64_t length = panel->length;
  pack peak[ABREAST], factor[ABREAST];
  for (int r = 0; r < rows; r++) peak[r] = line_peak(x + r * panel->source_step, length);
  for (int r = 0; r < rows; r++)
    factor[r] = line_factor(x + r * panel->source_step, y + r * panel->target_step, length, peak[r],
                            rows * panel->source_step);
  for (int r = 0; r < rows; r++) scale_line(y + r * panel->target_step, length, factor[r]);
}

#if defined(CPU_VARIANT_F32) && defined(__AVX512F__)
enum { REGISTERS = 8 }; /* packs of a row that stay in registers from elements to results */

ALWAYS_INLINE void softmax_row(const float *x, float *y, int packs, __mmask16 last) {
  pack v[REGISTERS], fold[REGISTERS];
  for (int k = 0; k < packs - 1; k++) fold[k] = v[k] = pack_load(x + k * pack_lanes);
  fold[packs - 1] = v[packs - 1] =
      _mm512_mask_loadu_ps(pack_all(-INFINITY), last, x + (packs - 1) * pack_lanes);
  for (int half = REGISTERS / 2; half > 0; half /= 2)
    for (int k = 0; k < half && k + half < packs; k++) fold[k] = HIGHER(fold[k], fold[k + half]);
  const pack peak = highest_everywhere(fold[0]);
  for (int k = 0; k < packs; k++) fold[k] = v[k] = pack_exp_scaled(v[k] - peak);
  for (int half = REGISTERS / 2; half > 0; half /= 2)
    for (int k = 0; k < half && k + half < packs; k++) fold[k] += fold[k + half];
  const pack factor = 1 / sum_everywhere(fold[0]);
  for (int k = 0; k < packs - 1; k++) pack_store(y + k * pack_lanes, v[k] * factor);
  _mm512_mask_storeu_ps(y + (packs - 1) * pack_lanes, last, v[packs - 1] * factor);
}

#define CASE_PACKS(packs)                                                                          \
  case packs:                                                                                      \
    for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step)   \
      softmax_row(x, y, packs, last);                                                              \
    return true

static bool softmax_short_rows(const cpu_row_panel *panel) {
  const float *x = panel->source;
  float *y = panel->target;
  const int64_t packs = (panel->length + pack_lanes - 1) / pack_lanes;
  const __mmask16 last = (__mmask16)(0xffff >> (packs * pack_lanes - panel->length));
  switch (packs) {
    CASE_PACKS(1);
    CASE_PACKS(2);
    CASE_PACKS(3);
    CASE_PACKS(4);
    CASE_PACKS(5);
    CASE_PACKS(6);
    CASE_PACKS(7);
    CASE_PACKS(8);
  }
  return false;
}
#else
static bool softmax_short_rows(const cpu_row_panel *panel) {
  return (void)panel, false;
}
#endif

static void single_softmax(const cpu_row_panel *panel) {
  int64_t w = 0;
  if (softmax_short_rows(panel)) return;
  for (; w + ABREAST <= panel->width; w += ABREAST) softmax_rows(panel, w, ABREAST);
  for (; w < panel->width; w++) softmax_rows(panel, w, 1);
}

/* ---- Across rows --------------------------------------------------------------------------- */

/* Calls body(first row, rows) for strips of a panel, with a constant number of rows if possible. */
#define FOR_STRIPS(panel, body, ...)                                                               \
  for (int64_t w = 0; w < (panel)->width; w += lanes) {                                            \
    if ((panel)->width - w >= lanes)                                                               \
      body((panel), w, lanes, __VA_ARGS__);                                                        \
    else                                                                                           \
      body((panel), w, (panel)->width - w, __VA_ARGS__);                                           \
  }

ALWAYS_INLINE void strip_maximum(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                 double *peak) {
  ELEMENT lane[lanes];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  for (int64_t j = 0; j < rows; j++) lane[j] = -INFINITY;
  for (int64_t p = 0; p < panel->length; p++, x += panel->source_step)
    for (int64_t j = 0; j < rows; j++) lane[j] = higher(lane[j], x[j]);
  for (int64_t j = 0; j < rows; j++) peak[w + j] = (double)lane[j];
}

static void wide_maximum(const cpu_row_panel *panel,
                         double *peak){FOR_STRIPS(panel, strip_maximum, peak)}

ALWAYS_INLINE void strip_exponentials(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                      const double *peak, double *total, int store) {
  ELEMENT shift[lanes], lane[lanes];
  double sum[lanes];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT *y = store ? (ELEMENT *)panel->target + w : NULL;
  for (int64_t j = 0; j < rows; j++) {
    shift[j] = finite_peak((ELEMENT)peak[w + j]);
    sum[j] = 0;
  }
  for (int64_t start = 0; start < panel->length; start += 64) {
    const int64_t end = panel->length - start < 64 ? panel->length : start + 64;
    for (int64_t j = 0; j < rows; j++) lane[j] = 0;
    for (int64_t p = start; p < end; p++) {
      CPU_INDEPENDENT
      for (int64_t j = 0; j < rows; j++) {
        const ELEMENT e = EXP(x[p * panel->source_step + j] - shift[j]);
        if (store) y[p * panel->target_step + j] = e;
        lane[j] += e;
      }
    }
    for (int64_t j = 0; j < rows; j++) sum[j] += (double)lane[j];
  }
  for (int64_t j = 0; j < rows; j++) total[w + j] = sum[j] / EXP_SCALE;
}

static void wide_exponentials(const cpu_row_panel *panel, const double *peak, double *total) {
  if (panel->target) {
    FOR_STRIPS(panel, strip_exponentials, peak, total, 1)
  } else {
    FOR_STRIPS(panel, strip_exponentials, peak, total, 0)
  }
}

/* deviations() for all rows of a strip. */
ALWAYS_INLINE void strip_deviations(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                    const ELEMENT *shift, double *sum, double *squares) {
  ELEMENT lane[lanes], square[lanes];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  for (int64_t j = 0; j < rows; j++) sum[j] = squares[j] = 0;
  for (int64_t start = 0; start < panel->length; start += 64) {
    const int64_t end = panel->length - start < 64 ? panel->length : start + 64;
    for (int64_t j = 0; j < rows; j++) lane[j] = square[j] = 0;
    for (int64_t p = start; p < end; p++)
      for (int64_t j = 0; j < rows; j++) {
        const ELEMENT d = x[p * panel->source_step + j] - shift[j];
        lane[j] += d;
        square[j] += d * d;
      }
    for (int64_t j = 0; j < rows; j++) {
      sum[j] += (double)lane[j];
      squares[j] += (double)square[j];
    }
  }
}

/* As single_moments; all rows of the strip take the second pass if one of them needs it. */
ALWAYS_INLINE void strip_moments(const cpu_row_panel *panel, int64_t w, int64_t rows, double *mean,
                                 double *spread) {
  const int64_t few = panel->length < 16 ? panel->length : 16;
  const double count = (double)panel->length;
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT shift[lanes];
  double sum[lanes], squares[lanes];
  int near = 1;
  for (int64_t j = 0; j < rows; j++) sum[j] = 0;
  for (int64_t p = 0; p < few; p++)
    for (int64_t j = 0; j < rows; j++) sum[j] += (double)x[p * panel->source_step + j];
  for (int64_t j = 0; j < rows; j++) shift[j] = (ELEMENT)(sum[j] / (double)few);
  strip_deviations(panel, w, rows, shift, sum, squares);
  for (int64_t j = 0; j < rows; j++) near &= shift_is_near(sum[j], squares[j], count);
  if (!near) {
    for (int64_t j = 0; j < rows; j++) shift[j] = (ELEMENT)((double)shift[j] + sum[j] / count);
    strip_deviations(panel, w, rows, shift, sum, squares);
  }
  for (int64_t j = 0; j < rows; j++) {
    mean[w + j] = (double)shift[j] + sum[j] / count;
    spread[w + j] = squares[j] - sum[j] * sum[j] / count;
    if (!squares_are_good(squares[j], count, panel->tiny))
      wide_range_moments(x + j, panel->source_step, panel->length, &mean[w + j], &spread[w + j]);
  }
}

static void wide_moments(const cpu_row_panel *panel, double *mean,
                         double *spread){FOR_STRIPS(panel, strip_moments, mean, spread)}

ALWAYS_INLINE void strip_scale(const cpu_row_panel *panel, int64_t w, int64_t rows,
                               const double *shift, const double *factor, const double *offset) {
  ELEMENT s[lanes], f[lanes], o[lanes];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT *y = (ELEMENT *)panel->target + w;
  bool good = true;
  for (int64_t j = 0; j < rows; j++) {
    s[j] = (ELEMENT)shift[w + j];
    f[j] = (ELEMENT)factor[w + j];
    o[j] = (ELEMENT)offset[w + j];
    good &= factor_is_good(factor[w + j]);
  }
  int64_t p = 0;
  for (; p < panel->length && !good; p++, x += panel->source_step, y += panel->target_step)
    for (int64_t j = 0; j < rows; j++)
      y[j] = (ELEMENT)scale_element(x[j], shift[w + j], factor[w + j], offset[w + j]);
  for (; p < panel->length; p++, x += panel->source_step, y += panel->target_step) {
    CPU_INDEPENDENT
    for (int64_t j = 0; j < rows; j++) y[j] = (x[j] - s[j]) * f[j] + o[j];
  }
}

static void wide_scale(const cpu_row_panel *panel, const double *shift, const double *factor,
                       const double *offset){FOR_STRIPS(panel, strip_scale, shift, factor, offset)}

ALWAYS_INLINE void strip_subtract(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                  const double *first, const double *second) {
  ELEMENT a[lanes], b[lanes];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT *y = (ELEMENT *)panel->target + w;
  for (int64_t j = 0; j < rows; j++) {
    a[j] = (ELEMENT)first[w + j];
    b[j] = (ELEMENT)second[w + j];
  }
  for (int64_t p = 0; p < panel->length; p++, x += panel->source_step, y += panel->target_step) {
    CPU_INDEPENDENT
    for (int64_t j = 0; j < rows; j++) y[j] = x[j] - a[j] - b[j];
  }
}

static void wide_subtract(const cpu_row_panel *panel, const double *first, const double *second) {
  FOR_STRIPS(panel, strip_subtract, first, second)
}

const cpu_row_loops CPU_VARIANT_SYMBOL(cpu_row) = {
    .single = {single_maximum, single_exponentials, single_moments, single_scale, single_affine,
               single_affine_bf16, single_subtract, single_softmax},
    .wide = {wide_maximum, wide_exponentials, wide_moments, wide_scale, NULL, NULL, wide_subtract,
             NULL},
    .exponential_scale = EXP_SCALE};
