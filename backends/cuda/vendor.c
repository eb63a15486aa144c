/* SPDX-License-Identifier: MIT */
/* The kernels that vendor libraries compute.
 *
 * If the library supports a kernel's epilogue, it computes everything. Otherwise it computes the
 * sum of products into scratch memory, and a generated MAP kernel runs the epilogue on that. This
 * second pass over the result pays if each sum is long. The sums need separate memory for two
 * reasons: an output may share elements with an input of the epilogue (an updated parameter), and
 * the sums keep the width of the additions.
 *
 * The heuristic below is for kernels that nobody has tuned. The tuner, the tuning file and
 * COMPUTE_TUNING override it, as for every parameter. */
#include "vendor.h"

#include <stdio.h>

#include "cuda.h"

enum { ALIGNMENT = 256 };

#define LEAST_SECONDS 1e-6 /* at the GPU's peak; a launch takes longer than anything below */
#define LEAST_DEPTH   128  /* products per sum that pay for a separate epilogue pass */
#define LARGEST_SUMS  ((uint64_t)512 << 20)

static const cuda_vendor *const vendors[] = {&cublas_vendor, &cudnn_vendor};

static const cuda_vendor *vendor_of(const compute_kernel_descriptor *descriptor) {
  for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
    if (vendors[i]->kind == descriptor->kind) return vendors[i];
  return NULL;
}

/* ---- Splitting a kernel in two ------------------------------------------------------------- */

/* A product without its epilogue, and the epilogue as a separate kernel. */
typedef struct halves {
  compute_kernel_descriptor product, epilogue;
  compute_operand sums;
  compute_operand inputs[COMPUTE_MAX_OPERANDS];
  uint64_t bytes; /* size of the sums */
} halves;

/* False if the epilogue cannot be split off. */
static bool cut(const compute_kernel_descriptor *d, halves *h) {
  if (d->epilogue.count == 0 || d->input_count < 2 || d->input_count > COMPUTE_MAX_OPERANDS)
    return false;
  h->sums = (compute_operand){.dtype = d->accumulate};
  int64_t stride = 1;
  for (int dim = d->rank - 1; dim >= 0; dim--) {
    h->sums.stride[dim] = stride;
    stride *= d->size[dim];
  }
  h->bytes = (uint64_t)stride * cuda_element_bytes(d->accumulate);
  if (stride == 0 || h->bytes > LARGEST_SUMS) return false;
  h->product = *d;
  h->product.input_count = 2;
  h->product.output_count = 1;
  h->product.outputs = &h->sums;
  h->product.epilogue = (compute_program){0};
  h->inputs[0] = h->sums;
  for (uint32_t i = 2; i < d->input_count; i++) h->inputs[i - 1] = d->inputs[i];
  h->epilogue = (compute_kernel_descriptor){
      .struct_size = sizeof h->epilogue,
      .kind = COMPUTE_KERNEL_MAP,
      .rank = d->rank,
      .input_count = d->input_count - 1,
      .output_count = d->output_count,
      .inputs = h->inputs,
      .outputs = d->outputs,
      .epilogue = d->epilogue,
  };
  for (int dim = 0; dim < d->rank; dim++) h->epilogue.size[dim] = d->size[dim];
  return true;
}

/* Maps the generated kernel's operands to the whole kernel's: its first operand is the scratch
 * memory, and the others shift by one. */
static bool renumber(builder_kernel *epilogue) {
  if (epilogue->workspace_bytes || epilogue->faults) return false;
  for (uint32_t i = 0; i < epilogue->launch_count; i++) {
    builder_launch *launch = &epilogue->launches[i];
    for (uint32_t j = 0; j < launch->buffer_count; j++) {
      uint32_t *argument = &launch->buffers[j].argument;
      *argument = *argument == 0 ? COMPUTE_GENERATED_WORKSPACE : *argument + 1;
    }
  }
  return true;
}

/* ---- Choosing ------------------------------------------------------------------------------ */

