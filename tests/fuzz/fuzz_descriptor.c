/* SPDX-License-Identifier: MIT */
/* Kernel descriptors: an accepted descriptor can be counted, classified and generated for every
 * dialect, or is refused with a reason. Nothing crashes or overflows. */
#include <math.h>
#include <string.h>

#include "compute/backend/fit_kinds.h"

#include "fuzz.h"
#include "codegen/generate/generate.h"
#include "core/kernel/kernel.h"
#include "core/kernel/common/fit_problem.h"
#include "core/kernel/common/program.h"
#include "codegen/tune/entry.h"
#include "support/samples/attributes.h"

typedef struct reader {
  const uint8_t *data;
  size_t left;
} reader;

static uint8_t byte(reader *r) {
  if (r->left == 0) return 0;
  r->left--;
  return *r->data++;
}

/* Mostly small; sometimes at the edges of its range. */
static int64_t number(reader *r) {
  static const int64_t wild[] = {INT64_MIN, INT64_MAX,        -1,     INT32_MAX, 65536,
                                 INT32_MIN, INT64_C(1) << 40, 1000003};
  uint8_t b = byte(r);
  return b < 240 ? b % 17 : wild[b & 7];
}

static void read_operands(reader *r, compute_operand *operands, uint32_t count, int32_t rank) {
  for (uint32_t i = 0; i < count; i++) {
    operands[i].dtype = (compute_dtype)(byte(r) % COMPUTE_DTYPE_COUNT);
    for (int32_t k = 0; k < rank && k < COMPUTE_MAX_RANK; k++) operands[i].stride[k] = number(r);
  }
}

static void read_program(reader *r, compute_program *program, compute_instruction *instructions,
                         uint16_t *outputs, uint32_t most) {
  uint32_t count = byte(r) % most, output_count = byte(r) % 4;
  for (uint32_t i = 0; i < count; i++) {
    instructions[i] = (compute_instruction){.code = (uint8_t)(byte(r) % (COMPUTE_I_END + 2)),
                                            .type = (uint8_t)(byte(r) % 9),
                                            .a = byte(r),
                                            .b = byte(r),
                                            .c = byte(r)};
    instructions[i].immediate.i64 = number(r);
  }
  for (uint32_t i = 0; i < output_count; i++) outputs[i] = byte(r);
  *program = (compute_program){.count = count,
                               .output_count = output_count,
                               .instructions = instructions,
                               .outputs = outputs};
}

static void read_convolution(reader *r, compute_conv_attributes *c) {
  c->direction = (compute_convolution_direction)(byte(r) % 4);
  c->groups = (int32_t)number(r);
  c->batch = number(r);
  c->data_channels = number(r);
  c->result_channels = number(r);
  for (int i = 0; i < 2; i++) {
    c->data_size[i] = number(r);
    c->result_size[i] = number(r);
    c->filter_size[i] = number(r);
    c->stride[i] = number(r);
    c->dilation[i] = number(r);
    c->padding[i] = number(r);
  }
}

/* Mostly `usual`; sometimes any number. */
static double real(reader *r, double usual) {
  static const double wild[] = {(double)NAN, (double)INFINITY, -1, 0, 1e-30, 1e30, 0.5, 20};
  const uint8_t b = byte(r);
  return b < 250 ? usual : wild[b & 7];
}

static uint32_t bits(reader *r, uint32_t usual) {
  const uint8_t b = byte(r);
  return b < 250 ? b & usual : b * UINT32_C(77);
}

