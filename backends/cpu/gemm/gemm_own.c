/* SPDX-License-Identifier: MIT */
/* The own implementation: cache blocking around the micro-kernels of isa/gemm_tile.c.
 *
 * One unit is one tile of C. For each block of k: B's part is packed into panels (or read in
 * place), then block by block of rows A's part is copied to where it stays in the level-2 cache (or
 * read in place), and the micro-kernels add the product to the sums. The sums live in outputs[0]
 * wherever that has their dtype and dense rows, else in scratch memory; after the last block of k
 * the epilogue runs over some columns of a block of rows at a time, while they are in the cache. */
#include <stdio.h>

#include "gemm.h"
#include "program/finish.h"
#include "program/requantize.h"

typedef struct own_launch {
  const cpu_gemm *gemm;
  const gemm_schedule *schedule;
  void *const *pointers;
  const gemm_source *source; /* of B; or NULL */
  bool direct;
  unsigned char *scratch; /* of all workers; after it the parts of split sums */
  uint64_t worker_bytes;
  unsigned char *parts;
} own_launch;

typedef struct own_unit {
  const own_launch *launch;
  gemm_matrix matrix;
  int64_t row, rows, column, columns;
  int64_t k_first, k_count;
  unsigned char *packed_a, *packed_b;
  int32_t worker;
  unsigned char *sums; /* of the unit's first element */
  int64_t sums_row;
  bool finish;               /* the epilogue follows the last block of k … */
  bool in_kernel;            /* … in the micro-kernel */
  cpu_gemm_finish ends;      /* of f32 */
  cpu_gemm_requantize makes; /* of words */
} own_unit;

/* The elements along k of `count` words from word p on. */
static int64_t elements_of(const gemm_problem *problem, int64_t p, int64_t count) {
  return cpu_min(count * problem->type->group, problem->elements - p * problem->type->group);
}

enum { CLOSE_CACHE = 48 << 10 }; /* of a level-1 cache, what a panel of B may fill */

/* The length of blocks of k that come from cutting it into equal parts of at most `most`. */
static int64_t equal_blocks(int64_t k, int64_t most) {
  const int64_t cuts = cpu_max(cpu_divide_up(k, most), 1);
  return cpu_max(cpu_divide_up(k, cuts), 1);
}

static int64_t most_tile_k(const gemm_problem *problem) {
  return CLOSE_CACHE / (problem->type->columns * (int64_t)problem->size);
}

/* A packed B has the terms after each block of k: the lines of a panel before that of p, which
 * begins a block or ends k. */
static int64_t packed_lines(const gemm_problem *problem, int64_t p) {
  const int64_t block = equal_blocks(problem->k, most_tile_k(problem));
  return p + cpu_divide_up(p, block) * problem->type->terms;
}

/* Whether words of A are packed as rows: what lies by rows is quicker to convert so. Only slivers
 * have the terms that shifted bytes of B need (gemm_pack_words.h). */
static bool packs_word_rows(const gemm_problem *problem) {
  return problem->a.column == 1 && problem->type->rows <= CPU_GEMM_FORESEEN &&
         !(problem->type->group == 4 && problem->b.dtype == COMPUTE_U8);
}

/* From row to row of words: an odd number of cache lines, so that rows do not compete for places
 * in a cache. */
static int64_t word_row(int64_t words) {
  enum { LINE = 16 };
  return cpu_round_up(words, LINE) | LINE;
}

