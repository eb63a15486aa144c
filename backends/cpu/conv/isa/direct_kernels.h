/* Direct convolution in one computing type: the template of direct.c.
 *
 * A block of results stays in registers while all taps run. Of a 3 × 3 filter an element of the
 * source, once loaded, serves all the rows of the block that it meets; that halves the loads, which
 * cost more than the multiplications, since few of them are aligned. Blocks at the right and the
 * lower edge overlap their neighbours instead of being narrower: the same results are worked out
 * twice, which is cheaper than a rest. */

typedef ELEMENT NAME(vector) __attribute__((vector_size(DIRECT_BYTES)));
typedef ELEMENT NAME(vector_at) /* at any element's address */
    __attribute__((vector_size(DIRECT_BYTES), aligned(__alignof__(ELEMENT))));
typedef MASK NAME(mask) __attribute__((vector_size(DIRECT_BYTES)));

enum { NAME(lanes) = DIRECT_BYTES / (int)sizeof(ELEMENT) };

DIRECT_INLINE NAME(vector) NAME(load)(const ELEMENT *at) {
  return *(const NAME(vector_at) *)at;
}

/* ---- Windows times the filter --------------------------------------------------------------- */

/* `rows` × `vectors` vectors of results; the vectors of a row lie `apart`. */
DIRECT_INLINE void NAME(block)(const int rows, const int vectors, const cpu_direct_sweep *s,
                               int64_t row, int64_t column, int64_t apart) {
  const ELEMENT *from = (const ELEMENT *)s->source + row * s->source_row + column;
  const ELEMENT *weight = s->weight;
  NAME(vector) sum[DIRECT_ROWS][DIRECT_WIDE];
  DIRECT_UNROLL
  for (int r = 0; r < rows; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++) sum[r][v] = (NAME(vector)){0};
  }
  for (int64_t t = 0; t < s->taps; t++) {
    const ELEMENT *x = from + s->place[t];
    const NAME(vector) w = weight[t] - (NAME(vector)){0};
    DIRECT_UNROLL
    for (int r = 0; r < rows; r++) {
      DIRECT_UNROLL
      for (int v = 0; v < vectors; v++)
        sum[r][v] = FMA(w, NAME(load)(x + r * s->source_row + v * apart), sum[r][v]);
    }
  }
  ELEMENT *to = (ELEMENT *)s->result + row * s->result_row + column;
  DIRECT_UNROLL
  for (int r = 0; r < rows; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++)
      *(NAME(vector_at) *)(to + r * s->result_row + v * apart) = sum[r][v];
  }
}

/* The same for 3 × 3 neighbours; sums are added in the same order. */
DIRECT_INLINE void NAME(square)(const int vectors, const cpu_direct_sweep *s, int64_t row,
                                int64_t column, int64_t apart) {
  const ELEMENT *from = (const ELEMENT *)s->source + row * s->source_row + column;
  const ELEMENT *weight = s->weight;
  NAME(vector) sum[DIRECT_ROWS][2];
  DIRECT_UNROLL
  for (int r = 0; r < DIRECT_ROWS; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++) sum[r][v] = (NAME(vector)){0};
  }
  for (int64_t t = 0; t < s->taps; t += 9) {
    const ELEMENT *x = from + s->place[t];
    NAME(vector) w[9];
    DIRECT_UNROLL
    for (int i = 0; i < 9; i++) w[i] = weight[t + i] - (NAME(vector)){0};
    DIRECT_UNROLL
    for (int i = 0; i < DIRECT_ROWS + 2; i++) {
      DIRECT_UNROLL
      for (int j = 0; j < 3; j++) {
        DIRECT_UNROLL
        for (int v = 0; v < vectors; v++) {
          NAME(vector) a = NAME(load)(x + j + v * apart);
          DIRECT_PIN(a);
          DIRECT_UNROLL
          for (int r = 0; r < DIRECT_ROWS; r++)
            if (i - r >= 0 && i - r < 3) sum[r][v] = FMA(w[3 * (i - r) + j], a, sum[r][v]);
        }
      }
      x += s->source_row;
    }
  }
  ELEMENT *to = (ELEMENT *)s->result + row * s->result_row + column;
  DIRECT_UNROLL
  for (int r = 0; r < DIRECT_ROWS; r++) {
    DIRECT_UNROLL
    for (int v = 0; v < vectors; v++)
      *(NAME(vector_at) *)(to + r * s->result_row + v * apart) = sum[r][v];
  }
}

