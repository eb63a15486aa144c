/* SPDX-License-Identifier: MIT */
/* Tensors in .npy files, copied in blocks of fixed size. So apart from the tensor, reading and
 * writing take constant memory. Memory for a header's sizes is allocated only after the file's
 * length confirms them. */
#include "compute/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "io/elements.h"
#include "io/new_file.h"
#include "io/npy.h"

/* ---- Errors -------------------------------------------------------------------------------- */

static compute_status fail_header(const compute_context *context, const char *operation,
                                  const char *path, npy_result result, const char *problem) {
  return error_set(context,
                   result == NPY_UNSUPPORTED ? COMPUTE_ERROR_UNSUPPORTED : COMPUTE_ERROR_FORMAT,
                   operation, "cannot read %s as .npy: %s", path, problem);
}

/* ---- The header ---------------------------------------------------------------------------- */

static compute_status read_prefix(const compute_context *context, const char *operation, int file,
                                  const char *path, uint64_t file_bytes, uint32_t *text_offset,
                                  uint32_t *text_bytes) {
  unsigned char prefix[NPY_PREFIX_BYTES];
  char problem[NPY_PROBLEM_BYTES];
  size_t length = file_bytes < sizeof prefix ? (size_t)file_bytes : sizeof prefix;
  int code = file_read(file, prefix, length);
  if (code) return file_error(context, operation, path, "read", code);
  npy_result result = npy_prefix_parse(prefix, length, text_offset, text_bytes, problem);
  return result ? fail_header(context, operation, path, result, problem) : COMPUTE_OK;
}

static compute_status read_text(const compute_context *context, const char *operation, int file,
                                const char *path, uint32_t offset, uint32_t bytes,
                                npy_header *header) {
  char *text = base_allocate(bytes, 1);
  if (!text)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the header of %s", path);
  char problem[NPY_PROBLEM_BYTES];
  compute_status status = COMPUTE_OK;
  int code = lseek(file, offset, SEEK_SET) < 0 ? errno : file_read(file, text, bytes);
  if (code) {
    status = file_error(context, operation, path, "read", code);
  } else {
    npy_result result = npy_header_parse(text, bytes, header, problem);
    if (result) status = fail_header(context, operation, path, result, problem);
  }
  base_release(text);
  return status;
}

/* Reads the header. Afterwards the file is at its first element. */
static compute_status read_header(const compute_context *context, const char *operation, int file,
                                  const char *path, compute_npy_info *info) {
  struct stat about;
  if (fstat(file, &about) != 0) return file_error(context, operation, path, "examine", errno);
  if (!S_ISREG(about.st_mode)) {
    return error_set(context, COMPUTE_ERROR_FILE, operation, "%s is not a regular file", path);
  }
  uint64_t file_bytes = (uint64_t)about.st_size;
  uint32_t offset, bytes;
  compute_status status = read_prefix(context, operation, file, path, file_bytes, &offset, &bytes);
  if (status) return status;
  if (file_bytes - offset < bytes) {
    return file_error(context, operation, path, "read", FILE_ENDED);
  }
  npy_header header;
  status = read_text(context, operation, file, path, offset, bytes, &header);
  if (status) return status;
  *info = (compute_npy_info){
      .dtype = header.dtype,
      .shape = header.shape,
      .fortran_order = header.fortran_order && header.shape.rank > 1,
      .swapped = header.swapped,
      .offset = (uint64_t)offset + bytes,
      .bytes = (uint64_t)header.count * compute_dtype_size(header.dtype),
  };
  if (file_bytes - info->offset >= info->bytes) return COMPUTE_OK;
  char shape[96];
  return error_set_native(context, COMPUTE_ERROR_FORMAT, 0, operation,
                          "the file may be truncated; copy or create it again",
                          "%s has %" PRIu64 " bytes of elements, but %s of %s are %" PRIu64, path,
                          file_bytes - info->offset, compute_dtype_name(info->dtype),
                          compute_shape_text(info->shape, shape, sizeof shape), info->bytes);
}

static compute_status open_file(const compute_context *context, const char *operation,
                                const char *path, int *file, compute_npy_info *info) {
  /* O_NONBLOCK: without it, opening a FIFO would wait for a writer before the check can refuse
   * it. */
  *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*file < 0) return file_error(context, operation, path, "open", errno);
  compute_status status = read_header(context, operation, *file, path, info);
  if (status) close(*file);
  return status;
}

compute_status compute_npy_inspect(const compute_context *context, const char *path,
                                   compute_npy_info *info) {
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_npy_inspect";
  const compute_status missing = error_if_null(context, operation, path, info);
  if (missing) return missing;
  *info = (compute_npy_info){.dtype = COMPUTE_DTYPE_NONE};
  compute_npy_info found;
  int file;
  compute_status status = open_file(context, operation, path, &file, &found);
  if (status) return status;
  close(file);
  *info = found;
  return COMPUTE_OK;
}

/* ---- Reading ------------------------------------------------------------------------------- */

typedef struct npy_source {
  const compute_context *context;
  const char *operation;
  const char *path;
  int file;
} npy_source;

static compute_status read_elements(void *user, void *data, size_t bytes) {
  const npy_source *source = user;
  int code = file_read(source->file, data, bytes);
  return code ? file_error(source->context, source->operation, source->path, "read", code)
              : COMPUTE_OK;
}

compute_status npy_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor) {
  compute_npy_info info;
  int file;
  compute_status status = open_file(device->context, operation, path, &file, &info);
  if (status) return status;
  element_format format = {.dtype = info.dtype,
                           .shape = info.shape,
                           .fortran_order = info.fortran_order,
                           .swapped = info.swapped};
  npy_source source = {device->context, operation, path, file};
  compute_tensor *made;
  status = elements_read(operation, device, &format, read_elements, &source, &made);
  close(file);
  if (status) return status;
  *tensor = made;
  return COMPUTE_OK;
}

compute_status compute_npy_read(compute_device *device, const char *path, compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const char operation[] = "compute_npy_read";
  if (tensor) *tensor = NULL;
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, device, path, tensor);
  if (missing) return missing;
  compute_tensor *made;
  compute_status status = npy_read(operation, device, path, &made);
  if (status) return status;
  *tensor = made;
  return scope_register(made);
}

/* ---- Writing ------------------------------------------------------------------------------- */

static compute_status write_elements(void *user, const void *data, size_t bytes) {
  return new_file_write(user, data, bytes);
}

compute_status compute_npy_write(const compute_tensor *tensor, const char *path) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(tensor, buffer->device->context);
  static const char operation[] = "compute_npy_write";
  const compute_status missing =
      error_if_null(tensor ? tensor->buffer->device->context : NULL, operation, tensor, path);
  if (missing) return missing;
  compute_device *device = tensor->buffer->device;
  char header[NPY_MADE_BYTES];
  size_t header_bytes = npy_header_make(tensor->dtype, tensor->shape, header);
  if (header_bytes == 0)
    return error_set_native(device->context, COMPUTE_ERROR_DTYPE, 0, operation,
                            "copy it to a tensor of f32 first", "NumPy has no %s",
                            compute_dtype_name(tensor->dtype));
  new_file file;
  compute_status status = new_file_open(device->context, operation, path, &file);
  if (status) return status;
  status = new_file_write(&file, header, header_bytes);
  if (!status) status = elements_write(operation, tensor, false, write_elements, &file);
  return new_file_close(&file, status);
}
