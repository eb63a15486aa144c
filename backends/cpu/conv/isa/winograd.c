/* SPDX-License-Identifier: MIT */
/* Winograd's transforms; conv_table.h has the loops' contracts.
 *
 * The points of interpolation are 0, ±1, ±2 and infinity. With them
 *
 *        | 4  0 −5  0  1  0 |       |  1/4    0     0  |
 *        | 0 −4 −4  1  1  0 |       | −1/6  −1/6  −1/6 |        | 1  1  1  1  1  0 |
 *   B' = | 0  4 −4 −1  1  0 |   G = | −1/6   1/6  −1/6 |   A' = | 0  1 −1  2 −2  0 |
 *        | 0 −2 −1  2  1  0 |       | 1/24  1/12   1/6 |        | 0  1  1  4  4  0 |
 *        | 0  2 −1 −2  1  0 |       | 1/24 −1/12   1/6 |        | 0  1 −1  8 −8  1 |
 *        | 0  4  0 −5  0  1 |       |   0     0     1  |
 *
 * and the results are A'·(sum over channels of G·filter·G' times B'·patch·B)·A, where the inner
 * product is element by element. Each matrix is applied to columns, then to rows. */
#include "conv_table.h"

#include "core/isa.h"

#if defined(__AVX512F__)
#define WINOGRAD_BYTES 64
#elif defined(__AVX2__) || defined(__riscv_v)
#define WINOGRAD_BYTES 32
#else
#define WINOGRAD_BYTES 16
#endif

#define WINOGRAD_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define WINOGRAD_UNROLL _Pragma("unroll")
#else
#define WINOGRAD_UNROLL _Pragma("GCC unroll 16")
#endif

enum {
  LANES = WINOGRAD_BYTES / 4,
  TILE = CPU_WINOGRAD_TILE,
  PATCH = CPU_WINOGRAD_PATCH,
  ROWS = CPU_WINOGRAD_ROWS
};

/* Selects lanes, with clang's builtin or gcc's. */
#if defined(__clang__)
#define WINOGRAD_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t choice __attribute__((vector_size(WINOGRAD_BYTES)));
#define WINOGRAD_PICK(a, b, ...) __builtin_shuffle(a, b, (choice){__VA_ARGS__})
#endif

#if WINOGRAD_BYTES == 64
#define WINOGRAD_EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define WINOGRAD_ODDS  1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define WINOGRAD_LOW   0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define WINOGRAD_HIGH  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif WINOGRAD_BYTES == 32
#define WINOGRAD_EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define WINOGRAD_ODDS  1, 3, 5, 7, 9, 11, 13, 15
#define WINOGRAD_LOW   0, 8, 1, 9, 2, 10, 3, 11
#define WINOGRAD_HIGH  4, 12, 5, 13, 6, 14, 7, 15
#else
#define WINOGRAD_EVENS 0, 2, 4, 6
#define WINOGRAD_ODDS  1, 3, 5, 7
#define WINOGRAD_LOW   0, 4, 1, 5
#define WINOGRAD_HIGH  2, 6, 3, 7
#endif

typedef float vector __attribute__((vector_size(WINOGRAD_BYTES)));
typedef float vector_at __attribute__((vector_size(WINOGRAD_BYTES), aligned(4)));

WINOGRAD_INLINE vector load(const float *from) {
  return *(const vector_at *)from;
}
WINOGRAD_INLINE void store(float *to, vector value) {
  *(vector_at *)to = value;
}

/* Every second element of two vectors. */
WINOGRAD_INLINE vector evens(vector a, vector b) {
  return WINOGRAD_PICK(a, b, WINOGRAD_EVENS);
}
WINOGRAD_INLINE vector odds(vector a, vector b) {
  return WINOGRAD_PICK(a, b, WINOGRAD_ODDS);
}
/* The elements of two vectors, interleaved: the first halves, and the second halves. */
WINOGRAD_INLINE vector zip_low(vector a, vector b) {
  return WINOGRAD_PICK(a, b, WINOGRAD_LOW);
}
WINOGRAD_INLINE vector zip_high(vector a, vector b) {
  return WINOGRAD_PICK(a, b, WINOGRAD_HIGH);
}

