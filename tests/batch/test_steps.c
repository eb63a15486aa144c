/* SPDX-License-Identifier: MIT */
/* The batch iterator with custom steps and several inputs, and the options that it refuses. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch/rows.h"

/* ---- Steps --------------------------------------------------------------------------------- */

typedef struct step_state {
  const float *array;
  int64_t fail_at;
  unsigned seed;
  double delay;
  atomic_int in_place, calls;
} step_state;

/* Copies, with a varying pause. */
static compute_status copy_step(void *user, const compute_batch_step *step) {
  step_state *s = user;
  unsigned seed = (unsigned)step->first + s->seed;
  atomic_fetch_add(&s->calls, 1);
  if (compute_tensor_data(step->inputs[0]) == s->array + step->first * ROWS_WIDTH)
    atomic_fetch_add(&s->in_place, 1);
  if (s->delay > 0) rows_pause(s->delay * (rand_r(&seed) % 100) / 100);
  if (s->fail_at >= step->first && s->fail_at < step->first + step->items)
    return COMPUTE_ERROR_INVALID_STATE;
  /* A copy does not use the step's queue, where the upload may still be in progress. */
  compute_status status = step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
  return status ? status : compute_tensor_copy(step->outputs[0], step->inputs[0]);
}

/* Copies the last input. */
static compute_status last_step(void *user, const compute_batch_step *step) {
  (void)user;
  const compute_status status = step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
  return status ? status : compute_tensor_copy(step->outputs[0], step->inputs[1]);
}

/* Nothing to compute. */
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
                                                          .inputs = rows_port,
                                                          .input_count = 1,
                                                          .outputs = rows_port,
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
      &(compute_batch_run_options){.items = ROWS_ITEMS,
                                   .sources = (compute_batch_source[]){{.array = rows_data}},
                                   .sinks = (compute_batch_sink[]){{.array = out}}},
      result);
}

/* null:0 has separate memory, like a GPU. */
static void steps_on_several_devices_keep_the_order(void **state) {
  (void)state;
  compute_device *cpu, *null;
  static float out[ROWS_ITEMS * ROWS_WIDTH];
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  assert_ok(compute_device_by_name(test_context, "null", &null));
  compute_device *const devices[] = {null, cpu, null, compute_default_device(test_context)};
  for (unsigned seed = 0; seed < 4; seed++) {
    step_state s = {.array = rows_data, .fail_at = -1, .seed = seed, .delay = 3};
    compute_batch *batch = step_batch(&s, devices, 4);
    memset(out, 0, sizeof out);
    assert_ok(run_copy(batch, out, &result));
    assert_memory_equal(out, rows_data, sizeof rows_data);
    int64_t share = 0;
    compute_batch_device_info info;
    for (size_t i = 0; i < 4; i++) {
      assert_ok(compute_batch_device_at(batch, i, &info));
      assert_ptr_equal(info.device, devices[i]);
      assert_true(info.items > 0);
      share += info.items;
    }
    assert_int_equal(share, ROWS_ITEMS);
    assert_fails(compute_batch_device_at(batch, 4, &info), COMPUTE_ERROR_INVALID_ARGUMENT);
    compute_batch_release(batch);
  }
}

static void a_failing_step_ends_the_run_before_its_batch(void **state) {
  (void)state;
  compute_device *null;
  static float out[ROWS_ITEMS * ROWS_WIDTH];
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "null", &null));
  step_state s = {.fail_at = 510, .delay = 0.3};
  compute_batch *batch = step_batch(&s, &null, 1);
  assert_fails(run_copy(batch, out, &result), COMPUTE_ERROR_INVALID_STATE);
  test_check_message(test_context, "500 items are complete");
  assert_int_equal(result.items, 500);
  assert_memory_equal(out, rows_data, 500 * ROWS_WIDTH * sizeof *rows_data);
  s.fail_at = -1;
  assert_ok(run_copy(batch, out, &result));
  assert_memory_equal(out, rows_data, sizeof rows_data);
  compute_batch_release(batch);
}

