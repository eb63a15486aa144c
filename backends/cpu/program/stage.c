/* SPDX-License-Identifier: MIT */
/* Prologues and epilogues: converts points of two nests, or boxes of finished values, to lines of
 * the interpreter. */
#include <string.h>

#include "program/finish.h"
#include "program/formulas.h"
#include "program/requantize.h"
#include "program.h"

static void scan(const compute_program *program, cpu_stage *stage) {
  stage->position = -1;
  for (uint32_t i = 0; i < program->count; i++) {
    stage->coordinates |= program->instructions[i].code == COMPUTE_I_COORDINATE;
    stage->positions |= program->instructions[i].code == COMPUTE_I_POSITION;
  }
}

static void describe_operands(const compute_kernel_descriptor *descriptor, compute_dtype value,
                              cpu_stage *stage) {
  const uint32_t inputs = descriptor->input_count;
  for (uint32_t i = 0; i < inputs; i++)
    stage->bytes[i] = cpu_dtype_size(descriptor->inputs[i].dtype);
  for (uint32_t k = 0; k < descriptor->output_count; k++)
    stage->bytes[inputs + k] = cpu_dtype_size(descriptor->outputs[k].dtype);
  stage->value_bytes = cpu_dtype_size(value);
}

static compute_status finish(compute_status status, cpu_stage *stage) {
  if (status) return status;
  stage->tile_elements = cpu_program_tile_elements(stage->program);
  stage->identity = cpu_program_is_identity(stage->program);
  return COMPUTE_OK;
}

compute_status cpu_stage_prepare_prologue(cpu_device *device,
                                          const compute_kernel_descriptor *descriptor,
                                          compute_dtype value, cpu_stage *stage) {
  compute_dtype inputs[COMPUTE_MAX_OPERANDS] = {COMPUTE_DTYPE_NONE};
  const uint32_t count = descriptor->prologue_inputs;
  for (uint32_t i = 0; i < count; i++) inputs[i] = descriptor->inputs[i].dtype;
  *stage = (cpu_stage){.inputs = (int32_t)count};
  scan(&descriptor->prologue, stage);
  describe_operands(descriptor, value, stage);
  return finish(
      cpu_program_prepare(device, &descriptor->prologue, count, inputs, 1, &value, &stage->program),
      stage);
}

compute_status cpu_stage_prepare_epilogue(cpu_device *device,
                                          const compute_kernel_descriptor *descriptor,
                                          compute_dtype value, cpu_stage *stage) {
  compute_dtype inputs[COMPUTE_MAX_OPERANDS] = {value}, outputs[COMPUTE_MAX_OPERANDS];
  const uint32_t first = descriptor->prologue_inputs, count = descriptor->input_count - first;
  for (uint32_t i = 0; i < count; i++) inputs[i + 1] = descriptor->inputs[first + i].dtype;
  for (uint32_t k = 0; k < descriptor->output_count; k++) outputs[k] = descriptor->outputs[k].dtype;
  *stage = (cpu_stage){.epilogue = true,
                       .first_input = (int32_t)first,
                       .inputs = (int32_t)count,
                       .first_output = (int32_t)descriptor->input_count,
                       .outputs = (int32_t)descriptor->output_count};
  scan(&descriptor->epilogue, stage);
  describe_operands(descriptor, value, stage);
  return finish(cpu_program_prepare(device, &descriptor->epilogue, count + 1, inputs,
                                    descriptor->output_count, outputs, &stage->program),
                stage);
}

void cpu_stage_release(cpu_device *device, cpu_stage *stage) {
  cpu_program_release(device, stage->program);
  stage->program = NULL;
}

static void set_coordinates(cpu_place *place, cpu_position p) {
  const int32_t last = cpu_nest_last(p.nest);
  for (int32_t d = 0; d <= last; d++)
    if (p.nest->origin[d] >= 0)
      place->coordinate[p.nest->origin[d]] = d == last ? p.last : p.walk->index[d];
}

void cpu_place_set(cpu_place *place, cpu_position a, cpu_position b) {
  const int32_t last_a = cpu_nest_last(a.nest), last_b = cpu_nest_last(b.nest);
  for (int32_t k = 0; k < a.nest->operands; k++)
    place->offset[k] = a.walk->offset[k] + a.last * a.nest->stride[k][last_a] + b.walk->offset[k] +
                       b.last * b.nest->stride[k][last_b];
  set_coordinates(place, a);
  set_coordinates(place, b);
}

