/* What a kernel has to do, told from its descriptor: bytes that move, operations of its programs,
 * and the product that it may be. */
#include "kernel/cost.h"
#include "base/arithmetic.h"
#include "route/costs.h"

/* What an instruction costs in additions (simple) or in exponentials (functions), on an ordinary
 * CPU; on a GPU memory decides in all but the longest programs. */
typedef struct weight {
  double simple, functions;
} weight;

static weight weight_of(uint8_t code) {
  switch (code) {
  case COMPUTE_I_CONSTANT:
  case COMPUTE_I_LOAD: return (weight){0, 0};
  case COMPUTE_I_RANDOM: return (weight){40, 0};
  case COMPUTE_I_EXP: return (weight){0, 1};
  case COMPUTE_I_SIGMOID:
  case COMPUTE_I_SILU:
  case COMPUTE_I_ELU:
  case COMPUTE_I_LOG:
  case COMPUTE_I_EXPM1:
  case COMPUTE_I_LOG1P: return (weight){0, 1.4};
  case COMPUTE_I_TANH:
  case COMPUTE_I_ERF:
  case COMPUTE_I_GELU:
  case COMPUTE_I_GELU_TANH:
  case COMPUTE_I_SOFTPLUS:
  case COMPUTE_I_SIN:
  case COMPUTE_I_COS: return (weight){0, 1.8};
  case COMPUTE_I_POW: return (weight){0, 4};
  case COMPUTE_I_DIV:
  case COMPUTE_I_MOD:
  case COMPUTE_I_SQRT:
  case COMPUTE_I_RSQRT:
  case COMPUTE_I_RECIPROCAL: return (weight){3, 0};
  default: return (weight){1, 0};
  }
}

/* 64-bit types fill twice the lanes. */
static void add_program(const compute_program *program, double elements, route_work *work) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *in = &program->instructions[i];
    weight w = weight_of(in->code);
    double lanes = in->type == COMPUTE_F64 || in->type == COMPUTE_I64 ? 2 : 1;
    work->simple += w.simple * lanes * elements;
    work->functions += w.functions * lanes * elements;
  }
}

static double elements_of(const int64_t *size, int32_t rank) {
  double count = 1;
  for (int32_t i = 0; i < rank; i++) count *= (double)size[i];
  return count;
}

/* Whether neighbours in the last dimension that is not 1 are neighbours in memory. */
static bool in_memory_order(const compute_kernel_descriptor *d, const compute_operand *o) {
  for (int32_t i = d->rank - 1; i >= 0; i--)
    if (d->size[i] > 1) return o->stride[i] == 1 || o->stride[i] == 0;
  return true;
}

static bool streams(const compute_kernel_descriptor *d) {
  for (uint32_t i = 0; i < d->input_count; i++)
    if (!in_memory_order(d, &d->inputs[i])) return false;
  for (uint32_t i = 0; i < d->output_count; i++)
    if (!in_memory_order(d, &d->outputs[i])) return false;
  return true;
}

static route_class gemm_class(compute_dtype factors) {
  return factors == COMPUTE_F64    ? ROUTE_GEMM_F64
         : factors == COMPUTE_F16  ? ROUTE_GEMM_F16
         : factors == COMPUTE_BF16 ? ROUTE_GEMM_BF16
                                   : ROUTE_GEMM_F32;
}

/* Products too narrow to fill tiles and lanes waste part of them. */
static double narrowness(int64_t m, int64_t n, int64_t k) {
  int64_t least = min_i64(m, n);
  if (k < least) least = k;
  return least >= 32 ? 1 : 1 + 8.0 / (double)(least > 0 ? least : 1);
}

static void add_gemm(const compute_kernel_descriptor *d, double all, route_work *work) {
  work->product = gemm_class(d->inputs[0].dtype);
  work->flops = 2 * all * (double)compute_gemm_of(d)->k *
                narrowness(d->size[d->rank - 2], d->size[d->rank - 1], compute_gemm_of(d)->k);
  if (d->accumulate == COMPUTE_I64 || d->accumulate == COMPUTE_I32) work->flops *= 4;
}

