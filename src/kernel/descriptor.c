/* Checks of kernel descriptors, so that no backend has to repeat them. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernel/attributes.h"
#include "kernel/descriptor_check.h"
#include "kernel/fit_problem.h"
#include "kernel/program.h"
#include "type/dtype.h"
#include "type/shape.h"

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
      return descriptor_refuse(why, "space: no memory has that many elements");
  return true;
}

static bool check_operands(const compute_kernel_descriptor *d, const explanation *why) {
  /* Apart, because the sum of two wild numbers may wrap. */
  if (d->input_count > COMPUTE_MAX_OPERANDS || d->output_count > COMPUTE_MAX_OPERANDS ||
      d->input_count + d->output_count > COMPUTE_MAX_OPERANDS) {
    return descriptor_refuse(why, "%" PRIu32 " inputs and %" PRIu32 " outputs are too many",
                             d->input_count, d->output_count);
  }
  if (d->output_count == 0) return descriptor_refuse(why, "there is no output");
  if (!d->outputs || (d->input_count > 0 && !d->inputs))
    return descriptor_refuse(why, "operands are NULL");
  for (uint32_t i = 0; i < d->input_count; i++) {
    if (!dtype_is_valid(d->inputs[i].dtype))
      return descriptor_refuse(why, "input %" PRIu32 ": no dtype", i);
  }
  for (uint32_t i = 0; i < d->output_count; i++) {
    if (!dtype_is_valid(d->outputs[i].dtype)) {
      return descriptor_refuse(why, "output %" PRIu32 ": no dtype", i);
    }
  }
  return true;
}

bool descriptor_check_axis(int64_t size, const explanation *why) {
  return size <= SHAPE_MOST_ELEMENTS ||
         descriptor_refuse(why, "no memory has an axis of that many elements");
}

/* Outputs must have an element of their own for each position in dimensions 0 … rank − 1. */
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
  return descriptor_refuse(why, "this kind carries no program");
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

/* An epilogue over value 0 of the kernel (`first`) and the inputs from `rest` on; without a program
 * there must be one output and no such inputs. */
bool descriptor_check_epilogue(const compute_kernel_descriptor *d, compute_dtype first,
                               uint32_t rest, int32_t rank, const explanation *why) {
  if (d->epilogue.count == 0) {
    if (d->output_count == 1 && d->input_count == rest) return true;
    return descriptor_refuse(why, "without an epilogue there is one output and no input of it");
  }
  input_types types = {.count = 1, .type = {first}};
  add_types(&types, d, rest, d->input_count);
  return check_program("epilogue", &d->epilogue, rank, &types, d->output_count, why);
}

