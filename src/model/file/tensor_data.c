/* SPDX-License-Identifier: MIT */
/* Elements of tensors. A TensorProto stores them as raw bytes, in one of six lists, or in an
 * external file. Elements in their final form are used in place. Others are converted, after the
 * stored size is checked against the shape. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arithmetic.h"
#include "io/elements.h"
#include "io/new_file.h"
#include "model/file/decode.h"
#include "model/file/types.h"

enum { STRINGS_FIELD = 6, IN_MESSAGE = 0, EXTERNAL = 1 };

static const char *const field_names[] = {
    [4] = "float_data", [5] = "int32_data",   [STRINGS_FIELD] = "string_data",
    [7] = "int64_data", [10] = "double_data", [11] = "uint64_data"};

#define refuse(decoder, tensor, ...) refuse_as(decoder, tensor, COMPUTE_ERROR_FORMAT, __VA_ARGS__)

static compute_status COMPUTE_PRINTF(4, 5)
    refuse_as(const onnx_decoder *decoder, const onnx_tensor *tensor, compute_status status,
              const char *format, ...) {
  char problem[256], name[SHOWN_NAME_BYTES];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  return decode_fail(decoder, status, "tensor '%s' %s", file_show_name(tensor->name, name),
                     problem);
}

/* ---- Sizes --------------------------------------------------------------------------------- */

/* Sets shape and count. Sizes of 0 do not hide an overflow. */
static compute_status take_sizes(const onnx_decoder *decoder, const message_list *sizes,
                                 onnx_tensor *tensor) {
  const int64_t *size = sizes->items;
  const size_t bytes = compute_dtype_size(onnx_dtype(tensor->type));
  int64_t product = bytes ? (int64_t)bytes : 16;
  tensor->count = 1;
  for (size_t i = 0; i < sizes->count; i++) {
    if (size[i] < 0) return refuse(decoder, tensor, "has the size %" PRId64, size[i]);
    if (!checked_multiply(product, max_i64(size[i], 1), &product))
      return refuse(decoder, tensor, "has a shape that exceeds 63 bits");
    tensor->count *= size[i];
  }
  tensor->rank = sizes->count > COMPUTE_MAX_RANK ? -1 : (int32_t)sizes->count;
  if (tensor->rank > 0) {
    tensor->shape.rank = tensor->rank;
    memcpy(tensor->shape.size, size, sizes->count * sizeof *size);
  }
  return COMPUTE_OK;
}

uint64_t tensor_bytes(const onnx_tensor *tensor) {
  return (uint64_t)tensor->count * compute_dtype_size(onnx_dtype(tensor->type));
}

/* Bytes of `count` elements in raw data. */
static uint64_t stored_bytes(const type_row *row, uint64_t count) {
  if (row->bits % 8 == 0) return count * (row->bits / 8u);
  return count / 8 * row->bits + (count % 8 * row->bits + 7) / 8;
}

/* Allocates a tensor's elements. In a normal file, converted elements are a few times as large
 * as the file. A limit stops files where many tensors share one range of an external file, or
 * where sparse tensors are almost empty. */
static compute_status allocate_elements(onnx_decoder *decoder, const onnx_tensor *tensor,
                                        unsigned char **elements) {
  enum { MOST_TIMES = 64, ALWAYS = 1 << 24 };
  const uint64_t bytes = tensor_bytes(tensor);
  const uint64_t present = wire_bytes(decoder->file->message) + decoder->mapped;
  const uint64_t limit =
      present < UINT64_MAX / MOST_TIMES / 2 ? present * MOST_TIMES + ALWAYS : UINT64_MAX / 2;
  if (decoder->converted > limit || bytes > limit - decoder->converted)
    return refuse_as(decoder, tensor, COMPUTE_ERROR_UNSUPPORTED,
                     "would take %" PRIu64 " bytes, too many for a model of %" PRIu64, bytes,
                     present);
  *elements = bytes < SIZE_MAX ? arena_allocate(&decoder->file->arena, (size_t)bytes, 1) : NULL;
  if (!*elements) return decode_out_of_memory(decoder);
  decoder->converted += bytes;
  return COMPUTE_OK;
}

/* ---- From bits ----------------------------------------------------------------------------- */

static void store_little_endian(unsigned char *to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    to[elements_little_endian() ? i : bytes - 1 - i] = (unsigned char)(value >> 8 * i);
}