static void split(const float *line, int64_t count, float *planes, int64_t pitch) {
  for (int64_t t = 0; t < count; t += LANES) {
    vector in[4], even[2], odd[2];
    const float *from = line + 4 * t;
    WINOGRAD_UNROLL
    for (int i = 0; i < 4; i++) in[i] = load(from + i * LANES);
    WINOGRAD_UNROLL
    for (int i = 0; i < 2; i++) {
      even[i] = evens(in[2 * i], in[2 * i + 1]);
      odd[i] = odds(in[2 * i], in[2 * i + 1]);
    }
    store(planes + t, evens(even[0], even[1]));
    store(planes + pitch + t, evens(odd[0], odd[1]));
    store(planes + 2 * pitch + t, odds(even[0], even[1]));
    store(planes + 3 * pitch + t, odds(odd[0], odd[1]));
    /* The last two columns of each patch are the first two of the next. */
    WINOGRAD_UNROLL
    for (int i = 0; i < 4; i++) in[i] = load(from + 4 + i * LANES);
    WINOGRAD_UNROLL
    for (int i = 0; i < 2; i++) {
      even[i] = evens(in[2 * i], in[2 * i + 1]);
      odd[i] = odds(in[2 * i], in[2 * i + 1]);
    }
    store(planes + 4 * pitch + t, evens(even[0], even[1]));
    store(planes + 5 * pitch + t, evens(odd[0], odd[1]));
  }
}

static void join(const float *planes, int64_t pitch, int64_t count, float *line) {
  for (int64_t t = 0; t < count; t += LANES) {
    const vector p0 = load(planes + t), p1 = load(planes + pitch + t);
    const vector p2 = load(planes + 2 * pitch + t), p3 = load(planes + 3 * pitch + t);
    const vector even[2] = {zip_low(p0, p2), zip_high(p0, p2)};
    const vector odd[2] = {zip_low(p1, p3), zip_high(p1, p3)};
    WINOGRAD_UNROLL
    for (int i = 0; i < 2; i++) {
      store(line + 4 * t + 2 * i * LANES, zip_low(even[i], odd[i]));
      store(line + 4 * t + (2 * i + 1) * LANES, zip_high(even[i], odd[i]));
    }
  }
}

/* B' times a column. */
WINOGRAD_INLINE void turn_source(const vector in[PATCH], vector out[PATCH]) {
  const vector even = in[4] - 4 * in[2], odd = in[3] - 4 * in[1];
  const vector half_even = in[4] - in[2], half_odd = 2 * (in[3] - in[1]);
  out[0] = 4 * in[0] - 5 * in[2] + in[4];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = half_even + half_odd;
  out[4] = half_even - half_odd;
  out[5] = 4 * in[1] - 5 * in[3] + in[5];
}

static void source(const float *planes, int64_t pitch, int64_t count, float *to, int64_t position,
                   int64_t panel, int64_t panel_step) {
  int64_t place = 0, column = 0;
  for (int64_t t = 0; t < count; t += LANES) {
    vector middle[PATCH][PATCH]; /* [column][row] */
    float *at = to + place + column;
    for (int j = 0; j < PATCH; j++) {
      vector in[PATCH];
      WINOGRAD_UNROLL
      for (int i = 0; i < PATCH; i++) in[i] = load(planes + (i * PATCH + j) * pitch + t);
      turn_source(in, middle[j]);
    }
    for (int i = 0; i < PATCH; i++) {
      vector in[PATCH], out[PATCH];
      WINOGRAD_UNROLL
      for (int j = 0; j < PATCH; j++) in[j] = middle[j][i];
      turn_source(in, out);
      WINOGRAD_UNROLL
      for (int j = 0; j < PATCH; j++) store(at + (i * PATCH + j) * position, out[j]);
    }
    column += LANES;
    if (column == panel) {
      column = 0;
      place += panel_step;
    }
  }
}

