/* The own implementation: cache blocking around the micro-kernels of isa/gemm_*.c.
 *
 * One unit is one tile of C. For each block of k: B's part is packed into panels (or read in
 * place), then block by block of rows A's part is copied to where it stays in the level-2 cache (or
 * read in place), and the micro-kernels add the product to the sums. The sums live in outputs[0]
 * wherever that has their dtype and dense rows, else in scratch memory; after the last block of k
 * the epilogue runs over some columns of a block of rows at a time, while they are in the cache. */
#include <stdio.h>

#include "gemm.h"

typedef struct own_launch {
  const cpu_gemm *gemm;
  const gemm_schedule *schedule;
  void *const *pointers;
  bool direct;
  unsigned char *scratch; /* of all workers; behind it the parts of split sums */
  uint64_t worker_bytes;
  unsigned char *parts;
} own_launch;

typedef struct own_unit {
  const own_launch *launch;
  gemm_matrix matrix;
  int64_t row, rows, column, columns;
  int64_t k_first, k_count;
  unsigned char *packed_a, *packed_b;
  unsigned char *sums; /* of the unit's first element */
  int64_t sums_row;
  bool finish; /* the epilogue follows the last block of k */
} own_unit;

static int64_t minimum(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The part of A that a block of rows and k needs, in place or copied. */
static void take_a(const own_unit *unit, int64_t row, int64_t rows, int64_t p, int64_t count,
                   cpu_gemm_block *block) {
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *a = &problem->a;
  const unsigned char *data = unit->matrix.a + (row * a->row + p * a->column) * a->size;
  if (!unit->launch->schedule->pack_a) {
    block->a = data;
    block->a_row = a->row;
    block->a_k = a->column;
    return;
  }
  block->a = unit->packed_a;
  block->slivers = problem->type->pack_slivers && unit->launch->schedule->method == GEMM_TILES;
  if (block->slivers) {
    const cpu_gemm_source source = {data, a->dtype, a->row, a->column};
    problem->type->pack_slivers(unit->packed_a, rows, count, &source);
  } else if (a->row == 1 && a->column != 1 && unit->launch->schedule->method != GEMM_DOT) {
    const cpu_gemm_source source = {data, a->dtype, a->column, a->row};
    problem->type->pack_rows(unit->packed_a, rows, count, rows, &source);
    block->a_row = 1;
    block->a_k = rows;
  } else {
    const cpu_gemm_source source = {data, a->dtype, a->row, a->column};
    problem->type->pack_rows(unit->packed_a, count, rows, count, &source);
    block->a_row = count;
    block->a_k = 1;
  }
}

static const unsigned char *b_at(const own_unit *unit, int64_t p, int64_t column) {
  const gemm_operand *b = &unit->launch->gemm->problem.b;
  return unit->matrix.b + (p * b->row + (unit->column + column) * b->column) * b->size;
}

/* Packs columns of B for a block of k. */
static void pack_b(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                   int64_t columns) {
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *b = &problem->b;
  const cpu_gemm_source source = {b_at(unit, p, column), b->dtype, b->row, b->column};
  problem->type->pack_panels(unit->packed_b, count, columns, &source);
}

/* Register tiles over B's columns from `column` of the unit on: over all (block->n says how many),
 * or one panel, or, where B is read in place, the full panels. */
static void multiply_tiles(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                           int64_t columns, cpu_gemm_block *block) {
  const gemm_packing packing = unit->launch->schedule->pack_b;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const int64_t panel = problem->type->columns;
  if (packing <= GEMM_PACK_ON_USE && columns >= panel) {
    block->n = columns / panel * panel;
    block->b = b_at(unit, p, column);
    block->b_k = problem->b.row;
    block->b_column = panel;
    block->copy = packing == GEMM_PACK_ON_USE ? unit->packed_b : NULL;
  } else {
    block->n = packing == GEMM_PACK_BLOCK ? columns : minimum(panel, columns);
    block->b = unit->packed_b;
    block->b_k = panel;
    block->b_column = panel * count;
    block->copy = NULL;
    if (packing == GEMM_PACK_BLOCK)
      block->b = unit->packed_b + column * count * problem->size;
    else
      pack_b(unit, p, count, column, block->n);
  }
  problem->type->multiply(block);
}

/* The methods for few rows, on B in place or on some columns of it, converted. */
static void multiply_few(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                         int64_t columns, cpu_gemm_block *block) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *b = &problem->b;
  const bool dot = schedule->method == GEMM_DOT;
  block->n = columns;
  block->b = b_at(unit, p, column);
  block->b_k = b->row;
  block->b_column = b->column;
  if (schedule->pack_b != GEMM_PACK_NONE) {
    block->n = minimum(columns, schedule->piece);
    const cpu_gemm_source source = {block->b, b->dtype, dot ? b->column : b->row, 1};
    block->b_k = block->n;
    block->b_column = count;
    problem->type->pack_rows(unit->packed_b, dot ? count : block->n, dot ? block->n : count,
                             dot ? count : block->n, &source);
    block->b = unit->packed_b;
  }
  if (dot)
    problem->type->dot(block);
  else
    problem->type->stream(block);
}

