/* SPDX-License-Identifier: MIT */
/* A transformer whose weights are divided over the ranks: loss, gradients and training equal the
 * results of one process with all weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/loopback.h"
#include "support/harness/test.h"

enum { BATCH = 2, TOKENS = 6, WIDTH = 16, HEADS = 4, HIDDEN = 32, LAYERS = 3 };

/* The division of a weight: none, or by columns or rows. */
enum { WHOLE = -1, ROWS = 0, COLUMNS = 1 };

typedef struct weight_kind {
  int64_t rows, columns; /* rows 0: a vector */
  int32_t divided;
} weight_kind;

static const weight_kind kinds[] = {
    {0, WIDTH, WHOLE},        {0, WIDTH, WHOLE},       {WIDTH, WIDTH, COLUMNS},
    {WIDTH, WIDTH, COLUMNS},  {WIDTH, WIDTH, COLUMNS}, {WIDTH, WIDTH, ROWS},
    {0, WIDTH, WHOLE},        {0, WIDTH, WHOLE},       {0, WIDTH, WHOLE},
    {WIDTH, HIDDEN, COLUMNS}, {0, HIDDEN, COLUMNS},    {HIDDEN, WIDTH, ROWS},
    {0, WIDTH, WHOLE},
};
enum { KINDS = sizeof kinds / sizeof *kinds, WEIGHTS = KINDS * LAYERS };

/* A layer's weights. */
enum { GAIN1, BIAS1, QUERY, KEY, VALUE, OUT, OUT_BIAS, GAIN2, BIAS2, UP, UP_BIAS, DOWN, DOWN_BIAS };

/* This rank's part of a weight: elements [rows, columns] from (row, column) on. */
typedef struct part {
  int64_t rows, columns, row, column;
} part;

static part part_of(const weight_kind *k, int32_t rank, int32_t size) {
  part p = {k->rows > 0 ? k->rows : 1, k->columns, 0, 0};
  if (k->divided == ROWS) p.row = rank * (p.rows /= size);
  if (k->divided == COLUMNS) p.column = rank * (p.columns /= size);
  return p;
}

static double first_value(int weight, int64_t i) {
  const bool gain = weight % KINDS == GAIN1 || weight % KINDS == GAIN2;
  return 0.3 * sin(1.1 * weight + 0.7 * (double)i * (1 + 0.01 * (double)i)) + gain;
}

typedef struct model {
  compute_context *context;
  compute_process_group *group;
  int32_t rank, size;
  compute_dtype dtype;
  compute_graph *graph;
  compute_node x, target, loss;
  compute_node weights[WEIGHTS], gradients[WEIGHTS];
  compute_tensor *tensors[WEIGHTS];
  uint64_t bytes; /* of all weights on this rank */
} model;

static void store(compute_dtype dtype, void *to, int64_t i, double value) {
  if (dtype == COMPUTE_F64)
    ((double *)to)[i] = value;
  else
    ((float *)to)[i] = (float)value;
}

static double load(const compute_tensor *t, int64_t i) {
  const void *data = compute_tensor_data(t);
  return compute_tensor_dtype(t) == COMPUTE_F64 ? ((const double *)data)[i]
                                                : (double)((const float *)data)[i];
}

static void create_weight(model *m, int weight) {
  const weight_kind *k = &kinds[weight % KINDS];
  const part p = part_of(k, m->rank, m->size);
  const compute_shape shape =
      k->rows > 0 ? COMPUTE_SHAPE(p.rows, p.columns) : COMPUTE_SHAPE(p.columns);
  if (compute_tensor_create(compute_default_device(m->context), m->dtype, shape,
                            &m->tensors[weight]))
    return;
  void *data = compute_tensor_data(m->tensors[weight]);
  for (int64_t i = 0; i < p.rows * p.columns; i++) {
    const int64_t row = p.row + i / p.columns, column = p.column + i % p.columns;
    store(m->dtype, data, i, first_value(weight, row * k->columns + column));
  }
  m->bytes += (uint64_t)(p.rows * p.columns) * compute_dtype_size(m->dtype);
  m->weights[weight] = compute_parameter(m->graph, m->tensors[weight]);
}

/* [batch, tokens, own width] → [batch, own heads, tokens, width of a head]. */
static compute_node split_heads(model *m, compute_node x) {
  const compute_shape shape = COMPUTE_SHAPE(BATCH, TOKENS, HEADS / m->size, WIDTH / HEADS);
  return compute_transpose(m->graph, compute_reshape(m->graph, x, shape), COMPUTE_AXES(0, 2, 1, 3));
}

