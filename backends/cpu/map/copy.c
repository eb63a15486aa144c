/* SPDX-License-Identifier: MIT */
/* COPY: copies elements from one memory layout to another.
 *
 * map.c makes conversions, as a MAP without a program. Elements that keep their dtype are copied as
 * bytes, in one of three ways:
 *
 *   rows        Input and output have the same innermost dimension: memcpy if both are contiguous
 *               there, otherwise element by element. One contiguous block is the simplest case.
 *   short rows  The same for rows of a few elements: a loop over many of them.
 *   enlarged    Rows whose elements repeat a few times, and that may repeat themselves.
 *   transposed  The input is contiguous in one dimension, the output in another. Blocks a few cache
 *               lines wide are transposed inside the L1 cache and written in whole lines. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/cpu.h"
#include "core/move.h"
#include "program/program.h"
#include "program/isa/tile_table.h"
#include "core/nest.h"

enum { COPY_TASK_BYTES = 256 << 10, LINE = 64, SWEEP_BLOCKS = 32, MOST_REPEATS = 64 };

/* A block of a transpose: contiguous bytes in the output, and the number of such runs. Runs in the
 * input are about as long, so that memory accesses span several lines. */
enum { BLOCK_RUN = 4 * LINE, BLOCK_RUNS = 64 };

typedef enum copy_way { COPY_ROWS, COPY_SHORT, COPY_ENLARGED, COPY_TRANSPOSED } copy_way;

typedef struct copy_kernel {
  cpu_kernel head;
  cpu_kernel *cast; /* a map that converts between dtypes, or NULL */
  copy_way way;
  uint32_t bytes;     /* of one element */
  int32_t size_index; /* log2 of `bytes` */
  cpu_nest nest;      /* operand 0 is the input, 1 the output */
  int64_t elements, rows;
  int64_t repeats; /* number of adjacent output elements that repeat one input element, or 1 */
  int64_t again, to_again; /* enlarged: copies of each row, and their distance in elements */
  bool large;              /* use non-temporal stores */
  /* Transposed: the input is contiguous in dimension rank − 2, the output in the last. */
  int64_t block_rows, block_columns; /* along the last and the second to last dimension */
  int64_t row_blocks, sweeps, units;
  int64_t tasks;
} copy_kernel;

typedef struct copy_run {
  const copy_kernel *copy;
  const unsigned char *source;
  unsigned char *destination;
} copy_run;

/* A task's part of 0 … all − 1, as first … end − 1. */
static void share(int64_t all, int64_t tasks, int64_t task, int64_t *first, int64_t *end) {
  const int64_t part = all / tasks, rest = all % tasks;
  *first = part * task + (task < rest ? task : rest);
  *end = *first + part + (task < rest);
}

static int64_t task_count(const cpu_device *device, uint64_t bytes, int64_t units) {
  int64_t tasks = (int64_t)(bytes / COPY_TASK_BYTES);
  const int64_t most = device->threads > 1 ? (int64_t)device->threads * 8 : 1;
  if (tasks > most) tasks = most;
  if (tasks > units) tasks = units;
  return tasks < 1 ? 1 : tasks;
}

/* ---- Contiguous bytes ---------------------------------------------------------------------- */

typedef struct bytes_run {
  const cpu_tile_table *table;
  unsigned char *destination;
  const unsigned char *source;
  uint64_t bytes;
  int64_t tasks;
  bool stream;
} bytes_run;

/* Copies one range, with normal or non-temporal stores. */
static void copy_range(const cpu_tile_table *table, unsigned char *destination,
                       const unsigned char *source, uint64_t bytes, bool stream) {
  if (stream && bytes >= 4 * LINE) {
    const uint64_t head = (LINE - ((uintptr_t)destination & (LINE - 1))) & (LINE - 1);
    memcpy(destination, source, (size_t)head);
    table->stream(destination + head, source + head, (int64_t)(bytes - head));
  } else {
    memcpy(destination, source, (size_t)bytes);
  }
}

static void bytes_task(void *argument, int64_t task, int32_t worker) {
  const bytes_run *run = argument;
  int64_t first, end;
  (void)worker;
  share((int64_t)(run->bytes / LINE), run->tasks, task, &first, &end);
  const uint64_t from = (uint64_t)first * LINE;
  const uint64_t to = task == run->tasks - 1 ? run->bytes : (uint64_t)end * LINE;
  copy_range(run->table, run->destination + from, run->source + from, to - from, run->stream);
  if (run->stream) cpu_stream_fence();
}

