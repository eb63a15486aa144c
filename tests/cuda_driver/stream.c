/* SPDX-License-Identifier: MIT */
/* Streams and events. Each stream has a thread that runs its operations in order. On a lost device,
 * operations are dropped, but events are still recorded, so that no thread waits forever. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_private.h"

struct stream {
  object header;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t more, idle;
  operation *first, *last;
  bool busy, ending, detached;
  int drains; /* by threads that found the stream, not by its owner */
};

static pthread_mutex_t default_mutex = PTHREAD_MUTEX_INITIALIZER;
static stream *defaults[MOST_DEVICES];

/* ---- Operations ---------------------------------------------------------------------------- */

void *operation_create(size_t bytes, void (*run)(operation *, int)) {
  operation *o = calloc(1, bytes);
  if (o) o->run = run;
  return o;
}

static void operation_destroy(operation *o) {
  if (o->release) o->release(o);
  free(o);
}

static void stream_free(stream *s) {
  pthread_cond_destroy(&s->more);
  pthread_cond_destroy(&s->idle);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

static void *work(void *argument) {
  stream *s = argument;
  pthread_mutex_lock(&s->mutex);
  for (;;) {
    while (!s->first && !s->ending) pthread_cond_wait(&s->more, &s->mutex);
    operation *o = s->first;
    if (!o) break;
    s->first = o->next;
    if (!s->first) s->last = NULL;
    s->busy = true;
    pthread_mutex_unlock(&s->mutex);
    if (o->always || stand_in_lost(s->header.device) == CUDA_OK) o->run(o, s->header.device);
    operation_destroy(o);
    pthread_mutex_lock(&s->mutex);
    s->busy = false;
    if (!s->first) pthread_cond_broadcast(&s->idle);
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

cuda_result stream_submit(cuda_stream handle, void *submitted) {
  stream *s = stream_of(handle);
  operation *o = submitted;
  if (!s) {
    operation_destroy(o);
    return INVALID_HANDLE;
  }
  pthread_mutex_lock(&s->mutex);
  *(s->last ? &s->last->next : &s->first) = o;
  s->last = o;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->mutex);
  return CUDA_OK;
}

cuda_result stream_drain(stream *s) {
  pthread_mutex_lock(&s->mutex);
  while (s->first || s->busy) pthread_cond_wait(&s->idle, &s->mutex);
  pthread_mutex_unlock(&s->mutex);
  return stand_in_lost(s->header.device);
}

/* ---- Engines ------------------------------------------------------------------------------- */

static pthread_mutex_t engines[MOST_DEVICES][ENGINES];
static _Atomic int32_t working, together; /* current number; maximum */

static __attribute__((constructor)) void engines_make(void) {
  for (int i = 0; i < MOST_DEVICES * ENGINES; i++)
    pthread_mutex_init(&engines[i / ENGINES][i % ENGINES], NULL);
}

void engine_work(int device, int engine, int64_t nanoseconds) {
  if (nanoseconds <= 0) return;
  pthread_mutex_lock(&engines[device][engine]);
  const int32_t now = atomic_fetch_add(&working, 1) + 1;
  int32_t most = atomic_load(&together);
  while (now > most && !atomic_compare_exchange_weak(&together, &most, now)) continue;
  nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
  atomic_fetch_sub(&working, 1);
  pthread_mutex_unlock(&engines[device][engine]);
}

void engine_hold(int device) {
  while (atomic_load(&stand_in_machine.hold_kernels) && stand_in_lost(device) == CUDA_OK)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void engine_forget(void) {
  atomic_store(&together, 0);
}

EXPORT int32_t stand_in_together(void);
int32_t stand_in_together(void) {
  return atomic_load(&together);
}

/* ---- Streams ------------------------------------------------------------------------------- */

static stream *create(void) {
  stream *s = object_create(OBJECT_STREAM, sizeof *s);
  if (!s) return NULL;
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->more, NULL);
  pthread_cond_init(&s->idle, NULL);
  if (pthread_create(&s->thread, NULL, work, s) != 0) {
    stream_free(s);
    return NULL;
  }
  object_add(&s->header);
  return s;
}

/* NULL is the context's default stream. */
stream *stream_of(cuda_stream handle) {
  const int device = current_device();
  if (handle) return object_is(handle, OBJECT_STREAM) ? (stream *)(void *)handle : NULL;
  if (device < 0) return NULL;
  pthread_mutex_lock(&default_mutex);
  if (!defaults[device]) defaults[device] = create();
  stream *s = defaults[device];
  pthread_mutex_unlock(&default_mutex);
  return s;
}

void stream_finish(stream *s) {
  object_remove(&s->header);
  pthread_mutex_lock(&s->mutex);
  s->ending = true;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->mutex);
  pthread_join(s->thread, NULL);
  pthread_mutex_lock(&s->mutex);
  while (s->drains > 0) pthread_cond_wait(&s->idle, &s->mutex);
  pthread_mutex_unlock(&s->mutex);
  pthread_mutex_lock(&default_mutex);
  for (int i = 0; i < MOST_DEVICES; i++)
    if (defaults[i] == s) defaults[i] = NULL;
  pthread_mutex_unlock(&default_mutex);
  stream_free(s);
}

/* Returns true if the stream has work, and counts the drain. streams_drain searches until no stream
 * has work, because a busy stream may give work to another. */
static bool has_work(const object *o, const void *unused) {
  stream *s = (stream *)(uintptr_t)o;
  (void)unused;
  pthread_mutex_lock(&s->mutex);
  const bool found = s->first || s->busy;
  if (found) s->drains++;
  pthread_mutex_unlock(&s->mutex);
  return found;
}

void streams_drain(int device) {
  for (object *o; (o = object_find(OBJECT_STREAM, device, has_work, NULL));) {
    stream *s = (stream *)(void *)o;
    stream_drain(s);
    pthread_mutex_lock(&s->mutex);
    s->drains--;
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->mutex);
  }
}

