/* SPDX-License-Identifier: MIT */
/* REDUCE: any mix of kept and reduced dimensions, strides, programs and combinations.
 *
 * The space is two nests, the kept dimensions and the reduced ones. They are divided into tiles
 * (`width` elements along the last kept dimension) and chunks (`length` elements along the last
 * reduced one). A tile processes its chunks in sequence. Each gives a vector of partial results,
 * which are combined pairwise, like the carries of a binary counter, so that the rounding error of
 * a sum grows with the logarithm of its length. Inside a chunk the loop runs along the better
 * dimension for memory access:
 *
 *   rows      along the reduced dimension: each line of the panel folds to one value
 *   columns   along the kept dimension: lines are added to each other as vectors
 *
 * Elements are read in place if they are contiguous and already have the accumulating type;
 * otherwise the prologue first writes a panel that fits the L1 cache.
 *
 * Threads share the tiles. If there are too few, the chunks of a tile are split as well, and a
 * second pass combines the splits. Each split except the last has a power of two of chunks, so the
 * partial results are combined in the same pairs as without splits. So neither the number of
 * threads nor the number of tiles changes a bit of the result. */
#include <stdio.h>
#include <string.h>

#include "program/program.h"
#include "row/isa/row_table.h"
#include "core/nest.h"

enum {
  LONGEST = 1 << 14,  /* elements of a chunk that are folded in place */
  PANEL = 2048,       /* values per prologue run, folded afterwards */
  WIDEST = 1024,      /* columns of a tile … */
  PANEL_WIDEST = 256, /* … so that its panel has enough lines */
  NARROWEST = 256,    /* minimum columns of a tile when tiles are narrowed for the threads */
  STACKED = 256,      /* results of tiles that are folded together */
  WORK = 1 << 15,     /* with fewer elements, another thread does not pay */
  TASKS_PER_THREAD = 4
};

typedef struct reduce_kernel {
  cpu_kernel head;
  cpu_stage prologue, epilogue;
  cpu_nest kept, reduced;
  const cpu_fold *fold;     /* NULL for ARGMAX and ARGMIN */
  const cpu_fold *reads;    /* of elements; else `fold`. Sums of squares have another one */
  const cpu_search *search; /* NULL for the other operations */
  int32_t position;         /* operand number: row-major position in the reduced dimensions */
  uint32_t value_bytes;
  bool columns; /* tiles run along the kept dimension */
  bool direct;  /* no prologue: elements are folded in place */
  bool flat;    /* neighbouring lines are contiguous for every operand of the prologue */
  bool boxes;   /* short lines of a panel run together */
  int64_t kept_count, reduced_count; /* 0 if any size is 0 */
  int64_t width, tiles_per_line, tiles;
  int64_t length, chunks_per_line, chunks;
  int64_t splits, chunks_per_split, tasks;
  int64_t stacked; /* neighbouring tiles that are folded together; 1 if they cannot */
  int64_t slots;   /* for one worker, with `width` · `stacked` values each */
} reduce_kernel;

/* `width` partial results. */
typedef struct slot {
  unsigned char *values;
  int64_t *positions; /* NULL for folds */
} slot;

/* A worker's memory besides its slots; the copies of a box's inputs follow (cpu_stage_box). */
typedef struct work_memory {
  cpu_scratch scratch;
  _Alignas(64) unsigned char panel[PANEL * sizeof(double)];
  unsigned char copies[];
} work_memory;

typedef struct launch {
  const reduce_kernel *kernel;
  void *const *pointers;
  unsigned char *memory; /* one work_memory per worker, memory_bytes apart */
  uint64_t memory_bytes;
  unsigned char *workers;  /* the workers' slots */
  unsigned char *partials; /* a slot for every split of every tile */
} launch;

/* A worker's current job. */
typedef struct job {
  const launch *launch;
  cpu_scratch *scratch;
  unsigned char *panel, *copies;
  unsigned char *slots;
  cpu_walk kept_walk, reduced_walk;
  int64_t kept_first, kept_count;
  int64_t reduced_first, reduced_count;
  cpu_place place;
} job;

/* ---- Slots --------------------------------------------------------------------------------- */

static uint64_t slot_values_bytes(const reduce_kernel *kernel) {
  const int64_t packs = kernel->stacked > 1 ? 64 : 0; /* a loop stores whole packs */
  return cpu_whole_lines((uint64_t)(kernel->width * kernel->stacked + packs) * kernel->value_bytes);
}

