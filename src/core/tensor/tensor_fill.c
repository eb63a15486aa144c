/* SPDX-License-Identifier: MIT */
/* Tensors filled with one value or with random numbers.
 *
 * On devices with kernels, both are MAP programs. The program reads values that vary between calls
 * (value, seed, bounds) from a small tensor, so that one kernel serves all calls. Otherwise, or if
 * a launch would cost more than the work, the host computes the elements piece by piece and uploads
 * them. The results are bit-identical. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/kernel/common/program.h"
#include "core/device/kernel_cache.h"
#include "core/device/transfer.h"
#include "core/type/dtype.h"
#include "core/base/random.h"
#include "core/type/shape.h"
#include "core/tensor/tensor.h"

#define SMALL_BYTES 2048    /* up to this size, the host computes the elements */
#define PIECE_BYTES 1048576 /* host memory per piece */

/* ---- Making elements ----------------------------------------------------------------------- */

/* A program's inputs besides the element's position, one per eight bytes. All inputs after the key
 * have the program's type. */
typedef struct fill_values {
  unsigned char bytes[32];
  uint32_t count; /* number of 8-byte slots */
  compute_dtype dtype[4];
} fill_values;

/* Writes elements first … first + count − 1 of the result on the host. */
typedef void (*fill_function)(const fill_values *values, compute_dtype dtype, void *elements,
                              uint64_t first, uint64_t count);

/* Builds the program that does the same on a device. */
typedef void (*fill_program)(program_builder *builder, compute_dtype dtype);

static compute_status fill_by_host(compute_tensor *tensor, const fill_values *values,
                                   fill_function function) {
  compute_device *device = tensor->buffer->device;
  _Alignas(16) unsigned char small[SMALL_BYTES];
  uint64_t size = compute_dtype_size(tensor->dtype), bytes = tensor_dense_bytes(tensor);
  uint64_t piece = min_u64(bytes, PIECE_BYTES);
  void *memory = piece <= sizeof small ? small : base_allocate_aligned((uint64_t)piece, 64);
  if (!memory) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, ERROR_BACKEND,
                     "not enough host memory for %" PRIu64 " bytes", piece);
  }
  compute_status status = COMPUTE_OK;
  compute_argument target = tensor_argument(tensor);
  for (uint64_t done = 0; done < bytes && !status; done += piece) {
    if (piece > bytes - done) piece = bytes - done;
    function(values, tensor->dtype, memory, done / size, piece / size);
    status = transfer_upload(device, &target, memory, piece);
    target.offset += piece;
  }
  if (memory != small) base_release(memory);
  return status;
}

static compute_status fill_by_kernel(compute_tensor *tensor, const fill_values *values,
                                     const compute_kernel_descriptor *map) {
  compute_device *device = tensor->buffer->device;
  compute_tensor *slots;
  compute_status status =
      tensor_create_private(device, COMPUTE_U8, COMPUTE_SHAPE(sizeof values->bytes), &slots);
  if (status) return status;
  compute_argument arguments[5];
  for (uint32_t i = 0; i < values->count; i++) {
    arguments[i] = tensor_argument(slots);
    arguments[i].offset += 8 * (uint64_t)i;
  }
  arguments[values->count] = tensor_argument(tensor);
  status = transfer_upload(device, &arguments[0], values->bytes, sizeof values->bytes);
  if (!status) status = transfer_run(device, map, arguments, values->count + 1);
  compute_tensor_release(slots);
  return status;
}

static compute_status fill(compute_tensor *tensor, const fill_values *values, fill_program program,
                           fill_function function) {
  compute_device *device = tensor->buffer->device;
  if (tensor_dense_bytes(tensor) <= SMALL_BYTES) return fill_by_host(tensor, values, function);
  program_builder builder = {.count = 0};
  program(&builder, tensor->dtype);
  compute_operand inputs[4] = {{0}}, output = {.dtype = tensor->dtype, .stride = {1}};
  for (uint32_t i = 0; i < values->count; i++) inputs[i].dtype = values->dtype[i];
  compute_kernel_descriptor map = {
      .struct_size = sizeof map,
      .kind = COMPUTE_KERNEL_MAP,
      .rank = 1,
      .size = {shape_count(tensor->shape)},
      .input_count = values->count,
      .output_count = 1,
      .inputs = inputs,
      .outputs = &output,
      .epilogue = program_finish(&builder),
  };
  char reason[128];
  if (!kernel_is_supported(device, &map, reason, sizeof reason)) {
    return fill_by_host(tensor, values, function);
  }
  compute_status status = fill_by_kernel(tensor, values, &map);
  return status == COMPUTE_ERROR_COMPILATION ? fill_by_host(tensor, values, function) : status;
}

