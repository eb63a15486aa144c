/* SPDX-License-Identifier: MIT */
/* Samples of WINDOW, SCAN, TOP_K, ATTENTION and RECURRENT. */
#include <stdio.h>
#include <string.h>

#include "core/kernel/kernel.h"
#include "core/type/dtype.h"
#include "support/samples/sample_convolutions.h"

enum { ALL = 255, CHANNELS = 2 };

static test_tolerance tolerance_of(compute_dtype dtype) {
  return dtype == COMPUTE_F64 ? (test_tolerance){8, 1e-12, 1e-12} : (test_tolerance){8, 2e-5, 1e-5};
}

/* The layout of an operand in memory. */
typedef enum lie {
  LIES_DENSE,
  LIES_TURNED,  /* the first dimension has the smallest stride */
  LIES_LAST,    /* the second dimension (channels or heads) has the smallest stride */
  LIES_FLIPPED, /* like dense, but the last dimension with a negative stride */
  LIES_GAPS     /* like dense, with unused elements between any two */
} lie;

static const char *const lie_names[] = {"dense", "turned", "second last", "flipped", "gaps"};

/* Sets the strides of operand `index`, whose dimensions are specific to its kind. */
static void lay_out(sample_kernel *s, uint32_t index, lie how) {
  const compute_kernel_descriptor *d = &s->descriptor;
  int64_t size[COMPUTE_MAX_RANK], step = how == LIES_GAPS ? 3 : 1;
  kernel_operand_sizes(d, index, size);
  int64_t *stride =
      (index < d->input_count ? &s->inputs[index] : &s->outputs[index - d->input_count])->stride;
  memset(stride, 0, COMPUTE_MAX_RANK * sizeof *stride);
  for (int32_t i = 0; i < d->rank; i++) {
    int32_t at = how == LIES_TURNED ? i : d->rank - 1 - i;
    if (how == LIES_LAST && d->rank > 2) at = i == 0 ? 1 : d->rank - i > 1 ? d->rank - i : 0;
    stride[at] = step;
    step *= (size[at] > 0 ? size[at] : 1) + (how == LIES_GAPS ? 1 : 0);
  }
  if (how == LIES_FLIPPED) stride[d->rank - 1] = -stride[d->rank - 1];
}

static void lay_out_all(sample_kernel *s, lie how) {
  for (uint32_t i = 0; i < s->descriptor.input_count + s->descriptor.output_count; i++)
    lay_out(s, i, how == LIES_FLIPPED && i >= s->descriptor.input_count ? LIES_DENSE : how);
}

/* ---- WINDOW -------------------------------------------------------------------------------- */

typedef struct window_shape {
  int64_t n, c, data[2], size[2], stride[2], dilation[2], padding[2];
  int64_t more; /* additional results in both directions */
  int64_t padding_more[2];
} window_shape;

