/* SPDX-License-Identifier: MIT */
/* Operands that repeat over the outer dimensions of a map, for example one factor for each row of
 * every matrix. Their inner dimensions are written as one line first, so that short lines become
 * long ones. */
#ifndef CPU_MAP_PATTERNS_H
#define CPU_MAP_PATTERNS_H

#include "core/nest.h"

enum { CPU_MOST_PATTERNS = 3, CPU_PATTERN_ELEMENTS = 2048 /* most of a line */ };

typedef struct cpu_patterns {
  int32_t count;
  int32_t input[CPU_MOST_PATTERNS];
  cpu_nest nest; /* of the inner dimensions */
} cpu_patterns;

/* Finds the patterns of a map without positions. If they pay, the nest becomes [repetitions,
 * elements of a pattern], and patterns are contiguous in it; otherwise their count is 0. */
void cpu_patterns_find(cpu_nest *nest, int32_t inputs, int32_t outputs, cpu_patterns *patterns);

/* Writes the line of input k, whose elements have `bytes` bytes. */
void cpu_pattern_write(const cpu_patterns *patterns, int32_t k, int64_t bytes,
                       const unsigned char *from, unsigned char *to);

#endif
