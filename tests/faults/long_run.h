/* SPDX-License-Identifier: MIT */
/* One thread's work with a plan in the randomised run, and the failing drivers. Nothing here ends a
 * test: errors are recorded for the thread that may. */
#ifndef FAULTS_LONG_RUN_H
#define FAULTS_LONG_RUN_H

#include "support/samples/random_graph.h"

enum { RUN_FAILURE_BYTES = 512, RUN_ORDERS_BYTES = 64 };

typedef enum run_faults {
  FAULTS_NONE,
  FAULTS_MEMORY, /* host memory, and a small budget of the pool */
  FAULTS_DRIVER
} run_faults;

/* Some plans in one context, with one kind of fault. */
typedef struct run_round {
  run_faults faults;
  compute_context *context;
  compute_device *device, *cpu;
} run_round;

/* A plan's description, its inputs, and the reference of its two results. */
typedef struct run_sample {
  compute_dtype dtype;
  random_graph request;
  test_values operand[RANDOM_GRAPH_OPERANDS], expected[2];
} run_sample;

/* out[1] = -out[0]: a second plan computes it from the first plan's result. */
typedef struct run_nodes {
  compute_node in[RANDOM_GRAPH_OPERANDS], out[2];
} run_nodes;

run_nodes run_build(const run_sample *sample, compute_graph *graph);

/* Runs one sample in one of many ways, chosen by its seed. Any thread may call it. */
void run_task(const run_round *round, const run_sample *sample);

/* Calls compute_run on the round's device, which must succeed. */
void run_plainly(const run_round *round, const run_sample *sample);

typedef struct run_counts {
  int64_t right, refused; /* results */
} run_counts;

run_counts run_count(void);

/* Records an error; the first one is kept. */
void run_wrong(const run_sample *sample, const char *format, ...) COMPUTE_PRINTF(2, 3);
bool run_has_failed(void);
bool run_failure(char text[RUN_FAILURE_BYTES]);

/* Runs batches with a new iterator for each call (long_run_batch.c). Returns the status and sets
 * the number of complete items; `right` is true if these are right. */
compute_status run_batch(const run_round *round, compute_fallback fallback, bool cancel,
                         int64_t *items, bool *right);
enum { RUN_BATCH_ITEMS = 50 };

/* ---- Drivers (long_run_driver.c), of the device under test --------------------------------- */

bool run_driver_open(void); /* before anything else; false if there is no stand-in */
bool run_driver_present(void);
void run_driver_reset(void); /* before a context is opened */
void run_driver_arm(test_random *random, char text[RUN_ORDERS_BYTES]); /* orders failures */
int64_t run_driver_disarm(void); /* number of calls that failed */
bool run_driver_is_clean(char text[RUN_FAILURE_BYTES]);

#endif
