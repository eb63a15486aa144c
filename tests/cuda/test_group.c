/* SPDX-License-Identifier: MIT */
/* Promises about groups on GPUs, on stand-ins for the driver and for NCCL (cuda_driver/). NCCL
 * exchanges tensors on the ranks' own devices, with right values. Operations that NCCL lacks, and
 * those with a fixed order, go through pinned memory. A failure or a hang becomes an error on every
 * rank. Without the library, with an old one, or with two ranks on one device, the host does all
 * exchanges. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/transfer.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "support/drivers/cuda_libraries.h"
#include "support/harness/loopback.h"
#include "support/harness/test.h"

enum { SKIPPED = 77, COUNT = 20011, FOREIGN_CUDA = 2 };

static cuda_library_stand_in nccl;

/* ---- Ranks with a GPU each ------------------------------------------------------------------- */

static void prepare(loopback_rank ranks[LOOPBACK_MOST]) {
  memset(ranks, 0, LOOPBACK_MOST * sizeof *ranks);
  for (int r = 0; r < LOOPBACK_MOST; r++) {
    ranks[r].backends = "cpu,cuda";
    ranks[r].device = "cuda:0";
  }
}

static void run_on(int32_t size, loopback_function function, void *user,
                   loopback_rank ranks[LOOPBACK_MOST]) {
  char text[256];
  loopback_run(size, function, user, ranks);
  if (gpu.misuse(text, sizeof text)) fail_msg("%s", text);
  assert_int_equal(nccl.count ? nccl.count("live") : 0, 0);
}

static void run(int32_t size, loopback_function function) {
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  run_on(size, function, NULL, ranks);
}

static compute_device *device_of(loopback_rank *self) {
  compute_group_info info = {.rank = -1};
  RANK_CHECK(self, compute_group_query(self->group, &info) == COMPUTE_OK);
  return info.device;
}

static bool goes_by(loopback_rank *self, const char *words) {
  char text[512] = "";
  RANK_CHECK(self,
             compute_group_route(self->group, device_of(self), text, sizeof text) == COMPUTE_OK);
  return strstr(text, words) != NULL;
}

/* Small integers, so that sums are exact in every dtype. */
static double element(int32_t rank, int64_t i) {
  return (double)((i * 7 + rank * 3) % 5);
}

static compute_tensor *tensor_of(loopback_rank *self, compute_dtype dtype, int64_t count) {
  compute_tensor *tensor = NULL;
  const size_t size = compute_dtype_size(dtype);
  char *values = malloc((size_t)count * size);
  for (int64_t i = 0; i < count; i++)
    dtype_store(dtype, values + (size_t)i * size,
                dtype == COMPUTE_BOOL ? element(self->rank, i) > 2 : element(self->rank, i));
  RANK_CHECK(self, compute_tensor_from_host(device_of(self), dtype, COMPUTE_SHAPE(count), values,
                                            &tensor) == COMPUTE_OK);
  free(values);
  return tensor;
}

typedef double (*wanted_function)(const loopback_rank *self, int64_t i, int variant);

static void check(loopback_rank *self, const compute_tensor *tensor, wanted_function wanted,
                  int variant) {
  const compute_dtype dtype = compute_tensor_dtype(tensor);
  const int64_t count = compute_tensor_count(tensor);
  const size_t size = compute_dtype_size(dtype);
  char *values = malloc((size_t)count * size), expected[8];
  RANK_CHECK(self, compute_tensor_read(tensor, values, (size_t)count * size) == COMPUTE_OK);
  for (int64_t i = 0; i < count; i++) {
    const double value = wanted(self, i, variant);
    dtype_store(dtype, expected, dtype == COMPUTE_F64 ? value : (double)(float)value);
    RANK_CHECK(self, memcmp(values + (size_t)i * size, expected, size) == 0);
  }
  free(values);
}

static double reduced(const loopback_rank *self, int64_t i, int reduction) {
  double sum = element(0, i);
  for (int32_t r = 1; r < self->size; r++) {
    const double x = element(r, i);
    if (reduction <= COMPUTE_GROUP_MEAN) sum += x;
    if (reduction == COMPUTE_GROUP_MAX) sum = fmax(sum, x);
    if (reduction == COMPUTE_GROUP_MIN) sum = fmin(sum, x);
  }
  return reduction == COMPUTE_GROUP_MEAN ? sum / self->size : sum;
}

