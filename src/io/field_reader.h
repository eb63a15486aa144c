/* SPDX-License-Identifier: MIT */
/* A text file, plain or gzip-compressed, as a sequence of fields, and decimal numbers in fields. */
#ifndef IO_FIELD_READER_H
#define IO_FIELD_READER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/dtype.h"
#include "compute/status.h"

typedef struct field_reader field_reader;

typedef enum field_end {
  FIELD_SEPARATOR, /* another field follows on the line */
  FIELD_LINE,      /* the line ends here */
  FIELD_FILE       /* the file ends here */
} field_end;

/* One field, without surrounding blanks and without the line's end. `text` is zero-terminated and
 * valid until the next call. A field longer than any number is truncated, and the rest of the line
 * is lost. */
typedef struct text_field {
  char *text;
  size_t length;
  field_end end;
  bool too_long;
} text_field;

/* Opens `path` and skips a byte order mark at its start. Errors are recorded in `context` under
 * `operation`; both strings must outlive the reader. At most `max_bytes` are decompressed. */
compute_status field_reader_open(const compute_context *context, const char *operation,
                                 const char *path, char separator, uint64_t max_bytes,
                                 field_reader **reader);

/* Reads the next field. A file that ends in a newline ends in an empty field. */
compute_status field_reader_next(field_reader *reader, text_field *field);

/* Skips the rest of the line. *more is true if the file continues. */
compute_status field_reader_skip_line(field_reader *reader, bool *more);

/* Closes the file and frees the reader. Returns `status` if it is an error. Otherwise returns an
 * error if the file was not read to a valid end of its compressed data. */
compute_status field_reader_close(field_reader *reader, compute_status status);

typedef enum number_result {
  NUMBER_OK,
  NUMBER_EMPTY,
  NUMBER_MALFORMED,
  NUMBER_NOT_WHOLE,   /* a fraction or an exponent where an integer is expected */
  NUMBER_OUT_OF_RANGE /* of the dtype */
} number_result;

/* Parses all of text[0 … length−1] as one element of a float or integer dtype; text[length] must be
 * 0. Floats round once, to nearest (f16 and bf16 through f64). "inf" and "nan" are floats.
 * `c_locale` is the locale "C". */
number_result number_parse(const char *text, size_t length, compute_dtype dtype, locale_t c_locale,
                           void *element);

#endif
