/* SPDX-License-Identifier: MIT */
/* The callbacks of a case. */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "batch/misuse.h"
#include "support/harness/schedule.h"

/* Small integers, so that every device has the same sums. */
float misuse_input(int port, int64_t item, int element) {
  return (float)((item * 7 + element * 3 + port * 11) % 97);
}

float misuse_output(const misuse_case *c, int port, int64_t item, int element) {
  float sum = 1;
  for (int i = 0; i < c->inputs; i++) sum += misuse_input(i, item, element);
  return sum * (float)(port + 1);
}

void misuse_pause(uint64_t seed, int most) {
  test_random random = {seed};
  if (most <= 0) return;
  if (test_random_integer(&random, 0, 1) == 0) {
    if (test_random_integer(&random, 0, 1) == 0) sched_yield();
    return;
  }
  nanosleep(&(struct timespec){0, test_random_integer(&random, 0, most) * 1000}, NULL);
}

static void lower_cut(misuse_run *run, int64_t item) {
  int_fast64_t now = atomic_load(&run->cut);
  while (item < now && !atomic_compare_exchange_weak(&run->cut, &now, item)) {
  }
}

static bool happens(const misuse_trouble *trouble, int64_t first, int64_t items) {
  return trouble && trouble->item >= first && trouble->item < first + items;
}

/* These calls are refused during the run. */
static void call_back(misuse_run *run) {
  compute_batch_device_info info;
  const compute_batch_sink sinks[MISUSE_PORTS] = {
      {.discard = true}, {.discard = true}, {.discard = true}};
  if (compute_batch_device_at(run->batch, 0, &info) != COMPUTE_ERROR_INVALID_STATE)
    misuse_wrong(run, "a callback may ask for devices");
  if (compute_batch_run(run->batch, &(compute_batch_run_options){.sinks = sinks}, NULL) !=
      COMPUTE_ERROR_INVALID_STATE)
    misuse_wrong(run, "a callback may run its own iterator");
}

static void cancel(void *batch) {
  compute_batch_cancel(batch);
}

void misuse_arm_unlock(misuse_run *run, int port) {
  const misuse_trouble *t = misuse_find(run, CANCEL_AT_UNLOCK, port);
  if (t && !atomic_exchange(&run->armed[port], true))
    schedule_call_at_unlock(t->item, cancel, run->batch);
}

/* ---- The work ------------------------------------------------------------------------------ */

void misuse_build(void *user, compute_graph *graph, int64_t items, const compute_node *inputs,
                  compute_node *outputs) {
  const misuse_case *c = ((const misuse_user *)user)->of;
  compute_node sum = compute_full(graph, COMPUTE_F32, COMPUTE_SHAPE(items, c->width), 1);
  for (int i = 0; i < c->inputs; i++) sum = compute_add(graph, sum, inputs[i]);
  if (c->builder_fails && items % 5 == 3) {
    if (c->seed % 2 == 0) return; /* without outputs */
    sum = compute_reshape(graph, sum, COMPUTE_SHAPE(items + 1, c->width + 2));
  }
  for (int i = 0; i < c->outputs; i++) {
    const compute_node factor = compute_full(graph, COMPUTE_F32, COMPUTE_SCALAR, i + 1);
    outputs[i] = compute_mul(graph, sum, factor);
  }
}

/* Computes without a graph: read, compute, write. */
static compute_status work(const misuse_case *c, const compute_batch_step *step) {
  const size_t count = (size_t)(step->items * c->width), bytes = count * sizeof(float);
  float *sum = malloc(bytes + 1), *other = malloc(bytes + 1);
  compute_status s = sum && other ? COMPUTE_OK : COMPUTE_ERROR_OUT_OF_MEMORY;
  for (size_t k = 0; s == COMPUTE_OK && k < count; k++) sum[k] = 1;
  for (int i = 0; s == COMPUTE_OK && i < c->inputs; i++) {
    s = compute_tensor_read(step->inputs[i], other, bytes);
    for (size_t k = 0; s == COMPUTE_OK && k < count; k++) sum[k] += other[k];
  }
  for (int i = 0; s == COMPUTE_OK && i < c->outputs; i++) {
    for (size_t k = 0; k < count; k++) other[k] = sum[k] * (float)(i + 1);
    s = compute_tensor_write(step->outputs[i], other, bytes);
  }
  free(sum);
  free(other);
  return s;
}

compute_status misuse_step(void *user, const compute_batch_step *step) {
  misuse_run *run = ((const misuse_user *)user)->run;
  const bool on_cpu = step->device == run->round->devices[0];
  const misuse_trouble *fails = misuse_find(run, STEP_FAILS, 0);
  const misuse_trouble *device = misuse_find(run, DEVICE_FAILS, 0);
  misuse_arm_unlock(run, 2);
  misuse_pause(run->seed + (uint64_t)step->first, run->delay);
  if (happens(misuse_find(run, CANCEL_IN_STEP, 0), step->first, step->items)) {
    atomic_store(&run->cancelled, true);
    compute_batch_cancel(run->batch);
  }
  if (happens(fails, step->first, step->items)) {
    lower_cut(run, step->first);
    return fails->status;
  }
  if (happens(device, step->first, step->items) && (!on_cpu || run->seed % 4 == 0))
    return device->status;
  const compute_status s = step->queue ? compute_queue_wait(step->queue) : COMPUTE_OK;
  return s == COMPUTE_OK ? work(run->of, step) : s;
}