/* The operands along a line, except the values between the stages. */
static void make_tile(const cpu_stage *stage, const cpu_nest *along, const cpu_place *place,
                      void *const *pointers, cpu_tile *tile) {
  const int32_t last = cpu_nest_last(along), first = stage->epilogue ? 1 : 0;
  for (int32_t d = 0; d < COMPUTE_MAX_RANK; d++) tile->coordinate[d] = place->coordinate[d];
  tile->dimension = along->origin[last] < 0 ? 0 : along->origin[last];
  tile->position = stage->position < 0 ? 0 : place->offset[stage->position];
  tile->position_step = stage->position < 0 ? 0 : along->stride[stage->position][last];
  for (int32_t i = 0; i < stage->inputs; i++) {
    const int32_t k = stage->first_input + i;
    tile->input[first + i] = cpu_place_address(stage, place, pointers, k);
    tile->input_stride[first + i] = along->stride[k][last];
  }
  for (int32_t i = 0; i < stage->outputs; i++) {
    const int32_t k = stage->first_output + i;
    tile->output[i] = cpu_place_address(stage, place, pointers, k);
    tile->output_stride[i] = along->stride[k][last];
  }
}

void cpu_stage_run(const cpu_stage *stage, const cpu_nest *along, const cpu_place *place,
                   void *const *pointers, void *values, int64_t count, cpu_scratch *scratch,
                   bool stream) {
  cpu_tile tile;
  make_tile(stage, along, place, pointers, &tile);
  if (stage->epilogue) {
    tile.input[0] = values;
    tile.input_stride[0] = 1;
  } else {
    tile.output[0] = values;
    tile.output_stride[0] = 1;
  }
  cpu_program_run_line(stage->program, &tile, count, 1, scratch, stream);
}

bool cpu_stage_run_lines(const cpu_stage *stage, const cpu_nest *along, const cpu_nest *across,
                         const cpu_place *place, void *const *pointers, void *values, int64_t lines,
                         int64_t count) {
  const cpu_formula *formula = &stage->program->formula;
  const int32_t last = cpu_nest_last(across);
  cpu_tile tile;
  if (!formula->loop || stage->epilogue) return false;
  make_tile(stage, along, place, pointers, &tile);
  if (!cpu_formula_suits(formula, &tile)) return false;
  cpu_line_steps step = {.output = {count}};
  for (int32_t i = 0; i < stage->inputs; i++)
    step.input[i] = across->stride[stage->first_input + i][last];
  tile.count = count;
  tile.output[0] = values;
  cpu_formula_run_lines(formula, &tile, &step, lines);
  return true;
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

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

void cpu_box_merge(cpu_box *box) {
  while (box->rank > 1 && cpu_box_continues(box, box->rank - 2, 0)) {
    const int32_t d = --box->rank - 1;
    box->count[d] *= box->count[d + 1];
    box->dimension[d] = box->dimension[d + 1];
    box->pace[d] = box->pace[d + 1];
    box->position_step[d] = box->position_step[d + 1];
    for (uint32_t i = 0; i < box->program->input_count; i++)
      box->input_step[i][d] = box->input_step[i][d + 1];
    for (uint32_t k = 0; k < box->program->output_count; k++)
      box->output_step[k][d] = box->output_step[k][d + 1];
  }
}

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

static void interpret_box(const cpu_box *box, int32_t along, cpu_scratch *scratch) {
  const cpu_program *program = box->program;
  cpu_tile tile;
  int64_t index[CPU_BOX_RANK] = {0};
  for (uint32_t i = 0; i < program->input_count; i++)
    tile.input_stride[i] = box->input_step[i][along];
  for (uint32_t k = 0; k < program->output_count; k++)
    tile.output_stride[k] = box->output_step[k][along];
  for (int32_t d = 0; d < COMPUTE_MAX_RANK; d++) tile.coordinate[d] = box->coordinate[d];
  tile.dimension = box->dimension[along];
  tile.position = 0;
  tile.position_step = box->position_step[along];
  for (int32_t d = box->rank; d >= 0;) {
    place_tile(box, index, &tile);
    cpu_program_run_line(program, &tile, box->count[along], box->pace[along], scratch, false);
    for (d = box->rank - 1; d >= 0; index[d--] = 0)
      if (d != along && ++index[d] < box->count[d]) break;
  }
}

/* Without scratch memory a box runs on the stack: it must not fail. */
__attribute__((noinline)) static void interpret_box_on_stack(const cpu_box *box, int32_t along) {
  cpu_scratch scratch;
  interpret_box(box, along, &scratch);
}

void cpu_box_run(const cpu_box *box, int32_t along) {
  const cpu_program *program = box->program;
  if (cpu_finish_run(&program->finish, box, along) ||
      cpu_requantize_run(&program->requantize, box, along) ||
      cpu_formula_run_box(&program->formula, box, along))
    return;
  if (program->rest && cpu_finish_run(&program->first, box, along)) {
    run_rest(box, along);
    return;
  }
  cpu_scratch *scratch = cpu_workspace_acquire(program->device, sizeof *scratch);
  if (scratch)
    interpret_box(box, along, scratch);
  else
    interpret_box_on_stack(box, along);
  cpu_workspace_return(program->device, scratch);
}