static void read_fit(reader *r, compute_fit_attributes *a) {
  compute_fit_problem *p = &a->problem;
  p->model = (compute_fit_model)bits(r, 3);
  p->profile = (compute_fit_profile)bits(r, 1);
  p->solver = (compute_fit_solver)bits(r, 3);
  p->camera = byte(r) < 250 ? COMPUTE_FIT_SCMOS : (compute_fit_camera)bits(r, 3);
  p->rows = (int32_t)number(r);
  p->columns = (int32_t)number(r);
  p->iterations = (int32_t)bits(r, 63);
  p->outputs = bits(r, COMPUTE_FIT_ALL_OUTPUTS);
  p->inputs = bits(r, 0xff) << 1 | bits(r, 1);
  p->flags = bits(r, 1);
  p->epsilon = real(r, 0.02);
  p->fixed = bits(r, 7);
  p->start_set = bits(r, 15);
  p->lower_set = bits(r, 15);
  p->upper_set = bits(r, 15);
  for (int i = 0; i < COMPUTE_FIT_MAX_PARAMETERS; i++) {
    p->start[i] = real(r, 2);
    p->lower[i] = real(r, 0.25);
    p->upper[i] = real(r, 8);
    p->z_start[i] = real(r, 0.1);
  }
  for (int i = 0; i < 2; i++) {
    p->sigma[i] = real(r, 1.3);
    p->a[i] = real(r, 0.1);
    p->b[i] = real(r, 0.2);
  }
  p->depth = real(r, 0.4);
  p->gamma = real(r, 0.2);
  p->z_start_count = (int32_t)bits(r, 3);
  p->offset = real(r, 100);
  p->gain = real(r, 2);
  p->em_gain = real(r, 0);
  p->variance = real(r, 3);
  a->frames = number(r);
  a->rows = number(r);
  a->columns = number(r);
  char reason[256] = "";
  if (!fit_problem_check(p, reason, sizeof reason)) {
    FUZZ_CHECK(reason[0] != 0);
    return;
  }
  *p = fit_problem_normalize(p);
  FUZZ_CHECK(fit_problem_is_normal(p, reason, sizeof reason));
}

/* Makes the descriptor match a valid problem; chance alone almost never would. */
static void repair_fit(compute_kernel_descriptor *d, const compute_fit_attributes *a,
                       compute_operand *inputs, compute_operand *outputs) {
  char reason[256];
  const compute_fit_problem *p = &a->problem;
  if (!fit_problem_check(p, reason, sizeof reason) || __builtin_popcount(p->inputs) > 5) return;
  d->rank = 1;
  d->input_count = 1 + (uint32_t)__builtin_popcount(p->inputs);
  d->output_count = 1;
  d->prologue.count = d->epilogue.count = 0;
  inputs[0].dtype = inputs[0].stride[0] & 1 ? COMPUTE_U16 : COMPUTE_F32;
  for (int32_t i = 0; i < FIT_INPUTS; i++)
    if (p->inputs >> i & 1)
      inputs[fit_input_index(p->inputs, UINT32_C(1) << i)].dtype = fit_input_dtype(i);
  outputs[0] = (compute_operand){COMPUTE_F32, {compute_fit_column(p->model, p->outputs, 0), 1}};
}

static void read_window(reader *r, compute_window_attributes *w) {
  w->operation = (compute_window_operation)(byte(r) % 4);
  w->by_data = byte(r) & 1;
  w->count_padding = byte(r) & 1;
  for (int i = 0; i < 2; i++) {
    w->data_size[i] = number(r);
    w->result_size[i] = number(r);
    w->size[i] = number(r);
    w->stride[i] = number(r);
    w->dilation[i] = number(r);
    w->padding[i] = number(r);
    w->padding_more[i] = (byte(r) & 1 ? -1 : 1) * (number(r) >> 1);
  }
}

static void read_attention(reader *r, compute_attention_attributes *a) {
  a->keys = number(r);
  a->width = number(r);
  a->scale = byte(r) * 0.1;
  a->causal = byte(r) & 1;
  a->biased = byte(r) & 1;
}

static void read_recurrent(reader *r, compute_recurrent_attributes *a) {
  a->cell = (compute_recurrent_cell)(byte(r) % 4);
  a->reverse = byte(r) & 1;
  a->reset_after = byte(r) & 1;
  a->lengths = byte(r) & 1;
  a->bias = byte(r) & 1;
  a->peepholes = byte(r) & 1;
  a->clip = byte(r) * 0.1;
}

