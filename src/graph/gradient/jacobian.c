/* SPDX-License-Identifier: MIT */
/* Whole Jacobians and Hessians, row by row or column by column, and the gradients of single
 * samples. */
#include "compute/derivatives.h"

#include "core/base/alloc.h"
#include "core/base/float_environment.h"
#include "core/type/shape.h"
#include "graph/gradient/products.h"

/* One matrix: d output / d of. */
typedef struct matrix {
  compute_graph *graph;
  const char *operation;
  uint32_t output, of;
  compute_shape shape;   /* of the result */
  int64_t rows, columns; /* elements of `output` and of `of` */
  compute_node *parts;   /* rows or columns */
} matrix;

/* Zeros with a one at `position`, in the form of node `like`. */
static compute_node unit(compute_graph *graph, uint32_t like, int64_t position) {
  const compute_dtype dtype = build_at(graph, like)->dtype;
  const compute_shape shape = build_at(graph, like)->shape;
  const compute_node places =
      compute_index(graph, COMPUTE_I64, COMPUTE_SHAPE(shape_count(shape)), 0);
  const compute_node here =
      compute_equal(graph, places, compute_scalar_i64(graph, COMPUTE_I64, position));
  return compute_reshape(graph, compute_cast(graph, here, dtype), shape);
}

/* One backward pass for each element of the output. */
static compute_node by_rows(const matrix *m) {
  compute_graph *graph = m->graph;
  for (int64_t k = 0; k < m->rows && !graph->status; k++) {
    compute_node row = BUILD_NONE;
    const gradient_seed seed = {m->output, unit(graph, m->output, k)};
    if (graph->status) break;
    gradient_record(graph, m->operation, &seed, 1, &m->of, 1, &row);
    m->parts[k] = compute_reshape(graph, row, COMPUTE_SHAPE(1, m->columns));
  }
  return compute_concat(graph, m->parts, (size_t)m->rows, 0);
}

/* One pass with free weights, and one more for each element of `of`. */
static compute_node by_columns(const matrix *m) {
  compute_graph *graph = m->graph;
  const compute_dtype dtype = build_at(graph, m->of)->dtype;
  gradient_seed seed = {.output = m->output};
  compute_node gradient = BUILD_NONE;
  if (!products_free_weights(graph, m->operation, &seed, 1, &m->of, 1, &gradient))
    return BUILD_NONE;
  const uint32_t weights = seed.upstream.id - 1;
  for (int64_t k = 0; k < m->columns && !graph->status; k++) {
    compute_node column = BUILD_NONE;
    const gradient_seed again = {gradient.id - 1, unit(graph, m->of, k)};
    if (graph->status) break;
    gradient_record(graph, m->operation, &again, 1, &weights, 1, &column);
    column = compute_reshape(graph, column, COMPUTE_SHAPE(m->rows, 1));
    m->parts[k] = compute_cast(graph, column, dtype);
  }
  return compute_concat(graph, m->parts, (size_t)m->columns, 1);
}

static bool prepare(matrix *m) {
  const graph_node *output = build_at(m->graph, m->output), *of = build_at(m->graph, m->of);
  char rows[BUILD_TEXT], columns[BUILD_TEXT];
  compute_shape_text(output->shape, rows, sizeof rows);
  compute_shape_text(of->shape, columns, sizeof columns);
  m->shape = output->shape;
  m->rows = shape_count(output->shape);
  m->columns = shape_count(of->shape);
  if (output->shape.rank + of->shape.rank > COMPUTE_MAX_RANK)
    return graph_refuse(m->graph, COMPUTE_ERROR_SHAPE, m->operation,
                        "%s by %s has %d axes; at most %d are possible", rows, columns,
                        output->shape.rank + of->shape.rank, COMPUTE_MAX_RANK);
  for (int32_t i = 0; i < of->shape.rank; i++)
    shape_set(&m->shape, m->shape.rank++, shape_at(of->shape, i));
  const int64_t passes = m->rows < m->columns ? m->rows : m->columns;
  if (passes > COMPUTE_DERIVATIVES_MAX_PASSES)
    return graph_refuse(m->graph, COMPUTE_ERROR_UNSUPPORTED, m->operation,
                        "%s by %s takes %lld passes; at most %d are possible", rows, columns,
                        (long long)passes, COMPUTE_DERIVATIVES_MAX_PASSES);
  return build_size(m->graph, m->operation, m->shape);
}

