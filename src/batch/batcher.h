/* SPDX-License-Identifier: MIT */
/* Internals of a batcher.
 *
 * Requests wait in one queue, in the order of their arrival. Each device has a thread (batcher_work)
 * that takes requests from it, copies their inputs to the device's tensors, runs the iterator's work
 * and copies the results back. One mutex guards everything but those copies and runs.
 *
 * A request's memory may be freed as soon as the request has ended. So it ends at once while it
 * waits or while its run computes, and is then left out when results are copied. While its own
 * memory is being copied, it only notes how it shall end. */
#ifndef BATCH_BATCHER_H
#define BATCH_BATCHER_H

#include <pthread.h>

#include "batch/batch.h"
#include "compute/batcher.h"

typedef enum request_state {
  REQUEST_WAITING, /* in the queue */
  REQUEST_FILLING, /* its inputs are being copied */
  REQUEST_RUNNING,
  REQUEST_COPYING, /* its results are being copied */
  REQUEST_ENDING,  /* its callback is being called */
  REQUEST_DONE
} request_state;

struct compute_batcher_request {
  compute_batcher *batcher;
  compute_batcher_request *next, *previous; /* in the queue */
  uint32_t references; /* the caller's, one until the end, one while a thread has it in its run */
  request_state state;
  compute_status wanted; /* how a request that is being filled shall end, or COMPUTE_OK */
  compute_status status;
  compute_error error;
  int64_t arrived, deadline; /* clock_now; 0: no deadline */
  compute_batcher_function done;
  void *user;
  pthread_cond_t changed;
  const void *inputs[COMPUTE_BATCH_MAX_PORTS];
  void *outputs[COMPUTE_BATCH_MAX_PORTS];
};

/* The tensors of one run on a device, with room for the most items. */
typedef struct batcher_cell {
  batch_work *work; /* NULL: not opened */
  compute_tensor *inputs[COMPUTE_BATCH_MAX_PORTS], *outputs[COMPUTE_BATCH_MAX_PORTS];
  void *in_host[COMPUTE_BATCH_MAX_PORTS]; /* the tensor's memory, or staging */
  void *out_host[COMPUTE_BATCH_MAX_PORTS];
  bool staged;
} batcher_cell;

/* The thread of one device. */
typedef struct batcher_worker {
  compute_batcher *batcher;
  batch_pipeline *pipeline;
  pthread_t thread;
  bool started;
  batcher_cell cell, cpu; /* `cpu` after failures of the device */
  compute_batcher_request **items;
  compute_status *results; /* of each item of a run */
  compute_error *errors;
} batcher_worker;

enum { LATENCY_STEPS = 16, LATENCY_BUCKETS = 64 * LATENCY_STEPS };

struct compute_batcher {
  compute_context *context;
  compute_batch *batch;
  int64_t most, limit, wait; /* items, requests, nanoseconds */
  compute_batcher_full full;
  batcher_worker *workers;
  uint32_t worker_count;
  pthread_mutex_t mutex;
  pthread_cond_t arrived, room, idle;
  /* Guarded by the mutex: */
  uint32_t references; /* the owner's, and one for each request */
  bool stopping;
  compute_batcher_request *first, *last;
  int64_t active;  /* requests that have not ended */
  int64_t limited; /* requests in the queue that have a deadline */
  int64_t wake;    /* when a thread that gathers wakes up; 0: not by itself */
  int64_t blocked; /* threads that wait for room */
  int64_t started; /* items of all runs, the number of the next run's first item */
  compute_batcher_info info;
  double waited, latency; /* sums in seconds */
  uint64_t latencies[LATENCY_BUCKETS];
};

/* ---- batcher.c ------------------------------------------------------------------------------- */

/* The largest size of a run that is at most `count`: 1, 2, 3, 4, 6, 8, 12, … or `most`. */
int64_t batcher_size(int64_t most, int64_t count);

/* Lock held. Drops a reference; the last one frees the batcher after unlocking. Returns true if it
 * was freed. Otherwise the lock is still held. */
bool batcher_unreference(compute_batcher *batcher);

/* Waits for a signal until `deadline` (0: none). */
void batcher_wait_until(pthread_cond_t *signal, pthread_mutex_t *mutex, int64_t deadline);

/* Initialises a condition whose deadlines are of clock_now. */
void batcher_open_condition(pthread_cond_t *condition);

/* ---- batcher_request.c ----------------------------------------------------------------------- */

/* Lock held. Takes a request out of the queue. */
void request_dequeue(compute_batcher_request *request);

/* Ends a request that is not in the queue. The lock is held, but not during the callback. `error`
 * may be NULL: then the error says what `status` is. */
void request_end(compute_batcher_request *request, compute_status status,
                 const compute_error *error);

/* Lock held. Drops a reference to a request, but keeps the batcher. */
void request_unreference(compute_batcher_request *request);

/* True if the calling thread is inside a callback. */
bool request_in_callback(void);

/* ---- batcher_work.c -------------------------------------------------------------------------- */

/* Allocates the tensors of a thread and compiles its plans. */
compute_status batcher_open_worker(batcher_worker *worker);
void batcher_close_worker(batcher_worker *worker);

/* The thread's function; the argument is the batcher_worker. It returns once the batcher stops and
 * nothing waits. */
void *batcher_work(void *worker);

#endif
