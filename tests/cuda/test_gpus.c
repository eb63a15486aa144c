/* SPDX-License-Identifier: MIT */
/* Several GPUs, several streams of one GPU, and the state after each kind of failure, on the
 * stand-in of tests/cuda_driver/. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device/device.h"
#include "support/drivers/cuda_stand_in.h"
#include "support/drivers/device_job.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, COUNT = 100000 };

static cuda_stand_in gpu;
static job_result expected; /* on the CPU */

static compute_context *open_with(const char *orders, const char *device) {
  compute_context *context = NULL;
  assert_true(gpu.configure(orders));
  assert_ok(compute_open(&context, &(compute_open_options){.device = device}));
  return context;
}

static void close_clean(compute_context *context) {
  char text[256];
  test_close(context);
  assert_true(gpu.configure("")); /* a lost device's objects are gone */
  if (gpu.live(text, sizeof text)) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text)) fail_msg("%s", text);
}

static compute_device *device_called(compute_context *context, const char *name) {
  compute_device *device = NULL;
  assert_ok(compute_device_by_name(context, name, &device));
  return device;
}

static compute_status job_on(compute_context *context, const char *name, const char *where) {
  job_result result;
  assert_ok(compute_device_push(device_called(context, name)));
  const compute_status s = device_job(context, &result);
  assert_ok(compute_device_pop(context));
  if (s == COMPUTE_OK) device_job_check(&result, &expected, where);
  return s;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* ---- Several GPUs -------------------------------------------------------------------------- */

static void every_gpu_is_listed_and_works(void **state) {
  (void)state;
  compute_context *context = open_with("device_count=3", "cuda:1");
  int found = 0;
  for (size_t i = 0; compute_device_at(context, i); i++) {
    compute_device_info info;
    assert_ok(compute_device_describe(compute_device_at(context, i), &info));
    found += strncmp(info.name, "cuda:", 5) == 0;
  }
  assert_int_equal(found, 3);
  assert_string_equal(compute_default_device(context)->info.name, "cuda:1");
  assert_ok(job_on(context, "cuda:0", "GPU 0"));
  assert_ok(job_on(context, "cuda:1", "GPU 1"));
  assert_ok(job_on(context, "cuda:2", "GPU 2"));
  close_clean(context);
}

/* Between each pair, with and without peer access, and after a slow copy. */
static void every_gpu_copies_to_every_other(void **state) {
  (void)state;
  static const char *const orders[] = {"device_count=3,copy_rate=400", "device_count=3,no_peers=1",
                                       "device_count=3,no_pools=1"};
  static const char *const names[] = {"cuda:0", "cuda:1", "cuda:2"};
  static float values[COUNT], got[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (float)(i % 8191);
  for (size_t way = 0; way < sizeof orders / sizeof *orders; way++) {
    compute_context *context = open_with(orders[way], "cuda:0");
    compute_tensor *tensors[3];
    for (int i = 0; i < 3; i++)
      assert_ok(compute_tensor_create(device_called(context, names[i]), COMPUTE_F32,
                                      COMPUTE_SHAPE(COUNT), &tensors[i]));
    for (int from = 0; from < 3; from++) {
      for (int to = 0; to < 3; to++) {
        values[0] = (float)(10 * from + to);
        assert_ok(compute_tensor_write(tensors[from], values, sizeof values));
        assert_ok(compute_tensor_copy(tensors[to], tensors[from]));
        assert_ok(compute_tensor_read(tensors[to], got, sizeof got));
        assert_memory_equal(got, values, sizeof got);
      }
    }
    assert_int_equal(cuda_stand_in_calls(&gpu, "cuMemcpyPeerAsync"), 6);
    assert_int_equal(cuda_stand_in_calls(&gpu, "cuDeviceCanAccessPeer"), 6);
    assert_int_equal(cuda_stand_in_calls(&gpu, "cuCtxEnablePeerAccess"), way == 1 ? 0 : 6);
    for (int i = 0; i < 3; i++) compute_tensor_release(tensors[i]);
    close_clean(context);
  }
}

/* If peer access fails although the GPU offers it, copies still work. */
static void a_failure_to_reach_a_gpu_is_no_failure(void **state) {
  (void)state;
  static const char *const orders[] = {"device_count=2,fail=cuCtxEnablePeerAccess:1:205",
                                       "device_count=2,fail=cuDeviceCanAccessPeer:1:101",
                                       "device_count=2,fail=cuMemPoolSetAccess:1:801"};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    compute_context *context = open_with(orders[i], "cuda:0");
    const float value[2] = {5, 7};
    compute_tensor *here = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(2), value), *there;
    assert_ok(compute_tensor_create(device_called(context, "cuda:1"), COMPUTE_F32, COMPUTE_SHAPE(2),
                                    &there));
    assert_ok(compute_tensor_copy(there, here));
    assert_float_equal(test_element(there, 1), 7, 0);
    compute_tensor_release(here);
    compute_tensor_release(there);
    close_clean(context);
  }
}

