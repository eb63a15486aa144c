/* SPDX-License-Identifier: MIT */
/* GEMM, QUANTIZED_GEMM, CONV and ATTENTION: sums of products. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/type/dtype.h"
#include "plan/validate/evaluate/evaluate.h"

/* The error bound of Winograd's minimal filtering. It sums transformed patches, and the rounding
 * depends on the largest elements of a patch. Take the sum over channels of (largest element of the
 * patch) · (sum of the filter's magnitudes). With 4 × 4 results per tile and channels of equal
 * weight, the error is about 10 … 100 × 2⁻²⁴ of this sum. If one channel dominates, it is about 200
 * × 2⁻²⁴. */
#define WINOGRAD 0x1p-15

/* One sum of products in progress. */
typedef struct sum {
  double real, magnitude;
  double wide; /* for Winograd: as magnitude, with a patch's largest element in each product */
  uint64_t integer;
  int64_t terms;
  int64_t wide_pairs; /* at most: two products of bytes may need more than 16 bits */
} sum;

static double real_at(const view *v, int64_t offset) {
  const unsigned char *element = view_at(v, offset);
  float f32;
  if (v->dtype != COMPUTE_F32) return dtype_load(v->dtype, element);
  memcpy(&f32, element, sizeof f32);
  return (double)f32;
}

/* The shifted factors of COMPUTE_PRECISION_SATURATE are at most 255 and 64 if no pair saturates. */
static bool has_wide_pairs(compute_dtype dtype, int64_t right) {
  const int64_t shifted = dtype == COMPUTE_U8 ? right - 128 : right;
  return (dtype == COMPUTE_U8 || dtype == COMPUTE_I8) && (shifted > 64 || shifted < -64);
}

static void add_product(sum *s, const view *a, int64_t at_a, const view *b, int64_t at_b,
                        bool floats) {
  s->terms++;
  if (floats) {
    const double term = real_at(a, at_a) * real_at(b, at_b);
    s->real += term;
    s->magnitude += fabs(term);
  } else {
    const int64_t left = dtype_load_integer(a->dtype, view_at(a, at_a));
    const int64_t right = dtype_load_integer(b->dtype, view_at(b, at_b));
    s->integer += (uint64_t)left * (uint64_t)right;
    s->wide_pairs += has_wide_pairs(b->dtype, right);
  }
}

static number finish(const compute_kernel_descriptor *d, compute_precision precision,
                     const sum *s) {
  if (!number_is_float(d->accumulate)) {
    const int64_t value =
        d->accumulate == COMPUTE_I32 ? (int64_t)(int32_t)(uint32_t)s->integer : (int64_t)s->integer;
    /* A pair is at most 255 · 128 · 2 in magnitude, and saturates at 32767. */
    const bool saturates = (precision & COMPUTE_PRECISION_SATURATE) != 0;
    return (number){.integer = value, .error = saturates ? 32768.0 * (double)s->wide_pairs : 0};
  }
  /* TF32 keeps 10 bits of each factor's mantissa. */
  const bool coarse = (precision & COMPUTE_PRECISION_TF32) && d->accumulate == COMPUTE_F32;
  const double factors = coarse ? 0x1p-9 * s->magnitude : 0;
  number n = number_sum(d->accumulate, s->real, s->magnitude, factors + WINOGRAD * s->wide,
                        (double)s->terms, true);
  /* Results of padding alone are also computed from a patch. Values that are not finite, or that
   * overflow in the transforms, spread to all results of their tile. */
  if (s->terms == 0) n.error = WINOGRAD * s->wide;
  if (!(s->wide <= (double)FLT_MAX * 0x1p-10)) n.error = (double)INFINITY;
  return n;
}

/* Computes the value at a position and runs its epilogue. */
static bool finish_unit(const evaluation *e, int64_t unit,
                        number (*value)(const evaluation *e, const int64_t *coordinate),
                        workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(e->d->size, e->out_rank, unit, coordinate);
  const number n = value(e, coordinate);
  evaluate_epilogue(e, &n, 2, coordinate, unit, w, w->results);
  return true;
}

