/* SPDX-License-Identifier: MIT */
/* See results_private.h. A large append is divided into chunks of one block each. Each thread takes
 * the next free chunk, and the queue restores the order, so the bytes do not depend on the
 * division. Records need little more than a copy: more threads would cost more than they save. */
#include "programs/fit/results_private.h"

#include <stdatomic.h>

#define CHUNK       1024    /* results per block, if several threads fill them */
#define BLOCK_BYTES 524288u /* size of a block that only the caller fills */

typedef struct rows_job {
  results_rows *rows;
  const column_rows *all;
  int64_t chunks, block; /* number of chunks; block number of the first chunk */
  atomic_llong next;     /* next chunk */
  atomic_llong written;  /* rows so far */
} rows_job;

/* ---- Rows ---------------------------------------------------------------------------------- */

static size_t row_bytes(const column_set *columns, bool text) {
  return text ? columns_line_bytes(columns) : columns->record_bytes;
}

size_t rows_block_bytes(const column_set *columns, bool text) {
  const size_t bytes = CHUNK * row_bytes(columns, text);
  return text || bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
}

static char *put_some(const results_rows *rows, const column_rows *some, char *at) {
  if (rows->text) return columns_put_lines(rows->columns, some, at);
  columns_put_records(rows->columns, some, (unsigned char *)at);
  return at + (size_t)some->count * rows->columns->record_bytes;
}

/* ---- Many at a time ------------------------------------------------------------------------ */

static void put_chunk(rows_job *job, int64_t chunk) {
  const results_rows *rows = job->rows;
  char *const data = queue_take(rows->queue, job->block + chunk), *at = data;
  column_rows some;
  int64_t written = 0;
  for (int64_t i = chunk * CHUNK; i < (chunk + 1) * CHUNK; written += some.count) {
    i = selection_choose(rows->selection, job->all, i, (chunk + 1) * CHUNK, &some);
    at = put_some(rows, &some, at);
  }
  queue_give(rows->queue, job->block + chunk, (size_t)(at - data));
  atomic_fetch_add(&job->written, written);
}

static void put_chunks(rows_job *job) {
  for (int64_t chunk; (chunk = atomic_fetch_add(&job->next, 1)) < job->chunks;)
    put_chunk(job, chunk);
}

static void *help(void *argument) {
  results_rows *rows = argument;
  pthread_mutex_lock(&rows->mutex);
  while (!rows->ending) {
    rows_job *job = rows->job;
    if (job && atomic_load(&job->next) < job->chunks) {
      rows->helping++;
      pthread_mutex_unlock(&rows->mutex);
      put_chunks(job);
      pthread_mutex_lock(&rows->mutex);
      rows->helping--;
      pthread_cond_broadcast(&rows->changed);
    } else {
      pthread_cond_wait(&rows->changed, &rows->mutex);
    }
  }
  pthread_mutex_unlock(&rows->mutex);
  return NULL;
}

static void set_job(results_rows *rows, rows_job *job) {
  pthread_mutex_lock(&rows->mutex);
  rows->job = job;
  if (job) pthread_cond_broadcast(&rows->changed);
  while (!job && rows->helping > 0) pthread_cond_wait(&rows->changed, &rows->mutex);
  pthread_mutex_unlock(&rows->mutex);
}

static int64_t put_many(results_rows *rows, const column_rows *all, int64_t chunks) {
  rows_flush(rows);
  rows_job job = {rows, all, chunks, queue_order(rows->queue, chunks), 0, 0};
  set_job(rows, &job);
  put_chunks(&job);
  set_job(rows, NULL);
  return atomic_load(&job.written);
}

/* ---- Few at a time ------------------------------------------------------------------------- */

void rows_flush(results_rows *rows) {
  if (rows->block >= 0) queue_give(rows->queue, rows->block, rows->used);
  rows->block = -1;
  rows->used = 0;
}

static int64_t put_few(results_rows *rows, const column_rows *all, int64_t first, int64_t end) {
  column_rows some;
  int64_t written = 0;
  for (; first < end; written += some.count) {
    first = selection_choose(rows->selection, all, first, end, &some);
    if (rows->used + (size_t)some.count * rows->row_bytes > rows->queue->block_bytes)
      rows_flush(rows);
    if (rows->block < 0) {
      rows->block = queue_order(rows->queue, 1);
      rows->data = queue_take(rows->queue, rows->block);
    }
    rows->used = (size_t)(put_some(rows, &some, rows->data + rows->used) - rows->data);
  }
  return written;
}

int64_t rows_put(results_rows *rows, const column_rows *all, int64_t count) {
  const int64_t chunks = rows->helpers > 0 && count >= 2 * CHUNK ? count / CHUNK : 0;
  const int64_t written = chunks > 0 ? put_many(rows, all, chunks) : 0;
  return written + put_few(rows, all, chunks * CHUNK, count);
}

/* ---- Opening and closing ------------------------------------------------------------------- */

void rows_open(results_rows *rows, results_queue *queue, const column_set *columns, bool text,
               const selection *selected, int32_t threads) {
  rows->queue = queue;
  rows->columns = columns;
  rows->text = text;
  rows->selection = selected;
  rows->row_bytes = row_bytes(columns, text);
  rows->block = -1;
  pthread_mutex_init(&rows->mutex, NULL);
  pthread_cond_init(&rows->changed, NULL);
  while (text && rows->helpers < threads - 1 && rows->helpers < ROWS_MOST_HELPERS &&
         results_start_thread(&rows->helper[rows->helpers], help, rows))
    rows->helpers++;
}

void rows_close(results_rows *rows) {
  if (!rows->queue) return;
  pthread_mutex_lock(&rows->mutex);
  rows->ending = true;
  pthread_cond_broadcast(&rows->changed);
  pthread_mutex_unlock(&rows->mutex);
  while (rows->helpers > 0) pthread_join(rows->helper[--rows->helpers], NULL);
  pthread_cond_destroy(&rows->changed);
  pthread_mutex_destroy(&rows->mutex);
  rows->queue = NULL;
}
