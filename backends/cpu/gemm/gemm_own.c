/* SPDX-License-Identifier: MIT */
/* Our own GEMM implementation: cache blocking around the micro-kernels of isa/gemm_tile.h.
 *
 * A unit is one tile of C. For each block of k, B's part is packed into panels (or read in place).
 * Then for each block of rows, A's part is copied into the L2 cache (or read in place), and the
 * micro-kernels add the product to the sums. The sums are in outputs[0] if it has their dtype and
 * dense rows, otherwise in scratch memory. After the last block of k the epilogue runs over a group
 * of columns of a block of rows, while they are in the cache. */
#include <stdio.h>
#include <string.h>

#include "gemm.h"
#include "program/finish.h"
#include "program/requantize.h"

typedef struct own_launch {
  const cpu_gemm *gemm;
  const gemm_schedule *schedule;
  void *const *pointers;
  const gemm_source *source; /* of B, or NULL */
  bool direct;
  unsigned char *scratch; /* of all workers, followed by the parts of split sums */
  uint64_t worker_bytes;
  unsigned char *parts;
} own_launch;

typedef struct own_unit {
  const own_launch *launch;
  gemm_matrix matrix;
  int64_t row, rows, column, columns;
  int64_t k_first, k_count;
  unsigned char *packed_a, *packed_b;
  unsigned char *stream; /* GEMM_STREAM: room for the sums of some columns, twice */
  int32_t worker;
  unsigned char *sums; /* the unit's first element */
  int64_t sums_row;
  bool finish;                        /* the epilogue follows the last block of k … */
  bool in_kernel;                     /* … in the micro-kernel */
  cpu_gemm_finish ends;               /* if the type finishes */
  cpu_gemm_requantize makes;          /* if the type requantizes */
  uint32_t *row_terms, *column_terms; /* requantize terms by row and column of the whole matrix */
  uint8_t *bytes;                     /* result bytes that wait for a residual */
} own_unit;

/* The elements along k in `count` words from word p on. */
static int64_t elements_of(const gemm_problem *problem, int64_t p, int64_t count) {
  return cpu_min(count * problem->type->group, problem->elements - p * problem->type->group);
}

/* The lines before line p of a panel of a packed B, including the terms after each block of k. p
 * must begin a block or end k. */
static int64_t packed_lines(const gemm_problem *problem, int64_t p) {
  const int64_t block = gemm_packed_block(problem);
  return p + cpu_divide_up(p, block) * problem->type->terms;
}

/* True if words of A are packed as rows: A contiguous along k is converted faster that way. Only
 * slivers have the terms for shifted bytes of B (gemm_pack_words.h). */
static bool packs_word_rows(const gemm_problem *problem) {
  return problem->a.column == 1 && problem->type->word_rows &&
         !(problem->type->group == 4 && problem->b.dtype == COMPUTE_U8);
}

