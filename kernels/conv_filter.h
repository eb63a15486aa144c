/* SPDX-License-Identifier: MIT */
/* The gradient of a filter with overlapping windows. Neighbouring places of the filter use the same
 * data, one element further on. So local memory holds rows of the data instead of the data for each
 * place. An item computes all places of its channel, and reads each element of a row once for all
 * of them.
 *
 * A slab is a stretch of FILTER_Q columns of a row of results, for FILTER_RESULTS channels, and the
 * FILTER_H rows of data in its windows, for FILTER_DATA channels. Asynchronous copies fill
 * FILTER_STAGES slabs in turn, and the slabs are divided into parts. GROUP items share a tile: item
 * channel * FILTER_SHARERS + share computes FILTER_H x FILTER_V places of one channel of the data
 * for FILTER_ITEM channels of results, in runs of four.
 *
 * The part covers slab_first … slab_end, and data0 and result0 are the tile's first channels. The
 * part's sums go to at_part, ordered by place, channel of the data, channel of the results. */
//@ conv_room
#ifdef __CUDACC__
typedef vector_of<f32, 4> FILTER_ROOM;
#else
typedef struct __attribute__((aligned(16))) FILTER_ROOM {
  f32 element[4];
} FILTER_ROOM;
#endif

//@ conv_filter
#define DATA_PITCH    (FILTER_Q + 4)
#define DATA_REACH    (FILTER_Q + FILTER_V - 1)
#define DATA_SLAB     (FILTER_DATA * FILTER_H * DATA_PITCH)
#define DATA_ELEMENTS (FILTER_DATA * FILTER_H * DATA_REACH)
#define DATA_COPIES   ((DATA_ELEMENTS + GROUP - 1) / GROUP)
#define RESULT_PITCH  (FILTER_RESULTS + 4)
#define RESULT_SLAB   (FILTER_Q * RESULT_PITCH)
#define RESULT_WIDE   (FILTER_Q / 8)
#define RESULT_STEP   (GROUP / 32 / RESULT_WIDE * 4)
#define RESULT_COPIES (FILTER_RESULTS / RESULT_STEP)
LOCAL f32 *data_slabs = (LOCAL f32 *)slabs;
LOCAL f32 *result_slabs = data_slabs + FILTER_STAGES * DATA_SLAB;

/* The item's copies for each slab: an offset, and row and column in 16 bits each. They are in local
 * memory because registers are scarce. A warp copies eight columns of four channels of results. */
LOCAL INDEX *data_at = (LOCAL INDEX *)(result_slabs + FILTER_STAGES * RESULT_SLAB) + item;
LOCAL int *data_place = (LOCAL int *)(data_at - item + DATA_COPIES * GROUP) + item;
UNROLL for (int i = 0; i < DATA_COPIES; i++) {
  const int element = item + i * GROUP, line = element / DATA_REACH;
  const int channel = line / FILTER_H;
  const boolean exists =
      ((DATA_ELEMENTS % GROUP == 0) | (element < DATA_ELEMENTS)) & (data0 + channel < shape.m0);
  const INDEX h = line % FILTER_H + shape.h_first, v = element % DATA_REACH + shape.v_first;
  data_place[i * GROUP] = (exists ? (int)h : -32768) * 65536 + (int)(v & 65535);
  data_at[i * GROUP] = DATA_AT((data0 + channel) * shape.data_m0, h, v);
}
const int warp = item / 32, lane = item % 32;
const int result_column = warp % RESULT_WIDE * 8 + lane % 8;
const int result_channel = warp / RESULT_WIDE * 4 + lane / 8;
const INDEX result_at =
    (result0 + result_channel) * shape.weight_channel + result_column * WEIGHT_K2;
const INDEX result_step = RESULT_STEP * shape.weight_channel;
const INDEX results_left = shape.channels - result0 - result_channel;