static compute_node record(compute_graph *graph, const char *operation, uint32_t output,
                           uint32_t of) {
  matrix m = {.graph = graph, .operation = operation, .output = output, .of = of};
  if (!prepare(&m)) return BUILD_NONE;
  const int64_t passes = m.rows < m.columns ? m.rows : m.columns;
  if (passes == 0) return compute_full(graph, build_at(graph, of)->dtype, m.shape, 0);
  m.parts = base_allocate((uint64_t)passes, sizeof *m.parts);
  if (!m.parts)
    return graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                      "not enough memory for %lld nodes", (long long)passes);
  const compute_node joined = m.rows <= m.columns ? by_rows(&m) : by_columns(&m);
  base_release(m.parts);
  return compute_reshape(graph, joined, m.shape);
}

compute_status compute_jacobian(compute_graph *graph, compute_node output, const compute_node *of,
                                size_t count, compute_node *jacobians) {
  static const char operation[] = "jacobian";
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  const products_list lists[] = {{"of", of, count}, {"jacobians", jacobians, count}};
  uint32_t index;
  if (build_start(graph, operation) && products_check_lists(graph, operation, lists, 2) &&
      gradient_check_nodes(graph, operation, "output", &output, 1, &index)) {
    for (size_t i = 0; i < count; i++) {
      uint32_t by;
      if (!gradient_check_nodes(graph, operation, "of", &of[i], 1, &by)) break;
      jacobians[i] = record(graph, operation, index, by);
    }
  }
  return products_end(graph, jacobians, count);
}

compute_status compute_hessian(compute_graph *graph, compute_node loss, compute_node of,
                               compute_node *hessian) {
  static const char operation[] = "hessian";
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  const products_list lists[] = {{"hessian", hessian, 1}};
  gradient_seed seed = {0};
  uint32_t by;
  if (build_start(graph, operation) && products_check_lists(graph, operation, lists, 1) &&
      products_check_loss(graph, operation, loss, &seed.output) &&
      gradient_check_nodes(graph, operation, "of", &of, 1, &by)) {
    compute_node gradient = BUILD_NONE;
    gradient_record(graph, operation, &seed, 1, &by, 1, &gradient);
    if (!graph->status) *hessian = record(graph, operation, gradient.id - 1, by);
  }
  return products_end(graph, hessian, 1);
}

/* ---- Samples --------------------------------------------------------------------------------- */

static const char sampled[] = "sample_gradients";

/* A call for the gradients of samples. */
typedef struct samples {
  compute_graph *graph;
  int64_t count; /* of samples */
  const compute_node *inputs;
  size_t input_count;
  uint32_t *of;
  size_t of_count;
  compute_node *items;  /* of one sample */
  compute_node *losses; /* of each sample */
  compute_node *parts;  /* gradient i of sample n: parts[i · count + n] */
  compute_node *found;  /* gradients of one sample */
} samples;

static bool count_samples(samples *s) {
  uint32_t index;
  char text[BUILD_TEXT];
  if (s->input_count == 0)
    return graph_refuse(s->graph, COMPUTE_ERROR_INVALID_ARGUMENT, sampled, "there are no inputs");
  for (size_t k = 0; k < s->input_count; k++) {
    if (!build_operands(s->graph, sampled, &s->inputs[k], 1, &index)) return false;
    const compute_shape shape = build_at(s->graph, index)->shape;
    const int64_t count = shape.rank > 0 ? shape_at(shape, 0) : 0;
    if (count < 1 || (k > 0 && count != s->count))
      return graph_refuse(s->graph, COMPUTE_ERROR_SHAPE, sampled,
                          "inputs[%zu] has shape %s; its first axis must be the samples%s", k,
                          compute_shape_text(shape, text, sizeof text),
                          k > 0 ? ", as that of inputs[0]" : "");
    s->count = count;
  }
  if (s->count > COMPUTE_DERIVATIVES_MAX_PASSES)
    return graph_refuse(s->graph, COMPUTE_ERROR_UNSUPPORTED, sampled,
                        "%lld samples; at most %d are possible", (long long)s->count,
                        COMPUTE_DERIVATIVES_MAX_PASSES);
  return true;
}