static uint64_t slot_bytes(const reduce_kernel *kernel) {
  const uint64_t positions =
      kernel->search ? (uint64_t)(kernel->width * kernel->stacked) * sizeof(int64_t) : 0;
  return slot_values_bytes(kernel) + cpu_whole_lines(positions);
}

static slot slot_at(const reduce_kernel *kernel, unsigned char *slots, int64_t index) {
  unsigned char *values = slots + (uint64_t)index * slot_bytes(kernel);
  unsigned char *positions = values + slot_values_bytes(kernel);
  return (slot){values, kernel->search ? (int64_t *)(void *)positions : NULL};
}

static void merge(const reduce_kernel *kernel, slot into, slot from, int64_t count) {
  if (kernel->search)
    kernel->search->merge(into.values, into.positions, from.values, from.positions, count);
  else
    kernel->fold->columns(from.values, 0, 1, count, into.values);
}

/* ---- One chunk of one tile ----------------------------------------------------------------- */

/* Folds lines `first_line` … of the chunk, `step` elements apart, into the slot. */
static void consume(const job *j, const void *source, int64_t step, int64_t first_line,
                    int64_t lines, slot into) {
  const reduce_kernel *kernel = j->launch->kernel;
  const int64_t length = kernel->columns ? j->kept_count : j->reduced_count;
  const int64_t skipped = kernel->columns ? 0 : first_line;
  void *values = into.values + skipped * (int64_t)kernel->value_bytes;
  if (kernel->search) {
    const int64_t stride = cpu_nest_step(&kernel->reduced, kernel->position);
    const int64_t first = j->reduced_walk.offset[kernel->position] + j->reduced_first * stride;
    if (kernel->columns)
      kernel->search->columns(source, step, lines, length, first + first_line * stride, stride,
                              values, into.positions, first_line > 0);
    else
      kernel->search->rows(source, step, lines, length, first, stride, values,
                           into.positions + skipped);
  } else if (kernel->columns) {
    if (first_line == 0) kernel->reads->clear(values, length);
    kernel->reads->columns(source, step, lines, length, values);
  } else {
    kernel->reads->rows(source, step, lines, length, values);
  }
}

static void set_place(job *j, int64_t line) {
  const reduce_kernel *kernel = j->launch->kernel;
  const int64_t kept = j->kept_first + (kernel->columns ? 0 : line);
  const int64_t reduced = j->reduced_first + (kernel->columns ? line : 0);
  cpu_place_set(&j->place, (cpu_position){&kernel->kept, &j->kept_walk, kept},
                (cpu_position){&kernel->reduced, &j->reduced_walk, reduced});
}

/* Runs the prologue over `stacks` times `lines` lines together. Stacks are along the second last
 * kept dimension. */
static void fill_box(job *j, int64_t stacks, int64_t lines, int64_t length) {
  const reduce_kernel *kernel = j->launch->kernel;
  const cpu_nest *kept = &kernel->kept, *reduced = &kernel->reduced;
  const cpu_nest *along = kernel->columns ? kept : reduced;
  const cpu_nest *across = kernel->columns ? reduced : kept;
  const cpu_stage_box box = {.count = {stacks, lines, length},
                             .nest = {kept, across, along},
                             .dimension = {(int32_t)cpu_max(kept->rank - 2, 0),
                                           cpu_nest_last(across), cpu_nest_last(along)},
                             .copies = j->copies};
  cpu_stage_run_box(&kernel->prologue, &box, &j->place, j->launch->pointers, j->panel, j->scratch);
}

/* Runs the prologue over `lines` lines and writes them to the panel one after the other. */
static void fill_panel(job *j, int64_t first_line, int64_t lines, int64_t length) {
  const reduce_kernel *kernel = j->launch->kernel;
  const cpu_nest *along = kernel->columns ? &kernel->kept : &kernel->reduced;
  const int64_t runs = kernel->flat ? 1 : lines;
  const int64_t count = kernel->flat ? lines * length : length;
  if (runs > 1) {
    set_place(j, first_line);
    if (cpu_stage_run_lines(&kernel->prologue, along,
                            kernel->columns ? &kernel->reduced : &kernel->kept, &j->place,
                            j->launch->pointers, j->panel, lines, length))
      return;
    if (kernel->boxes) {
      fill_box(j, 1, lines, length);
      return;
    }
  }
  for (int64_t r = 0; r < runs; r++) {
    set_place(j, first_line + r);
    cpu_stage_run(&kernel->prologue, along, &j->place, j->launch->pointers,
                  j->panel + r * length * (int64_t)kernel->value_bytes, count, j->scratch, false);
  }
}

