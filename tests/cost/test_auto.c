/* SPDX-License-Identifier: MIT */
/* Plans placed by cost on the CPU and on a device of known speed: the null device with the CPU's
 * kernels and adjustable delays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device/device.h"
#include "core/device/kernel_cache.h"
#include "plan/cost/costs.h"
#include "support/harness/failing_allocator.h"
#include "support/harness/test.h"

static compute_context *context;
static compute_device *cpu, *fast;
static const compute_backend *null_backend;
static compute_backend fake;

/* The refusals of the device, and its delays. */
static bool refuses[8];
static double launch_seconds, copy_seconds;
static int launches, uploads, downloads, questions;

/* ---- The device ---------------------------------------------------------------------------- */

static void spin(double seconds) {
  const int64_t end = clock_now() + (int64_t)(seconds * 1e9);
  while (seconds > 0 && clock_now() < end) continue;
}

static bool fake_supports(void *device, const compute_kernel_descriptor *d, char *reason,
                          size_t reason_bytes) {
  (void)device;
  questions++;
  if (refuses[d->kind]) snprintf(reason, reason_bytes, "it has no such kernel");
  return !refuses[d->kind];
}

static compute_status fake_prepare(void *device, const compute_kernel_descriptor *d,
                                   void **kernel) {
  (void)device;
  return cpu->backend->kernel_prepare(cpu->handle, d, kernel);
}

static void fake_destroy(void *device, void *kernel) {
  (void)device;
  cpu->backend->kernel_destroy(cpu->handle, kernel);
}

static compute_status fake_enqueue(void *queue, void *kernel, const compute_argument *arguments,
                                   uint32_t count) {
  (void)queue;
  compute_memory memory[COMPUTE_MAX_OPERANDS];
  compute_argument reached[COMPUTE_MAX_OPERANDS];
  for (uint32_t i = 0; i < count; i++) {
    memory[i] = *arguments[i].memory;
    memory[i].host = memory[i].handle;
    reached[i] = (compute_argument){&memory[i], arguments[i].offset};
  }
  launches++;
  spin(launch_seconds);
  return cpu->backend->enqueue(cpu->internal_queue->handle, kernel, reached, count);
}

static compute_status fake_upload(void *queue, const compute_argument *to, const void *from,
                                  uint64_t bytes) {
  uploads++;
  spin(copy_seconds);
  return null_backend->upload(queue, to, from, bytes);
}

static compute_status fake_download(void *queue, void *to, const compute_argument *from,
                                    uint64_t bytes) {
  downloads++;
  spin(copy_seconds);
  return null_backend->download(queue, to, from, bytes);
}

static int set_up(void **state) {
  (void)state;
  context = NULL;
  assert_ok(compute_open(&context, &(compute_open_options){.backends = "cpu,null"}));
  assert_ok(compute_device_by_name(context, "cpu", &cpu));
  assert_ok(compute_device_by_name(context, "null:0", &fast));
  null_backend = fast->backend;
  fake = *null_backend;
  fake.supports = fake_supports;
  fake.kernel_prepare = fake_prepare;
  fake.kernel_destroy = fake_destroy;
  fake.enqueue = fake_enqueue;
  fake.upload = fake_upload;
  fake.download = fake_download;
  fast->backend = &fake;
  fast->info.capabilities |= COMPUTE_CAPABILITY_COMPUTE;
  memset(refuses, 0, sizeof refuses);
  launch_seconds = copy_seconds = 0;
  launches = uploads = downloads = questions = 0;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kernel_cache_forget(fast->kernels);
  fast->backend = null_backend;
  test_close(context);
  return 0;
}

/* ---- Costs --------------------------------------------------------------------------------- */

static void set_rate(device_costs *c, work_class class, double launch, double per_second) {
  c->curve[class] = (cost_curve){.count = 2,
                                 .work = {1, 1e9},
                                 .seconds = {launch + 1 / per_second, launch + 1e9 / per_second}};
}

