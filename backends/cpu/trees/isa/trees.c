/* SPDX-License-Identifier: MIT */
/* Loops for TREES, once per instruction set (core/isa.h) and element type.
 *
 * Eight rows walk one tree together, so that their reads overlap. Records near the root are few:
 * all of them are compared with vectors of rows, without reads that depend on results. Below, each
 * row reads its own record. Gathers of AVX2 take longer than these reads. For a single row, sixteen
 * trees walk together: their records may come from far caches. */
#include "trees_table.h"

#include <string.h>

#include "program/isa/element.h"

enum {
  LANES = 8,          /* rows that walk together */
  TOGETHER = 16,      /* trees of a single row */
  LEVELS = 4,         /* compared with vectors */
  NEAR = 1 << LEVELS, /* places below these levels */
  SPAN = 4            /* steps between looking for rows that still move */
};

/* Vectors of LANES elements, perhaps unaligned, and of their tests. */
#if defined(CPU_VARIANT_F32)
typedef int32_t test_element;
#else
typedef int64_t test_element;
#endif
typedef ELEMENT lanes
    __attribute__((vector_size(LANES * sizeof(ELEMENT)), aligned(sizeof(ELEMENT))));
typedef test_element tests
    __attribute__((vector_size(LANES * sizeof(test_element)), aligned(sizeof(test_element))));

#define EITHER(test, yes, no) (((yes) & (test)) | ((no) & ~(test)))

/* The values of a tree's leaves, and where they go. */
typedef struct leaves {
  const ELEMENT *values;
  int64_t target, targets, step; /* of results, between targets */
  compute_combine combine;
} leaves;

ALWAYS_INLINE void combine_one(compute_combine combine, double value, double *result) {
  if (combine == COMPUTE_COMBINE_SUM)
    *result += value;
  else if (combine == COMPUTE_COMBINE_MIN ? value < *result || *result != *result
                                          : value > *result || *result != *result)
    *result = value;
}

/* Not inline: leaves with all targets are rare. */
static void combine_all(const leaves *to, uint32_t leaf, double *results) {
  const ELEMENT *values = to->values + (int64_t)leaf * to->targets;
  for (int64_t k = 0; k < to->targets; k++)
    combine_one(to->combine, values[k], results + k * to->step);
}

static leaves leaves_of(const cpu_trees *trees, const int64_t *head, int64_t step) {
  return (leaves){(const ELEMENT *)trees->values + head[3], head[2], trees->targets, step,
                  trees->combine};
}

ALWAYS_INLINE void finish(const leaves *to, uint32_t leaf, double *results) {
  if (to->target < 0)
    combine_all(to, leaf, results);
  else
    combine_one(to->combine, to->values[leaf], results + to->target * to->step);
}

#if defined(CPU_VARIANT_F32)

typedef struct narrow_record {
  float threshold;
  uint16_t column, left;
} narrow_record;

#define FORM(name) CPU_PASTE(narrow, name)
#define RECORD     narrow_record
#define NUMBER(r)  (narrow_number(r))

static inline uint32_t narrow_number(const narrow_record *r) {
  uint32_t bits;
  memcpy(&bits, &r->threshold, sizeof bits);
  return bits & UINT32_C(0x3fffff);
}

#include "trees_walk.h"

#undef FORM
#undef RECORD
#undef NUMBER
#endif

typedef struct wide_record {
  double threshold;
  uint32_t column, left;
} wide_record;

#define FORM(name) CPU_PASTE(wide, name)
#define RECORD     wide_record
#define NUMBER(r)  (wide_number(r))

static inline uint32_t wide_number(const wide_record *r) {
  uint64_t bits;
  memcpy(&bits, &r->threshold, sizeof bits);
  return (uint32_t)bits;
}

#include "trees_walk.h"

const cpu_trees_loops CPU_VARIANT_SYMBOL(cpu_trees) = {
#if defined(CPU_VARIANT_F32)
    .block = narrow_block,
    .row = narrow_row,
#endif
    .wide_block = wide_block,
    .wide_row = wide_row};
