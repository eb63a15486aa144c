/* SPDX-License-Identifier: MIT */
/* Evaluation of a kernel by plain code, from copies of its operands on the host.
 *
 * The work is divided into units that can be evaluated independently: one element of the output
 * space, a whole row of ROW, all of SCATTER. Each kind has a constant struct in kinds/. Their table
 * (check.c) is generated from COMPUTE_KERNEL_KINDS. */
#ifndef VALIDATE_EVALUATE_H
#define VALIDATE_EVALUATE_H

#include "compute/backend.h"
#include "compute/validate.h"
#include "core/base/thread_pool.h"

/* ---- Numbers with error bounds (number.c) ---------------------------------------------------- */

/* A value with an error bound. A device computes with rounding. The plain evaluation computes the
 * same in double precision and keeps a bound of the difference with each value. Some values have no
 * bound: a comparison of two values that rounding may have exchanged, or a division by a possible
 * zero. Such a number is vague: its error is infinite, and any result passes. Integers are exact or
 * vague. */
typedef struct number {
  double real;     /* of F64 and F32 */
  int64_t integer; /* of I64, I32 and BOOL */
  double error;    /* ≥ 0; infinite: vague */
} number;

/* True for the floating-point compute types of programs. */
static inline bool number_is_float(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32;
}

bool number_is_vague(const number *n);

/* The distance of 1 to the next number of a type or storage dtype; 0 for integers. */
double number_epsilon(compute_dtype dtype);

/* Adds the error of rounding to `type` (F64 or F32) for a result that is exact to `ulps` units. A
 * value out of the type's range becomes infinite. `exact`: all operands had error 0. */
number number_round(compute_dtype type, double value, double error, double ulps, bool exact);

/* Loads one element of memory in its dtype's compute type. */
number number_load(compute_dtype dtype, const void *element);

/* Combines the element `a` and the update `b` of a scatter. */
number number_scatter(compute_scatter_mode mode, compute_dtype type, const number *a,
                      const number *b);

/* Returns a sum of `terms` terms, added in any order. `magnitude` is the sum of their absolute
 * values, `error` the sum of their errors. */
number number_sum(compute_dtype type, double sum, double magnitude, double error, double terms,
                  bool exact);

/* Runs a program on its inputs; a program without instructions returns input 0. `values` has room
 * for one number per instruction. */
void number_run(const compute_program *program, const number *inputs, const int64_t *coordinate,
                int64_t position, number *values, number *outputs);

/* ---- Operands (evaluate.c) ------------------------------------------------------------------- */

/* The memory access of an operand: the operand's dimensions, including some that the space
 * lacks. */
typedef struct extent {
  int32_t rank;
  int64_t size[COMPUTE_MAX_RANK + 1], stride[COMPUTE_MAX_RANK + 1]; /* elements */
  int64_t low, high; /* offsets of elements, relative to the first; high < low: no elements */
} extent;

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
  const struct evaluation_kind *kind;
  view input[COMPUTE_MAX_OPERANDS];
  view before; /* of a kind that adds: the previous output */
  int64_t units, unit_length;
  int64_t row_length; /* numbers in workspace.row */
  int32_t out_rank;   /* dimensions of the output space */
  uint64_t unit_work; /* of one unit, roughly in multiplications */
  extent added;       /* of a kind that adds: the extent of its output */
} evaluation;

/* Finds the extent of operand `index`: the inputs, then the outputs. Omits dimensions that only
 * repeat. */
void extent_of(const evaluation *e, uint32_t index, extent *result);

/* Memory for one unit, for one thread. */
typedef struct workspace {
  number *values;  /* of a program */
  number *row;     /* e->row_length */
  number *results; /* element by element, each with all outputs */
} workspace;

/* The evaluation of a kind. Every field may be NULL or 0. */
typedef struct evaluation_kind {
  /* Writes the results of one unit to w->results. False if an index is outside its axis. NULL: the
   * kind has no plain evaluation, for a reason given in its file. */
  bool (*evaluate)(const evaluation *e, int64_t unit, workspace *w);
  /* Divides the work: sets unit_length and units. NULL: one unit per element of the output
   * space. */
  void (*cut)(evaluation *e);
  uint64_t (*work)(const compute_kernel_descriptor *d, uint64_t program); /* NULL: `program` */
  compute_dtype (*type)(const compute_kernel_descriptor *d); /* of value 0; NULL: accumulate */
  bool (*indexed)(const compute_kernel_descriptor *d, uint32_t operand); /* also indexes an axis */
  bool adds; /* the output is one unit and is read as well */
} evaluation_kind;

/* ---- For the kinds (evaluate.c) -------------------------------------------------------------- */

/* The product of sizes `from` … `to` − 1. */
int64_t evaluate_count(const int64_t *size, int32_t from, int32_t to);

void evaluate_coordinates(const int64_t *size, int32_t rank, int64_t position, int64_t *coordinate);
int64_t evaluate_offset(const int64_t *stride, int32_t rank, const int64_t *coordinate);

/* Loads the element of an operand at a position in the space. */
number evaluate_load(const view *v, int32_t rank, const int64_t *coordinate);

/* Runs the epilogue on `value` (NULL: none) and the inputs from `rest` on. */
void evaluate_epilogue(const evaluation *e, const number *value, uint32_t rest,
                       const int64_t *coordinate, int64_t position, workspace *w, number *results);
number evaluate_prologue(const evaluation *e, const int64_t *coordinate, int64_t position,
                         workspace *w);

/* ---- Comparing (check.c) --------------------------------------------------------------------- */

/* Fills in the evaluation from the descriptor, which must outlive it. Returns false if the kind has
 * no plain evaluation. */
bool evaluation_prepare(evaluation *e, const compute_kernel_descriptor *descriptor);

typedef struct check_request {
  const evaluation *e;
  view *output;     /* the device's results */
  double tolerance; /* multiplies every bound */
  int64_t every;    /* every n-th unit is checked */
  bool replace;     /* write the plain results to `output` instead of comparing */
} check_request;

/* The result of checking one output. */
typedef struct check_result {
  uint64_t compared, vague, bad;
  bool found; /* the worst element: */
  compute_validation_kind kind;
  int64_t position;
  double actual, expected, error, tolerance;
  uint64_t spoilt; /* expected non-finite elements; the first of them: */
  int64_t spoilt_position;
  double spoilt_value;
} check_result;

/* Fills in a result for each output. Returns false when out of memory. */
bool check_run(thread_pool *threads, const check_request *request, check_result *results);

/* Returns the distance of checked units that limits the check to about `most` operations. */
int64_t check_every(const evaluation *e, uint64_t most);

/* Collects the statistics of an input. */
void check_range(const view *v, const extent *e, compute_validation_input *input);

#endif
