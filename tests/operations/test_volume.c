/* SPDX-License-Identifier: MIT */
/* Convolution and pooling along three axes, compared with loops over their definitions; also their
 * gradients. The graph reference would evaluate only their parts. */
#include <math.h>
#include <stdlib.h>

#include "graph/node/graph.h"
#include "support/harness/gradient.h"
#include "support/harness/test.h"

enum { MOST = 4096 };

typedef struct volume {
  const char *name;
  int64_t n, c, o, data[3], size[3], stride[3], dilation[3], padding[3], more[3], output_padding[3];
  int64_t groups;
  bool ceil, exclude;
} volume;

static const volume volumes[] = {
    {"plain", 2, 3, 4, {4, 5, 3}, {2, 3, 2}, {1, 1, 1}, {1, 1, 1}, .groups = 1},
    {"one slice", 2, 2, 2, {3, 4, 4}, {1, 3, 3}, {2, 1, 1}, {1, 1, 1}, {0, 1, 1}, .groups = 1},
    {"one element", 2, 4, 2, {3, 4, 5}, {1, 1, 1}, {1, 1, 1}, {2, 1, 3}, .groups = 2},
    {"along the depth",
     2,
     2,
     3,
     {7, 3, 2},
     {3, 1, 1},
     {2, 1, 1},
     {2, 1, 1},
     {2, 0, 0},
     .groups = 1},
    {"along the columns",
     1,
     2,
     2,
     {2, 3, 9},
     {1, 1, 4},
     {1, 1, 3},
     {1, 1, 2},
     {0, 0, 2},
     .groups = 2},
    {"padding of each side",
     1,
     2,
     4,
     {4, 4, 5},
     {3, 2, 3},
     {2, 1, 2},
     {1, 1, 1},
     {2, 0, 1},
     {-1, 1, -1},
     .groups = 2},
    {"dilated",
     1,
     4,
     4,
     {6, 3, 5},
     {2, 2, 2},
     {2, 1, 2},
     {3, 2, 1},
     {1, 1, 0},
     {2, 0, 1},
     {1, 0, 1},
     .groups = 4,
     .exclude = true},
    {"a channel per group",
     2,
     19,
     19,
     {2, 3, 2},
     {3, 3, 3},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     .groups = 19},
    {"many slices", 1, 18, 18, {5, 2, 3}, {9, 1, 2}, {1, 1, 1}, {1, 1, 1}, {4, 0, 1}, .groups = 18},
    {"ceil",
     2,
     1,
     1,
     {5, 6, 4},
     {2, 3, 2},
     {3, 2, 2},
     {1, 1, 1},
     {1, 1, 0},
     {0, 1, 1},
     {2, 0, 1},
     .groups = 1,
     .ceil = true},
    {"ceil, inside",
     1,
     1,
     2,
     {6, 5, 5},
     {3, 2, 2},
     {2, 2, 2},
     {1, 2, 1},
     {1, 0, 1},
     {1, 1, -1},
     {1, 0, 0},
     .groups = 1,
     .ceil = true,
     .exclude = true},
};
enum { VOLUMES = sizeof volumes / sizeof *volumes };

/* ---- References ------------------------------------------------------------------------------ */

static int64_t reach(const volume *v, int i) {
  return v->dilation[i] * (v->size[i] - 1) + 1;
}

static int64_t windows(const volume *v, int i, bool ceiling) {
  const int64_t left = v->data[i] + 2 * v->padding[i] + v->more[i] - reach(v, i);
  int64_t count = left / v->stride[i] + 1;
  if (ceiling && left % v->stride[i] > 0 && count * v->stride[i] < v->data[i] + v->padding[i])
    count++;
  return count;
}

static int64_t stretched(const volume *v, int i) {
  return (v->data[i] - 1) * v->stride[i] + reach(v, i) + v->output_padding[i] - 2 * v->padding[i] -
         v->more[i];
}

/* Digit i of a row-major number over three sizes. */
static int64_t digit(int64_t number, const int64_t size[3], int i) {
  for (int k = 2; k > i; k--) number /= size[k];
  return number % size[i];
}

/* The element under tap `tap` of window `window`, or −1 outside the data. */
static int64_t reached(const volume *v, const int64_t count[3], const int64_t data[3],
                       int64_t window, int64_t tap) {
  int64_t at = 0;
  for (int i = 0; i < 3; i++) {
    const int64_t place = digit(window, count, i) * v->stride[i] - v->padding[i] +
                          digit(tap, v->size, i) * v->dilation[i];
    if (place < 0 || place >= data[i]) return -1;
    at = at * data[i] + place;
  }
  return at;
}

