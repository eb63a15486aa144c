/* Writing a descriptor as bytes, and reading it back: the two must be changed together. */
#include "kernel/kernel_key.h"

#include <string.h>

#include "kernel/program.h"

size_t kernel_attribute_bytes(compute_kernel_kind kind) {
  switch (kind) {
  case COMPUTE_KERNEL_MAP:
  case COMPUTE_KERNEL_COPY: return 0;
  case COMPUTE_KERNEL_REDUCE: return sizeof(compute_reduce_attributes);
  case COMPUTE_KERNEL_ROW: return sizeof(compute_row_attributes);
  case COMPUTE_KERNEL_GEMM: return sizeof(compute_gemm_attributes);
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER: return sizeof(compute_index_attributes);
  case COMPUTE_KERNEL_CONV: return sizeof(compute_conv_attributes);
  case COMPUTE_KERNEL_FIT: return sizeof(compute_fit_attributes);
  case COMPUTE_KERNEL_WINDOW: return sizeof(compute_window_attributes);
  case COMPUTE_KERNEL_SCAN: return sizeof(compute_scan_attributes);
  case COMPUTE_KERNEL_TOP_K: return sizeof(compute_top_k_attributes);
  case COMPUTE_KERNEL_ATTENTION: return sizeof(compute_attention_attributes);
  case COMPUTE_KERNEL_SPOTS: return sizeof(compute_spots_attributes);
  }
  return 0;
}

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

/* The attributes that the kind uses and nothing else, the gaps between fields 0, so that equal work
 * has equal bytes; returns how many. */
static size_t normal_attributes(const compute_kernel_descriptor *d, kernel_attributes *room) {
  compute_kernel_descriptor copy;
  switch (d->kind) {
  case COMPUTE_KERNEL_REDUCE: {
    const compute_reduce_attributes *a = compute_reduce_of(d);
    compute_reduce_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->kept_rank = a->kept_rank;
    n->combine = a->combine;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_ROW: {
    const compute_row_attributes *a = compute_row_of(d);
    compute_row_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->operation = a->operation;
    if (a->operation == COMPUTE_ROW_NORMALIZE) n->epsilon = a->epsilon;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_GEMM: {
    const compute_gemm_attributes *a = compute_gemm_of(d);
    compute_gemm_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->k = a->k;
    n->precision = a->precision;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_CONV: {
    compute_conv_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    memcpy(n, d->attributes, sizeof *n); /* without gaps */
    n->reserved = 0;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER: {
    const compute_index_attributes *a = compute_index_of(d);
    compute_index_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->axis_size = a->axis_size;
    n->axis_stride = a->axis_stride;
    n->from_zero = a->from_zero;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_FIT: {
    const compute_fit_attributes *a = compute_fit_of(d);
    const bool corners = (a->problem.inputs & COMPUTE_FIT_WITH_CORNERS) != 0;
    const bool frames = corners && (a->problem.flags & COMPUTE_FIT_STACK) == 0;
    compute_fit_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    memcpy(&n->problem, &a->problem, sizeof n->problem); /* without gaps */
    n->frames = frames ? a->frames : 0;
    n->rows = corners ? a->rows : 0;
    n->columns = corners ? a->columns : 0;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_WINDOW: {
    const compute_window_attributes *a = compute_window_of(d);
    compute_window_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->operation = a->operation;
    n->by_data = a->by_data;
    n->count_padding = a->operation == COMPUTE_WINDOW_AVERAGE && a->count_padding;
    for (int i = 0; i < 2; i++) {
      n->data_size[i] = a->data_size[i];
      n->result_size[i] = a->result_size[i];
      n->size[i] = a->size[i];
      n->stride[i] = a->stride[i];
      n->dilation[i] = a->dilation[i];
      n->padding[i] = a->padding[i];
    }
    return sizeof *n;
  }
  case COMPUTE_KERNEL_SCAN: {
    const compute_scan_attributes *a = compute_scan_of(d);
    compute_scan_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->combine = a->combine;
    n->exclusive = a->exclusive;
    n->reverse = a->reverse;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_TOP_K: {
    const compute_top_k_attributes *a = compute_top_k_of(d);
    compute_top_k_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->axis_size = a->axis_size;
    n->smallest = a->smallest;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_ATTENTION: {
    const compute_attention_attributes *a = compute_attention_of(d);
    compute_attention_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    n->keys = a->keys;
    n->width = a->width;
    n->scale = a->scale;
    n->causal = a->causal;
    n->biased = a->biased;
    return sizeof *n;
  }
  case COMPUTE_KERNEL_SPOTS: {
    compute_spots_attributes *n = kernel_attributes_in(room, &copy, sizeof *n);
    memcpy(n, d->attributes, sizeof *n); /* without gaps */
    return sizeof *n;
  }
  case COMPUTE_KERNEL_MAP:
  case COMPUTE_KERNEL_COPY: break;
  }
  return 0;
}

/* Which of the fields beside the attributes a kind uses. */
static bool uses_prologue(compute_kernel_kind kind) {
  return kind == COMPUTE_KERNEL_REDUCE || kind == COMPUTE_KERNEL_ROW;
}

static bool uses_accumulate(compute_kernel_kind kind) {
  return uses_prologue(kind) || kind == COMPUTE_KERNEL_GEMM || kind == COMPUTE_KERNEL_CONV ||
         kind == COMPUTE_KERNEL_WINDOW || kind == COMPUTE_KERNEL_SCAN ||
         kind == COMPUTE_KERNEL_ATTENTION;
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
         kernel_attributes_fit(d);
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
  kernel_attributes attributes;
  const size_t bytes = normal_attributes(d, &attributes);
  put_i64(key, uses_prologue(d->kind) ? d->prologue_inputs : 0);
  put_i64(key, uses_accumulate(d->kind) ? (int64_t)d->accumulate : 0);
  put_i64(key, (int64_t)bytes);
  put(key, attributes.bytes, bytes);
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
  d->prologue_inputs = (uint32_t)get_i64(&key);
  d->accumulate = (compute_dtype)get_i64(&key);
  const size_t bytes = (size_t)get_i64(&key);
  if (bytes > 0) get(&key, kernel_attributes_in(&copy->attributes, d, bytes), bytes);
}
