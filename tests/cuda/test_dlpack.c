/* SPDX-License-Identifier: MIT */
/* Exchange of a GPU's memory with another library, simulated by the test: it allocates with the
 * driver and has its own streams. On the stand-in of tests/cuda_driver/. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/dlpack.h"
#include "support/drivers/cuda_stand_in.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, COUNT = 1000 };

typedef uint64_t cuda_pointer;

static cuda_stand_in gpu;

/* The driver's functions for the other library. */
static struct {
  int (*allocate)(cuda_pointer *pointer, size_t bytes);
  int (*release)(cuda_pointer pointer);
  int (*upload)(cuda_pointer to, const void *from, size_t bytes, void *stream);
  int (*download)(void *to, cuda_pointer from, size_t bytes, void *stream);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_wait)(void *stream);
  int (*stream_destroy)(void *stream);
} driver;

static bool driver_open(void) {
  static const struct {
    const char *name;
    void *place;
  } functions[] = {
      {"cuMemAlloc", &driver.allocate},           {"cuMemFree", &driver.release},
      {"cuMemcpyHtoDAsync", &driver.upload},      {"cuMemcpyDtoHAsync", &driver.download},
      {"cuStreamCreate", &driver.stream_create},  {"cuStreamSynchronize", &driver.stream_wait},
      {"cuStreamDestroy", &driver.stream_destroy}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
    void *symbol = dlsym(library, functions[i].name);
    if (!symbol) return false;
    memcpy(functions[i].place, &symbol, sizeof symbol);
  }
  return library != NULL;
}

static compute_context *open_with(const char *orders) {
  compute_context *context = NULL;
  assert_true(gpu.configure(orders));
  assert_ok(compute_open(&context, &(compute_open_options){.device = "cuda:0"}));
  return context;
}

static void close_clean(compute_context *context) {
  char text[256];
  test_close(context);
  if (gpu.live(text, sizeof text)) fail_msg("left in the driver: %s", text);
  if (gpu.misuse(text, sizeof text)) fail_msg("%s", text);
}

/* y = 2 x. */
static compute_plan *doubling(compute_context *context, compute_node *x, compute_node *y) {
  compute_graph *graph = compute_graph_create(context);
  *x = compute_input(graph, COMPUTE_F32, COMPUTE_SHAPE(COUNT));
  *y = compute_add(graph, *x, *x);
  compute_plan *plan = test_compile(graph, y, 1, 0);
  compute_graph_release(graph);
  return plan;
}

/* ---- The other library's tensor -------------------------------------------------------------- */

static int deleted;

static void other_delete(struct DLManagedTensor *self) {
  deleted++;
  assert_int_equal(driver.release((cuda_pointer)(uintptr_t)self->tensor.data), 0);
}

static struct DLManagedTensor other_tensor(int64_t *size) {
  cuda_pointer memory = 0;
  assert_int_equal(driver.allocate(&memory, COUNT * sizeof(float)), 0);
  *size = COUNT;
  deleted = 0;
  return (struct DLManagedTensor){.tensor = {.data = (void *)(uintptr_t)memory,
                                             .device_type = 2,
                                             .rank = 1,
                                             .type = {DLPACK_FLOAT, 32, 1},
                                             .size = size},
                                  .deleter = other_delete};
}

/* A run sees the uploads that the other library enqueued on the queue's stream. */
static void another_librarys_memory_is_read_in_place(void **state) {
  (void)state;
  compute_context *context = open_with("");
  int64_t size;
  struct DLManagedTensor other = other_tensor(&size);
  float values[COUNT], results[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  compute_node x, y;
  compute_plan *plan = doubling(context, &x, &y);
  compute_device *device = compute_default_device(context);
  compute_tensor *in = NULL, *out = NULL;
  compute_queue *queue = NULL;
  assert_ok(compute_queue_create(device, &queue));
  void *stream = compute_queue_native(queue);
  assert_non_null(stream);
  assert_int_equal(
      driver.upload((cuda_pointer)(uintptr_t)other.tensor.data, values, sizeof values, stream), 0);
  assert_ok(compute_tensor_from_dlpack(context, &other, &in));
  assert_ptr_equal(compute_tensor_device(in), device);
  assert_null(compute_tensor_data(in));
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), &out));
  const compute_binding bindings[] = {{x, in}, {y, out}};
  assert_ok(compute_run(plan, bindings, 2, queue));
  compute_tensor_release(in); /* still in use by the queue */
  assert_ok(compute_queue_wait(queue));
  assert_int_equal(deleted, 1);
  assert_ok(compute_tensor_read(out, results, sizeof results));
  for (int i = 0; i < COUNT; i++) assert_true(results[i] == 2 * values[i]);
  compute_tensor_release(out);
  compute_queue_release(queue);
  compute_plan_release(plan);
  close_clean(context);
}

