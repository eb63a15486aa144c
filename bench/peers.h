/* SPDX-License-Identifier: MIT */
/* The peers that were found (see peer.h). */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench.h"
#include "peer.h"

/* Sets the variables that keep the peers' threads from spinning long after their work, unless the
 * user has set them. Must run before any library that reads them is loaded. */
void bench_peers_prepare(void);

/* One variable of bench_peers_prepare. */
typedef struct bench_peer_variable {
  const char *name, *value;
  bool set_here; /* not by the user */
} bench_peer_variable;

/* The variable at `index`, or NULL past the end. */
const bench_peer_variable *bench_peer_variable_at(size_t index);

/* Opens the installed peers in the list `wanted` (NULL: all; "none"). One that does not load is
 * noted in the session. NULL only when out of memory. */
bench_peer_list *bench_peers_open(bench_session *session, const char *wanted);
void bench_peers_close(bench_peer_list *list);

/* The peer at `index`, or NULL past the end. The list may be NULL. */
const bench_peer *bench_peer_at(const bench_peer_list *list, size_t index);

#endif
