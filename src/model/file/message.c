/* SPDX-License-Identifier: MIT */
/* Decodes messages by their tables. Lists are counted before they are filled, so allocations are
 * bounded by the file's size: at most some hundred bytes for each byte of the file. */
#include "model/file/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"

compute_status decode_fail(const onnx_decoder *decoder, compute_status status, const char *format,
                           ...) {
  char problem[400];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  return error_set(decoder->context, status, decoder->operation, "cannot read %s as ONNX: %s",
                   decoder->shown, problem);
}

compute_status decode_out_of_memory(const onnx_decoder *decoder) {
  return decode_fail(decoder, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for it");
}

static bool is_list(field_kind kind) {
  return kind >= FIELD_TEXTS;
}

static compute_status malformed(const onnx_decoder *decoder, const message_type *type,
                                wire message) {
  return decode_fail(decoder, COMPUTE_ERROR_FORMAT, "the %s at byte %td is malformed", type->name,
                     message.at - decoder->file->message.at);
}

static const message_field *find_field(const message_type *type, uint32_t number) {
  for (size_t i = 0; i < type->field_count; i++)
    if (type->fields[i].number == number) return &type->fields[i];
  return NULL;
}

/* The wire type of an element, which also decides if packed runs are allowed. */
static wire_type wire_type_of(field_kind kind) {
  switch (kind) {
  case FIELD_INTEGER:
  case FIELD_GIVEN:
  case FIELD_INTEGERS: return WIRE_VARINT;
  case FIELD_FLOAT:
  case FIELD_FLOATS: return WIRE_FIXED32;
  default: return WIRE_BYTES;
  }
}

static bool fits(const message_field *known, const wire_field *field) {
  if (known->kind == FIELD_PRESENT || known->kind == FIELD_IN_SET) return true;
  const bool packed = known->kind == FIELD_INTEGERS || known->kind == FIELD_FLOATS;
  return field->type == wire_type_of(known->kind) || (packed && field->type == WIRE_BYTES);
}

/* The number of list elements in a field. */
static size_t count_elements(const message_field *known, const wire_field *field) {
  const wire_type type = wire_type_of(known->kind);
  if (field->type != WIRE_BYTES || type == WIRE_BYTES) return 1;
  if (type == WIRE_FIXED32) return wire_bytes(field->bytes) / 4;
  size_t count = 0;
  for (const uint8_t *at = field->bytes.at; at < field->bytes.end; at++) count += *at < 128;
  return count;
}

static size_t element_bytes(const message_field *known) {
  switch (known->kind) {
  case FIELD_TEXTS: return sizeof(const char *);
  case FIELD_INTEGERS: return sizeof(int64_t);
  case FIELD_FLOATS: return sizeof(float);
  default: return known->type->bytes;
  }
}

/* Checks the fields' types and allocates lists. */
static compute_status prepare_lists(onnx_decoder *decoder, const message_type *type, wire message,
                                    unsigned char *raw) {
  wire rest = message;
  wire_field field;
  wire_result next;
  while ((next = wire_next(&rest, &field)) == WIRE_FIELD) {
    const message_field *known = find_field(type, field.number);
    if (!known) continue;
    if (!fits(known, &field)) return malformed(decoder, type, message);
    if (is_list(known->kind))
      ((message_list *)(raw + known->offset))->count += count_elements(known, &field);
  }
  if (next == WIRE_MALFORMED) return malformed(decoder, type, message);
  for (size_t i = 0; i < type->field_count; i++) {
    const message_field *known = &type->fields[i];
    message_list *list = (message_list *)(raw + known->offset);
    if (!is_list(known->kind) || !list->count || list->items) continue;
    if (list->count > INT32_MAX) return malformed(decoder, type, message);
    list->items = arena_allocate(&decoder->file->arena, list->count, element_bytes(known));
    if (!list->items) return decode_out_of_memory(decoder);
    list->count = 0;
  }
  return COMPUTE_OK;
}

static compute_status take_text(onnx_decoder *decoder, const message_type *type, wire bytes,
                                const char **result) {
  const size_t count = wire_bytes(bytes);
  if (count > 0 && memchr(bytes.at, 0, count))
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT,
                       "the %s around byte %td has a string with a zero byte", type->name,
                       bytes.at - decoder->file->message.at);
  *result = count ? arena_text(&decoder->file->arena, bytes.at, count) : "";
  return *result ? COMPUTE_OK : decode_out_of_memory(decoder);
}

