/* SPDX-License-Identifier: MIT */
/* SCAN: running sums, products, maxima and minima along the last dimension.
 *
 * Rows are processed one by one if their elements are contiguous, or several neighbouring rows at
 * once ("wide") if those are. Every row is divided into blocks of a fixed length. A result is the
 * prefix fold within a block, combined with the folds of the blocks before it, which are combined
 * in order. So the bits do not depend on which thread computes which block. Threads share whole
 * groups of rows if there are many, otherwise blocks: once for the blocks' folds, again for the
 * results. */
#include <stdio.h>
#include <string.h>

#include "program/program.h"
#include "row/isa/row_table.h"
#include "core/nest.h"

enum {
  SOURCE = 0,
  RESULT = 1,
  NARROWEST = 8, /* neighbouring rows that are always processed together, and … */
  STACK = 128,   /* … the length up to which fewer are */
  WIDEST = CPU_SCAN_BLOCK,
  AHEAD = 4,      /* prefetch distance, in steps of several rows */
  LINE = 64,      /* bytes of a cache line */
  WORK = 1 << 14, /* with fewer elements, another thread does not pay */
  TASKS_PER_THREAD = 4
};

typedef struct scan_kernel {
  cpu_kernel head;
  const cpu_scan_loops *loops;
  cpu_nest rows;
  compute_dtype type, dtype[2];
  uint32_t element, size[2];
  int64_t length, step[2]; /* along a row, in the direction of the scan */
  int64_t start[2];        /* offset of the row's first element in that direction */
  bool exclusive, wide, split;
  bool large; /* operands exceed the caches */
  /* Loops for whole short rows, or whole stacks of few neighbouring ones; else NULL. */
  void (*lines)(const cpu_scan_lines *lines);
  bool direct[2];
  int64_t width, groups_per_line, groups, row_count, blocks, tasks;
} scan_kernel;

/* A worker's memory. */
typedef struct scan_buffers {
  _Alignas(64) unsigned char source[CPU_SCAN_BLOCK * 8], result[CPU_SCAN_BLOCK * 8];
  _Alignas(64) unsigned char local[CPU_SCAN_BLOCK * 8], other[CPU_SCAN_BLOCK * 8];
  _Alignas(64) unsigned char carry[WIDEST * 8];
} scan_buffers;

typedef struct launch {
  const scan_kernel *kernel;
  void *const *pointers;
  scan_buffers *buffers; /* one per worker */
  unsigned char *folds;  /* if split: the fold of every group and block, later the fold of
                          * everything before it */
} launch;

/* Several neighbouring rows, or one. */
typedef struct group {
  const unsigned char *source;
  unsigned char *result;
  int64_t count;
} group;

static group find_group(const launch *l, int64_t number) {
  const scan_kernel *kernel = l->kernel;
  const cpu_nest *rows = &kernel->rows;
  cpu_walk walk;
  cpu_walk_start(rows, rows->rank - 1, number / kernel->groups_per_line, &walk);
  const int64_t first = number % kernel->groups_per_line * kernel->width;
  int64_t at[2];
  for (int o = 0; o < 2; o++)
    at[o] = (walk.offset[o] + first * cpu_nest_step(rows, o) + kernel->start[o]) *
            (int64_t)kernel->size[o];
  return (group){(const unsigned char *)l->pointers[SOURCE] + at[SOURCE],
                 (unsigned char *)l->pointers[RESULT] + at[RESULT],
                 cpu_min(kernel->width, cpu_nest_length(rows) - first)};
}

/* ---- Converting ---------------------------------------------------------------------------- */

static const void *read(const scan_kernel *kernel, const unsigned char *from, int64_t stride,
                        int64_t count, scan_buffers *b) {
  if (kernel->direct[SOURCE]) return from;
  const cpu_tile_table *tile = kernel->head.device->isa->tile;
  const cpu_type own = cpu_type_of(kernel->dtype[SOURCE]), wanted = cpu_type_of(kernel->type);
  tile->load[kernel->dtype[SOURCE]](count, own == wanted ? b->source : b->other, from, stride);
  if (own != wanted) tile->cast[own][wanted](count, b->source, b->other);
  return b->source;
}

static void write(const scan_kernel *kernel, unsigned char *to, int64_t stride, int64_t count,
                  scan_buffers *b) {
  if (kernel->direct[RESULT]) return;
  const cpu_tile_table *tile = kernel->head.device->isa->tile;
  const cpu_type own = cpu_type_of(kernel->dtype[RESULT]), made = cpu_type_of(kernel->type);
  if (own != made) tile->narrow[made][kernel->dtype[RESULT]](count, b->other, b->result);
  tile->store[kernel->dtype[RESULT]](count, to, stride, own == made ? b->result : b->other);
}

