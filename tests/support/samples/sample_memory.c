/* SPDX-License-Identifier: MIT */
#include "support/samples/sample_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/reference/kernel_reference.h"
#include "support/reference/program_reference.h"
#include "support/samples/sample_fits.h"

enum { PATTERN = 0xA5, SEED = 17 };

/* ---- Filling ------------------------------------------------------------------------------- */

static reference_value special_value(const sample_kernel *s, compute_dtype dtype, int64_t which) {
  static const double real[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
  static const int64_t wide[] = {INT64_MIN, INT64_MAX, 0, -1, 1};
  static const int64_t narrow[] = {INT32_MIN, INT32_MAX, 0, -1, 1};
  if (s->descriptor.kind == COMPUTE_KERNEL_ATTENTION) return (reference_value){.real = -INFINITY};
  return (reference_value){.real = real[which],
                           .whole = dtype == COMPUTE_I64 ? wide[which] : narrow[which]};
}

/* The operand that contains the special values. */
static uint32_t special_operand(const sample_kernel *s) {
  return s->descriptor.kind == COMPUTE_KERNEL_ATTENTION ? 3 : 0;
}

/* Draws an element of an input or output, in the type of the program. */
static reference_value draw(const sample_kernel *s, uint32_t operand, compute_dtype dtype,
                            test_random *random) {
  const bool indices = s->index_limit > 0 && operand == 1;
  const double limit = (double)s->index_limit;
  double value = test_random_uniform(random, indices ? -limit : s->low, indices ? limit : s->high);
  const bool special = s->special && operand == special_operand(s) && dtype != COMPUTE_BOOL &&
                       test_random_integer(random, 0, 3) == 0;
  if (special) return special_value(s, dtype, test_random_integer(random, 0, 4));
  if (!reference_is_float(dtype) || s->whole) value = floor(value);
  if (test_is_unsigned(dtype)) value = fabs(value);
  if (dtype == COMPUTE_BOOL) value = fmod(value, 2) != 0;
  return (reference_value){.real = value, .whole = reference_is_float(dtype) ? 0 : (int64_t)value};
}

static void fill(const sample_kernel *s, uint32_t index, sample_operand *o, size_t lead,
                 test_random *random) {
  const size_t size = compute_dtype_size(o->dtype);
  const compute_dtype type = reference_is_float(o->dtype) ? COMPUTE_F64 : COMPUTE_I64;
  for (int64_t e = 0; e < o->elements; e++)
    reference_store(o->dtype, o->before + lead + (size_t)e * size, type,
                    draw(s, index, o->dtype, random));
}

static bool create_operand(const sample_kernel *s, uint32_t index, bool shift, sample_operand *o,
                           test_random *random) {
  int64_t low, high;
  const bool some = sample_kernel_extent(s, index, &low, &high);
  o->dtype = sample_kernel_operand(s, index)->dtype;
  const size_t size = compute_dtype_size(o->dtype), lead = SAMPLE_GUARD + (shift ? size : 0);
  o->elements = some ? high - low + 1 : 0;
  o->offset = lead + (some ? (size_t)-low * size : 0);
  o->bytes = lead + (size_t)o->elements * size + SAMPLE_GUARD;
  o->before = malloc(o->bytes);
  o->expected = malloc(o->bytes);
  o->after = malloc(o->bytes);
  if (!o->before || !o->expected || !o->after) return false;
  memset(o->before, PATTERN, o->bytes);
  if (s->descriptor.kind != COMPUTE_KERNEL_FIT) fill(s, index, o, lead, random);
  return true;
}

bool sample_memory_create(const sample_kernel *sample, bool shift, sample_memory *memory) {
  test_random random = {.state = SEED};
  void *operands[COMPUTE_MAX_OPERANDS];
  *memory = (sample_memory){
      .sample = sample, .count = sample->descriptor.input_count + sample->descriptor.output_count};
  for (uint32_t i = 0; i < memory->count; i++) {
    if (!create_operand(sample, i, shift, &memory->operand[i], &random)) {
      sample_memory_release(memory);
      return false;
    }
    operands[i] = memory->operand[i].before + memory->operand[i].offset;
  }
  if (sample->descriptor.kind == COMPUTE_KERNEL_FIT) sample_fit_fill(sample, operands);
  for (uint32_t i = 0; i < memory->count; i++)
    memcpy(memory->operand[i].expected, memory->operand[i].before, memory->operand[i].bytes);
  return true;
}

void sample_memory_release(sample_memory *memory) {
  for (uint32_t i = 0; i < memory->count; i++) {
    free(memory->operand[i].before);
    free(memory->operand[i].expected);
    free(memory->operand[i].after);
  }
  *memory = (sample_memory){0};
}

bool sample_memory_expect(sample_memory *memory) {
  void *operands[COMPUTE_MAX_OPERANDS];
  if (memory->sample->descriptor.kind == COMPUTE_KERNEL_FIT) return true; /* see check_records */
  for (uint32_t i = 0; i < memory->count; i++)
    operands[i] = memory->operand[i].expected + memory->operand[i].offset;
  return kernel_reference(&memory->sample->descriptor, operands);
}

/* ---- Checking ------------------------------------------------------------------------------ */

/* Both sides have been rounded to storage; sums may have any order. */
static test_tolerance tolerance_of(const sample_kernel *s, compute_dtype dtype) {
  test_tolerance t = s->tolerance;
  if (dtype == COMPUTE_F16) t.rtol += 0x1p-10;
  if (dtype == COMPUTE_BF16) t.rtol += 0x1p-7;
  return t;
}

static const char *side(const sample_memory *m, uint32_t operand, uint32_t *number) {
  const uint32_t inputs = m->sample->descriptor.input_count;
  *number = operand < inputs ? operand : operand - inputs;
  return operand < inputs ? "input" : "output";
}

/* Returns true if the bytes from `from` to `to` are unchanged. */
static bool check_guard(const sample_memory *m, uint32_t operand, size_t from, size_t to,
                        char *problem, size_t bytes) {
  const sample_operand *o = &m->operand[operand];
  uint32_t number;
  const char *what = side(m, operand, &number);
  for (size_t i = from; i < to; i++) {
    if (o->after[i] == o->expected[i]) continue;
    snprintf(problem, bytes,
             "%s %u was written to outside its elements, at byte %lld from its first", what, number,
             (long long)i - (long long)o->offset);
    return false;
  }
  return true;
}

static bool check_element(const sample_memory *m, uint32_t operand, int64_t e, size_t lead,
                          char *problem, size_t bytes) {
  const sample_operand *o = &m->operand[operand];
  const test_tolerance tolerance = tolerance_of(m->sample, o->dtype);
  const size_t size = compute_dtype_size(o->dtype), at = lead + (size_t)e * size;
  const bool real = reference_is_float(o->dtype);
  uint32_t number;
  const char *what = side(m, operand, &number);
  if (!memcmp(o->after + at, o->expected + at, size)) return true;
  const reference_value a = reference_load(o->dtype, o->after + at);
  const reference_value b = reference_load(o->dtype, o->expected + at);
  const bool input = operand < m->sample->descriptor.input_count;
  if (input) {
    snprintf(problem, bytes, "%s %u was written to, at element %lld", what, number, (long long)e);
    return false;
  }
  if (!real) {
    snprintf(problem, bytes, "%s %u, element %lld of %lld is %lld, not %lld", what, number,
             (long long)e, (long long)o->elements, (long long)a.whole, (long long)b.whole);
    return false;
  }
  if (test_close_enough(o->dtype, a.real, b.real, &tolerance, NULL)) return true;
  snprintf(problem, bytes, "%s %u, element %lld of %lld is %.9g, not %.9g", what, number,
           (long long)e, (long long)o->elements, a.real, b.real);
  return false;
}

/* sample_fit_check checks the records; afterwards they count as expected. */
static bool check_records(const sample_memory *m, char *problem, size_t bytes) {
  const sample_kernel *s = m->sample;
  const sample_operand *records = &m->operand[m->count - 1];
  const compute_operand *out = &s->outputs[0];
  const void *operands[COMPUTE_MAX_OPERANDS];
  int64_t size[3];
  for (uint32_t i = 0; i < m->count; i++) operands[i] = m->operand[i].before + m->operand[i].offset;
  const float *first = (const float *)(const void *)(records->after + records->offset);
  if (!sample_fit_check(s, operands, first, problem, bytes)) return false;
  sample_fit_sizes(&s->descriptor, m->count - 1, size);
  for (int64_t i = 0; i < size[0] * size[1]; i++) {
    const int64_t at = i / size[1] * out->stride[0] + i % size[1] * out->stride[1];
    memcpy(records->expected + records->offset + 4 * at, records->after + records->offset + 4 * at,
           4);
  }
  return true;
}

bool sample_memory_check(const sample_memory *m, char *problem, size_t bytes) {
  if (m->sample->descriptor.kind == COMPUTE_KERNEL_FIT && !check_records(m, problem, bytes))
    return false;
  for (uint32_t i = 0; i < m->count; i++) {
    const sample_operand *o = &m->operand[i];
    const size_t size = compute_dtype_size(o->dtype);
    const size_t used = (size_t)o->elements * size, lead = o->bytes - SAMPLE_GUARD - used;
    if (!check_guard(m, i, 0, lead, problem, bytes) ||
        !check_guard(m, i, lead + used, o->bytes, problem, bytes))
      return false;
    for (int64_t e = 0; e < o->elements; e++)
      if (!check_element(m, i, e, lead, problem, bytes)) return false;
  }
  return true;
}
