/* A kernel evaluated plainly, from copies of its operands on the host.
 *
 * The work is cut into units that can be evaluated by themselves: an element of the output space,
 * a whole row of ROW, all of SCATTER. */
#ifndef VALIDATE_EVALUATE_H
#define VALIDATE_EVALUATE_H

#include "validate/number.h"

/* How an operand walks memory: dimensions of its own, some of which the space does not have. */
typedef struct extent {
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK + 1], stride[COMPUTE_MAX_RANK + 1]; /* elements */
  int64_t low, high; /* of the elements' offsets from the first; high < low: there are none */
} extent;

/* Operand `index`: the inputs, then the outputs. Dimensions that only repeat are left out. */
void extent_of(const compute_kernel_descriptor *descriptor, uint32_t index, extent *result);

/* An operand on the host. `data` is the element with offset `low`. */
typedef struct view {
  compute_dtype dtype;
  uint32_t size; /* bytes of an element */
  const int64_t *stride;
  int64_t low;
  unsigned char *data;
} view;

static inline unsigned char *view_at(const view *v, int64_t offset) {
  return v->data + (offset - v->low) * (int64_t)v->size;
}

typedef struct evaluation {
  const compute_kernel_descriptor *d;
  view input[COMPUTE_MAX_OPERANDS];
  view before; /* of SCATTER: the output as it was */
  int64_t units, unit_length;
  int32_t out_rank;   /* dimensions of the output space */
  uint64_t unit_work; /* of one unit, roughly in multiplications */
  extent scattered;   /* of SCATTER: its output's */
} evaluation;

/* Whether there is a plain evaluation. Not of fits: their solvers may take different paths to the
 * same result, so there is no bound for rounding that an element could be held against. Not of
 * running folds, attention and top-k, of which every element depends on much of the others. */
bool evaluation_exists(const compute_kernel_descriptor *descriptor);

/* Fills what follows from the descriptor. */
void evaluation_prepare(evaluation *e, const compute_kernel_descriptor *descriptor);

/* Room for one unit, for one thread. */
typedef struct workspace {
  number *values;  /* of a program */
  number *row;     /* ROW */
  number *results; /* element by element, each with all outputs */
} workspace;

bool workspace_make(const evaluation *e, workspace *w);
void workspace_release(workspace *w);

/* Fills w->results. False if an index points outside its axis. */
bool evaluate_unit(const evaluation *e, int64_t unit, workspace *w);

/* The type of output `k` in the results, and the offset of result `j` of a unit. */
compute_dtype evaluation_type(const evaluation *e, uint32_t k);
int64_t evaluation_offset(const evaluation *e, uint32_t k, int64_t unit, int64_t j);

#endif
