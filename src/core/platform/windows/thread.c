/* SPDX-License-Identifier: MIT */
/* POSIX threads over SRWLOCK, CONDITION_VARIABLE, INIT_ONCE and fiber-local storage, whose
 * callbacks run when a thread ends. */
#include <pthread.h>
#include <stdlib.h>

#include "native.h"

/* ---- Threads --------------------------------------------------------------------------------- */

struct platform_thread {
  HANDLE handle;
  void *(*work)(void *);
  void *argument, *result;
  volatile LONG owners; /* the thread itself, and who may join it */
};

static void leave(pthread_t thread) {
  if (InterlockedDecrement(&thread->owners) > 0) return;
  CloseHandle(thread->handle);
  free(thread);
}

static DWORD WINAPI begin(void *pointer) {
  pthread_t thread = pointer;
  thread->result = thread->work(thread->argument);
  leave(thread);
  return 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *),
                   void *argument) {
  pthread_t made = calloc(1, sizeof *made);
  if (!made) return EAGAIN;
  *made = (struct platform_thread){.work = work, .argument = argument, .owners = 2};
  const size_t stack = attributes ? attributes->stack_bytes : 0;
  made->handle =
      CreateThread(NULL, stack, begin, made,
                   CREATE_SUSPENDED | (stack ? STACK_SIZE_PARAM_IS_A_RESERVATION : 0), NULL);
  if (!made->handle) {
    free(made);
    return EAGAIN;
  }
  *thread = made;
  ResumeThread(made->handle);
  return 0;
}

int pthread_join(pthread_t thread, void **result) {
  if (WaitForSingleObject(thread->handle, INFINITE) != WAIT_OBJECT_0) return EINVAL;
  if (result) *result = thread->result;
  leave(thread);
  return 0;
}

int pthread_detach(pthread_t thread) {
  leave(thread);
  return 0;
}

pthread_t pthread_self(void) {
  return (pthread_t)NtCurrentTeb();
}

/* Systems before Windows 10 1607 have no names of threads. */
int pthread_setname_np(pthread_t thread, const char *name) {
  typedef HRESULT(WINAPI * set_description)(HANDLE, PCWSTR);
  union {
    FARPROC found;
    set_description set;
  } pointer = {GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription")};
  wchar_t *wide = pointer.found ? native_wide(name) : NULL;
  if (wide) pointer.set(thread->handle, wide);
  free(wide);
  return 0;
}

int pthread_attr_init(pthread_attr_t *attributes) {
  *attributes = (pthread_attr_t){0};
  return 0;
}

int pthread_attr_destroy(pthread_attr_t *attributes) {
  (void)attributes;
  return 0;
}

int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t bytes) {
  attributes->stack_bytes = bytes;
  return 0;
}

int pthread_attr_setstack(pthread_attr_t *attributes, void *place, size_t bytes) {
  (void)place;
  return pthread_attr_setstacksize(attributes, bytes);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static PSRWLOCK native(void **lock) {
  return (PSRWLOCK)lock;
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
  (void)attributes;
  *mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex) {
  (void)mutex;
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
  AcquireSRWLockExclusive(native(&mutex->lock));
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
  return TryAcquireSRWLockExclusive(native(&mutex->lock)) ? 0 : EBUSY;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
  ReleaseSRWLockExclusive(native(&mutex->lock));
  return 0;
}

int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes) {
  (void)attributes;
  *lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
  return 0;
}

int pthread_rwlock_destroy(pthread_rwlock_t *lock) {
  (void)lock;
  return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
  AcquireSRWLockShared(native(&lock->lock));
  return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
  AcquireSRWLockExclusive(native(&lock->lock));
  lock->written = 1;
  return 0;
}

/* While a writer has the lock nobody else reads `written`. */
int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
  if (lock->written) {
    lock->written = 0;
    ReleaseSRWLockExclusive(native(&lock->lock));
  } else {
    ReleaseSRWLockShared(native(&lock->lock));
  }
  return 0;
}

