/* Promises of the vtable's optional slots for times and for page-locked host memory, on the device
 * that COMPUTE_TEST_DEVICE names. Skipped where the device has neither. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, BYTES = 3 << 20 };

static compute_context *context;
static compute_device *device;
static const compute_backend *backend;
static compute_memory memory;
static const compute_argument place = {&memory, 256};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void *queue_make(void) {
  void *queue = NULL;
  assert_int_equal(backend->queue_create(device->handle, &queue), COMPUTE_OK);
  return queue;
}

static void fill(unsigned char *data, unsigned seed) {
  for (size_t i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 31 + i / 4099 + seed);
}

/* ---- Times --------------------------------------------------------------------------------- */

/* The clocks of host and device are tied to within 2 ms where nobody comes in between; another
 * unit or another beginning would be off by far more than this. */
static const int64_t tolerance = 60000000000, tied = 2000000;

static void check_tied(int64_t from, int64_t time, int64_t to) {
  const int64_t off = time < from ? from - time : time > to ? time - to : 0;
  if (off > tolerance) fail_msg("%lld us from the host's clock", (long long)off / 1000);
  test_time("a timer, from the host's clock,", "ms", (double)off * 1e-6, (double)tied * 1e-6);
}

static void timers_are_in_order_and_on_the_hosts_clock(void **state) {
  (void)state;
  if (!backend->timer_record) skip();
  enum { COUNT = 5 };
  void *queue = queue_make(), *timers[COUNT];
  unsigned char *data = calloc(BYTES, 1);
  int64_t host[COUNT + 1], times[COUNT];
  assert_non_null(data);
  for (int i = 0; i < COUNT; i++) {
    host[i] = now();
    assert_int_equal(backend->timer_record(queue, &timers[i]), COMPUTE_OK);
    assert_int_equal(backend->upload(queue, &place, data, BYTES), COMPUTE_OK);
  }
  assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
  host[COUNT] = now();
  for (int i = COUNT - 1; i >= 0; i--) {
    int64_t again = 0;
    assert_int_equal(backend->timer_read(device->handle, timers[i], &times[i]), COMPUTE_OK);
    assert_int_equal(backend->timer_read(device->handle, timers[i], &again), COMPUTE_OK);
    assert_int_equal(again, times[i]);
    backend->timer_destroy(device->handle, timers[i]);
  }
  for (int i = 0; i < COUNT; i++) {
    check_tied(host[i], times[i], host[COUNT]);
    if (i > 0) assert_true(times[i] >= times[i - 1]);
  }
  free(data);
  backend->queue_destroy(queue);
}

static void a_timer_waits_for_the_work_before_it(void **state) {
  (void)state;
  if (!backend->timer_record) skip();
  void *queue = queue_make(), *first = NULL, *last = NULL;
  unsigned char *data = NULL, *back = calloc(BYTES, 1);
  int64_t start = 0, end = 0;
  assert_non_null(back);
  assert_int_equal(backend->host_allocate(device->handle, BYTES, (void **)&data), COMPUTE_OK);
  fill(data, 3);
  assert_int_equal(backend->timer_record(queue, &first), COMPUTE_OK);
  for (int i = 0; i < 8; i++)
    assert_int_equal(backend->upload(queue, &place, data, BYTES), COMPUTE_OK);
  assert_int_equal(backend->timer_record(queue, &last), COMPUTE_OK);
  assert_int_equal(backend->timer_read(device->handle, last, &end), COMPUTE_OK);
  /* What was copied before has been read: it may change. */
  memset(data, 0, BYTES);
  assert_int_equal(backend->timer_read(device->handle, first, &start), COMPUTE_OK);
  assert_true(end > start);
  print_message("%.2f GB/s\n", 8.0 * BYTES / (double)(end - start));
  assert_int_equal(backend->download(queue, back, &place, BYTES), COMPUTE_OK);
  assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
  fill(data, 3);
  assert_memory_equal(back, data, BYTES);
  backend->timer_destroy(device->handle, first);
  backend->timer_destroy(device->handle, last);
  backend->queue_destroy(queue);
  backend->host_release(device->handle, data);
  free(back);
}

/* Timers that outlive their queue, and those of an idle one. */
static void a_timer_may_be_read_when_its_queue_is_gone(void **state) {
  (void)state;
  if (!backend->timer_record) skip();
  void *queue = queue_make(), *timer = NULL, *unread = NULL;
  const int64_t before = now();
  assert_int_equal(backend->timer_record(queue, &timer), COMPUTE_OK);
  assert_int_equal(backend->timer_record(queue, &unread), COMPUTE_OK);
  assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
  backend->queue_destroy(queue);
  int64_t time = 0;
  assert_int_equal(backend->timer_read(device->handle, timer, &time), COMPUTE_OK);
  check_tied(before, time, now());
  backend->timer_destroy(device->handle, timer);
  backend->timer_destroy(device->handle, unread);
}

/* ---- Page-locked memory -------------------------------------------------------------------- */

static void round_trip(void *queue, unsigned char *from, unsigned char *to, unsigned seed) {
  fill(from, seed);
  memset(to, 0, BYTES);
  assert_int_equal(backend->upload(queue, &place, from, BYTES), COMPUTE_OK);
  assert_int_equal(backend->download(queue, to, &place, BYTES), COMPUTE_OK);
  assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
  assert_memory_equal(from, to, BYTES);
}

