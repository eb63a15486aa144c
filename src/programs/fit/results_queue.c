/* SPDX-License-Identifier: MIT */
/* See results_private.h. Block number n is in slot n modulo QUEUE_BLOCKS. */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "programs/fit/results_private.h"

#define WRITE_BACK_BYTES (8u << 20) /* the kernel starts write-back of this many bytes at a time */

bool results_start_thread(pthread_t *thread, void *(*work)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(thread, NULL, work, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* ---- The threads --------------------------------------------------------------------------- */

/* Records the first failure. Call with the mutex locked. */
static void note(results_queue *queue, const failure *why) {
  if (why->status && !queue->failed.status) queue->failed = *why;
}

/* Starts write-back to the disk early, so that a checkpoint has less to write. */
static void start_writing_back(const results_file *file, uint64_t before) {
  if (before / WRITE_BACK_BYTES == file->written / WRITE_BACK_BYTES) return;
  const uint64_t first = before / WRITE_BACK_BYTES * WRITE_BACK_BYTES;
  (void)sync_file_range(file->descriptor, (off_t)first, (off_t)(file->written - first),
                        SYNC_FILE_RANGE_WRITE);
}

static void write_block(results_queue *queue, const results_block *block, int64_t number,
                        failure *why) {
  results_file *file = queue->file;
  const char *data = queue->memory + (size_t)(number % QUEUE_BLOCKS) * queue->block_bytes;
  const uint64_t before = file->written;
  if (block->used == 0 || results_write_at(file, data, block->used, before, why)) return;
  file->written += block->used;
  start_writing_back(file, before);
}

static void *write_all(void *argument) {
  results_queue *queue = argument;
  pthread_mutex_lock(&queue->mutex);
  for (;;) {
    results_block *block = &queue->block[queue->written % QUEUE_BLOCKS];
    if (!block->full && queue->ending) break;
    if (!block->full) {
      pthread_cond_wait(&queue->filled, &queue->mutex);
      continue;
    }
    if (!queue->failed.status) {
      failure why = {.status = COMPUTE_OK};
      pthread_mutex_unlock(&queue->mutex);
      write_block(queue, block, queue->written, &why);
      pthread_mutex_lock(&queue->mutex);
      note(queue, &why);
    }
    if (block->checkpoint && !queue->failed.status) {
      queue->wanted = true;
      queue->progress = block->progress;
      queue->bytes = queue->file->written;
    }
    if (block->checkpoint) pthread_cond_broadcast(&queue->settled);
    block->full = block->checkpoint = false;
    queue->written++;
    pthread_cond_broadcast(&queue->freed);
  }
  queue->ended = true;
  pthread_cond_broadcast(&queue->settled);
  pthread_mutex_unlock(&queue->mutex);
  return NULL;
}

static void *keep_all(void *argument) {
  results_queue *queue = argument;
  pthread_mutex_lock(&queue->mutex);
  while (queue->wanted || !queue->ended) {
    if (!queue->wanted) {
      pthread_cond_wait(&queue->settled, &queue->mutex);
      continue;
    }
    results_state state = queue->file->state;
    state.progress = queue->progress;
    state.bytes = queue->bytes;
    queue->wanted = false;
    queue->keeping = true;
    pthread_mutex_unlock(&queue->mutex);
    failure why = {.status = COMPUTE_OK};
    const compute_status status = results_keep(queue->file, &state, &why);
    pthread_mutex_lock(&queue->mutex);
    if (!status) queue->file->state = state;
    note(queue, &why);
    queue->keeping = false;
    pthread_cond_broadcast(&queue->settled);
  }
  pthread_mutex_unlock(&queue->mutex);
  return NULL;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

compute_status queue_open(results_queue *queue, results_file *file, size_t block_bytes,
                          failure *why) {
  queue->file = file;
  queue->block_bytes = block_bytes;
  queue->memory = malloc(QUEUE_BLOCKS * block_bytes);
  if (!queue->memory)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s",
                       file->path);
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->filled, NULL);
  pthread_cond_init(&queue->freed, NULL);
  pthread_cond_init(&queue->settled, NULL);
  if (results_start_thread(&queue->writer, write_all, queue)) queue->threads++;
  if (queue->threads && results_start_thread(&queue->keeper, keep_all, queue)) queue->threads++;
  if (queue->threads == 2) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, "run fewer processes, or raise their limit",
                     "cannot start a thread to write %s", file->path);
}

void queue_close(results_queue *queue) {
  if (!queue->memory) return;
  pthread_mutex_lock(&queue->mutex);
  queue->ending = true;
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->mutex);
  if (queue->threads > 0) pthread_join(queue->writer, NULL);
  if (queue->threads > 1) pthread_join(queue->keeper, NULL);
  pthread_cond_destroy(&queue->filled);
  pthread_cond_destroy(&queue->freed);
  pthread_cond_destroy(&queue->settled);
  pthread_mutex_destroy(&queue->mutex);
  free(queue->memory);
  queue->memory = NULL;
}

/* ---- Blocks -------------------------------------------------------------------------------- */

int64_t queue_order(results_queue *queue, int64_t count) {
  const int64_t first = queue->ordered;
  queue->ordered += count;
  return first;
}

char *queue_take(results_queue *queue, int64_t number) {
  pthread_mutex_lock(&queue->mutex);
  while (number - queue->written >= QUEUE_BLOCKS) pthread_cond_wait(&queue->freed, &queue->mutex);
  pthread_mutex_unlock(&queue->mutex);
  return queue->memory + (size_t)(number % QUEUE_BLOCKS) * queue->block_bytes;
}

static void give(results_queue *queue, int64_t number, results_block block) {
  pthread_mutex_lock(&queue->mutex);
  block.full = true;
  queue->block[number % QUEUE_BLOCKS] = block;
  if (number == queue->written) pthread_cond_signal(&queue->filled);
  pthread_mutex_unlock(&queue->mutex);
}

void queue_give(results_queue *queue, int64_t number, size_t used) {
  give(queue, number, (results_block){.used = used});
}

/* ---- Checkpoints --------------------------------------------------------------------------- */

compute_status queue_status(results_queue *queue, failure *why) {
  pthread_mutex_lock(&queue->mutex);
  const compute_status status = queue->failed.status;
  if (status && why && !why->status) *why = queue->failed;
  pthread_mutex_unlock(&queue->mutex);
  return status;
}

compute_status queue_checkpoint(results_queue *queue, results_progress progress, bool wait,
                                failure *why) {
  pthread_mutex_lock(&queue->mutex);
  const bool busy = queue->wanted || queue->keeping;
  pthread_mutex_unlock(&queue->mutex);
  if (busy && !wait) return queue_status(queue, why);
  const int64_t number = queue_order(queue, 1);
  (void)queue_take(queue, number);
  give(queue, number, (results_block){.checkpoint = true, .progress = progress});
  pthread_mutex_lock(&queue->mutex);
  while (wait && (queue->written <= number || queue->wanted || queue->keeping))
    pthread_cond_wait(&queue->settled, &queue->mutex);
  pthread_mutex_unlock(&queue->mutex);
  return queue_status(queue, why);
}
