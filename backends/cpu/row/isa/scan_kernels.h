/* SPDX-License-Identifier: MIT */
/* The loops of SCAN for one combination: a template, included by scan.c with
 *
 *   NAME(x)      x with the combination's prefix
 *   COMBINE(a,b) the combination
 *   NEUTRAL      the neutral value; it keeps even the sign of a zero
 *   IDENTITY     the value of no elements */

/* local[i] ends as the fold of elements 0 … i. First come folds of 2, 4, 8 and 16 neighbours, each
 * combined from two of the previous ones, then chains over every sixteenth. No loop has a
 * dependence closer than a vector. Neutral padding in front avoids special cases at the start. */
static void NAME(local)(void *to, const void *from, int64_t count) {
  enum { ROOM = 16 };
  _Alignas(64) ELEMENT first[ROOM + CPU_SCAN_BLOCK], second[ROOM + CPU_SCAN_BLOCK];
  ELEMENT *restrict a = first + ROOM, *restrict b = second + ROOM, *local = to;
  const ELEMENT *x = from;
  for (int i = 0; i < ROOM; i++) first[i] = second[i] = NEUTRAL;
  a[0] = x[0];
  for (int64_t i = 1; i < count; i++) a[i] = COMBINE(x[i - 1], x[i]);
  for (int64_t i = 0; i < count; i++) b[i] = COMBINE(a[i - 2], a[i]);
  for (int64_t i = 0; i < count; i++) a[i] = COMBINE(b[i - 4], b[i]);
  for (int64_t i = 0; i < count; i++) b[i] = COMBINE(a[i - 8], a[i]);
  int64_t i = 0;
  ELEMENT chain[ROOM];
  for (int l = 0; l < ROOM; l++) chain[l] = NEUTRAL;
  for (; i + ROOM <= count; i += ROOM) {
    for (int l = 0; l < ROOM; l++) chain[l] = COMBINE(chain[l], b[i + l]);
    for (int l = 0; l < ROOM; l++) local[i + l] = chain[l];
  }
  for (int l = 0; i < count; i++, l++) local[i] = COMBINE(chain[l], b[i]);
}

static void NAME(finish)(void *result, const void *carry, const void *local, int64_t count,
                         bool exclusive) {
  ELEMENT *restrict to = result;
  const ELEMENT c = *(const ELEMENT *)carry, *from = local;
  if (exclusive) {
    to[0] = c;
    for (int64_t i = 1; i < count; i++) to[i] = COMBINE(c, from[i - 1]);
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = COMBINE(c, from[i]);
  }
}

static void NAME(step)(void *result, const void *carry, void *local, const void *source,
                       int64_t count, bool exclusive) {
  ELEMENT *restrict to = result, *restrict running = local;
  const ELEMENT *restrict c = carry, *restrict x = source;
  if (exclusive) {
    for (int64_t i = 0; i < count; i++) {
      const ELEMENT before = running[i];
      running[i] = COMBINE(before, x[i]);
      to[i] = COMBINE(c[i], before);
    }
  } else {
    for (int64_t i = 0; i < count; i++) {
      const ELEMENT now = COMBINE(running[i], x[i]);
      running[i] = now;
      to[i] = COMBINE(c[i], now);
    }
  }
}

/* Whole short rows, as local and finish. Enough neutral elements between rows that none reaches the
 * next, so that each pass is one loop over all rows. */
static void NAME(rows)(const cpu_scan_lines *lines) {
  enum { GAP = 16, PITCH = GAP + CPU_SCAN_SHORT, ROWS = 32 };
  _Alignas(64) ELEMENT first[GAP + ROWS * PITCH], second[GAP + ROWS * PITCH];
  ELEMENT *restrict a = first + GAP, *restrict b = second + GAP;
  const int64_t length = lines->length, *step = lines->step;
  for (int i = 0; i < GAP + ROWS * PITCH; i++) first[i] = second[i] = NEUTRAL;
  for (int64_t begin = 0; begin < lines->count; begin += ROWS) {
    const int64_t rows = lines->count - begin < ROWS ? lines->count - begin : ROWS;
    const int64_t all = rows * PITCH;
    const ELEMENT *x = (const ELEMENT *)lines->source + begin * lines->apart[0];
    ELEMENT *to = (ELEMENT *)lines->result + begin * lines->apart[1];
    for (int64_t r = 0; r < rows; r++, x += lines->apart[0])
      for (int64_t i = 0; i < length; i++) b[r * PITCH + i] = x[i * step[0]];
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = length; i < PITCH; i++) b[r * PITCH + i] = NEUTRAL;
    for (int64_t i = 0; i < all; i++) a[i] = COMBINE(b[i - 1], b[i]);
    for (int64_t i = 0; i < all; i++) b[i] = COMBINE(a[i - 2], a[i]);
    for (int64_t i = 0; i < all; i++) a[i] = COMBINE(b[i - 4], b[i]);
    for (int64_t i = 0; i < all; i++) b[i] = COMBINE(a[i - 8], a[i]);
    for (int64_t r = 0; r < rows; r++, to += lines->apart[1]) {
      const ELEMENT *from = b + r * PITCH - lines->exclusive;
      for (int64_t i = 0; i < length; i++) to[i * step[1]] = from[i];
      if (lines->exclusive) to[0] = IDENTITY;
    }
  }
}

