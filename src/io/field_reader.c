/* SPDX-License-Identifier: MIT */
/* Fields of a text file, read through zlib, which also reads plain files.
 *
 * There is one buffer of fixed size. A field is returned in place. Before more is read, only the
 * unfinished field at the end of the buffer is moved. */
#include "io/field_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/alloc.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/real.h"
#include "core/type/dtype.h"

#define BUFFER_BYTES 131072
#define FIELD_BYTES  4096 /* a longer field is not a number */

struct field_reader {
  gzFile file;
  const compute_context *context;
  const char *operation;
  const char *path;
  char separator;
  uint64_t bytes_left; /* limit for further decompression */
  uint64_t max_bytes;
  bool at_end;                   /* end of the file; the buffer may still hold text */
  size_t begin, end;             /* of the text in the buffer */
  char buffer[BUFFER_BYTES + 1]; /* plus a zero that terminates the last field */
};

/* ---- Errors -------------------------------------------------------------------------------- */

static compute_status fail_system(const compute_context *context, const char *operation,
                                  const char *path, const char *what, int code) {
  return error_set_native(context, file_status(code), code, operation, NULL, "%s: cannot %s: %s",
                          path, what, strerror(code));
}

static compute_status fail_zlib(const field_reader *reader, int code, const char *words) {
  if (code == Z_ERRNO)
    return fail_system(reader->context, reader->operation, reader->path, "read", errno);
  if (code == Z_MEM_ERROR)
    return error_set(reader->context, COMPUTE_ERROR_OUT_OF_MEMORY, reader->operation,
                     "%s: not enough memory to unpack it", reader->path);
  return error_set_native(reader->context, COMPUTE_ERROR_FORMAT, code, reader->operation,
                          "the file may be truncated; copy or download it again",
                          "%s: damaged compression: %s", reader->path, words);
}

/* ---- Opening and closing ------------------------------------------------------------------- */

compute_status field_reader_open(const compute_context *context, const char *operation,
                                 const char *path, char separator, uint64_t max_bytes,
                                 field_reader **result) {
  field_reader *reader = base_allocate(1, sizeof *reader);
  if (!reader)
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation,
                     "not enough memory to read %s", path);
  errno = 0;
  reader->file = gzopen(path, "rbe");
  if (!reader->file) {
    int code = errno ? errno : ENOMEM; /* zlib sets errno unless it is out of memory */
    base_release(reader);
    return fail_system(context, operation, path, "open", code);
  }
  reader->context = context;
  reader->operation = operation;
  reader->path = path;
  reader->separator = separator;
  reader->bytes_left = reader->max_bytes = max_bytes;
  *result = reader;
  return COMPUTE_OK;
}

