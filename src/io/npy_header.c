/* SPDX-License-Identifier: MIT */
/* Parses and writes the header of .npy files. Parsing is strict: each key exactly once, in any
 * order, sizes that fit, and only blanks after the dictionary. Unlike a Python parser, it evaluates
 * no expression. */
#include "io/npy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/arithmetic.h"

/* ---- dtypes -------------------------------------------------------------------------------- */

typedef struct npy_dtype {
  const char *name; /* without the byte order sign */
  compute_dtype dtype;
} npy_dtype;

/* NumPy has no bf16: a lookup by name finds f16 first. */
static const npy_dtype dtypes[] = {
#define NPY_FLOAT                                   "f"
#define NPY_SIGNED                                  "i"
#define NPY_UNSIGNED                                "u"
#define NPY_LOGIC                                   "b"
#define DTYPE(code, number, name, kind, bytes, ...) {NPY_##kind #bytes, COMPUTE_##code},
    COMPUTE_DTYPES(DTYPE)
#undef DTYPE
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool little_endian(void) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 1;
}

/* ---- Prefix -------------------------------------------------------------------------------- */

static npy_result COMPUTE_PRINTF(3, 4)
    refuse(char *problem, npy_result result, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(problem, NPY_PROBLEM_BYTES, format, list);
  va_end(list);
  return result;
}

npy_result npy_prefix_parse(const unsigned char *bytes, size_t length, uint32_t *text_offset,
                            uint32_t *text_bytes, char *problem) {
  if (length < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
    return refuse(problem, NPY_MALFORMED, "it does not begin like an .npy file");
  unsigned major = length > 6 ? bytes[6] : 1;
  if (major < 1 || major > 3)
    return refuse(problem, NPY_UNSUPPORTED, "unknown format version %u", major);
  *text_offset = major == 1 ? 10 : 12;
  if (length < *text_offset) return refuse(problem, NPY_MALFORMED, "its header is truncated");
  *text_bytes = (uint32_t)bytes[8] | (uint32_t)bytes[9] << 8;
  if (major > 1) *text_bytes |= (uint32_t)bytes[10] << 16 | (uint32_t)bytes[11] << 24;
  if (*text_bytes > NPY_MAX_HEADER) {
    return refuse(problem, NPY_MALFORMED, "its header claims %u bytes", (unsigned)*text_bytes);
  }
  return NPY_OK;
}

/* ---- Text ---------------------------------------------------------------------------------- */

typedef struct npy_text {
  const char *at, *end;
} npy_text;

static void skip_blanks(npy_text *text) {
  while (text->at < text->end && (*text->at == ' ' || *text->at == '\t' || *text->at == '\n'))
    text->at++;
}

/* Consumes `c`, and the blanks before it, if it is next. */
static bool take(npy_text *text, char c) {
  skip_blanks(text);
  if (text->at == text->end || *text->at != c) return false;
  text->at++;
  return true;
}

static bool take_word(npy_text *text, const char *word) {
  skip_blanks(text);
  size_t length = strlen(word);
  if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0) return false;
  text->at += length;
  return true;
}

/* A quoted string without escapes, cut to `bytes`. */
static bool take_string(npy_text *text, char *string, size_t bytes) {
  skip_blanks(text);
  if (text->at == text->end || (*text->at != '\'' && *text->at != '"')) return false;
  char quote = *text->at++;
  size_t length = 0;
  for (; text->at < text->end && *text->at != quote; text->at++) {
    if (*text->at == '\\' || *text->at < ' ') return false;
    if (length + 1 < bytes) string[length++] = *text->at;
  }
  string[length] = 0;
  return take(text, quote);
}

static npy_result take_descr(npy_text *text, npy_header *header, char *problem) {
  char name[24];
  if (!take_string(text, name, sizeof name)) {
    skip_blanks(text);
    if (text->at < text->end && *text->at == '[')
      return refuse(problem, NPY_UNSUPPORTED, "its elements are records with named fields");
    return refuse(problem, NPY_MALFORMED, "'descr' is not a string");
  }
  bool known = strchr("<>|=", name[0]) && name[0];
  for (size_t i = 0; known && i < DTYPES; i++) {
    if (strcmp(name + 1, dtypes[i].name) != 0) continue;
    header->dtype = dtypes[i].dtype;
    header->swapped = compute_dtype_size(header->dtype) > 1 &&
                      ((name[0] == '<' && !little_endian()) || (name[0] == '>' && little_endian()));
    return NPY_OK;
  }
  char list[8 * DTYPES];
  size_t used = 0;
  for (size_t i = 0; i < DTYPES; i++) {
    if (dtypes[i].dtype == COMPUTE_BF16) continue;
    const char *before = i == 0 ? "" : i + 1 < DTYPES ? ", " : " and ";
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", before, dtypes[i].name);
  }
  return refuse(problem, NPY_UNSUPPORTED, "unknown element type '%s'; known are %s", name, list);
}

static npy_result take_size(npy_text *text, int64_t *size, char *problem) {
  int64_t value = 0;
  const char *begin = text->at;
  for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
    if (!checked_multiply(value, 10, &value) || !checked_add(value, *text->at - '0', &value))
      return refuse(problem, NPY_MALFORMED, "a size in 'shape' does not fit into 63 bits");
  }
  if (text->at == begin) return refuse(problem, NPY_MALFORMED, "'shape' is not a tuple of sizes");
  if (text->at < text->end && *text->at == 'L') text->at++; /* a long integer of Python 2 */
  *size = value;
  return NPY_OK;
}