/* The part of A for a block of rows and k, in place or copied. */
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
  block->slivers = unit->launch->schedule->method == GEMM_TILES &&
                   (words ? !packs_word_rows(problem) : problem->type->pack_slivers != NULL);
  if (words && !block->slivers) {
    const cpu_gemm_source source = {data, a->dtype, a->row, a->column};
    block->a_row = gemm_word_row(count);
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

/* Packs columns of a B that is computed at the same time, panel by panel. */
static void fill_b(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                   int64_t columns) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_source *source = unit->launch->source;
  unsigned char *space = unit->packed_b + (schedule->b_bytes - schedule->fill_bytes);
  for (int64_t done = 0; done < columns; done += problem->type->columns) {
    const int64_t width = cpu_min(problem->type->columns, columns - done);
    source->fill(source, p, count, unit->column + column + done, width, unit->worker, space,
                 unit->packed_b + done * count * problem->size);
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

/* The address in a packed B that is read after the columns before `column` and the lines before p:
 * the unit's next columns, its next block of k, or the start of the next unit, which usually
 * belongs to the same thread. */
static const unsigned char *next_panel(const own_unit *unit, int64_t p, int64_t column) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  column += unit->column;
  if (column < unit->column + unit->columns) {
    p = (p - 1) / schedule->block_k * schedule->block_k;
  } else if (p < problem->k) {
    column = unit->column;
  } else {
    p = 0;
    column = unit->column + schedule->tile_n < problem->n ? unit->column + schedule->tile_n : 0;
  }
  const int64_t lines = packed_lines(problem, problem->k);
  return unit->matrix.b +
         (column * lines + packed_lines(problem, p) * problem->type->columns) * problem->size;
}

/* Runs register tiles over B's columns from `column` of the unit on, and returns their number in
 * block->n: all columns, one panel, or the full panels if B is read in place. */
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
    block->ahead = next_panel(unit, p + count, column + columns);
    block->ahead_bytes = panel * (count + problem->type->terms) * (int64_t)problem->size;
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
    if (packing == GEMM_PACK_BLOCK) {
      block->b = unit->packed_b + column * (count + problem->type->terms) * problem->size;
      block->ahead_bytes = block->b_column * (int64_t)problem->size;
    } else {
      pack_b(unit, p, count, column, block->n);
    }
  }
  problem->type->multiply(block);
}

/* True if B's columns are contiguous along k instead of its rows. */
static bool is_turned(const gemm_problem *problem) {
  return problem->b.row == 1 && problem->b.column != 1;
}

/* Streams one part of k, after converting pieces of B. The part's sums are zeros at first. */
static void stream_converted(const own_unit *unit, cpu_gemm_block block, const unsigned char *from,
                             float *part) {
  const cpu_gemm_type *type = unit->launch->gemm->problem.type;
  const gemm_operand *b = &unit->launch->gemm->problem.b;
  const bool turned = is_turned(&unit->launch->gemm->problem);
  const int64_t k = block.k, most = turned ? k : GEMM_CONVERTED_ROWS;
  const unsigned char *a = block.a;
  block.b = unit->packed_b;
  block.c = part;
  block.c_row = block.n;
  block.accumulate = false;
  for (int64_t p = 0; p < k; p += most) {
    block.k = cpu_min(most, k - p);
    block.a = a + p * block.a_k * (int64_t)sizeof *part;
    block.b_k = turned ? 1 : block.n;
    block.b_column = turned ? block.k : 1;
    const cpu_gemm_source source = {from + p * b->row * b->size, b->dtype,
                                    turned ? b->column : b->row, 1};
    if (turned)
      type->pack_rows(unit->packed_b, block.k, block.n, block.k, &source);
    else
      type->pack_rows(unit->packed_b, block.n, block.k, block.n, &source);
    type->stream(&block);
    block.accumulate = block.continues = true;
  }
}

/* Streams columns of a block of k into zeroed sums, in the parts of a register tile. */
static void stream_parts(const own_unit *unit, cpu_gemm_block block, float *sums, int64_t row) {
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const int64_t group = problem->type->group, k = block.k, elements = block.elements;
  const int64_t longest = k > CPU_GEMM_WHOLE ? CPU_GEMM_PART : k;
  const bool converts = unit->launch->schedule->pack_b != GEMM_PACK_NONE;
  const unsigned char *a = block.a, *b = block.b;
  float *part = (float *)(void *)unit->stream + GEMM_STREAM_SUMS;
  for (int64_t i = 0; i < block.m; i++) memset(sums + i * row, 0, (size_t)block.n * sizeof *sums);
  block.c = sums;
  block.c_row = row;
  block.accumulate = true;
  for (int64_t p = 0; p < k; p += longest) {
    block.k = cpu_min(longest, k - p);
    block.elements = cpu_min(block.k * group, elements - p * group);
    block.a = a + p * block.a_k * (int64_t)sizeof(float); /* or words */
    block.b = b + p * group * problem->b.row * problem->b.size;
    if (!converts) {
      problem->type->stream(&block);
      continue;
    }
    stream_converted(unit, block, block.b, part);
    for (int64_t i = 0; i < block.m; i++)
      for (int64_t j = 0; j < block.n; j++) sums[i * row + j] += part[i * block.n + j];
  }
}

