/* SPDX-License-Identifier: MIT */
/* The distinct sources of all samples in one dialect, for tests that compile them. */
#ifndef SUPPORT_SAMPLE_SOURCES_H
#define SUPPORT_SAMPLE_SOURCES_H

#include "support/samples/sample_kernels.h"

typedef struct sample_source {
  char name[160]; /* name of the first sample with this source */
  char *text;
  uint64_t hash;
  bool f64;              /* needs f64 */
  uint32_t vector_width; /* for CPUs: number of f32 elements in a vector; 0: any device */
  int least_arch;        /* for CUDA: the oldest architecture with the needed features; 0: any */
  int only_arch;         /* for CUDA: the only architecture with the needed features; 0: any */
} sample_source;

typedef struct sample_sources {
  sample_source *sources;
  size_t count, capacity;
  compute_dialect dialect;
  const char *part;
} sample_sources;

/* Collects the sources for all targets of a dialect and all tunings, including the samples too
 * large to run. `part` selects samples with it in their names. */
sample_sources sample_sources_create(compute_dialect dialect, const char *part);
void sample_sources_release(sample_sources *sources);

/* Calls `compile` in one process per processor, as worker number `worker` of `workers`, and returns
 * the sum of their failures. A worker returns −1 if it has no compiler or device; then this
 * function returns −1. */
int sample_sources_in_parallel(const sample_sources *sources,
                               int (*compile)(const sample_sources *sources, int worker,
                                              int workers));

#endif
