/* SPDX-License-Identifier: MIT */
/* Compares classes of kernels, and reads and writes sets of parameters and lines of a tuning file.
 * The checksum of a line is checked first, so that the rest handles only intact lines. */
#include "codegen/tune/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/real.h"

/* ---- Classes ------------------------------------------------------------------------------- */

bool kernel_class_valid(const char *text, size_t length) {
  if (length == 0 || length >= KERNEL_CLASS_BYTES) return false;
  int parts = 1;
  bool empty = true;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("_.+>", c);
    if (c == '\0' || (c == '/' ? empty || ++parts > 4 : !word)) return false;
    empty = c == '/';
  }
  const char *slash = memchr(text, '/', length);
  const size_t kind_length = slash ? (size_t)(slash - text) : length;
  return !empty && kernel_kind_exists(text, kind_length);
}

/* Reads the next "letter number" of both sizes. Returns false if their forms differ. */
static bool next_buckets(const char **a, const char **b, int *difference) {
  if (**a != **b || !ascii_is_digit((*a)[1]) || !ascii_is_digit((*b)[1])) return false;
  char *end_a, *end_b;
  long value_a = strtol(*a + 1, &end_a, 10), value_b = strtol(*b + 1, &end_b, 10);
  if (value_a > 64 || value_b > 64) return false;
  *difference = abs((int)(value_a - value_b));
  *a = end_a;
  *b = end_b;
  return true;
}

static int size_fit(const char *a, const char *b) {
  int sum = 0;
  while (*a && *b) {
    int difference;
    if (!next_buckets(&a, &b, &difference) || difference > KERNEL_CLASS_REACH)
      return KERNEL_CLASS_APART;
    sum += difference;
  }
  return *a || *b ? KERNEL_CLASS_APART : sum;
}

int kernel_class_fit(const char *selector, const char *kernel_class) {
  const size_t length = strlen(selector);
  if (!strcmp(selector, kernel_class)) return 0;
  const char *size = strrchr(kernel_class, '/');
  if (!size) return KERNEL_CLASS_APART;
  const size_t head = (size_t)(size - kernel_class) + 1;
  if (length > head && !strncmp(selector, kernel_class, head))
    return size_fit(selector + head, size + 1);
  if (strncmp(selector, kernel_class, length) != 0 || kernel_class[length] != '/')
    return KERNEL_CLASS_APART;
  return 2 * KERNEL_CLASS_BYTES - (int)length;
}

/* ---- Parameters, by one table of their names ------------------------------------------------- */

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

/* Parses one "name=value". Returns false if it is malformed or repeated. */
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

/* ---- Lines --------------------------------------------------------------------------------- */

static const char magic[] = "tuning ";

enum { MAGIC_LENGTH = sizeof magic - 1, CHECKSUM_DIGITS = 8 };

static size_t quote(const char *words, char *text) {
  static const char hex[] = "0123456789abcdef";
  size_t used = 0;
  text[used++] = '"';
  for (; *words; words++) {
    unsigned char c = (unsigned char)*words;
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      text[used++] = (char)c;
    } else {
      text[used++] = '\\';
      text[used++] = 'x';
      text[used++] = hex[c >> 4];
      text[used++] = hex[c & 15];
    }
  }
  text[used++] = '"';
  return used;
}

_Static_assert(4 * (sizeof((compute_target *)0)->backend + sizeof((compute_target *)0)->vendor +
                    sizeof((compute_target *)0)->model + sizeof((compute_target *)0)->driver) +
                       4 * 3 <=
                   ENTRY_IDENTITY_BYTES,
               "the longest identity fits");

char *entry_identity(const compute_target *target, char *text) {
  const char *const part[] = {target->backend, target->vendor, target->model, target->driver};
  size_t used = 0;
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    if (i > 0) text[used++] = ' ';
    used += quote(part[i], text + used);
  }
  text[used] = '\0';
  return text;
}

static uint32_t checksum(const char *text, size_t length) {
  return (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)length);
}