static const window_shape windows[] = {
    {2, 3, {8, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, {0, 0}},
    {2, 3, {7, 10}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, 1, {0, 0}},
    {2, 2, {11, 13}, {3, 2}, {1, 2}, {2, 3}, {2, 1}, 0, {0, 0}},
    {2, 2, {4, 5}, {5, 7}, {3, 1}, {1, 1}, {5, 7}, 0, {0, 0}},
    {3, 5, {5, 6}, {5, 6}, {1, 1}, {1, 1}, {0, 0}, 0, {0, 0}},
    {2, 2, {6, 7}, {4, 3}, {1, 1}, {1, 1}, {0, 2}, 3, {0, 0}},
    {2, 67, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, {0, 0}},
    {2, 2, {2, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, 0, {0, 0}},
    {2, 2, {0, 5}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, 0, {0, 0}},
    {0, 2, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, 0, {0, 0}},
    {2, 3, {6, 9}, {3, 4}, {2, 1}, {1, 2}, {1, 6}, 0, {1, -5}},
    {2, 3, {5, 5}, {3, 3}, {1, 2}, {1, 1}, {0, 2}, 1, {2, -2}},
};
enum { WINDOWS = sizeof windows / sizeof *windows };

static int64_t result_size(const window_shape *w, int i) {
  const int64_t room =
      w->data[i] + 2 * w->padding[i] + w->padding_more[i] - w->dilation[i] * (w->size[i] - 1) - 1;
  return (room < 0 ? 0 : room / w->stride[i] + 1) + w->more;
}

typedef struct window_sample {
  const window_shape *shape;
  compute_window_operation operation;
  bool by_data, count_padding;
  compute_dtype dtype;
  lie how;
  bool ending; /* relu(fold + one number for each channel), and the fold plus its position */
} window_sample;

static void begin_window(sample_kernel *s, const window_sample *w) {
  static const char *const names[] = {"max", "average", "argmax"};
  const window_shape *shape = w->shape;
  const int64_t results[2] = {result_size(shape, 0), result_size(shape, 1)};
  const int64_t *plane = w->by_data ? shape->data : results;
  sample_begin(s, COMPUTE_KERNEL_WINDOW, COMPUTE_SHAPE(shape->n, shape->c, plane[0], plane[1]),
               "window %s%s%s %lldx%lldx%lldx%lld %lldx%lld /%lld %s %s%s", names[w->operation],
               w->by_data ? " by data" : "", w->count_padding ? " with padding" : "",
               (long long)shape->n, (long long)shape->c, (long long)shape->data[0],
               (long long)shape->data[1], (long long)shape->size[0], (long long)shape->size[1],
               (long long)shape->stride[0], compute_dtype_name(w->dtype), lie_names[w->how],
               w->ending ? " + bias" : "");
  compute_window_attributes *made = &s->attributes.window;
  made->operation = w->operation;
  made->by_data = w->by_data;
  made->count_padding = w->count_padding;
  for (int i = 0; i < 2; i++) {
    made->data_size[i] = shape->data[i];
    made->result_size[i] = results[i];
    made->size[i] = shape->size[i];
    made->stride[i] = shape->stride[i];
    made->dilation[i] = shape->dilation[i];
    made->padding[i] = shape->padding[i];
    made->padding_more[i] = shape->padding_more[i];
  }
  s->descriptor.accumulate = dtype_compute_type(w->dtype);
  s->tolerance = tolerance_of(w->dtype);
}

static void end_window(sample_kernel *s, compute_dtype dtype) {
  const compute_dtype type = dtype_compute_type(dtype);
  program_builder *e = &s->epilogue;
  const uint16_t fold = program_load(e, type, 0);
  const uint16_t added = program_apply(e, COMPUTE_I_ADD, type, fold, program_load(e, type, 1), 0);
  program_store(e, program_apply(e, COMPUTE_I_RELU, type, added, 0, 0));
  const uint16_t place = program_instruction(
      e, (compute_instruction){.code = COMPUTE_I_POSITION, .type = COMPUTE_I64});
  program_store(e, program_apply(e, COMPUTE_I_ADD, type, fold,
                                 program_apply(e, COMPUTE_I_CAST, type, place, 0, 0), 0));
  sample_input(s, dtype, CHANNELS);
  sample_output(s, type, ALL);
}

static void sample_window(const window_sample *w, sample_visitor visit, void *user) {
  sample_kernel s;
  const bool maxima = w->operation == COMPUTE_WINDOW_MAX && w->by_data;
  begin_window(&s, w);
  s.large = w->shape->n > 10000;
  s.whole = maxima;
  s.special = w->operation != COMPUTE_WINDOW_AVERAGE && !w->ending && w->how == LIES_DENSE;
  sample_input(&s, w->dtype, 0);
  if (maxima) sample_input(&s, w->dtype, 0);
  const compute_dtype result = w->operation == COMPUTE_WINDOW_ARGMAX ? COMPUTE_I64 : w->dtype;
  sample_output(&s, result, 0);
  lay_out_all(&s, w->how);
  if (w->ending) end_window(&s, result);
  if (maxima && w->dtype == COMPUTE_F32 && w->how == LIES_DENSE && !w->ending) {
    sample_tuning(&s)->variant = 1;
    *sample_tuning(&s) = (compute_tuning){.variant = 2, .group_x = 32};
  }
  if (w->dtype == COMPUTE_F32 && w->how == LIES_DENSE && !w->ending)
    for (uint32_t each = 1; each <= 4; each *= 2)
      *sample_tuning(&s) = (compute_tuning){.variant = 3, .item_n = each};
  sample_end(&s, visit, user);
}

void sample_window_kernels(sample_visitor visit, void *user) {
  static const compute_dtype dtypes[] = {COMPUTE_F64, COMPUTE_F16, COMPUTE_BF16,
                                         COMPUTE_I8,  COMPUTE_U32, COMPUTE_I32};
  static const window_shape large = {20011,  64,     {112, 113}, {3, 3}, {2, 1},
                                     {1, 1}, {1, 1}, 0,          {0, 0}};
  for (int way = 0; way < 7; way++) {
    const bool real = way > 0 && way < 6; /* only */
    window_sample w = {.operation = way < 2   ? COMPUTE_WINDOW_MAX
                                    : way < 6 ? COMPUTE_WINDOW_AVERAGE
                                              : COMPUTE_WINDOW_ARGMAX,
                       .by_data = way % 2 == 1,
                       .count_padding = way == 4 || way == 5,
                       .dtype = COMPUTE_F32};
    for (int i = 0; i < WINDOWS; i++) {
      w.shape = &windows[i];
      sample_window(&w, visit, user);
    }
    w.shape = &large;
    sample_window(&w, visit, user);
    for (int how = LIES_TURNED; how <= LIES_GAPS; how++) {
      w.shape = &windows[how % 3];
      w.how = (lie)how;
      sample_window(&w, visit, user);
    }
    for (size_t i = 0; i < (real ? 3 : sizeof dtypes / sizeof *dtypes); i++) {
      w.shape = &windows[i % 2];
      w.dtype = dtypes[i];
      w.how = i == 1 ? LIES_LAST : LIES_DENSE;
      w.ending = i == 0;
      sample_window(&w, visit, user);
    }
    w.dtype = COMPUTE_F32;
    w.ending = true;
    sample_window(&w, visit, user);
  }
}

/* ---- SCAN ---------------------------------------------------------------------------------- */

typedef struct scan_sample {
  int64_t rows, length;
  compute_combine combine;
  bool exclusive, reverse;
  compute_dtype dtype, result;
  lie how;
} scan_sample;

static void sample_scan(const scan_sample *c, sample_visitor visit, void *user) {
  static const char *const names[] = {"sum", "prod", "max", "min"};
  static const compute_tuning cuts[] = {
      {.variant = 1}, {.variant = 2}, {.variant = 2, .group_x = 32, .items = 2, .groups = 8}};
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_SCAN, COMPUTE_SHAPE(c->rows, c->length),
               "scan %s %lldx%lld %s>%s %s%s%s", names[c->combine], (long long)c->rows,
               (long long)c->length, compute_dtype_name(c->dtype), compute_dtype_name(c->result),
               lie_names[c->how], c->exclusive ? " exclusive" : "", c->reverse ? " reverse" : "");
  s.attributes.scan.combine = c->combine;
  s.attributes.scan.exclusive = c->exclusive;
  s.attributes.scan.reverse = c->reverse;
  s.descriptor.accumulate = dtype_compute_type(c->dtype);
  s.large = c->rows * c->length > 1000000;
  s.tolerance = tolerance_of(c->dtype);
  if (c->combine == COMPUTE_COMBINE_SUM) s.tolerance.atol *= (double)c->length / 100 + 1;
  if (c->combine == COMPUTE_COMBINE_PROD && dtype_is_float(c->dtype)) {
    s.low = 0.9;
    s.high = 1.1;
    s.tolerance.rtol *= 100;
  }
  s.special = c->combine >= COMPUTE_COMBINE_MAX && c->reverse;
  sample_input(&s, c->dtype, ALL);
  sample_output(&s, c->result, ALL);
  lay_out_all(&s, c->how);
  const bool cut = c->combine == COMPUTE_COMBINE_SUM && c->dtype == COMPUTE_F32 && !c->how;
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts && cut; i++) *sample_tuning(&s) = cuts[i];
  sample_end(&s, visit, user);
}