/* ---- Blocks -------------------------------------------------------------------------------- */

static int64_t block_length(const scan_kernel *kernel, int64_t block) {
  return cpu_min(CPU_SCAN_BLOCK, kernel->length - block * CPU_SCAN_BLOCK);
}

/* Leaves the block's fold in `local` (wide) or at its end; stores results if `store`. */
static const unsigned char *do_row(const launch *l, const group *g, int64_t block, bool store,
                                   scan_buffers *b) {
  const scan_kernel *kernel = l->kernel;
  const int64_t count = block_length(kernel, block), first = block * CPU_SCAN_BLOCK;
  const int64_t *step = kernel->step;
  const unsigned char *from = g->source + first * step[SOURCE] * (int64_t)kernel->size[SOURCE];
  kernel->loops->local(b->local, read(kernel, from, step[SOURCE], count, b), count);
  if (store) {
    unsigned char *to = g->result + first * step[RESULT] * (int64_t)kernel->size[RESULT];
    unsigned char *made = kernel->direct[RESULT] ? to : b->result;
    kernel->loops->finish(made, b->carry, b->local, count, kernel->exclusive);
    if (kernel->exclusive && block == 0) kernel->loops->identity(made);
    write(kernel, to, step[RESULT], count, b);
  }
  return b->local + (count - 1) * (int64_t)kernel->element;
}

/* Steps of neighbouring rows are too far apart for the hardware prefetcher. */
static void prefetch_step(const scan_kernel *kernel, const unsigned char *from, int64_t count) {
  for (int64_t at = 0; at < count * (int64_t)kernel->size[SOURCE]; at += LINE)
    __builtin_prefetch(from + at);
}

static const unsigned char *do_wide(const launch *l, const group *g, int64_t block, bool store,
                                    scan_buffers *b) {
  const scan_kernel *kernel = l->kernel;
  const int64_t count = block_length(kernel, block), first = block * CPU_SCAN_BLOCK;
  const int64_t source_step = cpu_nest_step(&kernel->rows, SOURCE);
  const int64_t result_step = cpu_nest_step(&kernel->rows, RESULT);
  kernel->loops->clear(b->local, g->count);
  for (int64_t i = first; i < first + count; i++) {
    const unsigned char *from =
        g->source + i * kernel->step[SOURCE] * (int64_t)kernel->size[SOURCE];
    unsigned char *to = g->result + i * kernel->step[RESULT] * (int64_t)kernel->size[RESULT];
    const bool streamed =
        store && kernel->large && kernel->direct[RESULT] && ((uintptr_t)to & (LINE - 1)) == 0;
    if (kernel->large && kernel->direct[SOURCE] && i + AHEAD < kernel->length)
      prefetch_step(kernel, from + AHEAD * kernel->step[SOURCE] * (int64_t)kernel->size[SOURCE],
                    g->count);
    const void *source = read(kernel, from, source_step, g->count, b);
    unsigned char *made = store && kernel->direct[RESULT] && !streamed ? to : b->result;
    kernel->loops->step(made, b->carry, b->local, source, g->count, kernel->exclusive);
    if (!store) continue;
    for (int64_t r = 0; kernel->exclusive && i == 0 && r < g->count; r++)
      kernel->loops->identity(made + r * (int64_t)kernel->element);
    if (streamed)
      kernel->head.device->isa->tile->stream(to, made, g->count * (int64_t)kernel->element);
    else
      write(kernel, to, result_step, g->count, b);
  }
  return b->local;
}

static const unsigned char *do_block(const launch *l, const group *g, int64_t block, bool store,
                                     scan_buffers *b) {
  return l->kernel->wide ? do_wide(l, g, block, store, b) : do_row(l, g, block, store, b);
}

/* ---- Tasks --------------------------------------------------------------------------------- */

/* Short rows, or stacks, that follow each other: groups first … end − 1. Returns the next one. */
static int64_t do_lines(const launch *l, int64_t first, int64_t end) {
  const scan_kernel *kernel = l->kernel;
  const cpu_nest *rows = &kernel->rows;
  const int32_t d = rows->rank - 1 - kernel->wide; /* the dimension of rows, or of stacks */
  const int64_t left = d < 0 ? 1 : rows->size[d] - first % rows->size[d];
  const group g = find_group(l, first);
  cpu_scan_lines lines = {.source = g.source,
                          .result = g.result,
                          .count = cpu_min(left, end - first),
                          .length = kernel->length,
                          .width = g.count,
                          .exclusive = kernel->exclusive};
  for (int o = 0; o < 2; o++) {
    lines.step[o] = kernel->step[o];
    lines.apart[o] = d < 0 ? 0 : rows->stride[o][d];
  }
  kernel->lines(&lines);
  return first + lines.count;
}

