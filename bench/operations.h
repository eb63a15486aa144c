/* What compute-bench measures: for each operation its graph, its inputs, its cost and a plain
 * reference in double precision.
 *
 * The meaning of bench_case.size (and of bench_peer_problem.size):
 *   elementwise           n
 *   add_row               rows, columns: [rows,columns] + [columns]
 *   matmul…               m, n, k, batch (0: no batch dimension); bias has n elements
 *   sums, maxima, rows    rows, columns
 *   transpose             rows, columns of the input; the result is a dense [columns,rows] */
#ifndef BENCH_OPERATIONS_H
#define BENCH_OPERATIONS_H

#include "bench.h"
#include "peer.h"

/* A problem that a reference works on: the case and its inputs. */
typedef struct bench_problem {
  const bench_case *c;
  const struct bench_operation *operation;
  const void *input[BENCH_PEER_INPUTS];
} bench_problem;

typedef struct bench_operation {
  const char *name;
  uint32_t input_count;
  double low, high; /* of the inputs' values */

  /* Largest error allowed, in units of the result dtype's epsilon (at least), relative to what the
   * reference gives as the scale. */
  double bound;

  compute_shape (*shape)(const bench_case *c, uint32_t input);
  compute_node (*build)(compute_graph *graph, const bench_case *c, const compute_node *inputs);

  /* The true results at positions first … first + count − 1 of the output, all in one row of
   * it, and for each the magnitude that its error is to be compared with. */
  void (*reference)(const bench_problem *problem, int64_t first, int64_t count, double *value,
                    double *scale);

  double (*flops)(const bench_case *c); /* of one run; NULL: not worth stating */
  double work;                          /* time of one reference value, in nanoseconds, roughly */

  /* Of operations on one operand. */
  compute_node (*unary)(compute_graph *graph, compute_node x);
  double (*function)(double x);
} bench_operation;

/* The operation called `name`, or NULL. */
const bench_operation *bench_operation_find(const char *name);

#endif