static void read_quantized_gemm(reader *r, compute_quantized_gemm_attributes *a) {
  a->k = number(r);
  a->block = number(r);
  a->bits = (int32_t)(byte(r) % 10);
  a->zeros = byte(r) & 1;
}

static void read_spots(reader *r, compute_spots_attributes *o) {
  *o = (compute_spots_attributes){.filter = (int32_t)(byte(r) % 3),
                                  .distance = (int32_t)number(r),
                                  .radius = (int32_t)number(r),
                                  .wide_radius = (int32_t)number(r),
                                  .step = number(r),
                                  .rounds = byte(r),
                                  .sigma = byte(r) * 0.1,
                                  .wide_sigma = byte(r) * 0.1,
                                  .threshold = byte(r) * 0.1,
                                  .first = 1,
                                  .clip = byte(r),
                                  .scale = 1,
                                  .least = 0.001,
                                  .gain = 0.1};
}

static void generate(const compute_kernel_descriptor *d, compute_dialect dialect, uint8_t flags,
                     const compute_tuning *tuning) {
  compute_target target = {.struct_size = sizeof target,
                           .dialect = dialect,
                           .type = flags & 32 ? COMPUTE_DEVICE_CPU : COMPUTE_DEVICE_GPU,
                           .flags = flags & 31,
                           .backend = "fuzz",
                           .family = "sm_90",
                           .compute_units = 8,
                           .lanes = 32,
                           .vector_width = 4,
                           .group_limit = 256,
                           .group_limit_of = {256, 256, 64},
                           .local_bytes = 32768,
                           .cache_bytes = 1 << 20};
  char reason[256] = "";
  const compute_generated *generated = NULL;
  compute_status status = generate_kernel(&target, d, tuning, &generated, reason, sizeof reason);
  FUZZ_CHECK((status == COMPUTE_OK) == (generated != NULL));
  FUZZ_CHECK(status == COMPUTE_OK || (status == COMPUTE_ERROR_UNSUPPORTED && reason[0]));
  if (!generated) return;
  for (uint32_t i = 0; i < generated->launch_count; i++) {
    const compute_generated_launch *l = &generated->launches[i];
    FUZZ_CHECK(l->group[0] * l->group[1] * l->group[2] <= target.group_limit);
    FUZZ_CHECK(l->groups[0] && l->groups[1] - 1 < 65535 && l->groups[2] - 1 < 65535);
    FUZZ_CHECK(l->shape_bytes % 8 == 0 && l->shape_bytes <= 3072);
  }
  generate_release(generated);
}

static compute_status call_nothing(const void *call, void *const *operands) {
  (void)call;
  (void)operands;
  return COMPUTE_OK;
}

