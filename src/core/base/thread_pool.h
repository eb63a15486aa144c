/* SPDX-License-Identifier: MIT */
/* A pool of worker threads that run one parallel loop at a time.
 *
 * The caller is worker 0 and also works. Each worker begins with a share of neighbouring tasks, and
 * then helps the others. The share is the same in every loop with the same number of tasks. After a
 * loop, workers spin for some microseconds, so that the next loop starts fast; then they sleep on a
 * futex. If the pool is busy, or the caller runs inside one of its tasks, the loop runs only in the
 * caller. */
#ifndef BASE_THREAD_POOL_H
#define BASE_THREAD_POOL_H

#include <stdint.h>

#include "compute/backend.h"

typedef struct thread_pool thread_pool;

/* The threads that this process may use: the affinity mask, limited by the control group's CPU
 * quota (rounded up); at least 1. */
int32_t thread_pool_available(void);

/* `threads` ≥ 1 includes the caller. Threads start at the first loop with more than one task.
 * Returns NULL when out of memory. */
thread_pool *thread_pool_create(int32_t threads);
void thread_pool_release(thread_pool *pool);

int32_t thread_pool_count(const thread_pool *pool);

/* Implements compute_services.parallel. Works with fewer threads if some cannot start. */
void thread_pool_run(thread_pool *pool, int64_t tasks, compute_task task, void *argument);

#endif