static void fold_chunk(job *j, slot into) {
  const reduce_kernel *kernel = j->launch->kernel;
  const int64_t lines = kernel->columns ? j->reduced_count : j->kept_count;
  const int64_t length = kernel->columns ? j->kept_count : j->reduced_count;
  if (kernel->direct) {
    const cpu_nest *across = kernel->columns ? &kernel->reduced : &kernel->kept;
    set_place(j, 0);
    consume(j, cpu_place_address(&kernel->prologue, &j->place, j->launch->pointers, 0),
            cpu_nest_step(across, 0), 0, lines, into);
    return;
  }
  /* Columns are summed four lines at a time. */
  int64_t fitting = PANEL / length;
  if (kernel->columns && fitting < lines) fitting = fitting / 4 * 4;
  for (int64_t l = 0; l < lines; l += fitting) {
    const int64_t count = lines - l < fitting ? lines - l : fitting;
    fill_panel(j, l, count, length);
    consume(j, j->panel, length, l, count, into);
  }
}

/* ---- One tile ------------------------------------------------------------------------------ */

static void start_tile(job *j, int64_t tile) {
  const reduce_kernel *kernel = j->launch->kernel;
  const int64_t length = cpu_nest_length(&kernel->kept);
  cpu_walk_start(&kernel->kept, kernel->kept.rank - 1, tile / kernel->tiles_per_line,
                 &j->kept_walk);
  j->kept_first = tile % kernel->tiles_per_line * kernel->width;
  j->kept_count = length - j->kept_first < kernel->width ? length - j->kept_first : kernel->width;
}

/* Folds chunks begin … end−1 of the tile into slot 0 of the worker. */
static void fold_tile(job *j, int64_t begin, int64_t end) {
  const reduce_kernel *kernel = j->launch->kernel;
  const int32_t outer = kernel->reduced.rank - 1;
  const int64_t line = cpu_nest_length(&kernel->reduced);
  int64_t piece = 0, top = 0;
  if (begin == end) {
    const slot nothing = slot_at(kernel, j->slots, 0);
    if (kernel->fold) kernel->fold->clear(nothing.values, j->kept_count);
    if (kernel->search) memset(nothing.positions, 0, (size_t)j->kept_count * sizeof(int64_t));
    return;
  }
  piece = begin % kernel->chunks_per_line;
  cpu_walk_start(&kernel->reduced, outer, begin / kernel->chunks_per_line, &j->reduced_walk);
  for (int64_t c = begin; c < end; c++) {
    j->reduced_first = piece * kernel->length;
    j->reduced_count = line - j->reduced_first;
    if (j->reduced_count > kernel->length) j->reduced_count = kernel->length;
    fold_chunk(j, slot_at(kernel, j->slots, top++));

    /* One carry for each trailing zero of the number of chunks so far. */
    for (int64_t n = c - begin + 1; !(n & 1); n >>= 1, top--)
      merge(kernel, slot_at(kernel, j->slots, top - 2), slot_at(kernel, j->slots, top - 1),
            j->kept_count);
    if (++piece == kernel->chunks_per_line) {
      piece = 0;
      cpu_walk_next(&kernel->reduced, outer, &j->reduced_walk);
    }
  }
  for (; top > 1; top--)
    merge(kernel, slot_at(kernel, j->slots, top - 2), slot_at(kernel, j->slots, top - 1),
          j->kept_count);
}

/* Passes a tile's results to the epilogue. */
static void store_tile(job *j, slot from) {
  const reduce_kernel *kernel = j->launch->kernel;
  static const cpu_walk start = {{0}, {0}};
  cpu_place_set(&j->place, (cpu_position){&kernel->kept, &j->kept_walk, j->kept_first},
                (cpu_position){&kernel->reduced, &start, 0});
  cpu_stage_run(&kernel->epilogue, &kernel->kept, &j->place, j->launch->pointers,
                kernel->search ? (void *)from.positions : from.values, j->kept_count, j->scratch,
                false);
}

/* Short stacks of lines side by side: as many as a slot holds are folded in one loop, and stored as
 * one line. Returns their number. */