static npy_result take_shape(npy_text *text, npy_header *header, char *problem) {
  static const char no_tuple[] = "'shape' is not a tuple of sizes";
  if (!take(text, '(')) return refuse(problem, NPY_MALFORMED, no_tuple);
  header->shape.rank = 0;
  bool comma = true;
  while (!take(text, ')')) {
    if (!comma) return refuse(problem, NPY_MALFORMED, no_tuple);
    if (header->shape.rank == COMPUTE_MAX_RANK) {
      return refuse(problem, NPY_UNSUPPORTED, "it has more than %d dimensions", COMPUTE_MAX_RANK);
    }
    npy_result result = take_size(text, &header->shape.size[header->shape.rank++], problem);
    if (result) return result;
    comma = take(text, ',');
    skip_blanks(text);
  }
  if (header->shape.rank == 1 && !comma) return refuse(problem, NPY_MALFORMED, no_tuple);
  return NPY_OK;
}

static npy_result take_order(npy_text *text, npy_header *header, char *problem) {
  header->fortran_order = take_word(text, "True");
  if (header->fortran_order || take_word(text, "False")) return NPY_OK;
  return refuse(problem, NPY_MALFORMED, "'fortran_order' is neither True nor False");
}

static npy_result take_entries(npy_text *text, npy_header *header, char *problem) {
  static const struct {
    const char *key;
    npy_result (*take_value)(npy_text *text, npy_header *header, char *problem);
  } entries[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};
  unsigned seen = 0;
  bool comma = true;
  if (!take(text, '{')) return refuse(problem, NPY_MALFORMED, "its header is not a dictionary");
  while (!take(text, '}')) {
    char key[24];
    if (!comma || !take_string(text, key, sizeof key) || !take(text, ':'))
      return refuse(problem, NPY_MALFORMED, "its header is not a dictionary");
    size_t i = 0;
    while (i < 3 && strcmp(entries[i].key, key) != 0) i++;
    if (i == 3 || (seen >> i & 1)) {
      return refuse(problem, NPY_MALFORMED, "its header has '%s' %s", key,
                    i == 3 ? "as an unknown key" : "twice");
    }
    seen |= 1u << i;
    npy_result result = entries[i].take_value(text, header, problem);
    if (result) return result;
    comma = take(text, ',');
  }
  for (size_t i = 0; i < 3; i++) {
    if (!(seen >> i & 1))
      return refuse(problem, NPY_MALFORMED, "its header has no '%s'", entries[i].key);
  }
  return NPY_OK;
}

npy_result npy_header_parse(const char *bytes, size_t length, npy_header *header, char *problem) {
  npy_text text = {bytes, bytes + length};
  *header = (npy_header){.dtype = COMPUTE_DTYPE_NONE};
  npy_result result = take_entries(&text, header, problem);
  if (result) return result;
  skip_blanks(&text);
  if (text.at < text.end) {
    return refuse(problem, NPY_MALFORMED, "extra text follows the dictionary in its header");
  }
  int64_t elements = 1, size = (int64_t)compute_dtype_size(header->dtype), unused;
  bool empty = false, fits = true;
  for (int32_t i = 0; i < header->shape.rank; i++) {
    if (header->shape.size[i] == 0)
      empty = true;
    else
      fits = fits && checked_multiply(elements, header->shape.size[i], &elements);
  }
  /* Even with a size of 0, the product of the other sizes must fit, because callers multiply
   * them. */
  if (!fits || !checked_multiply(elements, size, &unused))
    return refuse(problem, NPY_MALFORMED, "the number of its elements exceeds 63 bits");
  header->count = empty ? 0 : elements;
  return NPY_OK;
}

/* ---- Making -------------------------------------------------------------------------------- */

size_t npy_header_make(compute_dtype dtype, compute_shape shape, char text[NPY_MADE_BYTES]) {
  const char *name = NULL;
  for (size_t i = 0; i < DTYPES; i++) {
    if (dtypes[i].dtype == dtype && dtype != COMPUTE_BF16) name = dtypes[i].name;
  }
  if (!name) return 0;
  char sign = compute_dtype_size(dtype) == 1 ? '|' : little_endian() ? '<' : '>';
  size_t used = 10;
  used += (size_t)snprintf(text + used, NPY_MADE_BYTES - used,
                           "{'descr': '%c%s', 'fortran_order': False, 'shape': (", sign, name);
  for (int32_t i = 0; i < shape.rank; i++) {
    used += (size_t)snprintf(text + used, NPY_MADE_BYTES - used, "%s%lld%s", i ? ", " : "",
                             (long long)shape.size[i], shape.rank == 1 ? "," : "");
  }
  used += (size_t)snprintf(text + used, NPY_MADE_BYTES - used, "), }");
  while ((used + 1) % 64 != 0) text[used++] = ' ';
  text[used++] = '\n';
  memcpy(text, "\x93NUMPY\x01", 7);
  text[7] = 0;
  text[8] = (char)((used - 10) & 255);
  text[9] = (char)((used - 10) >> 8);
  return used;
}