/* How much of a kernel its library can compute: 2 everything, 1 the product, 0 nothing. */
static int extent(const compute_kernel_descriptor *d, halves *h, const char **reason) {
  const cuda_vendor *vendor = vendor_of(d);
  const char *second;
  *reason = "there are libraries only for products and convolutions";
  if (!vendor) return 0;
  if (vendor->serves(d, reason)) return 2;
  return cut(d, h) && vendor->serves(&h->product, &second) ? 1 : 0;
}

bool cuda_vendor_serves(const compute_kernel_descriptor *descriptor) {
  const char *reason;
  halves h;
  return extent(descriptor, &h, &reason) > 0;
}

const char *cuda_implementation_name(void *handle, const compute_kernel_descriptor *descriptor,
                                     uint32_t index) {
  cuda_device *device = handle;
  const char *reason;
  halves h;
  const bool flipped = index == CUDA_FLIPPED && cuda_flip_serves(descriptor);
  if (!flipped && (index != CUDA_BY_LIBRARY || extent(descriptor, &h, &reason) == 0)) return NULL;
  if (cuda_enter(device) != COMPUTE_OK) return NULL;
  const cuda_library_id id = vendor_of(descriptor)->library;
  if (!cuda_library_open(device, id)) return NULL;
  return flipped ? "cuDNN, filter turned" : cuda_library_title(id);
}

/* Number of operations; *depth is the number of products per sum. */
static double work_of(const compute_kernel_descriptor *d, double *depth) {
  const compute_conv_attributes *c = compute_conv_of(d);
  double sums = 1;
  for (int i = 0; i < d->rank; i++) sums *= (double)d->size[i];
  if (d->kind == COMPUTE_KERNEL_GEMM) {
    *depth = (double)compute_gemm_of(d)->k;
    return 2 * sums * *depth;
  }
  const double all = 2 * (double)c->batch * (double)c->result_channels * (double)c->result_size[0] *
                     (double)c->result_size[1] * ((double)c->data_channels / c->groups) *
                     (double)c->filter_size[0] * (double)c->filter_size[1];
  *depth = sums > 0 ? all / 2 / sums : 0;
  return all;
}

/* Minimum bytes that a product reads and writes; 0 for a convolution, which is limited by
 * operations. */
static double bytes_of(const compute_kernel_descriptor *d) {
  if (d->kind != COMPUTE_KERNEL_GEMM) return 0;
  double sizes[3] = {1, 1, 1}, bytes = 0;
  for (int i = 0; i < 3; i++) {
    const compute_operand *o = i < 2 ? &d->inputs[i] : &d->outputs[0];
    for (int dim = 0; dim < d->rank - 2; dim++)
      if (o->stride[dim] != 0) sizes[i] *= (double)d->size[dim];
    sizes[i] *= (double)(i == 1 ? compute_gemm_of(d)->k : d->size[d->rank - 2]);
    sizes[i] *= (double)(i == 0 ? compute_gemm_of(d)->k : d->size[d->rank - 1]);
    bytes += sizes[i] * (double)cuda_element_bytes(o->dtype);
  }
  return bytes;
}

static bool takes_long(double amount, double per_second) {
  return per_second > 0 && amount >= LEAST_SECONDS * per_second;
}

bool cuda_vendor_is_preferred(const cuda_device *device, const compute_kernel_descriptor *d) {
  const char *reason;
  double depth;
  halves h;
  if (!vendor_of(d) || (!takes_long(work_of(d, &depth), device->peak_operations) &&
                        !takes_long(bytes_of(d), device->peak_bytes)))
    return false;
  const int much = extent(d, &h, &reason);
  return much == 2 || (much == 1 && depth >= LEAST_DEPTH);
}

/* ---- Preparing ----------------------------------------------------------------------------- */

