/* SPDX-License-Identifier: MIT */
/* Queues, events, timers, recordings, several devices, users' kernels. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/conformance.h"
#include "support/harness/values.h"

enum { BYTES = 1 << 20, PLACES = 4, ROOM = 30000, ITEM_BYTES = AFFINE_COUNT * 4 };

/* ---- Order --------------------------------------------------------------------------------- */

/* Memories on the device and their expected contents, computed on the host. */
typedef struct walk {
  run *r;
  test_random random;
  void *queue, *kernel; /* NULL: no kernel on this device */
  compute_memory *memory[PLACES];
  float *host[PLACES], *read;
} walk;

static int64_t draw(walk *w, int64_t below) {
  return test_random_integer(&w->random, 0, below - 1);
}

static void step(walk *w) {
  const compute_backend *b = w->r->backend;
  const int64_t a = draw(w, PLACES), c = (a + 1 + draw(w, PLACES - 1)) % PLACES;
  const int64_t start = draw(w, 500), end = start / 2, count = ROOM - 500 - start % 77;
  const compute_argument from = {w->memory[a], 4 * (uint64_t)start};
  const compute_argument to = {w->memory[c], 4 * (uint64_t)end};
  const int64_t what = draw(w, 6);
  if (what < 2 && w->kernel) {
    EXPECT_OK(w->r, b->enqueue(w->queue, w->kernel, (compute_argument[]){from, to}, 2));
    for (int i = 0; i < AFFINE_COUNT; i++) w->host[c][end + i] = 2 * w->host[a][start + i] + 1;
  } else if (what == 2) {
    for (int i = 0; i < ROOM; i++) w->host[a][i] = (float)draw(w, 100);
    memcpy(w->read, w->host[a], 4 * ROOM);
    EXPECT_OK(w->r,
              b->upload(w->queue, &(compute_argument){w->memory[a], 0}, w->host[a], 4 * ROOM));
    EXPECT_OK(w->r, b->queue_wait(w->queue)); /* before the host's copy changes */
  } else if (what == 3) {
    case_download(w->r, w->queue, w->memory[a], from.offset, w->read, 4 * (uint64_t)count);
    EXPECT(w->r, !memcmp(w->read, w->host[a] + start, 4 * (size_t)count),
           "a download overtakes what came before it on its queue");
  } else if (what == 4) {
    EXPECT_OK(w->r, b->copy(w->queue, &to, &from, 4 * (uint64_t)count));
    memcpy(w->host[c] + end, w->host[a] + start, 4 * (size_t)count);
  } else if (b->event_record) {
    void *event = NULL;
    EXPECT_OK(w->r, b->event_record(w->queue, &event));
    EXPECT_OK(w->r, b->queue_wait_event(w->queue, event));
    b->event_destroy(w->r->device, event);
  }
}

static void walk_about(run *r, void *kernel) {
  walk w = {.r = r, .random = {r->subject->seed}, .queue = case_queue(r), .kernel = kernel};
  w.read = case_buffer(r, 4 * ROOM);
  for (int i = 0; i < PLACES; i++) {
    w.memory[i] = case_memory(r, 4 * ROOM);
    w.host[i] = case_buffer(r, 4 * ROOM);
    for (int k = 0; k < ROOM; k++) w.host[i][k] = (float)((k + i) % 17);
    case_upload(r, w.queue, w.memory[i], 0, w.host[i], 4 * ROOM);
  }
  for (int i = 0; i < 300; i++) step(&w);
  for (int i = 0; i < PLACES; i++) {
    case_download(r, w.queue, w.memory[i], 0, w.read, 4 * ROOM);
    for (int k = 0; k < ROOM; k++) /* values double at each step, up to infinity */
      EXPECT(r, !memcmp(&w.read[k], &w.host[i][k], 4),
             "after 300 steps element %d is %g, not %g: the order was not kept", k,
             (double)w.read[k], (double)w.host[i][k]);
  }
}

