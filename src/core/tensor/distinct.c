/* SPDX-License-Identifier: MIT */
/* The distinct slices of a tensor.
 *
 * A hash table gives each slice the number of its group, in the order of first places. The groups
 * are sorted afterwards, which are usually far fewer than the slices. */
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/hash.h"
#include "core/tensor/search.h"

/* ---- Keys ----------------------------------------------------------------------------------- */

/* Maps a float to an integer in the same order. −0 equals 0; all NaN are equal, and the largest.
 * `infinity` has the bits of infinity, `sign` the bits of −0. */
static inline uint64_t float_key(uint64_t bits, uint64_t infinity, uint64_t sign) {
  const uint64_t magnitude = bits & (sign - 1);
  if (magnitude > infinity) return UINT64_MAX;
  return bits & sign ? sign - magnitude : sign + magnitude;
}

#define KEYS(type, value)                                                                          \
  {                                                                                                \
    const type *x = data;                                                                          \
    for (int64_t i = 0; i < count; i++) keys[i] = (value);                                         \
    break;                                                                                         \
  }

#define SIGN(bits) (UINT64_C(1) << ((bits)-1))

/* Integers with the order and the equality of the elements. */
static void make_keys(compute_dtype dtype, const void *data, int64_t count, uint64_t *keys) {
  switch (dtype) {
  case COMPUTE_F64: KEYS(uint64_t, float_key(x[i], UINT64_C(0x7ff0000000000000), SIGN(64)))
  case COMPUTE_F32: KEYS(uint32_t, float_key(x[i], 0x7f800000, SIGN(32)))
  case COMPUTE_F16: KEYS(uint16_t, float_key(x[i], 0x7c00, SIGN(16)))
  case COMPUTE_BF16: KEYS(uint16_t, float_key(x[i], 0x7f80, SIGN(16)))
  case COMPUTE_I64: KEYS(int64_t, (uint64_t)x[i] ^ SIGN(64))
  case COMPUTE_I32: KEYS(int32_t, (uint64_t)x[i] ^ SIGN(64))
  case COMPUTE_I16: KEYS(int16_t, (uint64_t)x[i] ^ SIGN(64))
  case COMPUTE_I8: KEYS(int8_t, (uint64_t)x[i] ^ SIGN(64))
  case COMPUTE_U64: KEYS(uint64_t, x[i])
  case COMPUTE_U32: KEYS(uint32_t, x[i])
  case COMPUTE_U16: KEYS(uint16_t, x[i])
  default: KEYS(uint8_t, x[i])
  }
}

/* ---- Groups --------------------------------------------------------------------------------- */

typedef struct grouping {
  const slices *s;
  uint64_t *keys;                   /* of all elements */
  int64_t *first, *counts;          /* per group: its first place, and its slices */
  int64_t *inverse;                 /* the group of each place */
  uint32_t *table;                  /* the number of a group, plus 1; 0: empty */
  uint64_t least, table_size, mask; /* a power of two, minus 1 */
  int64_t count;                    /* of groups */
  bool dense;                       /* keys minus the least are indices of the table */
} grouping;

static bool is_single(const slices *s) {
  return s->outer * s->inner == 1;
}

