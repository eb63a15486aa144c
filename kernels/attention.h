/* SPDX-License-Identifier: MIT */
/* Attention. Configured by
 *
 *   VALUE                        type of scores and sums
 *   ATTENTION_EXP(x)             the exponential of scores in units of 1 / ATTENTION_UNIT, a factor
 *                                that shape.scale includes
 *   ATTENTION_MAD(a, b, c)
 *   ATTENTION_LOWEST             minus infinity
 *   ATTENTION_STEP(x)            converts a difference of scores for ATTENTION_EXP
 *   ATTENTION_CAUSAL             1: queries do not see later keys
 *   ATTENTION_BIASED
 *   ATTENTION_SHARED             1: weights are multiplied by shape.share
 *   ATTENTION_BLIND(sum)         the result if all weights are 0
 *   ATTENTION_QUERY(i, j), _KEY(i, j), _VALUE(i, j), _BIAS(i, j), _STORE(i, j, value)
 *                                elements of the current batch entry
 *
 * A score of minus infinity has weight 0, and a query with only such scores is blind. Until a
 * larger score is found, exponentials are taken of the scores themselves. NaN counts as the largest
 * score. */
//@ attention
#define ATTENTION_LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define ATTENTION_SHIFT(peak)  ((peak) == ATTENTION_LOWEST ? (VALUE)0 : (peak))
#define ATTENTION_SHRINK(old, peak)                                                                \
  ((old) == (peak) ? (VALUE)1 : ATTENTION_EXP(ATTENTION_STEP((old)-ATTENTION_SHIFT(peak))))
#if ATTENTION_SHARED
#define ATTENTION_SHARE(weight) ((weight)*shape.share)
#else
#define ATTENTION_SHARE(weight) (weight)
#endif
#define ATTENTION_RESULT(sum, total) ((total) == 0 ? ATTENTION_BLIND(sum) : (sum) / (total))
#if ATTENTION_CAUSAL
#define ATTENTION_SEEN(query) attention_seen((query) + 1 + shape.keys - shape.queries, shape.keys)
#else
#define ATTENTION_SEEN(query) shape.keys
#endif
DEVICE INDEX attention_seen(INDEX last, INDEX keys) {
  return last < 0 ? 0 : last < keys ? last : keys;
}

/* The body of a loop: computes up to ATTENTION_COLUMNS columns of a query's result from `column`
 * on, over blocks of ATTENTION_KEYS keys. Configured as attention. */
//@ attention_item
const INDEX seen = ATTENTION_SEEN(query), left = shape.columns - column;
const int columns = left < ATTENTION_COLUMNS ? (int)left : ATTENTION_COLUMNS;
VALUE sum[ATTENTION_COLUMNS];
VALUE peak = ATTENTION_LOWEST, total = 0;
for (int c = 0; c < ATTENTION_COLUMNS; c++) sum[c] = 0;
for (INDEX first = 0; first < seen; first += ATTENTION_KEYS) {
  const int keys = seen - first < ATTENTION_KEYS ? (int)(seen - first) : ATTENTION_KEYS;
  VALUE score[ATTENTION_KEYS], largest = peak, weights = 0;
  for (int n = 0; n < keys; n++) {
    VALUE product = 0;
    for (INDEX w = 0; w < shape.width; w++)
      product = ATTENTION_MAD(ATTENTION_QUERY(query, w), ATTENTION_KEY(first + n, w), product);
#if ATTENTION_BIASED
    score[n] = product * shape.scale + ATTENTION_BIAS(query, first + n) * ATTENTION_UNIT;
#else
    score[n] = product * shape.scale;
#endif
    largest = ATTENTION_LARGER(score[n], largest);
  }
  const VALUE shift = ATTENTION_SHIFT(largest), shrink = ATTENTION_SHRINK(peak, largest);
  for (int n = 0; n < keys; n++) {
    score[n] = ATTENTION_SHARE(ATTENTION_EXP(ATTENTION_STEP(score[n] - shift)));
    weights += score[n];
  }
  total = total * shrink + weights;
  peak = largest;
  for (int c = 0; c < ATTENTION_COLUMNS; c++) sum[c] *= shrink;
  for (int n = 0; n < keys; n++) {
    const VALUE weight = score[n];
#ifdef FOR_CPU
    INDEPENDENT for (int c = 0; c < columns; c++) sum[c] =
        ATTENTION_MAD(weight, ATTENTION_VALUE(first + n, column + c), sum[c]);
#else
    UNROLL for (int c = 0; c < ATTENTION_COLUMNS; c++) {
      if (c < columns)
        sum[c] = ATTENTION_MAD(weight, ATTENTION_VALUE(first + n, column + c), sum[c]);
    }
#endif
  }
}
for (int c = 0; c < ATTENTION_COLUMNS; c++) {
  if (c < columns) {
    const VALUE result = ATTENTION_RESULT(sum[c], total);
    ATTENTION_STORE(query, column + c, result)
  }
}

