/* SPDX-License-Identifier: MIT */
/* TREES: ensembles of decision trees.
 *
 * A task has a chunk of rows. Its columns are packed into blocks of rows, columns first. A group of
 * trees stays in the caches while all blocks of the chunk walk through it. Few rows, and rows with
 * very many columns or targets, go one by one. Every row meets the trees in their order, so its
 * result does not depend on the way. */
#include <stdio.h>

#include "core/cpu.h"
#include "trees/isa/trees_table.h"

enum {
  X,
  NODES,
  TREES,
  VALUES,
  RESULT,
  FEW = 4,               /* rows that go one by one */
  MOST_COLUMNS = 8192,   /* of blocks */
  MOST_TARGETS = 1024,   /* of blocks */
  MOST_BLOCKS = 16,      /* of a chunk */
  CHUNK_BYTES = 1 << 20, /* of its columns and results */
  GROUP_BYTES = 1 << 17, /* of the records of a group */
  ROW_TASKS = 4          /* tasks for each thread, at most, if rows go one by one */
};

typedef struct trees_kernel {
  cpu_kernel head;
  const cpu_trees_loops *loops;
  compute_trees_attributes a;
  compute_dtype dtype;
  int64_t rows, targets;
  int64_t x_row, x_feature, y_row, y_target; /* strides in elements */
  int64_t chunk, tasks;                      /* rows of a task; 0: rows go one by one */
  uint64_t column_bytes, worker_bytes;       /* bytes of packed columns; all bytes of a worker */
} trees_kernel;

typedef struct launch {
  const trees_kernel *kernel;
  void *const *pointers;
  unsigned char *memory;
} launch;

/* ---- Columns and results --------------------------------------------------------------------- */

/* Defines pack_<type>: packs `count` rows as [columns][step]. Further rows are 0. */
#define DEFINE_PACK(type)                                                                          \
  static void pack_##type(const trees_kernel *kernel, const type *x, int64_t count, int64_t step,  \
                          type *to) {                                                              \
    const int64_t features = kernel->a.features;                                                   \
    for (int64_t f = 0; f < features; f++) {                                                       \
      type *column = to + f * step;                                                                \
      const type *from = x + f * kernel->x_feature;                                                \
      for (int64_t i = 0; i < count; i++) column[i] = from[i * kernel->x_row];                     \
      for (int64_t i = count; i < step; i++) column[i] = 0;                                        \
      if (kernel->a.columns == features) continue;                                                 \
      type *present = column + features * step;                                                    \
      for (int64_t i = 0; i < step; i++)                                                           \
        present[i] = column[i] == column[i] ? column[i] : -(type)__builtin_inf();                  \
    }                                                                                              \
  }
DEFINE_PACK(float)
DEFINE_PACK(double)

static void pack(const launch *l, int64_t row, int64_t count, int64_t step, void *to) {
  const trees_kernel *kernel = l->kernel;
  if (kernel->dtype == COMPUTE_F32)
    pack_float(kernel, (const float *)l->pointers[X] + row * kernel->x_row, count, step, to);
  else
    pack_double(kernel, (const double *)l->pointers[X] + row * kernel->x_row, count, step, to);
}

static void clear_results(const trees_kernel *kernel, double *results, int64_t count) {
  const double none = kernel->a.combine == COMPUTE_COMBINE_SUM ? 0 : __builtin_nan("");
  for (int64_t i = 0; i < count; i++) results[i] = none;
}

/* Stores `count` rows of results [targets][step]. NaN of MIN and MAX is a target without values. */
static void store(const launch *l, int64_t row, int64_t count, int64_t step,
                  const double *results) {
  const trees_kernel *kernel = l->kernel;
  const bool sums = kernel->a.combine == COMPUTE_COMBINE_SUM;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < kernel->targets; k++) {
      const int64_t at = (row + i) * kernel->y_row + k * kernel->y_target;
      double y = results[k * step + i];
      if (!sums && y != y) y = 0;
      if (kernel->dtype == COMPUTE_F32)
        ((float *)l->pointers[RESULT])[at] = (float)y;
      else
        ((double *)l->pointers[RESULT])[at] = y;
    }
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static cpu_trees all_trees(const launch *l) {
  const trees_kernel *kernel = l->kernel;
  return (cpu_trees){.nodes = l->pointers[NODES],
                     .values = l->pointers[VALUES],
                     .heads = l->pointers[TREES],
                     .end = kernel->a.trees,
                     .targets = kernel->targets,
                     .combine = kernel->a.combine};
}

/* The end of the group that starts at tree `first`. */
static int64_t end_group(const trees_kernel *kernel, const int64_t *heads, int64_t first) {
  const int64_t most = GROUP_BYTES / 8 / (int64_t)kernel->a.words;
  int64_t end = first + 1;
  while (end < kernel->a.trees &&
         heads[end * COMPUTE_TREES_HEAD] - heads[first * COMPUTE_TREES_HEAD] < most)
    end++;
  return end;
}