void cpu_copy_bytes(const cpu_device *device, void *destination, const void *source,
                    uint64_t bytes) {
  const uintptr_t to = (uintptr_t)destination, from = (uintptr_t)source;
  if (to == from) return;
  if ((to < from ? from - to : to - from) < bytes) {
    memmove(destination, source, (size_t)bytes);
    return;
  }
  bytes_run run = {.table = device->isa->tile,
                   .destination = destination,
                   .source = source,
                   .bytes = bytes,
                   .tasks = task_count(device, bytes, INT64_MAX),
                   .stream = bytes > device->share_bytes / 2};
  cpu_parallel(device, run.tasks, bytes_task, &run);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* For every second element, compilers use vectors. */
#define COPY_STRIDED(name, type)                                                                   \
  static void name(int64_t count, void *destination, int64_t to_stride, const void *source,        \
                   int64_t from_stride) {                                                          \
    const type *restrict from = source;                                                            \
    type *restrict to = destination;                                                               \
    if (to_stride == 1 && from_stride == 2) {                                                      \
      for (int64_t i = 0; i < count; i++) to[i] = from[2 * i];                                     \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++) to[i * to_stride] = from[i * from_stride];                 \
  }

COPY_STRIDED(copy_strided_1, uint8_t)
COPY_STRIDED(copy_strided_2, uint16_t)
COPY_STRIDED(copy_strided_4, uint32_t)
COPY_STRIDED(copy_strided_8, uint64_t)

typedef void (*copy_strided)(int64_t, void *, int64_t, const void *, int64_t);
static const copy_strided strided[] = {copy_strided_1, copy_strided_2, copy_strided_4,
                                       copy_strided_8};

/* Elements that joined ones may be: aligned as one of their parts. */
typedef uint16_t __attribute__((aligned(1), may_alias)) part_16;
typedef uint32_t __attribute__((aligned(1), may_alias)) part_32;
typedef uint64_t __attribute__((aligned(1), may_alias)) part_64;
typedef struct part_128 {
  part_64 low, high;
} part_128;

/* Repeats every element `repeats` times, as in an enlarged image. For the usual factor of 2,
 * compilers interleave vectors. */
#define REPEAT(name, type)                                                                         \
  static void name(int64_t count, int64_t repeats, void *destination, const void *source,          \
                   int64_t from_stride) {                                                          \
    const type *restrict from = source;                                                            \
    type *restrict to = destination;                                                               \
    if (repeats == 2 && from_stride == 1) {                                                        \
      for (int64_t i = 0; i < count; i++) to[2 * i] = to[2 * i + 1] = from[i];                     \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t i = 0; i < count; i++, to += repeats)                                             \
      for (int64_t k = 0; k < repeats; k++) to[k] = from[i * from_stride];                         \
  }

REPEAT(repeat_1, uint8_t)
REPEAT(repeat_2, part_16)
REPEAT(repeat_4, part_32)
REPEAT(repeat_8, part_64)
REPEAT(repeat_16, part_128)

typedef void (*repeat_elements)(int64_t, int64_t, void *, const void *, int64_t);
static const repeat_elements repeat[] = {repeat_1, repeat_2, repeat_4, repeat_8, repeat_16};

/* Elements start … end − 1 of a row with repeated elements; both ends may be inside the repetitions
 * of one element. */
static void repeat_row(const copy_kernel *copy, unsigned char *to, const unsigned char *from,
                       int64_t start, int64_t end) {
  const int64_t bytes = (int64_t)copy->bytes, times = copy->repeats;
  const int64_t step = cpu_nest_step(&copy->nest, 0) * bytes;
  for (; start < end && start % times != 0; start++)
    memcpy(to + start * bytes, from + start / times * step, (size_t)bytes);
  const int64_t whole = (end - start) / times;
  repeat[copy->size_index](whole, times, to + start * bytes, from + start / times * step,
                           step / bytes);
  for (start += whole * times; start < end; start++)
    memcpy(to + start * bytes, from + start / times * step, (size_t)bytes);
}

/* Elements start … end − 1 of a row. */
static void copy_row(const copy_kernel *copy, unsigned char *to, const unsigned char *from,
                     int64_t start, int64_t end) {
  const cpu_tile_table *table = copy->head.device->isa->tile;
  const int64_t from_step = cpu_nest_step(&copy->nest, 0), to_step = cpu_nest_step(&copy->nest, 1);
  const int64_t bytes = (int64_t)copy->bytes, count = end - start;
  if (copy->repeats > 1) {
    repeat_row(copy, to, from, start, end);
    return;
  }
  from += start * from_step * bytes;
  to += start * to_step * bytes;
  if (from_step == 1 && to_step == 1)
    copy_range(table, to, from, (uint64_t)(count * bytes), copy->large);
  else if (from_step == 0 && to_step == 1)
    table->fill(count, to, from, copy->bytes);
  else
    strided[copy->size_index](count, to, to_step, from, from_step);
}

/* Whole rows along the second to last dimension. */
static void copy_rows(const copy_kernel *copy, unsigned char *to, const unsigned char *from,
                      int64_t rows) {
  const cpu_nest *nest = &copy->nest;
  const int32_t across = cpu_nest_last(nest) - 1;
  const int64_t bytes = (int64_t)copy->bytes, length = cpu_nest_length(nest);
  const int64_t from_row = nest->stride[0][across] * bytes;
  const int64_t to_row = nest->stride[1][across] * bytes;
  for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row)
    copy_row(copy, to, from, 0, length);
}

