/* SPDX-License-Identifier: MIT */
/* CONV: convolution in two dimensions, and its gradients. */
#include <inttypes.h>

#include "core/kernel/common/kind.h"
#include "core/type/shape.h"

/* The space's sizes must equal the sizes that follow from the convolution. */
static bool check_convolution_space(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const int64_t pool = c->pool > 0 ? c->pool : 1;
  int64_t want[4] = {c->batch, c->result_channels, c->result_size[0] / pool,
                     c->result_size[1] / pool};
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

/* Positions may be in the padding, so strides are multiplied by more than the sizes: `reach`, for
 * height and width. */
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

/* `true` if every value of the program is constant within a plane or increases with input 0. Sums,
 * limits and relu of such values also qualify. */
static bool rises(const compute_program *program) {
  for (uint32_t i = 0; i < program->count; i++) {
    const compute_instruction *at = &program->instructions[i];
    if (at->type != COMPUTE_F32) return false;
    switch (at->code) {
    case COMPUTE_I_LOAD:
    case COMPUTE_I_CONSTANT:
    case COMPUTE_I_ADD:
    case COMPUTE_I_MAX:
    case COMPUTE_I_MIN:
    case COMPUTE_I_RELU: break;
    default: return false;
    }
  }
  return true;
}

static bool check_pool(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_conv_attributes *c = compute_conv_of(d);
  if (c->pool == 0) return true;
  if (c->direction != COMPUTE_CONVOLUTION_FORWARD || c->pool < 2 || d->accumulate != COMPUTE_F32 ||
      d->output_count != 1 || !rises(&d->epilogue))
    return descriptor_refuse(why, "a convolution of this kind is not pooled");
  for (int i = 0; i < 2; i++)
    if (c->result_size[i] % c->pool != 0)
      return descriptor_refuse(why, "%d results in a block do not divide %" PRId64, (int)c->pool,
                               c->result_size[i]);
  for (uint32_t k = 2; k < d->input_count; k++)
    if (d->inputs[k].stride[2] != 0 || d->inputs[k].stride[3] != 0)
      return descriptor_refuse(why, "an input of the epilogue differs within a plane");
  return true;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_conv_attributes *c = compute_conv_of(d);
  int64_t reach[2]; /* reach of the last result: if it fits, no position in x can overflow */
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
  return check_pool(d, why) && check_convolution_space(d, why) &&
         descriptor_check_product(d, "CONV", c->precision,
                                  COMPUTE_PRECISION_TF32 | COMPUTE_PRECISION_WINOGRAD |
                                      COMPUTE_PRECISION_SATURATE,
                                  why) &&
         check_convolution_strides(d, reach, why);
}

static uint32_t own(const compute_kernel_descriptor *d) {
  (void)d;
  return 2;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const bool filter = input == 1 && c->direction != COMPUTE_CONVOLUTION_BY_FILTER;
  const bool data = input == 0 && c->direction != COMPUTE_CONVOLUTION_BY_DATA;
  const int64_t *plane = filter ? c->filter_size : data ? c->data_size : c->result_size;
  size[0] = filter ? c->result_channels : c->batch;
  size[1] = filter ? c->data_channels / c->groups : data ? c->data_channels : c->result_channels;
  size[2] = plane[0];
  size[3] = plane[1];
}

/* Gradients are not split. */
static bool splits(const compute_kernel_descriptor *d) {
  return compute_conv_of(d)->direction == COMPUTE_CONVOLUTION_FORWARD;
}

static uint32_t unsplit(const compute_kernel_descriptor *d) {
  (void)d;
  return 1 << 1; /* the filter */
}

static void resize(const compute_kernel_descriptor *d, void *attributes) {
  ((compute_conv_attributes *)attributes)->batch = d->size[0];
}

/* Limits within which the CPU computes the same bits for any number of rows. */
enum {
  MOST_POINT_CHANNELS = 1024, /* fewer than two parts of SPLIT_TILED (gemm_schedule.c) */
  LEAST_CHANNELS = 16,        /* for depthwise: at least the f32 lanes of a vector … */
  MOST_FILTER_ROWS = 16       /* … and at most CPU_DEPTHWISE_MOST_ROWS (depthwise_table.h) */
};

static kernel_window window_of(const compute_conv_attributes *c) {
  return (kernel_window){.step = c->stride[0],
                         .before = c->padding[0],
                         .reach = (c->filter_size[0] - 1) * c->dilation[0] + 1,
                         .rows = c->data_size[0]};
}

static bool has_channels_last(const compute_kernel_descriptor *d) {
  return d->inputs[0].stride[1] == 1 && d->outputs[0].stride[1] == 1;
}

/* `true` if the rows of every operand but the filter are contiguous, so that positions form one
 * dimension of a matrix. */
static bool is_flat(const compute_kernel_descriptor *d) {
  for (uint32_t k = 0; k < d->input_count + d->output_count; k++) {
    const compute_operand *o = k < d->input_count ? &d->inputs[k] : &d->outputs[k - d->input_count];
    if (k != 1 && o->stride[2] != d->size[3] * o->stride[3]) return false;
  }
  return true;
}

/* `true` if the convolution is a matrix product. */
static bool is_point(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  for (int i = 0; i < 2; i++)
    if (c->filter_size[i] != 1 || c->stride[i] != 1 || c->padding[i] != 0 ||
        c->data_size[i] != c->result_size[i])
      return false;
  return c->groups == 1 && c->data_channels <= MOST_POINT_CHANNELS && is_flat(d);
}

static bool is_byte(compute_dtype dtype) {
  return dtype == COMPUTE_I8 || dtype == COMPUTE_U8;
}

static bool is_depthwise(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  const compute_dtype x = d->inputs[0].dtype, filter = d->inputs[1].dtype;
  const bool known = d->accumulate == COMPUTE_I32
                         ? is_byte(x) && is_byte(filter)
                         : d->accumulate == COMPUTE_F32 && x == COMPUTE_F32 && filter == x;
  return known && c->groups == c->data_channels && c->groups == c->result_channels &&
         c->groups >= LEAST_CHANNELS && c->filter_size[0] <= MOST_FILTER_ROWS;
}

/* Other convolutions are computed in ways that depend on the number of rows. */
static bool splits_rows(const compute_kernel_descriptor *d, kernel_window *reads) {
  const compute_conv_attributes *c = compute_conv_of(d);
  *reads = window_of(c);
  return c->direction == COMPUTE_CONVOLUTION_FORWARD && c->pool == 0 && has_channels_last(d) &&
         (is_point(d) || is_depthwise(d));
}

static void crop(compute_kernel_descriptor *d, kernel_rows rows, void *attributes) {
  compute_conv_attributes *c = attributes;
  const kernel_window window = window_of(c);
  const kernel_rows reads = kernel_rows_read(&window, rows);
  c->padding[0] = reads.first - (rows.first * window.step - window.before);
  c->data_size[0] = reads.end - reads.first;
  c->result_size[0] = d->size[2] = rows.end - rows.first;
}

/* In every direction, a convolution has as many multiplications as the forward one. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  return 2 * (uint64_t)c->batch * (uint64_t)c->result_channels *
             (uint64_t)(c->result_size[0] * c->result_size[1]) *
             (uint64_t)(c->data_channels / c->groups) *
             (uint64_t)(c->filter_size[0] * c->filter_size[1]) +
         kernel_epilogue_flops(d);
}

/* A channel by itself is no product: its rows count. */
static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const compute_conv_attributes *c = compute_conv_of(d);
  if (c->groups == c->data_channels && c->groups > 1)
    work->rows = (double)(c->batch * c->result_channels) * (double)c->result_size[0];
  work->product = WORK_CONVOLUTION;
  work->flops =
      (double)(cost->flops - kernel_epilogue_flops(d)) * (d->accumulate == COMPUTE_F64 ? 2 : 1);
  work_add_program(&d->epilogue, (double)kernel_elements(d, 0, d->rank), work);
}