/* Stores element `index` of the result from the lowest bits of `bits`. */
static void store_element(const type_row *row, unsigned char *elements, size_t index,
                          uint64_t bits) {
  const size_t bytes = compute_dtype_size(row->dtype);
  unsigned char *to = elements + index * bytes;
  float number;
  switch (row->form) {
  case ELEMENT_PLAIN: store_little_endian(to, bits, bytes); return;
  case ELEMENT_BOOL: *to = bits != 0; return;
  case ELEMENT_UNSIGNED: *to = (unsigned char)(bits & ((1u << row->bits) - 1)); return;
  case ELEMENT_SIGNED: {
    const unsigned sign = 1u << (row->bits - 1);
    *to = (unsigned char)(((bits & (2 * sign - 1)) ^ sign) - sign);
    return;
  }
  case ELEMENT_SMALL_FLOAT:
    number = type_small_float(row, (unsigned)(bits & ((1u << row->bits) - 1)));
    memcpy(to, &number, sizeof number);
  }
}

/* ---- Raw data ------------------------------------------------------------------------------ */

static bool is_usable(const type_row *row, wire raw) {
  if (row->form == ELEMENT_PLAIN) return elements_little_endian() || row->bits == 8;
  if (row->form != ELEMENT_BOOL) return false;
  for (const uint8_t *at = raw.at; at < raw.end; at++)
    if (*at > 1) return false;
  return true;
}

static void convert_raw(const type_row *row, wire raw, size_t count, unsigned char *elements) {
  uint64_t bits = 0;
  unsigned present = 0;
  for (size_t i = 0; i < count; i++) {
    if (row->bits > 8) {
      wire_take_fixed(&raw, row->bits / 8u, &bits);
      store_element(row, elements, i, bits);
      continue;
    }
    if (present < row->bits) {
      bits |= (uint64_t)*raw.at++ << present;
      present += 8;
    }
    store_element(row, elements, i, bits & ((1u << row->bits) - 1));
    bits >>= row->bits;
    present -= row->bits;
  }
}

/* Uses or converts raw bytes of the correct length. */
static compute_status use_raw(onnx_decoder *decoder, const type_row *row, wire raw,
                              onnx_tensor *tensor) {
  if (tensor->count == 0) return COMPUTE_OK;
  if (is_usable(row, raw)) {
    tensor->data = raw.at;
    tensor->in_file = true;
    return COMPUTE_OK;
  }
  unsigned char *elements;
  compute_status status = allocate_elements(decoder, tensor, &elements);
  if (status) return status;
  convert_raw(row, raw, (size_t)tensor->count, elements);
  tensor->data = elements;
  return COMPUTE_OK;
}

static compute_status take_raw(onnx_decoder *decoder, const type_row *row,
                               const tensor_message *raw, onnx_tensor *tensor) {
  const uint64_t needed = stored_bytes(row, (uint64_t)tensor->count);
  if (wire_bytes(raw->raw) != needed)
    return refuse(decoder, tensor, "has %zu bytes of elements, but its shape needs %" PRIu64,
                  wire_bytes(raw->raw), needed);
  return use_raw(decoder, row, raw->raw, tensor);
}

static compute_status take_external(onnx_decoder *decoder, const type_row *row,
                                    const tensor_message *raw, onnx_tensor *tensor) {
  wire found;
  compute_status status =
      external_find(decoder, raw, stored_bytes(row, (uint64_t)tensor->count), &found);
  return status ? status : use_raw(decoder, row, found, tensor);
}

/* ---- Lists --------------------------------------------------------------------------------- */

/* Iterates over a list's elements in order. They may be packed, single, or both. */
typedef struct list_walk {
  wire message, run;
  uint32_t field;
  wire_type type;
  bool malformed;
} list_walk;

static bool take_value(wire_type type, wire *run, uint64_t *value) {
  if (type == WIRE_VARINT) return wire_take_varint(run, value);
  return wire_take_fixed(run, type == WIRE_FIXED32 ? 4 : 8, value);
}

static bool walk_next(list_walk *walk, uint64_t *value) {
  wire_field field;
  while (walk->run.at == walk->run.end) {
    if (wire_next(&walk->message, &field) != WIRE_FIELD) return false;
    if (field.number != walk->field) continue;
    if (field.type == walk->type) {
      *value = field.value;
      return true;
    }
    walk->malformed = field.type != WIRE_BYTES;
    if (walk->malformed) return false;
    walk->run = field.bytes;
  }
  walk->malformed = !take_value(walk->type, &walk->run, value);
  return !walk->malformed;
}

