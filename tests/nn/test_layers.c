/* SPDX-License-Identifier: MIT */
/* Each layer's result compared with plain evaluation in double, and the statistics that training
 * updates. */
#include <math.h>
#include <string.h>

#include "support/harness/test.h"
#include "support/harness/values.h"

enum { MOST = 4096 };

static compute_device *device(void) {
  return compute_default_device(test_context);
}

static const compute_weights_options weights = {.dtype = COMPUTE_F64, .seed = 5};

static void fill(double *values, size_t count, uint64_t seed) {
  test_random random = {seed};
  for (size_t i = 0; i < count; i++) values[i] = test_random_uniform(&random, -1, 1);
}

static size_t count_of(compute_shape shape) {
  int64_t count = 0;
  assert_ok(compute_shape_count(shape, &count));
  return (size_t)count;
}

/* The elements of the parameter called `name`. */
static void read_parameter(const compute_layer *layer, const char *name, double *values) {
  for (size_t i = 0; i < compute_layer_parameter_count(layer); i++) {
    compute_layer_parameter p;
    assert_ok(compute_layer_parameter_at(layer, i, &p));
    if (strcmp(p.name, name) != 0) continue;
    for (int64_t k = 0; k < compute_tensor_count(p.tensor); k++)
      values[k] = test_element(p.tensor, k);
    return;
  }
  fail_msg("there is no parameter \"%s\"", name);
}

static void write_parameter(const compute_layer *layer, size_t index, const double *values) {
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(layer, index, &p));
  assert_ok(compute_tensor_write(p.tensor, values,
                                 (size_t)compute_tensor_count(p.tensor) * sizeof *values));
}

/* Runs the layer and its updates. Writes the elements of the result to y and returns its shape. */
static compute_shape run_as(compute_layer *layer, compute_shape shape, const double *x, double *y,
                            bool training, int64_t seed) {
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_input(graph, COMPUTE_F64, shape);
  compute_forward forward = {.training = training};
  forward.seed = compute_constant(graph, COMPUTE_I64, COMPUTE_SCALAR, &seed);
  const compute_node out = compute_layer_apply(layer, graph, in, &forward);
  const compute_node outputs[] = {out, forward.updates};
  const bool updates = compute_node_is_valid(forward.updates);
  assert_ok(compute_graph_status(graph));
  const compute_shape result = compute_node_shape(graph, out);
  compute_plan *plan = test_compile(graph, outputs, updates ? 2 : 1, 0);
  compute_tensor *tx = test_tensor(test_context, COMPUTE_F64, shape, x), *ty = NULL;
  assert_ok(compute_plan_create_tensor(plan, out, &ty));
  assert_ok(compute_run(plan, (compute_binding[]){{in, tx}, {out, ty}}, 2, NULL));
  assert_true(count_of(result) <= MOST);
  assert_ok(compute_tensor_read(ty, y, count_of(result) * sizeof *y));
  compute_tensor_release(tx);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  compute_graph_release(graph);
  return result;
}

static compute_shape run(compute_layer *layer, compute_shape shape, const double *x, double *y) {
  assert_non_null(layer);
  return run_as(layer, shape, x, y, false, 0);
}

static void expect(const double *got, const double *expected, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!(fabs(got[i] - expected[i]) <= 1e-12 * (1 + fabs(expected[i]))))
      fail_msg("element %zu is %.17g, expected %.17g", i, got[i], expected[i]);
  }
}

/* ---- Dense, embedding ---------------------------------------------------------------------- */

static void dense_is_the_product_with_the_transposed_weight_and_a_bias(void **state) {
  (void)state;
  double x[2 * 3 * 5], y[MOST], w[7 * 5], b[7], expected[2 * 3 * 7];
  fill(x, 30, 1);
  for (int biased = 0; biased < 2; biased++) {
    compute_weights_options o = weights;
    o.no_bias = !biased;
    compute_layer *layer = compute_dense(device(), 5, 7, &o);
    assert_true(
        compute_shape_equal(run(layer, COMPUTE_SHAPE(2, 3, 5), x, y), COMPUTE_SHAPE(2, 3, 7)));
    read_parameter(layer, "weight", w);
    if (biased) read_parameter(layer, "bias", b);
    for (int i = 0; i < 6; i++) {
      for (int j = 0; j < 7; j++) {
        double sum = biased ? b[j] : 0;
        for (int k = 0; k < 5; k++) sum += x[5 * i + k] * w[5 * j + k];
        expected[7 * i + j] = sum;
      }
    }
    expect(y, expected, 42);
    compute_layer_release(layer);
  }
}

