/* SPDX-License-Identifier: MIT */
/* Programs that add up to three inputs to input 0 and limit the sum, for example bias, residual and
 * relu after a convolution. They run as one loop instead of one loop per instruction. Input 0 is
 * f32: the unmodified sums of products. The other inputs and the result are f32 or bf16.
 *
 * Additions keep the program's order, (x + a) + (b + c). Terms may be missing, and the two operands
 * of a sum may be swapped. So results have the same bits as the interpreter's. */
#include <math.h>
#include <string.h>

#include "program/finish.h"
#include "program/lines.h"
#include "program/pattern.h"

/* a, b and c are IN(0), IN(1) and IN(2). */
static const char limited_sum[] = MAYBE(
    AT_MOST(MAYBE(AT_LEAST(
                MAYBE(EITHER(ADD(MAYBE(EITHER(ADD(FIRST, IN(0)))), MAYBE(ADD(IN(1), IN(2)))))), 0)),
            1));

/* Makes the loop of a program; loops is NULL if it has another form. Zeros of either sign are equal,
 * and instructions differ in the choice: relu and max(low, x) return x, max(x, low) returns low. So
 * some limits are left to the interpreter. */
static void make_finish(const cpu_isa *isa, const compute_program *program,
                        const compute_dtype *inputs, compute_dtype dtype, cpu_finish *finish) {
  cpu_match m;
  *finish = (cpu_finish){.dtype = dtype};
  if (!cpu_pattern_match(limited_sum, program, inputs, dtype, &m)) return;
  const float low = m.is_number[0] ? m.number[0] : -INFINITY;
  const float high = m.is_number[1] ? m.number[1] : INFINITY;
  const bool suits = low == low && !(low == 0 && signbit(low)) && high == high && high != 0;
  if (!suits || m.input[0] == 0 || m.input[1] == 0 || m.input[2] == 0) return; /* x + x */
  memcpy(finish->input, m.input, sizeof finish->input);
  finish->zero = m.takes_limit && low == 0 ? 0.0f : -0.0f;
  finish->low = low;
  finish->high = high;
  finish->loops = CPU_PICK(isa, cpu_finish);
}

/* `true` if the program's results have this dtype, and its size suits these loops: a program in f32
 * only that loads its result is left to others. */
static bool has_size(const compute_program *program, uint32_t output_count,
                     const compute_dtype *outputs, compute_dtype dtype) {
  const uint32_t least = dtype == COMPUTE_F32 ? 2 : 1;
  return program->count >= least && program->count <= CPU_FINISH_MOST && output_count == 1 &&
         outputs[0] == dtype;
}

void cpu_finish_read(const cpu_isa *isa, const compute_program *program,
                     const compute_dtype *inputs, uint32_t output_count,
                     const compute_dtype *outputs, cpu_finish *finish) {
  const compute_dtype dtype = outputs[0] == COMPUTE_BF16 ? COMPUTE_BF16 : COMPUTE_F32;
  *finish = (cpu_finish){.loops = NULL};
  if (has_size(program, output_count, outputs, dtype))
    make_finish(isa, program, inputs, dtype, finish);
}

/* ---- The program after a loop ---------------------------------------------------------------- */

/* Copies an instruction to `rest` with renumbered operands; false if an operand is not in
 * `rest`. */
static bool move_instruction(const compute_instruction *from, const int32_t *moved,
                             compute_instruction *to) {
  uint16_t *const operand[] = {&to->a, &to->b, &to->c};
  const int count = cpu_operand_count(from->code);
  if (from->code == COMPUTE_I_LOAD || from->code == COMPUTE_I_COORDINATE ||
      from->code == COMPUTE_I_POSITION || from->code == COMPUTE_I_RANDOM)
    return false;
  *to = *from;
  for (int i = 0; i < count; i++) {
    if (moved[*operand[i]] < 0) return false;
    *operand[i] = (uint16_t)moved[*operand[i]];
  }
  return true;
}

/* The program after value `cut`, which becomes its input 0; false if it reads anything else. */
static bool read_rest(const compute_program *program, uint32_t cut, cpu_finish_rest *rest) {
  int32_t moved[CPU_FINISH_MOST];
  rest->count = 1;
  rest->instructions[0] = (compute_instruction){.code = COMPUTE_I_LOAD, .type = COMPUTE_F32};
  for (uint32_t i = 0; i < program->count; i++) {
    moved[i] = i == cut ? 0 : -1;
    if (i != cut &&
        move_instruction(&program->instructions[i], moved, &rest->instructions[rest->count]))
      moved[i] = (int32_t)rest->count++;
  }
  const int32_t output = moved[program->outputs[0]];
  rest->output = (uint16_t)output;
  return output > 0;
}

void cpu_finish_divide(const cpu_isa *isa, const compute_program *program,
                       const compute_dtype *inputs, uint32_t output_count,
                       const compute_dtype *outputs, compute_dtype dtype, cpu_finish *first,
                       cpu_finish_rest *rest) {
  *first = (cpu_finish){.loops = NULL};
  if (!has_size(program, output_count, outputs, dtype)) return;
  for (uint16_t cut = (uint16_t)program->count; cut-- > 0;) {
    const compute_program start = {program->count, 1, program->instructions, &cut};
    if (program->instructions[cut].code == COMPUTE_I_LOAD) continue;
    make_finish(isa, &start, inputs, dtype, first);
    if (first->loops && read_rest(program, cut, rest)) return;
  }
  first->loops = NULL;
}

