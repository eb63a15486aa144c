/* SPDX-License-Identifier: MIT */
/* Makes the kernel of a convolution: reads the descriptor, prepares the epilogue and picks the
 * implementation. */
#include <stdio.h>

#include "conv.h"
#include "gemm/gemm.h"

static void clear(cpu_kernel *kernel) {
  cpu_conv *conv = (cpu_conv *)kernel;
  cpu_kernel_destroy(conv->matrix);
  cpu_program_release(kernel->device, conv->epilogue);
  for (int d = 0; d < 2; d++) cpu_release(kernel->device, conv->axes[d]);
  cpu_release(kernel->device, conv->direct);
}

static const char *refuse_descriptor(const compute_kernel_descriptor *descriptor) {
  const char *reason = cpu_gemm_kind.refuse(descriptor); /* the same products and sums */
  return reason ? reason : conv_rows_refuse_pool(descriptor);
}

static conv_operand read_operand(const compute_operand *from) {
  conv_operand to = {.dtype = from->dtype, .size = cpu_dtype_size(from->dtype)};
  for (int d = 0; d < 4; d++) to.stride[d] = from->stride[d];
  return to;
}

static void read_descriptor(const compute_kernel_descriptor *descriptor, cpu_conv *conv) {
  conv->shape = *compute_conv_of(descriptor);
  conv->accumulate = descriptor->accumulate;
  conv->element = cpu_dtype_size(descriptor->accumulate);
  conv->type = cpu_gemm_type_of(conv->head.device->isa->gemm, descriptor->accumulate);
  conv->winograd_allowed = compute_conv_of(descriptor)->precision & COMPUTE_PRECISION_WINOGRAD;
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

static compute_status matrix_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                    const char **reason);

static const cpu_implementation implementations[] = {{"a matrix product", matrix_accept},
                                                     {"Winograd", conv_winograd_accept},
                                                     {"channels", conv_depthwise_accept},
                                                     {"planes", conv_planes_accept},
                                                     {"small planes", conv_narrow_accept},
                                                     {"taps", conv_taps_accept},
                                                     {"rows", conv_rows_accept},
                                                     {"copied planes", conv_direct_accept},
                                                     {"sums over results", conv_filter_accept},
                                                     {"windows", conv_sweep_accept},
                                                     {NULL, NULL}};

static const cpu_implementation pooled[] = {{"rows", conv_rows_accept}, {NULL, NULL}};

static compute_status choose(cpu_conv *conv, const compute_kernel_descriptor *descriptor) {
  if (stores_nothing(conv)) {
    conv->head.run = cpu_run_nothing;
    snprintf(conv->head.description, sizeof conv->head.description, "convolution of no elements");
    return COMPUTE_OK;
  }
  return cpu_implementation_choose(conv->shape.pool > 0 ? pooled : implementations, &conv->head,
                                   descriptor);
}

static compute_status prepare(cpu_kernel *head, const compute_kernel_descriptor *descriptor) {
  cpu_conv *conv = (cpu_conv *)head;
  read_descriptor(descriptor, conv);
  const compute_status status = prepare_epilogue(conv, descriptor);
  return status ? status : choose(conv, descriptor);
}

static uint64_t packed_bytes(const cpu_kernel *kernel, uint32_t input, uint64_t *form) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  if (conv->packed && input == 1)
    return conv->depthwise.run ? conv_depthwise_packed_bytes(conv, form)
                               : conv_rows_packed_bytes(conv, form);
  if (!conv->matrix || input > 1) return 0;
  return conv->matrix->kind->packed_bytes(conv->matrix, conv->swapped ? 1 - input : input, form);
}

static compute_status pack(const cpu_kernel *kernel, uint32_t input, const void *source,
                           void *packed) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  if (conv->packed && !conv->depthwise.run) return conv_rows_pack(conv, source, packed);
  if (conv->packed) {
    conv_depthwise_pack(conv, source, packed);
    return COMPUTE_OK;
  }
  return conv->matrix->kind->pack(conv->matrix, conv->swapped ? 1 - input : input, source, packed);
}

const cpu_kind cpu_conv_kind = {.name = "conv",
                                .refuse = refuse_descriptor,
                                .bytes = sizeof(cpu_conv),
                                .prepare = prepare,
                                .packed_bytes = packed_bytes,
                                .pack = pack,
                                .clear = clear};

