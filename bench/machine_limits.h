/* SPDX-License-Identifier: MIT */
/* What the machine can do at best, measured: the yardsticks of every table and chart. */
#ifndef BENCH_MACHINE_LIMITS_H
#define BENCH_MACHINE_LIMITS_H

typedef struct bench_limits {
  int threads;
  const char *isa;                /* of the loops below: "avx512", "avx2", "generic" */
  double fma_f32, fma_f64;        /* GFLOP/s of all threads, multiply-adds on registers */
  double stream_copy, stream_add; /* GB/s of all threads, read + written, stores past the cache */
} bench_limits;

/* Measures with so many threads; takes about a second and three quarters of a GiB. A figure that
 * could not be measured is 0. */
bench_limits bench_limits_measure(int threads);

/* Measures once more and keeps the better of each figure: what the machine did at its best. */
void bench_limits_raise(bench_limits *limits);

#endif
