/* SPDX-License-Identifier: MIT */
/* The batch iterator: what comes out, in which order, and how a run ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/harness/test.h"

enum { WIDTH = 5, ITEMS = 1003 };

static float data[ITEMS * WIDTH], weights[WIDTH];
static float wanted[ITEMS * WIDTH], wanted_sum[ITEMS];

static void make_data(void) {
  for (int i = 0; i < ITEMS * WIDTH; i++) data[i] = (float)((i * 37) % 101) / 16 - 2;
  for (int i = 0; i < WIDTH; i++) weights[i] = (float)i / 4 + 1;
}

static void pause_for(double milliseconds) {
  const long nanoseconds = (long)(milliseconds * 1e6);
  nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
}

/* y = exp(-x²) · weights, and its sum over each item. */
static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  const compute_node w = compute_parameter(graph, user);
  const compute_node x = compute_exp(graph, compute_neg(graph, compute_square(graph, inputs[0])));
  outputs[0] = compute_mul(graph, x, w);
  outputs[1] = compute_sum(graph, outputs[0], COMPUTE_AXES(1), false);
}

static const compute_batch_port row[] = {{COMPUTE_F32, {.rank = 1, .size = {WIDTH}}}};

static compute_batch_options two_outputs(compute_tensor *parameter) {
  return (compute_batch_options){.build = build,
                                 .user = parameter,
                                 .inputs = row,
                                 .input_count = 1,
                                 .output_count = 2,
                                 .name = "test"};
}

static compute_tensor *make_weights(void) {
  return test_tensor(test_context, COMPUTE_F32, COMPUTE_SHAPE(WIDTH), weights);
}

static int open_group(void **state) {
  make_data();
  test_group_open(state);
  /* The truth: all items in one run. */
  compute_tensor *w = make_weights();
  compute_batch *batch;
  compute_batch_options options = two_outputs(w);
  options.batch = ITEMS;
  assert_ok(compute_batch_create(test_context, &options, &batch));
  assert_ok(compute_batch_run(
      batch,
      &(compute_batch_run_options){
          .items = ITEMS,
          .sources = (compute_batch_source[]){{.array = data}},
          .sinks = (compute_batch_sink[]){{.array = wanted}, {.array = wanted_sum}}},
      NULL));
  compute_batch_release(batch);
  compute_tensor_release(w);
  for (int i = 0; i < ITEMS; i += 17) {
    double sum = 0;
    for (int j = 0; j < WIDTH; j++) sum += wanted[i * WIDTH + j];
    assert_true(sum - wanted_sum[i] < 1e-4 && wanted_sum[i] - sum < 1e-4);
  }
  return 0;
}

/* Runs all items, array to array, and compares every bit. */
static void check_arrays(const compute_batch_options *options, compute_batch_result *result) {
  float *out = calloc(ITEMS * WIDTH, sizeof *out), *sum = calloc(ITEMS, sizeof *sum);
  compute_batch *batch;
  assert_ok(compute_batch_create(test_context, options, &batch));
  for (int round = 0; round < 2; round++) { /* the second run finds slots and plans */
    memset(out, 0, ITEMS * WIDTH * sizeof *out);
    assert_ok(
        compute_batch_run(batch,
                          &(compute_batch_run_options){
                              .items = ITEMS,
                              .sources = (compute_batch_source[]){{.array = data}},
                              .sinks = (compute_batch_sink[]){{.array = out}, {.array = sum}}},
                          result));
    assert_memory_equal(out, wanted, sizeof wanted);
    /* The CPU sums few rows in another order than many. */
    for (int i = 0; i < ITEMS; i++) assert_float_equal(sum[i], wanted_sum[i], 1e-5);
    assert_int_equal(result->items, ITEMS);
    assert_int_equal(result->bytes_read, sizeof data);
    assert_int_equal(result->bytes_written, sizeof wanted + sizeof wanted_sum);
  }
  compute_batch_release(batch);
  free(out);
  free(sum);
}

static void results_depend_on_neither_batch_size_nor_slots(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 64, 250, ITEMS, 5000};
  compute_tensor *w = make_weights();
  compute_batch_options options = two_outputs(w);
  compute_batch_result result;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (uint32_t slots = 1; slots <= 3; slots++) {
      options.batch = sizes[i];
      options.slots = slots;
      check_arrays(&options, &result);
      if (sizes[i] > 0) assert_int_equal(result.batches, (ITEMS + sizes[i] - 1) / sizes[i]);
    }
  compute_tensor_release(w);
}

/* The default device, the CPU, and the default device once more. The parameter lies on one of them.
 */
static void results_do_not_depend_on_who_took_part(void **state) {
  (void)state;
  compute_device *cpu;
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  compute_device *first = compute_default_device(test_context);
  compute_device *const devices[] = {first, cpu, first};
  compute_tensor *w = make_weights();
  compute_batch_options options = two_outputs(w);
  options.batch = 50;
  options.devices = devices;
  options.device_count = first == cpu ? 3 : 1; /* other devices round in their own way */
  check_arrays(&options, &result);
  compute_tensor_release(w);
}

/* ---- Sources and sinks --------------------------------------------------------------------- */

/* Another thread, which cancels while item 100 is being read, however slow either of them is. */
typedef struct canceller {
  compute_batch *batch;
  atomic_bool reached, cancelled;
} canceller;

