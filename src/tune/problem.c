/* The suite as a table, and how a row becomes a kernel descriptor. */
#include "tune/problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/fit_problem.h"

typedef enum problem_form {
  FORM_UNARY,     /* map: gelu of n elements */
  FORM_BINARY,    /* map: sum of two dense operands */
  FORM_BIAS,      /* map: relu(x + bias of a row) */
  FORM_TRANSPOSE, /* copy */
  FORM_STRIDED,   /* copy: out of rows twice as long */
  FORM_CONVERT,   /* copy: f32 to dtype */
  FORM_INNER,     /* reduce: sum of rows */
  FORM_OUTER,     /* reduce: sum of columns */
  FORM_FULL,      /* reduce: sum of everything */
  FORM_POSITION,  /* reduce: argmax of rows */
  FORM_SOFTMAX,   /* row */
  FORM_NORMALIZE, /* row */
  FORM_NN,        /* gemm: A·B, A·Bᵀ, Aᵀ·B */
  FORM_NT,
  FORM_TN,
  FORM_CONV, /* conv: 3×3 with padding 1 */
  FORM_CONV_STRIDED,
  FORM_CONV_DATA, /* its gradients */
  FORM_CONV_FILTER,
  FORM_CONV_DEPTHWISE,
  FORM_FIT_XYNB, /* fit */
  FORM_FIT_XYNBSXSY,
  FORM_FIT_XYZNB
} problem_form;

typedef struct suite_row {
  const char *suite, *what; /* in the problem's name */
  problem_form form;
  compute_dtype dtype;
  int64_t a, b, c; /* rows × columns; m × n × k; channels × results × side;
                    * ROIs × rows × columns */
  int64_t batch;   /* gemm, conv; 0: none */
  bool quick;
} suite_row;

#define K INT64_C(1024)

static const suite_row suite[] = {
    {"map", "add", FORM_BINARY, COMPUTE_F32, 16, K, 0, 0, false},
    {"map", "add", FORM_BINARY, COMPUTE_F32, 1 * K, K, 0, 0, true},
    {"map", "add", FORM_BINARY, COMPUTE_F32, 16 * K, K, 0, 0, false},
    {"map", "gelu", FORM_UNARY, COMPUTE_F32, 16, K, 0, 0, false},
    {"map", "gelu", FORM_UNARY, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"map", "bias", FORM_BIAS, COMPUTE_F32, 256, K, 0, 0, false},
    {"map", "bias", FORM_BIAS, COMPUTE_F32, 8 * K, K, 0, 0, false},
    {"map", "add", FORM_BINARY, COMPUTE_F16, 4 * K, K, 0, 0, false},
    {"map", "bias", FORM_BIAS, COMPUTE_F16, 4 * K, K, 0, 0, false},
    {"copy", "transpose", FORM_TRANSPOSE, COMPUTE_F32, 512, 512, 0, 0, true},
    {"copy", "transpose", FORM_TRANSPOSE, COMPUTE_F32, 4 * K, 2 * K, 0, 0, false},
    {"copy", "transpose", FORM_TRANSPOSE, COMPUTE_F16, 2 * K, 2 * K, 0, 0, false},
    {"copy", "strided", FORM_STRIDED, COMPUTE_F32, 2 * K, 2 * K, 0, 0, false},
    {"copy", "convert", FORM_CONVERT, COMPUTE_F16, 4 * K, K, 0, 0, false},
    {"reduce", "rows", FORM_INNER, COMPUTE_F32, 4 * K, K, 0, 0, true},
    {"reduce", "rows", FORM_INNER, COMPUTE_F32, 64, 64 * K, 0, 0, false},
    {"reduce", "columns", FORM_OUTER, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"reduce", "columns", FORM_OUTER, COMPUTE_F32, 64, 64 * K, 0, 0, false},
    {"reduce", "all", FORM_FULL, COMPUTE_F32, 64, K, 0, 0, false},
    {"reduce", "all", FORM_FULL, COMPUTE_F32, 8 * K, K, 0, 0, false},
    {"reduce", "argmax", FORM_POSITION, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"row", "softmax", FORM_SOFTMAX, COMPUTE_F32, 4 * K, K, 0, 0, true},
    {"row", "softmax", FORM_SOFTMAX, COMPUTE_F32, 128, 32 * K, 0, 0, false},
    {"row", "softmax", FORM_SOFTMAX, COMPUTE_F32, 64 * K, 64, 0, 0, false},
    {"row", "normalize", FORM_NORMALIZE, COMPUTE_F32, 4 * K, K, 0, 0, false},
    {"row", "normalize", FORM_NORMALIZE, COMPUTE_F32, 64 * K, 64, 0, 0, false},
    {"gemm", "", FORM_NN, COMPUTE_F32, 256, 256, 256, 0, true},
    {"gemm", "", FORM_NN, COMPUTE_F32, K, K, K, 0, false},
    {"gemm", "nt", FORM_NT, COMPUTE_F32, K, K, K, 0, false},
    {"gemm", "tn", FORM_TN, COMPUTE_F32, K, K, K, 0, false},
    {"gemm", "", FORM_NN, COMPUTE_F32, 32, K, K, 0, false},
    {"gemm", "", FORM_NN, COMPUTE_F32, 128, 128, 128, 32, false},
    {"gemm", "", FORM_NN, COMPUTE_F16, K, K, K, 0, false},
    {"gemm", "nt", FORM_NT, COMPUTE_F16, K, K, K, 0, false},
    {"gemm", "", FORM_NN, COMPUTE_F64, 512, 512, 512, 0, false},
    {"conv", "3x3", FORM_CONV, COMPUTE_F32, 64, 64, 56, 8, true},
    {"conv", "3x3", FORM_CONV, COMPUTE_F32, 256, 256, 14, 8, false},
    {"conv", "strided", FORM_CONV_STRIDED, COMPUTE_F32, 64, 128, 56, 8, false},
    {"conv", "data", FORM_CONV_DATA, COMPUTE_F32, 64, 64, 56, 8, false},
    {"conv", "filter", FORM_CONV_FILTER, COMPUTE_F32, 64, 64, 56, 8, false},
    {"conv", "depthwise", FORM_CONV_DEPTHWISE, COMPUTE_F32, 144, 144, 28, 8, false},
    {"conv", "3x3", FORM_CONV, COMPUTE_F16, 64, 64, 56, 8, false},
    {"fit", "xynb", FORM_FIT_XYNB, COMPUTE_U16, 32 * K, 7, 7, 0, true},
    {"fit", "xynb", FORM_FIT_XYNB, COMPUTE_F32, 8 * K, 15, 15, 0, false},
    {"fit", "xynbsxsy", FORM_FIT_XYNBSXSY, COMPUTE_U16, 16 * K, 9, 9, 0, false},
    {"fit", "xyznb", FORM_FIT_XYZNB, COMPUTE_F32, 8 * K, 13, 13, 0, false},
};

enum { SUITE_COUNT = sizeof suite / sizeof *suite };

/* ---- Choosing ------------------------------------------------------------------------------ */

/* The next name of a list with ',' between. */
static const char *next_name(const char **list, size_t *length) {
  const char *name = *list;
  *length = strcspn(name, ",");
  *list = name + *length + (name[*length] == ',');
  return name;
}

static bool name_is(const char *name, size_t length, const char *word) {
  return strlen(word) == length && !memcmp(name, word, length);
}

bool problem_suite_valid(const char *names) {
  if (!*names) return false;
  while (*names) {
    size_t length;
    const char *name = next_name(&names, &length);
    bool known = name_is(name, length, "all");
    for (size_t i = 0; i < SUITE_COUNT && !known; i++)
      known = name_is(name, length, suite[i].suite);
    if (!known) return false;
  }
  return true;
}

bool problem_chosen(size_t index, const char *names, bool quick) {
  if (index >= SUITE_COUNT || (quick && !suite[index].quick)) return false;
  while (*names) {
    size_t length;
    const char *name = next_name(&names, &length);
    if (name_is(name, length, "all") || name_is(name, length, suite[index].suite)) return true;
  }
  return false;
}

