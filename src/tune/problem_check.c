/* Data for the tuner's problems, and the comparison of a device's results with the CPU's.
 *
 * Sums are made of multiples of 1/4 between −1 and 1: every order of adding up to millions of them
 * gives the same bits, so a reduction that forgets or repeats an element cannot hide in a
 * tolerance. Matrix products take numbers with all bits of their dtype instead, and a tolerance
 * that f32 keeps but TF32 does not: multiples of 1/4 would be exact there too. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "type/dtype.h"
#include "tune/problem.h"

/* A number from a counter (the finalizer of splitmix64). */
static uint64_t scramble(uint64_t counter) {
  uint64_t x = counter + UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* −1 … 1 */
static double symmetric(uint64_t counter) {
  return (double)(scramble(counter) >> 11) * 0x1p-52 - 1;
}

/* A spot near the middle of each ROI, and noise as light has it. */
static void fill_spots(const tune_problem *problem, void *data) {
  const compute_fit_problem *p = &compute_fit_of(&problem->descriptor)->problem;
  const compute_dtype dtype = problem->inputs[0].dtype;
  const size_t size = compute_dtype_size(dtype);
  const uint64_t pixels = (uint64_t)(p->rows * p->columns);
  const double wider = p->model == COMPUTE_FIT_XYNB ? 1 : 1.2;
  for (uint64_t i = 0; i < problem->input_elements[0]; i++) {
    const uint64_t roi = i / pixels, pixel = i % pixels;
    const double x = (double)(pixel % (uint64_t)p->columns) - (p->columns - 1) * 0.5 -
                     0.5 * symmetric(roi << 32 ^ 1);
    const double y = (double)(pixel / (uint64_t)p->columns) - (p->rows - 1) * 0.5 -
                     0.5 * symmetric(roi << 32 ^ 2);
    const double a = x / p->sigma[0], b = y / (p->sigma[1] * wider);
    const double mean = 10 + 200 * exp(-0.5 * (a * a + b * b));
    const double noise = symmetric(i << 2) + symmetric(i << 2 ^ 1) + symmetric(i << 2 ^ 2);
    const double value = floor(mean + sqrt(mean) * noise + 0.5);
    dtype_store(dtype, (char *)data + i * size, value > 0 ? value : 0);
  }
}

void problem_fill(const tune_problem *problem, uint32_t input, void *data) {
  const compute_kernel_descriptor *d = &problem->descriptor;
  if (d->kind == COMPUTE_KERNEL_FIT) {
    fill_spots(problem, data);
    return;
  }
  const compute_dtype dtype = problem->inputs[input].dtype;
  const size_t size = compute_dtype_size(dtype);
  const bool exact =
      d->kind == COMPUTE_KERNEL_REDUCE && compute_reduce_of(d)->combine == COMPUTE_COMBINE_SUM;
  const double range = d->kind == COMPUTE_KERNEL_ROW ? 4 : 1;
  for (uint64_t i = 0; i < problem->input_elements[input]; i++) {
    uint64_t bits = scramble((uint64_t)input << 40 ^ i);
    double value = exact ? (double)((int64_t)(bits >> 32) % 9) * 0.25 - 1
                         : (double)(bits >> 11) * 0x1p-52 - 1; /* −1 … 1 */
    dtype_store(dtype, (char *)data + i * size, value * range);
  }
}

typedef struct tolerance {
  double absolute, relative;
} tolerance;

/* The distance from 1 to the next number; 0 for integers. */
static double epsilon(compute_dtype dtype) {
  switch (dtype) {
  case COMPUTE_F64: return 0x1p-52;
  case COMPUTE_F32: return 0x1p-23;
  case COMPUTE_F16: return 0x1p-10;
  case COMPUTE_BF16: return 0x1p-7;
  default: return 0;
  }
}

/* Products in a sum of a convolution. */
static double terms_of(const compute_conv_attributes *c) {
  const double taps = (double)c->filter_size[0] * (double)c->filter_size[1];
  switch (c->direction) {
  case COMPUTE_CONVOLUTION_BY_DATA: return taps * (double)c->result_channels / c->groups;
  case COMPUTE_CONVOLUTION_BY_FILTER:
    return (double)c->batch * (double)c->result_size[0] * (double)c->result_size[1];
  default: return taps * (double)c->data_channels / c->groups;
  }
}

static tolerance tolerance_of(const compute_kernel_descriptor *d) {
  const double stored = 2 * epsilon(d->outputs[0].dtype);
  const double computed = epsilon(dtype_compute_type(d->outputs[0].dtype));
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: return (tolerance){16 * computed, stored + 16 * computed};
  case COMPUTE_KERNEL_ROW:
    if (compute_row_of(d)->operation == COMPUTE_ROW_SOFTMAX)
      return (tolerance){0x1p-126, stored + 64 * computed};
    return (tolerance){256 * computed, stored + 64 * computed};
  /* The errors of k roundings add up like a random walk over sums that grow like one. */
  case COMPUTE_KERNEL_GEMM:
    return (tolerance){8 * computed * (double)compute_gemm_of(d)->k, stored};
  case COMPUTE_KERNEL_CONV: return (tolerance){8 * computed * terms_of(compute_conv_of(d)), stored};
  default: return (tolerance){0, stored};
  }
}

static bool close_enough(double got, double expected, const tolerance *t) {
  if (isnan(expected)) return isnan(got);
  return got == expected || fabs(got - expected) <= t->absolute + t->relative * fabs(expected);
}

/* Two solvers end within a small part of a standard deviation of each other; the deviations are as
 * good as the parameters that they belong to. */
static bool check_fits(const tune_problem *problem, const float *got, const float *expected,
                       char *reason, size_t reason_bytes) {
  const int32_t n =
      compute_fit_parameter_count(compute_fit_of(&problem->descriptor)->problem.model);
  for (uint64_t at = 0; at < problem->output_elements; at += 2 * (uint64_t)n)
    for (int32_t i = 0; i < 2 * n; i++) {
      const double a = (double)got[at + (uint64_t)i], b = (double)expected[at + (uint64_t)i];
      const double deviation = (double)expected[at + (uint64_t)(n + i % n)];
      const double allowed = i < n ? 0.03 * deviation : 0.003 * fabs(b);
      if (isnan(deviation) ? isnan(a) || i < n : fabs(a - b) <= allowed) continue;
      snprintf(reason, reason_bytes, "column %d of fit %" PRIu64 " is %.9g instead of %.9g", (int)i,
               at / (2 * (uint64_t)n), a, b);
      return false;
    }
  return true;
}

bool problem_check(const tune_problem *problem, const void *got, const void *expected, char *reason,
                   size_t reason_bytes) {
  if (problem->descriptor.kind == COMPUTE_KERNEL_FIT)
    return check_fits(problem, got, expected, reason, reason_bytes);
  const compute_dtype dtype = problem->output.dtype;
  const size_t size = compute_dtype_size(dtype);
  const tolerance t = tolerance_of(&problem->descriptor);
  if (!memcmp(got, expected, problem->output_elements * size)) return true;
  for (uint64_t i = 0; i < problem->output_elements; i++) {
    double a = dtype_load(dtype, (const char *)got + i * size);
    double b = dtype_load(dtype, (const char *)expected + i * size);
    if (close_enough(a, b, &t)) continue;
    snprintf(reason, reason_bytes, "element %" PRIu64 " is %.9g instead of %.9g", i, a, b);
    return false;
  }
  return true;
}
