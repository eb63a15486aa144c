/* SPDX-License-Identifier: MIT */
/* Files of simulated images; see simulation.h. array_file.h writes .npy. */
#include "programs/fit/simulation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/fit/array_file.h"
#include "programs/fit/side_car.h"
#include "programs/fit/whole_file.h"

#ifdef FIT_WITH_TIFF
#include <tiffio.h>
#else
typedef struct tiff TIFF;
#endif

struct image_file {
  char path[4096], temporary[4096];
  compute_dtype dtype;
  int64_t count, rows, columns, written;
  size_t image_bytes;
  array_writer *array; /* exactly one of these three is set */
  TIFF *tiff;
  FILE *raw;
};

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length > wanted && !strcasecmp(text + length - wanted, end);
}

/* ---- TIFF ---------------------------------------------------------------------------------- */

#ifdef FIT_WITH_TIFF

static compute_status tiff_create(image_file *f, failure *why) {
  /* Classic TIFF ends at 4 GiB. A page takes some bytes in addition to its pixels. */
  const double bytes = (double)f->count * ((double)f->image_bytes + 400);
  TIFFSetErrorHandler(NULL);
  TIFFSetWarningHandler(NULL);
  errno = 0;
  f->tiff = TIFFOpen(f->temporary, bytes > 3.9e9 ? "w8" : "w");
  if (f->tiff) return COMPUTE_OK;
  return failure_set_system(why, errno ? errno : EIO, "", "'%s' could not be written", f->path);
}

static compute_status tiff_append(image_file *f, const void *pixels, failure *why) {
  TIFF *t = f->tiff;
  const int bits = f->dtype == COMPUTE_U16 ? 16 : 32;
  errno = 0;
  bool good =
      TIFFSetField(t, TIFFTAG_IMAGEWIDTH, (uint32_t)f->columns) &&
      TIFFSetField(t, TIFFTAG_IMAGELENGTH, (uint32_t)f->rows) &&
      TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, bits) && TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 1) &&
      TIFFSetField(t, TIFFTAG_SAMPLEFORMAT, bits == 16 ? SAMPLEFORMAT_UINT : SAMPLEFORMAT_IEEEFP) &&
      TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK) &&
      TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) &&
      TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, (uint32_t)f->rows);
  /* libtiff would swap bytes in place for another byte order. The byte orders are always equal
   * here. */
  good = good && TIFFWriteEncodedStrip(t, 0, (void *)(uintptr_t)pixels, (tmsize_t)f->image_bytes) ==
                     (tmsize_t)f->image_bytes;
  good = good && TIFFWriteDirectory(t);
  if (good) return COMPUTE_OK;
  return failure_set_system(why, errno ? errno : EIO, "",
                            "'%s' could not be written, page %" PRId64, f->path, f->written);
}

static bool tiff_close(image_file *f) {
  errno = 0;
  const bool good = TIFFFlush(f->tiff) == 1;
  TIFFClose(f->tiff);
  f->tiff = NULL;
  return good;
}

#else

static compute_status tiff_create(image_file *f, failure *why) {
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "write .npy or .raw instead",
                     "'%s': this compute-fit was built without libtiff", f->path);
}

static compute_status tiff_append(image_file *f, const void *pixels, failure *why) {
  (void)pixels;
  return tiff_create(f, why);
}

static bool tiff_close(image_file *f) {
  return !f->tiff;
}

#endif

/* ---- Raw ----------------------------------------------------------------------------------- */

static compute_status write_sidecar(const image_file *f, failure *why) {
  const uint16_t one = 1;
  const bool little = *(const unsigned char *)&one == 1;
  whole_file yaml;
  char *path = side_car_path(f->path);
  if (!path)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, "", "out of memory to write '%s'",
                       f->path);
  compute_status status = whole_file_open(&yaml, path, why);
  if (!status) {
    fprintf(yaml.stream,
            "Byte Order: '%s'\nData Type: %s\nFrames: %" PRId64 "\nHeight: %" PRId64
            "\nWidth: %" PRId64 "\n",
            little ? "<" : ">", f->dtype == COMPUTE_U16 ? "uint16" : "float32", f->count, f->rows,
            f->columns);
    status = whole_file_close(&yaml, COMPUTE_OK, why);
  }
  free(path);
  return status;
}

