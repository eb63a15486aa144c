/* SPDX-License-Identifier: MIT */
/* Configured by
 *
 *   VALUE                        type of scores and sums
 *   ATTENTION_EXP(x)
 *   ATTENTION_MAD(a, b, c)
 *   ATTENTION_LOWEST             minus infinity
 *   ATTENTION_CAUSAL             whether queries see no keys after their own
 *   ATTENTION_BIASED
 *   ATTENTION_QUERY(i, j), _KEY(i, j), _VALUE(i, j), _BIAS(i, j), _STORE(i, j, value)
 *                                elements of the batch at hand
 *
 * Scores that are minus infinity weigh nothing, and a query that sees no other gives 0: until a
 * larger score is found, exponentials are those of the scores themselves. A NaN is the largest. */
//@ attention
#define ATTENTION_LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define ATTENTION_SHIFT(peak)  ((peak) == ATTENTION_LOWEST ? (VALUE)0 : (peak))
#define ATTENTION_SHRINK(old, peak)                                                                \
  ((old) == (peak) ? (VALUE)1 : ATTENTION_EXP((old)-ATTENTION_SHIFT(peak)))
#if ATTENTION_CAUSAL
#define ATTENTION_SEEN(query) attention_seen((query) + 1 + shape.keys - shape.queries, shape.keys)
#else
#define ATTENTION_SEEN(query) shape.keys
#endif
DEVICE INDEX attention_seen(INDEX last, INDEX keys) {
  return last < 0 ? 0 : last < keys ? last : keys;
}

/* The body of a loop: columns column … of the result of a query, ATTENTION_COLUMNS at most, over
 * blocks of ATTENTION_KEYS keys. Configured as attention. */
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
    score[n] = product * shape.scale + ATTENTION_BIAS(query, first + n);
#else
    score[n] = product * shape.scale;
#endif
    largest = ATTENTION_LARGER(score[n], largest);
  }
  const VALUE shift = ATTENTION_SHIFT(largest), shrink = ATTENTION_SHRINK(peak, largest);
  for (int n = 0; n < keys; n++) {
    score[n] = ATTENTION_EXP(score[n] - shift);
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
    const VALUE result = total == 0 ? (VALUE)0 : sum[c] / total;
    ATTENTION_STORE(query, column + c, result)
  }
}

/* TILE_QUERIES queries from `query` on and TILE_COLUMNS columns of V from `column` on, by a group
 * of TILE_DOWN × TILE_ACROSS items. An item holds the scores of queries down + i · TILE_DOWN for
 * the keys across + j · TILE_ACROSS of a block of TILE_KEYS, and sums for the same queries and
 * columns across + j · TILE_ACROSS. Q and K pass in slices TILE_WIDTH wide. Configured as
 * attention.
 *
 * All items of a query know its largest score; each has a total of its own, for its keys. */
//@ attention_tile
#define TILE_GROUP  (TILE_DOWN * TILE_ACROSS)
#define ITEM_ROWS   (TILE_QUERIES / TILE_DOWN)
#define ITEM_KEYS   (TILE_KEYS / TILE_ACROSS)
#define ITEM_SUMS   (TILE_COLUMNS / TILE_ACROSS)
#define SLICE_PITCH (TILE_WIDTH + 1)
LOCAL_ARRAY(VALUE, queries, TILE_QUERIES *SLICE_PITCH);
LOCAL_ARRAY(VALUE, keys, TILE_KEYS *SLICE_PITCH);
LOCAL_ARRAY(VALUE, weights, TILE_QUERIES *(TILE_KEYS + 1));
LOCAL_ARRAY(VALUE, values, TILE_KEYS *TILE_COLUMNS);
LOCAL_ARRAY(VALUE, peaks, TILE_QUERIES *(TILE_ACROSS + 1));
const int lane = (int)LOCAL_ID_X, down = lane / TILE_ACROSS, across = lane % TILE_ACROSS;
const INDEX last =
    shape.queries - query < TILE_QUERIES ? shape.queries - 1 : query + TILE_QUERIES - 1;
