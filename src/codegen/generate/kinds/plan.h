/* SPDX-License-Identifier: MIT */
/* How REDUCE and ROW are cut up, which their texts are written from; and the forms of FIT. Apart,
 * so that the cutting can be tested on its own. */
#ifndef GENERATE_PLAN_H
#define GENERATE_PLAN_H

#include "codegen/generate/emit/emit.h"

/* ---- REDUCE -------------------------------------------------------------------------------- */

/* The shape of the problem: kept results of `count` elements each. `space` has the prologue's walks
 * over the kept dimensions, then (past its fence) the reduced ones. */
typedef struct reduce_problem {
  const emit_space *space;
  int32_t main_input; /* −1: none */
  int64_t kept, count;
  uint32_t bytes; /* of one partial result */
} reduce_problem;

/* One launch. */
typedef struct reduce_pass {
  bool items;     /* the template reduce_item instead of reduce_group */
  bool across;    /* neighbouring items, or vectors, run over kept dimensions */
  uint32_t group; /* items of a group */
  uint32_t lanes; /* items that share a result; width of a vector */
  uint32_t columns;
  uint32_t unroll;
  int64_t count;                     /* elements of each result */
  int64_t share, splits;             /* elements of a part; parts */
  int64_t tiles, run, pieces, inner; /* as in the templates */
  int64_t groups;
} reduce_pass;

/* One pass, or two, of which the second combines what the first left of each part: returns how
 * many. 0: refused. Writes the parameters down in g->tuning. */
uint32_t reduce_plan(generation *g, const reduce_problem *problem, reduce_pass passes[2]);

/* ---- ROW ----------------------------------------------------------------------------------- */

typedef enum row_form {
  ROW_HELD,  /* of kernels/row_group.h */
  ROW_LONG,  /* the same, for rows that are read twice */
  ROW_ITEM,  /* of kernels/row_item.h */
  ROW_ACROSS /* the same, vectors of rows */
} row_form;

/* `space` has all walks over the rows, then (past its fence) the position in a row. */
typedef struct row_problem {
  const emit_space *space;
  int32_t main_input; /* −1: none */
  int64_t rows, length;
  uint32_t bytes; /* of a value */
} row_problem;

typedef struct row_cut {
  row_form form;
  bool across;                       /* neighbouring items, or vectors, run over rows */
  uint32_t group;                    /* items of a group */
  uint32_t lanes;                    /* items that share a row */
  uint32_t rows;                     /* of a group */
  uint32_t items;                    /* elements that an item takes at once */
  uint32_t vector;                   /* those that one load takes */
  bool shuffle;                      /* the items of a warp exchange values by themselves */
  uint32_t width;                    /* of vectors */
  uint32_t held;                     /* elements that an item of a CPU holds */
  int64_t share, splits;             /* elements of a part; parts of a row */
  int64_t tiles, run, pieces, inner; /* as in the templates */
  int64_t groups;
} row_cut;

/* False: refused. Writes the parameters down in g->tuning. */
bool row_plan(generation *g, const row_problem *problem, row_cut *cut);

/* ---- FIT ----------------------------------------------------------------------------------- */

/* compute_tuning.variant. What each reads of the other fields, and what is sensible:
 *
 *   ITEM    an ROI for each item, its pixels in local memory; group_x (32 … 256). For targets with
 *           COMPUTE_TARGET_FAST_LOCAL and ROIs that fit. groups: how many should find room on a
 *           compute unit, which limits an item's registers (2 … 24)
 *   GROUP   an ROI for each group, its pixels in local memory; group_x (32 … 256)
 *   DIRECT  ROIs for each item, its pixels read when they are needed; group_x; items: how many
 *           ROIs one after the other */
typedef enum fit_variant { FIT_ITEM = 1, FIT_GROUP = 2, FIT_DIRECT = 3 } fit_variant;

#endif