size_t entry_print(const tuning_entry *entry, char *text) {
  char parameters[PARAMETERS_BYTES];
  int length = snprintf(text, ENTRY_LINE_BYTES, "%s%d %s %s %s %" PRIu64, magic, ENTRY_VERSION,
                        entry->identity, entry->kernel_class,
                        parameters_print(&entry->tuning, parameters), entry->nanoseconds);
  size_t used = (size_t)length;
  snprintf(text + used, ENTRY_LINE_BYTES - used, " %08" PRIx32 "\n", checksum(text, used));
  return used + 1 + CHECKSUM_DIGITS + 1;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* The unread part of a line. */
typedef struct reader {
  char *at;
  size_t left;
} reader;

static void advance(reader *r, size_t count) {
  r->at += count;
  r->left -= count;
}

/* Skips a space. The space must not be the last byte. */
static bool skip_space(reader *r) {
  if (r->left < 2 || *r->at != ' ') return false;
  advance(r, 1);
  return true;
}

/* The text up to the next space or the end; at least one byte. */
static bool next_word(reader *r, char **word, size_t *length) {
  const char *space = memchr(r->at, ' ', r->left);
  *word = r->at;
  *length = space ? (size_t)(space - r->at) : r->left;
  advance(r, *length);
  return *length > 0;
}

static bool parse_number(const char *digits, size_t length, unsigned base, uint64_t *value) {
  *value = 0;
  for (size_t i = 0; i < length; i++) {
    char c = digits[i];
    unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                            : base;
    if (digit >= base || *value > (UINT64_MAX - digit) / base) return false;
    *value = *value * base + digit;
  }
  return length > 0;
}

/* Four quoted texts, separated by spaces. Quotes inside a text are escaped. */
static bool next_identity(reader *r, char **identity, size_t *length) {
  *identity = r->at;
  for (int i = 0; i < 4; i++) {
    if (i > 0 && !skip_space(r)) return false;
    const char *end = r->left > 1 && *r->at == '"' ? memchr(r->at + 1, '"', r->left - 1) : NULL;
    if (!end) return false;
    advance(r, (size_t)(end - r->at) + 1);
  }
  *length = (size_t)(r->at - *identity);
  return *length < ENTRY_IDENTITY_BYTES && !memchr(*identity, '\0', *length);
}

static bool checksum_holds(const char *line, size_t length) {
  uint64_t stored;
  if (length <= CHECKSUM_DIGITS || line[length - CHECKSUM_DIGITS - 1] != ' ') return false;
  return parse_number(line + length - CHECKSUM_DIGITS, CHECKSUM_DIGITS, 16, &stored) &&
         stored == checksum(line, length - CHECKSUM_DIGITS - 1);
}

entry_state entry_parse(char *line, size_t length, tuning_entry *entry) {
  reader r = {line, length};
  char *word, *identity, *kernel_class;
  size_t word_length, identity_length, class_length;
  uint64_t version;
  if (length < MAGIC_LENGTH || memcmp(line, magic, MAGIC_LENGTH) != 0) return ENTRY_DAMAGED;
  advance(&r, MAGIC_LENGTH);
  if (!next_word(&r, &word, &word_length) || !parse_number(word, word_length, 10, &version))
    return ENTRY_DAMAGED;
  if (version != ENTRY_VERSION) return ENTRY_FOREIGN;
  if (length >= ENTRY_LINE_BYTES || !checksum_holds(line, length)) return ENTRY_DAMAGED;
  r.left -= CHECKSUM_DIGITS + 1;
  if (!skip_space(&r) || !next_identity(&r, &identity, &identity_length) || !skip_space(&r) ||
      !next_word(&r, &kernel_class, &class_length) ||
      !kernel_class_valid(kernel_class, class_length) || !skip_space(&r) ||
      !next_word(&r, &word, &word_length) || !parameters_parse(word, word_length, &entry->tuning) ||
      !skip_space(&r) || !parse_number(r.at, r.left, 10, &entry->nanoseconds))
    return ENTRY_DAMAGED;
  identity[identity_length] = '\0';
  kernel_class[class_length] = '\0';
  entry->identity = identity;
  entry->kernel_class = kernel_class;
  return ENTRY_GOOD;
}
