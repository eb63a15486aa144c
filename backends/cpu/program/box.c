/* SPDX-License-Identifier: MIT */
/* Runs programs over boxes of finished values: as one loop if there is one, otherwise in lines of
 * the interpreter.
 *
 * Each line has a fixed cost, which exceeds the work of a few pixels' channels. Short lines and sets
 * of a few lines therefore run together, up to the size of a tile. Operands whose lines do not follow
 * each other in memory, for example one factor per channel, are first copied to a block of lines. */
#include <string.h>

#include "core/move.h"
#include "program/finish.h"
#include "program/formulas.h"
#include "program/lines.h"
#include "program/requantize.h"

bool cpu_box_continues(const cpu_box *box, int32_t d, uint32_t first) {
  const cpu_program *program = box->program;
  const int64_t count = box->count[d + 1];
  if (box->count[d] == 1 && !(program->places & ~CPU_PLACES_POSITION)) return true;
  if (program->places & ~CPU_PLACES_POSITION) return false;
  if (program->places && box->position_step[d] != count * box->position_step[d + 1]) return false;
  for (uint32_t i = first; i < program->input_count; i++)
    if (box->input_step[i][d] != count * box->input_step[i][d + 1]) return false;
  for (uint32_t k = 0; k < program->output_count; k++)
    if (box->output_step[k][d] != count * box->output_step[k][d + 1]) return false;
  return true;
}

/* Moves dimension `from` to `to`. */
static void move_dimension(cpu_box *box, int32_t from, int32_t to) {
  box->count[to] = box->count[from];
  box->dimension[to] = box->dimension[from];
  box->pace[to] = box->pace[from];
  box->position_step[to] = box->position_step[from];
  for (uint32_t i = 0; i < box->program->input_count; i++)
    box->input_step[i][to] = box->input_step[i][from];
  for (uint32_t k = 0; k < box->program->output_count; k++)
    box->output_step[k][to] = box->output_step[k][from];
}

/* Merges dimensions d and d + 1. */
static void merge_at(cpu_box *box, int32_t d) {
  const int64_t count = box->count[d];
  move_dimension(box, d + 1, d);
  box->count[d] *= count;
  for (int32_t i = d + 1; i < box->rank - 1; i++) move_dimension(box, i + 1, i);
  box->rank--;
}

