/* The loops of the row operations for one element type: a template, included by isa/row.c with
 *
 *   ELEMENT   the type; ARITHMETIC and MASK as in reduce_kernels.h
 *   NAME(x)   x with the type's suffix
 *   EXP(x)    EXP_SCALE · exp(x) for x that is 0, negative or NaN, without branches
 *
 * "Single" loops run along one row, "wide" ones across neighbouring rows, in strips as wide as the
 * lanes. Sums run over blocks of a few thousand elements in ELEMENT, and over blocks in double.
 *
 * A target may be its own source, element by element: hence CPU_INDEPENDENT instead of restrict. */

#include "program/isa/pack.h"

enum { NAME(lanes) = 4 * NAME(vector), NAME(block) = 32 * NAME(lanes) };

static inline ELEMENT NAME(higher)(ELEMENT a, ELEMENT b) {
  return b > a ? b : a;
}

/* A peak of nothing but −infinity: subtracting it would make NaNs. */
static inline ELEMENT NAME(finite_peak)(ELEMENT peak) {
  return peak < LOWEST_FINITE ? 0 : peak;
}

ALWAYS_INLINE NAME(pack) NAME(pack_higher)(NAME(pack) a, NAME(pack) b) {
  const NAME(mask) take_b = (NAME(mask))(b > a);
  return (NAME(pack))(((NAME(mask))b & take_b) | ((NAME(mask))a & ~take_b));
}

/* ---- Along each row ------------------------------------------------------------------------ */

ALWAYS_INLINE ELEMENT NAME(maximum_line)(const ELEMENT *x, int64_t length) {
  ELEMENT highest = -INFINITY, part[NAME(vector)];
  NAME(pack) lane[4];
  int64_t i = 0;
  for (int k = 0; k < 4; k++) lane[k] = NAME(pack_all)(-INFINITY);
  for (; i + NAME(lanes) <= length; i += NAME(lanes))
    for (int k = 0; k < 4; k++)
      lane[k] = NAME(pack_higher)(lane[k], NAME(pack_load)(x + i + k * NAME(vector)));
  for (; i + NAME(vector) <= length; i += NAME(vector))
    lane[0] = NAME(pack_higher)(lane[0], NAME(pack_load)(x + i));
  for (; i < length; i++) highest = NAME(higher)(highest, x[i]);
  lane[0] =
      NAME(pack_higher)(NAME(pack_higher)(lane[0], lane[1]), NAME(pack_higher)(lane[2], lane[3]));
  __builtin_memcpy(part, &lane[0], sizeof part);
  for (int half = NAME(vector) / 2; half > 0; half /= 2)
    for (int j = 0; j < half; j++) part[j] = NAME(higher)(part[j], part[j + half]);
  return NAME(higher)(highest, part[0]);
}

static void NAME(single_maximum)(const cpu_row_panel *panel, double *peak) {
  const ELEMENT *x = panel->source;
  for (int64_t w = 0; w < panel->width; w++)
    peak[w] = (double)NAME(maximum_line)(x + w * panel->source_step, panel->length);
}

/* `count` exponentials, a multiple of the vector and best a constant. */
ALWAYS_INLINE void NAME(exponentials_run)(const ELEMENT *x, ELEMENT *y, int64_t count,
                                          ELEMENT shift) {
  CPU_INDEPENDENT
  for (int64_t j = 0; j < count; j++) y[j] = EXP(x[j] - shift);
}

ALWAYS_INLINE double NAME(exponentials_line)(const ELEMENT *x, ELEMENT *y, int64_t length,
                                             ELEMENT shift, int store) {
  double total = 0;
  for (int64_t start = 0; start < length; start += NAME(block)) {
    const int64_t end = length - start < NAME(block) ? length : start + NAME(block);
    NAME(pack) lane[4];
    ELEMENT room[NAME(lanes)];
    int64_t i = start;
    for (int k = 0; k < 4; k++) lane[k] = NAME(pack_all)(0);
    for (; i + NAME(lanes) <= end; i += NAME(lanes)) {
      ELEMENT *target = store ? y + i : room;
      NAME(exponentials_run)(x + i, target, NAME(lanes), shift);
      for (int k = 0; k < 4; k++)
        lane[k] = NAME(pack_add)(lane[k], NAME(pack_load)(target + k * NAME(vector)));
    }
    if (i < end) {
      /* Padded, for one exponential alone costs as much as a vector of them. */
      const int64_t rest = end - i,
                    padded = (rest + NAME(vector) - 1) / NAME(vector) * NAME(vector);
      ELEMENT pad[NAME(lanes)];
      for (int64_t j = rest / NAME(vector) * NAME(vector); j < padded; j++) pad[j] = -INFINITY;
      for (int64_t j = 0; j < rest; j++) pad[j] = x[i + j];
      NAME(exponentials_run)(pad, pad, padded, shift);
      for (int64_t j = 0; j < padded; j += NAME(vector))
        lane[0] = NAME(pack_add)(lane[0], NAME(pack_load)(pad + j));
      for (int64_t j = 0; j < rest && store; j++) y[i + j] = pad[j];
    }
    total += (double)NAME(pack_sum)(
        NAME(pack_add)(NAME(pack_add)(lane[0], lane[1]), NAME(pack_add)(lane[2], lane[3])));
  }
  return total / EXP_SCALE;
}

