/* SPDX-License-Identifier: MIT */
/* The batch iterator from and to arrays in host memory, with almost no work on the device: the
 * slowest stage is a copy. It is compared with the same copies alone, one direction at a time. */
#include "batch_copies.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "host.h"
#include "measure.h"

enum { FLOATS = 1 << 18, TRIES = 7 }; /* floats of an item, 1 MiB; one more than a multiple of 3 */
#define ITEM_BYTES ((size_t)FLOATS * sizeof(float))

static const double goal = 1 / 0.9; /* times the slowest stage */

typedef struct copies {
  compute_device *device;
  compute_batch *batch;
  bool both, pinned;
  int64_t items;
  float *in, *out;
  size_t in_bytes, out_bytes;
  compute_tensor *locks[2]; /* page-lock the arrays */
} copies;

static void build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  const copies *k = user;
  (void)items;
  outputs[0] = k->both ? compute_neg(graph, inputs[0])
                       : compute_sum(graph, inputs[0], COMPUTE_AXES(1), false);
}

static compute_status lock(copies *k) {
  const compute_shape in = COMPUTE_SHAPE((int64_t)(k->in_bytes / sizeof(float)));
  const compute_shape out = COMPUTE_SHAPE((int64_t)(k->out_bytes / sizeof(float)));
  if (!k->pinned) return COMPUTE_OK;
  const compute_status s =
      compute_tensor_wrap(k->device, COMPUTE_F32, in, NULL, k->in, NULL, NULL, &k->locks[0]);
  return s ? s
           : compute_tensor_wrap(k->device, COMPUTE_F32, out, NULL, k->out, NULL, NULL,
                                 &k->locks[1]);
}

static compute_status make(bench_session *session, const bench_case *c, copies *k) {
  *k = (copies){.device = session->device,
                .both = strcmp(c->operation, "both") == 0,
                .pinned = c->size[0] != 0,
                .items = c->size[1]};
  k->in_bytes = (size_t)k->items * ITEM_BYTES;
  k->out_bytes = k->both ? k->in_bytes : (size_t)k->items * sizeof(float);
  k->in = host_allocate(k->in_bytes);
  k->out = host_allocate(k->out_bytes);
  if (!k->in || !k->out) return COMPUTE_ERROR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < k->items * FLOATS; i++) k->in[i] = (float)(i % 3);
  memset(k->out, 0, k->out_bytes);
  const compute_batch_port port = {COMPUTE_F32, COMPUTE_SHAPE(FLOATS)};
  const compute_status s = lock(k);
  return s ? s
           : compute_batch_create(session->context,
                                  &(compute_batch_options){.build = build,
                                                           .user = k,
                                                           .inputs = &port,
                                                           .input_count = 1,
                                                           .output_count = 1,
                                                           .devices = &k->device,
                                                           .device_count = 1,
                                                           .fallback = COMPUTE_FALLBACK_STRICT,
                                                           .name = c->name},
                                  &k->batch);
}

static void end(copies *k) {
  compute_batch_release(k->batch);
  for (int i = 0; i < 2; i++) compute_tensor_release(k->locks[i]);
  host_release(k->in, k->in_bytes);
  host_release(k->out, k->out_bytes);
}

/* Seconds of the copies alone, the slower direction. */
static compute_status time_link(const copies *k, double *seconds) {
  compute_tensor *x = NULL;
  const compute_shape shape = COMPUTE_SHAPE((int64_t)(k->in_bytes / sizeof(float)));
  double up = INFINITY, down = k->both ? INFINITY : 0;
  compute_status s = compute_tensor_create(k->device, COMPUTE_F32, shape, &x);
  for (int i = 0; !s && i < TRIES; i++) {
    const double start = clock_seconds();
    s = compute_tensor_write(x, k->in, k->in_bytes);
    const double middle = clock_seconds();
    up = fmin(up, middle - start);
    if (s || !k->both) continue;
    s = compute_tensor_read(x, k->out, k->out_bytes);
    down = fmin(down, clock_seconds() - middle);
  }
  compute_tensor_release(x);
  *seconds = up > down ? up : down;
  return s;
}

static compute_status time_run(const copies *k, double *seconds) {
  const compute_batch_source source = {.array = k->in};
  const compute_batch_sink sink = {.array = k->out};
  const compute_batch_run_options options = {.items = k->items, .sources = &source, .sinks = &sink};
  compute_batch_result result;
  compute_status s = COMPUTE_OK;
  *seconds = INFINITY;
  for (int i = 0; !s && i < TRIES + 1; i++) { /* the first compiles */
    s = compute_batch_run(k->batch, &options, &result);
    if (i > 0) *seconds = fmin(*seconds, result.seconds);
  }
  return s;
}

static int64_t count_wrong(const copies *k) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < (k->both ? k->items * FLOATS : k->items); i++) {
    /* An item whose elements are summed: 0, 1 and 2 again and again, then its first once more. */
    const float sum = (float)(FLOATS - 1 + i * FLOATS % 3);
    wrong += k->out[i] != (k->both ? -k->in[i] : sum);
  }
  return wrong;
}

void batch_copies_run(bench_session *session, const char *suite, const bench_case *c) {
  copies k;
  double link = NAN, total = NAN;
  compute_status s = make(session, c, &k);
  if (s == COMPUTE_ERROR_UNSUPPORTED && k.pinned && !k.locks[1]) {
    bench_note(session, "%s/%s skipped: the device does not page-lock memory", suite, c->name);
    end(&k);
    return;
  }
  if (!s) s = time_link(&k, &link);
  if (!s) s = time_run(&k, &total);
  if (s) {
    bench_fail(session, suite, c, "does not run");
  } else {
    bench_record record = bench_record_new(session, suite, c);
    record.ms = record.ms_p10 = record.ms_p90 = total * 1e3;
    record.gbytes_s = (double)k.in_bytes / total * 1e-9;
    bench_require_most(&record, "wrong results", "", (double)count_wrong(&k), 0);
    bench_aim(&record, "time / copies alone", "", total / link, goal);
    bench_record_add(session, &record);
    bench_note(session, "%s/%s: %.1f GB/s each way that is used; the copies alone: %.1f", suite,
               c->name, (double)k.in_bytes / total * 1e-9, (double)k.in_bytes / link * 1e-9);
  }
  end(&k);
}
