/* SPDX-License-Identifier: MIT */
/* Prologues and epilogues: converts points of two nests to lines of the interpreter. */
#include "program/formulas.h"
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

/* Lines of a program that only converts its input to the type between the stages. */
static bool load_lines(const cpu_program *program, const cpu_tile *tile, int64_t across,
                       int64_t lines, int64_t count) {
  const cpu_step *step = &program->step[0];
  if (program->step_count != 1 || step->kind != CPU_STEP_LOAD || !program->output[0].same_type)
    return false;
  const int64_t stride = tile->input_stride[step->input];
  if (stride == 0) return false;
  const unsigned char *from = tile->input[step->input];
  unsigned char *to = tile->output[0];
  for (int64_t l = 0; l < lines; l++) {
    step->load(count, to, from, stride);
    from += across * program->input_bytes[step->input];
    to += count * program->output[0].element_bytes;
  }
  return true;
}

bool cpu_stage_run_lines(const cpu_stage *stage, const cpu_nest *along, const cpu_nest *across,
                         const cpu_place *place, void *const *pointers, void *values, int64_t lines,
                         int64_t count) {
  const cpu_formula *formula = &stage->program->formula;
  const int32_t last = cpu_nest_last(across);
  cpu_tile tile;
  if (stage->epilogue || (!formula->loop && stage->program->step_count > 1)) return false;
  make_tile(stage, along, place, pointers, &tile);
  tile.output[0] = values;
  if (stage->inputs == 1 &&
      load_lines(stage->program, &tile, across->stride[stage->first_input][last], lines, count))
    return true;
  if (!formula->loop || !cpu_formula_suits(formula, &tile)) return false;
  cpu_line_steps step = {.output = {count}};
  for (int32_t i = 0; i < stage->inputs; i++)
    step.input[i] = across->stride[stage->first_input + i][last];
  tile.count = count;
  cpu_formula_run_lines(formula, &tile, &step, lines);
  return true;
}

/* ---- Boxes of a prologue ---------------------------------------------------------------------- */

/* Lines that repeat are copied from the line before them, as one run. */
#define COPY_BOX(type)                                                                             \
  do {                                                                                             \
    type *to = copy;                                                                               \
    const int64_t lines = step[1] == 0 ? 1 : count[1], repeated = (count[1] - lines) * count[2];   \
    for (int64_t i = 0; i < count[0]; i++) {                                                       \
      const type *line = (const type *)from + i * step[0];                                         \
      for (int64_t j = 0; j < lines; j++, to += count[2], line += step[1])                         \
        for (int64_t k = 0; k < count[2]; k++) to[k] = line[k * step[2]];                          \
      for (int64_t k = 0; k < repeated; k++) to[k] = to[k - count[2]];                             \
      to += repeated;                                                                              \
    }                                                                                              \
  } while (0)

/* Copies an operand's elements in the order of the box. */
static void copy_box(void *copy, const void *from, const int64_t *count, const int64_t *step,
                     uint32_t bytes) {
  switch (bytes) {
  case 1: COPY_BOX(uint8_t); break;
  case 2: COPY_BOX(uint16_t); break;
  case 4: COPY_BOX(uint32_t); break;
  default: COPY_BOX(uint64_t); break;
  }
}

/* The stride at which the elements of a box are in order; false if there is none. */
static bool box_stride(const int64_t *count, const int64_t *step, int64_t *stride) {
  int64_t apart = 0;
  bool begun = false;
  *stride = 0;
  for (int d = 2; d >= 0; d--) {
    if (count[d] == 1) continue;
    if (begun && step[d] != apart) return false;
    if (!begun) *stride = step[d];
    begun = true;
    apart = step[d] * count[d];
  }
  return true;
}

void cpu_stage_run_box(const cpu_stage *stage, const cpu_stage_box *box, const cpu_place *place,
                       void *const *pointers, void *values, cpu_scratch *scratch) {
  const int64_t total = box->count[0] * box->count[1] * box->count[2];
  cpu_tile tile = {.dimension = 0};
  for (int32_t i = 0; i < stage->inputs; i++) {
    const int32_t k = stage->first_input + i;
    const void *from = cpu_place_address(stage, place, pointers, k);
    int64_t step[3];
    for (int d = 0; d < 3; d++) step[d] = box->nest[d]->stride[k][box->dimension[d]];
    if (!box_stride(box->count, step, &tile.input_stride[i])) {
      void *copy = box->copies + (uint64_t)i * cpu_stage_copy_bytes(total);
      copy_box(copy, from, box->count, step, stage->bytes[k]);
      from = copy;
      tile.input_stride[i] = 1;
    }
    tile.input[i] = from;
  }
  tile.output[0] = values;
  tile.output_stride[0] = 1;
  cpu_program_run_line(stage->program, &tile, total, 1, scratch, false);
}
