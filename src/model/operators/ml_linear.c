/* SPDX-License-Identifier: MIT */
/* Linear models and support vector machines of ai.onnx.ml. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "compute/call.h"
#include "core/base/arithmetic.h"
#include "core/type/shape.h"
#include "model/operators/ml.h"
#include "model/operators/numbers.h"
#include "model/operators/op.h"
#include "model/operators/operators.h"

/* x · rowsᵀ for `rows` [count, columns of x] from the file. */
static compute_node times_rows(model_call *call, compute_node x, int64_t count,
                               const double *rows) {
  const compute_node table = ml_constant(call, x, COMPUTE_SHAPE(count, ml_columns(call, x)), rows);
  return compute_matmul(call->graph, x, compute_transpose(call->graph, table, COMPUTE_AXES(1, 0)));
}

/* ---- Linear models --------------------------------------------------------------------------- */

/* x · coefficientsᵀ + intercepts; *targets: the rows of coefficients. */
static compute_status linear(model_call *call, compute_node *y, int64_t *targets) {
  const double *coefficients, *intercepts;
  size_t count, added;
  const compute_node x = ml_matrix(call, 0);
  const int64_t columns = ml_columns(call, x);
  compute_status status = ml_numbers(call, "coefficients", NULL, &coefficients, &count);
  if (!status) status = ml_numbers(call, "intercepts", NULL, &intercepts, &added);
  if (status) return status;
  if (columns < 1 || count == 0 || count % (size_t)columns != 0)
    return call_fail(call, COMPUTE_ERROR_SHAPE, "%zu coefficients for %" PRId64 " features", count,
                     columns);
  *targets = (int64_t)count / columns;
  if (added > 1 && (int64_t)added != *targets)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu intercepts for %" PRId64 " targets", added,
                     *targets);
  *y = times_rows(call, x, *targets, coefficients);
  if (added)
    *y = compute_add(call->graph, *y,
                     ml_constant(call, x, COMPUTE_SHAPE((int64_t)added), intercepts));
  return COMPUTE_OK;
}

static compute_status linear_regressor(model_call *call) {
  compute_node y;
  int64_t targets;
  compute_status status = linear(call, &y, &targets);
  if (!status) status = ml_transform(call, call_attribute_s(call, "post_transform", "NONE"), &y);
  return status ? status : call_output(call, 0, op_cast(call, y, COMPUTE_F32));
}

/* The only label if the one score is not negative, otherwise 0; without labels 1 or 0. */
static compute_status one_class(model_call *call, const ml_labels *labels, compute_node score) {
  compute_graph *graph = call->graph;
  if (labels->count && !labels->numbers)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "one label, which is a text");
  const compute_node above = compute_greater_equal(graph, score, call_scalar_like(call, score, 0));
  const int64_t label = labels->count ? labels->numbers[0] : 1;
  const compute_node chosen =
      compute_select(graph, above, number_i64(call, label), number_i64(call, 0));
  return call_output(call, 0, compute_reshape(graph, chosen, COMPUTE_SHAPE(-1)));
}

/* Scores of two labels from one: without a transform [1 − score, score], as ONNX Runtime has it. */
static compute_status transform_one(model_call *call, const char *transform, compute_node *score) {
  if (strcmp(transform, "NONE") != 0) return ml_transform_pair(call, transform, score);
  const compute_node parts[] = {compute_sub(call->graph, call_scalar_like(call, *score, 1), *score),
                                *score};
  *score = compute_concat(call->graph, parts, 2, 1);
  return COMPUTE_OK;
}

/* The label follows from the scores before the transform: a transform may round them to equal
 * numbers, or to NaN. */
static compute_status linear_classifier(model_call *call) {
  compute_graph *graph = call->graph;
  compute_node raw, classes;
  int64_t targets = 0;
  ml_labels labels;
  const char *transform = call_attribute_s(call, "post_transform", "NONE");
  compute_status status = linear(call, &raw, &targets);
  if (!status) status = ml_read_labels(call, "classlabels_ints", &labels);
  if (status) return status;
  const bool pair = targets == 1 && labels.count == 2;
  if (!pair && labels.count > 0 && (int64_t)labels.count != targets)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu labels for %" PRId64 " targets", labels.count,
                     targets);
  compute_node scores = raw;
  status = (pair ? transform_one : ml_transform)(call, transform, &scores);
  if (status) return status;
  call_output(call, 1, op_cast(call, scores, COMPUTE_F32));
  if (targets == 1 && !pair) return one_class(call, &labels, raw);
  if (pair)
    classes = compute_reshape(
        graph,
        compute_cast(graph, compute_greater(graph, raw, call_scalar_like(call, raw, 0)),
                     COMPUTE_I64),
        COMPUTE_SHAPE(-1));
  else
    classes = compute_argmax(graph, raw, 1, false);
  return ml_output_labels(call, &labels, classes);
}

