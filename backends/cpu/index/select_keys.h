/* SPDX-License-Identifier: MIT */
/* The functions of select.h for one key type: a template, included by select.c with
 *
 *   KEY       the signed type of keys
 *   ENTRY     the unsigned type of entries, at least twice as wide
 *   NAME(x)   x with the key's suffix
 *   BITS      low bits of an entry that have the position */

static inline ENTRY NAME(pack)(KEY key, int64_t position) {
  const ENTRY shifted = (ENTRY)((UNSIGNED)key ^ ((UNSIGNED)1 << (8 * sizeof(KEY) - 1)));
  return shifted << BITS | (~(ENTRY)position & (((ENTRY)1 << BITS) - 1));
}

static inline KEY NAME(key)(ENTRY entry) {
  return (KEY)((UNSIGNED)(entry >> BITS) ^ ((UNSIGNED)1 << (8 * sizeof(KEY) - 1)));
}

static int64_t NAME(position)(const void *entries, int64_t index) {
  return (int64_t)(~((const ENTRY *)entries)[index] & (((ENTRY)1 << BITS) - 1));
}

/* Branch-free, because large keys are unpredictable: every entry is written, but the next one may
 * overwrite it. */
static int64_t NAME(append)(void *entries, int64_t held, const void *keys, int64_t count,
                            int64_t first, const void *bound) {
  ENTRY *e = entries;
  const KEY *k = keys;
  if (!bound) {
    for (int64_t i = 0; i < count; i++) e[held++] = NAME(pack)(k[i], first + i);
    return held;
  }
  const KEY least = *(const KEY *)bound;
  for (int64_t i = 0; i < count; i++) {
    e[held] = NAME(pack)(k[i], first + i);
    held += k[i] > least;
  }
  return held;
}

static void NAME(insert)(ENTRY *e, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    const ENTRY entry = e[i];
    int64_t j = i;
    for (; j > 0 && e[j - 1] < entry; j--) e[j] = e[j - 1];
    e[j] = entry;
  }
}

static void NAME(merge)(const ENTRY *from, int64_t middle, int64_t count, ENTRY *to) {
  int64_t a = 0, b = middle;
  for (int64_t i = 0; i < count; i++) {
    const bool left = b >= count || (a < middle && from[a] > from[b]);
    to[i] = left ? from[a] : from[b];
    a += left;
    b += !left;
  }
}

/* Merges sorted runs of growing length, alternating between two buffers. */
static void NAME(sort)(void *entries, int64_t count, void *room) {
  enum { RUN = SELECT_RUN };
  ENTRY *from = entries, *to = room;
  for (int64_t i = 0; i < count; i += RUN)
    NAME(insert)(from + i, count - i < RUN ? count - i : RUN);
  for (int64_t run = RUN; run < count; run *= 2) {
    for (int64_t i = 0; i < count; i += 2 * run) {
      const int64_t both = count - i < 2 * run ? count - i : 2 * run;
      NAME(merge)(from + i, run < both ? run : both, both, to + i);
    }
    ENTRY *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != entries) memcpy(entries, from, (size_t)count * sizeof *from);
}

static inline ENTRY NAME(median)(ENTRY a, ENTRY b, ENTRY c) {
  const ENTRY low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}

/* C. A. R. Hoare, "Algorithm 65: Find" (1961), partitioning into `room`; a range that does not
 * shrink well is sorted instead. */
static void NAME(keep)(void *entries, int64_t count, int64_t k, void *room, void *bound) {
  ENTRY *e = entries, *apart = room;
  int64_t done = 0, rounds = 0;
  while (count > k && k > 0) {
    if (count <= SELECT_RUN || rounds++ > 40) {
      NAME(sort)(e + done, count, apart);
      break;
    }
    const int64_t step = count / 9;
    const ENTRY *s = e + done;
    const ENTRY pivot = NAME(median)(NAME(median)(s[0], s[step], s[2 * step]),
                                     NAME(median)(s[3 * step], s[4 * step], s[5 * step]),
                                     NAME(median)(s[6 * step], s[7 * step], s[count - 1]));
    int64_t larger = 0, others = 0;
    ENTRY *const front = e + done;
    for (int64_t i = 0; i < count; i++) {
      const ENTRY entry = front[i];
      const bool ahead = entry >= pivot;
      front[larger] = entry;
      apart[others] = entry;
      larger += ahead;
      others += !ahead;
    }
    memcpy(front + larger, apart, (size_t)others * sizeof *apart);
    if (larger <= k) { /* this keeps all of them, including the pivot, so the loop ends */
      done += larger;
      k -= larger;
      count = others;
    } else {
      count = larger;
    }
  }
  k += done;
  KEY least = NAME(key)(e[0]);
  for (int64_t i = 1; i < k; i++) {
    const KEY key = NAME(key)(e[i]);
    least = key < least ? key : least;
  }
  *(KEY *)bound = least;
}