static void be_cancelled(canceller *c) {
  atomic_store(&c->reached, true);
  while (!atomic_load(&c->cancelled)) pause_for(0.1);
}

typedef struct stream {
  int64_t next;          /* calls come in order */
  int64_t fail_at;       /* item; negative: never */
  int64_t end;           /* items of a source */
  compute_status status; /* of the failure */
  double delay;          /* at most, milliseconds */
  unsigned seed;
  bool wrong;
  compute_batch *cancel; /* at fail_at, instead of failing */
  canceller *canceller;
} stream;

static void delay(stream *s) {
  if (s->delay > 0) pause_for(s->delay * (rand_r(&s->seed) % 100) / 100);
}

static compute_status read_rows(void *user, int64_t first, int64_t items, void *to,
                                int64_t *count) {
  stream *s = user;
  if (first != s->next) s->wrong = true;
  delay(s);
  if (s->canceller && first == 100) be_cancelled(s->canceller);
  int64_t most = s->end - first;
  const bool fails = s->fail_at >= 0 && s->fail_at < first + items;
  if (fails) most = s->fail_at - first;
  *count = items < most ? items : most;
  memcpy(to, data + first * WIDTH, (size_t)*count * WIDTH * sizeof *data);
  s->next = first + *count;
  return fails ? s->status : COMPUTE_OK;
}

static compute_status check_rows(void *user, int64_t first, int64_t items, const void *from) {
  stream *s = user;
  if (first != s->next) s->wrong = true;
  if (memcmp(from, wanted + first * WIDTH, (size_t)items * WIDTH * sizeof *wanted) != 0)
    s->wrong = true;
  delay(s);
  s->next = first + items;
  if (s->fail_at < 0 || s->fail_at >= first + items) return COMPUTE_OK;
  if (s->cancel == NULL) return s->status;
  compute_batch_cancel(s->cancel);
  return COMPUTE_OK;
}

typedef struct setting {
  compute_batch *batch;
  compute_tensor *parameter;
  stream source, sink;
} setting;

static void open_setting(setting *t, int64_t batch, uint32_t slots) {
  *t = (setting){.parameter = make_weights(),
                 .source = {.fail_at = -1, .end = ITEMS, .status = COMPUTE_ERROR_FILE, .seed = 1},
                 .sink = {.fail_at = -1, .status = COMPUTE_ERROR_INVALID_STATE, .seed = 2}};
  compute_batch_options options = two_outputs(t->parameter);
  options.batch = batch;
  options.slots = slots;
  assert_ok(compute_batch_create(test_context, &options, &t->batch));
}

static void close_setting(setting *t) {
  assert_false(t->source.wrong);
  assert_false(t->sink.wrong);
  compute_batch_release(t->batch);
  compute_tensor_release(t->parameter);
}

static compute_status run_setting(setting *t, int64_t items, compute_batch_result *result) {
  t->source.next = t->sink.next = 0;
  return compute_batch_run(
      t->batch,
      &(compute_batch_run_options){
          .items = items,
          .sources = (compute_batch_source[]){{.read = read_rows, .user = &t->source}},
          .sinks =
              (compute_batch_sink[]){{.write = check_rows, .user = &t->sink}, {.discard = true}}},
      result);
}

static void callbacks_come_in_order_whatever_each_part_takes(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  for (uint32_t slots = 1; slots <= 4; slots++) {
    open_setting(&t, 37, slots);
    t.source.delay = t.sink.delay = 2;
    assert_ok(run_setting(&t, ITEMS, &result));
    assert_int_equal(t.sink.next, ITEMS);
    close_setting(&t);
  }
}

static void a_run_ends_with_its_source(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  open_setting(&t, 100, 3);
  static const int64_t ends[] = {0, 1, 99, 100, 101, 300, ITEMS};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    t.source.end = ends[i];
    assert_ok(run_setting(&t, COMPUTE_BATCH_UNTIL_END, &result));
    assert_int_equal(result.items, ends[i]);
    assert_int_equal(t.sink.next, ends[i]);
  }
  /* A source that was said to have more is an error, after what it had. */
  t.source.end = 250;
  assert_fails(run_setting(&t, ITEMS, &result), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "ended after 250 of 1003 items");
  test_check_message(test_context, "250 items are complete");
  assert_int_equal(result.items, 250);
  close_setting(&t);
}

static void nothing_and_one_item_are_runs_too(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  open_setting(&t, 0, 0);
  assert_ok(run_setting(&t, 0, &result));
  assert_int_equal(result.items, 0);
  assert_int_equal(t.sink.next, 0);
  assert_ok(run_setting(&t, 1, &result));
  assert_int_equal(result.items, 1);
  assert_int_equal(t.sink.next, 1);
  close_setting(&t);
}

static void a_failing_source_ends_the_run_behind_what_it_gave(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  open_setting(&t, 40, 3);
  static const int64_t at[] = {0, 1, 39, 40, 41, 500, ITEMS - 1};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    char message[80];
    t.source.fail_at = at[i];
    t.sink.delay = (double)(i % 2);
    assert_fails(run_setting(&t, ITEMS, &result), COMPUTE_ERROR_FILE);
    snprintf(message, sizeof message, "source of input 0 failed at item %lld", (long long)at[i]);
    test_check_message(test_context, message);
    assert_int_equal(result.items, at[i]);
    assert_int_equal(t.sink.next, at[i]);
  }
  t.source.fail_at = -1;
  assert_ok(run_setting(&t, ITEMS, &result)); /* the iterator is as good as new */
  close_setting(&t);
}

