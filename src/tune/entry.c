/* Reading and writing lines of a tuning file. The checksum is looked at before anything else, so
 * that what follows only has to be right about lines that somebody meant to write. */
#include "tune/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "tune/kernel_class.h"
#include "tune/parameters.h"

static const char magic[] = "tuning ";

enum { MAGIC_LENGTH = sizeof magic - 1, CHECKSUM_DIGITS = 8 };

/* ---- Writing ------------------------------------------------------------------------------- */

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

/* What is left of the line. */
typedef struct reader {
  char *at;
  size_t left;
} reader;

static void advance(reader *r, size_t count) {
  r->at += count;
  r->left -= count;
}

/* A space, which is not the last byte. */
static bool skip_space(reader *r) {
  if (r->left < 2 || *r->at != ' ') return false;
  advance(r, 1);
  return true;
}

/* Up to the next space or the end; at least one byte. */
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

/* Four texts in quotes with a space between. No quote stands inside: it would be escaped. */
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