/* One block of rows against one block of k. */
static void do_rows(const own_unit *unit, int64_t row, int64_t rows, int64_t p, int64_t count,
                    bool finish) {
  const cpu_gemm *gemm = unit->launch->gemm;
  const gemm_problem *problem = &gemm->problem;
  const gemm_schedule *schedule = unit->launch->schedule;
  unsigned char *sums = unit->sums + row * unit->sums_row * problem->size;
  cpu_gemm_block block = {
      .m = rows, .k = count, .c_row = unit->sums_row, .accumulate = p > unit->k_first};
  take_a(unit, unit->row + row, rows, p, count, &block);
  const int64_t group = finish ? schedule->group : unit->columns;
  for (int64_t column = 0; column < unit->columns; column += group) {
    const int64_t columns = minimum(group, unit->columns - column);
    for (int64_t done = 0; done < columns; done += block.n) {
      block.c = sums + (column + done) * problem->size;
      if (schedule->method == GEMM_TILES)
        multiply_tiles(unit, p, count, column + done, columns - done, &block);
      else
        multiply_few(unit, p, count, column + done, columns - done, &block);
    }
    if (finish)
      gemm_epilogue_run(gemm, &unit->matrix, sums + column * problem->size, unit->sums_row,
                        unit->row + row, rows, unit->column + column, columns);
  }
}

static void do_unit(const own_unit *unit) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const int64_t end = unit->k_first + unit->k_count;
  int64_t p = unit->k_first;
  do { /* once also for k = 0: the sums are zeros then */
    const int64_t count = minimum(schedule->block_k, end - p);
    if (schedule->pack_b == GEMM_PACK_BLOCK) pack_b(unit, p, count, 0, unit->columns);
    for (int64_t row = 0; row < unit->rows; row += schedule->block_m)
      do_rows(unit, row, minimum(schedule->block_m, unit->rows - row), p, count,
              unit->finish && p + count == end);
    p += count;
  } while (p < end);
}

/* Where a unit's sums are built. */
static void place_sums(own_unit *unit, unsigned char *scratch, int64_t split_index) {
  const own_launch *launch = unit->launch;
  const gemm_problem *problem = &launch->gemm->problem;
  if (launch->schedule->splits > 1) {
    unit->sums = launch->parts + split_index * problem->m * problem->n * problem->size;
    unit->sums_row = problem->n;
  } else if (launch->direct) {
    const gemm_operand *c = &problem->output[0];
    unit->sums = unit->matrix.output[0] + (unit->row * c->row + unit->column) * problem->size;
    unit->sums_row = c->row;
  } else {
    unit->sums = scratch;
    unit->sums_row = unit->columns;
  }
  unit->finish = launch->schedule->splits == 1 && !(launch->direct && launch->gemm->identity);
}

