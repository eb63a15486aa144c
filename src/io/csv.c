/* SPDX-License-Identifier: MIT */
/* Tables of numbers from text files.
 *
 * Values are parsed into a list of fixed-size blocks while the file is decompressed, and the blocks
 * are uploaded in sequence. So apart from the values, reading takes constant memory for a file of
 * any size. Nothing is uploaded before the whole file has been checked. */
#include "compute/io.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/float_environment.h"
#include "core/device/device.h"
#include "io/field_reader.h"
#include "core/tensor/tensor.h"
#include "core/device/transfer.h"
#include "core/type/dtype.h"

#define BLOCK_BYTES       262144
#define DEFAULT_MAX_BYTES ((uint64_t)1 << 30)

static const char operation[] = "compute_csv_read";

typedef struct value_block {
  struct value_block *next;
  uint64_t used;
  _Alignas(64) unsigned char data[BLOCK_BYTES];
} value_block;

typedef struct csv_table {
  compute_context *context;
  const char *path;
  compute_dtype dtype;
  size_t size; /* bytes of one element */
  locale_t c_locale;
  value_block *first, *last;
  int64_t rows, columns;
  int64_t line;       /* current line of the file, from 1 */
  int64_t first_line; /* line that determined the number of columns */
  int64_t blank_line; /* first of the blank lines, which are only allowed at the end; 0: none yet */
} csv_table;

/* ---- Values -------------------------------------------------------------------------------- */

/* Returns the place of the next element, or NULL when out of memory. */
static void *next_element(csv_table *table) {
  if (!table->last || table->last->used + table->size > BLOCK_BYTES) {
    value_block *block = base_allocate_aligned(sizeof *block, _Alignof(value_block));
    if (!block) return NULL;
    block->next = NULL;
    block->used = 0;
    *(table->last ? &table->last->next : &table->first) = block;
    table->last = block;
  }
  void *element = table->last->data + table->last->used;
  table->last->used += table->size;
  return element;
}

static void release_first(csv_table *table) {
  value_block *block = table->first;
  table->first = block->next;
  base_release(block);
}

static compute_status upload(csv_table *table, compute_tensor *tensor) {
  compute_argument target = tensor_argument(tensor);
  compute_status status = COMPUTE_OK;
  while (table->first && !status) {
    uint64_t used = table->first->used;
    status = transfer_upload(tensor->buffer->device, &target, table->first->data, used);
    target.offset += used;
    release_first(table);
  }
  return status;
}

/* ---- Fields and lines ---------------------------------------------------------------------- */

/* A field for a message: short, and without control characters. */
static const char *showable(const text_field *field, char *text, size_t bytes) {
  size_t length = field->length < bytes - 4 ? field->length : bytes - 4;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)field->text[i];
    text[i] = c < ' ' || c == 127 ? '?' : (char)c;
  }
  memcpy(text + length, length < field->length ? "..." : "", length < field->length ? 4 : 1);
  return text;
}

static compute_status fail_field(const csv_table *table, int64_t column, const text_field *field,
                                 const char *problem) {
  char text[44];
  return error_set(table->context, COMPUTE_ERROR_FORMAT, operation,
                   "%s, line %" PRId64 ", column %" PRId64 ": \"%s\" %s", table->path, table->line,
                   column, showable(field, text, sizeof text), problem);
}

