/* SPDX-License-Identifier: MIT */
/* Plans of Fourier transforms of one length: passes and their factors. */
#ifndef CPU_FOURIER_FOURIER_H
#define CPU_FOURIER_FOURIER_H

#include "core/cpu.h"
#include "fourier/isa/fourier_table.h"

/* The length alone decides how a transform is made, so the bits do not depend on its neighbours. */
typedef enum cpu_fourier_way {
  CPU_FOURIER_PASSES_ONLY, /* passes over all points */
  CPU_FOURIER_SPLIT,       /* `lanes` interleaved transforms, then a pass that joins them */
  CPU_FOURIER_SQUARE,      /* columns, factors, rows: for lengths beyond the caches */
  CPU_FOURIER_CONVOLUTION  /* Bluestein's: a convolution with a chirp, of a smooth length */
} cpu_fourier_way;

typedef struct cpu_fourier_plan {
  const cpu_fourier_loops *loops;
  compute_dtype dtype; /* F32 or F64 */
  int64_t length;
  cpu_fourier_way way;
  bool shared;                     /* a line is long enough for all threads */
  cpu_fourier_steps first, second; /* SQUARE: columns of first.length points, rows of the second */
  void *factors;                   /* SPLIT: of join and finish; SQUARE: columns of turn */
  void *rows;                      /* SQUARE: rows of turn */
  void *chirp, *spectrum;          /* CONVOLUTION */
} cpu_fourier_plan;

/* exp(−2πi k / n) for 0 ≤ k < n < 2^59, to half a unit in the last place of a double. */
void cpu_fourier_root(int64_t k, int64_t n, double root[2]);

/* A table of complex numbers: writes number `at`. */
void cpu_fourier_set(void *table, compute_dtype dtype, int64_t at, const double number[2]);

/* True if the length has small factors only. The least such length ≥ n that the lanes divide. */
bool cpu_fourier_is_smooth(int64_t n);
int64_t cpu_fourier_smooth_length(int64_t n, int32_t lanes);

/* Plans any way but CONVOLUTION. Returns false when out of memory. A zeroed plan can be cleared. */
bool cpu_fourier_plan_smooth(cpu_device *device, compute_dtype dtype, int64_t length,
                             cpu_fourier_plan *plan);
void cpu_fourier_plan_clear(cpu_device *device, cpu_fourier_plan *plan);

/* Bytes of a block, and the blocks that a worker needs. */
uint64_t cpu_fourier_block_bytes(const cpu_fourier_plan *plan);
uint64_t cpu_fourier_block_count(const cpu_fourier_plan *plan);

/* A transform of contiguous complex numbers, in another place. Parts of the source and the result
 * may be swapped. */
typedef struct cpu_fourier_line {
  const cpu_fourier_plan *plan;
  const void *source;
  void *result;
  bool swapped_source, swapped;
  double scale;
  void *square;          /* SQUARE: memory for `length` complex numbers */
  unsigned char *blocks; /* the blocks of each worker, block_bytes apart */
  uint64_t block_bytes;
} cpu_fourier_line;

/* A shared plan uses all threads of the device. Others use the blocks of `worker` only. */
void cpu_fourier_transform(cpu_device *device, const cpu_fourier_line *line, int32_t worker);

#endif