static void embedding_takes_rows_of_its_weight(void **state) {
  (void)state;
  const int32_t indices[4] = {2, 0, 4, 2};
  double w[5 * 3];
  compute_layer *layer = compute_embedding(device(), 5, 3, &weights);
  read_parameter(layer, "weight", w);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node in = compute_constant(graph, COMPUTE_I32, COMPUTE_SHAPE(2, 2), indices);
  const compute_node out = compute_layer_apply(layer, graph, in, NULL);
  assert_true(compute_shape_equal(compute_node_shape(graph, out), COMPUTE_SHAPE(2, 2, 3)));
  compute_plan *plan = test_compile(graph, &out, 1, 0);
  compute_tensor *t = NULL;
  assert_ok(compute_plan_create_tensor(plan, out, &t));
  assert_ok(compute_run(plan, (compute_binding[]){{out, t}}, 1, NULL));
  for (int i = 0; i < 12; i++) assert_true(test_element(t, i) == w[3 * indices[i / 3] + i % 3]);
  compute_tensor_release(t);
  compute_plan_release(plan);
  /* An integer input does not determine the precision of the result. */
  const compute_node half =
      compute_layer_apply(layer, graph, in, &(compute_forward){.precision = COMPUTE_F16});
  assert_int_equal(compute_node_dtype(graph, half), COMPUTE_F16);
  compute_layer_apply(layer, graph, in, &(compute_forward){.precision = COMPUTE_I32});
  assert_fails(compute_graph_status(graph), COMPUTE_ERROR_DTYPE);
  compute_graph_release(graph);
  compute_layer_release(layer);
}

/* ---- Convolution --------------------------------------------------------------------------- */

typedef struct geometry {
  int64_t n, c, o, size[2], kernel[2], stride[2], dilation[2], padding[2], more[2], groups,
      behind[2];
} geometry;

/* y[n,o,p,q] of a convolution. In the transposed form, y is the larger side. */
static void convolve(const geometry *g, const double *x, const double *w, const double *b,
                     const int64_t *result, bool transposed, double *y) {
  const int64_t area = result[0] * result[1], per = g->c / g->groups, each = g->o / g->groups;
  for (int64_t i = 0; i < g->n * g->o * area; i++) y[i] = b[i / area % g->o];
  for (int64_t n = 0; n < g->n; n++)
    for (int64_t o = 0; o < g->o; o++)
      for (int64_t k = 0; k < per; k++)
        for (int64_t r = 0; r < g->kernel[0]; r++)
          for (int64_t s = 0; s < g->kernel[1]; s++) {
            const int64_t c = o / each * per + k;
            const int64_t tap = transposed ? c * each + o % each : o * per + k;
            const double f = w[(tap * g->kernel[0] + r) * g->kernel[1] + s];
            const int64_t *outer = transposed ? g->size : result;
            const int64_t *inner = transposed ? result : g->size;
            for (int64_t p = 0; p < outer[0]; p++)
              for (int64_t q = 0; q < outer[1]; q++) {
                const int64_t h = p * g->stride[0] + r * g->dilation[0] - g->padding[0];
                const int64_t v = q * g->stride[1] + s * g->dilation[1] - g->padding[1];
                if (h < 0 || h >= inner[0] || v < 0 || v >= inner[1]) continue;
                const int64_t from = transposed ? p * g->size[1] + q : h * g->size[1] + v;
                const int64_t to = transposed ? h * result[1] + v : p * result[1] + q;
                y[(n * g->o + o) * area + to] +=
                    f * x[(n * g->c + c) * g->size[0] * g->size[1] + from];
              }
          }
}