/* Tasks share the elements, independent of row boundaries. */
static void rows_task(void *argument, int64_t task, int32_t worker) {
  const copy_run *run = argument;
  const copy_kernel *copy = run->copy;
  const cpu_nest *nest = &copy->nest;
  const int32_t outer = cpu_nest_last(nest);
  const int64_t length = cpu_nest_length(nest), bytes = (int64_t)copy->bytes;
  int64_t first, end;
  (void)worker;
  share(copy->elements, copy->tasks, task, &first, &end);
  cpu_walk walk;
  cpu_walk_start(nest, outer, first / length, &walk);
  for (int64_t start = first % length; first < end; start = 0) {
    const unsigned char *from = run->source + walk.offset[0] * bytes;
    unsigned char *to = run->destination + walk.offset[1] * bytes;
    const int64_t whole = start == 0 ? (end - first) / length : 0;
    if (outer > 0 && whole > 1) {
      const int64_t rows = cpu_min(whole, nest->size[outer - 1] - walk.index[outer - 1]);
      copy_rows(copy, to, from, rows);
      first += rows * length;
      cpu_walk_skip(nest, outer, rows, &walk);
    } else {
      const int64_t count = cpu_min(length - start, end - first);
      copy_row(copy, to, from, start, start + count);
      first += count;
      cpu_walk_next(nest, outer, &walk);
    }
  }
  if (copy->large) cpu_stream_fence();
}

/* ---- Short rows ---------------------------------------------------------------------------- */

/* Rows of contiguous bytes: two moves for each, of a size of at least half of the row. They may
 * overlap. */
#define MOVE_ROWS(name, size)                                                                      \
  static void name(int64_t rows, size_t bytes, unsigned char *to, int64_t to_step,                 \
                   const unsigned char *from, int64_t from_step) {                                 \
    for (int64_t i = 0; i < rows; i++, to += to_step, from += from_step)                           \
      cpu_move_two(to, from, bytes, size);                                                         \
  }

MOVE_ROWS(move_rows_1, 1)
MOVE_ROWS(move_rows_2, 2)
MOVE_ROWS(move_rows_4, 4)
MOVE_ROWS(move_rows_8, 8)
MOVE_ROWS(move_rows_16, 16)
MOVE_ROWS(move_rows_32, 32)
MOVE_ROWS(move_rows_64, 64)

static void move_rows(int64_t rows, size_t bytes, unsigned char *to, int64_t to_step,
                      const unsigned char *from, int64_t from_step) {
  if (bytes >= 64)
    move_rows_64(rows, bytes, to, to_step, from, from_step);
  else if (bytes >= 32)
    move_rows_32(rows, bytes, to, to_step, from, from_step);
  else if (bytes >= 16)
    move_rows_16(rows, bytes, to, to_step, from, from_step);
  else if (bytes >= 8)
    move_rows_8(rows, bytes, to, to_step, from, from_step);
  else if (bytes >= 4)
    move_rows_4(rows, bytes, to, to_step, from, from_step);
  else if (bytes >= 2)
    move_rows_2(rows, bytes, to, to_step, from, from_step);
  else
    move_rows_1(rows, bytes, to, to_step, from, from_step);
}

