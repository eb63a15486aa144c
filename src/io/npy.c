/* Tensors in .npy files, moved in blocks of fixed size: beside the tensor itself, reading and
 * writing take constant memory. Nothing is allocated for what a header claims before the file is
 * known to be as long as that. */
#include "compute/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "device/device.h"
#include "io/npy_header.h"
#include "memory/scope.h"
#include "memory/transfer.h"
#include "tensor/tensor.h"

#define BLOCK_BYTES 1048576u

/* ---- Errors -------------------------------------------------------------------------------- */

static compute_status fail_system(const compute_context *context, const char *operation,
                                  const char *path, const char *what, int code) {
  char words[128];
  if (code == FILE_ENDED) {
    return error_set_native(context, COMPUTE_ERROR_FORMAT, 0, operation,
                            "the file may be truncated: copy or make it again",
                            "%s ends before its header says", path);
  }
  return error_set_native(context, COMPUTE_ERROR_FILE, code, operation, NULL, "%s: cannot %s: %s",
                          path, what, strerror_r(code, words, sizeof words));
}

static compute_status fail_header(const compute_context *context, const char *operation,
                                  const char *path, npy_result result, const char *problem) {
  return error_set(context,
                   result == NPY_UNSUPPORTED ? COMPUTE_ERROR_UNSUPPORTED : COMPUTE_ERROR_FORMAT,
                   operation, "%s is no .npy file that can be read: %s", path, problem);
}

/* ---- The header ---------------------------------------------------------------------------- */

static compute_status read_prefix(const compute_context *context, const char *operation, int file,
                                  const char *path, uint64_t file_bytes, uint32_t *text_offset,
                                  uint32_t *text_bytes) {
  unsigned char prefix[NPY_PREFIX_BYTES];
  char problem[NPY_PROBLEM_BYTES];
  size_t length = file_bytes < sizeof prefix ? (size_t)file_bytes : sizeof prefix;
  int code = file_read(file, prefix, length);
  if (code) return fail_system(context, operation, path, "read", code);
  npy_result result = npy_prefix_parse(prefix, length, text_offset, text_bytes, problem);
  return result ? fail_header(context, operation, path, result, problem) : COMPUTE_OK;
}

static compute_status read_text(const compute_context *context, const char *operation, int file,
                                const char *path, uint32_t offset, uint32_t bytes,
                                npy_header *header) {
  char *text = base_allocate(bytes, 1);
  if (!text) {
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "no memory for the header of %s", path);
  }
  char problem[NPY_PROBLEM_BYTES];
  compute_status status = COMPUTE_OK;
  int code = lseek(file, offset, SEEK_SET) < 0 ? errno : file_read(file, text, bytes);
  if (code) {
    status = fail_system(context, operation, path, "read", code);
  } else {
    npy_result result = npy_header_parse(text, bytes, header, problem);
    if (result) status = fail_header(context, operation, path, result, problem);
  }
  base_release(text);
  return status;
}

/* Reads the header; the file then stands at its first element. */
static compute_status read_header(const compute_context *context, const char *operation, int file,
                                  const char *path, compute_npy_info *info) {
  struct stat about;
  if (fstat(file, &about) != 0) return fail_system(context, operation, path, "examine", errno);
  if (!S_ISREG(about.st_mode)) {
    return error_set(context, COMPUTE_ERROR_FILE, operation, "%s is no regular file", path);
  }
  uint64_t file_bytes = (uint64_t)about.st_size;
  uint32_t offset, bytes;
  compute_status status = read_prefix(context, operation, file, path, file_bytes, &offset, &bytes);
  if (status) return status;
  if (file_bytes - offset < bytes) {
    return fail_system(context, operation, path, "read", FILE_ENDED);
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
                          "the file may be truncated: copy or make it again",
                          "%s has %" PRIu64 " bytes of elements, but %s of %s are %" PRIu64, path,
                          file_bytes - info->offset, compute_dtype_name(info->dtype),
                          compute_shape_text(info->shape, shape, sizeof shape), info->bytes);
}

static compute_status open_file(const compute_context *context, const char *operation,
                                const char *path, int *file, compute_npy_info *info) {
  *file = open(path, O_RDONLY | O_CLOEXEC);
  if (*file < 0) return fail_system(context, operation, path, "open", errno);
  compute_status status = read_header(context, operation, *file, path, info);
  if (status) close(*file);
  return status;
}

compute_status compute_npy_inspect(const compute_context *context, const char *path,
                                   compute_npy_info *info) {
  static const char operation[] = "compute_npy_inspect";
  if (!path || !info) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     path ? "info" : "path");
  }
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

static void swap_bytes(unsigned char *data, size_t bytes, size_t size) {
  for (size_t i = 0; i < bytes; i += size) {
    for (size_t j = 0; j < size / 2; j++) {
      unsigned char byte = data[i + j];
      data[i + j] = data[i + size - 1 - j];
      data[i + size - 1 - j] = byte;
    }
  }
}

/* Makes a block of the file what a tensor holds. */
static void convert(unsigned char *data, size_t bytes, const compute_npy_info *info) {
  if (info->swapped) swap_bytes(data, bytes, compute_dtype_size(info->dtype));
  if (info->dtype == COMPUTE_BOOL) {
    for (size_t i = 0; i < bytes; i++) data[i] = data[i] != 0;
  }
}

