/* SPDX-License-Identifier: MIT */
/* Suite "memory": the pool, transfers between host and device, copies and transposition. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "host.h"
#include "single.h"

/* ---- The pool ------------------------------------------------------------------------------ */

typedef struct pool_state {
  compute_device *device;
  int64_t bytes;
  bool trim; /* after every release, so that the next request misses */
} pool_state;

static compute_status pool_call(void *state) {
  const pool_state *pool = state;
  compute_tensor *tensor;
  compute_status status =
      compute_tensor_create(pool->device, COMPUTE_U8, COMPUTE_SHAPE(pool->bytes), &tensor);
  if (status) return status;
  compute_tensor_release(tensor);
  return pool->trim ? compute_pool_trim(pool->device, 0) : COMPUTE_OK;
}

/* Creates and releases a tensor; the statistics must show only hits, or only misses. */
static void run_pool(bench_session *session, const char *suite, const bench_case *c, bool trim) {
  pool_state pool = {.device = session->device, .bytes = c->size[0], .trim = trim};
  compute_pool_statistics before, after;
  compute_status status = pool_call(&pool);
  if (!status) status = compute_pool_query(session->device, &before);
  for (int i = 0; i < 10 && !status; i++) status = pool_call(&pool);
  if (!status) status = compute_pool_query(session->device, &after);
  if (status) {
    bench_fail(session, suite, c, "does not run");
    return;
  }
  const double hits = (double)(after.hits - before.hits);
  const double misses = (double)(after.misses - before.misses);
  bench_record record = bench_record_new(session, suite, c);
  bench_require_least(&record, "hits of the pool", "", hits, trim ? 0 : 10);
  bench_require_most(&record, "hits of the pool", "", hits, trim ? 0 : 10);
  bench_require_least(&record, "misses of the pool", "", misses, trim ? 10 : 0);
  bench_require_most(&record, "misses of the pool", "", misses, trim ? 10 : 0);
  bench_run_single(session, &record, &(bench_single){.call = pool_call, .state = &pool});
}

static void run_pool_hit(bench_session *session, const char *suite, const bench_case *c) {
  run_pool(session, suite, c, false);
}

static void run_pool_miss(bench_session *session, const char *suite, const bench_case *c) {
  run_pool(session, suite, c, true);
}

/* ---- Transfers ----------------------------------------------------------------------------- */

typedef struct transfer_state {
  compute_tensor *from, *to; /* copy */
  compute_tensor *lock;      /* page-locks `host` */
  void *host;
  size_t bytes;
} transfer_state;

static compute_status upload_call(void *state) {
  const transfer_state *t = state;
  return compute_tensor_write(t->to, t->host, t->bytes);
}

static compute_status download_call(void *state) {
  const transfer_state *t = state;
  return compute_tensor_read(t->to, t->host, t->bytes);
}

static compute_status copy_call(void *state) {
  const transfer_state *t = state;
  return compute_tensor_copy(t->to, t->from);
}

/* The source of the copy: the dense tensor, or for "strided" every other column of it. */
static compute_status make_source(const bench_case *c, compute_tensor *dense,
                                  compute_tensor **from) {
  if (!strcmp(c->operation, "strided"))
    return compute_tensor_slice_view(dense, 1, 0, c->size[1] / 2, 2, from);
  *from = compute_tensor_retain(dense);
  return COMPUTE_OK;
}

/* The largest relative error of a copy; overwrites the host array. */
static compute_status check_copy(const bench_case *c, transfer_state *t, const float *original,
                                 compute_dtype result, double *error) {
  compute_status status = compute_tensor_copy(t->to, t->from);
  if (!status) status = compute_tensor_read(t->to, t->host, t->bytes);
  if (status) return status;
  int64_t columns = c->size[1], step = strcmp(c->operation, "strided") ? 1 : 2;
  int64_t count = compute_tensor_count(t->to), kept = columns / step;
  *error = 0;
  for (int64_t i = 0; i < count; i++) {
    double truth = (double)original[i / kept * columns + i % kept * step], value;
    host_load(result, t->host, i, 1, 1, &value);
    if (value == truth) continue;
    double e = fabs(value - truth) / fabs(truth);
    if (!(e <= *error)) *error = e; /* also when it is NaN */
  }
  return COMPUTE_OK;
}

static void run_copy(bench_session *session, const char *suite, const bench_case *c) {
  size_t count = (size_t)(c->size[0] * c->size[1]), bytes = count * sizeof(float);
  compute_dtype result = strcmp(c->operation, "cast") ? COMPUTE_F32 : COMPUTE_BF16;
  compute_shape shape = COMPUTE_SHAPE(c->size[0], c->size[1]);
  compute_tensor *dense = NULL;
  transfer_state t = {.bytes = bytes, .host = host_allocate(bytes)};
  float *original = host_allocate(bytes);
  double error = NAN, bound = result == COMPUTE_F32 ? 0 : host_epsilon(result) / 2;
  if (!t.host || !original) {
    bench_note(session, "%s/%s skipped: not enough memory", suite, c->name);
    goto end;
  }
  host_fill(COMPUTE_F32, original, (int64_t)count, -1, 1, 1);
  compute_status status =
      compute_tensor_from_host(session->device, COMPUTE_F32, shape, original, &dense);
  if (!status) status = make_source(c, dense, &t.from);
  if (!status)
    status = compute_tensor_create(session->device, result, compute_tensor_shape(t.from), &t.to);
  if (!status) {
    t.bytes = (size_t)compute_tensor_count(t.to) * compute_dtype_size(result);
    status = check_copy(c, &t, original, result, &error);
  }
  if (status) {
    bench_fail(session, suite, c, "does not run");
    goto end;
  }
  double read = (double)compute_tensor_count(t.from) * sizeof(float);
  bench_record record = bench_record_new(session, suite, c);
  record.max_rel_err = error;
  bench_require_most(&record, "error", "", error, bound);
  bench_run_single(
      session, &record,
      &(bench_single){.call = copy_call, .state = &t, .bytes = read + (double)t.bytes});
end:
  compute_tensor_release(t.from);
  compute_tensor_release(t.to);
  compute_tensor_release(dense);
  host_release(t.host, bytes);
  host_release(original, bytes);
}