/* Computes TILE_QUERIES queries from `query` on and TILE_COLUMNS columns of V from `column` on, by
 * a group of TILE_SIDES × TILE_DOWN × TILE_ACROSS items.
 *
 * Each side processes its TILE_KEYS keys of a block; the sums of the sides are combined at the end.
 * An item computes the scores of queries down + i · TILE_DOWN for the keys across + j · TILE_ACROSS
 * of its side, and the sums for the same queries and every TILE_ACROSS-th quad of columns. Q and K
 * pass through local memory in slices TILE_WIDTH wide. If one slice covers the width, Q stays
 * there. With TILE_COPIES, which requires a single slice, K is copied while the weights of the
 * previous block are multiplied, and V is copied while scores are computed. Lines of local memory
 * end with four values of padding, which put neighbouring lines on different banks and keep quads
 * whole. Configured as attention, and by
 *
 *   ATTENTION_SHUFFLE            exchanges values between the items of a query, if they can
 *   ATTENTION_QUERY_AT(i, j), _KEY_AT, _VALUE_AT      addresses of elements
 *   ATTENTION_QUERY_WHOLE, _KEY_WHOLE, _VALUE_WHOLE   1: four neighbours are one load
 *
 * All items of a query have its largest score; each has a separate total for its keys. */
//@ attention_tile
#define ITEM_ROWS     (TILE_QUERIES / TILE_DOWN)
#define ITEM_KEYS     (TILE_KEYS / TILE_ACROSS)
#define ITEM_QUADS    (TILE_COLUMNS / TILE_ACROSS / 4)
#define SLICE_PITCH   (TILE_WIDTH + 4)
#define WEIGHT_PITCH  (TILE_KEYS + 8)
#define PEAK_PITCH    (TILE_ACROSS + 1)
#define QUERY_VALUES  (TILE_QUERIES * SLICE_PITCH)
#define BLOCK_KEYS    (TILE_KEYS * TILE_SIDES)
#define KEY_VALUES    (BLOCK_KEYS * SLICE_PITCH)
#define WEIGHT_VALUES (TILE_SIDES * TILE_QUERIES * WEIGHT_PITCH)
#define SIDE_ITEMS    (TILE_DOWN * TILE_ACROSS)
#define SHOWN_VALUES  (ITEM_ROWS * (ITEM_QUADS * 4 + 2)) /* passed by an item to another side */
#if defined(__OPENCL_VERSION__)
typedef VECTOR_PASTE(VALUE, x4) QUAD;
#define QUAD_LOAD(array, pointer)  vstore4(vload4(0, pointer), 0, array)
#define QUAD_STORE(pointer, array) vstore4(vload4(0, array), 0, pointer)
#elif defined(__CUDACC__)
typedef vector_of<VALUE, 4> QUAD;
#define QUAD_LOAD(array, pointer)  VLOAD(4, VALUE, array, pointer)
#define QUAD_STORE(pointer, array) VSTORE(4, VALUE, pointer, array)
#else
typedef struct __attribute__((aligned(4 * sizeof(VALUE)))) QUAD {
  VALUE element[4];
} QUAD;
#define QUAD_LOAD(array, pointer)  VLOAD(4, VALUE, array, pointer)
#define QUAD_STORE(pointer, array) VSTORE(4, VALUE, pointer, array)
#endif
TILE_ARRAY(QUAD, room, TILE_QUADS);
LOCAL VALUE *const queries = (LOCAL VALUE *)room;
LOCAL VALUE *const keys = queries + QUERY_VALUES;
LOCAL VALUE *const values = keys + KEY_VALUES;
const int lane = (int)LOCAL_ID_X, side = lane / SIDE_ITEMS;
const int down = lane % SIDE_ITEMS / TILE_ACROSS, across = lane % TILE_ACROSS;
LOCAL VALUE *const weights =
    values + BLOCK_KEYS * TILE_COLUMNS + side * TILE_QUERIES * WEIGHT_PITCH;