static void a_failing_sink_ends_the_run_and_its_items_do_not_count(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  for (uint32_t slots = 1; slots <= 3; slots++) {
    open_setting(&t, 40, slots);
    for (t.sink.fail_at = 0; t.sink.fail_at < ITEMS; t.sink.fail_at += 333) {
      char message[80];
      const long long before = (long long)(t.sink.fail_at / 40 * 40);
      assert_fails(run_setting(&t, ITEMS, &result), COMPUTE_ERROR_INVALID_STATE);
      assert_int_equal(result.items, before);
      snprintf(message, sizeof message, "%lld items are complete", before);
      test_check_message(test_context, message);
    }
    t.sink.fail_at = -1;
    assert_ok(run_setting(&t, ITEMS, &result));
    close_setting(&t);
  }
}

static void files_hold_what_arrays_do(void **state) {
  (void)state;
  static const char in[] = TEST_SCRATCH_DIR "/in", out[] = TEST_SCRATCH_DIR "/out";
  static const char head[16] = "sixteen bytes...";
  setting t;
  compute_batch_result result;
  float read[WIDTH * ITEMS];
  char found[16];
  open_setting(&t, 64, 3);
  FILE *file = fopen(in, "wb");
  fwrite(head, 1, sizeof head, file);
  fwrite(data, 1, sizeof data, file);
  fclose(file);
  file = fopen(out, "wb");
  fwrite(head, 1, sizeof head, file);
  fclose(file);
  const compute_batch_source source = {.path = in, .offset = sizeof head};
  const compute_batch_sink sinks[] = {{.path = out, .offset = sizeof head}, {.discard = true}};
  compute_batch_run_options options = {
      .items = COMPUTE_BATCH_UNTIL_END, .sources = &source, .sinks = sinks};
  assert_ok(compute_batch_run(t.batch, &options, &result));
  assert_int_equal(result.items, ITEMS);
  file = fopen(out, "rb");
  assert_int_equal(fread(found, 1, sizeof found, file), sizeof found);
  assert_memory_equal(found, head, sizeof head);
  assert_int_equal(fread(read, 1, sizeof read, file), sizeof read);
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
  assert_memory_equal(read, wanted, sizeof wanted);
  /* A file with half an item behind the whole ones. */
  file = fopen(in, "ab");
  fwrite(data, 1, 6, file);
  fclose(file);
  assert_fails(compute_batch_run(t.batch, &options, &result), COMPUTE_ERROR_FILE);
  test_check_message(test_context, "middle of item 1003");
  assert_int_equal(result.items, ITEMS);
  options.sources = &(compute_batch_source){.path = TEST_SCRATCH_DIR "/none"};
  assert_fails(compute_batch_run(t.batch, &options, &result), COMPUTE_ERROR_FILE);
  options.sources = &source;
  options.sinks = (compute_batch_sink[]){{.path = "/dev/full"}, {.discard = true}};
  options.items = ITEMS;
  assert_fails(compute_batch_run(t.batch, &options, &result), COMPUTE_ERROR_FILE);
  assert_int_equal(result.items, 0);
  close_setting(&t);
}

/* ---- Steps --------------------------------------------------------------------------------- */

typedef struct step_state {
  const float *array;
  int64_t fail_at;
  unsigned seed;
  double delay;
  atomic_int in_place, calls;
} step_state;

/* Copies, with a pause that differs. */
static compute_status copy_step(void *user, const compute_batch_step *step) {
  step_state *s = user;
  unsigned seed = (unsigned)step->first + s->seed;
  atomic_fetch_add(&s->calls, 1);
  if (compute_tensor_data(step->inputs[0]) == s->array + step->first * WIDTH)
    atomic_fetch_add(&s->in_place, 1);
  if (s->delay > 0) pause_for(s->delay * (rand_r(&seed) % 100) / 100);
  if (s->fail_at >= step->first && s->fail_at < step->first + step->items)
    return COMPUTE_ERROR_INVALID_STATE;
  /* A copy does not go through the step's queue, on which the upload may still be under way. */
  compute_status status = step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
  return status ? status : compute_tensor_copy(step->outputs[0], step->inputs[0]);
}

/* Copies the last input. */
static compute_status last_step(void *user, const compute_batch_step *step) {
  (void)user;
  const compute_status status = step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
  return status ? status : compute_tensor_copy(step->outputs[0], step->inputs[1]);
}

/* There is nothing to do. */
static compute_status no_step(void *user, const compute_batch_step *step) {
  (void)user;
  (void)step;
  return COMPUTE_OK;
}

static compute_batch *step_batch(step_state *s, compute_device *const *devices, size_t count) {
  compute_batch *batch;
  assert_ok(compute_batch_create(test_context,
                                 &(compute_batch_options){.step = copy_step,
                                                          .user = s,
                                                          .inputs = row,
                                                          .input_count = 1,
                                                          .outputs = row,
                                                          .output_count = 1,
                                                          .batch = 20,
                                                          .devices = devices,
                                                          .device_count = count},
                                 &batch));
  return batch;
}

