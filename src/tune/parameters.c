/* Reading and writing sets of parameters, by one table of their names. */
#include "tune/parameters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct parameter {
  const char *name;
  size_t offset;
} parameter;

#define PARAMETER(member)                                                                          \
  { #member, offsetof(compute_tuning, member) }

static const parameter table[] = {
    PARAMETER(implementation), PARAMETER(variant), PARAMETER(group_x), PARAMETER(group_y),
    PARAMETER(vector),         PARAMETER(items),   PARAMETER(tile_m),  PARAMETER(tile_n),
    PARAMETER(tile_k),         PARAMETER(item_m),  PARAMETER(item_n),  PARAMETER(groups),
};

enum { PARAMETER_COUNT = sizeof table / sizeof *table };

_Static_assert(sizeof table / sizeof *table * sizeof(uint32_t) == sizeof(compute_tuning),
               "every parameter has a name");

static uint32_t *value_of(compute_tuning *tuning, size_t index) {
  return (uint32_t *)(void *)((char *)tuning + table[index].offset);
}

static uint32_t read_value(const compute_tuning *tuning, size_t index) {
  uint32_t value;
  memcpy(&value, (const char *)tuning + table[index].offset, sizeof value);
  return value;
}

/* One "name=value"; false if it is none, or a repetition. */
static bool parse_one(const char *text, size_t length, uint32_t *seen, compute_tuning *tuning) {
  const char *equals = memchr(text, '=', length);
  if (!equals) return false;
  const size_t name_length = (size_t)(equals - text), digits = length - name_length - 1;
  uint32_t value = 0;
  if (digits < 1 || digits > 7) return false;
  for (size_t i = 0; i < digits; i++) {
    char c = equals[1 + i];
    if (c < '0' || c > '9') return false;
    value = value * 10 + (uint32_t)(c - '0');
  }
  if (value > PARAMETERS_LIMIT) return false;
  for (size_t i = 0; i < PARAMETER_COUNT; i++) {
    if (strlen(table[i].name) != name_length || memcmp(table[i].name, text, name_length) != 0)
      continue;
    if (*seen >> i & 1) return false;
    *seen |= UINT32_C(1) << i;
    *value_of(tuning, i) = value;
    return true;
  }
  return false;
}

bool parameters_parse(const char *text, size_t length, compute_tuning *tuning) {
  *tuning = (compute_tuning){0};
  if (length == 1 && text[0] == '-') return true;
  uint32_t seen = 0;
  for (const char *end = text + length;;) {
    const char *comma = memchr(text, ',', (size_t)(end - text));
    const char *stop = comma ? comma : end;
    if (!parse_one(text, (size_t)(stop - text), &seen, tuning)) return false;
    if (!comma) return true;
    text = comma + 1;
  }
}

char *parameters_print(const compute_tuning *tuning, char *text) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < PARAMETER_COUNT; i++) {
    uint32_t value = read_value(tuning, i);
    if (value == 0) continue;
    int n = snprintf(text + used, PARAMETERS_BYTES - used, "%s%s=%" PRIu32, used ? "," : "",
                     table[i].name, value);
    if (n > 0) used += (size_t)n;
  }
  if (used == 0) snprintf(text, PARAMETERS_BYTES, "-");
  return text;
}

bool parameters_none(const compute_tuning *tuning) {
  for (size_t i = 0; i < PARAMETER_COUNT; i++)
    if (read_value(tuning, i) != 0) return false;
  return true;
}

bool parameters_equal(const compute_tuning *a, const compute_tuning *b) {
  return memcmp(a, b, sizeof *a) == 0;
}