void sample_scan_kernels(sample_visitor visit, void *user) {
  static const int64_t shapes[][2] = {{1, 1}, {3, 37}, {2, 1000}, {1, 20000}, {700, 9}, {0, 4}};
  static const compute_dtype dtypes[][2] = {{COMPUTE_F64, COMPUTE_F64},  {COMPUTE_F16, COMPUTE_F16},
                                            {COMPUTE_BF16, COMPUTE_F32}, {COMPUTE_I32, COMPUTE_I32},
                                            {COMPUTE_I64, COMPUTE_I64},  {COMPUTE_U8, COMPUTE_I64},
                                            {COMPUTE_U16, COMPUTE_U16}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int way = 0; way < 4; way++) {
      const scan_sample c = {shapes[i][0], shapes[i][1], COMPUTE_COMBINE_SUM, way % 2 == 1,
                             way > 1,      COMPUTE_F32,  COMPUTE_F32,         LIES_DENSE};
      sample_scan(&c, visit, user);
    }
  for (int combine = COMPUTE_COMBINE_PROD; combine <= COMPUTE_COMBINE_MIN; combine++)
    for (int way = 0; way < 2; way++) {
      const scan_sample c = {3,           500,       (compute_combine)combine,
                             way == 1,    way == 1,  COMPUTE_F32,
                             COMPUTE_F32, LIES_DENSE};
      sample_scan(&c, visit, user);
    }
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    const scan_sample c = {2,
                           300,
                           (compute_combine)(i % 4),
                           i % 2 == 0,
                           i % 3 == 0,
                           dtypes[i][0],
                           dtypes[i][1],
                           LIES_DENSE};
    sample_scan(&c, visit, user);
  }
  for (int how = LIES_TURNED; how <= LIES_GAPS; how++) {
    const scan_sample c = {130,      90,          COMPUTE_COMBINE_SUM, false,
                           how == 3, COMPUTE_F32, COMPUTE_F32,         (lie)how};
    if (how != LIES_LAST) sample_scan(&c, visit, user);
  }
  const scan_sample large = {3,     INT64_C(1) << 31, COMPUTE_COMBINE_SUM, false,
                             false, COMPUTE_F32,      COMPUTE_F32,         LIES_DENSE};
  sample_scan(&large, visit, user);
}

