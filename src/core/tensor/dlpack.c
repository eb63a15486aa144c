/* SPDX-License-Identifier: MIT */
/* Export of tensors as DLPack structs, and import. */
#include "core/tensor/dlpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "core/type/dtype.h"
#include "core/type/shape.h"

/* ---- Element types ------------------------------------------------------------------------- */

static const dlpack_type types[COMPUTE_DTYPE_COUNT] = {
#define TYPE(code, number, name, kind, bytes, ...) [number] = {DLPACK_##kind, 8 * bytes, 1},
    COMPUTE_DTYPES(TYPE)
#undef TYPE
};

static dlpack_type type_of(compute_dtype dtype) {
  dlpack_type type = types[dtype];
  if (dtype == COMPUTE_BF16) type.kind = DLPACK_BFLOAT;
  return type;
}

/* Returns COMPUTE_DTYPE_NONE if no dtype matches. */
static compute_dtype dtype_of(dlpack_type type) {
  for (int32_t dtype = 1; dtype < COMPUTE_DTYPE_COUNT; dtype++) {
    const dlpack_type own = type_of((compute_dtype)dtype);
    if (own.kind == type.kind && own.bits == type.bits && own.lanes == type.lanes)
      return (compute_dtype)dtype;
  }
  return COMPUTE_DTYPE_NONE;
}

/* "int4", "complex64", "float32 in vectors of 4". */
static const char *type_text(dlpack_type type, char *text, size_t bytes) {
  static const char *const kinds[] = {"int",
                                      "uint",
                                      "float",
                                      "handle",
                                      "bfloat",
                                      "complex",
                                      "bool",
                                      "float8_e3m4",
                                      "float8_e4m3",
                                      "float8_e4m3b11fnuz",
                                      "float8_e4m3fn",
                                      "float8_e4m3fnuz",
                                      "float8_e5m2",
                                      "float8_e5m2fnuz",
                                      "float8_e8m0fnu",
                                      "float6_e2m3fn",
                                      "float6_e3m2fn",
                                      "float4_e2m1fn"};
  const bool known = type.kind < sizeof kinds / sizeof *kinds;
  int length = known && type.kind > DLPACK_LOGIC
                   ? snprintf(text, bytes, "%s", kinds[type.kind])
                   : snprintf(text, bytes, "%s%u",
                              known ? kinds[type.kind] : "unknown type of bits ", type.bits);
  if (type.lanes != 1)
    snprintf(text + length, bytes - (size_t)length, " in vectors of %u", type.lanes);
  return text;
}

/* ---- Devices ------------------------------------------------------------------------------- */

/* Gets the device's DLPack type and id. Returns false if other libraries cannot use the device's
 * memory. */
static bool device_numbers(const compute_device *device, compute_foreign_memory *numbers) {
  *numbers = (compute_foreign_memory){.device_type = FOREIGN_CPU};
  if (device->backend->memory_export && device->backend->memory_adopt)
    device->backend->memory_export(device->handle, NULL, numbers);
  else
    return (device->info.capabilities & COMPUTE_CAPABILITY_UNIFIED_MEMORY) != 0;
  return true;
}

static compute_status fail_device(const compute_device *device, const char *operation) {
  return error_set_native(device->context, COMPUTE_ERROR_UNSUPPORTED, 0, operation,
                          "copy to the CPU first: compute_tensor_to_device",
                          "other libraries cannot use the memory of %s", device->info.name);
}

compute_status compute_device_dlpack(const compute_device *device, int32_t *type, int32_t *id) {
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_device_dlpack";
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, device, type, id);
  if (missing) return missing;
  compute_foreign_memory numbers;
  if (!device_numbers(device, &numbers)) return fail_device(device, operation);
  *type = numbers.device_type;
  *id = numbers.device_id;
  return COMPUTE_OK;
}