static void a_lost_gpu_does_not_take_the_others_with_it(void **state) {
  (void)state;
  compute_context *context = open_with("device_count=2,fail=kernel:2:719", "cuda:0");
  const float one[1] = {1};
  compute_tensor *lost = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(1), one), *other = NULL;
  assert_ok(compute_tensor_create(device_called(context, "cuda:1"), COMPUTE_F32, COMPUTE_SHAPE(1),
                                  &other));
  assert_fails(job_on(context, "cuda:0", "lost"), COMPUTE_ERROR_DEVICE_LOST);
  assert_true(gpu.configure("keep=1,device_count=2"));
  assert_ok(job_on(context, "cuda:1", "the other one"));
  assert_fails(job_on(context, "cuda:0", "lost"), COMPUTE_ERROR_DEVICE_LOST);
  assert_fails(compute_tensor_copy(other, lost), COMPUTE_ERROR_DEVICE_LOST);
  assert_fails(compute_tensor_copy(lost, other), COMPUTE_ERROR_DEVICE_LOST);
  assert_ok(job_on(context, "cuda:1", "the other one, again"));
  compute_tensor_release(lost);
  compute_tensor_release(other);
  close_clean(context);
}

/* ---- Streams ------------------------------------------------------------------------------- */

/* Calls the vtable directly, to choose the stream of each operation. */
typedef struct streams {
  const compute_backend *backend;
  void *device, *first, *second, *scale;
  compute_memory a, b;
  float *to_device, *to_host;
} streams;

static const uint64_t bytes = sizeof(float) * COUNT;

static void streams_open(compute_context *context, streams *s) {
  static const char source[] = "extern \"C\" __global__ void scale(float *x, float by, int n) {\n"
                               "  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);\n"
                               "  if (i < n) x[i] *= by;\n}\n";
  compute_device *device = compute_default_device(context);
  *s = (streams){.backend = device->backend, .device = device->handle};
  assert_int_equal(s->backend->queue_create(s->device, &s->first), COMPUTE_OK);
  assert_int_equal(s->backend->queue_create(s->device, &s->second), COMPUTE_OK);
  assert_int_equal(s->backend->memory_allocate(s->device, bytes, &s->a), COMPUTE_OK);
  assert_int_equal(s->backend->memory_allocate(s->device, bytes, &s->b), COMPUTE_OK);
  assert_int_equal(s->backend->custom_build(s->device, source, "scale", "", &s->scale), COMPUTE_OK);
  assert_int_equal(s->backend->host_allocate(s->device, bytes, (void **)&s->to_device), COMPUTE_OK);
  assert_int_equal(s->backend->host_allocate(s->device, bytes, (void **)&s->to_host), COMPUTE_OK);
  for (int i = 0; i < COUNT; i++) s->to_device[i] = (float)i;
}