static compute_node attention(model *m, compute_node x, const compute_node *w) {
  compute_graph *g = m->graph;
  x = compute_copy_to_group(g, m->group, compute_layer_norm(g, x, w[GAIN1], w[BIAS1], 1e-5));
  const compute_node q = split_heads(m, compute_matmul(g, x, w[QUERY]));
  const compute_node k = split_heads(m, compute_matmul(g, x, w[KEY]));
  const compute_node v = split_heads(m, compute_matmul(g, x, w[VALUE]));
  compute_node y =
      compute_scaled_attention(g, q, k, v, &(compute_attention_options){.causal = true});
  y = compute_transpose(g, y, COMPUTE_AXES(0, 2, 1, 3));
  y = compute_reshape(g, y, COMPUTE_SHAPE(BATCH, TOKENS, -1));
  y = compute_reduce_from_group(g, m->group, compute_matmul(g, y, w[OUT]));
  return compute_add(g, y, w[OUT_BIAS]);
}

static compute_node feed_forward(model *m, compute_node x, const compute_node *w) {
  compute_graph *g = m->graph;
  x = compute_copy_to_group(g, m->group, compute_layer_norm(g, x, w[GAIN2], w[BIAS2], 1e-5));
  compute_node y = compute_gelu(g, compute_add(g, compute_matmul(g, x, w[UP]), w[UP_BIAS]));
  y = compute_reduce_from_group(g, m->group, compute_matmul(g, y, w[DOWN]));
  return compute_add(g, y, w[DOWN_BIAS]);
}

static void create_model(model *m) {
  compute_group_info info = {.size = 1};
  m->graph = compute_graph_create(m->context);
  (void)compute_group_query(m->group, &info);
  m->rank = info.rank;
  m->size = info.size;
  const compute_shape shape = COMPUTE_SHAPE(BATCH, TOKENS, WIDTH);
  m->x = compute_input(m->graph, m->dtype, shape);
  m->target = compute_input(m->graph, m->dtype, shape);
  for (int i = 0; i < WEIGHTS; i++) create_weight(m, i);
  compute_node y = m->x;
  for (int layer = 0; layer < LAYERS; layer++) {
    const compute_node *w = m->weights + layer * KINDS;
    y = compute_add(m->graph, y, attention(m, y, w));
    y = compute_add(m->graph, y, feed_forward(m, y, w));
  }
  m->loss = compute_mean_squared_error(m->graph, y, m->target);
  (void)compute_gradients(m->graph, m->loss, m->weights, WEIGHTS, m->gradients);
}

static void release_model(model *m) {
  for (int i = 0; i < WEIGHTS; i++) compute_tensor_release(m->tensors[i]);
  compute_graph_release(m->graph);
}

/* The batch is the same on all ranks. */
static compute_tensor *batch(const model *m, double phase) {
  compute_tensor *t = NULL;
  if (compute_tensor_create(compute_default_device(m->context), m->dtype,
                            COMPUTE_SHAPE(BATCH, TOKENS, WIDTH), &t))
    return NULL;
  for (int64_t i = 0; i < compute_tensor_count(t); i++)
    store(m->dtype, compute_tensor_data(t), i, sin(phase + 0.37 * (double)i));
  return t;
}

typedef struct outcome {
  double loss, last; /* before the first and the last step */
  compute_tensor *gradients[WEIGHTS];
} outcome;

enum { STEPS = 6 };

