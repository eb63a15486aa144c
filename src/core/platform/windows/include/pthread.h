/* SPDX-License-Identifier: MIT */
/* POSIX threads over Windows' native locks. A mutex is an SRWLOCK and a condition a
 * CONDITION_VARIABLE: one word each, no kernel object, and constant initializers. The names are
 * macros, because the toolchain's runtime brings functions with the standard names. */
#ifndef PLATFORM_PTHREAD_H
#define PLATFORM_PTHREAD_H

#define WIN_PTHREADS_H /* the toolchain's threads stay out */

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct platform_thread *pthread_t;
typedef struct platform_mutex {
  void *lock;
} pthread_mutex_t;
typedef struct platform_rwlock {
  void *lock;
  int written; /* an unlock must know which kind of lock it ends */
} pthread_rwlock_t;
typedef struct platform_cond {
  void *variable;
  int clock;
} pthread_cond_t;
typedef struct platform_condattr {
  int clock;
} pthread_condattr_t;
typedef struct platform_once {
  void *once;
} pthread_once_t;
typedef struct platform_barrier {
  pthread_mutex_t mutex;
  pthread_cond_t complete;
  unsigned count, waiting, round;
} pthread_barrier_t;
typedef struct platform_attributes {
  size_t stack_bytes;
} pthread_attr_t;
typedef struct platform_attributes pthread_mutexattr_t, pthread_rwlockattr_t, pthread_barrierattr_t;
typedef unsigned long pthread_key_t;

/* clang-format off */
#define PTHREAD_MUTEX_INITIALIZER  {0}
#define PTHREAD_RWLOCK_INITIALIZER {0}
#define PTHREAD_COND_INITIALIZER   {0}
#define PTHREAD_ONCE_INIT          {0}
/* clang-format on */
#define PTHREAD_BARRIER_SERIAL_THREAD (-1)

#define pthread_create            platform_thread_create
#define pthread_join              platform_thread_join
#define pthread_detach            platform_thread_detach
#define pthread_self              platform_thread_self
#define pthread_equal             platform_thread_equal
#define pthread_setname_np        platform_thread_name
#define pthread_attr_init         platform_attributes_init
#define pthread_attr_destroy      platform_attributes_destroy
#define pthread_attr_setstacksize platform_attributes_stack
#define pthread_attr_setstack     platform_attributes_place
#define pthread_mutex_init        platform_mutex_init
#define pthread_mutex_destroy     platform_mutex_destroy
#define pthread_mutex_lock        platform_mutex_lock
#define pthread_mutex_trylock     platform_mutex_trylock
#define pthread_mutex_unlock      platform_mutex_unlock
#define pthread_rwlock_init       platform_rwlock_init
#define pthread_rwlock_destroy    platform_rwlock_destroy
#define pthread_rwlock_rdlock     platform_rwlock_rdlock
#define pthread_rwlock_wrlock     platform_rwlock_wrlock
#define pthread_rwlock_unlock     platform_rwlock_unlock
#define pthread_condattr_init     platform_condattr_init
#define pthread_condattr_destroy  platform_condattr_destroy
#define pthread_condattr_setclock platform_condattr_setclock
#define pthread_cond_init         platform_cond_init
#define pthread_cond_destroy      platform_cond_destroy
#define pthread_cond_wait         platform_cond_wait
#define pthread_cond_timedwait    platform_cond_timedwait
#define pthread_cond_signal       platform_cond_signal
#define pthread_cond_broadcast    platform_cond_broadcast
#define pthread_barrier_init      platform_barrier_init
#define pthread_barrier_destroy   platform_barrier_destroy
#define pthread_barrier_wait      platform_barrier_wait
#define pthread_once              platform_once_run
#define pthread_key_create        platform_key_create
#define pthread_key_delete        platform_key_delete
#define pthread_getspecific       platform_key_get
#define pthread_setspecific       platform_key_set
#define pthread_atfork            platform_atfork

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *),
                   void *argument);
int pthread_join(pthread_t thread, void **result);
int pthread_detach(pthread_t thread);
/* Differs between threads; it is not the handle that pthread_create gives. */
pthread_t pthread_self(void);
static inline int pthread_equal(pthread_t one, pthread_t other) {
  return one == other;
}
int pthread_setname_np(pthread_t thread, const char *name);
int pthread_attr_init(pthread_attr_t *attributes);
int pthread_attr_destroy(pthread_attr_t *attributes);
int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t bytes);
/* Takes the size only: Windows chooses the place. */
int pthread_attr_setstack(pthread_attr_t *attributes, void *place, size_t bytes);

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int pthread_mutex_destroy(pthread_mutex_t *mutex);
int pthread_mutex_lock(pthread_mutex_t *mutex);
int pthread_mutex_trylock(pthread_mutex_t *mutex);
int pthread_mutex_unlock(pthread_mutex_t *mutex);

int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes);
int pthread_rwlock_destroy(pthread_rwlock_t *lock);
int pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int pthread_rwlock_unlock(pthread_rwlock_t *lock);

int pthread_condattr_init(pthread_condattr_t *attributes);
int pthread_condattr_destroy(pthread_condattr_t *attributes);
int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int pthread_cond_destroy(pthread_cond_t *condition);
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *limit);
int pthread_cond_signal(pthread_cond_t *condition);
int pthread_cond_broadcast(pthread_cond_t *condition);

int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                         unsigned count);
int pthread_barrier_destroy(pthread_barrier_t *barrier);
int pthread_barrier_wait(pthread_barrier_t *barrier);

int pthread_once(pthread_once_t *once, void (*work)(void));
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int pthread_key_delete(pthread_key_t key);
void *pthread_getspecific(pthread_key_t key);
int pthread_setspecific(pthread_key_t key, const void *value);

/* There is no fork on Windows: accepts the handlers, and never calls them. */
int pthread_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif
