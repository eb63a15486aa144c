/* Writing a descriptor as bytes, and reading it back: the two must be changed together. */
#include "kernel/kernel_key.h"

#include <string.h>

#include "kernel/program.h"

/* ---- Writing ------------------------------------------------------------------------------- */

static void put(kernel_key *key, const void *data, size_t bytes) {
  memcpy(key->bytes + key->length, data, bytes);
  key->length += bytes;
}

static void put_i64(kernel_key *key, int64_t value) {
  put(key, &value, sizeof value);
}

static void put_operands(kernel_key *key, const compute_operand *operands, uint32_t count,
                         int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t dtype = (uint32_t)operands[i].dtype;
    put(key, &dtype, sizeof dtype);
    put(key, operands[i].stride, (size_t)rank * sizeof *operands[i].stride);
  }
}

/* A fit's operands move along more dimensions than its space has. */
static int32_t stride_count(const compute_kernel_descriptor *d) {
  return d->kind == COMPUTE_KERNEL_FIT ? 3 : d->rank;
}

static void put_program(kernel_key *key, const compute_program *program) {
  put_i64(key, program->count);
  if (program->count == 0) return;
  put_i64(key, program->output_count);
  for (uint32_t i = 0; i < program->count; i++) {
    compute_instruction instruction = program_normalize(program->instructions[i]);
    put(key, &instruction, sizeof instruction);
  }
  put(key, program->outputs, program->output_count * sizeof *program->outputs);
}

static void put_convolution(kernel_key *key, const compute_convolution *c) {
  put_i64(key, c->direction);
  put_i64(key, c->groups);
  put_i64(key, c->batch);
  put_i64(key, c->data_channels);
  put_i64(key, c->result_channels);
  put(key, c->data_size, sizeof c->data_size);
  put(key, c->result_size, sizeof c->result_size);
  put(key, c->filter_size, sizeof c->filter_size);
  put(key, c->stride, sizeof c->stride);
  put(key, c->dilation, sizeof c->dilation);
  put(key, c->padding, sizeof c->padding);
}

static void put_window(kernel_key *key, const compute_window *w) {
  put_i64(key, w->operation);
  put_i64(key, w->by_data);
  put_i64(key, w->operation == COMPUTE_WINDOW_AVERAGE && w->count_padding);
  put(key, w->data_size, sizeof w->data_size);
  put(key, w->result_size, sizeof w->result_size);
  put(key, w->size, sizeof w->size);
  put(key, w->stride, sizeof w->stride);
  put(key, w->dilation, sizeof w->dilation);
  put(key, w->padding, sizeof w->padding);
}

static void put_attention(kernel_key *key, const compute_attention *a) {
  put_i64(key, a->keys);
  put_i64(key, a->width);
  put(key, &a->scale, sizeof a->scale);
  put_i64(key, a->causal);
  put_i64(key, a->biased);
}

