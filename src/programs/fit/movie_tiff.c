/* SPDX-License-Identifier: MIT */
/* Movies in TIFF, through libtiff.
 *
 * Opening visits all pages once, so that a page of another size or a truncated file is found before
 * any work. Pages form a linked list. A table of fixed size stores the file offset of every N-th
 * page; N doubles when the table is full. libtiff reads through our functions, and its messages
 * become part of a failure instead of being printed. */
#include "programs/fit/movie_private.h"
#include "programs/fit/movie_scale.h"

#include <string.h>

bool movie_is_tiff(const unsigned char *bytes, size_t length) {
  return length >= 8 && ((bytes[0] == 'I' && bytes[1] == 'I' && bytes[3] == 0 &&
                          (bytes[2] == 42 || bytes[2] == 43)) ||
                         (bytes[0] == 'M' && bytes[1] == 'M' && bytes[2] == 0 &&
                          (bytes[3] == 42 || bytes[3] == 43)));
}

#ifdef FIT_WITH_TIFF

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tiffio.h>
#include <unistd.h>

#define TABLE_PAGES     1024
#define MAX_STRIP_BYTES ((uint64_t)1 << 31) /* size of the largest plausible strip or tile */

/* The properties that all pages must share, and the division of a page into strips or tiles. */
typedef struct tiff_page {
  uint32_t rows, columns;
  compute_dtype stored;
  bool tiled;
  uint32_t part_rows, part_columns; /* size of a strip or tile */
  uint16_t compression;
  bool inverted; /* 0 is white */
} tiff_page;

typedef struct tiff_state {
  TIFF *tiff;
  movie *file;
  uint64_t position; /* libtiff's position in the file */
  char words[256];   /* libtiff's first error message */
  tiff_page first;
  int64_t page;                /* libtiff's current page */
  uint64_t table[TABLE_PAGES]; /* offsets of pages 0, stride, 2 stride, … */
  int64_t stride;
  void *part; /* buffer for a strip or tile, allocated when needed */
  size_t part_bytes;
} tiff_state;

/* ---- Callbacks of libtiff ------------------------------------------------------------------ */

static tmsize_t read_bytes(thandle_t handle, void *data, tmsize_t bytes) {
  tiff_state *state = (tiff_state *)handle;
  tmsize_t done = 0;
  while (done < bytes) {
    ssize_t got = pread(state->file->descriptor, (char *)data + done, (size_t)(bytes - done),
                        (off_t)state->position);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += got;
    state->position += (uint64_t)got;
  }
  return done;
}

static tmsize_t write_nothing(thandle_t handle, void *data, tmsize_t bytes) {
  (void)handle;
  (void)data;
  (void)bytes;
  return 0;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence) {
  tiff_state *state = (tiff_state *)handle;
  if (whence == SEEK_CUR)
    offset += state->position;
  else if (whence == SEEK_END)
    offset += state->file->info.file_bytes;
  if (offset > INT64_MAX) return (toff_t)-1;
  return state->position = offset;
}

static int close_nothing(thandle_t handle) {
  (void)handle;
  return 0;
}

static toff_t file_size(thandle_t handle) {
  return ((tiff_state *)handle)->file->info.file_bytes;
}

static void COMPUTE_PRINTF(3, 0)
    note_words(thandle_t handle, const char *module, const char *format, va_list list) {
  tiff_state *state = (tiff_state *)handle;
  (void)module;
  if (!state || state->words[0]) return;
  vsnprintf(state->words, sizeof state->words, format, list);
  for (char *c = state->words; *c; c++) {
    if ((unsigned char)*c < ' ') *c = ' ';
  }
}

static compute_status fail_page(tiff_state *state, int64_t page, const char *doing, failure *why) {
  return failure_set(why, COMPUTE_ERROR_FORMAT,
                     "the file may be truncated; copy or create it again",
                     "%s, page %" PRId64 ": cannot %s%s%s", state->file->path, page + 1, doing,
                     state->words[0] ? ": " : "", state->words);
}

