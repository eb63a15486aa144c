/* SPDX-License-Identifier: MIT */
/* The distinct sources that the samples make in one dialect, for tests that compile them. */
#ifndef SUPPORT_SAMPLE_SOURCES_H
#define SUPPORT_SAMPLE_SOURCES_H

#include "support/samples/sample_kernels.h"

typedef struct sample_source {
  char name[160]; /* of the first sample that makes it */
  char *text;
  uint64_t hash;
  bool f64;              /* needs f64 */
  uint32_t vector_width; /* of CPUs: f32 elements in its vectors; 0: made for any device */
  int least_arch;        /* of CUDA: older architectures lack what it needs; 0: none does */
  int only_arch;         /* of CUDA: no other architecture has what it needs; 0: any */
} sample_source;

typedef struct sample_sources {
  sample_source *sources;
  size_t count, capacity;
  compute_dialect dialect;
  const char *part;
} sample_sources;

/* For all targets that a dialect is for and ways to cut a sample up, those too large to run
 * included. `part` restricts them to samples with it in their names. */
sample_sources sample_sources_create(compute_dialect dialect, const char *part);
void sample_sources_release(sample_sources *sources);

/* Calls `compile` in as many processes as there are processors, number `worker` of `workers`, and
 * adds up the failures that they return. A worker that returns −1 could not compile anything for
 * want of a compiler or device: then so does this. */
int sample_sources_in_parallel(const sample_sources *sources,
                               int (*compile)(const sample_sources *sources, int worker,
                                              int workers));

#endif
