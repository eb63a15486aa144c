/* SPDX-License-Identifier: MIT */
/* SCATTER: combines updates with elements of an axis selected by an index tensor, by addition or in
 * another mode.
 *
 * The dimensions of the space form two nests. Along the "free" ones the output has a nonzero
 * stride, so different points never share an element. Along the "colliding" ones only the index
 * determines the element. Threads share the tiles of the free nest, and each visits all colliding
 * points in row-major order. So there are no atomics, and every run gives the same bits, for any
 * number of threads. If the free nest is small, the axis is divided into ranges, and each thread
 * adds the updates in its range.
 *
 * All indices are checked before anything is written: a failed launch leaves the output unchanged.
 *
 * f16 and bf16 are summed in f32 and rounded once: a tile keeps f32 sums of its range of the axis,
 * loaded from the output when an index first refers to them. */
#include <stdio.h>
#include <string.h>

#include "index.h"
#include "program/program.h"
#include "core/nest.h"

enum {
  UPDATE = 0,
  INDEX = 1,
  OUTPUT = 2,
  POSITION = 3,
  LINE = 16,      /* minimum elements of a tile, if there are as many */
  SHORT = 8,      /* narrower tiles run along the colliding dimensions instead */
  RUN = 1024,     /* updates that are widened at once */
  SUMS = 1 << 20, /* f32 sums of one worker */
  WORK = 1 << 14, /* with fewer updates, another thread does not pay */
  TASKS_PER_THREAD = 4,
  MOST_TASKS = 256,
  AHEAD = 4,        /* slices */
  LISTED = 1 << 16, /* updates whose neighbours are listed once for all lines … */
  LEAST_LINES = 4,  /* … if there are so many lines, … */
  LEAST_RUN = 4,    /* … and neighbours, on average */
  CHOICE = 256      /* members of a range that are found at once */
};

/* A run of updates and their destinations. Steps are in elements. */
typedef struct run {
  void *sums; /* of place `origin` */
  int64_t sum_step, axis_step, origin;
  const void *updates;
  int64_t update_step;
  const void *indices; /* of the run's first update */
  int64_t index_step;
  bool wide_index;
  int64_t axis_size, wrap, begin, end; /* the permitted range of the axis */
  int64_t count;
} run;

/* The next updates of a run whose place is within its range. Membership is unpredictable: with a
 * branch around each addition, mispredictions made two threads with half an axis each several times
 * slower than one thread with the whole axis. So the members are selected first, without
 * branches. */
typedef struct choice {
  int64_t next, count; /* the run's first unvisited update; members found */
  int64_t number[CHOICE], place[CHOICE];
} choice;

typedef struct scatter_loops {
  /* sums[i·sum_step] += updates[i·update_step], or another mode; does not read the indices. */
  void (*slice)(const run *r);

  /* sums[i·sum_step + (place − origin)·axis_step] += updates[i·update_step] */
  void (*elements)(const run *r);
} scatter_loops;

typedef struct scatter_kernel {
  cpu_kernel head;
  cpu_nest colliding, free, indices;
  int64_t colliding_count, free_count, index_count;
  int64_t axis_size, axis_stride, wrap; /* wrap: as in index.h */
  uint32_t bytes;
  bool wide_index, rounds; /* f16 or bf16 */
  bool lists;              /* lines share their indices, and may share a list of neighbours */
  bool along;              /* runs follow the last colliding dimension, not the last free one */
  compute_scatter_mode mode;
  const scatter_loops *loops;
  cpu_program *widen, *narrow; /* for `rounds` */
  int64_t width, tiles_per_line, tiles, ranges, tasks, check_tasks;
  uint64_t worker_bytes;
} scatter_kernel;

/* Updates whose places are neighbours. `update` is an offset along the colliding dimensions. */
typedef struct neighbours {
  int64_t place, update, count;
} neighbours;

typedef struct launch {
  const scatter_kernel *kernel;
  neighbours *list; /* of all updates in row-major order; or NULL */
  int64_t listed;
  void *const *pointers;
  unsigned char *workers;
  cpu_index_failure failure[MOST_TASKS];
} launch;

/* A worker's current job: a tile of the free nest and a range of the axis. */
typedef struct job {
  const launch *launch;
  cpu_scratch *scratch;  /* for `rounds` */
  float *sums, *updates; /* for `rounds`: [place − begin][width]; RUN widened updates */
  uint8_t *touched;      /* flags of loaded rows of sums */
  cpu_walk tile;
  int64_t first, count; /* of the tile, along the last free dimension */
  int64_t begin, end;
} job;

/* ---- Innermost loops ----------------------------------------------------------------------- */

