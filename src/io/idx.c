/* SPDX-License-Identifier: MIT */
/* IDX files, after the description of the MNIST files by LeCun, Cortes and Burges. A file has two
 * zeros, the type of the elements, the number of axes, a 32-bit size for each axis, and the
 * elements; all numbers are big-endian. Nothing is allocated for a size that the decompressed file
 * cannot have. */
#include "io/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/base/error.h"
#include "core/device/device.h"
#include "io/elements.h"
#include "io/new_file.h"
#include "io/tensor_file.h"

#define MAX_RATIO 1032u /* of deflate's expansion */

typedef struct idx_type {
  unsigned char code;
  compute_dtype dtype;
  unsigned narrow; /* bytes of a stored integer that becomes i32; 0: stored as the dtype */
} idx_type;

static const idx_type types[] = {
    {0x08, COMPUTE_U8, 0},  {0x09, COMPUTE_I32, 1}, {0x0B, COMPUTE_I32, 2},
    {0x0C, COMPUTE_I32, 0}, {0x0D, COMPUTE_F32, 0}, {0x0E, COMPUTE_F64, 0},
};

typedef struct idx_reader {
  const compute_context *context;
  const char *operation;
  const char *path;
  gzFile file;
  const idx_type *type;
} idx_reader;

static compute_status COMPUTE_PRINTF(3, 4)
    refuse(const idx_reader *reader, compute_status status, const char *format, ...) {
  char problem[256];
  va_list list;
  va_start(list, format);
  vsnprintf(problem, sizeof problem, format, list);
  va_end(list);
  return error_set(reader->context, status, reader->operation, "cannot read %s as IDX: %s",
                   reader->path, problem);
}

/* ---- Bytes --------------------------------------------------------------------------------- */

static compute_status fail_zlib(const idx_reader *reader) {
  int code = Z_OK, system = errno;
  const char *words = gzerror(reader->file, &code);
  if (code == Z_ERRNO)
    return file_error(reader->context, reader->operation, reader->path, "read", system);
  if (code == Z_MEM_ERROR)
    return refuse(reader, COMPUTE_ERROR_OUT_OF_MEMORY, "not enough memory for it");
  if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) {
    return refuse(reader, COMPUTE_ERROR_FORMAT, "it is truncated");
  }
  return refuse(reader, COMPUTE_ERROR_FORMAT, "damaged compression: %s", words);
}

/* Reads at most 1 MiB, the size of elements_read's blocks. */
static compute_status read_bytes(const idx_reader *reader, void *data, size_t bytes) {
  errno = 0;
  return gzread(reader->file, data, (unsigned)bytes) == (int)bytes ? COMPUTE_OK : fail_zlib(reader);
}

/* Reads small integers into the end of `data` and widens them towards its beginning. */
static compute_status read_narrow(const idx_reader *reader, void *data, size_t bytes) {
  size_t count = bytes / 4, narrow = reader->type->narrow;
  unsigned char *from = (unsigned char *)data + bytes - count * narrow;
  int32_t *to = data; /* a block is aligned */
  compute_status status = read_bytes(reader, from, count * narrow);
  for (size_t i = 0; i < count && !status; i++, from += narrow)
    to[i] = narrow == 1 ? (int8_t)from[0] : (int16_t)(uint16_t)(from[0] << 8 | from[1]);
  return status;
}

static compute_status read_elements(void *user, void *data, size_t bytes) {
  const idx_reader *reader = user;
  return reader->type->narrow ? read_narrow(reader, data, bytes) : read_bytes(reader, data, bytes);
}

/* ---- The header ---------------------------------------------------------------------------- */

static compute_status read_shape(idx_reader *reader, compute_shape *shape) {
  unsigned char bytes[4 * COMPUTE_MAX_RANK];
  compute_status status = read_bytes(reader, bytes, 4);
  if (status) return status;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (types[i].code == bytes[2]) reader->type = &types[i];
  }
  if (bytes[0] != 0 || bytes[1] != 0 || !reader->type || bytes[3] == 0)
    return refuse(reader, COMPUTE_ERROR_FORMAT, "it does not begin like an IDX file");
  if (bytes[3] > COMPUTE_MAX_RANK)
    return refuse(reader, COMPUTE_ERROR_UNSUPPORTED, "it has more than %d dimensions",
                  COMPUTE_MAX_RANK);
  shape->rank = bytes[3];
  status = read_bytes(reader, bytes, 4 * (size_t)shape->rank);
  for (int32_t i = 0; i < shape->rank && !status; i++) {
    const unsigned char *b = bytes + 4 * i;
    shape->size[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
  }
  return status;
}

static compute_status check_size(const idx_reader *reader, compute_shape shape,
                                 uint64_t file_bytes) {
  char text[176];
  uint64_t bytes;
  bool fits = tensor_file_bytes(reader->type->dtype, shape, &bytes);
  unsigned widened = reader->type->narrow ? 4 / reader->type->narrow : 1;
  if (fits && bytes / widened / MAX_RATIO <= file_bytes) return COMPUTE_OK;
  return refuse(reader, COMPUTE_ERROR_FORMAT, "its %" PRIu64 " bytes cannot hold %s", file_bytes,
                compute_shape_text(shape, text, sizeof text));
}

static compute_status read_file(idx_reader *reader, compute_device *device, uint64_t file_bytes,
                                compute_tensor **tensor) {
  element_format format = {.shape = {.rank = 0}};
  compute_status status = read_shape(reader, &format.shape);
  if (!status) status = check_size(reader, format.shape, file_bytes);
  if (status) return status;
  format.dtype = reader->type->dtype;
  format.swapped = elements_little_endian() && !reader->type->narrow;
  compute_tensor *made;
  status = elements_read(reader->operation, device, &format, read_elements, reader, &made);
  if (status) return status;
  unsigned char more;
  errno = 0;
  int got = gzread(reader->file, &more, 1); /* also checks the checksum at the end */
  if (got != 0) {
    status = got < 0 ? fail_zlib(reader)
                     : refuse(reader, COMPUTE_ERROR_FORMAT, "extra data follows its elements");
    compute_tensor_release(made);
    return status;
  }
  *tensor = made;
  return COMPUTE_OK;
}

compute_status idx_read(const char *operation, compute_device *device, const char *path,
                        compute_tensor **tensor) {
  idx_reader reader = {device->context, operation, path, NULL, NULL};
  struct stat about;
  if (stat(path, &about) != 0) return file_error(reader.context, operation, path, "open", errno);
  if (!S_ISREG(about.st_mode))
    return error_set(reader.context, COMPUTE_ERROR_FILE, operation, "%s is not a regular file",
                     path);
  errno = 0;
  reader.file = gzopen(path, "rbe");
  if (!reader.file)
    return file_error(reader.context, operation, path, "open", errno ? errno : ENOMEM);
  compute_tensor *made = NULL;
  compute_status status = read_file(&reader, device, (uint64_t)about.st_size, &made);
  int code = gzclose_r(reader.file);
  if (!status && code != Z_OK) {
    status = refuse(&reader, COMPUTE_ERROR_FORMAT, "it is truncated");
    compute_tensor_release(made);
  } else if (!status) {
    *tensor = made;
  }
  return status;
}
