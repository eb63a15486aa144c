/* SPDX-License-Identifier: MIT */
/* BINCOUNT: counts of small integers in rows, or sums of weights.
 *
 * Each row is divided into parts, by sizes only. A part has a private histogram: of i64 counts, or
 * of f64 sums. The histograms of a row are added in the order of its parts. Tasks are rows, and for
 * a few long rows parts, so all divisions of the work give the same bits.
 *
 * Elements outside the bins are skipped and reported after the launch.
 *
 * SCATTER (scatter.c) adds as well, but in the data's dtype and into any memory, which it reads and
 * checks first. */
#include <stdio.h>
#include <string.h>

#include "core/nest.h"
#include "index.h"
#include "program/program.h"

enum {
  VALUES = 0,
  WEIGHTS = 1,
  PART = 1 << 16, /* elements, at least */
  PART_BINS = 4,  /* elements of a part for each bin, at least: adding parts stays cheap */
  BLOCK = 1024,   /* weights that are widened at once */
  WORK = 1 << 14, /* with fewer elements, another thread does not pay */
  TASKS_PER_THREAD = 4,
  MOST_TASKS = 256
};

/* One bin of a histogram. */
typedef union bin {
  int64_t count;
  double sum;
} bin;

typedef enum weight_kind { NO_WEIGHTS, WEIGHTS_F32, WEIGHTS_F64 } weight_kind;

typedef struct bincount_kernel {
  cpu_kernel head;
  cpu_nest rows;
  int64_t row_count, length, bins;
  int64_t step, weight_step, result_step;
  int64_t part, parts; /* elements of a part; parts of a row */
  int64_t tasks;       /* of rows */
  compute_dtype dtype; /* of the result and the weights */
  weight_kind weights; /* after widening */
  bool wide;           /* I64 */
  bool direct;         /* weights are read where they are */
  bool by_parts;       /* tasks are parts */
  int64_t histograms;  /* of a worker */
  int64_t stored_bins; /* of a histogram in memory: whole cache lines */
} bincount_kernel;

/* Where a row lies. */
typedef struct bincount_row {
  const void *values;
  const unsigned char *weights;
  unsigned char *results;
  int64_t first; /* offset of the first value */
  int64_t position;
} bincount_row;

typedef struct launch {
  const bincount_kernel *kernel;
  void *const *pointers;
  bin *memory; /* histograms of each worker, or one for each part of the row */
  int64_t row; /* with by_parts */
  cpu_index_failure failure[MOST_TASKS];
} launch;

/* ---- Innermost loops ----------------------------------------------------------------------- */

/* A run of elements. Steps are in elements. */
typedef struct run {
  const void *values;
  const void *weights;
  int64_t first, step, weight_step, count, bins, position;
} run;

static inline void add_run(bin *histogram, const run *given, cpu_index_failure *failure, bool wide,
                           weight_kind weights) {
  const run r = *given; /* in registers, which stores cannot alias */
  for (int64_t i = 0; i < r.count; i++) {
    const int64_t value = cpu_index_read(r.values, r.first + i * r.step, wide);
    if (!cpu_index_inside(value, r.bins)) {
      cpu_index_note(failure, r.position + i, value, r.first + i * r.step);
      continue;
    }
    if (weights == NO_WEIGHTS) histogram[value].count++;
    if (weights == WEIGHTS_F32)
      histogram[value].sum += (double)((const float *)r.weights)[i * r.weight_step];
    if (weights == WEIGHTS_F64)
      histogram[value].sum += ((const double *)r.weights)[i * r.weight_step];
  }
}

static void add(const bincount_kernel *kernel, bin *histogram, const run *r,
                cpu_index_failure *failure) {
#define CASE(wide, weights)                                                                        \
  case (weights)*2 + (wide): add_run(histogram, r, failure, (wide), (weights)); break
  switch ((int)kernel->weights * 2 + kernel->wide) {
    CASE(0, NO_WEIGHTS);
    CASE(1, NO_WEIGHTS);
    CASE(0, WEIGHTS_F32);
    CASE(1, WEIGHTS_F32);
    CASE(0, WEIGHTS_F64);
    CASE(1, WEIGHTS_F64);
  }
#undef CASE
}

/* ---- Parts --------------------------------------------------------------------------------- */

static bincount_row find_row(const launch *l, int64_t number) {
  const bincount_kernel *kernel = l->kernel;
  const int32_t results = kernel->weights == NO_WEIGHTS ? 1 : 2;
  const int64_t bytes = (int64_t)cpu_dtype_size(kernel->dtype);
  cpu_walk walk;
  cpu_walk_start(&kernel->rows, kernel->rows.rank, number, &walk);
  bincount_row row = {.values = l->pointers[VALUES],
                      .first = walk.offset[VALUES],
                      .position = number * kernel->length};
  row.results = (unsigned char *)l->pointers[results] + walk.offset[results] * bytes;
  if (results == 2 && l->pointers[WEIGHTS]) /* NULL for a row without elements */
    row.weights = (const unsigned char *)l->pointers[WEIGHTS] + walk.offset[WEIGHTS] * bytes;
  return row;
}

