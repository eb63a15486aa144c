/* SPDX-License-Identifier: MIT */
/* Initial values of weights: their distributions, and that they are the same on every machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness/test.h"

static compute_device *device(void) {
  return compute_default_device(test_context);
}

static double *read_values(const compute_layer *layer, size_t index, size_t *count) {
  compute_layer_parameter p;
  assert_ok(compute_layer_parameter_at(layer, index, &p));
  *count = (size_t)compute_tensor_count(p.tensor);
  float *raw = malloc(*count * sizeof *raw);
  double *values = malloc(*count * sizeof *values);
  assert_true(raw && values);
  assert_ok(compute_tensor_read(p.tensor, raw, *count * sizeof *raw));
  for (size_t i = 0; i < *count; i++) values[i] = (double)raw[i];
  free(raw);
  return values;
}

/* The mean is 0, and the standard deviation is `deviation`, both within five standard errors. A
 * uniform distribution has no value outside its limit. */
static void check_distribution(const compute_layer *layer, size_t index, double deviation,
                               bool uniform) {
  size_t count;
  double *values = read_values(layer, index, &count), sum = 0, squares = 0, fourth = 0, most = 0;
  for (size_t i = 0; i < count; i++) {
    const double z = values[i] / deviation;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    most = fmax(most, fabs(z));
  }
  free(values);
  const double n = (double)count, kurtosis = uniform ? 1.8 : 3, limit = sqrt(3);
  const double error = uniform ? 2.4 : 9.8; /* standard deviation of z⁴ */
  if (fabs(sum / n) > 5 / sqrt(n)) fail_msg("the mean is %g deviations", sum / n);
  if (fabs(squares / n - 1) > 5 * sqrt((kurtosis - 1) / n))
    fail_msg("the variance is %g of what it should be", squares / n);
  if (fabs(fourth / n - kurtosis) > 5 * error / sqrt(n))
    fail_msg("the kurtosis is %g, expected %g", fourth / n, kurtosis);
  if (uniform) assert_true(most <= limit * (1 + 1e-6) && most > 0.999 * limit);
  if (!uniform) assert_true(most > 3.5);
}

static compute_layer *dense(compute_initializer initializer, uint64_t seed) {
  const compute_weights_options o = {.initializer = initializer, .seed = seed};
  compute_layer *layer = compute_dense(device(), 300, 100, &o);
  assert_non_null(layer);
  return layer;
}

static void every_initialiser_has_its_distribution(void **state) {
  (void)state;
  static const struct {
    compute_initializer initializer;
    double variance;
    bool uniform;
  } cases[] = {
      {COMPUTE_INIT_DEFAULT, 1.0 / 900, true},
      {COMPUTE_INIT_XAVIER_UNIFORM, 2.0 / 400, true},
      {COMPUTE_INIT_XAVIER_NORMAL, 2.0 / 400, false},
      {COMPUTE_INIT_KAIMING_UNIFORM, 2.0 / 300, true},
      {COMPUTE_INIT_KAIMING_NORMAL, 2.0 / 300, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_layer *layer = dense(cases[i].initializer, 17);
    check_distribution(layer, 0, sqrt(cases[i].variance), cases[i].uniform);
    compute_layer_release(layer);
  }
  compute_layer *zero = dense(COMPUTE_INIT_ZERO, 17);
  size_t count;
  double *values = read_values(zero, 0, &count);
  for (size_t k = 0; k < count; k++) assert_true(values[k] == 0);
  free(values);
  compute_layer_release(zero);
}

static void fans_are_counted_as_pytorch_counts_them(void **state) {
  (void)state;
  const compute_conv2d_layer_options o = {.groups = 2, .weights.seed = 3};
  compute_layer *conv = compute_conv2d_layer(device(), 32, 64, 5, &o);
  check_distribution(conv, 0, 1 / sqrt(3.0 * 16 * 25), true);
  compute_layer_release(conv);
  compute_layer *transposed = compute_conv2d_transpose_layer(device(), 32, 64, 5, &o);
  check_distribution(transposed, 0, 1 / sqrt(3.0 * 32 * 25), true);
  compute_layer_release(transposed);
  compute_layer *embedding = compute_embedding(device(), 500, 40, NULL);
  check_distribution(embedding, 0, 1, false);
  compute_layer_release(embedding);
}

static void biases_follow_the_default_and_are_zero_otherwise(void **state) {
  (void)state;
  size_t count;
  for (int given = 0; given < 2; given++) {
    compute_layer *layer = dense(given ? COMPUTE_INIT_KAIMING_NORMAL : COMPUTE_INIT_DEFAULT, 9);
    double *bias = read_values(layer, 1, &count), most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(bias[i]));
    assert_true(given ? most == 0 : most > 0.8 / sqrt(300) && most <= 1 / sqrt(300) * (1 + 1e-6));
    free(bias);
    compute_layer_release(layer);
  }
}