static void check_convolution(const geometry *g, bool transposed) {
  double x[MOST], y[MOST], w[MOST], b[64], expected[MOST];
  int64_t result[2];
  compute_conv2d_layer_options o = {.weights = weights, .groups = g->groups};
  for (int i = 0; i < 2; i++) {
    o.kernel[i] = g->kernel[i];
    o.stride[i] = g->stride[i];
    o.dilation[i] = g->dilation[i];
    o.padding[i] = g->padding[i];
    o.output_padding[i] = g->more[i];
    o.padding_more[i] = g->behind[i];
    const int64_t reach = g->dilation[i] * (g->kernel[i] - 1) + 1;
    const int64_t around = 2 * g->padding[i] + g->behind[i];
    result[i] = transposed ? (g->size[i] - 1) * g->stride[i] - around + reach + g->more[i]
                           : (g->size[i] + around - reach) / g->stride[i] + 1;
  }
  compute_layer *layer = transposed ? compute_conv2d_transpose_layer(device(), g->c, g->o, 1, &o)
                                    : compute_conv2d_layer(device(), g->c, g->o, 1, &o);
  assert_non_null(layer);
  fill(x, (size_t)(g->n * g->c * g->size[0] * g->size[1]), 3);
  read_parameter(layer, "weight", w);
  read_parameter(layer, "bias", b);
  const compute_shape shape = run(layer, COMPUTE_SHAPE(g->n, g->c, g->size[0], g->size[1]), x, y);
  assert_true(compute_shape_equal(shape, COMPUTE_SHAPE(g->n, g->o, result[0], result[1])));
  convolve(g, x, w, b, result, transposed, expected);
  expect(y, expected, count_of(shape));
  compute_layer_release(layer);
}

static void convolution_is_the_sum_over_its_taps(void **state) {
  (void)state;
  check_convolution(&(geometry){2, 3, 4, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 1, {0}},
                    false);
  check_convolution(&(geometry){1, 4, 6, {8, 9}, {3, 2}, {2, 1}, {1, 2}, {1, 0}, {0}, 2, {0}},
                    false);
  check_convolution(&(geometry){2, 4, 4, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 4, {0}},
                    false);
  check_convolution(&(geometry){1, 2, 2, {6, 5}, {3, 2}, {1, 2}, {1, 1}, {1, 0}, {0}, 1, {-1, 2}},
                    false);
}

