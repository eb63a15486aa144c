/* SPDX-License-Identifier: MIT */
/* The table of operations that compute-bench measures; see operations.h.
 *
 * References are simple, not fast: textbook loops in double precision. Of a big problem, therefore,
 * only some random rows are checked (operation_case.c). */
#include "operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* ---- Elementwise --------------------------------------------------------------------------- */

static compute_shape vector_shape(const bench_case *c, uint32_t input) {
  (void)input;
  return COMPUTE_SHAPE(c->size[0]);
}

static double relu(double x) {
  return x > 0 ? x : 0;
}
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
static double silu(double x) {
  return x / (1 + exp(-x));
}
static double gelu(double x) {
  return 0.5 * x * erfc(-x * M_SQRT1_2);
}

/* Hendrycks and Gimpel, 2016, arXiv:1606.08415, equation 2; through the sigmoid, which does not
 * cancel for negative x. */
static double gelu_tanh(double x) {
  return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static compute_node build_unary(compute_graph *g, const bench_case *c, const compute_node *in) {
  return bench_operation_find(c->operation)->unary(g, in[0]);
}

static void reference_unary(const bench_problem *p, int64_t first, int64_t count, double *value,
                            double *scale) {
  host_load(p->c->dtype, p->input[0], first, 1, count, value);
  for (int64_t i = 0; i < count; i++) {
    value[i] = p->operation->function(value[i]);
    scale[i] = fabs(value[i]);
  }
}

static compute_node build_add(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_add(g, in[0], in[1]);
}

static void reference_add(const bench_problem *p, int64_t first, int64_t count, double *value,
                          double *scale) {
  host_load(p->c->dtype, p->input[0], first, 1, count, value);
  host_load(p->c->dtype, p->input[1], first, 1, count, scale);
  for (int64_t i = 0; i < count; i++) {
    value[i] += scale[i];
    scale[i] = fabs(value[i]);
  }
}

static double flops_add(const bench_case *c) {
  return (double)c->size[0];
}

/* relu(x·y + z)·0.5 + x */
static compute_node build_chain(compute_graph *g, const bench_case *c, const compute_node *in) {
  compute_node half = compute_scalar(g, c->dtype, 0.5);
  compute_node inner = compute_relu(g, compute_add(g, compute_mul(g, in[0], in[1]), in[2]));
  return compute_add(g, compute_mul(g, inner, half), in[0]);
}

static void reference_chain(const bench_problem *p, int64_t first, int64_t count, double *value,
                            double *scale) {
  for (int64_t i = 0; i < count; i++) {
    double x, y, z;
    host_load(p->c->dtype, p->input[0], first + i, 1, 1, &x);
    host_load(p->c->dtype, p->input[1], first + i, 1, 1, &y);
    host_load(p->c->dtype, p->input[2], first + i, 1, 1, &z);
    value[i] = relu(x * y + z) * 0.5 + x;
    scale[i] = fabs(x * y) + fabs(z) + fabs(x);
  }
}

static double flops_chain(const bench_case *c) {
  return 5 * (double)c->size[0];
}

/* ---- Matrices: helpers --------------------------------------------------------------------- */

static compute_shape matrix_shape(const bench_case *c, uint32_t input) {
  (void)input;
  return COMPUTE_SHAPE(c->size[0], c->size[1]);
}

static double *temporary(int64_t count) {
  return malloc((size_t)count * sizeof(double));
}

/* For a reference that runs out of memory: nothing equals NaN, so the check fails. */
static void give_up(int64_t count, double *value) {
  for (int64_t i = 0; i < count; i++) value[i] = NAN;
}

static compute_shape add_row_shape(const bench_case *c, uint32_t input) {
  return input ? COMPUTE_SHAPE(c->size[1]) : matrix_shape(c, input);
}

static void reference_add_row(const bench_problem *p, int64_t first, int64_t count, double *value,
                              double *scale) {
  host_load(p->c->dtype, p->input[0], first, 1, count, value);
  host_load(p->c->dtype, p->input[1], first % p->c->size[1], 1, count, scale);
  for (int64_t i = 0; i < count; i++) {
    value[i] += scale[i];
    scale[i] = fabs(value[i]);
  }
}

static double flops_matrix(const bench_case *c) {
  return (double)c->size[0] * (double)c->size[1];
}

/* ---- Matrix product ------------------------------------------------------------------------ */

static compute_shape matmul_shape(const bench_case *c, uint32_t input) {
  int64_t m = c->size[0], n = c->size[1], k = c->size[2], batch = c->size[3];
  if (input == 2) return COMPUTE_SHAPE(n);
  if (batch) return input ? COMPUTE_SHAPE(batch, k, n) : COMPUTE_SHAPE(batch, m, k);
  return input ? COMPUTE_SHAPE(k, n) : COMPUTE_SHAPE(m, k);
}

static compute_node build_matmul(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_matmul(g, in[0], in[1]);
}

/* Row by row: value = a[i,:]·b, scale = |a[i,:]|·|b|. Errors are relative to the scale, since
 * rounding errors are proportional to the terms, not to their sum. */
static void reference_matmul(const bench_problem *p, int64_t first, int64_t count, double *value,
                             double *scale) {
  int64_t m = p->c->size[0], n = p->c->size[1], k = p->c->size[2];
  int64_t row = first / n, column = first % n;
  double *b = temporary(count);
  if (!b) {
    give_up(count, value);
    return;
  }
  memset(value, 0, (size_t)count * sizeof *value);
  memset(scale, 0, (size_t)count * sizeof *scale);
  for (int64_t j = 0; j < k; j++) {
    double a;
    host_load(p->c->dtype, p->input[0], row * k + j, 1, 1, &a);
    host_load(p->c->dtype, p->input[1], (row / m * k + j) * n + column, 1, count, b);
    for (int64_t i = 0; i < count; i++) {
      value[i] += a * b[i];
      scale[i] += fabs(a * b[i]);
    }
  }
  free(b);
}

static double flops_matmul(const bench_case *c) {
  return 2.0 * (double)c->size[0] * (double)c->size[1] * (double)c->size[2] *
         (double)(c->size[3] ? c->size[3] : 1);
}

/* a · transpose(b), with b stored as [n,k]. */
static compute_shape matmul_nt_shape(const bench_case *c, uint32_t input) {
  return input ? COMPUTE_SHAPE(c->size[1], c->size[2]) : COMPUTE_SHAPE(c->size[0], c->size[2]);
}

static compute_node build_matmul_nt(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_matmul(g, in[0], compute_transpose(g, in[1], COMPUTE_ALL_AXES));
}

static void reference_matmul_nt(const bench_problem *p, int64_t first, int64_t count, double *value,
                                double *scale) {
  int64_t n = p->c->size[1], k = p->c->size[2], row = first / n, column = first % n;
  double *a = temporary(k), *b = temporary(k);
  if (!a || !b) give_up(count, value);
  for (int64_t i = 0; a && b && i < count; i++) {
    host_load(p->c->dtype, p->input[0], row * k, 1, k, a);
    host_load(p->c->dtype, p->input[1], (column + i) * k, 1, k, b);
    value[i] = scale[i] = 0;
    for (int64_t j = 0; j < k; j++) {
      value[i] += a[j] * b[j];
      scale[i] += fabs(a[j] * b[j]);
    }
  }
  free(a);
  free(b);
}

static compute_node build_matmul_bias_gelu(compute_graph *g, const bench_case *c,
                                           const compute_node *in) {
  (void)c;
  return compute_gelu(g, compute_add(g, compute_matmul(g, in[0], in[1]), in[2]));
}

static void reference_matmul_bias_gelu(const bench_problem *p, int64_t first, int64_t count,
                                       double *value, double *scale) {
  int64_t column = first % p->c->size[1];
  reference_matmul(p, first, count, value, scale);
  for (int64_t i = 0; i < count; i++) {
    double bias;
    host_load(p->c->dtype, p->input[2], column + i, 1, 1, &bias);
    value[i] = gelu(value[i] + bias);
    scale[i] += fabs(bias);
  }
}

/* ---- Reductions ---------------------------------------------------------------------------- */

static compute_node build_sum_all(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_sum(g, in[0], COMPUTE_ALL_AXES, false);
}

static compute_node build_sum_rows(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_sum(g, in[0], COMPUTE_AXES(1), false);
}

static compute_node build_sum_columns(compute_graph *g, const bench_case *c,
                                      const compute_node *in) {
  (void)c;
  return compute_sum(g, in[0], COMPUTE_AXES(0), false);
}

static compute_node build_max_rows(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_max(g, in[0], COMPUTE_AXES(1), false);
}

static compute_node build_argmax_rows(compute_graph *g, const bench_case *c,
                                      const compute_node *in) {
  (void)c;
  return compute_argmax(g, in[0], 1, false);
}

/* Sums of `lines` runs of `length` elements: element j of run i at i·step + j·stride. */
static void add_up(const bench_problem *p, int64_t start, int64_t step, int64_t stride,
                   int64_t lines, int64_t length, double *value, double *scale) {
  double *x = temporary(length);
  if (!x) give_up(lines, value);
  for (int64_t i = 0; x && i < lines; i++) {
    host_load(p->c->dtype, p->input[0], start + i * step, stride, length, x);
    value[i] = scale[i] = 0;
    for (int64_t j = 0; j < length; j++) {
      value[i] += x[j];
      scale[i] += fabs(x[j]);
    }
  }
  free(x);
}

static void reference_sum_all(const bench_problem *p, int64_t first, int64_t count, double *value,
                              double *scale) {
  (void)first;
  add_up(p, 0, 0, 1, count, p->c->size[0] * p->c->size[1], value, scale);
}

static void reference_sum_rows(const bench_problem *p, int64_t first, int64_t count, double *value,
                               double *scale) {
  int64_t columns = p->c->size[1];
  add_up(p, first * columns, columns, 1, count, columns, value, scale);
}

static void reference_sum_columns(const bench_problem *p, int64_t first, int64_t count,
                                  double *value, double *scale) {
  add_up(p, first, 1, p->c->size[1], count, p->c->size[0], value, scale);
}

/* The largest of each row, or with `position` its index. */
static void largest(const bench_problem *p, int64_t first, int64_t count, bool position,
                    double *value, double *scale) {
  int64_t columns = p->c->size[1];
  double *x = temporary(columns);
  if (!x) give_up(count, value);
  for (int64_t i = 0; x && i < count; i++) {
    int64_t best = 0;
    host_load(p->c->dtype, p->input[0], (first + i) * columns, 1, columns, x);
    for (int64_t j = 1; j < columns; j++)
      if (x[j] > x[best]) best = j;
    value[i] = position ? (double)best : x[best];
    scale[i] = 1;
  }
  free(x);
}

static void reference_max_rows(const bench_problem *p, int64_t first, int64_t count, double *value,
                               double *scale) {
  largest(p, first, count, false, value, scale);
}

static void reference_argmax_rows(const bench_problem *p, int64_t first, int64_t count,
                                  double *value, double *scale) {
  largest(p, first, count, true, value, scale);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

static compute_node build_softmax(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_softmax(g, in[0], 1);
}

static compute_node build_log_softmax(compute_graph *g, const bench_case *c,
                                      const compute_node *in) {
  (void)c;
  return compute_log_softmax(g, in[0], 1);
}

/* Leaves x − max in `value` and returns the sum of its exponentials. */
static double exponentials(const bench_problem *p, int64_t first, int64_t count, double *value) {
  double top = -INFINITY, sum = 0;
  host_load(p->c->dtype, p->input[0], first, 1, count, value);
  for (int64_t i = 0; i < count; i++) top = fmax(top, value[i]);
  for (int64_t i = 0; i < count; i++) sum += exp(value[i] -= top);
  return sum;
}

static void reference_softmax(const bench_problem *p, int64_t first, int64_t count, double *value,
                              double *scale) {
  double sum = exponentials(p, first, count, value);
  for (int64_t i = 0; i < count; i++) scale[i] = value[i] = exp(value[i]) / sum;
}

static void reference_log_softmax(const bench_problem *p, int64_t first, int64_t count,
                                  double *value, double *scale) {
  double sum = exponentials(p, first, count, value);
  for (int64_t i = 0; i < count; i++) {
    value[i] -= log(sum);
    scale[i] = fabs(value[i]);
  }
}

static const double layer_norm_epsilon = 1e-5;

static compute_shape layer_norm_shape(const bench_case *c, uint32_t input) {
  return input ? COMPUTE_SHAPE(c->size[1]) : matrix_shape(c, input);
}

static compute_node build_layer_norm(compute_graph *g, const bench_case *c,
                                     const compute_node *in) {
  (void)c;
  return compute_layer_norm(g, in[0], in[1], in[2], layer_norm_epsilon);
}

static void reference_layer_norm(const bench_problem *p, int64_t first, int64_t count,
                                 double *value, double *scale) {
  double mean = 0, variance = 0;
  host_load(p->c->dtype, p->input[0], first, 1, count, value);
  for (int64_t i = 0; i < count; i++) mean += value[i] / (double)count;
  for (int64_t i = 0; i < count; i++) {
    value[i] -= mean;
    variance += value[i] * value[i] / (double)count;
  }
  double factor = 1 / sqrt(variance + layer_norm_epsilon);
  for (int64_t i = 0; i < count; i++) {
    double gain, bias;
    host_load(p->c->dtype, p->input[1], i, 1, 1, &gain);
    host_load(p->c->dtype, p->input[2], i, 1, 1, &bias);
    value[i] = value[i] * factor * gain + bias;
    scale[i] = 1; /* of the normalised values */
  }
}

/* ---- Transposition ------------------------------------------------------------------------- */

static compute_node build_transpose(compute_graph *g, const bench_case *c, const compute_node *in) {
  (void)c;
  return compute_transpose(g, in[0], COMPUTE_ALL_AXES);
}

static void reference_transpose(const bench_problem *p, int64_t first, int64_t count, double *value,
                                double *scale) {
  int64_t rows = p->c->size[0], columns = p->c->size[1];
  host_load(p->c->dtype, p->input[0], first % rows * columns + first / rows, columns, count, value);
  for (int64_t i = 0; i < count; i++) scale[i] = 1;
}

/* ---- The table ----------------------------------------------------------------------------- */

/* Bounds: two units in the last place for functions of one operand; for sums a few roundings of the
 * terms; zero where nothing is rounded. */
#define UNARY(operation, truth, low_, high_, bound_, work_)                                        \
  {                                                                                                \
    .name = #operation, .input_count = 1, .low = low_, .high = high_, .bound = bound_,             \
    .shape = vector_shape, .build = build_unary, .reference = reference_unary, .work = work_,      \
    .unary = compute_##operation, .function = truth                                                \
  }

static const bench_operation table[] = {
    UNARY(relu, relu, -4, 4, 0, 2),
    UNARY(exp, exp, -20, 20, 2, 10),
    UNARY(log, log, 1e-3, 1e3, 2, 10),
    UNARY(tanh, tanh, -8, 8, 2, 20),
    UNARY(erf, erf, -5, 5, 2, 20),
    UNARY(sigmoid, sigmoid, -15, 15, 2, 15),
    UNARY(silu, silu, -15, 15, 4, 15),
    UNARY(gelu, gelu, -4, 4, 4, 25),
    UNARY(gelu_tanh, gelu_tanh, -3, 3, 8, 20),
    {.name = "add",
     .input_count = 2,
     .low = -4,
     .high = 4,
     .bound = 1,
     .shape = vector_shape,
     .build = build_add,
     .reference = reference_add,
     .flops = flops_add,
     .work = 2},
    {.name = "add_row",
     .input_count = 2,
     .low = -4,
     .high = 4,
     .bound = 1,
     .shape = add_row_shape,
     .build = build_add,
     .reference = reference_add_row,
     .flops = flops_matrix,
     .work = 2},
    {.name = "chain",
     .input_count = 3,
     .low = -4,
     .high = 4,
     .bound = 2,
     .shape = vector_shape,
     .build = build_chain,
     .reference = reference_chain,
     .flops = flops_chain,
     .work = 6},
    {.name = "matmul",
     .input_count = 2,
     .low = -1,
     .high = 1,
     .bound = 4,
     .shape = matmul_shape,
     .build = build_matmul,
     .reference = reference_matmul,
     .flops = flops_matmul},
    {.name = "matmul_nt",
     .input_count = 2,
     .low = -1,
     .high = 1,
     .bound = 4,
     .shape = matmul_nt_shape,
     .build = build_matmul_nt,
     .reference = reference_matmul_nt,
     .flops = flops_matmul},
    {.name = "matmul_bias_gelu",
     .input_count = 3,
     .low = -1,
     .high = 1,
     .bound = 4,
     .shape = matmul_shape,
     .build = build_matmul_bias_gelu,
     .reference = reference_matmul_bias_gelu,
     .flops = flops_matmul},
    {.name = "sum_all",
     .input_count = 1,
     .low = -1,
     .high = 1,
     .bound = 8,
     .shape = matrix_shape,
     .build = build_sum_all,
     .reference = reference_sum_all,
     .flops = flops_matrix},
    {.name = "sum_rows",
     .input_count = 1,
     .low = -1,
     .high = 1,
     .bound = 8,
     .shape = matrix_shape,
     .build = build_sum_rows,
     .reference = reference_sum_rows,
     .flops = flops_matrix},
    {.name = "sum_columns",
     .input_count = 1,
     .low = -1,
     .high = 1,
     .bound = 8,
     .shape = matrix_shape,
     .build = build_sum_columns,
     .reference = reference_sum_columns,
     .flops = flops_matrix},
    {.name = "max_rows",
     .input_count = 1,
     .low = -1,
     .high = 1,
     .bound = 0,
     .shape = matrix_shape,
     .build = build_max_rows,
     .reference = reference_max_rows,
     .flops = flops_matrix},
    {.name = "argmax_rows",
     .input_count = 1,
     .low = -1,
     .high = 1,
     .bound = 0,
     .shape = matrix_shape,
     .build = build_argmax_rows,
     .reference = reference_argmax_rows,
     .flops = flops_matrix},
    {.name = "softmax",
     .input_count = 1,
     .low = -8,
     .high = 8,
     .bound = 16,
     .shape = matrix_shape,
     .build = build_softmax,
     .reference = reference_softmax,
     .work = 20},
    {.name = "log_softmax",
     .input_count = 1,
     .low = -8,
     .high = 8,
     .bound = 16,
     .shape = matrix_shape,
     .build = build_log_softmax,
     .reference = reference_log_softmax,
     .work = 20},
    {.name = "layer_norm",
     .input_count = 3,
     .low = -1,
     .high = 1,
     .bound = 32,
     .shape = layer_norm_shape,
     .build = build_layer_norm,
     .reference = reference_layer_norm,
     .work = 8},
    {.name = "transpose",
     .input_count = 1,
     .low = -1,
     .high = 1,
     .bound = 0,
     .shape = matrix_shape,
     .build = build_transpose,
     .reference = reference_transpose,
     .work = 4},
};

const bench_operation *bench_operation_find(const char *name) {
  const bench_operation *more[] = {bench_operations_conv, bench_operations_pool,
                                   bench_operations_norm};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name)) return &table[i];
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    for (const bench_operation *o = more[i]; o->name; o++)
      if (!strcmp(o->name, name)) return o;
  return NULL;
}

bench_input bench_operation_input(const bench_operation *operation, const bench_case *c,
                                  uint32_t input) {
  bench_input what = {.dtype = c->dtype, .low = operation->low, .high = operation->high};
  if (operation->describe) operation->describe(c, input, &what);
  return what;
}
