/* SPDX-License-Identifier: MIT */
/* The batch iterator: its results, their order, and the end of a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "batch/rows.h"

/* Runs all items from array to array, and compares every bit. */
static void check_arrays(const compute_batch_options *options, compute_batch_result *result) {
  float *out = calloc(ROWS_ITEMS * ROWS_WIDTH, sizeof *out), *sum = calloc(ROWS_ITEMS, sizeof *sum);
  compute_batch *batch;
  compute_device *cpu;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  assert_ok(compute_batch_create(test_context, options, &batch));
  for (int round = 0; round < 2; round++) { /* the second run reuses slots and plans */
    memset(out, 0, ROWS_ITEMS * ROWS_WIDTH * sizeof *out);
    assert_ok(
        compute_batch_run(batch,
                          &(compute_batch_run_options){
                              .items = ROWS_ITEMS,
                              .sources = (compute_batch_source[]){{.array = rows_data}},
                              .sinks = (compute_batch_sink[]){{.array = out}, {.array = sum}}},
                          result));
    assert_memory_equal(out, rows_wanted, sizeof rows_wanted);
    /* GPUs sum a few rows in another order than many. */
    if (compute_default_device(test_context) == cpu)
      assert_memory_equal(sum, rows_wanted_sum, sizeof rows_wanted_sum);
    for (int i = 0; i < ROWS_ITEMS; i++) assert_float_equal(sum[i], rows_wanted_sum[i], 1e-5);
    assert_int_equal(result->items, ROWS_ITEMS);
    assert_int_equal(result->bytes_read, sizeof rows_data);
    assert_int_equal(result->bytes_written, sizeof rows_wanted + sizeof rows_wanted_sum);
  }
  compute_batch_release(batch);
  free(out);
  free(sum);
}

static void results_depend_on_neither_batch_size_nor_slots(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 64, 250, ROWS_ITEMS, 5000};
  compute_tensor *w = rows_make_weights();
  compute_batch_options options = rows_two_outputs(w);
  compute_batch_result result;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (uint32_t slots = 1; slots <= 3; slots++) {
      options.batch = sizes[i];
      options.slots = slots;
      check_arrays(&options, &result);
      if (sizes[i] > 0) assert_int_equal(result.batches, (ROWS_ITEMS + sizes[i] - 1) / sizes[i]);
    }
  compute_tensor_release(w);
}

/* The default device, the CPU, and the default device again. The parameter is on one of them. */
static void results_do_not_depend_on_who_took_part(void **state) {
  (void)state;
  compute_device *cpu;
  compute_batch_result result;
  assert_ok(compute_device_by_name(test_context, "cpu", &cpu));
  compute_device *first = compute_default_device(test_context);
  compute_device *const devices[] = {first, cpu, first};
  compute_tensor *w = rows_make_weights();
  compute_batch_options options = rows_two_outputs(w);
  options.batch = 50;
  options.devices = devices;
  options.device_count = first == cpu ? 3 : 1; /* other devices round differently */
  check_arrays(&options, &result);
  compute_tensor_release(w);
}

/* ---- Sources and sinks --------------------------------------------------------------------- */

static void callbacks_come_in_order_whatever_each_part_takes(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  for (uint32_t slots = 1; slots <= 4; slots++) {
    rows_setting_open(&t, 37, slots);
    t.source.delay = t.sink.delay = 2;
    assert_ok(rows_setting_run(&t, ROWS_ITEMS, &result));
    assert_int_equal(t.sink.next, ROWS_ITEMS);
    rows_setting_close(&t);
  }
}

static void a_run_ends_with_its_source(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  rows_setting_open(&t, 100, 3);
  static const int64_t ends[] = {0, 1, 99, 100, 101, 300, ROWS_ITEMS};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    t.source.end = ends[i];
    assert_ok(rows_setting_run(&t, COMPUTE_BATCH_UNTIL_END, &result));
    assert_int_equal(result.items, ends[i]);
    assert_int_equal(t.sink.next, ends[i]);
  }
  /* A source with fewer items than promised is an error, after its items were delivered. */
  t.source.end = 250;
  assert_fails(rows_setting_run(&t, ROWS_ITEMS, &result), COMPUTE_ERROR_INVALID_ARGUMENT);
  test_check_message(test_context, "ended after 250 of 1003 items");
  test_check_message(test_context, "250 items are complete");
  assert_int_equal(result.items, 250);
  rows_setting_close(&t);
}

