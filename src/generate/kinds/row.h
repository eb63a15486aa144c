/* ROW in two halves: how it is cut up (row_plan.c), and its text (row.c). */
#ifndef GENERATE_ROW_H
#define GENERATE_ROW_H

#include "generate/fold.h"

typedef enum row_form {
  ROW_HELD,  /* kernels/row_held.h */
  ROW_LONG,  /* row_long.h */
  ROW_ITEM,  /* row_item.h */
  ROW_ACROSS /* row_across.h */
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
  uint32_t width;                    /* of vectors */
  uint32_t held;                     /* elements that an item of a CPU holds */
  int64_t share, splits;             /* elements of a part; parts of a row */
  int64_t tiles, run, pieces, inner; /* as in the templates */
  int64_t groups;
} row_cut;

/* False: refused. Writes the parameters down in g->tuning. */
bool row_plan(generation *g, const row_problem *problem, row_cut *cut);

#endif
