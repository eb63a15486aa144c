/* SPDX-License-Identifier: MIT */
/* Collective calls between threads as ranks. Values of all dtypes and reductions match plain double
 * arithmetic, with the same bits whatever the timing. Ranks with different calls get errors.
 * tests/group/mpi.sh runs the important parts over MPI. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/type/dtype.h"
#include "support/harness/loopback.h"
#include "support/harness/test.h"

static const int64_t counts[] = {1, 5, 1000, 70001};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Element i of a rank's input: integers that every dtype can represent and add. */
static double element(compute_dtype dtype, int32_t rank, int64_t i) {
  const double x = floor(10 * random_f64(5, (uint64_t)i, (uint32_t)rank));
  return dtype == COMPUTE_BOOL ? x > 4 : x;
}

static compute_tensor *input_of(loopback_rank *self, compute_dtype dtype, int64_t count) {
  compute_tensor *tensor = NULL;
  RANK_CHECK(self, compute_tensor_create(compute_default_device(self->context), dtype,
                                         COMPUTE_SHAPE(count), &tensor) == COMPUTE_OK);
  char *data = compute_tensor_data(tensor);
  const size_t size = compute_dtype_size(dtype);
  for (int64_t i = 0; i < count; i++)
    dtype_store(dtype, data + (size_t)i * size, element(dtype, self->rank, i));
  return tensor;
}

static double expected(compute_group_reduction reduction, compute_dtype dtype, int32_t size,
                       int64_t i) {
  double sum = element(dtype, 0, i);
  for (int32_t r = 1; r < size; r++) {
    const double x = element(dtype, r, i);
    if (reduction <= COMPUTE_GROUP_MEAN) sum += x;
    if (reduction == COMPUTE_GROUP_MAX && x > sum) sum = x;
    if (reduction == COMPUTE_GROUP_MIN && x < sum) sum = x;
  }
  return reduction == COMPUTE_GROUP_MEAN ? sum / size : sum;
}

/* Compares with the value rounded to the dtype. */
static bool holds(const compute_tensor *tensor, int64_t index, double value) {
  const compute_dtype dtype = compute_tensor_dtype(tensor);
  const size_t size = compute_dtype_size(dtype);
  double rounded = 0;
  dtype_store(dtype, &rounded, dtype == COMPUTE_F64 ? value : (double)(float)value);
  return memcmp((const char *)compute_tensor_data(tensor) + (size_t)index * size, &rounded, size) ==
         0;
}

/* ---- Values --------------------------------------------------------------------------------- */