static double reduced_block(const loopback_rank *self, int64_t i, int reduction) {
  return reduced(self, i + self->rank * (int64_t)COUNT, reduction);
}

static double gathered(const loopback_rank *self, int64_t i, int variant) {
  (void)self;
  (void)variant;
  return element((int32_t)(i / COUNT), i % COUNT);
}

static double of_rank(const loopback_rank *self, int64_t i, int rank) {
  (void)self;
  return element(rank, i);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void reduce(loopback_rank *self, compute_group_reduction reduction, compute_dtype dtype) {
  compute_tensor *x = tensor_of(self, dtype, COUNT), *y = tensor_of(self, dtype, COUNT);
  compute_tensor *long_one = tensor_of(self, dtype, (int64_t)COUNT * self->size);
  RANK_CHECK(self, !compute_group_all_reduce(self->group, reduction, x, y, NULL, NULL));
  RANK_CHECK(self, !compute_group_all_reduce(self->group, reduction, x, x, NULL, NULL));
  check(self, y, reduced, (int)reduction);
  check(self, x, reduced, (int)reduction);
  RANK_CHECK(self, !compute_group_reduce_scatter(self->group, reduction, long_one, y, NULL, NULL));
  check(self, y, reduced_block, (int)reduction);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_tensor_release(long_one);
}

static void move(loopback_rank *self, compute_dtype dtype) {
  compute_tensor *x = tensor_of(self, dtype, COUNT);
  compute_tensor *all = tensor_of(self, dtype, (int64_t)COUNT * self->size);
  const int32_t root = self->size - 1, next = (self->rank + 1) % self->size;
  const int32_t before = (self->rank + self->size - 1) % self->size;
  RANK_CHECK(self, !compute_group_all_gather(self->group, x, all, NULL, NULL));
  check(self, all, gathered, 0);
  for (int turn = 0; turn < 2 && self->size > 1; turn++) {
    const bool sends = (self->rank == 0) == (turn == 0);
    RANK_CHECK(self, !(sends ? compute_group_send(self->group, x, next, NULL, NULL)
                             : compute_group_receive(self->group, x, before, NULL, NULL)));
  }
  if (self->size > 1) check(self, x, of_rank, 0);
  compute_tensor_release(x);
  x = tensor_of(self, dtype, COUNT);
  RANK_CHECK(self, !compute_group_broadcast(self->group, x, root, NULL, NULL));
  check(self, x, of_rank, root);
  compute_tensor_release(x);
  compute_tensor_release(all);
}

/* The blocks are views of the whole tensor, as in a trainer that divides the optimizer's state. */
static void within_one_tensor(loopback_rank *self) {
  compute_tensor *x = tensor_of(self, COMPUTE_F32, (int64_t)COUNT * self->size), *own = NULL;
  RANK_CHECK(self, !compute_tensor_slice_view(x, 0, (int64_t)COUNT * self->rank, COUNT, 1, &own));
  RANK_CHECK(self,
             !compute_group_reduce_scatter(self->group, COMPUTE_GROUP_SUM, x, own, NULL, NULL));
  RANK_CHECK(self, !compute_group_all_gather(self->group, own, x, NULL, NULL));
  check(self, x, reduced, COMPUTE_GROUP_SUM);
  compute_tensor_release(own);
  compute_tensor_release(x);
}

static void exchange_everything(loopback_rank *self) {
  static const compute_dtype dtypes[] = {COMPUTE_F32, COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16,
                                         COMPUTE_I8,  COMPUTE_U8,  COMPUTE_I16, COMPUTE_I32,
                                         COMPUTE_U32, COMPUTE_I64, COMPUTE_U64};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    for (int k = COMPUTE_GROUP_SUM; k <= COMPUTE_GROUP_MIN; k++)
      if (k != COMPUTE_GROUP_MEAN || dtype_is_float(dtypes[i]))
        reduce(self, (compute_group_reduction)k, dtypes[i]);
  move(self, COMPUTE_F32);
  move(self, COMPUTE_U16);
  within_one_tensor(self);
}

static void exchange_by_nccl(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "NCCL 2.27.3"));
  exchange_everything(self);
}

