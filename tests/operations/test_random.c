/* SPDX-License-Identifier: MIT */
/* Random numbers of distributions. Pinned sums of all bits make every device, instruction set and
 * number of threads produce the same numbers. Seeds are fixed, so a result never depends on the
 * day. test_random_laws.c judges the distributions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/common/draw.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/reference/chi_squared.h"
#include "support/samples/random_laws.h"

enum { ROWS = 60, COLUMNS = 50, FEW = 20000 };

static const int64_t pinned_seed = 20261130;

/* ---- Bits ------------------------------------------------------------------------------------ */

/* A parameter [COLUMNS] in f64: first + step · i. */
static compute_node ramp(compute_graph *g, double first, double step) {
  double values[COLUMNS];
  for (int i = 0; i < COLUMNS; i++) values[i] = first + step * i;
  return compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(COLUMNS), values);
}

/* i / 49 */
static compute_node shares(compute_graph *g) {
  double values[COLUMNS];
  for (int i = 0; i < COLUMNS; i++) values[i] = i / 49.0;
  return compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(COLUMNS), values);
}

static compute_node means(compute_graph *g) {
  double values[COLUMNS];
  for (int i = 0; i < COLUMNS; i++) values[i] = i < 40 ? 0.8 * i : 1000.0 * i;
  return compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(COLUMNS), values);
}

#define PINNED(name, hash, ...)                                                                    \
  static compute_node pinned_##name(compute_graph *g, compute_node seed) {                         \
    const compute_shape shape = COMPUTE_SHAPE(ROWS, COLUMNS);                                      \
    (void)shape;                                                                                   \
    return __VA_ARGS__;                                                                            \
  }
#define PINS(row)                                                                                  \
  row(normal, 0x3126b90a17979e94, compute_random_normal(g, COMPUTE_F64, shape, seed, 1)) row(      \
      exponential, 0x7837e88627fc1f9c, compute_random_exponential(g, COMPUTE_F64, shape, seed, 2)) \
      row(gumbel, 0x30ad40d6e1ebe98c, compute_random_gumbel(g, COMPUTE_F64, shape, seed, 3)) row(  \
          gamma, 0xc06f457502fa737b,                                                               \
          compute_random_gamma(g, ramp(g, 0.001, 0.25), COMPUTE_F64, shape, seed, 4))              \
          row(beta, 0xfcf6f64daf0174e2,                                                            \
              compute_random_beta(g, ramp(g, 0.1, 0.2), ramp(g, 3, -0.05), COMPUTE_F64, shape,     \
                                  seed, 5))                                                        \
              row(truncated, 0x0e5a310c131f626e,                                                   \
                  compute_random_truncated_normal(                                                 \
                      g, ramp(g, -3, 0.125),                                                       \
                      compute_add(g, ramp(g, -3, 0.125), ramp(g, 0.5, 0.25)), COMPUTE_F64, shape,  \
                      seed,                                                                        \
                      6)) row(poisson, 0x38d2d588edb27c87,                                         \
                              compute_random_poisson(g, means(g), COMPUTE_F64, shape, seed, 7))    \
                  row(binomial, 0x1716e783b4410a1e,                                                \
                      compute_random_binomial(g, ramp(g, 0, 10), shares(g), COMPUTE_F64, shape,    \
                                              seed, 8))                                            \
                      row(integers, 0x2f79b2e13e210186,                                            \
                          compute_random_integers(g, -5, 1000003, COMPUTE_I64, shape, seed, 9))    \
                          row(wide, 0x0f4e86b4f6bbfa2c,                                            \
                              compute_random_integers(g, -7, INT64_C(3) << 51, COMPUTE_I64, shape, \
                                                      seed, 13))                                   \
                              row(bernoulli, 0xab8712ebb42bcce5,                                   \
                                  compute_cast(                                                    \
                                      g, compute_random_bernoulli(g, shares(g), shape, seed, 10),  \
                                      COMPUTE_I64))                                                \
                                  row(categorical, 0xfb3c89aed5caaa4b,                             \
                                      compute_random_categorical(g, ramp(g, 0, 0.125),             \
                                                                 COMPUTE_SHAPE(ROWS), seed, 11))   \
                                      row(permutation, 0xb5b241772c500021,                         \
                                          compute_random_permutation(g, 1000, seed, 12))           \
                                          row(choice, 0x9fd53ea18fca7685,                          \
                                              compute_random_choice(g, 1000, 20, seed, 12))