/* Streams a block of k with the sums of a register tile (gemm_multiply_tile). */
static void stream_block(const own_unit *unit, const cpu_gemm_block *block) {
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const bool converts = unit->launch->schedule->pack_b != GEMM_PACK_NONE;
  float *apart = (float *)(void *)unit->stream;
  if (!converts && (!problem->type->folds || block->k <= CPU_GEMM_WHOLE)) {
    problem->type->stream(block);
    return;
  }
  const int64_t most = GEMM_STREAM_SUMS / block->m / GEMM_CONVERTED_TURNED * GEMM_CONVERTED_TURNED;
  const int64_t width = !converts            ? most
                        : is_turned(problem) ? GEMM_CONVERTED_TURNED
                                             : cpu_min(most, GEMM_CONVERTED);
  for (int64_t j = 0; j < block->n; j += width) {
    cpu_gemm_block piece = *block;
    float *c = (float *)block->c + j;
    piece.n = cpu_min(width, block->n - j);
    piece.b = (const unsigned char *)block->b + j * problem->b.column * problem->b.size;
    if (!block->accumulate) {
      stream_parts(unit, piece, c, block->c_row);
      continue;
    }
    stream_parts(unit, piece, apart, piece.n);
    for (int64_t i = 0; i < block->m; i++)
      for (int64_t q = 0; q < piece.n; q++) c[i * block->c_row + q] += apart[i * piece.n + q];
  }
}

/* The methods for few rows. B is read in place, or after conversion or copying. */
static void multiply_few(const own_unit *unit, int64_t p, int64_t count, int64_t column,
                         int64_t columns, cpu_gemm_block *block) {
  const gemm_schedule *schedule = unit->launch->schedule;
  const gemm_problem *problem = &unit->launch->gemm->problem;
  const gemm_operand *b = &problem->b;
  block->n = columns;
  block->elements = elements_of(problem, p, count);
  block->b = b_at(unit, p, column);
  block->b_k = b->row;
  block->b_column = b->column;
  if (schedule->method == GEMM_STREAM) {
    stream_block(unit, block);
    return;
  }
  if (schedule->pack_b != GEMM_PACK_NONE) {
    const cpu_gemm_source source = {block->b, b->dtype, b->column, b->row};
    block->n = cpu_min(columns, schedule->piece);
    block->b_column = count * problem->type->group;
    problem->type->pack_rows(unit->packed_b, block->b_column, block->n, block->elements, &source);
    block->b = unit->packed_b;
  }
  problem->type->dot(block);
}

static bool has_residual(const cpu_gemm *gemm) {
  return gemm->finishes && gemm->epilogue->bytes;
}

/* Redirects the micro-kernel's bytes for a block of rows and columns to a buffer, for a
 * residual. */
static cpu_gemm_requantize makes_near(const own_unit *unit, int64_t row, int64_t column,
                                      int64_t columns) {
  cpu_gemm_requantize makes = unit->makes;
  makes.lines.y = unit->bytes - ((unit->row + row) * columns + unit->column + column);
  makes.lines.y_row = columns;
  return makes;
}