static void nothing_and_one_item_are_runs_too(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  rows_setting_open(&t, 0, 0);
  assert_ok(rows_setting_run(&t, 0, &result));
  assert_int_equal(result.items, 0);
  assert_int_equal(t.sink.next, 0);
  assert_ok(rows_setting_run(&t, 1, &result));
  assert_int_equal(result.items, 1);
  assert_int_equal(t.sink.next, 1);
  rows_setting_close(&t);
}

static void a_failing_source_ends_the_run_behind_what_it_gave(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  rows_setting_open(&t, 40, 3);
  static const int64_t at[] = {0, 1, 39, 40, 41, 500, ROWS_ITEMS - 1};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    char message[80];
    t.source.fail_at = at[i];
    t.sink.delay = (double)(i % 2);
    assert_fails(rows_setting_run(&t, ROWS_ITEMS, &result), COMPUTE_ERROR_FILE);
    snprintf(message, sizeof message, "source of input 0 failed at item %lld", (long long)at[i]);
    test_check_message(test_context, message);
    assert_int_equal(result.items, at[i]);
    assert_int_equal(t.sink.next, at[i]);
  }
  t.source.fail_at = -1;
  assert_ok(rows_setting_run(&t, ROWS_ITEMS, &result)); /* the iterator still works */
  rows_setting_close(&t);
}

static void a_failing_sink_ends_the_run_and_its_items_do_not_count(void **state) {
  (void)state;
  rows_setting t;
  compute_batch_result result;
  for (uint32_t slots = 1; slots <= 3; slots++) {
    rows_setting_open(&t, 40, slots);
    for (t.sink.fail_at = 0; t.sink.fail_at < ROWS_ITEMS; t.sink.fail_at += 333) {
      char message[80];
      const long long before = (long long)(t.sink.fail_at / 40 * 40);
      assert_fails(rows_setting_run(&t, ROWS_ITEMS, &result), COMPUTE_ERROR_INVALID_STATE);
      assert_int_equal(result.items, before);
      snprintf(message, sizeof message, "%lld items are complete", before);
      test_check_message(test_context, message);
    }
    t.sink.fail_at = -1;
    assert_ok(rows_setting_run(&t, ROWS_ITEMS, &result));
    rows_setting_close(&t);
  }
}

static void files_hold_what_arrays_do(void **state) {
  (void)state;
  static const char in[] = TEST_SCRATCH_DIR "/in", out[] = TEST_SCRATCH_DIR "/out";
  static const char head[16] = "sixteen bytes...";
  rows_setting t;
  compute_batch_result result;
  float read[ROWS_WIDTH * ROWS_ITEMS];
  char found[16];
  rows_setting_open(&t, 64, 3);
  FILE *file = fopen(in, "wb");
  fwrite(head, 1, sizeof head, file);
  fwrite(rows_data, 1, sizeof rows_data, file);
  fclose(file);
  file = fopen(out, "wb");
  fwrite(head, 1, sizeof head, file);
  fclose(file);
  const compute_batch_source source = {.path = in, .offset = sizeof head};
  const compute_batch_sink sinks[] = {{.path = out, .offset = sizeof head}, {.discard = true}};
  compute_batch_run_options options = {
      .items = COMPUTE_BATCH_UNTIL_END, .sources = &source, .sinks = sinks};
  assert_ok(compute_batch_run(t.batch, &options, &result));
  assert_int_equal(result.items, ROWS_ITEMS);
  file = fopen(out, "rb");
  assert_int_equal(fread(found, 1, sizeof found, file), sizeof found);
  assert_memory_equal(found, head, sizeof head);
  assert_int_equal(fread(read, 1, sizeof read, file), sizeof read);
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
  assert_memory_equal(read, rows_wanted, sizeof rows_wanted);
  /* A file with half an item after the complete ones. */
  file = fopen(in, "ab");
  fwrite(rows_data, 1, 6, file);
  fclose(file);
  assert_fails(compute_batch_run(t.batch, &options, &result), COMPUTE_ERROR_FILE);
  test_check_message(test_context, "middle of item 1003");
  assert_int_equal(result.items, ROWS_ITEMS);
  options.sources = &(compute_batch_source){.path = TEST_SCRATCH_DIR "/none"};
  assert_fails(compute_batch_run(t.batch, &options, &result), COMPUTE_ERROR_FILE);
  options.sources = &source;
  options.sinks = (compute_batch_sink[]){{.path = "/dev/full"}, {.discard = true}};
  options.items = ROWS_ITEMS;
  assert_fails(compute_batch_run(t.batch, &options, &result), COMPUTE_ERROR_FILE);
  assert_int_equal(result.items, 0);
  rows_setting_close(&t);
}

