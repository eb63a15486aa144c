/* SPDX-License-Identifier: MIT */
/* .npz files: a ZIP archive with one .npy file per array. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "io/npy.h"
#include "io/tensor_file.h"

static zip_file archive_of(const compute_tensor_file *file, const char *operation,
                           const compute_context *context) {
  return (zip_file){.context = context,
                    .operation = operation,
                    .path = file->path,
                    .descriptor = file->descriptor,
                    .bytes = file->bytes};
}

static compute_status COMPUTE_PRINTF(4, 5)
    refuse(const zip_file *zip, compute_status status, const char *name, const char *format, ...) {
  char problem[NPY_PROBLEM_BYTES + 32], shown[SHOWN_NAME_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  return error_set(zip->context, status, zip->operation, "cannot read \"%s\" in %s as .npy: %s",
                   file_show_name(name, shown), zip->path, problem);
}

static compute_status refuse_header(const zip_file *zip, const char *name, npy_result result,
                                    const char *problem) {
  return refuse(zip, result == NPY_UNSUPPORTED ? COMPUTE_ERROR_UNSUPPORTED : COMPUTE_ERROR_FORMAT,
                name, "%s", problem);
}

/* ---- The list ------------------------------------------------------------------------------ */

static compute_status take_text(const zip_file *zip, zip_reader *reader, stored_tensor *tensor,
                                const char *begin, uint32_t known, uint32_t bytes,
                                npy_header *header) {
  char problem[NPY_PROBLEM_BYTES];
  char *text = base_allocate(bytes, 1);
  if (!text)
    return refuse(zip, COMPUTE_ERROR_OUT_OF_MEMORY, tensor->name, "not enough memory for it");
  memcpy(text, begin, known < bytes ? known : bytes);
  compute_status status = COMPUTE_OK;
  if (bytes > known) status = zip_reader_read(reader, text + known, bytes - known);
  if (!status) {
    npy_result result = npy_header_parse(text, bytes, header, problem);
    if (result) status = refuse_header(zip, tensor->name, result, problem);
  }
  base_release(text);
  return status;
}

static compute_status take_header(const zip_file *zip, zip_reader *reader, stored_tensor *tensor) {
  unsigned char prefix[NPY_PREFIX_BYTES];
  char problem[NPY_PROBLEM_BYTES];
  uint32_t offset, bytes;
  uint64_t unpacked = tensor->member.unpacked;
  size_t length = unpacked < sizeof prefix ? (size_t)unpacked : sizeof prefix;
  compute_status status = zip_reader_read(reader, prefix, length);
  if (status) return status;
  npy_result result = npy_prefix_parse(prefix, length, &offset, &bytes, problem);
  if (result) return refuse_header(zip, tensor->name, result, problem);
  if (bytes > unpacked - offset) {
    return refuse(zip, COMPUTE_ERROR_FORMAT, tensor->name, "its header is truncated");
  }
  npy_header header;
  status = take_text(zip, reader, tensor, (const char *)prefix + offset, (uint32_t)length - offset,
                     bytes, &header);
  if (status) return status;
  tensor->format = (element_format){.dtype = header.dtype,
                                    .shape = header.shape,
                                    .fortran_order = header.fortran_order,
                                    .swapped = header.swapped};
  tensor->offset = (uint64_t)offset + bytes;
  tensor->bytes = (uint64_t)header.count * compute_dtype_size(header.dtype);
  if (tensor->bytes == unpacked - tensor->offset) return COMPUTE_OK;
  return refuse(zip, COMPUTE_ERROR_FORMAT, tensor->name,
                "it has %" PRIu64 " bytes of elements, but its shape needs %" PRIu64,
                unpacked - tensor->offset, tensor->bytes);
}

static compute_status list_member(compute_tensor_file *file, const zip_file *zip,
                                  const zip_member *member) {
  if (member->name_bytes < 4 || strcmp(member->name + member->name_bytes - 4, ".npy") != 0)
    return refuse(zip, COMPUTE_ERROR_UNSUPPORTED, member->name, "its name does not end in .npy");
  stored_tensor *tensor = tensor_file_add(file);
  if (!tensor)
    return refuse(zip, COMPUTE_ERROR_OUT_OF_MEMORY, member->name, "not enough memory for it");
  member->name[member->name_bytes - 4] = 0;
  tensor->member = *member;
  tensor->name = member->name;
  zip_reader *reader;
  compute_status status = zip_reader_open(zip, member, &reader);
  if (status) return status;
  status = take_header(zip, reader, tensor);
  /* Only the start of the member has been read. The checksum is compared when all of it is read. */
  (void)zip_reader_close(reader, status ? status : COMPUTE_ERROR_INVALID_STATE);
  return status;
}

