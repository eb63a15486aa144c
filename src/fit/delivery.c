/* SPDX-License-Identifier: MIT */
/* Copies the device's records into the caller's arrays.
 *
 * A record is a row of the device's result, but the caller gets columns: one array for each output.
 * Blocks of records that fit into the L1 cache are split output by output. */
#include "fit/fitter.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/device/registry.h"

static const char operation[] = "compute_fit_run";

enum { BLOCK = 256, OUTPUTS = 9, PIECE = 1 << 18 };

/* Records of a task, and of a loop over tasks. Other users of the threads run between two loops. */
enum { TASK = 8 * BLOCK, LOOP = 64 * TASK };

#define STREAM_COUNT 200000 /* the results of this many ROIs exceed every cache */

/* ---- Outputs as a table -------------------------------------------------------------------- */

/* The arrays of the outputs, in the order of their bits. */
static const size_t arrays[OUTPUTS] = {
    offsetof(compute_fit_results, parameters),  offsetof(compute_fit_results, std),
    offsetof(compute_fit_results, covariance),  offsetof(compute_fit_results, ratio),
    offsetof(compute_fit_results, p_raw),       offsetof(compute_fit_results, p_value),
    offsetof(compute_fit_results, iterations),  offsetof(compute_fit_results, status),
    offsetof(compute_fit_results, significance)};

/* The outputs whose elements are not floats. */
enum { ITERATIONS = 6, STATUS = 7 };

static void *array_of(const compute_fit_results *results, int output) {
  void *array;
  memcpy(&array, (const char *)results + arrays[output], sizeof array);
  return array;
}

static void set_array(compute_fit_results *results, int output, void *array) {
  memcpy((char *)results + arrays[output], &array, sizeof array);
}

/* Returns the bytes of one ROI in an output. */
static size_t bytes_of(const compute_fit *fit, int output) {
  const uint32_t bit = UINT32_C(1) << output;
  if (bit == COMPUTE_FIT_STATUS) return sizeof(uint8_t);
  return (size_t)compute_fit_output_columns(fit->problem.model, bit) * sizeof(float);
}

/* ---- Before and after the run -------------------------------------------------------------- */

typedef struct blank {
  char *array;
  size_t bytes;
  bool zero; /* for iterations and status; NaN for the other outputs */
} blank;

static void blank_piece(void *argument, int64_t task, int32_t worker) {
  const blank *b = argument;
  const size_t start = (size_t)task * PIECE, left = b->bytes - start;
  const size_t bytes = (size_t)min_u64(left, PIECE);
  (void)worker;
  if (b->zero) {
    memset(b->array + start, 0, bytes);
    return;
  }
  float *to = (float *)(void *)(b->array + start);
  for (size_t i = 0; i < bytes / sizeof *to; i++) to[i] = NAN;
}

/* Marks the ROIs from `first` on as not fitted. */
static void blank_output(const fit_delivery *d, int output, int64_t first) {
  const size_t each = bytes_of(d->fit, output);
  char *array = array_of(&d->options->results, output);
  if (!array || d->options->count <= first) return;
  blank b = {.array = array + each * (size_t)first,
             .bytes = each * (size_t)(d->options->count - first),
             .zero = (FIT_COUNTED >> output & 1) != 0};
  thread_pool_run(d->fit->context->threads, (int64_t)((b.bytes + PIECE - 1) / PIECE), blank_piece,
                  &b);
}

/* Returns true if no device of the run computes with the context's threads. */
static bool leaves_threads(const compute_fit *fit) {
  if (fit->flags & COMPUTE_BATCH_ALL_DEVICES) return false;
  compute_device *const only = fit->device_count > 0 ? NULL : registry_default_device(fit->context);
  compute_device *const *devices = only ? &only : fit->devices;
  const size_t count = only ? 1 : fit->device_count;
  for (size_t i = 0; i < count; i++)
    if (devices[i]->info.capabilities & COMPUTE_CAPABILITY_HOST) return false;
  return true;
}

/* Statuses are valid from the start. Other outputs of unfitted ROIs are blanked after the run,
 * because writing every number twice would slow a fast run by several per cent. */
