/* SPDX-License-Identifier: MIT */
/* Folds the windows of rows of a plane: over the rows of each window into lines with padding, then
 * along these lines. Included by window.c.
 *
 * The last vector of a line overlaps the one before it, so nothing is read or written past a line.
 * Lines of few vectors are folded four at a time: one chain of combinations would wait for each
 * result. */

typedef enum fold_kind {
  FOLD_SUM,
  FOLD_MAXIMUM, /* NaN counts as the maximum */
  FOLD_NUMBERS  /* the maximum of elements without NaN */
} fold_kind;

/* `lines` lines of `count` results. Each folds from[t · apart], or from[offset[t]] if the taps are
 * scattered. If `rows` is not NULL, it is divided by the rows and the columns of its window. */
typedef struct window_lines_fold {
  ELEMENT *to;
  const ELEMENT *from;
  int64_t to_pitch, from_pitch, lines, count;
  int64_t taps, apart;
  const int64_t *offset;
  const cpu_window_row *rows;
  int64_t row_step;
  const ELEMENT *divisors;
} window_lines_fold;

typedef MASK fold_part_mask __attribute__((vector_size(16)));

#define VECTOR       pack
#define MASK_VECTOR  pack_mask
#define VECTOR_LANES pack_lanes
#define NAME(x)      pack_##x##_windows
#include "window_fold_vector.h"
#undef VECTOR
#undef MASK_VECTOR
#undef VECTOR_LANES
#undef NAME

#define VECTOR       pack_part
#define MASK_VECTOR  fold_part_mask
#define VECTOR_LANES part_lanes
#define NAME(x)      part_##x##_windows
#include "window_fold_vector.h"

CPU_INLINE ELEMENT fold_elements(fold_kind kind, ELEMENT a, ELEMENT b) {
  return kind == FOLD_NUMBERS ? (a > b ? a : b) : combine(kind == FOLD_MAXIMUM, a, b);
}

/* Folds `lines` lines, element by element. */
CPU_INLINE void fold_line_elements(fold_kind kind, bool scattered, const window_lines_fold *f,
                                   int64_t line, int lines) {
  for (int64_t i = 0; i < f->count; i++) {
    const ELEMENT *from = f->from + line * f->from_pitch + i;
    ELEMENT folded[4];
    for (int l = 0; l < lines; l++) folded[l] = from[l * f->from_pitch];
    for (int64_t t = 1; t < f->taps; t++) {
      const ELEMENT *tap = from + (scattered ? f->offset[t] : t * f->apart);
      for (int l = 0; l < lines; l++)
        folded[l] = fold_elements(kind, folded[l], tap[l * f->from_pitch]);
    }
    for (int l = 0; l < lines; l++) {
#if IS_FLOAT
      if (f->rows) folded[l] /= (ELEMENT)f->rows[(line + l) * f->row_step].count * f->divisors[i];
#endif
      f->to[(line + l) * f->to_pitch + i] = folded[l];
    }
  }
}

CPU_INLINE void fold_lines_as(fold_kind kind, bool scattered, const window_lines_fold *f) {
  int64_t line = 0;
  if (f->count >= 4 * pack_lanes) {
    for (; line < f->lines; line++) pack_lines_windows(kind, scattered, f, line, 1);
  } else if (f->count >= pack_lanes) {
    for (; line + 4 <= f->lines; line += 4) pack_lines_windows(kind, scattered, f, line, 4);
    for (; line < f->lines; line++) pack_lines_windows(kind, scattered, f, line, 1);
  } else if (f->count >= part_lanes) {
    for (; line + 4 <= f->lines; line += 4) part_lines_windows(kind, scattered, f, line, 4);
    for (; line < f->lines; line++) part_lines_windows(kind, scattered, f, line, 1);
  } else {
    for (; line + 4 <= f->lines; line += 4) fold_line_elements(kind, scattered, f, line, 4);
    for (; line < f->lines; line++) fold_line_elements(kind, scattered, f, line, 1);
  }
}