static compute_status run_copy(compute_batch *batch, float *out, compute_batch_result *result) {
  return compute_batch_run(
      batch,
      &(compute_batch_run_options){.items = ITEMS,
                                   .sources = (compute_batch_source[]){{.array = data}},
                                   .sinks = (compute_batch_sink[]){{.array = out}}},
      result);
}

/* null:0 has memory of its own, as a GPU has. */
static void steps_on_several_devices_keep_the_order(void **state) {
  (void)state;
  compute_device *cpu, *null;
  static float out[ITEMS * WIDTH];
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  assert_ok(compute_device_by_name(test_context, "null", &null));
  compute_device *const devices[] = {null, cpu, null, compute_default_device(test_context)};
  for (unsigned seed = 0; seed < 4; seed++) {
    step_state s = {.array = data, .fail_at = -1, .seed = seed, .delay = 3};
    compute_batch *batch = step_batch(&s, devices, 4);
    memset(out, 0, sizeof out);
    assert_ok(run_copy(batch, out, &result));
    assert_memory_equal(out, data, sizeof data);
    int64_t share = 0;
    compute_batch_device_info info;
    for (size_t i = 0; i < 4; i++) {
      assert_ok(compute_batch_device_at(batch, i, &info));
      assert_ptr_equal(info.device, devices[i]);
      assert_true(info.items > 0);
      share += info.items;
    }
    assert_int_equal(share, ITEMS);
    assert_fails(compute_batch_device_at(batch, 4, &info), COMPUTE_ERROR_INVALID_ARGUMENT);
    compute_batch_release(batch);
  }
}

static void a_failing_step_ends_the_run_before_its_batch(void **state) {
  (void)state;
  compute_device *null;
  static float out[ITEMS * WIDTH];
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "null", &null));
  step_state s = {.fail_at = 510, .delay = 0.3};
  compute_batch *batch = step_batch(&s, &null, 1);
  assert_fails(run_copy(batch, out, &result), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(test_context, "500 items are complete");
  assert_int_equal(result.items, 500);
  assert_memory_equal(out, data, 500 * WIDTH * sizeof *data);
  s.fail_at = -1;
  assert_ok(run_copy(batch, out, &result));
  assert_memory_equal(out, data, sizeof data);
  compute_batch_release(batch);
}

static void the_cpu_computes_in_the_callers_arrays(void **state) {
  (void)state;
  compute_device *cpu;
  static float out[ITEMS * WIDTH];
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  step_state s = {.array = data, .fail_at = -1};
  compute_batch *batch = step_batch(&s, &cpu, 1);
  assert_ok(run_copy(batch, out, &result));
  assert_int_equal(atomic_load(&s.in_place), atomic_load(&s.calls));
  assert_int_equal(result.slot_bytes, 0);
  compute_batch_release(batch);
}

/* ---- Progress and cancelling --------------------------------------------------------------- */

typedef struct watcher {
  int calls;
  int64_t last, stop_at;
  bool wrong;
} watcher;

static bool watch(void *user, const compute_batch_progress *p) {
  watcher *w = user;
  w->calls++;
  w->wrong |= p->items < w->last || p->total != ITEMS || p->rate < 0;
  w->wrong |= p->items == p->total && p->seconds_left != 0;
  w->last = p->items;
  return w->stop_at < 0 || p->items < w->stop_at;
}

static compute_status run_watched(setting *t, watcher *w, double seconds,
                                  compute_batch_result *result) {
  t->source.next = t->sink.next = 0;
  return compute_batch_run(
      t->batch,
      &(compute_batch_run_options){
          .items = ITEMS,
          .sources = (compute_batch_source[]){{.read = read_rows, .user = &t->source}},
          .sinks =
              (compute_batch_sink[]){{.write = check_rows, .user = &t->sink}, {.discard = true}},
          .progress = watch,
          .progress_user = w,
          .progress_seconds = seconds},
      result);
}

static void progress_is_told_now_and_then_and_may_cancel(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  watcher w = {.stop_at = -1};
  open_setting(&t, 10, 3);
  t.source.delay = 2;
  assert_ok(run_watched(&t, &w, 0.02, &result));
  assert_false(w.wrong);
  assert_int_equal(w.last, ITEMS);
  assert_in_range(w.calls, 2, (int)(result.seconds / 0.02) + 2);
  w = (watcher){.stop_at = 200};
  assert_fails(run_watched(&t, &w, 0.01, &result), COMPUTE_ERROR_CANCELLED);
  assert_in_range(result.items, 200, ITEMS - 1);
  assert_int_equal(result.items, t.sink.next);
  close_setting(&t);
}

/* ---- Times --------------------------------------------------------------------------------- */

enum { TIMED_BATCHES = 12 };

/* What each part sleeps for, and what was said of it during the run. */
typedef struct timed {
  compute_batch *batch;
  double pauses[3]; /* milliseconds of source, step and sink */
  compute_batch_times seen;
} timed;

static compute_status timed_read(void *user, int64_t first, int64_t items, void *to,
                                 int64_t *count) {
  const timed *t = user;
  (void)first;
  pause_for(t->pauses[0]);
  memset(to, 0, (size_t)items * WIDTH * sizeof *data);
  *count = items;
  return COMPUTE_OK;
}

