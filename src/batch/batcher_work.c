/* SPDX-License-Identifier: MIT */
/* The thread of a device: it gathers requests, runs them together and copies their results.
 *
 * If a run fails, its items are run one by one, so that only those with a fault of their own fail.
 * If the device itself fails, an item is repeated on the CPU, as the iterator's policy allows. */
#include <string.h>

#include "batch/batcher.h"
#include "batch/work.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"

static const char operation[] = "compute_batcher_run";

/* ---- Tensors --------------------------------------------------------------------------------- */

static compute_status open_port(batcher_cell *cell, const batch_port *port, int64_t most,
                                compute_tensor **tensor, void **host) {
  compute_device *device = cell->work->device;
  const compute_status status =
      tensor_create_private(device, port->dtype, batch_shape(port->item, most), tensor);
  if (status) return status;
  *host = cell->staged ? NULL : compute_tensor_data(*tensor);
  if (*host) return COMPUTE_OK;
  cell->staged = true;
  const uint64_t bytes = port->bytes * (uint64_t)most;
  *host = base_allocate_aligned(bytes > 0 ? bytes : 1, 64);
  return *host ? COMPUTE_OK
               : error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                           "not enough host memory for %lld items", (long long)most);
}

static void close_cell(batcher_cell *cell) {
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    if (cell->staged) {
      base_release(cell->in_host[i]);
      base_release(cell->out_host[i]);
    }
    compute_tensor_release(cell->inputs[i]);
    compute_tensor_release(cell->outputs[i]);
  }
  *cell = (batcher_cell){0};
}

/* `direct`: the host addresses the device's memory, so items need no staging. */
static compute_status open_cell(batcher_cell *cell, batch_work *work, bool direct, int64_t most) {
  const compute_batch *batch = work->batch;
  compute_status status = COMPUTE_OK;
  *cell = (batcher_cell){.work = work, .staged = !direct};
  for (uint32_t i = 0; !status && i < batch->input_count; i++)
    status = open_port(cell, &batch->inputs[i], most, &cell->inputs[i], &cell->in_host[i]);
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = open_port(cell, &batch->outputs[i], most, &cell->outputs[i], &cell->out_host[i]);
  if (status) close_cell(cell);
  return status;
}

/* Compiles the plan of every size, so that no request waits for it. */
static compute_status compile_sizes(batch_work *work, int64_t most) {
  compute_status status = COMPUTE_OK;
  for (int64_t size = most; !status && size > 0; size = batcher_size(most, size - 1)) {
    batch_plan *plan;
    status = work_plan(work, size, &plan);
    if (!status) work_release(work, plan);
    if (size == 1) break;
  }
  return status;
}

compute_status batcher_open_worker(batcher_worker *worker) {
  const compute_batcher *batcher = worker->batcher;
  const uint64_t most = (uint64_t)batcher->most;
  batch_work *work = worker->pipeline->work;
  worker->items = base_allocate(most, sizeof *worker->items);
  worker->results = base_allocate(most, sizeof *worker->results);
  worker->errors = base_allocate(most, sizeof *worker->errors);
  if (!worker->items || !worker->results || !worker->errors)
    return error_set(batcher->context, COMPUTE_ERROR_OUT_OF_MEMORY, "compute_batcher_create",
                     "not enough memory for %lld items", (long long)batcher->most);
  compute_status status = open_cell(&worker->cell, work, worker->pipeline->direct, batcher->most);
  if (!status && batcher->batch->build) status = compile_sizes(work, batcher->most);
  return status ? status : work_refresh(work);
}