/* ---- TOP_K --------------------------------------------------------------------------------- */

typedef struct top_sample {
  int64_t rows, length, k;
  compute_dtype dtype;
  bool smallest, whole;
  lie how;
} top_sample;

static void sample_top(const top_sample *c, sample_visitor visit, void *user) {
  static const compute_tuning cuts[] = {{.variant = 1},
                                        {.variant = 2, .group_x = 16, .groups = 64},
                                        {.variant = 3, .group_x = 32},
                                        {.variant = 4, .group_x = 64, .groups = 1}};
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_TOP_K, COMPUTE_SHAPE(c->rows, c->k),
               "top_k %lldx%lld k%lld %s %s%s%s", (long long)c->rows, (long long)c->length,
               (long long)c->k, compute_dtype_name(c->dtype), lie_names[c->how],
               c->smallest ? " smallest" : "", c->whole ? " equal" : "");
  s.attributes.top_k.axis_size = c->length;
  s.attributes.top_k.smallest = c->smallest;
  s.large = c->rows * c->length > 1000000;
  s.whole = c->whole;
  s.special = c->whole;
  sample_input(&s, c->dtype, ALL);
  sample_output(&s, COMPUTE_I64, ALL);
  lay_out_all(&s, c->how);
  const bool cut = c->rows * c->length < 4000 && c->k > 3 && c->how == LIES_DENSE &&
                   (c->dtype == COMPUTE_F32 || c->dtype == COMPUTE_F64);
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts && cut; i++) *sample_tuning(&s) = cuts[i];
  sample_end(&s, visit, user);
}

