/* SPDX-License-Identifier: MIT */
/* Arrays in .npy files, and TIFFs of one page: see array_file.h. */
#include "programs/fit/array_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "compute/io.h"
#include "programs/fit/movie_file.h"

#define BLOCK_BYTES 65536

/* ---- Single elements ----------------------------------------------------------------------- */

/* Every dtype is converted through double. This is fast enough: these arrays are small, or read
 * once. */

static float from_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                : exponent == 0 ? ldexp(fraction, -24)
                                : ldexp(fraction + 1024, exponent - 25);
  return (float)(bits >> 15 ? -size : size);
}

/* Returns the element at `at` as double. Its dtype must be one that .npy supports. `swapped`: its
 * bytes are in the opposite order. An integer above 2^53 is rounded. */
static double element_load(compute_dtype dtype, bool swapped, const unsigned char *at) {
  size_t size = compute_dtype_size(dtype);
  unsigned char bytes[8];
  for (size_t i = 0; i < size; i++) bytes[i] = at[swapped ? size - 1 - i : i];
  union {
#define FIELD(code, number, name, kind, bytes, type, element) element element_##name;
    COMPUTE_DTYPES(FIELD)
#undef FIELD
  } value = {0};
  memcpy(&value, bytes, size);
  if (dtype == COMPUTE_F16) return (double)from_f16(value.element_f16);
  switch (dtype) {
#define CASE(code, number, name, ...)                                                              \
  case COMPUTE_##code: return (double)value.element_##name;
    COMPUTE_DTYPES(CASE)
#undef CASE
  case COMPUTE_DTYPE_NONE: break;
  }
  return 0;
}

/* Stores `value` at values[index] of f64, f32, i32 or u8. Returns false if the dtype cannot
 * represent it: not a whole number, or too large. */
static bool element_store(compute_dtype dtype, double value, void *values, int64_t index) {
  switch (dtype) {
  case COMPUTE_F64: ((double *)values)[index] = value; return true;
  case COMPUTE_F32: ((float *)values)[index] = (float)value; return true;
  case COMPUTE_I32:
    if (!(value >= INT32_MIN && value <= INT32_MAX && value == floor(value))) return false;
    ((int32_t *)values)[index] = (int32_t)value;
    return true;
  case COMPUTE_U8:
    if (!(value >= 0 && value <= UINT8_MAX && value == floor(value))) return false;
    ((uint8_t *)values)[index] = (uint8_t)value;
    return true;
  default: return false;
  }
}

/* ---- Whole arrays -------------------------------------------------------------------------- */

static compute_status make_room(const char *path, compute_dtype dtype, array_data *array,
                                failure *why) {
  array->dtype = dtype;
  int64_t bytes;
  if (__builtin_mul_overflow(array->count, (int64_t)compute_dtype_size(dtype), &bytes))
    bytes = INT64_MAX;
  array->values = malloc(bytes > 0 ? (size_t)bytes : 1);
  if (array->values) return COMPUTE_OK;
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to read %s", path);
}

static compute_status refuse_value(const char *path, compute_dtype dtype, int64_t index,
                                   double value, failure *why) {
  return failure_set(why, COMPUTE_ERROR_FORMAT, NULL,
                     "%s: element %" PRId64 " is %.9g; it must hold %s", path, index, value,
                     dtype == COMPUTE_U8 ? "whole numbers from 0 to 255" : "whole numbers");
}

/* Returns the C-order index of the element at index `place` in Fortran order. */
static int64_t c_place(const compute_shape *shape, int64_t place) {
  int64_t stride = 1, result = 0;
  for (int32_t i = 0; i < shape->rank; i++) stride *= shape->size[i];
  for (int32_t i = 0; i < shape->rank; i++) { /* the first axis is the fastest in the file */
    stride /= shape->size[i];
    result += place % shape->size[i] * stride;
    place /= shape->size[i];
  }
  return result;
}

static compute_status read_elements(const char *path, FILE *file, const compute_npy_info *info,
                                    array_data *array, failure *why) {
  unsigned char block[BLOCK_BYTES];
  size_t size = compute_dtype_size(info->dtype);
  for (int64_t done = 0; done < array->count;) {
    size_t most = BLOCK_BYTES / size, left = (size_t)(array->count - done);
    size_t count = left < most ? left : most;
    if (fread(block, size, count, file) != count)
      return failure_set_system(why, ferror(file) ? errno : EIO, NULL, "cannot read %s", path);
    for (size_t i = 0; i < count; i++, done++) {
      double value = element_load(info->dtype, info->swapped, block + i * size);
      int64_t place = info->fortran_order ? c_place(&info->shape, done) : done;
      if (!element_store(array->dtype, value, array->values, place))
        return refuse_value(path, array->dtype, done, value, why);
    }
  }
  return COMPUTE_OK;
}