static int order_slices(const grouping *g, int64_t a, int64_t b) {
  const slices *s = g->s;
  for (int64_t o = 0; o < s->outer; o++) {
    const uint64_t *x = g->keys + (o * s->along + a) * s->inner;
    const uint64_t *y = g->keys + (o * s->along + b) * s->inner;
    for (int64_t i = 0; i < s->inner; i++)
      if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  return 0;
}

static uint64_t slot_of(const grouping *g, int64_t place) {
  const slices *s = g->s;
  if (g->dense) return g->keys[place] - g->least;
  if (is_single(s)) return hash_u64(HASH_SEED, g->keys[place]) & g->mask;
  uint64_t hash = HASH_SEED;
  for (int64_t o = 0; o < s->outer; o++)
    hash = hash_bytes(hash, g->keys + (o * s->along + place) * s->inner,
                      (size_t)s->inner * sizeof *g->keys);
  return hash & g->mask;
}

static void find_groups(grouping *g) {
  for (int64_t i = 0; i < g->s->along; i++) {
    uint64_t slot = slot_of(g, i);
    while (g->table[slot] && !g->dense && order_slices(g, g->first[g->table[slot] - 1], i) != 0)
      slot = (slot + 1) & g->mask;
    if (!g->table[slot]) {
      g->first[g->count++] = i;
      g->table[slot] = (uint32_t)g->count;
    }
    const int64_t group = (int64_t)g->table[slot] - 1;
    g->counts[group]++;
    g->inverse[i] = group;
  }
}

/* ---- Order ---------------------------------------------------------------------------------- */

typedef struct ranked {
  uint64_t key;
  int64_t group;
} ranked;

/* Sorts by key, a byte at a time; bytes that are equal in all keys are left out. Returns the array
 * that has the result. */
static ranked *sort_keys(ranked *from, ranked *to, int64_t count) {
  uint64_t different = 0;
  for (int64_t i = 1; i < count; i++) different |= from[i].key ^ from[0].key;
  for (int shift = 0; shift < 64; shift += 8) {
    int64_t begin[256] = {0}, sum = 0;
    if ((different >> shift & 255) == 0) continue;
    for (int64_t i = 0; i < count; i++) begin[from[i].key >> shift & 255]++;
    for (int i = 0; i < 256; i++) {
      const int64_t number = begin[i];
      begin[i] = sum;
      sum += number;
    }
    for (int64_t i = 0; i < count; i++) to[begin[from[i].key >> shift & 255]++] = from[i];
    ranked *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/* The same by whole slices: a merge sort from the bottom. */
static ranked *sort_slices(const grouping *g, ranked *from, ranked *to) {
  for (int64_t width = 1; width < g->count; width *= 2) {
    for (int64_t begin = 0; begin < g->count; begin += 2 * width) {
      const int64_t middle = min_i64(begin + width, g->count);
      const int64_t end = min_i64(begin + 2 * width, g->count);
      int64_t left = begin, right = middle;
      for (int64_t i = begin; i < end; i++) {
        const bool takes_left =
            left < middle && (right >= end || order_slices(g, g->first[from[left].group],
                                                           g->first[from[right].group]) <= 0);
        to[i] = from[takes_left ? left++ : right++];
      }
    }
    ranked *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/* Numbers the groups in ascending order. `work` has room for 2 · g->count entries. */
static void sort_groups(grouping *g, ranked *work) {
  ranked *spare = work + g->count;
  for (int64_t i = 0; i < g->count; i++)
    work[i] = (ranked){is_single(g->s) ? g->keys[g->first[i]] : 0, i};
  ranked *sorted = is_single(g->s) ? sort_keys(work, spare, g->count) : sort_slices(g, work, spare);
  int64_t *numbers = (int64_t *)(void *)(sorted == work ? spare : work);
  int64_t *counts = numbers + g->count;
  for (int64_t i = 0; i < g->count; i++) {
    const int64_t group = sorted[i].group;
    numbers[group] = i;
    counts[i] = g->counts[group];
    sorted[i].group = g->first[group];
  }
  for (int64_t i = 0; i < g->count; i++) {
    g->first[i] = sorted[i].group;
    g->counts[i] = counts[i];
  }
  for (int64_t i = 0; i < g->s->along; i++) g->inverse[i] = numbers[g->inverse[i]];
}

/* Keys that are close together are indices of the table; others are hashed. */
static void choose_table(grouping *g) {
  const int64_t count = g->s->along;
  uint64_t most = 0;
  g->least = UINT64_MAX;
  for (int64_t i = 0; is_single(g->s) && i < count; i++) {
    g->least = g->keys[i] < g->least ? g->keys[i] : g->least;
    most = g->keys[i] > most ? g->keys[i] : most;
  }
  g->dense = is_single(g->s) && count > 0 && most - g->least < 4 * (uint64_t)count + 1024;
  g->table_size = g->dense ? most - g->least + 1 : 2;
  while (!g->dense && g->table_size < 2 * (uint64_t)count) g->table_size *= 2;
  g->mask = g->table_size - 1;
}

compute_status distinct_find(const slices *s, bool sorted, distinct *result) {
  *result = (distinct){.along = s->along};
  if (s->along >= UINT32_MAX) return COMPUTE_ERROR_OVERFLOW;
  const int64_t elements = s->outer * s->along * s->inner;
  int64_t *work = base_allocate((uint64_t)elements + 3 * (uint64_t)s->along, sizeof *work);
  grouping g = {.s = s, .keys = (uint64_t *)(void *)work};
  if (!work) return COMPUTE_ERROR_OUT_OF_MEMORY;
  g.first = work + elements;
  g.counts = g.first + s->along;
  g.inverse = g.counts + s->along;
  make_keys(s->dtype, s->data, elements, g.keys);
  choose_table(&g);
  g.table = base_allocate((uint64_t)g.table_size, sizeof *g.table);
  if (g.table) find_groups(&g);
  ranked *order = g.table && sorted ? base_allocate((uint64_t)g.count, 2 * sizeof *order) : NULL;
  if (order) sort_groups(&g, order);
  const bool failed = !g.table || (sorted && !order);
  base_release(order);
  base_release(g.table);
  result->memory = work;
  result->count = g.count;
  result->first = g.first;
  result->inverse = g.inverse;
  result->counts = g.counts;
  return failed ? COMPUTE_ERROR_OUT_OF_MEMORY : COMPUTE_OK;
}

void distinct_release(distinct *found) {
  base_release(found->memory);
  found->memory = NULL;
}