/* ---- Conditions ------------------------------------------------------------------------------ */

int pthread_condattr_init(pthread_condattr_t *attributes) {
  *attributes = (pthread_condattr_t){CLOCK_REALTIME};
  return 0;
}

int pthread_condattr_destroy(pthread_condattr_t *attributes) {
  (void)attributes;
  return 0;
}

int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
  attributes->clock = clock;
  return 0;
}

int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
  *condition = (pthread_cond_t){NULL, attributes ? attributes->clock : CLOCK_REALTIME};
  return 0;
}

int pthread_cond_destroy(pthread_cond_t *condition) {
  (void)condition;
  return 0;
}

static BOOL wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, DWORD milliseconds) {
  return SleepConditionVariableSRW((PCONDITION_VARIABLE)&condition->variable, native(&mutex->lock),
                                   milliseconds, 0);
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  wait_for(condition, mutex, INFINITE);
  return 0;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *limit) {
  struct timespec now;
  clock_gettime(condition->clock, &now);
  const int64_t left = ((int64_t)limit->tv_sec - now.tv_sec) * 1000 +
                       ((int64_t)limit->tv_nsec - now.tv_nsec + 999999) / 1000000;
  const DWORD most = left <= 0 ? 0 : left < 0x7FFFFFFF ? (DWORD)left : 0x7FFFFFFF;
  return wait_for(condition, mutex, most) ? 0 : ETIMEDOUT;
}

int pthread_cond_signal(pthread_cond_t *condition) {
  WakeConditionVariable((PCONDITION_VARIABLE)&condition->variable);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition) {
  WakeAllConditionVariable((PCONDITION_VARIABLE)&condition->variable);
  return 0;
}

/* ---- Barriers -------------------------------------------------------------------------------- */

int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                         unsigned count) {
  (void)attributes;
  *barrier = (pthread_barrier_t){.count = count};
  return 0;
}

int pthread_barrier_destroy(pthread_barrier_t *barrier) {
  (void)barrier;
  return 0;
}

int pthread_barrier_wait(pthread_barrier_t *barrier) {
  int result = 0;
  pthread_mutex_lock(&barrier->mutex);
  const unsigned round = barrier->round;
  if (++barrier->waiting == barrier->count) {
    barrier->waiting = 0;
    barrier->round++;
    pthread_cond_broadcast(&barrier->complete);
    result = PTHREAD_BARRIER_SERIAL_THREAD;
  }
  while (barrier->round == round) pthread_cond_wait(&barrier->complete, &barrier->mutex);
  pthread_mutex_unlock(&barrier->mutex);
  return result;
}

/* ---- Once, and memory of threads ------------------------------------------------------------- */

static BOOL CALLBACK run_once(PINIT_ONCE once, void *work, void **context) {
  (void)once;
  (void)context;
  (*(void (**)(void))work)();
  return TRUE;
}

int pthread_once(pthread_once_t *once, void (*work)(void)) {
  InitOnceExecuteOnce((PINIT_ONCE)&once->once, run_once, &work, NULL);
  return 0;
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  *key = FlsAlloc((PFLS_CALLBACK_FUNCTION)destructor);
  return *key == FLS_OUT_OF_INDEXES ? EAGAIN : 0;
}

int pthread_key_delete(pthread_key_t key) {
  return FlsFree(key) ? 0 : EINVAL;
}

void *pthread_getspecific(pthread_key_t key) {
  const DWORD error = GetLastError(); /* FlsGetValue clears it */
  void *value = FlsGetValue(key);
  SetLastError(error);
  return value;
}

int pthread_setspecific(pthread_key_t key, const void *value) {
  return FlsSetValue(key, (void *)(uintptr_t)value) ? 0 : ENOMEM;
}

int pthread_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)before;
  (void)in_parent;
  (void)in_child;
  return 0;
}