/* A device that runs everything except products at `rate`. */
static device_costs make_costs(double launch, double rate, double products) {
  device_costs c = {.launch = launch, .wait = launch};
  for (work_class class = 0; class < WORK_UPLOAD; class ++)
    set_rate(&c, class, launch, class >= WORK_GEMM_F32 ? products : rate);
  set_rate(&c, WORK_UPLOAD, 0, 1e12);
  set_rate(&c, WORK_DOWNLOAD, 0, 1e12);
  return c;
}

static void set_copies(device_costs *c, double latency, double per_second) {
  set_rate(c, WORK_UPLOAD, latency, per_second);
  set_rate(c, WORK_DOWNLOAD, latency, per_second);
}

static void put_costs(const device_costs *here, const device_costs *there) {
  assert_true(costs_set(cpu, here));
  assert_true(costs_set(fast, there));
}

/* ---- Plans --------------------------------------------------------------------------------- */

static compute_plan *compile_for(const compute_graph *g, const compute_node *outputs, size_t count,
                                 compute_device *device, uint32_t flags) {
  compute_plan *plan = NULL;
  const compute_plan_options options = {
      .device = device, .flags = flags, .fallback = COMPUTE_FALLBACK_STRICT};
  assert_ok(compute_compile(g, outputs, count, &options, &plan));
  return plan;
}

static compute_plan *compile_auto(const compute_graph *g, compute_node output) {
  return compile_for(g, &output, 1, NULL, COMPUTE_PLAN_AUTO);
}

static compute_device *device_for_product(int64_t n) {
  compute_graph *g = compute_graph_create(context);
  compute_node a = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(n, n));
  compute_node b = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(n, n));
  compute_plan *plan = compile_auto(g, compute_matmul(g, a, b));
  compute_device *device = compute_plan_device(plan);
  compute_plan_release(plan);
  compute_graph_release(g);
  return device;
}

/* 2 n³ at 1 GFLOP/s against 2 n³ at 100 GFLOP/s and 3 copies of 4 n² bytes at 1 GB/s after 10 µs:
 * 1.98 n³ ns = 12 n² ns + 30 µs at n = 27.4. */
static void the_crossing_point_is_where_the_figures_say(void **state) {
  (void)state;
  device_costs here = make_costs(1e-9, 1e15, 1e9), there = make_costs(1e-9, 1e15, 1e11);
  set_copies(&there, 10e-6, 1e9);
  put_costs(&here, &there);
  /* Below 32, products are priced higher by the factor 1 + 8 / n. */
  const double factor = 1 + 8.0 / 25;
  int64_t crossing = 2;
  while (1.98 * factor * pow((double)crossing, 3) <
         12.0 * (double)(crossing * crossing) + 30e3 - 1e-9)
    crossing++;
  assert_in_range(crossing, 24, 26);
  assert_ptr_equal(device_for_product(crossing - 2), cpu);
  assert_ptr_equal(device_for_product(crossing + 2), fast);
  assert_ptr_equal(device_for_product(8), cpu);
  assert_ptr_equal(device_for_product(512), fast);
}

