/* SPDX-License-Identifier: MIT */
/* Opens movies. The first bytes identify a file. Raw files have no signature and are recognised by
 * name. */
#include "programs/fit/movie_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/io.h"

#define BLOCK_PIXELS 16384 /* pixels converted at a time */

/* ---- Pixels -------------------------------------------------------------------------------- */

/* memcpy and shifts avoid problems with alignment and aliasing. Compilers vectorise them. */

compute_dtype pixels_dtype(compute_dtype stored) {
  switch (stored) {
  case COMPUTE_U8:
  case COMPUTE_U16: return COMPUTE_U16;
  case COMPUTE_F32:
  case COMPUTE_F64: return COMPUTE_F32;
  default: return COMPUTE_DTYPE_NONE;
  }
}

static void widen(const unsigned char *source, unsigned char *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint16_t value = source[i];
    memcpy(target + 2 * i, &value, 2);
  }
}

static void swap_u16(const unsigned char *source, unsigned char *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint16_t value;
    memcpy(&value, source + 2 * i, 2);
    value = __builtin_bswap16(value);
    memcpy(target + 2 * i, &value, 2);
  }
}

static void swap_f32(const unsigned char *source, unsigned char *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t value;
    memcpy(&value, source + 4 * i, 4);
    value = __builtin_bswap32(value);
    memcpy(target + 4 * i, &value, 4);
  }
}

static void narrow_f64(const unsigned char *source, bool swapped, unsigned char *target,
                       size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t bits;
    double value;
    memcpy(&bits, source + 8 * i, 8);
    if (swapped) bits = __builtin_bswap64(bits);
    memcpy(&value, &bits, 8);
    float narrow = (float)value;
    memcpy(target + 4 * i, &narrow, 4);
  }
}

void pixels_convert(compute_dtype stored, bool swapped, const void *source, void *target,
                    size_t count) {
  if (stored == COMPUTE_U8) {
    widen(source, target, count);
  } else if (stored == COMPUTE_F64) {
    narrow_f64(source, swapped, target, count);
  } else if (swapped) {
    (stored == COMPUTE_U16 ? swap_u16 : swap_f32)(source, target, count);
  } else if (source != target) {
    memcpy(target, source, count * compute_dtype_size(stored));
  }
}

/* ---- Dense files --------------------------------------------------------------------------- */

