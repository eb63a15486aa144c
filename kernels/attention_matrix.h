/* SPDX-License-Identifier: MIT */
/* Shared by attention_matrix and attention_warpgroup: lines of elements in local memory. Piece
 * `place` / 8 of a line is at LINES_PLACE; the order of pieces repeats after LINES_PERIOD lines. */
//@ attention_lines
/* The exponential of a score minus the largest one. A NaN is never the largest: its weight carries
 * it to the results. */
#if ATTENTION_FOLDED
#define ATTENTION_WEIGHT(score, shift)                                                             \
  ATTENTION_EXP(MAD_f32(score, shape.scale, -(shift)*shape.scale))
#else
#define ATTENTION_WEIGHT(score, shift) ATTENTION_EXP(ATTENTION_STEP((score) - (shift)))
#endif
/* Copies an item's share of the pieces of lines; elements past an edge become 0. Without edges, and
 * with equal shares, an item advances a fixed number of lines per copy, after which the order of
 * pieces repeats. */
#define ATTENTION_LINES(to, lines, elements, AT, whole, first_line, end_line, first_place,         \
                        end_place)                                                                 \
  {                                                                                                \
    enum { PIECES = (elements) / 8, ALL = (lines)*PIECES, STEP = TILE_GROUP / PIECES };            \
    if (ALL % TILE_GROUP == 0 && TILE_GROUP % PIECES == 0 && STEP % LINES_PERIOD == 0 &&           \
        (whole) && (first_line) + (lines) <= (end_line) &&                                         \
        (first_place) + (elements) <= (end_place)) {                                               \
      const int line_at = lane / PIECES, place_at = lane % PIECES * 8;                             \
      LOCAL u16 *const into_ = (to) + LINES_PLACE(lines, elements, line_at, place_at);             \
      GLOBAL const u16 *from_ = AT((first_line) + line_at, (first_place) + place_at);              \
      UNROLL for (int copy = 0; copy < ALL / TILE_GROUP; copy++) {                                 \
        COPY_PIECE(into_ + copy * LINES_PLACE(lines, elements, STEP, 0), from_);                   \
        from_ += AT(STEP, 0) - AT(0, 0);                                                           \
      }                                                                                            \
    } else {                                                                                       \
      NO_UNROLL for (int slot = lane; slot < ALL; slot += TILE_GROUP) {                            \
        const int line_at = slot / PIECES, place_at = slot % PIECES * 8;                           \
        const INDEX line_ = (first_line) + line_at, place_ = (first_place) + place_at;             \
        const boolean inside_ = line_ < (end_line) && place_ < (end_place);                        \
        LOCAL u16 *const into_ = (to) + LINES_PLACE(lines, elements, line_at, place_at);           \
        if (whole) {                                                                               \
          COPY_PART(into_, inside_ ? AT(line_, place_) : AT(0, 0), inside_ ? 16 : 0);              \
        } else {                                                                                   \
          u16 piece[8];                                                                            \
          UNROLL for (int e_ = 0; e_ < 8; e_++) {                                                  \
            const boolean there_ = inside_ && place_ + e_ < (end_place);                           \
            piece[e_] = there_ ? *AT(line_, place_ + e_) : (u16)0;                                 \
          }                                                                                        \
          VSTORE(8, u16, into_, piece);                                                            \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

/* Attention on matrix units (gemm_matrix.h): f16 or bf16 operands, sums and softmax in f32.
 * TILE_WIDTH is the whole width of Q and K. Configured as attention_tile, and by
 *
 *   MATRIX_MULTIPLY(sum, a, b)
 *   MATRIX_PACK(low, high)              two f32 as elements of a word
 *   MATRIX_WIDEN(bits)                  one of them as f32
 *   ATTENTION_QUERY_AT(i, j), _KEY_AT, _VALUE_AT      addresses of elements
 *   ATTENTION_QUERY_WHOLE, _KEY_WHOLE, _VALUE_WHOLE   1: eight neighbours are one load
 *   ATTENTION_RESULT_AT(i, j), _RESULT_WHOLE          the same for two neighbours of the result,
 *                                                     stored as a word of MATRIX_PACK
 *   ATTENTION_FOLDED                    1: the scale is one factor > 0 of all scores and nothing
 *                                       is added; the exponential then applies it
 *
 * Each warp has WARP_ROWS queries. Lane l holds scores and sums of the queries l / 4 and l / 4 + 8
 * of each 16, for columns 2 · (l % 4) and the next of each 8. The units expect a left factor in the
 * same layout, so weights never leave their registers. A weight is multiplied as the sum of two
 * elements; the second is the rounding error of the first.
 *
 * Blocks of K and V are in local memory in their own order, each line padded by a piece of 16
 * bytes. There are two buffers: while one block is multiplied, the next is copied into the other,
 * asynchronously if pieces are aligned. The barrier before a block publishes it, and ensures that
 * all items have finished the previous block, whose buffer the next copy reuses. At the beginning Q
 * passes through the second buffer. */
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
#define SECOND_ROOM (QUERY_ROOM > BLOCK_ROOM ? QUERY_ROOM : BLOCK_ROOM)
#if defined(__CUDACC__)
typedef vector_of<u16, 8> PIECE;
#else
typedef struct __attribute__((aligned(16))) PIECE {
  u16 element[8];
} PIECE;
#endif
/* Lines are padded by one piece. */
#define LINES_PERIOD                              1
#define LINES_PLACE(lines, elements, line, place) ((line) * ((elements) + 8) + (place))
#define COPY_BLOCK(place, first)                                                                   \
  {                                                                                                \
    ATTENTION_LINES(place, TILE_KEYS, TILE_WIDTH, ATTENTION_KEY_AT, key_whole, first, end, 0,      \
                    shape.width)                                                                   \
    ATTENTION_LINES((place) + KEY_ROOM, TILE_KEYS, TILE_COLUMNS, ATTENTION_VALUE_AT, value_whole,  \
                    first, end, column, shape.columns)                                             \
  }
LOCAL_ARRAY(PIECE, room, (BLOCK_ROOM + SECOND_ROOM) / 8);
LOCAL u16 *const places = (LOCAL u16 *)room;
/* The remainder gives the compiler an upper bound. */
const int lane = (int)(LOCAL_ID_X % TILE_GROUP), line = lane % 32 / 4, quad = lane % 4;
const int warp_row = lane / 32 * WARP_ROWS;
const boolean query_whole = ATTENTION_QUERY_WHOLE, key_whole = ATTENTION_KEY_WHOLE;
const boolean value_whole = ATTENTION_VALUE_WHOLE;
const INDEX last =
    shape.queries - query < TILE_QUERIES ? shape.queries - 1 : query + TILE_QUERIES - 1;
const INDEX end = ATTENTION_SEEN(last), seen_by_all = ATTENTION_SEEN(query);
u32 of_query[ROW_BLOCKS][STEPS][4];
ATTENTION_LINES(places + BLOCK_ROOM, TILE_QUERIES, TILE_WIDTH, ATTENTION_QUERY_AT, query_whole,
                query, shape.queries, 0, shape.width)
if (end > 0) COPY_BLOCK(places, 0)
COPIES_END();
COPIES_WAIT(0);
BARRIER();
UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
  UNROLL for (int step = 0; step < STEPS; step++) {
    LOAD_BLOCKS(of_query[i][step], places + BLOCK_ROOM +
                                       (warp_row + 16 * i + lane % 16) * WIDTH_PITCH + step * 16 +
                                       lane % 32 / 16 * 8);
  }
}
f32 sum[ROW_BLOCKS][SUM_BLOCKS][4], peak[ROW_BLOCKS][2], total[ROW_BLOCKS][2];
UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
  UNROLL for (int half = 0; half < 2; half++) {
    peak[i][half] = ATTENTION_LOWEST;
    total[i][half] = 0;
  }
  UNROLL for (int j = 0; j < SUM_BLOCKS; j++) {
    UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
  }
}
int place = 0;
for (INDEX first = 0; first < end; first += TILE_KEYS) {
  LOCAL const u16 *const keys = places + place, *const values = keys + KEY_ROOM;
  place = BLOCK_ROOM - place;
  COPIES_WAIT(0);
  BARRIER();
  if (first + TILE_KEYS < end) COPY_BLOCK(places + place, first + TILE_KEYS)
  COPIES_END();
  f32 score[ROW_BLOCKS][KEY_BLOCKS][4];
  UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
    UNROLL for (int j = 0; j < KEY_BLOCKS; j++) {
      UNROLL for (int e = 0; e < 4; e++) score[i][j][e] = 0;
    }
  }
  UNROLL for (int step = 0; step < STEPS; step++) {
    UNROLL for (int j = 0; j < KEY_BLOCKS; j += 2) {
      u32 of_key[4];
      LOAD_BLOCKS(of_key, keys + (8 * j + lane % 32 / 16 * 8 + lane % 8) * WIDTH_PITCH + step * 16 +
                              lane / 8 % 2 * 8);
      UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
        MATRIX_MULTIPLY(score[i][j], of_query[i][step], of_key);
        MATRIX_MULTIPLY(score[i][j + 1], of_query[i][step], of_key + 2);
      }
    }
  }
#if !ATTENTION_FOLDED
  UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
    UNROLL for (int j = 0; j < KEY_BLOCKS; j++) {
      UNROLL for (int e = 0; e < 4; e++) score[i][j][e] *= shape.scale;
    }
  }