static compute_status timed_step(void *user, const compute_batch_step *step) {
  const timed *t = user;
  pause_for(t->pauses[1]);
  return step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
}

static compute_status timed_write(void *user, int64_t first, int64_t items, const void *from) {
  timed *t = user;
  (void)first, (void)items, (void)from;
  pause_for(t->pauses[2]);
  return compute_batch_times_get(t->batch, &t->seen);
}

/* Busy for as long as it slept at least, and for no longer than the run. */
static void check_times(const timed *t, const compute_batch_times *times, int batches) {
  const double busy[] = {times->reading, times->computing, times->writing};
  for (int i = 0; i < 3; i++) {
    assert_true(busy[i] >= 1e-3 * batches * t->pauses[i]);
    assert_true(busy[i] <= times->seconds);
  }
}

static void times_say_what_each_part_took(void **state) {
  (void)state;
  compute_batch_times times = {.seconds = 1};
  for (int slow = 0; slow < 3; slow++) {
    timed t = {.pauses = {2, 2, 2}};
    t.pauses[slow] = 6;
    assert_ok(compute_batch_create(test_context,
                                   &(compute_batch_options){.step = timed_step,
                                                            .user = &t,
                                                            .inputs = row,
                                                            .input_count = 1,
                                                            .outputs = row,
                                                            .output_count = 1,
                                                            .batch = 10},
                                   &t.batch));
    assert_ok(compute_batch_times_get(t.batch, &times));
    assert_true(times.seconds == 0 && times.reading == 0 && times.computing == 0);
    for (int run = 0; run < 2; run++) { /* the second one begins at 0 again */
      compute_batch_result result;
      assert_ok(compute_batch_run(
          t.batch,
          &(compute_batch_run_options){
              .items = 10 * TIMED_BATCHES,
              .sources = (compute_batch_source[]){{.read = timed_read, .user = &t}},
              .sinks = (compute_batch_sink[]){{.write = timed_write, .user = &t}}},
          &result));
      assert_ok(compute_batch_times_get(t.batch, &times));
      check_times(&t, &t.seen, TIMED_BATCHES - 1);
      check_times(&t, &times, TIMED_BATCHES);
      assert_true(times.seconds <= result.seconds);
    }
    compute_batch_release(t.batch);
  }
  assert_fails(compute_batch_times_get(NULL, &times), COMPUTE_ERROR_NULL_POINTER);
}

static void a_sink_may_cancel(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  open_setting(&t, 10, 3);
  t.sink.cancel = t.batch;
  t.sink.fail_at = 405;
  assert_fails(run_setting(&t, ITEMS, &result), COMPUTE_ERROR_CANCELLED);
  test_check_message(test_context, "410 items are complete");
  assert_int_equal(result.items, 410);
  t.sink.fail_at = -1;
  compute_batch_cancel(t.batch); /* without a run: nothing */
  assert_ok(run_setting(&t, ITEMS, &result));
  close_setting(&t);
}

static void *cancel_when_reached(void *argument) {
  canceller *c = argument;
  while (!atomic_load(&c->reached)) pause_for(0.1);
  compute_batch_cancel(c->batch);
  atomic_store(&c->cancelled, true);
  return NULL;
}

static void another_thread_may_cancel(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  open_setting(&t, 1, 3);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    canceller c = {.batch = t.batch};
    t.source.canceller = &c;
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_reached, &c), 0);
    assert_fails(run_setting(&t, ITEMS, &result), COMPUTE_ERROR_CANCELLED);
    pthread_join(thread, NULL);
    assert_int_equal(result.items, t.sink.next);
    assert_in_range(result.items, 0, 101);
  }
  close_setting(&t);
}

typedef struct runner {
  setting t;
  compute_status status;
} runner;

static void *run_in_thread(void *argument) {
  runner *r = argument;
  r->status = run_setting(&r->t, ITEMS, NULL);
  return NULL;
}

static void iterators_run_at_once_but_each_only_once(void **state) {
  (void)state;
  runner runners[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    open_setting(&runners[i].t, 20, 2);
    runners[i].t.source.delay = 2;
    assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &runners[i]), 0);
  }
  pause_for(20);
  compute_batch_device_info info;
  assert_fails(
      compute_batch_run(runners[0].t.batch, &(compute_batch_run_options){.items = 1}, NULL),
      COMPUTE_ERROR_INVALID_STATE);
  assert_fails(compute_batch_device_at(runners[0].t.batch, 0, &info), COMPUTE_ERROR_INVALID_STATE);
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(runners[i].status, COMPUTE_OK);
    close_setting(&runners[i].t);
  }
}

static void a_run_that_fails_before_its_first_batch_has_counts_of_its_own(void **state) {
  (void)state;
  setting t;
  compute_batch_result result;
  compute_batch_device_info info;
  open_setting(&t, 100, 2);
  assert_ok(run_setting(&t, ITEMS, &result));
  assert_ok(compute_batch_device_at(t.batch, 0, &info));
  assert_int_equal(info.items, ITEMS);
  assert_fails(
      compute_batch_run(t.batch,
                        &(compute_batch_run_options){
                            .items = ITEMS,
                            .sources = (compute_batch_source[]){{.path = TEST_SCRATCH_DIR "/none"}},
                            .sinks = (compute_batch_sink[]){{.discard = true}, {.discard = true}}},
                        &result),
      COMPUTE_ERROR_FILE);
  assert_int_equal(result.items, 0);
  assert_ok(compute_batch_device_at(t.batch, 0, &info));
  assert_int_equal(info.items, 0);
  close_setting(&t);
}