static void copies_keep_their_order(run *r, const void *user) {
  (void)user;
  walk_about(r, NULL);
}

static void kernels_and_copies_keep_their_order(run *r, const void *user) {
  (void)user;
  walk_about(r, case_affine(r));
}

static void queues_come_and_go(run *r, const void *user) {
  (void)user;
  for (int i = 0; i < 50; i++) {
    void *queue = NULL;
    EXPECT_OK(r, r->backend->queue_create(r->device, &queue));
    EXPECT_OK(r, r->backend->queue_wait(queue));
    EXPECT_OK(r, r->backend->queue_wait(queue));
    r->backend->queue_destroy(queue);
  }
}

/* ---- Several threads ----------------------------------------------------------------------- */

typedef struct worker {
  run *r;
  void *kernel, *queue;
  compute_memory *x, *y;
  pthread_t thread;
  float number;
  compute_status status;
  bool right;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  const compute_backend *b = w->r->backend;
  const compute_argument at[2] = {{w->x, 0}, {w->y, 0}};
  float in[AFFINE_COUNT], out[AFFINE_COUNT] = {0};
  for (int i = 0; i < AFFINE_COUNT; i++) in[i] = w->number + (float)i;
  w->right = true;
  for (int turn = 0; turn < 50 && !w->status && w->right; turn++) {
    w->status = b->upload(w->queue, &at[0], in, sizeof in);
    if (!w->status) w->status = b->enqueue(w->queue, w->kernel, at, 2);
    if (!w->status) w->status = b->download(w->queue, out, &at[1], sizeof out);
    if (!w->status) w->status = b->queue_wait(w->queue);
    for (int i = 0; i < AFFINE_COUNT; i++) w->right = w->right && out[i] == 2 * in[i] + 1;
  }
  return NULL;
}

static void one_kernel_serves_several_threads(run *r, const void *user) {
  enum { THREADS = 6 };
  worker workers[THREADS] = {{0}};
  void *kernel = case_affine(r);
  int started = 0;
  (void)user;
  for (int i = 0; i < THREADS; i++)
    workers[i] = (worker){.r = r,
                          .kernel = kernel,
                          .queue = case_queue(r),
                          .x = case_memory(r, ITEM_BYTES),
                          .y = case_memory(r, ITEM_BYTES),
                          .number = (float)(1000 * i)};
  while (started < THREADS &&
         !pthread_create(&workers[started].thread, NULL, work, &workers[started]))
    started++;
  for (int i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < started; i++) {
    EXPECT_OK(r, workers[i].status);
    EXPECT(r, workers[i].right, "thread %d of %d got wrong numbers", i, started);
  }
  if (started == 0) case_refuse(r, "no thread can be started");
  EXPECT(r, started > 1, "threads cannot be started");
}

/* ---- Events -------------------------------------------------------------------------------- */

static void an_event_is_complete_when_the_work_before_it_is(run *r, const void *user) {
  const compute_backend *b = r->backend;
  bool complete = false;
  (void)user;
  NEEDS(r, event_record);
  void *queue = case_queue(r), *other = case_queue(r), *empty = case_event(r, other);
  unsigned char *data = case_buffer(r, BYTES), *back = case_buffer(r, BYTES);
  const compute_memory *memory[2] = {case_memory(r, BYTES), case_memory(r, BYTES)};
  const compute_argument from = {memory[0], 0}, to = {memory[1], 0};
  EXPECT_OK(r, b->event_wait(r->device, empty));
  EXPECT_OK(r, b->event_query(r->device, empty, &complete));
  EXPECT(r, complete, "an event of an idle queue is not complete after waiting for it");
  for (int turn = 0; turn < 20; turn++) {
    memset(data, turn + 1, BYTES);
    EXPECT_OK(r, b->upload(queue, &from, data, BYTES));
    EXPECT_OK(r, b->copy(queue, &to, &from, BYTES));
    void *event = NULL;
    EXPECT_OK(r, b->event_record(queue, &event));
    EXPECT_OK(r, b->queue_wait_event(other, event));
    EXPECT_OK(r, b->download(other, back, &to, BYTES));
    EXPECT_OK(r, b->queue_wait(other));
    complete = false;
    EXPECT_OK(r, b->event_query(r->device, event, &complete));
    const compute_status waited = b->event_wait(r->device, event);
    b->event_destroy(r->device, event);
    EXPECT_OK(r, waited);
    EXPECT(r, complete, "an event is not complete although a queue has waited for it");
    EXPECT(r, !memcmp(data, back, BYTES), "queue_wait_event did not hold the other queue back");
    EXPECT_OK(r, b->queue_wait(queue));
  }
}

