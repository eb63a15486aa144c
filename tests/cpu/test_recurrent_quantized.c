/* SPDX-License-Identifier: MIT */
/* RECURRENT with states in 8 bits on the CPU: each step is the definition of
 * compute_recurrent_attributes, with exact sums of bytes. A step takes the kernel's own state before
 * it, so that one rounding to a neighbouring byte cannot excuse another. */
#include "kernel_fixture.h"

enum { GATES = 4, INPUTS = 6, X = 0, R, H, C, SCALE, ZERO, Y, BLOCKS };

typedef struct layer {
  int64_t steps, batch, hidden;
  bool reverse;
  compute_recurrent_attributes a;
  block b[BLOCKS];
  block *blocks[BLOCKS];
  compute_operand operand[BLOCKS];
  compute_kernel_descriptor d;
} layer;

static void begin(layer *l, int64_t steps, int64_t batch, int64_t hidden, bool reverse,
                  uint64_t seed) {
  static const compute_dtype dtypes[BLOCKS] = {COMPUTE_F32, COMPUTE_I8, COMPUTE_F32, COMPUTE_F32,
                                               COMPUTE_F32, COMPUTE_I8, COMPUTE_F32};
  const int64_t columns = GATES * hidden;
  const int64_t size[BLOCKS][3] = {
      {steps, batch, columns}, {1, hidden, columns}, {1, batch, hidden},        {1, batch, hidden},
      {1, 1, columns},         {1, 1, columns},      {steps + 2, batch, hidden}};
  const double bound[BLOCKS] = {2, 128, 1, 1, 0, 128, 1};
  test_random random = {.state = seed};
  *l = (layer){.steps = steps,
               .batch = batch,
               .hidden = hidden,
               .reverse = reverse,
               .a = {.cell = COMPUTE_RECURRENT_LSTM, .reverse = reverse, .quantized = true}};
  for (int i = 0; i < BLOCKS; i++) {
    const int64_t stride[3] = {size[i][1] * size[i][2], size[i][2], 1};
    l->b[i] = block_create(dtypes[i], 3, size[i], stride);
    block_fill(&l->b[i], -bound[i], bound[i], &random);
    l->operand[i] = operand_of(&l->b[i], 3);
    l->blocks[i] = &l->b[i];
  }
  block_fill(&l->b[SCALE], 0.001, 0.01, &random);
  if (seed % 3 == 0) block_fill(&l->b[R], -127, 128, &random); /* without −128 */
  block_remember(&l->b[Y]);
  l->d = (compute_kernel_descriptor){.struct_size = sizeof l->d,
                                     .kind = COMPUTE_KERNEL_RECURRENT,
                                     .rank = 3,
                                     .size = {steps + 2, batch, hidden},
                                     .input_count = INPUTS,
                                     .output_count = 1,
                                     .inputs = l->operand,
                                     .outputs = &l->operand[Y],
                                     .accumulate = COMPUTE_F32,
                                     .attributes = &l->a,
                                     .attribute_bytes = sizeof l->a};
}

static void end(layer *l) {
  for (int i = 0; i < BLOCKS; i++) block_release(&l->b[i]);
}