static void memory_of_the_device_is_copied_from_and_to(void **state) {
  (void)state;
  if (!backend->host_allocate) skip();
  unsigned char *a = NULL, *b = NULL, *plain = malloc(BYTES);
  void *queue = queue_make();
  assert_non_null(plain);
  assert_int_equal(backend->host_allocate(device->handle, BYTES, (void **)&a), COMPUTE_OK);
  assert_int_equal(backend->host_allocate(device->handle, BYTES, (void **)&b), COMPUTE_OK);
  assert_int_equal((uintptr_t)a % 64, 0);
  round_trip(queue, a, b, 1);
  round_trip(queue, a, plain, 2);
  round_trip(queue, plain, b, 3);
  backend->host_release(device->handle, a);
  backend->host_release(device->handle, b);
  round_trip(queue, plain, plain, 4);
  free(plain);
  backend->queue_destroy(queue);
}

static void memory_of_the_caller_is_registered_once_at_a_time(void **state) {
  (void)state;
  if (!backend->host_register) skip();
  unsigned char *a = aligned_alloc(4096, BYTES), *b = malloc(BYTES);
  void *queue = queue_make();
  assert_non_null(a);
  assert_non_null(b);
  const compute_status status = backend->host_register(device->handle, a, BYTES);
  if (status == COMPUTE_OK) {
    assert_int_equal(backend->host_register(device->handle, a, BYTES), COMPUTE_ERROR_INVALID_STATE);
    round_trip(queue, a, b, 5);
    round_trip(queue, b, a, 6);
    backend->host_unregister(device->handle, a);
    round_trip(queue, a, b, 7);
    assert_int_equal(backend->host_register(device->handle, a, BYTES), COMPUTE_OK);
    backend->host_unregister(device->handle, a);
  } else {
    assert_int_equal(status, COMPUTE_ERROR_UNSUPPORTED);
  }
  free(a);
  free(b);
  backend->queue_destroy(queue);
}

/* A busy machine may finish the copies before they can be asked about; not every time. */
static void copies_of_it_are_not_waited_for(void **state) {
  (void)state;
  if (!backend->host_allocate) skip();
  enum { ATTEMPTS = 20, TURNS = 8 };
  unsigned char *data = NULL, *back = NULL;
  void *queue = queue_make();
  bool complete = true;
  assert_int_equal(backend->host_allocate(device->handle, BYTES, (void **)&data), COMPUTE_OK);
  assert_int_equal(backend->host_allocate(device->handle, BYTES, (void **)&back), COMPUTE_OK);
  fill(data, 8);
  for (int attempt = 0; attempt < ATTEMPTS && complete; attempt++) {
    void *event = NULL;
    for (int i = 0; i < TURNS; i++) {
      assert_int_equal(backend->upload(queue, &place, data, BYTES), COMPUTE_OK);
      assert_int_equal(backend->download(queue, back, &place, BYTES), COMPUTE_OK);
    }
    assert_int_equal(backend->event_record(queue, &event), COMPUTE_OK);
    assert_int_equal(backend->event_query(device->handle, event, &complete), COMPUTE_OK);
    assert_int_equal(backend->queue_wait(queue), COMPUTE_OK);
    backend->event_destroy(device->handle, event);
    assert_memory_equal(data, back, BYTES);
  }
  assert_false(complete);
  backend->host_release(device->handle, data);
  backend->host_release(device->handle, back);
  backend->queue_destroy(queue);
}

static void too_much_of_it_is_refused(void **state) {
  (void)state;
  if (!backend->host_allocate) skip();
  void *data = NULL;
  assert_int_equal(backend->host_allocate(device->handle, (uint64_t)1 << 50, &data),
                   COMPUTE_ERROR_OUT_OF_MEMORY);
  assert_true(strlen(compute_error_message(context)) > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(timers_are_in_order_and_on_the_hosts_clock),
      cmocka_unit_test(a_timer_waits_for_the_work_before_it),
      cmocka_unit_test(a_timer_may_be_read_when_its_queue_is_gone),
      cmocka_unit_test(memory_of_the_device_is_copied_from_and_to),
      cmocka_unit_test(memory_of_the_caller_is_registered_once_at_a_time),
      cmocka_unit_test(copies_of_it_are_not_waited_for),
      cmocka_unit_test(too_much_of_it_is_refused),
  };
  const char *name = getenv("COMPUTE_TEST_DEVICE");
  if (compute_open(&context, &(compute_open_options){.device = name}) != COMPUTE_OK) {
    fprintf(stderr, "%s\n", compute_error_message(NULL));
    return 1;
  }
  device = compute_default_device(context);
  backend = device->backend;
  if (!backend->timer_record && !backend->host_allocate) {
    printf("%s has neither times nor page-locked memory\n", device->info.name);
    compute_close(context);
    return SKIPPED;
  }
  if (backend->memory_allocate(device->handle, BYTES + 512, &memory) != COMPUTE_OK) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  backend->memory_release(device->handle, &memory);
  return compute_close(context) == COMPUTE_OK ? failed : 1;
}