static void read_attributes(reader *r, const compute_kernel_descriptor *d, any_attributes *a) {
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP:
  case COMPUTE_KERNEL_COPY: break;
  case COMPUTE_KERNEL_REDUCE:
    a->reduce.kept_rank = (int32_t)number(r);
    a->reduce.combine = (compute_combine)(byte(r) % 8);
    break;
  case COMPUTE_KERNEL_ROW:
    a->row.operation = (compute_row_operation)(byte(r) % 5);
    a->row.epsilon = byte(r) * 0.01;
    break;
  case COMPUTE_KERNEL_GEMM:
    a->gemm.k = number(r);
    a->gemm.precision = (compute_precision)(byte(r) % 5);
    break;
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER:
    a->index.axis_size = number(r);
    a->index.axis_stride = number(r);
    a->index.from_zero = byte(r) & 1;
    a->index.mode = (compute_scatter_mode)(byte(r) % 6);
    break;
  case COMPUTE_KERNEL_CONV:
    read_convolution(r, &a->conv);
    a->conv.precision = (compute_precision)(byte(r) % 5);
    break;
  case COMPUTE_KERNEL_FIT: read_fit(r, &a->fit); break;
  case COMPUTE_KERNEL_WINDOW: read_window(r, &a->window); break;
  case COMPUTE_KERNEL_SCAN:
    a->scan.combine = (compute_combine)(byte(r) % 8);
    a->scan.reverse = byte(r) & 1;
    a->scan.exclusive = byte(r) & 1;
    break;
  case COMPUTE_KERNEL_TOP_K:
    a->top_k.axis_size = number(r);
    a->top_k.smallest = byte(r) & 1;
    break;
  case COMPUTE_KERNEL_ATTENTION: read_attention(r, &a->attention); break;
  case COMPUTE_KERNEL_RECURRENT: read_recurrent(r, &a->recurrent); break;
  case COMPUTE_KERNEL_QUANTIZED_GEMM: read_quantized_gemm(r, &a->quantized_gemm); break;
  case COMPUTE_KERNEL_SORT:
    a->sort.descending = byte(r) & 1;
    a->sort.values = byte(r) & 1;
    a->sort.positions = byte(r) & 1;
    break;
  case COMPUTE_KERNEL_SPOTS: read_spots(r, &a->spots); break;
  case COMPUTE_KERNEL_CALL:
    a->call.run = byte(r) & 1 ? call_nothing : NULL;
    a->call.name = byte(r) & 1 ? "name" : NULL;
    for (int i = 0; i < COMPUTE_MAX_OPERANDS; i++) a->call.count[i] = number(r);
    break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { MOST = 12, OPERANDS = 6 };
  reader r = {data, size};
  compute_operand inputs[OPERANDS] = {{0}}, outputs[OPERANDS] = {{0}};
  compute_instruction prologue[MOST], epilogue[MOST];
  uint16_t prologue_outputs[4], epilogue_outputs[4];
  compute_kernel_descriptor d = {.struct_size = sizeof d};
  d.kind = (compute_kernel_kind)(byte(&r) % COMPUTE_KERNEL_KIND_COUNT);
  d.rank = (int32_t)(byte(&r) % 10) - (byte(&r) == 255);
  for (int i = 0; i < COMPUTE_MAX_RANK && i < d.rank; i++) d.size[i] = number(&r);
  d.input_count = byte(&r) % OPERANDS;
  d.output_count = byte(&r) % OPERANDS;
  d.inputs = inputs;
  d.outputs = outputs;
  const int32_t dimensions = d.kind == COMPUTE_KERNEL_FIT ? 3 : d.rank;
  read_operands(&r, inputs, d.input_count, dimensions);
  read_operands(&r, outputs, d.output_count, dimensions);
  read_program(&r, &d.prologue, prologue, prologue_outputs, MOST);
  read_program(&r, &d.epilogue, epilogue, epilogue_outputs, MOST);
  d.prologue_inputs = byte(&r);
  d.accumulate = (compute_dtype)(byte(&r) % COMPUTE_DTYPE_COUNT);
  any_attributes attributes = {0};
  read_attributes(&r, &d, &attributes);
  d.attributes = byte(&r) == 255 ? NULL : &attributes;
  d.attribute_bytes = byte(&r) == 255 ? 4 : sizeof attributes;
  if (d.kind == COMPUTE_KERNEL_FIT && byte(&r) % 4)
    repair_fit(&d, &attributes.fit, inputs, outputs);
  compute_tuning tuning = {.variant = byte(&r) % 9, .group_x = (uint32_t)number(&r) & 0xfffff};
  char reason[256] = "", name[KERNEL_CLASS_BYTES];
  if (!descriptor_check(&d, reason, sizeof reason)) {
    FUZZ_CHECK(reason[0] != 0);
    return 0;
  }
  (void)kernel_cost_of(&d);
  kernel_class_print(&d, name);
  FUZZ_CHECK(strlen(name) < sizeof name && kernel_class_valid(name, strlen(name)));
  uint8_t flags = byte(&r);
  for (int dialect = COMPUTE_DIALECT_OPENCL; dialect <= COMPUTE_DIALECT_C; dialect++)
    generate(&d, (compute_dialect)dialect, flags, tuning.variant ? &tuning : NULL);
  return 0;
}