LOCAL const VALUE *const side_keys = keys + side * TILE_KEYS * SLICE_PITCH;
LOCAL const VALUE *const side_values = values + side * TILE_KEYS * TILE_COLUMNS;
#ifndef ATTENTION_SHUFFLE
LOCAL_ARRAY(VALUE, all_peaks, TILE_SIDES *TILE_QUERIES *PEAK_PITCH);
LOCAL VALUE *const peaks = all_peaks + side * TILE_QUERIES * PEAK_PITCH;
#endif
const boolean query_whole = ATTENTION_QUERY_WHOLE, key_whole = ATTENTION_KEY_WHOLE;
const boolean value_whole = ATTENTION_VALUE_WHOLE;
const INDEX last =
    shape.queries - query < TILE_QUERIES ? shape.queries - 1 : query + TILE_QUERIES - 1;
const INDEX end = ATTENTION_SEEN(last);
const INDEX seen_by_all = ATTENTION_SEEN(query);
VALUE sum[ITEM_ROWS][ITEM_QUADS * 4], peak[ITEM_ROWS], total[ITEM_ROWS];
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  peak[i] = ATTENTION_LOWEST;
  total[i] = 0;
  UNROLL for (int j = 0; j < ITEM_QUADS * 4; j++) sum[i][j] = 0;
}
#if TILE_COPIES
#define QUAD_COPY COPY_PART
#else
#define QUAD_COPY(to, from, bytes) ((void)0)
#endif
/* Elements outside are 0. They are loaded from an address inside, so loads have no condition. */
#define ATTENTION_FETCH(LINE, whole, to, pitch, lines, width, first_line, end_line, first_place,   \
                        end_place)                                                                 \
  UNROLL for (int slot = lane; slot < (lines) * ((width) / 4); slot += TILE_GROUP) {               \
    const int down_ = slot / ((width) / 4), over_ = slot % ((width) / 4) * 4;                      \
    const boolean inside = (first_line) + down_ < (end_line);                                      \
    const INDEX line_ = inside ? (first_line) + down_ : (first_line);                              \
    VALUE quad_[4];                                                                                \
    if (TILE_COPIES && (whole)) {                                                                  \
      const boolean there_ = inside && (first_place) + over_ < (end_place);                        \
      QUAD_COPY((to) + down_ * (pitch) + over_,                                                    \
                LINE##_AT(line_, there_ ? (first_place) + over_ : (first_place)),                  \
                there_ ? 16 : 0);                                                                  \
      continue;                                                                                    \
    }                                                                                              \
    if (whole) {                                                                                   \
      const boolean there_ = inside && (first_place) + over_ < (end_place);                        \
      VLOAD(4, VALUE, quad_, LINE##_AT(line_, there_ ? (first_place) + over_ : (first_place)));    \
      UNROLL for (int e_ = 0; e_ < 4; e_++) quad_[e_] = there_ ? quad_[e_] : 0;                    \
    } else {                                                                                       \
      UNROLL for (int e_ = 0; e_ < 4; e_++) {                                                      \
        const boolean there_ = inside && (first_place) + over_ + e_ < (end_place);                 \
        const VALUE value_ = LINE(line_, there_ ? (first_place) + over_ + e_ : (first_place));     \
        quad_[e_] = there_ ? value_ : 0;                                                           \
      }                                                                                            \
    }                                                                                              \
    QUAD_STORE((to) + down_ * (pitch) + over_, quad_);                                             \
  }
#define FETCH_QUERIES(slice)                                                                       \
  {                                                                                                \
    ATTENTION_FETCH(ATTENTION_QUERY, query_whole, queries, SLICE_PITCH, TILE_QUERIES, TILE_WIDTH,  \
                    query, shape.queries, slice, shape.width)                                      \
  }
#define FETCH_KEYS(block, slice)                                                                   \
  {                                                                                                \
    ATTENTION_FETCH(ATTENTION_KEY, key_whole, keys, SLICE_PITCH, BLOCK_KEYS, TILE_WIDTH, block,    \
                    end, slice, shape.width)                                                       \
  }
#define FETCH_VALUES(block)                                                                        \
  {                                                                                                \
    ATTENTION_FETCH(ATTENTION_VALUE, value_whole, values, TILE_COLUMNS, BLOCK_KEYS, TILE_COLUMNS,  \
                    block, end, column, shape.columns)                                             \
  }
/* Limits unrolling: the fully unrolled product of 8 × 8 scores would exceed the instruction
 * cache. */
#define WIDTH_ROUND (TILE_WIDTH % 16 == 0 ? 16 : 4)
#define KEYS_ROUND  (TILE_KEYS % 16 == 0 ? 16 : 8)
#if defined(__CUDACC__)
#define ROUNDS _Pragma("unroll 1")
#else
#define ROUNDS UNROLL
#endif
#define MULTIPLY_KEYS()                                                                            \
  ROUNDS for (int from = 0; from < TILE_WIDTH; from += WIDTH_ROUND) {                              \
    UNROLL for (int w = from; w < from + WIDTH_ROUND; w += 4) {                                    \
      VALUE of_query[ITEM_ROWS][4];                                                                \
      UNROLL for (int i = 0; i < ITEM_ROWS; i++)                                                   \
          QUAD_LOAD(of_query[i], queries + (down + i * TILE_DOWN) * SLICE_PITCH + w);              \
      UNROLL for (int j = 0; j < ITEM_KEYS; j++) {                                                 \
        VALUE of_key[4];                                                                           \
        QUAD_LOAD(of_key, side_keys + (across + j * TILE_ACROSS) * SLICE_PITCH + w);               \
        UNROLL for (int i = 0; i < ITEM_ROWS; i++) {                                               \
          UNROLL for (int v = 0; v < 4; v++) score[i][j] =                                         \
              ATTENTION_MAD(of_query[i][v], of_key[v], score[i][j]);                               \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }
#if TILE_COPIES
if (end > 0) {
  FETCH_QUERIES(0)
  FETCH_KEYS(0, 0)
}
COPIES_END();
#endif
for (INDEX block = 0; block < end; block += BLOCK_KEYS) {
  const INDEX first = block + side * TILE_KEYS;
  VALUE score[ITEM_ROWS][ITEM_KEYS];
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) score[i][j] = 0;
  }
#if TILE_COPIES
  COPIES_WAIT(0);
  BARRIER();
  FETCH_VALUES(block)
  COPIES_END();
  MULTIPLY_KEYS()
#else
  FETCH_VALUES(block)
  for (INDEX slice = 0; slice < shape.width; slice += TILE_WIDTH) {
    if (block == 0 || shape.width > TILE_WIDTH) FETCH_QUERIES(slice)
    FETCH_KEYS(block, slice)
    BARRIER();
    MULTIPLY_KEYS()
    if (slice + TILE_WIDTH < shape.width) BARRIER();
  }
#endif
  VALUE largest[ITEM_ROWS];
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) score[i][j] *= shape.scale;
  }
  if (ATTENTION_BIASED || block + BLOCK_KEYS > seen_by_all) {
    UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
      const INDEX row = query + down + i * TILE_DOWN;
      const INDEX left = (row < shape.queries ? ATTENTION_SEEN(row) : 0) - first - across;
      UNROLL for (int j = 0; j < ITEM_KEYS; j++) {
        const boolean visible = j * TILE_ACROSS < left;
#if ATTENTION_BIASED
        if (visible)
          score[i][j] += ATTENTION_BIAS(row, first + across + j * TILE_ACROSS) * ATTENTION_UNIT;
#endif
        score[i][j] = visible ? score[i][j] : ATTENTION_LOWEST;
      }
    }
  }
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    largest[i] = peak[i];
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) largest[i] =
        ATTENTION_LARGER(score[i][j], largest[i]);
  }