static int64_t product(const int64_t size[3]) {
  return size[0] * size[1] * size[2];
}

/* With `transposed`, data and result are exchanged, as in the definition. */
static void convolve(const volume *v, bool transposed, const double *x, const double *w,
                     const double *b, const int64_t result[3], double *y) {
  const int64_t *inner = transposed ? result : v->data, *outer = transposed ? v->data : result;
  const int64_t from = product(v->data), to = product(result), taps = product(v->size);
  const int64_t each = v->o / v->groups, per = v->c / v->groups;
  for (int64_t i = 0; i < v->n * v->o * to; i++) y[i] = b[i / to % v->o];
  for (int64_t i = 0; i < v->n * v->o * per * taps * product(outer); i++) {
    const int64_t window = i % product(outer), tap = i / product(outer) % taps;
    const int64_t k = i / product(outer) / taps % per, channel = i / product(outer) / taps / per;
    const int64_t n = channel / v->o, o = channel % v->o, c = o / each * per + k;
    const int64_t place = reached(v, outer, inner, window, tap);
    if (place < 0) continue;
    const int64_t filter = transposed ? c * each + o % each : o * per + k;
    y[(n * v->o + o) * to + (transposed ? place : window)] +=
        w[filter * taps + tap] * x[(n * v->c + c) * from + (transposed ? window : place)];
  }
}

/* The number of elements of a window that count for an average. */
static int64_t counted(const volume *v, const int64_t count[3], int64_t window) {
  int64_t all = 1;
  for (int i = 0; i < 3; i++) {
    int64_t along = 0;
    for (int64_t k = 0; k < v->size[i]; k++) {
      const int64_t place =
          digit(window, count, i) * v->stride[i] - v->padding[i] + k * v->dilation[i];
      along += v->exclude ? place >= 0 && place < v->data[i]
                          : place < v->data[i] + v->padding[i] + v->more[i];
    }
    all *= along;
  }
  return all;
}

typedef enum pool_form { LARGEST, PLACE, MEAN } pool_form;

