/* SPDX-License-Identifier: MIT */
/* macOS: conditions with the monotonic clock. */
#ifndef PLATFORM_PTHREAD_H
#define PLATFORM_PTHREAD_H

#pragma GCC system_header
#include_next <pthread.h>

#ifdef __APPLE__
#include <errno.h>
#include <time.h>

/* A thread can name only itself there, so that others stay without a name. */
#define pthread_setname_np(thread, name) ((void)(thread), (void)(name), 0)

static inline int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
  (void)attributes;
  return clock == CLOCK_MONOTONIC ? 0 : EINVAL;
}

/* This tree waits until times of the monotonic clock only. */
static inline int platform_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                          const struct timespec *until) {
  struct timespec now, left = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  left.tv_sec = until->tv_sec - now.tv_sec;
  left.tv_nsec = until->tv_nsec - now.tv_nsec;
  if (left.tv_nsec < 0) {
    left.tv_sec--;
    left.tv_nsec += 1000000000;
  }
  if (left.tv_sec < 0) left = (struct timespec){0};
  return pthread_cond_timedwait_relative_np(condition, mutex, &left);
}
#define pthread_cond_timedwait platform_cond_timedwait
#else
#include <pthread_np.h>
#endif

#endif
