/* SPDX-License-Identifier: MIT */
/* The memory of training, compared with the plan's figure. */
#ifndef BENCH_NETWORK_MEMORY_H
#define BENCH_NETWORK_MEMORY_H

#include "bench.h"

/* size: network, batch, steps (a tenth of them in a quick run). */
void network_memory_run(bench_session *session, const char *suite, const bench_case *c);

#endif
