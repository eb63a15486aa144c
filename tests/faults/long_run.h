/* SPDX-License-Identifier: MIT */
/* What a thread of the randomised run does with a plan, and the drivers that fail for it. Nothing
 * here ends a test: what is wrong is written down for the thread that may. */
#ifndef FAULTS_LONG_RUN_H
#define FAULTS_LONG_RUN_H

#include "support/samples/random_graph.h"

enum { RUN_FAILURE_BYTES = 512, RUN_ORDERS_BYTES = 64 };

typedef enum run_faults {
  FAULTS_NONE,
  FAULTS_MEMORY, /* of the host, and a small budget of the pool */
  FAULTS_DRIVER
} run_faults;

/* Some plans in one context, with one kind of fault. */
typedef struct run_round {
  run_faults faults;
  compute_context *context;
  compute_device *device, *cpu;
} run_round;

/* A plan to be, its inputs, and what the reference says of its two results. */
typedef struct run_sample {
  compute_dtype dtype;
  random_graph request;
  test_values operand[RANDOM_GRAPH_OPERANDS], expected[2];
} run_sample;

/* out[1] = -out[0]: what a second plan makes of the first one's result. */
typedef struct run_nodes {
  compute_node in[RANDOM_GRAPH_OPERANDS], out[2];
} run_nodes;

run_nodes run_build(const run_sample *sample, compute_graph *graph);

/* One sample in one of many ways, by its seed. From any thread. */
void run_task(const run_round *round, const run_sample *sample);

/* compute_run on the round's device without more ado, which has to succeed. */
void run_plainly(const run_round *round, const run_sample *sample);

typedef struct run_counts {
  int64_t right, refused; /* results */
} run_counts;

run_counts run_count(void);

/* Writes down what is wrong; the first stands. */
void run_wrong(const run_sample *sample, const char *format, ...) COMPUTE_PRINTF(2, 3);
bool run_has_failed(void);
bool run_failure(char text[RUN_FAILURE_BYTES]);

/* Batches, an iterator of their own for each call (long_run_batch.c). The status, how many items
 * are complete, and whether those are right. */
compute_status run_batch(const run_round *round, compute_fallback fallback, bool cancel,
                         int64_t *items, bool *right);
enum { RUN_BATCH_ITEMS = 50 };

/* ---- Drivers (long_run_driver.c), of the device under test --------------------------------- */

bool run_driver_open(void); /* before anything else; false if its stand-in is not there */
bool run_driver_present(void);
void run_driver_reset(void); /* before a context is opened */
void run_driver_arm(test_random *random, char text[RUN_ORDERS_BYTES]); /* what it shall do */
int64_t run_driver_disarm(void); /* how many calls have failed */
bool run_driver_is_clean(char text[RUN_FAILURE_BYTES]);

#endif