/* After waiting for an event, the results of the kernel before it can be read. */
static void waiting_for_an_event_runs_the_work(run *r, const void *user) {
  const compute_backend *b = r->backend;
  (void)user;
  NEEDS(r, event_record);
  void *kernel = case_affine(r), *queue = case_queue(r);
  float *x = case_buffer(r, ITEM_BYTES), *y = case_buffer(r, ITEM_BYTES);
  const compute_memory *in = case_memory(r, ITEM_BYTES), *out = case_memory(r, ITEM_BYTES);
  for (int i = 0; i < AFFINE_COUNT; i++) x[i] = (float)i;
  case_upload(r, queue, in, 0, x, ITEM_BYTES);
  case_upload(r, queue, out, 0, y, ITEM_BYTES);
  EXPECT_OK(r, b->enqueue(queue, kernel, (compute_argument[]){{in, 0}, {out, 0}}, 2));
  EXPECT_OK(r, b->event_wait(r->device, case_event(r, queue)));
  void *other = case_queue(r);
  case_download(r, other, out, 0, y, ITEM_BYTES);
  for (int i = 0; i < AFFINE_COUNT; i++)
    EXPECT(r, y[i] == 2 * x[i] + 1, "the work before an event is not done after waiting for it");
}

/* ---- Timers -------------------------------------------------------------------------------- */

/* Independent clocks, or clocks in other units, differ by far more than this. */
static const int64_t minute = 60000000000;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void expect_between(run *r, int64_t from, int64_t time, int64_t to) {
  EXPECT(r, time > from - minute && time < to + minute,
         "a timer is %lld s from the host's CLOCK_MONOTONIC",
         (long long)((time < from ? from - time : time - to) / 1000000000));
}

static void timers_are_in_order_and_on_the_hosts_clock(run *r, const void *user) {
  enum { COUNT = 5 };
  void *timers[COUNT];
  int64_t host[COUNT + 1], times[COUNT], again = 0;
  (void)user;
  NEEDS(r, timer_record);
  void *queue = case_queue(r), *data = case_buffer(r, BYTES);
  const compute_argument at = {case_memory(r, BYTES), 0};
  for (int i = 0; i < COUNT; i++) {
    host[i] = now();
    timers[i] = case_timer(r, queue);
    EXPECT_OK(r, r->backend->upload(queue, &at, data, BYTES));
  }
  EXPECT_OK(r, r->backend->queue_wait(queue));
  host[COUNT] = now();
  for (int i = COUNT - 1; i >= 0; i--) {
    EXPECT_OK(r, r->backend->timer_read(r->device, timers[i], &times[i]));
    EXPECT_OK(r, r->backend->timer_read(r->device, timers[i], &again));
    EXPECT(r, again == times[i], "a timer gives another time when it is read again");
  }
  for (int i = 0; i < COUNT; i++) {
    expect_between(r, host[i], times[i], host[COUNT]);
    EXPECT(r, i == 0 || times[i] >= times[i - 1], "timer %d is before timer %d", i, i - 1);
  }
}

