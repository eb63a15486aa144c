/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the batch iterator: items of one row, a function of them with two outputs,
 * and sources and sinks that check their calls. */
#ifndef BATCH_ROWS_H
#define BATCH_ROWS_H

#include <stdatomic.h>

#include "support/harness/test.h"

enum { ROWS_WIDTH = 5, ROWS_ITEMS = 1003 };

/* The items, and the function's results for all of them in one run. */
extern float rows_data[ROWS_ITEMS * ROWS_WIDTH];
extern float rows_wanted[ROWS_ITEMS * ROWS_WIDTH], rows_wanted_sum[ROWS_ITEMS];

/* One row of f32. */
extern const compute_batch_port rows_port[1];

/* Opens the context and fills the arrays: for cmocka_run_group_tests. */
int rows_open_group(void **state);

void rows_pause(double milliseconds);

/* y = exp(-x²) · weights, and its sum over each item; `parameter` holds the weights. */
compute_batch_options rows_two_outputs(compute_tensor *parameter);
compute_tensor *rows_make_weights(void);

/* Another thread that cancels during the read of item 100, whatever the timing. */
typedef struct rows_canceller {
  compute_batch *batch;
  atomic_bool reached, cancelled;
} rows_canceller;

typedef struct rows_stream {
  int64_t next;          /* calls must be in order */
  int64_t fail_at;       /* item; negative: never */
  int64_t end;           /* items of a source */
  compute_status status; /* of the failure */
  double delay;          /* maximum, in milliseconds */
  unsigned seed;
  bool wrong;
  compute_batch *cancel; /* at fail_at, instead of failing */
  rows_canceller *canceller;
} rows_stream;

/* A source of rows_data and a sink that expects rows_wanted; `user` is a rows_stream. */
compute_status rows_read(void *user, int64_t first, int64_t items, void *to, int64_t *count);
compute_status rows_check(void *user, int64_t first, int64_t items, const void *from);

/* An iterator of rows_two_outputs between the source and the sink. Closing it checks that neither
 * saw an error. */
typedef struct rows_setting {
  compute_batch *batch;
  compute_tensor *parameter;
  rows_stream source, sink;
} rows_setting;

void rows_setting_open(rows_setting *t, int64_t batch, uint32_t slots);
void rows_setting_close(rows_setting *t);
compute_status rows_setting_run(rows_setting *t, int64_t items, compute_batch_result *result);

#endif
