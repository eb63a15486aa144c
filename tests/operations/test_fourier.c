/* SPDX-License-Identifier: MIT */
/* Fourier transforms and their compositions, compared with their definitions; refused calls. The kernels have their own tests. */
#include <math.h>
#include <stdlib.h>

#include "compute/fft.h"
#include "support/harness/operation.h"
#include "support/harness/test.h"
#include "support/harness/values.h"

static const double pi = 3.14159265358979323846;

enum { MOST = 256 };

/* Runs the graph and compares its f64 result with `count` expected numbers. */
static void check(compute_graph *graph, compute_node y, const double *expected, int64_t count,
                  const char *name) {
  double got[MOST];
  compute_tensor *out = NULL;
  assert_ok(compute_graph_status(graph));
  compute_plan *plan = test_compile(graph, &y, 1, 0);
  assert_ok(compute_plan_create_tensor(plan, y, &out));
  assert_ok(compute_run(plan, &(compute_binding){y, out}, 1, NULL));
  assert_ok(compute_tensor_read(out, got, sizeof(double) * (size_t)count));
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(got[i] - expected[i]) < 1e-12 * (double)count))
      fail_msg("%s: element %lld is %.17g instead of %.17g", name, (long long)i, got[i],
               expected[i]);
  compute_tensor_release(out);
  compute_plan_release(plan);
  compute_graph_release(graph);
}

static void fill(double *x, int64_t count) {
  test_random random = {.state = 5};
  for (int64_t i = 0; i < count; i++) x[i] = test_random_uniform(&random, -1, 1);
}

static compute_node values(compute_graph *graph, compute_shape shape, const double *x) {
  return compute_constant(graph, COMPUTE_F64, shape, x);
}

static void transforms_follow_numpys_norms(void **state) {
  (void)state;
  static const double scale[3][2] = {
      {1, 1.0 / 6}, {0.40824829046386302, 0.40824829046386302}, {1.0 / 6, 1}};
  double x[12], y[12];
  fill(x, 12);
  for (int norm = 0; norm < 3; norm++)
    for (int inverse = 0; inverse < 2; inverse++) {
      for (int k = 0; k < 6; k++) {
        y[2 * k] = y[2 * k + 1] = 0;
        for (int j = 0; j < 6; j++) {
          const double angle = (inverse ? 2 : -2) * pi * j * k / 6;
          y[2 * k] += scale[norm][inverse] * (x[2 * j] * cos(angle) - x[2 * j + 1] * sin(angle));
          y[2 * k + 1] +=
              scale[norm][inverse] * (x[2 * j] * sin(angle) + x[2 * j + 1] * cos(angle));
        }
      }
      compute_graph *graph = compute_graph_create(test_context);
      const compute_node in = values(graph, COMPUTE_SHAPE(6, 2), x);
      const compute_fft_norm name = (compute_fft_norm)norm;
      check(graph,
            inverse ? compute_ifft(graph, in, 0, 0, name) : compute_fft(graph, in, 0, 0, name), y,
            12, "fft");
    }
}

static void inverses_give_the_original(void **state) {
  (void)state;
  double x[120];
  fill(x, 120);
  for (int norm = 0; norm < 3; norm++) {
    const compute_fft_norm name = (compute_fft_norm)norm;
    compute_graph *graph = compute_graph_create(test_context);
    compute_node y = values(graph, COMPUTE_SHAPE(4, 5, 6), x);
    y = compute_rfftn(graph, y, COMPUTE_ALL_AXES, name);
    check(graph, compute_irfftn(graph, y, 6, COMPUTE_ALL_AXES, name), x, 120, "rfftn");
    graph = compute_graph_create(test_context);
    y = values(graph, COMPUTE_SHAPE(4, 15, 2), x);
    y = compute_fftn(graph, y, COMPUTE_AXES(1, 0), name);
    check(graph, compute_ifftn(graph, y, COMPUTE_AXES(0, 1), name), x, 120, "fftn");
    graph = compute_graph_create(test_context);
    y = compute_dct(graph, values(graph, COMPUTE_SHAPE(120), x), 2, 0, COMPUTE_FFT_ORTHO);
    check(graph, compute_dct(graph, y, 3, 0, COMPUTE_FFT_ORTHO), x, 120, "dct");
    graph = compute_graph_create(test_context);
    y = compute_fftshift(graph, values(graph, COMPUTE_SHAPE(8, 15), x), COMPUTE_ALL_AXES);
    check(graph, compute_ifftshift(graph, y, COMPUTE_ALL_AXES), x, 120, "fftshift");
  }
}