INDEX line_of_slab = DIVIDE(slab_first, shape.stretches);
INDEX stretch = slab_first - line_of_slab * shape.stretches;
INDEX k0 = DIVIDE(line_of_slab, shape.k1), k1 = line_of_slab - k0 * shape.k1;
INDEX fetched = slab_first;
/* Reads the table before the first copy, because a copy orders all accesses that follow it. */
#define FETCH(stage)                                                                               \
  if (fetched < slab_end) {                                                                        \
    const INDEX first = stretch * FILTER_Q;                                                        \
    const INDEX data_from = DATA_AT(batch_data + k0 * shape.data_k0, k1, first);                   \
    INDEX at[DATA_COPIES];                                                                         \
    int place[DATA_COPIES];                                                                        \
    UNROLL for (int i = 0; i < DATA_COPIES; i++) {                                                 \
      at[i] = data_at[i * GROUP];                                                                  \
      place[i] = data_place[i * GROUP];                                                            \
    }                                                                                              \
    UNROLL for (int i = 0; i < DATA_COPIES; i++) {                                                 \
      const int element = item + i * GROUP;                                                        \
      const INDEX h = k1 + (place[i] >> 16), v = first + (i16)place[i];                            \
      if (DATA_ELEMENTS % GROUP == 0 || i < DATA_COPIES - 1 || element < DATA_ELEMENTS)            \
        COPY_WORD(data_slabs + (stage)*DATA_SLAB + element / DATA_REACH * DATA_PITCH +             \
                      element % DATA_REACH,                                                        \
                  IN_DATA + data_from + at[i], IS_INSIDE(h, v));                                   \
    }                                                                                              \
    const boolean inside = first + result_column < SIZE_K2;                                        \
    GLOBAL const f32 *from = IN_WEIGHT + (WEIGHT_FIRST + k0 * shape.weight_k0 +                    \
                                          k1 * shape.weight_k1 + first * WEIGHT_K2 + result_at);   \
    LOCAL f32 *to =                                                                                \
        result_slabs + (stage)*RESULT_SLAB + result_column * RESULT_PITCH + result_channel;        \
    UNROLL for (int i = 0; i < RESULT_COPIES; i++) {                                               \
      COPY_WORD(to + i * RESULT_STEP, from, inside & (i * RESULT_STEP < results_left));            \
      from += result_step;                                                                         \
    }                                                                                              \
    fetched++;                                                                                     \
    if (++stretch == shape.stretches) {                                                            \
      stretch = 0;                                                                                 \
      if (++k1 == shape.k1) {                                                                      \
        k1 = 0;                                                                                    \
        k0++;                                                                                      \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  COPIES_END();

f32 sum[FILTER_ITEM][FILTER_H * FILTER_V];
UNROLL for (int i = 0; i < FILTER_ITEM; i++) {
  UNROLL for (int j = 0; j < FILTER_H * FILTER_V; j++) sum[i][j] = 0;
}
#define FILTER_PLACES  (FILTER_H * FILTER_V)
#define FILTER_SUM     sum[i_ / FILTER_PLACES][i_ % FILTER_PLACES]
SUM_PARTS_BEGIN(FILTER_ITEM *FILTER_PLACES)
UNROLL for (int begun = 0; begun < FILTER_STAGES - 1; begun++) {
  FETCH(begun)
}
const int channel = item / FILTER_SHARERS, share = item % FILTER_SHARERS;
int stage = 0;
for (INDEX slab = slab_first; slab < slab_end; slab++) {
  SUM_PARTS_ADD(FILTER_ITEM *FILTER_PLACES, FILTER_SUM, FILTER_Q)
  COPIES_WAIT(FILTER_STAGES - 2);
  BARRIER();
  {
    const int next_stage = stage > 0 ? stage - 1 : FILTER_STAGES - 1;
    FETCH(next_stage)
  }
  LOCAL const f32 *data = data_slabs + stage * DATA_SLAB + channel * FILTER_H * DATA_PITCH;
  LOCAL const f32 *results = result_slabs + stage * RESULT_SLAB + share * 4;
  f32 window[FILTER_H][8];
  UNROLL for (int r = 0; r < FILTER_H; r++) VLOAD(4, f32, window[r], data + r * DATA_PITCH);
  NO_UNROLL for (int q = 0; q < FILTER_Q; q += 4) {
    UNROLL for (int r = 0; r < FILTER_H; r++) {
      f32 next[4];
      VLOAD(4, f32, next, data + r * DATA_PITCH + q + 4);
      UNROLL for (int i = 0; i < 4; i++) window[r][4 + i] = next[i];
    }
    UNROLL for (int step = 0; step < 4; step++) {
      f32 result[FILTER_ITEM];
      UNROLL for (int i = 0; i < FILTER_ITEM; i += 4) {
        f32 four[4];
        VLOAD(4, f32, four, results + (q + step) * RESULT_PITCH + i * FILTER_SHARERS);
        UNROLL for (int j = 0; j < 4; j++) result[i + j] = four[j];
      }
      UNROLL for (int i = 0; i < FILTER_ITEM; i++) {
        UNROLL for (int r = 0; r < FILTER_H; r++) {
          UNROLL for (int s = 0; s < FILTER_V; s++) {
            sum[i][r * FILTER_V + s] =
                MAD_f32(window[r][step + s], result[i], sum[i][r * FILTER_V + s]);
          }
        }
      }
    }
    UNROLL for (int r = 0; r < FILTER_H; r++) {
      UNROLL for (int i = 0; i < 4; i++) window[r][i] = window[r][4 + i];
    }
  }
  stage = stage < FILTER_STAGES - 1 ? stage + 1 : 0;
}
COPIES_WAIT(0);
BARRIER();
SUM_PARTS_END(FILTER_ITEM *FILTER_PLACES, FILTER_SUM)
if (data0 + channel < shape.m0) {
  UNROLL for (int i = 0; i < FILTER_ITEM; i += 4) {
    const INDEX first = result0 + i * FILTER_SHARERS + share * 4;
    UNROLL for (int j = 0; j < FILTER_H * FILTER_V; j++) {
      const INDEX at = at_part + (j * shape.m0 + data0 + channel) * shape.channels + first;
      if (shape.channels % 4 == 0) {
        const f32 four[4] = {sum[i][j], sum[i + 1][j], sum[i + 2][j], sum[i + 3][j]};
        if (first < shape.channels) VSTORE(4, f32, partial + at, four);
      } else {
        UNROLL for (int n = 0; n < 4; n++) {
          if (first + n < shape.channels) partial[at + n] = sum[i + n][j];
        }
      }
    }
  }
}

/* Few results with many terms, for example of a depthwise filter. A group computes all places of a
 * channel, so that results are read once; data that neighbours have read comes from the cache.
 * Leaves the sums of the FILTER_H x FILTER_V places in scratch[place * GROUP]. */
//@ conv_places
{
  SUM sums[FILTER_H * FILTER_V];
  UNROLL for (int place = 0; place < FILTER_H * FILTER_V; place++) sums[place] = 0;
  SUM_PARTS_BEGIN(FILTER_H *FILTER_V)
  for (INDEX k = k_begin + item; k < k_end; k += GROUP) {
    SUM_PARTS_ADD(FILTER_H *FILTER_V, sums[i_], 1)
    SPLIT_TERM(k)
    const SUM weight = LOAD_WEIGHT(WEIGHT_FIRST + WEIGHT_OF_TERM);
    const INDEX far = batch_data + k0 * shape.data_k0;
    SUM values[FILTER_H * FILTER_V]; /* all loads are pending before the first wait */
    UNROLL for (int m1 = 0; m1 < FILTER_H; m1++) {
      const INDEX h = H_OF_POSITION + H_OF_TERM;
      const boolean in_row = (h >= 0) & (h < shape.height);
      UNROLL for (int m2 = 0; m2 < FILTER_V; m2++) {
        const INDEX v = V_OF_POSITION + V_OF_TERM;
        values[m1 * FILTER_V + m2] = 0;
        if (in_row & (v >= 0) & (v < shape.width))
          values[m1 * FILTER_V + m2] = LOAD_DATA(DATA_AT(far, h, v));
      }
    }
    UNROLL for (int place = 0; place < FILTER_H * FILTER_V; place++) sums[place] =
        SUM_MAD(values[place], weight, sums[place]);
  }
  SUM_PARTS_END(FILTER_H *FILTER_V, sums[i_])
  UNROLL for (int place = 0; place < FILTER_H * FILTER_V; place++) scratch[place * GROUP + item] =
      sums[place];
  BARRIER();
  for (int step = GROUP / 2; step > 0; step /= 2) {
    for (int at = item; at < FILTER_H * FILTER_V * step; at += GROUP) {
      const int place = at / step, of = place * GROUP + at % step;
      scratch[of] += scratch[of + step];
    }
    BARRIER();
  }
}