static void run_twice_alike(const compute_graph *g, const compute_node *inputs, size_t input_count,
                            const compute_node *outputs, size_t output_count,
                            const compute_plan *placed) {
  compute_plan *plain = compile_for(g, outputs, output_count, cpu, 0);
  const compute_plan *plan[2] = {plain, placed};
  compute_binding binding[2][16];
  for (int p = 0; p < 2; p++) {
    for (size_t i = 0; i < input_count + output_count; i++) {
      compute_node node = i < input_count ? inputs[i] : outputs[i - input_count];
      binding[p][i].node = node;
      if (compute_plan_create_tensor(plan[p], node, &binding[p][i].tensor) != COMPUTE_OK)
        assert_ok(compute_tensor_create(cpu, compute_node_dtype(g, node),
                                        compute_node_shape(g, node), &binding[p][i].tensor));
      assert_ptr_equal(compute_tensor_device(binding[p][i].tensor), cpu);
      float *x = compute_tensor_data(binding[p][i].tensor);
      for (int64_t k = 0; i < input_count && k < 64; k++)
        x[k] = (float)((k * 37 + (int64_t)i * 11) % 19) / 8 - 1;
    }
    for (int repeat = 0; repeat < 2; repeat++)
      assert_ok(compute_run(plan[p], binding[p], input_count + output_count, NULL));
  }
  for (size_t i = input_count; i < input_count + output_count; i++) {
    int64_t count = 0;
    compute_shape_count(compute_node_shape(g, outputs[i - input_count]), &count);
    assert_memory_equal(compute_tensor_data(binding[0][i].tensor),
                        compute_tensor_data(binding[1][i].tensor), (size_t)count * 4);
  }
  for (int p = 0; p < 2; p++)
    for (size_t i = 0; i < input_count + output_count; i++)
      compute_tensor_release(binding[p][i].tensor);
  compute_plan_release(plain);
}

/* softmax(x · w1) · w2: the products on one device, the softmax on the other. */
static void one_plan_uses_both_devices_when_that_is_fastest(void **state) {
  (void)state;
  device_costs here = make_costs(1e-9, 1e12, 1e7), there = make_costs(1e-9, 1e6, 1e12);
  set_rate(&there, WORK_STREAM, 1e-9, 1e12);
  set_copies(&there, 1e-9, 1e12);
  put_costs(&here, &there);
  compute_graph *g = compute_graph_create(context);
  compute_node in[3];
  for (int i = 0; i < 3; i++) in[i] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8));
  compute_node y = compute_matmul(g, compute_softmax(g, compute_matmul(g, in[0], in[1]), 1), in[2]);
  compute_plan *plan = compile_auto(g, y);
  char *text = NULL;
  assert_ptr_equal(compute_plan_device(plan), fast);
  run_twice_alike(g, in, 3, &y, 1, plan);
  assert_int_equal(launches, 4); /* two products, two runs */
  compute_plan_info info;
  assert_ok(compute_plan_describe(plan, &info));
  assert_int_equal(info.fallbacks, 0);
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "on null:0 and the CPU, placed by cost"));
  assert_non_null(strstr(text, "placed there because the CPU takes"));
  assert_non_null(strstr(text, "placed there because null:0 takes"));
  assert_non_null(strstr(text, "of copies"));
  assert_non_null(strstr(text, "predicted"));
  assert_null(strstr(text, "measured"));
  compute_text_free(text);
  compute_plan_release(plan);
  compute_graph_release(g);
}

/* The softmax would be faster on the CPU, but by less than the cost of two copies. */
static void a_chain_stays_together_where_copies_cost_more(void **state) {
  (void)state;
  device_costs here = make_costs(1e-6, 1e9, 1e7), there = make_costs(1e-6, 5e8, 1e12);
  set_copies(&there, 5e-6, 1e12);
  put_costs(&here, &there);
  compute_graph *g = compute_graph_create(context);
  compute_node in[3];
  for (int i = 0; i < 3; i++) in[i] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8));
  compute_node y = compute_matmul(g, compute_softmax(g, compute_matmul(g, in[0], in[1]), 1), in[2]);
  compute_plan *plan = compile_auto(g, y);
  run_twice_alike(g, in, 3, &y, 1, plan);
  assert_int_equal(launches, 6);
  assert_int_equal(uploads, 6); /* three inputs, two runs */
  assert_int_equal(downloads, 2);
  compute_plan_release(plan);
  compute_graph_release(g);
}

