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