static void nccl_exchanges_what_it_can(void **state) {
  (void)state;
  for (int32_t size = 2; size <= 4; size++) {
    assert_true(gpu.configure("device_count=4") && nccl.configure(""));
    run(size, exchange_by_nccl);
    /* Sums of ten dtypes, means of four, extrema of six; each twice. */
    assert_int_equal(nccl.count("ncclAllReduce"), size * 2 * (10 + 4 + 2 * 6));
    assert_int_equal(nccl.count("ncclReduceScatter"), size * (10 + 4 + 2 * 6 + 1));
    assert_int_equal(nccl.count("ncclAllGather"), size * 3);
    assert_int_equal(nccl.count("ncclBroadcast"), size * 2);
    assert_int_equal(nccl.count("ncclSend"), size * 2);
    assert_int_equal(nccl.count("ncclCommDestroy"), size);
    assert_int_equal(nccl.count("ncclCommAbort"), 0);
  }
}

static void keep_elements_on_the_device(loopback_rank *self) {
  compute_tensor *x = tensor_of(self, COMPUTE_F32, COUNT);
  RANK_CHECK(self, !compute_group_barrier(self->group));
  const int64_t before = cuda_stand_in_calls(&gpu, "cuMemcpyDtoHAsync");
  RANK_CHECK(self, !compute_group_barrier(self->group));
  RANK_CHECK(self, !compute_group_all_reduce(self->group, COMPUTE_GROUP_MEAN, x, x, NULL, NULL));
  RANK_CHECK(self, !compute_group_barrier(self->group));
  RANK_CHECK(self, cuda_stand_in_calls(&gpu, "cuMemcpyDtoHAsync") == before);
  RANK_CHECK(self, !compute_group_barrier(self->group));
  compute_tensor_release(x);
}

static void no_element_passes_through_the_host(void **state) {
  (void)state;
  assert_true(gpu.configure("device_count=3") && nccl.configure(""));
  run(3, keep_elements_on_the_device);
}

/* Work on another queue writes the input late; the collective waits for it. */
static void reduce_after_an_event(loopback_rank *self) {
  compute_queue *queue = NULL;
  compute_event *event = NULL;
  compute_group_request *request = NULL;
  compute_tensor *x = tensor_of(self, COMPUTE_F32, COUNT), *y = NULL;
  RANK_CHECK(self, !compute_queue_create(device_of(self), &queue));
  RANK_CHECK(self, !compute_tensor_full(device_of(self), COMPUTE_F32, COMPUTE_SHAPE(COUNT), 0, &y));
  const compute_argument from = tensor_argument(x), to = tensor_argument(y);
  RANK_CHECK(self, !queue_copy(queue, &to, &from, COUNT * sizeof(float), "test"));
  RANK_CHECK(self, !compute_event_record(queue, &event));
  const compute_group_call_options after = {.after = event};
  RANK_CHECK(self,
             !compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, y, y, &after, &request));
  RANK_CHECK(self, !compute_group_request_wait(request));
  check(self, y, reduced, COMPUTE_GROUP_SUM);
  compute_group_request_release(request);
  compute_event_release(event);
  compute_queue_release(queue);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void calls_follow_their_event_on_the_device(void **state) {
  (void)state;
  assert_true(gpu.configure("device_count=2,delay_copies=30") && nccl.configure(""));
  run(2, reduce_after_an_event);
}

/* ---- Through the host
 * ------------------------------------------------------------------------- */

/* Fractions whose sum depends on the order: NCCL's stand-in starts with the last rank. */
static void add_in_order(loopback_rank *self) {
  float values[3] = {self->rank == 0 ? 1 : 0x1p-25f, 0, 0}, sum[3];
  compute_tensor *x = NULL, *y = NULL;
  RANK_CHECK(self,
             !compute_tensor_from_host(device_of(self), COMPUTE_F32, COMPUTE_SHAPE(3), values, &x));
  RANK_CHECK(self, !compute_tensor_full(device_of(self), COMPUTE_F32, COMPUTE_SHAPE(3), 0, &y));
  const compute_group_call_options fixed = {.fixed_order = true},
                                   exact = {.accumulate = COMPUTE_F64};
  const compute_group_call_options *const ways[] = {&fixed, &exact, NULL};
  const float wanted[] = {1, 1 + 0x1p-23f, 1 + 0x1p-23f};
  for (int i = 0; i < 3; i++) {
    /* It suffices that one rank asks for the fixed order. */
    const compute_group_call_options *way = i == 0 && self->rank == 1 ? NULL : ways[i];
    RANK_CHECK(self, !compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, y, way, NULL));
    RANK_CHECK(self, !compute_tensor_read(y, sum, sizeof sum) && sum[0] == wanted[i]);
  }
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void sums_have_a_fixed_order_on_request(void **state) {
  (void)state;
  assert_true(gpu.configure("device_count=4") && nccl.configure(""));
  run(4, add_in_order);
}