static compute_status fail_memory(const tiff_state *state, failure *why) {
  return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to unpack a page of %s",
                     state->file->path);
}

/* ---- Pages --------------------------------------------------------------------------------- */

static compute_status refuse_page(const tiff_state *state, int64_t page, const char *remedy,
                                  failure *why, const char *what) {
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, remedy, "%s, page %" PRId64 ": %s",
                     state->file->path, page + 1, what);
}

/* Reads the dtype of the pixels, and whether 0 is white. */
static compute_status describe_pixels(const tiff_state *state, int64_t page, tiff_page *found,
                                      failure *why) {
  compute_dtype *stored = &found->stored;
  uint16_t samples, bits, kind, photometric = PHOTOMETRIC_MINISBLACK;
  TIFFGetFieldDefaulted(state->tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
  TIFFGetFieldDefaulted(state->tiff, TIFFTAG_BITSPERSAMPLE, &bits);
  TIFFGetFieldDefaulted(state->tiff, TIFFTAG_SAMPLEFORMAT, &kind);
  TIFFGetField(state->tiff, TIFFTAG_PHOTOMETRIC, &photometric);
  char what[96];
  if (samples != 1 || photometric == PHOTOMETRIC_PALETTE) {
    snprintf(what, sizeof what, "it has %u samples per pixel%s", (unsigned)samples,
             samples == 1 ? ", which name colours" : "");
    return refuse_page(state, page, "convert it to gray values", why, what);
  }
  bool number = kind == SAMPLEFORMAT_UINT || kind == SAMPLEFORMAT_VOID;
  *stored = COMPUTE_DTYPE_NONE;
  if (number && bits == 8)
    *stored = COMPUTE_U8;
  else if (number && bits == 16)
    *stored = COMPUTE_U16;
  else if (kind == SAMPLEFORMAT_IEEEFP && bits == 32)
    *stored = COMPUTE_F32;
  else if (kind == SAMPLEFORMAT_IEEEFP && bits == 64)
    *stored = COMPUTE_F64;
  found->inverted = photometric == PHOTOMETRIC_MINISWHITE;
  if (found->inverted && kind == SAMPLEFORMAT_IEEEFP)
    return refuse_page(state, page, "convert it so that dark is 0", why,
                       "its pixels are floats of which 0 is white");
  if (*stored) return COMPUTE_OK;
  snprintf(what, sizeof what, "its pixels are %u-bit %s", (unsigned)bits,
           kind == SAMPLEFORMAT_INT      ? "signed integers"
           : kind == SAMPLEFORMAT_IEEEFP ? "floats"
           : number                      ? "unsigned integers"
                                         : "of an unsupported kind");
  return refuse_page(state, page,
                     "pixels must be 8 or 16 bits unsigned, or 32 or 64 bits float: convert it",
                     why, what);
}

/* Reads rows, columns, and the size of strips or tiles. */
static compute_status describe_cut(const tiff_state *state, int64_t page, tiff_page *found,
                                   failure *why) {
  TIFF *tiff = state->tiff;
  if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &found->columns) ||
      !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &found->rows) || found->rows == 0 ||
      found->columns == 0 || found->columns > MOVIE_MAX_PIXELS / found->rows)
    return refuse_page(state, page, NULL, why, "its size is invalid");
  found->tiled = TIFFIsTiled(tiff) != 0;
  if (found->tiled) {
    if (!TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &found->part_columns) ||
        !TIFFGetField(tiff, TIFFTAG_TILELENGTH, &found->part_rows))
      return refuse_page(state, page, NULL, why, "its tiles have no size");
  } else {
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &found->part_rows);
    found->part_columns = found->columns;
    if (found->part_rows > found->rows) found->part_rows = found->rows;
  }
  uint64_t part = (uint64_t)found->part_rows * found->part_columns;
  if (part == 0 || part > MAX_STRIP_BYTES / compute_dtype_size(found->stored))
    return refuse_page(state, page, NULL, why, "the size of its strips or tiles is invalid");
  return COMPUTE_OK;
}