/* One function for each kind and form of the taps: their loops are long once inlined. */
typedef void (*lines_loop)(const window_lines_fold *f);

#define FOLD_LINES(name, kind)                                                                     \
  static __attribute__((noinline)) void name##_near(const window_lines_fold *f) {                  \
    fold_lines_as(kind, false, f);                                                                 \
  }                                                                                                \
  static __attribute__((noinline)) void name##_scattered(const window_lines_fold *f) {             \
    fold_lines_as(kind, true, f);                                                                  \
  }
FOLD_LINES(numbers, FOLD_NUMBERS)
#if IS_FLOAT
FOLD_LINES(sum, FOLD_SUM)
FOLD_LINES(maximum, FOLD_MAXIMUM)
#endif
#undef FOLD_LINES

static lines_loop lines_loop_of(fold_kind kind, bool scattered) {
#if IS_FLOAT
  if (kind == FOLD_SUM) return scattered ? sum_scattered : sum_near;
  if (kind == FOLD_MAXIMUM) return scattered ? maximum_scattered : maximum_near;
#endif
  (void)kind;
  return scattered ? numbers_scattered : numbers_near;
}

/* Folds rows first … first + count − 1 over the rows of their windows, into lines at `to`;
 * `divides`: into averages. Neighbouring rows with the same taps are folded together, or the same
 * row of all planes. */
static void fold_rows(fold_kind kind, const cpu_window_fold *w, int64_t first, int64_t count,
                      ELEMENT *to, int64_t to_pitch, int64_t to_plane, bool divides) {
  const bool across = w->planes > 1;
  const lines_loop loop = lines_loop_of(kind, false);
  int64_t same = 1;
  for (int64_t i = 0; i < count; i += same) {
    const cpu_window_row *row = w->rows + (first + i) * w->row_step;
    same = 1;
    while (!across && i + same < count && row[same * w->row_step].skip == row->skip &&
           row[same * w->row_step].taps == row->taps)
      same++;
    const int64_t at = w->first + (first + i) * w->row_stride + row->skip * w->row_dilation;
    const window_lines_fold f = {.to = to + i * to_pitch,
                                 .from = (const ELEMENT *)w->source + at * w->pitch,
                                 .to_pitch = across ? to_plane : to_pitch,
                                 .from_pitch = across ? w->source_plane : w->row_stride * w->pitch,
                                 .lines = across ? w->planes : same,
                                 .count = w->width,
                                 .taps = row->taps,
                                 .apart = w->row_dilation * w->pitch,
                                 .rows = divides ? row : NULL,
                                 .row_step = across ? 0 : w->row_step,
                                 .divisors = w->divisors};
    loop(&f);
  }
}

/* Deals the elements of lines out to `step` arrays, `apart` elements apart, in turn. */
static void deal(ELEMENT *restrict to, const ELEMENT *restrict line, int64_t count, int64_t step,
                 int64_t apart) {
  if (step == 2) {
    for (int64_t i = 0; i < count; i++) to[i] = line[2 * i];
    for (int64_t i = 0; i < count; i++) to[apart + i] = line[2 * i + 1];
  } else if (step == 3) {
    for (int64_t i = 0; i < count; i++) to[i] = line[3 * i];
    for (int64_t i = 0; i < count; i++) to[apart + i] = line[3 * i + 1];
    for (int64_t i = 0; i < count; i++) to[2 * apart + i] = line[3 * i + 2];
  } else {
    for (int64_t i = 0; i < count; i++)
      for (int64_t s = 0; s < step; s++) to[s * apart + i] = line[step * i + s];
  }
}

/* Folds rows first … first + count − 1, or the same rows of all planes, along the columns of their
 * windows. */