void sample_top_k_kernels(sample_visitor visit, void *user) {
  static const top_sample cases[] = {
      {1, 1, 1, COMPUTE_F32, false, false, LIES_DENSE},
      {3, 40, 5, COMPUTE_F32, false, true, LIES_DENSE},
      {2, 1000, 16, COMPUTE_F32, true, true, LIES_DENSE},
      {2, 1000, 16, COMPUTE_F32, false, false, LIES_FLIPPED},
      {1, 9000, 7, COMPUTE_F32, false, false, LIES_DENSE},
      {1, 9001, 3, COMPUTE_F32, true, true, LIES_DENSE},
      {2, 3000, 100, COMPUTE_F32, false, false, LIES_DENSE},
      {2, 1500, 100, COMPUTE_F32, true, true, LIES_DENSE},
      {1, 6000, 5900, COMPUTE_F32, false, true, LIES_DENSE},
      {5, 300, 300, COMPUTE_F32, false, false, LIES_DENSE},
      {1100, 11, 3, COMPUTE_F32, false, true, LIES_DENSE},
      {60, 50, 4, COMPUTE_F32, false, false, LIES_TURNED},
      {2, 60, 4, COMPUTE_F32, false, false, LIES_GAPS},
      {2, 60, 0, COMPUTE_F32, false, false, LIES_DENSE},
      {0, 60, 4, COMPUTE_F32, false, false, LIES_DENSE},
      {2, 0, 0, COMPUTE_F32, false, false, LIES_DENSE},
      {2, 300, 20, COMPUTE_F64, false, true, LIES_DENSE},
      {2, 300, 20, COMPUTE_F16, true, true, LIES_DENSE},
      {2, 300, 9, COMPUTE_BF16, false, true, LIES_DENSE},
      {2, 300, 20, COMPUTE_I32, false, false, LIES_DENSE},
      {2, 300, 9, COMPUTE_I64, true, false, LIES_DENSE},
      {2, 300, 20, COMPUTE_U8, true, false, LIES_DENSE},
      {2, 300, 9, COMPUTE_U16, false, false, LIES_DENSE},
      {20000, 200000, 8, COMPUTE_F32, false, false, LIES_DENSE},
      {20000, 200000, 500, COMPUTE_F32, false, false, LIES_DENSE},
      {3, 2000000000, 20000, COMPUTE_F32, false, false, LIES_DENSE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sample_top(&cases[i], visit, user);
}

/* ---- ATTENTION ----------------------------------------------------------------------------- */

typedef struct attention_sample {
  int64_t batch, heads, queries, keys, width, columns;
  compute_dtype dtype;
  bool causal, biased, masked, shared; /* shared: K and V across heads, the bias across batches */
  lie how;
} attention_sample;

/* The weights of a query without visible keys. With FORMULA and ZEROED, every input counts. */
typedef enum attention_rule { MASKED, FORMULA, ZEROED } attention_rule;

static void sample_attention(const attention_sample *c, attention_rule rule, sample_visitor visit,
                             void *user) {
  static const char *const rules[] = {"", " formula", " zeroed formula"};
  static const compute_tuning cuts[] = {{.variant = 1, .item_n = 3},
                                        {.variant = 2, .tile_m = 16, .tile_n = 32, .tile_k = 16},
                                        {.variant = 2, .tile_m = 64, .tile_n = 64, .tile_k = 32},
                                        {.variant = 3, .tile_m = 128, .tile_n = 32, .tile_k = 16},
                                        {.variant = 3, .group_x = 128, .tile_m = 128},
                                        {.variant = 2, .group_x = 256, .tile_m = 16, .tile_k = 8},
                                        {.variant = 2, .group_x = 512, .tile_m = 128, .tile_k = 64},
                                        {.variant = 4, .tile_m = 128},
                                        {.variant = 4, .group_x = 256, .tile_m = 64, .tile_k = 32}};
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_ATTENTION,
               COMPUTE_SHAPE(c->batch, c->heads, c->queries, c->columns),
               "attention %lldx%lldx%lldx%lld k%lld w%lld %s %s%s%s%s%s%s", (long long)c->batch,
               (long long)c->heads, (long long)c->queries, (long long)c->columns,
               (long long)c->keys, (long long)c->width, compute_dtype_name(c->dtype),
               lie_names[c->how], c->causal ? " causal" : "", c->biased ? " biased" : "",
               c->masked ? " masked" : "", c->shared ? " shared" : "", rules[rule]);
  s.attributes.attention = (compute_attention_attributes){.keys = c->keys,
                                                          .width = c->width,
                                                          .scale = 0.25,
                                                          .causal = c->causal,
                                                          .biased = c->biased,
                                                          .formula = rule != MASKED,
                                                          .zero_weights = rule == ZEROED};
  s.descriptor.accumulate = dtype_compute_type(c->dtype);
  s.low = -2;
  s.high = 2;
  s.large = c->queries * c->keys > 1000000;
  s.special = c->masked;
  s.tolerance = tolerance_of(c->dtype);
  for (int i = 0; i < (c->biased ? 4 : 3); i++) sample_input(&s, c->dtype, 0);
  sample_output(&s, c->dtype, 0);
  lay_out_all(&s, c->how);
  if (c->shared) s.inputs[1].stride[1] = s.inputs[2].stride[1] = 0;
  if (c->shared && c->biased) s.inputs[3].stride[0] = 0;
  const bool cut = c->how == LIES_DENSE && c->columns > 5;
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts && cut; i++) *sample_tuning(&s) = cuts[i];
  sample_end(&s, visit, user);
}