static void transposed_convolution_spreads_its_taps(void **state) {
  (void)state;
  check_convolution(&(geometry){2, 3, 4, {4, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, 1, {0}},
                    true);
  check_convolution(&(geometry){1, 4, 6, {3, 4}, {2, 3}, {1, 2}, {2, 1}, {0, 1}, {0}, 2, {0}},
                    true);
  check_convolution(&(geometry){1, 2, 2, {3, 4}, {3, 3}, {1, 2}, {1, 1}, {2, 0}, {0}, 1, {-1, 1}},
                    true);
}

static void one_number_of_padding_counts_for_both_axes_of_a_square(void **state) {
  (void)state;
  double x[36], y[MOST];
  fill(x, 36, 8);
  compute_layer *conv = compute_conv2d_layer(
      device(), 1, 1, 3, &(compute_conv2d_layer_options){.weights = weights, .padding = {1}});
  assert_true(
      compute_shape_equal(run(conv, COMPUTE_SHAPE(1, 1, 6, 6), x, y), COMPUTE_SHAPE(1, 1, 6, 6)));
  compute_layer_release(conv);
  compute_layer *tall = compute_conv2d_layer(
      device(), 1, 1, 0,
      &(compute_conv2d_layer_options){.weights = weights, .kernel = {3, 1}, .padding = {1}});
  assert_true(
      compute_shape_equal(run(tall, COMPUTE_SHAPE(1, 1, 6, 6), x, y), COMPUTE_SHAPE(1, 1, 6, 6)));
  compute_layer_release(tall);
  compute_layer *pool =
      compute_max_pool(3, &(compute_pool2d_options){.padding = {1}, .stride = {1}});
  assert_true(
      compute_shape_equal(run(pool, COMPUTE_SHAPE(1, 1, 6, 6), x, y), COMPUTE_SHAPE(1, 1, 6, 6)));
  compute_layer_release(pool);
}

/* ---- Pooling, flatten, activations --------------------------------------------------------- */

static void pooling_folds_windows(void **state) {
  (void)state;
  double x[2 * 3 * 6 * 8], y[MOST];
  fill(x, 288, 4);
  compute_layer *most = compute_max_pool(2, NULL), *mean = compute_average_pool(2, NULL);
  compute_layer *all = compute_global_average_pool();
  for (int average = 0; average < 2; average++) {
    const compute_shape shape = run(average ? mean : most, COMPUTE_SHAPE(2, 3, 6, 8), x, y);
    assert_true(compute_shape_equal(shape, COMPUTE_SHAPE(2, 3, 3, 4)));
    for (int i = 0; i < 72; i++) {
      const double *at = x + i / 12 * 48 + i / 4 % 3 * 16 + i % 4 * 2;
      const double expected = average ? (at[0] + at[1] + at[8] + at[9]) / 4
                                      : fmax(fmax(at[0], at[1]), fmax(at[8], at[9]));
      expect(y + i, &expected, 1);
    }
  }
  assert_true(compute_shape_equal(run(all, COMPUTE_SHAPE(2, 3, 6, 8), x, y), COMPUTE_SHAPE(2, 3)));
  for (int i = 0; i < 6; i++) {
    double sum = 0;
    for (int k = 0; k < 48; k++) sum += x[48 * i + k];
    sum /= 48;
    expect(y + i, &sum, 1);
  }
  compute_layer_release(most);
  compute_layer_release(mean);
  compute_layer_release(all);
}

static double activate(compute_activation_kind kind, double x) {
  switch (kind) {
  case COMPUTE_RELU: return fmax(x, 0);
  case COMPUTE_GELU: return x * 0.5 * (1 + erf(x / sqrt(2)));
  case COMPUTE_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case COMPUTE_SILU: return x / (1 + exp(-x));
  case COMPUTE_SIGMOID: return 1 / (1 + exp(-x));
  case COMPUTE_TANH: return tanh(x);
  case COMPUTE_SOFTPLUS: return log1p(exp(x));
  case COMPUTE_LEAKY_RELU: return x > 0 ? x : 0.01 * x;
  case COMPUTE_ELU: return x > 0 ? x : expm1(x);
  default: return exp(x);
  }
}

static void activations_are_what_their_names_say(void **state) {
  (void)state;
  double x[12], y[MOST];
  fill(x, 12, 6);
  for (int kind = COMPUTE_RELU; kind <= COMPUTE_SOFTMAX; kind++) {
    compute_layer *layer = compute_activation((compute_activation_kind)kind);
    double expected[12], sum[3] = {0};
    for (int i = 0; i < 12; i++)
      sum[i / 4] += expected[i] = activate((compute_activation_kind)kind, x[i]);
    for (int i = 0; i < 12 && kind == COMPUTE_SOFTMAX; i++) expected[i] /= sum[i / 4];
    run(layer, COMPUTE_SHAPE(3, 4), x, y);
    expect(y, expected, 12);
    compute_layer_release(layer);
  }
}

static void flatten_keeps_the_batch_axis(void **state) {
  (void)state;
  double x[24], y[MOST];
  fill(x, 24, 7);
  compute_layer *layer = compute_flatten();
  assert_true(compute_shape_equal(run(layer, COMPUTE_SHAPE(2, 3, 4), x, y), COMPUTE_SHAPE(2, 12)));
  expect(y, x, 24);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node none = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(0, 3, 4));
  assert_true(
      compute_shape_equal(compute_node_shape(graph, compute_layer_apply(layer, graph, none, NULL)),
                          COMPUTE_SHAPE(0, 12)));
  compute_graph_release(graph);
  compute_layer_release(layer);
}

static void the_identity_is_the_plain_shortcut(void **state) {
  (void)state;
  double x[6], y[MOST];
  fill(x, 6, 7);
  compute_layer *layer = compute_residual(compute_activation(COMPUTE_TANH), compute_identity());
  assert_true(compute_shape_equal(run(layer, COMPUTE_SHAPE(2, 3), x, y), COMPUTE_SHAPE(2, 3)));
  for (size_t i = 0; i < 6; i++) x[i] += tanh(x[i]);
  expect(y, x, 6);
  compute_layer_release(layer);
}

/* ---- Normalisation ------------------------------------------------------------------------- */

enum { N = 4, C = 3, AREA = 5, VALUES = N * AREA };

/* Mean and biased variance of channel c of x [N, C, AREA]. */
static void channel(const double *x, int c, double *mean, double *variance) {
  *mean = *variance = 0;
  for (int i = 0; i < VALUES; i++) *mean += x[(i / AREA * C + c) * AREA + i % AREA] / VALUES;
  for (int i = 0; i < VALUES; i++) {
    const double d = x[(i / AREA * C + c) * AREA + i % AREA] - *mean;
    *variance += d * d / VALUES;
  }
}