static number product(const evaluation *e, const int64_t *coordinate) {
  const compute_kernel_descriptor *d = e->d;
  const view *a = &e->input[0], *b = &e->input[1];
  const int32_t m = d->rank - 2, n = d->rank - 1;
  int64_t at_a = a->stride[m] * coordinate[m], at_b = b->stride[n] * coordinate[n];
  sum s = {0};
  for (int32_t i = 0; i < m; i++) {
    at_a += a->stride[i] * coordinate[i];
    at_b += b->stride[i] * coordinate[i];
  }
  const bool floats = number_is_float(d->accumulate);
  for (int64_t k = 0; k < compute_gemm_of(d)->k; k++)
    add_product(&s, a, at_a + k * a->stride[n], b, at_b + k * b->stride[m], floats);
  return finish(d, compute_gemm_of(d)->precision, &s);
}

static bool gemm(const evaluation *e, int64_t unit, workspace *w) {
  return finish_unit(e, unit, product, w);
}

static uint64_t gemm_work(const compute_kernel_descriptor *d, uint64_t program) {
  return program + 2 * (uint64_t)compute_gemm_of(d)->k;
}

const evaluation_kind evaluation_kind_gemm = {.evaluate = gemm, .work = gemm_work};

/* ---- QUANTIZED_GEMM ------------------------------------------------------------------------- */

/* Returns the dequantized weight number p of a column, and a bound of its error. */
static double weight(const evaluation *e, int64_t column, int64_t p, double *error) {
  const compute_kernel_descriptor *d = e->d;
  const compute_quantized_gemm_attributes *a = compute_quantized_gemm_of(d);
  const view *bytes = &e->input[1], *scales = &e->input[2], *zeros = &e->input[3];
  const int32_t n = d->rank - 2, along = d->rank - 1;
  const int64_t byte = p * a->bits / 8, block = p / a->block;
  const uint8_t from = *view_at(bytes, column * bytes->stride[n] + byte * bytes->stride[along]);
  const int32_t q = from >> (p * a->bits % 8) & ((1 << a->bits) - 1);
  const double scale = real_at(scales, column * scales->stride[n] + block * scales->stride[along]);
  double zero = 1 << (a->bits - 1);
  if (a->zeros) {
    const int64_t at = column * zeros->stride[n] + block * zeros->stride[along];
    zero = dtype_is_float(zeros->dtype)
               ? real_at(zeros, at)
               : (double)dtype_load_integer(zeros->dtype, view_at(zeros, at));
  }
  *error = 2 * number_epsilon(d->accumulate) * ((double)q + fabs(zero)) * fabs(scale);
  return ((double)q - zero) * scale;
}

static number quantized_product(const evaluation *e, const int64_t *coordinate) {
  const compute_kernel_descriptor *d = e->d;
  const compute_quantized_gemm_attributes *g = compute_quantized_gemm_of(d);
  const view *a = &e->input[0];
  const int32_t m = d->rank - 2, n = d->rank - 1;
  const int64_t at = evaluate_offset(a->stride, m + 1, coordinate);
  double total = 0, magnitude = 0, errors = 0, error;
  for (int64_t p = 0; p < g->k; p++) {
    const double x = real_at(a, at + p * a->stride[n]);
    const double term = x * weight(e, coordinate[n], p, &error);
    total += term;
    magnitude += fabs(term);
    errors += fabs(x) * error;
  }
  return number_sum(d->accumulate, total, magnitude, errors, (double)g->k, true);
}

static bool quantized_gemm(const evaluation *e, int64_t unit, workspace *w) {
  int64_t coordinate[COMPUTE_MAX_RANK];
  evaluate_coordinates(e->d->size, e->out_rank, unit, coordinate);
  const number n = quantized_product(e, coordinate);
  const uint32_t own = compute_quantized_gemm_of(e->d)->zeros ? 4 : 3;
  evaluate_epilogue(e, &n, own, coordinate, unit, w, w->results);
  return true;
}

static uint64_t quantized_work(const compute_kernel_descriptor *d, uint64_t program) {
  return program + 4 * (uint64_t)compute_quantized_gemm_of(d)->k;
}

const evaluation_kind evaluation_kind_quantized_gemm = {.evaluate = quantized_gemm,
                                                        .work = quantized_work};

/* ---- Convolutions -------------------------------------------------------------------------- */

static int64_t at(const view *v, int64_t i, int64_t j, int64_t k, int64_t l) {
  return i * v->stride[0] + j * v->stride[1] + k * v->stride[2] + l * v->stride[3];
}

static bool inside(int64_t place, int64_t size) {
  return place >= 0 && place < size;
}

