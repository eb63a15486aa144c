/* SPDX-License-Identifier: MIT */
/* Cancels a run between any two steps of the iterator: whenever the running thread holds no
 * lock. */
#include <string.h>

#include "support/harness/schedule.h"
#include "support/harness/test.h"

typedef struct few_items {
  int64_t delivered;
  compute_batch *batch;
} few_items;

static compute_status give_nothing(void *user, int64_t first, int64_t items, void *data,
                                   int64_t *count) {
  (void)user;
  (void)first;
  memset(data, 0, (size_t)items * sizeof(float));
  *count = items;
  return COMPUTE_OK;
}

static compute_status count_items(void *user, int64_t first, int64_t items, const void *data) {
  few_items *f = user;
  (void)data;
  f->delivered = first + items;
  return COMPUTE_OK;
}

static compute_status copy_step(void *user, const compute_batch_step *step) {
  (void)user;
  return compute_tensor_copy(step->outputs[0], step->inputs[0]);
}

static void cancel(void *argument) {
  compute_batch_cancel(((few_items *)argument)->batch);
}

/* From the moment when the run is visible until its end; the iterator's locks are free each
 * time. */
static void a_run_can_be_cancelled_at_any_moment(void **state) {
  (void)state;
  enum { ITEMS = 20, MOMENTS = 400 };
  compute_context *context;
  few_items f = {0};
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SCALAR};
  compute_batch_result result;
  bool ended = false;
  assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu"}));
  assert_ok(compute_batch_create(context,
                                 &(compute_batch_options){.step = copy_step,
                                                          .inputs = &port,
                                                          .input_count = 1,
                                                          .outputs = &port,
                                                          .output_count = 1,
                                                          .batch = 2},
                                 &f.batch));
  for (int64_t nth = 1; nth < MOMENTS && !ended; nth++) {
    f.delivered = 0;
    schedule_call_at_unlock(nth, cancel, &f);
    const compute_status s =
        compute_batch_run(f.batch,
                          &(compute_batch_run_options){
                              .items = ITEMS,
                              .sources = (compute_batch_source[]){{.read = give_nothing}},
                              .sinks = (compute_batch_sink[]){{.write = count_items, .user = &f}}},
                          &result);
    ended = schedule_unlocks() < nth; /* the moment did not occur */
    schedule_call_at_unlock(0, NULL, NULL);
    assert_int_equal(result.items, f.delivered);
    if (s != COMPUTE_ERROR_CANCELLED && (s != COMPUTE_OK || result.items != ITEMS || nth < 4))
      fail_msg("cancelled at unlock %lld: %s after %lld items", (long long)nth,
               compute_status_name(s), (long long)result.items);
  }
  assert_true(ended);
  compute_batch_release(f.batch);
  assert_ok(compute_close(context));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_can_be_cancelled_at_any_moment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