static compute_status check_call(const compute_device *device, const char *operation,
                                 compute_tensor **tensor) {
  if (tensor) *tensor = NULL;
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, device, tensor);
  if (missing) return missing;
  return COMPUTE_OK;
}

static compute_status create_filled(compute_device *device, const char *operation,
                                    compute_dtype dtype, compute_shape shape,
                                    const fill_values *values, fill_program program,
                                    fill_function function, compute_tensor **tensor) {
  compute_tensor *made;
  compute_status status = tensor_create_private(device, dtype, shape, &made);
  if (status) {
    error_attribute(device->context, operation);
    return status;
  }
  if (shape_count(made->shape) > 0) status = fill(made, values, program, function);
  if (status) {
    error_attribute(device->context, operation);
    compute_tensor_release(made);
    return status;
  }
  *tensor = made;
  return scope_register(made);
}

/* ---- One value ----------------------------------------------------------------------------- */

static void value_on_host(const fill_values *values, compute_dtype dtype, void *elements,
                          uint64_t first, uint64_t count) {
  (void)first;
  host_fill(elements, values->bytes, compute_dtype_size(dtype), count);
}

static void value_program(program_builder *builder, compute_dtype dtype) {
  program_store(builder, program_load(builder, dtype_compute_type(dtype), 0));
}

compute_status tensor_create_zero(compute_device *device, compute_dtype dtype, compute_shape shape,
                                  compute_tensor **tensor) {
  const fill_values values = {.count = 1, .dtype = {dtype}};
  compute_status status = tensor_create_private(device, dtype, shape, tensor);
  if (status || shape_count(shape) == 0) return status;
  status = fill_by_host(*tensor, &values, value_on_host);
  if (status) {
    compute_tensor_release(*tensor);
    *tensor = NULL;
  }
  return status;
}

static compute_status refuse_value(const compute_device *device, const char *operation,
                                   const char *refusal) {
  return error_set(device->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "value is %s",
                   refusal);
}

compute_status compute_tensor_full(compute_device *device, compute_dtype dtype, compute_shape shape,
                                   double value, compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_tensor_full";
  char text[DTYPE_REFUSAL];
  compute_status status = check_call(device, operation, tensor);
  if (status) return status;
  if (dtype_is_valid(dtype) && !dtype_holds(dtype, value))
    return refuse_value(device, operation, dtype_refusal(dtype, value, text, sizeof text));
  fill_values values = {.count = 1, .dtype = {dtype}};
  dtype_store(dtype, values.bytes, value);
  return create_filled(device, operation, dtype, shape, &values, value_program, value_on_host,
                       tensor);
}

compute_status compute_tensor_full_i64(compute_device *device, compute_dtype dtype,
                                       compute_shape shape, int64_t value,
                                       compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_tensor_full_i64";
  char text[DTYPE_REFUSAL];
  compute_status status = check_call(device, operation, tensor);
  if (status) return status;
  if (dtype_is_valid(dtype) && !dtype_holds_integer(dtype, value))
    return refuse_value(device, operation, dtype_refusal_integer(dtype, value, text, sizeof text));
  fill_values values = {.count = 1, .dtype = {dtype}};
  dtype_store_integer(dtype, values.bytes, value);
  return create_filled(device, operation, dtype, shape, &values, value_program, value_on_host,
                       tensor);
}

/* ---- Random numbers ------------------------------------------------------------------------ */

/* Slots: key, low, high − low, and the largest number of the result's dtype below high. Without the
 * last one, low + u * (high − low) could round up to high. */
enum { SLOT_KEY, SLOT_LOW, SLOT_SCALE, SLOT_LIMIT, SLOT_COUNT };

static double slot_value(const fill_values *values, int slot) {
  return dtype_load(values->dtype[slot], values->bytes + 8 * slot);
}