/* G times a column. */
WINOGRAD_INLINE void turn_filter(const vector in[3], vector out[PATCH]) {
  const vector ends = (in[0] + in[2]) * (1.0f / 6), middle = in[1] * (1.0f / 6);
  const vector far = in[0] * (1.0f / 24) + in[2] * (1.0f / 6), near = in[1] * (1.0f / 12);
  out[0] = in[0] * 0.25f;
  out[1] = -ends - middle;
  out[2] = middle - ends;
  out[3] = far + near;
  out[4] = far - near;
  out[5] = in[2];
}

/* Transforms one vector of filters, from `first` on; stores all of it, or only its first `rows`. */
WINOGRAD_INLINE void filter_vector(float taps[9][ROWS], int64_t first, float *to, int64_t position,
                                   int64_t rows) {
  vector middle[3][PATCH]; /* [column][row] */
  WINOGRAD_UNROLL
  for (int j = 0; j < 3; j++) {
    const vector in[3] = {load(taps[j] + first), load(taps[3 + j] + first),
                          load(taps[6 + j] + first)};
    turn_filter(in, middle[j]);
  }
  WINOGRAD_UNROLL
  for (int i = 0; i < PATCH; i++) {
    const vector in[3] = {middle[0][i], middle[1][i], middle[2][i]};
    vector out[PATCH];
    turn_filter(in, out);
    for (int j = 0; j < PATCH; j++) {
      float *at = to + (i * PATCH + j) * position;
      if (rows >= LANES)
        store(at, out[j]);
      else
        for (int64_t r = 0; r < rows; r++) at[r] = out[j][r];
    }
  }
}

static void filter(const float *weights, int64_t rows, int64_t outer, int64_t depth, int64_t inner,
                   const int64_t tap[9], float *to, int64_t position) {
  enum { AHEAD = 8 }; /* channels between scalar stores and vector loads */
  float taps[AHEAD][9][ROWS];
  for (int c = 0; c < AHEAD; c++)
    for (int t = 0; t < 9; t++)
      for (int i = 0; i < ROWS; i++) taps[c][t][i] = 0;
  for (int64_t first = 0; first < depth; first += AHEAD) {
    const int64_t end = first + AHEAD < depth ? first + AHEAD : depth;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t c = first; c < end; c++)
        for (int t = 0; t < 9; t++) taps[c - first][t][i] = weights[i * outer + c * inner + tap[t]];
    /* Elements stored past the rows are overwritten by the next channel. */
    for (int64_t c = first; c < end; c++)
      for (int64_t i = 0; i < rows; i += LANES) {
        const int64_t left = (depth - c) * rows - i;
        filter_vector(taps[c - first], i, to + c * rows + i, position, left < LANES ? left : LANES);
      }
  }
}

/* A' times a column. */
WINOGRAD_INLINE void turn_result(const vector in[PATCH], vector out[TILE]) {
  const vector near = in[1] + in[2], far = in[3] + in[4];
  const vector odd_near = in[1] - in[2], odd_far = in[3] - in[4];
  out[0] = in[0] + near + far;
  out[1] = odd_near + 2 * odd_far;
  out[2] = near + 4 * far;
  out[3] = odd_near + 8 * odd_far + in[5];
}

static void result(const float *sums, int64_t position, int64_t count, float *planes,
                   int64_t pitch) {
  for (int64_t t = 0; t < count; t += LANES) {
    vector middle[PATCH][TILE]; /* [column][row] */
    for (int j = 0; j < PATCH; j++) {
      vector in[PATCH];
      WINOGRAD_UNROLL
      for (int i = 0; i < PATCH; i++) in[i] = load(sums + (i * PATCH + j) * position + t);
      turn_result(in, middle[j]);
    }
    for (int i = 0; i < TILE; i++) {
      vector in[PATCH], out[TILE];
      WINOGRAD_UNROLL
      for (int j = 0; j < PATCH; j++) in[j] = middle[j][i];
      turn_result(in, out);
      WINOGRAD_UNROLL
      for (int j = 0; j < TILE; j++) store(planes + (i * TILE + j) * pitch + t, out[j]);
    }
  }
}

const cpu_winograd CPU_SYMBOL(cpu_winograd) = {.lanes = LANES,
                                               .split = split,
                                               .source = source,
                                               .filter = filter,
                                               .result = result,
                                               .join = join};