static void streams_close(streams *s) {
  s->backend->host_release(s->device, s->to_device);
  s->backend->host_release(s->device, s->to_host);
  s->backend->custom_destroy(s->device, s->scale);
  s->backend->memory_release(s->device, &s->a);
  s->backend->memory_release(s->device, &s->b);
  s->backend->queue_destroy(s->first);
  s->backend->queue_destroy(s->second);
}

static compute_status scale(const streams *s, void *queue, const compute_memory *memory,
                            int32_t count) {
  static const uint32_t group[3] = {256, 1, 1};
  const uint32_t groups[3] = {(uint32_t)(count + 255) / 256, 1, 1};
  const float by = 2;
  const compute_custom_argument arguments[] = {
      {.memory = memory}, {.value = &by, .bytes = sizeof by}, {.value = &count, .bytes = 4}};
  return s->backend->custom_launch(queue, s->scale, groups, group, arguments, 3);
}

/* Upload on one stream, kernel on another, download on the first, each slow: only the events keep
 * the order. */
static void events_order_the_work_of_two_streams(void **state) {
  (void)state;
  compute_context *context = open_with("copy_rate=20,delay_kernels=15", "cuda:0");
  streams s;
  streams_open(context, &s);
  const compute_argument a = {&s.a, 0};
  void *uploaded = NULL, *scaled = NULL;
  assert_int_equal(s.backend->upload(s.first, &a, s.to_device, bytes), COMPUTE_OK);
  assert_int_equal(s.backend->event_record(s.first, &uploaded), COMPUTE_OK);
  assert_int_equal(s.backend->queue_wait_event(s.second, uploaded), COMPUTE_OK);
  assert_int_equal(scale(&s, s.second, &s.a, COUNT), COMPUTE_OK);
  assert_int_equal(s.backend->event_record(s.second, &scaled), COMPUTE_OK);
  assert_int_equal(s.backend->queue_wait_event(s.first, scaled), COMPUTE_OK);
  assert_int_equal(s.backend->download(s.first, s.to_host, &a, bytes), COMPUTE_OK);
  s.backend->event_destroy(s.device, uploaded); /* commands that already wait still do */
  s.backend->event_destroy(s.device, scaled);
  assert_int_equal(s.backend->queue_wait(s.first), COMPUTE_OK);
  for (int i = 0; i < COUNT; i++) assert_float_equal(s.to_host[i], 2.0F * (float)i, 0);
  streams_close(&s);
  close_clean(context);
}

/* Copies in both directions and kernels take equally long alone and hardly longer together. No call
 * waits for them. */