static list_walk walk_begin(const type_row *row, wire message) {
  const wire_type type = row->dtype == COMPUTE_F32 && row->bits == 32 ? WIRE_FIXED32
                         : row->dtype == COMPUTE_F64                  ? WIRE_FIXED64
                                                                      : WIRE_VARINT;
  return (list_walk){.message = message, .field = row->field, .type = type};
}

/* Finds the packed run of a float list with exactly `bytes` bytes, which can be used in place. */
static bool find_run(list_walk walk, uint64_t bytes, wire *run) {
  wire_field field;
  if (walk.type == WIRE_VARINT || !elements_little_endian()) return false;
  while (wire_next(&walk.message, &field) == WIRE_FIELD) {
    *run = field.bytes;
    if (field.number == walk.field && field.type == WIRE_BYTES && wire_bytes(*run) == bytes)
      return true;
  }
  return false;
}

/* The number of elements in a list entry: two of 4 bits, four of 2 bits, else one. */
static unsigned entry_elements(const type_row *row) {
  return row->bits == 4 || row->bits == 2 ? 8u / row->bits : 1;
}

static compute_status check_list(const onnx_decoder *decoder, const type_row *row, list_walk walk,
                                 const onnx_tensor *tensor) {
  uint64_t entries = 0, value;
  while (walk_next(&walk, &value)) entries++;
  const char *field = field_names[row->field];
  if (walk.malformed) return refuse(decoder, tensor, "has a malformed %s", field);
  const unsigned each = entry_elements(row);
  const uint64_t needed = (uint64_t)tensor->count / each + ((uint64_t)tensor->count % each != 0);
  if (entries == needed) return COMPUTE_OK;
  return refuse(decoder, tensor, "has %" PRIu64 " numbers in %s, but its shape needs %" PRIu64,
                entries, field, needed);
}

static compute_status take_list(onnx_decoder *decoder, const type_row *row, wire message,
                                onnx_tensor *tensor) {
  list_walk walk = walk_begin(row, message);
  compute_status status = check_list(decoder, row, walk, tensor);
  wire run;
  if (status || tensor->count == 0) return status;
  if (find_run(walk, tensor_bytes(tensor), &run)) return use_raw(decoder, row, run, tensor);
  unsigned char *elements;
  status = allocate_elements(decoder, tensor, &elements);
  if (status) return status;
  const unsigned each = entry_elements(row);
  uint64_t bits = 0;
  for (size_t i = 0; i < (size_t)tensor->count; i++) {
    if (i % each == 0) walk_next(&walk, &bits);
    store_element(row, elements, i, bits);
    if (each > 1) bits >>= row->bits;
  }
  tensor->data = elements;
  return COMPUTE_OK;
}