/* Fills the list from c->next on; false if there are no more members. */
static bool choose(const run *r, choice *c) {
  const bool wide = r->wide_index;
  const int64_t wrap = r->wrap, begin = r->begin, step = r->index_step, end = r->count;
  const uint64_t length =
      r->end > begin ? (uint64_t)(r->end - begin) : 0; /* the last may be empty */
  const void *indices = r->indices;
  int64_t i = c->next, count = 0;
  for (; i < end && count < CHOICE; i++) {
    const int64_t place = cpu_index_resolve(cpu_index_read(indices, i * step, wide), wrap);
    c->number[count] = i;
    c->place[count] = place;
    count += (uint64_t)(place - begin) < length;
  }
  c->next = i;
  c->count = count;
  return count > 0;
}

/* `true` if many updates of a run probably have neighbouring destinations. */
static bool has_neighbours(const run *r) {
  enum { SHORTEST = 32 };
  if (r->count < SHORTEST || r->sum_step != 0 || r->axis_step != 1 || r->index_step != 1 ||
      r->update_step != 1 || r->begin != 0 || r->end != r->axis_size)
    return false;
  for (int64_t i = 0; i <= r->count - 8; i += r->count / 4)
    if (cpu_index_neighbours(r->indices, i, 8, r->wide_index)) return true;
  return false;
}

/* Adds such updates: neighbours as slices. */
static void scatter_neighbours(const run *r, const scatter_loops *loops, int64_t bytes) {
  for (int64_t done = 0; done < r->count;) {
    const int64_t alike = cpu_index_neighbours(r->indices, done, r->count - done, r->wide_index);
    run next = *r;
    const int64_t place =
        cpu_index_resolve(cpu_index_read(r->indices, done, r->wide_index), r->wrap);
    next.sums = (unsigned char *)r->sums + (place - r->origin) * bytes;
    next.updates = (const unsigned char *)r->updates + done * bytes;
    next.sum_step = 1;
    next.count = cpu_max(alike, 1);
    /* The remainder of a run, below eight. Places cannot continue from the axis's end to 0. */
    while (next.count < r->count - done &&
           cpu_index_resolve(cpu_index_read(r->indices, done + next.count, r->wide_index),
                             r->wrap) == place + next.count)
      next.count++;
    loops->slice(&next);
    done += next.count;
  }
}

/* The stored result for an element `a` and an update `b`. Integers wrap, so they are added and
 * multiplied as unsigned. */
#define JOIN_ADD(type, arithmetic, a, b) (type)((arithmetic)(a) + (arithmetic)(b))
#define JOIN_MUL(type, arithmetic, a, b) (type)((arithmetic)(a) * (arithmetic)(b))
#define JOIN_MAX(type, arithmetic, a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define JOIN_MIN(type, arithmetic, a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define JOIN_SET(type, arithmetic, a, b) (b)

#define LOOPS(name, type, arithmetic, JOIN)                                                        \
  static void name##_slice(const run *r) {                                                         \
    type *sums = r->sums;                                                                          \
    const type *updates = r->updates;                                                              \
    const int64_t count = r->count, to = r->sum_step, from = r->update_step;                       \
    if (to == 1 && from == 1)                                                                      \
      for (int64_t i = 0; i < count; i++) sums[i] = JOIN(type, arithmetic, sums[i], updates[i]);   \
    else                                                                                           \
      for (int64_t i = 0; i < count; i++)                                                          \
        sums[i * to] = JOIN(type, arithmetic, sums[i * to], updates[i * from]);                    \
  }                                                                                                \
  static void name##_elements(const run *r) {                                                      \
    type *sums = r->sums;                                                                          \
    const type *updates = r->updates;                                                              \
    const run fixed = *r; /* in registers, which stores cannot alias */                            \
    choice c;                                                                                      \
    c.next = 0;                                                                                    \
    if (fixed.begin == 0 && fixed.end == fixed.axis_size)                                          \
      for (int64_t i = 0; i < fixed.count; i++) {                                                  \
        const int64_t index =                                                                      \
            cpu_index_read(fixed.indices, i * fixed.index_step, fixed.wide_index);                 \
        const int64_t place = cpu_index_resolve(index, fixed.wrap);                                \
        type *sum = sums + i * fixed.sum_step + (place - fixed.origin) * fixed.axis_step;          \
        *sum = JOIN(type, arithmetic, *sum, updates[i * fixed.update_step]);                       \
      }                                                                                            \
    else                                                                                           \
      while (choose(&fixed, &c))                                                                   \
        for (int64_t k = 0; k < c.count; k++) {                                                    \
          const int64_t i = c.number[k];                                                           \
          type *sum = sums + i * fixed.sum_step + (c.place[k] - fixed.origin) * fixed.axis_step;   \
          *sum = JOIN(type, arithmetic, *sum, updates[i * fixed.update_step]);                     \
        }                                                                                          \
  }                                                                                                \
  static const scatter_loops name##_loops = {name##_slice, name##_elements};