void batcher_close_worker(batcher_worker *worker) {
  close_cell(&worker->cell);
  close_cell(&worker->cpu);
  base_release(worker->items);
  base_release(worker->results);
  base_release(worker->errors);
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Part of a tensor, on the device or from or to staging. */
static compute_status take_part(compute_tensor *whole, int64_t from, int64_t count,
                                compute_tensor **part) {
  return compute_tensor_slice_view(whole, 0, from, count, 1, part);
}

static void *row(void *host, const batch_port *port, int64_t item) {
  return (char *)host + port->bytes * (uint64_t)item;
}

/* Runs the items `from` … `from` + count − 1 of a cell. */
static compute_status run_part(const batcher_cell *cell, int64_t first, int64_t from,
                               int64_t count) {
  const compute_batch *batch = cell->work->batch;
  compute_tensor *inputs[COMPUTE_BATCH_MAX_PORTS] = {NULL};
  compute_tensor *outputs[COMPUTE_BATCH_MAX_PORTS] = {NULL};
  compute_status status = COMPUTE_OK;
  for (uint32_t i = 0; !status && i < batch->input_count; i++) {
    const batch_port *port = &batch->inputs[i];
    status = take_part(cell->inputs[i], from, count, &inputs[i]);
    if (!status && cell->staged)
      status = compute_tensor_write(inputs[i], row(cell->in_host[i], port, from),
                                    port->bytes * (uint64_t)count);
  }
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    status = take_part(cell->outputs[i], from, count, &outputs[i]);
  if (!status) status = work_submit(cell->work, first, count, inputs, outputs, NULL);
  for (uint32_t i = 0; i < batch->output_count; i++) {
    const batch_port *port = &batch->outputs[i];
    if (!status && cell->staged)
      status = compute_tensor_read(outputs[i], row(cell->out_host[i], port, from),
                                   port->bytes * (uint64_t)count);
  }
  for (uint32_t i = 0; i < COMPUTE_BATCH_MAX_PORTS; i++) {
    compute_tensor_release(inputs[i]);
    compute_tensor_release(outputs[i]);
  }
  return status;
}

/* Repeats one item on the CPU after a failure of its device. */
static compute_status run_on_cpu(batcher_worker *worker, int64_t first, int64_t item,
                                 compute_status cause) {
  compute_batcher *batcher = worker->batcher;
  const compute_batch *batch = batcher->batch;
  batcher_cell *cpu = &worker->cpu, *cell = &worker->cell;
  compute_status status = COMPUTE_OK;
  if (!cell->staged || !pipeline_may_repeat(worker->pipeline, cause)) return cause;
  if (cause == COMPUTE_ERROR_DEVICE_LOST) (void)pipeline_give_up(worker->pipeline);
  if (!cpu->work) status = open_cell(cpu, batch->cpu_work, true, 1);
  for (uint32_t i = 0; !status && i < batch->input_count; i++)
    memcpy(cpu->in_host[i], row(cell->in_host[i], &batch->inputs[i], item), batch->inputs[i].bytes);
  if (!status) status = run_part(cpu, first + item, 0, 1);
  for (uint32_t i = 0; !status && i < batch->output_count; i++)
    memcpy(row(cell->out_host[i], &batch->outputs[i], item), cpu->out_host[i],
           batch->outputs[i].bytes);
  pthread_mutex_lock(&batcher->mutex);
  batcher->info.on_cpu += status == COMPUTE_OK;
  pthread_mutex_unlock(&batcher->mutex);
  return status;
}

/* Runs one item whose run has failed, unless nobody waits for it any more. */
static void run_single(batcher_worker *worker, int64_t first, int64_t item) {
  compute_batcher *batcher = worker->batcher;
  pthread_mutex_lock(&batcher->mutex);
  const bool wanted = worker->items[item]->state == REQUEST_RUNNING;
  batcher->info.repeated += wanted;
  pthread_mutex_unlock(&batcher->mutex);
  if (!wanted) return;
  compute_status status = run_part(&worker->cell, first + item, item, 1);
  if (status) status = run_on_cpu(worker, first, item, status);
  worker->results[item] = status;
  if (status) compute_error_get(batcher->context, &worker->errors[item]);
}

static void run_all(batcher_worker *worker, int64_t first, int64_t count) {
  compute_batcher *batcher = worker->batcher;
  compute_status status = run_part(&worker->cell, first, 0, count);
  for (int64_t k = 0; k < count; k++) worker->results[k] = status;
  if (!status) return;
  if (count > 1) {
    for (int64_t k = 0; k < count; k++) run_single(worker, first, k);
    return;
  }
  worker->results[0] = run_on_cpu(worker, first, 0, status);
  if (worker->results[0]) compute_error_get(batcher->context, &worker->errors[0]);
}

/* ---- Gathering ------------------------------------------------------------------------------- */

/* Lock held. Ends the requests that have waited beyond their limits. Returns the next limit of a
 * request in the queue; 0: none. */
static int64_t drop_late(compute_batcher *batcher) {
  if (batcher->limited == 0) return 0;
  const int64_t now = clock_now();
  int64_t soonest = 0;
  for (compute_batcher_request *r = batcher->first; r;) {
    compute_batcher_request *next = r->next;
    if (r->deadline && now >= r->deadline) {
      request_dequeue(r);
      request_end(r, COMPUTE_ERROR_TIMEOUT, NULL); /* the queue may change during its callback */
      next = batcher->first;
      soonest = 0;
    } else if (r->deadline && (soonest == 0 || r->deadline < soonest)) {
      soonest = r->deadline;
    }
    r = next;
  }
  return soonest;
}

/* Lock held. Waits until a run shall begin. Returns its number of items; 0: the batcher stops. */
static int64_t gather(compute_batcher *batcher) {
  for (;;) {
    const int64_t soonest = drop_late(batcher);
    if (!batcher->first && batcher->stopping) return 0;
    const int64_t due = batcher->first ? batcher->first->arrived + batcher->wait : 0;
    if (batcher->first && (batcher->info.waiting >= batcher->most || batcher->stopping ||
                           batcher->wait == 0 || clock_now() >= due))
      return batcher_size(batcher->most, batcher->info.waiting);
    batcher->wake = soonest && soonest < due ? soonest : due;
    batcher_wait_until(&batcher->arrived, &batcher->mutex, batcher->wake);
  }
}

/* Lock held. Takes the first requests out of the queue. Returns the number of the run's first item
 * among all items. */
static int64_t take(batcher_worker *worker, int64_t count) {
  compute_batcher *batcher = worker->batcher;
  compute_batcher_info *info = &batcher->info;
  const int64_t now = clock_now(), first = batcher->started;
  int octave = 0;
  for (int64_t k = 0; k < count; k++) {
    compute_batcher_request *r = worker->items[k] = batcher->first;
    request_dequeue(r);
    r->references++;
    r->state = REQUEST_FILLING;
    const double waited = 1e-9 * (double)(now - r->arrived);
    batcher->waited += waited;
    if (waited > info->longest_wait) info->longest_wait = waited;
  }
  while (count >> octave > 1) octave++;
  info->sizes[octave]++;
  info->runs++;
  info->items += (uint64_t)count;
  info->running += count;
  batcher->started += count;
  if (batcher->first) pthread_cond_broadcast(&batcher->arrived); /* for other devices */
  return first;
}

static void fill(const batcher_worker *worker, int64_t count) {
  const compute_batch *batch = worker->batcher->batch;
  for (uint32_t i = 0; i < batch->input_count; i++)
    for (int64_t k = 0; k < count; k++)
      memcpy(row(worker->cell.in_host[i], &batch->inputs[i], k), worker->items[k]->inputs[i],
             batch->inputs[i].bytes);
}

/* Lock held. Requests that shall end do so now that their inputs are copied. */
static void begin(const batcher_worker *worker, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    compute_batcher_request *r = worker->items[k];
    r->state = REQUEST_RUNNING;
    if (r->wanted) request_end(r, r->wanted, NULL);
  }
}

