/* SPDX-License-Identifier: MIT */
/* The operations that compute-bench measures: for each its graph, its inputs, its cost and a plain
 * reference in double precision.
 *
 * The meaning of bench_case.size (and of bench_peer_problem.size): elementwise n add_row rows,
 * columns: [rows,columns] + [columns] matmul… m, n, k, batch (0: no batch dimension); bias has n
 * elements sums, maxima, rows rows, columns transpose rows, columns of the input; the result is a
 * dense [columns,rows] conv…, …pool… indices BENCH_N … BENCH_GROUPS of peer.h; a transposed
 * convolution
 *                         gives o channels from c, and its filter is [c,o/groups,kernel,kernel]
 * batch_norm… n, c, h, w attention batch, heads, queries and keys, width
 *
 * Inputs of the gradients: by_data filter, dy; by_filter x, dy. */
#ifndef BENCH_OPERATIONS_H
#define BENCH_OPERATIONS_H

#include "bench.h"
#include "peer.h"

enum { BENCH_OUTPUTS = 4 };

/* A reference's problem: the case and its inputs. */
typedef struct bench_problem {
  const bench_case *c;
  const struct bench_operation *operation;
  const void *input[BENCH_PEER_INPUTS];
} bench_problem;

/* One input, unless it has the case's dtype and values in the operation's range. */
typedef struct bench_input {
  compute_dtype dtype;
  double low, high;
} bench_input;

typedef struct bench_operation {
  const char *name;
  uint32_t input_count;
  double low, high; /* of the inputs' values */

  /* Largest error allowed, in units of the result dtype's epsilon (at least), relative to the scale
   * that the reference gives. */
  double bound;

  compute_shape (*shape)(const bench_case *c, uint32_t input);
  void (*describe)(const bench_case *c, uint32_t input, bench_input *what); /* NULL: all alike */
  compute_node (*build)(compute_graph *graph, const bench_case *c, const compute_node *inputs);

  /* Instead of build, for operations with further results, which are computed but not compared: the
   * first one has to depend on them. Returns their number. */
  uint32_t (*build_all)(compute_graph *graph, const bench_case *c, const compute_node *inputs,
                        compute_node *outputs);

  /* The true results at positions first … first + count − 1 of the output, all in one row of it;
   * and for each its scale: errors are relative to this magnitude. */
  void (*reference)(const bench_problem *problem, int64_t first, int64_t count, double *value,
                    double *scale);

  double (*flops)(const bench_case *c); /* of one run; NULL: not stated */
  double work;                          /* time of one reference value, in nanoseconds, roughly */

  /* Of unary operations. */
  compute_node (*unary)(compute_graph *graph, compute_node x);
  double (*function)(double x);
} bench_operation;

/* The shape, dtype and values of input `input`. */
bench_input bench_operation_input(const bench_operation *operation, const bench_case *c,
                                  uint32_t input);

/* Tables of operations in separate files, ended by a row without a name. */
extern const bench_operation bench_operations_conv[], bench_operations_pool[],
    bench_operations_norm[];

/* The operation called `name`, or NULL. */
const bench_operation *bench_operation_find(const char *name);

#endif