static void forward(const evaluation *e, const int64_t *y, sum *s) {
  const compute_conv_attributes *c = compute_conv_of(e->d);
  const int64_t channels = c->data_channels / c->groups;
  const int64_t group = y[1] / (c->result_channels / c->groups);
  for (int64_t k = 0; k < channels; k++)
    for (int64_t r = 0; r < c->filter_size[0]; r++)
      for (int64_t t = 0; t < c->filter_size[1]; t++) {
        const int64_t h = y[2] * c->stride[0] + r * c->dilation[0] - c->padding[0];
        const int64_t v = y[3] * c->stride[1] + t * c->dilation[1] - c->padding[1];
        if (inside(h, c->data_size[0]) && inside(v, c->data_size[1]))
          add_product(s, &e->input[0], at(&e->input[0], y[0], channels * group + k, h, v),
                      &e->input[1], at(&e->input[1], y[1], k, r, t),
                      number_is_float(e->d->accumulate));
      }
}

/* Returns the result position that reads this element of the data with this tap, or -1. */
static int64_t result_place(const compute_conv_attributes *c, int axis, int64_t data, int64_t tap) {
  const int64_t steps = data + c->padding[axis] - tap * c->dilation[axis];
  if (steps < 0 || steps % c->stride[axis] != 0) return -1;
  return inside(steps / c->stride[axis], c->result_size[axis]) ? steps / c->stride[axis] : -1;
}

static void by_data(const evaluation *e, const int64_t *x, sum *s) {
  const compute_conv_attributes *c = compute_conv_of(e->d);
  const int64_t channels = c->data_channels / c->groups;
  const int64_t results = c->result_channels / c->groups, group = x[1] / channels;
  for (int64_t o = group * results; o < (group + 1) * results; o++)
    for (int64_t r = 0; r < c->filter_size[0]; r++)
      for (int64_t t = 0; t < c->filter_size[1]; t++) {
        const int64_t p = result_place(c, 0, x[2], r), q = result_place(c, 1, x[3], t);
        if (p >= 0 && q >= 0)
          add_product(s, &e->input[0], at(&e->input[0], x[0], o, p, q), &e->input[1],
                      at(&e->input[1], o, x[1] % channels, r, t),
                      number_is_float(e->d->accumulate));
      }
}

static void by_filter(const evaluation *e, const int64_t *w, sum *s) {
  const compute_conv_attributes *c = compute_conv_of(e->d);
  const int64_t channels = c->data_channels / c->groups;
  const int64_t group = w[0] / (c->result_channels / c->groups);
  for (int64_t n = 0; n < c->batch; n++)
    for (int64_t p = 0; p < c->result_size[0]; p++)
      for (int64_t q = 0; q < c->result_size[1]; q++) {
        const int64_t h = p * c->stride[0] + w[2] * c->dilation[0] - c->padding[0];
        const int64_t v = q * c->stride[1] + w[3] * c->dilation[1] - c->padding[1];
        if (inside(h, c->data_size[0]) && inside(v, c->data_size[1]))
          add_product(s, &e->input[0], at(&e->input[0], n, channels * group + w[1], h, v),
                      &e->input[1], at(&e->input[1], n, w[0], p, q),
                      number_is_float(e->d->accumulate));
      }
}