/* A round trip must give the same bytes; then one direction is timed. Each transferred byte counts
 * once. size[1]: 1 for page-locked memory. */
static void run_transfer(bench_session *session, const char *suite, const bench_case *c) {
  size_t bytes = (size_t)c->size[0];
  transfer_state t = {.bytes = bytes, .host = host_allocate(bytes)};
  uint8_t *original = host_allocate(bytes);
  if (!t.host || !original) {
    bench_note(session, "%s/%s skipped: not enough memory", suite, c->name);
    goto end;
  }
  host_fill(COMPUTE_F32, original, (int64_t)(bytes / sizeof(float)), -1, 1, 1);
  memcpy(t.host, original, bytes);
  compute_status status = COMPUTE_OK;
  if (c->size[1] != 0)
    status = compute_tensor_wrap(session->device, COMPUTE_U8, COMPUTE_SHAPE(c->size[0]), NULL,
                                 t.host, NULL, NULL, &t.lock);
  if (status == COMPUTE_ERROR_UNSUPPORTED) {
    bench_note(session, "%s/%s skipped: the device does not page-lock memory", suite, c->name);
    goto end;
  }
  if (!status)
    status = compute_tensor_create(session->device, COMPUTE_U8, COMPUTE_SHAPE(c->size[0]), &t.to);
  if (!status) status = upload_call(&t);
  memset(t.host, 0, bytes);
  if (!status) status = download_call(&t);
  if (status) {
    bench_fail(session, suite, c, "does not run");
    goto end;
  }
  const bool same = !memcmp(t.host, original, bytes), up = !strcmp(c->operation, "upload");
  bench_record record = bench_record_new(session, suite, c);
  record.max_rel_err = same ? 0 : NAN;
  bench_require(&record, same, "the bytes read back differ from those sent");
  bench_run_single(session, &record,
                   &(bench_single){.call = up ? upload_call : download_call,
                                   .state = &t,
                                   .bytes = (double)bytes});
end:
  compute_tensor_release(t.to);
  compute_tensor_release(t.lock);
  host_release(t.host, bytes);
  host_release(original, bytes);
}

#define MIB *1048576

static const bench_case cases[] = {
    {.name = "pool_hit_1MiB",
     .dtype = COMPUTE_U8,
     .when = BENCH_ALWAYS,
     .run = run_pool_hit,
     .size = {1 MIB}},
    {.name = "pool_miss_1MiB",
     .dtype = COMPUTE_U8,
     .when = BENCH_ALWAYS,
     .run = run_pool_miss,
     .size = {1 MIB}},
    {.name = "upload_64MiB",
     .operation = "upload",
     .dtype = COMPUTE_U8,
     .when = BENCH_ALWAYS,
     .run = run_transfer,
     .size = {64 MIB}},
    {.name = "download_64MiB",
     .operation = "download",
     .dtype = COMPUTE_U8,
     .when = BENCH_ALWAYS,
     .run = run_transfer,
     .size = {64 MIB}},
    {.name = "upload_64MiB_pinned",
     .operation = "upload",
     .dtype = COMPUTE_U8,
     .when = BENCH_GPU,
     .run = run_transfer,
     .size = {64 MIB, 1}},
    {.name = "download_64MiB_pinned",
     .operation = "download",
     .dtype = COMPUTE_U8,
     .when = BENCH_GPU,
     .run = run_transfer,
     .size = {64 MIB, 1}},
    {.name = "upload_1MiB",
     .operation = "upload",
     .dtype = COMPUTE_U8,
     .when = BENCH_GPU,
     .run = run_transfer,
     .size = {1 MIB}},
    {.name = "copy_4096",
     .operation = "copy",
     .dtype = COMPUTE_F32,
     .when = BENCH_ALWAYS,
     .run = run_copy,
     .size = {4096, 4096}},
    {.name = "copy_strided_4096",
     .operation = "strided",
     .dtype = COMPUTE_F32,
     .when = BENCH_ALWAYS,
     .run = run_copy,
     .size = {4096, 4096}},
    {.name = "cast_bf16_4096",
     .operation = "cast",
     .dtype = COMPUTE_F32,
     .when = BENCH_ALWAYS,
     .run = run_copy,
     .size = {4096, 4096}},
    {.name = "transpose_1024",
     .operation = "transpose",
     .dtype = COMPUTE_F32,
     .when = BENCH_ALWAYS,
     .run = bench_run_operation,
     .size = {1024, 1024}},
    {.name = "transpose_4096",
     .operation = "transpose",
     .dtype = COMPUTE_F32,
     .when = BENCH_ALWAYS,
     .run = bench_run_operation,
     .size = {4096, 4096}},
    {.name = "transpose_4096_f64",
     .operation = "transpose",
     .dtype = COMPUTE_F64,
     .when = BENCH_FULL,
     .run = bench_run_operation,
     .size = {4096, 4096}},
};

const bench_suite bench_suite_memory = {"memory", "pool, transfers, copies, transposition", cases,
                                        sizeof cases / sizeof *cases};
