/* Arrays that are written as they come: the header has room for any number of items and is written
 * once more at the end. */
#include "tools/fit/array_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_BYTES 512

struct array_writer {
  char *path, *incomplete;
  FILE *file;
  compute_dtype dtype;
  compute_shape item;
  size_t item_bytes;
  int64_t count;
};

/* The header for `count` items; always as long. 0 for a dtype that NumPy lacks. */
static size_t make_head(const array_writer *writer, char *text) {
  static const struct {
    compute_dtype dtype;
    const char *code;
  } codes[] = {{COMPUTE_F64, "f8"}, {COMPUTE_F32, "f4"}, {COMPUTE_F16, "f2"}, {COMPUTE_I64, "i8"},
               {COMPUTE_I32, "i4"}, {COMPUTE_U16, "u2"}, {COMPUTE_U8, "u1"},  {COMPUTE_BOOL, "b1"}};
  const char *code = NULL;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (codes[i].dtype == writer->dtype) code = codes[i].code;
  }
  if (!code) return 0;
  const uint16_t one = 1;
  char order = compute_dtype_size(writer->dtype) == 1 ? '|'
               : *(const unsigned char *)&one == 1    ? '<'
                                                      : '>';
  memset(text, ' ', HEAD_BYTES);
  int used = 10;
  used += snprintf(text + used, HEAD_BYTES - 10,
                   "{'descr': '%c%s', 'fortran_order': False, 'shape': (%" PRId64 ",", order, code,
                   writer->count);
  for (int32_t i = 0; i < writer->item.rank; i++) {
    used += snprintf(text + used, HEAD_BYTES - (size_t)used, "%s %" PRId64, i ? "," : "",
                     writer->item.size[i]);
  }
  used += snprintf(text + used, HEAD_BYTES - (size_t)used, "), }");
  text[used] = ' ';
  memcpy(text, "\x93NUMPY\x01", 7);
  text[7] = 0;
  text[8] = (char)((HEAD_BYTES - 10) & 255);
  text[9] = (char)((HEAD_BYTES - 10) >> 8);
  text[HEAD_BYTES - 1] = '\n';
  return HEAD_BYTES;
}

static void release(array_writer *writer) {
  if (writer->file) fclose(writer->file);
  free(writer->path);
  free(writer->incomplete);
  free(writer);
}

void array_writer_abandon(array_writer *writer) {
  if (!writer) return;
  if (writer->file) unlink(writer->incomplete);
  release(writer);
}

static compute_status fail_write(const array_writer *writer, int code, failure *why) {
  return failure_set_system(why, code, NULL, "cannot write %s", writer->incomplete);
}

static compute_status open_writer(array_writer *writer, bool overwrite, failure *why) {
  char head[HEAD_BYTES];
  if (make_head(writer, head) == 0 || writer->item.rank > COMPUTE_MAX_RANK - 1) {
    return failure_set(why, COMPUTE_ERROR_DTYPE, NULL, "%s cannot hold items of %s", writer->path,
                       compute_dtype_name(writer->dtype));
  }
  if (!overwrite && access(writer->path, F_OK) == 0) {
    return failure_set(why, COMPUTE_ERROR_FILE, "choose another name, or overwrite it",
                       "%s is there already", writer->path);
  }
  writer->file = fopen(writer->incomplete, "wbe");
  if (!writer->file) {
    return failure_set_system(why, errno, "choose another place for it", "cannot create %s",
                              writer->incomplete);
  }
  return fwrite(head, 1, HEAD_BYTES, writer->file) == HEAD_BYTES ? COMPUTE_OK
                                                                 : fail_write(writer, errno, why);
}

compute_status array_writer_create(const char *path, compute_dtype dtype, compute_shape item,
                                   bool overwrite, array_writer **result, failure *why) {
  *result = NULL;
  array_writer *writer = calloc(1, sizeof *writer);
  if (writer) {
    writer->path = strdup(path);
    if (asprintf(&writer->incomplete, "%s.incomplete", path) < 0) writer->incomplete = NULL;
  }
  if (!writer || !writer->path || !writer->incomplete) {
    if (writer) release(writer);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "no memory to write %s", path);
  }
  writer->dtype = dtype;
  writer->item = item;
  writer->item_bytes = compute_dtype_size(dtype);
  for (int32_t i = 0; i < item.rank; i++) writer->item_bytes *= (size_t)item.size[i];
  compute_status status = open_writer(writer, overwrite, why);
  if (status)
    array_writer_abandon(writer);
  else
    *result = writer;
  return status;
}

compute_status array_writer_append(array_writer *writer, int64_t items, const void *data,
                                   failure *why) {
  size_t bytes = (size_t)items * writer->item_bytes;
  if (fwrite(data, 1, bytes, writer->file) != bytes) return fail_write(writer, errno, why);
  writer->count += items;
  return COMPUTE_OK;
}

compute_status array_writer_finish(array_writer *writer, failure *why) {
  char head[HEAD_BYTES];
  make_head(writer, head);
  int code = 0;
  if (fseeko(writer->file, 0, SEEK_SET) != 0 ||
      fwrite(head, 1, HEAD_BYTES, writer->file) != HEAD_BYTES || fflush(writer->file) != 0 ||
      (fsync(fileno(writer->file)) != 0 && errno != EINVAL)) {
    code = errno;
  }
  if (!code && rename(writer->incomplete, writer->path) != 0) code = errno;
  compute_status status = code ? fail_write(writer, code, why) : COMPUTE_OK;
  if (status) unlink(writer->incomplete);
  release(writer);
  return status;
}