#ifdef ATTENTION_SHUFFLE
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    UNROLL for (int step = TILE_ACROSS / 2; step > 0; step /= 2) {
      const VALUE other = ATTENTION_SHUFFLE(largest[i], step);
      largest[i] = ATTENTION_LARGER(other, largest[i]);
    }
  }
#else
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) peaks[(down + i * TILE_DOWN) * PEAK_PITCH + across] =
      largest[i];
  BARRIER();
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    for (int j = 0; j < TILE_ACROSS; j++) {
      const VALUE other = peaks[(down + i * TILE_DOWN) * PEAK_PITCH + j];
      largest[i] = ATTENTION_LARGER(other, largest[i]);
    }
  }
#endif
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    const VALUE shift = ATTENTION_SHIFT(largest[i]);
    const VALUE shrink = ATTENTION_SHRINK(peak[i], largest[i]);
    VALUE part = 0;
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) {
      const VALUE weight = ATTENTION_SHARE(ATTENTION_EXP(ATTENTION_STEP(score[i][j] - shift)));
      weights[(down + i * TILE_DOWN) * WEIGHT_PITCH + across + j * TILE_ACROSS] = weight;
      part += weight;
    }
    peak[i] = largest[i];
    total[i] = total[i] * shrink + part;
    UNROLL for (int j = 0; j < ITEM_QUADS * 4; j++) sum[i][j] *= shrink;
  }