/* The device of the memory. Host memory that is locked for a GPU counts as CPU memory. */
static compute_device *device_of(compute_context *context, const compute_foreign_memory *memory) {
  const int32_t type = memory->device_type;
  if (type == FOREIGN_CPU || type == FOREIGN_CUDA_HOST || type == FOREIGN_ROCM_HOST)
    return context->cpu;
  compute_device *device;
  compute_foreign_memory numbers;
  for (size_t i = 0; (device = compute_device_at(context, i)) != NULL; i++)
    if (device_numbers(device, &numbers) && numbers.device_type == type &&
        numbers.device_id == memory->device_id)
      return device;
  return NULL;
}

static const char *device_type_text(int32_t type) {
  static const struct {
    int32_t type;
    const char *name;
  } names[] = {{FOREIGN_CPU, "CPU"},
               {2, "CUDA"},
               {FOREIGN_CUDA_HOST, "CUDA host"},
               {4, "OpenCL"},
               {7, "Vulkan"},
               {8, "Metal"},
               {10, "ROCm"},
               {FOREIGN_ROCM_HOST, "ROCm host"},
               {13, "CUDA managed"},
               {14, "oneAPI"},
               {15, "WebGPU"},
               {16, "Hexagon"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].type == type) return names[i].name;
  return "unknown";
}

/* ---- Export -------------------------------------------------------------------------------- */

typedef struct export {
  union {
    struct DLManagedTensor plain;
    struct DLManagedTensorVersioned versioned;
  } as;
  compute_tensor *tensor;
  int64_t size[COMPUTE_MAX_RANK], stride[COMPUTE_MAX_RANK];
}
export;

/* Frees the record first: the context may be closed once the tensor is released. */
static void end(export *ended) {
  compute_tensor *tensor = ended->tensor;
  if (IS_INHERITED(tensor, buffer->device->context)) return;
  base_release(ended);
  compute_tensor_release(tensor);
}

static void delete_plain(struct DLManagedTensor *self) {
  end(self->owner);
}

static void delete_versioned(struct DLManagedTensorVersioned *self) {
  end(self->owner);
}

/* Orders the consumer behind the work submitted to the queue. */
static compute_status order(const compute_dlpack_options *options, const compute_tensor *tensor,
                            const char *operation) {
  compute_queue *queue = options->queue;
  compute_device *device = tensor->buffer->device;
  if (!queue) return COMPUTE_OK;
  if (queue->device->context != device->context)
    return error_set(device->context, COMPUTE_ERROR_WRONG_CONTEXT, operation,
                     "the tensor and the queue belong to different contexts");
  if (!options->stream || options->copy || queue->device != device ||
      !device->backend->queue_signal)
    return compute_queue_wait(queue);
  const compute_status status = device_check(device, operation);
  return status ? status : device->backend->queue_signal(queue->handle, options->stream);
}

/* Returns the tensor, or a copy that belongs to no memory scope. */
static compute_status subject(compute_tensor *tensor, bool copy, compute_tensor **result) {
  if (!copy) {
    *result = compute_tensor_retain(tensor);
    return COMPUTE_OK;
  }
  compute_status status =
      tensor_create_private(tensor->buffer->device, tensor->dtype, tensor->shape, result);
  if (status) return status;
  status = compute_tensor_copy(*result, tensor);
  if (status) compute_tensor_release(*result);
  return status;
}

static void describe(export *made, dlpack_tensor *described) {
  const compute_tensor *tensor = made->tensor;
  const compute_device *device = tensor->buffer->device;
  const compute_argument argument = tensor_argument(tensor);
  compute_foreign_memory memory;
  device_numbers(device, &memory);
  if (tensor->buffer->memory.bytes > 0 && device->backend->memory_export)
    device->backend->memory_export(device->handle, &argument, &memory);
  else
    memory.data = compute_tensor_data(tensor);
  memcpy(made->size, tensor->shape.size, sizeof made->size);
  memcpy(made->stride, tensor->strides, sizeof made->stride);
  *described = (dlpack_tensor){.data = memory.data,
                               .device_type = memory.device_type,
                               .device_id = memory.device_id,
                               .rank = tensor->shape.rank,
                               .type = type_of(tensor->dtype),
                               .size = made->size,
                               .stride = made->stride,
                               .byte_offset = memory.byte_offset};
}