/* Makes the histogram of one part of a row. */
static void count_part(const bincount_kernel *kernel, const bincount_row *row, int64_t part,
                       bin *histogram, cpu_index_failure *failure) {
  const int64_t begin = part * kernel->part;
  const int64_t end = cpu_min(begin + kernel->part, kernel->length);
  const int64_t bytes = (int64_t)cpu_dtype_size(kernel->dtype);
  const int64_t most = kernel->direct ? kernel->part : BLOCK;
  _Alignas(64) float widened[BLOCK];
  memset(histogram, 0, (size_t)kernel->bins * sizeof *histogram);
  for (int64_t at = begin; at < end; at += most) {
    run r = {.values = row->values,
             .first = row->first + at * kernel->step,
             .step = kernel->step,
             .weight_step = kernel->weight_step,
             .count = cpu_min(most, end - at),
             .bins = kernel->bins,
             .position = row->position + at};
    if (kernel->weights != NO_WEIGHTS) r.weights = row->weights + at * kernel->weight_step * bytes;
    if (!kernel->direct) {
      kernel->head.device->isa->tile->load[kernel->dtype](r.count, widened, r.weights,
                                                          kernel->weight_step);
      r.weights = widened;
      r.weight_step = 1;
    }
    add(kernel, histogram, &r, failure);
  }
}

/* Adds bins first … end − 1 of a part's histogram to a row's bins. */
static void add_part(const bincount_kernel *kernel, bin *total, const bin *part, int64_t first,
                     int64_t end) {
  if (kernel->weights == NO_WEIGHTS)
    for (int64_t b = first; b < end; b++) total[b].count += part[b].count;
  else
    for (int64_t b = first; b < end; b++) total[b].sum += part[b].sum;
}

/* Converts and stores bins first … end − 1. Counts and f64 sums are stored as they are. */
static void store(const bincount_kernel *kernel, const bincount_row *row, const bin *total,
                  int64_t first, int64_t end) {
  const cpu_tile_table *tile = kernel->head.device->isa->tile;
  const int64_t step = kernel->result_step, bytes = (int64_t)cpu_dtype_size(kernel->dtype);
  _Alignas(64) float block[BLOCK];
  if (bytes == sizeof(bin)) {
    bin *results = (bin *)(void *)row->results;
    for (int64_t b = first; b < end; b++) results[b * step] = total[b];
    return;
  }
  for (int64_t b = first; b < end; b += BLOCK) {
    const int64_t count = cpu_min(BLOCK, end - b);
    tile->narrow[CPU_TYPE_F64][kernel->dtype](count, block, total + b);
    tile->store[kernel->dtype](count, row->results + b * step * bytes, step, block);
  }
}

/* ---- Launching ----------------------------------------------------------------------------- */

static void row_task(void *argument, int64_t task, int32_t worker) {
  launch *l = argument;
  const bincount_kernel *kernel = l->kernel;
  bin *total = l->memory + (int64_t)worker * kernel->histograms * kernel->stored_bins;
  bin *part = total + kernel->stored_bins; /* if there are parts */
  cpu_index_failure failure = {INT64_MAX, 0, 0};
  const int64_t end = (task + 1) * kernel->row_count / kernel->tasks;
  for (int64_t number = task * kernel->row_count / kernel->tasks; number < end; number++) {
    const bincount_row row = find_row(l, number);
    count_part(kernel, &row, 0, total, &failure);
    for (int64_t p = 1; p < kernel->parts; p++) {
      count_part(kernel, &row, p, part, &failure);
      add_part(kernel, total, part, 0, kernel->bins);
    }
    store(kernel, &row, total, 0, kernel->bins);
  }
  l->failure[task] = failure;
}

static void part_task(void *argument, int64_t task, int32_t worker) {
  launch *l = argument;
  const bincount_kernel *kernel = l->kernel;
  const bincount_row row = find_row(l, l->row);
  cpu_index_failure failure = {INT64_MAX, 0, 0};
  const int64_t tasks = cpu_min(kernel->parts, MOST_TASKS);
  const int64_t end = (task + 1) * kernel->parts / tasks;
  (void)worker;
  for (int64_t p = task * kernel->parts / tasks; p < end; p++)
    count_part(kernel, &row, p, l->memory + p * kernel->stored_bins, &failure);
  cpu_index_note(&l->failure[task], failure.position, failure.index, failure.offset);
}

