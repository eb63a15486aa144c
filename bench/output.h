/* SPDX-License-Identifier: MIT */
/* Records as a table and as JSON. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include "bench.h"

/* Finds out what standard output is: how wide, whether in colours. */
void output_begin(bench_session *session);

/* Words with a line break where the next one would not fit; lines after the first are indented. */
void output_wrapped(const bench_session *session, int indent, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* The heading of a suite's table. */
void output_heading(const bench_session *session, const bench_suite *suite);

/* One line for the records of one case (several if there were several peers). */
void output_case(const bench_session *session, const bench_record *records, size_t count);

/* How many cases are wrong and how many missed their goals; then these, one line each, failures
 * last. Returns the number of failures, to which misses belong with --strict. */
size_t output_summary(const bench_session *session);

/* Writes {"environment": …, "records": […]}. Returns 0, or -1 with errno set. */
int output_json(const bench_session *session, const char *path);

#endif
