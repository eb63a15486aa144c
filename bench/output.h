/* Records as a table and as JSON. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include "bench.h"

/* The heading of a suite's table. */
void output_heading(const bench_suite *suite);

/* One line for the records of one case (several if there were several peers). */
void output_case(const bench_session *session, const bench_record *records, size_t count);

/* How many cases are wrong and how many missed their goals; then these, one line each, failures
 * last. Returns the number of failures, to which misses belong with --strict. */
size_t output_summary(const bench_session *session);

/* Writes {"environment": …, "records": […]}. Returns 0, or -1 with errno set. */
int output_json(const bench_session *session, const char *path);

#endif