#define JOINING(name, type, arithmetic)                                                            \
  LOOPS(name##_add, type, arithmetic, JOIN_ADD)                                                    \
  LOOPS(name##_mul, type, arithmetic, JOIN_MUL)                                                    \
  LOOPS(name##_max, type, arithmetic, JOIN_MAX)                                                    \
  LOOPS(name##_min, type, arithmetic, JOIN_MIN)
JOINING(f64, double, double)
JOINING(f32, float, float)
#define ARITHMETIC_I64 uint64_t
#define ARITHMETIC_I32 uint32_t
#define LOOPS_FLOAT(...)
#define LOOPS_LOGIC(...)
#define LOOPS_SIGNED(name, type, element)   JOINING(name, element, ARITHMETIC_##type)
#define LOOPS_UNSIGNED(name, type, element) JOINING(name, element, ARITHMETIC_##type)
#define INTEGER_LOOPS(code, number, name, kind, bytes, type, element)                              \
  LOOPS_##kind(name, type, element)
COMPUTE_DTYPES(INTEGER_LOOPS)
LOOPS(set_8, uint8_t, uint32_t, JOIN_SET)
LOOPS(set_16, uint16_t, uint32_t, JOIN_SET)
LOOPS(set_32, uint32_t, uint32_t, JOIN_SET)
LOOPS(set_64, uint64_t, uint64_t, JOIN_SET)

/* For SET only the size matters; the sums of f16 and bf16 are f32. */
static const scatter_loops *loops_of(compute_dtype dtype, compute_scatter_mode mode) {
#define ROW(name)                                                                                  \
  {                                                                                                \
    [COMPUTE_SCATTER_ADD] = &name##_add_loops, [COMPUTE_SCATTER_MUL] = &name##_mul_loops,          \
    [COMPUTE_SCATTER_MAX] = &name##_max_loops, [COMPUTE_SCATTER_MIN] = &name##_min_loops           \
  }
#define ROW_FLOAT(...)
#define ROW_LOGIC(...)
#define ROW_SIGNED(code, name)                     [COMPUTE_##code] = ROW(name),
#define ROW_UNSIGNED(code, name)                   [COMPUTE_##code] = ROW(name),
#define INTEGER_ROW(code, number, name, kind, ...) ROW_##kind(code, name)
  static const scatter_loops *const loops[COMPUTE_DTYPE_COUNT][COMPUTE_SCATTER_MIN + 1] = {
      [COMPUTE_F64] = ROW(f64),
      [COMPUTE_F32] = ROW(f32),
      [COMPUTE_F16] = ROW(f32),
      [COMPUTE_BF16] = ROW(f32),
      COMPUTE_DTYPES(INTEGER_ROW)};
  if (mode != COMPUTE_SCATTER_SET) return loops[dtype][mode];
  switch (cpu_dtype_size(dtype)) {
  case 1: return &set_8_loops;
  case 2: return &set_16_loops;
  case 4: return &set_32_loops;
  default: return &set_64_loops;
  }
}

/* ---- Sums of f16 and bf16 ------------------------------------------------------------------ */

static void convert(const job *j, const cpu_program *program, const void *source,
                    int64_t source_step, void *target, int64_t target_step, int64_t count) {
  const uint32_t wide = sizeof(float), half = j->launch->kernel->bytes;
  const bool widens = program == j->launch->kernel->widen;
  const int64_t source_bytes = widens ? half : wide, target_bytes = widens ? wide : half;
  const int64_t most = cpu_program_tile_elements(program);
  cpu_tile tile = {.dimension = 0};
  for (int64_t done = 0; done < count; done += tile.count) {
    tile.count = count - done < most ? count - done : most;
    tile.input[0] = (const unsigned char *)source + done * source_step * source_bytes;
    tile.input_stride[0] = source_step;
    tile.output[0] = (unsigned char *)target + done * target_step * target_bytes;
    tile.output_stride[0] = target_step;
    cpu_program_run(program, &tile, j->scratch, false);
  }
}

/* The output's elements that correspond to the row of sums at a place of the axis. */
static void *output_row(const job *j, int64_t place) {
  const scatter_kernel *kernel = j->launch->kernel;
  const int64_t offset = j->tile.offset[OUTPUT] + j->first * cpu_nest_step(&kernel->free, OUTPUT) +
                         place * kernel->axis_stride;
  return (unsigned char *)j->launch->pointers[OUTPUT] + offset * (int64_t)kernel->bytes;
}

static void touch(const job *j, int64_t place) {
  const scatter_kernel *kernel = j->launch->kernel;
  const int64_t row = place - j->begin;
  if (place < j->begin || place >= j->end || j->touched[row]) return;
  j->touched[row] = 1;
  convert(j, kernel->widen, output_row(j, place), cpu_nest_step(&kernel->free, OUTPUT),
          j->sums + row * kernel->width, 1, j->count);
}

static void round_sums(const job *j) {
  const scatter_kernel *kernel = j->launch->kernel;
  for (int64_t row = 0; row < j->end - j->begin; row++) {
    if (!j->touched[row]) continue;
    j->touched[row] = 0;
    convert(j, kernel->narrow, j->sums + row * kernel->width, 1, output_row(j, j->begin + row),
            cpu_nest_step(&kernel->free, OUTPUT), j->count);
  }
}

/* ---- Runs ---------------------------------------------------------------------------------- */

/* Replaces the output and the updates of a run by f32 sums and widened updates. `column` is the
 * tile's element at the start of the run; `place` is the place of the whole run, or −1. */
static void widen_run(const job *j, run *r, int64_t place, int64_t column) {
  const scatter_kernel *kernel = j->launch->kernel;
  const int64_t row = place < 0 ? 0 : place - j->begin;
  if (place >= 0) touch(j, place);
  for (int64_t i = 0; i < r->count && place < 0; i++)
    touch(j,
          cpu_index_resolve(cpu_index_read(r->indices, i * r->index_step, r->wide_index), r->wrap));
  convert(j, kernel->widen, r->updates, r->update_step, j->updates, 1, r->count);
  r->updates = j->updates;
  r->update_step = 1;
  r->sums = j->sums + row * kernel->width + column;
  r->sum_step = r->sum_step != 0;
  r->axis_step = kernel->width;
  r->origin = j->begin;
}

/* `count` updates along the last dimension of a nest, from these offsets on: a slice of widened
 * sums, or single elements. */
static void scatter_run(const job *j, const cpu_nest *along, const int64_t *at, int64_t column,
                        int64_t count) {
  const scatter_kernel *kernel = j->launch->kernel;
  const int64_t bytes = (int64_t)kernel->bytes, index_step = cpu_nest_step(along, INDEX);
  const int64_t index_bytes = kernel->wide_index ? sizeof(int64_t) : sizeof(int32_t);
  const bool slice = index_step == 0 && !kernel->along;
  int64_t place = -1;
  if (slice) {
    const int64_t index = cpu_index_read(j->launch->pointers[INDEX], at[INDEX], kernel->wide_index);
    place = cpu_index_resolve(index, kernel->wrap);
    if (place < j->begin || place >= j->end) return;
  }
  run r = {
      .sums = (unsigned char *)j->launch->pointers[OUTPUT] + at[OUTPUT] * bytes,
      .sum_step = cpu_nest_step(along, OUTPUT),
      .axis_step = kernel->axis_stride,
      .updates = (const unsigned char *)j->launch->pointers[UPDATE] + at[UPDATE] * bytes,
      .update_step = cpu_nest_step(along, UPDATE),
      .indices = (const unsigned char *)j->launch->pointers[INDEX] + at[INDEX] * index_bytes,
      .index_step = index_step,
      .wide_index = kernel->wide_index,
      .axis_size = kernel->axis_size,
      .wrap = kernel->wrap,
      .begin = j->begin,
      .end = j->end,
      .count = count,
  };
  if (kernel->rounds) widen_run(j, &r, place, column);
  if (slice)
    kernel->loops->slice(&r);
  else if (has_neighbours(&r))
    scatter_neighbours(&r, kernel->loops, kernel->rounds ? (int64_t)sizeof(float) : bytes);
  else
    kernel->loops->elements(&r);
}

static void offsets(const job *j, const cpu_walk *colliding, int64_t column, int64_t last,
                    int64_t at[POSITION]) {
  const scatter_kernel *kernel = j->launch->kernel;
  for (int32_t k = 0; k < POSITION; k++)
    at[k] = j->tile.offset[k] + (j->first + column) * cpu_nest_step(&kernel->free, k) +
            colliding->offset[k] + last * cpu_nest_step(&kernel->colliding, k);
}

/* Whole slices along the last colliding dimension, from these offsets on, directly into the output.
 * Destinations a few slices ahead are prefetched, because the processor cannot predict them. */
static void add_slices(const job *j, const int64_t *at, int64_t slices) {
  const scatter_kernel *kernel = j->launch->kernel;
  const int64_t bytes = (int64_t)kernel->bytes, axis_step = kernel->axis_stride * bytes;
  const int64_t update_step = cpu_nest_step(&kernel->colliding, UPDATE) * bytes;
  const int64_t index_bytes = kernel->wide_index ? sizeof(int64_t) : sizeof(int32_t);
  const unsigned char *updates =
      (const unsigned char *)j->launch->pointers[UPDATE] + at[UPDATE] * bytes;
  unsigned char *output = (unsigned char *)j->launch->pointers[OUTPUT] + at[OUTPUT] * bytes;
  const run all = {.indices =
                       (const unsigned char *)j->launch->pointers[INDEX] + at[INDEX] * index_bytes,
                   .index_step = cpu_nest_step(&kernel->colliding, INDEX),
                   .wide_index = kernel->wide_index,
                   .axis_size = kernel->axis_size,
                   .wrap = kernel->wrap,
                   .begin = j->begin,
                   .end = j->end,
                   .count = slices};
  run r = {.sum_step = cpu_nest_step(&kernel->free, OUTPUT),
           .update_step = cpu_nest_step(&kernel->free, UPDATE),
           .count = j->count};
  choice c;
  c.next = 0;
  while (choose(&all, &c))
    for (int64_t k = 0; k < c.count; k++) {
      const int64_t ahead = c.place[cpu_min(k + AHEAD, c.count - 1)];
      __builtin_prefetch(output + ahead * axis_step, 1);
      r.sums = output + c.place[k] * axis_step;
      r.updates = updates + c.number[k] * update_step;
      kernel->loops->slice(&r);
    }
}

/* Every colliding point in row-major order; runs go along the tile. */
static void scatter_across(const job *j) {
  const scatter_kernel *kernel = j->launch->kernel;
  const int32_t outer = kernel->colliding.rank - 1;
  const int64_t line = cpu_nest_length(&kernel->colliding);
  const bool direct = !kernel->rounds && cpu_nest_step(&kernel->free, INDEX) == 0;
  cpu_walk walk;
  cpu_walk_start(&kernel->colliding, outer, 0, &walk);
  for (int64_t o = 0; o < kernel->colliding_count / line; o++) {
    int64_t at[POSITION];
    for (int64_t c = 0; c < (direct ? 1 : line); c++) {
      offsets(j, &walk, 0, c, at);
      if (direct)
        add_slices(j, at, line);
      else
        scatter_run(j, &kernel->free, at, 0, j->count);
    }
    cpu_walk_next(&kernel->colliding, outer, &walk);
  }
}

/* Lists the neighbours. No list remains if there are too few of them. */
static void list_neighbours(launch *l) {
  const scatter_kernel *kernel = l->kernel;
  const int32_t outer = kernel->colliding.rank - 1;
  const int64_t line = cpu_nest_length(&kernel->colliding),
                most = kernel->colliding_count / LEAST_RUN;
  const int64_t step = cpu_nest_step(&kernel->colliding, INDEX);
  cpu_walk walk;
  cpu_walk_start(&kernel->colliding, outer, 0, &walk);
  l->listed = 0;
  for (int64_t o = 0; o < kernel->colliding_count / line; o++) {
    neighbours *last = NULL;
    for (int64_t c = 0; c < line; c++) {
      const int64_t place = cpu_index_resolve(
          cpu_index_read(l->pointers[INDEX], walk.offset[INDEX] + c * step, kernel->wide_index),
          kernel->wrap);
      if (last && place == last->place + last->count) {
        last->count++;
        continue;
      }
      if (l->listed == most) {
        l->list = NULL;
        return;
      }
      last = &l->list[l->listed++];
      *last = (neighbours){place, walk.offset[UPDATE] + c, 1};
    }
    cpu_walk_next(&kernel->colliding, outer, &walk);
  }
}

/* All updates of the tile, by the list. */
static void scatter_listed(const job *j) {
  const launch *l = j->launch;
  const scatter_kernel *kernel = l->kernel;
  const int64_t bytes = (int64_t)kernel->bytes;
  for (int64_t column = 0; column < j->count; column++) {
    int64_t at[POSITION];
    for (int32_t k = 0; k < POSITION; k++)
      at[k] = j->tile.offset[k] + (j->first + column) * cpu_nest_step(&kernel->free, k);
    unsigned char *sums = (unsigned char *)l->pointers[OUTPUT] + at[OUTPUT] * bytes;
    const unsigned char *updates = (const unsigned char *)l->pointers[UPDATE] + at[UPDATE] * bytes;
    run r = {.sum_step = 1, .update_step = 1};
    for (int64_t i = 0; i < l->listed; i++) {
      const neighbours *n = &l->list[i];
      r.sums = sums + n->place * bytes;
      r.updates = updates + n->update * bytes;
      r.count = n->count;
      kernel->loops->slice(&r);
    }
  }
}

/* Elements of the tile in sequence; runs go along the last colliding dimension. */
static void scatter_along(const job *j) {
  const scatter_kernel *kernel = j->launch->kernel;
  if (j->launch->list) {
    scatter_listed(j);
    return;
  }
  const int32_t outer = kernel->colliding.rank - 1;
  const int64_t line = cpu_nest_length(&kernel->colliding);
  const int64_t longest = kernel->rounds ? RUN : line;
  cpu_walk walk;
  cpu_walk_start(&kernel->colliding, outer, 0, &walk);
  for (int64_t o = 0; o < kernel->colliding_count / line; o++) {
    for (int64_t column = 0; column < j->count; column++)
      for (int64_t first = 0; first < line; first += longest) {
        int64_t at[POSITION];
        offsets(j, &walk, column, first, at);
        scatter_run(j, &kernel->colliding, at, column,
                    line - first < longest ? line - first : longest);
      }
    cpu_walk_next(&kernel->colliding, outer, &walk);
  }
}

/* ---- Launching ----------------------------------------------------------------------------- */

/* `true` if all of `count` contiguous indices are inside. An index below −wrap or from axis_size on
 * makes one of two numbers negative. Compilers use vectors, because there is no branch. 2·axis_size
 * must fit into the type. */
#define ALL_INSIDE(name, type, bits)                                                               \
  static bool name(const type *indices, int64_t count, int64_t wrap, int64_t axis_size) {          \
    const bits low = (bits)wrap, high = (bits)(axis_size - 1);                                     \
    bits signs = 0;                                                                                \
    for (int64_t i = 0; i < count; i++)                                                            \
      signs |= ((bits)indices[i] + low) | (high - (bits)indices[i]);                               \
    return signs >> (8 * sizeof(bits) - 1) == 0;                                                   \
  }
ALL_INSIDE(all_inside_narrow, int32_t, uint32_t)
ALL_INSIDE(all_inside_wide, int64_t, uint64_t)
#undef ALL_INSIDE

/* Returns `false` also for an axis that is too long for the test of 32-bit indices. */
static bool line_inside(const scatter_kernel *kernel, const void *indices, int64_t offset,
                        int64_t count) {
  const int64_t wrap = kernel->wrap, size = kernel->axis_size;
  if (kernel->wide_index)
    return all_inside_wide((const int64_t *)indices + offset, count, wrap, size);
  if (size > INT32_MAX / 2) return false;
  return all_inside_narrow((const int32_t *)indices + offset, count, wrap, size);
}

static void check_line(const launch *l, const cpu_walk *walk, int64_t first, int64_t count,
                       cpu_index_failure *failure) {
  const scatter_kernel *kernel = l->kernel;
  const int64_t step = cpu_nest_step(&kernel->indices, INDEX);
  const int64_t position_step = cpu_nest_step(&kernel->indices, POSITION);
  if (step == 1 && line_inside(kernel, l->pointers[INDEX], walk->offset[INDEX] + first, count))
    return;
  for (int64_t i = first; i < first + count; i++) {
    const int64_t offset = walk->offset[INDEX] + i * step;
    const int64_t index = cpu_index_read(l->pointers[INDEX], offset, kernel->wide_index);
    const int64_t place = cpu_index_resolve(index, kernel->wrap);
    if (!cpu_index_inside(place, kernel->axis_size))
      cpu_index_note(failure, walk->offset[POSITION] + i * position_step, index, offset);
  }
}

static void check_task(void *argument, int64_t task, int32_t worker) {
  launch *l = argument;
  const scatter_kernel *kernel = l->kernel;
  const int32_t outer = kernel->indices.rank - 1;
  const int64_t line = cpu_nest_length(&kernel->indices);
  const int64_t end = (task + 1) * kernel->index_count / kernel->check_tasks;
  int64_t done = task * kernel->index_count / kernel->check_tasks;
  cpu_index_failure failure = {INT64_MAX, 0, 0};
  cpu_walk walk;
  (void)worker;
  cpu_walk_start(&kernel->indices, outer, done / line, &walk);
  while (done < end) {
    const int64_t first = done % line;
    const int64_t count = end - done < line - first ? end - done : line - first;
    check_line(l, &walk, first, count, &failure);
    cpu_walk_next(&kernel->indices, outer, &walk);
    done += count;
  }
  l->failure[task] = failure;
}

static void scatter_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const scatter_kernel *kernel = l->kernel;
  const int64_t parts = kernel->tiles * kernel->ranges;
  const int64_t end = (task + 1) * parts / kernel->tasks;
  const int64_t free_line = cpu_nest_length(&kernel->free);
  job j = {.launch = l};
  if (kernel->rounds) {
    unsigned char *memory = l->workers + (uint64_t)worker * kernel->worker_bytes;
    j.scratch = (cpu_scratch *)(void *)memory;
    j.updates = (float *)(void *)(memory + sizeof(cpu_scratch));
    j.sums = j.updates + RUN;
    const int64_t rows = (kernel->axis_size + kernel->ranges - 1) / kernel->ranges;
    j.touched = (uint8_t *)(j.sums + rows * kernel->width);
    memset(j.touched, 0, (size_t)rows);
  }
  for (int64_t part = task * parts / kernel->tasks; part < end; part++) {
    const int64_t tile = part / kernel->ranges, range = part % kernel->ranges;
    const int64_t rows = (kernel->axis_size + kernel->ranges - 1) / kernel->ranges;
    j.begin = range * rows;
    j.end = kernel->axis_size - j.begin < rows ? kernel->axis_size : j.begin + rows;
    cpu_walk_start(&kernel->free, kernel->free.rank - 1, tile / kernel->tiles_per_line, &j.tile);
    j.first = tile % kernel->tiles_per_line * kernel->width;
    j.count = free_line - j.first < kernel->width ? free_line - j.first : kernel->width;
    if (kernel->along)
      scatter_along(&j);
    else
      scatter_across(&j);
    if (kernel->rounds) round_sums(&j);
  }
}

static compute_status scatter_run_kernel(const cpu_kernel *head, void *const *pointers) {
  const scatter_kernel *kernel = (const scatter_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->colliding_count == 0 || kernel->free_count == 0) return COMPUTE_OK;
  launch l;
  l.kernel = kernel;
  l.pointers = pointers;
  cpu_parallel(device, kernel->check_tasks, check_task, &l);
  const compute_status status =
      cpu_index_report(device, "scatter", l.failure, kernel->check_tasks, kernel->axis_size);
  if (status) return status;
  const uint64_t bytes = kernel->lists
                             ? (uint64_t)(kernel->colliding_count / LEAST_RUN) * sizeof(neighbours)
                             : kernel->worker_bytes * (uint64_t)device->threads;
  l.workers = NULL;
  l.list = NULL;
  if (kernel->rounds || kernel->lists) {
    l.workers = cpu_workspace_acquire(device, bytes);
    if (!l.workers) return cpu_out_of_memory(device, bytes);
  }
  if (kernel->lists) {
    l.list = (neighbours *)(void *)l.workers;
    list_neighbours(&l);
  }
  cpu_parallel(device, kernel->tasks, scatter_task, &l);
  cpu_workspace_return(device, l.workers);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* Puts the longest dimension last, if lines of single elements are short. If no updates collide,
 * any order of them gives the same bits. */
static void lengthen_lines(cpu_nest *free) {
  int32_t longest = cpu_nest_last(free);
  if (cpu_nest_length(free) >= LINE || cpu_nest_step(free, INDEX) == 0) return;
  for (int32_t d = 0; d < free->rank; d++)
    if (free->size[d] > free->size[longest]) longest = d;
  cpu_nest_make_last(free, longest);
}

static void build_nests(scatter_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  int64_t position[COMPUTE_MAX_RANK];
  cpu_nest all;
  cpu_index_position_strides(descriptor, position);
  cpu_nest_begin(&all, descriptor, 0, descriptor->rank);
  cpu_nest_add(&all, position);
  kernel->colliding.operands = kernel->free.operands = kernel->indices.operands = all.operands;
  for (int32_t d = 0; d < all.rank; d++) {
    cpu_nest_append(&all, d, all.stride[OUTPUT][d] ? &kernel->free : &kernel->colliding);
    if (all.stride[INDEX][d]) cpu_nest_append(&all, d, &kernel->indices);
  }
  cpu_nest_sort(&kernel->free, OUTPUT);
  cpu_nest *const nests[] = {&kernel->colliding, &kernel->free, &kernel->indices};
  for (int i = 0; i < 3; i++) {
    cpu_nest_collapse(nests[i]);
    cpu_nest_finish(nests[i]);
  }
  if (kernel->colliding.rank == 1 && cpu_nest_length(&kernel->colliding) == 1)
    lengthen_lines(&kernel->free);
}

static bool count_points(scatter_kernel *kernel) {
  return cpu_nest_count(&kernel->colliding, kernel->colliding.rank, &kernel->colliding_count) &&
         cpu_nest_count(&kernel->free, kernel->free.rank, &kernel->free_count) &&
         cpu_nest_count(&kernel->indices, kernel->indices.rank, &kernel->index_count);
}

static void count_tiles(scatter_kernel *kernel) {
  const int64_t line = cpu_nest_length(&kernel->free);
  kernel->tiles_per_line = cpu_divide_up(line, kernel->width);
  kernel->tiles = kernel->free_count / line * kernel->tiles_per_line;
}

/* `true` if runs go along the last colliding dimension: tiles of this width are narrow, or have
 * distant elements while runs have neighbours. */
static bool goes_along(const scatter_kernel *kernel, int64_t width) {
  const cpu_nest *colliding = &kernel->colliding, *free = &kernel->free;
  if (cpu_nest_length(colliding) <= width) return false;
  const bool apart = cpu_nest_step(free, OUTPUT) != 1 && cpu_nest_step(free, UPDATE) != 1;
  const bool adjacent = kernel->axis_stride == 1 && cpu_nest_step(colliding, UPDATE) == 1;
  return width < SHORT || (apart && adjacent && !kernel->rounds);
}

/* `true` if all lines along the colliding dimensions have the same indices, and neighbouring
 * updates may have neighbouring places. */
static bool shares_indices(const scatter_kernel *kernel) {
  const cpu_nest *colliding = &kernel->colliding, *free = &kernel->free;
  if (!kernel->along || kernel->rounds || kernel->ranges > 1 || kernel->axis_stride != 1 ||
      cpu_nest_step(colliding, UPDATE) != 1 || kernel->free_count < LEAST_LINES ||
      kernel->colliding_count > LISTED)
    return false;
  for (int32_t d = 0; d < free->rank; d++)
    if (free->stride[INDEX][d] != 0) return false;
  return true;
}

static void choose_tasks(scatter_kernel *kernel, int64_t threads) {
  const int64_t line = cpu_nest_length(&kernel->free), axis = cpu_max(1, kernel->axis_size);
  int64_t total;
  if (__builtin_mul_overflow(kernel->colliding_count, kernel->free_count, &total))
    total = INT64_MAX;
  int64_t wanted = cpu_min(total / WORK, cpu_min(threads * TASKS_PER_THREAD, MOST_TASKS));
  if (wanted < 1 || threads == 1) wanted = 1;

  kernel->ranges = 1;
  kernel->width = kernel->rounds ? cpu_min(line, RUN) : line;
  count_tiles(kernel);
  if (kernel->tiles < wanted) {
    const int64_t width = cpu_divide_up(line, cpu_divide_up(wanted, kernel->free_count / line));
    const int64_t lines = cpu_divide_up(width, LINE) * LINE;
    kernel->width = cpu_min(kernel->width, goes_along(kernel, line) ? width : lines);
    count_tiles(kernel);
  }
  /* Every range costs a pass over all indices. */
  const int64_t parts = cpu_min(wanted, threads);
  if (kernel->tiles < parts) kernel->ranges = cpu_min(cpu_divide_up(parts, kernel->tiles), axis);
  if (kernel->rounds && cpu_divide_up(axis, kernel->ranges) > SUMS / kernel->width) {
    kernel->width = cpu_min(kernel->width, cpu_max(RUN / 4, SUMS / axis / LINE * LINE));
    count_tiles(kernel);
    kernel->ranges = cpu_max(kernel->ranges, cpu_divide_up(axis, SUMS / kernel->width));
  }
  kernel->along = goes_along(kernel, kernel->width);
  kernel->lists = shares_indices(kernel);
  kernel->tasks = cpu_min(kernel->tiles * kernel->ranges, cpu_max(wanted, kernel->ranges));
  kernel->check_tasks = cpu_max(1, cpu_min(wanted, kernel->index_count / WORK));

  const int64_t rows = cpu_divide_up(axis, kernel->ranges);
  const uint64_t sums = (uint64_t)(RUN + rows * kernel->width) * sizeof(float);
  kernel->worker_bytes = sizeof(cpu_scratch) + cpu_whole_lines(sums + (uint64_t)rows);
}

static compute_status prepare_conversions(scatter_kernel *kernel, compute_dtype dtype) {
  cpu_device *device = kernel->head.device;
  const compute_dtype sums = COMPUTE_F32;
  const compute_program none = {0};
  kernel->rounds =
      (dtype == COMPUTE_F16 || dtype == COMPUTE_BF16) && kernel->mode != COMPUTE_SCATTER_SET;
  if (!kernel->rounds) return COMPUTE_OK;
  const compute_status status =
      cpu_program_prepare(device, &none, 1, &dtype, 1, &sums, &kernel->widen);
  return status ? status : cpu_program_prepare(device, &none, 1, &sums, 1, &dtype, &kernel->narrow);
}

static void describe(scatter_kernel *kernel) {
  const char *what = kernel->along ? "single elements" : "slices";
  snprintf(kernel->head.description, sizeof kernel->head.description,
           "scatter %s, %lld tiles by %lld ranges%s", what, (long long)kernel->tiles,
           (long long)kernel->ranges, kernel->rounds ? ", summed in f32" : "");
}

static void scatter_clear(cpu_kernel *head) {
  scatter_kernel *kernel = (scatter_kernel *)head;
  cpu_program_release(head->device, kernel->widen);
  cpu_program_release(head->device, kernel->narrow);
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  return loops_of(descriptor->outputs[0].dtype, compute_index_of(descriptor)->mode)
             ? NULL
             : "this dtype cannot be added";
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  const compute_dtype dtype = descriptor->outputs[0].dtype;
  cpu_device *device = head->device;
  scatter_kernel *kernel = (scatter_kernel *)head;
  kernel->axis_size = compute_index_of(descriptor)->axis_size;
  kernel->wrap = cpu_index_wrap(descriptor);
  kernel->axis_stride = compute_index_of(descriptor)->axis_stride;
  kernel->bytes = cpu_dtype_size(dtype);
  kernel->wide_index = descriptor->inputs[1].dtype == COMPUTE_I64;
  kernel->mode = compute_index_of(descriptor)->mode;
  kernel->loops = loops_of(dtype, kernel->mode);
  const compute_status status = prepare_conversions(kernel, dtype);
  if (status) return status;
  build_nests(kernel, descriptor);
  if (!count_points(kernel)) return cpu_fail_overflow(head);
  if (kernel->colliding_count > 0 && kernel->free_count > 0) choose_tasks(kernel, device->threads);
  describe(kernel);
  return COMPUTE_OK;
}

const cpu_kind cpu_scatter_kind = {.name = "scatter",
                                   .refuse = refuse_descriptor,
                                   .bytes = sizeof(scatter_kernel),
                                   .prepare = prepare,
                                   .run = scatter_run_kernel,
                                   .clear = scatter_clear};
