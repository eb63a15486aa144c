/* SPDX-License-Identifier: MIT */
/* The division of REDUCE and ROW into groups, items and passes; their texts follow it. Also the
 * forms of FIT. The division is a separate step, so that tests can check it alone. */
#ifndef GENERATE_PLAN_H
#define GENERATE_PLAN_H

#include "codegen/generate/emit/emit.h"

/* ---- REDUCE -------------------------------------------------------------------------------- */

/* The shape of the problem: `kept` results of `count` elements each. `space` has the prologue's
 * walks over the kept dimensions, then (past its fence) over the reduced ones. */
typedef struct reduce_problem {
  const emit_space *space;
  int32_t main_input; /* −1: none */
  int64_t kept, count;
  uint32_t bytes; /* of one partial result */
} reduce_problem;

/* One launch. */
typedef struct reduce_pass {
  bool items;     /* template reduce_item instead of reduce_group */
  bool across;    /* neighbouring items, or vectors, run over kept dimensions */
  uint32_t group; /* items of a group */
  uint32_t lanes; /* items that share a result; or width of a vector */
  uint32_t columns;
  uint32_t unroll;
  int64_t count;                     /* elements of each result */
  int64_t share, splits;             /* elements of a part; number of parts */
  int64_t tiles, run, pieces, inner; /* as in the templates */
  int64_t groups;
} reduce_pass;

/* Plans one pass, or two. The second then combines the first's partial results. Returns the number
 * of passes, or 0 if refused. Sets the parameters in g->tuning. */
uint32_t reduce_plan(generation *g, const reduce_problem *problem, reduce_pass passes[2]);

/* ---- ROW ----------------------------------------------------------------------------------- */

typedef enum row_form {
  ROW_HELD,  /* of kernels/row_group.h */
  ROW_LONG,  /* the same, for rows that are read twice */
  ROW_ITEM,  /* of kernels/row_item.h */
  ROW_ACROSS /* the same, vectors of rows */
} row_form;

/* `space` has all walks over the rows, then (past its fence) over the position in a row. */
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
  uint32_t rows;                     /* rows of a group */
  uint32_t items;                    /* elements of an item at once */
  uint32_t vector;                   /* elements of one load */
  bool shuffle;                      /* the items of a warp exchange values without local memory */
  uint32_t width;                    /* of vectors */
  uint32_t held;                     /* elements that a CPU item keeps */
  int64_t share, splits;             /* elements of a part; parts of a row */
  int64_t tiles, run, pieces, inner; /* as in the templates */
  int64_t groups;
} row_cut;

/* Returns false if refused. Sets the parameters in g->tuning. */
bool row_plan(generation *g, const row_problem *problem, row_cut *cut);

/* ---- FIT ----------------------------------------------------------------------------------- */

/* The forms (compute_tuning.variant), the other fields that each reads, and sensible values:
 *
 *   ITEM    an ROI for each item, its pixels in local memory; group_x (32 … 256). For targets with
 *           COMPUTE_TARGET_FAST_LOCAL and ROIs that fit. groups: the number that should fit on a
 *           compute unit, which limits an item's registers (2 … 24)
 *   GROUP   an ROI for each group, its pixels in local memory; group_x (32 … 256)
 *   DIRECT  ROIs for each item, which reads pixels when needed; group_x; items: the number of ROIs
 *           in sequence */
typedef enum fit_variant { FIT_ITEM = 1, FIT_GROUP = 2, FIT_DIRECT = 3 } fit_variant;

#endif