static void check_all_reduce(loopback_rank *self, compute_group_reduction reduction,
                             compute_dtype dtype, int64_t count) {
  compute_tensor *x = input_of(self, dtype, count), *y = NULL;
  RANK_CHECK(self, compute_tensor_create(compute_default_device(self->context), dtype,
                                         COMPUTE_SHAPE(count), &y) == COMPUTE_OK);
  RANK_CHECK(self,
             compute_group_all_reduce(self->group, reduction, x, y, NULL, NULL) == COMPUTE_OK);
  RANK_CHECK(self,
             compute_group_all_reduce(self->group, reduction, x, x, NULL, NULL) == COMPUTE_OK);
  for (int64_t i = 0; i < count; i++) {
    const double value = expected(reduction, dtype, self->size, i);
    RANK_CHECK(self, holds(y, i, value) && holds(x, i, value));
  }
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void check_reduce_scatter(loopback_rank *self, compute_group_reduction reduction,
                                 compute_dtype dtype, int64_t count) {
  compute_tensor *x = input_of(self, dtype, count * self->size), *y = NULL;
  RANK_CHECK(self, compute_tensor_create(compute_default_device(self->context), dtype,
                                         COMPUTE_SHAPE(count), &y) == COMPUTE_OK);
  RANK_CHECK(self,
             compute_group_reduce_scatter(self->group, reduction, x, y, NULL, NULL) == COMPUTE_OK);
  for (int64_t i = 0; i < count; i++)
    RANK_CHECK(self, holds(y, i, expected(reduction, dtype, self->size, self->rank * count + i)));
  compute_tensor_release(x);
  compute_tensor_release(y);
}

/* A reduce-scatter and an all-gather within one tensor equal an all-reduce. */
static void reduce_in_place(loopback_rank *self) {
  const int64_t count = 400001; /* several chunks */
  compute_tensor *x = input_of(self, COMPUTE_F32, count * self->size), *own = NULL;
  RANK_CHECK(self,
             compute_tensor_slice_view(x, 0, count * self->rank, count, 1, &own) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_reduce_scatter(self->group, COMPUTE_GROUP_SUM, x, own, NULL,
                                                NULL) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_all_gather(self->group, own, x, NULL, NULL) == COMPUTE_OK);
  for (int64_t i = 0; i < count * self->size; i += 1009)
    RANK_CHECK(self, holds(x, i, expected(COMPUTE_GROUP_SUM, COMPUTE_F32, self->size, i)));
  compute_tensor_release(own);
  compute_tensor_release(x);
}

static void blocks_may_be_views_of_the_whole(void **state) {
  (void)state;
  for (int32_t size = 1; size <= 3; size += 2)
    loopback_run(size, reduce_in_place, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static bool has(compute_group_reduction reduction, compute_dtype dtype) {
  if (reduction == COMPUTE_GROUP_MEAN) return dtype_is_float(dtype);
  return reduction != COMPUTE_GROUP_SUM || dtype != COMPUTE_BOOL;
}

static void reduce_everything(loopback_rank *self) {
  for (int dtype = COMPUTE_F64; dtype <= COMPUTE_U64; dtype++) {
    for (int reduction = COMPUTE_GROUP_SUM; reduction <= COMPUTE_GROUP_MIN; reduction++) {
      if (!has((compute_group_reduction)reduction, (compute_dtype)dtype)) continue;
      for (size_t k = 0; k < COUNTS; k++) {
        if (dtype != COMPUTE_F32 && k != 2) continue;
        check_all_reduce(self, (compute_group_reduction)reduction, (compute_dtype)dtype, counts[k]);
        check_reduce_scatter(self, (compute_group_reduction)reduction, (compute_dtype)dtype,
                             counts[k]);
      }
    }
  }
}

static void reductions_equal_plain_arithmetic(void **state) {
  (void)state;
  for (int32_t size = 1; size <= 4; size++)
    loopback_run(size, reduce_everything, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* Larger than the group's memory, so in several chunks. */
static void reduce_much(loopback_rank *self) {
  check_all_reduce(self, COMPUTE_GROUP_SUM, COMPUTE_F32, 2500001);
  check_reduce_scatter(self, COMPUTE_GROUP_SUM, COMPUTE_F32, 833334);
}

static void tensors_of_several_pieces_are_whole(void **state) {
  (void)state;
  loopback_run(3, reduce_much, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static void move_elements(loopback_rank *self) {
  for (size_t k = 0; k < COUNTS; k++) {
    compute_tensor *x = input_of(self, COMPUTE_I16, counts[k]), *all = NULL;
    RANK_CHECK(self,
               compute_tensor_create(compute_default_device(self->context), COMPUTE_I16,
                                     COMPUTE_SHAPE(counts[k] * self->size), &all) == COMPUTE_OK);
    RANK_CHECK(self, compute_group_all_gather(self->group, x, all, NULL, NULL) == COMPUTE_OK);
    for (int64_t i = 0; i < counts[k] * self->size; i++)
      RANK_CHECK(self,
                 holds(all, i, element(COMPUTE_I16, (int32_t)(i / counts[k]), i % counts[k])));
    const int32_t root = (int32_t)k % self->size;
    RANK_CHECK(self, compute_group_broadcast(self->group, x, root, NULL, NULL) == COMPUTE_OK);
    for (int64_t i = 0; i < counts[k]; i++)
      RANK_CHECK(self, holds(x, i, element(COMPUTE_I16, root, i)));
    compute_tensor_release(x);
    compute_tensor_release(all);
  }
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
}

/* Around a ring; the first rank begins. */
static void pass_around(loopback_rank *self) {
  compute_tensor *x = input_of(self, COMPUTE_F64, 600001);
  const int32_t next = (self->rank + 1) % self->size;
  const int32_t before = (self->rank + self->size - 1) % self->size;
  for (int turn = 0; turn < 2; turn++) {
    const bool sends = (self->rank == 0) == (turn == 0);
    RANK_CHECK(self,
               (sends ? compute_group_send(self->group, x, next, NULL, NULL)
                      : compute_group_receive(self->group, x, before, NULL, NULL)) == COMPUTE_OK);
  }
  for (int64_t i = 0; i < 600001; i += 999)
    RANK_CHECK(self, holds(x, i, element(COMPUTE_F64, 0, i)));
  compute_tensor_release(x);
}

static void elements_arrive_where_they_belong(void **state) {
  (void)state;
  for (int32_t size = 1; size <= 4; size++)
    loopback_run(size, move_elements, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
  for (int32_t size = 2; size <= 4; size++)
    loopback_run(size, pass_around, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Order and precision ------------------------------------------------------------------- */

enum { FRACTIONS = 3001, LARGE = 60000 };

/* Sums that depend on the order of the ranks. */
static void add_fractions(loopback_rank *self) {
  const int64_t count = LARGE;
  float *result = self->user;
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_random(compute_default_device(self->context), COMPUTE_F32,
                                         COMPUTE_SHAPE(count), -1, 1, 100 + (uint64_t)self->rank,
                                         &x) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, x, NULL, NULL) ==
                       COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_read(x, result + self->rank * count,
                                       (size_t)count * sizeof *result) == COMPUTE_OK);
  compute_tensor_release(x);
}

static void sums_have_the_same_bits_whatever_the_timing(void **state) {
  (void)state;
  const size_t bytes = LARGE * sizeof(float);
  float *first = malloc(4 * bytes), *again = malloc(4 * bytes);
  loopback_run(4, add_fractions, first, (loopback_rank[LOOPBACK_MOST]){{0}});
  for (uint64_t seed = 1; seed <= 3; seed++) {
    loopback_rank ranks[LOOPBACK_MOST] = {{0}};
    for (int r = 0; r < 4; r++) ranks[r].delays = seed;
    loopback_run(4, add_fractions, again, ranks);
    for (int r = 0; r < 4; r++)
      assert_memory_equal((char *)again + (size_t)r * bytes, first, bytes);
  }
  free(first);
  free(again);
}

/* 1 and many summands that vanish next to it in f32. */
static void add_small_parts(loopback_rank *self) {
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F32,
                                       COMPUTE_SHAPE(3), self->rank == 0 ? 1 : 0x1p-25,
                                       &x) == COMPUTE_OK);
  compute_tensor *y = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F32,
                                       COMPUTE_SHAPE(3), 0, &y) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, y, NULL, NULL) ==
                       COMPUTE_OK);
  RANK_CHECK(self, holds(y, 2, 1));
  const compute_group_call_options exact = {.accumulate = COMPUTE_F64};
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, y, &exact, NULL) ==
                       COMPUTE_OK);
  RANK_CHECK(self, holds(y, 2, 1 + 7 * 0x1p-25));
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void double_accumulation_rounds_once(void **state) {
  (void)state;
  loopback_run(8, add_small_parts, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static void find_nan(loopback_rank *self) {
  compute_tensor *x = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F32,
                                       COMPUTE_SHAPE(1), self->rank == 1 ? (double)NAN : 3,
                                       &x) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_MAX, x, x, NULL, NULL) ==
                       COMPUTE_OK);
  RANK_CHECK(self, isnan(*(float *)compute_tensor_data(x)));
  compute_tensor_release(x);
}

static void an_extremum_with_nan_is_nan(void **state) {
  (void)state;
  loopback_run(3, find_nan, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void call_ahead(loopback_rank *self) {
  compute_group_request *requests[20] = {NULL};
  compute_tensor *x = input_of(self, COMPUTE_F32, 1000);
  for (int i = 0; i < 20; i++)
    RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_MAX, x, x, NULL,
                                              &requests[i]) == COMPUTE_OK);
  bool done = false;
  while (!done) RANK_CHECK(self, compute_group_request_poll(requests[19], &done) == COMPUTE_OK);
  for (int i = 0; i < 20; i++) {
    RANK_CHECK(self, compute_group_request_wait(requests[i]) == COMPUTE_OK);
    compute_group_request_release(requests[i]);
  }
  RANK_CHECK(self, holds(x, 7, expected(COMPUTE_GROUP_MAX, COMPUTE_F32, self->size, 7)));
  /* A request that nobody waits for. */
  compute_group_request *request = NULL;
  RANK_CHECK(self, compute_group_broadcast(self->group, x, 0, NULL, &request) == COMPUTE_OK);
  compute_group_request_release(request);
  compute_tensor_release(x);
}

static void requests_are_carried_out_in_order(void **state) {
  (void)state;
  loopback_run(3, call_ahead, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* Memory invisible to the host, in several chunks, and after an event of its queue. */
static void reduce_on_a_device(loopback_rank *self) {
  enum { COUNT = 2500001 }; /* three chunks */
  compute_device *device = NULL;
  compute_queue *queue = NULL;
  compute_event *event = NULL;
  compute_tensor *x = NULL;
  float *values = malloc(COUNT * sizeof *values);
  for (int i = 0; i < COUNT; i++) values[i] = (float)(i % 1000 + self->rank);
  RANK_CHECK(self, compute_device_by_name(self->context, self->user, &device) == COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_from_host(device, COMPUTE_F32, COMPUTE_SHAPE(COUNT), values,
                                            &x) == COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_data(x) == NULL);
  RANK_CHECK(self, compute_queue_create(device, &queue) == COMPUTE_OK);
  RANK_CHECK(self, compute_event_record(queue, &event) == COMPUTE_OK);
  const compute_group_call_options after = {.after = event};
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_MAX, x, x, &after, NULL) ==
                       COMPUTE_OK);
  RANK_CHECK(self, compute_group_broadcast(self->group, x, 1, NULL, NULL) == COMPUTE_OK);
  RANK_CHECK(self, compute_tensor_read(x, values, COUNT * sizeof *values) == COMPUTE_OK);
  for (int i = 0; i < COUNT; i++) RANK_CHECK(self, values[i] == (float)(i % 1000 + self->size - 1));
  /* From one device to another and back. */
  compute_tensor *host = NULL;
  RANK_CHECK(self, compute_tensor_full(compute_default_device(self->context), COMPUTE_F32,
                                       COMPUTE_SHAPE(COUNT), 0, &host) == COMPUTE_OK);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_MAX, x, host, NULL, NULL) ==
                       COMPUTE_OK);
  const float *data = compute_tensor_data(host);
  RANK_CHECK(self, memcmp(data, values, COUNT * sizeof *values) == 0);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_MAX, host, x, NULL, NULL) ==
                       COMPUTE_OK);
  memset(values, 0, COUNT * sizeof *values);
  RANK_CHECK(self, compute_tensor_read(x, values, COUNT * sizeof *values) == COMPUTE_OK);
  RANK_CHECK(self, memcmp(data, values, COUNT * sizeof *values) == 0);
  compute_tensor_release(host);
  compute_event_release(event);
  compute_queue_release(queue);
  compute_tensor_release(x);
  free(values);
}