#if TILE_COPIES
  COPIES_WAIT(0);
  BARRIER();
  if (block + BLOCK_KEYS < end) FETCH_KEYS(block + BLOCK_KEYS, 0)
  COPIES_END();
#else
  BARRIER();
#endif
  ROUNDS for (int from = 0; from < TILE_KEYS; from += KEYS_ROUND) {
    UNROLL for (int n = from; n < from + KEYS_ROUND; n += 4) {
      VALUE weight[ITEM_ROWS][4];
      UNROLL for (int i = 0; i < ITEM_ROWS; i++)
          QUAD_LOAD(weight[i], weights + (down + i * TILE_DOWN) * WEIGHT_PITCH + n);
      UNROLL for (int v = 0; v < 4; v++) {
        UNROLL for (int piece = 0; piece < ITEM_QUADS; piece++) {
          VALUE value[4];
          QUAD_LOAD(value,
                    side_values + (n + v) * TILE_COLUMNS + (across + piece * TILE_ACROSS) * 4);
          UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
            UNROLL for (int c = 0; c < 4; c++) sum[i][piece * 4 + c] =
                ATTENTION_MAD(weight[i][v], value[c], sum[i][piece * 4 + c]);
          }
        }
      }
    }
  }
#if !TILE_COPIES
  BARRIER();
#endif
}
#ifdef ATTENTION_SHUFFLE
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  UNROLL for (int step = TILE_ACROSS / 2; step > 0; step /= 2) {
    const VALUE other = ATTENTION_SHUFFLE(total[i], step);
    total[i] += other;
  }
}
#else
UNROLL for (int i = 0; i < ITEM_ROWS; i++) peaks[(down + i * TILE_DOWN) * PEAK_PITCH + across] =
    total[i];
BARRIER();
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  total[i] = 0;
  for (int j = 0; j < TILE_ACROSS; j++) total[i] += peaks[(down + i * TILE_DOWN) * PEAK_PITCH + j];
}
#endif
#if TILE_SIDES > 1
BARRIER();
if (side > 0) {
  LOCAL VALUE *const to = queries + (side - 1) * SHOWN_VALUES * SIDE_ITEMS + lane % SIDE_ITEMS;
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    LOCAL VALUE *const shown = to + i * (ITEM_QUADS * 4 + 2) * SIDE_ITEMS;
    shown[0] = peak[i];
    shown[SIDE_ITEMS] = total[i];
    UNROLL for (int j = 0; j < ITEM_QUADS * 4; j++) shown[(j + 2) * SIDE_ITEMS] = sum[i][j];
  }
}
BARRIER();
UNROLL for (int other = 0; other < TILE_SIDES - 1; other++) {
  LOCAL const VALUE *const from = queries + other * SHOWN_VALUES * SIDE_ITEMS + lane % SIDE_ITEMS;
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    LOCAL const VALUE *const shown = from + i * (ITEM_QUADS * 4 + 2) * SIDE_ITEMS;
    const VALUE largest = ATTENTION_LARGER(shown[0], peak[i]);
    const VALUE part = ATTENTION_SHRINK(peak[i], largest);
    const VALUE its_part = ATTENTION_SHRINK(shown[0], largest);
    peak[i] = largest;
    total[i] = total[i] * part + shown[SIDE_ITEMS] * its_part;
    UNROLL for (int j = 0; j < ITEM_QUADS * 4; j++) sum[i][j] =
        sum[i][j] * part + shown[(j + 2) * SIDE_ITEMS] * its_part;
  }
}
#endif
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  const INDEX row = query + down + i * TILE_DOWN;
  UNROLL for (int j = 0; j < ITEM_QUADS * 4; j++) {
    const INDEX c = column + (across + j / 4 * TILE_ACROSS) * 4 + j % 4;
    if (side == 0 && row < shape.queries && c < shape.columns) {
      const VALUE result = ATTENTION_RESULT(sum[i][j], total[i]);
      ATTENTION_STORE(row, c, result)
    }
  }
}
