/* SPDX-License-Identifier: MIT */
/* Batches on a GPU: copies and kernels overlap, several GPUs share the work, and failures lead to
 * smaller batches or to the CPU. The GPU is the stand-in of tests/cuda_driver/; a test sets the
 * duration of its copies and kernels. */
#include <stdlib.h>
#include <string.h>

#include "support/drivers/cuda_stand_in.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, WIDTH = 256, MOST = 4096 };

static cuda_stand_in gpu;
static float data[MOST * WIDTH], out[MOST * WIDTH];

/* y = 2 x + parameter */
static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  (void)items;
  const compute_node twice = compute_add(graph, inputs[0], inputs[0]);
  outputs[0] = compute_add(graph, twice, compute_parameter(graph, user));
}

static void set_orders(const char *orders) {
  assert_true(gpu.configure(orders));
}

typedef struct setting {
  compute_context *context;
  compute_tensor *parameter;
  compute_batch *batch;
  compute_batch_result result;
} setting;

static void open_setting(setting *t, const char *orders, compute_batch_options options) {
  static const float shift[WIDTH] = {1, 2, 3};
  compute_device *cpu;
  *t = (setting){0};
  set_orders(orders);
  assert_ok(compute_open(&t->context, &(compute_open_options){.device = "cuda:0"}));
  assert_ok(compute_device_by_name(t->context, "cpu", &cpu));
  assert_ok(compute_tensor_from_host(cpu, COMPUTE_F32, COMPUTE_SHAPE(WIDTH), shift, &t->parameter));
  options.build = build;
  options.user = t->parameter;
  options.inputs = &(compute_batch_port){COMPUTE_F32, COMPUTE_SHAPE(WIDTH)};
  options.input_count = options.output_count = 1;
  assert_ok(compute_batch_create(t->context, &options, &t->batch));
}

static compute_status run_on(setting *t, int64_t items, const void *from, void *to) {
  return compute_batch_run(
      t->batch,
      &(compute_batch_run_options){.items = items,
                                   .sources = (compute_batch_source[]){{.array = from}},
                                   .sinks = (compute_batch_sink[]){{.array = to}}},
      &t->result);
}

static compute_status run(setting *t, int64_t items) {
  memset(out, 0, sizeof out);
  return run_on(t, items, data, out);
}

static void check(int64_t items) {
  for (int64_t i = 0; i < items * WIDTH; i++) {
    const float shift = i % WIDTH < 3 ? (float)(i % WIDTH + 1) : 0;
    if (out[i] != 2 * data[i] + shift) fail_msg("element %lld is wrong", (long long)i);
  }
}

static void close_setting(setting *t) {
  char text[256];
  compute_batch_release(t->batch);
  compute_tensor_release(t->parameter);
  assert_ok(compute_close(t->context));
  set_orders("");
  if (gpu.live(text, sizeof text) != 0) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text) != 0) fail_msg("misuse: %s", text);
}

/* Each batch's upload, kernel and download take some milliseconds. One slot runs them one after the
 * other. Several slots overlap them; the longest of the three, over all batches, is then the lower
 * bound of the time. The run with one slot measures their real duration on this machine, which may
 * be busy. */
static void copies_and_kernels_overlap(void **state) {
  (void)state;
  enum { BATCHES = 40, ITEMS = 64 * BATCHES, ROUNDS = 6 };
  static const struct {
    const char *what, *orders;
    double copy, kernel; /* milliseconds per batch */
  } cases[] = {{"kernels", "delay_copies=5,delay_kernels=15", 5, 15},
               {"both", "delay_copies=12,delay_kernels=12", 12, 12}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setting t;
    double total = 0, longest = 1;
    const double sum = 2 * cases[i].copy + cases[i].kernel;
    const double most = cases[i].copy > cases[i].kernel ? cases[i].copy : cases[i].kernel;
    for (int k = 0; k < ROUNDS && (k == 0 || total > 1.1 * longest); k++) {
      open_setting(&t, cases[i].orders, (compute_batch_options){.batch = 64, .slots = 1});
      assert_ok(run(&t, 2 * 64)); /* compiles */
      assert_ok(run(&t, ITEMS));
      assert_true(t.result.seconds >= sum * BATCHES * 1e-3);
      assert_int_equal(gpu.together(), 1);
      longest = t.result.seconds * most / sum;
      close_setting(&t);
      open_setting(&t, cases[i].orders, (compute_batch_options){.batch = 64, .slots = 5});
      assert_ok(run(&t, 2 * 64));
      assert_ok(run(&t, ITEMS));
      check(ITEMS);
      assert_true(gpu.together() >= 2);
      total = t.result.seconds;
      close_setting(&t);
    }
    print_message("%s: %.0f ms in all, the longest part %.0f (as ordered: %.0f)\n", cases[i].what,
                  total * 1e3, longest * 1e3, most * BATCHES);
    test_time(cases[i].what, "times the longest part", total / longest, 1.1);
  }
}