void cpu_box_merge(cpu_box *box) {
  while (box->rank > 1 && cpu_box_continues(box, box->rank - 2, 0)) merge_at(box, box->rank - 2);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Distance from the box's first element to a point, in elements. */
static int64_t distance(const cpu_box *box, const int64_t *index, const int64_t *step) {
  int64_t elements = 0;
  for (int32_t d = 0; d < box->rank; d++) elements += index[d] * step[d];
  return elements;
}

static void place_tile(const cpu_box *box, const int64_t *index, cpu_tile *tile) {
  const cpu_program *program = box->program;
  for (uint32_t i = 0; i < program->input_count; i++)
    tile->input[i] =
        box->input[i] + distance(box, index, box->input_step[i]) * program->input_bytes[i];
  for (uint32_t k = 0; k < program->output_count; k++)
    tile->output[k] = box->output[k] +
                      distance(box, index, box->output_step[k]) * program->output[k].element_bytes;
  if (!program->places) return;
  tile->position = box->position + distance(box, index, box->position_step);
  for (int32_t d = 0; d < box->rank; d++)
    tile->coordinate[box->dimension[d]] =
        box->coordinate[box->dimension[d]] + index[d] * box->pace[d];
}

static void set_strides(const cpu_box *box, int32_t along, cpu_tile *tile) {
  const cpu_program *program = box->program;
  for (uint32_t i = 0; i < program->input_count; i++)
    tile->input_stride[i] = box->input_step[i][along];
  for (uint32_t k = 0; k < program->output_count; k++)
    tile->output_stride[k] = box->output_step[k][along];
  for (int32_t d = 0; d < COMPUTE_MAX_RANK; d++) tile->coordinate[d] = box->coordinate[d];
  tile->dimension = box->dimension[along];
  tile->position = 0;
  tile->position_step = box->position_step[along];
}

static void interpret_lines(const cpu_box *box, int32_t along, cpu_scratch *scratch) {
  cpu_tile tile;
  int64_t index[CPU_BOX_RANK] = {0};
  set_strides(box, along, &tile);
  for (int32_t d = box->rank; d >= 0;) {
    place_tile(box, index, &tile);
    cpu_program_run_line(box->program, &tile, box->count[along], box->pace[along], scratch, false);
    for (d = box->rank - 1; d >= 0; index[d--] = 0)
      if (d != along && ++index[d] < box->count[d]) break;
  }
}

/* Without scratch memory a box runs on the stack: it must not fail. */
__attribute__((noinline)) static void interpret_on_stack(const cpu_box *box, int32_t along) {
  cpu_scratch scratch;
  interpret_lines(box, along, &scratch);
}

/* ---- Short lines together -------------------------------------------------------------------- */

/* An operand of several lines. Those that are not `copied` continue from line to line. */
typedef struct line_operand {
  bool copied;
  int64_t set, row, along; /* steps, in bytes: to the next set of lines, to the next line, within a
                            * line (one element, or 0) */
  int64_t bytes;           /* of an element */
  unsigned char *block;
} line_operand;

/* Lines are some rows of a set, or all rows of several sets. */
typedef struct line_block {
  int32_t over;          /* the dimension of sets; −1 if blocks are rows of one set */
  int64_t columns, most; /* length and greatest number of lines */
  int64_t rows, sets;    /* of a block at most */
  int copies;
  uint64_t bytes; /* of all copies */
  line_operand input[COMPUTE_MAX_OPERANDS], output[COMPUTE_MAX_OPERANDS];
} line_block;

/* Fewer lines at a time do not repay the copies, nor do copies of more operands. */
enum { LEAST_LINES = 4, MOST_COPIES = 6 };

/* False if an operand's lines are not contiguous, so that they are not copied. */
static bool describe_operand(const cpu_lines *l, const int64_t *step, int64_t bytes,
                             line_block *block, line_operand *operand) {
  const int64_t row = step[l->across], along = step[l->along];
  const int64_t set = block->over < 0 ? 0 : step[block->over];
  const bool copied = row != along * l->count || (block->over >= 0 && set != row * l->rows);
  *operand = (line_operand){copied, set * bytes, row * bytes, along * bytes, bytes, NULL};
  if (copied) block->bytes += cpu_whole_lines((uint64_t)(block->most * l->count * bytes));
  block->copies += copied;
  return !copied || along == 0 || along == 1;
}

/* Divides the lines into blocks. Sets that leave most of a tile empty run together. */
static void choose_blocks(const cpu_lines *l, line_block *block) {
  const cpu_box *box = l->box;
  const int64_t lines = cpu_program_tile_elements(box->program) / l->count;
  *block = (line_block){.over = -1, .columns = l->count, .sets = 1};
  block->rows = cpu_min(lines, l->rows);
  for (int32_t d = 0; d < box->rank && 2 * l->rows <= lines; d++)
    if (d != l->along && d != l->across && box->count[d] > 1) block->over = d;
  if (block->over >= 0) block->sets = cpu_min(lines / l->rows, box->count[block->over]);
  block->most = block->rows * block->sets;
}

/* `true` if lines of the box should run together; describes its operands. */
static bool suits_together(const cpu_lines *l, line_block *block) {
  const cpu_box *box = l->box;
  const cpu_program *program = box->program;
  if (l->across < 0 || program->places) return false;
  choose_blocks(l, block);
  if (block->most < LEAST_LINES) return false;
  for (uint32_t i = 0; i < program->input_count; i++)
    if (!describe_operand(l, box->input_step[i], program->input_bytes[i], block, &block->input[i]))
      return false;
  for (uint32_t k = 0; k < program->output_count; k++) {
    line_operand *operand = &block->output[k];
    if (!describe_operand(l, box->output_step[k], program->output[k].element_bytes, block,
                          operand) ||
        (operand->copied && operand->along == 0))
      return false;
  }
  return block->copies <= MOST_COPIES;
}

/* Writes `count` copies of `bytes` bytes one after another. */
static void repeat(unsigned char *to, const unsigned char *from, int64_t bytes, int64_t count) {
  cpu_move_any(to, from, (size_t)bytes);
  for (int64_t done = bytes, all = bytes * count; done < all;) {
    const int64_t more = cpu_min(done, all - done);
    cpu_move_any(to + done, to, (size_t)more);
    done += more;
  }
}

/* Rows that repeat an element each, in moves of `part` that may overlap. */
#define FILL_LOOP(type, moves)                                                                     \
  for (int64_t i = 0; i < rows; i++, from += step, to += line) {                                   \
    type x;                                                                                        \
    memcpy(&x, from, sizeof x);                                                                    \
    const part all = (part){0} + x;                                                                \
    moves                                                                                          \
  }

#define FILL_TWICE(size)                                                                           \
  memcpy(to, &all, size);                                                                          \
  memcpy(to + line - (size), &all, size);

#define FILL_ROWS(type)                                                                            \
  do {                                                                                             \
    typedef type part __attribute__((vector_size(16)));                                            \
    if (line > 32)                                                                                 \
      FILL_LOOP(type, for (int64_t k = 0; k < line - 16; k += 16) memcpy(to + k, &all, 16);        \
                memcpy(to + line - 16, &all, 16);)                                                 \
    else if (line >= 16)                                                                           \
      FILL_LOOP(type, FILL_TWICE(16))                                                              \
    else if (line >= 8)                                                                            \
      FILL_LOOP(type, FILL_TWICE(8))                                                               \
    else if (line >= 4)                                                                            \
      FILL_LOOP(type, FILL_TWICE(4))                                                               \
    else                                                                                           \
      FILL_LOOP(type, for (int64_t k = 0; k < line; k += (int64_t)sizeof x)                        \
                          memcpy(to + k, &all, sizeof x);)                                         \
  } while (0)

static void fill_rows(unsigned char *to, const unsigned char *from, int64_t step, int64_t bytes,
                      int64_t rows, int64_t columns) {
  const int64_t line = columns * bytes;
  switch (bytes) {
  case 1: FILL_ROWS(uint8_t); break;
  case 2: FILL_ROWS(uint16_t); break;
  case 4: FILL_ROWS(uint32_t); break;
  case 8: FILL_ROWS(uint64_t); break;
  default:
    for (int64_t i = 0; i < rows; i++) repeat(to + i * line, from + i * step, bytes, columns);
  }
}

/* Copies rows of `line` bytes to rows that follow each other, or from them. */
static void move_rows(unsigned char *to, int64_t to_step, const unsigned char *from,
                      int64_t from_step, int64_t line, int64_t rows) {
  for (int64_t i = 0; i < rows; i++)
    cpu_move_any(to + i * to_step, from + i * from_step, (size_t)line);
}

static void copy_set(const line_operand *o, unsigned char *to, const unsigned char *from,
                     int64_t rows, int64_t columns) {
  const int64_t line = columns * o->bytes;
  if (o->row == 0 && o->along != 0)
    repeat(to, from, line, rows);
  else if (o->row == 0)
    fill_rows(to, from, 0, o->bytes, 1, rows * columns);
  else if (o->along == 0)
    fill_rows(to, from, o->row, o->bytes, rows, columns);
  else if (o->row == line)
    cpu_move_any(to, from, (size_t)(line * rows));
  else
    move_rows(to, line, from, o->row, line, rows);
}

static void copy_in(const line_operand *o, const unsigned char *from, int64_t sets, int64_t rows,
                    int64_t columns) {
  const int64_t bytes = rows * columns * o->bytes;
  const int64_t copies = o->set == 0 ? 1 : sets;
  for (int64_t i = 0; i < copies; i++)
    copy_set(o, o->block + i * bytes, from + i * o->set, rows, columns);
  if (copies < sets) repeat(o->block + bytes, o->block, bytes, sets - 1);
}

static void copy_out(const line_operand *o, unsigned char *to, int64_t sets, int64_t rows,
                     int64_t columns) {
  const int64_t line = columns * o->bytes;
  for (int64_t i = 0; i < sets; i++)
    move_rows(to + i * o->set, o->row, o->block + i * rows * line, line, line, rows);
}

/* Runs `rows` lines from line `first` of a set of lines, or all of several sets. A `start` is the
 * first block with these indices of the other dimensions: it copies also what all blocks share. */
static void run_together(const cpu_lines *l, const line_block *block, int64_t first, int64_t rows,
                         int64_t sets, bool start, cpu_tile *tile, cpu_scratch *scratch) {
  const cpu_box *box = l->box;
  const cpu_program *program = box->program;
  unsigned char *result[COMPUTE_MAX_OPERANDS];
  int64_t row;
  tile->count = sets * rows * block->columns;
  for (uint32_t i = 0; i < program->input_count; i++) {
    const line_operand *o = &block->input[i];
    const unsigned char *from =
        box->input[i] + cpu_lines_offset(l, box->input_step[i], &row) * o->bytes + first * o->row;
    const int64_t step = block->over < 0 ? o->row : o->set;
    tile->input[i] = o->copied ? o->block : from;
    if (o->copied && (step != 0 || start)) copy_in(o, from, sets, rows, block->columns);
  }
  for (uint32_t k = 0; k < program->output_count; k++) {
    const line_operand *o = &block->output[k];
    result[k] =
        box->output[k] + cpu_lines_offset(l, box->output_step[k], &row) * o->bytes + first * o->row;
    tile->output[k] = o->copied ? o->block : result[k];
  }
  cpu_program_run(program, tile, scratch, false);
  for (uint32_t k = 0; k < program->output_count; k++)
    if (block->output[k].copied) copy_out(&block->output[k], result[k], sets, rows, block->columns);
}

static unsigned char *place_block(line_operand *o, const line_block *block, unsigned char *at) {
  o->block = at;
  return o->copied ? at + cpu_whole_lines((uint64_t)(block->most * block->columns * o->bytes)) : at;
}

/* Runs all lines, with memory for the scratch block and for the copies after it. */
static void interpret_together(cpu_lines *l, line_block *block, unsigned char *memory) {
  const cpu_program *program = l->box->program;
  cpu_scratch *scratch = (cpu_scratch *)(void *)memory;
  unsigned char *at = memory + sizeof *scratch;
  const int32_t over = block->over;
  const int64_t all = over < 0 ? 1 : l->box->count[over];
  cpu_tile tile;
  set_strides(l->box, l->along, &tile);
  for (uint32_t i = 0; i < program->input_count; i++) {
    at = place_block(&block->input[i], block, at);
    if (block->input[i].copied) tile.input_stride[i] = 1;
  }
  for (uint32_t k = 0; k < program->output_count; k++)
    at = place_block(&block->output[k], block, at);
  do {
    for (int64_t set = 0; set < all; set += block->sets) {
      const int64_t sets = cpu_min(block->sets, all - set);
      if (over >= 0) l->index[over] = set;
      for (int64_t first = 0; first < l->rows; first += block->rows)
        run_together(l, block, first, cpu_min(block->rows, l->rows - first), sets,
                     set == 0 && first == 0, &tile, scratch);
    }
    if (over >= 0) l->index[over] = all - 1; /* the dimension is done */
  } while (cpu_lines_next(l));
}

/* Finds the way with the fewest copies for lines to run together: in sets along the longest other
 * dimension, or along the last. */
static bool choose_together(cpu_lines *l, line_block *block) {
  cpu_lines inner = *l;
  line_block other;
  const bool suits = suits_together(l, block);
  for (int32_t d = 0; d < l->box->rank; d++)
    if (d != l->along && l->box->count[d] > 1) inner.across = d;
  if (inner.across == l->across) return suits;
  inner.rows = l->box->count[inner.across];
  if (!suits_together(&inner, &other) || (suits && block->copies <= other.copies)) return suits;
  *l = inner;
  *block = other;
  return true;
}

/* Merges the other dimensions than `along` as far as possible; returns its new number. */
static int32_t merge_others(cpu_box *box, int32_t along) {
  for (int32_t d = box->rank - 2; d >= 0; d--) {
    if (d == along || d + 1 == along || !cpu_box_continues(box, d, 0)) continue;
    merge_at(box, d);
    along -= d < along;
  }
  return along;
}

/* Boxes are large, so only those with dimensions to merge are copied. */
static void interpret_box(const cpu_box *box, int32_t along) {
  cpu_device *device = box->program->device;
  cpu_box merged;
  line_block block;
  cpu_lines lines;
  if (box->rank > 2) {
    merged = *box;
    lines = cpu_lines_first(&merged, merge_others(&merged, along));
  } else {
    lines = cpu_lines_first(box, along);
  }
  const bool together = choose_together(&lines, &block);
  unsigned char *memory =
      cpu_workspace_acquire(device, sizeof(cpu_scratch) + (together ? block.bytes : 0));
  if (!memory)
    interpret_on_stack(box, along);
  else if (together)
    interpret_together(&lines, &block, memory);
  else
    interpret_lines(lines.box, lines.along, (cpu_scratch *)(void *)memory);
  cpu_workspace_return(device, memory);
}

/* ---- The program ----------------------------------------------------------------------------- */

/* Runs the rest of the program over a loop's results in place. */
static void run_rest(const cpu_box *box, int32_t along) {
  cpu_box rest = *box;
  rest.program = box->program->rest;
  rest.input[0] = box->output[0];
  memcpy(rest.input_step[0], box->output_step[0], sizeof rest.input_step[0]);
  if (along == rest.rank - 1) {
    cpu_box_merge(&rest);
    along = rest.rank - 1;
  }
  cpu_box_run(&rest, along);
}

/* The least number of elements of short lines that run together. */
enum { LEAST_JOINED = 256 };

/* `true` if the operand's lines follow each other, are all the same line, or repeat an element. */
static bool joins(const int64_t *step, int32_t across, int32_t along, int64_t line) {
  return step[across] == 0 || step[along] == 0 || step[across] == step[along] * line;
}

/* `true` for short lines that need copies of repeated lines only. A loop that handles each of them
 * would not fill its vectors. */
static bool joins_short_lines(const cpu_box *box, int32_t along) {
  const cpu_program *program = box->program;
  int64_t elements = 1;
  int32_t across = -1;
  if (box->count[along] >= CPU_SHORT_LINE || program->places) return false;
  for (int32_t d = 0; d < box->rank; d++) {
    elements *= box->count[d];
    if (d != along && box->count[d] > 1) across = d;
  }
  if (across < 0 || elements < LEAST_JOINED) return false;
  const int64_t line = box->count[along];
  for (uint32_t i = 0; i < program->input_count; i++)
    if (!joins(box->input_step[i], across, along, line)) return false;
  for (uint32_t k = 0; k < program->output_count; k++)
    if (!joins(box->output_step[k], across, along, line)) return false;
  return true;
}

void cpu_box_run(const cpu_box *box, int32_t along) {
  const cpu_program *program = box->program;
  if (joins_short_lines(box, along)) {
    interpret_box(box, along);
    return;
  }
  if (cpu_finish_run(&program->finish, box, along) ||
      cpu_requantize_run(&program->requantize, box, along) ||
      cpu_formula_run_box(&program->formula, box, along))
    return;
  if (program->rest && cpu_finish_run(&program->first, box, along))
    run_rest(box, along);
  else
    interpret_box(box, along);
}