/* Computes loss and gradients, then makes steps of Adam, which update m->tensors. */
static compute_status train(model *m, outcome *o) {
  compute_tensor *x = batch(m, 0), *target = batch(m, 1), *loss = NULL;
  compute_node outputs[WEIGHTS + 1];
  compute_binding bindings[WEIGHTS + 3] = {{m->x, x}, {m->target, target}};
  compute_plan *plan = NULL, *step = NULL;
  outputs[WEIGHTS] = m->loss;
  memcpy(outputs, m->gradients, sizeof m->gradients);
  compute_status s = compute_compile(m->graph, outputs, WEIGHTS + 1, NULL, &plan);
  for (int i = 0; !s && i < WEIGHTS; i++) {
    s = compute_plan_create_tensor(plan, m->gradients[i], &o->gradients[i]);
    bindings[i + 2] = (compute_binding){m->gradients[i], o->gradients[i]};
  }
  if (!s) s = compute_plan_create_tensor(plan, m->loss, &loss);
  bindings[WEIGHTS + 2] = (compute_binding){m->loss, loss};
  if (!s) s = compute_run(plan, bindings, WEIGHTS + 3, NULL);
  if (!s) o->loss = load(loss, 0);
  const compute_node update = compute_adam_step(m->graph, m->loss, m->weights, WEIGHTS,
                                                &(compute_adam_options){.learning_rate = 0.01});
  if (!s) s = compute_compile(m->graph, (compute_node[]){m->loss, update}, 2, NULL, &step);
  for (int i = 0; !s && i < STEPS; i++) {
    s = compute_run(step, (compute_binding[]){{m->x, x}, {m->target, target}, {m->loss, loss}}, 3,
                    NULL);
    if (!s) o->last = load(loss, 0);
  }
  compute_tensor_release(x);
  compute_tensor_release(target);
  compute_tensor_release(loss);
  compute_plan_release(plan);
  compute_plan_release(step);
  return s;
}

static void release_outcome(outcome *o) {
  for (int i = 0; i < WEIGHTS; i++) compute_tensor_release(o->gradients[i]);
}

/* The largest difference between a part and that part of the whole. */
static double difference(const model *m, int weight, const compute_tensor *own,
                         const compute_tensor *whole) {
  const weight_kind *k = &kinds[weight % KINDS];
  const part p = part_of(k, m->rank, m->size);
  double most = 0;
  for (int64_t i = 0; i < p.rows * p.columns; i++) {
    const int64_t row = p.row + i / p.columns, column = p.column + i % p.columns;
    const double d = fabs(load(own, i) - load(whole, row * k->columns + column));
    if (!(d <= most)) most = d;
  }
  return most;
}

/* The same for all weights, or gradients, relative to the largest element of all. */
static double differences(const model *m, compute_tensor *const *own,
                          compute_tensor *const *whole) {
  double most = 0, largest = 0;
  for (int w = 0; w < WEIGHTS; w++) {
    const double d = difference(m, w, own[w], whole[w]);
    if (!(d <= most)) most = d;
    for (int64_t i = 0; i < compute_tensor_count(whole[w]); i++)
      largest = fmax(largest, fabs(load(whole[w], i)));
  }
  return most / largest;
}

typedef struct trial {
  model whole;
  outcome alone;
} trial;

static void compare(loopback_rank *self) {
  const trial *t = self->user;
  model m = {.context = self->context, .group = self->group, .dtype = t->whole.dtype};
  outcome o = {.loss = 0};
  create_model(&m);
  RANK_CHECK(self, train(&m, &o) == COMPUTE_OK);
  RANK_CHECK(self, fabs(o.loss - t->alone.loss) <= 1e-6 * t->alone.loss);
  RANK_CHECK(self, o.last < 0.8 * o.loss);
  RANK_CHECK(self, differences(&m, o.gradients, t->alone.gradients) < 1e-6);
  /* Adam divides by small numbers, which f32 does not represent to this precision. */
  RANK_CHECK(self, m.dtype == COMPUTE_F32 || differences(&m, m.tensors, t->whole.tensors) < 1e-6);
  /* Only vectors of the width are on every rank. */
  const uint64_t everywhere = (uint64_t)LAYERS * 6 * WIDTH * compute_dtype_size(m.dtype);
  RANK_CHECK(self, m.bytes == everywhere + (t->whole.bytes - everywhere) / (uint64_t)m.size);
  release_outcome(&o);
  release_model(&m);
}

static void ranks_equal_one_process(compute_dtype dtype) {
  trial t = {.whole = {.context = test_context, .dtype = dtype}};
  assert_ok(compute_group_open(test_context, &(compute_group_options){.transport = "none"},
                               &t.whole.group));
  create_model(&t.whole);
  assert_ok(train(&t.whole, &t.alone));
  for (int32_t size = 1; size <= 4; size *= 2)
    loopback_run(size, compare, &t, (loopback_rank[LOOPBACK_MOST]){{0}});
  release_outcome(&t.alone);
  release_model(&t.whole);
  compute_group_close(t.whole.group);
}

static void a_divided_transformer_is_the_whole_one(void **state) {
  (void)state;
  ranks_equal_one_process(COMPUTE_F64);
}

static void in_f32_as_well(void **state) {
  (void)state;
  ranks_equal_one_process(COMPUTE_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_divided_transformer_is_the_whole_one),
      cmocka_unit_test(in_f32_as_well),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
