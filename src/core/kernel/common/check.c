/* SPDX-License-Identifier: MIT */
/* Checks of kernel descriptors, so that no backend has to repeat them. Checks of one kind are in
 * kinds/. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

bool descriptor_refuse(const explanation *why, const char *format, ...) {
  va_list list;
  va_start(list, format);
  if (why->bytes > 0) vsnprintf(why->text, why->bytes, format, list);
  va_end(list);
  return false;
}

/* ---- Space and operands -------------------------------------------------------------------- */

static bool check_space(const compute_kernel_descriptor *d, const explanation *why) {
  compute_shape space = {.rank = d->rank};
  for (int32_t i = 0; i < d->rank && i < COMPUTE_MAX_RANK; i++) space.size[i] = d->size[i];
  int64_t count;
  compute_status status = shape_validate(space, &count);
  if (status) return descriptor_refuse(why, "space: %s", shape_problem(space, status));
  for (int32_t i = 0; i < d->rank; i++)
    if (space.size[i] > SHAPE_MOST_ELEMENTS || count > SHAPE_MOST_ELEMENTS)
      return descriptor_refuse(why, "space: too many elements for any memory");
  return true;
}

static bool check_operands(const compute_kernel_descriptor *d, const explanation *why) {
  /* Separate tests, because the sum of two huge numbers may wrap. */
  if (d->input_count > COMPUTE_MAX_OPERANDS || d->output_count > COMPUTE_MAX_OPERANDS ||
      d->input_count + d->output_count > COMPUTE_MAX_OPERANDS) {
    return descriptor_refuse(why, "%" PRIu32 " inputs and %" PRIu32 " outputs are too many",
                             d->input_count, d->output_count);
  }
  if (d->output_count == 0) return descriptor_refuse(why, "no outputs");
  if (!d->outputs || (d->input_count > 0 && !d->inputs))
    return descriptor_refuse(why, "operands are NULL");
  for (uint32_t i = 0; i < d->input_count; i++) {
    if (!dtype_is_valid(d->inputs[i].dtype))
      return descriptor_refuse(why, "input %" PRIu32 ": invalid dtype", i);
  }
  for (uint32_t i = 0; i < d->output_count; i++) {
    if (!dtype_is_valid(d->outputs[i].dtype)) {
      return descriptor_refuse(why, "output %" PRIu32 ": invalid dtype", i);
    }
  }
  return true;
}

bool descriptor_check_axis(int64_t size, const explanation *why) {
  return size <= SHAPE_MOST_ELEMENTS ||
         descriptor_refuse(why, "an axis has too many elements for any memory");
}

/* Outputs must have a separate element for each position in dimensions 0 … rank − 1. */
bool descriptor_check_outputs_distinct(const compute_kernel_descriptor *d, int32_t rank,
                                       const explanation *why) {
  for (uint32_t k = 0; k < d->output_count; k++) {
    for (int32_t i = 0; i < rank; i++) {
      if (d->size[i] > 1 && d->outputs[k].stride[i] == 0) {
        return descriptor_refuse(why, "output %" PRIu32 " repeats in dimension %d", k, (int)i);
      }
    }
  }
  return true;
}

bool descriptor_check_counts(const compute_kernel_descriptor *d, uint32_t inputs, uint32_t outputs,
                             const explanation *why) {
  if (d->input_count == inputs && d->output_count == outputs) return true;
  return descriptor_refuse(
      why, "%" PRIu32 " inputs and %" PRIu32 " outputs instead of %" PRIu32 " and %" PRIu32,
      d->input_count, d->output_count, inputs, outputs);
}

bool descriptor_check_no_programs(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->prologue.count == 0 && d->epilogue.count == 0) return true;
  return descriptor_refuse(why, "this kind takes no program");
}

/* ---- Programs ------------------------------------------------------------------------------ */

/* The types that a program's loads must have, by input. */
typedef struct input_types {
  uint32_t count;
  compute_dtype type[COMPUTE_MAX_OPERANDS + 1];
} input_types;

static void add_types(input_types *types, const compute_kernel_descriptor *d, uint32_t first,
                      uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    types->type[types->count++] = dtype_compute_type(d->inputs[i].dtype);
  }
}

static bool check_program(const char *name, const compute_program *program, int32_t rank,
                          const input_types *types, uint32_t outputs, const explanation *why) {
  char reason[160];
  if (!program_check(program, types->count, reason, sizeof reason)) {
    return descriptor_refuse(why, "%s: %s", name, reason);
  }
  if (program->output_count != outputs) {
    return descriptor_refuse(why, "%s: %" PRIu32 " outputs instead of %" PRIu32, name,
                             program->output_count, outputs);
  }
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *instruction = &program->instructions[i];
    int64_t immediate = instruction->immediate.i64;
    if (instruction->code == COMPUTE_I_LOAD && instruction->type != types->type[immediate]) {
      return descriptor_refuse(why, "%s: input %" PRId64 " is loaded as %s instead of %s", name,
                               immediate, compute_dtype_name((compute_dtype)instruction->type),
                               compute_dtype_name(types->type[immediate]));
    }
    if (instruction->code == COMPUTE_I_COORDINATE && immediate >= rank) {
      return descriptor_refuse(why, "%s: dimension %" PRId64 " of %d", name, immediate, (int)rank);
    }
  }
  return true;
}