bool image_file_has_tiff(void) {
#ifdef FIT_WITH_TIFF
  return true;
#else
  return false;
#endif
}

/* ---- All ----------------------------------------------------------------------------------- */

static compute_status open_format(image_file *f, bool overwrite, failure *why) {
  if (ends_with(f->path, ".npy"))
    return array_writer_create(f->path, f->dtype, COMPUTE_SHAPE(f->rows, f->columns), overwrite,
                               &f->array, why);
  if (!overwrite && access(f->path, F_OK) == 0)
    return failure_set(why, COMPUTE_ERROR_FILE, NULL, "%s exists; use --force to overwrite it",
                       f->path);
  if (ends_with(f->path, ".tif") || ends_with(f->path, ".tiff")) return tiff_create(f, why);
  if (!ends_with(f->path, ".raw"))
    return failure_set(why, COMPUTE_ERROR_INVALID_ARGUMENT, "",
                       "'%s' must end in .npy, .tif or .raw", f->path);
  if (!overwrite && side_car_check(f->path, why)) return COMPUTE_ERROR_FILE;
  f->raw = fopen(f->temporary, "wb");
  if (f->raw) return COMPUTE_OK;
  return failure_set_system(why, errno, "", "'%s' could not be written", f->path);
}

compute_status image_file_create(const char *path, compute_dtype dtype, int64_t count, int64_t rows,
                                 int64_t columns, bool overwrite, image_file **file, failure *why) {
  image_file *f = calloc(1, sizeof *f);
  *file = NULL;
  if (!f) return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, "", "out of memory for '%s'", path);
  if (strlen(path) > sizeof f->path - 32) {
    free(f);
    return failure_set(why, COMPUTE_ERROR_FILE, "", "the name '%.100s…' is too long", path);
  }
  strcpy(f->path, path);
  snprintf(f->temporary, sizeof f->temporary, "%.4070s.incomplete", path);
  f->dtype = dtype;
  f->count = count;
  f->rows = rows;
  f->columns = columns;
  f->image_bytes = (size_t)rows * (size_t)columns * compute_dtype_size(dtype);
  compute_status status = open_format(f, overwrite, why);
  if (status)
    free(f);
  else
    *file = f;
  return status;
}

compute_status image_file_append(image_file *f, int64_t images, const void *pixels, failure *why) {
  if (f->array) return array_writer_append(f->array, images, pixels, why);
  if (f->raw) {
    if (fwrite(pixels, f->image_bytes, (size_t)images, f->raw) == (size_t)images) return COMPUTE_OK;
    return failure_set_system(why, errno, "", "'%s' could not be written", f->path);
  }
  compute_status status = COMPUTE_OK;
  for (int64_t i = 0; i < images && !status; i++, f->written++)
    status = tiff_append(f, (const char *)pixels + (size_t)i * f->image_bytes, why);
  return status;
}

compute_status image_file_finish(image_file *f, failure *why) {
  compute_status status = COMPUTE_OK;
  if (f->array) {
    status = array_writer_finish(f->array, why);
    free(f);
    return status;
  }
  errno = 0;
  bool good = f->raw ? fclose(f->raw) == 0 : tiff_close(f);
  f->raw = NULL;
  if (good && ends_with(f->path, ".raw")) status = write_sidecar(f, why);
  if (!status && (!good || rename(f->temporary, f->path)))
    status = failure_set_system(why, errno ? errno : EIO, "", "'%s' could not be written", f->path);
  if (status) remove(f->temporary);
  free(f);
  return status;
}

void image_file_abandon(image_file *f) {
  if (!f) return;
  array_writer_abandon(f->array);
  if (f->raw) fclose(f->raw);
  if (f->tiff) tiff_close(f);
  if (!f->array) remove(f->temporary);
  free(f);
}