static void take_float(uint64_t value, float *result) {
  const uint32_t bits = (uint32_t)value;
  memcpy(result, &bits, sizeof bits);
}

/* Appends the elements of a packed run. */
static bool take_run(const message_field *known, wire run, message_list *list) {
  uint64_t value;
  while (run.at < run.end) {
    if (known->kind == FIELD_FLOATS) {
      if (!wire_take_fixed(&run, 4, &value)) return false;
      take_float(value, (float *)list->items + list->count++);
    } else {
      if (!wire_take_varint(&run, &value)) return false;
      ((int64_t *)list->items)[list->count++] = (int64_t)value;
    }
  }
  return true;
}

static compute_status take_single_message(onnx_decoder *decoder, const message_type *around,
                                          const message_field *known, wire message, void *place) {
  void *seen;
  memcpy(&seen, place, sizeof seen);
  if (seen)
    return decode_fail(decoder, COMPUTE_ERROR_FORMAT, "the %s at byte %td is the second in its %s",
                       known->type->name, message.at - decoder->file->message.at, around->name);
  void *result = arena_allocate(&decoder->file->arena, 1, known->type->bytes);
  if (!result) return decode_out_of_memory(decoder);
  memcpy(place, &result, sizeof result);
  return decode_message(decoder, known->type, message, result);
}

static compute_status take_element(onnx_decoder *decoder, const message_type *type,
                                   const message_field *known, const wire_field *field,
                                   message_list *list) {
  if (known->kind == FIELD_TEXTS)
    return take_text(decoder, type, field->bytes, (const char **)list->items + list->count++);
  if (known->kind == FIELD_MESSAGES)
    return decode_message(decoder, known->type, field->bytes,
                          (char *)list->items + list->count++ * known->type->bytes);
  if (field->type == WIRE_BYTES)
    return take_run(known, field->bytes, list) ? COMPUTE_OK
                                               : malformed(decoder, type, field->bytes);
  if (known->kind == FIELD_FLOATS)
    take_float(field->value, (float *)list->items + list->count++);
  else
    ((int64_t *)list->items)[list->count++] = (int64_t)field->value;
  return COMPUTE_OK;
}

static compute_status take_field(onnx_decoder *decoder, const message_type *type,
                                 const message_field *known, const wire_field *field, void *place) {
  switch (known->kind) {
  case FIELD_INTEGER: *(int64_t *)place = (int64_t)field->value; return COMPUTE_OK;
  case FIELD_GIVEN:
    *(given_integer *)place = (given_integer){true, (int64_t)field->value};
    return COMPUTE_OK;
  case FIELD_FLOAT: take_float(field->value, place); return COMPUTE_OK;
  case FIELD_TEXT: return take_text(decoder, type, field->bytes, place);
  case FIELD_BYTES: *(wire *)place = field->bytes; return COMPUTE_OK;
  case FIELD_PRESENT: *(bool *)place = true; return COMPUTE_OK;
  case FIELD_IN_SET:
    if (field->type != WIRE_BYTES || wire_bytes(field->bytes) > 0)
      *(uint32_t *)place |= 1u << known->number;
    return COMPUTE_OK;
  case FIELD_MESSAGE: return take_single_message(decoder, type, known, field->bytes, place);
  default: return take_element(decoder, type, known, field, place);
  }
}

compute_status decode_message(onnx_decoder *decoder, const message_type *type, wire message,
                              void *result) {
  if (decoder->depth == MOST_NESTED_MESSAGES)
    return decode_fail(
        decoder, COMPUTE_ERROR_FORMAT,
        "the %s at byte %td is nested too deeply; at most %d levels of graphs are allowed",
        type->name, message.at - decoder->file->message.at, MOST_NESTED_GRAPHS);
  unsigned char *raw = decoder->raws + (size_t)decoder->depth++ * MOST_RAW_BYTES;
  memset(raw, 0, type->raw_bytes);
  compute_status status = prepare_lists(decoder, type, message, raw);
  wire rest = message;
  wire_field field;
  while (!status && wire_next(&rest, &field) == WIRE_FIELD) {
    const message_field *known = find_field(type, field.number);
    if (known) status = take_field(decoder, type, known, &field, raw + known->offset);
  }
  decoder->depth--;
  return status ? status : type->finish(decoder, raw, message, result);
}