/* The prologue makes one element of type `accumulate`. */
static bool check_prologue(const compute_kernel_descriptor *d, const explanation *why) {
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

static bool is_arithmetic(compute_dtype type) {
  return type == COMPUTE_F64 || type == COMPUTE_F32 || type == COMPUTE_I64 || type == COMPUTE_I32;
}

/* ---- Kinds --------------------------------------------------------------------------------- */

static bool check_map(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->prologue.count > 0) return descriptor_refuse(why, "MAP has no prologue");
  if (d->epilogue.count == 0) return descriptor_refuse(why, "MAP needs a program");
  input_types types = {.count = 0};
  add_types(&types, d, 0, d->input_count);
  return check_program("program", &d->epilogue, d->rank, &types, d->output_count, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

/* Epilogue inputs and outputs run over the kept dimensions only. */
static bool check_reduced_strides(const compute_kernel_descriptor *d, const explanation *why) {
  for (int32_t i = compute_reduce_of(d)->kept_rank; i < d->rank; i++) {
    if (d->size[i] <= 1) continue;
    for (uint32_t k = d->prologue_inputs; k < d->input_count; k++) {
      if (d->inputs[k].stride[i] != 0) {
        return descriptor_refuse(why, "input %" PRIu32 " moves in the reduced dimension %d", k,
                                 (int)i);
      }
    }
    for (uint32_t k = 0; k < d->output_count; k++) {
      if (d->outputs[k].stride[i] != 0) {
        return descriptor_refuse(why, "output %" PRIu32 " moves in the reduced dimension %d", k,
                                 (int)i);
      }
    }
  }
  return true;
}

static bool check_reduce(const compute_kernel_descriptor *d, const explanation *why) {
  if (compute_reduce_of(d)->kept_rank < 0 || compute_reduce_of(d)->kept_rank > d->rank) {
    return descriptor_refuse(why, "%d kept dimensions of %d", (int)compute_reduce_of(d)->kept_rank,
                             (int)d->rank);
  }
  if ((unsigned)compute_reduce_of(d)->combine > COMPUTE_COMBINE_ARGMIN)
    return descriptor_refuse(why, "unknown combination");
  bool extremum = compute_reduce_of(d)->combine == COMPUTE_COMBINE_MAX ||
                  compute_reduce_of(d)->combine == COMPUTE_COMBINE_MIN;
  if (!is_arithmetic(d->accumulate) && !(extremum && d->accumulate == COMPUTE_BOOL)) {
    return descriptor_refuse(why, "cannot accumulate in %s", compute_dtype_name(d->accumulate));
  }
  bool position = compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMAX ||
                  compute_reduce_of(d)->combine == COMPUTE_COMBINE_ARGMIN;
  return check_prologue(d, why) &&
         descriptor_check_epilogue(d, position ? COMPUTE_I64 : d->accumulate, d->prologue_inputs,
                                   compute_reduce_of(d)->kept_rank, why) &&
         check_reduced_strides(d, why) &&
         descriptor_check_outputs_distinct(d, compute_reduce_of(d)->kept_rank, why);
}

static bool check_row(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->rank < 1) return descriptor_refuse(why, "ROW needs a dimension");
  if ((unsigned)compute_row_of(d)->operation > COMPUTE_ROW_NORMALIZE)
    return descriptor_refuse(why, "unknown row operation");
  if (d->accumulate != COMPUTE_F64 && d->accumulate != COMPUTE_F32) {
    return descriptor_refuse(why, "cannot compute rows in %s", compute_dtype_name(d->accumulate));
  }
  if (!isfinite(compute_row_of(d)->epsilon) || compute_row_of(d)->epsilon < 0)
    return descriptor_refuse(why, "epsilon is %g", compute_row_of(d)->epsilon);
  return check_prologue(d, why) &&
         descriptor_check_epilogue(d, d->accumulate, d->prologue_inputs, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

/* The two factors of a product and the type in which it is summed. */
static bool check_product(const compute_kernel_descriptor *d, const char *kind,
                          compute_precision precision, unsigned known, const explanation *why) {
  if (d->input_count < 2) return descriptor_refuse(why, "%s needs two factors", kind);
  if (d->prologue.count > 0) return descriptor_refuse(why, "%s has no prologue", kind);
  if ((unsigned)precision & ~known) return descriptor_refuse(why, "unknown precision");
  bool is_float = d->accumulate == COMPUTE_F64 || d->accumulate == COMPUTE_F32;
  for (int i = 0; i < 2; i++) {
    compute_dtype dtype = d->inputs[i].dtype;
    if (!is_arithmetic(d->accumulate) || dtype == COMPUTE_BOOL ||
        dtype_is_float(dtype) != is_float) {
      return descriptor_refuse(why, "cannot accumulate %s in %s", compute_dtype_name(dtype),
                               compute_dtype_name(d->accumulate));
    }
  }
  return descriptor_check_epilogue(d, d->accumulate, 2, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

static bool check_gemm(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->rank < 2) return descriptor_refuse(why, "GEMM needs two dimensions");
  const compute_gemm_attributes *a = compute_gemm_of(d);
  if (a->k < 0) return descriptor_refuse(why, "k is negative");
  return descriptor_check_axis(a->k, why) &&
         check_product(d, "GEMM", a->precision, COMPUTE_PRECISION_TF32, why);
}

/* The sizes of the space, which the convolution's own must give again. */
static bool check_convolution_space(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_conv_attributes *c = compute_conv_of(d);
  int64_t want[4] = {c->batch, c->result_channels, c->result_size[0], c->result_size[1]};
  if (c->direction == COMPUTE_CONVOLUTION_BY_DATA) {
    want[1] = c->data_channels;
    want[2] = c->data_size[0];
    want[3] = c->data_size[1];
  } else if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER) {
    want[0] = c->result_channels;
    want[1] = c->data_channels / c->groups;
    want[2] = c->filter_size[0];
    want[3] = c->filter_size[1];
  }
  for (int i = 0; i < 4; i++) {
    if (d->size[i] != want[i]) {
      return descriptor_refuse(why, "dimension %d of the space is %" PRId64 " instead of %" PRId64,
                               i, d->size[i], want[i]);
    }
  }
  return true;
}

/* Positions lie in the padding, too, so that strides are multiplied by more than sizes: `reach`,
 * for height and width. */
static bool check_convolution_strides(const compute_kernel_descriptor *d, const int64_t reach[2],
                                      const explanation *why) {
  const compute_conv_attributes *c = compute_conv_of(d);
  int64_t most = c->batch, steps;
  if (c->data_channels > most) most = c->data_channels;
  if (c->result_channels > most) most = c->result_channels;
  for (uint32_t k = 0; k < d->input_count + d->output_count; k++) {
    const compute_operand *o = k < d->input_count ? &d->inputs[k] : &d->outputs[k - d->input_count];
    for (int i = 0; i < 4; i++)
      if (__builtin_mul_overflow(i < 2 ? most : reach[i - 2], o->stride[i], &steps) ||
          steps > SHAPE_MOST_ELEMENTS || steps < -SHAPE_MOST_ELEMENTS)
        return descriptor_refuse(why, "the convolution is too large to address");
  }
  return true;
}

static bool check_conv(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_conv_attributes *c = compute_conv_of(d);
  int64_t reach[2]; /* of the last result: with it, no position in x can overflow */
  if (d->rank != 4) return descriptor_refuse(why, "CONV needs four dimensions");
  if ((unsigned)c->direction > COMPUTE_CONVOLUTION_BY_FILTER) {
    return descriptor_refuse(why, "unknown direction of a convolution");
  }
  if (c->groups < 1 || c->batch < 0 || c->data_channels < 0 || c->result_channels < 0 ||
      c->data_channels % c->groups != 0 || c->result_channels % c->groups != 0) {
    return descriptor_refuse(why, "%d groups do not divide %" PRId64 " and %" PRId64 " channels",
                             (int)c->groups, c->data_channels, c->result_channels);
  }
  for (int i = 0; i < 2; i++) {
    if (c->data_size[i] < 0 || c->result_size[i] < 0 || c->filter_size[i] < 1 || c->stride[i] < 1 ||
        c->dilation[i] < 1 || c->padding[i] < 0) {
      return descriptor_refuse(
          why, "a size, stride, dilation or padding of the convolution is too small");
    }
    int64_t steps, taps;
    if (__builtin_mul_overflow(c->result_size[i], c->stride[i], &steps) ||
        __builtin_mul_overflow(c->filter_size[i], c->dilation[i], &taps) ||
        __builtin_add_overflow(steps, taps, &reach[i]) ||
        __builtin_add_overflow(reach[i], c->padding[i], &reach[i])) {
      return descriptor_refuse(why, "the convolution reaches beyond 63 bits");
    }
  }
  return check_convolution_space(d, why) &&
         check_product(d, "CONV", c->precision, COMPUTE_PRECISION_TF32 | COMPUTE_PRECISION_WINOGRAD,
                       why) &&
         check_convolution_strides(d, reach, why);
}

static bool check_indexed(const compute_kernel_descriptor *d, const explanation *why) {
  if (!descriptor_check_counts(d, 2, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->inputs[0].dtype != d->outputs[0].dtype)
    return descriptor_refuse(why, "source and result differ");
  if (d->inputs[1].dtype != COMPUTE_I32 && d->inputs[1].dtype != COMPUTE_I64) {
    return descriptor_refuse(why, "indices are %s; they must be i32 or i64",
                             compute_dtype_name(d->inputs[1].dtype));
  }
  if (compute_index_of(d)->axis_size < 0)
    return descriptor_refuse(why, "the axis has a negative size");
  if (!descriptor_check_axis(compute_index_of(d)->axis_size, why)) return false;
  if (d->kind == COMPUTE_KERNEL_GATHER) return descriptor_check_outputs_distinct(d, d->rank, why);
  if (d->outputs[0].dtype == COMPUTE_BOOL) return descriptor_refuse(why, "cannot add bool");
  return true;
}

static bool check_copy(const compute_kernel_descriptor *d, const explanation *why) {
  return descriptor_check_counts(d, 1, 1, why) && descriptor_check_no_programs(d, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

/* ---- FIT ------------------------------------------------------------------------------------- */

static bool check_fit_inputs(const compute_kernel_descriptor *d, const explanation *why) {
  const uint32_t inputs = compute_fit_of(d)->problem.inputs;
  if (d->inputs[0].dtype != COMPUTE_F32 && d->inputs[0].dtype != COMPUTE_U16)
    return descriptor_refuse(why, "pixels are %s; they must be f32 or u16",
                             compute_dtype_name(d->inputs[0].dtype));
  for (int32_t i = 0; i < FIT_INPUTS; i++) {
    const int32_t at = fit_input_index(inputs, UINT32_C(1) << i);
    if (at < 0 || d->inputs[at].dtype == fit_input_dtype(i)) continue;
    return descriptor_refuse(why, "%s: dtype %s instead of %s", fit_input_name(i),
                             compute_dtype_name(d->inputs[at].dtype),
                             compute_dtype_name(fit_input_dtype(i)));
  }
  return true;
}

/* Frames and maps hold an ROI at least, and their pixels can be counted. */
static bool check_fit_frames(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  const bool stack = (p->flags & COMPUTE_FIT_STACK) != 0;
  int64_t pixels;
  if ((p->inputs & COMPUTE_FIT_WITH_CORNERS) == 0) return true;
  if (compute_fit_of(d)->rows < p->rows || compute_fit_of(d)->columns < p->columns ||
      compute_fit_of(d)->rows > INT32_MAX || compute_fit_of(d)->columns > INT32_MAX)
    return descriptor_refuse(why, "an ROI of %d × %d in frames of %" PRId64 " × %" PRId64,
                             (int)p->rows, (int)p->columns, compute_fit_of(d)->rows,
                             compute_fit_of(d)->columns);
  if (!stack && (compute_fit_of(d)->frames < 0 || compute_fit_of(d)->frames > INT32_MAX ||
                 __builtin_mul_overflow(compute_fit_of(d)->rows * compute_fit_of(d)->columns,
                                        compute_fit_of(d)->frames, &pixels)))
    return descriptor_refuse(why, "%" PRId64 " frames are no number of frames",
                             compute_fit_of(d)->frames);
  return true;
}

static bool check_fit(const compute_kernel_descriptor *d, const explanation *why) {
  if (d->rank != 1) return descriptor_refuse(why, "FIT has one dimension, its ROIs");
  if (!fit_problem_is_normal(&compute_fit_of(d)->problem, why->text, why->bytes)) return false;
  const compute_fit_problem *p = &compute_fit_of(d)->problem;
  if (!descriptor_check_counts(d, 1 + (uint32_t)__builtin_popcount(p->inputs), 1, why) ||
      !descriptor_check_no_programs(d, why) || !check_fit_inputs(d, why) ||
      !check_fit_frames(d, why))
    return false;
  if (p->rows * p->columns < fit_problem_free_count(p))
    return descriptor_refuse(why, "%d × %d pixels are fewer than the %d free parameters",
                             (int)p->rows, (int)p->columns, (int)fit_problem_free_count(p));
  if (d->outputs[0].dtype != COMPUTE_F32)
    return descriptor_refuse(why, "records are %s; they must be f32",
                             compute_dtype_name(d->outputs[0].dtype));
  if (d->outputs[0].stride[1] == 0 && compute_fit_column(p->model, p->outputs, 0) > 1)
    return descriptor_refuse(why, "output 0 repeats along its record");
  return descriptor_check_outputs_distinct(d, 1, why);
}

/* Strides no longer than memory: what walks a buffer backwards asks how far it reaches. */
static bool check_strides(const compute_kernel_descriptor *d, const explanation *why) {
  for (uint32_t k = 0; k < d->input_count + d->output_count; k++) {
    const bool input = k < d->input_count;
    const compute_operand *o = input ? &d->inputs[k] : &d->outputs[k - d->input_count];
    for (int32_t i = 0; i < COMPUTE_MAX_RANK; i++)
      if (o->stride[i] < -SHAPE_MOST_ELEMENTS || o->stride[i] > SHAPE_MOST_ELEMENTS)
        return descriptor_refuse(why, "a stride of %s %u is beyond all memory",
                                 input ? "input" : "output",
                                 (unsigned)(input ? k : k - d->input_count));
  }
  return true;
}

bool descriptor_check(const compute_kernel_descriptor *d, char *reason, size_t reason_bytes) {
  const explanation why = {reason, reason_bytes};
  if (!d) return descriptor_refuse(&why, "descriptor is NULL");
  if (d->struct_size < sizeof *d)
    return descriptor_refuse(&why, "struct_size is %zu", d->struct_size);
  if (!check_space(d, &why) || !check_operands(d, &why) || !check_strides(d, &why)) return false;
  if (!kernel_attributes_fit(d))
    return descriptor_refuse(&why, "attributes of %zu bytes",
                             d->attributes ? d->attribute_bytes : 0);
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP: return check_map(d, &why);
  case COMPUTE_KERNEL_REDUCE: return check_reduce(d, &why);
  case COMPUTE_KERNEL_ROW: return check_row(d, &why);
  case COMPUTE_KERNEL_GEMM: return check_gemm(d, &why);
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER: return check_indexed(d, &why);
  case COMPUTE_KERNEL_COPY: return check_copy(d, &why);
  case COMPUTE_KERNEL_CONV: return check_conv(d, &why);
  case COMPUTE_KERNEL_FIT: return check_fit(d, &why);
  case COMPUTE_KERNEL_WINDOW: return descriptor_check_window(d, &why);
  case COMPUTE_KERNEL_SCAN: return descriptor_check_scan(d, &why);
  case COMPUTE_KERNEL_TOP_K: return descriptor_check_top_k(d, &why);
  case COMPUTE_KERNEL_ATTENTION: return descriptor_check_attention(d, &why);
  case COMPUTE_KERNEL_SPOTS: return descriptor_check_spots(d, &why);
  }
  return descriptor_refuse(&why, "kind %d is unknown", (int)d->kind);
}
