/* Values of options: text becomes numbers, and what would have been allowed becomes text. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fit/option_table.h"

/* ---- Values -------------------------------------------------------------------------------- */

static bool unbounded(const option_row *row) {
  return row->least == 0 && row->most == 0;
}

static bool read_number(const char *text, const char *stop, double *value) {
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  return end == stop && end != text && isfinite(*value);
}

static bool within(const option_row *row, double value) {
  return unbounded(row) || (value >= row->least && value <= row->most);
}

static bool parse_number(const option_row *row, const char *text, double *value) {
  return read_number(text, text + strlen(text), value) && within(row, *value);
}

static bool parse_count(const option_row *row, const char *text, int64_t *value) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  int64_t scale = 1;
  if (end == text || errno) return false;
  if (row->kind == OPTION_BYTES && *end) {
    static const char unit[] = "KMG";
    const char *found = strchr(unit, *end);
    if (!found) return false;
    scale = (int64_t)1 << (10 * (found - unit + 1));
    end++;
  }
  if (*end || (double)number * (double)scale > MANY_COUNT || !within(row, (double)number))
    return false;
  *value = number * scale;
  return true;
}

static bool parse_size(const option_row *row, const char *text, size_value *size) {
  char *end;
  errno = 0;
  long rows = strtol(text, &end, 10), columns = rows;
  if (end == text || errno) return false;
  if (*end == 'x') {
    const char *second = end + 1;
    columns = strtol(second, &end, 10);
    if (end == second || errno) return false;
  }
  if (*end || !within(row, (double)rows) || !within(row, (double)columns)) return false;
  *size = (size_value){(int32_t)rows, (int32_t)columns};
  return true;
}

static bool parse_list(const option_row *row, const char *text, list_value *list) {
  list->count = 0;
  for (const char *position = text;; position++) {
    const char *stop = position + strcspn(position, ",");
    if (list->count >= (int32_t)row->most) return false;
    double *value = &list->value[list->count++];
    if (!read_number(position, stop, value) || !(*value > row->least)) return false;
    if (!*stop) return true;
    position = stop;
  }
}

static bool parse_range(const option_row *row, const char *text, compute_range *range) {
  const char *stop = text + strcspn(text, ":");
  if (!read_number(text, stop, &range->low) || !within(row, range->low)) return false;
  range->high = range->low;
  if (!*stop) return true;
  return parse_number(row, stop + 1, &range->high) && range->high >= range->low;
}

static bool parse_choice(const option_row *row, const char *text, int32_t *choice) {
  for (int32_t i = 0; row->choices[i]; i++) {
    if (strcasecmp(row->choices[i], text)) continue;
    *choice = i;
    return true;
  }
  return false;
}

/* What is no number is a file's name; a number out of bounds is an error. */
static bool parse_camera(const option_row *row, const char *text, camera_value *value) {
  value->file = NULL;
  if (parse_number(row, text, &value->number)) return true;
  char *end;
  strtod(text, &end);
  value->file = text;
  return *text && *end;
}

bool option_parse(const option_row *row, const char *text, fit_arguments *a) {
  void *field = (char *)a + row->offset;
  switch (row->kind) {
  case OPTION_FLAG: return false;
  case OPTION_TEXT:
    *(const char **)field = text;
    if (!row->choices) return *text != '\0';
    return parse_choice(row, text, &(int32_t){0});
  case OPTION_COUNT:
  case OPTION_BYTES: return parse_count(row, text, field);
  case OPTION_NUMBER: return parse_number(row, text, field);
  case OPTION_SIZE: return parse_size(row, text, field);
  case OPTION_LIST: return parse_list(row, text, field);
  case OPTION_RANGE: return parse_range(row, text, field);
  case OPTION_CHOICE: return parse_choice(row, text, field);
  case OPTION_CAMERA: return parse_camera(row, text, field);
  }
  return false;
}

/* ---- What is allowed, in words ------------------------------------------------------------- */

void option_words_add(option_words *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, list);
  va_end(list);
  if (n > 0) w->length += (size_t)n;
  if (w->length >= sizeof w->text) w->length = sizeof w->text - 1;
}

static void add_bounds(option_words *w, const option_row *row) {
  if (unbounded(row)) return;
  if (row->least <= -1e6 && row->most >= 1e6) return;
  if (row->least > 0 && row->least < 1e-300)
    option_words_add(w, " above 0");
  else if (row->most >= 1e6)
    option_words_add(w, " of at least %g", row->least);
  else
    option_words_add(w, " from %g to %g", row->least, row->most);
}

void option_add_allowed(option_words *w, const option_row *row) {
  switch (row->kind) {
  case OPTION_FLAG: option_words_add(w, "given without a value"); break;
  case OPTION_TEXT:
    if (!row->choices) {
      option_words_add(w, "not to be empty");
      break;
    }
    /* fallthrough */
  case OPTION_CHOICE:
    option_words_add(w, "one of");
    for (size_t i = 0; row->choices[i]; i++)
      option_words_add(w, "%s %s", i ? "," : "", row->choices[i]);
    break;
  case OPTION_COUNT:
    option_words_add(w, "a whole number");
    add_bounds(w, row);
    break;
  case OPTION_BYTES: option_words_add(w, "a number of bytes, as 500M"); break;
  case OPTION_NUMBER:
    option_words_add(w, "a number");
    add_bounds(w, row);
    break;
  case OPTION_SIZE:
    option_words_add(w, "rows and columns, each");
    add_bounds(w, row);
    option_words_add(w, ", as 5x9, or one number");
    break;
  case OPTION_LIST:
    option_words_add(w, "up to %g numbers%s with commas", row->most,
                     row->least == 0 ? " above 0" : "");
    break;
  case OPTION_RANGE:
    option_words_add(w, "a number or a range LOW:HIGH");
    add_bounds(w, row);
    break;
  case OPTION_CAMERA:
    option_words_add(w, "a number");
    add_bounds(w, row);
    option_words_add(w, ", or a file");
    break;
  }
}