static int64_t fold_stacks(job *j, int64_t tile, int64_t end) {
  const reduce_kernel *kernel = j->launch->kernel;
  const int32_t outer = kernel->kept.rank - 2, read = kernel->position;
  const int64_t left = kernel->kept.size[outer] - tile % kernel->kept.size[outer];
  const int64_t count = cpu_min(cpu_min(kernel->stacked, left), end - tile);
  int64_t apart = kernel->kept.stride[0][outer], step = cpu_nest_step(&kernel->reduced, 0);
  const slot to = slot_at(kernel, j->slots, 0);
  start_tile(j, tile);
  cpu_walk_start(&kernel->reduced, kernel->reduced.rank - 1, 0, &j->reduced_walk);
  j->reduced_first = 0;
  set_place(j, 0);
  const void *source = j->panel;
  if (kernel->direct) {
    source = cpu_place_address(&kernel->prologue, &j->place, j->launch->pointers, 0);
  } else {
    fill_box(j, count, kernel->length, kernel->width);
    step = kernel->width;
    apart = kernel->length * kernel->width;
  }
  if (kernel->search)
    kernel->search->stacks(source, apart, count, step, kernel->length, kernel->width,
                           j->reduced_walk.offset[read], cpu_nest_step(&kernel->reduced, read),
                           to.values, to.positions);
  else
    kernel->reads->stacks(source, apart, count, step, kernel->length, kernel->width, to.values);
  j->kept_count *= count;
  store_tile(j, to);
  return count;
}

static job start_job(const launch *l, int32_t worker) {
  const uint64_t slots = (uint64_t)worker * (uint64_t)l->kernel->slots;
  work_memory *memory = (work_memory *)(void *)(l->memory + (uint64_t)worker * l->memory_bytes);
  return (job){
      .launch = l,
      .scratch = &memory->scratch,
      .panel = memory->panel,
      .copies = memory->copies,
      .slots = l->workers + slots * slot_bytes(l->kernel),
  };
}

static void reduce_task(void *argument, int64_t task, int32_t worker) {
  const launch *l = argument;
  const reduce_kernel *kernel = l->kernel;
  job j = start_job(l, worker);
  if (kernel->splits > 1) {
    const int64_t tile = task / kernel->splits, split = task % kernel->splits;
    start_tile(&j, tile);
    const int64_t first = split * kernel->chunks_per_split;
    fold_tile(&j, first, cpu_min(first + kernel->chunks_per_split, kernel->chunks));
    memcpy(slot_at(kernel, l->partials, task).values, slot_at(kernel, j.slots, 0).values,
           (size_t)slot_bytes(kernel));
    return;
  }
  const int64_t end = (task + 1) * kernel->tiles / kernel->tasks;
  int64_t tile = task * kernel->tiles / kernel->tasks;
  while (kernel->stacked > 1 && tile < end) tile += fold_stacks(&j, tile, end);
  for (; tile < end; tile++) {
    start_tile(&j, tile);
    fold_tile(&j, 0, kernel->chunks);
    store_tile(&j, slot_at(kernel, j.slots, 0));
  }
}

/* The second pass: combines the splits of one tile pairwise. */
static void merge_task(void *argument, int64_t tile, int32_t worker) {
  const launch *l = argument;
  const reduce_kernel *kernel = l->kernel;
  job j = start_job(l, worker);
  start_tile(&j, tile);
  const int64_t first = tile * kernel->splits;
  for (int64_t step = 1; step < kernel->splits; step *= 2)
    for (int64_t s = 0; s + step < kernel->splits; s += 2 * step)
      merge(kernel, slot_at(kernel, l->partials, first + s),
            slot_at(kernel, l->partials, first + s + step), j.kept_count);
  store_tile(&j, slot_at(kernel, l->partials, first));
}