static void a_timer_waits_for_the_work_before_it(run *r, const void *user) {
  int64_t start = 0, end = 0;
  (void)user;
  NEEDS(r, timer_record);
  NEEDS(r, host_allocate);
  void *queue = case_queue(r);
  unsigned char *data = case_host_memory(r, BYTES), *back = case_buffer(r, BYTES);
  const compute_argument at = {case_memory(r, BYTES), 0};
  memset(data, 3, BYTES);
  void *first = case_timer(r, queue);
  for (int i = 0; i < 8; i++) EXPECT_OK(r, r->backend->upload(queue, &at, data, BYTES));
  void *last = case_timer(r, queue);
  EXPECT_OK(r, r->backend->timer_read(r->device, last, &end));
  memset(data, 0, BYTES); /* the upload has already read it */
  EXPECT_OK(r, r->backend->timer_read(r->device, first, &start));
  EXPECT(r, end > start, "8 MiB were copied in no time");
  case_download(r, queue, at.memory, 0, back, BYTES);
  for (int i = 0; i < BYTES; i++)
    EXPECT(r, back[i] == 3, "a timer was read before the copies before it were done");
}

static void a_timer_may_be_read_when_its_queue_is_gone(run *r, const void *user) {
  int64_t time = 0;
  void *queue = NULL;
  (void)user;
  NEEDS(r, timer_record);
  const int64_t before = now();
  EXPECT_OK(r, r->backend->queue_create(r->device, &queue));
  void *timer = case_timer(r, queue);
  case_timer(r, queue); /* never read */
  EXPECT_OK(r, r->backend->queue_wait(queue));
  r->backend->queue_destroy(queue);
  EXPECT_OK(r, r->backend->timer_read(r->device, timer, &time));
  expect_between(r, before, time, now());
}

/* ---- Recordings ---------------------------------------------------------------------------- */

typedef struct chain {
  void *queue, *kernel;
  compute_memory *memory[3];
} chain;

static void set(run *r, const chain *c, int place, float value) {
  float *data = case_buffer(r, ITEM_BYTES);
  for (int i = 0; i < AFFINE_COUNT; i++) data[i] = value + (float)i;
  case_upload(r, c->queue, c->memory[place], 0, data, ITEM_BYTES);
}

static void expect_values(run *r, const chain *c, int place, float value, float factor,
                          const char *what) {
  float *data = case_buffer(r, ITEM_BYTES);
  case_download(r, c->queue, c->memory[place], 0, data, ITEM_BYTES);
  for (int i = 0; i < AFFINE_COUNT; i++)
    EXPECT(r, data[i] == value + factor * (float)i, "%s: element %d is %g, not %g", what, i,
           (double)data[i], (double)(value + factor * (float)i));
}

static chain chain_make(run *r) {
  chain c = {.queue = case_queue(r), .kernel = case_affine(r)};
  for (int i = 0; i < 3; i++) c.memory[i] = case_memory(r, ITEM_BYTES);
  for (int i = 0; i < 3; i++) set(r, &c, i, 0);
  return c;
}

/* memory[0] → memory[1] → memory[2] */
static void *record(run *r, const chain *c, const compute_argument arguments[4]) {
  void *recording = NULL;
  EXPECT_OK(r, r->backend->record_begin(c->queue));
  compute_status s = r->backend->enqueue(c->queue, c->kernel, arguments, 2);
  if (!s) s = r->backend->enqueue(c->queue, c->kernel, arguments + 2, 2);
  const compute_status ended = r->backend->record_end(c->queue, s ? NULL : &recording);
  EXPECT_OK(r, s);
  if (ended == COMPUTE_ERROR_UNSUPPORTED) {
    char words[SERVICES_WORDS];
    services_said(&r->services, words);
    case_status(r, "record_end", ended, COMPUTE_ERROR_UNSUPPORTED);
    case_refuse(r, "%s", words);
  }
  EXPECT_OK(r, ended);
  return case_recording(r, recording);
}