static compute_status describe_page(tiff_state *state, int64_t page, tiff_page *found,
                                    failure *why) {
  *found = (tiff_page){.rows = 0};
  compute_status status = describe_pixels(state, page, found, why);
  if (!status) status = describe_cut(state, page, found, why);
  if (status) return status;
  TIFFGetFieldDefaulted(state->tiff, TIFFTAG_COMPRESSION, &found->compression);
  if (TIFFIsCODECConfigured(found->compression)) return COMPUTE_OK;
  char what[96];
  const TIFFCodec *codec = TIFFFindCODEC(found->compression);
  snprintf(what, sizeof what, "libtiff cannot decompress it (%s, compression %u)",
           codec ? codec->name : "unknown", (unsigned)found->compression);
  return refuse_page(state, page, "save it without compression", why, what);
}

/* Describes libtiff's current page and compares it with the first. */
static compute_status check_page(tiff_state *state, int64_t page, tiff_page *found, failure *why) {
  compute_status status = describe_page(state, page, found, why);
  if (status || page == 0) return status;
  const tiff_page *first = &state->first;
  if (found->rows == first->rows && found->columns == first->columns &&
      found->stored == first->stored) {
    if (found->inverted == first->inverted) return COMPUTE_OK;
    return refuse_page(state, page, "save all pages alike", why,
                       "0 is white on it or on the first page, but not on both");
  }
  return failure_set(why, COMPUTE_ERROR_FORMAT, "all pages must have the same size and dtype",
                     "%s: page %" PRId64 " has %u x %u pixels of %s, page 1 %u x %u of %s",
                     state->file->path, page + 1, (unsigned)found->rows, (unsigned)found->columns,
                     compute_dtype_name(found->stored), (unsigned)first->rows,
                     (unsigned)first->columns, compute_dtype_name(first->stored));
}

/* Fails if the page's last strip or tile ends beyond the file. */
static compute_status check_extent(tiff_state *state, int64_t page, const tiff_page *found,
                                   failure *why) {
  uint32_t parts = found->tiled ? TIFFNumberOfTiles(state->tiff) : TIFFNumberOfStrips(state->tiff);
  uint64_t down = (found->rows - 1) / found->part_rows + 1;
  uint64_t across = (found->columns - 1) / found->part_columns + 1;
  if (parts != down * across) return fail_page(state, page, "find all of its parts", why);
  uint64_t offset = TIFFGetStrileOffset(state->tiff, parts - 1);
  uint64_t bytes = TIFFGetStrileByteCount(state->tiff, parts - 1),
           all = state->file->info.file_bytes;
  if (offset == 0 || offset > all || bytes > all - offset) {
    return failure_set(why, COMPUTE_ERROR_FORMAT, "the file is truncated: copy or create it again",
                       "%s, page %" PRId64 ": its pixels would end at byte %" PRIu64
                       ", the file at %" PRIu64,
                       state->file->path, page + 1, offset + bytes, all);
  }
  return COMPUTE_OK;
}

/* Fails if the page's directory, including the offset of the next page, ends beyond the file.
 * libtiff would take a page with a directory truncated there for the last page. */
static compute_status check_directory(tiff_state *state, int64_t page, failure *why) {
  bool big = TIFFIsBigTIFF(state->tiff) != 0, big_endian = TIFFIsBigEndian(state->tiff) != 0;
  unsigned char text[8];
  uint64_t offset = TIFFCurrentDirOffset(state->tiff), size = big ? 8 : 2, entries = 0;
  compute_status status = movie_read_at(state->file, text, size, offset, why);
  if (status) return status;
  for (uint64_t i = 0; i < size; i++) entries = entries << 8 | text[big_endian ? i : size - 1 - i];
  uint64_t left = state->file->info.file_bytes - offset - size, link = big ? 8 : 4;
  if (left >= link && entries <= (left - link) / (big ? 20 : 12)) return COMPUTE_OK;
  return fail_page(state, page, "find the next page", why);
}