static bool is_read_only(const compute_tensor *tensor) {
  return tensor->read_only || buffer_is_frozen(tensor->buffer);
}

static compute_status check_export(compute_tensor *tensor, const compute_dlpack_options *options,
                                   const char *operation, const void *result) {
  const compute_status missing =
      error_if_null(tensor ? tensor->buffer->device->context : NULL, operation, tensor, result);
  if (missing) return missing;
  const compute_status reserved =
      error_if_reserved(tensor->buffer->device->context, operation, "options", options->reserved);
  if (reserved) return reserved;
  compute_foreign_memory numbers;
  const compute_device *device = tensor->buffer->device;
  if (!device_numbers(device, &numbers)) return fail_device(device, operation);
  return order(options, tensor, operation);
}

/* Creates a record with its tensor. The caller fills in the struct for the consumer. */
static compute_status begin(compute_tensor *tensor, const compute_dlpack_options *options,
                            const char *operation, export **result) {
  compute_context *context = tensor->buffer->device->context;
  export *made = base_allocate(1, sizeof *made);
  if (!made)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough host memory for an export's record");
  const compute_status status = subject(tensor, options->copy, &made->tensor);
  if (status) {
    error_attribute(context, operation);
    base_release(made);
    return status;
  }
  *result = made;
  return COMPUTE_OK;
}

compute_status compute_tensor_to_dlpack(compute_tensor *tensor,
                                        const compute_dlpack_options *options,
                                        struct DLManagedTensor **managed) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_to_dlpack";
  static const compute_dlpack_options none;
  if (managed) *managed = NULL;
  if (!options) options = &none;
  compute_status status = check_export(tensor, options, operation, managed);
  if (status) return status;
  if (is_read_only(tensor) && !options->copy)
    return error_set_native(tensor->buffer->device->context, COMPUTE_ERROR_INVALID_ARGUMENT, 0,
                            operation, "compute_tensor_to_dlpack_versioned, or options.copy",
                            "the tensor is read-only, which this form cannot say");
  export *made;
  status = begin(tensor, options, operation, &made);
  if (status) return status;
  made->as.plain = (struct DLManagedTensor){.owner = made, .deleter = delete_plain};
  describe(made, &made->as.plain.tensor);
  *managed = &made->as.plain;
  return COMPUTE_OK;
}

compute_status compute_tensor_to_dlpack_versioned(compute_tensor *tensor,
                                                  const compute_dlpack_options *options,
                                                  struct DLManagedTensorVersioned **managed) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_tensor_to_dlpack_versioned";
  static const compute_dlpack_options none;
  if (managed) *managed = NULL;
  if (!options) options = &none;
  export *made;
  compute_status status = check_export(tensor, options, operation, managed);
  if (!status) status = begin(tensor, options, operation, &made);
  if (status) return status;
  made->as.versioned =
      (struct DLManagedTensorVersioned){.major = DLPACK_MAJOR,
                                        .minor = DLPACK_MINOR,
                                        .owner = made,
                                        .deleter = delete_versioned,
                                        .flags = options->copy          ? DLPACK_COPIED
                                                 : is_read_only(tensor) ? DLPACK_READ_ONLY
                                                                        : 0};
  describe(made, &made->as.versioned.tensor);
  *managed = &made->as.versioned;
  return COMPUTE_OK;
}

/* ---- Import -------------------------------------------------------------------------------- */

static void release_plain(void *user, void *data) {
  struct DLManagedTensor *managed = user;
  (void)data;
  if (managed->deleter) managed->deleter(managed);
}

