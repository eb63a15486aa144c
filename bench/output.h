/* SPDX-License-Identifier: MIT */
/* Records as a table and as JSON. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include "bench.h"

/* Detects the width of standard output, and whether it has colours. */
void output_begin(bench_session *session);

/* Prints words, wrapped to the width; lines after the first are indented. */
void output_wrapped(const bench_session *session, int indent, const char *format, ...)
    COMPUTE_PRINTF(3, 4);

/* The heading of a suite's table. */
void output_heading(const bench_session *session, const bench_suite *suite);

/* One line for the records of one case (several if there were several peers). */
void output_case(const bench_session *session, const bench_record *records, size_t count);

/* Prints how many cases are wrong and how many missed their goals; then these, one line each,
 * failures last. Returns the number of failures, including misses with --strict. */
size_t output_summary(const bench_session *session);

/* Writes {"environment": …, "records": […]}. Returns 0, or -1 with errno set. */
int output_json(const bench_session *session, const char *path);

#endif