/* ---- Finding pages ------------------------------------------------------------------------- */

/* Records the offset of page number `page`; called in order. */
static void note_page(tiff_state *state, int64_t page) {
  if (page % state->stride != 0) return;
  if (page / state->stride == TABLE_PAGES) {
    for (int64_t i = 0; i < TABLE_PAGES / 2; i++) state->table[i] = state->table[2 * i];
    state->stride *= 2;
  }
  state->table[page / state->stride] = TIFFCurrentDirOffset(state->tiff);
}

static compute_status next_page(tiff_state *state, failure *why) {
  state->words[0] = 0;
  if (TIFFReadDirectory(state->tiff)) {
    state->page++;
    return COMPUTE_OK;
  }
  int64_t page = state->page + 1;
  state->page = -1;
  return fail_page(state, page, "read its header", why);
}

static compute_status go_to(tiff_state *state, int64_t page, failure *why) {
  int64_t near = page / state->stride;
  if (state->page > page || state->page < near * state->stride) {
    state->words[0] = 0;
    state->page = near * state->stride;
    if (!TIFFSetSubDirectory(state->tiff, state->table[near])) {
      state->page = -1;
      return fail_page(state, near * state->stride, "read its header", why);
    }
  }
  compute_status status = COMPUTE_OK;
  while (state->page < page && !status) status = next_page(state, why);
  return status;
}

/* Copies the current page's description to the movie; false when out of memory. */
static bool keep_description(tiff_state *state) {
  char *text = NULL;
  if (!TIFFGetField(state->tiff, TIFFTAG_IMAGEDESCRIPTION, &text) || !text) return true;
  state->file->description = strdup(text);
  return state->file->description != NULL;
}

/* The pixel size in nm, from the description and the current page's resolution. */
static double pixel_size(const tiff_state *state) {
  float per_unit = 0;
  uint16_t unit = RESUNIT_NONE;
  if (!TIFFGetField(state->tiff, TIFFTAG_XRESOLUTION, &per_unit)) per_unit = 0;
  if (!TIFFGetFieldDefaulted(state->tiff, TIFFTAG_RESOLUTIONUNIT, &unit)) unit = RESUNIT_NONE;
  return movie_scale(state->file->description, (double)per_unit,
                     unit == RESUNIT_INCH         ? 25.4e6
                     : unit == RESUNIT_CENTIMETER ? 1e7
                                                  : 0);
}

/* Takes the size, dtype and metadata of the movie from its first page. */
static compute_status keep_first(tiff_state *state, const tiff_page *found, failure *why) {
  state->first = *found;
  if (!keep_description(state)) return fail_memory(state, why);
  state->file->info.pixel_size = pixel_size(state);
  return COMPUTE_OK;
}