/* Checks an epilogue with value 0 of the kernel (type `first`) and the inputs from `rest` on.
 * Without a program, there must be one output and no such inputs. */
bool descriptor_check_epilogue(const compute_kernel_descriptor *d, compute_dtype first,
                               uint32_t rest, int32_t rank, const explanation *why) {
  if (d->epilogue.count == 0) {
    if (d->output_count == 1 && d->input_count == rest) return true;
    return descriptor_refuse(why,
                             "without an epilogue there must be one output and no inputs for it");
  }
  input_types types = {.count = 1, .type = {first}};
  add_types(&types, d, rest, d->input_count);
  return check_program("epilogue", &d->epilogue, rank, &types, d->output_count, why);
}

/* The prologue must produce one element of type `accumulate`. */
bool descriptor_check_prologue(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->prologue_inputs > d->input_count) {
    return descriptor_refuse(why, "the prologue has %" PRIu32 " inputs of %" PRIu32,
                             d->prologue_inputs, d->input_count);
  }
  compute_dtype made;
  if (d->prologue.count > 0) {
    input_types types = {.count = 0};
    add_types(&types, d, 0, d->prologue_inputs);
    if (!check_program("prologue", &d->prologue, d->rank, &types, 1, why)) return false;
    made = (compute_dtype)d->prologue.instructions[d->prologue.outputs[0]].type;
  } else {
    if (d->prologue_inputs != 1)
      return descriptor_refuse(why, "without a prologue it has one input");
    made = dtype_compute_type(d->inputs[0].dtype);
  }
  if (made == d->accumulate) return true;
  return descriptor_refuse(why, "elements are %s, but are accumulated in %s",
                           compute_dtype_name(made), compute_dtype_name(d->accumulate));
}

bool descriptor_is_arithmetic(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32 || type == COMPUTE_I64 || type == COMPUTE_I32;
}

/* Checks the two factors of a product and its accumulation type. */
bool descriptor_check_product(const compute_kernel_descriptor *d, const char *kind,
                              compute_precision precision, unsigned known, const explanation *why) {
  if (d->input_count < 2) return descriptor_refuse(why, "%s needs two factors", kind);
  if (d->prologue.count > 0) return descriptor_refuse(why, "%s has no prologue", kind);
  if ((unsigned)precision & ~known) return descriptor_refuse(why, "unknown precision");
  bool is_float = d->accumulate == COMPUTE_F64 || d->accumulate == COMPUTE_F32;
  for (int i = 0; i < 2; i++) {
    compute_dtype dtype = d->inputs[i].dtype;
    if (!descriptor_is_arithmetic(d->accumulate) || dtype == COMPUTE_BOOL ||
        dtype_is_float(dtype) != is_float) {
      return descriptor_refuse(why, "cannot accumulate %s in %s", compute_dtype_name(dtype),
                               compute_dtype_name(d->accumulate));
    }
  }
  return descriptor_check_epilogue(d, d->accumulate, 2, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

bool descriptor_check_map_program(const compute_kernel_descriptor *d, const explanation *why) {
  input_types types = {.count = 0};
  add_types(&types, d, 0, d->input_count);
  return check_program("program", &d->epilogue, d->rank, &types, d->output_count, why);
}

/* ---- The whole descriptor ------------------------------------------------------------------- */

/* Limits strides to the size of any memory, because code that walks a buffer backwards computes its
 * extent. */
static bool check_strides(const compute_kernel_descriptor *d, const explanation *why) {
  for (uint32_t k = 0; k < d->input_count + d->output_count; k++) {
    const bool input = k < d->input_count;
    const compute_operand *o = input ? &d->inputs[k] : &d->outputs[k - d->input_count];
    for (int32_t i = 0; i < COMPUTE_MAX_RANK; i++)
      if (o->stride[i] < -SHAPE_MOST_ELEMENTS || o->stride[i] > SHAPE_MOST_ELEMENTS)
        return descriptor_refuse(why, "a stride of %s %u exceeds any memory",
                                 input ? "input" : "output",
                                 (unsigned)(input ? k : k - d->input_count));
  }
  return true;
}

bool descriptor_check_operands(const compute_kernel_descriptor *d, const explanation *why) {
  return check_space(d, why) && check_operands(d, why) && check_strides(d, why);
}