/* `rows` rows from `row` on of the second to last dimension. */
static void copy_short(const copy_run *run, const cpu_walk *walk, int64_t row, int64_t rows) {
  const copy_kernel *copy = run->copy;
  const cpu_nest *nest = &copy->nest;
  const int32_t across = cpu_nest_last(nest) - 1;
  const int64_t from_step = cpu_nest_step(nest, 0), to_step = cpu_nest_step(nest, 1);
  const int64_t from_row = nest->stride[0][across], to_row = nest->stride[1][across];
  const int64_t bytes = (int64_t)copy->bytes, length = cpu_nest_length(nest);
  const unsigned char *from = run->source + (walk->offset[0] + row * from_row) * bytes;
  unsigned char *to = run->destination + (walk->offset[1] + row * to_row) * bytes;
  const copy_strided loop = strided[copy->size_index];
  if (from_step == 1 && to_step == 1)
    move_rows(rows, (size_t)(length * bytes), to, to_row * bytes, from, from_row * bytes);
  else if (rows < length)
    for (int64_t i = 0; i < rows; i++)
      loop(length, to + i * to_row * bytes, to_step, from + i * from_row * bytes, from_step);
  else
    for (int64_t i = 0; i < length; i++)
      loop(rows, to + i * to_step * bytes, to_row, from + i * from_step * bytes, from_row);
}

/* A unit is a row. */
static void short_task(void *argument, int64_t task, int32_t worker) {
  enum { BLOCK = 256 }; /* rows, so that both stay in the L1 cache between elements */
  const copy_run *run = argument;
  const copy_kernel *copy = run->copy;
  const int32_t outer = cpu_nest_last(&copy->nest) - 1;
  const int64_t all = copy->nest.size[outer];
  int64_t first, end;
  (void)worker;
  share(copy->units, copy->tasks, task, &first, &end);
  cpu_walk walk;
  cpu_walk_start(&copy->nest, outer, first / all, &walk);
  for (int64_t row = first % all; first < end;) {
    int64_t rows = all - row < end - first ? all - row : end - first;
    if (rows > BLOCK) rows = BLOCK;
    copy_short(run, &walk, row, rows);
    first += rows;
    row += rows;
    if (row < all) continue;
    row = 0;
    cpu_walk_next(&copy->nest, outer, &walk);
  }
}

/* ---- Enlarged -------------------------------------------------------------------------------- */

static void enlarge_rows(const copy_kernel *copy, unsigned char *to, const unsigned char *from,
                         int64_t rows) {
  const cpu_nest *nest = &copy->nest;
  const int32_t across = cpu_nest_last(nest) - 1;
  const int64_t bytes = (int64_t)copy->bytes, length = cpu_nest_length(nest);
  const int64_t count = length / copy->repeats, step = cpu_nest_step(nest, 0);
  const int64_t from_row = nest->stride[0][across] * bytes;
  const int64_t to_row = nest->stride[1][across] * bytes, to_again = copy->to_again * bytes;
  const repeat_elements loop = repeat[copy->size_index];
  for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row) {
    loop(count, copy->repeats, to, from, step);
    for (int64_t k = 1; k < copy->again; k++)
      memcpy(to + k * to_again, to, (size_t)(length * bytes));
  }
}

/* A unit is a row with its copies. */
static void enlarge_task(void *argument, int64_t task, int32_t worker) {
  const copy_run *run = argument;
  const copy_kernel *copy = run->copy;
  const cpu_nest *nest = &copy->nest;
  const int32_t outer = cpu_nest_last(nest);
  int64_t first, end;
  (void)worker;
  share(copy->units, copy->tasks, task, &first, &end);
  cpu_walk walk;
  cpu_walk_start(nest, outer, first, &walk);
  while (first < end) {
    const int64_t rows = cpu_min(end - first, nest->size[outer - 1] - walk.index[outer - 1]);
    enlarge_rows(copy, run->destination + walk.offset[1] * (int64_t)copy->bytes,
                 run->source + walk.offset[0] * (int64_t)copy->bytes, rows);
    first += rows;
    cpu_walk_skip(nest, outer, rows, &walk);
  }
}

