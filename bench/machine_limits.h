/* SPDX-License-Identifier: MIT */
/* The machine's measured limits: the reference for every table and chart. */
#ifndef BENCH_MACHINE_LIMITS_H
#define BENCH_MACHINE_LIMITS_H

typedef struct bench_limits {
  int threads;
  const char *isa;                /* of the loops: "avx512", "avx2", "generic" */
  double fma_f32, fma_f64;        /* GFLOP/s of all threads, multiply-adds on registers */
  double stream_copy, stream_add; /* GB/s of all threads, read + written, non-temporal stores */
} bench_limits;

/* Measures with `threads` threads; takes about a second and 0.75 GiB. A figure that could not be
 * measured is 0. */
bench_limits bench_limits_measure(int threads);

/* Measures again and keeps the better of each figure. */
void bench_limits_raise(bench_limits *limits);

#endif