static atomic_bool enough;

/* For ThreadSanitizer. */
static void *ask_for_devices(void *argument) {
  const runner *r = argument;
  compute_batch_device_info info;
  bool wrong = false;
  while (!atomic_load(&enough)) {
    const compute_status s = compute_batch_device_at(r->t.batch, 0, &info);
    wrong |= s != COMPUTE_OK && s != COMPUTE_ERROR_INVALID_STATE;
  }
  return wrong ? argument : NULL;
}

static void devices_may_be_asked_for_while_runs_begin_and_end(void **state) {
  (void)state;
  runner r;
  pthread_t thread;
  void *wrong;
  open_setting(&r.t, 250, 2);
  assert_int_equal(pthread_create(&thread, NULL, ask_for_devices, &r), 0);
  for (int i = 0; i < 5; i++) assert_ok(run_setting(&r.t, ITEMS, NULL));
  atomic_store(&enough, true);
  pthread_join(thread, &wrong);
  assert_null(wrong);
  close_setting(&r.t);
}

/* ---- Several inputs ------------------------------------------------------------------------ */

static void build_two(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                      compute_node *outputs) {
  (void)user;
  const compute_node factor =
      compute_reshape(graph, compute_cast(graph, inputs[1], COMPUTE_F32), COMPUTE_SHAPE(items, 1));
  outputs[0] = compute_mul(graph, inputs[0], factor);
}

static void inputs_of_several_kinds_go_together(void **state) {
  (void)state;
  static float out[ITEMS * WIDTH];
  static int32_t factors[ITEMS];
  stream source = {.fail_at = -1, .end = ITEMS};
  const compute_batch_port inputs[] = {row[0], {COMPUTE_I32, COMPUTE_SCALAR}};
  compute_batch *batch;
  compute_batch_result result;
  for (int i = 0; i < ITEMS; i++) factors[i] = i % 8;
  assert_ok(compute_batch_create(
      test_context,
      &(compute_batch_options){
          .build = build_two, .inputs = inputs, .input_count = 2, .output_count = 1, .batch = 77},
      &batch));
  compute_batch_run_options options = {
      .items = COMPUTE_BATCH_UNTIL_END,
      .sources = (compute_batch_source[]){{.read = read_rows, .user = &source}, {.array = factors}},
      .sinks = (compute_batch_sink[]){{.array = out}}};
  assert_ok(compute_batch_run(batch, &options, &result));
  assert_int_equal(result.items, ITEMS);
  for (int i = 0; i < ITEMS * WIDTH; i++)
    assert_true(out[i] == data[i] * (float)factors[i / WIDTH]);
  /* Two sources that end at different items. */
  stream other = {.fail_at = -1, .end = 400};
  source = (stream){.fail_at = -1, .end = ITEMS};
  const compute_batch_port rows[] = {row[0], row[0]};
  compute_batch_release(batch);
  step_state s = {.fail_at = -1};
  assert_ok(compute_batch_create(test_context,
                                 &(compute_batch_options){.step = copy_step,
                                                          .user = &s,
                                                          .inputs = rows,
                                                          .input_count = 2,
                                                          .outputs = row,
                                                          .output_count = 1,
                                                          .batch = 77},
                                 &batch));
  options.sources = (compute_batch_source[]){{.read = read_rows, .user = &source},
                                             {.read = read_rows, .user = &other}};
  assert_fails(compute_batch_run(batch, &options, &result), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "input 1 ended after 400 items, but another source has more");
  assert_int_equal(result.items, 400);
  compute_batch_release(batch);
}

typedef struct number_stream {
  int64_t end, fail_at;
} number_stream;

static compute_status read_numbers(void *user, int64_t first, int64_t items, void *to,
                                   int64_t *count) {
  const number_stream *s = user;
  int32_t *numbers = to;
  const int64_t left = s->end - first;
  const bool fails = s->fail_at >= first && s->fail_at < first + items;
  *count = fails ? s->fail_at - first : items < left ? items : left;
  for (int64_t i = 0; i < *count; i++) numbers[i] = (int32_t)((first + i) % 8);
  return fails ? COMPUTE_ERROR_INVALID_STATE : COMPUTE_OK;
}