/* ---- Sources ------------------------------------------------------------------------------- */

static void fill(const misuse_run *run, int port, int64_t first, int64_t items, float *to) {
  for (int64_t i = 0; i < items; i++)
    for (int e = 0; e < run->of->width; e++) *to++ = misuse_input(port, first + i, e);
}

/* A limit for runs that must be cancelled: they end long before it. */
#define MOST_READS 200000

static int64_t lie(const misuse_run *run, int64_t items) {
  const int64_t lies[] = {-1, INT64_MIN, items + 1, INT64_MAX};
  return lies[run->seed % 4];
}

compute_status misuse_read(void *user, int64_t first, int64_t items, void *data, int64_t *count) {
  struct misuse_port *p = user;
  misuse_run *run = p->run;
  const misuse_trouble *fails = misuse_find(run, SOURCE_FAILS, p->number);
  const misuse_trouble *ends = misuse_find(run, SOURCE_ENDS, p->number);
  if (first != p->next || items <= 0 || p->ended)
    misuse_wrong(run, "source %d: call for %lld items from %lld on%s, after %lld", p->number,
                 (long long)items, (long long)first, p->ended ? " after its end" : "",
                 (long long)p->next);
  misuse_arm_unlock(run, 1);
  misuse_pause(run->seed ^ (uint64_t)first, run->delay);
  if (run->seed % 16 == 3) call_back(run);
  const bool fails_now = happens(fails, first, items);
  int64_t left = run->items - first;
  if (run->endless && run->reads++ > MOST_READS) {
    misuse_wrong(run, "a cancel was lost");
    left = 0;
  }
  if (ends && ends->item - first < left) left = ends->item - first;
  if (fails_now && fails->item - first < left) left = fails->item - first;
  *count = items < left ? items : left;
  fill(run, p->number, first, *count, data);
  p->next = first + *count;
  p->ended = fails_now || *count < items;
  if (happens(misuse_find(run, CANCEL_IN_SOURCE, p->number), first, *count)) {
    atomic_store(&run->cancelled, true);
    compute_batch_cancel(run->batch);
  }
  if (fails_now || (ends && p->ended)) lower_cut(run, p->next);
  if (fails_now) return fails->status;
  if (*count == items && happens(misuse_find(run, SOURCE_LIES, p->number), first, items)) {
    *count = lie(run, items);
    p->ended = true;
    lower_cut(run, *count < 0 ? first : first + items);
  }
  return COMPUTE_OK;
}

/* ---- Sinks --------------------------------------------------------------------------------- */

compute_status misuse_write(void *user, int64_t first, int64_t items, const void *data) {
  struct misuse_port *p = user;
  misuse_run *run = p->run;
  const misuse_trouble *fails = misuse_find(run, SINK_FAILS, p->number);
  const float *from = data;
  if (first != p->next || items <= 0 || p->ended)
    misuse_wrong(run, "sink %d: call for %lld items from %lld on%s, after %lld", p->number,
                 (long long)items, (long long)first, p->ended ? " after a failure" : "",
                 (long long)p->next);
  for (int64_t i = 0; i < items; i++)
    for (int e = 0; e < run->of->width; e++)
      if (*from++ != misuse_output(run->of, p->number, first + i, e))
        misuse_wrong(run, "sink %d was given %g as element %d of item %lld", p->number,
                     (double)from[-1], e, (long long)(first + i));
  misuse_pause(run->seed + 7 * (uint64_t)first, run->delay);
  if (run->seed % 16 == 5) call_back(run);
  if (happens(fails, first, items)) {
    p->ended = true;
    lower_cut(run, first);
    return fails->status;
  }
  p->next = first + items;
  if (happens(misuse_find(run, CANCEL_IN_SINK, p->number), first, items)) {
    lower_cut(run, p->next); /* this batch is still delivered */
    compute_batch_cancel(run->batch);
  }
  return COMPUTE_OK;
}

bool misuse_progress(void *user, const compute_batch_progress *progress) {
  misuse_run *run = user;
  const misuse_trouble *cancels = misuse_find(run, PROGRESS_CANCELS, 0);
  if (progress->items < run->reported || progress->items > run->items || progress->seconds < 0 ||
      !(progress->rate >= 0))
    misuse_wrong(run, "progress says %lld items after %lld, %g per second",
                 (long long)progress->items, (long long)run->reported, progress->rate);
  run->reported = progress->items;
  return !cancels || run->reports++ != cancels->item;
}