static void the_cpu_computes_in_the_callers_arrays(void **state) {
  (void)state;
  compute_device *cpu;
  static float out[ROWS_ITEMS * ROWS_WIDTH];
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  step_state s = {.array = rows_data, .fail_at = -1};
  compute_batch *batch = step_batch(&s, &cpu, 1);
  assert_ok(run_copy(batch, out, &result));
  assert_int_equal(atomic_load(&s.in_place), atomic_load(&s.calls));
  assert_int_equal(result.slot_bytes, 0);
  compute_batch_release(batch);
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
  static float out[ROWS_ITEMS * ROWS_WIDTH];
  static int32_t factors[ROWS_ITEMS];
  rows_stream source = {.fail_at = -1, .end = ROWS_ITEMS};
  const compute_batch_port inputs[] = {rows_port[0], {COMPUTE_I32, COMPUTE_SCALAR}};
  compute_batch *batch;
  compute_batch_result result;
  for (int i = 0; i < ROWS_ITEMS; i++) factors[i] = i % 8;
  assert_ok(compute_batch_create(
      test_context,
      &(compute_batch_options){
          .build = build_two, .inputs = inputs, .input_count = 2, .output_count = 1, .batch = 77},
      &batch));
  compute_batch_run_options options = {
      .items = COMPUTE_BATCH_UNTIL_END,
      .sources = (compute_batch_source[]){{.read = rows_read, .user = &source}, {.array = factors}},
      .sinks = (compute_batch_sink[]){{.array = out}}};
  assert_ok(compute_batch_run(batch, &options, &result));
  assert_int_equal(result.items, ROWS_ITEMS);
  for (int i = 0; i < ROWS_ITEMS * ROWS_WIDTH; i++)
    assert_true(out[i] == rows_data[i] * (float)factors[i / ROWS_WIDTH]);
  /* Two sources with different ends. */
  rows_stream other = {.fail_at = -1, .end = 400};
  source = (rows_stream){.fail_at = -1, .end = ROWS_ITEMS};
  const compute_batch_port rows[] = {rows_port[0], rows_port[0]};
  compute_batch_release(batch);
  step_state s = {.fail_at = -1};
  assert_ok(compute_batch_create(test_context,
                                 &(compute_batch_options){.step = copy_step,
                                                          .user = &s,
                                                          .inputs = rows,
                                                          .input_count = 2,
                                                          .outputs = rows_port,
                                                          .output_count = 1,
                                                          .batch = 77},
                                 &batch));
  options.sources = (compute_batch_source[]){{.read = rows_read, .user = &source},
                                             {.read = rows_read, .user = &other}};
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

/* Items read before a failure are delivered, so every source must have been read that far. */
static void what_one_source_gave_before_it_failed_is_read_from_the_others(void **state) {
  (void)state;
  static const struct {
    rows_stream first;
    number_stream second;
    int64_t items; /* complete items */
    compute_status status;
    const char *message;
  } cases[] = {
      {{.fail_at = 250, .end = ROWS_ITEMS, .status = COMPUTE_ERROR_FILE},
       {ROWS_ITEMS, -1},
       250,
       COMPUTE_ERROR_FILE,
       "input 0 failed at item 250"},
      {{.fail_at = -1, .end = 250},
       {ROWS_ITEMS, -1},
       250,
       COMPUTE_ERROR_INVALID_ARGUMENT,
       "input 0 ended after 250"},
      {{.fail_at = 250, .end = ROWS_ITEMS, .status = COMPUTE_ERROR_FILE},
       {240, -1},
       240,
       COMPUTE_ERROR_INVALID_ARGUMENT,
       "input 1 ended after 240"},
      {{.fail_at = 250, .end = ROWS_ITEMS, .status = COMPUTE_ERROR_FILE},
       {ROWS_ITEMS, 235},
       235,
       COMPUTE_ERROR_INVALID_STATE,
       "input 1 failed at item 235"},
      {{.fail_at = 250, .end = ROWS_ITEMS, .status = COMPUTE_ERROR_FILE},
       {ROWS_ITEMS, 255},
       250,
       COMPUTE_ERROR_FILE,
       "input 0 failed at item 250"},
  };
  static float out[ROWS_ITEMS * ROWS_WIDTH];
  const compute_batch_port inputs[] = {rows_port[0], {COMPUTE_I32, COMPUTE_SCALAR}};
  compute_batch *batch;
  compute_batch_result result;
  assert_ok(compute_batch_create(
      test_context,
      &(compute_batch_options){
          .build = build_two, .inputs = inputs, .input_count = 2, .output_count = 1, .batch = 77},
      &batch));
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    rows_stream first = cases[c].first;
    number_stream second = cases[c].second;
    const compute_batch_run_options options = {
        .items = ROWS_ITEMS,
        .sources = (compute_batch_source[]){{.read = rows_read, .user = &first},
                                            {.read = read_numbers, .user = &second}},
        .sinks = (compute_batch_sink[]){{.array = out}}};
    memset(out, 0, sizeof out);
    assert_fails(compute_batch_run(batch, &options, &result), cases[c].status);
    test_check_message(test_context, cases[c].message);
    assert_int_equal(result.items, cases[c].items);
    for (int64_t i = 0; i < result.items * ROWS_WIDTH; i++)
      assert_true(out[i] == rows_data[i] * (float)(i / ROWS_WIDTH % 8));
  }
  compute_batch_release(batch);
}