static void a_recording_follows_its_arguments(run *r, const void *user) {
  (void)user;
  NEEDS(r, record_begin);
  chain c = chain_make(r), d = chain_make(r);
  const compute_argument first[4] = {
      {c.memory[0], 0}, {c.memory[1], 0}, {c.memory[1], 0}, {c.memory[2], 0}};
  const compute_argument second[4] = {
      {d.memory[0], 0}, {d.memory[1], 0}, {d.memory[1], 0}, {d.memory[2], 0}};
  void *recording = record(r, &c, first);
  expect_values(r, &c, 1, 0, 1, "what is only recorded does not run");
  for (int turn = 1; turn <= 3; turn++) {
    set(r, &c, 0, (float)turn);
    set(r, &d, 0, (float)(10 * turn));
    EXPECT_OK(r, r->backend->record_submit(c.queue, recording, first, 4));
    EXPECT_OK(r, r->backend->record_submit(c.queue, recording, second, 4));
    EXPECT_OK(r, r->backend->queue_wait(c.queue));
    expect_values(r, &c, 2, (float)(4 * turn + 3), 4, "a recording with its own arguments");
    expect_values(r, &d, 2, (float)(40 * turn + 3), 4, "a recording with other arguments");
  }
}

static void a_recording_can_be_given_up(run *r, const void *user) {
  (void)user;
  NEEDS(r, record_begin);
  chain c = chain_make(r);
  const compute_argument arguments[2] = {{c.memory[0], 0}, {c.memory[1], 0}};
  EXPECT_OK(r, r->backend->record_begin(c.queue));
  const compute_status s = r->backend->enqueue(c.queue, c.kernel, arguments, 2);
  r->backend->record_end(c.queue, NULL);
  EXPECT_OK(r, s);
  services_forget(&r->services);
  expect_values(r, &c, 1, 0, 1, "what was recorded and given up does not run");
  EXPECT_OK(r, r->backend->enqueue(c.queue, c.kernel, arguments, 2));
  expect_values(r, &c, 1, 1, 2, "the queue after a recording was given up");
}

/* ---- Another device ------------------------------------------------------------------------ */

static void copy_from(run *r, void *peer) {
  const compute_backend *b = r->backend;
  compute_memory there = {0};
  void *queue = NULL;
  unsigned char *data = case_buffer(r, BYTES), *back = case_buffer(r, BYTES);
  compute_memory *here = case_memory(r, BYTES);
  void *own = case_queue(r);
  memset(data, 0x5c, BYTES);
  compute_status s = b->memory_allocate(peer, BYTES, &there);
  const compute_argument from = {&there, 0}, to = {here, 0};
  if (!s) s = b->queue_create(peer, &queue);
  if (!s) s = b->upload(queue, &from, data, BYTES);
  if (!s) s = b->queue_wait(queue);
  if (!s) s = b->copy_from_peer(own, &to, peer, &from, BYTES);
  const bool reached = s != COMPUTE_ERROR_UNSUPPORTED;
  if (!s) s = b->queue_wait(own);
  if (queue) b->queue_destroy(queue);
  if (there.bytes) b->memory_release(peer, &there);
  if (!reached) return;
  EXPECT_OK(r, s);
  case_download(r, own, here, 0, back, BYTES);
  EXPECT(r, !memcmp(data, back, BYTES), "a copy from another device brought other bytes");
}

static void devices_copy_to_each_other(run *r, const void *user) {
  void *peer = NULL;
  (void)user;
  NEEDS(r, copy_from_peer);
  const uint32_t count = r->backend->device_count(r->instance);
  if (count < 2) case_refuse(r, "the module has one device only");
  EXPECT_OK(r, r->backend->device_open(r->instance, r->subject->index ? 0 : 1, &peer));
  /* The peer must be closed, however the copy ends. */
  jmp_buf outer;
  volatile bool ended = true;
  memcpy(&outer, &r->end, sizeof outer);
  if (setjmp(r->end) == 0) {
    copy_from(r, peer);
    ended = false;
  }
  memcpy(&r->end, &outer, sizeof outer);
  r->backend->device_close(peer);
  if (ended) longjmp(r->end, 1);
}

/* ---- Custom kernels ------------------------------------------------------------------------ */

