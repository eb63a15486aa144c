/* SPDX-License-Identifier: MIT */
/* MAP: a program over a space of any rank.
 *
 * Tiles run along one dimension, chosen so that operands are read in memory order and tiles are
 * long. The loop over tiles is divided into tasks of some microseconds each; work smaller than two
 * tasks stays on the calling thread.
 *
 * Operands may have conflicting memory orders, as in x + transpose(y). Then consecutive tiles
 * follow the contiguous dimension of those operands, so that every cache line fetched by a strided
 * read also serves the next tiles. The inputs among them are transposed into a buffer,
 * some rows at a time, because lines that are a power of two apart do not stay in a cache. */
#include <stdio.h>
#include <string.h>

#include "core/cpu.h"
#include "map/patterns.h"
#include "program/formulas.h"
#include "program/program.h"
#include "core/nest.h"

/* The fixed cost of a tile, and the cost of an element, in units of about 0.1 ns. */
enum { TILE_COST = 400, STEP_COST = 80, LINE_COST = 50, DENSE_COST = 1, STRIDED_COST = 8 };
enum { TASK_COST = 40000, TASKS_PER_THREAD = 8 };
enum { BYTES_AT_ONCE = 4 }; /* elements of one byte in the time of one of four */

/* Lines that run together: the least number of them in a tile, and the operands that may be copied
 * for that. */
enum { BOX_LINES = 4, BOX_COPIES = 4 };

/* Lines of one operation with more bytes run without copies. Shorter ones are copied: 30,000 lines
 * of seven f32 plus one number each take 64 µs instead of 114. */
enum { SHORT_BYTES = 32 };

/* The least stride of crossing operands. Rows of a unit, and rows transposed at once. */
enum { CROSS_STRIDE = 16, CROSS_TILE = 128, CROSS_ROWS = 128, TURNED_ROWS = 32, MOST_TURNED = 2 };

/* A program of one operation on contiguous elements and numbers: it needs only its loop. On one
 * tile, a plan of 60 relus of 256 elements takes 54 µs instead of 64 this way. On short lines,
 * nothing is copied. */
typedef struct map_single {
  cpu_tile_loop loop;      /* NULL: not such a program */
  int32_t input[2];        /* input numbers, or −1 … */
  const void *constant[2]; /* … for these constants */
  cpu_immediate immediate;
} map_single;

typedef struct map_kernel {
  cpu_kernel head;
  cpu_program *program;
  int32_t inputs, outputs;
  uint32_t bytes[COMPUTE_MAX_OPERANDS];
  uint64_t output_bytes;
  cpu_nest nest;  /* tiles run along its last dimension */
  int32_t walked; /* number of dimensions that a unit's number counts */
  int64_t rows;   /* tiles of a unit, along dimension `walked`: 1, or many if memory orders
                   * conflict */
  int64_t length; /* of a tile */
  int64_t blocks; /* tiles along the last dimension */
  int64_t groups; /* groups of rows */
  int64_t units, tasks;
  int32_t position; /* operand number of the row-major position */
  int32_t turned_count;
  int32_t turned[MOST_TURNED]; /* inputs that are transposed into a buffer */
  cpu_patterns patterns;
  bool by_lines; /* units are lines of one loop (formulas.h) */
  bool by_boxes; /* units are short lines, which run together (program/box.c) … */
  bool by_loops; /* … or each by the loop of the single operation */
  map_single single;
} map_kernel;

/* A worker's memory: the tile's registers, and `turned_count` buffers for inputs. */
typedef struct map_memory {
  cpu_scratch scratch;
  unsigned char turned[][TURNED_ROWS * CROSS_TILE * 8];
} map_memory;

typedef struct map_run {
  const map_kernel *map;
  void *const *pointers;
  unsigned char *workers; /* a map_memory per worker */
  bool stream;
} map_run;