/* ---- Filters of one element ------------------------------------------------------------------ */

/* Convolutions that are matrix products without any copy. The filter has one element, and every
 * result reads the data at its own position. The positions are evenly spaced, so that they form one
 * dimension of a matrix.
 *
 * The product's results have the same elements in the same order as the convolution's, so programs
 * that read positions are correct. Programs that read coordinates are left to the other
 * implementations. */

typedef struct product {
  compute_operand inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  compute_kernel_descriptor descriptor;
  compute_gemm_attributes attributes;
} product;

/* `true` if dimensions `from` … 3 of an operand with these sizes merge into one with an even
 * stride. */
static bool flatten(const int64_t stride[4], const int64_t size[4], int from, int64_t *flat) {
  *flat = 0;
  int64_t count = 1;
  for (int d = 3; d >= from; d--) {
    if (d == 1 || size[d] == 1) continue; /* channels are not positions */
    if (count == 1)
      *flat = stride[d];
    else if (stride[d] != count * *flat)
      return false;
    count *= size[d];
  }
  return true;
}

static bool is_plain(const compute_conv_attributes *c) {
  for (int d = 0; d < 2; d++)
    if (c->filter_size[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0 ||
        c->data_size[d] != c->result_size[d])
      return false;
  return true;
}

static bool reads_position(const compute_program *program) {
  for (uint32_t i = 0; i < program->count; i++)
    if (program->instructions[i].code == COMPUTE_I_POSITION) return true;
  return false;
}

/* An operand over (image, group, channel, position); `places_first` swaps the last two. */
static bool add_operand(const cpu_conv *conv, const conv_operand *from, bool places_first,
                        compute_operand *to) {
  const int64_t per_group = conv->size[1] / conv->shape.groups;
  int64_t flat;
  if (!flatten(from->stride, conv->size, 2, &flat)) return false;
  *to = (compute_operand){
      .dtype = from->dtype,
      .stride = {from->stride[0], per_group * from->stride[1], from->stride[1], flat}};
  if (places_first) {
    to->stride[2] = flat;
    to->stride[3] = from->stride[1];
  }
  return true;
}

static bool describe_sweep(cpu_conv *conv, const compute_kernel_descriptor *descriptor,
                           product *p) {
  const compute_conv_attributes *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  const conv_operand *source = &conv->input[0], *filter = &conv->input[1];
  const int64_t sources = (forward ? c->data_channels : c->result_channels) / c->groups;
  const int64_t size[4] = {c->batch, 0, conv->size[2], conv->size[3]};
  int64_t places;
  if (!flatten(source->stride, size, 2, &places)) return false;
  /* With contiguous channels, the positions of all images can be rows of one matrix. */
  const bool places_first =
      conv->output[0].stride[1] == 1 && !reads_position(&descriptor->epilogue);
  const int64_t group = c->result_channels / c->groups * filter->stride[0];
  const int64_t to_result = filter->stride[forward ? 0 : 1];
  const int64_t to_source = filter->stride[forward ? 1 : 0];
  const int f = places_first ? 1 : 0, x = 1 - f;
  p->inputs[f] = (compute_operand){.dtype = filter->dtype, .stride = {0, group}};
  p->inputs[f].stride[2 + f] = to_result;
  p->inputs[f].stride[3 - f] = to_source;
  p->inputs[x] = (compute_operand){.dtype = source->dtype,
                                   .stride = {source->stride[0], sources * source->stride[1]}};
  p->inputs[x].stride[2 + x] = places;
  p->inputs[x].stride[3 - x] = source->stride[1];
  for (uint32_t i = 0; i < conv->extra_count; i++)
    if (!add_operand(conv, &conv->extra[i], places_first, &p->inputs[2 + i])) return false;
  for (uint32_t i = 0; i < conv->output_count; i++)
    if (!add_operand(conv, &conv->output[i], places_first, &p->outputs[i])) return false;
  p->descriptor.rank = 4;
  p->descriptor.size[0] = c->batch;
  p->descriptor.size[1] = c->groups;
  p->descriptor.size[2 + f] = conv->size[1] / c->groups;
  p->descriptor.size[3 - f] = conv->size[2] * conv->size[3];
  p->attributes.k = sources;
  conv->swapped = !places_first;
  return true;
}

/* The gradient of the filter: sums over the positions of all images. */
static bool describe_filter(cpu_conv *conv, product *p) {
  const compute_conv_attributes *c = &conv->shape;
  const conv_operand *x = &conv->input[0], *y = &conv->input[1];
  const int64_t size[4] = {c->batch, 0, c->data_size[0], c->data_size[1]};
  const int64_t per_group = c->data_channels / c->groups;
  const int64_t results_per_group = c->result_channels / c->groups;
  int64_t x_place, y_place;
  if (!flatten(x->stride, size, 0, &x_place) || !flatten(y->stride, size, 0, &y_place))
    return false;
  p->inputs[0] = (compute_operand){
      .dtype = y->dtype, .stride = {results_per_group * y->stride[1], y->stride[1], y_place}};
  p->inputs[1] = (compute_operand){.dtype = x->dtype,
                                   .stride = {per_group * x->stride[1], x_place, x->stride[1]}};
  for (uint32_t i = 0; i < conv->extra_count; i++) {
    const conv_operand *e = &conv->extra[i];
    p->inputs[2 + i] =
        (compute_operand){.dtype = e->dtype,
                          .stride = {results_per_group * e->stride[0], e->stride[0], e->stride[1]}};
  }
  for (uint32_t i = 0; i < conv->output_count; i++) {
    const conv_operand *o = &conv->output[i];
    p->outputs[i] =
        (compute_operand){.dtype = o->dtype,
                          .stride = {results_per_group * o->stride[0], o->stride[0], o->stride[1]}};
  }
  p->descriptor.rank = 3;
  p->descriptor.size[0] = c->groups;
  p->descriptor.size[1] = results_per_group;
  p->descriptor.size[2] = per_group;
  p->attributes.k = c->batch * c->data_size[0] * c->data_size[1];
  conv->swapped = true;
  return true;
}

static compute_status run(const cpu_kernel *kernel, void *const *pointers) {
  const cpu_conv *conv = (const cpu_conv *)kernel;
  void *exchanged[COMPUTE_MAX_OPERANDS];
  if (!conv->swapped) return conv->matrix->run(conv->matrix, pointers);
  for (uint32_t i = 0; i < 2 + conv->extra_count + conv->output_count; i++)
    exchanged[i] = pointers[i < 2 ? 1 - i : i];
  return conv->matrix->run(conv->matrix, exchanged);
}

static compute_status matrix_accept(cpu_kernel *kernel, const compute_kernel_descriptor *descriptor,
                                    const char **reason) {
  cpu_conv *conv = (cpu_conv *)kernel;
  *reason = "the filter has more than one element, or the epilogue asks for coordinates";
  if (!is_plain(&conv->shape) || conv->coordinates) return COMPUTE_OK;
  product p = {.descriptor = {.struct_size = sizeof p.descriptor,
                              .kind = COMPUTE_KERNEL_GEMM,
                              .input_count = descriptor->input_count,
                              .output_count = descriptor->output_count,
                              .inputs = p.inputs,
                              .outputs = p.outputs,
                              .epilogue = descriptor->epilogue,
                              .accumulate = descriptor->accumulate,
                              .attributes = &p.attributes,
                              .attribute_bytes = sizeof p.attributes},
               .attributes.precision = conv->shape.precision & COMPUTE_PRECISION_TF32};
  /* Plans cut FORWARD into row tiles: the order of sums must not depend on the number of rows. */
  const bool forward = conv->shape.direction == COMPUTE_CONVOLUTION_FORWARD;
  const bool can = conv->shape.direction == COMPUTE_CONVOLUTION_BY_FILTER
                       ? describe_filter(conv, &p)
                       : describe_sweep(conv, descriptor, &p);
  for (uint32_t i = 0; i < 2; i++)
    if (descriptor->constant_inputs >> i & 1)
      p.descriptor.constant_inputs |= UINT32_C(1) << (conv->swapped ? 1 - i : i);
  *reason = "strides that a matrix product cannot express";
  if (!can) return COMPUTE_OK;
  if (!conv->swapped) p.attributes.precision |= conv->shape.precision & COMPUTE_PRECISION_SATURATE;
  const compute_status status = cpu_kind_prepare(forward ? &cpu_even_gemm_kind : &cpu_gemm_kind,
                                                 conv->head.device, &p.descriptor, &conv->matrix);
  if (status != COMPUTE_OK) return status;
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description, "convolution as %.78s",
           conv->matrix->description);
  return COMPUTE_OK;
}