/* A range of the bins of a row in parts. */
static void join_task(void *argument, int64_t task, int32_t worker) {
  launch *l = argument;
  const bincount_kernel *kernel = l->kernel;
  const bincount_row row = find_row(l, l->row);
  const int64_t first = task * BLOCK, end = cpu_min(first + BLOCK, kernel->bins);
  (void)worker;
  for (int64_t p = 1; p < kernel->parts; p++)
    add_part(kernel, l->memory, l->memory + p * kernel->stored_bins, first, end);
  store(kernel, &row, l->memory, first, end);
}

static void run_by_parts(launch *l) {
  const bincount_kernel *kernel = l->kernel;
  for (l->row = 0; l->row < kernel->row_count; l->row++) {
    cpu_parallel(kernel->head.device, cpu_min(kernel->parts, MOST_TASKS), part_task, l);
    cpu_parallel(kernel->head.device, cpu_divide_up(kernel->bins, BLOCK), join_task, l);
  }
}

static compute_status bincount_run(const cpu_kernel *head, void *const *pointers) {
  const bincount_kernel *kernel = (const bincount_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->row_count == 0 || kernel->bins == 0) return COMPUTE_OK;
  const uint64_t workers = kernel->tasks == 1 ? 1 : (uint64_t)device->threads;
  const uint64_t histograms =
      kernel->by_parts ? (uint64_t)kernel->parts : (uint64_t)kernel->histograms * workers;
  uint64_t bytes;
  if (__builtin_mul_overflow(histograms, (uint64_t)kernel->stored_bins * sizeof(bin), &bytes))
    bytes = UINT64_MAX;
  launch l = {.kernel = kernel, .pointers = pointers};
  l.memory = bytes == UINT64_MAX ? NULL : cpu_workspace_acquire(device, bytes);
  if (!l.memory) return cpu_out_of_memory(device, bytes);
  for (int32_t i = 0; i < MOST_TASKS; i++) l.failure[i].position = INT64_MAX;
  if (kernel->by_parts)
    run_by_parts(&l);
  else
    cpu_parallel(device, kernel->tasks, row_task, &l);
  cpu_workspace_return(device, l.memory);
  return cpu_index_report(device, "bincount", l.failure, MOST_TASKS, kernel->bins);
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void choose_tasks(bincount_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads;
  int64_t total;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &total)) total = INT64_MAX;
  kernel->part = cpu_max(PART, cpu_min(kernel->bins, INT64_MAX / PART_BINS) * PART_BINS);
  kernel->part = cpu_max(1, cpu_min(kernel->part, kernel->length));
  kernel->parts = cpu_max(1, cpu_divide_up(kernel->length, kernel->part));
  kernel->histograms = kernel->parts > 1 ? 2 : 1;
  kernel->stored_bins = cpu_round_up(kernel->bins, 64 / (int64_t)sizeof(bin));
  kernel->tasks = cpu_min(cpu_min(threads * TASKS_PER_THREAD, MOST_TASKS), total / WORK);
  kernel->tasks = threads > 1 ? cpu_max(1, cpu_min(kernel->tasks, kernel->row_count)) : 1;
  kernel->by_parts = threads > 1 && kernel->parts > 1 && kernel->row_count < threads;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  bincount_kernel *kernel = (bincount_kernel *)head;
  const compute_operand *values = &descriptor->inputs[VALUES];
  const int32_t last = descriptor->rank - 1;
  kernel->length = compute_bincount_of(descriptor)->axis_size;
  kernel->bins = descriptor->size[last];
  kernel->step = values->stride[last];
  kernel->wide = values->dtype == COMPUTE_I64;
  kernel->result_step = descriptor->outputs[0].stride[last];
  kernel->direct = true;
  kernel->dtype = COMPUTE_I64;
  if (descriptor->input_count == 2) {
    kernel->dtype = descriptor->inputs[WEIGHTS].dtype;
    kernel->weight_step = descriptor->inputs[WEIGHTS].stride[last];
    kernel->weights = kernel->dtype == COMPUTE_F64 ? WEIGHTS_F64 : WEIGHTS_F32;
    kernel->direct = kernel->dtype == COMPUTE_F64 || kernel->dtype == COMPUTE_F32;
  }
  cpu_nest_begin(&kernel->rows, descriptor, 0, last);
  cpu_nest_collapse(&kernel->rows);
  cpu_nest_finish(&kernel->rows);
  if (!cpu_nest_count(&kernel->rows, kernel->rows.rank, &kernel->row_count))
    return cpu_fail_overflow(head);
  if (kernel->row_count > 0 && kernel->bins > 0) choose_tasks(kernel);
  snprintf(kernel->head.description, sizeof kernel->head.description, "bincount of %lld bins%s",
           (long long)kernel->bins, kernel->by_parts ? ", rows in parts" : ", a row at a time");
  return COMPUTE_OK;
}

const cpu_kind cpu_bincount_kind = {
    .name = "bincount", .bytes = sizeof(bincount_kernel), .prepare = prepare, .run = bincount_run};