/* ---- Descriptors --------------------------------------------------------------------------- */

static void add_input(tune_problem *p, compute_dtype dtype, const int64_t *strides) {
  compute_operand *operand = &p->inputs[p->descriptor.input_count++];
  operand->dtype = dtype;
  memcpy(operand->stride, strides, (size_t)p->descriptor.rank * sizeof *strides);
}

static void set_output(tune_problem *p, compute_dtype dtype, const int64_t *strides) {
  p->descriptor.output_count = 1;
  p->output.dtype = dtype;
  memcpy(p->output.stride, strides, (size_t)p->descriptor.rank * sizeof *strides);
}

static void set_space(tune_problem *p, compute_kernel_kind kind, int64_t rows, int64_t columns) {
  p->descriptor.kind = kind;
  p->descriptor.rank = 2;
  p->descriptor.size[0] = rows;
  p->descriptor.size[1] = columns;
}

static void make_map(tune_problem *p, const suite_row *row) {
  const int64_t dense[] = {row->b, 1}, repeated[] = {0, 1};
  set_space(p, COMPUTE_KERNEL_MAP, row->a, row->b);
  add_input(p, row->dtype, dense);
  if (row->form != FORM_UNARY) add_input(p, row->dtype, row->form == FORM_BIAS ? repeated : dense);
  set_output(p, row->dtype, dense);
  program_builder *b = &p->program;
  uint16_t value = program_load(b, COMPUTE_F32, 0);
  if (row->form == FORM_UNARY) {
    value = program_apply(b, COMPUTE_I_GELU_TANH, COMPUTE_F32, value, 0, 0);
  } else {
    value = program_apply(b, COMPUTE_I_ADD, COMPUTE_F32, value, program_load(b, COMPUTE_F32, 1), 0);
    if (row->form == FORM_BIAS) value = program_apply(b, COMPUTE_I_RELU, COMPUTE_F32, value, 0, 0);
  }
  program_store(b, value);
  p->descriptor.epilogue = program_finish(b);
}

static void make_copy(tune_problem *p, const suite_row *row) {
  const int64_t dense[] = {row->b, 1}, turned[] = {1, row->a}, apart[] = {2 * row->b, 1};
  set_space(p, COMPUTE_KERNEL_COPY, row->a, row->b);
  add_input(p, row->form == FORM_CONVERT ? COMPUTE_F32 : row->dtype,
            row->form == FORM_TRANSPOSE ? turned
            : row->form == FORM_STRIDED ? apart
                                        : dense);
  set_output(p, row->dtype, dense);
}

static void make_reduce(tune_problem *p, const suite_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const bool position = row->form == FORM_POSITION;
  const int64_t dense[] = {row->b, 1}, turned[] = {1, row->b}, rows[] = {1, 0}, one[] = {0, 0};
  if (row->form == FORM_OUTER)
    set_space(p, COMPUTE_KERNEL_REDUCE, row->b, row->a);
  else
    set_space(p, COMPUTE_KERNEL_REDUCE, row->a, row->b);
  add_input(p, row->dtype, row->form == FORM_OUTER ? turned : dense);
  set_output(p, position ? COMPUTE_I64 : row->dtype, row->form == FORM_FULL ? one : rows);
  compute_reduce_attributes *fold = kernel_attributes_in(&p->attributes, d, sizeof *fold);
  fold->kept_rank = row->form == FORM_FULL ? 0 : 1;
  d->prologue_inputs = 1;
  d->accumulate = COMPUTE_F32;
  fold->combine = position ? COMPUTE_COMBINE_ARGMAX : COMPUTE_COMBINE_SUM;
}

static void make_row(tune_problem *p, const suite_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t dense[] = {row->b, 1};
  set_space(p, COMPUTE_KERNEL_ROW, row->a, row->b);
  add_input(p, row->dtype, dense);
  set_output(p, row->dtype, dense);
  d->prologue_inputs = 1;
  d->accumulate = COMPUTE_F32;
  compute_row_attributes *a = kernel_attributes_in(&p->attributes, d, sizeof *a);
  a->operation = row->form == FORM_SOFTMAX ? COMPUTE_ROW_SOFTMAX : COMPUTE_ROW_NORMALIZE;
  a->epsilon = 1e-5;
}

