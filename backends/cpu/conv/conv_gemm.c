/* Convolutions that are matrix products as they stand: the filter has one element, every result
 * meets the element of the data at its own place, and the places follow each other evenly, so that
 * they are one dimension of a matrix.
 *
 * The product's space has the same elements in the same order as the convolution's, so programs
 * that ask for positions are right; those that ask for coordinates are left to the other ways. */
#include <stdio.h>

#include "conv.h"

typedef struct product {
  compute_operand inputs[COMPUTE_MAX_OPERANDS], outputs[COMPUTE_MAX_OPERANDS];
  compute_kernel_descriptor descriptor;
} product;

/* Whether dimensions `from` … 3 of an operand with these sizes are one with an even stride. */
static bool flatten(const int64_t stride[4], const int64_t size[4], int from, int64_t *flat) {
  *flat = 0;
  int64_t count = 1;
  for (int d = 3; d >= from; d--) {
    if (d == 1 || size[d] == 1) continue; /* channels are no places */
    if (count == 1)
      *flat = stride[d];
    else if (stride[d] != count * *flat)
      return false;
    count *= size[d];
  }
  return true;
}

static bool is_plain(const compute_convolution *c) {
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

/* An operand of the space, over (image, group, channel, place), the last two perhaps exchanged. */
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
  const compute_convolution *c = &conv->shape;
  const bool forward = c->direction == COMPUTE_CONVOLUTION_FORWARD;
  const conv_operand *source = &conv->input[0], *filter = &conv->input[1];
  const int64_t sources = (forward ? c->data_channels : c->result_channels) / c->groups;
  const int64_t size[4] = {c->batch, 0, conv->size[2], conv->size[3]};
  int64_t places;
  if (!flatten(source->stride, size, 2, &places)) return false;
  /* With channels side by side, the images' places can all be rows of one matrix. */
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
  p->descriptor.k = sources;
  conv->swapped = !places_first;
  return true;
}

/* The gradient of the filter: places of all images are summed over. */
static bool describe_filter(cpu_conv *conv, product *p) {
  const compute_convolution *c = &conv->shape;
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
  p->descriptor.k = c->batch * c->data_size[0] * c->data_size[1];
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

compute_status conv_matrix_prepare(cpu_conv *conv, const compute_kernel_descriptor *descriptor,
                                   bool *done) {
  *done = false;
  if (!is_plain(&conv->shape) || conv->coordinates) return COMPUTE_OK;
  product p = {.descriptor = {.struct_size = sizeof p.descriptor,
                              .kind = COMPUTE_KERNEL_GEMM,
                              .input_count = descriptor->input_count,
                              .output_count = descriptor->output_count,
                              .inputs = p.inputs,
                              .outputs = p.outputs,
                              .epilogue = descriptor->epilogue,
                              .accumulate = descriptor->accumulate,
                              .precision = descriptor->precision & COMPUTE_PRECISION_TF32}};
  const bool can = conv->shape.direction == COMPUTE_CONVOLUTION_BY_FILTER
                       ? describe_filter(conv, &p)
                       : describe_sweep(conv, descriptor, &p);
  if (!can) return COMPUTE_OK;
  const compute_status status = cpu_gemm_prepare(conv->head.device, &p.descriptor, &conv->matrix);
  if (status != COMPUTE_OK) return status;
  conv->head.run = run;
  snprintf(conv->head.description, sizeof conv->head.description, "convolution as %.78s",
           conv->matrix->description);
  *done = true;
  return COMPUTE_OK;
}
