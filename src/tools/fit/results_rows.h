/* From results to rows of the file, by several threads. */
#ifndef TOOLS_FIT_RESULTS_ROWS_H
#define TOOLS_FIT_RESULTS_ROWS_H

#include <pthread.h>

#include "tools/fit/columns.h"
#include "tools/fit/results_queue.h"

#define ROWS_MOST_HELPERS 7

typedef struct results_rows {
  results_queue *queue;
  const column_set *columns;
  bool text;
  uint32_t statuses; /* of the rows that are written */
  size_t row_bytes;  /* at most */

  /* The block that rows are put into when there are few at a time; −1: none. */
  int64_t block;
  char *data;
  size_t used;

  /* Threads that help when there are many. */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct rows_job *job; /* to help with */
  int helping;
  bool ending;
  pthread_t helper[ROWS_MOST_HELPERS];
  int helpers;
} results_rows;

/* Bytes that blocks of the queue must have. */
size_t rows_block_bytes(const column_set *columns, bool text);

/* Begins with up to `threads` threads for text, the caller's among them; fewer if no more can be
 * started, and the caller's alone for records. */
void rows_open(results_rows *rows, results_queue *queue, const column_set *columns, bool text,
               uint32_t statuses, int32_t threads);
void rows_close(results_rows *rows);

/* Puts `count` results into blocks; returns how many rows that were. `all` names the arrays and
 * their numbers; its index and count are not looked at. */
int64_t rows_put(results_rows *rows, const column_rows *all, int64_t count);

/* Gives the last block to the queue, full or not. */
void rows_flush(results_rows *rows);

#endif
