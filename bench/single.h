/* SPDX-License-Identifier: MIT */
/* Cases without a peer: one call, measured alone. */
#ifndef BENCH_SINGLE_H
#define BENCH_SINGLE_H

#include "bench.h"

/* One call; libcompute's status. */
typedef compute_status (*bench_call)(void *state);

typedef struct bench_single {
  bench_call call;
  void *state;
  double per;   /* operations per call: the record's ms is for one of them; 0: 1 */
  double bytes; /* moved by one call, for GB/s; 0: not stated */
} bench_single;

/* Measures and adds the record, whose result has already been checked; a failing call fails the
 * record. */
void bench_run_single(bench_session *session, bench_record *record, const bench_single *single);

#endif