/* Returns true if a parameter of one layer has the bits of a parameter of another. */
static bool equal(const compute_layer *a, size_t i, const compute_layer *b, size_t k) {
  size_t first, second;
  double *x = read_values(a, i, &first), *y = read_values(b, k, &second);
  const bool same = first == second && memcmp(x, y, first * sizeof *x) == 0;
  free(x);
  free(y);
  return same;
}

static void seeds_and_places_decide_and_nothing_else(void **state) {
  (void)state;
  compute_layer *a = dense(COMPUTE_INIT_DEFAULT, 1), *b = dense(COMPUTE_INIT_DEFAULT, 1);
  compute_layer *c = dense(COMPUTE_INIT_DEFAULT, 2);
  assert_true(equal(a, 0, b, 0));
  assert_false(equal(a, 0, c, 0));
  assert_ok(compute_layer_initialize(c, COMPUTE_INIT_DEFAULT, 1));
  assert_true(equal(a, 0, c, 0) && equal(a, 1, c, 1));
  compute_layer *net = compute_sequential((compute_layer *[]){a, b}, 2);
  assert_ok(compute_layer_initialize(net, COMPUTE_INIT_DEFAULT, 1));
  assert_true(equal(net, 0, c, 0));
  assert_false(equal(net, 2, c, 0)); /* equal layers of one network differ */
  compute_layer_release(net);
  compute_layer_release(c);
}

/* The bits of a seed's weights are scaled numbers of the random operations. They are the same for
 * any number of threads, which share large tensors. */
static void weights_are_numbers_of_the_random_operations(void **state) {
  (void)state;
  static const int32_t threads[] = {1, 3};
  enum { IN = 700, OUT = 300, COUNT = IN * OUT };
  const int64_t number = 77;
  for (size_t i = 0; i < 2; i++)
    for (int normal = 0; normal < 2; normal++) {
      compute_context *context;
      const compute_weights_options o = {.initializer = normal ? COMPUTE_INIT_KAIMING_NORMAL
                                                               : COMPUTE_INIT_KAIMING_UNIFORM,
                                         .seed = (uint64_t)number};
      assert_ok(compute_open(&context,
                             &(compute_open_options){.backends = "cpu", .threads = threads[i]}));
      compute_device *cpu = compute_default_device(context);
      compute_layer *layer = compute_dense(cpu, IN, OUT, &o);
      compute_tensor *seed, *drawn;
      const compute_shape shape = COMPUTE_SHAPE(COUNT);
      assert_ok(compute_tensor_from_host(cpu, COMPUTE_I64, COMPUTE_SCALAR, &number, &seed));
      assert_ok(normal ? compute_tensor_random_normal(seed, COMPUTE_F64, shape, 0, &drawn)
                       : compute_tensor_random_uniform(seed, COMPUTE_F64, shape, 0, &drawn));
      size_t count;
      assert_non_null(layer);
      double *values = read_values(layer, 0, &count), *numbers = malloc(COUNT * sizeof *numbers);
      assert_int_equal(count, COUNT);
      assert_non_null(numbers);
      assert_ok(compute_tensor_read(drawn, numbers, COUNT * sizeof *numbers));
      for (size_t k = 0; k < count; k++) {
        const double value =
            normal ? sqrt(2.0 / IN) * numbers[k] : sqrt(6.0 / IN) * (2 * numbers[k] - 1);
        if (values[k] != (double)(float)value)
          fail_msg("weight %zu is %a, not %a", k, values[k], value);
      }
      free(numbers);
      free(values);
      compute_tensor_release(seed);
      compute_tensor_release(drawn);
      compute_layer_release(layer);
      assert_ok(compute_close(context));
    }
}