static compute_status refuse(cuda_device *device, const char *reason) {
  device->services->log(device->services->host, COMPUTE_LOG_INFO, "cuda",
                        "cuda:%u: no library can run a kernel: %s", device->index, reason);
  return device->services->fail(device->services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                                "cuda:%u: no library can run this kernel: %s", device->index,
                                reason);
}

/* Prepares the epilogue of a product in scratch memory. */
static compute_status epilogue_prepare(cuda_device *device, const halves *h, cuda_kernel *kernel) {
  compute_status status =
      builder_kernel_fall_back(&device->builder, &h->epilogue, NULL, &kernel->shared);
  if (status != COMPUTE_OK) return status;
  if (!renumber(&kernel->shared)) {
    builder_kernel_clear(&device->builder, &kernel->shared);
    return refuse(device, "its epilogue is not a simple kernel");
  }
  kernel->product_bytes = (h->bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
  return COMPUTE_OK;
}

compute_status cuda_vendor_prepare(cuda_device *device, const compute_kernel_descriptor *descriptor,
                                   cuda_kernel *kernel) {
  const cuda_vendor *vendor = vendor_of(descriptor);
  const char *reason;
  halves h;
  const int much = extent(descriptor, &h, &reason);
  if (much == 0) return refuse(device, reason);
  if (!cuda_library_open(device, vendor->library))
    return refuse(device, device->libraries[vendor->library].reason);
  compute_status status =
      vendor->prepare(device, much == 2 ? descriptor : &h.product, &kernel->product);
  if (status != COMPUTE_OK) return status;
  if (much == 1) status = epilogue_prepare(device, &h, kernel);
  if (status != COMPUTE_OK) {
    vendor->destroy(device, kernel->product);
    kernel->product = NULL;
    return status;
  }
  kernel->shared.operands = descriptor->input_count + descriptor->output_count;
  kernel->shared.workspace_bytes = kernel->product_bytes + kernel->product->workspace_bytes;
  char then[sizeof kernel->shared.text];
  snprintf(then, sizeof then, "%s%.90s", much == 1 ? ", then " : "", kernel->shared.text);
  snprintf(kernel->shared.text, sizeof kernel->shared.text, "%.60s%.90s", kernel->product->text,
           then);
  return COMPUTE_OK;
}

compute_status cuda_implementation_prepare(cuda_device *device,
                                           const compute_kernel_descriptor *descriptor,
                                           uint32_t implementation, cuda_kernel *kernel) {
  const compute_services *services = device->services;
  switch (implementation) {
  case CUDA_BY_LIBRARY: return cuda_vendor_prepare(device, descriptor, kernel);
  case CUDA_FLIPPED: return cuda_flip_prepare(device, descriptor, kernel);
  default:
    return services->fail(services->host, COMPUTE_ERROR_UNSUPPORTED, 0, NULL,
                          "cuda:%u: unknown implementation %u", device->index, implementation);
  }
}

void cuda_vendor_destroy(cuda_device *device, cuda_kernel *kernel) {
  if (kernel->product) kernel->product->vendor->destroy(device, kernel->product);
  cuda_flip_destroy(device, kernel->flip);
  kernel->product = NULL;
  kernel->flip = NULL;
}

/* Only convolutions have flipped filters, and only products with a split-off epilogue write to
 * scratch memory: both have two factors. */
compute_status cuda_vendor_submit(cuda_queue *queue, const cuda_kernel *kernel,
                                  const cuda_pointer *operands, cuda_pointer workspace) {
  const cuda_product *product = kernel->product;
  if (kernel->product_bytes == 0 && !kernel->flip)
    return product->vendor->submit(queue, product, operands, workspace);
  cuda_pointer of_product[3] = {operands[0], operands[1], operands[2]};
  if (kernel->product_bytes) of_product[2] = workspace;
  if (kernel->flip) {
    const compute_status status =
        cuda_flip_submit(queue, kernel->flip, operands[1], workspace, &of_product[1]);
    if (status != COMPUTE_OK) return status;
  }
  return product->vendor->submit(queue, product, of_product, workspace + kernel->product_bytes);
}