/* ---- Transposed ---------------------------------------------------------------------------- */

/* One sweep: `rows` along the output's contiguous dimension, `columns` along the input's. */
static void transpose_sweep(const copy_kernel *copy, const unsigned char *source,
                            unsigned char *destination, int64_t rows, int64_t columns) {
  _Alignas(LINE) unsigned char block[BLOCK_RUN * BLOCK_RUNS];
  const cpu_tile_table *table = copy->head.device->isa->tile;
  const int32_t last = cpu_nest_last(&copy->nest);
  const int64_t bytes = (int64_t)copy->bytes;
  const int64_t from_stride = copy->nest.stride[0][last] * bytes;
  const int64_t to_stride = copy->nest.stride[1][last - 1] * bytes;
  if (rows * bytes <= LINE) { /* runs of the output that are no whole lines */
    table->transpose[copy->size_index](rows, columns, source, from_stride, destination, to_stride);
    return;
  }
  for (int64_t c = 0; c < columns; c += copy->block_columns) {
    const int64_t left = columns - c;
    const int64_t count = left < copy->block_columns ? left : copy->block_columns;
    table->transpose[copy->size_index](rows, count, source + c * bytes, from_stride, block,
                                       BLOCK_RUN);
    for (int64_t i = 0; i < count; i++)
      copy_range(table, destination + (c + i) * to_stride, block + i * BLOCK_RUN,
                 (uint64_t)(rows * bytes), copy->large);
  }
}

/* A unit is a sweep. In the numbering, the sweeps of one row of blocks vary fastest. */
static void transpose_task(void *argument, int64_t task, int32_t worker) {
  const copy_run *run = argument;
  const copy_kernel *copy = run->copy;
  const cpu_nest *nest = &copy->nest;
  const int32_t last = cpu_nest_last(nest), across = last - 1;
  const int64_t sweep_columns = copy->block_columns * SWEEP_BLOCKS;
  int64_t first, end;
  (void)worker;
  share(copy->units, copy->tasks, task, &first, &end);
  int64_t sweep = first % copy->sweeps, block = first / copy->sweeps % copy->row_blocks;
  cpu_walk walk;
  cpu_walk_start(nest, across, first / copy->sweeps / copy->row_blocks, &walk);
  for (int64_t unit = first; unit < end; unit++) {
    const int64_t column = sweep * sweep_columns, row = block * copy->block_rows;
    const int64_t from = walk.offset[0] + row * nest->stride[0][last] + column;
    const int64_t to = walk.offset[1] + row + column * nest->stride[1][across];
    const int64_t rows = nest->size[last] - row, columns = nest->size[across] - column;
    transpose_sweep(copy, run->source + from * (int64_t)copy->bytes,
                    run->destination + to * (int64_t)copy->bytes,
                    rows < copy->block_rows ? rows : copy->block_rows,
                    columns < sweep_columns ? columns : sweep_columns);
    if (++sweep < copy->sweeps) continue;
    sweep = 0;
    if (++block < copy->row_blocks) continue;
    block = 0;
    cpu_walk_next(nest, across, &walk);
  }
  if (copy->large) cpu_stream_fence();
}

/* ---- The kernel ---------------------------------------------------------------------------- */

static compute_status run_copy(const cpu_kernel *kernel, void *const *pointers) {
  const copy_kernel *copy = (const copy_kernel *)kernel;
  if (copy->elements == 0) return COMPUTE_OK;
  copy_run run = {.copy = copy, .source = pointers[0], .destination = pointers[1]};
  cpu_parallel(kernel->device, copy->tasks,
               copy->way == COPY_TRANSPOSED ? transpose_task
               : copy->way == COPY_SHORT    ? short_task
               : copy->way == COPY_ENLARGED ? enlarge_task
                                            : rows_task,
               &run);
  return COMPUTE_OK;
}

static void clear_copy(cpu_kernel *kernel) {
  cpu_kernel_destroy(((copy_kernel *)kernel)->cast);
}

/* The dimension of the input with stride 1, if it is not the last; −1 if transposing blocks does
 * not pay. */