bool cpu_finish_are_functions(const cpu_program *program) {
  for (uint32_t i = 1; i < program->step_count; i++) {
    const cpu_step *step = &program->step[i];
    if (step->kind != CPU_STEP_UNARY || step->operand[0] != step[-1].result) return false;
  }
  return program->step[0].kind == CPU_STEP_LOAD && program->output[0].same_type;
}

bool cpu_finish_adds(const compute_program *program, const compute_dtype *inputs,
                     uint32_t output_count, const compute_dtype *outputs, int16_t *added,
                     uint16_t *before) {
  if (program->count < 3 || program->count > CPU_FINISH_MOST || output_count != 1 ||
      outputs[0] != COMPUTE_F32)
    return false;
  const compute_instruction *last = &program->instructions[program->outputs[0]];
  if (last->code != COMPUTE_I_ADD || last->type != COMPUTE_F32) return false;
  for (int i = 0; i < 2; i++) {
    const compute_instruction *operand = &program->instructions[i == 0 ? last->a : last->b];
    if (operand->code != COMPUTE_I_LOAD || operand->immediate.i64 == 0 ||
        inputs[operand->immediate.i64] != COMPUTE_F32)
      continue;
    *added = (int16_t)operand->immediate.i64;
    *before = i == 0 ? last->b : last->a;
    return true;
  }
  return false;
}

/* ---- Running --------------------------------------------------------------------------------- */

static const void *input_at(const cpu_lines *l, int16_t input, uint32_t size, int64_t *row) {
  *row = 0;
  if (input < 0) return NULL;
  return l->box->input[input] + cpu_lines_offset(l, l->box->input_step[input], row) * size;
}

static void run_lines(const cpu_finish *finish, const cpu_lines *lines) {
  const cpu_box *box = lines->box;
  cpu_finish_lines l = {.rows = lines->rows,
                        .count = lines->count,
                        .low = finish->low,
                        .zero = finish->zero,
                        .high = finish->high};
  const uint32_t size = cpu_dtype_size(finish->dtype);
  l.x = input_at(lines, 0, sizeof(float), &l.x_row);
  l.a = input_at(lines, finish->input[0], size, &l.a_row);
  l.b = input_at(lines, finish->input[1], size, &l.b_row);
  l.c = input_at(lines, finish->input[2], size, &l.c_row);
  l.a_repeats = l.a && box->input_step[finish->input[0]][lines->along] == 0;
  l.y = box->output[0] + cpu_lines_offset(lines, box->output_step[0], &l.y_row) * size;
  (finish->dtype == COMPUTE_BF16 ? finish->loops->run_bf16 : finish->loops->run)(&l);
}

static bool suits(const cpu_finish *finish, const cpu_box *box, int32_t along) {
  if (!finish->loops || box->input_step[0][along] != 1 || box->output_step[0][along] != 1)
    return false;
  for (int i = 0; i < 3; i++) {
    if (finish->input[i] < 0) continue;
    const int64_t step = box->input_step[finish->input[i]][along];
    if (step != 1 && (i > 0 || step != 0)) return false;
  }
  return true;
}

bool cpu_finish_run(const cpu_finish *finish, const cpu_box *box, int32_t along) {
  if (!suits(finish, box, along)) return false;
  cpu_lines lines = cpu_lines_first(box, along);
  do run_lines(finish, &lines);
  while (cpu_lines_next(&lines));
  return true;
}

void cpu_finish_apply(const void *functions, int64_t count, float *x) {
  const cpu_program *program = functions;
  const cpu_step *const end = program->step + program->step_count;
  for (const cpu_step *step = program->step + 1; step < end; step++)
    step->loops[0](count, x, x, NULL, NULL, step->immediate);
}

/* Rows of `columns` elements, in place. */
static void run_rows(const cpu_program *rest, float *y, int64_t row, int64_t rows,
                     int64_t columns) {
  cpu_box box = {.program = rest,
                 .rank = 2,
                 .count = {rows, columns},
                 .dimension = {0, 1},
                 .input = {(const unsigned char *)y},
                 .input_step = {{row, 1}},
                 .output = {(unsigned char *)y},
                 .output_step = {{row, 1}}};
  cpu_box_merge(&box);
  cpu_box_run(&box, box.rank - 1);
}

/* Short rows with gaps are copied together first: starting one program step costs as much as about
 * ten elements. */
void cpu_finish_run_rest(const cpu_program *program, float *y, int64_t row, int64_t rows,
                         int64_t columns) {
  enum { ROOM = 1024, SHORT = ROOM / 2 };
  _Alignas(64) float together[ROOM];
  if (program->rest_rows) {
    program->rest_rows(rows, columns, y, row);
    return;
  }
  if (row == columns || columns > SHORT || rows < 2) {
    run_rows(program->rest, y, row, rows, columns);
    return;
  }
  const int64_t most = ROOM / columns;
  const size_t bytes = (size_t)columns * sizeof *y;
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = cpu_min(most, rows - first);
    float *from = y + first * row;
    for (int64_t i = 0; i < count; i++) memcpy(together + i * columns, from + i * row, bytes);
    run_rows(program->rest, together, columns, count, columns);
    for (int64_t i = 0; i < count; i++) memcpy(from + i * row, together + i * columns, bytes);
  }
}
