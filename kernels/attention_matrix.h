/* SPDX-License-Identifier: MIT */
/* Attention on matrix units, as gemm_matrix.h describes them: f16 or bf16 operands, sums and
 * softmax in f32. Configured as attention_tile, with TILE_WIDTH the whole width of Q and K, and
 *
 *   MATRIX_MULTIPLY(sum, a, b)
 *   MATRIX_PACK(low, high)              two f32 as elements of a word
 *   MATRIX_WIDEN(bits)                  one of them as f32
 *   ATTENTION_QUERY_AT(i, j), _KEY_AT, _VALUE_AT      addresses of elements
 *   ATTENTION_QUERY_WHOLE, _KEY_WHOLE, _VALUE_WHOLE   whether eight neighbours are one load
 *
 * Each warp has WARP_ROWS queries. Lane l holds scores and sums of the queries l / 4 and l / 4 + 8
 * of each 16, for columns 2 · (l % 4) and the next of each 8. That is also what the units want of a
 * left factor: weights never leave their registers. They are multiplied as the sum of two elements,
 * of which the second is what rounding took from the first. K lies in local memory as it is, V with
 * its columns as lines. */
//@ attention_matrix
#define WARP_ROWS   (TILE_QUERIES / (TILE_GROUP / 32))
#define ROW_BLOCKS  (WARP_ROWS / 16)
#define KEY_BLOCKS  (TILE_KEYS / 8)
#define SUM_BLOCKS  (TILE_COLUMNS / 8)
#define STEPS       (TILE_WIDTH / 16)
#define WIDTH_PITCH (TILE_WIDTH + 8)
#define VALUE_PITCH (TILE_COLUMNS + 8)
#define QUERY_ROOM  (TILE_QUERIES * WIDTH_PITCH)
#define KEY_ROOM    (TILE_KEYS * WIDTH_PITCH)
#define BLOCK_ROOM  (KEY_ROOM + TILE_KEYS * VALUE_PITCH)
#if defined(__CUDACC__)
typedef vector_of<u16, 8> PIECE;
#else
typedef struct __attribute__((aligned(16))) PIECE {
  u16 element[8];
} PIECE;
#endif
/* Eight neighbours of a line, 0 where there are none. */
#define MATRIX_FETCH(piece, AT, whole, line, end_line, place, end_place)                           \
  {                                                                                                \
    const boolean inside_ = (line) < (end_line) && (place) < (end_place);                          \
    const INDEX line_ = inside_ ? (line) : (end_line)-1, place_ = inside_ ? (place) : 0;           \
    if (whole) {                                                                                   \
      VLOAD(8, u16, piece, AT(line_, place_));                                                     \
      UNROLL for (int e_ = 0; e_ < 8; e_++) piece[e_] = inside_ ? piece[e_] : (u16)0;              \
    } else {                                                                                       \
      UNROLL for (int e_ = 0; e_ < 8; e_++) {                                                      \
        const boolean there_ = inside_ && place_ + e_ < (end_place);                               \
        const u16 element_ = *AT(line_, there_ ? place_ + e_ : 0);                                 \
        piece[e_] = there_ ? element_ : (u16)0;                                                    \
      }                                                                                            \
    }                                                                                              \
  }
#define MATRIX_LINES(to, lines, elements, AT, whole, first_line, end_line, first_place, end_place) \
  UNROLL for (int slot = lane; slot < (lines) * ((elements) / 8); slot += TILE_GROUP) {            \
    const int line_at = slot / ((elements) / 8), place_at = slot % ((elements) / 8) * 8;           \
    u16 piece[8];                                                                                  \
    MATRIX_FETCH(piece, AT, whole, (first_line) + line_at, end_line, (first_place) + place_at,     \
                 end_place)                                                                        \
    VSTORE(8, u16, (to) + line_at * ((elements) + 8) + place_at, piece);                           \
  }
LOCAL_ARRAY(PIECE, room, (QUERY_ROOM > BLOCK_ROOM ? QUERY_ROOM : BLOCK_ROOM) / 8);
LOCAL u16 *const keys = (LOCAL u16 *)room;
LOCAL u16 *const values = keys + KEY_ROOM;
const int lane = (int)LOCAL_ID_X, line = lane % 32 / 4, quad = lane % 4;
const int warp_row = lane / 32 * WARP_ROWS;
const boolean query_whole = ATTENTION_QUERY_WHOLE, key_whole = ATTENTION_KEY_WHOLE;
const boolean value_whole = ATTENTION_VALUE_WHOLE;
const INDEX last =
    shape.queries - query < TILE_QUERIES ? shape.queries - 1 : query + TILE_QUERIES - 1;
const INDEX end = ATTENTION_SEEN(last), seen_by_all = ATTENTION_SEEN(query);
u32 of_query[ROW_BLOCKS][STEPS][4];
MATRIX_LINES(keys, TILE_QUERIES, TILE_WIDTH, ATTENTION_QUERY_AT, query_whole, query, shape.queries,
             0, shape.width)
