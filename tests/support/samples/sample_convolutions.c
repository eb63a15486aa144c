/* SPDX-License-Identifier: MIT */
/* Samples of CONV: shapes, layouts, dtypes and epilogues in all three directions. */
#include "support/samples/sample_convolutions.h"
#include "support/reference/program_reference.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/type/dtype.h"

enum { ALL = 255, CHANNELS = 2 };

static const sample_convolution_shape cases[] = {
    /* 3×3 as in networks, and odd sizes */
    {1, 4, 8, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 3, 5, 1, {7, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 5, 17, 1, {13, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}},
    {1, 33, 35, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    /* 1×1, also with strides and padding */
    {3, 7, 13, 1, {5, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 16, 6, 1, {7, 7}, {1, 1}, {2, 3}, {1, 1}, {0, 0}, {0, 0}},
    {1, 2, 3, 1, {3, 4}, {1, 1}, {1, 1}, {1, 1}, {2, 1}, {0, 0}},
    /* the first layer of a network */
    {1, 3, 10, 1, {23, 21}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {0, 0}},
    /* dilation, unequal strides, padding larger than the filter */
    {1, 3, 4, 1, {11, 13}, {3, 2}, {1, 2}, {2, 3}, {2, 1}, {0, 0}},
    {2, 2, 3, 1, {4, 5}, {2, 3}, {3, 1}, {1, 2}, {5, 7}, {0, 0}},
    {1, 2, 2, 1, {9, 9}, {3, 3}, {4, 5}, {1, 1}, {0, 1}, {0, 0}},
    /* a filter larger than the data; results entirely in the padding */
    {2, 3, 4, 1, {3, 2}, {5, 5}, {1, 1}, {1, 1}, {2, 3}, {0, 0}},
    {1, 2, 3, 1, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {6, 3}},
    {1, 2, 3, 1, {6, 7}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {-3, -2}},
    /* groups: several channels, one channel each, several results of each */
    {2, 6, 9, 3, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 7, 7, 7, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 5, 5, 5, {11, 37}, {3, 5}, {2, 2}, {1, 1}, {1, 2}, {0, 0}},
    {1, 3, 6, 3, {8, 5}, {5, 3}, {1, 1}, {1, 2}, {2, 2}, {0, 0}},
    {1, 8, 4, 4, {5, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    /* one dimension; one element; many channels at one pixel */
    {3, 4, 6, 1, {1, 29}, {1, 5}, {1, 2}, {1, 1}, {0, 2}, {0, 0}},
    {1, 1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 67, 41, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {1, 1, 2, 1, {40, 3}, {9, 1}, {1, 1}, {1, 1}, {4, 0}, {0, 0}},
    /* empty: nothing to store, or nothing to sum */
    {0, 3, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 0, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 3, 0, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {2, 3, 4, 1, {0, 5}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, {0, 0}},
    {2, 3, 4, 1, {2, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
};

/* Indices into the list above: shapes tested with every layout, dtype and ending. */
enum {
  ODD = 1,
  TWO_STRIDES = 2,
  CHANNELED = 3,
  POINTWISE = 4,
  DEPTHWISE = 15,
  GROUPED = 14,
  STRIDED = 8,
  NOTHING_SUMMED = 24
};

static int64_t result_size(const sample_convolution_shape *c, int i) {
  const int64_t room =
      c->data[i] + 2 * c->padding[i] - c->dilation[i] * (c->filter[i] - 1) - 1 + c->stride[i];
  const int64_t count = (room < 0 ? 0 : room / c->stride[i]) + c->more[i];
  return count < 0 ? 0 : count;
}

static compute_conv_attributes convolution_of(const sample_convolution_shape *c,
                                              compute_convolution_direction direction) {
  compute_conv_attributes made = {.direction = direction,
                                  .groups = c->groups,
                                  .batch = c->n,
                                  .data_channels = c->c,
                                  .result_channels = c->k};
  for (int i = 0; i < 2; i++) {
    made.data_size[i] = c->data[i];
    made.result_size[i] = result_size(c, i);
    made.filter_size[i] = c->filter[i];
    made.stride[i] = c->stride[i];
    made.dilation[i] = c->dilation[i];
    made.padding[i] = c->padding[i];
  }
  return made;
}

/* ---- Sizes and strides --------------------------------------------------------------------- */

typedef enum role { DATA, FILTER, RESULT } role;

/* The role of input 0 or 1; 2 gives the role of the space. */
static role role_of(compute_convolution_direction direction, uint32_t operand) {
  static const role roles[3][3] = {
      [COMPUTE_CONVOLUTION_FORWARD] = {DATA, FILTER, RESULT},
      [COMPUTE_CONVOLUTION_BY_DATA] = {RESULT, FILTER, DATA},
      [COMPUTE_CONVOLUTION_BY_FILTER] = {DATA, RESULT, FILTER},
  };
  return roles[direction][operand];
}

void sample_convolution_sizes(const compute_conv_attributes *c, uint32_t input, int64_t size[4]) {
  const role which = role_of(c->direction, input);
  const int64_t *plane = which == DATA     ? c->data_size
                         : which == FILTER ? c->filter_size
                                           : c->result_size;
  size[0] = which == FILTER ? c->result_channels : c->batch;
  size[1] = which == DATA     ? c->data_channels
            : which == FILTER ? c->data_channels / c->groups
                              : c->result_channels;
  size[2] = plane[0];
  size[3] = plane[1];
}

static void lay_out(sample_layout how, const int64_t size[4], bool input, role which,
                    int64_t stride[COMPUTE_MAX_RANK]) {
  static const int orders[LAYOUT_COUNT][4] = {
      [LAYOUT_NCHW] = {3, 2, 1, 0},    [LAYOUT_NHWC] = {1, 3, 2, 0},
      [LAYOUT_GAPS] = {3, 2, 1, 0},    [LAYOUT_TURNED] = {0, 1, 2, 3},
      [LAYOUT_FLIPPED] = {3, 2, 1, 0}, [LAYOUT_SHARED] = {3, 2, 1, 0},
      [LAYOUT_PIXELS] = {3, 2, 1, 0},  [LAYOUT_PLANES] = {1, 3, 2, 0},
  };
  const bool gaps = how == LAYOUT_GAPS;
  if (how == LAYOUT_PIXELS && !input) how = LAYOUT_NHWC;
  if (how == LAYOUT_PLANES && !input) how = LAYOUT_NCHW;
  int64_t step = gaps ? 2 : 1;
  for (int i = 0; i < 4; i++) {
    const int d = orders[how][i];
    const bool repeats = how == LAYOUT_SHARED && input && d == 0;
    stride[d] = repeats ? 0 : step;
    if (!repeats) step *= (size[d] > 0 ? size[d] : 1) + (gaps && i < 2 ? 1 : 0);
  }
  if (how != LAYOUT_FLIPPED || !input) return;
  for (int d = 2; d < 4; d++)
    if (which != FILTER || d == 3) stride[d] = -stride[d];
}

/* ---- Making samples ------------------------------------------------------------------------ */

static compute_dtype type_of(compute_dtype dtype) {
  return reference_type(dtype);
}

static const char *const direction_names[] = {"forward", "by data", "by filter"};
static const char *const layout_names[] = {"nchw",    "nhwc",   "gaps",   "turned",
                                           "flipped", "shared", "pixels", "planes"};
static const char *const ending_names[] = {"",        " + bias", " + residual", " two outputs",
                                           " places", " added"};
_Static_assert(sizeof ending_names / sizeof *ending_names == ENDING_COUNT,
               "a name for each ending");

static void begin(sample_kernel *s, const sample_convolution *sample) {
  const sample_convolution_shape *c = &sample->shape;
  const compute_convolution_direction direction = sample->direction;
  const sample_layout how = sample->layout;
  const compute_dtype dtype = sample->dtype;
  compute_shape space = {.rank = 4};
  const compute_conv_attributes made = convolution_of(c, direction);
  sample_convolution_sizes(&made, 2, space.size);
  for (int i = 2; sample->pool > 0 && i < 4; i++) space.size[i] /= sample->pool;
  sample_begin(s, COMPUTE_KERNEL_CONV, space,
               "conv %s %lldx%lldx%lldx%lld k%lld %lldx%lld /%lld g%d %s %s%s%s%s",
               direction_names[direction], (long long)c->n, (long long)c->c, (long long)c->data[0],
               (long long)c->data[1], (long long)c->k, (long long)c->filter[0],
               (long long)c->filter[1], (long long)c->stride[1], (int)c->groups, layout_names[how],
               compute_dtype_name(dtype), ending_names[sample->ending],
               sample->precision & COMPUTE_PRECISION_WINOGRAD ? ", Winograd" : "",
               sample->pool > 0 ? ", pooled" : "");
  s->attributes.conv = made;
  s->attributes.conv.precision = sample->precision;
  s->attributes.conv.pool = sample->pool;
  s->descriptor.accumulate = type_of(dtype);
  s->low = -2;
  s->high = 2;
  s->tolerance =
      dtype == COMPUTE_F64 ? (test_tolerance){8, 1e-11, 1e-11} : (test_tolerance){8, 1e-3, 1e-5};
  if (sample->precision & COMPUTE_PRECISION_WINOGRAD) s->tolerance.atol = 1e-3;
  for (uint32_t i = 0; i < 2; i++) {
    int64_t size[4];
    sample_convolution_sizes(&made, i, size);
    lay_out(how, size, true, role_of(direction, i),
            sample_input(s, i && sample->second ? sample->second : dtype, 0)->stride);
  }
}

static void add_output(sample_kernel *s, compute_dtype dtype, sample_layout how) {
  const compute_conv_attributes *c = compute_conv_of(&s->descriptor);
  lay_out(how, s->descriptor.size, false, role_of(c->direction, 2),
          sample_output(s, dtype, 0)->stride);
}

/* Adds the position and the coordinates, each with a different weight, to the sum. */
static uint16_t add_places(program_builder *e, compute_dtype type, uint16_t sum) {
  uint16_t place = program_instruction(
      e, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
  for (int d = 0; d < 4; d++) {
    const uint16_t coordinate = program_instruction(
        e, (compute_instruction){
               .code = COMPUTE_I_COORDINATE, .type = COMPUTE_I64, .immediate.i64 = d});
    const uint16_t weight = program_constant_integer(e, COMPUTE_I64, INT64_C(1) << (2 * d));
    place = program_apply(e, COMPUTE_I_ADD, COMPUTE_I64, place,
                          program_apply(e, COMPUTE_I_MUL, COMPUTE_I64, coordinate, weight, 0), 0);
  }
  return program_apply(e, COMPUTE_I_ADD, type, sum,
                       program_apply(e, COMPUTE_I_CAST, type, place, 0, 0), 0);
}

static void add_ending(sample_kernel *s, sample_layout how, compute_dtype dtype,
                       compute_dtype result, sample_ending end) {
  const compute_dtype type = s->descriptor.accumulate;
  program_builder *e = &s->epilogue;
  if (end == ENDING_PLAIN) {
    add_output(s, result, how);
    return;
  }
  const uint16_t sum = program_load(e, type, 0);
  if (end == ENDING_PLACES) {
    program_store(e, add_places(e, type, sum));
    add_output(s, result, how);
    return;
  }
  compute_operand *extra = sample_input(s, dtype, CHANNELS);
  if (end == ENDING_RESIDUAL) lay_out(how, s->descriptor.size, false, RESULT, extra->stride);
  const uint16_t added = program_apply(e, COMPUTE_I_ADD, type, sum, program_load(e, type, 1), 0);
  if (end == ENDING_ADDED) {
    const uint16_t minus = dtype_is_float(type) ? program_constant(e, type, -1)
                                                : program_constant_integer(e, type, -1);
    const uint16_t turned = program_apply(e, COMPUTE_I_MUL, type, added, minus, 0);
    compute_operand *last = sample_input(s, dtype, CHANNELS);
    lay_out(how, s->descriptor.size, false, RESULT, last->stride);
    program_store(e, program_apply(e, COMPUTE_I_ADD, type, program_load(e, type, 2), turned, 0));
    add_output(s, result, how);
    return;
  }
  program_store(e, program_apply(e, COMPUTE_I_RELU, type, added, 0, 0));
  add_output(s, result, how);
  if (end != ENDING_TWO_OUTPUTS) return;
  program_store(e, sum);
  add_output(s, type, how == LAYOUT_NCHW ? LAYOUT_NHWC : LAYOUT_NCHW);
}

/* Tunings of generated kernels (src/codegen/generate/kinds/conv/conv.h). */
static void add_cuts(sample_kernel *s) {
  static const compute_tuning cuts[] = {
      {.variant = 2, .tile_m = 16, .tile_n = 16, .tile_k = 8, .item_m = 1, .item_n = 1},
      {.variant = 2, .tile_m = 64, .tile_n = 32, .tile_k = 16, .item_m = 8, .item_n = 2},
      {.variant = 3,
       .tile_m = 32,
       .tile_n = 32,
       .tile_k = 8,
       .item_m = 4,
       .item_n = 4,
       .groups = 3},
      {.variant = 4, .group_x = 16, .groups = 2},
      {.variant = 5, .group_x = 7, .item_m = 3},
      {.variant = 6, .item_m = 4, .item_n = 8, .vector = 4, .groups = 5},
  };
  for (uint32_t variant = 1; variant <= 6; variant++) sample_tuning(s)->variant = variant;
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) *sample_tuning(s) = cuts[i];
}

/* Tunings for matrix units; targets without them refuse these. */
static void add_matrix_cuts(sample_kernel *s) {
  *sample_tuning(s) = (compute_tuning){.variant = 2};
  *sample_tuning(s) = (compute_tuning){.variant = 7, .groups = 1};
  *sample_tuning(s) = (compute_tuning){.variant = 7, .groups = 3};
  *sample_tuning(s) = (compute_tuning){.variant = 7,
                                       .tile_m = 64,
                                       .tile_n = 32,
                                       .tile_k = 16,
                                       .item_m = 16,
                                       .item_n = 32,
                                       .groups = 1};
}

/* Gradients with respect to the filter refuse these. */
static void add_filtering_cuts(sample_kernel *s) {
  *sample_tuning(s) = (compute_tuning){.variant = 9};
  *sample_tuning(s) = (compute_tuning){
      .variant = 9, .tile_m = 16, .tile_n = 32, .tile_k = 8, .item_m = 2, .item_n = 4};
}

static bool is_cut(const sample_convolution_shape *c) {
  return c == &cases[TWO_STRIDES] || c == &cases[CHANNELED] || c == &cases[DEPTHWISE];
}

static void visit_sample(const sample_convolution *c, bool cut, sample_visitor visit, void *user) {
  sample_kernel s;
  begin(&s, c);
  s.large = c->shape.n > 10000;
  add_ending(&s, c->layout, c->dtype, c->result, c->ending);
  if (cut) add_cuts(&s);
  if (c->dtype == COMPUTE_F16 || c->dtype == COMPUTE_BF16) add_matrix_cuts(&s);
  if (c->precision & COMPUTE_PRECISION_WINOGRAD) add_filtering_cuts(&s);
  sample_end(&s, visit, user);
}

void sample_convolution_visit(const sample_convolution *c, sample_visitor visit, void *user) {
  visit_sample(c, false, visit, user);
}

static void sample(const sample_convolution_shape *c, compute_convolution_direction direction,
                   sample_layout how, compute_dtype dtype, compute_dtype result, sample_ending end,
                   sample_visitor visit, void *user) {
  const sample_convolution made = {.shape = *c,
                                   .direction = direction,
                                   .layout = how,
                                   .dtype = dtype,
                                   .result = result,
                                   .ending = end};
  const bool plain = how == LAYOUT_NCHW && dtype == COMPUTE_F32 && end == ENDING_PLAIN;
  visit_sample(&made, plain && is_cut(c), visit, user);
}

/* Uses tiles whose last one is partial. */
static void sample_filtering(compute_convolution_direction direction, sample_visitor visit,
                             void *user) {
  static const sample_convolution_shape shapes[] = {
      {2, 19, 21, 1, {11, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {1, 3, 40, 1, {3, 9}, {3, 3}, {1, 1}, {1, 1}, {0, 2}, {0, 0}}};
  static const sample_layout layouts[] = {LAYOUT_NCHW, LAYOUT_NHWC, LAYOUT_FLIPPED};
  for (int end = ENDING_PLAIN; end < ENDING_COUNT; end++) {
    const sample_convolution made = {.shape = shapes[end % 2],
                                     .direction = direction,
                                     .layout = layouts[end % 3],
                                     .dtype = COMPUTE_F32,
                                     .result = COMPUTE_F32,
                                     .ending = (sample_ending)end,
                                     .precision = COMPUTE_PRECISION_WINOGRAD};
    visit_sample(&made, false, visit, user);
  }
}

/* Gradients of filters in their special forms, also in tiles whose last one is partial. */
static void sample_filters(sample_visitor visit, void *user) {
  static const sample_convolution_shape shapes[] = {
      {2, 19, 37, 1, {9, 21}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {3, 20, 48, 2, {5, 12}, {2, 3}, {1, 1}, {1, 1}, {0, 2}, {0, 0}},
      {1, 8, 16, 1, {40, 9}, {1, 5}, {1, 1}, {1, 1}, {0, 3}, {0, 1}},
      {3, 6, 6, 6, {9, 33}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
      {2, 4, 4, 4, {22, 40}, {5, 3}, {2, 1}, {1, 2}, {2, 1}, {0, 0}}};
  static const compute_tuning cuts[] = {
      {.variant = 11},
      {.variant = 11, .tile_m = 32, .tile_n = 8, .tile_k = 8, .item_m = 4, .items = 3, .groups = 3},
      {.variant = 11,
       .tile_m = 64,
       .tile_n = 16,
       .tile_k = 16,
       .item_m = 8,
       .items = 2,
       .groups = 2},
      {.variant = 12},
      {.variant = 12, .group_x = 32, .groups = 3}};
  static const sample_layout layouts[] = {LAYOUT_NCHW, LAYOUT_NHWC, LAYOUT_FLIPPED};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int end = ENDING_PLAIN; end < ENDING_COUNT; end++) {
      const sample_convolution made = {.shape = shapes[i],
                                       .direction = COMPUTE_CONVOLUTION_BY_FILTER,
                                       .layout = layouts[((int)i + end) % 3],
                                       .dtype = COMPUTE_F32,
                                       .result = COMPUTE_F32,
                                       .ending = (sample_ending)end};
      sample_kernel s;
      begin(&s, &made);
      add_ending(&s, made.layout, made.dtype, made.result, made.ending);
      for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) *sample_tuning(&s) = cuts[c];
      sample_end(&s, visit, user);
    }
  }
}

void sample_conv_kernels(sample_visitor visit, void *user) {
  static const compute_dtype dtypes[][2] = {
      {COMPUTE_F64, COMPUTE_F64}, {COMPUTE_F16, COMPUTE_F16},   {COMPUTE_F16, COMPUTE_F32},
      {COMPUTE_F32, COMPUTE_F16}, {COMPUTE_BF16, COMPUTE_BF16}, {COMPUTE_I64, COMPUTE_I64},
      {COMPUTE_I32, COMPUTE_I32}, {COMPUTE_U8, COMPUTE_I32}};
  static const int shapes[] = {ODD, POINTWISE, DEPTHWISE, GROUPED, STRIDED};
  static const compute_dtype f32 = COMPUTE_F32;
  static const sample_convolution_shape large[] = {
      {20011, 64, 96, 1, {112, 113}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}},
      {20011, 97, 97, 97, {112, 113}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}}};
  for (int i = 0; i < 3; i++) {
    const compute_convolution_direction direction = (compute_convolution_direction)i;
    for (size_t j = 0; j < sizeof cases / sizeof *cases; j++)
      sample(&cases[j], direction, LAYOUT_NCHW, f32, f32, ENDING_PLAIN, visit, user);
    for (size_t j = 0; j < sizeof large / sizeof *large; j++)
      sample(&large[j], direction, LAYOUT_NCHW, f32, f32, ENDING_PLAIN, visit, user);
    for (int how = LAYOUT_NHWC; how < LAYOUT_COUNT; how++)
      for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
        if (how > LAYOUT_NHWC && (size_t)(how + i) % 2 == j % 2)
          continue; /* half of them suffice */
        sample(&cases[shapes[j]], direction, (sample_layout)how, f32, f32, ENDING_PLAIN, visit,
               user);
      }
    for (size_t j = 0; j < sizeof dtypes / sizeof *dtypes; j++) {
      const sample_layout how = j % 2 ? LAYOUT_NHWC : LAYOUT_NCHW;
      sample(&cases[ODD], direction, how, dtypes[j][0], dtypes[j][1], ENDING_PLAIN, visit, user);
      if (i == 0 || j == 0)
        sample(&cases[DEPTHWISE], direction, how, dtypes[j][0], dtypes[j][1], ENDING_BIAS, visit,
               user);
    }
    for (int end = ENDING_BIAS; end < ENDING_COUNT; end++) {
      sample(&cases[ODD], direction, LAYOUT_NCHW, f32, f32, (sample_ending)end, visit, user);
      sample(&cases[end % 2 ? POINTWISE : GROUPED], direction, LAYOUT_NHWC, f32, f32,
             (sample_ending)end, visit, user);
    }
    sample(&cases[NOTHING_SUMMED], direction, LAYOUT_NCHW, f32, f32, ENDING_BIAS, visit, user);
    sample_filtering(direction, visit, user);
  }
  static const compute_dtype bytes[][2] = {{COMPUTE_U8, COMPUTE_I8}, {COMPUTE_I8, COMPUTE_I8}};
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
    const sample_convolution made = {.shape = cases[shapes[i / 2]],
                                     .layout = i % 4 < 2 ? LAYOUT_NHWC : LAYOUT_PIXELS,
                                     .dtype = bytes[i % 2][0],
                                     .second = bytes[i % 2][1],
                                     .result = COMPUTE_I32};
    sample_convolution_visit(&made, visit, user);
  }
  sample_filters(visit, user);
}