static compute_status add_value(csv_table *table, int64_t column, const text_field *field) {
  void *element = next_element(table);
  if (!element)
    return error_set(table->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory for the values of %s", table->path);
  char problem[48] = "is too long";
  if (field->too_long) return fail_field(table, column, field, problem);
  switch (number_parse(field->text, field->length, table->dtype, table->c_locale, element)) {
  case NUMBER_OK: return COMPUTE_OK;
  case NUMBER_EMPTY: return fail_field(table, column, field, "is not a number: the field is empty");
  case NUMBER_MALFORMED:
    return fail_field(table, column, field,
                      table->rows == 0 ? "is not a number; skip_rows passes over heading lines"
                                       : "is not a number");
  case NUMBER_NOT_WHOLE: return fail_field(table, column, field, "is not a whole number");
  case NUMBER_OUT_OF_RANGE: break;
  }
  const char *name = compute_dtype_name(table->dtype);
  memcpy(problem, "does not fit ", 13);
  memcpy(problem + 13, name, strlen(name) + 1);
  return fail_field(table, column, field, problem);
}

/* Called at the end of a line with `columns` fields, or at the first field too many. */
static compute_status check_columns(csv_table *table, int64_t columns) {
  if (table->rows == 0) {
    table->columns = columns;
    table->first_line = table->line;
  }
  if (columns == table->columns) return COMPUTE_OK;
  return error_set(table->context, COMPUTE_ERROR_FORMAT, operation,
                   "%s, line %" PRId64 ", column %" PRId64 ": the line has %s than the %" PRId64
                   " columns of line %" PRId64,
                   table->path, table->line, columns, columns < table->columns ? "fewer" : "more",
                   table->columns, table->first_line);
}

/* Reads the rest of a line whose first field is `field`. Afterwards `field` is the line's last
 * field. */
static compute_status read_line(csv_table *table, field_reader *reader, text_field *field) {
  compute_status status = COMPUTE_OK;
  for (int64_t column = 1; !status; column++) {
    if (table->rows > 0 && column > table->columns) return check_columns(table, column);
    status = add_value(table, column, field);
    if (!status && field->end != FIELD_SEPARATOR) return check_columns(table, column);
    if (!status) status = field_reader_next(reader, field);
  }
  return status;
}

static compute_status read_lines(csv_table *table, field_reader *reader) {
  text_field field = {.end = FIELD_LINE};
  for (; field.end != FIELD_FILE; table->line++) {
    compute_status status = field_reader_next(reader, &field);
    if (status) return status;
    if (field.length == 0 && field.end != FIELD_SEPARATOR) {
      if (!table->blank_line) table->blank_line = table->line;
      continue;
    }
    if (table->blank_line)
      return error_set(table->context, COMPUTE_ERROR_FORMAT, operation,
                       "%s, line %" PRId64 ", column 1: the line is empty, but more lines follow",
                       table->path, table->blank_line);
    status = read_line(table, reader, &field);
    if (status) return status;
    table->rows++;
  }
  if (table->rows > 0) return COMPUTE_OK;
  return error_set(table->context, COMPUTE_ERROR_FORMAT, operation,
                   "%s, line %" PRId64 ", column 1: the file ends without a row of numbers",
                   table->path, table->line - 1);
}

static compute_status read_file(csv_table *table, const compute_csv_options *options) {
  field_reader *reader;
  compute_status status = field_reader_open(
      table->context, operation, table->path, options->separator ? options->separator : ',',
      options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES, &reader);
  if (status) return status;
  bool more = true;
  for (int32_t i = 0; i < options->skip_rows && more && !status; i++) {
    status = field_reader_skip_line(reader, &more);
    table->line++;
  }
  if (!status) status = read_lines(table, reader);
  return field_reader_close(reader, status);
}

/* ---- The call ------------------------------------------------------------------------------ */

static compute_status check_options(const compute_context *context,
                                    const compute_csv_options *options) {
  if (options->skip_rows < 0)
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "skip_rows is %d; it must not be negative", (int)options->skip_rows);
  char separator = options->separator;
  if (separator &&
      (strchr("+-.\r\n", separator) || (separator >= '0' && separator <= '9') ||
       (separator >= 'a' && separator <= 'z') || (separator >= 'A' && separator <= 'Z')))
    return error_set(context, COMPUTE_ERROR_INVALID_ARGUMENT, operation,
                     "the separator (code %d) may be part of a number or ends a line", separator);
  return error_if_reserved(context, operation, "options", options->reserved);
}

static compute_status check_call(const compute_device *device, const char *path,
                                 compute_dtype dtype, compute_tensor **tensor) {
  if (tensor) *tensor = NULL;
  const compute_status missing =
      error_if_null(device ? device->context : NULL, operation, device, path, tensor);
  if (missing) return missing;
  if (!dtype_is_float(dtype) && !dtype_is_integer(dtype))
    return error_set(device->context, COMPUTE_ERROR_DTYPE, operation,
                     "a table holds floats or integers, not %s", compute_dtype_name(dtype));
  return COMPUTE_OK;
}

compute_status compute_csv_read(compute_device *device, const char *path, compute_dtype dtype,
                                const compute_csv_options *options, compute_tensor **tensor) {
  FLOAT_ENVIRONMENT_DEFAULT;
  REFUSE_INHERITED(device, context);
  static const compute_csv_options defaults = {0};
  if (!options) options = &defaults;
  compute_status status = check_call(device, path, dtype, tensor);
  if (!status) status = check_options(device->context, options);
  if (status) return status;
  csv_table table = {
      .context = device->context,
      .path = path,
      .dtype = dtype,
      .size = compute_dtype_size(dtype),
      .c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0),
      .line = 1,
  };
  compute_tensor *made = NULL;
  if (!table.c_locale) {
    status = error_set(device->context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                       "not enough memory for a locale");
    goto done;
  }
  status = read_file(&table, options);
  if (status) goto done;
  status = tensor_create_private(device, dtype, COMPUTE_SHAPE(table.rows, table.columns), &made);
  if (!status) status = upload(&table, made);
  if (status) goto done;
  *tensor = made;
  status = scope_register(made);
  made = NULL;

done:
  compute_tensor_release(made);
  while (table.first) release_first(&table);
  if (table.c_locale) freelocale(table.c_locale);
  return status;
}
