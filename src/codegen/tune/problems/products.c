/* SPDX-License-Identifier: MIT */
/* Problems of GEMM, CONV and ATTENTION. */
#include <math.h>
#include <string.h>

#include "codegen/tune/problems/problem.h"

#define K INT64_C(1024)

/* ---- GEMM ---------------------------------------------------------------------------------- */

enum { GEMM_NN, GEMM_NT, GEMM_TN }; /* A·B, A·Bᵀ, Aᵀ·B */

static const problem_row gemm_rows[] = {
    {"", GEMM_NN, COMPUTE_F32, 256, 256, 256, 0, true},
    {"", GEMM_NN, COMPUTE_F32, K, K, K, 0, false},
    {"nt", GEMM_NT, COMPUTE_F32, K, K, K, 0, false},
    {"tn", GEMM_TN, COMPUTE_F32, K, K, K, 0, false},
    {"", GEMM_NN, COMPUTE_F32, 32, K, K, 0, false},
    {"", GEMM_NN, COMPUTE_F32, 1, 2 * K, 2 * K, 0, false},
    {"nt", GEMM_NT, COMPUTE_F32, 1, 2 * K, 2 * K, 0, false},
    {"", GEMM_NN, COMPUTE_F32, 128, 128, 128, 32, false},
    {"", GEMM_NN, COMPUTE_F16, K, K, K, 0, false},
    {"nt", GEMM_NT, COMPUTE_F16, K, K, K, 0, false},
    {"", GEMM_NN, COMPUTE_F64, 512, 512, 512, 0, false},
    {.a = 0},
};

static void build_gemm(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t m = row->a, n = row->b, k = row->c;
  const bool at = row->form == GEMM_TN, bt = row->form == GEMM_NT;
  const int64_t a[] = {m * k, at ? 1 : k, at ? m : 1}, b[] = {k * n, bt ? 1 : n, bt ? k : 1},
                result[] = {m * n, n, 1};
  const int skip = row->batch ? 0 : 1; /* without a batch, the first dimension is absent */
  d->rank = 3 - skip;
  const int64_t size[] = {row->batch, m, n};
  memcpy(d->size, size + skip, (size_t)d->rank * sizeof *size);
  compute_gemm_attributes *product = kernel_attributes_in(&p->attributes, d, sizeof *product);
  product->k = k;
  d->accumulate = row->dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  problem_add_input(p, row->dtype, a + skip);
  problem_add_input(p, row->dtype, b + skip);
  problem_set_output(p, row->dtype, result + skip);
}

/* The errors of k roundings accumulate like a random walk, and so do the sums themselves. */
static problem_tolerance gemm_tolerance(const compute_kernel_descriptor *d, double epsilon) {
  return (problem_tolerance){.absolute = 8 * epsilon * (double)compute_gemm_of(d)->k};
}

const problem_kind problem_kind_gemm = {
    .rows = gemm_rows, .build = build_gemm, .tolerance = gemm_tolerance};

/* ---- CONV ---------------------------------------------------------------------------------- */

/* Channels × results × side; 3×3 with padding 1. */
enum {
  CONV,
  CONV_WINOGRAD,
  CONV_STRIDED,
  CONV_DATA,
  CONV_FILTER,
  CONV_DEPTHWISE,
  CONV_DEPTHWISE_FILTER
};

static const problem_row conv_rows[] = {
    {"3x3", CONV, COMPUTE_F32, 64, 64, 56, 8, true},
    {"3x3", CONV, COMPUTE_F32, 256, 256, 14, 8, false},
    {"winograd", CONV_WINOGRAD, COMPUTE_F32, 64, 64, 56, 8, false},
    {"winograd", CONV_WINOGRAD, COMPUTE_F32, 256, 256, 14, 8, false},
    {"strided", CONV_STRIDED, COMPUTE_F32, 64, 128, 56, 8, false},
    {"data", CONV_DATA, COMPUTE_F32, 64, 64, 56, 8, false},
    {"filter", CONV_FILTER, COMPUTE_F32, 64, 64, 56, 8, false},
    {"depthwise", CONV_DEPTHWISE, COMPUTE_F32, 144, 144, 28, 8, false},
    {"depthwise filter", CONV_DEPTHWISE_FILTER, COMPUTE_F32, 144, 144, 28, 8, false},
    {"3x3", CONV, COMPUTE_F16, 64, 64, 56, 8, false},
    {.a = 0},
};