/* ---- Memory -------------------------------------------------------------------------------- */

static compute_status endless(void *user, int64_t first, int64_t items, void *to, int64_t *count) {
  (void)user;
  (void)first;
  memset(to, 0, (size_t)items * ROWS_WIDTH * sizeof(float));
  *count = items;
  return COMPUTE_OK;
}

static void memory_does_not_grow_with_the_data(void **state) {
  (void)state;
  compute_tensor *w = rows_make_weights();
  compute_batch_options options = rows_two_outputs(w);
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

/* A batch has as many items as the caller wants, limited by the memory, but at least one. */
static void memory_limits_a_given_batch(void **state) {
  (void)state;
  static const struct {
    int64_t batch;
    uint64_t memory;
    bool whole; /* memory for all of them */
  } cases[] = {{10, 1 << 20, true},
               {100000, 1 << 20, false},
               {INT64_C(1) << 31, 1 << 20, false},
               {100, 1, false}};
  compute_tensor *w = rows_make_weights();
  compute_batch_options options = rows_two_outputs(w);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint32_t slots = 1; slots <= 3; slots += 2) {
      compute_batch *batch;
      compute_batch_result result;
      const compute_batch_run_options run = {
          .items = 5000,
          .sources = (compute_batch_source[]){{.read = endless}},
          .sinks = (compute_batch_sink[]){{.discard = true}, {.discard = true}}};
      options.batch = cases[i].batch;
      options.memory = cases[i].memory;
      options.slots = slots;
      assert_ok(compute_batch_create(test_context, &options, &batch));
      assert_ok(compute_batch_run(batch, &run, &result));
      const bool one = cases[i].memory == 1;
      if (one) assert_int_equal(result.batches, 5000);
      if (cases[i].whole) assert_int_equal(result.batches, 500);
      assert_true(result.slot_bytes > 0 && (one || result.slot_bytes <= cases[i].memory));
      compute_batch_release(batch);
    }
  compute_tensor_release(w);
}

/* Runs of different lengths end in different last batches, whose plans are not kept forever. */
static void plans_of_last_batches_do_not_pile_up(void **state) {
  (void)state;
  compute_tensor *w = rows_make_weights();
  compute_batch_options options = rows_two_outputs(w);
  compute_batch *batch;
  compute_batch_result result;
  options.batch = 200;
  assert_ok(compute_batch_create(test_context, &options, &batch));
  const int64_t count = 150 / (int64_t)test_spread();
  for (int64_t items = 1; items <= count; items++)
    assert_ok(compute_batch_run(
        batch,
        &(compute_batch_run_options){
            .items = items,
            .sources = (compute_batch_source[]){{.array = rows_data}},
            .sinks = (compute_batch_sink[]){{.discard = true}, {.discard = true}}},
        &result));
  size_t plans = 0;
  for (const batch_plan *plan = batch->pipelines[0].work->plans; plan; plan = plan->next) {
    assert_int_equal(plan->users, 0);
    plans++;
  }
  assert_true(plans > 1 && plans <= 40);
  compute_batch_release(batch);
  compute_tensor_release(w);
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
      cmocka_unit_test(memory_does_not_grow_with_the_data),
      cmocka_unit_test(memory_limits_a_given_batch),
      cmocka_unit_test(plans_of_last_batches_do_not_pile_up),
  };
  return cmocka_run_group_tests(tests, rows_open_group, test_group_close);
}