compute_status movie_read_at(const movie *file, void *data, uint64_t bytes, uint64_t offset,
                             failure *why) {
  char *next = data;
  while (bytes > 0) {
    size_t part = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
    ssize_t got = pread(file->descriptor, next, part, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure_set_system(why, errno, NULL, "cannot read %s", file->path);
    if (got == 0) {
      return failure_set(why, COMPUTE_ERROR_FORMAT, "is something else writing to it?",
                         "%s has become shorter since it was opened", file->path);
    }
    next += got;
    offset += (uint64_t)got;
    bytes -= (uint64_t)got;
  }
  return COMPUTE_OK;
}

static compute_status read_converted(movie *file, uint64_t offset, uint64_t pixels, void *target,
                                     failure *why) {
  unsigned char block[BLOCK_PIXELS * 8], *next = target;
  size_t size = compute_dtype_size(file->stored), made = compute_dtype_size(file->info.dtype);
  compute_status status = COMPUTE_OK;
  while (pixels > 0 && !status) {
    size_t part = pixels < BLOCK_PIXELS ? (size_t)pixels : BLOCK_PIXELS;
    status = movie_read_at(file, block, part * size, offset, why);
    if (status) break;
    pixels_convert(file->stored, file->swapped, block, next, part);
    offset += part * size;
    next += part * made;
    pixels -= part;
  }
  return status;
}

static compute_status read_flat(movie *file, int64_t first, int64_t count, void *pixels,
                                failure *why) {
  uint64_t each = (uint64_t)file->info.rows * (uint64_t)file->info.columns;
  uint64_t size = compute_dtype_size(file->stored), all = (uint64_t)count * each;
  uint64_t offset = file->offset + (uint64_t)first * each * size;
  if (size != compute_dtype_size(file->info.dtype))
    return read_converted(file, offset, all, pixels, why);
  compute_status status = movie_read_at(file, pixels, all * size, offset, why);
  if (!status) pixels_convert(file->stored, file->swapped, pixels, pixels, (size_t)all);
  return status;
}

void movie_use_flat(movie *file) {
  file->read = read_flat;
}

compute_status movie_set_size(movie *file, compute_dtype stored, int64_t count, int64_t rows,
                              int64_t columns, failure *why) {
  if (rows < 1 || columns < 1 || columns > MOVIE_MAX_PIXELS / rows)
    return failure_set(why, COMPUTE_ERROR_FORMAT, NULL,
                       "%s: images of %" PRId64 " rows and %" PRId64 " columns are not possible",
                       file->path, rows, columns);
  file->stored = stored;
  file->info.dtype = pixels_dtype(stored);
  file->info.count = count;
  file->info.rows = rows;
  file->info.columns = columns;
  return COMPUTE_OK;
}

/* ---- NumPy --------------------------------------------------------------------------------- */

/* The library reads the header. The images follow it, dense. */

static compute_status movie_npy_open(movie *file, failure *why) {
  compute_npy_info found;
  compute_status status = compute_npy_inspect(NULL, file->path, &found);
  if (status) {
    compute_error error;
    compute_error_get(NULL, &error);
    return failure_set(why, status, error.remedy, "%s", error.message);
  }
  char shape[96];
  compute_shape_text(found.shape, shape, sizeof shape);
  if (found.shape.rank != 3)
    return failure_set(why, COMPUTE_ERROR_SHAPE, "reshape it and save it again",
                       "%s has the shape %s; it must be [n, rows, columns]", file->path, shape);
  if (pixels_dtype(found.dtype) == COMPUTE_DTYPE_NONE)
    return failure_set(why, COMPUTE_ERROR_DTYPE,
                       "in Python: np.save(path, array.astype(np.float32))",
                       "%s holds %s; images must be uint8, uint16, float32 or float64", file->path,
                       compute_dtype_name(found.dtype));
  if (found.fortran_order)
    return failure_set(why, COMPUTE_ERROR_UNSUPPORTED,
                       "in Python: np.save(path, np.ascontiguousarray(array))",
                       "%s is in Fortran order; its images must be contiguous", file->path);
  status = movie_set_size(file, found.dtype, found.shape.size[0], found.shape.size[1],
                          found.shape.size[2], why);
  if (status) return status;
  file->offset = found.offset;
  file->swapped = found.swapped;
  file->info.format = "NumPy";
  snprintf(file->info.stored, sizeof file->info.stored, "%s%s", compute_dtype_name(found.dtype),
           found.swapped ? ", big-endian" : "");
  movie_use_flat(file);
  return COMPUTE_OK;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static bool has_extension(const char *path, const char *extension) {
  size_t length = strlen(path), tail = strlen(extension);
  return length > tail && strcasecmp(path + length - tail, extension) == 0;
}

static compute_status open_kind(movie *file, failure *why) {
  unsigned char start[8];
  size_t length = file->info.file_bytes < sizeof start ? (size_t)file->info.file_bytes : 8;
  compute_status status = movie_read_at(file, start, length, 0, why);
  if (status) return status;
  if (has_extension(file->path, ".raw")) return movie_raw_open(file, why);
  if (movie_is_tiff(start, length)) return movie_tiff_open(file, why);
  if (length >= 6 && memcmp(start, "\x93NUMPY", 6) == 0) return movie_npy_open(file, why);
  if (has_extension(file->path, ".tif") || has_extension(file->path, ".tiff") ||
      has_extension(file->path, ".npy")) {
    return failure_set(why, COMPUTE_ERROR_FORMAT, "copy or create the file again",
                       "%s is not in the format that its name suggests", file->path);
  }
  return failure_set(why, COMPUTE_ERROR_FORMAT,
                     "images are read from TIFF (.tif), NumPy (.npy) and raw files (.raw with a "
                     ".yaml beside it)",
                     "%s is in an unknown format", file->path);
}

static compute_status open_file(movie *file, failure *why) {
  file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
  if (file->descriptor < 0)
    return failure_set_system(why, errno, NULL, "cannot open %s", file->path);
  struct stat about;
  if (fstat(file->descriptor, &about) != 0) {
    return failure_set_system(why, errno, NULL, "cannot examine %s", file->path);
  }
  if (!S_ISREG(about.st_mode))
    return failure_set(why, COMPUTE_ERROR_FILE, NULL, "%s is not a regular file", file->path);
  file->info.file_bytes = (uint64_t)about.st_size;
  file->info.file_time = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
  return open_kind(file, why);
}

compute_status movie_open_file(const char *path, movie **opened, failure *why) {
  *opened = NULL;
  movie *file = calloc(1, sizeof *file);
  if (file) {
    file->descriptor = -1;
    file->path = strdup(path);
  }
  if (!file || !file->path) {
    movie_close(file);
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to open %s", path);
  }
  compute_status status = open_file(file, why);
  if (status) {
    movie_close(file);
    return status;
  }
  *opened = file;
  return COMPUTE_OK;
}

void movie_close(movie *file) {
  if (!file) return;
  if (file->close_state) file->close_state(file->state);
  if (file->descriptor >= 0) close(file->descriptor);
  free(file->description);
  free(file->path);
  free(file);
}

const movie_info *movie_information(const movie *file) {
  return &file->info;
}

/* Inverts pixels with 0 as white. */
static void invert(const movie *file, uint16_t *pixels, int64_t images) {
  const uint16_t white = file->stored == COMPUTE_U8 ? UINT8_MAX : UINT16_MAX;
  const int64_t count = images * file->info.rows * file->info.columns;
  for (int64_t i = 0; i < count; i++) pixels[i] = (uint16_t)(white - pixels[i]);
}

compute_status movie_read(movie *file, int64_t first, int64_t count, void *pixels, failure *why) {
  if (first < 0 || count < 0 || first > file->info.count || count > file->info.count - first)
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, NULL,
                       "%s has %" PRId64 " images; %" PRId64 " from number %" PRId64
                       " on were requested",
                       file->path, file->info.count, count, first);
  if (count == 0) return COMPUTE_OK;
  compute_status status = file->read(file, first, count, pixels, why);
  if (!status && file->inverted) invert(file, pixels, count);
  return status;
}
