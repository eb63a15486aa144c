/* SPDX-License-Identifier: MIT */
/* Convolutions in generated source: the internal interface of its files.
 *
 *   conv.c     the kind, its list of forms, and the forms without tiles or panels
 *   problem.c  brings all three directions into one normal form; limits that forms keep
 *   text.c     text of all forms: digits, batches, epilogue, stores
 *   tiled.c    tiles through local memory, also with the terms cut into parts
 *   packed.c   one item for each block of results, for CPUs
 *   winograd.c minimal filtering, where it is allowed
 *   filter.c   gradients of filters: rows that places share, and all places of depthwise ones
 *
 * A convolution is a matrix product with one factor that is not in memory: arithmetic finds its
 * element for a position and a term in the data (kernels/conv_window.h). No launch unfolds the data
 * into a matrix first. The three directions differ only in the roles of the tensors:
 *
 *              data  weight  position   channel    term
 *   FORWARD    x     w       n, p, q    o          c, r, s
 *   BY_DATA    y     w       n, h, v    c          o, r, s      strides: in phases
 *   BY_FILTER  x     y       c, r, s    o          n, p, q
 *
 * Groups and phases are batches. So one text serves all directions, filter sizes, paddings and
 * dilations: they are launch arguments like any other size. */
#ifndef GENERATE_CONV_H
#define GENERATE_CONV_H

#include "codegen/generate/kinds/gemm/gemm.h"

/* The forms (compute_tuning.variant), the other fields that each reads, and sensible values:
 *
 *   PLAIN   group_x (64, 256)
 *   TILED   as GEMM's, without vector. tile / group or group / tile is a whole number in both
 *           directions, and so is group / tile_k. For targets with COMPUTE_TARGET_FAST_LOCAL.
 *   SPLIT   as TILED; groups: parts of the terms, 2 … 64. Not for phases.
 *   DOT     group_x: items that share a result, a power of two; groups: parts of the terms. A CPU
 *           takes one item with vectors of `vector` elements and no parts.
 *   DIRECT  item_m: results of an item, side by side; group_x
 *   PACKED  item_m: channels, 1 … 16; item_n: positions, 1 … 8 times vector; vector: elements of a
 *           vector; groups: parts of the terms, 1 … 64
 *   MATRIX  as GEMM's, without vector; groups: not for phases. tile / group or group / tile is a
 *           whole number in both directions, and so is group / tile_k.
 *   WINOGRAD as GEMM's TILED. For 3×3 filters without strides in f32, where it is allowed.
 *   FILTER  the gradient of an f32 filter of 2 … 9 places without strides. tile_m × tile_n:
 *           channels of results and data; tile_k: columns of results at a time, 8 … 64; item_m:
 *           channels of results of an item, 4 … 16; items: stages, 2 … 6; groups: parts, 1 … 512
 *   PLACES  the gradient of a depthwise filter of up to 25 places. group_x: items that share a
 *           channel, a power of two; groups: parts of the terms
 *
 * A convolution that is a plain product (1×1, stride 1, or a window over all of the data) goes to
 * GEMM, with GEMM's parameters. */
typedef enum conv_variant {
  CONV_PLAIN = 1,
  CONV_TILED = 2,
  CONV_SPLIT = 3,
  CONV_DOT = 4,
  CONV_DIRECT = 5,
  CONV_PACKED = 6,
  CONV_MATRIX = 7,
  CONV_WINOGRAD = 9, /* 8 is GEMM_PIPELINE, whose groups are warps */
  CONV_FILTER = 11,  /* 10 is GEMM_WARPGROUP */
  CONV_PLACES = 12
} conv_variant;

/* The normal form. Names follow kernels/conv_window.h; [0] is for rows, [1] for columns. */
typedef struct conv_problem {
  /* The fields that GEMM's texts read: types, batches, the epilogue, and the numbers of rows and
   * columns. Positions are the columns if position_columns, else the rows. */
  gemm_problem product;
  bool position_columns;
  bool phased;        /* BY_DATA with strides; then the sizes below belong to the largest phase */
  bool channels_fast; /* TERM_CHANNELS_FAST */
  int64_t positions, channels, terms;
  int64_t position_size[3], term_size[3];
  int64_t bound[2];                                /* height, width */
  int64_t data_position, data_term, data_plane[2]; /* strides: data_m0, data_k0, data_h, _v */
  int64_t by_position[2], by_term[2], first[2];    /* h_m, h_k, h_first */
  int64_t weight_channel, weight_term[3];
  int64_t tap_step[2], weight_tap[2]; /* for phases: see kernels/conv_window.h */
  emit_space tile;                    /* m0, m1, m2, channel; walks of the epilogue */
} conv_problem;

/* Returns false when a size is 0 and there is nothing to store. */
bool conv_read(generation *g, conv_problem *problem);
/* True if it is a plain product; then `product` is filled in. */
bool conv_read_product(generation *g, const conv_problem *problem, gemm_problem *product);
bool conv_problem_is_wide(const generation *g, const conv_problem *problem);

enum {
  CONV_FEW_CHANNELS = 4,
  CONV_WORKSPACE_LIMIT = 1 << 30 /* bytes; a larger workspace is not worth its memory */
};
bool conv_is_tiny(const conv_problem *problem);
/* Refuse if groups of g->tuning.group_x items, or g->tuning.groups parts of the terms, are
 * impossible. */
compute_status conv_check_group(generation *g);
compute_status conv_check_parts(generation *g, const conv_problem *problem);

/* The average number of positions or terms that are side by side in the data. */
int64_t conv_position_run(const conv_problem *problem);
int64_t conv_term_run(const conv_problem *problem);

/* ---- Text (text.c) ------------------------------------------------------------------------- */

/* The definitions of all variants: GEMM's names, LOAD_DATA, LOAD_WEIGHT, ROWS, COLUMNS, POSITION,
 * CHANNEL, and kernels/conv_window.h. */
void conv_define(generation *g, conv_problem *problem);
/* The buffers of data and weight. */
void conv_take(generation *g, emit_launch *launch, const conv_problem *problem);
/* "for (… batch …) {" with the offsets batch_<walk> and the phase, and all fields of the window and
 * the store. Skips a batch with an empty phase. The caller closes the brace. */
void conv_begin_batches(generation *g, emit_launch *launch, const conv_problem *problem);
/* A block that runs the epilogue on the expression `sum`: conv_store at the variables row, column;
 * conv_store_at at m0, m1, m2 and the channel's variable. */
void conv_store_at(generation *g, text_buffer *text, const conv_problem *problem, const char *sum);
void conv_store(generation *g, text_buffer *text, const conv_problem *problem, const char *sum);
void conv_take_epilogue(generation *g, emit_launch *launch, const conv_problem *problem);

/* Terms in parts, along groups[1]. Parts are found inside batches, because each phase has another
 * number of terms. */
typedef struct conv_parts {
  int64_t count, length;
} conv_parts;
conv_parts conv_cut(const conv_problem *problem, uint32_t parts, uint32_t multiple);
void conv_find_part(generation *g, emit_launch *launch, const conv_parts *parts);
void conv_emit_combine(generation *g, const conv_problem *problem, const conv_parts *parts);

extern const emit_form conv_tiled, conv_split, conv_matrix, conv_packed, conv_winograd, conv_filter,
    conv_places;

#endif
