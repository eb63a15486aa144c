/* Checks of pooling, running folds, top-k and attention. */
#include <inttypes.h>
#include <math.h>

#include "kernel/descriptor_check.h"
#include "type/dtype.h"

/* ---- WINDOW -------------------------------------------------------------------------------- */

/* With these bounds no position that a window names can overflow. */
static bool check_window_sizes(const compute_window_attributes *w, const explanation *why) {
  for (int i = 0; i < 2; i++) {
    int64_t steps, span, reach;
    if (w->data_size[i] < 0 || w->result_size[i] < 0 || w->size[i] < 1 || w->stride[i] < 1 ||
        w->dilation[i] < 1 || w->padding[i] < 0) {
      return descriptor_refuse(why,
                               "a size, stride, dilation or padding of the windows is too small");
    }
    if (__builtin_mul_overflow(w->result_size[i], w->stride[i], &steps) ||
        __builtin_mul_overflow(w->size[i], w->dilation[i], &span) ||
        __builtin_add_overflow(steps, span, &reach) ||
        __builtin_add_overflow(reach, w->padding[i], &reach) ||
        __builtin_add_overflow(w->data_size[i], w->padding[i], &reach)) {
      return descriptor_refuse(why, "the windows reach beyond 63 bits");
    }
  }
  int64_t elements;
  if (__builtin_mul_overflow(w->size[0], w->size[1], &elements))
    return descriptor_refuse(why, "a window's elements cannot be counted in 63 bits");
  return true;
}

bool descriptor_check_window(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_window_attributes *w = compute_window_of(d);
  if (d->rank != 4) return descriptor_refuse(why, "WINDOW needs four dimensions");
  if ((unsigned)w->operation > COMPUTE_WINDOW_AVERAGE)
    return descriptor_refuse(why, "unknown fold of a window");
  if (!check_window_sizes(w, why)) return false;
  const int64_t *plane = w->by_data ? w->data_size : w->result_size;
  for (int i = 0; i < 2; i++) {
    if (d->size[2 + i] == plane[i]) continue;
    return descriptor_refuse(why, "dimension %d of the space is %" PRId64 " instead of %" PRId64,
                             2 + i, d->size[2 + i], plane[i]);
  }
  const uint32_t inputs = w->by_data && w->operation == COMPUTE_WINDOW_MAX ? 2 : 1;
  if (d->input_count < inputs)
    return descriptor_refuse(why, "WINDOW needs %" PRIu32 " inputs of its own", inputs);
  if (d->prologue.count > 0) return descriptor_refuse(why, "WINDOW has no prologue");
  for (uint32_t i = 0; i < inputs; i++) {
    const compute_dtype dtype = d->inputs[i].dtype;
    if (dtype_is_float(dtype) && dtype_compute_type(dtype) == d->accumulate) continue;
    return descriptor_refuse(why, "cannot fold windows of %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  }
  return descriptor_check_epilogue(d, d->accumulate, inputs, d->rank, why) &&
         descriptor_check_outputs_distinct(d, d->rank, why);
}

/* ---- SCAN, TOP_K --------------------------------------------------------------------------- */

bool descriptor_check_scan(const compute_kernel_descriptor *d, const explanation *why) {
  if (!descriptor_check_counts(d, 1, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->rank < 1) return descriptor_refuse(why, "SCAN needs a dimension");
  if ((unsigned)compute_scan_of(d)->combine > COMPUTE_COMBINE_MIN)
    return descriptor_refuse(why, "SCAN has no such combination");
  const compute_dtype dtype = d->inputs[0].dtype;
  if (dtype == COMPUTE_BOOL || dtype_compute_type(dtype) != d->accumulate) {
    return descriptor_refuse(why, "cannot accumulate %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  }
  if (dtype_is_float(d->outputs[0].dtype) != dtype_is_float(dtype) ||
      d->outputs[0].dtype == COMPUTE_BOOL) {
    return descriptor_refuse(why, "sums of %s cannot be stored as %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->outputs[0].dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

bool descriptor_check_top_k(const compute_kernel_descriptor *d, const explanation *why) {
  if (!descriptor_check_counts(d, 1, 1, why) || !descriptor_check_no_programs(d, why)) return false;
  if (d->rank < 1) return descriptor_refuse(why, "TOP_K needs a dimension");
  if (!descriptor_check_axis(compute_top_k_of(d)->axis_size, why)) return false;
  if (compute_top_k_of(d)->axis_size < d->size[d->rank - 1]) {
    return descriptor_refuse(why, "%" PRId64 " results of a row of %" PRId64 " elements",
                             d->size[d->rank - 1], compute_top_k_of(d)->axis_size);
  }
  if (d->inputs[0].dtype == COMPUTE_BOOL) return descriptor_refuse(why, "cannot order bool");
  if (d->outputs[0].dtype != COMPUTE_I64) {
    return descriptor_refuse(why, "positions are %s; they must be i64",
                             compute_dtype_name(d->outputs[0].dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}

/* ---- ATTENTION ----------------------------------------------------------------------------- */

bool descriptor_check_attention(const compute_kernel_descriptor *d, const explanation *why) {
  const compute_attention_attributes *a = compute_attention_of(d);
  if (d->rank < 2) return descriptor_refuse(why, "ATTENTION needs two dimensions");
  if (!descriptor_check_counts(d, a->biased ? 4 : 3, 1, why) ||
      !descriptor_check_no_programs(d, why))
    return false;
  int64_t scores;
  if (a->keys < 0 || a->width < 0 ||
      __builtin_mul_overflow(a->keys, d->size[d->rank - 2], &scores)) {
    return descriptor_refuse(why, "%" PRId64 " keys of width %" PRId64 " cannot be counted",
                             a->keys, a->width);
  }
  if (!isfinite(a->scale)) return descriptor_refuse(why, "the scale is %g", a->scale);
  const compute_dtype dtype = d->inputs[0].dtype;
  if (!dtype_is_float(dtype) || dtype_compute_type(dtype) != d->accumulate) {
    return descriptor_refuse(why, "cannot accumulate %s in %s", compute_dtype_name(dtype),
                             compute_dtype_name(d->accumulate));
  }
  for (uint32_t i = 0; i <= d->input_count; i++) {
    const compute_operand *o = i < d->input_count ? &d->inputs[i] : &d->outputs[0];
    if (o->dtype == dtype) continue;
    return descriptor_refuse(why, "operands are %s and %s; they must have one dtype",
                             compute_dtype_name(dtype), compute_dtype_name(o->dtype));
  }
  return descriptor_check_outputs_distinct(d, d->rank, why);
}