static void release_versioned(void *user, void *data) {
  struct DLManagedTensorVersioned *managed = user;
  (void)data;
  if (managed->deleter) managed->deleter(managed);
}

/* Along axes of one element and in empty tensors, strides have no meaning. Some libraries give
 * arbitrary values there, even negative ones, so these strides are ignored. */
static compute_status read_layout(const compute_context *context, const char *operation,
                                  const dlpack_tensor *from, int64_t *strides,
                                  tensor_layout *layout) {
  char text[96];
  layout->dtype = dtype_of(from->type);
  if (layout->dtype == COMPUTE_DTYPE_NONE)
    return error_set(context, COMPUTE_ERROR_DTYPE, operation, "there is no dtype for %s",
                     type_text(from->type, text, sizeof text));
  if (from->rank < 0 || from->rank > COMPUTE_MAX_RANK)
    return error_set(context, COMPUTE_ERROR_SHAPE, operation, "%" PRId32 " dimensions, not 0 to %d",
                     from->rank, COMPUTE_MAX_RANK);
  if (from->rank > 0 && !from->size)
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "shape is NULL");
  bool empty = false;
  layout->shape = (compute_shape){.rank = from->rank};
  for (int32_t i = 0; i < from->rank; i++) {
    layout->shape.size[i] = from->size[i];
    empty |= from->size[i] == 0;
    strides[i] = from->stride && from->size[i] > 1 ? from->stride[i] : 1;
  }
  layout->strides = from->stride && !empty ? strides : NULL;
  return COMPUTE_OK;
}

static compute_status import(compute_context *context, const char *operation,
                             const dlpack_tensor *from, bool read_only,
                             compute_release_function release, void *managed,
                             compute_tensor **tensor) {
  int64_t strides[COMPUTE_MAX_RANK];
  tensor_layout layout = {.read_only = read_only};
  compute_foreign_memory memory = {from->device_type, from->device_id, from->data,
                                   from->byte_offset};
  compute_status status = read_layout(context, operation, from, strides, &layout);
  if (status) return status;
  compute_device *device = device_of(context, &memory);
  if (!device)
    return error_set_native(context, COMPUTE_ERROR_NO_DEVICE, 0, operation,
                            "compute-info lists the devices that were found",
                            "the memory is on device %" PRId32 " of type %" PRId32
                            " (%s), which the context does not have",
                            memory.device_id, memory.device_type,
                            device_type_text(memory.device_type));
  if (device == context->cpu) memory.device_type = FOREIGN_CPU;
  status = device_check(device, operation);
  return status ? status
                : tensor_wrap(device, operation, &layout, &memory, release, managed, tensor);
}

compute_status compute_tensor_from_dlpack(compute_context *context, struct DLManagedTensor *managed,
                                          compute_tensor **tensor) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tensor_from_dlpack";
  if (tensor) *tensor = NULL;
  const compute_status missing = error_if_null(context, operation, context, managed, tensor);
  if (missing) return missing;
  return import(context, operation, &managed->tensor, false, release_plain, managed, tensor);
}

compute_status compute_tensor_from_dlpack_versioned(compute_context *context,
                                                    struct DLManagedTensorVersioned *managed,
                                                    compute_tensor **tensor) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tensor_from_dlpack_versioned";
  if (tensor) *tensor = NULL;
  const compute_status missing = error_if_null(context, operation, context, managed, tensor);
  if (missing) return missing;
  if (managed->major != DLPACK_MAJOR)
    return error_set(context, COMPUTE_ERROR_UNSUPPORTED, operation,
                     "DLPack version %" PRIu32 ".%" PRIu32 ", not %d.x", managed->major,
                     managed->minor, DLPACK_MAJOR);
  return import(context, operation, &managed->tensor, (managed->flags & DLPACK_READ_ONLY) != 0,
                release_versioned, managed, tensor);
}
