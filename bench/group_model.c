/* SPDX-License-Identifier: MIT */
/* The cost of a step with any number of ranks. The sequence of operations is the library's; each
 * takes the time of a link with a latency and a bandwidth. */
#include <math.h>

#include "group.h"

/* Figures of src/group/: the bytes that ranks exchange before a call, the largest all-reduce that
 * is one operation, the most bytes of one operation; and the bytes of a batch's outcome. */
static const double call_bytes = 32, small_bytes = 65536, piece_bytes = 4 << 20, outcome_bytes = 24;

/* Of the sender's processor, for each message. Assumed, because two ranks cannot show it. */
static const double message_seconds = 1e-6;

static double operation(const bench_link *link, int32_t ranks, double bytes) {
  return link->latency + link->message * (ranks - 1) + bytes / link->bandwidth;
}

/* Every rank has something for all others. */
static double gather(const bench_link *link, int32_t ranks, double own_bytes) {
  return operation(link, ranks, own_bytes * (ranks - 1));
}

double bench_model_all_reduce(const bench_link *link, int32_t ranks, double bytes) {
  double seconds = gather(link, ranks, call_bytes);
  if (ranks == 1) return 0;
  if (bytes * ranks <= small_bytes) return seconds + gather(link, ranks, bytes);
  for (double left = bytes; left > 0; left -= piece_bytes)
    seconds += 2 * gather(link, ranks, fmin(left, piece_bytes) / ranks);
  return seconds;
}

bench_link bench_link_fit(int32_t ranks, double few, double few_seconds, double many,
                          double many_seconds) {
  bench_link link = {.message = message_seconds, .bandwidth = INFINITY};
  const double rest = few_seconds - bench_model_all_reduce(&link, ranks, few);
  link.latency = fmax(rest / 2, 0);
  const double share = 2 * many * (ranks - 1) / ranks;
  link.bandwidth = share / fmax(many_seconds - bench_model_all_reduce(&link, ranks, many), 1e-9);
  return link;
}

/* A third of the time without communication is the forward pass. In the rest, buckets become ready
 * at equal distances, and are reduced in sequence. The ranks then exchange the outcome of the
 * batch. */
double bench_model_step(const bench_link *link, const bench_model_network *network, int32_t ranks,
                        double items, bool overlapped) {
  const double work = network->fixed + network->item * items;
  double now = overlapped ? 0 : work;
  if (ranks == 1) return work;
  for (int b = 0; b < network->bucket_count; b++) {
    const double ready = work * (1 + 2.0 * (b + 1) / network->bucket_count) / 3;
    now = fmax(now, ready) + bench_model_all_reduce(link, ranks, network->bucket_bytes[b]);
  }
  return fmax(now, work) + gather(link, ranks, call_bytes) + gather(link, ranks, outcome_bytes);
}
