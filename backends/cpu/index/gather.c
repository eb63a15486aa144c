/* SPDX-License-Identifier: MIT */
/* GATHER: slices or single elements of an axis, selected by an index tensor.
 *
 * If the index is constant along some dimension, the innermost loop runs along that dimension and
 * copies whole slices, for example the rows of an embedding. Otherwise it runs along a dimension of
 * varying indices and copies single elements. Several such lines may share their indices: then
 * these are read and checked once for all of them, and neighbours are copied together. Elements are only copied, so only their size
 * matters. Indices outside the axis are skipped and reported after the launch. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/move.h"
#include "core/nest.h"
#include "index.h"

enum {
  SOURCE = 0,
  INDEX = 1,
  OUTPUT = 2,
  POSITION = 3,
  PIECE_BYTES = 1 << 16, /* longer slices are divided among threads */
  WORK_BYTES = 1 << 16,  /* with less work, another thread does not pay */
  TASKS_PER_THREAD = 4,
  MOST_TASKS = 256,
  AHEAD = 8,           /* rows */
  BLOCK = 1024,        /* indices that are read at once for several lines */
  LEAST_LINES = 2,     /* fewer lines do not repay that */
  LEAST_RUN = 8,       /* elements: shorter runs are copied by element */
  LINE = 64,           /* bytes of a cache line */
  AXIS_BYTES = 1 << 16 /* size of an axis that stays in the caches while a line of elements is
                        * selected */
};

typedef struct gather_kernel {
  cpu_kernel head;
  cpu_nest nest;
  int64_t axis_size, axis_stride, wrap; /* wrap: as in index.h */
  uint32_t bytes;                       /* of one element */
  bool wide_index;                      /* I64 */
  bool slices;                          /* the index stays the same along the last dimension */
  bool dense;                           /* slices are contiguous */
  bool shared;                          /* lines of single elements share their indices */

  /* Slices and shared indices: the second to last dimension, with `rows` of them; otherwise one
   * row, without a step. The dimensions before it are the outer ones. */
  int64_t rows, row_step[POSITION + 1];
  int32_t outer;

  int64_t count;
  int64_t piece, pieces_per_line; /* of the last dimension */
  int64_t pieces, tasks;          /* numbered by outer dimension, piece of the line, row */
} gather_kernel;

typedef struct launch {
  const gather_kernel *kernel;
  void *const *pointers;
  cpu_index_failure failure[MOST_TASKS];
} launch;

/* ---- Innermost loops ----------------------------------------------------------------------- */

/* `bytes` is a constant after inlining, so that every copy is one move. */
static inline void copy_element(unsigned char *to, const unsigned char *from, size_t bytes) {
  memcpy(to, from, bytes);
}

static inline void copy_strided(unsigned char *to, int64_t to_step, const unsigned char *from,
                                int64_t from_step, int64_t count, size_t bytes) {
  for (int64_t i = 0; i < count; i++)
    copy_element(to + i * to_step * (int64_t)bytes, from + i * from_step * (int64_t)bytes, bytes);
}

/* A slice that is not contiguous in source or target. */
static void copy_slice(const gather_kernel *kernel, unsigned char *to, const unsigned char *from,
                       int64_t count) {
  const int64_t to_step = cpu_nest_step(&kernel->nest, OUTPUT);
  const int64_t from_step = cpu_nest_step(&kernel->nest, SOURCE);
  switch (kernel->bytes) {
  case 1: copy_strided(to, to_step, from, from_step, count, 1); break;
  case 2: copy_strided(to, to_step, from, from_step, count, 2); break;
  case 4: copy_strided(to, to_step, from, from_step, count, 4); break;
  default: copy_strided(to, to_step, from, from_step, count, 8); break;
  }
}

/* One line of single elements, from the offsets `at` on. The loop uses only local variables: the
 * compiler must assume that a store of bytes changes anything else. */