static void what_the_device_refuses_runs_on_the_cpu_without_ado(void **state) {
  (void)state;
  device_costs here = make_costs(1e-6, 1e6, 1e6), there = make_costs(1e-6, 1e12, 1e12);
  put_costs(&here, &there);
  refuses[COMPUTE_KERNEL_ROW] = true;
  compute_graph *g = compute_graph_create(context);
  compute_node in[2];
  for (int i = 0; i < 2; i++) in[i] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8));
  compute_node y = compute_softmax(g, compute_matmul(g, in[0], in[1]), 1);
  compute_plan *plan = compile_auto(g, y); /* strict */
  char *text = NULL;
  run_twice_alike(g, in, 2, &y, 1, plan);
  assert_int_equal(launches, 2);
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "null:0 cannot run it: it has no such kernel"));
  compute_text_free(text);
  compute_plan_release(plan);
  compute_graph_release(g);
}

static void a_device_that_is_slower_anyway_is_not_asked(void **state) {
  (void)state;
  device_costs here = make_costs(1e-9, 1e12, 1e12), there = make_costs(1e-3, 1e9, 1e9);
  put_costs(&here, &there);
  assert_ptr_equal(device_for_product(64), cpu);
  assert_int_equal(questions, 0);
}

/* The explanation shows the measured time of a run beside the prediction. */
static void measured_times_stand_in_the_explanation(void **state) {
  (void)state;
  device_costs here = make_costs(1e-6, 1e6, 1e6), there = make_costs(1e-6, 1e12, 1e12);
  put_costs(&here, &there);
  launch_seconds = 2e-3;
  compute_graph *g = compute_graph_create(context);
  compute_binding b[2] = {{.node = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8))}};
  b[1].node = compute_matmul(g, b[0].node, b[0].node);
  compute_plan *plan = compile_auto(g, b[1].node);
  char *text = NULL;
  for (int i = 0; i < 2; i++)
    assert_ok(compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(8, 8), 1, &b[i].tensor));
  assert_ok(compute_plan_measure(plan, b, 2));
  assert_true(test_element(b[1].tensor, 5) == 8);
  assert_ok(compute_explain(plan, &text));
  double longest = 0;
  for (const char *at = text; (at = strstr(at, "measured ")) != NULL; at++)
    longest = fmax(longest, strtod(at + strlen("measured "), NULL));
  assert_true(longest >= 2000); /* µs */
  compute_text_free(text);
  for (int i = 0; i < 2; i++) compute_tensor_release(b[i].tensor);
  compute_plan_release(plan);
  compute_graph_release(g);
}

/* The measurement finds the device's delays. */
static void measuring_finds_what_a_launch_and_a_copy_cost(void **state) {
  (void)state;
  compute_device_costs costs;
  launch_seconds = 300e-6;
  copy_seconds = 700e-6;
  assert_ok(compute_route_measure(fast, 10, &costs));
  assert_int_equal(costs.source, COMPUTE_COSTS_MEASURED);
  assert_true(costs.launch_seconds >= 300e-6);
  assert_true(costs.upload_seconds >= 700e-6);
  assert_true(costs.download_seconds >= 700e-6);
  test_time("launch", "ms", costs.launch_seconds * 1e3, 3);
  test_time("upload", "ms", costs.upload_seconds * 1e3, 7);
  test_time("download", "ms", costs.download_seconds * 1e3, 7);
  assert_true(costs.measure_seconds > 0 && costs.gemm_f32 > 0 && costs.bytes_per_second > 0);
}

