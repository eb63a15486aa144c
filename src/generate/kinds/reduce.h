/* REDUCE in two halves: how it is cut up (reduce_plan.c), and its text (reduce.c). */
#ifndef GENERATE_REDUCE_H
#define GENERATE_REDUCE_H

#include "generate/fold.h"

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
  bool items;     /* kernels/reduce_item.h instead of reduce_group.h */
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

#endif