PINS(PINNED)

typedef struct pin {
  const char *name;
  uint64_t hash;
  compute_node (*build)(compute_graph *g, compute_node seed);
} pin;

#define PIN_ROW(name, hash, ...) {#name, UINT64_C(hash), pinned_##name},
static const pin pins[] = {PINS(PIN_ROW)};

/* FNV-1a */
static uint64_t hash_of(const void *data, size_t bytes) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* The bytes of a node's value for a seed; the caller frees them. */
static void *value_of(compute_graph *g, compute_node seed, compute_node y, int64_t number,
                      int64_t *count) {
  const compute_shape shape = compute_node_shape(g, y);
  const compute_dtype dtype = compute_node_dtype(g, y);
  assert_ok(compute_graph_status(g));
  assert_ok(compute_shape_count(shape, count));
  const size_t bytes = (size_t)*count * compute_dtype_size(dtype);
  compute_plan *plan = test_compile(g, &y, 1, 0);
  compute_tensor *ts = test_tensor(test_context, COMPUTE_I64, COMPUTE_SCALAR, &number);
  compute_tensor *ty = test_tensor(test_context, dtype, shape, NULL);
  void *data = malloc(bytes + 1);
  assert_non_null(data);
  assert_ok(compute_run(plan, (compute_binding[]){{seed, ts}, {y, ty}}, 2, NULL));
  assert_ok(compute_tensor_read(ty, data, bytes));
  compute_tensor_release(ts);
  compute_tensor_release(ty);
  compute_plan_release(plan);
  return data;
}

static void every_device_draws_the_same_bits(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
    compute_graph *g = compute_graph_create(test_context);
    const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
    int64_t count;
    void *data = value_of(g, seed, pins[i].build(g, seed), pinned_seed, &count);
    const uint64_t found = hash_of(data, (size_t)count * 8);
    if (found != pins[i].hash) {
      print_error("%s: bits 0x%016llx\n", pins[i].name, (unsigned long long)found);
      wrong++;
    }
    free(data);
    compute_graph_release(g);
  }
  assert_int_equal(wrong, 0);
}

static compute_node build_gamma(compute_graph *g, const compute_node *x, const void *user) {
  (void)user;
  return compute_random_gamma(g, x[0], COMPUTE_F64, COMPUTE_SHAPE(7, 143), x[1], 3);
}

static void numbers_are_those_of_the_reference(void **state) {
  (void)state;
  const operation_case sample = {
      .name = "random_draw",
      .build = build_gamma,
      .operand = {{COMPUTE_F64, SHAPE(7, 1), FILL_RANGE, 0, 8, LAYOUT_DENSE},
                  {COMPUTE_I64, SCALAR, FILL_RANGE, -1e15, 1e15, LAYOUT_DENSE}},
      .operand_count = 2,
      .operation = "random_draw",
      .dtype = COMPUTE_F64};
  operation_check(test_context, &sample);
  operation_finish();
}

/* Devices may draw many elements together. */
static void numbers_are_those_of_one_call_each(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static const law some[] = {
      {GAMMA, 0.03, 0},     {GAMMA, 0.7, 0},       {GAMMA, 1, 0},          {GAMMA, 40, 0},
      {GAMMA, INFINITY, 0}, {BETA, 2, 3},          {BETA, 1, 0.5},         {BETA, 1e300, 2e300},
      {POISSON, 3, 0},      {POISSON, 10, 0},      {POISSON, 1e15, 0},     {POISSON, 3e15, 0},
      {BINOMIAL, 30, 0.5},  {BINOMIAL, 500, 0.97}, {BINOMIAL, 3e15, 0.25}, {BINOMIAL, 50.5, 0.5}};
  static const compute_instruction_code codes[FAMILIES] = {[GAMMA] = COMPUTE_I_DRAW_GAMMA,
                                                           [BETA] = COMPUTE_I_DRAW_BETA,
                                                           [POISSON] = COMPUTE_I_DRAW_POISSON,
                                                           [BINOMIAL] = COMPUTE_I_DRAW_BINOMIAL};
  const size_t each = test_spread() > 1 ? 3 : 1; /* compiling devices */
  for (size_t i = 0; i < sizeof some / sizeof *some; i += each) {
    const law *w = &some[i];
    compute_graph *g = compute_graph_create(test_context);
    const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
    const compute_shape shape = COMPUTE_SHAPE(COUNT);
    int64_t count;
    double *u =
        value_of(g, seed, compute_random_uniform(g, COMPUTE_F64, shape, seed, 6), 5, &count);
    double *x = value_of(g, seed, law_build(g, w, COUNT, seed, 6), 5, &count);
    for (int k = 0; k < COUNT; k++) {
      const double one = draw_number(codes[w->kind], u[k], w->a, w->b);
      if (memcmp(&one, &x[k], sizeof one) != 0 && !(isnan(one) && isnan(x[k])))
        fail_msg("%s (%g, %g): %a, not %a", law_name(w), w->a, w->b, x[k], one);
    }
    free(u);
    free(x);
    compute_graph_release(g);
  }
}