/* ---- Random graphs ------------------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static uint32_t draw(uint32_t below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 33) % below;
}

static compute_node draw_operation(compute_graph *g, const compute_node *from, uint32_t count) {
  compute_node a = from[draw(count)], b = from[draw(count)];
  switch (draw(10)) {
  case 0: return compute_add(g, a, b);
  case 1: return compute_mul(g, compute_tanh(g, a), b);
  case 2: return compute_relu(g, a);
  case 3: return compute_tanh(g, compute_matmul(g, a, b));
  case 4: return compute_softmax(g, a, (int32_t)draw(2));
  case 5: return compute_transpose(g, a, COMPUTE_ALL_AXES);
  case 6: return compute_sub(g, a, compute_mean(g, b, COMPUTE_AXES(1), true));
  case 7: {
    compute_node half[2] = {compute_slice(g, a, 0, 0, 4, 1), compute_slice(g, b, 0, 4, 4, 1)};
    return compute_concat(g, half, 2, 0);
  }
  case 8: return compute_maximum(g, a, compute_scalar(g, COMPUTE_F32, 0.25));
  default:
    return compute_reshape(g, compute_transpose(g, a, COMPUTE_ALL_AXES), COMPUTE_SHAPE(8, 8));
  }
}

static device_costs draw_costs(void) {
  device_costs c = {.launch = 1e-6, .wait = 1e-6};
  for (work_class class = 0; class < WORK_CLASSES; class ++)
    set_rate(&c, class, 1e-6, pow(10, 7 + (double)draw(4)));
  set_copies(&c, 1e-7 * (double)(1 + draw(100)), 1e10);
  return c;
}

/* The same kernels run on both devices, so every placement must give the same bits. */
static void wherever_steps_run_the_results_are_the_same(void **state) {
  (void)state;
  int used = 0, shared = 0;
  for (int round = 0; round < 150; round++) {
    enum { INPUTS = 3, MOST = 16 };
    compute_node node[MOST], output[3];
    uint32_t count = INPUTS, outputs = 1 + draw(3);
    compute_graph *g = compute_graph_create(context);
    for (int i = 0; i < INPUTS; i++) node[i] = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8));
    while (count < MOST - draw(6)) {
      node[count] = draw_operation(g, node, count);
      count++;
    }
    for (uint32_t i = 0; i < outputs; i++) output[i] = node[count - 1 - i];
    device_costs here = draw_costs(), there = draw_costs();
    put_costs(&here, &there);
    compute_plan *plan = compile_for(g, output, outputs, NULL, COMPUTE_PLAN_AUTO);
    int before = launches;
    run_twice_alike(g, node, INPUTS, output, outputs, plan);
    compute_plan_info info;
    assert_ok(compute_plan_describe(plan, &info));
    used += compute_plan_device(plan) == fast;
    shared += compute_plan_device(plan) == fast && (uint32_t)(launches - before) < 2 * info.steps;
    compute_plan_release(plan);
    compute_graph_release(g);
  }
  assert_true(used > 20 && used < 140 && shared > 10);
}

/* Parameters stay on their devices, whichever device computes the new values. */
static void parameters_are_assigned_where_they_lie(void **state) {
  (void)state;
  for (int round = 0; round < 16; round++) {
    compute_device *home = round & 1 ? fast : cpu;
    float w[64];
    for (int i = 0; i < 64; i++) w[i] = (float)(i % 7) / 4;
    compute_tensor *weights = NULL, *x = NULL;
    assert_ok(compute_tensor_from_host(home, COMPUTE_F32, COMPUTE_SHAPE(8, 8), w, &weights));
    assert_ok(compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(8, 8), 0.5, &x));
    compute_graph *g = compute_graph_create(context);
    compute_node in = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8));
    compute_node p = compute_parameter(g, weights);
    compute_node step = compute_matmul(g, in, in); /* 2 everywhere */
    compute_node assign =
        compute_assign(g, p,
                       round & 2 ? compute_add(g, p, step)
                                 : compute_transpose(g, compute_add(g, p, step), COMPUTE_ALL_AXES));
    device_costs here = draw_costs(), there = draw_costs();
    put_costs(&here, &there);
    compute_plan *plan = compile_auto(g, assign);
    const compute_binding b = {in, x};
    assert_ok(compute_run(plan, &b, 1, NULL));
    assert_ptr_equal(compute_tensor_device(weights), home);
    for (int i = 0; i < 64; i++) {
      int from = round & 2 ? i : i % 8 * 8 + i / 8;
      assert_true(test_element(weights, i) == (double)w[from] + 2);
    }
    compute_plan_release(plan);
    compute_graph_release(g);
    compute_tensor_release(weights);
    compute_tensor_release(x);
  }
}