static void compare_with_nan(loopback_rank *self) {
  const float value = self->rank == 1 ? NAN : 3;
  float largest = 0;
  compute_tensor *x = NULL, *host = NULL;
  compute_device *cpu = NULL;
  RANK_CHECK(self,
             !compute_tensor_from_host(device_of(self), COMPUTE_F32, COMPUTE_SHAPE(1), &value, &x));
  RANK_CHECK(self, !compute_group_all_reduce(self->group, COMPUTE_GROUP_MAX, x, x, NULL, NULL));
  RANK_CHECK(self, !compute_tensor_read(x, &largest, sizeof largest) && isnan(largest));
  /* One rank's tensor is in host memory, the other's is not. */
  RANK_CHECK(self, !compute_device_by_name(self->context, "cpu", &cpu));
  RANK_CHECK(self, !compute_tensor_full(cpu, COMPUTE_F32, COMPUTE_SHAPE(1), 5, &host));
  RANK_CHECK(self,
             !compute_group_broadcast(self->group, self->rank == 0 ? host : x, 0, NULL, NULL));
  RANK_CHECK(self, !compute_tensor_read(x, &largest, sizeof largest));
  RANK_CHECK(self, self->rank == 0 || largest == 5);
  compute_tensor_release(x);
  compute_tensor_release(host);
}

static void what_nccl_would_do_otherwise_is_left_to_the_host(void **state) {
  (void)state;
  assert_true(gpu.configure("device_count=2") && nccl.configure(""));
  run(2, compare_with_nan);
  assert_int_equal(nccl.count("ncclAllReduce"), 0);
  assert_int_equal(nccl.count("ncclBroadcast"), 0);
}

/* Several chunks each way. */
static void exchange_much(loopback_rank *self) {
  enum { MANY = 1500001 };
  const compute_group_call_options fixed = {.fixed_order = true};
  compute_tensor *x = tensor_of(self, COMPUTE_F32, MANY), *y = tensor_of(self, COMPUTE_F32, MANY);
  compute_tensor *all = tensor_of(self, COMPUTE_F32, (int64_t)MANY * self->size);
  RANK_CHECK(self, !compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, y, &fixed, NULL));
  check(self, y, reduced, COMPUTE_GROUP_SUM);
  RANK_CHECK(self,
             !compute_group_reduce_scatter(self->group, COMPUTE_GROUP_MEAN, all, y, &fixed, NULL));
  RANK_CHECK(self, !compute_group_broadcast(self->group, x, 1, NULL, NULL));
  check(self, x, of_rank, 1);
  compute_tensor_release(all);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void exchange_through_the_host(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "pinned host memory, loopback; "));
  exchange_everything(self);
  exchange_much(self);
}

static void share_a_device(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "ranks 0 and 1 share a device, cuda:0"));
  exchange_through_the_host(self);
}

static void two_ranks_on_one_device_pass_through_the_host(void **state) {
  (void)state;
  assert_true(gpu.configure("device_count=1,delay_copies=1") && nccl.configure(""));
  run(2, share_a_device);
  assert_int_equal(nccl.count("ncclCommInitRankConfig"), 0);
}

static void reach_device_memory(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "device memory where nothing is added, else pinned host memory"));
  RANK_CHECK(self, !compute_group_barrier(self->group));
  compute_tensor *x = tensor_of(self, COMPUTE_F32, COUNT);
  compute_tensor *all = tensor_of(self, COMPUTE_F32, (int64_t)COUNT * self->size);
  RANK_CHECK(self, !compute_group_barrier(self->group));
  const int64_t before = cuda_stand_in_calls(&gpu, "cuMemcpyDtoHAsync");
  RANK_CHECK(self, !compute_group_barrier(self->group));
  RANK_CHECK(self, !compute_group_all_gather(self->group, x, all, NULL, NULL));
  RANK_CHECK(self, !compute_group_broadcast(self->group, x, 0, NULL, NULL));
  RANK_CHECK(self, !compute_group_barrier(self->group));
  RANK_CHECK(self, cuda_stand_in_calls(&gpu, "cuMemcpyDtoHAsync") == before);
  RANK_CHECK(self, !compute_group_barrier(self->group));
  check(self, all, gathered, 0);
  check(self, x, of_rank, 0);
  compute_tensor_release(x);
  compute_tensor_release(all);
  exchange_everything(self);
  exchange_much(self);
}

