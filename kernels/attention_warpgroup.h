/* SPDX-License-Identifier: MIT */
/* Attention with products of warpgroups (README.md), for f16 and bf16. Configured as
 * attention_matrix, and by
 *
 *   SCORE_UNIT, SUM_UNIT                products of TILE_KEYS and TILE_COLUMNS columns
 *   WEIGHTS_CUT                         1: elements are the upper halves of f32
 *
 * A warpgroup has 64 queries, and consecutive warpgroups cover TILE_QUERIES. If the group has more
 * warpgroups, it has several sides that share the queries: each side processes its TILE_KEYS of a
 * block, and their sums are combined at the end. As in attention_matrix, weights stay in the
 * registers of their scores and are multiplied in two parts. Q is read from local memory for every
 * block, because ptxas 13.0 may reuse registers that the products read again in each round of a
 * loop.
 *
 * While the weights of one block are multiplied, the scores of the next become weights. There are
 * buffers for both blocks, and for the block that is being copied. */
//@ attention_warpgroup
#define SIDES          (TILE_GROUP / 2 / TILE_QUERIES)
#define SIDE_ITEMS     (TILE_QUERIES * 2)
#define BLOCK_KEYS     (TILE_KEYS * SIDES)
#define STEPS          (TILE_WIDTH / 16)
#define SLAB_ELEMENTS  (BLOCK_KEYS * 64)
#define KEY_SLABS      ((TILE_WIDTH + 63) / 64)
#define VALUE_SLABS    ((TILE_COLUMNS + 63) / 64)
#define STAGE_ELEMENTS ((KEY_SLABS + VALUE_SLABS) * SLAB_ELEMENTS)
#define STAGES         3
#define COPY_BLOCK(stage, first)                                                                   \
  {                                                                                                \
    LOCAL u16 *const to_ = slabs + (stage)*STAGE_ELEMENTS;                                         \
    ATTENTION_LINES(to_, BLOCK_KEYS, TILE_WIDTH, ATTENTION_KEY_AT, key_whole, first, end, 0,       \
                    shape.width)                                                                   \
    ATTENTION_LINES(to_ + KEY_SLABS * SLAB_ELEMENTS, BLOCK_KEYS, TILE_COLUMNS, ATTENTION_VALUE_AT, \
                    value_whole, first, end, column, shape.columns)                                \
  }
/* Multiplies Q by the side's part of a block of K. */
#define MULTIPLY_KEYS(stage)                                                                       \
  UNROLL for (int step = 0; step < STEPS; step++) {                                                \
    LOCAL const u16 *const of_query_ = queries + step / 4 * TILE_QUERIES * 64;                     \
    LOCAL const u16 *const of_key_ =                                                               \
        slabs + (stage)*STAGE_ELEMENTS + side * TILE_KEYS * 64 + step / 4 * SLAB_ELEMENTS;         \
    SCORE_UNIT(score, SLAB_FORTH(SLAB_AT(of_query_, 0), step % 4 * 32),                            \
               SLAB_FORTH(SLAB_AT(of_key_, 0), step % 4 * 32), step > 0);                          \
  }
#define MULTIPLY_VALUES(stage)                                                                     \
  UNROLL for (int step = 0; step < TILE_KEYS / 16; step++) {                                       \
    LOCAL const u16 *const from_ = slabs + (stage)*STAGE_ELEMENTS + KEY_SLABS * SLAB_ELEMENTS;     \
    const u64 slab_ = SLAB_AT(from_ + side * TILE_KEYS * 64, SLAB_ELEMENTS * 2);                   \
    SUM_UNIT(sum, low[step], SLAB_FORTH(slab_, step * 2048), 1);                                   \
    SUM_UNIT(sum, high[step], SLAB_FORTH(slab_, step * 2048), 1);                                  \
  }
#define SHRINK_SUMS() UNROLL for (int j = 0; j < TILE_COLUMNS / 2; j++) sum[j] *= shrink[j / 2 % 2];
/* bf16 is the upper half of an f32. Truncating the first element leaves eight bits for the
 * second. */
#if WEIGHTS_CUT
#define WEIGHT_SPLIT(high, low, a, b)                                                              \
  {                                                                                                \
    const u32 of_a_ = as_u32(a) & 0xffff0000u, of_b_ = as_u32(b) & 0xffff0000u;                    \
    high = of_a_ >> 16 | of_b_;                                                                    \
    low = MATRIX_PACK((a)-as_f32(of_a_), (b)-as_f32(of_b_));                                       \
  }
#else
#define WEIGHT_SPLIT(high, low, a, b)                                                              \
  {                                                                                                \
    high = MATRIX_PACK(a, b);                                                                      \
    low =                                                                                          \
        MATRIX_PACK((a)-MATRIX_WIDEN((u16)(high & 0xffff)), (b)-MATRIX_WIDEN((u16)(high >> 16)));  \
  }