/* Views, constants, inputs as outputs, and sizes of 0 leave little or nothing to place. */
static void graphs_without_work_are_placed_too(void **state) {
  (void)state;
  for (int round = 0; round < 8; round++) {
    device_costs here = draw_costs(), there = draw_costs();
    put_costs(&here, &there);
    float held[64];
    for (int i = 0; i < 64; i++) held[i] = (float)i;
    compute_tensor *p = NULL;
    assert_ok(compute_tensor_from_host(round & 1 ? fast : cpu, COMPUTE_F32, COMPUTE_SHAPE(8, 8),
                                       held, &p));
    compute_graph *g = compute_graph_create(context);
    compute_node in[1] = {compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8))};
    compute_node parameter = compute_parameter(g, p);
    compute_node out[4] = {
        compute_transpose(g, in[0], COMPUTE_ALL_AXES),
        compute_add(g, compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8), held), in[0]),
        compute_transpose(g, parameter, COMPUTE_ALL_AXES),
        compute_constant(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8), held)};
    compute_plan *plan = compile_for(g, out, 4, NULL, COMPUTE_PLAN_AUTO);
    if (!(round & 1)) {
      run_twice_alike(g, in, 1, out, 4, plan);
    } else { /* the CPU's plan has no access to the parameter's device */
      assert_ptr_equal(compute_plan_device(plan), fast);
      compute_binding b[5] = {{.node = in[0]}};
      for (int i = 0; i < 5; i++) {
        if (i > 0) b[i].node = out[i - 1];
        /* One tensor is on another device than the plan's ports. */
        assert_ok(compute_tensor_full(i == 2 ? fast : cpu, COMPUTE_F32, COMPUTE_SHAPE(8, 8), 1,
                                      &b[i].tensor));
      }
      assert_ok(compute_run(plan, b, 5, NULL));
      for (int i = 0; i < 64; i++) {
        assert_true(test_element(b[2].tensor, i) == held[i] + 1);
        assert_true(test_element(b[3].tensor, i) == held[i % 8 * 8 + i / 8]);
      }
      for (int i = 0; i < 5; i++) compute_tensor_release(b[i].tensor);
    }
    compute_plan_release(plan);
    compute_node none = compute_relu(g, compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(0, 8)));
    compute_plan_release(compile_auto(g, none));
    compute_graph_release(g);
    compute_tensor_release(p);
  }
}

/* ---- Lack of memory -------------------------------------------------------------------------- */

static int set_up_failing(void **state) {
  failing_allocator_install();
  return set_up(state);
}

static int tear_down_failing(void **state) {
  tear_down(state);
  assert_int_equal(failing_allocator_remove(), 0);
  return 0;
}

static compute_status place_run_and_explain(const compute_graph *g, compute_node y,
                                            const compute_binding *b) {
  compute_plan *plan = NULL;
  char *text = NULL;
  const compute_plan_options options = {.flags = COMPUTE_PLAN_AUTO,
                                        .fallback = COMPUTE_FALLBACK_STRICT};
  compute_status status = compute_compile(g, &y, 1, &options, &plan);
  if (!status) status = compute_run(plan, b, 2, NULL);
  if (!status) status = compute_explain(plan, &text);
  compute_text_free(text);
  compute_plan_release(plan);
  return status;
}

