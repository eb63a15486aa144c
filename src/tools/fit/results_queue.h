/* The way of rows to their file: blocks of bytes, which any thread fills and one thread writes, in
 * order. Checkpoints are made by another one, so that neither those who fill nor the one who writes
 * wait for the disk as long as there are free blocks. */
#ifndef TOOLS_FIT_RESULTS_QUEUE_H
#define TOOLS_FIT_RESULTS_QUEUE_H

#include <pthread.h>

#include "tools/fit/results_state.h"

#define QUEUE_BLOCKS 12

typedef struct results_block {
  size_t used;
  bool full; /* waits to be written */
  bool checkpoint;
  results_progress progress; /* what counts after this block, for a checkpoint */
} results_block;

typedef struct results_queue {
  struct results_file *file;
  pthread_mutex_t mutex;  /* of what follows */
  pthread_cond_t filled;  /* the block that is next to be written, or it ends */
  pthread_cond_t freed;   /* a block, for those who wait to fill one */
  pthread_cond_t settled; /* a checkpoint is wanted or made, or the writer has ended */
  char *memory;
  size_t block_bytes;
  results_block block[QUEUE_BLOCKS];
  int64_t ordered;      /* blocks that have a number: appending thread only */
  int64_t written;      /* blocks that are in the file */
  bool ending;          /* no more blocks come: the writer ends when all are in the file */
  bool ended;           /* it has; the keeper ends when all checkpoints are made */
  bool wanted, keeping; /* a checkpoint is still to be made, is being made */
  results_progress progress;
  uint64_t bytes; /* of it */
  failure failed; /* what ended the writing */
  pthread_t writer, keeper;
  int threads; /* of these two that run */
} results_queue;

/* Starts the threads for blocks of `block_bytes` each. The queue's memory is zero before. */
compute_status queue_open(results_queue *queue, struct results_file *file, size_t block_bytes,
                          failure *why);

/* Ends them when all full blocks are written and the checkpoints among them made. Nothing
 * reports their errors: to learn of them, make a checkpoint that waits first. */
void queue_close(results_queue *queue);

/* Numbers for the next `count` blocks, of which the first is returned. Each must be taken and
 * given, in whatever order by whatever threads, as long as none waits for a block while it has one
 * with a larger number. */
int64_t queue_order(results_queue *queue, int64_t count);

/* The memory of block `number`; waits until it is free. */
char *queue_take(results_queue *queue, int64_t number);

/* Its first `used` bytes go to the file. */
void queue_give(results_queue *queue, int64_t number, size_t used);

/* Makes what is in blocks given so far count, when they are written. Without `wait` it returns at
 * once, and does nothing while another checkpoint is being made. COMPUTE_ERROR_FILE if something
 * could not be written, then or before. */
compute_status queue_checkpoint(results_queue *queue, results_progress progress, bool wait,
                                failure *why);

/* COMPUTE_OK while everything could be written. */
compute_status queue_status(results_queue *queue, failure *why);

/* Starts a thread that takes no signals: those are for the caller's. */
bool results_start_thread(pthread_t *thread, void *(*work)(void *), void *argument);

#endif