/* The bytes of a state, as DynamicQuantizeLinear makes them. */
static void round_state(const float *h, int64_t count, int32_t *q, float *scale, int32_t *zero) {
  float least = 0, most = 0;
  for (int64_t i = 0; i < count; i++) {
    least = fminf(least, h[i]);
    most = fmaxf(most, h[i]);
  }
  *scale = most == least ? 1 : (most - least) / 255;
  *zero = (int32_t)nearbyintf(fminf(-least / *scale, 255));
  for (int64_t i = 0; i < count; i++)
    q[i] = (int32_t)fminf(fmaxf(nearbyintf(h[i] / *scale) + (float)*zero, 0), 255);
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* Checks one step of a sequence, whose state before it was h and c; c becomes the next. */
static void check_step(const layer *l, int64_t step, int64_t row, const float *h, double *c) {
  const int64_t hidden = l->hidden, columns = GATES * hidden;
  const float *x = (const float *)block_data(&l->b[X]) + (step * l->batch + row) * columns;
  const float *y = (const float *)block_data(&l->b[Y]) + (step * l->batch + row) * hidden;
  const int8_t *r = (const int8_t *)block_data(&l->b[R]);
  const int8_t *zeros = (const int8_t *)block_data(&l->b[ZERO]);
  const float *scales = (const float *)block_data(&l->b[SCALE]);
  int32_t *q = malloc((size_t)hidden * sizeof *q), zero;
  float scale;
  assert_non_null(q);
  round_state(h, hidden, q, &scale, &zero);
  for (int64_t j = 0; j < hidden; j++) {
    double sum[GATES];
    for (int64_t g = 0; g < GATES; g++) {
      const int64_t at = g * hidden + j;
      int64_t exact = 0;
      for (int64_t k = 0; k < hidden; k++)
        exact += (int64_t)(q[k] - zero) * (r[k * columns + at] - zeros[at]);
      sum[g] = (double)x[at] + (double)exact * (double)scale * (double)scales[at];
    }
    c[j] = sigmoid(sum[2]) * c[j] + sigmoid(sum[0]) * tanh(sum[3]);
    const double expected = sigmoid(sum[1]) * tanh(c[j]);
    if (!(fabs((double)y[j] - expected) <= 4e-6))
      fail_msg("%lld units, step %lld, unit %lld: %.9g instead of %.9g", (long long)hidden,
               (long long)step, (long long)j, (double)y[j], expected);
  }
  free(q);
}

static void check(const layer *l) {
  const int64_t hidden = l->hidden;
  const float *y = (const float *)block_data(&l->b[Y]);
  double *c = malloc((size_t)hidden * sizeof *c);
  assert_non_null(c);
  for (int64_t row = 0; row < l->batch; row++) {
    const float *h = (const float *)block_data(&l->b[H]) + row * hidden;
    for (int64_t j = 0; j < hidden; j++)
      c[j] = (double)((const float *)block_data(&l->b[C]))[row * hidden + j];
    for (int64_t i = 0; i < l->steps; i++) {
      const int64_t step = l->reverse ? l->steps - 1 - i : i;
      check_step(l, step, row, h, c);
      h = y + (step * l->batch + row) * hidden;
    }
    for (int64_t j = 0; j < hidden; j++) {
      assert_true(y[(l->steps * l->batch + row) * hidden + j] == h[j]);
      assert_true(fabs((double)y[((l->steps + 1) * l->batch + row) * hidden + j] - c[j]) < 1e-5);
    }
  }
  free(c);
}

static const char *const sets[] = {"scalar", "avx2", "avx512", "rvv", "dotprod", "i8mm"};

static void states_are_rounded_to_bytes(void **state) {
  static const struct {
    int64_t steps, batch, hidden;
  } cases[] = {{0, 2, 5},  {1, 1, 1},   {3, 1, 7},   {4, 3, 16},
               {2, 5, 33}, {3, 20, 50}, {5, 1, 129}, {2, 2, 260}};
  (void)state;
  for (size_t k = 0; k < sizeof sets / sizeof *sets; k++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      fixture f;
      layer l;
      if (!fixture_open(&f, 2, sets[k])) continue;
      begin(&l, cases[i].steps, cases[i].batch, cases[i].hidden, i % 2, i + 1);
      assert_int_equal(run_kernel(&f, &cpu_recurrent_kind, &l.d, l.blocks), COMPUTE_OK);
      block_check_guards(&l.b[Y]);
      check(&l);
      end(&l);
      fixture_close(&f);
    }
}

static void threads_change_no_bit(void **state) {
  (void)state;
  layer l;
  begin(&l, 3, 2, 600, false, 9);
  const size_t bytes = (size_t)l.b[Y].elements * sizeof(float);
  void *first = malloc(bytes);
  assert_non_null(first);
  for (int32_t threads = 1; threads <= 3; threads++) {
    fixture f;
    assert_true(fixture_open(&f, threads, NULL));
    assert_int_equal(run_kernel(&f, &cpu_recurrent_kind, &l.d, l.blocks), COMPUTE_OK);
    if (threads == 1) memcpy(first, block_data(&l.b[Y]), bytes);
    assert_memory_equal(first, block_data(&l.b[Y]), bytes);
    fixture_close(&f);
  }
  check(&l);
  free(first);
  end(&l);
}

static void other_layers_are_refused(void **state) {
  (void)state;
  fixture f;
  layer l;
  cpu_kernel *kernel = NULL;
  assert_true(fixture_open(&f, 1, NULL));
  begin(&l, 1, 1, 8, false, 1);
  l.d.accumulate = COMPUTE_F64;
  assert_int_equal(cpu_kind_prepare(&cpu_recurrent_kind, f.device, &l.d, &kernel),
                   COMPUTE_ERROR_UNSUPPORTED);
  end(&l);
  fixture_close(&f);
}

static void lack_of_memory_is_reported(void **state) {
  (void)state;
  layer l;
  begin(&l, 2, 3, 20, false, 1);
  check_allocation_failures(&cpu_recurrent_kind, &l.d, l.blocks);
  end(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_are_rounded_to_bytes),
      cmocka_unit_test(threads_change_no_bit),
      cmocka_unit_test(other_layers_are_refused),
      cmocka_unit_test(lack_of_memory_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
