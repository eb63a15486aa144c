/* SPDX-License-Identifier: MIT */
/* Places along the axis, for GATHER and SCATTER. */
#include "codegen/generate/kinds/indexed.h"

#include "core/type/dtype.h"

/* True if the axis and the operand's extent stay within 32 bits, in elements. */
static bool is_narrow(const compute_kernel_descriptor *d, const compute_operand *walked) {
  double extent = (double)compute_index_of(d)->axis_size * (double)compute_index_of(d)->axis_stride;
  if (extent < 0) extent = -extent;
  for (int32_t i = 0; i < d->rank; i++) {
    const double step = (double)d->size[i] * (double)walked->stride[i];
    extent += step < 0 ? -step : step;
  }
  return extent <= INT32_MAX && compute_index_of(d)->axis_size <= INT32_MAX / 2;
}

compute_status indexed_check(generation *g, const compute_operand *walked) {
  const compute_kernel_descriptor *d = g->descriptor;
  const compute_dtype index = d->inputs[1].dtype, dtype = walked->dtype;
  if (index != COMPUTE_I32 && index != COMPUTE_I64)
    return emit_refuse(g, "indices are i32 or i64, not %s", compute_dtype_name(index));
  if (dtype == COMPUTE_F64 && !emit_has(g, COMPUTE_TARGET_F64))
    return emit_refuse(g, "the device has no f64");
  if (d->kind == COMPUTE_KERNEL_SCATTER && dtype == COMPUTE_BOOL &&
      compute_index_of(d)->mode != COMPUTE_SCATTER_SET)
    return emit_refuse(g, "cannot add bool");
  if (!is_narrow(d, walked)) g->wide = true;
  return COMPUTE_OK;
}

void indexed_fields(generation *g, emit_launch *launch) {
  const compute_kernel_descriptor *d = g->descriptor;
  emit_field_i64(g, launch, "axis_size", compute_index_of(d)->axis_size);
  emit_field_i64(g, launch, "wrap",
                 compute_index_of(d)->from_zero ? 0 : compute_index_of(d)->axis_size);
  emit_field_index(g, launch, "axis_stride", compute_index_of(d)->axis_stride);
}

/* The first faulting item fills in the whole record, so that its words belong together. */
void indexed_fault(generation *g, text_buffer *text, const char *buffer, const char *at) {
  if (emit_has(g, COMPUTE_TARGET_FAULT_RECORDS))
    text_add(text,
             "  if (ATOMIC_CAS(fault, 0, 1) == 0) {\n"
             "    const i64 given = %s[%s], offset = (i64)(%s);\n"
             "    fault[2] = (i32)(u32)(u64)given;\n"
             "    fault[3] = (i32)(u32)((u64)given >> 32);\n"
             "    fault[4] = (i32)(u32)(u64)offset;\n"
             "    fault[5] = (i32)(u32)((u64)offset >> 32);\n"
             "  }\n",
             buffer, at, at);
  else
    text_add(text, "  *fault = 1;\n");
}

/* By a shift: Mesa 22.3 finds no i32 below 0 once it is an i64, and reads a member of the shape in a
 * branch for one item of a group only. */
void indexed_open(generation *g, text_buffer *text, const char *at) {
  text_add(text,
           "{\n"
           "i64 place = in1[%s];\n"
           "place += shape.wrap & (place >> 63);\n"
           "if ((u64)place >= (u64)shape.axis_size) {\n",
           at);
  indexed_fault(g, text, "in1", at);
  text_add(text, "} else {\n");
}

void indexed_close(text_buffer *text) {
  text_add(text, "}\n}\n");
}