static void NAME(pairs)(const cpu_direct_sweep *s, int64_t row, int64_t column, int64_t apart) {
  if (s->squares)
    NAME(square)(2, s, row, column, apart);
  else
    NAME(block)(DIRECT_ROWS, 2, s, row, column, apart);
}

static void NAME(singles)(const cpu_direct_sweep *s, int64_t row, int64_t column) {
  if (s->squares)
    NAME(square)(1, s, row, column, 0);
  else
    NAME(block)(DIRECT_ROWS, 1, s, row, column, 0);
}

/* DIRECT_ROWS rows of results. */
static void NAME(strip)(const cpu_direct_sweep *s, int64_t row) {
  const int64_t lanes = NAME(lanes), columns = s->columns;
  if (columns <= lanes) {
    NAME(singles)(s, row, 0);
    return;
  }
  if (columns < 2 * lanes) {
    NAME(pairs)(s, row, 0, columns - lanes);
    return;
  }
  int64_t column = 0;
  for (; column + 2 * lanes <= columns; column += 2 * lanes) NAME(pairs)(s, row, column, lanes);
  if (columns - column > lanes)
    NAME(pairs)(s, row, columns - 2 * lanes, lanes);
  else if (columns > column)
    NAME(singles)(s, row, columns - lanes);
}

static void NAME(line)(const cpu_direct_sweep *s, int64_t row) {
  const int64_t lanes = NAME(lanes), columns = s->columns, wide = DIRECT_WIDE * lanes;
  int64_t column = 0;
  for (; column + wide <= columns; column += wide)
    NAME(block)(1, DIRECT_WIDE, s, row, column, lanes);
  for (; column < columns; column += lanes) NAME(block)
  (1, 1, s, row, column + lanes <= columns || columns < lanes ? column : columns - lanes, 0);
}

static void NAME(sweep)(const cpu_direct_sweep *s) {
  if (s->rows < DIRECT_ROWS) {
    for (int64_t row = 0; row < s->rows; row++) NAME(line)(s, row);
    return;
  }
  int64_t row = 0;
  for (; row + DIRECT_ROWS <= s->rows; row += DIRECT_ROWS) NAME(strip)(s, row);
  if (row < s->rows) NAME(strip)(s, s->rows - DIRECT_ROWS);
}

/* ---- Windows times results ------------------------------------------------------------------ */

DIRECT_INLINE NAME(vector) NAME(keep)(NAME(vector) x, NAME(mask) mask) {
  return (NAME(vector))((NAME(mask))x & mask);
}

/* One vector of columns, `masked` or not. */
DIRECT_INLINE void NAME(step)(const int factors, const int taps, const bool squares,
                              const bool masked, const cpu_direct_correlation *c,
                              const int64_t *place, const ELEMENT *x, const ELEMENT *y,
                              NAME(mask) mask, NAME(vector) sum[DIRECT_FACTORS][DIRECT_TAPS]) {
  NAME(vector) factor[DIRECT_FACTORS];
  DIRECT_UNROLL
  for (int f = 0; f < factors; f++) {
    factor[f] = NAME(load)(y + f * c->factor_plane);
    if (masked) factor[f] = NAME(keep)(factor[f], mask);
  }
  DIRECT_UNROLL
  for (int t = 0; t < taps; t++) {
    const ELEMENT *at = squares ? x + place[t / 3 * 3] + t % 3 : x + place[t];
    NAME(vector) a = NAME(load)(at);
    if (masked) a = NAME(keep)(a, mask);
    if (factors > 1) DIRECT_PIN(a);
    DIRECT_UNROLL
    for (int f = 0; f < factors; f++) sum[f][t] = FMA(factor[f], a, sum[f][t]);
  }
}