static int32_t find_turn(const cpu_nest *nest) {
  const int32_t last = cpu_nest_last(nest);
  if (nest->stride[1][last] != 1 || nest->stride[0][last] == 1 || nest->size[last] < 4) return -1;
  if (nest->stride[0][last] == 0 && nest->size[last] > MOST_REPEATS)
    return -1; /* rows are filled */
  for (int32_t d = last - 1; d >= 0; d--)
    if (nest->stride[0][d] == 1 && nest->size[d] >= 4) return d;
  return -1;
}

static void plan_transposed(copy_kernel *copy, int32_t turn) {
  cpu_nest *nest = &copy->nest;
  const int32_t last = cpu_nest_last(nest);
  copy->way = COPY_TRANSPOSED;
  cpu_nest_make_last(nest, turn);
  cpu_nest_make_last(nest, last - 1); /* the output's dimension, now one place further up */
  copy->block_rows = BLOCK_RUN / copy->bytes;
  copy->block_columns = copy->bytes == 8 ? BLOCK_RUNS / 2 : BLOCK_RUNS;
  copy->row_blocks = cpu_divide_up(nest->size[last], copy->block_rows);
  copy->sweeps = cpu_divide_up(nest->size[last - 1], copy->block_columns * SWEEP_BLOCKS);
  copy->units = copy->row_blocks * copy->sweeps;
  for (int32_t d = 0; d < last - 1; d++) copy->units *= nest->size[d];
}

/* Merges rows with a few repetitions of one element into the rows above them. */
static void find_repeats(copy_kernel *copy) {
  cpu_nest *nest = &copy->nest;
  const int32_t last = nest->rank - 1;
  copy->repeats = 1;
  if (last < 1 || nest->size[last] < 2 || nest->size[last] > MOST_REPEATS ||
      nest->stride[0][last] != 0 || nest->stride[1][last] != 1 ||
      nest->stride[1][last - 1] != nest->size[last])
    return;
  copy->repeats = nest->size[last];
  nest->size[last - 1] *= copy->repeats;
  nest->stride[1][last - 1] = 1;
  nest->rank--;
}

/* Joins contiguous rows of a few elements to one element each, if these then repeat. */
static void join_elements(copy_kernel *copy) {
  enum { WIDEST = 16 }; /* bytes */
  cpu_nest *nest = &copy->nest;
  const cpu_nest old = *nest;
  const int32_t last = nest->rank - 1;
  const int64_t length = last < 1 ? 0 : nest->size[last], bytes = (int64_t)copy->bytes;
  if (length < 2 || length > WIDEST / bytes || (length & (length - 1)) != 0 ||
      nest->stride[0][last] != 1 || nest->stride[1][last] != 1)
    return;
  nest->rank--;
  for (int32_t d = 0; d < last; d++)
    for (int k = 0; k < 2; k++) {
      if (nest->stride[k][d] % length != 0) {
        *nest = old;
        return;
      }
      nest->stride[k][d] /= length;
    }
  find_repeats(copy);
  if (copy->repeats > 1) {
    copy->bytes *= (uint32_t)length;
    copy->size_index = __builtin_ctz(copy->bytes);
  } else {
    *nest = old;
  }
}

/* The bytes from the first to the last element along a dimension, in the wider operand. */
static uint64_t span(const copy_kernel *copy, int32_t d) {
  const uint64_t from = (uint64_t)imaxabs(copy->nest.stride[0][d]);
  const uint64_t to = (uint64_t)imaxabs(copy->nest.stride[1][d]);
  return (uint64_t)copy->nest.size[d] * (from > to ? from : to) * copy->bytes;
}

/* Short rows: many along one dimension, if there are few along the usual one. Their lines stay in
 * the cache until the next row of the usual dimension. */
static void lengthen_columns(copy_kernel *copy) {
  enum { FEW = 8, MANY = 32, CACHE = 256 << 10 };
  cpu_nest *nest = &copy->nest;
  const int32_t last = cpu_nest_last(nest);
  int32_t longest = last - 1;
  for (int32_t d = 0; d < last; d++)
    if (nest->size[d] > nest->size[longest] && span(copy, d) <= CACHE) longest = d;
  if (nest->size[last - 1] >= FEW || nest->size[longest] < MANY) return;
  cpu_nest_make_last(nest, longest);
  cpu_nest_make_last(nest, last - 1); /* the rows, now one place further up */
}