static void fold(const volume *v, pool_form form, const double *x, const int64_t count[3],
                 double *y) {
  const int64_t results = product(count), plane = product(v->data);
  for (int64_t i = 0; i < v->n * v->c * results; i++) {
    double sum = 0;
    int64_t best = -1;
    for (int64_t tap = 0; tap < product(v->size); tap++) {
      const int64_t place = reached(v, count, v->data, i % results, tap);
      if (place < 0) continue;
      const int64_t at = i / results * plane + place;
      sum += x[at];
      if (best < 0 || x[at] > x[best]) best = at;
    }
    y[i] = form == PLACE     ? (double)best
           : form == LARGEST ? best < 0 ? -INFINITY : x[best]
                             : sum / (double)counted(v, count, i % results);
  }
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static compute_conv3d_options conv_options(const volume *v, bool transposed) {
  compute_conv3d_options o = {.groups = v->groups};
  for (int i = 0; i < 3; i++) {
    o.stride[i] = v->stride[i];
    o.dilation[i] = v->dilation[i];
    o.padding[i] = v->padding[i];
    o.padding_more[i] = v->more[i];
    o.output_padding[i] = transposed ? v->output_padding[i] : 0;
  }
  return o;
}

static compute_pool3d_options pool_options(const volume *v, bool average) {
  compute_pool3d_options o = {.ceil = v->ceil, .exclude_padding = average && v->exclude};
  for (int i = 0; i < 3; i++) {
    o.size[i] = v->size[i];
    o.stride[i] = v->stride[i];
    o.dilation[i] = v->dilation[i];
    o.padding[i] = v->padding[i];
    o.padding_more[i] = v->more[i];
  }
  return o;
}

static compute_shape filter_shape(const volume *v, bool transposed) {
  return COMPUTE_SHAPE(transposed ? v->c : v->o, (transposed ? v->o : v->c) / v->groups, v->size[0],
                       v->size[1], v->size[2]);
}

static compute_node convolution(compute_graph *graph, const volume *v, bool transposed,
                                const compute_node *x) {
  const compute_conv3d_options o = conv_options(v, transposed);
  return transposed ? compute_conv3d_transpose(graph, x[0], x[1], x[2], &o)
                    : compute_conv3d(graph, x[0], x[1], x[2], &o);
}

static compute_node pooling(compute_graph *graph, const volume *v, pool_form form, compute_node x) {
  const compute_pool3d_options o = pool_options(v, form == MEAN);
  if (form == PLACE) return compute_argmax_pool3d(graph, x, &o);
  return form == MEAN ? compute_average_pool3d(graph, x, &o) : compute_max_pool3d(graph, x, &o);
}

/* Integers that all dtypes represent and whose sums are exact. */
static compute_node whole_numbers(compute_graph *graph, compute_dtype dtype, compute_shape shape,
                                  uint64_t seed, double *values) {
  int64_t count;
  assert_ok(compute_shape_count(shape, &count));
  assert_true(count <= MOST);
  test_random random = {.state = seed};
  for (int64_t i = 0; i < count; i++) values[i] = (double)test_random_integer(&random, -3, 3);
  return compute_cast(graph, compute_constant(graph, COMPUTE_F64, shape, values), dtype);
}

static void check(const char *name, compute_graph *graph, compute_node y, compute_shape shape,
                  const double *expected) {
  char got[96], wanted[96];
  assert_ok(compute_graph_status(graph));
  const compute_shape found = compute_node_shape(graph, y);
  if (!compute_shape_equal(found, shape))
    fail_msg("%s: shape %s instead of %s", name, compute_shape_text(found, got, sizeof got),
             compute_shape_text(shape, wanted, sizeof wanted));
  const compute_dtype dtype = compute_node_dtype(graph, y);
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  compute_tensor *out = test_tensor(test_context, dtype, shape, NULL);
  assert_ok(compute_run(plan, (compute_binding[]){{y, out}}, 1, NULL));
  const double unit = dtype == COMPUTE_F64 ? 0x1p-50 : dtype == COMPUTE_F32 ? 0x1p-21 : 0x1p-11;
  for (int64_t i = 0; i < compute_tensor_count(out); i++) {
    const double value = test_element(out, i);
    if (!(value == expected[i] || fabs(value - expected[i]) <= unit * (3 + fabs(expected[i]))))
      fail_msg("%s in %s: element %lld is %.9g instead of %.9g", name, compute_dtype_name(dtype),
               (long long)i, value, expected[i]);
  }
  compute_tensor_release(out);
  compute_plan_release(plan);
}

static void check_convolution(const volume *v, bool transposed, compute_dtype dtype) {
  static double x[MOST], w[MOST], b[64], y[MOST];
  int64_t result[3];
  for (int i = 0; i < 3; i++) result[i] = transposed ? stretched(v, i) : windows(v, i, false);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node operands[] = {
      whole_numbers(graph, dtype, COMPUTE_SHAPE(v->n, v->c, v->data[0], v->data[1], v->data[2]), 1,
                    x),
      whole_numbers(graph, dtype, filter_shape(v, transposed), 2, w),
      whole_numbers(graph, dtype, COMPUTE_SHAPE(v->o), 3, b)};
  convolve(v, transposed, x, w, b, result, y);
  check(v->name, graph, convolution(graph, v, transposed, operands),
        COMPUTE_SHAPE(v->n, v->o, result[0], result[1], result[2]), y);
  compute_graph_release(graph);
}

static void check_pool(const volume *v, pool_form form, compute_dtype dtype) {
  static double x[MOST], y[MOST];
  int64_t count[3];
  for (int i = 0; i < 3; i++) count[i] = windows(v, i, v->ceil);
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node data = whole_numbers(
      graph, dtype, COMPUTE_SHAPE(v->n, v->c, v->data[0], v->data[1], v->data[2]), 4, x);
  fold(v, form, x, count, y);
  check(v->name, graph, pooling(graph, v, form, data),
        COMPUTE_SHAPE(v->n, v->c, count[0], count[1], count[2]), y);
  compute_graph_release(graph);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const compute_dtype floats[] = {COMPUTE_F64, COMPUTE_F32, COMPUTE_F16};

/* The device of a spread run compiles each case, so it takes every fourth. */
static bool is_taken(size_t i, size_t k) {
  return test_samples() <= 1 || (i + k) % 4 == 0;
}

static void convolutions_are_their_sums(void **state) {
  (void)state;
  for (size_t i = 0; i < VOLUMES; i++)
    for (size_t k = 0; k < 3; k++)
      if (is_taken(i, k)) check_convolution(&volumes[i], false, floats[k]);
}

static void transposed_convolutions_spread_their_taps(void **state) {
  (void)state;
  for (size_t i = 0; i < VOLUMES; i++)
    for (size_t k = 0; k < 3; k++)
      if (is_taken(i, k)) check_convolution(&volumes[i], true, floats[k]);
}

static void pools_fold_their_windows(void **state) {
  (void)state;
  for (size_t i = 0; i < VOLUMES; i++)
    for (size_t k = 0; k < 3; k++) {
      if (!is_taken(i, k)) continue;
      check_pool(&volumes[i], LARGEST, floats[k]);
      check_pool(&volumes[i], PLACE, floats[k]);
      check_pool(&volumes[i], MEAN, floats[k]);
    }
  check_pool(&volumes[3], LARGEST, COMPUTE_I8);
  check_pool(&volumes[4], PLACE, COMPUTE_I32);
}

static void windows_without_an_element_have_no_place(void **state) {
  (void)state;
  static const volume apart = {"windows without an element",
                               1,
                               1,
                               1,
                               {1, 3, 3},
                               {2, 2, 2},
                               {1, 1, 1},
                               {3, 1, 1},
                               {2, 0, 0},
                               .groups = 1};
  check_pool(&apart, LARGEST, COMPUTE_F32);
  check_pool(&apart, PLACE, COMPUTE_F32);
}

/* A missing option equals the first one. */
static void one_number_counts_for_all_axes(void **state) {
  (void)state;
  compute_graph *graph = compute_graph_create(test_context);
  const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1, 2, 7, 8, 9));
  const compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(3, 2, 3, 3, 3));
  const compute_conv3d_options conv = {.stride = {2}, .padding = {1, -1, -1}};
  const compute_pool3d_options pairs = {.size = {2}, .padding = {1, -1, -1}};
  assert_true(compute_shape_equal(
      compute_node_shape(graph, compute_conv3d(graph, x, w, (compute_node){0}, &conv)),
      COMPUTE_SHAPE(1, 3, 4, 4, 5)));
  assert_true(compute_shape_equal(
      compute_node_shape(graph, compute_conv3d(graph, x, w, (compute_node){0}, NULL)),
      COMPUTE_SHAPE(1, 3, 5, 6, 7)));
  assert_true(compute_shape_equal(compute_node_shape(graph, compute_max_pool3d(graph, x, &pairs)),
                                  COMPUTE_SHAPE(1, 2, 4, 5, 5)));
  compute_graph_release(graph);
}