static inline void copy_elements(const gather_kernel *kernel, void *const *pointers,
                                 const int64_t *at, int64_t count, cpu_index_failure *failure,
                                 bool wide, int64_t bytes) {
  const cpu_nest *nest = &kernel->nest;
  const unsigned char *source = (const unsigned char *)pointers[SOURCE] + at[SOURCE] * bytes;
  unsigned char *output = (unsigned char *)pointers[OUTPUT] + at[OUTPUT] * bytes;
  const void *indices = pointers[INDEX];
  const int64_t source_step = cpu_nest_step(nest, SOURCE) * bytes;
  const int64_t output_step = cpu_nest_step(nest, OUTPUT) * bytes;
  const int64_t axis_step = kernel->axis_stride * bytes, size = kernel->axis_size;
  const int64_t index_step = cpu_nest_step(nest, INDEX), first_index = at[INDEX];
  const int64_t wrap = kernel->wrap;
  /* A line that selects about as many elements as the axis has reads all of it, but in an order
   * that the processor cannot predict: prefetch the axis. */
  if (source_step == 0 && axis_step == bytes && size * bytes <= AXIS_BYTES && count >= size / 2)
    for (int64_t at_byte = 0; at_byte < size * bytes; at_byte += LINE)
      __builtin_prefetch(source + at_byte);
  for (int64_t i = 0; i < count; i++) {
    const int64_t index = cpu_index_read(indices, first_index + i * index_step, wide);
    const int64_t place = cpu_index_resolve(index, wrap);
    if (cpu_index_inside(place, size))
      copy_element(output + i * output_step, source + i * source_step + place * axis_step,
                   (size_t)bytes);
    else
      cpu_index_note(failure, at[POSITION] + i * cpu_nest_step(nest, POSITION), index,
                     first_index + i * index_step);
  }
}

static void copy_line(const launch *l, const int64_t *at, int64_t count,
                      cpu_index_failure *failure) {
  const gather_kernel *kernel = l->kernel;
#define CASE(wide, bytes)                                                                          \
  case (wide) << 4 | (bytes):                                                                      \
    copy_elements(kernel, l->pointers, at, count, failure, (wide), (bytes));                       \
    break
  switch ((uint32_t)kernel->wide_index << 4 | kernel->bytes) {
    CASE(0, 1);
    CASE(0, 2);
    CASE(0, 4);
    CASE(0, 8);
    CASE(1, 1);
    CASE(1, 2);
    CASE(1, 4);
    CASE(1, 8);
  }
#undef CASE
}

/* ---- Lines that share their indices -------------------------------------------------------- */

/* The elements of a block, as offsets in the source. Parts are long runs of neighbours, or elements
 * without such runs. */
typedef struct block {
  int64_t count, parts;
  int32_t places[BLOCK];
  int32_t ends[BLOCK]; /* of each part */
  bool is_run[BLOCK];
} block;

/* Adds a part of one kind; single elements continue those before them. */
static void add_part(block *b, int64_t end, bool is_run) {
  const bool more = !is_run && b->parts > 0 && !b->is_run[b->parts - 1];
  const int64_t part = more ? b->parts - 1 : b->parts++;
  b->is_run[part] = is_run;
  b->ends[part] = (int32_t)end;
}

/* Returns false if an index is outside. */
static bool read_block(const gather_kernel *kernel, const void *indices, int64_t first,
                       int64_t count, block *b) {
  const int64_t step = cpu_nest_step(&kernel->nest, INDEX);
  const int64_t source_step = cpu_nest_step(&kernel->nest, SOURCE);
  bool inside = true;
  int64_t start = 0; /* of the present run */
  b->count = count;
  b->parts = 0;
  for (int64_t i = 0; i < count; i++) {
    const int64_t index = cpu_index_read(indices, first + i * step, kernel->wide_index);
    const int64_t place = cpu_index_resolve(index, kernel->wrap);
    inside = inside && cpu_index_inside(place, kernel->axis_size);
    b->places[i] = (int32_t)(inside ? place * kernel->axis_stride + i * source_step : 0);
    if (i == 0 || b->places[i] == b->places[i - 1] + 1) continue;
    add_part(b, i, i - start >= LEAST_RUN);
    start = i;
  }
  add_part(b, count, count - start >= LEAST_RUN);
  return inside;
}

static inline void copy_places(const int32_t *places, int64_t count, unsigned char *to,
                               int64_t to_step, const unsigned char *from, size_t bytes) {
  for (int64_t i = 0; i < count; i++)
    copy_element(to + i * to_step * (int64_t)bytes, from + places[i] * (int64_t)bytes, bytes);
}

