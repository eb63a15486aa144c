/* SPDX-License-Identifier: MIT */
/* Internals of a results file: its state on disk, the queue of blocks, the rows and the file. */
#ifndef TOOLS_FIT_RESULTS_PRIVATE_H
#define TOOLS_FIT_RESULTS_PRIVATE_H

#include <pthread.h>

#include "programs/fit/columns.h"
#include "programs/fit/results_file.h"
#include "programs/fit/selection.h"

/* ---- State --------------------------------------------------------------------------------- */

/* <name>.incomplete.json: the valid part of an incomplete file, and its job. */
typedef struct results_state {
  results_progress progress;
  uint64_t bytes; /* valid bytes of the incomplete file */
  bool finishing; /* all results are written; only the final steps remain */
  bool overwrite; /* the job may replace a complete file */
  char job[1024]; /* fingerprint, format and columns; a resumed job must have the same */
} results_state;

/* Replaces the file at `path` atomically and durably, through <path>.new. */
compute_status results_state_write(const char *path, const results_state *state, failure *why);

/* COMPUTE_ERROR_FILE if there is no state (*missing is set), _FORMAT if it is invalid. */
compute_status results_state_read(const char *path, results_state *state, bool *missing,
                                  failure *why);

/* ---- Queue --------------------------------------------------------------------------------- */

/* A queue of byte blocks, filled by any thread and written in order by one thread. Another thread
 * makes checkpoints, so that neither filling nor writing waits for the disk while there are free
 * blocks. */
#define QUEUE_BLOCKS 12

typedef struct results_block {
  size_t used;
  bool full; /* waiting to be written */
  bool checkpoint;
  results_progress progress; /* the valid part after this block, for a checkpoint */
} results_block;

typedef struct results_queue {
  struct results_file *file;
  pthread_mutex_t mutex;  /* guards the fields below */
  pthread_cond_t filled;  /* signals that the next block to write is full, or that none follows */
  pthread_cond_t freed;   /* signals a free block */
  pthread_cond_t settled; /* signals that a checkpoint is requested or made, or the writer has
                           * ended */
  char *memory;
  size_t block_bytes;
  results_block block[QUEUE_BLOCKS];
  int64_t ordered;      /* number of reserved blocks; used by the appending thread only */
  int64_t written;      /* number of blocks in the file */
  bool ending;          /* no more blocks follow: the writer ends when all are in the file */
  bool ended;           /* the writer has ended; the keeper ends when all checkpoints are made */
  bool wanted, keeping; /* a checkpoint is requested; is in progress */
  results_progress progress;
  uint64_t bytes; /* the file's size at `progress` */
  failure failed; /* the failure that ended the writing */
  pthread_t writer, keeper;
  int threads; /* number of these two that are running */
} results_queue;

/* Starts the threads for blocks of `block_bytes` each. The caller has zeroed *queue. */
compute_status queue_open(results_queue *queue, struct results_file *file, size_t block_bytes,
                          failure *why);

/* Stops the threads once all full blocks are written and checkpoints made. Does not report errors:
 * make a checkpoint with `wait` first to get them. */
void queue_close(results_queue *queue);

/* Reserves numbers for the next `count` blocks and returns the first. Each block must be taken and
 * given, in any order and by any thread. But no thread may wait for a block while it has a block
 * with a larger number. */
int64_t queue_order(results_queue *queue, int64_t count);

/* Returns the memory of block `number`; waits until it is free. */
char *queue_take(results_queue *queue, int64_t number);

/* Hands block `number` to the writer, which writes its first `used` bytes. */
void queue_give(results_queue *queue, int64_t number, size_t used);

/* Requests a checkpoint of all blocks given so far. Without `wait` the call returns at once, and
 * does nothing while another checkpoint is in progress. COMPUTE_ERROR_FILE if a write failed, now
 * or earlier. */
compute_status queue_checkpoint(results_queue *queue, results_progress progress, bool wait,
                                failure *why);

/* COMPUTE_OK unless a write has failed. */
compute_status queue_status(results_queue *queue, failure *why);

/* Starts a thread with all signals blocked: the caller's threads handle signals. */
bool results_start_thread(pthread_t *thread, void *(*work)(void *), void *argument);

/* ---- Rows ---------------------------------------------------------------------------------- */

/* Conversion of results to rows of the file, on several threads. */
#define ROWS_MOST_HELPERS 7

typedef struct results_rows {
  results_queue *queue;
  const column_set *columns;
  bool text;
  const selection *selection;
  size_t row_bytes; /* upper limit */

  /* The partly filled block for small appends; −1: none. */
  int64_t block;
  char *data;
  size_t used;

  /* Threads that help with large appends. */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct rows_job *job; /* the job to help with */
  int helping;
  bool ending;
  pthread_t helper[ROWS_MOST_HELPERS];
  int helpers;
} results_rows;

/* The required size of the queue's blocks. */
size_t rows_block_bytes(const column_set *columns, bool text);

/* Starts up to `threads` threads for text, including the caller's; fewer if no more can be started.
 * Records use only the caller's thread. */
void rows_open(results_rows *rows, results_queue *queue, const column_set *columns, bool text,
               const selection *selected, int32_t threads);
void rows_close(results_rows *rows);

/* Puts `count` results into blocks; returns the number of rows. `all` has the arrays and numbers;
 * its index and count are ignored. */
int64_t rows_put(results_rows *rows, const column_rows *all, int64_t count);

/* Gives the last block to the queue, full or not. */
void rows_flush(results_rows *rows);

/* ---- The file ------------------------------------------------------------------------------ */

struct results_file {
  results_options options; /* its pointers refer to the fields below */
  compute_fit_problem problem;
  char *path, *incomplete, *state_path, *generated_by, *input;
  selection selection;

  column_set columns;
  int descriptor;         /* of the incomplete file */
  results_state state;    /* at the last checkpoint */
  results_progress now;   /* includes the results appended since the last checkpoint */
  results_progress begin; /* at the start of this run */
  uint64_t written;       /* bytes in the file; the queue's writer counts them */
  double checked;         /* time of the last checkpoint */

  results_queue queue;
  results_rows rows;
};

/* Writes the start of the file, and returns its length: CSV's heading, or the header of a .npy with
 * `rows` records. The length does not depend on `rows`. HDF5's results are kept as .npy until they
 * are complete. `text` has RESULTS_HEAD_BYTES bytes. */
#define RESULTS_HEAD_BYTES 4096
size_t results_head(const results_file *file, int64_t rows, char *text);

/* Writes the complete HDF5 file from the incomplete one, and its side-car. */
compute_status results_hdf5_check(const results_file *file, failure *why);
compute_status results_hdf5_finish(results_file *file, int64_t frames, failure *why);
bool results_hdf5_built_in(void);

/* Makes the bytes that `state` covers, and the state, durable. */
compute_status results_keep(const results_file *file, const results_state *state, failure *why);

/* Writes all `bytes` at `offset`, or fails. */
compute_status results_write_at(const results_file *file, const void *data, size_t bytes,
                                uint64_t offset, failure *why);

#endif