typedef struct map_task {
  const map_run *run;
  cpu_walk walk;
  cpu_tile tile;
  map_memory *memory;
} map_task;

static uint64_t worker_bytes(const map_kernel *map) {
  return sizeof(map_memory) + (uint64_t)map->turned_count * sizeof *((map_memory *)NULL)->turned;
}

/* ---- Running ------------------------------------------------------------------------------- */

/* Offset in an operand, `row` rows and `start` elements after the walk's position. */
static int64_t offset_at(const map_task *task, int32_t operand, int64_t row, int64_t start) {
  const map_kernel *map = task->run->map;
  const int64_t *stride = map->nest.stride[operand];
  const int32_t last = cpu_nest_last(&map->nest);
  const int64_t across = map->walked < last ? row * stride[map->walked] : 0;
  return task->walk.offset[operand] + across + start * stride[last];
}

static unsigned char *address_at(const map_task *task, int32_t operand, int64_t row,
                                 int64_t start) {
  return (unsigned char *)task->run->pointers[operand] +
         offset_at(task, operand, row, start) * (int64_t)task->run->map->bytes[operand];
}

static void place_tile(map_task *task, int64_t row, int64_t start) {
  const map_kernel *map = task->run->map;
  const cpu_nest *nest = &map->nest;
  const int32_t last = cpu_nest_last(nest), across = map->walked;
  cpu_tile *tile = &task->tile;
  for (int32_t k = 0; k < map->inputs; k++) tile->input[k] = address_at(task, k, row, start);
  for (int32_t k = 0; k < map->outputs; k++)
    tile->output[k] = address_at(task, map->inputs + k, row, start);
  tile->position = offset_at(task, map->position, row, start);
  for (int32_t d = 0; d < map->walked; d++)
    if (nest->origin[d] >= 0) tile->coordinate[nest->origin[d]] = task->walk.index[d];
  if (across < last && nest->origin[across] >= 0) tile->coordinate[nest->origin[across]] = row;
  if (nest->origin[last] >= 0) tile->coordinate[nest->origin[last]] = start;
}

/* Transposes rows row … row + rows − 1 of the crossing inputs, for one tile each, into the
 * buffers. */
static void turn_inputs(map_task *task, int64_t row, int64_t rows, int64_t start) {
  const map_kernel *map = task->run->map;
  const cpu_tile_table *table = map->head.device->isa->tile;
  for (int32_t i = 0; i < map->turned_count; i++) {
    const int32_t k = map->turned[i];
    const int64_t bytes = (int64_t)map->bytes[k];
    table->transpose[__builtin_ctzll((uint64_t)bytes)](
        task->tile.count, rows, address_at(task, k, row, start),
        cpu_nest_step(&map->nest, k) * bytes, task->memory->turned[i], CROSS_TILE * bytes);
  }
}

static void run_rows(map_task *task, int64_t first, int64_t end, int64_t start) {
  const map_kernel *map = task->run->map;
  turn_inputs(task, first, end - first, start);
  for (int64_t row = first; row < end; row++) {
    place_tile(task, row, start);
    for (int32_t i = 0; i < map->turned_count; i++)
      task->tile.input[map->turned[i]] =
          task->memory->turned[i] +
          (row - first) * CROSS_TILE * (int64_t)map->bytes[map->turned[i]];
    cpu_program_run(map->program, &task->tile, &task->memory->scratch, task->run->stream);
  }
}

static void run_unit(map_task *task, int64_t group, int64_t block) {
  const map_kernel *map = task->run->map;
  const cpu_nest *nest = &map->nest;
  const int64_t start = block * map->length, left = cpu_nest_length(nest) - start;
  const int64_t all_rows = map->walked < cpu_nest_last(nest) ? nest->size[map->walked] : 1;
  int64_t row = group * map->rows;
  const int64_t end = row + map->rows < all_rows ? row + map->rows : all_rows;
  task->tile.count = left < map->length ? left : map->length;
  for (; row < end; row += TURNED_ROWS)
    run_rows(task, row, row + TURNED_ROWS < end ? row + TURNED_ROWS : end, start);
}