/* True if Winograd's minimal filtering is allowed and possible. */
static bool may_be_filtered(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  for (int i = 0; i < 2; i++)
    if (c->filter_size[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1) return false;
  return (c->precision & COMPUTE_PRECISION_WINOGRAD) && d->accumulate == COMPUTE_F32;
}

/* Returns the largest element of one channel among all elements that a tile with this result may
 * read. */
static double largest_around(const view *source, int64_t image, int64_t channel,
                             const int64_t place[2], const int64_t size[2]) {
  enum { BEFORE = 3, AFTER = 5 };
  double largest = 0;
  for (int64_t h = place[0] - BEFORE; h <= place[0] + AFTER; h++)
    for (int64_t v = place[1] - BEFORE; v <= place[1] + AFTER; v++)
      if (inside(h, size[0]) && inside(v, size[1])) {
        const double element = fabs(real_at(source, at(source, image, channel, h, v)));
        if (!(element <= largest)) largest = element;
        if (isnan(element)) return element;
      }
  return largest;
}

/* The filter's gradient filters the patches with y's gradient. */
static double wide_by_filter(const evaluation *e, const int64_t *w) {
  const compute_conv_attributes *c = compute_conv_of(e->d);
  const int64_t channels = c->data_channels / c->groups;
  const int64_t group = w[0] / (c->result_channels / c->groups);
  double wide = 0;
  for (int64_t n = 0; n < c->batch; n++)
    for (int64_t p = 0; p < c->result_size[0]; p++)
      for (int64_t q = 0; q < c->result_size[1]; q++) {
        const int64_t place[2] = {p - c->padding[0], q - c->padding[1]};
        wide += fabs(real_at(&e->input[1], at(&e->input[1], n, w[0], p, q))) *
                largest_around(&e->input[0], n, channels * group + w[1], place, c->data_size);
      }
  return wide;
}

static double wide_magnitude(const evaluation *e, const int64_t *y) {
  const compute_conv_attributes *c = compute_conv_of(e->d);
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  const int64_t data = c->data_channels / c->groups, results = c->result_channels / c->groups;
  const int64_t group = y[1] / (forward ? results : data), channels = forward ? data : results;
  const int64_t *size = forward ? c->data_size : c->result_size;
  int64_t place[2];
  for (int i = 0; i < 2; i++) place[i] = y[2 + i] - (forward ? c->padding[i] : 2 - c->padding[i]);
  double wide = 0;
  for (int64_t k = 0; k < channels; k++) {
    double taps = 0;
    for (int64_t t = 0; t < 9; t++)
      taps += fabs(real_at(&e->input[1], forward ? at(&e->input[1], y[1], k, t / 3, t % 3)
                                                 : at(&e->input[1], group * results + k,
                                                      y[1] % data, t / 3, t % 3)));
    wide += taps * largest_around(&e->input[0], y[0], group * channels + k, place, size);
  }
  return wide;
}

static number one_convolution(const evaluation *e, const int64_t *coordinate) {
  sum s = {0};
  switch (compute_conv_of(e->d)->direction) {
  case COMPUTE_CONVOLUTION_FORWARD: forward(e, coordinate, &s); break;
  case COMPUTE_CONVOLUTION_BY_DATA: by_data(e, coordinate, &s); break;
  case COMPUTE_CONVOLUTION_BY_FILTER: by_filter(e, coordinate, &s); break;
  }
  if (may_be_filtered(e->d))
    s.wide = compute_conv_of(e->d)->direction == COMPUTE_CONVOLUTION_BY_FILTER
                 ? wide_by_filter(e, coordinate)
                 : wide_magnitude(e, coordinate);
  return finish(e->d, compute_conv_of(e->d)->precision, &s);
}

/* For a pooled convolution, returns the largest sum of the block. */
static number convolution(const evaluation *e, const int64_t *coordinate) {
  const int64_t pool = compute_conv_of(e->d)->pool;
  if (pool == 0) return one_convolution(e, coordinate);
  number largest = {.real = -INFINITY};
  for (int64_t i = 0; i < pool * pool; i++) {
    const int64_t at[4] = {coordinate[0], coordinate[1], coordinate[2] * pool + i / pool,
                           coordinate[3] * pool + i % pool};
    const number one = one_convolution(e, at);
    if (one.real > largest.real || isnan(one.real)) largest.real = one.real;
    if (one.error > largest.error || isnan(one.error)) largest.error = one.error;
  }
  return largest;
}

static bool conv(const evaluation *e, int64_t unit, workspace *w) {
  return finish_unit(e, unit, convolution, w);
}

static uint64_t conv_work(const compute_kernel_descriptor *d, uint64_t program) {
  const compute_conv_attributes *c = compute_conv_of(d);
  if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER)
    return program + 4 * (uint64_t)(c->batch * evaluate_count(c->result_size, 0, 2));
  const int64_t channels =
      c->direction == COMPUTE_CONVOLUTION_FORWARD ? c->data_channels : c->result_channels;
  const uint64_t sums = c->pool > 0 ? (uint64_t)c->pool * c->pool : 1;
  return program +
         4 * sums * (uint64_t)(evaluate_count(c->filter_size, 0, 2) * channels / c->groups);
}

const evaluation_kind evaluation_kind_conv = {.evaluate = conv, .work = conv_work};

/* ---- Attention ----------------------------------------------------------------------------- */

/* None: every element depends on all keys, in sums of a device-dependent order. */
const evaluation_kind evaluation_kind_attention = {0};

/* ---- Recurrences --------------------------------------------------------------------------- */

/* None: every element depends on all earlier steps, and amplifies or forgets their rounding
 * errors. */
const evaluation_kind evaluation_kind_recurrent = {0};
