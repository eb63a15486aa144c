/* Fields of a text file, through zlib, which also reads plain files.
 *
 * One buffer of fixed size: a field is handed out in place, and only the unfinished one at the end
 * of the buffer is moved when more is read. */
#include "io/field_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"

#define BUFFER_BYTES 131072
#define FIELD_BYTES  4096 /* a longer field is no number */

struct field_reader {
  gzFile file;
  const compute_context *context;
  const char *operation;
  const char *path;
  char separator;
  uint64_t bytes_left; /* that may still be unpacked */
  uint64_t max_bytes;
  bool at_end;                   /* of the file; the buffer may still hold text */
  size_t begin, end;             /* of the text in the buffer */
  char buffer[BUFFER_BYTES + 1]; /* and a zero to end the last field */
};

/* ---- Errors -------------------------------------------------------------------------------- */

static compute_status fail_system(const compute_context *context, const char *operation,
                                  const char *path, const char *what, int code) {
  char words[128];
  const char *text = strerror_r(code, words, sizeof words);
  return error_set_native(context, file_status(code), code, operation, NULL, "%s: cannot %s: %s",
                          path, what, text);
}

static compute_status fail_zlib(const field_reader *reader, int code, const char *words) {
  if (code == Z_ERRNO) {
    return fail_system(reader->context, reader->operation, reader->path, "read", errno);
  }
  if (code == Z_MEM_ERROR) {
    return error_set(reader->context, COMPUTE_ERROR_OUT_OF_MEMORY, reader->operation,
                     "%s: no memory to unpack it", reader->path);
  }
  return error_set_native(reader->context, COMPUTE_ERROR_FORMAT, code, reader->operation,
                          "the file may be truncated: copy or download it again",
                          "%s: damaged compression: %s", reader->path, words);
}

/* ---- Opening and closing ------------------------------------------------------------------- */

compute_status field_reader_open(const compute_context *context, const char *operation,
                                 const char *path, char separator, uint64_t max_bytes,
                                 field_reader **result) {
  field_reader *reader = base_allocate(1, sizeof *reader);
  if (!reader) {
    return error_set(context, COMPUTE_ERROR_OUT_OF_MEMORY, operation, "no memory to read %s", path);
  }
  errno = 0;
  reader->file = gzopen(path, "rbe");
  if (!reader->file) {
    int code = errno ? errno : ENOMEM; /* zlib sets errno for all but its own lack of memory */
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
  if (!status && code != Z_OK) status = fail_zlib(reader, code, "it ends too early");
  base_release(reader);
  return status;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads more behind the text that the buffer holds. */
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
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      return fail_zlib(reader, code, words);
    }
    reader->at_end = true;
  }
  if ((uint64_t)count > reader->bytes_left) {
    return error_set_native(reader->context, COMPUTE_ERROR_FORMAT, 0, reader->operation,
                            "raise compute_csv_options.max_bytes if the file can be trusted",
                            "%s holds more than %" PRIu64 " bytes", reader->path,
                            reader->max_bytes);
  }
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

/* Makes a field of the text up to `end`, without blanks and without the CR of a CRLF. */
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