/* ---- Statistics ------------------------------------------------------------------------------ */

/* Means over 3,000 numbers each, so also for parameters that differ between elements. */
static void moments_of_every_element_are_right(void **state) {
  (void)state;
  enum { DRAWS = 3000, KINDS = 6 };
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  const compute_shape shape = COMPUTE_SHAPE(DRAWS, KINDS);
  const double mean[KINDS] = {0.5, 4, 9, 30, 200, 5000};
  const compute_node m = compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(KINDS), mean);
  const compute_node y[] = {compute_random_gamma(g, m, COMPUTE_F64, shape, seed, 0),
                            compute_random_poisson(g, m, COMPUTE_F64, shape, seed, 1)};
  for (size_t k = 0; k < 2; k++) { /* both have this mean and variance */
    int64_t count;
    double *x = value_of(g, seed, y[k], 5, &count);
    for (int i = 0; i < KINDS; i++) {
      double sum = 0, squares = 0;
      for (int j = 0; j < DRAWS; j++) {
        const double off = x[j * KINDS + i] - mean[i];
        sum += off, squares += off * off;
      }
      assert_true(fabs(sum / DRAWS) < 5 * sqrt(mean[i] / DRAWS));
      assert_true(fabs(squares / DRAWS / mean[i] - 1) < 5 * sqrt((2 + 6 / mean[i]) / DRAWS));
    }
    free(x);
  }
  compute_graph_release(g);
}

static void classes_have_their_probabilities(void **state) {
  (void)state;
  enum { CLASSES = 5, DRAWS = 20000 };
  const float logits[CLASSES] = {0, 1, -INFINITY, -2, 0.5f};
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  const compute_node l = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(CLASSES), logits);
  int64_t count;
  int64_t *x =
      value_of(g, seed, compute_random_categorical(g, l, COMPUTE_SHAPE(DRAWS), seed, 0), 1, &count);
  double seen[CLASSES] = {0}, expected[CLASSES], sum = 0;
  for (int64_t i = 0; i < count; i++) {
    assert_true(x[i] >= 0 && x[i] < CLASSES);
    seen[x[i]]++;
  }
  for (int k = 0; k < CLASSES; k++) sum += exp((double)logits[k]);
  for (int k = 0; k < CLASSES; k++) expected[k] = exp((double)logits[k]) / sum * DRAWS;
  assert_true(seen[2] == 0);
  assert_true(chi_excess(expected, seen, CLASSES) < 4.75);
  free(x);
  compute_graph_release(g);
}

/* Rows without a class have -1. */
static void classes_need_finite_logits(void **state) {
  (void)state;
  enum { ROW = 3, CASES = 6, DRAWS = 50 };
  const float logits[CASES * ROW] = {NAN,       0,         0,         0,      0,        -NAN,
                                     -INFINITY, -INFINITY, -INFINITY, 0,      INFINITY, INFINITY,
                                     -INFINITY, 3e38f,     -INFINITY, -3e38f, -3e38f,   -3e38f};
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  const compute_node l = compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(CASES, ROW), logits);
  int64_t count;
  int64_t *x = value_of(
      g, seed, compute_random_categorical(g, l, COMPUTE_SHAPE(DRAWS, CASES), seed, 0), 1, &count);
  for (int k = 0; k < DRAWS; k++) {
    const int64_t *row = x + k * CASES;
    for (int i = 0; i < 4; i++) assert_int_equal(row[i], -1);
    assert_int_equal(row[4], 1);
    assert_true(row[5] >= 0 && row[5] < ROW);
  }
  free(x);
  compute_graph_release(g);
}