static void batch_norm_normalises_with_the_batch_and_moves_its_statistics(void **state) {
  (void)state;
  static const double gain[C] = {0.5, 2, -1}, bias[C] = {0.25, -0.5, 1};
  static const compute_norm_options variants[] = {
      {.dtype = COMPUTE_F64}, {.dtype = COMPUTE_F64, .epsilon = 1e-2, .momentum = 0.3}};
  for (size_t v = 0; v < 2; v++) {
    const double epsilon = v ? 1e-2 : 1e-5, momentum = v ? 0.3 : 0.1;
    compute_layer *layer = compute_batch_norm_layer(device(), C, &variants[v]);
    double x[N * C * AREA], y[MOST], expected[N * C * AREA], got[C];
    double mean[C] = {0}, variance[C] = {1, 1, 1};
    assert_non_null(layer);
    write_parameter(layer, 0, gain);
    write_parameter(layer, 1, bias);
    for (int step = 0; step < 3; step++) {
      fill(x, N * C * AREA, 20 + (uint64_t)step);
      run_as(layer, COMPUTE_SHAPE(N, C, AREA), x, y, true, 0);
      for (int c = 0; c < C; c++) {
        double m, s;
        channel(x, c, &m, &s);
        for (int i = 0; i < VALUES; i++) {
          const int at = (i / AREA * C + c) * AREA + i % AREA;
          expected[at] = (x[at] - m) / sqrt(s + epsilon) * gain[c] + bias[c];
        }
        mean[c] += momentum * (m - mean[c]);
        variance[c] += momentum * (s * VALUES / (VALUES - 1) - variance[c]);
      }
      expect(y, expected, N * C * AREA);
      read_parameter(layer, "running_mean", got);
      expect(got, mean, C);
      read_parameter(layer, "running_var", got);
      expect(got, variance, C);
      read_parameter(layer, "num_batches_tracked", got);
      assert_true(got[0] == step + 1);
    }
    run(layer, COMPUTE_SHAPE(N, C, AREA), x, y);
    for (int i = 0; i < N * C * AREA; i++) {
      const int c = i / AREA % C;
      expected[i] = (x[i] - mean[c]) / sqrt(variance[c] + epsilon) * gain[c] + bias[c];
    }
    expect(y, expected, N * C * AREA);
    read_parameter(layer, "num_batches_tracked", got);
    assert_true(got[0] == 3); /* inference updates nothing */
    compute_layer_release(layer);
  }
}

static void batch_norm_does_without_gain_and_bias(void **state) {
  (void)state;
  compute_layer *layer = compute_batch_norm_layer(
      device(), C, &(compute_norm_options){.dtype = COMPUTE_F64, .no_affine = true});
  double x[N * C * AREA], y[MOST];
  fill(x, N * C * AREA, 9);
  assert_int_equal(compute_layer_parameter_count(layer), 3);
  assert_int_equal(compute_layer_element_count(layer, true), 0);
  run_as(layer, COMPUTE_SHAPE(N, C, AREA), x, y, true, 0);
  for (int c = 0; c < C; c++) {
    double mean, variance;
    channel(y, c, &mean, &variance);
    assert_true(fabs(mean) < 1e-12 && fabs(variance - 1) < 1e-3);
  }
  compute_layer_release(layer);
}

static void layer_norm_normalises_the_last_axis(void **state) {
  (void)state;
  static const double gain[4] = {1, 2, -1, 0.5}, bias[4] = {0, 1, 0.5, -1};
  double x[24], y[MOST], expected[24];
  fill(x, 24, 10);
  for (int affine = 0; affine < 2; affine++) {
    compute_layer *layer = compute_layer_norm_layer(
        device(), 4, &(compute_norm_options){.dtype = COMPUTE_F64, .no_affine = !affine});
    assert_non_null(layer);
    if (affine) write_parameter(layer, 0, gain);
    if (affine) write_parameter(layer, 1, bias);
    for (int i = 0; i < 6; i++) {
      double mean = 0, variance = 0;
      for (int k = 0; k < 4; k++) mean += x[4 * i + k] / 4;
      for (int k = 0; k < 4; k++) variance += (x[4 * i + k] - mean) * (x[4 * i + k] - mean) / 4;
      for (int k = 0; k < 4; k++) {
        const double z = (x[4 * i + k] - mean) / sqrt(variance + 1e-5);
        expected[4 * i + k] = affine ? z * gain[k] + bias[k] : z;
      }
    }
    run(layer, COMPUTE_SHAPE(2, 3, 4), x, y);
    expect(y, expected, 24);
    compute_layer_release(layer);
  }
}

/* ---- Dropout ------------------------------------------------------------------------------- */