const INDEX end = ATTENTION_SEEN(last);
VALUE sum[ITEM_ROWS][ITEM_SUMS], peak[ITEM_ROWS], total[ITEM_ROWS];
INDEX seen[ITEM_ROWS];
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  const INDEX row = query + down + i * TILE_DOWN;
  seen[i] = row < shape.queries ? ATTENTION_SEEN(row) : 0;
  peak[i] = ATTENTION_LOWEST;
  total[i] = 0;
  UNROLL for (int j = 0; j < ITEM_SUMS; j++) sum[i][j] = 0;
}
for (INDEX first = 0; first < end; first += TILE_KEYS) {
  VALUE score[ITEM_ROWS][ITEM_KEYS];
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) score[i][j] = 0;
  }
  for (int slot = lane; slot < TILE_KEYS * TILE_COLUMNS; slot += TILE_GROUP) {
    const int n = slot / TILE_COLUMNS, c = slot % TILE_COLUMNS;
    VALUE value = 0;
    if (first + n < end && column + c < shape.columns)
      value = ATTENTION_VALUE(first + n, column + c);
    values[slot] = value;
  }
  for (INDEX slice = 0; slice < shape.width; slice += TILE_WIDTH) {
    for (int slot = lane; slot < TILE_QUERIES * TILE_WIDTH; slot += TILE_GROUP) {
      const int m = slot / TILE_WIDTH, w = slot % TILE_WIDTH;
      VALUE value = 0;
      if (query + m < shape.queries && slice + w < shape.width)
        value = ATTENTION_QUERY(query + m, slice + w);
      queries[m * SLICE_PITCH + w] = value;
    }
    for (int slot = lane; slot < TILE_KEYS * TILE_WIDTH; slot += TILE_GROUP) {
      const int n = slot / TILE_WIDTH, w = slot % TILE_WIDTH;
      VALUE value = 0;
      if (first + n < end && slice + w < shape.width) value = ATTENTION_KEY(first + n, slice + w);
      keys[n * SLICE_PITCH + w] = value;
    }
    BARRIER();
    UNROLL for (int w = 0; w < TILE_WIDTH; w++) {
      VALUE of_key[ITEM_KEYS];
      UNROLL for (int j = 0; j < ITEM_KEYS; j++) of_key[j] =
          keys[(across + j * TILE_ACROSS) * SLICE_PITCH + w];
      UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
        const VALUE of_query = queries[(down + i * TILE_DOWN) * SLICE_PITCH + w];
        UNROLL for (int j = 0; j < ITEM_KEYS; j++) score[i][j] =
            ATTENTION_MAD(of_query, of_key[j], score[i][j]);
      }
    }
    BARRIER();
  }
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    VALUE largest = ATTENTION_LOWEST;
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) {
      const INDEX key = first + across + j * TILE_ACROSS;
      VALUE value = ATTENTION_LOWEST;
      if (key < seen[i]) {
        value = score[i][j] * shape.scale;
#if ATTENTION_BIASED
        value += ATTENTION_BIAS(query + down + i * TILE_DOWN, key);
#endif
      }
      score[i][j] = value;
      largest = ATTENTION_LARGER(value, largest);
    }
    peaks[(down + i * TILE_DOWN) * (TILE_ACROSS + 1) + across] = largest;
  }
  BARRIER();
  UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
    const int m = down + i * TILE_DOWN;
    VALUE largest = peak[i], part = 0;
    for (int j = 0; j < TILE_ACROSS; j++) {
      const VALUE other = peaks[m * (TILE_ACROSS + 1) + j];
      largest = ATTENTION_LARGER(other, largest);
    }
    const VALUE shift = ATTENTION_SHIFT(largest), shrink = ATTENTION_SHRINK(peak[i], largest);
    UNROLL for (int j = 0; j < ITEM_KEYS; j++) {
      const VALUE weight = ATTENTION_EXP(score[i][j] - shift);
      weights[m * (TILE_KEYS + 1) + across + j * TILE_ACROSS] = weight;
      part += weight;
    }
    peak[i] = largest;
    total[i] = total[i] * shrink + part;
    UNROLL for (int j = 0; j < ITEM_SUMS; j++) sum[i][j] *= shrink;
  }
  BARRIER();
  for (int n = 0; n < TILE_KEYS; n++) {
    VALUE value[ITEM_SUMS];
    UNROLL for (int j = 0; j < ITEM_SUMS; j++) value[j] =
        values[n * TILE_COLUMNS + across + j * TILE_ACROSS];
    UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
      const VALUE weight = weights[(down + i * TILE_DOWN) * (TILE_KEYS + 1) + n];
#if ATTENTION_CAUSAL
      if (first + n >= seen[i]) continue; /* whatever V holds there */
#endif
      UNROLL for (int j = 0; j < ITEM_SUMS; j++) sum[i][j] =
          ATTENTION_MAD(weight, value[j], sum[i][j]);
    }
  }
  BARRIER();
}
UNROLL for (int i = 0; i < ITEM_ROWS; i++)
    peaks[(down + i * TILE_DOWN) * (TILE_ACROSS + 1) + across] = total[i];
BARRIER();
UNROLL for (int i = 0; i < ITEM_ROWS; i++) {
  const INDEX row = query + down + i * TILE_DOWN;
  VALUE all = 0;
  for (int j = 0; j < TILE_ACROSS; j++)
    all += peaks[(down + i * TILE_DOWN) * (TILE_ACROSS + 1) + j];
  UNROLL for (int j = 0; j < ITEM_SUMS; j++) {
    const INDEX c = column + across + j * TILE_ACROSS;
    if (row < shape.queries && c < shape.columns) {
      const VALUE result = all == 0 ? (VALUE)0 : sum[i][j] / all;
      ATTENTION_STORE(row, c, result)
    }
  }
}