/* The consumer's stream waits for the run; the caller does not. */
static void a_consumers_stream_comes_after_the_queue(void **state) {
  (void)state;
  compute_context *context = open_with("delay_kernels=5");
  float values[COUNT], results[COUNT] = {0};
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  compute_node x, y;
  compute_plan *plan = doubling(context, &x, &y);
  compute_device *device = compute_default_device(context);
  compute_tensor *in = test_tensor(context, COMPUTE_F32, COMPUTE_SHAPE(COUNT), values), *out = NULL;
  compute_queue *queue = NULL;
  void *stream = NULL;
  struct DLManagedTensorVersioned *managed = NULL;
  assert_ok(compute_tensor_create(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), &out));
  assert_ok(compute_queue_create(device, &queue));
  assert_int_equal(driver.stream_create(&stream, 1), 0);
  for (int way = 0; way < 2; way++) { /* with the stream, and without one */
    const compute_binding bindings[] = {{x, in}, {y, out}};
    assert_ok(compute_run(plan, bindings, 2, queue));
    const int64_t waits = cuda_stand_in_calls(&gpu, "cuStreamSynchronize");
    const compute_dlpack_options options = {.queue = queue, .stream = way ? NULL : stream};
    assert_ok(compute_tensor_to_dlpack_versioned(out, &options, &managed));
    if (way == 0) assert_int_equal(cuda_stand_in_calls(&gpu, "cuStreamSynchronize"), waits);
    assert_int_equal(managed->tensor.device_type, 2);
    assert_int_equal(managed->tensor.device_id, 0);
    assert_int_equal(managed->tensor.byte_offset, 0);
    assert_int_equal(driver.download(results, (cuda_pointer)(uintptr_t)managed->tensor.data,
                                     sizeof results, stream),
                     0);
    assert_int_equal(driver.stream_wait(stream), 0);
    for (int i = 0; i < COUNT; i++) assert_true(results[i] == 2 * values[i]);
    managed->deleter(managed);
  }
  assert_int_equal(driver.stream_destroy(stream), 0);
  compute_tensor_release(in);
  compute_tensor_release(out);
  compute_queue_release(queue);
  compute_plan_release(plan);
  close_clean(context);
}

static void memory_of_another_gpu_or_of_nobody_is_refused(void **state) {
  (void)state;
  compute_context *context = open_with("");
  int64_t size;
  struct DLManagedTensor other = other_tensor(&size);
  compute_tensor *t = NULL;
  other.tensor.device_id = 5;
  assert_fails(compute_tensor_from_dlpack(context, &other, &t), COMPUTE_ERROR_NO_DEVICE);
  test_check_message(context, "device 5 of type 2 (CUDA)");
  other.tensor.device_id = 0;
  void *memory = other.tensor.data;
  other.tensor.data = &size;
  assert_fails(compute_tensor_from_dlpack(context, &other, &t), COMPUTE_ERROR_UNSUPPORTED);
  assert_int_equal(deleted, 0);
  other.tensor.data = memory;
  other_delete(&other);
  close_clean(context);
}

/* Host memory wrapped for the GPU is exported as page-locked host memory. */
static void locked_memory_of_the_host_is_the_cpus(void **state) {
  (void)state;
  compute_context *context = open_with("");
  float *data = malloc(COUNT * sizeof *data);
  assert_non_null(data);
  for (int i = 0; i < COUNT; i++) data[i] = (float)i;
  compute_tensor *t = NULL, *back = NULL;
  struct DLManagedTensor *managed = NULL;
  assert_ok(compute_tensor_wrap(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(COUNT),
                                NULL, data, NULL, NULL, &t));
  assert_ok(compute_tensor_to_dlpack(t, NULL, &managed));
  assert_int_equal(managed->tensor.device_type, 3);
  assert_ptr_equal(managed->tensor.data, data);
  assert_ok(compute_tensor_from_dlpack(context, managed, &back));
  assert_ptr_equal(compute_tensor_data(back), data);
  compute_tensor_release(back);
  compute_tensor_release(t);
  free(data);
  close_clean(context);
}

static void locked_memory_without_an_address_on_the_gpu_is_refused(void **state) {
  (void)state;
  compute_context *context = open_with("");
  compute_device *device = compute_default_device(context);
  static float data[COUNT];
  compute_tensor *t = NULL, *again = NULL;
  assert_ok(
      compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), NULL, data, NULL, NULL, &t));
  assert_true(gpu.configure("keep=1,no_map=1"));
  assert_fails(compute_tensor_wrap(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), NULL, data, NULL,
                                   NULL, &again),
               COMPUTE_ERROR_UNSUPPORTED);
  compute_tensor_release(t);
  close_clean(context);
}

static void failures_of_the_driver_are_reported(void **state) {
  (void)state;
  static const char *const orders[] = {"fail=cuEventCreate:1:1", "fail=cuEventRecord:1:1",
                                       "fail=cuStreamWaitEvent:1:1"};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    compute_context *context = open_with("");
    compute_tensor *t = NULL;
    compute_queue *queue = NULL;
    void *stream = NULL;
    struct DLManagedTensor *managed = NULL;
    assert_ok(
        compute_tensor_full(compute_default_device(context), COMPUTE_F32, COMPUTE_SHAPE(9), 1, &t));
    assert_ok(compute_queue_create(compute_default_device(context), &queue));
    assert_int_equal(driver.stream_create(&stream, 1), 0);
    char text[64];
    snprintf(text, sizeof text, "keep=1,%s", orders[i]);
    assert_true(gpu.configure(text));
    const compute_dlpack_options options = {.queue = queue, .stream = stream};
    assert_int_not_equal(compute_tensor_to_dlpack(t, &options, &managed), COMPUTE_OK);
    assert_null(managed);
    assert_ok(compute_tensor_to_dlpack(t, &options, &managed));
    managed->deleter(managed);
    assert_int_equal(driver.stream_destroy(stream), 0);
    compute_queue_release(queue);
    compute_tensor_release(t);
    close_clean(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_librarys_memory_is_read_in_place),
      cmocka_unit_test(a_consumers_stream_comes_after_the_queue),
      cmocka_unit_test(memory_of_another_gpu_or_of_nobody_is_refused),
      cmocka_unit_test(locked_memory_of_the_host_is_the_cpus),
      cmocka_unit_test(locked_memory_without_an_address_on_the_gpu_is_refused),
      cmocka_unit_test(failures_of_the_driver_are_reported),
  };
  if (!cuda_stand_in_open(&gpu) || !driver_open()) {
    fprintf(stderr, "Skipped: no stand-in for the CUDA driver.\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