/* What is read before a failure is delivered, and for that every source must have been read. */
static void what_one_source_gave_before_it_failed_is_read_from_the_others(void **state) {
  (void)state;
  static const struct {
    stream first;
    number_stream second;
    int64_t items; /* complete */
    compute_status status;
    const char *message;
  } cases[] = {
      {{.fail_at = 250, .end = ITEMS, .status = COMPUTE_ERROR_FILE},
       {ITEMS, -1},
       250,
       COMPUTE_ERROR_FILE,
       "input 0 failed at item 250"},
      {{.fail_at = -1, .end = 250},
       {ITEMS, -1},
       250,
       COMPUTE_ERROR_INVALID_ARGUMENT,
       "input 0 ended after 250"},
      {{.fail_at = 250, .end = ITEMS, .status = COMPUTE_ERROR_FILE},
       {240, -1},
       240,
       COMPUTE_ERROR_INVALID_ARGUMENT,
       "input 1 ended after 240"},
      {{.fail_at = 250, .end = ITEMS, .status = COMPUTE_ERROR_FILE},
       {ITEMS, 235},
       235,
       COMPUTE_ERROR_INVALID_STATE,
       "input 1 failed at item 235"},
      {{.fail_at = 250, .end = ITEMS, .status = COMPUTE_ERROR_FILE},
       {ITEMS, 255},
       250,
       COMPUTE_ERROR_FILE,
       "input 0 failed at item 250"},
  };
  static float out[ITEMS * WIDTH];
  const compute_batch_port inputs[] = {row[0], {COMPUTE_I32, COMPUTE_SCALAR}};
  compute_batch *batch;
  compute_batch_result result;
  assert_ok(compute_batch_create(
      test_context,
      &(compute_batch_options){
          .build = build_two, .inputs = inputs, .input_count = 2, .output_count = 1, .batch = 77},
      &batch));
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    stream first = cases[c].first;
    number_stream second = cases[c].second;
    const compute_batch_run_options options = {
        .items = ITEMS,
        .sources = (compute_batch_source[]){{.read = read_rows, .user = &first},
                                            {.read = read_numbers, .user = &second}},
        .sinks = (compute_batch_sink[]){{.array = out}}};
    memset(out, 0, sizeof out);
    assert_fails(compute_batch_run(batch, &options, &result), cases[c].status);
    test_check_message(test_context, cases[c].message);
    assert_int_equal(result.items, cases[c].items);
    for (int64_t i = 0; i < result.items * WIDTH; i++)
      assert_true(out[i] == data[i] * (float)(i / WIDTH % 8));
  }
  compute_batch_release(batch);
}

/* A file of nothing has as many such items as one likes. */
static void a_file_of_items_without_bytes_has_no_end(void **state) {
  (void)state;
  static const char in[] = TEST_SCRATCH_DIR "/empty";
  const compute_batch_port inputs[] = {{COMPUTE_F32, {.rank = 1, .size = {0}}}, row[0]};
  stream rows = {.fail_at = -1, .end = 130};
  compute_batch_result result;
  compute_batch *batch;
  static float out[ITEMS * WIDTH];
  step_state s = {.fail_at = -1};
  fclose(fopen(in, "wb"));
  compute_batch_options options = {.step = no_step,
                                   .user = &s,
                                   .inputs = inputs,
                                   .input_count = 1,
                                   .outputs = inputs,
                                   .output_count = 1,
                                   .batch = 20};
  const compute_batch_source sources[] = {{.path = in}, {.read = read_rows, .user = &rows}};
  compute_batch_run_options run = {.items = COMPUTE_BATCH_UNTIL_END,
                                   .sources = sources,
                                   .sinks = (compute_batch_sink[]){{.discard = true}}};
  assert_ok(compute_batch_create(test_context, &options, &batch));
  assert_fails(compute_batch_run(batch, &run, &result), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "no source has an end");
  run.items = 45;
  assert_ok(compute_batch_run(batch, &run, &result));
  assert_int_equal(result.items, 45);
  compute_batch_release(batch);
  /* Beside a source that ends, it ends with that. */
  options.input_count = 2;
  options.outputs = row;
  options.step = last_step;
  assert_ok(compute_batch_create(test_context, &options, &batch));
  run.items = COMPUTE_BATCH_UNTIL_END;
  run.sinks = (compute_batch_sink[]){{.array = out}};
  assert_ok(compute_batch_run(batch, &run, &result));
  assert_int_equal(result.items, 130);
  assert_memory_equal(out, data, 130 * WIDTH * sizeof *out);
  compute_batch_release(batch);
}

/* ---- Memory -------------------------------------------------------------------------------- */

static compute_status endless(void *user, int64_t first, int64_t items, void *to, int64_t *count) {
  (void)user;
  (void)first;
  memset(to, 0, (size_t)items * WIDTH * sizeof(float));
  *count = items;
  return COMPUTE_OK;
}

static void memory_does_not_grow_with_the_data(void **state) {
  (void)state;
  compute_tensor *w = make_weights();
  compute_batch_options options = two_outputs(w);
  compute_batch *batch;
  compute_batch_result result;
  compute_pool_statistics before, after;
  compute_device *device = compute_default_device(test_context);
  options.memory = 1 << 20;
  assert_ok(compute_batch_create(test_context, &options, &batch));
  compute_batch_run_options run = {
      .items = 50000,
      .sources = (compute_batch_source[]){{.read = endless}},
      .sinks = (compute_batch_sink[]){{.discard = true}, {.discard = true}}};
  assert_ok(compute_batch_run(batch, &run, &result));
  assert_true(result.slot_bytes > 0 && result.slot_bytes <= 1 << 20);
  assert_ok(compute_pool_query(device, &before));
  run.items = 500000;
  assert_ok(compute_batch_run(batch, &run, &result));
  assert_ok(compute_pool_query(device, &after));
  assert_int_equal(before.bytes_active, after.bytes_active);
  assert_true(after.bytes_allocated <= before.bytes_allocated + (1 << 20));
  assert_true(result.slot_bytes <= 1 << 20);
  compute_batch_release(batch);
  compute_tensor_release(w);
}