/* The processor can read the stand-in's device memory, so a transport that copies it behaves like a
 * CUDA-aware MPI. */
static void a_transport_that_reaches_the_devices_gets_their_memory(void **state) {
  (void)state;
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  for (int r = 0; r < LOOPBACK_MOST; r++) ranks[r].reaches = FOREIGN_CUDA;
  assert_true(gpu.configure("device_count=1"));
  run_on(3, reach_device_memory, NULL, ranks);
}

static void gather_until_silence(loopback_rank *self) {
  compute_status status = COMPUTE_OK;
  compute_tensor *x = tensor_of(self, COMPUTE_F32, COUNT);
  compute_tensor *all = tensor_of(self, COMPUTE_F32, (int64_t)COUNT * self->size);
  for (int i = 0; i < 20 && !status; i++)
    status = compute_group_all_gather(self->group, x, all, NULL, NULL);
  RANK_CHECK(self, status == COMPUTE_ERROR_TIMEOUT);
  compute_tensor_release(x);
  compute_tensor_release(all);
}

/* The transport may still write to its device memory: this memory is lost with the group, but the
 * tensors' memory is not. */
static void a_transport_that_falls_silent_keeps_its_memory(void **state) {
  (void)state;
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  for (int r = 0; r < 2; r++) {
    ranks[r].reaches = FOREIGN_CUDA;
    ranks[r].timeout = 1;
  }
  ranks[1].silent_at = 20;
  assert_true(gpu.configure("device_count=1"));
  run_on(2, gather_until_silence, NULL, ranks);
}

static void use_an_old_library(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "libnccl.so.2 has the version 21000; 21400 is needed"));
  move(self, COMPUTE_F32);
}

static void use_no_library(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "COMPUTE_CUDA_LIBRARIES excludes NCCL"));
  move(self, COMPUTE_F32);
}

static void use_host_memory_only(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, "rank 0: it was asked to use host memory only"));
  exchange_through_the_host(self);
}

static void nccl_can_be_too_old_and_be_turned_off(void **state) {
  (void)state;
  assert_true(gpu.configure("device_count=2") && nccl.configure("version=21000"));
  run(2, use_an_old_library);
  assert_true(nccl.configure(""));
  assert_int_equal(setenv("COMPUTE_CUDA_LIBRARIES", "cublas", 1), 0);
  run(2, use_no_library);
  assert_int_equal(setenv("COMPUTE_CUDA_LIBRARIES", "nccl", 1), 0);
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  ranks[0].host_only = true; /* one rank suffices */
  run_on(2, use_host_memory_only, NULL, ranks);
  assert_int_equal(nccl.count("ncclCommInitRankConfig"), 0);
}

/* ---- Faults -------------------------------------------------------------------------------- */

static void join_in_vain(loopback_rank *self) {
  RANK_CHECK(self, self->opened == COMPUTE_OK);
  RANK_CHECK(self, goes_by(self, "pinned host memory"));
  RANK_CHECK(self, goes_by(self, self->user));
  move(self, COMPUTE_F32);
}

static void who_cannot_join_passes_through_the_host(void **state) {
  (void)state;
  static const char *const orders[][2] = {
      {"fail=ncclGetUniqueId:1:2", "NCCL: making an id: unhandled system error"},
      {"fail=ncclCommInitRankConfig:2:2", "NCCL: joining: unhandled system error"},
      {"fail=ncclCommGetAsyncError:1:6", "NCCL: in the background: remote process exited"},
      {"hang=ncclCommInitRankConfig:2", "waited 1 s for other ranks"}};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    loopback_rank ranks[LOOPBACK_MOST];
    char text[64];
    snprintf(text, sizeof text, "%s", orders[i][1]);
    prepare(ranks);
    const bool hangs = strncmp(orders[i][0], "hang", 4) == 0; /* joining gets half of the limit */
    for (int r = 0; r < 3; r++) ranks[r].timeout = hangs ? 2 : 60;
    assert_true(gpu.configure("device_count=3") && nccl.configure(orders[i][0]));
    run_on(3, join_in_vain, text, ranks);
    assert_int_equal(nccl.count("ncclAllGather"), 0);
  }
}