static compute_status check_rank(const char *path, const compute_shape *shape, int32_t least,
                                 int32_t most, failure *why) {
  if (shape->rank >= least && shape->rank <= most) return COMPUTE_OK;
  char text[96], range[32];
  snprintf(range, sizeof range, least == most ? "%d" : "%d to %d", least, most);
  return failure_set(why, COMPUTE_ERROR_SHAPE, NULL, "%s has the shape %s; it must have %s axes",
                     path, compute_shape_text(*shape, text, sizeof text), range);
}

static compute_status inspect(const char *path, compute_npy_info *info, failure *why) {
  compute_status status = compute_npy_inspect(NULL, path, info);
  if (status) {
    compute_error error;
    compute_error_get(NULL, &error);
    failure_set(why, status, error.remedy, "%s", error.message);
  }
  return status;
}

static compute_status read_npy(const char *path, compute_dtype dtype, int32_t least, int32_t most,
                               array_data *array, failure *why) {
  compute_npy_info info;
  compute_status status = inspect(path, &info, why);
  if (!status) status = check_rank(path, &info.shape, least, most, why);
  if (status) return status;
  array->shape = info.shape;
  array->count = (int64_t)(info.bytes / compute_dtype_size(info.dtype));
  FILE *file = fopen(path, "rbe");
  if (!file || fseeko(file, (off_t)info.offset, SEEK_SET) != 0) {
    status = failure_set_system(why, errno, NULL, "cannot read %s", path);
  }
  if (!status) status = make_room(path, dtype, array, why);
  if (!status) status = read_elements(path, file, &info, array, why);
  if (file) fclose(file);
  return status;
}

/* Reads an image file with one page. */
static compute_status read_picture(const char *path, compute_dtype dtype, int32_t least,
                                   int32_t most, array_data *array, failure *why) {
  movie *picture;
  compute_status status = movie_open(path, &picture, why);
  if (status) return status;
  const movie_info *info = movie_information(picture);
  array->shape = COMPUTE_SHAPE(info->rows, info->columns);
  array->count = info->rows * info->columns;
  void *pixels = malloc((size_t)array->count * 4);
  if (info->count != 1) {
    status = failure_set(why, COMPUTE_ERROR_SHAPE, "give an image of one page",
                         "%s has %" PRId64 " pages", path, info->count);
  }
  if (!status) status = check_rank(path, &array->shape, least, most, why);
  if (!status) status = make_room(path, dtype, array, why);
  if (!status && !pixels) {
    status = failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to read %s", path);
  }
  if (!status) status = movie_read(picture, 0, 1, pixels, why);
  for (int64_t i = 0; i < array->count && !status; i++) {
    size_t size = compute_dtype_size(info->dtype);
    double value = element_load(info->dtype, false, (unsigned char *)pixels + (size_t)i * size);
    if (!element_store(dtype, value, array->values, i))
      status = refuse_value(path, dtype, i, value, why);
  }
  free(pixels);
  movie_close(picture);
  return status;
}

static bool is_picture(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && (strcasecmp(dot, ".tif") == 0 || strcasecmp(dot, ".tiff") == 0);
}

compute_status array_read(const char *path, compute_dtype dtype, int32_t least_rank,
                          int32_t most_rank, array_data *array, failure *why) {
  *array = (array_data){.values = NULL};
  compute_status status =
      (is_picture(path) ? read_picture : read_npy)(path, dtype, least_rank, most_rank, array, why);
  if (status) {
    free(array->values);
    array->values = NULL;
  }
  return status;
}

/* ---- Slices -------------------------------------------------------------------------------- */

struct array_reader {
  char *path;
  FILE *file;
  compute_npy_info info;
  int64_t each; /* elements of a slice */
  compute_dtype dtype;
};

void array_reader_close(array_reader *reader) {
  if (!reader) return;
  if (reader->file) fclose(reader->file);
  free(reader->path);
  free(reader);
}