static void NAME(single_exponentials)(const cpu_row_panel *panel, const double *peak,
                                      double *total) {
  const ELEMENT *x = panel->source;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step) {
    const ELEMENT shift = NAME(finite_peak)((ELEMENT)peak[w]);
    if (y)
      total[w] = NAME(exponentials_line)(x, y + w * panel->target_step, panel->length, shift, 1);
    else
      total[w] = NAME(exponentials_line)(x, NULL, panel->length, shift, 0);
  }
}

/* Whether little cancels in squares − sum²/count: the mean is closer to the shift than the standard
 * deviation. False for NaN. */
ALWAYS_INLINE int NAME(shift_is_near)(double sum, double squares, double count) {
  return 2 * sum * sum <= squares * count;
}

/* The sum of x − shift, and that of its squares. */
ALWAYS_INLINE void NAME(deviations)(const ELEMENT *x, int64_t length, ELEMENT shift, double *sum,
                                    double *square_sum) {
  const NAME(pack) middle = NAME(pack_all)(shift);
  double total = 0, square_total = 0;
  for (int64_t start = 0; start < length; start += NAME(block)) {
    const int64_t end = length - start < NAME(block) ? length : start + NAME(block);
    NAME(pack) lane[4], square[4];
    int64_t i = start;
    for (int k = 0; k < 4; k++) lane[k] = square[k] = NAME(pack_all)(0);
    for (; i + NAME(lanes) <= end; i += NAME(lanes))
      for (int k = 0; k < 4; k++) {
        const NAME(pack) d = NAME(pack_load)(x + i + k * NAME(vector)) - middle;
        lane[k] += d;
        square[k] += d * d;
      }
    for (; i + NAME(vector) <= end; i += NAME(vector)) {
      const NAME(pack) d = NAME(pack_load)(x + i) - middle;
      lane[0] += d;
      square[0] += d * d;
    }
    for (; i < end; i++) {
      const double d = (double)(x[i] - shift);
      total += d;
      square_total += d * d;
    }
    total += (double)NAME(pack_sum)((lane[0] + lane[1]) + (lane[2] + lane[3]));
    square_total += (double)NAME(pack_sum)((square[0] + square[1]) + (square[2] + square[3]));
  }
  *sum = total;
  *square_sum = square_total;
}

/* One pass if a shift near the mean can be had from the first elements, else two. The sums are
 * corrected for the distance between the shift and the mean: the method of shifted data in Chan,
 * Golub & LeVeque, "Algorithms for computing the sample variance", 1983. */
static void NAME(single_moments)(const cpu_row_panel *panel, double *mean, double *spread) {
  const int64_t length = panel->length, few = length < 16 ? length : 16;
  const double count = (double)length;
  const ELEMENT *x = panel->source;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step) {
    double sum, squares, start = 0;
    for (int64_t i = 0; i < few; i++) start += (double)x[i];
    ELEMENT shift = (ELEMENT)(start / (double)few);
    NAME(deviations)(x, length, shift, &sum, &squares);
    if (!NAME(shift_is_near)(sum, squares, count)) {
      shift = (ELEMENT)((double)shift + sum / count);
      NAME(deviations)(x, length, shift, &sum, &squares);
    }
    mean[w] = (double)shift + sum / count;
    spread[w] = squares - sum * sum / count;
  }
}

static void NAME(single_scale)(const cpu_row_panel *panel, const double *shift,
                               const double *factor, const double *offset) {
  const ELEMENT *x = panel->source;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step) {
    const ELEMENT s = (ELEMENT)shift[w], f = (ELEMENT)factor[w], o = (ELEMENT)offset[w];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < panel->length; i++) y[i] = (x[i] - s) * f + o;
  }
}

static void NAME(single_subtract)(const cpu_row_panel *panel, const double *first,
                                  const double *second) {
  const ELEMENT *x = panel->source;
  ELEMENT *y = panel->target;
  for (int64_t w = 0; w < panel->width; w++, x += panel->source_step, y += panel->target_step) {
    const ELEMENT a = (ELEMENT)first[w], b = (ELEMENT)second[w];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < panel->length; i++) y[i] = x[i] - a - b;
  }
}

/* ---- Across rows --------------------------------------------------------------------------- */

/* Calls body(first row, rows) for strips of a panel, with a constant number of rows where it can.
 */
#define FOR_STRIPS(panel, body, ...)                                                               \
  for (int64_t w = 0; w < (panel)->width; w += NAME(lanes)) {                                      \
    if ((panel)->width - w >= NAME(lanes))                                                         \
      body((panel), w, NAME(lanes), __VA_ARGS__);                                                  \
    else                                                                                           \
      body((panel), w, (panel)->width - w, __VA_ARGS__);                                           \
  }