#endif
#define SPLIT_WEIGHTS()                                                                            \
  UNROLL for (int part = 0; part < TILE_KEYS / 4; part++) {                                        \
    const f32 *const from = score + 2 * part;                                                      \
    WEIGHT_SPLIT(high[part / 4][part % 4], low[part / 4][part % 4], from[0], from[1]);             \
  }
#if defined(__CUDACC__)
struct __align__(1024) SLAB {
  u16 element[512];
};
#else
typedef struct __attribute__((aligned(1024))) SLAB {
  u16 element[512];
} SLAB;
#endif
#define LINES_PERIOD 8
#define LINES_PLACE(lines, elements, line, place)                                                  \
  ((place) / 64 * (lines)*64 + (line)*64 + (((place) / 8 ^ (line)) % 8) * 8)
TILE_ARRAY(SLAB, room, LOCAL_SLABS);
LOCAL u16 *const slabs = (LOCAL u16 *)room;
/* The remainder gives the compiler an upper bound. */
const int lane = (int)(LOCAL_ID_X % TILE_GROUP), line = lane % 32 / 4, quad = lane % 4;
const int any_warp = WARP_UNIFORM(lane / 32), side = any_warp / (SIDE_ITEMS / 32);
const int warp = any_warp % (SIDE_ITEMS / 32);
LOCAL u16 *const all_queries = slabs + STAGES * STAGE_ELEMENTS;
LOCAL const u16 *const queries = all_queries + warp / 4 * 64 * 64;
const INDEX row0 = query + warp * 16 + line;
const boolean query_whole = ATTENTION_QUERY_WHOLE, key_whole = ATTENTION_KEY_WHOLE;
const boolean value_whole = ATTENTION_VALUE_WHOLE;
const INDEX last =
    shape.queries - query < TILE_QUERIES ? shape.queries - 1 : query + TILE_QUERIES - 1;
const INDEX end = ATTENTION_SEEN(last), seen_by_all = ATTENTION_SEEN(query);
f32 score[TILE_KEYS / 2], sum[TILE_COLUMNS / 2], peak[2], total[2], shrink[2];
u32 high[TILE_KEYS / 16][4], low[TILE_KEYS / 16][4];
ATTENTION_LINES(all_queries, TILE_QUERIES, TILE_WIDTH, ATTENTION_QUERY_AT, query_whole, query,
                shape.queries, 0, shape.width)
/* Copies a block of zeros if there are no keys. */
COPY_BLOCK(0, 0)
COPIES_END();
if (BLOCK_KEYS < end) COPY_BLOCK(1, BLOCK_KEYS)
COPIES_END();
UNROLL for (int half = 0; half < 2; half++) {
  peak[half] = ATTENTION_LOWEST;
  total[half] = 0;
}
UNROLL for (int j = 0; j < TILE_COLUMNS / 2; j++) sum[j] = 0;
int stage = 0;
INDEX first = side * TILE_KEYS;
COPIES_WAIT(1);
SLABS_SHOW();
BARRIER();
PRODUCTS_BEGIN();
MULTIPLY_KEYS(0)
PRODUCTS_END();
PRODUCTS_WAIT(0);
PRODUCTS_KEEP(score, TILE_KEYS / 2);

/* Turns scores of the side's keys from `first` on into weights. Pasted for the first block and
 * again for the others. */
//@ attention_warpgroup_weights
#if !ATTENTION_FOLDED
UNROLL for (int j = 0; j < TILE_KEYS / 2; j++) score[j] *= shape.scale;
#endif
if (ATTENTION_BIASED || first + TILE_KEYS > seen_by_all) {
  UNROLL for (int half = 0; half < 2; half++) {
    const INDEX row = row0 + 8 * half, key = first + quad * 2;
    const INDEX left = (row < shape.queries ? ATTENTION_SEEN(row) : 0) - key;
    UNROLL for (int j = 0; j < TILE_KEYS / 4; j++) {
      const int more = j / 2 * 8 + j % 2;
      const boolean visible = more < left;
      f32 *const at = score + j / 2 * 4 + half * 2 + j % 2;
#if ATTENTION_BIASED
      if (visible) *at += ATTENTION_BIAS(row, key + more) * ATTENTION_UNIT;
#endif
      *at = visible ? *at : ATTENTION_LOWEST;
    }
  }
}
UNROLL for (int half = 0; half < 2; half++) {
  f32 largest = peak[half];
  UNROLL for (int j = 0; j < TILE_KEYS / 4; j++) largest =
      BUILTIN_f32(fmax)(largest, score[j / 2 * 4 + half * 2 + j % 2]);
  UNROLL for (int step = 1; step < 4; step *= 2) {
    const f32 other = ATTENTION_SHUFFLE(largest, step);
    largest = BUILTIN_f32(fmax)(largest, other);
  }
  const f32 shift = ATTENTION_SHIFT(largest);
  f32 part[2] = {0, 0};
  shrink[half] = peak[half] == largest ? 1 : ATTENTION_WEIGHT(peak[half], shift);
  peak[half] = largest;
  UNROLL for (int j = 0; j < TILE_KEYS / 4; j++) {
    f32 *const at = score + j / 2 * 4 + half * 2 + j % 2;
    *at = ATTENTION_SHARE(ATTENTION_WEIGHT(*at, shift));
    part[j % 2] += *at;
  }
  total[half] = total[half] * shrink[half] + (part[0] + part[1]);
}

