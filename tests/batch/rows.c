/* SPDX-License-Identifier: MIT */
#include "batch/rows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

float rows_data[ROWS_ITEMS * ROWS_WIDTH];
float rows_wanted[ROWS_ITEMS * ROWS_WIDTH], rows_wanted_sum[ROWS_ITEMS];

static float weights[ROWS_WIDTH];

static void make_data(void) {
  for (int i = 0; i < ROWS_ITEMS * ROWS_WIDTH; i++) rows_data[i] = (float)((i * 37) % 101) / 16 - 2;
  for (int i = 0; i < ROWS_WIDTH; i++) weights[i] = (float)i / 4 + 1;
}

void rows_pause(double milliseconds) {
  const long nanoseconds = (long)(milliseconds * 1e6);
  nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
}

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  const compute_node w = compute_parameter(graph, user);
  const compute_node x = compute_exp(graph, compute_neg(graph, compute_square(graph, inputs[0])));
  outputs[0] = compute_mul(graph, x, w);
  outputs[1] = compute_sum(graph, outputs[0], COMPUTE_AXES(1), false);
}

const compute_batch_port rows_port[] = {{COMPUTE_F32, {.rank = 1, .size = {ROWS_WIDTH}}}};

compute_batch_options rows_two_outputs(compute_tensor *parameter) {
  return (compute_batch_options){.build = build,
                                 .user = parameter,
                                 .inputs = rows_port,
                                 .input_count = 1,
                                 .output_count = 2,
                                 .name = "test"};
}

compute_tensor *rows_make_weights(void) {
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(ROWS_WIDTH), weights);
}

int rows_open_group(void **state) {
  make_data();
  test_group_open(state);
  /* The reference: all items in one run. */
  compute_tensor *w = rows_make_weights();
  compute_batch *batch;
  compute_batch_options options = rows_two_outputs(w);
  options.batch = ROWS_ITEMS;
  assert_ok(compute_batch_create(test_context, &options, &batch));
  assert_ok(compute_batch_run(
      batch,
      &(compute_batch_run_options){
          .items = ROWS_ITEMS,
          .sources = (compute_batch_source[]){{.array = rows_data}},
          .sinks = (compute_batch_sink[]){{.array = rows_wanted}, {.array = rows_wanted_sum}}},
      NULL));
  compute_batch_release(batch);
  compute_tensor_release(w);
  for (int i = 0; i < ROWS_ITEMS; i += 17) {
    double sum = 0;
    for (int j = 0; j < ROWS_WIDTH; j++) sum += rows_wanted[i * ROWS_WIDTH + j];
    assert_true(sum - rows_wanted_sum[i] < 1e-4 && rows_wanted_sum[i] - sum < 1e-4);
  }
  return 0;
}

static void be_cancelled(rows_canceller *c) {
  atomic_store(&c->reached, true);
  while (!atomic_load(&c->cancelled)) rows_pause(0.1);
}

static void delay(rows_stream *s) {
  if (s->delay > 0) rows_pause(s->delay * (rand_r(&s->seed) % 100) / 100);
}

compute_status rows_read(void *user, int64_t first, int64_t items, void *to, int64_t *count) {
  rows_stream *s = user;
  if (first != s->next) s->wrong = true;
  delay(s);
  if (s->canceller && first == 100) be_cancelled(s->canceller);
  int64_t most = s->end - first;
  const bool fails = s->fail_at >= 0 && s->fail_at < first + items;
  if (fails) most = s->fail_at - first;
  *count = items < most ? items : most;
  memcpy(to, rows_data + first * ROWS_WIDTH, (size_t)*count * ROWS_WIDTH * sizeof *rows_data);
  s->next = first + *count;
  return fails ? s->status : COMPUTE_OK;
}

compute_status rows_check(void *user, int64_t first, int64_t items, const void *from) {
  rows_stream *s = user;
  if (first != s->next) s->wrong = true;
  if (memcmp(from, rows_wanted + first * ROWS_WIDTH,
             (size_t)items * ROWS_WIDTH * sizeof *rows_wanted) != 0)
    s->wrong = true;
  delay(s);
  s->next = first + items;
  if (s->fail_at < 0 || s->fail_at >= first + items) return COMPUTE_OK;
  if (!s->cancel) return s->status;
  compute_batch_cancel(s->cancel);
  return COMPUTE_OK;
}

void rows_setting_open(rows_setting *t, int64_t batch, uint32_t slots) {
  *t = (rows_setting){
      .parameter = rows_make_weights(),
      .source = {.fail_at = -1, .end = ROWS_ITEMS, .status = COMPUTE_ERROR_FILE, .seed = 1},
      .sink = {.fail_at = -1, .status = COMPUTE_ERROR_INVALID_STATE, .seed = 2}};
  compute_batch_options options = rows_two_outputs(t->parameter);
  options.batch = batch;
  options.slots = slots;
  assert_ok(compute_batch_create(test_context, &options, &t->batch));
}

void rows_setting_close(rows_setting *t) {
  assert_false(t->source.wrong);
  assert_false(t->sink.wrong);
  compute_batch_release(t->batch);
  compute_tensor_release(t->parameter);
}

compute_status rows_setting_run(rows_setting *t, int64_t items, compute_batch_result *result) {
  t->source.next = t->sink.next = 0;
  return compute_batch_run(
      t->batch,
      &(compute_batch_run_options){
          .items = items,
          .sources = (compute_batch_source[]){{.read = rows_read, .user = &t->source}},
          .sinks =
              (compute_batch_sink[]){{.write = rows_check, .user = &t->sink}, {.discard = true}}},
      result);
}