ALWAYS_INLINE void NAME(strip_maximum)(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                       double *peak) {
  ELEMENT lane[NAME(lanes)];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  for (int64_t j = 0; j < rows; j++) lane[j] = -INFINITY;
  for (int64_t p = 0; p < panel->length; p++, x += panel->source_step)
    for (int64_t j = 0; j < rows; j++) lane[j] = NAME(higher)(lane[j], x[j]);
  for (int64_t j = 0; j < rows; j++) peak[w + j] = (double)lane[j];
}

static void NAME(wide_maximum)(const cpu_row_panel *panel,
                               double *peak){FOR_STRIPS(panel, NAME(strip_maximum), peak)}

ALWAYS_INLINE void NAME(strip_exponentials)(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                            const double *peak, double *total, int store) {
  ELEMENT shift[NAME(lanes)], lane[NAME(lanes)];
  double sum[NAME(lanes)];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT *y = store ? (ELEMENT *)panel->target + w : NULL;
  for (int64_t j = 0; j < rows; j++) {
    shift[j] = NAME(finite_peak)((ELEMENT)peak[w + j]);
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

static void NAME(wide_exponentials)(const cpu_row_panel *panel, const double *peak, double *total) {
  if (panel->target) {
    FOR_STRIPS(panel, NAME(strip_exponentials), peak, total, 1)
  } else {
    FOR_STRIPS(panel, NAME(strip_exponentials), peak, total, 0)
  }
}

/* deviations() of all rows of a strip. */
ALWAYS_INLINE void NAME(strip_deviations)(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                          const ELEMENT *shift, double *sum, double *squares) {
  ELEMENT lane[NAME(lanes)], square[NAME(lanes)];
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
ALWAYS_INLINE void NAME(strip_moments)(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                       double *mean, double *spread) {
  const int64_t few = panel->length < 16 ? panel->length : 16;
  const double count = (double)panel->length;
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT shift[NAME(lanes)];
  double sum[NAME(lanes)], squares[NAME(lanes)];
  int near = 1;
  for (int64_t j = 0; j < rows; j++) sum[j] = 0;
  for (int64_t p = 0; p < few; p++)
    for (int64_t j = 0; j < rows; j++) sum[j] += (double)x[p * panel->source_step + j];
  for (int64_t j = 0; j < rows; j++) shift[j] = (ELEMENT)(sum[j] / (double)few);
  NAME(strip_deviations)(panel, w, rows, shift, sum, squares);
  for (int64_t j = 0; j < rows; j++) near &= NAME(shift_is_near)(sum[j], squares[j], count);
  if (!near) {
    for (int64_t j = 0; j < rows; j++) shift[j] = (ELEMENT)((double)shift[j] + sum[j] / count);
    NAME(strip_deviations)(panel, w, rows, shift, sum, squares);
  }
  for (int64_t j = 0; j < rows; j++) {
    mean[w + j] = (double)shift[j] + sum[j] / count;
    spread[w + j] = squares[j] - sum[j] * sum[j] / count;
  }
}

static void NAME(wide_moments)(const cpu_row_panel *panel, double *mean,
                               double *spread){FOR_STRIPS(panel, NAME(strip_moments), mean, spread)}

ALWAYS_INLINE
    void NAME(strip_scale)(const cpu_row_panel *panel, int64_t w, int64_t rows, const double *shift,
                           const double *factor, const double *offset) {
  ELEMENT s[NAME(lanes)], f[NAME(lanes)], o[NAME(lanes)];
  const ELEMENT *x = (const ELEMENT *)panel->source + w;
  ELEMENT *y = (ELEMENT *)panel->target + w;
  for (int64_t j = 0; j < rows; j++) {
    s[j] = (ELEMENT)shift[w + j];
    f[j] = (ELEMENT)factor[w + j];
    o[j] = (ELEMENT)offset[w + j];
  }
  for (int64_t p = 0; p < panel->length; p++, x += panel->source_step, y += panel->target_step) {
    CPU_INDEPENDENT
    for (int64_t j = 0; j < rows; j++) y[j] = (x[j] - s[j]) * f[j] + o[j];
  }
}

static void NAME(wide_scale)(const cpu_row_panel *panel, const double *shift, const double *factor,
                             const double *offset){
    FOR_STRIPS(panel, NAME(strip_scale), shift, factor, offset)}

ALWAYS_INLINE void NAME(strip_subtract)(const cpu_row_panel *panel, int64_t w, int64_t rows,
                                        const double *first, const double *second) {
  ELEMENT a[NAME(lanes)], b[NAME(lanes)];
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

static void NAME(wide_subtract)(const cpu_row_panel *panel, const double *first,
                                const double *second) {
  FOR_STRIPS(panel, NAME(strip_subtract), first, second)
}

#undef FOR_STRIPS
