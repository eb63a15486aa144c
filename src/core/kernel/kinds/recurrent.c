/* SPDX-License-Identifier: MIT */
/* RECURRENT: the steps of an LSTM, GRU or RNN.
 *
 * Its class: recurrent "/" types "/" cell "/t" bucket "b" bucket "h" bucket, for steps, sequences
 * and hidden units. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/kernel/common/kind.h"
#include "core/type/dtype.h"

enum { GATES = 0, WEIGHTS = 1, FIRST_H = 2, FIRST_C = 3, LENGTHS, BIAS, PEEPHOLES, SCALE, ZERO };

/* The most units whose products of bytes fit in 32 bits. */
enum { MOST_QUANTIZED = 33025 };

/* The role of input `input`. The last roles are optional. */
static int role(const compute_recurrent_attributes *a, uint32_t input) {
  if (input < FIRST_C || (input == FIRST_C && a->cell == COMPUTE_RECURRENT_LSTM)) return (int)input;
  input -= a->cell == COMPUTE_RECURRENT_LSTM ? FIRST_C + 1 : FIRST_C;
  if (a->lengths && input-- == 0) return LENGTHS;
  if (a->bias && input-- == 0) return BIAS;
  if (a->peepholes && input-- == 0) return PEEPHOLES;
  return input == 0 ? SCALE : ZERO;
}

static uint32_t count_inputs(const compute_recurrent_attributes *a) {
  return (a->cell == COMPUTE_RECURRENT_LSTM ? 4u : 3u) + a->lengths + a->bias + a->peepholes +
         (a->quantized ? 2 : 0);
}

static int64_t count_steps(const compute_kernel_descriptor *d) {
  return d->size[0] - compute_recurrent_states(compute_recurrent_of(d)->cell);
}

static bool check_attributes(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_recurrent_attributes *a = compute_recurrent_of(d);
  int64_t columns, weights;
  if ((unsigned)a->cell > COMPUTE_RECURRENT_LSTM)
    return descriptor_refuse(why, "unknown recurrent cell");
  if (a->reset_after && a->cell != COMPUTE_RECURRENT_GRU)
    return descriptor_refuse(why, "only GRU has reset_after");
  if (a->bias && !a->reset_after) return descriptor_refuse(why, "only reset_after has a bias");
  if (a->peepholes && a->cell != COMPUTE_RECURRENT_LSTM)
    return descriptor_refuse(why, "only LSTM has peepholes");
  if (a->quantized && (a->cell != COMPUTE_RECURRENT_LSTM || d->accumulate != COMPUTE_F32))
    return descriptor_refuse(why, "only LSTM in f32 is quantized");
  if (a->quantized && d->size[2] > MOST_QUANTIZED)
    return descriptor_refuse(why, "sums of products of %" PRId64 " bytes may overflow", d->size[2]);
  if (!(a->clip >= 0) || isinf(a->clip)) return descriptor_refuse(why, "clip is %g", a->clip);
  if (d->rank != 3) return descriptor_refuse(why, "RECURRENT needs three dimensions");
  if (count_steps(d) < 0)
    return descriptor_refuse(why, "%" PRId64 " rows have no room for the states", d->size[0]);
  if (__builtin_mul_overflow(d->size[2], compute_recurrent_gates(a->cell), &columns) ||
      __builtin_mul_overflow(d->size[2], columns, &weights))
    return descriptor_refuse(why, "the weights of %" PRId64 " units cannot be counted", d->size[2]);
  return true;
}

/* The dtype of input `input` in a layer of `dtype`. */
static compute_dtype dtype_of(const compute_recurrent_attributes *a, uint32_t input,
                              compute_dtype dtype) {
  const int which = role(a, input);
  if (which == LENGTHS) return COMPUTE_I32;
  return which == ZERO || (which == WEIGHTS && a->quantized) ? COMPUTE_I8 : dtype;
}