static void group_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const scan_kernel *kernel = l->kernel;
  scan_buffers *b = &l->buffers[worker];
  const int64_t end = (task + 1) * kernel->groups / kernel->tasks;
  int64_t number = task * kernel->groups / kernel->tasks;
  while (kernel->lines && number < end) number = do_lines(l, number, end);
  for (; number < end; number++) {
    const group g = find_group(l, number);
    kernel->loops->clear(b->carry, g.count);
    for (int64_t block = 0; block < kernel->blocks; block++)
      kernel->loops->combine(b->carry, do_block(l, &g, block, true, b), g.count);
  }
  if (kernel->large) cpu_stream_fence();
}

static unsigned char *fold_of(const launch *l, int64_t number, int64_t block) {
  const scan_kernel *kernel = l->kernel;
  return l->folds + (number * kernel->blocks + block) * kernel->width * (int64_t)kernel->element;
}

static void fold_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const scan_kernel *kernel = l->kernel;
  const int64_t number = task / kernel->blocks, block = task % kernel->blocks;
  const group g = find_group(l, number);
  scan_buffers *b = &l->buffers[worker];
  kernel->loops->clear(b->carry, g.count);
  const unsigned char *fold = do_block(l, &g, block, false, b);
  memcpy(fold_of(l, number, block), fold, (size_t)(g.count * (int64_t)kernel->element));
}

static void finish_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const scan_kernel *kernel = l->kernel;
  const int64_t number = task / kernel->blocks, block = task % kernel->blocks;
  const group g = find_group(l, number);
  scan_buffers *b = &l->buffers[worker];
  memcpy(b->carry, fold_of(l, number, block), (size_t)(g.count * (int64_t)kernel->element));
  do_block(l, &g, block, true, b);
  if (kernel->large) cpu_stream_fence();
}

/* Replaces every block's fold by the fold of the blocks before it. */
static void chain_folds(const launch *l) {
  const scan_kernel *kernel = l->kernel;
  scan_buffers *b = l->buffers;
  const size_t bytes = (size_t)(kernel->width * (int64_t)kernel->element);
  for (int64_t number = 0; number < kernel->groups; number++) {
    kernel->loops->clear(b->carry, kernel->width);
    for (int64_t block = 0; block < kernel->blocks; block++) {
      unsigned char *fold = fold_of(l, number, block);
      memcpy(b->local, b->carry, bytes);
      kernel->loops->combine(b->carry, fold, kernel->width);
      memcpy(fold, b->local, bytes);
    }
  }
}

