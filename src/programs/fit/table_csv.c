/* SPDX-License-Identifier: MIT */
/* Tables as text. This file reads the heading; the library's CSV reader reads the numbers. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute.h"
#include "programs/fit/number_text.h"
#include "programs/fit/table.h"

enum { MOST_LINE = 8192, LOOKED_AT = 256 };

/* Reads the column names in the heading, with or without quotes. */
static compute_status read_heading(const char *path, char *line, table *t, failure *why) {
  line[strcspn(line, "\r\n")] = '\0';
  for (char *name = line; name; t->columns[t->count - 1].decimals = -2) {
    char *next = *name == '"' ? strchr(name + 1, '"') : NULL;
    const bool quoted = next != NULL;
    if (quoted) *next++ = '\0', name++;
    char *comma = strchr(quoted ? next : name, ',');
    if (comma) *comma = '\0';
    if (!quoted && strspn(name, "+-.0123456789eE ") == strlen(name))
      return failure_set(why, COMPUTE_ERROR_FORMAT, "the first line must be the columns' names",
                         "%s: column %d has no name", path, (int)t->count + 1);
    compute_status status = table_describe(t, path, name, strlen(name), TYPE_F64, why);
    if (status) return status;
    name = comma ? comma + 1 : NULL;
  }
  return COMPUTE_OK;
}

/* Records the digits after the point in a line's fields, so that they are written in the same way.
 * `decimals` stays −2 while a column has only integers. */
static void note_decimals(const char *line, table *t) {
  for (int32_t i = 0; i < t->count && *line; i++) {
    const size_t length = strcspn(line, ",\r\n"), whole = strcspn(line, ".,\r\n");
    const size_t digits = whole < length ? strspn(line + whole + 1, "0123456789") : 0;
    int *decimals = &t->columns[i].decimals;
    if (whole < length && (whole + 1 + digits != length || digits > 9))
      *decimals = COLUMN_SHORT;
    else if (whole < length && *decimals != COLUMN_SHORT && *decimals < (int)digits)
      *decimals = (int)digits;
    line += length + (line[length] == ',');
  }
}

static void choose_types(table *t) {
  for (int32_t i = 0; i < t->count; i++) {
    if (t->columns[i].decimals != -2) continue;
    t->columns[i].type = TYPE_I64;
    t->columns[i].decimals = 0;
  }
}

/* Reads the heading and examines some lines. *empty: no line follows. */
static compute_status read_names(const char *path, table *t, bool *empty, failure *why) {
  char *line = calloc(1, MOST_LINE);
  FILE *file = fopen(path, "re");
  compute_status status = COMPUTE_OK;
  if (!file)
    status = failure_set_system(why, errno, NULL, "cannot open %s", path);
  else if (!line || !fgets(line, MOST_LINE, file))
    status = failure_set(why, COMPUTE_ERROR_FORMAT, NULL, "%s is empty", path);
  if (!status) status = read_heading(path, line, t, why);
  *empty = true;
  for (int i = 0; i < LOOKED_AT && !status && fgets(line, MOST_LINE, file); i++) {
    if (line[strspn(line, " \r\n")]) *empty = false;
    note_decimals(line, t);
  }
  choose_types(t);
  if (file) fclose(file);
  free(line);
  return status;
}

static compute_status take_error(failure *why, compute_status status) {
  compute_error error = {0};
  compute_error_get(NULL, &error);
  return failure_set(why, status, error.remedy, "%s", error.message);
}

/* Makes an integer column real if a later line, which was not examined, has NaN or a fraction. */
static void widen_types(table *t) {
  for (int32_t k = 0; k < t->count; k++) {
    table_column *c = &t->columns[k];
    for (int64_t i = 0; c->type == TYPE_I64 && i < t->rows; i++) {
      const double value = t->values[i * t->stride + c->first];
      if (fabs(value) < 0x1p63 && value == trunc(value)) continue;
      c->type = TYPE_F64;
      c->decimals = COLUMN_SHORT;
    }
  }
}

static compute_status read_numbers(const char *path, table *t, failure *why) {
  compute_context *context = NULL;
  compute_device *cpu = NULL;
  compute_tensor *tensor = NULL;
  const compute_csv_options options = {.skip_rows = 1, .max_bytes = UINT64_MAX};
  compute_status status = compute_open(&context, NULL);
  if (!status) status = compute_device_by_name(context, "cpu", &cpu);
  if (!status) status = compute_csv_read(cpu, path, COMPUTE_F64, &options, &tensor);
  if (status) {
    take_error(why, status);
  } else if (compute_tensor_shape(tensor).size[1] != t->stride) {
    status = failure_set(why, COMPUTE_ERROR_FORMAT, NULL,
                         "%s: the heading names %d columns, but the rows have %d", path,
                         (int)t->stride, (int)compute_tensor_shape(tensor).size[1]);
  } else {
    const int64_t rows = compute_tensor_shape(tensor).size[0];
    status = table_allocate(t, path, rows, why);
    const size_t bytes = (size_t)(rows * t->stride) * sizeof *t->values;
    if (!status && compute_tensor_read(tensor, t->values, bytes))
      status = take_error(why, COMPUTE_ERROR_FILE);
  }
  compute_tensor_release(tensor);
  if (context) compute_close(context);
  if (!status) widen_types(t);
  return status;
}

compute_status table_read_csv(const char *path, table *t, failure *why) {
  bool empty = false;
  compute_status status = read_names(path, t, &empty, why);
  if (status) return status;
  return empty ? table_allocate(t, path, 0, why) : read_numbers(path, t, why);
}

/* ---- Writing ------------------------------------------------------------------------------- */

static char *put_value(const table_column *c, double value, char *text) {
  if (c->type != TYPE_F64 && c->type != TYPE_F32) return number_integer(text, (int64_t)value);
  return c->decimals == COLUMN_SHORT ? number_short(text, value)
                                     : number_fixed(text, value, c->decimals);
}

compute_status table_write_csv(const table *t, FILE *file) {
  char line[TABLE_MOST_COLUMNS * (NUMBER_TEXT_MOST + 1) + NUMBER_TEXT_BYTES];
  for (int32_t i = 0; i < t->count; i++)
    fprintf(file, "%s\"%s\"", i ? "," : "", t->columns[i].name);
  fputc('\n', file);
  for (int64_t row = 0; row < t->rows; row++) {
    char *end = line;
    for (int32_t i = 0; i < t->count; i++) {
      end = put_value(&t->columns[i], t->values[row * t->stride + t->columns[i].first], end);
      *end++ = ',';
    }
    end[-1] = '\n';
    if (fwrite(line, 1, (size_t)(end - line), file) != (size_t)(end - line))
      return COMPUTE_ERROR_FILE;
  }
  return ferror(file) ? COMPUTE_ERROR_FILE : COMPUTE_OK;
}