/* ---- Integers -------------------------------------------------------------------------------- */

/* Remainders see an unequal probability of neighbours. */
static void wide_integers_have_equal_probabilities(void **state) {
  (void)state;
  enum { COUNT = 300000, MOST = 13 };
  static const int divisors[] = {3, 5, 7, MOST};
  const bool few = test_spread() > 1; /* every span is a kernel */
  for (size_t i = 0; i < (few ? 1 : sizeof divisors / sizeof *divisors); i++)
    for (int power = few ? 51 : 12; power < 52; power += power < 44 ? 16 : 1) {
      const int64_t span = (int64_t)divisors[i] << power;
      if (span > INT64_C(1) << 53) continue;
      compute_graph *g = compute_graph_create(test_context);
      const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
      const compute_node y = compute_random_integers(g, 0, span, COMPUTE_I64, COMPUTE_SHAPE(COUNT),
                                                     seed, (uint32_t)power);
      int64_t count;
      int64_t *x = value_of(g, seed, y, 1, &count);
      double seen[MOST] = {0}, expected[MOST];
      for (int64_t k = 0; k < count; k++) {
        assert_true(x[k] >= 0 && x[k] < span);
        seen[x[k] % divisors[i]]++;
      }
      for (int k = 0; k < divisors[i]; k++) expected[k] = (double)COUNT / divisors[i];
      if (!(chi_excess(expected, seen, divisors[i]) < 4.75))
        fail_msg("remainders of %d << %d", divisors[i], power);
      free(x);
      compute_graph_release(g);
    }
}