/* All rows for some factors and taps. Columns that are no whole vector are the last of one that
 * ends with them, the others of which are masked on both sides: 0 · ∞ would be no 0. */
DIRECT_INLINE void NAME(correlate_block)(const int factors, const int taps, const bool squares,
                                         const cpu_direct_correlation *c, int64_t tap,
                                         int64_t first) {
  const int64_t lanes = NAME(lanes), rest = c->columns % lanes;
  const int64_t last = c->columns < lanes ? 0 : c->columns - lanes;
  const int64_t low = c->columns < lanes ? 0 : lanes - rest, high = low + rest;
  NAME(vector) sum[DIRECT_FACTORS][DIRECT_TAPS];
  NAME(mask) mask;
  int64_t place[DIRECT_TAPS];
  for (int j = 0; j < NAME(lanes); j++) mask[j] = j >= low && j < high ? -1 : 0;
  DIRECT_UNROLL
  for (int t = 0; t < taps; t++) place[t] = c->place[tap + t];
  DIRECT_UNROLL
  for (int f = 0; f < factors; f++) {
    DIRECT_UNROLL
    for (int t = 0; t < taps; t++) sum[f][t] = (NAME(vector)){0};
  }
  const ELEMENT *x = c->source, *y = (const ELEMENT *)c->factor + first * c->factor_plane;
  for (int64_t row = 0; row < c->rows; row++) {
    for (int64_t j = 0; j + lanes <= c->columns; j += lanes)
      NAME(step)(factors, taps, squares, false, c, place, x + j, y + j, mask, sum);
    if (rest > 0) NAME(step)(factors, taps, squares, true, c, place, x + last, y + last, mask, sum);
    x += c->source_row;
    y += c->factor_row;
  }
  ELEMENT *to = (ELEMENT *)c->sums + first * c->sums_plane + tap * lanes;
  DIRECT_UNROLL
  for (int f = 0; f < factors; f++) {
    DIRECT_UNROLL
    for (int t = 0; t < taps; t++)
      *(NAME(vector_at) *)(to + f * c->sums_plane + t * lanes) += sum[f][t];
  }
}

#define DIRECT_CASE(factors, taps)                                                                 \
  case taps: NAME(correlate_block)(factors, taps, false, c, tap, first); break;

static void NAME(correlate_one)(const cpu_direct_correlation *c, int64_t tap, int64_t taps,
                                int64_t first) {
  switch (c->squares ? 0 : taps) {
    DIRECT_CASE(1, 1)
    DIRECT_CASE(1, 2)
    DIRECT_CASE(1, 3)
    DIRECT_CASE(1, 4)
    DIRECT_CASE(1, 5)
    DIRECT_CASE(1, 6)
    DIRECT_CASE(1, 7)
    DIRECT_CASE(1, 8)
    DIRECT_CASE(1, 9)
  default: NAME(correlate_block)(1, 9, true, c, tap, first);
  }
}

#if DIRECT_BYTES == 64
static void NAME(correlate_two)(const cpu_direct_correlation *c, int64_t tap, int64_t taps,
                                int64_t first) {
  switch (c->squares ? 0 : taps) {
    DIRECT_CASE(2, 1)
    DIRECT_CASE(2, 2)
    DIRECT_CASE(2, 3)
    DIRECT_CASE(2, 4)
    DIRECT_CASE(2, 5)
    DIRECT_CASE(2, 6)
    DIRECT_CASE(2, 7)
    DIRECT_CASE(2, 8)
    DIRECT_CASE(2, 9)
  default: NAME(correlate_block)(2, 9, true, c, tap, first);
  }
}
#endif
#undef DIRECT_CASE

