/* SPDX-License-Identifier: MIT */
/* The times of an iterator, queried by a thread that is delayed between two reads of the clock: no
 * part of a run takes longer than the run. */
#include <string.h>
#include <time.h>

#include "support/harness/test.h"

enum { ITEMS = 40, BATCH = 10, HELD_UP_MS = 30 };

static _Thread_local bool held_up;

/* Names made by the linker's --wrap. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  const int code = __real_clock_gettime(clock, now);
  if (held_up) nanosleep(&(struct timespec){0, HELD_UP_MS * 1000000}, NULL);
  return code;
}

typedef struct asker {
  compute_batch *batch;
  int asked;
  compute_batch_times worst; /* the times with the largest excess over the run */
} asker;

static double longest(const compute_batch_times *times) {
  double most = times->reading > times->computing ? times->reading : times->computing;
  return most > times->writing ? most : times->writing;
}

static compute_status ask(asker *a) {
  compute_batch_times times;
  held_up = true;
  const compute_status s = compute_batch_times_get(a->batch, &times);
  held_up = false;
  if (a->asked++ == 0 || longest(&times) - times.seconds > longest(&a->worst) - a->worst.seconds)
    a->worst = times;
  return s;
}

static compute_status read_some(void *user, int64_t first, int64_t items, void *data,
                                int64_t *count) {
  (void)first;
  memset(data, 0, (size_t)items * sizeof(float));
  *count = items;
  return ask(user);
}

static compute_status copy_step(void *user, const compute_batch_step *step) {
  (void)user;
  return compute_tensor_copy(step->outputs[0], step->inputs[0]);
}

/* The source queries the times while it reads, first right after the start. So it is busy for
 * nearly the whole run. */
static void no_part_takes_longer_than_the_run(void **state) {
  (void)state;
  compute_context *context;
  asker a = {0};
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SCALAR};
  assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu"}));
  assert_ok(compute_batch_create(context,
                                 &(compute_batch_options){.step = copy_step,
                                                          .inputs = &port,
                                                          .input_count = 1,
                                                          .outputs = &port,
                                                          .output_count = 1,
                                                          .batch = BATCH},
                                 &a.batch));
  assert_ok(
      compute_batch_run(a.batch,
                        &(compute_batch_run_options){
                            .items = ITEMS,
                            .sources = (compute_batch_source[]){{.read = read_some, .user = &a}},
                            .sinks = (compute_batch_sink[]){{.discard = true}}},
                        NULL));
  assert_true(a.asked >= ITEMS / BATCH);
  if (longest(&a.worst) > a.worst.seconds)
    fail_msg("after %g s: reading %g s, computing %g s, writing %g s", a.worst.seconds,
             a.worst.reading, a.worst.computing, a.worst.writing);
  assert_true(a.worst.reading > 0);
  compute_batch_release(a.batch);
  assert_ok(compute_close(context));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_part_takes_longer_than_the_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