BARRIER();
UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
  UNROLL for (int step = 0; step < STEPS; step++) {
    LOAD_BLOCKS(of_query[i][step], keys + (warp_row + 16 * i + lane % 16) * WIDTH_PITCH +
                                       step * 16 + lane % 32 / 16 * 8);
  }
}
BARRIER();
f32 sum[ROW_BLOCKS][SUM_BLOCKS][4], peak[ROW_BLOCKS][2], total[ROW_BLOCKS][2];
INDEX seen[ROW_BLOCKS][2];
UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
  UNROLL for (int half = 0; half < 2; half++) {
    const INDEX row = query + warp_row + 16 * i + 8 * half + line;
    seen[i][half] = row < shape.queries ? ATTENTION_SEEN(row) : 0;
    peak[i][half] = ATTENTION_LOWEST;
    total[i][half] = 0;
  }
  UNROLL for (int j = 0; j < SUM_BLOCKS; j++) {
    UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
  }
}
for (INDEX first = 0; first < end; first += TILE_KEYS) {
  MATRIX_LINES(keys, TILE_KEYS, TILE_WIDTH, ATTENTION_KEY_AT, key_whole, first, end, 0, shape.width)
  MATRIX_LINES(values, TILE_KEYS, TILE_COLUMNS, ATTENTION_VALUE_AT, value_whole, first, end, column,
               shape.columns)
  BARRIER();
  f32 score[ROW_BLOCKS][KEY_BLOCKS][4];
  UNROLL for (int j = 0; j < KEY_BLOCKS; j += 2) {
    UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
      UNROLL for (int e = 0; e < 4; e++) score[i][j][e] = score[i][j + 1][e] = 0;
    }
    UNROLL for (int step = 0; step < STEPS; step++) {
      u32 of_key[4];
      LOAD_BLOCKS(of_key, keys + (8 * j + lane % 32 / 16 * 8 + lane % 8) * WIDTH_PITCH + step * 16 +
                              lane / 8 % 2 * 8);
      UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
        MATRIX_MULTIPLY(score[i][j], of_query[i][step], of_key);
        MATRIX_MULTIPLY(score[i][j + 1], of_query[i][step], of_key + 2);
      }
    }
  }
  const boolean edge = ATTENTION_BIASED || first + TILE_KEYS > seen_by_all;
  UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
    f32 largest[2] = {peak[i][0], peak[i][1]}, shift[2];
    UNROLL for (int j = 0; j < KEY_BLOCKS; j++) {
      UNROLL for (int e = 0; e < 4; e++) {
        const int half = e / 2;
        f32 value = score[i][j][e] * shape.scale;
        if (edge) {
          const INDEX key = first + 8 * j + quad * 2 + e % 2;
          const boolean visible = key < seen[i][half];
#if ATTENTION_BIASED
          if (visible)
            value +=
                ATTENTION_BIAS(query + warp_row + 16 * i + 8 * half + line, key) * ATTENTION_UNIT;
#endif
          value = visible ? value : ATTENTION_LOWEST;
        }
        score[i][j][e] = value;
        largest[half] = ATTENTION_LARGER(value, largest[half]);
      }
    }
    UNROLL for (int half = 0; half < 2; half++) {
      UNROLL for (int step = 1; step < 4; step *= 2) {
        const f32 other = ATTENTION_SHUFFLE(largest[half], step);
        largest[half] = ATTENTION_LARGER(other, largest[half]);
      }
      const f32 shrink = ATTENTION_SHRINK(peak[i][half], largest[half]);
      shift[half] = ATTENTION_SHIFT(largest[half]);
      peak[i][half] = largest[half];
      total[i][half] *= shrink;
      UNROLL for (int j = 0; j < SUM_BLOCKS; j++) {
        sum[i][j][half * 2] *= shrink;
        sum[i][j][half * 2 + 1] *= shrink;
      }
    }
    UNROLL for (int j = 0; j < KEY_BLOCKS; j++) {
      UNROLL for (int e = 0; e < 4; e++) {
        score[i][j][e] = ATTENTION_EXP(score[i][j][e] - shift[e / 2]);
        total[i][e / 2] += score[i][j][e];
      }
    }
  }
  UNROLL for (int step = 0; step < TILE_KEYS / 16; step++) {
    u32 weight[ROW_BLOCKS][4], rest[ROW_BLOCKS][4];
    UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
      UNROLL for (int part = 0; part < 4; part++) {
        const f32 *const from = score[i][2 * step + part / 2] + part % 2 * 2;
        const u32 word = MATRIX_PACK(from[0], from[1]);
        weight[i][part] = word;
        rest[i][part] = MATRIX_PACK(from[0] - MATRIX_WIDEN((u16)(word & 0xffff)),
                                    from[1] - MATRIX_WIDEN((u16)(word >> 16)));
      }
    }
    UNROLL for (int j = 0; j < SUM_BLOCKS; j += 2) {
      u32 of_value[4];
      LOAD_BLOCKS_ACROSS(of_value, values + (step * 16 + lane % 16) * VALUE_PITCH + 8 * j +
                                       lane % 32 / 16 * 8);
      UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
        UNROLL for (int n = 0; n < 2; n++) {
          MATRIX_MULTIPLY(sum[i][j + n], rest[i], of_value + 2 * n);
          MATRIX_MULTIPLY(sum[i][j + n], weight[i], of_value + 2 * n);
        }
      }
    }
  }
  BARRIER();
}
UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
  UNROLL for (int half = 0; half < 2; half++) {
    const INDEX row = query + warp_row + 16 * i + 8 * half + line;
    UNROLL for (int step = 1; step < 4; step *= 2) {
      const f32 other = ATTENTION_SHUFFLE(total[i][half], step);
      total[i][half] += other;
    }
    UNROLL for (int j = 0; j < SUM_BLOCKS * 2; j++) {
      const INDEX c = column + j / 2 * 8 + quad * 2 + j % 2;
      if (row < shape.queries && c < shape.columns) {
        const f32 result =
            total[i][half] == 0 ? 0.0f : sum[i][j / 2][half * 2 + j % 2] / total[i][half];
        ATTENTION_STORE(row, c, result)
      }
    }
  }
}