static void three_gpus_work_at_the_same_time(void **state) {
  (void)state;
  enum { ITEMS = 32 * 60 };
  double seconds[2] = {1e8, 1e9};
  for (int several = 0; several < 2; several++) {
    setting t;
    compute_device *devices[3] = {NULL};
    set_orders("device_count=3");
    open_setting(&t, "device_count=3,delay_kernels=10", (compute_batch_options){.batch = 32});
    compute_batch_release(t.batch);
    t.batch = NULL;
    for (int i = 0; i < 3; i++) {
      const char *const names[] = {"cuda:0", "cuda:1", "cuda:2"};
      assert_ok(compute_device_by_name(t.context, names[i], &devices[i]));
    }
    assert_ok(compute_batch_create(
        t.context,
        &(compute_batch_options){.build = build,
                                 .user = t.parameter,
                                 .inputs = &(compute_batch_port){COMPUTE_F32, COMPUTE_SHAPE(WIDTH)},
                                 .input_count = 1,
                                 .output_count = 1,
                                 .devices = devices,
                                 .device_count = several ? 3 : 1,
                                 .batch = 32},
        &t.batch));
    for (int k = 0; k < (several ? 10 : 2) && seconds[1] > 0.6 * seconds[0]; k++) {
      assert_ok(run(&t, ITEMS));
      check(ITEMS);
      assert_int_equal(gpu.together(), several ? 3 : 1);
      if (t.result.seconds < seconds[several]) seconds[several] = t.result.seconds;
    }
    close_setting(&t);
  }
  print_message("one GPU %.0f ms, three %.0f ms\n", seconds[0] * 1e3, seconds[1] * 1e3);
  /* measured: 0.52 to 0.68 on two idle cores */
  test_time("three GPUs", "of the time of one", seconds[1] / seconds[0], 0.8);
}

/* The caller allows more memory than the device has. */
static void short_memory_makes_smaller_batches(void **state) {
  (void)state;
  setting t;
  open_setting(&t, "memory=4M",
               (compute_batch_options){
                   .batch = 2048, .memory = 1 << 30, .fallback = COMPUTE_FALLBACK_SILENT});
  assert_ok(run(&t, MOST));
  check(MOST);
  assert_true(t.result.halved > 0);
  assert_int_equal(t.result.on_cpu, 0);
  close_setting(&t);
  open_setting(&t, "memory=4M",
               (compute_batch_options){
                   .batch = 2048, .memory = 1 << 30, .fallback = COMPUTE_FALLBACK_STRICT});
  assert_fails(run(&t, MOST), COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY);
  assert_int_equal(t.result.items, 0);
  close_setting(&t);
}

static void a_lost_gpu_leaves_the_rest_to_the_cpu(void **state) {
  (void)state;
  static const char *const calls[] = {"cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                      "kernel"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (int strict = 0; strict < 2; strict++) {
      setting t;
      char orders[80];
      open_setting(&t, "",
                   (compute_batch_options){.batch = 100,
                                           .fallback = strict ? COMPUTE_FALLBACK_STRICT
                                                              : COMPUTE_FALLBACK_SILENT});
      snprintf(orders, sizeof orders, "keep=1,fail=%s:12:700", calls[i]);
      set_orders(orders);
      const compute_status s = run(&t, MOST);
      if (strict) {
        assert_int_not_equal(s, COMPUTE_OK);
        assert_true(t.result.items < MOST);
      } else {
        if (s != COMPUTE_OK) fail_msg("%s: %s", calls[i], compute_error_message(NULL));
        assert_int_equal(t.result.items, MOST);
        assert_true(t.result.on_cpu > 0);
      }
      check(t.result.items);
      set_orders("reset=1");
      compute_batch_release(t.batch);
      compute_tensor_release(t.parameter);
      assert_ok(compute_close(t.context));
    }
}

static void a_lost_gpu_leaves_misaligned_arrays_to_the_cpu(void **state) {
  (void)state;
  setting t;
  char *from = malloc(sizeof data + 1), *to = calloc(1, sizeof out + 1);
  assert_true(from && to);
  memcpy(from + 1, data, sizeof data);
  open_setting(&t, "", (compute_batch_options){.batch = 100, .fallback = COMPUTE_FALLBACK_SILENT});
  set_orders("keep=1,fail=cuLaunchKernel:12:700");
  if (run_on(&t, MOST, from + 1, to + 1) != COMPUTE_OK) fail_msg("%s", compute_error_message(NULL));
  assert_int_equal(t.result.items, MOST);
  assert_true(t.result.on_cpu > 0 && t.result.on_cpu < MOST);
  memcpy(out, to + 1, sizeof out);
  check(MOST);
  set_orders("reset=1");
  compute_batch_release(t.batch);
  compute_tensor_release(t.parameter);
  assert_ok(compute_close(t.context));
  free(from);
  free(to);
}

/* Results may overwrite their items, but only after the batch has succeeded. */
static void results_in_place_of_items_outlive_a_failed_copy(void **state) {
  (void)state;
  for (int call = 1; call <= 4; call++) {
    setting t;
    char orders[80];
    setenv("COMPUTE_THREADS", "1", 1); /* copies the parts of a batch in order */
    open_setting(&t, "",
                 (compute_batch_options){.batch = MOST, .fallback = COMPUTE_FALLBACK_SILENT});
    unsetenv("COMPUTE_THREADS");
    snprintf(orders, sizeof orders, "keep=1,fail=cuMemcpyDtoHAsync:%d:700", call);
    set_orders(orders);
    memcpy(out, data, sizeof out);
    if (run_on(&t, MOST, out, out) != COMPUTE_OK) fail_msg("%s", compute_error_message(NULL));
    check(MOST);
    set_orders("reset=1");
    compute_batch_release(t.batch);
    compute_tensor_release(t.parameter);
    assert_ok(compute_close(t.context));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_and_kernels_overlap),
      cmocka_unit_test(three_gpus_work_at_the_same_time),
      cmocka_unit_test(short_memory_makes_smaller_batches),
      cmocka_unit_test(a_lost_gpu_leaves_the_rest_to_the_cpu),
      cmocka_unit_test(results_in_place_of_items_outlive_a_failed_copy),
      cmocka_unit_test(a_lost_gpu_leaves_misaligned_arrays_to_the_cpu),
  };
  if (!cuda_stand_in_open(&gpu)) return SKIPPED;
  for (int i = 0; i < MOST * WIDTH; i++) data[i] = (float)(i % 1000) / 8;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