static void set_strides(const map_kernel *map, cpu_tile *tile) {
  for (int32_t k = 0; k < map->inputs; k++) tile->input_stride[k] = cpu_nest_step(&map->nest, k);
  for (int32_t k = 0; k < map->outputs; k++)
    tile->output_stride[k] = cpu_nest_step(&map->nest, map->inputs + k);
  for (int32_t i = 0; i < map->turned_count; i++) tile->input_stride[map->turned[i]] = 1;
  tile->dimension = map->nest.origin[cpu_nest_last(&map->nest)];
  tile->position_step = cpu_nest_step(&map->nest, map->position);
}

/* Units that are lines: runs as many at once as are consecutive along the second to last
 * dimension. */
static void run_lines(map_task *task, int64_t first, int64_t end) {
  const map_kernel *map = task->run->map;
  const int32_t across = map->walked - 1;
  cpu_line_steps step;
  for (int32_t k = 0; k < map->inputs; k++) step.input[k] = map->nest.stride[k][across];
  for (int32_t k = 0; k < map->outputs; k++)
    step.output[k] = map->nest.stride[map->inputs + k][across];
  task->tile.count = cpu_nest_length(&map->nest);
  for (int64_t unit = first, lines; unit < end; unit += lines) {
    cpu_walk_start(&map->nest, map->walked, unit, &task->walk);
    lines = cpu_min(end - unit, map->nest.size[across] - task->walk.index[across]);
    place_tile(task, 0, 0);
    cpu_formula_run_lines(&map->program->formula, &task->tile, &step, lines);
  }
}

/* The steps of a box whose dimensions are the nest's last ones. */
static void set_box(const map_kernel *map, cpu_box *box) {
  const int32_t first = map->walked + 1 - box->rank;
  for (int32_t k = 0; k < map->inputs; k++)
    memcpy(box->input_step[k], map->nest.stride[k] + first, (size_t)box->rank * sizeof(int64_t));
  for (int32_t k = 0; k < map->outputs; k++)
    memcpy(box->output_step[k], map->nest.stride[map->inputs + k] + first,
           (size_t)box->rank * sizeof(int64_t));
}

/* The greatest box of consecutive lines from line `unit` on: lines along the dimension before the
 * last, or whole sets of those. */
static int64_t take_lines(const map_task *task, int64_t lines, cpu_box *box) {
  const cpu_nest *nest = &task->run->map->nest;
  const int32_t across = task->run->map->walked - 1;
  const int64_t size = nest->size[across], at = task->walk.index[across];
  const int32_t rank = across > 0 && at == 0 && lines >= 2 * size ? 3 : 2;
  if (box->rank != rank) {
    box->rank = rank;
    set_box(task->run->map, box);
  }
  box->count[rank - 1] = cpu_nest_length(nest);
  box->count[rank - 2] = cpu_min(lines, size - at);
  if (rank == 2) return box->count[0];
  box->count[0] = cpu_min(lines / size, nest->size[across - 1] - task->walk.index[across - 1]);
  return box->count[0] * size;
}

/* Units that are short lines: runs consecutive ones as boxes. */
static void run_boxes(map_task *task, int64_t first, int64_t end) {
  const map_kernel *map = task->run->map;
  cpu_box box = {.program = map->program};
  for (int64_t unit = first, lines; unit < end; unit += lines) {
    cpu_walk_start(&map->nest, map->walked, unit, &task->walk);
    lines = take_lines(task, end - unit, &box);
    for (int32_t k = 0; k < map->inputs; k++) box.input[k] = address_at(task, k, 0, 0);
    for (int32_t k = 0; k < map->outputs; k++)
      box.output[k] = address_at(task, map->inputs + k, 0, 0);
    cpu_box_run(&box, box.rank - 1);
  }
}