/* ---- Support vector machines ----------------------------------------------------------------- */

typedef struct machine {
  compute_node x;
  const double *coefficients, *vectors, *rho, *a, *b;
  size_t coefficient_count, vector_count, rho_count, a_count, b_count;
  double gamma, offset, degree;
  const char *kernel;
} machine;

static compute_status read_machine(model_call *call, machine *m) {
  const double *parameters;
  size_t count;
  m->x = ml_matrix(call, 0);
  m->kernel = call_attribute_s(call, "kernel_type", "LINEAR");
  compute_status status =
      ml_numbers(call, "coefficients", NULL, &m->coefficients, &m->coefficient_count);
  if (!status) status = ml_numbers(call, "support_vectors", NULL, &m->vectors, &m->vector_count);
  if (!status) status = ml_numbers(call, "rho", NULL, &m->rho, &m->rho_count);
  if (!status) status = ml_numbers(call, "prob_a", NULL, &m->a, &m->a_count);
  if (!status) status = ml_numbers(call, "prob_b", NULL, &m->b, &m->b_count);
  if (!status) status = ml_numbers(call, "kernel_params", NULL, &parameters, &count);
  if (status) return status;
  if (count > 0 && count < 3)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu kernel parameters", count);
  m->gamma = count ? parameters[0] : 0;
  m->offset = count ? parameters[1] : 0;
  m->degree = count ? parameters[2] : 0;
  if (m->coefficient_count == 0 || m->rho_count == 0)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "it has no coefficients or no rho");
  return COMPUTE_OK;
}

/* The kernel of each row and each of `count` support vectors, [rows, count]. */
static compute_status apply_kernel(model_call *call, const machine *m, int64_t count,
                                   const double *vectors, compute_node *k) {
  compute_graph *graph = call->graph;
  const int64_t columns = ml_columns(call, m->x);
  const compute_node gamma = call_scalar_like(call, m->x, m->gamma);
  if (strcmp(m->kernel, "RBF") == 0) {
    /* By differences: |x|² − 2 x v + |v|² would lose digits where x is near v. */
    const compute_node x = compute_reshape(graph, m->x, COMPUTE_SHAPE(-1, 1, columns));
    const compute_node v = ml_constant(call, m->x, COMPUTE_SHAPE(1, count, columns), vectors);
    const compute_node square = compute_square(graph, compute_sub(graph, x, v));
    const compute_node distance = compute_sum(graph, square, COMPUTE_AXES(-1), false);
    *k = compute_exp(graph, compute_neg(graph, compute_mul(graph, distance, gamma)));
    return COMPUTE_OK;
  }
  *k = times_rows(call, m->x, count, vectors);
  if (strcmp(m->kernel, "LINEAR") == 0) return COMPUTE_OK;
  *k = compute_add(graph, compute_mul(graph, *k, gamma), call_scalar_like(call, m->x, m->offset));
  if (strcmp(m->kernel, "POLY") == 0)
    *k = number_power_of(call, *k, m->degree);
  else if (strcmp(m->kernel, "SIGMOID") == 0)
    *k = compute_tanh(graph, *k);
  else
    return call_fail(call, COMPUTE_ERROR_FORMAT, "kernel_type '%s'", m->kernel);
  return COMPUTE_OK;
}

static compute_status bad_machine(model_call *call, const machine *m) {
  return call_fail(call, COMPUTE_ERROR_FORMAT,
                   "%zu coefficients and %zu numbers of support vectors for %" PRId64 " features",
                   m->coefficient_count, m->vector_count, ml_columns(call, m->x));
}