static void convolutions_and_correlations_are_sums(void **state) {
  (void)state;
  double a[9], b[4], c[12] = {0}, d[12] = {0};
  fill(a, 9);
  fill(b, 4);
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < 4; j++) {
      c[i + j] += a[i] * b[j];
      d[i - j + 3] += a[i] * b[j];
    }
  compute_graph *graph = compute_graph_create(test_context);
  check(graph,
        compute_fft_convolve(graph, values(graph, COMPUTE_SHAPE(9), a),
                             values(graph, COMPUTE_SHAPE(4), b), 0),
        c, 12, "fft_convolve");
  graph = compute_graph_create(test_context);
  check(graph,
        compute_fft_correlate(graph, values(graph, COMPUTE_SHAPE(9), a),
                              values(graph, COMPUTE_SHAPE(4), b), 0),
        d, 12, "fft_correlate");
}

static void cosine_transforms_follow_their_formulas(void **state) {
  (void)state;
  for (int n = 1; n < 9; n++) {
    double x[9], two[9], three[9];
    fill(x, n);
    for (int k = 0; k < n; k++) {
      two[k] = 0;
      three[k] = x[0];
      for (int j = 0; j < n; j++) two[k] += 2 * x[j] * cos(pi * k * (2 * j + 1) / (2.0 * n));
      for (int j = 1; j < n; j++) three[k] += 2 * x[j] * cos(pi * j * (2 * k + 1) / (2.0 * n));
    }
    compute_graph *graph = compute_graph_create(test_context);
    check(graph, compute_dct(graph, values(graph, COMPUTE_SHAPE(n), x), 2, 0, COMPUTE_FFT_BACKWARD),
          two, n, "dct 2");
    graph = compute_graph_create(test_context);
    check(graph, compute_dct(graph, values(graph, COMPUTE_SHAPE(n), x), 3, 0, COMPUTE_FFT_BACKWARD),
          three, n, "dct 3");
  }
}

static void frames_are_windowed_and_added_up_again(void **state) {
  (void)state;
  enum { SAMPLES = 20, LENGTH = 8, HOP = 3, FRAMES = 5, POINTS = 5 };
  double x[SAMPLES], window[LENGTH], y[FRAMES * POINTS * 2];
  fill(x, SAMPLES);
  for (int i = 0; i < LENGTH; i++) window[i] = 0.54 - 0.46 * cos(2 * pi * i / LENGTH);
  for (int f = 0; f < FRAMES; f++)
    for (int k = 0; k < POINTS; k++) {
      double *at = y + 2 * (f * POINTS + k);
      at[0] = at[1] = 0;
      for (int j = 0; j < LENGTH; j++) {
        at[0] += x[f * HOP + j] * window[j] * cos(2 * pi * j * k / LENGTH);
        at[1] -= x[f * HOP + j] * window[j] * sin(2 * pi * j * k / LENGTH);
      }
    }
  compute_graph *graph = compute_graph_create(test_context);
  compute_node w = compute_fft_window(graph, COMPUTE_F64, COMPUTE_FFT_WINDOW_HAMMING, LENGTH);
  check(graph, compute_stft(graph, values(graph, COMPUTE_SHAPE(SAMPLES), x), w, HOP), y,
        FRAMES * POINTS * 2, "stft");
  graph = compute_graph_create(test_context);
  w = compute_fft_window(graph, COMPUTE_F64, COMPUTE_FFT_WINDOW_HAMMING, LENGTH);
  check(graph,
        compute_istft(graph, compute_stft(graph, values(graph, COMPUTE_SHAPE(SAMPLES), x), w, HOP),
                      w, HOP),
        x, SAMPLES, "istft");
}

/* ---- Dtypes and layouts ---------------------------------------------------------------------- */

typedef struct fourier_case {
  compute_shape x;
  int64_t length;
  int32_t axis;
  int form; /* fft, ifft, rfft, irfft */
} fourier_case;

static compute_node build(compute_graph *graph, const compute_node *x, const void *user) {
  const fourier_case *c = user;
  const compute_fft_norm norm = COMPUTE_FFT_ORTHO;
  switch (c->form) {
  case 0: return compute_fft(graph, x[0], c->length, c->axis, norm);
  case 1: return compute_ifft(graph, x[0], c->length, c->axis, norm);
  case 2: return compute_rfft(graph, x[0], c->length, c->axis, norm);
  default: return compute_irfft(graph, x[0], c->length, c->axis, norm);
  }
}

