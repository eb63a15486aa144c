/* SPDX-License-Identifier: MIT */
/* Tables as NumPy's arrays of records, in this machine's byte order. The library's .npy reader does
 * not support records. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/fit/table.h"

enum { MOST_HEAD = 1 << 16, PIECE_ROWS = 4096 };

static const column_type types[] = {TYPE_I64, TYPE_I32, TYPE_U32, TYPE_U8, TYPE_F32, TYPE_F64};

static bool type_of_code(const char *code, size_t length, column_type *type) {
  if (length != 3 || (code[0] != '|' && code[0] != '<')) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strncmp(code + 1, column_type_code(types[i]), 2) != 0) continue;
    *type = types[i];
    return true;
  }
  return false;
}

/* ---- The header ---------------------------------------------------------------------------- */

/* Reads a quoted text such as 'x' at *at, and moves *at behind it. NULL: there is no text. */
static const char *take_text(const char **at, size_t *length) {
  const char *first = *at + strspn(*at, " ,(");
  if (*first != '\'') return NULL;
  *length = strcspn(++first, "'");
  if (first[*length] != '\'') return NULL;
  *at = first + *length + 1;
  return first;
}

/* Reads the shape ", (4, 4)" of a column of matrices, if there is one. */
static bool take_matrix(const char **at, table_column *c) {
  int rows = 0, columns = 0, used = 0;
  if (**at != ',') return true;
  if (sscanf(*at, ", (%d, %d)%n", &rows, &columns, &used) != 2 || used == 0 || rows < 1 ||
      columns < 1 || rows > COMPUTE_FIT_MAX_PARAMETERS || columns > COMPUTE_FIT_MAX_PARAMETERS)
    return false;
  c->rows = rows;
  c->columns = columns;
  *at += used;
  return true;
}

static compute_status fail_head(const char *path, failure *why) {
  return failure_set(why, COMPUTE_ERROR_FORMAT,
                     "compute-fit fit writes tables as -o NAME.npy, NAME.csv or NAME.hdf5",
                     "%s is not a table: a .npy of records of numbers", path);
}

static compute_status read_descr(const char *path, const char *at, table *t, failure *why) {
  for (;;) {
    size_t length = 0, code_length = 0;
    column_type type = TYPE_F64;
    const char *name = take_text(&at, &length), *code = name ? take_text(&at, &code_length) : NULL;
    if (!code || !type_of_code(code, code_length, &type)) return fail_head(path, why);
    compute_status status = table_describe(t, path, name, length, type, why);
    if (status) return status;
    table_column *c = &t->columns[t->count - 1];
    if (!take_matrix(&at, c)) return fail_head(path, why);
    if (c->rows) t->stride += c->rows * c->columns - 1;
    if (*at++ != ')') return fail_head(path, why);
    if (*at == ']') return COMPUTE_OK;
  }
}

/* The length of the header's text in bytes; 0: the file is not a .npy. */
static size_t head_bytes(FILE *file) {
  unsigned char start[12];
  if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) return 0;
  size_t length = (size_t)start[8] | (size_t)start[9] << 8;
  if (start[6] == 1) return length;
  if (fread(start + 10, 1, 2, file) != 2) return 0;
  length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  return length <= MOST_HEAD ? length : 0;
}

static compute_status parse_head(const char *path, const char *text, table *t, int64_t *rows,
                                 failure *why) {
  const char *descr = strstr(text, "'descr': ["), *shape = strstr(text, "'shape': (");
  char *end;
  if (!descr || !shape) return fail_head(path, why);
  compute_status status = read_descr(path, descr + 10, t, why);
  if (status) return status;
  *rows = strtoll(shape + 10, &end, 10);
  const bool flat = end[0] == ',' && end[strspn(end, ", ")] == ')';
  return end != shape + 10 && flat && *rows >= 0 ? COMPUTE_OK : fail_head(path, why);
}

static compute_status read_head(const char *path, FILE *file, table *t, int64_t *rows,
                                failure *why) {
  char *text = calloc(1, MOST_HEAD + 1);
  const size_t length = text ? head_bytes(file) : 0;
  compute_status status = length > 0 && fread(text, 1, length, file) == length
                              ? parse_head(path, text, t, rows, why)
                              : fail_head(path, why);
  free(text);
  return status;
}

/* ---- Records ------------------------------------------------------------------------------- */

static size_t values_of(const table_column *c) {
  return c->rows ? (size_t)(c->rows * c->columns) : 1;
}

static size_t record_bytes(const table *t) {
  size_t bytes = 0;
  for (int32_t i = 0; i < t->count; i++)
    bytes += values_of(&t->columns[i]) * column_type_bytes(t->columns[i].type);
  return bytes;
}

