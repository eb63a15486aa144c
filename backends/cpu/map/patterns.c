/* SPDX-License-Identifier: MIT */
#include "map/patterns.h"

#include <string.h>

/* The least number of repetitions, and the length from which lines are not short. */
enum { LEAST_REPEATS = 8, LONG_LINE = 128 };

/* Dimension of the first step that is not 0; the rank if all are. */
static int32_t first_step(const cpu_nest *nest, int32_t k) {
  int32_t d = 0;
  while (d < nest->rank && nest->stride[k][d] == 0) d++;
  return d;
}

static bool is_contiguous(const cpu_nest *nest, int32_t k) {
  for (int32_t d = nest->rank - 1, inner = d; d >= 0; inner = d--)
    if (nest->stride[k][d] != (d == inner ? 1 : nest->stride[k][inner] * nest->size[inner]))
      return false;
  return true;
}

/* Lists the inputs that are neither contiguous nor one element. Returns the first dimension along
 * which one of them does not repeat; 0 if there are none, or too many, or an output. */
static int32_t list_inputs(const cpu_nest *nest, int32_t inputs, int32_t outputs,
                           cpu_patterns *patterns) {
  int32_t first = nest->rank;
  patterns->count = 0;
  for (int32_t k = 0; k < inputs + outputs; k++) {
    const int32_t step = first_step(nest, k);
    if (is_contiguous(nest, k) || (k < inputs && step == nest->rank)) continue;
    if (k >= inputs || patterns->count == CPU_MOST_PATTERNS) return 0;
    patterns->input[patterns->count++] = k;
    if (step < first) first = step;
  }
  return patterns->count > 0 ? first : 0;
}

/* All dimensions before `first` become one, and the others one. */
static void flatten(cpu_nest *nest, int32_t first, int64_t repeats, int64_t elements,
                    cpu_patterns *patterns) {
  cpu_nest flat = {.rank = 2, .operands = nest->operands, .size = {repeats, elements}};
  flat.origin[0] = flat.origin[1] = -1;
  for (int32_t k = 0; k < nest->operands; k++) {
    const bool one = first_step(nest, k) == nest->rank;
    flat.stride[k][1] = !one;
    flat.stride[k][0] = one ? 0 : elements;
  }
  for (int32_t i = 0; i < patterns->count; i++) flat.stride[patterns->input[i]][0] = 0;
  patterns->nest = (cpu_nest){.rank = 0, .operands = nest->operands};
  for (int32_t d = first; d < nest->rank; d++) cpu_nest_append(nest, d, &patterns->nest);
  *nest = flat;
}

void cpu_patterns_find(cpu_nest *nest, int32_t inputs, int32_t outputs, cpu_patterns *patterns) {
  int64_t repeats, elements = 1;
  const int32_t first = list_inputs(nest, inputs, outputs, patterns);
  bool pays = first > 0 && nest->rank > 2 && cpu_nest_length(nest) < LONG_LINE &&
              cpu_nest_count(nest, first, &repeats) && repeats >= LEAST_REPEATS;
  for (int32_t d = first; pays && d < nest->rank; d++) {
    pays = nest->size[d] <= CPU_PATTERN_ELEMENTS / elements;
    elements *= nest->size[d];
  }
  if (pays)
    flatten(nest, first, repeats, elements, patterns);
  else
    patterns->count = 0;
}

void cpu_pattern_write(const cpu_patterns *patterns, int32_t k, int64_t bytes,
                       const unsigned char *from, unsigned char *to) {
  const cpu_nest *nest = &patterns->nest;
  const int32_t last = cpu_nest_last(nest);
  const int64_t step = cpu_nest_step(nest, k) * bytes;
  int64_t lines;
  cpu_walk walk;
  (void)cpu_nest_count(nest, last, &lines);
  cpu_walk_start(nest, last, 0, &walk);
  for (; lines > 0; lines--, cpu_walk_next(nest, last, &walk)) {
    const unsigned char *at = from + walk.offset[k] * bytes;
    for (int64_t i = 0; i < cpu_nest_length(nest); i++, to += bytes)
      memcpy(to, at + i * step, (size_t)bytes);
  }
}