static compute_status scan_run(const cpu_kernel *head, void *const *pointers) {
  const scan_kernel *kernel = (const scan_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->row_count == 0 || kernel->length == 0) return COMPUTE_OK;
  const int64_t shared = kernel->split ? kernel->groups * kernel->blocks : kernel->tasks;
  const uint64_t buffers = sizeof(scan_buffers) * (uint64_t)(shared > 1 ? device->threads : 1);
  const uint64_t folds = kernel->split ? (uint64_t)(shared * kernel->width) * kernel->element : 0;
  unsigned char *memory = cpu_workspace_acquire(device, buffers + folds);
  if (!memory) return cpu_out_of_memory(device, buffers + folds);
  launch l = {kernel, pointers, (scan_buffers *)(void *)memory, memory + buffers};
  if (kernel->split) {
    cpu_parallel(device, shared, fold_task, &l);
    chain_folds(&l);
    cpu_parallel(device, shared, finish_task, &l);
  } else {
    cpu_parallel(device, kernel->tasks, group_task, &l);
  }
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static void choose_direction(scan_kernel *kernel) {
  int single = 0, wide = 0;
  for (int o = 0; o < 2; o++) {
    single += kernel->step[o] == 1;
    wide += cpu_nest_step(&kernel->rows, o) == 1;
  }
  const int64_t rows = cpu_nest_length(&kernel->rows);
  kernel->wide = wide > single && (rows >= NARROWEST || (rows > 1 && kernel->length <= STACK));
  for (int o = 0; o < 2; o++)
    kernel->direct[o] = kernel->dtype[o] == kernel->type &&
                        (kernel->wide ? cpu_nest_step(&kernel->rows, o) : kernel->step[o]) == 1;
}

static void choose_tasks(scan_kernel *kernel) {
  const int64_t threads = kernel->head.device->threads, rows = cpu_nest_length(&kernel->rows);
  int64_t total;
  if (__builtin_mul_overflow(kernel->row_count, kernel->length, &total)) total = INT64_MAX;
  kernel->large = (uint64_t)total > kernel->head.device->share_bytes / 2 / kernel->size[RESULT];
  const int64_t wanted = cpu_max(1, cpu_min(threads * TASKS_PER_THREAD, total / WORK));
  const int64_t lines = kernel->row_count / rows;
  kernel->width = 1;
  if (kernel->wide) {
    const int64_t share = cpu_divide_up(rows, cpu_divide_up(wanted, lines));
    kernel->width = cpu_min(rows, cpu_min(WIDEST, cpu_max((share + 15) / 16 * 16, 64)));
  }
  kernel->groups_per_line = cpu_divide_up(rows, kernel->width);
  kernel->groups = lines * kernel->groups_per_line;
  kernel->blocks = cpu_divide_up(kernel->length, CPU_SCAN_BLOCK);
  kernel->tasks = threads > 1 ? cpu_min(kernel->groups, wanted) : 1;
  kernel->split = threads > 1 && kernel->groups < threads && kernel->blocks > 1 && wanted > 1;
}

static void choose_lines(scan_kernel *kernel) {
  const bool same = kernel->dtype[SOURCE] == kernel->type && kernel->dtype[RESULT] == kernel->type;
  if (!same || kernel->split) return;
  if (!kernel->wide && kernel->length <= CPU_SCAN_SHORT)
    kernel->lines = kernel->loops->rows;
  else if (kernel->wide && kernel->direct[SOURCE] && kernel->direct[RESULT] &&
           kernel->groups_per_line == 1 &&
           kernel->width * (int64_t)kernel->element <= CPU_SCAN_STACK_BYTES && kernel->blocks == 1)
    kernel->lines = kernel->loops->stacks;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  scan_kernel *kernel = (scan_kernel *)head;
  static const char *const names[] = {"sum", "product", "maximum", "minimum"};
  cpu_device *device = kernel->head.device;
  const int32_t rank = descriptor->rank;
  const compute_dtype type = descriptor->accumulate;
  kernel->type = type;
  kernel->element = cpu_dtype_size(type);
  kernel->loops =
      &CPU_PICK_NUMBER(device->isa, cpu_scan, type)->fold[compute_scan_of(descriptor)->combine];
  kernel->exclusive = compute_scan_of(descriptor)->exclusive;
  kernel->length = descriptor->size[rank - 1];
  const compute_operand *const operands[] = {&descriptor->inputs[0], &descriptor->outputs[0]};
  for (int o = 0; o < 2; o++) {
    const int64_t stride = operands[o]->stride[rank - 1];
    kernel->dtype[o] = operands[o]->dtype;
    kernel->size[o] = cpu_dtype_size(operands[o]->dtype);
    kernel->step[o] = compute_scan_of(descriptor)->reverse ? -stride : stride;
    kernel->start[o] = compute_scan_of(descriptor)->reverse && kernel->length > 0
                           ? (kernel->length - 1) * stride
                           : 0;
    if (kernel->length == 1) kernel->step[o] = 1;
  }
  cpu_nest_begin(&kernel->rows, descriptor, 0, rank - 1);
  cpu_nest_sort(&kernel->rows, RESULT);
  cpu_nest_collapse(&kernel->rows);
  cpu_nest_finish(&kernel->rows);
  if (!cpu_nest_count(&kernel->rows, kernel->rows.rank, &kernel->row_count))
    return cpu_fail_overflow(head);
  if (kernel->row_count > 0 && kernel->length > 0) {
    choose_direction(kernel);
    choose_tasks(kernel);
    choose_lines(kernel);
  }
  snprintf(kernel->head.description, sizeof kernel->head.description, "running %s %s, %s%s",
           names[compute_scan_of(descriptor)->combine], device->isa->name,
           kernel->wide ? "neighbouring rows" : "along rows",
           kernel->split ? ", blocks in parallel" : "");
  return COMPUTE_OK;
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_dtype type = descriptor->accumulate;
  if (descriptor->rank < 1) return "there is no dimension to run along";
  if ((unsigned)compute_scan_of(descriptor)->combine > COMPUTE_COMBINE_MIN)
    return "no such combination";
  if (type != COMPUTE_F64 && type != COMPUTE_F32 && type != COMPUTE_I64 && type != COMPUTE_I32)
    return "running sums are f64, f32, i64 or i32";
  return NULL;
}

const cpu_kind cpu_scan_kind = {.name = "scan",
                                .refuse = refuse_descriptor,
                                .bytes = sizeof(scan_kernel),
                                .prepare = prepare,
                                .run = scan_run};