static const char scale[] = "KERNEL void scale(GLOBAL float *x, f32 by, i32 n) {\n"
                            "  i32 i = (i32)GLOBAL_ID_X;\n"
                            "  if (i < n) x[i] *= by;\n"
                            "}\n";

/* Prepends the dialect's definitions to `source`. */
static char *portable(run *r, const char *source) {
  compute_target target = {.struct_size = sizeof target};
  NEEDS(r, custom_build);
  NEEDS(r, device_target);
  EXPECT_OK(r, r->backend->device_target(r->device, &target));
  const char *dialect = r->services.services.dialect_text(&r->services, target.dialect);
  const size_t bytes = strlen(dialect) + strlen(source) + 2;
  char *text = case_buffer(r, bytes);
  snprintf(text, bytes, "%s\n%s", dialect, source);
  return text;
}

static void a_users_kernel_runs(run *r, const void *user) {
  enum { COUNT = 100 };
  const compute_backend *b = r->backend;
  const float by = 3;
  const int32_t n = 90;
  const uint32_t groups[3] = {4, 1, 1}, group[3] = {32, 1, 1};
  float values[COUNT] = {0};
  void *kernel = NULL;
  (void)user;
  const char *text = portable(r, scale);
  void *queue = case_queue(r);
  const compute_memory *memory = case_memory(r, sizeof values);
  const compute_custom_argument arguments[3] = {
      {.memory = memory}, {.value = &by, .bytes = sizeof by}, {.value = &n, .bytes = sizeof n}};
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  case_upload(r, queue, memory, 0, values, sizeof values);
  EXPECT_OK(r, b->custom_build(r->device, text, "scale", NULL, &kernel));
  compute_status s = b->custom_launch(queue, kernel, groups, group, arguments, 3);
  if (!s) s = b->queue_wait(queue);
  b->custom_destroy(r->device, kernel);
  EXPECT_OK(r, s);
  case_download(r, queue, memory, 0, values, sizeof values);
  for (int i = 0; i < COUNT; i++)
    EXPECT(r, values[i] == (float)(i < n ? 3 * i : i), "element %d is %g", i, (double)values[i]);
}

static void a_users_mistake_is_explained(run *r, const void *user) {
  void *kernel = NULL;
  (void)user;
  const char *wrong = portable(r, "KERNEL void scale(GLOBAL float *x) { nonsense(; }\n");
  const char *right = portable(r, scale);
  EXPECT_STATUS(r, r->backend->custom_build(r->device, wrong, "scale", NULL, &kernel),
                COMPUTE_ERROR_COMPILATION);
  EXPECT_STATUS(r, r->backend->custom_build(r->device, right, "another", NULL, &kernel),
                COMPUTE_ERROR_COMPILATION);
}

void queue_cases(case_visitor add, void *user) {
  static const conformance_case cases[] = {
      {"queue/create and wait", queues_come_and_go, NULL, false},
      {"queue/order of copies", copies_keep_their_order, NULL, false},
      {"queue/order of kernels", kernels_and_copies_keep_their_order, NULL, false},
      {"queue/threads", one_kernel_serves_several_threads, NULL, false},
      {"event/complete", an_event_is_complete_when_the_work_before_it_is, NULL, false},
      {"event/wait", waiting_for_an_event_runs_the_work, NULL, false},
      {"timer/clock", timers_are_in_order_and_on_the_hosts_clock, NULL, false},
      {"timer/waits", a_timer_waits_for_the_work_before_it, NULL, false},
      {"timer/without its queue", a_timer_may_be_read_when_its_queue_is_gone, NULL, false},
      {"recording/arguments", a_recording_follows_its_arguments, NULL, false},
      {"recording/given up", a_recording_can_be_given_up, NULL, false},
      {"peer/copy", devices_copy_to_each_other, NULL, false},
      {"custom/launch", a_users_kernel_runs, NULL, false},
      {"custom/mistakes", a_users_mistake_is_explained, NULL, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(&cases[i], user);
}