#define REFUSED(status, call, ...)                                                                 \
  do {                                                                                             \
    compute_graph *graph = compute_graph_create(test_context);                                     \
    const compute_node x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(1, 2, 3, 4, 5));        \
    const compute_node w = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 2, 2, 2, 2));        \
    const compute_node flat = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(2, 2, 2, 2));        \
    const size_t nodes = graph->count;                                                             \
    (void)w, (void)x, (void)flat;                                                                  \
    assert_false(compute_node_is_valid(call));                                                     \
    assert_fails(compute_graph_status(graph), status);                                             \
    assert_int_equal(graph->count, nodes);                                                         \
    const char *const words_[] = {__VA_ARGS__};                                                    \
    for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++)                                 \
      test_check_message(test_context, words_[i_]);                                                \
    compute_graph_release(graph);                                                                  \
  } while (0)
#define CONV(...) (&(compute_conv3d_options){__VA_ARGS__})
#define POOL(...) (&(compute_pool3d_options){__VA_ARGS__})
#define NONE      ((compute_node){0})

static void wrong_calls_are_refused(void **state) {
  (void)state;
  const compute_status argument = COMPUTE_ERROR_INVALID_ARGUMENT, shape = COMPUTE_ERROR_SHAPE;
  REFUSED(shape, compute_conv3d(graph, flat, w, NONE, NULL), "conv3d", "[2,2,2,2]");
  REFUSED(shape, compute_conv3d(graph, x, flat, NONE, NULL), "conv3d", "[2,2,2,2]");
  REFUSED(shape, compute_conv3d(graph, x, w, NONE, CONV(.dilation = {3, 1, 1})), "4 slices");
  REFUSED(shape, compute_conv3d(graph, x, w, NONE, CONV(.dilation = {1, 4, 1})), "conv3d", "rows");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.stride = {-1})), "stride is -1");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.dilation = {-1})), "dilation is -1");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.padding = {-1})), "padding is -1");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.padding_more = {-1})), "padding_more");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.padding = {0, -2})), "padding is -2");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.output_padding = {1})), "output");
  REFUSED(argument, compute_conv3d(graph, x, w, NONE, CONV(.reserved = {1})), "reserved[0]");
  REFUSED(COMPUTE_ERROR_OVERFLOW,
          compute_conv3d(graph, x, w, NONE, CONV(.padding = {INT64_MAX / 2, 0, 0})), "63 bits");
  REFUSED(shape, compute_conv3d(graph, x, w, w, NULL), "bias");
  REFUSED(shape, compute_conv3d_transpose(graph, x, w, x, NULL), "conv3d_transpose", "bias");
  REFUSED(shape, compute_conv3d_transpose(graph, x, w, NONE, CONV(.padding = {2, 0, 0})),
          "no slices");
  REFUSED(argument, compute_conv3d_transpose(graph, x, w, NONE, CONV(.output_padding = {1})),
          "output_padding is 1");
  REFUSED(shape, compute_max_pool3d(graph, flat, POOL(.size = {2})), "max_pool3d", "[2,2,2,2]");
  REFUSED(COMPUTE_ERROR_NULL_POINTER, compute_max_pool3d(graph, x, NULL), "size");
  REFUSED(argument, compute_max_pool3d(graph, x, POOL(.stride = {1})), "size is 0");
  REFUSED(argument, compute_average_pool3d(graph, x, POOL(.size = {2}, .padding = {2, 0, 0})),
          "average_pool3d", "padding is 2");
  REFUSED(shape, compute_argmax_pool3d(graph, x, POOL(.size = {4, 1, 1})), "argmax_pool3d",
          "spans 4");
  REFUSED(argument, compute_argmax_pool3d(graph, x, POOL(.size = {2}, .exclude_padding = true)),
          "exclude_padding");
  REFUSED(argument, compute_max_pool3d(graph, x, POOL(.size = {2}, .reserved = {0, 1})),
          "reserved[1]");
}