static void random_on_host(const fill_values *values, compute_dtype dtype, void *elements,
                           uint64_t first, uint64_t count) {
  size_t size = compute_dtype_size(dtype);
  uint64_t key = (uint64_t)dtype_load_integer(COMPUTE_I64, values->bytes);
  double low = slot_value(values, SLOT_LOW), scale = slot_value(values, SLOT_SCALE);
  double limit = slot_value(values, SLOT_LIMIT);
  if (dtype == COMPUTE_F64) {
    for (uint64_t i = 0; i < count; i++) {
      double product = random_f64(key, first + i, 0) * scale;
      double value = low + product;
      if (value > limit) value = limit;
      memcpy((char *)elements + i * size, &value, size);
    }
    return;
  }
  for (uint64_t i = 0; i < count; i++) {
    float product = random_f32(key, first + i, 0) * (float)scale;
    float value = (float)low + product;
    if (value > (float)limit) value = (float)limit;
    dtype_store(dtype, (char *)elements + i * size, (double)value);
  }
}

static void random_program(program_builder *builder, compute_dtype dtype) {
  compute_dtype type = dtype_compute_type(dtype);
  uint16_t key = program_load(builder, COMPUTE_I64, SLOT_KEY);
  uint16_t position = program_apply(builder, COMPUTE_I_POSITION, COMPUTE_I64, 0, 0, 0);
  uint16_t uniform = program_apply(builder, COMPUTE_I_RANDOM, type, key, position, 0);
  uint16_t scale = program_load(builder, type, SLOT_SCALE);
  uint16_t product = program_apply(builder, COMPUTE_I_MUL, type, uniform, scale, 0);
  uint16_t low = program_load(builder, type, SLOT_LOW);
  uint16_t sum = program_apply(builder, COMPUTE_I_ADD, type, low, product, 0);
  uint16_t limit = program_load(builder, type, SLOT_LIMIT);
  program_store(builder, program_apply(builder, COMPUTE_I_MIN, type, sum, limit, 0));
}

/* Rounds `value` to the dtype. */
static double rounded(compute_dtype dtype, double value) {
  unsigned char element[8];
  dtype_store(dtype, element, value);
  return dtype_load(dtype, element);
}

/* The largest number of the dtype below `high`, which the dtype can represent. 16-bit floats have
 * the order of their bits; for negative numbers the order is reversed. */
static double below(compute_dtype dtype, double high) {
  if (dtype == COMPUTE_F64) return nextafter(high, -INFINITY);
  if (dtype == COMPUTE_F32) return (double)nextafterf((float)high, -INFINITY);
  unsigned char element[8];
  uint16_t bits;
  dtype_store(dtype, element, high);
  memcpy(&bits, element, sizeof bits);
  if ((bits & 0x7fff) == 0) {
    bits = 0x8001;
  } else if (bits & 0x8000) {
    bits++;
  } else {
    bits--;
  }
  return dtype_load(dtype, &bits);
}

static compute_status check_bounds(const compute_device *device, const char *operation,
                                   compute_dtype dtype, double low, double high) {
  if (!dtype_is_float(dtype)) {
    return error_set(device->context, COMPUTE_ERROR_DTYPE, operation,
                     "random numbers are floats, not %s", compute_dtype_name(dtype));
  }
  double from = rounded(dtype, low), to = rounded(dtype, high);
  double scale = rounded(dtype_compute_type(dtype), to - from);
  if (!(low < high) || !isfinite(from) || !isfinite(to) || !isfinite(scale)) {
    return error_set(device->context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "[%g, %g) is not a range of %s numbers", low, high, compute_dtype_name(dtype));
  }
  return COMPUTE_OK;
}

compute_status compute_tensor_random(compute_device *device, compute_dtype dtype,
                                     compute_shape shape, double low, double high, uint64_t seed,
                                     compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_tensor_random";
  compute_status status = check_call(device, operation, tensor);
  if (!status) status = check_bounds(device, operation, dtype, low, high);
  if (status) return status;
  compute_dtype type = dtype_compute_type(dtype);
  double from = rounded(dtype, low), to = rounded(dtype, high);
  fill_values values = {.count = SLOT_COUNT, .dtype = {COMPUTE_I64, type, type, type}};
  dtype_store_integer(COMPUTE_I64, values.bytes + 8 * SLOT_KEY, (int64_t)seed);
  dtype_store(type, values.bytes + 8 * SLOT_LOW, from);
  dtype_store(type, values.bytes + 8 * SLOT_SCALE, to - from);
  dtype_store(type, values.bytes + 8 * SLOT_LIMIT, fmax(from, below(dtype, to)));
  return create_filled(device, operation, dtype, shape, &values, random_program, random_on_host,
                       tensor);
}