static void make_gemm(tune_problem *p, const suite_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t m = row->a, n = row->b, k = row->c;
  const bool at = row->form == FORM_TN, bt = row->form == FORM_NT;
  const int64_t a[] = {m * k, at ? 1 : k, at ? m : 1}, b[] = {k * n, bt ? 1 : n, bt ? k : 1},
                result[] = {m * n, n, 1};
  const int skip = row->batch ? 0 : 1; /* without a batch there is no such dimension */
  d->kind = COMPUTE_KERNEL_GEMM;
  d->rank = 3 - skip;
  const int64_t size[] = {row->batch, m, n};
  memcpy(d->size, size + skip, (size_t)d->rank * sizeof *size);
  compute_gemm_attributes *product = kernel_attributes_in(&p->attributes, d, sizeof *product);
  product->k = k;
  d->accumulate = row->dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  add_input(p, row->dtype, a + skip);
  add_input(p, row->dtype, b + skip);
  set_output(p, row->dtype, result + skip);
}

/* x, w and y are dense: (n, channel, height, width), (o, c, r, s), (n, o, p, q). */
static void make_conv(tune_problem *p, const suite_row *row) {
  static const uint32_t roles[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}}; /* inputs, result */
  compute_kernel_descriptor *d = &p->descriptor;
  compute_conv_attributes *c = kernel_attributes_in(&p->attributes, d, sizeof *c);
  const int64_t step = row->form == FORM_CONV_STRIDED ? 2 : 1, side = (row->c - 1) / step + 1;
  *c = (compute_conv_attributes){.groups = 1, .batch = row->batch};
  if (row->form == FORM_CONV_DATA) c->direction = COMPUTE_CONVOLUTION_BY_DATA;
  if (row->form == FORM_CONV_FILTER) c->direction = COMPUTE_CONVOLUTION_BY_FILTER;
  if (row->form == FORM_CONV_DEPTHWISE) c->groups = (int32_t)row->a;
  c->data_channels = row->a;
  c->result_channels = row->b;
  for (int i = 0; i < 2; i++) {
    c->data_size[i] = row->c;
    c->result_size[i] = side;
    c->filter_size[i] = 3;
    c->stride[i] = step;
    c->dilation[i] = c->padding[i] = 1;
  }
  const int64_t sizes[3][4] = {{row->batch, row->a, row->c, row->c},
                               {row->b, row->a / c->groups, 3, 3},
                               {row->batch, row->b, side, side}};
  d->kind = COMPUTE_KERNEL_CONV;
  d->rank = 4;
  d->accumulate = row->dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  for (uint32_t i = 0; i < 3; i++) {
    const int64_t *size = sizes[roles[c->direction][i]];
    const int64_t dense[] = {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
    if (i < 2) {
      p->input_elements[i] = (uint64_t)(size[0] * dense[0]);
      add_input(p, row->dtype, dense);
    } else {
      memcpy(d->size, size, 4 * sizeof *size);
      set_output(p, row->dtype, dense);
    }
  }
}