/* Inlined for each size of elements. */
static inline __attribute__((always_inline)) void copy_parts(const block *b, unsigned char *to,
                                                             int64_t step,
                                                             const unsigned char *from,
                                                             size_t bytes) {
  if (step != 1) {
    copy_places(b->places, b->count, to, step, from, bytes);
    return;
  }
  for (int64_t p = 0, first = 0; p < b->parts; first = b->ends[p++]) {
    const int64_t count = b->ends[p] - first;
    unsigned char *at = to + first * (int64_t)bytes;
    if (b->is_run[p])
      cpu_move_any(at, from + b->places[first] * (int64_t)bytes, (size_t)count * bytes);
    else
      copy_places(b->places + first, count, at, 1, from, bytes);
  }
}

static void copy_block(const gather_kernel *kernel, const block *b, unsigned char *to,
                       const unsigned char *from) {
  const int64_t step = cpu_nest_step(&kernel->nest, OUTPUT);
  switch (kernel->bytes) {
  case 1: copy_parts(b, to, step, from, 1); break;
  case 2: copy_parts(b, to, step, from, 2); break;
  case 4: copy_parts(b, to, step, from, 4); break;
  default: copy_parts(b, to, step, from, 8); break;
  }
}

/* Lines of `rows` neighbouring rows; the first is at these offsets. */
static void copy_shared(const launch *l, const int64_t *at, int64_t rows, int64_t count,
                        cpu_index_failure *failure) {
  const gather_kernel *kernel = l->kernel;
  const int64_t bytes = (int64_t)kernel->bytes;
  block b;
  b.count = b.parts = 0;
  for (int64_t first = 0; first < count; first += BLOCK) {
    int64_t from[POSITION + 1];
    const int64_t part = cpu_min(BLOCK, count - first);
    for (int32_t k = 0; k <= POSITION; k++)
      from[k] = at[k] + first * cpu_nest_step(&kernel->nest, k);
    const bool fine =
        rows >= LEAST_LINES && read_block(kernel, l->pointers[INDEX], from[INDEX], part, &b);
    for (int64_t r = 0; r < rows; r++) {
      if (fine)
        copy_block(kernel, &b, (unsigned char *)l->pointers[OUTPUT] + from[OUTPUT] * bytes,
                   (const unsigned char *)l->pointers[SOURCE] + from[SOURCE] * bytes);
      else
        copy_line(l, from, part, failure);
      for (int32_t k = 0; k <= POSITION; k++) from[k] += kernel->row_step[k];
    }
  }
}

/* ---- Launching ----------------------------------------------------------------------------- */

/* Slices of `rows` neighbouring rows; the first is at these offsets. The loop is short, and
 * prefetches the sources a few rows ahead, because the processor cannot predict the order of rows
 * of a large table. */
static void copy_rows(const launch *l, const int64_t *at, int64_t rows, int64_t count,
                      cpu_index_failure *failure) {
  const gather_kernel *kernel = l->kernel;
  const int64_t bytes = (int64_t)kernel->bytes, size = kernel->axis_size, wrap = kernel->wrap;
  const int64_t axis_step = kernel->axis_stride * bytes, index_step = kernel->row_step[INDEX];
  const int64_t source_step = kernel->row_step[SOURCE] * bytes;
  const int64_t output_step = kernel->row_step[OUTPUT] * bytes;
  const unsigned char *source = l->pointers[SOURCE]; /* NULL for a table without elements */
  if (source) source += at[SOURCE] * bytes;
  unsigned char *output = (unsigned char *)l->pointers[OUTPUT] + at[OUTPUT] * bytes;
  const void *indices = l->pointers[INDEX];
  const int64_t first = at[INDEX];
  const bool wide = kernel->wide_index, dense = kernel->dense;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t ahead = r + AHEAD < rows ? r + AHEAD : r;
    const int64_t next =
        cpu_index_resolve(cpu_index_read(indices, first + ahead * index_step, wide), wrap);
    if (cpu_index_inside(next, size))
      __builtin_prefetch(source + ahead * source_step + next * axis_step);
    const int64_t index = cpu_index_read(indices, first + r * index_step, wide);
    const int64_t place = cpu_index_resolve(index, wrap);
    if (!cpu_index_inside(place, size)) {
      cpu_index_note(failure, at[POSITION] + r * kernel->row_step[POSITION], index,
                     first + r * index_step);
      continue;
    }
    const unsigned char *from = source + r * source_step + place * axis_step;
    if (dense && count * bytes <= CPU_MOVE_MOST)
      cpu_move(output + r * output_step, from, (size_t)(count * bytes));
    else if (dense)
      memcpy(output + r * output_step, from, (size_t)(count * bytes));
    else
      copy_slice(kernel, output + r * output_step, from, count);
  }
}