compute_status field_reader_close(field_reader *reader, compute_status status) {
  int code = gzclose_r(reader->file);
  if (!status && code != Z_OK) status = fail_zlib(reader, code, "it is truncated");
  base_release(reader);
  return status;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads more text after the buffer's unread text. */
static compute_status refill(field_reader *reader) {
  memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
  reader->end -= reader->begin;
  reader->begin = 0;
  unsigned room = (unsigned)(BUFFER_BYTES - reader->end);
  errno = 0;
  int count = gzread(reader->file, reader->buffer + reader->end, room);
  if (count < (int)room) {
    int code = Z_OK;
    const char *words = gzerror(reader->file, &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) return fail_zlib(reader, code, words);
    reader->at_end = true;
  }
  if ((uint64_t)count > reader->bytes_left)
    return error_set_native(reader->context, COMPUTE_ERROR_FORMAT, 0, reader->operation,
                            "raise compute_csv_options.max_bytes if the file can be trusted",
                            "%s holds more than %" PRIu64 " bytes", reader->path,
                            reader->max_bytes);
  bool first = reader->bytes_left == reader->max_bytes;
  reader->bytes_left -= (uint64_t)count;
  reader->end += (size_t)count;
  if (first && count >= 3 && !memcmp(reader->buffer, "\xEF\xBB\xBF", 3)) reader->begin = 3;
  return COMPUTE_OK;
}

/* The first separator or newline at or after `from`, or NULL. */
static char *find_end(field_reader *reader, size_t from) {
  char *end = reader->buffer + reader->end;
  for (char *at = reader->buffer + from; at < end; at++) {
    if (*at == reader->separator || *at == '\n') return at;
  }
  return NULL;
}

static bool is_blank(const field_reader *reader, char c) {
  return (c == ' ' || c == '\t') && c != reader->separator;
}

/* Makes a field from the text up to `end`, without blanks and without the CR of a CRLF. */
static void trim(const field_reader *reader, char *begin, char *end, text_field *field) {
  if (field->end != FIELD_SEPARATOR && end > begin && end[-1] == '\r') end--;
  while (end > begin && is_blank(reader, end[-1])) end--;
  while (begin < end && is_blank(reader, *begin)) begin++;
  *end = 0;
  field->text = begin;
  field->length = (size_t)(end - begin);
}

compute_status field_reader_next(field_reader *reader, text_field *field) {
  char *end = find_end(reader, reader->begin);
  while (!end && !reader->at_end && reader->end - reader->begin <= FIELD_BYTES) {
    size_t searched = reader->end - reader->begin;
    compute_status status = refill(reader);
    if (status) return status;
    end = find_end(reader, reader->begin + searched);
  }
  char *begin = reader->buffer + reader->begin;
  if (end) {
    field->end = *end == '\n' ? FIELD_LINE : FIELD_SEPARATOR;
    reader->begin = (size_t)(end - reader->buffer) + 1;
  } else {
    field->end = FIELD_FILE;
    end = reader->buffer + reader->end;
    reader->begin = reader->end;
  }
  field->too_long = end - begin > FIELD_BYTES;
  if (field->too_long) end = begin + FIELD_BYTES;
  trim(reader, begin, end, field);
  return COMPUTE_OK;
}

compute_status field_reader_skip_line(field_reader *reader, bool *more) {
  for (;;) {
    char *newline = memchr(reader->buffer + reader->begin, '\n', reader->end - reader->begin);
    if (newline) {
      reader->begin = (size_t)(newline - reader->buffer) + 1;
      *more = true;
      return COMPUTE_OK;
    }
    reader->begin = reader->end;
    *more = false;
    if (reader->at_end) return COMPUTE_OK;
    compute_status status = refill(reader);
    if (status) return status;
  }
}

/* ---- Numbers ------------------------------------------------------------------------------- */

/* Decimal numbers in text.
 *
 * Most fields of a table are short. If digits and power of ten are both exact in the target type,
 * one division or multiplication rounds once and gives the nearest number (Clinger, "How to read
 * floating point numbers accurately", 1990). All other numbers go to the C library. Integers never
 * pass through a float. */

/* A parsed number: ± digits · 10^exponent. */
typedef struct decimal {
  bool negative;
  bool whole; /* neither point nor exponent */
  bool fits;  /* the digits are exact in `digits` */
  uint64_t digits;
  int32_t exponent; /* meaningful only if small */
} decimal;

static void append_digit(decimal *number, char c) {
  uint64_t digit = (uint64_t)(c - '0');
  if (number->digits > (UINT64_MAX - digit) / 10) {
    number->fits = false;
  } else {
    number->digits = number->digits * 10 + digit;
  }
}

/* Reads the exponent after an 'e'. Returns the position after it, or NULL. */
static const char *scan_exponent(const char *at, const char *end, decimal *number) {
  bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  if (at == end || !ascii_is_digit(*at)) return NULL;
  int32_t value = 0;
  for (; at < end && ascii_is_digit(*at); at++) {
    if (value < 100000) value = value * 10 + (*at - '0');
  }
  number->exponent += negative ? -value : value;
  return at;
}

/* Reads digits with at most one point and at least one digit, then an optional exponent. */
static bool scan(const char *text, size_t length, decimal *number) {
  const char *at = text, *end = text + length;
  *number = (decimal){.whole = true, .fits = true};
  number->negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  bool any_digit = false;
  for (; at < end && (ascii_is_digit(*at) || (*at == '.' && number->whole)); at++) {
    if (*at == '.') {
      number->whole = false;
      continue;
    }
    any_digit = true;
    append_digit(number, *at);
    if (!number->whole) number->exponent--;
  }
  if (!any_digit) return false;
  if (at < end && (*at == 'e' || *at == 'E')) {
    number->whole = false;
    at = scan_exponent(at + 1, end, number);
  }
  return at == end;
}

static const double power_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* True if digits ≤ `most` and |exponent| ≤ `largest`. Then the operation is exact apart from its
 * final rounding. The limits are 2^53 and 22 in f64, 2^24 and 10 in f32. */
static bool is_simple(const decimal *number, uint64_t most, int32_t largest) {
  return number->fits && number->digits <= most && number->exponent >= -largest &&
         number->exponent <= largest;
}

static double read_f64(const char *text, const decimal *number, locale_t c_locale) {
  if (!is_simple(number, UINT64_C(1) << 53, 22)) return strtod_l(text, NULL, c_locale);
  double value = (double)number->digits;
  if (number->exponent < 0) {
    value /= power_of_ten[-number->exponent];
  } else {
    value *= power_of_ten[number->exponent];
  }
  return number->negative ? -value : value;
}

static float read_f32(const char *text, const decimal *number, locale_t c_locale) {
  if (!is_simple(number, UINT64_C(1) << 24, 10)) return strtof_l(text, NULL, c_locale);
  float value = (float)number->digits;
  if (number->exponent < 0) {
    value /= (float)power_of_ten[-number->exponent];
  } else {
    value *= (float)power_of_ten[number->exponent];
  }
  return number->negative ? -value : value;
}

static number_result parse_float(const char *text, const decimal *number, compute_dtype dtype,
                                 locale_t c_locale, void *element) {
  if (dtype == COMPUTE_F32) {
    float value = read_f32(text, number, c_locale);
    memcpy(element, &value, sizeof value);
  } else {
    dtype_store(dtype, element, read_f64(text, number, c_locale));
  }
  return isinf(dtype_load(dtype, element)) ? NUMBER_OUT_OF_RANGE : NUMBER_OK;
}

static number_result parse_integer(const decimal *number, compute_dtype dtype, void *element) {
  int64_t low;
  uint64_t most;
  dtype_limits(dtype, &low, &most);
  if (!number->whole) return NUMBER_NOT_WHOLE;
  if (number->negative) most = 0 - (uint64_t)low;
  if (!number->fits || number->digits > most) return NUMBER_OUT_OF_RANGE;
  /* Negated as unsigned, so the smallest i64 is no special case. */
  int64_t value = (int64_t)(number->negative ? 0 - number->digits : number->digits);
  dtype_store_integer(dtype, element, value);
  return NUMBER_OK;
}

/* "inf", "infinity" and "nan" in any case, signed or not. */
static bool parse_word(const char *text, size_t length, double *value) {
  bool negative = length > 0 && text[0] == '-';
  if (length > 0 && (text[0] == '-' || text[0] == '+')) {
    text++;
    length--;
  }
  if (strlen(text) != length) return false; /* it contains a zero byte */
  if (ascii_equal(text, "inf") || ascii_equal(text, "infinity")) {
    *value = negative ? -INFINITY : INFINITY;
    return true;
  }
  if (!ascii_equal(text, "nan")) return false;
  *value = NAN;
  return true;
}

number_result number_parse(const char *text, size_t length, compute_dtype dtype, locale_t c_locale,
                           void *element) {
  decimal number;
  double word;
  if (length == 0) return NUMBER_EMPTY;
  if (scan(text, length, &number)) {
    return dtype_is_float(dtype) ? parse_float(text, &number, dtype, c_locale, element)
                                 : parse_integer(&number, dtype, element);
  }
  if (!parse_word(text, length, &word)) return NUMBER_MALFORMED;
  if (!dtype_is_float(dtype)) return NUMBER_NOT_WHOLE;
  dtype_store(dtype, element, word);
  return NUMBER_OK;
}
