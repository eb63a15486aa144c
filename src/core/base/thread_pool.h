/* SPDX-License-Identifier: MIT */
/* A pool of worker threads that run one parallel loop at a time.
 *
 * The caller is worker 0 and works too. Each worker begins with a share of neighbouring tasks,
 * which is the same in every loop of as many tasks, and then helps the others. Workers spin for
 * some microseconds after a loop, so that the next one starts fast, then sleep on a futex. When the
 * pool is busy, or the caller is itself one of its tasks, the loop runs only in the caller. */
#ifndef BASE_THREAD_POOL_H
#define BASE_THREAD_POOL_H

#include <stdint.h>

#include "compute/backend.h"

typedef struct thread_pool thread_pool;

/* Threads that this process may use: affinity mask and cgroup CPU quota, rounded up; at least 1. */
int32_t thread_pool_available(void);

/* `threads` ≥ 1, including the caller. Threads start at the first loop with more than one task.
 * NULL when out of memory. */
thread_pool *thread_pool_create(int32_t threads);
void thread_pool_release(thread_pool *pool);

int32_t thread_pool_count(const thread_pool *pool);

/* As compute_services.parallel. Works with fewer threads if not all can be started. */
void thread_pool_run(thread_pool *pool, int64_t tasks, compute_task task, void *argument);

#endif