/* Visits all pages; *pages is their number. */
static compute_status scan_pages(tiff_state *state, int64_t *pages, failure *why) {
  for (;;) {
    tiff_page found;
    compute_status status = check_page(state, state->page, &found, why);
    if (!status) status = check_extent(state, state->page, &found, why);
    if (!status) status = check_directory(state, state->page, why);
    if (!status && state->page == 0) status = keep_first(state, &found, why);
    if (status) return status;
    note_page(state, state->page);
    *pages = state->page + 1;
    if (TIFFLastDirectory(state->tiff)) return COMPUTE_OK;
    status = next_page(state, why);
    if (status) return status;
  }
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* A page on its way to the caller. */
typedef struct tiff_target {
  const tiff_page *page;
  size_t size, made; /* bytes per pixel in the file and in the caller's array */
  unsigned char *pixels;
} tiff_target;

static bool make_room(tiff_state *state, size_t bytes) {
  if (state->part_bytes >= bytes) return true;
  void *part = realloc(state->part, bytes);
  if (!part) return false;
  state->part = part;
  state->part_bytes = bytes;
  return true;
}

static compute_status read_strips(tiff_state *state, const tiff_target *target, failure *why) {
  const tiff_page *page = target->page;
  bool direct = target->size == target->made; /* libtiff has already swapped bytes */
  if (!direct && !make_room(state, (size_t)page->part_rows * page->columns * target->size))
    return fail_memory(state, why);
  for (uint32_t row = 0, strip = 0; row < page->rows; row += page->part_rows, strip++) {
    uint32_t rows = page->rows - row < page->part_rows ? page->rows - row : page->part_rows;
    size_t pixels = (size_t)rows * page->columns, bytes = pixels * target->size;
    unsigned char *goal = target->pixels + (size_t)row * page->columns * target->made;
    void *part = direct ? goal : state->part;
    if (TIFFReadEncodedStrip(state->tiff, strip, part, (tmsize_t)bytes) != (tmsize_t)bytes)
      return fail_page(state, state->page, "unpack its pixels", why);
    if (!direct) pixels_convert(page->stored, false, part, goal, pixels);
    if (page->rows - row <= page->part_rows) break; /* row would overflow */
  }
  return COMPUTE_OK;
}

static void copy_tile(const tiff_state *state, const tiff_target *target, uint32_t row,
                      uint32_t column) {
  const tiff_page *page = target->page;
  uint32_t rows = page->rows - row < page->part_rows ? page->rows - row : page->part_rows;
  uint32_t columns =
      page->columns - column < page->part_columns ? page->columns - column : page->part_columns;
  for (uint32_t i = 0; i < rows; i++) {
    const unsigned char *line =
        (const unsigned char *)state->part + (size_t)i * page->part_columns * target->size;
    size_t place = (size_t)(row + i) * page->columns + column;
    pixels_convert(page->stored, false, line, target->pixels + place * target->made, columns);
  }
}

static compute_status read_tiles(tiff_state *state, const tiff_target *target, failure *why) {
  const tiff_page *page = target->page;
  size_t bytes = (size_t)page->part_rows * page->part_columns * target->size;
  if (!make_room(state, bytes)) return fail_memory(state, why);
  uint32_t tile = 0; /* rows and columns of images and plausible tiles are at most 2^30 */
  for (uint64_t row = 0; row < page->rows; row += page->part_rows) {
    for (uint64_t column = 0; column < page->columns; column += page->part_columns) {
      if (TIFFReadEncodedTile(state->tiff, tile++, state->part, (tmsize_t)bytes) != (tmsize_t)bytes)
        return fail_page(state, state->page, "unpack its pixels", why);
      copy_tile(state, target, (uint32_t)row, (uint32_t)column);
    }
  }
  return COMPUTE_OK;
}

static compute_status read_pages(movie *file, int64_t first, int64_t count, void *pixels,
                                 failure *why) {
  tiff_state *state = file->state;
  tiff_page page;
  tiff_target target = {&page, compute_dtype_size(file->stored),
                        compute_dtype_size(file->info.dtype), pixels};
  compute_status status = COMPUTE_OK;
  for (int64_t i = first; i < first + count && !status; i++) {
    status = go_to(state, i, why);
    /* The file may have changed since it was opened. */
    if (!status) status = check_page(state, i, &page, why);
    if (!status && (page.rows != file->info.rows || page.columns != file->info.columns ||
                    page.stored != file->stored)) {
      status = fail_page(state, i, "recognise it: the file has changed", why);
    }
    if (status) break;
    state->words[0] = 0;
    status = (page.tiled ? read_tiles : read_strips)(state, &target, why);
    target.pixels += (size_t)file->info.rows * (size_t)file->info.columns * target.made;
  }
  return status;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* ImageJ saves a stack above 4 GiB as one page, with the other images contiguously behind it. The
 * description has their number. 0: it is not such a file. */
static int64_t images_of_one_page(const tiff_state *state) {
  const char *text = state->file->description;
  if (!text || strncmp(text, "ImageJ=", 7) != 0 || state->first.compression != COMPRESSION_NONE ||
      state->first.tiled)
    return 0;
  const char *line = strstr(text, "\nimages=");
  long long images = line ? strtoll(line + 8, NULL, 10) : 0;
  return images > 1 ? images : 0;
}

static compute_status use_one_page(movie *file, const tiff_state *state, int64_t images,
                                   failure *why) {
  uint64_t each =
      (uint64_t)state->first.rows * state->first.columns * compute_dtype_size(state->first.stored);
  uint64_t all;
  file->offset = TIFFGetStrileOffset(state->tiff, 0);
  if (__builtin_mul_overflow((uint64_t)images, each, &all) ||
      file->info.file_bytes - file->offset < all)
    return failure_set(why, COMPUTE_ERROR_FORMAT, "the file is truncated: copy or create it again",
                       "%s: its description says %" PRId64 " images, but it has pixels for %" PRIu64
                       " only",
                       file->path, images, (file->info.file_bytes - file->offset) / each);
  file->swapped = TIFFIsByteSwapped(state->tiff) != 0 && state->first.stored != COMPUTE_U8;
  file->info.count = images;
  movie_use_flat(file);
  return COMPUTE_OK;
}

static void close_state(void *pointer) {
  tiff_state *state = pointer;
  if (state->tiff) TIFFClose(state->tiff);
  free(state->part);
  free(state);
}

static compute_status complete(movie *file, tiff_state *state, failure *why) {
  int64_t pages = 0;
  compute_status status = scan_pages(state, &pages, why);
  if (!status)
    status = movie_set_size(file, state->first.stored, pages, state->first.rows,
                            state->first.columns, why);
  if (status) return status;
  file->info.format = "TIFF";
  file->read = read_pages;
  file->inverted = state->first.inverted;
  const TIFFCodec *codec = TIFFFindCODEC(state->first.compression);
  bool packed = state->first.compression != COMPRESSION_NONE;
  int64_t images = pages == 1 ? images_of_one_page(state) : 0;
  snprintf(file->info.stored, sizeof file->info.stored, "%s%s, %" PRId64 " page%s%s%.16s%s",
           TIFFIsBigTIFF(state->tiff) ? "BigTIFF, " : "", compute_dtype_name(file->stored), pages,
           pages == 1 ? "" : "s", packed ? ", " : "", packed && codec ? codec->name : "",
           file->inverted ? ", 0 is white" : "");
  return images ? use_one_page(file, state, images, why) : COMPUTE_OK;
}

compute_status movie_tiff_open(movie *file, failure *why) {
  tiff_state *state = calloc(1, sizeof *state);
  if (!state)
    return failure_set(why, COMPUTE_ERROR_OUT_OF_MEMORY, NULL, "out of memory to open %s",
                       file->path);
  state->file = file;
  state->stride = 1;
  file->state = state;
  file->close_state = close_state;
  TIFFSetErrorHandler(NULL);
  TIFFSetWarningHandler(NULL);
  TIFFSetErrorHandlerExt(note_words);
  /* m: do not map the file. O: read the strip tables on demand, in parts. */
  state->tiff = TIFFClientOpen(file->path, "rmO", (thandle_t)state, read_bytes, write_nothing, seek,
                               close_nothing, file_size, NULL, NULL);
  if (!state->tiff) return fail_page(state, 0, "read its header", why);
  return complete(file, state, why);
}

#else

compute_status movie_tiff_open(movie *file, failure *why) {
  return failure_set(why, COMPUTE_ERROR_UNSUPPORTED, "build it again with libtiff's headers",
                     "%s cannot be read: this program was built without libtiff", file->path);
}

#endif