static bool check(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_recurrent_attributes *a = compute_recurrent_of(d);
  if (!check_attributes(d, why) || !descriptor_check_counts(d, count_inputs(a), 1, why) ||
      !descriptor_check_no_programs(d, why))
    return false;
  const compute_dtype dtype = d->inputs[0].dtype;
  if (!dtype_is_float(dtype) || dtype_compute_type(dtype) != d->accumulate)
    return descriptor_refuse(why, "cannot compute %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  for (uint32_t i = 0; i <= d->input_count; i++) {
    const compute_operand *o = i < d->input_count ? &d->inputs[i] : &d->outputs[0];
    const compute_dtype wanted = i < d->input_count ? dtype_of(a, i, dtype) : dtype;
    if (o->dtype == wanted) continue;
    return descriptor_refuse(why, "operand %" PRIu32 " is %s; it must be %s", i,
                             compute_dtype_name(o->dtype), compute_dtype_name(wanted));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

static void normalize(const compute_kernel_descriptor *d, void *attributes) {
  const compute_recurrent_attributes *a = compute_recurrent_of(d);
  compute_recurrent_attributes *n = attributes;
  n->cell = a->cell;
  n->reverse = a->reverse;
  n->reset_after = a->reset_after;
  n->lengths = a->lengths;
  n->bias = a->bias;
  n->peepholes = a->peepholes;
  n->clip = a->clip;
  n->quantized = a->quantized;
}

static void sizes(const compute_kernel_descriptor *d, uint32_t input, int64_t *size) {
  const compute_recurrent_attributes *a = compute_recurrent_of(d);
  const int64_t batch = d->size[1], hidden = d->size[2];
  const int64_t columns = hidden * compute_recurrent_gates(a->cell);
  const int which = role(a, input);
  size[0] = which == GATES ? count_steps(d) : 1;
  size[1] = which == WEIGHTS ? hidden : which >= LENGTHS ? 1 : batch;
  size[2] = which <= WEIGHTS || which >= SCALE ? columns
            : which == LENGTHS                 ? batch
            : which == PEEPHOLES               ? 3 * hidden
                                               : hidden;
}

/* A product with all weights, and some thirty operations for each gate's functions. */
static uint64_t flops(const compute_kernel_descriptor *d) {
  const uint64_t columns =
      (uint64_t)compute_recurrent_gates(compute_recurrent_of(d)->cell) * (uint64_t)d->size[2];
  const uint64_t sums = (uint64_t)count_steps(d) * (uint64_t)d->size[1] * columns;
  return sums * (2 * (uint64_t)d->size[2] + 30);
}

static void work(const compute_kernel_descriptor *d, const kernel_cost *cost, kernel_work *work) {
  const int64_t columns = compute_recurrent_gates(compute_recurrent_of(d)->cell) * d->size[2];
  work->product = work_product(d->inputs[0].dtype);
  work->flops = (double)cost->flops * work_narrowness(d->size[1], columns, d->size[2]);
  work->functions += (double)columns * (double)d->size[1] * (double)count_steps(d);
}

static const char *const cells[] = {"rnn", "gru", "lstm"};

static void print_class(const compute_kernel_descriptor *d, class_text *t) {
  class_add_sum_types(t, d, 1);
  class_add(t, "%s/t%db%dh%d", cells[compute_recurrent_of(d)->cell], class_bucket(count_steps(d)),
            class_bucket(d->size[1]), class_bucket(d->size[2]));
}

static const char *operation(const compute_kernel_descriptor *d) {
  return cells[compute_recurrent_of(d)->cell];
}

const kernel_kind kernel_kind_recurrent = {
    .name = "recurrent",
    .title = "recurrent",
    .check = check,
    .flops = flops,
    .attribute_bytes = sizeof(compute_recurrent_attributes),
    .normalize = normalize,
    .has_accumulate = true,
    .sizes = sizes,
    .work = work,
    .print_class = print_class,
    .operation = operation,
};
