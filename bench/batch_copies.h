/* SPDX-License-Identifier: MIT */
/* Cases of the suite "batch" that are bound by the copies between host and device. */
#ifndef BENCH_BATCH_COPIES_H
#define BENCH_BATCH_COPIES_H

#include "bench.h"

/* operation: "upload" sums each item, "both" returns a result as large as the item; size[0]: 1 for
 * page-locked arrays; size[1]: MiB of the array. */
void batch_copies_run(bench_session *session, const char *suite, const bench_case *c);

#endif