static void NAME(correlate)(const cpu_direct_correlation *c) {
  int64_t first = 0;
  for (int64_t tap = 0; tap < c->taps; tap += DIRECT_TAPS) {
    const int64_t rest = c->taps - tap, taps = rest < DIRECT_TAPS ? rest : DIRECT_TAPS;
    first = 0;
#if DIRECT_BYTES == 64
    for (; first + 2 <= c->factors; first += 2) NAME(correlate_two)(c, tap, taps, first);
#endif
    for (; first < c->factors; first++) NAME(correlate_one)(c, tap, taps, first);
  }
}

static void NAME(total)(void *totals, const void *sums, int64_t count, int64_t parts) {
  ELEMENT *to = totals;
  for (int64_t i = 0; i < count; i++) {
    const ELEMENT *from = (const ELEMENT *)sums + i * NAME(lanes);
    ELEMENT lane[NAME(lanes)];
    NAME(vector) sum = NAME(load)(from);
    for (int64_t p = 1; p < parts; p++) sum += NAME(load)(from + p * count * NAME(lanes));
    *(NAME(vector_at) *)lane = sum;
    for (int half = NAME(lanes) / 2; half > 0; half /= 2)
      for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    to[i] = lane[0];
  }
}

/* ---- Rows and columns ------------------------------------------------------------------------ */

typedef ELEMENT NAME(short_at) __attribute__((vector_size(16), aligned(__alignof__(ELEMENT))));

/* The last vector of a row overlaps the one before. The row four further is asked for meanwhile:
 * the hardware stops looking ahead at the end of each short run. */
static void NAME(copy)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                       int64_t columns) {
  enum { AHEAD = 4, SHORT = 16 / (int)sizeof(ELEMENT) };
  const int64_t lanes = NAME(lanes);
  ELEMENT *t = to;
  const ELEMENT *f = from;
  for (int64_t i = 0; i < rows; i++, t += to_row, f += from_row) {
    const ELEMENT *next = f + (i + AHEAD < rows ? AHEAD * from_row : 0);
    int64_t j = 0;
    if (columns >= lanes) {
      for (; j + lanes <= columns; j += lanes) {
        __builtin_prefetch(next + j);
        *(NAME(vector_at) *)(t + j) = NAME(load)(f + j);
      }
      if (j < columns) *(NAME(vector_at) *)(t + columns - lanes) = NAME(load)(f + columns - lanes);
    } else if (columns >= SHORT) {
      for (; j + SHORT <= columns; j += SHORT)
        *(NAME(short_at) *)(t + j) = *(const NAME(short_at) *)(f + j);
      *(NAME(short_at) *)(t + columns - SHORT) = *(const NAME(short_at) *)(f + columns - SHORT);
    } else {
      for (; j < columns; j++) t[j] = f[j];
    }
  }
}

static void NAME(pick)(void *to, const void *from, int64_t count, int64_t step) {
  ELEMENT *restrict t = to;
  const ELEMENT *restrict f = from;
  if (step == 2)
    for (int64_t i = 0; i < count; i++) t[i] = f[2 * i];
  else
    for (int64_t i = 0; i < count; i++) t[i] = f[step * i];
}

static void NAME(spread)(void *to, const void *from, int64_t count, int64_t step) {
  ELEMENT *restrict t = to;
  const ELEMENT *restrict f = from;
  for (int64_t i = 0; i < count; i++) t[step * i] = f[i];
}

static void NAME(interleave)(void *to, const void *even, const void *odd, int64_t count) {
  ELEMENT *restrict t = to;
  const ELEMENT *restrict e = even, *restrict o = odd;
  for (int64_t i = 0; i < count / 2; i++) {
    t[2 * i] = e[i];
    t[2 * i + 1] = o[i];
  }
  if (count % 2) t[count - 1] = e[count / 2];
}