static compute_status svm_regressor(model_call *call) {
  compute_graph *graph = call->graph;
  machine m;
  const int64_t supports = call_attribute_i(call, "n_supports", 0);
  compute_status status = read_machine(call, &m);
  if (status) return status;
  const int64_t columns = ml_columns(call, m.x);
  int64_t numbers;
  compute_node y;
  if (supports > 0) {
    if (!checked_multiply(supports, columns, &numbers) || numbers != (int64_t)m.vector_count ||
        supports != (int64_t)m.coefficient_count)
      return bad_machine(call, &m);
    status = apply_kernel(call, &m, supports, m.vectors, &y);
    if (!status)
      y = compute_matmul(graph, y,
                         ml_constant(call, m.x, COMPUTE_SHAPE(supports, 1), m.coefficients));
  } else {
    if ((int64_t)m.coefficient_count != columns) return bad_machine(call, &m);
    y = times_rows(call, m.x, 1, m.coefficients);
  }
  if (status) return status;
  y = compute_add(graph, y, call_scalar_like(call, m.x, m.rho[0]));
  if (call_attribute_i(call, "one_class", 0))
    y = compute_select(graph, compute_greater(graph, y, call_scalar_like(call, y, 0)),
                       call_scalar_like(call, y, 1), call_scalar_like(call, y, -1));
  else
    status = ml_transform(call, call_attribute_s(call, "post_transform", "NONE"), &y);
  return status ? status : call_output(call, 0, op_cast(call, y, COMPUTE_F32));
}

/* The probabilities of k classes from r[i][j], the probability of i rather than j: the method of
 * Wu, Lin and Weng (2004), section 4.3, as libsvm iterates it. */
enum { MOST_CLASSES = 64, LEAST_ROUNDS = 100 };