typedef struct outcome {
  const char *orders; /* for NCCL, once the ranks have joined */
  compute_status status[LOOPBACK_MOST];
  char message[LOOPBACK_MOST][256];
} outcome;

/* Calls each kind of collective until one fails. */
static void call_until_it_fails(loopback_rank *self) {
  outcome *seen = self->user;
  compute_error error = {.status = COMPUTE_OK};
  compute_status status = COMPUTE_OK;
  compute_tensor *x = tensor_of(self, COMPUTE_F32, COUNT);
  compute_tensor *all = tensor_of(self, COMPUTE_F32, (int64_t)COUNT * self->size);
  RANK_CHECK(self, goes_by(self, "NCCL") && !compute_group_barrier(self->group));
  if (self->rank == 0) RANK_CHECK(self, nccl.configure(seen->orders));
  RANK_CHECK(self, !compute_group_barrier(self->group));
  for (int i = 0; i < 3 && !status; i++) {
    status = compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, x, NULL, NULL);
    if (!status)
      status = compute_group_reduce_scatter(self->group, COMPUTE_GROUP_SUM, all, x, NULL, NULL);
    if (!status) status = compute_group_all_gather(self->group, x, all, NULL, NULL);
    if (!status) status = compute_group_broadcast(self->group, x, 0, NULL, NULL);
    if (!status && self->rank < 2)
      status = self->rank == 0 ? compute_group_send(self->group, x, 1, NULL, NULL)
                               : compute_group_receive(self->group, x, 0, NULL, NULL);
  }
  compute_error_get(self->context, &error);
  seen->status[self->rank] = status;
  snprintf(seen->message[self->rank], sizeof seen->message[0], "%.255s", error.message);
  /* A rank that saw no error in its calls cannot leave the barrier in order with the others. */
  if (status) RANK_CHECK(self, compute_group_barrier(self->group) == status);
  compute_group_info info;
  RANK_CHECK(self, !compute_group_query(self->group, &info) && info.broken == (status != 0));
  compute_tensor_release(x);
  compute_tensor_release(all);
}

static void break_by(const char *orders, outcome *seen) {
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  memset(seen, 0, sizeof *seen);
  seen->orders = orders;
  for (int r = 0; r < 3; r++) ranks[r].timeout = 1;
  assert_true(gpu.configure("device_count=3") && nccl.configure(""));
  run_on(3, call_until_it_fails, seen, ranks);
}

static void a_failing_call_ends_in_an_error_on_all_ranks(void **state) {
  (void)state;
  static const char *const calls[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                      "ncclBroadcast"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    char order[64];
    outcome seen;
    int failed = 0;
    snprintf(order, sizeof order, "fail=%s:4:6", calls[i]);
    break_by(order, &seen);
    for (int r = 0; r < 3; r++) {
      assert_true(seen.status[r] == COMPUTE_ERROR_TRANSFER ||
                  seen.status[r] == COMPUTE_ERROR_TIMEOUT);
      if (seen.status[r] == COMPUTE_ERROR_TIMEOUT) continue;
      failed++;
      assert_non_null(
          strstr(seen.message[r], "remote process exited or there was a network error"));
    }
    assert_int_equal(failed, 1);
  }
}

/* In the polled state: after a call was submitted, and during the call. */
static void an_asynchronous_error_is_noticed(void **state) {
  (void)state;
  static const char *const orders[] = {"fail=ncclCommGetAsyncError:1:6",
                                       "fail=ncclCommGetAsyncError:20:6"};
  for (size_t i = 0; i < 2; i++) {
    outcome seen;
    int failed = 0;
    break_by(orders[i], &seen);
    for (int r = 0; r < 3; r++) {
      assert_true(seen.status[r] == COMPUTE_ERROR_TRANSFER ||
                  seen.status[r] == COMPUTE_ERROR_TIMEOUT);
      failed += seen.status[r] == COMPUTE_ERROR_TRANSFER &&
                strstr(seen.message[r], "NCCL: in the background: remote process exited");
    }
    assert_int_equal(failed, 1);
  }
}