static void tensors_of_devices_pass_through_the_host(void **state) {
  (void)state;
  loopback_rank ranks[LOOPBACK_MOST] = {{0}};
  char device[64] = "null", backends[64];
  const char *wanted = getenv("COMPUTE_TEST_DEVICE");
  if (wanted) snprintf(device, sizeof device, "%s", wanted);
  snprintf(backends, sizeof backends, "cpu,%.*s", (int)strcspn(device, ":"), device);
  for (int r = 0; r < 3; r++) ranks[r].backends = backends;
  loopback_run(3, reduce_on_a_device, device, ranks);
}

/* ---- Differences between ranks
 * ----------------------------------------------------------------- */

static void differ(loopback_rank *self) {
  const bool odd = self->rank == 2;
  compute_tensor *x = input_of(self, COMPUTE_F32, odd ? 11 : 12);
  compute_tensor *y = input_of(self, odd ? COMPUTE_F64 : COMPUTE_F32, 12);
  RANK_CHECK(self, compute_group_all_reduce(self->group, COMPUTE_GROUP_SUM, x, x, NULL, NULL) ==
                       COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "rank 2 all_reduce (sum) of 11 elements"));
  RANK_CHECK(self, compute_group_broadcast(self->group, y, 1, NULL, NULL) ==
                       COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "rank 2 broadcast of 12 elements of f64"));
  RANK_CHECK(self, (odd ? compute_group_barrier(self->group)
                        : compute_group_broadcast(self->group, y, 1, NULL, NULL)) ==
                       COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "rank 2 barrier"));
  RANK_CHECK(self,
             compute_group_all_reduce(self->group, odd ? COMPUTE_GROUP_MIN : COMPUTE_GROUP_MAX, y,
                                      y, NULL, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  /* The group still works. */
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void all_ranks_are_told_which_call_differs(void **state) {
  (void)state;
  loopback_run(4, differ, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static void pass_at_cross_purposes(loopback_rank *self) {
  compute_tensor *x = input_of(self, COMPUTE_F32, 12), *y = input_of(self, COMPUTE_F32, 11);
  compute_process_group *g = self->group;
  const int32_t other = 1 - self->rank;
  RANK_CHECK(self, compute_group_send(g, x, other, NULL, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "both ranks send"));
  RANK_CHECK(self,
             compute_group_receive(g, x, other, NULL, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "both ranks receive"));
  RANK_CHECK(self, (self->rank == 0 ? compute_group_send(g, x, other, NULL, NULL)
                                    : compute_group_receive(g, y, other, NULL, NULL)) ==
                       COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "send of 12 elements of f32"));
  RANK_CHECK(self, loopback_says(self, "receive of 11 elements of f32"));
  /* Nothing of those calls is left in the transport. */
  RANK_CHECK(self,
             (self->rank == 1 ? compute_group_send(g, x, other, NULL, NULL)
                              : compute_group_receive(g, x, other, NULL, NULL)) == COMPUTE_OK);
  RANK_CHECK(self, holds(x, 5, element(COMPUTE_F32, 1, 5)));
  compute_tensor_release(x);
  compute_tensor_release(y);
}

static void two_ranks_that_both_send_are_told(void **state) {
  (void)state;
  loopback_run(2, pass_at_cross_purposes, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static void disagree(loopback_rank *self) {
  RANK_CHECK(self, compute_group_agree(self->group, "trial", "batch 64\nrate 0.1\n") == COMPUTE_OK);
  RANK_CHECK(self,
             compute_group_agree(self->group, "trial",
                                 self->rank == 1 ? "batch 64\nrate 0.2\nx"
                                                 : "batch 64\nrate "
                                                   "0.1\nx") == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self,
             loopback_says(self, "rank 1 differs from rank 0: it has rate 0.2, rank 0 rate 0.1"));
  RANK_CHECK(self,
             compute_group_agree(self->group, "trial", self->rank == 2 ? "a\nb\nc" : "a\nb") ==
                 COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, loopback_says(self, "rank 2 differs from rank 0: it has c, rank 0 nothing"));
  RANK_CHECK(self, compute_group_check(self->group, "trial", COMPUTE_OK) == COMPUTE_OK);
  compute_tensor *none = NULL;
  compute_status status = COMPUTE_OK;
  if (self->rank == 1) status = compute_tensor_full(NULL, COMPUTE_F32, COMPUTE_SCALAR, 0, &none);
  RANK_CHECK(self, compute_group_check(self->group, "trial", status) == COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self, self->rank == 1 || loopback_says(self, "trial: rank 1: "));
  RANK_CHECK(self, compute_group_barrier(self->group) == COMPUTE_OK);
}

static void settings_and_failures_are_shared(void **state) {
  (void)state;
  loopback_run(3, disagree, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static void pass_nonsense(loopback_rank *self) {
  compute_tensor *x = input_of(self, COMPUTE_F32, 12), *y = input_of(self, COMPUTE_F64, 12);
  compute_tensor *b = input_of(self, COMPUTE_BOOL, 12), *view = NULL;
  compute_process_group *g = self->group;
  const compute_group_reduction sum = COMPUTE_GROUP_SUM;
  RANK_CHECK(self, compute_tensor_slice_view(x, 0, 0, 6, 2, &view) == COMPUTE_OK);
  RANK_CHECK(self,
             compute_group_all_reduce(NULL, sum, x, x, NULL, NULL) == COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self,
             compute_group_all_reduce(g, sum, x, NULL, NULL, NULL) == COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self, compute_group_all_reduce(g, sum, x, y, NULL, NULL) == COMPUTE_ERROR_DTYPE);
  RANK_CHECK(self, compute_group_all_reduce(g, sum, b, b, NULL, NULL) == COMPUTE_ERROR_DTYPE);
  RANK_CHECK(self, compute_group_all_reduce(g, COMPUTE_GROUP_MEAN, b, b, NULL, NULL) ==
                       COMPUTE_ERROR_DTYPE);
  RANK_CHECK(self, compute_group_all_reduce(g, sum, view, view, NULL, NULL) == COMPUTE_ERROR_SHAPE);
  RANK_CHECK(self, compute_group_all_reduce(g, (compute_group_reduction)9, x, x, NULL, NULL) ==
                       COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, compute_group_all_gather(g, x, x, NULL, NULL) == COMPUTE_ERROR_SHAPE);
  RANK_CHECK(self, compute_group_reduce_scatter(g, sum, x, x, NULL, NULL) == COMPUTE_ERROR_SHAPE);
  RANK_CHECK(self, compute_group_broadcast(g, x, 2, NULL, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  RANK_CHECK(self, compute_group_broadcast(g, NULL, 0, NULL, NULL) == COMPUTE_ERROR_NULL_POINTER);
  RANK_CHECK(self,
             compute_group_send(g, x, self->rank, NULL, NULL) == COMPUTE_ERROR_INVALID_ARGUMENT);
  const compute_group_call_options odd = {.accumulate = COMPUTE_I64};
  RANK_CHECK(self, compute_group_all_reduce(g, sum, x, x, &odd, NULL) == COMPUTE_ERROR_DTYPE);
  compute_tensor_release(view);
  compute_tensor_release(x);
  compute_tensor_release(y);
  compute_tensor_release(b);
}

/* A frozen tensor can be sent, also as the root's, but not written. */
static void write_frozen(loopback_rank *self) {
  compute_tensor *frozen = input_of(self, COMPUTE_F32, 12);
  compute_tensor *y = input_of(self, COMPUTE_F32, 12), *all = input_of(self, COMPUTE_F32, 24);
  compute_process_group *g = self->group;
  const compute_group_reduction max = COMPUTE_GROUP_MAX;
  const compute_status refused = COMPUTE_ERROR_INVALID_ARGUMENT;
  const int32_t other = 1 - self->rank;
  compute_tensor_freeze(frozen);
  RANK_CHECK(self, compute_group_all_reduce(g, max, y, frozen, NULL, NULL) == refused);
  RANK_CHECK(self, loopback_says(self, "frozen"));
  RANK_CHECK(self, compute_group_reduce_scatter(g, max, all, frozen, NULL, NULL) == refused);
  RANK_CHECK(self, compute_group_receive(g, frozen, other, NULL, NULL) == refused);
  RANK_CHECK(self, compute_group_broadcast(g, frozen, other, NULL, NULL) == refused);
  RANK_CHECK(self,
             compute_group_broadcast(g, self->rank == 0 ? frozen : y, 0, NULL, NULL) == COMPUTE_OK);
  RANK_CHECK(self, holds(self->rank == 0 ? frozen : y, 3, element(COMPUTE_F32, 0, 3)));
  RANK_CHECK(self, compute_group_all_gather(g, frozen, all, NULL, NULL) == COMPUTE_OK);
  RANK_CHECK(self, holds(all, 15, element(COMPUTE_F32, 1, 3)));
  compute_tensor_freeze(all);
  RANK_CHECK(self, compute_group_all_gather(g, y, all, NULL, NULL) == refused);
  RANK_CHECK(self, holds(frozen, 3, element(COMPUTE_F32, self->rank, 3)));
  compute_tensor_release(frozen);
  compute_tensor_release(y);
  compute_tensor_release(all);
}

static void frozen_tensors_are_not_written(void **state) {
  (void)state;
  loopback_run(2, write_frozen, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

static void arguments_are_checked_before_anything_is_sent(void **state) {
  (void)state;
  loopback_run(2, pass_nonsense, NULL, (loopback_rank[LOOPBACK_MOST]){{0}});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reductions_equal_plain_arithmetic),
      cmocka_unit_test(tensors_of_several_pieces_are_whole),
      cmocka_unit_test(blocks_may_be_views_of_the_whole),
      cmocka_unit_test(elements_arrive_where_they_belong),
      cmocka_unit_test(sums_have_the_same_bits_whatever_the_timing),
      cmocka_unit_test(double_accumulation_rounds_once),
      cmocka_unit_test(an_extremum_with_nan_is_nan),
      cmocka_unit_test(requests_are_carried_out_in_order),
      cmocka_unit_test(tensors_of_devices_pass_through_the_host),
      cmocka_unit_test(all_ranks_are_told_which_call_differs),
      cmocka_unit_test(two_ranks_that_both_send_are_told),
      cmocka_unit_test(settings_and_failures_are_shared),
      cmocka_unit_test(frozen_tensors_are_not_written),
      cmocka_unit_test(arguments_are_checked_before_anything_is_sent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