/* A stack of neighbouring rows that fill `vectors` vectors. The last vector may overlap the one
 * before it. All elements of a step are read before any is stored. */
#define SCAN_STACK(vector, lanes)                                                                  \
  CPU_INLINE void NAME(vector##_stack)(const cpu_scan_lines *lines, const ELEMENT *x, ELEMENT *to, \
                                       int vectors) {                                              \
    vector neutral = {0}, running[SCAN_VECTORS];                                                   \
    for (int j = 0; j < lanes; j++) neutral[j] = NEUTRAL;                                          \
    for (int v = 0; v < SCAN_VECTORS; v++) running[v] = neutral;                                   \
    for (int64_t i = 0; i < lines->length; i++, x += lines->step[0], to += lines->step[1]) {       \
      vector made[SCAN_VECTORS];                                                                   \
      for (int v = 0; v < vectors; v++) {                                                          \
        vector next;                                                                               \
        const int64_t at = v * lanes < lines->width - lanes ? v * lanes : lines->width - lanes;    \
        __builtin_memcpy(&next, x + at, sizeof next);                                              \
        made[v] = running[v];                                                                      \
        for (int j = 0; j < lanes; j++) running[v][j] = COMBINE(running[v][j], next[j]);           \
        if (!lines->exclusive) made[v] = running[v];                                               \
      }                                                                                            \
      for (int v = 0; v < vectors; v++) {                                                          \
        const int64_t at = v * lanes < lines->width - lanes ? v * lanes : lines->width - lanes;    \
        for (int j = 0; i == 0 && lines->exclusive && j < lanes; j++) made[v][j] = IDENTITY;       \
        __builtin_memcpy(to + at, &made[v], sizeof made[v]);                                       \
      }                                                                                            \
    }                                                                                              \
  }
SCAN_STACK(pack, pack_lanes)
SCAN_STACK(pack_part, part_lanes)
SCAN_STACK(single, 1)
#undef SCAN_STACK

#define SCAN_STACKS(vector, lanes)                                                                 \
  switch ((lines->width + (lanes)-1) / (lanes)) {                                                  \
  case 1: NAME(vector##_stack)(lines, x, to, 1); break;                                            \
  case 2: NAME(vector##_stack)(lines, x, to, 2); break;                                            \
  case 3: NAME(vector##_stack)(lines, x, to, 3); break;                                            \
  default: NAME(vector##_stack)(lines, x, to, 4);                                                  \
  }
static void NAME(stacks)(const cpu_scan_lines *lines) {
  for (int64_t s = 0; s < lines->count; s++) {
    const ELEMENT *x = (const ELEMENT *)lines->source + s * lines->apart[0];
    ELEMENT *to = (ELEMENT *)lines->result + s * lines->apart[1];
    if (lines->width >= pack_lanes) {
      SCAN_STACKS(pack, pack_lanes)
    } else if (lines->width >= part_lanes) {
      SCAN_STACKS(pack_part, part_lanes)
    } else {
      SCAN_STACKS(single, 1)
    }
  }
}
#undef SCAN_STACKS

static void NAME(combine)(void *into, const void *other, int64_t count) {
  ELEMENT *restrict a = into;
  const ELEMENT *restrict b = other;
  for (int64_t i = 0; i < count; i++) a[i] = COMBINE(a[i], b[i]);
}

static void NAME(clear)(void *values, int64_t count) {
  ELEMENT *v = values;
  for (int64_t i = 0; i < count; i++) v[i] = NEUTRAL;
}

static void NAME(identity)(void *value) {
  *(ELEMENT *)value = IDENTITY;
}
#undef NAME
#undef COMBINE
#undef NEUTRAL
#undef IDENTITY
