/* SPDX-License-Identifier: MIT */
/* From the start of a process to its first result, with empty and with filled caches on disk. */
#ifndef BENCH_FIRST_RESULT_H
#define BENCH_FIRST_RESULT_H

#include "bench.h"

/* The work of the measured process (compute-bench --first-result): opens a context, compiles and
 * runs a small graph on `device`, reads the result back and prints the milliseconds since the call.
 * Returns the exit status. */
int first_result_main(const char *device);

/* Cases first_result_cold and first_result_warm, by size[0]: 0 and 1. */
void first_result_run(bench_session *session, const char *suite, const bench_case *c);

#endif