static void initialising_starts_statistics_over(void **state) {
  (void)state;
  compute_layer *layer = compute_batch_norm_layer(device(), 3, NULL);
  const float other[3] = {7, 8, 9};
  const int64_t batches = 5;
  compute_layer_parameter p;
  for (size_t i = 0; i < 4; i++) {
    assert_ok(compute_layer_parameter_at(layer, i, &p));
    assert_ok(compute_tensor_write(p.tensor, other, sizeof other));
  }
  assert_ok(compute_layer_parameter_at(layer, 4, &p));
  assert_ok(compute_tensor_write(p.tensor, &batches, sizeof batches));
  assert_ok(compute_layer_initialize(layer, COMPUTE_INIT_KAIMING_NORMAL, 1));
  static const double expected[] = {1, 0, 0, 1, 0};
  for (size_t i = 0; i < 5; i++) {
    assert_ok(compute_layer_parameter_at(layer, i, &p));
    for (int64_t k = 0; k < compute_tensor_count(p.tensor); k++)
      assert_true(test_element(p.tensor, k) == expected[i]);
  }
  compute_layer_release(layer);
}

static void every_device_starts_from_the_same_bits(void **state) {
  (void)state;
  compute_device *other = NULL;
  if (compute_device_by_name(test_context, "opencl:0", &other) != COMPUTE_OK)
    test_skip("there is no opencl:0");
  for (int i = COMPUTE_INIT_DEFAULT; i <= COMPUTE_INIT_KAIMING_NORMAL; i++) {
    const compute_weights_options o = {.initializer = (compute_initializer)i, .seed = 77};
    compute_layer *here = compute_dense(device(), 33, 7, &o);
    compute_layer *there = compute_dense(other, 33, 7, &o);
    assert_true(equal(here, 0, there, 0) && equal(here, 1, there, 1));
    compute_layer_release(here);
    compute_layer_release(there);
  }
}

static void unknown_initialisers_are_refused(void **state) {
  (void)state;
  const compute_weights_options o = {.initializer = (compute_initializer)6};
  assert_null(compute_dense(device(), 3, 4, &o));
  test_check_message(test_context, "invalid initializer 6");
  compute_layer *layer = compute_dense(device(), 3, 4, NULL);
  assert_fails(compute_layer_initialize(layer, (compute_initializer)-1, 0),
               COMPUTE_ERROR_INVALID_ARGUMENT);
  assert_fails(compute_layer_initialize(NULL, COMPUTE_INIT_DEFAULT, 0), COMPUTE_ERROR_NULL_POINTER);
  compute_layer_release(layer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_initialiser_has_its_distribution),
      cmocka_unit_test(fans_are_counted_as_pytorch_counts_them),
      cmocka_unit_test(biases_follow_the_default_and_are_zero_otherwise),
      cmocka_unit_test(seeds_and_places_decide_and_nothing_else),
      cmocka_unit_test(weights_are_numbers_of_the_random_operations),
      cmocka_unit_test(initialising_starts_statistics_over),
      cmocka_unit_test(every_device_starts_from_the_same_bits),
      cmocka_unit_test(unknown_initialisers_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
