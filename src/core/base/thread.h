/* SPDX-License-Identifier: MIT */
/* Threads of the library. Each thread blocks all signals, because the program's handlers must not
 * run on a thread that it did not create. It starts in the default floating-point environment
 * instead of its creator's. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* pthread_create with a `name` of at most 15 characters. Returns 0 or the error of
 * pthread_create. */
int thread_start(pthread_t *thread, const char *name, void *(*work)(void *), void *argument);

#endif