static void copies_of_page_locked_memory_run_beside_kernels(void **state) {
  (void)state;
  enum { KERNELS = 10, MILLISECONDS = 10, COPY = 100 };
  compute_context *context = open_with("delay_copies=100,delay_kernels=10", "cuda:0");
  streams s;
  streams_open(context, &s);
  void *third = NULL;
  assert_int_equal(s.backend->queue_create(s.device, &third), COMPUTE_OK);
  const compute_argument a = {&s.a, 0}, b = {&s.b, 0};
  const compute_memory part = s.b;
  double best = 1e9, calls = 1e9;
  for (int turn = 0; turn < 3; turn++) { /* a busy machine is slow at times */
    const double start = now();
    assert_int_equal(s.backend->upload(s.first, &a, s.to_device, bytes), COMPUTE_OK);
    assert_int_equal(s.backend->download(third, s.to_host, &b, bytes), COMPUTE_OK);
    for (int i = 0; i < KERNELS; i++) assert_int_equal(scale(&s, s.second, &part, 1), COMPUTE_OK);
    const double called = now() - start;
    assert_int_equal(s.backend->queue_wait(s.first), COMPUTE_OK);
    assert_int_equal(s.backend->queue_wait(s.second), COMPUTE_OK);
    assert_int_equal(s.backend->queue_wait(third), COMPUTE_OK);
    const double all = now() - start;
    if (all < best) best = all;
    if (called < calls) calls = called;
  }
  print_message("calls %.1f ms, all %.1f ms\n", calls, best);
  assert_int_equal(gpu.together(), 3);
  assert_true(best > COPY - 1);
  test_time("calls", "ms", calls, COPY / 2);
  test_time("all", "ms", best, COPY + KERNELS * MILLISECONDS - 10);
  s.backend->queue_destroy(third);
  streams_close(&s);
  close_clean(context);
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* After a code that ends a context, no call reaches the driver; other codes end nothing. */
static void codes_that_end_a_device_are_told_from_others(void **state) {
  (void)state;
  static const int fatal[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 911};
  static const int other[] = {1, 2, 205, 701, 712, 801, 999};
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
    char orders[64];
    snprintf(orders, sizeof orders, "fail=cuStreamSynchronize:3:%d", fatal[i]);
    compute_context *context = open_with(orders, "cuda:0");
    assert_fails(job_on(context, "cuda:0", orders), COMPUTE_ERROR_DEVICE_LOST);
    assert_true(gpu.configure("keep=1"));
    assert_fails(job_on(context, "cuda:0", orders), COMPUTE_ERROR_DEVICE_LOST);
    test_check_message(context, "is lost since");
    compute_error error;
    assert_ok(compute_error_get(context, &error));
    assert_int_equal(error.native_code, fatal[i]);
    assert_true(error.remedy[0] != '\0');
    assert_int_equal(cuda_stand_in_calls(&gpu, NULL), cuda_stand_in_calls(&gpu, "cuGetErrorName"));
    close_clean(context);
  }
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    char orders[64];
    snprintf(orders, sizeof orders, "fail=cuStreamSynchronize:3:%d", other[i]);
    compute_context *context = open_with(orders, "cuda:0");
    assert_int_not_equal(job_on(context, "cuda:0", orders), COMPUTE_ERROR_DEVICE_LOST);
    assert_true(gpu.configure("keep=1"));
    assert_ok(job_on(context, "cuda:0", orders));
    close_clean(context);
  }
}

static compute_status upload(compute_context *context, const char *where) {
  static float values[COUNT];
  compute_tensor *tensor = NULL;
  (void)where;
  const compute_status s = compute_tensor_from_host(compute_default_device(context), COMPUTE_F32,
                                                    COMPUTE_SHAPE(COUNT), values, &tensor);
  compute_tensor_release(tensor);
  return s;
}

static compute_status run(compute_context *context, const char *where) {
  return job_on(context, "cuda:0", where);
}

static compute_status build(compute_context *context, const char *where) {
  compute_kernel *kernel = NULL;
  char source[160];
  static int number; /* a text that is in no cache */
  (void)where;
  snprintf(source, sizeof source, "extern \"C\" __global__ void k(int *x) { *x = %d; } // %lld",
           number++, (long long)time(NULL));
  const compute_status s =
      compute_kernel_compile(compute_default_device(context), source, "k", NULL, 0, &kernel);
  compute_kernel_release(kernel);
  return s;
}

/* Each kind of failure has its status and its message, and the device still works. */
static void each_failure_has_its_status_and_words(void **state) {
  (void)state;
  static const struct {
    const char *orders;
    compute_status (*work)(compute_context *, const char *);
    compute_status status;
    const char *words;
  } cases[] = {
      {"fail=cuMemAllocFromPoolAsync:1+:2", upload, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
       "out of device memory"},
      {"no_pools=1,fail=cuMemAlloc:1+:2", upload, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
       "out of device memory"},
      {"fail=cuMemcpyHtoDAsync:1+:999", upload, COMPUTE_ERROR_TRANSFER, "CUDA_ERROR_UNKNOWN"},
      {"fail=cuModuleLoadData:1:209", build, COMPUTE_ERROR_COMPILATION, "NO_BINARY_FOR_GPU"},
      {"driver_version=12040", build, COMPUTE_ERROR_COMPILATION, "INVALID_IMAGE"},
      {"capability=91,driver_version=12040", build, COMPUTE_ERROR_COMPILATION,
       "UNSUPPORTED_PTX_VERSION"},
      {"fail=cuModuleGetFunction:1:2", build, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY,
       "does not compile"},
      {"fail=cuStreamCreate:3+:2", run, COMPUTE_ERROR_OUT_OF_DEVICE_MEMORY, "creating a stream"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_context *context = open_with(cases[i].orders, "cuda:0");
    compute_error error;
    assert_fails(cases[i].work(context, cases[i].orders), cases[i].status);
    assert_ok(compute_error_get(context, &error));
    if (!strstr(error.message, cases[i].words))
      fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].orders, error.message, cases[i].words);
    assert_true(gpu.configure("keep=1,driver_version=13000"));
    assert_ok(job_on(context, "cuda:0", cases[i].orders));
    close_clean(context);
  }
}

