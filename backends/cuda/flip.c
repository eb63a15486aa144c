/* SPDX-License-Identifier: MIT */
/* Flips filters. With stride 1, the gradient of a convolution by its data is itself a convolution:
 * of y's gradient with the filter flipped along both axes and with input and output channels
 * exchanged; and vice versa. A library's engines for the two directions differ in speed. So it may
 * pay to flip the small filter into scratch memory before the product. */
#include <stdio.h>
#include <string.h>

#include "cuda.h"

enum { ALIGNMENT = 256, FILTER = 1 /* index among a convolution's inputs */ };

#define LARGEST_FILTER ((uint64_t)64 << 20)

struct cuda_flip {
  builder_kernel copy; /* operands: the filter's last tap, the flipped filter */
  uint64_t last_tap;   /* byte offset from the first tap */
  uint64_t place;      /* offset in the workspace */
};

/* The convolution with a flipped filter, and the kernel that flips it. */
typedef struct flipped {
  compute_kernel_descriptor convolution, copy;
  compute_conv_attributes attributes;
  compute_operand inputs[COMPUTE_MAX_OPERANDS], last_tap, filter;
  uint64_t last_tap_bytes, filter_bytes;
} flipped;

/* The same convolution in the other direction; false if there is none. */
static bool find_other_direction(const compute_conv_attributes *c, compute_conv_attributes *other) {
  if (c->direction == COMPUTE_CONVOLUTION_BY_FILTER || c->groups != 1 ||
      c->filter_size[0] * c->filter_size[1] < 2)
    return false;
  *other = *c;
  other->direction = c->direction == COMPUTE_CONVOLUTION_FORWARD ? COMPUTE_CONVOLUTION_BY_DATA
                                                                 : COMPUTE_CONVOLUTION_FORWARD;
  other->data_channels = c->result_channels;
  other->result_channels = c->data_channels;
  for (int i = 0; i < 2; i++) {
    other->data_size[i] = c->result_size[i];
    other->result_size[i] = c->data_size[i];
    other->padding[i] = (c->filter_size[i] - 1) * c->dilation[i] - c->padding[i];
    if (c->stride[i] != 1 || other->padding[i] < 0) return false;
  }
  return true;
}

static bool flip(const compute_kernel_descriptor *d, flipped *f) {
  const compute_conv_attributes *c = compute_conv_of(d);
  if (d->kind != COMPUTE_KERNEL_CONV || d->input_count < 2 ||
      d->input_count > COMPUTE_MAX_OPERANDS || !find_other_direction(c, &f->attributes))
    return false;
  const compute_operand *filter = &d->inputs[FILTER];
  const uint64_t element = cuda_element_bytes(filter->dtype);
  const int64_t size[4] = {c->data_channels, c->result_channels, c->filter_size[0],
                           c->filter_size[1]};
  f->last_tap = f->filter = (compute_operand){.dtype = filter->dtype};
  f->last_tap_bytes = 0;
  int64_t elements = 1;
  for (int i = 3; i >= 0; i--) {
    const int64_t step = filter->stride[i < 2 ? 1 - i : i];
    if (step < 0) return false;
    f->last_tap.stride[i] = i < 2 ? step : -step;
    f->filter.stride[i] = elements;
    elements *= size[i];
    if (i >= 2) f->last_tap_bytes += (uint64_t)((size[i] - 1) * step) * element;
  }
  f->filter_bytes = (uint64_t)elements * element;
  if (elements == 0 || f->filter_bytes > LARGEST_FILTER) return false;
  memcpy(f->inputs, d->inputs, d->input_count * sizeof *f->inputs);
  f->inputs[FILTER] = f->filter;
  f->convolution = *d;
  f->convolution.inputs = f->inputs;
  f->convolution.attributes = &f->attributes;
  f->copy = (compute_kernel_descriptor){
      .struct_size = sizeof f->copy,
      .kind = COMPUTE_KERNEL_COPY,
      .rank = 4,
      .input_count = 1,
      .output_count = 1,
      .inputs = &f->last_tap,
      .outputs = &f->filter,
  };
  memcpy(f->copy.size, size, sizeof size);
  return true;
}

bool cuda_flip_serves(const compute_kernel_descriptor *descriptor) {
  flipped f;
  return flip(descriptor, &f) && cuda_vendor_serves(&f.convolution);
}

bool cuda_flip_may_pay(const compute_kernel_descriptor *descriptor) {
  return cuda_flip_serves(descriptor) &&
         compute_conv_of(descriptor)->direction == COMPUTE_CONVOLUTION_BY_DATA;
}

compute_status cuda_flip_prepare(cuda_device *device, const compute_kernel_descriptor *descriptor,
                                 cuda_kernel *kernel) {
  const compute_services *services = device->services;
  flipped f;
  if (!flip(descriptor, &f))
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                          "cuda:%u: the kernel is not a stride-1 convolution whose filter can be "
                          "turned",
                          device->index);
  cuda_flip *made = builder_allocate(&device->builder, sizeof *made);
  if (!made) return cuda_fail_memory(services, "a kernel");
  compute_status status = builder_kernel_fall_back(&device->builder, &f.copy, NULL, &made->copy);
  if (status == COMPUTE_OK && (made->copy.workspace_bytes || made->copy.faults))
    status = services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                            "cuda:%u: turning the filter is not a simple kernel", device->index);
  if (status == COMPUTE_OK) status = cuda_vendor_prepare(device, &f.convolution, kernel);
  if (status != COMPUTE_OK) {
    cuda_flip_destroy(device, made);
    return status;
  }
  made->last_tap = f.last_tap_bytes;
  made->place = (kernel->shared.workspace_bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
  kernel->shared.workspace_bytes = made->place + f.filter_bytes;
  kernel->flip = made;
  const size_t length = strlen(kernel->shared.text);
  snprintf(kernel->shared.text + length, sizeof kernel->shared.text - length, ", filter turned");
  return COMPUTE_OK;
}

void cuda_flip_destroy(cuda_device *device, cuda_flip *destroyed) {
  if (!destroyed) return;
  builder_kernel_clear(&device->builder, &destroyed->copy);
  builder_free(&device->builder, destroyed);
}

compute_status cuda_flip_submit(cuda_queue *queue, const cuda_flip *submitted, cuda_pointer filter,
                                cuda_pointer workspace, cuda_pointer *result) {
  *result = workspace + submitted->place;
  const cuda_pointer operands[2] = {filter + submitted->last_tap, *result};
  const cuda_scratch scratch = {0, 0};
  return cuda_launch(queue, &submitted->copy, operands, &scratch);
}
