/* SPDX-License-Identifier: MIT */
/* Keeps the largest keys of several rows side by side: a template, included by select.c with
 *
 *   KEY      the type of keys and positions
 *   LOWEST   the smallest key
 *   NAME(x)  x with the key's suffix
 *
 * A list has its largest key first. A new key of a row moves the smaller keys of its list down.
 * Every place is compared with the new key before the change, so that no place waits for another
 * one. Equal keys stay above a new one, because their positions are lower. */

typedef KEY NAME(pack) __attribute__((vector_size(VECTOR_BYTES)));

CPU_INLINE NAME(pack) NAME(load)(const KEY *from) {
  NAME(pack) p;
  memcpy(&p, from, sizeof p);
  return p;
}

CPU_INLINE NAME(pack) NAME(choose)(NAME(pack) mask, NAME(pack) a, NAME(pack) b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return (NAME(pack))_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)mask);
#else
  return (a & mask) | (b & ~mask);
#endif
}

/* Places `last` … 0. */
CPU_INLINE void NAME(insert)(KEY *best, KEY *place, NAME(pack) x, NAME(pack) at, int64_t last) {
  KEY *b = best + last * SELECT_GROUP, *p = place + last * SELECT_GROUP;
  NAME(pack) own = NAME(load)(b), own_place = NAME(load)(p), more = x > own;
  for (; b > best; b -= SELECT_GROUP, p -= SELECT_GROUP) {
    const NAME(pack) above = NAME(load)(b - SELECT_GROUP), its = NAME(load)(p - SELECT_GROUP);
    const NAME(pack) passes = x > above;
    own = NAME(choose)(more, NAME(choose)(passes, above, x), own);
    own_place = NAME(choose)(more, NAME(choose)(passes, its, at), own_place);
    memcpy(b, &own, sizeof own);
    memcpy(p, &own_place, sizeof own_place);
    own = above;
    own_place = its;
    more = passes;
  }
  own = NAME(choose)(more, x, own);
  own_place = NAME(choose)(more, at, own_place);
  memcpy(b, &own, sizeof own);
  memcpy(p, &own_place, sizeof own_place);
}

/* A pack of rows. While the lists are not full, a place is added for each position. */
static void NAME(group_pack)(KEY *best, KEY *place, const KEY *keys, int64_t first, int64_t count,
                             int64_t k) {
  const NAME(pack) lowest = LOWEST - (NAME(pack)){0};
  int64_t i = 0;
  for (; i < count && first + i < k; i++) {
    const NAME(pack) at = (KEY)(first + i) - (NAME(pack)){0};
    memcpy(best + (first + i) * SELECT_GROUP, &lowest, sizeof lowest);
    memcpy(place + (first + i) * SELECT_GROUP, &at, sizeof at);
    NAME(insert)(best, place, NAME(load)(keys + i * SELECT_GROUP), at, first + i);
  }
  for (; i < count; i++) {
    const NAME(pack) x = NAME(load)(keys + i * SELECT_GROUP);
    const NAME(pack) more = x > NAME(load)(best + (k - 1) * SELECT_GROUP);
    if (!any(&more)) continue;
    NAME(insert)(best, place, x, (KEY)(first + i) - (NAME(pack)){0}, k - 1);
  }
}

static void NAME(group)(void *best, void *place, const void *keys, int64_t first, int64_t count,
                        int64_t k) {
  for (int r = 0; r < SELECT_GROUP; r += VECTOR_BYTES / (int)sizeof(KEY))
    NAME(group_pack)((KEY *)best + r, (KEY *)place + r, (const KEY *)keys + r, first, count, k);
}
