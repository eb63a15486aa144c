/* SPDX-License-Identifier: MIT */
/* LINALG: dense linear algebra on batches of matrices.
 *
 * Small matrices take lanes of vectors, so many at once; larger ones are alone. Threads share the
 * batch, or the products and rotations of one large matrix. */
#include <stdio.h>

#include "core/cpu.h"
#include "core/nest.h"
#include "linalg/isa/linalg_table.h"

enum {
  LEFT = 0,
  MOST_TOGETHER =
      64, /* rows and columns of matrices that share vectors, so that caches hold them */
  MOST_EXPONENT = 32,
  MOST_VALUES = 16, /* the smaller side, for singular values; then sweeps are faster */
  WORK = 1 << 13,   /* with fewer operations, another thread does not pay */
  TASKS_PER_THREAD = 4
};

typedef struct linalg_kernel {
  cpu_kernel head;
  const cpu_linalg_loops *loops;
  cpu_linalg_problem problem;
  cpu_nest batch;
  bool has_right, together;
  uint32_t element;
  int64_t matrices, width, groups, tasks; /* width: matrices of a group */
  uint64_t worker_bytes;
} linalg_kernel;

typedef struct launch {
  const linalg_kernel *kernel;
  void *const *pointers;
  unsigned char *memory;
  const cpu_linalg_crew *crew; /* or NULL */
} launch;

static void share(const cpu_linalg_crew *crew, compute_task task, void *argument) {
  cpu_parallel(crew->device, crew->tasks, task, argument);
}

static void *element_at(const linalg_kernel *kernel, void *data, int64_t at) {
  return (unsigned char *)data + at * (int64_t)kernel->element;
}

static void group_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const linalg_kernel *kernel = l->kernel;
  const int result = kernel->has_right ? 2 : 1;
  void *memory = l->memory + (uint64_t)worker * kernel->worker_bytes;
  const int64_t first = task * kernel->groups / kernel->tasks;
  const int64_t end = (task + 1) * kernel->groups / kernel->tasks;
  cpu_walk walk;
  if (first < end) cpu_walk_start(&kernel->batch, kernel->batch.rank, first * kernel->width, &walk);
  for (int64_t g = first; g < end; g++) {
    cpu_linalg_matrices m = {
        .count = (int32_t)cpu_min(kernel->width, kernel->matrices - g * kernel->width),
        .crew = l->crew};
    for (int32_t i = 0; i < m.count; i++) {
      m.a[i] = element_at(kernel, l->pointers[LEFT], walk.offset[LEFT]);
      if (kernel->has_right) m.b[i] = element_at(kernel, l->pointers[1], walk.offset[1]);
      m.y[i] = element_at(kernel, l->pointers[result], walk.offset[result]);
      cpu_walk_next(&kernel->batch, kernel->batch.rank, &walk);
    }
    if (kernel->together)
      kernel->loops->together(&kernel->problem, &m, memory);
    else
      kernel->loops->alone(&kernel->problem, &m, memory);
  }
}

static compute_status run(const cpu_kernel *head, void *const *pointers) {
  const linalg_kernel *kernel = (const linalg_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->matrices == 0) return COMPUTE_OK;
  const uint64_t workers = kernel->tasks > 1 ? (uint64_t)device->threads : 1;
  const cpu_linalg_crew crew = {device, device->threads, share};
  /* Threads share the batch, or else one matrix. */
  const bool shares = kernel->tasks == 1 && !kernel->together && device->threads > 1;
  launch l = {kernel, pointers, cpu_workspace_acquire(device, workers * kernel->worker_bytes),
              shares ? &crew : NULL};
  if (!l.memory) return cpu_out_of_memory(device, workers * kernel->worker_bytes);
  cpu_parallel(device, kernel->tasks, group_task, &l);
  cpu_workspace_return(device, l.memory);
  return COMPUTE_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static bool is_small(const cpu_linalg_problem *p) {
  const int64_t most = cpu_max(p->rows, p->columns), least = cpu_min(p->rows, p->columns);
  switch (p->function) {
  case COMPUTE_LINALG_EIG: return false;
  case COMPUTE_LINALG_EXPM: return most <= MOST_EXPONENT;
  case COMPUTE_LINALG_SVD: return most <= MOST_TOGETHER && least <= MOST_VALUES;
  default: return most <= MOST_TOGETHER;
  }
}

static void choose_tasks(linalg_kernel *kernel) {
  const cpu_linalg_problem *p = &kernel->problem;
  const int64_t threads = kernel->head.device->threads;
  const int64_t numbers = kernel->loops->numbers(p) + 64;
  kernel->together = is_small(p);
  kernel->width = kernel->together ? kernel->loops->lanes : 1;
  kernel->groups = cpu_divide_up(kernel->matrices, kernel->width);
  int64_t total;
  if (__builtin_mul_overflow(kernel->groups, numbers * (4 + p->rows / 4), &total))
    total = INT64_MAX;
  const int64_t wanted = cpu_max(1, cpu_min(threads * TASKS_PER_THREAD, total / WORK));
  kernel->tasks = threads > 1 ? cpu_min(kernel->groups, wanted) : 1;
  kernel->worker_bytes =
      cpu_whole_lines((uint64_t)(numbers * kernel->width) * kernel->element) + 64;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  linalg_kernel *kernel = (linalg_kernel *)head;
  const compute_linalg_attributes *a = compute_linalg_of(descriptor);
  const int32_t row = descriptor->rank - 2, column = descriptor->rank - 1;
  const compute_operand *left = &descriptor->inputs[LEFT], *result = &descriptor->outputs[0];
  kernel->loops = CPU_PICK_FLOAT(head->device->isa, cpu_linalg, descriptor->accumulate);
  kernel->element = cpu_dtype_size(descriptor->accumulate);
  kernel->has_right = compute_linalg_has_right(a);
  kernel->problem = (cpu_linalg_problem){.function = a->function,
                                         .flags = a->flags,
                                         .rows = a->rows,
                                         .columns = a->columns,
                                         .right = a->right,
                                         .a_row = left->stride[row],
                                         .a_column = left->stride[column],
                                         .step = result->stride[column]};
  if (kernel->has_right) {
    kernel->problem.b_row = descriptor->inputs[1].stride[row];
    kernel->problem.b_column = descriptor->inputs[1].stride[column];
  }
  cpu_nest_begin(&kernel->batch, descriptor, 0, row);
  cpu_nest_sort(&kernel->batch, kernel->has_right ? 2 : 1);
  cpu_nest_collapse(&kernel->batch);
  cpu_nest_finish(&kernel->batch);
  if (!cpu_nest_count(&kernel->batch, kernel->batch.rank, &kernel->matrices))
    return cpu_fail_overflow(head);
  choose_tasks(kernel);
  snprintf(head->description, sizeof head->description, "%lldx%lld %s, %s", (long long)a->rows,
           (long long)a->columns, head->device->isa->name,
           kernel->together ? "a matrix in each lane" : "matrix by matrix");
  return COMPUTE_OK;
}

const cpu_kind cpu_linalg_kind = {
    .name = "linalg", .bytes = sizeof(linalg_kernel), .prepare = prepare, .run = run};