/* ROIs, dense, and what is wanted of most fits. */
static void make_fit(tune_problem *p, const suite_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t pixels = row->b * row->c;
  const compute_fit_problem problem = {.model = row->form == FORM_FIT_XYNB ? COMPUTE_FIT_XYNB
                                                : row->form == FORM_FIT_XYNBSXSY
                                                    ? COMPUTE_FIT_XYNBSXSY
                                                    : COMPUTE_FIT_XYZNB,
                                       .rows = (int32_t)row->b,
                                       .columns = (int32_t)row->c,
                                       .outputs = COMPUTE_FIT_PARAMETERS | COMPUTE_FIT_STD,
                                       .sigma = {1.3},
                                       .depth = 0.4,
                                       .gamma = 0.3,
                                       .start_set = row->form == FORM_FIT_XYZNB ? 4 : 0,
                                       .start[2] = 0.1};
  compute_fit_attributes *fit = kernel_attributes_in(&p->attributes, d, sizeof *fit);
  fit->problem = fit_problem_normalize(&problem);
  const int64_t columns = compute_fit_column(fit->problem.model, fit->problem.outputs, 0);
  d->kind = COMPUTE_KERNEL_FIT;
  d->rank = 1;
  d->size[0] = row->a;
  d->input_count = d->output_count = 1;
  p->inputs[0] = (compute_operand){.dtype = row->dtype, .stride = {pixels, row->c, 1}};
  p->output = (compute_operand){.dtype = COMPUTE_F32, .stride = {columns, 1}};
  p->input_elements[0] = (uint64_t)(row->a * pixels);
  p->output_elements = (uint64_t)(row->a * columns);
}

/* Elements from the first to the last that an operand touches, given the sizes of its dimensions.
 */
static uint64_t span(const compute_operand *operand, const int64_t *size, int32_t rank) {
  uint64_t last = 0;
  for (int32_t i = 0; i < rank; i++) last += (uint64_t)(size[i] - 1) * (uint64_t)operand->stride[i];
  return last + 1;
}

static void measure_operands(tune_problem *p) {
  const compute_kernel_descriptor *d = &p->descriptor;
  if (d->kind == COMPUTE_KERNEL_FIT) return; /* known already */
  for (uint32_t i = 0; i < d->input_count; i++) {
    int64_t size[COMPUTE_MAX_RANK];
    if (d->kind == COMPUTE_KERNEL_CONV) continue; /* known already: they have sizes of their own */
    memcpy(size, d->size, sizeof size);
    if (d->kind == COMPUTE_KERNEL_GEMM) size[d->rank - (i == 0 ? 1 : 2)] = compute_gemm_of(d)->k;
    p->input_elements[i] = span(&p->inputs[i], size, d->rank);
  }
  p->output_elements = span(&p->output, d->size, d->rank);
}

static void print_name(tune_problem *p, const suite_row *row) {
  size_t used = (size_t)snprintf(p->name, sizeof p->name, "%s%s%s %s ", row->suite,
                                 *row->what ? " " : "", row->what, compute_dtype_name(row->dtype));
  if (row->batch)
    used += (size_t)snprintf(p->name + used, sizeof p->name - used, "%" PRId64 "x", row->batch);
  used += (size_t)snprintf(p->name + used, sizeof p->name - used, "%" PRId64 "x%" PRId64, row->a,
                           row->b);
  if (row->c) snprintf(p->name + used, sizeof p->name - used, "x%" PRId64, row->c);
}

size_t problem_count(void) {
  return SUITE_COUNT;
}

bool problem_build(size_t index, tune_problem *p) {
  if (index >= SUITE_COUNT) return false;
  const suite_row *row = &suite[index];
  memset(p, 0, sizeof *p);
  p->descriptor.struct_size = sizeof p->descriptor;
  p->descriptor.inputs = p->inputs;
  p->descriptor.outputs = &p->output;
  if (row->form <= FORM_BIAS)
    make_map(p, row);
  else if (row->form <= FORM_CONVERT)
    make_copy(p, row);
  else if (row->form <= FORM_POSITION)
    make_reduce(p, row);
  else if (row->form <= FORM_NORMALIZE)
    make_row(p, row);
  else if (row->form <= FORM_TN)
    make_gemm(p, row);
  else if (row->form <= FORM_CONV_DEPTHWISE)
    make_conv(p, row);
  else
    make_fit(p, row);
  measure_operands(p);
  print_name(p, row);
  return true;
}

uint64_t problem_bytes(const tune_problem *p) {
  uint64_t bytes = p->output_elements * compute_dtype_size(p->output.dtype);
  for (uint32_t i = 0; i < p->descriptor.input_count; i++)
    bytes += p->input_elements[i] * compute_dtype_size(p->inputs[i].dtype);
  return bytes;
}