void delivery_open(fit_delivery *d, compute_fit *fit, const compute_fit_run_options *options) {
  const compute_fit_problem *p = &fit->problem;
  *d = (fit_delivery){.fit = fit, .options = options};
  d->columns = compute_fit_column(p->model, p->outputs, 0);
  for (int i = 0; i < OUTPUTS; i++)
    d->at[i] = compute_fit_column(p->model, p->outputs, UINT32_C(1) << i);
  d->streams = !options->write && options->count >= STREAM_COUNT;
  d->in_parallel = leaves_threads(fit);
  blank_output(d, STATUS, 0);
}

void delivery_close(fit_delivery *d) {
  for (int i = 0; i < OUTPUTS; i++) blank_output(d, i, d->summary.count);
  base_release(d->scratch);
  d->scratch = NULL;
}

/* ---- A batch ------------------------------------------------------------------------------- */

/* Places the outputs that only the caller's function gets in the scratch memory, array after
 * array. */
static compute_status place_scratch(fit_delivery *d, int64_t count) {
  const compute_fit *fit = d->fit;
  size_t bytes = 0;
  for (int i = 0; i < OUTPUTS; i++)
    if ((fit->wanted >> i & 1) && !array_of(&d->to, i))
      bytes += (bytes_of(fit, i) * (size_t)count + 63) / 64 * 64;
  if (bytes > d->scratch_bytes || !d->scratch) {
    base_release(d->scratch);
    d->scratch_bytes = 0;
    d->scratch = base_allocate_aligned(bytes > 0 ? bytes : 1, 64);
    if (!d->scratch)
      return error_set(fit->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "not enough memory for the results of %lld ROIs", (long long)count);
    d->scratch_bytes = bytes;
  }
  char *next = d->scratch;
  for (int i = 0; i < OUTPUTS; i++) {
    if (!(fit->wanted >> i & 1) || array_of(&d->to, i)) continue;
    set_array(&d->to, i, next);
    next += (bytes_of(fit, i) * (size_t)count + 63) / 64 * 64;
  }
  return COMPUTE_OK;
}

compute_status delivery_begin(fit_delivery *d, int64_t count) {
  d->to = d->options->results;
  atomic_store_explicit(&d->iterations, 0, memory_order_relaxed);
  for (int i = 0; i < COMPUTE_FIT_STATUS_COUNT; i++)
    atomic_store_explicit(&d->of_status[i], 0, memory_order_relaxed);
  for (int i = 0; i < OUTPUTS; i++) {
    char *array = array_of(&d->to, i);
    if (array) set_array(&d->to, i, array + bytes_of(d->fit, i) * (size_t)d->summary.count);
  }
  return d->options->write ? place_scratch(d, count) : COMPUTE_OK;
}

/* The width is constant, so that each copy is one or two moves. */
#define COPY_COLUMNS(width)                                                                        \
  for (int64_t i = 0; i < count; i++)                                                              \
  memcpy(to + i * (width), from + i * step, (size_t)(width) * sizeof *to)

static void copy_columns(float *to, const float *from, int64_t step, int32_t width, int64_t count) {
  switch (width) {
  case 1: COPY_COLUMNS(1); break;
  case 4: COPY_COLUMNS(4); break;
  case 5: COPY_COLUMNS(5); break;
  case 6: COPY_COLUMNS(6); break;
  default: COPY_COLUMNS(width); break;
  }
}

#ifdef __SSE2__
/* As copy_columns, with non-temporal stores, for arrays that are not read soon. Fetching cache
 * lines before overwriting them would double the traffic. Returns false for widths that do not fill
 * 16 bytes. */
static bool stream_columns(float *to, const float *from, int64_t step, int32_t width,
                           int64_t count) {
  if ((uintptr_t)to % 16 != 0) return false;
  if (width == 4) {
    for (int64_t i = 0; i < count; i++) _mm_stream_ps(to + 4 * i, _mm_loadu_ps(from + i * step));
    return true;
  }
  if (width != 1 || count % 4 != 0) return false;
  for (int64_t i = 0; i < count; i += 4, from += 4 * step)
    _mm_stream_ps(to + i, _mm_setr_ps(from[0], from[step], from[2 * step], from[3 * step]));
  return true;
}
#else
static bool stream_columns(float *to, const float *from, int64_t step, int32_t width,
                           int64_t count) {
  (void)to, (void)from, (void)step, (void)width, (void)count;
  return false;
}
#endif

typedef struct delivery_counts {
  int64_t of_status[COMPUTE_FIT_STATUS_COUNT], iterations;
} delivery_counts;