static void couple(int64_t k, double r[MOST_CLASSES][MOST_CLASSES], double *p) {
  double q[MOST_CLASSES][MOST_CLASSES] = {{0}}, qp[MOST_CLASSES];
  for (int64_t t = 0; t < k; t++) {
    p[t] = 1 / (double)k;
    for (int64_t j = 0; j < k; j++)
      if (j != t) {
        q[t][t] += r[j][t] * r[j][t];
        q[t][j] = -r[j][t] * r[t][j];
      }
  }
  for (int64_t round = 0; round < max_i64(LEAST_ROUNDS, k); round++) {
    double pqp = 0, error = 0;
    for (int64_t t = 0; t < k; t++) {
      qp[t] = 0;
      for (int64_t j = 0; j < k; j++) qp[t] += q[t][j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (int64_t t = 0; t < k; t++) error = fmax(error, fabs(qp[t] - pqp));
    if (error < 0.005 / (double)k) break;
    for (int64_t t = 0; t < k; t++) {
      const double step = (pqp - qp[t]) / q[t][t];
      p[t] += step;
      pqp = (pqp + step * (step * q[t][t] + 2 * qp[t])) / ((1 + step) * (1 + step));
      for (int64_t j = 0; j < k; j++) {
        qp[j] = (qp[j] + step * q[t][j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
}

/* [rows, pairs] → [rows, classes], in f64. */
static compute_status couple_rows(void *user, const compute_call_arguments *a, int32_t part,
                                  int32_t parts) {
  const int64_t pairs = shape_at(a->inputs[0].shape, 1), k = shape_at(a->outputs[0].shape, 1);
  int64_t first, end;
  (void)user;
  compute_call_share(shape_at(a->outputs[0].shape, 0), part, parts, &first, &end);
  for (int64_t row = first; row < end; row++) {
    const double *given = (const double *)a->inputs[0].data + row * pairs;
    double r[MOST_CLASSES][MOST_CLASSES];
    for (int64_t i = 0; i < k; i++)
      for (int64_t j = i + 1; j < k; j++) {
        r[i][j] = fmin(fmax(*given++, 1e-7), 1 - 1e-7);
        r[j][i] = 1 - r[i][j];
      }
    couple(k, r, (double *)a->outputs[0].data + row * k);
  }
  return COMPUTE_OK;
}

/* Probabilities of the classes from the scores of their pairs. */
static compute_status probabilities(model_call *call, const machine *m, int64_t classes,
                                    compute_node *scores) {
  compute_graph *graph = call->graph;
  const int64_t pairs = classes * (classes - 1) / 2;
  if ((int64_t)m->a_count != pairs || (int64_t)m->b_count != pairs)
    return call_fail(call, COMPUTE_ERROR_FORMAT, "%zu and %zu parameters of %" PRId64 " pairs",
                     m->a_count, m->b_count, pairs);
  if (classes > MOST_CLASSES)
    return call_fail(call, COMPUTE_ERROR_UNSUPPORTED, "probabilities of more than %d classes",
                     MOST_CLASSES);
  compute_node s = op_cast(call, *scores, COMPUTE_F64);
  s = compute_add(graph, compute_mul(graph, s, ml_constant(call, s, COMPUTE_SHAPE(pairs), m->a)),
                  ml_constant(call, s, COMPUTE_SHAPE(pairs), m->b));
  s = compute_sigmoid(graph, compute_neg(graph, s));
  const int64_t rows = shape_at(compute_node_shape(graph, s), 0);
  const compute_call_output output = {COMPUTE_F64, COMPUTE_SHAPE(rows, classes)};
  const compute_call_options options = {
      .name = "SVMClassifier", .flags = COMPUTE_CALL_PURE, .parts = COMPUTE_CALL_PARTS_AUTOMATIC};
  s = compute_call(graph, couple_rows, NULL, &s, 1, &output, 1, &options, NULL);
  *scores = op_cast(call, s, compute_node_dtype(graph, m->x));
  return COMPUTE_OK;
}

/* Sums of the vectors of each class with each row of coefficients, [rows, classes · (classes − 1)].
 * A table of vectors and pairs would be much larger than the file. */
static compute_status sum_groups(model_call *call, const machine *m, const int64_t *supports,
                                 int64_t classes, int64_t vectors, compute_node *sums) {
  compute_graph *graph = call->graph;
  compute_node k;
  const compute_status status = apply_kernel(call, m, vectors, m->vectors, &k);
  if (status) return status;
  const int64_t width = classes - 1, rows = shape_at(compute_node_shape(graph, k), 0);
  const compute_node table = ml_constant(call, k, COMPUTE_SHAPE(width, vectors), m->coefficients);
  const compute_node turned = compute_transpose(graph, table, COMPUTE_AXES(1, 0));
  compute_node *parts = call_allocate(call, (size_t)classes, sizeof *parts);
  if (!parts) return call_out_of_memory(call);
  for (int64_t i = 0, start = 0; i < classes; start += supports[i++])
    parts[i] = supports[i] == 0
                   ? call_zeros(call, compute_node_dtype(graph, k), COMPUTE_SHAPE(rows, width))
                   : compute_matmul(graph, compute_slice(graph, k, 1, start, supports[i], 1),
                                    compute_slice(graph, turned, 0, start, supports[i], 1));
  *sums = compute_concat(graph, parts, (size_t)classes, 1);
  return COMPUTE_OK;
}

/* Columns of x at `count` indices of the file's sizes. */
static compute_node columns_at(model_call *call, compute_node x, const int64_t *at, int64_t count) {
  const compute_node indices = compute_constant(call->graph, COMPUTE_I64, COMPUTE_SHAPE(count), at);
  return compute_gather(call->graph, x, indices, 1);
}

/* Scores of each pair i < j of classes, [rows, pairs], and the votes of the classes. Vectors of
 * class i count with row j − 1 of the coefficients, those of class j with row i. */
static compute_status score_pairs(model_call *call, const machine *m, const int64_t *supports,
                                  int64_t classes, int64_t vectors, compute_node *scores,
                                  compute_node *votes) {
  compute_graph *graph = call->graph;
  const int64_t pairs = classes * (classes - 1) / 2;
  int64_t *first = call_allocate(call, (size_t)(2 * pairs), sizeof *first);
  int64_t *duels = call_allocate(call, (size_t)(classes * classes), sizeof *duels);
  if (!first || !duels) return call_out_of_memory(call);
  int64_t *second = first + pairs, pair = 0;
  for (int64_t i = 0; i < classes; i++) {
    duels[i * classes + i] = 2 * pairs; /* a column of zeros */
    for (int64_t j = i + 1; j < classes; j++, pair++) {
      first[pair] = i * (classes - 1) + j - 1;
      second[pair] = j * (classes - 1) + i;
      duels[i * classes + j] = pair;
      duels[j * classes + i] = pairs + pair;
    }
  }
  compute_node sums;
  const compute_status status = sum_groups(call, m, supports, classes, vectors, &sums);
  if (status) return status;
  *scores = compute_add(graph, columns_at(call, sums, first, pairs),
                        columns_at(call, sums, second, pairs));
  *scores = compute_add(graph, *scores, ml_constant(call, sums, COMPUTE_SHAPE(pairs), m->rho));
  const compute_dtype dtype = compute_node_dtype(graph, sums);
  const int64_t rows = shape_at(compute_node_shape(graph, sums), 0);
  const compute_node won =
      compute_cast(graph, compute_greater(graph, *scores, call_scalar_like(call, sums, 0)), dtype);
  const compute_node parts[] = {won, compute_sub(graph, call_scalar_like(call, sums, 1), won),
                                call_zeros(call, dtype, COMPUTE_SHAPE(rows, 1))};
  const compute_node all =
      columns_at(call, compute_concat(graph, parts, 3, 1), duels, classes * classes);
  *votes = compute_sum(graph, compute_reshape(graph, all, COMPUTE_SHAPE(rows, classes, classes)),
                       COMPUTE_AXES(2), false);
  return COMPUTE_OK;
}

/* The sizes of a machine with support vectors; 0 vectors: a linear machine. */
static compute_status check_machine(model_call *call, const machine *m, const int64_t *supports,
                                    size_t groups, int64_t classes, int64_t *vectors) {
  int64_t numbers, coefficients;
  *vectors = 0;
  for (size_t i = 0; i < groups; i++)
    if (supports[i] < 0 || !checked_add(*vectors, supports[i], vectors))
      return bad_machine(call, m);
  if (*vectors == 0)
    return checked_multiply(classes, ml_columns(call, m->x), &coefficients) &&
                   coefficients == (int64_t)m->coefficient_count
               ? COMPUTE_OK
               : bad_machine(call, m);
  const bool fits = checked_multiply(*vectors, ml_columns(call, m->x), &numbers) &&
                    checked_multiply(*vectors, classes - 1, &coefficients) &&
                    numbers == (int64_t)m->vector_count &&
                    coefficients == (int64_t)m->coefficient_count && (int64_t)groups == classes &&
                    classes > 1 && classes < 1 << 15 &&
                    (int64_t)m->rho_count == classes * (classes - 1) / 2;
  return fits ? COMPUTE_OK : bad_machine(call, m);
}

static compute_status svm_classifier(model_call *call) {
  compute_graph *graph = call->graph;
  machine m;
  ml_labels labels;
  size_t groups;
  const int64_t *supports = call_attribute_ints(call, "vectors_per_class", &groups);
  const char *transform = call_attribute_s(call, "post_transform", "NONE");
  compute_status status = read_machine(call, &m);
  if (!status) status = ml_read_labels(call, "classlabels_ints", &labels);
  if (status) return status;
  const int64_t classes = max_i64((int64_t)labels.count, 1);
  int64_t vectors;
  compute_node scores, votes;
  status = check_machine(call, &m, supports, groups, classes, &vectors);
  if (status) return status;
  if (vectors == 0) {
    scores = times_rows(call, m.x, classes, m.coefficients);
    scores = compute_add(graph, scores, call_scalar_like(call, m.x, m.rho[0]));
    votes = scores;
  } else {
    status = score_pairs(call, &m, supports, classes, vectors, &scores, &votes);
    if (!status && m.a_count) status = probabilities(call, &m, classes, &scores);
  }
  if (status) return status;
  status =
      (ml_columns(call, scores) == 1 ? ml_transform_pair : ml_transform)(call, transform, &scores);
  if (status) return status;
  call_output(call, 1, op_cast(call, scores, COMPUTE_F32));
  if (classes == 1) return one_class(call, &labels, votes);
  return ml_output_labels(call, &labels, compute_argmax(graph, votes, 1, false));
}

/* ---- The table ------------------------------------------------------------------------------- */

static const operator_row rows[] = {
    {"ai.onnx.ml", "LinearClassifier", 1, linear_classifier},
    {"ai.onnx.ml", "LinearRegressor", 1, linear_regressor},
    {"ai.onnx.ml", "SVMClassifier", 1, svm_classifier},
    {"ai.onnx.ml", "SVMRegressor", 1, svm_regressor},
};

const operator_family operators_ml_linear = OPERATOR_FAMILY(rows);