bool kernel_may_be_filtered(const compute_kernel_descriptor *d) {
  const compute_conv_attributes *c = compute_conv_of(d);
  for (int i = 0; i < 2; i++)
    if (c->filter_size[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1 ||
        d->inputs[i].dtype != COMPUTE_F32)
      return false;
  return (c->precision & COMPUTE_PRECISION_WINOGRAD) != 0;
}

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  static const char *const direction[] = {"forward", "data", "filter"};
  const compute_conv_attributes *c = compute_conv_of(d);
  const bool point = c->filter_size[0] == 1 && c->filter_size[1] == 1;
  const bool strided = c->stride[0] > 1 || c->stride[1] > 1;
  class_add_sum_types(t, d, 2);
  class_add(t, "%s%s%s%s%s%s/b%dc%do%dp%d", direction[c->direction], point ? ".point" : "",
            strided ? ".strided" : "", c->groups > 1 ? ".groups" : "", c->pool > 0 ? ".pooled" : "",
            kernel_may_be_filtered(d) ? ".winograd" : "", class_bucket(c->batch),
            class_bucket(c->data_channels / c->groups),
            class_bucket(c->result_channels / c->groups),
            class_bucket(c->result_size[0] * c->result_size[1]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  static const char *const names[] = {"convolution", "by data", "by filter"};
  return names[compute_conv_of(d)->direction];
}

static void print_details(const compute_kernel_descriptor *d, text_buffer *text) {
  const compute_conv_attributes *c = compute_conv_of(d);
  text_add(text, " %lldx%lld", (long long)c->filter_size[0], (long long)c->filter_size[1]);
  text_add_pair(text, "stride", c->stride, 1);
  text_add_pair(text, "dilation", c->dilation, 1);
  text_add_pair(text, "padding", c->padding, 0);
  if (c->groups > 1) text_add(text, ", %d groups", (int)c->groups);
  if (c->pool > 0) text_add(text, ", maximum %dx%d", (int)c->pool, (int)c->pool);
}

const kernel_kind kernel_kind_conv = {
    .name = "conv",
    .title = "convolution",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_conv_attributes),
    .has_accumulate = true,
    .own = own,
    .sizes = sizes,
    .in_place = true,
    .splits = splits,
    .unsplit = unsplit,
    .resize = resize,
    .splits_rows = splits_rows,
    .crop = crop,
    .packable = 2,
    .work = work,
    .print_class = print_class,
    .operation = operation,
    .print_details = print_details,
};