/* The body of a loop over the other blocks extends from here to attention_warpgroup_sums. */
//@ attention_warpgroup_scores
const int now = stage + 1 < STAGES ? stage + 1 : 0, next = now + 1 < STAGES ? now + 1 : 0;
first += BLOCK_KEYS;
COPIES_WAIT(0);
SLABS_SHOW();
BARRIER();
if (block + BLOCK_KEYS < end) COPY_BLOCK(next, block + BLOCK_KEYS)
COPIES_END();
PRODUCTS_BEGIN();
MULTIPLY_KEYS(now)
PRODUCTS_END();
MULTIPLY_VALUES(stage)
PRODUCTS_END();
PRODUCTS_WAIT(1);
PRODUCTS_KEEP(score, TILE_KEYS / 2);

//@ attention_warpgroup_sums
PRODUCTS_WAIT(0);
PRODUCTS_KEEP(sum, TILE_COLUMNS / 2);
SHRINK_SUMS()
SPLIT_WEIGHTS()
stage = now;

/* Adds the last block and the sums of other sides, and stores the results. */
//@ attention_warpgroup_end
PRODUCTS_BEGIN();
MULTIPLY_VALUES(stage)
PRODUCTS_END();
PRODUCTS_WAIT(0);
PRODUCTS_KEEP(sum, TILE_COLUMNS / 2);
#if SIDES > 1
LOCAL f32 *const shown = (LOCAL f32 *)room;
BARRIER();
if (side > 0) {
  LOCAL f32 *const to =
      shown + (side - 1) * (TILE_COLUMNS / 2 + 4) * SIDE_ITEMS + lane % SIDE_ITEMS;
  UNROLL for (int half = 0; half < 2; half++) {
    to[half * SIDE_ITEMS] = peak[half];
    to[(2 + half) * SIDE_ITEMS] = total[half];
  }
  UNROLL for (int j = 0; j < TILE_COLUMNS / 2; j++) to[(4 + j) * SIDE_ITEMS] = sum[j];
}
BARRIER();
UNROLL for (int other = 0; other < SIDES - 1; other++) {
  if (side == 0) {
    LOCAL const f32 *const from = shown + other * (TILE_COLUMNS / 2 + 4) * SIDE_ITEMS + lane;
    UNROLL for (int half = 0; half < 2; half++) {
      const f32 its = from[half * SIDE_ITEMS], largest = BUILTIN_f32(fmax)(peak[half], its);
      const f32 shift = ATTENTION_SHIFT(largest);
      const f32 part = ATTENTION_WEIGHT(peak[half], shift), its_part = ATTENTION_WEIGHT(its, shift);
      peak[half] = largest;
      total[half] = total[half] * part + from[(2 + half) * SIDE_ITEMS] * its_part;
      UNROLL for (int j = 0; j < TILE_COLUMNS / 4; j++) {
        const int i = j / 2 * 4 + half * 2 + j % 2;
        sum[i] = sum[i] * part + from[(4 + i) * SIDE_ITEMS] * its_part;
      }
    }
  }
}
#endif
const boolean result_whole = ATTENTION_RESULT_WHOLE;
UNROLL for (int half = 0; half < 2; half++) {
  const INDEX row = row0 + 8 * half;
  const boolean inside = side == 0 && row < shape.queries;
  UNROLL for (int step = 1; step < 4; step *= 2) {
    const f32 other = ATTENTION_SHUFFLE(total[half], step);
    total[half] += other;
  }
  const f32 part = 1.0f / total[half];
  UNROLL for (int j = 0; j < TILE_COLUMNS / 4; j++) {
    f32 *const at = sum + j / 2 * 4 + half * 2 + j % 2;
    *at = total[half] == 0 ? ATTENTION_BLIND(*at) : *at * part;
  }
  if (result_whole) {
    UNROLL for (int j = 0; j < TILE_COLUMNS / 8; j++) {
      const INDEX c = column + j * 8 + quad * 2;
      const u32 word = MATRIX_PACK(sum[4 * j + half * 2], sum[4 * j + half * 2 + 1]);
      const u16 pair[2] = {(u16)(word & 0xffff), (u16)(word >> 16)};
      if (inside && c < shape.columns) VSTORE(2, u16, ATTENTION_RESULT_AT(row, c), pair);
    }
  } else if (inside) {
    UNROLL for (int j = 0; j < TILE_COLUMNS / 4; j++) {
      const INDEX c = column + j / 2 * 8 + quad * 2 + j % 2;
      if (c < shape.columns) {
        ATTENTION_STORE(row, c, sum[j / 2 * 4 + half * 2 + j % 2])
      }
    }
  }
}