/* The second uniform number adds less than 1 to the product of 53 bits and the span. */
static void wide_integers_are_products(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  static const int64_t spans[] = {4097,
                                  1000008,
                                  (1 << 27) - 1,
                                  (1 << 27) + 1,
                                  INT64_C(3) << 30,
                                  (INT64_C(1) << 53) - 1,
                                  INT64_C(3) << 51};
  for (size_t i = 0; i<sizeof spans / sizeof *spans; i += test_spread()> 1 ? 3 : 1) {
    compute_graph *g = compute_graph_create(test_context);
    const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
    const compute_shape shape = COMPUTE_SHAPE(COUNT);
    const int64_t low = -spans[i] / 2;
    int64_t count;
    double *u =
        value_of(g, seed, compute_random_uniform(g, COMPUTE_F64, shape, seed, 4), 11, &count);
    int64_t *x = value_of(
        g, seed, compute_random_integers(g, low, low + spans[i], COMPUTE_I64, shape, seed, 4), 11,
        &count);
    for (int k = 0; k < COUNT; k++) {
      const uint64_t bits = (uint64_t)(u[k] * 0x1p53), s = (uint64_t)spans[i];
      const uint64_t high = bits >> 27, rest = bits & 0x7ffffff;
      const uint64_t s1 = s >> 27, s0 = s & 0x7ffffff;
      const uint64_t middle = high * s0 + rest * s1 + (rest * s0 >> 27);
      const int64_t least = (int64_t)((high * s1 << 1) + (middle >> 26));
      assert_in_range(x[k] - low - least, 0, 1);
    }
    free(u);
    free(x);
    compute_graph_release(g);
  }
}

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Every number is at every place equally often, and a choice is the start of the permutation. */
static void orders_are_uniform(void **state) {
  (void)state;
  enum { COUNT = 6, DRAWS = 600 };
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  double seen[COUNT * COUNT] = {0}, expected[COUNT * COUNT];
  compute_node all[DRAWS];
  for (int k = 0; k < DRAWS; k++)
    all[k] = compute_reshape(g, compute_random_permutation(g, COUNT, seed, (uint32_t)k),
                             COMPUTE_SHAPE(1, COUNT));
  int64_t count;
  int64_t *x = value_of(g, seed, compute_concat(g, all, DRAWS, 0), 3, &count);
  for (int k = 0; k < DRAWS; k++) {
    unsigned found = 0;
    for (int i = 0; i < COUNT; i++) {
      const int64_t number = x[k * COUNT + i];
      assert_true(number >= 0 && number < COUNT);
      found |= 1u << number;
      seen[i * COUNT + number]++;
    }
    assert_int_equal(found, (1u << COUNT) - 1);
  }
  for (int i = 0; i < COUNT * COUNT; i++) expected[i] = (double)DRAWS / COUNT;
  assert_true(chi_excess(expected, seen, COUNT * COUNT) < 4.75);
  for (int64_t chosen = 0; chosen <= COUNT; chosen++) {
    int64_t *some = value_of(g, seed, compute_random_choice(g, COUNT, chosen, seed, 7), 3, &count);
    assert_int_equal(count, chosen);
    assert_memory_equal(some, x + 7 * COUNT, (size_t)chosen * 8);
    free(some);
  }
  free(x);
  compute_graph_release(g);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Two equal uniform numbers of 53 bits would be a stream that repeats another one. */
static void seeds_and_streams_do_not_overlap(void **state) {
  (void)state;
  enum { SEEDS = 12, STREAMS = 12, EACH = 200, ALL = SEEDS * STREAMS * EACH };
  static double numbers[ALL];
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  compute_node parts[STREAMS];
  for (int i = 0; i < STREAMS; i++)
    parts[i] = compute_random_normal(g, COMPUTE_F64, COMPUTE_SHAPE(EACH), seed, (uint32_t)i);
  const compute_node y = compute_concat(g, parts, STREAMS, 0);
  for (int s = 0; s < SEEDS; s++) {
    int64_t count;
    double *x = value_of(g, seed, y, s - SEEDS / 2, &count);
    memcpy(numbers + s * STREAMS * EACH, x, STREAMS * EACH * sizeof *x);
    free(x);
  }
  qsort(numbers, ALL, sizeof *numbers, compare_numbers);
  for (int i = 1; i < ALL; i++) assert_true(numbers[i - 1] < numbers[i]);
  compute_graph_release(g);
}

/* ---- Extremes -------------------------------------------------------------------------------- */

typedef struct extreme {
  law law;
  double low, high; /* the range of the numbers; NaN: all are NaN */
} extreme;

static const extreme extremes[] = {
    {{GAMMA, 0, 0}, 0, 0},
    {{GAMMA, 1e-3, 0}, 0, 10},
    {{GAMMA, 1e-320, 0}, 0, 0},
    {{GAMMA, 1e18, 0}, 0.9999999e18, 1.0000001e18},
    {{GAMMA, -1, 0}, NAN, NAN},
    {{GAMMA, NAN, 0}, NAN, NAN},
    {{BETA, 1e-3, 1e-3}, 0, 1},
    {{BETA, 1e-310, 1e-310}, 0, 1},
    {{BETA, 1e9, 1e-9}, 1, 1},
    {{BETA, 0, 1}, NAN, NAN},
    {{BETA, 1, NAN}, NAN, NAN},
    {{BETA, 1, INFINITY}, NAN, NAN},
    {{BETA, INFINITY, 1}, NAN, NAN},
    {{BETA, 1e308, 1e308}, 0.5, 0.5},
    {{BETA, 1.7e308, 1e-5}, 1, 1},
    {{POISSON, 0, 0}, 0, 0},
    {{POISSON, 1e-300, 0}, 0, 0},
    {{POISSON, 1e6, 0}, 990000, 1010000},
    {{POISSON, 0x1p52, 0}, 0x1p52 - 1e9, 0x1p52 + 1e9},
    {{POISSON, 1e300, 0}, NAN, NAN},
    {{POISSON, -1e-300, 0}, NAN, NAN},
    {{POISSON, NAN, 0}, NAN, NAN},
    {{BINOMIAL, 0, 0.5}, 0, 0},
    {{BINOMIAL, 7, 0}, 0, 0},
    {{BINOMIAL, 7, 1}, 7, 7},
    {{BINOMIAL, 1e15, 1}, 1e15, 1e15},
    {{BINOMIAL, 1e15, 1e-300}, 0, 0},
    {{BINOMIAL, 0x1p52, 0.5}, 0x1p51 - 1e9, 0x1p51 + 1e9},
    {{BINOMIAL, 2.5, 0.5}, NAN, NAN},
    {{BINOMIAL, -1, 0.5}, NAN, NAN},
    {{BINOMIAL, 5, 1.5}, NAN, NAN},
    {{BINOMIAL, 5, NAN}, NAN, NAN},
    {{TRUNCATED, -INFINITY, INFINITY}, -9, 9},
    {{TRUNCATED, 2, 2}, 2, 2},
    {{TRUNCATED, 50, INFINITY}, 50, 51},
    {{TRUNCATED, -1e100, -1e8}, -1.0000001e8, -1e8},
    {{TRUNCATED, 36, 36.0001}, 36, 36.0001},
    {{TRUNCATED, 2, 1}, NAN, NAN},
    {{TRUNCATED, NAN, 1}, NAN, NAN},
};

static void extreme_parameters_give_limits_or_nan(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
    const extreme *e = &extremes[i];
    compute_graph *g = compute_graph_create(test_context);
    const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
    int64_t count;
    double *x = value_of(g, seed, law_build(g, &e->law, 500, seed, 3), -1, &count);
    for (int64_t k = 0; k < count; k++) {
      const bool good = isnan(e->low) ? isnan(x[k]) : x[k] >= e->low && x[k] <= e->high;
      if (!good) fail_msg("family %d (%g, %g): %.17g", (int)e->law.kind, e->law.a, e->law.b, x[k]);
    }
    free(x);
    compute_graph_release(g);
  }
}