static void a_call_that_hangs_is_aborted_at_the_limit(void **state) {
  (void)state;
  static const char *const orders[] = {"hang=ncclAllReduce:5", "hang=ncclBroadcast:2"};
  for (size_t i = 0; i < 2; i++) {
    outcome seen;
    break_by(orders[i], &seen);
    for (int r = 0; r < 3; r++) {
      assert_int_equal(seen.status[r], COMPUTE_ERROR_TIMEOUT);
      assert_non_null(
          strstr(seen.message[r], "of 3 waited 1 s for other ranks, which is the limit"));
    }
    assert_int_equal(nccl.count("ncclCommAbort"), 3);
  }
}

/* Copies between pinned memory and the device fail: only the group breaks. */
static void copy_until_it_fails(loopback_rank *self) {
  outcome *seen = self->user;
  compute_error error = {.status = COMPUTE_OK};
  compute_status status = COMPUTE_OK;
  compute_tensor *x = tensor_of(self, COMPUTE_F32, 1500001);
  RANK_CHECK(self, !compute_group_barrier(self->group));
  if (self->rank == 0) RANK_CHECK(self, gpu.configure("keep=1,fail=cuMemcpyDtoHAsync:2+:999"));
  RANK_CHECK(self, !compute_group_barrier(self->group));
  for (int i = 0; i < 2 && !status; i++)
    status = compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, x, NULL, NULL);
  compute_error_get(self->context, &error);
  seen->status[self->rank] = status;
  snprintf(seen->message[self->rank], sizeof seen->message[0], "%.255s", error.message);
  compute_tensor_release(x);
}

static void a_copy_that_fails_breaks_the_group(void **state) {
  (void)state;
  outcome seen = {.orders = NULL};
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  for (int r = 0; r < 2; r++) ranks[r].timeout = 1;
  assert_true(gpu.configure("device_count=1"));
  run_on(2, copy_until_it_fails, &seen, ranks);
  for (int r = 0; r < 2; r++) assert_int_not_equal(seen.status[r], COMPUTE_OK);
  assert_true(strstr(seen.message[0], "downloading") || strstr(seen.message[1], "downloading"));
  assert_true(gpu.configure(""));
}

/* ---- Without the library ------------------------------------------------------------------- */

/* The machine may have NVIDIA's library, which finds no GPU. */
static void miss_the_library(loopback_rank *self) {
  RANK_CHECK(self, goes_by(self, self->user));
  exchange_through_the_host(self);
}

static void without_nccl_the_host_serves(void **state) {
  (void)state;
  char *reason = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)
                     ? "NCCL: joining: "
                     : "rank 0: cuda:0: no NCCL: libnccl.so.2 cannot be loaded";
  loopback_rank ranks[LOOPBACK_MOST];
  prepare(ranks);
  assert_true(gpu.configure("device_count=2"));
  run_on(2, miss_the_library, reason, ranks);
}

int main(void) {
  if (!cuda_stand_in_open(&gpu)) return SKIPPED;
  assert_int_equal(setenv("COMPUTE_CUDA_LIBRARIES", "nccl", 1), 0);
  const struct CMUnitTest without[] = {cmocka_unit_test(without_nccl_the_host_serves)};
  if (!cuda_library_stand_in_open("libnccl.so.2", &nccl))
    return cmocka_run_group_tests(without, NULL, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nccl_exchanges_what_it_can),
      cmocka_unit_test(no_element_passes_through_the_host),
      cmocka_unit_test(calls_follow_their_event_on_the_device),
      cmocka_unit_test(sums_have_a_fixed_order_on_request),
      cmocka_unit_test(what_nccl_would_do_otherwise_is_left_to_the_host),
      cmocka_unit_test(two_ranks_on_one_device_pass_through_the_host),
      cmocka_unit_test(a_transport_that_reaches_the_devices_gets_their_memory),
      cmocka_unit_test(a_transport_that_falls_silent_keeps_its_memory),
      cmocka_unit_test(nccl_can_be_too_old_and_be_turned_off),
      cmocka_unit_test(who_cannot_join_passes_through_the_host),
      cmocka_unit_test(a_failing_call_ends_in_an_error_on_all_ranks),
      cmocka_unit_test(an_asynchronous_error_is_noticed),
      cmocka_unit_test(a_call_that_hangs_is_aborted_at_the_limit),
      cmocka_unit_test(a_copy_that_fails_breaks_the_group),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