static compute_status open_reader(array_reader *reader, int32_t rank, failure *why) {
  compute_status status = inspect(reader->path, &reader->info, why);
  if (!status) status = check_rank(reader->path, &reader->info.shape, rank, rank, why);
  if (status) return status;
  if (reader->info.fortran_order) {
    return failure_set(why, COMPUTE_ERROR_UNSUPPORTED,
                       "in Python: np.save(path, np.ascontiguousarray(array))",
                       "%s is in Fortran order; its rows must be contiguous", reader->path);
  }
  reader->each = 1;
  for (int32_t i = 1; i < rank; i++) reader->each *= reader->info.shape.size[i];
  reader->file = fopen(reader->path, "rbe");
  if (reader->file) return COMPUTE_OK;
  return failure_set_system(why, errno, NULL, "cannot open %s", reader->path);
}

compute_status array_reader_open(const char *path, compute_dtype dtype, int32_t rank,
                                 array_reader **opened, compute_shape *shape, failure *why) {
  *opened = NULL;
  array_reader *reader = calloc(1, sizeof *reader);
  if (reader) reader->path = strdup(path);
  if (!reader || !reader->path) {
    array_reader_close(reader);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to read %s", path);
  }
  reader->dtype = dtype;
  compute_status status = open_reader(reader, rank, why);
  if (status) {
    array_reader_close(reader);
    return status;
  }
  *opened = reader;
  *shape = reader->info.shape;
  return COMPUTE_OK;
}

compute_status array_reader_read(array_reader *reader, int64_t first, int64_t count, void *values,
                                 failure *why) {
  int64_t all = reader->info.shape.size[0];
  if (first < 0 || count < 0 || first > all || count > all - first)
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, NULL,
                       "%s has %" PRId64 " rows; %" PRId64 " from number %" PRId64
                       " on were requested",
                       reader->path, all, count, first);
  uint64_t size = compute_dtype_size(reader->info.dtype);
  uint64_t offset = reader->info.offset + (uint64_t)(first * reader->each) * size;
  if (fseeko(reader->file, (off_t)offset, SEEK_SET) != 0)
    return failure_set_system(why, errno, NULL, "cannot read %s", reader->path);
  array_data target = {.values = values, .dtype = reader->dtype, .count = count * reader->each};
  return read_elements(reader->path, reader->file, &reader->info, &target, why);
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* The header has room for any number of items and is rewritten at the end. */

#define HEAD_BYTES 512

struct array_writer {
  char *path, *incomplete;
  FILE *file;
  compute_dtype dtype;
  compute_shape item;
  size_t item_bytes;
  int64_t count;
};

/* Writes the header for `count` items. Its length is constant. Returns 0 for a dtype that NumPy
 * lacks. */
static size_t make_head(const array_writer *writer, char *text) {
  static const struct {
    compute_dtype dtype;
    const char *code;
  } codes[] = {
#define CODE_FLOAT                                "f"
#define CODE_SIGNED                               "i"
#define CODE_UNSIGNED                             "u"
#define CODE_LOGIC                                "b"
#define ROW(code, number, name, kind, bytes, ...) {COMPUTE_##code, CODE_##kind #bytes},
      COMPUTE_DTYPES(ROW)
#undef ROW
  };
  const char *code = NULL;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (codes[i].dtype == writer->dtype && writer->dtype != COMPUTE_BF16) code = codes[i].code;
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
  return failure_set_system(why, code, NULL, "cannot write %s", writer->path);
}

static compute_status open_writer(array_writer *writer, bool overwrite, failure *why) {
  char head[HEAD_BYTES];
  if (make_head(writer, head) == 0 || writer->item.rank > COMPUTE_MAX_RANK - 1)
    return failure_set(why, COMPUTE_ERROR_DTYPE, NULL, "%s cannot hold items of %s", writer->path,
                       compute_dtype_name(writer->dtype));
  if (!overwrite && access(writer->path, F_OK) == 0)
    return failure_set(why, COMPUTE_ERROR_FILE, NULL, "%s exists; use --force to overwrite it",
                       writer->path);
  writer->file = fopen(writer->incomplete, "wbe");
  if (!writer->file)
    return failure_set_system(why, errno, "write it to another folder", "cannot create %s",
                              writer->path);
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
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to write %s", path);
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
      (fsync(fileno(writer->file)) != 0 && errno != EINVAL))
    code = errno;
  if (!code && rename(writer->incomplete, writer->path) != 0) code = errno;
  compute_status status = code ? fail_write(writer, code, why) : COMPUTE_OK;
  if (status) unlink(writer->incomplete);
  release(writer);
  return status;
}
