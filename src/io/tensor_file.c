/* SPDX-License-Identifier: MIT */
/* Files of named tensors: the common part of safetensors and .npz. */
#include "io/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/arithmetic.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/float_environment.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"
#include "io/new_file.h"

/* ---- For the formats ----------------------------------------------------------------------- */

stored_tensor *tensor_file_add(compute_tensor_file *file) {
  void *tensors = file->tensors;
  if (base_grow(&tensors, &file->capacity, file->count + 1, sizeof *file->tensors)) return NULL;
  file->tensors = tensors;
  stored_tensor *added = &file->tensors[file->count++];
  *added = (stored_tensor){.name = NULL};
  return added;
}

bool tensor_file_bytes(compute_dtype dtype, compute_shape shape, uint64_t *bytes) {
  int64_t all = (int64_t)compute_dtype_size(dtype);
  bool empty = false;
  for (int32_t i = 0; i < shape.rank; i++) {
    empty = empty || shape.size[i] == 0;
    if (shape.size[i] > 0 && !checked_multiply(all, shape.size[i], &all)) return false;
  }
  *bytes = empty ? 0 : (uint64_t)all;
  return true;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const stored_tensor *const *)a)->name, (*(const stored_tensor *const *)b)->name);
}

static compute_status sort_names(compute_tensor_file *file, const char *operation) {
  file->by_name = base_allocate(file->count, sizeof *file->by_name);
  if (!file->by_name)
    return error_set(file->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the names in %s", file->path);
  for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
  qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
  for (size_t i = 1; i < file->count; i++) {
    if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) != 0) continue;
    char name[SHOWN_NAME_BYTES];
    return error_set(file->context, COMPUTE_ERROR_FORMAT, operation,
                     "%s has two tensors called \"%s\"", file->path,
                     file_show_name(file->by_name[i]->name, name));
  }
  return COMPUTE_OK;
}

static compute_status list_tensors(compute_tensor_file *file, const char *operation) {
  unsigned char start[9] = {0};
  size_t length = file->bytes < sizeof start ? (size_t)file->bytes : sizeof start;
  int code = file_read_at(file->descriptor, 0, start, length);
  if (code) return file_error(file->context, operation, file->path, "read", code);
  if (start[8] == '{') return safetensors_list(file, operation);
  if (!memcmp(start, "PK\3\4", 4) || !memcmp(start, "PK\5\6", 4)) return npz_list(file, operation);
  return error_set(file->context, COMPUTE_ERROR_FORMAT, operation,
                   "%s is neither a safetensors nor an .npz file", file->path);
}

static compute_status open_file(compute_tensor_file *file, const char *operation) {
  /* O_NONBLOCK: without it, opening a FIFO would wait for a writer before the check can refuse
   * it. */
  file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor < 0) return file_error(file->context, operation, file->path, "open", errno);
  struct stat about;
  if (fstat(file->descriptor, &about) != 0)
    return file_error(file->context, operation, file->path, "examine", errno);
  if (!S_ISREG(about.st_mode))
    return error_set(file->context, COMPUTE_ERROR_FILE, operation, "%s is not a regular file",
                     file->path);
  file->bytes = (uint64_t)about.st_size;
  compute_status status = list_tensors(file, operation);
  return status ? status : sort_names(file, operation);
}

compute_status compute_tensor_file_open(const compute_context *context, const char *path,
                                        compute_tensor_file **result) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tensor_file_open";
  if (result) *result = NULL;
  if (!path || !result) {
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     path ? "file" : "path");
  }
  compute_tensor_file *file = base_allocate(1, sizeof *file);
  if (file) {
    file->context = context;
    file->descriptor = -1;
    file->path = base_duplicate(path);
  }
  if (!file || !file->path) {
    base_release(file);
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory to open %s", path);
  }
  compute_status status = open_file(file, operation);
  if (status) {
    compute_tensor_file_close(file);
    return status;
  }
  *result = file;
  return COMPUTE_OK;
}

void compute_tensor_file_close(compute_tensor_file *file) {
  if (!file) return;
  if (file->descriptor >= 0) close(file->descriptor);
  base_release(file->by_name);
  base_release(file->tensors);
  base_release(file->text);
  base_release(file->path);
  base_release(file);
}

/* ---- Lookup -------------------------------------------------------------------------------- */

size_t compute_tensor_file_count(const compute_tensor_file *file) {
  return file ? file->count : 0;
}

static compute_status check_index(const compute_tensor_file *file, const compute_context *context,
                                  const char *operation, size_t index) {
  if (index < file->count) return COMPUTE_OK;
  return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                   "index %zu is past the %zu tensors of %s", index, file->count, file->path);
}

compute_status compute_tensor_file_at(const compute_tensor_file *file, size_t index,
                                      compute_tensor_file_entry *entry) {
  static const char operation[] = "compute_tensor_file_at";
  const compute_status missing = error_if_null(file ? file->context : NULL, operation, file, entry);
  if (missing) return missing;
  compute_status status = check_index(file, file->context, operation, index);
  if (status) return status;
  const stored_tensor *tensor = &file->tensors[index];
  *entry = (compute_tensor_file_entry){.name = tensor->name,
                                       .dtype = tensor->format.dtype,
                                       .shape = tensor->format.shape,
                                       .bytes = tensor->bytes};
  return COMPUTE_OK;
}