/* Adds the residual to the bytes in the buffer. */
static void add_residual(const own_unit *unit, int64_t row, int64_t rows, int64_t column,
                         int64_t columns) {
  const cpu_gemm *gemm = unit->launch->gemm;
  const cpu_requantize_sum *sum = &gemm->epilogue->residual;
  const int own = cpu_requantize_own_term(sum);
  const int16_t input = sum->input[1 - own];
  const gemm_operand *other = &gemm->problem.extra[input - 1], *y = &gemm->problem.output[0];
  cpu_requantize_term from[2];
  from[own] = (cpu_requantize_term){.from = unit->bytes, .row = columns};
  row += unit->row;
  column += unit->column;
  from[1 - own] = (cpu_requantize_term){
      .from = unit->matrix.extra[input - 1] + row * other->row + column, .row = other->row};
  cpu_requantize_sum_lines(
      sum, from,
      &(cpu_requantize_lines){.rows = rows,
                              .count = columns,
                              .y = unit->matrix.output[0] + row * y->row + column,
                              .y_row = y->row});
}

/* One block of rows times one block of k. */
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
    if (problem->type->requantizes)
      block.requantize = &unit->makes;
    else
      block.finish = &unit->ends;
    block.row = unit->row + row;
  }
  const bool epilogue = finish && (!ends || (gemm->epilogue->rest && !unit->ends.after));
  const bool residual = ends && has_residual(gemm);
  const int64_t group = epilogue || residual ? schedule->group : unit->columns;
  cpu_gemm_requantize near;
  for (int64_t column = 0; column < unit->columns; column += group) {
    const int64_t columns = cpu_min(group, unit->columns - column);
    if (residual) {
      near = makes_near(unit, row, column, columns);
      block.requantize = &near;
    }
    for (int64_t done = 0; done < columns; done += block.n) {
      block.c = sums + (column + done) * problem->size;
      block.column = unit->column + column + done;
      if (schedule->method == GEMM_TILES)
        multiply_tiles(unit, p, count, column + done, columns - done, &block);
      else
        multiply_few(unit, p, count, column + done, columns - done, &block);
    }
    if (residual)
      add_residual(unit, row, rows, column, columns);
    else if (epilogue && ends)
      cpu_finish_run_rest(gemm->epilogue,
                          (float *)unit->ends.y + (unit->row + row) * unit->ends.y_row +
                              unit->column + column,
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
  do { /* runs once for k = 0 too: the sums are then zeros */
    const int64_t count = cpu_min(schedule->block_k, end - p);
    if (schedule->pack_b == GEMM_PACK_BLOCK) pack_b(unit, p, count, 0, unit->columns);
    for (int64_t row = 0; row < unit->rows; row += schedule->block_m)
      do_rows(unit, row, cpu_min(schedule->block_m, unit->rows - row), p, count,
              unit->finish && p + count == end);
    p += count;
  } while (p < end);
}

/* Chooses where a unit's sums are built. Each part of a split k has separate sums. */
static void place_sums(own_unit *unit, unsigned char *scratch, int64_t part) {
  const own_launch *launch = unit->launch;
  const gemm_problem *problem = &launch->gemm->problem;
  if (launch->schedule->splits > 1) {
    const int64_t place = (part * problem->m + unit->row) * problem->n + unit->column;
    unit->sums = launch->parts + place * problem->size;
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

/* ---- Finishing in the micro-kernel ----------------------------------------------------------- */

static const gemm_operand *addend(const cpu_gemm *gemm, int i) {
  const int16_t input = cpu_finish_applied(gemm->epilogue)->input[i];
  return input > 0 ? &gemm->problem.extra[input - 1] : NULL;
}

/* How the epilogue requantizes sums to bytes, or NULL. */
static const cpu_requantize *requantize_of(const cpu_gemm *gemm) {
  const cpu_program *epilogue = gemm->epilogue->bytes ? gemm->epilogue->bytes : gemm->epilogue;
  return epilogue->requantize.loops ? &epilogue->requantize : NULL;
}

static bool has_terms(const cpu_gemm *gemm) {
  return gemm->finishes && gemm->problem.type->requantizes && requantize_of(gemm)->terms > 0;
}

/* True if the epilogue requantizes sums to bytes, and its operands' columns are contiguous or
 * constant. */
static bool can_requantize(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  const cpu_requantize *q = requantize_of(gemm);
  if (!q || problem->output[0].column != 1) return false;
  for (int i = 0; i < CPU_REQUANTIZE_INPUTS; i++) {
    if (q->input[i] < 0) continue;
    const int64_t column = problem->extra[q->input[i] - 1].column;
    if (column != 0 && column != 1) return false;
  }
  if (gemm->epilogue->bytes) {
    const cpu_requantize_sum *sum = &gemm->epilogue->residual;
    return problem->extra[sum->input[1 - cpu_requantize_own_term(sum)] - 1].column == 1;
  }
  for (uint32_t t = 0; t < q->terms; t++) {
    const gemm_operand *from = &problem->extra[q->term[t].input - 1];
    if (from->row != 0 && from->column != 0) return false;
  }
  return true;
}

/* True if the micro-kernel can compute the epilogue: either it requantizes (see can_requantize), or
 * it only adds and clamps, and its operands' columns are contiguous. */
static bool can_finish(const cpu_gemm *gemm) {
  const gemm_problem *problem = &gemm->problem;
  if (gemm->identity) return false;
  if (problem->type->requantizes) return can_requantize(gemm);
  if (!problem->type->finishes) return false;
  const cpu_finish *finish = cpu_finish_applied(gemm->epilogue);
  if (!finish || finish->dtype != problem->type->finishes || problem->output_count != 1 ||
      problem->output[0].column != 1)
    return false;
  for (int i = 0; i < 3; i++) {
    const gemm_operand *operand = addend(gemm, i);
    if (operand && operand->column != 1 && (i > 0 || operand->column != 0)) return false;
  }
  return true;
}

bool gemm_ends_in_tile(const cpu_gemm *gemm) {
  return gemm->identity || (can_finish(gemm) && !gemm->epilogue->rest);
}

static const void *addend_at(const own_unit *unit, int i, int64_t *row) {
  const gemm_operand *operand = addend(unit->launch->gemm, i);
  *row = operand ? operand->row : 0;
  return operand
             ? unit->matrix.extra[cpu_finish_applied(unit->launch->gemm->epilogue)->input[i] - 1]
             : NULL;
}

static void place_requantize(own_unit *unit) {
  const cpu_gemm *gemm = unit->launch->gemm;
  const cpu_requantize *q = requantize_of(gemm);
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

/* Adds a term's values for the rows or columns from `first` on. */
static void add_term(const cpu_requantize_term_i32 *term, const int32_t *from, int64_t step,
                     int64_t first, int64_t count, uint32_t *to) {
  for (int64_t i = first; i < first + count; i++)
    to[i] += term->factor * (uint32_t)from[i * step] + term->constant;
}

/* Computes the terms that the epilogue adds to a unit's rows and columns. */
static void place_terms(own_unit *unit) {
  const cpu_gemm *gemm = unit->launch->gemm;
  const cpu_requantize *q = requantize_of(gemm);
  memset(unit->row_terms + unit->row, 0, (size_t)unit->rows * sizeof *unit->row_terms);
  memset(unit->column_terms + unit->column, 0, (size_t)unit->columns * sizeof *unit->column_terms);
  for (uint32_t t = 0; t < q->terms; t++) {
    const cpu_requantize_term_i32 *term = &q->term[t];
    const gemm_operand *operand = &gemm->problem.extra[term->input - 1];
    const int32_t *from = (const int32_t *)(const void *)unit->matrix.extra[term->input - 1];
    if (operand->row == 0)
      add_term(term, from, operand->column, unit->column, unit->columns, unit->column_terms);
    else
      add_term(term, from, operand->row, unit->row, unit->rows, unit->row_terms);
  }
  unit->makes.rows = unit->row_terms;
  unit->makes.lines.offset = (const int32_t *)unit->column_terms;
  unit->makes.lines.offset_along = true;
}

/* Sets up finishing for a batch entry; does nothing if sums are finished later. */
static void place_finish(own_unit *unit) {
  const cpu_gemm *gemm = unit->launch->gemm;
  unit->in_kernel = gemm->finishes && unit->launch->schedule->method == GEMM_TILES;
  if (!unit->in_kernel) return;
  if (gemm->problem.type->requantizes) {
    place_requantize(unit);
    return;
  }
  const cpu_finish *finish = cpu_finish_applied(gemm->epilogue);
  unit->ends.a = addend_at(unit, 0, &unit->ends.a_row);
  unit->ends.b = addend_at(unit, 1, &unit->ends.b_row);
  unit->ends.c = addend_at(unit, 2, &unit->ends.c_row);
  unit->ends.a_repeats = unit->ends.a && addend(gemm, 0)->column == 0;
  unit->ends.low = finish->low;
  unit->ends.zero = finish->zero;
  unit->ends.high = finish->high;
  unit->ends.functions = gemm->epilogue->functions;
  unit->ends.apply = unit->ends.functions ? cpu_finish_apply : NULL;
  unit->ends.y = unit->matrix.output[0];
  unit->ends.y_row = gemm->problem.output[0].row;
  unit->ends.after = gemm->epilogue->rest_rows;
}

/* The address `bytes` after scratch; NULL if there is no scratch memory. */
static unsigned char *after(unsigned char *scratch, uint64_t bytes) {
  return scratch ? scratch + bytes : NULL;
}

/* Runs a task's units. Units are numbered by batch entry, tile row, tile column and part of k. */
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
  if (schedule->method == GEMM_STREAM) /* the end of b_bytes */
    unit.stream = unit.packed_b + (schedule->b_bytes - 2 * GEMM_STREAM_SUMS * sizeof(float));
  unit.row_terms = (uint32_t *)(void *)after(scratch, schedule->a_bytes + schedule->b_bytes +
                                                          schedule->sums_bytes);
  unit.column_terms = unit.row_terms ? unit.row_terms + problem->m : NULL;
  unit.bytes = (uint8_t *)unit.row_terms; /* never used together with terms */
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
    unit.k_first = split * schedule->block_k; /* part 0 is all of k if it is not split */
    unit.k_count =
        schedule->splits == 1 ? problem->k : cpu_min(schedule->block_k, problem->k - unit.k_first);
    place_sums(&unit, after(scratch, schedule->a_bytes + schedule->b_bytes),
               index / per_batch * schedule->splits + split);
    if (unit.finish && unit.in_kernel && has_terms(launch->gemm)) place_terms(&unit);
    do_unit(&unit);
  }
}

/* Adds the parts of one batch entry and runs the epilogue. The sum replaces the first part. */
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
  if (has_terms(gemm))
    launch.worker_bytes +=
        (uint64_t)cpu_round_up((problem->m + problem->n) * (int64_t)sizeof(uint32_t), 64);
  if (has_residual(gemm))
    launch.worker_bytes += (uint64_t)cpu_round_up(schedule->block_m * schedule->group, 64);
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
  LEAST_TILES = 4, /* so that several threads have work without splitting k */
  TASK_PANELS = 4
};

/* True if prepacking B pays. B must be the same for all batch entries. A B of the accumulate type
 * can also be read in place, so it needs many panels or an order other than along the columns; words
 * cannot be read in place. */
static bool packing_pays(const gemm_problem *problem) {
  for (int32_t d = 0; d < problem->batch_rank; d++)
    if (problem->b.batch[d] != 0) return false;
  if (problem->k == 0) return false;
  if (problem->dots) return false;
  const bool turned = problem->b.row == 1 && problem->b.column != 1;
  const bool many = turned || problem->n >= LEAST_TILES * problem->type->columns;
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

/* Packs one panel as words, block by block. */
static void pack_blocks(const gemm_problem *problem, unsigned char *to, int64_t columns,
                        cpu_gemm_source source) {
  const int64_t panel = problem->type->columns;
  const int64_t block = gemm_packed_block(problem);
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
