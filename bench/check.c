/* SPDX-License-Identifier: MIT */
/* Checking results; see check.h. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { BLOCK = 4096 }; /* elements per chunk of an output without rows */

/* The number of chunks that can be computed in the time given. */
static int64_t affordable(const bench_problem *problem, int64_t elements, int64_t chunk,
                          double seconds) {
  const bench_operation *o = problem->operation;
  double each = o->work > 0 ? o->work : o->flops(problem->c) / (double)elements;
  double chunks = seconds * 1e9 / (each * (double)chunk);
  return chunks < 3 ? 3 : chunks > 1e9 ? (int64_t)1e9 : (int64_t)chunks;
}

static void choose(bench_check *check, int64_t elements, int64_t total) {
  uint64_t state = 1;
  for (int64_t i = 0; i < check->chunk_count; i++) {
    int64_t index = i;
    if (check->chunk_count < total) {
      const uint64_t random = host_random(&state);
      index = i == 0 ? 0 : i == 1 ? total - 1 : (int64_t)((random >> 20) % (uint64_t)total);
    }
    check->first[i] = index * check->chunk_elements;
    int64_t rest = elements - check->first[i];
    check->count[i] = rest < check->chunk_elements ? rest : check->chunk_elements;
  }
}

int bench_check_create(const bench_problem *problem, compute_shape shape, compute_dtype dtype,
                       double seconds, bench_check *check) {
  int64_t elements = 1;
  for (int32_t i = 0; i < shape.rank; i++) elements *= shape.size[i];
  int64_t chunk = shape.rank > 1 ? shape.size[shape.rank - 1] : elements < BLOCK ? elements : BLOCK;
  int64_t total = (elements + chunk - 1) / chunk;
  int64_t most = affordable(problem, elements, chunk, seconds);
  *check = (bench_check){.dtype = dtype, .chunk_elements = chunk};
  check->chunk_count = most < total ? most : total;
  size_t chunks = (size_t)check->chunk_count, values = chunks * (size_t)chunk;
  check->first = malloc(chunks * sizeof *check->first);
  check->count = malloc(chunks * sizeof *check->count);
  check->value = malloc(values * sizeof *check->value);
  check->scale = malloc(values * sizeof *check->scale);
  if (!check->first || !check->count || !check->value || !check->scale) {
    bench_check_release(check);
    return -1;
  }
  choose(check, elements, total);
  for (int64_t i = 0; i < check->chunk_count; i++)
    problem->operation->reference(problem, check->first[i], check->count[i],
                                  check->value + i * chunk, check->scale + i * chunk);
  return 0;
}

void bench_check_release(bench_check *check) {
  free(check->first);
  free(check->count);
  free(check->value);
  free(check->scale);
  *check = (bench_check){0};
}

double bench_check_error(const bench_check *check, const void *output, bool lenient) {
  double worst = 0, top = 0;
  double *result = malloc((size_t)check->chunk_elements * sizeof *result);
  if (!result) return NAN;
  for (int64_t i = 0; lenient && i < check->chunk_count; i++)
    for (int64_t j = 0; j < check->count[i]; j++)
      top = fmax(top, check->scale[i * check->chunk_elements + j]);
  for (int64_t i = 0; i < check->chunk_count && !isnan(worst); i++) {
    const double *value = check->value + i * check->chunk_elements;
    const double *scale = check->scale + i * check->chunk_elements;
    host_load(check->dtype, output, check->first[i], 1, check->count[i], result);
    for (int64_t j = 0; j < check->count[i]; j++) {
      if (result[j] == value[j]) continue;
      double error = fabs(result[j] - value[j]) / fmax(scale[j], 1e-3 * top);
      if (!(error <= worst)) worst = error; /* also true for NaN */
    }
  }
  free(result);
  return worst;
}