/* ---- Gradients ------------------------------------------------------------------------------- */

typedef struct gradient_sample {
  const volume *volume;
  bool pool, average, transposed;
} gradient_sample;

static compute_node build_gradient(compute_graph *graph, const compute_node *x, const void *user) {
  const gradient_sample *g = user;
  if (!g->pool) return convolution(graph, g->volume, g->transposed, x);
  return pooling(graph, g->volume, g->average ? MEAN : LARGEST, x[0]);
}

static void they_have_their_derivatives(void **state) {
  (void)state;
  static const volume small = {"conv3d",  1,         2,         2,         {3, 2, 3}, {2, 2, 2},
                               {2, 1, 1}, {1, 1, 2}, {1, 0, 1}, {0, 1, 0}, {1, 0, 0}, .groups = 2};
  static const gradient_sample samples[] = {{.volume = &small},
                                            {.volume = &small, .transposed = true},
                                            {.volume = &small, .pool = true},
                                            {.volume = &small, .pool = true, .average = true}};
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    const gradient_sample *g = &samples[i];
    if (!is_taken(i, 0)) continue;
    operation_case sample = {.name = g->pool ? "pool3d" : "conv3d",
                             .build = build_gradient,
                             .user = g,
                             .operand_count = g->pool ? 1 : 3};
    sample.operand[0] =
        (operation_operand){COMPUTE_F64, SHAPE(1, 2, 3, 2, 3), FILL_DISTINCT, -1, 1, LAYOUT_DENSE};
    sample.operand[1] = (operation_operand){
        COMPUTE_F64, filter_shape(&small, g->transposed), FILL_DISTINCT, -0.9, 1, LAYOUT_DENSE};
    sample.operand[2] =
        (operation_operand){COMPUTE_F64, SHAPE(2), FILL_DISTINCT, 0.3, 1, LAYOUT_DENSE};
    gradient_check(test_context, &sample);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions_are_their_sums),
      cmocka_unit_test(transposed_convolutions_spread_their_taps),
      cmocka_unit_test(pools_fold_their_windows),
      cmocka_unit_test(windows_without_an_element_have_no_place),
      cmocka_unit_test(one_number_counts_for_all_axes),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(they_have_their_derivatives),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