/* A pool's free memory may be in pieces that are too small: the pool then returns them to the
 * driver. */
static void a_pool_that_is_short_gives_back_what_it_keeps(void **state) {
  (void)state;
  compute_context *context = open_with("fail=cuMemAllocFromPoolAsync:2:2", "cuda:0");
  assert_ok(upload(context, ""));
  assert_ok(compute_pool_trim(compute_default_device(context), 0));
  assert_ok(upload(context, ""));
  assert_int_equal(gpu.failures(NULL), 1);
  assert_int_equal(cuda_stand_in_calls(&gpu, "cuMemPoolTrimTo"), 1);
  close_clean(context);
}

/* Without pinned memory, copies use the driver's pageable path. */
static void without_pinned_memory_copies_are_slower_but_right(void **state) {
  (void)state;
  compute_context *context = open_with("fail=cuMemHostAlloc:1+:2", "cuda:0");
  static float values[COUNT], got[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  compute_tensor *tensor = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), values);
  assert_ok(compute_tensor_read(tensor, got, sizeof got));
  assert_memory_equal(got, values, sizeof got);
  compute_tensor_release(tensor);
  close_clean(context);
}

/* Uses timers, page-locked and registered memory; returns the status of the first failing call. */
static compute_status time_some_copies(const compute_backend *backend, void *device) {
  enum { TIMERS = 3 };
  void *queue = NULL, *data = NULL, *timers[TIMERS] = {NULL};
  static unsigned char own[4096];
  compute_memory memory = {0};
  int64_t time = 0, before = 0;
  bool registered = false;
  compute_status s = backend->queue_create(device, &queue);
  if (s == COMPUTE_OK) s = backend->memory_allocate(device, sizeof own, &memory);
  if (s == COMPUTE_OK) s = backend->host_allocate(device, sizeof own, &data);
  if (s == COMPUTE_OK) s = backend->host_register(device, own, sizeof own);
  registered = s == COMPUTE_OK;
  const compute_argument place = {&memory, 0};
  for (int i = 0; i < TIMERS && s == COMPUTE_OK; i++) {
    s = backend->timer_record(queue, &timers[i]);
    if (s == COMPUTE_OK) s = backend->upload(queue, &place, i ? own : data, sizeof own);
  }
  for (int i = 0; i < TIMERS && s == COMPUTE_OK; i++, before = time) {
    s = backend->timer_read(device, timers[i], &time);
    if (s == COMPUTE_OK) assert_true(time >= before);
  }
  if (queue) {
    const compute_status waited = backend->queue_wait(queue);
    if (s == COMPUTE_OK) s = waited;
  }
  for (int i = 0; i < TIMERS; i++)
    if (timers[i]) backend->timer_destroy(device, timers[i]);
  if (registered) backend->host_unregister(device, own);
  if (data) backend->host_release(device, data);
  if (memory.handle) backend->memory_release(device, &memory);
  if (queue) backend->queue_destroy(queue);
  return s;
}