/* In the record, statuses and iterations are small whole numbers stored as floats. */
static void count_block(const fit_delivery *d, const float *records, int64_t count,
                        delivery_counts *counts) {
  const float *status = records + d->at[STATUS], *iterations = records + d->at[ITERATIONS];
  const int64_t step = d->columns;
  int32_t converged = 0, steps = 0;
  for (int64_t i = 0; i < count; i++) {
    converged += status[i * step] == (float)COMPUTE_FIT_CONVERGED;
    steps += (int32_t)iterations[i * step];
  }
  counts->iterations += steps;
  counts->of_status[COMPUTE_FIT_CONVERGED] += converged;
  if (converged == count) return;
  for (int64_t i = 0; i < count; i++) {
    const float value = status[i * step];
    const int number = value >= 0 && value < COMPUTE_FIT_STATUS_COUNT ? (int)value : 0;
    if (number != COMPUTE_FIT_CONVERGED) counts->of_status[number]++;
  }
}

static void take_block(const fit_delivery *d, int64_t place, int64_t count, const float *records,
                       delivery_counts *counts) {
  const int64_t step = d->columns;
  for (int i = 0; i < OUTPUTS; i++) {
    const int32_t width = compute_fit_output_columns(d->fit->problem.model, UINT32_C(1) << i);
    float *to = i == ITERATIONS || i == STATUS ? NULL : array_of(&d->to, i);
    if (!to) continue;
    if (!d->streams || !stream_columns(to + place * width, records + d->at[i], step, width, count))
      copy_columns(to + place * width, records + d->at[i], step, width, count);
  }
  if (d->to.iterations)
    for (int64_t i = 0; i < count; i++)
      d->to.iterations[place + i] = (int32_t)records[i * step + d->at[ITERATIONS]];
  if (d->to.status)
    for (int64_t i = 0; i < count; i++)
      d->to.status[place + i] = (uint8_t)records[i * step + d->at[STATUS]];
  count_block(d, records, count, counts);
}

typedef struct taking {
  fit_delivery *delivery;
  int64_t place, count;
  const float *records;
} taking;

static void take_task(void *argument, int64_t task, int32_t worker) {
  const taking *t = argument;
  fit_delivery *d = t->delivery;
  const int64_t end = min_i64(t->count, (task + 1) * TASK);
  delivery_counts counts = {0};
  (void)worker;
  for (int64_t done = task * TASK; done < end; done += BLOCK)
    take_block(d, t->place + done, min_i64(end - done, BLOCK), t->records + done * d->columns,
               &counts);
#ifdef __SSE2__
  if (d->streams) _mm_sfence(); /* before the callback */
#endif
  atomic_fetch_add_explicit(&d->iterations, counts.iterations, memory_order_relaxed);
  for (int i = 0; i < COMPUTE_FIT_STATUS_COUNT; i++)
    atomic_fetch_add_explicit(&d->of_status[i], counts.of_status[i], memory_order_relaxed);
}

void delivery_take(fit_delivery *d, int64_t place, int64_t count, const float *records) {
  for (int64_t done = 0; done < count; done += LOOP) {
    taking t = {d, place + done, min_i64(count - done, LOOP), records + done * d->columns};
    const int64_t tasks = (t.count + TASK - 1) / TASK;
    if (d->in_parallel)
      thread_pool_run(d->fit->context->threads, tasks, take_task, &t);
    else
      for (int64_t task = 0; task < tasks; task++) take_task(&t, task, 0);
  }
}

compute_status delivery_end(fit_delivery *d, int64_t count, const int32_t *corners,
                            int64_t frames) {
  const compute_fit_run_options *options = d->options;
  compute_fit_summary *sum = &d->summary;
  compute_status status = COMPUTE_OK;
  if (atomic_load(&d->fit->cancelled))
    return error_set(d->fit->context, COMPUTE_ERROR_CANCELLED, operation, "the run was cancelled");
  if (options->write)
    status = options->write(options->write_user, sum->count, count, &d->to, corners, frames);
  if (status) return status;
  sum->count += count;
  sum->frames = frames;
  sum->iterations += atomic_load_explicit(&d->iterations, memory_order_relaxed);
  for (int i = 0; i < COMPUTE_FIT_STATUS_COUNT; i++)
    sum->of_status[i] += atomic_load_explicit(&d->of_status[i], memory_order_relaxed);
  return COMPUTE_OK;
}