EXPORT cuda_result cuStreamCreate(cuda_stream *result, uint32_t flags) {
  ENTER(cuStreamCreate);
  if (flags & ~(uint32_t)CUDA_STREAM_NON_BLOCKING) return CUDA_INVALID_VALUE;
  *result = (cuda_stream)(void *)create();
  return *result ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

EXPORT cuda_result cuStreamDestroy(cuda_stream destroyed) {
  const cuda_result code = stand_in_enter(CALL_cuStreamDestroy);
  if (!object_is(destroyed, OBJECT_STREAM)) return INVALID_HANDLE;
  stream_finish((stream *)(void *)destroyed);
  return code;
}

EXPORT cuda_result cuStreamSynchronize(cuda_stream waited) {
  ENTER(cuStreamSynchronize);
  stream *s = stream_of(waited);
  return s ? stream_drain(s) : INVALID_HANDLE;
}

/* ---- Events -------------------------------------------------------------------------------- */

/* Records are numbered; a wait is for the last record enqueued before it. */
typedef struct event {
  object header;
  pthread_mutex_t mutex;
  pthread_cond_t came;
  uint64_t asked, done;
  struct timespec when;
  int references;
  bool timed;
} event;

typedef struct event_operation {
  operation base;
  event *of;
  uint64_t number;
} event_operation;

static void unreference(event *e) {
  pthread_mutex_lock(&e->mutex);
  const bool last = --e->references == 0;
  pthread_mutex_unlock(&e->mutex);
  if (!last) return;
  pthread_cond_destroy(&e->came);
  pthread_mutex_destroy(&e->mutex);
  free(e);
}

void event_destroy(object *destroyed) {
  object_remove(destroyed);
  unreference((event *)(void *)destroyed);
}

static void event_release(operation *self) {
  unreference(((event_operation *)self)->of);
}

static void run_record(operation *self, int device) {
  event_operation *o = (event_operation *)self;
  (void)device;
  pthread_mutex_lock(&o->of->mutex);
  if (o->of->done < o->number) o->of->done = o->number;
  clock_gettime(CLOCK_MONOTONIC, &o->of->when);
  pthread_cond_broadcast(&o->of->came);
  pthread_mutex_unlock(&o->of->mutex);
}

static void run_wait(operation *self, int device) {
  event_operation *o = (event_operation *)self;
  (void)device;
  pthread_mutex_lock(&o->of->mutex);
  while (o->of->done < o->number) pthread_cond_wait(&o->of->came, &o->of->mutex);
  pthread_mutex_unlock(&o->of->mutex);
}

static cuda_result submit(event *e, cuda_stream on, bool record) {
  event_operation *o = operation_create(sizeof *o, record ? run_record : run_wait);
  if (!o) return CUDA_OUT_OF_MEMORY;
  o->base.always = record;
  o->base.release = event_release;
  o->of = e;
  pthread_mutex_lock(&e->mutex);
  e->references++;
  o->number = record ? ++e->asked : e->asked;
  pthread_mutex_unlock(&e->mutex);
  return stream_submit(on, o);
}

EXPORT cuda_result cuEventCreate(cuda_event *result, uint32_t flags) {
  ENTER(cuEventCreate);
  if (flags & ~(uint32_t)CUDA_EVENT_DISABLE_TIMING) return CUDA_INVALID_VALUE;
  event *e = object_create(OBJECT_EVENT, sizeof *e);
  if (!e) return CUDA_OUT_OF_MEMORY;
  pthread_mutex_init(&e->mutex, NULL);
  pthread_cond_init(&e->came, NULL);
  e->references = 1;
  e->timed = !(flags & CUDA_EVENT_DISABLE_TIMING);
  object_add(&e->header);
  *result = (cuda_event)(void *)e;
  return CUDA_OK;
}

EXPORT cuda_result cuEventDestroy(cuda_event destroyed) {
  const cuda_result code = stand_in_enter(CALL_cuEventDestroy);
  if (!object_is(destroyed, OBJECT_EVENT)) return INVALID_HANDLE;
  event_destroy((object *)(void *)destroyed);
  return code;
}

EXPORT cuda_result cuEventRecord(cuda_event recorded, cuda_stream on) {
  ENTER(cuEventRecord);
  if (!object_is(recorded, OBJECT_EVENT)) return INVALID_HANDLE;
  return submit((event *)(void *)recorded, on, true);
}

EXPORT cuda_result cuStreamWaitEvent(cuda_stream on, cuda_event waited, uint32_t flags) {
  ENTER(cuStreamWaitEvent);
  if (flags) return CUDA_INVALID_VALUE;
  if (!object_is(waited, OBJECT_EVENT)) return INVALID_HANDLE;
  return submit((event *)(void *)waited, on, false);
}

EXPORT cuda_result cuEventSynchronize(cuda_event waited) {
  ENTER(cuEventSynchronize);
  event *e = (event *)(void *)waited;
  if (!object_is(e, OBJECT_EVENT)) return INVALID_HANDLE;
  pthread_mutex_lock(&e->mutex);
  const uint64_t number = e->asked;
  while (e->done < number) pthread_cond_wait(&e->came, &e->mutex);
  pthread_mutex_unlock(&e->mutex);
  return stand_in_lost(e->header.device);
}

EXPORT cuda_result cuEventQuery(cuda_event asked) {
  ENTER(cuEventQuery);
  event *e = (event *)(void *)asked;
  if (!object_is(e, OBJECT_EVENT)) return INVALID_HANDLE;
  pthread_mutex_lock(&e->mutex);
  const bool done = e->done >= e->asked;
  pthread_mutex_unlock(&e->mutex);
  if (stand_in_lost(e->header.device) != CUDA_OK) return stand_in_lost(e->header.device);
  return done ? CUDA_OK : CUDA_NOT_READY;
}

EXPORT cuda_result cuEventElapsedTime(float *milliseconds, cuda_event first, cuda_event last) {
  ENTER(cuEventElapsedTime);
  event *both[2] = {(event *)(void *)first, (event *)(void *)last};
  struct timespec when[2];
  for (int i = 0; i < 2; i++) {
    event *e = both[i];
    if (!object_is(e, OBJECT_EVENT) || !e->timed || e->asked == 0) return INVALID_HANDLE;
    if (e->header.device != both[0]->header.device) return INVALID_HANDLE;
    pthread_mutex_lock(&e->mutex);
    const bool done = e->done >= e->asked;
    when[i] = e->when;
    pthread_mutex_unlock(&e->mutex);
    if (!done) return CUDA_NOT_READY;
  }
  *milliseconds = (float)((double)(when[1].tv_sec - when[0].tv_sec) * 1e3 +
                          (double)(when[1].tv_nsec - when[0].tv_nsec) * 1e-6);
  return CUDA_OK;
}
