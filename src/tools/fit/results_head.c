/* How files of results begin. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/fit/results_private.h"

/* "('x', '<f8'), " and so on: what NumPy calls the type of a record. */
static size_t put_descr(const column_set *set, char *text, size_t room) {
  const uint16_t one = 1;
  bool little = *(const unsigned char *)&one == 1;
  size_t used = 0;
  for (int32_t i = 0; i < set->count; i++) {
    const column *c = &set->columns[i];
    char order = column_type_bytes(c->type) == 1 ? '|' : little ? '<' : '>', matrix[32] = "";
    if (c->side) snprintf(matrix, sizeof matrix, ", (%d, %d)", c->side, c->side);
    used += (size_t)snprintf(text + used, room - used, "%s('%s', '%c%s'%s)", i ? ", " : "", c->name,
                             order, column_type_code(c->type), matrix);
  }
  return used;
}

/* The number of rows is followed by as many blanks as make its length constant. */
static size_t npy_head(const column_set *set, int64_t rows, char *text) {
  size_t used = 10;
  used += (size_t)snprintf(text + used, RESULTS_HEAD_BYTES - used, "{'descr': [");
  used += put_descr(set, text + used, RESULTS_HEAD_BYTES - used);
  char number[24];
  snprintf(number, sizeof number, "%" PRId64, rows);
  used += (size_t)snprintf(text + used, RESULTS_HEAD_BYTES - used,
                           "], 'fortran_order': False, 'shape': (%s,), }%*s", number,
                           (int)(20 - strlen(number)), "");
  while ((used + 1) % 64 != 0) text[used++] = ' ';
  text[used++] = '\n';
  memcpy(text, "\x93NUMPY\x01", 7);
  text[7] = 0;
  text[8] = (char)((used - 10) & 255);
  text[9] = (char)((used - 10) >> 8);
  return used;
}

size_t results_head(const results_file *file, int64_t rows, char *text) {
  if (file->options.format != RESULTS_CSV) return npy_head(&file->columns, rows, text);
  return (size_t)(columns_put_heading(&file->columns, text) - text);
}