/* An empty file has any number of items without bytes. */
static void a_file_of_items_without_bytes_has_no_end(void **state) {
  (void)state;
  static const char in[] = TEST_SCRATCH_DIR "/empty";
  const compute_batch_port inputs[] = {{COMPUTE_F32, {.rank = 1, .size = {0}}}, rows_port[0]};
  rows_stream rows = {.fail_at = -1, .end = 130};
  compute_batch_result result;
  compute_batch *batch;
  static float out[ROWS_ITEMS * ROWS_WIDTH];
  step_state s = {.fail_at = -1};
  fclose(fopen(in, "wb"));
  compute_batch_options options = {.step = no_step,
                                   .user = &s,
                                   .inputs = inputs,
                                   .input_count = 1,
                                   .outputs = inputs,
                                   .output_count = 1,
                                   .batch = 20};
  const compute_batch_source sources[] = {{.path = in}, {.read = rows_read, .user = &rows}};
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
  /* Together with a source that ends, it ends with that source. */
  options.input_count = 2;
  options.outputs = rows_port;
  options.step = last_step;
  assert_ok(compute_batch_create(test_context, &options, &batch));
  run.items = COMPUTE_BATCH_UNTIL_END;
  run.sinks = (compute_batch_sink[]){{.array = out}};
  assert_ok(compute_batch_run(batch, &run, &result));
  assert_int_equal(result.items, 130);
  assert_memory_equal(out, rows_data, 130 * ROWS_WIDTH * sizeof *out);
  compute_batch_release(batch);
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
  compute_tensor *w = rows_make_weights();
  const compute_batch_options good = {
      .build = build_two, .inputs = rows_port, .input_count = 1, .output_count = 1};
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
  const compute_batch_port wrong = {COMPUTE_F64, {.rank = 1, .size = {ROWS_WIDTH}}};
  o = rows_two_outputs(w), o.output_count = 1, o.outputs = &wrong;
  refuses(o, COMPUTE_ERROR_SHAPE);
  test_check_message(test_context, "must be f64");
  compute_tensor_release(w);
  /* A valid run. */
  rows_setting t;
  rows_setting_open(&t, 10, 1);
  const compute_batch_sink discard[] = {{.discard = true}, {.discard = true}};
  compute_batch_run_options run = {.items = COMPUTE_BATCH_UNTIL_END,
                                   .sources = &(compute_batch_source){.array = rows_data},
                                   .sinks = discard};
  assert_fails(compute_batch_run(t.batch, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  run.items = 5;
  run.sources = &(compute_batch_source){.array = rows_data, .read = rows_read};
  assert_fails(compute_batch_run(t.batch, &run, NULL), COMPUTE_ERROR_INVALID_ARGUMENT);
  run.sources = NULL;
  assert_fails(compute_batch_run(t.batch, &run, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batch_run(t.batch, NULL, NULL), COMPUTE_ERROR_NULL_POINTER);
  assert_fails(compute_batch_run(NULL, &run, NULL), COMPUTE_ERROR_NULL_POINTER);
  compute_batch_release(NULL);
  compute_batch_cancel(NULL);
  rows_setting_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_on_several_devices_keep_the_order),
      cmocka_unit_test(a_failing_step_ends_the_run_before_its_batch),
      cmocka_unit_test(the_cpu_computes_in_the_callers_arrays),
      cmocka_unit_test(inputs_of_several_kinds_go_together),
      cmocka_unit_test(what_one_source_gave_before_it_failed_is_read_from_the_others),
      cmocka_unit_test(a_file_of_items_without_bytes_has_no_end),
      cmocka_unit_test(what_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, rows_open_group, test_group_close);
}