/* Numbers between limits that are close together are nearly uniform there. */
static void narrow_limits_keep_the_distribution(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static const double limits[][2] = {{1, 1 + 1e-9},     {1, 1 + 1e-12},       {-1e-15, 1e-15},
                                     {-1e-9, 1e-9},     {-0.5, -0.5 + 1e-11}, {5, 5 + 1e-12},
                                     {-6 - 1e-10, -6},  {30, 30 + 1e-9},      {35.5, 35.5 + 1e-10},
                                     {-40, -40 + 1e-9}, {1e-3, 1e-3 + 1e-5}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const double low = limits[i][0], width = limits[i][1] - low;
    compute_graph *g = compute_graph_create(test_context);
    const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
    const law w = {TRUNCATED, low, limits[i][1]};
    int64_t count;
    double *x = value_of(g, seed, law_build(g, &w, COUNT, seed, 5), 7, &count);
    double *u = value_of(
        g, seed, compute_random_uniform(g, COMPUTE_F64, COMPUTE_SHAPE(COUNT), seed, 5), 7, &count);
    double apart = 0;
    for (int k = 0; k < COUNT; k++) apart = fmax(apart, fabs((x[k] - low) / width - u[k]));
    const double step = nextafter(fabs(low) + width, INFINITY) - (fabs(low) + width);
    if (!(apart <= 1e-7 + step / width))
      fail_msg("%.17g … %.17g: %g of the width away", low, limits[i][1], apart);
    free(x);
    free(u);
    compute_graph_release(g);
  }
}

static double truncated(double u, double low, double high) {
  return draw_number(COMPUTE_I_DRAW_TRUNCATED_NORMAL, u, low, high);
}

/* The first and last uniform numbers belong to normal numbers of size 8.2 to 8.3. Where limits are
 * nearly narrow, half of the numbers are below low + width / 2 · (1 − low · width / 4). */
static void truncated_numbers_are_quantiles(void **state) {
  (void)state;
  static const double wide[][2] = {
      {-INFINITY, INFINITY}, {-INFINITY, 40}, {-39, INFINITY}, {-39, 40}, {-40, 39}};
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    const double first = truncated(0, wide[i][0], wide[i][1]);
    const double last = truncated(1 - 0x1p-53, wide[i][0], wide[i][1]);
    assert_true(first > -8.3 && first < -8.2);
    assert_true(last > 8.2 && last < 8.3);
  }
  for (int i = 1; i < 20; i++) { /* narrow up to 11 */
    const double low = 10, width = i * 0x1p-21;
    const double wanted = width * (0.5 - low * width / 8);
    assert_true(fabs(truncated(0.5, low, low + width) - low - wanted) < 1e-8 * width + 2e-15);
    assert_true(fabs(truncated(0.5, -low - width, -low) + low + wanted) < 1e-8 * width + 2e-15);
  }
}

/* Half of the gamma numbers with shape 0.001 are below the smallest f64. */
static void tiny_shapes_underflow_as_often_as_they_should(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  int64_t count, zeros = 0;
  double *x = value_of(g, seed, law_build(g, &(law){GAMMA, 1e-3, 0}, FEW, seed, 3), 1, &count);
  for (int64_t k = 0; k < count; k++) zeros += x[k] == 0;
  assert_true(fabs((double)zeros / FEW - 0.4966) < 0.02); /* P(1e-3, e^-700) */
  free(x);
  compute_graph_release(g);
}