static void fold_columns(fold_kind kind, const cpu_window_fold *w, int64_t first, int64_t count,
                         const ELEMENT *line, ELEMENT *dealt) {
  const bool across = w->planes > 1;
  const int64_t step = w->offset ? w->column_stride : 1, pitch = w->line_pitch / step;
  window_lines_fold f = {.to = (ELEMENT *)w->to + first * w->to_pitch,
                         .from = w->offset ? dealt : line,
                         .to_pitch = across ? w->to_plane : w->to_pitch,
                         .from_pitch = across ? w->row_count * pitch : pitch,
                         .lines = across ? w->planes : count,
                         .count = w->columns,
                         .taps = w->taps,
                         .apart = w->tap_step,
                         .offset = w->offset,
                         .rows = w->divisors ? w->rows + first * w->row_step : NULL,
                         .row_step = across ? 0 : w->row_step,
                         .divisors = w->divisors};
  const lines_loop loop = lines_loop_of(kind, w->offset != NULL);
  if (w->offset) deal(dealt, line, w->planes * count * pitch, step, w->block * pitch);
  for (int64_t i = 0; i < (across ? count : 1); i++) {
    loop(&f);
    f.to += w->to_pitch;
    f.from += pitch;
    f.rows = f.rows ? f.rows + w->row_step : NULL;
  }
}

static void fill_padding(fold_kind kind, const cpu_window_fold *w, ELEMENT *line, int64_t lines) {
  const ELEMENT neutral = kind == FOLD_SUM ? (ELEMENT)-0.0 : LOWEST;
  const int64_t data_end = w->before + w->width;
  for (int64_t l = 0; l < lines; l++, line += w->line_pitch) {
    for (int64_t i = 0; i < w->before; i++) line[i] = neutral;
    for (int64_t i = data_end; i < w->line_pitch; i++) line[i] = neutral;
  }
}

static void fold_planes(fold_kind kind, const cpu_window_fold *w) {
  ELEMENT *line = w->room, *dealt = line + w->block * w->line_pitch;
  const int64_t lines = w->planes * w->row_count;
  const int64_t block = w->planes > 1 ? w->row_count : w->block;
  if (w->taps == 1 && w->column_stride == 1) {
    fold_rows(kind, w, 0, w->row_count, w->to, w->to_pitch, w->to_plane, w->divisors != NULL);
    return;
  }
  fill_padding(kind, w, line, lines < w->block ? lines : w->block);
  for (int64_t first = 0; first < w->row_count; first += block) {
    const int64_t left = w->row_count - first, count = left < block ? left : block;
    fold_rows(kind, w, first, count, line + w->before, w->line_pitch, w->row_count * w->line_pitch,
              false);
    fold_columns(kind, w, first, count, line, dealt);
  }
}

#if IS_FLOAT
CPU_INLINE bool line_has_nan(const ELEMENT *x, int64_t count) {
  MASK nan = 0;
  for (int64_t i = 0; i < count; i++) nan |= -(MASK)IS_NAN(x[i]);
  return nan != 0;
}

static bool has_nan(const cpu_window_fold *w) {
  const bool dense = w->pitch == w->width;
  const int64_t plane = w->height * w->width, lines = dense ? 1 : w->height;
  if (dense && w->source_plane == plane) return line_has_nan(w->source, w->planes * plane);
  for (int64_t n = 0; n < w->planes; n++) {
    const ELEMENT *x = (const ELEMENT *)w->source + n * w->source_plane;
    for (int64_t i = 0; i < lines; i++)
      if (line_has_nan(x + i * w->pitch, dense ? plane : w->width)) return true;
  }
  return false;
}

static void fold_maxima(const cpu_window_fold *w) {
  if (has_nan(w))
    fold_planes(FOLD_MAXIMUM, w);
  else
    fold_planes(FOLD_NUMBERS, w);
}

static void fold_sums(const cpu_window_fold *w) {
  fold_planes(FOLD_SUM, w);
}
#else
static void fold_maxima(const cpu_window_fold *w) {
  fold_planes(FOLD_NUMBERS, w);
}
#endif