/* Whatever its direction, a convolution multiplies as often as the forward one. */
static void add_convolution(const compute_kernel_descriptor *d, route_work *work) {
  const compute_conv_attributes *c = compute_conv_of(d);
  double positions = (double)c->batch * (double)c->result_channels * (double)c->result_size[0] *
                     (double)c->result_size[1];
  double taps = (double)(c->data_channels / c->groups) * (double)c->filter_size[0] *
                (double)c->filter_size[1];
  work->product = ROUTE_CONVOLUTION;
  work->flops = 2 * positions * taps * (d->accumulate == COMPUTE_F64 ? 2 : 1);
}

/* A fit keeps all it works with in registers, where a program's every step goes through memory. */
static void add_fit(const compute_kernel_descriptor *d, const kernel_cost *cost, route_work *work) {
  const double edges =
      (double)(compute_fit_of(d)->problem.rows + compute_fit_of(d)->problem.columns + 2);
  work->simple += 0.25 * (double)cost->flops;
  work->functions += 8 * edges * (double)d->size[0];
}

/* Each score is a multiplication and an addition for each column of both products. */
static void add_attention(const compute_kernel_descriptor *d, const kernel_cost *cost,
                          route_work *work) {
  work->product = gemm_class(d->inputs[0].dtype);
  work->flops =
      (double)cost->flops * narrowness(d->size[d->rank - 2], compute_attention_of(d)->keys,
                                       compute_attention_of(d)->width);
  work->functions += elements_of(d->size, d->rank - 1) * (double)compute_attention_of(d)->keys;
}

route_work route_work_of(const compute_kernel_descriptor *d) {
  kernel_cost cost = kernel_cost_of(d);
  route_work work = {.moved = ROUTE_STREAM,
                     .product = ROUTE_CLASSES,
                     .bytes = (double)(cost.bytes_read + cost.bytes_written)};
  double all = elements_of(d->size, d->rank);
  switch (d->kind) {
  case COMPUTE_KERNEL_MAP:
    if (!streams(d)) work.moved = ROUTE_COPY;
    add_program(&d->epilogue, all, &work);
    break;
  case COMPUTE_KERNEL_COPY:
    if (!streams(d)) work.moved = ROUTE_COPY;
    break;
  case COMPUTE_KERNEL_REDUCE:
    work.moved = ROUTE_REDUCE;
    add_program(&d->prologue, all, &work);
    add_program(&d->epilogue, elements_of(d->size, compute_reduce_of(d)->kept_rank), &work);
    break;
  case COMPUTE_KERNEL_ROW:
    work.moved = ROUTE_ROW;
    add_program(&d->prologue, all, &work);
    add_program(&d->epilogue, all, &work);
    break;
  case COMPUTE_KERNEL_GATHER:
  case COMPUTE_KERNEL_SCATTER: /* a walked axis is not counted as read: what counts is each visit */
    work.moved = ROUTE_GATHER;
    work.bytes = all * (double)(2 * compute_dtype_size(d->inputs[0].dtype) +
                                compute_dtype_size(d->inputs[1].dtype));
    break;
  case COMPUTE_KERNEL_GEMM:
    add_gemm(d, all, &work);
    add_program(&d->epilogue, all, &work);
    break;
  case COMPUTE_KERNEL_CONV:
    add_convolution(d, &work);
    add_program(&d->epilogue, all, &work);
    break;
  case COMPUTE_KERNEL_FIT: add_fit(d, &cost, &work); break;
  case COMPUTE_KERNEL_WINDOW:
    work.moved = ROUTE_REDUCE;
    work.simple += (double)cost.flops;
    add_program(&d->epilogue, all, &work);
    break;
  case COMPUTE_KERNEL_SCAN:
  case COMPUTE_KERNEL_TOP_K:
    work.moved = ROUTE_ROW;
    work.simple += (double)cost.flops;
    break;
  case COMPUTE_KERNEL_ATTENTION: add_attention(d, &cost, &work); break;
  case COMPUTE_KERNEL_SPOTS: work.simple += 0.25 * (double)cost.flops; break; /* as in add_fit */
  default: break;
  }
  return work;
}
