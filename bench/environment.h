/* SPDX-License-Identifier: MIT */
/* Everything about the machine and its software that could affect the numbers. */
#ifndef BENCH_ENVIRONMENT_H
#define BENCH_ENVIRONMENT_H

#include <jansson.h>

#include "bench.h"

/* The name that the processor reports, in `text`. */
void environment_cpu_model(char *text, size_t text_bytes);

/* The environment object of the JSON file; NULL when out of memory. */
json_t *environment_json(const bench_session *session);

/* Prints a few lines of it. */
void environment_print(const bench_session *session);

/* Prints the peers that were opened. */
void environment_print_peers(const bench_session *session);

#endif