size_t compute_tensor_file_find(const compute_tensor_file *file, const char *name) {
  if (!file || !name) return compute_tensor_file_count(file);
  stored_tensor wanted = {.name = name};
  const stored_tensor *key = &wanted;
  const stored_tensor **found =
      bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
  return found ? (size_t)(*found - file->tensors) : file->count;
}

/* ---- Reading ------------------------------------------------------------------------------- */

compute_status compute_tensor_file_read(const compute_tensor_file *file, size_t index,
                                        compute_device *device, compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "compute_tensor_file_read";
  if (tensor) *tensor = NULL;
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, file, device, tensor);
  if (missing) return missing;
  compute_status status = check_index(file, device->context, operation, index);
  compute_tensor *made;
  if (!status)
    status = file->read(file, operation, device->context, &file->tensors[index], device, &made);
  if (status) return status;
  *tensor = made;
  return scope_register(made);
}

static compute_status check_fit(const compute_context *context, const char *operation,
                                const stored_tensor *stored, const compute_tensor *tensor) {
  char name[SHOWN_NAME_BYTES], has[176], wanted[176];
  file_show_name(stored->name, name);
  if (stored->format.dtype != tensor->dtype)
    return error_set(context, COMPUTE_ERROR_DTYPE, operation,
                     "\"%s\" is %s in the file, but the tensor is %s", name,
                     compute_dtype_name(stored->format.dtype), compute_dtype_name(tensor->dtype));
  if (compute_shape_equal(stored->format.shape, tensor->shape)) return COMPUTE_OK;
  return error_set(context, COMPUTE_ERROR_SHAPE, operation,
                   "\"%s\" is %s in the file, but the tensor is %s", name,
                   compute_shape_text(stored->format.shape, has, sizeof has),
                   compute_shape_text(tensor->shape, wanted, sizeof wanted));
}

compute_status compute_tensor_file_read_into(const compute_tensor_file *file, size_t index,
                                             compute_tensor *tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  static const char operation[] = "compute_tensor_file_read_into";
  const compute_status missing =
      error_if_null(file ? file->context : NULL, operation, file, tensor);
  if (missing) return missing;
  compute_device *device = tensor->buffer->device;
  compute_status status = check_index(file, device->context, operation, index);
  if (!status) status = check_fit(device->context, operation, &file->tensors[index], tensor);
  compute_tensor *read;
  if (!status) {
    status = file->read(file, operation, device->context, &file->tensors[index], device, &read);
  }
  if (status) return status;
  status = compute_tensor_copy(tensor, read);
  compute_tensor_release(read);
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *ending) {
  size_t length = strlen(path), wanted = strlen(ending);
  return length >= wanted && !strcmp(path + length - wanted, ending);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static compute_status check_twice(const compute_context *context, const char *operation,
                                  const compute_named_tensor *tensors, size_t count) {
  const char **names = base_allocate(count, sizeof *names);
  if (!names)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for names");
  for (size_t i = 0; i < count; i++) names[i] = tensors[i].name;
  qsort(names, count, sizeof *names, compare_texts);
  compute_status status = COMPUTE_OK;
  for (size_t i = 1; i < count && !status; i++) {
    char name[SHOWN_NAME_BYTES];
    if (strcmp(names[i - 1], names[i]) != 0) continue;
    status = error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                       "two tensors are called \"%s\"", file_show_name(names[i], name));
  }
  base_release(names);
  return status;
}

static compute_status check_tensors(const compute_context *context, const char *operation,
                                    const compute_named_tensor *tensors, size_t count) {
  size_t all = 0;
  for (size_t i = 0; i < count; i++) {
    if (!tensors[i].name || !tensors[i].tensor)
      return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s %zu is NULL",
                       tensors[i].name ? "tensor" : "name", i);
    size_t length = 0, step = 1;
    for (; tensors[i].name[length] && step; length += step)
      step = utf8_length(tensors[i].name + length);
    if (!step)
      return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation, "name %zu is not UTF-8",
                       i);
    all += length;
  }
  if (all > TENSOR_FILE_MAX_LIST)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the names are too long (%zu bytes)", all);
  return check_twice(context, operation, tensors, count);
}

compute_status compute_tensor_file_write(const compute_context *context, const char *path,
                                         const compute_named_tensor *tensors, size_t count) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED_CONTEXT(context);
  static const char operation[] = "compute_tensor_file_write";
  if (!path || (!tensors && count > 0))
    return error_set(context, COMPUTE_ERROR_NULL_POINTER, operation, "%s is NULL",
                     path ? "tensors" : "path");
  bool npz = ends_in(path, ".npz");
  if (!npz && !ends_in(path, ".safetensors"))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the name %s must end in .safetensors or .npz", path);
  compute_status status = check_tensors(context, operation, tensors, count);
  new_file file;
  if (!status) status = new_file_open(context, operation, path, &file);
  if (status) return status;
  status =
      npz ? npz_write(&file, tensors, count, ZIP64_FROM) : safetensors_write(&file, tensors, count);
  return new_file_close(&file, status);
}
