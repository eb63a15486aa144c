/* SPDX-License-Identifier: MIT */
/* The common parts of the suite "group": timing calls that all ranks make together, and a model of
 * their cost with more ranks. */
#ifndef BENCH_GROUP_H
#define BENCH_GROUP_H

#include "bench.h"
#include "measure.h"

/* ---- group.c ------------------------------------------------------------------------------- */

/* Opens the session's group. Ranks other than 0 write nothing from then on. */
compute_status bench_group_open(bench_session *session);
void bench_group_close(bench_session *session);

/* Collective: times `count` runners in turn, about `seconds` for each. Rank 0 chooses the number of
 * calls for all ranks. The samples are this rank's. */
compute_status bench_group_measure(bench_session *session, bench_runner *runners, int count,
                                   double seconds);

/* Seconds of an all-reduce of f32. */
compute_status bench_group_time_all_reduce(bench_session *session, int64_t bytes, double *seconds);

/* ---- group_steps.c ------------------------------------------------------------------------- */

/* The items of a step: of each rank, or of all together. */
enum { BENCH_GROUP_WEAK, BENCH_GROUP_STRONG };

void bench_group_run_step(bench_session *session, const char *suite, const bench_case *c);
void bench_group_run_scaling(bench_session *session, const char *suite, const bench_case *c);

/* ---- group_model.c ------------------------------------------------------------------------- */

/* One operation of a transport takes latency + message · (ranks − 1) + bytes / bandwidth, with the
 * bytes that a rank receives. */
typedef struct bench_link {
  double latency, message; /* seconds */
  double bandwidth;        /* bytes per second */
} bench_link;

/* The link that explains the times of two all-reduces over this number of ranks. */
bench_link bench_link_fit(int32_t ranks, double small_bytes, double small_seconds,
                          double large_bytes, double large_seconds);

/* As src/group/collective.c does it. */
double bench_model_all_reduce(const bench_link *link, int32_t ranks, double bytes);

enum { BENCH_MOST_BUCKETS = 64 };

/* The parts of a step: computing, and gradients in buckets, which are ready one by one. */
typedef struct bench_model_network {
  double fixed, item; /* seconds of a step without communication: fixed + item · items */
  double bucket_bytes[BENCH_MOST_BUCKETS];
  int bucket_count;
} bench_model_network;

/* Seconds of a step with `items` items on each rank. */
double bench_model_step(const bench_link *link, const bench_model_network *network, int32_t ranks,
                        double items, bool overlapped);

#endif