/* The part of A that a block of rows and k needs, in place or copied. */
static void take_a(const own_unit *unit, int64_t row, int64_t rows, int64_t p, int64_t count,
                   cpu_gemm_block *block) {
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *a = &problem->a;
  const int64_t first = p * problem->type->group;
  const unsigned char *data = unit->matrix.a + (row * a->row + first * a->column) * a->size;
  if (!unit->launch->schedule->pack_a) {
    block->a = data;
    block->a_row = a->row / problem->type->group;
    block->a_k = a->column;
    return;
  }
  block->a = unit->packed_a;
  const bool words = problem->type->group > 1;
  block->slivers =
      words ? !packs_word_rows(problem)
            : problem->type->pack_slivers && unit->launch->schedule->method == GEMM_TILES;
  if (words && !block->slivers) {
    const cpu_gemm_source source = {data, a->dtype, a->row, a->column};
    block->a_row = word_row(count);
    block->a_k = 1;
    problem->type->pack_rows(unit->packed_a, block->a_row * problem->type->group, rows,
                             elements_of(problem, p, count), &source);
  } else if (words) {
    const cpu_gemm_source source = {data, a->dtype, a->row, a->column};
    problem->type->pack_words(unit->packed_a, false, rows, elements_of(problem, p, count), &source,
                              problem->b.dtype);
  } else if (block->slivers) {
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
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *b = &problem->b;
  return unit->matrix.b +
         (p * problem->type->group * b->row + (unit->column + column) * b->column) * b->size;
}

/* Packs columns of a B that is computed meanwhile, panel by panel. */
static void fill_b(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                   int64_t columns) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_source *source = unit->launch->source;
  unsigned char *filled = unit->packed_b + (schedule->b_bytes - schedule->fill_bytes);
  const cpu_gemm_source panel = {filled, problem->accumulate, 1, count};
  for (int64_t done = 0; done < columns; done += problem->type->columns) {
    const int64_t width = cpu_min(problem->type->columns, columns - done);
    source->fill(source, p, count, unit->column + column + done, width, unit->worker, filled);
    problem->type->pack_panels(unit->packed_b + done * count * problem->size, count, width, &panel);
  }
}

/* Packs columns of B for a block of k. */
static void pack_b(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                   int64_t columns) {
  if (unit->launch->source) {
    fill_b(unit, p, count, column, columns);
    return;
  }
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *b = &problem->b;
  const cpu_gemm_source source = {b_at(unit, p, column), b->dtype, b->row, b->column};
  if (problem->type->group > 1)
    problem->type->pack_words(unit->packed_b, true, columns, elements_of(problem, p, count),
                              &source, problem->a.dtype);
  else
    problem->type->pack_panels(unit->packed_b, count, columns, &source);
}

/* Register tiles over B's columns from `column` of the unit on: over all (block->n says how many),
 * or one panel, or, where B is read in place, the full panels. */