/* ---- Checks -------------------------------------------------------------------------------- */

static void build_scalar(void *user, compute_graph *graph, int64_t items,
                         const compute_node *inputs, compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_sum(graph, inputs[0], COMPUTE_ALL_AXES, false);
}

static void build_nothing(void *user, compute_graph *graph, int64_t items,
                          const compute_node *inputs, compute_node *outputs) {
  (void)user;
  (void)graph;
  (void)items;
  (void)inputs;
  (void)outputs;
}

static void build_assignment(void *user, compute_graph *graph, int64_t items,
                             const compute_node *inputs, compute_node *outputs) {
  const compute_node p = compute_parameter(graph, user);
  (void)items;
  outputs[0] = compute_mul(graph, inputs[0], p);
  outputs[1] = compute_assign(graph, p, compute_add(graph, p, p));
}

static void build_wrong(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                        compute_node *outputs) {
  (void)user;
  (void)items;
  outputs[0] = compute_matmul(graph, inputs[0], inputs[0]);
}

static void refuses(compute_batch_options options, compute_status status) {
  compute_batch *batch = NULL;
  assert_fails(compute_batch_create(test_context, &options, &batch), status);
  assert_null(batch);
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  compute_tensor *w = make_weights();
  const compute_batch_options good = {
      .build = build_two, .inputs = row, .input_count = 1, .output_count = 1};
  compute_batch_options o = good;
  o.step = copy_step;
  refuses(o, COMPUTE_ERROR_INVALID_ARGUMENT);
  o = good, o.output_count = 33;
  refuses(o, COMPUTE_ERROR_INVALID_ARGUMENT);
  o = good, o.slots = 17;
  refuses(o, COMPUTE_ERROR_INVALID_ARGUMENT);
  o = good, o.reserved[7] = 1;
  refuses(o, COMPUTE_ERROR_INVALID_ARGUMENT);
  o = good, o.batch = INT64_MAX / 4;
  o.build = build_wrong;
  refuses(o, COMPUTE_ERROR_SHAPE);
  o.build = build_scalar;
  refuses(o, COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "first axis");
  o.build = build_nothing;
  refuses(o, COMPUTE_ERROR_WRONG_GRAPH);
  o = good, o.build = build_assignment, o.user = w, o.output_count = 2;
  refuses(o, COMPUTE_ERROR_WRONG_GRAPH); /* an assignment has no value to deliver */
  const compute_batch_port wrong = {COMPUTE_F64, {.rank = 1, .size = {WIDTH}}};
  o = two_outputs(w), o.output_count = 1, o.outputs = &wrong;
  refuses(o, COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "must be f64");
  compute_tensor_release(w);
  /* Runs. */
  setting t;
  open_setting(&t, 10, 1);
  const compute_batch_sink discard[] = {{.discard = true}, {.discard = true}};
  compute_batch_run_options run = {.items = COMPUTE_BATCH_UNTIL_END,
                                   .sources = &(compute_batch_source){.array = data},
                                   .sinks = discard};
  assert_fails(compute_batch_run(t.batch, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  run.items = 5;
  run.sources = &(compute_batch_source){.array = data, .read = read_rows};
  assert_fails(compute_batch_run(t.batch, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  run.sources = NULL;
  assert_fails(compute_batch_run(t.batch, &run, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batch_run(t.batch, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batch_run(NULL, &run, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_batch_release(NULL);
  compute_batch_cancel(NULL);
  close_setting(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_depend_on_neither_batch_size_nor_slots),
      cmocka_unit_test(results_do_not_depend_on_who_took_part),
      cmocka_unit_test(callbacks_come_in_order_whatever_each_part_takes),
      cmocka_unit_test(a_run_ends_with_its_source),
      cmocka_unit_test(nothing_and_one_item_are_runs_too),
      cmocka_unit_test(a_failing_source_ends_the_run_behind_what_it_gave),
      cmocka_unit_test(a_failing_sink_ends_the_run_and_its_items_do_not_count),
      cmocka_unit_test(files_hold_what_arrays_do),
      cmocka_unit_test(steps_on_several_devices_keep_the_order),
      cmocka_unit_test(a_failing_step_ends_the_run_before_its_batch),
      cmocka_unit_test(the_cpu_computes_in_the_callers_arrays),
      cmocka_unit_test(progress_is_told_now_and_then_and_may_cancel),
      cmocka_unit_test(times_say_what_each_part_took),
      cmocka_unit_test(a_sink_may_cancel),
      cmocka_unit_test(another_thread_may_cancel),
      cmocka_unit_test(iterators_run_at_once_but_each_only_once),
      cmocka_unit_test(a_run_that_fails_before_its_first_batch_has_counts_of_its_own),
      cmocka_unit_test(devices_may_be_asked_for_while_runs_begin_and_end),
      cmocka_unit_test(inputs_of_several_kinds_go_together),
      cmocka_unit_test(what_one_source_gave_before_it_failed_is_read_from_the_others),
      cmocka_unit_test(a_file_of_items_without_bytes_has_no_end),
      cmocka_unit_test(memory_does_not_grow_with_the_data),
      cmocka_unit_test(what_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, open_group, test_group_close);
}