static bool allocate(samples *s) {
  const uint64_t count = (uint64_t)s->count;
  s->items = base_allocate(s->input_count, sizeof *s->items);
  s->losses = base_allocate(count, sizeof *s->losses);
  s->parts = base_allocate(count * s->of_count, sizeof *s->parts);
  s->found = base_allocate(s->of_count, sizeof *s->found);
  if (s->items && s->losses && s->parts && s->found) return true;
  return graph_refuse(s->graph, COMPUTE_ERROR_OUT_OF_MEMORY, sampled,
                      "not enough memory for %zu gradients of %lld samples", s->of_count,
                      (long long)s->count);
}

/* x with one more axis of size 1 in front. */
static compute_node in_front(compute_graph *graph, compute_node x) {
  const compute_shape from = compute_node_shape(graph, x);
  compute_shape shape = {.rank = from.rank + 1, .size = {1}};
  if (shape.rank > COMPUTE_MAX_RANK)
    return graph_fail(graph, COMPUTE_ERROR_SHAPE, sampled, "a weight with %d axes; at most %d",
                      from.rank, COMPUTE_MAX_RANK - 1);
  for (int32_t i = 0; i < from.rank; i++) shape_set(&shape, i + 1, shape_at(from, i));
  return compute_reshape(graph, x, shape);
}

static void record_sample(samples *s, int64_t number, compute_sample_loss loss, void *user) {
  compute_graph *graph = s->graph;
  gradient_seed seed = {0};
  for (size_t k = 0; k < s->input_count; k++)
    s->items[k] = compute_slice(graph, s->inputs[k], 0, number, 1, 1);
  if (graph->status) return;
  const compute_node own = loss(user, graph, s->items);
  if (graph->status || !products_check_loss(graph, sampled, own, &seed.output)) return;
  gradient_record(graph, sampled, &seed, 1, s->of, s->of_count, s->found);
  s->losses[number] = compute_reshape(graph, own, COMPUTE_SHAPE(1));
  for (size_t i = 0; i < s->of_count && !graph->status; i++)
    s->parts[(int64_t)i * s->count + number] = in_front(graph, s->found[i]);
}

compute_status compute_sample_gradients(compute_graph *graph, compute_sample_loss loss, void *user,
                                        const compute_node *inputs, size_t input_count,
                                        const compute_node *of, size_t count, compute_node *losses,
                                        compute_node *gradients) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(graph, context);
  BUILD_ALL_OR_NOTHING(graph);
  const products_list lists[] = {
      {"inputs", inputs, input_count}, {"of", of, count}, {"gradients", gradients, count}};
  samples s = {.graph = graph, .inputs = inputs, .input_count = input_count, .of_count = count};
  bool ready = build_start(graph, sampled) && products_check_lists(graph, sampled, lists, 3);
  if (ready && !loss)
    ready = graph_refuse(graph, COMPUTE_ERROR_NULL_POINTER, sampled, "loss is NULL");
  if (ready) {
    s.of = base_allocate(count, sizeof *s.of);
    if (!s.of) graph_fail(graph, COMPUTE_ERROR_OUT_OF_MEMORY, sampled, "out of memory");
    ready = s.of && gradient_check_nodes(graph, sampled, "of", of, count, s.of) &&
            count_samples(&s) && allocate(&s);
  }
  for (int64_t n = 0; ready && n < s.count && !graph->status; n++) record_sample(&s, n, loss, user);
  for (size_t i = 0; ready && i < count && !graph->status; i++)
    gradients[i] = compute_concat(graph, &s.parts[(int64_t)i * s.count], (size_t)s.count, 0);
  if (ready && losses && !graph->status)
    *losses = compute_concat(graph, s.losses, (size_t)s.count, 0);
  base_release(s.of);
  base_release(s.items);
  base_release(s.losses);
  base_release(s.parts);
  base_release(s.found);
  (void)products_end(graph, losses, 1);
  return products_end(graph, gradients, count);
}