/* Units that are short lines of one operation. */
static void run_loops(map_task *task, int64_t first, int64_t end) {
  const map_kernel *map = task->run->map;
  const map_single *single = &map->single;
  const int32_t across = map->walked - 1, output = map->inputs;
  const int64_t count = cpu_nest_length(&map->nest);
  const int64_t to_step = map->nest.stride[output][across] * (int64_t)map->bytes[output];
  for (int64_t unit = first, lines; unit < end; unit += lines) {
    const unsigned char *from[2];
    int64_t step[2];
    cpu_walk_start(&map->nest, map->walked, unit, &task->walk);
    lines = cpu_min(end - unit, map->nest.size[across] - task->walk.index[across]);
    for (int i = 0; i < 2; i++) {
      const int32_t k = single->input[i];
      from[i] = k < 0 ? single->constant[i] : address_at(task, k, 0, 0);
      step[i] = k < 0 ? 0 : map->nest.stride[k][across] * (int64_t)map->bytes[k];
    }
    unsigned char *to = address_at(task, output, 0, 0);
    for (int64_t line = 0; line < lines; line++, to += to_step)
      single->loop(count, to, from[0] + line * step[0], from[1] ? from[1] + line * step[1] : NULL,
                   NULL, single->immediate);
  }
}

/* A share of the units. In the numbering, the block varies fastest, then the group of rows. */
static void run_task(void *argument, int64_t number, int32_t worker) {
  const map_run *run = argument;
  const map_kernel *map = run->map;
  const int64_t part = map->units / map->tasks, rest = map->units % map->tasks;
  const int64_t first = part * number + (number < rest ? number : rest);
  const int64_t end = first + part + (number < rest);
  map_task task;
  task.run = run;
  task.memory = (void *)(run->workers + (uint64_t)worker * worker_bytes(map));
  set_strides(map, &task.tile);
  if (map->by_lines && !run->stream) {
    run_lines(&task, first, end);
    return;
  }
  if (map->by_loops) {
    run_loops(&task, first, end);
    return;
  }
  if (map->by_boxes) {
    run_boxes(&task, first, end);
    return;
  }
  int64_t block = first % map->blocks, group = first / map->blocks % map->groups;
  cpu_walk_start(&map->nest, map->walked, first / map->blocks / map->groups, &task.walk);
  for (int64_t unit = first; unit < end; unit++) {
    run_unit(&task, group, block);
    if (++block < map->blocks) continue;
    block = 0;
    if (++group < map->groups) continue;
    group = 0;
    cpu_walk_next(&map->nest, map->walked, &task.walk);
  }
  if (run->stream) cpu_stream_fence();
}

/* Outputs larger than the caches use non-temporal stores, unless they overwrite data just read. */
static bool worth_streaming(const map_kernel *map, void *const *pointers) {
  if (map->output_bytes <= map->head.device->share_bytes / 2) return false;
  for (int32_t k = 0; k < map->outputs; k++)
    for (int32_t i = 0; i < map->inputs; i++)
      if (pointers[map->inputs + k] == pointers[i]) return false;
  return true;
}