static compute_status take_strings(const onnx_decoder *decoder, const tensor_message *raw,
                                   onnx_tensor *tensor) {
  if (raw->raw.at || raw->location == EXTERNAL)
    return refuse(decoder, tensor, "has strings outside string_data");
  if ((uint64_t)tensor->count != raw->strings.count)
    return refuse(decoder, tensor, "has %zu strings, but its shape needs %" PRId64,
                  raw->strings.count, tensor->count);
  tensor->strings = raw->strings.items;
  return COMPUTE_OK;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

/* Checks that the elements are in one place only, and in the list of their type. */
static compute_status check_places(const onnx_decoder *decoder, const type_row *row,
                                   const tensor_message *raw, const onnx_tensor *tensor) {
  const uint32_t own = 1u << row->field;
  if (raw->segment)
    return refuse_as(decoder, tensor, COMPUTE_ERROR_UNSUPPORTED, "is a segment of a tensor");
  if (raw->location != IN_MESSAGE && raw->location != EXTERNAL)
    return refuse(decoder, tensor, "has elements in the unknown location %" PRId64, raw->location);
  const bool external = raw->location == EXTERNAL, bytes = wire_bytes(raw->raw) > 0;
  const uint32_t lists = raw->present | (raw->strings.count ? 1u << STRINGS_FIELD : 0);
  if (external + bytes + (lists != 0) > 1)
    return refuse(decoder, tensor, "has elements in more than one place");
  for (uint32_t field = 0; field < sizeof field_names / sizeof *field_names; field++) {
    if (lists >> field & ~own >> field & 1)
      return refuse(decoder, tensor, "has elements in %s, where %s has none", field_names[field],
                    row->name);
  }
  return COMPUTE_OK;
}

compute_status tensor_take(onnx_decoder *decoder, const tensor_message *raw, wire message,
                           onnx_tensor *result) {
  result->name = raw->name ? raw->name : "";
  result->type = raw->type < 0 || raw->type > INT32_MAX ? INT32_MAX : (int32_t)raw->type;
  if (result->type == ONNX_UNDEFINED) return refuse(decoder, result, "has no element type");
  compute_status status = take_sizes(decoder, &raw->sizes, result);
  const type_row *row = type_find(result->type);
  if (status) return status;
  if (result->type == ONNX_STRING) return take_strings(decoder, raw, result);
  if (!row || row->dtype == COMPUTE_DTYPE_NONE) return COMPUTE_OK;
  status = check_places(decoder, row, raw, result);
  if (status) return status;
  if (raw->location == EXTERNAL) return take_external(decoder, row, raw, result);
  if (wire_bytes(raw->raw) > 0) return take_raw(decoder, row, raw, result);
  return take_list(decoder, row, message, result);
}

/* ---- Sparse tensors ------------------------------------------------------------------------ */

static int64_t load_index(const onnx_tensor *indices, size_t at) {
  int64_t value;
  memcpy(&value, (const unsigned char *)indices->data + at * sizeof value, sizeof value);
  return value;
}

/* The position of sparse value `i` in the dense tensor; −1: out of range. `width`: indices per
 * value. */
static int64_t sparse_place(const onnx_tensor *dense, const onnx_tensor *indices, size_t i,
                            size_t width) {
  if (indices->rank == 1) {
    const int64_t place = load_index(indices, i);
    return place < dense->count ? place : -1;
  }
  int64_t place = 0;
  for (size_t axis = 0; axis < width; axis++) {
    const int64_t index = load_index(indices, i * width + axis), size = dense->shape.size[axis];
    if (index < 0 || index >= size) return -1;
    place = place * size + index;
  }
  return place;
}

static compute_status check_sparse(const onnx_decoder *decoder, const sparse_message *raw,
                                   const onnx_tensor *dense) {
  const onnx_tensor *values = raw->values, *indices = raw->indices;
  if (dense->rank < 0)
    return refuse_as(decoder, dense, COMPUTE_ERROR_UNSUPPORTED, "is sparse with more than %d axes",
                     COMPUTE_MAX_RANK);
  if (onnx_dtype(values->type) == COMPUTE_DTYPE_NONE)
    return refuse_as(decoder, dense, COMPUTE_ERROR_UNSUPPORTED, "is sparse, of type %s",
                     onnx_type_name(values->type));
  const bool pairs = indices->rank == 2 && indices->shape.size[0] == values->count &&
                     indices->shape.size[1] == dense->rank;
  const bool places = indices->rank == 1 && indices->count == values->count;
  if (values->rank != 1 || indices->type != ONNX_INT64 || !(pairs || places))
    return refuse(decoder, dense, "is sparse, and its indices do not fit its values");
  return COMPUTE_OK;
}

compute_status tensor_take_sparse(onnx_decoder *decoder, const sparse_message *raw,
                                  onnx_tensor *result) {
  const onnx_tensor *values = raw->values;
  result->name = values ? values->name : "";
  if (!values || !raw->indices)
    return refuse(decoder, result, "is sparse and has no values or no indices");
  result->type = values->type;
  compute_status status = take_sizes(decoder, &raw->sizes, result);
  if (!status) status = check_sparse(decoder, raw, result);
  if (status) return status;
  unsigned char *elements;
  status = allocate_elements(decoder, result, &elements);
  if (status) return status;
  const size_t bytes = compute_dtype_size(onnx_dtype(result->type));
  int64_t last = -1;
  for (size_t i = 0; i < (size_t)values->count; i++) {
    const int64_t place = sparse_place(result, raw->indices, i, (size_t)result->rank);
    if (place <= last)
      return refuse(decoder, result, "is sparse, and its index %zu is out of range or order", i);
    memcpy(elements + (size_t)place * bytes, (const unsigned char *)values->data + i * bytes,
           bytes);
    last = place;
  }
  result->data = result->count ? elements : NULL;
  return COMPUTE_OK;
}