static void integer_dtypes_have_a_number_for_invalid_parameters(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_input(g, COMPUTE_I64, COMPUTE_SCALAR);
  const double mean[3] = {NAN, 0, 1e6};
  const compute_node m = compute_constant(g, COMPUTE_F64, COMPUTE_SHAPE(3), mean);
  int64_t count;
  int32_t *x = value_of(
      g, seed, compute_random_poisson(g, m, COMPUTE_I32, COMPUTE_SHAPE(3), seed, 0), 1, &count);
  assert_int_equal(x[0], -1);
  assert_int_equal(x[1], 0);
  assert_true(x[2] > 990000 && x[2] < 1010000);
  free(x);
  uint8_t *u = value_of(
      g, seed, compute_random_poisson(g, m, COMPUTE_U8, COMPUTE_SHAPE(3), seed, 0), 1, &count);
  assert_int_equal(u[0], 0);
  assert_int_equal(u[2], 255);
  free(u);
  compute_graph_release(g);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

#define REFUSED(expected, text, ...)                                                               \
  do {                                                                                             \
    assert_false(compute_node_is_valid(__VA_ARGS__));                                              \
    assert_int_equal(compute_graph_status(g), expected);                                           \
    test_check_message(test_context, text);                                                        \
    compute_graph_clear_error(g);                                                                  \
  } while (0)

static void wrong_arguments_are_refused(void **state) {
  (void)state;
  compute_graph *g = compute_graph_create(test_context);
  const compute_node seed = compute_scalar(g, COMPUTE_I64, 1);
  const compute_node three = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3));
  const compute_node whole = compute_input(g, COMPUTE_I32, COMPUTE_SHAPE(3));
  const compute_shape shape = COMPUTE_SHAPE(2, 4);
  REFUSED(COMPUTE_ERROR_DTYPE, "random_normal",
          compute_random_normal(g, COMPUTE_I32, shape, seed, 0));
  REFUSED(COMPUTE_ERROR_DTYPE, "random_gamma",
          compute_random_gamma(g, whole, COMPUTE_F32, COMPUTE_SHAPE(3), seed, 0));
  REFUSED(COMPUTE_ERROR_SHAPE, "does not broadcast",
          compute_random_poisson(g, three, COMPUTE_I32, shape, seed, 0));
  REFUSED(COMPUTE_ERROR_SHAPE, "does not broadcast",
          compute_random_bernoulli(g, three, COMPUTE_SHAPE(1), seed, 0));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "enclose",
          compute_random_integers(g, 3, 3, COMPUTE_I32, shape, seed, 0));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "enclose",
          compute_random_integers(g, INT64_MIN, INT64_MAX, COMPUTE_I64, shape, seed, 0));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "high",
          compute_random_integers(g, 0, 257, COMPUTE_U8, shape, seed, 0));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, "chosen", compute_random_choice(g, 3, 4, seed, 0));
  REFUSED(COMPUTE_ERROR_SHAPE, "no classes",
          compute_random_categorical(g, compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(3, 0)),
                                     COMPUTE_SHAPE(3), seed, 0));
  REFUSED(COMPUTE_ERROR_DTYPE, "seed", compute_random_normal(g, COMPUTE_F32, shape, three, 0));
  REFUSED(COMPUTE_ERROR_DTYPE, "seed",
          compute_random_integers(g, 0, INT64_C(3) << 50, COMPUTE_I64, shape, three, 0));
  compute_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_device_draws_the_same_bits),
      cmocka_unit_test(numbers_are_those_of_the_reference),
      cmocka_unit_test(numbers_are_those_of_one_call_each),
      cmocka_unit_test(moments_of_every_element_are_right),
      cmocka_unit_test(classes_have_their_probabilities),
      cmocka_unit_test(classes_need_finite_logits),
      cmocka_unit_test(wide_integers_have_equal_probabilities),
      cmocka_unit_test(wide_integers_are_products),
      cmocka_unit_test(orders_are_uniform),
      cmocka_unit_test(seeds_and_streams_do_not_overlap),
      cmocka_unit_test(extreme_parameters_give_limits_or_nan),
      cmocka_unit_test(narrow_limits_keep_the_distribution),
      cmocka_unit_test(truncated_numbers_are_quantiles),
      cmocka_unit_test(tiny_shapes_underflow_as_often_as_they_should),
      cmocka_unit_test(integer_dtypes_have_a_number_for_invalid_parameters),
      cmocka_unit_test(wrong_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