static compute_status run_single(const map_kernel *map, void *const *pointers) {
  const map_single *single = &map->single;
  const void *operand[2];
  for (int i = 0; i < 2; i++)
    operand[i] = single->input[i] < 0 ? single->constant[i] : pointers[single->input[i]];
  single->loop(cpu_nest_length(&map->nest), pointers[map->inputs], operand[0], operand[1], NULL,
               single->immediate);
  return COMPUTE_OK;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

static compute_status run_flat(const map_kernel *map, void *const *pointers);

/* Runs with lines in place of the operands that repeat. */
static compute_status run_patterns(const map_kernel *map, void *const *pointers) {
  cpu_device *device = map->head.device;
  const uint64_t bytes = CPU_PATTERN_ELEMENTS * sizeof(double);
  void *operands[COMPUTE_MAX_OPERANDS];
  unsigned char *memory = cpu_workspace_acquire(device, bytes * (uint64_t)map->patterns.count);
  if (!memory) return cpu_out_of_memory(device, bytes * (uint64_t)map->patterns.count);
  memcpy(operands, pointers, (size_t)(map->inputs + map->outputs) * sizeof *operands);
  for (int32_t i = 0; i < map->patterns.count; i++) {
    const int32_t k = map->patterns.input[i];
    operands[k] = memory + (uint64_t)i * bytes;
    cpu_pattern_write(&map->patterns, k, (int64_t)map->bytes[k], pointers[k], operands[k]);
  }
  const compute_status status = run_flat(map, operands);
  cpu_workspace_return(device, memory);
  return status;
}

static compute_status run_map(const cpu_kernel *kernel, void *const *pointers) {
  const map_kernel *map = (const map_kernel *)kernel;
  return map->patterns.count > 0 ? run_patterns(map, pointers) : run_flat(map, pointers);
}

static compute_status run_flat(const map_kernel *map, void *const *pointers) {
  if (map->single.loop && !map->by_loops) return run_single(map, pointers);
  if (map->units == 0) return COMPUTE_OK;
  cpu_device *device = map->head.device;
  const uint64_t bytes = worker_bytes(map) * (uint64_t)(map->tasks > 1 ? device->threads : 1);
  map_run run = {.map = map,
                 .pointers = pointers,
                 .workers = cpu_workspace_acquire(device, bytes),
                 .stream = worth_streaming(map, pointers)};
  if (!run.workers) return cpu_out_of_memory(device, bytes);
  cpu_parallel(device, map->tasks, run_task, &run);
  cpu_workspace_return(device, run.workers);
  return COMPUTE_OK;
}

static void clear_map(cpu_kernel *kernel) {
  cpu_program_release(kernel->device, ((map_kernel *)kernel)->program);
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* `true` if tiles along dimension d are whole lines, and the program is one loop over several such
 * lines. */
static bool suits_lines(const map_kernel *map, int32_t d) {
  cpu_tile tile;
  for (int32_t k = 0; k < map->outputs; k++)
    if (map->nest.stride[map->inputs + k][d] != 1) return false;
  for (int32_t k = 0; k < map->inputs; k++) tile.input_stride[k] = map->nest.stride[k][d];
  return map->nest.rank > 1 && cpu_formula_suits(&map->program->formula, &tile);
}

/* The dimension that is walked before d. */
static int32_t dimension_before(const map_kernel *map, int32_t d) {
  const int32_t last = cpu_nest_last(&map->nest);
  return d == last ? last - 1 : last;
}

/* The number of lines along dimension d in a box of consecutive ones. */
static int64_t box_lines(const map_kernel *map, int32_t d) {
  const cpu_nest *nest = &map->nest;
  const int32_t before = dimension_before(map, d), second = before - 1 - (before - 1 == d);
  return nest->size[before] * (second < 0 ? 1 : nest->size[second]);
}

/* The number of operands that are copied if lines along dimension d run together; -1 if they cannot:
 * they are long, or few, or an operand is not contiguous along them. */
static int box_copies(const map_kernel *map, int32_t d) {
  const cpu_nest *nest = &map->nest;
  const int64_t size = nest->size[d], tile = cpu_program_tile_elements(map->program);
  if (nest->rank < 2 || size * BOX_LINES > tile || cpu_program_places(map->program) != 0) return -1;
  if (box_lines(map, d) < BOX_LINES) return -1;
  const int32_t before = dimension_before(map, d);
  int copies = 0;
  for (int32_t k = 0; k < map->inputs + map->outputs; k++) {
    const int64_t along = nest->stride[k][d];
    if (along != 1 && (along != 0 || k >= map->inputs)) return -1;
    copies += nest->stride[k][before] != along * size;
  }
  return copies <= BOX_COPIES ? copies : -1;
}

/* `true` if lines along dimension d that run together need copies for each set of them. */
static bool copies_lines(const map_kernel *map, int32_t d) {
  const cpu_nest *nest = &map->nest;
  const int32_t before = dimension_before(map, d);
  for (int32_t k = 0; k < map->inputs + map->outputs; k++) {
    const int64_t across = nest->stride[k][before];
    if (across != 0 && across != nest->stride[k][d] * nest->size[d]) return true;
  }
  return false;
}

/* `true` if lines along dimension d run one by one in one loop, because joined lines are not
 * faster. */
static bool runs_by_lines(const map_kernel *map, int32_t d) {
  if (!suits_lines(map, d)) return false;
  return map->nest.size[d] >= CPU_SHORT_LINE || box_copies(map, d) < 0 || copies_lines(map, d);
}

/* The cost of one element if tiles run along dimension d. */
static double element_cost(const map_kernel *map, int32_t d) {
  const int64_t size = map->nest.size[d], tile = cpu_program_tile_elements(map->program);
  const int copies = box_copies(map, d);
  const int64_t length = size < tile && copies < 0 ? size : tile;
  const bool by_lines = size <= tile && runs_by_lines(map, d);
  const int64_t fixed = TILE_COST + STEP_COST * (int64_t)map->program->passes;
  double cost = (double)cpu_program_cost(map->program);
  for (int32_t k = 0; k < map->inputs + map->outputs; k++) {
    const int64_t stride = map->nest.stride[k][d];
    if (stride != 0) cost += stride == 1 ? DENSE_COST : STRIDED_COST;
  }
  if (copies > 0 && !by_lines && copies_lines(map, d)) cost += copies * DENSE_COST;
  if (map->program->one_byte) cost /= BYTES_AT_ONCE;
  return cost + (double)(by_lines ? LINE_COST : fixed) / (double)length;
}

/* Picks the dimension of tiles and makes it the last. */
static double choose_tiles(map_kernel *map) {
  int32_t best = cpu_nest_last(&map->nest);
  double lowest = element_cost(map, best);
  for (int32_t d = best - 1; d >= 0; d--) {
    const double cost = element_cost(map, d);
    if (cost >= lowest) continue;
    lowest = cost;
    best = d;
  }
  cpu_nest_make_last(&map->nest, best);
  return lowest;
}

/* The contiguous dimension of operands that are not contiguous along the tile, or −1. */
static int32_t find_crossing(const map_kernel *map) {
  const cpu_nest *nest = &map->nest;
  const int32_t last = cpu_nest_last(nest);
  for (int32_t d = last - 1; d >= 0; d--)
    for (int32_t k = 0; k < map->inputs + map->outputs; k++) {
      const int64_t step = nest->stride[k][last];
      if ((nest->stride[k][d] == 1 || nest->stride[k][d] == -1) && nest->size[d] > 1 &&
          (step >= CROSS_STRIDE || step <= -CROSS_STRIDE))
        return d;
    }
  return -1;
}

/* Moves the crossing dimension to the second to last place; the others keep their order. */
static void make_rows(map_kernel *map, int32_t crossing) {
  const int32_t last = cpu_nest_last(&map->nest);
  cpu_nest_make_last(&map->nest, crossing);
  cpu_nest_make_last(&map->nest, last - 1); /* the last dimension is now one place further up */
}

static void choose_turned(map_kernel *map) {
  const int32_t last = cpu_nest_last(&map->nest);
  for (int32_t k = 0; k < map->inputs && map->turned_count < MOST_TURNED; k++)
    if (map->nest.stride[k][last - 1] == 1 && map->nest.stride[k][last] >= CROSS_STRIDE)
      map->turned[map->turned_count++] = k;
}

/* Long tiles need fewer calls, if there are still enough of them for all threads. */
static int64_t longest_tile(const map_kernel *map, int64_t elements) {
  const int64_t share = elements / (map->head.device->threads * TASKS_PER_THREAD);
  return cpu_max(cpu_program_tile_elements(map->program), cpu_min(map->program->chunk, share));
}

static void cut(map_kernel *map, int64_t elements, double cost) {
  const int32_t crossing = find_crossing(map);
  int64_t longest = longest_tile(map, elements);
  map->walked = cpu_nest_last(&map->nest);
  map->rows = map->groups = 1;
  if (crossing >= 0) {
    make_rows(map, crossing);
    choose_turned(map);
    map->walked--;
    map->rows = CROSS_ROWS;
    map->groups = cpu_divide_up(map->nest.size[map->walked], CROSS_ROWS);
    if (longest > CROSS_TILE) longest = CROSS_TILE;
  }
  /* Blocks of about the same length, in whole cache lines. */
  const int64_t size = cpu_nest_length(&map->nest);
  map->length = cpu_divide_up(cpu_divide_up(size, cpu_divide_up(size, longest)), 64) * 64;
  map->blocks = cpu_divide_up(size, map->length);
  int64_t outer = 1;
  for (int32_t d = 0; d < map->walked; d++) outer *= map->nest.size[d];
  map->units = outer * map->groups * map->blocks;
  const double total = cost * (double)elements / TASK_COST;
  const int64_t most =
      map->head.device->threads > 1 ? map->head.device->threads * TASKS_PER_THREAD : 1;
  map->tasks = total < (double)most ? (int64_t)total : most;
  if (map->tasks < 1) map->tasks = 1;
  if (map->tasks > map->units) map->tasks = map->units;
}

/* Registers an operand, and sets *uniform if it is one element; false if the loop cannot read
 * it. */
static bool take_operand(map_kernel *map, int place, uint16_t value, bool *uniform) {
  map_single *single = &map->single;
  single->input[place] = -1;
  for (uint32_t i = 0; i < map->program->step_count; i++) {
    const cpu_step *step = &map->program->step[i];
    if (step->result != value) continue;
    if (step->kind == CPU_STEP_CONSTANT) {
      single->constant[place] = step->constant;
      *uniform = true;
      return true;
    }
    if (step->kind != CPU_STEP_LOAD || !step->in_place) return false;
    const int64_t stride = cpu_nest_step(&map->nest, step->input);
    single->input[place] = step->input;
    *uniform = stride == 0;
    return stride == 0 || stride == 1;
  }
  return false;
}

static bool is_operation(const cpu_step *step) {
  return step->kind != CPU_STEP_CONSTANT && step->kind != CPU_STEP_LOAD;
}

static void find_single(map_kernel *map) {
  const cpu_program *program = map->program;
  const bool by_loops = map->by_boxes && copies_lines(map, map->walked) &&
                        cpu_nest_length(&map->nest) * map->bytes[map->inputs] > SHORT_BYTES;
  if ((map->units != 1 && !by_loops) || map->turned_count > 0 || program->output_count != 1 ||
      program->step_count == 0 || map->length > program->chunk ||
      cpu_nest_step(&map->nest, map->inputs) != 1)
    return;
  const cpu_step *last = &program->step[program->step_count - 1];
  const bool binary = last->kind == CPU_STEP_BINARY;
  bool uniform[2] = {false, false};
  if ((!binary && last->kind != CPU_STEP_UNARY) || last->result != program->output[0].value ||
      !program->output[0].same_type)
    return;
  for (uint32_t i = 0; i + 1 < program->step_count; i++)
    if (is_operation(&program->step[i])) return;
  for (int i = 0; i < 1 + binary; i++)
    if (!take_operand(map, i, last->operand[i], &uniform[i])) return;
  if (!binary) map->single.input[1] = -1; /* and its constant stays NULL */
  if (uniform[0] && (!binary || uniform[1])) return;
  map->single.immediate = last->immediate;
  map->single.loop = last->loops[binary ? uniform[0] | uniform[1] << 1 : 0];
  map->by_loops = by_loops;
}

static void describe_map(map_kernel *map) {
  const cpu_nest *nest = &map->nest;
  char how[24] = "one loop";
  if (map->by_loops) snprintf(how, sizeof how, "one loop a line");
  if (map->program->passes > 1) snprintf(how, sizeof how, "%u steps", map->program->passes);
  snprintf(map->head.description, sizeof map->head.description,
           "map: %s, tiles of %lld of %lld%s, %lld task%s, %s", how, (long long)map->length,
           (long long)cpu_nest_length(nest), map->rows > 1 ? " across rows" : "",
           (long long)map->tasks, map->tasks == 1 ? "" : "s", map->head.device->isa->name);
}

/* Merges dimensions as far as possible, unless the program uses coordinates. */
/* If the program uses no position or coordinates, elements are taken in the output's order; its
 * dimensions can then often be merged into one. */
static void make_nest(map_kernel *map, const compute_kernel_descriptor *descriptor) {
  static const int64_t none[COMPUTE_MAX_RANK];
  const uint32_t places = cpu_program_places(map->program);
  cpu_nest *nest = &map->nest;
  cpu_nest_begin(nest, descriptor, 0, descriptor->rank);
  if (places == 0)
    cpu_nest_sort(nest, map->inputs);
  else
    map->position = cpu_nest_add_position(nest, descriptor, 0, descriptor->rank);
  if ((places & ~CPU_PLACES_POSITION) == 0) {
    cpu_nest_collapse(nest);
    for (int32_t d = 0; d < nest->rank; d++) nest->origin[d] = -1;
  }
  if (places == 0) map->position = cpu_nest_add(nest, none);
  cpu_nest_finish(nest);
}

static void make_plan(map_kernel *map, const compute_kernel_descriptor *descriptor) {
  int64_t elements;
  make_nest(map, descriptor);
  /* The core has checked that counts fit; an empty space has no units. */
  if (!cpu_nest_count(&map->nest, map->nest.rank, &elements) || elements == 0) return;
  for (int32_t k = 0; k < map->outputs; k++)
    map->output_bytes += (uint64_t)elements * map->bytes[map->inputs + k];
  if (cpu_program_places(map->program) == 0)
    cpu_patterns_find(&map->nest, map->inputs, map->outputs, &map->patterns);
  const double cost = choose_tiles(map);
  cut(map, elements, cost);
  map->by_lines = map->blocks == 1 && map->walked == cpu_nest_last(&map->nest) &&
                  runs_by_lines(map, map->walked);
  map->by_boxes = !map->by_lines && map->walked == cpu_nest_last(&map->nest) &&
                  box_copies(map, map->walked) >= 0;
  find_single(map);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  map_kernel *map = (map_kernel *)head;
  map->inputs = (int32_t)descriptor->input_count;
  map->outputs = (int32_t)descriptor->output_count;
  compute_dtype dtypes[COMPUTE_MAX_OPERANDS];
  for (int32_t k = 0; k < map->inputs + map->outputs; k++) {
    dtypes[k] =
        k < map->inputs ? descriptor->inputs[k].dtype : descriptor->outputs[k - map->inputs].dtype;
    map->bytes[k] = cpu_dtype_size(dtypes[k]);
  }
  const compute_status status =
      cpu_program_prepare(head->device, &descriptor->epilogue, descriptor->input_count, dtypes,
                          descriptor->output_count, dtypes + map->inputs, &map->program);
  if (status) return status;
  make_plan(map, descriptor);
  describe_map(map);
  return COMPUTE_OK;
}

const cpu_kind cpu_map_kind = {.name = "map",
                               .bytes = sizeof(map_kernel),
                               .prepare = prepare,
                               .run = run_map,
                               .clear = clear_map};
