/* SPDX-License-Identifier: MIT */
/* Where the numbers come from: everything about the machine that could change them. */
#ifndef BENCH_ENVIRONMENT_H
#define BENCH_ENVIRONMENT_H

#include <jansson.h>

#include "bench.h"

/* The processor's own name, in `text`. */
void environment_cpu_model(char *text, size_t text_bytes);

/* The environment object of the JSON file; NULL when memory is short. */
json_t *environment_json(const bench_session *session);

/* A few lines of it, on standard output. */
void environment_print(const bench_session *session);

/* The peers that were opened, on standard output. */
void environment_print_peers(const bench_session *session);

#endif