static compute_status reduce_run(const cpu_kernel *head, void *const *pointers) {
  const reduce_kernel *kernel = (const reduce_kernel *)head;
  cpu_device *device = head->device;
  if (kernel->kept_count == 0) return COMPUTE_OK;
  const uint64_t bytes = slot_bytes(kernel);
  const uint64_t threads = (uint64_t)(kernel->tasks > 1 ? device->threads : 1);
  const uint64_t copies =
      kernel->boxes ? (uint64_t)kernel->prologue.inputs * cpu_stage_copy_bytes(PANEL) : 0;
  const uint64_t memories = threads * (sizeof(work_memory) + copies);
  const uint64_t workers = bytes * (uint64_t)kernel->slots * threads;
  const uint64_t partials = kernel->splits > 1 ? bytes * (uint64_t)kernel->tasks : 0;
  const uint64_t whole = memories + workers + partials;
  unsigned char *memory = cpu_workspace_acquire(device, whole);
  if (!memory) return cpu_out_of_memory(device, whole);
  launch l = {kernel,
              pointers,
              memory,
              sizeof(work_memory) + copies,
              memory + memories,
              memory + memories + workers};
  cpu_parallel(device, kernel->tasks, reduce_task, &l);
  if (kernel->splits > 1) cpu_parallel(device, kernel->tiles, merge_task, &l);
  cpu_workspace_return(device, memory);
  return COMPUTE_OK;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* `true` if loops can read elements without a prologue. */
static bool in_place(const reduce_kernel *kernel) {
  return kernel->prologue.identity || kernel->reads != kernel->fold;
}

/* `true` if a prologue can run over boxes. */
static bool can_box(const cpu_stage *prologue) {
  enum { MOST_INPUTS = 4 };
  return !prologue->coordinates && !prologue->positions && prologue->inputs <= MOST_INPUTS;
}

/* The cost of reading the prologue's inputs when a tile runs along dimension d: about the cycles
 * per element, with the cost of starting a line spread over its length. */
static int64_t cost_along(const reduce_kernel *kernel, const cpu_nest *nest, int32_t d) {
  /* Few columns with contiguous lines are folded like one long line; stacks of them are searched,
   * or computed in a panel, together. */
  const bool stacks = nest->rank > 1 && kernel->reduced.rank == 1 &&
                      (in_place(kernel) || (can_box(&kernel->prologue) &&
                                            cpu_nest_length(&kernel->reduced) <= CPU_STACK_LINES));
  const bool gapless = nest == &kernel->kept && nest->stride[0][d] == 1 &&
                       cpu_nest_step(&kernel->reduced, 0) == nest->size[d] &&
                       ((kernel->fold && in_place(kernel)) || stacks);
  int64_t cost = (gapless ? 64 * 4 : 64 * 32) / nest->size[d];
  for (int32_t i = 0; i < kernel->prologue.inputs; i++) {
    const int64_t stride = nest->stride[i][d];
    const int64_t step = stride < 0 ? -stride : stride;
    cost += step <= 1 ? 64 * step : 64 * (2 + (step < 16 ? step : 16) / 2);
  }
  return cost;
}

static int32_t cheapest(const reduce_kernel *kernel, const cpu_nest *nest, int64_t *cost) {
  int32_t best = nest->rank - 1;
  *cost = cost_along(kernel, nest, best);
  for (int32_t d = best - 1; d >= 0; d--) {
    const int64_t other = cost_along(kernel, nest, d);
    if (other < *cost) {
      *cost = other;
      best = d;
    }
  }
  return best;
}

/* The prologue's input that repeats along the fewest dimensions; −1 if there is no input. */
static int32_t main_input(const compute_kernel_descriptor *descriptor) {
  int32_t best = -1, most = -1;
  for (uint32_t i = 0; i < descriptor->prologue_inputs; i++) {
    int32_t walked = 0;
    for (int32_t d = 0; d < descriptor->rank; d++)
      walked += descriptor->inputs[i].stride[d] != 0 && descriptor->size[d] > 1;
    if (walked > most) {
      most = walked;
      best = (int32_t)i;
    }
  }
  return best;
}

static void build_nests(reduce_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  const int32_t kept = compute_reduce_of(descriptor)->kept_rank, rank = descriptor->rank;
  const int64_t nowhere[COMPUTE_MAX_RANK] = {0};
  cpu_nest_begin(&kernel->kept, descriptor, 0, kept);
  cpu_nest_begin(&kernel->reduced, descriptor, kept, rank);
  if (kernel->search) {
    kernel->position = cpu_nest_add(&kernel->kept, nowhere);
    cpu_nest_add_position(&kernel->reduced, descriptor, kept, rank);
  }
  if (kernel->prologue.positions) {
    kernel->prologue.position = cpu_nest_add_position(&kernel->kept, descriptor, 0, rank);
    cpu_nest_add_position(&kernel->reduced, descriptor, 0, rank);
  }
  if (kernel->epilogue.positions) {
    kernel->epilogue.position = cpu_nest_add_position(&kernel->kept, descriptor, 0, kept);
    cpu_nest_add(&kernel->reduced, nowhere);
  }
  const int32_t leading = main_input(descriptor);
  if (leading >= 0) {
    cpu_nest_sort(&kernel->kept, leading);
    cpu_nest_sort(&kernel->reduced, leading);
  }
  if (!kernel->prologue.coordinates && !kernel->epilogue.coordinates) {
    cpu_nest_collapse(&kernel->kept);
    cpu_nest_collapse(&kernel->reduced);
  }
  cpu_nest_finish(&kernel->kept);
  cpu_nest_finish(&kernel->reduced);
}

/* `true` if a panel's lines are contiguous for every operand of the prologue. */
static bool lines_are_flat(const reduce_kernel *kernel, const cpu_nest *along,
                           const cpu_nest *across) {
  const cpu_stage *prologue = &kernel->prologue;
  if (prologue->coordinates) return false;
  const int64_t length = cpu_nest_length(along);
  for (int32_t i = 0; i < prologue->inputs; i++)
    if (cpu_nest_step(across, i) != length * cpu_nest_step(along, i)) return false;
  return prologue->position < 0 || cpu_nest_step(across, prologue->position) ==
                                       length * cpu_nest_step(along, prologue->position);
}

/* Tiles of rows run along the last kept dimension. If it is short, a long one replaces it: each
 * tile costs about a microsecond. */
static void lengthen_tiles(cpu_nest *kept) {
  enum { SHORT = 8 };
  int32_t longest = kept->rank - 1;
  if (cpu_nest_length(kept) >= SHORT) return;
  for (int32_t d = 0; d < kept->rank; d++)
    if (kept->size[d] > kept->size[longest]) longest = d;
  cpu_nest_make_last(kept, longest);
}

static void choose_direction(reduce_kernel *kernel) {
  int64_t kept_cost, reduced_cost;
  const int32_t kept = cheapest(kernel, &kernel->kept, &kept_cost);
  const int32_t reduced = cheapest(kernel, &kernel->reduced, &reduced_cost);
  /* Rows that do not follow each other start the prologue for each. */
  if (!in_place(kernel) && !lines_are_flat(kernel, &kernel->reduced, &kernel->kept))
    reduced_cost += 64 * 64 / kernel->reduced.size[reduced];
  kernel->columns = kept_cost < reduced_cost;
  if (kernel->columns) {
    cpu_nest_make_last(&kernel->kept, kept);
  } else {
    cpu_nest_make_last(&kernel->reduced, reduced);
    lengthen_tiles(&kernel->kept);
  }
  const cpu_nest *along = kernel->columns ? &kernel->kept : &kernel->reduced;
  const cpu_nest *across = kernel->columns ? &kernel->reduced : &kernel->kept;
  kernel->direct =
      in_place(kernel) && (cpu_nest_step(along, 0) == 1 || cpu_nest_length(along) == 1);
  if (!kernel->direct) kernel->reads = kernel->fold;
  kernel->flat = !kernel->direct && lines_are_flat(kernel, along, across);
}

/* Nearly equal pieces of at most `longest`, in whole cache lines if possible. */
static int64_t even_pieces(int64_t length, int64_t longest) {
  if (length <= longest) return cpu_max(length, 1);
  const int64_t piece = cpu_divide_up(length, cpu_divide_up(length, longest));
  return cpu_min((piece + 15) / 16 * 16, longest);
}

static void choose_extents(reduce_kernel *kernel) {
  const int64_t kept = cpu_nest_length(&kernel->kept);
  const int64_t reduced = cpu_nest_length(&kernel->reduced);
  const int64_t tile = kernel->direct ? LONGEST : cpu_min(PANEL, kernel->prologue.tile_elements);
  if (kernel->columns) {
    /* Lines of a chunk are summed sequentially, so there are few of them, unless they are very
     * short. With fewer columns there are no more lines, because the columns may be part of a
     * batch. */
    const int64_t few = reduced > 0 ? PANEL / reduced : PANEL; /* columns that fill a panel */
    const int64_t widest = kernel->direct ? WIDEST : cpu_min(cpu_max(few, PANEL_WIDEST), WIDEST);
    kernel->width = even_pieces(kept, cpu_min(widest, tile));
    const int64_t most = cpu_max(64, (kernel->fold ? 1024 : WORK) / kernel->width);
    kernel->length = cpu_max(1, cpu_min(reduced, most));
  } else {
    kernel->length = even_pieces(reduced, tile);
    /* Each short line would take longer to set up than to fold. */
    const int64_t most = reduced <= kernel->length && kernel->reduced.rank == 1
                             ? 256
                             : cpu_max(16, cpu_min(tile, PANEL) / kernel->length);
    kernel->width = cpu_min(kept, most);
  }
}

static void count_pieces(reduce_kernel *kernel) {
  const int64_t kept = cpu_nest_length(&kernel->kept);
  const int64_t reduced = cpu_nest_length(&kernel->reduced);
  kernel->tiles_per_line = cpu_divide_up(kept, kernel->width);
  kernel->tiles = kernel->kept_count / kept * kernel->tiles_per_line;
  kernel->chunks_per_line = reduced ? cpu_divide_up(reduced, kernel->length) : 0;
  kernel->chunks =
      kernel->reduced_count ? kernel->reduced_count / reduced * kernel->chunks_per_line : 0;
}

/* Distributes the tiles over the threads; narrows and then splits them while there are too few. */
static void choose_tasks(reduce_kernel *kernel, int32_t threads,
                         const compute_kernel_descriptor *descriptor) {
  /* In loads and additions; the other instructions of the programs take about a quarter of one. */
  const int64_t inner = 3 + cpu_max(descriptor->prologue.count, 1),
                outer = descriptor->epilogue.count;
  int64_t total;
  if (__builtin_mul_overflow(kernel->reduced_count, inner, &total) ||
      __builtin_add_overflow(total, outer, &total) ||
      __builtin_mul_overflow(kernel->kept_count, total, &total))
    total = INT64_MAX;
  total /= 4;
  const int64_t most = threads > 1 ? (int64_t)threads * TASKS_PER_THREAD : 1;
  const int64_t wanted = cpu_max(1, cpu_min(most, total / WORK));
  count_pieces(kernel);
  if (kernel->tiles < wanted) {
    const int64_t kept = cpu_nest_length(&kernel->kept);
    const int64_t narrowest = kernel->columns ? NARROWEST : 1;
    const int64_t pieces = cpu_divide_up(wanted, kernel->kept_count / kept);
    const int64_t width = cpu_max(narrowest, cpu_divide_up(kept, pieces));
    kernel->width = cpu_min(kernel->width, kernel->columns ? (width + 15) / 16 * 16 : width);
    count_pieces(kernel);
  }
  kernel->splits = 1;
  kernel->chunks_per_split = cpu_max(1, kernel->chunks);
  if (kernel->tiles < wanted && kernel->chunks > 1) {
    const int64_t most_splits = cpu_divide_up(wanted, kernel->tiles);
    kernel->chunks_per_split = 1;
    while (cpu_divide_up(kernel->chunks, kernel->chunks_per_split) > most_splits)
      kernel->chunks_per_split *= 2;
    kernel->splits = cpu_divide_up(kernel->chunks, kernel->chunks_per_split);
  }
  kernel->tasks =
      kernel->splits > 1 ? kernel->tiles * kernel->splits : cpu_min(kernel->tiles, wanted);

  kernel->slots = 2;
  for (int64_t n = kernel->chunks_per_split; n > 0; n >>= 1) kernel->slots++;
}

/* `true` if an operand's results of neighbouring tiles form one line. */
static bool follows(const reduce_kernel *kernel, int32_t outer, int32_t operand) {
  return kernel->kept.stride[operand][outer] ==
         kernel->width * cpu_nest_step(&kernel->kept, operand);
}

/* Short lines of a panel run together. */
static bool pays_boxes(const reduce_kernel *kernel) {
  enum { SHORT = 128 };
  return !kernel->direct && can_box(&kernel->prologue) &&
         (kernel->columns ? kernel->width : kernel->length) < SHORT;
}

/* Stacks of few lines and columns are folded together if their results form one line. */
static void choose_stacks(reduce_kernel *kernel) {
  const cpu_nest *kept = &kernel->kept;
  const cpu_stage *epilogue = &kernel->epilogue;
  const int32_t outer = kept->rank - 2;
  kernel->stacked = 1;
  const bool panel = !kernel->direct; /* whole stacks fill it */
  if (!kernel->columns || (panel && !kernel->boxes) || outer < 0 || kernel->chunks != 1 ||
      kernel->tiles_per_line != 1 || (kernel->fold && kernel->length > CPU_STACK_LINES) ||
      2 * kernel->width > STACKED || epilogue->coordinates)
    return;
  bool flat = epilogue->position < 0 || follows(kernel, outer, epilogue->position);
  for (int32_t i = 0; i < epilogue->inputs; i++)
    flat = flat && follows(kernel, outer, epilogue->first_input + i);
  for (int32_t i = 0; i < epilogue->outputs; i++)
    flat = flat && follows(kernel, outer, epilogue->first_output + i);
  if (!flat) return;
  kernel->stacked = cpu_min(STACKED / kernel->width, kept->size[outer]);
  if (!panel) return;
  const int64_t fit = PANEL / (kernel->width * kernel->length);
  kernel->stacked = cpu_max(cpu_min(kernel->stacked, fit), 1);
}

static void describe(reduce_kernel *kernel, compute_combine combine) {
  static const char *const names[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  char splits[40] = "";
  if (kernel->splits > 1)
    snprintf(splits, sizeof splits, ", in %lld parts", (long long)kernel->splits);
  snprintf(kernel->head.description, sizeof kernel->head.description, "reduce %s %s, by %s, %s%s",
           names[combine], kernel->head.device->isa->name, kernel->columns ? "columns" : "rows",
           kernel->direct ? "in place" : "through tiles", splits);
}

static void reduce_clear(cpu_kernel *head) {
  reduce_kernel *kernel = (reduce_kernel *)head;
  cpu_stage_release(head->device, &kernel->prologue);
  cpu_stage_release(head->device, &kernel->epilogue);
}

static const cpu_reduce_loops *loops_of(const cpu_isa *isa, compute_dtype type) {
  return type == COMPUTE_BOOL ? CPU_PICK(isa, cpu_reduce_byte)
                              : CPU_PICK_NUMBER(isa, cpu_reduce, type);
}

/* Bool has only maximum and minimum. */
static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const compute_dtype type = descriptor->accumulate;
  const compute_combine combine = compute_reduce_of(descriptor)->combine;
  const bool number =
      type == COMPUTE_F64 || type == COMPUTE_F32 || type == COMPUTE_I64 || type == COMPUTE_I32;
  if ((unsigned)combine > COMPUTE_COMBINE_ARGMIN) return "no such combination";
  if (!number && type != COMPUTE_BOOL) return "this dtype cannot be combined";
  if (!number && combine != COMPUTE_COMBINE_MAX && combine != COMPUTE_COMBINE_MIN)
    return "bool has only a maximum and a minimum";
  return NULL;
}

/* `true` if f64 sums of the squares of f32 elements are wanted. */
static bool sums_squares(const compute_kernel_descriptor *descriptor) {
  const compute_program *p = &descriptor->prologue;
  if (compute_reduce_of(descriptor)->combine != COMPUTE_COMBINE_SUM ||
      descriptor->accumulate != COMPUTE_F64 || descriptor->prologue_inputs != 1 ||
      descriptor->inputs[0].dtype != COMPUTE_F32 || p->count != 3 || p->outputs[0] != 2)
    return false;
  const compute_instruction *i = p->instructions;
  const bool squares =
      i[2].code == COMPUTE_I_SQUARE || (i[2].code == COMPUTE_I_MUL && i[2].a == i[2].b);
  return i[0].code == COMPUTE_I_LOAD && i[1].code == COMPUTE_I_CAST && i[1].a == 0 &&
         i[1].type == COMPUTE_F64 && squares && i[2].a == 1;
}

static void choose_loops(reduce_kernel *kernel, const compute_kernel_descriptor *descriptor) {
  const cpu_reduce_loops *loops = loops_of(kernel->head.device->isa, descriptor->accumulate);
  if (compute_reduce_of(descriptor)->combine == COMPUTE_COMBINE_ARGMAX)
    kernel->search = &loops->largest;
  else if (compute_reduce_of(descriptor)->combine == COMPUTE_COMBINE_ARGMIN)
    kernel->search = &loops->smallest;
  else
    kernel->fold = &loops->fold[compute_reduce_of(descriptor)->combine];
  kernel->reads = sums_squares(descriptor) ? &loops->squares : kernel->fold;
  kernel->value_bytes = cpu_dtype_size(descriptor->accumulate);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  cpu_device *device = head->device;
  reduce_kernel *kernel = (reduce_kernel *)head;
  choose_loops(kernel, descriptor);
  compute_status status =
      cpu_stage_prepare_prologue(device, descriptor, descriptor->accumulate, &kernel->prologue);
  if (!status)
    status = cpu_stage_prepare_epilogue(device, descriptor,
                                        kernel->search ? COMPUTE_I64 : descriptor->accumulate,
                                        &kernel->epilogue);
  if (status) return status;
  build_nests(kernel, descriptor);
  if (!cpu_nest_count(&kernel->kept, kernel->kept.rank, &kernel->kept_count) ||
      !cpu_nest_count(&kernel->reduced, kernel->reduced.rank, &kernel->reduced_count))
    return cpu_fail_overflow(head);
  if (kernel->kept_count > 0 && kernel->reduced_count > 0) choose_direction(kernel);
  if (kernel->kept_count > 0) {
    choose_extents(kernel);
    choose_tasks(kernel, device->threads, descriptor);
    /* Only whole lines are contiguous. */
    kernel->flat &= kernel->columns ? kernel->tiles_per_line == 1 : kernel->chunks_per_line == 1;
    kernel->boxes = pays_boxes(kernel);
    choose_stacks(kernel);
  }
  describe(kernel, compute_reduce_of(descriptor)->combine);
  return COMPUTE_OK;
}

const cpu_kind cpu_reduce_kind = {.name = "reduce",
                                  .refuse = refuse_descriptor,
                                  .bytes = sizeof(reduce_kernel),
                                  .prepare = prepare,
                                  .run = reduce_run,
                                  .clear = reduce_clear};