/* The problem has no gaps between its fields. */
static void put_fit(kernel_key *key, const compute_kernel_descriptor *d) {
  const bool corners = (d->fit->inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
  const bool frames = corners && (d->fit->flags & COMPUTE_FIT_STACK) == 0;
  put(key, d->fit, sizeof *d->fit);
  put_i64(key, frames ? d->fit_frames : 0);
  put_i64(key, corners ? d->fit_rows : 0);
  put_i64(key, corners ? d->fit_columns : 0);
}

static bool program_fits_key(const compute_program *program) {
  return program->count <= COMPUTE_MAX_INSTRUCTIONS &&
         program->output_count <= COMPUTE_MAX_OPERANDS &&
         (program->count == 0 || program->instructions) &&
         (program->output_count == 0 || program->outputs);
}

/* Whether the key can be written at all; descriptor_check says what is wrong. */
bool kernel_key_fits(const compute_kernel_descriptor *d) {
  return d && d->rank >= 0 && d->rank <= COMPUTE_MAX_RANK &&
         d->input_count <= COMPUTE_MAX_OPERANDS && d->output_count <= COMPUTE_MAX_OPERANDS &&
         d->input_count + d->output_count <= COMPUTE_MAX_OPERANDS &&
         (d->input_count == 0 || d->inputs) && (d->output_count == 0 || d->outputs) &&
         program_fits_key(&d->prologue) && program_fits_key(&d->epilogue) &&
         (d->kind != COMPUTE_KERNEL_FIT || d->fit);
}

void kernel_key_write(kernel_key *key, const compute_kernel_descriptor *d) {
  key->length = 0;
  put_i64(key, d->kind);
  put_i64(key, d->rank);
  put(key, d->size, (size_t)d->rank * sizeof *d->size);
  put_i64(key, d->input_count);
  put_i64(key, d->output_count);
  put_operands(key, d->inputs, d->input_count, stride_count(d));
  put_operands(key, d->outputs, d->output_count, stride_count(d));
  put_program(key, &d->prologue);
  put_program(key, &d->epilogue);
  switch (d->kind) {
  case COMPUTE_KERNEL_REDUCE:
    put_i64(key, d->prologue_inputs);
    put_i64(key, d->accumulate);
    put_i64(key, d->kept_rank);
    put_i64(key, d->combine);
    break;
  case COMPUTE_KERNEL_ROW:
    put_i64(key, d->prologue_inputs);
    put_i64(key, d->accumulate);
    put_i64(key, d->row);
    if (d->row == COMPUTE_ROW_NORMALIZE) put(key, &d->epsilon, sizeof d->epsilon);
    break;
  case COMPUTE_KERNEL_GEMM:
    put_i64(key, d->accumulate);
    put_i64(key, d->precision);
    put_i64(key, d->k);
    break;
  case COMPUTE_KERNEL_CONV:
    put_i64(key, d->accumulate);
    put_i64(key, d->precision);
    put_convolution(key, &d->convolution);
    break;
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER:
    put_i64(key, d->axis_size);
    put_i64(key, d->axis_stride);
    put_i64(key, d->index_from_zero);
    break;
  case COMPUTE_KERNEL_FIT: put_fit(key, d); break;
  case COMPUTE_KERNEL_WINDOW:
    put_i64(key, d->accumulate);
    put_window(key, &d->window);
    break;
  case COMPUTE_KERNEL_SCAN:
    put_i64(key, d->accumulate);
    put_i64(key, d->combine);
    put_i64(key, d->scan_reverse);
    put_i64(key, d->scan_exclusive);
    break;
  case COMPUTE_KERNEL_TOP_K:
    put_i64(key, d->axis_size);
    put_i64(key, d->top_smallest);
    break;
  case COMPUTE_KERNEL_ATTENTION:
    put_i64(key, d->accumulate);
    put_attention(key, &d->attention);
    break;
  case COMPUTE_KERNEL_SPOTS: put(key, &d->spots, sizeof d->spots); break; /* without gaps */
  case COMPUTE_KERNEL_MAP:
  case COMPUTE_KERNEL_COPY: break;
  }
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void get(const unsigned char **key, void *data, size_t bytes) {
  memcpy(data, *key, bytes);
  *key += bytes;
}

static int64_t get_i64(const unsigned char **key) {
  int64_t value;
  get(key, &value, sizeof value);
  return value;
}

static void get_operands(const unsigned char **key, compute_operand *operands, uint32_t count,
                         int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t dtype;
    get(key, &dtype, sizeof dtype);
    operands[i] = (compute_operand){.dtype = (compute_dtype)dtype};
    get(key, operands[i].stride, (size_t)rank * sizeof *operands[i].stride);
  }
}

static void get_program(const unsigned char **key, compute_program *program,
                        compute_instruction *instructions, uint16_t *outputs) {
  *program = (compute_program){.count = (uint32_t)get_i64(key)};
  if (program->count == 0) return;
  program->output_count = (uint32_t)get_i64(key);
  program->instructions = instructions;
  program->outputs = outputs;
  get(key, instructions, program->count * sizeof *instructions);
  get(key, outputs, program->output_count * sizeof *outputs);
}

static void get_convolution(const unsigned char **key, compute_convolution *c) {
  c->direction = (compute_convolution_direction)get_i64(key);
  c->groups = (int32_t)get_i64(key);
  c->batch = get_i64(key);
  c->data_channels = get_i64(key);
  c->result_channels = get_i64(key);
  get(key, c->data_size, sizeof c->data_size);
  get(key, c->result_size, sizeof c->result_size);
  get(key, c->filter_size, sizeof c->filter_size);
  get(key, c->stride, sizeof c->stride);
  get(key, c->dilation, sizeof c->dilation);
  get(key, c->padding, sizeof c->padding);
}

static void get_window(const unsigned char **key, compute_window *w) {
  w->operation = (compute_window_operation)get_i64(key);
  w->by_data = get_i64(key) != 0;
  w->count_padding = get_i64(key) != 0;
  get(key, w->data_size, sizeof w->data_size);
  get(key, w->result_size, sizeof w->result_size);
  get(key, w->size, sizeof w->size);
  get(key, w->stride, sizeof w->stride);
  get(key, w->dilation, sizeof w->dilation);
  get(key, w->padding, sizeof w->padding);
}

static void get_attention(const unsigned char **key, compute_attention *a) {
  a->keys = get_i64(key);
  a->width = get_i64(key);
  get(key, &a->scale, sizeof a->scale);
  a->causal = get_i64(key) != 0;
  a->biased = get_i64(key) != 0;
}

static void get_fit(const unsigned char **key, compute_kernel_descriptor *d,
                    compute_fit_problem *problem) {
  get(key, problem, sizeof *problem);
  d->fit = problem;
  d->fit_frames = get_i64(key);
  d->fit_rows = get_i64(key);
  d->fit_columns = get_i64(key);
}

static void get_kind(const unsigned char **key, compute_kernel_descriptor *d,
                     compute_fit_problem *fit) {
  switch (d->kind) {
  case COMPUTE_KERNEL_REDUCE:
    d->prologue_inputs = (uint32_t)get_i64(key);
    d->accumulate = (compute_dtype)get_i64(key);
    d->kept_rank = (int32_t)get_i64(key);
    d->combine = (compute_combine)get_i64(key);
    break;
  case COMPUTE_KERNEL_ROW:
    d->prologue_inputs = (uint32_t)get_i64(key);
    d->accumulate = (compute_dtype)get_i64(key);
    d->row = (compute_row_operation)get_i64(key);
    if (d->row == COMPUTE_ROW_NORMALIZE) get(key, &d->epsilon, sizeof d->epsilon);
    break;
  case COMPUTE_KERNEL_GEMM:
    d->accumulate = (compute_dtype)get_i64(key);
    d->precision = (compute_precision)get_i64(key);
    d->k = get_i64(key);
    break;
  case COMPUTE_KERNEL_CONV:
    d->accumulate = (compute_dtype)get_i64(key);
    d->precision = (compute_precision)get_i64(key);
    get_convolution(key, &d->convolution);
    break;
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER:
    d->axis_size = get_i64(key);
    d->axis_stride = get_i64(key);
    d->index_from_zero = get_i64(key) != 0;
    break;
  case COMPUTE_KERNEL_FIT: get_fit(key, d, fit); break;
  case COMPUTE_KERNEL_WINDOW:
    d->accumulate = (compute_dtype)get_i64(key);
    get_window(key, &d->window);
    break;
  case COMPUTE_KERNEL_SCAN:
    d->accumulate = (compute_dtype)get_i64(key);
    d->combine = (compute_combine)get_i64(key);
    d->scan_reverse = get_i64(key) != 0;
    d->scan_exclusive = get_i64(key) != 0;
    break;
  case COMPUTE_KERNEL_TOP_K:
    d->axis_size = get_i64(key);
    d->top_smallest = get_i64(key) != 0;
    break;
  case COMPUTE_KERNEL_ATTENTION:
    d->accumulate = (compute_dtype)get_i64(key);
    get_attention(key, &d->attention);
    break;
  case COMPUTE_KERNEL_SPOTS: get(key, &d->spots, sizeof d->spots); break;
  case COMPUTE_KERNEL_MAP:
  case COMPUTE_KERNEL_COPY: break;
  }
}

void kernel_key_read(const unsigned char *key, descriptor_copy *copy) {
  compute_kernel_descriptor *d = &copy->descriptor;
  *d = (compute_kernel_descriptor){.struct_size = sizeof *d};
  d->kind = (compute_kernel_kind)get_i64(&key);
  d->rank = (int32_t)get_i64(&key);
  get(&key, d->size, (size_t)d->rank * sizeof *d->size);
  d->input_count = (uint32_t)get_i64(&key);
  d->output_count = (uint32_t)get_i64(&key);
  d->inputs = copy->operands;
  d->outputs = copy->operands + d->input_count;
  get_operands(&key, copy->operands, d->input_count, stride_count(d));
  get_operands(&key, copy->operands + d->input_count, d->output_count, stride_count(d));
  get_program(&key, &d->prologue, copy->prologue, copy->prologue_outputs);
  get_program(&key, &d->epilogue, copy->epilogue, copy->epilogue_outputs);
  get_kind(&key, d, &copy->fit);
}