/* Rows with repeated elements, unless their number is too small to share them among threads. */
static void plan_enlarged(copy_kernel *copy) {
  enum { LEAST_ROWS = 32 };
  cpu_nest *nest = &copy->nest;
  const int32_t last = cpu_nest_last(nest);
  const int64_t rows = copy->elements / cpu_nest_length(nest);
  copy->again = 1;
  if (nest->rank > 2 && nest->stride[0][last - 1] == 0) {
    copy->again = nest->size[last - 1];
    copy->to_again = nest->stride[1][last - 1];
  }
  if (nest->rank < 2 || rows / copy->again < LEAST_ROWS) return;
  copy->way = COPY_ENLARGED;
  copy->units = rows / copy->again;
  if (copy->again > 1) {
    cpu_nest_make_last(nest, last - 1);
    nest->rank--;
  }
}

static bool has_short_rows(const copy_kernel *copy) {
  const cpu_nest *nest = &copy->nest;
  const bool dense = cpu_nest_step(nest, 0) == 1 && cpu_nest_step(nest, 1) == 1;
  return nest->rank > 1 &&
         cpu_nest_length(nest) * (int64_t)copy->bytes <= (dense ? CPU_MOVE_MOST : LINE);
}

static void plan(copy_kernel *copy, const compute_kernel_descriptor *descriptor) {
  cpu_nest_begin(&copy->nest, descriptor, 0, descriptor->rank);
  cpu_nest_sort(&copy->nest, 1); /* the output is written in memory order */
  cpu_nest_collapse(&copy->nest);
  find_repeats(copy);
  if (copy->repeats == 1) join_elements(copy);
  cpu_nest_finish(&copy->nest);
  /* The core has checked that counts fit. */
  if (!cpu_nest_count(&copy->nest, copy->nest.rank, &copy->elements) || copy->elements == 0) return;
  const uint64_t bytes = (uint64_t)copy->elements * copy->bytes;
  copy->large = bytes > copy->head.device->share_bytes / 2;
  copy->units = copy->elements;
  const int32_t turn = copy->repeats > 1 ? -1 : find_turn(&copy->nest);
  if (turn >= 0)
    plan_transposed(copy, turn);
  else if (copy->repeats > 1)
    plan_enlarged(copy);
  else if (has_short_rows(copy)) {
    copy->way = COPY_SHORT;
    copy->units = copy->elements / cpu_nest_length(&copy->nest);
    lengthen_columns(copy);
  }
  copy->tasks = task_count(copy->head.device, bytes, copy->units);
}

static void describe(copy_kernel *copy) {
  static const char *const names[] = {[COPY_ROWS] = "rows",
                                      [COPY_SHORT] = "short rows",
                                      [COPY_ENLARGED] = "enlarged",
                                      [COPY_TRANSPOSED] = "transposed"};
  snprintf(copy->head.description, sizeof copy->head.description,
           "copy: %lld elements of %u byte%s, %s, %lld task%s%s", (long long)copy->elements,
           copy->bytes, copy->bytes == 1 ? "" : "s", names[copy->way], (long long)copy->tasks,
           copy->tasks == 1 ? "" : "s", copy->large ? ", non-temporal" : "");
}

static compute_status run_cast(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_kernel *cast = ((const copy_kernel *)kernel)->cast;
  return cast->run(cast, pointers);
}

static compute_status prepare_cast(copy_kernel *copy, const compute_kernel_descriptor *descriptor) {
  const compute_status status =
      cpu_kind_prepare(&cpu_map_kind, copy->head.device, descriptor, &copy->cast);
  if (status) return status;
  copy->head.run = run_cast;
  memcpy(copy->head.description, copy->cast->description, sizeof copy->head.description);
  return COMPUTE_OK;
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  copy_kernel *copy = (copy_kernel *)head;
  if (descriptor->inputs[0].dtype != descriptor->outputs[0].dtype)
    return prepare_cast(copy, descriptor);
  copy->bytes = cpu_dtype_size(descriptor->inputs[0].dtype);
  copy->size_index = __builtin_ctz(copy->bytes);
  plan(copy, descriptor);
  describe(copy);
  return COMPUTE_OK;
}

const cpu_kind cpu_copy_kind = {.name = "copy",
                                .bytes = sizeof(copy_kernel),
                                .prepare = prepare,
                                .run = run_copy,
                                .clear = clear_copy};