static void dropout_replays_by_seed_and_rests_in_inference(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  static double x[COUNT], a[MOST], b[MOST], c[MOST];
  for (int i = 0; i < COUNT; i++) x[i] = 1 + i;
  compute_layer *layer = compute_dropout_layer(0.25);
  run_as(layer, COMPUTE_SHAPE(COUNT), x, a, true, 11);
  run_as(layer, COMPUTE_SHAPE(COUNT), x, b, true, 11);
  run_as(layer, COMPUTE_SHAPE(COUNT), x, c, true, 12);
  assert_memory_equal(a, b, sizeof(double) * COUNT);
  int dropped = 0, differ = 0;
  for (int i = 0; i < COUNT; i++) {
    dropped += a[i] == 0;
    differ += a[i] != c[i];
    if (a[i] != 0) assert_true(fabs(a[i] - x[i] / 0.75) <= 1e-12 * x[i]);
  }
  assert_in_range(dropped, 420, 580); /* 500 ± 4 standard deviations */
  assert_true(differ > 400);
  run(layer, COMPUTE_SHAPE(COUNT), x, a);
  expect(a, x, COUNT);
  compute_layer_release(layer);
}

static void two_dropouts_under_one_seed_drop_different_elements(void **state) {
  (void)state;
  enum { COUNT = 2000 };
  static double x[COUNT], y[MOST];
  for (int i = 0; i < COUNT; i++) x[i] = 1;
  compute_layer *layer = compute_sequential(
      (compute_layer *[]){compute_dropout_layer(0.5), compute_dropout_layer(0.5)}, 2);
  run_as(layer, COMPUTE_SHAPE(COUNT), x, y, true, 3);
  int kept = 0;
  for (int i = 0; i < COUNT; i++) kept += y[i] != 0;
  assert_in_range(kept, 420, 580); /* a quarter, not a half */
  compute_layer_release(layer);
}

/* ---- Custom layers ------------------------------------------------------------------------- */

static compute_node scale_by(void *user, compute_graph *graph, compute_node x,
                             const compute_node *parameters, bool training) {
  *(int *)user += training ? 10 : 1;
  return compute_mul(graph, x, parameters[0]);
}

static void a_custom_layer_records_what_its_function_says(void **state) {
  (void)state;
  const double factor[4] = {2, 3, 4, 5};
  double x[8], y[MOST], expected[8];
  int calls = 0;
  fill(x, 8, 13);
  compute_tensor *t = test_tensor(test_context, COMPUTE_F64, COMPUTE_SHAPE(4), factor);
  compute_layer *layer =
      compute_custom_layer("scale", scale_by, &calls, &t, (const char *const[]){"factor"}, 1);
  assert_non_null(layer);
  compute_tensor_release(t);
  assert_ok(compute_layer_initialize(layer, COMPUTE_INIT_ZERO, 1));
  for (int i = 0; i < 8; i++) expected[i] = x[i] * factor[i % 4];
  run(layer, COMPUTE_SHAPE(2, 4), x, y);
  expect(y, expected, 8);
  assert_int_equal(calls, 1);
  run_as(layer, COMPUTE_SHAPE(2, 4), x, y, true, 0);
  assert_int_equal(calls, 11);
  compute_layer_release(layer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dense_is_the_product_with_the_transposed_weight_and_a_bias),
      cmocka_unit_test(embedding_takes_rows_of_its_weight),
      cmocka_unit_test(convolution_is_the_sum_over_its_taps),
      cmocka_unit_test(transposed_convolution_spreads_its_taps),
      cmocka_unit_test(one_number_of_padding_counts_for_both_axes_of_a_square),
      cmocka_unit_test(pooling_folds_windows),
      cmocka_unit_test(activations_are_what_their_names_say),
      cmocka_unit_test(flatten_keeps_the_batch_axis),
      cmocka_unit_test(the_identity_is_the_plain_shortcut),
      cmocka_unit_test(batch_norm_normalises_with_the_batch_and_moves_its_statistics),
      cmocka_unit_test(batch_norm_does_without_gain_and_bias),
      cmocka_unit_test(layer_norm_normalises_the_last_axis),
      cmocka_unit_test(dropout_replays_by_seed_and_rests_in_inference),
      cmocka_unit_test(two_dropouts_under_one_seed_drop_different_elements),
      cmocka_unit_test(a_custom_layer_records_what_its_function_says),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