/* Units are numbered by batch entry, tile row, tile column, part of k. */
static void own_task(void *argument, int64_t task, int32_t worker) {
  const own_launch *launch = argument;
  const gemm_schedule *schedule = launch->schedule;
  const gemm_problem *problem = &launch->gemm->problem;
  const int64_t per_batch = schedule->tiles_m * schedule->tiles_n * schedule->splits;
  const int64_t first = task * schedule->chunk;
  const int64_t end = minimum(first + schedule->chunk, problem->batches * per_batch);
  own_unit unit = {.launch = launch};
  unsigned char *scratch =
      launch->scratch ? launch->scratch + (uint64_t)worker * launch->worker_bytes : NULL;
  unit.packed_a = scratch;
  unit.packed_b = scratch + schedule->a_bytes;
  for (int64_t index = first; index < end; index++) {
    const int64_t tile = index % per_batch / schedule->splits, split = index % schedule->splits;
    if (index == first || index % per_batch == 0)
      gemm_problem_matrix(problem, launch->pointers, index / per_batch, &unit.matrix);
    unit.row = tile / schedule->tiles_n * schedule->tile_m;
    unit.column = tile % schedule->tiles_n * schedule->tile_n;
    unit.rows = minimum(schedule->tile_m, problem->m - unit.row);
    unit.columns = minimum(schedule->tile_n, problem->n - unit.column);
    unit.k_first = problem->k * split / schedule->splits;
    unit.k_count = problem->k * (split + 1) / schedule->splits - unit.k_first;
    place_sums(&unit, scratch + schedule->a_bytes + schedule->b_bytes, index);
    do_unit(&unit);
  }
}

/* Adds the parts of one batch entry and finishes it. The sum replaces the first part. */
static void sum_task(void *argument, int64_t task, int32_t worker) {
  const own_launch *launch = argument;
  const cpu_gemm *gemm = launch->gemm;
  const gemm_problem *problem = &gemm->problem;
  (void)worker;
  gemm_matrix matrix;
  gemm_problem_matrix(problem, launch->pointers, task, &matrix);
  const int64_t splits = launch->schedule->splits;
  unsigned char *parts = launch->parts + task * splits * problem->m * problem->n * problem->size;
  const bool direct = launch->direct && gemm->identity;
  unsigned char *sums = direct ? matrix.output[0] : parts;
  const int64_t sums_row = direct ? problem->output[0].row : problem->n;
  problem->type->sum(sums, sums_row, problem->m, problem->n, parts, splits);
  if (!direct) gemm_epilogue_run(gemm, &matrix, sums, sums_row, 0, problem->m, 0, problem->n);
}

static compute_status own_run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  cpu_device *device = kernel->device;
  own_launch launch = {.gemm = gemm, .pointers = pointers};
  launch.direct = gemm_sums_in_place(gemm, pointers);
  launch.schedule = launch.direct ? &gemm->direct : &gemm->buffered;
  const gemm_schedule *schedule = launch.schedule;
  launch.worker_bytes = schedule->a_bytes + schedule->b_bytes + schedule->sums_bytes;
  const uint64_t parts_bytes = schedule->splits > 1
                                   ? (uint64_t)(problem->batches * schedule->splits * problem->m *
                                                problem->n * problem->size)
                                   : 0;
  const uint64_t bytes =
      (schedule->tasks == 1 ? 1 : (uint64_t)device->threads) * launch.worker_bytes;
  if (bytes + parts_bytes > 0) {
    launch.scratch = cpu_workspace_acquire(device, bytes + parts_bytes);
    if (!launch.scratch) return cpu_out_of_memory(device, bytes + parts_bytes);
    launch.parts = launch.scratch + bytes;
  }
  cpu_parallel(device, schedule->tasks, own_task, &launch);
  if (schedule->splits > 1) cpu_parallel(device, problem->batches, sum_task, &launch);
  cpu_workspace_return(device, launch.scratch);
  return COMPUTE_OK;
}

bool gemm_own_accept(cpu_gemm *gemm, char *reason, size_t reason_bytes) {
  (void)reason;
  (void)reason_bytes;
  const gemm_problem *problem = &gemm->problem;
  if (gemm->in_place) gemm_schedule_make(gemm, true, &gemm->direct);
  gemm_schedule_make(gemm, false, &gemm->buffered);
  const gemm_schedule *schedule = gemm->in_place ? &gemm->direct : &gemm->buffered;
  gemm->head.run = own_run;
  static const char *const methods[] = {"", "dot products", "row stream"};
  char tile[32];
  snprintf(tile, sizeof tile, "%dx%d", problem->type->rows, problem->type->columns);
  const char *how = schedule->method == GEMM_TILES ? tile : methods[schedule->method];
  snprintf(gemm->head.description, sizeof gemm->head.description,
           "gemm own %s %s, %lldx%lld tiles of %lldx%lld%s", gemm->head.device->isa->name, how,
           (long long)schedule->tiles_m, (long long)schedule->tiles_n, (long long)schedule->tile_m,
           (long long)schedule->tile_n, schedule->splits > 1 ? ", k split" : "");
  return true;
}