/* Lock held. Ends those that have failed or are late, and marks the others for copying. The result
 * of a request that has already ended becomes an error, so that nothing is copied for it. */
static void sort_out(const batcher_worker *worker, int64_t count) {
  const int64_t now = clock_now();
  for (int64_t k = 0; k < count; k++) {
    compute_batcher_request *r = worker->items[k];
    if (r->state != REQUEST_RUNNING) {
      worker->results[k] = COMPUTE_ERROR_CANCELLED;
    } else if (r->deadline && now >= r->deadline) {
      worker->results[k] = COMPUTE_ERROR_TIMEOUT;
      request_end(r, COMPUTE_ERROR_TIMEOUT, NULL);
    } else if (worker->results[k]) {
      request_end(r, worker->results[k], &worker->errors[k]);
    } else {
      r->state = REQUEST_COPYING;
    }
  }
}

static void deliver(const batcher_worker *worker, int64_t count) {
  const compute_batch *batch = worker->batcher->batch;
  for (uint32_t i = 0; i < batch->output_count; i++)
    for (int64_t k = 0; k < count; k++)
      if (worker->results[k] == COMPUTE_OK)
        memcpy(worker->items[k]->outputs[i], row(worker->cell.out_host[i], &batch->outputs[i], k),
               batch->outputs[i].bytes);
}

/* Lock held. */
static void end_all(const batcher_worker *worker, int64_t count) {
  worker->batcher->info.running -= count;
  for (int64_t k = 0; k < count; k++) {
    compute_batcher_request *r = worker->items[k];
    if (r->state == REQUEST_COPYING) request_end(r, COMPUTE_OK, NULL);
    request_unreference(r);
  }
}

void *batcher_work(void *argument) {
  batcher_worker *worker = argument;
  compute_batcher *batcher = worker->batcher;
  int64_t count;
  pthread_mutex_lock(&batcher->mutex);
  while ((count = gather(batcher)) > 0) {
    const int64_t first = take(worker, count);
    pthread_mutex_unlock(&batcher->mutex);
    fill(worker, count);
    pthread_mutex_lock(&batcher->mutex);
    begin(worker, count);
    pthread_mutex_unlock(&batcher->mutex);
    const int64_t began = clock_now();
    run_all(worker, first, count);
    pthread_mutex_lock(&batcher->mutex);
    batcher->info.busy += 1e-9 * (double)(clock_now() - began);
    sort_out(worker, count);
    pthread_mutex_unlock(&batcher->mutex);
    deliver(worker, count);
    pthread_mutex_lock(&batcher->mutex);
    end_all(worker, count);
  }
  pthread_mutex_unlock(&batcher->mutex);
  return NULL;
}