static void chunk_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const trees_kernel *kernel = l->kernel;
  unsigned char *memory = l->memory + (uint64_t)worker * kernel->worker_bytes;
  const int64_t first = task * kernel->chunk, step = CPU_TREES_ROWS;
  const int64_t count = cpu_min(kernel->chunk, kernel->rows - first);
  const int64_t blocks = cpu_divide_up(count, step);
  const uint64_t block_bytes = kernel->column_bytes / (uint64_t)(kernel->chunk / step);
  double *results = (double *)(memory + kernel->column_bytes);
  for (int64_t b = 0; b < blocks; b++)
    pack(l, first + b * step, cpu_min(step, count - b * step), step,
         memory + (uint64_t)b * block_bytes);
  clear_results(kernel, results, blocks * step * kernel->targets);
  cpu_trees trees = all_trees(l);
  const int64_t end = trees.end;
  for (trees.first = 0; trees.first < end; trees.first = trees.end) {
    trees.end = end_group(kernel, trees.heads, trees.first);
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t rows = cpu_round_up(cpu_min(step, count - b * step), 8);
      (kernel->a.words == 1 ? kernel->loops->block : kernel->loops->wide_block)(
          &trees, memory + (uint64_t)b * block_bytes, rows, results + b * step * kernel->targets);
    }
  }
  for (int64_t b = 0; b < blocks; b++)
    store(l, first + b * step, cpu_min(step, count - b * step), step,
          results + b * step * kernel->targets);
}

static void row_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const trees_kernel *kernel = l->kernel;
  unsigned char *memory = l->memory + (uint64_t)worker * kernel->worker_bytes;
  double *results = (double *)(memory + kernel->column_bytes);
  const cpu_trees trees = all_trees(l);
  const int64_t end = (task + 1) * kernel->rows / kernel->tasks;
  for (int64_t row = task * kernel->rows / kernel->tasks; row < end; row++) {
    pack(l, row, 1, 1, memory);
    clear_results(kernel, results, kernel->targets);
    (kernel->a.words == 1 ? kernel->loops->row : kernel->loops->wide_row)(&trees, memory, results);
    store(l, row, 1, 1, results);
  }
}

static compute_status run(const cpu_kernel *head, void *const *pointers) {
  const trees_kernel *kernel = (const trees_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->rows == 0 || kernel->targets == 0) return COMPUTE_OK;
  const uint64_t workers = kernel->tasks > 1 ? (uint64_t)device->threads : 1;
  launch l = {kernel, pointers, cpu_workspace_acquire(device, workers * kernel->worker_bytes)};
  if (!l.memory) return cpu_out_of_memory(device, workers * kernel->worker_bytes);
  cpu_parallel(device, kernel->tasks, kernel->chunk ? chunk_task : row_task, &l);
  cpu_workspace_return(device, l.memory);
  return COMPUTE_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Chunks are large enough to use a group of trees often, and small enough for all threads. */
static void choose_tasks(trees_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads, step = CPU_TREES_ROWS;
  const uint64_t element = cpu_dtype_size(kernel->dtype);
  const uint64_t row_columns = (uint64_t)kernel->a.columns * element;
  const uint64_t row_results = (uint64_t)kernel->targets * sizeof(double);
  const bool alone =
      kernel->rows < FEW || kernel->a.columns > MOST_COLUMNS || kernel->targets > MOST_TARGETS;
  int64_t rows = 1;
  if (!alone) {
    const int64_t most = (int64_t)(CHUNK_BYTES / (row_columns + row_results)) / step;
    const int64_t fair = cpu_divide_up(cpu_divide_up(kernel->rows, threads), step);
    rows = step * cpu_max(1, cpu_min(MOST_BLOCKS, cpu_min(most, fair)));
    kernel->chunk = rows;
  }
  kernel->tasks = alone ? cpu_min(kernel->rows, threads > 1 ? threads * ROW_TASKS : 1)
                        : cpu_divide_up(kernel->rows, rows);
  kernel->column_bytes = cpu_whole_lines(row_columns * (uint64_t)rows);
  kernel->worker_bytes = cpu_whole_lines(kernel->column_bytes + row_results * (uint64_t)rows) + 64;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  trees_kernel *kernel = (trees_kernel *)head;
  const compute_operand *x = &descriptor->inputs[X], *y = &descriptor->outputs[0];
  kernel->a = *compute_trees_of(descriptor);
  kernel->dtype = descriptor->accumulate;
  kernel->loops = CPU_PICK_FLOAT(head->device->isa, cpu_trees, descriptor->accumulate);
  kernel->rows = descriptor->size[0];
  kernel->targets = descriptor->size[1];
  kernel->x_row = x->stride[0];
  kernel->x_feature = x->stride[1];
  kernel->y_row = y->stride[0];
  kernel->y_target = y->stride[1];
  choose_tasks(kernel);
  snprintf(head->description, sizeof head->description, "%lld trees, %s, %s",
           (long long)kernel->a.trees, head->device->isa->name,
           kernel->chunk ? "eight rows together" : "sixteen trees together");
  return COMPUTE_OK;
}

const cpu_kind cpu_trees_kind = {
    .name = "trees", .bytes = sizeof(trees_kernel), .prepare = prepare, .run = run};