static void every_dtype_and_layout_matches(void **state) {
  (void)state;
  static const fourier_case cases[] = {
      {SHAPE(3, 64, 2), 0, 1, 0},  {SHAPE(30, 5, 2), 0, 0, 1},     {SHAPE(7, 37, 2), 0, 1, 0},
      {SHAPE(40, 12), 0, 0, 2},    {SHAPE(3, 50), 45, 1, 2},       {SHAPE(9, 9, 2), 0, 1, 3},
      {SHAPE(6, 20, 2), 11, 0, 3}, {SHAPE(2, 3, 100, 2), 0, 2, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (const compute_dtype *dtype = operation_dtypes("float"); *dtype; dtype++)
      for (int layout = 0; layout < (*dtype == COMPUTE_F32 ? LAYOUT_COUNT : 1); layout++) {
        const double rounding = *dtype == COMPUTE_F64   ? 0x1p-50
                                : *dtype == COMPUTE_F32 ? 0x1p-21
                                : *dtype == COMPUTE_F16 ? 0x1p-10
                                                        : 0x1p-7;
        const operation_case sample = {
            .name = "fourier",
            .build = build,
            .user = &cases[i],
            .operand = {{*dtype, cases[i].x, FILL_RANGE, -1, 1, (guarded_layout)layout}},
            .operand_count = 1,
            .result_layout = (guarded_layout)layout,
            .tolerance = {2, rounding, 0},
            .operation = "fourier"};
        operation_check(test_context, &sample);
      }
  operation_finish();
}

/* ---- Refusals -------------------------------------------------------------------------------- */

#define INPUT(dtype, ...) compute_input(graph, COMPUTE_##dtype, COMPUTE_SHAPE(__VA_ARGS__))

#define REFUSED(status, call)                                                                      \
  do {                                                                                             \
    compute_graph *graph = compute_graph_create(test_context);                                     \
    assert_false(compute_node_is_valid(call));                                                     \
    assert_fails(compute_graph_status(graph), status);                                             \
    compute_graph_release(graph);                                                                  \
  } while (0)

static void wrong_calls_are_refused(void **state) {
  (void)state;
  const compute_fft_norm norm = COMPUTE_FFT_BACKWARD;
  REFUSED(COMPUTE_ERROR_SHAPE, compute_fft(graph, INPUT(F32, 4, 3), 0, 0, norm));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_fft(graph, INPUT(F32, 4, 2), 0, 1, norm));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_fft(graph, INPUT(F32, 0, 2), 0, 0, norm));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_rfft(graph, INPUT(F32, 4), -1, 0, norm));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_irfft(graph, INPUT(F32, 1, 2), 0, 0, norm));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_fftn(graph, INPUT(F32, 4, 4, 2), COMPUTE_AXES(0, 0), norm));
  REFUSED(COMPUTE_ERROR_SHAPE,
          compute_rfftn(graph, INPUT(F32, 2, 2, 2, 2), COMPUTE_ALL_AXES, norm));
  REFUSED(COMPUTE_ERROR_DTYPE, compute_rfft(graph, INPUT(I32, 4), 0, 0, norm));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT,
          compute_rfft(graph, INPUT(F32, 4), 0, 0, (compute_fft_norm)3));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, compute_dct(graph, INPUT(F32, 4), 1, 0, norm));
  REFUSED(COMPUTE_ERROR_INVALID_ARGUMENT, compute_stft(graph, INPUT(F32, 9), INPUT(F32, 4), 0));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_stft(graph, INPUT(F32, 3), INPUT(F32, 4), 1));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_fft_convolve(graph, INPUT(F32, 3), INPUT(F32, 1, 4), 0));
  REFUSED(COMPUTE_ERROR_DTYPE, compute_fft_convolve(graph, INPUT(F32, 3), INPUT(F64, 4), 0));
  REFUSED(COMPUTE_ERROR_SHAPE, compute_complex_mul(graph, INPUT(F32, 3), INPUT(F32, 2)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transforms_follow_numpys_norms),
      cmocka_unit_test(inverses_give_the_original),
      cmocka_unit_test(convolutions_and_correlations_are_sums),
      cmocka_unit_test(cosine_transforms_follow_their_formulas),
      cmocka_unit_test(frames_are_windowed_and_added_up_again),
      cmocka_unit_test(every_dtype_and_layout_matches),
      cmocka_unit_test(wrong_calls_are_refused),
  };
  return cmocka_run_group_tests(tests, test_group_open, test_group_close);
}
