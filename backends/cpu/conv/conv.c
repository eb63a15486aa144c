/* Makes the kernel of a convolution: reads the descriptor, prepares the epilogue and picks the way.
 */
#include "conv.h"

#include <stdio.h>

static compute_status run_nothing(const cpu_kernel *kernel, void *const *pointers) {
  (void)kernel;
  (void)pointers;
  return COMPUTE_OK;
}

static void destroy(cpu_kernel *kernel) {
  cpu_conv *conv = (cpu_conv *)kernel;
  if (conv->matrix) conv->matrix->destroy(conv->matrix);
  cpu_program_release(kernel->device, conv->epilogue);
  for (int d = 0; d < 2; d++) cpu_release(kernel->device, conv->axes[d]);
  cpu_release(kernel->device, conv->direct);
  cpu_release(kernel->device, conv);
}

static const cpu_gemm_type *type_of(const cpu_gemm_table *table, compute_dtype accumulate) {
  switch (accumulate) {
  case COMPUTE_F64: return table->f64;
  case COMPUTE_F32: return table->f32;
  case COMPUTE_I64: return table->i64;
  case COMPUTE_I32: return table->i32;
  default: return NULL;
  }
}

static bool is_supported(const compute_kernel_descriptor *descriptor) {
  switch (descriptor->accumulate) {
  case COMPUTE_F64:
  case COMPUTE_F32: return true;
  case COMPUTE_I64:
  case COMPUTE_I32:
    return descriptor->inputs[0].dtype >= COMPUTE_I64 && descriptor->inputs[1].dtype >= COMPUTE_I64;
  default: return false;
  }
}

static conv_operand read_operand(const compute_operand *from) {
  conv_operand to = {.dtype = from->dtype, .size = cpu_dtype_size(from->dtype)};
  for (int d = 0; d < 4; d++) to.stride[d] = from->stride[d];
  return to;
}

static void read_descriptor(const compute_kernel_descriptor *descriptor, cpu_conv *conv) {
  conv->shape = descriptor->convolution;
  conv->accumulate = descriptor->accumulate;
  conv->element = cpu_dtype_size(descriptor->accumulate);
  conv->type = type_of(conv->head.device->isa->gemm, descriptor->accumulate);
  conv->winograd_allowed = descriptor->precision & COMPUTE_PRECISION_WINOGRAD;
  conv->extra_count = descriptor->input_count - 2;
  conv->output_count = descriptor->output_count;
  for (int d = 0; d < 4; d++) conv->size[d] = descriptor->size[d];
  for (uint32_t i = 0; i < 2; i++) conv->input[i] = read_operand(&descriptor->inputs[i]);
  for (uint32_t i = 0; i < conv->extra_count; i++)
    conv->extra[i] = read_operand(&descriptor->inputs[2 + i]);
  for (uint32_t i = 0; i < conv->output_count; i++)
    conv->output[i] = read_operand(&descriptor->outputs[i]);
  for (uint32_t i = 0; i < descriptor->epilogue.count; i++)
    conv->coordinates |= descriptor->epilogue.instructions[i].code == COMPUTE_I_COORDINATE;
}

static compute_status prepare_epilogue(cpu_conv *conv,
                                       const compute_kernel_descriptor *descriptor) {
  compute_dtype inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  inputs[0] = descriptor->accumulate;
  for (uint32_t i = 0; i < conv->extra_count; i++) inputs[i + 1] = conv->extra[i].dtype;
  for (uint32_t i = 0; i < conv->output_count; i++) outputs[i] = conv->output[i].dtype;
  const compute_status status =
      cpu_program_prepare(conv->head.device, &descriptor->epilogue, conv->extra_count + 1, inputs,
                          conv->output_count, outputs, &conv->epilogue);
  if (status == COMPUTE_OK) conv->identity = cpu_program_is_identity(conv->epilogue);
  return status;
}

static bool stores_nothing(const cpu_conv *conv) {
  for (int d = 0; d < 4; d++)
    if (conv->size[d] == 0) return true;
  return false;
}

static compute_status choose(cpu_conv *conv, const compute_kernel_descriptor *descriptor) {
  if (stores_nothing(conv)) {
    conv->head.run = run_nothing;
    snprintf(conv->head.description, sizeof conv->head.description, "convolution of no elements");
    return COMPUTE_OK;
  }
  bool done = false;
  compute_status status = conv_matrix_prepare(conv, descriptor, &done);
  if (status != COMPUTE_OK || done) return status;
  if (conv_winograd_make(conv)) {
    conv_winograd_accept(conv);
    return COMPUTE_OK;
  }
  for (int d = 0; d < 2; d++)
    if (!conv_axes_make(conv, d)) return cpu_out_of_memory(conv->head.device, sizeof(conv_axis));
  status = conv_direct_prepare(conv, &done);
  if (status != COMPUTE_OK || done) return status;
  if (conv->shape.direction == COMPUTE_CONVOLUTION_BY_FILTER)
    conv_filter_accept(conv);
  else
    conv_sweep_accept(conv);
  return COMPUTE_OK;
}

compute_status cpu_conv_prepare(cpu_device *device, const compute_kernel_descriptor *descriptor,
                                cpu_kernel **kernel) {
  if (!is_supported(descriptor))
    return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                  "cpu: convolution cannot sum these dtypes as asked");
  cpu_conv *conv = cpu_allocate(device, sizeof *conv);
  if (!conv) return cpu_out_of_memory(device, sizeof *conv);
  conv->head.device = device;
  conv->head.destroy = destroy;
  read_descriptor(descriptor, conv);
  compute_status status = prepare_epilogue(conv, descriptor);
  if (status == COMPUTE_OK) status = choose(conv, descriptor);
  if (status != COMPUTE_OK) {
    destroy(&conv->head);
    return status;
  }
  *kernel = &conv->head;
  return COMPUTE_OK;
}