static void any_call_for_timers_and_page_locked_memory_may_fail(void **state) {
  (void)state;
  static const int codes[] = {999, 2, 700};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    for (int64_t nth = 1;; nth++) {
      char orders[64];
      compute_context *context = open_with("", "cuda:0");
      compute_device *device = compute_default_device(context);
      snprintf(orders, sizeof orders, "keep=1,fail=any:%lld:%d", (long long)nth, codes[i]);
      assert_true(gpu.configure(orders));
      const compute_status s = time_some_copies(device->backend, device->handle);
      const char *call = "";
      const bool failed = gpu.failures(&call) > 0;
      /* Objects of a context that cannot be entered cannot be released. */
      const bool stays = strcmp(call, "cuCtxSetCurrent") == 0;
      assert_true(gpu.configure("keep=1"));
      if (codes[i] != 700 && !stays)
        assert_int_equal(time_some_copies(device->backend, device->handle), COMPUTE_OK);
      if (!failed) assert_int_equal(s, COMPUTE_OK);
      if (stays) {
        test_close(context);
        assert_true(gpu.configure("reset=1"));
        gpu.live(NULL, 0);
      } else {
        close_clean(context);
      }
      if (!failed) break;
    }
  }
}

static void gpus_that_cannot_be_used_are_explained(void **state) {
  (void)state;
  static const struct {
    const char *orders, *words;
  } cases[] = {{"capability=35", "compute capability 3.5"},
               {"fail=cuDevicePrimaryCtxRetain:1+:46", "is not available"},
               {"fail=cuDeviceGet:1+:999", "CUDA_ERROR_UNKNOWN"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compute_context *context = NULL;
    assert_true(gpu.configure(cases[i].orders));
    assert_ok(compute_open(&context, &(compute_open_options){.device = "cpu"}));
    bool told = false;
    const compute_probe *probe;
    for (size_t k = 0; compute_device_at(context, k); k++) continue; /* opens all modules */
    for (size_t k = 0; (probe = compute_probe_at(context, k)) != NULL; k++)
      told |= strstr(probe->detail, cases[i].words) != NULL;
    if (!told) fail_msg("%s: nobody says \"%s\"", cases[i].orders, cases[i].words);
    close_clean(context);
  }
}

static void a_gpu_that_the_compiler_no_longer_knows_is_noted(void **state) {
  (void)state;
  compute_context *context = open_with("capability=61", "cuda:0");
  compute_device_info info;
  assert_ok(compute_device_describe(compute_default_device(context), &info));
  assert_non_null(strstr(info.notes, "no longer supports"));
  assert_false(info.capabilities & COMPUTE_CAPABILITY_COMPUTE);
  assert_ok(upload(context, ""));
  close_clean(context);
}

static int prepare(void **state) {
  (void)state;
  compute_context *context = open_with("", "cpu");
  assert_ok(device_job(context, &expected));
  close_clean(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_gpu_is_listed_and_works),
      cmocka_unit_test(every_gpu_copies_to_every_other),
      cmocka_unit_test(a_failure_to_reach_a_gpu_is_no_failure),
      cmocka_unit_test(a_lost_gpu_does_not_take_the_others_with_it),
      cmocka_unit_test(events_order_the_work_of_two_streams),
      cmocka_unit_test(copies_of_page_locked_memory_run_beside_kernels),
      cmocka_unit_test(codes_that_end_a_device_are_told_from_others),
      cmocka_unit_test(each_failure_has_its_status_and_words),
      cmocka_unit_test(a_pool_that_is_short_gives_back_what_it_keeps),
      cmocka_unit_test(without_pinned_memory_copies_are_slower_but_right),
      cmocka_unit_test(any_call_for_timers_and_page_locked_memory_may_fail),
      cmocka_unit_test(gpus_that_cannot_be_used_are_explained),
      cmocka_unit_test(a_gpu_that_the_compiler_no_longer_knows_is_noted),
  };
  if (!cuda_stand_in_open(&gpu)) {
    fprintf(stderr, "Skipped: no stand-in for the CUDA driver.\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, prepare, NULL);
}