/* x, w and y are dense: (n, channel, height, width), (o, c, r, s), (n, o, p, q). */
static void build_conv(tune_problem *p, const problem_row *row) {
  static const uint32_t roles[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}}; /* inputs, result */
  compute_kernel_descriptor *d = &p->descriptor;
  compute_conv_attributes *c = kernel_attributes_in(&p->attributes, d, sizeof *c);
  const int64_t step = row->form == CONV_STRIDED ? 2 : 1, side = (row->c - 1) / step + 1;
  *c = (compute_conv_attributes){.groups = 1, .batch = row->batch};
  if (row->form == CONV_WINOGRAD) c->precision = COMPUTE_PRECISION_WINOGRAD;
  if (row->form == CONV_DATA) c->direction = COMPUTE_CONVOLUTION_BY_DATA;
  if (row->form == CONV_FILTER || row->form == CONV_DEPTHWISE_FILTER)
    c->direction = COMPUTE_CONVOLUTION_BY_FILTER;
  if (row->form == CONV_DEPTHWISE || row->form == CONV_DEPTHWISE_FILTER)
    c->groups = (int32_t)row->a;
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
  d->accumulate = row->dtype == COMPUTE_F64 ? COMPUTE_F64 : COMPUTE_F32;
  for (int i = 0; i < 2; i++) problem_add_image(p, row->dtype, sizes[roles[c->direction][i]]);
  problem_set_image(p, row->dtype, sizes[roles[c->direction][2]]);
}

/* The number of products in one sum of a convolution. */
static double terms_of(const compute_conv_attributes *c) {
  const double taps = (double)c->filter_size[0] * (double)c->filter_size[1];
  switch (c->direction) {
  case COMPUTE_CONVOLUTION_BY_DATA: return taps * (double)c->result_channels / c->groups;
  case COMPUTE_CONVOLUTION_BY_FILTER:
    return (double)c->batch * (double)c->result_size[0] * (double)c->result_size[1];
  case COMPUTE_CONVOLUTION_FORWARD: break;
  }
  return taps * (double)c->data_channels / c->groups;
}

static problem_tolerance conv_tolerance(const compute_kernel_descriptor *d, double epsilon) {
  return (problem_tolerance){.absolute = 8 * epsilon * terms_of(compute_conv_of(d))};
}

const problem_kind problem_kind_conv = {
    .rows = conv_rows, .build = build_conv, .tolerance = conv_tolerance};

/* ---- ATTENTION ----------------------------------------------------------------------------- */

/* Batches × queries × keys × width. */
enum { ATTENTION_FULL, ATTENTION_CAUSAL };

static const problem_row attention_rows[] = {
    {"full", ATTENTION_FULL, COMPUTE_F32, 256, 256, 64, 8, true},
    {"full", ATTENTION_FULL, COMPUTE_F32, 1, 2 * K, 64, 16, false},
    {"causal", ATTENTION_CAUSAL, COMPUTE_F32, 512, 512, 64, 8, false},
    {"causal", ATTENTION_CAUSAL, COMPUTE_F16, 512, 512, 64, 8, false},
    {.a = 0},
};

static void build_attention(tune_problem *p, const problem_row *row) {
  compute_kernel_descriptor *d = &p->descriptor;
  const int64_t queries = row->a, keys = row->b, width = row->c;
  const int64_t few[] = {queries * width, width, 1}, many[] = {keys * width, width, 1};
  compute_attention_attributes *a = kernel_attributes_in(&p->attributes, d, sizeof *a);
  a->keys = keys;
  a->width = width;
  a->scale = 1 / sqrt((double)width);
  a->causal = row->form == ATTENTION_CAUSAL;
  d->rank = 3;
  memcpy(d->size, (const int64_t[]){row->batch, queries, width}, 3 * sizeof *d->size);
  d->accumulate = COMPUTE_F32;
  problem_add_input(p, row->dtype, few);
  problem_add_input(p, row->dtype, many);
  problem_add_input(p, row->dtype, many);
  problem_set_output(p, row->dtype, few);
}

/* Weights near 1, and means of numbers up to 1. */
static problem_tolerance attention_tolerance(const compute_kernel_descriptor *d, double epsilon) {
  (void)d;
  return (problem_tolerance){.absolute = 256 * epsilon};
}

const problem_kind problem_kind_attention = {
    .rows = attention_rows, .build = build_attention, .tolerance = attention_tolerance};

/* ---- RECURRENT ----------------------------------------------------------------------------- */

/* RECURRENT has none: its kernel has no parameters. */
const problem_kind problem_kind_recurrent = {0};

/* ---- QUANTIZED_GEMM: no device compiles it -------------------------------------------------- */

const problem_kind problem_kind_quantized_gemm = {0};