#endif
  if (ATTENTION_BIASED || first + TILE_KEYS > seen_by_all) {
    UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
      UNROLL for (int half = 0; half < 2; half++) {
        const INDEX row = query + warp_row + 16 * i + 8 * half + line;
        const INDEX key = first + quad * 2;
        const INDEX left = (row < shape.queries ? ATTENTION_SEEN(row) : 0) - key;
        UNROLL for (int j = 0; j < KEY_BLOCKS * 2; j++) {
          const int more = j / 2 * 8 + j % 2;
          const boolean visible = more < left;
          f32 *const at = score[i][j / 2] + half * 2 + j % 2;
#if ATTENTION_BIASED
          if (visible) *at += ATTENTION_BIAS(row, key + more) * ATTENTION_UNIT;
#endif
          *at = visible ? *at : ATTENTION_LOWEST;
        }
      }
    }
  }
  UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
    UNROLL for (int half = 0; half < 2; half++) {
      f32 largest = peak[i][half];
      UNROLL for (int j = 0; j < KEY_BLOCKS; j++) {
        largest = BUILTIN_f32(fmax)(largest, score[i][j][half * 2]);
        largest = BUILTIN_f32(fmax)(largest, score[i][j][half * 2 + 1]);
      }
      UNROLL for (int step = 1; step < 4; step *= 2) {
        const f32 other = ATTENTION_SHUFFLE(largest, step);
        largest = BUILTIN_f32(fmax)(largest, other);
      }
      const f32 shift = ATTENTION_SHIFT(largest);
      const f32 shrink = peak[i][half] == largest ? 1 : ATTENTION_WEIGHT(peak[i][half], shift);
      peak[i][half] = largest;
      total[i][half] *= shrink;
      UNROLL for (int j = 0; j < SUM_BLOCKS; j++) {
        sum[i][j][half * 2] *= shrink;
        sum[i][j][half * 2 + 1] *= shrink;
      }
      UNROLL for (int j = 0; j < KEY_BLOCKS * 2; j++) {
        f32 *const at = score[i][j / 2] + half * 2 + j % 2;
        *at = ATTENTION_SHARE(ATTENTION_WEIGHT(*at, shift));
        total[i][half] += *at;
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
        UNROLL for (int n = 0; n < 2; n++)
            MATRIX_MULTIPLY(sum[i][j + n], rest[i], of_value + 2 * n);
        UNROLL for (int n = 0; n < 2; n++)
            MATRIX_MULTIPLY(sum[i][j + n], weight[i], of_value + 2 * n);
      }
    }
  }
}
const boolean result_whole = ATTENTION_RESULT_WHOLE;
UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
  UNROLL for (int half = 0; half < 2; half++) {
    const INDEX row = query + warp_row + 16 * i + 8 * half + line;
    UNROLL for (int step = 1; step < 4; step *= 2) {
      const f32 other = ATTENTION_SHUFFLE(total[i][half], step);
      total[i][half] += other;
    }
    const f32 part = 1.0f / total[i][half];
    UNROLL for (int j = 0; j < SUM_BLOCKS; j++) {
      const INDEX c = column + j * 8 + quad * 2;
      f32 result[2];
      UNROLL for (int n = 0; n < 2; n++) result[n] = total[i][half] == 0
                                                         ? ATTENTION_BLIND(sum[i][j][half * 2 + n])
                                                         : sum[i][j][half * 2 + n] * part;
      if (result_whole && row < shape.queries && c < shape.columns) {
        const u32 word = MATRIX_PACK(result[0], result[1]);
        const u16 pair[2] = {(u16)(word & 0xffff), (u16)(word >> 16)};
        VSTORE(2, u16, ATTENTION_RESULT_AT(row, c), pair);
      }
      UNROLL for (int n = 0; n < 2; n++) {
        if (!result_whole && row < shape.queries && c + n < shape.columns) {
          ATTENTION_STORE(row, c + n, result[n])
        }
      }
    }
  }
}