static void gather_task(void *argument, int64_t task, int32_t worker) {
  launch *l = argument;
  const gather_kernel *kernel = l->kernel;
  const int64_t line = cpu_nest_length(&kernel->nest);
  const int64_t end = (task + 1) * kernel->pieces / kernel->tasks;
  int64_t p = task * kernel->pieces / kernel->tasks, row = p % kernel->rows;
  int64_t piece = p / kernel->rows % kernel->pieces_per_line;
  cpu_index_failure failure = {INT64_MAX, 0, 0};
  cpu_walk walk;
  (void)worker;
  cpu_walk_start(&kernel->nest, kernel->outer, p / kernel->rows / kernel->pieces_per_line, &walk);
  while (p < end) {
    const int64_t first = piece * kernel->piece;
    const int64_t count = cpu_min(line - first, kernel->piece);
    const int64_t rows = cpu_min(kernel->rows - row, end - p);
    int64_t at[POSITION + 1];
    for (int32_t k = 0; k <= POSITION; k++)
      at[k] = walk.offset[k] + row * kernel->row_step[k] + first * cpu_nest_step(&kernel->nest, k);
    if (kernel->slices)
      copy_rows(l, at, rows, count, &failure);
    else if (kernel->shared)
      copy_shared(l, at, rows, count, &failure);
    else
      copy_line(l, at, count, &failure);
    p += rows;
    row = 0;
    if (++piece == kernel->pieces_per_line) {
      piece = 0;
      cpu_walk_next(&kernel->nest, kernel->outer, &walk);
    }
  }
  l->failure[task] = failure;
}

