/* SPDX-License-Identifier: MIT */
/* The part that the problems of all kinds share: operands, data, and the comparison of a device's
 * results with the CPU's.
 *
 * Sums use multiples of 1/4. Matrix products use numbers with all bits of their dtype instead, with
 * a tolerance that f32 meets and TF32 does not: multiples of 1/4 would be exact in TF32 also. */
#include "codegen/tune/problems/problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/random.h"
#include "core/type/dtype.h"

/* ---- Operands ------------------------------------------------------------------------------ */

void problem_space(tune_problem *p, compute_kernel_kind kind, int64_t rows, int64_t columns) {
  p->descriptor.kind = kind;
  p->descriptor.rank = 2;
  p->descriptor.size[0] = rows;
  p->descriptor.size[1] = columns;
}

void problem_add_input(tune_problem *p, compute_dtype dtype, const int64_t *strides) {
  compute_operand *operand = &p->inputs[p->descriptor.input_count++];
  operand->dtype = dtype;
  memcpy(operand->stride, strides, (size_t)p->descriptor.rank * sizeof *strides);
}

void problem_set_output(tune_problem *p, compute_dtype dtype, const int64_t *strides) {
  p->descriptor.output_count = 1;
  p->output.dtype = dtype;
  memcpy(p->output.stride, strides, (size_t)p->descriptor.rank * sizeof *strides);
}

void problem_add_image(tune_problem *p, compute_dtype dtype, const int64_t size[4]) {
  p->descriptor.rank = 4;
  problem_add_input(p, dtype,
                    (const int64_t[]){size[1] * size[2] * size[3], size[2] * size[3], size[3], 1});
}

void problem_set_image(tune_problem *p, compute_dtype dtype, const int64_t size[4]) {
  p->descriptor.rank = 4;
  memcpy(p->descriptor.size, size, 4 * sizeof *size);
  problem_set_output(p, dtype,
                     (const int64_t[]){size[1] * size[2] * size[3], size[2] * size[3], size[3], 1});
}

uint64_t problem_bytes(const tune_problem *p) {
  uint64_t bytes = p->output_elements * compute_dtype_size(p->output.dtype);
  for (uint32_t i = 0; i < p->descriptor.input_count; i++)
    bytes += p->input_elements[i] * compute_dtype_size(p->inputs[i].dtype);
  return bytes;
}

/* ---- Data ---------------------------------------------------------------------------------- */

double problem_number(uint64_t counter) {
  return (double)(random_mix(counter) >> 11) * 0x1p-52 - 1;
}

static uint64_t counter_of(uint32_t input, uint64_t element) {
  return (uint64_t)input << 40 ^ element;
}

void problem_fill_range(const tune_problem *p, uint32_t input, double range, void *data) {
  const compute_dtype dtype = p->inputs[input].dtype;
  const size_t size = compute_dtype_size(dtype);
  for (uint64_t i = 0; i < p->input_elements[input]; i++)
    dtype_store(dtype, (char *)data + i * size, problem_number(counter_of(input, i)) * range);
}

void problem_fill_quarters(const tune_problem *p, uint32_t input, void *data) {
  const compute_dtype dtype = p->inputs[input].dtype;
  const size_t size = compute_dtype_size(dtype);
  for (uint64_t i = 0; i < p->input_elements[input]; i++) {
    const uint64_t bits = random_mix(counter_of(input, i));
    dtype_store(dtype, (char *)data + i * size, (double)((int64_t)(bits >> 32) % 9) * 0.25 - 1);
  }
}

void problem_fill_indices(const tune_problem *p, uint32_t input, int64_t axis, void *data) {
  const compute_dtype dtype = p->inputs[input].dtype;
  const size_t size = compute_dtype_size(dtype);
  for (uint64_t i = 0; i < p->input_elements[input]; i++)
    dtype_store_integer(dtype, (char *)data + i * size,
                        (int64_t)(random_mix(counter_of(input, i)) % (uint64_t)axis));
}

void problem_fill(const tune_problem *p, uint32_t input, void *data) {
  if (p->kind->fill)
    p->kind->fill(p, input, data);
  else
    problem_fill_range(p, input, 1, data);
}

int problem_blank(const tune_problem *p) {
  return p->kind->adds ? 0 : 0xff;
}

/* ---- Comparison ---------------------------------------------------------------------------- */

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

static bool close_enough(double got, double expected, const problem_tolerance *t) {
  if (isnan(expected)) return isnan(got);
  return got == expected || fabs(got - expected) <= t->absolute + t->relative * fabs(expected);
}

bool problem_check(const tune_problem *p, const void *got, const void *expected, char *reason,
                   size_t reason_bytes) {
  if (p->kind->check) return p->kind->check(p, got, expected, reason, reason_bytes);
  const compute_dtype dtype = p->output.dtype;
  const size_t size = compute_dtype_size(dtype);
  problem_tolerance t = {0};
  if (!memcmp(got, expected, (size_t)p->output_elements * size)) return true;
  if (p->kind->tolerance)
    t = p->kind->tolerance(&p->descriptor, epsilon(dtype_compute_type(dtype)));
  t.relative += 2 * epsilon(dtype);
  for (uint64_t i = 0; i < p->output_elements; i++) {
    double a = dtype_load(dtype, (const char *)got + i * size);
    double b = dtype_load(dtype, (const char *)expected + i * size);
    if (close_enough(a, b, &t)) continue;
    snprintf(reason, reason_bytes, "element %" PRIu64 " is %.9g instead of %.9g", i, a, b);
    return false;
  }
  return true;
}