static compute_status upload(const char *operation, int file, const char *path,
                             const compute_npy_info *info, compute_tensor *tensor) {
  compute_device *device = tensor->buffer->device;
  unsigned char *block = base_allocate_aligned(BLOCK_BYTES, 64);
  if (!block) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "no memory to read %s", path);
  }
  compute_argument target = tensor_argument(tensor);
  compute_status status = COMPUTE_OK;
  for (uint64_t left = info->bytes; left > 0 && !status;) {
    size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    int code = file_read(file, block, bytes);
    if (code) {
      status = fail_system(device->context, operation, path, "read", code);
      break;
    }
    convert(block, bytes, info);
    status = transfer_upload(device, &target, block, bytes);
    target.offset += bytes;
    left -= bytes;
  }
  base_release(block);
  return status;
}

/* Turns a tensor whose axes stand in reverse into one with the axes of the file. */
static compute_status reverse_axes(compute_tensor *reversed, compute_tensor **tensor) {
  compute_tensor *view;
  compute_status status =
      compute_tensor_transpose_view(reversed, (compute_axes){.count = 0}, &view);
  if (status) return status;
  status = compute_tensor_to_device(view, reversed->buffer->device, tensor);
  compute_tensor_release(view);
  return status;
}

static compute_status read_elements(const char *operation, int file, const char *path,
                                    compute_device *device, const compute_npy_info *info,
                                    compute_tensor **tensor) {
  compute_shape shape = info->shape;
  for (int32_t i = 0; i < shape.rank && info->fortran_order; i++) {
    shape.size[i] = info->shape.size[shape.rank - 1 - i];
  }
  compute_tensor *made;
  compute_status status = tensor_create_private(device, info->dtype, shape, &made);
  if (status) return status;
  status = upload(operation, file, path, info, made);
  if (!status && info->fortran_order) {
    status = reverse_axes(made, tensor);
  } else if (!status) {
    *tensor = made;
    return scope_register(made);
  }
  compute_tensor_release(made);
  return status;
}

compute_status compute_npy_read(compute_device *device, const char *path, compute_tensor **tensor) {
  static const char operation[] = "compute_npy_read";
  if (tensor) *tensor = NULL;
  if (!device || !path || !tensor) {
    return error_set(device ? device->context : NULL, COMPUTE_ERROR_NULL_POINTER, operation,
                     "%s is NULL",
                     !device ? "device"
                     : !path ? "path"
                             : "tensor");
  }
  compute_npy_info info;
  int file;
  compute_status status = open_file(device->context, operation, path, &file, &info);
  if (status) return status;
  status = read_elements(operation, file, path, device, &info, tensor);
  close(file);
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static compute_status download(const char *operation, const compute_tensor *dense, int file,
                               const char *path) {
  compute_device *device = dense->buffer->device;
  unsigned char *block = base_allocate_aligned(BLOCK_BYTES, 64);
  if (!block) {
    return error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "no memory to write %s", path);
  }
  compute_argument source = tensor_argument(dense);
  compute_status status = COMPUTE_OK;
  for (uint64_t left = tensor_dense_bytes(dense); left > 0 && !status;) {
    size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    status = transfer_download(device, block, &source, bytes);
    if (status) break;
    int code = file_write(file, block, bytes);
    if (code) status = fail_system(device->context, operation, path, "write", code);
    source.offset += bytes;
    left -= bytes;
  }
  base_release(block);
  return status;
}

/* Writes everything to a file beside `path`, called `name`, and gives it its name. */
static compute_status write_as(const char *operation, const compute_tensor *dense,
                               const char *header, size_t header_bytes, const char *name,
                               const char *path) {
  const compute_context *context = dense->buffer->device->context;
  int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return fail_system(context, operation, name, "create", errno);
  compute_status status = COMPUTE_OK;
  int code = file_write(file, header, header_bytes);
  if (code) status = fail_system(context, operation, name, "write", code);
  if (!status) status = download(operation, dense, file, name);
  if (!status && fsync(file) != 0 && errno != EINVAL) {
    status = fail_system(context, operation, name, "write", errno);
  }
  if (close(file) != 0 && !status) status = fail_system(context, operation, name, "write", errno);
  if (!status && rename(name, path) != 0) {
    status = fail_system(context, operation, path, "create", errno);
  }
  if (status) unlink(name);
  return status;
}

static compute_status write_dense(const char *operation, const compute_tensor *dense,
                                  const char *header, size_t header_bytes, const char *path) {
  static atomic_uint number;
  size_t bytes = strlen(path) + 48;
  char *name = base_allocate(bytes, 1);
  if (!name) {
    return error_set(dense->buffer->device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "no memory to write %s", path);
  }
  snprintf(name, bytes, "%s.%ld-%u.new", path, (long)getpid(), atomic_fetch_add(&number, 1));
  compute_status status = write_as(operation, dense, header, header_bytes, name, path);
  base_release(name);
  return status;
}

compute_status compute_npy_write(const compute_tensor *tensor, const char *path) {
  static const char operation[] = "compute_npy_write";
  if (!tensor || !path) {
    return error_set(tensor ? tensor->buffer->device->context : NULL, COMPUTE_ERROR_NULL_POINTER,
                     operation, "%s is NULL", tensor ? "path" : "tensor");
  }
  compute_device *device = tensor->buffer->device;
  char header[NPY_MADE_BYTES];
  size_t header_bytes = npy_header_make(tensor->dtype, tensor->shape, header);
  if (header_bytes == 0) {
    return error_set_native(device->context, COMPUTE_ERROR_DTYPE, 0, operation,
                            "copy it to a tensor of f32 first", "NumPy has no %s",
                            compute_dtype_name(tensor->dtype));
  }
  if (compute_tensor_is_dense(tensor)) {
    return write_dense(operation, tensor, header, header_bytes, path);
  }
  compute_tensor *dense;
  compute_status status = compute_tensor_to_device(tensor, device, &dense);
  if (status) return status;
  status = write_dense(operation, dense, header, header_bytes, path);
  compute_tensor_release(dense);
  return status;
}