static void multiply_tiles(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                           int64_t columns, cpu_gemm_block *block) {
  const gemm_packing packing = unit->launch->schedule->pack_b;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const int64_t panel = problem->type->columns;
  if (packing == GEMM_PACKED) {
    block->n = columns;
    const int64_t lines = packed_lines(problem, problem->k);
    block->b = unit->matrix.b +
               ((unit->column + column) * lines + packed_lines(problem, p) * panel) * problem->size;
    block->b_k = panel;
    block->b_column = panel * lines;
    block->copy = NULL;
  } else if (packing <= GEMM_PACK_ON_USE && columns >= panel) {
    block->n = columns / panel * panel;
    block->b = b_at(unit, p, column);
    block->b_k = problem->b.row;
    block->b_column = panel;
    block->copy = packing == GEMM_PACK_ON_USE ? unit->packed_b : NULL;
  } else {
    block->n = packing == GEMM_PACK_BLOCK ? columns : cpu_min(panel, columns);
    block->b = unit->packed_b;
    block->b_k = panel;
    block->b_column = panel * (count + problem->type->terms);
    block->copy = NULL;
    if (packing == GEMM_PACK_BLOCK)
      block->b = unit->packed_b + column * (count + problem->type->terms) * problem->size;
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
    block->n = cpu_min(columns, schedule->piece);
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
  const bool ends = finish && unit->in_kernel;
  if (ends) {
    if (problem->type->group == 1)
      block.finish = &unit->ends;
    else
      block.requantize = &unit->makes;
    block.row = unit->row + row;
  }
  const bool epilogue = finish && (!ends || gemm->epilogue->rest);
  const int64_t group = epilogue ? schedule->group : unit->columns;
  for (int64_t column = 0; column < unit->columns; column += group) {
    const int64_t columns = cpu_min(group, unit->columns - column);
    for (int64_t done = 0; done < columns; done += block.n) {
      block.c = sums + (column + done) * problem->size;
      block.column = unit->column + column + done;
      if (schedule->method == GEMM_TILES)
        multiply_tiles(unit, p, count, column + done, columns - done, &block);
      else
        multiply_few(unit, p, count, column + done, columns - done, &block);
    }
    if (epilogue && ends)
      cpu_finish_run_rest(gemm->epilogue,
                          unit->ends.y + (unit->row + row) * unit->ends.y_row + unit->column +
                              column,
                          unit->ends.y_row, rows, columns);
    else if (epilogue)
      gemm_epilogue_run(gemm, &unit->matrix, sums + column * problem->size, unit->sums_row,
                        unit->row + row, rows, unit->column + column, columns);
  }
}

static void do_unit(const own_unit *unit) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const int64_t end = unit->k_first + unit->k_count;
  int64_t p = unit->k_first;
  do { /* once also for k = 0: the sums are zeros then */
    const int64_t count = cpu_min(schedule->block_k, end - p);
    if (schedule->pack_b == GEMM_PACK_BLOCK) pack_b(unit, p, count, 0, unit->columns);
    for (int64_t row = 0; row < unit->rows; row += schedule->block_m)
      do_rows(unit, row, cpu_min(schedule->block_m, unit->rows - row), p, count,
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

/* ---- Finishing in the micro-kernel ------------------------------------------------------------
 */

static const gemm_operand *addend(const cpu_gemm *gemm, int i) {
  const int16_t input = cpu_finish_of(gemm->epilogue)->input[i];
  return input > 0 ? &gemm->problem.extra[input - 1] : NULL;
}

/* Whether the epilogue makes bytes of sums, and its operands' columns lie side by side. */
static bool can_requantize(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const cpu_requantize *q = &gemm->epilogue->requantize;
  if (!q->loops || problem->output[0].column != 1) return false;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const int64_t column = problem->extra[q->input[i] - 1].column;
    if (column != 0 && column != 1) return false;
  }
  return true;
}

/* Whether the micro-kernel can compute the epilogue: if that adds and limits only, and its
 * operands' columns lie side by side; or see above. */
static bool can_finish(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  if (!problem->type->finishes || gemm->identity) return false;
  if (problem->type->group > 1) return can_requantize(gemm);
  if (!cpu_finish_of(gemm->epilogue) || problem->output_count != 1 ||
      problem->output[0].column != 1)
    return false;
  for (int i = 0; i < 3; i++) {
    const gemm_operand *operand = addend(gemm, i);
    if (operand && operand->column != 1 && (i > 0 || operand->column != 0)) return false;
  }
  return true;
}

static const float *addend_at(const own_unit *unit, int i, int64_t *row) {
  const gemm_operand *operand = addend(unit->launch->gemm, i);
  *row = operand ? operand->row : 0;
  return operand ? (const void *)
                       unit->matrix.extra[cpu_finish_of(unit->launch->gemm->epilogue)->input[i] - 1]
                 : NULL;
}

static void place_requantize(own_unit *unit) {
  const cpu_gemm *gemm = unit->launch->gemm;
  const cpu_requantize *q = &gemm->epilogue->requantize;
  cpu_requantize_operand operands[CPU_REQUANTIZE_INPUTS];
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const gemm_operand *from = &gemm->problem.extra[q->input[i] - 1];
    operands[i] =
        (cpu_requantize_operand){unit->matrix.extra[q->input[i] - 1], from->row, from->column != 0};
  }
  unit->makes.run = q->loops->run;
  unit->makes.lines = cpu_requantize_bind(q, operands);
  unit->makes.lines.y = unit->matrix.output[0];
  unit->makes.lines.y_row = gemm->problem.output[0].row;
}

/* For a batch entry; nothing where the sums are finished later. */
static void place_finish(own_unit *unit) {
  const cpu_gemm *gemm = unit->launch->gemm;
  unit->in_kernel = gemm->finishes && unit->launch->schedule->method == GEMM_TILES;
  if (!unit->in_kernel) return;
  if (gemm->problem.type->group > 1) {
    place_requantize(unit);
    return;
  }
  const cpu_finish *finish = cpu_finish_of(gemm->epilogue);
  unit->ends.a = addend_at(unit, 0, &unit->ends.a_row);
  unit->ends.b = addend_at(unit, 1, &unit->ends.b_row);
  unit->ends.c = addend_at(unit, 2, &unit->ends.c_row);
  unit->ends.a_repeats = unit->ends.a && addend(gemm, 0)->column == 0;
  unit->ends.low = finish->low;
  unit->ends.zero = finish->zero;
  unit->ends.high = finish->high;
  unit->ends.y = (void *)unit->matrix.output[0];
  unit->ends.y_row = gemm->problem.output[0].row;
}

/* A part of scratch memory; NULL if there is none. */
static unsigned char *after(unsigned char *scratch, uint64_t bytes) {
  return scratch ? scratch + bytes : NULL;
}

/* Units are numbered by batch entry, tile row, tile column, part of k. */
static void own_task(void *argument, int64_t task, int32_t worker) {
  const own_launch *launch = argument;
  const gemm_schedule *schedule = launch->schedule;
  const gemm_problem *problem = &launch->gemm->problem;
  const int64_t per_batch = schedule->tiles_m * schedule->tiles_n * schedule->splits;
  const int64_t first = task * schedule->chunk;
  const int64_t end = cpu_min(first + schedule->chunk, problem->batches * per_batch);
  own_unit unit = {.launch = launch, .worker = worker};
  unsigned char *scratch =
      launch->scratch ? launch->scratch + (uint64_t)worker * launch->worker_bytes : NULL;
  unit.packed_a = scratch;
  unit.packed_b = after(scratch, schedule->a_bytes);
  for (int64_t index = first; index < end; index++) {
    const int64_t tile = index % per_batch / schedule->splits, split = index % schedule->splits;
    if (index == first || index % per_batch == 0) {
      gemm_problem_matrix(problem, launch->pointers, index / per_batch, &unit.matrix);
      place_finish(&unit);
    }
    unit.row = tile / schedule->tiles_n * schedule->tile_m;
    unit.column = tile % schedule->tiles_n * schedule->tile_n;
    unit.rows = cpu_min(schedule->tile_m, problem->m - unit.row);
    unit.columns = cpu_min(schedule->tile_n, problem->n - unit.column);
    unit.k_first = problem->k * split / schedule->splits;
    unit.k_count = problem->k * (split + 1) / schedule->splits - unit.k_first;
    place_sums(&unit, after(scratch, schedule->a_bytes + schedule->b_bytes), index);
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

compute_status gemm_run_filled(const cpu_gemm *gemm, void *const *pointers,
                               const gemm_source *source) {
  const gemm_problem *problem = &gemm->problem;
  cpu_device *device = gemm->head.device;
  own_launch launch = {.gemm = gemm, .pointers = pointers, .source = source};
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

static compute_status own_run(const cpu_kernel *kernel, void *const *pointers) {
  return gemm_run_filled((const cpu_gemm *)kernel, pointers, NULL);
}

/* ---- A constant B ---------------------------------------------------------------------------- */

enum {
  LEAST_TILES = 4, /* so that there is work for some threads without parts of k */
  TASK_PANELS = 4
};

/* One B for all batch entries: of the computing type, whose panels should be many, as it can also
 * be read as it lies; or bytes as words, which cannot. */
static bool packing_pays(const gemm_problem *problem) {
  for (int32_t d = 0; d < problem->batch_rank; d++)
    if (problem->b.batch[d] != 0) return false;
  if (problem->k == 0) return false;
  const bool many = problem->n >= LEAST_TILES * problem->type->columns;
  if (problem->b.dtype == problem->accumulate) return many;
  return problem->type->group > 1 && (many || problem->m >= LEAST_TILES * problem->type->rows);
}

uint64_t gemm_packed_bytes(const cpu_kernel *kernel, uint32_t input, uint64_t *form) {
  const cpu_gemm *gemm = (const cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  if (!gemm->packed_b || input != (problem->swapped ? 0 : 1)) return 0;
  const int64_t panel = problem->type->columns, lines = packed_lines(problem, problem->k);
  *form = cpu_form((const int64_t[]){CPU_FORM_PANELS, panel, problem->type->group,
                                     (int64_t)problem->accumulate, (int64_t)problem->a.dtype,
                                     (int64_t)problem->b.dtype, problem->elements, problem->n,
                                     problem->b.row, problem->b.column},
                   10);
  return (uint64_t)(cpu_round_up(problem->n, panel) * lines) * problem->size;
}

typedef struct packing {
  const gemm_problem *problem;
  const unsigned char *source;
  unsigned char *packed;
} packing;

/* One panel as words, block by block. */
static void pack_blocks(const gemm_problem *problem, unsigned char *to, int64_t columns,
                        cpu_gemm_source source) {
  const int64_t panel = problem->type->columns;
  const int64_t block = equal_blocks(problem->k, most_tile_k(problem));
  for (int64_t p = 0; p < problem->k; p += block) {
    const int64_t elements = elements_of(problem, p, block);
    problem->type->pack_words(to, true, columns, elements, &source, problem->a.dtype);
    to += panel * (block + problem->type->terms) * problem->size;
    source.data = (const unsigned char *)source.data + elements * problem->b.row * problem->b.size;
  }
}

static void pack_task(void *argument, int64_t task, int32_t worker) {
  const packing *p = argument;
  const gemm_problem *problem = p->problem;
  const gemm_operand *b = &problem->b;
  const int64_t panel = problem->type->columns, lines = packed_lines(problem, problem->k);
  const int64_t first = task * TASK_PANELS * panel;
  const int64_t end = cpu_min(first + TASK_PANELS * panel, problem->n);
  (void)worker;
  for (int64_t column = first; column < end; column += panel) {
    const cpu_gemm_source source = {p->source + column * b->column * b->size, b->dtype, b->row,
                                    b->column};
    unsigned char *to = p->packed + column * lines * problem->size;
    if (problem->type->group > 1)
      pack_blocks(problem, to, cpu_min(panel, end - column), source);
    else
      problem->type->pack_panels(to, problem->k, cpu_min(panel, end - column), &source);
  }
}

compute_status gemm_pack(const cpu_kernel *kernel, uint32_t input, const void *source,
                         void *packed) {
  const gemm_problem *problem = &((const cpu_gemm *)kernel)->problem;
  packing p = {problem, source, packed};
  (void)input;
  cpu_parallel(kernel->device, cpu_divide_up(problem->n, TASK_PANELS * problem->type->columns),
               pack_task, &p);
  return COMPUTE_OK;
}

compute_status gemm_own_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                               const char **reason) {
  (void)descriptor;
  (void)reason;
  cpu_gemm *gemm = (cpu_gemm *)kernel;
  const gemm_problem *problem = &gemm->problem;
  gemm->packed_b = gemm->constant_b && packing_pays(problem);
  gemm->finishes = can_finish(gemm);
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
           (long long)schedule->tile_n,
           schedule->splits > 1 ? ", k split"
           : gemm->packed_b     ? ", packed"
                                : "");
  return COMPUTE_OK;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

/* How the own implementation cuts its work.
 *
 * Tasks share nothing: each packs what it needs of A and B for itself. That costs a little packing
 * twice, but needs no barrier and no second parallel loop, which at n = 128 would take as long as
 * the product itself; and the sums of every element are built in the order of k whoever builds
 * them. Only where C is too small for all threads is k split, and the parts are added in a fixed
 * order by a second loop.
 *
 * The number and shape of tiles comes from a model in units of one vector operation's time: the
 * multiplications, with tiles rounded up to whole register tiles; packing; a start-up per unit; and
 * a share of one unit for the thread that finishes last. */

enum {
  SUMS_LIMIT = 1 << 20,    /* of sums in scratch memory per thread */
  FEW_ROWS = 16,           /* so few rows do not repay packing B */
  DIRECT_B = 40 << 10,     /* a B this small is read where it lies, if its rows are close */
  NEAR_STRIDE = 2048,      /* bytes; rows of A further apart than that compete for cache sets */
  UNIT_OPERATIONS = 800,   /* the model's price of starting a unit */
  SPLIT_OPERATIONS = 8000, /* … and of the second loop that adds parts */
  RUN_OPERATIONS = 120,    /* of starting the epilogue on a run … */
  STEP_OPERATIONS = 30,    /* … and each of its instructions on a tile's elements */
  FILLED_PANELS = 4,       /* of a tile whose B is computed: the rest of its source stays close */
  SPLIT_LIMIT = 256 << 10  /* bytes of C up to which k may be split */
};

/* Multiplications that pay for one thread more. */
#define THREAD_PRODUCTS (64.0 * 64.0 * 64.0)

/* Of one unit's time, what the thread that finishes last costs on average. */
#define LATE_SHARE 0.02

static bool is_native(const gemm_problem *problem, const gemm_operand *operand) {
  return operand->dtype == problem->accumulate;
}

/* Whether A's elements, or neighbours along k as words, can be read where they lie. Words need no
 * shift then (gemm_pack_words.h), and rows begin whole words apart. */
static bool can_read_a(const gemm_problem *problem) {
  const gemm_operand *a = &problem->a;
  const int32_t group = problem->type->group;
  if (group == 1) return is_native(problem, a);
  return group == 4 && a->dtype == COMPUTE_U8 && problem->b.dtype == COMPUTE_I8 && a->column == 1 &&
         a->row % group == 0 && problem->elements % group == 0;
}

/* Threads that this much work keeps busy. */
static int64_t useful_threads(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const double products = (double)problem->batches * (double)problem->m * (double)problem->n *
                          (double)cpu_max(problem->k, 1);
  const double threads = products / THREAD_PRODUCTS;
  return threads < gemm->head.device->threads ? cpu_max((int64_t)threads, 1)
                                              : gemm->head.device->threads;
}

static bool is_few(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *a = &problem->a, *b = &problem->b;
  if (problem->m > FEW_ROWS || !problem->type->dot || gemm->filled) return false;
  const double b_bytes = (double)problem->k * (double)problem->n * b->size;
  if (b->row == 1 && (b->column != 1 || problem->n == 1)) {
    schedule->method = GEMM_DOT;
    schedule->pack_a = !(is_native(problem, a) && a->column == 1);
    schedule->block_k = 1024;
    schedule->piece = 8;
  } else if (b->column == 1 && b_bytes > (double)gemm->head.device->l2_bytes) {
    schedule->method = GEMM_STREAM;
    schedule->pack_a = !is_native(problem, a);
    schedule->block_k = is_native(problem, b) ? 128 : 16;
    schedule->piece = 2048;
  } else {
    return false;
  }
  schedule->pack_b = is_native(problem, b) ? GEMM_PACK_NONE : GEMM_PACK_PANEL;
  return true;
}

/* What does not depend on the tiles. */
static void choose_methods(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const gemm_operand *a = &problem->a, *b = &problem->b;
  const int64_t size = problem->size, columns = problem->type->columns;
  if (!gemm->packed_b && is_few(gemm, schedule)) return;
  schedule->method = GEMM_TILES;
  schedule->block_k = most_tile_k(problem);
  const bool close_b = problem->k * problem->n * size <= DIRECT_B && b->row * size <= 512;
  const bool in_place = !gemm->filled && is_native(problem, b) && b->column == 1 &&
                        (problem->m <= FEW_ROWS || close_b);
  schedule->pack_b = gemm->packed_b ? GEMM_PACKED : in_place ? GEMM_PACK_NONE : GEMM_PACK_BLOCK;
  const bool near = cpu_min(a->row, a->column) == 1 &&
                    cpu_max(a->row, a->column) * (int64_t)a->size <= NEAR_STRIDE;
  schedule->pack_a = !can_read_a(problem) || (!near && problem->n >= 8 * columns);
}

/* Cache blocks: A's block fills a part of the level-2 cache; k is cut into equal parts. */
static void choose_blocks(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t parts = cpu_divide_up(problem->k, schedule->splits);
  schedule->block_k = equal_blocks(parts, schedule->block_k);
  const int64_t fit =
      (int64_t)(gemm->head.device->l2_bytes * 2 / 5) / (schedule->block_k * (int64_t)problem->size);
  const int64_t rows = cpu_max(fit / problem->type->rows, 1) * problem->type->rows;
  const int64_t blocks = cpu_divide_up(schedule->tile_m, rows);
  schedule->block_m = cpu_min(
      cpu_round_up(cpu_divide_up(schedule->tile_m, blocks), problem->type->rows), schedule->tile_m);
}

/* What the epilogue's runs cost besides the work on their elements: a wide tile has fewer. What the
 * micro-kernel computes has none. */
static double run_cost(const cpu_gemm *gemm, int64_t tile_m, int64_t tile_n) {
  const cpu_program *program = gemm->finishes ? gemm->epilogue->rest : gemm->epilogue;
  if (gemm->identity || !program) return 0;
  const double chunks = (double)cpu_divide_up(tile_n, cpu_program_tile_elements(program));
  return (double)tile_m * (RUN_OPERATIONS + chunks * STEP_OPERATIONS * program->passes);
}

/* The model's time of one unit. */
static double unit_cost(const cpu_gemm *gemm, const gemm_schedule *schedule, int64_t tile_m,
                        int64_t tile_n, int64_t splits) {
  const gemm_problem *problem = &gemm->problem;
  const double columns = problem->type->columns;
  const double k = (double)problem->k / (double)splits;
  const double m = (double)tile_m, n = (double)cpu_round_up(tile_n, problem->type->columns);
  /* Two multiply-adds on vectors per time step; tiles of few rows wait for their own sums. */
  const double height = m / (double)cpu_divide_up(tile_m, problem->type->rows);
  double cost = m * n * k / columns * (height < 4 ? 4 / height : 1);
  const double copied = columns / 2;
  const bool as_it_lies =
      !gemm->filled && is_native(problem, &problem->b) && problem->b.column == 1;
  if (schedule->pack_b != GEMM_PACK_NONE && schedule->pack_b != GEMM_PACKED)
    cost += n * k * 4 / copied * (as_it_lies ? 1 : gemm->filled ? 4 : 2);
  if (schedule->pack_a) cost += m * k * 8 / copied;
  /* Operands that do not fit the level-2 cache come from farther away once per unit. */
  const double bytes = (m + n) * k * (double)problem->size;
  if (bytes > (double)gemm->head.device->l2_bytes) cost += bytes / 16;
  cost += m * n * 4 / columns; /* C itself, and the epilogue */
  return cost + run_cost(gemm, tile_m, tile_n) + UNIT_OPERATIONS;
}

/* Half of one thread's share of the last cache: for packed B, and for sums in outputs[0], which are
 * read again for each block of k. */
static int64_t cache_share(const cpu_gemm *gemm) {
  const cpu_device *device = gemm->head.device;
  return cpu_max((int64_t)device->share_bytes / 2 / device->threads, SUMS_LIMIT);
}

/* The widest tile of this height that scratch memory and caches allow, in whole panels of B. */
static int64_t widest_tile(const cpu_gemm *gemm, const gemm_schedule *schedule, bool direct,
                           int64_t tile_m) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t size = problem->size;
  int64_t widest = (direct ? cache_share(gemm) : SUMS_LIMIT) / (tile_m * size);
  if (schedule->pack_b != GEMM_PACK_NONE)
    widest = cpu_min(widest, cache_share(gemm) / (schedule->block_k * size));
  if (gemm->filled) widest = cpu_min(widest, FILLED_PANELS * problem->type->columns);
  return cpu_max(widest / problem->type->columns, 1) * problem->type->columns;
}

/* Tries every grid of up to some units per thread, keeps the cheapest and returns its cost. */
static double choose_tiles(const cpu_gemm *gemm, int64_t threads, bool direct,
                           gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t rows = problem->type->rows, columns = problem->type->columns;
  const int64_t enough = 16 * threads;
  const int64_t tallest =
      (direct ? cache_share(gemm) : SUMS_LIMIT) / (columns * (int64_t)problem->size * rows) * rows;
  const int64_t least_m = cpu_divide_up(problem->m, tallest);
  const int64_t most_m = cpu_min(cpu_divide_up(problem->m, rows), cpu_max(least_m, enough));
  double best = -1;
  for (int64_t tiles_m = least_m; tiles_m <= most_m; tiles_m++) {
    const int64_t tile_m =
        cpu_min(cpu_round_up(cpu_divide_up(problem->m, tiles_m), rows), problem->m);
    const int64_t units_n = problem->batches * cpu_divide_up(problem->m, tile_m);
    const int64_t most_n = cpu_divide_up(problem->n, columns);
    int64_t tiles_n = cpu_divide_up(problem->n, widest_tile(gemm, schedule, direct, tile_m));
    for (bool more = true; more && tiles_n <= most_n; tiles_n++) {
      const int64_t tile_n =
          cpu_min(cpu_round_up(cpu_divide_up(problem->n, tiles_n), columns), problem->n);
      const int64_t units = units_n * cpu_divide_up(problem->n, tile_n);
      const double unit = unit_cost(gemm, schedule, tile_m, tile_n, 1);
      const double cost =
          (double)cpu_divide_up(units, threads) * unit + (threads > 1 ? LATE_SHARE * unit : 0);
      if (best < 0 || cost < best) {
        best = cost;
        schedule->tile_m = tile_m;
        schedule->tile_n = tile_n;
      }
      more = units < enough;
    }
  }
  return best;
}

/* Parts of k instead of tiles of C, where C is small and that is cheaper. */
static void choose_splits(const cpu_gemm *gemm, int64_t threads, double cost,
                          gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t splits = cpu_divide_up(threads, problem->batches);
  if (gemm->packed_b || gemm->filled) return; /* of which there are enough panels */
  if (splits == 1 || problem->k / splits < schedule->block_k) return;
  if (problem->m * problem->n > SPLIT_LIMIT / (int64_t)problem->size) return;
  const bool stream = schedule->method == GEMM_STREAM; /* whole rows of B, one after the other */
  const double unit = unit_cost(gemm, schedule, problem->m, problem->n, splits);
  const double elements = (double)(problem->batches * splits * problem->m * problem->n);
  const double split_cost = (double)cpu_divide_up(problem->batches * splits, threads) * unit +
                            SPLIT_OPERATIONS + elements / problem->type->columns;
  if (split_cost >= cost && !stream) return;
  schedule->splits = splits;
  schedule->tile_m = problem->m;
  schedule->tile_n = problem->n;
}

static void choose_scratch(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t columns = problem->type->columns, size = problem->size;
  int64_t packed =
      schedule->pack_b == GEMM_PACK_BLOCK ? cpu_round_up(schedule->tile_n, columns) : columns;
  if (schedule->pack_b == GEMM_PACKED) packed = 0;
  if (schedule->method != GEMM_TILES)
    packed = schedule->pack_b == GEMM_PACK_NONE ? 0 : schedule->piece;
  const int64_t lines = schedule->block_k + problem->type->terms;
  schedule->b_bytes = (uint64_t)cpu_round_up(packed * lines * size, 64);
  const int64_t a_lines = problem->type->group > 1 ? word_row(lines) : lines;
  if (gemm->filled) {
    schedule->fill_bytes = (uint64_t)cpu_round_up(columns * lines * size, 64);
    schedule->b_bytes += schedule->fill_bytes;
  }
  schedule->a_bytes =
      schedule->pack_a ? (uint64_t)cpu_round_up(schedule->block_m * a_lines * size, 64) : 0;
  schedule->sums_bytes =
      direct || schedule->splits > 1
          ? 0
          : (uint64_t)cpu_round_up(schedule->tile_m * schedule->tile_n * size, 64);
}

/* With one block of rows each panel is used once and may as well be packed then, in a close cache.
 * But a large B that is not turned is read in longer runs when it is packed as a whole. */
static void choose_moment(const cpu_gemm *gemm, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  if (schedule->pack_b != GEMM_PACK_BLOCK || schedule->tile_m > schedule->block_m) return;
  if (gemm->filled) {
    schedule->pack_b = GEMM_PACK_PANEL;
    return;
  }
  const double bytes = (double)problem->k * (double)problem->n * problem->size;
  const bool words = problem->type->group > 1; /* turned into them in runs, too */
  if (problem->b.column != 1 || (!is_native(problem, &problem->b) && !words))
    schedule->pack_b = GEMM_PACK_PANEL;
  else if (!words && bytes <= (double)gemm->head.device->l2_bytes)
    schedule->pack_b = GEMM_PACK_ON_USE;
}

void gemm_schedule_make(const cpu_gemm *gemm, bool direct, gemm_schedule *schedule) {
  const gemm_problem *problem = &gemm->problem;
  const int64_t threads = useful_threads(gemm);
  *schedule = (gemm_schedule){.splits = 1};
  choose_methods(gemm, schedule);
  const double cost = choose_tiles(gemm, threads, direct, schedule);
  if (gemm->packed_b && problem->m <= problem->type->rows) {
    const int64_t panels = problem->m <= 2 ? problem->type->abreast : 1;
    schedule->tile_n = cpu_min(panels * problem->type->columns, problem->n);
  }
  choose_splits(gemm, threads, cost, schedule);
  schedule->tiles_m = cpu_divide_up(problem->m, schedule->tile_m);
  schedule->tiles_n = cpu_divide_up(problem->n, schedule->tile_n);
  choose_blocks(gemm, schedule);
  choose_moment(gemm, schedule);
  const int64_t units = problem->batches * schedule->tiles_m * schedule->tiles_n * schedule->splits;
  schedule->chunk = threads == 1 ? units : cpu_max(units / (16 * threads), 1);
  schedule->tasks = cpu_divide_up(units, schedule->chunk);
  const int64_t close =
      (int64_t)gemm->head.device->l2_bytes * 2 / 5 / (schedule->block_m * (int64_t)problem->size);
  schedule->group = cpu_max(close, 256) / problem->type->columns * problem->type->columns;
  choose_scratch(gemm, direct, schedule);
}