static compute_status npz_read(const compute_tensor_file *file, const char *operation,
                               const compute_context *context, const stored_tensor *tensor,
                               compute_device *device, compute_tensor **result);

compute_status npz_list(compute_tensor_file *file, const char *operation) {
  zip_file zip = archive_of(file, operation, file->context);
  zip_member *members;
  size_t count;
  compute_status status = zip_list(&zip, &members, &count, &file->text);
  if (status) return status;
  file->read = npz_read;
  for (size_t i = 0; i < count && !status; i++) status = list_member(file, &zip, &members[i]);
  base_release(members);
  return status;
}

/* ---- Elements ------------------------------------------------------------------------------ */

static compute_status read_elements(void *user, void *data, size_t bytes) {
  return zip_reader_read(user, data, bytes);
}

static compute_status skip(zip_reader *reader, uint64_t bytes) {
  unsigned char block[512];
  compute_status status = COMPUTE_OK;
  while (bytes > 0 && !status) {
    size_t part = bytes < sizeof block ? (size_t)bytes : sizeof block;
    status = zip_reader_read(reader, block, part);
    bytes -= part;
  }
  return status;
}

static compute_status npz_read(const compute_tensor_file *file, const char *operation,
                               const compute_context *context, const stored_tensor *tensor,
                               compute_device *device, compute_tensor **result) {
  zip_file zip = archive_of(file, operation, context);
  zip_reader *reader;
  compute_tensor *made = NULL;
  compute_status status = zip_reader_open(&zip, &tensor->member, &reader);
  if (status) return status;
  status = skip(reader, tensor->offset);
  if (!status) {
    status = elements_read(operation, device, &tensor->format, read_elements, reader, &made);
  }
  bool read = !status;
  status = zip_reader_close(reader, status);
  if (!status)
    *result = made;
  else if (read)
    compute_tensor_release(made);
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static compute_status add_elements(void *user, const void *data, size_t bytes) {
  return zip_writer_add(user, data, bytes);
}

/* `member` is the name with its file extension. */
static compute_status write_array(zip_writer *writer, const char *name, const char *member,
                                  const compute_tensor *tensor) {
  new_file *file = writer->file;
  char header[NPY_MADE_BYTES];
  size_t header_bytes = npy_header_make(tensor->dtype, tensor->shape, header);
  if (header_bytes == 0) {
    char shown[SHOWN_NAME_BYTES];
    return error_set_native(file->context, COMPUTE_ERROR_DTYPE, 0, file->operation,
                            "copy it to a tensor of f32 first, or write a .safetensors file",
                            "\"%s\": NumPy has no %s", file_show_name(name, shown),
                            compute_dtype_name(tensor->dtype));
  }
  compute_status status =
      zip_writer_begin(writer, member, header_bytes + tensor_dense_bytes(tensor));
  if (!status) status = zip_writer_add(writer, header, header_bytes);
  if (!status) status = elements_write(file->operation, tensor, false, add_elements, writer);
  return status ? status : zip_writer_end_member(writer);
}

static compute_status write_arrays(zip_writer *writer, char *names,
                                   const compute_named_tensor *tensors, size_t count) {
  compute_status status = COMPUTE_OK;
  for (size_t i = 0; i < count && !status; i++) {
    size_t length = strlen(tensors[i].name);
    memcpy(names, tensors[i].name, length);
    memcpy(names + length, ".npy", 5);
    status = write_array(writer, tensors[i].name, names, tensors[i].tensor);
    names += length + 5;
  }
  return zip_writer_finish(writer, status);
}

compute_status npz_write(new_file *file, const compute_named_tensor *tensors, size_t count,
                         uint64_t zip64_from) {
  zip_writer writer = {.file = file, .zip64_from = zip64_from};
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += strlen(tensors[i].name) + 5;
  char *names = base_allocate(bytes, 1);
  if (!names) {
    return error_set(file->context, COMPUTE_ERROR_OUT_OF_MEMORY, file->operation,
                     "not enough memory to write %s", file->path);
  }
  compute_status status = write_arrays(&writer, names, tensors, count);
  base_release(names);
  return status;
}