#define TAKE(c_type)                                                                               \
  {                                                                                                \
    c_type number;                                                                                 \
    memcpy(&number, at, sizeof number);                                                            \
    return (double)number;                                                                         \
  }

static double take_number(column_type type, const unsigned char *at) {
  switch (type) {
  case TYPE_I64: TAKE(int64_t)
  case TYPE_I32: TAKE(int32_t)
  case TYPE_U32: TAKE(uint32_t)
  case TYPE_U8: TAKE(uint8_t)
  case TYPE_F32: TAKE(float)
  case TYPE_F64: TAKE(double)
  }
  return 0;
}

#define PUT(c_type)                                                                                \
  {                                                                                                \
    const c_type number = (c_type)value;                                                           \
    memcpy(at, &number, sizeof number);                                                            \
    break;                                                                                         \
  }

static void put_number(column_type type, double value, unsigned char *at) {
  switch (type) {
  case TYPE_I64: PUT(int64_t)
  case TYPE_I32: PUT(int32_t)
  case TYPE_U32: PUT(uint32_t)
  case TYPE_U8: PUT(uint8_t)
  case TYPE_F32: PUT(float)
  case TYPE_F64: PUT(double)
  }
}

/* Converts a record to a row of doubles (`reading`) or a row to a record. */
static void convert_record(const table *t, unsigned char *record, double *row, bool reading) {
  for (int32_t i = 0; i < t->count; i++) {
    const table_column *c = &t->columns[i];
    for (size_t k = 0; k < values_of(c); k++, record += column_type_bytes(c->type)) {
      if (reading)
        row[c->first + (int32_t)k] = take_number(c->type, record);
      else
        put_number(c->type, row[c->first + (int32_t)k], record);
    }
  }
}

static compute_status read_rows(const char *path, FILE *file, table *t, failure *why) {
  const size_t bytes = record_bytes(t);
  unsigned char *records = malloc(PIECE_ROWS * bytes);
  if (!records)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to read %s", path);
  compute_status status = COMPUTE_OK;
  for (int64_t row = 0; row < t->rows && !status; row += PIECE_ROWS) {
    const size_t count = t->rows - row < PIECE_ROWS ? (size_t)(t->rows - row) : PIECE_ROWS;
    if (fread(records, bytes, count, file) != count)
      status = failure_set(why, COMPUTE_ERROR_FORMAT, "copy or create the file again",
                           "%s is truncated: it should have %" PRId64 " rows", path, t->rows);
    for (size_t i = 0; i < count && !status; i++)
      convert_record(t, records + i * bytes, t->values + (row + (int64_t)i) * t->stride, true);
  }
  free(records);
  return status;
}

/* Returns true if the file is long enough for the rows in its header. Called before memory is
 * allocated for them. */
static bool is_long_enough(FILE *file, const table *t, int64_t rows) {
  const long at = ftell(file);
  if (at < 0 || fseek(file, 0, SEEK_END)) return false;
  const long end = ftell(file);
  return end >= at && !fseek(file, at, SEEK_SET) &&
         (uint64_t)rows <= (uint64_t)(end - at) / record_bytes(t);
}

compute_status table_read_npy(const char *path, table *t, failure *why) {
  FILE *file = fopen(path, "re");
  int64_t rows = 0;
  if (!file) return failure_set_system(why, errno, NULL, "cannot open %s", path);
  compute_status status = read_head(path, file, t, &rows, why);
  if (!status && !is_long_enough(file, t, rows))
    status = failure_set(why, COMPUTE_ERROR_FORMAT, "copy or create the file again",
                         "%s is truncated: it should have %" PRId64 " rows", path, rows);
  if (!status) status = table_allocate(t, path, rows, why);
  if (!status) status = read_rows(path, file, t, why);
  fclose(file);
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static size_t make_head(const table *t, char *text, size_t room) {
  size_t used = npy_begin(text, room);
  for (int32_t i = 0; i < t->count; i++) {
    const table_column *c = &t->columns[i];
    used = npy_put_column(text, used, room, c->name, c->type, c->rows, c->columns);
  }
  return npy_end(text, used, room, t->rows, 0);
}

compute_status table_write_npy(const table *t, FILE *file) {
  enum { ROOM = 160 * TABLE_MOST_COLUMNS };
  char head[ROOM];
  unsigned char record[8 * TABLE_MOST_COLUMNS * COMPUTE_FIT_MAX_PARAMETERS];
  const size_t bytes = record_bytes(t), length = make_head(t, head, sizeof head);
  if (fwrite(head, 1, length, file) != length || bytes > sizeof record) return COMPUTE_ERROR_FILE;
  for (int64_t i = 0; i < t->rows; i++) {
    convert_record(t, record, t->values + i * t->stride, false);
    if (fwrite(record, 1, bytes, file) != bytes) return COMPUTE_ERROR_FILE;
  }
  return COMPUTE_OK;
}