static compute_status gather_run(const cpu_kernel *head, void *const *pointers) {
  const gather_kernel *kernel = (const gather_kernel *)head;
  if (kernel->count == 0) return COMPUTE_OK;
  launch l;
  l.kernel = kernel;
  l.pointers = pointers;
  cpu_parallel(head->device, kernel->tasks, gather_task, &l);
  return cpu_index_report(head->device, "gather", l.failure, kernel->tasks, kernel->axis_size);
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* The approximate cost of one element with dimension d innermost, times 64. Distant elements are on
 * separate cache lines. */
static int64_t cost_along(const cpu_nest *nest, int32_t d) {
  const int64_t line = 64 * 16 / nest->size[d];
  const int64_t from = nest->stride[SOURCE][d], to = nest->stride[OUTPUT][d];
  if (nest->stride[INDEX][d] != 0) return line + (to <= 8 ? 3 : 6) * 64;
  return from == 1 && to == 1 ? line : line + (from <= 8 && to <= 8 ? 2 : 8) * 64;
}

/* Moves a dimension along which the indices stay the same to the second to last place. */
static void find_shared(gather_kernel *kernel) {
  cpu_nest *nest = &kernel->nest;
  int32_t d = nest->rank - 2;
  while (d >= 0 && nest->stride[INDEX][d] != 0) d--;
  const double reach = (double)kernel->axis_size * fabs((double)kernel->axis_stride) +
                       BLOCK * fabs((double)cpu_nest_step(nest, SOURCE));
  kernel->shared = d >= 0 && nest->size[d] >= LEAST_LINES && reach < INT32_MAX;
  if (!kernel->shared) return;
  cpu_nest_make_last(nest, d);
  cpu_nest_make_last(nest, nest->rank - 2);
}

static void choose_order(gather_kernel *kernel) {
  cpu_nest *nest = &kernel->nest;
  int32_t best = nest->rank - 1;
  for (int32_t d = best - 1; d >= 0; d--)
    if (cost_along(nest, d) < cost_along(nest, best)) best = d;
  cpu_nest_make_last(nest, best);
  kernel->slices = cpu_nest_step(nest, INDEX) == 0;
  kernel->dense = cpu_nest_step(nest, SOURCE) == 1 && cpu_nest_step(nest, OUTPUT) == 1;
  kernel->outer = nest->rank - 1;
  kernel->rows = 1;
  if (!kernel->slices) find_shared(kernel);
  if ((!kernel->slices && !kernel->shared) || nest->rank == 1) return;
  kernel->outer--;
  kernel->rows = nest->size[kernel->outer];
  for (int32_t k = 0; k <= POSITION; k++) kernel->row_step[k] = nest->stride[k][kernel->outer];
}

static void choose_tasks(gather_kernel *kernel, int64_t threads) {
  const int64_t line = cpu_nest_length(&kernel->nest), limit = PIECE_BYTES / kernel->bytes;
  kernel->pieces_per_line = cpu_divide_up(line, limit);
  kernel->piece = cpu_divide_up(line, kernel->pieces_per_line);
  kernel->pieces = kernel->count / line * kernel->pieces_per_line;
  kernel->tasks = kernel->count / (WORK_BYTES / kernel->bytes);
  if (kernel->tasks > threads * TASKS_PER_THREAD) kernel->tasks = threads * TASKS_PER_THREAD;
  if (kernel->tasks > MOST_TASKS) kernel->tasks = MOST_TASKS;
  if (kernel->tasks > kernel->pieces) kernel->tasks = kernel->pieces;
  if (kernel->tasks < 1 || threads == 1) kernel->tasks = 1;
}

static void describe(gather_kernel *kernel) {
  char *text = kernel->head.description;
  if (kernel->slices)
    snprintf(text, sizeof kernel->head.description, "gather slices of %lld elements",
             (long long)cpu_nest_length(&kernel->nest));
  else
    snprintf(text, sizeof kernel->head.description, "gather single elements%s",
             kernel->shared ? ", with shared indices" : "");
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  cpu_device *device = head->device;
  gather_kernel *kernel = (gather_kernel *)head;
  kernel->axis_size = compute_index_of(descriptor)->axis_size;
  kernel->axis_stride = compute_index_of(descriptor)->axis_stride;
  kernel->wrap = cpu_index_wrap(descriptor);
  kernel->bytes = cpu_dtype_size(descriptor->outputs[0].dtype);
  kernel->wide_index = descriptor->inputs[1].dtype == COMPUTE_I64;

  int64_t position[COMPUTE_MAX_RANK];
  cpu_index_position_strides(descriptor, position);
  cpu_nest_begin(&kernel->nest, descriptor, 0, descriptor->rank);
  cpu_nest_add(&kernel->nest, position);
  cpu_nest_collapse(&kernel->nest);
  cpu_nest_finish(&kernel->nest);
  if (!cpu_nest_count(&kernel->nest, kernel->nest.rank, &kernel->count))
    return cpu_fail_overflow(head);
  if (kernel->count > 0) {
    choose_order(kernel);
    choose_tasks(kernel, device->threads);
  }
  describe(kernel);
  return COMPUTE_OK;
}

const cpu_kind cpu_gather_kind = {
    .name = "gather", .bytes = sizeof(gather_kernel), .prepare = prepare, .run = gather_run};

/* ---- Shared with SCATTER --------------------------------------------------------------------- */

/* Positions in the index tensor, and errors about them. */

void cpu_index_position_strides(const compute_kernel_descriptor *descriptor,
                                int64_t stride[COMPUTE_MAX_RANK]) {
  int64_t step = 1;
  for (int32_t d = descriptor->rank - 1; d >= 0; d--) {
    stride[d] = 0;
    if (descriptor->inputs[1].stride[d] == 0) continue;
    stride[d] = step;
    /* A space that overflows is refused before it is traversed. */
    if (__builtin_mul_overflow(step, descriptor->size[d], &step)) step = 0;
  }
}

compute_status cpu_index_report(const cpu_device *device, const char *operation,
                                const cpu_index_failure *failures, int64_t count,
                                int64_t axis_size) {
  const compute_services *services = device->services;
  cpu_index_failure first = {INT64_MAX, 0, 0};
  for (int64_t i = 0; i < count; i++)
    cpu_index_note(&first, failures[i].position, failures[i].index, failures[i].offset);
  if (first.position == INT64_MAX) return COMPUTE_OK;
  if (services->struct_size >=
          offsetof(compute_services, fail_index) + sizeof services->fail_index &&
      services->fail_index)
    return services->fail_index(services->host, 0, first.index, first.offset);
  return services->fail(services->host, COMPUTE_ERROR_INDEX, 0,
                        "indices lie in -size ... size-1 of the axis they choose from",
                        "%s: index %lld at position %lld of the index tensor is outside an "
                        "axis of size %lld",
                        operation, (long long)first.index, (long long)first.position,
                        (long long)axis_size);
}
