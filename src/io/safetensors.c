/* SPDX-License-Identifier: MIT */
/* safetensors: the header's length in 8 bytes, the header, the elements. All numbers are
 * little-endian.
 *
 *   { "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
 *     "__metadata__": {"text": "text", …} }      blanks up to a multiple of 8
 *
 * Offsets count from the end of the header. Together the tensors cover the rest of the file,
 * without gaps and overlaps. The format follows the README of the safetensors library and the
 * inputs that the library accepts. Unknown keys of a tensor are refused here. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "io/new_file.h"
#include "core/base/json.h"
#include "io/tensor_file.h"

static const struct {
  const char *name;
  compute_dtype dtype;
} dtypes[] = {
#define DTYPE(code, ...) {#code, COMPUTE_##code},
    COMPUTE_DTYPES(DTYPE)
#undef DTYPE
};

enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

/* ---- The header's parts -------------------------------------------------------------------- */

typedef struct header_reader {
  compute_tensor_file *file;
  const char *operation;
  json_input text;
  const char *name; /* name of the tensor being read, or NULL */
} header_reader;

#define refuse(reader, ...) refuse_as(reader, COMPUTE_ERROR_FORMAT, __VA_ARGS__)

static compute_status COMPUTE_PRINTF(3, 4)
    refuse_as(const header_reader *reader, compute_status status, const char *format, ...) {
  char problem[192], name[SHOWN_NAME_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  const compute_tensor_file *file = reader->file;
  if (!reader->name)
    return error_set(file->context, status, reader->operation, "cannot read %s as safetensors: %s",
                     file->path, problem);
  return error_set(file->context, status, reader->operation,
                   "cannot read %s as safetensors: \"%s\" %s", file->path,
                   file_show_name(reader->name, name), problem);
}

static compute_status refuse_text(const header_reader *reader, const char *expected) {
  return refuse(reader, "%sheader byte %td: expected %s",
                reader->name ? "has a malformed description: " : "",
                reader->text.at - reader->text.begin, expected);
}

static compute_status take_dtype(header_reader *reader, stored_tensor *tensor) {
  char *name, shown[SHOWN_NAME_BYTES];
  if (!json_take_string(&reader->text, &name)) return refuse_text(reader, "a dtype");
  for (size_t i = 0; i < DTYPE_COUNT; i++) {
    if (strcmp(dtypes[i].name, name) != 0) continue;
    tensor->format.dtype = dtypes[i].dtype;
    return COMPUTE_OK;
  }
  return refuse_as(reader, COMPUTE_ERROR_UNSUPPORTED, "has the unknown element type %s",
                   file_show_name(name, shown));
}

static compute_status take_number(header_reader *reader, int64_t *value) {
  switch (json_take_whole(&reader->text, value)) {
  case JSON_NUMBER: return COMPUTE_OK;
  case JSON_TOO_LARGE: return refuse(reader, "has a size or offset that exceeds 63 bits");
  case JSON_NO_NUMBER: break;
  }
  return refuse_text(reader, "an integer");
}

static compute_status take_shape(header_reader *reader, stored_tensor *tensor) {
  compute_shape *shape = &tensor->format.shape;
  if (!json_take(&reader->text, '[')) return refuse_text(reader, "a shape");
  if (json_take(&reader->text, ']')) return COMPUTE_OK;
  do {
    if (shape->rank == COMPUTE_MAX_RANK)
      return refuse_as(reader, COMPUTE_ERROR_UNSUPPORTED, "has more than %d dimensions",
                       COMPUTE_MAX_RANK);
    compute_status status = take_number(reader, &shape->size[shape->rank++]);
    if (status) return status;
  } while (json_take(&reader->text, ','));
  return json_take(&reader->text, ']') ? COMPUTE_OK : refuse_text(reader, "',' or ']' in a shape");
}

static compute_status take_offsets(header_reader *reader, stored_tensor *tensor) {
  int64_t begin, end;
  if (!json_take(&reader->text, '[')) return refuse_text(reader, "offsets");
  compute_status status = take_number(reader, &begin);
  if (status) return status;
  if (!json_take(&reader->text, ',')) return refuse_text(reader, "a second offset");
  status = take_number(reader, &end);
  if (status) return status;
  if (!json_take(&reader->text, ']')) return refuse_text(reader, "']' after two offsets");
  if (begin > end) return refuse(reader, "ends before it begins");
  tensor->offset = (uint64_t)begin;
  tensor->bytes = (uint64_t)(end - begin);
  return COMPUTE_OK;
}

/* Reads the description of a tensor: each of the three members exactly once, in any order. */
static compute_status take_tensor(header_reader *reader, stored_tensor *tensor) {
  static const struct {
    const char *key;
    compute_status (*take)(header_reader *reader, stored_tensor *tensor);
  } parts[] = {{"dtype", take_dtype}, {"shape", take_shape}, {"data_offsets", take_offsets}};
  unsigned seen = 0;
  if (!json_take(&reader->text, '{')) return refuse_text(reader, "a description");
  for (bool first = true; !json_take(&reader->text, '}'); first = false) {
    char *key, shown[SHOWN_NAME_BYTES];
    if ((!first && !json_take(&reader->text, ',')) || !json_take_string(&reader->text, &key) ||
        !json_take(&reader->text, ':'))
      return refuse_text(reader, "another member of a description");
    size_t i = 0;
    while (i < 3 && strcmp(parts[i].key, key) != 0) i++;
    if (i == 3 || (seen >> i & 1)) {
      return refuse(reader, "has '%s' %s", file_show_name(key, shown),
                    i == 3 ? "as an unknown key" : "twice");
    }
    seen |= 1u << i;
    compute_status status = parts[i].take(reader, tensor);
    if (status) return status;
  }
  for (size_t i = 0; i < 3; i++) {
    if (!(seen >> i & 1)) return refuse(reader, "has no '%s'", parts[i].key);
  }
  uint64_t bytes;
  if (!tensor_file_bytes(tensor->format.dtype, tensor->format.shape, &bytes))
    return refuse(reader, "has a shape that exceeds 63 bits");
  if (bytes == tensor->bytes) return COMPUTE_OK;
  return refuse(reader, "has offsets for %" PRIu64 " bytes, but its shape needs %" PRIu64,
                tensor->bytes, bytes);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static compute_status take_metadata_into(header_reader *reader, void **keys, size_t *capacity) {
  size_t count = 0;
  if (!json_take(&reader->text, '{')) return refuse_text(reader, "metadata");
  for (; !json_take(&reader->text, '}'); count++) {
    char *key, *value;
    if ((count > 0 && !json_take(&reader->text, ',')) || !json_take_string(&reader->text, &key) ||
        !json_take(&reader->text, ':') || !json_take_string(&reader->text, &value))
      return refuse_text(reader, "another pair of texts in the metadata");
    if (base_grow(keys, capacity, count + 1, sizeof key))
      return refuse_as(reader, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for its metadata");
    ((const char **)*keys)[count] = key;
  }
  const char **sorted = *keys;
  if (count > 1) qsort(sorted, count, sizeof *sorted, compare_texts);
  for (size_t i = 1; i < count; i++) {
    if (!strcmp(sorted[i - 1], sorted[i]))
      return refuse(reader, "two metadata entries have the same name");
  }
  return COMPUTE_OK;
}

/* Checks the metadata and discards it. */
static compute_status take_metadata(header_reader *reader) {
  void *keys = NULL;
  size_t capacity = 0;
  compute_status status = take_metadata_into(reader, &keys, &capacity);
  base_release(keys);
  return status;
}

static compute_status take_header(header_reader *reader) {
  bool metadata = false;
  if (!json_take(&reader->text, '{')) return refuse_text(reader, "an object");
  for (bool first = true; !json_take(&reader->text, '}'); first = false) {
    char *name;
    if ((!first && !json_take(&reader->text, ',')) || !json_take_string(&reader->text, &name) ||
        !json_take(&reader->text, ':'))
      return refuse_text(reader, "another tensor or the end");
    compute_status status;
    if (!strcmp(name, "__metadata__")) {
      if (metadata) return refuse(reader, "it has '__metadata__' twice");
      metadata = true;
      status = take_metadata(reader);
    } else {
      stored_tensor *tensor = tensor_file_add(reader->file);
      if (!tensor)
        return refuse_as(reader, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for its list");
      tensor->name = reader->name = name;
      status = take_tensor(reader, tensor);
      reader->name = NULL;
    }
    if (status) return status;
  }
  return json_ends(&reader->text) ? COMPUTE_OK : refuse_text(reader, "its end");
}

/* ---- The header as a whole ----------------------------------------------------------------- */

static int compare_places(const void *a, const void *b) {
  const stored_tensor *x = *(const stored_tensor *const *)a, *y = *(const stored_tensor *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks that the tensors follow each other up to the end. Makes their offsets count from the
 * file's start. */
static compute_status check_places(header_reader *reader, stored_tensor **sorted,
                                   uint64_t data_offset) {
  compute_tensor_file *file = reader->file;
  uint64_t room = file->bytes - data_offset, end = 0;
  for (size_t i = 0; i < file->count; i++) sorted[i] = &file->tensors[i];
  qsort(sorted, file->count, sizeof *sorted, compare_places);
  for (size_t i = 0; i < file->count; i++) {
    reader->name = sorted[i]->name;
    if (sorted[i]->offset > room || sorted[i]->bytes > room - sorted[i]->offset)
      return refuse(reader, "reaches past the file's end: the file may be truncated");
    if (sorted[i]->offset != end)
      return refuse(reader, "begins at %" PRIu64 ", but the previous tensor ends at %" PRIu64,
                    sorted[i]->offset, end);
    end += sorted[i]->bytes;
  }
  reader->name = NULL;
  if (end != room)
    return refuse(reader, "%" PRIu64 " extra byte%s its tensors", room - end,
                  room - end == 1 ? " follows" : "s follow");
  for (size_t i = 0; i < file->count; i++) file->tensors[i].offset += data_offset;
  return COMPUTE_OK;
}

static compute_status check_header(header_reader *reader, uint64_t data_offset) {
  size_t count = reader->file->count;
  stored_tensor **sorted = base_allocate(count, sizeof *sorted);
  if (!sorted)
    return refuse_as(reader, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for its list");
  compute_status status = check_places(reader, sorted, data_offset);
  base_release(sorted);
  return status;
}

static uint64_t load_length(const unsigned char bytes[8]) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
  return length;
}

static compute_status safetensors_read(const compute_tensor_file *file, const char *operation,
                                       const compute_context *context, const stored_tensor *tensor,
                                       compute_device *device, compute_tensor **result);

compute_status safetensors_list(compute_tensor_file *file, const char *operation) {
  header_reader reader = {.file = file, .operation = operation};
  unsigned char prefix[8];
  if (file->bytes < sizeof prefix) return refuse(&reader, "its header is truncated");
  int code = file_read_at(file->descriptor, 0, prefix, sizeof prefix);
  if (code) return file_error(file->context, operation, file->path, "read", code);
  uint64_t length = load_length(prefix);
  if (length > TENSOR_FILE_MAX_LIST) {
    return refuse(&reader, "its header claims %" PRIu64 " bytes", length);
  }
  if (length > file->bytes - sizeof prefix)
    return refuse(&reader, "its header has %" PRIu64 " bytes and the file %" PRIu64, length,
                  file->bytes);
  file->text = base_allocate(length + 1, 1);
  if (!file->text)
    return refuse_as(&reader, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for it");
  code = file_read_at(file->descriptor, sizeof prefix, file->text, (size_t)length);
  if (code) return file_error(file->context, operation, file->path, "read", code);
  reader.text = (json_input){file->text, file->text, file->text + length};
  file->read = safetensors_read;
  compute_status status = take_header(&reader);
  return status ? status : check_header(&reader, sizeof prefix + length);
}

/* ---- Elements ------------------------------------------------------------------------------ */

typedef struct place_reader {
  const compute_tensor_file *file;
  const char *operation;
  const compute_context *context;
  uint64_t offset;
} place_reader;

static compute_status read_place(void *user, void *data, size_t bytes) {
  place_reader *place = user;
  int code = file_read_at(place->file->descriptor, place->offset, data, bytes);
  if (code) return file_error(place->context, place->operation, place->file->path, "read", code);
  place->offset += bytes;
  return COMPUTE_OK;
}

static compute_status safetensors_read(const compute_tensor_file *file, const char *operation,
                                       const compute_context *context, const stored_tensor *tensor,
                                       compute_device *device, compute_tensor **result) {
  place_reader place = {file, operation, context, tensor->offset};
  element_format format = tensor->format;
  format.swapped = !elements_little_endian();
  return elements_read(operation, device, &format, read_place, &place, result);
}

/* ---- Writing ------------------------------------------------------------------------------- */

static const char *dtype_name(compute_dtype dtype) {
  size_t i = 0;
  while (i + 1 < DTYPE_COUNT && dtypes[i].dtype != dtype) i++;
  return dtypes[i].name;
}

static void add_header(text_buffer *text, const compute_named_tensor *tensors, const size_t *order,
                       size_t count) {
  uint64_t offset = 0;
  text_add(text, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (size_t i = 0; i < count; i++) {
    const compute_tensor *tensor = tensors[order[i]].tensor;
    char shape[176];
    compute_shape_text(tensor->shape, shape, sizeof shape);
    text_add(text, ",");
    json_put_string(text, tensors[order[i]].name);
    text_add(text, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
             dtype_name(tensor->dtype), shape, offset, offset + tensor_dense_bytes(tensor));
    offset += tensor_dense_bytes(tensor);
  }
  text_add(text, "}");
  while (text->length % 8 != 0 && !text->failed) text_add(text, " ");
}

static compute_status write_elements(void *user, const void *data, size_t bytes) {
  return new_file_write(user, data, bytes);
}

static compute_status write_in_order(new_file *file, const compute_named_tensor *tensors,
                                     const size_t *order, size_t count) {
  text_buffer text = {0};
  add_header(&text, tensors, order, count);
  compute_status status = COMPUTE_OK;
  if (text.failed) {
    status = error_set(file->context, COMPUTE_ERROR_OUT_OF_MEMORY, file->operation,
                       "not enough memory for the header of %s", file->path);
  } else if (text.length > TENSOR_FILE_MAX_LIST) {
    status = error_set(file->context, COMPUTE_ERROR_INVALID_ARGUMENT, file->operation,
                       "%zu names make the header too large (%zu bytes)", count, text.length);
  }
  unsigned char prefix[8];
  for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)text.length >> 8 * i);
  if (!status) status = new_file_write(file, prefix, sizeof prefix);
  if (!status) status = new_file_write(file, text.data, text.length);
  text_release(&text);
  for (size_t i = 0; i < count && !status; i++) {
    status = elements_write(file->operation, tensors[order[i]].tensor, !elements_little_endian(),
                            write_elements, file);
  }
  return status;
}

/* Writes tensors with large elements first, so all are aligned when the file is mapped. */
compute_status safetensors_write(new_file *file, const compute_named_tensor *tensors,
                                 size_t count) {
  size_t *order = base_allocate(count, sizeof *order), used = 0;
  if (!order)
    return error_set(file->context, COMPUTE_ERROR_OUT_OF_MEMORY, file->operation,
                     "not enough memory to write %s", file->path);
  compute_status status = COMPUTE_OK;
  for (size_t size = 8; size > 0; size /= 2) {
    for (size_t i = 0; i < count; i++) {
      if (compute_dtype_size(tensors[i].tensor->dtype) == size) order[used++] = i;
      if (size > 1 || strcmp(tensors[i].name, "__metadata__") != 0) continue;
      status = error_set(file->context, COMPUTE_ERROR_INVALID_ARGUMENT, file->operation,
                         "the name \"__metadata__\" is reserved in safetensors files");
    }
  }
  if (!status) status = write_in_order(file, tensors, order, count);
  base_release(order);
  return status;
}