/* Any request may fail: the error is reported, nothing leaks, and the next attempt works. */
static void a_failing_allocation_is_an_error_and_no_more(void **state) {
  (void)state;
  device_costs here = make_costs(1e-9, 1e12, 1e7), there = make_costs(1e-9, 1e6, 1e12);
  set_copies(&there, 1e-9, 1e12);
  set_rate(&there, WORK_STREAM, 1e-9, 1e12);
  put_costs(&here, &there);
  compute_graph *g = compute_graph_create(context);
  compute_binding b[2] = {{.node = compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(8, 8))}};
  b[1].node = compute_softmax(g, compute_matmul(g, b[0].node, b[0].node), 1);
  for (int i = 0; i < 2; i++)
    assert_ok(compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(8, 8), 1, &b[i].tensor));
  assert_ok(place_run_and_explain(g, b[1].node, b));
  int64_t failures = 1, nth = 1;
  for (; failures > 0 && nth < 10000; nth++) {
    kernel_cache_forget(fast->kernels); /* cached entries would hide allocations that may fail */
    failing_allocator_arm(nth, false);
    compute_status status = place_run_and_explain(g, b[1].node, b);
    failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (failures == 0) assert_ok(status);
    if (status) assert_true(strlen(compute_error_message(context)) > 5);
  }
  assert_true(nth > 20);
  assert_ok(place_run_and_explain(g, b[1].node, b));
  for (int i = 0; i < 2; i++) compute_tensor_release(b[i].tensor);
  compute_graph_release(g);
}

static void measuring_survives_a_failing_allocation(void **state) {
  (void)state;
  int64_t failures = 1;
  for (int64_t nth = 1; failures > 0 && nth < 20; nth++) {
    failing_allocator_arm(nth, false);
    compute_status status = compute_route_measure(fast, 0.02, NULL);
    failures = failing_allocator_failures();
    failing_allocator_arm(0, false);
    if (failures == 0) assert_ok(status);
  }
  assert_ok(compute_route_measure(fast, 0.02, NULL));
}

/* ---- The default ---------------------------------------------------------------------------- */

static void a_context_may_place_all_plans_that_name_no_device(void **state) {
  (void)state;
  compute_context *other = NULL;
  compute_plan *plan = NULL;
  char *text = NULL;
  assert_ok(
      compute_open(&other, &(compute_open_options){.backends = "cpu,null", .device = "auto"}));
  compute_device *best = compute_default_device(other);
  compute_graph *g = compute_graph_create(other);
  compute_node y = compute_relu(g, compute_input(g, COMPUTE_F32, COMPUTE_SHAPE(4)));
  assert_ok(compute_compile(g, &y, 1, NULL, &plan));
  assert_ok(compute_explain(plan, &text));
  assert_non_null(strstr(text, "placed by cost"));
  compute_text_free(text);
  compute_plan_release(plan);
  assert_ok(compute_device_push(best));
  assert_ok(compute_compile(g, &y, 1, NULL, &plan));
  assert_ok(compute_explain(plan, &text));
  assert_null(strstr(text, "placed by cost"));
  compute_text_free(text);
  compute_plan_release(plan);
  assert_ok(compute_device_pop(other));
  compute_graph_release(g);
  test_close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_crossing_point_is_where_the_figures_say, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(one_plan_uses_both_devices_when_that_is_fastest, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_chain_stays_together_where_copies_cost_more, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(what_the_device_refuses_runs_on_the_cpu_without_ado, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_device_that_is_slower_anyway_is_not_asked, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(measured_times_stand_in_the_explanation, set_up, tear_down),
      cmocka_unit_test_setup_teardown(measuring_finds_what_a_launch_and_a_copy_cost, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(wherever_steps_run_the_results_are_the_same, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(parameters_are_assigned_where_they_lie, set_up, tear_down),
      cmocka_unit_test_setup_teardown(graphs_without_work_are_placed_too, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_failing_allocation_is_an_error_and_no_more, set_up_failing,
                                      tear_down_failing),
      cmocka_unit_test_setup_teardown(measuring_survives_a_failing_allocation, set_up_failing,
                                      tear_down_failing),
      cmocka_unit_test(a_context_may_place_all_plans_that_name_no_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