void sample_attention_kernels(sample_visitor visit, void *user) {
  static const attention_sample cases[] = {
      {2, 3, 17, 19, 8, 8, COMPUTE_F32, false, false, false, false, LIES_DENSE},
      {1, 2, 70, 70, 64, 64, COMPUTE_F32, true, false, false, false, LIES_DENSE},
      {1, 2, 5, 40, 16, 24, COMPUTE_F32, true, true, false, true, LIES_DENSE},
      {1, 1, 40, 5, 16, 24, COMPUTE_F32, true, false, false, false, LIES_DENSE},
      {1, 1, 33, 35, 20, 130, COMPUTE_F32, false, true, true, false, LIES_DENSE},
      {2, 2, 9, 37, 7, 5, COMPUTE_F32, true, true, true, true, LIES_LAST},
      {2, 2, 9, 37, 7, 5, COMPUTE_F32, false, false, false, true, LIES_TURNED},
      {2, 2, 9, 37, 7, 5, COMPUTE_F32, false, true, false, false, LIES_FLIPPED},
      {1, 2, 9, 37, 7, 5, COMPUTE_F32, false, true, false, false, LIES_GAPS},
      {1, 2, 9, 0, 7, 5, COMPUTE_F32, false, false, false, false, LIES_DENSE},
      {1, 2, 9, 11, 0, 5, COMPUTE_F32, false, false, false, false, LIES_DENSE},
      {1, 2, 0, 11, 3, 5, COMPUTE_F32, false, false, false, false, LIES_DENSE},
      {1, 2, 9, 11, 3, 0, COMPUTE_F32, false, false, false, false, LIES_DENSE},
      {1, 1, 1, 300, 40, 40, COMPUTE_F32, false, false, false, false, LIES_DENSE},
      {1, 2, 20, 21, 18, 33, COMPUTE_F64, true, false, false, false, LIES_DENSE},
      {1, 2, 20, 21, 18, 33, COMPUTE_F16, false, true, false, false, LIES_DENSE},
      {1, 2, 20, 21, 18, 33, COMPUTE_BF16, true, false, false, false, LIES_LAST},
      {1, 2, 70, 70, 64, 64, COMPUTE_F16, true, false, false, false, LIES_DENSE},
      {1, 2, 140, 200, 64, 64, COMPUTE_BF16, true, false, false, false, LIES_DENSE},
      {2, 2, 70, 150, 48, 40, COMPUTE_F16, false, false, false, true, LIES_LAST},
      {1, 1, 70, 300, 20, 12, COMPUTE_BF16, false, false, true, false, LIES_DENSE},
      {1, 1, 9, 80, 40, 72, COMPUTE_BF16, false, true, true, false, LIES_DENSE},
      {1, 3, 200, 330, 72, 96, COMPUTE_F16, false, false, false, false, LIES_DENSE},
      {1, 1, 40, 5, 32, 24, COMPUTE_BF16, true, false, false, false, LIES_DENSE},
      {1, 2, 9, 0, 16, 8, COMPUTE_F16, false, false, false, false, LIES_DENSE},
      {1, 1, 9, 11, 0, 5, COMPUTE_BF16, false, false, false, false, LIES_DENSE},
      {20011, 16, 1024, 1024, 64, 64, COMPUTE_F32, true, false, false, false, LIES_DENSE},
  };
  static const attention_sample formulas[] = {
      {1, 2, 17, 19, 8, 8, COMPUTE_F32, false, true, true, false, LIES_DENSE},
      {1, 1, 3, 300, 20, 40, COMPUTE_F32, false, true, true, false, LIES_DENSE},
      {1, 1, 40, 5, 16, 24, COMPUTE_F32, true, false, false, false, LIES_DENSE},
      {1, 1, 70, 300, 64, 64, COMPUTE_F32, false, true, true, false, LIES_LAST},
      {1, 1, 20, 21, 18, 33, COMPUTE_F64, false, true, true, false, LIES_DENSE},
      {1, 2, 70, 70, 64, 64, COMPUTE_F16, false, true, true, false, LIES_DENSE},
      {1, 1, 70, 300, 20, 12, COMPUTE_BF16, false, false, true, false, LIES_DENSE},
      {1, 1, 140, 200, 64, 64, COMPUTE_BF16, false, true, true, false, LIES_DENSE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    sample_attention(&cases[i], MASKED, visit, user);
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
    sample_attention(&formulas[i], FORMULA, visit, user);
    sample_attention(&formulas[i], ZEROED, visit, user);
  }
}

/* ---- RECURRENT ----------------------------------------------------------------------------- */

typedef struct recurrent_sample {
  int64_t steps, batch, hidden;
  compute_dtype dtype;
  compute_recurrent_attributes a;
  lie how;
} recurrent_sample;

static void sample_recurrent(const recurrent_sample *c, sample_visitor visit, void *user) {
  static const char *const cells[] = {"rnn", "gru", "lstm"};
  const compute_recurrent_attributes *a = &c->a;
  const int inputs =
      (a->cell == COMPUTE_RECURRENT_LSTM ? 4 : 3) + a->lengths + a->bias + a->peepholes;
  const int lengths = a->cell == COMPUTE_RECURRENT_LSTM ? 4 : 3;
  sample_kernel s;
  sample_begin(&s, COMPUTE_KERNEL_RECURRENT,
               COMPUTE_SHAPE(c->steps + compute_recurrent_states(a->cell), c->batch, c->hidden),
               "recurrent %s %lldx%lldx%lld %s %s%s%s%s%s%s%s", cells[a->cell], (long long)c->steps,
               (long long)c->batch, (long long)c->hidden, compute_dtype_name(c->dtype),
               lie_names[c->how], a->reverse ? " reverse" : "", a->reset_after ? " after" : "",
               a->lengths ? " lengths" : "", a->bias ? " bias" : "",
               a->peepholes ? " peepholes" : "", a->clip > 0 ? " clip" : "");
  s.attributes.recurrent = *a;
  s.descriptor.accumulate = dtype_compute_type(c->dtype);
  s.low = -1;
  s.high = 1;
  s.large = c->steps * c->batch * c->hidden > 1000000;
  s.tolerance = tolerance_of(c->dtype);
  for (int i = 0; i < inputs; i++)
    sample_input(&s, a->lengths && i == lengths ? COMPUTE_I32 : c->dtype, 0);
  sample_output(&s, c->dtype, 0);
  lay_out_all(&s, c->how);
  sample_end(&s, visit, user);
}

#define RNN  COMPUTE_RECURRENT_RNN
#define GRU  COMPUTE_RECURRENT_GRU
#define LSTM COMPUTE_RECURRENT_LSTM

void sample_recurrent_kernels(sample_visitor visit, void *user) {
  static const recurrent_sample cases[] = {
      {5, 3, 7, COMPUTE_F32, {.cell = LSTM}, LIES_DENSE},
      {5,
       4,
       17,
       COMPUTE_F32,
       {.cell = LSTM, .lengths = true, .peepholes = true, .clip = 0.5},
       LIES_TURNED},
      {4, 2, 70, COMPUTE_F32, {.cell = LSTM, .reverse = true}, LIES_DENSE},
      {5, 3, 1, COMPUTE_F32, {.cell = LSTM, .peepholes = true}, LIES_GAPS},
      {0, 3, 4, COMPUTE_F32, {.cell = LSTM}, LIES_DENSE},
      {3, 0, 4, COMPUTE_F32, {.cell = LSTM}, LIES_DENSE},
      {3, 2, 0, COMPUTE_F32, {.cell = LSTM}, LIES_DENSE},
      {3, 2, 6, COMPUTE_F64, {.cell = LSTM, .reverse = true, .lengths = true}, LIES_DENSE},
      {3, 2, 6, COMPUTE_F16, {.cell = LSTM, .peepholes = true}, LIES_LAST},
      {3, 2, 6, COMPUTE_BF16, {.cell = LSTM, .clip = 1}, LIES_DENSE},
      {5, 3, 7, COMPUTE_F32, {.cell = GRU}, LIES_DENSE},
      {5,
       4,
       33,
       COMPUTE_F32,
       {.cell = GRU, .lengths = true, .reverse = true, .clip = 0.5},
       LIES_FLIPPED},
      {5,
       3,
       18,
       COMPUTE_F32,
       {.cell = GRU, .reset_after = true, .bias = true, .lengths = true},
       LIES_DENSE},
      {4, 3, 40, COMPUTE_F32, {.cell = GRU, .reset_after = true}, LIES_TURNED},
      {3, 2, 6, COMPUTE_F64, {.cell = GRU, .reset_after = true, .bias = true}, LIES_GAPS},
      {3, 2, 6, COMPUTE_F16, {.cell = GRU, .lengths = true}, LIES_DENSE},
      {5, 3, 7, COMPUTE_F32, {.cell = RNN}, LIES_DENSE},
      {5,
       4,
       70,
       COMPUTE_F32,
       {.cell = RNN, .lengths = true, .reverse = true, .clip = 0.5},
       LIES_LAST},
      {3, 2, 6, COMPUTE_F64, {.cell = RNN}, LIES_DENSE},
      {3000, 900, 500, COMPUTE_F32, {.cell = LSTM, .lengths = true}, LIES_DENSE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    sample_recurrent(&cases[i], visit, user);
}
